//! The master file of a raw run, of every version that is about: JSON 7.x and 8.x, and the text before them.

use std::path::{Path, PathBuf};

use scheidegg_finder::{Error, Result, Shape};

use super::boards::Board;
use super::fields::{Fields, Roi, Said};
use super::header::Detector;
use crate::io::read_at::plain_file;

/// What a master file says of its run.
///
/// # Units
/// Exposure and period are kept in the words of the file (`10us`).
#[derive(Clone, Debug, PartialEq)]
pub struct Master {
    /// The file.
    pub path: PathBuf,
    /// Version of the format, as written.
    pub version: String,
    /// When the run was taken, as written.
    pub timestamp: String,
    /// The detector, as written.
    pub detector_type: String,
    /// `auto`, `trigger`, ...
    pub timing_mode: String,
    /// Ports down and across; old text masters do not say.
    pub geometry: Option<Shape>,
    /// Bytes of the image of one port, without its header.
    pub image_bytes: usize,
    /// Rows and columns of the image of one port.
    pub port: Shape,
    /// Frames of a data file, 0 for no limit.
    pub max_frames_per_file: u64,
    /// What the receiver did with frames that lost packets.
    pub discard_policy: String,
    /// Whether the receiver padded lost packets with 0xFF.
    pub padding: bool,
    /// Scan parameters, as written.
    pub scan: String,
    /// Frames that were asked for.
    pub total_frames: Option<u64>,
    /// Frames that were written.
    pub frames_in_file: Option<u64>,
    /// Regions of interest that the receiver cut out; empty for whole images.
    pub rois: Vec<Roi>,
    /// Exposure time, as written.
    pub exposure: String,
    /// Time from frame to frame, as written.
    pub period: String,
    /// UDP ports a module.
    pub udp_interfaces: usize,
    /// Rows of a module that were read out.
    pub rows_read: Option<usize>,
    /// Bits of a pixel.
    pub dynamic_range: u64,
    /// Whether data came over a 10 Gb/s link; detectors that have no other do not say.
    pub ten_giga: bool,
    /// Samples of every ADC, for a chip test board that was asked for analog data.
    pub analog_samples: Option<u64>,
    /// Which ADCs of a chip test board were read.
    pub adc_mask: u64,
    /// Samples of digital lines that lie behind the analog ones, for a chip test board that was asked for them.
    pub digital_samples: Option<u64>,
    /// Whether nothing but the digital samples tells which detector a chip test board read.
    pub board_is_guessed: bool,
    /// UDP ports that sent nothing, by their index (8.1).
    pub disabled_ports: Vec<usize>,
    /// Speed of the readout, as written (8.1).
    pub readout_speed: String,
    /// Entries that this list does not have, as text.
    pub other: Vec<(String, String)>,
}

impl Master {
    /// Reads a master file.
    ///
    /// # Errors
    /// [`Error::Io`], or what [`Master::parse`] says.
    pub fn read(path: &Path) -> Result<Master> {
        /// A master has some kilobytes; a data file given by mistake has gigabytes.
        const MOST: u64 = 16 << 20;
        let bytes = plain_file(path)?.len();
        if bytes > MOST {
            return Err(Error::file(path, format!("{bytes} bytes: too large for a master file")));
        }
        Master::parse(path, &std::fs::read(path).map_err(|e| Error::io(path, e))?)
    }

    /// Reads the content of a master file; `path` is for messages.
    ///
    /// # Errors
    /// [`Error::File`] that names the key which is missing or wrong.
    pub fn parse(path: &Path, content: &[u8]) -> Result<Master> {
        if content.starts_with(&[0xff, 0xfe]) || content.starts_with(&[0xfe, 0xff]) {
            return Err(Error::file(path, "is text of 16 bits a character (UTF-16): save it as UTF-8"));
        }
        let Ok(text) = std::str::from_utf8(content) else {
            return Err(Error::file(path, "is not text: not a master file"));
        };
        // Editors put a byte order mark in front.
        let text = text.trim_start_matches('\u{feff}');
        let is_json = text.trim_start().starts_with('{');
        let fields = if is_json { Fields::from_json(text) } else { Fields::from_text(text) };
        fields.and_then(|f| Master::build(path, f)).map_err(|what| Error::file(path, what))
    }

