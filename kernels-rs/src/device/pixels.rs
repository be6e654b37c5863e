//! What the kernels that find clusters read of a frame: the pixels of a strip, and which of them take part.

use super::abi::{FrameArgs, NO_LOST};
use super::block::Block;
use super::tiling::{STRIP, over};
use super::unroll::each_pixel;

/// The pixels of a strip, top to bottom.
pub(super) const K: usize = STRIP as usize;

/// The launch's first frame for a row of blocks, in the chunk, and how many frames there are.
#[inline(always)]
pub(super) fn span<P>(a: &FrameArgs<P>, block_row: u32) -> (u32, u32) {
    let first = a.first + block_row;
    // Frames of this lane that are left in the chunk.
    let there = if first < a.end { over(a.end - first + a.step - 1, a.step) } else { 0 };
    (first, if there < a.frames { there } else { a.frames })
}

/// `part` less the pixels in a set; `pixel` is the index in the frame of the strip's first.
///
/// # Safety
/// `set` has a bit for every pixel of a frame; pixels in `part` are inside the frame.
#[inline(always)]
pub(super) unsafe fn without<B: Block, P>(
    b: B,
    a: &FrameArgs<P>,
    set: *const u32,
    part: u32,
    pixel: u32,
) -> u32 {
    let (mut left, mut j) = (part, 0);
    while j < STRIP {
        if part >> j & 1 != 0 {
            let i = pixel.wrapping_add(j.wrapping_mul(a.job.cols));
            // SAFETY: the caller's promise.
            let word = unsafe { b.load_u32(set.add((i / 32) as usize)) };
            left &= !((word >> (i % 32) & 1) << j);
        }
        j += 1;
    }
    left
}

/// Those of the pixels in `part` that were not lost in a frame of the chunk.
#[inline(always)]
pub(super) fn live<B: Block, P>(b: B, a: &FrameArgs<P>, part: u32, pixel: u32, frame: u32) -> u32 {
    if a.lost_slot.is_null() {
        return part;
    }
    // SAFETY: one slot for every frame of the chunk.
    let slot = unsafe { b.load_u32(a.lost_slot.add(frame as usize)) };
    if slot == NO_LOST {
        return part;
    }
    // SAFETY: the host gives slots of sets that it put into `lost_bits`.
    let set = unsafe { a.lost_bits.add((slot as u64 * a.job.mask_words()) as usize) };
    // SAFETY: a whole set; bits are read of pixels in `part`, all inside the frame.
    unsafe { without(b, a, set, part, pixel) }
}

/// Loads the pixels in `wanted`, which are inside the frame, of a frame of the chunk; 0 for the others.
#[inline(always)]
pub(super) fn raw<B: Block, P>(b: B, a: &FrameArgs<P>, wanted: u32, pixel: u32, frame: u32) -> [u16; K] {
    let mut raw = [0; K];
    let at = frame as u64 * a.stride;
    each_pixel!(J {
        let i = pixel.wrapping_add((J as u32).wrapping_mul(a.job.cols));
        let p = a.raw.wrapping_add((at + i as u64) as usize);
        // SAFETY: a pixel that is wanted is inside the frame, and the frame inside the chunk.
        raw[J] = unsafe { b.load_u16_if::<{ J as u32 }>(wanted, p) };
    });
    raw
}
