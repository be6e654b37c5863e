//! What a run tells: provenance, notes and losses to its sinks, a summary to whoever asked for it.

use std::time::Duration;

use super::tests::{SHAPE, trained, untrained};
use super::*;
use crate::io::{Batch, Written};
use crate::testing::{CountSource, KeepSink};
use scheidegg_finder::{FrameBuf, Shape};

/// What is known of frame `k`, beside its pixels: pixels that it lost.
fn lost(k: u64) -> usize {
    [0, 2, 0, 1, 0, 0, 0, 0, 3, 0, 0, 0][k as usize % 12]
}

/// A source of which more is known than of its frames, and which takes its time.
struct Known(CountSource);

impl Source for Known {
    fn name(&self) -> String {
        self.0.name()
    }
    fn shape(&self) -> Shape {
        self.0.shape()
    }
    fn remaining(&self) -> Option<u64> {
        self.0.remaining()
    }
    fn read(&mut self, into: &mut FrameBuf) -> Result<usize> {
        thread::sleep(Duration::from_millis(1));
        let from = into.len();
        while !into.is_full() && self.0.next < self.0.count {
            let k = self.0.next;
            into.push(k, |pixels| {
                pixels.fill(100);
                let mut mask = scheidegg_finder::PixelMask::new(SHAPE);
                (0..lost(k)).for_each(|i| mask.insert_index(i));
                Ok(Some(mask))
            })?;
            let note = scheidegg_finder::FrameNote { timestamp: Some(1000 + k), ..Default::default() };
            into.note(into.len() - 1, note);
            self.0.next += 1;
        }
        Ok(into.len() - from)
    }
    fn health(&self) -> crate::io::Health {
        crate::io::Health { gaps: 3, warnings: vec!["amiss".into()], ..Default::default() }
    }
}

/// Keeps what is known of every frame: number, time stamp, lost pixels.
#[derive(Default)]
struct Rows {
    rows: Vec<(u64, Option<u64>, u64)>,
    told: Option<Provenance>,
    pause: Duration,
}

impl Sink for Rows {
    fn name(&self) -> String {
        "rows".into()
    }
    fn write(&mut self, batch: &Batch<'_>) -> Result<()> {
        for (k, number) in batch.clusters().numbers().iter().enumerate() {
            self.rows.push((*number, batch.note(k).timestamp, batch.lost_pixels(k)));
        }
        Ok(())
    }
    fn finish(&mut self, provenance: &Provenance) -> Result<Written> {
        thread::sleep(self.pause);
        self.told = Some(provenance.clone());
        Ok(Written::nowhere())
    }
}

#[test]
fn what_is_known_of_a_run_reaches_its_results() {
    let mut rows = Rows { pause: Duration::from_millis(20), ..Rows::default() };
    let mut finder = trained();
    let known = Provenance { inputs: vec![Input::file("mask", "m.npy")], ..Provenance::begin() };
    let mut source = Known(CountSource::new(SHAPE, 101));
    let mut run = Run::new(&mut *finder).provenance(known.clone());
    let summary = run.first(1).frames(500).find(&mut source, &mut [&mut rows]).unwrap();
    drop(run);
    let want: Vec<_> = (1..101).map(|k| (k, Some(1000 + k), lost(k) as u64)).collect();
    assert_eq!(rows.rows, want);
    assert_eq!(summary.health.warnings, ["amiss", "count.npy: 500 frames were asked for, it has 100"]);
    let told = &summary.provenance;
    assert_eq!(rows.told.as_ref(), Some(told));
    assert_eq!((told.losses.gaps, &told.losses.warnings), (3, &summary.health.warnings));
    assert_eq!(told.parameters, Some(Parameters::from(finder.params())));
    assert_eq!((told.backend.name.as_str(), told.ended.how), ("count", How::Complete));
    let data = Input {
        role: "data".into(),
        path: "count.npy".into(),
        frames: Some(100),
        first_frame: Some(1),
        last_frame: Some(100),
    };
    assert_eq!(told.inputs, [known.inputs[0].clone(), data]);
    assert_eq!((&told.started, &told.host), (&known.started, &known.host));
    // 25 batches of a millisecond each, and the end of the sink.
    let Stages { reading, writing, .. } = summary.stages;
    assert!(reading >= 0.025 && writing >= 0.02, "{:?}", summary.stages);
    assert!(told.seconds >= 0.025 && summary.seconds >= told.seconds + 0.02, "{summary:?}");
    // What the caller says of the device stays.
    let mut known = Provenance::begin();
    known.backend.name = "mine".into();
    let mut run = Run::new(&mut *finder).provenance(known);
    let summary = run.find(&mut CountSource::new(SHAPE, 1), &mut []).unwrap();
    assert_eq!(summary.provenance.backend.name, "mine");
}

