//! A chart: lines and histograms over two axes.

use super::axis::{Axis, Ticks};
use super::svg::{Anchor, Canvas, Picture, Rect, TEXT, width_of};

/// Something that is drawn into a chart. Without a name it has no line in the legend.
#[derive(Clone, Debug)]
pub enum Layer {
    /// A histogram as steps: bin `i` reaches from `first + i*width` to the next, with `values[i]`.
    Steps { name: String, colour: &'static str, first: f64, width: f64, values: Vec<f64> },
    /// A line through points.
    Line { name: String, colour: &'static str, points: Vec<(f64, f64)>, dashed: bool },
    /// Points joined by a line, each with a bar from low to high: `(x, y, low, high)`.
    Points { name: String, colour: &'static str, points: Vec<(f64, f64, f64, f64)> },
    /// The space between a low and a high line, `(x, low, high)`.
    Band { name: String, colour: &'static str, points: Vec<(f64, f64, f64)> },
    /// A line across the chart at one x.
    Mark { name: String, x: f64 },
    /// A part of the x axis, from low to high, where there is nothing.
    Gaps { name: String, parts: Vec<(f64, f64)> },
}

impl Layer {
    /// The words in the legend.
    pub(super) fn name(&self) -> &str {
        match self {
            Layer::Steps { name, .. }
            | Layer::Line { name, .. }
            | Layer::Points { name, .. }
            | Layer::Band { name, .. }
            | Layer::Mark { name, .. }
            | Layer::Gaps { name, .. } => name,
        }
    }
}

/// Where the words of the layers stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Legend {
    /// In a box between the axes, where it hides the least.
    Inside,
    /// Right of the plot, each beside the end of its line.
    Beside,
}

/// Axes and layers.
#[derive(Clone, Debug)]
pub struct Chart {
    pub title: String,
    pub x: Axis,
    pub y: Axis,
    pub layers: Vec<Layer>,
    pub legend: Legend,
    /// Words in the middle instead of data: why there is nothing to see.
    pub empty: Option<String>,
}

const AXIS: &str = "#1a1a1a";
pub(super) const GRID: &str = "#e4e4e4";
pub(super) const MARK: &str = "#666666";
pub(super) const GAP: &str = "#b0b0b0";
const TITLE: f64 = 17.0;
/// Size of the space between the axes.
const PLOT: (f64, f64) = (560.0, 380.0);

impl Chart {
    /// The picture.
    pub fn draw(&self) -> Picture {
        let mut canvas = Canvas::default();
        let y_ticks = self.y.ticks(7);
        let left = 46.0 + widest(&y_ticks);
        let plot = Rect { x: left, y: 44.0, w: PLOT.0, h: PLOT.1 };
        let x_ticks = self.x.ticks(fitting(&self.x, plot.w));
        grid(&mut canvas, plot, (&self.x, &x_ticks), (&self.y, &y_ticks));
        for layer in &self.layers {
            self.draw_layer(&mut canvas, plot, layer);
        }
        frame(&mut canvas, plot, (&self.x, &x_ticks), (&self.y, &y_ticks));
        canvas.text((plot.x, 26.0), Anchor::Start, TITLE, &self.title);
        let legend = self.draw_legend(&mut canvas, plot);
        if let Some(why) = &self.empty {
            canvas.text((plot.x + plot.w / 2.0, plot.y + plot.h / 2.0), Anchor::Middle, TITLE, why);
        }
        let right = (last_half(&x_ticks) + 10.0).max(24.0).max(legend);
        let title = plot.x + width_of(&self.title, TITLE) + 10.0;
        canvas.finish((plot.right() + right).max(title), plot.bottom() + 62.0, &self.title)
    }

    /// Where a point lies in the picture.
    pub(super) fn at(&self, plot: Rect, x: f64, y: f64) -> (f64, f64) {
        (plot.x + self.x.place(x) * plot.w, plot.bottom() - self.y.place(y) * plot.h)
    }

    fn draw_layer(&self, canvas: &mut Canvas, plot: Rect, layer: &Layer) {
        let at = |x: f64, y: f64| self.at(plot, x, y);
        match layer {
            Layer::Steps { colour, .. } => canvas.path(&self.outline(plot, layer), colour, 1.6),
            Layer::Line { colour, dashed: true, .. } => {
                canvas.dashes(&self.outline(plot, layer), colour, 1.6);
            }
            Layer::Line { colour, .. } => canvas.path(&self.outline(plot, layer), colour, 1.6),
            Layer::Points { colour, points, .. } => {
                canvas.path(&self.outline(plot, layer), colour, 1.2);
                for (x, y, low, high) in points {
                    let (x, y) = at(*x, *y);
                    let (low, high) = (at(0.0, *low).1, at(0.0, *high).1);
                    canvas.line((x, low), (x, high), colour, 1.4);
                    for end in [low, high] {
                        canvas.line((x - 4.0, end), (x + 4.0, end), colour, 1.4);
                    }
                    canvas.dot((x, y), 3.6, colour);
                }
            }
            Layer::Band { colour, points, .. } => {
                let upper = points.iter().map(|p| at(p.0, p.2));
                let lower = points.iter().rev().map(|p| at(p.0, p.1));
                canvas.area(&upper.chain(lower).collect::<Vec<_>>(), colour, 0.3);
            }
            Layer::Mark { x, .. } => {
                let x = at(*x, 0.0).0;
                canvas.line((x, plot.y), (x, plot.bottom()), MARK, 1.0);
            }
            Layer::Gaps { parts, .. } => {
                for (low, high) in parts {
                    let (a, b) = (at(*low, 0.0).0, at(*high, 0.0).0);
                    let corners = [(a, plot.y), (b, plot.y), (b, plot.bottom()), (a, plot.bottom())];
                    canvas.area(&corners, GAP, 0.35);
                }
            }
        }
    }

    /// The line that a layer is drawn with.
    pub(super) fn outline(&self, plot: Rect, layer: &Layer) -> Vec<(f64, f64)> {
        let at = |x: f64, y: f64| self.at(plot, x, y);
        match layer {
            Layer::Steps { first, width, values, .. } => {
                let (low, high) = self.x.range();
                let mut points = Vec::with_capacity(values.len() * 2 + 2);
                for (i, v) in values.iter().enumerate() {
                    let (a, b) = (first + i as f64 * width, first + (i + 1) as f64 * width);
                    if b > low && a < high {
                        points.extend([at(a, *v), at(b, *v)]);
                    }
                }
                points
            }
            Layer::Line { points, .. } => points.iter().map(|p| at(p.0, p.1)).collect(),
            Layer::Points { points, .. } => points.iter().map(|p| at(p.0, p.1)).collect(),
            Layer::Band { points, .. } => points.iter().flat_map(|p| [at(p.0, p.1), at(p.0, p.2)]).collect(),
            Layer::Mark { .. } | Layer::Gaps { .. } => Vec::new(),
        }
    }
}

/// The most room that the words of an axis take.
pub(super) fn widest(ticks: &Ticks) -> f64 {
    ticks.major.iter().map(|t| width_of(&t.1, TEXT)).fold(0.0, f64::max)
}

/// Half the room of the last word, which may reach beyond the plot.
pub(super) fn last_half(ticks: &Ticks) -> f64 {
    ticks.major.last().map_or(0.0, |t| width_of(&t.1, TEXT) / 2.0)
}

/// The number of ticks whose words fit side by side under an axis of this width.
pub(super) fn fitting(axis: &Axis, width: f64) -> usize {
    (1..=8)
        .rev()
        .find(|&n| {
            let ticks = axis.ticks(n);
            ticks.major.len() as f64 * (widest(&ticks) + 16.0) <= width
        })
        .unwrap_or(1)
}

/// Lines across the plot at the ticks.
fn grid(canvas: &mut Canvas, plot: Rect, (x, xt): (&Axis, &Ticks), (y, yt): (&Axis, &Ticks)) {
    for (v, _) in &xt.major {
        let at = plot.x + x.place(*v) * plot.w;
        canvas.line((at, plot.y), (at, plot.bottom()), GRID, 1.0);
    }
    for (v, _) in &yt.major {
        let at = plot.bottom() - y.place(*v) * plot.h;
        canvas.line((plot.x, at), (plot.right(), at), GRID, 1.0);
    }
}

/// The frame around a plot with ticks, their words and the labels of both axes.
pub(super) fn frame(canvas: &mut Canvas, plot: Rect, (x, xt): (&Axis, &Ticks), (y, yt): (&Axis, &Ticks)) {
    canvas.rect(plot, "none", AXIS);
    for v in &xt.minor {
        let at = plot.x + x.place(*v) * plot.w;
        canvas.line((at, plot.bottom()), (at, plot.bottom() - 3.0), AXIS, 1.0);
    }
    for (v, word) in &xt.major {
        let at = plot.x + x.place(*v) * plot.w;
        canvas.line((at, plot.bottom()), (at, plot.bottom() - 6.0), AXIS, 1.0);
        canvas.text((at, plot.bottom() + TEXT + 6.0), Anchor::Middle, TEXT, word);
    }
    for v in &yt.minor {
        let at = plot.bottom() - y.place(*v) * plot.h;
        canvas.line((plot.x, at), (plot.x + 3.0, at), AXIS, 1.0);
    }
    for (v, word) in &yt.major {
        let at = plot.bottom() - y.place(*v) * plot.h;
        canvas.line((plot.x, at), (plot.x + 6.0, at), AXIS, 1.0);
        canvas.text((plot.x - 8.0, at + TEXT * 0.35), Anchor::End, TEXT, word);
    }
    canvas.text((plot.x + plot.w / 2.0, plot.bottom() + 48.0), Anchor::Middle, TEXT + 1.0, &x.label(xt));
    canvas.text_up((plot.x - widest(yt) - 24.0, plot.y + plot.h / 2.0), TEXT + 1.0, &y.label(yt));
}
