use std::collections::VecDeque;
use std::sync::Mutex;
use std::time::Duration;

use super::*;
use crate::io::{Batch, Written};
use crate::testing::{CountBackend, CountSource, KeepSink};
use scheidegg_finder::{
    Backend, ClusterSize, Clusters, FrameBuf, Frames, Params, Pedestal, Shape, Statistics, Ticket, Tickets,
};

pub(super) const SHAPE: Shape = Shape { rows: 4, cols: 5 };

pub(super) fn untrained() -> Box<dyn Finder> {
    scheidegg_conformance::watchdog::over_this_test();
    let params = Params { pedestal_samples: 10, ..Params::new(ClusterSize { w: 3, h: 3 }) };
    CountBackend::default().build(SHAPE, &params).unwrap()
}

pub(super) fn trained() -> Box<dyn Finder> {
    let mut finder = untrained();
    Run::new(&mut *finder).train(&mut CountSource::new(SHAPE, 10)).unwrap();
    finder
}

fn expected(range: std::ops::Range<u64>) -> Vec<(u64, usize)> {
    range.map(|k| (k, (k % 3) as usize)).collect()
}

#[test]
fn every_frame_reaches_every_sink_in_order() {
    for count in [0, 1, 3, 4, 5, 8, 101] {
        let (mut a, mut b) = (KeepSink::default(), KeepSink::default());
        let mut finder = trained();
        let mut calls = Vec::new();
        let summary = Run::new(&mut *finder)
            .on_progress(|p| calls.push(*p))
            .find(&mut CountSource::new(SHAPE, count), &mut [&mut a, &mut b])
            .unwrap();
        assert_eq!(a.kept.lock().unwrap().frames, expected(0..count));
        assert!(a.kept.lock().unwrap().finished);
        assert_eq!(*a.kept.lock().unwrap(), *b.kept.lock().unwrap());
        assert_eq!((summary.frames, summary.stopped()), (count, false));
        assert_eq!(summary.clusters, expected(0..count).iter().map(|f| f.1 as u64).sum::<u64>());
        assert_eq!(
            (summary.first_frame, summary.last_frame),
            match count {
                0 => (None, None),
                n => (Some(0), Some(n - 1)),
            }
        );
        assert_eq!(calls.last().map_or(0, |p| p.frames), count);
        assert!(calls.iter().all(|p| p.total == Some(count)));
    }
}

#[test]
fn first_and_frames_choose_and_read_no_frame_more() {
    for (first, frames) in [(0, 1), (3, 7), (6, 8), (2, 4), (0, 0), (5, 500)] {
        let mut source = CountSource::new(SHAPE, 20);
        let mut sink = KeepSink::default();
        let mut finder = trained();
        let summary =
            Run::new(&mut *finder).first(first).frames(frames).find(&mut source, &mut [&mut sink]).unwrap();
        let end = (first + frames).min(20);
        assert_eq!(sink.kept.lock().unwrap().frames, expected(first..end));
        assert_eq!(source.next, end, "first {first}, frames {frames}");
        assert_eq!(summary.health.warnings.len(), usize::from(frames == 500));
    }
    let mut finder = trained();
    let e = Run::new(&mut *finder).first(21).find(&mut CountSource::new(SHAPE, 20), &mut []).unwrap_err();
    assert!(e.to_string().starts_with("count.npy: 20 frames, the first one asked for is 21"), "{e}");
}

#[test]
fn too_few_darks_are_refused_and_more_update() {
    let mut finder = untrained();
    let e = Run::new(&mut *finder).train(&mut CountSource::new(SHAPE, 8)).unwrap_err().to_string();
    assert_eq!(e, "count.npy: 8 dark frames, the pedestal needs 10 (give more, or a window of 8)");
    let mut finder = untrained();
    assert_eq!(Run::new(&mut *finder).train(&mut CountSource::new(SHAPE, 13)).unwrap().frames, 13);
    let updated = finder.pedestal(0).unwrap();
    assert_eq!(updated.samples, 10);
    assert_ne!(updated, trained().pedestal(0).unwrap());
    let mut finder = untrained();
    Run::new(&mut *finder).frames(10).train(&mut CountSource::new(SHAPE, 13)).unwrap();
    assert_eq!(finder.pedestal(0).unwrap(), trained().pedestal(0).unwrap());
}

