//! A row a frame: what is known of it, and how many clusters it has.

use std::path::{Path, PathBuf};

use scheidegg_finder::{Error, FrameNote, Result};

use super::archive::Archive;
use super::beside::{self, Sum};
use super::columns::{write_column, write_provenance};
use super::marks::{Mark, Marks};
use super::output::{Output, Place};
use super::{Batch, Kind, Sink, Written};
use crate::provenance::{How, Provenance};

/// What a column holds where the source does not know it.
const UNKNOWN: u64 = u64::MAX;

/// The columns, in order.
const COLUMNS: [&str; 7] =
    ["frame", "bunch_id", "timestamp", "storage_cell", "lost_packets", "lost_pixels", "clusters"];

/// Starts a table of frames, by its extension: `.csv`, or `.npz` with an array a column.
///
/// # Errors
/// [`Error::File`] for another extension; as [`Output::create`].
pub fn open_frame_table(place: impl Into<Place>) -> Result<Box<dyn Sink>> {
    let place = place.into();
    match place.path.extension().and_then(|e| e.to_str()).map(str::to_ascii_lowercase).as_deref() {
        Some("csv") => Ok(Box::new(CsvTable::create(place)?)),
        Some("npz") => Ok(Box::new(NpzTable::create(place)?)),
        _ => Err(Error::file(place.path, "tables of frames are written to .csv and .npz files")),
    }
}

/// The row of frame `k` of a batch.
fn row(batch: &Batch<'_>, k: usize) -> [Option<u64>; COLUMNS.len()] {
    let clusters = batch.clusters();
    let FrameNote { bunch_id, timestamp, lost_packets, storage_cell } = batch.note(k);
    [
        Some(clusters.numbers()[k]),
        bunch_id,
        timestamp,
        storage_cell.map(u64::from),
        lost_packets.map(u64::from),
        Some(batch.lost_pixels(k)),
        Some(clusters.offsets()[k + 1] - clusters.offsets()[k]),
    ]
}

/// A `.csv` file with a line of names; a cell is empty where the source does not know its value.
struct CsvTable {
    path: PathBuf,
    out: Option<Output>,
    marks: Marks,
    sum: Sum,
    lines: Vec<u8>,
}

impl CsvTable {
    fn create(place: Place) -> Result<CsvTable> {
        let path = place.path.clone();
        let out = Some(Output::create_or_stream(place)?);
        let (marks, sum) = (Marks::new(0), Sum::default());
        let mut table = CsvTable { path, out, marks, sum, lines: Vec::new() };
        table.put(|lines| lines.write_record(COLUMNS))?;
        table.marks = Marks::new(table.lines.len() as u64);
        Ok(table)
    }

    fn put(&mut self, write: impl FnOnce(&mut csv::Writer<&mut Vec<u8>>) -> csv::Result<()>) -> Result<()> {
        let Some(out) = &mut self.out else { return Err(ended(&self.path)) };
        self.lines.clear();
        let mut lines = csv::Writer::from_writer(&mut self.lines);
        write(&mut lines).map_err(|e| Error::file(&self.path, e.to_string()))?;
        lines.flush().map_err(|e| Error::io(&self.path, e))?;
        drop(lines);
        out.write(&self.lines)?;
        self.sum.add(&self.lines);
        Ok(())
    }
}

impl Sink for CsvTable {
    fn name(&self) -> String {
        self.path.display().to_string()
    }

    fn write(&mut self, batch: &Batch<'_>) -> Result<()> {
        self.put(|lines| (0..batch.clusters().frames()).try_for_each(|k| lines.serialize(row(batch, k))))?;
        self.marks.add(self.lines.len() as u64, batch.clusters());
        Ok(())
    }

    fn finish(&mut self, provenance: &Provenance) -> Result<Written> {
        let mut out = self.out.take().ok_or_else(|| ended(&self.path))?;
        if Kind::is_nothing(provenance) {
            return Ok(Written::nowhere());
        }
        if let Err(fault) = out.flush() {
            return self.marks.finish_what_fits(out, provenance, fault, |_, _| Ok(()));
        }
        beside::finish(out, self.sum.behind(&[]), provenance)
    }
}

/// A `.npz` file with an array of `u64` a column. Columns that the source never knows are left out; in others 2^64 - 1 stands
/// where it does not know the value.
struct NpzTable {
    path: PathBuf,
    columns: Option<Columns>,
    marks: Marks,
    known: [bool; COLUMNS.len()],
    values: Vec<u64>,
}

/// A `.npz` file on its way: a file for each column, of which none has a name.
struct Columns {
    archive: Archive,
    files: Vec<Output>,
}

/// Bytes of a value.
const VALUE: u64 = 8;

impl Columns {
    /// Completes the archive with the frames up to a mark; it has no name yet.
    fn end(&mut self, known: [bool; COLUMNS.len()], mark: &Mark, provenance: &Provenance) -> Result<()> {
        for ((name, file), known) in COLUMNS.iter().zip(&mut self.files).zip(known) {
            // Without frames every column is there, empty.
            if known || mark.frames == 0 {
                write_column(&mut self.archive, name, VALUE, mark.frames, file)?;
            }
        }
        write_provenance(&mut self.archive, provenance)?;
        self.archive.end()
    }

