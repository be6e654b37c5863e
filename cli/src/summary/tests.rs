//! What is said of a run, in words and in JSON.

use scheidegg::Payload;
use scheidegg::pipeline::SinkEnd;

use super::example::{quiet, report};
use super::*;

fn told(report: &RunReport) -> Vec<String> {
    report.tables().into_iter().flat_map(|t| t.rows).map(|(name, value)| format!("{name}: {value}")).collect()
}

fn fault(what: &str) -> Error {
    Error::Other(what.into())
}

#[test]
fn every_row_of_a_summary_is_there() {
    let mut run = report(Ended::SourceFault(fault("cut")));
    run.params.noise_floor_adu = 2.5;
    assert_eq!(
        told(&run),
        [
            "data: data.npy",
            "frames: 12 345, numbers 10 to 12354",
            "clusters: 24 690, 2.0 a frame",
            "ended: at a fault: the next frame cannot be read",
            "faults: 1 gaps, 4 lost packets (5 pixels masked in their frames), 2 incomplete frames left out, 3 repeated \
             frames left out, 7 damaged files given up (8 frames not read), 6 pixels in another gain masked in their frames",
            "rate: 6172 frames/s, 2.0 s",
            "time: reading 0.5 s, finding 1.5 s, writing 1.0 s, side by side",
            "backend: cpu (AVX)",
            ": was asked for",
            "from: dark.npy",
            "dark frames: 1200, window 1000",
            "faults: 0 gaps, 9 lost packets",
            "median: mean 100.5 ADU, noise 9.99 ADU",
            "pixels: 1 quiet (no noise), 0 hot (noise above 5 times the median), 3 masked",
            "drift: +0.25 ADU (median, end less start), 99 % of the pixels from -1.00 to +2.00 ADU",
            "cluster: 3x3, values as i16",
            "threshold: 5 times the noise, noise at least 2.5 ADU",
            "mode: frozen, noise tracked, precision f32, ties all, quadrant test, 3 lanes",
        ]
    );
    let rows = told(&report(Ended::Stopped));
    assert!(rows.iter().any(|l| l.starts_with("stopped: at frame 12354 (")), "{rows:?}");
    for (ended, words) in [
        (Ended::FinderFault(fault("x")), "the next frames cannot be judged"),
        (Ended::NoSinkLeft, "no result can be written any further"),
    ] {
        let rows = told(&report(ended));
        assert!(rows.iter().any(|l| l.starts_with("ended: ") && l.contains(words)), "{rows:?}");
    }
}

#[test]
fn every_sentence_that_needs_attention_is_there_once() {
    let mut run = report(Ended::Complete);
    let warnings = run.warnings();
    let (first, last) = (&warnings[..2], &warnings[warnings.len() - 2..]);
    assert_eq!(first, ["of both", "of the source"]);
    let cut = "11 stored values did not fit into i16 and were cut (--payload i32)";
    assert_eq!(last, ["a note", cut]);
    let watched = &warnings[2..warnings.len() - 2];
    assert_eq!(watched, attention(&run.findings));
    assert!(
        watched[0].contains("1 pixel has no noise") && watched[0].contains("Give a --mask"),
        "{watched:?}"
    );
    run.params.payload = Payload::F16;
    let infinite = "11 stored values did not fit into f16 and are infinite (--payload i32)";
    assert_eq!(run.warnings().last().unwrap(), infinite);
    run.summary.statistics.saturated = 1;
    assert!(run.warnings().last().unwrap().starts_with("1 stored values"));
}

#[test]
fn what_did_not_happen_is_not_told() {
    let mut quiet = quiet();
    let rows = told(&quiet);
    for row in [
        "faults: 2 gaps, 0 lost packets",
        "threshold: 5 times the noise",
        "mode: frozen, noise tracked, precision f32, ties all",
        "pixels: 0 quiet (no noise), 0 hot (noise above 5 times the median), 0 masked",
    ] {
        assert!(rows.iter().any(|r| r == row), "{row}: {rows:?}");
    }
    let not = ["ended", "stopped", "dark frames", "drift"];
    assert!(!rows.iter().any(|l| not.iter().any(|n| l.starts_with(n))), "{rows:?}");
    assert_eq!(quiet.warnings(), Vec::<String>::new());
    (quiet.summary.first_frame, quiet.summary.last_frame) = (None, None);
    assert!(told(&quiet).contains(&"frames: none".into()));
    quiet.summary.ended = Ended::Stopped;
    assert!(told(&quiet).iter().any(|l| l.starts_with("stopped: before the first frame (")));
}

#[test]
fn a_training_says_what_was_amiss_and_how_large_its_window_is() {
    let mut run = report(Ended::Complete);
    let trained = run.trained.as_mut().unwrap();
    (trained.health, trained.frames) = (Health::default(), 999);
    let rows = |run: &RunReport| run.pedestal.rows("dark.npy", run.trained.as_ref());
    let window = |run: &RunReport| rows(run)[1].1.clone();
    assert!(rows(&run).iter().all(|(name, _)| name != "faults"));
    for (frames, samples, said) in [
        (999, 999, "999, window 999 (all of them; 1000 where there are as many)"),
        (1000, 1000, "1000, window 1000"),
        (2000, 999, "2000, window 999"),
    ] {
        run.trained.as_mut().unwrap().frames = frames;
        run.pedestal.samples = samples;
        assert_eq!(window(&run), said);
    }
}

/// A pixel that is both masked and untrained is one pixel.
#[test]
fn pixels_that_are_left_are_counted_once() {
    let p = report(Ended::Complete).pedestal;
    assert_eq!((p.masked, p.untrained, p.left), (2, 1, 3));
    assert_eq!((p.quiet, p.hot), (vec![3], Vec::new()));
    let p = quiet().pedestal;
    assert_eq!((p.masked, p.untrained, p.left), (0, 0, 6));
}

#[test]
fn a_run_is_complete_only_at_its_end() {
    for (ended, complete) in [
        (Ended::Complete, true),
        (Ended::Stopped, false),
        (Ended::NoSinkLeft, false),
        (Ended::SourceFault(fault("x")), false),
        (Ended::FinderFault(fault("x")), false),
    ] {
        let run = report(ended);
        assert_eq!(run.is_complete(), complete, "{:?}", run.summary.ended);
    }
}

#[test]
fn the_last_fault_ends_the_program() {
    let end = |run: &RunReport| match conclude(&run.summary) {
        Ok(()) => "done".into(),
        Err(Failure::Failed(e)) => e.to_string(),
        Err(other) => format!("{other:?}"),
    };
    assert_eq!(end(&report(Ended::Complete)), "done");
    assert_eq!(end(&report(Ended::Stopped)), "Stopped");
    let mut cut = report(Ended::SourceFault(fault("is cut")));
    assert_eq!(end(&cut), "is cut: the results are complete up to and with frame 12354");
    cut.summary.last_frame = None;
    assert_eq!(end(&cut), "is cut: no frame was judged");
    let sink = |error| SinkEnd { name: "o.npz".into(), written: None, error };
    for ended in [Ended::Complete, Ended::Stopped, Ended::NoSinkLeft] {
        let mut run = report(ended);
        run.summary.sinks = vec![sink(Some(fault("a is full"))), sink(Some(fault("b is full"))), sink(None)];
        assert_eq!(end(&run), "b is full");
    }
}
