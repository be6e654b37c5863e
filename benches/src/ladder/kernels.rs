//! The finder's kernels as the steps launch them: one frame or several, then the four that gather the results.

use std::sync::Arc;

use scheidegg::{ClusterSize, Error, Params, Payload, Pedestal, Plane, Result, Shape};
use scheidegg_kernels::device::abi::{
    self, FrameArgs, GatherArgs, Header, Job, Sizes, Tiling, Window, payload,
};
use scheidegg_kernels::{Decision, Real, ptx};

use super::device::{Device, Function, Module};
use super::memory::DeviceMemory;
use super::stream::Stream;

/// Clusters that a frame's result has room for, as in the published steps.
pub const CAPACITY: u64 = 3000;
/// Where the records start behind the [`Header`] and the offsets of a single frame.
pub const RECORDS_AT: u64 = 256;

/// What a run asks of the kernels, for `frames` frames of a lane in one launch.
pub struct Kernels {
    /// The run.
    pub job: Job,
    /// How a frame is cut.
    pub tiling: Tiling,
    /// Records that a tile has room for.
    pub cap_tile: u32,
    frame: Function,
    scan: Function,
    offsets: Function,
    place: Function,
    copy: Function,
    f64: bool,
    copy_blocks: u32,
    /// Where the functions above live.
    _modules: [Module; 2],
}

/// The pedestal of some lanes on the GPU, twice: what a launch reads and what it writes.
pub struct Planes {
    x0: DeviceMemory,
    sum: [DeviceMemory; 2],
    sum2: [DeviceMemory; 2],
    trained: [DeviceMemory; 2],
    inv_n: f64,
    turn: usize,
    lanes: u32,
}

/// The buffers between the kernels, for a chunk of frames.
pub struct Scratch {
    /// Raw pixels.
    pub raw: DeviceMemory,
    staging: DeviceMemory,
    bitmaps: DeviceMemory,
    ranks: DeviceMemory,
    counts: DeviceMemory,
    infos: DeviceMemory,
    order: DeviceMemory,
    saturated: DeviceMemory,
    /// Header at 0, offsets after it, records at [`Scratch::records_at`].
    pub out: DeviceMemory,
    /// Where the records start in `out`.
    pub records_at: u64,
    /// Frames of a chunk.
    pub frames: u32,
    /// Records that `out` has room for.
    pub capacity: u64,
}

/// Which frames of a chunk a launch takes.
#[derive(Clone, Copy, Debug)]
pub struct Span {
    /// The first one.
    pub first: u32,
    /// Frames a lane.
    pub frames: u32,
    /// Frames of the chunk.
    pub end: u32,
}

impl Kernels {
    /// Loads the entries for a window, a precision and launches of up to `most` frames a lane.
    ///
    /// # Errors
    /// [`Error::Device`] when the GPU refuses one, [`Error::Unsupported`] for a payload or tiling that is not there.
    pub fn new(
        device: &Arc<Device>,
        shape: Shape,
        params: &Params,
        most: u32,
        lanes: u32,
    ) -> Result<Kernels> {
        let ClusterSize { w, h } = params.size;
        let window = Window { w: w as u32, h: h as u32 };
        let (rows, cols) = (shape.rows as u32, shape.cols as u32);
        let f64 = params.precision.pedestal_is_f64();
        let entry = abi::frame_entry(f64, window.w, window.h, false, false, false, false);
        let threads = abi::max_threads(entry);
        let frames = abi::suggested_frames(rows, cols, window, device.sms, lanes, threads, most).max(1);
        let tiling =
            Tiling::new(rows, cols, window, frames, device.sms, lanes, threads).ok_or_else(|| {
                Error::Unsupported {
                    backend: "ladder".into(),
                    what: format!("{frames} frames a launch at {w}x{h}"),
                }
            })?;
        let payload = match params.payload {
            Payload::I32 => payload::I32,
            Payload::I16 => payload::I16,
            Payload::F16 => payload::F16,
            Payload::F32 => payload::F32,
        };
        let job = Job {
            decision: Decision::<f32>::new(window.w, window.h, params.n_sigma, params.noise_floor_adu),
            rows,
            cols,
            window,
            payload,
            ties_first: 0,
            test2: 0,
        };
        // Twice the mean of the ladder's scene, and some for the spread.
        let tile_pixels = tiling.tile_w * tiling.tile_h;
        let text = ptx::module(entry)
            .ok_or_else(|| Error::Other(format!("there is no device code called {entry}")))?;
        let judge = Module::load(device, text)?;
        let gather = Module::load(device, ptx::GATHER)?;
        Ok(Kernels {
            job,
            tiling,
            cap_tile: (tile_pixels / 35 + 40).min(tile_pixels),
            frame: judge.function(entry, tiling.shared_bytes)?,
            scan: gather.function(abi::SCAN, abi::SCAN_SHARED_BYTES)?,
            offsets: gather.function(abi::OFFSETS, abi::SCAN_SHARED_BYTES)?,
            place: gather.function(abi::PLACE, 0)?,
            copy: gather.function(abi::COPY, 0)?,
            f64,
            copy_blocks: 2 * device.sms,
            _modules: [judge, gather],
        })
    }

