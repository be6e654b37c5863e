//! The whole ladder: a fresh process for each step, one table of all repetitions, one of what they come to.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use scheidegg::{Error, Precision, Result};

use super::measure::COLUMNS;
use super::steps::Step;
use crate::harness::table::{Row, Table};

/// What of the ladder is climbed.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Frames of a repetition.
    pub frames: usize,
    /// Repetitions a step.
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
    /// No further step is started after this.
    pub until: Option<Instant>,
}

/// The columns of `ladder.csv`.
pub const SUMMARY: [&str; 23] = [
    "step",
    "size",
    "precision",
    "payload",
    "lanes",
    "threads",
    "frames",
    "repetitions",
    "cold_us_per_frame",
    "best_us_per_frame",
    "median_us_per_frame",
    "spread_percent",
    "frames_per_s",
    "cold_faults_per_frame",
    "plateau_faults_per_frame",
    "major_faults",
    "clusters",
    "checksum",
    "h2d_bytes_per_frame",
    "d2h_bytes_per_frame",
    "result_bytes_per_frame",
    "energy_mj_per_frame",
    "sm_mhz",
];

/// What a step's repetitions come to: cold is the first one, warm the best of the rest; the spread is from the best to
/// the worst of the warm ones, in percent of the best.
pub fn summarise(rows: &[Row<'_>]) -> Option<Vec<String>> {
    let first = *rows.first()?;
    let phase = |p: &'static str| rows.iter().filter(move |r| r.text("phase") == p);
    let mut warm: Vec<f64> = phase("warm").filter_map(|r| r.number("us_per_frame")).collect();
    warm.sort_by(f64::total_cmp);
    let (best, worst) = (*warm.first()?, *warm.last()?);
    let mut faults: Vec<f64> = phase("warm").filter_map(|r| r.number("minor_faults_per_frame")).collect();
    faults.sort_by(f64::total_cmp);
    let of = |p, c: &str| phase(p).next().map_or("", |r| r.text(c)).to_string();
    let major: f64 = phase("warm").filter_map(|r| r.number("major_faults")).sum();
    let last = *phase("warm").next_back()?;
    let keep = |c: &str| first.text(c).to_string();
    Some(vec![
        keep("step"),
        keep("size"),
        keep("precision"),
        keep("payload"),
        keep("lanes"),
        keep("threads"),
        keep("frames"),
        (warm.len() + phase("cold").count()).to_string(),
        of("cold", "us_per_frame"),
        format!("{best:.4}"),
        format!("{:.4}", warm[warm.len() / 2]),
        format!("{:.2}", 100.0 * (worst - best) / best),
        format!("{:.1}", 1e6 / best),
        of("cold", "minor_faults_per_frame"),
        faults.get(faults.len() / 2).map_or(String::new(), |f| format!("{f:.3}")),
        major.to_string(),
        keep("clusters"),
        keep("checksum"),
        last.text("h2d_bytes_per_frame").into(),
        last.text("d2h_bytes_per_frame").into(),
        last.text("result_bytes_per_frame").into(),
        of("energy", "energy_mj_per_frame"),
        last.text("sm_mhz").into(),
    ])
}

/// Runs this program again with other arguments, its words in a file. Kills it when it takes too long.
///
/// # Errors
/// [`Error::Other`] with its last line when it fails.
pub fn child(arguments: &[String], log: &Path, patience: Duration) -> Result<()> {
    let program = std::env::current_exe().map_err(|e| Error::Other(format!("this program: {e}")))?;
    let file = File::create(log).map_err(|e| Error::io(log, e))?;
    let copy = file.try_clone().map_err(|e| Error::io(log, e))?;
    let mut child = Command::new(&program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(file)
        .stderr(copy)
        .spawn()
        .map_err(|e| Error::io(&program, e))?;
    let start = Instant::now();
    let status = loop {
        match child.try_wait().map_err(|e| Error::io(&program, e))? {
            Some(status) => break Some(status),
            None if start.elapsed() > patience => {
                let _ = child.kill();
                let _ = child.wait();
                break None;
            }
            None => std::thread::sleep(Duration::from_millis(2)),
        }
    };
    let words = fs::read_to_string(log).unwrap_or_default();
    let last = words.lines().rev().find(|l| !l.trim().is_empty()).unwrap_or("it said nothing");
    let last = last.trim_start_matches("scheidegg-bench: ").to_string();
    match status {
        Some(status) if status.success() => Ok(()),
        Some(status) if status.code().is_some() => Err(Error::Other(last)),
        Some(status) => Err(Error::Other(format!("{status}: {last}"))),
        None => Err(Error::Other(format!("stopped after {} s: {last}", patience.as_secs()))),
    }
}

/// What a run left out and why: `skips.csv`.
pub struct Skips {
    table: Table,
}

impl Skips {
    /// Goes on with the skips of a run that are written already.
    pub fn of(run: &Path) -> Skips {
        let path = run.join("skips.csv");
        let table = Table::read(&path).unwrap_or_else(|_| Table::new(&path, &["what", "reason"]));
        Skips { table }
    }

    /// Adds one and prints it.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn add(&mut self, what: &str, reason: &str) -> Result<()> {
        println!("SKIPPED: {what}: {reason}");
        self.table.push([what.to_string(), reason.to_string()]);
        self.table.write()
    }
}

/// The folder for what children write.
///
/// # Errors
/// [`Error::Io`].
pub fn parts(run: &Path) -> Result<PathBuf> {
    let parts = run.join("parts");
    fs::create_dir_all(&parts).map_err(|e| Error::io(&parts, e))?;
    Ok(parts)
}

struct Climb<'a> {
    plan: &'a Plan,
    run: &'a Path,
    all: Table,
    summary: Table,
    sweep: Table,
    skips: Skips,
}

