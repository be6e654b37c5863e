//! The kernels that bring staged clusters into raster order.

use super::abi::{FrameInfo, GatherArgs, Header, SCAN_THREADS};
use super::block::{Block, Team};
use super::tiling::{modulo, over};

/// What a thread of `scan` or `offsets` keeps.
#[derive(Clone, Copy, Default)]
struct Part {
    /// Its own part of the sum, and what comes before it.
    own: u64,
    before: u64,
    /// Its part of another sum and of a maximum.
    counted: u32,
    fullest: u32,
}

/// Shared memory: a 64-bit sum for every thread.
#[inline(always)]
fn sum_at<B: Block>(b: B, thread: u32) -> u64 {
    b.shared_u32(thread * 8) as u64 | (b.shared_u32(thread * 8 + 4) as u64) << 32
}

#[inline(always)]
fn set_sum<B: Block>(b: B, thread: u32, v: u64) {
    b.set_shared_u32(thread * 8, v as u32);
    b.set_shared_u32(thread * 8 + 4, (v >> 32) as u32);
}

/// Sets `before` of every thread to the sum of `own` of the threads before it; the sum of all is left in the last
/// thread's place.
#[inline(always)]
fn sums_before<B: Block>(b: B, team: &mut impl Team<Part>) {
    team.each(|t, s| set_sum(b, t, s.own));
    b.barrier();
    let mut step = 1;
    while step < SCAN_THREADS {
        team.each(|t, s| s.before = if t >= step { sum_at(b, t - step) } else { 0 });
        b.barrier();
        team.each(|t, s| set_sum(b, t, sum_at(b, t) + s.before));
        b.barrier();
        step *= 2;
    }
    team.each(|t, s| s.before = sum_at(b, t) - s.own);
}

/// Leaves the sum of `counted` and the maximum of `fullest` in thread 0's place.
#[inline(always)]
fn reduce<B: Block>(b: B, team: &mut impl Team<Part>) {
    team.each(|t, s| set_sum(b, t, s.counted as u64 | (s.fullest as u64) << 32));
    b.barrier();
    let mut step = SCAN_THREADS / 2;
    while step > 0 {
        team.each(|t, _| {
            if t < step {
                let (x, y) = (sum_at(b, t), sum_at(b, t + step));
                let fullest = if y >> 32 > x >> 32 { y >> 32 } else { x >> 32 };
                set_sum(b, t, (x as u32).wrapping_add(y as u32) as u64 | fullest << 32);
            }
        });
        b.barrier();
        step /= 2;
    }
}

/// The part of `0..n` that belongs to a thread.
#[inline(always)]
fn share(n: u64, thread: u32) -> (u64, u64) {
    let each = n.div_ceil(SCAN_THREADS as u64);
    let (from, to) = (each * thread as u64, each * (thread as u64 + 1));
    (if from < n { from } else { n }, if to < n { to } else { n })
}

/// A block of `scan`: for every word of a frame's bitmap, how many clusters come before it in the frame.
///
/// # Safety
/// Every pointer in `a` is valid for what `abi` says of it; [`SCAN_THREADS`] threads.
#[inline(always)]
pub unsafe fn scan<B: Block>(b: B, a: &GatherArgs) {
    let frame = b.index().0 as u64;
    let (words, tiles) = (a.tiling.bitmap_words(a.job.rows), a.tiling.tiles() as u64);
    let mut team = b.team(Part::default());
    team.each(|t, s| {
        let (mut i, end) = share(words, t);
        while i < end {
            // SAFETY: a word of the frame's bitmap.
            s.own += unsafe { b.load_u32(a.bitmaps.add((frame * words + i) as usize)) }.count_ones() as u64;
            i += 1;
        }
        let mut i = t as u64;
        while i < tiles {
            // SAFETY: a tile of the frame.
            let n = unsafe { b.load_u32(a.counts.add((frame * tiles + i) as usize)) };
            s.counted = s.counted.wrapping_add(n);
            s.fullest = if n > s.fullest { n } else { s.fullest };
            i += SCAN_THREADS as u64;
        }
    });
    sums_before(b, &mut team);
    team.each(|t, s| {
        let (mut i, end) = share(words, t);
        let mut rank = s.before as u32;
        while i < end {
            let at = (frame * words + i) as usize;
            // SAFETY: a word of the frame's bitmap and its rank.
            unsafe {
                b.store_u32(a.ranks.add(at), rank);
                rank += b.load_u32(a.bitmaps.add(at)).count_ones();
            }
            i += 1;
        }
        if t == SCAN_THREADS - 1 {
            // SAFETY: one `FrameInfo` a frame; its first word.
            unsafe { b.store_u32((&raw mut (*a.infos.add(frame as usize)).found).cast(), rank) };
        }
    });
    b.barrier();
    reduce(b, &mut team);
    team.each(|t, _| {
        if t == 0 {
            let sum = sum_at(b, 0);
            // SAFETY: one `FrameInfo` a frame; its other words.
            unsafe {
                let info: *mut FrameInfo = a.infos.add(frame as usize);
                b.store_u32(&raw mut (*info).counted, sum as u32);
                b.store_u32(&raw mut (*info).fullest_tile, (sum >> 32) as u32);
                b.store_u32(&raw mut (*info).reserved, 0);
            }
        }
    });
}

