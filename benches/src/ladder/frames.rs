//! Steps that work a frame at a time: opt1 to opt7 and the routes A, B' and B''.

use std::sync::Arc;

use rayon::prelude::*;
use scheidegg::{Clusters, Frames, Params, Pedestal, Result, Shape, record_bytes};

use super::device::Device;
use super::kernels::{CAPACITY, Kernels, Planes, RECORDS_AT, Scratch, Span, header_of};
use super::measure::{Driver, Take, Traffic};
use super::memory::Pinned;
use super::steps::{FramePlan, LANES, Ownership};
use super::stream::{Event, Graph, Stream};

/// Results that own their memory, as words so that records are aligned (`i32` records are whole words).
type Owned = Vec<u32>;

/// A pedestal chain with its buffers; it stays in one stream.
struct Lane {
    stream: usize,
    planes: Planes,
    scratch: Scratch,
    /// Kernels and result copy for either set of planes, and the slot that they fill.
    graphs: Vec<Graph>,
}

/// Drives frames through the GPU one by one.
pub struct FrameDriver<'a> {
    plan: FramePlan,
    params: Params,
    shape: Shape,
    frames: Frames<'a>,
    kernels: Kernels,
    streams: Vec<Stream>,
    lanes: Vec<Lane>,
    /// The frames again, page-locked.
    input: Option<Pinned>,
    /// A result at full capacity for every frame in flight.
    results: Pinned,
    result_bytes: usize,
    /// One a unit in flight and stream.
    events: Vec<Vec<Event>>,
    /// Owned results live until the end of the run, as a user's would.
    kept: Vec<Owned>,
    traffic: Traffic,
    device: Arc<Device>,
}

impl<'a> FrameDriver<'a> {
    /// Everything allocated, nothing run.
    ///
    /// # Errors
    /// Those of the device.
    pub fn new(
        device: &Arc<Device>,
        plan: FramePlan,
        params: &Params,
        pedestal: &Pedestal,
        frames: Frames<'a>,
    ) -> Result<Self> {
        let shape = frames.shape();
        let kernels = Kernels::new(device, shape, params, 1, 1)?;
        let record = record_bytes(params.size, params.payload);
        let result_bytes = RECORDS_AT as usize + CAPACITY as usize * record;
        let streams = (0..plan.streams).map(|_| Stream::new(device)).collect::<Result<Vec<_>>>()?;
        let results = Pinned::new(device, result_bytes * plan.unit * plan.ring, false)?;
        let lanes = (0..LANES).map(|i| {
            Ok(Lane {
                stream: i % plan.streams,
                planes: Planes::new(device, pedestal, 1)?,
                scratch: kernels.scratch(device, 1, CAPACITY)?,
                graphs: Vec::new(),
            })
        });
        let lanes = lanes.collect::<Result<Vec<_>>>()?;
        let events = (0..plan.ring)
            .map(|_| (0..plan.streams).map(|_| Event::new(device)).collect())
            .collect::<Result<Vec<_>>>()?;
        let input = match plan.pinned {
            true => {
                let mut memory = Pinned::new(device, size_of_val(frames.as_slice()), true)?;
                memory.bytes_mut().copy_from_slice(bytemuck::cast_slice(frames.as_slice()));
                Some(memory)
            }
            false => None,
        };
        let mut driver = FrameDriver {
            plan,
            params: params.clone(),
            shape,
            frames,
            kernels,
            streams,
            lanes,
            input,
            results,
            result_bytes,
            events,
            kept: Vec::new(),
            traffic: Traffic::default(),
            device: device.clone(),
        };
        if plan.graph {
            driver.record()?;
        }
        Ok(driver)
    }

