//! The pictures of a report.

use scheidegg::Pedestal;

use super::histogram::Bins;
use super::peak::{Peak, main_peak};
use super::sink::{ETA_CELLS, ReportSink};
use super::timeline::Span;
use crate::plot::{Axis, BLUE, Chart, GREEN, Grid, Layer, Legend, Map, ORANGE, Picture, Range, nice_step};
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

/// Share of values that the colours of a map leave out at either end.
const OUTLIERS: f64 = 0.005;
/// Points of the timeline: more run into each other.
const MOMENTS: usize = 300;
/// Side of a cell of the eta distribution.
const CELL: f64 = 1.0 / ETA_CELLS as f64;
const NO_CLUSTERS: &str = "no clusters";

/// All pictures in the order of the report.
pub fn all(sink: &ReportSink, pedestal: Option<&Pedestal>) -> Vec<Named> {
    let mut out = vec![spectrum(sink), hits(sink), timeline(sink), eta_map(sink), eta_profiles(sink)];
    out.extend(pedestal.into_iter().flat_map(of_pedestal));
    out
}

/// The pictures of a pedestal.
pub fn of_pedestal(p: &Pedestal) -> Vec<Named> {
    let (mean, noise) = (values(p, Pedestal::mean), values(p, Pedestal::noise));
    let noise_unit = "noise, standard deviation (ADU)";
    vec![
        pedestal_map(p, "pedestal_mean", "Pedestal", "pedestal mean (ADU)", &mean),
        pedestal_histogram("pedestal_mean_histogram", "Pedestal", "pedestal mean (ADU)", &mean),
        pedestal_map(p, "pedestal_noise", "Noise", noise_unit, &noise),
        pedestal_histogram("pedestal_noise_histogram", "Noise", noise_unit, &noise),
    ]
}

fn empty(sink: &ReportSink) -> Option<String> {
    (sink.clusters == 0).then(|| NO_CLUSTERS.to_string())
}

fn steps(name: &str, colour: &'static str, bins: &Bins) -> Layer {
    let values = bins.counts.iter().map(|n| *n as f64).collect();
    Layer::Steps { name: name.into(), colour, first: bins.first, width: bins.width, values }
}

fn spectrum(sink: &ReportSink) -> Named {
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
    let peak = main_peak(&sink.full);
    let chart = Chart {
        title: "Energy spectrum".into(),
        x: Axis::linear("charge (ADU)", low, high),
        y: Axis::log(format!("clusters per {width} ADU"), 0.8, most as f64 * 2.0),
        layers: spectra.iter().zip(&bins).map(|(s, b)| steps(s.0, s.1, b)).collect(),
        legend: Legend::Inside,
        empty: empty(sink),
    };
    let caption = format!(
        "Charge of {} clusters: the brightest pixel alone, the largest 2x2 square that holds it, and the whole window. {}",
        sink.clusters,
        words_of(peak)
    );
    Named { file: "spectrum", caption, picture: chart.draw() }
}

/// The main peak in a sentence.
fn words_of(peak: Option<Peak>) -> String {
    peak.map_or("No single peak stands out.".into(), |p| {
        format!(
            "The main peak of the whole cluster lies at {:.1} ADU, its full width at half maximum is {:.1} ADU.",
            p.position,
            p.fwhm()
        )
    })
}

fn detector_axes(rows: usize, cols: usize) -> (Axis, Axis) {
    let axis = |label: &str, n: usize| Axis::linear(label, 0.0, n as f64);
    (axis("column x (pixels)", cols), axis("row y (pixels)", rows))
}

fn hits(sink: &ReportSink) -> Named {
    let (x, y) = detector_axes(sink.shape.rows, sink.shape.cols);
    let values: Vec<f64> = sink.hits.iter().map(|n| f64::from(*n)).collect();
    let (mut most, mut at) = (0, 0);
    for (i, n) in sink.hits.iter().enumerate() {
        if *n > most {
            (most, at) = (*n, i);
        }
    }
    let map = Map {
        title: "Hit map".into(),
        x,
        y,
        rows_down: true,
        bar: "clusters per pixel".into(),
        counts: true,
        grid: Grid { rows: sink.shape.rows, cols: sink.shape.cols, values },
        range: Range::FromZero(OUTLIERS),
        empty: empty(sink),
    };
    let mut caption =
        "Clusters by their brightest pixel; row 0 is at the top. The colours leave out the highest \
                       0.5 % of the pixels."
            .to_string();
    if most > 0 {
        let (row, col) = (at / sink.shape.cols, at % sink.shape.cols);
        caption += &format!(" The pixel with the most clusters, {most}, is row {row}, column {col}.");
    }
    Named { file: "hit_map", caption, picture: map.draw() }
}

