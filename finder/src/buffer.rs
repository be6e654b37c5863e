//! Frames in memory that a source fills and a finder reads, without a copy in between.

use std::fmt;

use crate::error::{Error, Result};
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

/// What a source knows of a frame beside its pixels. What it does not know is `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FrameNote {
    /// The number that the accelerator gave to the bunch, or whatever else the facility counts there.
    pub bunch_id: Option<u64>,
    /// The detector's time stamp, in its own units.
    pub timestamp: Option<u64>,
    /// Packets of the frame that the receiver did not catch.
    pub lost_packets: Option<u32>,
    /// Storage cell that the frame was taken in.
    pub storage_cell: Option<u32>,
}

/// A buffer for a batch of frames with their numbers, lost pixels and, where the source knows them, notes; filled by a
/// source, read by a finder, used again.
pub struct FrameBuf {
    memory: Box<dyn PixelMemory>,
    shape: Shape,
    /// Frames that are let in at most.
    limit: usize,
    numbers: Vec<u64>,
    lost: Vec<LostPixels>,
    /// Of the first frames; those after them have none.
    notes: Vec<FrameNote>,
}

impl FrameBuf {
    /// A buffer in ordinary memory for up to `capacity` frames.
    ///
    /// # Panics
    /// Where [`FrameBuf::try_new`] returns an error.
    pub fn new(shape: Shape, capacity: usize) -> Self {
        Self::try_new(shape, capacity).unwrap_or_else(|e| panic!("{e}"))
    }

    /// A buffer in ordinary memory for up to `capacity` frames.
    ///
    /// # Errors
    /// [`Error::Param`] when the shape cannot be or there is no memory for so many frames.
    pub fn try_new(shape: Shape, capacity: usize) -> Result<Self> {
        let shape = Shape::new(shape.rows, shape.cols)?;
        let pixels = shape.pixels().saturating_mul(capacity);
        // Asked for and let go: the memory itself comes zeroed, without being touched.
        let room = Vec::<u16>::new().try_reserve_exact(pixels);
        room.map_err(|_| {
            Error::param(
                "frames of a buffer",
                capacity,
                format!("fewer of {shape}, there is no memory for these"),
            )
        })?;
        Ok(Self::in_memory(shape, Box::new(vec![0u16; pixels])))
    }

    /// A buffer in the given memory; it holds as many frames as fit.
    pub fn in_memory(shape: Shape, memory: Box<dyn PixelMemory>) -> Self {
        let capacity = memory.pixels().len() / shape.pixels();
        FrameBuf {
            memory,
            shape,
            limit: capacity,
            numbers: Vec::with_capacity(capacity),
            lost: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// Rows and columns of a frame.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// Frames that fit, or are let in where that is [fewer](FrameBuf::limit).
    pub fn capacity(&self) -> usize {
        (self.memory.pixels().len() / self.shape.pixels()).min(self.limit)
    }

    /// Lets at most `frames` frames in from now on, or as many as fit, so that a source reads no frame too many.
    ///
    /// # Panics
    /// When the buffer holds more than that already.
    pub fn limit(&mut self, frames: usize) {
        assert!(self.len() <= frames, "{} frames are in a buffer for {frames}", self.len());
        self.limit = frames;
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
        self.len() >= self.capacity()
    }

    /// The numbers of the frames in the buffer.
    pub fn numbers(&self) -> &[u64] {
        &self.numbers
    }

    /// The numbers of the frames in the buffer, to be changed by a source that renumbers.
    pub fn numbers_mut(&mut self) -> &mut [u64] {
        &mut self.numbers
    }

    /// What the source knows of the frames: one note a frame, or fewer where the last frames have none.
    pub fn notes(&self) -> &[FrameNote] {
        &self.notes
    }

    /// Notes what is known of frame `k` of the buffer. A source that never does this pays nothing for it.
    ///
    /// # Panics
    /// When there is no such frame.
    pub fn note(&mut self, k: usize, note: FrameNote) {
        assert!(k < self.len(), "a note on frame {k} of {}", self.len());
        if self.notes.len() <= k {
            self.notes.resize(k + 1, FrameNote::default());
        }
        self.notes[k] = note;
    }

    /// Empties the buffer. What limits it stays.
    pub fn clear(&mut self) {
        self.numbers.clear();
        self.lost.clear();
        self.notes.clear();
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
        let in_order = lost.windows(2).all(|w| w[0].frame < w[1].frame);
        assert!(in_order && lost.last().is_none_or(|l| l.frame < numbers.len()), "lost pixels out of order");
        self.lost.extend(lost.into_iter().map(|l| LostPixels { frame: k + l.frame, mask: l.mask }));
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
