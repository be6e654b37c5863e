//! The oracle as a backend: its lanes, its threads, and its own training.

use std::ops::Range;
use std::sync::Arc;

use rayon::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuilder};
use scheidegg_finder::{
    Backend, Branch, Clusters, ClustersBuf, Engine, Error, Finder, Frames, Params, Pedestal, PixelMask,
    Precision, Probe, Result, Shape, Statistics, SyncFinder, Ticket, record_bytes,
};

use super::float::Float;
use super::pedestal::{DarkSums, update_all, variances};
use super::{Found, Lane, Rule};

/// The backend `oracle`: [SPEC](scheidegg_finder::spec) in its plainest words, with one thread or several.
///
/// # Determinism
/// The bytes are the same for any number of threads. With several, the rows of a frozen frame are judged in
/// bands and lanes run side by side; a lane itself is worked through in order.
#[derive(Clone, Debug)]
pub struct OracleBackend {
    threads: usize,
}

impl OracleBackend {
    /// On the caller's thread alone.
    pub fn new() -> Self {
        OracleBackend { threads: 1 }
    }

    /// On this many threads.
    ///
    /// # Errors
    /// [`Error::Param`] for none or more than [`MOST_THREADS`](crate::MOST_THREADS).
    pub fn with_threads(threads: usize) -> Result<Self> {
        Ok(OracleBackend { threads: crate::within(threads)? })
    }
}

impl Default for OracleBackend {
    fn default() -> Self {
        Self::new()
    }
}

impl Backend for OracleBackend {
    fn name(&self) -> &str {
        NAME
    }

    fn summary(&self) -> &str {
        "the plain reference on the CPU, every mode and precision"
    }

    fn probe(&self) -> Result<Probe> {
        let s = if self.threads == 1 { "" } else { "s" };
        Ok(Probe { device: format!("plain Rust, {} thread{s}", self.threads), preference: 1 })
    }

    fn build(&self, shape: Shape, params: &Params) -> Result<Box<dyn Finder>> {
        params.validate(shape)?;
        let pool = match self.threads {
            1 => None,
            n => Some(Arc::new(ThreadPoolBuilder::new().num_threads(n).build().map_err(|e| {
                Error::Other(format!(
                    "backend {NAME}: the system refused to start {n} threads (take fewer): {e}"
                ))
            })?)),
        };
        Ok(match params.precision {
            Precision::F32 => Box::new(OracleFinder::<f32, f32>::new(shape, params, pool)?),
            Precision::F64F32 => Box::new(OracleFinder::<f64, f32>::new(shape, params, pool)?),
            Precision::F64 => Box::new(OracleFinder::<f64, f64>::new(shape, params, pool)?),
        })
    }
}

const NAME: &str = "oracle";

/// Frames to clusters in the precision `(P, C)`.
struct OracleEngine<P, C> {
    params: Params,
    pool: Option<Arc<ThreadPool>>,
    run: Option<Run<P, C>>,
}

/// What `start` makes: the same for all lanes, and what each lane has of its own.
struct Run<P, C> {
    rule: Rule<P, C>,
    lanes: Vec<Lane<P>>,
    /// Its pixel values are those that the run began with; only what never changes is used.
    start: Pedestal,
}

impl<P: Float> Lane<P> {
    fn of(pedestal: &Pedestal) -> Result<Self> {
        let values = |plane, what| {
            let v = P::values(plane).map(<[P]>::to_vec);
            v.ok_or_else(|| Error::param(format!("pedestal {what}"), "another precision", "the finder's own"))
        };
        Ok(Lane {
            sum: values(&pedestal.sum, "sum")?,
            sum2: values(&pedestal.sum2, "sum2")?,
            fixed_variance: pedestal.fixed_variance.as_ref().map(|f| values(f, "noise")).transpose()?,
        })
    }
}

impl<P: Float, C: Float> OracleEngine<P, C> {
    fn running(&self) -> &Run<P, C> {
        self.run.as_ref().expect("a run is started before it is used")
    }
}

impl<P: Float, C: Float> Engine for OracleEngine<P, C> {
    fn name(&self) -> &str {
        NAME
    }

