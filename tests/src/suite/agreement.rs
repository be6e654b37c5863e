//! Runs over synthetic frames: the backend and the oracle must return the same bytes.

use std::sync::Arc;

use scheidegg::{
    Backend, ClusterSize, LostPixels, Noise, Params, Payload, Pedestal, PixelMask, Plane, Precision, Shape,
    Ties, Update,
};

use super::{Check, Outcome, agrees, holds};
use crate::case::{self, Case, Step};
use crate::synth::{self, Detector, Rng};

const SHAPE: Shape = Shape { rows: 29, cols: 37 };

pub(super) fn checks(seed: u64, random_runs: usize) -> Vec<Check> {
    let mut all = Vec::new();
    sizes(&mut all, seed);
    shapes(&mut all, seed);
    modes(&mut all, seed);
    pixels(&mut all, seed);
    values(&mut all, seed);
    lanes_and_batches(&mut all, seed);
    for run in 0..random_runs as u64 {
        let seed = seed.wrapping_add(1000 * run);
        all.push(Check::new(format!("random run, seed {seed}"), move |b| {
            agrees(b, &random(seed), run % 2 == 1)
        }));
    }
    all
}

fn size(w: usize, h: usize) -> ClusterSize {
    ClusterSize { w, h }
}

/// Parameters for a window, in single precision, with a trace.
fn params(w: usize, h: usize) -> Params {
    Params { trace: true, ..Params::new(size(w, h)) }
}

/// A run with photons over an ordinary detector.
fn ordinary(name: &str, shape: Shape, params: Params, frames: usize, seed: u64) -> Case {
    let mut detector = Detector::new(shape, seed);
    let darks = detector.darks(40);
    let data = detector.photons(frames, 0.02);
    Case::new(name, shape, params, darks, data)
}

fn check(all: &mut Vec<Check>, name: impl Into<String>, make: impl Fn(&str) -> Case + 'static, poison: bool) {
    let name = name.into();
    all.push(Check::new(name.clone(), move |b: &dyn Backend| -> Outcome { agrees(b, &make(&name), poison) }));
}

fn sizes(all: &mut Vec<Check>, seed: u64) {
    let square = (2..=15).map(|n| (n, n));
    let oblong =
        [(2, 3), (3, 2), (5, 4), (4, 5), (7, 9), (15, 2), (2, 15), (6, 13), (3, 15), (11, 8), (9, 3)];
    for (i, (w, h)) in square.chain(oblong).enumerate() {
        let precision = Precision::ALL[i % 3];
        check(
            all,
            format!("size {w}x{h} in {precision}"),
            move |name| ordinary(name, SHAPE, Params { precision, ..params(w, h) }, 10, seed + i as u64),
            i % 2 == 0,
        );
    }
}

fn shapes(all: &mut Vec<Check>, seed: u64) {
    let small =
        [(1, 1), (1, 2), (2, 1), (1, 17), (19, 1), (2, 2), (3, 3), (4, 7), (5, 64), (63, 5), (33, 65)];
    for (i, (rows, cols)) in small.into_iter().enumerate() {
        for (w, h) in [(3, 3), (4, 4), (9, 9), (15, 15)] {
            check(
                all,
                format!("frames of {rows} x {cols}, size {w}x{h}"),
                move |name| ordinary(name, Shape { rows, cols }, params(w, h), 12, seed + 50 + i as u64),
                (i + w) % 2 == 0,
            );
        }
    }
    for (i, (rows, cols, frames)) in
        [(3, 400, 6), (400, 3, 6), (401, 399, 3), (256, 512, 2), (128, 257, 3)].into_iter().enumerate()
    {
        for (w, h) in [(3, 3), (9, 9)] {
            check(
                all,
                format!("frames of {rows} x {cols}, size {w}x{h}"),
                move |name| {
                    let shape = Shape { rows, cols };
                    let mut detector = Detector::new(shape, seed + 80 + i as u64);
                    let darks = detector.darks(5);
                    Case::new(name, shape, params(w, h), darks, detector.photons(frames, 0.01))
                },
                false,
            );
        }
    }
}

