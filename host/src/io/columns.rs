//! Clusters as columns: `.npz` with `frame, x, y, data`, and `.npy` with the same as fields of a record.

use std::fs::File;
use std::io::{self, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use scheidegg_finder::{ClusterSize, Clusters, Payload, Result};
use zip::result::ZipError;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

use super::npy::NpyRows;
use super::output::{self, Output};
use super::{Kind, Sink};

/// The numpy type of a payload.
pub(crate) const fn descr(payload: Payload) -> &'static str {
    match payload {
        Payload::I32 => "<i4",
        Payload::I16 => "<i2",
        Payload::F16 => "<f2",
        Payload::F32 => "<f4",
    }
}

/// Bytes of an archive member from which on zip needs its 64-bit form.
const LARGE: u64 = u32::MAX as u64;

/// Writes a `.npz` file: `frame` (`u64`), `x` and `y` (`u16`), one number a cluster, and `data`, `clusters x h x w` in the
/// type of the payload. Numpy reads it; it is not compressed. Frames without clusters leave no trace in it.
///
/// While it is written, every column grows in a file of its own beside it, so that memory stays bounded.
#[derive(Debug)]
pub struct NpzSink {
    columns: Option<[NpyRows; 4]>,
    kind: Kind,
    scratch: [Vec<u8>; 4],
}

const COLUMNS: [&str; 4] = ["frame", "x", "y", "data"];

impl NpzSink {
    /// Starts a file for clusters of this kind.
    ///
    /// # Errors
    /// As [`Output::create`].
    pub fn create(path: impl Into<PathBuf>, size: ClusterSize, payload: Payload) -> Result<NpzSink> {
        let kind = Kind { path: path.into(), size, payload };
        let window = [size.h as u64, size.w as u64];
        // Each under the archive's name, which none of them is ever given: so complaints name the archive.
        let column = |descr: &str, row: &[u64]| NpyRows::create(&kind.path, &format!("'{descr}'"), row);
        let columns =
            [column("<u8", &[])?, column("<u2", &[])?, column("<u2", &[])?, column(descr(payload), &window)?];
        Ok(NpzSink { columns: Some(columns), kind, scratch: Default::default() })
    }
}

impl Sink for NpzSink {
    fn write(&mut self, batch: &Clusters<'_>) -> Result<()> {
        self.kind.check(batch)?;
        let Some(columns) = &mut self.columns else { return Err(self.kind.ended()) };
        let [frame, x, y, data] = &mut self.scratch;
        for column in [&mut *frame, x, y, data] {
            column.clear();
        }
        for (k, number) in batch.numbers().iter().enumerate() {
            for record in batch.frame_bytes(k).chunks_exact(batch.record_bytes()) {
                frame.extend(number.to_le_bytes());
                x.extend_from_slice(&record[..2]);
                y.extend_from_slice(&record[2..4]);
                data.extend_from_slice(&record[4..]);
            }
        }
        for (column, bytes) in columns.iter_mut().zip(&self.scratch) {
            column.write(batch.len() as u64, bytes)?;
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<()> {
        let Some(mut columns) = self.columns.take() else { return Ok(()) };
        let mut out = Output::create(&self.kind.path)?;
        let members = COLUMNS.iter().zip(&mut columns).map(|(name, column)| {
            let file = column.complete()?.reread()?;
            Ok((name.to_string(), file))
        });
        archive(&mut out, members)?;
        out.finish()
    }
}

/// Writes an archive of arrays, whole files each, not compressed.
fn archive<'a>(
    out: &mut Output,
    members: impl Iterator<Item = Result<(String, &'a mut File)>>,
) -> Result<()> {
    let path = out.path().to_path_buf();
    let failed = |e: io::Error| output::failed(&path, e);
    zipped(out, |zip| {
        for member in members {
            let (name, file) = member?;
            let bytes = file.metadata().map_err(failed)?.len();
            zip.start_file(format!("{name}.npy"), stored(bytes)).map_err(|e| failed(system(e)))?;
            let copied = io::copy(&mut file.take(bytes), zip).map_err(failed)?;
            if copied != bytes {
                return Err(failed(io::ErrorKind::UnexpectedEof.into()));
            }
        }
        Ok(())
    })
}

/// An archive in a file, filled by `fill`.
fn zipped(out: &mut Output, fill: impl FnOnce(&mut Zip<'_>) -> Result<()>) -> Result<()> {
    let path = out.path().to_path_buf();
    let mut zip = ZipWriter::new(out.writer());
    let filled = fill(&mut zip).and_then(|()| zip.flush().map_err(|e| output::failed(&path, e)));
    if let Err(e) = filled {
        // Dropped, it would try to end an archive that nobody wants, and print that this failed.
        std::mem::forget(zip);
        return Err(e);
    }
    zip.finish().map(|_| ()).map_err(|e| output::failed(&path, system(e)))
}

type Zip<'a> = ZipWriter<&'a mut BufWriter<File>>;

/// The system's own error, where there is one.
fn system(e: ZipError) -> io::Error {
    match e {
        ZipError::Io(e) => e,
        e => e.into(),
    }
}

fn stored(bytes: u64) -> SimpleFileOptions {
    SimpleFileOptions::default().compression_method(CompressionMethod::Stored).large_file(bytes >= LARGE)
}

/// Writes small arrays, whole `.npy` files in memory, as one `.npz` file.
pub(crate) fn write_npz(path: &Path, members: &[(&str, Vec<u8>)]) -> Result<()> {
    let mut out = Output::create(path)?;
    let failed = |e: io::Error| output::failed(path, e);
    zipped(&mut out, |zip| {
        for (name, bytes) in members {
            let options = stored(bytes.len() as u64);
            zip.start_file(format!("{name}.npy"), options).map_err(|e| failed(system(e)))?;
            zip.write_all(bytes).map_err(failed)?;
        }
        Ok(())
    })?;
    out.finish()
}

/// Writes a `.npy` file of records with the fields `frame`, `x`, `y` and `data`. Frames without clusters leave no trace in
/// it.
#[derive(Debug)]
pub struct NpySink {
    rows: Option<NpyRows>,
    kind: Kind,
    scratch: Vec<u8>,
}

impl NpySink {
    /// Starts a file for clusters of this kind.
    ///
    /// # Errors
    /// As [`Output::create`].
    pub fn create(path: impl Into<PathBuf>, size: ClusterSize, payload: Payload) -> Result<NpySink> {
        let kind = Kind { path: path.into(), size, payload };
        let record = format!(
            "[('frame', '<u8'), ('x', '<u2'), ('y', '<u2'), ('data', '{}', ({}, {}))]",
            descr(payload),
            size.h,
            size.w
        );
        let rows = NpyRows::create(&kind.path, &record, &[])?;
        Ok(NpySink { rows: Some(rows), kind, scratch: Vec::new() })
    }
}

impl Sink for NpySink {
    fn write(&mut self, batch: &Clusters<'_>) -> Result<()> {
        self.kind.check(batch)?;
        let Some(rows) = &mut self.rows else { return Err(self.kind.ended()) };
        self.scratch.clear();
        for (k, number) in batch.numbers().iter().enumerate() {
            for record in batch.frame_bytes(k).chunks_exact(batch.record_bytes()) {
                self.scratch.extend(number.to_le_bytes());
                self.scratch.extend_from_slice(record);
            }
        }
        rows.write(batch.len() as u64, &self.scratch)
    }

    fn finish(&mut self) -> Result<()> {
        self.rows.take().map_or(Ok(()), NpyRows::finish)
    }
}
