//! How a frame is cut into tiles, one a block.

/// Rows of one column that a thread of an entry that finds clusters works on.
pub const STRIP: u32 = 4;
/// Columns of a tile of a `resident_*` entry: those of a warp.
pub const RESIDENT_WIDTH: u32 = 32;
/// Columns left and right of such a tile in shared memory: the largest reach, and rows of groups of four begin at 16
/// bytes.
pub(super) const RESIDENT_MARGIN: u32 = 4;

/// The window around a pixel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Window {
    /// Columns.
    pub w: u32,
    /// Rows.
    pub h: u32,
}

impl Window {
    /// Rows above the centre.
    #[inline(always)]
    pub const fn up(self) -> u32 {
        self.h / 2
    }
    /// Rows below the centre.
    #[inline(always)]
    pub const fn down(self) -> u32 {
        self.h - 1 - self.h / 2
    }
    /// Whether the entry of this window makes row sums and maxima for all pixels before it makes windows of them.
    #[inline(always)]
    pub const fn is_split(self) -> bool {
        self.w == self.h && (self.w == 7 || self.w == 9)
    }
    /// Columns left of the centre.
    #[inline(always)]
    pub const fn left(self) -> u32 {
        self.w / 2
    }
    /// Columns right of the centre.
    #[inline(always)]
    pub const fn right(self) -> u32 {
        self.w - 1 - self.w / 2
    }
}

/// A grid of tiles over a frame.
///
/// A block writes clusters and pedestal of its tile of `tile_w x tile_h` pixels (less at the right and lower
/// edges). It also works on a halo around the tile, `frames` times the window's reach, so that it needs nothing of
/// its neighbours during a launch: after every frame the pixels whose pedestal it knows shrink by the reach. Tile
/// and halo are `load_w` columns and at most `strips *` [`STRIP`] rows; thread `t` has column `t % load_w` of strip
/// `t / load_w`.
///
/// A *resident* tiling ([`Tiling::resident`]) has no more tiles than the GPU has room for at once, and no halo of its
/// own: blocks tell each other the values of the pixels along their edges after every frame, so that a launch may take
/// any number of frames. Behind the threads with strips come `listeners` threads that read what neighbours tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Tiling {
    /// Frames of a launch that the halo is wide enough for; 0 for a resident tiling.
    pub frames: u32,
    /// Columns of a tile.
    pub tile_w: u32,
    /// Rows of a tile.
    pub tile_h: u32,
    /// Tiles side by side.
    pub tiles_x: u32,
    /// Tiles one above the other.
    pub tiles_y: u32,
    /// Columns of tile and halo.
    pub load_w: u32,
    /// Strips of tile and halo.
    pub strips: u32,
    /// Threads that listen to neighbours.
    pub listeners: u32,
    /// Dynamic shared memory of a block.
    pub shared_bytes: u32,
    /// `2^32 / load_w`, rounded up: a thread finds its strip with it ([`quotient`]).
    load_w_magic: u32,
    /// `2^32 / (pitch / 4)`, rounded up.
    groups_magic: u32,
}

impl Tiling {
    /// The most shared memory that a tiling uses: what the smallest chip (sm_75) gives a block.
    pub const MAX_SHARED: u32 = 64 * 1024;

    /// The tiling with tiles of `tile_w x tile_h`, or nothing when it needs more than `threads` threads or too much shared
    /// memory.
    pub const fn exact(
        rows: u32,
        cols: u32,
        window: Window,
        frames: u32,
        tile_w: u32,
        tile_h: u32,
        threads: u32,
    ) -> Option<Tiling> {
        if frames == 0 || tile_w == 0 || tile_h == 0 || frames > 1024 || tile_w > 1024 || tile_h > 8192 {
            return None;
        }
        let load_w = tile_w + frames * (window.w - 1);
        let strips = (tile_h + frames * (window.h - 1)).div_ceil(STRIP);
        if load_w * strips > threads {
            return None;
        }
        let mut t = Tiling {
            frames,
            tile_w,
            tile_h,
            tiles_x: cols.div_ceil(tile_w),
            tiles_y: rows.div_ceil(tile_h),
            load_w,
            strips,
            listeners: 0,
            shared_bytes: 0,
            load_w_magic: magic(load_w),
            groups_magic: 0,
        };
        t.groups_magic = magic(t.pitch() / 4);
        t.shared_bytes = t.at_counts(window) + 3 * 4;
        if t.shared_bytes > Self::MAX_SHARED || t.tiles_x as u64 * t.tiles_y as u64 > 1 << 24 {
            return None;
        }
        Some(t)
    }

