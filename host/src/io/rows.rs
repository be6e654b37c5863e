//! Rows of an array in a file, read in blocks from the first to the last.

use std::path::{Path, PathBuf};

use scheidegg_finder::{Error, Result};

use super::checked::Watch;
use super::npz::Array;
use super::read_at::Blob;

/// Rows that are held in memory.
const BLOCK: u64 = 1 << 16;

/// The rows of an array. With the last of them its checksum is looked at, where there is one.
#[derive(Debug)]
pub(crate) struct ArrayRows {
    path: PathBuf,
    /// What a complaint calls them.
    what: String,
    blob: Blob,
    /// Offset of the first row.
    first: u64,
    /// Bytes of a row.
    bytes: usize,
    rows: u64,
    /// Rows `from .. from + held` of the file.
    block: Vec<u8>,
    from: u64,
    held: u64,
    watch: Option<Watch>,
}

impl ArrayRows {
    /// The rows of an array that has at least one side.
    ///
    /// # Errors
    /// [`Error::File`] for an array without rows whose checksum is another one.
    pub fn new(array: &Array, what: String, path: &Path) -> Result<ArrayRows> {
        let rows = array.header.shape.first().copied().unwrap_or(0);
        let watch = array.watch(path)?;
        if let (0, Some(watch)) = (rows, &watch) {
            watch.end(path, &what)?;
        }
        Ok(ArrayRows {
            path: path.to_path_buf(),
            what,
            blob: array.blob.clone(),
            first: array.data,
            bytes: (array.bytes() / rows.max(1)) as usize,
            rows,
            block: Vec::new(),
            from: 0,
            held: 0,
            watch,
        })
    }

    /// Rows of the array.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// The bytes of row `k`, which there is. Rows are asked for in order, each as often as one likes.
    pub fn row(&mut self, k: u64) -> Result<&[u8]> {
        if k >= self.from + self.held {
            self.read(k)?;
        }
        Ok(&self.block[(k - self.from) as usize * self.bytes..][..self.bytes])
    }

    /// Reads the block that starts with row `k`.
    fn read(&mut self, k: u64) -> Result<()> {
        let count = BLOCK.min(self.rows - k);
        let at = self.first + k * self.bytes as u64;
        self.block.resize(count as usize * self.bytes, 0);
        self.held = 0;
        self.blob.read_exact_at(&mut self.block, at).map_err(|e| Error::io(&self.path, e))?;
        if let Some(watch) = &mut self.watch {
            watch.take(at, &self.block);
            if k + count == self.rows {
                watch.end(&self.path, &self.what)?;
            }
        }
        (self.from, self.held) = (k, count);
        Ok(())
    }
}