    fn build(path: &Path, mut f: Fields) -> Said<Master> {
        let text = |f: &mut Fields, keys: &[&str]| f.text(keys).unwrap_or_default();
        let version = text(&mut f, &["Version"]);
        let timestamp = text(&mut f, &["Timestamp"]);
        let detector_type = f.text(&["Detector Type"]);
        let timing_mode = text(&mut f, &["Timing Mode"]);
        let geometry = f.pair(&["Geometry"])?;
        let image_bytes = f.number(&["Image Size in bytes", "Image Size"])?;
        let pixels = f.pair(&["Pixels"])?;
        let max_frames_per_file = f.number(&["Max Frames Per File", "Max. Frames Per File"])?;
        let discard_policy = text(&mut f, &["Frame Discard Policy"]);
        let padding = f.number(&["Frame Padding"])?;
        let scan = text(&mut f, &["Scan Parameters"]);
        let total_frames = f.number(&["Total Frames"])?;
        let frames_in_file = f.number(&["Frames in File"])?;
        let rois = f.rois(&["Receiver Rois", "Receiver Roi"])?;
        let exposure = text(&mut f, &["Exptime", "Exposure Time"]);
        let period = text(&mut f, &["Period", "Acquisition Period"]);
        let udp_interfaces = f.number(&["Number of UDP Interfaces"])?;
        let rows_read = f.number(&["Number of Rows"])?;
        let dynamic_range = f.number(&["Dynamic Range"])?;
        let ten_giga = f.number(&["Ten Giga"])?;
        let analog_flag = f.number(&["Analog Flag"])?;
        let analog_samples = f.number(&["Analog Samples"])?;
        let digital_flag = f.number(&["Digital Flag"])?;
        let digital_samples = f.number(&["Digital Samples"])?;
        let disabled_ports = f.indices(&["UDP Ports Disabled", "Disabled"])?;
        let adc_mask = f.number(&["ADC Mask"])?;
        let readout_speed = text(&mut f, &["Readout Speed"]);
        f.text(&["Frame Header Format"]);

        let missing = |key: &str| {
            let known: Vec<_> = f.keys().map(|k| format!("\"{k}\"")).collect();
            let rest = if known.is_empty() { "none".into() } else { known.join(", ") };
            format!(
                "the key \"{key}\" is missing: without it the data files cannot be read (keys that mean nothing \
                 here: {rest})"
            )
        };
        let detector_type = detector_type.ok_or_else(|| missing("Detector Type"))?;
        // The key as this version of the format spells it.
        let size_key = if version.starts_with('7') { "Image Size in bytes" } else { "Image Size" };
        let image_bytes = image_bytes.ok_or_else(|| missing(size_key))?;
        let (x, y) = pixels.ok_or_else(|| missing("Pixels"))?;
        let port = Shape::new(y, x).map_err(|e| format!("\"Pixels\": {e}"))?;
        let geometry =
            geometry.map(|(x, y)| Shape::new(y, x).map_err(|e| format!("\"Geometry\": {e}"))).transpose()?;
        let udp_interfaces = match udp_interfaces {
            None | Some(1) => 1,
            Some(2) => 2,
            Some(n) => return Err(format!("\"Number of UDP Interfaces\" is {n}, expected 1 or 2")),
        };
        if image_bytes == 0 || image_bytes > 1 << 33 {
            return Err(format!("\"{size_key}\" is {image_bytes}, expected the bytes of an image"));
        }
        Ok(Master {
            path: path.to_path_buf(),
            version,
            timestamp,
            timing_mode,
            geometry,
            image_bytes: image_bytes as usize,
            port,
            max_frames_per_file: max_frames_per_file.unwrap_or(0),
            discard_policy,
            padding: padding.unwrap_or(1) != 0,
            scan,
            total_frames,
            frames_in_file,
            rois,
            exposure,
            period,
            udp_interfaces,
            rows_read: rows_read.and_then(|n| usize::try_from(n).ok()),
            dynamic_range: dynamic_range.unwrap_or(16),
            ten_giga: ten_giga.unwrap_or(1) != 0,
            analog_samples: analog_samples.filter(|_| analog_flag != Some(0)),
            adc_mask: adc_mask.unwrap_or(0xffff_ffff),
            board_is_guessed: !detector_type.eq_ignore_ascii_case("moench"),
            digital_samples: digital_samples.filter(|n| digital_flag != Some(0) && *n > 0),
            disabled_ports,
            readout_speed,
            detector_type,
            other: f.rest(),
        })
    }

