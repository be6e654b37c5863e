//! In steady state the fast finder allocates nothing: not a byte a frame, not a byte a batch.
//!
//! One test in the file, so that nothing else allocates while it counts.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

use scheidegg_cpu::CpuBackend;
use scheidegg_finder::{
    Backend, ClusterSize, Finder, Frames, LostPixels, Params, Payload, PixelMask, Precision, Shape, Update,
};

static ALLOCATIONS: AtomicUsize = AtomicUsize::new(0);

struct Counting;

// SAFETY: everything is left to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(at, layout) }
    }
    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: as the caller promises.
        unsafe { System.realloc(at, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const SHAPE: Shape = Shape { rows: 64, cols: 90 };
const FRAMES: usize = 48;

/// Noise from a linear congruential generator, and a bright pixel every 97th.
fn frames(count: usize, seed: u64, photons: bool) -> Vec<u16> {
    let mut state = seed;
    (0..count * SHAPE.pixels())
        .map(|i| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let noise = 1000 + (state >> 60) as u16;
            if photons && i % 97 == 0 { noise + 700 } else { noise }
        })
        .collect()
}

fn all(finder: &mut dyn Finder, data: Frames<'_>) -> usize {
    let mut clusters = 0;
    for batch in data.batches(16) {
        let ticket = finder.submit(batch).expect("a batch");
        clusters += finder.collect(ticket).expect("its clusters").len();
    }
    clusters
}

#[test]
fn nothing_is_allocated_in_steady_state() {
    let (darks, data) = (frames(60, 1, false), frames(FRAMES, 2, true));
    let darks = Frames::new(&darks, SHAPE).expect("darks");
    let mut lost = PixelMask::new(SHAPE);
    lost.insert(3, 4);
    let lost = [LostPixels { frame: 5, mask: lost }];
    let data = Frames::new(&data, SHAPE).and_then(|f| f.with_lost(&lost)).expect("frames");
    for update in [Update::Frozen, Update::Serial] {
        for (side, precision, payload, lanes, trace) in [
            (3, Precision::F32, Payload::I32, 1, false),
            (9, Precision::F64F32, Payload::I16, 3, false),
            (4, Precision::F64, Payload::F16, 1, true),
        ] {
            let size = ClusterSize::square(side).expect("a side within 2 to 15");
            let params = Params {
                update,
                precision,
                payload,
                lanes,
                trace,
                pedestal_samples: 60,
                ..Params::new(size)
            };
            for (threads, group, pinned) in [(1, 1, cfg!(target_os = "linux")), (2, 1, false), (2, 3, false)]
            {
                let backend =
                    CpuBackend::new().threads(threads).and_then(|b| b.group(group)).expect("a backend");
                let backend = backend.pinned(pinned);
                let mut finder = backend.build(SHAPE, &params).expect("a finder");
                finder.train(darks).expect("training");
                // Until every buffer that batches take in turn, and every thread's, has been in use.
                let mut clusters = 0;
                for _ in 0..12 {
                    clusters = all(finder.as_mut(), data);
                }
                assert!(clusters > 10 * FRAMES, "{clusters} clusters: nothing was tested");
                // Which thread takes which frame is chance: a late first use of a buffer is not a steady state.
                let least = (0..8)
                    .map(|_| {
                        let before = ALLOCATIONS.load(Ordering::Relaxed);
                        all(finder.as_mut(), data);
                        ALLOCATIONS.load(Ordering::Relaxed) - before
                    })
                    .min();
                assert_eq!(
                    least,
                    Some(0),
                    "{update} {size} {precision}, {threads} threads, groups of {group}"
                );
            }
        }
    }
}