#[test]
fn an_error_of_the_source_ends_the_run_and_the_sinks_are_complete_up_to_it() {
    let failing = |fail_at, panic_at| CountSource { fail_at, panic_at, ..CountSource::new(SHAPE, 100) };
    for (mut source, said, frames) in [
        (failing(Some(30), None), "count.npy: ends inside frame 30", 30),
        // Nothing is known of the batch that was read.
        (failing(None, Some(30)), "count.npy: internal error while reading", 28),
    ] {
        let mut sink = KeepSink::default();
        let summary = Run::new(&mut *trained()).find(&mut source, &mut [&mut sink]).unwrap();
        assert_eq!(summary.faults().map(|e| e.to_string()).collect::<Vec<_>>(), [said]);
        assert_eq!((summary.frames, summary.last_frame), (frames, Some(frames - 1)));
        let kept = sink.kept.lock().unwrap();
        assert_eq!((&kept.frames, kept.finished), (&expected(0..frames), true));
        let told = &summary.provenance;
        assert_eq!(
            (told.frames, told.ended.how, told.ended.why.as_deref()),
            (frames, How::Fault, Some(said))
        );
    }
    // Nothing was judged: nothing is completed.
    let mut sink = KeepSink::default();
    let e = Run::new(&mut *trained()).find(&mut failing(Some(0), None), &mut [&mut sink]).unwrap_err();
    assert_eq!(e.to_string(), "count.npy: ends inside frame 0");
    assert!(!sink.kept.lock().unwrap().finished);
}

#[test]
fn an_error_of_a_sink_leaves_the_others_and_the_finder_can_be_used_again() {
    let mut finder = trained();
    let (mut bad, mut good) = (KeepSink { fail_at: Some(17), ..KeepSink::default() }, KeepSink::default());
    let mut source = CountSource::new(SHAPE, 10_000);
    let summary = Run::new(&mut *finder).find(&mut source, &mut [&mut good, &mut bad]).unwrap();
    assert_eq!((summary.frames, summary.stopped(), summary.faults().count()), (10_000, false, 1));
    assert_eq!(good.kept.lock().unwrap().frames, expected(0..10_000));
    let [kept, failed] = &summary.sinks[..] else { panic!("{summary:?}") };
    assert!(kept.error.is_none() && kept.written.is_some());
    assert_eq!(failed.error.as_ref().unwrap().to_string(), "out.clust: no space left on device");
    // Whole batches of four frames.
    let told = bad.kept.lock().unwrap().provenance.clone().unwrap();
    assert_eq!((told.frames, told.last_frame, told.ended.how), (16, Some(15), How::NotWritten));

    let mut bad = KeepSink { fail_at: Some(17), ..KeepSink::default() };
    let mut source = CountSource::new(SHAPE, 10_000);
    let summary = Run::new(&mut *finder).find(&mut source, &mut [&mut bad]).unwrap();
    assert!(matches!(summary.ended, Ended::NoSinkLeft), "{summary:?}");
    assert!(source.next < 100, "read {} frames after the error", source.next);
    let again = Run::new(&mut *finder).find(&mut CountSource::new(SHAPE, 9), &mut []).unwrap();
    assert_eq!(again.frames, 9);
}

#[test]
fn the_stop_flag_ends_the_run_at_a_whole_frame() {
    let stop = Arc::new(AtomicBool::new(false));
    let mut sink = KeepSink::default();
    let mut finder = trained();
    let summary = Run::new(&mut *finder)
        .stop_flag(stop.clone())
        .on_progress(|p| stop.store(p.frames >= 12, Ordering::Relaxed))
        .find(&mut CountSource::new(SHAPE, 1_000_000), &mut [&mut sink])
        .unwrap();
    assert!(summary.stopped() && summary.frames >= 12 && summary.frames < 1000, "{summary:?}");
    assert_eq!(summary.last_frame, Some(summary.frames - 1));
    assert_eq!(sink.kept.lock().unwrap().frames, expected(0..summary.frames));
    assert!(sink.kept.lock().unwrap().finished);
    let e = Run::new(&mut *untrained()).stop_flag(stop).train(&mut CountSource::new(SHAPE, 100)).unwrap_err();
    assert!(matches!(e, Error::Stopped));
}

#[test]
fn a_wrong_shape_is_refused_by_the_name_of_the_source() {
    let mut other = CountSource::new(Shape { rows: 5, cols: 4 }, 10);
    let e = Run::new(&mut *trained()).find(&mut other, &mut []).unwrap_err().to_string();
    assert_eq!(e, "count.npy: shape 5 x 4, expected 4 x 5");
    assert!(matches!(Run::new(&mut *untrained()).train(&mut other), Err(Error::ShapeMismatch { .. })));
}

/// Reads the frames only when they are collected, and lets go of them one call later.
struct Late {
    inner: Box<dyn Finder>,
    tickets: Tickets,
    flight: VecDeque<Arc<dyn FrameOwner>>,
    kept: Option<Arc<dyn FrameOwner>>,
    most: Arc<Mutex<usize>>,
    /// Buffers that there is memory for.
    room: Mutex<usize>,
    /// Frames that buffers were asked for.
    asked: Mutex<Vec<usize>>,
    /// What a batch takes to be submitted, and to be collected.
    pauses: [Duration; 2],
    /// Never lets go of frames.
    hoards: bool,
    hoard: Vec<Arc<dyn FrameOwner>>,
}

