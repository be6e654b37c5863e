//! Training: windows of every length, lost pixels, saved pedestals, and what is refused.

use scheidegg::{
    Backend, ClusterSize, Error, Frames, LostPixels, Noise, Params, Pedestal, PixelMask, Plane, Precision,
    Shape,
};

use super::{Check, Outcome, agrees, holds, refused};
use crate::case::{self, Case, Step};
use crate::synth::{self, Detector, Rng};

const SHAPE: Shape = Shape { rows: 17, cols: 23 };

fn params() -> Params {
    Params::new(ClusterSize { w: 3, h: 3 })
}

fn trained_with(name: &str, darks: usize, samples: u64, precision: Precision, seed: u64) -> Case {
    let mut detector = Detector::new(SHAPE, seed);
    let frames = detector.darks(darks);
    let data = detector.photons(10, 0.02);
    let mut case = Case::new(name, SHAPE, Params { precision, trace: true, ..params() }, frames, data);
    case.params.pedestal_samples = samples;
    case
}

pub(super) fn checks(seed: u64) -> Vec<Check> {
    let mut all = vec![
        Check::new("too few dark frames", too_few),
        Check::new("training ended early", move |b| {
            let mut case = trained_with("training ended early", 7, 1000, Precision::F32, seed);
            case.steps.insert(1, Step::Finish);
            agrees(b, &case, false)
        }),
        Check::new("a pedestal set again goes on to the bit", move |b| saved(b, seed)),
        Check::new("pedestals that do not fit", wrong_pedestals),
        Check::new("noise fixed when training ends", move |b| fixed_when_trained(b, seed)),
        Check::new("a variance below 0 is 0", below_zero),
        Check::new("a noisy raw sum does not cancel", quiet_on_a_high_pedestal),
    ];
    for precision in Precision::ALL.iter().copied() {
        for (darks, samples) in [(2, 2), (3, 3), (40, 40), (41, 40), (90, 40), (129, 128)] {
            let name = format!("{darks} dark frames for {samples}, {precision}");
            all.push(Check::new(name.clone(), move |b| {
                let mut case = trained_with(&name, darks, samples, precision, seed + 10);
                case.steps[0] = Step::Train(0..darks, 13);
                agrees(b, &case, darks == 40)
            }));
        }
        let name = format!("dark frames with lost pixels, {precision}");
        all.push(Check::new(name.clone(), move |b| {
            let mut rng = Rng::new(seed + 20);
            let mut case = trained_with(&name, 30, 24, precision, seed + 20);
            // Pixel 5 is never seen, pixel 6 once, pixel 7 twice; rows are lost now and then.
            case.darks_lost = synth::lose_rows(SHAPE, &mut case.darks, 0.5, &mut rng);
            for frame in 0..30 {
                if case.darks_lost.iter().all(|l| l.frame != frame) {
                    case.darks_lost.push(LostPixels { frame, mask: PixelMask::new(SHAPE) });
                }
            }
            case.darks_lost.sort_by_key(|l| l.frame);
            for lost in &mut case.darks_lost {
                (5..8).filter(|i| lost.frame + 5 >= *i).for_each(|i| lost.mask.insert_index(i));
            }
            case.steps[0] = Step::Train(0..30, 4);
            agrees(b, &case, false)?;
            case.params.trace = false;
            let got = case::run(b, &case, false)?;
            let untrained: Vec<usize> =
                got.pedestals[0].untrained.as_ref().map_or(Vec::new(), |m| m.indices().collect());
            holds(untrained == [5, 6], || format!("untrained pixels {untrained:?}, expected [5, 6]"))
        }));
    }
    all
}

fn too_few(backend: &dyn Backend) -> Outcome {
    let params = Params { pedestal_samples: 10, ..params() };
    let mut finder = backend.build(SHAPE, &params)?;
    let pixels = vec![100u16; 9 * SHAPE.pixels()];
    let nine = Frames::new(&pixels, SHAPE)?;
    let not_ready = |have, need| move |e: &Error| matches!(e, Error::PedestalNotReady { have: h, need: n } if (*h, *n) == (have, need));
    refused("frames before any dark frame", finder.submit(nine.slice(0, 1)), not_ready(0, 10))?;
    refused("a pedestal before any dark frame", finder.pedestal(0), not_ready(0, 10))?;
    refused("an end of training without dark frames", finder.finish_training(), not_ready(0, 2))?;
    refused("new noise without dark frames", finder.refresh_noise(), not_ready(0, 10))?;
    finder.train(nine.slice(0, 1))?;
    refused("an end of training after one dark frame", finder.finish_training(), not_ready(1, 2))?;
    finder.train(nine.slice(1, 8))?;
    refused("frames after nine of ten dark frames", finder.submit(nine.slice(0, 1)), not_ready(9, 10))?;
    finder.finish_training()?;
    finder.finish_training()?;
    let mut found = case::Outcome::default();
    case::find(finder.as_mut(), nine, &[9], &mut found)?;
    holds(found.numbers.len() == 9 && found.records.is_empty(), || {
        format!("{} frames, {} bytes of clusters", found.numbers.len(), found.records.len())
    })?;
    let pedestal = finder.pedestal(0)?;
    holds(pedestal.samples == 9, || format!("{} samples, expected 9", pedestal.samples))
}

