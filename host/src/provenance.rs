//! Where a result comes from: written into every result, so that it tells by itself what made it and how far it goes.

use std::time::SystemTime;

use scheidegg_finder::Params;
use serde::{Deserialize, Serialize};

use crate::io::Health;

/// Where a result comes from, how far it goes and why it ends there.
///
/// A [`Run`](crate::pipeline::Run) fills in what it knows; the program that embeds it gives the rest beforehand
/// ([`Run::provenance`](crate::pipeline::Run::provenance)). Read back, what is missing has its default.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Provenance {
    /// What ran.
    pub program: Program,
    /// The command line, word by word; empty where the library was embedded.
    pub command: Vec<String>,
    /// The computer's name.
    pub host: String,
    /// When the run began, in UTC as RFC 3339 has it: `2026-11-30T18:56:22Z`.
    pub started: String,
    /// From the first read to the last frame's end, in seconds.
    pub seconds: f64,
    /// Files that were read, in the order in which they were.
    pub inputs: Vec<Input>,
    /// What was asked.
    pub parameters: Option<Parameters>,
    /// What computed.
    pub backend: Computed,
    /// The pedestal as training left it.
    pub pedestal: Option<PedestalSummary>,
    /// What was amiss with the data frames.
    pub losses: Losses,
    /// Data frames whose clusters are in the result.
    pub frames: u64,
    /// Number of the first of them.
    pub first_frame: Option<u64>,
    /// Number of the last of them: the result is complete up to and with it.
    pub last_frame: Option<u64>,
    /// Clusters in the result.
    pub clusters: u64,
    /// Why it ends there.
    pub ended: Ending,
    /// The file that this stands beside, where it does not stand in the file itself.
    pub content: Option<Content>,
}

/// The program that ran.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Program {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// The commit that it was built from, `unknown` where that is not known.
    pub commit: String,
}

impl Default for Program {
    /// This library.
    fn default() -> Self {
        Program {
            name: env!("CARGO_PKG_NAME").into(),
            version: env!("CARGO_PKG_VERSION").into(),
            commit: "unknown".into(),
        }
    }
}

/// A file that was read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Input {
    /// What it was read as: `data`, `dark`, `pedestal` or `mask`.
    pub role: String,
    /// Its path.
    pub path: String,
    /// Frames taken from it, for files of frames.
    pub frames: Option<u64>,
    /// Number of the first of them.
    pub first_frame: Option<u64>,
    /// Number of the last of them.
    pub last_frame: Option<u64>,
}

impl Input {
    /// A file that is no file of frames.
    pub fn file(role: &str, path: impl Into<String>) -> Input {
        Input { role: role.into(), path: path.into(), ..Input::default() }
    }
}

/// The parameters of the finder in their plain words.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[allow(missing_docs)]
pub struct Parameters {
    pub size: String,
    pub n_sigma: f64,
    pub update: String,
    pub noise: String,
    pub precision: String,
    pub ties: String,
    pub test2: bool,
    pub lanes: usize,
    pub noise_floor_adu: f64,
    pub payload: String,
    pub pedestal_samples: u64,
    pub masked_pixels: usize,
}

impl From<&Params> for Parameters {
    fn from(p: &Params) -> Self {
        Parameters {
            size: p.size.to_string(),
            n_sigma: p.n_sigma,
            update: p.update.to_string(),
            noise: p.noise.to_string(),
            precision: p.precision.to_string(),
            ties: p.ties.to_string(),
            test2: p.test2,
            lanes: p.lanes,
            noise_floor_adu: p.noise_floor_adu,
            payload: p.payload.to_string(),
            pedestal_samples: p.pedestal_samples,
            masked_pixels: p.mask.as_ref().map_or(0, |m| m.count()),
        }
    }
}

/// What computed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Computed {
    /// The backend's name.
    pub name: String,
    /// The hardware it ran on.
    pub device: String,
}

/// A pedestal in numbers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PedestalSummary {
    /// Dark frames in its window.
    pub samples: u64,
    /// Median of the means, in ADU.
    pub median_mean_adu: f64,
    /// Median of the noise, in ADU.
    pub median_noise_adu: f64,
    /// Pixels without noise.
    pub quiet_pixels: usize,
    /// Pixels with far more noise than the median.
    pub hot_pixels: usize,
    /// Pixels that no dark frame trained.
    pub untrained_pixels: usize,
}

