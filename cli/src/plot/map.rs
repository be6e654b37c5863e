//! A map: one colour a cell, with a colour bar.

use super::axis::Axis;
use super::chart::{fitting, frame, last_half, widest};
use super::colour;
use super::grid::{Blocks, Cell, Grid, Span, Values};
use super::raster::indexed;
use super::svg::{Anchor, Canvas, Picture, Rect, TEXT, width_of};

/// A map with its axes and its colour bar.
#[derive(Clone, Debug)]
pub struct Map {
    pub title: String,
    /// The x axis: its label and range.
    pub x: Axis,
    /// The y axis, upwards unless `rows_down`.
    pub y: Axis,
    /// Whether row 0 is at the top, as in a detector image, or at the bottom.
    pub rows_down: bool,
    /// What the colours mean, with the unit.
    pub bar: String,
    /// What a cell is, where the values are so many for each.
    pub per: Option<&'static str>,
    pub values: Values,
    /// What cells without a value are.
    pub nothing: String,
    pub grid: Grid,
    /// Words in the middle instead of data.
    pub empty: Option<String>,
}

/// The longest side of a plot.
const SIDE: f64 = 480.0;
/// The shortest side: beyond that cells are no longer square.
const SHORT: f64 = 120.0;
const BAR: f64 = 20.0;
/// More cells than this a side are taken together: each is to have a pixel of the screen.
const CELLS: usize = SIDE as usize;
/// Room above a map that has a legend.
const LEGEND: f64 = 24.0;

impl Map {
    /// The picture, and what its colours leave out.
    pub fn draw(&self) -> (Picture, Span) {
        let (rows, cols) = (self.grid.rows as f64, self.grid.cols as f64);
        let unit = SIDE / rows.max(cols);
        let (w, h) = ((cols * unit).max(SHORT), (rows * unit).max(SHORT));
        let span = self.grid.span(self.values);
        let shown = self.grid.blocks(self.values, &span, CELLS);

        let mut canvas = Canvas::default();
        let y_ticks = self.y.ticks(((h / 60.0) as usize).clamp(1, 8));
        let left = 46.0 + widest(&y_ticks);
        let legend = self.legend(&mut canvas, left, &span);
        let plot = Rect { x: left, y: if legend > 0.0 { 44.0 + LEGEND } else { 44.0 }, w, h };
        let x_ticks = self.x.ticks(fitting(&self.x, w));

        let axis = if self.values == Values::Counts { Axis::whole } else { Axis::linear };
        let label = match (self.per, shown.by) {
            (None, _) => self.bar.clone(),
            (Some(cell), 1) => format!("{} per {cell}", self.bar),
            (Some(cell), by) => {
                let (w, h) = (by.min(self.grid.cols), by.min(self.grid.rows));
                format!("{} per {w} × {h} {cell}s", self.bar)
            }
        };
        let bar = axis(label, shown.low, shown.high);
        let indices = self.indices(&shown, bar.range());
        canvas.image(plot, &indexed(shown.cols, shown.rows, &indices), true);
        if let Some(why) = &self.empty {
            let space = width_of(why, TEXT) + 24.0;
            let (x, y) = (plot.x + w / 2.0, plot.y + h / 2.0);
            canvas.rect(Rect { x: x - space / 2.0, y: y - 22.0, w: space, h: 34.0 }, "#ffffff", "#1a1a1a");
            canvas.text((x, y), Anchor::Middle, TEXT, why);
        }
        // Row 0 of a detector image lies at the top: the axis runs downwards.
        let down = Down(&self.y);
        match self.rows_down {
            true => down.frame(&mut canvas, plot, &self.x, &x_ticks, &y_ticks),
            false => frame(&mut canvas, plot, (&self.x, &x_ticks), (&self.y, &y_ticks)),
        }
        let (right, lowest) = self.colour_bar(&mut canvas, plot, last_half(&x_ticks), &bar);
        canvas.text((plot.x, 26.0), Anchor::Start, TEXT + 2.0, &self.title);
        let words = plot.x + width_of(&self.title, TEXT + 2.0).max(legend) + 10.0;
        (canvas.finish(right.max(words), lowest.max(plot.bottom() + 62.0), &self.title), span)
    }

    /// The colours of the blocks, row by row from the top.
    fn indices(&self, shown: &Blocks, (low, high): (f64, f64)) -> Vec<u8> {
        let index = |cell: &Cell| match cell {
            Cell::Value(v) => {
                let last = f64::from(colour::LAST);
                ((v - low) / (high - low) * last).round().clamp(0.0, last) as u8
            }
            Cell::Below => colour::INDEX_BELOW,
            Cell::Above => colour::INDEX_ABOVE,
            Cell::Nothing => colour::INDEX_NO_VALUE,
        };
        let row = |r: usize| if self.rows_down { r } else { shown.rows - 1 - r };
        (0..shown.rows).flat_map(|r| &shown.cells[row(r) * shown.cols..][..shown.cols]).map(index).collect()
    }

