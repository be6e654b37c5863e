//! The kernel of serial mode: a decision sees what earlier pixels of the raster have become.
//!
//! When a row is decided, the rows above are final and the rows below are as at the frame's start. Only the pixels to
//! the left in the same row are open: each is `old` (as at the frame's start) or `new` (after an update). Row
//! sums, maxima and their squares never fall when a value rises, in rounded arithmetic too. So the row is judged twice
//! at once, with the smaller and with the larger of `old` and `new` at every pixel to the left: where both agree,
//! so does whatever lies between. The few pixels that stay open are judged one by one from left to right.

// Counters reach several arrays at once, and unrolled loops are written as the loops they are.
#![allow(clippy::needless_range_loop)]

use scheidegg_kernels::{Convert, Real};

use super::aligned::Plain;
use super::extract::{self, Rows};
use super::frozen::{AHEAD, ask, complete, convert, horizontal};
use super::job::{Bits, Job, PAD, Pipe, Scratch, each_bit, get_bits, paired, put_bits};
use super::serial3;
use super::vector::{BLOCK, Family, Vector};

/// See [`super::shells::Advance`]. `W` and `H` are the window, or 0 for any, with test 2 and trace.
///
/// # Safety
/// As [`super::shells::Advance`].
#[inline(always)]
pub(super) unsafe fn advance<F, P, C, const W: usize, const H: usize>(
    job: &Job<P, C>,
    pipe: &mut Pipe<C>,
    upto: usize,
) where
    F: Family<P, C>,
    P: Convert<C> + Plain,
    C: Real + Plain,
{
    let (rows, down) = (job.layout.rows, job.layout.size.down());
    if W != 3 {
        // SAFETY: the rows' corrected values are in the ring.
        unsafe { complete::<F, P, C, W>(job, pipe) };
    }
    while pipe.converted < upto {
        // SAFETY: the caller lets this frame touch the rows before `upto`.
        unsafe {
            if W == 3 {
                convert::<F, P, C, W, true>(job, pipe, pipe.converted);
            } else {
                convert::<F, P, C, W, false>(job, pipe, pipe.converted);
            }
        }
        pipe.converted += 1;
        let ready = if pipe.converted == rows { rows } else { pipe.converted.saturating_sub(down) };
        while pipe.decided < ready {
            // SAFETY: the row and all rows that its windows reach are converted.
            unsafe {
                if W == 3 {
                    serial3::decide::<F, P, C>(job, pipe, pipe.decided);
                } else {
                    decide::<F, P, C, W, H>(job, pipe, pipe.decided);
                }
            }
            pipe.decided += 1;
        }
    }
}

/// Decides row `q`, updates its pedestal and stores its windows.
///
/// # Safety
/// All rows that the windows reach are in the ring.
#[inline(always)]
unsafe fn decide<F, P, C, const W: usize, const H: usize>(job: &Job<P, C>, pipe: &mut Pipe<C>, q: usize)
where
    F: Family<P, C>,
    P: Convert<C> + Plain,
    C: Real + Plain,
{
    let layout = &job.layout;
    let h = if H == 0 { layout.size.h } else { H };
    let mut at = [std::ptr::null::<C>(); 15];
    pipe.rows(q as isize - (h / 2) as isize, layout.rows, &mut at[..h]);
    // SAFETY: the slots are those of the window's rows.
    unsafe {
        futures::<F, P, C>(job, pipe, q);
        judge::<F, P, C, W, H>(job, pipe, &at[..h], q);
        let words = layout.words;
        let open = pipe.bits(Bits::Open, 0, words);
        let mut any = 0;
        for k in 0..words {
            if job.masked() {
                *open.add(k) &= !*job.mask.add(q * words + k);
                *pipe.bits(Bits::Update, 0, words).add(k) &= !*job.mask.add(q * words + k);
            }
            any |= *open.add(k);
        }
        if any != 0 {
            let p: *mut Pipe<C> = pipe;
            each_bit(open, words, |c| judge_one(job, &mut *p, &at[..h], c));
        }
        finish::<F, P, C>(job, pipe, q);
        let slot = pipe.row(q);
        horizontal::<F, P, C, W>(job, pipe, slot);
        let rows = Rows { slots: &at[..h], before: pipe.row(q).add(PAD), own: pipe.scratch(Scratch::Old) };
        extract::row::<F, P, C, W, H>(job, pipe, q, &rows, 0);
    }
}

