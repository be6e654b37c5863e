//! Where frames come from and where clusters go.
//!
//! One direction: a [`Source`] fills buffers of frames, a finder turns them into batches of clusters, [`Sink`]s
//! take those. Neither knows the other, and neither holds more than a few buffers: files far larger than memory
//! stream through.

pub mod simulate;

use std::path::PathBuf;

use scheidegg_finder::{Error, FrameBuf, Result, Shape};

use crate::provenance::{Input, Provenance};

mod archive;
mod batch;
mod beside;
mod checked;
mod clust;
mod columns;
#[cfg(test)]
mod columns_tests;
mod dat;
mod decoding;
mod facts;
#[cfg(test)]
mod facts_tests;
mod files;
#[cfg(test)]
mod files_tests;
mod frame_table;
mod guess;
mod info;
mod looks;
mod marks;
mod mask;
pub mod npy;
mod npz;
mod origin;
mod output;
mod pedestal;
mod pieces;
pub mod raw;
mod raw_write;
mod read_at;
mod results;
mod rows;
#[cfg(test)]
mod skip_tests;
mod table;

pub use batch::Batch;
pub use beside::provenance_beside;
pub use clust::{ClustReader, ClustSink};
pub use columns::{NpySink, NpzSink};
pub use dat::{DAT_SHAPES, DatSource};
pub use facts::{Facts, Mismatch};
pub use files::{FrameFile, OpenOptions, open_results, open_sink, open_source, open_sources};
pub use frame_table::open_frame_table;
pub use guess::cluster_file_kinds;
pub use info::{Info, info};
pub use mask::{load_mask, save_mask};
pub use npy::{NpyFrames, NpySource, write_image};
pub use output::{Leftover, Output, Place, discard_outputs, leftovers};
pub use pedestal::{load_pedestal, load_pedestal_facts, save_pedestal, save_pedestal_with};
pub use raw::{Board, Gain, Master, RawReading, RawSource};
pub use raw_write::{RawOptions, RawWriter};
pub(crate) use results::Kind;
pub use results::{Checksum, Results};
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

    /// Leaves out the next `frames` frames, or fewer: says how many those were, 0 at the end, and their numbers.
    ///
    /// # Errors
    /// As [`Source::read`], when not a single frame could be left out. Where some could, the error comes with the next
    /// call.
    fn skip(&mut self, frames: u64) -> Result<Skipped> {
        let mut scrap = FrameBuf::new(self.shape(), 1);
        let mut skipped = Skipped::default();
        while skipped.frames < frames {
            scrap.clear();
            match self.read(&mut scrap) {
                Ok(0) => break,
                Ok(_) => skipped.add(scrap.numbers()),
                Err(e) if skipped.frames == 0 => return Err(e),
                Err(_) => break,
            }
        }
        Ok(skipped)
    }

    /// How the frames were taken, as far as it is known.
    fn facts(&self) -> Facts {
        Facts::default()
    }

    /// The files that frames have come from so far, where they are more than the one that [`Source::name`] tells.
    fn inputs(&self) -> Vec<Input> {
        Vec::new()
    }

    /// What was wrong with the frames given so far, though not wrong enough to stop.
    fn health(&self) -> Health {
        Health::default()
    }
}

/// Leaves out the first `frames` frames of a source.
///
/// # Errors
/// As [`Source::skip`]; [`Error::File`] when the source has fewer.
pub fn skip_first(source: &mut dyn Source, frames: u64) -> Result<()> {
    skip_while(source, frames, || true).map(|_| ())
}

/// As [`skip_first`], some frames at a time as long as `on` says so; whether it did to the end.
pub(crate) fn skip_while(source: &mut dyn Source, frames: u64, on: impl Fn() -> bool) -> Result<bool> {
    /// Some milliseconds' worth of frame headers.
    const AT_ONCE: u64 = 4096;
    let mut there = 0;
    while there < frames {
        if !on() {
            return Ok(false);
        }
        match source.skip((frames - there).min(AT_ONCE))?.frames {
            0 => {
                let what = match there {
                    0 => "holds no frames".into(),
                    n => format!("{n} frames, the first one asked for is {frames}: ask for 0 to {}", n - 1),
                };
                return Err(Error::file(source.name(), what));
            }
            n => there += n,
        }
    }
    Ok(true)
}

