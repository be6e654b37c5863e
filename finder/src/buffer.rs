//! Frames in memory that a source fills and a finder reads, without a copy in between.

use std::fmt;

use crate::error::Result;
use crate::frames::{Frames, LostPixels, Numbers, Shape};
use crate::mask::PixelMask;

/// Memory for pixels. A backend may hand out its own kind (page-locked, say), see
/// [`Finder::frame_buffer`](crate::Finder::frame_buffer).
pub trait PixelMemory: Send + Sync {
    /// The pixels.
    fn pixels(&self) -> &[u16];
    /// The pixels, to be filled.
    fn pixels_mut(&mut self) -> &mut [u16];
}

impl PixelMemory for Vec<u16> {
    fn pixels(&self) -> &[u16] {
        self
    }
    fn pixels_mut(&mut self) -> &mut [u16] {
        self
    }
}

/// Whoever keeps frames alive while a finder reads them.
pub trait FrameOwner: Send + Sync {
    /// The frames.
    fn frames(&self) -> Frames<'_>;
}

/// A buffer for a batch of frames with their numbers and lost pixels; filled by a source, read by a finder,
/// used again.
pub struct FrameBuf {
    memory: Box<dyn PixelMemory>,
    shape: Shape,
    numbers: Vec<u64>,
    lost: Vec<LostPixels>,
}

impl FrameBuf {
    /// A buffer in ordinary memory for up to `capacity` frames.
    pub fn new(shape: Shape, capacity: usize) -> Self {
        Self::in_memory(shape, Box::new(vec![0u16; shape.pixels() * capacity]))
    }

    /// A buffer in the given memory; it holds as many frames as fit.
    pub fn in_memory(shape: Shape, memory: Box<dyn PixelMemory>) -> Self {
        let capacity = memory.pixels().len() / shape.pixels();
        FrameBuf { memory, shape, numbers: Vec::with_capacity(capacity), lost: Vec::new() }
    }

    /// Rows and columns of a frame.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// Frames that fit.
    pub fn capacity(&self) -> usize {
        self.memory.pixels().len() / self.shape.pixels()
    }

    /// Frames in the buffer.
    pub fn len(&self) -> usize {
        self.numbers.len()
    }

    /// Whether there is no frame in the buffer.
    pub fn is_empty(&self) -> bool {
        self.numbers.is_empty()
    }

    /// Whether no further frame fits.
    pub fn is_full(&self) -> bool {
        self.len() == self.capacity()
    }

    /// The numbers of the frames in the buffer, to be changed by a source that renumbers.
    pub fn numbers_mut(&mut self) -> &mut [u64] {
        &mut self.numbers
    }

    /// Empties the buffer.
    pub fn clear(&mut self) {
        self.numbers.clear();
        self.lost.clear();
    }

    /// Appends a frame: `fill` writes its pixels (which hold old values before) and may return the pixels it
    /// lost. Nothing is appended when `fill` fails.
    ///
    /// # Panics
    /// When the buffer is full.
    pub fn push(
        &mut self,
        number: u64,
        fill: impl FnOnce(&mut [u16]) -> Result<Option<PixelMask>>,
    ) -> Result<()> {
        assert!(!self.is_full(), "no room in a buffer of {} frames", self.capacity());
        let k = self.len();
        let n = self.shape.pixels();
        let lost = fill(&mut self.memory.pixels_mut()[k * n..][..n])?;
        if let Some(mask) = lost
            && !mask.is_empty()
        {
            assert_eq!(mask.shape(), self.shape, "lost pixels of another shape");
            self.lost.push(LostPixels { frame: k, mask });
        }
        self.numbers.push(number);
        Ok(())
    }

    /// Appends `numbers.len()` frames at once: `fill` writes all their pixels (a parallel source splits them by
    /// itself) and returns the lost pixels, `frame` counted from the first of the new ones, ascending.
    ///
    /// # Panics
    /// When they do not fit, or the lost pixels are out of order.
    pub fn extend(
        &mut self,
        numbers: &[u64],
        fill: impl FnOnce(&mut [u16]) -> Result<Vec<LostPixels>>,
    ) -> Result<()> {
        let k = self.len();
        assert!(k + numbers.len() <= self.capacity(), "no room for {} frames", numbers.len());
        let n = self.shape.pixels();
        let lost = fill(&mut self.memory.pixels_mut()[k * n..][..numbers.len() * n])?;
        for l in lost {
            assert!(self.lost.last().is_none_or(|p| p.frame < k + l.frame), "lost pixels out of order");
            self.lost.push(LostPixels { frame: k + l.frame, mask: l.mask });
        }
        self.numbers.extend_from_slice(numbers);
        Ok(())
    }
}

impl FrameOwner for FrameBuf {
    fn frames(&self) -> Frames<'_> {
        let pixels = &self.memory.pixels()[..self.len() * self.shape.pixels()];
        Frames::new(pixels, self.shape)
            .and_then(|f| f.with_numbers(Numbers::List(&self.numbers)))
            .and_then(|f| f.with_lost(&self.lost))
            .expect("a buffer keeps its frames whole")
    }
}

impl fmt::Debug for FrameBuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FrameBuf({} of {} frames of {})", self.len(), self.capacity(), self.shape)
    }
}
