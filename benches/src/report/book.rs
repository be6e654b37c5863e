//! A report in the making: sections of text, figures and tables, in which every number knows its cell.

use std::fmt::Write as _;
use std::path::Path;

use scheidegg::{Error, Result};

use super::axis::short;
use super::page::{Numbers, PAGE};
use super::svg::escape;
use crate::harness::table::{Cell, Table, write_whole};

/// A stretch of a paragraph.
#[derive(Clone, Debug)]
pub(super) enum Piece {
    Text(String),
    Number { words: String, cells: Vec<Cell> },
}

/// A paragraph.
#[derive(Clone, Debug, Default)]
pub struct Text(pub(super) Vec<Piece>);

impl Text {
    /// Nothing yet.
    pub fn new() -> Text {
        Text::default()
    }

    /// Words.
    pub fn t(mut self, words: impl Into<String>) -> Text {
        self.0.push(Piece::Text(words.into()));
        self
    }

    /// A number from a cell, in three digits.
    pub fn n(self, cell: &Cell) -> Text {
        self.number(short(cell.value), std::slice::from_ref(cell))
    }

    /// A whole number from a cell, all its digits.
    pub fn whole(self, cell: &Cell) -> Text {
        self.number(thousands(cell.value), std::slice::from_ref(cell))
    }

    /// A number that was made from several cells.
    pub fn of(self, value: f64, cells: &[&Cell]) -> Text {
        let cells: Vec<Cell> = cells.iter().map(|c| (*c).clone()).collect();
        self.number(short(value), &cells)
    }

    /// Another paragraph behind this one.
    pub fn then(mut self, other: Text) -> Text {
        self.0.extend(other.0);
        self
    }

    /// Its words alone.
    pub fn plain(&self) -> String {
        let words = self.0.iter().map(|p| match p {
            Piece::Text(words) | Piece::Number { words, .. } => words.as_str(),
        });
        words.collect()
    }

    fn number(mut self, words: String, cells: &[Cell]) -> Text {
        self.0.push(Piece::Number { words, cells: cells.to_vec() });
        self
    }
}

/// A whole number in groups of three digits.
pub fn thousands(v: f64) -> String {
    let digits = format!("{:.0}", v.abs());
    let mut out = String::new();
    for (i, c) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(c);
    }
    if v < 0.0 { format!("-{out}") } else { out }
}

enum Block {
    Para(Text),
    Figure { file: String, svg: String, caption: Text },
    Grid { head: Vec<String>, rows: Vec<Vec<Text>> },
}

struct Section {
    title: String,
    blocks: Vec<Block>,
}

/// The whole report.
#[derive(Default)]
pub struct Book {
    title: String,
    subtitle: String,
    sections: Vec<Section>,
    tables: Vec<Table>,
}

impl Book {
    /// A report with a title and what stands below it.
    pub fn new(title: &str, subtitle: &str) -> Book {
        Book { title: title.into(), subtitle: subtitle.into(), ..Book::default() }
    }

    /// Begins a section.
    pub fn section(&mut self, title: &str) {
        self.sections.push(Section { title: title.into(), blocks: Vec::new() });
    }

    fn push(&mut self, block: Block) {
        if self.sections.is_empty() {
            self.section("");
        }
        self.sections.last_mut().expect("one at least").blocks.push(block);
    }

    /// Adds a paragraph.
    pub fn para(&mut self, text: Text) {
        self.push(Block::Para(text));
    }

    /// Adds a figure; `name` is its file's without the ending.
    pub fn figure(&mut self, name: &str, svg: String, caption: Text) {
        self.push(Block::Figure { file: format!("{name}.svg"), svg, caption });
    }

    /// Adds a table.
    pub fn grid(&mut self, head: &[&str], rows: Vec<Vec<Text>>) {
        self.push(Block::Grid { head: head.iter().map(|h| (*h).to_string()).collect(), rows });
    }

    /// A table of the run that numbers may come from; it is printed at the end.
    pub fn source(&mut self, table: &Table) {
        self.tables.push(table.clone());
    }

    /// The titles of its sections.
    pub fn titles(&self) -> Vec<&str> {
        self.sections.iter().map(|s| s.title.as_str()).collect()
    }

