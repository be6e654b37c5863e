//! The frames of one port: a series of data files read header by header.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use scheidegg_finder::{Error, Result};

use super::header::{Form, Header};
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
    fn name(&self) -> String {
        self.path.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

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
    /// Bytes of the image that are there.
    pub bytes: usize,
    /// Index of the file among those of the port.
    pub file: usize,
}

/// How the files of a port are laid out, and what is done about damage.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    pub form: Form,
    /// Bytes of an image.
    pub image_bytes: usize,
    /// Frames of a file, 0 for no limit.
    pub max_frames: u64,
    /// Whether files that are missing between others are passed over.
    pub pass_holes: bool,
    /// Whether damaged files are passed over, and a frame that was cut is given as far as it is there.
    pub keep_going: bool,
}

/// Where a port stops for good: its frames are done, or a file cannot be read.
#[derive(Clone, Debug)]
enum End {
    Done,
    Fault(PathBuf, String),
}

/// Goes through the frames of a port in order, some headers ahead of the frame that is next. Files are opened when they
/// are reached and closed when they are done.
#[derive(Debug)]
pub(super) struct Port {
    /// `d` in the names of its files.
    pub d: usize,
    pub files: Vec<Subfile>,
    layout: Layout,
    /// From the index of a file to that of the next: 1, or the frames of a file.
    step: u64,
    /// Bytes of header and image.
    stride: u64,
    current: usize,
    /// The index that the next file should have.
    index: u64,
    blob: Option<Blob>,
    in_file: u64,
    /// Frames that were read ahead.
    ahead: VecDeque<Head>,
    end: Option<End>,
    /// Number in the last header that was read.
    last: Option<u64>,
    /// Frames of which only a part of the header is there, passed over.
    pub cut_frames: u64,
    /// Files that were passed over, missing or from where they are damaged.
    pub damaged: u64,
    /// Sentences about what was passed over.
    pub warnings: Vec<String>,
}

impl Port {
    /// The frames of these files, which must be in the order of their indices.
    pub fn new(d: usize, files: Vec<Subfile>, layout: Layout) -> Port {
        let most = layout.max_frames;
        // Packages before 4.0 may count files by their first frame.
        let by_frame = most > 1
            && files.len() > 1
            && files.iter().all(|f| f.digits() == Some(12) && f.index.is_multiple_of(most));
        // A series of .dat files may begin anywhere.
        let index = if layout.pass_holes { files.first().map_or(0, |f| f.index) } else { 0 };
        Port {
            d,
            files,
            layout,
            step: if by_frame { most } else { 1 },
            stride: (layout.form.bytes() + layout.image_bytes) as u64,
            current: 0,
            index,
            blob: None,
            in_file: 0,
            ahead: VecDeque::new(),
            end: None,
            last: None,
            cut_frames: 0,
            damaged: 0,
            warnings: Vec::new(),
        }
    }

    /// The frames of the first file alone.
    pub fn of_first_file(&self) -> Port {
        Port::new(self.d, self.files[..1].to_vec(), Layout { pass_holes: true, ..self.layout })
    }

    /// The file of the frame that is next.
    pub fn path(&self) -> &Path {
        let at = self.ahead.front().map_or(self.current, |h| h.file);
        &self.files[at.min(self.files.len() - 1)].path
    }

    /// Whole frames of all files.
    pub fn total(&self) -> u64 {
        self.files.iter().map(|f| f.bytes / self.stride).sum()
    }

    /// Frames that may still come, those read ahead included.
    pub fn left(&self) -> u64 {
        let of = |f: &Subfile| {
            let cut = self.layout.keep_going && f.bytes % self.stride >= self.layout.form.bytes() as u64;
            f.bytes / self.stride + u64::from(cut)
        };
        let rest: u64 = self.files.iter().skip(self.current).map(of).sum();
        rest.saturating_sub(self.in_file) + self.ahead.len() as u64
    }

    /// The first file of the series that is not there, if a later one is.
    pub fn hole(&self) -> Option<PathBuf> {
        let mut index = self.index;
        for file in &self.files {
            if file.index != index {
                return Some(self.missing(file, index));
            }
            index = file.index + self.step;
        }
        None
    }

    /// The name that the file `index` would have, beside `file`.
    fn missing(&self, file: &Subfile, index: u64) -> PathBuf {
        let Some(found) = super::names::data_file_name(&file.name()) else {
            return super::names::dat_name(&file.name())
                .map_or(file.path.clone(), |n| file.path.with_file_name(n.with_index(index)));
        };
        let digits = if found.digits == 12 { 12 } else { 1 };
        let name = format!("{}_d{}_f{index:0digits$}_{}.raw", found.base, found.port, found.run);
        file.path.with_file_name(name)
    }

    /// Reads headers until `n` frames are ahead or no more come.
    pub fn look_ahead(&mut self, n: usize) {
        while self.ahead.len() < n && self.end.is_none() {
            match self.load() {
                Ok(Some(head)) => {
                    self.last = Some(head.header.frame);
                    self.ahead.push_back(head);
                }
                Ok(None) => self.end = Some(End::Done),
                Err((path, what)) => self.end = Some(End::Fault(path, what)),
            }
        }
    }

    /// The frames ahead.
    pub fn ahead(&self) -> &VecDeque<Head> {
        &self.ahead
    }

    /// Goes past the next frame and gives it.
    pub fn take(&mut self) -> Option<Head> {
        self.ahead.pop_front()
    }

