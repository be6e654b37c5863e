//! The main peak of a spectrum: a Gaussian on a sloped or flat background, fitted to the counts.

use rmpfit::{MPFitter, MPPar, MPResult, MPSuccess};

use super::histogram::Histogram;

/// A fitted peak.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Peak {
    /// Its position in ADU.
    pub position: f64,
    /// The standard error of the position.
    pub position_error: f64,
    /// Its standard deviation in ADU.
    pub sigma: f64,
    /// The standard error of the standard deviation.
    pub sigma_error: f64,
    /// Chi-squared of the fit ..
    pub chi2: f64,
    /// .. and its degrees of freedom.
    pub ndf: usize,
    /// Where counts were fitted, in ADU.
    pub range: (f64, f64),
    /// Clusters per ADU at the top, above the background.
    height: f64,
    /// Clusters per ADU of the background at the position, and how they change per ADU.
    background: (f64, f64),
}

/// Below and above the peak, in standard deviations: below it lies shared charge, above it often another line.
const BELOW: f64 = 2.0;
const ABOVE: f64 = 1.5;
/// Bins in a standard deviation; fewer where there are few counts, so that a bin has about `ENOUGH`.
const FINE: f64 = 8.0;
const ENOUGH: f64 = 10.0;
/// Fewest bins that say something of five parameters.
const FEWEST: usize = 9;
/// Fewest clusters in which a peak is looked for.
const CLUSTERS: u64 = 200;
/// Times that the range is taken anew from the fit.
const ROUNDS: usize = 6;

/// Full width at half height of a Gaussian, in standard deviations.
const FWHM: f64 = 2.354_820_045_030_949_3;

impl Peak {
    /// Its full width at half its height, in ADU.
    pub fn fwhm(&self) -> f64 {
        self.sigma * FWHM
    }

    /// The background at an energy, in clusters per ADU.
    pub fn background(&self, energy: f64) -> f64 {
        self.background.0 + self.background.1 * (energy - self.position)
    }

    /// The fitted curve at an energy, in clusters per ADU.
    pub fn curve(&self, energy: f64) -> f64 {
        self.background(energy) + self.height * (-0.5 * ((energy - self.position) / self.sigma).powi(2)).exp()
    }

    /// The standard errors are those of the counts times this: more than 1 where the curve does not follow them.
    pub fn stretch(&self) -> f64 {
        (self.chi2 / self.ndf as f64).sqrt().max(1.0)
    }
}

/// The highest peak, or why there is none.
pub fn main_peak(histogram: &Histogram) -> Result<Peak, &'static str> {
    if histogram.total() < CLUSTERS {
        return Err("there are too few clusters");
    }
    let (mut position, mut sigma) = highest(histogram).ok_or("no peak stands out")?;
    let mut last = None;
    for _ in 0..ROUNDS {
        // A slope that the counts do not tell from the peak is none.
        let peak = match fit(histogram, position, sigma, true) {
            Ok(peak) if peak.sigma_error < 0.1 * peak.sigma => peak,
            _ => fit(histogram, position, sigma, false)?,
        };
        let moved = (peak.position - position).abs() + (peak.sigma - sigma).abs();
        (position, sigma) = (peak.position, peak.sigma);
        last = Some(peak);
        if moved < 0.02 * sigma {
            break;
        }
    }
    last.filter(|p| p.height > 5.0 * (p.curve(p.position) / p.sigma).max(0.0).sqrt())
        .ok_or("no peak stands out")
}

/// About where the highest peak lies and its standard deviation: first in all of the spectrum, then closer.
fn highest(histogram: &Histogram) -> Option<(f64, f64)> {
    let mut range = (histogram.quantile(0.001).max(1.0), histogram.quantile(0.999) + 1.0);
    let mut found = None;
    for _ in 0..3 {
        let bins = histogram.bins(range.0, range.1.max(range.0 + 20.0), 300);
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
        let sigma = (to - from) as f64 * bins.width / FWHM;
        let position = bins.first + (top as f64 + 0.5) * bins.width;
        found = Some((position, sigma));
        range = ((position - 6.0 * sigma).max(1.0), position + 6.0 * sigma);
    }
    found
}

/// Counts of bins and what they are compared with.
struct Slope {
    /// Middles of the bins, in standard deviations from where the peak is expected.
    at: Vec<f64>,
    counts: Vec<f64>,
    /// Standard errors of the counts.
    errors: Vec<f64>,
    limits: Vec<MPPar>,
}

