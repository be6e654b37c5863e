//! Dark frames: which files, how many, and the pedestal that they train.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use scheidegg::io::{Facts, Source};
use scheidegg::pipeline::{Run, Trained};
use scheidegg::{Error, Finder, Result, Shape};

use crate::args::InputArgs;
use crate::failure::{Failure, Outcome};
use crate::input;
use crate::progress::Display;

/// The pedestal's window where there are as many dark frames and no other one is asked for.
pub const WINDOW: u64 = 1000;

/// Dark frames below which a window has to be asked for: 10 tell a pixel's noise to within a quarter, and at 5 sigma
/// one pixel in 1400 fires without a photon in the first frames.
pub const LEAST: u64 = 10;

/// Opens the dark frames.
pub fn open(args: &InputArgs) -> Outcome<Box<dyn Source>> {
    input::open_all("--dark", &args.dark, &args.options(), args.force)
}

/// Trains a finder with the files of dark frames, which must go with the data; `samples` is the window, if one was asked
/// for.
pub fn train(
    finder: &mut dyn Finder,
    data: &dyn Source,
    args: &InputArgs,
    samples: Option<u64>,
    stop: &Arc<AtomicBool>,
) -> Outcome<((String, Facts), Trained)> {
    let limit = limit(args)?;
    let mut darks = open(args)?;
    same_shape(&*darks, finder.shape())?;
    let doubts = go_with(&*darks, data, args.force)?;
    let mut trained = train_with(finder, &mut *darks, limit, samples, stop)?;
    trained.health.warnings.splice(..0, doubts);
    Ok(((darks.name(), darks.facts()), trained))
}

/// Refuses dark frames that were taken in another way than the data frames, unless that is forced; returns what may do
/// harm.
pub fn go_with(darks: &dyn Source, data: &dyn Source, force: bool) -> Result<Vec<String>> {
    darks.facts().check(&darks.name(), &data.facts(), &data.name(), force)
}

/// Trains a finder with at most `limit` frames of a source; `samples` is the window, if one was asked for.
pub fn train_with(
    finder: &mut dyn Finder,
    darks: &mut dyn Source,
    limit: Option<u64>,
    samples: Option<u64>,
    stop: &Arc<AtomicBool>,
) -> Outcome<Trained> {
    let mut display = Display::new("train");
    let mut run = Run::new(finder).stop_flag(stop.clone()).on_progress(move |p| display.show(p));
    let trained = run.fewer_darks(samples.is_none()).frames(limit).train(darks)?;
    enough(&darks.name(), trained.frames, samples)?;
    let mut trained = trained;
    if let Some(asked) = limit.filter(|n| *n > trained.frames) {
        let has = trained.frames;
        trained
            .health
            .warnings
            .push(format!("{}: {asked} dark frames were asked for, it has {has}", darks.name()));
    }
    Ok(trained)
}

/// Refuses fewer dark frames than were asked for, and so few that clusters would mostly be noise, unless they were.
pub fn enough(name: &str, frames: u64, samples: Option<u64>) -> Outcome {
    if frames < 2 {
        let what = format!(
            "{frames} dark frame, the pedestal needs {} (give at least 2)",
            samples.unwrap_or(WINDOW)
        );
        return Err(Error::file(name, what).into());
    }
    if let Some(need) = samples.filter(|n| *n > frames) {
        let what = format!(
            "{frames} dark frames, the pedestal needs {need} (give more, or --pedestal-samples {frames})"
        );
        return Err(Error::file(name, what).into());
    }
    if samples.is_none() && frames < LEAST {
        let what = format!(
            "{frames} dark frames do not tell the noise of a pixel (give at least {LEAST}, better {WINDOW}; \
             --pedestal-samples {frames} goes on with these)"
        );
        return Err(Error::file(name, what).into());
    }
    Ok(())
}

/// Refuses dark frames of another shape than the data frames.
pub fn same_shape(darks: &dyn Source, data: Shape) -> Result<()> {
    same_shape_as(&darks.name(), darks.shape(), data)
}

/// Refuses a pedestal of another shape than the data frames.
pub fn same_shape_as(name: &str, dark: Shape, data: Shape) -> Result<()> {
    if dark != data {
        let what =
            format!("holds {dark} pixels, the data frames have {data}: both must come from one detector");
        return Err(Error::file(name, what));
    }
    Ok(())
}

/// How many dark frames are taken. When dark and data are one file, the darks are the frames before `--first`: a frame
/// that trained the pedestal is not judged by it.
pub fn limit(args: &InputArgs) -> Outcome<Option<u64>> {
    let real = |p: &Path| p.canonicalize().ok();
    let data: Vec<_> = args.data.iter().filter_map(|p| real(p)).collect();
    let both = |p: &Path| real(p).is_some_and(|p| data.contains(&p));
    if !args.dark.iter().any(|p| both(p)) {
        return Ok(args.dark_frames);
    }
    if let ([dark, _, ..], _) | ([dark], [_, _, ..]) = (&args.dark[..], &args.data[..]) {
        let expected = "files of their own, as there are several (one file alone may hold darks and data: --first N takes \
                        the first N frames for training)";
        return Err(Failure::Usage(Error::param("--dark", dark.display(), expected)));
    }
    let darks = args.dark_frames.unwrap_or(args.first);
    if darks == 0 || darks > args.first {
        let expected = "frames beyond those that train the pedestal, as dark and data are one file (--first N takes the \
                        first N for training)";
        return Err(Failure::Usage(Error::param("--first", args.first, expected)));
    }
    Ok(Some(darks))
}
