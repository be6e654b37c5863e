//! From photons to pixels.

use scheidegg_finder::{PixelMask, Result, Shape};

use super::params::Simulation;
use super::rng::{Cumulative, Normal, Poisson, Purpose, REACH, Stream, fraction};

/// Mean energy that makes an electron-hole pair in silicon, in keV.
const PAIR_KEV: f64 = 3.62e-3;

/// A simulated photon.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Photon {
    /// Where it hits along a row, in pixels: column `c` covers `c` to `c + 1`.
    pub x: f64,
    /// Where it hits along a column, in pixels: row `r` covers `r` to `r + 1`.
    pub y: f64,
    /// Its energy in keV, that of its line.
    pub energy_kev: f64,
    /// The energy that its charge stands for, in keV: with Fano noise.
    pub charge_kev: f64,
}

impl Photon {
    /// The pixel that it hits, `(row, col)`.
    pub fn pixel(&self) -> (usize, usize) {
        (self.y as usize, self.x as usize)
    }
}

/// Which frames: dark ones or those with photons.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// No photons, no drift.
    Dark,
    /// Photons and drift.
    Data,
}

/// A simulated detector: a [`Simulation`] with its fixed pattern drawn. Shared between sources and the truth.
pub struct Simulator {
    simulation: Simulation,
    shape: Shape,
    pedestal: Vec<f32>,
    noise: Vec<f32>,
    /// Gain of every pixel relative to the electronics' gain.
    gain: Vec<f32>,
    hot: Vec<usize>,
    dead: Vec<(usize, u16)>,
    photons: Poisson,
    /// For every line the upper end of its share, from 0 to 1.
    shares: Vec<f64>,
}

impl Simulator {
    pub(super) fn new(simulation: &Simulation) -> Result<Simulator> {
        let s = simulation;
        let shape = s.validate()?;
        let normal = Normal::get();
        let pattern = |purpose, mean: f64, spread: f64| -> Vec<f32> {
            let stream = Stream::new(s.seed, purpose, 0);
            let (mean, spread) = (mean as f32, spread as f32);
            (0..shape.pixels() as u64)
                .map(|i| (mean + spread * normal.value(stream.at(i))).max(0.0))
                .collect()
        };
        let pedestal = pattern(Purpose::Pedestal, s.pedestal_adu, s.pedestal_spread_adu);
        let mut noise = pattern(Purpose::Noise, s.noise_adu, s.noise_spread_adu);
        let gain = pattern(Purpose::Gain, 1.0, s.gain_spread);

        let mut taken = PixelMask::new(shape);
        let hot = pick(&mut taken, Stream::new(s.seed, Purpose::Hot, 0), s.hot_pixels);
        let dead = pick(&mut taken, Stream::new(s.seed, Purpose::Dead, 0), s.dead_pixels);
        for &i in &hot {
            noise[i] *= s.hot_noise_factor as f32;
        }
        let stuck = |(k, i)| (i, if k % 2 == 0 { 0 } else { s.max_adu() });
        let dead = dead.into_iter().enumerate().map(stuck).collect();

        let total: f64 = s.lines.iter().map(|l| l.weight).sum();
        let mut below = 0.0;
        let shares = s.lines.iter().map(|l| {
            below += l.weight;
            below / total
        });
        Ok(Simulator {
            shape,
            pedestal,
            noise,
            gain,
            hot,
            dead,
            photons: Poisson::new(s.photons_per_frame),
            shares: shares.collect(),
            simulation: simulation.clone(),
        })
    }

    /// What is simulated.
    pub fn simulation(&self) -> &Simulation {
        &self.simulation
    }

    /// Rows and columns of a frame.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// The hot pixels, `(row, col)`.
    pub fn hot_pixels(&self) -> Vec<(usize, usize)> {
        self.hot.iter().map(|i| (i / self.shape.cols, i % self.shape.cols)).collect()
    }

    /// The dead pixels and the value they are stuck at, `(row, col, value)`.
    pub fn dead_pixels(&self) -> Vec<(usize, usize, u16)> {
        self.dead.iter().map(|(i, v)| (i / self.shape.cols, i % self.shape.cols, *v)).collect()
    }

    /// The photons of a data frame.
    pub fn photons(&self, index: u64) -> Vec<Photon> {
        let s = &self.simulation;
        let normal = Normal::get();
        let stream = Stream::new(s.seed, Purpose::Photons, index);
        let unit = 1.0 / (1u64 << 32) as f64;
        let one = |k: u64| {
            let place = stream.at(1 + 3 * k);
            let draw = fraction(stream.at(2 + 3 * k));
            let line = self.shares.partition_point(|share| *share <= draw).min(s.lines.len() - 1);
            let energy_kev = s.lines[line].energy_kev;
            let spread = (s.fano * PAIR_KEV * energy_kev).sqrt();
            let charge_kev = energy_kev + spread * f64::from(normal.value(stream.at(3 + 3 * k)));
            Photon {
                // 32 bits each: the product is exact and stays below the side.
                x: (place >> 32) as f64 * (self.shape.cols as f64 * unit),
                y: (place & 0xffff_ffff) as f64 * (self.shape.rows as f64 * unit),
                energy_kev,
                charge_kev: charge_kev.max(0.0),
            }
        };
        (0..self.photons.count(stream.at(0))).map(one).collect()
    }

