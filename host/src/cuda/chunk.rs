//! The buffers of one slot: frames on the GPU, staged clusters, results on the host, and the events between them.

use std::sync::Arc;

use scheidegg_finder::{Error, Frames, PixelMask, Result};
use scheidegg_kernels::device::abi::{self, FrameInfo, GatherArgs, Header, NO_LOST, Sizes};

use super::Output;
use super::driver::{Context, Event, Graph, Stream};
use super::memory::{DeviceMemory, PinnedMemory};
use super::plan::{Launches, Plan};

/// Where things stand in the summary of a chunk, in bytes; the same on the GPU and on the host.
pub(super) mod summary {
    /// The [`Header`](super::Header).
    pub(crate) const HEADER: usize = 0;
    /// Values cut to fit.
    pub(crate) const SATURATED: usize = 16;
    /// Where each frame's records start, and one more.
    pub(crate) const OFFSETS: usize = 32;

    /// Bytes of a summary of `frames` frames.
    pub(crate) const fn bytes(frames: usize) -> usize {
        OFFSETS + (frames + 1) * 8
    }
}

/// Records and what leads to them: everything whose size depends on the room for clusters.
pub(super) struct Records {
    pub(super) cap_tile: u32,
    pub(super) out_cap: u64,
    pub(super) staging: DeviceMemory,
    order: DeviceMemory,
    /// The records in order, on the GPU; only when they are fetched by a copy.
    out: Option<DeviceMemory>,
    /// The records in order, on the host.
    pub(super) results: PinnedMemory,
}

impl Records {
    fn new(
        stream: &Stream,
        plan: &Plan,
        launches: &Launches,
        cap_tile: u32,
        out_cap: u64,
    ) -> Result<Records> {
        let context = stream.context();
        let sizes = sizes(plan, launches, cap_tile, out_cap)?;
        let out_bytes = sizes.out_bytes as usize;
        Ok(Records {
            cap_tile,
            out_cap,
            staging: DeviceMemory::new(context, sizes.staging_bytes as usize, "staged clusters")?,
            order: DeviceMemory::new(context, sizes.order as usize * 4, "the order of clusters")?,
            out: match plan.output {
                Output::Mapped => None,
                Output::Copied => {
                    let out = DeviceMemory::new(context, out_bytes, "clusters")?;
                    // More than there is may be fetched; nothing is ever fetched that was not written.
                    out.fill(stream, 0, out_bytes, 0)?;
                    stream.synchronize()?;
                    Some(out)
                }
            },
            results: PinnedMemory::new(context, out_bytes, "the clusters of a chunk")?,
        })
    }
}

fn sizes(plan: &Plan, launches: &Launches, cap_tile: u32, out_cap: u64) -> Result<Sizes> {
    plan.sizes(launches, cap_tile, out_cap).ok_or_else(|| {
        Error::param("chunk_frames", plan.chunk, "fewer frames (a chunk holds at most 2^32 staged clusters)")
    })
}

/// Lost pixels of the frames of a chunk; made when the first frame with any comes.
struct Lost {
    device: DeviceMemory,
    host: PinnedMemory,
}

/// What is in a slot.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Content {
    /// Frames.
    pub(super) frames: usize,
    /// Lane of the first frame.
    pub(super) lane0: usize,
    /// Pixels from frame to frame on the GPU.
    pub(super) stride: usize,
    /// Whether some frame lost pixels.
    pub(super) lost: bool,
    /// The pedestal that the first launch read.
    pub(super) from: usize,
    /// Records that were fetched without knowing how many there are.
    pub(super) fetched: u64,
}

/// A slot.
pub(super) struct Chunk {
    pub(super) frames: DeviceMemory,
    pub(super) bitmaps: DeviceMemory,
    pub(super) counts: DeviceMemory,
    ranks: DeviceMemory,
    infos: DeviceMemory,
    pub(super) summary: DeviceMemory,
    pub(super) records: Records,
    pub(super) trace: Option<(DeviceMemory, PinnedMemory)>,
    /// The summary, then one word that is 1 when all of the chunk has reached the host.
    told: PinnedMemory,
    /// Frames of the user's in page-locked memory; made at the first copy.
    input: Option<PinnedMemory>,
    lost: Option<Lost>,
    pub(super) uploaded: Event,
    pub(super) found: Event,
    pub(super) done: Event,
    /// With timing: the start of the upload, and that of the first launch.
    pub(super) started: Option<(Event, Event)>,
    /// The launches of a whole chunk, by the pedestal they start from.
    pub(super) graphs: Vec<Option<Graph>>,
    pub(super) content: Content,
}

