//! What a report needs of the clusters, gathered in one pass and little memory.

use std::sync::atomic::{AtomicUsize, Ordering};

use rayon::prelude::*;
use scheidegg::io::{Batch, Sink, Written};
use scheidegg::provenance::Provenance;
use scheidegg::{Charge, Payload, Result, Shape};

use super::eta::Counts;
use super::histogram::Histogram;
use super::timeline::Timeline;

/// Clusters that a thread takes at a time: some 8 us of work.
const BLOCK: usize = 512;

/// Memory for the counts of threads: 30 threads for 400x400 pixels, 10 for 2048x2048.
const SHARES: usize = 256 << 20;

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
    /// Clusters by their eta and their energy.
    pub eta: Counts<u64>,
    /// Clusters seen.
    pub clusters: u64,
    /// What the values were stored as.
    pub payload: Option<Payload>,
    /// Where the clusters come from, once they are complete.
    pub provenance: Option<Provenance>,
    /// Clusters that are in `shares` only.
    apart: u64,
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
    eta: Counts<u32>,
}

impl ReportSink {
    /// Takes together what the threads have counted.
    fn merge(&mut self) {
        let etas: Vec<_> = self.shares.iter().map(|share| &share.eta).collect();
        self.eta.merge(&etas);
        for share in self.shares.drain(..) {
            self.centre.merge(&share.centre);
            self.square.merge(&share.square);
            self.full.merge(&share.full);
            self.hits.iter_mut().zip(&share.hits).for_each(|(a, b)| *a = a.saturating_add(*b));
        }
        self.apart = 0;
    }

    /// Nothing seen yet.
    pub fn new(shape: Shape) -> Self {
        ReportSink {
            shape,
            centre: Histogram::default(),
            square: Histogram::default(),
            full: Histogram::default(),
            hits: vec![0; shape.pixels()],
            timeline: Timeline::default(),
            eta: Counts::default(),
            clusters: 0,
            payload: None,
            provenance: None,
            apart: 0,
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
            eta: Counts::default(),
        }
    }

    /// How many there may be.
    fn most(shape: Shape) -> usize {
        (SHARES / (shape.pixels() * size_of::<u32>() + Counts::BYTES)).max(1)
    }

    #[inline]
    fn add(&mut self, charge: &Charge) {
        self.centre.add(charge.centre);
        self.square.add(charge.sum_2x2);
        self.full.add(charge.sum);
        let hits = &mut self.hits[usize::from(charge.y) * self.cols + usize::from(charge.x)];
        *hits = hits.saturating_add(1);
        self.eta.add(charge.eta);
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
        // A thread counts in 32 bits.
        if self.apart + all as u64 > u64::from(u32::MAX) {
            self.merge();
        }
        self.apart += all as u64;
        self.clusters += all as u64;
        self.payload = Some(batch.payload());
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
                batch.charges_unrounded(from..(from + BLOCK).min(all), |charge| share.add(&charge));
            }
        });
        Ok(())
    }

    fn finish(&mut self, provenance: &Provenance) -> Result<Written> {
        self.merge();
        self.provenance = Some(provenance.clone());
        Ok(Written::nowhere())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_frames_are_counted_by_few_threads() {
        for (rows, cols, most) in [(400, 400, 31), (2048, 2048, 10), (4096, 4096, 3), (65_535, 65_535, 1)] {
            assert_eq!(Share::most(Shape { rows, cols }), most);
        }
    }
}
