//! Sinks on threads of their own, so that writing goes on while clusters are found, and no sink waits for another.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{Scope, ScopedJoinHandle};
use std::time::{Duration, Instant};

use scheidegg_finder::{ClustersBuf, Error, Finder, FrameBuf, FrameNote, FrameOwner, Result};

use super::collect::Found;
use super::reader::spawn;
use crate::io::{Batch, Sink, Written};
use crate::provenance::Provenance;

/// Batches that go round: one is filled, one is written, one waits.
const BATCHES: usize = 3;

/// A batch in memory of its own.
pub(super) struct Filled {
    pub clusters: ClustersBuf,
    notes: Vec<FrameNote>,
    lost_pixels: Vec<u64>,
}

impl Filled {
    fn new(finder: &dyn Finder) -> Filled {
        let params = finder.params();
        let clusters = ClustersBuf::new(finder.shape(), params.size, params.payload);
        Filled { clusters, notes: Vec::new(), lost_pixels: Vec::new() }
    }

    /// Takes over what is known of the frames that the clusters were found in.
    pub fn note(&mut self, frames: &FrameBuf) {
        self.notes.clear();
        self.notes.extend_from_slice(frames.notes());
        self.lost_pixels.clear();
        for (k, mask) in frames.frames().lost_frames() {
            self.lost_pixels.resize(k, 0);
            self.lost_pixels.push(mask.count() as u64);
        }
    }

    fn view(&self) -> Batch<'_> {
        Batch::of(self.clusters.view()).with_notes(&self.notes, &self.lost_pixels)
    }
}

/// How far a sink came.
pub(super) struct Wrote {
    /// What it took.
    pub found: Found,
    /// How long it wrote, without the waiting.
    pub busy: Duration,
    pub fault: Option<Fault>,
}

/// Why a sink takes nothing more.
pub(super) enum Fault {
    Error(Error),
    /// It is in no state to be completed.
    Panic(Error),
}

/// The caller's side of the threads that write.
pub(super) struct Writers<'scope> {
    /// `None` for a sink that has failed.
    queues: Vec<Option<Sender<Arc<Filled>>>>,
    /// Whether the run goes on for a sink's sake.
    needed: Vec<bool>,
    threads: Vec<ScopedJoinHandle<'scope, Wrote>>,
    /// A word whenever a sink has let go of a batch, and when it ends.
    let_go: Receiver<()>,
    /// The batches, the one that was handed out longest ago first.
    batches: VecDeque<Arc<Filled>>,
}

/// Says so when a sink's thread ends, however it ends.
struct Farewell(Sender<()>);

impl Drop for Farewell {
    fn drop(&mut self) {
        // Nobody listens when the caller ended first.
        let _ = self.0.send(());
    }
}

impl<'scope> Writers<'scope> {
    /// A thread for every sink.
    ///
    /// # Errors
    /// When the system gives none.
    pub fn new<'env: 'scope>(
        scope: &'scope Scope<'scope, 'env>,
        finder: &dyn Finder,
        sinks: &'scope mut [&mut dyn Sink],
    ) -> Result<Self> {
        let (word, let_go) = channel();
        let mut writers = Writers {
            queues: Vec::new(),
            needed: sinks.iter().map(|s| s.is_needed()).collect(),
            threads: Vec::new(),
            let_go,
            batches: (0..BATCHES).map(|_| Arc::new(Filled::new(finder))).collect(),
        };
        for sink in sinks.iter_mut() {
            let (queue, queued) = channel();
            let farewell = Farewell(word.clone());
            writers.queues.push(Some(queue));
            writers.threads.push(spawn(scope, "sink", move || write_all(*sink, farewell, queued))?);
        }
        Ok(writers)
    }

    /// A batch that nobody reads any more, to be filled and then [handed out](Writers::hand_out).
    pub fn free(&mut self) -> &mut Filled {
        let mut oldest = self.batches.pop_front().expect("batches go round");
        while Arc::get_mut(&mut oldest).is_none() && self.let_go.recv().is_ok() {}
        self.batches.push_front(oldest);
        // With all threads gone nobody is left to hold it.
        Arc::get_mut(&mut self.batches[0]).expect("every sink has let go of it")
    }

    /// Hands the batch that was free to every sink that is left; false when there were some that are needed and none is
    /// left of those.
    pub fn hand_out(&mut self) -> bool {
        let batch = self.batches.pop_front().expect("batches go round");
        self.batches.push_back(batch.clone());
        for queue in &mut self.queues {
            if queue.as_ref().is_some_and(|q| q.send(batch.clone()).is_err()) {
                *queue = None;
            }
        }
        let left = self.queues.iter().zip(&self.needed).any(|(queue, needed)| *needed && queue.is_some());
        left || !self.needed.contains(&true)
    }

    /// Waits until everything handed out is written, or has failed.
    pub fn end(self) -> Vec<Wrote> {
        drop(self.queues);
        let ends = self.threads.into_iter().map(|t| t.join());
        ends.map(|end| end.unwrap_or_else(|panic| resume_unwind(panic))).collect()
    }
}

/// Writes batches until there are no more, or one cannot be written.
fn write_all(
    sink: &mut dyn Sink,
    // Dropped after the queue and what is still in it.
    farewell: Farewell,
    queued: Receiver<Arc<Filled>>,
) -> Wrote {
    let mut wrote = Wrote { found: Found::default(), busy: Duration::ZERO, fault: None };
    while let Ok(batch) = queued.recv() {
        let start = Instant::now();
        wrote.fault = guarded(sink, |sink| sink.write(&batch.view())).err();
        wrote.busy += start.elapsed();
        if wrote.fault.is_some() {
            break;
        }
        wrote.found.add(&batch.clusters.view());
        drop(batch);
        // The caller may have ended.
        let _ = farewell.0.send(());
    }
    wrote
}

/// Completes a sink.
pub(super) fn finish(sink: &mut dyn Sink, provenance: &Provenance) -> Result<Written> {
    guarded(sink, |sink| sink.finish(provenance)).map_err(|fault| match fault {
        Fault::Error(e) | Fault::Panic(e) => e,
    })
}

/// A panic in a sink is its own fault and leaves the others alone.
fn guarded<T>(sink: &mut dyn Sink, work: impl FnOnce(&mut dyn Sink) -> Result<T>) -> Result<T, Fault> {
    match catch_unwind(AssertUnwindSafe(|| work(sink))) {
        Ok(done) => done.map_err(Fault::Error),
        Err(_) => Err(Fault::Panic(Error::Other(format!("{}: internal error while writing", sink.name())))),
    }
}
