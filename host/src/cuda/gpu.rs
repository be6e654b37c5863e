//! One GPU: its kernels, its streams, the pedestals of its lanes, its slots.
//!
//! Three streams: frames go up in the first, the chain of pedestals runs in the second, results go down in the
//! third. Events tie the stages of a chunk together, so that three chunks are under way at once.
//!
//! Pedestals stand in a ring of one more than there are slots: chunk `c` reads number `c` and writes number `c + 1`
//! (both modulo the ring), so that the pedestal before every chunk in flight is still there when the chunk has to be
//! done again.

use std::sync::Arc;

use bytemuck::Pod;
use rayon::prelude::*;
use scheidegg_finder::{Clusters, Error, Frames, Params, Pedestal, PixelMask, Plane, Result, Shape};
use scheidegg_kernels::Real;
use scheidegg_kernels::device::abi::{self, FrameArgs, Header};

use super::api::BACKEND;
use super::chunk::{Chunk, Content, summary};
use super::code::module_of;
use super::driver::{Context, Event, Function, Geometry, Module, Stream};
use super::memory::DeviceMemory;
use super::plan::{Launches, Plan, Share, Words};
use super::slots::{Outcome, Place, Shortfall};
use super::{ChunkTiming, Options};

/// Which frames of a batch a GPU does.
#[derive(Clone, Copy, Debug)]
pub(super) enum Picks<'a> {
    /// All of them.
    All,
    /// Those with these indices, ascending.
    List(&'a [u32]),
}

impl Picks<'_> {
    fn len(&self, frames: &Frames<'_>) -> usize {
        match self {
            Picks::All => frames.len(),
            Picks::List(list) => list.len(),
        }
    }

    fn get(&self, i: usize) -> usize {
        match self {
            Picks::All => i,
            Picks::List(list) => list[i] as usize,
        }
    }

    /// First and step, when they are evenly apart.
    fn evenly(&self) -> Option<(usize, usize)> {
        match self {
            Picks::All => Some((0, 1)),
            Picks::List([]) => None,
            Picks::List([one]) => Some((*one as usize, 1)),
            Picks::List(list) => {
                let step = list[1] - list[0];
                let even = list.windows(2).all(|w| w[1] - w[0] == step);
                even.then_some((list[0] as usize, step as usize))
            }
        }
    }
}

struct Kernels {
    frame: Function,
    scan: Function,
    offsets: Function,
    place: Function,
    copy: Function,
}

/// The pedestals of all lanes at one time: sums, then sums of squares.
struct Planes(DeviceMemory);

/// Everything that is allocated for a run.
struct Memory {
    x0: DeviceMemory,
    /// A ring, see above.
    pedestals: Vec<Planes>,
    /// Between the launches of a chunk.
    between: [Planes; 2],
    fixed: Option<DeviceMemory>,
    mask: DeviceMemory,
    /// The number one.
    one: DeviceMemory,
    chunks: Vec<Chunk>,
}

/// The state of a run.
struct Run {
    /// Without the sums, which are on the GPU.
    base: Pedestal,
    fixed: Vec<Option<Plane>>,
    masked: bool,
    /// The pedestal after everything started so far.
    current: usize,
}

/// One GPU with its part of the lanes.
pub(super) struct Gpu {
    // Dropped in this order; `drop` waits for the streams first.
    memory: Option<Memory>,
    run: Option<Run>,
    kernels: Kernels,
    upload: Stream,
    chain: Stream,
    output: Stream,
    plan: Plan,
    launches: Launches,
    params: Params,
    graphs: bool,
    timing: bool,
    /// Room for records that new chunks get, after an overflow more than planned.
    room: (u32, u64),
    /// Clusters a frame of the chunk finished last, to know how many to fetch.
    density: f64,
    context: Arc<Context>,
}

