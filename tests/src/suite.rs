//! The suite: every check a backend must pass, and the report.

mod agreement;
mod edges;
mod expected;
mod golden;
mod protocol;
mod tickets;
mod training;

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use scheidegg::{Backend, Error};

use crate::case::{self, Case};
use crate::watchdog::Watch;

/// The seed of the synthetic data, unless `SCHEIDEGG_SEED` says another.
pub const SEED: u64 = 20_260_101;

/// How the suite is run.
#[derive(Clone, Debug)]
pub struct Options {
    /// The seed of the synthetic data.
    pub seed: u64,
    /// Backends that must be there: a skip of one of them is a failure. A word matches a name or a part of one
    /// (`avx512` matches `cpu-avx512`).
    pub require: Vec<String>,
    /// Random runs beside the chosen ones.
    pub random_runs: usize,
    /// Only checks whose name holds this text.
    pub only: Option<String>,
}

impl Default for Options {
    /// What the environment says: `SCHEIDEGG_SEED`, `SCHEIDEGG_REQUIRE=name,name`, `SCHEIDEGG_ONLY`.
    fn default() -> Self {
        let var = |name| std::env::var(name).ok().filter(|v| !v.is_empty());
        let words = |v: String| v.split(',').map(|w| w.trim().to_string()).collect();
        Options {
            seed: var("SCHEIDEGG_SEED").and_then(|s| s.parse().ok()).unwrap_or(SEED),
            require: var("SCHEIDEGG_REQUIRE").map(words).unwrap_or_default(),
            random_runs: 60,
            only: var("SCHEIDEGG_ONLY"),
        }
    }
}

impl Options {
    /// Whether a backend of this name must be there.
    pub fn requires(&self, name: &str) -> bool {
        let part = |word: &String| name == word || name.split(['-', ':', '/']).any(|p| p == word);
        self.require.iter().any(part)
    }
}

/// What became of every check.
#[derive(Clone, Debug)]
pub struct Report {
    /// The backend's name.
    pub backend: String,
    /// The hardware it ran on, in its own words.
    pub device: String,
    /// The seed of the synthetic data.
    pub seed: u64,
    /// Checks passed.
    pub passed: Vec<String>,
    /// Checks left out, and why.
    pub skipped: Vec<(String, String)>,
    /// Checks failed, and how.
    pub failed: Vec<(String, String)>,
}

impl Report {
    /// Prints the report, and panics when a check failed.
    ///
    /// # Panics
    /// When a check failed.
    pub fn assert(&self) {
        println!("{self}");
        assert!(self.failed.is_empty(), "{self}");
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "backend {} on {} (seed {}): {} checks passed, {} skipped, {} failed",
            self.backend,
            self.device,
            self.seed,
            self.passed.len(),
            self.skipped.len(),
            self.failed.len()
        )?;
        let mut reasons: Vec<(&str, usize)> = Vec::new();
        for (_, reason) in &self.skipped {
            match reasons.iter_mut().find(|(r, _)| r == reason) {
                Some((_, n)) => *n += 1,
                None => reasons.push((reason, 1)),
            }
        }
        for (reason, n) in reasons {
            writeln!(f, "  SKIPPED: {n} checks: {reason}")?;
        }
        for (name, detail) in &self.failed {
            writeln!(f, "  FAILED: {name}: {detail}")?;
        }
        Ok(())
    }
}

/// Why a check did not pass.
enum Verdict {
    Skip(String),
    Fail(String),
}

impl From<Error> for Verdict {
    fn from(e: Error) -> Self {
        match e {
            Error::Unsupported { .. } => Verdict::Skip(e.to_string()),
            e => Verdict::Fail(format!("unexpected error: {e}")),
        }
    }
}

impl From<String> for Verdict {
    fn from(words: String) -> Self {
        Verdict::Fail(words)
    }
}

type Outcome = Result<(), Verdict>;

type Work = Box<dyn Fn(&dyn Backend) -> Outcome>;

/// A check: its name and what it does with a backend.
struct Check {
    name: String,
    work: Work,
}

