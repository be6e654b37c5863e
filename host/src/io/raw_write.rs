//! Writes SLS raw runs: a JSON master of version 7.2 and data files with headers, as the receiver does.

use std::fs;
use std::path::PathBuf;

use scheidegg_finder::{Error, Result, Shape};

use super::output::{self, Output, Place};
use super::raw::{Detector, Header, PacketSet};

/// What a raw run looks like.
#[derive(Clone, Debug)]
pub struct RawOptions {
    /// The detector. A [`Detector::Board`] cannot be written.
    pub detector: Detector,
    /// Rows and columns of the whole image.
    pub shape: Shape,
    /// Modules down and across. Default 1 x 1.
    pub modules: Shape,
    /// UDP ports a module, 1 or 2; two share its rows. Default 1.
    pub ports: usize,
    /// Frames in one data file. Default 10 000.
    pub max_frames_per_file: u64,
    /// Number of the run in the files' names. Default 0.
    pub run: u64,
    /// Exposure time in ns. Default 100 000.
    pub exposure_ns: u64,
    /// Time from frame to frame in ns. Default 1 000 000.
    pub period_ns: u64,
}

impl RawOptions {
    /// One module on one port.
    pub fn new(detector: Detector, shape: Shape) -> Self {
        RawOptions {
            detector,
            shape,
            modules: Shape { rows: 1, cols: 1 },
            ports: 1,
            max_frames_per_file: 10_000,
            run: 0,
            exposure_ns: 100_000,
            period_ns: 1_000_000,
        }
    }
}

/// Writes a raw run frame by frame. Its files get their names at the end, the master last; dropped unfinished, nothing is
/// left of it.
#[derive(Debug)]
pub struct RawWriter {
    folder: PathBuf,
    keep: bool,
    name: String,
    options: RawOptions,
    /// Rows and columns that one port sends.
    port: Shape,
    /// Ports down and across.
    geometry: Shape,
    packets: usize,
    /// The open data file of every port.
    files: Vec<Output>,
    in_file: u64,
    frames: u64,
    /// Data files that are whole and wait for the end of the run.
    closed: Vec<Output>,
    bytes: Vec<u8>,
}

impl RawWriter {
    /// Starts the run `<name>_master_<run>.json` in a folder. Files of a run of the same name are replaced at the end, unless the
    /// files of the folder are to be [kept](Place::keep).
    ///
    /// # Errors
    /// [`Error::Param`] for a shape that modules and ports do not divide, or what the system says about the folder.
    pub fn create(folder: impl Into<Place>, name: &str, options: &RawOptions) -> Result<RawWriter> {
        let (Place { path: folder, keep }, o) = (folder.into(), options.clone());
        if matches!(o.detector, Detector::Board(_)) {
            return Err(Error::param("detector", o.detector.name(), "Jungfrau or Moench"));
        }
        if o.ports != 1 && o.ports != 2 {
            return Err(Error::param("ports", o.ports, "1 or 2 a module"));
        }
        if o.max_frames_per_file == 0 {
            return Err(Error::param("max_frames_per_file", 0, "at least 1"));
        }
        Shape::new(o.modules.rows, o.modules.cols)?;
        let geometry = Shape { rows: o.modules.rows * o.ports, cols: o.modules.cols };
        if !o.shape.rows.is_multiple_of(geometry.rows) || !o.shape.cols.is_multiple_of(geometry.cols) {
            return Err(Error::param(
                "frame shape",
                o.shape,
                format!("a multiple of {geometry}, the ports down and across"),
            ));
        }
        let port = Shape::new(o.shape.rows / geometry.rows, o.shape.cols / geometry.cols)?;
        let writer = RawWriter {
            keep,
            packets: packets_of(o.detector, port),
            folder,
            name: name.to_string(),
            options: o,
            port,
            geometry,
            files: Vec::new(),
            in_file: 0,
            frames: 0,
            closed: Vec::new(),
            bytes: Vec::new(),
        };
        match writer.older()?.first() {
            Some(there) if keep => Err(output::taken(there)),
            _ => Ok(writer),
        }
    }

    /// Packets in the image of one port.
    pub fn packets(&self) -> usize {
        self.packets
    }

    /// Ports of the run: modules times ports a module.
    pub fn ports(&self) -> usize {
        self.geometry.pixels()
    }

    /// The rows of the image that a packet of a port carries, within the columns of that port.
    pub fn packet_rows(&self, port: usize, packet: usize) -> std::ops::Range<usize> {
        let per = self.port.rows / self.packets;
        let first = port % self.geometry.rows * self.port.rows + packet * per;
        first..first + per
    }

