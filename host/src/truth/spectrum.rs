//! A spectrum of cluster charges and the Gaussian in its middle.

/// Counts of charges from 0 to twice the expected one, in bins of whole ADU centred on whole ADU.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Spectrum {
    bin_adu: f64,
    bins: Vec<u64>,
    outside: u64,
}

impl Spectrum {
    pub fn new(expected_adu: f64) -> Spectrum {
        // At most some 4000 bins, so that a spectrum is added quickly.
        let bin_adu = (expected_adu / 2048.0).ceil().max(1.0);
        let bins = vec![0; (2.0 * expected_adu / bin_adu).ceil() as usize + 2];
        Spectrum { bin_adu, bins, outside: 0 }
    }

    pub fn add(&mut self, adu: f64) {
        let at = (adu / self.bin_adu + 0.5).floor();
        if at >= 0.0 && at < self.bins.len() as f64 {
            self.bins[at as usize] += 1;
        } else {
            self.outside += 1;
        }
    }

    pub fn merge(mut self, other: Spectrum) -> Spectrum {
        if self.bins.is_empty() {
            return other;
        }
        for (a, b) in self.bins.iter_mut().zip(&other.bins) {
            *a += b;
        }
        self.outside += other.outside;
        self
    }

    /// Entries, those outside included.
    pub fn entries(&self) -> u64 {
        self.bins.iter().sum::<u64>() + self.outside
    }

    /// Mean and standard deviation of the Gaussian core, or nothing with fewer than 10 entries.
    ///
    /// From the median and the quartiles on, mean and standard deviation of what lies within two standard
    /// deviations of the mean are taken anew until they stay; the deviation is corrected for what a Gaussian has outside.
    pub fn core(&self) -> Option<(f64, f64)> {
        let inside: u64 = self.bins.iter().sum();
        if inside < 10 {
            return None;
        }
        let quantile = |share: f64| {
            let mut below = 0;
            let bin = self.bins.iter().position(|n| {
                below += n;
                below as f64 >= share * inside as f64
            });
            bin.unwrap_or(0) as f64
        };
        // Standard deviation of a Gaussian cut at two standard deviations.
        const CUT: f64 = 0.879_625_6;
        let (mut mean, mut width) = (quantile(0.5), (quantile(0.75) - quantile(0.25)) / 1.349);
        for _ in 0..200 {
            let reach = (2.0 * width).max(1.0);
            let (low, high) = (mean - reach, mean + reach);
            let (mut n, mut m, mut q) = (0.0, 0.0, 0.0);
            for (i, &count) in self.bins.iter().enumerate() {
                // The part of the bin that lies inside, its entries evenly spread: the cut would jump otherwise.
                let (from, to) = ((i as f64 - 0.5).max(low), (i as f64 + 0.5).min(high));
                let inside = (to - from).max(0.0);
                let (part, from_mean) = (count as f64 * inside, 0.5 * (from + to) - mean);
                n += part;
                m += part * from_mean;
                q += part * (from_mean * from_mean + inside * inside / 12.0);
            }
            if n == 0.0 {
                break;
            }
            let shift = m / n;
            // Less what the bins' width adds (Sheppard).
            let next = (q / n - shift * shift - 1.0 / 12.0).max(0.0).sqrt() / CUT;
            let still = shift.abs() < 1e-6 && (next - width).abs() < 1e-6;
            (mean, width) = (mean + shift, next);
            if still {
                break;
            }
        }
        Some((mean * self.bin_adu, width * self.bin_adu))
    }
}

#[cfg(test)]
mod tests {
    use approx::assert_abs_diff_eq;

    use super::*;

