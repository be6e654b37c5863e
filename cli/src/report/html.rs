//! The page of a report: one file that needs nothing else.

use std::fmt::Write;

use super::pictures::Named;
use crate::plot::escape;

const STYLE: &str = "
body{font:16px/1.5 'Noto Sans','DejaVu Sans',Helvetica,Arial,sans-serif;color:#1a1a1a;background:#fff;
     max-width:1500px;margin:0 auto;padding:24px}
h1{font-size:26px;margin:0 0 4px}h2{font-size:20px;margin:36px 0 8px;border-bottom:1px solid #ccc}
table{border-collapse:collapse;margin:12px 0}td,th{padding:3px 18px 3px 0;text-align:left;vertical-align:top}
th{font-weight:400;color:#555;white-space:nowrap}
.warning{border-left:4px solid #d55e00;background:#fff4ec;padding:6px 12px;margin:8px 0}
.pictures{display:flex;flex-wrap:wrap;gap:28px}
figure{margin:0;max-width:740px}figure svg{max-width:100%;height:auto;display:block}
figcaption{font-size:14px;color:#444;max-width:680px;margin-top:4px}
@media print{figure{break-inside:avoid}}
";

/// A table of a page: a title and rows of a name and a value.
#[derive(Clone, Debug, Default)]
pub struct Table {
    /// Its heading.
    pub title: String,
    /// Names and values.
    pub rows: Vec<(String, String)>,
}

/// The page.
pub fn page(title: &str, tables: &[Table], warnings: &[String], pictures: &[Named]) -> String {
    let title = escape(title);
    let mut out = format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{title}</title>\
         <meta name=\"viewport\" content=\"width=device-width\"><style>{STYLE}</style></head><body>\n<h1>{title}</h1>\n"
    );
    for w in warnings {
        let _ = writeln!(out, "<p class=\"warning\">{}</p>", escape(w));
    }
    for table in tables {
        let _ = writeln!(out, "<h2>{}</h2>\n<table>", escape(&table.title));
        for (name, value) in &table.rows {
            let _ = writeln!(out, "<tr><th>{}</th><td>{}</td></tr>", escape(name), escape(value));
        }
        out += "</table>\n";
    }
    out += "<h2>Pictures</h2>\n<div class=\"pictures\">\n";
    for p in pictures {
        let _ = writeln!(
            out,
            "<figure>{}<figcaption>{} <a href=\"{f}.png\">PNG</a> <a href=\"{f}.svg\">SVG</a></figcaption></figure>",
            p.picture.svg,
            escape(&p.caption),
            f = p.file
        );
    }
    out += "</div>\n</body></html>\n";
    out
}
