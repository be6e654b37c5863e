//! One cluster: its values, its charge, and how that is shared between pixels.

use std::hint::select_unpredictable;
use std::ops::Range;

use half::f16;

use crate::clusters::{Clusters, PayloadType, record_bytes};
use crate::error::{Error, Result};
use crate::params::{ClusterSize, Payload};

/// The values of one cluster, in the type they are stored in.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Values<'a> {
    /// `i32` values.
    I32(&'a [i32]),
    /// `i16` values.
    I16(&'a [i16]),
    /// `f16` values.
    F16(&'a [f16]),
    /// `f32` values.
    F32(&'a [f32]),
}

impl Values<'_> {
    /// Number of values.
    pub fn len(&self) -> usize {
        match self {
            Values::I32(v) => v.len(),
            Values::I16(v) => v.len(),
            Values::F16(v) => v.len(),
            Values::F32(v) => v.len(),
        }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// One value in ADU, widened without loss.
    #[inline]
    pub fn get(&self, i: usize) -> f64 {
        match self {
            Values::I32(v) => f64::from(v[i]),
            Values::I16(v) => f64::from(v[i]),
            Values::F16(v) => f64::from(v[i]),
            Values::F32(v) => f64::from(v[i]),
        }
    }
}

/// Which 2x2 corner of a cluster's window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Corner {
    /// The centre, its left and its upper neighbours.
    TopLeft,
    /// The centre, its right and its upper neighbours.
    TopRight,
    /// The centre, its left and its lower neighbours.
    BottomLeft,
    /// The centre, its right and its lower neighbours.
    BottomRight,
}

/// Where the charge of a photon lies within the largest 2x2 of its window.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Eta {
    /// Share of the right column in the largest 2x2, 0 to 1 for charge that is all positive.
    pub x: f64,
    /// Share of the lower row in the largest 2x2.
    pub y: f64,
    /// Charge of the largest 2x2 in ADU.
    pub sum: f64,
    /// Which 2x2 that is.
    pub corner: Corner,
}

/// One cluster of a batch. It has as many values as its window has pixels.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cluster<'a> {
    /// Column of the centre.
    pub x: u16,
    /// Row of the centre.
    pub y: u16,
    size: ClusterSize,
    values: Values<'a>,
}

/// What spectra, hit maps and eta maps take from a cluster: see [`Clusters::charges`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Charge {
    /// Column of the centre.
    pub x: u16,
    /// Row of the centre.
    pub y: u16,
    /// [`Cluster::centre`].
    pub centre: f64,
    /// [`Cluster::sum`].
    pub sum: f64,
    /// The charge of [`Cluster::max_sum_2x2`].
    pub sum_2x2: f64,
    /// [`Cluster::eta2`].
    pub eta: Option<Eta>,
}

impl<'a> Cluster<'a> {
    /// A cluster of one's own: the centre's column and row, the window, its values row-major.
    ///
    /// # Errors
    /// [`Error::Param`] for a window outside 2 to 15 pixels each way, and for more or fewer values than it has pixels.
    pub fn new(x: u16, y: u16, size: ClusterSize, values: Values<'a>) -> Result<Cluster<'a>> {
        ClusterSize::new(size.w, size.h)?;
        if values.len() != size.pixels() {
            let expected = format!("{}, one a pixel of a window of {size}", size.pixels());
            return Err(Error::param("cluster values", values.len(), expected));
        }
        Ok(Cluster { x, y, size, values })
    }

    /// A cluster of a batch, whose records have the right length.
    pub(crate) const fn of_record(x: u16, y: u16, size: ClusterSize, values: Values<'a>) -> Cluster<'a> {
        Cluster { x, y, size, values }
    }

    /// The window.
    pub const fn size(&self) -> ClusterSize {
        self.size
    }

    /// The values, row-major.
    pub const fn values(&self) -> Values<'a> {
        self.values
    }

    /// The value of the centre, in ADU.
    pub fn centre(&self) -> f64 {
        self.values.get(self.size.centre())
    }

    /// The charge of the whole window, in ADU.
    pub fn sum(&self) -> f64 {
        fn sum<T: Copy + Into<f64>>(values: &[T]) -> f64 {
            values.iter().map(|v| (*v).into()).sum()
        }
        match self.values {
            Values::I32(v) => sum(v),
            Values::I16(v) => sum(v),
            Values::F16(v) => sum(v),
            Values::F32(v) => sum(v),
        }
    }

    /// The largest charge of the 2x2 squares that hold the centre, in ADU, and which it is; the first of equal
    /// ones in the order of [`Corner`]. Squares that the window does not hold (even sizes, 2 wide) are left out.
    pub fn max_sum_2x2(&self) -> (f64, Corner) {
        let (square, corner) = self.max_2x2();
        (sum_2x2(square), corner)
    }

    /// How the charge of the largest 2x2 is shared between its columns and rows, or nothing when that charge is
    /// not above 0.
    pub fn eta2(&self) -> Option<Eta> {
        let (square, corner) = self.max_2x2();
        eta(square, corner)
    }

    /// The values of the largest 2x2, row by row.
    fn max_2x2(&self) -> ([f64; 4], Corner) {
        match self.values {
            Values::I32(v) => max_2x2(v, self.size),
            Values::I16(v) => max_2x2(v, self.size),
            Values::F16(v) => max_2x2(v, self.size),
            Values::F32(v) => max_2x2(v, self.size),
        }
    }
}

impl Clusters<'_> {
    /// Calls `visit` with the charges of the clusters of `range`, in order. They are those of [`Cluster`]'s functions,
    /// to the bit; one by one those take several times as long.
    ///
    /// # Panics
    /// When `range` reaches beyond [`Clusters::len`].
    pub fn charges(&self, range: Range<usize>, visit: impl FnMut(Charge)) {
        let b = self.record_bytes();
        let records = &self.bytes()[range.start * b..range.end * b];
        match self.payload() {
            Payload::I32 => charges::<i32>(records, self.size(), visit),
            Payload::I16 => charges::<i16>(records, self.size(), visit),
            Payload::F16 => charges::<f16>(records, self.size(), visit),
            Payload::F32 => charges::<f32>(records, self.size(), visit),
        }
    }

