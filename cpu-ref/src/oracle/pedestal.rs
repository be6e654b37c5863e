//! [SPEC 2](scheidegg_finder::spec#2-pedestal) in its plainest words: dark frames to a pedestal, and the update of
//! a pixel.

use scheidegg_finder::{Error, Frames, Noise, Params, Pedestal, PixelMask, Precision, Result, Shape};

use super::float::{Float, max};

/// One update of a pixel: `sum` and `sum2` after a value `y = x - x0` ([SPEC 2](scheidegg_finder::spec#2-pedestal)).
pub(crate) fn update<P: Float>(sum: P, sum2: P, y: P, inv_n: P) -> (P, P) {
    let new_sum = sum + (y - sum * inv_n);
    let new_sum2 = sum2 + (y * y - sum2 * inv_n);
    (new_sum, new_sum2)
}

/// The variance of a pixel, never below 0, in `P` ([SPEC 3](scheidegg_finder::spec#3-a-frame)).
pub(crate) fn variance<P: Float>(sum: P, sum2: P, inv_n: P) -> P {
    let m = sum * inv_n;
    max(sum2 * inv_n - m * m, P::of(0.0))
}

/// `1/N` in the pedestal's precision.
pub(crate) fn one_over<P: Float>(samples: u64) -> P {
    P::of(1.0) / P::of(samples as f64)
}

/// The variance of every pixel as it is now: what fixed noise compares with.
pub(crate) fn variances(pedestal: &Pedestal) -> scheidegg_finder::Plane {
    fn of<P: Float>(sum: &[P], sum2: &[P], samples: u64) -> scheidegg_finder::Plane {
        let inv_n = one_over(samples);
        P::plane((0..sum.len()).map(|i| variance(sum[i], sum2[i], inv_n)).collect())
    }
    use scheidegg_finder::Plane::{F32, F64};
    match (&pedestal.sum, &pedestal.sum2) {
        (F32(s), F32(q)) => of(s, q, pedestal.samples),
        (F64(s), F64(q)) => of(s, q, pedestal.samples),
        _ => unreachable!("Pedestal::validate: both sums have one precision"),
    }
}

/// Updates every pixel with dark frames that come after training ([SPEC 2](scheidegg_finder::spec#2-pedestal));
/// lost pixels are left out.
pub(crate) fn update_all(pedestal: &mut Pedestal, darks: Frames<'_>) -> Result<()> {
    Error::check_shape("dark frames", pedestal.shape, darks.shape())?;
    fn of<P: Float>(sum: &mut [P], sum2: &mut [P], x0: &[u16], samples: u64, darks: Frames<'_>) {
        let inv_n = one_over(samples);
        for k in 0..darks.len() {
            for (i, &x) in darks.frame(k).iter().enumerate() {
                if darks.lost(k).is_none_or(|lost| !lost.contains_index(i)) {
                    let y = P::of(f64::from(x) - f64::from(x0[i]));
                    (sum[i], sum2[i]) = update(sum[i], sum2[i], y, inv_n);
                }
            }
        }
    }
    use scheidegg_finder::Plane::{F32, F64};
    match (&mut pedestal.sum, &mut pedestal.sum2) {
        (F32(s), F32(q)) => of(s, q, &pedestal.x0, pedestal.samples, darks),
        (F64(s), F64(q)) => of(s, q, &pedestal.x0, pedestal.samples, darks),
        _ => unreachable!("Pedestal::validate: both sums have one precision"),
    }
    Ok(())
}

/// The exact integer sums of dark frames.
pub(crate) struct DarkSums {
    shape: Shape,
    frames: u64,
    /// Values seen by each pixel: fewer than frames where pixels were lost.
    seen: Vec<u64>,
    sum: Vec<u64>,
    sum2: Vec<u64>,
}

impl DarkSums {
    pub(crate) fn new(shape: Shape) -> Self {
        let zeros = vec![0; shape.pixels()];
        DarkSums { shape, frames: 0, seen: zeros.clone(), sum: zeros.clone(), sum2: zeros }
    }

    pub(crate) fn frames(&self) -> u64 {
        self.frames
    }

    pub(crate) fn add(&mut self, darks: Frames<'_>) {
        for k in 0..darks.len() {
            for (i, &x) in darks.frame(k).iter().enumerate() {
                if darks.lost(k).is_none_or(|lost| !lost.contains_index(i)) {
                    self.seen[i] += 1;
                    self.sum[i] += u64::from(x);
                    self.sum2[i] += u64::from(x) * u64::from(x);
                }
            }
            self.frames += 1;
        }
    }

    /// The pedestal after training ([SPEC 2](scheidegg_finder::spec#2-pedestal)).
    pub(crate) fn pedestal(&self, params: &Params) -> Result<Pedestal> {
        if self.frames < 2 {
            return Err(Error::PedestalNotReady { have: self.frames, need: 2 });
        }
        let mut pedestal = match params.precision {
            Precision::F32 => self.centred::<f32>(),
            Precision::F64F32 | Precision::F64 => self.centred::<f64>(),
        };
        if params.noise == Noise::Fixed {
            pedestal.fixed_variance = Some(variances(&pedestal));
        }
        Ok(pedestal)
    }

    fn centred<P: Float>(&self) -> Pedestal {
        let pixels = self.shape.pixels();
        let mut x0 = vec![0u16; pixels];
        let (mut sum, mut sum2) = (vec![P::of(0.0); pixels], vec![P::of(0.0); pixels]);
        let mut untrained = PixelMask::new(self.shape);
        for i in 0..pixels {
            if self.seen[i] < 2 {
                untrained.insert_index(i);
                continue;
            }
            let n = i128::from(self.seen[i]);
            let (s, s2) = (i128::from(self.sum[i]), i128::from(self.sum2[i]));
            let centre = nearest(s, n);
            x0[i] = centre as u16;
            let exact = s - n * centre;
            let exact2 = s2 - 2 * centre * s + n * centre * centre;
            if self.seen[i] == self.frames {
                sum[i] = P::of_integer(exact);
                sum2[i] = P::of_integer(exact2);
            } else {
                // A pixel that was lost now and then: the sums of what it has, scaled to the window.
                let factor = self.frames as f64 / self.seen[i] as f64;
                sum[i] = P::of(exact as f64 * factor);
                sum2[i] = P::of(exact2 as f64 * factor);
            }
        }
        Pedestal {
            shape: self.shape,
            samples: self.frames,
            x0,
            sum: P::plane(sum),
            sum2: P::plane(sum2),
            fixed_variance: None,
            untrained: (!untrained.is_empty()).then_some(untrained),
        }
    }
}

/// The integer nearest to `s / n`, the even one of two that are equally near. With `u16` values it is one, too.
fn nearest(s: i128, n: i128) -> i128 {
    let below = s / n;
    let (to_below, to_above) = (s - n * below, n * (below + 1) - s);
    if to_below < to_above || (to_below == to_above && below % 2 == 0) { below } else { below + 1 }
}
