//! The kernel of frozen mode: every decision sees the pedestal at the start of the frame.
//!
//! Row by row: convert (corrected values into the ring, then the sum and maximum of every window's row), and as
//! soon as the rows below a pair of rows are there, decide the pair, update its pedestal and store its windows.
//! Nothing of the frame's start is read again once it is updated.
//!
//! Pixels outside the frame and masked pixels are zeros in the ring. That is exact: a zero can win a window only
//! where no value is above zero, and there neither test 1 nor a sum test can succeed.

// Counters reach several arrays at once, and unrolled loops are written as the loops they are.
#![allow(clippy::needless_range_loop)]

use scheidegg_kernels::{Convert, Real};

use super::aligned::Plain;
use super::extract::{self, Rows};
use super::job::{AT_ONCE, Bits, Job, PAD, Pipe, each_bit, paired, put_bits};
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
        while ready >= pipe.decided + AT_ONCE {
            // SAFETY: the rows and all rows that their windows reach are converted.
            unsafe { decide::<F, P, C, W, H, AT_ONCE>(job, pipe, pipe.decided) };
            pipe.decided += AT_ONCE;
        }
        while ready == rows && pipe.decided < rows {
            // SAFETY: as above.
            unsafe { decide::<F, P, C, W, H, 1>(job, pipe, pipe.decided) };
            pipe.decided += 1;
        }
    }
}

/// Asks for the pixels at a column of rows that are converted soon. A frame comes from far; this is done while rows
/// are decided, when the caches have little else to do.
#[inline(always)]
pub(super) fn ask<V: Vector, P, C>(job: &Job<P, C>, row: usize, rows: usize, c: usize) {
    if c.is_multiple_of(LINE / 2) {
        for r in row..row + rows {
            // SAFETY: a hint; the address need not be one of the frame.
            unsafe { V::prefetch(job.frame.wrapping_add(r * job.layout.cols + c).cast()) };
        }
    }
}

/// Bytes of a cache line.
const LINE: usize = 64;

/// Rows between the last one converted and those that are asked for.
pub(super) const AHEAD: usize = 2;

/// Converts row `r`: centred pixels, corrected values and, unless they are taken `DIRECT`ly from those, row sums
/// and row maxima of every window.
///
/// # Safety
/// The frame may touch row `r`, and its slot in the ring is free.
#[inline(always)]
pub(super) unsafe fn convert<F, P, C, const W: usize, const DIRECT: bool>(
    job: &Job<P, C>,
    pipe: &mut Pipe<C>,
    r: usize,
) where
    F: Family<P, C>,
    P: Convert<C> + Plain,
    C: Real + Plain,
{
    let layout = &job.layout;
    let lanes = F::V::LANES;
    let slot = pipe.row(r);
    // SAFETY: row `r` of every plane has `width` values (the frame's has `cols`, its last partial vector is read
    // from `tail`), a slot is laid out as `Pipe` says.
    unsafe {
        let x = job.frame.add(r * layout.cols);
        let x0 = job.x0.add(r * layout.width);
        let state = job.state.add(r * 2 * layout.width);
        let (d, y) = (slot.add(PAD), slot.add(pipe.centred));
        let inv_n = F::W::splat(job.inv_n);
        let whole = layout.cols / lanes * lanes;
        for c in (0..whole).step_by(lanes) {
            correct::<F, P, C>(x.add(c), x0.add(c), state.add(paired(c)), inv_n, d.add(c), y.add(c));
        }
        if whole < layout.width {
            // Columns past the frame read 0, as does their offset and their sum.
            pipe.tail = [0; BLOCK];
            x.add(whole).copy_to_nonoverlapping(pipe.tail.as_mut_ptr(), layout.cols - whole);
            for c in (whole..layout.width).step_by(lanes) {
                let x = pipe.tail.as_ptr().add(c - whole);
                correct::<F, P, C>(x, x0.add(c), state.add(paired(c)), inv_n, d.add(c), y.add(c));
            }
        }
        if job.masked() {
            each_bit(job.mask.add(r * layout.words), layout.words, |c| *d.add(c) = C::ZERO);
        }
        if !DIRECT {
            horizontal::<F, P, C, W>(job, pipe, slot);
        }
    }
}

