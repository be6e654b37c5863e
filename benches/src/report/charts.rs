//! The kinds of figures. Each says in its hover texts which cell of which file a value came from.

use super::axis::{Axis, short};
use super::svg::{Anchor, COLOURS, GREY, GRID, HEIGHT, INK, Svg, WIDTH};

/// A bar: its name, its value, and where that came from.
#[derive(Clone, Debug)]
pub struct Bar {
    /// What stands to its left.
    pub label: String,
    /// Its length.
    pub value: f64,
    /// What stands to its right.
    pub words: String,
    /// What appears when the pointer rests on it.
    pub about: String,
    /// Index of its colour.
    pub colour: usize,
}

/// A value that all bars are compared with.
#[derive(Clone, Debug)]
pub struct Mark {
    /// The value.
    pub value: f64,
    /// Its name.
    pub label: String,
}

fn vertical_grid(svg: &mut Svg, axis: &Axis, top: f64, bottom: f64) {
    for (v, words) in axis.ticks() {
        let x = axis.at(v);
        svg.line((x, top), (x, bottom), GRID, 1.5, false);
        svg.text(x, bottom + 34.0, &words, 25.0, Anchor::Middle, GREY);
    }
}

fn legend(svg: &mut Svg, names: &[(&str, &str)], y: f64) {
    let mut x = WIDTH - 40.0;
    for (name, colour) in names.iter().rev() {
        x -= name.chars().count() as f64 * 15.5;
        svg.text(x, y + 9.0, name, 26.0, Anchor::Start, INK);
        x -= 38.0;
        svg.rect(x, y - 12.0, 28.0, 24.0, colour, None);
        x -= 34.0;
    }
}

/// Horizontal bars, the longest first or in the order of a story; logarithmic when they span more than a factor 30.
pub fn bars(title: &str, subtitle: &str, unit: &str, bars: &[Bar], marks: &[Mark]) -> String {
    let mut svg = Svg::new(title, subtitle);
    // A mark's name stands between the subtitle and the bars.
    let (top, bottom) = (if marks.is_empty() { 145.0 } else { 172.0 }, HEIGHT - 95.0);
    let longest = bars.iter().map(|b| b.label.chars().count()).max().unwrap_or(0) as f64;
    let left = (longest * 14.5 + 70.0).clamp(160.0, 640.0);
    let positive = bars.iter().map(|b| b.value).filter(|v| *v > 0.0);
    let (low, high) = positive.fold((f64::INFINITY, 0.0f64), |(l, h), v| (l.min(v), h.max(v)));
    let log = low.is_finite() && high / low > 30.0;
    let words = bars.iter().map(|b| b.words.chars().count()).max().unwrap_or(0) as f64;
    let right = WIDTH - (words * 17.0 + 40.0).clamp(150.0, 330.0);
    let axis = if log {
        Axis::log(low * 0.8, high, left, right)
    } else {
        Axis::linear(0.0, high.max(1e-9) * 1.02, left, right)
    };
    vertical_grid(&mut svg, &axis, top, bottom);
    let row = (bottom - top) / bars.len().max(1) as f64;
    let thick = (row * 0.72).min(64.0);
    let letters = (row * 0.66).clamp(15.0, 29.0);
    for (i, bar) in bars.iter().enumerate() {
        let middle = top + row * (i as f64 + 0.5);
        let end = axis.at(bar.value);
        svg.rect(
            left,
            middle - thick / 2.0,
            end - left,
            thick,
            COLOURS[bar.colour % COLOURS.len()],
            Some(&bar.about),
        );
        svg.text(left - 16.0, middle + letters * 0.36, &bar.label, letters, Anchor::End, INK);
        svg.bold(end + 12.0, middle + letters * 0.36, &bar.words, letters, Anchor::Start, INK);
    }
    for mark in marks {
        let x = axis.at(mark.value);
        svg.line((x, top - 8.0), (x, bottom), "#b3261e", 3.0, true);
        svg.text(x + 8.0, top - 12.0, &mark.label, 24.0, Anchor::Start, "#b3261e");
    }
    svg.line((left, top), (left, bottom), INK, 2.5, false);
    svg.text((left + right) / 2.0, HEIGHT - 22.0, unit, 28.0, Anchor::Middle, INK);
    svg.finish()
}

