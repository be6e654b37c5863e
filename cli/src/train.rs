//! `train`: dark frames to a pedestal in a file.

use scheidegg::io::{save_mask, save_pedestal_with};
use scheidegg::pipeline::Trained;
use scheidegg::watch::Findings;
use scheidegg::{ClusterSize, Params, Registry};
use serde_json::{Value, json};

use crate::args::{InputArgs, TrainArgs, WritingArgs};
use crate::darks::WINDOW;
use crate::failure::{Outcome, in_options, usage};
use crate::report::{self, Facts, Table};
use crate::say::say;
use crate::summary::{PedestalHealth, attention, pixels, print_json, print_tables, training};
use crate::{darks, places, plan, provenance, stop};

/// Runs the subcommand.
pub fn run(args: &TrainArgs) -> Outcome {
    places::ends_with("--out", &args.out, "npz")?;
    let page = args.report.as_ref().map(|dir| dir.join("report.html"));
    let mut results = places::named("--out", [&args.out]);
    results.extend(places::named("--report", &page));
    results.extend(places::named("--write-mask", &args.write_mask));
    if let Some(path) = &args.write_mask {
        places::ends_with("--write-mask", path, "npy")?;
    }
    let writing = WritingArgs { clean: args.writing.clean && !args.dry_run, ..args.writing.clone() };
    let notes = places::ready(&writing, &results)?;
    places::check(places::named("--dark", &args.dark), results)?;
    let place = args.writing.place(&args.out);
    for place in [&place].into_iter().chain(&args.write_mask.as_ref().map(|path| args.writing.place(path))) {
        place.check()?;
    }
    let stop = stop::on_signal()?;
    let mut source = darks::open(&input(args))?;
    let shape = source.shape();
    let params = params(args)?;
    params.validate(shape).map_err(usage)?;
    if args.dry_run {
        return plan::train(args, &*source);
    }
    if let Some(dir) = &args.report {
        places::folder(dir)?;
    }
    // Training is integer sums, the same on every backend.
    let mut finder = Registry::standard().build("cpu", shape, &params).map_err(usage)?;
    let trained =
        darks::train_with(&mut *finder, &mut *source, args.dark_frames, args.pedestal_samples, &stop)?;
    let pedestal = finder.pedestal(0)?;
    let health = PedestalHealth::of(&pedestal, &params);
    let mut known = provenance::begin(None, &health).of_pedestal(&params);
    known.backend.name = finder.backend().into();
    known.inputs.extend(trained.inputs.iter().cloned());
    save_pedestal_with(place, &pedestal, &source.facts(), Some(&known))?;

    let mut written = vec![args.out.display().to_string()];
    let mut warnings = trained.health.warnings.clone();
    let findings = Findings::of_pedestal(&pedestal, &params);
    warnings.extend(attention(&findings).into_iter().chain(notes));
    if let Some(path) = &args.write_mask {
        save_mask(args.writing.place(path), shape, &findings.pixels.codes())?;
        written.push(path.display().to_string());
    }
    let warnings: Vec<String> = warnings.iter().map(|w| in_options(w)).collect();
    let dark = source.name();
    let mut drawn = Ok(());
    if let Some(dir) = &args.report {
        let table = Table { title: "Pedestal".into(), rows: health.rows(&dark, Some(&trained)) };
        let facts =
            Facts { title: format!("Pedestal of {dark}"), tables: vec![table], warnings: warnings.clone() };
        drawn = report::write_pedestal(args.writing.place(dir), &facts, &pedestal)
            .map(|p| written.push(p.display().to_string()));
    }
    // The pedestal is saved, whatever became of the pictures.
    if args.json {
        print_json(&object(&dark, &trained, (&health, &findings), &written, &warnings));
    } else {
        print_tables(&[Table { title: String::new(), rows: health.rows(&dark, Some(&trained)) }]);
        written.iter().for_each(|file| say!("written      {file}"));
        warnings.iter().for_each(|w| say!("warning      {w}"));
    }
    Ok(drawn?)
}

/// What the darks of `find` would be.
fn input(args: &TrainArgs) -> InputArgs {
    InputArgs {
        dark: args.dark.clone(),
        data: Vec::new(),
        first: 0,
        frames: None,
        dark_frames: args.dark_frames,
        keep_going: args.keep_going,
        force: args.force,
        reading: args.reading.clone(),
    }
}

/// Of the parameters only those matter that a pedestal depends on.
fn params(args: &TrainArgs) -> Outcome<Params> {
    Ok(Params {
        precision: args.precision,
        noise: args.noise,
        pedestal_samples: args.pedestal_samples.unwrap_or(WINDOW),
        ..Params::new(ClusterSize::square(3).map_err(usage)?)
    })
}

fn object(
    dark: &str,
    trained: &Trained,
    (health, findings): (&PedestalHealth, &Findings),
    written: &[String],
    warnings: &[String],
) -> Value {
    json!({
        "dark": dark,
        "training": training(trained),
        "pedestal": health.json(),
        "pixels": pixels(&findings.pixels),
        "written": written,
        "warnings": warnings,
    })
}