    fn start(&mut self, pedestal: &Pedestal, mask: Option<&PixelMask>) -> Result<()> {
        let lanes = (0..self.params.lanes).map(|_| Lane::of(pedestal)).collect::<Result<_>>()?;
        self.run =
            Some(Run { rule: Rule::new(&self.params, pedestal, mask), lanes, start: pedestal.clone() });
        Ok(())
    }

    fn find(&mut self, frames: Frames<'_>, first: u64, out: &mut ClustersBuf) -> Result<u64> {
        let pool = self.pool.clone();
        let Some(Run { rule, lanes, .. }) = &mut self.run else {
            return Err(Error::Other("a run is started before frames are judged".into()));
        };
        let count = lanes.len() as u64;
        // The frames of this batch that belong to a lane, in order.
        let of_lane = |lane: u64| (0..frames.len()).filter(move |k| (first + *k as u64) % count == lane);
        let found: Vec<Vec<(usize, Found)>> = match pool {
            None => {
                let work = |(n, lane): (usize, &mut Lane<P>)| {
                    of_lane(n as u64)
                        .map(|k| (k, rule.frame(lane, frames.frame(k), frames.lost(k), 1)))
                        .collect()
                };
                lanes.iter_mut().enumerate().map(work).collect()
            }
            Some(pool) => pool.install(|| {
                let bands = pool.current_num_threads();
                let work = |(n, lane): (usize, &mut Lane<P>)| {
                    of_lane(n as u64)
                        .map(|k| (k, rule.frame(lane, frames.frame(k), frames.lost(k), bands)))
                        .collect()
                };
                lanes.par_iter_mut().enumerate().map(work).collect()
            }),
        };
        let mut in_order: Vec<_> = found.into_iter().flatten().collect();
        in_order.sort_unstable_by_key(|(k, _)| *k);
        let mut saturated = 0;
        for (k, found) in &in_order {
            out.push_frame(frames.number(*k), &found.records);
            if self.params.trace {
                for (code, branch) in out.spare_trace().iter_mut().zip(&found.codes) {
                    *code = code_of(*branch);
                }
            }
            saturated += found.saturated;
        }
        debug_assert_eq!(record_bytes(self.params.size, self.params.payload), out.view().record_bytes());
        Ok(saturated)
    }

    fn pedestal(&self, lane: usize) -> Pedestal {
        let Run { lanes, start, .. } = self.running();
        let lane = &lanes[lane];
        Pedestal {
            sum: P::plane(lane.sum.clone()),
            sum2: P::plane(lane.sum2.clone()),
            fixed_variance: lane.fixed_variance.clone().map(P::plane),
            ..start.clone()
        }
    }

    fn set_lane(&mut self, lane: usize, pedestal: &Pedestal) {
        let run = self.run.as_mut().expect("a run is started before it is used");
        run.lanes[lane] = Lane::of(pedestal).expect("the pedestal of a lane keeps its precision");
    }

    fn update(&mut self, lane: usize, darks: Frames<'_>) -> Result<()> {
        let mut pedestal = self.pedestal(lane);
        update_all(&mut pedestal, darks)?;
        self.set_lane(lane, &pedestal);
        Ok(())
    }

    fn refresh_noise(&mut self, lane: usize) {
        let mut pedestal = self.pedestal(lane);
        pedestal.fixed_variance = Some(variances(&pedestal));
        self.set_lane(lane, &pedestal);
    }

    fn batch_frames(&self) -> usize {
        16
    }
}

/// The code of a branch ([SPEC 6](scheidegg_finder::spec#6-branch-codes)).
fn code_of(branch: Branch) -> u8 {
    match branch {
        Branch::Update => 0,
        Branch::Negative => 1,
        Branch::Shadow => 2,
        Branch::StorePeak => 3,
        Branch::Shoulder => 4,
        Branch::StoreSum => 5,
        Branch::Masked => 6,
    }
}

/// Judges the rows of a frame in bands, side by side when there are several, and joins what they found in order.
pub(super) fn in_bands(rows: usize, bands: usize, judge: impl Fn(Range<usize>) -> Found + Sync) -> Found {
    let bands = bands.clamp(1, rows);
    if bands == 1 {
        return judge(0..rows);
    }
    let band = |b: usize| judge(rows * b / bands..rows * (b + 1) / bands);
    let parts: Vec<Found> = (0..bands).into_par_iter().map(band).collect();
    let mut all = Found::default();
    for part in parts {
        all.records.extend(part.records);
        all.codes.extend(part.codes);
        all.saturated += part.saturated;
    }
    all
}

