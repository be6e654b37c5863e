//! The whole ladder: a fresh process for each step, one table of all repetitions, one of what they come to.

use std::path::Path;
use std::time::{Duration, Instant};

use scheidegg::{Precision, Result};

use super::budget::{self, Cost, Pace};
use super::measure::COLUMNS;
use super::steps::{How, Step};
use super::summary::{SUMMARY, check, summarise};
use crate::harness::child::{child, parts};
use crate::harness::skips::Skips;
use crate::harness::table::{Row, Table};
use crate::harness::times::Times;

/// What of the ladder is climbed.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Frames of a repetition.
    pub frames: usize,
    /// Repetitions a step, when there is time for them.
    pub repetitions: usize,
    /// Sides of windows.
    pub sizes: Vec<usize>,
    /// Steps by name; none means all.
    pub steps: Vec<String>,
    /// The CPU backend of the baseline.
    pub backend: String,
    /// Seconds of the energy measurement a step.
    pub energy_s: f64,
    /// The longest that a step may take.
    pub patience: Duration,
    /// When the ladder must have ended; repetitions are cut for it, then steps.
    pub until: Option<Instant>,
    /// The number of the call; the steps that earlier ones have measured are kept.
    pub call: usize,
}

/// A process of the ladder.
#[derive(Clone, Copy)]
struct Job {
    step: &'static Step,
    size: usize,
    precision: Precision,
    /// Threads of the CPU; none for the best of a sweep.
    threads: Option<usize>,
    /// One of a sweep over threads: a row of `baseline_threads.csv`, not of `ladder.csv`.
    sweep: bool,
}

/// Repetitions of a thread count in a sweep.
const SWEEP: usize = 3;

impl Job {
    fn name(&self) -> String {
        let name = format!("{}-{}-{}", self.step.name, self.size, self.precision);
        match self.threads {
            Some(threads) if !self.step.on_gpu() => format!("{name}-{threads}"),
            _ => name,
        }
    }

    fn cost(&self, plan: &Plan) -> Cost {
        let threads = self.threads.unwrap_or_else(most_threads);
        let energy = if self.sweep { 0.0 } else { plan.energy_s };
        budget::expected(self.step, self.size, threads, plan.frames, energy)
    }

    fn wanted(&self, plan: &Plan) -> usize {
        if self.sweep { SWEEP.min(plan.repetitions) } else { plan.repetitions }
    }

    fn is(&self, row: &Row<'_>) -> bool {
        let (size, precision) = (self.size.to_string(), self.precision.to_string());
        let same = row.is(&[("step", self.step.name), ("size", &size), ("precision", &precision)]);
        same && (!self.sweep || self.threads.is_some_and(|t| row.text("threads") == t.to_string()))
    }
}

fn most_threads() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Thread counts of a sweep: 1, 2, 4 and so on, and all.
fn thread_counts(most: usize) -> Vec<usize> {
    let mut counts: Vec<usize> = (0..).map(|k| 1 << k).take_while(|t| *t < most).collect();
    counts.push(most);
    counts
}

/// What is measured, in the order in which it is missed most: our own steps and the story in the precision that it is
/// told in, the questions, then the other precision.
fn jobs(plan: &Plan) -> Vec<Job> {
    let wanted = |s: &&Step| plan.steps.is_empty() || plan.steps.iter().any(|n| n == s.name);
    let mut all = Vec::new();
    for step in Step::all().filter(wanted) {
        for &size in &plan.sizes {
            all.extend(step.precisions().iter().map(|p| (step, size, *p)));
        }
    }
    // Stable: within a rank the steps keep their order. The quick steps first: none of them is worth leaving out.
    all.sort_by_key(|(step, _, precision)| {
        let told = *precision == step.told_in();
        match (told, step.is_rung(), step.how) {
            (true, true, How::Chunks(_) | How::Library { .. }) => 0,
            (true, true, _) => 1,
            (true, false, _) => 2,
            _ => 3,
        }
    });
    let mut jobs = Vec::new();
    for (step, size, precision) in all {
        let job = |threads, sweep| Job { step, size, precision, threads, sweep };
        match (step.on_gpu(), step.name) {
            (true, _) => jobs.push(job(Some(1), false)),
            // The first rung is about the best number of threads; the other one on the CPU is a check of clusters.
            (false, "baseline") => {
                jobs.extend(thread_counts(most_threads()).into_iter().map(|t| job(Some(t), true)));
                jobs.push(job(None, false));
            }
            (false, _) => jobs.push(job(Some(most_threads()), false)),
        }
    }
    jobs
}

