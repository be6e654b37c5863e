//! Reading from anywhere in a file, from many threads at once.

use std::fs::File;
use std::io;
use std::path::Path;

use scheidegg_finder::{Error, Result};

/// The bytes of a file, on disk or in memory.
#[derive(Clone, Debug)]
pub(crate) enum Blob {
    /// On disk.
    File(std::sync::Arc<File>),
    /// In memory: tests and fuzzing.
    Memory(std::sync::Arc<[u8]>),
}

impl Blob {
    /// Opens a file, and its length in bytes.
    pub fn open(path: &Path) -> Result<(Blob, u64)> {
        let file = File::open(path).map_err(|e| Error::io(path, e))?;
        let meta = file.metadata().map_err(|e| Error::io(path, e))?;
        if meta.is_dir() {
            return Err(Error::file(path, "is a folder: give a file"));
        }
        Ok((Blob::File(std::sync::Arc::new(file)), meta.len()))
    }

    /// Fills `into` with the bytes at `offset`; an error when there are not so many.
    pub fn read_exact_at(&self, into: &mut [u8], offset: u64) -> io::Result<()> {
        match self {
            Blob::File(file) => read_file(file, into, offset),
            Blob::Memory(bytes) => {
                let from = usize::try_from(offset).ok().and_then(|at| bytes.get(at..)).unwrap_or(&[]);
                let from = from.get(..into.len()).ok_or(io::ErrorKind::UnexpectedEof)?;
                into.copy_from_slice(from);
                Ok(())
            }
        }
    }
}

#[cfg(unix)]
fn read_file(file: &File, into: &mut [u8], offset: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, into, offset)
}

#[cfg(windows)]
fn read_file(file: &File, mut into: &mut [u8], mut offset: u64) -> io::Result<()> {
    while !into.is_empty() {
        match std::os::windows::fs::FileExt::seek_read(file, into, offset)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            n => {
                into = &mut into[n..];
                offset += n as u64;
            }
        }
    }
    Ok(())
}
