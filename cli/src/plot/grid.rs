//! Values on a grid: which of them the colours span, and how a large grid becomes a small one.

/// Values on a grid, row-major; NaN where there is none.
#[derive(Clone, Debug, PartialEq)]
pub struct Grid {
    pub rows: usize,
    pub cols: usize,
    pub values: Vec<f64>,
}

/// What the values are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Values {
    /// Counts: colours begin at 0, blocks of cells are summed.
    Counts,
    /// Measures: blocks of cells are averaged.
    Measures,
}

/// The values that colours span, and how many cells lie outside.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Span {
    pub low: f64,
    pub high: f64,
    /// Cells below `low`.
    pub below: usize,
    /// Cells above `high`.
    pub above: usize,
    /// Cells without a value.
    pub without: usize,
}

/// What becomes of a block of cells.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Cell {
    /// It has a value within the span.
    Value(f64),
    /// One of its cells lies below the span.
    Below,
    /// One of its cells lies above the span.
    Above,
    /// None of its cells has a value.
    Nothing,
}

/// A grid as it is drawn: blocks of `by` x `by` cells.
#[derive(Clone, Debug, PartialEq)]
pub struct Blocks {
    pub by: usize,
    pub rows: usize,
    pub cols: usize,
    pub cells: Vec<Cell>,
    /// The values of the blocks that colours span.
    pub low: f64,
    pub high: f64,
}

/// Share of the cells at either end that say nothing of the bulk of the values.
const ENDS: f64 = 0.005;
/// How far the colours reach beyond the bulk, as a share of it: of values that scatter as a Gaussian, 1 in 10,000 lies outside.
const ROOM: f64 = 0.25;

impl Grid {
    /// What the colours span: the bulk of the values and some room, but not more than there is.
    pub fn span(&self, values: Values) -> Span {
        let mut known: Vec<f64> = self.values.iter().copied().filter(|v| v.is_finite()).collect();
        let without = self.values.len() - known.len();
        if known.is_empty() {
            return Span { low: 0.0, high: 1.0, below: 0, above: 0, without };
        }
        let mut at = |share: f64| {
            let i = ((known.len() - 1) as f64 * share).round() as usize;
            *known.select_nth_unstable_by(i, f64::total_cmp).1
        };
        let (least, first, last, most) = (at(0.0), at(ENDS), at(1.0 - ENDS), at(1.0));
        let (low, high) = match values {
            // Counts scatter by their root.
            Values::Counts => {
                let beyond = (ROOM * last).max(2.0 * (last + 1.0).sqrt() + 1.0);
                (0.0, (last + beyond).round().min(most.max(1.0)))
            }
            Values::Measures => {
                let room = ROOM * (last - first);
                ((first - room).max(least), (last + room).min(most))
            }
        };
        let outside = |f: &dyn Fn(f64) -> bool| known.iter().filter(|v| f(**v)).count();
        Span { low, high, below: outside(&|v| v < low), above: outside(&|v| v > high), without }
    }

