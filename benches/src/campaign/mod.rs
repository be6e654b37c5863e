//! Everything in order, in a bounded time: what `scheidegg-bench campaign` does on a GPU machine.

mod probes;
mod published;

use std::fmt;
use std::path::Path;
use std::str::FromStr;
use std::time::{Duration, Instant};

use scheidegg::{Error, Result};

use crate::harness::child::{child, parts};
use crate::harness::machine::Environment;
use crate::harness::skips::Skips;
use crate::harness::times::Times;
use crate::ladder::spawn;
use crate::{backends, report, sass, study};

pub use published::write as write_published;

/// A part of a campaign.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Copies of many sizes.
    Wire,
    /// What each engine did.
    Probes,
    /// Naive f32, centred f32 and f64.
    Precision,
    /// Serial against frozen.
    Timing,
    /// Machine instructions.
    Instructions,
    /// Every step.
    Ladder,
}

impl Part {
    /// Every part in the order in which it is done: those that take a known time first, the ladder with all that is left.
    pub const ALL: [Part; 6] =
        [Part::Wire, Part::Probes, Part::Precision, Part::Timing, Part::Instructions, Part::Ladder];

    /// The word on the command line and in tables.
    pub const fn word(self) -> &'static str {
        match self {
            Part::Wire => "wire",
            Part::Probes => "probes",
            Part::Precision => "precision",
            Part::Timing => "timing",
            Part::Instructions => "instructions",
            Part::Ladder => "ladder",
        }
    }

    /// The table that is there once a part is done; the ladder and the probes look for themselves what is missing.
    const fn table(self) -> Option<&'static str> {
        match self {
            Part::Wire => Some("wire.csv"),
            Part::Precision => Some("precision_levels.csv"),
            Part::Timing => Some("timing_matrix.csv"),
            // Cheap, and better with more probes.
            Part::Instructions | Part::Probes | Part::Ladder => None,
        }
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

impl FromStr for Part {
    type Err = Error;

    fn from_str(word: &str) -> Result<Part> {
        Part::ALL.into_iter().find(|p| p.word() == word).ok_or_else(|| {
            let words: Vec<&str> = Part::ALL.iter().map(|p| p.word()).collect();
            Error::param("only", word, format!("some of {}", words.join(", ")))
        })
    }
}

/// What is done, and how long it may take.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The whole time.
    pub limit: Duration,
    /// Frames of a repetition of the ladder.
    pub frames: usize,
    /// Repetitions a step.
    pub repetitions: usize,
    /// Seconds of the energy measurement of a step.
    pub energy_s: f64,
    /// A trial: everything once and small, to see that it works.
    pub quick: bool,
    /// The parts that are done; none means all.
    pub only: Vec<Part>,
    /// Whether a run that is there goes on, perhaps on another machine of the same kind.
    pub resume: bool,
}

impl Plan {
    fn does(&self, part: Part) -> bool {
        self.only.is_empty() || self.only.contains(&part)
    }

    fn ladder(&self, until: Option<Instant>, call: usize) -> spawn::Plan {
        spawn::Plan {
            frames: self.frames,
            repetitions: self.repetitions,
            sizes: vec![3, 9],
            steps: Vec::new(),
            backend: backends::DEFAULT.into(),
            energy_s: self.energy_s,
            patience: Duration::from_secs(60),
            until,
            call,
        }
    }

    /// Seconds that a part is expected to take on 16 cores and an H200, those of the run of 2026-11-30 rounded up.
    fn expected_s(&self, part: Part) -> f64 {
        let small = if self.quick { 0.1 } else { 1.0 };
        match part {
            Part::Wire => 5.0,
            Part::Probes => probes::EXPECTED_S * probes::list().len() as f64,
            Part::Precision => 20.0 * small,
            Part::Timing => 18.0 * small,
            Part::Instructions => 6.0,
            Part::Ladder => spawn::estimate(&self.ladder(None, 1)).0,
        }
    }

    /// What will be done and how long it may take, in words.
    fn estimate(&self) -> String {
        let parts: Vec<Part> = Part::ALL.into_iter().filter(|p| self.does(*p)).collect();
        let words: Vec<String> = parts.iter().map(|p| format!("{p} {:.0} s", self.expected_s(*p))).collect();
        let (sum, limit): (f64, f64) =
            (parts.iter().map(|p| self.expected_s(*p)).sum::<f64>() + REPORT_S, self.limit.as_secs_f64());
        let verdict = match sum <= limit {
            true => "which fits",
            false => "repetitions will be cut, then steps",
        };
        format!(
            "expected on 16 cores and an H200: {}, the report {REPORT_S:.0} s; {sum:.0} s in all, allowed {limit:.0} s: \
             {verdict}. The ladder has {} processes of up to {} repetitions.",
            words.join(", "),
            spawn::estimate(&self.ladder(None, 1)).1,
            self.repetitions
        )
    }
}

/// Seconds that are kept for the report and its figures.
const REPORT_S: f64 = 8.0;

