//! Random numbers that are a function of (seed, purpose, index, position): any of them can be drawn on its own.

use std::sync::LazyLock;

use super::numerics::{cumulative, upper_quantile};

/// The golden ratio in 64 bits, the step of SplitMix64's Weyl sequence.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// What random numbers are for. Purposes are independent of each other: a run with more hot pixels has the same
/// photons.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum Purpose {
    /// Pedestal of every pixel.
    Pedestal = 1,
    /// Noise of every pixel.
    Noise = 2,
    /// Gain of every pixel.
    Gain = 3,
    /// Which pixels are hot.
    Hot = 4,
    /// Which pixels are dead.
    Dead = 5,
    /// Electronic noise of a dark frame.
    DarkFrame = 6,
    /// Electronic noise of a data frame.
    DataFrame = 7,
    /// Common mode of a dark frame.
    DarkCommon = 8,
    /// Common mode of a data frame.
    DataCommon = 9,
    /// Photons of a frame.
    Photons = 10,
    /// Packets that a dark frame loses.
    DarkPackets = 11,
    /// Packets that a data frame loses.
    DataPackets = 12,
}

/// A stream of 64-bit numbers that can be read at any position.
///
/// # Source
/// A Weyl sequence through the finaliser of SplitMix64 (Steele, Lea, Flood 2014; constants of Stafford's mix 13),
/// keyed twice: where the sequence starts, and between the two rounds of the finaliser. Two streams that meet in the
/// sequence still give different numbers.
#[derive(Clone, Copy, Debug)]
pub struct Stream {
    start: u64,
    key: u64,
}

#[inline(always)]
const fn finalise(z: u64, key: u64) -> u64 {
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9) ^ key;
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

impl Stream {
    /// The stream of a seed, purpose and index (of a frame).
    pub const fn new(seed: u64, purpose: Purpose, index: u64) -> Stream {
        let h = finalise(seed.wrapping_add(STEP), 0);
        let h = finalise(h.wrapping_add((purpose as u64).wrapping_mul(STEP)), 0);
        // One to one in the index: two frames never share a stream.
        let h = finalise(h.wrapping_add(index.wrapping_mul(STEP)), 0);
        Stream { start: finalise(h.wrapping_add(STEP), 0), key: finalise(h.wrapping_add(STEP << 1), 0) }
    }

    /// The number at a position.
    #[inline(always)]
    pub const fn at(&self, position: u64) -> u64 {
        finalise(self.start.wrapping_add(position.wrapping_mul(STEP)), self.key)
    }
}

/// A fraction from 0 to below 1 in steps of 2^-53.
#[inline]
pub fn fraction(bits: u64) -> f64 {
    (bits >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
}

/// Segments of one octave of the tail probability.
const SEGMENTS: usize = 64;

/// Standard normal values by inversion.
///
/// The lowest of 64 random bits is the sign, the others are a tail probability. It is split like a floating point
/// number: the leading zeros give the octave, six bits below the leading one the segment in it, and 24 more the place
/// between the segment's ends, where the quantile is interpolated linearly.
///
/// # Tails
/// One 64-bit number a value reaches 9.08 sigma, and the probability to lie beyond any threshold up to there is
/// right to better than 1e-4 of itself (the test at 3 to 7 sigma is arithmetic, not statistics). A generator of sums of
/// uniform values or with a 32-bit probability would end between 5 and 6 sigma, where the finder's threshold lies.
pub struct Normal {
    /// Value at a segment's lower probability, and how it changes to the upper one.
    table: Box<[[f32; 2]; 64 * SEGMENTS]>,
}

impl Normal {
    /// The one table, made at first use.
    pub fn get() -> &'static Normal {
        static NORMAL: LazyLock<Normal> = LazyLock::new(Normal::new);
        &NORMAL
    }

    fn new() -> Normal {
        let mut table = Box::new([[0.0f32; 2]; 64 * SEGMENTS]);
        let mut upper = 0.0;
        for octave in 0..64usize {
            // Two-sided probabilities from 2^-(octave+1) to 2^-octave.
            let low = f64::from_bits((1022 - octave as u64) << 52);
            for segment in (0..SEGMENTS).rev() {
                let p = low * (1.0 + segment as f64 / SEGMENTS as f64);
                let z = upper_quantile(0.5 * p, upper);
                table[octave * SEGMENTS + segment] = [z as f32, (upper - z) as f32];
                upper = z;
            }
        }
        Normal { table }
    }

    /// The value of 64 random bits.
    #[inline(always)]
    pub fn value(&self, bits: u64) -> f32 {
        let guarded = bits | 1;
        let octave = guarded.leading_zeros();
        let mantissa = guarded << octave;
        let segment = (mantissa >> 57) as usize & (SEGMENTS - 1);
        let place = ((mantissa >> 33) & 0xff_ffff) as i32 as f32 * (1.0 / 16_777_216.0);
        let [low, change] = self.table[(octave as usize & 63) * SEGMENTS + segment];
        let z = low + place * change;
        // The lowest random bit is the sign.
        f32::from_bits(z.to_bits() ^ ((bits as u32) << 31))
    }
}

