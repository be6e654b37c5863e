//! The kernel of serial mode for windows of 3 x 3: a row is judged and updated in one pass.
//!
//! The idea is that of [`super::serial`]. The only pixel of a window that is open is the one to the left, so that the
//! bounds of a row need not be written down: a vector's are at hand when the next vector needs the last of them. What
//! both bounds agree on is done at once; the few pixels that stay open are judged one by one afterwards.

// Counters reach several arrays at once, and unrolled loops are written as the loops they are.
#![allow(clippy::needless_range_loop)]

use scheidegg_kernels::{Branch, Convert, Real, physics};

use super::aligned::Plain;
use super::extract::{self, Rows};
use super::frozen::{AHEAD, ask, restore, save};
use super::job::{Bits, Job, PAD, Pipe, each_bit, get_bits, paired, put_bits};
use super::vector::{BLOCK, Family, Vector};

/// Decides row `q`, updates its pedestal and stores its windows.
///
/// # Safety
/// The row and the one below are converted, the one above is decided.
#[inline(always)]
pub(super) unsafe fn decide<F, P, C>(job: &Job<P, C>, pipe: &mut Pipe<C>, q: usize)
where
    F: Family<P, C>,
    P: Convert<C> + Plain,
    C: Real + Plain,
{
    let words = job.layout.words;
    let mut at = [std::ptr::null::<C>(); 3];
    pipe.rows(q as isize - 1, job.layout.rows, &mut at);
    // Above are the values after the update; a row of them lies between pads too.
    let slots = [at[0].wrapping_add(pipe.finals), at[1], at[2]];
    let own = pipe.row(q);
    // SAFETY: the slots are those of the window's rows.
    unsafe {
        let rows = [slots[0].add(PAD), own.add(PAD), slots[2].add(PAD)];
        let finals = own.add(pipe.finals + PAD);
        if job.masked() {
            save(job, pipe, q, 1);
        }
        let any = judge::<F, P, C>(job, pipe, q, rows, finals);
        if any {
            let open = pipe.bits(Bits::Open, 0, words);
            if job.masked() {
                for k in 0..words {
                    *open.add(k) &= !*job.mask.add(q * words + k);
                }
            }
            let pipe: *mut Pipe<C> = pipe;
            each_bit(open, words, |c| judge_one(job, &mut *pipe, q, rows, finals, c));
        }
        if job.masked() {
            restore(job, pipe);
        }
        let rows = Rows { slots: &slots, before: finals, own: rows[1] };
        extract::row::<F, P, C, 3, 3>(job, pipe, q, &rows, 0);
    }
}