#[test]
fn a_training_tells_what_it_took() {
    let mut finder = untrained();
    let mut calls = Vec::new();
    let mut run = Run::new(&mut *finder).on_progress(|p| calls.push((p.frames, p.total, p.clusters)));
    let trained = run.first(2).train(&mut Known(CountSource::new(SHAPE, 15))).unwrap();
    drop(run);
    assert_eq!(calls, [4, 8, 12, 13].map(|n| (n, Some(13), 0)));
    assert_eq!((trained.frames, trained.health.gaps), (13, 3));
    let dark = Input {
        role: "dark".into(),
        path: "count.npy".into(),
        frames: Some(13),
        first_frame: Some(2),
        last_frame: Some(14),
    };
    assert_eq!(trained.inputs, [dark]);
    assert!(trained.seconds >= 0.004, "{trained:?}");
    // Who is stopped after the last frame is stopped.
    let stop = Arc::new(AtomicBool::new(false));
    let e = Run::new(&mut *untrained())
        .stop_flag(stop.clone())
        .on_progress(|p| stop.store(p.frames == 10, Ordering::Relaxed))
        .train(&mut CountSource::new(SHAPE, 10))
        .unwrap_err();
    assert!(matches!(e, Error::Stopped), "{e}");
    let broken = || CountSource { fail_at: Some(5), ..CountSource::new(SHAPE, 20) };
    let e = Run::new(&mut *untrained()).train(&mut broken()).unwrap_err();
    assert_eq!(e.to_string(), "count.npy: ends inside frame 5");
}

#[test]
fn fewer_darks_than_the_window_are_taken_where_that_is_wanted() {
    let train = |count, fewer| {
        let mut finder = untrained();
        let trained = Run::new(&mut *finder).fewer_darks(fewer).train(&mut CountSource::new(SHAPE, count));
        trained.map(|t| (t.frames, finder.pedestal(0).unwrap().samples)).map_err(|e| e.to_string())
    };
    for (count, has) in [
        (0, "no dark frames, the pedestal needs 10 (give at least 2)"),
        (1, "1 dark frame, the pedestal needs 10 (give at least 2)"),
    ] {
        assert_eq!(train(count, true), Err(format!("count.npy: {has}")));
        assert_eq!(train(count, false), Err(format!("count.npy: {has}")));
    }
    for count in [2, 3, 9] {
        assert_eq!(train(count, true), Ok((count, count)));
        let has = format!("{count} dark frames, the pedestal needs 10 (give more, or a window of {count})");
        assert_eq!(train(count, false), Err(format!("count.npy: {has}")));
    }
    for fewer in [true, false] {
        assert_eq!(train(10, fewer), Ok((10, 10)));
        assert_eq!(train(12, fewer), Ok((12, 10)));
    }
}

/// A sink that only watches.
struct Watches(KeepSink);

impl Sink for Watches {
    fn name(&self) -> String {
        self.0.name()
    }
    fn write(&mut self, batch: &Batch<'_>) -> Result<()> {
        self.0.write(batch)
    }
    fn finish(&mut self, provenance: &Provenance) -> Result<Written> {
        self.0.finish(provenance)
    }
    fn is_needed(&self) -> bool {
        false
    }
}

#[test]
fn a_run_goes_on_for_sinks_that_are_needed() {
    // Which fails: the one that watches, the one that is needed.
    for (watching, needed, complete) in [
        (false, Some(false), true),
        (true, Some(false), true),
        (false, Some(true), false),
        (true, Some(true), false),
        (false, None, true),
        (true, None, true),
    ] {
        let sink = |fails: bool| KeepSink { fail_at: fails.then_some(9), ..KeepSink::default() };
        let (mut watch, mut need) = (Watches(sink(watching)), needed.map(sink));
        let mut sinks: Vec<&mut dyn Sink> = vec![&mut watch];
        sinks.extend(need.as_mut().map(|s| s as &mut dyn Sink));
        let summary = Run::new(&mut *trained()).find(&mut CountSource::new(SHAPE, 10_000), &mut sinks);
        let summary = summary.unwrap();
        let case = format!("{watching} {needed:?}: {:?}", summary.ended);
        assert_eq!(matches!(summary.ended, Ended::Complete), complete, "{case}");
        assert_eq!(matches!(summary.ended, Ended::NoSinkLeft), !complete, "{case}");
        assert_eq!(summary.frames == 10_000, complete, "{case}");
        assert_eq!(summary.faults().count(), usize::from(watching) + usize::from(needed == Some(true)));
    }
}

