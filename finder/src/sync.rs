//! A [`Finder`] for every backend that does a batch at once, on the caller's own time.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::backend::{Finder, Statistics};
use crate::clusters::Clusters;
use crate::clusters_buf::ClustersBuf;
use crate::error::{Error, Result};
use crate::frames::{Frames, Shape};
use crate::mask::PixelMask;
use crate::params::{Noise, Params};
use crate::pedestal::Pedestal;
use crate::tickets::{Ticket, Tickets};
use crate::training::Training;

/// The part of a synchronous backend that is its own: the pedestal of every lane, and frames to clusters.
pub trait Engine: Send {
    /// The name of the backend, for messages.
    fn name(&self) -> &str;

    /// Starts a run: every lane gets this pedestal, `mask` holds the pixels that never take part.
    ///
    /// # Errors
    /// Whatever goes wrong.
    fn start(&mut self, pedestal: &Pedestal, mask: Option<&PixelMask>) -> Result<()>;

    /// Finds the clusters of frames and appends them, frame by frame, with their numbers (and branch traces, when
    /// asked for). Frame `k` of the batch is frame `first + k` of the run. Returns how many `i16` values were cut to
    /// fit; infinite `f16` values are counted by [`SyncFinder`].
    ///
    /// # Errors
    /// Whatever goes wrong; the run cannot go on after an error.
    fn find(&mut self, frames: Frames<'_>, first: u64, out: &mut ClustersBuf) -> Result<u64>;

    /// The pedestal of a lane as it is now. Asked for after [`Engine::start`] only.
    fn pedestal(&self, lane: usize) -> Pedestal;

    /// Replaces the pedestal of a lane and goes on with the run.
    fn set_lane(&mut self, lane: usize, pedestal: &Pedestal);

    /// Feeds dark frames to every pixel of a lane ([SPEC 2](crate::spec#2-pedestal)), their lost pixels left out.
    ///
    /// # Errors
    /// [`Error::ShapeMismatch`].
    fn update(&mut self, lane: usize, darks: Frames<'_>) -> Result<()> {
        let mut pedestal = self.pedestal(lane);
        pedestal.update(darks)?;
        self.set_lane(lane, &pedestal);
        Ok(())
    }

    /// Takes the noise of a lane as it is now, for fixed noise.
    fn refresh_noise(&mut self, lane: usize) {
        let mut pedestal = self.pedestal(lane);
        pedestal.refresh_noise();
        self.set_lane(lane, &pedestal);
    }

    /// The number of frames that suits a batch.
    fn batch_frames(&self) -> usize {
        64
    }
}

/// A finder around an [`Engine`]: training, tickets, slots, statistics. `submit` does the work, `collect` lends
/// the result.
pub struct SyncFinder<E> {
    engine: E,
    training: Training,
    running: bool,
    frames: u64,
    tickets: Tickets,
    flight: VecDeque<Done>,
    free: Vec<ClustersBuf>,
    lent: Option<ClustersBuf>,
    statistics: Statistics,
    broken: bool,
}

/// A batch that waits to be collected, and what is counted then.
struct Done {
    clusters: ClustersBuf,
    saturated: u64,
    lost_pixels: u64,
}

impl<E: Engine> SyncFinder<E> {
    /// Slots of every synchronous finder. The work of one is done when it has been submitted, so more would only hold
    /// memory.
    pub const SLOTS: usize = 2;

    /// A finder without a pedestal.
    ///
    /// # Errors
    /// What [`Params::validate`] says.
    pub fn new(engine: E, shape: Shape, params: &Params) -> Result<Self> {
        let buf = || ClustersBuf::new(shape, params.size, params.payload);
        Ok(SyncFinder {
            engine,
            training: Training::new(shape, params)?,
            running: false,
            frames: 0,
            tickets: Tickets::new(),
            flight: VecDeque::with_capacity(Self::SLOTS),
            free: (0..=Self::SLOTS).map(|_| buf()).collect(),
            lent: None,
            statistics: Statistics::default(),
            broken: false,
        })
    }

    /// The engine.
    pub fn engine(&self) -> &E {
        &self.engine
    }

    fn whole(&self) -> Result<()> {
        match self.broken {
            false => Ok(()),
            true => Err(Error::Other(format!(
                "backend {}: an earlier batch failed, the pedestal after it is not known (set_pedestal starts anew)",
                self.engine.name()
            ))),
        }
    }

    fn take_back(&mut self) {
        if let Some(mut buf) = self.lent.take() {
            buf.clear();
            self.free.push(buf);
        }
    }

    fn start(&mut self) -> Result<()> {
        if self.running {
            return Ok(());
        }
        let mask = self.training.mask()?;
        let pedestal = self.training.pedestal()?;
        let engine = &mut self.engine;
        guarded(engine, |engine| engine.start(&pedestal, mask.as_ref()))?;
        self.running = true;
        Ok(())
    }

