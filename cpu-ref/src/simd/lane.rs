//! The state of one lane, laid out for the kernels.

use scheidegg_finder::{Noise, Params, Pedestal, PixelMask, Plane};
use scheidegg_kernels::physics::Decision;
use scheidegg_kernels::{Convert, Real};

use super::aligned::{Aligned, Plain};
use super::job::{Layout, paired};
use super::vector::BLOCK;

/// Means of this many ADU and more make a lane leave the vectors' rounding, which is exact only far below 2^31.
const SMALL_ADU: f64 = 1_048_576.0;

/// The precisions that a plane can have.
pub(super) trait Sums: Real + Plain {
    /// The values of a plane of this precision.
    fn of(plane: &Plane) -> Option<&[Self]>;
    /// A plane of this precision.
    fn plane(values: Vec<Self>) -> Plane;
}

impl Sums for f32 {
    fn of(plane: &Plane) -> Option<&[f32]> {
        match plane {
            Plane::F32(v) => Some(v),
            Plane::F64(_) => None,
        }
    }
    fn plane(values: Vec<f32>) -> Plane {
        Plane::F32(values)
    }
}

impl Sums for f64 {
    fn of(plane: &Plane) -> Option<&[f64]> {
        match plane {
            Plane::F64(v) => Some(v),
            Plane::F32(_) => None,
        }
    }
    fn plane(values: Vec<f64>) -> Plane {
        Plane::F64(values)
    }
}

/// A lane's pedestal.
pub(super) struct Lane<P, C> {
    layout: Layout,
    /// `sum` and `sum2`, block by block in turn: rows of `2 * width`.
    pub state: Aligned<P>,
    /// Rows of `width`.
    pub x0: Aligned<u16>,
    /// With fixed noise the thresholds squared: rows of `width`.
    pub fixed: Option<Aligned<C>>,
    /// `1 / N`.
    pub inv_n: P,
    /// Whether every corrected value is small enough for a vector's rounding. An update draws a mean towards the
    /// pixel, so that it stays so.
    pub small: bool,
    samples: u64,
    fixed_variance: Option<Plane>,
    untrained: Option<PixelMask>,
}

impl<P: Sums + Convert<C>, C: Real + Plain> Lane<P, C> {
    /// From a trained pedestal, whose sums are of precision `P`.
    pub fn new(layout: Layout, pedestal: &Pedestal, params: &Params) -> Self {
        let (rows, width) = (layout.rows, layout.width);
        let mut lane = Lane {
            layout,
            state: Aligned::zeroed(rows * width * 2),
            x0: Aligned::zeroed(rows * width),
            fixed: None,
            inv_n: P::ZERO,
            small: true,
            samples: 0,
            fixed_variance: None,
            untrained: None,
        };
        lane.set(pedestal, params);
        lane
    }

    /// Takes another pedestal into the same memory.
    pub fn set(&mut self, pedestal: &Pedestal, params: &Params) {
        let lane = self;
        let layout = lane.layout;
        let (rows, width) = (layout.rows, layout.width);
        lane.inv_n = P::from_f64(pedestal.samples as f64).recip();
        lane.small = true;
        lane.samples = pedestal.samples;
        lane.fixed_variance = pedestal.fixed_variance.clone();
        lane.untrained = pedestal.untrained.clone();
        let expect = "a pedestal of the finder's precision";
        let (sum, sum2) = (P::of(&pedestal.sum).expect(expect), P::of(&pedestal.sum2).expect(expect));
        let (state, x0) = (lane.state.as_mut_slice(), lane.x0.as_mut_slice());
        for r in 0..rows {
            for c in 0..layout.cols {
                let i = r * layout.cols + c;
                let at = r * 2 * width + paired(c);
                (state[at], state[at + BLOCK]) = (sum[i], sum2[i]);
                x0[r * width + c] = pedestal.x0[i];
                lane.small &= (sum[i] * lane.inv_n).to_f64().abs() < SMALL_ADU;
            }
        }
        if params.noise == Noise::Fixed {
            let refreshed;
            let variance = match &pedestal.fixed_variance {
                Some(v) => v,
                None => {
                    let mut p = pedestal.clone();
                    p.refresh_noise();
                    refreshed = p.fixed_variance.expect("just taken");
                    lane.fixed_variance = Some(refreshed.clone());
                    &refreshed
                }
            };
            let rule = Decision::<C>::new(1, 1, params.n_sigma, params.noise_floor_adu);
            let variance = P::of(variance).expect(expect);
            let fixed = lane.fixed.get_or_insert_with(|| Aligned::zeroed(rows * width));
            for r in 0..rows {
                for c in 0..layout.cols {
                    let var: C = variance[r * layout.cols + c].larger(P::ZERO).convert();
                    fixed.as_mut_slice()[r * width + c] = rule.n_sigma2 * var.larger(rule.floor2);
                }
            }
        }
    }

    /// The pedestal as it is now.
    pub fn pedestal(&self) -> Pedestal {
        let Layout { rows, cols, width, .. } = self.layout;
        let state = self.state.as_slice();
        let plane = |partner: usize| {
            let at = |i: usize| state[i / cols * 2 * width + paired(i % cols) + partner];
            P::plane((0..rows * cols).map(at).collect())
        };
        Pedestal {
            shape: scheidegg_finder::Shape { rows, cols },
            samples: self.samples,
            x0: (0..rows * cols).map(|i| self.x0.as_slice()[i / cols * width + i % cols]).collect(),
            sum: plane(0),
            sum2: plane(BLOCK),
            fixed_variance: self.fixed_variance.clone(),
            untrained: self.untrained.clone(),
        }
    }
}

/// Adds the pixels of a mask to rows of bits, each row from a new word on, bits in memory order.
pub(super) fn add_mask(mask: &PixelMask, layout: Layout, rows: &mut [u64]) {
    let words = mask.words();
    for r in 0..layout.rows {
        for k in 0..layout.cols.div_ceil(64) {
            let bit = r * layout.cols + k * 64;
            let (word, shift) = (bit / 64, bit % 64);
            let low = words[word] >> shift;
            let high = match (shift, words.get(word + 1)) {
                (1.., Some(next)) => next << (64 - shift),
                _ => 0,
            };
            let left = (layout.cols - k * 64).min(64);
            rows[r * layout.words + k] |= ((low | high) & (u64::MAX >> (64 - left))).to_le();
        }
    }
}
