//! What a report needs of the clusters, gathered in one pass and little memory.

use std::sync::atomic::{AtomicUsize, Ordering};

use rayon::prelude::*;
use scheidegg::io::{Batch, Sink, Written};
use scheidegg::provenance::Provenance;
use scheidegg::{Charge, Result, Shape};

use super::histogram::Histogram;
use super::timeline::Timeline;

/// Cells of the eta map each way.
pub const ETA_CELLS: usize = 100;

/// Clusters that a thread takes at a time: some 8 us of work.
const BLOCK: usize = 512;

/// Memory for hit maps of threads: 200 threads for 400x400 pixels, 8 for 2048x2048.
const HIT_MAPS: usize = 128 << 20;

/// Spectra, hit map, timeline and eta of a run, complete after [`Sink::finish`].
#[derive(Clone, Debug, PartialEq)]
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
    pub eta: Vec<u64>,
    /// Clusters whose eta lies outside 0 to 1.
    pub eta_outside: u64,
    /// Clusters seen.
    pub clusters: u64,
    /// What each thread has counted so far. Counts are whole numbers: whoever counts which cluster, their sums are the
    /// same.
    shares: Vec<Share>,
}

/// The counts of one thread, apart from its neighbours' in memory.
#[derive(Clone, Debug, PartialEq)]
#[repr(align(128))]
struct Share {
    cols: usize,
    centre: Histogram,
    square: Histogram,
    full: Histogram,
    hits: Vec<u32>,
    eta: Vec<u64>,
    eta_outside: u64,
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
            shares: Vec::new(),
        }
    }
}

impl Share {
    fn new(shape: Shape) -> Self {
        Share {
            cols: shape.cols,
            centre: Histogram::default(),
            square: Histogram::default(),
            full: Histogram::default(),
            hits: vec![0; shape.pixels()],
            eta: vec![0; ETA_CELLS * ETA_CELLS],
            eta_outside: 0,
        }
    }

    /// How many there may be.
    fn most(shape: Shape) -> usize {
        (HIT_MAPS / size_of::<u32>() / shape.pixels().max(1)).max(1)
    }

    #[inline]
    fn add(&mut self, charge: &Charge) {
        self.centre.add(charge.centre);
        self.square.add(charge.sum_2x2);
        self.full.add(charge.sum);
        let hits = &mut self.hits[usize::from(charge.y) * self.cols + usize::from(charge.x)];
        *hits = hits.saturating_add(1);
        match charge.eta.and_then(|e| Some((cell_of(e.x)?, cell_of(e.y)?))) {
            Some((x, y)) => self.eta[y * ETA_CELLS + x] += 1,
            None => self.eta_outside += 1,
        }
    }
}

impl Sink for ReportSink {
    fn name(&self) -> String {
        "report".into()
    }

    fn write(&mut self, batch: &Batch<'_>) -> Result<()> {
        let batch = batch.clusters();
        for (number, pair) in batch.numbers().iter().zip(batch.offsets().windows(2)) {
            self.timeline.push(*number, pair[1] - pair[0]);
        }
        let all = batch.len();
        self.clusters += all as u64;
        let threads = rayon::current_num_threads().min(Share::most(self.shape)).min(all.div_ceil(BLOCK));
        while self.shares.len() < threads {
            self.shares.push(Share::new(self.shape));
        }
        // Whoever is done takes the next block: a thread that has to wait for its core holds nobody up for long.
        let next = AtomicUsize::new(0);
        self.shares[..threads].par_iter_mut().for_each(|share| {
            loop {
                let from = next.fetch_add(BLOCK, Ordering::Relaxed);
                if from >= all {
                    break;
                }
                batch.charges(from..(from + BLOCK).min(all), |charge| share.add(&charge));
            }
        });
        Ok(())
    }

    fn finish(&mut self, _: &Provenance) -> Result<Written> {
        for share in self.shares.drain(..) {
            self.centre.merge(&share.centre);
            self.square.merge(&share.square);
            self.full.merge(&share.full);
            self.hits.iter_mut().zip(&share.hits).for_each(|(a, b)| *a = a.saturating_add(*b));
            self.eta.iter_mut().zip(&share.eta).for_each(|(a, b)| *a += b);
            self.eta_outside += share.eta_outside;
        }
        Ok(Written::nowhere())
    }
}

#[inline]
fn cell_of(eta: f64) -> Option<usize> {
    (0.0..=1.0).contains(&eta).then(|| ((eta * ETA_CELLS as f64) as u32 as usize).min(ETA_CELLS - 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_frames_have_few_hit_maps() {
        for (rows, cols, most) in [(400, 400, 209), (2048, 2048, 8), (4096, 4096, 2), (65_535, 65_535, 1)] {
            assert_eq!(Share::most(Shape { rows, cols }), most);
        }
    }
}
