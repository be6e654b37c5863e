//! From the name of a file to what reads or writes it.

use std::path::{Path, PathBuf};

use scheidegg_finder::{ClusterSize, Error, Params, Payload, Result, Shape};

use super::clust::{ClustReader, ClustSink};
use super::columns::{NpySink, NpzSink};
use super::dat::DatSource;
use super::npy::NpySource;
use super::origin::Beside;
use super::raw::{self, Board, Gain, RawReading, RawSource};
use super::table::TableReader;
use super::{Place, Results, Sink, Source};

/// Choices that files leave to their reader.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OpenOptions {
    /// What becomes of pixels that are not in gain 0.
    pub gain: Gain,
    /// Which region of interest is read where a raw run has several.
    pub roi: Option<usize>,
    /// The shape of the images of a `.dat` file, where its length does not tell.
    pub dat_shape: Option<Shape>,
    /// Which detector a chip test board read, where its master does not tell.
    pub board: Option<Board>,
    /// Goes on behind a damaged file or frame, which is left out or masked, counted and warned of, instead of ending with
    /// an error there.
    pub keep_going: bool,
}

/// The kinds of files that frames come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameFile {
    /// The master file of an SLS raw run.
    RawMaster,
    /// A `.npy` file.
    Npy,
    /// A JUNGFRAU `.dat` file.
    Dat,
}

impl FrameFile {
    /// Which kind a file is, by its name.
    ///
    /// # Errors
    /// [`Error::File`] for a name that says nothing, for results, and for a data file of a raw run, with its master.
    pub fn of(path: &Path) -> Result<FrameFile> {
        let err = |what: String| Err(Error::file(path, what));
        if path.is_dir() {
            return err("is a folder: give a master file, or a .npy or .dat file".into());
        }
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if let Some(parts) = raw::data_file_name(&name) {
            let masters = raw::masters_of(path, &parts);
            let master = masters.iter().find(|m| m.is_file());
            return err(match master {
                Some(master) => {
                    format!("is one data file of a raw run: give the run's master file {}", master.display())
                }
                None => format!(
                    "is one data file of a raw run, and the run's master file {} is not there: it says how the data \
                     files are to be read",
                    masters[0].display()
                ),
            });
        }
        match extension(path).as_str() {
            "npy" => Ok(FrameFile::Npy),
            "dat" => Ok(FrameFile::Dat),
            "json" | "raw" => Ok(FrameFile::RawMaster),
            "clust" | "npz" => err("holds results, not frames".into()),
            "h5" | "hdf5" | "nxs" => {
                err("HDF5 files are not read (export frames to .npy, or use the raw files)".into())
            }
            _ => {
                err("frames are read from raw runs (their master .json or .raw), .npy and .dat files".into())
            }
        }
    }
}

fn extension(path: &Path) -> String {
    path.extension().unwrap_or_default().to_string_lossy().to_ascii_lowercase()
}

pub(super) fn must_be_there(path: &Path) -> Result<()> {
    match std::fs::metadata(path) {
        Ok(_) => Ok(()),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Err(Error::file(path, "there is no such file")),
        Err(e) => Err(Error::io(path, e)),
    }
}

/// Opens a file of frames, by its name.
///
/// # Errors
/// What [`FrameFile::of`] and the source of that kind say.
pub fn open_source(path: &Path, options: &OpenOptions) -> Result<Box<dyn Source>> {
    let kind = FrameFile::of(path)?;
    must_be_there(path)?;
    Ok(match kind {
        FrameFile::Npy => Box::new(NpySource::open(path)?.gain(options.gain).keep_going(options.keep_going)),
        FrameFile::Dat => Box::new(DatSource::open_series(path, options)?),
        FrameFile::RawMaster => Box::new(RawSource::open(path, &RawReading::from(options))?),
    })
}

/// Opens files of frames in the order given. Of a `.dat` series that is named by one file all files are read; where
/// several of its files are named, these.
///
/// # Errors
/// As [`open_source`].
pub fn open_sources(paths: &[PathBuf], options: &OpenOptions) -> Result<Vec<Box<dyn Source>>> {
    let dat = |p: &Path| raw::dat_name(&p.file_name()?.to_string_lossy());
    let mut all = Vec::new();
    for (k, path) in paths.iter().enumerate() {
        let has_company = dat(path).is_some_and(|own| {
            let others = paths.iter().enumerate().filter(|(i, p)| *i != k && p.parent() == path.parent());
            others.filter_map(|(_, p)| dat(p)).any(|other| other.is_beside(&own))
        });
        all.push(match has_company {
            true => {
                must_be_there(path)?;
                Box::new(DatSource::open_alone(path, options)?)
            }
            false => open_source(path, options)?,
        });
    }
    Ok(all)
}

/// Starts a file for the clusters of a finder with these parameters, by its extension: `.clust`, `.npz` or `.npy`. What is no
/// file and has none of these extensions, as `/dev/stdout`, gets the bytes of a `.clust` file, the only kind that can be
/// streamed.
///
/// # Errors
/// [`Error::File`] for another extension; as [`Output::create_or_stream`](super::Output::create_or_stream).
pub fn open_sink(place: impl Into<Place>, params: &Params) -> Result<Box<dyn Sink>> {
    let place = place.into();
    Ok(match extension(&place.path).as_str() {
        "clust" => Box::new(ClustSink::create(place, params.size, params.payload)?),
        "npz" => Box::new(NpzSink::create(place, params.size, params.payload)?),
        "npy" => Box::new(NpySink::create(place, params.size, params.payload)?),
        _ if place.is_stream() => Box::new(ClustSink::create(place, params.size, params.payload)?),
        _ => return Err(Error::file(place.path, "clusters are written to .clust, .npz and .npy files")),
    })
}

/// Opens a file of clusters, by its extension. Columns (`.npz`, `.npy`) say what they hold, and must agree with `size` and
/// `payload` where those are given; a `.clust` file must be told its size, and its payload where that is not `i32`, unless a
/// file `NAME.json` beside it tells them.
///
/// # Errors
/// [`Error::File`] for another extension, for columns that are missing or of another kind, for a `.clust` file without a
/// size.
pub fn open_results(
    path: &Path,
    size: Option<ClusterSize>,
    payload: Option<Payload>,
) -> Result<Box<dyn Results>> {
    must_be_there(path)?;
    match extension(path).as_str() {
        "clust" => {
            // A damaged file beside it is an error of the reader's.
            let (said_size, said_payload) = Beside::of(path)?.map_or((None, None), |b| b.kind());
            let Some(size) = size.or(said_size) else {
                return Err(Error::file(
                    path,
                    "a cluster file does not say its window: give its size (3, or 3x5 for width x height)",
                ));
            };
            let payload = payload.or(said_payload).unwrap_or(Payload::I32);
            Ok(Box::new(ClustReader::open(path, size, payload)?))
        }
        "npz" | "npy" => {
            let reader = TableReader::open(path)?;
            let (found_size, found_payload) = (reader.size(), reader.payload());
            if size.is_some_and(|s| s != found_size) || payload.is_some_and(|p| p != found_payload) {
                let asked = (size.unwrap_or(found_size), payload.unwrap_or(found_payload));
                return Err(Error::file(
                    path,
                    format!("holds clusters of {found_size} {found_payload}, not of {} {}", asked.0, asked.1),
                ));
            }
            Ok(Box::new(reader))
        }
        _ => Err(Error::file(path, "clusters are read from .clust, .npz and .npy files")),
    }
}
