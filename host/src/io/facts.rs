//! How frames were taken, as far as their files say, and whether dark and data frames belong together.

use scheidegg_finder::{Error, Result};
use serde::{Deserialize, Serialize};

use super::raw::Roi;

/// What a source knows of how its frames were taken. What it does not know is not compared.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Facts {
    /// The detector, as its files call it.
    pub detector: Option<String>,
    /// Rows and columns of the whole detector.
    pub whole: Option<[usize; 2]>,
    /// The part of it that a frame shows: first and last column, first and last row.
    pub region: Option<[usize; 4]>,
    /// The gain that the detector was held in, in words.
    pub gain: Option<String>,
    /// Exposure time, as written.
    pub exposure: Option<String>,
    /// Time from frame to frame, as written.
    pub period: Option<String>,
    /// Temperature of the detector, as written.
    pub temperature: Option<String>,
    /// Version of the firmware, as written.
    pub firmware: Option<String>,
    /// Speed of the readout, as written.
    pub readout_speed: Option<String>,
    /// Storage cell of the first frame.
    pub storage_cell: Option<u8>,
}

/// A difference between how dark and data frames were taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// What differs, in words.
    pub what: &'static str,
    /// What one says, as text.
    pub one: String,
    /// What the other says.
    pub other: String,
    /// Whether a pedestal of the one tells nothing of the other. Else it may not be as good as it could be.
    pub grave: bool,
}

impl Facts {
    /// What a region of interest is called here.
    pub(crate) fn region_of(roi: Roi) -> [usize; 4] {
        [roi.xmin, roi.xmax, roi.ymin, roi.ymax]
    }

    /// What is known, in words and as text.
    pub fn rows(&self) -> Vec<(&'static str, String)> {
        self.values().into_iter().filter_map(|v| Some((v.what, v.text?))).collect()
    }

    /// In what two series of frames differ, as far as both say it.
    pub fn mismatches(&self, other: &Facts) -> Vec<Mismatch> {
        let differ = |(one, other): (Value, Value)| {
            let (a, b) = (one.text?, other.text?);
            let same = (one.same)(&a, &b);
            (!same).then_some(Mismatch { what: one.what, one: a, other: b, grave: one.grave })
        };
        self.values().into_iter().zip(other.values()).filter_map(differ).collect()
    }

    /// What can be compared.
    fn values(&self) -> [Value; 10] {
        let text = |v: &Option<String>| v.clone().filter(|v| !v.trim().is_empty());
        let whole = self.whole.map(|[rows, cols]| format!("{rows} x {cols} pixels"));
        let region = self.region.map(|[x0, x1, y0, y1]| format!("columns {x0} to {x1}, rows {y0} to {y1}"));
        let grave = |what, text| Value { grave: true, what, text, same: equal };
        let slight = |what, text, same| Value { grave: false, what, text, same };
        [
            grave("detector", text(&self.detector)),
            grave("size of the whole detector", whole),
            grave("region of interest", region),
            grave("gain", text(&self.gain)),
            slight("exposure", text(&self.exposure), same_time),
            slight("period", text(&self.period), same_time),
            slight("temperature", text(&self.temperature), same_temperature),
            slight("firmware", text(&self.firmware), equal),
            slight("readout speed", text(&self.readout_speed), equal),
            slight("storage cell", self.storage_cell.map(|c| c.to_string()), equal),
        ]
    }

    /// Checks that frames called `name`, which these facts are of, go together with others. Returns sentences about what
    /// may do harm.
    ///
    /// # Errors
    /// [`Error::File`] naming `name` when a pedestal of the one tells nothing of the other; with `force` that is a
    /// sentence, too.
    pub fn check(&self, name: &str, other: &Facts, other_name: &str, force: bool) -> Result<Vec<String>> {
        let sentence = |m: &Mismatch| format!("{}: {} here, {} in {other_name}", m.what, m.one, m.other);
        let (grave, slight): (Vec<_>, Vec<_>) = self.mismatches(other).into_iter().partition(|m| m.grave);
        if !grave.is_empty() && !force {
            let all: Vec<_> = grave.iter().map(sentence).collect();
            let what = format!(
                "does not go with {other_name}: {} (take frames of one setting, or force = true to take them all the same)",
                all.join("; ")
            );
            return Err(Error::file(name, what));
        }
        Ok(grave.iter().chain(&slight).map(|m| format!("{name}: other {}", sentence(m))).collect())
    }
}

