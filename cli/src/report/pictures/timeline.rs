//! Clusters per frame.

use super::{Named, ReportSink};
use crate::plot::{Axis, BLUE, Chart, Layer, Legend};
use crate::report::timeline::Span;
use crate::summary::count;

/// Points of the timeline: more run into each other.
const MOMENTS: usize = 300;

/// Clusters per frame over the detector's frame numbers.
pub fn timeline(sink: &ReportSink) -> Named {
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
    let low = if low > 0.7 * high && low < high { low - 0.5 * (high - low) } else { 0.0 };
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
