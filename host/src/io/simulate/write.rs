//! A simulation written to files.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use scheidegg_finder::{Error, FrameBuf, FrameOwner, Frames, Result, Shape};

use super::params::Simulation;
use super::physics::{Kind, Simulator};
use super::source::SimulatedFrames;
use crate::io::raw::Detector;
use crate::io::{Health, Output, Place, RawOptions, RawWriter, Source};

/// What a simulation left in its folder.
#[derive(Clone, Debug)]
pub struct Written {
    /// The dark frames: `dark.npy` or `dark_master_0.json`.
    pub dark: PathBuf,
    /// The data frames: `data.npy` or `data_master_0.json`. Nothing when it was stopped before them.
    pub data: Option<PathBuf>,
    /// The parameters, `simulation.json`, see [`Simulation::load`].
    pub parameters: PathBuf,
    /// The detector whose frames the files hold: for the [truth](crate::truth).
    pub simulator: Arc<Simulator>,
    /// Dark frames written.
    pub darks: u64,
    /// Data frames written.
    pub frames: u64,
    /// Whether the user stopped it before all frames were there.
    pub stopped: bool,
    /// Packets and pixels lost in dark and data frames.
    pub health: Health,
}

/// Called after every batch with the frames written and those that will be, darks included. An error ends the writing:
/// after [`Error::Stopped`] the files are completed with the frames so far, after any other nothing is left.
pub type Progress<'a> = &'a mut dyn FnMut(u64, u64) -> Result<()>;

/// Writes `dark.npy`, `data.npy` (u16, frames x rows x cols) and `simulation.json` to a folder, which is made if it is
/// not there. Files of these names are replaced, unless those of the folder are to be [kept](Place::keep), or the simulation
/// was stopped: then its files lie beside them, as `dark.partial.npy`. They appear when they are complete.
///
/// npy has no place for lost packets, so none is lost: [`Simulation::packet_loss`] is taken as 0.
///
/// # Errors
/// What [`Simulation::validate`] says, whatever is wrong with the folder or its files, or the error of `progress` if it
/// is not [`Error::Stopped`].
pub fn write_npy(
    folder: impl Into<Place>,
    simulation: &Simulation,
    darks: u64,
    frames: u64,
    progress: Progress<'_>,
) -> Result<Written> {
    let simulator = Simulation { packet_loss: 0.0, ..simulation.clone() }.build()?;
    write(&folder.into(), simulator, darks, frames, progress, NpyTarget::create)
}

/// Writes the runs `dark` and `data` as MÖNCH raw files (JSON masters `dark_master_0.json` and `data_master_0.json`)
/// and `simulation.json` to a folder, as [`write_npy`] does.
///
/// A packet holds the rows that the receiver's would: [`Simulation::rows_per_packet`] is replaced accordingly (8 rows
/// for 400 x 400 pixels).
///
/// # Errors
/// As [`write_npy`], and [`Error::Param`] for more than 14 bits, which MÖNCH raw files do not hold.
pub fn write_raw(
    folder: impl Into<Place>,
    simulation: &Simulation,
    darks: u64,
    frames: u64,
    progress: Progress<'_>,
) -> Result<Written> {
    let shape = simulation.validate()?;
    if simulation.bits != 14 {
        return Err(Error::param("bits", simulation.bits, "14 for raw files of a MÖNCH (or write npy)"));
    }
    let folder = folder.into();
    let options = RawOptions::new(Detector::Moench, shape);
    let rows_per_packet = RawWriter::create(folder.clone(), "dark", &options)?.packet_rows(0, 0).len();
    let simulator = Simulation { rows_per_packet, ..simulation.clone() }.build()?;
    write(&folder, simulator, darks, frames, progress, RawTarget::create)
}