fn modes(all: &mut Vec<Check>, seed: u64) {
    for (i, &precision) in Precision::ALL.iter().enumerate() {
        for &update in Update::ALL {
            for &noise in Noise::ALL {
                let p = move || Params { precision, update, noise, ..params(3, 3) };
                check(
                    all,
                    format!("{update} {noise} {precision}"),
                    move |name| ordinary(name, SHAPE, p(), 40, seed + 100 + i as u64),
                    true,
                );
                for lanes in [1, 2] {
                    check(
                        all,
                        format!(
                            "{update} {noise} {precision}, {lanes} lanes, darks and new noise in between"
                        ),
                        move |name| {
                            let mut case = ordinary(name, SHAPE, p(), 30, seed + 110 + i as u64);
                            case.params.pedestal_samples = 30;
                            case.params.lanes = lanes;
                            case.steps = vec![
                                Step::Train(0..33, 7),
                                Step::Find(0..11, vec![4]),
                                Step::Refresh,
                                Step::Find(11..20, vec![3]),
                                Step::Train(33..40, 4),
                                Step::Find(20..25, vec![5]),
                                Step::Restart,
                                Step::Find(25..30, vec![2]),
                            ];
                            case
                        },
                        false,
                    );
                }
            }
        }
    }
    for (w, h) in [(3, 3), (5, 5), (7, 3), (9, 9), (15, 15)] {
        for &ties in Ties::ALL {
            for &precision in Precision::ALL {
                let p = Params { test2: true, ties, precision, ..params(w, h) };
                check(
                    all,
                    format!("test 2, size {w}x{h}, ties {ties}, {precision}"),
                    move |name| ordinary(name, SHAPE, p.clone(), 12, seed + 120),
                    true,
                );
            }
        }
    }
    for n_sigma in [0.5, 3.0, 3.3, 7.0, 1e6] {
        let p = Params { n_sigma, ..params(3, 3) };
        check(
            all,
            format!("n_sigma {n_sigma}"),
            move |name| ordinary(name, SHAPE, p.clone(), 10, seed + 130),
            false,
        );
    }
    for noise_floor_adu in [0.1, 5.0, 17.3] {
        for &noise in Noise::ALL {
            for &precision in Precision::ALL {
                let p = Params { noise_floor_adu, noise, precision, ..params(3, 3) };
                check(
                    all,
                    format!("noise floor {noise_floor_adu} ADU, {noise} {precision}"),
                    move |name| ordinary(name, SHAPE, p.clone(), 10, seed + 140),
                    false,
                );
            }
        }
    }
}

/// Frames whose corrected values are small integers, so that maxima are often equal.
fn with_ties(name: &str, params: Params, seed: u64) -> Case {
    let mut rng = Rng::new(seed);
    let n = SHAPE.pixels();
    let darks: Vec<u16> = (0..32 * n).map(|i| 1000 + 8 * (i / n % 2) as u16).collect();
    let data = (0..12 * n).map(|_| rng.pick(&[996, 1004, 1004, 1004, 1012, 1024, 1040])).collect();
    Case::new(name, SHAPE, params, darks, data)
}

