//! Every golden result, through the backend.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use scheidegg::{Backend, Frames, Payload, Plane};

use super::{Check, Outcome, holds};
use crate::case::{self, Case, pedestal_difference};
use crate::golden::{self, Expected, Set};

pub(super) fn checks() -> Vec<Check> {
    match golden::results() {
        Ok(files) => files
            .into_iter()
            .map(|file| Check::new(format!("golden {file}"), move |backend| check(backend, &file)))
            .collect(),
        Err(e) => vec![Check::new("golden", move |_| holds(false, || e.clone()))],
    }
}

/// A set, read once a process: unpacking it takes longer than most runs over it.
fn set(name: &str) -> Result<Arc<Set>, String> {
    static READ: Mutex<BTreeMap<String, Arc<Set>>> = Mutex::new(BTreeMap::new());
    let mut read = READ.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(set) = read.get(name) {
        return Ok(Arc::clone(set));
    }
    let set = Arc::new(golden::set(name)?);
    read.insert(name.into(), Arc::clone(&set));
    Ok(set)
}

/// One golden result: clusters, values, and where it tells them the branches and the pedestal.
fn check(backend: &dyn Backend, file: &str) -> Outcome {
    let expected = golden::result(file)?;
    let set = set(&expected.set)?;
    let exact = expected.exact.as_ref();
    let mut params = expected.params.clone();
    params.trace = exact.is_some_and(|e| e.trace.is_some());
    let mut case = Case::new(file, set.shape, params, set.darks.clone(), set.data.clone());
    // Without support for traces the clusters still tell.
    let traced = backend.build(case.shape, &case.params);
    if matches!(traced, Err(scheidegg::Error::Unsupported { .. })) {
        case.params.trace = false;
    }
    let got = case::run(backend, &case, false)?;

    let b = scheidegg::record_bytes(case.params.size, case.params.payload);
    let mut records = Vec::with_capacity(expected.x.len() * b);
    for (i, values) in expected.data.chunks(case.params.size.pixels()).enumerate() {
        records.extend(expected.x[i].to_ne_bytes());
        records.extend(expected.y[i].to_ne_bytes());
        values.iter().for_each(|v| records.extend(v.to_ne_bytes()));
    }
    let frames = case.data_frames().len();
    let before = |k: usize| expected.frame.partition_point(|f| *f < k as u64) as u64;
    let want = case::Outcome {
        numbers: (0..frames as u64).collect(),
        offsets: (0..=frames).map(before).collect(),
        records,
        trace: exact.and_then(|e| e.trace.clone()).filter(|_| case.params.trace),
        pedestals: Vec::new(),
        statistics: scheidegg::Statistics {
            frames: frames as u64,
            clusters: expected.x.len() as u64,
            ..Default::default()
        },
    };
    if let Some(what) = case::difference(&case, &want, &got) {
        return Err(what.into());
    }
    if let Some(exact) = exact {
        let mut pedestal = got.pedestals[0].clone();
        (pedestal.sum, pedestal.sum2) = (exact.sum.clone(), exact.sum2.clone());
        pedestal.x0 = exact.x0.clone();
        if let Some(what) = pedestal_difference(&case, &pedestal, &got.pedestals[0]) {
            return Err(what.into());
        }
        centres(backend, &case, &expected, &exact.value)?;
    }
    Ok(())
}

/// The values of the centres, to the bit as far as an `f32` payload shows it.
fn centres(backend: &dyn Backend, case: &Case, expected: &Expected, value: &Plane) -> Outcome {
    let mut params = case.params.clone();
    params.payload = Payload::F32;
    params.trace = false;
    let mut finder = backend.build(case.shape, &params)?;
    finder.train(case.dark_frames())?;
    let mut got = Vec::new();
    finder.find(Frames::new(&case.data, case.shape)?, &mut |batch| {
        got.extend(batch.iter().map(|c| c.centre() as f32));
        Ok(())
    })?;
    holds(got.len() == expected.x.len(), || format!("{} clusters with f32 values", got.len()))?;
    for (i, got) in got.iter().enumerate() {
        let want = value.get(i) as f32;
        holds(got.to_bits() == want.to_bits(), || {
            format!("centre of cluster {i}: {got:e}, expected {want:e}")
        })?;
    }
    Ok(())
}
