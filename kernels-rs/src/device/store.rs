//! Stored clusters: from a pixel that was found to a staged record.

use super::abi::{FrameArgs, payload};
use super::block::Block;
use super::tiling::{Window, modulo, over};
use crate::physics;

/// Empties lists and bitmaps before the first frame.
#[inline(always)]
pub(super) fn clear<B: Block, P>(b: B, a: &FrameArgs<P>, thread: u32) {
    let (t, w) = (&a.tiling, a.job.window);
    let mut i = thread;
    while i < 2 * t.tile_h * t.row_words() {
        b.set_shared_u32(t.at_bitmaps(w) + i * 4, 0);
        i += b.threads();
    }
    clear_count(b, a, thread, 0);
}

/// Empties the list of frame `f`.
#[inline(always)]
pub(super) fn clear_count<B: Block, P>(b: B, a: &FrameArgs<P>, thread: u32, f: u32) {
    if thread == 0 {
        b.set_shared_u32(a.tiling.at_counts(a.job.window) + f % 3 * 4, 0);
    }
}

/// Puts a pixel on the list of frame `f`: row and column in the tile.
#[inline(always)]
pub(super) fn remember<B: Block, P>(b: B, a: &FrameArgs<P>, f: u32, row: u32, col: u32) {
    let (t, w) = (&a.tiling, a.job.window);
    let i = b.shared_add(t.at_counts(w) + f % 3 * 4, 1);
    // The list has an entry for every pixel of the tile.
    let at = row << t.column_bits() | col;
    b.set_shared_u16(t.at_lists(w) + ((f & 1) * t.list_len() + i) * 2, at as u16);
    let word = ((f & 1) * t.tile_h + row) * t.row_words() + col / 32;
    b.shared_or(t.at_bitmaps(w) + word * 4, 1 << (col % 32));
}

/// A tile of a frame that has been judged.
#[derive(Clone, Copy)]
pub(super) struct Judged {
    /// The frame in the launch, and in the chunk.
    pub f: u32,
    /// See above.
    pub frame: u32,
    /// The tile: its index, its place among those side by side, its first row and column.
    pub tile: u32,
    pub tile_x: u32,
    pub row0: u32,
    pub col0: u32,
    /// Where its corrected values begin in shared memory.
    pub plane: u32,
}

/// Writes the clusters of a tile out of shared memory: count, bitmap (emptied for the frame after the next) and
/// records, shared evenly among `threads` threads.
#[inline(always)]
pub(super) fn write<B: Block, P>(
    b: B,
    a: &FrameArgs<P>,
    window: Window,
    (thread, threads): (u32, u32),
    judged: Judged,
) {
    let Judged { f, frame, tile, tile_x, row0, col0, plane } = judged;
    let (t, w) = (&a.tiling, a.job.window);
    let found = b.shared_u32(t.at_counts(w) + f % 3 * 4);
    let slot = frame as u64 * t.tiles() as u64 + tile as u64;
    if thread == 0 {
        // SAFETY: one count for every frame of the chunk and tile.
        unsafe { b.store_u32(a.counts.add(slot as usize), found) };
    }

    let words = t.row_words();
    let mut i = thread;
    while i < t.tile_h {
        let mut at = t.at_bitmaps(w) + ((f & 1) * t.tile_h + i) * words * 4;
        let mut to = frame as u64 * t.bitmap_words(a.job.rows)
            + ((row0 + i) as u64 * t.tiles_x as u64 + tile_x as u64) * words as u64;
        let end = at + words * 4;
        while at < end {
            if row0 + i < a.job.rows {
                // SAFETY: a word for every row of the frame and tile.
                unsafe { b.store_u32(a.bitmaps.add(to as usize), b.shared_u32(at)) };
            }
            b.set_shared_u32(at, 0);
            at += 4;
            to += 1;
        }
        i += threads;
    }

    let kept = if found < a.cap_tile { found } else { a.cap_tile };
    let parts = window.w * window.h + 1;
    let (mut cut, mut i) = (0u32, thread);
    while i < kept * parts {
        let (n, part) = (over(i, parts), modulo(i, parts));
        let at = b.shared_u16(t.at_lists(w) + ((f & 1) * t.list_len() + n) * 2) as u32;
        let (row, col) = (at >> t.column_bits(), at & ((1 << t.column_bits()) - 1));
        let to = (slot * a.cap_tile as u64 + n as u64) * a.job.staged_bytes() as u64;
        // SAFETY: record `n` is below the room of a tile.
        let to = unsafe { a.staging.add(to as usize) };
        if part == 0 {
            // SAFETY: the first 4 bytes of a record, which is aligned to 4.
            unsafe { b.store_u32(to.cast(), (col + col0) | (row + row0) << 16) };
        } else {
            let (r, c) = (over(part - 1, window.w), modulo(part - 1, window.w));
            // Row 0 of a plane lies the window's reach above row 0 of the halo, which is `frames` times it.
            let (row, col) = (row + t.frames * window.up(), col + t.frames * window.left());
            let from = plane + ((row + r) * t.pitch() + t.margin() + col + c - window.left()) * 4;
            // SAFETY: value `part - 1` of a record.
            cut += unsafe { put(b, a.job.payload, b.shared_f32(from), to, part - 1) } as u32;
        }
        i += threads;
    }
    if cut != 0 {
        // SAFETY: one counter a chunk.
        unsafe { b.global_add(a.saturated, cut as u64) };
    }
}