fn pixels(all: &mut Vec<Check>, seed: u64) {
    for &ties in Ties::ALL {
        for (w, h) in [(2, 2), (3, 3), (4, 3), (5, 5), (9, 9)] {
            for &update in Update::ALL {
                let p = Params { ties, update, ..params(w, h) };
                check(
                    all,
                    format!("equal maxima, ties {ties}, {update}, size {w}x{h}"),
                    move |name| with_ties(name, p.clone(), seed + 150),
                    w % 2 == 0,
                );
            }
        }
    }
    for (i, (w, h)) in [(2, 2), (3, 3), (5, 4), (9, 9)].into_iter().enumerate() {
        for &update in Update::ALL {
            check(
                all,
                format!("masked and lost pixels, {update}, size {w}x{h}"),
                move |name| {
                    let mut rng = Rng::new(seed + 160 + i as u64);
                    let mut case =
                        ordinary(name, SHAPE, Params { update, ..params(w, h) }, 20, seed + 160 + i as u64);
                    case.params.mask = Some(Arc::new(synth::mask(SHAPE, 0.08, &mut rng)));
                    case.data_lost = synth::lose_rows(SHAPE, &mut case.data, 0.5, &mut rng);
                    case.steps[1] = Step::Find(0..20, vec![3, 1, 5]);
                    case
                },
                i % 2 == 1,
            );
        }
    }
    for word in ["lost", "masked"] {
        check(
            all,
            format!("frames with every pixel {word}"),
            move |name| {
                let mut case = ordinary(name, SHAPE, params(3, 3), 6, seed + 170);
                let everything =
                    PixelMask::from_bools(SHAPE, &vec![true; SHAPE.pixels()]).expect("one value a pixel");
                match word {
                    "lost" => {
                        case.data_lost =
                            [1, 2, 5].map(|frame| LostPixels { frame, mask: everything.clone() }).into();
                    }
                    _ => case.params.mask = Some(Arc::new(everything)),
                }
                case
            },
            true,
        );
    }
    for (i, fill) in [0u16, 0xFFFF, 4000].into_iter().enumerate() {
        check(
            all,
            format!("frames of {fill} ADU alone"),
            move |name| {
                let mut case = ordinary(name, SHAPE, params(3, 3), 9, seed + 180 + i as u64);
                case.data[SHAPE.pixels()..4 * SHAPE.pixels()].fill(fill);
                case
            },
            true,
        );
    }
    check(
        all,
        "blocks of saturated pixels",
        move |name| {
            let mut case = ordinary(name, SHAPE, params(5, 5), 9, seed + 190);
            let mut rng = Rng::new(seed);
            for frame in case.data.chunks_exact_mut(SHAPE.pixels()) {
                let (row, col) = (rng.below(SHAPE.rows - 6), rng.below(SHAPE.cols - 6));
                for r in row..row + 6 {
                    frame[r * SHAPE.cols + col..][..6].fill(0xFFFF);
                }
            }
            case
        },
        true,
    );
    check(
        all,
        "a detector without noise",
        move |name| {
            let n = SHAPE.pixels();
            let mut data = vec![1000u16; 8 * n];
            data.iter_mut().step_by(97).for_each(|x| *x += 1);
            Case::new(name, SHAPE, params(3, 3), vec![1000; 20 * n], data)
        },
        false,
    );
}

fn values(all: &mut Vec<Check>, seed: u64) {
    for &payload in Payload::ALL {
        for (i, &precision) in Precision::ALL.iter().enumerate() {
            for (w, h) in [(2, 2), (3, 3), (4, 5)] {
                let p = Params { payload, precision, ..params(w, h) };
                check(
                    all,
                    format!("{payload} values, {precision}, size {w}x{h}"),
                    move |name| {
                        // Some values beyond i16 and f16, some a half.
                        let mut case = ordinary(name, SHAPE, p.clone(), 10, seed + 200 + i as u64);
                        let mut rng = Rng::new(seed);
                        for x in &mut case.data {
                            if rng.chance(0.004) {
                                *x = 65535;
                            }
                        }
                        case
                    },
                    true,
                );
            }
        }
    }
    for &precision in Precision::ALL {
        let name = format!("values a little beside a half are rounded once, {precision}");
        all.push(Check::new(name, move |b| beside_halves(b, precision)));
    }
    for &payload in Payload::ALL {
        for &precision in Precision::ALL {
            let name = format!("{payload} values that do not fit are counted, {precision}");
            all.push(Check::new(name, move |b| too_large(b, payload, precision, seed)));
        }
    }
    // With darks that alternate the mean lies at a quarter, a half or three quarters, and so do the values.
    for &payload in Payload::ALL {
        for &precision in Precision::ALL {
            let p = Params { payload, precision, n_sigma: 2.0, ..params(3, 3) };
            check(
                all,
                format!("{payload} values that lie half way, {precision}"),
                move |name| {
                    let mut rng = Rng::new(seed + 210);
                    let n = SHAPE.pixels();
                    let step = |i: usize, k: usize| u16::from(k % 4 < i % 4);
                    let darks = (0..16 * n).map(|j| 2000 + step(j % n, j / n)).collect();
                    let data = (0..6 * n).map(|_| rng.pick(&[1990, 2000, 2001, 2009, 4049, 4051, 6003]));
                    Case::new(name, SHAPE, p.clone(), darks, data.collect())
                },
                true,
            );
        }
    }
}