    /// All words of its paragraphs, captions and tables.
    pub fn plain(&self) -> String {
        let blocks = self.sections.iter().flat_map(|s| &s.blocks);
        let words = blocks.map(|b| match b {
            Block::Para(text) | Block::Figure { caption: text, .. } => text.plain(),
            Block::Grid { rows, .. } => rows.iter().flatten().map(Text::plain).collect::<Vec<_>>().join(" "),
        });
        words.collect::<Vec<_>>().join("\n")
    }

    /// Writes `report.html`, `figures/NAME.svg` and `citations.csv` into the run, and the Markdown to `markdown`.
    ///
    /// # Errors
    /// Those of writing.
    pub fn write(&self, run: &Path, markdown: Option<&Path>) -> Result<()> {
        let mut numbers = Numbers::default();
        let html = self.html(&mut numbers);
        write_whole(&run.join("report.html"), html.as_bytes())?;
        let figures = run.join("figures");
        let mut drawn: Vec<&str> = Vec::new();
        for block in self.sections.iter().flat_map(|s| &s.blocks) {
            if let Block::Figure { file, svg, .. } = block {
                write_whole(&figures.join(file), svg.as_bytes())?;
                drawn.push(file);
            }
        }
        // A figure that this report has no longer would be looked at as if it had.
        for entry in std::fs::read_dir(&figures).into_iter().flatten().flatten() {
            let name = entry.file_name();
            if entry.path().extension().is_some_and(|e| e == "svg") && !drawn.iter().any(|d| **d == *name) {
                std::fs::remove_file(entry.path()).map_err(|e| Error::io(entry.path(), e))?;
            }
        }
        let mut citations = Table::new(
            run.join("citations.csv"),
            &["number", "section", "words", "file", "line", "column", "value"],
        );
        for c in &numbers.all {
            citations.push([
                format!("n{}", c.id),
                c.section.clone(),
                c.words.clone(),
                c.cell.file.clone(),
                c.cell.line.to_string(),
                c.cell.column.clone(),
                c.cell.value.to_string(),
            ]);
        }
        citations.write()?;
        match markdown {
            Some(path) => self.write_markdown(run, path),
            None => Ok(()),
        }
    }

    /// Writes the text as Markdown, its figures taken from the run's folder.
    ///
    /// # Errors
    /// Those of writing.
    pub fn write_markdown(&self, run: &Path, path: &Path) -> Result<()> {
        write_whole(path, self.markdown(run, path).as_bytes())
    }

    fn html(&self, numbers: &mut Numbers) -> String {
        let mut body = String::new();
        let mut contents = String::new();
        for (i, section) in self.sections.iter().enumerate() {
            let _ = write!(contents, "<a href=\"#s{i}\">{}</a> ", escape(&section.title));
            let _ = writeln!(body, "<section id=\"s{i}\"><h2>{}</h2>", escape(&section.title));
            for block in &section.blocks {
                match block {
                    Block::Para(text) => {
                        let _ = writeln!(body, "<p>{}</p>", numbers.html(text, &section.title));
                    }
                    Block::Figure { svg, caption, .. } => {
                        let caption = numbers.html(caption, &section.title);
                        let _ = writeln!(body, "<figure>{svg}<figcaption>{caption}</figcaption></figure>");
                    }
                    Block::Grid { head, rows } => {
                        body.push_str("<div class=\"wide\"><table><tr>");
                        head.iter().for_each(|h| {
                            let _ = write!(body, "<th>{}</th>", escape(h));
                        });
                        body.push_str("</tr>\n");
                        for row in rows {
                            body.push_str("<tr>");
                            for cell in row {
                                let _ = write!(body, "<td>{}</td>", numbers.html(cell, &section.title));
                            }
                            body.push_str("</tr>\n");
                        }
                        body.push_str("</table></div>\n");
                    }
                }
            }
            body.push_str("</section>\n");
        }
        body.push_str("<section id=\"data\"><h2>The cells</h2><p>Every file of the run that a number above came from. A number links to its line here; a line's first column links back to the numbers made from it.</p>\n");
        for table in &self.tables {
            body.push_str(&numbers.source(table));
        }
        body.push_str("</section>\n");
        PAGE.replace("{title}", &escape(&self.title))
            .replace("{subtitle}", &escape(&self.subtitle))
            .replace("{contents}", &(contents + "<a href=\"#data\">The cells</a>"))
            .replace("{body}", &body)
    }

