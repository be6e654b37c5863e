//! Files that appear under their name only when they are complete.

use std::fs::{self, File};
use std::io::{self, BufWriter, ErrorKind, IoSlice, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use scheidegg_finder::{Error, Result};

mod partial;
mod place;

pub use partial::{Leftover, discard_outputs, leftovers};
use partial::{Partial, Started};
pub use place::Place;
pub(crate) use place::taken;
use place::{Target, folder_of, name_beside, name_if_free, refused};

/// A file on its way: it is written beside its final place under a hidden name of its own, and takes its final name when it
/// is finished. Dropped unfinished, it is removed, and what stood under the final name before stays as it was.
///
/// A symbolic link stays, and what it leads to is replaced or made. A FIFO or a device ([`Output::create_or_stream`]) is
/// written to as it is.
#[derive(Debug)]
pub struct Output {
    place: Place,
    way: Way,
    /// `None` once the file is closed.
    file: Option<BufWriter<File>>,
    /// Something could not be written: what is there is not what it should be, and gets no name.
    broken: bool,
}

/// How the bytes come to their place.
#[derive(Debug)]
enum Way {
    /// Through a hidden file that takes the name of `target`.
    Beside { partial: Partial, target: PathBuf },
    /// At once.
    Stream,
}

/// Pieces that a system takes at once; Linux takes no more (`IOV_MAX`).
const MOST_PIECES: usize = 1024;

/// Bytes that are gathered before they are written.
pub(crate) const GATHERED: usize = 1 << 18;

impl Output {
    /// Starts a file that will be called as `place` says.
    ///
    /// # Errors
    /// [`Error::File`] or [`Error::Io`] when the name is a folder's, a FIFO's or a device's, when it is taken and to be
    /// kept, when the file or its folder cannot be written to.
    pub fn create(place: impl Into<Place>) -> Result<Output> {
        let place = place.into();
        match place.resolve()? {
            Target::File { target } => Output::beside(place, target),
            Target::Stream(path) => Err(place::no_stream(&place.path, &path)),
        }
    }

    /// As [`Output::create`], and where the name is that of a FIFO or a device, or of a file that is open already
    /// (`/dev/stdout`), writes to that. Only [`Output::write`] works there.
    ///
    /// # Errors
    /// As [`Output::create`], and for a terminal. A FIFO is waited for until somebody reads it.
    pub fn create_or_stream(place: impl Into<Place>) -> Result<Output> {
        let place = place.into();
        let path = match place.resolve()? {
            Target::File { target } => return Output::beside(place, target),
            Target::Stream(path) => path,
        };
        // At the end: what is there already, as behind `>>`, stays.
        let file = File::options().append(true).open(path).map_err(|e| failed(&place.path, e))?;
        if io::IsTerminal::is_terminal(&file) {
            return Err(Error::file(
                place.path,
                "is a terminal: clusters are bytes for a program (give a file or a pipe)",
            ));
        }
        let file = Some(BufWriter::with_capacity(GATHERED, file));
        Ok(Output { place, way: Way::Stream, file, broken: false })
    }

    fn beside(place: Place, target: PathBuf) -> Result<Output> {
        let started = Partial::create(&target);
        let Started { partial, file } = started.map_err(|e| refused(&place.path, folder_of(&target), e))?;
        let file = Some(BufWriter::with_capacity(GATHERED, file));
        Ok(Output { place, way: Way::Beside { partial, target }, file, broken: false })
    }

    /// The final name.
    pub fn path(&self) -> &Path {
        &self.place.path
    }

    /// Whether the bytes go to a FIFO or a device: there is no file that could be named, read again or changed.
    pub fn is_stream(&self) -> bool {
        matches!(self.way, Way::Stream)
    }

    /// Works on the file, if nothing went wrong before, and remembers if something does now.
    fn with<T>(&mut self, work: impl FnOnce(&mut BufWriter<File>) -> io::Result<T>) -> Result<T> {
        self.unbroken()?;
        let done = work(self.file.as_mut().expect("nothing is written after the end"));
        self.broken = done.is_err();
        done.map_err(|e| failed(&self.place.path, e))
    }

    fn unbroken(&self) -> Result<()> {
        if self.broken {
            let what = "was not written to the end before: nothing was left under this name (write it anew)";
            return Err(Error::file(self.path(), what));
        }
        Ok(())
    }

    /// Hands everything that was gathered to the system.
    ///
    /// # Errors
    /// As [`Output::write`].
    pub(crate) fn flush(&mut self) -> Result<()> {
        self.with(|file| file.flush())
    }

    /// Bytes that have reached the file; what is gathered still is not among them.
    ///
    /// # Errors
    /// What the system says.
    pub(crate) fn reached(&self) -> Result<u64> {
        let file = self.file.as_ref().expect("nothing is asked after the end").get_ref();
        file.metadata().map(|m| m.len()).map_err(|e| failed(&self.place.path, e))
    }

    /// Goes back to the first `bytes` bytes of the file, after an error too: what was written behind them is forgotten.
    ///
    /// # Errors
    /// What the system says.
    pub(crate) fn cut(&mut self, bytes: u64) -> Result<()> {
        // Without a last flush of what was gathered.
        let (mut file, _) = self.file.take().expect("nothing is cut after the end").into_parts();
        let cut = file.set_len(bytes).and_then(|()| file.seek(SeekFrom::End(0)));
        self.file = Some(BufWriter::with_capacity(GATHERED, file));
        self.broken = cut.is_err();
        cut.map(drop).map_err(|e| failed(&self.place.path, e))
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

    /// Ends writing: everything is with the system, nothing is under its name yet. Nothing can be written after that.
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

    /// Completes the file and gives it its name, which it returns: that of [`Output::path`]. What had the name is replaced, and is
    /// so only when the new file is on the disk: after a power cut one of the two is there.
    ///
    /// # Errors
    /// As [`Output::write`]; the file is removed then. When the name cannot be given, because it was taken meanwhile and
    /// is [to be kept](Place::keep) or because the system refuses it, the file lies beside it under another name, which the
    /// error says.
    pub fn finish(mut self) -> Result<PathBuf> {
        let path = self.path().to_path_buf();
        self.flush_all()?;
        let Way::Beside { partial, target } = &self.way else { return Ok(path) };
        let named = match self.place.keep {
            true => partial.renamed(|from| match name_if_free(from, target)? {
                true => Ok(()),
                false => Err(io::Error::new(ErrorKind::AlreadyExists, "the name was taken meanwhile")),
            }),
            false => {
                if target.exists()
                    && let Some(file) = &self.file
                {
                    // The only file that cannot be had again is the old one.
                    file.get_ref().sync_data().map_err(|e| failed(&path, e))?;
                }
                partial.renamed(|from| fs::rename(from, target))
            }
        };
        let Err(e) = named else { return Ok(path) };
        match partial.renamed(|from| name_beside(from, target, &path)) {
            Ok(other) => Err(Error::file(
                path,
                format!("could not be given its name ({e}): the complete file is {}", other.display()),
            )),
            Err(_) => Err(failed(&path, e)),
        }
    }

    /// Gives the file a name though the run did not come to its end: its own if that is free, else one beside it, as
    /// `clusters.partial.npz` beside `clusters.npz`. What had the name stays as it was. Returns the name given.
    ///
    /// # Errors
    /// As [`Output::write`]; the file is removed then.
    pub fn finish_part(mut self) -> Result<PathBuf> {
        let path = self.path().to_path_buf();
        self.flush_all()?;
        let Way::Beside { partial, target } = &self.way else { return Ok(path) };
        let named = partial.renamed(|from| match name_if_free(from, target)? {
            true => Ok(path.clone()),
            false => name_beside(from, target, &path),
        });
        named.map_err(|e| failed(&path, e))
    }

    /// As [`Output::finish`] where the run came to its end, else as [`Output::finish_part`].
    ///
    /// # Errors
    /// As these.
    pub fn finish_as(self, complete: bool) -> Result<PathBuf> {
        if complete { self.finish() } else { self.finish_part() }
    }

    /// Gives the file a name beside its own, which says that it is a part, though its own is free.
    ///
    /// # Errors
    /// As [`Output::write`]; the file is removed then.
    pub(crate) fn finish_aside(mut self) -> Result<PathBuf> {
        let path = self.path().to_path_buf();
        self.flush_all()?;
        let Way::Beside { partial, target } = &self.way else { return Ok(path) };
        partial.renamed(|from| name_beside(from, target, &path)).map_err(|e| failed(&path, e))
    }

    /// Takes another final name in the same folder; what has that name is kept.
    pub(crate) fn call(&mut self, name: &str) {
        if let Way::Beside { target, .. } = &mut self.way {
            target.set_file_name(name);
            self.place.path.set_file_name(name);
            self.place.keep = true;
        }
    }

    /// Hands everything to the system. The file stays open, and its lock held, until it has its name.
    fn flush_all(&mut self) -> Result<()> {
        if self.file.is_some() { self.with(|file| file.flush()) } else { self.unbroken() }
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
        if let Way::Beside { partial, .. } = &self.way {
            partial.remove();
        }
    }
}

/// What the system said about writing `path`, with the way out where there is one.
pub(crate) fn failed(path: &Path, e: io::Error) -> Error {
    let what = match e.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
            format!("{e} (free some space or choose another folder)")
        }
        ErrorKind::FileTooLarge => {
            format!("{e} (a limit on the size of files, as of ulimit -f, or of the file system)")
        }
        ErrorKind::BrokenPipe => format!("{e}: its reader has gone"),
        _ => return Error::io(path, e),
    };
    Error::file(path, what)
}

/// From now on nothing can be written, as when the disk is full; what was gathered is lost.
#[cfg(test)]
pub(crate) fn break_off(out: &mut Output) {
    out.broken = true;
}

/// A file that is called `path` and goes to a full disk.
#[cfg(all(test, target_os = "linux"))]
pub(crate) fn full(path: &Path) -> Output {
    let disk = File::options().write(true).open("/dev/full").unwrap();
    let mut out = Output::create(path).unwrap();
    out.file = Some(BufWriter::with_capacity(GATHERED, disk));
    out
}

#[cfg(test)]
mod tests;