    /// As [`Clusters::charges`], but with an eta that has no steps: quotients of rounded values gather at simple fractions
    /// (0, 1/2, 1), the more the smaller the charge. Before the largest 2x2 is looked for, each value is given a part of its
    /// last digit, evenly from half a digit below to half a digit above, that follows from the frame's number, the cluster's
    /// place and the value's: the same for whoever asks, in whatever ranges. Values that were stored as `f32` were never
    /// rounded and stay as they are. Coordinates, centre and sums are those of [`Clusters::charges`].
    ///
    /// # Panics
    /// When `range` reaches beyond [`Clusters::len`].
    pub fn charges_unrounded(&self, range: Range<usize>, mut visit: impl FnMut(Charge)) {
        if self.payload() == Payload::F32 {
            return self.charges(range, visit);
        }
        let (b, offsets) = (self.record_bytes(), self.offsets());
        // The last frame that starts at the range or before it.
        let mut frame = offsets.partition_point(|o| *o <= range.start as u64).saturating_sub(1);
        let mut from = range.start;
        while from < range.end {
            let to = (offsets[frame + 1] as usize).min(range.end);
            let (records, number) = (&self.bytes()[from * b..to * b], self.numbers()[frame]);
            match self.payload() {
                Payload::I32 => charges_unrounded::<i32>(records, self.size(), number, &mut visit),
                Payload::I16 => charges_unrounded::<i16>(records, self.size(), number, &mut visit),
                Payload::F16 => charges_unrounded::<f16>(records, self.size(), number, &mut visit),
                Payload::F32 => unreachable!("not rounded"),
            }
            (from, frame) = (to, frame + 1);
        }
    }
}

/// The usual window, apart from others: with its numbers known to the compiler it takes half as long.
const USUAL: ClusterSize = ClusterSize { w: 3, h: 3 };

/// Visits the charges of records.
fn charges<T: Sum>(records: &[u8], size: ClusterSize, visit: impl FnMut(Charge)) {
    match size == USUAL {
        true => charges_of::<T>(records, USUAL, eta_of, visit),
        false => charges_of::<T>(records, size, eta_of, visit),
    }
}

/// Visits the charges of records of the frame with this number; their eta is made of values with the rounding undone.
fn charges_unrounded<T: Rounded>(records: &[u8], size: ClusterSize, number: u64, visit: impl FnMut(Charge)) {
    match size == USUAL {
        true => charges_of::<T>(records, USUAL, unrounded(number), visit),
        false => charges_of::<T>(records, size, unrounded(number), visit),
    }
}

/// A record as its eta is taken from it.
struct Window<'a, T> {
    place: (u16, u16),
    values: &'a [T],
    size: ClusterSize,
    /// The values of the largest 2x2, and which that is.
    largest: ([f64; 4], Corner),
}

/// The eta of a cluster's largest 2x2.
#[inline(always)]
fn eta_of<T>(window: &Window<'_, T>) -> Option<Eta> {
    let (square, corner) = window.largest;
    eta(square, corner)
}

