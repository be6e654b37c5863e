//! How a frame is cut into tiles, one a block.

use super::abi::MAX_THREADS;

/// Rows of one column that a thread of a `frame_*` entry works on.
pub const STRIP: u32 = 8;

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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Tiling {
    /// Frames of a launch that the halo is wide enough for.
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
    /// Dynamic shared memory of a block.
    pub shared_bytes: u32,
}

impl Tiling {
    /// The most shared memory that a tiling uses: what the smallest chip (sm_75) gives a block.
    pub const MAX_SHARED: u32 = 64 * 1024;

    /// The tiling with tiles of `tile_w x tile_h`, or nothing when it needs too many threads or too much shared
    /// memory.
    pub const fn exact(
        rows: u32,
        cols: u32,
        window: Window,
        frames: u32,
        tile_w: u32,
        tile_h: u32,
    ) -> Option<Tiling> {
        if frames == 0 || tile_w == 0 || tile_h == 0 || frames > 1024 || tile_w > 1024 || tile_h > 8192 {
            return None;
        }
        let load_w = tile_w + frames * (window.w - 1);
        let strips = (tile_h + frames * (window.h - 1)).div_ceil(STRIP);
        if load_w * strips > MAX_THREADS {
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
            shared_bytes: 0,
        };
        t.shared_bytes = t.at_counts(window) + 3 * 4;
        if t.shared_bytes > Self::MAX_SHARED || t.tiles_x as u64 * t.tiles_y as u64 > 1 << 24 {
            return None;
        }
        Some(t)
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
    ) -> Option<Tiling> {
        let mut best: Option<Tiling> = None;
        let mut best_cost = u64::MAX;
        let mut tiles_x = 1;
        let mut last_w = 0;
        while tiles_x <= cols {
            let tile_w = cols.div_ceil(tiles_x);
            tiles_x += 1;
            if tile_w == last_w || tile_w > MAX_THREADS {
                continue;
            }
            last_w = tile_w;
            // Rows that fill whole strips: fewer would idle.
            let mut strips = 1;
            while strips * tile_w <= MAX_THREADS {
                let halo = frames * (window.h - 1);
                let fit = (strips * STRIP).saturating_sub(halo);
                strips += 1;
                if fit == 0 {
                    continue;
                }
                let fit = if fit > rows { rows } else { fit };
                // The same number of tiles with the rows shared evenly.
                let tile_h = rows.div_ceil(rows.div_ceil(fit));
                if let Some(t) = Self::exact(rows, cols, window, frames, tile_w, tile_h) {
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

    /// Estimated cycles of a launch. The constants are explained in `docs/gpu-kernels.md`.
    pub const fn cost(&self, window: Window, sms: u32, lanes: u32) -> u64 {
        let blocks = self.tiles() as u64 * lanes as u64;
        let per_sm = blocks.div_ceil(sms as u64);
        let warps = self.threads().div_ceil(32) as u64;
        // What a multiprocessor holds at once, by threads, registers (96 a thread) and shared memory.
        let by_threads = 2048 / (warps * 32);
        let by_registers = 65536 / (warps * 32 * 96);
        let by_shared = (160 * 1024) / (self.shared_bytes as u64 + 1024);
        let mut resident = if by_threads < by_registers { by_threads } else { by_registers };
        if by_shared < resident {
            resident = by_shared;
        }
        if resident == 0 {
            resident = 1;
        }
        let rounds = per_sm.div_ceil(resident);
        // Issue slots of a strip and frame: per pixel the conversion, decision and update, per window row the row sum
        // and maximum (a shared load counts four), per window row and pixel the column.
        let rows = (STRIP + window.h - 1) as u64;
        let strip = STRIP as u64 * 45 + rows * window.w as u64 * 6 + STRIP as u64 * window.h as u64 * 2;
        let issue = per_sm * warps * strip * self.frames as u64 / 4;
        issue + rounds * (2500 + 500 * self.frames as u64) + per_sm * warps * 60
    }

    /// Tiles of a frame: blocks of a launch for one lane.
    #[inline(always)]
    pub const fn tiles(&self) -> u32 {
        self.tiles_x * self.tiles_y
    }

    /// Threads of a block.
    #[inline(always)]
    pub const fn threads(&self) -> u32 {
        self.load_w * self.strips
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

    /// Bytes of one of the three planes of corrected values in shared memory: tile and halo, with the window's reach
    /// above and below.
    #[inline(always)]
    pub const fn plane_bytes(&self, window: Window) -> u32 {
        (self.strips * STRIP + window.h - 1) * self.load_w * 4
    }

    /// Pixels of a tile, rounded up to even: entries of one of the two lists of stored pixels.
    #[inline(always)]
    pub const fn list_len(&self) -> u32 {
        (self.tile_w * self.tile_h).next_multiple_of(2)
    }

    /// Where the two lists of stored pixels (`u16` each) start in shared memory.
    #[inline(always)]
    pub const fn at_lists(&self, window: Window) -> u32 {
        3 * self.plane_bytes(window)
    }

    /// Where the two bitmaps of a tile start in shared memory.
    #[inline(always)]
    pub const fn at_bitmaps(&self, window: Window) -> u32 {
        self.at_lists(window) + 2 * 2 * self.list_len()
    }

    /// Where the three counts of stored pixels start in shared memory.
    #[inline(always)]
    pub const fn at_counts(&self, window: Window) -> u32 {
        self.at_bitmaps(window) + 2 * 4 * self.tile_h * self.row_words()
    }
}

/// Frames of a launch that should give the shortest time a frame, at most `most`; at least 1.
pub const fn suggested_frames(rows: u32, cols: u32, window: Window, sms: u32, lanes: u32, most: u32) -> u32 {
    let mut best = 1;
    let mut best_cost = u64::MAX;
    let mut n = 1;
    while n <= most && n <= 32 {
        if let Some(t) = Tiling::new(rows, cols, window, n, sms, lanes) {
            // About 1.5 us from one launch to the next.
            let cost = (t.cost(window, sms, lanes) + 2600) * 1000 / n as u64;
            if cost < best_cost {
                best_cost = cost;
                best = n;
            }
        }
        n += 1;
    }
    best
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
