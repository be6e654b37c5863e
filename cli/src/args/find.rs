//! `find`.

use std::path::PathBuf;

use clap::{ArgGroup, Args};

use super::{BackendArgs, FinderArgs, InputArgs};

#[derive(Debug, Args)]
#[command(group = ArgGroup::new("start").required(true).args(["dark", "pedestal"]))]
#[command(group = ArgGroup::new("result").required(true).multiple(true).args(["out", "report"]))]
pub struct FindArgs {
    #[command(flatten)]
    pub input: InputArgs,
    /// Start from a pedestal that --save-pedestal wrote, instead of dark frames
    #[arg(long, value_name = "FILE", help_heading = "Frames")]
    pub pedestal: Option<PathBuf>,
    #[command(flatten)]
    pub finder: FinderArgs,
    #[command(flatten)]
    pub backend: BackendArgs,
    /// Clusters: .clust, .npz (frame, x, y, data) or .npy; the latter two have no trace of frames without clusters. May be
    /// given more than once
    #[arg(long, value_name = "FILE", help_heading = "Results")]
    pub out: Vec<PathBuf>,
    /// Folder for report.html and its pictures
    #[arg(long, value_name = "DIR", help_heading = "Results")]
    pub report: Option<PathBuf>,
    /// Write the pedestal as training left it
    #[arg(long, value_name = "FILE", help_heading = "Results")]
    pub save_pedestal: Option<PathBuf>,
    /// Print the summary as one JSON object
    #[arg(long, help_heading = "Results")]
    pub json: bool,
}
