//! The rule that judges a window, in the forms that have entries of their own.

use super::abi::Job;
use super::block::Block;
use super::tiling::{Window, modulo, over};
use crate::physics::Tests;

/// What a pixel sees of its window: all that SPEC 3 asks about it.
#[derive(Clone, Copy, Debug)]
pub struct Seen {
    /// The maximum `M`.
    pub max: f32,
    /// The sum `T`.
    pub sum: f32,
}

/// How windows are looked at and judged. Offsets are into shared memory, `pitch` is that of a row.
pub trait Rule {
    /// The side of a square window that is looked at row by row for a whole strip, or 0.
    const SIDE: usize;
    /// Whether row sums and maxima are made for all pixels first ([`Window::is_split`]).
    const SPLIT: bool = false;
    /// Whether branches are written to the trace.
    const TRACE: bool;

    /// Whether decisions use the fixed variance.
    fn fixed(given: bool) -> bool;
    /// The window.
    fn window(job: &Job) -> Window;
    /// Maximum and sum of a row of [`Rule::SIDE`] pixels that begins at `at`.
    fn row<B: Block>(b: B, at: u32) -> Seen;
    /// Maxima and sums of the rows of [`Rule::SIDE`] pixels around four neighbours, the first at `at`.
    fn four<B: Block>(b: B, at: u32) -> ([f32; 4], [f32; 4]);
    /// Maximum and sum of the window whose upper left pixel is at `corner`.
    fn look<B: Block>(b: B, job: &Job, corner: u32, pitch: u32) -> Seen;
    /// The tests of a pixel and whether it passes the local-max gate; `place` gives where it is and the pitch.
    fn judge<B: Block>(
        b: B,
        job: &Job,
        d: f32,
        var: f32,
        seen: Seen,
        place: impl FnOnce() -> (u32, u32),
    ) -> (Tests, bool);
}

/// `n` pixels of a row, left to right.
#[inline(always)]
fn row<B: Block>(b: B, at: u32, n: u32) -> Seen {
    let first = b.shared_f32(at);
    let mut seen = Seen { max: first, sum: first };
    let mut c = 1;
    while c < n {
        let d = b.shared_f32(at + c * 4);
        seen.max = seen.max.max(d);
        seen.sum += d;
        c += 1;
    }
    seen
}

/// Maxima and sums of the rows of `N` pixels around four neighbours, `N` from 5 to 9 and odd.
#[inline(always)]
fn four<B: Block, const N: usize>(b: B, at: u32) -> ([f32; 4], [f32; 4]) {
    let (v, w, x) = (b.shared_4(at - 16), b.shared_4(at), b.shared_4(at + 16));
    let v = [v[0], v[1], v[2], v[3], w[0], w[1], w[2], w[3], x[0], x[1], x[2], x[3]];
    // The first pixel of the first of the four rows.
    let first = 4 - N / 2;
    let mut sums = [0.0; 4];
    let mut k = 0;
    while k < 4 {
        let mut sum = v[first + k];
        let mut i = 1;
        while i < N {
            sum += v[first + k + i];
            i += 1;
        }
        sums[k] = sum;
        k += 1;
    }
    // What all four have in common, and the three pixels on each side that some have.
    let mut common = v[first + 3];
    let mut i = 4;
    while i < N {
        common = common.max(v[first + i]);
        i += 1;
    }
    let (l, r) = (first, first + N);
    let (inner_l, inner_r) = (v[l + 1].max(v[l + 2]), v[r].max(v[r + 1]));
    let maxima = [
        common.max(v[l].max(inner_l)),
        common.max(inner_l.max(v[r])),
        common.max(v[l + 2].max(inner_r)),
        common.max(inner_r.max(v[r + 2])),
    ];
    (maxima, sums)
}

/// A rectangle, row sums top to bottom.
#[inline(always)]
fn rectangle<B: Block>(b: B, corner: u32, pitch: u32, w: u32, h: u32) -> Seen {
    let mut seen = row(b, corner, w);
    let mut r = 1;
    while r < h {
        let one = row(b, corner + r * pitch, w);
        seen.max = seen.max.max(one.max);
        seen.sum += one.sum;
        r += 1;
    }
    seen
}

/// A square window of odd side `N`, all equal maxima stored, no test 2, with fixed noise or with tracked.
pub struct Square<const N: usize, const FIXED: bool>;

