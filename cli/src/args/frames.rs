//! Where frames come from and how they are read.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use scheidegg::Shape;
use scheidegg::io::{Board, OpenOptions};

use super::finder::word;

use super::number::{count, whole};

/// Where frames come from.
#[derive(Debug, Args)]
#[command(next_help_heading = "Frames")]
pub struct InputArgs {
    /// Dark frames, in this order: raw masters (.json, .raw), .npy or .dat
    #[arg(long, value_name = "FILE", num_args = 1..)]
    pub dark: Vec<PathBuf>,
    /// Data frames, in this order: raw masters, .npy or .dat
    #[arg(long, value_name = "FILE", num_args = 1..)]
    pub data: Vec<PathBuf>,
    /// Leave out the data frames before this one
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = whole(0))]
    pub first: u64,
    /// Find photons in at most this many data frames
    #[arg(long, value_name = "N", value_parser = whole(1))]
    pub frames: Option<u64>,
    /// Take at most this many dark frames
    #[arg(long, value_name = "N", value_parser = whole(2))]
    pub dark_frames: Option<u64>,
    /// Go on behind a damaged file or frame: it is left out or masked, counted and warned of
    #[arg(long)]
    pub keep_going: bool,
    /// Take dark and data frames that do not go together: another region of interest, detector or gain
    #[arg(long)]
    pub force: bool,
    #[command(flatten)]
    pub reading: ReadingArgs,
}

impl InputArgs {
    /// How the files are read, for the library.
    pub fn options(&self) -> OpenOptions {
        OpenOptions { keep_going: self.keep_going, ..self.reading.options() }
    }
}

/// What files leave to their reader.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Frames")]
pub struct ReadingArgs {
    /// Pixels that are not in gain 0: mask them in their frame and count them, or keep their charge bits as they are
    #[arg(long, value_enum, default_value_t = Gain::Mask)]
    pub gain: Gain,
    #[command(flatten)]
    pub layout: LayoutArgs,
}

/// How the images of a file lie, where it does not tell.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Frames")]
pub struct LayoutArgs {
    /// Region of interest to read, counted from 0, of a raw run that has several
    #[arg(long, value_name = "N", value_parser = count(0))]
    pub roi: Option<usize>,
    /// Rows and columns of the images of a .dat file, where its length does not tell
    #[arg(long, value_name = "ROWSxCOLS", value_parser = shape)]
    pub dat_shape: Option<Shape>,
    /// Detector that a chip test board read, where its master does not tell: moench03, moench04, moench05
    #[arg(long, value_parser = word::<Board>(&Board::ALL, Board::word))]
    pub board: Option<Board>,
}

impl ReadingArgs {
    /// The same for the library.
    pub fn options(&self) -> OpenOptions {
        OpenOptions { gain: self.gain.into(), ..self.layout.options() }
    }
}

impl LayoutArgs {
    /// The same for the library.
    pub fn options(&self) -> OpenOptions {
        OpenOptions { roi: self.roi, dat_shape: self.dat_shape, board: self.board, ..OpenOptions::default() }
    }
}

/// What becomes of pixels that are not in gain 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Gain {
    /// Masked in their frame and counted.
    Mask,
    /// Kept with their 14 bits of charge.
    Keep,
    /// No bits of a word are gain: all 16 are charge.
    None,
}

impl From<Gain> for scheidegg::io::Gain {
    fn from(gain: Gain) -> Self {
        match gain {
            Gain::Mask => scheidegg::io::Gain::MaskOthers,
            Gain::Keep => scheidegg::io::Gain::KeepValue,
            Gain::None => scheidegg::io::Gain::None,
        }
    }
}

/// A shape from `512x1024`, rows first.
pub fn shape(text: &str) -> Result<Shape, String> {
    let sides = text.split_once(['x', 'X']).and_then(|(r, c)| Some((r.parse().ok()?, c.parse().ok()?)));
    let (rows, cols) = sides.ok_or("expected ROWSxCOLS, like 512x1024")?;
    Shape::new(rows, cols).map_err(|e| e.to_string())
}