    /// The text as Markdown that is to lie at `at`, its figures taken from the run's folder.
    pub fn markdown(&self, run: &Path, at: &Path) -> String {
        let mut out = format!("# {}\n\n{}\n\n", self.title, self.subtitle);
        out.push_str(
            "Generated by `scheidegg-bench report`; change nothing by hand. After a number stands the file of the run \
             and its line; the run: ",
        );
        let _ = write!(out, "`{}`.\n\n", relative(at, run));
        let figures = relative(at, &run.join("figures"));
        for section in &self.sections {
            let _ = write!(out, "## {}\n\n", section.title);
            for block in &section.blocks {
                match block {
                    Block::Para(text) => {
                        let _ = write!(out, "{}\n\n", markdown(text));
                    }
                    Block::Figure { file, caption, .. } => {
                        let _ = write!(
                            out,
                            "![{}]({figures}/{file})\n\n{}\n\n",
                            section.title,
                            markdown(caption)
                        );
                    }
                    Block::Grid { head, rows } => {
                        let _ = writeln!(out, "| {} |", head.join(" | "));
                        let _ = writeln!(out, "|{}", " --- |".repeat(head.len()));
                        for row in rows {
                            let cells: Vec<String> = row.iter().map(markdown).collect();
                            let _ = writeln!(out, "| {} |", cells.join(" | "));
                        }
                        out.push('\n');
                    }
                }
            }
        }
        out
    }
}

/// The way from the folder of one file to another folder, in slashes.
fn relative(from: &Path, to: &Path) -> String {
    let absolute = |p: &Path| std::path::absolute(p).unwrap_or_else(|_| p.to_path_buf());
    let (from, to) = (absolute(from), absolute(to));
    let from: Vec<_> = from.parent().unwrap_or(Path::new("/")).components().collect();
    let to: Vec<_> = to.components().collect();
    let same = from.iter().zip(&to).take_while(|(a, b)| a == b).count();
    let up = std::iter::repeat_n("..".to_string(), from.len() - same);
    let down = to[same..].iter().map(|c| c.as_os_str().to_string_lossy().into_owned());
    up.chain(down).collect::<Vec<_>>().join("/")
}

fn markdown(text: &Text) -> String {
    let mut out = String::new();
    for piece in &text.0 {
        match piece {
            Piece::Text(words) => out.push_str(&words.replace('|', "\\|")),
            Piece::Number { words, cells } => {
                let from: Vec<String> = cells.iter().map(|c| format!("{}:{}", c.file, c.line)).collect();
                let _ = write!(out, "{words} <sub>{}</sub>", from.join(" "));
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_leads_to_its_line_and_back() {
        let dir = std::env::temp_dir().join(format!("scheidegg-book-{}", std::process::id()));
        let mut table = Table::new(dir.join("ladder.csv"), &["step", "us"]);
        table.push(["opt1".to_string(), "53.21".to_string()]);
        let cell = table.find(&[("step", "opt1")]).unwrap().cell("us").unwrap();
        let mut book = Book::new("T", "S");
        book.section("One");
        book.para(Text::new().t("it takes ").n(&cell).t(" us"));
        book.source(&table);
        book.figure("now", "<svg/>".into(), Text::new().t("a figure"));
        write_whole(&dir.join("figures/before.svg"), b"<svg/>").unwrap();
        book.write(&dir, Some(&dir.join("docs.md"))).unwrap();
        assert!(dir.join("figures/now.svg").exists() && !dir.join("figures/before.svg").exists());
        let html = std::fs::read_to_string(dir.join("report.html")).unwrap();
        assert!(html.contains("href=\"#ladder.csv-2\" title=\"ladder.csv:2 us\">53.2</a>"), "{html}");
        assert!(html.contains("<tr id=\"ladder.csv-2\"><td>2 <a href=\"#n1\">"), "{html}");
        let md = std::fs::read_to_string(dir.join("docs.md")).unwrap();
        assert!(md.contains("it takes 53.2 <sub>ladder.csv:2</sub> us"), "{md}");
        let citations = std::fs::read_to_string(dir.join("citations.csv")).unwrap();
        assert!(citations.contains("n1,One,53.2,ladder.csv,2,us,53.21"), "{citations}");
        std::fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn digits_are_grouped() {
        assert_eq!(thousands(23_200_000.0), "23,200,000");
        assert_eq!(thousands(-999.0), "-999");
    }
}