impl Chunk {
    pub(super) fn new(stream: &Stream, plan: &Plan, launches: &Launches, timing: bool) -> Result<Chunk> {
        let context = stream.context();
        let s = sizes(plan, launches, plan.cap_tile, plan.out_cap)?;
        let device = |bytes: usize, what| DeviceMemory::new(context, bytes, what);
        let event = || Event::new(context, timing);
        let trace_bytes = plan.chunk * plan.pixels;
        let summary = device(summary::bytes(plan.chunk), "a chunk's summary")?;
        summary.fill(stream, 0, summary.len(), 0)?;
        stream.synchronize()?;
        Ok(Chunk {
            frames: device(plan.frame_bytes(), "frames")?,
            bitmaps: device(s.bitmap_words as usize * 4, "stored pixels")?,
            counts: device(s.counts as usize * 4, "counts")?,
            ranks: device(s.bitmap_words as usize * 4, "ranks")?,
            infos: device(s.infos as usize * size_of::<FrameInfo>(), "counts of frames")?,
            summary,
            records: Records::new(stream, plan, launches, plan.cap_tile, plan.out_cap)?,
            trace: match plan.trace {
                false => None,
                true => Some((
                    device(trace_bytes, "a branch trace")?,
                    PinnedMemory::new(context, trace_bytes, "the branch trace of a chunk")?,
                )),
            },
            told: PinnedMemory::new(context, summary::bytes(plan.chunk) + 8, "a chunk's summary")?,
            input: None,
            lost: None,
            uploaded: event()?,
            found: event()?,
            done: event()?,
            started: if timing { Some((event()?, event()?)) } else { None },
            graphs: (0..plan.pedestals()).map(|_| None).collect(),
            content: Content::default(),
        })
    }

    /// Makes the memory that frames are copied to on the host.
    pub(super) fn reserve_input(&mut self, context: &Arc<Context>, plan: &Plan) -> Result<()> {
        if self.input.is_none() {
            let bytes = plan.chunk * plan.pixels * 2;
            self.input = Some(PinnedMemory::new(context, bytes, "the frames of a chunk")?);
        }
        Ok(())
    }

    /// The memory that frames are copied to on the host, for `frames` frames.
    ///
    /// # Safety
    /// No stream reads it: the slot is free.
    pub(super) unsafe fn input(
        &mut self,
        context: &Arc<Context>,
        plan: &Plan,
        frames: usize,
    ) -> Result<&mut [u16]> {
        self.reserve_input(context, plan)?;
        let input = self.input.as_mut().expect("just made");
        // SAFETY: the caller's promise.
        Ok(unsafe { input.as_mut_slice(0, frames * plan.pixels) })
    }

    /// Puts the copied frames on their way to the GPU.
    pub(super) fn upload_input(&mut self, stream: &Stream, plan: &Plan, frames: usize) -> Result<()> {
        let input = self.input.as_ref().expect("filled");
        self.content.stride = plan.pixels;
        // SAFETY: the memory belongs to the slot, which stays taken until the chunk is finished.
        unsafe { self.frames.upload(stream, 0, input.as_slice::<u16>(0, frames * plan.pixels)) }
    }

    /// Puts frames on their way to the GPU from where they lie: all in one copy, gaps included, when there is room
    /// for the gaps.
    ///
    /// # Safety
    /// The pixels stay valid and unchanged until the chunk is finished.
    pub(super) unsafe fn upload_frames(&mut self, stream: &Stream, frames: &Frames<'_>) -> Result<()> {
        let span = frames.as_slice();
        if size_of_val(span) <= self.frames.len() {
            self.content.stride = frames.stride();
            // SAFETY: the caller's promise.
            return unsafe { self.frames.upload(stream, 0, span) };
        }
        // SAFETY: the caller's promise.
        unsafe { self.upload_every(stream, frames, 0, 1, frames.len()) }
    }

