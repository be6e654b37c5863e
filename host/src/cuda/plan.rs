//! How a run is cut into chunks, launches and buffers on one GPU, and why.

use std::fmt;

use scheidegg_finder::{Error, Noise, Params, Payload, Result, Shape, Ties};
use scheidegg_kernels::Decision;
use scheidegg_kernels::device::abi::{self, Job, Sizes, Tiling, Window, payload, suggested_frames};

use super::budget::bytes;
use super::{Options, Output};

/// A copy of so many bytes of frames reaches the speed of the bus (GPU: 64 to 256 frames of 320 kB), and more only
/// makes results wait.
const CHUNK_BYTES: usize = 40 << 20;
/// The most frames of an automatic chunk, for small frames.
const CHUNK_FRAMES: usize = 1024;
/// The most bytes of staged records of an automatic chunk.
const STAGING_BYTES: u64 = 512 << 20;
/// The most bytes of results of an automatic chunk; they are page-locked.
const RESULT_BYTES: u64 = 192 << 20;
/// Gaps between frames (headers) that a chunk has room for, in bytes a frame; frames further apart are packed on
/// their way.
const GAP_BYTES: usize = 512;

/// Sizes and launches of one GPU.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Plan {
    pub(super) shape: Shape,
    pub(super) pixels: usize,
    pub(super) pedestal_f64: bool,
    pub(super) fixed_noise: bool,
    pub(super) trace: bool,
    pub(super) output: Output,
    /// Lanes of this GPU.
    pub(super) lanes: usize,
    /// Frames of a chunk on this GPU.
    pub(super) chunk: usize,
    pub(super) slots: usize,
    /// Records of a tile and frame that staging has room for at first.
    pub(super) cap_tile: u32,
    /// Records of a chunk that the output has room for at first.
    pub(super) out_cap: u64,
    pub(super) entry: &'static str,
    pub(super) sms: u32,
    /// Why the chunk has that size.
    reason: String,
}

/// What the kernels need to know of a run; not `PartialEq`, so kept beside the plan.
#[derive(Clone, Copy, Debug)]
pub(super) struct Launches {
    pub(super) job: Job,
    pub(super) tiling: Tiling,
}

/// What a GPU has room for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Capacity {
    /// Multiprocessors.
    pub(super) sms: u32,
    /// Whether all blocks of a launch can be made to run at once.
    pub(super) cooperative: bool,
    /// Bytes of free memory.
    pub(super) free: u64,
}

/// The part of a run that a GPU does.
#[derive(Clone, Copy, Debug)]
pub(super) struct Share {
    /// Lanes of the run.
    pub(super) lanes: usize,
    /// Lanes of this GPU.
    pub(super) own: usize,
}