fn timeline(sink: &ReportSink) -> Named {
    let t = &sink.timeline;
    let spans = t.spans(MOMENTS);
    // Frame numbers that start again say nothing of the order.
    let ordered = t.restarts() == 0;
    let stride = if ordered { t.stride() as f64 } else { 1.0 };
    // A frame is drawn around its number.
    let place = |s: &Span| match ordered {
        true => (s.first as f64 - stride / 2.0, s.last as f64 + stride / 2.0),
        false => (s.before as f64 - 0.5, (s.before + s.frames) as f64 - 0.5),
    };
    let mut gaps = Vec::new();
    let mut runs: Vec<Vec<&Span>> = Vec::new();
    for (i, s) in spans.iter().enumerate() {
        let gap = i > 0 && place(s).0 - place(&spans[i - 1]).1 > stride / 2.0;
        if gap {
            gaps.push((place(&spans[i - 1]).1, place(s).0));
        }
        match runs.last_mut().filter(|_| !gap) {
            Some(run) => run.push(s),
            None => runs.push(vec![s]),
        }
    }
    let per = spans.iter().map(|s| s.frames).max().unwrap_or(1);
    let mut layers = vec![];
    if !gaps.is_empty() {
        layers.push(Layer::Gaps { name: "no frames".into(), parts: gaps });
    }
    let both = |s: &&Span| [place(s).0, place(s).1];
    for (i, run) in runs.iter().enumerate() {
        let named = |name: String| if i == 0 && per > 1 { name } else { String::new() };
        if per > 1 {
            let points = run.iter().flat_map(|s| both(s).map(|x| (x, s.min as f64, s.max as f64))).collect();
            layers.push(Layer::Band { name: named("lowest to highest".into()), colour: BLUE, points });
        }
        let points = run.iter().flat_map(|s| both(s).map(|x| (x, s.mean()))).collect();
        let name = named(format!("mean of {} frames", count(per)));
        layers.push(Layer::Line { name, colour: BLUE, points, dashed: false });
    }
    let high = spans.iter().map(|s| s.max).max().unwrap_or(0).max(1) as f64;
    let low = spans.iter().map(|s| s.min).min().unwrap_or(0) as f64;
    // From 0 unless the counts vary by little.
    let low = if low > 0.7 * high { low - 0.5 * (high - low) } else { 0.0 };
    let (from, to) = match (spans.first(), spans.last()) {
        (Some(a), Some(b)) => (place(a).0, place(b).1),
        _ => (0.0, 1.0),
    };
    let chart = Chart {
        title: "Clusters per frame".into(),
        x: Axis::whole(if ordered { "frame number" } else { "frame of the run" }, from, to),
        y: Axis::whole("clusters per frame", low.max(0.0), high + 0.15 * (high - low).max(1.0)),
        layers,
        legend: Legend::Inside,
        empty: (t.frames() == 0).then(|| "no frames".into()),
    };
    let mut caption =
        "Clusters found in every frame. A slope tells of drift or of a changing beam, a step of a shutter \
                       or lost packets."
            .to_string();
    if t.missing() > 0 {
        caption +=
            &format!(" {} frame numbers between the first and the last are missing.", count(t.missing()));
    }
    if !ordered {
        caption += &format!(
            " The frame numbers fall or start again {} times, so the axis counts the frames of the run.",
            count(t.restarts())
        );
    }
    Named { file: "clusters_per_frame", caption, picture: chart.draw() }
}

fn eta_map(sink: &ReportSink) -> Named {
    let values = sink.eta.iter().map(|n| *n as f64).collect();
    let axis = |label: &str| Axis::linear(label, 0.0, 1.0);
    let map = Map {
        title: "Eta distribution".into(),
        x: axis("eta x (share of the right column)"),
        y: axis("eta y (share of the lower row)"),
        rows_down: false,
        bar: format!("clusters per {CELL} × {CELL}"),
        counts: true,
        grid: Grid { rows: ETA_CELLS, cols: ETA_CELLS, values },
        range: Range::FromZero(OUTLIERS),
        empty: empty(sink),
    };
    let caption = format!(
        "How the charge of the largest 2x2 square is shared between its columns and rows. Clusters whose charge lies \
         in one pixel gather in the corners. {} clusters lie outside 0 to 1.",
        sink.eta_outside
    );
    Named { file: "eta_map", caption, picture: map.draw() }
}

