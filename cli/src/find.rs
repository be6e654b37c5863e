//! `find`: dark frames and data frames to clusters.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use scheidegg::io::{
    self, Place, Sink, Source, load_mask, load_pedestal, load_pedestal_facts, open_frame_table, open_sink,
    provenance_beside, save_mask, save_pedestal_with,
};
use scheidegg::pipeline::{Run, Summary, Trained};
use scheidegg::provenance::{Input, Provenance};
use scheidegg::watch::{ClusterWatch, Findings, FrameWatch};
use scheidegg::{
    Choice, CpuBackend, Error, Finder, Params, Payload, Pedestal, PixelMask, Precision, Registry, Result,
    Shape,
};

use crate::args::{FindArgs, FinderArgs, InputArgs, WritingArgs};
use crate::drift::Drift;
use crate::failure::{Failure, Outcome, usage};
use crate::places;
use crate::progress::Display;
use crate::report::{self, Facts, Material, ReportSink, Table};
use crate::summary::{PedestalHealth, RunReport, conclude, print_json};
use crate::talk::detail;
use crate::{darks, input, plan, say, stop};

/// Runs the subcommand.
pub fn run(args: &FindArgs) -> Outcome {
    let notes = check_places(args)?;
    if args.out.iter().any(|path| places::is_stdout(path)) {
        say::divert();
    }
    let stop = stop::on_signal()?;
    let mut data = input::open_all("--data", &args.input.data, &args.input.options(), args.input.force)?;
    some_left(&*data, args.input.first)?;
    let shape = data.shape();
    let mut params = params_for(&args.finder, shape)?;
    if args.out.is_empty() {
        // Nothing is stored: a report is made of values as they are measured.
        params.payload = Payload::F32;
    }
    let registry = registry(args.backend.cpu.threads, args.backend.cpu.pin)?;
    let (mut finder, choice) =
        registry.build_explained(&args.backend.backend, shape, &params).map_err(usage)?;
    tell_choice(&choice, &*finder);
    if args.dry_run {
        return plan::find(args, &*data, &params, &choice);
    }

    // What is written late is looked at before hours of work, and before a FIFO is waited for.
    for path in args.save_pedestal.iter().chain(&args.write_mask) {
        args.writing.place(path).check()?;
    }
    let mut outs = Vec::new();
    for path in &args.out {
        outs.push(open_sink(args.writing.place(path), &params)?);
    }
    if let Some(path) = &args.frames_out {
        outs.push(open_frame_table(args.writing.place(path))?);
    }
    if let Some(dir) = &args.report {
        // Before hours of work, not after.
        places::folder(dir)?;
    }

    let Start { dark, facts, trained, notes: doubts } = start(&mut *finder, &*data, args, &stop)?;
    let pedestal = finder.pedestal(0)?;
    let health = PedestalHealth::of(&pedestal, &params);
    some_pixel_left(&dark, &health)?;
    let (mut frames, mut clusters) =
        (FrameWatch::new(&pedestal, &params), ClusterWatch::new(&pedestal, &params));
    let known = provenance(args, &choice, &health, trained.as_ref());
    let mut written = Vec::new();
    if let Some(path) = &args.save_pedestal {
        let known = known.clone().of_pedestal(&params);
        save_pedestal_with(args.writing.place(path), &pedestal, &facts, Some(&known))?;
        written.push(path.display().to_string());
    }
    let mut picture = args.report.as_ref().map(|_| ReportSink::new(shape));
    let mut sinks: Vec<&mut dyn Sink> = outs.iter_mut().map(|s| &mut **s as &mut dyn Sink).collect();
    sinks.extend(picture.as_mut().map(|s| s as &mut dyn Sink));
    sinks.push(&mut clusters);
    let summary = find(&mut *finder, &mut frames.on(&mut *data), &mut sinks, known, &args.input, &stop)?;
    // A finder that has failed may have no pedestal to tell.
    let end = finder.pedestal(0).ok();
    let findings = Findings::new(&frames, &clusters, &pedestal, end.as_ref(), &params);
    written.extend(files(&summary));
    let mut beside = Ok(());
    if let Some(path) = &args.write_mask {
        let saved = save_mask(args.writing.place(path), shape, &findings.pixels.codes());
        beside = saved.map(|()| written.push(path.display().to_string()));
    }

    let notes = [notes, doubts, idle_threads(args, &choice)].concat();
    let mut report = RunReport {
        data: data.name(),
        dark,
        params,
        choice,
        trained,
        summary,
        pedestal: health,
        drift: None,
        findings,
        written,
        notes,
    };
    let mask = report.params.mask.as_deref();
    report.drift = end.as_ref().and_then(|end| Drift::of(&pedestal, end, mask));
    let mut drawn = Ok(());
    if let (Some(dir), Some(sink)) = (&args.report, &picture) {
        let dir = places::report(dir, report.is_complete());
        let page = write_report(&args.writing.place(dir), &report, sink, (&pedestal, end.as_ref()), None);
        drawn = page.map(|page| report.written.push(page.display().to_string()));
    }
    // The run is done and its clusters are written, whatever became of the pictures.
    if args.json {
        print_json(&report.json());
    } else {
        report.print();
    }
    beside?;
    drawn?;
    conclude(&report.summary)?;
    Ok(some_frames(&report.data, &report.summary)?)
}

