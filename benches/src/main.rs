//! `scheidegg-bench`: measures the photon finder and tells what the numbers say.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use scheidegg::Result;
use scheidegg_benches::harness::machine::{Environment, write_manifest};
use scheidegg_benches::{backends, study};

#[derive(Parser)]
#[command(
    name = "scheidegg-bench",
    version,
    about = "Measures the photon finder and tells what the numbers say"
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Writes env.json: the machine and the program
    Env {
        /// Folder of the run
        run: PathBuf,
    },
    /// Naive f32, centred f32 and f64 sums on the same frames
    Precision {
        /// Folder of the run
        run: PathBuf,
        /// Frames of 400 x 400
        #[arg(long, default_value_t = 400)]
        frames: usize,
        /// Frames of the small detector for the drift
        #[arg(long, default_value_t = 100_000)]
        drift_frames: u64,
        /// Frames of the small detector at each pedestal level
        #[arg(long, default_value_t = 4000)]
        level_frames: u64,
        /// Side of the small detector in pixels
        #[arg(long, default_value_t = 64)]
        side: usize,
        /// The CPU backend that finds
        #[arg(long, default_value = backends::DEFAULT)]
        backend: String,
    },
    /// Serial against frozen, branch by branch
    Timing {
        /// Folder of the run
        run: PathBuf,
        /// Independent runs
        #[arg(long, default_value_t = 8)]
        runs: u64,
        /// Frames of a run
        #[arg(long, default_value_t = 150)]
        frames: usize,
        /// Side of the window
        #[arg(long, default_value_t = 3)]
        size: usize,
        /// Side of a frame in pixels
        #[arg(long, default_value_t = 400)]
        side: usize,
    },
    /// Writes manifest.csv: the files of a run with their checksums
    Manifest {
        /// Folder of the run
        run: PathBuf,
    },
}

fn work(command: Command) -> Result<()> {
    match command {
        Command::Env { run } => Environment::here().write(&run),
        Command::Precision { run, frames, drift_frames, level_frames, side, backend } => {
            let backend = backends::cpu(&backend, 1)?;
            let plan = study::precision::Plan { frames, drift_frames, drift_side: side, level_frames };
            study::precision::run(plan, &*backend, &run)
        }
        Command::Timing { run, runs, frames, size, side } => {
            study::timing::run(study::timing::Plan { runs, frames, size, side }, &run)
        }
        Command::Manifest { run } => write_manifest(&run),
    }
}

fn main() -> ExitCode {
    match work(Cli::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("scheidegg-bench: {e}");
            ExitCode::FAILURE
        }
    }
}
