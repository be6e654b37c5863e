//! What the conformance suite cannot ask: how often chunks were done again, and arithmetic bit by bit.

use half::f16;
use scheidegg_finder::{
    ClusterSize, ClustersBuf, Engine, Frames, Params, Payload, Pedestal, Precision, Shape, Ties, Trainer,
};
use scheidegg_kernels::device::block::Stored;
use scheidegg_kernels::device::half_bits;

use super::SimOptions;
use super::engine::{SimEngine, Sums};

const SHAPE: Shape = Shape { rows: 37, cols: 61 };

/// Noise of a few ADU around 1000, and on every frame some bright pixels.
fn frames(count: usize, photons: usize) -> Vec<u16> {
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut next = move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize
    };
    let mut pixels: Vec<u16> = (0..count * SHAPE.pixels()).map(|_| 1000 + (next() % 9) as u16).collect();
    for frame in pixels.chunks_mut(SHAPE.pixels()) {
        for _ in 0..photons {
            frame[next() % SHAPE.pixels()] += 500;
        }
    }
    pixels
}

fn pedestal(params: &Params) -> Pedestal {
    let mut trainer = Trainer::new(SHAPE);
    trainer.add(Frames::new(&frames(50, 0), SHAPE).unwrap()).unwrap();
    trainer.finish(params.precision).unwrap()
}

fn run<P: Sums>(params: &Params, options: SimOptions) -> (SimEngine<P>, ClustersBuf) {
    scheidegg_conformance::watchdog::over_this_test();
    let mut engine = SimEngine::<P>::new(SHAPE, params, options).unwrap();
    engine.start(&pedestal(params), None).unwrap();
    let mut out = ClustersBuf::new(SHAPE, params.size, params.payload);
    engine.find(Frames::new(&frames(20, 30), SHAPE).unwrap(), 0, &mut out).unwrap();
    (engine, out)
}

#[test]
fn too_little_room_costs_a_second_run_and_nothing_else() {
    let params = Params { payload: Payload::I16, lanes: 2, ..Params::new(ClusterSize::square(3).unwrap()) };
    let roomy = SimOptions {
        chunk_frames: 20,
        tile_capacity: 4096,
        chunk_capacity: 1 << 16,
        ..SimOptions::default()
    };
    let (engine, expected) = run::<f32>(&params, roomy.clone());
    assert_eq!(engine.redone(), 0);
    let clusters = expected.view();
    assert!(clusters.len() > 300, "{} clusters are too few to fill anything", clusters.len());

    // The fullest tile is known after a run with capacity 1.
    let tight = SimOptions { tile_capacity: 1, chunk_capacity: 0, ..roomy.clone() };
    let (engine, got) = run::<f32>(&params, tight);
    assert!(engine.redone() > 0);
    assert_eq!(got.view().bytes(), clusters.bytes());
    let (tile, chunk) = engine.capacities();
    assert_eq!(chunk, clusters.len() as u64);

    for (tile, chunk, redone) in [(tile, chunk, 0), (tile - 1, chunk, 1), (tile, chunk - 1, 1)] {
        let options = SimOptions { tile_capacity: tile, chunk_capacity: chunk, ..roomy.clone() };
        let (engine, got) = run::<f32>(&params, options);
        assert_eq!(engine.redone(), redone, "room for {tile} and {chunk}");
        assert_eq!(got.view().bytes(), clusters.bytes());
        assert_eq!(got.view().offsets(), clusters.offsets());
    }
}

#[test]
fn results_do_not_depend_on_how_the_work_is_cut() {
    for side in [2, 3, 7, 9] {
        for ties in [Ties::All, Ties::First] {
            let precision = Precision::F64F32;
            let params =
                Params { ties, lanes: 3, precision, ..Params::new(ClusterSize::square(side).unwrap()) };
            let (_, expected) = run::<f64>(
                &params,
                SimOptions { frames_per_launch: 1, chunk_frames: 20, ..SimOptions::default() },
            );
            for (frames_per_launch, chunk_frames, multiprocessors, lanes_together) in
                [(0, 7, 1, true), (0, 20, 24, false), (2, 7, 1, true), (3, 20, 9, false), (5, 3, 64, true)]
            {
                let options = SimOptions {
                    frames_per_launch,
                    chunk_frames,
                    multiprocessors,
                    lanes_together,
                    ..SimOptions::default()
                };
                let (engine, got) = run::<f64>(&params, options.clone());
                let resident = frames_per_launch == 0 && multiprocessors > 1 && side % 2 == 1;
                assert_eq!(
                    engine.is_resident(),
                    resident && ties == Ties::All,
                    "{side}, {ties}, {options:?}"
                );
                assert_eq!(got.view().bytes(), expected.view().bytes(), "{side}, {ties}, {options:?}");
                assert_eq!(got.view().offsets(), expected.view().offsets());
            }
        }
    }
}

#[test]
fn halves_are_those_of_the_half_crate() {
    // Every half, what lies half way to its neighbour, and the floats around that.
    for bits in 0..=u16::MAX {
        let h = f16::from_bits(bits);
        if h.is_nan() {
            continue;
        }
        let (low, high) = (h.to_f32(), f16::from_bits(bits.wrapping_add(1)).to_f32());
        let middle = if high.is_finite() { low * 0.5 + high * 0.5 } else { low };
        for d in [-2i32, -1, 0, 1, 2] {
            for v in [low, middle] {
                let v = f32::from_bits((v.to_bits() as i32).wrapping_add(d) as u32);
                if !v.is_nan() {
                    assert_eq!(half_bits(v), f16::from_f32(v).to_bits(), "{v:e}");
                }
            }
        }
    }
    for bits in (0..=u32::MAX).step_by(9973) {
        let v = f32::from_bits(bits);
        if !v.is_nan() {
            assert_eq!(half_bits(v), f16::from_f32(v).to_bits(), "{v:e}");
        }
    }
}

#[test]
fn differences_of_pixels_are_exact() {
    let ends = [0u16, 1, 2, 999, 1000, 16383, 32767, 32768, 65534, 65535];
    for x0 in ends {
        for x in ends {
            let expected = f64::from(x) - f64::from(x0);
            assert_eq!(f64::y(f64::with(f64::offset(x0), x)), expected);
            assert_eq!(f64::from(f32::y(f32::with(f32::offset(x0), x))), expected);
        }
    }
}