impl Plan {
    /// The plan for a GPU.
    ///
    /// # Errors
    /// [`Error::Param`] for options that cannot be.
    pub(super) fn new(
        shape: Shape,
        params: &Params,
        options: &Options,
        share: Share,
        gpu: Capacity,
    ) -> Result<(Plan, Launches)> {
        options.validate()?;
        let Capacity { sms, free, .. } = gpu;
        let (w, h) = (params.size.w as u32, params.size.h as u32);
        let job = Job {
            decision: Decision::new(w, h, params.n_sigma, params.noise_floor_adu),
            rows: shape.rows as u32,
            cols: shape.cols as u32,
            window: Window { w, h },
            payload: match params.payload {
                Payload::I32 => payload::I32,
                Payload::I16 => payload::I16,
                Payload::F16 => payload::F16,
                Payload::F32 => payload::F32,
            },
            ties_first: u32::from(params.ties == Ties::First),
            test2: u32::from(params.test2),
        };
        let pedestal_f64 = params.precision.pedestal_is_f64();
        let entry = abi::frame_entry(
            pedestal_f64,
            w,
            h,
            params.noise == Noise::Fixed,
            params.ties == Ties::First,
            params.test2,
            params.trace,
        );
        let (entry, tiling) = tiling_for(&job, entry, options.frames_per_launch, gpu, share.own as u32)?;
        let mut plan = Plan {
            shape,
            pixels: shape.pixels(),
            pedestal_f64,
            fixed_noise: params.noise == Noise::Fixed,
            trace: params.trace,
            output: options.output,
            lanes: share.own,
            chunk: 1,
            slots: options.slots,
            cap_tile: 1,
            out_cap: 1,
            entry,
            sms,
            reason: String::new(),
        };
        let launches = Launches { job, tiling };
        let per_frame = match options.capacity {
            Some(c) => c as u64,
            None => default_capacity(&job),
        };
        plan.cap_tile = (default_tile_capacity(&job, &tiling) as u64).min(per_frame).max(1) as u32;
        // In frames of the whole run; this GPU has its lanes' share of them, rounded up.
        let own = |chunk: usize| chunk.div_ceil(share.lanes) * share.own;
        let room = |plan: &mut Plan, chunk: usize| {
            plan.chunk = if share.own == share.lanes { chunk } else { own(chunk) };
            plan.out_cap = plan.chunk as u64 * per_frame;
        };
        match options.chunk_frames {
            Some(chunk) => {
                room(&mut plan, chunk);
                plan.reason = "as asked for".into();
                if plan.sizes(&launches, plan.cap_tile, plan.out_cap).is_none() {
                    return Err(Error::param(
                        "chunk_frames",
                        chunk,
                        "fewer frames (the records of a chunk could not be numbered in 32 bits)",
                    ));
                }
            }
            None => {
                let frame_bytes = plan.pixels * 2;
                let most = (CHUNK_BYTES / frame_bytes).clamp(1, CHUNK_FRAMES);
                let mut chunk = most;
                let mut why = format!("{} of frames", bytes(CHUNK_BYTES as u64));
                let half = free / 2;
                loop {
                    room(&mut plan, chunk);
                    let sizes = plan.sizes(&launches, plan.cap_tile, plan.out_cap);
                    let fits = sizes
                        .is_some_and(|s| s.staging_bytes <= STAGING_BYTES && s.out_bytes <= RESULT_BYTES);
                    if chunk == 1 || fits && plan.device_bytes(&launches) <= half {
                        break;
                    }
                    why = match fits {
                        true => format!("half of the GPU's free memory ({})", bytes(free)),
                        false => format!(
                            "{} of staged and {} of final clusters",
                            bytes(STAGING_BYTES),
                            bytes(RESULT_BYTES)
                        ),
                    };
                    chunk = (chunk * 3 / 4).max(1);
                }
                // Whole launches of every lane, where there are some.
                let launch = tiling.frames.max(1) as usize * share.lanes;
                if chunk > launch {
                    chunk = chunk / launch * launch;
                }
                room(&mut plan, chunk);
                plan.reason = format!("at most {why} and {CHUNK_FRAMES} frames, in whole launches");
            }
        }
        Ok((plan, launches))
    }

    /// Buffer sizes with some room for records; none when a chunk has too many.
    pub(super) fn sizes(&self, launches: &Launches, cap_tile: u32, out_cap: u64) -> Option<Sizes> {
        Sizes::new(&launches.job, &launches.tiling, u32::try_from(self.chunk).ok()?, cap_tile, out_cap)
    }

    /// Bytes of one pedestal value.
    pub(super) fn value_bytes(&self) -> usize {
        if self.pedestal_f64 { 8 } else { 4 }
    }

    /// Bytes of one plane of all lanes of this GPU.
    pub(super) fn plane_bytes(&self) -> usize {
        self.lanes * self.pixels * self.value_bytes()
    }

    /// Pedestals that are kept: one before every chunk in flight, and the one after the last.
    pub(super) fn pedestals(&self) -> usize {
        self.slots + 1
    }

    /// Bytes of a slot's frames on the GPU.
    pub(super) fn frame_bytes(&self) -> usize {
        self.chunk * (self.pixels * 2 + GAP_BYTES)
    }

