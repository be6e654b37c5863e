//! Archives of arrays (`.npz`), written member by member, not compressed.

use std::cell::Cell;
use std::io::{self, BufReader, Seek, SeekFrom, Write};
use std::path::PathBuf;

use scheidegg_finder::Result;
use zip::result::ZipError;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipArchive, ZipWriter};

use super::output::{self, Output, Place};

/// Bytes of a member from which on zip needs its 64-bit form.
const LARGE: u64 = u32::MAX as u64;

/// Where the CRC-32 stands in the header before a member, and in the member's header in the directory at the end
/// (zip's APPNOTE 4.3.7 and 4.3.12).
const CRC_IN_LOCAL_HEADER: u64 = 14;
const CRC_IN_DIRECTORY: u64 = 16;

/// An archive on its way into its file.
#[derive(Debug)]
pub(crate) struct Archive {
    path: PathBuf,
    /// `None` once it is ended.
    zip: Option<ZipWriter<Target>>,
}

impl Archive {
    /// Starts an archive that will be called `path`.
    pub fn create(place: impl Into<Place>) -> Result<Archive> {
        let out = Output::create(place)?;
        let path = out.path().to_path_buf();
        let target = Target { out, at: 0, end: 0, given_up: Cell::new(false) };
        Ok(Archive { path, zip: Some(ZipWriter::new(target)) })
    }

    fn with<T>(
        &mut self,
        work: impl FnOnce(&mut ZipWriter<Target>) -> std::result::Result<T, ZipError>,
    ) -> Result<T> {
        let zip = self.zip.as_mut().expect("nothing is written after the end");
        work(zip).map_err(|e| output::failed(&self.path, system(e)))
    }

    /// Starts the array `name`, a whole `.npy` file of so many bytes; without that number it may have any.
    pub fn start(&mut self, name: &str, bytes: Option<u64>) -> Result<()> {
        let options = SimpleFileOptions::default()
            .compression_method(CompressionMethod::Stored)
            .large_file(bytes.is_none_or(|n| n >= LARGE));
        self.with(|zip| zip.start_file(format!("{name}.npy"), options))
    }

    /// Appends bytes to the array started last.
    pub fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.with(|zip| zip.write_all(bytes).map_err(ZipError::Io))
    }

    /// Completes the archive and gives it its name.
    pub fn finish(mut self) -> Result<()> {
        self.end()?.finish().map(|_| ())
    }

    /// Completes the archive and gives it a name, its own for sure where the run came to its end (`complete`).
    pub fn finish_as(mut self, complete: bool) -> Result<PathBuf> {
        self.end()?.finish_as(complete)
    }

    /// Completes the archive with another header of the same length at the start of its first array, and gives it
    /// a name, its own for sure where the run came to its end (`complete`).
    pub fn finish_with_header(mut self, old: &[u8], new: &[u8], complete: bool) -> Result<PathBuf> {
        let mut out = self.end()?;
        exchange_start(&mut out, old, new)?;
        out.finish_as(complete)
    }

    fn end(&mut self) -> Result<Output> {
        let zip = self.zip.take().expect("it is ended once");
        zip.finish().map(|target| target.out).map_err(|e| output::failed(&self.path, system(e)))
    }
}

impl Drop for Archive {
    fn drop(&mut self) {
        // Dropped, the zip writer would end an archive that nobody wants, and print it where this fails.
        if let Some(target) = self.zip.as_ref().and_then(ZipWriter::get_ref) {
            target.given_up.set(true);
        }
    }
}

/// Writes other bytes over the first ones of the first member, and what its CRC-32 becomes with them: nothing else of
/// it is read again.
fn exchange_start(out: &mut Output, old: &[u8], new: &[u8]) -> Result<()> {
    let path = out.path().to_path_buf();
    let failed = |e: ZipError| output::failed(&path, system(e));
    let mut archive = ZipArchive::new(BufReader::new(out.reread()?)).map_err(failed)?;
    let member = archive.by_index(0).map_err(failed)?;
    let start = member.data_start().ok_or_else(|| failed(ZipError::FileNotFound))?;
    let (local, central) = (member.header_start(), member.central_header_start());
    let rest = member.size() - old.len() as u64;
    // A CRC is linear: what the first bytes are in it can be taken out and put in by exclusive or.
    let crc = member.crc32() ^ followed(crc32fast::hash(old), rest) ^ followed(crc32fast::hash(new), rest);
    drop(member);
    out.write_over(start, new)?;
    out.write_over(local + CRC_IN_LOCAL_HEADER, &crc.to_le_bytes())?;
    out.write_over(central + CRC_IN_DIRECTORY, &crc.to_le_bytes())
}

/// What bytes with this CRC-32 contribute to that of the same bytes with `rest` more behind them.
fn followed(crc: u32, rest: u64) -> u32 {
    let mut hasher = crc32fast::Hasher::new_with_initial(crc);
    hasher.combine(&crc32fast::Hasher::new_with_initial_len(0, rest));
    hasher.finalize()
}