fn lanes_and_batches(all: &mut Vec<Check>, seed: u64) {
    for lanes in [1, 2, 3, 5, 64] {
        for &update in Update::ALL {
            let p = Params { lanes, update, precision: Precision::F64F32, ..params(3, 3) };
            check(
                all,
                format!("{lanes} lanes, {update}"),
                move |name| {
                    let mut case = ordinary(name, SHAPE, p.clone(), 23, seed + 220);
                    case.steps[1] = Step::Find(0..23, vec![4, 1, 7]);
                    case
                },
                lanes % 2 == 0,
            );
        }
    }
    for sizes in [vec![1], vec![2], vec![3, 5], vec![7], vec![64]] {
        for (i, lanes) in [1, 3].into_iter().enumerate() {
            let sizes = sizes.clone();
            check(
                all,
                format!("batches of {sizes:?} frames, {lanes} lanes"),
                move |name| {
                    let p = Params { lanes, ..params(3, 3) };
                    let mut case = ordinary(name, SHAPE, p, 64, seed + 230 + i as u64);
                    let mut rng = Rng::new(seed);
                    case.data_lost = synth::lose_rows(SHAPE, &mut case.data, 0.3, &mut rng);
                    case.numbers = (0..64u64).map(|k| 5_000_000_000 + 3 * k).collect();
                    case.steps[1] = Step::Find(0..64, sizes.clone());
                    case
                },
                true,
            );
        }
    }
}

/// Pixels at both ends of the range, whose values go beyond `i16` and `f16` both ways. How many do is counted here from
/// the same values in `f32`.
fn too_large(backend: &dyn Backend, payload: Payload, precision: Precision, seed: u64) -> Outcome {
    let mut rng = Rng::new(seed + 240);
    let n = SHAPE.pixels();
    let high: Vec<bool> = (0..n).map(|_| rng.chance(0.2)).collect();
    let quiet =
        |i: usize, rng: &mut Rng| if high[i % n] { 65_535 - rng.below(9) } else { rng.below(9) } as u16;
    let darks = (0..20 * n).map(|i| quiet(i, &mut rng)).collect();
    let loud = |i: usize, rng: &mut Rng| match (rng.chance(0.05), high[i % n]) {
        (true, true) => rng.below(12) as u16,
        (true, false) => 65_535 - rng.below(30) as u16,
        (false, _) => quiet(i, rng),
    };
    let data = (0..8 * n).map(|i| loud(i, &mut rng)).collect();
    let params = Params { payload, precision, trace: false, ..params(3, 3) };
    let mut case = Case::new("too large", SHAPE, params, darks, data);
    agrees(backend, &case, false)?;
    let got = case::run(backend, &case, false)?.statistics;
    case.params.payload = Payload::F32;
    let exact = case::run(backend, &case, false)?;
    let values = exact.records.chunks(scheidegg::record_bytes(case.params.size, Payload::F32));
    let values = values.flat_map(|r| r[4..].chunks(4)).map(|v| f32::from_ne_bytes([v[0], v[1], v[2], v[3]]));
    let beyond = values.filter(|v| match payload {
        Payload::I16 => !(-32768.0..=32767.0).contains(&v.round()),
        Payload::F16 => v.abs() >= 65_520.0,
        Payload::I32 | Payload::F32 => false,
    });
    let want = beyond.count() as u64;
    holds(want > 100 || matches!(payload, Payload::I32 | Payload::F32), || {
        format!("only {want} are too large")
    })?;
    holds(got.saturated == want, || format!("{} values counted, expected {want}", got.saturated))
}

