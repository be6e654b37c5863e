//! `simulate` and `demo`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::number::{count, real, whole};
use super::{BackendArgs, WritingArgs};

#[derive(Debug, Args)]
pub struct DemoArgs {
    /// Folder for frames, clusters and report
    #[arg(long, value_name = "DIR", default_value = "scheidegg-demo")]
    pub out: PathBuf,
    /// Data frames to simulate
    #[arg(long, value_name = "N", default_value_t = crate::demo::FRAMES, value_parser = whole(1))]
    pub frames: u64,
    /// Rows and columns of the detector
    #[arg(long, value_name = "PIXELS", default_value_t = 400, value_parser = count(1))]
    pub side: usize,
    /// Seed of the simulation
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = whole(0))]
    pub seed: u64,
    #[command(flatten)]
    pub backend: BackendArgs,
    #[command(flatten)]
    pub writing: WritingArgs,
    /// Print the result as one JSON object
    #[arg(long, help_heading = "Results")]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct SimulateArgs {
    /// Folder for the files; it is made when it is not there
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
    /// npy: dark.npy and data.npy; raw: MÖNCH raw files with their masters
    #[arg(long, value_enum, default_value_t = Format::Npy)]
    pub format: Format,
    /// Dark frames
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = whole(0))]
    pub darks: u64,
    /// Data frames
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = whole(0))]
    pub frames: u64,
    /// Parameters from a simulation.json; what is given beside it counts more
    #[arg(long, value_name = "FILE")]
    pub parameters: Option<PathBuf>,
    /// Check everything, print what would be written, write nothing
    #[arg(long, help_heading = "Results")]
    pub dry_run: bool,
    /// Print what was written as one JSON object
    #[arg(long, help_heading = "Results")]
    pub json: bool,
    #[command(flatten)]
    pub writing: WritingArgs,
    #[command(flatten)]
    pub physics: PhysicsArgs,
}

/// The simulated detector and its beam. Without a value the default of the simulation holds, a MÖNCH in copper
/// fluorescence.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Detector and beam (defaults: a MÖNCH in copper fluorescence)")]
pub struct PhysicsArgs {
    /// Rows of a frame [default: 400]
    #[arg(long, value_name = "N", value_parser = count(0))]
    pub rows: Option<usize>,
    /// Columns of a frame [default: 400]
    #[arg(long, value_name = "N", value_parser = count(0))]
    pub cols: Option<usize>,
    /// Seed: the same seed gives the same frames [default: 1]
    #[arg(long, value_name = "N", value_parser = whole(0))]
    pub seed: Option<u64>,
    /// Energy of the photons in keV; KEV:WEIGHT for several lines [default: 8.048:0.88 8.905:0.12]
    #[arg(long, value_name = "KEV[:WEIGHT]", num_args = 1..)]
    pub energy: Vec<String>,
    /// Mean photons a frame [default: 2300]
    #[arg(long, value_name = "N", value_parser = real)]
    pub photons: Option<f64>,
    /// Gain in ADU/keV [default: 124]
    #[arg(long, value_name = "ADU/KEV", value_parser = real)]
    pub gain: Option<f64>,
    /// Spread of the pixels' gain, relative [default: 0.01]
    #[arg(long, value_name = "SHARE", value_parser = real)]
    pub gain_spread: Option<f64>,
    /// Standard deviation of a photon's charge cloud in um [default: 7.5]
    #[arg(long, value_name = "UM", value_parser = real)]
    pub cloud: Option<f64>,
    /// Side of a pixel in um [default: 25]
    #[arg(long, value_name = "UM", value_parser = real)]
    pub pixel: Option<f64>,
    /// Fano factor, 0 for none [default: 0.115]
    #[arg(long, value_name = "N", value_parser = real)]
    pub fano: Option<f64>,
    /// Mean pedestal in ADU [default: 4655]
    #[arg(long, value_name = "ADU", value_parser = real)]
    pub pedestal: Option<f64>,
    /// Spread of the pixels' pedestals in ADU [default: 300]
    #[arg(long, value_name = "ADU", value_parser = real)]
    pub pedestal_spread: Option<f64>,
    /// Mean noise of the pixels in ADU [default: 17]
    #[arg(long, value_name = "ADU", value_parser = real)]
    pub noise: Option<f64>,
    /// Spread of the pixels' noise in ADU [default: 2]
    #[arg(long, value_name = "ADU", value_parser = real)]
    pub noise_spread: Option<f64>,
    /// Common mode: shift of a whole frame, standard deviation in ADU [default: 1]
    #[arg(long, value_name = "ADU", value_parser = real)]
    pub common_mode: Option<f64>,
    /// Drift of the pedestals in ADU per 1000 data frames [default: 0.5]
    #[arg(long, value_name = "ADU", value_parser = real)]
    pub drift: Option<f64>,
    /// Hot pixels [default: 16]
    #[arg(long, value_name = "N", value_parser = count(0))]
    pub hot: Option<usize>,
    /// Dead pixels, stuck at 0 or the largest value [default: 16]
    #[arg(long, value_name = "N", value_parser = count(0))]
    pub dead: Option<usize>,
    /// Probability that a packet is lost (raw files only) [default: 0.00001]
    #[arg(long, value_name = "SHARE", value_parser = real)]
    pub packet_loss: Option<f64>,
    /// Bits of a pixel, 14 or 16 [default: 14]
    #[arg(long)]
    pub bits: Option<u32>,
    /// No hot or dead pixels, no lost packets, no common mode, no drift (unless given)
    #[arg(long)]
    pub faultless: bool,
}

/// Files of a simulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// `dark.npy` and `data.npy`.
    Npy,
    /// SLS raw with JSON masters.
    Raw,
}