/// The system's own error, where there is one.
fn system(e: ZipError) -> io::Error {
    match e {
        ZipError::Io(e) => e,
        e => e.into(),
    }
}

/// What the zip writer writes to: the file, or nothing once the archive is given up.
#[derive(Debug)]
struct Target {
    out: Output,
    /// Where the next byte goes, and where the file ends.
    at: u64,
    end: u64,
    given_up: Cell<bool>,
}

impl Target {
    /// After an error too: the zip writer ends its archive whatever happened before. The output has remembered the error
    /// and does not get a name any more.
    fn is_given_up(&self) -> bool {
        self.given_up.get() || self.out.is_broken()
    }
}

impl Write for Target {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let n = if self.is_given_up() { bytes.len() } else { self.out.attempt(|file| file.write(bytes))? };
        self.at += n as u64;
        self.end = self.end.max(self.at);
        Ok(n)
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.is_given_up() { Ok(()) } else { self.out.attempt(|file| file.flush()) }
    }
}

impl Seek for Target {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let at = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::Current(by) => self.at.checked_add_signed(by),
            SeekFrom::End(by) => self.end.checked_add_signed(by),
        };
        let at = at.ok_or(io::ErrorKind::InvalidInput)?;
        if at != self.at && !self.is_given_up() {
            self.out.attempt(|file| file.seek(SeekFrom::Start(at)))?;
        }
        self.at = at;
        Ok(at)
    }
}

/// Writes small arrays, whole `.npy` files in memory, as one `.npz` file.
pub(crate) fn write_npz(place: impl Into<Place>, members: &[(&str, Vec<u8>)]) -> Result<()> {
    let mut archive = Archive::create(place)?;
    for (name, bytes) in members {
        archive.start(name, Some(bytes.len() as u64))?;
        archive.write(bytes)?;
    }
    archive.finish()
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::io::Read;
    use std::path::Path;

    use super::*;

    /// Reads a member to its end, where its CRC-32 is looked at.
    fn member(path: &Path, name: &str) -> Vec<u8> {
        let mut archive = ZipArchive::new(File::open(path).unwrap()).unwrap();
        let mut bytes = Vec::new();
        archive.by_name(name).unwrap().read_to_end(&mut bytes).unwrap();
        bytes
    }

    /// Fault: the CRC-32 is the one of the header that stood there first.
    #[test]
    fn the_first_header_can_be_known_last() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.npz");
        for rest in [0, 1, 63, 1 << 20] {
            let rest: Vec<u8> = (0..rest).map(|i: usize| (i % 251) as u8).collect();
            let mut archive = Archive::create(&path).unwrap();
            archive.start("data", None).unwrap();
            archive.write(b"rows: 0.").unwrap();
            archive.write(&rest).unwrap();
            archive.start("x", Some(3)).unwrap();
            archive.write(b"xyz").unwrap();
            archive.finish_with_header(b"rows: 0.", b"rows: 17", true).unwrap();
            assert!(member(&path, "data.npy") == [b"rows: 17", rest.as_slice()].concat());
            assert_eq!(member(&path, "x.npy"), b"xyz");
            assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
            // The header before a member says the same as the directory: what reads archives as streams sees that only.
            let file = File::open(&path).unwrap();
            let crc = ZipArchive::new(&file).unwrap().by_name("data.npy").unwrap().crc32();
            assert_eq!(fs::read(&path).unwrap()[14..18], crc.to_le_bytes());
        }
    }

    #[test]
    fn an_archive_that_is_dropped_is_not_ended_and_leaves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.npz");
        for members in 0..3 {
            let mut archive = Archive::create(&path).unwrap();
            for k in 0..members {
                archive.start(&format!("a{k}"), Some(4)).unwrap();
                archive.write(b"1234").unwrap();
            }
            let partial = fs::read_dir(dir.path()).unwrap().next().unwrap().unwrap().path();
            let file = File::open(partial).unwrap();
            let before = file.metadata().unwrap().len();
            drop(archive);
            assert_eq!(file.metadata().unwrap().len(), before, "nothing is written for nobody");
            assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_full_disk_ends_an_archive_for_good() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.npz");
        let target = |path| Target { out: output::full(path), at: 0, end: 0, given_up: Cell::new(false) };
        let archive = || Archive { path: path.clone(), zip: Some(ZipWriter::new(target(&path))) };
        for large in [true, false] {
            let mut archive = archive();
            archive.start("data", None).unwrap();
            let said = if large {
                let said = archive.write(&vec![1; 1 << 19]).unwrap_err().to_string();
                // Later bytes seem to find room, as the zip writer's own last ones do; the name is refused.
                let refused = archive.finish().unwrap_err().to_string();
                assert!(refused.contains("was not written to the end"), "{refused}");
                said
            } else {
                archive.write(b"few").unwrap();
                archive.finish().unwrap_err().to_string()
            };
            assert!(said.contains("a.npz: ") && said.contains("free some space"), "{said}");
        }
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}