impl Late {
    fn new(room: usize) -> Late {
        Late {
            inner: trained(),
            tickets: Tickets::new(),
            flight: VecDeque::new(),
            kept: None,
            most: Arc::default(),
            room: Mutex::new(room),
            asked: Mutex::default(),
            pauses: [Duration::ZERO; 2],
            hoards: false,
            hoard: Vec::new(),
        }
    }
}

impl Finder for Late {
    fn shape(&self) -> Shape {
        self.inner.shape()
    }
    fn params(&self) -> &Params {
        self.inner.params()
    }
    fn train(&mut self, darks: Frames<'_>) -> Result<()> {
        self.inner.train(darks)
    }
    fn finish_training(&mut self) -> Result<()> {
        self.inner.finish_training()
    }
    fn refresh_noise(&mut self) -> Result<()> {
        self.inner.refresh_noise()
    }
    fn slots(&self) -> usize {
        3
    }
    fn in_flight(&self) -> usize {
        self.tickets.in_flight()
    }
    fn abandon(&mut self) -> usize {
        self.flight.clear();
        self.tickets.abandon()
    }
    fn batch_frames(&self) -> usize {
        1000
    }
    fn max_batch_frames(&self) -> usize {
        2
    }
    fn frame_buffer(&self, capacity: usize) -> Result<FrameBuf> {
        let mut room = self.room.lock().unwrap();
        *room = room.checked_sub(1).ok_or(Error::Other("no memory".into()))?;
        self.asked.lock().unwrap().push(capacity);
        self.inner.frame_buffer(capacity)
    }
    fn submit(&mut self, _: Frames<'_>) -> Result<Ticket> {
        unreachable!("frames are shared")
    }
    fn submit_shared(&mut self, frames: Arc<dyn FrameOwner>) -> Result<Ticket> {
        assert!(self.flight.len() < 3 && frames.frames().len() <= 2);
        thread::sleep(self.pauses[0]);
        self.kept = None;
        self.flight.push_back(frames);
        let mut most = self.most.lock().unwrap();
        *most = self.flight.len().max(*most);
        Ok(self.tickets.issue())
    }
    fn collect(&mut self, ticket: Ticket) -> Result<Clusters<'_>> {
        self.tickets.redeem(ticket)?;
        thread::sleep(self.pauses[1]);
        let frames = self.flight.pop_front().unwrap();
        let ticket = self.inner.submit(frames.frames())?;
        if self.hoards {
            self.hoard.push(frames.clone());
        }
        self.kept = Some(frames);
        self.inner.collect(ticket)
    }
    fn pedestal(&mut self, lane: usize) -> Result<Pedestal> {
        self.inner.pedestal(lane)
    }
    fn set_pedestal(&mut self, pedestal: &Pedestal) -> Result<()> {
        self.inner.set_pedestal(pedestal)
    }
    fn statistics(&self) -> Statistics {
        self.inner.statistics()
    }
}

#[test]
fn buffers_in_flight_are_never_filled_again_however_few_there_are() {
    for room in 0..=6 {
        let mut late = Late::new(room);
        let most = late.most.clone();
        let mut sink = KeepSink::default();
        let outcome = Run::new(&mut late).find(&mut CountSource::new(SHAPE, 5001), &mut [&mut sink]);
        if room < 2 {
            assert_eq!(outcome.unwrap_err().to_string(), "no memory");
            continue;
        }
        outcome.unwrap();
        assert_eq!(sink.kept.lock().unwrap().frames, expected(0..5001));
        let flight = *most.lock().unwrap();
        assert!(flight <= 3 && (room < 5 || flight == 3), "{flight} of 3 slots in flight, {room} buffers");
        assert_eq!(*late.room.lock().unwrap(), room.saturating_sub(5), "two buffers more than slots");
    }
}

/// Takes its time over every batch.
struct SlowSink(KeepSink, Duration);

impl Sink for SlowSink {
    fn name(&self) -> String {
        self.0.name()
    }
    fn write(&mut self, batch: &Batch<'_>) -> Result<()> {
        thread::sleep(self.1);
        self.0.write(batch)
    }
    fn finish(&mut self, provenance: &Provenance) -> Result<Written> {
        self.0.finish(provenance)
    }
}

