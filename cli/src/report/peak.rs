//! The main peak of a spectrum.

use super::histogram::{Bins, Histogram};

/// A peak with the shape of a Gaussian.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Peak {
    /// Its position in ADU.
    pub position: f64,
    /// Its standard deviation in ADU.
    pub sigma: f64,
}

impl Peak {
    /// Its full width at half its height, in ADU.
    pub fn fwhm(&self) -> f64 {
        self.sigma * (8.0 * std::f64::consts::LN_2).sqrt()
    }
}

/// The highest peak: a parabola through the logarithms of the counts above half of its height, weighted with the
/// counts. Nothing when there are too few counts for one.
pub fn main_peak(histogram: &Histogram) -> Option<Peak> {
    let low = histogram.quantile(0.001).max(1.0);
    let high = histogram.quantile(0.999);
    if histogram.total() < 200 || high <= low {
        return None;
    }
    fit(&histogram.bins(low, high, 300))
}

fn fit(bins: &Bins) -> Option<Peak> {
    let n = bins.counts.len();
    let smooth: Vec<f64> = (0..n)
        .map(|i| {
            let near = &bins.counts[i.saturating_sub(3)..(i + 4).min(n)];
            near.iter().sum::<u64>() as f64 / near.len() as f64
        })
        .collect();
    let top = (0..n).max_by(|a, b| smooth[*a].total_cmp(&smooth[*b]))?;
    let half = smooth[top] / 2.0;
    let from = (0..top).rev().find(|i| smooth[*i] < half).map_or(0, |i| i + 1);
    let to = (top..n).find(|i| smooth[*i] < half).unwrap_or(n);
    // Weighted least squares of ln(counts) = a + b*u + c*u^2 around the top.
    let mut s = [0.0f64; 5];
    let mut t = [0.0f64; 3];
    for i in from..to {
        let w = bins.counts[i] as f64;
        if w > 0.0 {
            let u = i as f64 - top as f64;
            let powers = [1.0, u, u * u, u.powi(3), u.powi(4)];
            (0..5).for_each(|k| s[k] += w * powers[k]);
            (0..3).for_each(|k| t[k] += w * w.ln() * powers[k]);
        }
    }
    let det = |m: [[f64; 3]; 3]| {
        m[0][0] * (m[1][1] * m[2][2] - m[1][2] * m[2][1]) - m[0][1] * (m[1][0] * m[2][2] - m[1][2] * m[2][0])
            + m[0][2] * (m[1][0] * m[2][1] - m[1][1] * m[2][0])
    };
    let all = det([[s[0], s[1], s[2]], [s[1], s[2], s[3]], [s[2], s[3], s[4]]]);
    let b = det([[s[0], t[0], s[2]], [s[1], t[1], s[3]], [s[2], t[2], s[4]]]) / all;
    let c = det([[s[0], s[1], t[0]], [s[1], s[2], t[1]], [s[2], s[3], t[2]]]) / all;
    if !(c < 0.0 && b.is_finite()) {
        return None;
    }
    let at = top as f64 - b / (2.0 * c);
    let sigma = (-0.5 / c).sqrt() * bins.width;
    Some(Peak { position: bins.first + (at + 0.5) * bins.width, sigma })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gaussian_on_a_tail_is_found() {
        let mut h = Histogram::default();
        for i in 0..2000 {
            let x = f64::from(i);
            let n = 1000.0 * (-0.5 * ((x - 1200.0) / 60.0).powi(2)).exp() + 50.0;
            (0..n as u64).for_each(|_| h.add(x));
        }
        let p = main_peak(&h).unwrap();
        assert!((p.position - 1200.0).abs() < 2.0 && (p.sigma - 60.0).abs() < 6.0, "{p:?}");
        assert!((p.fwhm() / p.sigma - 2.3548).abs() < 1e-3);
    }

    #[test]
    fn nothing_is_no_peak() {
        assert_eq!(main_peak(&Histogram::default()), None);
        let mut h = Histogram::default();
        (0..1000).for_each(|_| h.add(5.0));
        assert_eq!(main_peak(&h), None);
    }
}
