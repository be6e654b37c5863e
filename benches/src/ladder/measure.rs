//! One step, measured: repetitions over the same frames from the same pedestal, a check of everything it found, and its
//! energy.

use std::path::Path;
use std::time::{Duration, Instant};

use scheidegg::{ClusterSize, Clusters, Error, Params, Precision, Result};

use super::chunks::ChunkDriver;
use super::device::Device;
use super::finders::FinderDriver;
use super::frames::FrameDriver;
use super::memory::DeviceMemory;
use super::steps::{How, Step};
use super::stream::Stream;
use crate::backends;
use crate::harness::energy::between_steps;
use crate::harness::faults::Faults;
use crate::harness::gpu::Gpu;
use crate::harness::table::Table;
use crate::scene::{Checksum, Scene, ladder_detector};

/// Takes the clusters of a batch.
pub type Take<'t> = dyn FnMut(Clusters<'_>) -> Result<()> + 't;

/// Bytes of a repetition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Copied to the GPU.
    pub h2d: u64,
    /// Copied to the host.
    pub d2h: u64,
    /// Of the clusters themselves.
    pub result: u64,
}

/// A step made ready.
pub trait Driver {
    /// Back to the trained pedestal. Not timed.
    ///
    /// # Errors
    /// Whatever goes wrong.
    fn reset(&mut self) -> Result<()>;

    /// All frames once; clusters are handed out in order.
    ///
    /// # Errors
    /// Whatever goes wrong, or what `take` says.
    fn run(&mut self, take: &mut Take<'_>) -> Result<()>;

    /// What the last run moved.
    fn traffic(&self) -> Traffic;
}

/// What is measured.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The step.
    pub step: &'static Step,
    /// Side of the window.
    pub size: usize,
    /// Precision of pedestal and decision.
    pub precision: Precision,
    /// Frames of a repetition.
    pub frames: usize,
    /// Repetitions; the first one is the cold one.
    pub repetitions: usize,
    /// Threads of the CPU baseline.
    pub threads: usize,
    /// The CPU backend of the baseline.
    pub backend: String,
    /// How long the energy is measured.
    pub energy: Duration,
}

/// The columns of `steps.csv`. `spread_percent` is how far a repetition lies above the best warm one; the largest of the
/// warm ones is the step's spread.
pub const COLUMNS: [&str; 24] = [
    "step",
    "size",
    "precision",
    "payload",
    "lanes",
    "threads",
    "frames",
    "repetition",
    "phase",
    "wall_s",
    "us_per_frame",
    "spread_percent",
    "frames_per_s",
    "minor_faults",
    "major_faults",
    "minor_faults_per_frame",
    "clusters",
    "checksum",
    "h2d_bytes_per_frame",
    "d2h_bytes_per_frame",
    "result_bytes_per_frame",
    "energy_mj_per_frame",
    "power_w",
    "sm_mhz",
];

/// A step's driver with what it borrows.
pub struct Ready<'a> {
    /// The driver.
    pub driver: Box<dyn Driver + 'a>,
    /// The GPU's clock when it was made ready, in MHz.
    pub sm_mhz: Option<u32>,
    device: Option<std::sync::Arc<Device>>,
}

impl Ready<'_> {
    /// Waits for the GPU.
    ///
    /// # Errors
    /// Those of the device.
    pub fn synchronize(&self) -> Result<()> {
        self.device.as_ref().map_or(Ok(()), |d| d.synchronize())
    }
}

/// The parameters of a step.
///
/// # Errors
/// [`Error::Param`] for a window that is not there.
pub fn params_of(plan: &Plan) -> Result<Params> {
    let size = ClusterSize::square(plan.size)?;
    let (lanes, payload) = (plan.step.lanes(), plan.step.payload);
    Ok(Params { lanes, payload, precision: plan.precision, ..Params::new(size) })
}