/// Judges row `q` for both bounds of the pixel to the left, and updates what both agree on. Returns whether a pixel is
/// open.
///
/// # Safety
/// `rows` are those of the window at their column 0, `finals` is the row of values after the update.
#[inline(always)]
unsafe fn judge<F, P, C>(
    job: &Job<P, C>,
    pipe: &mut Pipe<C>,
    q: usize,
    rows: [*const C; 3],
    finals: *mut C,
) -> bool
where
    F: Family<P, C>,
    P: Convert<C> + Plain,
    C: Real + Plain,
{
    let (width, lanes) = (job.layout.width, F::V::LANES);
    let [stored, open] = [Bits::Stored, Bits::Open].map(|b| pipe.bits(b, 0, job.layout.words));
    let mut any = 0;
    // SAFETY: rows of `width` values with pads of a vector and more, rows of bits with a bit a column.
    unsafe {
        let zero = F::V::splat(C::ZERO);
        let inv_n = F::W::splat(job.inv_n);
        let n_sigma2 = F::V::splat(job.rule.n_sigma2);
        let area = F::V::splat(job.rule.area);
        let floor2 = F::V::splat(job.rule.floor2);
        let state = job.state.add(q * 2 * width);
        let fixed = job.fixed.wrapping_add(q * width);
        let masked = job.mask.wrapping_add(q * job.layout.words);
        let centred = rows[1].sub(PAD).add(pipe.centred);
        let (tracked, whole) = (job.fixed.is_null(), !job.masked());
        // Of each row the vectors before this column and at it; of the bounds those before. Loops instead of closures on
        // vectors: a closure would not have the instruction set of the shell that it ends up in.
        let mut near = [(zero, zero); 3];
        for i in 0..3 {
            near[i].1 = F::V::load(rows[i]);
        }
        let mut bounds = [zero; 2];
        for c in (0..width).step_by(lanes) {
            let p = paired(c);
            ask::<F::V, P, C>(job, q + 2 + AHEAD, 1, c);
            let mut own = [zero; 3];
            let mut beside = [(zero, zero); 3];
            for i in 0..3 {
                let after = F::V::load(rows[i].add(c + lanes));
                beside[i] = F::V::beside(near[i].0, near[i].1, after, rows[i].add(c));
                own[i] = near[i].1;
                near[i] = (near[i].1, after);
            }
            let [above, d, below] = own;

            let y = F::widen(F::V::load(centred.add(c)));
            let (s, s2) = (F::W::load(state.add(p)), F::W::load(state.add(p + BLOCK)));
            let (mean, mean2) = (s.mul(inv_n), s2.mul(inv_n));
            let over = if F::SAME { F::widen(d) } else { y.sub(mean) };
            let mut becomes = F::narrow(y.sub(s.add(over).mul(inv_n)));
            if !whole {
                becomes = zero.or_else(F::V::mask(get_bits(masked, c, lanes)), becomes);
            }
            let thr2 = if tracked {
                n_sigma2.mul(F::narrow(mean2.sub(mean.mul(mean))).larger(floor2))
            } else {
                F::V::load(fixed.add(c))
            };
            let bar = area.mul(thr2);

            let right = beside[1].1;
            let upper = beside[0].0.add(above).add(beside[0].1);
            let lower = beside[2].0.add(below).add(beside[2].1);
            let shared = beside[0].0.peak(above).peak(beside[0].1.peak(d));
            let shared = zero.peak(shared.peak(beside[2].0.peak(below).peak(beside[2].1.peak(right))));
            // For the lower and for the upper bound of the pixel to the left.
            let mut max = [d.smaller(becomes), d.larger(becomes)];
            let mut quiet = [F::V::mask(0); 2];
            for b in 0..2 {
                let left = F::V::earlier(bounds[b], max[b]);
                bounds[b] = max[b];
                max[b] = shared.peak(left);
                let total = zero.peak(upper.add(left.add(d).add(right)).add(lower));
                quiet[b] = total.mul(total).and_le(max[b].mul(max[b]).le(thr2), bar);
            }
            // With the lower bound fewer fire and more are on top.
            let fires = F::V::not(quiet[0]);
            let (top, top_high) = (d.and_ge(fires, max[0]), d.and_ge(fires, max[1]));
            let fed = d.mul(d).and_le(quiet[1], thr2);
            let (fired, maybe) = (F::V::bits(quiet[0]), F::V::bits(quiet[1]));
            let unsure = (fired ^ maybe) | (F::V::bits(top) ^ F::V::bits(top_high));
            any |= unsure;
            put_bits(open, c, lanes, unsure);
            put_bits(stored, c, lanes, F::V::bits(top_high));
            becomes.or_else(fed, d).store(finals.add(c));
            let fed = F::mask(fed);
            s.add_where(fed, over).store(state.add(p));
            s2.add_where(fed, y.mul(y).sub(mean2)).store(state.add(p + BLOCK));
        }
    }
    any != 0
}

/// Judges and updates one pixel; the pixels to the left are done.
///
/// # Safety
/// As [`judge`], and after it.
#[inline(never)]
unsafe fn judge_one<P: Convert<C> + Plain, C: Real + Plain>(
    job: &Job<P, C>,
    pipe: &mut Pipe<C>,
    q: usize,
    rows: [*const C; 3],
    finals: *mut C,
    c: usize,
) {
    let layout = &job.layout;
    // SAFETY: windows reach one value past both ends of a row; pads hold zeros.
    unsafe {
        let value = |i: usize, j: usize| match (i, j) {
            (1, 0) => *finals.add(c).sub(1),
            _ => *rows[i].add(c).sub(1).add(j),
        };
        let row = |i: usize| value(i, 0) + value(i, 1) + value(i, 2);
        let sum = row(0) + row(1) + row(2);
        let max = (0..9).fold(C::ZERO, |max, k| max.larger(value(k / 3, k % 3)));
        let state = job.state.add(q * 2 * layout.width + paired(c));
        let (s, s2) = (*state, *state.add(BLOCK));
        let y = P::from_f64((*rows[1].sub(PAD).add(pipe.centred + c)).to_f64());
        let thr2 = match job.fixed.is_null() {
            true => job.rule.n_sigma2 * physics::variance(s, s2, job.inv_n, job.rule.floor2),
            false => *job.fixed.add(q * layout.width + c),
        };
        let d = value(1, 1);
        let branch = job.rule.branch(d, thr2, max, sum, None, d >= max);
        let byte = pipe.bits(Bits::Stored, 0, layout.words).cast::<u8>().add(c / 8);
        *byte = *byte & !(1 << (c % 8)) | u8::from(branch.is_stored()) << (c % 8);
        if branch == Branch::Update {
            let (s, s2) = physics::update(s, s2, y, job.inv_n);
            (*state, *state.add(BLOCK)) = (s, s2);
            *finals.add(c) = physics::corrected(y, s, job.inv_n);
        }
    }
}