    /// Puts `count` frames on their way, every `step`-th from `first` on, packed without gaps.
    ///
    /// # Safety
    /// As [`Chunk::upload_frames`].
    pub(super) unsafe fn upload_every(
        &mut self,
        stream: &Stream,
        frames: &Frames<'_>,
        first: usize,
        step: usize,
        count: usize,
    ) -> Result<()> {
        let pixels = frames.shape().pixels();
        self.content.stride = pixels;
        let pitch = step * frames.stride() * 2;
        if i32::try_from(pitch).is_ok() {
            let from = bytemuck::cast_slice(&frames.as_slice()[first * frames.stride()..]);
            // SAFETY: the caller's promise.
            return unsafe { self.frames.upload_rows(stream, from, pitch, pixels * 2, count) };
        }
        // Further apart than the copy engine counts: one by one.
        for i in 0..count {
            // SAFETY: the caller's promise.
            unsafe { self.frames.upload(stream, i * pixels * 2, frames.frame(first + i * step))? };
        }
        Ok(())
    }

    /// Puts the lost pixels of the chunk's frames on their way. The slot is free: nothing reads the host's memory.
    pub(super) fn upload_lost<'a>(
        &mut self,
        stream: &Stream,
        plan: &Plan,
        mask_words: usize,
        lost: impl Iterator<Item = (usize, &'a PixelMask)>,
    ) -> Result<()> {
        self.content.lost = false;
        let mut sets = 0;
        for (frame, mask) in lost.filter(|(_, m)| !m.is_empty()) {
            if self.lost.is_none() {
                let bytes = plan.chunk * 4 + plan.chunk * mask_words * 4;
                self.lost = Some(Lost {
                    device: DeviceMemory::new(stream.context(), bytes, "lost pixels")?,
                    host: PinnedMemory::new(stream.context(), bytes, "the lost pixels of a chunk")?,
                });
            }
            let host = &mut self.lost.as_mut().expect("just made").host;
            // SAFETY: the slot is free.
            let words = unsafe { host.as_mut_slice::<u32>(0, plan.chunk + (sets + 1) * mask_words) };
            let (slots, bits) = words.split_at_mut(plan.chunk);
            if sets == 0 {
                slots.fill(NO_LOST);
            }
            slots[frame] = sets as u32;
            let from: &[u32] = bytemuck::cast_slice(mask.words());
            bits[sets * mask_words..][..from.len()].copy_from_slice(from);
            sets += 1;
        }
        if sets > 0 {
            let lost = self.lost.as_ref().expect("made above");
            self.content.lost = true;
            // SAFETY: the memory belongs to the slot, which stays taken until the chunk is finished.
            unsafe {
                let words = lost.host.as_slice::<u32>(0, plan.chunk + sets * mask_words);
                lost.device.upload(stream, 0, words)?;
            }
        }
        Ok(())
    }

    /// Addresses of the lost pixels for a kernel: the set of each frame, and the sets. Null when nothing was lost.
    pub(super) fn lost(&self, plan: &Plan) -> (*const u32, *const u32) {
        match (&self.lost, self.content.lost) {
            (Some(lost), true) => (lost.device.at(0), lost.device.at(plan.chunk * 4)),
            _ => (std::ptr::null(), std::ptr::null()),
        }
    }

    /// The arguments of the kernels that put clusters in order.
    pub(super) fn gather_args(&self, launches: &Launches) -> GatherArgs {
        let r = &self.records;
        GatherArgs {
            staging: r.staging.at(0),
            bitmaps: self.bitmaps.at(0),
            counts: self.counts.at(0),
            ranks: self.ranks.at(0),
            infos: self.infos.at(0),
            offsets: self.summary.at(summary::OFFSETS),
            header: self.summary.at(summary::HEADER),
            order: r.order.at(0),
            out: match &r.out {
                Some(out) => out.at(0),
                None => r.results.device_at(0),
            },
            job: launches.job,
            tiling: launches.tiling,
            frames: self.content.frames as u32,
            cap_tile: r.cap_tile,
            out_cap: r.out_cap,
        }
    }

    /// Marks the chunk as not arrived. Nothing writes the slot's summary now.
    pub(super) fn expect(&mut self, plan: &Plan) {
        let at = summary::bytes(plan.chunk);
        // SAFETY: no stream writes the word before the download that is started after this.
        unsafe { self.told.as_mut_slice::<u32>(at, 1)[0] = 0 };
    }

    /// Whether all of the chunk has reached the host, without asking the driver.
    pub(super) fn has_arrived(&self, plan: &Plan) -> bool {
        self.told.peek(summary::bytes(plan.chunk)) == 1
    }