/// Begins a run, or a later call of one; returns the number of the call.
fn begin(plan: &Plan, run: &Path) -> Result<usize> {
    std::fs::create_dir_all(run).map_err(|e| Error::io(run, e))?;
    let begun = run.join("env.json").is_file();
    match (begun, plan.resume) {
        (true, true) => Environment::here().join(run),
        (true, false) => {
            let what = "holds a run already: go on with it by --resume, or name another folder";
            Err(Error::file(run, what))
        }
        (false, _) => {
            Environment::here().write(run)?;
            Ok(1)
        }
    }
}

/// Runs everything and writes the report. What cannot run is a line in `skips.csv`; what has failed is one too, so that
/// the rest is not lost with it.
///
/// # Errors
/// [`Error::File`] for a folder that holds a run, unless it goes on with one of the same program and kind of machine; those
/// of writing, and the ladder's when two steps found different clusters (after everything else is done).
pub fn run(plan: &Plan, run: &Path) -> Result<()> {
    let start = Instant::now();
    let say = |what: &str| println!("== {what} ({:.0} s)", start.elapsed().as_secs_f64());
    println!("{}", plan.estimate());
    say("environment");
    let call = begin(plan, run)?;
    published::write(run)?;
    let end = start + plan.limit.saturating_sub(Duration::from_secs_f64(REPORT_S));
    let mut climbed = Ok(());
    for part in Part::ALL.into_iter().filter(|p| plan.does(*p)) {
        say(part.word());
        if call > 1 && part.table().is_some_and(|t| run.join(t).is_file()) {
            println!("there from an earlier call");
            continue;
        }
        let began = Instant::now();
        let outcome = match part {
            Part::Ladder => {
                climbed = spawn::run(&plan.ladder(Some(end), call), run);
                // What it left out is listed already.
                if let Err(e) = &climbed {
                    println!("FAILED: {e}");
                }
                Ok(())
            }
            // At most half of the time, so that the ladder is not lost to slow probes.
            Part::Probes => probes::run(run, plan.frames.min(1000), start + plan.limit / 2, call),
            _ => {
                let mut skips = Skips::of(run, part.word())?;
                let left = end.saturating_duration_since(Instant::now()).as_secs_f64();
                let outcome = match left < plan.expected_s(part) {
                    true => Err(Error::Other("the time for the run is spent".into())),
                    false => work(part, plan, run),
                };
                if let Err(e) = outcome {
                    skips.add(part.word(), &e.to_string())?;
                }
                Ok(())
            }
        };
        outcome?;
        let took = began.elapsed().as_secs_f64();
        Times::of(run, call).add(part.word(), "in all", 1, plan.expected_s(part), took)?;
    }
    say("report");
    report::report(run, None, None)?;
    say("done");
    climbed
}

/// The parts that are one piece of work.
fn work(part: Part, plan: &Plan, run: &Path) -> Result<()> {
    let scale = if plan.quick { 20 } else { 1 };
    match part {
        Part::Wire => {
            let words = ["wire".to_string(), run.display().to_string()];
            child(&words, &parts(run)?.join("wire.log"), Duration::from_secs(60))
        }
        Part::Precision => {
            let backend = backends::cpu(backends::DEFAULT, 1)?;
            let plan = study::precision::Plan {
                frames: 2000 / scale,
                drift_frames: 100_000 / scale as u64,
                drift_side: 64,
                level_frames: 10_000 / scale as u64,
            };
            study::precision::run(plan, &*backend, run)
        }
        Part::Timing => {
            let threads = std::thread::available_parallelism().map_or(1, |n| n.get() as u64);
            let plan = study::timing::Plan {
                runs: if plan.quick { 2 } else { threads.max(4) },
                frames: if plan.quick { 20 } else { 500 },
                size: 3,
                side: 400,
            };
            study::timing::run(plan, run)
        }
        Part::Instructions => sass::run(run, None),
        Part::Probes | Part::Ladder => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan() -> Plan {
        Plan {
            limit: Duration::from_secs(560),
            frames: 2000,
            repetitions: 6,
            energy_s: 0.5,
            quick: false,
            only: Vec::new(),
            resume: false,
        }
    }

    #[test]
    fn a_whole_campaign_is_expected_to_fit_in_its_time() {
        let words = plan().estimate();
        assert!(words.contains("which fits"), "{words}");
        let short = Plan { limit: Duration::from_secs(200), ..plan() };
        assert!(short.estimate().contains("repetitions will be cut"), "{}", short.estimate());
        let only = Plan { only: vec![Part::Wire], ..plan() };
        assert!(!only.estimate().contains("probes"), "{}", only.estimate());
    }

    #[test]
    fn a_folder_with_a_run_is_not_overwritten() {
        let run = std::env::temp_dir().join(format!("scheidegg-begin-{}", std::process::id()));
        assert_eq!(begin(&plan(), &run).unwrap(), 1);
        let e = begin(&plan(), &run).unwrap_err().to_string();
        assert!(e.contains("--resume"), "{e}");
        assert_eq!(begin(&Plan { resume: true, ..plan() }, &run).unwrap(), 2);
        assert_eq!(begin(&Plan { resume: true, ..plan() }, &run).unwrap(), 3);
        std::fs::remove_dir_all(run).unwrap();
    }

    #[test]
    fn parts_are_read_by_their_words() {
        for part in Part::ALL {
            assert_eq!(part.word().parse::<Part>().unwrap(), part);
        }
        assert!("report".parse::<Part>().unwrap_err().to_string().contains("wire, probes"));
    }
}
