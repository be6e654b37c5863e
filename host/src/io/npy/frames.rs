//! Frames from a `.npy` file.

use std::path::Path;

use scheidegg_finder::{Error, FrameBuf, Result, Shape};

use super::header::{Dtype, Scalar};
use crate::io::decoding::{self, Tally};
use crate::io::raw::{Found, Gain, Rule, decode_rows};
use crate::io::read_at::Lazy;
use crate::io::{Health, Skipped, Source};

/// The frames of a `.npy` file of little-endian `u16` in C order: `frames x rows x cols`, or `rows x cols` for one,
/// decoded like raw files are. Frames are numbered from 0. The file is open only while it is read.
#[derive(Debug)]
pub struct NpySource {
    file: Lazy,
    shape: Shape,
    gain: Gain,
    keep_going: bool,
    data: u64,
    /// Frames that the header promises.
    promised: u64,
    /// Whole frames that are there.
    whole: u64,
    /// Frames that are given.
    frames: u64,
    /// Bytes after the last whole frame.
    rest: u64,
    next: u64,
    numbers: Vec<u64>,
    tally: Tally,
}

impl NpySource {
    /// Opens a file whose words have gain bits on top, as the detectors write them. Pixels that are not in gain 0 are
    /// masked; see [`NpySource::gain`].
    ///
    /// # Errors
    /// [`Error::File`] for another type, order or number of dimensions.
    pub fn open(path: &Path) -> Result<NpySource> {
        NpySource::of(Lazy::closed(path))
    }

    /// The content of a file, in memory: for tests and fuzzing.
    ///
    /// # Errors
    /// As [`NpySource::open`].
    pub fn in_memory(content: &[u8]) -> Result<NpySource> {
        NpySource::of(Lazy::memory("memory.npy", content))
    }

    /// What becomes of pixels that are not in gain 0.
    pub fn gain(mut self, gain: Gain) -> NpySource {
        self.gain = gain;
        self
    }

    /// Whether a file that is cut is read as far as it is there: what is missing of a frame is masked, frames behind it are
    /// counted as missing.
    pub fn keep_going(mut self, keep_going: bool) -> NpySource {
        self.keep_going = keep_going;
        if keep_going && self.frames < self.promised && self.rest > 1 {
            self.frames += 1;
        }
        self
    }

    fn of(mut file: Lazy) -> Result<NpySource> {
        let blob = file.open()?;
        let path = file.path();
        let bytes = blob.bytes().map_err(|e| Error::io(path, e))?;
        let header = super::read_header(&blob, bytes, 0).map_err(|what| Error::file(path, what))?;
        let err = |what: String| Err(Error::file(path, what));
        let wanted = Dtype::One(Scalar::new('u', 2));
        if header.dtype != wanted {
            return err(format!(
                "has elements of type {}, expected {wanted}, raw frames of 16 bits (in numpy: {})",
                header.dtype,
                way_to_u16(&header.dtype)
            ));
        }
        let (frames, rows, cols) = match header.shape.as_slice() {
            &[frames, rows, cols] => (frames, rows, cols),
            &[rows, cols] => (1, rows, cols),
            other => {
                return err(format!(
                    "has shape {other:?}, expected (frames, rows, cols), or (rows, cols) for one frame"
                ));
            }
        };
        // A single column or row is the same in both orders.
        if header.fortran_order && header.shape.iter().filter(|n| **n > 1).count() > 1 {
            return err("is in Fortran order, expected C order (in numpy: np.ascontiguousarray(a))".into());
        }
        let side = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
        let shape = Shape::new(side(rows), side(cols)).map_err(|e| Error::file(path, e.to_string()))?;
        let there = bytes - header.data;
        let frame_bytes = shape.pixels() as u64 * 2;
        let whole = (there / frame_bytes).min(frames);
        file.close();
        Ok(NpySource {
            file,
            shape,
            gain: Gain::default(),
            keep_going: false,
            data: header.data,
            promised: frames,
            whole,
            frames: whole,
            rest: there - whole * frame_bytes,
            next: 0,
            numbers: Vec::new(),
            tally: Tally::default(),
        })
    }

    /// Whether frames that were promised are missing and that is an error.
    fn is_fault(&self) -> bool {
        self.frames < self.promised && !self.keep_going
    }

