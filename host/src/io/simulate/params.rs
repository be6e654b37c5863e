//! What is simulated.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use scheidegg_finder::{Error, Result, Shape};
use serde::{Deserialize, Serialize};

use super::physics::Simulator;

/// An X-ray line: photons of one energy.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Line {
    /// Energy of a photon in keV.
    pub energy_kev: f64,
    /// Share of the photons, relative to the other lines' weights.
    pub weight: f64,
}

/// The parameters of a simulated detector and its beam.
///
/// The default is a MÖNCH in copper fluorescence: 400 x 400 pixels of 25 um, 14 bits, 2300 photons a frame, a noise of
/// 17 ADU at 124 ADU/keV (38 electrons), so that a photon of 8.05 keV is 1000 ADU.
///
/// # Determinism
/// Frames depend on these values and their index alone, see the [module](super).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Simulation {
    /// Rows of a frame.
    pub rows: usize,
    /// Columns of a frame.
    pub cols: usize,
    /// Seed of all random numbers.
    pub seed: u64,
    /// Energies of the photons.
    pub lines: Vec<Line>,
    /// Mean number of photons in a data frame; the number itself has Poisson statistics, and each photon falls
    /// anywhere on the sensor alike.
    pub photons_per_frame: f64,
    /// Side of a pixel in um.
    pub pixel_um: f64,
    /// Standard deviation of a photon's charge cloud in um: a Gaussian, integrated over the pixels. Charge beyond the
    /// edge of the sensor is lost.
    pub cloud_um: f64,
    /// Gain of the electronics in ADU/keV.
    pub gain_adu_per_kev: f64,
    /// Standard deviation of the pixels' gain, relative to the gain.
    pub gain_spread: f64,
    /// Fano factor: a photon of energy E gives a charge with a variance of F * 3.62 eV * E. 0 for none.
    pub fano: f64,
    /// Mean pedestal of the pixels in ADU.
    pub pedestal_adu: f64,
    /// Standard deviation of the pixels' pedestals in ADU (fixed pattern).
    pub pedestal_spread_adu: f64,
    /// Mean electronic noise of the pixels in ADU.
    pub noise_adu: f64,
    /// Standard deviation of the pixels' noise in ADU (fixed pattern).
    pub noise_spread_adu: f64,
    /// Standard deviation of the common mode in ADU: the shift of a whole frame, dark or not.
    pub common_mode_adu: f64,
    /// Drift of the pedestals in ADU per 1000 data frames, the same for all pixels, from 0 at the first data frame.
    /// Dark frames do not drift.
    pub drift_adu_per_1000_frames: f64,
    /// Number of hot pixels, anywhere on the sensor.
    pub hot_pixels: usize,
    /// How many times noisier a hot pixel is.
    pub hot_noise_factor: f64,
    /// Number of dead pixels, anywhere on the sensor: stuck at 0 and at the largest value in turn.
    pub dead_pixels: usize,
    /// Probability that a packet of a frame is lost; its pixels are then 0xFFFF and marked as lost.
    pub packet_loss: f64,
    /// Rows in a packet (the last packet of a frame may have fewer).
    pub rows_per_packet: usize,
    /// Bits of a pixel, 14 or 16: values are cut at `2^bits - 1`.
    pub bits: u32,
}

impl Default for Simulation {
    fn default() -> Self {
        Simulation {
            rows: 400,
            cols: 400,
            seed: 1,
            // K alpha and K beta of copper, whose intensities are as 1 to 0.137.
            lines: vec![Line { energy_kev: 8.048, weight: 0.88 }, Line { energy_kev: 8.905, weight: 0.12 }],
            photons_per_frame: 2300.0,
            pixel_um: 25.0,
            cloud_um: 7.5,
            gain_adu_per_kev: 124.0,
            gain_spread: 0.01,
            fano: 0.115,
            pedestal_adu: 4655.0,
            pedestal_spread_adu: 300.0,
            noise_adu: 17.0,
            noise_spread_adu: 2.0,
            common_mode_adu: 1.0,
            drift_adu_per_1000_frames: 0.5,
            hot_pixels: 16,
            hot_noise_factor: 10.0,
            dead_pixels: 16,
            packet_loss: 1e-5,
            rows_per_packet: 8,
            bits: 14,
        }
    }
}

impl Simulation {
    /// The most pixels of a simulated frame: 16 bytes of memory each, and a few more for every thread.
    pub const MAX_PIXELS: usize = 1 << 27;

    /// A detector without faults: no hot or dead pixels, no lost packets, no common mode, no drift.
    pub fn without_faults(self) -> Self {
        Simulation {
            common_mode_adu: 0.0,
            drift_adu_per_1000_frames: 0.0,
            hot_pixels: 0,
            dead_pixels: 0,
            packet_loss: 0.0,
            ..self
        }
    }

