//! Stand-ins for unit tests: a backend that finds one cluster per hot pixel, a source and a sink in memory.

use std::sync::{Arc, Mutex};

use scheidegg_finder::{
    Backend, ClustersBuf, Engine, Error, Finder, FrameBuf, Frames, Params, Pedestal, PixelMask, Precision,
    Probe, Result, Shape, SyncFinder,
};

use crate::io::{Batch, Sink, Source, Written};
use crate::provenance::Provenance;

/// Stores a cluster of zeros for every pixel above 1000 ADU.
#[derive(Clone, Default)]
pub struct CountBackend {
    pub name: &'static str,
    pub preference: u32,
    pub absent: Option<&'static str>,
    pub unsuited: Option<&'static str>,
    pub only: Option<Precision>,
}

impl Backend for CountBackend {
    fn name(&self) -> &str {
        self.name
    }
    fn summary(&self) -> &str {
        "counts hot pixels, for tests"
    }
    fn probe(&self) -> Result<Probe> {
        match self.absent {
            Some(reason) => Err(Error::Unavailable { backend: self.name.into(), reason: reason.into() }),
            None => Ok(Probe { device: "test".into(), preference: self.preference }),
        }
    }
    fn suits(&self, _: Shape, _: &Params) -> Result<(), String> {
        self.unsuited.map_or(Ok(()), |why| Err(why.into()))
    }
    fn build(&self, shape: Shape, params: &Params) -> Result<Box<dyn Finder>> {
        self.probe()?;
        if self.only.is_some_and(|p| p != params.precision) {
            let what = format!("precision {}", params.precision);
            return Err(Error::Unsupported { backend: self.name.into(), what });
        }
        let engine =
            CountEngine { pedestal: None, record: 4 + params.size.pixels() * params.payload.bytes() };
        Ok(Box::new(SyncFinder::new(engine, shape, params)?))
    }
}

struct CountEngine {
    pedestal: Option<Pedestal>,
    record: usize,
}

impl Engine for CountEngine {
    fn name(&self) -> &str {
        "count"
    }
    fn start(&mut self, pedestal: &Pedestal, _: Option<&PixelMask>) -> Result<()> {
        self.pedestal = Some(pedestal.clone());
        Ok(())
    }
    fn find(&mut self, frames: Frames<'_>, _: u64, out: &mut ClustersBuf) -> Result<u64> {
        for k in 0..frames.len() {
            let mut records = Vec::new();
            for (i, _) in frames.frame(k).iter().enumerate().filter(|(_, v)| **v > 1000) {
                let (x, y) = ((i % frames.shape().cols) as u16, (i / frames.shape().cols) as u16);
                records.extend(x.to_ne_bytes());
                records.extend(y.to_ne_bytes());
                records.resize(records.len() + self.record - 4, 0);
            }
            out.push_frame(frames.number(k), &records);
        }
        Ok(0)
    }
    fn pedestal(&self, _: usize) -> Pedestal {
        self.pedestal.clone().expect("started")
    }
    fn set_lane(&mut self, _: usize, pedestal: &Pedestal) {
        self.pedestal = Some(pedestal.clone());
    }
    fn batch_frames(&self) -> usize {
        4
    }
}

/// `count` frames numbered from `first`; frame `k` has `k % 3` hot pixels.
pub struct CountSource {
    pub shape: Shape,
    pub first: u64,
    pub next: u64,
    pub count: u64,
    /// Fails, or panics, when this frame is due.
    pub fail_at: Option<u64>,
    pub panic_at: Option<u64>,
}

impl CountSource {
    pub fn new(shape: Shape, count: u64) -> Self {
        CountSource { shape, first: 0, next: 0, count, fail_at: None, panic_at: None }
    }
}

impl Source for CountSource {
    fn name(&self) -> String {
        "count.npy".into()
    }
    fn shape(&self) -> Shape {
        self.shape
    }
    fn remaining(&self) -> Option<u64> {
        Some(self.count - self.next)
    }
    fn read(&mut self, into: &mut FrameBuf) -> Result<usize> {
        let mut n = 0;
        while !into.is_full() && self.next < self.count {
            if self.fail_at == Some(self.next) {
                return Err(Error::file("count.npy", format!("ends inside frame {}", self.next)));
            }
            assert!(self.panic_at != Some(self.next), "no frame {}", self.next);
            let hot = (self.next % 3) as usize;
            into.push(self.first + self.next, |pixels| {
                pixels.fill(100);
                pixels[..hot].fill(2000);
                Ok(None)
            })?;
            self.next += 1;
            n += 1;
        }
        Ok(n)
    }
}

/// What a [`KeepSink`] took.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Kept {
    /// Frame numbers and their numbers of clusters.
    pub frames: Vec<(u64, usize)>,
    pub finished: bool,
    pub provenance: Option<Provenance>,
}

/// Keeps the number of clusters of every frame.
#[derive(Default)]
pub struct KeepSink {
    pub kept: Arc<Mutex<Kept>>,
    pub fail_at: Option<u64>,
}

impl Sink for KeepSink {
    fn name(&self) -> String {
        "out.clust".into()
    }
    fn write(&mut self, batch: &Batch<'_>) -> Result<()> {
        let batch = batch.clusters();
        for k in 0..batch.frames() {
            if self.fail_at == Some(batch.numbers()[k]) {
                return Err(Error::file("out.clust", "no space left on device"));
            }
            self.kept.lock().unwrap().frames.push((batch.numbers()[k], batch.frame(k).len()));
        }
        Ok(())
    }
    fn finish(&mut self, provenance: &Provenance) -> Result<Written> {
        let mut kept = self.kept.lock().unwrap();
        (kept.finished, kept.provenance) = (true, Some(provenance.clone()));
        Ok(Written::nowhere())
    }
}
