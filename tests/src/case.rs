//! A run over dark and data frames, what came out of it, and the first difference of two outcomes.

use std::collections::VecDeque;
use std::ops::Range;

use scheidegg::{
    Backend, Clusters, Finder, Frames, LostPixels, Numbers, Params, Pedestal, Plane, Result, Shape,
    Statistics, record_bytes,
};

/// One thing done to a finder.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Train with some of the dark frames, in batches of this many.
    Train(Range<usize>, usize),
    /// End training early.
    Finish,
    /// Find the clusters of some of the data frames, in batches of these sizes in turn.
    Find(Range<usize>, Vec<usize>),
    /// Take the noise anew.
    Refresh,
    /// Start anew from the pedestal of lane 0.
    Restart,
    /// Start from this pedestal.
    Set(Box<Pedestal>),
}

/// A run: frames, parameters, and what is done in which order.
#[derive(Clone, Debug, PartialEq)]
pub struct Case {
    /// What the run is about.
    pub name: String,
    /// Rows and columns.
    pub shape: Shape,
    /// What is computed.
    pub params: Params,
    /// Dark frames.
    pub darks: Vec<u16>,
    /// Their lost pixels.
    pub darks_lost: Vec<LostPixels>,
    /// Data frames.
    pub data: Vec<u16>,
    /// Their lost pixels.
    pub data_lost: Vec<LostPixels>,
    /// Their numbers, one a frame; empty for 0, 1, 2...
    pub numbers: Vec<u64>,
    /// What is done.
    pub steps: Vec<Step>,
}

impl Case {
    /// Train with all dark frames, then find the clusters of all data frames at once.
    pub fn new(
        name: impl Into<String>,
        shape: Shape,
        params: Params,
        darks: Vec<u16>,
        data: Vec<u16>,
    ) -> Case {
        let n = shape.pixels();
        let (d, f) = (darks.len() / n, data.len() / n);
        Case {
            name: name.into(),
            shape,
            params: Params { pedestal_samples: d as u64, ..params },
            darks,
            darks_lost: Vec::new(),
            data,
            data_lost: Vec::new(),
            numbers: Vec::new(),
            steps: vec![Step::Train(0..d, d.max(1)), Step::Find(0..f, vec![f.max(1)])],
        }
    }

    /// The dark frames.
    pub fn dark_frames(&self) -> Frames<'_> {
        Frames::new(&self.darks, self.shape)
            .and_then(|f| f.with_lost(&self.darks_lost))
            .expect("a case keeps its dark frames whole")
    }

    /// The data frames.
    pub fn data_frames(&self) -> Frames<'_> {
        let frames = Frames::new(&self.data, self.shape).and_then(|f| f.with_lost(&self.data_lost));
        let frames = match self.numbers.is_empty() {
            true => frames,
            false => frames.and_then(|f| f.with_numbers(Numbers::List(&self.numbers))),
        };
        frames.expect("a case keeps its data frames whole")
    }
}

/// What a run returned.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Number of every frame.
    pub numbers: Vec<u64>,
    /// Where each frame's clusters start, and one more.
    pub offsets: Vec<u64>,
    /// All records.
    pub records: Vec<u8>,
    /// The branch of every pixel of every frame, when asked for.
    pub trace: Option<Vec<u8>>,
    /// The pedestal of every lane at the end.
    pub pedestals: Vec<Pedestal>,
    /// What the finder says it has done.
    pub statistics: Statistics,
}

impl Outcome {
    /// Appends a collected batch.
    pub fn append(&mut self, batch: &Clusters<'_>) {
        if self.offsets.is_empty() {
            self.offsets.push(0);
        }
        let base = self.offsets[self.offsets.len() - 1];
        self.numbers.extend(batch.numbers());
        self.offsets.extend(batch.offsets()[1..].iter().map(|o| base + o));
        self.records.extend(batch.bytes());
        if let Some(trace) = batch.trace() {
            self.trace.get_or_insert_default().extend(trace);
        }
    }
}

/// Runs a case on a backend.
///
/// With `poison` the finder first finds clusters in noise over its whole range and then starts anew from the trained
/// pedestal, so that whatever its buffers still hold would show.
///
/// # Errors
/// The first that the backend returns.
pub fn run(backend: &dyn Backend, case: &Case, poison: bool) -> Result<Outcome> {
    let mut finder = backend.build(case.shape, &case.params)?;
    run_on(finder.as_mut(), case, poison)
}

