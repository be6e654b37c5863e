//! Everything in order, in a bounded time: what `scheidegg-bench campaign` does on a GPU machine.

use std::path::Path;
use std::time::{Duration, Instant};

use scheidegg::Result;

use crate::harness::machine::{Environment, write_manifest};
use crate::harness::table::{Row, Table};
use crate::ladder::spawn::{self, Skips, child, parts};
use crate::probes::step;
use crate::{backends, report, sass, study};

/// What is done, and how long it may take.
#[derive(Clone, Copy, Debug)]
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
}

/// The steps that are probed, each in the precision in which the story tells it.
const PROBED: [(&str, &str); 9] = [
    ("opt1", "f64f32"),
    ("opt2", "f64f32"),
    ("opt4", "f64f32"),
    ("routeA", "f64f32"),
    ("opt5", "f64f32"),
    ("opt6", "f64f32"),
    ("many", "f32"),
    ("direct", "f32"),
    ("library", "f32"),
];

/// A time that others published, in us a frame of 400 x 400 pixels, and the step of ours that does the same.
struct Published {
    what: &'static str,
    gpu: &'static str,
    size: &'static str,
    us_per_frame: f64,
    /// What the link of that machine carries.
    link_gb_per_s: f64,
    step: &'static str,
    remark: &'static str,
}

const SAME_MACHINE: &str = "Here both ran on the same GPU and wire: what differs is the host. Owned results in fresh memory fault \
                            page by page.";

const PUBLISHED: [Published; 4] = [
    Published {
        what: "aare CUDA, zero-copy results",
        gpu: "RTX 4090",
        size: "3",
        us_per_frame: 16.3,
        link_gb_per_s: 25.0,
        step: "opt6",
        remark: "The published wire is PCIe 4.0, about half of ours, and 16.3 us are close to what it needs for one copy \
                 a frame.",
    },
    Published {
        what: "aare CUDA, zero-copy results",
        gpu: "RTX 4090",
        size: "9",
        us_per_frame: 25.1,
        link_gb_per_s: 25.0,
        step: "opt6",
        remark: "Results of fixed size are what this step moves most of; how much room a frame is given decides its time.",
    },
    Published {
        what: "aare CUDA, best row",
        gpu: "H200",
        size: "3",
        us_per_frame: 53.0,
        link_gb_per_s: 55.3,
        step: "opt5",
        remark: SAME_MACHINE,
    },
    Published {
        what: "aare CUDA, best row",
        gpu: "H200",
        size: "9",
        us_per_frame: 290.0,
        link_gb_per_s: 55.3,
        step: "opt5",
        remark: SAME_MACHINE,
    },
];

fn published(run: &Path) -> Result<()> {
    let columns =
        ["what", "gpu", "size", "us_per_frame", "link_gb_per_s", "our_step", "our_precision", "remark"];
    let mut table = Table::new(run.join("published.csv"), &columns);
    for p in PUBLISHED {
        table.push([
            p.what.to_string(),
            p.gpu.to_string(),
            p.size.to_string(),
            p.us_per_frame.to_string(),
            p.link_gb_per_s.to_string(),
            p.step.to_string(),
            "f64f32".to_string(),
            p.remark.to_string(),
        ]);
    }
    table.write()
}

