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
/// records, by one of `threads` threads that share them evenly. `words` is [`Tiling::row_words`].
#[inline(always)]
pub(super) fn write<B: Block, P>(
    b: B,
    a: &FrameArgs<P>,
    window: Window,
    words: u32,
    (thread, threads): (u32, u32),
    judged: Judged,
) {
    let Judged { f, frame, tile, tile_x, row0, .. } = judged;
    let (t, w) = (&a.tiling, a.job.window);
    let found = b.shared_u32(t.at_counts(w) + f % 3 * 4);
    let slot = frame as u64 * t.tiles() as u64 + tile as u64;
    if thread == 0 {
        // SAFETY: one count for every frame of the chunk and tile.
        unsafe { b.store_u32(a.counts.add(slot as usize), found) };
    }

    // The last threads first: the first ones have more to do with records.
    let mut i = threads - 1 - thread;
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
    if a.job.payload == payload::I16 {
        let cut = records.write_i16(thread, threads);
        if cut != 0 {
            // SAFETY: one counter a chunk.
            unsafe { b.global_add(a.saturated, cut as u64) };
        }
    } else {
        records.write(thread, threads);
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
    /// Row and column in the tile of the `n`-th record's pixel.
    #[inline(always)]
    fn pixel(&self, n: u32) -> (u32, u32) {
        let bits = self.a.tiling.column_bits();
        let at = self.b.shared_u16(self.list + n * 2) as u32;
        (at >> bits, at & ((1 << bits) - 1))
    }

    /// The first 4 bytes of the record of a pixel of the tile.
    #[inline(always)]
    fn head(&self, row: u32, col: u32) -> u32 {
        (col + self.tile.col0) | (row + self.tile.row0) << 16
    }

    /// Where value `k` of the record of a pixel of the tile stands in shared memory.
    #[inline(always)]
    fn value(&self, row: u32, col: u32, k: u32) -> u32 {
        let (t, window) = (&self.a.tiling, self.window);
        let (r, c) = (over(k, window.w), modulo(k, window.w));
        // Row 0 of a plane lies the window's reach above row 0 of the halo, which is `frames` times it.
        let (row, col) = (row + t.frames * window.up(), col + t.frames * window.left());
        self.tile.plane + ((row + r) * t.pitch() + t.margin() + col + c - window.left()) * 4
    }

    /// Writes every `threads`-th word of 4 bytes of records of `i16`; how many values were cut to fit.
    #[inline(always)]
    fn write_i16(&self, thread: u32, threads: u32) -> u32 {
        let (b, t, job, w) = (self.b, &self.a.tiling, &self.a.job, self.window);
        let values = w.w * w.h;
        let words = 1 + over(values + 1, 2);
        // SAFETY: the first record that there is room for.
        let records = unsafe { self.a.staging.add((self.first * job.staged_bytes() as u64) as usize) };
        // From a value to the next, where that begins a row.
        let wrap = (t.pitch() + 1 - w.w) * 4;
        let (mut cut, mut i) = (0, thread);
        while i < self.kept * words {
            let (n, word) = (over(i, words), modulo(i, words));
            let (row, col) = self.pixel(n);
            // Without branches, which cost more than two values that are thrown away.
            let k = if word > 0 { 2 * (word - 1) } else { 0 };
            let from = self.value(row, col, k);
            let next = from + if modulo(k, w.w) + 1 < w.w { 4 } else { wrap };
            let two = k + 1 < values;
            let (low, low_cut) = physics::round_to_i16(b.shared_f32(from));
            let (high, high_cut) = physics::round_to_i16(b.shared_f32(if two { next } else { from }));
            let pair = low as u16 as u32 | if two { (high as u32) << 16 } else { 0 };
            cut += (word > 0) as u32 * (low_cut as u32 + (high_cut & two) as u32);
            let v = if word > 0 { pair } else { self.head(row, col) };
            // SAFETY: a word of a record that there is room for; records are whole words, aligned to 4.
            unsafe { b.store_u32(records.add((n * job.staged_bytes() + word * 4) as usize).cast(), v) };
            i += threads;
        }
        cut
    }

    /// Writes every `threads`-th part of records of other payloads, a part being the head or a value.
    #[inline(always)]
    fn write(&self, thread: u32, threads: u32) {
        let (b, job) = (self.b, &self.a.job);
        let parts = self.window.w * self.window.h + 1;
        let mut i = thread;
        while i < self.kept * parts {
            let (n, part) = (over(i, parts), modulo(i, parts));
            let (row, col) = self.pixel(n);
            let byte = if part == 0 { 0 } else { 4 + (part - 1) * job.value_bytes() };
            let at = (self.first + n as u64) * job.staged_bytes() as u64 + byte as u64;
            // SAFETY: inside a record that there is room for.
            let to = unsafe { self.a.staging.add(at as usize) };
            let d = if part == 0 { 0.0 } else { b.shared_f32(self.value(row, col, part - 1)) };
            let word = match job.payload {
                _ if part == 0 => self.head(row, col),
                payload::F16 => half_bits(d) as u32,
                payload::F32 => d.to_bits(),
                _ => physics::round_half_away(d) as u32,
            };
            // SAFETY: the head is 4 bytes, as are values but those of `f16`; all are aligned to their size.
            unsafe {
                match job.payload {
                    payload::F16 if part > 0 => b.store_u16(to.cast(), word as u16),
                    _ => b.store_u32(to.cast(), word),
                }
            }
            i += threads;
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
