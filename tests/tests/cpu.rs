//! The fast CPU finder: every instruction set of the machine, forced one by one, returns the oracle's bytes.
//!
//! `SCHEIDEGG_SEED=N` repeats the random runs.

use std::ops::Range;
use std::sync::Arc;

use scheidegg::io::simulate::Simulation;
use scheidegg::{Backend, ClusterSize, Error, Noise, Params, Payload, Precision, Shape, Ties, Update};
use scheidegg_conformance::case::{self, Case, Step};
use scheidegg_conformance::suite::{self, Options};
use scheidegg_conformance::synth::{self, Detector, Rng};
use scheidegg_cpu::OracleBackend;
use scheidegg_cpu::simd::{CpuBackend, Isa};

/// Small frames in all, for every instruction set.
const SMALL_FRAMES: usize = 10_000;
/// Simulated frames in all.
const SIMULATED_FRAMES: usize = 240;
/// Frames of a run at most.
const RUN: usize = 100;

fn conforms(isa: Isa, threads: usize) {
    suite::run(&CpuBackend::new().with_isa(isa).threads(threads).unwrap(), &Options::default()).assert();
}

#[test]
fn avx512_conforms() {
    conforms(Isa::Avx512, 1);
}

#[test]
fn avx2_conforms() {
    conforms(Isa::Avx2, 1);
}

#[test]
fn portable_conforms() {
    conforms(Isa::Portable, 1);
}

#[test]
fn the_default_conforms_on_3_threads() {
    suite::run(&CpuBackend::new().threads(3).unwrap(), &Options::default()).assert();
}

#[test]
fn the_default_conforms_on_all_cores() {
    suite::run(&CpuBackend::new(), &Options::default()).assert();
}

/// The instruction sets of this machine; those it lacks are counted skips, or failures when they are required.
fn present() -> Vec<Isa> {
    let (here, absent): (Vec<Isa>, Vec<Isa>) = Isa::ALL.into_iter().partition(|isa| isa.is_available());
    for isa in absent {
        let backend = CpuBackend::new().with_isa(isa);
        let error = backend.probe().expect_err("an instruction set that is not there");
        assert!(matches!(error, Error::Unavailable { .. }), "{error}");
        assert!(!Options::default().requires(backend.name()), "{isa} is required: {error}");
        println!("SKIPPED: {error}");
    }
    here
}

fn random_case(rng: &mut Rng, frames: usize) -> Case {
    let mut below = |n: usize| (rng.bits() % n as u64) as usize;
    // Widths around whole numbers of vectors, and windows larger than the frame, are the hard ones.
    let shape = Shape { rows: 1 + below(30), cols: 1 + below(70) };
    let size = match below(3) {
        0 => ClusterSize { w: 2 + below(14), h: 2 + below(14) },
        _ => ClusterSize::square([3, 5, 7, 9][below(4)]).expect("a side within 2 to 15"),
    };
    let odd = size.w % 2 == 1 && size.h % 2 == 1;
    let params = Params {
        n_sigma: [1.5, 3.0, 5.0, 8.0][below(4)],
        update: Update::ALL[below(2)],
        noise: Noise::ALL[below(2)],
        precision: Precision::ALL[below(3)],
        ties: Ties::ALL[usize::from(below(4) == 0)],
        payload: Payload::ALL[below(8).saturating_sub(4)],
        test2: odd && below(4) == 0,
        trace: below(4) == 0,
        lanes: 1 + below(8).saturating_sub(5),
        noise_floor_adu: [0.0, 0.0, 7.5][below(3)],
        ..Params::new(size)
    };
    let (light, masked, lost) = (below(4), below(4) == 0, below(4) == 0);
    let batches = vec![1 + below(20), 1 + below(20)];
    let n = shape.pixels();
    let seed = rng.bits();
    let mut detector = Detector::new(shape, seed);
    let darks = match light {
        1 => (0..6 * n).map(|i| 1000 + 8 * (i / n % 2) as u16).collect(),
        _ => detector.darks(6 + (seed % 60) as usize),
    };
    let mut any_of = |values: &[u16]| (0..frames * n).map(|_| rng.pick(values)).collect();
    let data = match light {
        0 => detector.photons(frames, 0.02),
        1 => any_of(&[996, 1004, 1004, 1004, 1012, 1024, 1040]),
        2 => any_of(&[0, 0, 0, 65535, 65535, 4000, 5000, 1]),
        _ => detector.photons(frames, 0.2),
    };
    let mut case = Case::new(format!("{shape}, {params:?}"), shape, params, darks, data);
    if masked {
        case.params.mask = Some(Arc::new(synth::mask(shape, 0.1, rng)));
    }
    if lost {
        case.data_lost = synth::lose_rows(shape, &mut case.data, 0.3, rng);
    }
    case.steps[1] = Step::Find(0..frames, batches);
    case
}