    #[test]
    fn the_core_of_a_gaussian_on_a_tail_is_its_mean_and_width() {
        let mut spectrum = Spectrum::new(1000.0);
        // The Gaussian itself, not a sample: 1e6 entries at 1000.25, width 50; and a flat tail of 2 % below it.
        for adu in 700..=1300 {
            let z = (f64::from(adu) - 1000.25) / 50.0;
            let count = (1e6 / (50.0 * 2.506_628_3) * (-0.5 * z * z).exp()).round() as u64;
            spectrum.bins[adu as usize] += count;
        }
        let (mean, width) = spectrum.core().unwrap();
        // Bins of 1 ADU in whole counts.
        assert_abs_diff_eq!(mean, 1000.25, epsilon = 0.02);
        assert_abs_diff_eq!(width, 50.0, epsilon = 0.2);
        for adu in 300..1000 {
            spectrum.bins[adu] += 28;
        }
        let (mean, width) = spectrum.core().unwrap();
        // The tail may move the core by a hundredth of its width.
        assert_abs_diff_eq!(mean, 1000.25, epsilon = 0.5);
        assert_abs_diff_eq!(width, 50.0, epsilon = 0.5);
    }

    #[test]
    fn bins_are_as_wide_as_some_4000_of_them_need() {
        for (expected, bin, bins) in [
            (0.4, 1.0, 3),
            (1000.0, 1.0, 2002),
            (2048.0, 1.0, 4098),
            (2048.5, 2.0, 2051),
            (3000.0, 2.0, 3002),
            (9000.0, 5.0, 3602),
        ] {
            let spectrum = Spectrum::new(expected);
            assert_eq!((spectrum.bin_adu, spectrum.bins.len()), (bin, bins), "{expected}");
            // Up to twice what is expected, each charge in the bin around its own.
            let mut spectrum = spectrum;
            spectrum.add(2.0 * expected);
            spectrum.add(0.0);
            assert_eq!(spectrum.outside, 0);
            assert_eq!(spectrum.bins[(2.0 * expected / bin).round() as usize], 1);
            // The first charge that has no bin, and one below the first.
            spectrum.add((bins as f64 - 0.5) * bin);
            spectrum.add(-0.51 * bin);
            assert_eq!((spectrum.outside, spectrum.entries()), (2, 4));
            let twice = spectrum.clone().merge(spectrum);
            assert_eq!((twice.outside, twice.entries()), (4, 8));
        }
    }

    /// A width of few bins: what the bins add to it is taken off.
    #[test]
    fn narrow_cores_keep_their_width_at_any_bin() {
        for expected in [20.0, 3000.0, 9000.0] {
            let mut spectrum = Spectrum::new(expected);
            let (bin, middle) = (spectrum.bin_adu, 20.25);
            // Shares of a Gaussian of width 3 bins, by Simpson's rule over each bin.
            for (i, count) in spectrum.bins.iter_mut().enumerate().take(41) {
                let z = |at: f64| (-0.5 * ((at - middle) / 3.0f64).powi(2)).exp() / (3.0 * 2.506_628_275);
                let i = i as f64;
                *count = (1e6 * (z(i - 0.5) + 4.0 * z(i) + z(i + 0.5)) / 6.0).round() as u64;
            }
            let (mean, width) = spectrum.core().unwrap();
            assert_abs_diff_eq!(mean, middle * bin, epsilon = 0.01 * bin);
            assert_abs_diff_eq!(width, 3.0 * bin, epsilon = 0.03 * bin);
        }
    }

    #[test]
    fn few_entries_have_no_core_and_equal_ones_no_width() {
        let mut spectrum = Spectrum::new(100.0);
        (0..9).for_each(|_| spectrum.add(40.0));
        assert_eq!(spectrum.core(), None);
        spectrum.add(40.0);
        let (mean, width) = spectrum.core().unwrap();
        assert_abs_diff_eq!(mean, 40.0, epsilon = 1e-6);
        assert_abs_diff_eq!(width, 0.0, epsilon = 1e-6);
        spectrum.add(-3.0);
        spectrum.add(1e9);
        assert_eq!(spectrum.entries(), 12);
    }
}