/// The eta of clusters of the frame with this number, from values with their rounding undone.
#[inline(always)]
fn unrounded<T: Rounded>(number: u64) -> impl Fn(&Window<'_, T>) -> Option<Eta> {
    let frame = spread(number);
    move |window| {
        let (x, y) = window.place;
        let digits = spread(frame ^ (u64::from(y) << 16 | u64::from(x)));
        // The 2x2 squares of a cluster lie within the 3x3 around its centre, or 2x2 when the window is no larger.
        let size = window.size;
        let near = ClusterSize { w: size.w.min(3), h: size.h.min(3) };
        let first = (size.up() - 1) * size.w + size.left() - 1;
        let mut values = [0.0; 9];
        for row in 0..near.h {
            for column in 0..near.w {
                let value = window.values[first + row * size.w + column];
                // 7 of 64 bits for each of 9 values: the middles of 128 parts of a digit.
                let part = (digits >> (7 * (row * 3 + column))) as u32 & 127;
                let part = (f64::from(part) - 63.5) / 128.0;
                values[row * near.w + column] = value.into() + part * value.digit();
            }
        }
        let (square, corner) = max_2x2(&values, near);
        eta(square, corner)
    }
}

/// Bits that look random and follow from `x`: a step of SplitMix64 (Steele, Lea and Flood 2014).
#[inline(always)]
fn spread(x: u64) -> u64 {
    let x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

#[inline(always)]
fn charges_of<T: Sum>(
    records: &[u8],
    size: ClusterSize,
    eta: impl Fn(&Window<'_, T>) -> Option<Eta>,
    mut visit: impl FnMut(Charge),
) {
    for record in records.chunks_exact(record_bytes(size, T::PAYLOAD)) {
        let coordinate = |i: usize| u16::from_ne_bytes([record[i], record[i + 1]]);
        let values: &[T] = bytemuck::cast_slice(&record[4..]);
        let (x, y) = (coordinate(0), coordinate(2));
        let window = Window { place: (x, y), values, size, largest: max_2x2(values, size) };
        visit(Charge {
            x,
            y,
            centre: values[size.centre()].into(),
            sum: T::sum(values),
            sum_2x2: sum_2x2(window.largest.0),
            eta: eta(&window),
        });
    }
}

/// Values of a window that can be summed.
trait Sum: PayloadType + Into<f64> {
    /// Their sum in `f64`, from the first to the last.
    #[inline(always)]
    fn sum(values: &[Self]) -> f64 {
        values.iter().map(|v| (*v).into()).sum()
    }
}

/// Integers are summed as such, in any order: the sum of 225 of them is exact in `f64` too.
impl Sum for i32 {
    #[inline(always)]
    fn sum(values: &[i32]) -> f64 {
        values.iter().map(|v| i64::from(*v)).sum::<i64>() as f64
    }
}
impl Sum for i16 {
    #[inline(always)]
    fn sum(values: &[i16]) -> f64 {
        f64::from(values.iter().map(|v| i32::from(*v)).sum::<i32>())
    }
}
impl Sum for f16 {}
impl Sum for f32 {}

/// Values that were rounded when they were stored.
trait Rounded: Sum {
    /// From this value to the next that can be stored.
    #[inline(always)]
    fn digit(self) -> f64 {
        1.0
    }
}

impl Rounded for i32 {}
impl Rounded for i16 {}
impl Rounded for f16 {
    #[inline(always)]
    fn digit(self) -> f64 {
        // The power of two below the value, times that of its 10 binary digits.
        let power = f32::from_bits(self.to_f32().to_bits() & 0x7f80_0000);
        f64::from(power) / 1024.0
    }
}

#[inline]
fn eta(square: [f64; 4], corner: Corner) -> Option<Eta> {
    let sum = sum_2x2(square);
    let [_, right, lower, both] = square;
    (sum > 0.0).then(|| Eta { x: (right + both) / sum, y: (lower + both) / sum, sum, corner })
}

#[inline]
fn sum_2x2([a, b, c, d]: [f64; 4]) -> f64 {
    a + b + c + d
}

#[inline(always)]
fn max_2x2<T: Copy + Into<f64>>(values: &[T], size: ClusterSize) -> ([f64; 4], Corner) {
    let ClusterSize { w, h } = size;
    let (r, c) = (size.up(), size.left());
    let square = |i: usize| -> [f64; 4] {
        [values[i].into(), values[i + 1].into(), values[i + w].into(), values[i + w + 1].into()]
    };
    let first = (r - 1) * w + c - 1;
    let mut best = (sum_2x2(square(first)), first, Corner::TopLeft);
    for (down, right, corner) in
        [(0, 1, Corner::TopRight), (1, 0, Corner::BottomLeft), (1, 1, Corner::BottomRight)]
    {
        if r + down < h && c + right < w {
            let at = first + down * w + right;
            let sum = sum_2x2(square(at));
            // Without a branch: which square is the largest cannot be foreseen.
            let larger = sum > best.0;
            best = (
                select_unpredictable(larger, sum, best.0),
                select_unpredictable(larger, at, best.1),
                select_unpredictable(larger, corner, best.2),
            );
        }
    }
    (square(best.1), best.2)
}