/// Where frames go.
trait Target: Sized {
    fn create(folder: &Place, name: &str, simulator: &Arc<Simulator>, kind: Kind) -> Result<Self>;
    fn push(&mut self, frames: Frames<'_>) -> Result<()>;
    fn finish(self, complete: bool) -> Result<PathBuf>;
}

fn write<T: Target>(
    folder: &Place,
    simulator: Arc<Simulator>,
    darks: u64,
    frames: u64,
    progress: Progress<'_>,
    create: impl Fn(&Place, &str, &Arc<Simulator>, Kind) -> Result<T>,
) -> Result<Written> {
    fs::create_dir_all(&folder.path).map_err(|e| Error::io(&folder.path, e))?;
    let mut file = Output::create(within(folder, "simulation.json"))?;
    let text = serde_json::to_string_pretty(simulator.simulation())
        .map_err(|e| Error::file(file.path(), e.to_string()))?;
    file.write(text.as_bytes())?;

    let (mut dark, mut data) = (simulator.darks(darks), simulator.frames(frames));
    let total = darks.saturating_add(frames);
    let mut dark_file = create(folder, "dark", &simulator, Kind::Dark)?;
    let (darks, mut stopped) = copy(&mut dark, &mut dark_file, |done| progress(done, total))?;
    let mut written = 0;
    let data_file = if stopped {
        None
    } else {
        let mut file = create(folder, "data", &simulator, Kind::Data)?;
        (written, stopped) = copy(&mut data, &mut file, |done| progress(darks + done, total))?;
        Some(file)
    };
    // Names are given last, all together: an error before leaves nothing.
    let dark_path = dark_file.finish(!stopped)?;
    let data_path = data_file.map(|file| file.finish(!stopped)).transpose()?;
    let parameters = file.finish_as(!stopped)?;
    let (a, b) = (dark.health(), data.health());
    let health = Health {
        lost_packets: a.lost_packets + b.lost_packets,
        lost_pixels: a.lost_pixels + b.lost_pixels,
        ..Health::default()
    };
    Ok(Written {
        dark: dark_path,
        data: data_path,
        parameters,
        simulator,
        darks,
        frames: written,
        stopped,
        health,
    })
}

/// A file in a folder, which is to be kept if those of the folder are.
fn within(folder: &Place, file: &str) -> Place {
    Place { path: folder.path.join(file), keep: folder.keep }
}

/// Copies all frames; returns how many there were and whether the user stopped it.
fn copy(
    source: &mut SimulatedFrames,
    target: &mut impl Target,
    mut progress: impl FnMut(u64) -> Result<()>,
) -> Result<(u64, bool)> {
    let shape = source.shape();
    // Some 8 MiB; rather a frame for every thread, unless frames are huge.
    let fit = |pixels: usize| pixels / shape.pixels();
    let batch = fit(4 << 20).max(rayon::current_num_threads().min(fit(64 << 20))).clamp(1, 1024);
    let mut buf = FrameBuf::new(shape, batch);
    let mut done = 0;
    loop {
        buf.clear();
        let read = source.read(&mut buf)?;
        if read == 0 {
            return Ok((done, false));
        }
        target.push(buf.frames())?;
        done += read as u64;
        match progress(done) {
            Ok(()) => {}
            Err(Error::Stopped) => return Ok((done, true)),
            Err(e) => return Err(e),
        }
    }
}

/// An npy file whose number of frames is written at the end.
struct NpyTarget {
    file: Output,
    shape: Shape,
    frames: u64,
}

impl NpyTarget {
    /// The header of version 1.0, 128 bytes whatever the number of frames.
    fn header(&self) -> Vec<u8> {
        let Shape { rows, cols } = self.shape;
        let dict = format!(
            "{{'descr': '<u2', 'fortran_order': False, 'shape': ({}, {rows}, {cols}), }}",
            self.frames
        );
        let mut header = b"\x93NUMPY\x01\x00\x76\x00".to_vec();
        header.extend_from_slice(format!("{dict:<117}\n").as_bytes());
        header
    }
}

impl Target for NpyTarget {
    fn create(folder: &Place, name: &str, simulator: &Arc<Simulator>, _: Kind) -> Result<Self> {
        let file = Output::create(within(folder, &format!("{name}.npy")))?;
        let mut target = NpyTarget { file, shape: simulator.shape(), frames: 0 };
        let header = target.header();
        target.file.write(&header)?;
        Ok(target)
    }

    fn push(&mut self, frames: Frames<'_>) -> Result<()> {
        self.frames += frames.len() as u64;
        // A buffer's frames are dense, and the machine is little-endian (asserted for all files).
        self.file.write(bytemuck::cast_slice(frames.as_slice()))
    }

    fn finish(mut self, complete: bool) -> Result<PathBuf> {
        let header = self.header();
        self.file.write_over_start(&header)?;
        self.file.finish_as(complete)
    }
}

/// A raw run with its lost packets.
struct RawTarget {
    run: RawWriter,
    simulator: Arc<Simulator>,
    kind: Kind,
}

impl Target for RawTarget {
    fn create(folder: &Place, name: &str, simulator: &Arc<Simulator>, kind: Kind) -> Result<Self> {
        let options = RawOptions::new(Detector::Moench, simulator.shape());
        let run = RawWriter::create(folder.clone(), name, &options)?;
        Ok(RawTarget { run, simulator: simulator.clone(), kind })
    }

    fn push(&mut self, frames: Frames<'_>) -> Result<()> {
        let rows = self.simulator.simulation().rows_per_packet;
        for k in 0..frames.len() {
            let lost = self.simulator.lost_rows(self.kind, frames.number(k));
            let packets: Vec<_> = lost.iter().map(|r| (0, r.start / rows)).collect();
            self.run.push_lossy(frames.number(k), frames.frame(k), &packets)?;
        }
        Ok(())
    }

    fn finish(self, complete: bool) -> Result<PathBuf> {
        self.run.finish_as(complete)
    }
}
