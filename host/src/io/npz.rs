//! The arrays of a `.npz` file.

use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytemuck::Pod;
use scheidegg_finder::{Error, Result};
use zip::ZipArchive;
use zip::result::ZipError;

use super::npy::{self, NpyHeader};
use super::read_at::Blob;

/// An array of a file: where its elements lie, and what they are.
#[derive(Clone, Debug)]
pub(crate) struct Array {
    pub blob: Blob,
    /// Offset of the first element.
    pub data: u64,
    pub header: NpyHeader,
}

impl Array {
    /// The array that starts at `start` of a blob and has `bytes` bytes, header included.
    pub fn at(blob: Blob, start: u64, bytes: u64) -> Result<Array, String> {
        let header = npy::read_header(&blob, bytes, start)?;
        let (need, there) = (header.data_bytes().unwrap_or(u64::MAX), bytes - header.data);
        if need > there {
            return Err(format!("is cut: its header promises {need} bytes of elements, {there} are there"));
        }
        Ok(Array { blob, data: start + header.data, header })
    }

    /// All elements, whose type must have been looked at.
    pub fn values<T: Pod>(&self) -> Result<Vec<T>, String> {
        let bytes = self.header.data_bytes().and_then(|n| usize::try_from(n).ok()).ok_or("is too large")?;
        let mut all = vec![T::zeroed(); bytes / size_of::<T>()];
        self.blob.read_exact_at(bytemuck::cast_slice_mut(&mut all), self.data).map_err(|e| e.to_string())?;
        Ok(all)
    }
}

/// A `.npz` file.
#[derive(Debug)]
pub(crate) struct Npz {
    path: PathBuf,
    blob: Blob,
    archive: ZipArchive<BufReader<std::fs::File>>,
}

impl Npz {
    pub fn open(path: &Path) -> Result<Npz> {
        let (blob, _) = Blob::open(path)?;
        let file = std::fs::File::open(path).map_err(|e| Error::io(path, e))?;
        let archive = ZipArchive::new(BufReader::new(file)).map_err(|e| match e {
            ZipError::Io(e) => Error::io(path, e),
            e => Error::file(path, format!("is not a whole .npz file: {e}")),
        })?;
        Ok(Npz { path: path.to_path_buf(), blob, archive })
    }

    /// The names of the arrays.
    pub fn names(&self) -> Vec<String> {
        self.archive.file_names().filter_map(|n| n.strip_suffix(".npy")).map(String::from).collect()
    }

    /// One array, if it is there. An array that is stored as it is stays in the file, a compressed one is held in memory.
    pub fn array(&mut self, name: &str) -> Result<Option<Array>> {
        let err = |what: String| Error::file(&self.path, format!("array {name} {what}"));
        let mut member = match self.archive.by_name(&format!("{name}.npy")) {
            Ok(member) => member,
            Err(ZipError::FileNotFound) => return Ok(None),
            Err(e) => return Err(err(format!("cannot be read: {e}"))),
        };
        let bytes = member.size();
        let start = member.data_start();
        if let (zip::CompressionMethod::Stored, Some(start)) = (member.compression(), start) {
            return Array::at(self.blob.clone(), start, bytes).map(Some).map_err(err);
        }
        let mut content = Vec::new();
        let read = member.by_ref().take(bytes.saturating_add(1)).read_to_end(&mut content);
        read.map_err(|e| err(format!("cannot be unpacked: {e}")))?;
        if content.len() as u64 != bytes {
            return Err(err(format!("unpacks to {} bytes, {bytes} were promised", content.len())));
        }
        Array::at(Blob::Memory(Arc::from(content)), 0, bytes).map(Some).map_err(err)
    }

    /// One array that must be there.
    pub fn need(&mut self, name: &str) -> Result<Array> {
        let names = self.names();
        self.array(name)?.ok_or_else(|| {
            let found = if names.is_empty() { "none".into() } else { names.join(", ") };
            Error::file(&self.path, format!("has no array {name} (found: {found})"))
        })
    }
}
