//! Small synthetic detectors and photons, the same for a seed on every machine.

use scheidegg::{LostPixels, PixelMask, Shape};

/// A generator of numbers: splitmix64.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// The numbers of a seed.
    pub fn new(seed: u64) -> Rng {
        Rng(seed)
    }

    /// Any `u64`.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Below `n`, which is not 0.
    pub fn below(&mut self, n: usize) -> usize {
        (self.bits() % n as u64) as usize
    }

    /// From 0 to 1.
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// True with this probability.
    pub fn chance(&mut self, p: f64) -> bool {
        self.unit() < p
    }

    /// Nearly normal, mean 0 and standard deviation 1: four uniform numbers.
    pub fn normal(&mut self) -> f64 {
        let s: f64 = (0..4).map(|_| self.unit()).sum();
        (s - 2.0) * 3f64.sqrt()
    }

    /// One of several.
    pub fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }
}

/// A detector: a mean and a noise for every pixel, in ADU.
#[derive(Clone, Debug)]
pub struct Detector {
    /// Rows and columns.
    pub shape: Shape,
    mean: Vec<f64>,
    noise: Vec<f64>,
    rng: Rng,
}

impl Detector {
    /// Mostly ordinary pixels; about one in a hundred is stuck, one in a hundred hot, and a few stand at 0 or at the
    /// end of their range.
    pub fn new(shape: Shape, seed: u64) -> Detector {
        let mut rng = Rng::new(seed);
        let (mut mean, mut noise) = (Vec::new(), Vec::new());
        for _ in 0..shape.pixels() {
            let (m, s) = match rng.below(200) {
                0 | 1 => (4000.0 + rng.below(100) as f64, 0.0),
                2 | 3 => (5000.0, 300.0),
                4 => (0.0, 2.0),
                5 => (65535.0, 2.0),
                6 => (30.0, 20.0),
                _ => (4000.0 + 1500.0 * rng.unit(), 6.0 + 20.0 * rng.unit()),
            };
            mean.push(m);
            noise.push(s);
        }
        Detector { shape, mean, noise, rng }
    }

    /// Dark frames.
    pub fn darks(&mut self, frames: usize) -> Vec<u16> {
        let mut out = Vec::with_capacity(frames * self.shape.pixels());
        for _ in 0..frames {
            for i in 0..self.shape.pixels() {
                out.push((self.mean[i] + self.noise[i] * self.rng.normal()).round() as u16);
            }
        }
        out
    }

    /// Frames with photons: `rate` a pixel, strong ones and ones near the threshold, shared over 2x2 pixels.
    pub fn photons(&mut self, frames: usize, rate: f64) -> Vec<u16> {
        let n = self.shape.pixels();
        let mut out = self.darks(frames);
        for k in 0..frames {
            let mut charge = vec![0.0; n];
            for _ in 0..(rate * n as f64).ceil() as usize {
                let (row, col) = (self.rng.below(self.shape.rows), self.rng.below(self.shape.cols));
                let adu = if self.rng.chance(0.5) { 20.0 + 180.0 * self.rng.unit() } else { 900.0 };
                let (u, v) = (self.rng.unit(), self.rng.unit());
                for (dr, dc, share) in [
                    (0, 0, u * v),
                    (0, 1, u * (1.0 - v)),
                    (1, 0, (1.0 - u) * v),
                    (1, 1, (1.0 - u) * (1.0 - v)),
                ] {
                    if row + dr < self.shape.rows && col + dc < self.shape.cols {
                        charge[(row + dr) * self.shape.cols + col + dc] += adu * share;
                    }
                }
            }
            for (pixel, c) in out[k * n..][..n].iter_mut().zip(&charge) {
                *pixel = (f64::from(*pixel) + c).round() as u16;
            }
        }
        out
    }
}

/// Pixels masked one by one with a probability, and sometimes a whole row.
pub fn mask(shape: Shape, share: f64, rng: &mut Rng) -> PixelMask {
    let mut mask = PixelMask::new(shape);
    for i in 0..shape.pixels() {
        if rng.chance(share) {
            mask.insert_index(i);
        }
    }
    if rng.chance(0.5) {
        let row = rng.below(shape.rows);
        (0..shape.cols).for_each(|col| mask.insert(row, col));
    }
    mask
}

/// Lost packets: in some frames some rows are 0xFFFF and listed as lost.
pub fn lose_rows(shape: Shape, frames: &mut [u16], share: f64, rng: &mut Rng) -> Vec<LostPixels> {
    let mut lost = Vec::new();
    for (frame, pixels) in frames.chunks_exact_mut(shape.pixels()).enumerate() {
        if !rng.chance(share) {
            continue;
        }
        let mut mask = PixelMask::new(shape);
        for row in 0..shape.rows {
            if rng.chance(0.2) {
                pixels[row * shape.cols..][..shape.cols].fill(0xFFFF);
                (0..shape.cols).for_each(|col| mask.insert(row, col));
            }
        }
        lost.push(LostPixels { frame, mask });
    }
    lost
}
