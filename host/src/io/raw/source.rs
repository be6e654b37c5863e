//! A raw run as a source of frames.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use scheidegg_finder::{Error, FrameBuf, Result, Shape};

use super::assembly::{Assembly, Subfile};
use super::boards::{Board, Map};
use super::decode::Gain;
use super::header::{Detector, Form, Header};
use super::layout::{Layout, Packets, PortView, Rect};
use super::master::Master;
use super::names::{data_file_name, master_name};
use super::port::{self, Port};
use crate::io::files::OpenOptions;
use crate::io::{Facts, Health, Skipped, Source};

/// Choices that a raw run leaves to its reader.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RawReading {
    /// What becomes of pixels that are not in gain 0.
    pub gain: Gain,
    /// Which region of interest is read, counted from 0, where a run has several.
    pub roi: Option<usize>,
    /// Which detector a chip test board read, where the master does not tell.
    pub board: Option<Board>,
    /// Whether damaged data files are passed over with their frames counted, and what is missing of a cut frame masked.
    pub keep_going: bool,
}

impl From<&OpenOptions> for RawReading {
    fn from(o: &OpenOptions) -> RawReading {
        RawReading { gain: o.gain, roi: o.roi, board: o.board, keep_going: o.keep_going }
    }
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
    frames: Assembly,
    facts: Facts,
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
        let detector = master.detector(reading.board)?;
        let err = |what: String| Error::file(&master.path, what);
        if files.is_empty() {
            return Err(err(format!("no data file like {first_name} stands beside it")));
        }
        let (mut layout, map) = match detector {
            Detector::Board(_) if !master.rois.is_empty() => {
                return Err(err("a region of interest of a chip test board is not an image".into()));
            }
            Detector::Board(board) => {
                let layout = Layout::of_board(board.shape(), master.image_bytes);
                (layout, Some(Map::new(board, master.adc_mask.count_ones() as usize)))
            }
            _ => (layout_of(&master, &files, reading)?, None),
        };
        let mut warnings = Vec::new();
        let has_files = |d: usize| files.iter().any(|f| f.0 == d);
        if let Some(view) = layout.ports.iter().find(|p| !has_files(p.port)) {
            let what = format!("port {} has no data file ({first_name} with d{})", view.port, view.port);
            if !reading.keep_going {
                return Err(err(format!("{what}: the run is not complete without it")));
            }
            warnings.push(format!("{}: {what}: its pixels are masked", master.path.display()));
            let missing: Vec<_> = layout.ports.iter().map(|p| p.port).filter(|d| !has_files(*d)).collect();
            layout = layout.mask_ports(&missing).map_err(err)?;
        }
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
            store_whole_if_so(view, &own[0]);
            let kind = port::Layout {
                form: Form::Sls,
                image_bytes: view.image_bytes,
                max_frames: master.max_frames_per_file,
                pass_holes: false,
                keep_going: reading.keep_going,
            };
            ports.push(Port::new(view.port, own, kind));
        }
        let name = master.path.display().to_string();
        let mut frames = Assembly::new(name, layout, ports, reading.gain, reading.keep_going, map);
        frames.has_cells = detector == Detector::Jungfrau;
        frames.has_times = true;
        frames.health.warnings = warnings;
        let mut source = RawSource { detector, frames, master, facts: Facts::default() };
        let guessed = reading.board.is_none() && source.master.board_is_guessed;
        source.look_at_first_files(guessed)?;
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
        self.frames.matching.ports.iter().map(|p| (p.d, p.files.len(), p.total()))
    }

    /// Packets in the image of one port, if that is known.
    pub fn packets(&self) -> Option<usize> {
        self.frames.packets.map(|p| p.count)
    }

    /// Learns how images are cut into packets and notes what does not fit together.
    fn look_at_first_files(&mut self, guessed: bool) -> Result<()> {
        /// Headers that are looked at in the first file of every port.
        const HEADERS: usize = 64;
        let (mut headers, mut firsts, mut warnings) = (Vec::new(), Vec::new(), Vec::new());
        for (port, view) in self.frames.matching.ports.iter().zip(&self.frames.layout.ports) {
            let mut first = port.of_first_file();
            first.look_ahead(HEADERS);
            if let Some(head) = first.ahead().front() {
                firsts.push((port.files[0].path.clone(), view.port, head.header));
            }
            headers.extend(first.ahead().iter().map(|h| h.header));
            if let Some(missing) = port.hole() {
                warnings.push(format!("{} is missing in the middle of the run", missing.display()));
            }
        }
        self.frames.health.warnings.extend(warnings);
        self.facts = self.known_facts(firsts.first().map(|f| &f.2));
        for (path, d, header) in firsts {
            self.note_header(&path, d, &header);
        }
        let is_board = matches!(self.detector, Detector::Board(_));
        let full_bytes = if is_board { self.master.image_bytes } else { self.master.port.pixels() * 2 };
        let partly_read = self
            .master
            .rows_read
            .is_some_and(|rows| !is_board && rows != self.master.port.rows * self.master.udp_interfaces);
        self.frames.packets = Packets::of_detector(self.detector, full_bytes, self.master.ten_giga)
            .filter(|p| !partly_read && headers.iter().all(|h| p.fits(h)))
            .or_else(|| Packets::of_headers(full_bytes, headers.iter()).filter(|_| !partly_read));
        let path = self.master.path.display();
        let warnings = &mut self.frames.health.warnings;
        if self.frames.packets.is_none() && !headers.is_empty() {
            warnings.push(format!(
                "{path}: packets of an image are not known; lost ones are told by rows of 0xFFFF and not counted",
            ));
        }
        if self.detector == Detector::Board(Board::Moench04) && guessed {
            warnings.push(format!(
                "{path}: taken for a MÖNCH 04, as digital samples lie behind the analog ones; if another detector was read, \
                 say which (board = moench03)"
            ));
        }
        let found = self.frames.matching.ports.iter().map(Port::total).min().unwrap_or(0);
        match self.master.frames_in_file {
            Some(said) if said != found => {
                warnings.push(format!("{path}: the master says {said} frames, the data files hold {found}"))
            }
            _ => {}
        }
        Ok(())
    }

    /// How the frames were taken, by the master and the first header.
    fn known_facts(&self, first: Option<&Header>) -> Facts {
        /// Bits of a JUNGFRAU's third word: high gain, forced to gain 1, to gain 2.
        const HIGH: u32 = 1;
        const FORCED_1: u32 = 1 << 12;
        const FORCED_2: u32 = 1 << 13;
        let m = &self.master;
        let of_jungfrau = first.filter(|_| self.detector == Detector::Jungfrau);
        let gain = of_jungfrau.map(|h| {
            let held = match (h.spec3 & FORCED_1 != 0, h.spec3 & FORCED_2 != 0) {
                (false, false) => "switching by itself",
                (true, false) => "forced to G1",
                _ => "forced to G2",
            };
            if h.spec3 & HIGH != 0 { format!("{held}, high gain 0") } else { held.to_string() }
        });
        let text = |s: &str| Some(s.to_string()).filter(|s| !s.is_empty());
        let other = |word: &str| {
            let has = |k: &str| k.to_ascii_lowercase().contains(word);
            m.other.iter().find(|o| has(&o.0)).map(|o| o.1.clone())
        };
        let detector = match self.detector {
            Detector::Board(board) => board.word(),
            d => d.name(),
        };
        Facts {
            detector: text(detector),
            whole: self.frames.layout.whole.map(|s| [s.rows, s.cols]),
            region: self.frames.layout.region.map(Facts::region_of),
            gain,
            exposure: text(&m.exposure),
            period: text(&m.period),
            temperature: other("temperature"),
            firmware: other("firmware"),
            readout_speed: text(&m.readout_speed),
            storage_cell: of_jungfrau.map(Header::storage_cell),
        }
    }

    fn note_header(&mut self, path: &Path, d: usize, h: &Header) {
        if h.detector != 0 && h.detector != self.detector.header_code() {
            self.frames.health.warnings.push(format!(
                "{}: the frame header says detector {}, the master {} ({})",
                path.display(),
                h.detector,
                self.detector.header_code(),
                self.master.detector_type
            ));
        }
        let Some(geometry) = self.master.geometry.filter(|_| !matches!(self.detector, Detector::Board(_)))
        else {
            return;
        };
        let (row, column) = (d % geometry.rows, d / geometry.rows);
        let says = (usize::from(h.row), usize::from(h.column));
        // Receivers of one module may leave both at 0.
        if says != (0, 0) && says != (row, column) {
            self.frames.health.warnings.push(format!(
                "{}: the frame header puts port {d} at row {} and column {}, its place in the run at {row} and {column}",
                path.display(),
                h.row,
                h.column
            ));
        }
    }
}