/// Makes a step ready: on the GPU only when nobody else uses it and its clock has ramped (unless `gate` is off, for a
/// probe).
///
/// # Errors
/// [`Error::Unavailable`] when the GPU is not there or not in a state worth measuring; those of the backends.
pub fn ready<'a>(plan: &Plan, scene: &'a Scene, gate: Option<&Gpu>) -> Result<Ready<'a>> {
    let params = params_of(plan)?;
    let pedestal = scene.pedestal(plan.precision)?;
    let frames = scene.frames();
    if let How::Cpu { .. } = plan.step.how {
        let backend = backends::cpu(&plan.backend, plan.threads)?;
        let driver = FinderDriver::new(&*backend, &params, &pedestal, frames, false)?;
        return Ok(Ready { driver: Box::new(driver), sm_mhz: None, device: None });
    }
    let device = Device::open()?;
    let driver: Box<dyn Driver + 'a> = match plan.step.how {
        How::Cpu { .. } => unreachable!("handled above"),
        How::Frames(p) => Box::new(FrameDriver::new(&device, p, &params, &pedestal, frames)?),
        How::Chunks(p) => Box::new(ChunkDriver::new(&device, p, &params, &pedestal, frames)?),
        How::Library { .. } => {
            let backend = backends::gpu();
            Box::new(FinderDriver::new(&*backend, &params, &pedestal, frames, true)?)
        }
    };
    let sm_mhz = match gate {
        Some(gpu) => {
            let stream = Stream::new(&device)?;
            let memory = DeviceMemory::new(&device, 256 << 20)?;
            Some(gpu.require_ramped(Duration::from_secs(5), || {
                for _ in 0..20 {
                    stream.clear(&memory)?;
                }
                stream.synchronize()
            })?)
        }
        None => None,
    };
    Ok(Ready { driver, sm_mhz, device: Some(device) })
}