/// Seconds that the ladder is expected to take, and the number of its processes.
pub fn estimate(plan: &Plan) -> (f64, usize) {
    let jobs = jobs(plan);
    (jobs.iter().map(|j| j.cost(plan).of(j.wanted(plan))).sum(), jobs.len())
}

/// Where a row stands in the story.
fn place(row: Row<'_>) -> (usize, String, std::cmp::Reverse<String>) {
    let step = Step::all().position(|s| s.name == row.text("step")).unwrap_or(usize::MAX);
    (step, row.text("size").to_string(), std::cmp::Reverse(row.text("precision").to_string()))
}

struct Climb<'a> {
    plan: &'a Plan,
    run: &'a Path,
    all: Table,
    summary: Table,
    sweep: Table,
    skips: Skips,
    times: Times,
    pace: Pace,
}

impl Climb<'_> {
    /// Measures one, or says why not.
    fn one(&mut self, job: Job, repetitions: usize) -> Result<Option<Table>> {
        let name = job.name();
        let parts = parts(self.run)?;
        let csv = parts.join(format!("{name}.csv"));
        let energy = if job.sweep { 0.0 } else { self.plan.energy_s };
        let arguments: Vec<String> = [
            "step".into(),
            job.step.name.into(),
            "--size".into(),
            job.size.to_string(),
            "--precision".into(),
            job.precision.to_string(),
            "--frames".into(),
            self.plan.frames.to_string(),
            "--repeats".into(),
            repetitions.to_string(),
            "--threads".into(),
            job.threads.unwrap_or(1).to_string(),
            "--backend".into(),
            self.plan.backend.clone(),
            "--energy-s".into(),
            energy.to_string(),
            "--csv".into(),
            csv.display().to_string(),
        ]
        .into();
        let start = Instant::now();
        let outcome = child(&arguments, &parts.join(format!("{name}.log")), self.plan.patience);
        let (expected, took) = (job.cost(self.plan).of(repetitions), start.elapsed().as_secs_f64());
        self.pace.add(expected, took);
        self.times.add("ladder", &name, repetitions, expected, took)?;
        match outcome {
            Ok(()) => Ok(Some(Table::read(csv)?)),
            Err(e) => {
                self.skips.add(&name, &e.to_string())?;
                Ok(None)
            }
        }
    }

    fn keep(&mut self, table: Table) -> Result<()> {
        let rows: Vec<Row<'_>> = table.rows().collect();
        if let Some(summary) = summarise(&rows) {
            println!(
                "{:9} {}x{} {:6} {:>2} thr: cold {:>9}  best {:>9} us/frame  spread {:>5} %  faults/frame {:>8}  {} mJ  {}",
                summary[0],
                summary[1],
                summary[1],
                summary[2],
                summary[5],
                summary[8],
                summary[9],
                summary[11],
                summary[14],
                summary[21],
                summary[17],
            );
            self.summary.push(summary);
            self.summary.sort_by_key(place);
            self.summary.write()?;
        }
        self.all.append(table)?;
        self.all.sort_by_key(place);
        self.all.write()
    }

    fn keep_sweep(&mut self, table: &Table) -> Result<()> {
        let rows: Vec<Row<'_>> = table.rows().collect();
        let Some(summary) = summarise(&rows) else { return Ok(()) };
        println!(
            "{:9} {}x{} {} {:>2} thr: {:>9} us/frame",
            summary[0], summary[1], summary[1], summary[2], summary[5], summary[9]
        );
        self.sweep.push(summary);
        self.sweep.write()
    }

    /// The thread count that was best in the sweep.
    fn best_threads(&self, job: Job) -> usize {
        let rows = self.sweep.rows().filter(|r| job.is(r));
        let times =
            rows.filter_map(|r| Some((r.number("best_us_per_frame")?, r.number("threads")? as usize)));
        times.min_by(|a, b| a.0.total_cmp(&b.0)).map_or_else(most_threads, |(_, threads)| threads)
    }

    fn is_done(&self, job: Job) -> bool {
        let table = if job.sweep { &self.sweep } else { &self.summary };
        table.rows().any(|r| job.is(&r))
    }
}

