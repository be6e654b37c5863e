//! Clusters read back from columns: `.npz`, or `.npy` of records, as [`NpzSink`](super::NpzSink) and
//! [`NpySink`](super::NpySink) write them, or anything else with the same columns.

use std::path::{Path, PathBuf};

use scheidegg_finder::{ClusterSize, ClustersBuf, Error, Payload, Result};

use super::Results;
use super::npy::{Dtype, Scalar};
use super::npz::{Array, Npz};
use super::read_at::Blob;

/// Rows that are held in memory.
const BLOCK: u64 = 1 << 16;

/// One column: a number or a window for every cluster.
#[derive(Debug)]
struct Column {
    blob: Blob,
    scalar: Scalar,
    /// Offset of the first row's bytes, and from row to row.
    first: u64,
    stride: u64,
    /// Bytes of a row.
    bytes: usize,
    /// Rows `block_first ..` as they lie in the file, `stride` apart.
    block: Vec<u8>,
    block_first: u64,
    block_rows: u64,
}

impl Column {
    fn new(array: &Array, scalar: Scalar, offset: usize, bytes: usize) -> Column {
        Column {
            blob: array.blob.clone(),
            scalar,
            first: array.data + offset as u64,
            stride: array.header.data_bytes().unwrap_or(0) / array.header.shape[0].max(1),
            bytes,
            block: Vec::new(),
            block_first: 0,
            block_rows: 0,
        }
    }

    /// The bytes of a row, of `rows`.
    fn row(&mut self, k: u64, rows: u64) -> std::io::Result<&[u8]> {
        if k < self.block_first || k >= self.block_first + self.block_rows {
            let count = BLOCK.min(rows - k);
            self.block.resize((count - 1) as usize * self.stride as usize + self.bytes, 0);
            self.blob.read_exact_at(&mut self.block, self.first + k * self.stride)?;
            (self.block_first, self.block_rows) = (k, count);
        }
        Ok(&self.block[(k - self.block_first) as usize * self.stride as usize..][..self.bytes])
    }

    /// An integer of a row, if it is not negative.
    fn number(&mut self, k: u64, rows: u64) -> std::io::Result<Option<u64>> {
        let signed = self.scalar.kind == 'i';
        let b = self.row(k, rows)?;
        let mut all = [if signed && b[b.len() - 1] >= 0x80 { 0xff } else { 0 }; 8];
        all[..b.len()].copy_from_slice(b);
        let number = u64::from_le_bytes(all);
        Ok(if signed { u64::try_from(number as i64).ok() } else { Some(number) })
    }
}

/// Reads clusters from columns. Clusters that follow each other with the same frame number are one frame.
#[derive(Debug)]
pub struct TableReader {
    path: PathBuf,
    size: ClusterSize,
    payload: Payload,
    frame: Column,
    x: Column,
    y: Column,
    data: Column,
    rows: u64,
    next: u64,
    records: Vec<u8>,
}