    /// The buffers for a chunk of `frames` frames with room for `capacity` records.
    ///
    /// # Errors
    /// [`Error::Device`] when there is not so much memory.
    pub fn scratch(&self, device: &Arc<Device>, frames: u32, capacity: u64) -> Result<Scratch> {
        let sizes = Sizes::new(&self.job, &self.tiling, frames, self.cap_tile, capacity)
            .ok_or_else(|| Error::param("chunk", frames, "fewer frames"))?;
        let records_at = (size_of::<Header>() as u64 + 8 * sizes.offsets).next_multiple_of(RECORDS_AT);
        let memory = |bytes: u64| DeviceMemory::new(device, bytes);
        Ok(Scratch {
            raw: memory(self.job.pixels() * 2 * u64::from(frames))?,
            staging: memory(sizes.staging_bytes)?,
            bitmaps: memory(sizes.bitmap_words * 4)?,
            ranks: memory(sizes.bitmap_words * 4)?,
            counts: memory(sizes.counts * 4)?,
            infos: memory(sizes.infos * size_of::<abi::FrameInfo>() as u64)?,
            order: memory(sizes.order * 4)?,
            saturated: memory(8)?,
            out: memory(records_at + sizes.out_bytes)?,
            records_at,
            frames,
            capacity,
        })
    }

    /// Judges the frames of a span and tracks the pedestal.
    ///
    /// # Errors
    /// [`Error::Device`].
    pub fn judge(&self, stream: &Stream, planes: &mut Planes, scratch: &Scratch, span: Span) -> Result<()> {
        if self.f64 {
            self.judge_in::<f64>(stream, planes, scratch, span)
        } else {
            self.judge_in::<f32>(stream, planes, scratch, span)
        }
    }

    fn judge_in<P: Real>(
        &self,
        stream: &Stream,
        planes: &mut Planes,
        scratch: &Scratch,
        span: Span,
    ) -> Result<()> {
        let (from, to) = (planes.turn, 1 - planes.turn);
        planes.turn = to;
        let arguments = FrameArgs::<P> {
            raw: scratch.raw.at::<u16>(0),
            stride: self.job.pixels(),
            x0: planes.x0.at::<u16>(0),
            sum_in: planes.sum[from].at::<P>(0),
            sum2_in: planes.sum2[from].at::<P>(0),
            sum_out: planes.sum[to].at(0),
            sum2_out: planes.sum2[to].at(0),
            fixed: std::ptr::null(),
            mask: std::ptr::null(),
            lost_slot: std::ptr::null(),
            lost_bits: std::ptr::null(),
            staging: scratch.staging.at(0),
            bitmaps: scratch.bitmaps.at(0),
            counts: scratch.counts.at(0),
            saturated: scratch.saturated.at(0),
            trace: std::ptr::null_mut(),
            edges: std::ptr::null_mut(),
            inv_n: P::from_f64(planes.inv_n),
            job: self.job,
            tiling: self.tiling,
            first: span.first,
            frames: span.frames,
            step: planes.lanes,
            end: span.end,
            lane0: 0,
            lanes: planes.lanes,
            cap_tile: self.cap_tile,
            told: 0,
        };
        let t = &self.tiling;
        let grid = (t.tiles(), planes.lanes);
        // SAFETY: the entry is the one for this precision and window, and every address is that of a buffer of the
        // size that the entry's description asks for, alive as long as the step.
        unsafe { stream.launch(&self.frame, grid, t.threads(), t.shared_bytes, &arguments) }
    }