/// What the program knows of where the results come from.
fn provenance(
    args: &FindArgs,
    choice: &Choice,
    pedestal: &PedestalHealth,
    trained: Option<&Trained>,
) -> Provenance {
    let path = |p: &PathBuf| p.display().to_string();
    let mut known = crate::provenance::begin(Some(choice), pedestal);
    match (&args.pedestal, trained) {
        (Some(p), _) => known.inputs.push(Input::file("pedestal", path(p))),
        (None, _) => known.inputs.extend(trained.iter().flat_map(|t| t.inputs.clone())),
    }
    known.inputs.extend(args.finder.mask.iter().map(|m| Input::file("mask", path(m))));
    known
}

/// The files that a run has written.
pub fn files(summary: &Summary) -> impl Iterator<Item = String> {
    let written = summary.sinks.iter().filter_map(|s| s.written.as_ref());
    written.flat_map(|w| w.paths.iter().map(|p| p.display().to_string()))
}

/// With `--verbose`: what computes and why.
fn tell_choice(choice: &Choice, finder: &dyn Finder) {
    detail!("backend {} ({})", choice.name, choice.device);
    choice.reasons.iter().for_each(|r| detail!("  {r}"));
    detail!("batches of {} frames, {} in flight", finder.batch_frames(), finder.slots());
}

/// A run needs a pixel that is neither masked nor untrained.
fn some_pixel_left(dark: &str, health: &PedestalHealth) -> Result<()> {
    if health.left == 0 {
        let what = format!(
            "no pixel is left to find photons in: {} masked, {} lost in all dark frames but one at most",
            health.masked, health.untrained
        );
        return Err(Error::file(dark, what));
    }
    Ok(())
}

/// Data that have nothing to be judged, so far as they say that before they are read: no earlier result must make way for
/// them.
fn some_left(data: &dyn Source, first: u64) -> Result<()> {
    let Some(n) = data.remaining().filter(|n| *n <= first) else { return Ok(()) };
    let last = n.saturating_sub(1);
    let what = format!("{n} frames, the first one asked for is {first}: give --first 0 to {last}");
    Err(Error::file(data.name(), what))
}

/// A run that was not stopped has judged a frame, or the data are none.
fn some_frames(data: &str, summary: &Summary) -> Result<()> {
    if summary.frames == 0 && !summary.stopped() {
        return Err(Error::file(data, "no frame in it could be judged"));
    }
    Ok(())
}

