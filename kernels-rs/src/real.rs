//! The two floating point precisions that a pedestal or a decision can have.

use core::ops::{Add, Mul, Sub};

/// `f32` or `f64`, with just the operations that SPEC needs; each is one IEEE operation, rounded to nearest
/// even. Nothing here contracts a product and a sum into one rounding.
pub trait Real:
    Copy + PartialOrd + Add<Output = Self> + Sub<Output = Self> + Mul<Output = Self> + Send + Sync + 'static
{
    /// Zero.
    const ZERO: Self;
    /// Minus infinity, the identity of the maximum.
    const NEG_INFINITY: Self;
    /// Bytes of one value.
    const BYTES: usize;

    /// The nearest value to an integer of up to 32 bits (exact for every difference of two pixels).
    fn from_i32(v: i32) -> Self;
    /// The nearest value to `v`.
    fn from_f64(v: f64) -> Self;
    /// Widens to `f64`; always exact.
    fn to_f64(self) -> f64;
    /// `1 / self`, one rounded division.
    fn recip(self) -> Self;

    /// The value without its sign.
    fn magnitude(self) -> Self;

    /// The nearest integer, halves away from zero, saturating.
    fn round_half_away(self) -> i32;

    /// The larger of two values that are not NaN.
    #[inline(always)]
    fn larger(self, other: Self) -> Self {
        if other > self { other } else { self }
    }
}

macro_rules! real {
    ($t:ty, $int:ty, $past:expr) => {
        impl Real for $t {
            const ZERO: Self = 0.0;
            const NEG_INFINITY: Self = <$t>::NEG_INFINITY;
            const BYTES: usize = core::mem::size_of::<$t>();

            #[inline(always)]
            fn from_i32(v: i32) -> Self {
                v as $t
            }
            #[inline(always)]
            fn from_f64(v: f64) -> Self {
                v as $t
            }
            #[inline(always)]
            fn to_f64(self) -> f64 {
                self as f64
            }
            #[inline(always)]
            fn round_half_away(self) -> i32 {
                let a = if self < 0.0 { -self } else { self };
                if a >= $past {
                    return if self < 0.0 { i32::MIN } else { i32::MAX };
                }
                // Exact: what is left after the whole part is cut off has no more bits than the value, and a value too
                // large for a fraction has none left.
                let whole = a as $int;
                let n = whole + ((a - whole as $t) >= 0.5) as $int;
                (if self < 0.0 { -n } else { n }) as i32
            }
            #[inline(always)]
            fn recip(self) -> Self {
                1.0 / self
            }
            #[inline(always)]
            fn magnitude(self) -> Self {
                self.abs()
            }
            // One instruction on a GPU instead of two. It may give the other zero; no comparison sees that.
            #[cfg(target_arch = "nvptx64")]
            #[inline(always)]
            fn larger(self, other: Self) -> Self {
                self.max(other)
            }
        }
    };
}
// The first value that rounds past the largest `i32`; near it an f32 has no halves.
real!(f32, i32, 2_147_483_648.0);
real!(f64, i64, 2_147_483_647.5);

/// Conversion from the pedestal's precision to the precision of a decision (`as C` in SPEC).
pub trait Convert<C>: Real {
    /// The nearest value in `C`.
    fn convert(self) -> C;
}

impl Convert<f32> for f32 {
    #[inline(always)]
    fn convert(self) -> f32 {
        self
    }
}
impl Convert<f32> for f64 {
    #[inline(always)]
    fn convert(self) -> f32 {
        self as f32
    }
}
impl Convert<f64> for f64 {
    #[inline(always)]
    fn convert(self) -> f64 {
        self
    }
}
