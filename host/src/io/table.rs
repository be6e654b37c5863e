//! Clusters read back from columns: `.npz`, or `.npy` of records, as [`NpzSink`](super::NpzSink) and
//! [`NpySink`](super::NpySink) write them, or anything else with the same columns.

use std::ops::Range;
use std::path::{Path, PathBuf};

use scheidegg_finder::{ClusterSize, ClustersBuf, Error, Payload, Result};

use serde_json::Value;

use super::npy::{Dtype, Scalar};
use super::npz::{Array, Npz};
use super::origin::Beside;
use super::read_at::Blob;
use super::rows::ArrayRows;
use super::{Checksum, Results};

/// One column: a number or a window for every cluster, as part of the rows of an array.
#[derive(Debug)]
struct Column {
    /// Which array.
    array: usize,
    scalar: Scalar,
    /// Where it lies in a row.
    bytes: Range<usize>,
}

impl Column {
    /// The bytes of a row.
    fn row<'a>(&self, arrays: &'a mut [ArrayRows], k: u64) -> Result<&'a [u8]> {
        arrays[self.array].row(k).map(|row| &row[self.bytes.clone()])
    }

    /// An integer of a row, if it is not negative.
    fn number(&self, arrays: &mut [ArrayRows], k: u64) -> Result<Option<u64>> {
        let signed = self.scalar.kind == 'i';
        let b = self.row(arrays, k)?;
        let mut all = [if signed && b[b.len() - 1] >= 0x80 { 0xff } else { 0 }; 8];
        all[..b.len()].copy_from_slice(b);
        let number = u64::from_le_bytes(all);
        Ok(if signed { u64::try_from(number as i64).ok() } else { Some(number) })
    }
}

/// Reads clusters from columns. Clusters that follow each other with the same frame number are one frame.
///
/// # Checksums
/// The CRC-32 of an array of a `.npz` file is looked at when its last rows are read, before any of these is handed out; so is
/// that of a `.npy` file where a file `NAME.json` beside it tells one.
#[derive(Debug)]
pub struct TableReader {
    path: PathBuf,
    size: ClusterSize,
    payload: Payload,
    arrays: Vec<ArrayRows>,
    columns: [Column; 4],
    rows: u64,
    next: u64,
    records: Vec<u8>,
    beside: Option<Beside>,
    provenance: Option<Value>,
    /// Whether there are checksums.
    sums: bool,
}

/// The columns, in the order of [`TableReader::columns`].
const NAMES: [&str; 4] = ["frame", "x", "y", "data"];

/// A column as a file has it.
struct Found {
    array: usize,
    scalar: Scalar,
    /// The sides of a row, and its first byte in the array's rows.
    sides: Vec<u64>,
    offset: usize,
}

impl TableReader {
    /// Opens a `.npz` or `.npy` file.
    ///
    /// # Errors
    /// [`Error::File`] for a column that is missing or of another type.
    pub fn open(path: &Path) -> Result<TableReader> {
        let is_npz = path.extension().is_some_and(|e| e.eq_ignore_ascii_case("npz"));
        let beside = if is_npz { None } else { Beside::of(path)? };
        let (arrays, found, provenance) =
            if is_npz { arrays_of_archive(path)? } else { records_of_file(path, beside.as_ref())? };
        check(path, &arrays, &found)?;
        let (size, payload) = kind_of(path, &found[3])?;
        let rows = arrays.iter().enumerate().map(|(k, array)| {
            let what = if is_npz { format!("array {}", NAMES[k]) } else { "its content".into() };
            ArrayRows::new(array, what, path)
        });
        let arrays: Vec<ArrayRows> = rows.collect::<Result<_>>()?;
        let columns = found.map(|f| {
            let bytes = f.scalar.size * f.sides.iter().product::<u64>() as usize;
            Column { array: f.array, scalar: f.scalar, bytes: f.offset..f.offset + bytes }
        });
        let rows = arrays[0].rows();
        Ok(TableReader {
            path: path.to_path_buf(),
            size,
            payload,
            arrays,
            columns,
            rows,
            next: 0,
            records: Vec::new(),
            sums: is_npz || beside.as_ref().is_some_and(|b| b.watch().is_some()),
            beside,
            provenance,
        })
    }

    /// Clusters of the file.
    pub fn clusters(&self) -> u64 {
        self.rows
    }
}

/// An array a column, and where they come from.
fn arrays_of_archive(path: &Path) -> Result<(Vec<Array>, [Found; 4], Option<Value>)> {
    let mut npz = Npz::open(path)?;
    let arrays: Vec<Array> = NAMES.iter().map(|name| npz.need(name)).collect::<Result<_>>()?;
    let mut found = Vec::new();
    for (k, array) in arrays.iter().enumerate() {
        let Dtype::One(scalar) = array.header.dtype else {
            return Err(Error::file(path, format!("array {} holds records, expected numbers", NAMES[k])));
        };
        let sides = array.header.shape.get(1..).unwrap_or(&[]).to_vec();
        found.push(Found { array: k, scalar, sides, offset: 0 });
    }
    let provenance = npz.json("provenance")?;
    Ok((arrays, four(found), provenance))
}