#[test]
fn sinks_write_side_by_side_and_none_loses_a_batch() {
    let slow = |ms| SlowSink(KeepSink::default(), Duration::from_millis(ms));
    let (mut a, mut b, mut c) = (slow(4), slow(0), slow(3));
    let mut finder = trained();
    let start = Instant::now();
    let summary = Run::new(&mut *finder)
        .find(&mut CountSource::new(SHAPE, 201), &mut [&mut a, &mut b, &mut c])
        .unwrap();
    for sink in [&a, &b, &c] {
        let kept = sink.0.kept.lock().unwrap();
        assert_eq!((kept.frames.clone(), kept.finished), (expected(0..201), true));
    }
    // 51 batches: the slowest sink alone takes 0.2 s.
    let writing = summary.stages.writing;
    assert!(writing >= 0.2 && writing <= start.elapsed().as_secs_f64(), "{:?}", summary.stages);
    assert!(summary.stages.reading > 0.0 && summary.stages.finding > 0.0, "{:?}", summary.stages);
}

#[test]
fn a_sink_that_fails_leaves_the_others_whatever_their_pace() {
    for (failing, waiting) in [(0, 5), (5, 0), (0, 0)] {
        let sink =
            |fail_at, ms| SlowSink(KeepSink { fail_at, ..KeepSink::default() }, Duration::from_millis(ms));
        for fail_at in [0, 3, 9, 40] {
            let (mut good, mut bad) = (sink(None, waiting), sink(Some(fail_at), failing));
            let summary = Run::new(&mut *trained())
                .find(&mut CountSource::new(SHAPE, 60), &mut [&mut bad, &mut good])
                .unwrap();
            assert_eq!(good.0.kept.lock().unwrap().frames, expected(0..60));
            assert!(good.0.kept.lock().unwrap().finished);
            let e = summary.check().unwrap_err();
            assert_eq!(e.to_string(), "out.clust: no space left on device");
        }
    }
}

#[test]
fn a_panic_in_a_sink_is_its_own_fault() {
    struct Panics {
        in_write: bool,
    }
    impl Sink for Panics {
        fn name(&self) -> String {
            "a stranger's".into()
        }
        fn write(&mut self, _: &Batch<'_>) -> Result<()> {
            assert!(!self.in_write, "a sink of a stranger's");
            Ok(())
        }
        fn finish(&mut self, _: &Provenance) -> Result<Written> {
            panic!("a sink of a stranger's");
        }
    }
    for in_write in [true, false] {
        let mut good = KeepSink::default();
        let summary = Run::new(&mut *trained())
            .find(&mut CountSource::new(SHAPE, 1000), &mut [&mut Panics { in_write }, &mut good])
            .unwrap();
        assert_eq!(good.kept.lock().unwrap().frames, expected(0..1000));
        let said: Vec<_> = summary.faults().map(|e| e.to_string()).collect();
        assert_eq!(said, ["a stranger's: internal error while writing"]);
        assert!(summary.sinks[0].written.is_none() && summary.sinks[1].written.is_some());
    }
}

#[test]
fn buffers_are_no_larger_than_what_is_to_be_read() {
    for (first, frames, count, size) in [
        (0, None, 5001, 2),
        (0, None, 2, 2),
        (0, None, 1, 1),
        (0, None, 0, 1),
        (0, Some(1), 5001, 1),
        (0, Some(0), 5001, 1),
        (5000, None, 5001, 1),
        (0, Some(9), 1, 1),
    ] {
        let mut late = Late::new(100);
        let mut run = Run::new(&mut late);
        run.first(first).frames(frames).find(&mut CountSource::new(SHAPE, count), &mut []).unwrap();
        drop(run);
        let asked = late.asked.lock().unwrap();
        assert!(asked.iter().all(|n| *n == size), "from {first}, {frames:?} of {count}: {asked:?}");
    }
}

/// Two buffers that are never let go of: the run would wait for one of them for ever.
#[test]
fn a_finder_that_keeps_frames_is_told_so() {
    let mut late = Late { hoards: true, ..Late::new(2) };
    let mut sink = KeepSink::default();
    let summary = Run::new(&mut late).find(&mut CountSource::new(SHAPE, 100), &mut [&mut sink]).unwrap();
    let said: Vec<_> = summary.faults().map(|e| e.to_string()).collect();
    assert_eq!(said, ["the backend keeps frames of batches that were collected"]);
    assert_eq!((summary.frames, sink.kept.lock().unwrap().frames.len()), (4, 4));
}

#[test]
fn time_in_the_finder_is_counted_at_both_ends() {
    for pauses in [[4, 0], [0, 4]] {
        let mut late = Late { pauses: pauses.map(Duration::from_millis), ..Late::new(100) };
        let summary = Run::new(&mut late).find(&mut CountSource::new(SHAPE, 10), &mut []).unwrap();
        assert!(summary.stages.finding >= 0.02, "{:?}", summary.stages);
    }
}
