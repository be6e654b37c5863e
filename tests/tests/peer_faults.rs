//! Faults that were seen in other finders and must be impossible here: one test each. Each first shows that its input
//! would provoke the fault.

use rayon::prelude::*;
use scheidegg::{
    Backend, Branch, ClusterSize, ClustersBuf, Engine, Error, Finder, Frames, LostPixels, Noise, Numbers,
    Params, Pedestal, PixelMask, Precision, Result, Shape, SyncFinder, Update,
};
use scheidegg_conformance::case::{self, Case, Step};
use scheidegg_conformance::synth::{Detector, Rng};
use scheidegg_cpu::OracleBackend;

fn params() -> Params {
    Params::new(ClusterSize { w: 3, h: 3 })
}

/// Fault: the variance of a constant pixel comes out a little below 0 by round-off, its noise is NaN, and no
/// comparison with it ever holds.
#[test]
fn round_off_never_makes_the_noise_nan() {
    let shape = Shape { rows: 8, cols: 256 };
    let n = shape.pixels();
    // Every pixel has one value for ever, over the whole range.
    let frame: Vec<u16> = (0..n).map(|i| (i * 32) as u16).collect();
    let (samples, darks) = (1000u64, frame.repeat(1000));

    let naive = |x: u16| {
        let (mut sum, mut sum2, x) = (0f32, 0f32, f32::from(x));
        (0..samples).for_each(|_| (sum, sum2) = (sum + x, sum2 + x * x));
        let mean = sum / samples as f32;
        (sum2 / samples as f32 - mean * mean).sqrt()
    };
    assert!(frame.iter().any(|&x| naive(x).is_nan()), "raw sums would be NaN somewhere");

    for &precision in Precision::ALL {
        for &noise in Noise::ALL {
            let params = Params { precision, noise, ..params() };
            let mut finder = OracleBackend::new().build(shape, &params).unwrap();
            finder.train(Frames::new(&darks, shape).unwrap()).unwrap();
            finder.train(Frames::new(&darks[..50 * n], shape).unwrap()).unwrap();
            let mut clusters = 0;
            finder
                .find(Frames::new(&darks[..20 * n], shape).unwrap(), &mut |batch| {
                    clusters += batch.len();
                    Ok(())
                })
                .unwrap();
            let pedestal = finder.pedestal(0).unwrap();
            assert!(pedestal.noise().iter().all(|v| *v == 0.0), "{precision} {noise}");
            assert_eq!(pedestal.quiet_pixels().len(), n);
            assert_eq!(clusters, 0, "a constant pixel is no photon");
        }
    }

    // Nearly constant: one value off in a thousand, which drifts out of the window over many updates.
    let mut darks = darks;
    (0..n).for_each(|i| darks[500 * n + i] = darks[500 * n + i].saturating_add(1));
    for &precision in Precision::ALL {
        let params = Params { precision, ..params() };
        let mut finder = OracleBackend::new().build(shape, &params).unwrap();
        finder.train(Frames::new(&darks, shape).unwrap()).unwrap();
        for _ in 0..5 {
            finder.train(Frames::new(&darks[..400 * n], shape).unwrap()).unwrap();
            assert!(finder.pedestal(0).unwrap().noise().iter().all(|v| v.is_finite() && *v < 0.1));
        }
    }
}

