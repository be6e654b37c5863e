//! `xtask mutants`: changes of one operator, statement or result at a time, and whether a test notices.
//!
//! The workspace is copied to `target/mutants/src` with every change in it, each behind its number, and built once. A
//! survey runs every test alone and notes which changes it comes to. Then every change is switched on in turn for the
//! tests that come to it, the fast and narrow ones first, until one fails.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use clap::Args;

use crate::{Outcome, root};

mod build;
mod defaults;
mod operators;
mod process;
mod rewrite;
mod sites;
mod survey;
mod table;
mod workers;

use build::{Binary, Copy};
use process::{End, Mode, Scratch};
use sites::Change;
use survey::Test;
use table::{Allowed, Fate};

/// The files whose changes tests must notice; a `*` goes into folders too.
const CHOSEN: [&str; 7] = [
    "finder/src/*",
    "host/src/pipeline*",
    "host/src/truth*",
    "host/src/io/*",
    "cli/src/find*",
    "cli/src/places*",
    "cli/src/summary*",
];
/// Those among them that are not: what makes simulated runs.
const LEFT_OUT: [&str; 2] = ["host/src/io/simulate/*", "host/src/io/raw_write.rs"];

/// Which changes are tried, with which tests.
#[derive(Args)]
pub struct MutantsArgs {
    /// Only changes of these files (glob, from the root of the workspace; repeatable).
    #[arg(long, value_name = "GLOB")]
    file: Vec<String>,
    /// Only so many changes, drawn by the seed.
    #[arg(long, value_name = "N")]
    sample: Option<usize>,
    /// What the sample depends on: a number, or the name of a commit.
    #[arg(long, default_value = "0")]
    seed: String,
    /// Packages whose tests are run.
    #[arg(long, value_name = "NAME", default_values = ["scheidegg-finder", "scheidegg", "scheidegg-cli", "scheidegg-conformance"])]
    package: Vec<String>,
    /// Only tests whose name (package/program::test) fits (glob; repeatable).
    #[arg(long, value_name = "GLOB")]
    tests: Vec<String>,
    /// No tests whose name fits (glob; repeatable).
    #[arg(long, value_name = "GLOB")]
    without: Vec<String>,
    /// Processes at a time.
    #[arg(long, default_value_t = 2)]
    jobs: usize,
    /// Begin no further change after so many minutes, those of building and of the survey not counted.
    #[arg(long)]
    minutes: Option<f64>,
    /// Leave out tests that take longer, in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 60.0)]
    longest: f64,
    /// Run no more than so many seconds of tests for one change.
    #[arg(long, value_name = "SECONDS")]
    budget: Option<f64>,
    /// Results; those that are there are kept, and their changes not tried again.
    #[arg(long, value_name = "FILE", default_value = "target/mutants/results.csv")]
    out: PathBuf,
    /// Try the changes in the results again that were not noticed.
    #[arg(long)]
    again: bool,
    /// Only list the changes.
    #[arg(long)]
    list: bool,
    /// Fail when fewer of the observable changes are noticed, in percent.
    #[arg(long, value_name = "PERCENT")]
    at_least: Option<f64>,
}

/// Runs the chore.
pub fn run(args: &MutantsArgs) -> Outcome {
    let start = Instant::now();
    let (files, others, only) = (patterns(&CHOSEN)?, patterns(&LEFT_OUT)?, patterns(&args.file)?);
    let (with, without) = (patterns(&args.tests)?, patterns(&args.without)?);
    let mut copy = Copy::new(|f| is_source(f) && fits(&files, f) && !fits(&others, f))?;
    let allowed = Allowed::read(&root().join("tests/mutants/allowed.csv"))?;
    if args.list {
        let wanted = |c: &Change| only.is_empty() || fits(&only, &c.file);
        for (number, c) in copy.changes().into_iter().filter(|(_, c)| wanted(c)) {
            println!("{number} {}:{} `{}` {} in `{}` {}", c.file, c.line, c.function, c.what, c.text, c.nth);
        }
        return Ok(());
    }
    let binaries = copy.build(&args.package)?;
    println!("built in {:.0} s", start.elapsed().as_secs_f64());
    let wanted = |t: &str| (with.is_empty() || fits(&with, t)) && !fits(&without, t);
    let tests =
        survey::survey(&copy.home, &binaries, &wanted, args.jobs, Duration::from_secs_f64(args.longest))?;
    let mut all = copy.changes();
    for line in allowed.stale(&all.iter().map(|(_, c)| c.clone()).collect::<Vec<_>>()) {
        println!("tests/mutants/allowed.csv: fits no change: {line}");
    }
    all.retain(|(_, c)| only.is_empty() || fits(&only, &c.file));
    let changes = drawn(all, args);
    let out = root().join(&args.out);
    // A sample is not gone on with: its changes are those of its commit.
    let mut results = if args.sample.is_some() { Vec::new() } else { table::read(&out)? };
    if args.sample.is_some() && out.exists() {
        std::fs::remove_file(&out).map_err(|e| format!("{}: {e}", out.display()))?;
    }
    if args.again {
        results.retain(|(_, fate)| fate.is_noticed());
        table::write(&out, &results)?;
    }
    let known: HashMap<String, Fate> = results.into_iter().map(|(c, f)| (c.key(), f)).collect();
    let begun = Instant::now();
    let trial = Trial::new(args, &copy, &binaries, &tests, &allowed);
    let found = workers::each(args.jobs, &changes, |worker, (number, change)| {
        if let Some(fate) = known.get(&change.key()) {
            return Ok(Some(fate.clone()));
        }
        if args.minutes.is_some_and(|m| begun.elapsed().as_secs_f64() > 60.0 * m) {
            return Ok(None);
        }
        let fate = trial.judge(worker, *number, change)?;
        table::append(&out, change, &fate)?;
        Ok(Some(fate))
    })?;
    let pairs = changes.into_iter().zip(found);
    let results: Vec<(Change, Fate)> = pairs.filter_map(|((_, c), fate)| Some((c, fate?))).collect();
    // Where only some tests are run, those that they do not come to are no matter of theirs.
    let share = table::summarise(&results, args.tests.is_empty());
    println!(
        "\n{} changes tried, {share:.1} % of the observable ones noticed, {:.0} s",
        results.len(),
        start.elapsed().as_secs_f64()
    );
    match args.at_least {
        Some(_) if results.is_empty() => Err("no change was tried".into()),
        Some(least) if share < least => {
            Err(format!("{share:.1} % noticed, expected at least {least} %").into())
        }
        _ => Ok(()),
    }
}

