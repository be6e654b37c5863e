//! JUNGFRAU `.dat` files: per frame 16 bytes (`u64` frame number, `u64` bunch) and an image of `u16` words.

use std::path::{Path, PathBuf};

use rayon::prelude::*;
use scheidegg_finder::{Error, FrameBuf, LostPixels, Result, Shape};

use super::raw::{Found, Gain, Rule, decode_rows};
use super::read_at::Blob;
use super::{Health, Skipped, Source};

const HEADER: u64 = 16;

/// Images that are written to `.dat` files: a module, half of one, a chip.
pub const DAT_SHAPES: [Shape; 3] =
    [Shape { rows: 512, cols: 1024 }, Shape { rows: 256, cols: 1024 }, Shape { rows: 256, cols: 256 }];

/// The frames of a JUNGFRAU `.dat` file, decoded like raw files are.
#[derive(Debug)]
pub struct DatSource {
    path: PathBuf,
    blob: Blob,
    shape: Shape,
    gain: Gain,
    frames: u64,
    /// Bytes after the last whole frame.
    rest: u64,
    next: u64,
    last: Option<u64>,
    health: Health,
    /// The batch that is read: frame numbers, and the places of the frames in the file.
    numbers: Vec<u64>,
    places: Vec<u64>,
}

impl DatSource {
    /// Opens a file. The shape of the image is told by the file's length and frame numbers where none is given.
    ///
    /// # Errors
    /// [`Error::File`] when no shape fits, or more than one.
    pub fn open(path: &Path, shape: Option<Shape>, gain: Gain) -> Result<DatSource> {
        let (blob, bytes) = Blob::open(path)?;
        let shape = match shape {
            Some(shape) => shape,
            None => shape_of(&blob, bytes).map_err(|what| Error::file(path, what))?,
        };
        let stride = stride_of(shape);
        Ok(DatSource {
            path: path.to_path_buf(),
            blob,
            shape,
            gain,
            frames: bytes / stride,
            rest: bytes % stride,
            next: 0,
            last: None,
            health: Health::default(),
            numbers: Vec::new(),
            places: Vec::new(),
        })
    }

    /// Collects the next frames, at most `room`.
    fn plan(&mut self, room: usize) -> Result<()> {
        self.numbers.clear();
        self.places.clear();
        while self.numbers.len() < room && self.next < self.frames {
            let at = self.next * stride_of(self.shape);
            let number = number_at(&self.blob, at).map_err(|e| Error::io(&self.path, e))?;
            self.next += 1;
            match self.last {
                Some(last) if number <= last => {
                    if self.health.repeated_frames == 0 {
                        let what =
                            format!("frame {number} comes after frame {last}: such frames are left out");
                        self.health.warnings.push(format!("{}: {what}", self.path.display()));
                    }
                    self.health.repeated_frames += 1;
                    continue;
                }
                Some(last) => self.health.gaps += number - last - 1,
                None => {}
            }
            self.last = Some(number);
            self.numbers.push(number);
            self.places.push(at + HEADER);
        }
        if self.numbers.is_empty() && room > 0 && self.rest > 0 {
            return Err(Error::file(
                &self.path,
                format!(
                    "ends inside the frame after its {} whole ones: {} of its {} bytes were found (read the whole ones \
                     only, or bring the whole file)",
                    self.frames,
                    self.rest,
                    stride_of(self.shape)
                ),
            ));
        }
        Ok(())
    }
}

fn stride_of(shape: Shape) -> u64 {
    HEADER + shape.pixels() as u64 * 2
}

fn number_at(blob: &Blob, at: u64) -> std::io::Result<u64> {
    let mut number = [0; 8];
    blob.read_exact_at(&mut number, at)?;
    Ok(u64::from_le_bytes(number))
}

/// The shape whose frames fill the file with ascending numbers.
fn shape_of(blob: &Blob, bytes: u64) -> std::result::Result<Shape, String> {
    /// Frame numbers further apart than this are no neighbours.
    const FAR: u64 = 1 << 32;
    let ascending = |shape: Shape| {
        let stride = stride_of(shape);
        let numbers: Vec<_> =
            (0..(bytes / stride).min(4)).map(|k| number_at(blob, k * stride).unwrap_or(u64::MAX)).collect();
        numbers.windows(2).all(|w| w[0] < w[1] && w[1] - w[0] < FAR)
    };
    let fits = |whole: bool| {
        let fits = |s: &Shape| bytes >= stride_of(*s) && (!whole || bytes.is_multiple_of(stride_of(*s)));
        DAT_SHAPES.into_iter().filter(fits).filter(|s| ascending(*s)).collect::<Vec<_>>()
    };
    // A file that was cut fills no shape; its frame numbers still tell, from the second frame on.
    let candidates = Some(fits(true)).filter(|c| !c.is_empty()).unwrap_or_else(|| fits(false));
    match candidates.as_slice() {
        [shape] => Ok(*shape),
        [] => Err(format!(
            "{bytes} bytes are no frames of 16 bytes and 512 x 1024, 256 x 1024 or 256 x 256 pixels with ascending numbers"
        )),
        many => {
            let names: Vec<_> = many.iter().map(Shape::to_string).collect();
            Err(format!("may hold images of {}: say which", names.join(" or ")))
        }
    }
}

impl Source for DatSource {
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
        self.plan(into.capacity() - into.len())?;
        // Nothing in the file tells of lost packets.
        let (shape, rule) = (self.shape, Rule { gain: self.gain, ones_are_lost: true });
        let (mut lost, mut others) = (0, 0);
        into.extend(&self.numbers, |memory| {
            let found: std::io::Result<Vec<Found>> = memory
                .par_chunks_exact_mut(shape.pixels())
                .zip(self.places.par_iter())
                .map(|(frame, at)| {
                    self.blob.read_exact_at(bytemuck::cast_slice_mut(frame), *at)?;
                    Ok(decode_rows(frame, shape, rule))
                })
                .collect();
            let mut masks = Vec::new();
            for (frame, found) in found.map_err(|e| Error::io(&self.path, e))?.into_iter().enumerate() {
                (lost, others) = (lost + found.lost, others + found.gain);
                masks.extend(found.mask.filter(|m| !m.is_empty()).map(|mask| LostPixels { frame, mask }));
            }
            Ok(masks)
        })?;
        self.health.lost_pixels += lost;
        self.health.gain_pixels += others;
        Ok(self.numbers.len())
    }

    fn skip(&mut self, frames: u64) -> Result<Skipped> {
        let mut skipped = Skipped::default();
        while skipped.frames < frames {
            match self.plan(1024.min(frames - skipped.frames) as usize) {
                Ok(()) if self.numbers.is_empty() => break,
                Ok(()) => skipped.add(&self.numbers),
                Err(e) if skipped.frames == 0 => return Err(e),
                Err(_) => break,
            }
        }
        Ok(skipped)
    }

    fn health(&self) -> Health {
        self.health.clone()
    }
}