impl<const N: usize, const FIXED: bool> Rule for Square<N, FIXED> {
    const SIDE: usize = N;
    const SPLIT: bool = Window { w: N as u32, h: N as u32 }.is_split();
    const TRACE: bool = false;

    #[inline(always)]
    fn fixed(_: bool) -> bool {
        FIXED
    }
    #[inline(always)]
    fn window(_: &Job) -> Window {
        Window { w: N as u32, h: N as u32 }
    }
    #[inline(always)]
    fn row<B: Block>(b: B, at: u32) -> Seen {
        row(b, at, N as u32)
    }
    #[inline(always)]
    fn four<B: Block>(b: B, at: u32) -> ([f32; 4], [f32; 4]) {
        four::<B, N>(b, at)
    }
    #[inline(always)]
    fn look<B: Block>(b: B, _: &Job, corner: u32, pitch: u32) -> Seen {
        rectangle(b, corner, pitch, N as u32, N as u32)
    }
    #[inline(always)]
    fn judge<B: Block>(
        _: B,
        job: &Job,
        d: f32,
        var: f32,
        seen: Seen,
        _: impl FnOnce() -> (u32, u32),
    ) -> (Tests, bool) {
        let thr2 = job.decision.n_sigma2 * var;
        (job.decision.tests(d, thr2, seen.max, seen.sum, None), d >= seen.max)
    }
}

/// Any window, with either rule for equal maxima, with or without test 2; `TRACE`: with a branch trace.
pub struct Any<const TRACE: bool>;

impl<const TRACE: bool> Rule for Any<TRACE> {
    const SIDE: usize = 0;
    const TRACE: bool = TRACE;

    #[inline(always)]
    fn fixed(given: bool) -> bool {
        given
    }
    #[inline(always)]
    fn window(job: &Job) -> Window {
        job.window
    }
    #[inline(always)]
    fn row<B: Block>(b: B, at: u32) -> Seen {
        row(b, at, 1)
    }
    #[inline(always)]
    fn four<B: Block>(b: B, at: u32) -> ([f32; 4], [f32; 4]) {
        (b.shared_4(at), b.shared_4(at))
    }
    #[inline(always)]
    fn look<B: Block>(b: B, job: &Job, corner: u32, pitch: u32) -> Seen {
        rectangle(b, corner, pitch, job.window.w, job.window.h)
    }

    #[inline(always)]
    fn judge<B: Block>(
        b: B,
        job: &Job,
        d: f32,
        var: f32,
        seen: Seen,
        place: impl FnOnce() -> (u32, u32),
    ) -> (Tests, bool) {
        let (at, pitch) = place();
        let thr2 = job.decision.n_sigma2 * var;
        let w = job.window;
        let corner = at - w.up() * pitch - w.left() * 4;
        let quadrant = if job.test2 != 0 { Some(largest_quadrant(b, w, corner, pitch)) } else { None };
        let mut top = d >= seen.max;
        if top && job.ties_first != 0 {
            top = !stands_before(b, w, corner, pitch, d);
        }
        (job.decision.tests(d, thr2, seen.max, seen.sum, quadrant), top)
    }
}

/// The largest of the four sums from a corner of the window to its centre (odd sides).
#[inline(always)]
fn largest_quadrant<B: Block>(b: B, w: Window, corner: u32, pitch: u32) -> f32 {
    let (qw, qh) = (w.w.div_ceil(2), w.h.div_ceil(2));
    let (right, down) = ((w.w - qw) * 4, (w.h - qh) * pitch);
    let mut best = f32::NEG_INFINITY;
    let mut i = 0;
    while i < 4 {
        let at = corner + (i & 1) * right + (i >> 1) * down;
        best = best.max(rectangle(b, at, pitch, qw, qh).sum);
        i += 1;
    }
    best
}

/// Whether the value stands in the window before the centre, in raster order. Only asked for values above 0, which
/// no pixel has that takes no part; the answer for others decides nothing.
#[inline(always)]
fn stands_before<B: Block>(b: B, w: Window, corner: u32, pitch: u32, d: f32) -> bool {
    let centre = w.up() * w.w + w.left();
    let mut i = 0;
    while i < centre {
        if b.shared_f32(corner + over(i, w.w) * pitch + modulo(i, w.w) * 4) == d {
            return true;
        }
        i += 1;
    }
    false
}