    /// What is wrong with the length of the file, if something is.
    fn fault(&self) -> Option<String> {
        let frame_bytes = self.shape.pixels() as u64 * 2;
        if self.keep_going && self.whole < self.promised {
            return Some(format!(
                "ends inside frame {}: {} of its {frame_bytes} bytes are there, of {} frames that the header promises",
                self.whole, self.rest, self.promised
            ));
        }
        if self.frames < self.promised {
            return Some(format!(
                "ends inside frame {}: {} of its {frame_bytes} bytes were found; the header promises {} frames, the {} \
                 before it are whole (read those only, or bring the whole file)",
                self.frames, self.rest, self.promised, self.frames
            ));
        }
        (self.rest > 0)
            .then(|| format!("has {} bytes behind the last of its {} frames", self.rest, self.promised))
    }
}

/// How numpy makes raw frames of other values without one that does not fit turning into another.
fn way_to_u16(dtype: &Dtype) -> &'static str {
    match dtype {
        Dtype::One(Scalar { kind: 'u', size: 1 | 2, .. } | Scalar { kind: 'b', .. }) => "a.astype('<u2')",
        Dtype::One(Scalar { kind: 'u' | 'i', .. }) => "a.clip(0, 65535).astype('<u2')",
        Dtype::One(Scalar { kind: 'f', .. }) => {
            "np.rint(a).clip(0, 65535).astype('<u2'), without the pedestal subtracted"
        }
        _ => "a['the frames'].astype('<u2')",
    }
}

impl Source for NpySource {
    fn name(&self) -> String {
        self.file.path().display().to_string()
    }

    fn shape(&self) -> Shape {
        self.shape
    }

    fn remaining(&self) -> Option<u64> {
        Some(self.frames - self.next)
    }

    fn read(&mut self, into: &mut FrameBuf) -> Result<usize> {
        Error::check_shape(&self.name(), self.shape, into.shape())?;
        let room = into.capacity() - into.len();
        let count = usize::try_from(self.frames - self.next).map_or(room, |left| left.min(room));
        if count == 0 {
            if room > 0 {
                self.file.close();
            }
            return match self.fault() {
                Some(what) if room > 0 && self.is_fault() => Err(Error::file(self.file.path(), what)),
                _ => Ok(0),
            };
        }
        let (first, shape, data) = (self.next, self.shape, self.data);
        self.numbers.clear();
        self.numbers.extend(first..first + count as u64);
        let blob = self.file.open()?;
        let (path, frame_bytes) = (self.file.path(), shape.pixels() as u64 * 2);
        // Nothing in the file tells of lost packets.
        let rule = Rule { gain: self.gain, ones_are_lost: true };
        let keep_going = self.keep_going;
        let outcome = decoding::read_frames(into, &self.numbers, &mut self.tally, |k, frame| {
            let number = first + k as u64;
            let at = data + number * frame_bytes;
            let mut cut = Found::default();
            let bytes: &mut [u8] = bytemuck::cast_slice_mut(frame);
            if let Err(e) = blob.read_exact_at(bytes, at) {
                let there = blob.bytes().unwrap_or(0).saturating_sub(at).min(frame_bytes) as usize;
                if !keep_going
                    || there as u64 == frame_bytes
                    || blob.read_exact_at(&mut bytes[..there], at).is_err()
                {
                    return Err(blob.read_failed(path, e, &format!("frame {number}"), at + frame_bytes));
                }
                frame[there / 2..].fill(0);
                cut.cut = true;
                (there / 2..shape.pixels()).for_each(|i| cut.mask(shape).insert_index(i));
            }
            Ok(decode_rows(frame, shape, rule, cut))
        });
        self.next += outcome.0 as u64;
        if self.next == self.frames {
            self.file.close();
        }
        decoding::outcome(outcome)
    }

    fn skip(&mut self, frames: u64) -> Result<Skipped> {
        let skipped = frames.min(self.frames - self.next);
        let numbers = self.next..self.next + skipped;
        self.next += skipped;
        match self.fault() {
            Some(what) if skipped == 0 && frames > 0 && self.is_fault() => {
                Err(Error::file(self.file.path(), what))
            }
            _ => Ok(Skipped::range(numbers)),
        }
    }

    fn health(&self) -> Health {
        let name = self.name();
        let mut health = Health::default();
        health.warnings.extend(self.fault().map(|what| format!("{name}: {what}")));
        if self.keep_going {
            health.incomplete_frames = self.promised - self.frames;
            health.damaged_files = u64::from(self.whole < self.promised);
        }
        self.tally.report(&mut health, &name, self.shape.pixels(), false, false);
        health
    }
}
