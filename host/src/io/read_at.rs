//! Reading from anywhere in a file, from many threads at once.

use std::fs::{File, Metadata};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use scheidegg_finder::{Error, Result};

/// The bytes of a file, on disk or in memory.
#[derive(Clone, Debug)]
pub(crate) enum Blob {
    /// On disk.
    File(Arc<File>),
    /// In memory: tests and fuzzing.
    Memory(Arc<[u8]>),
}

/// What the system says of a file whose bytes can be read in any order.
///
/// # Errors
/// A folder, and what can be read once and in order only.
pub(crate) fn plain_file(path: &Path) -> Result<Metadata> {
    let meta = std::fs::metadata(path).map_err(|e| Error::io(path, e))?;
    if meta.is_dir() {
        return Err(Error::file(path, "is a folder: give a file"));
    }
    if !meta.is_file() {
        return Err(Error::file(
            path,
            "is a named pipe or a device: frames are read from anywhere in a file, so write it to a file first and give that",
        ));
    }
    Ok(meta)
}

/// A file that is open only while it is read: a run may have more files than a process may have open.
#[derive(Debug)]
pub(crate) struct Lazy {
    path: PathBuf,
    blob: Option<Blob>,
}

impl Lazy {
    /// A file that is closed.
    pub fn closed(path: &Path) -> Lazy {
        Lazy { path: path.to_path_buf(), blob: None }
    }

    /// Bytes in memory, which stay.
    pub fn memory(name: &str, bytes: &[u8]) -> Lazy {
        Lazy { path: name.into(), blob: Some(Blob::Memory(Arc::from(bytes))) }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The file's bytes; opens it if it is not open.
    pub fn open(&mut self) -> Result<Blob> {
        if self.blob.is_none() {
            self.blob = Some(Blob::open(&self.path)?.0);
        }
        Ok(self.blob.clone().expect("just opened"))
    }

    #[cfg(test)]
    pub fn is_open(&self) -> bool {
        self.blob.is_some()
    }

    pub fn close(&mut self) {
        if matches!(self.blob, Some(Blob::File(_))) {
            self.blob = None;
        }
    }
}

impl Blob {
    /// Opens a file, and its length in bytes.
    pub fn open(path: &Path) -> Result<(Blob, u64)> {
        // Before it is opened: opening a named pipe waits for whoever writes to it.
        plain_file(path)?;
        let file = File::open(path).map_err(|e| Error::io(path, e))?;
        let bytes = file.metadata().map_err(|e| Error::io(path, e))?.len();
        Ok((Blob::File(Arc::new(file)), bytes))
    }

    /// Bytes that are there now.
    pub fn bytes(&self) -> io::Result<u64> {
        match self {
            Blob::File(file) => file.metadata().map(|m| m.len()),
            Blob::Memory(bytes) => Ok(bytes.len() as u64),
        }
    }

    /// What a failed read of `what`, which ends at byte `end`, means to the user.
    pub fn read_failed(&self, path: &Path, e: io::Error, what: &str, end: u64) -> Error {
        if e.kind() != io::ErrorKind::UnexpectedEof {
            return Error::io(path, e);
        }
        let now = self.bytes().map_or("fewer".into(), |b| b.to_string());
        Error::file(
            path,
            format!(
                "{what} ends at byte {end}, but the file has {now} now: it was cut or written anew while it was read (wait \
                 until it is complete, or read the frames before only)"
            ),
        )
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_read_from_anywhere() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        std::fs::write(&path, b"0123456789").unwrap();
        let (on_disk, bytes) = Blob::open(&path).unwrap();
        assert_eq!(bytes, 10);
        for blob in [on_disk, Blob::Memory(Arc::from(&b"0123456789"[..]))] {
            assert_eq!(blob.bytes().unwrap(), 10);
            let read = |offset: u64, n: usize| {
                let mut into = vec![b'.'; n];
                blob.read_exact_at(&mut into, offset).map(|()| String::from_utf8(into).unwrap())
            };
            for (offset, n, expected) in [(0, 10, "0123456789"), (3, 2, "34"), (9, 1, "9"), (4, 0, "")] {
                assert_eq!(read(offset, n).unwrap(), expected);
            }
            for (offset, n) in [(0, 11), (9, 2), (10, 1), (1 << 40, 1)] {
                let e = read(offset, n).unwrap_err();
                assert_eq!(e.kind(), io::ErrorKind::UnexpectedEof);
                let said = blob.read_failed(Path::new("p"), e, "it", 99).to_string();
                let expected = "p: it ends at byte 99, but the file has 10 now: it was cut or written anew while it was read \
                                (wait until it is complete, or read the frames before only)";
                assert_eq!(said, expected);
            }
            let other = blob.read_failed(Path::new("p"), io::Error::other("no answer"), "it", 99);
            assert!(matches!(&other, Error::Io { path, .. } if path == Path::new("p")), "{other}");
        }
    }

    #[test]
    fn a_file_is_open_only_while_it_is_wanted() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        std::fs::write(&path, b"x").unwrap();
        let mut lazy = Lazy::closed(&path);
        assert_eq!(lazy.path(), path);
        for _ in 0..2 {
            assert!(lazy.blob.is_none());
            assert!(matches!(lazy.open().unwrap(), Blob::File(_)));
            assert!(lazy.blob.is_some());
            lazy.close();
        }
        let mut memory = Lazy::memory("m", b"xy");
        memory.close();
        assert_eq!(memory.open().unwrap().bytes().unwrap(), 2);
        assert_eq!(memory.path(), Path::new("m"));
        assert!(matches!(Lazy::closed(&dir.path().join("none")).open(), Err(Error::Io { .. })));
    }

    #[test]
    fn what_is_no_plain_file_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let said = |path: &Path| plain_file(path).unwrap_err().to_string();
        assert!(said(dir.path()).ends_with(": is a folder: give a file"));
        assert!(matches!(plain_file(&dir.path().join("none")), Err(Error::Io { .. })));
        #[cfg(unix)]
        assert!(said(Path::new("/dev/null")).starts_with("/dev/null: is a named pipe or a device: "));
    }
}
