//! Pedestal, noise and drift of every pixel.

use ndarray::Array2;
use scheidegg::{Pedestal, PixelMask};

use super::{Distribution, NOTHING, Named, detector_axes, distribution, known, left_out};
use crate::plot::{Grid, Map, Values};

/// Maps and histograms of the means and the noise.
pub fn pictures(p: &Pedestal, mask: Option<&PixelMask>, when: &str) -> Vec<Named> {
    let of = |values: Array2<f64>| known(values, Some(p), mask);
    let [mean, noise] = [of(p.mean()), of(p.noise())];
    let names = [
        (["pedestal_mean", "pedestal_mean_histogram"], "Pedestal", "pedestal mean (ADU)", mean),
        (["pedestal_noise", "pedestal_noise_histogram"], "Noise", "noise, standard deviation (ADU)", noise),
    ];
    let both = |(files, title, label, values)| {
        [
            map(p, files, title, label, values, &format!("As it was {when}.")),
            histogram(files, title, label, values),
        ]
    };
    names.iter().flat_map(|(files, title, label, values)| both((*files, *title, *label, values))).collect()
}

/// Map and histogram of what the means have changed by, for pedestals of one shape.
pub fn drift(start: &Pedestal, end: &Pedestal, mask: Option<&PixelMask>) -> Option<[Named; 2]> {
    if start.shape != end.shape {
        return None;
    }
    let change = known(end.mean() - start.mean(), Some(end), mask);
    let files = ["pedestal_drift", "pedestal_drift_histogram"];
    let (title, label) = ("Pedestal drift", "pedestal, end less start (ADU)");
    let what = "The mean of every pixel at the end of the run less that at its start.";
    Some([map(end, files, title, label, &change, what), histogram(files, title, label, &change)])
}

type Files = [&'static str; 2];

fn map(p: &Pedestal, files: Files, title: &str, bar: &str, values: &[f64], what: &str) -> Named {
    let (x, y) = detector_axes(p.shape);
    let map = Map {
        title: format!("{title} map"),
        x,
        y,
        rows_down: true,
        bar: bar.into(),
        per: None,
        values: Values::Measures,
        nothing: NOTHING.into(),
        grid: Grid { rows: p.shape.rows, cols: p.shape.cols, values: values.to_vec() },
        empty: None,
    };
    let (picture, span) = map.draw();
    Named { file: files[0], caption: format!("{what} {}", left_out(&span, "pixels")), picture }
}

fn histogram(files: Files, title: &str, label: &str, values: &[f64]) -> Named {
    let title = format!("{title} histogram");
    distribution(values, Distribution { file: files[1], title, label, unit: "ADU", whole: false })
}
