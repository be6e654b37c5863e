//! Spectra of charge and their main peak.

use super::{Named, Peaks, ReportSink, empty, steps};
use crate::plot::{Axis, BLUE, Chart, GREEN, Layer, Legend, ORANGE, grouped};
use crate::report::histogram::Bins;
use crate::report::peak::Peak;
use crate::summary::count;

const BLACK: &str = "#1a1a1a";

/// The spectra of the brightest pixel, the largest 2x2 and the whole window.
pub fn spectrum(sink: &ReportSink, peaks: &Peaks) -> Named {
    let spectra = [
        ("brightest pixel", BLUE, &sink.centre),
        ("largest 2x2", GREEN, &sink.square),
        ("whole cluster", ORANGE, &sink.full),
    ];
    let high = spectra.iter().map(|s| s.2.quantile(0.999)).fold(1.0, f64::max) * 1.15;
    let low = spectra.iter().map(|s| s.2.quantile(0.001)).fold(0.0, f64::min);
    let bins: Vec<Bins> = spectra.iter().map(|s| s.2.bins(low, high, 300)).collect();
    let most = bins.iter().flat_map(|b| b.counts.iter().copied()).max().unwrap_or(0);
    let width = bins[0].width;
    let mut layers: Vec<Layer> = spectra.iter().zip(&bins).map(|(s, b)| steps(s.0, s.1, b)).collect();
    layers.extend(
        peaks.full.iter().map(|p| Layer::Mark { name: format!("peak {}", position(p)), x: p.position }),
    );
    let chart = Chart {
        title: "Energy spectrum".into(),
        x: Axis::linear("charge (ADU)", low, high),
        y: Axis::log(format!("clusters per {width} ADU"), 0.8, most as f64 * 2.0),
        layers,
        legend: Legend::Inside,
        empty: empty(sink),
    };
    let beyond: u64 = spectra.iter().map(|s| s.2.total() - s.2.count(low, high)).max().unwrap_or(0);
    let outside = match beyond {
        0 => "None lies outside this range.".into(),
        n => format!("At most {} of a kind lie outside this range.", count(n)),
    };
    let caption = format!(
        "Charge of {} clusters: the brightest pixel alone, the largest 2x2 square that holds it, and the whole window. \
         {outside}",
        count(sink.clusters)
    );
    Named { file: "spectrum", caption, picture: chart.draw() }
}

/// The main peaks of the largest 2x2 and of the whole window, with what was fitted to them.
pub fn peak(sink: &ReportSink, peaks: &Peaks) -> Named {
    let both = [
        ("largest 2x2", GREEN, &sink.square, &peaks.square),
        ("whole cluster", ORANGE, &sink.full, &peaks.full),
    ];
    let fitted: Vec<&Peak> = both.iter().filter_map(|b| b.3.as_ref().ok()).collect();
    let low = fitted.iter().map(|p| p.position - 5.0 * p.sigma).fold(f64::INFINITY, f64::min).max(0.0);
    let high = fitted.iter().map(|p| p.position + 5.0 * p.sigma).fold(f64::NEG_INFINITY, f64::max);
    let why = peaks.full.as_ref().err().or(peaks.square.as_ref().err());
    let shown = if fitted.is_empty() { (0.0, 1.0) } else { (low, high) };
    let mut layers = Vec::new();
    let (mut most, mut width) = (1.0f64, 1.0);
    for (name, colour, histogram, peak) in both {
        let Ok(peak) = peak else { continue };
        let bins = histogram.bins(shown.0, shown.1, 150);
        (most, width) = (bins.counts.iter().map(|n| *n as f64).fold(most, f64::max), bins.width);
        layers.push(steps(&format!("{name}: {}", position(peak)), colour, &bins));
        layers.extend(curves(peak, bins.width));
        layers.push(Layer::Mark { name: String::new(), x: peak.position });
    }
    let chart = Chart {
        title: "Main peak".into(),
        x: Axis::linear("charge (ADU)", shown.0, shown.1),
        y: Axis::linear(format!("clusters per {width} ADU"), 0.0, most * 1.45),
        layers,
        legend: Legend::Inside,
        empty: empty(sink).or(fitted.is_empty().then(|| "no peak was fitted".into())),
    };
    let mut caption = match fitted.is_empty() {
        true => String::new(),
        false => "A Gaussian on a background (dashed) that is sloped, or flat where the counts do not tell its slope, fitted from 2 standard deviations below the peak to 1.5 above it. Errors \
                  are standard errors, larger by the root of χ²/ndf where that is above 1: a second line or shared charge \
                  under the peak. "
            .to_string(),
    };
    if let Some(why) = why {
        caption += &match fitted.is_empty() {
            true => format!("No peak was fitted: {why}."),
            false => format!("The other spectrum has no fitted peak: {why}."),
        };
    }
    Named { file: "peak", caption: caption.trim_end().to_string(), picture: chart.draw() }
}

/// The fitted curve and its background, with `width` ADU a bin.
fn curves(peak: &Peak, width: f64) -> [Layer; 2] {
    const POINTS: usize = 120;
    let line = |name: String, of: &dyn Fn(f64) -> f64, dashed| {
        let (low, high) = peak.range;
        let at = |i: usize| low + (high - low) * i as f64 / POINTS as f64;
        let points = (0..=POINTS).map(|i| (at(i), of(at(i)) * width)).collect();
        Layer::Line { name, colour: BLACK, points, dashed }
    };
    let words = format!(
        "fit: σ {} ADU, χ²/ndf {}/{}",
        with_error(peak.sigma, peak.sigma_error),
        grouped(peak.chi2, 0),
        peak.ndf
    );
    [line(words, &|e| peak.curve(e), false), line(String::new(), &|e| peak.background(e), true)]
}

/// Two significant digits of an error, and the value with as many.
fn with_error(value: f64, error: f64) -> String {
    let digits = (1.0 - error.log10().floor()).clamp(0.0, 4.0) as usize;
    format!("{} ± {}", grouped(value, digits), grouped(error, digits))
}

/// A peak's position in words.
fn position(p: &Peak) -> String {
    format!("{} ADU", with_error(p.position, p.position_error))
}

/// A peak in words.
pub fn words(peak: &Result<Peak, &'static str>) -> String {
    match peak {
        Ok(p) => format!(
            "at {}, standard deviation {} ADU, full width at half maximum {} ADU, χ²/ndf {}/{}, fitted from {} to {} ADU",
            position(p),
            with_error(p.sigma, p.sigma_error),
            grouped(p.fwhm(), 1),
            grouped(p.chi2, 0),
            p.ndf,
            grouped(p.range.0, 0),
            grouped(p.range.1, 0)
        ),
        Err(why) => format!("not fitted: {why}"),
    }
}
