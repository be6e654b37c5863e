//! One cluster: its values, its charge, and how that is shared between pixels.

use half::f16;

use crate::params::ClusterSize;

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

/// One cluster of a batch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cluster<'a> {
    /// Column of the centre.
    pub x: u16,
    /// Row of the centre.
    pub y: u16,
    /// The window.
    pub size: ClusterSize,
    /// Its values, row-major.
    pub values: Values<'a>,
}

impl Cluster<'_> {
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
        let sum = sum_2x2(square);
        let [_, right, lower, both] = square;
        (sum > 0.0).then(|| Eta { x: (right + both) / sum, y: (lower + both) / sum, sum, corner })
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

fn sum_2x2([a, b, c, d]: [f64; 4]) -> f64 {
    a + b + c + d
}

fn max_2x2<T: Copy + Into<f64>>(values: &[T], size: ClusterSize) -> ([f64; 4], Corner) {
    let ClusterSize { w, h } = size;
    let (r, c) = (size.up(), size.left());
    let square = |top: usize, left: usize| -> [f64; 4] {
        let i = top * w + left;
        [values[i].into(), values[i + 1].into(), values[i + w].into(), values[i + w + 1].into()]
    };
    let mut best = (square(r - 1, c - 1), Corner::TopLeft);
    for (down, right, corner) in
        [(0, 1, Corner::TopRight), (1, 0, Corner::BottomLeft), (1, 1, Corner::BottomRight)]
    {
        if r + down < h && c + right < w {
            let s = square(r + down - 1, c + right - 1);
            if sum_2x2(s) > sum_2x2(best.0) {
                best = (s, corner);
            }
        }
    }
    best
}
