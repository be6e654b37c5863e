//! The pipeline against a model: any sources, limits, stops and faults at any point. What must come out is said by a few
//! lines that know nothing of threads, buffers and batches.

use std::sync::mpsc;
use std::time::Duration;

use proptest::prelude::*;
use scheidegg_finder::{
    ClusterSize, Clusters, ClustersBuf, FrameBuf, Frames, Params, Pedestal, Shape, Statistics, Ticket,
    Tickets,
};

use super::*;
use crate::io::{Batch, Written};

const SHAPE: Shape = Shape { rows: 2, cols: 2 };

/// How something goes wrong.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Way {
    Error,
    Panic,
}

#[derive(Clone, Debug)]
struct SourceCase {
    first: u64,
    frames: u64,
    /// Most frames that a call gives.
    at_once: u64,
    /// What goes wrong, and before which frame.
    fault: Option<(u64, Way)>,
    /// What is added to the number of frames that it says are left; `None` when it says nothing.
    lie: Option<u64>,
}

#[derive(Clone, Debug)]
struct FinderCase {
    slots: usize,
    batch: usize,
    /// What goes wrong, with which frame of the run, and whether already at its submission.
    fault: Option<(u64, Way, bool)>,
}

#[derive(Clone, Debug)]
struct SinkCase {
    /// What goes wrong, at which call.
    write: Option<(usize, Way)>,
    finish: Option<Way>,
    pause_us: u64,
}

#[derive(Clone, Debug)]
struct Case {
    sources: Vec<SourceCase>,
    keep_going: bool,
    first: u64,
    frames: Option<u64>,
    /// Stopped as soon as so many frames are done.
    stop: Option<u64>,
    finder: FinderCase,
    sinks: Vec<SinkCase>,
}

/// Numbers of all frames that can be read, and whether a fault ends them.
fn model(case: &Case) -> (Vec<u64>, Option<Way>) {
    let mut numbers: Vec<u64> = Vec::new();
    let mut passed = None;
    for s in &case.sources {
        let fault = s.fault.filter(|(at, _)| *at <= s.frames);
        let shift = numbers.last().map_or(0, |last| (last + 1).saturating_sub(s.first));
        numbers.extend((0..fault.map_or(s.frames, |f| f.0)).map(|k| s.first + shift + k));
        match fault {
            Some((_, Way::Error)) if case.keep_going => passed = passed.or(Some(Way::Error)),
            Some((_, way)) => return (numbers, Some(way)),
            None => {}
        }
    }
    // Where there is nothing but faults, the first one is told.
    let told = passed.filter(|_| numbers.is_empty());
    (numbers, told)
}

fn clusters_of(number: u64) -> u64 {
    number % 3
}

struct TestSource {
    case: SourceCase,
    next: u64,
}

impl Source for TestSource {
    fn name(&self) -> String {
        "source".into()
    }
    fn shape(&self) -> Shape {
        SHAPE
    }
    fn remaining(&self) -> Option<u64> {
        self.case.lie.map(|lie| self.case.frames - self.next + lie)
    }
    fn read(&mut self, into: &mut FrameBuf) -> Result<usize> {
        let mut given = 0;
        while !into.is_full() && given < self.case.at_once {
            match self.case.fault {
                Some((at, Way::Error)) if at == self.next => return Err(Error::Other("source".into())),
                Some((at, Way::Panic)) if at == self.next => panic!("a source"),
                _ if self.next == self.case.frames => break,
                _ => into.push(self.case.first + self.next, |_| Ok(None))?,
            }
            let note = scheidegg_finder::FrameNote { timestamp: Some(self.next), ..Default::default() };
            into.note(into.len() - 1, note);
            self.next += 1;
            given += 1;
        }
        Ok(given as usize)
    }
}

struct TestFinder {
    case: FinderCase,
    params: Params,
    tickets: Tickets,
    flight: std::collections::VecDeque<(u64, Arc<dyn FrameOwner>)>,
    seen: u64,
    found: ClustersBuf,
}