/// Says that options for the CPU did nothing where `auto` took another backend.
fn idle_threads(args: &FindArgs, choice: &Choice) -> Vec<String> {
    let (cpu, name) = (&args.backend.cpu, choice.name.as_str());
    let mut notes = Vec::new();
    for (option, given, these) in
        [("--threads", cpu.threads.is_some(), &["cpu", "oracle"][..]), ("--pin", cpu.pin, &["cpu"])]
    {
        if given && !these.contains(&name) {
            notes.push(format!("{option} had no effect: the backend is {name} (--backend cpu)"));
        }
    }
    notes
}

/// No result in the place of an input: whoever mistypes a name must not lose a run.
fn check_places(args: &FindArgs) -> Outcome<Vec<String>> {
    let mut inputs = places::named("--data", &args.input.data);
    inputs.extend(places::named("--dark", &args.input.dark));
    inputs.extend(places::named("--pedestal", &args.pedestal));
    inputs.extend(places::named("--mask", &args.finder.mask));
    let mut results = places::named("--out", &args.out);
    if let Some(path) = &args.save_pedestal {
        places::ends_with("--save-pedestal", path, "npz")?;
        results.push(("--save-pedestal", path));
    }
    if let Some(path) = &args.write_mask {
        places::ends_with("--write-mask", path, "npy")?;
        results.push(("--write-mask", path));
    }
    if let Some(path) = &args.frames_out {
        results.push(("--frames-out", path));
    }
    let beside: Vec<_> = results.iter().filter_map(|(o, p)| Some((*o, provenance_beside(p)?))).collect();
    results.extend(beside.iter().map(|(option, path)| (*option, path.as_path())));
    let page = args.report.as_ref().map(|dir| dir.join("report.html"));
    results.extend(places::named("--report", &page));
    // A dry run removes nothing.
    let writing = WritingArgs { clean: args.writing.clean && !args.dry_run, ..args.writing.clone() };
    let notes = places::ready(&writing, &results)?;
    places::check(inputs, results)?;
    Ok(notes)
}

/// The parameters with the mask, checked against the frames' shape.
pub fn params_for(args: &FinderArgs, shape: Shape) -> Outcome<Params> {
    let mut params = args.params();
    params.validate(shape).map_err(usage)?;
    params.mask = mask(&args.mask, shape)?.map(Arc::new);
    Ok(params)
}

/// The pixels of all masks.
fn mask(paths: &[PathBuf], shape: Shape) -> Result<Option<PixelMask>> {
    let mut all: Option<PixelMask> = None;
    for path in paths {
        let mask = load_mask(path, shape)?;
        all.get_or_insert_with(|| PixelMask::new(shape)).union(&mask);
    }
    if all.as_ref().is_some_and(|m| m.count() == shape.pixels()) {
        let (of, them) =
            if paths.len() > 1 { (" with those before it", "these masks") } else { ("", "the mask") };
        let what = format!(
            "masks{of} every pixel: none is left to find photons in (what is not 0 in {them} is masked)"
        );
        return Err(Error::file(&paths[paths.len() - 1], what));
    }
    Ok(all)
}

/// The backends, with this many threads on the CPU, each of the backend `cpu` on a processor of its own if asked for.
pub fn registry(threads: Option<usize>, pin: bool) -> Outcome<Registry> {
    let mut registry = match threads {
        Some(n) => Registry::with_threads(n).map_err(usage)?,
        None => Registry::standard(),
    };
    if pin {
        let cpu = CpuBackend::new().pinned(true);
        registry.register(Box::new(match threads {
            Some(n) => cpu.threads(n).map_err(usage)?,
            None => cpu,
        }));
    }
    Ok(registry)
}

/// Where the pedestal came from.
struct Start {
    dark: String,
    /// How its dark frames were taken.
    facts: io::Facts,
    trained: Option<Trained>,
    notes: Vec<String>,
}