/// Probes of the steps that the story dwells on; each a process of its own.
fn probe(plan: &Plan, run: &Path, until: Instant, skips: &mut Skips) -> Result<()> {
    let mut tables = [
        ("probe", Table::new(run.join("probe.csv"), &step::COLUMNS)),
        ("kernels", Table::new(run.join("probe_kernels.csv"), &step::KERNELS)),
        ("timeline", Table::new(run.join("timeline.csv"), &step::INTERVALS)),
    ];
    let parts = parts(run)?;
    for size in ["3", "9"] {
        for (name, precision) in PROBED {
            let stem = parts.join(format!("{name}-{size}-{precision}"));
            let what = format!("probe {name}-{size}-{precision}");
            if Instant::now() > until {
                skips.add(&what, "the time for the run is spent")?;
                continue;
            }
            let frames = plan.frames.min(1000).to_string();
            let stem_words = stem.display().to_string();
            let arguments = [
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
            ]
            .map(String::from);
            let log = parts.join(format!("probe-{name}-{size}-{precision}.log"));
            if let Err(e) = child(&arguments, &log, Duration::from_secs(60)) {
                skips.add(&what, &e.to_string())?;
                continue;
            }
            for (kind, table) in &mut tables {
                let part = Table::read(parts.join(format!("{name}-{size}-{precision}.{kind}.csv")))?;
                table.append(part)?;
            }
            let found: Vec<Row<'_>> = tables[0].1.rows().collect();
            let busy: Vec<String> = found
                .iter()
                .rev()
                .take(4)
                .rev()
                .map(|r| format!("{} {}", r.text("engine"), r.text("busy_us_per_frame")))
                .collect();
            println!("probe     {size}x{size} {precision:6} {name}: busy us/frame {}", busy.join(", "));
        }
    }
    for (_, table) in &tables {
        if !table.is_empty() {
            table.write()?;
        }
    }
    Ok(())
}

/// Runs everything and writes the report. What cannot run is a line in `skips.csv`; what has failed is one too, so that
/// the rest is not lost with it.
///
/// # Errors
/// Those of writing, and the ladder's when two steps found different clusters (after everything else is done).
pub fn run(plan: &Plan, run: &Path) -> Result<()> {
    let start = Instant::now();
    let at = |share: f64| start + plan.limit.mul_f64(share);
    let say = |what: &str| println!("== {what} ({:.0} s)", start.elapsed().as_secs_f64());
    std::fs::create_dir_all(run).map_err(|e| scheidegg::Error::io(run, e))?;
    // A run's skips are its own.
    let _ = std::fs::remove_file(run.join("skips.csv"));
    say("environment");
    Environment::here().write(run)?;
    published(run)?;

    say("wire");
    let outcome = child(
        &["wire".to_string(), run.display().to_string()],
        &parts(run)?.join("wire.log"),
        Duration::from_secs(60),
    );
    if let Err(e) = outcome {
        Skips::of(run).add("wire", &e.to_string())?;
    }

    say("ladder");
    let ladder = spawn::Plan {
        frames: plan.frames,
        repetitions: plan.repetitions,
        sizes: vec![3, 9],
        steps: Vec::new(),
        backend: backends::DEFAULT.into(),
        energy_s: plan.energy_s,
        patience: Duration::from_secs(60),
        until: Some(at(0.72)),
    };
    let climbed = spawn::run(&ladder, run);
    if let Err(e) = &climbed {
        Skips::of(run).add("ladder", &e.to_string())?;
    }

    say("probes");
    probe(plan, run, at(0.88), &mut Skips::of(run))?;

    say("precision");
    let backend = backends::cpu(backends::DEFAULT, 1)?;
    let scale = if plan.quick { 20 } else { 1 };
    let precision = study::precision::Plan {
        frames: 2000 / scale,
        drift_frames: 100_000 / scale as u64,
        drift_side: 64,
        level_frames: 10_000 / scale as u64,
    };
    if let Err(e) = study::precision::run(precision, &*backend, run) {
        Skips::of(run).add("precision", &e.to_string())?;
    }
    say("timing");
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get() as u64);
    let timing = study::timing::Plan {
        runs: if plan.quick { 2 } else { threads.max(4) },
        frames: if plan.quick { 20 } else { 500 },
        size: 3,
        side: 400,
    };
    if let Err(e) = study::timing::run(timing, run) {
        Skips::of(run).add("timing", &e.to_string())?;
    }
    say("instructions");
    if let Err(e) = sass::run(run, None) {
        Skips::of(run).add("instructions", &e.to_string())?;
    }
    say("report");
    report::report(run, None, None)?;
    write_manifest(run)?;
    say("done");
    climbed
}
