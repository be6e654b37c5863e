//! `demo`: a simulated run from photons to pictures, compared with the truth.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use scheidegg::io::simulate::{Simulation, Written};
use scheidegg::io::{OpenOptions, Sink, open_sink, open_source};
use scheidegg::pipeline::Run;
use scheidegg::truth::{Truth, TruthSummary};
use scheidegg::watch::{ClusterWatch, Findings, FrameWatch};
use scheidegg::{ClusterSize, Error, Params};
use serde_json::json;

use crate::args::{DemoArgs, Format};
use crate::drift::Drift;
use crate::failure::{Failure, Outcome, usage};
use crate::find::{files, registry, write_report};
use crate::progress::Display;
use crate::report::{ReportSink, Table};
use crate::say::say;
use crate::summary::{PedestalHealth, RunReport, count, print_json};
use crate::{places, provenance, simulate, stop, summary};

/// Data frames of the demonstration: enough for smooth spectra, few enough for a minute of two ordinary cores and for any
/// disk.
pub const FRAMES: u64 = 1000;
/// Dark frames, and the pedestal's window.
const DARKS: u64 = 1000;

/// Runs the subcommand.
pub fn run(args: &DemoArgs) -> Outcome {
    let start = Instant::now();
    let notes =
        simulate::ready(&args.writing, &args.out, Format::Raw, &["clusters.clust", "report/report.html"])?;
    let stop = stop::on_signal()?;
    let side = args.side as f64 / 400.0;
    let simulation = Simulation {
        rows: args.side,
        cols: args.side,
        seed: args.seed,
        // The same photons and faulty pixels per area as on a MÖNCH.
        photons_per_frame: 2300.0 * side * side,
        hot_pixels: (16.0 * side * side) as usize,
        dead_pixels: (16.0 * side * side) as usize,
        ..Simulation::default()
    };
    let shape = simulation.validate().map_err(usage_of_demo)?;
    let params = Params { pedestal_samples: DARKS, ..Params::new(ClusterSize::square(3).map_err(usage)?) };
    let (mut finder, choice) = registry(args.backend.cpu.threads, args.backend.cpu.pin)?
        .build_explained(&args.backend.backend, shape, &params)
        .map_err(usage)?;
    if !args.json {
        announce(args, &simulation);
    }

    let written = simulate::write(
        &args.writing.place(&args.out),
        &simulation,
        Format::Raw,
        (DARKS, args.frames),
        &stop,
    )?;
    let Some(data_path) = &written.data else { return Err(Error::Stopped.into()) };
    let mut display = Display::new("train");
    let trained = Run::new(&mut *finder)
        .stop_flag(stop.clone())
        .on_progress(move |p| display.show(p))
        .train(&mut *open_source(&written.dark, &OpenOptions::default())?)?;

    let before = finder.pedestal(0)?;
    let pedestal = PedestalHealth::of(&before, &params);
    let (mut frames, mut watch) = (FrameWatch::new(&before, &params), ClusterWatch::new(&before, &params));
    let clusters = args.out.join("clusters.clust");
    let mut out = open_sink(args.writing.place(&clusters), &params)?;
    let mut picture = ReportSink::new(shape);
    let mut truth = Truth::new(Arc::clone(&written.simulator), params.size);
    let mut data = open_source(data_path, &OpenOptions::default())?;
    let mut display = Display::new("find");
    let mut known = provenance::begin(Some(&choice), &pedestal);
    known.inputs.extend(trained.inputs.iter().cloned());
    let summary =
        Run::new(&mut *finder).stop_flag(stop).on_progress(move |p| display.show(p)).provenance(known).find(
            &mut frames.on(&mut *data),
            &mut [&mut *out as &mut dyn Sink, &mut picture, &mut truth, &mut watch],
        )?;
    let findings = Findings::new(&frames, &watch, &before, finder.pedestal(0).ok().as_ref(), &params);

    let written_files = files(&summary).collect();
    let mut report = RunReport {
        data: data.name(),
        dark: written.dark.display().to_string(),
        params,
        choice,
        trained: Some(trained),
        summary,
        pedestal,
        drift: None,
        findings,
        written: written_files,
        notes,
    };
    let truth = truth.summary();
    let after = finder.pedestal(0).ok();
    report.drift = after.as_ref().and_then(|after| Drift::of(&before, after, None));
    let pedestals = (&before, after.as_ref());
    let dir = args.writing.place(places::report(&args.out.join("report"), report.is_complete()));
    let page = write_report(&dir, &report, &picture, pedestals, Some(table(&truth)))?;
    report.written.push(page.display().to_string());
    let seconds = start.elapsed().as_secs_f64();
    if args.json {
        let mut all = report.json();
        all["truth"] = serde_json::to_value(&truth).map_err(|e| Error::Other(e.to_string()))?;
        all["demo_seconds"] = json!(seconds);
        print_json(&all);
    } else {
        report.print();
        say!("\n{truth}");
        conclude(&args.out, &written, &page, seconds);
    }
    summary::conclude(&report.summary)
}