/// What every pixel of row `q` would be after an update, its bounds, and its threshold.
///
/// # Safety
/// The row is converted and not decided.
#[inline(always)]
unsafe fn futures<F, P, C>(job: &Job<P, C>, pipe: &mut Pipe<C>, q: usize)
where
    F: Family<P, C>,
    P: Convert<C> + Plain,
    C: Real + Plain,
{
    let width = job.layout.width;
    let slot = pipe.row(q);
    let [old, new, low, high, threshold] =
        [Scratch::Old, Scratch::New, Scratch::Low, Scratch::High, Scratch::Threshold]
            .map(|s| pipe.scratch(s));
    // SAFETY: rows of `width` values.
    unsafe {
        let (d, y) = (slot.add(PAD), slot.add(pipe.centred));
        let state = job.state.add(q * 2 * width);
        let fixed = job.fixed.wrapping_add(q * width);
        let inv_n = F::W::splat(job.inv_n);
        let n_sigma2 = F::V::splat(job.rule.n_sigma2);
        let floor2 = F::V::splat(job.rule.floor2);
        for c in (0..width).step_by(F::V::LANES) {
            let y = F::widen(F::V::load(y.add(c)));
            let s = F::W::load(state.add(paired(c)));
            let mean = s.mul(inv_n);
            let is = F::V::load(d.add(c));
            let after = s.add(y.sub(mean));
            let becomes = F::narrow(y.sub(after.mul(inv_n)));
            let thr2 = if job.fixed.is_null() {
                let mean2 = F::W::load(state.add(paired(c) + BLOCK)).mul(inv_n);
                n_sigma2.mul(F::narrow(mean2.sub(mean.mul(mean))).larger(floor2))
            } else {
                F::V::load(fixed.add(c))
            };
            is.store(old.add(c));
            becomes.store(new.add(c));
            is.smaller(becomes).store(low.add(c));
            is.larger(becomes).store(high.add(c));
            thr2.store(threshold.add(c));
        }
        if job.masked() {
            let words = job.layout.words;
            each_bit(job.mask.add(q * words), words, |c| {
                for row in [old, new, low, high] {
                    *row.add(c) = C::ZERO;
                }
            });
        }
    }
}