impl Gpu {
    /// A GPU made ready: context, kernels, streams; no memory yet.
    ///
    /// # Errors
    /// [`Error::Unavailable`] with the reason, [`Error::Param`] for options that cannot be.
    pub(super) fn new(
        ordinal: usize,
        shape: Shape,
        params: &Params,
        options: &Options,
        share: Share,
    ) -> Result<Gpu> {
        let context = Context::open(ordinal)?;
        let (free, _) = context.memory()?;
        let (plan, launches) = Plan::new(shape, params, options, share, context.info().sms, free as u64)?;
        let module = Module::load(&context, module_of(plan.entry)?)?;
        let gather = Module::load(&context, module_of(abi::COPY)?)?;
        let shared = launches.tiling.shared_bytes as usize;
        let scan = abi::SCAN_SHARED_BYTES as usize;
        let kernels = Kernels {
            frame: module.function(plan.entry, shared)?,
            scan: gather.function(abi::SCAN, scan)?,
            offsets: gather.function(abi::OFFSETS, scan)?,
            place: gather.function(abi::PLACE, 0)?,
            copy: gather.function(abi::COPY, 0)?,
        };
        if kernels.frame.blocks_per_sm(launches.tiling.threads(), shared)? == 0 {
            return Err(Error::Param {
                name: "frames_per_launch".into(),
                found: launches.tiling.frames.to_string(),
                expected: format!(
                    "fewer: a block of {} threads does not fit {}",
                    launches.tiling.threads(),
                    context.info().name
                ),
            });
        }
        Ok(Gpu {
            memory: None,
            run: None,
            kernels,
            upload: Stream::new(&context)?,
            chain: Stream::new(&context)?,
            output: Stream::new(&context)?,
            room: (plan.cap_tile, plan.out_cap),
            plan,
            launches,
            params: params.clone(),
            graphs: options.graphs,
            timing: options.timing,
            density: 0.0,
            context,
        })
    }

    pub(super) fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The plan in words.
    pub(super) fn explain(&self) -> String {
        format!(
            "GPU {} ({}): {}",
            self.context.info().ordinal,
            self.context.info(),
            Words(&self.plan, &self.launches)
        )
    }

    /// Allocates everything but the memory that frames are copied to; with `input` that too.
    pub(super) fn reserve(&mut self, input: bool) -> Result<()> {
        self.context.bind()?;
        if self.memory.is_none() {
            let p = &self.plan;
            let new = |bytes, what| DeviceMemory::new(&self.context, bytes, what);
            let planes = || new(2 * p.plane_bytes(), "pedestals").map(Planes);
            let one = new(4, "a number")?;
            one.write(&self.upload, 0, &[1u32])?;
            self.memory = Some(Memory {
                x0: new(p.pixels * 2, "offsets")?,
                pedestals: (0..p.pedestals()).map(|_| planes()).collect::<Result<_>>()?,
                between: [planes()?, planes()?],
                fixed: if p.fixed_noise { Some(new(p.plane_bytes(), "fixed noise")?) } else { None },
                mask: new(self.launches.job.mask_words() as usize * 4, "a mask")?,
                one,
                chunks: (0..p.slots)
                    .map(|_| Chunk::new(&self.upload, p, &self.launches, self.timing))
                    .collect::<Result<_>>()?,
            });
        }
        if input && let Some(memory) = &mut self.memory {
            for chunk in &mut memory.chunks {
                chunk.reserve_input(&self.context, &self.plan)?;
            }
        }
        Ok(())
    }

    fn memory(&self) -> &Memory {
        self.memory.as_ref().expect("a run has begun, so memory is there")
    }

    fn memory_mut(&mut self) -> &mut Memory {
        self.memory.as_mut().expect("a run has begun, so memory is there")
    }

    fn run(&self) -> Result<&Run> {
        self.run.as_ref().ok_or_else(|| Error::Other(format!("backend {BACKEND}: no run has begun")))
    }

