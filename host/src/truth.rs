//! Found clusters against the photons that were simulated.
//!
//! # Definitions
//! A photon hits the *pixel* `(floor(y), floor(x))`, see [`Photon`](crate::io::simulate::Photon).
//!
//! *Matching*, frame by frame: a photon and a cluster may belong together when the cluster's centre is at most one row
//! and one column away from the photon's pixel. Of these pairs the nearest (from where the photon hit to the middle of the
//! centre pixel) is taken first, then the nearest that is left, each photon and each cluster at most once; equal
//! distances in the order of photons, then of clusters.
//!
//! - *found*: a photon with a cluster. *Efficiency*: found photons of all. Photons that fall so close together that one
//!   cluster stands for several (pile-up), that lose charge over the edge, that hit a dead pixel or whose packet was lost
//!   are all counted here, so this number falls with the photon rate and is no property of the finder alone.
//! - *clean*: a photon with no other one within `w` columns and `h` rows of its pixel (so that no charge of another
//!   reaches its window), and with no edge of the frame and no hot, dead, masked or lost pixel in the cluster window
//!   around its pixel made one pixel wider on every side. The efficiency for clean photons is the finder's own.
//! - *matched*: a cluster with its photon. *Extra*: a cluster without, though a photon hit a pixel of its window (pile-up,
//!   or a photon found twice). *False*: any other cluster; no photon explains it. Each cluster is one of the three.
//! - *photons a cluster*: photons whose pixel lies in the window of a cluster.
//! - *pixels a photon*: pixels of a clean photon's cluster above five times the mean noise of the simulated
//!   pixels; how far its charge is shared.
//! - *peak*: the spectrum of the clusters of clean photons of the main line, see [`Peak`].

mod matching;
mod spectrum;
mod summary;

use std::sync::Arc;

use rayon::prelude::*;
use scheidegg_finder::{ClusterSize, Clusters, Error, PixelMask, Result};

use crate::io::simulate::Simulator;
use crate::io::{Batch, Sink, Written};
use crate::provenance::Provenance;
use matching::Judge;
use summary::Tally;
pub use summary::{Peak, TruthSummary};

/// Compares clusters with the simulated photons, batch by batch.
///
/// The number of a frame is its index in the simulation.
///
/// # Determinism
/// Only counts are kept, so the order and the cutting of batches do not matter.
#[derive(Debug)]
pub struct Truth {
    judge: Judge,
    first: u64,
    tally: Tally,
}

impl Truth {
    /// For clusters of one size found in the frames of a simulator.
    pub fn new(simulator: Arc<Simulator>, size: ClusterSize) -> Truth {
        let judge = Judge::new(simulator, size);
        let tally = Tally::new(judge.main_adu());
        Truth { judge, first: 0, tally }
    }

    /// With pixels that the finder was told to mask.
    ///
    /// # Errors
    /// [`Error::ShapeMismatch`].
    pub fn with_mask(mut self, mask: &PixelMask) -> Result<Truth> {
        let expected = self.judge.shape();
        if mask.shape() != expected {
            return Err(Error::ShapeMismatch { what: "mask".into(), expected, got: mask.shape() });
        }
        self.judge.mask(mask);
        Ok(self)
    }

    /// For frames numbered from `first` on instead of 0.
    pub fn numbered_from(mut self, first: u64) -> Truth {
        self.first = first;
        self
    }

    /// Takes the clusters of the next frames; works on them in parallel.
    ///
    /// # Errors
    /// [`Error::ShapeMismatch`], or [`Error::Param`] for clusters of another size or a frame number below the first.
    pub fn add(&mut self, batch: &Clusters<'_>) -> Result<()> {
        let expected = self.judge.shape();
        if batch.shape() != expected {
            let what = "clusters compared with the simulation".into();
            return Err(Error::ShapeMismatch { what, expected, got: batch.shape() });
        }
        if batch.size() != self.judge.size() {
            return Err(Error::param("cluster size", batch.size(), self.judge.size().to_string()));
        }
        let first = self.first;
        if let Some(low) = batch.numbers().iter().find(|n| **n < first) {
            return Err(Error::param("frame number", low, format!("at least {first}, the first frame's")));
        }
        let main = self.judge.main_adu();
        let tally = (0..batch.frames())
            .into_par_iter()
            .fold(
                || Tally::new(main),
                |mut tally, k| {
                    self.judge.frame(batch.numbers()[k] - first, batch, k, &mut tally);
                    tally
                },
            )
            .reduce(|| Tally::new(main), Tally::merge);
        self.tally = std::mem::take(&mut self.tally).merge(tally);
        Ok(())
    }

    /// What came out so far.
    pub fn summary(&self) -> TruthSummary {
        TruthSummary::new(&self.tally, self.judge.simulator(), self.judge.size())
    }
}

impl Sink for Truth {
    fn name(&self) -> String {
        "truth".into()
    }

    fn write(&mut self, batch: &Batch<'_>) -> Result<()> {
        self.add(batch.clusters())
    }

    /// Nothing is left to be done.
    fn finish(&mut self, _: &Provenance) -> Result<Written> {
        Ok(Written::nowhere())
    }
}

#[cfg(test)]
mod model_tests;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod windows;