/// Fault: a pixel without noise (stuck, or masked in hardware) fires in every frame after its first step of 1 ADU.
#[test]
fn a_pixel_without_noise_is_reported_and_a_noise_floor_silences_it() {
    let shape = Shape { rows: 9, cols: 9 };
    let n = shape.pixels();
    let mut rng = Rng::new(7);
    // The 5x5 pixels in the middle are stuck; only their centre ever steps, so that its window is quiet.
    let stuck = |i: usize| (2..7).contains(&(i / 9)) && (2..7).contains(&(i % 9));
    let mut frames = |count: usize, centre: u16| -> Vec<u16> {
        let one = |i: usize| match i % n {
            40 => centre,
            i if stuck(i) => 3000,
            _ => (3000.0 + 10.0 * rng.normal()).round() as u16,
        };
        (0..count * n).map(one).collect()
    };
    let (darks, data) = (frames(500, 3000), frames(100, 3001));
    let run = |noise_floor_adu: f64, noise: Noise| {
        let params = Params { noise_floor_adu, noise, pedestal_samples: 500, ..params() };
        let mut finder = OracleBackend::new().build(shape, &params).unwrap();
        finder.train(Frames::new(&darks, shape).unwrap()).unwrap();
        let quiet = finder.pedestal(0).unwrap().quiet_pixels();
        let mut fired = 0;
        finder
            .find(Frames::new(&data, shape).unwrap(), &mut |batch| {
                fired += batch.iter().filter(|c| (c.x, c.y) == (4, 4)).count();
                Ok(())
            })
            .unwrap();
        (quiet, fired)
    };
    for &noise in Noise::ALL {
        let (quiet, fired) = run(0.0, noise);
        assert_eq!(fired, 100, "without a floor it fires in every frame");
        assert!(quiet.contains(&(4, 4)) && quiet.len() == 25, "the pixels are reported: {quiet:?}");
        assert_eq!(run(1.0, noise), (quiet, 0), "with a floor of 1 ADU it is silent");
    }
}

/// Fault: a frame of another shape is read past its end, or taken for one of the right shape.
#[test]
fn a_frame_of_another_shape_is_refused_by_name() {
    let shape = Shape { rows: 20, cols: 30 };
    let mut finder = OracleBackend::new().build(shape, &params()).unwrap();
    let pixels = vec![1u16; 600];
    for (rows, cols) in [(30, 20), (1, 600), (20, 29), (10, 30)] {
        let wrong = Shape { rows, cols };
        let frames = Frames::strided(&pixels, wrong, 1, wrong.pixels()).unwrap();
        for outcome in [finder.train(frames), finder.submit(frames).map(|_| ())] {
            let error = outcome.unwrap_err();
            assert!(matches!(error, Error::ShapeMismatch { .. }), "{error}");
            let words = error.to_string();
            assert!(words.contains("20 x 30") && words.contains(&wrong.to_string()), "{words}");
        }
    }
    let short = Frames::new(&pixels[..599], shape).unwrap_err();
    assert!(short.to_string().contains("599"), "{short}");
    assert!(Frames::new(&[], Shape { rows: 0, cols: 5 }).is_err());
    assert!(Frames::strided(&pixels, shape, usize::MAX, usize::MAX).is_err());
}

/// Fails in a worker thread at the frame whose first pixel is 1 (panic) or 2 (error).
struct Faulty {
    pool: rayon::ThreadPool,
    pedestal: Option<Pedestal>,
}

impl Engine for Faulty {
    fn name(&self) -> &str {
        "faulty"
    }
    fn start(&mut self, pedestal: &Pedestal, _: Option<&PixelMask>) -> Result<()> {
        self.pedestal = Some(pedestal.clone());
        Ok(())
    }
    fn find(&mut self, frames: Frames<'_>, _: u64, out: &mut ClustersBuf) -> Result<u64> {
        let work = |k: usize| match frames.frame(k)[0] {
            1 => panic!("a worker's panic"),
            2 => Err(Error::Other("a worker's error".into())),
            _ => Ok(()),
        };
        self.pool.install(|| (0..frames.len()).into_par_iter().try_for_each(work))?;
        (0..frames.len()).for_each(|k| out.push_frame(frames.number(k), &[]));
        Ok(0)
    }
    fn pedestal(&self, _: usize) -> Pedestal {
        self.pedestal.clone().unwrap()
    }
    fn set_lane(&mut self, _: usize, pedestal: &Pedestal) {
        self.pedestal = Some(pedestal.clone());
    }
}

