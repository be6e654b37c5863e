//! Clusters as columns: `.npz` with `data, frame, x, y`, and `.npy` with the same as fields of a record.

use std::io::{BufReader, Read};

use scheidegg_finder::{ClusterSize, Error, Payload, Result};

use super::archive::Archive;
use super::beside::{self, Sum};
use super::marks::{Mark, Marks};
use super::npy::{NpyHeader, NpyRows};
use super::output::{Output, Place};
use super::pieces::{NUMBER, Pieces, Rows, Split, Way};
use super::{Batch, Kind, Sink, Written};
use crate::provenance::Provenance;

/// The numpy type of a payload.
pub(crate) const fn descr(payload: Payload) -> &'static str {
    match payload {
        Payload::I32 => "<i4",
        Payload::I16 => "<i2",
        Payload::F16 => "<f2",
        Payload::F32 => "<f4",
    }
}

/// Writes a `.npz` file: `data`, `clusters x h x w` in the type of the payload, `frame` (`u64`), `x` and `y` (`u16`), one
/// number a cluster, and `provenance`, a string of JSON ([`Provenance`]). Numpy reads it; it is not compressed. Frames without clusters leave no trace in it.
///
/// # Space
/// Memory stays bounded: `data` goes straight into the archive, `x`, `y` and the numbers of the frames (4 bytes a cluster and 16
/// a frame) into files of their own beside it, which [`Sink::finish`] copies behind `data` and removes one after the
/// other. The disk must have room for the archive and for these 4 bytes a cluster and 16 a frame.
#[derive(Debug)]
pub struct NpzSink {
    columns: Option<Columns>,
    kind: Kind,
    scratch: [Split; 2],
    /// The run of every frame of a batch.
    runs: Vec<u8>,
}

/// A `.npz` file on its way.
#[derive(Debug)]
struct Columns {
    /// The archive, in which `data` grows.
    data: Archive,
    x: NpyRows,
    y: NpyRows,
    /// Number and clusters of every frame that has some, 8 bytes each.
    runs: Output,
    /// Clusters so far.
    rows: u64,
}

/// Bytes copied at once when an archive is completed.
const COPIED: usize = 1 << 20;

impl NpzSink {
    /// Starts a file for clusters of this kind.
    ///
    /// # Errors
    /// As [`Output::create`].
    pub fn create(place: impl Into<Place>, size: ClusterSize, payload: Payload) -> Result<NpzSink> {
        let place = place.into();
        let kind = Kind { path: place.path.clone(), size, payload };
        let mut data = Archive::create(place)?;
        data.start("data", None)?;
        data.write(&data_header(&kind, 0))?;
        // Each under the archive's name, which none of them is ever given: so complaints name the archive.
        let column = || NpyRows::create(&kind.path, "'<u2'", &[]);
        let columns =
            Columns { data, x: column()?, y: column()?, runs: Output::create(&kind.path)?, rows: 0 };
        Ok(NpzSink { columns: Some(columns), kind, scratch: Default::default(), runs: Vec::new() })
    }
}

/// The header of the column `data`; its length does not depend on the rows.
fn data_header(kind: &Kind, rows: u64) -> Vec<u8> {
    let descr = format!("'{}'", descr(kind.payload));
    NpyHeader::write(&descr, &[rows, kind.size.h as u64, kind.size.w as u64])
}

impl Sink for NpzSink {
    fn name(&self) -> String {
        self.kind.name()
    }

    fn write(&mut self, batch: &Batch<'_>) -> Result<()> {
        let batch = batch.clusters();
        self.kind.check(batch)?;
        let Some(Columns { data, x, y, runs, rows }) = &mut self.columns else {
            return Err(self.kind.ended());
        };
        self.runs.clear();
        for (number, ends) in batch.numbers().iter().zip(batch.offsets().windows(2)) {
            if ends[1] > ends[0] {
                self.runs.extend(number.to_le_bytes());
                self.runs.extend((ends[1] - ends[0]).to_le_bytes());
            }
        }
        runs.write(&self.runs)?;
        let mut pieces = Pieces::of(batch);
        let way = pieces.way();
        way.by_turns(
            &mut self.scratch,
            |split| Ok(pieces.split(split)),
            |split| {
                // Different files are written at the same time.
                let places = || {
                    x.write(split.rows as u64, &split.x)?;
                    y.write(split.rows as u64, &split.y)
                };
                way.both(|| data.write(&split.data), places).map(|_| ())
            },
        )?;
        *rows += batch.len() as u64;
        Ok(())
    }

    fn finish(&mut self, provenance: &Provenance) -> Result<Written> {
        let Columns { mut data, x, y, runs, rows } = self.columns.take().ok_or_else(|| self.kind.ended())?;
        if Kind::is_nothing(provenance) {
            return Ok(Written::nowhere());
        }
        write_frames(&mut data, runs, rows)?;
        write_column(&mut data, "x", x)?;
        write_column(&mut data, "y", y)?;
        write_provenance(&mut data, provenance)?;
        let complete = Kind::is_complete(provenance);
        let (old, new) = (data_header(&self.kind, 0), data_header(&self.kind, rows));
        Ok(Written::at(data.finish_with_header(&old, &new, complete)?))
    }
}

