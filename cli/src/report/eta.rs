//! Eta distributions of clusters by their energy: the window of energies is chosen when the peak is known.

use rayon::prelude::*;
use scheidegg::Eta;

/// Cells of an eta map each way.
pub const CELLS: usize = 100;

/// Energies from here on have bins of their own, in ADU ..
const LOWEST: f32 = 16.0;
/// .. so many for each doubling ..
const PER_OCTAVE: usize = 16;
/// .. and so many doublings, up to 65,536 ADU.
const OCTAVES: usize = 12;
/// The first bin takes what lies below, the last what lies above.
const BINS: usize = OCTAVES * PER_OCTAVE + 2;
/// Bits of an `f32` that follow those that tell the bin.
const REST: u32 = f32::MANTISSA_DIGITS - 1 - PER_OCTAVE.ilog2();
const CELLS_OF_BIN: usize = CELLS * CELLS;

/// Counts of eta by energy: those of one thread, or of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Counts<N> {
    /// A map of `y`, then `x`, for every energy; an empty one where no cluster has it. A run has few of the energies: maps
    /// of all would be taken, cleared and added up for nothing, in every thread.
    maps: Vec<Vec<N>>,
    /// Clusters of every energy with an eta outside 0 to 1.
    outside: Vec<u64>,
    /// Clusters without an eta: their charge is not above 0.
    without: u64,
}

/// The eta distribution of a window of energies.
#[derive(Clone, Debug, PartialEq)]
pub struct Distribution {
    /// Energies of the clusters in ADU, `low..high`; nothing when all were taken.
    pub window: Option<(f64, f64)>,
    /// Clusters by `y`, then `x`.
    pub cells: Vec<u64>,
    /// Clusters of the window with an eta outside 0 to 1.
    pub outside: u64,
}

impl<N: Clone> Default for Counts<N> {
    fn default() -> Self {
        Counts { maps: vec![Vec::new(); BINS], outside: vec![0; BINS], without: 0 }
    }
}

/// The bin of an energy above 0: the exponent and the first digits of a float are its logarithm in steps.
#[inline]
fn bin_of(energy: f64) -> usize {
    let below = (LOWEST.to_bits() >> REST) - 1;
    ((energy as f32).to_bits() >> REST).saturating_sub(below).min(BINS as u32 - 1) as usize
}

/// The lower edge of a bin but the first.
fn edge(bin: usize) -> f64 {
    f64::from(f32::from_bits(((LOWEST.to_bits() >> REST) + bin as u32 - 1) << REST))
}

#[inline]
fn cell_of(eta: f64) -> Option<usize> {
    (0.0..=1.0).contains(&eta).then(|| ((eta * CELLS as f64) as u32 as usize).min(CELLS - 1))
}

impl Counts<u32> {
    /// Memory that counts of all energies take.
    pub const BYTES: usize = BINS * CELLS_OF_BIN * size_of::<u32>();

    /// Counts a cluster.
    #[inline]
    pub fn add(&mut self, eta: Option<Eta>) {
        let Some(eta) = eta else {
            self.without += 1;
            return;
        };
        let bin = bin_of(eta.sum);
        match (cell_of(eta.x), cell_of(eta.y)) {
            (Some(x), Some(y)) => {
                let map = &mut self.maps[bin];
                if map.is_empty() {
                    map.resize(CELLS_OF_BIN, 0);
                }
                map[y * CELLS + x] += 1;
            }
            _ => self.outside[bin] += 1,
        }
    }
}

impl Counts<u64> {
    /// Counts what threads have counted too.
    pub fn merge(&mut self, shares: &[&Counts<u32>]) {
        self.maps.par_iter_mut().enumerate().for_each(|(bin, map)| {
            for share in shares.iter().map(|s| &s.maps[bin]).filter(|s| !s.is_empty()) {
                map.resize(CELLS_OF_BIN, 0);
                map.iter_mut().zip(share).for_each(|(a, n)| *a += u64::from(*n));
            }
        });
        for share in shares {
            self.outside.iter_mut().zip(&share.outside).for_each(|(a, n)| *a += n);
            self.without += share.without;
        }
    }

    /// The clusters of all energies.
    pub fn all(&self) -> Distribution {
        Distribution { window: None, ..self.of(0, BINS) }
    }

