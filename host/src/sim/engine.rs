//! The chunk loop of the simulation: the launches of `abi` in their order, and chunks done again.

use scheidegg_finder::{
    ClustersBuf, Engine, Error, Frames, Noise, Params, Payload, Pedestal, PixelMask, Plane, Result, Shape,
    Ties,
};
use scheidegg_kernels::device::abi::{
    self, FrameArgs, FrameInfo, GatherArgs, Header, Job, Sizes, Tiling, Window,
};
use scheidegg_kernels::device::block::Stored;
use scheidegg_kernels::{Convert, Decision};

use super::{NAME, SimOptions, launch};

/// A pedestal's precision and the planes of it.
pub trait Sums: Convert<f32> + Stored {
    /// The values of a plane.
    fn values(plane: &Plane) -> &[Self];
    /// A plane of values.
    fn plane(values: &[Self]) -> Plane;
}

impl Sums for f32 {
    fn values(plane: &Plane) -> &[f32] {
        match plane {
            Plane::F32(v) => v,
            Plane::F64(_) => unreachable!("the finder checks the precision of a pedestal"),
        }
    }
    fn plane(values: &[f32]) -> Plane {
        Plane::F32(values.to_vec())
    }
}

impl Sums for f64 {
    fn values(plane: &Plane) -> &[f64] {
        match plane {
            Plane::F64(v) => v,
            Plane::F32(_) => unreachable!("the finder checks the precision of a pedestal"),
        }
    }
    fn plane(values: &[f64]) -> Plane {
        Plane::F64(values.to_vec())
    }
}

/// The sums of all lanes, `lanes x pixels`.
struct Planes<P> {
    sum: Box<[P]>,
    sum2: Box<[P]>,
}

/// Frames to clusters by the kernels.
pub struct SimEngine<P> {
    shape: Shape,
    params: Params,
    options: SimOptions,
    job: Job,
    tiling: Tiling,
    entry: &'static str,
    /// Every lane's pedestal as it was given; its sums are in `planes`.
    lanes: Vec<Pedestal>,
    mask: Vec<u32>,
    x0: Box<[u16]>,
    fixed: Vec<P>,
    /// The sums now, and two to write in turn: the first stay as they are until a chunk is done.
    planes: [Planes<P>; 3],
    /// How often room was too little.
    redone: u64,
}

/// Buffers of a chunk, exactly as long as [`Sizes`] says and full of nonsense.
struct Buffers {
    staging: Vec<u32>,
    bitmaps: Vec<u32>,
    counts: Vec<u32>,
    ranks: Vec<u32>,
    infos: Vec<FrameInfo>,
    offsets: Vec<u64>,
    header: Header,
    order: Vec<u32>,
    out: Vec<Unit>,
    saturated: u64,
    trace: Vec<u8>,
}

/// 16 bytes of records.
#[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C, align(16))]
struct Unit([u32; 4]);

const NONSENSE: u32 = 0xa5a5_a5a5;

impl<P: Sums> SimEngine<P> {
    /// An engine without a pedestal.
    pub fn new(shape: Shape, params: &Params, options: SimOptions) -> Result<Self> {
        let window = Window { w: params.size.w as u32, h: params.size.h as u32 };
        let (rows, cols) = (shape.rows as u32, shape.cols as u32);
        let job = Job {
            decision: Decision::new(window.w, window.h, params.n_sigma, params.noise_floor_adu),
            rows,
            cols,
            window,
            payload: match params.payload {
                Payload::I32 => abi::payload::I32,
                Payload::I16 => abi::payload::I16,
                Payload::F16 => abi::payload::F16,
                Payload::F32 => abi::payload::F32,
            },
            ties_first: (params.ties == Ties::First).into(),
            test2: params.test2.into(),
        };
        let lanes = if options.lanes_together { params.lanes as u32 } else { 1 };
        let entry = abi::frame_entry(
            size_of::<P>() == 8,
            window.w,
            window.h,
            params.noise == Noise::Fixed,
            params.ties == Ties::First,
            params.test2,
            params.trace,
        );
        let resident =
            abi::resident_entry(entry).filter(|_| options.frames_per_launch == 0).and_then(|entry| {
                let most = options.multiprocessors;
                Some((entry, Tiling::resident(rows, cols, window, most, abi::max_threads(entry))?))
            });
        let frames = if options.frames_per_launch == 0 { 3 } else { options.frames_per_launch };
        let by_halo = || {
            let of = |n| {
                Tiling::new(rows, cols, window, n, options.multiprocessors, lanes, abi::max_threads(entry))
            };
            Some((entry, (1..=frames).rev().find_map(of)?))
        };
        let (entry, tiling) = resident.or_else(by_halo).ok_or_else(|| Error::Unsupported {
            backend: NAME.into(),
            what: format!("windows of {} on frames of {shape}", params.size),
        })?;
        let values = shape.pixels() * params.lanes;
        let planes = || Planes {
            sum: vec![P::from_f64(f64::NAN); values].into_boxed_slice(),
            sum2: vec![P::from_f64(f64::NAN); values].into_boxed_slice(),
        };
        Ok(SimEngine {
            shape,
            params: params.clone(),
            options,
            job,
            tiling,
            entry,
            lanes: Vec::new(),
            mask: Vec::new(),
            x0: Box::default(),
            fixed: Vec::new(),
            planes: [planes(), planes(), planes()],
            redone: 0,
        })
    }