/// The block of `offsets`.
///
/// # Safety
/// Every pointer in `a` is valid for what `abi` says of it; one block of [`SCAN_THREADS`] threads.
#[inline(always)]
pub unsafe fn offsets<B: Block>(b: B, a: &GatherArgs) {
    let mut team = b.team(Part::default());
    let info = |i: u64| a.infos.wrapping_add(i as usize);
    team.each(|t, s| {
        let (mut i, end) = share(a.frames as u64, t);
        while i < end {
            // SAFETY: a frame of the chunk.
            unsafe {
                let found = b.load_u32(&raw const (*info(i)).found);
                let counted = b.load_u32(&raw const (*info(i)).counted);
                let fullest = b.load_u32(&raw const (*info(i)).fullest_tile);
                s.own += found as u64;
                s.counted += (found != counted) as u32;
                s.fullest = if fullest > s.fullest { fullest } else { s.fullest };
            }
            i += 1;
        }
    });
    sums_before(b, &mut team);
    team.each(|t, s| {
        let (mut i, end) = share(a.frames as u64, t);
        let mut at = s.before;
        while i < end {
            // SAFETY: an entry for every frame.
            unsafe {
                b.store_u64(a.offsets.add(i as usize), at);
                at += b.load_u32(&raw const (*info(i)).found) as u64;
            }
            i += 1;
        }
        if t == 0 {
            // From here on the sum of all: `reduce` overwrites it in shared memory.
            s.own = sum_at(b, SCAN_THREADS - 1);
        }
        if t == SCAN_THREADS - 1 {
            // SAFETY: the entry behind the last frame's, and the header.
            unsafe {
                b.store_u64(a.offsets.add(a.frames as usize), at);
                b.store_u64(&raw mut (*a.header).total, at);
            }
        }
    });
    b.barrier();
    reduce(b, &mut team);
    team.each(|t, s| {
        if t == 0 {
            let sum = sum_at(b, 0);
            let fullest = (sum >> 32) as u32;
            let mut flags = 0;
            flags |= if fullest > a.cap_tile { Header::TILE_OVERFLOW } else { 0 };
            flags |= if s.own > a.out_cap { Header::OUT_OVERFLOW } else { 0 };
            flags |= if sum as u32 != 0 { Header::MISMATCH } else { 0 };
            // SAFETY: the header.
            unsafe {
                b.store_u32(&raw mut (*a.header).flags, flags);
                b.store_u32(&raw mut (*a.header).fullest_tile, fullest);
            }
        }
    });
}

