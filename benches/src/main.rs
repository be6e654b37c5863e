//! `scheidegg-bench`: measures the photon finder and tells what the numbers say.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use scheidegg::{Precision, Result};
use scheidegg_benches::harness::machine::{Environment, write_manifest};
use scheidegg_benches::ladder::steps::Step;
use scheidegg_benches::ladder::{measure, spawn};
use scheidegg_benches::{backends, campaign, probes, report, sass, study};

/// Measures the photon finder and tells what the numbers say.
#[derive(Parser)]
#[command(name = "scheidegg-bench", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Lists the steps of the ladder
    Steps,
    /// Measures one step of the ladder in this process
    Step(StepArgs),
    /// Climbs the ladder: a fresh process for each step
    Ladder {
        /// Folder of the run
        run: PathBuf,
        /// Frames of a repetition
        #[arg(long, default_value_t = 2000)]
        frames: usize,
        /// Repetitions a step, the cold one included
        #[arg(long, default_value_t = 7)]
        repeats: usize,
        /// Sides of windows
        #[arg(long, value_delimiter = ',', default_value = "3,9")]
        sizes: Vec<usize>,
        /// Steps by name (default: all)
        #[arg(long, value_delimiter = ',')]
        steps: Vec<String>,
        /// The CPU backend of the baseline
        #[arg(long, default_value = backends::DEFAULT)]
        backend: String,
        /// Seconds of the energy measurement of a step
        #[arg(long, default_value_t = 0.6)]
        energy_s: f64,
    },
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
        #[arg(long, default_value_t = 2000)]
        frames: usize,
        /// Frames of the small detector for the drift
        #[arg(long, default_value_t = 100_000)]
        drift_frames: u64,
        /// Frames of the small detector at each pedestal level
        #[arg(long, default_value_t = 10_000)]
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
        #[arg(long, default_value_t = 250)]
        frames: usize,
        /// Side of the window
        #[arg(long, default_value_t = 3)]
        size: usize,
        /// Side of a frame in pixels
        #[arg(long, default_value_t = 400)]
        side: usize,
    },
    /// Runs a step under CUPTI and writes what each engine did
    Probe(StepArgs),
    /// Measures what the link moves: wire.csv
    Wire {
        /// Folder of the run
        run: PathBuf,
    },
    /// Counts the machine instructions of the kernels: sass.csv
    Sass {
        /// Folder of the run
        run: PathBuf,
        /// Folder with ptxas and nvdisasm
        #[arg(long)]
        tools: Option<PathBuf>,
    },
    /// Everything in order: environment, wire, probes, studies, instructions, ladder, report
    Campaign {
        /// Folder of the run
        run: PathBuf,
        /// Seconds that it may take
        #[arg(long, default_value_t = 560)]
        limit_s: u64,
        /// Frames of a repetition
        #[arg(long, default_value_t = 2000)]
        frames: usize,
        /// Repetitions a step, the cold one included
        #[arg(long, default_value_t = 6)]
        repeats: usize,
        /// Seconds of the energy measurement of a step
        #[arg(long, default_value_t = 0.5)]
        energy_s: f64,
        /// A trial: everything once and small
        #[arg(long)]
        quick: bool,
        /// Only these parts: wire, probes, precision, timing, instructions, ladder (the report is always written)
        #[arg(long, value_delimiter = ',')]
        only: Vec<campaign::Part>,
        /// Goes on with the run in the folder: what is there is kept, what is missing is measured
        #[arg(long)]
        resume: bool,
    },
    /// Tells what a run measured: report.html and figures
    Report {
        /// Folder of the run
        run: PathBuf,
        /// Where the same goes as Markdown
        #[arg(long)]
        markdown: Option<PathBuf>,
        /// Where the answers to the questions go
        #[arg(long)]
        questions: Option<PathBuf>,
    },
    /// Writes manifest.csv: the files of a run with their checksums
    Manifest {
        /// Folder of the run
        run: PathBuf,
    },
}

#[derive(Args)]
struct StepArgs {
    /// Name of the step (see `steps`)
    name: String,
    /// Side of the window
    #[arg(long, default_value_t = 3)]
    size: usize,
    /// Precision of pedestal and decision: f32, f64f32 or f64
    #[arg(long, default_value = "f32")]
    precision: Precision,
    /// Frames of a repetition
    #[arg(long, default_value_t = 2000)]
    frames: usize,
    /// Repetitions, the cold one included
    #[arg(long, default_value_t = 7)]
    repeats: usize,
    /// Threads of the CPU baseline
    #[arg(long, default_value_t = 1)]
    threads: usize,
    /// The CPU backend of the baseline
    #[arg(long, default_value = backends::DEFAULT)]
    backend: String,
    /// Seconds of the energy measurement
    #[arg(long, default_value_t = 0.6)]
    energy_s: f64,
    /// Where the rows go (for a probe: the files' common stem)
    #[arg(long)]
    csv: PathBuf,
}

impl StepArgs {
    fn plan(self) -> Result<(measure::Plan, PathBuf)> {
        let plan = measure::Plan {
            step: Step::named(&self.name)?,
            size: self.size,
            precision: self.precision,
            frames: self.frames,
            // One cold and one warm repetition at least.
            repetitions: self.repeats.max(2),
            threads: self.threads,
            backend: self.backend,
            energy: Duration::from_secs_f64(self.energy_s.clamp(0.0, 60.0)),
        };
        Ok((plan, self.csv))
    }
}

fn work(command: Command) -> Result<()> {
    match command {
        Command::Steps => {
            for s in Step::all() {
                println!("{:9} {:40} {}", s.name, s.title, s.change);
            }
            Ok(())
        }
        Command::Step(args) => {
            let (plan, csv) = args.plan()?;
            measure::run(&plan, &csv)
        }
        Command::Ladder { run, frames, repeats, sizes, steps, backend, energy_s } => {
            let patience = Duration::from_secs(60);
            let plan = spawn::Plan {
                frames,
                repetitions: repeats,
                sizes,
                steps,
                backend,
                energy_s,
                patience,
                until: None,
                call: 1,
            };
            spawn::run(&plan, &run)
        }
        Command::Env { run } => Environment::here().write(&run),
        Command::Precision { run, frames, drift_frames, level_frames, side, backend } => {
            let backend = backends::cpu(&backend, 1)?;
            let plan = study::precision::Plan { frames, drift_frames, drift_side: side, level_frames };
            study::precision::run(plan, &*backend, &run)
        }
        Command::Timing { run, runs, frames, size, side } => {
            study::timing::run(study::timing::Plan { runs, frames, size, side }, &run)
        }
        Command::Probe(args) => {
            let (plan, stem) = args.plan()?;
            probes::step::run(&plan, &stem)
        }
        Command::Wire { run } => probes::wire::run(&run),
        Command::Sass { run, tools } => sass::run(&run, tools.as_deref()),
        Command::Campaign { run, limit_s, frames, repeats, energy_s, quick, only, resume } => {
            let plan = campaign::Plan {
                limit: Duration::from_secs(limit_s),
                frames: if quick { 200 } else { frames },
                repetitions: if quick { 2 } else { repeats },
                energy_s: if quick { 0.0 } else { energy_s },
                quick,
                only,
                resume,
            };
            campaign::run(&plan, &run)
        }
        Command::Report { run, markdown, questions } => {
            report::report(&run, markdown.as_deref(), questions.as_deref())
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
