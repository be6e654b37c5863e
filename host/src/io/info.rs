//! What a file holds, as rows of a table.

mod results;

use std::path::{Path, PathBuf};

use scheidegg_finder::{ClusterSize, Error, Payload, Result};
use serde_json::Value;

use super::dat::DatSource;
use super::files::{FrameFile, OpenOptions, must_be_there};
use super::npy::{self, Dtype, NpySource};
use super::npz::Array;
use super::raw::{self, Master, RawReading, RawSource};
use super::{Health, Skipped, Source};

/// What a file holds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Info {
    /// What kind of file it is, in words.
    pub kind: String,
    /// Rows of a table: a label and a value.
    pub rows: Vec<(String, String)>,
    /// What to know of it, though it can be used.
    pub warnings: Vec<String>,
    /// What is wrong with it: it is damaged, or not what its name says.
    pub faults: Vec<String>,
    /// Where it comes from, as the file or the one beside it says: a JSON object.
    pub provenance: Option<Value>,
    /// The files that belong to it, itself first.
    pub files: Vec<PathBuf>,
}

impl Info {
    fn new(kind: impl Into<String>) -> Info {
        Info { kind: kind.into(), ..Info::default() }
    }

    fn row(&mut self, label: impl Into<String>, value: impl ToString) {
        let value = value.to_string();
        if !value.is_empty() {
            self.rows.push((label.into(), value));
        }
    }

    /// Goes through all frames of a source without their pixels, and notes what is found.
    fn walk(&mut self, source: &mut dyn Source) {
        let mut frames = 0;
        loop {
            match source.skip(u64::MAX) {
                Ok(Skipped { frames: 0, .. }) => break self.row("frames", frames),
                Ok(more) => frames += more.frames,
                Err(e) => {
                    self.row("frames", format!("{frames} before the fault below"));
                    break self.faults.push(e.to_string());
                }
            }
        }
        let Health { gaps, incomplete_frames, repeated_frames, lost_packets, warnings, .. } = source.health();
        for (label, count) in [
            ("missing frame numbers", gaps),
            ("incomplete frames", incomplete_frames),
            ("repeated frames", repeated_frames),
            ("lost packets", lost_packets),
        ] {
            if count > 0 {
                self.row(label, count);
                self.warnings.push(format!("{label}: {count}"));
            }
        }
        self.warnings.extend(warnings.into_iter().filter(|w| !self.warnings.contains(w)).collect::<Vec<_>>());
    }
}

/// Says what a file holds: frames, results, a pedestal, a mask. `size` and `payload` are for cluster files, which do not
/// say it themselves; where they are not given, they are taken from the file beside it, or guessed where one guess alone
/// fits. Headers are read, pixels are not; results are read to their end, and their checksums looked at.
///
/// # Errors
/// [`Error::File`] or [`Error::Io`] for a file that is not there or of no kind that is known. Whatever is wrong inside a file is one of
/// its [`Info::faults`].
pub fn info(
    path: &Path,
    options: &OpenOptions,
    size: Option<ClusterSize>,
    payload: Option<Payload>,
) -> Result<Info> {
    let extension = path.extension().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
    must_be_there(path)?;
    let bytes = std::fs::metadata(path).map_err(|e| Error::io(path, e))?.len();
    let (kind, found) = match extension.as_str() {
        "npz" => ("a .npz file", results::of_npz(path)),
        "clust" => ("clusters", results::of_clust(path, size, payload)),
        "npy" => ("a .npy file", of_npy(path)),
        _ => match FrameFile::of(path)? {
            FrameFile::Dat => ("frames, JUNGFRAU .dat", of_dat(path, options)),
            FrameFile::RawMaster | FrameFile::Npy => ("the master of an SLS raw run", of_raw(path, options)),
        },
    };
    let mut info = found.unwrap_or_else(|e| Info { faults: vec![e.to_string()], ..Info::new(kind) });
    info.row("bytes of the file", bytes);
    info.files.insert(0, path.to_path_buf());
    Ok(info)
}

