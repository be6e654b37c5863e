//! Frames of a charge-integrating detector: pedestal, noise, photons whose charge is shared between pixels.

use rayon::prelude::*;
use scheidegg::Shape;

/// What the frames look like.
#[derive(Clone, Copy, Debug)]
pub struct Scene {
    /// Rows and columns.
    pub shape: Shape,
    /// Photons a pixel and frame.
    pub rate: f64,
    /// Charge of a photon in ADU.
    pub charge_adu: f64,
    /// Electronic noise in ADU.
    pub noise_adu: f64,
    /// Seed of everything random.
    pub seed: u64,
}

impl Scene {
    /// About 2,200 clusters of 3x3 and 1,400 of 9x9 in a frame of 400 x 400, at 5 sigma.
    pub fn bright(shape: Shape, seed: u64) -> Scene {
        Scene { shape, rate: 0.0139, charge_adu: 900.0, noise_adu: 20.0, seed }
    }

    /// `count` dark frames.
    pub fn darks(&self, count: usize) -> Vec<u16> {
        Scene { rate: 0.0, seed: self.seed ^ 0x6461_726b, ..*self }.frames(count)
    }

    /// `count` frames.
    pub fn frames(&self, count: usize) -> Vec<u16> {
        let pixels = self.shape.pixels();
        let mut all = vec![0u16; count * pixels];
        all.par_chunks_mut(pixels).enumerate().for_each(|(k, frame)| self.fill(k as u64, frame));
        all
    }

    /// The pedestal of a pixel, in ADU.
    fn mean(i: usize) -> f32 {
        2000.0 + (mix(i as u64) % 4096) as f32 / 4.0
    }

    fn fill(&self, k: u64, frame: &mut [u16]) {
        let (rows, cols) = (self.shape.rows as i64, self.shape.cols as i64);
        let mut state = mix(self.seed) ^ mix(k.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let mut charge = vec![0f32; frame.len()];
        let photons = poisson(self.rate * frame.len() as f64, &mut state);
        for _ in 0..photons {
            let (y, x) = (unit(&mut state) * rows as f64, unit(&mut state) * cols as f64);
            let (r, c) = (y as i64, x as i64);
            // The cloud reaches a quarter of a pixel: it is shared with the nearest neighbours only.
            let share = |at: f64| {
                let f = at.fract();
                if f < 0.25 {
                    (-1, 0.5 - 2.0 * f)
                } else if f > 0.75 {
                    (1, 2.0 * f - 1.5)
                } else {
                    (0, 0.0)
                }
            };
            let ((dr, sr), (dc, sc)) = (share(y), share(x));
            for (ar, wr) in [(0, 1.0 - sr), (dr, sr)] {
                for (ac, wc) in [(0, 1.0 - sc), (dc, sc)] {
                    let (rr, cc) = (r + ar, c + ac);
                    if (0..rows).contains(&rr) && (0..cols).contains(&cc) {
                        charge[(rr * cols + cc) as usize] += (self.charge_adu * wr * wc) as f32;
                    }
                }
            }
        }
        for (i, (pixel, q)) in frame.iter_mut().zip(&charge).enumerate() {
            let value = Self::mean(i) + self.noise_adu as f32 * normal(&mut state) + q;
            *pixel = value.round().clamp(0.0, 16383.0) as u16;
        }
    }
}

/// Splitmix64.
fn mix(v: u64) -> u64 {
    let z = v.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

fn bits(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mix(*state)
}

fn unit(state: &mut u64) -> f64 {
    (bits(state) >> 11) as f64 / (1u64 << 53) as f64
}

/// Nearly normal: the sum of four 16-bit numbers, mean 0 and standard deviation 1.
fn normal(state: &mut u64) -> f32 {
    let b = bits(state);
    let sum = (b & 0xffff) + (b >> 16 & 0xffff) + (b >> 32 & 0xffff) + (b >> 48);
    (sum as f32 - 131_070.0) * (1.0 / 37_837.0)
}

/// A Poisson number by its normal limit for large means, by counting for small ones.
fn poisson(mean: f64, state: &mut u64) -> u64 {
    if mean > 50.0 {
        let v = mean + mean.sqrt() * f64::from(normal(state));
        return v.round().max(0.0) as u64;
    }
    let (limit, mut product, mut n) = ((-mean).exp(), unit(state), 0);
    while product > limit {
        product *= unit(state);
        n += 1;
    }
    n
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_frames_and_another_gives_others() {
        let shape = Shape::new(50, 40).unwrap();
        let a = Scene::bright(shape, 1).frames(3);
        assert_eq!(a, Scene::bright(shape, 1).frames(3));
        assert_ne!(a, Scene::bright(shape, 2).frames(3));
        assert_ne!(a[..2000], a[2000..4000]);
    }

    #[test]
    fn darks_have_the_noise_that_was_asked_for() {
        let shape = Shape::new(20, 20).unwrap();
        let darks = Scene::bright(shape, 1).darks(500);
        let noise = |i: usize| {
            let v: Vec<f64> = darks.iter().skip(i).step_by(400).map(|x| f64::from(*x)).collect();
            let mean = v.iter().sum::<f64>() / v.len() as f64;
            (v.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / v.len() as f64).sqrt()
        };
        let mean = (0..400).map(noise).sum::<f64>() / 400.0;
        assert!((mean - 20.0).abs() < 0.5, "{mean}");
    }
}
