//! Axes: from values to units of a drawing, and ticks that a person would choose.

/// A scale from values to a stretch of a drawing.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Axis {
    low: f64,
    high: f64,
    from: f64,
    to: f64,
    log: bool,
}

impl Axis {
    /// A linear axis that holds `low` to `high`, from `from` to `to` in the drawing.
    pub fn linear(low: f64, high: f64, from: f64, to: f64) -> Axis {
        let high = if high > low { high } else { low + 1.0 };
        Axis { low, high, from, to, log: false }
    }

    /// A logarithmic axis over whole decades that holds `low` to `high`, both above 0.
    pub fn log(low: f64, high: f64, from: f64, to: f64) -> Axis {
        let low = 10f64.powf(low.log10().floor());
        let high = 10f64.powf(high.log10().ceil());
        Axis { low, high: if high > low { high } else { low * 10.0 }, from, to, log: true }
    }

    /// A logarithmic axis with some room around `low` to `high`, both above 0: for values within two decades, of which
    /// whole ones would leave most of a drawing empty.
    pub fn close(low: f64, high: f64, from: f64, to: f64) -> Axis {
        Axis { low: low * 0.8, high: (high * 1.25).max(low * 2.0), from, to, log: true }
    }

    /// Where a value stands; values outside stand at the end.
    pub fn at(&self, value: f64) -> f64 {
        let share = if self.log {
            if value <= 0.0 { 0.0 } else { (value / self.low).ln() / (self.high / self.low).ln() }
        } else {
            (value - self.low) / (self.high - self.low)
        };
        self.from + (self.to - self.from) * share.clamp(0.0, 1.0)
    }

    /// The ends of the axis.
    pub fn ends(&self) -> (f64, f64) {
        (self.low, self.high)
    }

    /// About eight round values to mark, with the words for them.
    pub fn ticks(&self) -> Vec<(f64, String)> {
        if self.log {
            let decades = (self.high / self.low).log10();
            // Beyond eight decades every second one is marked.
            let step = if decades > 8.0 { 2 } else { 1 };
            let between: &[f64] = if decades <= 2.01 { &[1.0, 2.0, 5.0] } else { &[1.0] };
            let (first, last) = (self.low.log10().floor() as i32, self.high.log10().ceil() as i32);
            let marks = (first..=last)
                .step_by(step)
                .flat_map(|d| between.iter().map(move |m| m * 10f64.powi(d)))
                .filter(|v| (self.low * 0.999_999..=self.high * 1.000_001).contains(v));
            return marks.map(|v| (v, short(v))).collect();
        }
        let raw = (self.high - self.low) / 7.0;
        let power = 10f64.powf(raw.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].into_iter().map(|m| m * power).find(|s| *s >= raw).unwrap_or(raw);
        let mut ticks = Vec::new();
        let mut k = (self.low / step).ceil();
        while k * step <= self.high * 1.000_001 {
            ticks.push((k * step, short(k * step)));
            k += 1.0;
        }
        ticks
    }
}

/// A number in few characters: three significant digits, thousands as `12k`.
pub fn short(v: f64) -> String {
    let a = v.abs();
    if a == 0.0 {
        return "0".into();
    }
    if a >= 1e6 {
        return format!("{}M", digits(v / 1e6));
    }
    if a >= 1e4 {
        return format!("{}k", digits(v / 1e3));
    }
    if a < 1e-3 {
        let power = a.log10().floor() as i32;
        let mantissa = digits(v / 10f64.powi(power));
        return if mantissa == "1" { format!("1e{power}") } else { format!("{mantissa}e{power}") };
    }
    digits(v)
}

/// Three significant digits without zeros at the end.
fn digits(v: f64) -> String {
    if v == 0.0 {
        return "0".into();
    }
    let decimals = (2 - v.abs().log10().floor() as i32).clamp(0, 8) as usize;
    let s = format!("{v:.decimals$}");
    if s.contains('.') { s.trim_end_matches('0').trim_end_matches('.').into() } else { s }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        for (v, s) in [
            (6.789, "6.79"),
            (53.0, "53"),
            (290.4, "290"),
            (1234.0, "1234"),
            (52_000.0, "52k"),
            (0.5, "0.5"),
            (1e-4, "1e-4"),
            (2.5e-5, "2.5e-5"),
            (23_200_000.0, "23.2M"),
        ] {
            assert_eq!(short(v), s);
        }
    }

    #[test]
    fn ticks_lie_on_the_axis() {
        let axis = Axis::linear(0.0, 97.0, 100.0, 500.0);
        let ticks = axis.ticks();
        assert_eq!(ticks[1].1, "20");
        assert!(ticks.iter().all(|(v, _)| (0.0..=97.0).contains(v)));
        assert_eq!((axis.at(0.0), axis.at(97.0)), (100.0, 500.0));
        let axis = Axis::log(3.0, 800.0, 0.0, 300.0);
        assert_eq!(axis.ends(), (1.0, 1000.0));
        assert!((axis.at(10.0) - 100.0).abs() < 1e-9);
        let words = |a: Axis| a.ticks().into_iter().map(|t| t.1).collect::<Vec<_>>().join(" ");
        assert_eq!(words(axis), "1 10 100 1000");
        assert_eq!(words(Axis::close(1.0, 16.0, 0.0, 1.0)), "1 2 5 10 20");
        assert_eq!(words(Axis::log(1e-5, 90.0, 0.0, 1.0)), "1e-5 1e-4 0.001 0.01 0.1 1 10 100");
    }
}