/// A group of bars of one name, one for each of the series.
#[derive(Clone, Debug)]
pub struct Group {
    /// What stands to its left.
    pub label: String,
    /// One value a series; nothing leaves a gap.
    pub values: Vec<Option<(f64, String)>>,
    /// A tick across the group: the time that passed.
    pub tick: Option<(f64, String)>,
}

impl Group {
    /// The longest bar against the tick, in words.
    fn words(&self) -> String {
        let longest = self.values.iter().flatten().map(|v| v.0).fold(0.0, f64::max);
        match &self.tick {
            Some((tick, _)) => format!("{} of {}", short(longest), short(*tick)),
            None => short(longest),
        }
    }
}

/// Groups of horizontal bars, with a tick for what they add up to or hide behind.
pub fn groups(title: &str, subtitle: &str, unit: &str, series: &[&str], tick: &str, all: &[Group]) -> String {
    let mut svg = Svg::new(title, subtitle);
    let (top, bottom) = (190.0, HEIGHT - 95.0);
    let longest = all.iter().map(|g| g.label.chars().count()).max().unwrap_or(0) as f64;
    let left = (longest * 14.0 + 70.0).clamp(160.0, 560.0);
    let values = || all.iter().flat_map(|g| g.values.iter().flatten().chain(&g.tick)).map(|v| v.0);
    let high = values().fold(0.0, f64::max);
    // What is next to nothing has no part in choosing the axis: it stands at the foot.
    let low = values().filter(|v| *v > high / 500.0).fold(f64::INFINITY, f64::min);
    let right = WIDTH - 260.0;
    let log = low.is_finite() && high > 60.0 && high / low > 20.0;
    let axis = if log {
        Axis::log(low.max(1.0), high, left, right)
    } else {
        Axis::linear(0.0, high.max(1e-9) * 1.02, left, right)
    };
    vertical_grid(&mut svg, &axis, top, bottom);
    let row = (bottom - top) / all.len().max(1) as f64;
    let thick = row * 0.8 / series.len().max(1) as f64;
    let letters = (row * 0.42).clamp(18.0, 28.0);
    if !tick.is_empty() {
        svg.text(right + 24.0, HEIGHT - 22.0, "busiest of time", 24.0, Anchor::Start, GREY);
    }
    for (i, group) in all.iter().enumerate() {
        let start = top + row * i as f64 + row * 0.1;
        svg.text(left - 16.0, start + row * 0.4 + letters * 0.36, &group.label, letters, Anchor::End, INK);
        for (s, value) in group.values.iter().enumerate() {
            let Some((v, about)) = value else { continue };
            let y = start + thick * s as f64;
            svg.rect(left, y, axis.at(*v) - left, thick * 0.92, COLOURS[s % COLOURS.len()], Some(about));
        }
        let middle = start + row * 0.4 + letters * 0.36;
        svg.bold(right + 24.0, middle, &group.words(), letters, Anchor::Start, INK);
        if let Some((v, about)) = &group.tick {
            let x = axis.at(*v);
            svg.rect(x - 4.0, start - row * 0.05, 8.0, row * 0.9, "#b3261e", Some(about));
        }
    }
    svg.line((left, top), (left, bottom), INK, 2.5, false);
    let mut names: Vec<(&str, &str)> = series.iter().zip(COLOURS).map(|(n, c)| (*n, c)).collect();
    if !tick.is_empty() {
        names.push((tick, "#b3261e"));
    }
    legend(&mut svg, &names, 150.0);
    svg.text((left + right) / 2.0, HEIGHT - 22.0, unit, 28.0, Anchor::Middle, INK);
    svg.finish()
}

