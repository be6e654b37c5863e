//! A device without a GPU, for tests of order, overflow and errors: it does its chunks at once, and fails on demand.

use std::sync::{Arc, Mutex, MutexGuard};

use scheidegg_finder::{
    Clusters, ClustersBuf, Error, Frames, Params, Pedestal, PixelMask, Plane, Result, Shape,
};

use super::slots::{Device, Outcome, Place, Shortfall};

/// What a test asks of the device, and what it sees of it.
#[derive(Debug, Default)]
pub(super) struct Control {
    /// The chunk (counted from 0) that cannot be started.
    pub(super) fail_start: Option<usize>,
    /// The chunk from which on the device is lost.
    pub(super) lost_from: Option<usize>,
    /// Calls of the device so far, and the one (counted from 1) that fails.
    pub(super) calls: usize,
    pub(super) fail_call: Option<usize>,
    /// Clusters a chunk that there is room for at first.
    pub(super) room: u64,
    /// Clusters a chunk that there can be room for.
    pub(super) most: u64,
    /// Chunks started.
    pub(super) started: usize,
    /// Chunks done again.
    pub(super) redone: usize,
    /// Chunks started and neither finished nor settled.
    pub(super) in_flight: usize,
    /// Where the pixels of each chunk were read.
    pub(super) places: Vec<Place>,
}

/// The control, also after a test has failed while it held it.
pub(super) fn lock(control: &Mutex<Control>) -> MutexGuard<'_, Control> {
    control.lock().unwrap_or_else(|e| e.into_inner())
}

struct Work {
    chunk: usize,
    /// Values of every frame of the chunk, a stand-in for the frames on the GPU.
    frames: Vec<Vec<u16>>,
    numbers: Vec<u64>,
    first: u64,
    /// The lanes before the chunk.
    from: Vec<f32>,
    room: u64,
    found: Vec<u64>,
    out: ClustersBuf,
    finished: bool,
}

/// A finder of nothing physical: a pixel above its lane's level is a cluster, and every frame raises the level of its
/// lane by one. So a frame that meets the wrong pedestal gives a wrong result.
pub(super) struct Mock {
    shape: Shape,
    params: Params,
    lanes: Vec<f32>,
    base: Option<Pedestal>,
    slots: Vec<Option<Work>>,
    control: Arc<Mutex<Control>>,
}

impl Mock {
    pub(super) fn new(shape: Shape, params: &Params, slots: usize, control: &Arc<Mutex<Control>>) -> Mock {
        Mock {
            shape,
            params: params.clone(),
            lanes: vec![0.0; params.lanes],
            base: None,
            slots: (0..slots).map(|_| None).collect(),
            control: control.clone(),
        }
    }

    /// Counts a call, and fails when it is its turn.
    fn call(&self) -> Result<()> {
        let mut control = lock(&self.control);
        control.calls += 1;
        match control.fail_call == Some(control.calls) {
            true => Err(Error::Device {
                backend: "cuda".into(),
                call: format!("call {}", control.calls),
                message: "failed once".into(),
            }),
            false => Ok(()),
        }
    }

    fn lost(&self, chunk: usize) -> Result<()> {
        match lock(&self.control).lost_from {
            Some(n) if chunk >= n => Err(Error::Device {
                backend: "cuda".into(),
                call: "cuEventSynchronize".into(),
                message: "device lost".into(),
            }),
            _ => Ok(()),
        }
    }

    /// Judges the frames of a chunk from a level, and says where the levels end.
    fn judge(&self, work: &mut Work) -> Vec<f32> {
        let mut lanes = work.from.clone();
        work.out.clear();
        work.found.clear();
        let values = self.params.size.pixels();
        for (k, frame) in work.frames.iter().enumerate() {
            let lane = ((work.first + k as u64) % lanes.len() as u64) as usize;
            let mut records = Vec::new();
            for (i, v) in frame.iter().enumerate().filter(|(_, v)| f32::from(**v) > lanes[lane]) {
                records.extend([(i % self.shape.cols) as u16, (i / self.shape.cols) as u16]);
                records.extend(std::iter::repeat_n(*v, values));
            }
            work.out.push_frame(work.numbers[k], bytemuck::cast_slice(&records));
            work.found.push((records.len() / (values + 2)) as u64);
            lanes[lane] += 1.0;
        }
        lanes
    }
}

