//! The kernel that finds clusters with all its blocks on the GPU at once: a tile of the frame a block, a strip of one
//! column a thread, any number of frames a launch.
//!
//! Phase `f` judges frame `f` from the corrected values in one plane of shared memory and puts those of frame `f + 1`
//! into the next. A block makes the values of its own tile; those around it, as far as the window reaches, it
//! *hears* from its neighbours. Every block *tells* the values along its edges, each in a word of 8 bytes with its
//! frame's number, and threads without a strip read such words until they hold the frame that is
//! waited for. A word says by itself that it has come, so there are neither flags nor fences. Two words a pixel, for
//! even and for odd frames, are enough: a block tells frame `f + 2` when it has heard frame `f + 1` of its neighbours,
//! and they told that when they had heard frame `f`.
//!
//! All blocks wait for the way from hearing to telling, so it is short: thresholds, updated sums and the values of the
//! next frame, with the update and without, are made before, while words are on their way; clusters of the frame before
//! are written then.

use super::abi::{FrameArgs, UNHEARD};
use super::block::{Block, Stored, Team};
use super::pixels::{K, live, raw, span, without};
use super::rule::{Rule, Seen};
use super::store;
use super::tiling::{RESIDENT_MARGIN, RESIDENT_WIDTH, STRIP, Tiling, modulo, over};
use super::unroll::{each_pixel, each_row};
use crate::physics::{self, Tests};
use crate::real::Convert;

/// Columns of a plane, and bytes of a row.
const PITCH: u32 = RESIDENT_WIDTH + 2 * RESIDENT_MARGIN;
const ROW: u32 = PITCH * 4;
/// Groups of four columns in a row of a tile.
const GROUPS: u32 = RESIDENT_WIDTH / 4;
/// How often a word is read before its neighbour is given up: seconds.
const PATIENCE: u32 = 1 << 22;

/// What a thread that judges knows of its strip.
#[derive(Clone, Copy)]
struct Strip<P: Stored> {
    /// Index of the first pixel in the frame.
    pixel: u32,
    /// Where it stands in a plane, in bytes.
    at: u32,
    /// Column and first row in the tile.
    col: u32,
    row: u32,
    /// Pixels inside the frame, and those of them that take part: not masked for the run.
    inside: u32,
    part: u32,
    /// Pixels that are told to neighbours.
    edge: u32,
    sum: [P; K],
    sum2: [P; K],
    /// The frame that is judged next: values, thresholds squared, pixels that take part and are not negative.
    d: [f32; K],
    thr2: [f32; K],
    may: u32,
    /// Pixels that take part in that frame.
    live: u32,
    /// Sums if a pixel is quiet in it.
    quiet_sum: [P; K],
    quiet_sum2: [P; K],
    /// The frame after: pixels, those that take part, values without the update and with it.
    x: [P::Kept; K],
    next_live: u32,
    next: [f32; K],
    quiet_next: [f32; K],
    /// The frame after that, on its way from memory.
    coming: [u16; K],
    coming_live: u32,
    /// Of a thread without a strip: pixels around the tile that it listens for.
    hears: u32,
}

impl<P: Stored> Strip<P> {
    fn empty() -> Self {
        Strip {
            pixel: 0,
            at: 0,
            col: 0,
            row: 0,
            inside: 0,
            part: 0,
            edge: 0,
            sum: [P::ZERO; K],
            sum2: [P::ZERO; K],
            d: [0.0; K],
            thr2: [0.0; K],
            may: 0,
            live: 0,
            quiet_sum: [P::ZERO; K],
            quiet_sum2: [P::ZERO; K],
            x: [P::offset(0); K],
            next_live: 0,
            next: [0.0; K],
            quiet_next: [0.0; K],
            coming: [0; K],
            coming_live: 0,
            hears: 0,
        }
    }
}

/// Where a pixel of the tile stands in a plane, in bytes. The plane begins the window's reach above the tile.
#[inline(always)]
fn place<R: Rule>(row: u32, col: u32, a: &super::abi::Job) -> u32 {
    (row.wrapping_add(R::window(a).up()).wrapping_mul(PITCH))
        .wrapping_add(col)
        .wrapping_add(RESIDENT_MARGIN)
        .wrapping_mul(4)
}

