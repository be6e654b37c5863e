//! The normal distribution from IEEE additions, products, quotients and square roots alone.
//!
//! Nothing here calls the system's mathematics library: its last bits differ between machines, and a simulated
//! frame must not.

/// `1 / sqrt(2 pi)`.
const INV_SQRT_TWO_PI: f64 = 0.398_942_280_401_432_7;

/// `e^x` for `x` from -700 to 700: powers of two and a Taylor series, good to a few units in the last place.
fn exp(x: f64) -> f64 {
    const LN_2_HIGH: f64 = 6.931_471_803_691_238e-1;
    const LN_2_LOW: f64 = 1.908_214_929_270_587_7e-10;
    debug_assert!((-700.0..=700.0).contains(&x));
    let n = (x * std::f64::consts::LOG2_E).round();
    let r = (x - n * LN_2_HIGH) - n * LN_2_LOW;
    // |r| <= 0.35: 0.35^15 / 15! is far below the last bit.
    let series = (1..=15).rev().fold(1.0, |s, k| 1.0 + r * s / f64::from(k));
    series * f64::from_bits(((1023 + n as i64) as u64) << 52)
}

/// Density of the standard normal distribution.
pub fn density(z: f64) -> f64 {
    INV_SQRT_TWO_PI * exp(-0.5 * z * z)
}

/// Probability that a standard normal value lies above `z`, for `z` from 0 to 30. Relative error below 1e-12.
pub fn upper_tail(z: f64) -> f64 {
    debug_assert!((0.0..=30.0).contains(&z));
    if z < 3.0 {
        // 1/2 - density * (z + z^3/3 + z^5/(3*5) + ...): every term positive, so nothing cancels in the sum.
        let (mut term, mut sum, mut k) = (z, 0.0, 1.0);
        while term > 1e-18 {
            sum += term;
            k += 2.0;
            term *= z * z / k;
        }
        0.5 - density(z) * sum
    } else {
        // Laplace's continued fraction density / (z + 1/(z + 2/(z + 3/...))).
        let fraction = (1..=80).rev().fold(z, |f, k| z + f64::from(k) / f);
        density(z) / fraction
    }
}

/// Probability that a standard normal value lies below `z`.
pub fn cumulative(z: f64) -> f64 {
    if z < 0.0 { upper_tail(-z) } else { 1.0 - upper_tail(z) }
}

/// The `z >= start` above which a standard normal value lies with probability `q`. `start` must not lie above the
/// result: the tail is convex there, so Newton's steps approach from below and never overshoot.
pub fn upper_quantile(q: f64, start: f64) -> f64 {
    let mut z = start;
    for _ in 0..100 {
        let step = (upper_tail(z) - q) / density(z);
        z += step.max(0.0);
        if step <= 1e-13 * (1.0 + z) {
            break;
        }
    }
    z
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values of the upper tail from tables (Abramowitz and Stegun 26.2, and mpmath for the far ones).
    #[test]
    fn the_tail_has_its_tabulated_values() {
        for (z, q) in [
            (0.0, 0.5),
            (1.0, 0.158_655_253_931_457_05),
            (2.0, 0.022_750_131_948_179_21),
            (3.0, 1.349_898_031_630_094_5e-3),
            (5.0, 2.866_515_718_791_939e-7),
            (7.0, 1.279_812_543_885_835e-12),
            (9.0, 1.128_588_405_953_840_6e-19),
        ] {
            let got = upper_tail(z);
            assert!((got / q - 1.0).abs() < 1e-11, "tail({z}) = {got:e}, expected {q:e}");
            if z > 0.0 {
                let back = upper_quantile(q, 0.0);
                assert!((back - z).abs() < 1e-10, "quantile({q:e}) = {back}, expected {z}");
            }
        }
        assert!((cumulative(-1.0) + cumulative(1.0) - 1.0).abs() < 1e-15);
    }
}
