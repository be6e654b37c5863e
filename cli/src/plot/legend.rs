//! The legend of a chart: a box between its axes, or words beside its lines.

use super::chart::{Chart, GAP, GRID, Layer, Legend, MARK};
use super::svg::{Anchor, Canvas, Rect, TEXT, width_of};

/// From one line of a legend to the next.
const LINE: f64 = TEXT * 1.45;
/// Room for the piece of a line before its words.
const SIGN: f64 = 44.0;
/// Distance of the points of a line that a legend must not hide.
const STEP: f64 = 6.0;

impl Chart {
    /// Draws the legend and returns the room that it takes right of the plot.
    pub(super) fn draw_legend(&self, canvas: &mut Canvas, plot: Rect) -> f64 {
        let named: Vec<&Layer> = self.layers.iter().filter(|l| !l.name().is_empty()).collect();
        if named.is_empty() {
            return 0.0;
        }
        let widest = named.iter().map(|l| width_of(l.name(), TEXT)).fold(0.0, f64::max);
        match self.legend {
            Legend::Inside => {
                let (w, h) = (SIGN + 8.0 + widest, LINE * named.len() as f64 + 10.0);
                let space = self.free_space(plot, w, h);
                canvas.rect(space, "rgba(255,255,255,0.88)", GRID);
                for (i, layer) in named.iter().enumerate() {
                    line(canvas, layer, (space.x, space.y + 5.0 + LINE * (i as f64 + 0.5)));
                }
                0.0
            }
            Legend::Beside => {
                let ends: Vec<f64> = named.iter().map(|l| self.end(plot, l)).collect();
                for (layer, y) in named.iter().zip(apart(&ends, (plot.y, plot.bottom()))) {
                    line(canvas, layer, (plot.right(), y));
                }
                SIGN + widest + 12.0
            }
        }
    }

    /// The height at which a layer ends.
    fn end(&self, plot: Rect, layer: &Layer) -> f64 {
        self.outline(plot, layer).last().map_or(plot.y, |p| p.1)
    }

    /// The place for a legend, along the upper edge or else the lower, that hides the least.
    fn free_space(&self, plot: Rect, w: f64, h: f64) -> Rect {
        let points: Vec<(f64, f64)> =
            self.layers.iter().flat_map(|l| dense(&self.outline(plot, l))).collect();
        let (left, right) = (plot.x + 8.0, plot.right() - w - 8.0);
        let places = [plot.y + 8.0, plot.bottom() - h - 14.0]
            .into_iter()
            .flat_map(|y| [right, left, (left + right) / 2.0].map(|x| Rect { x, y, w, h }));
        let hidden = |r: &Rect| {
            let inside = |p: &&(f64, f64)| p.0 > r.x && p.0 < r.right() && p.1 > r.y && p.1 < r.bottom();
            points.iter().filter(inside).count()
        };
        // Of equals the first.
        places.min_by_key(hidden).expect("six places")
    }
}

/// One line of a legend: how the layer is drawn, and its words.
fn line(canvas: &mut Canvas, layer: &Layer, (x, y): (f64, f64)) {
    let (a, b) = (x + 10.0, x + 36.0);
    let area = [(a, y - 5.0), (b, y - 5.0), (b, y + 5.0), (a, y + 5.0)];
    match layer {
        Layer::Steps { colour, .. } | Layer::Line { colour, dashed: false, .. } => {
            canvas.line((a, y), (b, y), colour, 2.4);
        }
        Layer::Line { colour, .. } => canvas.dashes(&[(a, y), (b, y)], colour, 1.8),
        Layer::Points { colour, .. } => {
            canvas.line((a, y), (b, y), colour, 1.2);
            canvas.dot(((a + b) / 2.0, y), 3.6, colour);
        }
        Layer::Band { colour, .. } => canvas.area(&area, colour, 0.3),
        Layer::Mark { .. } => canvas.line((a, y), (b, y), MARK, 1.0),
        Layer::Gaps { .. } => canvas.area(&area, GAP, 0.35),
    }
    canvas.text((x + SIGN, y + TEXT * 0.35), Anchor::Start, TEXT, layer.name());
}

/// A line with points so near each other that none of its parts can hide between them.
fn dense(line: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let part = |p: &[(f64, f64)]| {
        let (a, b) = (p[0], p[1]);
        let n = ((b.0 - a.0).hypot(b.1 - a.1) / STEP).ceil().clamp(1.0, 1000.0) as usize;
        (0..n).map(move |i| i as f64 / n as f64).map(move |t| (a.0 + (b.0 - a.0) * t, a.1 + (b.1 - a.1) * t))
    };
    line.windows(2).flat_map(part).chain(line.last().copied()).collect()
}

/// Heights near the wanted ones that leave room for a line of words each, in the order given.
fn apart(wanted: &[f64], (top, bottom): (f64, f64)) -> Vec<f64> {
    let mut order: Vec<usize> = (0..wanted.len()).collect();
    order.sort_by(|a, b| wanted[*a].total_cmp(&wanted[*b]));
    let mut out = wanted.to_vec();
    let mut least = top;
    for i in &order {
        out[*i] = out[*i].max(least);
        least = out[*i] + LINE;
    }
    let mut most = bottom;
    for i in order.iter().rev() {
        out[*i] = out[*i].min(most);
        most = out[*i] - LINE;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::super::{Axis, BLUE};
    use super::*;

    #[test]
    fn words_beside_lines_do_not_overlap() {
        let near = apart(&[100.0, 101.0, 99.0], (50.0, 300.0));
        assert!(near[2] < near[0] && near[0] < near[1]);
        assert!(near[1] - near[0] >= LINE - 1e-9 && near[0] - near[2] >= LINE - 1e-9);
        assert_eq!(apart(&[60.0, 200.0], (50.0, 300.0)), [60.0, 200.0]);
        let low = apart(&[300.0, 300.0], (50.0, 300.0));
        assert_eq!(low, [300.0 - LINE, 300.0]);
    }

    #[test]
    fn a_legend_keeps_off_a_line_of_two_points() {
        let plot = Rect { x: 0.0, y: 0.0, w: 600.0, h: 300.0 };
        for points in [vec![(0.0, 0.0), (1.0, 1.0)], vec![(0.0, 1.0), (1.0, 1.0)]] {
            let line = Layer::Line { name: "a".into(), colour: BLUE, points, dashed: false };
            let chart = Chart {
                title: String::new(),
                x: Axis::linear("x", 0.0, 1.0),
                y: Axis::linear("y", 0.0, 1.0),
                layers: vec![line.clone()],
                legend: Legend::Inside,
                empty: None,
            };
            let space = chart.free_space(plot, 150.0, 60.0);
            let hides = |p: &(f64, f64)| {
                p.0 > space.x && p.0 < space.right() && p.1 > space.y && p.1 < space.bottom()
            };
            assert!(!dense(&chart.outline(plot, &line)).iter().any(hides));
        }
    }
}
