//! Naive raw-sum `f32`, centred `f32` and `f64` on the same frames.
//!
//! The naive mode needs no code of its own: with an offset of 0 the centred sums *are* the raw sums, so a pedestal
//! with `x0 = 0` makes any backend the naive one. It starts from exact sums, rounded once, which is kinder than
//! adding up a thousand dark frames in `f32` would be.

use std::collections::HashSet;
use std::path::Path;
use std::time::Instant;

use rayon::prelude::*;
use scheidegg::io::simulate::Simulation;
use scheidegg::{
    Backend, ClusterSize, Error, Finder, Frames, Numbers, Params, Pedestal, Plane, Precision, Result,
};

use crate::harness::table::Table;
use crate::scene::{Scene, ladder_detector};
use crate::study::{centres, photon_neighbourhood};

/// How much is looked at.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Frames of 400 x 400 for the counts and spectra.
    pub frames: usize,
    /// Frames of a small detector for the drift.
    pub drift_frames: u64,
    /// Side of the small detector in pixels.
    pub drift_side: usize,
    /// Frames of the small detector at each pedestal level.
    pub level_frames: u64,
}

/// Pedestal levels in ADU at which the precisions are compared: from an empty ADC to nearly a full one of 14 bits.
pub const LEVELS_ADU: [f64; 6] = [500.0, 1000.0, 2000.0, 4655.0, 9000.0, 14_000.0];

/// A way of keeping the pedestal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Raw sums in `f32`.
    NaiveF32,
    /// Centred sums in `f32`.
    CentredF32,
    /// Centred sums in `f64`, decisions in `f32`.
    F64F32,
    /// Centred sums and decisions in `f64`.
    F64,
}

impl Mode {
    /// All modes; the last one judges the others.
    pub const ALL: [Mode; 4] = [Mode::NaiveF32, Mode::CentredF32, Mode::F64F32, Mode::F64];

    /// The word in a table.
    pub const fn word(self) -> &'static str {
        match self {
            Mode::NaiveF32 => "naive f32",
            Mode::CentredF32 => "centred f32",
            Mode::F64F32 => "f64, f32",
            Mode::F64 => "f64",
        }
    }

    fn precision(self) -> Precision {
        match self {
            Mode::NaiveF32 | Mode::CentredF32 => Precision::F32,
            Mode::F64F32 => Precision::F64F32,
            Mode::F64 => Precision::F64,
        }
    }

    fn finder(self, backend: &dyn Backend, scene: &Scene, size: ClusterSize) -> Result<Box<dyn Finder>> {
        let params = Params { precision: self.precision(), ..Params::new(size) };
        let mut finder = backend.build(scene.shape(), &params)?;
        let pedestal = match self {
            Mode::NaiveF32 => naive(&scene.pedestal(Precision::F64)?)?,
            mode => scene.pedestal(mode.precision())?,
        };
        finder.set_pedestal(&pedestal)?;
        Ok(finder)
    }
}

/// The raw sums of a centred pedestal, exact in `f64`, rounded once to `f32`.
///
/// # Errors
/// [`Error::Other`] for a pedestal in `f32`, whose exact sums are gone.
pub fn naive(centred: &Pedestal) -> Result<Pedestal> {
    let (Plane::F64(sum), Plane::F64(sum2)) = (&centred.sum, &centred.sum2) else {
        return Err(Error::Other("the raw sums are taken from a pedestal in f64".into()));
    };
    let n = centred.samples as f64;
    // All of these are integers below 2^53.
    let raw = |i: usize| {
        let x0 = f64::from(centred.x0[i]);
        let s = sum[i] + n * x0;
        (s as f32, (sum2[i] + 2.0 * x0 * s - n * x0 * x0) as f32)
    };
    let (sum, sum2) = (0..sum.len()).map(raw).unzip();
    Ok(Pedestal {
        x0: vec![0; centred.x0.len()],
        sum: Plane::F32(sum),
        sum2: Plane::F32(sum2),
        ..centred.clone()
    })
}

