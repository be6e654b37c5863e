//! `find`: dark frames and data frames to clusters.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use scheidegg::io::{Sink, Source, load_mask, load_pedestal, open_sink, open_source, save_pedestal};
use scheidegg::pipeline::{Run, Trained};
use scheidegg::{CpuBackend, Error, Finder, Params, Registry, Result, Shape};

use crate::args::{FindArgs, FinderArgs, InputArgs};
use crate::failure::{Failure, Outcome, usage};
use crate::places::{self, Named};
use crate::progress::Display;
use crate::report::{self, Facts, ReportSink, Table};
use crate::summary::{PedestalHealth, RunReport, print_json};
use crate::{input, stop};

/// Runs the subcommand.
pub fn run(args: &FindArgs) -> Outcome {
    check_places(args)?;
    let stop = stop::on_ctrl_c()?;
    let mut data = input::open_all(&args.input.data, &args.input.reading.options())?;
    let shape = data.shape();
    let params = params_for(&args.finder, shape)?;
    let registry = registry(args.backend.cpu.threads, args.backend.cpu.pin)?;
    let (mut finder, choice) =
        registry.build_explained(&args.backend.backend, shape, &params).map_err(usage)?;

    let mut outs = Vec::new();
    for path in &args.out {
        outs.push(open_sink(path, &params)?);
    }
    if let Some(dir) = &args.report {
        // Before hours of work, not after.
        places::folder(dir)?;
    }

    let (dark, trained) = start(&mut *finder, args, &stop)?;
    let pedestal = finder.pedestal(0)?;
    let health = PedestalHealth::of(&pedestal, &params);
    let mut written = Vec::new();
    if let Some(path) = &args.save_pedestal {
        save_pedestal(path, &pedestal)?;
        written.push(path.display().to_string());
    }
    let mut picture = args.report.as_ref().map(|_| ReportSink::new(shape));
    let mut sinks: Vec<&mut dyn Sink> = outs.iter_mut().map(|s| &mut **s as &mut dyn Sink).collect();
    sinks.extend(picture.as_mut().map(|s| s as &mut dyn Sink));
    let summary = find(&mut *finder, &mut *data, &mut sinks, &args.input, &stop)?;
    written.extend(args.out.iter().map(|p| p.display().to_string()));

    let mut report = RunReport {
        data: data.name(),
        dark,
        params,
        choice,
        trained,
        summary,
        pedestal: health,
        written,
        notes: Vec::new(),
    };
    let mut drawn = Ok(());
    if let (Some(dir), Some(sink)) = (&args.report, &picture) {
        let page = write_report(dir, &report, sink, &mut *finder, None);
        drawn = page.map(|page| report.written.push(page.display().to_string()));
    }
    // The run is done and its clusters are written, whatever became of the pictures.
    if args.json {
        print_json(&report.json());
    } else {
        report.print();
    }
    Ok(drawn?)
}

/// No result in the place of an input: whoever mistypes a name must not lose a run.
fn check_places(args: &FindArgs) -> Outcome {
    let mut inputs: Named<'_> = args.input.data.iter().map(|p| ("--data", p.as_path())).collect();
    for (option, path) in
        [("--dark", &args.input.dark), ("--pedestal", &args.pedestal), ("--mask", &args.finder.mask)]
    {
        inputs.extend(path.iter().map(|p| (option, p.as_path())));
    }
    let mut results: Named<'_> = args.out.iter().map(|p| ("--out", p.as_path())).collect();
    if let Some(path) = &args.save_pedestal {
        places::ends_with("--save-pedestal", path, "npz")?;
        results.push(("--save-pedestal", path));
    }
    places::check(inputs, results)
}

/// The parameters with the mask, checked against the frames' shape.
pub fn params_for(args: &FinderArgs, shape: Shape) -> Outcome<Params> {
    let mut params = args.params();
    params.validate(shape).map_err(usage)?;
    if let Some(path) = &args.mask {
        params.mask = Some(Arc::new(load_mask(path, shape)?));
    }
    Ok(params)
}

