//! Counts of values in bins of 1 ADU.

use std::collections::BTreeMap;

use crate::plot::nice_step;

/// Values from here ..
const LOW: i64 = -2048;
/// .. to here are counted in one array; the few outside in a map.
const HIGH: i64 = 65_536;

/// Nothing farther from 0 is drawn.
const FAR: f64 = 1e15;

/// A histogram over all ADU values: bin `i` holds values that round to `i`.
#[derive(Clone, Debug, PartialEq)]
pub struct Histogram {
    near: Vec<u64>,
    far: BTreeMap<i64, u64>,
    total: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Histogram { near: vec![0; (HIGH - LOW) as usize], far: BTreeMap::new(), total: 0 }
    }
}

/// Neighbouring bins of a histogram taken together, for a picture.
#[derive(Clone, Debug, PartialEq)]
pub struct Bins {
    /// Lower edge of the first bin.
    pub first: f64,
    /// Width of a bin.
    pub width: f64,
    /// Counts.
    pub counts: Vec<u64>,
}

impl Histogram {
    /// Counts a value.
    #[inline]
    pub fn add(&mut self, value: f64) {
        // `round` is a call into the C library. Where it matters, that is in the array, this is the same: half a bin is
        // rounded away from 0, and the difference is exact.
        let whole = value as i32;
        let rest = value - f64::from(whole);
        let bin = i64::from(whole) + i64::from(rest >= 0.5) - i64::from(rest <= -0.5);
        self.total += 1;
        match self.near.get_mut((bin - LOW) as usize) {
            Some(n) => *n += 1,
            None => self.add_far(value),
        }
    }

    #[cold]
    fn add_far(&mut self, value: f64) {
        *self.far.entry(value.round() as i64).or_default() += 1;
    }

    /// Counts all values of another histogram too.
    pub fn merge(&mut self, other: &Histogram) {
        self.near.iter_mut().zip(&other.near).for_each(|(a, b)| *a += b);
        for (bin, n) in &other.far {
            *self.far.entry(*bin).or_default() += n;
        }
        self.total += other.total;
    }

    /// Values counted.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Bins that hold something, ascending.
    fn filled(&self) -> impl Iterator<Item = (i64, u64)> + '_ {
        let near = self.near.iter().enumerate().map(|(i, n)| (LOW + i as i64, *n)).filter(|(_, n)| *n > 0);
        let below = self.far.range(..LOW).map(|(b, n)| (*b, *n));
        let above = self.far.range(HIGH..).map(|(b, n)| (*b, *n));
        below.chain(near).chain(above)
    }

    /// The value below which this share of the counts lies, or 0 when there are none.
    pub fn quantile(&self, share: f64) -> f64 {
        let want = (self.total as f64 * share).ceil().max(1.0) as u64;
        let mut seen = 0;
        for (bin, n) in self.filled() {
            seen += n;
            if seen >= want {
                return bin as f64;
            }
        }
        0.0
    }

    /// The counts from `low` to `high` in bins of a whole, round number of ADU, about `bins` of them.
    pub fn bins(&self, low: f64, high: f64, bins: usize) -> Bins {
        // Far beyond any detector, but what is drawn must be whole numbers.
        let (low, high) = (low.clamp(-FAR, FAR).floor(), high.clamp(-FAR, FAR).ceil());
        let (low, high) = (low as i64, high.max(low + 1.0) as i64);
        let width = nice_step((high - low) as f64 / bins.max(1) as f64).max(1.0) as i64;
        self.exactly(low, width, ((high - low) as u64).div_ceil(width as u64) as usize)
    }

    /// The counts in `bins` bins of `width` ADU, the first of which begins with values that round to `low`.
    pub fn exactly(&self, low: i64, width: i64, bins: usize) -> Bins {
        let mut counts = vec![0; bins];
        for (bin, n) in self.filled() {
            if bin >= low
                && let Some(c) = counts.get_mut((bin.saturating_sub(low) / width) as usize)
            {
                *c += n;
            }
        }
        Bins { first: low as f64 - 0.5, width: width as f64, counts }
    }

    /// The values that round to `low..high`.
    pub fn count(&self, low: f64, high: f64) -> u64 {
        self.filled().filter(|(bin, _)| (low..high).contains(&(*bin as f64))).map(|(_, n)| n).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_is_counted_wherever_it_lies() {
        let mut h = Histogram::default();
        for v in [-5000.0, -0.4, 0.4, 0.6, 12.0, 65_535.0, 65_536.0, 9e6] {
            h.add(v);
        }
        assert_eq!(h.total(), 8);
        assert_eq!(
            h.filled().collect::<Vec<_>>(),
            [(-5000, 1), (0, 2), (1, 1), (12, 1), (65_535, 1), (65_536, 1), (9_000_000, 1)]
        );
        assert_eq!(h.quantile(0.5), 1.0);
        assert_eq!(h.quantile(1.0), 9e6);
        let bins = h.bins(0.0, 20.0, 10);
        assert_eq!((bins.first, bins.width, bins.counts.iter().sum::<u64>()), (-0.5, 2.0, 4));
        assert_eq!(bins.counts[0], 3);
        assert_eq!(Histogram::default().quantile(0.9), 0.0);
        assert_eq!(Histogram::default().bins(0.0, 0.0, 10).counts, [0]);
    }

    #[test]
    fn values_are_rounded_as_round_does() {
        let halves = (-9000..9000).map(|i| f64::from(i) / 2.0);
        let edges = [LOW as f64, 0.0, HIGH as f64, 1e6, -1e6, i32::MAX.into(), i32::MIN.into()];
        let around = edges.into_iter().flat_map(|v| [v - 0.5, v, v + 0.5]);
        let odd = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e300, -1e300, -0.0];
        for v in halves.chain(around).flat_map(|v| [v.next_down(), v, v.next_up()]).chain(odd) {
            let mut h = Histogram::default();
            h.add(v);
            assert_eq!(h.filled().collect::<Vec<_>>(), [(v.round() as i64, 1)], "{v}");
        }
    }

    #[test]
    fn merged_histograms_hold_the_values_of_both() {
        let values = [-5000.0, 3.0, 3.4, 7.0, 9e6, 9e6];
        for cut in 0..=values.len() {
            let [mut all, mut a, mut b] = [(); 3].map(|()| Histogram::default());
            values.iter().for_each(|v| all.add(*v));
            values[..cut].iter().for_each(|v| a.add(*v));
            values[cut..].iter().for_each(|v| b.add(*v));
            a.merge(&b);
            assert_eq!(a, all);
        }
    }
}