/// A block of `place`: the ranks of one tile's staged records of one frame.
///
/// # Safety
/// Every pointer in `a` is valid for what `abi` says of it; one block for every frame and tile.
#[inline(always)]
pub unsafe fn place<B: Block>(b: B, a: &GatherArgs) {
    let (slot, tiles, t) = (b.index().0, a.tiling.tiles(), &a.tiling);
    let (frame, tile) = (over(slot, tiles), modulo(slot, tiles));
    // SAFETY: the header; a count for every frame and tile; an offset for every frame.
    let (flags, found, offset) = unsafe {
        (
            b.load_u32(&raw const (*a.header).flags),
            b.load_u32(a.counts.add(slot as usize)),
            b.load_u64(a.offsets.add(frame as usize)),
        )
    };
    // With any flag the host repeats what went wrong; nothing may be written past a buffer.
    if flags != 0 {
        return;
    }
    let tile_x = modulo(tile, t.tiles_x);
    let mut team = b.team(());
    team.each(|thread, ()| {
        let mut i = thread;
        while i < found {
            let record = slot * a.cap_tile + i;
            // SAFETY: a staged record: without a flag `found` is at most `cap_tile`.
            let xy = unsafe {
                b.load_u32(a.staging.add((record as u64 * a.job.staged_bytes() as u64) as usize).cast())
            };
            let (x, y) = (xy & 0xffff, xy >> 16);
            let col = x - tile_x * t.tile_w;
            let words = t.row_words() as u64;
            let word = frame as u64 * t.bitmap_words(a.job.rows)
                + (y as u64 * t.tiles_x as u64 + tile_x as u64) * words
                + col as u64 / 32;
            // SAFETY: the word of the record's pixel; without a flag its place is below `out_cap`.
            unsafe {
                let before = b.load_u32(a.bitmaps.add(word as usize)) & ((1 << (col % 32)) - 1);
                let rank = b.load_u32(a.ranks.add(word as usize)) + before.count_ones();
                b.store_u32(a.order.add((offset + rank as u64) as usize), record);
            }
            i += b.threads();
        }
    });
}

/// A block of `copy`: the records in order, 16 bytes at a time.
///
/// # Safety
/// Every pointer in `a` is valid for what `abi` says of it.
#[inline(always)]
pub unsafe fn copy<B: Block>(b: B, a: &GatherArgs) {
    // SAFETY: the header.
    let (flags, total) =
        unsafe { (b.load_u32(&raw const (*a.header).flags), b.load_u64(&raw const (*a.header).total)) };
    if flags != 0 {
        return;
    }
    let (bytes, stride) = (a.job.record_bytes(), a.job.staged_bytes());
    let end = total * bytes as u64;
    let mut team = b.team(());
    team.each(|thread, ()| {
        let mut at = (b.index().0 as u64 * b.threads() as u64 + thread as u64) * 16;
        while at < end {
            // The bytes of a record are never 0; checked, because a panic would be code too.
            let mut record = at.checked_div(bytes as u64).unwrap_or(0);
            let mut byte = (at - record * bytes as u64) as u32;
            let mut unit = [0u32; 4];
            // SAFETY: below `end`: a record that has a place.
            let mut from = unsafe { self::record(b, a, record, stride) };
            let (mut i, mut left) = (0, end - at);
            while i < 8 && left > 0 {
                if byte == bytes {
                    (record, byte) = (record + 1, 0);
                    // SAFETY: bytes are left, so the next record has a place.
                    from = unsafe { self::record(b, a, record, stride) };
                }
                // SAFETY: inside the staged record.
                let half = unsafe { b.load_u16(from.add(byte as usize).cast()) } as u32;
                put_half(&mut unit, i, half);
                byte += 2;
                left -= 2;
                i += 1;
            }
            // SAFETY: `out` is as long as its records, rounded up to 16.
            unsafe { b.store_16_bytes(a.out.add(at as usize), unit) };
            at += b.grid() as u64 * b.threads() as u64 * 16;
        }
    });
}

/// The staged record that stands at a place.
///
/// # Safety
/// The place is below the header's total, and `place` has written it.
#[inline(always)]
unsafe fn record<B: Block>(b: B, a: &GatherArgs, place: u64, stride: u32) -> *const u8 {
    // SAFETY: the caller's promise.
    let staged = unsafe { b.load_u32(a.order.add(place as usize)) };
    a.staging.wrapping_add((staged as u64 * stride as u64) as usize)
}

/// Puts half-word `i` of a unit in its place, without indexing memory.
#[inline(always)]
fn put_half(unit: &mut [u32; 4], i: u32, half: u32) {
    let v = half << (i % 2 * 16);
    unit[0] |= if i / 2 == 0 { v } else { 0 };
    unit[1] |= if i / 2 == 1 { v } else { 0 };
    unit[2] |= if i / 2 == 2 { v } else { 0 };
    unit[3] |= if i / 2 == 3 { v } else { 0 };
}
