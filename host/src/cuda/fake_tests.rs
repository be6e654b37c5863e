//! The whole backend on a fake driver: the conformance suite, and what only this backend does.

use std::sync::Arc;

use scheidegg_conformance::suite;
use scheidegg_conformance::synth::Detector;
use scheidegg_finder::{
    Backend, ClusterSize, Clusters, Error, Finder, FrameOwner, Frames, Params, Payload, Precision, Result,
    Shape,
};

use super::fake::{EAGER, FIRST, RANDOM, SMALL};
use super::{CudaBackend, CudaFinder, Options, Output, RegisteredFrames, RegisteredSlice};

fn conforms(options: Options) {
    let report =
        suite::run(&CudaBackend::new(options), &suite::Options { random_runs: 20, ..Default::default() });
    report.assert();
    assert!(report.passed.len() > 20, "{report}");
}

#[test]
fn conforms_with_work_done_as_late_as_possible() {
    conforms(Options { devices: vec![FIRST], ..Options::default() });
}

#[test]
fn conforms_with_work_done_at_once_and_no_room_at_first() {
    conforms(Options {
        devices: vec![EAGER],
        capacity: Some(1),
        chunk_frames: Some(10),
        slots: 3,
        output: Output::Copied,
        graphs: false,
        ..Options::default()
    });
}

#[test]
fn conforms_with_work_done_at_random() {
    conforms(Options {
        devices: vec![RANDOM],
        chunk_frames: Some(11),
        frames_per_launch: Some(2),
        slots: 2,
        output: Output::Copied,
        timing: true,
        ..Options::default()
    });
}

#[test]
fn conforms_on_several_gpus() {
    conforms(Options {
        devices: vec![RANDOM, FIRST, EAGER],
        chunk_frames: Some(9),
        capacity: Some(2),
        ..Options::default()
    });
}

const SIDE: usize = 24;

struct Bench {
    shape: Shape,
    params: Params,
    darks: Vec<u16>,
    data: Vec<u16>,
}

impl Bench {
    fn new(lanes: usize, precision: Precision) -> Bench {
        scheidegg_conformance::watchdog::over_this_test();
        let shape = Shape::new(SIDE, SIDE + 9).unwrap();
        let mut detector = Detector::new(shape, 7);
        let size = ClusterSize::square(3).unwrap();
        Bench {
            shape,
            params: Params {
                lanes,
                precision,
                payload: Payload::I16,
                pedestal_samples: 20,
                ..Params::new(size)
            },
            darks: detector.darks(20),
            data: detector.photons(41, 0.02),
        }
    }

    fn frames(&self) -> Frames<'_> {
        Frames::new(&self.data, self.shape).unwrap()
    }

    fn finder(&self, options: &Options) -> CudaFinder {
        let mut finder = CudaFinder::new(self.shape, &self.params, options).unwrap();
        finder.train(Frames::new(&self.darks, self.shape).unwrap()).unwrap();
        finder
    }

    /// Frames, records and pedestals as the oracle has them.
    fn expected(&self) -> Found {
        let mut finder = scheidegg_cpu::OracleBackend::new().build(self.shape, &self.params).unwrap();
        finder.train(Frames::new(&self.darks, self.shape).unwrap()).unwrap();
        let mut found = Found::default();
        finder.find(self.frames(), &mut |c| found.take(&c)).unwrap();
        found.end(&mut *finder, self.params.lanes);
        found
    }
}

#[derive(Debug, Default, PartialEq)]
struct Found {
    frames: Vec<Vec<u8>>,
    pedestals: Vec<scheidegg_finder::Pedestal>,
}

impl Found {
    fn take(&mut self, c: &Clusters<'_>) -> Result<()> {
        self.frames.extend((0..c.frames()).map(|k| c.frame_bytes(k).to_vec()));
        Ok(())
    }

    fn end(&mut self, finder: &mut dyn Finder, lanes: usize) {
        self.pedestals = (0..lanes).map(|l| finder.pedestal(l).unwrap()).collect();
    }
}