/// A vector of centred pixels `y` and corrected values `d`.
///
/// # Safety
/// All pointers are good for a vector.
#[inline(always)]
unsafe fn correct<F, P, C>(x: *const u16, x0: *const u16, sum: *const P, inv_n: F::W, d: *mut C, y: *mut C)
where
    F: Family<P, C>,
    P: Convert<C>,
    C: Real,
{
    // SAFETY: as the caller promises.
    unsafe {
        let centred = F::V::pixels(x, x0);
        let mean = F::W::load(sum).mul(inv_n);
        centred.store(y);
        F::narrow(F::widen(centred).sub(mean)).store(d);
    }
}

/// The row sums and maxima of rows that came without them.
///
/// # Safety
/// The corrected values of these rows are in the ring.
#[inline(always)]
pub(super) unsafe fn complete<F, P, C, const W: usize>(job: &Job<P, C>, pipe: &mut Pipe<C>)
where
    F: Family<P, C>,
    P: Convert<C> + Plain,
    C: Real + Plain,
{
    for r in pipe.decided - pipe.bare..pipe.decided {
        let slot = pipe.row(r);
        // SAFETY: a slot of the ring.
        unsafe { horizontal::<F, P, C, W>(job, pipe, slot) };
    }
    pipe.bare = 0;
}

/// The row sums and maxima of every window from the corrected values of a slot.
///
/// # Safety
/// `slot` is a slot of the pipe's ring.
#[inline(always)]
pub(super) unsafe fn horizontal<F, P, C, const W: usize>(job: &Job<P, C>, pipe: &Pipe<C>, slot: *mut C)
where
    F: Family<P, C>,
    P: Convert<C> + Plain,
    C: Real + Plain,
{
    let size = job.layout.size;
    let w = if W == 0 { size.w } else { W };
    let left = w / 2;
    // SAFETY: windows reach at most `PAD` values past both ends of a row.
    unsafe {
        let (d, sums) = (slot.add(PAD), slot.add(pipe.sums));
        let lanes = F::V::LANES;
        let mut near = (F::V::splat(C::ZERO), F::V::load(d));
        for c in (0..job.layout.width).step_by(lanes) {
            let (before, own) = near;
            let after = F::V::load(d.add(c + lanes));
            near = (own, after);
            let mut sum = F::V::splat(C::ZERO);
            let mut max = sum;
            for i in 0..w {
                let by = i as isize - left as isize;
                let v = match W {
                    0 => F::V::load(d.add(c).offset(by)),
                    _ => F::V::aside(before, own, after, d.add(c), by),
                };
                (sum, max) = if i == 0 { (v, v) } else { (sum.add(v), max.peak(v)) };
            }
            sum.store(sums.add(paired(c)));
            max.store(sums.add(paired(c) + BLOCK));
        }
        if W == 0 && job.test2 {
            let halves = slot.add(pipe.halves);
            for c in (0..job.layout.width).step_by(F::V::LANES) {
                for (half, from) in [d.add(c).sub(left), d.add(c)].into_iter().enumerate() {
                    let mut sum = F::V::load(from);
                    for i in 1..w.div_ceil(2) {
                        sum = sum.add(F::V::load(from.add(i)));
                    }
                    sum.store(halves.add(paired(c) + half * BLOCK));
                }
            }
        }
    }
}

/// The largest corner sum of the windows at a column; `at` are the slots of the window's rows.
///
/// # Safety
/// The slots hold half row sums.
#[inline(always)]
pub(super) unsafe fn corners<F, P, C>(pipe: &Pipe<C>, at: &[*const C], c: usize) -> F::V
where
    F: Family<P, C>,
    C: Real + Plain,
{
    let reach = at.len() / 2;
    // SAFETY: as the caller promises.
    unsafe {
        let place = pipe.halves + paired(c);
        let mut best = F::V::splat(C::ZERO);
        for (first, side) in [(0, 0), (0, 1), (reach, 0), (reach, 1)] {
            let mut sum = F::V::load(at[first].add(place + side * BLOCK));
            for row in first + 1..=first + reach {
                sum = sum.add(F::V::load(at[row].add(place + side * BLOCK)));
            }
            best = best.larger(sum);
        }
        best
    }
}