/// One of the facts.
struct Value {
    /// As [`Mismatch::grave`] for one that differs.
    grave: bool,
    what: &'static str,
    text: Option<String>,
    /// Whether two texts mean the same.
    same: fn(&str, &str) -> bool,
}

fn equal(a: &str, b: &str) -> bool {
    a.trim().eq_ignore_ascii_case(b.trim())
}

/// Seconds of `10us`.
fn seconds(text: &str) -> Option<f64> {
    let text = text.trim();
    let unit = text.find(|c: char| c.is_ascii_alphabetic()).filter(|at| *at > 0)?;
    let (number, unit) = text.split_at(unit);
    let scale = match unit.trim() {
        "ns" => 1e-9,
        "us" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        "min" => 60.0,
        "h" => 3600.0,
        _ => return None,
    };
    number.trim().parse::<f64>().ok().map(|n| n * scale)
}

fn same_time(a: &str, b: &str) -> bool {
    match (seconds(a), seconds(b)) {
        (Some(a), Some(b)) => (a - b).abs() <= 1e-6 * a.abs().max(b.abs()),
        _ => a.trim() == b.trim(),
    }
}

/// Within 2 degrees.
fn same_temperature(a: &str, b: &str) -> bool {
    let degrees = |text: &str| {
        let end = text.find(|c: char| !(c.is_ascii_digit() || "+-.".contains(c))).unwrap_or(text.len());
        text[..end].parse::<f64>().ok()
    };
    match (degrees(a.trim()), degrees(b.trim())) {
        (Some(a), Some(b)) => (a - b).abs() <= 2.0,
        _ => a.trim() == b.trim(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts() -> Facts {
        Facts {
            detector: Some("Jungfrau".into()),
            whole: Some([512, 1024]),
            region: Some([0, 1023, 0, 511]),
            gain: Some("dynamic".into()),
            exposure: Some("10us".into()),
            period: Some("1ms".into()),
            temperature: Some("-20.0 C".into()),
            firmware: Some("0x230104".into()),
            readout_speed: Some("full_speed".into()),
            storage_cell: Some(15),
        }
    }

    #[test]
    fn what_is_the_same_or_not_known_goes_together() {
        let other = Facts { exposure: Some("0.01ms".into()), temperature: Some("-19.1".into()), ..facts() };
        assert!(facts().mismatches(&other).is_empty());
        assert!(facts().mismatches(&Facts::default()).is_empty());
        assert!(Facts::default().mismatches(&facts()).is_empty());
    }

    #[test]
    fn every_difference_is_told_and_only_some_are_refused() {
        let text = |s: &str| Some(s.to_string());
        for (other, what, grave) in [
            (Facts { detector: text("Moench"), ..facts() }, "detector", true),
            (Facts { whole: Some([1024, 1024]), ..facts() }, "size of the whole", true),
            (Facts { region: Some([0, 1023, 1, 512]), ..facts() }, "region of interest", true),
            (Facts { gain: text("forced to G1"), ..facts() }, "gain", true),
            (Facts { exposure: text("11us"), ..facts() }, "exposure", false),
            (Facts { period: text("2ms"), ..facts() }, "period", false),
            (Facts { temperature: text("25"), ..facts() }, "temperature", false),
            (Facts { firmware: text("0x1"), ..facts() }, "firmware", false),
            (Facts { readout_speed: text("half_speed"), ..facts() }, "readout speed", false),
            (Facts { storage_cell: Some(0), ..facts() }, "storage cell", false),
        ] {
            let found = facts().mismatches(&other);
            assert!(
                found.len() == 1 && found[0].what.starts_with(what) && found[0].grave == grave,
                "{found:?}"
            );
            let forced = facts().check("dark.json", &other, "data.json", true).unwrap();
            assert!(forced.len() == 1 && forced[0].contains(what), "{forced:?}");
            match facts().check("dark.json", &other, "data.json", false) {
                Ok(said) => assert!(!grave && said == forced),
                Err(e) => assert!(grave && e.to_string().contains("force = true"), "{e}"),
            }
        }
    }
}