    /// Changes the engine lane by lane; after an error some lanes are changed and some are not.
    fn each_lane(&mut self, change: impl Fn(&mut E, usize) -> Result<()>) -> Result<()> {
        let lanes = self.training.params().lanes;
        let done = guarded(&mut self.engine, |engine| (0..lanes).try_for_each(|lane| change(engine, lane)));
        self.broken |= done.is_err();
        done
    }
}

impl<E: Engine> Finder for SyncFinder<E> {
    fn backend(&self) -> &str {
        self.engine.name()
    }

    fn shape(&self) -> Shape {
        self.training.shape()
    }

    fn params(&self) -> &Params {
        self.training.params()
    }

    fn train(&mut self, darks: Frames<'_>) -> Result<()> {
        self.tickets.idle()?;
        if self.running {
            Error::check_shape("dark frames", self.shape(), darks.shape())?;
            self.whole()?;
            return self.each_lane(|engine, lane| engine.update(lane, darks));
        }
        self.training.train(darks)
    }

    fn finish_training(&mut self) -> Result<()> {
        self.training.finish()
    }

    fn refresh_noise(&mut self) -> Result<()> {
        self.tickets.idle()?;
        self.whole()?;
        if self.params().noise == Noise::Tracked {
            return self.training.pedestal().map(|_| ());
        }
        self.start()?;
        self.each_lane(|engine, lane| {
            engine.refresh_noise(lane);
            Ok(())
        })
    }

    fn slots(&self) -> usize {
        Self::SLOTS
    }

    fn in_flight(&self) -> usize {
        self.tickets.in_flight()
    }

    fn abandon(&mut self) -> usize {
        self.take_back();
        for mut done in self.flight.drain(..) {
            done.clusters.clear();
            self.free.push(done.clusters);
        }
        self.tickets.abandon()
    }

    fn batch_frames(&self) -> usize {
        self.engine.batch_frames()
    }

    fn submit(&mut self, frames: Frames<'_>) -> Result<Ticket> {
        Error::check_shape("frames", self.shape(), frames.shape())?;
        self.whole()?;
        self.take_back();
        self.tickets.room(Self::SLOTS)?;
        self.start()?;
        let mut out = self.free.pop().expect("a buffer for every slot and one that is lent");
        let first = self.frames;
        let outcome = guarded(&mut self.engine, |engine| engine.find(frames, first, &mut out));
        let saturated = match outcome {
            Ok(saturated) => saturated,
            Err(e) => {
                self.broken = true;
                out.clear();
                self.free.push(out);
                return Err(e);
            }
        };
        let saturated = saturated + out.view().infinite_f16();
        let lost_pixels = frames.lost_frames().map(|(_, m)| m.count() as u64).sum::<u64>();
        self.frames += frames.len() as u64;
        self.flight.push_back(Done { clusters: out, saturated, lost_pixels });
        Ok(self.tickets.issue())
    }

    fn collect(&mut self, ticket: Ticket) -> Result<Clusters<'_>> {
        self.take_back();
        self.tickets.redeem(ticket)?;
        let Done { clusters, saturated, lost_pixels } = self.flight.pop_front().expect("one a ticket");
        let batch = self.lent.insert(clusters).view();
        self.statistics.frames += batch.frames() as u64;
        self.statistics.clusters += batch.len() as u64;
        self.statistics.saturated += saturated;
        self.statistics.lost_pixels += lost_pixels;
        Ok(batch)
    }

    fn collect_into(&mut self, ticket: Ticket, into: &mut ClustersBuf) -> Result<()> {
        self.collect(ticket)?;
        self.lent.as_mut().expect("just lent").swap(into);
        Ok(())
    }

    fn pedestal(&mut self, lane: usize) -> Result<Pedestal> {
        let lanes = self.params().lanes;
        if lane >= lanes {
            return Err(Error::param("lane", lane, format!("below {lanes}")));
        }
        self.whole()?;
        match self.running {
            true => guarded(&mut self.engine, |engine| Ok(engine.pedestal(lane))),
            false => Ok(self.training.pedestal()?.into_owned()),
        }
    }

    fn set_pedestal(&mut self, pedestal: &Pedestal) -> Result<()> {
        self.tickets.idle()?;
        self.training.set_pedestal(pedestal)?;
        self.running = false;
        self.broken = false;
        self.frames = 0;
        Ok(())
    }

    fn statistics(&self) -> Statistics {
        self.statistics
    }
}

/// A fault in an engine ends the batch with an error and leaves the caller's process alone.
fn guarded<E: Engine, T>(engine: &mut E, work: impl FnOnce(&mut E) -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(|| work(engine)))
        .unwrap_or_else(|panic| Err(Error::Other(format!("backend {}: {}", engine.name(), words_of(&panic)))))
}

fn words_of(panic: &Box<dyn std::any::Any + Send>) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
    format!("internal error: {}", text.unwrap_or("no message"))
}
