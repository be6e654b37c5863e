//! `simulate`: dark and data frames of a simulated detector, in files.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use scheidegg::io::Place;
use scheidegg::io::simulate::{Line, Simulation, Written, write_npy, write_raw};
use scheidegg::pipeline::Progress;
use scheidegg::{Error, Result};
use serde_json::json;

use crate::args::{Format, PhysicsArgs, SimulateArgs, WritingArgs};
use crate::failure::{Failure, Outcome, usage_of_simulation};
use crate::places;
use crate::progress::Display;
use crate::say::{say, tell};
use crate::stop;
use crate::summary::{count, print_json};

/// Runs the subcommand.
pub fn run(args: &SimulateArgs) -> Outcome {
    let notes = ready(&args.writing, &args.out, args.format, &[])?;
    notes.iter().for_each(|note| tell!("scheidegg: warning: {note}"));
    let stop = stop::on_signal()?;
    let base = match &args.parameters {
        Some(path) => Simulation::load(path)?,
        None => Simulation::default(),
    };
    let simulation = simulation(base, &args.physics)?;
    if args.dry_run {
        return plan(args, &simulation);
    }
    let written =
        write(&args.writing.place(&args.out), &simulation, args.format, (args.darks, args.frames), &stop)?;
    let data = written.data.as_ref().map(|p| p.display().to_string());
    if args.json {
        print_json(&json!({
            "dark": written.dark,
            "data": written.data,
            "parameters": written.parameters,
            "darks": written.darks,
            "frames": written.frames,
            "stopped": written.stopped,
            "stopped_by": stop::name(written.stopped),
            "lost_packets": written.health.lost_packets,
        }));
        return ended(&written);
    }
    say!("dark         {} ({} frames)", written.dark.display(), count(written.darks));
    if let Some(data) = data {
        say!("data         {data} ({} frames)", count(written.frames));
    }
    say!("parameters   {}", written.parameters.display());
    if written.health.lost_packets > 0 {
        say!("lost packets {}", count(written.health.lost_packets));
    }
    if written.simulator.simulation().bits > 14 {
        say!("words        16 bits of charge, no gain bits: give --gain none wherever these frames are read");
    }
    if written.stopped {
        say!("stopped      after {} frames ({}): the files are complete", count(written.frames), stop::by());
    }
    ended(&written)
}

/// The end of a simulation, all or some of whose frames are written.
fn ended(written: &Written) -> Outcome {
    if written.stopped { Err(Failure::Stopped) } else { Ok(()) }
}

/// Looks before any work whether a simulation, and further files, may be written to a folder; sentences about what is there.
pub fn ready(writing: &WritingArgs, folder: &Path, format: Format, more: &[&str]) -> Outcome<Vec<String>> {
    let frames = match format {
        Format::Npy => ["dark.npy", "data.npy"],
        Format::Raw => ["dark_master_0.json", "data_master_0.json"],
    };
    let files = frames.iter().chain(&["simulation.json"]).chain(more).map(|file| folder.join(file));
    let files: Vec<PathBuf> = files.collect();
    places::ready(writing, &places::named("--out", &files))
}

/// What would be written, after everything was checked.
fn plan(args: &SimulateArgs, simulation: &Simulation) -> Outcome {
    let shape = simulation.validate().map_err(usage_of_simulation)?;
    places::can_be_folder(&args.out)?;
    let bytes = (shape.pixels() * 2) as f64 * (args.darks + args.frames) as f64;
    let format = if args.format == Format::Raw { "raw" } else { "npy" };
    if args.json {
        print_json(&json!({
            "dry_run": true,
            "out": args.out,
            "format": format,
            "shape": [shape.rows, shape.cols],
            "darks": args.darks,
            "frames": args.frames,
            "bytes": bytes,
        }));
        return Ok(());
    }
    say!(
        "would write  {} and {} frames of {shape} as {format}, {:.1} MB",
        count(args.darks),
        count(args.frames),
        bytes / 1e6
    );
    say!("to           {}", args.out.display());
    Ok(())
}

/// Writes a simulation and shows how far it is.
pub fn write(
    folder: &Place,
    simulation: &Simulation,
    format: Format,
    (darks, frames): (u64, u64),
    stop: &Arc<AtomicBool>,
) -> Outcome<Written> {
    simulation.validate().map_err(usage_of_simulation)?;
    places::folder(&folder.path)?;
    let start = Instant::now();
    let mut display = Display::new("simulate");
    let mut progress = |done: u64, total: u64| {
        display.show(&Progress { frames: done, total: Some(total), clusters: 0, elapsed: start.elapsed() });
        if stop.load(Ordering::Relaxed) { Err(Error::Stopped) } else { Ok(()) }
    };
    let written = match format {
        Format::Npy => write_npy(folder.clone(), simulation, darks, frames, &mut progress),
        Format::Raw => write_raw(folder.clone(), simulation, darks, frames, &mut progress),
    };
    written.map_err(usage_of_simulation)
}

/// The parameters with what was given on the command line.
fn simulation(base: Simulation, args: &PhysicsArgs) -> Outcome<Simulation> {
    let mut s = if args.faultless { base.without_faults() } else { base };
    macro_rules! take {
        ($($arg:ident => $field:ident),+ $(,)?) => { $(if let Some(v) = args.$arg { s.$field = v; })+ };
    }
    take!(
        rows => rows, cols => cols, seed => seed, photons => photons_per_frame, gain => gain_adu_per_kev,
        gain_spread => gain_spread, cloud => cloud_um, pixel => pixel_um, fano => fano,
        pedestal => pedestal_adu, pedestal_spread => pedestal_spread_adu, noise => noise_adu,
        noise_spread => noise_spread_adu, common_mode => common_mode_adu, drift => drift_adu_per_1000_frames,
        hot => hot_pixels, dead => dead_pixels, packet_loss => packet_loss, bits => bits,
    );
    if !args.energy.is_empty() {
        s.lines = args.energy.iter().map(|e| line(e)).collect::<Result<_>>().map_err(Failure::Usage)?;
    }
    Ok(s)
}

/// A line from `8.05` or `8.05:0.88`.
fn line(text: &str) -> Result<Line> {
    let (energy, weight) = text.split_once(':').unwrap_or((text, "1"));
    match (energy.parse(), weight.parse()) {
        (Ok(energy_kev), Ok(weight)) => Ok(Line { energy_kev, weight }),
        _ => Err(Error::param("--energy", text, "KEV or KEV:WEIGHT, like 8.048 or 8.048:0.88")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read() {
        assert_eq!(line("8.05").unwrap(), Line { energy_kev: 8.05, weight: 1.0 });
        assert_eq!(line("8.9:0.1").unwrap(), Line { energy_kev: 8.9, weight: 0.1 });
        assert!(line("8,9").is_err() && line("8:x").is_err());
    }

    #[test]
    fn what_is_given_counts_more_than_what_is_faultless() {
        let args = PhysicsArgs { faultless: true, hot: Some(3), photons: Some(7.0), ..Default::default() };
        let s = simulation(Simulation::default(), &args).unwrap_or_else(|_| unreachable!());
        assert_eq!((s.hot_pixels, s.dead_pixels, s.photons_per_frame), (3, 0, 7.0));
    }
}