impl Climb<'_> {
    fn one(
        &mut self,
        step: &Step,
        size: usize,
        precision: Precision,
        threads: usize,
        repetitions: usize,
        energy: bool,
    ) -> Result<Option<Table>> {
        let name = match step.on_gpu() {
            true => format!("{}-{size}-{precision}", step.name),
            false => format!("{}-{size}-{precision}-{threads}", step.name),
        };
        if self.plan.until.is_some_and(|u| Instant::now() > u) {
            self.skips.add(&name, "the time for the run is spent")?;
            return Ok(None);
        }
        let parts = parts(self.run)?;
        let csv = parts.join(format!("{name}.csv"));
        let arguments: Vec<String> = [
            "step".into(),
            step.name.into(),
            "--size".into(),
            size.to_string(),
            "--precision".into(),
            precision.to_string(),
            "--frames".into(),
            self.plan.frames.to_string(),
            "--repeats".into(),
            repetitions.to_string(),
            "--threads".into(),
            threads.to_string(),
            "--backend".into(),
            self.plan.backend.clone(),
            "--energy-s".into(),
            if energy { self.plan.energy_s.to_string() } else { "0".into() },
            "--csv".into(),
            csv.display().to_string(),
        ]
        .into();
        match child(&arguments, &parts.join(format!("{name}.log")), self.plan.patience) {
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
            self.summary.write()?;
        }
        self.all.append(table)?;
        self.all.write()
    }

    /// Thread counts of the baseline: 1, 2, 4 and so on, and all.
    fn sweep(&mut self, step: &Step, size: usize, precision: Precision) -> Result<usize> {
        let most = std::thread::available_parallelism().map_or(1, usize::from);
        let mut counts: Vec<usize> = (0..).map(|k| 1 << k).take_while(|t| *t < most).collect();
        counts.push(most);
        let mut best = (f64::INFINITY, 1);
        for threads in counts {
            let Some(table) = self.one(step, size, precision, threads, 3, false)? else { continue };
            let rows: Vec<Row<'_>> = table.rows().collect();
            let Some(summary) = summarise(&rows) else { continue };
            if let Ok(us) = summary[9].parse::<f64>()
                && us < best.0
            {
                best = (us, threads);
            }
            println!("baseline  {size}x{size} {precision} {threads:>2} thr: {:>9} us/frame", summary[9]);
            self.sweep.push(summary);
            self.sweep.write()?;
        }
        Ok(best.1)
    }
}