/// Decides rows `q .. q + ROWS`, updates their pedestal and stores their windows.
///
/// # Safety
/// All rows that the windows reach are in the ring.
#[inline(always)]
unsafe fn decide<F, P, C, const W: usize, const H: usize, const ROWS: usize>(
    job: &Job<P, C>,
    pipe: &mut Pipe<C>,
    q: usize,
) where
    F: Family<P, C>,
    P: Convert<C> + Plain,
    C: Real + Plain,
{
    let layout = &job.layout;
    let h = if H == 0 { layout.size.h } else { H };
    let up = h / 2;
    let lanes = F::V::LANES;
    let mut at = [std::ptr::null::<C>(); 15 + AT_ONCE];
    pipe.rows(q as isize - up as isize, layout.rows, &mut at[..h + ROWS - 1]);
    let stored: [*mut u64; ROWS] = std::array::from_fn(|j| pipe.bits(Bits::Stored, j, layout.words));
    let noted: [[*mut u64; 3]; ROWS] = std::array::from_fn(|j| {
        [Bits::Peak, Bits::Fires, Bits::Negative].map(|b| pipe.bits(b, j, layout.words))
    });
    // SAFETY: the rows' planes have `width` values, the slots are laid out as `Pipe` says, rows of bits have a bit a
    // column.
    unsafe {
        if job.masked() {
            save(job, pipe, q, ROWS);
        }
        let zero = F::V::splat(C::ZERO);
        let inv_n = F::W::splat(job.inv_n);
        let n_sigma2 = F::V::splat(job.rule.n_sigma2);
        let area = F::V::splat(job.rule.area);
        let corner_area = F::V::splat(job.rule.corner_area);
        let floor2 = F::V::splat(job.rule.floor2);
        let state: [*mut P; ROWS] = std::array::from_fn(|j| job.state.add((q + j) * 2 * layout.width));
        let fixed: [*const C; ROWS] = std::array::from_fn(|j| job.fixed.wrapping_add((q + j) * layout.width));
        let sums: [*const C; 15 + AT_ONCE] = std::array::from_fn(|i| at[i].wrapping_add(pipe.sums));
        let centred: [*const C; ROWS] = std::array::from_fn(|j| at[j + up].add(pipe.centred));
        let own: [*const C; ROWS] = std::array::from_fn(|j| at[j + up].add(PAD));
        let tracked = job.fixed.is_null();
        // Windows 3 wide: the vectors of each row before this column and at it.
        let mut near = [(zero, zero); 2 + AT_ONCE];
        if W == 3 {
            for i in 0..h + ROWS - 1 {
                near[i].1 = F::V::load(at[i].add(PAD));
            }
        }
        for c in (0..layout.width).step_by(lanes) {
            let p = paired(c);
            ask::<F::V, P, C>(job, q + ROWS + h - 1 - up + AHEAD, ROWS, c);
            // Sums top to bottom, one for every row; maxima of the rows that all windows share only once.
            let mut sum = [zero; ROWS];
            let mut max = [zero; ROWS];
            let mut shared = zero;
            for i in 0..h + ROWS - 1 {
                let (s, m) = if W == 3 {
                    // Three values are sooner had again than kept: the ring stays in the first-level cache.
                    let (before, own) = near[i];
                    let from = at[i].add(PAD + c);
                    let after = F::V::load(from.add(lanes));
                    let (left, right) = F::V::beside(before, own, after, from);
                    near[i] = (own, after);
                    (left.add(own).add(right), left.peak(own).peak(right))
                } else {
                    (F::V::load(sums[i].add(p)), F::V::load(sums[i].add(p + BLOCK)))
                };
                for j in 0..ROWS {
                    if i == j {
                        sum[j] = s;
                    } else if i > j && i < j + h {
                        sum[j] = sum[j].add(s);
                    }
                }
                if i + 1 >= ROWS && i < h {
                    shared = shared.peak(m);
                } else {
                    for j in 0..ROWS {
                        if i >= j && i < j + h {
                            max[j] = max[j].peak(m);
                        }
                    }
                }
            }
            for j in 0..ROWS {
                let max = match (ROWS == 1, ROWS > h) {
                    (true, _) => shared,
                    (_, true) => max[j],
                    _ => max[j].peak(shared),
                };
                let y = F::widen(F::V::load(centred[j].add(c)));
                let s = F::W::load(state[j].add(p));
                let s2 = F::W::load(state[j].add(p + BLOCK));
                let (mean, mean2) = (s.mul(inv_n), s2.mul(inv_n));
                let d = F::V::load(own[j].add(c));
                let over = if F::SAME { F::widen(d) } else { y.sub(mean) };
                let thr2 = if tracked {
                    // A variance below 0 is below the floor's square too.
                    n_sigma2.mul(F::narrow(mean2.sub(mean.mul(mean))).larger(floor2))
                } else {
                    F::V::load(fixed[j].add(c))
                };
                // `max` is never below 0 here, so that its square alone tells.
                let total = zero.peak(sum[j]);
                let dark = max.mul(max).le(thr2);
                let mut quiet = total.mul(total).and_le(dark, area.mul(thr2));
                if H == 0 && job.test2 {
                    let corner = corners::<F, P, C>(pipe, &at[j..j + h], c);
                    quiet = corner.mul(corner).and_le(quiet, corner_area.mul(thr2));
                }
                let fires = F::V::not(quiet);
                // Far above the pedestal is a peak, so that what is far from it and no peak is below.
                let d2 = d.mul(d);
                put_bits(stored[j], c, lanes, F::V::bits(d.and_ge(fires, max)));
                if H == 0 && !job.trace.is_null() {
                    put_bits(noted[j][0], c, lanes, F::V::bits(F::V::not(dark)));
                    put_bits(noted[j][1], c, lanes, F::V::bits(fires));
                    put_bits(noted[j][2], c, lanes, F::V::bits(d2.gt(thr2)) & F::V::bits(zero.gt(d)));
                }
                let fed = F::mask(d2.and_le(quiet, thr2));
                s.add_where(fed, over).store(state[j].add(p));
                s2.add_where(fed, y.mul(y).sub(mean2)).store(state[j].add(p + BLOCK));
            }
        }
        if job.masked() {
            restore(job, pipe);
        }
        for j in 0..ROWS {
            let centre = at[j + up].add(PAD);
            let rows = Rows { slots: &at[j..j + h], before: centre, own: centre };
            extract::row::<F, P, C, W, H>(job, pipe, q + j, &rows, j);
        }
    }
}

