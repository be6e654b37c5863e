//! The two traits of a backend. Both are object-safe: a program registers backends at run time and speaks to
//! them through `dyn`. Dynamic dispatch happens once a batch, never a pixel.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::buffer::{FrameBuf, FrameOwner};
use crate::clusters::Clusters;
use crate::clusters_buf::ClustersBuf;
use crate::error::{Error, Result};
use crate::frames::{Frames, Shape};
use crate::params::Params;
use crate::pedestal::Pedestal;
use crate::tickets::Ticket;

/// What a backend says of itself on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probe {
    /// The hardware it runs on, in words: `AVX-512, 2 threads`, `NVIDIA H200`.
    pub device: String,
    /// Among available backends the one with the highest value is the likely fastest.
    pub preference: u32,
}

/// A way of running the finder: the CPU, a GPU, a simulation, a stranger's own.
pub trait Backend: Send + Sync {
    /// The name that a user types, lower case.
    fn name(&self) -> &str;

    /// One line for a list of backends.
    fn summary(&self) -> &str;

    /// Whether it can run on this machine. If a backend does not say, it can everywhere, and any other is preferred.
    ///
    /// # Errors
    /// [`Error::Unavailable`] with the reason.
    fn probe(&self) -> Result<Probe> {
        Ok(Probe { device: "any machine".into(), preference: 0 })
    }

    /// Whether an automatic choice should take this backend for such frames; if not, why, in a sentence. By name it
    /// can be asked for anyway.
    fn suits(&self, _shape: Shape, _params: &Params) -> Result<(), String> {
        Ok(())
    }

    /// A finder for frames of this shape.
    ///
    /// # Errors
    /// [`Error::Unavailable`], [`Error::Unsupported`] for parameters that this backend does not compute, or
    /// what [`Params::validate`] says.
    fn build(&self, shape: Shape, params: &Params) -> Result<Box<dyn Finder>>;
}

/// What a finder has done since it was built, counted when a batch is collected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Data frames judged.
    pub frames: u64,
    /// Clusters found.
    pub clusters: u64,
    /// Stored values that do not fit the payload ([SPEC 3](crate::spec#3-a-frame)): cut to the largest or smallest
    /// `i16`, or infinite in `f16`.
    pub saturated: u64,
    /// Pixels masked for one frame because they were lost, summed over frames.
    pub lost_pixels: u64,
    /// Batches done a second time because a result had too little room.
    pub redone: u64,
}

/// A finder: a trained pedestal, and batches of frames that become batches of clusters.
///
/// The order of calls is train (any number of times), then submit and collect in turn. Results come in the
/// order of submission, and clusters of a frame in raster order. Whatever went wrong, [`Finder::abandon`] and
/// [`Finder::set_pedestal`] make a finder usable again.
///
/// # Determinism
/// What comes out depends on [`Params`], the darks and the frames alone, never on how frames are cut into
/// batches, on threads, devices or timing ([SPEC 5](crate::spec#5-what-never-happens)).
pub trait Finder: Send {
    /// The name of the backend that really runs it, as [`Backend::name`]: proof for tests and for a report. The
    /// conformance suite refuses a finder that does not say.
    fn backend(&self) -> &str {
        ""
    }

    /// The shape of a frame.
    fn shape(&self) -> Shape;

    /// The parameters it was built with.
    fn params(&self) -> &Params;

    /// Makes every allocation now that the finder would make at its first frames, so that none of them waits. Once
    /// training has ended, all that belongs to a run is prepared too.
    ///
    /// # Errors
    /// Whatever refuses the memory; [`Error::SlotsFull`] while batches are in flight.
    fn reserve(&mut self) -> Result<()> {
        Ok(())
    }

