//! `find` and `train`.

use std::path::PathBuf;

use clap::{ArgGroup, Args};

use scheidegg::{Noise, Precision};

use super::finder::word;
use super::number::whole;
use super::{BackendArgs, FinderArgs, InputArgs, ReadingArgs, WritingArgs};

#[derive(Debug, Args)]
#[command(group = ArgGroup::new("start").required(true).args(["dark", "pedestal"]))]
#[command(group = ArgGroup::new("result").required(true).multiple(true).args(["out", "report", "frames_out"]))]
pub struct FindArgs {
    #[command(flatten)]
    pub input: InputArgs,
    /// Start from a pedestal that train or --save-pedestal wrote, instead of dark frames
    #[arg(long, value_name = "FILE", help_heading = "Frames")]
    pub pedestal: Option<PathBuf>,
    #[command(flatten)]
    pub finder: FinderArgs,
    #[command(flatten)]
    pub backend: BackendArgs,
    /// Clusters: .clust, .npz (frame, x, y, data) or .npy; the latter two have no trace of frames without clusters. May be
    /// given more than once. A symbolic link is written through; a FIFO or a device gets .clust as a stream (with
    /// /dev/stdout the summary goes to standard error)
    #[arg(long, value_name = "FILE", help_heading = "Results")]
    pub out: Vec<PathBuf>,
    /// A row a frame, to .csv or .npz: number, bunch id, time stamp, storage cell, lost packets and pixels, clusters
    #[arg(long, value_name = "FILE", help_heading = "Results")]
    pub frames_out: Option<PathBuf>,
    /// Folder for report.html and its pictures
    #[arg(long, value_name = "DIR", help_heading = "Results")]
    pub report: Option<PathBuf>,
    /// Write the pedestal as training left it
    #[arg(long, value_name = "FILE", help_heading = "Results")]
    pub save_pedestal: Option<PathBuf>,
    /// Write the pixels that cannot be trusted as a mask for --mask: u8 codes, the sum of 1 quiet, 2 hot, 4 untrained, 8 never
    /// updated, 16 firing in most frames (the last two need a run)
    #[arg(long, value_name = "FILE.npy", help_heading = "Results")]
    pub write_mask: Option<PathBuf>,
    /// Open and check everything, print what would be done, write nothing
    #[arg(long, help_heading = "Results")]
    pub dry_run: bool,
    #[command(flatten)]
    pub writing: WritingArgs,
    /// Print the summary as one JSON object
    #[arg(long, help_heading = "Results")]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct TrainArgs {
    /// Dark frames, in this order: raw masters (.json, .raw), .npy or .dat
    #[arg(long, value_name = "FILE", num_args = 1.., required = true, help_heading = "Frames")]
    pub dark: Vec<PathBuf>,
    /// Take at most this many dark frames
    #[arg(long, value_name = "N", value_parser = whole(2), help_heading = "Frames")]
    pub dark_frames: Option<u64>,
    /// Go on behind a damaged file or frame: it is left out or masked, counted and warned of
    #[arg(long, help_heading = "Frames")]
    pub keep_going: bool,
    /// Take dark frames that do not go together: other regions of interest, detectors or gains
    #[arg(long, help_heading = "Frames")]
    pub force: bool,
    #[command(flatten)]
    pub reading: ReadingArgs,
    /// Dark frames in the pedestal's window; darks beyond these update it [default: all, at most 1000]
    #[arg(long, value_name = "N", value_parser = whole(2), help_heading = "Pedestal")]
    pub pedestal_samples: Option<u64>,
    /// Precision that `find` is going to be asked for: f32, f64f32, f64 (the pedestal of the latter two is the same)
    #[arg(long, default_value = "f32", value_parser = word::<Precision>(Precision::ALL, Precision::word),
        help_heading = "Pedestal")]
    pub precision: Precision,
    /// Noise that `find` is going to be asked for: fixed is the noise of the window, whatever dark frames follow it
    #[arg(long, default_value = "tracked", value_parser = word::<Noise>(Noise::ALL, Noise::word),
        help_heading = "Pedestal")]
    pub noise: Noise,
    /// The pedestal, for `find --pedestal`
    #[arg(long, value_name = "FILE.npz", help_heading = "Results")]
    pub out: PathBuf,
    /// Folder for report.html and its pictures of the pedestal
    #[arg(long, value_name = "DIR", help_heading = "Results")]
    pub report: Option<PathBuf>,
    /// Write the pixels that cannot be trusted as a mask for --mask: u8 codes, the sum of 1 quiet, 2 hot, 4 untrained, 8 never
    /// updated, 16 firing in most frames (the last two need a run)
    #[arg(long, value_name = "FILE.npy", help_heading = "Results")]
    pub write_mask: Option<PathBuf>,
    /// Open and check everything, print what would be done, write nothing
    #[arg(long, help_heading = "Results")]
    pub dry_run: bool,
    #[command(flatten)]
    pub writing: WritingArgs,
    /// Print the summary as one JSON object
    #[arg(long, help_heading = "Results")]
    pub json: bool,
}