    /// Records one graph for every slot: with a unit of one frame and two slots a lane, a slot always meets the same
    /// lane and the same set of planes.
    fn record(&mut self) -> Result<()> {
        assert!(
            self.plan.unit == 1 && self.plan.ring == 2 * LANES,
            "a slot must always meet the same planes"
        );
        for (i, lane) in self.lanes.iter_mut().enumerate() {
            let stream = &self.streams[lane.stream];
            for turn in 0..2 {
                lane.planes.set_turn(turn);
                let (planes, scratch) = (&mut lane.planes, &lane.scratch);
                let (kernels, results, bytes) = (&self.kernels, &self.results, self.result_bytes);
                let slot = turn * LANES + i;
                let graph = stream.capture(|| {
                    kernels.judge(stream, planes, scratch, Span { first: 0, frames: 1, end: 1 })?;
                    kernels.gather(stream, scratch, 1, None)?;
                    // SAFETY: the slot is read only after the unit's event, see `collect`.
                    unsafe { stream.download_pinned(results, slot * bytes, &scratch.out, 0, bytes) }
                })?;
                lane.graphs.push(graph);
            }
            lane.planes.set_turn(0);
        }
        Ok(())
    }

    /// Puts a frame's work into its lane's stream.
    fn enqueue(&mut self, k: usize) -> Result<()> {
        let lane = &mut self.lanes[k % LANES];
        let stream = &self.streams[lane.stream];
        let raw = self.frames.frame(k);
        let bytes = size_of_val(raw);
        match &self.input {
            // SAFETY: the input lives as long as the driver and is never written again.
            Some(input) => unsafe {
                stream.upload(&lane.scratch.raw, 0, input.part(k * bytes, bytes))?;
            },
            // SAFETY: pageable memory, borrowed for as long as the driver lives.
            None => unsafe { stream.upload(&lane.scratch.raw, 0, raw)? },
        }
        self.traffic.h2d += bytes as u64;
        let slot = k % (self.plan.unit * self.plan.ring);
        if self.plan.graph {
            let turn = lane.planes.turn();
            // SAFETY: everything that was recorded lives as long as the driver.
            unsafe { lane.graphs[turn].launch(stream)? };
            lane.planes.set_turn(1 - turn);
            self.traffic.d2h += self.result_bytes as u64;
            return Ok(());
        }
        self.kernels.judge(stream, &mut lane.planes, &lane.scratch, Span { first: 0, frames: 1, end: 1 })?;
        self.kernels.gather(stream, &lane.scratch, 1, None)?;
        if !self.plan.count_first {
            // SAFETY: the slot was collected before, and is read again only after the unit's event.
            unsafe {
                let at = slot * self.result_bytes;
                stream.download_pinned(&self.results, at, &lane.scratch.out, 0, self.result_bytes)?;
            }
            self.traffic.d2h += self.result_bytes as u64;
        }
        Ok(())
    }

    fn submit(&mut self, unit: usize) -> Result<()> {
        let first = unit * self.plan.unit;
        for k in first..(first + self.plan.unit).min(self.frames.len()) {
            self.enqueue(k)?;
        }
        for (stream, event) in self.streams.iter().zip(&self.events[unit % self.plan.ring]) {
            event.record(stream)?;
        }
        Ok(())
    }

    fn collect(&mut self, unit: usize, take: &mut Take<'_>) -> Result<()> {
        for event in &self.events[unit % self.plan.ring] {
            event.synchronize()?;
        }
        let first = unit * self.plan.unit;
        let end = (first + self.plan.unit).min(self.frames.len());
        if self.plan.count_first { self.fetch(first..end, take) } else { self.hand_out(first..end, take) }
    }

    /// Counts of all frames of a round, then their clusters, into fresh memory each.
    fn fetch(&mut self, frames: std::ops::Range<usize>, take: &mut Take<'_>) -> Result<()> {
        let record = record_bytes(self.params.size, self.params.payload);
        let mut counts = Vec::with_capacity(frames.len());
        for k in frames.clone() {
            let lane = &self.lanes[k % LANES];
            let stream = &self.streams[lane.stream];
            let mut header = [0u8; 16];
            // SAFETY: waited for in the next line.
            unsafe { stream.download(header.as_mut_ptr(), &lane.scratch.out, 0, 16)? };
            stream.synchronize()?;
            counts.push(header_of(&header, k as u64, CAPACITY)? as usize);
        }
        for (k, count) in frames.zip(counts) {
            let lane = &self.lanes[k % LANES];
            let stream = &self.streams[lane.stream];
            let bytes = count * record;
            let mut owned: Owned = vec![0; bytes / 4];
            // SAFETY: waited for in the next line; the vector has room for the bytes.
            unsafe { stream.download(owned.as_mut_ptr().cast(), &lane.scratch.out, RECORDS_AT, bytes)? };
            stream.synchronize()?;
            self.traffic.d2h += 16 + bytes as u64;
            self.traffic.result += bytes as u64;
            self.give(k, count, bytemuck::cast_slice(&owned), take)?;
            self.kept.push(owned);
        }
        Ok(())
    }

