//! Steps that work a chunk of frames at a time: ours.
//!
//! A chunk goes through three streams, one for each engine. While chunk `i` is copied in, chunk `i-1` is judged and
//! chunk `i-2` copied out.

use std::sync::Arc;

use scheidegg::{Clusters, Frames, Params, Pedestal, Result, Shape, record_bytes};
use scheidegg_kernels::device::abi::Header;

use super::device::Device;
use super::kernels::{CAPACITY, Kernels, Planes, Scratch, Span, header_of};
use super::measure::{Driver, Take, Traffic};
use super::memory::Pinned;
use super::steps::{ChunkPlan, Delivery, LANES};
use super::stream::{Event, Stream};

/// A chunk in flight.
struct Slot {
    scratch: Scratch,
    /// Header and offsets, then the records.
    result: Pinned,
    uploaded: Event,
    judged: Event,
    delivered: Event,
    frames: usize,
    clusters: usize,
}

/// Drives chunks through the GPU.
pub struct ChunkDriver<'a> {
    plan: ChunkPlan,
    params: Params,
    shape: Shape,
    frames: Frames<'a>,
    input: Pinned,
    kernels: Kernels,
    planes: Planes,
    upload: Stream,
    compute: Stream,
    download: Stream,
    slots: Vec<Slot>,
    numbers: Vec<u64>,
    traffic: Traffic,
    device: Arc<Device>,
}

impl<'a> ChunkDriver<'a> {
    /// Everything allocated, nothing run.
    ///
    /// # Errors
    /// Those of the device.
    pub fn new(
        device: &Arc<Device>,
        plan: ChunkPlan,
        params: &Params,
        pedestal: &Pedestal,
        frames: Frames<'a>,
    ) -> Result<Self> {
        let shape = frames.shape();
        let kernels = Kernels::new(device, shape, params, plan.launch, LANES as u32)?;
        let record = record_bytes(params.size, params.payload);
        let capacity = CAPACITY * plan.frames as u64;
        let mut input = Pinned::new(device, size_of_val(frames.as_slice()), true)?;
        input.bytes_mut().copy_from_slice(bytemuck::cast_slice(frames.as_slice()));
        let slot = |_| {
            let scratch = kernels.scratch(device, plan.frames as u32, capacity)?;
            let bytes = scratch.records_at as usize + capacity as usize * record + 16;
            Ok(Slot {
                result: Pinned::new(device, bytes, false)?,
                scratch,
                uploaded: Event::new(device)?,
                judged: Event::new(device)?,
                delivered: Event::new(device)?,
                frames: 0,
                clusters: 0,
            })
        };
        let slots = (0..plan.ring).map(slot).collect::<Result<Vec<_>>>()?;
        Ok(ChunkDriver {
            plan,
            params: params.clone(),
            shape,
            frames,
            input,
            planes: Planes::new(device, pedestal, LANES)?,
            kernels,
            upload: Stream::new(device)?,
            compute: Stream::new(device)?,
            download: Stream::new(device)?,
            slots,
            numbers: Vec::with_capacity(plan.frames),
            traffic: Traffic::default(),
            device: device.clone(),
        })
    }