/// Fault: an error in a worker thread ends the process, or is lost.
#[test]
fn a_workers_error_ends_the_batch_and_nothing_else() {
    let shape = Shape { rows: 4, cols: 4 };
    let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build().unwrap();
    let params = Params { pedestal_samples: 2, ..params() };
    let mut finder = SyncFinder::new(Faulty { pool, pedestal: None }, shape, &params).unwrap();
    finder.train(Frames::new(&[0; 32], shape).unwrap()).unwrap();
    let saved = finder.pedestal(0).unwrap();
    for (fault, words) in [(1, "a worker's panic"), (2, "a worker's error")] {
        let mut pixels = vec![0u16; 16 * 5];
        let good = finder.submit(Frames::new(&pixels, shape).unwrap()).unwrap();
        pixels[16 * 3] = fault;
        let error = finder.submit(Frames::new(&pixels, shape).unwrap()).unwrap_err();
        assert!(error.to_string().contains(words), "{error}");
        // What was found before is there; what comes after is refused until a pedestal is set.
        assert_eq!(finder.collect(good).unwrap().frames(), 5);
        for refused in
            [finder.submit(Frames::new(&[0; 16], shape).unwrap()).map(|_| ()), finder.refresh_noise()]
        {
            let words = refused.unwrap_err().to_string();
            assert!(words.contains("an earlier batch failed"), "{words}");
        }
        assert!(finder.pedestal(0).is_err(), "the pedestal after a failed batch is not known");
        finder.set_pedestal(&saved).unwrap();
        let ticket = finder.submit(Frames::new(&[0; 16], shape).unwrap()).unwrap();
        assert_eq!(finder.collect(ticket).unwrap().frames(), 1);
    }
}

/// Fault: the clusters depend on the number of threads, or come in no order.
#[test]
fn results_do_not_depend_on_threads_and_come_in_order() {
    let shape = Shape { rows: 61, cols: 83 };
    let mut detector = Detector::new(shape, 11);
    let (darks, data) = (detector.darks(50), detector.photons(60, 0.02));
    for update in [Update::Frozen, Update::Serial] {
        for lanes in [1, 4] {
            let p = Params { update, lanes, ..params() };
            let mut case = Case::new("threads", shape, p, darks.clone(), data.clone());
            case.steps[1] = Step::Find(0..60, vec![17]);
            let one = case::run(&OracleBackend::new(), &case, false).unwrap();
            assert!(one.statistics.clusters > 1000, "{} clusters", one.statistics.clusters);
            for threads in [2, 3, 7, 64] {
                let many = case::run(&OracleBackend::with_threads(threads).unwrap(), &case, false).unwrap();
                assert_eq!(case::difference(&case, &one, &many), None, "{threads} threads, {lanes} lanes");
            }
            let mut finder = OracleBackend::with_threads(5).unwrap().build(shape, &case.params).unwrap();
            finder.train(case.dark_frames()).unwrap();
            let mut next = 0;
            finder
                .find(case.data_frames(), &mut |batch| {
                    for k in 0..batch.frames() {
                        assert_eq!(batch.numbers()[k], next);
                        next += 1;
                        let places: Vec<(u16, u16)> = batch.frame(k).map(|c| (c.y, c.x)).collect();
                        assert!(places.is_sorted_by(|a, b| a < b), "raster order");
                    }
                    Ok(())
                })
                .unwrap();
            assert_eq!(next, 60);
        }
    }
}

/// Fault: frame numbers are kept in 32 bits and turn negative or start over.
#[test]
fn frame_numbers_above_31_and_32_bits_are_kept() {
    let shape = Shape { rows: 5, cols: 5 };
    let mut finder = OracleBackend::new().build(shape, &Params { pedestal_samples: 2, ..params() }).unwrap();
    finder.train(Frames::new(&[9; 50], shape).unwrap()).unwrap();
    let pixels = [9u16; 75];
    let frames = Frames::new(&pixels, shape).unwrap();
    for first in [(1u64 << 31) - 1, u64::from(u32::MAX), 1 << 53, u64::MAX - 3] {
        let ticket = finder.submit(frames.with_numbers(Numbers::From(first)).unwrap()).unwrap();
        assert_eq!(finder.collect(ticket).unwrap().numbers(), [first, first + 1, first + 2]);
    }
    let error = frames.with_numbers(Numbers::From(u64::MAX - 1)).unwrap_err();
    assert!(error.to_string().contains("first frame number"), "{error}");
}

