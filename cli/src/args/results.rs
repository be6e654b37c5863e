//! `info` and `compare`.

use std::path::PathBuf;

use clap::Args;
use scheidegg::{ClusterSize, Payload};

use super::finder::word;
use super::{CpuArgs, FinderArgs, InputArgs, LayoutArgs};

#[derive(Debug, Args)]
pub struct InfoArgs {
    /// Frames (.json, .raw, .npy, .dat), clusters (.clust, .npz, .npy), a saved pedestal or a mask; one or more
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Window of the clusters, for .clust files, which do not say; else it is guessed where one alone fits
    #[arg(long, value_name = "N|WxH")]
    pub size: Option<ClusterSize>,
    /// Type of the values, for .clust files, which do not say
    #[arg(long, value_parser = word::<Payload>(Payload::ALL, Payload::word))]
    pub payload: Option<Payload>,
    #[command(flatten)]
    pub layout: LayoutArgs,
    /// Print one JSON object for every file
    #[arg(long, help_heading = "Results")]
    pub json: bool,
}

/// With --data, A and B name backends; without, they are results of `find`.
#[derive(Debug, Args)]
pub struct CompareArgs {
    /// A result file (.npz, .npy or .clust), or a backend's name
    pub a: String,
    /// Another
    pub b: String,
    #[command(flatten)]
    pub input: InputArgs,
    #[command(flatten)]
    pub finder: FinderArgs,
    #[command(flatten)]
    pub cpu: CpuArgs,
    /// Print one JSON object
    #[arg(long, help_heading = "Results")]
    pub json: bool,
}