/// Height, position, standard deviation, background and its slope.
fn model(p: &[f64], at: f64) -> f64 {
    p[0] * (-0.5 * ((at - p[1]) / p[2]).powi(2)).exp() + p[3] + p[4] * at
}

impl MPFitter for Slope {
    fn eval(&mut self, params: &[f64], deviates: &mut [f64]) -> MPResult<()> {
        for (i, d) in deviates.iter_mut().enumerate() {
            *d = (self.counts[i] - model(params, self.at[i])) / self.errors[i];
        }
        Ok(())
    }

    fn number_of_points(&self) -> usize {
        self.at.len()
    }

    fn parameters(&self) -> &[MPPar] {
        &self.limits
    }
}

/// Fits a peak that lies about at `position` and has about this standard deviation, on a sloped or a flat background.
fn fit(histogram: &Histogram, position: f64, sigma: f64, sloped: bool) -> Result<Peak, &'static str> {
    let (low, high) = (position - BELOW * sigma, position + ABOVE * sigma);
    let mut width = (sigma / FINE).round().max(1.0);
    let inside = histogram.count(low, high) as f64;
    if inside * width / (high - low) < ENOUGH {
        width = (ENOUGH * (high - low) / inside.max(1.0)).ceil();
    }
    let bins = histogram.exactly(low.round() as i64, width as i64, ((high - low) / width).round() as usize);
    if bins.counts.len() < FEWEST {
        return Err(if sigma < 3.0 {
            "it is as narrow as the bins"
        } else {
            "there are too few clusters in it"
        });
    }
    let counts: Vec<f64> = bins.counts.iter().map(|n| *n as f64).collect();
    let middle = |i: usize| bins.first + (i as f64 + 0.5) * bins.width;
    let within = |low: f64, high: f64| MPPar {
        limited_low: true,
        limited_up: true,
        limit_low: low,
        limit_up: high,
        ..MPPar::new()
    };
    let most = counts.iter().copied().fold(1.0, f64::max);
    let mut slope = Slope {
        at: (0..counts.len()).map(|i| (middle(i) - position) / sigma).collect(),
        errors: counts.iter().map(|n| n.max(1.0).sqrt()).collect(),
        counts,
        limits: vec![
            within(0.0, 10.0 * most),
            within(-BELOW, ABOVE),
            within(0.2, 5.0),
            MPPar::new(),
            MPPar { fixed: !sloped, ..MPPar::new() },
        ],
    };
    let mut p = [0.8 * most, 0.0, 1.0, 0.2 * most, 0.0];
    let mut status = None;
    // First with the errors of the counts, then with those of the curve: low counts pull less.
    for _ in 0..3 {
        let done = slope.mpfit(&mut p).map_err(|_| "a Gaussian does not fit it")?;
        slope.errors = slope.at.iter().map(|x| model(&p, *x).max(1.0).sqrt()).collect();
        status = Some(done);
    }
    let done = status.ok_or("a Gaussian does not fit it")?;
    let ndf = bins.counts.len() - if sloped { p.len() } else { p.len() - 1 };
    let errors = (done.xerror.first(), done.xerror.get(1), done.xerror.get(2));
    let (Some(_), Some(e1), Some(e2)) = errors else { return Err("a Gaussian does not fit it") };
    let mut peak = Peak {
        position: position + p[1] * sigma,
        position_error: e1 * sigma,
        sigma: p[2] * sigma,
        sigma_error: e2 * sigma,
        chi2: done.best_norm,
        ndf,
        range: (bins.first, bins.first + bins.width * bins.counts.len() as f64),
        height: p[0] / bins.width,
        background: ((p[3] + p[4] * p[1]) / bins.width, p[4] / sigma / bins.width),
    };
    peak.position_error *= peak.stretch();
    peak.sigma_error *= peak.stretch();
    let finished = !matches!(done.success, MPSuccess::NotDone | MPSuccess::MaxIter) && done.n_pegged == 0;
    let known = [peak.position_error, peak.sigma_error].iter().all(|e| e.is_finite() && *e > 0.0);
    let finite = [peak.position, peak.sigma, peak.chi2, peak.height, peak.background.0, peak.background.1]
        .iter()
        .all(|v| v.is_finite());
    match finished && known && finite && peak.sigma_error < 0.5 * peak.sigma {
        true => Ok(peak),
        false => Err("a Gaussian does not fit it"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values evenly from 0 to 1.
    fn even(state: &mut u64) -> f64 {
        *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((*state >> 11) as f64 + 0.5) / 2f64.powi(53)
    }

    /// A value of a Gaussian (Box and Muller).
    fn gaussian(state: &mut u64) -> f64 {
        let (a, b) = (even(state), even(state));
        (-2.0 * a.ln()).sqrt() * (std::f64::consts::TAU * b).cos()
    }

    /// A peak of `n` clusters on `below` even ones from 0 to 2000 ADU.
    fn spectrum(position: f64, sigma: f64, n: usize, below: usize, seed: u64) -> Histogram {
        let (mut h, mut state) = (Histogram::default(), seed);
        (0..n).for_each(|_| h.add(position + sigma * gaussian(&mut state)));
        (0..below).for_each(|_| h.add(2000.0 * even(&mut state)));
        h
    }

    #[test]
    fn a_gaussian_is_found_within_its_errors() {
        for (position, sigma, n, below) in [
            (1200.3, 60.0, 100_000, 20_000),
            (321.7, 18.0, 20_000, 0),
            (998.0, 40.0, 3_000, 3_000),
            (90.0, 8.0, 50_000, 100),
        ] {
            let (mut pulls, mut chi2) = ([0.0f64; 2], 0.0);
            const RUNS: u64 = 40;
            for seed in 0..RUNS {
                let p = main_peak(&spectrum(position, sigma, n, below, seed)).unwrap();
                let off = [(p.position - position) / p.position_error, (p.sigma - sigma) / p.sigma_error];
                assert!(off.iter().all(|o| o.abs() < 5.0), "{p:?}");
                (0..2).for_each(|k| pulls[k] += off[k] * off[k] / RUNS as f64);
                chi2 += p.chi2 / p.ndf as f64 / RUNS as f64;
                assert!(p.range.0 < p.position && p.position < p.range.1);
            }
            // Errors that are right are right on average, too.
            assert!((0.7..1.4).contains(&chi2), "{position}: chi2 {chi2}");
            assert!(pulls.iter().all(|p| (0.3..2.2).contains(p)), "{position}: pulls {pulls:?}");
        }
    }

    #[test]
    fn the_curve_is_that_of_the_counts() {
        let (n, below) = (200_000, 100_000);
        let p = main_peak(&spectrum(1000.0, 50.0, n, below, 3)).unwrap();
        let top = n as f64 / (50.0 * std::f64::consts::TAU.sqrt());
        assert!((p.curve(1000.0) / (top + 50.0) - 1.0).abs() < 0.02, "{p:?}");
        assert!((p.background(1000.0) - 50.0).abs() < 0.1 * top, "{p:?}");
        assert!((p.fwhm() / p.sigma - 2.3548).abs() < 1e-3);
    }

    #[test]
    fn a_peak_is_found_beside_a_hot_pixel() {
        let mut h = spectrum(320.0, 15.0, 50_000, 5_000, 1);
        (0..2_000).for_each(|i| h.add(16_000.0 + f64::from(i % 100)));
        let p = main_peak(&h).unwrap();
        assert!((p.position - 320.0).abs() < 1.0 && (p.sigma - 15.0).abs() < 1.0, "{p:?}");
    }

    #[test]
    fn what_is_no_peak_is_none() {
        assert!(main_peak(&Histogram::default()).is_err());
        let of = |values: &mut dyn Iterator<Item = f64>| {
            let mut h = Histogram::default();
            values.for_each(|v| h.add(v));
            main_peak(&h)
        };
        assert!(of(&mut (0..1000).map(|_| 5.0)).is_err());
        assert!(of(&mut (0..1000).map(|_| -5.0)).is_err());
        assert!(of(&mut (0..1000).map(f64::from)).is_err(), "{:?}", of(&mut (0..1000).map(f64::from)));
        assert!(of(&mut (0..1000).map(|i| if i % 2 == 0 { 1e12 } else { -1e12 })).is_err());
        assert!(of(&mut (0..1000).map(|i| [f64::NAN, f64::INFINITY, f64::NEG_INFINITY][i % 3])).is_err());
        let mut state = 1;
        assert!(of(&mut (0..150).map(|_| 500.0 + gaussian(&mut state))).is_err(), "few clusters");
    }
}
