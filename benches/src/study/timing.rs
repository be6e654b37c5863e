//! Serial against frozen: what it changes that a pixel is judged with a pedestal from the middle of a frame, which
//! branch goes over into which, and through which test.
//!
//! Runs with different seeds are independent, so each thread takes one.

use std::path::Path;
use std::time::Instant;

use rayon::prelude::*;
use scheidegg::{Branch, ClusterSize, Precision, Result, Update};

use crate::harness::table::Table;
use crate::scene::{Scene, ladder_detector};
use crate::study::judge::Judge;

const BRANCHES: usize = 6;
/// Names of the branches that a pixel without a mask can take, in the order of their codes (SPEC 6).
pub const NAMES: [&str; BRANCHES] = ["UPDATE", "NEGATIVE", "SHADOW", "STORE_PEAK", "SHOULDER", "STORE_SUM"];

/// How much is looked at.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Independent runs, each with a detector of its own.
    pub runs: u64,
    /// Frames of a run.
    pub frames: usize,
    /// Side of the window.
    pub size: usize,
    /// Side of a (square) frame in pixels.
    pub side: usize,
}

#[derive(Clone, Debug, Default)]
struct Count {
    /// `[frozen][serial]`.
    matrix: [[u64; BRANCHES]; BRANCHES],
    frames: u64,
    frames_that_differ: u64,
    clusters: [u64; 2],
    only: [u64; 2],
}

impl Count {
    fn add(mut self, other: Count) -> Count {
        for (mine, theirs) in self.matrix.iter_mut().flatten().zip(other.matrix.iter().flatten()) {
            *mine += theirs;
        }
        self.frames += other.frames;
        self.frames_that_differ += other.frames_that_differ;
        for i in 0..2 {
            self.clusters[i] += other.clusters[i];
            self.only[i] += other.only[i];
        }
        self
    }

    fn frame(&mut self, frozen: &[u8], serial: &[u8]) {
        let mut differs = false;
        for (&f, &s) in frozen.iter().zip(serial) {
            self.matrix[f as usize][s as usize] += 1;
            differs |= f != s;
            let stored = [f, s].map(|c| Branch::from_code(c).is_some_and(Branch::is_stored));
            for i in 0..2 {
                self.clusters[i] += u64::from(stored[i]);
                self.only[i] += u64::from(stored[i] && !stored[1 - i]);
            }
        }
        self.frames += 1;
        self.frames_that_differ += u64::from(differs);
    }

    fn differing(&self) -> u64 {
        let off_diagonal = |(f, row): (usize, &[u64; BRANCHES])| -> u64 {
            row.iter().enumerate().filter(|(s, _)| *s != f).map(|(_, n)| n).sum()
        };
        self.matrix.iter().enumerate().map(off_diagonal).sum()
    }
}

/// Runs the study and writes `timing.csv` (one row with test 3 on, one with it off) and `timing_matrix.csv`.
///
/// # Errors
/// Those of the simulation and of writing.
pub fn run(plan: Plan, dir: &Path) -> Result<()> {
    let size = ClusterSize::square(plan.size)?;
    let start = Instant::now();
    let photons = 2300.0 * (plan.side * plan.side) as f64 / 160_000.0;
    let one = |run: u64| -> Result<[Count; 2]> {
        let mut detector = ladder_detector();
        (detector.rows, detector.cols, detector.photons_per_frame) = (plan.side, plan.side, photons);
        detector.seed = 100 + run;
        let scene = Scene::new(&detector, 0)?;
        let pedestal = scene.pedestal(Precision::F64)?;
        let mut counts = [Count::default(), Count::default()];
        let mut pairs = [true, false].map(|test3| {
            [Update::Frozen, Update::Serial].map(|order| Judge::new(&pedestal, size, 5.0, order, test3))
        });
        let mut frame = vec![0u16; scene.shape().pixels()];
        for k in 0..plan.frames as u64 {
            scene.simulator().frame(k, &mut frame);
            for (count, [frozen, serial]) in counts.iter_mut().zip(&mut pairs) {
                count.frame(frozen.frame(&frame), serial.frame(&frame));
            }
        }
        Ok(counts)
    };
    let counts = (0..plan.runs)
        .into_par_iter()
        .map(one)
        .try_reduce(|| [Count::default(), Count::default()], |[a, b], [c, d]| Ok([a.add(c), b.add(d)]))?;

    let mut summary = Table::new(
        dir.join("timing.csv"),
        &[
            "test3",
            "size",
            "runs",
            "frames",
            "pixels",
            "pixels_that_differ",
            "frames_that_differ",
            "clusters_frozen",
            "clusters_serial",
            "only_frozen",
            "only_serial",
            "seconds",
        ],
    );
    let mut matrix = Table::new(dir.join("timing_matrix.csv"), &["test3", "frozen", "serial", "pixels"]);
    for (count, test3) in counts.iter().zip(["on", "off"]) {
        let numbers = [
            plan.runs,
            count.frames,
            count.frames * (plan.side * plan.side) as u64,
            count.differing(),
            count.frames_that_differ,
            count.clusters[0],
            count.clusters[1],
            count.only[0],
            count.only[1],
        ];
        summary.push(
            [test3.to_string(), plan.size.to_string()]
                .into_iter()
                .chain(numbers.map(|n| n.to_string()))
                .chain([format!("{:.1}", start.elapsed().as_secs_f64())]),
        );
        for (f, row) in count.matrix.iter().enumerate() {
            for (s, n) in row.iter().enumerate() {
                matrix.push([test3.into(), NAMES[f].into(), NAMES[s].into(), n.to_string()]);
            }
        }
    }
    summary.write()?;
    matrix.write()
}