    fn give(&self, k: usize, count: usize, records: &[u8], take: &mut Take<'_>) -> Result<()> {
        let (numbers, offsets) = ([k as u64], [0, count as u64]);
        take(Clusters::new(self.shape, self.params.size, self.params.payload, &numbers, &offsets, records)?)
    }

    /// Results that lie in the slots, copied or lent.
    fn hand_out(&mut self, frames: std::ops::Range<usize>, take: &mut Take<'_>) -> Result<()> {
        let record = record_bytes(self.params.size, self.params.payload);
        let slots = self.plan.unit * self.plan.ring;
        let results = frames.map(|k| {
            let at = (k % slots) * self.result_bytes;
            let count = header_of(self.results.part(at, 16), k as u64, CAPACITY)? as usize;
            Ok((k, count, self.results.part(at + RECORDS_AT as usize, count * record)))
        });
        let results = results.collect::<Result<Vec<(usize, usize, &[u8])>>>()?;
        self.traffic.result += results.iter().map(|(_, _, r)| r.len() as u64).sum::<u64>();
        // The cast checks that records are aligned; the copy is one pass over fresh memory.
        let copy = |records: &[u8]| -> Owned { bytemuck::cast_slice(records).to_vec() };
        match self.plan.ownership {
            Ownership::View => {
                for (k, count, records) in results {
                    self.give(k, count, records, take)?;
                }
            }
            Ownership::Frame => {
                let mut kept = std::mem::take(&mut self.kept);
                for (k, count, records) in results {
                    let owned = copy(records);
                    self.give(k, count, bytemuck::cast_slice(&owned), take)?;
                    kept.push(owned);
                }
                self.kept = kept;
            }
            Ownership::Pool => {
                let owned: Vec<Owned> = results.par_iter().map(|(_, _, records)| copy(records)).collect();
                for ((k, count, _), o) in results.iter().zip(&owned) {
                    self.give(*k, *count, bytemuck::cast_slice(o), take)?;
                }
                self.kept.extend(owned);
            }
            Ownership::Unit => {
                let words = results.iter().map(|(_, _, r)| r.len() / 4).sum();
                let mut owned = Owned::with_capacity(words);
                results.iter().for_each(|(_, _, r)| owned.extend_from_slice(bytemuck::cast_slice(r)));
                let mut at = 0;
                for (k, count, records) in results {
                    let end = at + records.len() / 4;
                    self.give(k, count, bytemuck::cast_slice(&owned[at..end]), take)?;
                    at = end;
                }
                self.kept.push(owned);
            }
        }
        Ok(())
    }
}

impl Driver for FrameDriver<'_> {
    fn reset(&mut self) -> Result<()> {
        self.kept.clear();
        self.traffic = Traffic::default();
        for lane in &mut self.lanes {
            lane.planes.reset(&self.streams[lane.stream])?;
        }
        self.device.synchronize()
    }

    fn run(&mut self, take: &mut Take<'_>) -> Result<()> {
        let units = self.frames.len().div_ceil(self.plan.unit);
        for unit in 0..units {
            if unit >= self.plan.ring {
                self.collect(unit - self.plan.ring, take)?;
            }
            self.submit(unit)?;
        }
        for unit in units.saturating_sub(self.plan.ring)..units {
            self.collect(unit, take)?;
        }
        Ok(())
    }

    fn traffic(&self) -> Traffic {
        self.traffic
    }
}
