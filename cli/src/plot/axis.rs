//! Axes: where a value lies, and which values are written beside the axis.

/// An axis of a chart.
#[derive(Clone, Debug)]
pub struct Axis {
    label: String,
    low: f64,
    high: f64,
    log: bool,
    /// Whether the values are counts: ticks at whole numbers only.
    whole: bool,
}

/// The marks of an axis.
#[derive(Clone, Debug, PartialEq)]
pub struct Ticks {
    /// Values with their words.
    pub major: Vec<(f64, String)>,
    /// Values without words.
    pub minor: Vec<f64>,
    /// What the label has to add when the words leave a factor out: `×10⁶`.
    pub factor: Option<String>,
}

impl Axis {
    /// A linear axis. An empty or senseless range is widened to one that can be drawn.
    pub fn linear(label: impl Into<String>, low: f64, high: f64) -> Self {
        let (low, high) = if low.is_finite() && high.is_finite() { (low, high) } else { (0.0, 1.0) };
        let pad = if high > low { 0.0 } else { 0.5_f64.max(low.abs() * 1e-3) };
        Axis { label: label.into(), low: low - pad, high: low.max(high) + pad, log: false, whole: false }
    }

    /// A linear axis of counts or numbers, with ticks at whole ones only.
    pub fn whole(label: impl Into<String>, low: f64, high: f64) -> Self {
        Axis { whole: true, ..Self::linear(label, low, high) }
    }

    /// A logarithmic axis, of at least one decade.
    pub fn log(label: impl Into<String>, low: f64, high: f64) -> Self {
        let low = if low.is_finite() && low > 0.0 { low } else { 1.0 };
        let high = if high.is_finite() { high.max(low * 10.0) } else { low * 10.0 };
        Axis { label: label.into(), low, high, log: true, whole: false }
    }

    /// The range.
    pub fn range(&self) -> (f64, f64) {
        (self.low, self.high)
    }

    /// Where a value lies: 0 at the low end, 1 at the high end; values outside are cut.
    pub fn place(&self, value: f64) -> f64 {
        let t = if self.log {
            let value = value.max(self.low);
            (value / self.low).ln() / (self.high / self.low).ln()
        } else {
            (value - self.low) / (self.high - self.low)
        };
        t.clamp(0.0, 1.0)
    }

    /// The label with what the ticks leave out.
    pub fn label(&self, ticks: &Ticks) -> String {
        match &ticks.factor {
            Some(f) => format!("{} ({f})", self.label),
            None => self.label.clone(),
        }
    }

    /// About `count` ticks.
    pub fn ticks(&self, count: usize) -> Ticks {
        if self.log { self.log_ticks(count) } else { self.linear_ticks(count) }
    }

    fn linear_ticks(&self, count: usize) -> Ticks {
        let least = if self.whole { 1.0 } else { 0.0 };
        let step = nice_step((self.high - self.low) / count.max(1) as f64).max(least);
        let first = (self.low / step - 1e-9).ceil() as i64;
        let last = (self.high / step + 1e-9).floor() as i64;
        let largest = self.low.abs().max(self.high.abs());
        // Large numbers as a few digits and a factor, unless they differ in the last digits of many.
        let power = if largest >= 1e6 && step > largest * 1e-5 {
            (largest.log10().floor() as i32 / 3) * 3
        } else {
            0
        };
        let unit = 10f64.powi(power);
        let digits = (-(step / unit).log10().floor()).clamp(0.0, 9.0) as usize;
        let major = (first..=last)
            .map(|i| {
                let value = i as f64 * step;
                (value, grouped(value / unit, digits))
            })
            .collect();
        let fine = step / if (step / 10f64.powf(step.log10().floor())).round() == 2.0 { 4.0 } else { 5.0 };
        let fine = fine.max(least);
        let minor = ((self.low / fine - 1e-9).ceil() as i64..=(self.high / fine + 1e-9).floor() as i64)
            .map(|i| i as f64 * fine)
            .collect();
        let factor = (power != 0).then(|| format!("×10{}", superscript(power)));
        Ticks { major, minor, factor }
    }

    fn log_ticks(&self, count: usize) -> Ticks {
        let first = (self.low.log10() - 1e-9).ceil() as i32;
        let last = (self.high.log10() + 1e-9).floor() as i32;
        let every = ((last - first + 1) as usize).div_ceil(count.max(1)).max(1);
        let mut major: Vec<_> =
            (first..=last).step_by(every).map(|p| (10f64.powi(p), power_of_ten(p))).collect();
        if major.len() < 2 {
            // Little more than a decade: between the powers, too.
            let digits = (-self.low.log10().floor()).clamp(0.0, 9.0) as usize;
            let between = (first - 1..=last).flat_map(|p| [1.0, 2.0, 5.0].map(|m| m * 10f64.powi(p)));
            major = between
                .filter(|v| (self.low..=self.high).contains(v))
                .map(|v| (v, grouped(v, digits)))
                .collect();
        }
        let minor = (first - 1..=last)
            .flat_map(|p| (1..10).map(move |m| f64::from(m) * 10f64.powi(p)))
            .filter(|v| (self.low..=self.high).contains(v))
            .collect();
        Ticks { major, minor, factor: None }
    }
}