/// A line through points, or points alone.
#[derive(Clone, Debug)]
pub struct Series {
    /// Its name.
    pub name: String,
    /// `(x, y, where from)`.
    pub points: Vec<(f64, f64, String)>,
    /// Index of its colour.
    pub colour: usize,
    /// Whether the points are joined.
    pub line: bool,
    /// Whether each point is drawn.
    pub dots: bool,
    /// Whether the line is dashed: a limit rather than a measurement.
    pub dashed: bool,
    /// What stands beside each dot; none for nothing.
    pub labels: Vec<String>,
}

impl Series {
    /// A line without dots.
    pub fn line(name: &str, colour: usize, points: Vec<(f64, f64, String)>) -> Series {
        Series {
            name: name.into(),
            points,
            colour,
            line: true,
            dots: false,
            dashed: false,
            labels: Vec::new(),
        }
    }
}

/// What the axes of a figure are.
#[derive(Clone, Copy, Debug)]
pub struct Axes<'a> {
    /// Name and unit of the horizontal axis.
    pub x: &'a str,
    /// Name and unit of the vertical axis.
    pub y: &'a str,
    /// Whether the horizontal axis is logarithmic.
    pub log_x: bool,
    /// Whether the vertical axis is logarithmic; values of 0 stand at its foot.
    pub log_y: bool,
}

/// Lines and points over two axes.
pub fn lines(title: &str, subtitle: &str, axes: Axes<'_>, series: &[Series]) -> String {
    let mut svg = Svg::new(title, subtitle);
    let (left, right, top, bottom) = (170.0, WIDTH - 60.0, 190.0, HEIGHT - 110.0);
    let xs = || series.iter().flat_map(|s| s.points.iter().map(|p| p.0));
    let ys = || series.iter().flat_map(|s| s.points.iter().map(|p| p.1));
    let above = |v: &f64| *v > 0.0;
    let scale = |log: bool, low: f64, high: f64, small: f64, from: f64, to: f64| {
        if log {
            let small = if small.is_finite() { small } else { 1.0 };
            match high / small <= 100.0 {
                true => Axis::close(small, high.max(small), from, to),
                false => Axis::log(small, high.max(small), from, to),
            }
        } else {
            Axis::linear(low, high + (high - low) * 0.03, from, to)
        }
    };
    let x = scale(
        axes.log_x,
        xs().fold(f64::INFINITY, f64::min),
        xs().fold(f64::NEG_INFINITY, f64::max),
        xs().filter(above).fold(f64::INFINITY, f64::min),
        left,
        right,
    );
    let y = scale(
        axes.log_y,
        ys().fold(0.0, f64::min),
        ys().fold(f64::NEG_INFINITY, f64::max),
        ys().filter(above).fold(f64::INFINITY, f64::min),
        bottom,
        top,
    );
    vertical_grid(&mut svg, &x, top, bottom);
    for (v, words) in y.ticks() {
        svg.line((left, y.at(v)), (right, y.at(v)), GRID, 1.5, false);
        svg.text(left - 14.0, y.at(v) + 9.0, &words, 25.0, Anchor::End, GREY);
    }
    svg.line((left, bottom), (right, bottom), INK, 2.5, false);
    svg.line((left, top), (left, bottom), INK, 2.5, false);
    let mut labels: Vec<(f64, f64, &str, &str)> = Vec::new();
    for s in series {
        let colour = COLOURS[s.colour % COLOURS.len()];
        let at: Vec<(f64, f64)> = s.points.iter().map(|p| (x.at(p.0), y.at(p.1))).collect();
        if s.line {
            svg.polyline(&at, colour, if s.dashed { 4.0 } else { 5.0 }, s.dashed);
        }
        if s.dots {
            for (point, at) in s.points.iter().zip(&at) {
                svg.dot(at.0, at.1, 11.0, colour, Some(&point.2));
            }
        }
        labels.extend(at.iter().zip(&s.labels).map(|(at, words)| (at.0, at.1, words.as_str(), colour)));
    }
    beside(&mut svg, &labels, right);
    let named = series.iter().filter(|s| !s.points.is_empty());
    let names: Vec<(&str, &str)> =
        named.map(|s| (s.name.as_str(), COLOURS[s.colour % COLOURS.len()])).collect();
    legend(&mut svg, &names, 150.0);
    svg.text((left + right) / 2.0, HEIGHT - 28.0, axes.x, 28.0, Anchor::Middle, INK);
    svg.upright(50.0, (top + bottom) / 2.0, axes.y, 28.0, INK);
    svg.finish()
}

