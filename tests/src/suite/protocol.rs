//! The order of calls, wrong calls, numbers of frames, and how frames lie in memory.

use std::sync::Arc;

use scheidegg::{
    Backend, ClusterSize, ClustersBuf, Error, Finder, FrameOwner, Frames, LostPixels, Numbers, Params,
    PixelMask, Precision, Result, Shape,
};

use super::{Check, Outcome, holds, refused};
use crate::case::{self, Case};
use crate::synth::Detector;

pub(super) const SHAPE: Shape = Shape { rows: 14, cols: 21 };

pub(super) fn checks() -> Vec<Check> {
    vec![
        Check::new("the common case is supported", common),
        Check::new("the branch of every pixel", traced),
        Check::new("the finder says who runs it", names_itself),
        Check::new("parameters outside their range", bad_params),
        Check::new("frames of another shape", wrong_shapes),
        Check::new("batches without frames", empty_batches),
        Check::new("frame numbers are kept", frame_numbers),
        Check::new("frames with gaps between them", strided),
        Check::new("frames in the backend's own buffer", own_buffer),
        Check::new("find hands out every batch in order", find_in_order),
        Check::new("clusters collected into a buffer", into_a_buffer),
        Check::new("statistics", statistics),
        Check::new("lanes that are not there", no_such_lane),
    ]
}

fn params() -> Params {
    Params { pedestal_samples: 25, ..Params::new(ClusterSize { w: 3, h: 3 }) }
}

pub(super) fn photons(frames: usize) -> Case {
    let mut detector = Detector::new(SHAPE, 5);
    let darks = detector.darks(25);
    Case::new("protocol", SHAPE, params(), darks, detector.photons(frames, 0.03))
}

pub(super) fn trained(backend: &dyn Backend, case: &Case) -> Result<Box<dyn Finder>> {
    let mut finder = backend.build(case.shape, &case.params)?;
    finder.train(case.dark_frames())?;
    Ok(finder)
}

/// What a finder must do to be one: everything else may be unsupported.
fn common(backend: &dyn Backend) -> Outcome {
    match case::run(backend, &photons(4), false) {
        Ok(out) => holds(!out.records.is_empty(), || "no clusters among photons".into()),
        // Not a skip: a backend that skips everything would pass.
        Err(e) => holds(false, || format!("frozen, tracked, f32, i32 values, 3x3: {e}")),
    }
}

/// A trace for every frame when it is asked for, and none otherwise.
fn traced(backend: &dyn Backend) -> Outcome {
    let mut case = photons(7);
    let without = case::run(backend, &case, false)?;
    holds(without.trace.is_none(), || "a trace that nobody asked for".into())?;
    case.params.trace = true;
    super::agrees(backend, &case, true)?;
    let with = case::run(backend, &case, false)?;
    let bytes = with.trace.as_ref().map(Vec::len);
    holds(bytes == Some(7 * SHAPE.pixels()), || format!("{bytes:?} bytes of trace for 7 frames of {SHAPE}"))?;
    holds(with.records == without.records, || "other clusters with a trace than without".into())
}

fn names_itself(backend: &dyn Backend) -> Outcome {
    let finder = backend.build(SHAPE, &params())?;
    holds(finder.backend() == backend.name(), || {
        format!("Finder::backend says {:?}, the backend is {:?}", finder.backend(), backend.name())
    })?;
    holds(finder.shape() == SHAPE && *finder.params() == params(), || "another shape or parameters".into())?;
    holds(!backend.summary().is_empty() && !backend.name().is_empty(), || "no name or no summary".into())
}