    /// How often a chunk, or its gathering, was done again.
    #[cfg(test)]
    pub fn redone(&self) -> u64 {
        self.redone
    }

    /// Whether all blocks of a launch run at once.
    #[cfg(test)]
    pub fn is_resident(&self) -> bool {
        self.tiling.is_resident()
    }

    /// Room for the clusters of a tile and frame, and of a chunk, as it is now.
    #[cfg(test)]
    pub fn capacities(&self) -> (u32, u64) {
        (self.options.tile_capacity, self.options.chunk_capacity)
    }

    fn range(&self, lane: usize) -> std::ops::Range<usize> {
        lane * self.shape.pixels()..(lane + 1) * self.shape.pixels()
    }

    fn buffers(&self, frames: u32) -> Result<Buffers> {
        let o = &self.options;
        let sizes = Sizes::new(&self.job, &self.tiling, frames, o.tile_capacity, o.chunk_capacity)
            .ok_or_else(|| {
                Error::Other(format!("backend {NAME}: the staging of a chunk has too many records"))
            })?;
        let words = |n: u64| vec![NONSENSE; n as usize];
        Ok(Buffers {
            staging: words(sizes.staging_bytes / 4),
            bitmaps: words(sizes.bitmap_words),
            counts: words(sizes.counts),
            ranks: words(sizes.bitmap_words),
            infos: vec![FrameInfo { found: NONSENSE, ..Default::default() }; sizes.infos as usize],
            offsets: vec![u64::from(NONSENSE); sizes.offsets as usize],
            header: Header { total: 0, flags: NONSENSE, fullest_tile: 0 },
            order: words(sizes.order),
            out: vec![Unit([NONSENSE; 4]); sizes.out_bytes as usize / 16],
            saturated: 0,
            trace: vec![0xee; if self.params.trace { frames as usize * self.shape.pixels() } else { 0 }],
        })
    }

    /// All `frame_*` launches of a chunk; the planes that hold the pedestal behind it.
    fn find_clusters(&mut self, frames: Frames<'_>, first: u64, buf: &mut Buffers) -> usize {
        let lanes = self.params.lanes as u32;
        // Sets of lost pixels, one after the other, and which frame has which.
        let (mut slots, mut sets) = (Vec::new(), Vec::new());
        for (k, lost) in frames.lost_frames() {
            slots.resize(frames.len(), abi::NO_LOST);
            slots[k] = (sets.len() as u64 / self.job.mask_words()) as u32;
            sets.extend(words(lost));
        }
        let pointer = |v: &[u32]| if v.is_empty() { std::ptr::null() } else { v.as_ptr() };
        let (mut from, mut to) = (0, 1);
        let resident = self.tiling.is_resident();
        let per_launch = self.tiling.frames_per_launch().min((frames.len() as u32).div_ceil(lanes));
        let samples = self.lanes[0].samples;
        // For every pixel two words, exactly.
        let mut edges = vec![0u64; if resident { 2 * self.shape.pixels() } else { 0 }];
        for done in (0..frames.len() as u32).step_by((per_launch * lanes) as usize) {
            let [a, b] = self.planes.get_disjoint_mut([from, to]).expect("two of three");
            let mut args = FrameArgs::<P> {
                raw: frames.as_slice().as_ptr(),
                stride: frames.stride() as u64,
                x0: self.x0.as_ptr(),
                sum_in: a.sum.as_ptr(),
                sum2_in: a.sum2.as_ptr(),
                sum_out: b.sum.as_mut_ptr(),
                sum2_out: b.sum2.as_mut_ptr(),
                fixed: if self.fixed.is_empty() { std::ptr::null() } else { self.fixed.as_ptr() },
                mask: pointer(&self.mask),
                lost_slot: pointer(&slots),
                lost_bits: pointer(&sets),
                staging: buf.staging.as_mut_ptr().cast(),
                bitmaps: buf.bitmaps.as_mut_ptr(),
                counts: buf.counts.as_mut_ptr(),
                saturated: &raw mut buf.saturated,
                trace: buf.trace.as_mut_ptr(),
                edges: edges.as_mut_ptr(),
                inv_n: P::from_f64(samples as f64).recip(),
                job: self.job,
                tiling: self.tiling,
                first: done,
                frames: per_launch,
                step: lanes,
                end: frames.len() as u32,
                lane0: (first % u64::from(lanes)) as u32,
                lanes,
                cap_tile: self.options.tile_capacity,
                told: 0,
            };
            if self.options.lanes_together && !resident {
                // SAFETY: the buffers are those of `Sizes` for this chunk; the planes in and out are different.
                unsafe { launch::frame(self.entry, lanes, &args) };
            } else {
                let (chunk_first, lane0) = (args.first, args.lane0);
                for k in 0..lanes {
                    args.first = chunk_first + k;
                    args.lane0 = lane0 + k;
                    args.told = k * per_launch;
                    // SAFETY: as above.
                    unsafe { launch::frame(self.entry, 1, &args) };
                }
            }
            // Plane 0 is only read in a chunk: it is what the chunk is done again from.
            (from, to) = (to, if to == 1 { 2 } else { 1 });
        }
        from
    }

