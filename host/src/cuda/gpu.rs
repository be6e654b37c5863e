//! One GPU: its kernels, its streams, the pedestals of its lanes, its slots.
//!
//! Three streams: frames go up in the first, the chain of pedestals runs in the second, results go down in the
//! third. Events tie the stages of a chunk together, so that three chunks are under way at once.
//!
//! Pedestals stand in a ring of one more than there are slots: chunk `c` reads number `c` and writes number `c + 1`
//! (both modulo the ring), so that the pedestal before every chunk in flight is still there when the chunk has to be
//! done again.

mod work;

use std::sync::Arc;

use bytemuck::Pod;
use scheidegg_finder::{Clusters, Error, Params, Pedestal, PixelMask, Plane, Result, Shape};
use scheidegg_kernels::device::abi;

use super::api::BACKEND;
use super::chunk::{Chunk, Content};
use super::code::module_of;
use super::driver::{Context, DeviceInfo, Function, Module, Stream};
use super::memory::DeviceMemory;
use super::plan::{Capacity, Launches, Plan, Share, Words};
use super::{ChunkTiming, Options};
pub(super) use work::Picks;

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
    /// What blocks tell each other; for one launch after the other.
    edges: Option<DeviceMemory>,
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
        let DeviceInfo { sms, cooperative, .. } = *context.info();
        let capacity = Capacity { sms, cooperative, free: free as u64 };
        let (plan, launches) = Plan::new(shape, params, options, share, capacity)?;
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
                edges: match p.edge_bytes(&self.launches) {
                    0 => None,
                    bytes => Some(new(bytes, "edges of tiles")?),
                },
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
        if !self.graphs || frames <= self.launches.tiling.frames_per_launch() as usize {
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
}

impl Drop for Gpu {
    fn drop(&mut self) {
        self.settle();
    }
}