impl TestFinder {
    fn new(case: &FinderCase) -> Self {
        let params = Params::new(ClusterSize { w: 3, h: 3 });
        let found = ClustersBuf::new(SHAPE, params.size, params.payload);
        TestFinder {
            case: case.clone(),
            params,
            tickets: Tickets::new(),
            flight: Default::default(),
            seen: 0,
            found,
        }
    }

    fn may_fail(&self, first: u64, frames: usize, submitting: bool) -> Result<()> {
        match self.case.fault {
            Some((at, way, s)) if s == submitting && (first..first + frames as u64).contains(&at) => {
                assert!(way == Way::Error, "a finder");
                Err(Error::Other("finder".into()))
            }
            _ => Ok(()),
        }
    }
}

impl Finder for TestFinder {
    fn shape(&self) -> Shape {
        SHAPE
    }
    fn params(&self) -> &Params {
        &self.params
    }
    fn train(&mut self, _: Frames<'_>) -> Result<()> {
        Ok(())
    }
    fn finish_training(&mut self) -> Result<()> {
        Ok(())
    }
    fn refresh_noise(&mut self) -> Result<()> {
        Ok(())
    }
    fn slots(&self) -> usize {
        self.case.slots
    }
    fn in_flight(&self) -> usize {
        self.tickets.in_flight()
    }
    fn abandon(&mut self) -> usize {
        self.flight.clear();
        self.tickets.abandon()
    }
    fn batch_frames(&self) -> usize {
        self.case.batch
    }
    fn submit(&mut self, _: Frames<'_>) -> Result<Ticket> {
        unreachable!("frames are shared")
    }
    fn submit_shared(&mut self, frames: Arc<dyn FrameOwner>) -> Result<Ticket> {
        self.tickets.room(self.case.slots)?;
        let (first, count) = (self.seen, frames.frames().len());
        assert!(count > 0 && count <= self.case.batch);
        self.may_fail(first, count, true)?;
        self.seen += count as u64;
        self.flight.push_back((first, frames));
        Ok(self.tickets.issue())
    }
    fn collect(&mut self, ticket: Ticket) -> Result<Clusters<'_>> {
        self.tickets.redeem(ticket)?;
        let (first, frames) = self.flight.pop_front().unwrap();
        let frames = frames.frames();
        self.may_fail(first, frames.len(), false)?;
        self.found.clear();
        for k in 0..frames.len() {
            let bytes = clusters_of(frames.number(k)) as usize * self.found.view().record_bytes();
            self.found.push_frame(frames.number(k), &vec![0; bytes]);
        }
        Ok(self.found.view())
    }
    fn pedestal(&mut self, _: usize) -> Result<Pedestal> {
        unreachable!("no pedestal is asked for")
    }
    fn set_pedestal(&mut self, _: &Pedestal) -> Result<()> {
        Ok(())
    }
    fn statistics(&self) -> Statistics {
        Statistics::default()
    }
}

struct TestSink {
    case: SinkCase,
    calls: usize,
    frames: Vec<u64>,
    notes: usize,
    finished: Vec<Provenance>,
}

impl Sink for TestSink {
    fn name(&self) -> String {
        "sink".into()
    }
    fn write(&mut self, batch: &Batch<'_>) -> Result<()> {
        assert!(self.finished.is_empty());
        std::thread::sleep(Duration::from_micros(self.case.pause_us));
        self.calls += 1;
        match self.case.write {
            Some((at, Way::Error)) if at < self.calls => return Err(Error::Other("sink".into())),
            Some((at, Way::Panic)) if at < self.calls => panic!("a sink"),
            _ => {}
        }
        let clusters = batch.clusters();
        for (k, number) in clusters.numbers().iter().enumerate() {
            assert_eq!(clusters.frame(k).len() as u64, clusters_of(*number));
            self.notes += usize::from(batch.note(k).timestamp.is_some());
        }
        self.frames.extend(clusters.numbers());
        Ok(())
    }
    fn finish(&mut self, provenance: &Provenance) -> Result<Written> {
        self.finished.push(provenance.clone());
        match self.case.finish {
            Some(Way::Error) => Err(Error::Other("sink's end".into())),
            Some(Way::Panic) => panic!("a sink's end"),
            None => Ok(Written::at("sink")),
        }
    }
}