/// A [`SyncFinder`] whose training is the oracle's own.
struct OracleFinder<P: Float, C: Float> {
    inner: SyncFinder<OracleEngine<P, C>>,
    /// The dark frames seen, until training ends.
    darks: Option<DarkSums>,
    /// Whether data frames have been judged since the last pedestal was set.
    ran: bool,
}

impl<P: Float, C: Float> OracleFinder<P, C> {
    fn new(shape: Shape, params: &Params, pool: Option<Arc<ThreadPool>>) -> Result<Self> {
        let engine = OracleEngine { params: params.clone(), pool, run: None };
        let inner = SyncFinder::new(engine, shape, params)?;
        Ok(OracleFinder { inner, darks: Some(DarkSums::new(shape)), ran: false })
    }

    fn ready(&self) -> Result<()> {
        match &self.darks {
            None => Ok(()),
            Some(darks) => Err(Error::PedestalNotReady {
                have: darks.frames(),
                need: self.inner.params().pedestal_samples,
            }),
        }
    }
}

impl<P: Float, C: Float> Finder for OracleFinder<P, C> {
    fn backend(&self) -> &str {
        self.inner.backend()
    }

    fn shape(&self) -> Shape {
        self.inner.shape()
    }

    fn params(&self) -> &Params {
        self.inner.params()
    }

    fn train(&mut self, darks: Frames<'_>) -> Result<()> {
        Error::check_shape("dark frames", self.shape(), darks.shape())?;
        let mut rest = darks;
        if let Some(sums) = &mut self.darks {
            let missing = self.inner.params().pedestal_samples - sums.frames();
            let take = missing.min(darks.len() as u64) as usize;
            sums.add(darks.slice(0, take));
            if take as u64 == missing {
                self.finish_training()?;
            }
            rest = darks.slice(take, darks.len() - take);
        }
        if rest.is_empty() {
            return Ok(());
        }
        if self.ran {
            return self.inner.train(rest);
        }
        let mut pedestal = self.inner.pedestal(0)?;
        update_all(&mut pedestal, rest)?;
        self.inner.set_pedestal(&pedestal)
    }

    fn finish_training(&mut self) -> Result<()> {
        if let Some(sums) = &self.darks {
            let pedestal = sums.pedestal(self.inner.params())?;
            self.inner.set_pedestal(&pedestal)?;
            self.darks = None;
        }
        Ok(())
    }

    fn refresh_noise(&mut self) -> Result<()> {
        self.ready()?;
        self.inner.refresh_noise()
    }

    fn slots(&self) -> usize {
        self.inner.slots()
    }

    fn in_flight(&self) -> usize {
        self.inner.in_flight()
    }

    fn abandon(&mut self) -> usize {
        self.inner.abandon()
    }

    fn batch_frames(&self) -> usize {
        self.inner.batch_frames()
    }

    fn submit(&mut self, frames: Frames<'_>) -> Result<Ticket> {
        Error::check_shape("frames", self.shape(), frames.shape())?;
        self.ready()?;
        let ticket = self.inner.submit(frames)?;
        self.ran = true;
        Ok(ticket)
    }

    fn collect(&mut self, ticket: Ticket) -> Result<Clusters<'_>> {
        self.inner.collect(ticket)
    }

    fn pedestal(&mut self, lane: usize) -> Result<Pedestal> {
        self.ready()?;
        self.inner.pedestal(lane)
    }

    fn set_pedestal(&mut self, pedestal: &Pedestal) -> Result<()> {
        let mut pedestal = pedestal.clone();
        pedestal.validate()?;
        if self.inner.params().noise == scheidegg_finder::Noise::Fixed && pedestal.fixed_variance.is_none() {
            pedestal.fixed_variance = Some(variances(&pedestal));
        }
        self.inner.set_pedestal(&pedestal)?;
        self.darks = None;
        self.ran = false;
        Ok(())
    }

    fn statistics(&self) -> Statistics {
        self.inner.statistics()
    }
}
