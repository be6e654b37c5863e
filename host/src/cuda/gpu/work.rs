//! What a GPU does for a chunk: the copy, the chain of launches, the ordering of clusters, and all of it again.

use rayon::prelude::*;
use scheidegg_finder::{Error, Frames, Result};
use scheidegg_kernels::Real;
use scheidegg_kernels::device::abi::{self, FrameArgs, Header};

use super::Gpu;
use crate::cuda::ChunkTiming;
use crate::cuda::api::BACKEND;
use crate::cuda::chunk::summary;
use crate::cuda::driver::{Event, Geometry};
use crate::cuda::plan::Launches;
use crate::cuda::slots::{Outcome, Place, Shortfall};

/// Which frames of a batch a GPU does.
#[derive(Clone, Copy, Debug)]
pub(in crate::cuda) enum Picks<'a> {
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

impl Gpu {
    /// Starts a chunk; its first frame belongs to lane `lane0` of this GPU.
    ///
    /// # Safety
    /// As [`Device::start`](crate::cuda::slots::Device::start).
    pub(in crate::cuda) unsafe fn start(
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
        if let Some(edges) = &memory.edges {
            edges.fill(&self.chain, 0, edges.len(), 0)?;
        }
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

    pub(super) fn launch_all(&self, slot: usize, to: Option<usize>) -> Result<()> {
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
        // Frames of the lane that has the most.
        let frames = (c.frames as u32).div_ceil(lanes);
        let (lost_slot, lost_bits) = chunk.lost(plan);
        let second = plan.plane_bytes();
        let together = tiling.is_resident();
        let geometry = Geometry {
            grid: [tiling.tiles(), if together { 1 } else { lanes }, 1],
            block: [tiling.threads(), 1, 1],
            shared_bytes: tiling.shared_bytes,
            together,
        };
        let first = &memory.pedestals[c.from].0;
        let last = to.map(|to| &memory.pedestals[to].0);
        let mut arguments = FrameArgs::<P> {
            raw: chunk.frames.at(0),
            stride: c.stride as u64,
            x0: memory.x0.at(0),
            sum_in: first.at(0),
            sum2_in: first.at(second),
            sum_out: std::ptr::null_mut(),
            sum2_out: std::ptr::null_mut(),
            fixed: memory.fixed.as_ref().map_or(std::ptr::null(), |f| f.at(0)),
            mask: if run.masked { memory.mask.at(0) } else { std::ptr::null() },
            lost_slot,
            lost_bits,
            staging: chunk.records.staging.at(0),
            bitmaps: chunk.bitmaps.at(0),
            counts: chunk.counts.at(0),
            saturated: chunk.summary.at(summary::SATURATED),
            trace: chunk.trace.as_ref().map_or(std::ptr::null_mut(), |(t, _)| t.at(0)),
            edges: memory.edges.as_ref().map_or(std::ptr::null_mut(), |e| e.at(0)),
            inv_n: P::from_f64(run.base.samples as f64).recip(),
            job,
            tiling,
            first: 0,
            frames: tiling.frames_per_launch().min(frames),
            step: lanes,
            end: c.frames as u32,
            lane0: c.lane0 as u32,
            lanes,
            cap_tile: chunk.records.cap_tile,
            told: 0,
        };
        // SAFETY: the entry is the one for this `P`, tiling and job; every buffer has the size that the ABI states
        // (`Sizes`, planes of lanes x pixels) and lives until the streams have been waited for.
        let launch = |a: &FrameArgs<P>| unsafe { self.kernels.frame.launch(&self.chain, geometry, a) };
        if together {
            let into = last.unwrap_or(&memory.between[0].0);
            (arguments.sum_out, arguments.sum2_out) = (into.at(0), into.at(second));
            // A launch a lane, also for one that has no frame in the chunk: its pedestal is carried over.
            for lane in 0..lanes {
                arguments.first = lane;
                arguments.lane0 = c.lane0 as u32 + lane;
                arguments.told = lane * frames;
                launch(&arguments)?;
            }
            return Ok(());
        }
        let launches = frames.div_ceil(tiling.frames);
        for i in 0..launches {
            let into = match last {
                Some(last) if i + 1 == launches => last,
                _ => &memory.between[i as usize % 2].0,
            };
            (arguments.sum_out, arguments.sum2_out) = (into.at(0), into.at(second));
            arguments.first = i * tiling.frames * lanes;
            launch(&arguments)?;
            (arguments.sum_in, arguments.sum2_in) = (into.at(0), into.at(second));
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
            together: false,
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
    pub(in crate::cuda) fn finish(&mut self, slot: usize) -> Result<Outcome> {
        let bound = self.context.bind();
        let memory = self.memory.as_mut().expect("a chunk was started, so memory is there");
        let chunk = &mut memory.chunks[slot];
        let waited = bound.and_then(|()| chunk.done.synchronize());
        if !chunk.has_arrived(&self.plan) {
            waited?;
            return Err(fault("the results of a chunk did not arrive though its stream has ended"));
        }
        let (header, saturated) = chunk.header();
        if saturated >= abi::UNHEARD {
            return Err(fault("blocks waited for each other in vain"));
        }
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
    pub(in crate::cuda) fn redo(&mut self, slot: usize, short: Shortfall) -> Result<()> {
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

    /// Runs the kernels alone over the frames that are in a slot, `times` times; seconds of one run. Every run starts
    /// from the same pedestal and writes what the chunk wrote, so that nothing changes.
    pub(in crate::cuda) fn time_kernels(&mut self, slot: usize, times: usize) -> Result<ChunkTiming> {
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
    use scheidegg_finder::Shape;

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