    /// The grid in blocks, so that no side has more than `most`. A cell outside the span marks its whole block: a single
    /// bright cell among many is not lost.
    pub fn blocks(&self, values: Values, span: &Span, most: usize) -> Blocks {
        let by = self.rows.max(self.cols).div_ceil(most.max(1)).max(1);
        let (rows, cols) = (self.rows.div_ceil(by), self.cols.div_ceil(by));
        let mut sums = vec![(0.0, 0u32, None); rows * cols];
        for (i, v) in self.values.iter().enumerate().filter(|(_, v)| v.is_finite()) {
            let (sum, n, mark) = &mut sums[i / self.cols / by * cols + i % self.cols / by];
            match *v {
                v if v > span.high => *mark = Some(Cell::Above),
                v if v < span.low => *mark = mark.or(Some(Cell::Below)),
                v => (*sum, *n) = (*sum + v, *n + 1),
            }
        }
        let cells: Vec<Cell> = sums
            .into_iter()
            .map(|(sum, n, mark)| match (mark, n, values) {
                (Some(mark), ..) => mark,
                (None, 0, _) => Cell::Nothing,
                (None, _, Values::Counts) => Cell::Value(sum),
                (None, n, Values::Measures) => Cell::Value(sum / f64::from(n)),
            })
            .collect();
        let (mut low, mut high) = (span.low, span.high);
        if by > 1 && values == Values::Counts {
            let value = |c: &Cell| if let Cell::Value(v) = c { *v } else { 0.0 };
            (low, high) = (0.0, cells.iter().map(value).fold(1.0, f64::max));
        }
        Blocks { by, rows, cols, cells, low, high }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_summed_and_measures_averaged() {
        let g = Grid { rows: 2, cols: 3, values: vec![1.0, 3.0, 5.0, f64::NAN, 2.0, f64::NAN] };
        let span = g.span(Values::Counts);
        assert_eq!(span, Span { low: 0.0, high: 5.0, below: 0, above: 0, without: 2 });
        let of = |values, most| g.blocks(values, &g.span(values), most);
        let s = of(Values::Counts, 2);
        assert_eq!((s.rows, s.cols, s.by, s.low, s.high), (1, 2, 2, 0.0, 6.0));
        assert_eq!(s.cells, [Cell::Value(6.0), Cell::Value(5.0)]);
        let s = of(Values::Measures, 2);
        assert_eq!(s.cells, [Cell::Value(2.0), Cell::Value(5.0)]);
        let s = of(Values::Measures, 3);
        assert_eq!((s.by, s.cells[0], s.cells[3]), (1, Cell::Value(1.0), Cell::Nothing));
    }

    /// Counts about 30 with a few pixels that stand out.
    fn flat(side: usize) -> Grid {
        let values = (0..side * side).map(|i| 30.0 + (i * 7919 % 13) as f64).collect();
        Grid { rows: side, cols: side, values }
    }

    #[test]
    fn a_single_bright_pixel_is_seen_in_a_large_map() {
        let mut g = flat(2048);
        let at = 777 * 2048 + 1301;
        g.values[at] = 300.0;
        for values in [Values::Counts, Values::Measures] {
            let span = g.span(values);
            assert_eq!((span.above, span.below), (1, 0), "{span:?}");
            let b = g.blocks(values, &span, 480);
            assert_eq!((b.by, b.rows), (5, 410));
            let bright: Vec<usize> = (0..b.cells.len()).filter(|i| b.cells[*i] == Cell::Above).collect();
            assert_eq!(bright, [777 / 5 * 410 + 1301 / 5]);
        }
        // Brighter than its neighbours by less than the colours span, it adds to its block.
        g.values[at] = 43.0;
        let span = g.span(Values::Counts);
        assert_eq!(span.above, 0);
        let b = g.blocks(Values::Counts, &span, 480);
        let total: f64 =
            b.cells.iter().map(|c| if let Cell::Value(v) = c { *v } else { panic!("{c:?}") }).sum();
        assert_eq!(total, g.values.iter().sum::<f64>());
    }

    #[test]
    fn masked_and_empty_pixels_differ_in_blocks_too() {
        let mut g = flat(1000);
        for row in 0..1000 {
            g.values[row * 1000..row * 1000 + 30].fill(f64::NAN);
            g.values[row * 1000 + 30..row * 1000 + 60].fill(0.0);
        }
        let span = g.span(Values::Counts);
        assert_eq!(span.without, 30_000);
        let b = g.blocks(Values::Counts, &span, 480);
        assert_eq!((b.by, b.cells[0], b.cells[12]), (3, Cell::Nothing, Cell::Value(0.0)));
    }

    #[test]
    fn spans_leave_outliers_out_and_nothing_else() {
        let mut values: Vec<f64> = (0..1000).map(f64::from).collect();
        let g = Grid { rows: 1, cols: 1000, values: values.clone() };
        assert_eq!((g.span(Values::Measures).above, g.span(Values::Counts).high), (0, 999.0));
        values.extend([1e9, -1e9]);
        let g = Grid { rows: 1, cols: 1002, values };
        let s = g.span(Values::Measures);
        assert!((s.below, s.above) == (1, 1) && s.low < 0.0 && s.high > 999.0 && s.high < 1500.0, "{s:?}");
        for (value, high) in [(0.0, 1.0), (1.0, 1.0), (7.0, 7.0)] {
            let same = Grid { rows: 1, cols: 2, values: vec![value; 2] };
            let s = same.span(Values::Counts);
            assert_eq!((s.low, s.high, s.above), (0.0, high, 0));
            let s = same.span(Values::Measures);
            assert_eq!((s.low, s.high, s.below, s.above), (value, value, 0, 0));
        }
        let none = Grid { rows: 1, cols: 2, values: vec![f64::NAN; 2] };
        assert_eq!(none.span(Values::Measures).without, 2);
        // Few photons: one pixel of a thousand with 9, the others with 0 or 1.
        let mut few: Vec<f64> = (0..1000).map(|i| f64::from(i % 20 == 0)).collect();
        few[3] = 9.0;
        let s = Grid { rows: 1, cols: 1000, values: few }.span(Values::Counts);
        assert_eq!((s.high, s.above), (5.0, 1));
    }
}