impl Check {
    fn new(name: impl Into<String>, work: impl Fn(&dyn Backend) -> Outcome + 'static) -> Check {
        Check { name: name.into(), work: Box::new(work) }
    }
}

/// A check that holds when a condition does.
fn holds(condition: bool, otherwise: impl FnOnce() -> String) -> Outcome {
    if condition { Ok(()) } else { Err(Verdict::Fail(otherwise())) }
}

/// A check that a call fails with a certain error.
fn refused<T>(what: &str, result: scheidegg::Result<T>, right: impl Fn(&Error) -> bool) -> Outcome {
    match result {
        Ok(_) => Err(Verdict::Fail(format!("{what}: accepted"))),
        Err(e) if right(&e) => Ok(()),
        Err(e @ Error::Unsupported { .. }) => Err(e.into()),
        Err(e) => Err(Verdict::Fail(format!("{what}: the wrong error: {e}"))),
    }
}

/// The oracle's outcome and the backend's must be the same bytes.
fn agrees(backend: &dyn Backend, case: &Case, poison: bool) -> Outcome {
    let traced = backend.build(case.shape, &case.params);
    let mut case = case.clone();
    let mut finder = match traced {
        // Clusters and pedestal tell enough; that there is no trace is the skip of a check of its own.
        Err(Error::Unsupported { .. }) if case.params.trace => {
            case.params.trace = false;
            backend.build(case.shape, &case.params)?
        }
        finder => finder?,
    };
    let case = &case;
    let got = case::run_on(finder.as_mut(), case, poison)?;
    match case::difference(case, &*expected::expected(case)?, &got) {
        None => Ok(()),
        Some(what) => Err(Verdict::Fail(format!(
            "{} ({} {} {} {}, ties {}, test2 {}, {} lanes, {} values): {what}",
            case.name,
            case.params.size,
            case.params.update,
            case.params.noise,
            case.params.precision,
            case.params.ties,
            case.params.test2,
            case.params.lanes,
            case.params.payload,
        ))),
    }
}

/// Runs every check on a backend.
///
/// A backend that is not available here is one skip, parameters it does not support are one skip a check; both are
/// counted. A backend named by [`Options::require`] must be there.
pub fn run(backend: &dyn Backend, options: &Options) -> Report {
    let name = backend.name().to_string();
    let mut report = Report {
        backend: name.clone(),
        device: "no device".into(),
        seed: options.seed,
        passed: Vec::new(),
        skipped: Vec::new(),
        failed: Vec::new(),
    };
    match backend.probe() {
        Ok(probe) => report.device = probe.device,
        Err(e) if matches!(e, Error::Unavailable { .. }) && !options.requires(&name) => {
            report.skipped.push(("availability".into(), e.to_string()));
            return report;
        }
        Err(e) => {
            report.failed.push(("availability".into(), e.to_string()));
            return report;
        }
    }
    let checks = protocol::checks()
        .into_iter()
        .chain(tickets::checks())
        .chain(golden::checks())
        .chain(training::checks(options.seed))
        .chain(edges::checks(options.seed))
        .chain(agreement::checks(options.seed, options.random_runs));
    for check in checks {
        if options.only.as_ref().is_some_and(|text| !check.name.contains(text)) {
            continue;
        }
        let watch = Watch::over(format!("backend {name}: check {:?}", check.name));
        let outcome = catch_unwind(AssertUnwindSafe(|| (check.work)(backend)));
        drop(watch);
        match outcome {
            Ok(Ok(())) => report.passed.push(check.name),
            Ok(Err(Verdict::Skip(reason))) => report.skipped.push((check.name, reason)),
            Ok(Err(Verdict::Fail(detail))) => report.failed.push((check.name, detail)),
            Err(_) => report.failed.push((check.name, "panicked (its words are above)".into())),
        }
    }
    if options.only.is_none() && report.passed.is_empty() && report.failed.is_empty() {
        report.failed.push(("availability".into(), "every check was skipped".into()));
    }
    report
}