/// One of two values. From a choice by branches the compiler for the GPU would make a choice between addresses, and
/// keep in memory what belongs in registers.
#[inline(always)]
fn pick<T>(first: bool, a: T, b: T) -> T {
    core::hint::select_unpredictable(first, a, b)
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
    /// First value of the lane in a plane of the pedestal.
    lane: u64,
    /// The launch's first frame, in the chunk, and frames to do.
    first: u32,
    frames: u32,
}

impl<B: Block, P: Convert<f32> + Stored> Tile<'_, B, P> {
    /// The index in the chunk of the launch's frame `f`.
    #[inline(always)]
    fn frame(&self, f: u32) -> u32 {
        self.first + f * self.a.step
    }

    /// The words of frame `f`, and the number that says that they have come.
    #[inline(always)]
    fn words(&self, f: u32) -> (*mut u64, u32) {
        let odd = f & 1;
        (self.a.edges.wrapping_add((odd as u64 * self.a.job.pixels()) as usize), self.a.told + f + 1)
    }

    /// The tile in frame `f`, whose values stand in `plane`.
    #[inline(always)]
    fn judged(&self, f: u32, plane: u32) -> store::Judged {
        store::Judged {
            f,
            frame: self.frame(f),
            tile: self.index,
            tile_x: self.tile_x,
            row0: self.row,
            col0: self.col,
            plane,
        }
    }

    /// The strip before the first frame, with the values of that frame.
    #[inline(always)]
    fn begin<R: Rule>(&self, s: &mut Strip<P>, thread: u32) {
        let (a, b, w) = (self.a, self.b, R::window(&self.a.job));
        (s.row, s.col) = (thread / RESIDENT_WIDTH * STRIP, thread % RESIDENT_WIDTH);
        let (row, col) = (self.row + s.row, self.col + s.col);
        s.pixel = row.wrapping_mul(a.job.cols).wrapping_add(col);
        s.at = place::<R>(s.row, s.col, &a.job);
        let mut j = 0;
        while j < STRIP {
            let r = s.row + j;
            let edge = r < w.down()
                || r + w.up() >= a.tiling.tile_h
                || s.col < w.right()
                || s.col + w.left() >= RESIDENT_WIDTH;
            let inside = row + j < a.job.rows && col < a.job.cols;
            s.inside |= (inside as u32) << j;
            s.edge |= ((inside && edge) as u32) << j;
            j += 1;
        }
        s.part = s.inside;
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
                    if R::fixed(!a.fixed.is_null()) {
                        let variance = P::load(b, a.fixed.add(at));
                        s.thr2[J] = a.job.decision.n_sigma2
                            * physics::fixed_variance(variance, a.job.decision.floor2);
                    }
                }
            }
        });
        self.fetch(s, 0);
        s.next_live = s.coming_live;
        each_pixel!(J {
            s.x[J] = P::with(s.x[J], s.coming[J]);
            s.d[J] = physics::corrected(P::y(s.x[J]), s.sum[J], a.inv_n);
        });
    }

    /// Starts loading the pixels of frame `f`, if there is one.
    #[inline(always)]
    fn fetch(&self, s: &mut Strip<P>, f: u32) {
        let (frame, part) = if f < self.frames { (self.frame(f), s.part) } else { (0, 0) };
        s.coming = raw(self.b, self.a, part, s.pixel, frame);
        s.coming_live = if part != 0 { live(self.b, self.a, part, s.pixel, frame) } else { 0 };
    }

    /// Shows the values of frame `f` to the block in `plane` and tells neighbours those along the edges.
    #[inline(always)]
    fn show(&self, s: &mut Strip<P>, plane: u32, f: u32) {
        // A pixel that takes no part adds nothing to a sum, so its value is 0; outside the frame and masked for the run
        // it is 0 by itself, because nothing was loaded. As a maximum 0 is as good as nothing: it can only stand for
        // the largest value of a window that has none above 0, and then no test is passed.
        let lost = s.part & !s.next_live;
        if lost != 0 {
            each_pixel!(J {
                s.d[J] = pick(lost >> J & 1 != 0, 0.0, s.d[J]);
            });
        }
        each_pixel!(J {
            self.b.set_shared_f32(plane + s.at + J as u32 * ROW, s.d[J]);
        });
        if s.edge != 0 && f < self.frames {
            let (words, number) = self.words(f);
            each_pixel!(J {
                if s.edge >> J & 1 != 0 {
                    let i = s.pixel.wrapping_add((J as u32).wrapping_mul(self.a.job.cols));
                    let word = s.d[J].to_bits() as u64 | (number as u64) << 32;
                    // SAFETY: a word for every pixel of the frame.
                    unsafe { self.b.tell(words.wrapping_add(i as usize), word) };
                }
            });
        }
        s.live = s.next_live;
    }

    /// Makes what the judgement of the frame that was shown last needs beside its window, and the values of the frame
    /// after it, which must have come from memory; starts loading frame `f`.
    #[inline(always)]
    fn prepare<R: Rule>(&self, s: &mut Strip<P>, f: u32) {
        let (a, decision) = (self.a, &self.a.job.decision);
        let mut negative = 0;
        each_pixel!(J {
            if !R::fixed(!a.fixed.is_null()) {
                let variance = physics::variance(s.sum[J], s.sum2[J], a.inv_n, decision.floor2);
                s.thr2[J] = decision.n_sigma2 * variance;
            }
            negative |= (decision.negative(s.d[J], s.thr2[J]) as u32) << J;
            let (sum, sum2) = physics::update(s.sum[J], s.sum2[J], P::y(s.x[J]), a.inv_n);
            s.x[J] = P::with(s.x[J], s.coming[J]);
            s.next[J] = physics::corrected(P::y(s.x[J]), s.sum[J], a.inv_n);
            s.quiet_next[J] = physics::corrected(P::y(s.x[J]), sum, a.inv_n);
            (s.quiet_sum[J], s.quiet_sum2[J]) = (sum, sum2);
        });
        s.may = s.live & !negative;
        s.next_live = s.coming_live;
        self.fetch(s, f);
    }

    /// Judges the strip in the frame whose values stand in `plane`, updates its sums and takes over the values of the
    /// next frame; a bit for each pixel whose window is stored.
    #[inline(always)]
    fn judge<R: Rule>(&self, s: &mut Strip<P>, plane: u32) -> u32 {
        let w = R::window(&self.a.job);
        // The upper left pixel of the window of the strip's first pixel.
        let corner = plane + s.at - w.up() * ROW - w.left() * 4;
        // Row sums and maxima of the window's centre column.
        let rows = self.a.tiling.at_rows(w) + s.at - w.up() * ROW;
        let maxima = rows + self.a.tiling.plane_bytes(w);
        let mut found = 0;
        // Row sums and maxima go into every window that has the row, top to bottom, as SPEC orders the sum.
        let mut seen = [Seen { max: 0.0, sum: 0.0 }; K];
        each_row!(I {
            if I < K + R::SIDE - 1 {
                let row = if R::SPLIT {
                    let at = I as u32 * ROW;
                    Seen { max: self.b.shared_f32(maxima + at), sum: self.b.shared_f32(rows + at) }
                } else {
                    R::row(self.b, corner + I as u32 * ROW)
                };
                each_pixel!(J {
                    if I == J {
                        seen[J] = row;
                    } else if I.wrapping_sub(J) < R::SIDE {
                        seen[J].max = seen[J].max.max(row.max);
                        seen[J].sum += row.sum;
                    }
                    if I + 1 == J + R::SIDE {
                        found |= (self.decide(s, J, seen[J]) as u32) << J;
                    }
                });
            }
        });
        found
    }

    /// Decides about pixel `j` of a strip; whether its window is stored.
    #[inline(always)]
    fn decide(&self, s: &mut Strip<P>, j: usize, seen: Seen) -> bool {
        let (peak, sum) = self.a.job.decision.of_window(s.thr2[j], seen.max, seen.sum, None);
        // A pixel that takes no part is left alone, as a negative one is.
        let tests = Tests { negative: s.may >> j & 1 == 0, peak, sum };
        let stored = tests.is_stored(s.d[j] >= seen.max);
        let quiet = tests.is_quiet();
        s.sum[j] = pick(quiet, s.quiet_sum[j], s.sum[j]);
        s.sum2[j] = pick(quiet, s.quiet_sum2[j], s.sum2[j]);
        s.d[j] = pick(quiet, s.quiet_next[j], s.next[j]);
        stored
    }

    /// Makes row sums and maxima of the values in `plane`, four pixels at a time.
    #[inline(always)]
    fn rows<R: Rule>(&self, thread: u32, plane: u32) {
        let (t, w) = (&self.a.tiling, R::window(&self.a.job));
        let (from, to) = (plane + RESIDENT_MARGIN * 4, t.at_rows(w) + RESIDENT_MARGIN * 4);
        let mut i = thread;
        while i < t.plane_rows(w) * GROUPS {
            let at = i / GROUPS * ROW + i % GROUPS * 16;
            let (maxima, sums) = R::four(self.b, from + at);
            self.b.set_shared_4(to + at, sums);
            self.b.set_shared_4(to + t.plane_bytes(w) + at, maxima);
            i += self.b.threads();
        }
    }

    /// The `i`-th pixel around the tile that is listened for: its index in the frame, where its value stands in a plane,
    /// and whether there is such a pixel.
    #[inline(always)]
    fn around<R: Rule>(&self, i: u32) -> (u32, u32, bool) {
        let (a, w, tile_h) = (self.a, R::window(&self.a.job), self.a.tiling.tile_h);
        let width = RESIDENT_WIDTH + w.w - 1;
        let (above, beside) = (w.up() * width, tile_h * (w.w - 1));
        // Rows and columns count from the tile's, so those above and left of it wrap.
        let (row, col) = if i < above {
            (over(i, width).wrapping_sub(w.up()), modulo(i, width).wrapping_sub(w.left()))
        } else if i < above + beside {
            let (row, col) = (over(i - above, w.w - 1), modulo(i - above, w.w - 1));
            (row, if col < w.left() { col.wrapping_sub(w.left()) } else { col + RESIDENT_WIDTH - w.left() })
        } else {
            let i = i - above - beside;
            (over(i, width) + tile_h, modulo(i, width).wrapping_sub(w.left()))
        };
        let (y, x) = (self.row.wrapping_add(row), self.col.wrapping_add(col));
        let there = i < Tiling::heard(w, tile_h) && y < a.job.rows && x < a.job.cols;
        (y.wrapping_mul(a.job.cols).wrapping_add(x), place::<R>(row, col, &a.job), there)
    }

    /// Notes for the `listener`-th thread of those that listen which pixels it waits for; a bit for each there is.
    #[inline(always)]
    fn listen<R: Rule>(&self, listener: u32) -> u32 {
        let (mut pixels, mut places, mut there) = ([0.0; K], [0.0; K], 0);
        each_pixel!(J {
            let (pixel, at, is) = self.around::<R>(listener + J as u32 * self.a.tiling.listeners);
            (pixels[J], places[J]) = (f32::from_bits(pixel), f32::from_bits(at));
            there |= (is as u32) << J;
        });
        let notes = self.notes::<R>(listener);
        self.b.set_shared_4(notes, pixels);
        self.b.set_shared_4(notes + self.a.tiling.listeners * 16, places);
        there
    }

    /// Where a listener's notes begin in shared memory: its pixels' indices, and behind those of all their places in a
    /// plane.
    #[inline(always)]
    fn notes<R: Rule>(&self, listener: u32) -> u32 {
        self.a.tiling.at_notes(R::window(&self.a.job)) + listener * 16
    }

    /// Waits for the values of frame `f` of the listener's pixels that are there and puts them into `plane`; the pixels
    /// to listen for from then on.
    #[inline(always)]
    fn hear<R: Rule>(&self, listener: u32, there: u32, plane: u32, f: u32) -> u32 {
        let (words, number) = self.words(f);
        let notes = self.notes::<R>(listener);
        let pixels = self.b.shared_4(notes);
        let places = self.b.shared_4(notes + self.a.tiling.listeners * 16);
        let mut from = [words; K];
        each_pixel!(J {
            from[J] = words.wrapping_add(pixels[J].to_bits() as usize);
        });
        let mut waiting = there;
        let mut times = 0;
        while waiting != 0 {
            let mut heard = [0; K];
            each_pixel!(J {
                // SAFETY: a word for every pixel of the frame, which one that is waited for is inside of.
                heard[J] = unsafe { self.b.heard_if::<{ J as u32 }>(waiting, from[J]) };
            });
            each_pixel!(J {
                if waiting >> J & 1 != 0 && (heard[J] >> 32) as u32 == number {
                    self.b.set_shared_u32(plane + places[J].to_bits(), heard[J] as u32);
                    waiting &= !(1 << J);
                }
            });
            times += 1;
            if times == PATIENCE {
                // SAFETY: one counter a chunk.
                unsafe { self.b.global_add(self.a.saturated, UNHEARD) };
                return 0;
            }
            if waiting != 0 {
                self.b.pause(times);
            }
        }
        there
    }

    /// Writes the tile's part of the pedestal.
    #[inline(always)]
    fn end(&self, s: &Strip<P>) {
        each_pixel!(J {
            if s.inside >> J & 1 != 0 {
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

/// A block of a `resident_*` entry.
///
/// # Safety
/// Every pointer in `a` is valid for what `abi` says of it, the launch is the one that the resident tiling asks for, and
/// all its blocks run at once.
#[inline(always)]
pub unsafe fn resident<B: Block, P: Convert<f32> + Stored, R: Rule>(b: B, a: &FrameArgs<P>) {
    let (block, _) = b.index();
    let (t, w) = (&a.tiling, R::window(&a.job));
    let (first, frames) = span(a, 0);
    let (tile_y, tile_x) = (over(block, t.tiles_x), modulo(block, t.tiles_x));
    let tile = Tile {
        b,
        a,
        index: block,
        tile_x,
        row: tile_y * t.tile_h,
        col: tile_x * RESIDENT_WIDTH,
        lane: modulo(a.lane0, a.lanes) as u64 * a.job.pixels(),
        first,
        frames,
    };
    // Threads with a strip come first, then those that listen: both in whole warps.
    let judges = RESIDENT_WIDTH * t.strips;
    let bytes = t.plane_bytes(w);
    // The planes of the frame before, of the one that is judged, and of the next.
    let (mut before, mut now, mut next) = (2 * bytes, 0, bytes);
    let mut team = b.team(Strip::empty());
    team.each(|thread, _| {
        // Around the frame values stay 0.
        let mut i = thread * 4;
        while i < 3 * bytes {
            b.set_shared_u32(i, 0);
            i += b.threads() * 4;
        }
        store::clear(b, a, thread);
    });
    b.barrier();
    team.each(|thread, s| {
        if thread < judges {
            tile.begin::<R>(s, thread);
            tile.show(s, now, 0);
            tile.fetch(s, 1);
            tile.prepare::<R>(s, 2);
        } else if frames > 0 {
            s.hears = tile.listen::<R>(thread - judges);
        }
    });
    team.each(|thread, s| {
        if s.hears != 0 {
            s.hears = tile.hear::<R>(thread - judges, s.hears, now, 0);
        }
    });
    b.barrier();
    let mut f = 0;
    // Once more than there are frames, to write the last one's clusters.
    while f <= frames {
        if R::SPLIT {
            team.each(|thread, _| tile.rows::<R>(thread, now));
            b.barrier();
        }
        team.each(|thread, s| {
            if thread >= judges {
                return;
            }
            if f < frames {
                let mut found = tile.judge::<R>(s, now);
                tile.show(s, next, f + 1);
                while found != 0 {
                    store::remember(b, a, f, s.row + found.trailing_zeros(), s.col);
                    found &= found - 1;
                }
                tile.prepare::<R>(s, f + 3);
            }
            store::clear_count(b, a, thread, f + 1);
            if f > 0 {
                store::write(b, a, w, 1, (thread, judges), tile.judged(f - 1, before));
            }
        });
        // A phase of its own: where threads take turns, all of a block must have told before one of it listens.
        team.each(|thread, s| {
            if s.hears != 0 && f + 1 < frames {
                s.hears = tile.hear::<R>(thread - judges, s.hears, next, f + 1);
            }
        });
        b.barrier();
        (before, now, next) = (now, next, before);
        f += 1;
    }
    team.each(|thread, s| {
        if thread < judges {
            tile.end(s);
        }
    });
}
