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
/// a frame) into files of their own beside it, which [`Sink::finish`] copies behind `data`. The disk must have room for the
/// archive and for these 4 bytes a cluster and 16 a frame. Where it has not, as many batches are completed as fit
/// together with what is missing, under a name that says so.
#[derive(Debug)]
pub struct NpzSink {
    columns: Option<Columns>,
    kind: Kind,
    marks: Marks,
    scratch: [Split; 2],
    /// The run of every frame of a batch.
    runs: Vec<u8>,
}

/// A `.npz` file on its way.
#[derive(Debug)]
struct Columns {
    /// The archive, in which `data` grows.
    data: Archive,
    x: Output,
    y: Output,
    /// Number and clusters of every frame that has some, 8 bytes each.
    runs: Output,
}

/// Bytes copied at once when an archive is completed.
const COPIED: usize = 1 << 20;
/// Numbers of frames in so many bytes.
const NUMBERS: u64 = (COPIED / NUMBER) as u64;

/// Bytes of a number in `x` or `y`.
const PLACE: u64 = 2;

impl NpzSink {
    /// Starts a file for clusters of this kind.
    ///
    /// # Errors
    /// As [`Output::create`].
    pub fn create(place: impl Into<Place>, size: ClusterSize, payload: Payload) -> Result<NpzSink> {
        let place = place.into();
        let kind = Kind { path: place.path.clone(), size, payload };
        let mut data = Archive::create(place)?;
        data.start("data", &data_header(&kind, 0))?;
        // Each under the archive's name, which none of them is ever given: so complaints name the archive.
        let column = || Output::create(&kind.path);
        let columns = Columns { data, x: column()?, y: column()?, runs: column()? };
        let (scratch, marks) = (Default::default(), Marks::spread());
        Ok(NpzSink { columns: Some(columns), kind, marks, scratch, runs: Vec::new() })
    }
}

impl Columns {
    /// Completes the archive with the clusters up to a mark; it has no name yet.
    fn end(&mut self, kind: &Kind, mark: &Mark, provenance: &Provenance) -> Result<()> {
        let (archive, rows) = (&mut self.data, mark.clusters);
        archive.exchange_head(data_header(kind, rows))?;
        write_frames(archive, &mut self.runs, rows)?;
        write_column(archive, "x", PLACE, rows, &mut self.x)?;
        write_column(archive, "y", PLACE, rows, &mut self.y)?;
        write_provenance(archive, provenance)?;
        archive.end()
    }

    /// Clusters and bytes of runs that have reached all files.
    fn reached(&mut self, kind: &Kind) -> Result<impl Fn(&Mark) -> bool + use<>> {
        // Where one of them has no room, as much as has.
        [&mut self.runs, &mut self.x, &mut self.y].into_iter().for_each(|file| drop(file.flush()));
        let places = self.x.reached()?.min(self.y.reached()?) / PLACE;
        let clusters = places.min(self.data.reached()? / values(kind));
        let runs = self.runs.reached()?;
        Ok(move |mark: &Mark| mark.bytes <= runs && mark.clusters <= clusters)
    }

    /// Goes back to a mark.
    fn cut(&mut self, kind: &Kind, mark: &Mark) -> Result<()> {
        self.runs.cut(mark.bytes)?;
        self.x.cut(PLACE * mark.clusters)?;
        self.y.cut(PLACE * mark.clusters)?;
        self.data.cut(values(kind) * mark.clusters, data_header(kind, mark.clusters))
    }
}

/// Bytes of the values of a cluster.
fn values(kind: &Kind) -> u64 {
    (kind.size.pixels() * kind.payload.bytes()) as u64
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
        let Some(Columns { data, x, y, runs }) = &mut self.columns else {
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
                    x.write(&split.x)?;
                    y.write(&split.y)
                };
                way.both(|| data.write(&split.data), places).map(|_| ())
            },
        )?;
        self.marks.add(self.runs.len() as u64, batch);
        Ok(())
    }

    fn finish(&mut self, provenance: &Provenance) -> Result<Written> {
        let mut columns = self.columns.take().ok_or_else(|| self.kind.ended())?;
        if Kind::is_nothing(provenance) {
            return Ok(Written::nowhere());
        }
        let Err(fault) = columns.end(&self.kind, &self.marks.last(), provenance) else {
            return Ok(Written::at(columns.data.finish_as(Kind::is_complete(provenance))?));
        };
        let Ok(reached) = columns.reached(&self.kind) else { return Err(fault) };
        let part = self.marks.complete_what_fits(provenance, fault, reached, |mark, told| {
            columns.cut(&self.kind, mark)?;
            columns.end(&self.kind, mark, told)
        })?;
        part.at(columns.data.finish_aside()?)
    }
}