impl Device for Mock {
    fn reserve(&mut self) -> Result<()> {
        Ok(())
    }

    fn begin(&mut self, pedestal: &Pedestal, _mask: Option<&PixelMask>) -> Result<()> {
        self.call()?;
        self.base = Some(pedestal.clone());
        (0..self.lanes.len()).try_for_each(|l| self.set_lane(l, pedestal))
    }

    fn pedestal(&mut self, lane: usize) -> Result<Pedestal> {
        self.call()?;
        let base = self.base.clone().expect("begun");
        Ok(Pedestal { sum: Plane::F32(vec![self.lanes[lane]; self.shape.pixels()]), ..base })
    }

    fn set_lane(&mut self, lane: usize, pedestal: &Pedestal) -> Result<()> {
        self.call()?;
        self.lanes[lane] = pedestal.sum.get(0) as f32;
        Ok(())
    }

    unsafe fn start(&mut self, slot: usize, frames: Frames<'_>, first: u64, place: Place) -> Result<()> {
        self.call()?;
        let (chunk, room) = {
            let mut c = lock(&self.control);
            c.started += 1;
            c.in_flight += 1;
            c.places.push(place);
            if c.fail_start == Some(c.started - 1) {
                return Err(Error::Device {
                    backend: "cuda".into(),
                    call: "cuLaunchKernel".into(),
                    message: "refused".into(),
                });
            }
            (c.started - 1, c.room)
        };
        self.lost(chunk)?;
        let mut work = Work {
            chunk,
            frames: (0..frames.len()).map(|k| frames.frame(k).to_vec()).collect(),
            numbers: (0..frames.len()).map(|k| frames.number(k)).collect(),
            first,
            from: self.lanes.clone(),
            room,
            found: Vec::new(),
            out: ClustersBuf::new(self.shape, self.params.size, self.params.payload),
            finished: false,
        };
        self.lanes = self.judge(&mut work);
        assert!(self.slots[slot].as_ref().is_none_or(|w| w.finished), "slot {slot} is taken");
        self.slots[slot] = Some(work);
        Ok(())
    }

    fn finish(&mut self, slot: usize) -> Result<Outcome> {
        let chunk = self.slots[slot].as_ref().expect("started").chunk;
        {
            let mut c = lock(&self.control);
            c.in_flight = c.in_flight.saturating_sub(1);
        }
        self.lost(chunk)?;
        let failed = self.call();
        let work = self.slots[slot].as_mut().expect("started");
        work.finished = true;
        failed?;
        let clusters = work.found.iter().sum();
        if clusters > work.room {
            let most = work.found.iter().enumerate().max_by_key(|(_, n)| **n).expect("frames");
            let capacity = work.room / work.found.len() as u64;
            return Ok(Outcome::Overflow(Shortfall { frame: most.0, found: *most.1, capacity }));
        }
        Ok(Outcome::Complete { clusters, saturated: 0 })
    }

    fn redo(&mut self, slot: usize, short: Shortfall) -> Result<()> {
        self.call()?;
        let mut work = self.slots[slot].take().expect("started");
        let need = work.found.iter().sum::<u64>();
        let most = lock(&self.control).most;
        if need <= most {
            work.room = need;
            // From the pedestal before the chunk; where the levels end is thrown away.
            self.judge(&mut work);
            let mut c = lock(&self.control);
            c.redone += 1;
            c.in_flight += 1;
        }
        self.slots[slot] = Some(work);
        match need <= most {
            true => Ok(()),
            false => Err(Error::Overflow {
                frame: short.frame as u64,
                found: short.found,
                capacity: short.capacity,
            }),
        }
    }

    fn clusters<'a>(&'a self, slot: usize, numbers: &'a [u64]) -> Result<Clusters<'a>> {
        let view = self.slots[slot].as_ref().expect("finished").out.view();
        Clusters::new(view.shape(), view.size(), view.payload(), numbers, view.offsets(), view.bytes())
    }

    fn settle(&mut self) {
        lock(&self.control).in_flight = 0;
    }
}