    /// Starts a run.
    pub(super) fn begin(&mut self, pedestal: &Pedestal, mask: Option<&PixelMask>) -> Result<()> {
        self.reserve(false)?;
        self.context.bind()?;
        self.run = None;
        let lanes = self.plan.lanes;
        let mask = mask.filter(|m| !m.is_empty());
        let memory = self.memory.as_mut().expect("reserved above");
        memory.chunks.iter_mut().flat_map(|c| &mut c.graphs).for_each(|g| *g = None);
        memory.x0.write(&self.chain, 0, &pedestal.x0)?;
        if let Some(mask) = mask {
            memory.mask.write(&self.chain, 0, mask.words())?;
        }
        let empty = if pedestal.sum.is_f64() { Plane::F64(vec![]) } else { Plane::F32(vec![]) };
        let base = Pedestal {
            shape: pedestal.shape,
            samples: pedestal.samples,
            x0: pedestal.x0.clone(),
            sum: empty.clone(),
            sum2: empty,
            fixed_variance: None,
            untrained: pedestal.untrained.clone(),
        };
        self.run = Some(Run { base, fixed: vec![None; lanes], masked: mask.is_some(), current: 0 });
        for lane in 0..lanes {
            self.set_lane(lane, pedestal)?;
        }
        self.record_graphs()
    }

    /// Replaces the pedestal of a lane.
    pub(super) fn set_lane(&mut self, lane: usize, pedestal: &Pedestal) -> Result<()> {
        self.context.bind()?;
        let at = self.run()?.current;
        let memory = self.memory.as_ref().expect("a run has begun, so memory is there");
        let planes = &memory.pedestals[at].0;
        let bytes = self.plan.pixels * self.plan.value_bytes();
        let write = |to: &DeviceMemory, byte: usize, plane: &Plane| match plane {
            Plane::F32(v) => to.write(&self.chain, byte, v),
            Plane::F64(v) => to.write(&self.chain, byte, v),
        };
        write(planes, lane * bytes, &pedestal.sum)?;
        write(planes, self.plan.plane_bytes() + lane * bytes, &pedestal.sum2)?;
        if let (Some(fixed), Some(variance)) = (&memory.fixed, &pedestal.fixed_variance) {
            write(fixed, lane * bytes, variance)?;
        }
        let run = self.run.as_mut().expect("seen above");
        run.fixed[lane] = pedestal.fixed_variance.clone();
        Ok(())
    }

    /// The pedestal of a lane after everything started so far.
    pub(super) fn pedestal(&mut self, lane: usize) -> Result<Pedestal> {
        self.context.bind()?;
        let run = self.run()?;
        let planes = &self.memory().pedestals[run.current].0;
        let (pixels, bytes) = (self.plan.pixels, self.plan.pixels * self.plan.value_bytes());
        let second = self.plan.plane_bytes();
        let read = |byte: usize| -> Result<Plane> {
            fn values<T: Pod>(m: &DeviceMemory, s: &Stream, byte: usize, n: usize) -> Result<Vec<T>> {
                let mut v = vec![T::zeroed(); n];
                m.read(s, byte, &mut v)?;
                Ok(v)
            }
            Ok(match self.plan.pedestal_f64 {
                true => Plane::F64(values(planes, &self.chain, byte, pixels)?),
                false => Plane::F32(values(planes, &self.chain, byte, pixels)?),
            })
        };
        Ok(Pedestal {
            sum: read(lane * bytes)?,
            sum2: read(second + lane * bytes)?,
            fixed_variance: run.fixed[lane].clone(),
            ..run.base.clone()
        })
    }

