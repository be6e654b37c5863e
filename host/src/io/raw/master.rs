//! The master file of a raw run, of every version that is about: JSON 7.x and 8.x, and the text before them.

use std::path::{Path, PathBuf};

use scheidegg_finder::{Error, Result, Shape};

use super::fields::{Fields, Roi, Said};
use super::header::Detector;

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
        let bytes = std::fs::metadata(path).map_err(|e| Error::io(path, e))?.len();
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
        let Ok(text) = std::str::from_utf8(content) else {
            return Err(Error::file(path, "is not text: not a master file"));
        };
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
            detector_type,
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
            readout_speed,
            other: f.rest(),
        })
    }

    /// Which of the detectors that the finder is for took the run.
    ///
    /// # Errors
    /// [`Error::File`] for any other detector, by name, and for images of another kind than 16-bit charge.
    pub fn detector(&self) -> Result<Detector> {
        let err = |what: String| Err(Error::file(&self.path, what));
        let analog = self.analog_samples.is_some();
        let detector = match self.detector_type.to_ascii_lowercase().as_str() {
            "jungfrau" => Detector::Jungfrau,
            "chiptestboard" | "moench" if analog => Detector::Moench03,
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
                    "detector type \"{}\" is not known, expected Jungfrau, Moench or ChipTestBoard (MÖNCH 03)",
                    self.detector_type
                ));
            }
        };
        if detector == Detector::Moench03 {
            if self.analog_samples != Some(5000) || self.adc_mask != 0xffff_ffff || self.image_bytes < 320_000
            {
                return err(format!(
                    "{} analog samples of ADCs {:#x} in {} bytes: a MÖNCH 03 image is 5000 samples of all 32 ADCs",
                    self.analog_samples.unwrap_or(0),
                    self.adc_mask,
                    self.image_bytes
                ));
            }
        } else if self.dynamic_range != 16 {
            return err(format!("\"Dynamic Range\" is {}, expected 16 bits a pixel", self.dynamic_range));
        } else if self.rois.is_empty() && self.image_bytes != self.port.pixels() * 2 {
            return err(format!(
                "the image of a port has {} bytes, expected {} for {} pixels of 16 bits",
                self.image_bytes,
                self.port.pixels() * 2,
                self.port
            ));
        }
        Ok(detector)
    }
}