    /// The resident tiling with the lowest tiles that are at most `most_tiles`, or nothing when a block would need
    /// more than `threads` threads or too much shared memory. Squares of odd sides up to 9.
    pub const fn resident(
        rows: u32,
        cols: u32,
        window: Window,
        most_tiles: u32,
        threads: u32,
    ) -> Option<Tiling> {
        if window.w != window.h || window.w.is_multiple_of(2) || window.left() > RESIDENT_MARGIN {
            return None;
        }
        let tiles_x = cols.div_ceil(RESIDENT_WIDTH);
        let mut strips = 1;
        loop {
            let tiles_y = rows.div_ceil(strips * STRIP);
            let heard = Self::heard(window, strips * STRIP);
            // Every listener has up to four pixels.
            let listeners = heard.div_ceil(4).next_multiple_of(32);
            if RESIDENT_WIDTH * strips + listeners > threads {
                return None;
            }
            if tiles_x as u64 * tiles_y as u64 > most_tiles as u64 {
                strips += 1;
                continue;
            }
            let mut t = Tiling {
                frames: 0,
                tile_w: RESIDENT_WIDTH,
                tile_h: strips * STRIP,
                tiles_x,
                tiles_y,
                load_w: RESIDENT_WIDTH,
                strips,
                listeners,
                shared_bytes: 0,
                load_w_magic: magic(RESIDENT_WIDTH),
                groups_magic: 0,
            };
            t.shared_bytes = t.at_notes(window) + 2 * 16 * listeners;
            return if t.shared_bytes > Self::MAX_SHARED { None } else { Some(t) };
        }
    }

    /// Pixels around a resident tile of so many rows that the window reaches.
    #[inline(always)]
    pub(super) const fn heard(window: Window, tile_h: u32) -> u32 {
        (RESIDENT_WIDTH + window.w - 1) * (tile_h + window.h - 1) - RESIDENT_WIDTH * tile_h
    }

    /// Whether blocks exchange what they need of each other during a launch.
    #[inline(always)]
    pub const fn is_resident(&self) -> bool {
        self.frames == 0
    }

    /// Frames of a lane that one launch may take.
    pub const fn frames_per_launch(&self) -> u32 {
        if self.is_resident() { u32::MAX } else { self.frames }
    }

    /// The tiling that should be fastest for launches of `frames` frames on a GPU with `sms` multiprocessors, when
    /// `lanes` lanes share a launch; nothing when the halo of so many frames fits no block.
    pub const fn new(
        rows: u32,
        cols: u32,
        window: Window,
        frames: u32,
        sms: u32,
        lanes: u32,
        threads: u32,
    ) -> Option<Tiling> {
        let mut best: Option<Tiling> = None;
        let mut best_cost = u64::MAX;
        let mut tiles_x = 1;
        let mut last_w = 0;
        while tiles_x <= cols {
            let tile_w = cols.div_ceil(tiles_x);
            tiles_x += 1;
            if tile_w == last_w || tile_w > threads {
                continue;
            }
            last_w = tile_w;
            // Rows that fill whole strips: fewer would idle.
            let mut strips = 1;
            while strips * tile_w <= threads {
                let halo = frames * (window.h - 1);
                let fit = (strips * STRIP).saturating_sub(halo);
                strips += 1;
                if fit == 0 {
                    continue;
                }
                let fit = if fit > rows { rows } else { fit };
                // The same number of tiles with the rows shared evenly.
                let tile_h = rows.div_ceil(rows.div_ceil(fit));
                if let Some(t) = Self::exact(rows, cols, window, frames, tile_w, tile_h, threads) {
                    let cost = t.cost(window, sms, lanes);
                    if cost < best_cost {
                        best_cost = cost;
                        best = Some(t);
                    }
                }
            }
        }
        best
    }

