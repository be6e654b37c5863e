//! Decisions on the edge: thresholds that a maximum or a sum meets to the last bit. Another order of a sum, a fused
//! operation, or `>=` for `>` shows here and hardly anywhere else.

use scheidegg::{Backend, Branch, ClusterSize, Noise, Params, Pedestal, Plane, Precision, Shape};
use scheidegg_cpu::OracleBackend;

use super::{Check, Outcome, agrees, holds};
use crate::case::{self, Case, Step};
use crate::synth::Rng;

const SHAPE: Shape = Shape { rows: 31, cols: 37 };

pub(super) fn checks(seed: u64) -> Vec<Check> {
    let mut all = Vec::new();
    for &precision in Precision::ALL {
        for (w, h) in [(2, 2), (3, 3), (4, 5), (5, 3), (9, 9), (15, 15)] {
            for test2 in [false, true] {
                if test2 && (w % 2 == 0 || h % 2 == 0) {
                    continue;
                }
                let with = if test2 { " with test 2" } else { "" };
                all.push(Check::new(
                    format!("decisions on the edge, size {w}x{h}{with}, {precision}"),
                    move |backend| {
                        (0..4).try_for_each(|round| {
                            let size = ClusterSize { w, h };
                            check(backend, size, precision, test2, seed + round)
                        })
                    },
                ));
            }
        }
    }
    all
}

/// One frame whose corrected values `d` and thresholds `thr2` are what `image` says, and the branches that follow.
fn check(backend: &dyn Backend, size: ClusterSize, precision: Precision, test2: bool, seed: u64) -> Outcome {
    let mut rng = Rng::new(seed);
    let (d, thr2, codes) = match precision.compute_is_f64() {
        false => single::image(size, test2, &mut rng),
        true => double::image(size, test2, &mut rng),
    };
    // With 2 samples and an offset of 0, a raw value of 0 is d = -sum/2, exactly; with n_sigma = 1 the fixed variance
    // is the threshold.
    let plane = |v: &[f64], factor: f64| match precision.pedestal_is_f64() {
        true => Plane::F64(v.iter().map(|v| v * factor).collect()),
        false => Plane::F32(v.iter().map(|v| (v * factor) as f32).collect()),
    };
    let pedestal = Pedestal {
        shape: SHAPE,
        samples: 2,
        x0: vec![0; SHAPE.pixels()],
        sum: plane(&d, -2.0),
        sum2: plane(&d, 0.0),
        fixed_variance: Some(plane(&thr2, 1.0)),
        untrained: None,
    };
    let params =
        Params { precision, noise: Noise::Fixed, n_sigma: 1.0, test2, trace: true, ..Params::new(size) };
    let mut case = Case::new("edges", SHAPE, params, Vec::new(), vec![0; SHAPE.pixels()]);
    case.params.pedestal_samples = 2;
    case.steps = vec![Step::Set(Box::new(pedestal)), Step::Find(0..1, vec![1])];
    agrees(backend, &case, false)?;
    let oracle = case::run(&OracleBackend::new(), &case, false)?;
    let trace = oracle.trace.unwrap_or_default();
    let wrong = (0..SHAPE.pixels()).find(|&i| trace[i] != codes[i] as u8);
    holds(wrong.is_none(), || format!("the oracle itself: {wrong:?}"))?;
    let both = |of: Branch| codes.contains(&of);
    holds(both(Branch::StoreSum) && both(Branch::Update) && both(Branch::StorePeak), || {
        "the edges lie on one side only".into()
    })
}

macro_rules! image {
    ($module:ident, $c:ty) => {
        mod $module {
            use super::*;

            /// Values, thresholds on the edge, and SPEC 3's branches.
            pub(super) fn image(
                size: ClusterSize,
                test2: bool,
                rng: &mut Rng,
            ) -> (Vec<f64>, Vec<f64>, Vec<Branch>) {
                let n = SHAPE.pixels();
                // Charge spread evenly, so that a sum is significant long before a maximum is; a few stand out.
                let mut value = || -> $c {
                    let v = (100.0 + 10.0 * rng.unit()) as $c;
                    match rng.below(40) {
                        0 => -v,
                        1 => v * 3.0,
                        _ => v,
                    }
                };
                let d: Vec<$c> = (0..n).map(|_| value()).collect();
                let sum_of = |top: isize, left: isize, h: usize, w: usize| -> $c {
                    let mut total = 0.0;
                    for r in top..top + h as isize {
                        let mut row = 0.0;
                        for c in left..left + w as isize {
                            let inside = (0..SHAPE.rows as isize).contains(&r)
                                && (0..SHAPE.cols as isize).contains(&c);
                            if inside {
                                row += d[(r * SHAPE.cols as isize + c) as usize];
                            }
                        }
                        total += row;
                    }
                    total
                };
                let ClusterSize { w, h } = size;
                let (ch, cw) = (h.div_ceil(2), w.div_ceil(2));
                let (mut thresholds, mut codes) = (Vec::new(), Vec::new());
                for i in 0..n {
                    let top = (i / SHAPE.cols) as isize - (h / 2) as isize;
                    let left = (i % SHAPE.cols) as isize - (w / 2) as isize;
                    let inside = |r: usize, c: usize| {
                        let (r, c) = (top + r as isize, left + c as isize);
                        let inside =
                            (0..SHAPE.rows as isize).contains(&r) && (0..SHAPE.cols as isize).contains(&c);
                        inside.then(|| d[(r * SHAPE.cols as isize + c) as usize])
                    };
                    let m =
                        (0..h * w).filter_map(|j| inside(j / w, j % w)).fold(<$c>::NEG_INFINITY, <$c>::max);
                    let t = sum_of(top, left, h, w);
                    let (low, right) = (top + (h - ch) as isize, left + (w - cw) as isize);
                    let q = [(top, left), (top, right), (low, left), (low, right)]
                        .map(|(top, left)| sum_of(top, left, ch, cw))
                        .into_iter()
                        .fold(<$c>::NEG_INFINITY, <$c>::max);
                    let (area, corner) = ((w * h) as $c, (cw * ch) as $c);
                    let edge = match rng.below(4) {
                        0 => m * m,
                        1 => d[i] * d[i],
                        2 if test2 => q * q / corner,
                        _ => t * t / area,
                    };
                    let thr2 = rng.pick(&[edge.next_down(), edge, edge.next_up()]);
                    let v = d[i];
                    codes.push(if v < 0.0 && v * v > thr2 {
                        Branch::Negative
                    } else if m > 0.0 && m * m > thr2 {
                        if v < m { Branch::Shadow } else { Branch::StorePeak }
                    } else if (test2 && q > 0.0 && q * q > corner * thr2) || (t > 0.0 && t * t > area * thr2)
                    {
                        if v < m { Branch::Shoulder } else { Branch::StoreSum }
                    } else {
                        Branch::Update
                    });
                    thresholds.push(f64::from(thr2));
                }
                (d.into_iter().map(f64::from).collect(), thresholds, codes)
            }
        }
    };
}

image!(single, f32);
image!(double, f64);
