//! A raw run as a source of frames.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rayon::prelude::*;
use scheidegg_finder::{Error, FrameBuf, LostPixels, Result, Shape};

use super::decode::{Found, Gain};
use super::header::{Detector, Header};
use super::layout::{Layout, Packets, PortView, moench03};
use super::master::Master;
use super::matching::Matching;
use super::names::{data_file_name, master_name};
use super::port::{Head, Port, Subfile};
use crate::io::{Health, Skipped, Source};

mod image;

/// Choices that a raw run leaves to its reader.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RawReading {
    /// What becomes of pixels that are not in gain 0.
    pub gain: Gain,
    /// Which region of interest is read, counted from 0, where a run has several.
    pub roi: Option<usize>,
}

/// The frames of a raw run: ports and modules matched by frame number, lost packets and other gains masked, 14 bits of
/// charge left.
///
/// # Determinism
/// Reading is parallel over frames; what comes out does not depend on it.
#[derive(Debug)]
pub struct RawSource {
    master: Master,
    detector: Detector,
    layout: Layout,
    matching: Matching,
    gain: Gain,
    packets: Option<Packets>,
    /// The word of every pixel, where pixels are not in rows.
    words: Option<Vec<u32>>,
    health: Health,
    given: u64,
    /// Work space: the batch that is read, one entry a frame and port.
    heads: Vec<Head>,
    numbers: Vec<u64>,
}

impl RawSource {
    /// Opens the run of a master file.
    ///
    /// # Errors
    /// [`Error::File`] for a master that is not whole, a detector that does not integrate charge, a port without files.
    pub fn open(master: &Path, reading: &RawReading) -> Result<RawSource> {
        let parsed = Master::read(master)?;
        let Some((base, run)) = master_name(master) else {
            return Err(Error::file(
                master,
                "a master file is called NAME_master_RUN.json (or .raw): its data files are found by that",
            ));
        };
        let folder = master.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let mut files = Vec::new();
        for entry in std::fs::read_dir(folder).map_err(|e| Error::io(folder, e))? {
            let entry = entry.map_err(|e| Error::io(folder, e))?;
            let Some(name) = data_file_name(&entry.file_name().to_string_lossy()) else { continue };
            if name.base == base && name.run == run {
                // By path, not by entry: a link to a file counts as the file.
                let path = folder.join(entry.file_name());
                let bytes = std::fs::metadata(&path).map_err(|e| Error::io(&path, e))?.len();
                files.push((name.port, Subfile { index: name.file, path, bytes, memory: None }));
            }
        }
        RawSource::build(parsed, files, reading, &format!("{base}_d0_f0_{run}.raw"))
    }

    /// A run in memory, for tests and fuzzing: the master's content and data files as `(port, index, content)`.
    ///
    /// # Errors
    /// As [`RawSource::open`].
    pub fn in_memory(
        master: &[u8],
        files: impl IntoIterator<Item = (usize, u64, Vec<u8>)>,
        reading: &RawReading,
    ) -> Result<RawSource> {
        let parsed = Master::parse(Path::new("memory_master_0.json"), master)?;
        let subfile = |(port, index, content): (usize, u64, Vec<u8>)| {
            let path = PathBuf::from(format!("memory_d{port}_f{index}_0.raw"));
            (port, Subfile { index, path, bytes: content.len() as u64, memory: Some(Arc::from(content)) })
        };
        RawSource::build(parsed, files.into_iter().map(subfile).collect(), reading, "memory_d0_f0_0.raw")
    }

    fn build(
        master: Master,
        files: Vec<(usize, Subfile)>,
        reading: &RawReading,
        first_name: &str,
    ) -> Result<RawSource> {
        let detector = master.detector()?;
        let err = |what: String| Error::file(&master.path, what);
        if files.is_empty() {
            return Err(err(format!("no data file like {first_name} stands beside it")));
        }
        let roi = match (master.rois.as_slice(), reading.roi) {
            ([], None) => None,
            ([one], None | Some(0)) => Some(*one),
            (many, Some(k)) if k < many.len() => Some(many[k]),
            (many, Some(k)) => {
                return Err(err(format!("region of interest {k} was asked for, the run has {}", many.len())));
            }
            (many, None) => {
                return Err(err(format!(
                    "the run has {} regions of interest, which are images of their own: choose one, 0 to {}",
                    many.len(),
                    many.len() - 1
                )));
            }
        };
        let mut layout = match detector {
            Detector::Moench03 if roi.is_some() => {
                return Err(err("a region of interest of a chip test board is not an image".into()));
            }
            Detector::Moench03 => Layout::of_board(master.image_bytes),
            _ => {
                let geometry = match master.geometry {
                    Some(g) => g,
                    None => geometry_of_headers(&files)?,
                };
                Layout::of_ports(master.port, geometry, roi).map_err(err)?
            }
        };
        let mut ports = Vec::new();
        for view in &mut layout.ports {
            let mut own: Vec<_> = files.iter().filter(|f| f.0 == view.port).map(|f| f.1.clone()).collect();
            own.sort_by_key(|f| f.index);
            if let Some(w) = own.windows(2).find(|w| w[0].index == w[1].index) {
                return Err(Error::file(
                    &w[1].path,
                    format!("stands for the same part of the run as {}: remove one", w[0].path.display()),
                ));
            }
            let Some(first) = own.first() else {
                return Err(err(format!(
                    "port {} has no data file ({} with d{}): the run is not complete without it",
                    view.port, first_name, view.port
                )));
            };
            store_whole_if_so(view, first);
            ports.push(Port::new(view.port, own, view.image_bytes, master.max_frames_per_file));
        }
        let mut source = RawSource {
            detector,
            words: (detector == Detector::Moench03).then(moench03::words),
            layout,
            matching: Matching::new(ports),
            gain: reading.gain,
            packets: None,
            health: Health::default(),
            given: 0,
            heads: Vec::new(),
            numbers: Vec::new(),
            master,
        };
        source.look_at_first_files()?;
        Ok(source)
    }