fn seed() -> u64 {
    let seed = Options::default().seed;
    println!("SCHEIDEGG_SEED={seed}");
    seed
}

/// Compares every instruction set with the oracle, with so many frames going through the rows at once; returns the
/// clusters found.
fn agree(case: &Case, threads: usize, group: usize) -> u64 {
    let expected = case::run(&OracleBackend::new(), case, false).expect("the oracle runs");
    for isa in present() {
        let backend = CpuBackend::new().with_isa(isa).threads(threads).and_then(|b| b.group(group)).unwrap();
        let got = case::run(&backend, case, true).unwrap_or_else(|e| panic!("{isa}: {}: {e}", case.name));
        if let Some(what) = case::difference(case, &expected, &got) {
            panic!("{isa}, {threads} threads, groups of {group}: {}: {what}", case.name);
        }
    }
    expected.statistics.clusters
}

#[test]
fn ten_thousand_small_frames_agree() {
    let mut rng = Rng::new(seed());
    let (mut done, mut clusters) = (0, 0);
    while done < SMALL_FRAMES {
        let frames = 5 + (rng.bits() % 40) as usize;
        let case = random_case(&mut rng, frames);
        clusters += agree(&case, 1 + done % 3, 1 + done / 3 % 4);
        done += frames;
    }
    assert!(clusters > SMALL_FRAMES as u64, "{clusters} clusters in {done} frames: nothing was tested");
}

/// Simulated frames of a MÖNCH in copper fluorescence, shared between the modes. `SCHEIDEGG_SIMULATED_FRAMES` says how
/// many: 240 take seconds, 10 000 a quarter of an hour.
#[test]
fn simulated_frames_agree() {
    let simulator = Simulation::default().without_faults().build().expect("a simulation");
    let shape = simulator.shape();
    let take = |range: Range<usize>, dark: bool| {
        let mut pixels = vec![0u16; range.len() * shape.pixels()];
        for (k, frame) in range.zip(pixels.chunks_exact_mut(shape.pixels())) {
            match dark {
                true => Arc::clone(&simulator).dark(k as u64, frame),
                false => Arc::clone(&simulator).frame(k as u64, frame),
            };
        }
        pixels
    };
    let darks = take(0..200, true);
    let modes = [
        (3, Update::Frozen, Noise::Tracked, Precision::F32),
        (9, Update::Frozen, Noise::Fixed, Precision::F32),
        (5, Update::Frozen, Noise::Tracked, Precision::F64F32),
        (3, Update::Serial, Noise::Tracked, Precision::F64),
        (7, Update::Serial, Noise::Tracked, Precision::F64F32),
        (3, Update::Serial, Noise::Tracked, Precision::F32),
    ];
    let wanted = std::env::var("SCHEIDEGG_SIMULATED_FRAMES").map_or(SIMULATED_FRAMES, |n| {
        n.parse().unwrap_or_else(|e| panic!("SCHEIDEGG_SIMULATED_FRAMES={n}: {e}"))
    });
    let share = wanted.div_ceil(modes.len());
    let (mut done, mut clusters) = (0, 0);
    for (i, (side, update, noise, precision)) in modes.into_iter().enumerate() {
        let size = ClusterSize::square(side).expect("a side within 2 to 15");
        let params = Params { update, noise, precision, ..Params::new(size) };
        for first in (0..share).step_by(RUN) {
            let frames = (share - first).min(RUN);
            // Every run sees other frames.
            let at = i * share + first;
            let data = take(at..at + frames, false);
            let mut case =
                Case::new(format!("{shape}, {params:?}"), shape, params.clone(), darks.clone(), data);
            case.steps[1] = Step::Find(0..frames, vec![frames, 7]);
            let found = agree(&case, 1 + i % 3, [1, 4][i % 2]);
            assert!(found > 300 * frames as u64, "{found} clusters in {frames} frames: nothing was tested");
            (done, clusters) = (done + frames, clusters + found);
        }
    }
    println!("{done} simulated frames, {clusters} clusters, the same with {:?}", present());
}

#[test]
fn an_unknown_instruction_set_is_refused_by_name() {
    let error = "avx1024".parse::<Isa>().expect_err("no such instruction set");
    assert!(error.to_string().contains("portable or avx2 or avx512"), "{error}");
}