/// The demonstration has one option for both sides.
fn usage_of_demo(e: Error) -> Failure {
    match e {
        Error::Param { name, found, expected } if name == "frame shape" => {
            Failure::Usage(Error::Param { name: "--side".into(), found, expected })
        }
        e => usage(e),
    }
}

fn announce(args: &DemoArgs, s: &Simulation) {
    say!(
        "A simulated MÖNCH of {} x {} pixels in copper fluorescence: {} photons a frame, noise {} ADU, {} ADU/keV.",
        s.rows,
        s.cols,
        s.photons_per_frame.round(),
        s.noise_adu,
        s.gain_adu_per_kev
    );
    let frames = DARKS + args.frames;
    let megabytes = (s.rows * s.cols * 2) as f64 * frames as f64 / 1e6;
    say!(
        "{DARKS} dark frames and {} data frames, {megabytes:.0} MB, go to {}\n",
        count(args.frames),
        args.out.display()
    );
}

/// The comparison with the truth for the report.
fn table(t: &TruthSummary) -> Table {
    let percent = |e: Option<f64>| e.map_or("none".into(), |e| format!("{:.3} %", 100.0 * e));
    let mut rows = vec![
        ("photons".to_string(), format!("{}, {} found", count(t.photons), percent(t.efficiency))),
        (
            "clean photons".to_string(),
            format!("{}, {} found", count(t.clean_photons), percent(t.clean_efficiency)),
        ),
        (
            "clusters".to_string(),
            format!(
                "{} with a photon of their own, {} more beside a photon, {} false ({:.4} a frame)",
                count(t.matched),
                count(t.extra),
                count(t.false_clusters),
                t.false_clusters as f64 / t.frames.max(1) as f64
            ),
        ),
    ];
    for (what, peak) in [("whole cluster", &t.peak), ("largest 2x2", &t.peak_2x2)] {
        if let Some(p) = peak {
            rows.push((
                format!("{:.3} keV, {what}", t.line_kev),
                format!(
                    "peak at {:.1} ADU (expected {:.1}), standard deviation {:.1} ADU (expected {:.1})",
                    p.position_adu, p.expected_position_adu, p.width_adu, p.expected_width_adu
                ),
            ));
        }
    }
    Table { title: "Compared with the simulated photons".into(), rows }
}

fn conclude(out: &Path, written: &Written, page: &Path, seconds: f64) {
    say!("\nThat took {seconds:.1} s. Look at");
    say!("  {}   spectrum, hit map, pedestal, noise, eta", page.display());
    say!("  {}   the clusters", out.join("clusters.clust").display());
    if let Some(data) = &written.data {
        say!("and find them yourself:");
        // As this program was called: it need not be on the path.
        let program = std::env::args_os().next().unwrap_or_else(|| "scheidegg".into());
        say!(
            "  {} find --dark {} --data {} --out clusters.npz",
            Path::new(&program).display(),
            written.dark.display(),
            data.display()
        );
    }
}