/// Runs a case, in time, and compares it with the model.
fn check(case: Case) {
    let (done, wait) = mpsc::channel();
    let told = case.clone();
    let work = std::thread::spawn(move || {
        compare(&case);
        let _ = done.send(());
    });
    match wait.recv_timeout(Duration::from_secs(30)) {
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("hangs: {told:?}"),
        // It has ended, well or with a panic.
        _ => work.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
    }
}

fn compare(case: &Case) {
    let source = |s: &SourceCase| -> Box<dyn Source> { Box::new(TestSource { case: s.clone(), next: 0 }) };
    let mut sources: Vec<_> = case.sources.iter().map(source).collect();
    let mut source: Box<dyn Source> = match (sources.len(), case.keep_going) {
        (1, false) => sources.remove(0),
        _ => Box::new(Chain::new(sources).unwrap().keep_going(case.keep_going)),
    };
    let sink = |s: &SinkCase| TestSink {
        case: s.clone(),
        calls: 0,
        frames: Vec::new(),
        notes: 0,
        finished: Vec::new(),
    };
    let mut sinks: Vec<_> = case.sinks.iter().map(sink).collect();
    let mut finder = TestFinder::new(&case.finder);
    let stop = Arc::new(AtomicBool::new(false));
    let outcome = {
        let mut refs: Vec<&mut dyn Sink> = sinks.iter_mut().map(|s| s as &mut dyn Sink).collect();
        let mut run = Run::new(&mut finder).stop_flag(stop.clone()).on_progress(|p| {
            stop.store(case.stop.is_some_and(|at| p.frames >= at), Ordering::Relaxed);
        });
        run.first(case.first).frames(case.frames).find(&mut *source, &mut refs)
    };
    assert_eq!(finder.in_flight(), 0);

    let (readable, fault) = model(case);
    let there = readable.len() as u64 >= case.first;
    let wanted: Vec<u64> = readable.iter().skip(case.first as usize).copied().collect();
    let limit = case.frames.map_or(usize::MAX, |n| n as usize);
    // A limit that is reached hides what comes after.
    let fault = fault.filter(|_| !there || wanted.len() < limit);
    let wanted = &wanted[..wanted.len().min(limit)];
    let finder_fault = case.finder.fault.map(|f| f.0 as usize).filter(|at| *at < wanted.len());
    // What is certain to be judged: all but a batch where something panics or the finder fails.
    let batch = case.finder.batch;
    let least = match (finder_fault, fault) {
        (Some(at), _) => (at + 1).saturating_sub(batch),
        (None, Some(Way::Panic)) => (wanted.len() + 1).saturating_sub(batch),
        _ => wanted.len(),
    };
    let summary = match outcome {
        Err(e) => {
            assert!(sinks.iter().all(|s| s.finished.is_empty()), "{e}");
            let stopped_short = case.stop.is_some();
            assert!(
                !there || (least == 0 && (fault.is_some() || finder_fault.is_some())),
                "{e} {stopped_short}"
            );
            return;
        }
        Ok(summary) => summary,
    };
    assert!(there, "frames that are not there were left out");
    let judged = &wanted[..summary.frames as usize];
    let (first, last) = (judged.first().copied(), judged.last().copied());
    assert_eq!((summary.first_frame, summary.last_frame), (first, last));
    assert_eq!(summary.clusters, judged.iter().map(|n| clusters_of(*n)).sum::<u64>());
    match &summary.ended {
        Ended::Complete => {
            assert_eq!((judged, fault, finder_fault), (wanted, None, None));
        }
        Ended::SourceFault(_) => {
            assert!(fault.is_some() && judged.len() >= least);
            // The finder never sees the frames of the batch that the source panics in.
            assert!(finder_fault.is_none_or(|at| fault == Some(Way::Panic) && at >= judged.len()));
        }
        Ended::FinderFault(_) => assert!(finder_fault.is_some_and(|at| judged.len() <= at)),
        Ended::Stopped => assert!(case.stop.is_some_and(|at| summary.frames >= at)),
        Ended::NoSinkLeft => assert!(!sinks.is_empty() && sinks.iter().all(|s| s.case.write.is_some())),
    }
    if case.stop.is_none() && sinks.iter().any(|s| s.case.write.is_none()) {
        assert!(judged.len() >= least, "{} of at least {least} frames", judged.len());
    }
    let told = &summary.provenance;
    assert_eq!((told.frames, told.first_frame, told.last_frame), (summary.frames, first, last));
    assert_eq!(told.ended, Ending::from(&summary.ended));
    let from_files: u64 = told.inputs.iter().filter_map(|i| i.frames).sum();
    assert_eq!(from_files, summary.frames);
    assert_eq!(told.inputs.last().and_then(|i| i.last_frame), last);
    assert_eq!(summary.sinks.len(), sinks.len());
    for (end, sink) in summary.sinks.iter().zip(&sinks) {
        let failed = sink.case.write.filter(|(at, _)| *at < sink.calls);
        assert_eq!(sink.frames, judged[..sink.frames.len()]);
        assert_eq!(sink.notes, sink.frames.len());
        assert!(failed.is_some() || sink.frames.len() == judged.len());
        assert_eq!(sink.finished.len(), usize::from(!matches!(failed, Some((_, Way::Panic)))));
        assert_eq!(end.error.is_some(), failed.is_some() || sink.case.finish.is_some());
        let complete = sink.case.finish.is_none() && !sink.finished.is_empty();
        assert_eq!(end.written.is_some(), complete);
        for told in &sink.finished {
            assert_eq!(told.frames, sink.frames.len() as u64);
            assert_eq!(told.last_frame, sink.frames.last().copied());
            assert_eq!(
                told.ended.how == How::NotWritten,
                failed.is_some() || told.ended.how == How::NotWritten
            );
            assert!(failed.is_none() || told.ended.how == How::NotWritten);
        }
    }
}