/// Counts with Poisson statistics, by inversion of the tabulated distribution.
#[derive(Clone, Debug)]
pub struct Poisson {
    first: u64,
    /// Probability of at most `first + i`, in units of 2^-64.
    cumulative: Vec<u64>,
}

impl Poisson {
    /// The distribution of a mean from 0 on.
    pub fn new(mean: f64) -> Poisson {
        let reach = 12.0 * mean.sqrt() + 40.0;
        let (mode, first, last) = (mean as u64, (mean - reach).max(0.0) as u64, (mean + reach) as u64);
        // Weights relative to the most likely count: nothing underflows that matters.
        let mut weights = vec![0.0f64; (last - first + 1) as usize];
        weights[(mode - first) as usize] = 1.0;
        for k in mode + 1..=last {
            weights[(k - first) as usize] = weights[(k - 1 - first) as usize] * mean / k as f64;
        }
        for k in (first..mode).rev() {
            weights[(k - first) as usize] = weights[(k + 1 - first) as usize] * (k + 1) as f64 / mean;
        }
        let total: f64 = weights.iter().sum();
        let mut below = 0.0;
        let scale = 2.0 * (1u64 << 63) as f64;
        let cumulative = weights
            .iter()
            .map(|w| {
                below += w;
                (below / total * scale) as u64
            })
            .collect();
        Poisson { first, cumulative }
    }

    /// The count of 64 random bits.
    pub fn count(&self, bits: u64) -> u64 {
        let i = self.cumulative.partition_point(|c| *c <= bits);
        self.first + i.min(self.cumulative.len() - 1) as u64
    }
}

/// Points of the tabulated cumulative distribution a sigma.
const PER_SIGMA: usize = 256;
/// Sigmas either side.
pub const REACH: usize = 6;

/// The cumulative normal distribution from -6 to 6 sigma, interpolated linearly: good to 5e-7.
pub struct Cumulative {
    table: Box<[f64]>,
}

impl Cumulative {
    /// The one table, made at first use.
    pub fn get() -> &'static Cumulative {
        static CUMULATIVE: LazyLock<Cumulative> = LazyLock::new(|| {
            let points = 2 * REACH * PER_SIGMA + 2;
            let at = |i| i as f64 / PER_SIGMA as f64 - REACH as f64;
            Cumulative { table: (0..points).map(|i| cumulative(at(i))).collect() }
        });
        &CUMULATIVE
    }

    /// Probability of a value below `z`; beyond 6 sigma that at 6 sigma.
    #[inline]
    pub fn value(&self, z: f64) -> f64 {
        let reach = REACH as f64;
        let at = (z.clamp(-reach, reach) + reach) * PER_SIGMA as f64;
        let i = at as usize;
        let (low, high) = (self.table[i], self.table[i + 1]);
        low + (at - i as f64) * (high - low)
    }
}

#[cfg(test)]
mod tests {
    use super::super::numerics::upper_tail;
    use super::*;

    /// The number of random words (of 2^64) whose value lies above `z`, exactly, by bisection: within an octave the
    /// value falls as the word grows.
    fn words_above(normal: &Normal, z: f32) -> f64 {
        // Positive values: sign bit 0. The magnitude falls monotonically with the word.
        let (mut low, mut high) = (0u64, u64::MAX >> 1);
        while low < high {
            let middle = low + (high - low) / 2;
            if normal.value(middle << 1) > z { low = middle + 1 } else { high = middle }
        }
        low as f64
    }