/// Frames that were left out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Skipped {
    /// How many.
    pub frames: u64,
    /// Number of the first of them.
    pub first: Option<u64>,
    /// Number of the last of them.
    pub last: Option<u64>,
}

impl Skipped {
    /// Frames numbered one after the other.
    pub fn range(numbers: std::ops::Range<u64>) -> Skipped {
        let some = !numbers.is_empty();
        Skipped {
            frames: numbers.end - numbers.start.min(numbers.end),
            first: some.then_some(numbers.start),
            last: some.then(|| numbers.end - 1),
        }
    }

    /// Adds the frames with these numbers.
    pub fn add(&mut self, numbers: &[u64]) {
        self.frames += numbers.len() as u64;
        self.first = self.first.or(numbers.first().copied());
        self.last = numbers.last().copied().or(self.last);
    }
}

/// What a source found amiss on its way.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Health {
    /// Frames missing between the first and the last one given: their numbers were never seen.
    pub gaps: u64,
    /// Frames left out because a port or a module lacks them.
    pub incomplete_frames: u64,
    /// Frames left out because their number had come before, or because they came late and no number was free for them.
    pub repeated_frames: u64,
    /// Packets that the receiver did not catch.
    pub lost_packets: u64,
    /// Pixels masked because their packet was lost, summed over frames.
    pub lost_pixels: u64,
    /// Pixels masked because they were not in gain 0, summed over frames.
    pub gain_pixels: u64,
    /// Files, or subfiles of a run, that were given up at a fault because the rest was wanted all the same.
    pub damaged_files: u64,
    /// Frames in them that were not read, as far as that is known.
    pub unread_frames: u64,
    /// One bit for every storage cell of a JUNGFRAU that frames came from, bit 0 for cell 0. More than one has more than
    /// one pedestal.
    pub storage_cells: u16,
    /// Sentences for the user, each once.
    pub warnings: Vec<String>,
}

impl std::ops::AddAssign for Health {
    fn add_assign(&mut self, other: Health) {
        self.gaps += other.gaps;
        self.incomplete_frames += other.incomplete_frames;
        self.repeated_frames += other.repeated_frames;
        self.lost_packets += other.lost_packets;
        self.lost_pixels += other.lost_pixels;
        self.gain_pixels += other.gain_pixels;
        self.storage_cells |= other.storage_cells;
        self.damaged_files += other.damaged_files;
        self.unread_frames += other.unread_frames;
        for warning in other.warnings {
            if !self.warnings.contains(&warning) {
                self.warnings.push(warning);
            }
        }
    }
}

/// Anything that takes batches of clusters in order.
pub trait Sink: Send {
    /// What the output is called in a message: a file's path, or `report`.
    fn name(&self) -> String;

    /// Takes the clusters of the next frames. After an error nothing more is given; [`Sink::finish`] comes all the same.
    ///
    /// # Errors
    /// Whatever is wrong with the output, naming the file.
    fn write(&mut self, batch: &Batch<'_>) -> Result<()>;

    /// Completes the output under its final name, with what was written before and where it comes from; without this
    /// call nothing stands there. After an error of [`Sink::write`] the provenance tells of the batches before it: the
    /// output ends there, or, where that cannot be, is given up.
    ///
    /// # Errors
    /// As [`Sink::write`].
    fn finish(&mut self, provenance: &Provenance) -> Result<Written>;

    /// Whether a run goes on for this sink's sake when all others have failed. One that only watches says no.
    fn is_needed(&self) -> bool {
        true
    }
}

/// Where an output stands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Written {
    /// Its files, the result before those that belong to it; empty for an output that is no file.
    pub paths: Vec<PathBuf>,
}

impl Written {
    /// An output that is no file.
    pub fn nowhere() -> Written {
        Written::default()
    }

    /// An output that is one file.
    pub fn at(path: impl Into<PathBuf>) -> Written {
        Written { paths: vec![path.into()] }
    }
}
