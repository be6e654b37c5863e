//! Every finding from frames that were made for it, and none from ordinary ones.

use scheidegg_finder::{
    Backend, ClusterSize, FrameBuf, Frames, Params, Payload, Pedestal, PixelMask, Result, Shape,
};

use super::*;
use crate::io::Source;
use crate::pipeline::Run;

const SHAPE: Shape = Shape { rows: 20, cols: 30 };
const FRAMES: usize = 150;

/// Frames in memory as a source.
struct Given {
    pixels: Vec<u16>,
    at: usize,
    /// Lost in every frame.
    lost: Option<PixelMask>,
}

impl Source for Given {
    fn name(&self) -> String {
        "given".into()
    }
    fn shape(&self) -> Shape {
        SHAPE
    }
    fn remaining(&self) -> Option<u64> {
        Some((self.pixels.len() / SHAPE.pixels() - self.at) as u64)
    }
    fn read(&mut self, into: &mut FrameBuf) -> Result<usize> {
        let before = into.len();
        while !into.is_full() && (self.at + 1) * SHAPE.pixels() <= self.pixels.len() {
            let frame = &self.pixels[self.at * SHAPE.pixels()..][..SHAPE.pixels()];
            into.push(self.at as u64, |to| {
                to.copy_from_slice(frame);
                Ok(self.lost.clone())
            })?;
            self.at += 1;
        }
        Ok(into.len() - before)
    }
}

/// Frames around 1000 ADU with a noise of 10, and a photon now and then.
fn noise(frames: usize, seed: u64) -> Vec<u16> {
    let mut state = seed;
    let mut uniform = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((state >> 11) as f64 + 0.5) / (1u64 << 53) as f64
    };
    (0..frames * SHAPE.pixels())
        .map(|_| {
            let gauss = (-2.0 * uniform().ln()).sqrt() * (std::f64::consts::TAU * uniform()).cos();
            (1000.0 + 10.0 * gauss).round() as u16
        })
        .collect()
}

struct Scene {
    params: Params,
    darks: Vec<u16>,
    data: Vec<u16>,
    lost: Option<PixelMask>,
}

impl Scene {
    fn new() -> Scene {
        let params = Params { pedestal_samples: 200, ..Params::new(ClusterSize { w: 3, h: 3 }) };
        Scene { params, darks: noise(200, 1), data: noise(FRAMES, 2), lost: None }
    }

    /// Changes the values of a pixel in all data frames.
    fn pixel(&mut self, at: usize, to: impl Fn(usize, u16) -> u16) {
        for k in 0..FRAMES {
            let x = &mut self.data[k * SHAPE.pixels() + at];
            *x = to(k, *x);
        }
    }

    fn run(&self) -> (Findings, Pedestal) {
        let mut finder = crate::CpuBackend::new().threads(1).unwrap().build(SHAPE, &self.params).unwrap();
        finder.train(Frames::new(&self.darks, SHAPE).unwrap()).unwrap();
        finder.finish_training().unwrap();
        let trained = finder.pedestal(0).unwrap();
        let mut clusters = ClusterWatch::new(&trained, &self.params);
        let mut frames = FrameWatch::new(&trained, &self.params);
        let mut source = Given { pixels: self.data.clone(), at: 0, lost: self.lost.clone() };
        Run::new(&mut *finder).find(&mut frames.on(&mut source), &mut [&mut clusters]).unwrap();
        let end = finder.pedestal(0).unwrap();
        assert_eq!(clusters.frames(), FRAMES as u64);
        assert_eq!(frames.counts().frames, 64);
        (Findings::new(&frames, &clusters, &trained, Some(&end), &self.params), trained)
    }
}

#[test]
fn an_ordinary_run_has_nothing_to_say() {
    let mut scene = Scene::new();
    for k in 0..FRAMES {
        scene.pixel(40 + k * 3 % 500, |j, x| if j == k { x + 700 } else { x });
    }
    let (found, _) = scene.run();
    assert_eq!(found.warnings(), Vec::<String>::new());
    assert!(found.pixels.lists().iter().all(|(_, _, list)| list.is_empty()));
    assert_eq!(found.frames.values, 64 * SHAPE.pixels() as u64);
    assert!(found.frames.above >= 64 && found.frames.below < 10, "{:?}", found.frames);
}

#[test]
fn photons_of_the_wrong_sign_are_counted() {
    let mut scene = Scene::new();
    for k in 0..FRAMES {
        scene.pixel(40 + k * 3 % 500, |j, x| if j == k { x - 300 } else { x });
    }
    let (found, _) = scene.run();
    assert!(found.frames.below >= 64, "{:?}", found.frames);
    let said = found.warnings().join("\n");
    assert!(said.contains("sigma below the pedestal") && said.contains("the first 64 frames"), "{said}");
}

#[test]
fn a_pedestal_of_another_setting_is_noticed() {
    let mut scene = Scene::new();
    scene.data.iter_mut().for_each(|x| *x += 400);
    let (found, _) = scene.run();
    let said = found.warnings().join("\n");
    assert!(said.contains("100 % of the values of the first 64 frames"), "{said}");
    // And every pixel stands still.
    assert_eq!(found.pixels.never_updated.len(), SHAPE.pixels());
}