    /// The master file.
    pub fn master(&self) -> &Master {
        &self.master
    }

    /// The detector.
    pub fn detector(&self) -> Detector {
        self.detector
    }

    /// Data files of every port, as `(port, files, whole frames)`.
    pub fn ports(&self) -> impl Iterator<Item = (usize, usize, u64)> {
        self.matching.ports.iter().map(|p| (p.d, p.files.len(), p.total()))
    }

    /// Packets in the image of one port, if that is known.
    pub fn packets(&self) -> Option<usize> {
        self.packets.map(|p| p.count)
    }

    /// Learns how images are cut into packets and notes what does not fit together.
    fn look_at_first_files(&mut self) -> Result<()> {
        /// Headers that are looked at in the first file of every port.
        const HEADERS: u64 = 64;
        let (mut headers, mut firsts) = (Vec::new(), Vec::new());
        for (port, view) in self.matching.ports.iter().zip(&self.layout.ports) {
            let mut first = Port::new(port.d, port.files[..1].to_vec(), view.image_bytes, 0);
            let frames = first.total().min(HEADERS);
            for k in 0..frames {
                let Ok(Some(head)) = first.peek() else { break };
                let h = head.header;
                if k == 0 {
                    firsts.push((port.files[0].path.clone(), view.port, h));
                }
                headers.push(h);
                first.take();
            }
            if let Some(missing) = port.hole() {
                self.health
                    .warnings
                    .push(format!("{} is missing in the middle of the run", missing.display()));
            }
        }
        for (path, d, header) in firsts {
            self.note_header(&path, d, &header);
        }
        let full_bytes = match self.detector {
            Detector::Moench03 => self.master.image_bytes,
            _ => self.master.port.pixels() * 2,
        };
        let partly_read = self.master.rows_read.is_some_and(|rows| {
            self.detector != Detector::Moench03 && rows != self.master.port.rows * self.master.udp_interfaces
        });
        self.packets = Packets::of_detector(self.detector, full_bytes, self.master.ten_giga)
            .filter(|p| !partly_read && headers.iter().all(|h| p.fits(h)))
            .or_else(|| Packets::of_headers(full_bytes, headers.iter()).filter(|_| !partly_read));
        if self.packets.is_none() && !headers.is_empty() {
            self.health.warnings.push(format!(
                "{}: packets of an image are not known; lost ones are told by rows of 0xFFFF and not counted",
                self.master.path.display()
            ));
        }
        let found = self.matching.ports.iter().map(Port::total).min().unwrap_or(0);
        match self.master.frames_in_file {
            Some(said) if said != found => self.health.warnings.push(format!(
                "{}: the master says {said} frames, the data files hold {found}",
                self.master.path.display()
            )),
            _ => {}
        }
        Ok(())
    }

    fn note_header(&mut self, path: &Path, d: usize, h: &Header) {
        if h.detector != 0 && h.detector != self.detector.header_code() {
            self.health.warnings.push(format!(
                "{}: the frame header says detector {}, the master {} ({})",
                path.display(),
                h.detector,
                self.detector.header_code(),
                self.master.detector_type
            ));
        }
        let Some(geometry) = self.master.geometry.filter(|_| self.detector != Detector::Moench03) else {
            return;
        };
        let (row, column) = (d % geometry.rows, d / geometry.rows);
        let says = (usize::from(h.row), usize::from(h.column));
        // Receivers of one module may leave both at 0.
        if says != (0, 0) && says != (row, column) {
            self.health.warnings.push(format!(
                "{}: the frame header puts port {d} at row {} and column {}, its place in the run at {row} and {column}",
                path.display(),
                h.row,
                h.column
            ));
        }
    }