fn of_dat(path: &Path, options: &OpenOptions) -> Result<Info> {
    let mut source = DatSource::open_series(path, options)?;
    let mut info = Info::new("frames, JUNGFRAU .dat");
    info.row("rows x cols", source.shape());
    info.walk(&mut source);
    Ok(info)
}

/// The data files beside a master.
fn data_files(master: &Path) -> Vec<PathBuf> {
    let folder = master.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let belongs = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        raw::data_file_name(&name).is_some_and(|parts| {
            raw::masters_of(path, &parts).iter().any(|m| m.file_name() == master.file_name())
        })
    };
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder)
        .map(|all| all.filter_map(|e| e.ok().map(|e| e.path())).filter(belongs).collect())
        .unwrap_or_default();
    files.sort();
    files
}

fn of_raw(path: &Path, options: &OpenOptions) -> Result<Info> {
    let m = Master::read(path)?;
    let mut info = Info::new("SLS raw run");
    info.files = data_files(path);
    info.row("detector", &m.detector_type);
    info.row("master version", &m.version);
    info.row("taken", &m.timestamp);
    info.row("timing", &m.timing_mode);
    info.row("exposure", &m.exposure);
    info.row("period", &m.period);
    info.row("ports, down x across", m.geometry.map_or("not said".into(), |g| g.to_string()));
    info.row("UDP ports a module", m.udp_interfaces);
    info.row("pixels of a port", m.port);
    info.row("bits of a pixel", m.dynamic_range);
    for roi in &m.rois {
        let said = format!("columns {} to {}, rows {} to {}", roi.xmin, roi.xmax, roi.ymin, roi.ymax);
        info.row("region of interest", said);
    }
    info.row("frames a data file", m.max_frames_per_file);
    info.row("frames asked for", m.total_frames.map_or(String::new(), |n| n.to_string()));
    info.row("frames written, by the master", m.frames_in_file.map_or(String::new(), |n| n.to_string()));
    info.row("incomplete frames are", &m.discard_policy);
    info.row("readout speed", &m.readout_speed);
    if !matches!(m.scan.as_str(), "[disabled]" | "") {
        info.row("scan", &m.scan);
    }
    for (key, value) in &m.other {
        info.row(key, value);
    }
    match RawSource::open(path, &RawReading::from(options)) {
        Ok(mut source) => {
            info.row("rows x cols", source.shape());
            for (d, files, frames) in source.ports() {
                info.row(format!("port {d}"), format!("{files} files, {frames} frames"));
            }
            if let Some(packets) = source.packets() {
                info.row("packets an image", packets);
            }
            info.walk(&mut source);
        }
        // Nothing is wrong with a detector that is not read here.
        Err(e) if m.detector(options.board).is_err() => info.warnings.push(e.to_string()),
        Err(e) => info.faults.push(e.to_string()),
    }
    Ok(info)
}

fn of_npy(path: &Path) -> Result<Info> {
    let (blob, bytes, header) = npy::open(path)?;
    if matches!(header.dtype, Dtype::Record(_)) {
        return results::of_table(path);
    }
    let sides: Vec<_> = header.shape.iter().map(u64::to_string).collect();
    let described = |kind: &str| {
        let mut info = Info::new(kind);
        info.row("type", &header.dtype);
        info.row("shape", sides.join(" x "));
        info
    };
    Ok(match NpySource::open(path) {
        Ok(mut source) => {
            let mut info = described("frames, .npy");
            info.row("rows x cols", source.shape());
            info.walk(&mut source);
            info
        }
        Err(e) => {
            let mut info = described("an array, .npy");
            let is_mask = header.shape.len() == 2 && header.dtype.bytes() == 1;
            if is_mask {
                info.kind = "a mask, .npy".into();
            } else {
                info.warnings.push(e.to_string());
            }
            if let Err(what) = Array::at(blob, 0, bytes) {
                info.faults.push(Error::file(path, what).to_string());
            }
            info
        }
    })
}