/// Trains the finder, or starts it from a saved pedestal.
fn start(
    finder: &mut dyn Finder,
    data: &dyn Source,
    args: &FindArgs,
    stop: &Arc<AtomicBool>,
) -> Outcome<Start> {
    if let Some(path) = &args.pedestal {
        let pedestal = load_pedestal(path)?;
        darks::same_shape_as(&path.display().to_string(), pedestal.shape, finder.shape())?;
        let (dark, facts) = (path.display().to_string(), load_pedestal_facts(path)?);
        let notes = facts.check(&dark, &data.facts(), &data.name(), args.input.force)?;
        same_precision(path, &pedestal, finder.params().precision)?;
        finder.set_pedestal(&pedestal).map_err(usage)?;
        detail!("pedestal from {dark}, window {}", pedestal.samples);
        return Ok(Start { dark, facts, trained: None, notes });
    }
    let samples = args.finder.pedestal_samples;
    let ((dark, facts), trained) = darks::train(finder, data, &args.input, samples, stop)?;
    detail!("pedestal from {} dark frames of {dark}, {:.2} s", trained.frames, trained.seconds);
    Ok(Start { dark, facts, trained: Some(trained), notes: Vec::new() })
}

/// Refuses a pedestal whose sums have another precision than the run.
fn same_precision(path: &Path, pedestal: &Pedestal, asked: Precision) -> Outcome {
    if pedestal.sum.is_f64() == asked.pedestal_is_f64() {
        return Ok(());
    }
    let fits = if pedestal.sum.is_f64() { "f64 or f64f32" } else { "f32" };
    let expected = format!(
        "{fits}, with which {} was saved (or train again: scheidegg train --precision {asked})",
        path.display()
    );
    Err(Failure::Usage(Error::param("--precision", asked, expected)))
}

/// Finds the clusters of the frames that were asked for.
fn find(
    finder: &mut dyn Finder,
    data: &mut dyn Source,
    sinks: &mut [&mut dyn Sink],
    known: Provenance,
    args: &InputArgs,
    stop: &Arc<AtomicBool>,
) -> Result<Summary> {
    let mut display = Display::new("find");
    let run = Run::new(finder).stop_flag(stop.clone()).on_progress(move |p| display.show(p));
    run.provenance(known).first(args.first).frames(args.frames).find(data, sinks)
}

