//! The page itself: numbers that link to the lines of the tables below and back, and what a browser needs around them.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::book::{Piece, Text};
use super::svg::escape;
use crate::harness::table::{Cell, Table};

/// A number that was printed, and a cell that it came from.
pub(super) struct Citation {
    pub id: usize,
    pub section: String,
    pub words: String,
    pub cell: Cell,
}

/// Numbers as they are printed, and the lines that they came from.
#[derive(Default)]
pub(super) struct Numbers {
    count: usize,
    pub all: Vec<Citation>,
    by_line: BTreeMap<(String, usize), Vec<usize>>,
}

impl Numbers {
    /// A paragraph.
    pub fn html(&mut self, text: &Text, section: &str) -> String {
        let mut out = String::new();
        for piece in &text.0 {
            match piece {
                Piece::Text(words) => out.push_str(&escape(words)),
                Piece::Number { words, cells } => {
                    self.count += 1;
                    let id = self.count;
                    for cell in cells {
                        self.by_line.entry((cell.file.clone(), cell.line)).or_default().push(id);
                        self.all.push(Citation {
                            id,
                            section: section.into(),
                            words: words.clone(),
                            cell: cell.clone(),
                        });
                    }
                    let from: Vec<String> = cells.iter().map(Cell::to_string).collect();
                    let link = cells.first().map_or(String::new(), |c| format!("#{}-{}", c.file, c.line));
                    let _ = write!(
                        out,
                        "<a class=\"n\" id=\"n{id}\" href=\"{link}\" title=\"{}\">{}</a>",
                        escape(&from.join("; ")),
                        escape(words)
                    );
                }
            }
        }
        out
    }

    /// A table with the ways back to the numbers of its lines.
    pub fn source(&self, table: &Table) -> String {
        let name = table.name();
        let mut out = format!(
            "<details><summary>{} ({} rows)</summary><div class=\"wide\"><table class=\"cells\"><tr><th>line</th>",
            escape(&name),
            table.len()
        );
        for c in table.columns() {
            let _ = write!(out, "<th>{}</th>", escape(c));
        }
        out.push_str("</tr>\n");
        for (i, row) in table.rows().enumerate() {
            let line = i + 2;
            let _ = write!(out, "<tr id=\"{}-{line}\"><td>{line}", escape(&name));
            if let Some(ids) = self.by_line.get(&(name.clone(), line)) {
                for id in ids {
                    let _ = write!(out, " <a href=\"#n{id}\">&#8593;</a>");
                }
            }
            out.push_str("</td>");
            for c in table.columns() {
                let _ = write!(out, "<td>{}</td>", escape(row.text(c)));
            }
            out.push_str("</tr>\n");
        }
        out.push_str("</table></div></details>\n");
        out
    }
}

/// The page around it: `{title}`, `{subtitle}`, `{contents}` and `{body}` are put in.
pub(super) const PAGE: &str = r##"<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
body { font: 20px/1.5 "DejaVu Sans", Verdana, Helvetica, Arial, sans-serif; color: #1b1f24; background: #fff; margin: 0; }
header, section { max-width: 1500px; margin: 0 auto; padding: 1.2rem 2rem; }
h1 { font-size: 2.6rem; margin: 1rem 0 0; } h2 { font-size: 2rem; margin: 1rem 0; }
nav a { display: inline-block; margin-right: 1.2rem; color: #0072b2; }
p { max-width: 75ch; }
figure { margin: 1.5rem 0; min-height: 92vh; display: flex; flex-direction: column; justify-content: center; }
figure svg { width: 100%; height: auto; max-height: 86vh; }
figcaption { color: #59636e; max-width: 90ch; }
a.n { color: inherit; font-weight: 600; text-decoration: underline dotted #0072b2; }
.wide { overflow-x: auto; } table { border-collapse: collapse; font-size: 0.85rem; }
th, td { text-align: left; padding: 0.25rem 0.8rem; border-bottom: 1px solid #d8dde3; white-space: nowrap; }
table.cells { font-size: 0.65rem; } :target { background: #fff3cd; }
summary { cursor: pointer; font-weight: 600; margin: 0.5rem 0; }
</style></head>
<body><header><h1>{title}</h1><p>{subtitle}</p><nav>{contents}</nav></header>
{body}
<script>
// A link into a folded table unfolds it.
function unfold() { const e = document.getElementById(location.hash.slice(1)); const d = e && e.closest("details"); if (d) { d.open = true; e.scrollIntoView({ block: "center" }); } }
addEventListener("hashchange", unfold); addEventListener("load", unfold);
</script></body></html>
"##;
