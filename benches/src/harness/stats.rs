//! Median and spread of repetitions.

/// Median and spread of repetitions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// The median; of an even number the mean of the middle two.
    pub median: f64,
    /// The smallest.
    pub least: f64,
    /// The largest.
    pub most: f64,
}

impl Spread {
    /// Of at least one value.
    ///
    /// # Panics
    /// Without a value.
    pub fn of(values: &[f64]) -> Spread {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let n = sorted.len();
        let median = if n % 2 == 1 { sorted[n / 2] } else { (sorted[n / 2 - 1] + sorted[n / 2]) / 2.0 };
        Spread { median, least: sorted[0], most: sorted[n - 1] }
    }

    /// From the smallest to the largest, as a share of the median.
    pub fn relative(&self) -> f64 {
        (self.most - self.least) / self.median
    }

    /// From the smallest to the largest, in percent of the smallest: the spread of times, whose best counts.
    pub fn percent_of_least(&self) -> f64 {
        100.0 * (self.most - self.least) / self.least
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_median_of_odd_and_even_numbers() {
        assert_eq!(Spread::of(&[3.0, 1.0, 2.0]), Spread { median: 2.0, least: 1.0, most: 3.0 });
        assert_eq!(Spread::of(&[4.0, 1.0, 2.0, 3.0]).median, 2.5);
        assert_eq!(Spread::of(&[9.0, 10.0, 11.0]).relative(), 0.2);
        assert_eq!(Spread::of(&[12.0, 10.0, 15.0]).percent_of_least(), 50.0);
    }
}