    /// Bytes of what blocks tell each other.
    pub(super) fn edge_bytes(&self, launches: &Launches) -> usize {
        if launches.tiling.is_resident() { 2 * self.pixels * 8 } else { 0 }
    }

    /// Bytes on the GPU in all.
    fn device_bytes(&self, launches: &Launches) -> u64 {
        let Some(s) = self.sizes(launches, self.cap_tile, self.out_cap) else { return u64::MAX };
        let out = if self.output == Output::Copied { s.out_bytes } else { 0 };
        let trace = if self.trace { (self.chunk * self.pixels) as u64 } else { 0 };
        let slot = self.frame_bytes() as u64
            + s.staging_bytes
            + 8 * s.bitmap_words
            + 4 * (s.counts + s.order)
            + 16 * s.infos
            + 8 * s.offsets
            + out
            + trace;
        let planes = 2 * (self.pedestals() + 2) + usize::from(self.fixed_noise);
        let edges = self.edge_bytes(launches) as u64;
        self.slots as u64 * slot + (planes * self.plane_bytes()) as u64 + 3 * self.pixels as u64 + edges
    }
}

/// The tiling for so many frames a launch, or the one that should be best: with every block on the GPU at once where
/// that can be, and otherwise with as many frames a launch as should be best. With the entry to be launched.
fn tiling_for(
    job: &Job,
    entry: &'static str,
    frames: Option<usize>,
    gpu: Capacity,
    lanes: u32,
) -> Result<(&'static str, Tiling)> {
    let (rows, cols, sms) = (job.rows, job.cols, gpu.sms);
    if frames.is_none()
        && gpu.cooperative
        && let Some(resident) = abi::resident_entry(entry)
        && let Some(t) = Tiling::resident(rows, cols, job.window, sms, abi::max_threads(resident))
    {
        return Ok((resident, t));
    }
    let threads = abi::max_threads(entry);
    let of = |n: u32| Tiling::new(rows, cols, job.window, n, sms, lanes, threads);
    let n = match frames {
        Some(n) => n as u32,
        None => suggested_frames(rows, cols, job.window, sms, lanes, threads, 16),
    };
    let tiling = of(n).ok_or_else(|| {
        let most = (1..n).rev().find(|m| of(*m).is_some()).unwrap_or(0);
        Error::param(
            "frames_per_launch",
            n,
            format!(
                "at most {most} for a window of {}x{} (its halo must fit a block)",
                job.window.w, job.window.h
            ),
        )
    })?;
    Ok((entry, tiling))
}

/// Clusters a frame that there is room for at first: one in 40 pixels, which is a bright frame, or as many windows
/// as fit side by side if that is less. Not a limit: what does not fit is done again with more room.
fn default_capacity(job: &Job) -> u64 {
    let apart = u64::from((job.window.w / 2 + 1) * (job.window.h / 2 + 1));
    job.pixels().div_ceil(apart).min((job.pixels() / 40).max(256))
}

/// The same for a tile: one in 16 pixels, since photons are not spread evenly.
fn default_tile_capacity(job: &Job, tiling: &Tiling) -> u32 {
    let apart = |side: u32, window: u32| side.div_ceil(window / 2 + 1);
    let most = apart(tiling.tile_w, job.window.w) * apart(tiling.tile_h, job.window.h);
    most.min((tiling.tile_w * tiling.tile_h / 16).max(16))
}

/// A plan in words: frames, launches, buffers, memory.
pub(super) struct Words<'a>(pub(super) &'a Plan, pub(super) &'a Launches);

impl fmt::Display for Words<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Words(plan, launches) = self;
        let t = &launches.tiling;
        write!(
            f,
            "chunks of {} frames ({}), {} slots; {} a launch, {} tiles of {} x {} pixels, {} threads, {}; \
             room for {} clusters a frame at first; {} on the GPU; results {}",
            plan.chunk,
            plan.reason,
            plan.slots,
            match t.is_resident() {
                true => "a chunk".into(),
                false => format!("{} frames", t.frames),
            },
            t.tiles(),
            t.tile_h,
            t.tile_w,
            t.threads(),
            plan.entry,
            plan.out_cap / plan.chunk as u64,
            bytes(plan.device_bytes(launches)),
            plan.output,
        )
    }
}