/// Half-precision values whose distance from a half no `f32` can hold, and others from `i16` and `i32`'s halves.
fn beside_halves(backend: &dyn Backend, precision: Precision) -> Outcome {
    let shape = Shape { rows: 8, cols: 8 };
    let means = [0.0, 1e-9, -1e-9, 1e-12, -1e-12, 0.5, 0.5 + 1e-9, 0.5 - 1e-9];
    let mean = |i: usize| means[i % means.len()];
    let n = shape.pixels();
    let plane = |v: &dyn Fn(usize) -> f64| match precision.pedestal_is_f64() {
        true => Plane::F64((0..n).map(v).collect()),
        false => Plane::F32((0..n).map(|i| v(i) as f32).collect()),
    };
    let pedestal = Pedestal {
        shape,
        samples: 64,
        x0: vec![1000; n],
        sum: plane(&|i| 64.0 * mean(i)),
        sum2: plane(&|_| 64.0 * 25.0),
        fixed_variance: None,
        untrained: None,
    };
    let frames: Vec<u16> =
        [3049u16, 3051, 5098, 5102, 9100, 66].iter().flat_map(|x| [1000 + x / 2, 1000 + x]).collect();
    let data: Vec<u16> = (0..12 * n).map(|j| frames[j / n] + (j % n % 7) as u16 * 2).collect();
    for &payload in Payload::ALL {
        let params = Params { payload, precision, ..params(2, 2) };
        let mut case = Case::new("beside halves", shape, params, Vec::new(), data.clone());
        case.params.pedestal_samples = 64;
        case.steps = vec![Step::Set(Box::new(pedestal.clone())), Step::Find(0..12, vec![1])];
        agrees(backend, &case, false)?;
    }
    Ok(())
}

/// A run with everything chosen by chance.
pub fn random(seed: u64) -> Case {
    let mut rng = Rng::new(seed);
    let shape = Shape { rows: 1 + rng.below(40), cols: 1 + rng.below(40) };
    let frames = 1 + rng.below(16);
    let odd = rng.chance(0.3);
    let mut side = || if odd { 3 + 2 * rng.below(7) } else { 2 + rng.below(14) };
    let window = size(side(), side());
    let params = Params {
        n_sigma: 2.0 + 5.0 * rng.unit(),
        update: rng.pick(Update::ALL),
        noise: rng.pick(Noise::ALL),
        precision: rng.pick(Precision::ALL),
        ties: rng.pick(Ties::ALL),
        test2: odd && rng.chance(0.5),
        lanes: 1 + rng.below(4),
        mask: rng.chance(0.4).then(|| Arc::new(synth::mask(shape, 0.05, &mut rng))),
        noise_floor_adu: if rng.chance(0.3) { 10.0 * rng.unit() } else { 0.0 },
        payload: rng.pick(Payload::ALL),
        trace: rng.chance(0.5),
        ..Params::new(window)
    };
    let mut detector = Detector::new(shape, rng.bits());
    let darks = 2 + rng.below(30);
    let dark_frames = detector.darks(darks);
    let rate = rng.pick(&[0.0, 0.005, 0.05, 0.3]);
    let mut case = Case::new(
        format!("random run, seed {seed}"),
        shape,
        params,
        dark_frames,
        detector.photons(frames, rate),
    );
    case.params.pedestal_samples = (2 + rng.below(darks)) as u64;
    if rng.chance(0.3) {
        case.darks_lost = synth::lose_rows(shape, &mut case.darks, 0.3, &mut rng);
    }
    if rng.chance(0.4) {
        case.data_lost = synth::lose_rows(shape, &mut case.data, 0.4, &mut rng);
    }
    let mut at = 0;
    case.steps = vec![Step::Train(0..darks, 1 + rng.below(darks)), Step::Finish];
    while at < frames {
        let end = at + 1 + rng.below(frames - at);
        case.steps.push(Step::Find(at..end, vec![1 + rng.below(5), 1 + rng.below(5)]));
        match rng.below(6) {
            0 => case.steps.push(Step::Refresh),
            1 => case.steps.push(Step::Restart),
            2 => case.steps.push(Step::Train(0..darks.min(3), 2)),
            _ => {}
        }
        at = end;
    }
    case
}