/// Runs a case on a new finder.
///
/// # Errors
/// The first that the finder returns.
pub fn run_on(finder: &mut dyn Finder, case: &Case, mut poison: bool) -> Result<Outcome> {
    let mut out = Outcome::default();
    let mut before = finder.statistics();
    for step in &case.steps {
        match step {
            Step::Train(range, size) => {
                let darks = case.dark_frames().slice(range.start, range.len());
                darks.batches(*size).try_for_each(|b| finder.train(b))?;
            }
            Step::Finish => finder.finish_training()?,
            Step::Find(range, sizes) => {
                if std::mem::take(&mut poison) {
                    self::poison(finder)?;
                    before = finder.statistics();
                }
                let frames = case.data_frames().slice(range.start, range.len());
                find(finder, frames, sizes, &mut out)?;
            }
            Step::Refresh => finder.refresh_noise()?,
            Step::Set(pedestal) => finder.set_pedestal(pedestal)?,
            Step::Restart => {
                let pedestal = finder.pedestal(0)?;
                finder.set_pedestal(&pedestal)?;
            }
        }
    }
    for lane in 0..case.params.lanes {
        out.pedestals.push(finder.pedestal(lane)?);
    }
    let after = finder.statistics();
    out.statistics = Statistics {
        frames: after.frames - before.frames,
        clusters: after.clusters - before.clusters,
        saturated: after.saturated - before.saturated,
        lost_pixels: after.lost_pixels - before.lost_pixels,
        redone: 0,
    };
    Ok(out)
}

fn poison(finder: &mut dyn Finder) -> Result<()> {
    let pedestal = finder.pedestal(0)?;
    let mut rng = crate::synth::Rng::new(99);
    let shape = finder.shape();
    let pixels: Vec<u16> = (0..shape.pixels() * 3).map(|_| rng.bits() as u16).collect();
    find(finder, Frames::new(&pixels, shape)?, &[3], &mut Outcome::default())?;
    finder.set_pedestal(&pedestal)
}

/// Finds with as many batches in flight as the finder has slots for, and collects in order. Sizes are those of the
/// batches in turn, as far as the finder takes such batches.
///
/// # Errors
/// The first that the finder returns.
pub fn find(finder: &mut dyn Finder, frames: Frames<'_>, sizes: &[usize], out: &mut Outcome) -> Result<()> {
    let mut flight = VecDeque::new();
    let mut sizes = sizes.iter().cycle();
    let mut first = 0;
    while first < frames.len() {
        let size = sizes.next().copied().unwrap_or(1).clamp(1, finder.max_batch_frames());
        let count = size.min(frames.len() - first);
        if flight.len() == finder.slots().max(1)
            && let Some(ticket) = flight.pop_front()
        {
            out.append(&finder.collect(ticket)?);
        }
        flight.push_back(finder.submit(frames.slice(first, count))?);
        first += count;
    }
    for ticket in flight {
        out.append(&finder.collect(ticket)?);
    }
    Ok(())
}

/// The first difference between what was expected and what was got, in words, or nothing.
pub fn difference(case: &Case, expected: &Outcome, got: &Outcome) -> Option<String> {
    if expected.numbers != got.numbers {
        let k = first_difference(&expected.numbers, &got.numbers);
        let at = |v: &[u64]| v.get(k).map_or("none".into(), u64::to_string);
        return Some(format!(
            "frame {k} is number {}, expected {} ({} frames, expected {})",
            at(&got.numbers),
            at(&expected.numbers),
            got.numbers.len(),
            expected.numbers.len()
        ));
    }
    if expected.offsets != got.offsets || expected.records != got.records {
        return Some(cluster_difference(case, expected, got));
    }
    if expected.trace != got.trace {
        let (Some(e), Some(g)) = (&expected.trace, &got.trace) else {
            let words = |t: &Option<Vec<u8>>| if t.is_some() { "a trace" } else { "no trace" };
            return Some(format!("{}, expected {}", words(&got.trace), words(&expected.trace)));
        };
        let i = first_difference(e, g);
        let (k, at) = (i / case.shape.pixels(), i % case.shape.pixels());
        return Some(format!(
            "trace of frame {k}, {}: code {:?}, expected {:?}",
            place(case, at),
            g.get(i),
            e.get(i)
        ));
    }
    for (lane, (e, g)) in expected.pedestals.iter().zip(&got.pedestals).enumerate() {
        if let Some(what) = pedestal_difference(case, e, g) {
            return Some(format!("pedestal of lane {lane}: {what}"));
        }
    }
    if expected.statistics != got.statistics {
        return Some(format!("{:?}, expected {:?}", got.statistics, expected.statistics));
    }
    None
}