    /// A patch of each colour that is not in the bar, above the map. Returns the width of the line.
    fn legend(&self, canvas: &mut Canvas, left: f64, span: &Span) -> f64 {
        let edge = |v: f64| self.short(v, span);
        let patches = [
            (colour::ABOVE, span.above, format!("above {}", edge(span.high))),
            (colour::BELOW, span.below, format!("below {}", edge(span.low))),
            (colour::NO_VALUE, span.without, self.nothing.clone()),
        ];
        let mut x = left;
        for (colour, cells, words) in patches.into_iter().filter(|p| p.1 > 0) {
            let words = format!("{words}: {}", super::grouped(cells as f64, 0));
            canvas.rect(Rect { x, y: 40.0, w: 13.0, h: 13.0 }, &colour::hex(colour), "#1a1a1a");
            canvas.text((x + 19.0, 52.0), Anchor::Start, TEXT - 1.0, &words);
            x += 19.0 + width_of(&words, TEXT - 1.0) + 16.0;
        }
        x - left
    }

    /// A number with as many digits as the span needs.
    fn short(&self, v: f64, span: &Span) -> String {
        let digits = match self.values {
            Values::Counts => 0,
            Values::Measures => {
                (2.0 - (span.high - span.low).max(1e-9).log10().floor()).clamp(0.0, 6.0) as usize
            }
        };
        super::grouped(v, digits)
    }

    /// Draws the bar right of a map and returns where it and its label end, right and below.
    fn colour_bar(&self, canvas: &mut Canvas, plot: Rect, last_half: f64, bar: &Axis) -> (f64, f64) {
        let scale = Rect { x: plot.right() + last_half.max(10.0) + 12.0, y: plot.y, w: BAR, h: plot.h };
        let ramp: Vec<u8> = (0..=colour::LAST).rev().collect();
        canvas.image(scale, &indexed(1, ramp.len(), &ramp), false);
        canvas.rect(scale, "none", "#1a1a1a");
        let ticks = bar.ticks(((plot.h / 60.0) as usize).clamp(1, 7));
        for (v, word) in &ticks.major {
            let at = scale.bottom() - bar.place(*v) * plot.h;
            canvas.line((scale.right() - 5.0, at), (scale.right(), at), "#1a1a1a", 1.0);
            canvas.text((scale.right() + 7.0, at + TEXT * 0.35), Anchor::Start, TEXT, word);
        }
        let label = scale.right() + 7.0 + widest(&ticks) + TEXT + 6.0;
        // In the middle of the bar; of a bar that is shorter than the words, low enough for them.
        let words = bar.label(&ticks);
        let half = width_of(&words, TEXT + 1.0) / 2.0;
        let middle = (plot.y + plot.h / 2.0).max(half + 6.0);
        canvas.text_up((label, middle), TEXT + 1.0, &words);
        (label + 16.0, middle + half + 6.0)
    }
}

/// A y axis that runs downwards.
struct Down<'a>(&'a Axis);

impl Down<'_> {
    fn frame(
        &self,
        canvas: &mut Canvas,
        plot: Rect,
        x: &Axis,
        x_ticks: &super::axis::Ticks,
        y_ticks: &super::axis::Ticks,
    ) {
        let (low, high) = self.0.range();
        let turn = |v: f64| low + high - v;
        let mut turned = y_ticks.clone();
        turned.major.iter_mut().for_each(|t| t.0 = turn(t.0));
        turned.minor.iter_mut().for_each(|t| *t = turn(*t));
        frame(canvas, plot, (x, x_ticks), (self.0, &turned));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_and_tiny_grids_are_drawn() {
        for (rows, cols) in [(1, 1), (1, 1280), (512, 2), (3000, 4)] {
            let map = Map {
                title: "A".into(),
                x: Axis::linear("x (pixel)", 0.0, cols as f64),
                y: Axis::linear("y (pixel)", 0.0, rows as f64),
                rows_down: true,
                bar: "noise (ADU)".into(),
                per: None,
                values: Values::Measures,
                nothing: "masked".into(),
                grid: Grid { rows, cols, values: vec![f64::NAN; rows * cols] },
                empty: None,
            };
            let png = super::super::render(&map.draw().0, 1.0).unwrap();
            let pixels = resvg::tiny_skia::Pixmap::decode_png(&png).unwrap();
            let [r, g, b] = colour::NO_VALUE;
            let cell =
                |p: &resvg::tiny_skia::PremultipliedColorU8| (p.red(), p.green(), p.blue()) == (r, g, b);
            // Words and lines are grey; only the colour bar is not.
            let bar = |p: &resvg::tiny_skia::PremultipliedColorU8| p.red().abs_diff(p.green()) > 50;
            assert!(pixels.pixels().iter().any(cell), "no cells in {rows} x {cols}");
            assert!(pixels.pixels().iter().any(bar), "no colour bar in {rows} x {cols}");
        }
    }
}