#[test]
fn results_do_not_depend_on_how_the_gpu_works() {
    for (lanes, precision) in [(1, Precision::F32), (3, Precision::F64F32)] {
        let b = Bench::new(lanes, precision);
        let want = b.expected();
        assert!(want.frames.iter().map(Vec::len).sum::<usize>() > 41 * 22);
        for devices in [vec![FIRST], vec![RANDOM], vec![EAGER, FIRST]] {
            for (chunk, slots, launch) in [(1, 1, 1), (4, 3, 0), (7, 2, 3), (16, 4, 0), (64, 1, 5)] {
                for output in Output::ALL {
                    for graphs in [true, false] {
                        for capacity in [None, Some(1)] {
                            let options = Options {
                                devices: devices.clone(),
                                chunk_frames: Some(chunk),
                                slots,
                                // 0: all blocks at once.
                                frames_per_launch: Some(launch).filter(|n| *n > 0),
                                capacity,
                                output,
                                graphs,
                                timing: false,
                            };
                            let mut finder = b.finder(&options);
                            finder.reserve().unwrap();
                            let mut got = Found::default();
                            finder.find(b.frames(), &mut |c| got.take(&c)).unwrap();
                            got.end(&mut finder, lanes);
                            assert!(got == want, "{options:?}");
                            assert_eq!(finder.statistics().redone > 0, capacity.is_some(), "{options:?}");
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn there_is_room_for_exactly_the_count() {
    let b = Bench::new(1, Precision::F32);
    let want = b.expected();
    for (k, frame) in want.frames.iter().enumerate() {
        let count = frame.len() / 22;
        if count < 2 {
            continue;
        }
        for (capacity, redone) in [(count, 0), (count - 1, 1)] {
            let options = Options {
                devices: vec![FIRST],
                chunk_frames: Some(1),
                capacity: Some(capacity),
                ..Options::default()
            };
            // The same pedestal as at frame `k` of the run, then that frame alone.
            let mut finder = b.finder(&Options { devices: vec![FIRST], ..Options::default() });
            finder.find(b.frames().slice(0, k), &mut |_| Ok(())).unwrap();
            let pedestal = finder.pedestal(0).unwrap();
            let mut finder = b.finder(&options);
            finder.set_pedestal(&pedestal).unwrap();
            let t = finder.submit(b.frames().slice(k, 1)).unwrap();
            assert_eq!(finder.collect(t).unwrap().bytes(), frame);
            let tile_too = finder.statistics().redone;
            // The room of a tile is that of the frame at most, so a tile may overflow with it but not without.
            assert_eq!(tile_too, redone, "frame {k}: {count} clusters, room for {capacity}");
        }
    }
}

#[test]
fn frames_are_read_where_they_lie_with_gaps_and_from_owners() {
    let b = Bench::new(2, Precision::F32);
    let want = b.expected();
    let n = b.shape.pixels();
    // Small gaps travel along; large ones are packed on the way.
    for gap in [0, 3, 5000] {
        let mut spread = Vec::new();
        for f in b.data.chunks(n) {
            spread.extend_from_slice(f);
            spread.resize(spread.len() + gap, 0xeeee);
        }
        for devices in [vec![FIRST], vec![RANDOM, FIRST]] {
            let options = Options { devices, chunk_frames: Some(6), ..Options::default() };
            let locked = RegisteredSlice::new(FIRST, &spread).unwrap();
            let frames = Frames::strided(locked.pixels(), b.shape, 41, n + gap).unwrap();
            let mut finder = b.finder(&options);
            let mut got = Found::default();
            finder.find(frames, &mut |c| got.take(&c)).unwrap();
            got.end(&mut finder, 2);
            assert!(got == want, "gaps of {gap}, {options:?}");
        }
    }
    // Owners, page-locked and not, and a buffer of the finder's own.
    let mut finder = b.finder(&Options { devices: vec![FIRST], chunk_frames: Some(8), ..Options::default() });
    let mut got = Found::default();
    let mut owners: Vec<Arc<dyn FrameOwner>> = Vec::new();
    for part in b.data.chunks(8 * n) {
        owners.push(match owners.len() % 2 {
            0 => Arc::new(RegisteredFrames::from_vec(FIRST, part.to_vec(), b.shape).unwrap()),
            _ => {
                let mut buffer = finder.frame_buffer(part.len() / n).unwrap();
                for (k, f) in part.chunks(n).enumerate() {
                    buffer
                        .push(k as u64, |p| {
                            p.copy_from_slice(f);
                            Ok(None)
                        })
                        .unwrap();
                }
                Arc::new(buffer)
            }
        });
    }
    let mut flight = std::collections::VecDeque::new();
    for owner in owners.drain(..) {
        flight.push_back(finder.submit_shared(owner).unwrap());
        if flight.len() == finder.slots() {
            let t = flight.pop_front().unwrap();
            got.take(&finder.collect(t).unwrap()).unwrap();
        }
    }
    for t in flight {
        got.take(&finder.collect(t).unwrap()).unwrap();
    }
    got.end(&mut finder, 2);
    assert!(got == want);
}

#[test]
fn a_frame_buffer_may_be_refilled_when_its_frames_were_copied() {
    let b = Bench::new(1, Precision::F32);
    let want = b.expected();
    let mut finder = b.finder(&Options { devices: vec![FIRST], chunk_frames: Some(4), ..Options::default() });
    let n = b.shape.pixels();
    let (mut got, mut scrap) = (Found::default(), vec![0u16; 4 * n]);
    let mut flight = std::collections::VecDeque::new();
    for part in b.data.chunks(4 * n) {
        // The same memory for every batch: `submit` must not need it any longer when it returns.
        scrap[..part.len()].copy_from_slice(part);
        flight.push_back(finder.submit(Frames::new(&scrap[..part.len()], b.shape).unwrap()).unwrap());
        scrap.fill(0);
        if flight.len() == finder.slots() {
            let t = flight.pop_front().unwrap();
            got.take(&finder.collect(t).unwrap()).unwrap();
        }
    }
    for t in flight {
        got.take(&finder.collect(t).unwrap()).unwrap();
    }
    got.end(&mut finder, 1);
    assert!(got == want);
}

#[test]
fn the_kernels_can_be_timed_without_changing_anything() {
    let b = Bench::new(1, Precision::F32);
    let want = b.expected();
    let mut finder = b.finder(&Options {
        devices: vec![RANDOM],
        chunk_frames: Some(8),
        timing: true,
        ..Options::default()
    });
    assert!(matches!(finder.time_kernels(1), Err(Error::Param { .. })));
    let mut got = Found::default();
    for part in b.frames().batches(8) {
        let t = finder.submit(part).unwrap();
        got.take(&finder.collect(t).unwrap()).unwrap();
        assert_eq!(finder.timing().unwrap().frames, part.len());
        assert!(finder.time_kernels(3).unwrap().find_s > 0.0);
    }
    got.end(&mut finder, 1);
    assert!(got == want);
}

#[test]
fn one_lane_keeps_one_gpu_busy_and_says_so() {
    let b = Bench::new(1, Precision::F32);
    let finder = b.finder(&Options { devices: vec![FIRST, EAGER], ..Options::default() });
    assert!(finder.explain().contains("GPU [1001] has nothing to do"), "{}", finder.explain());
    assert_eq!(finder.explain().matches("chunks of").count(), 1);
}

#[test]
fn what_does_not_fit_the_gpu_says_what_would() {
    let b = Bench::new(1, Precision::F32);
    let mut finder =
        b.finder(&Options { devices: vec![SMALL], chunk_frames: Some(4096), ..Options::default() });
    let e = finder.reserve().unwrap_err().to_string();
    assert!(e.contains("cuMemAlloc") && e.contains("smaller chunk_frames"), "{e}");
    // In small chunks it does fit.
    let mut finder =
        b.finder(&Options { devices: vec![SMALL], chunk_frames: Some(16), ..Options::default() });
    finder.find(b.frames(), &mut |_| Ok(())).unwrap();
}
