//! The command line.

use std::path::PathBuf;

use clap::builder::styling::{AnsiColor, Styles};
use clap::{ArgGroup, Args, Parser, Subcommand, ValueEnum};
use scheidegg::io::OpenOptions;
use scheidegg::{ClusterSize, Noise, Params, Payload, Precision, Shape, Ties, Update};

const STYLES: Styles = Styles::styled()
    .header(AnsiColor::Green.on_default().bold())
    .usage(AnsiColor::Green.on_default().bold())
    .literal(AnsiColor::Cyan.on_default())
    .placeholder(AnsiColor::Cyan.on_default());

/// Finds photons in frames of charge-integrating X-ray pixel detectors.
///
/// Exit status: 0 done (also when Ctrl-C ended the run: the summary says where), 1 failed, or a comparison found a
/// difference, 2 wrong usage.
#[derive(Debug, Parser)]
#[command(name = "scheidegg", version, styles = STYLES, arg_required_else_help = true)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Train the pedestal with dark frames, find the photons in data frames, write their clusters
    Find(Box<FindArgs>),
    /// Simulate a MÖNCH in copper fluorescence, find its photons, compare with the truth, draw the report
    Demo(DemoArgs),
    /// Write simulated dark and data frames to files
    Simulate(Box<SimulateArgs>),
    /// Say what a file holds and what is wrong with it
    Info(InfoArgs),
    /// Compare two results, or two backends on the same frames
    Compare(Box<CompareArgs>),
    /// Time a backend on frames in files
    Bench(Box<BenchArgs>),
    /// List the backends, and why those that are not available are not
    Backends(BackendsArgs),
}

/// What decides which clusters are found.
#[derive(Debug, Args)]
#[command(next_help_heading = "What is found")]
pub struct FinderArgs {
    /// Window of a cluster in pixels: 3 for 3x3, or WxH (width x height), 2 to 15 each
    #[arg(long, value_name = "N|WxH", default_value = "3")]
    pub size: ClusterSize,
    /// Threshold in units of a pixel's noise
    #[arg(long, value_name = "SIGMA", default_value_t = 5.0, allow_negative_numbers = true)]
    pub n_sigma: f64,
    /// Pedestal that a decision sees: the one at the start of the frame, or one updated pixel by pixel
    #[arg(long, default_value = "frozen", value_parser = word::<Update>(Update::ALL, Update::word))]
    pub update: Update,
    /// Noise that a decision compares with: tracked in every frame, or fixed when training ends
    #[arg(long, default_value = "tracked", value_parser = word::<Noise>(Noise::ALL, Noise::word))]
    pub noise: Noise,
    /// Precision of pedestal and decision: f32, f64f32 (pedestal f64, decision f32), f64
    #[arg(long, default_value = "f32", value_parser = word::<Precision>(Precision::ALL, Precision::word))]
    pub precision: Precision,
    /// Type of the stored values; i16 cuts what does not fit and counts it
    #[arg(long, default_value = "i32", value_parser = word::<Payload>(Payload::ALL, Payload::word))]
    pub payload: Payload,
    /// Equal maxima in a window: store each, or only the first in raster order
    #[arg(long, default_value = "all", value_parser = word::<Ties>(Ties::ALL, Ties::word))]
    pub ties: Ties,
    /// Make the quadrant test too (odd sizes only)
    #[arg(long)]
    pub test2: bool,
    /// Independent pedestal chains: frame k belongs to lane k mod LANES
    #[arg(long, default_value_t = 1)]
    pub lanes: usize,
    /// A pixel's noise is never taken to be below this many ADU; 0 for no floor
    #[arg(long, value_name = "ADU", default_value_t = 0.0, allow_negative_numbers = true)]
    pub noise_floor: f64,
    /// Dark frames in the pedestal's window; darks beyond these update it
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub pedestal_samples: u64,
    /// Pixels that take no part: npy of rows x cols, not 0 masks
    #[arg(long, value_name = "FILE")]
    pub mask: Option<PathBuf>,
}

/// Where frames come from.
#[derive(Debug, Args)]
#[command(next_help_heading = "Frames")]
pub struct InputArgs {
    /// Dark frames: a raw master (.json, .raw), .npy or .dat
    #[arg(long, value_name = "FILE")]
    pub dark: Option<PathBuf>,
    /// Data frames, in this order: raw masters, .npy or .dat
    #[arg(long, value_name = "FILE", num_args = 1..)]
    pub data: Vec<PathBuf>,
    /// Leave out the data frames before this one
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub first: u64,
    /// Find photons in at most this many data frames
    #[arg(long, value_name = "N")]
    pub frames: Option<u64>,
    /// Take at most this many dark frames
    #[arg(long, value_name = "N")]
    pub dark_frames: Option<u64>,
    #[command(flatten)]
    pub reading: ReadingArgs,
}

