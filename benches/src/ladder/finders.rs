//! Steps that use a backend as users do: the CPU baseline and the library on the GPU.

use std::collections::VecDeque;
use std::sync::Arc;

use scheidegg::{Backend, Finder, FrameOwner, Frames, Params, Pedestal, Result, Ticket, record_bytes};

use super::measure::{Driver, Take, Traffic};

/// Drives frames through a [`Finder`].
pub struct FinderDriver<'a> {
    finder: Box<dyn Finder>,
    pedestal: Pedestal,
    frames: Frames<'a>,
    /// Batches in the memory that suits the backend, which it reads where they lie; none for the CPU.
    batches: Vec<Arc<dyn FrameOwner>>,
    traffic: Traffic,
}

impl<'a> FinderDriver<'a> {
    /// A finder over frames; with `shared` they are laid into the backend's own memory first.
    ///
    /// # Errors
    /// Those of the backend.
    pub fn new(
        backend: &dyn Backend,
        params: &Params,
        pedestal: &Pedestal,
        frames: Frames<'a>,
        shared: bool,
    ) -> Result<Self> {
        let mut finder = backend.build(frames.shape(), params)?;
        finder.set_pedestal(pedestal)?;
        finder.reserve()?;
        let mut batches: Vec<Arc<dyn FrameOwner>> = Vec::new();
        if shared {
            let size = finder.batch_frames().clamp(1, finder.max_batch_frames());
            for batch in frames.batches(size) {
                let mut buf = finder.frame_buffer(batch.len())?;
                for k in 0..batch.len() {
                    buf.push(batch.number(k), |pixels| {
                        pixels.copy_from_slice(batch.frame(k));
                        Ok(None)
                    })?;
                }
                batches.push(Arc::new(buf));
            }
        }
        let traffic = Traffic::default();
        Ok(FinderDriver { finder, pedestal: pedestal.clone(), frames, batches, traffic })
    }

    /// Frames of a batch.
    pub fn batch_frames(&self) -> usize {
        self.finder.batch_frames()
    }
}

impl Driver for FinderDriver<'_> {
    fn reset(&mut self) -> Result<()> {
        self.traffic = Traffic::default();
        self.finder.set_pedestal(&self.pedestal)
    }

    fn run(&mut self, take: &mut Take<'_>) -> Result<()> {
        if self.batches.is_empty() {
            return self.finder.find(self.frames, &mut |clusters| take(clusters));
        }
        let params = self.finder.params();
        let record = record_bytes(params.size, params.payload) as u64;
        let traffic = &mut self.traffic;
        let mut found = |clusters: &scheidegg::Clusters<'_>| {
            traffic.result += clusters.len() as u64 * record;
        };
        let slots = self.finder.slots().max(1);
        let mut flight: VecDeque<Ticket> = VecDeque::with_capacity(slots);
        for batch in &self.batches {
            if flight.len() == slots
                && let Some(ticket) = flight.pop_front()
            {
                let clusters = self.finder.collect(ticket)?;
                found(&clusters);
                take(clusters)?;
            }
            flight.push_back(self.finder.submit_shared(batch.clone())?);
        }
        for ticket in flight {
            let clusters = self.finder.collect(ticket)?;
            found(&clusters);
            take(clusters)?;
        }
        Ok(())
    }

    fn traffic(&self) -> Traffic {
        // What the library moves is its own affair; its results at their true size are what must come back.
        let h2d = if self.batches.is_empty() { 0 } else { size_of_val(self.frames.as_slice()) as u64 };
        Traffic { h2d, d2h: self.traffic.result, ..self.traffic }
    }
}
