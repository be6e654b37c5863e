//! A map: one colour a cell, with a colour bar.

use super::axis::Axis;
use super::chart::{fitting, frame, last_half, widest};
use super::raster::indexed;
use super::svg::{Anchor, Canvas, Picture, Rect, TEXT, width_of};

/// Values on a grid, row-major; NaN where there is none.
#[derive(Clone, Debug)]
pub struct Grid {
    pub rows: usize,
    pub cols: usize,
    pub values: Vec<f64>,
}

/// Which values the colours span.
#[derive(Clone, Copy, Debug)]
pub enum Range {
    /// All but this share at either end.
    Percentile(f64),
    /// From 0 to all but this share at the high end.
    FromZero(f64),
}

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
    /// Whether the values are counts.
    pub counts: bool,
    pub grid: Grid,
    pub range: Range,
    /// Words in the middle instead of data.
    pub empty: Option<String>,
}

/// The longest side of a plot.
const SIDE: f64 = 480.0;
/// The shortest side: beyond that cells are no longer square.
const SHORT: f64 = 120.0;
const BAR: f64 = 20.0;
/// More cells than this a side are averaged: nobody sees them, and the file would be large.
const CELLS: usize = 1600;

impl Grid {
    /// The grid with blocks of cells averaged so that no side has more than `most`.
    fn shrunk(&self, most: usize) -> Grid {
        let by = self.rows.max(self.cols).div_ceil(most).max(1);
        if by == 1 {
            return self.clone();
        }
        let (rows, cols) = (self.rows.div_ceil(by), self.cols.div_ceil(by));
        let mut sums = vec![(0.0, 0u32); rows * cols];
        for (i, v) in self.values.iter().enumerate().filter(|(_, v)| v.is_finite()) {
            let cell = &mut sums[i / self.cols / by * cols + i % self.cols / by];
            *cell = (cell.0 + v, cell.1 + 1);
        }
        let values = sums.into_iter().map(|(s, n)| if n > 0 { s / f64::from(n) } else { f64::NAN });
        Grid { rows, cols, values: values.collect() }
    }

    fn span(&self, range: Range) -> (f64, f64) {
        let mut known: Vec<f64> = self.values.iter().copied().filter(|v| v.is_finite()).collect();
        if known.is_empty() {
            return (0.0, 1.0);
        }
        let mut at = |share: f64| {
            let i = ((known.len() - 1) as f64 * share).round() as usize;
            *known.select_nth_unstable_by(i, f64::total_cmp).1
        };
        match range {
            Range::Percentile(p) => (at(p), at(1.0 - p)),
            Range::FromZero(p) => {
                let high = at(1.0 - p);
                // Mostly empty: the percentile says nothing, the largest value does.
                (0.0, if high > 0.0 { high } else { at(1.0).max(1.0) })
            }
        }
    }
}

impl Map {
    /// The picture.
    pub fn draw(&self) -> Picture {
        let (rows, cols) = (self.grid.rows as f64, self.grid.cols as f64);
        let unit = SIDE / rows.max(cols);
        let (w, h) = ((cols * unit).max(SHORT), (rows * unit).max(SHORT));
        let mut canvas = Canvas::default();
        let y_ticks = self.y.ticks(((h / 60.0) as usize).clamp(1, 8));
        let plot = Rect { x: 46.0 + widest(&y_ticks), y: 44.0, w, h };
        let x_ticks = self.x.ticks(fitting(&self.x, w));

        let (low, high) = self.grid.span(self.range);
        let axis = if self.counts { Axis::whole } else { Axis::linear };
        let bar = axis(self.bar.clone(), low, high);
        let (low, high) = bar.range();
        let shown = self.grid.shrunk(CELLS);
        let indices: Vec<u8> = (0..shown.rows)
            .flat_map(|r| {
                let r = if self.rows_down { r } else { shown.rows - 1 - r };
                shown.values[r * shown.cols..][..shown.cols].iter()
            })
            .map(|v| match v.is_finite() {
                true => ((v - low) / (high - low) * 254.0).round().clamp(0.0, 254.0) as u8,
                false => 255,
            })
            .collect();
        let sharp = unit >= 1.0;
        canvas.image(plot, &indexed(shown.cols, shown.rows, &indices), sharp);
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

        let right = last_half(&x_ticks).max(0.0);
        let scale = Rect { x: plot.right() + right.max(10.0) + 12.0, y: plot.y, w: BAR, h };
        let ramp: Vec<u8> = (0..=254).rev().collect();
        canvas.image(scale, &indexed(1, 255, &ramp), false);
        canvas.rect(scale, "none", "#1a1a1a");
        let ticks = bar.ticks(((h / 60.0) as usize).clamp(1, 7));
        for (v, word) in &ticks.major {
            let at = scale.bottom() - bar.place(*v) * h;
            canvas.line((scale.right() - 5.0, at), (scale.right(), at), "#1a1a1a", 1.0);
            canvas.text((scale.right() + 7.0, at + TEXT * 0.35), Anchor::Start, TEXT, word);
        }
        let label_x = scale.right() + 7.0 + widest(&ticks) + TEXT + 6.0;
        canvas.text_up((label_x, plot.y + h / 2.0), TEXT + 1.0, &bar.label(&ticks));
        canvas.text((plot.x, 26.0), Anchor::Start, TEXT + 2.0, &self.title);
        let width = (label_x + 16.0).max(plot.x + width_of(&self.title, TEXT + 2.0) + 10.0);
        canvas.finish(width, plot.bottom() + 62.0, &self.title)
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
    use super::super::colour;
    use super::*;

    #[test]
    fn shrinking_averages_what_is_known() {
        let g = Grid { rows: 2, cols: 3, values: vec![1.0, 3.0, 5.0, f64::NAN, 2.0, f64::NAN] };
        let s = g.shrunk(2);
        assert_eq!((s.rows, s.cols), (1, 2));
        assert_eq!(s.values, [2.0, 5.0]);
        assert_eq!(g.shrunk(3).values[0], 1.0);
    }

    #[test]
    fn ranges_leave_outliers_out() {
        let mut values: Vec<f64> = (0..1000).map(f64::from).collect();
        values.push(1e9);
        let g = Grid { rows: 1, cols: 1001, values };
        assert_eq!(g.span(Range::Percentile(0.01)), (10.0, 990.0));
        assert_eq!(g.span(Range::FromZero(0.01)), (0.0, 990.0));
        let empty = Grid { rows: 1, cols: 2, values: vec![0.0; 2] };
        assert_eq!(empty.span(Range::FromZero(0.01)), (0.0, 1.0));
    }

    #[test]
    fn long_and_tiny_grids_are_drawn() {
        for (rows, cols) in [(1, 1), (1, 1280), (512, 2), (3000, 4)] {
            let map = Map {
                title: "A".into(),
                x: Axis::linear("x (pixel)", 0.0, cols as f64),
                y: Axis::linear("y (pixel)", 0.0, rows as f64),
                rows_down: true,
                bar: "noise (ADU)".into(),
                counts: false,
                grid: Grid { rows, cols, values: vec![f64::NAN; rows * cols] },
                range: Range::Percentile(0.01),
                empty: None,
            };
            let png = super::super::render(&map.draw(), 1.0).unwrap();
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
