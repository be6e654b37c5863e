//! What a report needs of the clusters, gathered in one pass and little memory.

use scheidegg::io::Sink;
use scheidegg::{Clusters, Result, Shape};

use super::histogram::Histogram;
use super::timeline::Timeline;

/// Cells of the eta map each way.
pub const ETA_CELLS: usize = 100;

/// Spectra, hit map, timeline and eta of a run.
#[derive(Clone, Debug)]
pub struct ReportSink {
    /// Rows and columns of a frame.
    pub shape: Shape,
    /// Values of the centres.
    pub centre: Histogram,
    /// Largest 2x2 sums.
    pub square: Histogram,
    /// Sums of whole windows.
    pub full: Histogram,
    /// Clusters at every pixel.
    pub hits: Vec<u32>,
    /// Clusters per frame.
    pub timeline: Timeline,
    /// Clusters by their eta, `y` then `x`, each from 0 to 1.
    pub eta: Vec<u32>,
    /// Clusters whose eta lies outside 0 to 1.
    pub eta_outside: u64,
    /// Clusters seen.
    pub clusters: u64,
}

impl ReportSink {
    /// Nothing seen yet.
    pub fn new(shape: Shape) -> Self {
        ReportSink {
            shape,
            centre: Histogram::default(),
            square: Histogram::default(),
            full: Histogram::default(),
            hits: vec![0; shape.pixels()],
            timeline: Timeline::default(),
            eta: vec![0; ETA_CELLS * ETA_CELLS],
            eta_outside: 0,
            clusters: 0,
        }
    }
}

impl Sink for ReportSink {
    fn write(&mut self, batch: &Clusters<'_>) -> Result<()> {
        for pair in batch.offsets().windows(2) {
            self.timeline.push(pair[1] - pair[0]);
        }
        self.clusters += batch.len() as u64;
        let cols = self.shape.cols;
        let ReportSink { centre, square, full, hits, eta, eta_outside, .. } = self;
        // Three passes at once, each over accumulators of its own.
        let sums = || {
            for cluster in batch.iter() {
                centre.add(cluster.centre());
                full.add(cluster.sum());
            }
        };
        let map = || {
            for cluster in batch.iter() {
                let hits = &mut hits[usize::from(cluster.y) * cols + usize::from(cluster.x)];
                *hits = hits.saturating_add(1);
            }
        };
        let squares = || {
            for cluster in batch.iter() {
                let shared = cluster.eta2();
                square.add(shared.map_or_else(|| cluster.max_sum_2x2().0, |e| e.sum));
                match shared.and_then(|e| Some((cell_of(e.x)?, cell_of(e.y)?))) {
                    Some((x, y)) => eta[y * ETA_CELLS + x] += 1,
                    None => *eta_outside += 1,
                }
            }
        };
        rayon::join(squares, || rayon::join(sums, map));
        Ok(())
    }

    fn finish(&mut self) -> Result<()> {
        Ok(())
    }
}

fn cell_of(eta: f64) -> Option<usize> {
    (0.0..=1.0).contains(&eta).then(|| ((eta * ETA_CELLS as f64) as usize).min(ETA_CELLS - 1))
}