/// A run cut in two by a saved pedestal is the same run.
fn saved(backend: &dyn Backend, seed: u64) -> Outcome {
    for noise in Noise::ALL {
        let mut whole = trained_with("saved pedestal", 30, 30, Precision::F64F32, seed + 30);
        whole.params.noise = *noise;
        whole.params.trace = false;
        let want = case::run(backend, &whole, false)?;
        let mut finder = backend.build(SHAPE, &whole.params)?;
        finder.train(whole.dark_frames())?;
        let mut got = case::Outcome::default();
        let frames = whole.data_frames();
        for half in [frames.slice(0, 4), frames.slice(4, 6)] {
            case::find(finder.as_mut(), half, &[6], &mut got)?;
            let pedestal = finder.pedestal(0)?;
            finder = backend.build(SHAPE, &whole.params)?;
            finder.set_pedestal(&pedestal)?;
            let again = finder.pedestal(0)?;
            if let Some(what) = case::pedestal_difference(&whole, &pedestal, &again) {
                return Err(format!("a pedestal set and asked for again: {what}").into());
            }
            got.pedestals = vec![pedestal];
        }
        got.statistics = want.statistics;
        if let Some(what) = case::difference(&whole, &want, &got) {
            return Err(format!("noise {noise}: {what}").into());
        }
    }
    Ok(())
}

fn wrong_pedestals(backend: &dyn Backend) -> Outcome {
    let n = SHAPE.pixels();
    let good = Pedestal {
        shape: SHAPE,
        samples: 100,
        x0: vec![1000; n],
        sum: Plane::F32(vec![0.0; n]),
        sum2: Plane::F32(vec![100.0; n]),
        fixed_variance: None,
        untrained: None,
    };
    let mut finder = backend.build(SHAPE, &params())?;
    let param = |e: &Error| matches!(e, Error::Param { .. });
    let shape = |e: &Error| matches!(e, Error::ShapeMismatch { .. });
    let other = Shape { rows: SHAPE.cols, cols: SHAPE.rows };
    let plane = |v: f32| Plane::F32(vec![v; n]);
    let mut nan = vec![0.0; n];
    nan[7] = f32::NAN;
    refused(
        "a pedestal of another shape",
        finder.set_pedestal(&Pedestal { shape: other, ..good.clone() }),
        shape,
    )?;
    refused("one sample", finder.set_pedestal(&Pedestal { samples: 1, ..good.clone() }), param)?;
    refused("x0 cut short", finder.set_pedestal(&Pedestal { x0: vec![0; n - 1], ..good.clone() }), param)?;
    refused("a NaN in sum", finder.set_pedestal(&Pedestal { sum: Plane::F32(nan), ..good.clone() }), param)?;
    refused(
        "an infinite sum2",
        finder.set_pedestal(&Pedestal { sum2: plane(f32::INFINITY), ..good.clone() }),
        param,
    )?;
    refused(
        "a negative variance",
        finder.set_pedestal(&Pedestal { fixed_variance: Some(plane(-1.0)), ..good.clone() }),
        param,
    )?;
    refused(
        "a sum of no frames",
        finder.set_pedestal(&Pedestal { sum: plane(1e30), ..good.clone() }),
        param,
    )?;
    refused("a negative sum2", finder.set_pedestal(&Pedestal { sum2: plane(-1.0), ..good.clone() }), param)?;
    refused(
        "a variance of no frames",
        finder.set_pedestal(&Pedestal { fixed_variance: Some(plane(1e30)), ..good.clone() }),
        param,
    )?;
    refused(
        "samples without end",
        finder.set_pedestal(&Pedestal { samples: u64::MAX, ..good.clone() }),
        param,
    )?;
    refused(
        "sums of two precisions",
        finder.set_pedestal(&Pedestal { sum2: Plane::F64(vec![0.0; n]), ..good.clone() }),
        param,
    )?;
    let double = Pedestal { sum: Plane::F64(vec![0.0; n]), sum2: Plane::F64(vec![0.0; n]), ..good.clone() };
    refused("sums in f64 for a finder in f32", finder.set_pedestal(&double), param)?;
    let untrained = Some(PixelMask::new(other));
    refused(
        "untrained pixels of another shape",
        finder.set_pedestal(&Pedestal { untrained, ..good.clone() }),
        shape,
    )?;
    refused("frames after refused pedestals", finder.submit(Frames::new(&[], SHAPE)?), |e| {
        matches!(e, Error::PedestalNotReady { .. })
    })?;
    Ok(finder.set_pedestal(&good)?)
}