fn bad_params(backend: &dyn Backend) -> Outcome {
    let p = params;
    let size = |w, h| Params { size: ClusterSize { w, h }, ..p() };
    let bad = [
        size(1, 3),
        size(3, 16),
        Params { n_sigma: 0.0, ..p() },
        Params { n_sigma: f64::NAN, ..p() },
        Params { n_sigma: f64::INFINITY, ..p() },
        Params { noise_floor_adu: -1.0, ..p() },
        Params { noise_floor_adu: f64::NAN, ..p() },
        Params { lanes: 0, ..p() },
        Params { lanes: 1 << 20, ..p() },
        Params { pedestal_samples: 1, ..p() },
        Params { pedestal_samples: 1 << 40, ..p() },
        Params { test2: true, ..size(4, 4) },
        Params { test2: true, ..size(3, 4) },
    ];
    for params in bad {
        refused(&format!("{params:?}"), backend.build(SHAPE, &params), |e| matches!(e, Error::Param { .. }))?;
    }
    let mask = Some(Arc::new(PixelMask::new(Shape { rows: SHAPE.rows + 1, cols: SHAPE.cols })));
    refused("a mask of another shape", backend.build(SHAPE, &Params { mask, ..p() }), |e| {
        matches!(e, Error::ShapeMismatch { .. })
    })?;
    for (rows, cols) in [(0, 5), (5, 0), (65_537, 1)] {
        refused(&format!("frames of {rows} x {cols}"), backend.build(Shape { rows, cols }, &p()), |e| {
            matches!(e, Error::Param { .. })
        })?;
    }
    Ok(())
}

fn wrong_shapes(backend: &dyn Backend) -> Outcome {
    let case = photons(6);
    let want = case::run(backend, &case, false)?;
    let mut finder = backend.build(SHAPE, &case.params)?;
    // As many pixels, or fewer, or more; none may be read as if it were right.
    let pixels = vec![7u16; SHAPE.pixels() * 4];
    let shapes =
        [(SHAPE.cols, SHAPE.rows), (SHAPE.rows, SHAPE.cols * 2), (SHAPE.rows / 2, SHAPE.cols), (1, 1)];
    let is_shape = |e: &Error| {
        matches!(e, Error::ShapeMismatch { expected, got, .. } if *expected == SHAPE && *got != SHAPE)
            && e.to_string().contains("14 x 21")
    };
    let all = |finder: &mut dyn Finder, when: &str| -> Outcome {
        for (rows, cols) in shapes {
            let shape = Shape { rows, cols };
            let wrong = Frames::strided(&pixels, shape, 1, shape.pixels())?;
            refused(&format!("dark frames of {shape} {when}"), finder.train(wrong), is_shape)?;
            refused(&format!("frames of {shape} {when}"), finder.submit(wrong), is_shape)?;
        }
        Ok(())
    };
    all(finder.as_mut(), "before training")?;
    finder.train(case.dark_frames())?;
    all(finder.as_mut(), "after training")?;
    let mut got = case::Outcome::default();
    for batch in case.data_frames().batches(finder.max_batch_frames().min(3)) {
        let ticket = finder.submit(batch)?;
        got.append(&finder.collect(ticket)?);
        all(finder.as_mut(), "between batches")?;
    }
    got.pedestals = vec![finder.pedestal(0)?];
    got.statistics = finder.statistics();
    got.statistics.redone = 0;
    match case::difference(&case, &want, &got) {
        None => Ok(()),
        Some(what) => Err(format!("after refused frames: {what}").into()),
    }
}

fn empty_batches(backend: &dyn Backend) -> Outcome {
    let most = backend.build(SHAPE, &params())?.max_batch_frames();
    let (some, more) = (most.min(2), most.min(3));
    let case = photons(some + more);
    let want = case::run(backend, &case, false)?;
    let mut finder = trained(backend, &case)?;
    finder.train(case.dark_frames().slice(0, 0))?;
    let frames = case.data_frames();
    let nothing = frames.slice(some, 0);
    let mut got = case::Outcome::default();
    for frames in [nothing, frames.slice(0, some), nothing, frames.slice(some, more), nothing] {
        let ticket = finder.submit(frames)?;
        let batch = finder.collect(ticket)?;
        holds(batch.frames() == frames.len(), || {
            format!("{} frames, expected {}", batch.frames(), frames.len())
        })?;
        got.append(&batch);
    }
    finder.find(nothing, &mut |batch| match batch.frames() {
        0 => Ok(()),
        n => Err(Error::Other(format!("{n} frames out of none"))),
    })?;
    got.pedestals = vec![finder.pedestal(0)?];
    got.statistics = want.statistics;
    match case::difference(&case, &want, &got) {
        None => Ok(()),
        Some(what) => Err(what.into()),
    }
}

