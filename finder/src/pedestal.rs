//! The pedestal of a detector: a running mean and variance for every pixel ([SPEC 2](crate::spec#2-pedestal)).

use ndarray::Array2;
use scheidegg_kernels::{Convert, Real, physics};

use crate::error::{Error, Result};
use crate::frames::{Frames, Shape};
use crate::mask::PixelMask;
use crate::params::Precision;

/// One value a pixel in the pedestal's precision, row-major.
#[derive(Clone, Debug, PartialEq)]
pub enum Plane {
    /// Single precision.
    F32(Vec<f32>),
    /// Double precision.
    F64(Vec<f64>),
}

impl Plane {
    /// Number of values.
    pub fn len(&self) -> usize {
        match self {
            Plane::F32(v) => v.len(),
            Plane::F64(v) => v.len(),
        }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// One value, widened without loss.
    #[inline]
    pub fn get(&self, i: usize) -> f64 {
        match self {
            Plane::F32(v) => f64::from(v[i]),
            Plane::F64(v) => v[i],
        }
    }

    /// Whether the values are `f64`.
    pub fn is_f64(&self) -> bool {
        matches!(self, Plane::F64(_))
    }
}

/// A trained pedestal, the state of one lane.
///
/// # Shapes
/// Every plane has one value a pixel, row-major.
///
/// # Source
/// [SPEC 2](crate::spec#2-pedestal): sums are centred on a frozen integer `x0`, because with raw sums an `f32`
/// variance cancels to noise.
#[derive(Clone, Debug, PartialEq)]
pub struct Pedestal {
    /// Rows and columns.
    pub shape: Shape,
    /// Dark frames in the window, `N`.
    pub samples: u64,
    /// The frozen integer offset of every pixel, in ADU.
    pub x0: Vec<u16>,
    /// The running sum of `x - x0`, times the window.
    pub sum: Plane,
    /// The running sum of `(x - x0)^2`.
    pub sum2: Plane,
    /// With fixed noise, the variance in ADU^2 that decisions use.
    pub fixed_variance: Option<Plane>,
    /// Pixels with fewer than 2 dark values (always lost): masked for the run. Empty for most detectors.
    pub untrained: Option<PixelMask>,
}

impl Pedestal {
    /// The most dark frames in the window.
    pub const MOST_SAMPLES: u64 = 1 << 24;

    fn map<T>(&self, f: impl Fn(f64, f64, usize) -> T) -> Array2<T> {
        let values = (0..self.shape.pixels()).map(|i| {
            // `inv_n` is rounded in the pedestal's precision, as in a decision.
            let inv_n = match self.sum {
                Plane::F32(_) => f64::from(1.0 / self.samples as f32),
                Plane::F64(_) => 1.0 / self.samples as f64,
            };
            f(self.sum.get(i) * inv_n, self.sum2.get(i) * inv_n, i)
        });
        Array2::from_shape_vec((self.shape.rows, self.shape.cols), values.collect())
            .expect("a value for every pixel")
    }

    /// The mean of every pixel in ADU: `x0 + sum/N`.
    pub fn mean(&self) -> Array2<f64> {
        self.map(|m, _, i| f64::from(self.x0[i]) + m)
    }

    /// The noise of every pixel in ADU: the standard deviation, never NaN.
    pub fn noise(&self) -> Array2<f64> {
        self.map(|m, q, _| (q - m * m).max(0.0).sqrt())
    }

    /// Pixels whose variance is 0: stuck, or masked in hardware. Without a noise floor the slightest step makes
    /// such a pixel fire, so they are counted for the user.
    pub fn quiet_pixels(&self) -> Vec<(usize, usize)> {
        self.pixels_where(|noise| noise == 0.0)
    }

    /// Pixels with a noise above `factor` times the median noise: hot, unless something else is wrong.
    pub fn hot_pixels(&self, factor: f64) -> Vec<(usize, usize)> {
        let mut noise = self.noise().into_raw_vec_and_offset().0;
        let middle = noise.len() / 2;
        let (_, &mut median, _) = noise.select_nth_unstable_by(middle, f64::total_cmp);
        self.pixels_where(|n| n > factor * median)
    }

    fn pixels_where(&self, f: impl Fn(f64) -> bool) -> Vec<(usize, usize)> {
        self.noise().indexed_iter().filter(|(_, n)| f(**n)).map(|(at, _)| at).collect()
    }