/// The backends, with this many threads on the CPU, each of the backend `cpu` on a processor of its own if asked for.
pub fn registry(threads: Option<usize>, pin: bool) -> Outcome<Registry> {
    let mut registry = match threads {
        Some(0) => return Err(Failure::Usage(Error::param("--threads", 0, "at least 1"))),
        Some(n) => Registry::with_threads(n),
        None => Registry::standard(),
    };
    if pin {
        let cpu = CpuBackend::new().pinned(true);
        registry.register(Box::new(match threads {
            Some(n) => cpu.threads(n),
            None => cpu,
        }));
    }
    Ok(registry)
}

/// Trains the finder, or starts it from a saved pedestal; says where the pedestal came from.
fn start(
    finder: &mut dyn Finder,
    args: &FindArgs,
    stop: &Arc<AtomicBool>,
) -> Outcome<(String, Option<Trained>)> {
    if let Some(path) = &args.pedestal {
        let pedestal = load_pedestal(path)?;
        same_shape(path, pedestal.shape, finder.shape())?;
        finder.set_pedestal(&pedestal).map_err(usage)?;
        return Ok((path.display().to_string(), None));
    }
    let path = args.input.dark.as_ref().expect("clap asks for --dark or --pedestal");
    Ok((path.display().to_string(), Some(train(finder, path, &args.input, stop)?)))
}

/// Trains the finder with a file of dark frames.
pub fn train(
    finder: &mut dyn Finder,
    path: &Path,
    args: &InputArgs,
    stop: &Arc<AtomicBool>,
) -> Outcome<Trained> {
    let limit = dark_limit(path, args)?;
    let mut darks = open_source(path, &args.reading.options())?;
    same_shape(path, darks.shape(), finder.shape())?;
    let mut display = Display::new("train");
    let mut run = Run::new(finder).stop_flag(stop.clone()).on_progress(move |p| display.show(p));
    Ok(run.frames(limit).train(&mut *darks)?)
}

/// Refuses a pedestal or dark frames of another shape than the data frames.
pub fn same_shape(path: &Path, dark: Shape, data: Shape) -> Result<()> {
    if dark != data {
        let what =
            format!("holds {dark} pixels, the data frames have {data}: both must come from one detector");
        return Err(Error::file(path, what));
    }
    Ok(())
}

/// How many dark frames are taken. When dark and data are one file, the darks are the frames before `--first`: a frame
/// that trained the pedestal is not judged by it.
pub fn dark_limit(path: &Path, args: &InputArgs) -> Outcome<Option<u64>> {
    let real = |p: &Path| p.canonicalize().ok();
    let same = real(path).is_some_and(|dark| args.data.first().and_then(|d| real(d)) == Some(dark));
    if !same {
        return Ok(args.dark_frames);
    }
    let darks = args.dark_frames.unwrap_or(args.first);
    if darks == 0 || darks > args.first {
        let expected = "frames beyond those that train the pedestal, as dark and data are one file (--first N takes the \
                        first N for training)";
        return Err(Failure::Usage(Error::param("--first", args.first, expected)));
    }
    Ok(Some(darks))
}

/// Finds the clusters of the frames that were asked for.
fn find(
    finder: &mut dyn Finder,
    data: &mut dyn Source,
    sinks: &mut [&mut dyn Sink],
    args: &InputArgs,
    stop: &Arc<AtomicBool>,
) -> Result<scheidegg::pipeline::Summary> {
    let mut display = Display::new("find");
    let mut run = Run::new(finder).stop_flag(stop.clone()).on_progress(move |p| display.show(p));
    run.first(args.first).frames(args.frames).find(data, sinks)
}

/// Writes the report of a run, with one more table if there is one; the pedestal is the one at its end.
pub fn write_report(
    dir: &Path,
    run: &RunReport,
    sink: &ReportSink,
    finder: &mut dyn Finder,
    more: Option<Table>,
) -> Result<PathBuf> {
    let tables = run.tables().into_iter().chain(more).collect();
    let facts = Facts { title: format!("Photons in {}", run.data), tables, warnings: run.warnings() };
    report::write(dir, &facts, sink, Some(&finder.pedestal(0)?))
}
