//! The kernel that finds clusters: a tile of the frame a block, a strip of one column a thread.
//!
//! Phase `f` of a launch judges frame `f` from the corrected values in plane `f % 3` of shared memory, updates the
//! pedestal in registers, and puts the corrected values of frame `f + 1` into the next plane. In the same phase the
//! clusters that frame `f - 1` left in its list are copied out of the plane before. Nothing that a phase writes is
//! read in it by another thread, so one barrier a frame is enough.

use super::abi::FrameArgs;
use super::block::{Block, Stored, Team};
use super::pixels::{K, live, raw, span, without};
use super::rule::{Rule, Seen};
use super::store;
use super::tiling::{STRIP, modulo, over};
use super::unroll::{each_pixel, each_row};
use crate::physics::{self, Branch};
use crate::real::Convert;

/// What a thread knows of its strip.
#[derive(Clone, Copy)]
struct Strip<P: Stored> {
    sum: [P; K],
    sum2: [P; K],
    /// The pixels of the frame that is judged next.
    x: [P::Kept; K],
    /// Column and first row of the strip, counted in tile and halo.
    col: u32,
    row: u32,
    /// Index of the first pixel in the frame; wraps where the strip begins outside.
    pixel: u32,
    /// Pixels of the tile itself that are inside the frame.
    mine: u32,
    /// Pixels that take part: inside the frame and not masked for the run.
    part: u32,
    /// Pixels that take part in the frame that is judged next.
    live: u32,
    /// Raw pixels of the frame after that, on their way from memory, and those that take part in it.
    coming: [u16; K],
    coming_live: u32,
}

impl<P: Stored> Strip<P> {
    fn empty() -> Self {
        Strip {
            sum: [P::ZERO; K],
            sum2: [P::ZERO; K],
            x: [P::offset(0); K],
            col: 0,
            row: 0,
            pixel: 0,
            mine: 0,
            part: 0,
            live: 0,
            coming: [0; K],
            coming_live: 0,
        }
    }
}

/// Everything that is the same for the threads of a block.
struct Tile<'a, B, P> {
    b: B,
    a: &'a FrameArgs<P>,
    /// Index among the tiles, place among those side by side, and the first row and column.
    index: u32,
    tile_x: u32,
    row: u32,
    col: u32,
    /// Row and column of the frame where tile and halo begin; may wrap below 0.
    load_row: u32,
    load_col: u32,
    /// Rows of tile and halo.
    load_h: u32,
    /// First value of the lane in a plane of the pedestal.
    lane: u64,
    /// The launch's first frame for this lane, in the chunk.
    first: u32,
    /// Frames to do.
    frames: u32,
}

