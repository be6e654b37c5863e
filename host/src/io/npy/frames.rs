//! Frames from a `.npy` file.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rayon::prelude::*;
use scheidegg_finder::{Error, FrameBuf, Result, Shape};

use super::header::{Dtype, Scalar};
use crate::io::read_at::Blob;
use crate::io::{Health, Skipped, Source};

/// The frames of a `.npy` file of little-endian `u16` in C order: `frames x rows x cols`, or `rows x cols` for one.
/// Frames are numbered from 0.
#[derive(Debug)]
pub struct NpySource {
    path: PathBuf,
    blob: Blob,
    shape: Shape,
    data: u64,
    /// Frames that the header promises.
    promised: u64,
    /// Whole frames that are there.
    frames: u64,
    /// Bytes after the last whole frame.
    rest: u64,
    next: u64,
    numbers: Vec<u64>,
}

impl NpySource {
    /// Opens a file.
    ///
    /// # Errors
    /// [`Error::File`] for another type, order or number of dimensions.
    pub fn open(path: &Path) -> Result<NpySource> {
        let (blob, bytes) = Blob::open(path)?;
        NpySource::of(path, blob, bytes)
    }

    /// The content of a file, in memory: for tests and fuzzing.
    ///
    /// # Errors
    /// As [`NpySource::open`].
    pub fn in_memory(content: &[u8]) -> Result<NpySource> {
        NpySource::of(Path::new("memory.npy"), Blob::Memory(Arc::from(content)), content.len() as u64)
    }

    fn of(path: &Path, blob: Blob, bytes: u64) -> Result<NpySource> {
        let header = super::read_header(&blob, bytes, 0).map_err(|what| Error::file(path, what))?;
        let err = |what: String| Err(Error::file(path, what));
        let wanted = Dtype::One(Scalar::new('u', 2));
        if header.dtype != wanted {
            return err(format!(
                "has elements of type {}, expected {wanted}, raw frames of 16 bits (in numpy: a.astype('<u2'))",
                header.dtype
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
        Ok(NpySource {
            path: path.to_path_buf(),
            blob,
            shape,
            data: header.data,
            promised: frames,
            frames: whole,
            rest: there - whole * frame_bytes,
            next: 0,
            numbers: Vec::new(),
        })
    }

    /// What is wrong with the length of the file, if something is.
    fn fault(&self) -> Option<String> {
        let frame_bytes = self.shape.pixels() as u64 * 2;
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

impl Source for NpySource {
    fn name(&self) -> String {
        self.path.display().to_string()
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
            return match self.fault() {
                Some(what) if room > 0 && self.frames < self.promised => Err(Error::file(&self.path, what)),
                _ => Ok(0),
            };
        }
        let (first, pixels) = (self.next, self.shape.pixels());
        self.numbers.clear();
        self.numbers.extend(first..first + count as u64);
        let (blob, data) = (&self.blob, self.data);
        let read = into.extend(&self.numbers, |memory| {
            let each = |(k, frame): (usize, &mut [u16])| {
                let at = data + (first + k as u64) * pixels as u64 * 2;
                blob.read_exact_at(bytemuck::cast_slice_mut(frame), at)
            };
            memory
                .par_chunks_exact_mut(pixels)
                .enumerate()
                .try_for_each(each)
                .map_err(|e| Error::io(&self.path, e))?;
            Ok(Vec::new())
        });
        read?;
        self.next += count as u64;
        Ok(count)
    }

    fn skip(&mut self, frames: u64) -> Result<Skipped> {
        let skipped = frames.min(self.frames - self.next);
        let numbers = self.next..self.next + skipped;
        self.next += skipped;
        match self.fault() {
            Some(what) if skipped == 0 && frames > 0 && self.frames < self.promised => {
                Err(Error::file(&self.path, what))
            }
            _ => Ok(Skipped::range(numbers)),
        }
    }

    fn health(&self) -> Health {
        let warnings = self.fault().map(|what| format!("{}: {what}", self.path.display()));
        Health { warnings: warnings.into_iter().collect(), ..Health::default() }
    }
}