/// Writes the report of a run, with one more table if there is one; the pedestals are those at its start and its end.
pub fn write_report(
    dir: &Place,
    run: &RunReport,
    sink: &ReportSink,
    (start, end): (&Pedestal, Option<&Pedestal>),
    more: Option<Table>,
) -> Result<PathBuf> {
    let tables = run.tables().into_iter().chain(more).collect();
    let facts = Facts { title: format!("Photons in {}", run.data), tables, warnings: run.warnings() };
    let mask = run.params.mask.as_deref();
    report::write(dir.clone(), &facts, &Material { sink, mask, start: Some(start), end })
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use scheidegg::pipeline::Ended;
    use scheidegg::{ClusterSize, Plane};

    use super::*;
    use crate::args::{Cli, Command};
    use crate::summary::example;

    fn args(words: &str) -> FindArgs {
        let words = ["scheidegg", "find"].into_iter().chain(words.split_whitespace());
        match Cli::try_parse_from(words).unwrap().command {
            Command::Find(args) => *args,
            other => panic!("{other:?}"),
        }
    }

    fn said<T>(outcome: Outcome<T>) -> String {
        match outcome {
            Ok(_) => "nothing".into(),
            Err(Failure::Usage(e)) => format!("usage: {e}"),
            Err(Failure::Failed(e)) => format!("failed: {e}"),
            Err(other) => format!("{other:?}"),
        }
    }

    #[test]
    fn every_result_has_a_place_of_its_own() {
        for (words, expected) in [
            ("--out a.npz --save-pedestal b.npz --write-mask c.npy --frames-out d.csv --report r", "nothing"),
            (
                "--out a.npz --save-pedestal b.npy",
                "usage: --save-pedestal = b.npy: expected a name that ends with .npz",
            ),
            (
                "--out a.npz --write-mask c.npz",
                "usage: --write-mask = c.npz: expected a name that ends with .npy",
            ),
            (
                "--out a.npy --write-mask ./a.npy",
                "usage: --write-mask = ./a.npy: expected another file than --out",
            ),
            (
                "--out a.npz --save-pedestal a.npz",
                "usage: --save-pedestal = a.npz: expected another file than --out",
            ),
            (
                "--out a.npz --frames-out a.npz",
                "usage: --frames-out = a.npz: expected another file than --out",
            ),
            (
                "--out a.npz --mask m.npy --write-mask m.npy",
                "usage: --write-mask = m.npy: expected another file than --mask",
            ),
            (
                "--out a.clust --out a.clust.json",
                "usage: --out = a.clust.json: expected another file than --out",
            ),
            ("--out data.npy", "usage: --out = data.npy: expected another file than --data"),
            ("--out dark.npy", "usage: --out = dark.npy: expected another file than --dark"),
            (
                "--report . --frames-out report.html",
                "usage: --report = ./report.html: expected another file than --frames-out",
            ),
        ] {
            let args = args(&format!("--dark dark.npy --data data.npy {words}"));
            assert_eq!(said(check_places(&args)), expected, "{words}");
        }
        let args = args("--pedestal p.npz --data data.npy --out p.npz");
        assert!(said(check_places(&args)).ends_with("expected another file than --pedestal"));
    }

    #[test]
    fn a_dry_run_removes_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let left = dir.path().join(".x.npz.far-1-0.partial");
        let file = std::fs::File::create(&left).unwrap();
        file.set_modified(std::time::SystemTime::now() - std::time::Duration::from_secs(60)).unwrap();
        drop(file);
        for (more, is_left, word) in [
            ("", true, "left by a run"),
            ("--dry-run", true, "left by a run"),
            ("--dry-run --clean", true, "left by a run"),
            ("--clean", false, "removed"),
        ] {
            let words = format!("--dark d.npy --data e.npy --out {}/x.npz {more}", dir.path().display());
            let notes = check_places(&args(&words)).unwrap();
            assert_eq!((left.exists(), notes.len()), (is_left, 1), "{more}");
            assert!(notes[0].contains(word), "{more}: {notes:?}");
        }
    }

    #[test]
    fn options_for_the_cpu_are_idle_elsewhere() {
        let choice = |name: &str| Choice { name: name.into(), device: String::new(), reasons: Vec::new() };
        let notes = |more: &str, name: &str| {
            idle_threads(&args(&format!("--dark d.npy --data e.npy --out x.npz {more}")), &choice(name))
        };
        let told =
            |option: &str| vec![format!("{option} had no effect: the backend is cuda (--backend cpu)")];
        assert_eq!(notes("", "cuda"), Vec::<String>::new());
        assert_eq!(notes("--threads 2", "cuda"), told("--threads"));
        assert_eq!(notes("--pin", "cuda"), told("--pin"));
        assert_eq!(notes("--threads 2 --pin", "cuda"), [told("--threads"), told("--pin")].concat());
        assert_eq!(notes("--threads 2 --pin", "cpu"), Vec::<String>::new());
        assert_eq!(notes("--threads 2", "oracle"), Vec::<String>::new());
    }

    #[test]
    fn a_run_needs_a_pixel_and_a_frame() {
        let mut run = example::report(Ended::Complete);
        assert!(some_pixel_left("dark.npy", &run.pedestal).is_ok());
        run.pedestal.left = 0;
        assert_eq!(
            some_pixel_left("dark.npy", &run.pedestal).unwrap_err().to_string(),
            "dark.npy: no pixel is left to find photons in: 2 masked, 1 lost in all dark frames but one at most"
        );
        assert!(some_frames("data.npy", &run.summary).is_ok());
        run.summary.frames = 0;
        let said = some_frames("data.npy", &run.summary).unwrap_err().to_string();
        assert_eq!(said, "data.npy: no frame in it could be judged");
        run.summary.ended = Ended::Stopped;
        assert!(some_frames("data.npy", &run.summary).is_ok());
    }

    /// A source that says how many frames are left.
    struct Left(Option<u64>);

    impl Source for Left {
        fn name(&self) -> String {
            "data.npy".into()
        }
        fn shape(&self) -> Shape {
            Shape { rows: 2, cols: 3 }
        }
        fn remaining(&self) -> Option<u64> {
            self.0
        }
        fn read(&mut self, _: &mut scheidegg::FrameBuf) -> Result<usize> {
            Ok(0)
        }
    }

    #[test]
    fn a_run_begins_at_a_frame_that_may_be_there() {
        for (left, first) in [(Some(1), 0), (Some(120), 119), (None, 0), (None, 120)] {
            assert!(some_left(&Left(left), first).is_ok(), "{left:?} {first}");
        }
        for (first, said) in [(120, 120), (121, 121)] {
            assert_eq!(
                some_left(&Left(Some(120)), first).unwrap_err().to_string(),
                format!("data.npy: 120 frames, the first one asked for is {said}: give --first 0 to 119")
            );
        }
    }

    #[test]
    fn a_pedestal_goes_with_its_precision() {
        let pedestal = |sum| Pedestal { sum, ..example::pedestal() };
        let (single, double) = (pedestal(Plane::F32(vec![0.0; 6])), pedestal(Plane::F64(vec![0.0; 6])));
        let path = Path::new("p.npz");
        for (pedestal, asked, fits) in [
            (&single, Precision::F32, None),
            (&single, Precision::F64F32, Some("f32")),
            (&single, Precision::F64, Some("f32")),
            (&double, Precision::F32, Some("f64 or f64f32")),
            (&double, Precision::F64F32, None),
            (&double, Precision::F64, None),
        ] {
            let expected = fits.map_or("nothing".into(), |fits| {
                format!(
                    "usage: --precision = {asked}: expected {fits}, with which p.npz was saved (or train again: \
                     scheidegg train --precision {asked})"
                )
            });
            assert_eq!(said(same_precision(path, pedestal, asked)), expected);
        }
    }

    /// No machine of today has as many processors as threads can be asked for.
    #[cfg(target_os = "linux")]
    #[test]
    fn pinned_threads_are_those_of_the_backend() {
        let params = Params::new(ClusterSize { w: 3, h: 3 });
        let build = |pin| {
            let registry = registry(Some(scheidegg::MOST_THREADS), pin)?;
            registry.build("cpu", Shape { rows: 4, cols: 5 }, &params).map_err(usage)
        };
        let told = said(build(true));
        assert!(told.starts_with("usage: --threads = 1024: expected at most"), "{told}");
        assert_eq!(said(build(false)), "nothing");
        assert!(registry(Some(0), true).is_err() && registry(Some(0), false).is_err());
        assert!(registry(None, true).is_ok() && registry(None, false).is_ok());
    }

    #[test]
    fn parameters_are_looked_at_before_masks() {
        let shape = Shape { rows: 4, cols: 5 };
        let of = |more: &str| {
            params_for(&args(&format!("--dark d.npy --data e.npy --out x.npz {more}")).finder, shape)
        };
        assert_eq!(of("--size 5").unwrap().size, ClusterSize { w: 5, h: 5 });
        let told = said(of("--n-sigma -1 --mask nowhere.npy"));
        assert!(told.starts_with("usage: --n-sigma = -1"), "{told}");
        assert!(said(of("--mask nowhere.npy")).starts_with("failed: nowhere.npy"));
    }
}