    /// Estimated cycles of a launch on a GPU with `sms` multiprocessors, without the 1800 or so from one launch to the
    /// next. Where the numbers come from: `docs/gpu-kernels.md`.
    pub const fn cost(&self, window: Window, sms: u32, lanes: u32) -> u64 {
        let blocks = self.tiles() as u64 * lanes as u64;
        let per_sm = blocks.div_ceil(sms as u64);
        let warps = self.threads().div_ceil(32) as u64;
        // What a multiprocessor holds at once, by threads, registers (128 a thread) and shared memory.
        let by_threads = 2048 / (warps * 32);
        let by_registers = 65536 / (warps * 32 * 128);
        let by_shared = (228 * 1024) / (self.shared_bytes as u64 + 1024);
        let resident = least(least(by_threads, by_registers), least(by_shared, per_sm));
        let resident = if resident == 0 { 1 } else { resident };
        // Cycles of a scheduler for a warp and frame. Fitted to sweeps over tiles and frames on an H200, 2026-11-30
        // (`docs/gpu-kernels.md`): what every strip costs, then a shared load, a sum and a maximum for every pixel of
        // its window rows, and a sum and a maximum for every window row of every pixel.
        let rows = (STRIP + window.h - 1) as u64;
        let columns = rows * 2 + (STRIP * window.h * 2) as u64;
        let strip = if window.is_split() {
            1300 + columns + 2 * (4 * window.w as u64 + 35)
        } else {
            720 + columns + rows * (window.w as u64 * 3 - 2)
        };
        // Four schedulers share the warps.
        let frame = strip * resident * warps / 4 + 200;
        per_sm.div_ceil(resident) * (1500 + 100 * resident * warps + frame * self.frames as u64)
    }

    /// Tiles of a frame: blocks of a launch for one lane.
    #[inline(always)]
    pub const fn tiles(&self) -> u32 {
        self.tiles_x * self.tiles_y
    }

    /// Threads of a block.
    #[inline(always)]
    pub const fn threads(&self) -> u32 {
        self.load_w * self.strips + self.listeners
    }

    /// Planes of values that a block keeps in shared memory: corrected values of three frames; row sums and maxima of
    /// one, with which other tilings do with two frames.
    #[inline(always)]
    pub const fn planes(&self, window: Window) -> u32 {
        match (window.is_split(), self.is_resident()) {
            (false, _) => 3,
            (true, false) => 4,
            (true, true) => 5,
        }
    }

    /// Columns of a plane before those of tile and halo, and behind them.
    #[inline(always)]
    pub(super) const fn margin(&self) -> u32 {
        if self.is_resident() { RESIDENT_MARGIN } else { 0 }
    }

    /// Strip and column of a thread.
    #[inline(always)]
    pub(super) const fn strip_of(&self, thread: u32) -> (u32, u32) {
        let strip = quotient(thread, self.load_w_magic);
        (strip, thread - strip * self.load_w)
    }

    /// Row and group of four columns of the `i`-th group of a plane, `i` below 2^16.
    #[inline(always)]
    pub(super) const fn group_of(&self, i: u32) -> (u32, u32) {
        let row = quotient(i, self.groups_magic);
        (row, i - row * (self.pitch() / 4))
    }

    /// Bits that hold a column of a tile: a place in a tile is `row << column_bits | column` and fits 16 bits.
    #[inline(always)]
    pub const fn column_bits(&self) -> u32 {
        32 - (self.tile_w - 1).leading_zeros()
    }

    /// Words that hold one bit for every pixel of a row of a tile.
    #[inline(always)]
    pub const fn row_words(&self) -> u32 {
        self.tile_w.div_ceil(32)
    }

    /// Words of the bitmap of a frame: `rows x tiles_x x row_words`, so that the words in order are the pixels in
    /// raster order.
    #[inline(always)]
    pub const fn bitmap_words(&self, rows: u32) -> u64 {
        rows as u64 * (self.tiles_x * self.row_words()) as u64
    }