    /// Starts a chunk; its first frame belongs to lane `lane0` of this GPU.
    ///
    /// # Safety
    /// As [`Device::start`](super::slots::Device::start).
    pub(super) unsafe fn start(
        &mut self,
        slot: usize,
        frames: &Frames<'_>,
        picks: Picks<'_>,
        lane0: usize,
        place: Place,
    ) -> Result<()> {
        self.context.bind()?;
        let from = self.run()?.current;
        let n = picks.len(frames);
        let (plan, launches, context) = (&self.plan, &self.launches, &self.context);
        let memory = self.memory.as_mut().expect("a run has begun, so memory is there");
        let chunk = &mut memory.chunks[slot];
        assert!(n > 0 && n <= plan.chunk, "{n} frames in a chunk of {}", plan.chunk);
        if chunk.records.cap_tile < self.room.0 || chunk.records.out_cap < self.room.1 {
            let cap_tile = chunk.records.cap_tile.max(self.room.0);
            chunk.grow(&self.upload, plan, launches, cap_tile, chunk.records.out_cap.max(self.room.1))?;
        }
        chunk.content.frames = n;
        chunk.content.lane0 = lane0;
        chunk.content.from = from;
        chunk.expect(plan);
        if let Some((upload, _)) = &chunk.started {
            upload.record(&self.upload)?;
        }
        match (place, picks.evenly()) {
            (Place::Copied, _) => {
                // SAFETY: the slot is free.
                copy_frames(unsafe { chunk.input(context, plan, n)? }, frames, &picks);
                chunk.upload_input(&self.upload, plan, n)?;
            }
            (Place::InPlace, Some((0, 1))) if n == frames.len() => {
                // SAFETY: the caller's promise.
                unsafe { chunk.upload_frames(&self.upload, frames)? };
            }
            (Place::InPlace, Some((first, step))) => {
                // SAFETY: the caller's promise.
                unsafe { chunk.upload_every(&self.upload, frames, first, step, n)? };
            }
            (Place::InPlace, None) => {
                chunk.content.stride = plan.pixels;
                for i in 0..n {
                    let pixels = frames.frame(picks.get(i));
                    // SAFETY: the caller's promise.
                    unsafe { chunk.frames.upload(&self.upload, i * plan.pixels * 2, pixels)? };
                }
            }
        }
        let words = launches.job.mask_words() as usize;
        match picks {
            Picks::All => chunk.upload_lost(&self.upload, plan, words, frames.lost_frames())?,
            Picks::List(list) => {
                let lost = list.iter().enumerate().filter_map(|(i, k)| Some((i, frames.lost(*k as usize)?)));
                chunk.upload_lost(&self.upload, plan, words, lost)?;
            }
        }
        chunk.uploaded.record(&self.upload)?;
        self.chain.wait(&memory.chunks[slot].uploaded)?;
        let to = (from + 1) % self.plan.pedestals();
        self.find(slot, Some(to))?;
        self.run.as_mut().expect("seen above").current = to;
        self.gather(slot, true)
    }

    /// Puts the chain of launches of a chunk into its stream. Without `to` the pedestals at its end are thrown away.
    fn find(&mut self, slot: usize, to: Option<usize>) -> Result<()> {
        let memory = self.memory.as_mut().expect("a run has begun, so memory is there");
        let chunk = &mut memory.chunks[slot];
        if let Some((_, find)) = &chunk.started {
            find.record(&self.chain)?;
        }
        chunk.summary.fill(&self.chain, summary::SATURATED, 8, 0)?;
        let c = chunk.content;
        let whole = c.frames == self.plan.chunk && c.stride == self.plan.pixels && c.lane0 == 0 && !c.lost;
        if whole
            && to.is_some()
            && let Some(graph) = &mut chunk.graphs[c.from]
        {
            // SAFETY: recorded for this slot and pedestal since memory was last allocated.
            unsafe { graph.launch(&self.chain)? };
        } else {
            self.launch_all(slot, to)?;
        }
        let chunk = &self.memory().chunks[slot];
        chunk.found.record(&self.chain)
    }

    fn launch_all(&self, slot: usize, to: Option<usize>) -> Result<()> {
        match self.plan.pedestal_f64 {
            true => self.launch_frames::<f64>(slot, to),
            false => self.launch_frames::<f32>(slot, to),
        }
    }

