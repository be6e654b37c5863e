//! Pixels that cannot be trusted.

use scheidegg_finder::{Pedestal, PixelMask, Plane, Shape};

use super::takes_part;

/// A pixel is called hot when its noise is this many times the median.
pub(super) const HOT: f64 = 5.0;

/// Medians of a pedestal over the pixels that are trained and take part, in ADU; 0 when there is none.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Medians {
    /// Of the means.
    pub mean_adu: f64,
    /// Of the noise.
    pub noise_adu: f64,
}

impl Medians {
    /// The medians of a pedestal without the pixels of a mask.
    pub fn of(pedestal: &Pedestal, mask: Option<&PixelMask>) -> Medians {
        let counts = takes_part(pedestal, mask);
        let median = |values: ndarray::Array2<f64>| {
            let mut v: Vec<f64> =
                values.into_iter().enumerate().filter(|(i, _)| counts(*i)).map(|(_, v)| v).collect();
            let middle = v.len() / 2;
            if v.is_empty() { 0.0 } else { *v.select_nth_unstable_by(middle, f64::total_cmp).1 }
        };
        Medians { mean_adu: median(pedestal.mean()), noise_adu: median(pedestal.noise()) }
    }
}

/// Pixels that cannot be trusted, by what is wrong with them: row-major indices, ascending. A pixel may be in several lists;
/// pixels that do not take part are in none but `untrained`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FaultyPixels {
    /// Rows and columns of a frame.
    pub shape: Shape,
    /// No noise in the dark frames: stuck, or masked in hardware.
    pub quiet: Vec<usize>,
    /// A noise above 5 times the median.
    pub hot: Vec<usize>,
    /// Fewer than two dark values.
    pub untrained: Vec<usize>,
    /// The pedestal did not move in the run.
    pub never_updated: Vec<usize>,
    /// A cluster in more than half of the frames.
    pub always_firing: Vec<usize>,
}

impl FaultyPixels {
    /// What a trained pedestal tells, without the pixels of a mask.
    pub fn of_pedestal(pedestal: &Pedestal, mask: Option<&PixelMask>) -> FaultyPixels {
        let counts = takes_part(pedestal, mask);
        let bar = HOT * Medians::of(pedestal, mask).noise_adu;
        let noise = pedestal.noise();
        let list = |is: &dyn Fn(f64) -> bool| {
            noise.iter().enumerate().filter(|(i, n)| counts(*i) && is(**n)).map(|(i, _)| i).collect()
        };
        FaultyPixels {
            shape: pedestal.shape,
            quiet: list(&|n| n == 0.0),
            hot: list(&|n| n > bar),
            untrained: pedestal.untrained.as_ref().map_or_else(Vec::new, |m| m.indices().collect()),
            never_updated: Vec::new(),
            always_firing: Vec::new(),
        }
    }

    /// The lists with their names and the bits that stand for them in [`FaultyPixels::codes`]: quiet 1, hot 2, untrained 4,
    /// never updated 8, always firing 16.
    pub fn lists(&self) -> [(&'static str, u8, &[usize]); 5] {
        [
            ("quiet", 1, &self.quiet),
            ("hot", 2, &self.hot),
            ("untrained", 4, &self.untrained),
            ("never_updated", 8, &self.never_updated),
            ("always_firing", 16, &self.always_firing),
        ]
    }

    /// A code a pixel, row-major: the sum of the bits of the lists that it is in, 0 for a pixel without fault.
    pub fn codes(&self) -> Vec<u8> {
        let mut codes = vec![0; self.shape.pixels()];
        for (_, bit, list) in self.lists() {
            list.iter().for_each(|i| codes[*i] |= bit);
        }
        codes
    }

    /// Row and column of a pixel.
    pub fn place(&self, pixel: usize) -> (usize, usize) {
        (pixel / self.shape.cols, pixel % self.shape.cols)
    }
}

/// Pixels that take part, have noise, and whose pedestal is the same to the bit at both ends of a run.
pub(super) fn unmoved(start: &Pedestal, end: &Pedestal, mask: Option<&PixelMask>) -> Vec<usize> {
    let counts = takes_part(start, mask);
    let same = |p: &Plane, q: &Plane, i: usize| p.get(i).to_bits() == q.get(i).to_bits();
    let noise = start.noise();
    let noisy = |i: usize| noise.as_slice().is_some_and(|n| n[i] > 0.0);
    (0..start.shape.pixels())
        .filter(|&i| {
            same(&start.sum, &end.sum, i) && same(&start.sum2, &end.sum2, i) && counts(i) && noisy(i)
        })
        .collect()
}
