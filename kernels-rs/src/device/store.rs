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

    let records = Records {
        b,
        a,
        window,
        list: t.at_lists(w) + (f & 1) * t.list_len() * 2,
        kept: if found < a.cap_tile { found } else { a.cap_tile },
        first: slot * a.cap_tile as u64,
        tile: judged,
    };
    // The same code twice, so that no word of a record asks for the payload's size.
    let cut = if a.job.value_bytes() == 2 {
        records.write::<2>(thread, threads)
    } else {
        records.write::<1>(thread, threads)
    };
    if cut != 0 {
        // SAFETY: one counter a chunk.
        unsafe { b.global_add(a.saturated, cut as u64) };
    }
}

/// The records of a tile and frame.
struct Records<'a, B, P> {
    b: B,
    a: &'a FrameArgs<P>,
    window: Window,
    /// Where the list begins in shared memory.
    list: u32,
    /// Those there is room for.
    kept: u32,
    /// The first one's place in the staging.
    first: u64,
    tile: Judged,
}

impl<B: Block, P> Records<'_, B, P> {
    /// Writes every `threads`-th word of 4 bytes, which hold `PER` values; how many values were cut to fit.
    #[inline(always)]
    fn write<const PER: u32>(&self, thread: u32, threads: u32) -> u32 {
        let (b, a, t, window) = (self.b, self.a, &self.a.tiling, self.window);
        let values = window.w * window.h;
        let words = 1 + over(values + PER - 1, PER);
        let (mut cut, mut i) = (0, thread);
        while i < self.kept * words {
            let (n, word) = (over(i, words), modulo(i, words));
            let at = b.shared_u16(self.list + n * 2) as u32;
            let (row, col) = (at >> t.column_bits(), at & ((1 << t.column_bits()) - 1));
            let mut v = (col + self.tile.col0) | (row + self.tile.row0) << 16;
            if word > 0 {
                let k = (word - 1) * PER;
                let (r, c) = (over(k, window.w), modulo(k, window.w));
                // Row 0 of a plane lies the window's reach above row 0 of the halo, which is `frames` times it.
                let (row, col) = (row + t.frames * window.up(), col + t.frames * window.left());
                let from =
                    self.tile.plane + ((row + r) * t.pitch() + t.margin() + col + c - window.left()) * 4;
                v = self.encode(b.shared_f32(from), &mut cut);
                if PER == 2 && k + 1 < values {
                    let next =
                        if c + 1 < window.w { from + 4 } else { from + (t.pitch() + 1 - window.w) * 4 };
                    v |= self.encode(b.shared_f32(next), &mut cut) << 16;
                }
            }
            let to = (self.first + n as u64) * a.job.staged_bytes() as u64 + word as u64 * 4;
            // SAFETY: a word of a record that there is room for; records are whole words, aligned to 4.
            unsafe { b.store_u32(a.staging.add(to as usize).cast(), v) };
            i += threads;
        }
        cut
    }

    /// The bits of a value in the payload; counts it if it had to be cut.
    #[inline(always)]
    fn encode(&self, d: f32, cut: &mut u32) -> u32 {
        match self.a.job.payload {
            payload::I16 => {
                let (v, c) = physics::round_to_i16(d);
                *cut += c as u32;
                v as u16 as u32
            }
            payload::F16 => half_bits(d) as u32,
            payload::F32 => d.to_bits(),
            _ => physics::round_half_away(d) as u32,
        }
    }
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