/// The one of 1, 2, 5 times a power of ten that is near `rough`.
pub fn nice_step(rough: f64) -> f64 {
    let power = 10f64.powf(rough.log10().floor());
    let m = rough / power;
    let nice = [(1.4, 1.0), (3.2, 2.0), (7.1, 5.0)];
    power * nice.into_iter().find(|(most, _)| m < *most).map_or(10.0, |(_, n)| n)
}

/// A number with its thousands apart: `12 000`, `-0.25`.
pub fn grouped(value: f64, digits: usize) -> String {
    let text = format!("{:.digits$}", value.abs());
    let (whole, rest) = text.split_once('.').map_or((text.as_str(), None), |(w, r)| (w, Some(r)));
    let mut out = String::new();
    if value < 0.0 && text.chars().any(|c| ('1'..='9').contains(&c)) {
        out.push('−');
    }
    for (i, c) in whole.chars().enumerate() {
        // Numbers of four digits stay together.
        if i > 0 && (whole.len() - i).is_multiple_of(3) && whole.len() > 4 {
            out.push(' ');
        }
        out.push(c);
    }
    if let Some(rest) = rest {
        out.push('.');
        out.push_str(rest);
    }
    out
}

fn power_of_ten(p: i32) -> String {
    match p {
        0 => "1".into(),
        1 => "10".into(),
        _ => format!("10{}", superscript(p)),
    }
}

fn superscript(n: i32) -> String {
    let one = |c| match c {
        '-' => '⁻',
        '1' => '¹',
        '2' => '²',
        '3' => '³',
        c => char::from_u32('⁰' as u32 + c as u32 - '0' as u32).unwrap_or(c),
    };
    n.to_string().chars().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(axis: &Axis, count: usize) -> Vec<String> {
        axis.ticks(count).major.into_iter().map(|t| t.1).collect()
    }

    #[test]
    fn ticks_are_round_and_inside() {
        assert_eq!(words(&Axis::linear("", 0.0, 1.0), 5), ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]);
        assert_eq!(words(&Axis::linear("", -0.3, 0.31), 3), ["−0.2", "0.0", "0.2"]);
        assert_eq!(words(&Axis::linear("", 0.0, 400.0), 4), ["0", "100", "200", "300", "400"]);
        assert_eq!(words(&Axis::linear("", 0.0, 20_000.0), 4), ["0", "5000", "10 000", "15 000", "20 000"]);
        let few = Axis::whole("", 0.0, 3.0);
        assert_eq!(words(&few, 8), ["0", "1", "2", "3"]);
        assert!(few.ticks(8).minor.iter().all(|v| v.fract() == 0.0));
        assert_eq!(words(&Axis::whole("", 0.0, 400.0), 4), words(&Axis::linear("", 0.0, 400.0), 4));
        let big = Axis::linear("frame", 0.0, 3e9);
        assert_eq!(words(&big, 3), ["0", "1", "2", "3"]);
        assert_eq!(big.label(&big.ticks(3)), "frame (×10⁹)");
        let late = Axis::whole("frame", 281_474_976_710_600.0, 281_474_976_710_640.0);
        assert_eq!(words(&late, 2), ["281 474 976 710 600", "281 474 976 710 620", "281 474 976 710 640"]);
        assert_eq!(words(&Axis::log("", 1.0, 2e4), 8), ["1", "10", "10²", "10³", "10⁴"]);
        assert_eq!(words(&Axis::log("", 1.2, 15.0), 8), ["2", "5", "10"]);
        assert_eq!(words(&Axis::log("", 0.8, 8.0), 8), ["1.0", "2.0", "5.0"]);
        assert_eq!(words(&Axis::log("", 1e-4, 1.0), 3), ["10⁻⁴", "10⁻²", "1"]);
    }

    #[test]
    fn senseless_ranges_can_be_drawn() {
        for (low, high) in [(0.0, 0.0), (5.0, 5.0), (f64::NAN, 1.0), (3.0, -3.0), (f64::INFINITY, 0.0)] {
            for axis in [Axis::linear("", low, high), Axis::log("", low, high)] {
                let (a, b) = axis.range();
                assert!(a < b && !axis.ticks(5).major.is_empty(), "{low} {high} {axis:?}");
                assert!((0.0..=1.0).contains(&axis.place(5.0)));
            }
        }
    }
}
