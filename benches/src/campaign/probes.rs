//! Probes of the steps, each a process of its own.

use std::path::Path;
use std::time::{Duration, Instant};

use scheidegg::Result;

use crate::harness::child::{child, parts};
use crate::harness::skips::Skips;
use crate::harness::table::{Row, Table};
use crate::harness::times::Times;
use crate::ladder::steps::STEPS;
use crate::probes::step;

/// A probe: step, window, precision, and whether its timeline is kept.
type Probe = (&'static str, &'static str, &'static str, bool);

/// Seconds that a probe is expected to take.
pub const EXPECTED_S: f64 = 1.7;

/// The steps whose timelines the story shows; those of all would be a book of their own.
pub const TIMELINES: [&str; 9] =
    ["opt1", "opt2", "opt4", "routeA", "opt5", "opt6", "many", "direct", "library"];

/// Every rung on the GPU in the precision in which the story tells it. Then the step with many frames a launch, and the
/// library, in the windows and precisions that are left, so that every entry of the instruction accounting has a measured rate.
pub fn list() -> Vec<Probe> {
    let mut all: Vec<Probe> = Vec::new();
    for size in ["3", "9"] {
        for step in STEPS.iter().filter(|s| s.on_gpu()) {
            all.push((step.name, size, step.told_in().word(), TIMELINES.contains(&step.name)));
        }
    }
    for size in ["3", "5", "7", "9"] {
        for precision in ["f32", "f64f32"] {
            // The library has kernels of its own, and is built for the windows that are told.
            for step in ["many", "library"].into_iter().filter(|s| *s == "many" || ["3", "9"].contains(&size))
            {
                if !all.iter().any(|p| (p.0, p.1, p.2) == (step, size, precision)) {
                    all.push((step, size, precision, false));
                }
            }
        }
    }
    all
}

/// Runs the probes that the run has not yet, and writes `probe.csv`, `probe_kernels.csv` and `timeline.csv`.
///
/// # Errors
/// Those of writing. A probe that cannot run is a line in `skips.csv`.
pub fn run(run: &Path, frames: usize, until: Instant, call: usize) -> Result<()> {
    let mut skips = Skips::of(run, "probes")?;
    let mut times = Times::of(run, call);
    let table = |name: &str, columns: &[&str]| match call {
        1 => Table::new(run.join(name), columns),
        _ => Table::read(run.join(name)).unwrap_or_else(|_| Table::new(run.join(name), columns)),
    };
    let mut tables = [
        ("probe", table("probe.csv", &step::COLUMNS)),
        ("kernels", table("probe_kernels.csv", &step::KERNELS)),
        ("timeline", table("timeline.csv", &step::INTERVALS)),
    ];
    let parts = parts(run)?;
    for (name, size, precision, timeline) in list() {
        if tables[0].1.find(&[("step", name), ("size", size), ("precision", precision)]).is_some() {
            continue;
        }
        let what = format!("{name}-{size}-{precision}");
        if Instant::now() > until {
            skips.add(&what, "the time for the run is spent")?;
            continue;
        }
        let stem = parts.join(&what);
        let (frames, stem_words) = (frames.to_string(), stem.display().to_string());
        let words = [
            "probe",
            name,
            "--size",
            size,
            "--precision",
            precision,
            "--frames",
            &frames,
            "--csv",
            &stem_words,
        ];
        let log = parts.join(format!("probe-{what}.log"));
        let start = Instant::now();
        let outcome = child(&words.map(String::from), &log, Duration::from_secs(60));
        times.add("probes", &what, 1, EXPECTED_S, start.elapsed().as_secs_f64())?;
        if let Err(e) = outcome {
            skips.add(&what, &e.to_string())?;
            continue;
        }
        for (kind, table) in tables.iter_mut().filter(|(kind, _)| timeline || *kind != "timeline") {
            table.append(Table::read(parts.join(format!("{what}.{kind}.csv")))?)?;
            table.write()?;
        }
        let of_this = [("step", name), ("size", size), ("precision", precision)];
        let found = tables[0].1.rows().filter(|r| r.is(&of_this));
        let busy = |r: Row<'_>| format!("{} {}", r.text("engine"), r.text("busy_us_per_frame"));
        let busy: Vec<String> = found.map(busy).collect();
        println!("probe     {size}x{size} {precision:6} {name}: busy us/frame {}", busy.join(", "));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sass::entries;

    #[test]
    fn every_rung_is_probed_and_every_entry_measured() {
        let all = list();
        for step in STEPS.iter().filter(|s| s.on_gpu()) {
            for size in ["3", "9"] {
                assert!(all.iter().any(|p| p.0 == step.name && p.1 == size), "{} {size}", step.name);
            }
        }
        for (entry, side) in entries().into_iter().filter(|(e, _)| e.starts_with("frame_")) {
            let precision = if entry.contains("f64") { "f64f32" } else { "f32" };
            let same = all.iter().filter(|p| (p.0, p.1, p.2) == ("many", &side.to_string(), precision));
            assert_eq!(same.count(), 1, "{entry}");
        }
        assert!(TIMELINES.iter().all(|t| STEPS.iter().any(|s| s.name == *t)));
    }
}