    /// The largest value of a pixel.
    pub fn max_adu(&self) -> u16 {
        if self.bits >= 16 { u16::MAX } else { (1 << self.bits) - 1 }
    }

    /// The line with the largest weight, the first of equal ones.
    ///
    /// # Panics
    /// When there is no line, which [`Simulation::validate`] refuses.
    pub fn main_line(&self) -> Line {
        let first = self.lines[0];
        self.lines.iter().fold(first, |best, l| if l.weight > best.weight { *l } else { best })
    }

    /// Checks every value against its range and returns the shape of a frame.
    ///
    /// # Errors
    /// [`Error::Param`] for the first that does not fit.
    pub fn validate(&self) -> Result<Shape> {
        let shape = Shape::new(self.rows, self.cols)?;
        if shape.pixels() > Self::MAX_PIXELS {
            return Err(Error::param("frame shape", shape, format!("at most {} pixels", Self::MAX_PIXELS)));
        }
        let range = |name: &str, value: f64, low: f64, high: f64, unit: &str| {
            if (low..=high).contains(&value) {
                Ok(())
            } else {
                Err(Error::param(name, value, format!("{low} to {high}{unit}")))
            }
        };
        if self.lines.is_empty() || self.lines.len() > 1000 {
            return Err(Error::param("lines", format!("{} lines", self.lines.len()), "1 to 1000 energies"));
        }
        for line in &self.lines {
            range("energy_kev", line.energy_kev, 1e-3, 1e4, " keV")?;
            range("weight", line.weight, 0.0, 1e9, "")?;
        }
        if self.lines.iter().map(|l| l.weight).sum::<f64>() <= 0.0 {
            return Err(Error::param("weight", "0 for every line", "one above 0"));
        }
        range("photons_per_frame", self.photons_per_frame, 0.0, 1e7, "")?;
        range("pixel_um", self.pixel_um, 0.1, 1e5, " um")?;
        // A cloud of more than 100 pixels is a mistake in its unit.
        range("cloud_um", self.cloud_um, 0.0, 100.0 * self.pixel_um, " um")?;
        range("gain_adu_per_kev", self.gain_adu_per_kev, 0.0, 1e6, " ADU/keV")?;
        range("gain_spread", self.gain_spread, 0.0, 1.0, "")?;
        range("fano", self.fano, 0.0, 10.0, "")?;
        range("pedestal_adu", self.pedestal_adu, 0.0, 65535.0, " ADU")?;
        range("pedestal_spread_adu", self.pedestal_spread_adu, 0.0, 65535.0, " ADU")?;
        range("noise_adu", self.noise_adu, 0.0, 65535.0, " ADU")?;
        range("noise_spread_adu", self.noise_spread_adu, 0.0, 65535.0, " ADU")?;
        range("common_mode_adu", self.common_mode_adu, 0.0, 65535.0, " ADU")?;
        range("drift_adu_per_1000_frames", self.drift_adu_per_1000_frames, -65535.0, 65535.0, " ADU")?;
        range("hot_noise_factor", self.hot_noise_factor, 0.0, 1e4, "")?;
        range("packet_loss", self.packet_loss, 0.0, 1.0, "")?;
        if self.rows_per_packet == 0 {
            return Err(Error::param("rows_per_packet", 0, "at least 1 row"));
        }
        let faulty = self.hot_pixels.saturating_add(self.dead_pixels);
        if faulty > shape.pixels() {
            let what = format!("{} and {}", self.hot_pixels, self.dead_pixels);
            let most = format!("together at most the {} pixels of a frame", shape.pixels());
            return Err(Error::param("hot_pixels and dead_pixels", what, most));
        }
        if self.bits != 14 && self.bits != 16 {
            return Err(Error::param("bits", self.bits, "14 or 16"));
        }
        Ok(shape)
    }

    /// Reads the parameters from a JSON file, such as the `simulation.json` beside simulated frames. Parameters that
    /// are not in it have their defaults.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::File`] for text that is no such JSON, or what [`Simulation::validate`] says.
    pub fn load(path: &Path) -> Result<Simulation> {
        let text = fs::read_to_string(path).map_err(|e| Error::io(path, e))?;
        let simulation: Simulation = serde_json::from_str(&text)
            .map_err(|e| Error::file(path, format!("no parameters of a simulation: {e}")))?;
        simulation.validate().map_err(|e| Error::file(path, e.to_string()))?;
        Ok(simulation)
    }

    /// The detector, with its fixed pattern drawn.
    ///
    /// # Errors
    /// What [`Simulation::validate`] says.
    pub fn build(&self) -> Result<Arc<Simulator>> {
        Ok(Arc::new(Simulator::new(self)?))
    }
}