    fn launch_frames<P: Real>(&self, slot: usize, to: Option<usize>) -> Result<()> {
        let (memory, plan, run) = (self.memory(), &self.plan, self.run()?);
        let Launches { job, tiling } = self.launches;
        let chunk = &memory.chunks[slot];
        let c = chunk.content;
        let lanes = plan.lanes as u32;
        let launches = c.frames.div_ceil(plan.lanes).div_ceil(tiling.frames as usize);
        let (lost_slot, lost_bits) = chunk.lost(plan);
        let second = plan.plane_bytes();
        let geometry = Geometry {
            grid: [tiling.tiles(), lanes, 1],
            block: [tiling.threads(), 1, 1],
            shared_bytes: tiling.shared_bytes,
        };
        let mut from = &memory.pedestals[c.from].0;
        for launch in 0..launches {
            let last = launch + 1 == launches;
            let into = match to {
                Some(to) if last => &memory.pedestals[to].0,
                _ => &memory.between[launch % 2].0,
            };
            let arguments = FrameArgs::<P> {
                raw: chunk.frames.at(0),
                stride: c.stride as u64,
                x0: memory.x0.at(0),
                sum_in: from.at(0),
                sum2_in: from.at(second),
                sum_out: into.at(0),
                sum2_out: into.at(second),
                fixed: memory.fixed.as_ref().map_or(std::ptr::null(), |f| f.at(0)),
                mask: if run.masked { memory.mask.at(0) } else { std::ptr::null() },
                lost_slot,
                lost_bits,
                staging: chunk.records.staging.at(0),
                bitmaps: chunk.bitmaps.at(0),
                counts: chunk.counts.at(0),
                saturated: chunk.summary.at(summary::SATURATED),
                trace: chunk.trace.as_ref().map_or(std::ptr::null_mut(), |(t, _)| t.at(0)),
                inv_n: P::from_f64(run.base.samples as f64).recip(),
                job,
                tiling,
                first: (launch * tiling.frames as usize * plan.lanes) as u32,
                frames: tiling.frames,
                step: lanes,
                end: c.frames as u32,
                lane0: c.lane0 as u32,
                lanes,
                cap_tile: chunk.records.cap_tile,
            };
            // SAFETY: the entry is the one for this `P`, tiling and job; every buffer has the size that the ABI
            // states (`Sizes`, planes of lanes x pixels) and lives until the streams have been waited for.
            unsafe { self.kernels.frame.launch(&self.chain, geometry, &arguments)? };
            from = into;
        }
        Ok(())
    }

    /// Puts the kernels that bring clusters into order into their stream. The ranks are there already when `scan` is
    /// not asked for.
    fn order(&self, slot: usize, scan: bool) -> Result<()> {
        let chunk = &self.memory().chunks[slot];
        let arguments = chunk.gather_args(&self.launches);
        let n = chunk.content.frames as u32;
        let geometry = |blocks: u32, threads: u32, shared_bytes: u32| Geometry {
            grid: [blocks, 1, 1],
            block: [threads, 1, 1],
            shared_bytes,
        };
        let tiles = n * self.launches.tiling.tiles();
        let k = &self.kernels;
        // SAFETY: the geometry is the ABI's, every buffer has the size that it states.
        unsafe {
            if scan {
                let g = geometry(n, abi::SCAN_THREADS, abi::SCAN_SHARED_BYTES);
                k.scan.launch(&self.output, g, &arguments)?;
            }
            let g = geometry(1, abi::SCAN_THREADS, abi::SCAN_SHARED_BYTES);
            k.offsets.launch(&self.output, g, &arguments)?;
            k.place.launch(&self.output, geometry(tiles, abi::PLACE_THREADS, 0), &arguments)?;
            k.copy.launch(&self.output, geometry(2 * self.plan.sms, abi::COPY_THREADS, 0), &arguments)
        }
    }

    /// Orders the clusters of a chunk and brings them to the host.
    fn gather(&mut self, slot: usize, scan: bool) -> Result<()> {
        self.output.wait(&self.memory().chunks[slot].found)?;
        self.order(slot, scan)?;
        let memory = self.memory.as_mut().expect("a run has begun, so memory is there");
        let chunk = &mut memory.chunks[slot];
        let expected = (self.density * chunk.content.frames as f64 * 1.03) as u64;
        chunk.download(&self.output, &self.plan, &self.launches, expected, &memory.one)?;
        chunk.done.record(&self.output)
    }

