//! The report of a run: a page and its pictures.

mod eta;
mod histogram;
mod html;
mod peak;
mod pictures;
mod provenance;
mod sink;
mod timeline;

use std::path::PathBuf;

use rayon::prelude::*;
use scheidegg::io::{Output, Place};
use scheidegg::{Error, Pedestal, Result};

pub use html::Table;
pub use pictures::Material;
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

/// Writes `report.html` and its pictures into a folder, which is made when it is not there. Returns the page's path. No file
/// that is there is replaced if the folder's are to be kept.
///
/// # Errors
/// [`Error::Io`] naming the file.
pub fn write(dir: impl Into<Place>, facts: &Facts, of: &Material<'_>) -> Result<PathBuf> {
    let peaks = pictures::Peaks::of(of.sink);
    let mut tables = facts.tables.clone();
    tables.insert(tables.len().min(1), peaks.table());
    tables.extend(of.sink.provenance.as_ref().map(provenance::table));
    write_pictures(dir.into(), facts, &tables, &pictures::all(of, &peaks))
}

/// Writes `report.html` and its pictures of a pedestal into a folder, which is made when it is not there. Returns the
/// page's path.
///
/// # Errors
/// [`Error::Io`] naming the file.
pub fn write_pedestal(dir: impl Into<Place>, facts: &Facts, pedestal: &Pedestal) -> Result<PathBuf> {
    write_pictures(dir.into(), facts, &facts.tables, &pictures::of_pedestal(pedestal))
}

fn write_pictures(
    dir: Place,
    facts: &Facts,
    tables: &[Table],
    pictures: &[pictures::Named],
) -> Result<PathBuf> {
    places::folder(&dir.path)?;
    let put = |file: String, bytes: &[u8]| {
        let mut out = Output::create(Place { path: dir.path.join(file), keep: dir.keep })?;
        out.write(bytes)?;
        out.close()?;
        Ok::<_, Error>(out)
    };
    let drawn = pictures.par_iter().map(|p| {
        let svg = put(format!("{}.svg", p.file), p.picture.svg.as_bytes())?;
        let file = format!("{}.png", p.file);
        let png = plot::render(&p.picture, PNG_SCALE).map_err(|e| Error::io(dir.path.join(&file), e))?;
        Ok([svg, put(file, &png)?])
    });
    let drawn = drawn.collect::<Result<Vec<_>>>()?;
    let page = html::page(&facts.title, tables, &facts.warnings, pictures);
    let page = put("report.html".into(), page.as_bytes())?;
    // All of them are there before the first one takes its name, the page last.
    for picture in drawn.into_iter().flatten() {
        picture.finish()?;
    }
    page.finish()
}
