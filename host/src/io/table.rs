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

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::io::archive::write_npz;
    use crate::io::npy::NpyHeader;

    fn array(descr: &str, sides: &[u64], bytes: &[u8]) -> Vec<u8> {
        let descr = if descr.starts_with('[') { descr.to_string() } else { format!("'{descr}'") };
        [NpyHeader::write(&descr, sides), bytes.to_vec()].concat()
    }

    fn in_fortran_order(array: &[u8]) -> Vec<u8> {
        let at = array.windows(5).position(|w| w == b"False").unwrap();
        [&array[..at], b"True ", &array[at + 5..]].concat()
    }

    /// Columns of two clusters of 2x2, of which one is another.
    fn open(path: &Path, name: &str, instead: Vec<u8>) -> Result<TableReader> {
        let good = |name: &str| match name {
            "frame" => array("<u8", &[2], bytemuck::cast_slice(&[7u64, 9])),
            "data" => array("<i2", &[2, 2, 2], bytemuck::cast_slice(&[1i16, 2, 3, 4, 5, 6, 7, 8])),
            _ => array("<u2", &[2], bytemuck::cast_slice(&[3u16, 4])),
        };
        let all = NAMES.map(|n| (n, if n == name { instead.clone() } else { good(n) }));
        write_npz(path, &all).unwrap();
        TableReader::open(path)
    }

    #[test]
    fn columns_that_do_not_fit_are_named_with_what_they_are() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.npz");
        let rows = "expected one row a cluster";
        let one = "expected one integer a cluster";
        for (name, instead, words) in [
            ("frame", array("<u8", &[], &[0; 8]), format!("array frame has shape [], frame has []: {rows}")),
            ("x", array("<u2", &[3], &[0; 6]), format!("array x has shape [3], frame has [2]: {rows}")),
            ("y", array("<u2", &[], &[0; 2]), format!("array y has shape [], frame has [2]: {rows}")),
            (
                "data",
                array("<i2", &[1, 2, 2], &[0; 8]),
                format!("array data has shape [1, 2, 2], frame has [2]: {rows}"),
            ),
            (
                "data",
                in_fortran_order(&array("<i2", &[2, 2, 2], &[0; 16])),
                "array data is in Fortran order, expected C order".into(),
            ),
            ("x", array(">u2", &[2], &[0; 4]), "array x is big-endian (>u2), expected little-endian".into()),
            ("data", array(">i2", &[2, 2, 2], &[0; 16]), "array data is big-endian (>i2)".into()),
            ("frame", array("<f8", &[2], &[0; 16]), format!("array frame is <f8 with rows of [], {one}")),
            ("frame", array("<u16", &[2], &[0; 32]), format!("array frame is <u16 with rows of [], {one}")),
            ("y", array("<u2", &[2, 2], &[0; 8]), format!("array y is <u2 with rows of [2], {one}")),
            ("x", array("[('a', '<u2')]", &[2], &[0; 4]), "array x holds records, expected numbers".into()),
            (
                "data",
                array("<i8", &[2, 2, 2], &[0; 64]),
                "array data is <i8, expected i4, i2, f2 or f4".into(),
            ),
            (
                "data",
                array("<u2", &[2, 2, 2], &[0; 16]),
                "array data is <u2, expected i4, i2, f2 or f4".into(),
            ),
            (
                "data",
                array("<f8", &[2, 2, 2], &[0; 64]),
                "array data is <f8, expected i4, i2, f2 or f4".into(),
            ),
            ("data", array("<i2", &[2, 4], &[0; 16]), "array data has rows of [4], expected (h, w)".into()),
            ("data", array("<i2", &[2, 1, 2], &[0; 8]), "2x1".into()),
        ] {
            let said = open(&path, name, instead).unwrap_err().to_string();
            assert!(said.contains("a.npz: ") && said.contains(&words), "{words}: {said}");
        }
    }

    /// Any integers of up to 8 bytes, as far as a frame or a pixel has such a number.
    #[test]
    fn numbers_of_any_size_are_read_and_strange_ones_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.npz");
        let bytes = |v: i64, size: usize| v.to_le_bytes()[..size].to_vec();
        for size in [1, 2, 4, 8] {
            let most = if size == 8 { i64::MAX } else { (1 << (8 * size - 1)) - 1 };
            for (kind, name, value) in [
                ('i', "frame", most),
                ('i', "frame", 0),
                ('u', "frame", if size == 8 { -1 } else { 2 * most + 1 }),
                ('i', "x", most.min(65_535)),
                ('u', "y", (2 * (most & 0xffff) + 1).min(65_535)),
            ] {
                let both = [bytes(5, size), bytes(value, size)].concat();
                let column = in_fortran_order(&array(&format!("<{kind}{size}"), &[2], &both));
                let mut table = open(&path, name, column).unwrap();
                let mut buf = table.buffer();
                assert_eq!(table.read(&mut buf, 9).unwrap(), 2);
                let (view, value) = (buf.view(), value as u64);
                let (numbers, last) = (view.numbers(), view.get(1));
                let expected = match name {
                    "frame" => ([5, value], 4, 4),
                    "x" => ([7, 9], value as u16, 4),
                    _ => ([7, 9], 4, value as u16),
                };
                assert_eq!(
                    (numbers, last.x, last.y),
                    (&expected.0[..], expected.1, expected.2),
                    "{kind}{size} {name}"
                );
            }
            for value in [-1, -most - 1] {
                for name in ["frame", "x", "y"] {
                    let both = [bytes(5, size), bytes(value, size)].concat();
                    let mut table = open(&path, name, array(&format!("<i{size}"), &[2], &both)).unwrap();
                    let mut buf = table.buffer();
                    let said = table.read(&mut buf, 9).unwrap_err().to_string();
                    assert!(
                        said.ends_with(&format!("a.npz: cluster 1: {name} is a negative number")),
                        "{said}"
                    );
                    // Whether the first frame ends there is not known when the next number is none.
                    assert_eq!(buf.view().frames(), usize::from(name != "frame"));
                }
            }
        }
        for name in ["x", "y"] {
            let column = array("<u4", &[2], bytemuck::cast_slice(&[65_536u32, 0]));
            let mut table = open(&path, name, column).unwrap();
            let mut buf = table.buffer();
            let said = table.read(&mut buf, 9).unwrap_err().to_string();
            assert!(said.ends_with(&format!("a.npz: cluster 0: {name} is 65536")), "{said}");
        }
    }

    #[test]
    fn checksums_are_looked_at_with_the_last_rows() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.npz");
        let mut table = open(&path, "", Vec::new()).unwrap();
        assert_eq!((table.name(), table.clusters()), (path.display().to_string(), 2));
        assert_eq!((table.size(), table.payload()), (ClusterSize { w: 2, h: 2 }, Payload::I16));
        let mut buf = table.buffer();
        for state in [Checksum::Unread, Checksum::Unread, Checksum::Agrees] {
            assert_eq!(table.checksum(), state);
            table.read_frame(&mut buf).unwrap();
        }
        assert!(!table.read_frame(&mut buf).unwrap());
        assert!(table.notes().is_empty() && table.provenance().is_none());

        // Records have one where a file beside theirs tells it. Their name may be any but that of an archive.
        let descr = "[('frame', '<u8'), ('x', '<u2'), ('y', '<u2'), ('data', '<i2', (2, 2))]";
        let content = array(descr, &[3], &[1; 60]);
        for name in ["a.npy", "a.NPY", "records"] {
            let path = dir.path().join(name);
            fs::write(&path, &content).unwrap();
            let told = |clusters: u64, crc: u32| {
                format!(
                    r#"{{"host": "h", "clusters": {clusters}, "content": {{"bytes": {}, "crc32": {crc}}}}}"#,
                    content.len()
                )
            };
            let crc = crc32fast::hash(&content);
            for (beside, before, after, notes) in [
                (None, Checksum::None, Checksum::None, 0),
                (Some("{}".to_string()), Checksum::None, Checksum::None, 0),
                (Some(told(3, crc)), Checksum::Unread, Checksum::Agrees, 0),
                (Some(told(4, crc)), Checksum::Unread, Checksum::Agrees, 1),
            ] {
                let json = dir.path().join(format!("{name}.json"));
                if let Some(said) = &beside {
                    fs::write(&json, said).unwrap();
                }
                let mut table = TableReader::open(&path).unwrap();
                assert_eq!(table.checksum(), before);
                let mut buf = table.buffer();
                // All of one frame, though they are three.
                assert_eq!((table.read(&mut buf, 9).unwrap(), buf.view().len()), (1, 3));
                assert_eq!((table.checksum(), table.notes().len()), (after, notes));
                assert_eq!(table.provenance().is_some(), beside.is_some());
            }
            fs::write(dir.path().join(format!("{name}.json")), told(3, 1)).unwrap();
            let mut table = TableReader::open(&path).unwrap();
            let said = table.read_frame(&mut buf).unwrap_err().to_string();
            assert!(said.contains("its content is damaged"), "{said}");
            fs::remove_file(dir.path().join(format!("{name}.json"))).unwrap();
        }
        let mut damaged = fs::read(&path).unwrap();
        let at = damaged.windows(4).position(|w| w == [3, 0, 4, 0]).unwrap();
        damaged[at] ^= 1;
        fs::write(&path, damaged).unwrap();
        let said = TableReader::open(&path).unwrap().read(&mut buf, 9).unwrap_err().to_string();
        assert!(said.contains("a.npz: array x is damaged"), "{said}");
    }
    /// Fault: what has no rows is never read, and so its checksum never looked at.
    #[test]
    fn columns_without_rows_are_looked_at_too() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.npz");
        let descr = |name: &str| match name {
            "frame" => array("<u8", &[0], &[]),
            "data" => array("<i2", &[0, 2, 2], &[]),
            _ => array("<u2", &[0], &[]),
        };
        write_npz(&path, &NAMES.map(|n| (n, descr(n)))).unwrap();
        let mut table = TableReader::open(&path).unwrap();
        let mut buf = table.buffer();
        assert_eq!(
            (table.read(&mut buf, 9).unwrap(), table.clusters(), table.checksum()),
            (0, 0, Checksum::Agrees)
        );
        let whole = fs::read(&path).unwrap();
        // A space of the header of `x` becomes a tab.
        let x = whole.windows(5).position(|w| w == b"x.npy").unwrap();
        let at = x + whole[x..].windows(2).position(|w| w == b"  ").unwrap();
        let mut damaged = whole;
        damaged[at] = b'\t';
        fs::write(&path, damaged).unwrap();
        let said = TableReader::open(&path).unwrap_err().to_string();
        assert!(said.contains("a.npz: array x is damaged"), "{said}");
    }
}