    /// Takes dark frames. The first [`Params::pedestal_samples`] train the pedestal, those after update it. Lost
    /// pixels of a dark frame are not fed to it.
    ///
    /// # Errors
    /// [`Error::ShapeMismatch`]; [`Error::SlotsFull`] while batches are in flight.
    fn train(&mut self, darks: Frames<'_>) -> Result<()>;

    /// Ends training early with the dark frames seen so far (at least 2), or does nothing when it has ended.
    ///
    /// # Errors
    /// [`Error::PedestalNotReady`] with fewer than 2 dark frames.
    fn finish_training(&mut self) -> Result<()>;

    /// With fixed noise, takes the noise of the pedestal as it is now, lane by lane. With tracked noise there is
    /// nothing to take, and nothing changes.
    ///
    /// # Errors
    /// [`Error::PedestalNotReady`] before training has ended, [`Error::SlotsFull`] while batches are in flight.
    fn refresh_noise(&mut self) -> Result<()>;

    /// Batches that may be in flight at once.
    fn slots(&self) -> usize;

    /// Batches in flight: submitted, and neither collected nor abandoned.
    fn in_flight(&self) -> usize;

    /// Waits for every batch in flight, throws their clusters away and says how many batches there were. Their frames
    /// have been judged: the pedestal knows them, and the next frame is counted on from them.
    fn abandon(&mut self) -> usize;

    /// The number of frames in a batch that suits this backend.
    fn batch_frames(&self) -> usize;

    /// A buffer for frames in the memory that suits this backend.
    ///
    /// # Errors
    /// As [`FrameBuf::try_new`], or whatever refuses the memory.
    fn frame_buffer(&self, capacity: usize) -> Result<FrameBuf> {
        FrameBuf::try_new(self.shape(), capacity)
    }

    /// Starts finding the clusters of a batch of at most [`Finder::max_batch_frames`] frames. The frames are no
    /// longer needed when the call returns.
    ///
    /// # Errors
    /// [`Error::ShapeMismatch`], [`Error::PedestalNotReady`], [`Error::SlotsFull`]. After another error the pedestal is
    /// not known: batches before can be collected, then [`Finder::set_pedestal`] starts anew.
    fn submit(&mut self, frames: Frames<'_>) -> Result<Ticket>;

    /// Starts finding the clusters of a batch that the finder may read until it is collected, so that no copy
    /// is needed.
    ///
    /// # Errors
    /// As [`Finder::submit`].
    fn submit_shared(&mut self, frames: Arc<dyn FrameOwner>) -> Result<Ticket> {
        self.submit(frames.frames())
    }

    /// The largest batch that [`Finder::submit`] takes.
    fn max_batch_frames(&self) -> usize {
        usize::MAX
    }

    /// Waits for a batch, which must be the oldest in flight, and lends its clusters until the next call.
    ///
    /// # Errors
    /// [`Error::WrongTicket`], which holds the ticket and changes nothing, [`Error::Overflow`], or whatever went wrong
    /// while the batch was worked on.
    fn collect(&mut self, ticket: Ticket) -> Result<Clusters<'_>>;

    /// As [`Finder::collect`], but the clusters replace those in `into`, which is a buffer for the finder's shape, size
    /// and payload.
    ///
    /// # Errors
    /// As [`Finder::collect`]; the buffer then holds nothing of use.
    fn collect_into(&mut self, ticket: Ticket, into: &mut ClustersBuf) -> Result<()> {
        into.clear();
        into.append(&self.collect(ticket)?);
        Ok(())
    }

    /// The pedestal of a lane as it is after every frame submitted so far.
    ///
    /// # Errors
    /// [`Error::PedestalNotReady`] before training has ended, [`Error::Param`] for a lane that is not there.
    fn pedestal(&mut self, lane: usize) -> Result<Pedestal>;

    /// Starts a run from a saved pedestal: every lane gets it, training counts as ended, and the next frame is
    /// frame 0 of the run.
    ///
    /// # Errors
    /// [`Error::ShapeMismatch`], [`Error::Param`] when its precision is not that of [`Params`], [`Error::SlotsFull`]
    /// while batches are in flight.
    fn set_pedestal(&mut self, pedestal: &Pedestal) -> Result<()>;

    /// What has been done so far.
    fn statistics(&self) -> Statistics;

    /// Finds the clusters of all frames and hands them to `each` batch by batch, in order. A batch is submitted
    /// before the one before it is collected. Nothing is in flight when the call ends, not even by a panic of `each`.
    ///
    /// # Errors
    /// [`Error::SlotsFull`] while batches are in flight; else what [`Finder::submit`], [`Finder::collect`] or `each` say
    /// for the earliest batch. Every batch before that one has been handed out, none after it is.
    fn find(&mut self, frames: Frames<'_>, each: &mut dyn FnMut(Clusters<'_>) -> Result<()>) -> Result<()> {
        if self.in_flight() > 0 {
            return Err(Error::SlotsFull { slots: self.in_flight() });
        }
        let slots = self.slots().max(1);
        let size = self.batch_frames().clamp(1, self.max_batch_frames().max(1));
        let finder = Abandoning(self);
        let mut flight = VecDeque::with_capacity(slots);
        let mut refused = None;
        for batch in frames.batches(size) {
            if flight.len() == slots
                && let Some(ticket) = flight.pop_front()
            {
                finder.0.collect(ticket).and_then(&mut *each)?;
            }
            match finder.0.submit(batch) {
                Ok(ticket) => flight.push_back(ticket),
                Err(e) => {
                    refused = Some(e);
                    break;
                }
            }
        }
        // Batches before one that was refused are handed out.
        for ticket in flight {
            finder.0.collect(ticket).and_then(&mut *each)?;
        }
        refused.map_or(Ok(()), Err)
    }
}

/// Throws away what is in flight when it goes, whatever ends the call that submitted it.
struct Abandoning<'f, F: Finder + ?Sized>(&'f mut F);

impl<F: Finder + ?Sized> Drop for Abandoning<'_, F> {
    fn drop(&mut self) {
        self.0.abandon();
    }
}

impl Error {
    /// The error for frames of another shape than the finder's, or nothing.
    ///
    /// # Errors
    /// [`Error::ShapeMismatch`] when they differ.
    pub fn check_shape(what: &str, expected: Shape, got: Shape) -> Result<()> {
        if expected != got {
            return Err(Error::ShapeMismatch { what: what.into(), expected, got });
        }
        Ok(())
    }
}
