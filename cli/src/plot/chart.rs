//! A chart: lines and histograms over two axes.

use super::axis::{Axis, Ticks};
use super::svg::{Anchor, Canvas, Picture, Rect, TEXT, width_of};

/// Something that is drawn into a chart.
#[derive(Clone, Debug)]
pub enum Layer {
    /// A histogram as steps: bin `i` reaches from `first + i*width` to the next, with `values[i]`.
    Steps { name: String, colour: &'static str, first: f64, width: f64, values: Vec<f64> },
    /// A line through points.
    Line { name: String, colour: &'static str, points: Vec<(f64, f64)> },
    /// The space between a low and a high line, `(x, low, high)`.
    Band { name: String, colour: &'static str, points: Vec<(f64, f64, f64)> },
    /// A line across the chart at one x, with its words.
    Mark { name: String, x: f64 },
}

impl Layer {
    fn name(&self) -> &str {
        match self {
            Layer::Steps { name, .. }
            | Layer::Line { name, .. }
            | Layer::Band { name, .. }
            | Layer::Mark { name, .. } => name,
        }
    }
}

/// Axes and layers.
#[derive(Clone, Debug)]
pub struct Chart {
    pub title: String,
    pub x: Axis,
    pub y: Axis,
    pub layers: Vec<Layer>,
    /// Words in the middle instead of data: why there is nothing to see.
    pub empty: Option<String>,
}

const AXIS: &str = "#1a1a1a";
const GRID: &str = "#e4e4e4";
const TITLE: f64 = 17.0;
/// Size of the space between the axes.
const PLOT: (f64, f64) = (620.0, 360.0);

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
        self.legend(&mut canvas, plot);
        if let Some(why) = &self.empty {
            canvas.text((plot.x + plot.w / 2.0, plot.y + plot.h / 2.0), Anchor::Middle, TITLE, why);
        }
        let right = (last_half(&x_ticks) + 10.0).max(24.0);
        canvas.finish(plot.right() + right, plot.bottom() + 62.0, &self.title)
    }

    fn draw_layer(&self, canvas: &mut Canvas, plot: Rect, layer: &Layer) {
        let at =
            |x: f64, y: f64| (plot.x + self.x.place(x) * plot.w, plot.bottom() - self.y.place(y) * plot.h);
        let (low, high) = self.x.range();
        match layer {
            Layer::Steps { colour, first, width, values, .. } => {
                let mut points = Vec::with_capacity(values.len() * 2 + 2);
                for (i, v) in values.iter().enumerate() {
                    let (a, b) = (first + i as f64 * width, first + (i + 1) as f64 * width);
                    if b > low && a < high {
                        points.extend([at(a, *v), at(b, *v)]);
                    }
                }
                canvas.path(&points, colour, 1.6);
            }
            Layer::Line { colour, points, .. } => {
                let points: Vec<_> = points.iter().map(|p| at(p.0, p.1)).collect();
                canvas.path(&points, colour, 1.4);
            }
            Layer::Band { colour, points, .. } => {
                let upper = points.iter().map(|p| at(p.0, p.2));
                let lower = points.iter().rev().map(|p| at(p.0, p.1));
                canvas.area(&upper.chain(lower).collect::<Vec<_>>(), colour, 0.3);
            }
            Layer::Mark { x, .. } => {
                let x = at(*x, 0.0).0;
                canvas.line((x, plot.y), (x, plot.bottom()), "#666666", 1.0);
            }
        }
    }

    fn legend(&self, canvas: &mut Canvas, plot: Rect) {
        let named: Vec<&Layer> = self.layers.iter().filter(|l| !l.name().is_empty()).collect();
        if named.is_empty() {
            return;
        }
        let line = TEXT * 1.45;
        let w = 52.0 + named.iter().map(|l| width_of(l.name(), TEXT)).fold(0.0, f64::max);
        let h = line * named.len() as f64 + 10.0;
        let space = self.free_space(plot, w, h);
        canvas.rect(space, "rgba(255,255,255,0.88)", GRID);
        for (i, layer) in named.iter().enumerate() {
            let y = space.y + 5.0 + line * (i as f64 + 0.5);
            let (a, b) = (space.x + 10.0, space.x + 36.0);
            match layer {
                Layer::Steps { colour, .. } | Layer::Line { colour, .. } => {
                    canvas.line((a, y), (b, y), colour, 2.4);
                }
                Layer::Band { colour, .. } => {
                    canvas.area(&[(a, y - 5.0), (b, y - 5.0), (b, y + 5.0), (a, y + 5.0)], colour, 0.3);
                }
                Layer::Mark { .. } => canvas.line((a, y), (b, y), "#666666", 1.0),
            }
            canvas.text((space.x + 44.0, y + TEXT * 0.35), Anchor::Start, TEXT, layer.name());
        }
    }
}

impl Chart {
    /// The place for a legend, along the upper edge or else the lower, that hides the fewest points.
    fn free_space(&self, plot: Rect, w: f64, h: f64) -> Rect {
        let points: Vec<(f64, f64)> = self.layers.iter().flat_map(|l| self.points(plot, l)).collect();
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

    /// Where the points of a layer lie.
    fn points(&self, plot: Rect, layer: &Layer) -> Vec<(f64, f64)> {
        let at =
            |x: f64, y: f64| (plot.x + self.x.place(x) * plot.w, plot.bottom() - self.y.place(y) * plot.h);
        match layer {
            Layer::Steps { first, width, values, .. } => {
                values.iter().enumerate().map(|(i, v)| at(first + (i as f64 + 0.5) * width, *v)).collect()
            }
            Layer::Line { points, .. } => points.iter().map(|p| at(p.0, p.1)).collect(),
            Layer::Band { points, .. } => points.iter().flat_map(|p| [at(p.0, p.1), at(p.0, p.2)]).collect(),
            Layer::Mark { .. } => Vec::new(),
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
