//! What computes, and the subcommands about it.

use std::path::PathBuf;

use clap::Args;
use scheidegg::{Precision, Shape, Update};

use super::finder::word;
use super::frames::shape;
use super::number::count;
use super::{FinderArgs, InputArgs, WritingArgs};

/// What computes.
#[derive(Debug, Args)]
#[command(next_help_heading = "What computes")]
pub struct BackendArgs {
    /// Backend: auto, or one that `scheidegg backends` lists. The result does not depend on it
    #[arg(long, value_name = "NAME", default_value = "auto")]
    pub backend: String,
    #[command(flatten)]
    pub cpu: CpuArgs,
}

/// How many threads compute.
#[derive(Debug, Args)]
#[command(next_help_heading = "What computes")]
pub struct CpuArgs {
    /// Threads on the CPU; by default one for each of up to 4 processors, half of more. The result does not depend on it
    #[arg(long, value_name = "N", value_parser = count(0))]
    pub threads: Option<usize>,
    /// Keep every thread of the backend cpu on a processor of its own
    #[arg(long)]
    pub pin: bool,
}

/// Every repetition starts from the trained pedestal, so that it finds the same clusters; a difference is an error. Times
/// are those of a frame: the median and the fastest of the repetitions, and their spread, from the fastest to the slowest.
#[derive(Debug, Args)]
pub struct BenchArgs {
    #[command(flatten)]
    pub input: InputArgs,
    #[command(flatten)]
    pub finder: FinderArgs,
    /// Backend: auto, or one that `scheidegg backends` lists
    #[arg(long, value_name = "NAME", default_value = "auto", help_heading = "What computes")]
    pub backend: String,
    /// Threads on the CPU; several numbers give a table. By default as with find
    #[arg(long, value_name = "N,..", value_delimiter = ',', value_parser = count(0), help_heading = "What computes")]
    pub threads: Vec<usize>,
    /// Keep every thread of the backend cpu on a processor of its own
    #[arg(long, help_heading = "What computes")]
    pub pin: bool,
    /// Times that all frames are gone through
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = count(1),
        help_heading = "What computes")]
    pub reps: usize,
    /// Draw frames a second over threads: the median, with a bar from the slowest to the fastest repetition
    #[arg(long, value_name = "FILE.svg", help_heading = "Results")]
    pub plot: Option<PathBuf>,
    #[command(flatten)]
    pub writing: WritingArgs,
    /// Print one JSON object a line, one for every number of threads
    #[arg(long, help_heading = "Results")]
    pub json: bool,
}

/// Which backend `auto` takes depends on the frames and on what is asked of it.
#[derive(Debug, Args)]
pub struct BackendsArgs {
    /// Rows and columns of the frames
    #[arg(long, value_name = "ROWSxCOLS", value_parser = shape, default_value = "400x400")]
    pub shape: Shape,
    /// As with find
    #[arg(long, default_value = "frozen", value_parser = word::<Update>(Update::ALL, Update::word))]
    pub update: Update,
    /// As with find
    #[arg(long, default_value = "f32", value_parser = word::<Precision>(Precision::ALL, Precision::word))]
    pub precision: Precision,
    /// Threads on the CPU, as with find
    #[arg(long, value_name = "N", value_parser = count(0), help_heading = "What computes")]
    pub threads: Option<usize>,
    /// Print one JSON object
    #[arg(long, help_heading = "Results")]
    pub json: bool,
}