    /// Columns of a plane in shared memory: those of tile and halo, rounded up so that rows begin at 16 bytes.
    #[inline(always)]
    pub const fn pitch(&self) -> u32 {
        self.load_w.next_multiple_of(4) + 2 * self.margin()
    }

    /// Rows of a plane in shared memory: those of tile and halo, with the window's reach above and below.
    #[inline(always)]
    pub const fn plane_rows(&self, window: Window) -> u32 {
        self.strips * STRIP + window.h - 1
    }

    /// Bytes of a plane in shared memory, with 16 before and behind that only a value nobody uses is made of.
    #[inline(always)]
    pub const fn plane_bytes(&self, window: Window) -> u32 {
        self.plane_rows(window) * self.pitch() * 4 + 32
    }

    /// Where row sums of a resident tiling begin in shared memory; maxima follow in a plane of their own.
    #[inline(always)]
    pub(super) const fn at_rows(&self, window: Window) -> u32 {
        3 * self.plane_bytes(window)
    }

    /// Pixels of a tile, rounded up to even: entries of one of the two lists of stored pixels.
    #[inline(always)]
    pub const fn list_len(&self) -> u32 {
        (self.tile_w * self.tile_h).next_multiple_of(2)
    }

    /// Where the two lists of stored pixels (`u16` each) start in shared memory.
    #[inline(always)]
    pub const fn at_lists(&self, window: Window) -> u32 {
        self.planes(window) * self.plane_bytes(window)
    }

    /// Where the two bitmaps of a tile start in shared memory.
    #[inline(always)]
    pub const fn at_bitmaps(&self, window: Window) -> u32 {
        self.at_lists(window) + 2 * 2 * self.list_len()
    }

    /// Where the notes of listeners of a resident tiling start in shared memory.
    #[inline(always)]
    pub(super) const fn at_notes(&self, window: Window) -> u32 {
        (self.at_counts(window) + 3 * 4).next_multiple_of(16)
    }

    /// Where the three counts of stored pixels start in shared memory.
    #[inline(always)]
    pub const fn at_counts(&self, window: Window) -> u32 {
        self.at_bitmaps(window) + 2 * 4 * self.tile_h * self.row_words()
    }
}

/// Frames of a launch that should give the shortest time a frame, at most `most`; at least 1.
pub const fn suggested_frames(
    rows: u32,
    cols: u32,
    window: Window,
    sms: u32,
    lanes: u32,
    threads: u32,
    most: u32,
) -> u32 {
    let mut best = 1;
    let mut best_cost = u64::MAX;
    let mut n = 1;
    while n <= most && n <= 32 {
        if let Some(t) = Tiling::new(rows, cols, window, n, sms, lanes, threads) {
            let cost = (t.cost(window, sms, lanes) + 1800) * 1000 / n as u64;
            if cost < best_cost {
                best_cost = cost;
                best = n;
            }
        }
        n += 1;
    }
    best
}

const fn least(a: u64, b: u64) -> u64 {
    if a < b { a } else { b }
}

/// For [`quotient`] by `d`; 0 for 1, whose quotients are not asked for with it.
const fn magic(d: u32) -> u32 {
    (1u64 << 32).div_ceil(d as u64) as u32
}

/// `a / d` by a multiplication, for `a` and `d` below 2^16 and `d` above 1: the excess of the magic number over
/// `2^32 / d` is less than 1, so that of the quotient is less than `a / 2^32`, which is less than `1 / d`.
#[inline(always)]
const fn quotient(a: u32, magic: u32) -> u32 {
    if magic == 0 { a } else { ((a as u64 * magic as u64) >> 32) as u32 }
}

/// `a / b`; 0 for `b = 0`, which would be a panic and code for it.
#[inline(always)]
pub(super) fn over(a: u32, b: u32) -> u32 {
    a.checked_div(b).unwrap_or(0)
}