/// Names beside dots, to the right or, where another name stands there, to the left. Where dots lie too close for a name
/// each, the later one is named: steps come in the order of a story.
fn beside(svg: &mut Svg, labels: &[(f64, f64, &str, &str)], right: f64) {
    const LETTERS: f64 = 24.0;
    let mut placed: Vec<(f64, f64, f64)> = Vec::new();
    for (x, y, words, colour) in labels.iter().rev() {
        let width = words.chars().count() as f64 * LETTERS * 0.62;
        let free = |from: f64| {
            let clash = |&(a, b, at): &(f64, f64, f64)| {
                (at - y).abs() < LETTERS && from < b + 12.0 && a < from + width + 12.0
            };
            from + width <= right && !placed.iter().any(clash)
        };
        let (from, at, anchor) = if free(x + 20.0) {
            (x + 20.0, x + 20.0, Anchor::Start)
        } else if free(x - 20.0 - width) {
            (x - 20.0 - width, x - 20.0, Anchor::End)
        } else {
            continue;
        };
        placed.push((from, from + width, *y));
        svg.text(at, y + LETTERS * 0.36, words, LETTERS, anchor, colour);
    }
}

/// One row of a timeline: its name, its colour and its intervals in us.
#[derive(Clone, Debug)]
pub struct Lane {
    /// What stands to its left.
    pub label: String,
    /// Index of its colour.
    pub colour: usize,
    /// `(start, end, about)`.
    pub intervals: Vec<(f64, f64, String)>,
}

/// When each engine worked.
pub fn timeline(title: &str, subtitle: &str, lanes: &[Lane]) -> String {
    let mut svg = Svg::new(title, subtitle);
    let (left, right, top, bottom) = (250.0, WIDTH - 60.0, 160.0, HEIGHT - 110.0);
    let end = lanes.iter().flat_map(|l| l.intervals.iter().map(|i| i.1)).fold(0.0, f64::max);
    let axis = Axis::linear(0.0, end, left, right);
    vertical_grid(&mut svg, &axis, top, bottom);
    let row = (bottom - top) / lanes.len().max(1) as f64;
    for (i, lane) in lanes.iter().enumerate() {
        let y = top + row * (i as f64 + 0.15);
        svg.text(left - 20.0, y + row * 0.35 + 11.0, &lane.label, 32.0, Anchor::End, INK);
        for (from, to, about) in &lane.intervals {
            // At least a hair: a copy of a microsecond must be seen among milliseconds.
            let width = (axis.at(*to) - axis.at(*from)).max(1.5);
            svg.rect(axis.at(*from), y, width, row * 0.7, COLOURS[lane.colour % COLOURS.len()], Some(about));
        }
    }
    svg.line((left, bottom), (right, bottom), INK, 2.5, false);
    svg.text((left + right) / 2.0, HEIGHT - 28.0, "time (us)", 28.0, Anchor::Middle, INK);
    svg.finish()
}