    /// Writes the pixels of a dark frame and returns those that its lost packets lack.
    ///
    /// # Panics
    /// When `pixels` is not one value a pixel.
    pub fn dark(&self, index: u64, pixels: &mut [u16]) -> Option<PixelMask> {
        self.render(Kind::Dark, index, pixels, &mut Vec::new())
    }

    /// Writes the pixels of a data frame and returns those that its lost packets lack.
    ///
    /// # Panics
    /// When `pixels` is not one value a pixel.
    pub fn frame(&self, index: u64, pixels: &mut [u16]) -> Option<PixelMask> {
        self.render(Kind::Data, index, pixels, &mut Vec::new())
    }

    /// The packets that a frame loses, as ranges of rows.
    pub(super) fn lost_rows(&self, kind: Kind, index: u64) -> Vec<std::ops::Range<usize>> {
        let s = &self.simulation;
        if s.packet_loss <= 0.0 {
            return Vec::new();
        }
        let purpose = match kind {
            Kind::Dark => Purpose::DarkPackets,
            Kind::Data => Purpose::DataPackets,
        };
        let stream = Stream::new(s.seed, purpose, index);
        let starts = (0..s.rows).step_by(s.rows_per_packet).enumerate();
        starts
            .filter(|(packet, _)| fraction(stream.at(*packet as u64)) < s.packet_loss)
            .map(|(_, first)| first..(first + s.rows_per_packet).min(s.rows))
            .collect()
    }

    /// The pixels that a data frame lacks because their packets were lost.
    pub fn lost_pixels(&self, index: u64) -> Option<PixelMask> {
        self.mask_of(&self.lost_rows(Kind::Data, index))
    }

    fn mask_of(&self, rows: &[std::ops::Range<usize>]) -> Option<PixelMask> {
        if rows.is_empty() {
            return None;
        }
        let mut mask = PixelMask::new(self.shape);
        let cols = self.shape.cols;
        rows.iter().flat_map(|r| r.start * cols..r.end * cols).for_each(|i| mask.insert_index(i));
        Some(mask)
    }

    /// A frame; `charge` is scratch memory that is used again.
    pub(super) fn render(
        &self,
        kind: Kind,
        index: u64,
        pixels: &mut [u16],
        charge: &mut Vec<f32>,
    ) -> Option<PixelMask> {
        let n = self.shape.pixels();
        assert_eq!(pixels.len(), n, "pixels of a frame of {}", self.shape);
        let s = &self.simulation;
        let normal = Normal::get();
        let (purpose, common, drift) = match kind {
            Kind::Dark => (Purpose::DarkFrame, Purpose::DarkCommon, 0.0),
            Kind::Data => (Purpose::DataFrame, Purpose::DataCommon, s.drift_adu_per_1000_frames),
        };
        let common = f64::from(normal.value(Stream::new(s.seed, common, index).at(0))) * s.common_mode_adu;
        let shift = (common + drift * (index as f64 / 1000.0)) as f32;

        charge.clear();
        charge.resize(n, 0.0);
        if kind == Kind::Data {
            for photon in self.photons(index) {
                self.deposit(&photon, charge);
            }
        }

        let stream = Stream::new(s.seed, purpose, index);
        let max = s.max_adu();
        let planes = self.pedestal.iter().zip(&self.noise).zip(charge.iter());
        for (i, (pixel, ((&pedestal, &noise), &charge))) in pixels.iter_mut().zip(planes).enumerate() {
            let value = pedestal + shift + noise * normal.value(stream.at(i as u64)) + charge;
            // The conversion cuts below 0; half an ADU more makes it round.
            *pixel = ((value + 0.5) as u16).min(max);
        }
        for &(i, value) in &self.dead {
            pixels[i] = value;
        }
        let lost = self.lost_rows(kind, index);
        for rows in &lost {
            pixels[rows.start * s.cols..rows.end * s.cols].fill(0xffff);
        }
        self.mask_of(&lost)
    }

