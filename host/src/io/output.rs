//! Files that appear under their name only when they are complete.

use std::fs::{self, File};
use std::io::{self, BufWriter, IoSlice, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use scheidegg_finder::{Error, Result};

/// A file on its way: it is written beside its final place under a name of its own, and takes its final name when it
/// is finished. Dropped unfinished, it is removed, and what stood under the final name before stays as it was.
#[derive(Debug)]
pub struct Output {
    path: PathBuf,
    partial: PathBuf,
    /// `None` once the file is closed.
    file: Option<BufWriter<File>>,
    /// Something could not be written: what is there is not what it should be, and gets no name.
    broken: bool,
    named: bool,
}

/// Pieces that a system takes at once; Linux takes no more (`IOV_MAX`).
const MOST_PIECES: usize = 1024;

impl Output {
    /// Starts a file that will be called `path`.
    ///
    /// # Errors
    /// [`Error::File`] or [`Error::Io`] when `path` is a folder or its folder cannot be written to.
    pub fn create(path: impl Into<PathBuf>) -> Result<Output> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let path = path.into();
        if path.is_dir() {
            return Err(Error::file(path, "is a folder: give the name of a file"));
        }
        let Some(name) = path.file_name() else {
            return Err(Error::file(path, "has no file name"));
        };
        let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
        if !folder.is_dir() {
            let what = format!("the folder {} does not exist: make it first", folder.display());
            return Err(Error::file(path, what));
        }
        // One name a process and file, so that two runs writing the same name do not mix.
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let partial =
            folder.join(format!(".{}.{}-{count}.partial", name.to_string_lossy(), std::process::id()));
        let file = File::options()
            .write(true)
            .read(true)
            .create_new(true)
            .open(&partial)
            .map_err(|e| failed(&path, e))?;
        let file = Some(BufWriter::with_capacity(1 << 18, file));
        Ok(Output { path, partial, file, broken: false, named: false })
    }

    /// The final name.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Works on the file, if nothing went wrong before, and remembers if something does now.
    fn with<T>(&mut self, work: impl FnOnce(&mut BufWriter<File>) -> io::Result<T>) -> Result<T> {
        if self.broken {
            let what = "was not written to the end before: nothing was left under this name (write it anew)";
            return Err(Error::file(&self.path, what));
        }
        self.attempt(work).map_err(|e| failed(&self.path, e))
    }

    /// Works on the file and remembers if something goes wrong, for whoever needs the system's own error.
    pub(crate) fn attempt<T>(
        &mut self,
        work: impl FnOnce(&mut BufWriter<File>) -> io::Result<T>,
    ) -> io::Result<T> {
        let done = work(self.file.as_mut().expect("nothing is written after the end"));
        // What a signal interrupted is tried again by the one who asked for it.
        self.broken |= done.as_ref().is_err_and(|e| e.kind() != io::ErrorKind::Interrupted);
        done
    }

    /// Whether something could not be written.
    pub(crate) fn is_broken(&self) -> bool {
        self.broken
    }

    /// Appends bytes.
    ///
    /// # Errors
    /// [`Error::File`] when the disk is full, [`Error::Io`] for anything else that the system says. After an error
    /// the file can only be dropped.
    pub fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.with(|file| file.write_all(bytes))
    }

    /// Appends pieces one after the other. Where they are many bytes, they are not copied together before.
    ///
    /// # Errors
    /// As [`Output::write`].
    pub(crate) fn write_pieces(&mut self, pieces: &mut [IoSlice<'_>]) -> Result<()> {
        self.with(|file| pieces.chunks_mut(MOST_PIECES).try_for_each(|some| write_all_pieces(file, some)))
    }

    /// Writes over the start of the file, for a header that was not known before; what comes later still goes to
    /// the end.
    ///
    /// # Errors
    /// As [`Output::write`].
    pub fn write_over_start(&mut self, bytes: &[u8]) -> Result<()> {
        self.write_over(0, bytes)
    }

    /// Writes over what is at `offset`; what comes later still goes to the end.
    ///
    /// # Errors
    /// As [`Output::write`].
    pub(crate) fn write_over(&mut self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.with(|file| {
            file.seek(SeekFrom::Start(offset))?;
            file.write_all(bytes)?;
            file.seek(SeekFrom::End(0)).map(|_| ())
        })
    }

    /// The file itself from its start, to be read again; everything is in it.
    ///
    /// # Errors
    /// As [`Output::write`].
    pub(crate) fn reread(&mut self) -> Result<&mut File> {
        self.with(|file| file.seek(SeekFrom::Start(0)))?;
        Ok(self.file.as_mut().expect("it was just sought").get_mut())
    }

    /// Ends writing: whole on disk, not yet under its name. Nothing can be written after that.
    ///
    /// # Errors
    /// As [`Output::write`].
    pub fn close(&mut self) -> Result<()> {
        if self.file.is_some() {
            self.with(|file| file.flush())?;
            self.file = None;
        }
        Ok(())
    }

    /// Completes the file and gives it its name.
    ///
    /// # Errors
    /// As [`Output::write`]; the file is removed then.
    pub fn finish(mut self) -> Result<()> {
        // Closed before it is renamed: some systems do not rename open files.
        self.close()?;
        fs::rename(&self.partial, &self.path).map_err(|e| failed(&self.path, e))?;
        self.named = true;
        Ok(())
    }
}

