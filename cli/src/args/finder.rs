//! What is found.

use std::path::PathBuf;

use super::number::{count, real, whole};
use crate::darks::WINDOW;
use clap::Args;
use scheidegg::{ClusterSize, Noise, Params, Payload, Precision, Ties, Update};

/// What decides which clusters are found.
#[derive(Debug, Args)]
#[command(next_help_heading = "What is found")]
pub struct FinderArgs {
    /// Window of a cluster in pixels: 3 for 3x3, or WxH (width x height), 2 to 15 each
    #[arg(long, value_name = "N|WxH", default_value = "3")]
    pub size: ClusterSize,
    /// Threshold in units of a pixel's noise
    #[arg(long, value_name = "SIGMA", default_value_t = 5.0, value_parser = real)]
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
    /// Equal maxima in a window: store each, or only the first in raster order. `first` for counting photons, where one that
    /// two pixels share to the ADU must not count twice
    #[arg(long, default_value = "all", value_parser = word::<Ties>(Ties::ALL, Ties::word))]
    pub ties: Ties,
    /// Make the quadrant test too (odd sizes only): charge in a corner of the window then need not show in one pixel or in the
    /// whole window. For weak photons that several pixels share, at the price of more clusters from noise
    #[arg(long)]
    pub test2: bool,
    /// Independent pedestal chains: frame k, counted from the first that is searched, belongs to lane k mod LANES. Several for
    /// several GPUs, and for storage cells that take turns, whose pedestals differ
    #[arg(long, value_name = "LANES", default_value_t = 1, value_parser = count(0))]
    pub lanes: usize,
    /// A pixel's noise is never taken to be below this many ADU; 0 for no floor
    #[arg(long, value_name = "ADU", default_value_t = 0.0, value_parser = real)]
    pub noise_floor: f64,
    /// Dark frames in the pedestal's window; darks beyond these update it [default: all, at most 1000]
    #[arg(long, value_name = "N", value_parser = whole(2))]
    pub pedestal_samples: Option<u64>,
    /// Pixels that take no part: npy of rows x cols, bool or integers, not 0 masks. Several masks are united
    #[arg(long, value_name = "FILE", num_args = 1..)]
    pub mask: Vec<PathBuf>,
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
            pedestal_samples: self.pedestal_samples.unwrap_or(WINDOW),
            ..Params::new(self.size)
        }
    }
}

/// A parser of the words of an enum, which also lists them in the help.
pub fn word<T>(
    all: &'static [T],
    word: fn(T) -> &'static str,
) -> impl clap::builder::TypedValueParser<Value = T>
where
    T: Copy + Send + Sync + 'static,
{
    use clap::builder::{PossibleValuesParser, TypedValueParser};
    PossibleValuesParser::new(all.iter().map(|v| word(*v)))
        .map(move |s| *all.iter().find(|v| word(**v) == s).expect("one of the words"))
}
