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
    ($t:ty) => {
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
                // With a half itself the sum of 0.5 less a bit and a half would round up to 1; with the next value
                // below, a half still does, and no value below a half. The test goes through values of all sizes.
                (self + <$t>::from_bits((0.5 as $t).to_bits() - 1).copysign(self)) as i32
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
real!(f32);
real!(f64);

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_are_rounded_away_from_zero_at_every_size() {
        // All bits of the upper half with the ends of the lower one, and what lies around every half.
        for high in 0..=u16::MAX {
            for low in [0, 1, 2, 0x7ffe, 0x7fff, 0x8000, 0x8001, 0xfffe, 0xffff] {
                let v = f32::from_bits((high as u32) << 16 | low);
                assert_eq!(v.round_half_away(), v.round() as i32, "{v:e}");
                assert_eq!((v as f64).round_half_away(), (v as f64).round() as i32, "{v:e}");
            }
        }
        for n in (-70_000..70_000).chain([1 << 22, (1 << 23) - 1, 1 << 23, i32::MAX - 1, i32::MAX, i32::MIN])
        {
            let half = n as f64 + 0.5;
            for v in [half.next_down(), half, half.next_up()] {
                assert_eq!(v.round_half_away(), v.round() as i32, "{v:e}");
            }
            let half = n as f32 + 0.5;
            for v in [half.next_down(), half, half.next_up()] {
                assert_eq!(v.round_half_away(), v.round() as i32, "{v:e}");
            }
        }
    }
}
