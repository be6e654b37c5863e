//! Frames in page-locked memory: memory of our own for a source to fill, and memory of the user's that is locked
//! for as long as it is used.

use std::fmt;
use std::sync::Arc;

use memmap2::Mmap;
use scheidegg_finder::{Error, FrameOwner, Frames, Numbers, PixelMemory, Result, Shape};

use super::driver::Context;
use super::memory::{Listed, PinnedMemory, register};

/// Page-locked memory for pixels, for [`FrameBuf::in_memory`](scheidegg_finder::FrameBuf::in_memory).
pub struct PinnedPixels {
    memory: PinnedMemory,
    len: usize,
}

impl PinnedPixels {
    /// Zeroed pixels in page-locked memory that every GPU of the machine reaches; `device` is the one whose driver
    /// context does it.
    ///
    /// # Errors
    /// [`Error::Unavailable`] without a GPU, [`Error::Other`] when [`pinning_budget`](super::pinning_budget) has not
    /// that much.
    pub fn new(device: usize, pixels: usize) -> Result<Self> {
        Self::in_context(&Context::open(device)?, pixels)
    }

    pub(super) fn in_context(context: &Arc<Context>, pixels: usize) -> Result<Self> {
        let memory = PinnedMemory::new(context, pixels * 2, "a buffer for frames")?;
        Ok(PinnedPixels { memory, len: pixels })
    }
}

impl PixelMemory for PinnedPixels {
    fn pixels(&self) -> &[u16] {
        // SAFETY: no stream ever writes this memory, copies only read it.
        unsafe { self.memory.as_slice(0, self.len) }
    }

    fn pixels_mut(&mut self) -> &mut [u16] {
        // SAFETY: a finder that copies from this memory holds its owner in an `Arc` until the copy is done, so that
        // nobody has it mutably meanwhile; one that only borrows the frames is done before it returns.
        unsafe { self.memory.as_mut_slice(0, self.len) }
    }
}

/// Pixels of the user's that are page-locked while this value lives: frames borrowed from it are read by the GPU
/// where they lie.
pub struct RegisteredSlice<'a> {
    _listed: Listed,
    pixels: &'a [u16],
}

impl<'a> RegisteredSlice<'a> {
    /// Page-locks pixels for `device` and every other GPU.
    ///
    /// # Errors
    /// [`Error::Unavailable`] without a GPU; [`Error::Other`] when
    /// [`pinning_budget`](super::pinning_budget) has not that much; [`Error::Device`] when the driver refuses (memory
    /// that is page-locked already, some mapped files).
    pub fn new(device: usize, pixels: &'a [u16]) -> Result<Self> {
        let context = Context::open(device)?;
        // SAFETY: the pixels are borrowed for longer than this value lives. A finder that still copies from the
        // region after that borrows the same pixels, see `CudaFinder::find`.
        let listed = unsafe { register(&context, pixels, "the frames") }?;
        Ok(RegisteredSlice { _listed: listed, pixels })
    }

    /// The pixels.
    pub fn pixels(&self) -> &'a [u16] {
        self.pixels
    }
}

/// Where registered frames lie.
enum Memory {
    Vec(Vec<u16>),
    Map { map: Mmap, first_byte: usize },
}

impl Memory {
    fn pixels(&self) -> &[u16] {
        match self {
            Memory::Vec(v) => v,
            // Checked when it was made: an even number of bytes from an even address.
            Memory::Map { map, first_byte } => {
                let bytes = &map[*first_byte..];
                bytemuck::cast_slice(&bytes[..bytes.len() / 2 * 2])
            }
        }
    }
}

/// Frames in a vector or a mapped file, page-locked for as long as this value lives: an owner for
/// [`Finder::submit_shared`](scheidegg_finder::Finder::submit_shared) that costs no copy.
pub struct RegisteredFrames {
    // Declared before the memory: unlocked before it is freed.
    _listed: Listed,
    memory: Memory,
    shape: Shape,
    count: usize,
    stride: usize,
    first_number: u64,
}

impl RegisteredFrames {
    /// Dense frames in a vector.
    ///
    /// # Errors
    /// As [`RegisteredSlice::new`], and [`Error::Param`] when the pixels are not a whole number of frames.
    pub fn from_vec(device: usize, pixels: Vec<u16>, shape: Shape) -> Result<Self> {
        let count = Frames::new(&pixels, shape)?.len();
        Self::new(device, Memory::Vec(pixels), shape, count, shape.pixels())
    }

    /// `count` frames in a mapped file, the first at byte `first_byte`, each `stride` pixels after the one before
    /// (a header may lie between them).
    ///
    /// # Errors
    /// As [`RegisteredSlice::new`], and [`Error::Param`] when the file is too short or the first byte is odd.
    pub fn from_map(
        device: usize,
        map: Mmap,
        first_byte: usize,
        shape: Shape,
        count: usize,
        stride: usize,
    ) -> Result<Self> {
        if first_byte > map.len() || !first_byte.is_multiple_of(2) {
            return Err(Error::param(
                "first byte of the frames",
                first_byte,
                format!("an even number, at most {}", map.len()),
            ));
        }
        Self::new(device, Memory::Map { map, first_byte }, shape, count, stride)
    }

    fn new(device: usize, memory: Memory, shape: Shape, count: usize, stride: usize) -> Result<Self> {
        let context = Context::open(device)?;
        let frames = Frames::strided(memory.pixels(), shape, count, stride)?;
        // SAFETY: the memory lives in the value that is returned, at the same address when that is moved, and is
        // dropped after the entry. Finders that copy from the region hold the value itself in an `Arc`.
        let listed = unsafe { register(&context, frames.as_slice(), "the frames") }?;
        Ok(RegisteredFrames { _listed: listed, memory, shape, count, stride, first_number: 0 })
    }

    /// The same frames, numbered from `first` on.
    pub fn numbered_from(self, first: u64) -> Self {
        RegisteredFrames { first_number: first, ..self }
    }
}

impl FrameOwner for RegisteredFrames {
    fn frames(&self) -> Frames<'_> {
        Frames::strided(self.memory.pixels(), self.shape, self.count, self.stride)
            .and_then(|f| f.with_numbers(Numbers::From(self.first_number)))
            .expect("checked when it was made")
    }
}

impl fmt::Debug for RegisteredFrames {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RegisteredFrames({} of {})", self.count, self.shape)
    }
}