    fn submit(&mut self, chunk: usize) -> Result<()> {
        let first = chunk * self.plan.frames;
        let frames = self.plan.frames.min(self.frames.len() - first);
        let slot = &mut self.slots[chunk % self.plan.ring];
        slot.frames = frames;
        let bytes = self.shape.pixels() * 2;
        let raw = self.input.part(first * bytes, frames * bytes);
        // SAFETY: the input is never written again; the slot's chunk before was collected, so nobody reads `raw` now.
        unsafe { self.upload.upload(&slot.scratch.raw, 0, raw)? };
        slot.uploaded.record(&self.upload)?;
        self.traffic.h2d += raw.len() as u64;

        self.compute.wait(&slot.uploaded)?;
        let launch = self.kernels.tiling.frames;
        let mut at = 0;
        while at < frames as u32 {
            let span = Span { first: at, frames: launch, end: frames as u32 };
            self.kernels.judge(&self.compute, &mut self.planes, &slot.scratch, span)?;
            at += launch * LANES as u32;
        }
        let head = slot.scratch.records_at as usize;
        let records = match self.plan.delivery {
            Delivery::Direct => Some(slot.result.at(head)),
            _ => None,
        };
        self.kernels.gather(&self.compute, &slot.scratch, frames as u32, records)?;
        // The header travels behind the kernels; only true-size results wait for it on the host.
        // SAFETY: the slot's result was collected before; it is read again after the events.
        unsafe { self.compute.download_pinned(&slot.result, 0, &slot.scratch.out, 0, head)? };
        slot.judged.record(&self.compute)?;
        self.traffic.d2h += head as u64;
        if self.plan.delivery == Delivery::Capacity {
            self.download.wait(&slot.judged)?;
            let bytes = CAPACITY as usize * frames * record_bytes(self.params.size, self.params.payload);
            // SAFETY: as above.
            unsafe {
                self.download.download_pinned(&slot.result, head, &slot.scratch.out, head as u64, bytes)?;
            }
            slot.delivered.record(&self.download)?;
            self.traffic.d2h += bytes as u64;
        }
        Ok(())
    }

    /// Once a chunk has been judged: its size, and the copy of just that.
    fn deliver(&mut self, chunk: usize) -> Result<()> {
        let record = record_bytes(self.params.size, self.params.payload);
        let slot = &mut self.slots[chunk % self.plan.ring];
        slot.judged.synchronize()?;
        let capacity = CAPACITY * self.plan.frames as u64;
        let first = (chunk * self.plan.frames) as u64;
        slot.clusters = header_of(slot.result.part(0, 16), first, capacity)? as usize;
        let (head, bytes) = (slot.scratch.records_at as usize, slot.clusters * record);
        self.traffic.result += bytes as u64;
        match self.plan.delivery {
            Delivery::TrueSize => {
                // SAFETY: the slot's result was collected before; it is read again after the event.
                unsafe {
                    self.download.download_pinned(
                        &slot.result,
                        head,
                        &slot.scratch.out,
                        head as u64,
                        bytes,
                    )?;
                }
                slot.delivered.record(&self.download)?;
                self.traffic.d2h += bytes as u64;
            }
            Delivery::Direct => self.traffic.d2h += bytes as u64,
            Delivery::Capacity => {}
        }
        Ok(())
    }

    fn collect(&mut self, chunk: usize, take: &mut Take<'_>) -> Result<()> {
        let slot = &self.slots[chunk % self.plan.ring];
        if self.plan.delivery != Delivery::Direct {
            slot.delivered.synchronize()?;
        }
        let first = (chunk * self.plan.frames) as u64;
        self.numbers.clear();
        self.numbers.extend((0..slot.frames as u64).map(|k| first + k));
        let offsets = bytemuck::cast_slice(slot.result.part(size_of::<Header>(), 8 * (slot.frames + 1)));
        let (size, payload) = (self.params.size, self.params.payload);
        let bytes = slot.clusters * record_bytes(size, payload);
        let records = slot.result.part(slot.scratch.records_at as usize, bytes);
        take(Clusters::new(self.shape, size, payload, &self.numbers, offsets, records)?)
    }
}

impl Driver for ChunkDriver<'_> {
    fn reset(&mut self) -> Result<()> {
        self.traffic = Traffic::default();
        self.planes.reset(&self.compute)?;
        self.device.synchronize()
    }

    fn run(&mut self, take: &mut Take<'_>) -> Result<()> {
        let chunks = self.frames.len().div_ceil(self.plan.frames);
        let ahead = self.plan.ring - 1;
        let mut delivered = 0;
        for i in 0..chunks + ahead {
            if i < chunks {
                self.submit(i)?;
            }
            // The chunk before: while the host waits for its size, this one keeps the GPU at work. Whatever is to be
            // collected now must be on its way, with a single slot that is the chunk just submitted.
            let due = i.max((i + 1).saturating_sub(ahead)).min(chunks);
            while delivered < due {
                self.deliver(delivered)?;
                delivered += 1;
            }
            if let Some(done) = i.checked_sub(ahead) {
                self.collect(done, take)?;
            }
        }
        Ok(())
    }

    fn traffic(&self) -> Traffic {
        self.traffic
    }
}