/// What files leave to their reader.
#[derive(Debug, Args)]
#[command(next_help_heading = "Frames")]
pub struct ReadingArgs {
    /// Pixels that are not in gain 0: mask them in their frame and count them, or keep their charge bits as they are
    #[arg(long, value_enum, default_value_t = Gain::Mask)]
    pub gain: Gain,
    /// Region of interest to read, counted from 0, of a raw run that has several
    #[arg(long, value_name = "N")]
    pub roi: Option<usize>,
    /// Rows and columns of the images of a .dat file, where its length does not tell
    #[arg(long, value_name = "ROWSxCOLS", value_parser = shape)]
    pub dat_shape: Option<Shape>,
}

impl ReadingArgs {
    /// The same for the library.
    pub fn options(&self) -> OpenOptions {
        OpenOptions { gain: self.gain.into(), roi: self.roi, dat_shape: self.dat_shape }
    }
}

/// What becomes of pixels that are not in gain 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Gain {
    /// Masked in their frame and counted.
    Mask,
    /// Kept with their charge bits.
    Keep,
}

impl From<Gain> for scheidegg::io::Gain {
    fn from(gain: Gain) -> Self {
        match gain {
            Gain::Mask => scheidegg::io::Gain::MaskOthers,
            Gain::Keep => scheidegg::io::Gain::KeepValue,
        }
    }
}

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
    #[arg(long, value_name = "N")]
    pub threads: Option<usize>,
    /// Keep every thread of the backend cpu on a processor of its own
    #[arg(long)]
    pub pin: bool,
}

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

#[derive(Debug, Args)]
pub struct DemoArgs {
    /// Folder for frames, clusters and report
    #[arg(long, value_name = "DIR", default_value = "scheidegg-demo")]
    pub out: PathBuf,
    /// Data frames to simulate
    #[arg(long, value_name = "N", default_value_t = crate::demo::FRAMES)]
    pub frames: u64,
    /// Rows and columns of the detector
    #[arg(long, value_name = "PIXELS", default_value_t = 400)]
    pub side: usize,
    /// Seed of the simulation
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    #[command(flatten)]
    pub backend: BackendArgs,
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
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub darks: u64,
    /// Data frames
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub frames: u64,
    /// Parameters from a simulation.json; what is given beside it counts more
    #[arg(long, value_name = "FILE")]
    pub parameters: Option<PathBuf>,
    /// Print what was written as one JSON object
    #[arg(long, help_heading = "Results")]
    pub json: bool,
    #[command(flatten)]
    pub physics: PhysicsArgs,
}