/// Measures a step and writes its rows.
///
/// # Errors
/// As [`ready`]; [`Error::Other`] when repetitions disagree.
pub fn run(plan: &Plan, path: &Path) -> Result<()> {
    let gpu = if plan.step.on_gpu() { Some(Gpu::open()?) } else { None };
    // While the CPU makes the frames, the GPU's counter forgets the step before.
    let scene = Scene::new(&ladder_detector(), plan.frames)?;
    if let Some(gpu) = &gpu {
        gpu.require_idle(Duration::from_secs(5))?;
    }
    let mut ready = ready(plan, &scene, gpu.as_ref())?;
    let mut table = Table::new(path, &COLUMNS);
    let mut counts = Vec::new();
    let mut rows = Vec::new();
    for repetition in 0..plan.repetitions {
        ready.driver.reset()?;
        let mut clusters = 0u64;
        let (faults, start) = (Faults::now(), Instant::now());
        ready.driver.run(&mut |batch| {
            clusters += batch.len() as u64;
            Ok(())
        })?;
        let wall = start.elapsed().as_secs_f64();
        let faults = Faults::now() - faults;
        counts.push(clusters);
        let clock = gpu.as_ref().map(Gpu::sm_mhz);
        let phase = if repetition == 0 { "cold" } else { "warm" };
        rows.push((
            repetition,
            phase,
            wall,
            Some(faults),
            None,
            clock.or(ready.sm_mhz),
            ready.driver.traffic(),
        ));
    }
    // Not timed: everything that was found, byte by byte.
    ready.driver.reset()?;
    let mut sum = Checksum::default();
    ready.driver.run(&mut |batch| {
        sum.add(&batch);
        Ok(())
    })?;
    if counts.iter().any(|c| *c != sum.clusters()) {
        return Err(Error::Other(format!(
            "{}: repetitions found {counts:?} clusters, the check {}",
            plan.step.name,
            sum.clusters()
        )));
    }
    let mut energy_frames = None;
    if let Some(gpu) = &gpu
        && gpu.joules().is_some()
        && !plan.energy.is_zero()
    {
        // Resets are part of it, which the wall time here shows.
        let (start, joules) = (Instant::now(), || gpu.joules().unwrap_or(0.0));
        let energy = between_steps(
            plan.energy,
            || start.elapsed().as_secs_f64(),
            joules,
            || {
                ready.driver.reset()?;
                ready.driver.run(&mut |_| Ok(()))
            },
        )?;
        energy_frames = Some(energy.passes * plan.frames);
        rows.push((
            plan.repetitions,
            "energy",
            energy.wall_s,
            None,
            Some(energy.joules),
            Some(gpu.sm_mhz()),
            ready.driver.traffic(),
        ));
    }
    let threads = if plan.step.on_gpu() { 1 } else { plan.threads };
    let best = rows.iter().filter(|r| r.1 == "warm").map(|r| r.2).fold(f64::INFINITY, f64::min);
    for (repetition, phase, wall, faults, joules, clock, traffic) in rows {
        let frames = if phase == "energy" { energy_frames.unwrap_or(plan.frames) } else { plan.frames };
        let per = |v: f64| v / frames as f64;
        let bytes = |v: u64| format!("{:.1}", v as f64 / plan.frames as f64);
        let or_empty = |v: Option<String>| v.unwrap_or_default();
        table.push([
            plan.step.name.to_string(),
            plan.size.to_string(),
            plan.precision.to_string(),
            plan.step.payload.to_string(),
            plan.step.lanes().to_string(),
            threads.to_string(),
            frames.to_string(),
            repetition.to_string(),
            phase.to_string(),
            format!("{wall:.6}"),
            format!("{:.4}", per(wall) * 1e6),
            if phase == "energy" { String::new() } else { format!("{:.2}", 100.0 * (wall - best) / best) },
            format!("{:.1}", frames as f64 / wall),
            or_empty(faults.map(|f| f.minor.to_string())),
            or_empty(faults.map(|f| f.major.to_string())),
            or_empty(faults.map(|f| format!("{:.3}", per(f.minor as f64)))),
            sum.clusters().to_string(),
            sum.to_string(),
            bytes(traffic.h2d),
            bytes(traffic.d2h),
            bytes(traffic.result),
            or_empty(joules.map(|j| format!("{:.5}", per(j) * 1e3))),
            or_empty(joules.map(|j| format!("{:.1}", j / wall))),
            or_empty(clock.map(|c| c.to_string())),
        ]);
    }
    table.write()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::table::Row;

    #[test]
    fn a_step_writes_a_row_a_repetition_and_the_first_one_is_cold() {
        let path = std::env::temp_dir().join(format!("scheidegg-step-{}.csv", std::process::id()));
        let plan = Plan {
            step: Step::named("baseline").unwrap(),
            size: 3,
            precision: Precision::F64F32,
            frames: 6,
            repetitions: 4,
            threads: 2,
            backend: "cpu".into(),
            energy: Duration::from_secs(1),
        };
        run(&plan, &path).unwrap();
        let table = Table::read(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        let phases: Vec<&str> = table.rows().map(|r| r.text("phase")).collect();
        assert_eq!(phases, ["cold", "warm", "warm", "warm"], "no energy without a GPU");
        let first = table.rows().next().unwrap();
        // About 2150 clusters a frame in this scene.
        assert!(first.number("clusters").is_some_and(|n| (10_000.0..16_000.0).contains(&n)));
        let warm: Vec<Row<'_>> = table.rows().filter(|r| r.text("phase") == "warm").collect();
        let best = warm.iter().filter_map(|r| r.number("wall_s")).fold(f64::INFINITY, f64::min);
        for r in table.rows() {
            assert_eq!(
                (r.text("clusters"), r.text("checksum")),
                (first.text("clusters"), first.text("checksum"))
            );
            let (wall, us) = (r.number("wall_s").unwrap(), r.number("us_per_frame").unwrap());
            assert!((wall / 6.0 * 1e6 - us).abs() < 0.5, "{wall} s, {us} us a frame");
            let spread = r.number("spread_percent").unwrap();
            assert!((100.0 * (wall / best - 1.0) - spread).abs() < 0.2, "{spread} % at {wall} of {best} s");
            let (faults, each) =
                (r.number("minor_faults").unwrap(), r.number("minor_faults_per_frame").unwrap());
            assert!((faults / 6.0 - each).abs() < 0.001);
            assert_eq!((r.text("threads"), r.text("energy_mj_per_frame"), r.text("sm_mhz")), ("2", "", ""));
        }
        assert!(
            warm.iter().any(|r| r.text("spread_percent") == "0.00"),
            "the best warm one lies above itself by 0"
        );
    }
}