/// Fault: the rows of a lost packet, filled with 0xFFFF, are found as photons and fed to the pedestal.
#[test]
fn rows_of_lost_packets_are_neither_found_nor_fed_to_the_pedestal() {
    let shape = Shape { rows: 16, cols: 24 };
    let n = shape.pixels();
    let mut rng = Rng::new(13);
    let mut dark = |count: usize| -> Vec<u16> {
        (0..count * n).map(|_| (2000.0 + 8.0 * rng.normal()).round() as u16).collect()
    };
    let (mut darks, mut data) = (dark(100), dark(40));
    let rows = 4..8;
    let mut lost_rows = PixelMask::new(shape);
    rows.clone().for_each(|row| (0..shape.cols).for_each(|col| lost_rows.insert(row, col)));
    let lose = |pixels: &mut [u16], frames: &[usize]| -> Vec<LostPixels> {
        for &k in frames {
            pixels[k * n..][rows.start * shape.cols..rows.end * shape.cols].fill(0xFFFF);
        }
        frames.iter().map(|&frame| LostPixels { frame, mask: lost_rows.clone() }).collect()
    };
    let darks_lost = lose(&mut darks, &[0, 50, 99]);
    let data_lost = lose(&mut data, &[3, 4, 20]);

    let params = Params { trace: true, ..params() };
    for &update in Update::ALL {
        let mut case =
            Case::new("lost", shape, Params { update, ..params.clone() }, darks.clone(), data.clone());
        let unmarked = case::run(&OracleBackend::new(), &case, false).unwrap();
        let highest = unmarked.pedestals[0].mean()[(5, 5)];
        assert!(highest > 3000.0, "unmarked, they are fed to the pedestal: mean {highest} ADU");
        case.darks_lost = darks_lost.clone();
        let unmarked = case::run(&OracleBackend::new(), &case, false).unwrap();
        assert!(unmarked.statistics.clusters > 20, "unmarked, they are found: {:?}", unmarked.statistics);

        case.data_lost = data_lost.clone();
        let got = case::run(&OracleBackend::new(), &case, false).unwrap();
        assert_eq!(got.statistics.clusters, 0);
        assert_eq!(got.statistics.lost_pixels, 3 * 4 * 24);
        let trace = got.trace.as_ref().unwrap();
        for k in 0..40 {
            let lost = [3, 4, 20].contains(&k);
            for i in 0..n {
                let masked = trace[k * n + i] == Branch::Masked as u8;
                assert_eq!(masked, lost && rows.contains(&(i / shape.cols)), "frame {k} pixel {i}");
            }
        }
        let pedestal = &got.pedestals[0];
        assert!(pedestal.untrained.is_none());
        for (mean, noise) in pedestal.mean().iter().zip(&pedestal.noise()) {
            assert!((1990.0..2010.0).contains(mean) && (4.0..12.0).contains(noise), "{mean} {noise}");
        }
    }
    // A detector whose rows are always lost: they are masked for the run, not judged against an empty pedestal.
    let mut case = Case::new("always lost", shape, params, darks, data);
    case.darks_lost = (0..100).map(|frame| LostPixels { frame, mask: lost_rows.clone() }).collect();
    let got = case::run(&OracleBackend::new(), &case, false).unwrap();
    assert_eq!(got.pedestals[0].untrained.as_ref(), Some(&lost_rows));
    assert_eq!(got.statistics.clusters, 0);
}