/// Writes value `i` of the record at `record` in its payload; whether it had to be cut.
///
/// # Safety
/// The record has that value.
#[inline(always)]
unsafe fn put<B: Block>(b: B, kind: u32, d: f32, record: *mut u8, i: u32) -> bool {
    // SAFETY: the caller's promise, here and below; values lie behind 4 bytes of coordinates.
    let (two, four) = unsafe { (record.add(4 + 2 * i as usize).cast(), record.add(4).cast::<u32>()) };
    match kind {
        payload::I16 => {
            let (v, cut) = physics::round_to_i16(d);
            // SAFETY: as above.
            unsafe { b.store_u16(two, v as u16) };
            return cut;
        }
        // SAFETY: as above.
        payload::F16 => unsafe { b.store_u16(two, half_bits(d)) },
        // SAFETY: as above.
        payload::F32 => unsafe { b.store_u32(four.add(i as usize), d.to_bits()) },
        // SAFETY: as above.
        _ => unsafe { b.store_u32(four.add(i as usize), physics::round_half_away(d) as u32) },
    }
    false
}

/// The bits of the half-precision value nearest to `d`, ties to even (what `half::f16::from_f32` gives); `d` is not
/// NaN.
#[inline(always)]
pub const fn half_bits(d: f32) -> u16 {
    let bits = d.to_bits();
    let (sign, magnitude) = ((bits >> 16 & 0x8000) as u16, bits & 0x7fff_ffff);
    // 65520 and above round to infinity.
    if magnitude >= 0x477f_f000 {
        return sign | 0x7c00;
    }
    // Below 2^-14 a half is subnormal, a multiple of 2^-24.
    if magnitude < 0x3880_0000 {
        let shift = 126 - (magnitude >> 23);
        if shift > 25 {
            return sign;
        }
        let mantissa = magnitude & 0x7f_ffff | 0x80_0000;
        let (whole, rest, half) = (mantissa >> shift, mantissa & ((1 << shift) - 1), 1 << (shift - 1));
        let up = rest > half || (rest == half && whole & 1 == 1);
        return sign | (whole + up as u32) as u16;
    }
    // The exponent's bias goes from 127 to 15, the mantissa from 23 bits to 10; a carry runs into the exponent.
    let rebased = magnitude - (112 << 23);
    let (whole, rest) = (rebased >> 13, rebased & 0x1fff);
    let up = rest > 0x1000 || (rest == 0x1000 && whole & 1 == 1);
    sign | (whole + up as u32) as u16
}