/// Writes the column `frame`, the number of a frame for each of its clusters, and removes the runs.
fn write_frames(archive: &mut Archive, mut runs: Output, rows: u64) -> Result<()> {
    let header = NpyHeader::write("'<u8'", &[rows]);
    archive.start("frame", Some(header.len() as u64 + rows * NUMBER as u64))?;
    archive.write(&header)?;
    let path = runs.path().to_path_buf();
    let mut runs = BufReader::with_capacity(COPIED, runs.reread()?);
    let (mut left, mut number, mut clusters) = (rows, 0, 0);
    let fill = |numbers: &mut Vec<u64>| {
        numbers.clear();
        let want = left.min((COPIED / NUMBER) as u64);
        left -= want;
        while (numbers.len() as u64) < want {
            if clusters == 0 {
                let mut run = [0; 2];
                runs.read_exact(bytemuck::bytes_of_mut(&mut run)).map_err(|e| Error::io(&path, e))?;
                [number, clusters] = run;
            }
            let these = clusters.min(want - numbers.len() as u64);
            numbers.resize(numbers.len() + these as usize, number);
            clusters -= these;
        }
        Ok(want > 0)
    };
    Way::Together
        .by_turns(&mut Default::default(), fill, |numbers| archive.write(bytemuck::cast_slice(numbers)))
}

/// Writes the array `provenance`: JSON as one string of bytes.
pub(super) fn write_provenance(archive: &mut Archive, provenance: &Provenance) -> Result<()> {
    let text = provenance.to_json();
    let header = NpyHeader::write(&format!("'|S{}'", text.len()), &[]);
    archive.start("provenance", Some((header.len() + text.len()) as u64))?;
    archive.write(&header)?;
    archive.write(text.as_bytes())
}

/// Copies a column from its file into the archive, and removes the file.
pub(super) fn write_column(archive: &mut Archive, name: &str, mut column: NpyRows) -> Result<()> {
    let out = column.complete()?;
    let path = out.path().to_path_buf();
    let failed = |e| Error::io(&path, e);
    let file = out.reread()?;
    let bytes = file.metadata().map_err(failed)?.len();
    archive.start(name, Some(bytes))?;
    let mut left = bytes;
    let fill = |some: &mut Vec<u8>| {
        some.resize(left.min(COPIED as u64) as usize, 0);
        left -= some.len() as u64;
        file.read_exact(some).map_err(failed)?;
        Ok(!some.is_empty())
    };
    Way::Together.by_turns(&mut Default::default(), fill, |some| archive.write(some))
}

/// Writes a `.npy` file of records with the fields `frame`, `x`, `y` and `data`. Frames without clusters leave no trace in
/// it. Its provenance stands [beside it](super::provenance_beside).
#[derive(Debug)]
pub struct NpySink {
    rows: Option<NpyRows>,
    marks: Marks,
    kind: Kind,
    scratch: [Rows; 2],
    /// Of the rows.
    sum: Sum,
}

impl NpySink {
    /// Starts a file for clusters of this kind.
    ///
    /// # Errors
    /// As [`Output::create`].
    pub fn create(place: impl Into<Place>, size: ClusterSize, payload: Payload) -> Result<NpySink> {
        let place = place.into();
        let kind = Kind { path: place.path.clone(), size, payload };
        let record = format!(
            "[('frame', '<u8'), ('x', '<u2'), ('y', '<u2'), ('data', '{}', ({}, {}))]",
            descr(payload),
            size.h,
            size.w
        );
        let rows = NpyRows::create(place, &record, &[])?;
        let marks = Marks::new(rows.header(0).len() as u64);
        Ok(NpySink { rows: Some(rows), marks, kind, scratch: Default::default(), sum: Sum::default() })
    }
}

impl Sink for NpySink {
    fn name(&self) -> String {
        self.kind.name()
    }

    fn write(&mut self, batch: &Batch<'_>) -> Result<()> {
        let batch = batch.clusters();
        self.kind.check(batch)?;
        let Some(out) = &mut self.rows else { return Err(self.kind.ended()) };
        let (mut pieces, sum) = (Pieces::of(batch), &mut self.sum);
        let way = pieces.way();
        way.by_turns(
            &mut self.scratch,
            |rows| Ok(pieces.rows(rows)),
            |rows| {
                let add = || {
                    sum.add(&rows.bytes);
                    Ok(())
                };
                way.both(|| out.write(rows.rows as u64, &rows.bytes), add).map(|_| ())
            },
        )?;
        let row = NUMBER + batch.record_bytes();
        self.marks.add((batch.len() * row) as u64, batch);
        Ok(())
    }

    fn finish(&mut self, provenance: &Provenance) -> Result<Written> {
        let mut rows = self.rows.take().ok_or_else(|| self.kind.ended())?;
        if Kind::is_nothing(provenance) {
            return Ok(Written::nowhere());
        }
        if let Err(fault) = rows.flush() {
            let (out, header) = rows.into_parts();
            // As long as the header that is there: it takes no more room.
            let end = |out: &mut Output, mark: &Mark| out.write_over_start(&header(mark.clusters));
            return self.marks.finish_what_fits(out, provenance, fault, end);
        }
        let (out, header) = rows.end()?;
        beside::finish(out, self.sum.behind(&header), provenance)
    }
}