    /// Takes the variance as it is now for the decisions of a finder with fixed noise.
    pub fn refresh_noise(&mut self) {
        self.fixed_variance = Some(match (&self.sum, &self.sum2) {
            (Plane::F32(s), Plane::F32(q)) => Plane::F32(variances(s, q, self.samples)),
            (Plane::F64(s), Plane::F64(q)) => Plane::F64(variances(s, q, self.samples)),
            _ => unreachable!("both sums have one precision"),
        });
    }

    /// Feeds dark frames to every pixel: the update of [SPEC 2](crate::spec#2-pedestal). Lost pixels are left out.
    ///
    /// # Errors
    /// [`Error::ShapeMismatch`].
    pub fn update(&mut self, darks: Frames<'_>) -> Result<()> {
        Error::check_shape("dark frames", self.shape, darks.shape())?;
        for k in 0..darks.len() {
            let (frame, lost) = (darks.frame(k), darks.lost(k));
            match (&mut self.sum, &mut self.sum2) {
                (Plane::F32(s), Plane::F32(q)) => update(s, q, &self.x0, frame, lost, self.samples),
                (Plane::F64(s), Plane::F64(q)) => update(s, q, &self.x0, frame, lost, self.samples),
                _ => unreachable!("both sums have one precision"),
            }
        }
        Ok(())
    }

    /// Checks that every plane has a value for every pixel, one precision and values that frames can lead to: for
    /// pedestals read from a file.
    ///
    /// # Errors
    /// [`Error::Param`] for the first plane that does not fit.
    pub fn validate(&self) -> Result<()> {
        let n = self.shape.pixels();
        let fixed = self.fixed_variance.as_ref().unwrap_or(&self.sum);
        for (name, len) in [
            ("x0", self.x0.len()),
            ("sum", self.sum.len()),
            ("sum2", self.sum2.len()),
            ("noise", fixed.len()),
        ] {
            if len != n {
                return Err(Error::param(format!("pedestal {name}"), format!("{len} values"), n.to_string()));
            }
        }
        if self.sum.is_f64() != self.sum2.is_f64() || self.sum.is_f64() != fixed.is_f64() {
            return Err(Error::param("pedestal", "planes of f32 and f64", "one precision"));
        }
        if let Some(mask) = &self.untrained {
            Error::check_shape("untrained pixels of the pedestal", self.shape, mask.shape())?;
        }
        if !(2..=Self::MOST_SAMPLES).contains(&self.samples) {
            let most = Self::MOST_SAMPLES;
            return Err(Error::param(
                "pedestal samples",
                self.samples,
                format!("at least 2, at most {most}"),
            ));
        }
        // Twice what frames can lead to.
        let n = self.samples as f64;
        let (sum, square) = (2.0 * 65_536.0, 2.0 * 65_536.0 * 65_536.0);
        self.within("sum", &self.sum, -sum * n, sum * n)?;
        self.within("sum2", &self.sum2, 0.0, square * n)?;
        match &self.fixed_variance {
            Some(variance) => self.within("noise", variance, 0.0, square),
            None => Ok(()),
        }
    }

    /// Whether every value of a plane is a number within a range.
    fn within(&self, name: &str, plane: &Plane, least: f64, most: f64) -> Result<()> {
        let Some(i) = (0..plane.len()).find(|&i| !(least..=most).contains(&plane.get(i))) else {
            return Ok(());
        };
        let (value, at) = (plane.get(i), (i / self.shape.cols, i % self.shape.cols));
        let range = if value.is_finite() { format!("{least} to {most}") } else { "a number".into() };
        let what = if name == "noise" { "variance " } else { "" };
        Err(Error::param(format!("pedestal {name}"), format!("{what}{value} at {at:?}"), range))
    }
}

fn variances<P: Convert<P>>(sum: &[P], sum2: &[P], samples: u64) -> Vec<P> {
    let inv_n = P::from_f64(samples as f64).recip();
    sum.iter().zip(sum2).map(|(&s, &q)| physics::variance::<P, P>(s, q, inv_n, P::ZERO)).collect()
}

fn update<P: Real>(
    sum: &mut [P],
    sum2: &mut [P],
    x0: &[u16],
    frame: &[u16],
    lost: Option<&PixelMask>,
    samples: u64,
) {
    let inv_n = P::from_f64(samples as f64).recip();
    for i in 0..frame.len() {
        if lost.is_some_and(|m| m.contains_index(i)) {
            continue;
        }
        let y = P::from_i32(i32::from(frame[i]) - i32::from(x0[i]));
        (sum[i], sum2[i]) = physics::update(sum[i], sum2[i], y, inv_n);
    }
}

/// The exact integer sums of dark frames, on the way to a [`Pedestal`].
#[derive(Clone, Debug)]
pub struct Trainer {
    shape: Shape,
    sum: Vec<u64>,
    sum2: Vec<u64>,
    frames: u64,
    /// Values that a pixel lacks because it was lost; empty until the first loss.
    missing: Vec<u64>,
}

impl Trainer {
    /// No frames yet.
    pub fn new(shape: Shape) -> Self {
        let n = shape.pixels();
        Trainer { shape, sum: vec![0; n], sum2: vec![0; n], frames: 0, missing: Vec::new() }
    }

