//! Several GPUs as one device: each does its lanes.
//!
//! Lane `l` of the run is done by GPU `l mod n`. What a GPU does is a run of its own with its lanes alone, because
//! lanes do not know of each other: frame `k` of the run is the GPU's next frame when `k mod L` is one of its lanes.
//! One GPU lends its results as they lie; the results of several are put together on the host, by a copy.

use std::fmt::Write;

use scheidegg_finder::{Clusters, ClustersBuf, Error, Frames, Params, Pedestal, PixelMask, Result, Shape};

use super::gpu::{Gpu, Picks};
use super::plan::Share;
use super::slots::{Device, Outcome, Place, Shortfall};
use super::{ChunkTiming, Options};

/// Which frames of a chunk each GPU does. Lists are kept from chunk to chunk.
struct Deal {
    lanes: usize,
    picks: Vec<Vec<u32>>,
}

impl Deal {
    fn new(lanes: usize, devices: usize, chunk: usize) -> Deal {
        Deal { lanes, picks: (0..devices).map(|_| Vec::with_capacity(chunk)).collect() }
    }

    /// Lanes of a GPU.
    fn own(lanes: usize, devices: usize, device: usize) -> usize {
        (lanes + devices - 1 - device) / devices
    }

    /// Deals the frames of a chunk whose first is frame `first` of the run.
    fn deal(&mut self, first: u64, frames: usize) {
        let devices = self.picks.len();
        self.picks.iter_mut().for_each(Vec::clear);
        for k in 0..frames {
            let lane = ((first + k as u64) % self.lanes as u64) as usize;
            self.picks[lane % devices].push(k as u32);
        }
    }

    /// Lane, among its own, of the first frame that a GPU does at or after frame `first` of the run.
    fn lane0(&self, device: usize, first: u64) -> usize {
        let lane = (first % self.lanes as u64) as usize;
        let devices = self.picks.len();
        // Its own lanes below `lane` have had their turn.
        let turns = (lane + devices - 1 - device) / devices;
        turns % Self::own(self.lanes, devices, device)
    }
}

/// Which GPUs work on a slot, and what they have found.
struct Slot {
    busy: Vec<Option<Outcome>>,
    parts: Vec<Vec<u32>>,
    frames: usize,
    merged: ClustersBuf,
}

/// GPUs with their lanes.
pub(super) struct Group {
    gpus: Vec<Gpu>,
    deal: Deal,
    slots: Vec<Slot>,
    chunk: usize,
    idle: Vec<usize>,
}

impl Group {
    /// Opens the GPUs of the options that have lanes to do.
    ///
    /// # Errors
    /// As [`Gpu::new`].
    pub(super) fn new(shape: Shape, params: &Params, options: &Options) -> Result<Group> {
        options.validate()?;
        let lanes = params.lanes;
        let used = options.devices.len().min(lanes);
        let share = |d| Share { lanes, own: Deal::own(lanes, used, d) };
        // The chunk of the whole run is what the first GPU would choose for its part.
        let mut options = options.clone();
        let mut gpus: Vec<Gpu> = Vec::with_capacity(used);
        let mut chunk = 0;
        let devices = options.devices[..used].to_vec();
        for (d, ordinal) in devices.into_iter().enumerate() {
            let gpu = Gpu::new(ordinal, shape, params, &options, share(d))?;
            if d == 0 {
                let own = share(0).own;
                chunk = match options.chunk_frames {
                    Some(chunk) => chunk,
                    None if own == lanes => gpu.plan().chunk,
                    None => (gpu.plan().chunk / own).max(1) * lanes,
                };
                options.chunk_frames = Some(chunk);
            }
            gpus.push(gpu);
        }
        let idle = options.devices[used..].to_vec();
        if !idle.is_empty() {
            tracing::warn!(
                "{lanes} pedestal lanes keep {used} GPUs busy: GPU {idle:?} has nothing to do (more lanes, more GPUs)"
            );
        }
        let slot = || Slot {
            busy: vec![None; used],
            parts: vec![Vec::with_capacity(chunk); used],
            frames: 0,
            merged: ClustersBuf::new(shape, params.size, params.payload),
        };
        Ok(Group {
            deal: Deal::new(lanes, used, chunk),
            slots: (0..options.slots).map(|_| slot()).collect(),
            gpus,
            chunk,
            idle,
        })
    }