/// Variances before the cut at 0, in the pedestal's own precision.
fn raw_variances(p: &Pedestal) -> Vec<f64> {
    match (&p.sum, &p.sum2) {
        (Plane::F32(s), Plane::F32(q)) => {
            let inv = 1.0 / p.samples as f32;
            s.iter().zip(q).map(|(s, q)| f64::from(q * inv - (s * inv) * (s * inv))).collect()
        }
        _ => {
            let inv = 1.0 / p.samples as f64;
            let one = |i: usize| p.sum2.get(i) * inv - (p.sum.get(i) * inv) * (p.sum.get(i) * inv);
            (0..p.sum.len()).map(one).collect()
        }
    }
}

/// What one mode found in some frames.
#[derive(Clone, Debug, Default)]
struct Found {
    clusters: u64,
    /// Not found by `f64`.
    only_here: u64,
    /// Found by `f64` alone.
    only_f64: u64,
    /// Without a photon within a pixel.
    without_photon: u64,
    /// Photons without a cluster within a pixel.
    missed: u64,
    photons: u64,
    zero: u64,
    negative: u64,
    /// Root mean square of the relative difference of the variance from that of `f64`.
    variance_error: f64,
}

const FOUND: [&str; 10] = [
    "clusters",
    "only_here",
    "only_f64",
    "without_photon",
    "photons",
    "photons_missed",
    "zero_variance_pixels",
    "negative_variance_pixels",
    "variance_rms_error_percent",
    "false_percent",
];

impl Found {
    fn values(&self) -> [String; 10] {
        [
            self.clusters.to_string(),
            self.only_here.to_string(),
            self.only_f64.to_string(),
            self.without_photon.to_string(),
            self.photons.to_string(),
            self.missed.to_string(),
            self.zero.to_string(),
            self.negative.to_string(),
            format!("{:.4e}", 100.0 * self.variance_error),
            format!("{:.6}", 100.0 * self.only_here as f64 / self.clusters.max(1) as f64),
        ]
    }

    fn look_at(&mut self, pedestal: &Pedestal, reference: &[f64]) {
        let variances = raw_variances(pedestal);
        self.zero = variances.iter().filter(|v| **v == 0.0).count() as u64;
        self.negative = variances.iter().filter(|v| **v < 0.0).count() as u64;
        let square = |(v, r): (&f64, &f64)| ((v.max(0.0) - r) / r).powi(2);
        let sum: f64 = variances.iter().zip(reference).filter(|(_, r)| **r > 0.0).map(square).sum();
        self.variance_error = (sum / reference.len() as f64).sqrt();
    }
}

/// Cluster sums in bins of 10 ADU from -200 to 2800 ADU; what lies outside is left out.
struct Spectrum {
    bins: Vec<u64>,
}

const BIN_ADU: f64 = 10.0;
const FIRST_ADU: f64 = -200.0;

impl Spectrum {
    fn new() -> Spectrum {
        Spectrum { bins: vec![0; 300] }
    }

    fn add(&mut self, adu: f64) {
        let at = (adu - FIRST_ADU) / BIN_ADU;
        if at >= 0.0
            && let Some(bin) = self.bins.get_mut(at as usize)
        {
            *bin += 1;
        }
    }
}

/// Finders of all modes over the same frames, a batch at a time.
struct Race<'a> {
    scene: &'a Scene,
    finders: Vec<Box<dyn Finder>>,
    spectra: Vec<Spectrum>,
}