    /// Bytes that have reached all files.
    fn reached(&mut self) -> Result<u64> {
        // Where one of them has no room, as much as has.
        self.files.iter_mut().for_each(|file| drop(file.flush()));
        self.files.iter().try_fold(u64::MAX, |least, file| Ok(least.min(file.reached()?)))
    }

    /// Goes back to a mark.
    fn cut(&mut self, mark: &Mark) -> Result<()> {
        self.archive.clear()?;
        self.files.iter_mut().try_for_each(|file| file.cut(mark.bytes))
    }
}

impl NpzTable {
    fn create(place: Place) -> Result<NpzTable> {
        let path = place.path.clone();
        let archive = Archive::create(place)?;
        // Each under the archive's name, which none of them is ever given: so complaints name the archive.
        let files = COLUMNS.iter().map(|_| Output::create(&path)).collect::<Result<_>>()?;
        let (columns, marks) = (Some(Columns { archive, files }), Marks::spread());
        Ok(NpzTable { path, columns, marks, known: [false; COLUMNS.len()], values: Vec::new() })
    }
}

impl Sink for NpzTable {
    fn name(&self) -> String {
        self.path.display().to_string()
    }

    fn write(&mut self, batch: &Batch<'_>) -> Result<()> {
        let Some(Columns { files, .. }) = &mut self.columns else { return Err(ended(&self.path)) };
        let frames = batch.clusters().frames();
        for (c, file) in files.iter_mut().enumerate() {
            self.values.clear();
            for k in 0..frames {
                let value = row(batch, k)[c];
                self.known[c] |= value.is_some();
                self.values.push(value.unwrap_or(UNKNOWN));
            }
            file.write(bytemuck::cast_slice(&self.values))?;
        }
        self.marks.add(VALUE * frames as u64, batch.clusters());
        Ok(())
    }

    fn finish(&mut self, provenance: &Provenance) -> Result<Written> {
        let mut columns = self.columns.take().ok_or_else(|| ended(&self.path))?;
        if Kind::is_nothing(provenance) {
            return Ok(Written::nowhere());
        }
        let Err(fault) = columns.end(self.known, &self.marks.last(), provenance) else {
            return Ok(Written::at(columns.archive.finish_as(provenance.ended.how == How::Complete)?));
        };
        let Ok(reached) = columns.reached() else { return Err(fault) };
        let there = |mark: &Mark| mark.bytes <= reached;
        let part = self.marks.complete_what_fits(provenance, fault, there, |mark, told| {
            columns.cut(mark)?;
            columns.end(self.known, mark, told)
        })?;
        part.at(columns.archive.finish_aside()?)
    }
}