    /// Dark frames seen.
    pub fn frames(&self) -> u64 {
        self.frames
    }

    /// Adds dark frames.
    ///
    /// # Errors
    /// [`Error::ShapeMismatch`].
    pub fn add(&mut self, darks: Frames<'_>) -> Result<()> {
        Error::check_shape("dark frames", self.shape, darks.shape())?;
        for k in 0..darks.len() {
            let frame = darks.frame(k);
            let lost = darks.lost(k).filter(|m| !m.is_empty());
            for ((s, q), &x) in self.sum.iter_mut().zip(&mut self.sum2).zip(frame) {
                let x = u64::from(x);
                *s += x;
                *q += x * x;
            }
            if let Some(mask) = lost {
                self.missing.resize(self.shape.pixels(), 0);
                for i in mask.indices() {
                    let x = u64::from(frame[i]);
                    self.sum[i] -= x;
                    self.sum2[i] -= x * x;
                    self.missing[i] += 1;
                }
            }
            self.frames += 1;
        }
        Ok(())
    }

    /// The pedestal of the frames seen, in the precision `P` of the pair.
    ///
    /// A pixel that was lost in some dark frames has the mean and variance of the others, scaled to the window; one
    /// with fewer than 2 values is [`Pedestal::untrained`].
    ///
    /// # Errors
    /// [`Error::PedestalNotReady`] with fewer than 2 frames.
    pub fn finish(&self, precision: Precision) -> Result<Pedestal> {
        if self.frames < 2 {
            return Err(Error::PedestalNotReady { have: self.frames, need: 2 });
        }
        let n = self.shape.pixels();
        let mut x0 = vec![0u16; n];
        let mut untrained: Option<PixelMask> = None;
        let mut centred = vec![(0i128, 0i128); n];
        let mut scale = vec![1.0f64; if self.missing.is_empty() { 0 } else { n }];
        for i in 0..n {
            let seen = self.frames - self.missing.get(i).copied().unwrap_or(0);
            if seen < 2 {
                untrained.get_or_insert_with(|| PixelMask::new(self.shape)).insert_index(i);
                continue;
            }
            x0[i] = physics::offset(self.sum[i], seen);
            centred[i] = physics::centred(self.sum[i], self.sum2[i], seen, x0[i]);
            if seen != self.frames {
                scale[i] = self.frames as f64 / seen as f64;
            }
        }
        // A factor of 1 changes nothing; without losses the integers are converted once, as SPEC says.
        let scaled = |i: usize, v: i128| scale.get(i).filter(|f| **f != 1.0).map(|f| v as f64 * f);
        let f32s = |pick: fn(&(i128, i128)) -> i128| {
            let one = |(i, c)| scaled(i, pick(c)).map_or(pick(c) as f32, |v| v as f32);
            Plane::F32(centred.iter().enumerate().map(one).collect())
        };
        let f64s = |pick: fn(&(i128, i128)) -> i128| {
            let one = |(i, c)| scaled(i, pick(c)).unwrap_or(pick(c) as f64);
            Plane::F64(centred.iter().enumerate().map(one).collect())
        };
        let (sum, sum2) = match precision {
            Precision::F32 => (f32s(|c| c.0), f32s(|c| c.1)),
            Precision::F64F32 | Precision::F64 => (f64s(|c| c.0), f64s(|c| c.1)),
        };
        Ok(Pedestal {
            shape: self.shape,
            samples: self.frames,
            x0,
            sum,
            sum2,
            fixed_variance: None,
            untrained,
        })
    }
}