    /// Waits for the chunk of a slot.
    pub(super) fn finish(&mut self, slot: usize) -> Result<Outcome> {
        let bound = self.context.bind();
        let memory = self.memory.as_mut().expect("a chunk was started, so memory is there");
        let chunk = &mut memory.chunks[slot];
        let waited = bound.and_then(|()| chunk.done.synchronize());
        if !chunk.has_arrived(&self.plan) {
            waited?;
            return Err(fault("the results of a chunk did not arrive though its stream has ended"));
        }
        let (header, saturated) = chunk.header();
        if header.flags & Header::MISMATCH != 0 {
            return Err(fault("stored pixels and counted clusters of a frame differ"));
        }
        let n = chunk.content.frames;
        if header.flags != 0 {
            let (frame, found) = chunk.fullest_frame(&self.output)?;
            return Ok(Outcome::Overflow(Shortfall {
                frame,
                found,
                capacity: chunk.records.out_cap / n as u64,
            }));
        }
        chunk.download_rest(&self.output, &self.launches, header.total)?;
        if chunk.offsets()[n] != header.total {
            return Err(fault("the offsets of a chunk do not end at its number of clusters"));
        }
        self.density = header.total as f64 / n as f64;
        Ok(Outcome::Complete { clusters: header.total, saturated })
    }

    /// Does the chunk of a slot again with room enough, from the pedestal that it started from.
    pub(super) fn redo(&mut self, slot: usize, short: Shortfall) -> Result<()> {
        self.context.bind()?;
        let (plan, launches) = (&self.plan, &self.launches);
        let memory = self.memory.as_mut().expect("a chunk was started, so memory is there");
        let chunk = &mut memory.chunks[slot];
        let (header, _) = chunk.header();
        // A quarter more than was needed, so that the next chunks fit too.
        let ample = |n: u64| n + n / 4;
        let again = header.flags & Header::TILE_OVERFLOW != 0;
        let cap_tile = match again {
            true => ample(u64::from(header.fullest_tile)).min(u64::from(u32::MAX)) as u32,
            false => chunk.records.cap_tile,
        };
        let out_cap =
            if header.total > chunk.records.out_cap { ample(header.total) } else { chunk.records.out_cap };
        if let Err(e) = chunk.grow(&self.upload, plan, launches, cap_tile, out_cap) {
            tracing::warn!("no room for {} clusters in {} frames: {e}", header.total, chunk.content.frames);
            return Err(Error::Overflow {
                frame: short.frame as u64,
                found: short.found,
                capacity: short.capacity,
            });
        }
        self.room = (self.room.0.max(cap_tile), self.room.1.max(out_cap));
        chunk.expect(plan);
        if again {
            self.find(slot, None)?;
        }
        self.gather(slot, again)
    }

    /// The clusters of the finished chunk of a slot.
    pub(super) fn clusters<'a>(&'a self, slot: usize, numbers: &'a [u64]) -> Result<Clusters<'a>> {
        let chunk = &self.memory().chunks[slot];
        let (header, _) = chunk.header();
        let records = chunk.results(header.total as usize * self.launches.job.record_bytes() as usize);
        let (size, payload) = (self.params.size, self.params.payload);
        let clusters = Clusters::new(self.plan.shape, size, payload, numbers, chunk.offsets(), records)?;
        match chunk.traced(&self.plan) {
            Some(trace) => clusters.with_trace(trace),
            None => Ok(clusters),
        }
    }

    /// How long the finished chunk of a slot took.
    pub(super) fn timing(&self, slot: usize) -> Option<ChunkTiming> {
        let chunk = &self.memory.as_ref()?.chunks[slot];
        let (upload, find) = chunk.started.as_ref()?;
        self.context.bind().ok()?;
        Some(ChunkTiming {
            frames: chunk.content.frames,
            upload_s: chunk.uploaded.seconds_since(upload).ok()?,
            find_s: chunk.found.seconds_since(find).ok()?,
            output_s: chunk.done.seconds_since(&chunk.found).ok()?,
        })
    }