/// Judges a row for the lower and for the upper bounds of the pixels to the left.
///
/// # Safety
/// After [`futures`]; `at` are the slots of the window's rows.
#[inline(always)]
unsafe fn judge<F, P, C, const W: usize, const H: usize>(
    job: &Job<P, C>,
    pipe: &mut Pipe<C>,
    at: &[*const C],
    q: usize,
) where
    F: Family<P, C>,
    P: Convert<C> + Plain,
    C: Real + Plain,
{
    let size = job.layout.size;
    let (w, h) = if W == 0 { (size.w, size.h) } else { (W, H) };
    let (up, left, right) = (h / 2, w / 2, w - 1 - w / 2);
    let lanes = F::V::LANES;
    let words = job.layout.words;
    let [stored, update, open, peaks, all, negative] =
        [Bits::Stored, Bits::Update, Bits::Open, Bits::Peak, Bits::Fires, Bits::Negative]
            .map(|b| pipe.bits(b, 0, words));
    let [old, low, high, threshold] =
        [Scratch::Old, Scratch::Low, Scratch::High, Scratch::Threshold].map(|s| pipe.scratch(s));
    // SAFETY: rows of `width` values with pads of a window's reach, rows of bits with a bit a column.
    unsafe {
        let zero = F::V::splat(C::ZERO);
        let area = F::V::splat(job.rule.area);
        let corner_area = F::V::splat(job.rule.corner_area);
        for c in (0..job.layout.width).step_by(lanes) {
            let p = pipe.sums + paired(c);
            ask::<F::V, P, C>(job, q + h - up + AHEAD, 1, c);
            // The window's own row, for both bounds.
            let mut row = [zero; 2];
            let mut max = [zero; 2];
            for (b, bound) in [low, high].into_iter().enumerate() {
                let from = bound.add(c).sub(left);
                row[b] = F::V::load(from);
                max[b] = row[b];
                for i in 1..left {
                    let v = F::V::load(from.add(i));
                    row[b] = row[b].add(v);
                    max[b] = max[b].peak(v);
                }
            }
            let d = F::V::load(old.add(c));
            let mut shared = zero.peak(d);
            row = [row[0].add(d), row[1].add(d)];
            for i in 1..=right {
                let v = F::V::load(old.add(c + i));
                row = [row[0].add(v), row[1].add(v)];
                shared = shared.peak(v);
            }
            // The rows above, this row, the rows below: sums in that order.
            let mut above = F::V::load(at[0].add(p));
            shared = shared.peak(F::V::load(at[0].add(p + BLOCK)));
            for slot in &at[1..up] {
                above = above.add(F::V::load(slot.add(p)));
                shared = shared.peak(F::V::load(slot.add(p + BLOCK)));
            }
            let mut sum = [above.add(row[0]), above.add(row[1])];
            for slot in &at[up + 1..h] {
                let s = F::V::load(slot.add(p));
                sum = [sum[0].add(s), sum[1].add(s)];
                shared = shared.peak(F::V::load(slot.add(p + BLOCK)));
            }
            let thr2 = F::V::load(threshold.add(c));
            let bar = area.mul(thr2);
            let far = d.mul(d).gt(thr2);
            let mut verdict = [(0, 0, 0); 2];
            for b in 0..2 {
                let max = max[b].peak(shared);
                let peak = max.mul(max).gt(thr2);
                let total = zero.larger(sum[b]);
                let mut fires = F::V::or(peak, total.mul(total).gt(bar));
                if H == 0 && job.test2 {
                    let corner = corners::<F, P, C>(pipe, at, c, w, b);
                    fires = F::V::or(fires, corner.mul(corner).gt(corner_area.mul(thr2)));
                }
                verdict[b] = (F::V::bits(peak), F::V::bits(fires), F::V::bits(d.ge(max)));
            }
            let [(peak, fires, top), (peak_high, fires_high, top_high)] = verdict;
            // Whoever fires for the upper bound may fire; only then does it matter which test and who is on top.
            let differs =
                (fires ^ fires_high) | ((peak ^ peak_high) & fires_high) | ((top ^ top_high) & fires_high);
            let far = F::V::bits(far);
            put_bits(open, c, lanes, differs);
            put_bits(stored, c, lanes, fires & top & !differs);
            put_bits(update, c, lanes, !(fires | far));
            if H == 0 && !job.trace.is_null() {
                put_bits(peaks, c, lanes, peak);
                put_bits(all, c, lanes, fires);
                put_bits(negative, c, lanes, far & F::V::bits(zero.gt(d)));
            }
        }
    }
}

/// The largest corner sum of the windows at a column, for the lower (0) or upper bound (1).
///
/// # Safety
/// As [`judge`], with half row sums in the slots.
#[inline(always)]
unsafe fn corners<F, P, C>(pipe: &mut Pipe<C>, at: &[*const C], c: usize, w: usize, bound: usize) -> F::V
where
    F: Family<P, C>,
    C: Real + Plain,
{
    let (up, left) = (at.len() / 2, w / 2);
    let place = pipe.halves + paired(c);
    let bounds = pipe.scratch(if bound == 0 { Scratch::Low } else { Scratch::High });
    let old = pipe.scratch(Scratch::Old);
    // SAFETY: as the caller promises.
    unsafe {
        let from = bounds.add(c).sub(left);
        let mut own = [F::V::load(from), F::V::load(old.add(c))];
        for i in 1..left {
            own[0] = own[0].add(F::V::load(from.add(i)));
        }
        own[0] = own[0].add(F::V::load(old.add(c)));
        for i in 1..=left {
            own[1] = own[1].add(F::V::load(old.add(c + i)));
        }
        let mut best = F::V::splat(C::ZERO);
        for (side, own) in own.into_iter().enumerate() {
            let mut upper = F::V::load(at[0].add(place + side * BLOCK));
            for slot in &at[1..up] {
                upper = upper.add(F::V::load(slot.add(place + side * BLOCK)));
            }
            let mut lower = own;
            for slot in &at[up + 1..] {
                lower = lower.add(F::V::load(slot.add(place + side * BLOCK)));
            }
            best = best.larger(upper.add(own)).larger(lower);
        }
        best
    }
}