fn ended(path: &Path) -> Error {
    Error::file(path, "is finished: nothing can be written to it any more")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::npz::Npz;
    use crate::io::output;
    use crate::provenance::Ending;
    use scheidegg_finder::{ClusterSize, ClustersBuf, Payload, Shape};

    fn batch() -> ClustersBuf {
        let mut buf = ClustersBuf::new(Shape { rows: 9, cols: 9 }, ClusterSize { w: 3, h: 3 }, Payload::I16);
        buf.push_frame(7, &[0; 44]);
        buf.push_frame(9, &[]);
        buf
    }

    fn complete() -> Ending {
        Ending { how: How::Complete, why: None }
    }

    fn written(path: &Path, notes: &[FrameNote]) {
        let mut table = open_frame_table(path).unwrap();
        let buf = batch();
        table.write(&Batch::of(buf.view()).with_notes(notes, &[0, 31])).unwrap();
        table.write(&Batch::of(buf.view())).unwrap();
        table.finish(&Provenance { frames: 4, ended: complete(), ..Provenance::default() }).unwrap();
        assert!(table.write(&Batch::of(buf.view())).unwrap_err().to_string().contains("is finished"));
    }

    const NOTES: [FrameNote; 1] = [FrameNote {
        bunch_id: Some(1 << 63),
        timestamp: None,
        lost_packets: Some(2),
        storage_cell: Some(0),
    }];

    #[test]
    fn a_csv_table_has_a_line_a_frame() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f.csv");
        written(&path, &NOTES);
        assert_eq!(
            std::fs::read_to_string(&path).unwrap(),
            "frame,bunch_id,timestamp,storage_cell,lost_packets,lost_pixels,clusters\n\
             7,9223372036854775808,,0,2,0,2\n9,,,,,31,0\n7,,,,,0,2\n9,,,,,0,0\n"
        );
        let told = std::fs::read_to_string(dir.path().join("f.csv.json")).unwrap();
        let content = Provenance::from_json(&told).unwrap().content.unwrap();
        let bytes = std::fs::read(&path).unwrap();
        assert_eq!((content.bytes, content.crc32), (bytes.len() as u64, crc32fast::hash(&bytes)));
    }

    #[test]
    fn an_npz_table_has_the_columns_that_are_known() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f.npz");
        written(&path, &NOTES);
        let mut npz = Npz::open(&path).unwrap();
        let names =
            ["frame", "bunch_id", "storage_cell", "lost_packets", "lost_pixels", "clusters", "provenance"];
        let mut found = npz.names();
        found.sort();
        let mut want: Vec<_> = names.map(String::from).to_vec();
        want.sort();
        assert_eq!(found, want);
        let mut column = |name: &str| npz.need(name).unwrap().values::<u64>(name, &path).unwrap();
        assert_eq!(column("frame"), [7, 9, 7, 9]);
        assert_eq!(column("bunch_id"), [1 << 63, UNKNOWN, UNKNOWN, UNKNOWN]);
        assert_eq!(column("lost_packets"), [2, UNKNOWN, UNKNOWN, UNKNOWN]);
        assert_eq!(column("lost_pixels"), [0, 31, 0, 0]);
        assert_eq!(column("clusters"), [2, 0, 2, 0]);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    /// A table of a run that did not end takes no name that is taken.
    #[test]
    fn a_table_that_ends_early_stands_beside_an_old_one() {
        for ext in ["csv", "npz"] {
            for (how, name) in [(How::Complete, "f"), (How::Stopped, "f.partial"), (How::Fault, "f.partial")]
            {
                let dir = tempfile::tempdir().unwrap();
                let path = dir.path().join(format!("f.{ext}"));
                std::fs::write(&path, b"before").unwrap();
                let mut table = open_frame_table(&path).unwrap();
                assert_eq!(table.name(), path.display().to_string());
                table.write(&Batch::of(batch().view())).unwrap();
                let ended = Ending { how, why: None };
                let written =
                    table.finish(&Provenance { frames: 2, ended, ..Provenance::default() }).unwrap();
                assert_eq!(written.paths[0], dir.path().join(format!("{name}.{ext}")), "{how:?}");
                let kept = std::fs::read(&path).unwrap() == b"before";
                assert_eq!(kept, how != How::Complete, "{how:?} {ext}");
            }
        }
    }

    #[test]
    fn other_endings_are_refused() {
        let said = open_frame_table("f.txt").err().unwrap().to_string();
        assert_eq!(said, "f.txt: tables of frames are written to .csv and .npz files");
    }

    /// A table that got two batches, of which the second has not reached its file.
    fn broken(path: &Path) -> String {
        let buf = batch();
        let write =
            |table: &mut dyn Sink| table.write(&Batch::of(buf.view()).with_notes(&NOTES, &[0, 31])).unwrap();
        let told = Provenance { frames: 4, ended: complete(), ..Provenance::default() };
        let said = if path.extension().is_some_and(|e| e == "csv") {
            let mut table = CsvTable::create(path.into()).unwrap();
            write(&mut table);
            table.out.as_mut().unwrap().flush().unwrap();
            write(&mut table);
            output::break_off(table.out.as_mut().unwrap());
            table.finish(&told)
        } else {
            let mut table = NpzTable::create(path.into()).unwrap();
            write(&mut table);
            let columns = table.columns.as_mut().unwrap();
            columns.files.iter_mut().for_each(|file| file.flush().unwrap());
            write(&mut table);
            let columns = table.columns.as_mut().unwrap();
            output::break_off(&mut columns.files[3]);
            // Columns were begun when it was seen that one of them is short.
            columns.archive.start("frame", b"").unwrap();
            table.finish(&told)
        };
        said.unwrap_err().to_string()
    }

    /// Fault: the beginning of a table is thrown away with its end, or a part is called whole.
    #[test]
    fn a_table_that_cannot_be_written_to_its_end_keeps_its_beginning() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["f.csv", "f.npz"] {
            let said = broken(&dir.path().join(name));
            let part = dir.path().join(name.replace('.', ".partial."));
            let start = format!("{}: holds the result up to and with frame 9 only: ", part.display());
            assert!(said.starts_with(&start), "{said}");
            if name == "f.npz" {
                let mut npz = Npz::open(&part).unwrap();
                let frames = npz.need("frame").unwrap().values::<u64>("frame", &part).unwrap();
                let clusters = npz.need("clusters").unwrap().values::<u64>("clusters", &part).unwrap();
                assert_eq!((frames, clusters), (vec![7, 9], vec![2, 0]));
                assert_eq!(npz.json("provenance").unwrap().unwrap()["frames"], 2);
                continue;
            }
            let text = std::fs::read_to_string(&part).unwrap();
            assert_eq!(
                text.lines().skip(1).collect::<Vec<_>>(),
                ["7,9223372036854775808,,0,2,0,2", "9,,,,,31,0"]
            );
            assert!(text.ends_with('\n'));
        }
    }

    #[test]
    fn a_table_of_no_frames_of_a_run_is_left_out() {
        let dir = tempfile::tempdir().unwrap();
        let inputs = vec![crate::provenance::Input::file("data", "d.npy")];
        let told = Provenance { inputs, ended: complete(), ..Provenance::default() };
        for name in ["f.csv", "f.npz"] {
            let mut table = open_frame_table(dir.path().join(name)).unwrap();
            assert_eq!(table.finish(&told).unwrap(), Written::nowhere());
        }
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}
