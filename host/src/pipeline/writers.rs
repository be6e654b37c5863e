//! Sinks on threads of their own, so that writing goes on while clusters are found, and no sink waits for another.

use std::collections::VecDeque;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{Scope, ScopedJoinHandle};
use std::time::{Duration, Instant};

use scheidegg_finder::{ClustersBuf, Error, Finder, Result};

use crate::io::Sink;

/// Batches that go round: one is filled, one is written, one waits.
const BATCHES: usize = 3;

/// The caller's side of the threads that write.
pub(super) struct Writers<'scope> {
    queues: Vec<Sender<Arc<ClustersBuf>>>,
    threads: Vec<ScopedJoinHandle<'scope, Result<Duration>>>,
    /// A word whenever a sink has let go of a batch, and when it ends.
    let_go: Receiver<()>,
    /// The batches, the one that was handed out longest ago first.
    batches: VecDeque<Arc<ClustersBuf>>,
    /// A sink has ended before its time.
    gone: bool,
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
    pub(super) fn new<'env: 'scope>(
        scope: &'scope Scope<'scope, 'env>,
        finder: &dyn Finder,
        sinks: &'scope mut [&mut dyn Sink],
    ) -> Self {
        let params = finder.params();
        let (word, let_go) = channel();
        let batch = || Arc::new(ClustersBuf::new(finder.shape(), params.size, params.payload));
        let mut writers = Writers {
            queues: Vec::new(),
            threads: Vec::new(),
            let_go,
            batches: (0..if sinks.is_empty() { 1 } else { BATCHES }).map(|_| batch()).collect(),
            gone: false,
        };
        for sink in sinks.iter_mut() {
            let (queue, queued) = channel();
            let farewell = Farewell(word.clone());
            writers.queues.push(queue);
            writers.threads.push(scope.spawn(move || write_all(*sink, farewell, queued)));
        }
        writers
    }

    /// A batch that nobody reads any more, to be filled and then [handed out](Writers::hand_out).
    pub(super) fn free(&mut self) -> &mut ClustersBuf {
        let mut oldest = self.batches.pop_front().expect("batches go round");
        while Arc::get_mut(&mut oldest).is_none() && self.let_go.recv().is_ok() {}
        self.batches.push_front(oldest);
        // With all threads gone nobody is left to hold it.
        Arc::get_mut(&mut self.batches[0]).expect("every sink has let go of it")
    }

    /// Hands the batch that was free to every sink; false when one has failed, and all is over.
    pub(super) fn hand_out(&mut self) -> bool {
        let batch = self.batches.pop_front().expect("batches go round");
        self.batches.push_back(batch.clone());
        self.gone = !self.queues.iter().all(|queue| queue.send(batch.clone()).is_ok());
        !self.gone
    }

    /// Waits until everything handed out is written; how long the slowest sink took.
    ///
    /// # Errors
    /// What went wrong in the first sink, in their order, that failed.
    pub(super) fn finish(self) -> Result<Duration> {
        drop(self.queues);
        let ends: Vec<_> = self.threads.into_iter().map(|t| t.join()).collect();
        let mut longest = Duration::ZERO;
        for end in ends {
            longest = longest.max(end.unwrap_or_else(|panic| resume_unwind(panic))?);
        }
        match self.gone {
            false => Ok(longest),
            true => Err(Error::Other("a sink ended without a word".into())),
        }
    }
}

/// Writes batches until there are no more; how long that took without the waiting.
fn write_all(
    sink: &mut dyn Sink,
    // Dropped after the queue and what is still in it.
    farewell: Farewell,
    queued: Receiver<Arc<ClustersBuf>>,
) -> Result<Duration> {
    let mut busy = Duration::ZERO;
    while let Ok(batch) = queued.recv() {
        let start = Instant::now();
        sink.write(&batch.view())?;
        busy += start.elapsed();
        drop(batch);
        // The caller may have ended.
        let _ = farewell.0.send(());
    }
    Ok(busy)
}
