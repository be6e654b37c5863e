//! Runs on the GPU compared with the same on the CPU, to the bit.

use std::time::Instant;

use scheidegg::cuda::{CudaFinder, Options, RegisteredSlice};
use scheidegg::{Backend, Clusters, ClustersBuf, Error, Finder, Frames, Params, Pedestal, Plane, Result};
use scheidegg_cpu::{CpuBackend, OracleBackend};

/// A comparison of a run on the GPU with the same on the CPU.
pub struct Run<'a> {
    /// What the run asks for; the darks are all pedestal samples.
    pub params: Params,
    /// Dark frames.
    pub darks: &'a [u16],
    /// Frames to search.
    pub frames: Frames<'a>,
    /// How the GPU works.
    pub options: Options,
    /// Where frames are read from: page-locked memory in place, or copied.
    pub in_place: bool,
}

/// Rows of the table, and what differed.
pub struct Table {
    /// Rows so far.
    pub rows: usize,
    /// Rows that differed.
    pub failed: usize,
    only: Option<String>,
}

impl Table {
    /// Begins a table of the rows whose names contain `only`.
    pub fn new(only: Option<String>) -> Table {
        println!(
            "{:<58} {:>7} {:>10} {:>7} {:>7}  result",
            "comparison", "frames", "clusters", "redone", "s"
        );
        Table { rows: 0, failed: 0, only }
    }

    /// Makes a comparison that is wanted: clusters, and chunks that were done again, or what differs.
    pub fn row(
        &mut self,
        name: &str,
        frames: usize,
        compared: impl FnOnce() -> std::result::Result<(u64, u64), String>,
    ) {
        if self.only.as_ref().is_some_and(|only| !name.contains(only.as_str())) {
            return;
        }
        self.rows += 1;
        let start = Instant::now();
        let outcome = compared();
        let s = start.elapsed().as_secs_f64();
        match outcome {
            Ok((clusters, redone)) => {
                println!("{name:<58} {frames:>7} {clusters:>10} {redone:>7} {s:>7.2}  equal");
            }
            Err(what) => {
                self.failed += 1;
                println!("{name:<58} {frames:>7} {:>10} {:>7} {s:>7.2}  DIFFERS: {what}", "-", "-");
            }
        }
    }
}

/// What a run returns.
pub struct Found {
    /// Clusters of all frames.
    pub clusters: ClustersBuf,
    pedestals: Vec<Pedestal>,
    saturated: u64,
    redone: u64,
}

/// Trains a finder, which must be that of `backend`, and lets it find.
///
/// # Errors
/// Those of the finder.
pub fn found(finder: &mut dyn Finder, darks: &[u16], frames: Frames<'_>, backend: &str) -> Result<Found> {
    let (shape, params) = (finder.shape(), finder.params().clone());
    if finder.backend() != backend {
        return Err(Error::Other(format!("{} ran instead of {backend}", finder.backend())));
    }
    finder.train(Frames::new(darks, shape)?)?;
    finder.finish_training()?;
    let mut clusters = ClustersBuf::new(shape, params.size, params.payload);
    finder.find(frames, &mut |c| {
        clusters.append(&c);
        Ok(())
    })?;
    let pedestals = (0..params.lanes).map(|l| finder.pedestal(l)).collect::<Result<_>>()?;
    let statistics = finder.statistics();
    Ok(Found { clusters, pedestals, saturated: statistics.saturated, redone: statistics.redone })
}

/// The first difference of two batches of clusters, in words.
fn difference(want: &Clusters<'_>, got: &Clusters<'_>) -> Option<String> {
    if want.numbers() != got.numbers() {
        return Some(format!("{} frames, expected {}", got.frames(), want.frames()));
    }
    for k in 0..want.frames() {
        if want.frame_bytes(k) == got.frame_bytes(k) {
            continue;
        }
        let (w, g) = (want.frame(k), got.frame(k));
        let (nw, ng) = (w.len(), g.len());
        return Some(match w.zip(g).enumerate().find(|(_, (w, g))| w != g) {
            Some((i, (w, g))) => format!(
                "frame {k}: cluster {i} of {ng}: ({}, {}) {:?}, expected of {nw}: ({}, {}) {:?}",
                g.x,
                g.y,
                g.values(),
                w.x,
                w.y,
                w.values()
            ),
            None => format!("frame {k}: {ng} clusters, expected {nw}"),
        });
    }
    match (want.trace(), got.trace()) {
        (a, b) if a == b => None,
        (Some(a), Some(b)) => {
            let i = a.iter().zip(b).position(|(a, b)| a != b).unwrap_or(0);
            Some(format!("trace byte {i}: {}, expected {}", b[i], a[i]))
        }
        _ => Some("one trace is missing".into()),
    }
}

fn pedestal_difference(want: &Pedestal, got: &Pedestal) -> Option<String> {
    for (name, w, g) in [("sum", &want.sum, &got.sum), ("sum2", &want.sum2, &got.sum2)] {
        let bits = |p: &Plane, i: usize| p.get(i).to_bits();
        if let Some(i) = (0..w.len()).find(|&i| bits(w, i) != bits(g, i)) {
            return Some(format!("{name} of pixel {i}: {}, expected {}", g.get(i), w.get(i)));
        }
    }
    (want != got).then(|| "the pedestals differ beside their sums".into())
}

/// Compares with the CPU's finder, or with the oracle: how many clusters there were and how many chunks were done again.
///
/// # Errors
/// What differs, or went wrong, in words.
pub fn compare(run: &Run<'_>, oracle: bool) -> std::result::Result<(u64, u64), String> {
    let shape = run.frames.shape();
    let params = Params { pedestal_samples: (run.darks.len() / shape.pixels()) as u64, ..run.params.clone() };
    let words = |e: Error| e.to_string();
    let (reference, name): (Box<dyn Backend>, _) = match oracle {
        true => (Box::new(OracleBackend::new()), "oracle"),
        false => (Box::new(CpuBackend::new()), "cpu"),
    };
    let mut cpu = reference.build(shape, &params).map_err(words)?;
    let want = found(&mut *cpu, run.darks, run.frames, name).map_err(words)?;
    drop(cpu);
    let mut gpu = CudaFinder::new(shape, &params, &run.options).map_err(words)?;
    let locked = match run.in_place {
        true => Some(RegisteredSlice::new(run.options.devices[0], run.frames.as_slice()).map_err(words)?),
        false => None,
    };
    let got = found(&mut gpu, run.darks, run.frames, "cuda").map_err(words)?;
    drop(locked);
    if let Some(what) = difference(&want.clusters.view(), &got.clusters.view()) {
        return Err(what);
    }
    for (lane, (w, g)) in want.pedestals.iter().zip(&got.pedestals).enumerate() {
        if let Some(what) = pedestal_difference(w, g) {
            return Err(format!("lane {lane}: {what}"));
        }
    }
    if want.saturated != got.saturated {
        return Err(format!("{} values cut to fit, expected {}", got.saturated, want.saturated));
    }
    Ok((got.clusters.view().len() as u64, got.redone))
}
