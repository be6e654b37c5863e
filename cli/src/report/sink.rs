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
        for cluster in batch.iter() {
            self.centre.add(cluster.centre());
            self.full.add(cluster.sum());
            self.square.add(cluster.max_sum_2x2().0);
            let hits = &mut self.hits[usize::from(cluster.y) * self.shape.cols + usize::from(cluster.x)];
            *hits = hits.saturating_add(1);
            let cell = cluster.eta2().and_then(|e| Some((cell_of(e.x)?, cell_of(e.y)?)));
            match cell {
                Some((x, y)) => self.eta[y * ETA_CELLS + x] += 1,
                None => self.eta_outside += 1,
            }
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<()> {
        Ok(())
    }
}

fn cell_of(eta: f64) -> Option<usize> {
    (0.0..=1.0).contains(&eta).then(|| ((eta * ETA_CELLS as f64) as usize).min(ETA_CELLS - 1))
}
