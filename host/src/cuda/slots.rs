//! The order of things: slots, tickets, what is in flight, what happens on overflow and after an error.
//!
//! Nothing here knows a GPU. A [`Device`] does chunks of frames slot by slot; the [`Ring`] decides which slot, in
//! which order, and what a failure means. A chunk whose result did not fit is done again from its own pedestal; the
//! chunks after it stay valid, because what a frame does to the pedestal does not depend on the room for results.

use std::collections::VecDeque;
use std::sync::Arc;

use scheidegg_finder::{
    Clusters, Error, FrameOwner, Frames, Params, Pedestal, PixelMask, Result, Shape, Statistics, Ticket,
    Tickets,
};

use super::ChunkTiming;
use super::api::BACKEND;
use super::memory::Region;

/// Where the pixels of a chunk are read from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// Copied before the call returns; the caller may have them back at once.
    Copied,
    /// Read where they lie, until the chunk is finished.
    InPlace,
}

/// What came of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// Everything fitted.
    Complete {
        /// Clusters of all frames.
        clusters: u64,
        /// Values cut to fit an `i16`.
        saturated: u64,
    },
    /// There are more clusters than room; none was given out.
    Overflow(Shortfall),
}

/// How much room was missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shortfall {
    /// Index in the chunk of the frame with the most clusters.
    pub(super) frame: usize,
    /// Its clusters.
    pub(super) found: u64,
    /// Clusters a frame that there was room for.
    pub(super) capacity: u64,
}

/// What does chunks: GPUs, or a stand-in for tests.
pub(super) trait Device: Send {
    /// Makes every allocation that a run needs.
    fn reserve(&mut self) -> Result<()>;

    /// Starts a run: every lane gets the pedestal. Nothing is in flight.
    fn begin(&mut self, pedestal: &Pedestal, mask: Option<&PixelMask>) -> Result<()>;

    /// The pedestal of a lane after everything started so far.
    fn pedestal(&mut self, lane: usize) -> Result<Pedestal>;

    /// Replaces the pedestal of a lane. Nothing is in flight.
    fn set_lane(&mut self, lane: usize, pedestal: &Pedestal) -> Result<()>;

    /// Starts a chunk of at least one frame in a free slot; its first frame is frame `first` of the run.
    ///
    /// # Safety
    /// With [`Place::InPlace`] the pixels stay valid and unchanged until the chunk has been finished, or
    /// [`Device::settle`] has returned.
    unsafe fn start(&mut self, slot: usize, frames: Frames<'_>, first: u64, place: Place) -> Result<()>;

    /// Waits for the chunk of a slot. A chunk that was done before the device failed is still complete.
    fn finish(&mut self, slot: usize) -> Result<Outcome>;

    /// Does the finished chunk of a slot again, with room enough.
    ///
    /// # Errors
    /// [`Error::Overflow`] (its frame an index in the chunk) when there cannot be room enough.
    fn redo(&mut self, slot: usize, short: Shortfall) -> Result<()>;

    /// The clusters of the finished chunk of a slot.
    fn clusters<'a>(&'a self, slot: usize, numbers: &'a [u64]) -> Result<Clusters<'a>>;

    /// Waits until nothing is in flight, whatever became of it.
    fn settle(&mut self);

    /// How long the finished chunk of a slot took on the device, when that was asked for.
    fn timing(&self, _slot: usize) -> Option<ChunkTiming> {
        None
    }

    /// Runs the kernels alone over the frames of a finished chunk, `times` times; seconds of one run.
    fn time_kernels(&mut self, _slot: usize, _times: usize) -> Result<ChunkTiming> {
        Err(Error::Other("this device has no kernels to time".into()))
    }
}

/// What keeps the pixels of a chunk in place while the device reads them. The lock goes before the memory.
#[derive(Default)]
#[expect(dead_code, reason = "held, not read")]
pub(super) struct Hold {
    pub(super) locked: Option<Arc<Region>>,
    pub(super) owner: Option<Arc<dyn FrameOwner>>,
}

#[derive(Default)]
struct Slot {
    numbers: Vec<u64>,
    lost_pixels: u64,
    hold: Hold,
}

/// What a ring is for.
#[derive(Clone, Debug)]
pub(super) struct Kind {
    pub(super) shape: Shape,
    pub(super) params: Params,
    pub(super) slots: usize,
    pub(super) chunk_frames: usize,
}

/// Slots in turn, tickets in order.
pub(super) struct Ring {
    device: Box<dyn Device>,
    kind: Kind,
    slots: Vec<Slot>,
    free: Vec<usize>,
    tickets: Tickets,
    flight: VecDeque<usize>,
    lent: Option<usize>,
    last: Option<usize>,
    next_frame: u64,
    broken: Option<String>,
    statistics: Statistics,
}

impl Ring {
    pub(super) fn new(device: Box<dyn Device>, kind: Kind) -> Ring {
        let slots = kind.slots;
        Ring {
            device,
            slots: (0..slots)
                .map(|_| Slot { numbers: Vec::with_capacity(kind.chunk_frames), ..Slot::default() })
                .collect(),
            free: (0..slots).rev().collect(),
            tickets: Tickets::new(),
            flight: VecDeque::with_capacity(slots),
            lent: None,
            last: None,
            next_frame: 0,
            broken: None,
            statistics: Statistics::default(),
            kind,
        }
    }