impl<B: Block, P: Convert<f32> + Stored> Tile<'_, B, P> {
    /// The index in the chunk of the launch's frame `f`.
    #[inline(always)]
    fn frame(&self, f: u32) -> u32 {
        self.first + f * self.a.step
    }

    /// Those of the strip's pixels that take part in frame `f`.
    #[inline(always)]
    fn live(&self, s: &Strip<P>, f: u32) -> u32 {
        live(self.b, self.a, s.part, s.pixel, self.frame(f))
    }

    /// Starts loading the pixels of frame `f`, if there is one.
    #[inline(always)]
    fn fetch(&self, s: &mut Strip<P>, f: u32) {
        let there = f < self.frames;
        s.coming_live = if there { self.live(s, f) } else { 0 };
        s.coming = raw(self.b, self.a, s.coming_live, s.pixel, self.frame(if there { f } else { 0 }));
    }

    /// Where the plane of frame `f` begins: its first row lies the window's reach above tile and halo.
    #[inline(always)]
    fn plane<R: Rule>(&self, f: u32) -> u32 {
        (if R::SPLIT { f & 1 } else { f % 3 }) * self.a.tiling.plane_bytes(R::window(&self.a.job)) + 16
    }

    /// The tile in frame `f`.
    #[inline(always)]
    fn judged<R: Rule>(&self, f: u32) -> store::Judged {
        store::Judged {
            f,
            frame: self.frame(f),
            tile: self.index,
            tile_x: self.tile_x,
            row0: self.row,
            col0: self.col,
            plane: self.plane::<R>(f),
        }
    }

    /// Where the pixel `(row, col)` of tile and halo stands in the plane of frame `f`.
    #[inline(always)]
    fn at<R: Rule>(&self, f: u32, row: u32, col: u32) -> u32 {
        self.plane::<R>(f) + ((row + R::window(&self.a.job).up()) * self.a.tiling.pitch() + col) * 4
    }

    /// Takes over the pixels of frame `f` and shows their corrected values to the other threads.
    #[inline(always)]
    fn show<R: Rule>(&self, s: &mut Strip<P>, raw: &[u16; K], live: u32, f: u32) {
        let at = self.at::<R>(f, s.row, s.col);
        let pitch = self.a.tiling.pitch() * 4;
        s.live = live;
        each_pixel!(J {
            s.x[J] = P::with(s.x[J], raw[J]);
            let d: f32 = physics::corrected(P::y(s.x[J]), s.sum[J], self.a.inv_n);
            self.b.set_shared_f32(at + J as u32 * pitch, d);
        });
        // A pixel that takes no part adds nothing to a sum, so its value is 0; outside the frame and masked for the run
        // it is 0 by itself, because nothing was loaded. As a maximum 0 is as good as nothing: it can only stand for
        // the largest value of a window that has none above 0, and then no test is passed.
        let mut lost = s.part & !live;
        while lost != 0 {
            self.b.set_shared_f32(at + lost.trailing_zeros() * pitch, 0.0);
            lost &= lost - 1;
        }
    }

    /// The strip before the first frame.
    #[inline(always)]
    fn begin(&self, thread: u32) -> Strip<P> {
        let (a, b) = (self.a, self.b);
        let (strip, col) = a.tiling.strip_of(thread);
        let mut s = Strip { col, row: strip * STRIP, ..Strip::empty() };
        let col = self.load_col.wrapping_add(s.col);
        let row = self.load_row.wrapping_add(s.row);
        s.pixel = row.wrapping_mul(a.job.cols).wrapping_add(col);
        let mut j = 0;
        while j < STRIP {
            let inside = row.wrapping_add(j) < a.job.rows && col < a.job.cols && s.row + j < self.load_h;
            let mine = row.wrapping_add(j).wrapping_sub(self.row) < a.tiling.tile_h
                && col.wrapping_sub(self.col) < a.tiling.tile_w;
            s.part |= (inside as u32) << j;
            s.mine |= ((inside && mine) as u32) << j;
            j += 1;
        }
        if !a.mask.is_null() {
            // SAFETY: the mask is a set of pixels of a frame; pixels in `part` are inside it.
            s.part = unsafe { without(b, a, a.mask, s.part, s.pixel) };
        }
        each_pixel!(J {
            if s.part >> J & 1 != 0 {
                let i = s.pixel.wrapping_add((J as u32).wrapping_mul(a.job.cols)) as usize;
                let at = self.lane as usize + i;
                // SAFETY: the pixel is inside the frame; the planes have it for every lane.
                unsafe {
                    s.sum[J] = P::load(b, a.sum_in.add(at));
                    s.sum2[J] = P::load(b, a.sum2_in.add(at));
                    s.x[J] = P::offset(b.load_u16(a.x0.add(i)));
                }
            }
        });
        s
    }

    /// Begins a phase: nothing that is computed from place and pixels stays in registers from the phase before.
    #[inline(always)]
    fn anew(&self, s: &mut Strip<P>) {
        s.pixel = self.b.opaque(s.pixel);
        s.col = self.b.opaque(s.col);
        s.row = self.b.opaque(s.row);
        s.mine = self.b.opaque(s.mine);
        s.part = self.b.opaque(s.part);
        s.live = self.b.opaque(s.live);
        s.coming_live = self.b.opaque(s.coming_live);
        each_pixel!(J {
            s.x[J] = P::opaque(self.b, s.x[J]);
        });
    }

    /// The variance that a decision about pixel `j` of the strip uses.
    #[inline(always)]
    fn variance<R: Rule>(&self, s: &Strip<P>, j: usize) -> f32 {
        let (a, floor2) = (self.a, self.a.job.decision.floor2);
        if !R::fixed(!a.fixed.is_null()) {
            return physics::variance(s.sum[j], s.sum2[j], a.inv_n, floor2);
        }
        if s.live >> j & 1 == 0 {
            return 0.0;
        }
        let i = s.pixel.wrapping_add((j as u32).wrapping_mul(a.job.cols)) as usize;
        // SAFETY: the pixel is inside the frame; the plane has it for every lane.
        physics::fixed_variance(unsafe { P::load(self.b, a.fixed.add(self.lane as usize + i)) }, floor2)
    }

    /// Judges one pixel of the strip and updates its pedestal; 1 if its window is stored.
    #[inline(always)]
    fn judge<R: Rule>(&self, s: &mut Strip<P>, j: usize, seen: Seen, f: u32) -> u32 {
        let (a, b) = (self.a, self.b);
        let live = s.live >> j & 1 != 0;
        let y = P::y(s.x[j]);
        let place = || (self.at::<R>(f, s.row + j as u32, s.col), a.tiling.pitch() * 4);
        // Conversions from f64 are slow on a GPU: the value that was shown to the others is read back. It is 0 for a
        // pixel that takes no part, and what is found about that is not used.
        let d =
            if P::BYTES == 8 { b.shared_f32(place().0) } else { physics::corrected(y, s.sum[j], a.inv_n) };
        let var = self.variance::<R>(s, j);
        let (tests, top) = R::judge(b, &a.job, d, var, seen, place);
        let (sum, sum2) = physics::update(s.sum[j], s.sum2[j], y, a.inv_n);
        let (sum, sum2) = (P::settled(b, sum), P::settled(b, sum2));
        let quiet = live && tests.is_quiet();
        s.sum[j] = if quiet { sum } else { s.sum[j] };
        s.sum2[j] = if quiet { sum2 } else { s.sum2[j] };
        if R::TRACE && s.mine >> j & 1 != 0 {
            let at = self.frame(f) as u64 * a.job.pixels();
            let i = s.pixel.wrapping_add((j as u32).wrapping_mul(a.job.cols)) as u64;
            let code = if live { tests.branch(top) } else { Branch::Masked };
            // SAFETY: a pixel of the frame, and a byte for each in the chunk's trace.
            unsafe { b.store_u8(a.trace.add((at + i) as usize), code as u8) };
        }
        tests.is_stored(top) as u32
    }

    /// Judges the strip in frame `f`.
    #[inline(always)]
    fn judge_all<R: Rule>(&self, s: &mut Strip<P>, f: u32) {
        let (t, w) = (&self.a.tiling, R::window(&self.a.job));
        // How far from the tile a pixel may be and still matter: by so many frames' reach.
        let left = self.frames - 1 - f;
        let skip = t.frames - left;
        let column = s.col.wrapping_sub(skip * w.left()) < t.tile_w + left * (w.w - 1);
        let end = skip * w.up() + t.tile_h + left * (w.h - 1);
        let wanted = column && s.row + STRIP > skip * w.up() && s.row < end;
        if !wanted || (s.live == 0 && !R::TRACE) {
            return;
        }
        let mut found = self.judge_strip::<R>(s, f) & s.live & s.mine;
        while found != 0 {
            let row = s.row + found.trailing_zeros();
            let (tile_row, tile_col) = (row - t.frames * w.up(), s.col - t.frames * w.left());
            store::remember(self.b, self.a, f, tile_row, tile_col);
            found &= found - 1;
        }
    }

    /// Judges the pixels of a strip; a bit for each whose window is stored.
    #[inline(always)]
    fn judge_strip<R: Rule>(&self, s: &mut Strip<P>, f: u32) -> u32 {
        let (a, w) = (self.a, R::window(&self.a.job));
        let pitch = a.tiling.pitch() * 4;
        // The upper left pixel of the window of the strip's first pixel.
        let corner = self.at::<R>(f, s.row, s.col) - w.up() * pitch - w.left() * 4;
        let mut found = 0;
        if R::SIDE == 0 {
            // Not written out: the general code is long, and its strips may lie in local memory.
            let mut j = 0;
            while j < STRIP {
                let seen = R::look(self.b, &a.job, corner + j * pitch, pitch);
                found |= self.judge::<R>(s, j as usize, seen, f) << j;
                j = self.b.opaque(j + 1);
            }
            return found;
        }
        // With row sums and maxima in planes of their own: those of the window's centre column.
        let rows = corner + w.left() * 4 + (2 - (f & 1)) * self.a.tiling.plane_bytes(w);
        // Row sums and maxima go into every window that has the row, top to bottom, as SPEC orders the sum.
        let mut seen = [Seen { max: 0.0, sum: 0.0 }; K];
        each_row!(I {
            if I < K + R::SIDE - 1 {
                let row = if R::SPLIT {
                    let at = rows + I as u32 * pitch;
                    Seen { max: self.b.shared_f32(at + self.a.tiling.plane_bytes(w)), sum: self.b.shared_f32(at) }
                } else {
                    R::row(self.b, corner + I as u32 * pitch)
                };
                each_pixel!(J {
                    if I == J {
                        seen[J] = row;
                    } else if I.wrapping_sub(J) < R::SIDE {
                        seen[J].max = seen[J].max.max(row.max);
                        seen[J].sum += row.sum;
                    }
                    if I + 1 == J + R::SIDE {
                        found |= self.judge::<R>(s, J, seen[J], f) << J;
                    }
                });
            }
        });
        found
    }

    /// Makes row sums and maxima of frame `f` from its corrected values, four pixels at a time, for the rows and
    /// columns that still matter.
    #[inline(always)]
    fn rows<R: Rule>(&self, thread: u32, f: u32) {
        let (t, w) = (&self.a.tiling, R::window(&self.a.job));
        let (groups, bytes) = (t.pitch() / 4, t.plane_bytes(w));
        let left = self.frames - 1 - f;
        let skip = t.frames - left;
        // Rows of the plane are counted from the window's reach above tile and halo.
        let (first_row, first_col) = (skip * w.up() - w.up(), skip * w.left());
        let rows = t.tile_h + (left + 1) * (w.h - 1);
        let cols = t.tile_w + left * (w.w - 1);
        let first_group = first_col / 4;
        let wanted = (first_col + cols - 1) / 4 - first_group + 1;
        // Threads go through all groups of a row and step over those that do not matter: without a division a frame.
        let (mut row, mut group) = t.group_of(thread);
        let (row_step, group_step) = t.group_of(self.b.threads());
        let end = first_row + w.up() + rows;
        row += first_row + w.up();
        while row < end {
            if group.wrapping_sub(first_group) < wanted {
                let at = self.plane::<R>(f) + (row * t.pitch() + group * 4) * 4;
                let (maxima, sums) = R::four(self.b, at);
                let to = at + (2 - (f & 1)) * bytes;
                self.b.set_shared_4(to, sums);
                self.b.set_shared_4(to + bytes, maxima);
            }
            row += row_step;
            group += group_step;
            if group >= groups {
                group -= groups;
                row += 1;
            }
        }
    }

    /// Writes the tile's part of the pedestal.
    #[inline(always)]
    fn end(&self, s: &Strip<P>) {
        each_pixel!(J {
            if s.mine >> J & 1 != 0 {
                let i = s.pixel.wrapping_add((J as u32).wrapping_mul(self.a.job.cols)) as usize;
                let at = self.lane as usize + i;
                let (mut sum, mut sum2) = (s.sum[J], s.sum2[J]);
                // SAFETY: the pixel is inside the frame; the planes have it for every lane.
                unsafe {
                    if s.part >> J & 1 == 0 {
                        // Masked for the run: it was not loaded and keeps what it had.
                        sum = P::load(self.b, self.a.sum_in.add(at));
                        sum2 = P::load(self.b, self.a.sum2_in.add(at));
                    }
                    P::store(self.b, self.a.sum_out.add(at), sum);
                    P::store(self.b, self.a.sum2_out.add(at), sum2);
                }
            }
        });
    }
}

