//! The conformance suite on every backend of the project.

use scheidegg::Backend;
use scheidegg::cuda::{self, CudaBackend, Output};
use scheidegg::sim::{SimBackend, SimOptions};
use scheidegg_conformance::suite::{self, Options};
use scheidegg_cpu::OracleBackend;

/// One test a backend: name of the test, how the backend is made.
macro_rules! conforms {
    ($($test:ident: $backend:expr;)+) => {
        $(#[test]
        fn $test() {
            let backend: Box<dyn Backend> = Box::new($backend);
            suite::run(backend.as_ref(), &Options::default()).assert();
        })+
    };
}

// Every backend of the registry has its line here: a name for the test, and how the backend is made. `cpu` has them in
// `cpu.rs`, one an instruction set. A backend that is not there is a counted skip.
conforms! {
    oracle: OracleBackend::new();
    oracle_with_2_threads: OracleBackend::with_threads(2).unwrap();
    oracle_with_3_threads: OracleBackend::with_threads(3).unwrap();
    oracle_with_7_threads: OracleBackend::with_threads(7).unwrap();
    sim: SimBackend::new();
    sim_with_capacity_1_and_a_frame_a_launch: SimBackend::with_options(SimOptions {
        frames_per_launch: 1,
        chunk_frames: 3,
        tile_capacity: 1,
        chunk_capacity: 0,
        lanes_together: false,
        ..SimOptions::default()
    });
    sim_with_16_frames_a_launch: SimBackend::with_options(SimOptions {
        frames_per_launch: 16,
        chunk_frames: 64,
        multiprocessors: 132,
        ..SimOptions::default()
    });
    cuda: CudaBackend::new(cuda::Options::default());
    cuda_with_capacity_1_and_a_frame_a_chunk: CudaBackend::new(cuda::Options {
        chunk_frames: Some(1),
        frames_per_launch: Some(1),
        capacity: Some(1),
        slots: 1,
        graphs: false,
        ..cuda::Options::default()
    });
    cuda_with_copied_results: CudaBackend::new(cuda::Options {
        chunk_frames: Some(7),
        frames_per_launch: Some(3),
        output: Output::Copied,
        slots: 2,
        ..cuda::Options::default()
    });
}