/// What is measured, the story first: a run that is short of time loses what is least missed.
fn order(plan: &Plan) -> Vec<(&'static Step, usize, Precision)> {
    let wanted = |s: &&Step| plan.steps.is_empty() || plan.steps.iter().any(|n| n == s.name);
    let mut all = Vec::new();
    for step in Step::all().filter(wanted) {
        for &size in &plan.sizes {
            all.extend(step.precisions().iter().map(|p| (step, size, *p)));
        }
    }
    // Stable: within a rank the steps keep their order.
    all.sort_by_key(|(step, _, precision)| match (step.is_rung(), *precision == step.told_in()) {
        (true, true) => 0,
        (false, true) => 1,
        _ => 2,
    });
    all
}

/// Climbs the ladder and writes `steps.csv` (every repetition), `ladder.csv` (a row a step), `baseline_threads.csv` and
/// `checks.csv`.
///
/// # Errors
/// [`Error::Other`] when two steps found different clusters; those of writing. A step that cannot run is a line in
/// `skips.csv`.
pub fn run(plan: &Plan, run: &Path) -> Result<()> {
    for name in &plan.steps {
        Step::named(name)?;
    }
    let mut climb = Climb {
        plan,
        run,
        all: Table::new(run.join("steps.csv"), &COLUMNS),
        summary: Table::new(run.join("ladder.csv"), &SUMMARY),
        sweep: Table::new(run.join("baseline_threads.csv"), &SUMMARY),
        skips: Skips::of(run),
    };
    for (step, size, precision) in order(plan) {
        // Only the first rung is about the CPU's speed; elsewhere all threads will do.
        let threads = match step.name {
            "baseline" => climb.sweep(step, size, precision)?,
            _ if step.on_gpu() => 1,
            _ => std::thread::available_parallelism().map_or(1, usize::from),
        };
        if let Some(table) = climb.one(step, size, precision, threads, plan.repetitions, step.on_gpu())? {
            climb.keep(table)?;
        }
    }
    check(&climb.summary, run)
}

/// Every step with the same window, precision and lanes must have found the same; says so in `checks.csv`.
fn check(summary: &Table, run: &Path) -> Result<()> {
    let mut checks = Table::new(
        run.join("checks.csv"),
        &["size", "precision", "lanes", "steps", "clusters", "checksum", "equal"],
    );
    let mut groups: Vec<[String; 3]> = Vec::new();
    for row in summary.rows() {
        let key = ["size", "precision", "lanes"].map(|c| row.text(c).to_string());
        if !groups.contains(&key) {
            groups.push(key);
        }
    }
    let mut wrong = Vec::new();
    for [size, precision, lanes] in groups {
        let wanted = [("size", size.as_str()), ("precision", &precision), ("lanes", &lanes)];
        let rows: Vec<Row<'_>> = summary.rows().filter(|r| r.is(&wanted)).collect();
        let sum = rows[0].text("checksum");
        let odd: Vec<&str> =
            rows.iter().filter(|r| r.text("checksum") != sum).map(|r| r.text("step")).collect();
        if !odd.is_empty() {
            wrong.push(format!(
                "{size}x{size} {precision}: {} differ from {}",
                odd.join(", "),
                rows[0].text("step")
            ));
        }
        checks.push([
            size.clone(),
            precision.clone(),
            lanes.clone(),
            rows.len().to_string(),
            rows[0].text("clusters").into(),
            sum.into(),
            if odd.is_empty() { "yes".into() } else { format!("no: {}", odd.join(" ")) },
        ]);
    }
    checks.write()?;
    match wrong.is_empty() {
        true => Ok(()),
        false => Err(Error::Other(format!("steps found different clusters: {}", wrong.join("; ")))),
    }
}