/// Climbs the ladder and writes `steps.csv` (every repetition), `ladder.csv` (a row a step), `baseline_threads.csv` and
/// `checks.csv`. In a later call of a run only what is not there yet is measured.
///
/// # Errors
/// [`scheidegg::Error::Other`] when two steps found different clusters; those of writing. A step that cannot run is a
/// line in `skips.csv`.
pub fn run(plan: &Plan, run: &Path) -> Result<()> {
    for name in &plan.steps {
        Step::named(name)?;
    }
    let table = |name: &str, columns: &[&str]| match plan.call {
        1 => Table::new(run.join(name), columns),
        _ => Table::read(run.join(name)).unwrap_or_else(|_| Table::new(run.join(name), columns)),
    };
    let mut climb = Climb {
        plan,
        run,
        all: table("steps.csv", &COLUMNS),
        summary: table("ladder.csv", &SUMMARY),
        sweep: table("baseline_threads.csv", &SUMMARY),
        skips: Skips::of(run, "ladder")?,
        times: Times::of(run, plan.call),
        pace: Pace::default(),
    };
    let jobs: Vec<Job> = jobs(plan).into_iter().filter(|j| !climb.is_done(*j)).collect();
    for (i, job) in jobs.iter().enumerate() {
        let mut repetitions = job.wanted(plan);
        if let Some(until) = plan.until {
            let left = until.saturating_duration_since(Instant::now()).as_secs_f64();
            let costs: Vec<Cost> = jobs[i..].iter().map(|j| j.cost(plan)).collect();
            match budget::repetitions(left, climb.pace.factor(), &costs, repetitions) {
                Some(n) => repetitions = n,
                None => {
                    climb.skips.add(&job.name(), "the time for the run is spent")?;
                    continue;
                }
            }
        }
        let job = match job.threads {
            Some(_) => *job,
            None => Job { threads: Some(climb.best_threads(*job)), ..*job },
        };
        let Some(table) = climb.one(job, repetitions)? else { continue };
        if job.sweep {
            climb.keep_sweep(&table)?;
        } else {
            climb.keep(table)?;
        }
    }
    check(&climb.summary, run)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(call: usize) -> Plan {
        Plan {
            frames: 2000,
            repetitions: 6,
            sizes: vec![3, 9],
            steps: Vec::new(),
            backend: "cpu".into(),
            energy_s: 0.5,
            patience: Duration::from_secs(60),
            until: Some(Instant::now()),
            call,
        }
    }

    #[test]
    fn every_step_that_the_story_names_is_a_job_in_both_windows_and_precisions() {
        let jobs = jobs(&plan(1));
        for step in [
            "baseline", "opt1", "opt2", "opt3", "opt4", "routeA", "opt5", "opt6", "routeB1", "routeB2",
            "coarse", "many", "truesize", "i16", "direct", "library", "library1",
        ] {
            for size in [3, 9] {
                for precision in [Precision::F64F32, Precision::F32] {
                    let found = jobs.iter().filter(|j| {
                        !j.sweep && j.step.name == step && j.size == size && j.precision == precision
                    });
                    assert_eq!(found.count(), 1, "{step} {size} {precision}");
                }
            }
        }
        assert_eq!(
            jobs.iter().filter(|j| j.step.name == "opt7").count(),
            2,
            "opt7 is the step that turns to f32"
        );
        assert_eq!(jobs[0].step.name, "coarse", "what is quick and ours comes first");
        let sweep = jobs.iter().position(|j| j.sweep).unwrap();
        let best = jobs.iter().position(|j| j.threads.is_none()).unwrap();
        assert!(sweep < best, "the best thread count is known before it is used");
        assert_eq!(thread_counts(16), [1, 2, 4, 8, 16]);
        assert_eq!(thread_counts(6), [1, 2, 4, 6]);
    }

    #[test]
    fn without_time_every_step_is_named_as_left_out_and_what_is_there_is_kept() {
        let run_dir = std::env::temp_dir().join(format!("scheidegg-climb-{}", std::process::id()));
        std::fs::create_dir_all(&run_dir).unwrap();
        run(&plan(1), &run_dir).unwrap();
        let all = Table::read(run_dir.join("skips.csv")).unwrap().len();
        assert_eq!(all, jobs(&plan(1)).len());
        // A later call finds one step measured.
        let mut done = Table::new(run_dir.join("ladder.csv"), &SUMMARY);
        done.push(SUMMARY.map(|c| match c {
            "step" => "opt4".to_string(),
            "size" => "3".to_string(),
            "precision" => "f64f32".to_string(),
            _ => "1".to_string(),
        }));
        done.write().unwrap();
        run(&plan(2), &run_dir).unwrap();
        let skips = Table::read(run_dir.join("skips.csv")).unwrap();
        assert_eq!(skips.len(), all - 1);
        assert!(skips.find(&[("what", "opt4-3-f64f32")]).is_none());
        assert!(skips.find(&[("what", "opt4-3-f32")]).is_some());
        assert!(Table::read(run_dir.join("ladder.csv")).unwrap().find(&[("step", "opt4")]).is_some());
        std::fs::remove_dir_all(run_dir).unwrap();
    }
}