    /// Puts results on their way to the host: the summary, the records that are expected, the trace, and at last the
    /// word that says so.
    pub(super) fn download(
        &mut self,
        stream: &Stream,
        plan: &Plan,
        launches: &Launches,
        expected: u64,
        one: &DeviceMemory,
    ) -> Result<()> {
        let n = self.content.frames;
        // SAFETY: the slot's own memory, not read before the chunk is finished.
        unsafe { self.summary.download(stream, 0, &self.told, 0, summary::bytes(n))? };
        self.content.fetched = 0;
        if let Some(out) = &self.records.out {
            self.content.fetched = expected.min(self.records.out_cap);
            let bytes = self.content.fetched as usize * launches.job.record_bytes() as usize;
            // SAFETY: as above.
            unsafe { out.download(stream, 0, &self.records.results, 0, bytes)? };
        }
        if let Some((device, host)) = &self.trace {
            // SAFETY: as above.
            unsafe { device.download(stream, 0, host, 0, n * plan.pixels)? };
        }
        // SAFETY: as above.
        unsafe { one.download(stream, 0, &self.told, summary::bytes(plan.chunk), 4) }
    }

    /// Fetches the records that were not expected.
    pub(super) fn download_rest(&mut self, stream: &Stream, launches: &Launches, total: u64) -> Result<()> {
        if let Some(out) = &self.records.out
            && total > self.content.fetched
        {
            let b = launches.job.record_bytes() as usize;
            let (from, to) = (self.content.fetched as usize * b, total as usize * b);
            // SAFETY: the slot's own memory, waited for at once.
            unsafe { out.download(stream, from, &self.records.results, from, to - from)? };
            self.content.fetched = total;
            stream.synchronize()?;
        }
        Ok(())
    }

    /// What the kernels say of the finished chunk: header and values cut to fit.
    pub(super) fn header(&self) -> (Header, u64) {
        // SAFETY: the chunk is finished, no stream writes its summary.
        let words = unsafe { self.told.as_slice::<u64>(0, 3) };
        let header =
            Header { total: words[0], flags: words[1] as u32, fullest_tile: (words[1] >> 32) as u32 };
        (header, words[summary::SATURATED / 8])
    }

    /// Where each frame's records start, and one more, of the finished chunk.
    pub(super) fn offsets(&self) -> &[u64] {
        // SAFETY: the chunk is finished, no stream writes its summary.
        unsafe { self.told.as_slice(summary::OFFSETS, self.content.frames + 1) }
    }

    /// The first `bytes` bytes of records of the finished chunk.
    pub(super) fn results(&self, bytes: usize) -> &[u8] {
        // SAFETY: the chunk is finished, no stream writes its results.
        unsafe { self.records.results.as_slice(0, bytes) }
    }

    /// The branch trace of the finished chunk.
    pub(super) fn traced(&self, plan: &Plan) -> Option<&[u8]> {
        let (_, host) = self.trace.as_ref()?;
        // SAFETY: the chunk is finished, no stream writes its trace.
        Some(unsafe { host.as_slice(0, self.content.frames * plan.pixels) })
    }

    /// The frame of the finished chunk with the most clusters, and how many those are.
    pub(super) fn fullest_frame(&self, stream: &Stream) -> Result<(usize, u64)> {
        let mut infos = vec![[0u32; size_of::<FrameInfo>() / 4]; self.content.frames];
        self.infos.read(stream, 0, &mut infos)?;
        let found = infos.iter().map(|i| u64::from(i[0].max(i[1]))).enumerate();
        Ok(found.max_by_key(|(k, n)| (*n, std::cmp::Reverse(*k))).unwrap_or((0, 0)))
    }

    /// Makes more room for records. What was staged is kept when only the output grows.
    pub(super) fn grow(
        &mut self,
        stream: &Stream,
        plan: &Plan,
        launches: &Launches,
        cap_tile: u32,
        out_cap: u64,
    ) -> Result<()> {
        let mut new = Records::new(stream, plan, launches, cap_tile, out_cap)?;
        if cap_tile == self.records.cap_tile {
            std::mem::swap(&mut new.staging, &mut self.records.staging);
        }
        self.records = new;
        self.graphs.iter_mut().for_each(|g| *g = None);
        Ok(())
    }
}

const _: () = assert!(size_of::<Header>() == 16 && summary::SATURATED == 16 && size_of::<FrameInfo>() == 16);
const _: () = assert!(abi::SCAN_SHARED_BYTES <= 48 * 1024);