#[test]
fn a_summary_reckons_and_tells_its_faults() {
    let mut finder = trained();
    let mut summary = || Run::new(&mut *finder).find(&mut CountSource::new(SHAPE, 6), &mut []).unwrap();
    let mut one = summary();
    (one.frames, one.clusters, one.seconds) = (6, 9, 0.5);
    assert_eq!((one.rate(), one.clusters_per_frame()), (12.0, 1.5));
    (one.frames, one.clusters, one.seconds) = (0, 0, 0.0);
    assert_eq!((one.rate(), one.clusters_per_frame()), (0.0, 0.0));
    let fault = |what: &str| Error::Other(what.into());
    let sink = |error: Option<&str>| SinkEnd { name: "s".into(), written: None, error: error.map(fault) };
    for (ended, sinks, faults, how, why) in [
        (Ended::Complete, vec![], vec![], How::Complete, None),
        (
            Ended::Complete,
            vec![sink(None), sink(Some("a")), sink(Some("b"))],
            vec!["a", "b"],
            How::Complete,
            None,
        ),
        (Ended::Stopped, vec![sink(None)], vec![], How::Stopped, None),
        (Ended::NoSinkLeft, vec![sink(Some("a"))], vec!["a"], How::NotWritten, None),
        (Ended::SourceFault(fault("x")), vec![sink(Some("a"))], vec!["x", "a"], How::Fault, Some("x")),
        (Ended::FinderFault(fault("y")), vec![], vec!["y"], How::Fault, Some("y")),
    ] {
        let stopped = matches!(ended, Ended::Stopped);
        assert_eq!(Ending::from(&ended), Ending { how, why: why.map(String::from) });
        let count = sinks.len();
        let one = Summary { ended, sinks, ..summary() };
        assert_eq!(
            (one.faults().map(|e| e.to_string()).collect::<Vec<_>>(), one.stopped()),
            (faults.iter().map(|f| f.to_string()).collect(), stopped)
        );
        match (one.check(), faults.first()) {
            (Ok(one), None) => assert_eq!(one.sinks.len(), count),
            (Err(e), Some(first)) => assert_eq!(e.to_string(), *first),
            (other, _) => panic!("{other:?}, {faults:?}"),
        }
    }
}

/// A source of several files, of which it has read more than was taken.
struct Files(CountSource, Vec<u64>);

impl Source for Files {
    fn name(&self) -> String {
        "files".into()
    }
    fn shape(&self) -> Shape {
        SHAPE
    }
    fn remaining(&self) -> Option<u64> {
        None
    }
    fn read(&mut self, into: &mut FrameBuf) -> Result<usize> {
        self.0.read(into)
    }
    fn inputs(&self) -> Vec<Input> {
        let file = |(k, n): (usize, &u64)| Input {
            path: format!("{k}.npy"),
            frames: Some(*n),
            last_frame: Some(1000),
            ..Input::default()
        };
        self.1.iter().enumerate().map(file).collect()
    }
}

#[test]
fn only_files_whose_frames_were_taken_are_told() {
    for (files, taken, want) in [
        (vec![3, 4, 5], 12, vec![(3, 1000), (4, 1000), (5, 11)]),
        (vec![3, 4, 5], 8, vec![(3, 1000), (4, 1000), (1, 7)]),
        (vec![3, 4, 5], 7, vec![(3, 1000), (4, 6)]),
        (vec![3, 0, 5], 4, vec![(3, 1000), (1, 3)]),
        (vec![3, 4, 5], 0, vec![]),
    ] {
        let found = Found { frames: taken, clusters: 0, first: Some(0), last: taken.checked_sub(1) };
        let told = inputs(&Files(CountSource::new(SHAPE, 0), files), "data", &found);
        assert!(told.iter().all(|i| i.role == "data"));
        let told: Vec<_> = told.iter().map(|i| (i.frames.unwrap(), i.last_frame.unwrap())).collect();
        assert_eq!(told, want, "{taken} frames");
    }
}