    /// Which of the detectors that the finder is for took the run. `board` is what a chip test board read, where the user
    /// says so.
    ///
    /// # Errors
    /// [`Error::File`] for any other detector, by name, for images of another kind than 16-bit charge, and for a chip test
    /// board whose detector nothing tells.
    pub fn detector(&self, board: Option<Board>) -> Result<Detector> {
        let err = |what: String| Err(Error::file(&self.path, what));
        let analog = self.analog_samples.is_some();
        let detector = match self.detector_type.to_ascii_lowercase().as_str() {
            "jungfrau" => Detector::Jungfrau,
            "chiptestboard" | "moench" if analog => Detector::Board(self.board(board)?),
            "moench" => Detector::Moench,
            "chiptestboard" => {
                return err(
                    "a chip test board without analog samples: no charge to look for photons in".into()
                );
            }
            "eiger" | "mythen3" | "gotthard" | "gotthard2" | "xilinx_chiptestboard" => {
                return err(format!(
                    "taken with {}: photons are found in charge-integrating images of 16 bits, from JUNGFRAU or MÖNCH",
                    self.detector_type
                ));
            }
            _ => {
                return err(format!(
                    "detector type \"{}\" is not known, expected Jungfrau, Moench or ChipTestBoard (MÖNCH 03, 04, 05)",
                    self.detector_type
                ));
            }
        };
        if matches!(detector, Detector::Board(_)) {
            return Ok(detector);
        }
        if self.dynamic_range != 16 {
            return err(format!("\"Dynamic Range\" is {}, expected 16 bits a pixel", self.dynamic_range));
        }
        if self.rois.is_empty() && self.image_bytes != self.port.pixels() * 2 {
            return err(format!(
                "the image of a port has {} bytes, expected {} for {} pixels of 16 bits",
                self.image_bytes,
                self.port.pixels() * 2,
                self.port
            ));
        }
        Ok(detector)
    }

    /// What a chip test board read. MÖNCH 03 and 04 take as many samples of as many ADCs: a master of type Moench is a
    /// MÖNCH 03, digital samples behind the analog ones are a MÖNCH 04's, and else nothing tells.
    fn board(&self, said: Option<Board>) -> Result<Board> {
        let (samples, adcs) = (self.analog_samples.unwrap_or(0), self.adc_mask.count_ones() as usize);
        let board = match said {
            Some(board) => board,
            None if samples == Board::Moench05.samples() => Board::Moench05,
            None if !self.board_is_guessed => Board::Moench03,
            None if self.digital_samples.is_some() => Board::Moench04,
            None if samples == Board::Moench03.samples() => {
                return Err(Error::file(
                    &self.path,
                    "a chip test board read either a MÖNCH 03 or a MÖNCH 04, whose pixels lie in another order: say which \
                     (board = moench03 or moench04)",
                ));
            }
            None => Board::Moench03,
        };
        let bytes = board.samples() as usize * adcs * 2;
        if samples != board.samples() || !board.takes_adcs(adcs) || self.image_bytes < bytes {
            return Err(Error::file(
                &self.path,
                format!(
                    "{samples} analog samples of ADCs {:#x} in {} bytes: an image of {} is {} samples of {} ADCs",
                    self.adc_mask,
                    self.image_bytes,
                    board.word(),
                    board.samples(),
                    if board == Board::Moench05 { "3, 12 or all 32" } else { "all 32" }
                ),
            ));
        }
        Ok(board)
    }
}
