//! How far the pedestal has moved during a run.

use scheidegg::{Pedestal, PixelMask};
use serde_json::{Value, json};

/// Share of the pixels that lie outside the range at either end.
const ENDS: f64 = 0.005;

/// What the means of the pixels have changed by from the start of a run to its end, in ADU.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Drift {
    /// The median pixel.
    pub median: f64,
    /// 99 % of the pixels lie from here ..
    pub low: f64,
    /// .. to here.
    pub high: f64,
}

impl Drift {
    /// That of the pixels which take part; nothing when there is none, or the pedestals are of different detectors.
    pub fn of(start: &Pedestal, end: &Pedestal, mask: Option<&PixelMask>) -> Option<Self> {
        if start.shape != end.shape {
            return None;
        }
        let mut change = (end.mean() - start.mean()).into_raw_vec_and_offset().0;
        for mask in mask.into_iter().chain(&end.untrained) {
            mask.indices().for_each(|i| change[i] = f64::NAN);
        }
        change.retain(|c| c.is_finite());
        change.sort_unstable_by(f64::total_cmp);
        let last = change.len().checked_sub(1)?;
        let at = |share: f64| change[(last as f64 * share).round() as usize];
        Some(Drift { median: at(0.5), low: at(ENDS), high: at(1.0 - ENDS) })
    }

    /// The drift in words.
    pub fn words(&self) -> String {
        format!(
            "{:+.2} ADU (median, end less start), 99 % of the pixels from {:+.2} to {:+.2} ADU",
            self.median, self.low, self.high
        )
    }

    /// The drift as a JSON object.
    pub fn json(&self) -> Value {
        json!({
            "median_adu": self.median,
            "low_adu": self.low,
            "high_adu": self.high,
            "width_adu": self.high - self.low,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use scheidegg::{Plane, Shape};

    fn pedestal(change: impl Fn(usize) -> f64) -> Pedestal {
        let shape = Shape::new(20, 50).unwrap();
        Pedestal {
            shape,
            samples: 100,
            x0: vec![1000; 1000],
            sum: Plane::F64((0..1000).map(|i| 100.0 * change(i)).collect()),
            sum2: Plane::F64(vec![0.0; 1000]),
            fixed_variance: None,
            untrained: None,
        }
    }

    #[test]
    fn a_drift_is_that_of_pixels_that_take_part() {
        let (start, end) = (pedestal(|_| 1.0), pedestal(|i| i as f64 / 100.0));
        let near = |a: f64, b: f64| assert!((a - b).abs() < 0.02, "{a} {b}");
        let all = Drift::of(&start, &end, None).unwrap();
        near(all.median, 4.0);
        near(all.low, -0.95);
        near(all.high, 8.94);
        let mut mask = PixelMask::new(start.shape);
        (0..500).for_each(|i| mask.insert(i / 50, i % 50));
        let some = Drift::of(&start, &end, Some(&mask)).unwrap();
        near(some.low, 4.02);
        near(some.median, 6.5);
        let untrained = Pedestal { untrained: Some(mask.clone()), ..end.clone() };
        assert_eq!(Drift::of(&start, &untrained, None), Some(some));
        (500..1000).for_each(|i| mask.insert(i / 50, i % 50));
        assert_eq!(Drift::of(&start, &end, Some(&mask)), None);
        assert!(all.words().starts_with("+4.00 ADU"), "{}", all.words());
    }
}