    /// The clusters with energies from about `low` to about `high`, in whole bins.
    pub fn within(&self, low: f64, high: f64) -> Distribution {
        // The edges nearest in logarithms; at least a bin.
        let nearest = |energy: f64| {
            let bin = bin_of(energy.max(f64::from(LOWEST))).clamp(1, BINS - 1);
            let up = bin < BINS - 1 && energy * energy > edge(bin) * edge(bin + 1);
            bin + usize::from(up)
        };
        let from = nearest(low).min(BINS - 2);
        let to = nearest(high).max(from + 1);
        self.of(from, to)
    }

    fn of(&self, from: usize, to: usize) -> Distribution {
        let mut cells = vec![0; CELLS_OF_BIN];
        for map in &self.maps[from..to] {
            cells.iter_mut().zip(map).for_each(|(a, n)| *a += n);
        }
        Distribution {
            window: (from > 0).then(|| (edge(from), edge(to))),
            cells,
            outside: self.outside[from..to].iter().sum(),
        }
    }

    /// Clusters counted.
    #[cfg(test)]
    pub fn total(&self) -> u64 {
        self.maps.iter().flatten().chain(&self.outside).sum::<u64>() + self.without
    }

    /// Clusters with an eta outside 0 to 1, or without one.
    #[cfg(test)]
    pub fn outside(&self) -> u64 {
        self.outside.iter().sum::<u64>() + self.without
    }
}

impl Distribution {
    /// Clusters in the cells.
    pub fn inside(&self) -> u64 {
        self.cells.iter().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use scheidegg::Corner;

    fn eta(sum: f64, x: f64, y: f64) -> Option<Eta> {
        Some(Eta { x, y, sum, corner: Corner::TopLeft })
    }

    #[test]
    fn bins_follow_each_other_without_gaps() {
        for bin in 1..BINS - 1 {
            assert_eq!(bin_of(edge(bin)), bin);
            let last = f64::from((edge(bin + 1) as f32).next_down());
            assert_eq!(bin_of(last), bin);
            let width = edge(bin + 1) / edge(bin);
            assert!((1.03..1.07).contains(&width), "{width}");
        }
        assert_eq!((edge(1), edge(BINS - 1)), (16.0, 65_536.0));
        for (energy, bin) in
            [(1e-300, 0), (15.99, 0), (65_536.0, BINS - 1), (1e300, BINS - 1), (f64::INFINITY, BINS - 1)]
        {
            assert_eq!(bin_of(energy), bin, "{energy}");
        }
    }

    #[test]
    fn a_window_takes_the_bins_that_lie_in_it() {
        let mut share = Counts::<u32>::default();
        let energies: Vec<f64> = (1..3000).map(f64::from).collect();
        energies.iter().for_each(|e| share.add(eta(*e, 0.25, 1.0)));
        for odd in [eta(1000.0, 1.5, 0.5), eta(1000.0, 0.5, -0.1), eta(1000.0, f64::NAN, 0.5), None] {
            share.add(odd);
        }
        let mut counts = Counts::<u64>::default();
        counts.merge(&[&share, &Counts::default()]);
        counts.merge(&[&share]);
        assert_eq!(counts.total(), 2 * (energies.len() as u64 + 4));
        let all = counts.all();
        assert_eq!((all.window, all.inside(), all.outside), (None, 2 * energies.len() as u64, 6));
        assert_eq!(all.cells[(CELLS - 1) * CELLS + 25], all.inside());
        for (low, high) in
            [(850.0, 1150.0), (300.0, 340.0), (17.0, 18.0), (999.0, 999.5), (0.0, 20.0), (-5.0, 1e9)]
        {
            let some = counts.within(low, high);
            let (from, to) = some.window.unwrap();
            let inside = energies.iter().filter(|e| (from..to).contains(*e)).count() as u64;
            assert_eq!(some.inside(), 2 * inside, "{low} to {high}");
            assert!(from < to && (low < 16.0 || (from / low).ln().abs() < 0.04), "{low}: {from}");
            assert!(to > high || high > 65_536.0 || (to / high).ln().abs() < 0.04, "{high}: {to}");
        }
    }
}
