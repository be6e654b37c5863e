//! SPEC 3 in `(f64, f64)` once more, with one switch that no user has: test 3 may be off. Only the timing study asks
//! that question. With test 3 on, the tests hold it against the oracle, branch by branch.

use scheidegg::{Branch, ClusterSize, Pedestal, Plane, Shape, Update};
use scheidegg_kernels::Decision;
use scheidegg_kernels::physics::{corrected, update, variance};

/// One pedestal chain that says for every pixel of a frame which way it went.
pub struct Judge {
    shape: Shape,
    size: ClusterSize,
    order: Update,
    decision: Decision<f64>,
    inv_n: f64,
    x0: Vec<u16>,
    sum: Vec<f64>,
    sum2: Vec<f64>,
    d: Vec<f64>,
    codes: Vec<u8>,
}

impl Judge {
    /// Starts from a trained pedestal.
    ///
    /// # Panics
    /// When its sums are not `f64`.
    pub fn new(pedestal: &Pedestal, size: ClusterSize, n_sigma: f64, order: Update, test3: bool) -> Judge {
        let (Plane::F64(sum), Plane::F64(sum2)) = (&pedestal.sum, &pedestal.sum2) else {
            panic!("the timing study works in f64");
        };
        let mut decision = Decision::<f64>::new(size.w as u32, size.h as u32, n_sigma, 0.0);
        if !test3 {
            // No sum is above an infinite bar; with a variance of 0 the bar is NaN, which nothing is above either.
            decision.area = f64::INFINITY;
        }
        Judge {
            shape: pedestal.shape,
            size,
            order,
            decision,
            inv_n: 1.0 / pedestal.samples as f64,
            x0: pedestal.x0.clone(),
            sum: sum.clone(),
            sum2: sum2.clone(),
            d: vec![0.0; pedestal.shape.pixels()],
            codes: vec![0; pedestal.shape.pixels()],
        }
    }

    /// Maximum and sum of the window of a pixel.
    fn window(&self, row: usize, col: usize) -> (f64, f64) {
        let (shape, size) = (self.shape, self.size);
        let (top, bottom) = (row.saturating_sub(size.up()), (row + size.down()).min(shape.rows - 1));
        let (left, right) = (col.saturating_sub(size.left()), (col + size.right()).min(shape.cols - 1));
        let (mut max, mut sum) = (f64::NEG_INFINITY, 0.0);
        for r in top..=bottom {
            let mut across = 0.0;
            for &v in &self.d[r * shape.cols + left..=r * shape.cols + right] {
                across += v;
                max = if v > max { v } else { max };
            }
            sum += across;
        }
        (max, sum)
    }

    /// Judges a frame and tracks the pedestal. Returns the branch of every pixel.
    pub fn frame(&mut self, raw: &[u16]) -> &[u8] {
        let y = |x0: u16, x: u16| f64::from(i32::from(x) - i32::from(x0));
        for (i, x) in raw.iter().enumerate() {
            self.d[i] = corrected::<f64, f64>(y(self.x0[i], *x), self.sum[i], self.inv_n);
        }
        for row in 0..self.shape.rows {
            for col in 0..self.shape.cols {
                let i = row * self.shape.cols + col;
                let floor2 = self.decision.floor2;
                let thr2 = self.decision.n_sigma2
                    * variance::<f64, f64>(self.sum[i], self.sum2[i], self.inv_n, floor2);
                let d = self.d[i];
                let (max, sum) = self.window(row, col);
                let branch = self.decision.branch(d, thr2, max, sum, None, d >= max);
                self.codes[i] = branch as u8;
                // Serial: later windows of this frame see the pixel with its new mean.
                if self.order == Update::Serial && branch == Branch::Update {
                    self.track(i, y(self.x0[i], raw[i]));
                    self.d[i] = corrected::<f64, f64>(y(self.x0[i], raw[i]), self.sum[i], self.inv_n);
                }
            }
        }
        if self.order == Update::Frozen {
            for (i, x) in raw.iter().enumerate() {
                if self.codes[i] == Branch::Update as u8 {
                    self.track(i, y(self.x0[i], *x));
                }
            }
        }
        &self.codes
    }

    #[inline(always)]
    fn track(&mut self, i: usize, y: f64) {
        (self.sum[i], self.sum2[i]) = update(self.sum[i], self.sum2[i], y, self.inv_n);
    }
}

#[cfg(test)]
mod tests {
    use scheidegg::{Backend, Frames, Params, Precision};
    use scheidegg_cpu::OracleBackend;

    use super::*;
    use crate::scene::{Scene, ladder_detector};

    #[test]
    fn with_test_3_on_every_branch_is_the_oracles() {
        let mut detector = ladder_detector();
        // Many photons, of which many share their charge: every branch occurs.
        (detector.rows, detector.cols, detector.photons_per_frame) = (40, 50, 60.0);
        detector.lines[0].energy_kev = 0.9;
        let scene = Scene::new(&detector, 60).unwrap();
        let shape = scene.shape();
        let mut pixels = scene.frames().as_slice().to_vec();
        // Nothing in the detector pulls a pixel down, so some are pulled here.
        pixels.iter_mut().step_by(977).for_each(|x| *x -= 300);
        let frames = Frames::new(&pixels, shape).unwrap();
        let mut seen = [0u64; 7];
        for side in [3, 4, 9] {
            let size = ClusterSize::square(side).unwrap();
            for order in [Update::Frozen, Update::Serial] {
                let precision = Precision::F64;
                let params = Params { update: order, precision, trace: true, ..Params::new(size) };
                let mut oracle = OracleBackend::new().build(shape, &params).unwrap();
                let pedestal = scene.pedestal(precision).unwrap();
                oracle.set_pedestal(&pedestal).unwrap();
                let mut judge = Judge::new(&pedestal, size, params.n_sigma, order, true);
                let ticket = oracle.submit(frames).unwrap();
                let clusters = oracle.collect(ticket).unwrap();
                let trace = clusters.trace().unwrap();
                for (k, want) in trace.chunks(shape.pixels()).enumerate() {
                    let got = judge.frame(frames.frame(k));
                    assert!(got == want, "{order} {size}: frame {k}");
                    got.iter().for_each(|c| seen[*c as usize] += 1);
                }
                let after = oracle.pedestal(0).unwrap();
                assert_eq!(after.sum, Plane::F64(judge.sum.clone()), "{order} {size}");
                assert_eq!(after.sum2, Plane::F64(judge.sum2.clone()), "{order} {size}");
            }
        }
        assert!(seen[..6].iter().all(|n| *n > 0), "a branch never occurred: {seen:?}");
    }

    #[test]
    fn with_test_3_off_no_window_is_stored_by_its_sum() {
        let mut detector = ladder_detector();
        (detector.rows, detector.cols, detector.photons_per_frame) = (40, 50, 60.0);
        detector.lines[0].energy_kev = 0.9;
        let scene = Scene::new(&detector, 20).unwrap();
        let pedestal = scene.pedestal(Precision::F64).unwrap();
        let size = ClusterSize::square(3).unwrap();
        let mut judge = Judge::new(&pedestal, size, 5.0, Update::Frozen, false);
        for k in 0..20 {
            let codes = judge.frame(scene.frames().frame(k));
            assert!(!codes.contains(&(Branch::StoreSum as u8)) && !codes.contains(&(Branch::Shoulder as u8)));
        }
    }
}