    fn chunk(&mut self, frames: Frames<'_>, first: u64, out: &mut ClustersBuf) -> Result<u64> {
        let mut buf = self.buffers(frames.len() as u32)?;
        let mut now = self.find_clusters(frames, first, &mut buf);
        loop {
            let args = GatherArgs {
                staging: buf.staging.as_ptr().cast(),
                bitmaps: buf.bitmaps.as_ptr(),
                counts: buf.counts.as_ptr(),
                ranks: buf.ranks.as_mut_ptr(),
                infos: buf.infos.as_mut_ptr(),
                offsets: buf.offsets.as_mut_ptr(),
                header: &raw mut buf.header,
                order: buf.order.as_mut_ptr(),
                out: buf.out.as_mut_ptr().cast(),
                job: self.job,
                tiling: self.tiling,
                frames: frames.len() as u32,
                cap_tile: self.options.tile_capacity,
                out_cap: self.options.chunk_capacity,
            };
            // SAFETY: the buffers are those of `Sizes` for this chunk, and its clusters are staged.
            unsafe {
                launch::scan(&args);
                launch::gather(&args, 2);
            }
            let header = buf.header;
            if header.flags & Header::MISMATCH != 0 {
                return Err(Error::Other(format!("backend {NAME}: bitmaps and counts of a chunk differ")));
            }
            if header.flags == 0 {
                break;
            }
            self.redone += 1;
            // Too little room: the chunk again, from the pedestal before it.
            self.options.chunk_capacity = self.options.chunk_capacity.max(header.total);
            if header.flags & Header::TILE_OVERFLOW != 0 {
                self.options.tile_capacity = header.fullest_tile;
                buf = self.buffers(frames.len() as u32)?;
                now = self.find_clusters(frames, first, &mut buf);
            } else {
                let fresh = self.buffers(frames.len() as u32)?;
                (buf.order, buf.out) = (fresh.order, fresh.out);
            }
        }
        self.planes.swap(0, now);
        let bytes = self.job.record_bytes() as usize;
        let records = bytemuck::cast_slice::<Unit, u8>(&buf.out);
        for (k, o) in buf.offsets.windows(2).enumerate() {
            out.push_frame(frames.number(k), &records[o[0] as usize * bytes..o[1] as usize * bytes]);
            if self.params.trace {
                let n = self.shape.pixels();
                out.push_trace(&buf.trace[k * n..][..n]);
            }
        }
        Ok(buf.saturated)
    }
}

/// The bits of a mask as the kernels read them.
fn words(mask: &PixelMask) -> impl Iterator<Item = u32> + '_ {
    mask.words().iter().flat_map(|w| [*w as u32, (*w >> 32) as u32])
}

impl<P: Sums> Engine for SimEngine<P> {
    fn name(&self) -> &str {
        NAME
    }

    fn start(&mut self, pedestal: &Pedestal, mask: Option<&PixelMask>) -> Result<()> {
        self.mask = mask.map(|m| words(m).collect()).unwrap_or_default();
        self.x0 = pedestal.x0.clone().into_boxed_slice();
        let fixed = self.params.noise == Noise::Fixed;
        self.fixed = vec![P::ZERO; if fixed { self.planes[0].sum.len() } else { 0 }];
        self.lanes = vec![pedestal.clone(); self.params.lanes];
        for lane in 0..self.params.lanes {
            self.set_lane(lane, pedestal);
        }
        Ok(())
    }

    fn find(&mut self, frames: Frames<'_>, first: u64, out: &mut ClustersBuf) -> Result<u64> {
        let (mut saturated, mut at) = (0, first);
        for chunk in frames.batches(self.options.chunk_frames as usize) {
            saturated += self.chunk(chunk, at, out)?;
            at += chunk.len() as u64;
        }
        Ok(saturated)
    }

    fn pedestal(&self, lane: usize) -> Pedestal {
        let range = self.range(lane);
        Pedestal {
            sum: P::plane(&self.planes[0].sum[range.clone()]),
            sum2: P::plane(&self.planes[0].sum2[range]),
            ..self.lanes[lane].clone()
        }
    }

    fn set_lane(&mut self, lane: usize, pedestal: &Pedestal) {
        let range = self.range(lane);
        self.planes[0].sum[range.clone()].copy_from_slice(P::values(&pedestal.sum));
        self.planes[0].sum2[range.clone()].copy_from_slice(P::values(&pedestal.sum2));
        if let (false, Some(v)) = (self.fixed.is_empty(), &pedestal.fixed_variance) {
            self.fixed[range].copy_from_slice(P::values(v));
        }
        self.lanes[lane] = pedestal.clone();
    }

    fn batch_frames(&self) -> usize {
        self.options.chunk_frames as usize
    }
}
