//! What the comparison came to.

use std::fmt;

use scheidegg_finder::ClusterSize;
use serde::{Deserialize, Serialize};

use super::spectrum::Spectrum;
use crate::io::simulate::Simulator;

/// Counts so far.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Tally {
    pub frames: u64,
    pub photons: u64,
    pub found: u64,
    pub clean: u64,
    pub clean_found: u64,
    pub clusters: u64,
    pub matched: u64,
    pub extra: u64,
    pub false_clusters: u64,
    pub photons_a_cluster: [u64; 5],
    pub pixels_a_photon: [u64; 6],
    pub full: Spectrum,
    pub square: Spectrum,
}

impl Tally {
    pub fn new(main_adu: f64) -> Tally {
        Tally { full: Spectrum::new(main_adu), square: Spectrum::new(main_adu), ..Tally::default() }
    }

    pub fn merge(mut self, other: Tally) -> Tally {
        self.frames += other.frames;
        self.photons += other.photons;
        self.found += other.found;
        self.clean += other.clean;
        self.clean_found += other.clean_found;
        self.clusters += other.clusters;
        self.matched += other.matched;
        self.extra += other.extra;
        self.false_clusters += other.false_clusters;
        self.photons_a_cluster.iter_mut().zip(other.photons_a_cluster).for_each(|(a, b)| *a += b);
        self.pixels_a_photon.iter_mut().zip(other.pixels_a_photon).for_each(|(a, b)| *a += b);
        self.full = self.full.merge(other.full);
        self.square = self.square.merge(other.square);
        self
    }
}

/// The peak of the main line: the Gaussian core of the charges of the clusters of its clean photons.
///
/// Core means mean and standard deviation of what lies within two standard deviations of the mean, taken anew until they
/// stay, the deviation corrected for what a Gaussian has outside.
///
/// Where the pedestals drift, a tracked pedestal is behind by what they drift in its window of dark frames, and the sum of
/// a window of pixels is off by that times its pixels.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Peak {
    /// Clusters in the spectrum.
    pub clusters: u64,
    /// Position in ADU.
    pub position_adu: f64,
    /// Standard deviation in ADU.
    pub width_adu: f64,
    /// Where a photon's whole charge would lie, in ADU.
    pub expected_position_adu: f64,
    /// Standard deviation in ADU from the noise of the summed pixels, common mode, Fano noise and spread of gain.
    pub expected_width_adu: f64,
    /// Position in keV, at the gain of the electronics.
    pub position_kev: f64,
    /// Standard deviation in keV.
    pub width_kev: f64,
}

/// What came of comparing clusters with simulated photons. The words are defined in the [module](super).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TruthSummary {
    /// Frames compared.
    pub frames: u64,
    /// Photons that hit the sensor.
    pub photons: u64,
    /// Those with a cluster.
    pub found: u64,
    /// Found photons of all; nothing without photons.
    pub efficiency: Option<f64>,
    /// Clean photons.
    pub clean_photons: u64,
    /// Those with a cluster.
    pub clean_found: u64,
    /// Found clean photons of all clean ones; nothing without clean photons.
    pub clean_efficiency: Option<f64>,
    /// Clusters compared.
    pub clusters: u64,
    /// Those with a photon of their own.
    pub matched: u64,
    /// Those without, but with a photon in their window.
    pub extra: u64,
    /// Those that no photon explains.
    pub false_clusters: u64,
    /// Clusters with 0, 1, 2, 3 and 4 or more photons in their window.
    pub photons_a_cluster: [u64; 5],
    /// Found clean photons with 0, 1, 2, 3, 4 and 5 or more pixels above five times the noise.
    pub pixels_a_photon: [u64; 6],
    /// Energy of the main line in keV.
    pub line_kev: f64,
    /// The main line in the charge of the whole window; nothing with fewer than 10 clusters.
    pub peak: Option<Peak>,
    /// The main line in the charge of the largest 2x2. A 2x2 does not hold all charge, and the largest of four is
    /// chosen for its noise too: position and width differ from the expected ones by some percent.
    pub peak_2x2: Option<Peak>,
}

impl TruthSummary {
    pub(super) fn new(tally: &Tally, simulator: &Simulator, size: ClusterSize) -> TruthSummary {
        let t = tally;
        let s = simulator.simulation();
        let line_kev = s.main_line().energy_kev;
        let share = |part: u64, all: u64| (all > 0).then(|| part as f64 / all as f64);
        let peak = |spectrum: &Spectrum, pixels: usize| {
            let (position_adu, width_adu) = spectrum.core()?;
            let gain = s.gain_adu_per_kev;
            Some(Peak {
                clusters: spectrum.entries(),
                position_adu,
                width_adu,
                expected_position_adu: line_kev * gain,
                expected_width_adu: simulator.sum_width_adu(line_kev, pixels),
                position_kev: position_adu / gain,
                width_kev: width_adu / gain,
            })
        };
        TruthSummary {
            frames: t.frames,
            photons: t.photons,
            found: t.found,
            efficiency: share(t.found, t.photons),
            clean_photons: t.clean,
            clean_found: t.clean_found,
            clean_efficiency: share(t.clean_found, t.clean),
            clusters: t.clusters,
            matched: t.matched,
            extra: t.extra,
            false_clusters: t.false_clusters,
            photons_a_cluster: t.photons_a_cluster,
            pixels_a_photon: t.pixels_a_photon,
            line_kev,
            peak: peak(&t.full, size.pixels()),
            peak_2x2: peak(&t.square, 4),
        }
    }
}

impl fmt::Display for TruthSummary {
    /// A table of a few lines, without a line end after the last.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = |e: Option<f64>| e.map_or("-".to_string(), |e| format!("{:.3} %", 100.0 * e));
        let a_frame = |n: u64| if self.frames == 0 { 0.0 } else { n as f64 / self.frames as f64 };
        let row = |f: &mut fmt::Formatter<'_>, what: &str, n: u64, found: u64, e: Option<f64>| {
            writeln!(f, "  {what:<16}{n:>12}  found {found:>12}  {:>10}", percent(e))
        };
        writeln!(f, "Simulated truth, {} frames", self.frames)?;
        row(f, "photons", self.photons, self.found, self.efficiency)?;
        row(f, "clean photons", self.clean_photons, self.clean_found, self.clean_efficiency)?;
        writeln!(
            f,
            "  {:<16}{:>12}  matched {}, extra {}, false {} ({:.3} a frame)",
            "clusters",
            self.clusters,
            self.matched,
            self.extra,
            self.false_clusters,
            a_frame(self.false_clusters)
        )?;
        let p = &self.photons_a_cluster;
        writeln!(
            f,
            "  photons a cluster: none {}, one {}, two {}, three {}, more {}",
            p[0], p[1], p[2], p[3], p[4]
        )?;
        let p = &self.pixels_a_photon;
        write!(
            f,
            "  pixels a photon above 5 sigma: none {}, one {}, two {}, three {}, four {}, more {}",
            p[0], p[1], p[2], p[3], p[4], p[5]
        )?;
        for (what, peak) in [("window", &self.peak), ("2x2", &self.peak_2x2)] {
            if let Some(p) = peak {
                write!(
                    f,
                    "\n  {:.3} keV in the {what}: {:.1} ADU ({:.3} keV), expected {:.1}; width {:.1} ADU \
                     ({:.3} keV), expected {:.1}",
                    self.line_kev,
                    p.position_adu,
                    p.position_kev,
                    p.expected_position_adu,
                    p.width_adu,
                    p.width_kev,
                    p.expected_width_adu
                )?;
            }
        }
        Ok(())
    }
}
