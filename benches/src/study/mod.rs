//! Two studies of why the finder computes what it computes: in which precision, and from which pedestal.

pub mod judge;
pub mod precision;
pub mod timing;

use std::collections::HashSet;

use scheidegg::io::simulate::Photon;
use scheidegg::{Clusters, Shape};

/// The clusters of one frame as a set of centres `(row, col)`.
pub(crate) fn centres(clusters: &Clusters<'_>, k: usize) -> HashSet<(u16, u16)> {
    clusters.frame(k).map(|c| (c.y, c.x)).collect()
}

/// The pixels within one of a photon's: a cluster with its centre there is the photon's.
pub(crate) fn photon_neighbourhood(shape: Shape, photons: &[Photon]) -> HashSet<(u16, u16)> {
    let mut near = HashSet::with_capacity(photons.len() * 9);
    for (row, col) in photons.iter().map(Photon::pixel) {
        for r in row.saturating_sub(1)..=(row + 1).min(shape.rows - 1) {
            for c in col.saturating_sub(1)..=(col + 1).min(shape.cols - 1) {
                near.insert((r as u16, c as u16));
            }
        }
    }
    near
}
