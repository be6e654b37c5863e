//! What a file holds, as rows of a table.

use std::path::Path;

use scheidegg_finder::{ClusterSize, Error, Payload, Result};

use super::dat::DatSource;
use super::files::{FrameFile, OpenOptions, must_be_there, open_results};
use super::npy::{self, Dtype, NpySource};
use super::npz::Npz;
use super::raw::{Master, RawReading, RawSource};
use super::table::TableReader;
use super::{Health, Results, Skipped, Source, load_pedestal};

/// What a file holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Info {
    /// What kind of file it is, in words.
    pub kind: String,
    /// Rows of a table: a label and a value.
    pub rows: Vec<(String, String)>,
    /// What is wrong with it.
    pub warnings: Vec<String>,
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
                    break self.warnings.push(e.to_string());
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
/// say it themselves. Headers are read, pixels are not.
///
/// # Errors
/// [`Error::File`] for a file that is none of these; a fault inside a file of frames or clusters is a warning instead.
pub fn info(
    path: &Path,
    options: &OpenOptions,
    size: Option<ClusterSize>,
    payload: Option<Payload>,
) -> Result<Info> {
    let extension = path.extension().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
    must_be_there(path)?;
    let bytes = std::fs::metadata(path).map_err(|e| Error::io(path, e))?.len();
    let mut info = match extension.as_str() {
        "npz" => of_npz(path)?,
        "clust" => of_results(path, size, payload)?,
        "npy" => of_npy(path)?,
        _ => match FrameFile::of(path)? {
            FrameFile::Dat => {
                let mut source = DatSource::open_series(path, options)?;
                let mut info = Info::new("frames, JUNGFRAU .dat");
                info.row("rows x cols", source.shape());
                info.walk(&mut source);
                info
            }
            FrameFile::RawMaster | FrameFile::Npy => of_raw(path, options)?,
        },
    };
    info.row("bytes of the file", bytes);
    Ok(info)
}

fn of_raw(path: &Path, options: &OpenOptions) -> Result<Info> {
    let m = Master::read(path)?;
    let mut info = Info::new("SLS raw run");
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
        Err(e) => info.warnings.push(e.to_string()),
    }
    Ok(info)
}

fn of_npy(path: &Path) -> Result<Info> {
    let (_, _, header) = npy::open(path)?;
    if matches!(header.dtype, Dtype::Record(_)) {
        return of_results(path, None, None);
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
            info
        }
    })
}

fn of_npz(path: &Path) -> Result<Info> {
    let names = Npz::open(path)?.names();
    let has = |name: &str| names.iter().any(|n| n == name);
    if has("frame") && has("data") {
        return of_results(path, None, None);
    }
    if has("x0") && has("samples") {
        let p = load_pedestal(path)?;
        let mut info = Info::new("a pedestal");
        info.row("rows x cols", p.shape);
        info.row("dark frames", p.samples);
        info.row("precision", if p.sum.is_f64() { "f64" } else { "f32" });
        info.row("noise", if p.fixed_variance.is_some() { "fixed" } else { "tracked" });
        info.row("pixels without noise", p.quiet_pixels().len());
        info.row("untrained pixels", p.untrained.as_ref().map_or(0, |m| m.count()));
        return Ok(info);
    }
    let mut info = Info::new("arrays, .npz");
    info.row("arrays", names.join(", "));
    info.warnings.push(format!("{}: neither clusters (frame, x, y, data) nor a pedestal", path.display()));
    Ok(info)
}

fn of_results(path: &Path, size: Option<ClusterSize>, payload: Option<Payload>) -> Result<Info> {
    /// Frames that are looked at together.
    const AT_ONCE: usize = 256;
    let (mut results, total): (Box<dyn Results>, _) = match path.extension().is_some_and(|e| e == "clust") {
        true => (open_results(path, size, payload)?, None),
        false => {
            let table = TableReader::open(path)?;
            let rows = table.clusters();
            (Box::new(table), Some(rows))
        }
    };
    let mut info = Info::new("clusters");
    info.row("window", results.size());
    info.row("values", results.payload());
    let (mut frames, mut clusters, mut first, mut last) = (0u64, 0u64, None, None);
    let mut buf = results.buffer();
    loop {
        buf.clear();
        let outcome = results.read(&mut buf, AT_ONCE);
        let view = buf.view();
        frames += view.frames() as u64;
        clusters += view.len() as u64;
        first = first.or(view.numbers().first().copied());
        last = view.numbers().last().copied().or(last);
        match outcome {
            Ok(0) => break,
            Ok(_) => {}
            Err(e) => {
                info.warnings.push(e.to_string());
                break;
            }
        }
    }
    info.row(if total.is_some() { "frames with clusters" } else { "frames" }, frames);
    if let (Some(first), Some(last)) = (first, last) {
        info.row("frame numbers", format!("{first} to {last}"));
    }
    info.row("clusters", total.unwrap_or(clusters));
    if frames > 0 {
        info.row("clusters a frame", format!("{:.2}", clusters as f64 / frames as f64));
    }
    Ok(info)
}
