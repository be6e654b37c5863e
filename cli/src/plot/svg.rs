//! Shapes and words as SVG text.

use std::fmt::Write;

/// Families for browsers; the PNG is rendered with the first.
const FONTS: &str = "'Noto Sans','DejaVu Sans',Helvetica,Arial,sans-serif";

/// Size of ordinary words, in SVG units.
pub const TEXT: f64 = 15.0;

/// A finished picture.
#[derive(Clone, Debug)]
pub struct Picture {
    /// The SVG element.
    pub svg: String,
}

/// Where a text is held by its coordinates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Anchor {
    /// At its left end.
    Start,
    /// At its middle.
    Middle,
    /// At its right end.
    End,
}

impl Anchor {
    fn word(self) -> &'static str {
        match self {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        }
    }
}

/// A rectangle of the plane, y downwards.
#[derive(Clone, Copy, Debug)]
pub struct Rect {
    pub x: f64,
    pub y: f64,
    pub w: f64,
    pub h: f64,
}

impl Rect {
    pub fn right(&self) -> f64 {
        self.x + self.w
    }
    pub fn bottom(&self) -> f64 {
        self.y + self.h
    }
}

/// SVG elements in the order of drawing.
#[derive(Debug, Default)]
pub struct Canvas {
    body: String,
}

/// A generous estimate of the width of a text: wider than Noto Sans sets it, so that nothing is cut.
pub fn width_of(text: &str, size: f64) -> f64 {
    let one = |c: char| match c {
        'i' | 'j' | 'l' | 'I' | '.' | ',' | ':' | '\'' | '|' | ' ' => 0.32,
        'm' | 'M' | 'W' | 'w' | '×' => 0.92,
        c if c.is_uppercase() => 0.70,
        c if "⁰¹²³⁴⁵⁶⁷⁸⁹⁻".contains(c) => 0.40,
        _ => 0.60,
    };
    text.chars().map(one).sum::<f64>() * size
}

/// The text with the characters that mean something in XML replaced.
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

impl Canvas {
    /// A straight line.
    pub fn line(&mut self, (x1, y1): (f64, f64), (x2, y2): (f64, f64), colour: &str, width: f64) {
        let _ = write!(
            self.body,
            "<line x1=\"{x1:.2}\" y1=\"{y1:.2}\" x2=\"{x2:.2}\" y2=\"{y2:.2}\" stroke=\"{colour}\" stroke-width=\"{width}\"/>"
        );
    }

    /// A line through points.
    pub fn path(&mut self, points: &[(f64, f64)], colour: &str, width: f64) {
        if points.len() > 1 {
            let d = path_of(points);
            let _ = write!(
                self.body,
                "<path d=\"{d}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"{width}\" stroke-linejoin=\"round\"/>"
            );
        }
    }

    /// A dashed line through points.
    pub fn dashes(&mut self, points: &[(f64, f64)], colour: &str, width: f64) {
        if points.len() > 1 {
            let d = path_of(points);
            let _ = write!(
                self.body,
                "<path d=\"{d}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"{width}\" stroke-dasharray=\"7 5\"/>"
            );
        }
    }

    /// A filled circle.
    pub fn dot(&mut self, (x, y): (f64, f64), radius: f64, colour: &str) {
        let _ = write!(self.body, "<circle cx=\"{x:.2}\" cy=\"{y:.2}\" r=\"{radius}\" fill=\"{colour}\"/>");
    }

    /// A filled shape with these corners.
    pub fn area(&mut self, points: &[(f64, f64)], colour: &str, opacity: f64) {
        if points.len() > 2 {
            let d = path_of(points);
            let _ = write!(self.body, "<path d=\"{d}Z\" fill=\"{colour}\" fill-opacity=\"{opacity}\"/>");
        }
    }

    /// A rectangle, filled or as an outline.
    pub fn rect(&mut self, r: Rect, fill: &str, stroke: &str) {
        let Rect { x, y, w, h } = r;
        let _ = write!(
            self.body,
            "<rect x=\"{x:.2}\" y=\"{y:.2}\" width=\"{w:.2}\" height=\"{h:.2}\" fill=\"{fill}\" stroke=\"{stroke}\"/>"
        );
    }

    /// Words on one line; `y` is their baseline.
    pub fn text(&mut self, (x, y): (f64, f64), anchor: Anchor, size: f64, text: &str) {
        let (a, t) = (anchor.word(), escape(text));
        let _ = write!(
            self.body,
            "<text x=\"{x:.2}\" y=\"{y:.2}\" text-anchor=\"{a}\" font-size=\"{size}\">{t}</text>"
        );
    }

    /// Words that run upwards, centred on the point.
    pub fn text_up(&mut self, (x, y): (f64, f64), size: f64, text: &str) {
        let t = escape(text);
        let _ = write!(
            self.body,
            "<text transform=\"translate({x:.2},{y:.2}) rotate(-90)\" text-anchor=\"middle\" font-size=\"{size}\">{t}</text>"
        );
    }

    /// A PNG stretched over a rectangle; `sharp` keeps its pixels square-edged.
    pub fn image(&mut self, r: Rect, png: &[u8], sharp: bool) {
        use base64::Engine as _;
        let data = base64::engine::general_purpose::STANDARD.encode(png);
        let Rect { x, y, w, h } = r;
        let how =
            if sharp { "image-rendering=\"optimizeSpeed\" style=\"image-rendering:pixelated\"" } else { "" };
        let _ = write!(
            self.body,
            "<image x=\"{x:.2}\" y=\"{y:.2}\" width=\"{w:.2}\" height=\"{h:.2}\" preserveAspectRatio=\"none\" {how} href=\"data:image/png;base64,{data}\"/>"
        );
    }

    /// The picture.
    pub fn finish(self, width: f64, height: f64, title: &str) -> Picture {
        let (w, h) = (width.ceil(), height.ceil());
        let svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {w} {h}\" width=\"{w}\" height=\"{h}\" \
             role=\"img\" font-family=\"{FONTS}\" fill=\"#1a1a1a\"><title>{}</title>\
             <rect width=\"{w}\" height=\"{h}\" fill=\"#ffffff\"/>{}</svg>",
            escape(title),
            self.body
        );
        Picture { svg }
    }
}

fn path_of(points: &[(f64, f64)]) -> String {
    let mut d = String::with_capacity(points.len() * 14);
    for (i, (x, y)) in points.iter().enumerate() {
        let _ = write!(d, "{}{x:.2} {y:.2}", if i == 0 { 'M' } else { 'L' });
    }
    d
}
