//! What few dark frames cost.

use scheidegg_finder::Params;

/// Share of the decisions about a pixel without light in which it fires at `n_sigma` times a noise that `samples` dark
/// frames told, in the first data frames.
///
/// With `s` the standard deviation of `N` values and `m` their mean, the next value is more than `k s` above `m` with the
/// probability that Student's t of `N - 1` degrees of freedom is above `k sqrt((N - 1) / (N + 1))`: for many dark frames
/// that is the tail of a Gaussian.
pub fn false_rate(samples: u64, n_sigma: f64) -> f64 {
    // From here on a Gaussian to a few per cent at 5 sigma.
    const MANY: u64 = 20_000;
    if samples < 2 {
        return 0.5;
    }
    let n = samples.min(MANY) as f64;
    tail_of_t(samples.min(MANY) - 1, n_sigma * ((n - 1.0) / (n + 1.0)).sqrt())
}

/// Probability that Student's t with `degrees` of freedom is above `t`: the density, integrated by Simpson's rule over
/// `u` with `t = tan(u) sqrt(degrees)`, where it is a power of a cosine.
fn tail_of_t(degrees: u64, t: f64) -> f64 {
    const STEPS: usize = 2000;
    let power = degrees as f64 - 1.0;
    let density = |u: f64| u.cos().max(0.0).powf(power);
    let integral = |from: f64, to: f64| {
        let h = (to - from) / STEPS as f64;
        let sum: f64 = (0..=STEPS)
            .map(|k| {
                let weight = if k == 0 || k == STEPS { 1.0 } else { [2.0, 4.0][k % 2] };
                weight * density(from + k as f64 * h)
            })
            .sum();
        sum * h / 3.0
    };
    // The integrand falls to nothing within a few of its widths.
    let width = 40.0 / (degrees as f64).sqrt();
    let end = std::f64::consts::FRAC_PI_2;
    let from = (t / (degrees as f64).sqrt()).atan();
    let whole = 2.0 * integral(0.0, end.min(width));
    integral(from, end.min(from + width)) / whole
}

/// Dark frames from which on their number is not worth a word: the noise is known to 7 %, and at 5 sigma noise fires some
/// four times as often as with very many.
const ENOUGH: u64 = 100;

/// What follows from a pedestal of few dark frames, in a sentence; nothing from 100 on.
pub fn few_darks(samples: u64, pixels: usize, params: &Params) -> Option<String> {
    if samples >= ENOUGH {
        return None;
    }
    let a_frame = |n| false_rate(n, params.n_sigma) * pixels as f64;
    Some(format!(
        "only {samples} dark frames: they tell the noise of a pixel to within {:.0} %, so that at {} sigma about {} false \
         clusters a frame come from noise at the start (about {} with 1000 dark frames). Take at least {ENOUGH}",
        100.0 / (2.0 * (samples.max(2) - 1) as f64).sqrt(),
        params.n_sigma,
        rounded(a_frame(samples)),
        rounded(a_frame(1000))
    ))
}

/// Two digits that count.
fn rounded(value: f64) -> String {
    match value {
        v if v >= 10.0 => format!("{:.0}", v),
        v if v >= 0.1 => format!("{v:.1}"),
        v if v >= 0.001 => format!("{v:.3}"),
        _ => "none".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Known values of Student's t and of the Gaussian.
    #[test]
    fn tails_are_those_of_the_books() {
        for (degrees, t, want) in [
            (1, 1.0, 0.25),
            (1, 6.313_752, 0.05),
            (2, 2.919_986, 0.05),
            (4, 4.604_095, 0.005),
            (10, 4.143_700, 0.001),
            (120, 1.657_651, 0.05),
        ] {
            let got = tail_of_t(degrees, t);
            assert!((got / want - 1.0).abs() < 1e-4, "{degrees} {t}: {got}");
        }
        let gaussian = 2.866_516e-7;
        assert!(
            (false_rate(10_000_000, 5.0) / gaussian - 1.0).abs() < 0.05,
            "{}",
            false_rate(10_000_000, 5.0)
        );
        assert_eq!(false_rate(1, 5.0), 0.5);
    }

    #[test]
    fn fewer_darks_fire_more() {
        let rates: Vec<f64> = [2, 3, 5, 10, 30, 100, 1000].iter().map(|n| false_rate(*n, 5.0)).collect();
        assert!(rates.windows(2).all(|w| w[0] > w[1]), "{rates:?}");
        assert!(rates[0] > 0.1 && rates[6] < 4e-7, "{rates:?}");
        let params = Params::new(scheidegg_finder::ClusterSize { w: 3, h: 3 });
        assert_eq!(few_darks(100, 160_000, &params), None);
        let said = few_darks(2, 160_000, &params).unwrap();
        assert!(
            said.starts_with("only 2 dark frames: they tell the noise of a pixel to within 71 %"),
            "{said}"
        );
        assert!(few_darks(99, 160_000, &params).is_some());
    }

    /// The sentence against dice: a Gaussian pixel, many times over.
    #[test]
    fn the_rate_is_that_of_gaussian_noise() {
        let mut state = 1u64;
        let mut uniform = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            ((state >> 11) as f64 + 0.5) / (1u64 << 53) as f64
        };
        let mut gauss = || (-2.0 * uniform().ln()).sqrt() * (std::f64::consts::TAU * uniform()).cos();
        let (samples, n_sigma, tries) = (8, 3.0, 200_000);
        let mut fired = 0;
        for _ in 0..tries {
            let values: Vec<f64> = (0..samples).map(|_| gauss()).collect();
            let mean = values.iter().sum::<f64>() / samples as f64;
            let variance = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / samples as f64;
            fired += usize::from(gauss() - mean > n_sigma * variance.sqrt());
        }
        let (got, want) = (fired as f64 / tries as f64, false_rate(samples, n_sigma));
        assert!((got / want - 1.0).abs() < 0.05, "{got} {want}");
    }
}