    /// Waits until nothing is in flight.
    pub(super) fn settle(&mut self) {
        if self.context.bind().is_ok() {
            for stream in [&self.upload, &self.chain, &self.output] {
                if let Err(e) = stream.synchronize() {
                    tracing::debug!("while waiting for a GPU: {e}");
                }
            }
        }
    }

    /// Records the launches of a whole chunk for every slot and pedestal.
    fn record_graphs(&mut self) -> Result<()> {
        let frames = self.plan.chunk.div_ceil(self.plan.lanes);
        if !self.graphs || frames <= self.launches.tiling.frames as usize {
            return Ok(());
        }
        for slot in 0..self.plan.slots {
            for from in 0..self.plan.pedestals() {
                let to = (from + 1) % self.plan.pedestals();
                let whole =
                    Content { frames: self.plan.chunk, stride: self.plan.pixels, from, ..Content::default() };
                self.memory_mut().chunks[slot].content = whole;
                let graph = self.chain.capture(|| self.launch_all(slot, Some(to)))?;
                self.memory_mut().chunks[slot].graphs[from] = Some(graph);
            }
        }
        Ok(())
    }

    /// Runs the kernels alone over the frames that are in a slot, `times` times; seconds of one run. Every run starts
    /// from the same pedestal and writes what the chunk wrote, so that nothing changes.
    pub(super) fn time_kernels(&mut self, slot: usize, times: usize) -> Result<ChunkTiming> {
        self.context.bind()?;
        let marks = [(); 3].map(|()| Event::new(&self.context, true));
        let [start, found, end] = marks;
        let (start, found, end) = (start?, found?, end?);
        let content = self.memory().chunks[slot].content;
        let to = (content.from + 1) % self.plan.pedestals();
        self.settle();
        start.record(&self.chain)?;
        for _ in 0..times {
            self.find(slot, Some(to))?;
        }
        found.record(&self.chain)?;
        self.output.wait(&found)?;
        for _ in 0..times {
            self.order(slot, true)?;
        }
        end.record(&self.output)?;
        end.synchronize()?;
        Ok(ChunkTiming {
            frames: content.frames,
            upload_s: 0.0,
            find_s: found.seconds_since(&start)? / times as f64,
            output_s: end.seconds_since(&found)? / times as f64,
        })
    }
}

impl Drop for Gpu {
    fn drop(&mut self) {
        self.settle();
    }
}

fn fault(what: &str) -> Error {
    Error::Device {
        backend: BACKEND.into(),
        call: "kernels".into(),
        message: format!("{what} (a fault of the kernels or the GPU: please report it)"),
    }
}

/// Copies the picked frames without gaps, on all cores.
fn copy_frames(into: &mut [u16], frames: &Frames<'_>, picks: &Picks<'_>) {
    let pixels = frames.shape().pixels();
    // Blocks of a few hundred kilobytes: small frames several at a time, large ones in one piece.
    let block = (131_072 / pixels).max(1);
    into.par_chunks_mut(block * pixels).enumerate().for_each(|(b, into)| {
        for (i, into) in into.chunks_exact_mut(pixels).enumerate() {
            into.copy_from_slice(frames.frame(picks.get(b * block + i)));
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn picked_frames_are_evenly_apart_or_not() {
        assert_eq!(Picks::List(&[1, 3, 5]).evenly(), Some((1, 2)));
        assert_eq!(Picks::List(&[4]).evenly(), Some((4, 1)));
        assert_eq!(Picks::List(&[0, 2, 3]).evenly(), None);
        assert_eq!(Picks::List(&[]).evenly(), None);
    }

    #[test]
    fn copies_leave_out_gaps_and_frames_of_others() {
        let shape = Shape::new(2, 3).unwrap();
        let pixels: Vec<u16> = (0..50).collect();
        let frames = Frames::strided(&pixels, shape, 5, 10).unwrap();
        let mut out = vec![0; 18];
        copy_frames(&mut out, &frames, &Picks::List(&[0, 1, 4]));
        let want: Vec<u16> = (0..6).chain(10..16).chain(40..46).collect();
        assert_eq!(out, want);
    }
}