/// A field of an array of records a column.
fn records_of_file(path: &Path, beside: Option<&Beside>) -> Result<(Vec<Array>, [Found; 4], Option<Value>)> {
    let err = |what: String| Error::file(path, what);
    let (blob, bytes) = Blob::open(path)?;
    let mut array = Array::at(blob, 0, bytes).map_err(err)?;
    if let Some(beside) = beside {
        beside.check_length(path, bytes)?;
        array.crc = beside.crc();
    }
    let fields = if let Dtype::Record(fields) = &array.header.dtype { fields.as_slice() } else { &[] };
    let column = |name: &&str| {
        let field = fields.iter().find(|f| f.name == **name).ok_or_else(|| {
            err(format!("holds {}, expected records with frame, x, y and data", array.header.dtype))
        })?;
        Ok(Found { array: 0, scalar: field.scalar, sides: field.shape.clone(), offset: field.offset })
    };
    let found = four(NAMES.iter().map(column).collect::<Result<_>>()?);
    Ok((vec![array], found, beside.map(|b| b.said.clone())))
}

fn four(found: Vec<Found>) -> [Found; 4] {
    found.try_into().unwrap_or_else(|_| unreachable!("one for each of four names"))
}

/// Refuses columns of different lengths, orders or types than are read here.
fn check(path: &Path, arrays: &[Array], found: &[Found; 4]) -> Result<()> {
    let err = |what: String| Err(Error::file(path, what));
    let first = &arrays[0].header.shape;
    for (name, f) in NAMES.iter().zip(found) {
        let h = &arrays[f.array].header;
        if h.shape.first() != first.first() || first.is_empty() {
            let what = format!("array {name} has shape {:?}, frame has {first:?}", h.shape);
            return err(format!("{what}: expected one row a cluster"));
        }
        if h.fortran_order && h.shape.len() > 1 {
            return err(format!("array {name} is in Fortran order, expected C order"));
        }
        let (scalar, sides) = (f.scalar, &f.sides);
        if scalar.big_endian {
            return err(format!("array {name} is big-endian ({scalar}), expected little-endian"));
        }
        if *name != "data" && !("iu".contains(scalar.kind) && scalar.size <= 8 && sides.is_empty()) {
            return err(format!(
                "array {name} is {scalar} with rows of {sides:?}, expected one integer a cluster"
            ));
        }
    }
    Ok(())
}

/// The window and the type of the column `data`.
fn kind_of(path: &Path, data: &Found) -> Result<(ClusterSize, Payload)> {
    let err = |what: String| Error::file(path, what);
    let payload = match (data.scalar.kind, data.scalar.size) {
        ('i', 4) => Payload::I32,
        ('i', 2) => Payload::I16,
        ('f', 2) => Payload::F16,
        ('f', 4) => Payload::F32,
        _ => return Err(err(format!("array data is {}, expected i4, i2, f2 or f4", data.scalar))),
    };
    let &[h, w] = data.sides.as_slice() else {
        return Err(err(format!("array data has rows of {:?}, expected (h, w)", data.sides)));
    };
    let side = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
    let size = ClusterSize::new(side(w), side(h)).map_err(|e| err(e.to_string()))?;
    Ok((size, payload))
}

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
        let mut number = None;
        let [frame_column, x, y, data] = &self.columns;
        self.records.clear();
        while self.next < self.rows {
            let k = self.next;
            let bad = |what: &str, found: Option<u64>| {
                let found = found.map_or("a negative number".into(), |n| n.to_string());
                Error::file(&self.path, format!("cluster {k}: {what} is {found}"))
            };
            let frame = frame_column.number(&mut self.arrays, k)?;
            let Some(frame) = frame else { return Err(bad("frame", frame)) };
            if *number.get_or_insert(frame) != frame {
                break;
            }
            for (what, column) in [("x", x), ("y", y)] {
                let found = column.number(&mut self.arrays, k)?;
                let Some(at) = found.and_then(|n| u16::try_from(n).ok()) else {
                    return Err(bad(what, found));
                };
                self.records.extend(at.to_le_bytes());
            }
            self.records.extend_from_slice(data.row(&mut self.arrays, k)?);
            self.next += 1;
        }
        let Some(number) = number else { return Ok(false) };
        into.push_frame(number, &self.records);
        Ok(true)
    }

    fn notes(&self) -> Vec<String> {
        let doubts = |b: &Beside| b.doubts(self.size, self.payload, None, Some(self.rows));
        self.beside.as_ref().map_or(Vec::new(), doubts)
    }

    fn checksum(&self) -> Checksum {
        match self.sums {
            false => Checksum::None,
            true if self.next < self.rows => Checksum::Unread,
            true => Checksum::Agrees,
        }
    }

    fn provenance(&self) -> Option<&Value> {
        self.provenance.as_ref()
    }
}