fn frame_numbers(backend: &dyn Backend) -> Outcome {
    let case = photons(6);
    let mut finder = trained(backend, &case)?;
    let list = [u64::MAX, 0, 1 << 31, (1 << 31) + 1, 1 << 32, 1 << 53];
    let first = (1u64 << 40) - 2;
    for (numbers, want) in [
        (Numbers::List(&list), list.to_vec()),
        (Numbers::From(first), (first..first + 6).collect()),
        (Numbers::From((1 << 31) - 3), ((1 << 31) - 3..(1 << 31) + 3).collect()),
    ] {
        let mut found = case::Outcome::default();
        case::find(finder.as_mut(), case.data_frames().with_numbers(numbers)?, &[6], &mut found)?;
        let got = found.numbers;
        holds(got == want, || format!("frame numbers {got:?}, expected {want:?}"))?;
    }
    Ok(())
}

fn strided(backend: &dyn Backend) -> Outcome {
    let case = photons(7);
    let want = case::run(backend, &case, false)?;
    let (n, gap) = (SHAPE.pixels(), 11);
    let spread = |pixels: &[u16]| {
        let mut wide = Vec::new();
        for frame in pixels.chunks_exact(n) {
            wide.extend(frame);
            wide.extend([0xFFFF; 11]);
        }
        // The last frame may end where the memory does.
        wide.truncate(wide.len() - gap);
        wide
    };
    let (darks, data) = (spread(&case.darks), spread(&case.data));
    let mut finder = backend.build(SHAPE, &case.params)?;
    finder.train(Frames::strided(&darks, SHAPE, 25, n + gap)?)?;
    let mut got = case::Outcome::default();
    let frames = Frames::strided(&data, SHAPE, 7, n + gap)?;
    for batch in frames.batches(finder.max_batch_frames().min(3)) {
        let ticket = finder.submit(batch)?;
        got.append(&finder.collect(ticket)?);
    }
    got.pedestals = vec![finder.pedestal(0)?];
    got.statistics = want.statistics;
    match case::difference(&case, &want, &got) {
        None => Ok(()),
        Some(what) => Err(what.into()),
    }
}

/// Frames in the memory that the backend hands out, shared with it until they are collected; what lies behind the
/// last frame of the buffer is poison.
fn own_buffer(backend: &dyn Backend) -> Outcome {
    let mut case = photons(9);
    let mut lost = PixelMask::new(SHAPE);
    (0..SHAPE.cols).for_each(|col| lost.insert(3, col));
    case.data_lost = vec![LostPixels { frame: 4, mask: lost.clone() }];
    let want = case::run(backend, &case, false)?;
    let mut finder = trained(backend, &case)?;
    let mut got = case::Outcome::default();
    let frames = case.data_frames();
    for batch in frames.batches(finder.max_batch_frames().min(4)) {
        let mut buffer = finder.frame_buffer(6)?;
        holds(buffer.capacity() >= 6 && buffer.shape() == SHAPE, || {
            format!("{buffer:?}, asked for 6 frames")
        })?;
        while !buffer.is_full() {
            buffer.push(0, |pixels| {
                pixels.fill(0xFFFF);
                Ok(None)
            })?;
        }
        buffer.clear();
        for k in 0..batch.len() {
            buffer.push(batch.number(k), |pixels| {
                pixels.copy_from_slice(batch.frame(k));
                Ok(batch.lost(k).cloned())
            })?;
        }
        let shared: Arc<dyn FrameOwner> = Arc::new(buffer);
        let ticket = finder.submit_shared(Arc::clone(&shared))?;
        got.append(&finder.collect(ticket)?);
    }
    got.pedestals = vec![finder.pedestal(0)?];
    got.statistics = want.statistics;
    match case::difference(&case, &want, &got) {
        None => Ok(()),
        Some(what) => Err(what.into()),
    }
}

