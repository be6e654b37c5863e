//! SPEC 2 and 3, one pixel at a time.

use crate::real::{Convert, Real};

/// What the finder did with a pixel (SPEC 6). The discriminant is the code in a branch trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Branch {
    /// A quiet pixel: it is fed back into the pedestal.
    Update = 0,
    /// Far below its pedestal: left alone.
    Negative = 1,
    /// Beside a photon that a brighter pixel stands for.
    Shadow = 2,
    /// The brightest pixel of a photon: its window is stored.
    StorePeak = 3,
    /// Beside charge that is significant only as a sum, a brighter pixel stands for it.
    Shoulder = 4,
    /// The brightest pixel of charge that is significant only as a sum: its window is stored.
    StoreSum = 5,
    /// Takes no part: masked for the run or lost in this frame.
    Masked = 6,
}

impl Branch {
    /// All branches in the order of their codes.
    pub const ALL: [Branch; 7] = [
        Branch::Update,
        Branch::Negative,
        Branch::Shadow,
        Branch::StorePeak,
        Branch::Shoulder,
        Branch::StoreSum,
        Branch::Masked,
    ];

    /// The branch of a code in a trace.
    pub const fn from_code(code: u8) -> Option<Branch> {
        if (code as usize) < Self::ALL.len() { Some(Self::ALL[code as usize]) } else { None }
    }

    /// Whether the window around the pixel is stored as a cluster.
    #[inline(always)]
    pub const fn is_stored(self) -> bool {
        matches!(self, Branch::StorePeak | Branch::StoreSum)
    }
}

/// The exact integer centre of a pixel: `round_half_even(s / n)`, clamped to a pixel's range (SPEC 2).
#[inline]
pub const fn offset(s: u64, n: u64) -> u16 {
    let (q, r) = (s / n, s % n);
    let twice = r as u128 * 2;
    let up = twice > n as u128 || (twice == n as u128 && q % 2 == 1);
    let x0 = q + up as u64;
    if x0 > u16::MAX as u64 { u16::MAX } else { x0 as u16 }
}

/// The centred sums of a pixel in exact integers: `(s - n*x0, s2 - 2*x0*s + n*x0*x0)` (SPEC 2).
#[inline]
pub const fn centred(s: u64, s2: u64, n: u64, x0: u16) -> (i128, i128) {
    let (s, s2, n, x0) = (s as i128, s2 as i128, n as i128, x0 as i128);
    (s - n * x0, s2 - 2 * x0 * s + n * x0 * x0)
}

/// One pedestal update of a pixel with `y = x - x0` (SPEC 2).
#[inline(always)]
pub fn update<P: Real>(sum: P, sum2: P, y: P, inv_n: P) -> (P, P) {
    (sum + (y - sum * inv_n), sum2 + (y * y - sum2 * inv_n))
}

/// The pedestal-subtracted value of a pixel, `d` (SPEC 3).
#[inline(always)]
pub fn corrected<P: Convert<C>, C: Real>(y: P, sum: P, inv_n: P) -> C {
    (y - sum * inv_n).convert()
}

/// The variance of a pixel in `C`; never below `floor2`, the square of the noise floor or 0 for none.
#[inline(always)]
pub fn variance<P: Convert<C>, C: Real>(sum: P, sum2: P, inv_n: P, floor2: C) -> C {
    let m = sum * inv_n;
    // SPEC's maximum with 0 comes with the floor, which is not below 0: rounding to `C` keeps the order.
    (sum2 * inv_n - m * m).convert().larger(floor2)
}

/// A variance that was fixed when training ended, as decisions use it: never below the noise floor's square.
#[inline(always)]
pub fn fixed_variance<P: Convert<C>, C: Real>(variance: P, floor2: C) -> C {
    variance.convert().larger(floor2)
}

/// The constants of a decision, the same for every pixel of a run.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Decision<C> {
    /// `n_sigma^2`.
    pub n_sigma2: C,
    /// `w*h`: the bar of test 3 in units of the pixel's own.
    pub area: C,
    /// `((h+1)/2)*((w+1)/2)`: the bar of test 2.
    pub corner_area: C,
    /// The square of the noise floor in ADU^2, 0 for none.
    pub floor2: C,
}

