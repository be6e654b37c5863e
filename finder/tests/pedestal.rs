//! Training, update, noise, and pedestals that are refused (SPEC 2).

use approx::assert_abs_diff_eq;
use scheidegg_finder::{
    ClusterSize, Error, Frames, LostPixels, Noise, Params, Pedestal, PixelMask, Plane, Precision, Shape,
    Trainer, Training,
};

const SHAPE: Shape = Shape { rows: 1, cols: 4 };

fn frames(pixels: &[u16]) -> Frames<'_> {
    Frames::new(pixels, SHAPE).unwrap()
}

fn trained(pixels: &[u16], precision: Precision) -> Pedestal {
    let mut trainer = Trainer::new(SHAPE);
    trainer.add(frames(pixels)).unwrap();
    trainer.finish(precision).unwrap()
}

fn params(samples: u64) -> Params {
    Params { pedestal_samples: samples, ..Params::new(ClusterSize { w: 3, h: 3 }) }
}

#[test]
fn an_offset_half_way_goes_to_the_even_integer() {
    // Means 0.5, 1.5, 2.5 and 65535.
    let p = trained(&[0, 1, 2, 65535, 1, 2, 3, 65535], Precision::F64);
    assert_eq!(p.x0, [0, 2, 2, 65535]);
    assert_eq!(p.sum, Plane::F64(vec![1.0, -1.0, 1.0, 0.0]));
    assert_eq!(p.sum2, Plane::F64(vec![1.0, 1.0, 1.0, 0.0]));
    assert_eq!(p.mean().into_raw_vec_and_offset().0, [0.5, 1.5, 2.5, 65535.0]);
    assert_eq!(p.noise().into_raw_vec_and_offset().0, [0.5, 0.5, 0.5, 0.0]);
    assert_eq!(p.quiet_pixels(), [(0, 3)]);
    // Thirds are nowhere near a half.
    let p = trained(&[10, 10, 10, 0, 10, 11, 10, 0, 11, 11, 10, 1], Precision::F32);
    assert_eq!(p.x0, [10, 11, 10, 0]);
    assert_eq!(p.sum, Plane::F32(vec![1.0, -1.0, 0.0, 1.0]));
}

#[test]
fn large_sums_are_centred_exactly_before_they_are_rounded() {
    // Raw sums of squares near 4e12 do not fit into an f32; centred ones do.
    let pixels: Vec<u16> = (0..4000).map(|i| 65000 + (i / 4 % 3) as u16).collect();
    let p = trained(&pixels, Precision::F32);
    let exact = trained(&pixels, Precision::F64);
    for i in 0..4 {
        assert_eq!(p.sum.get(i), exact.sum.get(i));
        assert_eq!(p.sum2.get(i), exact.sum2.get(i));
    }
    let noise = p.noise()[(0, 0)];
    assert_abs_diff_eq!(noise, (2f64 / 3.0).sqrt(), epsilon = 1e-3);
}

#[test]
fn lost_pixels_are_left_out_and_the_rest_is_scaled_to_the_window() {
    let mut lost = Vec::new();
    for (frame, indices) in [(0, &[1usize, 2, 3][..]), (1, &[2, 3]), (2, &[3]), (3, &[2])] {
        let mut mask = PixelMask::new(SHAPE);
        indices.iter().for_each(|&i| mask.insert_index(i));
        lost.push(LostPixels { frame, mask });
    }
    let mut pixels = [10, 10, 10, 10, 12, 12, 12, 12, 10, 14, 10, 10, 12, 16, 12, 12];
    for l in &lost {
        l.mask.indices().for_each(|i| pixels[l.frame * 4 + i] = 0xFFFF);
    }
    let mut trainer = Trainer::new(SHAPE);
    trainer.add(frames(&pixels).with_lost(&lost).unwrap()).unwrap();
    let p = trainer.finish(Precision::F64).unwrap();
    // Pixel 0 has all values, 1 has three (12, 14, 16), 2 has one (10), 3 has one (12).
    assert_eq!(p.x0[..2], [11, 14]);
    assert_eq!(p.samples, 4);
    assert_eq!(p.mean().into_raw_vec_and_offset().0[..2], [11.0, 14.0]);
    // A few roundings in f64.
    assert_abs_diff_eq!(p.sum2.get(1), 8.0 * 4.0 / 3.0, epsilon = 1e-12);
    assert_eq!(p.untrained.unwrap().indices().collect::<Vec<_>>(), [2, 3]);
}

#[test]
fn an_update_follows_spec_and_leaves_lost_pixels_alone() {
    let mut p = trained(&[10, 10, 10, 10, 12, 12, 12, 12], Precision::F64);
    let mut mask = PixelMask::new(SHAPE);
    mask.insert(0, 3);
    let lost = [LostPixels { frame: 0, mask }];
    p.update(frames(&[15, 11, 9, 0xFFFF]).with_lost(&lost).unwrap()).unwrap();
    // sum + (y - sum/2) with sum = 0; sum2 + (y*y - sum2/2) with sum2 = 2.
    assert_eq!(p.sum, Plane::F64(vec![4.0, 0.0, -2.0, 0.0]));
    assert_eq!(p.sum2, Plane::F64(vec![17.0, 1.0, 5.0, 2.0]));
    let other = Frames::new(&[1, 2], Shape { rows: 2, cols: 1 }).unwrap();
    assert_eq!(p.update(other).unwrap_err().to_string(), "dark frames: shape 2 x 1, expected 1 x 4");
}

#[test]
fn hot_pixels_stand_out_of_the_median() {
    let p = trained(&[0, 0, 0, 0, 2, 2, 2, 90], Precision::F32);
    assert_eq!(p.hot_pixels(10.0), [(0, 3)]);
    assert_eq!(p.hot_pixels(100.0), []);
}

