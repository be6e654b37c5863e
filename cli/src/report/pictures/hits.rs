//! Clusters at every pixel.

use ndarray::Array2;

use super::{Distribution, Material, NOTHING, Named, detector_axes, distribution, empty, known, left_out};
use crate::plot::{Grid, Map, Values};
use crate::summary::count;

/// The hit map and the histogram of its pixels.
pub fn hits(of: &Material<'_>) -> [Named; 2] {
    let (sink, shape) = (of.sink, of.sink.shape);
    let hits = sink.hits.iter().map(|n| f64::from(*n)).collect();
    let hits = Array2::from_shape_vec((shape.rows, shape.cols), hits).expect("a count for every pixel");
    let values = known(hits, of.end, of.mask);
    let (x, y) = detector_axes(shape);
    let map = Map {
        title: "Hit map".into(),
        x,
        y,
        rows_down: true,
        bar: "clusters".into(),
        per: Some("pixel"),
        values: Values::Counts,
        nothing: NOTHING.into(),
        grid: Grid { rows: shape.rows, cols: shape.cols, values: values.clone() },
        empty: empty(sink),
    };
    let (picture, span) = map.draw();
    let mut caption =
        format!("Clusters by their brightest pixel; row 0 is at the top. {}", left_out(&span, "pixels"));
    let brightest = sink.hits.iter().enumerate().rev().max_by_key(|(_, n)| **n);
    if let Some((at, most)) = brightest.filter(|(_, n)| **n > 0) {
        let (row, col) = (at / shape.cols, at % shape.cols);
        caption +=
            &format!(" The pixel with the most, {}, is row {row}, column {col}.", count(u64::from(*most)));
    }
    let map = Named { file: "hit_map", caption, picture };
    let histogram = distribution(
        &values,
        Distribution {
            file: "hit_histogram",
            title: "Clusters per pixel".into(),
            label: "clusters per pixel",
            unit: "cluster",
            whole: true,
        },
    );
    [map, histogram]
}