/// A table of counts, shaded by their logarithm; the diagonal is left pale, for it is what agrees.
pub fn matrix(
    title: &str,
    subtitle: &str,
    rows: &str,
    cols: &str,
    names: &[&str],
    counts: &[Vec<(f64, String)>],
) -> String {
    let mut svg = Svg::new(title, subtitle);
    let (left, top) = (330.0, 230.0);
    let (w, h) = ((WIDTH - left - 50.0) / names.len() as f64, (HEIGHT - top - 50.0) / names.len() as f64);
    svg.text(left + w * names.len() as f64 / 2.0, 160.0, cols, 30.0, Anchor::Middle, INK);
    svg.upright(44.0, top + h * names.len() as f64 / 2.0, rows, 30.0, INK);
    let most = counts
        .iter()
        .enumerate()
        .flat_map(|(r, row)| row.iter().enumerate().filter(move |(c, _)| *c != r).map(|(_, v)| v.0))
        .fold(1.0, f64::max);
    for (i, name) in names.iter().enumerate() {
        svg.text(left + w * (i as f64 + 0.5), top - 18.0, name, 24.0, Anchor::Middle, INK);
        svg.text(left - 16.0, top + h * (i as f64 + 0.5) + 9.0, name, 24.0, Anchor::End, INK);
    }
    for (r, row) in counts.iter().enumerate() {
        for (c, (count, about)) in row.iter().enumerate() {
            let (x, y) = (left + w * c as f64, top + h * r as f64);
            let share = if *count > 0.0 { 0.25 + 0.75 * (1.0 + count).ln() / (1.0 + most).ln() } else { 0.0 };
            let fill = match (r == c, *count > 0.0) {
                (true, _) => "#eef1f4".to_string(),
                (false, false) => "#ffffff".to_string(),
                (false, true) => {
                    let mix = |a: f64, b: f64| (a + (b - a) * share.min(1.0)) as u8;
                    format!("rgb({},{},{})", mix(255.0, 213.0), mix(255.0, 94.0), mix(255.0, 0.0))
                }
            };
            svg.rect(x + 2.0, y + 2.0, w - 4.0, h - 4.0, &fill, Some(about));
            let ink = if r == c { GREY } else { INK };
            let words = if *count == 0.0 { "0".to_string() } else { short(*count) };
            svg.text(x + w / 2.0, y + h / 2.0 + 11.0, &words, 30.0, Anchor::Middle, ink);
        }
    }
    svg.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bar(value: f64) -> Bar {
        Bar { label: "a step".into(), value, words: short(value), about: "t.csv:2 us".into(), colour: 0 }
    }

    #[test]
    fn bars_that_span_decades_stand_on_a_logarithmic_axis() {
        let wide = bars("t", "s", "us", &[bar(200.0), bar(6.0)], &[]);
        assert!(
            wide.contains(">100</text>") && wide.contains(">10</text>") && !wide.contains(">150</text>"),
            "{wide}"
        );
        let near = bars("t", "s", "us", &[bar(20.0), bar(6.0)], &[]);
        assert!(near.contains(">15</text>"), "{near}");
        // A bar of 0 has no length and keeps its words.
        let zero = bars("t", "s", "us", &[bar(200.0), bar(0.0)], &[]);
        assert!(zero.contains("width=\"0.00\"") && zero.contains(">0</text>"), "{zero}");
    }

    #[test]
    fn names_that_would_lie_on_each_other_are_moved_or_left_out() {
        let mut svg = Svg::new("t", "s");
        let at = [
            (300.0, 395.0, "first", "#000"),
            (300.0, 400.0, "second", "#000"),
            (305.0, 405.0, "third", "#000"),
            (300.0, 500.0, "fourth", "#000"),
            (1490.0, 500.0, "fifth", "#000"),
        ];
        beside(&mut svg, &at, 1500.0);
        let drawn = svg.finish();
        let anchor = |name: &str| {
            let line = drawn.lines().find(|l| l.contains(&format!(">{name}<")))?;
            Some(line.contains("text-anchor=\"end\""))
        };
        assert_eq!(anchor("third"), Some(false), "the last one stands to the right");
        assert_eq!(anchor("second"), Some(true), "the one before it to the left");
        assert_eq!(anchor("first"), None, "and there is no third side");
        assert_eq!((anchor("fourth"), anchor("fifth")), (Some(false), Some(true)));
    }
}