/// The simulated detector and its beam. Without a value the default of the simulation holds, a MÖNCH in copper
/// fluorescence.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Detector and beam (defaults: a MÖNCH in copper fluorescence)")]
pub struct PhysicsArgs {
    /// Rows of a frame [default: 400]
    #[arg(long)]
    pub rows: Option<usize>,
    /// Columns of a frame [default: 400]
    #[arg(long)]
    pub cols: Option<usize>,
    /// Seed: the same seed gives the same frames [default: 1]
    #[arg(long)]
    pub seed: Option<u64>,
    /// Energy of the photons in keV; KEV:WEIGHT for several lines [default: 8.048:0.88 8.905:0.12]
    #[arg(long, value_name = "KEV[:WEIGHT]", num_args = 1..)]
    pub energy: Vec<String>,
    /// Mean photons a frame [default: 2300]
    #[arg(long, value_name = "N")]
    pub photons: Option<f64>,
    /// Gain in ADU/keV [default: 124]
    #[arg(long, value_name = "ADU/KEV")]
    pub gain: Option<f64>,
    /// Spread of the pixels' gain, relative [default: 0.01]
    #[arg(long, value_name = "SHARE")]
    pub gain_spread: Option<f64>,
    /// Standard deviation of a photon's charge cloud in um [default: 7.5]
    #[arg(long, value_name = "UM")]
    pub cloud: Option<f64>,
    /// Side of a pixel in um [default: 25]
    #[arg(long, value_name = "UM")]
    pub pixel: Option<f64>,
    /// Fano factor, 0 for none [default: 0.115]
    #[arg(long)]
    pub fano: Option<f64>,
    /// Mean pedestal in ADU [default: 4655]
    #[arg(long, value_name = "ADU")]
    pub pedestal: Option<f64>,
    /// Spread of the pixels' pedestals in ADU [default: 300]
    #[arg(long, value_name = "ADU")]
    pub pedestal_spread: Option<f64>,
    /// Mean noise of the pixels in ADU [default: 17]
    #[arg(long, value_name = "ADU")]
    pub noise: Option<f64>,
    /// Spread of the pixels' noise in ADU [default: 2]
    #[arg(long, value_name = "ADU")]
    pub noise_spread: Option<f64>,
    /// Common mode: shift of a whole frame, standard deviation in ADU [default: 1]
    #[arg(long, value_name = "ADU")]
    pub common_mode: Option<f64>,
    /// Drift of the pedestals in ADU per 1000 data frames [default: 0.5]
    #[arg(long, value_name = "ADU", allow_negative_numbers = true)]
    pub drift: Option<f64>,
    /// Hot pixels [default: 16]
    #[arg(long, value_name = "N")]
    pub hot: Option<usize>,
    /// Dead pixels, stuck at 0 or the largest value [default: 16]
    #[arg(long, value_name = "N")]
    pub dead: Option<usize>,
    /// Probability that a packet is lost (raw files only) [default: 0.00001]
    #[arg(long, value_name = "SHARE")]
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

#[derive(Debug, Args)]
pub struct InfoArgs {
    /// Frames (.json, .raw, .npy, .dat), clusters (.clust, .npz, .npy), a saved pedestal or a mask
    pub file: PathBuf,
    /// Window of the clusters, for .clust files, which do not say
    #[arg(long, value_name = "N|WxH")]
    pub size: Option<ClusterSize>,
    /// Type of the values, for .clust files, which do not say
    #[arg(long, value_parser = word::<Payload>(Payload::ALL, Payload::word))]
    pub payload: Option<Payload>,
    #[command(flatten)]
    pub reading: ReadingArgs,
    /// Print one JSON object
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

/// Every repetition starts from the trained pedestal, so that it finds the same clusters; a difference is an error.
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
    #[arg(long, value_name = "N,..", value_delimiter = ',', help_heading = "What computes")]
    pub threads: Vec<usize>,
    /// Keep every thread of the backend cpu on a processor of its own
    #[arg(long, help_heading = "What computes")]
    pub pin: bool,
    /// Times that all frames are gone through
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..),
        help_heading = "What computes")]
    pub reps: u32,
    /// Draw frames a second over threads
    #[arg(long, value_name = "FILE.svg", help_heading = "Results")]
    pub plot: Option<PathBuf>,
    /// Print one JSON object a line, one for every number of threads
    #[arg(long, help_heading = "Results")]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct BackendsArgs {
    #[command(flatten)]
    pub finder: FinderArgs,
    #[command(flatten)]
    pub cpu: CpuArgs,
    /// Print one JSON object
    #[arg(long, help_heading = "Results")]
    pub json: bool,
}

/// A parser of the words of an enum, which also lists them in the help.
fn word<T>(all: &'static [T], word: fn(T) -> &'static str) -> impl clap::builder::TypedValueParser<Value = T>
where
    T: Copy + Send + Sync + 'static,
{
    use clap::builder::{PossibleValuesParser, TypedValueParser};
    PossibleValuesParser::new(all.iter().map(|v| word(*v)))
        .map(move |s| *all.iter().find(|v| word(**v) == s).expect("one of the words"))
}

/// A shape from `512x1024`, rows first.
fn shape(text: &str) -> Result<Shape, String> {
    let sides = text.split_once(['x', 'X']).and_then(|(r, c)| Some((r.parse().ok()?, c.parse().ok()?)));
    let (rows, cols) = sides.ok_or("expected ROWSxCOLS, like 512x1024")?;
    Shape::new(rows, cols).map_err(|e| e.to_string())
}

impl FinderArgs {
    /// The parameters without the mask, whose shape is not known yet.
    pub fn params(&self) -> Params {
        Params {
            n_sigma: self.n_sigma,
            update: self.update,
            noise: self.noise,
            precision: self.precision,
            ties: self.ties,
            test2: self.test2,
            lanes: self.lanes,
            noise_floor_adu: self.noise_floor,
            payload: self.payload,
            pedestal_samples: self.pedestal_samples,
            ..Params::new(self.size)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