    /// Brings the results of `frames` frames into order, into `scratch.out` or, when it is given, into `records`.
    ///
    /// # Errors
    /// [`Error::Device`].
    pub fn gather(
        &self,
        stream: &Stream,
        scratch: &Scratch,
        frames: u32,
        records: Option<*mut u8>,
    ) -> Result<()> {
        let arguments = GatherArgs {
            staging: scratch.staging.at::<u8>(0),
            bitmaps: scratch.bitmaps.at::<u32>(0),
            counts: scratch.counts.at::<u32>(0),
            ranks: scratch.ranks.at(0),
            infos: scratch.infos.at(0),
            offsets: scratch.out.at(size_of::<Header>() as u64),
            header: scratch.out.at(0),
            order: scratch.order.at(0),
            out: records.unwrap_or_else(|| scratch.out.at(scratch.records_at)),
            job: self.job,
            tiling: self.tiling,
            frames,
            cap_tile: self.cap_tile,
            out_cap: scratch.capacity,
        };
        let place = frames * self.tiling.tiles();
        // SAFETY: as in `judge_in`; geometry and shared memory are those of the entries' description.
        unsafe {
            stream.launch(&self.scan, (frames, 1), abi::SCAN_THREADS, abi::SCAN_SHARED_BYTES, &arguments)?;
            stream.launch(&self.offsets, (1, 1), abi::SCAN_THREADS, abi::SCAN_SHARED_BYTES, &arguments)?;
            stream.launch(&self.place, (place, 1), abi::PLACE_THREADS, 0, &arguments)?;
            stream.launch(&self.copy, (self.copy_blocks, 1), abi::COPY_THREADS, 0, &arguments)
        }
    }
}

impl Planes {
    /// The trained pedestal for a number of lanes.
    ///
    /// # Errors
    /// [`Error::Device`].
    pub fn new(device: &Arc<Device>, pedestal: &Pedestal, lanes: usize) -> Result<Planes> {
        let bytes = |plane: &Plane| -> Vec<u8> {
            let one: &[u8] = match plane {
                Plane::F32(v) => bytemuck::cast_slice(v),
                Plane::F64(v) => bytemuck::cast_slice(v),
            };
            one.repeat(lanes)
        };
        let pair = |plane: &Plane| -> Result<[DeviceMemory; 2]> {
            Ok([DeviceMemory::of(device, &bytes(plane))?, DeviceMemory::of(device, &bytes(plane))?])
        };
        let inv_n = match pedestal.sum {
            Plane::F32(_) => f64::from(1.0 / pedestal.samples as f32),
            Plane::F64(_) => 1.0 / pedestal.samples as f64,
        };
        Ok(Planes {
            x0: DeviceMemory::of(device, &pedestal.x0)?,
            sum: pair(&pedestal.sum)?,
            sum2: pair(&pedestal.sum2)?,
            trained: [
                DeviceMemory::of(device, &bytes(&pedestal.sum))?,
                DeviceMemory::of(device, &bytes(&pedestal.sum2))?,
            ],
            inv_n,
            turn: 0,
            lanes: lanes as u32,
        })
    }

    /// Back to the trained pedestal.
    ///
    /// # Errors
    /// [`Error::Device`].
    pub fn reset(&mut self, stream: &Stream) -> Result<()> {
        self.turn = 0;
        stream.copy(&self.sum[0], &self.trained[0])?;
        stream.copy(&self.sum2[0], &self.trained[1])
    }

    /// Which of the two sets the next launch reads.
    pub fn turn(&self) -> usize {
        self.turn
    }

    /// Says which set the next launch reads: a graph has recorded launches that turned it.
    pub fn set_turn(&mut self, turn: usize) {
        self.turn = turn;
    }
}

/// The header at the start of a result, and the error if it does not fit.
///
/// # Errors
/// [`Error::Overflow`], or [`Error::Other`] for what only a wrong kernel says.
pub fn header_of(bytes: &[u8], frame: u64, capacity: u64) -> Result<u64> {
    let word = |at: usize| u32::from_ne_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
    let total = u64::from(word(0)) | u64::from(word(4)) << 32;
    match word(8) {
        0 => Ok(total),
        flags if flags & Header::MISMATCH != 0 => {
            Err(Error::Other(format!("frame {frame}: bits and counts of the kernels differ")))
        }
        flags if flags & Header::TILE_OVERFLOW != 0 => {
            Err(Error::Overflow { frame, found: u64::from(word(12)), capacity })
        }
        _ => Err(Error::Overflow { frame, found: total, capacity }),
    }
}