    /// Whether all frames that there are were read ahead, down to the last one.
    pub fn is_done(&self) -> bool {
        matches!(self.end, Some(End::Done))
    }

    /// What ends the frames of this port early, once no frame is ahead.
    ///
    /// # Errors
    /// A file that is missing or ends inside a frame; the same again when asked again.
    pub fn check(&self) -> Result<()> {
        match &self.end {
            Some(End::Fault(path, what)) => Err(Error::file(path, what)),
            _ => Ok(()),
        }
    }

    /// Says `what` of the current file and goes on with the next one, where that is wanted.
    fn pass_over(&mut self, what: String) -> std::result::Result<(), (PathBuf, String)> {
        let path = &self.files[self.current].path;
        if !self.layout.keep_going {
            return Err((path.clone(), what));
        }
        self.damaged += 1;
        self.warnings.push(format!("{}: {what}: passed over", path.display()));
        self.next_file();
        Ok(())
    }

    fn next_file(&mut self) {
        self.blob = None;
        self.index = self.files[self.current].index + self.step;
        self.current += 1;
        self.in_file = 0;
    }

    /// Reads the header of the next frame; nothing after the last.
    fn load(&mut self) -> std::result::Result<Option<Head>, (PathBuf, String)> {
        loop {
            let Some(file) = self.files.get(self.current) else { return Ok(None) };
            let (frames, rest) = (file.bytes / self.stride, file.bytes % self.stride);
            let goes_on = file.index == self.index;
            if goes_on && self.in_file < frames {
                match self.header() {
                    Ok((header, blob)) => return Ok(Some(self.head(header, blob, frames, rest))),
                    Err(what) => self.pass_over(what)?,
                }
                continue;
            }
            if !goes_on {
                self.pass_hole()?;
            } else if self.in_file > frames || rest == 0 {
                self.next_file();
            } else if !self.layout.keep_going {
                let path = file.path.clone();
                return Err((path, self.cut(frames, rest)));
            } else if rest < self.layout.form.bytes() as u64 {
                self.cut_frames += 1;
                self.pass_over(format!("ends inside the header of a frame: {rest} bytes of it are there"))?;
            } else {
                match self.header() {
                    Ok((header, blob)) => return Ok(Some(self.head(header, blob, frames, rest))),
                    Err(what) => self.pass_over(what)?,
                }
            }
        }
    }

    /// Goes on behind files that are missing, where that is wanted.
    fn pass_hole(&mut self) -> std::result::Result<(), (PathBuf, String)> {
        let file = &self.files[self.current];
        let missing = self.missing(file, self.index);
        let what = format!("is missing, but {} is there: frames in between are lost", file.name());
        if !self.layout.pass_holes && !self.layout.keep_going {
            let advice = "bring the file back, read the frames before it only, or keep going";
            return Err((missing, format!("{what} ({advice})")));
        }
        self.index = file.index;
        self.damaged += u64::from(self.layout.keep_going);
        self.warnings.push(format!("{}: {what}", missing.display()));
        Ok(())
    }

    /// The header of the next frame of the current file.
    fn header(&mut self) -> std::result::Result<(Header, Blob), String> {
        let file = &self.files[self.current];
        if self.blob.is_none() {
            self.blob = Some(file.open().map_err(|e| unnamed(&e, &file.path))?);
        }
        let blob = self.blob.as_ref().expect("just opened");
        let (mut bytes, at) = ([0; Header::BYTES], self.in_file * self.stride);
        let bytes = &mut bytes[..self.layout.form.bytes()];
        blob.read_exact_at(bytes, at).map_err(|e| {
            let what = self.last.map_or("the first frame".into(), |n| format!("the frame after {n}"));
            unnamed(&blob.read_failed(&file.path, e, &what, at + self.stride), &file.path)
        })?;
        Ok((self.layout.form.parse(bytes), blob.clone()))
    }

    fn head(&mut self, header: Header, blob: Blob, frames: u64, rest: u64) -> Head {
        let (before, own) = (self.layout.form.bytes(), self.layout.image_bytes);
        let cut = self.in_file == frames;
        let bytes = if cut { rest as usize - before } else { own };
        if cut {
            self.damaged += 1;
            self.warnings.push(format!(
                "{}: ends inside frame {}: {bytes} of the {own} bytes of its image are there, the others are masked",
                self.files[self.current].path.display(),
                header.frame
            ));
        }
        let image = self.in_file * self.stride + before as u64;
        self.in_file += 1;
        Head { header, blob, image, bytes, file: self.current }
    }

    /// What is wrong with a file that ends `rest` bytes into a frame.
    fn cut(&mut self, frames: u64, rest: u64) -> String {
        let number = (rest >= self.layout.form.bytes() as u64)
            .then(|| self.header().ok())
            .flatten()
            .map(|(header, _)| header.frame);
        let which = match (number, self.last) {
            (Some(n), _) => format!("frame {n}"),
            (None, Some(n)) => format!("the frame after {n}"),
            (None, None) => "the first frame".into(),
        };
        format!(
            "ends inside {which}: {rest} bytes of it were found, {} expected; the {frames} frames before it in this file \
             are whole (read those only, keep going, or bring the whole file)",
            self.stride
        )
    }
}

/// An error without the name of its file.
fn unnamed(e: &Error, path: &Path) -> String {
    let text = e.to_string();
    text.strip_prefix(&format!("{}: ", path.display())).map_or(text.clone(), str::to_string)
}