    /// Standard deviation of the charge of a photon in ADU, summed over `pixels` pixels that hold it whole: the pixels'
    /// noise, the common mode, Fano noise, and the spread of gain on charge that is shared.
    pub(crate) fn sum_width_adu(&self, energy_kev: f64, pixels: usize) -> f64 {
        let s = &self.simulation;
        let n = pixels as f64;
        let noise = n * (s.noise_adu * s.noise_adu + s.noise_spread_adu * s.noise_spread_adu);
        let common = n * n * s.common_mode_adu * s.common_mode_adu;
        let gain2 = s.gain_adu_per_kev * s.gain_adu_per_kev;
        let fano = s.fano * PAIR_KEV * energy_kev * gain2;
        // Mean over the pixel of the sum of squared shares, one axis at a time.
        let places = 256;
        let squares: f64 = (0..places)
            .flat_map(|i| Shares::new((f64::from(i) + 0.5) / f64::from(places), s.cloud_um / s.pixel_um))
            .map(|(_, share)| share * share)
            .sum();
        let axis = squares / f64::from(places);
        let spread = s.gain_spread * s.gain_spread * energy_kev * energy_kev * gain2 * axis * axis;
        (noise + common + fano + spread).sqrt()
    }

    /// Adds the charge of a photon in ADU: a Gaussian cloud integrated over every pixel within 6 sigma, to which what
    /// little lies beyond is counted.
    fn deposit(&self, photon: &Photon, charge: &mut [f32]) {
        let sigma = self.simulation.cloud_um / self.simulation.pixel_um;
        let adu = photon.charge_kev * self.simulation.gain_adu_per_kev;
        let across = Shares::new(photon.x, sigma);
        let Shape { rows, cols } = self.shape;
        for (row, down) in Shares::new(photon.y, sigma).inside(rows) {
            for (col, share) in across.clone().inside(cols) {
                let i = row * cols + col;
                charge[i] += (adu * down * share) as f32 * self.gain[i];
            }
        }
    }
}

impl std::fmt::Debug for Simulator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Simulator").field(&self.simulation).finish()
    }
}

/// The shares of a charge cloud along one axis, pixel by pixel. They add up to 1.
#[derive(Clone)]
struct Shares {
    centre: f64,
    inv_sigma: f64,
    pixel: i64,
    last: i64,
    below: f64,
}

impl Shares {
    fn new(centre: f64, sigma: f64) -> Shares {
        let reach = REACH as f64 * sigma;
        let (first, last) = ((centre - reach).floor() as i64, (centre + reach).floor() as i64);
        // Without a cloud there is one pixel, and no edge to divide at.
        Shares { centre, inv_sigma: sigma.recip(), pixel: first, last, below: 0.0 }
    }

    /// The shares of the pixels from 0 to below `end`.
    fn inside(self, end: usize) -> impl Iterator<Item = (usize, f64)> {
        self.filter_map(move |(pixel, share)| {
            usize::try_from(pixel).ok().filter(|p| *p < end).map(|p| (p, share))
        })
    }
}

impl Iterator for Shares {
    type Item = (i64, f64);

    fn next(&mut self) -> Option<(i64, f64)> {
        let pixel = self.pixel;
        if pixel > self.last {
            return None;
        }
        let above = if pixel == self.last {
            1.0
        } else {
            Cumulative::get().value(((pixel + 1) as f64 - self.centre) * self.inv_sigma)
        };
        let share = above - self.below;
        self.pixel += 1;
        self.below = above;
        Some((pixel, share))
    }
}

/// `count` pixels that are not taken yet; they are then.
fn pick(taken: &mut PixelMask, stream: Stream, count: usize) -> Vec<usize> {
    let pixels = taken.shape().pixels();
    let mut picked = Vec::with_capacity(count);
    let mut position = 0;
    while picked.len() < count {
        // At most 65536 x 65536 pixels: 64 random bits times them, upper half.
        let i = ((u128::from(stream.at(position)) * pixels as u128) >> 64) as usize;
        position += 1;
        // When nearly all are taken, the next free one: chance would take long.
        let i =
            (i..pixels).chain(0..i).find(|i| !taken.contains_index(*i)).expect("validated: enough pixels");
        taken.insert_index(i);
        picked.push(i);
    }
    picked
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_of_a_cloud_add_up_to_one_and_follow_the_error_function() {
        for sigma in [0.0, 0.01, 0.3, 2.0] {
            for centre in [10.0, 10.02, 10.5, 10.999] {
                let sum: f64 = Shares::new(centre, sigma).map(|(_, share)| share).sum();
                assert!((sum - 1.0).abs() < 1e-14, "sigma {sigma}, centre {centre}: {sum}");
                assert!(Shares::new(centre, sigma).all(|(_, share)| share >= 0.0));
            }
        }
        // In the middle of a pixel of 2 sigma to either side: erf(sqrt(2)).
        let (pixel, share) = Shares::new(10.5, 0.25).max_by(|a, b| a.1.total_cmp(&b.1)).unwrap();
        assert_eq!(pixel, 10);
        assert!((share - 0.954_499_736).abs() < 2e-6, "{share}");
        // On the border between two pixels: half each.
        let halves: Vec<_> = Shares::new(11.0, 0.1).collect();
        assert_eq!(halves.len(), 2);
        assert!(halves.iter().all(|(_, share)| (share - 0.5).abs() < 1e-12), "{halves:?}");
    }
}