    /// Collects the next frames, at most `room`, into the work space.
    fn plan(&mut self, room: usize) -> Result<()> {
        self.heads.clear();
        self.numbers.clear();
        while self.numbers.len() < room {
            match self.matching.next(&mut self.heads) {
                Ok(Some(number)) => self.numbers.push(number),
                Ok(None) => break,
                // The frames before it are whole; the error comes again with the next call.
                Err(_) if !self.numbers.is_empty() => break,
                Err(e) => return Err(e),
            }
        }
        if let Some(packets) = self.packets {
            let lost = self.heads.iter().map(|h| packets.lost(&h.header).packets() as u64);
            self.health.lost_packets += lost.sum::<u64>();
        }
        self.given += self.numbers.len() as u64;
        Ok(())
    }
}

/// Geometry for masters that do not say it: the highest row and column in the first header of every port.
fn geometry_of_headers(files: &[(usize, Subfile)]) -> Result<Shape> {
    let (mut rows, mut cols) = (1, 1);
    let is_first = |d: usize, file: &Subfile| files.iter().all(|f| f.0 != d || f.1.index >= file.index);
    for (d, file) in files.iter().filter(|f| f.1.bytes >= Header::BYTES as u64 && is_first(f.0, &f.1)) {
        // As a file of frames without an image: the first header alone.
        let mut port = Port::new(*d, vec![Subfile { index: 0, ..file.clone() }], 0, 0);
        if let Some(head) = port.peek()? {
            rows = rows.max(usize::from(head.header.row) + 1);
            cols = cols.max(usize::from(head.header.column) + 1);
        }
    }
    Shape::new(rows, cols)
}

/// With a region of interest some receivers store the port whole: told by the size of its first file.
fn store_whole_if_so(view: &mut PortView, first: &Subfile) {
    let whole = view.full.pixels() * 2;
    let holds = |image: usize| first.bytes > 0 && first.bytes.is_multiple_of((Header::BYTES + image) as u64);
    if !holds(view.image_bytes) && holds(whole) {
        view.stored = super::layout::Rect::whole(view.full);
        view.image_bytes = whole;
    }
}

impl Source for RawSource {
    fn name(&self) -> String {
        self.master.path.display().to_string()
    }

    fn shape(&self) -> Shape {
        self.layout.shape
    }

    fn remaining(&self) -> Option<u64> {
        Some(self.matching.left())
    }

    fn read(&mut self, into: &mut FrameBuf) -> Result<usize> {
        Error::check_shape(&self.name(), self.layout.shape, into.shape())?;
        self.plan(into.capacity() - into.len())?;
        let (pixels, ports) = (self.layout.shape.pixels(), self.layout.ports.len());
        let (mut lost, mut gain) = (0, 0);
        into.extend(&self.numbers, |memory| {
            let found: Result<Vec<Found>> = memory
                .par_chunks_exact_mut(pixels)
                .zip(self.heads.par_chunks_exact(ports))
                .map(|(frame, heads)| self.frame(heads, frame))
                .collect();
            let mut masks = Vec::new();
            for (frame, found) in found?.into_iter().enumerate() {
                (lost, gain) = (lost + found.lost, gain + found.gain);
                masks.extend(found.mask.filter(|m| !m.is_empty()).map(|mask| LostPixels { frame, mask }));
            }
            Ok(masks)
        })?;
        self.health.lost_pixels += lost;
        self.health.gain_pixels += gain;
        // Files that are done are closed.
        self.heads.clear();
        Ok(self.numbers.len())
    }

    fn skip(&mut self, frames: u64) -> Result<Skipped> {
        const AT_ONCE: usize = 1024;
        let mut skipped = Skipped::default();
        while skipped.frames < frames {
            let left = usize::try_from(frames - skipped.frames).unwrap_or(AT_ONCE);
            match self.plan(left.min(AT_ONCE)) {
                Ok(()) if self.numbers.is_empty() => break,
                Ok(()) => skipped.add(&self.numbers),
                Err(e) if skipped.frames == 0 => return Err(e),
                Err(_) => break,
            }
            self.heads.clear();
        }
        Ok(skipped)
    }

    fn health(&self) -> Health {
        let mut health = self.health.clone();
        health.gaps = self.matching.gaps;
        health.incomplete_frames = self.matching.incomplete;
        health.repeated_frames = self.matching.ports.iter().map(|p| p.repeated).max().unwrap_or(0);
        health.warnings.extend(self.matching.warnings.iter().cloned());
        for port in &self.matching.ports {
            if let Some(first) = &port.first_repeated {
                health
                    .warnings
                    .push(format!("{first}: left out, {} such frames in port {}", port.repeated, port.d));
            }
        }
        if health.gain_pixels > self.given.saturating_mul(self.layout.shape.pixels() as u64) / 2 {
            health.warnings.push(format!(
                "{}: most pixels are masked for not being in gain 0; if the top two bits of this detector's words are no \
                 gain, have them dropped",
                self.name()
            ));
        }
        health
    }
}
