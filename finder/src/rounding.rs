//! Rounding to half precision, the same on every machine.

use half::f16;

/// The half-precision number nearest to `d`, the even one of two that are equally near: the `f16` payload of
/// [SPEC 3](crate::spec#3-a-frame).
///
/// `f16::from_f64` is not it: where the machine converts from `f32` only, it rounds twice, and elsewhere it drops the
/// last 32 bits before it rounds. `f16::from_f32` is right for what is an `f32` already.
#[inline]
pub fn to_f16(d: f64) -> f16 {
    let near = d as f32;
    let wide = f64::from(near);
    if wide == d {
        return f16::from_f32(near);
    }
    // Rounded to odd: cut towards zero and the last bit set. That bit keeps what was lost from passing for a half.
    let cut = if wide.abs() > d.abs() { near.to_bits() - 1 } else { near.to_bits() };
    f16::from_f32(f32::from_bits(cut | 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_a_little_beside_a_half_is_rounded_once() {
        for (d, want) in [
            (2049.0, 2048.0),
            (2049.0 + 1e-9, 2050.0),
            (2051.0 - 1e-9, 2050.0),
            (-2049.0 - 1e-9, -2050.0),
            (0.1, 0.1),
            (65_519.999_999_999, 65504.0),
            (65520.0, f32::INFINITY),
            (1e-9, 0.0),
        ] {
            assert_eq!(to_f16(d), f16::from_f32(want), "{d}");
        }
        assert_eq!(to_f16(-0.0).to_bits(), 0x8000);
    }
}
