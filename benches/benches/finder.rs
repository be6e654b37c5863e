//! Criterion over every backend that is there: a group per backend, window, precision and mode, in frames a second and
//! in bytes of raw frames a second. Every iteration asserts the clusters that it found.
//!
//! `cargo bench -p scheidegg-benches --bench finder -- cpu` runs the groups of one backend. All of them take ten minutes,
//! most of which are `sim`'s.

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use scheidegg::io::simulate::Simulation;
use scheidegg::{Backend, ClusterSize, Finder, Frames, Noise, Params, Precision, Registry, Shape, Update};
use scheidegg_cpu::simd::CpuBackend;

const DARKS: usize = 1000;
const FRAMES: usize = 32;

/// A simulated MÖNCH in copper fluorescence without faults.
struct Light {
    shape: Shape,
    darks: Vec<u16>,
    data: Vec<u16>,
}

impl Light {
    fn new() -> Light {
        let simulator = Simulation::default().without_faults().build().expect("a simulation");
        let shape = simulator.shape();
        let take = |count: usize, dark: bool| {
            let mut pixels = vec![0u16; count * shape.pixels()];
            for (k, frame) in pixels.chunks_exact_mut(shape.pixels()).enumerate() {
                match dark {
                    true => Arc::clone(&simulator).dark(k as u64, frame),
                    false => Arc::clone(&simulator).frame(k as u64, frame),
                };
            }
            pixels
        };
        Light { shape, darks: take(DARKS, true), data: take(FRAMES, false) }
    }

    fn frames(&self) -> Frames<'_> {
        Frames::new(&self.data, self.shape).expect("whole frames")
    }
}

/// One pass over all frames, in as many batches as the backend likes. Returns the clusters.
fn pass(finder: &mut dyn Finder, frames: Frames<'_>) -> u64 {
    let mut clusters = 0;
    if frames.is_empty() {
        // Nothing but the start of a run, which is not part of the work to be timed.
        let ticket = finder.submit(frames).expect("an empty batch");
        return finder.collect(ticket).expect("an empty batch").len() as u64;
    }
    let mut count = |batch: scheidegg::Clusters<'_>| {
        clusters += black_box(batch).len() as u64;
        Ok(())
    };
    finder.find(frames, &mut count).expect("clusters");
    clusters
}

fn modes() -> Vec<Params> {
    let mut all = Vec::new();
    for side in [3, 5, 7, 9] {
        let size = ClusterSize::square(side).expect("a side within 2 to 15");
        for precision in Precision::ALL {
            for (update, noise) in [
                (Update::Frozen, Noise::Tracked),
                (Update::Frozen, Noise::Fixed),
                (Update::Serial, Noise::Tracked),
            ] {
                all.push(Params { precision: *precision, update, noise, ..Params::new(size) });
            }
        }
    }
    all
}

fn measure(c: &mut Criterion, backend: &dyn Backend, id: &str, light: &Light) {
    for params in modes() {
        let Params { size, precision, update, noise, .. } = params;
        let Ok(mut finder) = backend.build(light.shape, &params) else { continue };
        finder.train(Frames::new(&light.darks, light.shape).expect("whole frames")).expect("training");
        let trained = finder.pedestal(0).expect("a pedestal");
        let expected = pass(&mut *finder, light.frames());
        assert!(expected > 500 * FRAMES as u64, "{expected} clusters: no light");
        let mut group = c.benchmark_group(format!("{id}/{size}/{precision}/{update}-{noise}"));
        group
            .warm_up_time(Duration::from_millis(200))
            .measurement_time(Duration::from_secs(1))
            .sample_size(10);
        for throughput in [
            ("frames", Throughput::Elements(FRAMES as u64)),
            ("bytes", Throughput::Bytes((FRAMES * light.shape.pixels() * 2) as u64)),
        ] {
            group.throughput(throughput.1);
            group.bench_function(BenchmarkId::from_parameter(throughput.0), |b| {
                b.iter_custom(|times| {
                    let mut took = Duration::ZERO;
                    for _ in 0..times {
                        // Every pass starts from the trained pedestal, and finds the same.
                        finder.set_pedestal(&trained).expect("its own pedestal");
                        pass(&mut *finder, light.frames().slice(0, 0));
                        let start = Instant::now();
                        let found = pass(&mut *finder, light.frames());
                        took += start.elapsed();
                        assert_eq!(found, expected, "{id} {size} {precision} {update} {noise}");
                    }
                    took
                });
            });
        }
        group.finish();
    }
}

fn backends(c: &mut Criterion) {
    let light = Light::new();
    let one = CpuBackend::new().threads(1).expect("one thread");
    measure(c, &one, "cpu-1-thread", &light);
    for backend in Registry::standard().iter() {
        match backend.probe() {
            // The oracle is the judge, not a racer: seconds a pass.
            Ok(_) if backend.name().starts_with("oracle") => {}
            Ok(_) => measure(c, backend, backend.name(), &light),
            Err(e) => println!("SKIPPED: {e}"),
        }
    }
}

criterion_group!(finder, backends);
criterion_main!(finder);
