//! The pictures of a report.

mod eta;
mod hits;
mod pedestal;
mod spectrum;
mod timeline;

use ndarray::Array2;
use scheidegg::{Pedestal, PixelMask, Shape};

use super::Table;
use super::histogram::Bins;
use super::peak::{Peak, main_peak};
use super::sink::ReportSink;
use crate::plot::{Axis, BLUE, Chart, Layer, Legend, Picture, Span, nice_step};
use crate::summary::count;

/// A picture with its file name and what it shows.
pub struct Named {
    /// File name without ending.
    pub file: &'static str,
    /// A sentence or two under the picture.
    pub caption: String,
    /// The picture.
    pub picture: Picture,
}

/// What a report is made of.
#[derive(Clone, Copy)]
pub struct Material<'a> {
    /// The clusters.
    pub sink: &'a ReportSink,
    /// Pixels that the user masked.
    pub mask: Option<&'a PixelMask>,
    /// The pedestal at the start of the run.
    pub start: Option<&'a Pedestal>,
    /// The pedestal at its end.
    pub end: Option<&'a Pedestal>,
}

/// The main peaks of the spectra of charge.
pub struct Peaks {
    /// Of whole windows.
    pub full: Result<Peak, &'static str>,
    /// Of the largest 2x2.
    pub square: Result<Peak, &'static str>,
}

impl Peaks {
    /// Those of a run.
    pub fn of(sink: &ReportSink) -> Self {
        let (full, square) = rayon::join(|| main_peak(&sink.full), || main_peak(&sink.square));
        Peaks { full, square }
    }

    /// The peaks in words.
    pub fn table(&self) -> Table {
        let row = |name: &str, peak| (name.to_string(), spectrum::words(peak));
        Table {
            title: "Main peak".into(),
            rows: vec![row("whole cluster", &self.full), row("largest 2x2", &self.square)],
        }
    }
}

const NO_CLUSTERS: &str = "no clusters";

/// All pictures in the order of the report.
pub fn all(of: &Material<'_>, peaks: &Peaks) -> Vec<Named> {
    let sink = of.sink;
    let mut out = vec![spectrum::spectrum(sink, peaks), spectrum::peak(sink, peaks)];
    out.extend(hits::hits(of));
    out.extend(eta::eta(sink, peaks));
    if let Some(end) = of.end {
        out.extend(pedestal::pictures(end, of.mask, "at the end of the run"));
        out.extend(of.start.and_then(|start| pedestal::drift(start, end, of.mask)).into_iter().flatten());
    }
    out.push(timeline::timeline(sink));
    out
}

/// The pictures of a pedestal as training left it.
pub fn of_pedestal(p: &Pedestal) -> Vec<Named> {
    pedestal::pictures(p, None, "at the end of the training")
}

fn empty(sink: &ReportSink) -> Option<String> {
    (sink.clusters == 0).then(|| NO_CLUSTERS.to_string())
}

fn steps(name: &str, colour: &'static str, bins: &Bins) -> Layer {
    let values = bins.counts.iter().map(|n| *n as f64).collect();
    Layer::Steps { name: name.into(), colour, first: bins.first, width: bins.width, values }
}

fn detector_axes(shape: Shape) -> (Axis, Axis) {
    let axis = |label: &str, n: usize| Axis::whole(label, 0.0, n as f64);
    (axis("column x (pixels)", shape.cols), axis("row y (pixels)", shape.rows))
}

/// Values of pixels by row and column; NaN for those that the user masked or no dark frame trained.
fn known(values: Array2<f64>, pedestal: Option<&Pedestal>, mask: Option<&PixelMask>) -> Vec<f64> {
    let mut values = values.into_raw_vec_and_offset().0;
    let untrained = pedestal.and_then(|p| p.untrained.as_ref());
    for mask in mask.into_iter().chain(untrained) {
        mask.indices().for_each(|i| values[i] = f64::NAN);
    }
    values
}

/// What pixels without a value are called.
const NOTHING: &str = "masked or untrained";

/// What the colours of a map leave out, in a sentence; `of` is what has the values.
fn left_out(span: &Span, of: &str) -> String {
    match (span.below, span.above) {
        (0, 0) => format!("The colours span the values of all {of}."),
        (0, above) => format!("The colours leave out {} {of} above their span.", count(above as u64)),
        (below, 0) => format!("The colours leave out {} {of} below their span.", count(below as u64)),
        (below, above) => format!(
            "The colours leave out {} {of} below and {} above their span.",
            count(below as u64),
            count(above as u64)
        ),
    }
}

/// How values of pixels are distributed.
struct Distribution<'a> {
    file: &'static str,
    title: String,
    label: &'a str,
    /// What the values are measured in.
    unit: &'static str,
    /// Whether they are counts.
    whole: bool,
}

/// The histogram of values of pixels, those that are not NaN.
fn distribution(values: &[f64], how: Distribution<'_>) -> Named {
    const BINS: f64 = 200.0;
    let mut known: Vec<f64> = values.iter().copied().filter(|v| v.is_finite()).collect();
    known.sort_by(f64::total_cmp);
    let at =
        |share: f64| known.get(((known.len().max(1) - 1) as f64 * share) as usize).copied().unwrap_or(0.0);
    let (a, b) = (at(0.001), at(0.999));
    let space = (b - a).max(1e-3) * 0.1;
    let low = if a >= 0.0 { (a - space).max(0.0) } else { a - space };
    let mut width = nice_step((b + space - low) / BINS);
    // A bin of counts has a whole number in its middle.
    let half = if how.whole { 0.5 } else { 0.0 };
    if how.whole {
        width = width.max(1.0);
    }
    let low = (low / width).floor() * width - half;
    let bins = (((b + space - low) / width).ceil() as usize).max(1);
    let high = low + bins as f64 * width;
    let mut counts = vec![0.0; bins];
    let inside = known.iter().filter(|v| (low..high).contains(*v));
    inside.clone().for_each(|v| counts[(((v - low) / width) as usize).min(bins - 1)] += 1.0);
    let outside = known.len() - inside.count();
    let most = counts.iter().copied().fold(1.0, f64::max);
    let median = at(0.5);
    let digits = match how.whole {
        true => 0,
        false if width < 0.1 => 3,
        false if width < 1.0 => 2,
        false => 1,
    };
    let per = if how.whole && width == 1.0 {
        "pixels".to_string()
    } else {
        format!("pixels per {} {}{}", short(width), how.unit, if how.whole { "s" } else { "" })
    };
    let axis = if how.whole { Axis::whole } else { Axis::linear };
    let unit = if how.whole { String::new() } else { format!(" {}", how.unit) };
    let chart = Chart {
        title: how.title,
        x: axis(how.label, low, high),
        y: Axis::log(per, 0.8, most * 2.0),
        layers: vec![
            Layer::Steps { name: String::new(), colour: BLUE, first: low, width, values: counts },
            Layer::Mark { name: format!("median {}{unit}", crate::plot::grouped(median, digits)), x: median },
        ],
        legend: Legend::Inside,
        empty: known.is_empty().then(|| "no trained pixels".into()),
    };
    let outside = match outside {
        0 => "none lies".to_string(),
        1 => "1 of them lies".to_string(),
        n => format!("{} of them lie", count(n as u64)),
    };
    let caption = format!("{} pixels; {outside} outside this range.", count(known.len() as u64));
    Named { file: how.file, caption, picture: chart.draw() }
}

/// A round number without the tail that binary fractions give it.
fn short(round: f64) -> f64 {
    format!("{round:.1e}").parse().unwrap_or(round)
}