/// How the ports of a run make an image, without those that were disabled.
fn layout_of(master: &Master, files: &[(usize, Subfile)], reading: &RawReading) -> Result<Layout> {
    let err = |what: String| Error::file(&master.path, what);
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
    let geometry = match master.geometry {
        Some(g) => g,
        None => geometry_of_headers(files)?,
    };
    let layout = Layout::of_ports(master.port, geometry, roi).map_err(err)?;
    let disabled: Vec<_> = master
        .disabled_ports
        .iter()
        .copied()
        // A region of interest counts more: a port that it needs and whose files are there was not disabled.
        .filter(|d| layout.ports.iter().any(|p| p.port == *d) && files.iter().all(|f| f.0 != *d))
        .collect();
    if disabled.is_empty() { Ok(layout) } else { layout.without(&disabled).map_err(err) }
}

/// Geometry for masters that do not say it: the highest row and column in the first header of every port.
fn geometry_of_headers(files: &[(usize, Subfile)]) -> Result<Shape> {
    let (mut rows, mut cols) = (1, 1);
    let is_first = |d: usize, file: &Subfile| files.iter().all(|f| f.0 != d || f.1.index >= file.index);
    for (d, file) in files.iter().filter(|f| f.1.bytes >= Header::BYTES as u64 && is_first(f.0, &f.1)) {
        // As a file of frames without an image: the first header alone.
        let kind = port::Layout {
            form: Form::Sls,
            image_bytes: 0,
            max_frames: 0,
            pass_holes: true,
            keep_going: false,
        };
        let mut port = Port::new(*d, vec![file.clone()], kind);
        port.look_ahead(1);
        port.check()?;
        if let Some(head) = port.ahead().front() {
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
        view.stored = Rect::whole(view.full);
        view.image_bytes = whole;
    }
}

impl Source for RawSource {
    fn name(&self) -> String {
        self.frames.name().to_string()
    }

    fn shape(&self) -> Shape {
        self.frames.shape()
    }

    fn remaining(&self) -> Option<u64> {
        Some(self.frames.left())
    }

    fn read(&mut self, into: &mut FrameBuf) -> Result<usize> {
        self.frames.read(into)
    }

    fn skip(&mut self, frames: u64) -> Result<Skipped> {
        self.frames.skip(frames)
    }

    fn facts(&self) -> Facts {
        self.facts.clone()
    }

    fn health(&self) -> Health {
        self.frames.health(true)
    }
}
