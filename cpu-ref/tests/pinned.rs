//! Pinned threads: more of them than processors are refused, and the result is that of threads left alone.

use scheidegg_cpu::CpuBackend;
use scheidegg_finder::{Backend, ClusterSize, Frames, Params, Shape};

const SHAPE: Shape = Shape { rows: 64, cols: 48 };

#[test]
fn more_pinned_threads_than_processors_are_refused() {
    let params = Params::new(ClusterSize::square(3).expect("a side within 2 to 15"));
    let Some(error) =
        CpuBackend::new().threads(1024).and_then(|b| b.pinned(true).build(SHAPE, &params)).err()
    else {
        panic!("1024 pinned threads were given a processor each");
    };
    let message = error.to_string();
    assert!(message.contains("1024"), "{message}");
    assert!(!cfg!(target_os = "linux") || message.contains("processors of this process"), "{message}");
}

#[test]
fn pinned_threads_find_the_same() {
    let params = Params {
        pedestal_samples: 20,
        ..Params::new(ClusterSize::square(3).expect("a side within 2 to 15"))
    };
    let noise = |i: usize| 1000 + (i.wrapping_mul(2_654_435_761) >> 7) as u16 % 16;
    let pixels = SHAPE.pixels();
    let darks: Vec<u16> = (0..20 * pixels).map(noise).collect();
    let data: Vec<u16> = (0..30 * pixels).map(|i| noise(i) + if i % 89 == 0 { 600 } else { 0 }).collect();
    let frames = |v| Frames::new(v, SHAPE).expect("whole frames");
    let mut all = Vec::new();
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get()).min(2);
    for pinned in [false, true] {
        let backend = CpuBackend::new().threads(threads).expect("threads").pinned(pinned);
        let mut finder = match backend.build(SHAPE, &params) {
            Ok(finder) => finder,
            Err(e) if cfg!(not(target_os = "linux")) => {
                println!("SKIPPED: {e}");
                return;
            }
            Err(e) => panic!("{e}"),
        };
        finder.train(frames(&darks)).expect("training");
        let mut bytes = Vec::new();
        let mut take = |batch: scheidegg_finder::Clusters<'_>| {
            bytes.extend_from_slice(batch.bytes());
            Ok(())
        };
        finder.find(frames(&data), &mut take).expect("clusters");
        assert!(bytes.len() > 1000, "{} bytes: nothing was tested", bytes.len());
        all.push(bytes);
    }
    assert!(all[0] == all[1], "pinned threads found something else");
}
