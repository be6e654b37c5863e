//! Every golden result through the oracle, on one thread and on three; and that the golden data are what they
//! should be.

use std::collections::BTreeSet;

use scheidegg_conformance::golden::{self, SETS};
use scheidegg_conformance::suite::{self, Options};
use scheidegg_cpu::OracleBackend;

#[test]
fn the_oracle_agrees_with_every_golden_result_on_any_number_of_threads() {
    let files = golden::results().unwrap();
    for threads in [1, 3] {
        let options = Options { only: Some("golden ".into()), ..Options::default() };
        let report = suite::run(&OracleBackend::with_threads(threads).unwrap(), &options);
        report.assert();
        assert_eq!(report.passed.len(), files.len(), "every golden file is one check, and none is skipped");
    }
}

#[test]
fn the_golden_data_cover_every_mode_precision_and_size() {
    let files = golden::results().unwrap();
    assert_eq!(files.len(), 55, "{files:?}");
    let mut covered = BTreeSet::new();
    let mut traces = 0;
    for file in &files {
        let expected = golden::result(file).unwrap();
        let p = &expected.params;
        assert!(SETS.contains(&expected.set.as_str()), "{file}");
        assert!(expected.x.len() > 500, "{file}: {} clusters", expected.x.len());
        traces += usize::from(expected.exact.as_ref().is_some_and(|e| e.trace.is_some()));
        covered.insert(format!("{} {} {}", p.update, p.noise, p.precision));
        covered.insert(format!("{} {}", p.update, p.size));
    }
    assert_eq!(traces, 9 + 7);
    for what in [
        "serial tracked f64",
        "serial tracked f32",
        "serial tracked f64f32",
        "serial fixed f64f32",
        "frozen fixed f64",
        "frozen fixed f32",
        "frozen tracked f32",
        "frozen tracked f64f32",
        "frozen tracked f64",
        "frozen 3x3",
        "frozen 4x4",
        "frozen 5x5",
        "frozen 5x2",
        "frozen 9x9",
        "serial 9x9",
        "serial 2x5",
    ] {
        assert!(covered.contains(what), "no golden result for {what}: {covered:?}");
    }
}

#[test]
fn golden_frames_have_their_shapes() {
    for (name, rows, cols, frames) in [("moench", 33, 41, 120), ("weak", 32, 40, 150), ("edges", 30, 37, 100)]
    {
        let set = golden::set(name).unwrap();
        assert_eq!((set.shape.rows, set.shape.cols), (rows, cols));
        assert_eq!(set.darks.len(), 1000 * rows * cols);
        assert_eq!(set.data.len(), frames * rows * cols);
    }
}

#[test]
fn a_damaged_archive_is_an_error_with_a_name() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cut.npz");
    let whole = std::fs::read(golden::folder().join("edges_frames.npz")).unwrap();
    std::fs::write(&path, &whole[..whole.len() / 2]).unwrap();
    let error = golden::result("no_such_file.npz").unwrap_err();
    assert!(error.contains("no_such_file.npz"), "{error}");
    let error = scheidegg_conformance::npy::Npz::open(&path).err().unwrap();
    assert!(error.contains("cut.npz"), "{error}");
}