fn eta_profiles(sink: &ReportSink) -> Named {
    let mut sums = [vec![0.0; ETA_CELLS], vec![0.0; ETA_CELLS]];
    for (i, n) in sink.eta.iter().enumerate() {
        sums[0][i % ETA_CELLS] += *n as f64;
        sums[1][i / ETA_CELLS] += *n as f64;
    }
    let high = sums.iter().flatten().copied().fold(1.0, f64::max);
    let [x, y] = sums;
    let layer = |name: &str, colour, values| Layer::Steps {
        name: name.into(),
        colour,
        first: 0.0,
        width: CELL,
        values,
    };
    let chart = Chart {
        title: "Eta profiles".into(),
        x: Axis::linear("eta (share of the right column, of the lower row)", 0.0, 1.0),
        y: Axis::linear(format!("clusters per {CELL}"), 0.0, high * 1.2),
        layers: vec![layer("eta x", BLUE, x), layer("eta y", ORANGE, y)],
        legend: Legend::Inside,
        empty: empty(sink),
    };
    let caption =
        "The sums of the eta distribution over its rows and columns. Where x and y differ, the charge \
                   cloud or the pixels are not alike both ways."
            .to_string();
    Named { file: "eta_profiles", caption, picture: chart.draw() }
}

/// One value a pixel; NaN for pixels that were never trained.
fn values(pedestal: &Pedestal, of: fn(&Pedestal) -> ndarray::Array2<f64>) -> Vec<f64> {
    let mut values = of(pedestal).into_raw_vec_and_offset().0;
    if let Some(mask) = &pedestal.untrained {
        mask.indices().for_each(|i| values[i] = f64::NAN);
    }
    values
}

fn pedestal_map(p: &Pedestal, file: &'static str, title: &str, bar: &str, values: &[f64]) -> Named {
    let (x, y) = detector_axes(p.shape.rows, p.shape.cols);
    let map = Map {
        title: format!("{title} map"),
        x,
        y,
        rows_down: true,
        bar: bar.into(),
        counts: false,
        grid: Grid { rows: p.shape.rows, cols: p.shape.cols, values: values.to_vec() },
        range: Range::Percentile(OUTLIERS),
        empty: None,
    };
    let caption =
        "As it was at the end of the run. The colours leave out the lowest and highest 0.5 % of the \
                   pixels; grey pixels have no dark value."
            .to_string();
    Named { file, caption, picture: map.draw() }
}

fn pedestal_histogram(file: &'static str, title: &str, label: &str, values: &[f64]) -> Named {
    const BINS: f64 = 200.0;
    let mut known: Vec<f64> = values.iter().copied().filter(|v| v.is_finite()).collect();
    known.sort_by(f64::total_cmp);
    let at =
        |share: f64| known.get(((known.len().max(1) - 1) as f64 * share) as usize).copied().unwrap_or(0.0);
    let (a, b) = (at(0.001), at(0.999));
    let space = (b - a).max(1e-3) * 0.1;
    let low = if a > 0.0 { (a - space).max(0.0) } else { a - space };
    let width = nice_step((b + space - low) / BINS);
    let low = (low / width).floor() * width;
    let bins = ((b + space - low) / width).ceil() as usize;
    let high = low + bins as f64 * width;
    let mut counts = vec![0.0; bins];
    let inside = known.iter().filter(|v| (low..high).contains(*v));
    inside.clone().for_each(|v| counts[(((v - low) / width) as usize).min(bins - 1)] += 1.0);
    let outside = known.len() - inside.count();
    let most = counts.iter().copied().fold(1.0, f64::max);
    let median = at(0.5);
    let digits = if width < 1.0 { 2 } else { 1 };
    let chart = Chart {
        title: format!("{title} histogram"),
        x: Axis::linear(label, low, high),
        y: Axis::log(format!("pixels per {} ADU", short(width)), 0.8, most * 2.0),
        layers: vec![
            Layer::Steps { name: String::new(), colour: BLUE, first: low, width, values: counts },
            Layer::Mark { name: format!("median {median:.digits$} ADU"), x: median },
        ],
        legend: Legend::Inside,
        empty: known.is_empty().then(|| "no trained pixels".into()),
    };
    let caption = format!("{} pixels; {outside} of them lie outside this range.", known.len());
    Named { file, caption, picture: chart.draw() }
}

/// A round number without the tail that binary fractions give it.
fn short(round: f64) -> f64 {
    format!("{round:.1e}").parse().unwrap_or(round)
}