    pub(super) fn kind(&self) -> &Kind {
        &self.kind
    }

    pub(super) fn statistics(&self) -> Statistics {
        self.statistics
    }

    /// The device, while nothing is in flight.
    pub(super) fn idle(&mut self) -> Result<&mut dyn Device> {
        self.release();
        self.tickets.idle()?;
        Ok(&mut *self.device)
    }

    /// Chunks in flight.
    pub(super) fn in_flight(&self) -> usize {
        self.tickets.in_flight()
    }

    /// The device, also while chunks are in flight.
    pub(super) fn device(&mut self) -> &mut dyn Device {
        &mut *self.device
    }

    /// Forgets the frames counted so far and an error: a new run begins. Nothing is in flight.
    pub(super) fn restart(&mut self) {
        self.next_frame = 0;
        self.broken = None;
    }

    /// How long the chunk that is lent took on the device.
    pub(super) fn timing(&self) -> Option<ChunkTiming> {
        self.device.timing(self.lent?)
    }

    /// The slot of the chunk that was collected last, if its frames are still there.
    pub(super) fn last_collected(&self) -> Option<usize> {
        self.last
    }

    fn release(&mut self) {
        if let Some(slot) = self.lent.take() {
            self.free.push(slot);
        }
    }

    /// Whether the pedestal is known: no chunk of the run has failed.
    pub(super) fn whole(&self) -> Result<()> {
        match &self.broken {
            None => Ok(()),
            Some(reason) => Err(Error::Other(format!(
                "backend {BACKEND}: an earlier batch failed ({reason}), the pedestal after it is not known \
                 (set_pedestal starts anew)"
            ))),
        }
    }

    /// Whether a chunk may be submitted, before anything is done for it.
    pub(super) fn check(&self, frames: &Frames<'_>) -> Result<()> {
        Error::check_shape("frames", self.kind.shape, frames.shape())?;
        if frames.len() > self.kind.chunk_frames {
            return Err(Error::param(
                "frames of a batch",
                frames.len(),
                format!("at most {} (max_batch_frames)", self.kind.chunk_frames),
            ));
        }
        self.whole()?;
        self.tickets.room(self.kind.slots)
    }

    /// Starts a chunk whose frames are copied.
    pub(super) fn submit_copied(&mut self, frames: Frames<'_>) -> Result<Ticket> {
        // SAFETY: the device does not read copied frames after the call.
        unsafe { self.submit(frames, Hold::default(), Place::Copied) }
    }

    /// Starts a chunk whose frames `owner` keeps in place.
    pub(super) fn submit_owned(&mut self, owner: Arc<dyn FrameOwner>, locked: Arc<Region>) -> Result<Ticket> {
        let held = owner.clone();
        let frames = held.frames();
        let hold = Hold { locked: Some(locked), owner: Some(owner) };
        // SAFETY: the slot holds the owner until the chunk is finished. While it does nobody can have the owner
        // mutably, and what it lent from a shared reference stays where it is.
        unsafe { self.submit(frames, hold, Place::InPlace) }
    }