fn find_in_order(backend: &dyn Backend) -> Outcome {
    let mut detector = Detector::new(SHAPE, 6);
    let darks = detector.darks(25);
    let mut finder = backend.build(SHAPE, &params())?;
    let count = finder.batch_frames().min(512) * 2 + 3;
    let case = Case::new("find", SHAPE, params(), darks, detector.photons(count, 0.02));
    finder.train(case.dark_frames())?;
    let mut got = case::Outcome::default();
    finder.find(case.data_frames(), &mut |batch| {
        got.append(&batch);
        Ok(())
    })?;
    got.pedestals = vec![finder.pedestal(0)?];
    got.statistics = finder.statistics();
    got.statistics.redone = 0;
    let want = case::run(backend, &case, false)?;
    match case::difference(&case, &want, &got) {
        None => Ok(()),
        Some(what) => Err(what.into()),
    }
}

/// Batches into a buffer that still holds the one before.
fn into_a_buffer(backend: &dyn Backend) -> Outcome {
    let mut case = photons(9);
    for trace in [false, true] {
        case.params.trace = trace;
        let want = case::run(backend, &case, false)?;
        let (mut finder, mut other) = (trained(backend, &case)?, trained(backend, &case)?);
        let mut buffer = ClustersBuf::new(SHAPE, case.params.size, case.params.payload);
        let mut got = case::Outcome::default();
        let frames = case.data_frames();
        for batch in [frames.slice(0, 0)].into_iter().chain(frames.batches(finder.max_batch_frames().min(4)))
        {
            let ticket = finder.submit(batch)?;
            let foreign = other.submit(frames.slice(0, 0))?;
            refused("another finder's ticket", finder.collect_into(foreign, &mut buffer), |e| {
                matches!(e, Error::WrongTicket { .. })
            })?;
            other.abandon();
            finder.collect_into(ticket, &mut buffer)?;
            got.append(&buffer.view());
        }
        got.pedestals = vec![finder.pedestal(0)?];
        got.statistics = finder.statistics();
        got.statistics.redone = 0;
        if let Some(what) = case::difference(&case, &want, &got) {
            return Err(what.into());
        }
    }
    Ok(())
}

fn statistics(backend: &dyn Backend) -> Outcome {
    let case = photons(8);
    let mut finder = trained(backend, &case)?;
    let zero = finder.statistics();
    holds(zero == Default::default(), || format!("{zero:?} before any frame"))?;
    let mut clusters = 0;
    finder.find(case.data_frames(), &mut |batch| {
        clusters += batch.len() as u64;
        Ok(())
    })?;
    let s = finder.statistics();
    holds((s.frames, s.clusters, s.lost_pixels) == (8, clusters, 0), || {
        format!("{s:?} after 8 frames with {clusters} clusters")
    })
}

fn no_such_lane(backend: &dyn Backend) -> Outcome {
    let mut case = photons(5);
    case.params.lanes = 3;
    case.params.precision = Precision::F32;
    let mut finder = trained(backend, &case)?;
    for _ in 0..2 {
        for lane in 0..3 {
            finder.pedestal(lane)?;
        }
        refused("lane 3 of 3", finder.pedestal(3), |e| matches!(e, Error::Param { .. }))?;
        case::find(finder.as_mut(), case.data_frames(), &[5], &mut case::Outcome::default())?;
    }
    Ok(())
}