fn way() -> impl Strategy<Value = Way> {
    prop_oneof![Just(Way::Error), Just(Way::Panic)]
}

fn source() -> impl Strategy<Value = SourceCase> {
    let fault = proptest::option::weighted(0.3, (0..12u64, way()));
    let lie = proptest::option::of(prop_oneof![4 => Just(0u64), 1 => 1..9u64]);
    (0..9u64, 0..12u64, 1..6u64, fault, lie).prop_map(|(first, frames, at_once, fault, lie)| SourceCase {
        first,
        frames,
        at_once,
        fault,
        lie,
    })
}

fn sink() -> impl Strategy<Value = SinkCase> {
    let write = proptest::option::weighted(0.3, (0..6usize, way()));
    let pause = prop_oneof![4 => Just(0u64), 1 => 0..300u64];
    (write, proptest::option::weighted(0.15, way()), pause).prop_map(|(write, finish, pause_us)| SinkCase {
        write,
        finish,
        pause_us,
    })
}

fn case() -> impl Strategy<Value = Case> {
    let finder = (1..4usize, 1..6usize, proptest::option::weighted(0.2, (0..30u64, way(), any::<bool>())))
        .prop_map(|(slots, batch, fault)| FinderCase { slots, batch, fault });
    let limits = (
        prop_oneof![2 => Just(0u64), 1 => 0..40u64],
        proptest::option::of(0..45u64),
        proptest::option::weighted(0.3, 0..30u64),
    );
    let sources = proptest::collection::vec(source(), 1..5);
    (sources, any::<bool>(), limits, finder, proptest::collection::vec(sink(), 0..4)).prop_map(
        |(sources, keep_going, (first, frames, stop), finder, sinks)| Case {
            sources,
            keep_going,
            first,
            frames,
            stop,
            finder,
            sinks,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, failure_persistence: None, max_shrink_iters: 3000, ..ProptestConfig::default() })]
    #[test]
    fn a_run_does_what_the_model_says(case in case()) {
        check(case);
    }
}
