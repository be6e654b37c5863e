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
}

fn charges<T: Sum>(records: &[u8], size: ClusterSize, visit: impl FnMut(Charge)) {
    // The usual window apart: with its numbers known to the compiler it takes half as long.
    const USUAL: ClusterSize = ClusterSize { w: 3, h: 3 };
    if size == USUAL { charges_of::<T>(records, USUAL, visit) } else { charges_of::<T>(records, size, visit) }
}

#[inline(always)]
fn charges_of<T: Sum>(records: &[u8], size: ClusterSize, mut visit: impl FnMut(Charge)) {
    for record in records.chunks_exact(record_bytes(size, T::PAYLOAD)) {
        let coordinate = |i: usize| u16::from_ne_bytes([record[i], record[i + 1]]);
        let values: &[T] = bytemuck::cast_slice(&record[4..]);
        let (square, corner) = max_2x2(values, size);
        visit(Charge {
            x: coordinate(0),
            y: coordinate(2),
            centre: values[size.centre()].into(),
            sum: T::sum(values),
            sum_2x2: sum_2x2(square),
            eta: eta(square, corner),
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