    /// Frames of a chunk.
    pub(super) fn chunk_frames(&self) -> usize {
        self.chunk
    }

    /// What each GPU does and how, in words.
    pub(super) fn explain(&self) -> String {
        let mut words = String::new();
        for gpu in &self.gpus {
            let _ = writeln!(words, "{}", gpu.explain());
        }
        if !self.idle.is_empty() {
            let _ = writeln!(
                words,
                "GPU {:?} has nothing to do: a GPU needs at least one pedestal lane, and there are {}",
                self.idle, self.deal.lanes
            );
        }
        words
    }

    fn of_lane(&mut self, lane: usize) -> (&mut Gpu, usize) {
        let n = self.gpus.len();
        (&mut self.gpus[lane % n], lane / n)
    }

    fn merge(&mut self, slot: usize) -> Result<()> {
        let Slot { parts, frames, merged, .. } = &mut self.slots[slot];
        merged.clear();
        let numbers = vec![0u64; *frames];
        let mut views = Vec::with_capacity(parts.len());
        for (gpu, part) in self.gpus.iter().zip(parts.iter()) {
            views.push(match part.is_empty() {
                true => None,
                false => Some(gpu.clusters(slot, &numbers[..part.len()])?),
            });
        }
        let mut next = vec![0usize; parts.len()];
        for k in 0..*frames {
            let owner = (0..parts.len()).find(|d| parts[*d].get(next[*d]) == Some(&(k as u32)));
            let Some((d, Some(view))) = owner.map(|d| (d, &views[d])) else {
                return Err(Error::Other(format!("frame {k} of a chunk was dealt to no GPU")));
            };
            let i = next[d];
            next[d] += 1;
            merged.push_frame(0, view.frame_bytes(i));
            if let Some(trace) = view.trace() {
                let pixels = view.shape().pixels();
                merged.push_trace(&trace[i * pixels..][..pixels]);
            }
        }
        Ok(())
    }
}

impl Device for Group {
    fn reserve(&mut self) -> Result<()> {
        self.gpus.iter_mut().try_for_each(|g| g.reserve(true))
    }

    fn begin(&mut self, pedestal: &Pedestal, mask: Option<&PixelMask>) -> Result<()> {
        self.gpus.iter_mut().try_for_each(|g| g.begin(pedestal, mask))
    }

    fn pedestal(&mut self, lane: usize) -> Result<Pedestal> {
        let (gpu, lane) = self.of_lane(lane);
        gpu.pedestal(lane)
    }

    fn set_lane(&mut self, lane: usize, pedestal: &Pedestal) -> Result<()> {
        let (gpu, lane) = self.of_lane(lane);
        gpu.set_lane(lane, pedestal)
    }

    unsafe fn start(&mut self, slot: usize, frames: Frames<'_>, first: u64, place: Place) -> Result<()> {
        if let [gpu] = &mut self.gpus[..] {
            let lane0 = (first % self.deal.lanes as u64) as usize;
            // SAFETY: the caller's promise.
            return unsafe { gpu.start(slot, &frames, Picks::All, lane0, place) };
        }
        self.deal.deal(first, frames.len());
        let state = &mut self.slots[slot];
        state.frames = frames.len();
        for (d, gpu) in self.gpus.iter_mut().enumerate() {
            let picks = &self.deal.picks[d];
            state.busy[d] = None;
            state.parts[d].clone_from(picks);
            if !picks.is_empty() {
                let lane0 = self.deal.lane0(d, first);
                // SAFETY: the caller's promise.
                unsafe { gpu.start(slot, &frames, Picks::List(picks), lane0, place)? };
            }
        }
        Ok(())
    }

