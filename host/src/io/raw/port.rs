//! The frames of one port: a series of data files read header by header.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use scheidegg_finder::{Error, Result};

use super::header::Header;
use crate::io::read_at::Blob;

/// One data file of a port.
#[derive(Clone, Debug)]
pub(super) struct Subfile {
    /// Its index in the series.
    pub index: u64,
    pub path: PathBuf,
    pub bytes: u64,
    /// Its content, when it is not on disk.
    pub memory: Option<Arc<[u8]>>,
}

impl Subfile {
    /// Digits of the index in its name.
    fn digits(&self) -> Option<usize> {
        super::names::data_file_name(&self.path.file_name()?.to_string_lossy()).map(|n| n.digits)
    }

    fn open(&self) -> Result<Blob> {
        match &self.memory {
            Some(bytes) => Ok(Blob::Memory(bytes.clone())),
            None => Blob::open(&self.path).map(|(blob, _)| blob),
        }
    }
}

/// A frame of a port: its header, and where its image lies.
#[derive(Clone, Debug)]
pub(super) struct Head {
    pub header: Header,
    pub blob: Blob,
    /// Offset of the image in its file.
    pub image: u64,
    /// Index of the file among those of the port.
    pub file: usize,
}

/// Goes through the frames of a port in order. Files are opened when they are reached and closed when they are done.
#[derive(Debug)]
pub(super) struct Port {
    /// `d` in the names of its files.
    pub d: usize,
    pub files: Vec<Subfile>,
    /// From the index of a file to that of the next: 1, or the frames of a file.
    step: u64,
    /// Bytes of header and image.
    stride: u64,
    current: usize,
    blob: Option<Blob>,
    in_file: u64,
    head: Option<Head>,
    /// Number of the last frame that was passed.
    last: Option<u64>,
    /// Frames left out because their number was not above the one before.
    pub repeated: u64,
    /// The first of them, in words.
    pub first_repeated: Option<String>,
}

impl Port {
    /// The frames of these files, which must be in the order of their indices.
    pub fn new(d: usize, files: Vec<Subfile>, image_bytes: usize, max_frames: u64) -> Port {
        // Packages before 4.0 may count files by their first frame.
        let by_frame = max_frames > 1
            && files.len() > 1
            && files.iter().all(|f| f.digits() == Some(12) && f.index.is_multiple_of(max_frames));
        Port {
            d,
            files,
            step: if by_frame { max_frames } else { 1 },
            stride: (Header::BYTES + image_bytes) as u64,
            current: 0,
            blob: None,
            in_file: 0,
            head: None,
            last: None,
            repeated: 0,
            first_repeated: None,
        }
    }

    /// The file that is read now.
    pub fn path(&self) -> &Path {
        &self.files[self.current.min(self.files.len() - 1)].path
    }

    /// Whole frames of all files.
    pub fn total(&self) -> u64 {
        self.files.iter().map(|f| f.bytes / self.stride).sum()
    }

    /// Whole frames that are left, the one at hand included.
    pub fn left(&self) -> u64 {
        let rest: u64 = self.files.iter().skip(self.current).map(|f| f.bytes / self.stride).sum();
        rest - self.in_file + u64::from(self.head.is_some())
    }

    /// The first file of the series that is not there, if a later one is.
    pub fn hole(&self) -> Option<PathBuf> {
        let k = (0..self.files.len()).find(|&k| self.files[k].index != k as u64 * self.step)?;
        self.missing_before(k)
    }

    fn missing_before(&self, k: usize) -> Option<PathBuf> {
        let found = super::names::data_file_name(&self.files[k].path.file_name()?.to_string_lossy())?;
        let name = format!(
            "{}_d{}_f{:0digits$}_{}.raw",
            found.base,
            found.port,
            k as u64 * self.step,
            found.run,
            digits = if found.digits == 12 { 12 } else { 1 }
        );
        Some(self.files[k].path.with_file_name(name))
    }

    /// The next frame, without going past it. `None` after the last.
    ///
    /// # Errors
    /// A file that is missing or ends inside a frame; the same again when asked again.
    pub fn peek(&mut self) -> Result<Option<&Head>> {
        while self.head.is_none() {
            if !self.load()? {
                return Ok(None);
            }
            let number = self.head.as_ref().expect("just loaded").header.frame;
            if let Some(last) = self.last.filter(|&last| number <= last) {
                let what = if number == last { "comes again" } else { "comes late" };
                if self.first_repeated.is_none() {
                    let path = self.path().display();
                    self.first_repeated = Some(format!("{path}: frame {number} {what} after frame {last}"));
                }
                self.repeated += 1;
                self.head = None;
            }
        }
        Ok(self.head.as_ref())
    }

    /// Goes past the frame that [`Port::peek`] showed and gives it.
    pub fn take(&mut self) -> Head {
        let head = self.head.take().expect("a frame that was looked at");
        self.last = Some(head.header.frame);
        head
    }

    /// Reads the header of the next frame; false after the last.
    fn load(&mut self) -> Result<bool> {
        loop {
            let Some(file) = self.files.get(self.current) else { return Ok(false) };
            if file.index != self.current as u64 * self.step {
                let missing = self.missing_before(self.current).unwrap_or_else(|| file.path.clone());
                return Err(Error::file(
                    missing,
                    format!(
                        "is missing, but {} is there: frames in between are lost (bring the file back, or read the frames \
                         before it only)",
                        file.path.file_name().unwrap_or_default().to_string_lossy()
                    ),
                ));
            }
            let (frames, rest) = (file.bytes / self.stride, file.bytes % self.stride);
            if self.in_file < frames {
                if self.blob.is_none() {
                    self.blob = Some(file.open()?);
                }
                let blob = self.blob.as_ref().expect("just opened");
                let at = self.in_file * self.stride;
                let mut bytes = [0; Header::BYTES];
                blob.read_exact_at(&mut bytes, at).map_err(|e| Error::io(&file.path, e))?;
                self.head = Some(Head {
                    header: Header::parse(&bytes),
                    blob: blob.clone(),
                    image: at + Header::BYTES as u64,
                    file: self.current,
                });
                self.in_file += 1;
                return Ok(true);
            }
            if rest != 0 {
                return Err(self.cut(frames, rest));
            }
            self.blob = None;
            self.current += 1;
            self.in_file = 0;
        }
    }

    /// The error for the current file, which ends `rest` bytes into a frame.
    fn cut(&self, frames: u64, rest: u64) -> Error {
        let file = &self.files[self.current];
        let mut bytes = [0; Header::BYTES];
        let number = (rest >= Header::BYTES as u64)
            .then(|| {
                file.open().and_then(|b| {
                    b.read_exact_at(&mut bytes, frames * self.stride).map_err(|e| Error::io(&file.path, e))
                })
            })
            .and_then(Result::ok)
            .map(|()| Header::parse(&bytes).frame);
        let which = match (number, self.last) {
            (Some(n), _) => format!("frame {n}"),
            (None, Some(n)) => format!("the frame after {n}"),
            (None, None) => "the first frame".into(),
        };
        Error::file(
            &file.path,
            format!(
                "ends inside {which}: {rest} bytes of it were found, {} expected; the {frames} frames before it in this \
                 file are whole (read those only, or bring the whole file)",
                self.stride
            ),
        )
    }
}