impl<C: Real> Decision<C> {
    /// The constants for a window of `w x h` pixels; every operation is done in `C`.
    pub fn new(w: u32, h: u32, n_sigma: f64, noise_floor_adu: f64) -> Self {
        let (s, f) = (C::from_f64(n_sigma), C::from_f64(noise_floor_adu));
        Decision {
            n_sigma2: s * s,
            area: C::from_i32((w * h) as i32),
            corner_area: C::from_i32((w.div_ceil(2) * h.div_ceil(2)) as i32),
            floor2: f * f,
        }
    }

    /// Whether `v` is above zero and its square above `bar`, which is not below 0.
    #[inline(always)]
    pub fn significant(v: C, bar: C) -> bool {
        // One comparison for both: the product is the square with the sign of `v`, rounded the same.
        v * v.magnitude() > bar
    }

    /// The tests of SPEC 3 for one pixel.
    ///
    /// `d` its value, `thr2` its threshold squared, `max` and `sum` of its window, `corner` the largest corner
    /// sum when test 2 is on.
    #[inline(always)]
    pub fn tests(&self, d: C, thr2: C, max: C, sum: C, corner: Option<C>) -> Tests {
        let (peak, sum) = self.of_window(thr2, max, sum, corner);
        Tests { negative: self.negative(d, thr2), peak, sum }
    }

    /// Whether a value is far below the pedestal.
    #[inline(always)]
    pub fn negative(&self, d: C, thr2: C) -> bool {
        // Below zero with a square above `thr2`, again in one comparison: `d * |d| < -thr2`.
        Self::significant(C::ZERO - d, thr2)
    }

    /// The tests that look at the window, as in [`Decision::tests`]: by its maximum, and by its sums.
    #[inline(always)]
    pub fn of_window(&self, thr2: C, max: C, sum: C, corner: Option<C>) -> (bool, bool) {
        let by_corner = match corner {
            Some(q) => Self::significant(q, self.corner_area * thr2),
            None => false,
        };
        (Self::significant(max, thr2), Self::significant(sum, self.area * thr2) | by_corner)
    }

    /// The decision of SPEC 3 for one pixel: [`Decision::tests`], and `top` whether it passes the local-max gate.
    #[inline(always)]
    pub fn branch(&self, d: C, thr2: C, max: C, sum: C, corner: Option<C>, top: bool) -> Branch {
        self.tests(d, thr2, max, sum, corner).branch(top)
    }
}

/// Which tests of SPEC 3 a pixel passes. All are made before any is looked at, so that a GPU need not jump.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tests {
    /// Far below the pedestal.
    pub negative: bool,
    /// Test 1: the maximum of the window is significant.
    pub peak: bool,
    /// Test 3, or test 2 where it is on: a sum is significant.
    pub sum: bool,
}

impl Tests {
    /// Whether the pixel is fed back into the pedestal.
    #[inline(always)]
    pub fn is_quiet(self) -> bool {
        !(self.negative | self.peak | self.sum)
    }

    /// Whether the window is stored, `top` being whether the pixel passes the local-max gate.
    #[inline(always)]
    pub fn is_stored(self, top: bool) -> bool {
        !self.negative & (self.peak | self.sum) & top
    }

    /// The branch, `top` being whether the pixel passes the local-max gate.
    #[inline(always)]
    pub fn branch(self, top: bool) -> Branch {
        if self.negative {
            Branch::Negative
        } else if self.peak {
            if top { Branch::StorePeak } else { Branch::Shadow }
        } else if self.sum {
            if top { Branch::StoreSum } else { Branch::Shoulder }
        } else {
            Branch::Update
        }
    }
}

/// The value rounded half away from zero, as stored in an `i32` payload. Saturates at the ends of `i32`.
#[inline(always)]
pub fn round_half_away<C: Real>(d: C) -> i32 {
    d.round_half_away()
}

/// The rounded value as an `i16` and whether it had to be cut to fit.
#[inline(always)]
pub fn round_to_i16<C: Real>(d: C) -> (i16, bool) {
    let v = round_half_away(d);
    let cut = if v > i16::MAX as i32 {
        i16::MAX as i32
    } else if v < i16::MIN as i32 {
        i16::MIN as i32
    } else {
        v
    };
    (cut as i16, cut != v)
}
