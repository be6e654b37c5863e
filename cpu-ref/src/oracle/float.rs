//! The numbers of the oracle: `f32` and `f64`, and no more of them than [SPEC](scheidegg_finder::spec) needs.

use std::ops::{Add, Div, Mul, Sub};

use scheidegg_finder::Plane;

/// `f32` or `f64`. Each operator is one IEEE operation, rounded to nearest even; Rust never fuses two.
pub(crate) trait Float:
    Copy
    + PartialOrd
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Send
    + Sync
    + 'static
{
    /// Rounds an `f64` to this precision, once.
    fn of(v: f64) -> Self;
    /// Widens to `f64`, exactly.
    fn wide(self) -> f64;
    /// An exact integer, rounded to this precision once.
    fn of_integer(v: i128) -> Self;
    /// A plane of a pedestal in this precision.
    fn plane(values: Vec<Self>) -> Plane;
    /// The values of a plane, if it has this precision.
    fn values(plane: &Plane) -> Option<&[Self]>;
}

macro_rules! float {
    ($t:ty, $variant:ident) => {
        impl Float for $t {
            fn of(v: f64) -> Self {
                v as $t
            }
            fn wide(self) -> f64 {
                f64::from(self)
            }
            fn of_integer(v: i128) -> Self {
                v as $t
            }
            fn plane(values: Vec<Self>) -> Plane {
                Plane::$variant(values)
            }
            fn values(plane: &Plane) -> Option<&[Self]> {
                match plane {
                    Plane::$variant(v) => Some(v),
                    _ => None,
                }
            }
        }
    };
}
float!(f32, F32);
float!(f64, F64);

/// `v as C`: one rounding when `C` is the narrower, none otherwise.
pub(crate) fn cast<P: Float, C: Float>(v: P) -> C {
    C::of(v.wide())
}

/// The larger of two numbers; neither is ever NaN.
pub(crate) fn max<T: Float>(a: T, b: T) -> T {
    if a < b { b } else { a }
}
