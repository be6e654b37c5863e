//! A finder around a rule against the same in plain words: values, variances, windows, masks, what is stored and what is
//! fed back.

use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};

use half::f16;
use scheidegg_finder::{
    Branch, ClusterSize, Corrected, Error, Frames, Judge, LostPixels, Noise, Params, Payload, Pedestal,
    PixelMask, Precision, Real, Shape, Trainer, Update, judged,
};

const SHAPE: Shape = Shape { rows: 5, cols: 7 };

/// Stores a pixel that is 40 ADU above its pedestal, leaves those 20 ADU above alone; tells what it was shown.
struct Above(Sender<(usize, f64, f64, Vec<f64>)>);

impl Judge for Above {
    fn branch<C: Real>(&self, frame: &Corrected<'_, C>, i: usize) -> Branch {
        let d = frame.d[i].to_f64();
        let window = frame.window(i).map(|v| v.to_f64()).collect();
        self.0.send((i, d, frame.variance[i].to_f64(), window)).expect("the test listens");
        rule(d)
    }
}

fn rule(d: f64) -> Branch {
    match d {
        d if d > 40.0 => Branch::StorePeak,
        d if d > 20.0 => Branch::Shadow,
        _ => Branch::Update,
    }
}

/// Numbers without a pattern.
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }
}

/// Four dark frames: sums over them are exact in every precision.
fn pedestal(random: &mut Random, params: &Params) -> Pedestal {
    let darks: Vec<u16> = (0..4 * SHAPE.pixels()).map(|_| 500 + random.below(8) as u16).collect();
    let mut trainer = Trainer::new(SHAPE);
    trainer.add(Frames::new(&darks, SHAPE).unwrap()).unwrap();
    let mut p = trainer.finish(params.precision).unwrap();
    if params.noise == Noise::Fixed {
        p.refresh_noise();
    }
    p
}

/// A value as its payload has it, and whether it was cut.
fn stored(d: f64, payload: Payload) -> (f64, bool) {
    match payload {
        Payload::I32 => (d.round(), false),
        Payload::I16 => (d.round().clamp(-32768.0, 32767.0), d.round() > 32767.0),
        Payload::F16 => (f64::from(f16::from_f32(d as f32)), false),
        Payload::F32 => (f64::from(d as f32), false),
    }
}

/// Equal, but for large values in `f32`, whose last bits are rounded.
fn same(found: f64, expected: f64, precision: Precision) {
    let spare =
        if precision == Precision::F64 || expected.abs() < 1000.0 { 0.0 } else { 2e-3 * expected.abs() };
    assert!((found - expected).abs() <= spare, "{found}, expected {expected}");
}

