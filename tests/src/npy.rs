//! Arrays in `.npz` archives: as much of numpy's format as the golden data need.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use zip::ZipArchive;

/// The values of an array in C order.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)]
pub enum Values {
    U8(Vec<u8>),
    U16(Vec<u16>),
    I32(Vec<i32>),
    U64(Vec<u64>),
    F32(Vec<f32>),
    F64(Vec<f64>),
}

/// An array: its shape and its values.
#[derive(Clone, Debug, PartialEq)]
pub struct Array {
    /// Lengths, slowest first.
    pub shape: Vec<usize>,
    /// Values in C order.
    pub values: Values,
}

macro_rules! getter {
    ($name:ident, $t:ty, $variant:ident) => {
        /// The values, when they have this type.
        ///
        /// # Errors
        /// A sentence that names the type found.
        pub fn $name(self) -> Result<Vec<$t>, String> {
            match self.values {
                Values::$variant(v) => Ok(v),
                other => Err(format!("{} expected, found {}", stringify!($t), other.kind())),
            }
        }
    };
}

impl Array {
    getter!(u8, u8, U8);
    getter!(u16, u16, U16);
    getter!(i32, i32, I32);
    getter!(u64, u64, U64);
}

impl Values {
    fn kind(&self) -> &'static str {
        match self {
            Values::U8(_) => "u8",
            Values::U16(_) => "u16",
            Values::I32(_) => "i32",
            Values::U64(_) => "u64",
            Values::F32(_) => "f32",
            Values::F64(_) => "f64",
        }
    }
}

/// An open archive.
pub struct Npz {
    name: String,
    zip: ZipArchive<File>,
}

impl Npz {
    /// Opens an archive.
    ///
    /// # Errors
    /// A sentence that names the file.
    pub fn open(path: &Path) -> Result<Npz, String> {
        let name = path.display().to_string();
        let file = File::open(path).map_err(|e| format!("{name}: {e}"))?;
        let zip = ZipArchive::new(file).map_err(|e| format!("{name}: {e}"))?;
        Ok(Npz { name, zip })
    }

    /// Whether it holds an array of this name.
    pub fn has(&self, array: &str) -> bool {
        self.zip.index_for_name(&format!("{array}.npy")).is_some()
    }

    /// One array.
    ///
    /// # Errors
    /// A sentence that names file and array.
    pub fn array(&mut self, array: &str) -> Result<Array, String> {
        let mut bytes = Vec::new();
        let at = |what: String| format!("{}: {array}: {what}", self.name);
        let mut entry = self.zip.by_name(&format!("{array}.npy")).map_err(|e| at(e.to_string()))?;
        entry.read_to_end(&mut bytes).map_err(|e| at(e.to_string()))?;
        parse(&bytes).map_err(at)
    }
}

/// Parses the bytes of a `.npy` file, little-endian and in C order.
///
/// # Errors
/// What is wrong with them.
pub fn parse(bytes: &[u8]) -> Result<Array, String> {
    let start = match bytes {
        [0x93, b'N', b'U', b'M', b'P', b'Y', 1, _, a, b, ..] => {
            10 + usize::from(u16::from_le_bytes([*a, *b]))
        }
        _ => return Err("no .npy file of version 1".into()),
    };
    let header = bytes.get(10..start).ok_or("cut in its header")?;
    let header = std::str::from_utf8(header).map_err(|e| e.to_string())?;
    let after = |key: &str| {
        header.split_once(key).map(|(_, rest)| rest.trim_start()).ok_or(format!("no {key} in its header"))
    };
    let descr = after("'descr':")?;
    let descr = descr.trim_start_matches('\'').split('\'').next().unwrap_or_default();
    let shape = after("'shape':")?.trim_start_matches('(').split(')').next().unwrap_or_default();
    let shape: Vec<usize> = shape
        .split(',')
        .filter(|s| !s.trim().is_empty())
        .map(|s| s.trim().parse().map_err(|_| format!("shape {shape}")))
        .collect::<Result<_, _>>()?;
    if after("'fortran_order':")?.starts_with("True") && shape.len() > 1 {
        return Err("in Fortran order".into());
    }
    let data = &bytes[start..];
    macro_rules! of {
        ($t:ty, $variant:ident) => {
            Values::$variant(
                data.chunks_exact(size_of::<$t>())
                    .map(|c| <$t>::from_le_bytes(c.try_into().expect("a chunk of its size")))
                    .collect(),
            )
        };
    }
    let (values, size) = match descr {
        "|u1" => (of!(u8, U8), 1),
        "<u2" => (of!(u16, U16), 2),
        "<i4" => (of!(i32, I32), 4),
        "<u8" => (of!(u64, U64), 8),
        "<f4" => (of!(f32, F32), 4),
        "<f8" => (of!(f64, F64), 8),
        other => return Err(format!("values of type {other}")),
    };
    let expected = shape.iter().product::<usize>() * size;
    if data.len() != expected {
        return Err(format!("{} bytes of data, its shape needs {expected}", data.len()));
    }
    Ok(Array { shape, values })
}
