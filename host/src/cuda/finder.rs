//! The finder on GPUs.

use std::collections::VecDeque;
use std::sync::Arc;

use rayon::prelude::*;
use scheidegg_finder::{
    Clusters, ClustersBuf, Error, Finder, FrameBuf, FrameOwner, Frames, Noise, Params, Pedestal, Result,
    Shape, Statistics, Ticket, Training,
};

use super::api::BACKEND;
use super::driver::Context;
use super::group::Group;
use super::memory::page_locked;
use super::pinned::PinnedPixels;
#[cfg(test)]
use super::slots::Device;
use super::slots::{Hold, Kind, Place, Ring};
use super::{ChunkTiming, Options};

/// A [`Finder`] on one or several NVIDIA GPUs.
///
/// Frames that lie in page-locked memory ([`Finder::frame_buffer`], [`RegisteredFrames`](super::RegisteredFrames),
/// [`RegisteredSlice`](super::RegisteredSlice)) are read by the GPU where they lie: with [`Finder::submit_shared`] and
/// [`Finder::find`] no copy is made on the host. Others are copied to page-locked memory first.
///
/// # Determinism
/// Results are the CPU's, bit for bit, and do not depend on [`Options`].
pub struct CudaFinder {
    ring: Ring,
    training: Training,
    running: bool,
    explanation: String,
    device: usize,
}

impl CudaFinder {
    /// A finder without a pedestal. Kernels are loaded, memory is not yet allocated.
    ///
    /// # Errors
    /// [`Error::Unavailable`] with the reason, [`Error::Unsupported`] for what the GPU does not compute,
    /// [`Error::Param`] for parameters or options out of range.
    pub fn new(shape: Shape, params: &Params, options: &Options) -> Result<Self> {
        let training = Training::new(shape, params)?;
        super::backend::check_supported(params)?;
        let group = Group::new(shape, params, options)?;
        let explanation = group.explain();
        let kind =
            Kind { shape, params: params.clone(), slots: options.slots, chunk_frames: group.chunk_frames() };
        let ring = Ring::new(Box::new(group), kind);
        let device = options.devices.first().copied().unwrap_or(0);
        Ok(CudaFinder { ring, training, running: false, explanation, device })
    }

    /// On another device than a GPU: for tests of everything above it.
    #[cfg(test)]
    pub(super) fn on(device: Box<dyn Device>, kind: Kind) -> Result<Self> {
        let training = Training::new(kind.shape, &kind.params)?;
        let ring = Ring::new(device, kind);
        Ok(CudaFinder { ring, training, running: false, explanation: String::new(), device: 0 })
    }

    /// How the work is cut and why, a line for each GPU.
    pub fn explain(&self) -> &str {
        &self.explanation
    }

    /// With [`Options::timing`], how long the chunk that was collected last took on the GPU.
    pub fn timing(&self) -> Option<ChunkTiming> {
        self.ring.timing()
    }

    /// Runs the kernels alone, `times` times, over the frames of the chunk that was collected last, which are still
    /// on the GPU, and says how long one run took: for measurements. Nothing else may be in flight, and the pedestal
    /// is not changed. The upload counts as 0, the output is the ordering of clusters without the copy to the host
    /// (with [`Output::Mapped`](super::Output::Mapped) it writes to the host).
    ///
    /// # Errors
    /// [`Error::SlotsFull`] while batches are in flight, [`Error::Param`] when no chunk was collected yet.
    pub fn time_kernels(&mut self, times: usize) -> Result<ChunkTiming> {
        let slot = self.ring.last_collected();
        let device = self.ring.idle()?;
        match slot {
            Some(slot) => device.time_kernels(slot, times),
            None => Err(Error::param("time_kernels", "no chunk collected", "submit and collect one first")),
        }
    }

    /// Starts the run when it has not begun.
    fn ready(&mut self) -> Result<()> {
        if !self.running {
            let mask = self.training.mask()?;
            let pedestal = self.training.pedestal()?;
            self.ring.idle()?.begin(&pedestal, mask.as_ref())?;
            self.running = true;
        }
        Ok(())
    }

    /// Changes the pedestal of every lane of the run. After an error some are changed and some are not: none is known.
    fn each_lane(&mut self, change: impl Fn(&mut Pedestal) -> Result<()>) -> Result<()> {
        let done = self.lane_by_lane(change);
        if let Err(e) = &done {
            self.ring.fail(e);
        }
        done
    }

    fn lane_by_lane(&mut self, change: impl Fn(&mut Pedestal) -> Result<()>) -> Result<()> {
        for lane in 0..self.training.params().lanes {
            let device = self.ring.idle()?;
            let mut pedestal = device.pedestal(lane)?;
            change(&mut pedestal)?;
            device.set_lane(lane, &pedestal)?;
        }
        Ok(())
    }
}

/// Waits for everything in flight when it goes, so that borrowed frames are not read any longer, whatever ends the
/// call that lent them.
struct Abandoning<'f>(&'f mut Ring);

impl Drop for Abandoning<'_> {
    fn drop(&mut self) {
        self.0.abandon();
    }
}

impl Finder for CudaFinder {
    fn backend(&self) -> &str {
        BACKEND
    }

    fn shape(&self) -> Shape {
        self.training.shape()
    }

    fn params(&self) -> &Params {
        self.training.params()
    }

    fn reserve(&mut self) -> Result<()> {
        self.ring.idle()?.reserve()?;
        if self.training.is_finished() { self.ready() } else { Ok(()) }
    }

