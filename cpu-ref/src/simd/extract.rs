//! From the bits of a row to records: coordinates and the values of the window.

use half::f16;
use scheidegg_finder::{Branch, Payload};
use scheidegg_kernels::{Convert, Real, physics};

use super::aligned::Plain;
use super::job::{Bits, GUESS, Job, PAD, Pipe, SPILL, get_bits};
use super::vector::{Family, Vector};

/// The rows of a window, as pointers to their column 0. The centre's row has two: `before` for the pixels to the
/// left, `own` for the pixel itself and those to the right (in frozen mode both are one).
pub(super) struct Rows<'a, C> {
    /// Slots in the ring.
    pub slots: &'a [*const C],
    /// The centre's row, left of the centre.
    pub before: *const C,
    /// The centre's row from the centre on.
    pub own: *const C,
}

impl<C: Real> Rows<'_, C> {
    /// The value of row `i`, column `j` of the window at column `c` of the frame.
    ///
    /// # Safety
    /// The window is one of the row.
    #[inline(always)]
    unsafe fn value(&self, i: usize, j: usize, c: usize, left: usize) -> C {
        let up = self.slots.len() / 2;
        // SAFETY: a window reaches at most `PAD` values past both ends of a row.
        unsafe {
            let row = match (i == up, j < left) {
                (false, _) => self.slots[i].add(PAD),
                (true, true) => self.before,
                (true, false) => self.own,
            };
            *row.add(c).sub(left).add(j)
        }
    }

    /// Whether the centre's value stands in the window before it in raster order.
    ///
    /// # Safety
    /// As [`Rows::value`].
    unsafe fn repeats(&self, c: usize, w: usize) -> bool {
        let (up, left) = (self.slots.len() / 2, w / 2);
        // SAFETY: as the caller promises.
        unsafe {
            let own = *self.own.add(c);
            (0..up * w + left).any(|k| self.value(k / w, k % w, c, left) == own)
        }
    }
}

/// Stores the windows of row `q` whose bits are set, the `of`-th of those decided at once, and writes its trace.
///
/// # Safety
/// The row's bits are written and the rows of its windows are in the ring.
#[inline(always)]
pub(super) unsafe fn row<F, P, C, const W: usize, const H: usize>(
    job: &Job<P, C>,
    pipe: &mut Pipe<C>,
    q: usize,
    rows: &Rows<'_, C>,
    of: usize,
) where
    F: Family<P, C>,
    P: Convert<C> + Plain,
    C: Real + Plain,
{
    let size = job.layout.size;
    let (w, h) = if W == 0 { (size.w, size.h) } else { (W, H) };
    let words = job.layout.words;
    let stored = pipe.bits(Bits::Stored, of, words);
    if job.masked() {
        for k in 0..words {
            // SAFETY: rows of `words` words. A masked pixel stores nothing.
            unsafe { *stored.add(k) &= !*job.mask.add(q * words + k) };
        }
    }
    if W == 0 && !job.trace.is_null() {
        // SAFETY: the bits are those of the row.
        unsafe { trace(job, pipe, q, rows, of) };
    }
    let bytes = 4 + w * h * job.payload.bytes();
    let layout = &job.layout;
    pipe.stage.reserve(bytes * layout.cols);
    // SAFETY: there is a bit a column, and room for the column of every one.
    let picks = unsafe { picks(stored, words, pipe.picks.as_mut_slice()) };
    let stage = &mut pipe.stage;
    let mut ring = [0i32; 15 * 15 + SPILL / 4];
    // SAFETY: there is room for a record of every column and `SPILL` bytes more.
    unsafe {
        let mut to = stage.end();
        let first = to;
        for &c in picks {
            let c = usize::from(c);
            if job.ties_first && rows.repeats(c, w) {
                continue;
            }
            to.cast::<[u16; 2]>().write_unaligned([c as u16, q as u16]);
            match job.payload {
                Payload::I32 if job.small => rounded::<F, P, C>(rows, c, w, h, to.add(4).cast()),
                Payload::I16 if job.small => {
                    rounded::<F, P, C>(rows, c, w, h, ring.as_mut_ptr());
                    let to = to.add(4).cast::<i16>();
                    let mut cut = 0;
                    for (k, &v) in ring[..w * h].iter().enumerate() {
                        let fits = v.clamp(i16::MIN.into(), i16::MAX.into());
                        cut += u32::from(fits != v);
                        to.add(k).write_unaligned(fits as i16);
                    }
                    stage.saturated += u64::from(cut);
                }
                _ => values(job.payload, rows, c, w, h, to.add(4), &mut stage.saturated),
            }
            to = to.add(bytes);
        }
        stage.len += to.offset_from(first) as usize;
    }
}