impl TableReader {
    /// Opens a `.npz` or `.npy` file.
    ///
    /// # Errors
    /// [`Error::File`] for a column that is missing or of another type.
    pub fn open(path: &Path) -> Result<TableReader> {
        let is_npz = path.extension().is_some_and(|e| e.eq_ignore_ascii_case("npz"));
        let err = |what: String| Error::file(path, what);
        // Every column as an array, a scalar type, the sides of a row and the row's offset in an element.
        let columns: Vec<(Array, Scalar, Vec<u64>, usize)> = if is_npz {
            let mut npz = Npz::open(path)?;
            let column = |name: &&str| {
                let array = npz.need(name)?;
                let Dtype::One(scalar) = array.header.dtype else {
                    return Err(err(format!("array {name} holds records, expected numbers")));
                };
                let sides = array.header.shape.get(1..).unwrap_or(&[]).to_vec();
                Ok((array, scalar, sides, 0))
            };
            NAMES.iter().map(column).collect::<Result<_>>()?
        } else {
            let (blob, bytes) = Blob::open(path)?;
            let array = Array::at(blob, 0, bytes).map_err(err)?;
            let column = |name: &&str| {
                let fields =
                    if let Dtype::Record(fields) = &array.header.dtype { fields.as_slice() } else { &[] };
                let field = fields.iter().find(|f| f.name == **name).ok_or_else(|| {
                    err(format!("holds {}, expected records with frame, x, y and data", array.header.dtype))
                })?;
                Ok((array.clone(), field.scalar, field.shape.clone(), field.offset))
            };
            NAMES.iter().map(column).collect::<Result<_>>()?
        };
        let rows = columns[0].0.header.shape.first().copied();
        for (name, (array, scalar, sides, _)) in NAMES.iter().zip(&columns) {
            let h = &array.header;
            if h.shape.first().copied() != rows || rows.is_none() {
                let what = format!(
                    "array {name} has shape {:?}, frame has {:?}",
                    h.shape, columns[0].0.header.shape
                );
                return Err(err(format!("{what}: expected one row a cluster")));
            }
            if h.fortran_order && h.shape.len() > 1 {
                return Err(err(format!("array {name} is in Fortran order, expected C order")));
            }
            if scalar.big_endian {
                return Err(err(format!("array {name} is big-endian ({scalar}), expected little-endian")));
            }
            if *name != "data" && !("iu".contains(scalar.kind) && scalar.size <= 8 && sides.is_empty()) {
                return Err(err(format!(
                    "array {name} is {scalar} with rows of {sides:?}, expected one integer a cluster"
                )));
            }
        }
        let (_, scalar, sides, _) = &columns[3];
        let payload = match (scalar.kind, scalar.size) {
            ('i', 4) => Payload::I32,
            ('i', 2) => Payload::I16,
            ('f', 2) => Payload::F16,
            ('f', 4) => Payload::F32,
            _ => return Err(err(format!("array data is {scalar}, expected i4, i2, f2 or f4"))),
        };
        let size = match sides.as_slice() {
            &[h, w] => ClusterSize::new(
                usize::try_from(w).unwrap_or(usize::MAX),
                usize::try_from(h).unwrap_or(usize::MAX),
            )
            .map_err(|e| err(e.to_string()))?,
            other => return Err(err(format!("array data has rows of {other:?}, expected (h, w)"))),
        };
        let mut columns = columns.into_iter().map(|(array, scalar, sides, offset)| {
            let bytes = scalar.size * sides.iter().product::<u64>() as usize;
            Column::new(&array, scalar, offset, bytes)
        });
        let mut next = || columns.next().expect("four columns");
        Ok(TableReader {
            path: path.to_path_buf(),
            size,
            payload,
            frame: next(),
            x: next(),
            y: next(),
            data: next(),
            rows: rows.unwrap_or(0),
            next: 0,
            records: Vec::new(),
        })
    }

    /// Clusters of the file.
    pub fn clusters(&self) -> u64 {
        self.rows
    }
}

const NAMES: [&str; 4] = ["frame", "x", "y", "data"];

impl Results for TableReader {
    fn name(&self) -> String {
        self.path.display().to_string()
    }

    fn size(&self) -> ClusterSize {
        self.size
    }

    fn payload(&self) -> Payload {
        self.payload
    }

    fn read_frame(&mut self, into: &mut ClustersBuf) -> Result<bool> {
        let io = |path: &Path, e| Error::io(path, e);
        let mut number = None;
        self.records.clear();
        while self.next < self.rows {
            let k = self.next;
            let bad = |what: &str, found: Option<u64>| {
                let found = found.map_or("a negative number".into(), |n| n.to_string());
                Error::file(&self.path, format!("cluster {k}: {what} is {found}"))
            };
            let frame = self.frame.number(k, self.rows).map_err(|e| io(&self.path, e))?;
            let Some(frame) = frame else { return Err(bad("frame", frame)) };
            if *number.get_or_insert(frame) != frame {
                break;
            }
            for (what, column) in [("x", &mut self.x), ("y", &mut self.y)] {
                let found = column.number(k, self.rows).map_err(|e| io(&self.path, e))?;
                let Some(at) = found.and_then(|n| u16::try_from(n).ok()) else {
                    return Err(bad(what, found));
                };
                self.records.extend(at.to_le_bytes());
            }
            let data = self.data.row(k, self.rows).map_err(|e| io(&self.path, e))?;
            self.records.extend_from_slice(data);
            self.next += 1;
        }
        let Some(number) = number else { return Ok(false) };
        into.push_frame(number, &self.records);
        Ok(true)
    }
}