    /// Appends a frame, all packets caught. `pixels` are raw words, gain bits included.
    ///
    /// # Errors
    /// [`Error::Param`] for another number of pixels, or what the system says.
    pub fn push(&mut self, number: u64, pixels: &[u16]) -> Result<()> {
        self.push_lossy(number, pixels, &[])
    }

    /// Appends a frame of which some packets were lost, as `(port, packet)`: their pixels become 0xFFFF.
    ///
    /// # Errors
    /// As [`RawWriter::push`].
    pub fn push_lossy(&mut self, number: u64, pixels: &[u16], lost: &[(usize, usize)]) -> Result<()> {
        if let Some(&(port, packet)) = lost.iter().find(|l| l.0 >= self.ports() || l.1 >= self.packets) {
            return Err(Error::param(
                "lost packet",
                format!("{packet} of port {port}"),
                format!("below {} of {} ports", self.packets, self.ports()),
            ));
        }
        self.push_ports(number, pixels, lost, |_| true)
    }

    /// Appends a frame to the ports that `sent` names only, as when a receiver discards it elsewhere. The files of all
    /// ports still end after the same frames.
    ///
    /// # Errors
    /// As [`RawWriter::push`].
    pub fn push_ports(
        &mut self,
        number: u64,
        pixels: &[u16],
        lost: &[(usize, usize)],
        sent: impl Fn(usize) -> bool,
    ) -> Result<()> {
        let cols = self.options.shape.cols;
        if pixels.len() != self.options.shape.pixels() {
            return Err(Error::param(
                "frame",
                format!("{} pixels", pixels.len()),
                format!("{} ({})", self.options.shape.pixels(), self.options.shape),
            ));
        }
        if self.files.is_empty() || self.in_file == self.options.max_frames_per_file {
            self.next_files()?;
        }
        for d in (0..self.ports()).filter(|&d| sent(d)) {
            let (down, across) = (d % self.geometry.rows, d / self.geometry.rows);
            let mut caught = PacketSet::first(self.packets);
            lost.iter().filter(|l| l.0 == d).for_each(|l| caught.remove(l.1));
            let packets = caught.count_below(self.packets) as u32;
            let header = Header {
                frame: number,
                exposure_100ns: u32::try_from(self.options.exposure_ns / 100).unwrap_or(u32::MAX),
                packets,
                bunch: 0,
                timestamp_100ns: (self.options.period_ns / 100).saturating_mul(self.frames),
                module: (d / self.options.ports) as u16,
                row: down as u16,
                column: across as u16,
                spec3: 0,
                detector: self.options.detector.header_code(),
                version: 2,
                caught,
            };
            self.bytes.clear();
            self.bytes.extend_from_slice(&header.to_bytes());
            for r in 0..self.port.rows {
                let row =
                    &pixels[(down * self.port.rows + r) * cols + across * self.port.cols..][..self.port.cols];
                self.bytes.extend_from_slice(bytemuck::cast_slice(row));
            }
            let each = self.port.pixels() * 2 / self.packets;
            for p in (0..self.packets).filter(|&p| !caught.contains(p)) {
                self.bytes[Header::BYTES + p * each..][..each].fill(0xFF);
            }
            self.files[d].write(&self.bytes)?;
        }
        self.in_file += 1;
        self.frames += 1;
        Ok(())
    }

    fn next_files(&mut self) -> Result<()> {
        self.close_files()?;
        let index = self.frames / self.options.max_frames_per_file;
        for d in 0..self.ports() {
            let file = format!("{}_d{d}_f{index}_{}.raw", self.name, self.options.run);
            self.files.push(Output::create(self.folder.join(file))?);
        }
        self.in_file = 0;
        Ok(())
    }

    fn close_files(&mut self) -> Result<()> {
        for mut file in self.files.drain(..) {
            file.close()?;
            self.closed.push(file);
        }
        Ok(())
    }

    /// Completes the run and returns the path of its master. The files of an earlier run of the same name are removed first, its
    /// master before all: data files of two runs never stand behind one master.
    ///
    /// # Errors
    /// What the system says; that the name was taken meanwhile and is to be [kept](Place::keep): the run lies beside it
    /// then, under a name which the error says.
    pub fn finish(self) -> Result<PathBuf> {
        self.finish_as(true)
    }