/// Dark frames after the window change the pedestal and leave fixed noise alone, until it is refreshed.
fn fixed_when_trained(backend: &dyn Backend, seed: u64) -> Outcome {
    let mut case = trained_with("noise fixed when training ends", 60, 30, Precision::F32, seed + 40);
    case.params.noise = Noise::Fixed;
    agrees(backend, &case, false)?;
    case.params.trace = false;
    let noise_after = |darks: usize, refresh: bool| {
        let mut finder = backend.build(SHAPE, &case.params)?;
        finder.train(case.dark_frames().slice(0, darks))?;
        if refresh {
            finder.refresh_noise()?;
        }
        finder.pedestal(0)
    };
    let (at, later, refreshed) = (noise_after(30, false)?, noise_after(60, false)?, noise_after(60, true)?);
    holds(at.sum != later.sum, || "later dark frames left the pedestal as it was".into())?;
    holds(at.fixed_variance == later.fixed_variance, || "later dark frames changed the fixed noise".into())?;
    holds(at.fixed_variance != refreshed.fixed_variance, || {
        "a refresh left the fixed noise as it was".into()
    })?;
    let mut want = later;
    want.refresh_noise();
    holds(want.fixed_variance == refreshed.fixed_variance, || "refreshed noise is another".into())
}

/// Sums as round-off may leave them: the mean squared is more than the mean of the squares.
fn below_zero(backend: &dyn Backend) -> Outcome {
    let n = SHAPE.pixels();
    for &noise in Noise::ALL {
        let mut pedestal = Pedestal {
            shape: SHAPE,
            samples: 4,
            x0: vec![1000; n],
            sum: Plane::F32(vec![2.0; n]),
            sum2: Plane::F32((0..n).map(|i| (i % 3) as f32 * 0.9).collect()),
            fixed_variance: None,
            untrained: None,
        };
        let data = (0..3 * n).map(|i| 999 + (i % 5 % 3) as u16).collect();
        let mut case = Case::new("below zero", SHAPE, Params { noise, ..params() }, Vec::new(), data);
        case.params.pedestal_samples = 4;
        case.steps = vec![
            Step::Set(Box::new(pedestal.clone())),
            Step::Find(0..2, vec![1]),
            Step::Refresh,
            Step::Find(2..3, vec![1]),
        ];
        agrees(backend, &case, false)?;
        let noise_adu = pedestal.noise();
        holds(noise_adu.iter().all(|v| v.is_finite()), || "a noise that is no number".into())?;
        if noise == Noise::Fixed {
            let mut finder = backend.build(SHAPE, &case.params)?;
            finder.set_pedestal(&pedestal)?;
            pedestal = finder.pedestal(0)?;
            let Some(Plane::F32(variance)) = &pedestal.fixed_variance else {
                return holds(false, || "no fixed variance in f32".into());
            };
            holds(variance[0] == 0.0 && variance.iter().all(|v| *v >= 0.0), || {
                format!("variance {}", variance[0])
            })?;
        }
    }
    Ok(())
}

/// Values near 60000 with a noise of 1 ADU, in single precision: raw sums would cancel to garbage.
fn quiet_on_a_high_pedestal(backend: &dyn Backend) -> Outcome {
    let mut rng = Rng::new(3);
    let mut frames = |n: usize| -> Vec<u16> {
        (0..n * SHAPE.pixels()).map(|_| (60_000.0 + rng.normal()).round() as u16).collect()
    };
    let case = Case::new("high pedestal", SHAPE, params(), frames(200), frames(50));
    agrees(backend, &case, false)?;
    let got = case::run(backend, &case, false)?;
    let noise = got.pedestals[0].noise();
    let (low, high) = noise.iter().fold((f64::MAX, 0f64), |(l, h), n| (l.min(*n), h.max(*n)));
    holds((0.7..1.4).contains(&low) && (0.7..1.4).contains(&high), || {
        format!("noise from {low} to {high} ADU where it is 1")
    })
}