/// What was lost of the data frames; see [`Health`] for each.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[allow(missing_docs)]
pub struct Losses {
    pub gaps: u64,
    pub incomplete_frames: u64,
    pub repeated_frames: u64,
    pub lost_packets: u64,
    pub lost_pixels: u64,
    pub gain_pixels: u64,
    pub damaged_files: u64,
    pub unread_frames: u64,
    pub warnings: Vec<String>,
}

impl From<&Health> for Losses {
    fn from(h: &Health) -> Self {
        Losses {
            gaps: h.gaps,
            incomplete_frames: h.incomplete_frames,
            repeated_frames: h.repeated_frames,
            lost_packets: h.lost_packets,
            lost_pixels: h.lost_pixels,
            gain_pixels: h.gain_pixels,
            damaged_files: h.damaged_files,
            unread_frames: h.unread_frames,
            warnings: h.warnings.clone(),
        }
    }
}

/// Why a result ends where it does.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Ending {
    /// In a word.
    pub how: How,
    /// The error, where there was one.
    pub why: Option<String>,
}

/// Why a result ends where it does, in a word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum How {
    /// All frames that were asked for are in it.
    Complete,
    /// The run was stopped.
    Stopped,
    /// The frames could not be read or judged any further.
    Fault,
    /// The result itself could not be written any further.
    NotWritten,
    /// Nobody has said it.
    #[default]
    #[serde(other)]
    Unknown,
}

/// The bytes of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Content {
    /// How many they are.
    pub bytes: u64,
    /// Their CRC-32 (that of zip and gzip).
    pub crc32: u32,
}

impl Provenance {
    /// What is known when a run begins: this library, this computer, the time.
    pub fn begin() -> Provenance {
        Provenance {
            host: gethostname::gethostname().to_string_lossy().into_owned(),
            started: humantime::format_rfc3339_seconds(SystemTime::now()).to_string(),
            ..Provenance::default()
        }
    }

    /// Of the pedestal that a run begins with: what was asked, and that training is done.
    pub fn of_pedestal(mut self, params: &Params) -> Provenance {
        self.parameters = Some(Parameters::from(params));
        self.ended.how = How::Complete;
        self
    }

    /// As it is written: JSON, a field a line.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("plain numbers and words")
    }

    /// Reads back what [`Provenance::to_json`] gave.
    ///
    /// # Errors
    /// What is wrong with the text.
    pub fn from_json(text: &str) -> Result<Provenance, String> {
        serde_json::from_str(text).map_err(|e| e.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use scheidegg_finder::ClusterSize;

    #[test]
    fn what_is_written_is_read_back() {
        let params = Params::new(ClusterSize { w: 3, h: 5 });
        let mut full = Provenance {
            command: vec!["find".into(), "--data".into()],
            inputs: vec![Input::file("mask", "m.npy")],
            parameters: Some(Parameters::from(&params)),
            pedestal: Some(PedestalSummary { median_noise_adu: 17.25, ..PedestalSummary::default() }),
            last_frame: Some(u64::MAX),
            ended: Ending { how: How::Fault, why: Some("disk \"a\" is gone".into()) },
            content: Some(Content { bytes: 7, crc32: u32::MAX }),
            ..Provenance::begin()
        };
        assert!(full.started.ends_with('Z') && full.started.len() == 20, "{}", full.started);
        assert_eq!(full.parameters.as_ref().unwrap().size, "3x5");
        for how in [How::Complete, How::Stopped, How::Fault, How::NotWritten, How::Unknown] {
            full.ended.how = how;
            assert_eq!(Provenance::from_json(&full.to_json()).unwrap(), full);
        }
    }

    #[test]
    fn what_is_missing_or_new_does_not_hinder() {
        let some = Provenance::from_json(r#"{"frames": 3, "ended": {"how": "eaten"}, "later": 1}"#).unwrap();
        assert_eq!((some.frames, some.ended.how), (3, How::Unknown));
        assert!(Provenance::from_json("{").is_err());
    }
}