/// The columns of the set bits of a row, ascending.
///
/// Most words have none or one set: their number cannot be guessed, so that the first few columns of a word are
/// written whether they are there or not.
///
/// # Safety
/// `words` is good for `count` words; `to` has room for a column a bit and [`GUESS`] more.
#[inline(always)]
unsafe fn picks(words: *const u64, count: usize, to: &mut [u16]) -> &[u16] {
    let mut found = 0;
    for k in 0..count {
        // SAFETY: as the caller promises.
        unsafe {
            let mut word = u64::from_le(*words.add(k));
            let set = word.count_ones() as usize;
            for i in 0..GUESS {
                *to.get_unchecked_mut(found + i) = (k * 64) as u16 + word.trailing_zeros() as u16;
                word &= word.wrapping_sub(1);
            }
            for i in GUESS..set {
                *to.get_unchecked_mut(found + i) = (k * 64) as u16 + word.trailing_zeros() as u16;
                word &= word.wrapping_sub(1);
            }
            found += set;
        }
    }
    &to[..found]
}

/// The window at column `c`, rounded. Rows are written by whole vectors, each over what the one before wrote past
/// its end.
///
/// # Safety
/// `to` is good for the window and [`super::job::SPILL`] bytes more.
#[inline(always)]
unsafe fn rounded<F, P, C>(rows: &Rows<'_, C>, c: usize, w: usize, h: usize, to: *mut i32)
where
    F: Family<P, C>,
    P: Convert<C>,
    C: Real,
{
    let (up, left) = (h / 2, w / 2);
    // SAFETY: rows have pads of a window's reach and a vector.
    unsafe {
        for i in 0..h {
            let row = if i == up { rows.before } else { rows.slots[i].add(PAD) };
            let (from, to) = (row.add(c).sub(left), to.add(i * w));
            round::<F::V>(from, w, to);
            if i == up && rows.own != rows.before {
                round::<F::V>(rows.own.add(c), w - left, to.add(left));
            }
        }
    }
}

/// `count` values of a row, rounded, in the narrowest vectors that hold them.
///
/// # Safety
/// Pointers are good for `count` values and a vector more.
#[inline(always)]
unsafe fn round<V: Vector>(from: *const V::Elem, count: usize, to: *mut i32) {
    // SAFETY: as the caller promises.
    unsafe {
        match count {
            0..=4 => V::round4(from, to),
            5..=8 => V::round8(from, to),
            _ => {
                for j in (0..count).step_by(V::LANES) {
                    V::load(from.add(j)).store_rounded(to.add(j));
                }
            }
        }
    }
}

/// The window at column `c`, value by value.
///
/// # Safety
/// `to` is good for the window.
unsafe fn values<C: Real>(
    payload: Payload,
    rows: &Rows<'_, C>,
    c: usize,
    w: usize,
    h: usize,
    to: *mut u8,
    saturated: &mut u64,
) {
    for k in 0..w * h {
        // SAFETY: as the caller promises.
        unsafe {
            let d = rows.value(k / w, k % w, c, w / 2);
            match payload {
                Payload::I32 => to.cast::<i32>().add(k).write_unaligned(physics::round_half_away(d)),
                Payload::I16 => {
                    let (v, cut) = physics::round_to_i16(d);
                    *saturated += u64::from(cut);
                    to.cast::<i16>().add(k).write_unaligned(v);
                }
                Payload::F16 => to.cast::<f16>().add(k).write_unaligned(nearest_f16(d.to_f64())),
                Payload::F32 => to.cast::<f32>().add(k).write_unaligned(d.to_f64() as f32),
            }
        }
    }
}

/// The nearest `f16`, ties to even, in one rounding.
///
/// By way of `f32`, rounded to odd: what the first step drops is kept as an odd last bit, so that the second step
/// sees on which side of a tie the value lies. (`f16::from_f64` may round twice.)
fn nearest_f16(d: f64) -> f16 {
    let near = d as f32;
    if f64::from(near) == d {
        return f16::from_f32(near);
    }
    let beyond = f64::from(near).abs() > d.abs();
    f16::from_f32(f32::from_bits((near.to_bits() - u32::from(beyond)) | 1))
}

/// The branch codes of row `q`.
///
/// # Safety
/// The row's bits are written, and the job's trace has its rows.
unsafe fn trace<P, C: Real + Plain>(
    job: &Job<P, C>,
    pipe: &mut Pipe<C>,
    q: usize,
    rows: &Rows<'_, C>,
    of: usize,
) {
    let words = job.layout.words;
    let [stored, peak, fires, negative] =
        [Bits::Stored, Bits::Peak, Bits::Fires, Bits::Negative].map(|b| pipe.bits(b, of, words));
    for c in 0..job.layout.cols {
        // SAFETY: rows of bits have a bit a column.
        unsafe {
            let is = |bits: *const u64| get_bits(bits, c / 8 * 8, 8) >> (c % 8) & 1 == 1;
            let first = !job.ties_first || !is(stored) || !rows.repeats(c, job.layout.size.w);
            let branch = if job.masked() && is(job.mask.add(q * words)) {
                Branch::Masked
            } else if is(negative) {
                Branch::Negative
            } else {
                match (is(fires), is(peak), is(stored) && first) {
                    (false, ..) => Branch::Update,
                    (true, true, true) => Branch::StorePeak,
                    (true, true, false) => Branch::Shadow,
                    (true, false, true) => Branch::StoreSum,
                    (true, false, false) => Branch::Shoulder,
                }
            };
            *job.trace.add(q * job.layout.cols + c) = branch as u8;
        }
    }
}