    /// As [`RawWriter::finish`], but where not all frames are there that were to be, an earlier run of the same name stays, and
    /// this one is called `<name>.partial`, `<name>.partial-2` and so on.
    ///
    /// # Errors
    /// As [`RawWriter::finish`].
    pub fn finish_as(mut self, complete: bool) -> Result<PathBuf> {
        if self.files.is_empty() && self.closed.is_empty() {
            self.next_files()?;
        }
        self.close_files()?;
        let mut master = Output::create(self.master_path(&self.name))?;
        master.write(self.master().as_bytes())?;
        let older = self.older()?;
        let beside = !older.is_empty() && (self.keep || !complete);
        if beside {
            self.take_free_name(&mut master);
        } else {
            for path in &older {
                fs::remove_file(path).map_err(|e| output::failed(path, e))?;
            }
        }
        for file in self.closed.drain(..) {
            file.finish()?;
        }
        let path = master.finish()?;
        match beside && complete {
            true => {
                let what = format!("was taken meanwhile: the complete run is {}", path.display());
                Err(Error::file(&older[0], what))
            }
            false => Ok(path),
        }
    }

    fn master_path(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{name}_master_{}.json", self.options.run))
    }

    /// Calls all files by a name that no run has.
    fn take_free_name(&mut self, master: &mut Output) {
        let name = |n: u64| match n {
            1 => format!("{}.partial", self.name),
            n => format!("{}.partial-{n}", self.name),
        };
        let free = (1..).map(name).find(|name| !self.master_path(name).exists()).expect("numbers do not end");
        for file in self.closed.iter_mut().chain([master]) {
            let old = file.path().file_name().unwrap_or_default().to_string_lossy().into_owned();
            let rest = old.strip_prefix(&self.name).unwrap_or(&old);
            file.call(&format!("{free}{rest}"));
        }
    }

    /// The files of an earlier run of the same name, its master first: its data files would go on behind this one's.
    fn older(&self) -> Result<Vec<PathBuf>> {
        let entries = match fs::read_dir(&self.folder) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            other => other.map_err(|e| output::failed(&self.folder, e))?,
        };
        let master = self.master_path(&self.name);
        let mut older = Vec::new();
        older.extend(master.exists().then_some(master));
        for entry in entries {
            let path = entry.map_err(|e| output::failed(&self.folder, e))?.path();
            let file = path.file_name().unwrap_or_default().to_string_lossy();
            let run = self.options.run.to_string();
            if super::raw::data_file_name(&file).is_some_and(|n| n.base == self.name && n.run == run) {
                older.push(path);
            }
        }
        Ok(older)
    }

    fn master(&self) -> String {
        let o = &self.options;
        let (port, geometry, frames) = (self.port, self.geometry, self.frames);
        let module_rows = port.rows * o.ports;
        format!(
            r#"{{
    "Version": 7.2,
    "Timestamp": "Thu Jan  1 00:00:00 1970",
    "Detector Type": "{}",
    "Timing Mode": "auto",
    "Geometry": {{
        "x": {},
        "y": {}
    }},
    "Image Size in bytes": {},
    "Pixels": {{
        "x": {},
        "y": {}
    }},
    "Max Frames Per File": {},
    "Frame Discard Policy": "nodiscard",
    "Frame Padding": 1,
    "Scan Parameters": "[disabled]",
    "Total Frames": {frames},
    "Receiver Roi": {{
        "xmin": 4294967295,
        "xmax": 4294967295,
        "ymin": 4294967295,
        "ymax": 4294967295
    }},
    "Exptime": "{}ns",
    "Period": "{}ns",
    "Number of UDP Interfaces": {},
    "Number of rows": {module_rows},
    "Frames in File": {frames},
    "Frame Header Format": {{
        "Frame Number": "8 bytes",
        "SubFrame Number/ExpLength": "4 bytes",
        "Packet Number": "4 bytes",
        "Bunch ID": "8 bytes",
        "Timestamp": "8 bytes",
        "Module Id": "2 bytes",
        "Row": "2 bytes",
        "Column": "2 bytes",
        "Reserved": "2 bytes",
        "Debug": "4 bytes",
        "Round Robin Number": "2 bytes",
        "Detector Type": "1 byte",
        "Header Version": "1 byte",
        "Packets Caught Mask": "64 bytes"
    }}
}}
"#,
            o.detector.name(),
            geometry.cols,
            geometry.rows,
            port.pixels() * 2,
            port.cols,
            port.rows,
            o.max_frames_per_file,
            o.exposure_ns,
            o.period_ns,
            o.ports,
        )
    }
}

/// Packets of a port's image: the detector's own where they hold whole rows, else as few as hold whole rows and no more
/// bytes than the detector's.
fn packets_of(detector: Detector, port: Shape) -> usize {
    let rows_fit = |packets: usize| packets <= PacketSet::CAPACITY && port.rows.is_multiple_of(packets);
    let image = port.pixels() * 2;
    let own = image / detector.packet_bytes();
    if image.is_multiple_of(detector.packet_bytes()) && rows_fit(own) {
        return own;
    }
    let fewest = image.div_ceil(detector.packet_bytes());
    (fewest..=port.rows).find(|&p| rows_fit(p)).unwrap_or(1)
}