fn patterns<S: AsRef<str>>(globs: &[S]) -> Outcome<Vec<glob::Pattern>> {
    let make = |g: &S| glob::Pattern::new(g.as_ref()).map_err(|e| format!("{}: {e}", g.as_ref()).into());
    globs.iter().map(make).collect()
}

fn fits(patterns: &[glob::Pattern], name: &str) -> bool {
    patterns.iter().any(|p| p.matches(name))
}

/// Whether a file is not one of tests only.
fn is_source(file: &str) -> bool {
    file.ends_with(".rs")
        && !file.ends_with("/tests.rs")
        && !file.ends_with("_tests.rs")
        && !file.contains("/tests/")
}

/// The sample, in an order that the seed gives; all in the order of the source without one.
fn drawn(mut changes: Vec<(u32, Change)>, args: &MutantsArgs) -> Vec<(u32, Change)> {
    if let Some(n) = args.sample {
        changes.sort_by_cached_key(|(_, c)| crc32fast::hash(format!("{} {}", args.seed, c.key()).as_bytes()));
        changes.truncate(n);
    }
    changes
}

/// Tries changes one by one.
struct Trial<'t> {
    copy: &'t Copy,
    binaries: &'t [Binary],
    tests: &'t [Test],
    allowed: &'t Allowed,
    budget: f64,
    /// The sites that a test comes to, as a set, and the tests in the order of their cost.
    sites: Vec<HashSet<u32>>,
    order: Vec<usize>,
    /// The tests that noticed a change of a function.
    noticed: Mutex<HashMap<String, Vec<usize>>>,
}

impl<'t> Trial<'t> {
    fn new(
        args: &MutantsArgs,
        copy: &'t Copy,
        binaries: &'t [Binary],
        tests: &'t [Test],
        allowed: &'t Allowed,
    ) -> Self {
        let mut order: Vec<usize> = (0..tests.len()).collect();
        // Fast tests of few things first: they are most likely meant for what is changed.
        let cost = |t: &Test| t.seconds.max(0.003) * (20 + t.sites.len()) as f64;
        order.sort_by(|&a, &b| cost(&tests[a]).total_cmp(&cost(&tests[b])));
        Trial {
            copy,
            binaries,
            tests,
            allowed,
            budget: args.budget.unwrap_or(f64::INFINITY),
            sites: tests.iter().map(|t| t.sites.iter().copied().collect()).collect(),
            order,
            noticed: Mutex::new(HashMap::new()),
        }
    }

    fn judge(&self, worker: usize, number: u32, change: &Change) -> Result<Fate, String> {
        if self.allowed.holds(change) {
            return Ok(Fate::Allowed);
        }
        let site = self.copy.site_of(number);
        let function = format!("{} {}", change.file, change.function);
        let first =
            self.noticed.lock().expect("no thread panics").get(&function).cloned().unwrap_or_default();
        let rest = self.order.iter().copied().filter(|t| !first.contains(t));
        let reaching: Vec<usize> =
            first.iter().copied().chain(rest).filter(|&t| self.sites[t].contains(&site)).collect();
        if reaching.is_empty() {
            return Ok(Fate::NotReached);
        }
        let scratch = Scratch::new(&self.copy.home, worker);
        let mut spent = 0.0;
        for t in reaching {
            let test = &self.tests[t];
            if spent > 0.0 && spent + test.seconds > self.budget {
                continue;
            }
            spent += test.seconds;
            let binary = &self.binaries[test.binary];
            let limit = Duration::from_secs_f64(10.0 + 10.0 * test.seconds);
            let (end, _) = process::run(binary, &test.name, &Mode::Change(number), limit, &scratch)?;
            if end == End::Passed {
                continue;
            }
            // A test that fails now and then has noticed nothing.
            if process::run(binary, &test.name, &Mode::Plain, limit, &scratch)?.0 != End::Passed {
                continue;
            }
            let by = format!("{}::{}", binary.name, test.name);
            let mut noticed = self.noticed.lock().expect("no thread panics");
            let tests = noticed.entry(function).or_default();
            tests.retain(|k| *k != t);
            tests.insert(0, t);
            return Ok(if end == End::Late { Fate::Hang(by) } else { Fate::Noticed(by) });
        }
        Ok(Fate::Survived)
    }
}
