//! A drawing of 1600 x 900 units: one figure a screen, letters that are read from the back of a room.

use std::fmt::Write;

/// Width of a drawing.
pub const WIDTH: f64 = 1600.0;
/// Height of a drawing.
pub const HEIGHT: f64 = 900.0;

/// The ink of text and axes.
pub const INK: &str = "#1b1f24";
/// Quiet text, ticks.
pub const GREY: &str = "#59636e";
/// Lines of a grid.
pub const GRID: &str = "#d8dde3";
/// Colours that stay apart for colour-blind eyes and in grey (Okabe and Ito 2008).
pub const COLOURS: [&str; 6] = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#d55e00", "#56b4e9"];

/// Where a text stands relative to its point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Anchor {
    /// It starts there.
    Start,
    /// It is centred there.
    Middle,
    /// It ends there.
    End,
}

/// A drawing that grows.
#[derive(Clone, Debug)]
pub struct Svg {
    body: String,
}

/// Text as it stands in XML.
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

impl Svg {
    /// A drawing with a title and a line below it.
    pub fn new(title: &str, subtitle: &str) -> Svg {
        let mut svg = Svg { body: String::new() };
        svg.rect(0.0, 0.0, WIDTH, HEIGHT, "#ffffff", None);
        // A bold letter is about 0.69 of its size wide; a long title is set smaller rather than cut.
        let size = (1520.0 / (0.69 * title.chars().count().max(1) as f64)).min(44.0);
        svg.styled(40.0, 66.0, title, size, Anchor::Start, INK, true);
        svg.text(40.0, 112.0, subtitle, 27.0, Anchor::Start, GREY);
        svg
    }

    /// A filled rectangle; `about` appears when the pointer rests on it.
    pub fn rect(&mut self, x: f64, y: f64, w: f64, h: f64, fill: &str, about: Option<&str>) {
        let title = about.map_or(String::new(), |a| format!("<title>{}</title>", escape(a)));
        let _ = writeln!(
            self.body,
            "<rect x=\"{x:.2}\" y=\"{y:.2}\" width=\"{:.2}\" height=\"{h:.2}\" fill=\"{fill}\">{title}</rect>",
            w.max(0.0)
        );
    }

    /// A line.
    pub fn line(&mut self, from: (f64, f64), to: (f64, f64), colour: &str, width: f64, dashed: bool) {
        let dash = if dashed { " stroke-dasharray=\"10 8\"" } else { "" };
        let _ = writeln!(
            self.body,
            "<line x1=\"{:.2}\" y1=\"{:.2}\" x2=\"{:.2}\" y2=\"{:.2}\" stroke=\"{colour}\" stroke-width=\"{width}\"{dash}/>",
            from.0, from.1, to.0, to.1
        );
    }

    /// A line through points.
    pub fn polyline(&mut self, points: &[(f64, f64)], colour: &str, width: f64, dashed: bool) {
        let dash = if dashed { " stroke-dasharray=\"14 9\"" } else { "" };
        let path: Vec<String> = points.iter().map(|(x, y)| format!("{x:.2},{y:.2}")).collect();
        let _ = writeln!(
            self.body,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"{width}\" stroke-linejoin=\"round\"{dash}/>",
            path.join(" ")
        );
    }

    /// A dot.
    pub fn dot(&mut self, x: f64, y: f64, r: f64, fill: &str, about: Option<&str>) {
        let title = about.map_or(String::new(), |a| format!("<title>{}</title>", escape(a)));
        let _ = writeln!(
            self.body,
            "<circle cx=\"{x:.2}\" cy=\"{y:.2}\" r=\"{r:.1}\" fill=\"{fill}\" stroke=\"#ffffff\" stroke-width=\"2\">{title}</circle>"
        );
    }

    /// Text of a size in units.
    pub fn text(&mut self, x: f64, y: f64, text: &str, size: f64, anchor: Anchor, colour: &str) {
        self.styled(x, y, text, size, anchor, colour, false);
    }

    /// Bold text.
    pub fn bold(&mut self, x: f64, y: f64, text: &str, size: f64, anchor: Anchor, colour: &str) {
        self.styled(x, y, text, size, anchor, colour, true);
    }

    #[allow(clippy::too_many_arguments)]
    fn styled(&mut self, x: f64, y: f64, text: &str, size: f64, anchor: Anchor, colour: &str, bold: bool) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let weight = if bold { " font-weight=\"700\"" } else { "" };
        let _ = writeln!(
            self.body,
            "<text x=\"{x:.2}\" y=\"{y:.2}\" font-size=\"{size}\" text-anchor=\"{anchor}\" fill=\"{colour}\"{weight}>{}</text>",
            escape(text)
        );
    }

    /// Text turned a quarter to the left, centred: the name of a vertical axis.
    pub fn upright(&mut self, x: f64, y: f64, text: &str, size: f64, colour: &str) {
        let _ = writeln!(
            self.body,
            "<text transform=\"translate({x:.2} {y:.2}) rotate(-90)\" font-size=\"{size}\" text-anchor=\"middle\" fill=\"{colour}\">{}</text>",
            escape(text)
        );
    }

    /// The drawing as SVG.
    pub fn finish(self) -> String {
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
             font-family=\"'DejaVu Sans', Verdana, Helvetica, Arial, sans-serif\">\n{}</svg>\n",
            self.body
        )
    }
}