#[test]
fn training_counts_to_its_window_and_updates_with_the_rest() {
    let pixels: Vec<u16> = (0..40).map(|i| 100 + (i * 7 % 11) as u16).collect();
    let all = frames(&pixels);
    let mut whole = Training::new(SHAPE, &params(6)).unwrap();
    whole.train(all).unwrap();
    let mut split = Training::new(SHAPE, &params(6)).unwrap();
    for batch in all.batches(4) {
        split.train(batch).unwrap();
    }
    assert_eq!(*whole.pedestal().unwrap(), *split.pedestal().unwrap());
    let mut by_hand = trained(&pixels[..24], Precision::F32);
    by_hand.update(all.slice(6, 4)).unwrap();
    assert_eq!(*whole.pedestal().unwrap(), by_hand);

    let mut early = Training::new(SHAPE, &params(1000)).unwrap();
    assert!(matches!(early.pedestal(), Err(Error::PedestalNotReady { have: 0, need: 1000 })));
    assert!(matches!(early.finish(), Err(Error::PedestalNotReady { have: 0, need: 2 })));
    early.train(all.slice(0, 3)).unwrap();
    let words = early.pedestal().unwrap_err().to_string();
    assert!(words.contains("has 3 dark frames and needs 1000"), "{words}");
    early.finish().unwrap();
    assert!(early.is_finished());
    assert_eq!(early.pedestal().unwrap().samples, 3);
}

#[test]
fn fixed_noise_is_that_of_the_end_of_training() {
    let pixels: Vec<u16> = (0..40).map(|i| 100 + (i * i % 23) as u16).collect();
    let params = Params { noise: Noise::Fixed, ..params(5) };
    let mut training = Training::new(SHAPE, &params).unwrap();
    training.train(frames(&pixels[..20])).unwrap();
    let at_end = training.pedestal().unwrap().fixed_variance.clone();
    assert!(at_end.is_some());
    training.train(frames(&pixels[20..])).unwrap();
    assert_eq!(training.pedestal().unwrap().fixed_variance, at_end);
    // A saved pedestal keeps the noise it has; one without takes its own.
    let mut saved = training.pedestal().unwrap().into_owned();
    let mut other = Training::new(SHAPE, &params).unwrap();
    other.set_pedestal(&saved).unwrap();
    assert_eq!(other.pedestal().unwrap().fixed_variance, at_end);
    saved.fixed_variance = None;
    other.set_pedestal(&saved).unwrap();
    saved.refresh_noise();
    assert_eq!(*other.pedestal().unwrap(), saved);
    assert_ne!(saved.fixed_variance, at_end);
}

#[test]
fn a_variance_is_never_below_zero() {
    let mut p = trained(&[5, 5, 5, 5, 5, 5, 5, 5], Precision::F32);
    // Round-off may leave such sums behind.
    (p.sum, p.sum2) = (Plane::F32(vec![1.0; 4]), Plane::F32(vec![0.0; 4]));
    assert!(p.noise().iter().all(|n| *n == 0.0));
    p.refresh_noise();
    assert_eq!(p.fixed_variance, Some(Plane::F32(vec![0.0; 4])));
    p.validate().unwrap();
}

#[test]
fn a_pedestal_that_does_not_fit_is_refused_by_name() {
    let good = trained(&[1, 2, 3, 4, 5, 6, 7, 8], Precision::F32);
    good.validate().unwrap();
    let words = |change: &dyn Fn(&mut Pedestal)| {
        let mut p = good.clone();
        change(&mut p);
        p.validate().unwrap_err().to_string()
    };
    assert_eq!(words(&|p| p.x0.truncate(3)), "pedestal x0 = 3 values: expected 4");
    assert!(words(&|p| p.sum2 = Plane::F64(vec![0.0; 4])).contains("one precision"));
    assert!(words(&|p| p.samples = 1).contains("at least 2"));
    let nan = Plane::F32(vec![0.0, f32::NAN, 0.0, 0.0]);
    assert_eq!(words(&|p| p.sum = nan.clone()), "pedestal sum = NaN at (0, 1): expected a number");
    assert!(words(&|p| p.fixed_variance = Some(Plane::F32(vec![-1.0; 4]))).contains("variance -1 at (0, 0)"));
    let tall = Shape { rows: 4, cols: 1 };
    assert!(words(&|p| p.untrained = Some(PixelMask::new(tall))).contains("shape 4 x 1, expected 1 x 4"));
    let mut training = Training::new(SHAPE, &Params { precision: Precision::F64F32, ..params(2) }).unwrap();
    let error = training.set_pedestal(&good).unwrap_err().to_string();
    assert_eq!(error, "pedestal precision = f32 sums: expected the sums of precision f64f32");
}

#[test]
fn a_plane_says_how_many_values_it_has() {
    for n in [0, 1, 7] {
        for plane in [Plane::F32(vec![0.0; n]), Plane::F64(vec![0.0; n])] {
            assert_eq!((plane.len(), plane.is_empty()), (n, n == 0));
        }
    }
}

#[test]
fn the_mask_of_a_run_joins_bad_and_untrained_pixels() {
    let mut mask = PixelMask::new(SHAPE);
    mask.insert(0, 0);
    let mut training =
        Training::new(SHAPE, &Params { mask: Some(mask.clone().into()), ..params(2) }).unwrap();
    assert!(training.mask().is_err());
    let mut lost = PixelMask::new(SHAPE);
    lost.insert(0, 2);
    let lost = [LostPixels { frame: 1, mask: lost }];
    training.train(frames(&[1; 8]).with_lost(&lost).unwrap()).unwrap();
    assert_eq!(training.mask().unwrap().unwrap().indices().collect::<Vec<_>>(), [0, 2]);
}