/// Judges one pixel whose neighbours to the left are decided, from the values themselves.
///
/// # Safety
/// After [`judge`]; all open pixels to the left have been judged.
#[inline(never)]
unsafe fn judge_one<P, C: Real + Plain>(job: &Job<P, C>, pipe: &mut Pipe<C>, at: &[*const C], c: usize) {
    let size = job.layout.size;
    let words = job.layout.words;
    let (up, left) = (size.up(), size.left());
    let update = pipe.bits(Bits::Update, 0, words);
    let [old, new, threshold] = [Scratch::Old, Scratch::New, Scratch::Threshold].map(|s| pipe.scratch(s));
    // SAFETY: windows reach at most `PAD` values past both ends of a row; the pads hold zeros, and bits are asked for
    // only where there are pixels.
    unsafe {
        let updated = |c: usize| get_bits(update, c / 8 * 8, 8) >> (c % 8) & 1 == 1;
        let value = |i: usize, j: usize| match (i == up, (c + j).checked_sub(left)) {
            (false, _) => *at[i].add(PAD + c + j).sub(left),
            (true, None) => C::ZERO,
            (true, Some(col)) if j < left && updated(col) => *new.add(col),
            (true, Some(col)) => *old.add(col),
        };
        let mut max = C::ZERO;
        let part = |rows: std::ops::Range<usize>, cols: std::ops::Range<usize>| {
            let mut total = None;
            for i in rows {
                let mut sum = value(i, cols.start);
                for j in cols.start + 1..cols.end {
                    sum = sum + value(i, j);
                }
                total = Some(total.map_or(sum, |t| t + sum));
            }
            total.unwrap_or(C::ZERO)
        };
        for k in 0..size.pixels() {
            max = max.larger(value(k / size.w, k % size.w));
        }
        let sum = part(0..size.h, 0..size.w);
        let corner = job.test2.then(|| {
            [(0, 0), (0, left), (up, 0), (up, left)]
                .map(|(i, j)| part(i..i + up + 1, j..j + left + 1))
                .into_iter()
                .fold(C::ZERO, C::larger)
        });
        let (d, thr2) = (*old.add(c), *threshold.add(c));
        let branch = job.rule.branch(d, thr2, max, sum, corner, d >= max);
        use scheidegg_kernels::Branch::*;
        let mut set = |bits: Bits, on: bool| {
            let byte = pipe.bits(bits, 0, words).cast::<u8>().add(c / 8);
            *byte = *byte & !(1 << (c % 8)) | u8::from(on) << (c % 8);
        };
        set(Bits::Stored, branch.is_stored());
        set(Bits::Update, branch == Update);
        set(Bits::Peak, matches!(branch, Shadow | StorePeak));
        set(Bits::Fires, !matches!(branch, Update | Negative));
    }
}

/// Updates the pedestal of row `q` and puts the final corrected values into the ring.
///
/// # Safety
/// The row is judged.
#[inline(always)]
unsafe fn finish<F, P, C>(job: &Job<P, C>, pipe: &mut Pipe<C>, q: usize)
where
    F: Family<P, C>,
    P: Convert<C> + Plain,
    C: Real + Plain,
{
    let (width, lanes) = (job.layout.width, F::V::LANES);
    let slot = pipe.row(q);
    let update = pipe.bits(Bits::Update, 0, job.layout.words);
    let (old, new) = (pipe.scratch(Scratch::Old), pipe.scratch(Scratch::New));
    // SAFETY: rows of `width` values.
    unsafe {
        let (d, y) = (slot.add(PAD), slot.add(pipe.centred));
        let state = job.state.add(q * 2 * width);
        let inv_n = F::W::splat(job.inv_n);
        for c in (0..width).step_by(lanes) {
            let updated = F::V::mask(get_bits(update, c, lanes));
            F::V::load(new.add(c)).or_else(updated, F::V::load(old.add(c))).store(d.add(c));
            let y = F::widen(F::V::load(y.add(c)));
            let (sum, sum2) = (state.add(paired(c)), state.add(paired(c) + BLOCK));
            let (s, s2) = (F::W::load(sum), F::W::load(sum2));
            let updated = F::mask(updated);
            s.add(y.sub(s.mul(inv_n))).or_else(updated, s).store(sum);
            s2.add(y.mul(y).sub(s2.mul(inv_n))).or_else(updated, s2).store(sum2);
        }
    }
}
