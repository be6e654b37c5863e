//! A step of the ladder under the probe.

use std::collections::BTreeMap;
use std::path::Path;

use scheidegg::Result;

use super::cupti::{Activity, Cupti, Engine};
use super::engines::Engines;
use crate::harness::table::Table;
use crate::ladder::measure::{Plan, ready};
use crate::scene::{Scene, ladder_detector};

/// Intervals of a timeline; more would be a smear.
const TIMELINE: usize = 200;

/// The columns of `probe.csv`: one row an engine.
pub const COLUMNS: [&str; 16] = [
    "step",
    "size",
    "precision",
    "frames",
    "engine",
    "count",
    "count_per_frame",
    "busy_us_per_frame",
    "sum_us_per_frame",
    "median_us",
    "duty_percent",
    "bytes_per_frame",
    "gb_per_s",
    "span_us_per_frame",
    "overlap_percent",
    "binds",
];

/// The columns of `probe_kernels.csv`: one row a kernel.
pub const KERNELS: [&str; 9] =
    ["step", "size", "precision", "kernel", "launches", "us_per_frame", "median_us", "registers", "threads"];

/// The columns of `timeline.csv`: intervals from the middle of the run.
pub const INTERVALS: [&str; 9] =
    ["step", "size", "precision", "engine", "start_us", "end_us", "bytes", "stream", "kernel"];

/// Runs a step once warm and once under the probe, and writes `NAME.probe.csv`, `NAME.kernels.csv` and
/// `NAME.timeline.csv` beside each other.
///
/// # Errors
/// [`scheidegg::Error::Unavailable`] where CUPTI is missing or unknown; those of the step.
pub fn run(plan: &Plan, stem: &Path) -> Result<()> {
    // Before the first context, or CUPTI misses its creation.
    let cupti = Cupti::start()?;
    println!("CUPTI {} from {}", cupti.version, cupti.path.display());
    let scene = Scene::new(&ladder_detector(), plan.frames)?;
    let mut ready = ready(plan, &scene, None)?;
    ready.driver.reset()?;
    ready.driver.run(&mut |_| Ok(()))?;
    ready.driver.reset()?;
    ready.synchronize()?;
    drop(cupti.take());
    ready.driver.run(&mut |_| Ok(()))?;
    ready.synchronize()?;
    let activities = cupti.take();
    write(plan, &activities, stem)
}

fn write(plan: &Plan, activities: &[Activity], stem: &Path) -> Result<()> {
    let path = |what: &str| {
        let mut name = stem.as_os_str().to_owned();
        name.push(format!(".{what}.csv"));
        std::path::PathBuf::from(name)
    };
    let what = [plan.step.name.to_string(), plan.size.to_string(), plan.precision.to_string()];
    let per_frame = |ns: u64| format!("{:.4}", ns as f64 / 1e3 / plan.frames as f64);
    let engines = Engines::of(activities);
    let mut probe = Table::new(path("probe"), &COLUMNS);
    for engine in Engine::ALL {
        let b = engines.get(engine);
        let copies = engine != Engine::Kernel;
        let bytes = b.amount as f64 / plan.frames as f64;
        let rate = b.amount as f64 / b.union_ns.max(1) as f64;
        probe.push(what.iter().cloned().chain([
            plan.frames.to_string(),
            engine.word().into(),
            b.count.to_string(),
            format!("{:.3}", b.count as f64 / plan.frames as f64),
            per_frame(b.union_ns),
            per_frame(b.sum_ns),
            format!("{:.3}", b.median_ns as f64 / 1e3),
            format!("{:.2}", 100.0 * engines.duty(engine)),
            if copies { format!("{bytes:.1}") } else { String::new() },
            if copies && b.count > 0 { format!("{rate:.2}") } else { String::new() },
            per_frame(engines.span_ns),
            format!("{:.2}", 100.0 * engines.overlap_ns as f64 / engines.any_ns.max(1) as f64),
            if engine == engines.binding() { "yes".into() } else { "no".into() },
        ]));
    }
    probe.write()?;

    let mut by_name: BTreeMap<&str, Vec<&Activity>> = BTreeMap::new();
    for a in activities.iter().filter(|a| a.engine == Engine::Kernel) {
        by_name.entry(&a.name).or_default().push(a);
    }
    let mut kernels = Table::new(path("kernels"), &KERNELS);
    for (name, runs) in by_name {
        let mut durations: Vec<u64> = runs.iter().map(|a| a.end - a.start).collect();
        durations.sort_unstable();
        kernels.push(what.iter().cloned().chain([
            name.to_string(),
            runs.len().to_string(),
            per_frame(durations.iter().sum()),
            format!("{:.3}", durations[durations.len() / 2] as f64 / 1e3),
            runs[0].registers.to_string(),
            runs[0].amount.to_string(),
        ]));
    }
    kernels.write()?;

    let mut timeline = Table::new(path("timeline"), &INTERVALS);
    let middle = activities.len() / 2;
    let window = &activities[middle.min(activities.len())..(middle + TIMELINE).min(activities.len())];
    let zero = window.first().map_or(0, |a| a.start);
    for a in window {
        timeline.push(what.iter().cloned().chain([
            a.engine.word().to_string(),
            format!("{:.3}", (a.start - zero) as f64 / 1e3),
            format!("{:.3}", (a.end - zero) as f64 / 1e3),
            a.amount.to_string(),
            a.stream.to_string(),
            a.name.clone(),
        ]));
    }
    timeline.write()
}
