//! The report of a run: a page and its pictures.

mod histogram;
mod html;
mod peak;
mod pictures;
mod sink;
mod timeline;

use std::path::{Path, PathBuf};

use rayon::prelude::*;
use scheidegg::io::Output;
use scheidegg::{Error, Pedestal, Result};

pub use html::Table;
pub use sink::ReportSink;

use crate::{places, plot};

#[cfg(test)]
mod tests;

/// Pixels of a PNG for every unit of its SVG: about 1300 pixels across.
const PNG_SCALE: f32 = 2.0;

/// What a report says beside its pictures.
#[derive(Debug, Default)]
pub struct Facts {
    /// The heading.
    pub title: String,
    /// Tables in order.
    pub tables: Vec<Table>,
    /// Sentences that need attention.
    pub warnings: Vec<String>,
}

/// Writes `report.html` and its pictures into a folder, which is made when it is not there. Returns the page's path.
///
/// # Errors
/// [`Error::Io`] naming the file.
pub fn write(dir: &Path, facts: &Facts, sink: &ReportSink, pedestal: Option<&Pedestal>) -> Result<PathBuf> {
    write_pictures(dir, facts, &pictures::all(sink, pedestal))
}

/// Writes `report.html` and its pictures of a pedestal into a folder, which is made when it is not there. Returns the
/// page's path.
///
/// # Errors
/// [`Error::Io`] naming the file.
pub fn write_pedestal(dir: &Path, facts: &Facts, pedestal: &Pedestal) -> Result<PathBuf> {
    write_pictures(dir, facts, &pictures::of_pedestal(pedestal))
}

fn write_pictures(dir: &Path, facts: &Facts, pictures: &[pictures::Named]) -> Result<PathBuf> {
    places::folder(dir)?;
    pictures.par_iter().try_for_each(|p| {
        put(&dir.join(format!("{}.svg", p.file)), p.picture.svg.as_bytes())?;
        let path = dir.join(format!("{}.png", p.file));
        let png = plot::render(&p.picture, PNG_SCALE).map_err(|e| Error::io(&path, e))?;
        put(&path, &png)
    })?;
    let page = dir.join("report.html");
    put(&page, html::page(&facts.title, &facts.tables, &facts.warnings, pictures).as_bytes())?;
    Ok(page)
}

/// Writes a file that is whole under its name or not there.
fn put(path: &Path, bytes: &[u8]) -> Result<()> {
    let mut out = Output::create(path)?;
    out.write(bytes)?;
    out.finish().map(|_| ())
}