#[cfg(test)]
mod tests {
    use scheidegg_finder::ClusterSize;

    use super::*;

    fn gpu(sms: u32, free: u64) -> Capacity {
        Capacity { sms, cooperative: true, free }
    }

    fn plan(rows: usize, cols: usize, side: usize, options: &Options) -> (Plan, Launches) {
        let params = Params { payload: Payload::I16, ..Params::new(ClusterSize::square(side).unwrap()) };
        let shape = Shape::new(rows, cols).unwrap();
        Plan::new(shape, &params, options, Share { lanes: 1, own: 1 }, gpu(132, 100 << 30)).unwrap()
    }

    #[test]
    fn an_automatic_chunk_is_a_few_tens_of_megabytes_in_whole_launches() {
        for side in [3, 9] {
            let (p, l) = plan(400, 400, side, &Options::default());
            assert!((64..=256).contains(&p.chunk), "{}", Words(&p, &l));
            assert!(l.tiling.is_resident() && p.entry.starts_with("resident_f32"), "{}", Words(&p, &l));
            assert!(p.out_cap / p.chunk as u64 >= 2500, "{}", Words(&p, &l));
            assert!(p.device_bytes(&l) < 8 << 30, "{}", Words(&p, &l));
        }
        assert!((1000..=1024).contains(&plan(1, 1, 3, &Options::default()).0.chunk));
        // Frames larger than the cap go one by one.
        assert!(plan(8192, 8192, 3, &Options::default()).0.chunk >= 1);
    }

    #[test]
    fn little_memory_means_smaller_chunks_and_says_so() {
        let params = Params::new(ClusterSize::square(9).unwrap());
        let shape = Shape::new(1024, 1024).unwrap();
        let share = Share { lanes: 1, own: 1 };
        let (p, l) = Plan::new(shape, &params, &Options::default(), share, gpu(20, 1 << 30)).unwrap();
        assert!(p.device_bytes(&l) <= 1 << 29 || p.chunk == 1);
        assert!(Words(&p, &l).to_string().contains("of the GPU's free memory"), "{}", Words(&p, &l));
    }

    #[test]
    fn what_is_asked_for_is_done() {
        let options = Options {
            chunk_frames: Some(7),
            frames_per_launch: Some(2),
            capacity: Some(1),
            ..Options::default()
        };
        let (p, l) = plan(400, 400, 3, &options);
        assert_eq!((p.chunk, l.tiling.frames, p.cap_tile, p.out_cap), (7, 2, 1, 7));
        let params = Params::new(ClusterSize::square(15).unwrap());
        let shape = Shape::new(100, 100).unwrap();
        let options = Options { frames_per_launch: Some(1000), ..Options::default() };
        let e =
            Plan::new(shape, &params, &options, Share { lanes: 1, own: 1 }, gpu(132, 1 << 34)).unwrap_err();
        assert!(e.to_string().contains("frames_per_launch = 1000: expected at most"), "{e}");
    }

    #[test]
    fn a_gpu_among_several_has_room_for_its_share_of_any_chunk() {
        let params = Params { lanes: 3, ..Params::new(ClusterSize::square(3).unwrap()) };
        let shape = Shape::new(64, 64).unwrap();
        let options = Options { chunk_frames: Some(10), ..Options::default() };
        // Lanes 0 and 2 of three: at most 7 of 10 frames in a row, and room for 8.
        let (p, _) =
            Plan::new(shape, &params, &options, Share { lanes: 3, own: 2 }, gpu(132, 1 << 34)).unwrap();
        assert_eq!(p.chunk, 8);
        let (p, _) =
            Plan::new(shape, &params, &options, Share { lanes: 3, own: 1 }, gpu(132, 1 << 34)).unwrap();
        assert_eq!(p.chunk, 4);
    }
}