    fn finish(&mut self, slot: usize) -> Result<Outcome> {
        if let [gpu] = &mut self.gpus[..] {
            return gpu.finish(slot);
        }
        let state = &mut self.slots[slot];
        let (mut all, mut cut) = (0, 0);
        let mut short: Option<Shortfall> = None;
        for (d, gpu) in self.gpus.iter_mut().enumerate().filter(|(d, _)| !state.parts[*d].is_empty()) {
            if !matches!(state.busy[d], Some(Outcome::Complete { .. })) {
                state.busy[d] = Some(gpu.finish(slot)?);
            }
            match state.busy[d] {
                Some(Outcome::Complete { clusters, saturated }) => {
                    all += clusters;
                    cut += saturated;
                }
                Some(Outcome::Overflow(s)) => {
                    let here = Shortfall { frame: state.parts[d][s.frame] as usize, ..s };
                    short = Some(short.filter(|o| o.found >= here.found).unwrap_or(here));
                }
                None => {}
            }
        }
        match short {
            Some(short) => Ok(Outcome::Overflow(short)),
            None => {
                self.merge(slot)?;
                Ok(Outcome::Complete { clusters: all, saturated: cut })
            }
        }
    }

    fn redo(&mut self, slot: usize, short: Shortfall) -> Result<()> {
        if let [gpu] = &mut self.gpus[..] {
            return gpu.redo(slot, short);
        }
        let state = &self.slots[slot];
        for (d, gpu) in self.gpus.iter_mut().enumerate() {
            if let Some(Outcome::Overflow(_)) = state.busy[d] {
                gpu.redo(slot, short)?;
            }
        }
        Ok(())
    }

    fn clusters<'a>(&'a self, slot: usize, numbers: &'a [u64]) -> Result<Clusters<'a>> {
        if let [gpu] = &self.gpus[..] {
            return gpu.clusters(slot, numbers);
        }
        let m = self.slots[slot].merged.view();
        let clusters = Clusters::new(m.shape(), m.size(), m.payload(), numbers, m.offsets(), m.bytes())?;
        match m.trace() {
            Some(trace) => clusters.with_trace(trace),
            None => Ok(clusters),
        }
    }

    fn settle(&mut self) {
        self.gpus.iter_mut().for_each(Gpu::settle);
    }

    fn timing(&self, slot: usize) -> Option<ChunkTiming> {
        // The GPUs work side by side: the slowest one counts.
        let parts = self.gpus.iter().filter_map(|g| g.timing(slot));
        parts.reduce(|a, b| ChunkTiming {
            frames: a.frames + b.frames,
            upload_s: a.upload_s.max(b.upload_s),
            find_s: a.find_s.max(b.find_s),
            output_s: a.output_s.max(b.output_s),
        })
    }

    fn time_kernels(&mut self, slot: usize, times: usize) -> Result<ChunkTiming> {
        match &mut self.gpus[..] {
            [gpu] => gpu.time_kernels(slot, times),
            more => Err(Error::param("devices", more.len(), "one GPU for this measurement")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a GPU does, seen from the run: the lane of every frame, by two ways of counting.
    #[test]
    fn every_frame_meets_the_pedestal_of_its_lane() {
        for lanes in 1..=9usize {
            for devices in 1..=lanes {
                let owns: Vec<usize> = (0..devices).map(|d| Deal::own(lanes, devices, d)).collect();
                assert_eq!(owns.iter().sum::<usize>(), lanes);
                let mut deal = Deal::new(lanes, devices, 64);
                let mut first = 0u64;
                for frames in [1usize, 5, 2, 13, 0, 8, 3] {
                    deal.deal(first, frames);
                    let mut seen = 0;
                    for (d, own) in owns.iter().enumerate() {
                        for (i, k) in deal.picks[d].iter().enumerate() {
                            // The GPU's lane of its i-th frame, as its kernels count.
                            let local = (deal.lane0(d, first) + i) % own;
                            let lane = ((first + u64::from(*k)) % lanes as u64) as usize;
                            assert_eq!(lane, local * devices + d, "{lanes} lanes, {devices} GPUs");
                            seen += 1;
                        }
                    }
                    assert_eq!(seen, frames);
                    first += frames as u64;
                }
            }
        }
    }
}