    /// Starts a chunk.
    ///
    /// # Safety
    /// As [`Device::start`], where `hold` counts as keeping what it holds.
    pub(super) unsafe fn submit(&mut self, frames: Frames<'_>, hold: Hold, place: Place) -> Result<Ticket> {
        self.release();
        self.check(&frames)?;
        let index = self.free.pop().expect("a slot is free when not all are in flight");
        self.last = self.last.filter(|last| *last != index);
        let slot = &mut self.slots[index];
        slot.numbers.clear();
        slot.numbers.extend((0..frames.len()).map(|k| frames.number(k)));
        slot.lost_pixels = frames.lost_frames().map(|(_, m)| m.count() as u64).sum();
        if !frames.is_empty() {
            slot.hold = hold;
            // SAFETY: the caller's promise; the hold is in the slot before the device reads.
            if let Err(e) = unsafe { self.device.start(index, frames, self.next_frame, place) } {
                self.fail(&e);
                self.slots[index].hold = Hold::default();
                self.free.push(index);
                return Err(e);
            }
        }
        self.next_frame += frames.len() as u64;
        self.flight.push_back(index);
        Ok(self.tickets.issue())
    }

    /// Waits for a chunk and lends its clusters until the next call.
    pub(super) fn collect(&mut self, ticket: Ticket) -> Result<Clusters<'_>> {
        self.release();
        self.tickets.redeem(ticket)?;
        let index = self.flight.pop_front().expect("one a ticket");
        // Lent from here on: the next call takes the slot back, also after an error.
        self.lent = Some(index);
        self.last = None;
        if self.slots[index].numbers.is_empty() {
            const NONE: &[u32] = &[];
            let Kind { shape, params, .. } = &self.kind;
            return Clusters::new(*shape, params.size, params.payload, &[], &[0], bytemuck::cast_slice(NONE))
                .and_then(|c| if params.trace { c.with_trace(&[]) } else { Ok(c) });
        }
        let done = self.complete(index);
        self.slots[index].hold = Hold::default();
        let (clusters, saturated) = done?;
        self.last = Some(index);
        self.statistics.frames += self.slots[index].numbers.len() as u64;
        self.statistics.clusters += clusters;
        self.statistics.saturated += saturated;
        self.statistics.lost_pixels += self.slots[index].lost_pixels;
        let found = self.device.clusters(index, &self.slots[index].numbers)?;
        self.statistics.saturated += found.infinite_f16();
        Ok(found)
    }

    /// Waits for the chunk of a slot, and has it done again when its result did not fit.
    fn complete(&mut self, index: usize) -> Result<(u64, u64)> {
        // One more try is enough when the counts are true; a second is for a device that rounds down.
        let mut tries = 0;
        let outcome = loop {
            match self.device.finish(index) {
                Ok(Outcome::Complete { clusters, saturated }) => break Ok((clusters, saturated)),
                Ok(Outcome::Overflow(short)) => {
                    self.statistics.redone += u64::from(tries == 0);
                    tries += 1;
                    let again = match tries {
                        1 | 2 => self.device.redo(index, short),
                        _ => Err(Error::Overflow {
                            frame: short.frame as u64,
                            found: short.found,
                            capacity: short.capacity,
                        }),
                    };
                    if let Err(e) = again {
                        break Err(e);
                    }
                }
                Err(e) => break Err(e),
            }
        };
        outcome.map_err(|e| match e {
            // Only this result is lost: the pedestal does not depend on the room for it.
            Error::Overflow { frame, found, capacity } => {
                let frame = self.slots[index].numbers.get(frame as usize).copied().unwrap_or(frame);
                Error::Overflow { frame, found, capacity }
            }
            e => {
                self.fail(&e);
                e
            }
        })
    }

    /// After an error the pedestal is not known; what the device still reads must be let go by it first.
    pub(super) fn fail(&mut self, e: &Error) {
        self.broken.get_or_insert_with(|| e.to_string());
        // Waits for the chunks before the failed one too; they can be collected afterwards.
        self.device.settle();
    }

    /// Waits for everything in flight, throws the results away and says of how many chunks.
    pub(super) fn abandon(&mut self) -> usize {
        self.release();
        while let Some(index) = self.flight.pop_front() {
            if !self.slots[index].numbers.is_empty()
                && let Err(e) = self.device.finish(index)
            {
                self.fail(&e);
            }
            self.slots[index].hold = Hold::default();
            self.free.push(index);
        }
        self.tickets.abandon()
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // Before the holds go.
        self.device.settle();
    }
}

#[cfg(test)]
#[path = "slots_tests.rs"]
mod tests;