#[test]
fn pixels_that_never_update_or_always_fire_are_listed() {
    let mut scene = Scene::new();
    scene.pixel(100, |_, x| x + 3000);
    scene.pixel(333, |_, x| x - 500);
    // In less than half of the frames: not always.
    scene.pixel(500, |k, x| if k % 5 < 2 { x + 3000 } else { x });
    let (found, _) = scene.run();
    assert_eq!(found.pixels.always_firing, [100]);
    // Its neighbours are in its shadow for ever.
    let shadow = [69, 70, 71, 99, 100, 101, 129, 130, 131, 333];
    assert_eq!(found.pixels.never_updated, shadow);
    let codes = found.pixels.codes();
    assert_eq!((codes[100], codes[333], codes[500], codes[69]), (8 + 16, 8, 0, 8));
    let said = found.warnings().join("\n");
    assert!(
        said.contains(
            "the pedestal of 10 pixels never changed in the run (row, column (2, 9), (2, 10), (2, 11), ...)"
        ),
        "{said}"
    );
    assert!(said.contains("1 pixel fires in more than half of the frames (row, column (3, 10))"), "{said}");
    // Masked, nothing is said of them.
    let mut mask = PixelMask::new(SHAPE);
    [100, 333].iter().for_each(|i| mask.insert_index(*i));
    scene.params.mask = Some(std::sync::Arc::new(mask));
    let (found, _) = scene.run();
    assert_eq!(found.warnings(), Vec::<String>::new());
}

#[test]
fn charge_at_the_end_of_the_range_is_counted_for_every_payload() {
    for payload in Payload::ALL {
        let mut scene = Scene::new();
        scene.params.payload = *payload;
        for k in [3, 70, 71] {
            scene.pixel(200 + k, |j, x| if j == k { 0x3FFF } else { x });
        }
        // Large, but not at the end.
        scene.pixel(50, |j, x| if j == 5 { 15_000 } else { x });
        let (found, _) = scene.run();
        assert_eq!((found.saturated_clusters, found.ceiling_adu), (3, 0x3FFF), "{payload}");
        assert_eq!(found.saturated_pixels, [203, 270, 271]);
        assert!(
            found
                .warnings()
                .join("\n")
                .contains("3 clusters have a pixel at the end of its range, 16383 ADU")
        );
        // A detector of 16 bits: a value above 14 bits in the first frames tells.
        scene.pixel(60, |j, x| if j == 5 { 0xFFFF } else { x });
        if *payload != Payload::I16 && *payload != Payload::F16 {
            let (found, _) = scene.run();
            assert_eq!((found.saturated_clusters, found.ceiling_adu), (1, 0xFFFF), "{payload}");
            assert_eq!(found.saturated_pixels, [60]);
        }
    }
}

#[test]
fn quiet_hot_and_untrained_pixels_come_from_the_darks() {
    let mut scene = Scene::new();
    for (k, frame) in scene.darks.chunks_mut(SHAPE.pixels()).enumerate() {
        frame[7] = 0x3FFF;
        frame[8] = if k % 2 == 0 { 900 } else { 1100 };
    }
    let (found, trained) = scene.run();
    assert_eq!((&found.pixels.quiet[..], &found.pixels.hot[..]), (&[7][..], &[8][..]));
    let said = found.warnings().join("\n");
    assert!(
        said.contains("1 pixel has no noise (stuck, or masked in hardware; row, column (0, 7))"),
        "{said}"
    );
    // A floor is the way out that it tells.
    scene.params.noise_floor_adu = 1.0;
    assert!(!scene.run().0.warnings().join("\n").contains("no noise"));
    scene.params.noise_floor_adu = 0.0;

    // Medians are those of the trained pixels, and of those that take part.
    let mut trained = Pedestal { untrained: Some(PixelMask::new(SHAPE)), ..trained };
    let usual = Medians::of(&trained, None);
    assert!((usual.mean_adu - 1000.0).abs() < 1.0 && (usual.noise_adu - 10.0).abs() < 0.5, "{usual:?}");
    for i in 100..SHAPE.pixels() {
        trained.x0[i] = 0;
        trained.untrained.as_mut().unwrap().insert_index(i);
    }
    let few = Medians::of(&trained, None);
    assert!((few.mean_adu - 1000.0).abs() < 1.0 && (few.noise_adu - 10.0).abs() < 1.0, "{few:?}");
    let said = Findings::of_pedestal(&trained, &scene.params).warnings().join("\n");
    assert!(
        said.contains("500 pixels were lost in all dark frames but one at most")
            && said.contains("most pixels"),
        "{said}"
    );
    let mut all = PixelMask::new(SHAPE);
    (0..SHAPE.pixels()).for_each(|i| all.insert_index(i));
    assert_eq!(Medians::of(&trained, Some(&all)), Medians::default());
    assert_eq!(FaultyPixels::of_pedestal(&trained, Some(&all)).quiet, Vec::<usize>::new());
}

#[test]
fn lost_pixels_are_no_values() {
    let mut scene = Scene::new();
    let mut lost = PixelMask::new(SHAPE);
    for i in 0..60 {
        lost.insert_index(i);
        scene.pixel(i, |k, _| if k % 2 == 0 { 0 } else { 0xFFFF });
    }
    scene.lost = Some(lost);
    let (found, _) = scene.run();
    assert_eq!((found.frames.below, found.frames.at_ceiling, found.ceiling_adu), (0, 0, 0x3FFF));
    assert_eq!(found.frames.values, 64 * (SHAPE.pixels() - 60) as u64);
}

#[test]
fn few_darks_are_said_beside_the_run() {
    let mut scene = Scene::new();
    scene.params.pedestal_samples = 20;
    scene.darks.truncate(20 * SHAPE.pixels());
    let (found, _) = scene.run();
    assert!(found.warnings()[0].starts_with("only 20 dark frames: "), "{:?}", found.warnings());
}