/// `a % b`; 0 for `b = 0`.
#[inline(always)]
pub(super) fn modulo(a: u32, b: u32) -> u32 {
    a.checked_rem(b).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::super::abi::MAX_THREADS;
    use super::*;
    use std::vec::Vec;

    fn windows() -> impl Iterator<Item = Window> {
        (2..=15).flat_map(|h| [2, 3, 9, 15].map(|w| Window { w, h }))
    }

    #[test]
    fn a_frame_a_launch_always_fits_and_tiles_cover_the_frame() {
        for (rows, cols) in [(1, 1), (3, 400), (401, 399), (400, 400), (512, 1024), (1, 65536), (65536, 1)] {
            for window in windows() {
                for frames in [1, 2, 8] {
                    let Some(t) = Tiling::new(rows, cols, window, frames, 132, 1, MAX_THREADS) else {
                        assert!(frames > 1, "{rows} x {cols}, {window:?}");
                        continue;
                    };
                    assert!(t.tiles_x * t.tile_w >= cols && (t.tiles_x - 1) * t.tile_w < cols, "{t:?}");
                    assert!(t.tiles_y * t.tile_h >= rows && (t.tiles_y - 1) * t.tile_h < rows, "{t:?}");
                    assert!(t.threads() <= MAX_THREADS && t.shared_bytes <= Tiling::MAX_SHARED, "{t:?}");
                    assert!(t.strips * STRIP >= t.tile_h + frames * (window.h - 1), "{t:?}");
                }
            }
        }
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let w = Window { w: 9, h: 9 };
        assert!(Tiling::exact(400, 400, w, 0, 32, 32, MAX_THREADS).is_none());
        assert!(Tiling::exact(400, 400, w, 1, 0, 32, MAX_THREADS).is_none());
        assert!(Tiling::exact(400, 400, w, 1, 512, 32, MAX_THREADS).is_none());
        assert!(Tiling::new(400, 400, w, 32, 132, 1, MAX_THREADS).is_none());
    }

    #[test]
    fn a_resident_tiling_has_no_more_tiles_than_asked_for_and_covers_the_frame() {
        for (rows, cols, most, sides) in [
            (1, 1, 1, &[3, 5, 7, 9][..]),
            (3, 400, 13, &[3, 5, 7, 9]),
            (400, 400, 132, &[3, 5, 7, 9]),
            (401, 399, 132, &[3, 5, 7]),
            (37, 61, 24, &[3, 5, 7, 9]),
        ] {
            for &side in sides {
                let w = Window { w: side, h: side };
                let t = Tiling::resident(rows, cols, w, most, 512).expect("room");
                assert!(t.is_resident() && t.tiles() <= most && t.threads() <= 512, "{t:?}");
                assert!(t.tiles_x * t.tile_w >= cols && t.tiles_y * t.tile_h >= rows, "{t:?}");
                assert!(4 * t.listeners >= Tiling::heard(w, t.tile_h), "{t:?}");
                assert_eq!((t.tile_h, t.listeners % 32), (t.strips * STRIP, 0), "{t:?}");
            }
        }
        // Even sides, larger windows, too many tiles across, too many rows for a block.
        for (rows, cols, side, most) in
            [(9, 9, 4, 9), (9, 9, 11, 9), (9, 400, 3, 12), (401, 399, 9, 132), (800, 400, 3, 132)]
        {
            assert!(Tiling::resident(rows, cols, Window { w: side, h: side }, most, 512).is_none());
        }
    }

    /// Prints the table of `docs/gpu-kernels.md`.
    #[test]
    fn the_predicted_times() {
        for side in [3, 5, 7, 9] {
            let w = Window { w: side, h: side };
            let row: Vec<_> = [1, 2, 3, 4, 6, 8, 12, 16]
                .into_iter()
                .filter_map(|n| {
                    let t = Tiling::new(400, 400, w, n, 132, 1, MAX_THREADS)?;
                    let us = (t.cost(w, 132, 1) + 1800) as f64 / f64::from(n) / 1755.0;
                    Some(std::format!(
                        "{n}: {us:.2} ({}x{} tiles of {}x{}, {} threads)",
                        t.tiles_y,
                        t.tiles_x,
                        t.tile_h,
                        t.tile_w,
                        t.threads()
                    ))
                })
                .collect();
            std::println!(
                "{side}x{side}, best {}: {}",
                suggested_frames(400, 400, w, 132, 1, MAX_THREADS, 32),
                row.join(", ")
            );
            assert!(!row.is_empty());
        }
    }
}
