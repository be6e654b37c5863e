//! `--dry-run`: everything is opened and checked, what would be done is told, and nothing is written.

use std::path::{Path, PathBuf};

use scheidegg::io::Source;
use scheidegg::{Choice, Params};
use serde_json::json;

use crate::args::{FindArgs, TrainArgs};
use crate::darks::{self, WINDOW};
use crate::failure::Outcome;
use crate::places;
use crate::say::say;
use crate::summary::{count, params as asked, print_json};

/// What a run would write: the option's word and the place.
type Outputs = Vec<(&'static str, PathBuf)>;

/// The plan of `find`, with its data, parameters and backend as they were opened and chosen.
pub fn find(args: &FindArgs, data: &dyn Source, params: &Params, choice: &Choice) -> Outcome {
    let dark = match &args.pedestal {
        Some(path) => path.display().to_string(),
        None => {
            let limit = darks::limit(&args.input)?;
            let darks = darks::open(&args.input)?;
            darks::same_shape(&*darks, data.shape())?;
            darks::go_with(&*darks, data, args.input.force)?;
            dark_frames(&*darks, limit, args.finder.pedestal_samples)?
        }
    };
    let mut out: Outputs = args.out.iter().map(|p| ("clusters", p.clone())).collect();
    out.extend(args.report.iter().map(|p| ("report", p.join("report.html"))));
    out.extend(args.save_pedestal.iter().map(|p| ("pedestal", p.clone())));
    out.extend(args.write_mask.iter().map(|p| ("mask", p.clone())));
    check(&out, args.report.as_deref())?;
    let left = data
        .remaining()
        .map(|n| n.saturating_sub(args.input.first).min(args.input.frames.unwrap_or(u64::MAX)));
    if args.json {
        print_json(&json!({
            "dry_run": true,
            "data": data.name(),
            "shape": [data.shape().rows, data.shape().cols],
            "frames": left,
            "pedestal": dark,
            "backend": { "name": choice.name, "device": choice.device, "reasons": choice.reasons },
            "params": asked(params),
            "would_write": out.iter().map(|(_, p)| p).collect::<Vec<_>>(),
        }));
        return Ok(());
    }
    say!("data         {}, {} frames of {}", data.name(), left.map_or("some".into(), count), data.shape());
    say!("pedestal     {dark}");
    say!("cluster      {}, stored as {}, at {} times the noise", params.size, params.payload, params.n_sigma);
    say!("mode         {}, noise {}, precision {}", params.update, params.noise, params.precision);
    say!("backend      {} ({})", choice.name, choice.device);
    choice.reasons.iter().for_each(|r| say!("             {r}"));
    told(&out);
    Ok(())
}

/// The plan of `train`.
pub fn train(args: &TrainArgs, darks: &dyn Source) -> Outcome {
    let dark = dark_frames(darks, args.dark_frames, args.pedestal_samples)?;
    let mut out: Outputs = vec![("pedestal", args.out.clone())];
    out.extend(args.report.iter().map(|p| ("report", p.join("report.html"))));
    out.extend(args.write_mask.iter().map(|p| ("mask", p.clone())));
    check(&out, args.report.as_deref())?;
    if args.json {
        print_json(&json!({
            "dry_run": true,
            "pedestal": dark,
            "shape": [darks.shape().rows, darks.shape().cols],
            "would_write": out.iter().map(|(_, p)| p).collect::<Vec<_>>(),
        }));
        return Ok(());
    }
    say!("dark         {dark}, frames of {}", darks.shape());
    told(&out);
    Ok(())
}

/// The dark frames in words, if there are enough.
fn dark_frames(darks: &dyn Source, limit: Option<u64>, samples: Option<u64>) -> Outcome<String> {
    let name = darks.name();
    let Some(frames) = darks.remaining().map(|n| n.min(limit.unwrap_or(u64::MAX))) else { return Ok(name) };
    darks::enough(&name, frames, samples)?;
    let window = samples.unwrap_or(frames.min(WINDOW));
    Ok(format!("{name}, {} dark frames, window {}", count(frames), count(window)))
}

fn check(out: &Outputs, report: Option<&Path>) -> Outcome {
    if let Some(folder) = report {
        places::can_be_folder(folder)?;
    }
    for (_, path) in out.iter().filter(|(what, _)| *what != "report") {
        places::can_be_file(path)?;
    }
    Ok(())
}

fn told(out: &Outputs) {
    for (what, path) in out {
        let taken = if path.exists() { ", in the place of the one that is there" } else { "" };
        say!("would write  {} ({what}{taken})", path.display());
    }
}
