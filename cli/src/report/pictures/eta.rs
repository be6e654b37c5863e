//! How charge is shared between pixels.

use scheidegg::Payload;

use super::{Named, Peaks, ReportSink, empty, left_out};
use crate::plot::{Axis, BLUE, Chart, Grid, Layer, Legend, Map, ORANGE, Values, grouped};
use crate::report::eta::{CELLS, Distribution};
use crate::summary::count;

/// Side of a cell of the eta distribution.
const CELL: f64 = 1.0 / CELLS as f64;
/// Half the window of energies, in standard deviations of the peak.
const WINDOW: f64 = 2.0;

/// The eta distribution and its profiles, of the clusters in the peak of the largest 2x2.
pub fn eta(sink: &ReportSink, peaks: &Peaks) -> [Named; 2] {
    let eta = match &peaks.square {
        Ok(p) => sink.eta.within(p.position - WINDOW * p.sigma, p.position + WINDOW * p.sigma),
        Err(_) => sink.eta.all(),
    };
    let whom = whom(&eta);
    [map(sink, &eta, &whom), profiles(sink, &eta, &whom)]
}

/// Which clusters are counted, in a sentence.
fn whom(eta: &Distribution) -> String {
    let clusters = count(eta.inside() + eta.outside);
    match eta.window {
        Some((low, high)) => format!(
            "{clusters} clusters with {} to {} ADU in their largest 2x2, about {WINDOW} standard deviations around its peak.",
            grouped(low, 0),
            grouped(high, 0)
        ),
        None => format!("{clusters} clusters of all energies, as no peak was fitted."),
    }
}

/// What was done about rounding, in a sentence.
fn precision(payload: Option<Payload>) -> &'static str {
    match payload {
        Some(Payload::F32) | None => "Values were taken as measured, before any rounding.",
        Some(Payload::I32 | Payload::I16) => {
            "Values were rounded to whole ADU when they were stored; each was given back an even part of an ADU between \
             −0.5 and 0.5, so that small charges do not gather at simple fractions."
        }
        Some(Payload::F16) => {
            "Values were rounded to 11 bits when they were stored; each was given back an even part of its last digit, so that \
             they do not gather at simple fractions."
        }
    }
}

fn map(sink: &ReportSink, eta: &Distribution, whom: &str) -> Named {
    let axis = |label: &str| Axis::linear(label, 0.0, 1.0);
    let map = Map {
        title: "Eta distribution".into(),
        x: axis("eta x (share of the right column)"),
        y: axis("eta y (share of the lower row)"),
        rows_down: false,
        bar: format!("clusters per {CELL} × {CELL}"),
        per: None,
        values: Values::Counts,
        nothing: String::new(),
        grid: Grid { rows: CELLS, cols: CELLS, values: eta.cells.iter().map(|n| *n as f64).collect() },
        empty: empty(sink),
    };
    let (picture, span) = map.draw();
    let mut caption =
        format!("How the charge of the largest 2x2 square is shared between its columns and rows. {whom}");
    if eta.outside > 0 {
        caption += &format!(" {} of them lie outside 0 to 1.", count(eta.outside));
    }
    caption += &format!(" {} {}", left_out(&span, "cells"), precision(sink.payload));
    Named { file: "eta_map", caption, picture }
}

fn profiles(sink: &ReportSink, eta: &Distribution, whom: &str) -> Named {
    let mut sums = [vec![0.0; CELLS], vec![0.0; CELLS]];
    for (i, n) in eta.cells.iter().enumerate() {
        sums[0][i % CELLS] += *n as f64;
        sums[1][i / CELLS] += *n as f64;
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
    let caption = format!(
        "The sums of the eta distribution over its rows and columns. {whom} Where x and y differ, the charge cloud or the \
         pixels are not alike both ways."
    );
    Named { file: "eta_profiles", caption, picture: chart.draw() }
}
