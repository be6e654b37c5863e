//! Where frames come from and where clusters go.
//!
//! One direction: a [`Source`] fills buffers of frames, a finder turns them into batches of clusters, [`Sink`]s
//! take those. Neither knows the other, and neither holds more than a few buffers: files far larger than memory
//! stream through.

pub mod simulate;

use scheidegg_finder::{Clusters, FrameBuf, Result, Shape};

mod archive;
mod checked;
mod clust;
mod columns;
mod dat;
mod files;
mod info;
mod mask;
pub mod npy;
mod npz;
mod output;
mod pedestal;
mod pieces;
pub mod raw;
mod raw_write;
mod read_at;
mod results;
mod rows;
mod table;

pub use clust::{ClustReader, ClustSink};
pub use columns::{NpySink, NpzSink};
pub use dat::{DAT_SHAPES, DatSource};
pub use files::{FrameFile, OpenOptions, open_results, open_sink, open_source};
pub use info::{Info, info};
pub use mask::{load_mask, save_mask};
pub use npy::{NpyFrames, NpySource, write_image};
pub use output::Output;
pub use pedestal::{load_pedestal, save_pedestal};
pub use raw::{Gain, Master, RawReading, RawSource};
pub use raw_write::{RawOptions, RawWriter};
pub(crate) use results::Kind;
pub use results::Results;
pub use table::TableReader;

// Files are read and written as they lie in memory.
const _: () =
    assert!(cfg!(target_endian = "little"), "detector files are little-endian, and so must the machine be");

/// Anything that gives frames in order.
pub trait Source: Send {
    /// What the frames are called in a message: a file's path, or `simulation (seed 1)`.
    fn name(&self) -> String;

    /// Rows and columns of a frame.
    fn shape(&self) -> Shape;

    /// Frames that are left, if that is known.
    fn remaining(&self) -> Option<u64>;

    /// Appends frames to the buffer until it is full or the source ends. Returns how many were appended; 0 for an
    /// empty buffer means the end.
    ///
    /// # Errors
    /// Whatever is wrong with the input, naming the file. Frames appended before the error are whole.
    fn read(&mut self, into: &mut FrameBuf) -> Result<usize>;

    /// Leaves out the next `frames` frames; returns how many there were.
    ///
    /// # Errors
    /// As [`Source::read`].
    fn skip(&mut self, frames: u64) -> Result<u64> {
        let mut scrap = FrameBuf::new(self.shape(), 1);
        let mut skipped = 0;
        while skipped < frames {
            scrap.clear();
            if self.read(&mut scrap)? == 0 {
                break;
            }
            skipped += 1;
        }
        Ok(skipped)
    }

    /// What was wrong with the frames given so far, though not wrong enough to stop.
    fn health(&self) -> Health {
        Health::default()
    }
}

/// What a source found amiss on its way.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Health {
    /// Frames missing between the first and the last one given: their numbers were never seen.
    pub gaps: u64,
    /// Frames left out because a port or a module lacks them.
    pub incomplete_frames: u64,
    /// Frames left out because their number was not above that of the frame before them.
    pub repeated_frames: u64,
    /// Packets that the receiver did not catch.
    pub lost_packets: u64,
    /// Pixels masked because their packet was lost, summed over frames.
    pub lost_pixels: u64,
    /// Pixels masked because they were not in gain 0, summed over frames.
    pub gain_pixels: u64,
    /// Sentences for the user, each once.
    pub warnings: Vec<String>,
}

/// Anything that takes batches of clusters in order.
pub trait Sink: Send {
    /// Takes the clusters of the next frames.
    ///
    /// # Errors
    /// Whatever is wrong with the output, naming the file.
    fn write(&mut self, batch: &Clusters<'_>) -> Result<()>;

    /// Completes the output under its final name. Without this call nothing stands there.
    ///
    /// # Errors
    /// As [`Sink::write`].
    fn finish(&mut self) -> Result<()>;
}