/// Puts the state of the masked pixels of rows `q .. q + count` aside.
///
/// # Safety
/// The job has a mask and may touch the rows.
pub(super) unsafe fn save<P: Convert<C> + Plain, C: Real + Plain>(
    job: &Job<P, C>,
    pipe: &mut Pipe<C>,
    q: usize,
    count: usize,
) {
    let layout = &job.layout;
    pipe.saved.clear();
    for r in q..q + count {
        // SAFETY: rows of the mask and of the state.
        unsafe {
            each_bit(job.mask.add(r * layout.words), layout.words, |c| {
                let i = r * 2 * layout.width + paired(c);
                let at = job.state.add(i);
                pipe.saved.push((i, (*at).to_f64(), (*at.add(BLOCK)).to_f64()));
            });
        }
    }
}

/// Gives the masked pixels their state back.
///
/// # Safety
/// After [`save`].
pub(super) unsafe fn restore<P: Convert<C> + Plain, C: Real + Plain>(job: &Job<P, C>, pipe: &Pipe<C>) {
    for &(i, sum, sum2) in &pipe.saved {
        // SAFETY: the places they were read from.
        unsafe {
            *job.state.add(i) = P::from_f64(sum);
            *job.state.add(i + BLOCK) = P::from_f64(sum2);
        }
    }
}