impl<'a> Race<'a> {
    fn new(backend: &dyn Backend, scene: &'a Scene, size: ClusterSize) -> Result<Race<'a>> {
        let finders = Mode::ALL.iter().map(|m| m.finder(backend, scene, size)).collect::<Result<_>>()?;
        Ok(Race { scene, finders, spectra: Mode::ALL.iter().map(|_| Spectrum::new()).collect() })
    }

    /// One batch through every mode; `count` says whether sets are compared with `f64` and the truth.
    fn batch(&mut self, frames: Frames<'_>, found: &mut [Found]) -> Result<()> {
        let spectra = &mut self.spectra;
        // Per mode and frame the centres.
        let mut sets: Vec<Vec<HashSet<(u16, u16)>>> = self
            .finders
            .par_iter_mut()
            .zip(spectra.par_iter_mut())
            .map(|(finder, spectrum)| {
                let mut sets = Vec::with_capacity(frames.len());
                finder.find(frames, &mut |clusters| {
                    for k in 0..clusters.frames() {
                        sets.push(centres(&clusters, k));
                        clusters.frame(k).for_each(|c| spectrum.add(c.sum()));
                    }
                    Ok(())
                })?;
                Ok(sets)
            })
            .collect::<Result<_>>()?;
        let reference = sets.pop().expect("f64 is the last mode");
        for k in 0..frames.len() {
            let photons = self.scene.simulator().photons(frames.number(k));
            let near = photon_neighbourhood(self.scene.shape(), &photons);
            for (m, f) in found.iter_mut().enumerate() {
                let set = sets.get(m).map_or(&reference[k], |s| &s[k]);
                f.clusters += set.len() as u64;
                f.only_here += set.difference(&reference[k]).count() as u64;
                f.only_f64 += reference[k].difference(set).count() as u64;
                f.without_photon += set.difference(&near).count() as u64;
                f.photons += photons.len() as u64;
                let seen = |row: usize, col: usize| {
                    let rows = row.saturating_sub(1)..=row + 1;
                    rows.into_iter().any(|r| {
                        (col.saturating_sub(1)..=col + 1).any(|c| set.contains(&(r as u16, c as u16)))
                    })
                };
                f.missed += photons.iter().filter(|p| !seen(p.pixel().0, p.pixel().1)).count() as u64;
            }
        }
        Ok(())
    }

    fn look(&mut self, found: &mut [Found]) -> Result<()> {
        let reference = raw_variances(&self.finders[Mode::ALL.len() - 1].pedestal(0)?);
        for (finder, f) in self.finders.iter_mut().zip(found) {
            f.look_at(&finder.pedestal(0)?, &reference);
        }
        Ok(())
    }
}

/// Frames simulated and found a batch at a time, so that 100,000 of them need no memory.
fn in_batches(race: &mut Race<'_>, first: u64, count: u64, found: &mut [Found]) -> Result<()> {
    let n = race.scene.shape().pixels();
    // About 64 MB of frames.
    let batch = ((32 << 20) / n).clamp(1, 1000) as u64;
    let mut pixels = Vec::new();
    let mut at = first;
    while at < first + count {
        let now = batch.min(first + count - at);
        pixels.resize(now as usize * n, 0u16);
        let simulator = race.scene.simulator();
        pixels.par_chunks_mut(n).enumerate().for_each(|(k, frame)| {
            simulator.frame(at + k as u64, frame);
        });
        let frames = Frames::new(&pixels, race.scene.shape())?.with_numbers(Numbers::From(at))?;
        race.batch(frames, found)?;
        at += now;
    }
    Ok(())
}

fn fresh() -> Vec<Found> {
    vec![Found::default(); Mode::ALL.len()]
}

fn columns(first: &[&'static str]) -> Vec<&'static str> {
    first.iter().copied().chain(FOUND).collect()
}

/// Runs the study and writes `precision.csv` (400 x 400), `precision_spectra.csv`, `precision_drift.csv` (one row a mode
/// and window of frames) and `precision_levels.csv` (one row a mode and pedestal level).
///
/// # Errors
/// Those of the backend, the simulation and of writing.
pub fn run(plan: Plan, backend: &dyn Backend, dir: &Path) -> Result<()> {
    let size = ClusterSize::square(3)?;
    full_frames(plan, backend, size, dir)?;
    drift(plan, backend, size, dir)?;
    levels(plan, backend, size, dir)
}

fn full_frames(plan: Plan, backend: &dyn Backend, size: ClusterSize, dir: &Path) -> Result<()> {
    let start = Instant::now();
    let scene = Scene::new(&ladder_detector(), 0)?;
    let mut race = Race::new(backend, &scene, size)?;
    let mut found = fresh();
    in_batches(&mut race, 0, plan.frames as u64, &mut found)?;
    race.look(&mut found)?;
    let mut table =
        Table::new(dir.join("precision.csv"), &columns(&["mode", "backend", "frames", "seconds"]));
    for (mode, f) in Mode::ALL.iter().zip(&found) {
        let first = [
            mode.word().to_string(),
            backend.name().to_string(),
            plan.frames.to_string(),
            format!("{:.1}", start.elapsed().as_secs_f64()),
        ];
        table.push(first.into_iter().chain(f.values()));
    }
    table.write()?;
    let names: Vec<&str> = ["adu"].into_iter().chain(Mode::ALL.iter().map(|m| m.word())).collect();
    let mut spectra = Table::new(dir.join("precision_spectra.csv"), &names);
    for i in 0..race.spectra[0].bins.len() {
        let centre = FIRST_ADU + (i as f64 + 0.5) * BIN_ADU;
        let counts = race.spectra.iter().map(|s| s.bins[i].to_string());
        spectra.push([format!("{centre}")].into_iter().chain(counts));
    }
    spectra.write()
}

/// The small detector: the same pixels and photons a pixel, fewer of them.
fn small(plan: Plan) -> Simulation {
    let mut detector = ladder_detector();
    (detector.rows, detector.cols) = (plan.drift_side, plan.drift_side);
    detector.photons_per_frame *= (plan.drift_side * plan.drift_side) as f64 / 160_000.0;
    detector.seed = 7;
    detector
}

fn drift(plan: Plan, backend: &dyn Backend, size: ClusterSize, dir: &Path) -> Result<()> {
    let scene = Scene::new(&small(plan), 0)?;
    let mut race = Race::new(backend, &scene, size)?;
    let mut table = Table::new(
        dir.join("precision_drift.csv"),
        &columns(&["mode", "first_frame", "end_frame", "pixels"]),
    );
    let windows = 50;
    for w in 0..windows {
        let (first, end) = (plan.drift_frames * w / windows, plan.drift_frames * (w + 1) / windows);
        let mut found = fresh();
        in_batches(&mut race, first, end - first, &mut found)?;
        race.look(&mut found)?;
        for (mode, f) in Mode::ALL.iter().zip(&found) {
            let numbers = [first, end, scene.shape().pixels() as u64].map(|n| n.to_string());
            table.push([mode.word().to_string()].into_iter().chain(numbers).chain(f.values()));
        }
    }
    table.write()
}

fn levels(plan: Plan, backend: &dyn Backend, size: ClusterSize, dir: &Path) -> Result<()> {
    let mut table =
        Table::new(dir.join("precision_levels.csv"), &columns(&["mode", "pedestal_adu", "frames", "pixels"]));
    for level in LEVELS_ADU {
        let mut detector = small(plan);
        (detector.pedestal_adu, detector.pedestal_spread_adu, detector.bits) = (level, 0.06 * level, 16);
        let scene = Scene::new(&detector, 0)?;
        let mut race = Race::new(backend, &scene, size)?;
        let mut found = fresh();
        in_batches(&mut race, 0, plan.level_frames, &mut found)?;
        race.look(&mut found)?;
        for (mode, f) in Mode::ALL.iter().zip(&found) {
            let first = [mode.word().to_string(), level.to_string()];
            let numbers = [plan.level_frames, scene.shape().pixels() as u64].map(|n| n.to_string());
            table.push(first.into_iter().chain(numbers).chain(f.values()));
        }
    }
    table.write()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_naive_pedestal_has_the_raw_sums() {
        let mut detector = ladder_detector();
        (detector.rows, detector.cols) = (8, 8);
        let scene = Scene::new(&detector, 0).unwrap();
        let raw = naive(&scene.pedestal(Precision::F64).unwrap()).unwrap();
        let (mut s, mut q, mut frame) = (vec![0u64; 64], vec![0u64; 64], vec![0u16; 64]);
        for k in 0..crate::scene::DARKS {
            scene.simulator().dark(k, &mut frame);
            for (i, x) in frame.iter().enumerate() {
                s[i] += u64::from(*x);
                q[i] += u64::from(*x).pow(2);
            }
        }
        assert_eq!(raw.sum, Plane::F32(s.iter().map(|v| *v as f32).collect()));
        assert_eq!(raw.sum2, Plane::F32(q.iter().map(|v| *v as f32).collect()));
        assert!(raw.x0.iter().all(|x| *x == 0));
    }
}
