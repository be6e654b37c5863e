//! A [`Finder`] for every backend that does a batch at once, on the caller's own time.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::backend::{Finder, Statistics, Ticket};
use crate::clusters::Clusters;
use crate::clusters_buf::ClustersBuf;
use crate::error::{Error, Result};
use crate::frames::{Frames, Shape};
use crate::mask::PixelMask;
use crate::params::{Noise, Params};
use crate::pedestal::Pedestal;
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
    /// asked for). Frame `k` of the batch is frame `first + k` of the run. Returns how many values were cut to
    /// fit.
    ///
    /// # Errors
    /// Whatever goes wrong; the run cannot go on after an error.
    fn find(&mut self, frames: Frames<'_>, first: u64, out: &mut ClustersBuf) -> Result<u64>;

    /// The pedestal of a lane as it is now. Asked for after [`Engine::start`] only.
    fn pedestal(&self, lane: usize) -> Pedestal;

    /// Replaces the pedestal of a lane and goes on with the run.
    fn set_lane(&mut self, lane: usize, pedestal: &Pedestal);

    /// Feeds dark frames to every pixel of a lane (SPEC 2), their lost pixels left out.
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
    issued: u64,
    flight: VecDeque<(Ticket, ClustersBuf)>,
    free: Vec<ClustersBuf>,
    lent: Option<ClustersBuf>,
    statistics: Statistics,
    broken: bool,
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
            issued: 0,
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

    fn idle(&self) -> Result<()> {
        match self.flight.is_empty() {
            true => Ok(()),
            false => Err(Error::SlotsFull { slots: self.flight.len() }),
        }
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

    fn lanes(&self) -> std::ops::Range<usize> {
        0..self.training.params().lanes
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
        self.idle()?;
        if self.running {
            Error::check_shape("dark frames", self.shape(), darks.shape())?;
            self.whole()?;
            return self.lanes().try_for_each(|lane| self.engine.update(lane, darks));
        }
        self.training.train(darks)
    }

    fn finish_training(&mut self) -> Result<()> {
        self.training.finish()
    }

    fn refresh_noise(&mut self) -> Result<()> {
        self.idle()?;
        self.whole()?;
        if self.params().noise == Noise::Tracked {
            return self.training.pedestal().map(|_| ());
        }
        self.start()?;
        self.lanes().for_each(|lane| self.engine.refresh_noise(lane));
        Ok(())
    }

    fn slots(&self) -> usize {
        Self::SLOTS
    }

    fn batch_frames(&self) -> usize {
        self.engine.batch_frames()
    }

    fn submit(&mut self, frames: Frames<'_>) -> Result<Ticket> {
        Error::check_shape("frames", self.shape(), frames.shape())?;
        self.whole()?;
        self.take_back();
        if self.flight.len() == Self::SLOTS {
            return Err(Error::SlotsFull { slots: Self::SLOTS });
        }
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
        let ticket = Ticket(self.issued);
        self.issued += 1;
        self.frames += frames.len() as u64;
        self.statistics.frames += frames.len() as u64;
        self.statistics.clusters += out.view().len() as u64;
        self.statistics.saturated += saturated;
        self.statistics.lost_pixels += frames.lost_frames().map(|(_, m)| m.count() as u64).sum::<u64>();
        self.flight.push_back((ticket, out));
        Ok(ticket)
    }

    fn collect(&mut self, ticket: Ticket) -> Result<Clusters<'_>> {
        self.take_back();
        match self.flight.front() {
            Some((oldest, _)) if *oldest == ticket => {}
            other => {
                return Err(Error::WrongTicket { got: ticket.0, oldest: other.map(|(t, _)| t.0) });
            }
        }
        let (_, buf) = self.flight.pop_front().expect("just seen");
        Ok(self.lent.insert(buf).view())
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
        if self.running { Ok(self.engine.pedestal(lane)) } else { Ok(self.training.pedestal()?.into_owned()) }
    }

    fn set_pedestal(&mut self, pedestal: &Pedestal) -> Result<()> {
        self.idle()?;
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