/// A block of a `frame_*` entry.
///
/// # Safety
/// Every pointer in `a` is valid for what `abi` says of it, and the launch is the one that the tiling asks for.
#[inline(always)]
pub unsafe fn frame<B: Block, P: Convert<f32> + Stored, R: Rule>(b: B, a: &FrameArgs<P>) {
    let (block, lane) = b.index();
    let (t, w) = (&a.tiling, R::window(&a.job));
    let (first, frames) = span(a, lane);
    let (tile_y, tile_x) = (over(block, t.tiles_x), modulo(block, t.tiles_x));
    let (row, col) = (tile_y * t.tile_h, tile_x * t.tile_w);
    let tile = Tile {
        b,
        a,
        index: block,
        tile_x,
        row,
        col,
        load_row: row.wrapping_sub(t.frames * w.up()),
        load_col: col.wrapping_sub(t.frames * w.left()),
        load_h: t.tile_h + t.frames * (w.h - 1),
        lane: modulo(a.lane0 + lane, a.lanes) as u64 * a.job.pixels(),
        first,
        frames,
    };
    let mut team = b.team(Strip::empty());
    team.each(|thread, s| {
        *s = tile.begin(thread);
        store::clear(b, a, thread);
        if frames > 0 {
            let live = tile.live(s, 0);
            let raw = raw(b, a, live, s.pixel, tile.frame(0));
            tile.fetch(s, 1);
            tile.show::<R>(s, &raw, live, 0);
        }
    });
    b.barrier();
    let mut f = 0;
    while f < frames {
        if R::SPLIT {
            team.each(|thread, _| {
                tile.rows::<R>(b.opaque(thread), f);
                if f > 0 {
                    store::write(
                        b,
                        a,
                        w,
                        t.row_words(),
                        (b.opaque(thread), b.threads()),
                        tile.judged::<R>(f - 1),
                    );
                }
            });
            b.barrier();
        }
        team.each(|thread, s| {
            tile.anew(s);
            // The pixels of the frame after the next are on their way while two frames are judged.
            let (live, raw) = (s.coming_live, s.coming);
            tile.fetch(s, f + 2);
            store::clear_count(b, a, thread, f + 1);
            tile.judge_all::<R>(s, f);
            if f + 1 < frames {
                tile.show::<R>(s, &raw, live, f + 1);
            }
            if !R::SPLIT && f > 0 {
                store::write(
                    b,
                    a,
                    w,
                    t.row_words(),
                    (b.opaque(thread), b.threads()),
                    tile.judged::<R>(f - 1),
                );
            }
        });
        b.barrier();
        f += 1;
    }
    team.each(|thread, s| {
        if frames > 0 {
            store::write(b, a, w, t.row_words(), (thread, b.threads()), tile.judged::<R>(frames - 1));
        }
        tile.end(s);
    });
}