    #[test]
    fn tail_probabilities_are_right_beyond_five_sigma() {
        let normal = Normal::get();
        for z in [0.5f32, 1.0, 2.0, 3.0, 4.0, 5.0, 5.5, 6.0, 7.0] {
            let got = words_above(normal, z) / 2.0f64.powi(64);
            let want = upper_tail(f64::from(z));
            assert!((got / want - 1.0).abs() < 1e-4, "beyond {z} sigma: {got:e}, expected {want:e}");
        }
        assert!(normal.value(0) > 9.0 && normal.value(1) < -9.0);
    }

    #[test]
    fn noise_has_the_moments_and_counts_of_a_normal_distribution() {
        let normal = Normal::get();
        let n = 4_000_000u64;
        let stream = Stream::new(7, Purpose::DarkFrame, 3);
        let (mut m1, mut m2, mut m3, mut m4, mut neighbours) = (0.0, 0.0, 0.0, 0.0, 0.0);
        let (mut beyond3, mut beyond4, mut last) = (0u32, 0u32, 0.0);
        for i in 0..n {
            let z = f64::from(normal.value(stream.at(i)));
            m1 += z;
            m2 += z * z;
            m3 += z * z * z;
            m4 += z * z * z * z;
            neighbours += z * last;
            last = z;
            beyond3 += u32::from(z.abs() > 3.0);
            beyond4 += u32::from(z.abs() > 4.0);
        }
        let n = n as f64;
        // Five standard errors of each.
        let close = |what: &str, got: f64, want: f64, error: f64| {
            assert!((got - want).abs() < 5.0 * error, "{what}: {got}, expected {want} +- {error}");
        };
        close("mean", m1 / n, 0.0, n.sqrt().recip());
        close("variance", m2 / n, 1.0, (2.0 / n).sqrt());
        close("third moment", m3 / n, 0.0, (15.0 / n).sqrt());
        close("fourth moment", m4 / n, 3.0, (96.0 / n).sqrt());
        close("correlation of neighbours", neighbours / n, 0.0, n.sqrt().recip());
        for (z, got) in [(3.0, beyond3), (4.0, beyond4)] {
            let want = 2.0 * n * upper_tail(z);
            close(&format!("values beyond {z} sigma"), f64::from(got), want, want.sqrt());
        }
    }

    #[test]
    fn streams_of_neighbouring_frames_are_independent() {
        let normal = Normal::get();
        let n = 1_000_000u64;
        for (a, b) in [
            (Stream::new(1, Purpose::DataFrame, 0), Stream::new(1, Purpose::DataFrame, 1)),
            (Stream::new(1, Purpose::DataFrame, 0), Stream::new(2, Purpose::DataFrame, 0)),
            (Stream::new(1, Purpose::DataFrame, 5), Stream::new(1, Purpose::DarkFrame, 5)),
        ] {
            let sum: f64 =
                (0..n).map(|i| f64::from(normal.value(a.at(i))) * f64::from(normal.value(b.at(i)))).sum();
            let correlation = sum / n as f64;
            assert!(correlation.abs() < 5.0 / (n as f64).sqrt(), "{a:?} and {b:?}: {correlation}");
        }
    }

    #[test]
    fn counts_have_poisson_mean_and_variance() {
        for mean in [0.0, 0.3, 7.0, 2300.0] {
            let poisson = Poisson::new(mean);
            let n = 200_000u64;
            let stream = Stream::new(11, Purpose::Photons, mean as u64);
            let counts: Vec<f64> = (0..n).map(|i| poisson.count(stream.at(i)) as f64).collect();
            let m = counts.iter().sum::<f64>() / n as f64;
            let v = counts.iter().map(|c| (c - m) * (c - m)).sum::<f64>() / n as f64;
            let n = n as f64;
            assert!((m - mean).abs() <= 5.0 * (mean / n).sqrt(), "mean {m}, expected {mean}");
            let error = ((mean + 2.0 * mean * mean) / n).sqrt();
            assert!((v - mean).abs() <= 5.0 * error, "variance {v}, expected {mean} +- {error}");
        }
    }

    #[test]
    fn the_cumulative_table_follows_the_distribution() {
        let table = Cumulative::get();
        for i in -6000..=6000 {
            let z = f64::from(i) / 1000.0;
            assert!((table.value(z) - cumulative(z)).abs() < 5e-7, "at {z}");
        }
    }
}