fn first_difference<T: PartialEq>(a: &[T], b: &[T]) -> usize {
    a.iter().zip(b).position(|(a, b)| a != b).unwrap_or(a.len().min(b.len()))
}

fn place(case: &Case, i: usize) -> String {
    format!("row {}, column {}", i / case.shape.cols, i % case.shape.cols)
}

fn cluster_difference(case: &Case, expected: &Outcome, got: &Outcome) -> String {
    let (size, payload) = (case.params.size, case.params.payload);
    let b = record_bytes(size, payload);
    let of_frame = |o: &Outcome, k: usize| -> Vec<Vec<u8>> {
        let (from, to) = (o.offsets[k] as usize * b, o.offsets[k + 1] as usize * b);
        o.records.get(from..to).unwrap_or_default().chunks(b).map(<[u8]>::to_vec).collect()
    };
    for k in 0..expected.numbers.len() {
        let (e, g) = (of_frame(expected, k), of_frame(got, k));
        if e == g {
            continue;
        }
        let i = first_difference(&e, &g);
        let words = |records: &[Vec<u8>]| match records.get(i) {
            None => "none".to_string(),
            Some(r) => {
                let at = |j: usize| u16::from_ne_bytes([r[j], r[j + 1]]);
                format!("x {} y {} values {:02x?}", at(0), at(2), &r[4..])
            }
        };
        return format!(
            "frame {k}: {} clusters, expected {}; the first that differs is number {i}: {}, expected {}",
            g.len(),
            e.len(),
            words(&g),
            words(&e)
        );
    }
    format!("{} offsets and {} bytes of records", got.offsets.len(), got.records.len())
}

/// The first difference between two pedestals, to the bit.
pub fn pedestal_difference(case: &Case, expected: &Pedestal, got: &Pedestal) -> Option<String> {
    if (expected.shape, expected.samples) != (got.shape, got.samples) {
        return Some(format!(
            "{} with {} samples, expected {} with {}",
            got.shape, got.samples, expected.shape, expected.samples
        ));
    }
    if expected.x0 != got.x0 {
        let i = first_difference(&expected.x0, &got.x0);
        return Some(format!(
            "x0 of {}: {:?}, expected {:?}",
            place(case, i),
            got.x0.get(i),
            expected.x0.get(i)
        ));
    }
    if let Some(what) = plane_difference(case, "sum", &expected.sum, &got.sum)
        .or_else(|| plane_difference(case, "sum2", &expected.sum2, &got.sum2))
    {
        return Some(what);
    }
    match (&expected.fixed_variance, &got.fixed_variance) {
        (None, None) => {}
        (Some(e), Some(g)) => {
            if let Some(what) = plane_difference(case, "fixed variance", e, g) {
                return Some(what);
            }
        }
        (e, _) => {
            return Some(format!(
                "{} fixed variance",
                if e.is_some() { "lacks its" } else { "has an unasked" }
            ));
        }
    }
    let untrained = |p: &Pedestal| p.untrained.as_ref().map_or(Vec::new(), |m| m.indices().collect());
    let (e, g): (Vec<usize>, Vec<usize>) = (untrained(expected), untrained(got));
    (e != g).then(|| format!("untrained pixels {g:?}, expected {e:?}"))
}

fn plane_difference(case: &Case, what: &str, expected: &Plane, got: &Plane) -> Option<String> {
    if expected.is_f64() != got.is_f64() || expected.len() != got.len() {
        return Some(format!("{what}: another precision or length"));
    }
    // Bits, not values: 0 and -0 differ.
    let i = (0..expected.len()).find(|&i| expected.get(i).to_bits() != got.get(i).to_bits())?;
    Some(format!("{what} of {}: {:e}, expected {:e}", place(case, i), got.get(i), expected.get(i)))
}