/// As [`Write::write_all`], for pieces that lie apart.
fn write_all_pieces(to: &mut impl Write, mut pieces: &mut [IoSlice<'_>]) -> io::Result<()> {
    // Where all are empty, 0 bytes would be written, which means a file that takes no more.
    IoSlice::advance_slices(&mut pieces, 0);
    while !pieces.is_empty() {
        match to.write_vectored(pieces) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(n) => IoSlice::advance_slices(&mut pieces, n),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

impl Drop for Output {
    fn drop(&mut self) {
        if let Some(file) = self.file.take() {
            // Without the last flush: the bytes go nowhere.
            drop(file.into_parts());
        }
        if !self.named {
            let _ = fs::remove_file(&self.partial);
        }
    }
}

/// What the system said about writing `path`, with the way out where there is one.
pub(crate) fn failed(path: &Path, e: io::Error) -> Error {
    match e.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Error::file(
            path,
            format!("{e}: nothing was left under this name (free some space or choose another folder)"),
        ),
        _ => Error::io(path, e),
    }
}

/// A file that is called `path` and goes to a full disk.
#[cfg(all(test, target_os = "linux"))]
pub(crate) fn full(path: &Path) -> Output {
    let disk = File::options().write(true).open("/dev/full").unwrap();
    let file = Some(BufWriter::with_capacity(1 << 18, disk));
    Output {
        path: path.to_path_buf(),
        partial: path.with_extension("partial"),
        file,
        broken: false,
        named: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let mut names: Vec<_> =
            fs::read_dir(folder).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_file_appears_when_it_is_finished() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.bin");
        let mut out = Output::create(&path).unwrap();
        out.write(b"....lo").unwrap();
        assert!(!path.exists());
        out.write_over_start(b"heal").unwrap();
        out.write(b"!").unwrap();
        out.finish().unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"heallo!");
        assert_eq!(names(dir.path()), ["a.bin"]);
    }

    #[test]
    fn an_unfinished_file_leaves_what_was_there() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.bin");
        fs::write(&path, b"before").unwrap();
        let mut out = Output::create(&path).unwrap();
        out.write(b"half").unwrap();
        drop(out);
        assert_eq!(fs::read(&path).unwrap(), b"before");
        assert_eq!(names(dir.path()), ["a.bin"]);
    }

    #[test]
    fn a_full_disk_says_so() {
        let e = failed(Path::new("out.npz"), io::Error::from(io::ErrorKind::StorageFull));
        let said = e.to_string();
        assert!(said.starts_with("out.npz: ") && said.contains("free some space"), "{said}");
    }

    /// Fault: what was written in part gets its name after all, because later bytes found room.
    #[cfg(target_os = "linux")]
    #[test]
    fn a_file_that_was_not_written_to_the_end_gets_no_name() {
        let dir = tempfile::tempdir().unwrap();
        let mut out = full(&dir.path().join("a.bin"));
        let large = vec![7; 1 << 19];
        let said =
            out.write_pieces(&mut [IoSlice::new(b"head"), IoSlice::new(&large)]).unwrap_err().to_string();
        assert!(said.contains("a.bin: ") && said.contains("free some space"), "{said}");
        let room = tempfile::tempfile().unwrap();
        out.file = Some(BufWriter::new(room));
        let later = [out.write(b"more"), out.write_over_start(b"head"), out.close()];
        for refused in later.into_iter().chain([out.finish()]) {
            let said = refused.unwrap_err().to_string();
            assert!(said.contains("a.bin: was not written to the end"), "{said}");
        }
        assert!(names(dir.path()).is_empty());
    }

    /// Takes `most` bytes at a time, is interrupted now and then, and is full at `room` bytes.
    struct Slow {
        bytes: Vec<u8>,
        most: usize,
        room: usize,
        calls: usize,
    }

    impl Write for Slow {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.write_vectored(&[IoSlice::new(bytes)])
        }

        fn write_vectored(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
            self.calls += 1;
            if self.calls.is_multiple_of(3) {
                return Err(io::ErrorKind::Interrupted.into());
            }
            let n = self.most.min(self.room - self.bytes.len());
            let before = self.bytes.len();
            self.bytes.extend(pieces.iter().flat_map(|p| p.iter()).take(n));
            Ok(self.bytes.len() - before)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn pieces_are_written_whole_though_the_system_takes_few_bytes() {
        let all: Vec<u8> = (0..200).collect();
        // Empty ones at the start, between and at the end, and lengths that `most` does not divide.
        let cuts = [0, 0, 8, 8, 8, 31, 39, 39, 120, 200, 200];
        for most in [1, 2, 7, 8, 50, 1000] {
            for room in [200, 199, 39, 0] {
                let mut to = Slow { bytes: Vec::new(), most, room, calls: 0 };
                let mut pieces: Vec<_> = cuts.windows(2).map(|w| IoSlice::new(&all[w[0]..w[1]])).collect();
                let outcome = write_all_pieces(&mut to, &mut pieces);
                assert_eq!(to.bytes, all[..room], "{most} at a time");
                match room {
                    200 => outcome.unwrap(),
                    _ => assert_eq!(outcome.unwrap_err().kind(), io::ErrorKind::WriteZero),
                }
            }
        }
        let mut to = Slow { bytes: Vec::new(), most: 1, room: 0, calls: 0 };
        write_all_pieces(&mut to, &mut []).unwrap();
        write_all_pieces(&mut to, &mut [IoSlice::new(&[]); 2]).unwrap();
    }

    #[test]
    fn more_pieces_than_a_system_takes_at_once_are_all_written() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.bin");
        // Short ones go through the buffer, long ones past it.
        for each in [3, 300] {
            let all: Vec<u8> = (0..5 * MOST_PIECES * each / 2).map(|i| (i % 251) as u8).collect();
            let mut out = Output::create(&path).unwrap();
            out.write(b"first").unwrap();
            out.write_pieces(&mut all.chunks(each).map(IoSlice::new).collect::<Vec<_>>()).unwrap();
            out.write(b"last").unwrap();
            out.finish().unwrap();
            assert!(fs::read(&path).unwrap() == [b"first", all.as_slice(), b"last"].concat(), "{each}");
        }
    }

    #[test]
    fn a_folder_that_is_not_there_is_named() {
        let said = Output::create("/nowhere/at/all/x.clust").unwrap_err().to_string();
        assert!(said.contains("the folder /nowhere/at/all does not exist"), "{said}");
    }
}