    fn train(&mut self, darks: Frames<'_>) -> Result<()> {
        self.ring.idle()?;
        if self.running {
            Error::check_shape("dark frames", self.shape(), darks.shape())?;
            self.ring.whole()?;
            return self.each_lane(|p| p.update(darks));
        }
        self.training.train(darks)
    }

    fn finish_training(&mut self) -> Result<()> {
        self.training.finish()
    }

    fn refresh_noise(&mut self) -> Result<()> {
        self.ring.idle()?;
        self.ring.whole()?;
        if self.params().noise == Noise::Tracked {
            return self.training.pedestal().map(|_| ());
        }
        self.ready()?;
        self.each_lane(|p| {
            p.refresh_noise();
            Ok(())
        })
    }

    fn slots(&self) -> usize {
        self.ring.kind().slots
    }

    fn in_flight(&self) -> usize {
        self.ring.in_flight()
    }

    fn abandon(&mut self) -> usize {
        self.ring.abandon()
    }

    fn batch_frames(&self) -> usize {
        self.ring.kind().chunk_frames
    }

    fn max_batch_frames(&self) -> usize {
        self.ring.kind().chunk_frames
    }

    fn frame_buffer(&self, capacity: usize) -> Result<FrameBuf> {
        let pixels = self.shape().pixels().checked_mul(capacity).filter(|n| *n <= isize::MAX as usize / 2);
        let pixels = pixels.ok_or_else(|| Error::param("frames of a buffer", capacity, "fewer"))?;
        let memory = PinnedPixels::in_context(&Context::open(self.device)?, pixels)?;
        Ok(FrameBuf::in_memory(self.shape(), Box::new(memory)))
    }

    fn submit(&mut self, frames: Frames<'_>) -> Result<Ticket> {
        Error::check_shape("frames", self.shape(), frames.shape())?;
        self.training.pedestal()?;
        self.ring.check(&frames)?;
        self.ready()?;
        self.ring.submit_copied(frames)
    }

    fn submit_shared(&mut self, frames: Arc<dyn FrameOwner>) -> Result<Ticket> {
        Error::check_shape("frames", self.shape(), frames.frames().shape())?;
        self.training.pedestal()?;
        self.ring.check(&frames.frames())?;
        self.ready()?;
        let locked = page_locked(frames.frames().as_slice());
        match locked {
            Some(region) => self.ring.submit_owned(frames, region),
            None => self.ring.submit_copied(frames.frames()),
        }
    }

    fn collect(&mut self, ticket: Ticket) -> Result<Clusters<'_>> {
        self.ring.collect(ticket)
    }

    fn collect_into(&mut self, ticket: Ticket, into: &mut ClustersBuf) -> Result<()> {
        /// Bytes that are worth a thread of their own.
        const PART: usize = 4 << 20;
        let batch = self.ring.collect(ticket)?;
        into.clear();
        let parts = into.spare_bytes(batch.len()).par_chunks_mut(PART);
        parts.zip(batch.bytes().par_chunks(PART)).for_each(|(to, from)| to.copy_from_slice(from));
        for (number, ends) in batch.numbers().iter().zip(batch.offsets().windows(2)) {
            into.finish_frame(*number, (ends[1] - ends[0]) as usize);
        }
        batch.trace().into_iter().for_each(|codes| into.push_trace(codes));
        Ok(())
    }

    fn pedestal(&mut self, lane: usize) -> Result<Pedestal> {
        let lanes = self.params().lanes;
        if lane >= lanes {
            return Err(Error::param("lane", lane, format!("below {lanes}")));
        }
        self.ring.whole()?;
        match self.running {
            true => self.ring.device().pedestal(lane),
            false => Ok(self.training.pedestal()?.into_owned()),
        }
    }

    fn set_pedestal(&mut self, pedestal: &Pedestal) -> Result<()> {
        self.ring.idle()?;
        self.training.set_pedestal(pedestal)?;
        self.running = false;
        self.ring.restart();
        Ok(())
    }

    fn statistics(&self) -> Statistics {
        self.ring.statistics()
    }

    fn find(&mut self, frames: Frames<'_>, each: &mut dyn FnMut(Clusters<'_>) -> Result<()>) -> Result<()> {
        Error::check_shape("frames", self.shape(), frames.shape())?;
        self.ring.idle()?;
        if frames.is_empty() {
            return Ok(());
        }
        self.ready()?;
        let slots = self.slots();
        let guard = Abandoning(&mut self.ring);
        let ring = &mut *guard.0;
        let mut flight = VecDeque::with_capacity(slots);
        let mut refused = None;
        for batch in frames.batches(ring.kind().chunk_frames) {
            if flight.len() == slots
                && let Some(ticket) = flight.pop_front()
            {
                ring.collect(ticket).and_then(&mut *each)?;
            }
            // Looked up for every batch: `each` may let go of the lock.
            let locked = page_locked(batch.as_slice());
            let place = if locked.is_some() { Place::InPlace } else { Place::Copied };
            let hold = Hold { locked, owner: None };
            // SAFETY: the frames are borrowed until this call returns; before it does, also by an error or a panic,
            // the guard waits for everything in flight. The hold keeps them page-locked meanwhile.
            match unsafe { ring.submit(batch, hold, place) } {
                Ok(ticket) => flight.push_back(ticket),
                Err(e) => {
                    refused = Some(e);
                    break;
                }
            }
        }
        // Chunks before one that was refused are handed out.
        for ticket in flight {
            ring.collect(ticket).and_then(&mut *each)?;
        }
        refused.map_or(Ok(()), Err)
    }
}
