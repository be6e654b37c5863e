//! What a sink is given.

use scheidegg_finder::{Clusters, FrameNote};

/// The clusters of consecutive frames, and what is known of every frame. Borrowed: nothing is copied for a sink.
#[derive(Clone, Copy, Debug)]
pub struct Batch<'a> {
    clusters: Clusters<'a>,
    notes: &'a [FrameNote],
    lost_pixels: &'a [u64],
}

impl<'a> Batch<'a> {
    /// Clusters of frames of which nothing more is known.
    pub fn of(clusters: Clusters<'a>) -> Batch<'a> {
        Batch { clusters, notes: &[], lost_pixels: &[] }
    }

    /// With notes on the frames and their numbers of lost pixels, in order; where they are fewer than the frames, the last
    /// frames have none.
    pub fn with_notes(self, notes: &'a [FrameNote], lost_pixels: &'a [u64]) -> Batch<'a> {
        Batch { notes, lost_pixels, ..self }
    }

    /// The clusters.
    pub fn clusters(&self) -> &Clusters<'a> {
        &self.clusters
    }

    /// What the source knows of frame `k`.
    pub fn note(&self, k: usize) -> FrameNote {
        self.notes.get(k).copied().unwrap_or_default()
    }

    /// Pixels of frame `k` that were masked for this frame alone.
    pub fn lost_pixels(&self, k: usize) -> u64 {
        self.lost_pixels.get(k).copied().unwrap_or(0)
    }
}

impl<'a> From<Clusters<'a>> for Batch<'a> {
    fn from(clusters: Clusters<'a>) -> Self {
        Batch::of(clusters)
    }
}
