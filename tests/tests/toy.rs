//! The suite on the example of a stranger's backend: it passes what it supports, and the rest is counted as skipped.

#[path = "../../host/examples/toy_backend.rs"]
#[allow(dead_code)]
mod toy_backend;

use scheidegg_conformance::suite::{self, Options};

#[test]
fn the_toy_backend_conforms() {
    let report = suite::run(&toy_backend::Toy, &Options::default());
    report.assert();
    assert!(report.passed.len() > 300, "only {} checks passed", report.passed.len());
    assert!(report.skipped.iter().all(|(_, why)| why.contains("toy does not do")), "{report}");
}