/// Writes the column `frame`, the number of a frame for each of its clusters.
fn write_frames(archive: &mut Archive, runs: &mut Output, rows: u64) -> Result<()> {
    archive.start("frame", &NpyHeader::write("'<u8'", &[rows]))?;
    let path = runs.path().to_path_buf();
    let mut runs = BufReader::with_capacity(COPIED, runs.reread()?);
    let (mut left, mut number, mut clusters) = (rows, 0, 0);
    let fill = |numbers: &mut Vec<u64>| {
        numbers.clear();
        let want = left.min(NUMBERS);
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
    archive.start("provenance", &NpyHeader::write(&format!("'|S{}'", text.len()), &[]))?;
    archive.write(text.as_bytes())
}

/// Copies a column of unsigned integers of so many bytes each from its file, where more may stand, into the archive.
pub(super) fn write_column(
    archive: &mut Archive,
    name: &str,
    bytes: u64,
    rows: u64,
    column: &mut Output,
) -> Result<()> {
    archive.start(name, &NpyHeader::write(&format!("'<u{bytes}'"), &[rows]))?;
    let path = column.path().to_path_buf();
    let (file, mut left) = (column.reread()?, bytes * rows);
    let fill = |some: &mut Vec<u8>| {
        some.resize(left.min(COPIED as u64) as usize, 0);
        left -= some.len() as u64;
        file.read_exact(some).map_err(|e| Error::io(&path, e))?;
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

#[cfg(test)]
mod tests {
    use scheidegg_finder::{ClustersBuf, Shape, record_bytes};

    use super::*;

    /// Frames 7, 8, ... with so many clusters each.
    fn clusters(kind: (ClusterSize, Payload), counts: &[usize]) -> ClustersBuf {
        let mut buf = ClustersBuf::new(Shape { rows: 9, cols: 9 }, kind.0, kind.1);
        for (number, count) in (7..).zip(counts) {
            buf.push_frame(number, &vec![0; count * record_bytes(kind.0, kind.1)]);
        }
        buf
    }

    #[test]
    fn a_result_is_marked_where_a_batch_ends() {
        let dir = tempfile::tempdir().unwrap();
        let kind = (ClusterSize::square(3).unwrap(), Payload::I16);
        let path = dir.path().join("a.npy");
        let mut rows = NpySink::create(&path, kind.0, kind.1).unwrap();
        let mut columns = NpzSink::create(dir.path().join("a.npz"), kind.0, kind.1).unwrap();
        for (counts, frames, runs, clusters_so_far, last_frame) in
            [(&[3, 0, 2][..], 3, 2, 5, 9), (&[0], 4, 2, 5, 7), (&[4, 1], 6, 4, 10, 8)]
        {
            let batch = clusters(kind, counts);
            rows.write(&batch.view().into()).unwrap();
            columns.write(&batch.view().into()).unwrap();
            let header = rows.rows.as_ref().unwrap().header(0).len() as u64;
            let mark =
                |bytes| Mark { bytes, frames, clusters: clusters_so_far, last_frame: Some(last_frame) };
            // A row is 8 bytes of number, 4 of place and 18 of values; a run is a number and a count.
            assert_eq!(rows.marks.last(), mark(header + 30 * clusters_so_far));
            assert_eq!(columns.marks.last(), mark(16 * runs));
        }
        let end = rows.marks.last().bytes;
        rows.finish(&Provenance::default()).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().len(), end);
        columns.finish(&Provenance::default()).unwrap();
    }

    const KIND: (ClusterSize, Payload) = (ClusterSize { w: 3, h: 3 }, Payload::I16);

    /// A sink that got three batches, and the marks behind them.
    fn written(folder: &std::path::Path) -> (NpzSink, [Mark; 3]) {
        let mut sink = NpzSink::create(folder.join("a.npz"), KIND.0, KIND.1).unwrap();
        let marks = [0, 1, 2].map(|k| {
            let mut batch = ClustersBuf::new(Shape { rows: 9, cols: 9 }, KIND.0, KIND.1);
            batch.push_frame(2 * k, &vec![0; (k as usize + 2) * record_bytes(KIND.0, KIND.1)]);
            batch.push_frame(2 * k + 1, &[]);
            sink.write(&batch.view().into()).unwrap();
            sink.marks.last()
        });
        (sink, marks)
    }

    /// Fault: a part that is completed behind what has reached one of its files.
    #[test]
    fn a_mark_is_reached_when_all_files_have_what_is_before_it() {
        let dir = tempfile::tempdir().unwrap();
        for short in 0..5 {
            let (mut sink, marks) = written(dir.path());
            assert_eq!(marks.map(|m| (m.bytes, m.clusters, m.frames)), [(16, 2, 2), (32, 5, 4), (48, 9, 6)]);
            let (kind, columns) = (sink.kind.clone(), sink.columns.as_mut().unwrap());
            // Everything is gathered still.
            assert_eq!(columns.data.reached().unwrap(), 0);
            columns.data.exchange_head(data_header(&kind, 0)).unwrap();
            drop(columns.reached(&kind).unwrap());
            match short {
                0 => {}
                1 => columns.runs.cut(47).unwrap(),
                2 => columns.x.cut(17).unwrap(),
                3 => columns.y.cut(17).unwrap(),
                _ => columns.data.cut(9 * 18 - 1, data_header(&kind, 0)).unwrap(),
            }
            let reached = columns.reached(&kind).unwrap();
            assert_eq!(marks.map(|m| reached(&m)), [true, true, short == 0], "{short}");
            columns.cut(&kind, &marks[1]).unwrap();
            let bytes = [&columns.runs, &columns.x, &columns.y].map(|file| file.reached().unwrap());
            assert_eq!((bytes, columns.data.reached().unwrap()), ([32, 10, 10], 5 * 18));
        }
    }
}
