//! The page of a report: one file that needs nothing else.

use std::fmt::Write;

use super::pictures::Named;
use crate::plot::escape;

const STYLE: &str = "
:root{color-scheme:light dark;--ink:#1a1a1a;--soft:#555;--paper:#fff;--rule:#ccc;--warning:#fff4ec}
@media(prefers-color-scheme:dark){:root{--ink:#e8e8e8;--soft:#b0b0b0;--paper:#17191c;--rule:#4a4a4a;--warning:#3a2414}}
body{font:16px/1.5 'Noto Sans','DejaVu Sans',Helvetica,Arial,sans-serif;color:var(--ink);background:var(--paper);
     max-width:1500px;margin:0 auto;padding:24px;box-sizing:border-box}
h1{font-size:26px;margin:0 0 4px;overflow-wrap:anywhere}
h2{font-size:20px;margin:36px 0 8px;border-bottom:1px solid var(--rule)}
table{border-collapse:collapse;margin:12px 0}td,th{padding:3px 18px 3px 0;text-align:left;vertical-align:top}
th{font-weight:400;color:var(--soft);white-space:nowrap}td{overflow-wrap:anywhere}
.warning{border-left:4px solid #d55e00;background:var(--warning);padding:6px 12px;margin:8px 0}
.pictures{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,500px),1fr));gap:32px 28px}
figure{margin:0;min-width:0}figure svg{max-width:100%;height:auto;display:block;border-radius:4px}
a{color:inherit}
figcaption{font-size:14px;color:var(--soft);max-width:680px;margin-top:6px}
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
            "<figure>{}<figcaption id=\"about-{f}\">{} <a href=\"{f}.png\">PNG</a> <a href=\"{f}.svg\">SVG</a></figcaption>\
             </figure>",
            // Who cannot see the picture hears its title and what stands below it.
            p.picture.svg.replacen("<svg ", &format!("<svg aria-describedby=\"about-{}\" ", p.file), 1),
            escape(&p.caption),
            f = p.file
        );
    }
    out += "</div>\n</body></html>\n";
    out
}