fn check(params: &Params, first: u64) {
    let mut random = Random(params.payload as u64 * 7 + params.lanes as u64);
    let start = pedestal(&mut random, params);
    let mut lanes = vec![start.clone(); params.lanes];
    let (sender, shown) = channel();
    let mut finder = judged("above", Above(sender), SHAPE, params).unwrap();
    finder.set_pedestal(&start).unwrap();
    assert_eq!(finder.backend(), "above");
    let mut cut = 0;
    for batch in 0..3u64 {
        let pixel = |random: &mut Random| match random.below(8) {
            0 => 520 + random.below(200),
            1 => 34_000 + random.below(300),
            _ => 495 + random.below(20),
        };
        let pixels: Vec<u16> = (0..3 * SHAPE.pixels()).map(|_| pixel(&mut random) as u16).collect();
        let mut mask = PixelMask::new(SHAPE);
        (0..4).for_each(|_| mask.insert_index(random.below(35) as usize));
        let lost = [LostPixels { frame: 1, mask }];
        let frames = Frames::new(&pixels, SHAPE).unwrap().with_lost(&lost).unwrap();
        let numbers = [first, first + 5, first + 9].map(|n| n + 100 * batch);
        let frames = frames.with_numbers(scheidegg_finder::Numbers::List(&numbers)).unwrap();
        let ticket = finder.submit(frames).unwrap();
        let found = finder.collect(ticket).unwrap();
        assert_eq!(found.numbers(), numbers);
        assert_eq!(found.trace().is_some(), params.trace);
        for k in 0..3 {
            let lane = &mut lanes[(batch as usize * 3 + k) % params.lanes];
            let raw = &pixels[k * SHAPE.pixels()..][..SHAPE.pixels()];
            let masked = |i: usize| {
                params.mask.as_ref().is_some_and(|m| m.contains_index(i))
                    || k == 1 && lost[0].mask.contains_index(i)
            };
            let (mean, noise) = (lane.mean(), lane.noise());
            let d = |i: usize| if masked(i) { 0.0 } else { f64::from(raw[i]) - mean[(i / 7, i % 7)] };
            let mut clusters = found.frame(k);
            let mut quiet = Vec::new();
            for i in 0..SHAPE.pixels() {
                let branch = if masked(i) { Branch::Masked } else { rule(d(i)) };
                if let Some(trace) = found.trace() {
                    assert_eq!(trace[k * SHAPE.pixels() + i], branch as u8, "frame {k} pixel {i}");
                }
                if masked(i) {
                    continue;
                }
                let (at, seen, variance, window) = shown.recv().unwrap();
                assert_eq!(at, i);
                same(seen, d(i), params.precision);
                let own = match &lane.fixed_variance {
                    Some(fixed) => fixed.get(i),
                    None => noise[(i / 7, i % 7)] * noise[(i / 7, i % 7)],
                };
                let floor = params.noise_floor_adu * params.noise_floor_adu;
                approx::assert_relative_eq!(variance, own.max(floor), epsilon = 1e-3, max_relative = 1e-4);
                // The window: one more row above and column left where its sides are even.
                let (w, h) = (params.size.w as i64, params.size.h as i64);
                let expected: Vec<f64> = (0..w * h)
                    .map(|n| (i as i64 / 7 + n / w - h / 2, i as i64 % 7 + n % w - w / 2))
                    .map(|(r, c)| match (0..5).contains(&r) && (0..7).contains(&c) {
                        true => d((r * 7 + c) as usize),
                        false => 0.0,
                    })
                    .collect();
                assert_eq!(window.len(), expected.len());
                window.iter().zip(&expected).for_each(|(v, e)| same(*v, *e, params.precision));
                if branch == Branch::StorePeak {
                    let c = clusters.next().expect("a stored pixel is a cluster");
                    assert_eq!((c.x, c.y, c.size()), ((i % 7) as u16, (i / 7) as u16, params.size));
                    for (n, v) in expected.iter().enumerate() {
                        let (value, saturated) = stored(*v, params.payload);
                        same(c.values().get(n), value, params.precision);
                        cut += u64::from(saturated);
                    }
                }
                if branch == Branch::Update {
                    quiet.push(i);
                }
            }
            assert!(clusters.next().is_none());
            let mut loud = PixelMask::new(SHAPE);
            (0..SHAPE.pixels()).filter(|i| !quiet.contains(i)).for_each(|i| loud.insert_index(i));
            let loud = [LostPixels { frame: 0, mask: loud }];
            lane.update(Frames::new(raw, SHAPE).unwrap().with_lost(&loud).unwrap()).unwrap();
        }
    }
    for (k, lane) in lanes.iter().enumerate() {
        assert_eq!(finder.pedestal(k).unwrap(), *lane);
    }
    // A dark frame goes to every lane.
    let dark = vec![503; SHAPE.pixels()];
    let dark = Frames::new(&dark, SHAPE).unwrap();
    finder.train(dark).unwrap();
    for (k, lane) in lanes.iter_mut().enumerate() {
        lane.update(dark).unwrap();
        assert_eq!(finder.pedestal(k).unwrap(), *lane);
    }
    let s = finder.statistics();
    assert_eq!((s.frames, s.saturated), (9, cut));
    assert!(params.payload != Payload::I16 || cut > 0);
    assert!(shown.try_recv().is_err(), "nothing else was judged");
}

#[test]
fn every_pixel_is_judged_stored_and_fed_back_as_the_rule_says() {
    let mut mask = PixelMask::new(SHAPE);
    [0, 16, 34].iter().for_each(|i| mask.insert_index(*i));
    for (k, payload) in Payload::ALL.iter().enumerate() {
        for precision in Precision::ALL {
            let params = Params {
                payload: *payload,
                precision: *precision,
                pedestal_samples: 4,
                lanes: 1 + k % 3,
                noise: if k % 2 == 0 { Noise::Tracked } else { Noise::Fixed },
                noise_floor_adu: if k < 2 { 3.0 } else { 0.0 },
                trace: k != 1,
                mask: (k != 2).then(|| Arc::new(mask.clone())),
                ..Params::new([(3, 3), (2, 3), (4, 2), (3, 5)].map(|(w, h)| ClusterSize { w, h })[k])
            };
            check(&params, k as u64);
        }
    }
}

#[test]
fn serial_updates_are_refused() {
    let (sender, _) = channel();
    let params = Params { update: Update::Serial, ..Params::new(ClusterSize { w: 3, h: 3 }) };
    match judged("above", Above(sender), SHAPE, &params) {
        Err(Error::Unsupported { backend, what }) => {
            assert!(backend == "above" && what.contains("serial updates"), "{what}");
        }
        _ => panic!("accepted"),
    }
}
