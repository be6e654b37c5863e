//! The reader's side of a run: a source in a thread of its own.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use scheidegg_finder::{Error, FrameBuf, Result};

use super::Run;
use crate::io::{Source, skip_while};

pub(super) type Full = Receiver<Arc<FrameBuf>>;
pub(super) type Free = Sender<Arc<FrameBuf>>;

/// A source, and the buffers that its frames go round in.
pub(super) struct Reader<'s> {
    source: &'s mut dyn Source,
    skip: u64,
    limit: Option<u64>,
    /// Frames of a buffer.
    pub size: usize,
    buffers: Vec<Arc<FrameBuf>>,
}

/// What came of reading.
pub(super) struct Read {
    pub end: End,
    /// How long reading took, without the waiting.
    pub busy: Duration,
}

/// Why nothing more is read.
pub(super) enum End {
    /// There is nothing more to be read, or nobody who wants it.
    Done,
    /// The stop flag was set before that.
    Stopped,
    /// The next frame cannot be read.
    Fault(Error),
}

impl<'s> Reader<'s> {
    /// With two buffers: one is filled while the other one is worked on.
    pub fn new(run: &Run<'_>, source: &'s mut dyn Source) -> Result<Self> {
        let finder = &run.finder;
        let size = finder.batch_frames().clamp(1, finder.max_batch_frames().max(1)) as u64;
        let size = run.total(source).map_or(size, |n| size.min(n.max(1))) as usize;
        let buffers = (0..2).map(|_| finder.frame_buffer(size).map(Arc::new)).collect::<Result<_>>()?;
        Ok(Reader { source, skip: run.first, limit: run.frames, size, buffers })
    }

    /// Reads in a thread of its own while `work` takes full buffers and gives them back; what came of both.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub fn run<T>(self, stop: &AtomicBool, work: impl FnOnce(Full, Free) -> T) -> Result<(T, Read)> {
        let Reader { source, skip, limit, buffers, .. } = self;
        let (full_in, full) = channel();
        let (free, free_out) = channel();
        for buffer in buffers {
            free.send(buffer).expect("the other end is here");
        }
        thread::scope(|scope| {
            let reading = spawn(scope, "reader", move || {
                let name = source.name();
                let mut busy = Duration::ZERO;
                let end = guarded(&name, || {
                    read_all(source, &name, (skip, limit), stop, (free_out, full_in), &mut busy)
                });
                Read { end: end.unwrap_or_else(End::Fault), busy }
            })?;
            let done = work(full, free);
            Ok((done, reading.join().unwrap_or_else(|panic| resume_unwind(panic))))
        })
    }
}

/// A thread of a scope.
///
/// # Errors
/// When the system gives none.
pub(super) fn spawn<'scope, 'env, T: Send + 'scope>(
    scope: &'scope thread::Scope<'scope, 'env>,
    name: &str,
    work: impl FnOnce() -> T + Send + 'scope,
) -> Result<thread::ScopedJoinHandle<'scope, T>> {
    thread::Builder::new()
        .name(name.into())
        .spawn_scoped(scope, work)
        .map_err(|e| Error::Other(format!("the system gives no further thread: {e}")))
}

fn read_all(
    source: &mut dyn Source,
    name: &str,
    (skip, limit): (u64, Option<u64>),
    stop: &AtomicBool,
    (free, full): (Receiver<Arc<FrameBuf>>, Sender<Arc<FrameBuf>>),
    busy: &mut Duration,
) -> Result<End> {
    if !skip_while(source, skip, || !stop.load(Ordering::Relaxed))? {
        return Ok(End::Stopped);
    }
    let mut left = limit.unwrap_or(u64::MAX);
    while left > 0 {
        // Who is stopped after the last frame has missed nothing.
        if stop.load(Ordering::Relaxed) && source.remaining() != Some(0) {
            return Ok(End::Stopped);
        }
        let Ok(mut buffer) = free.recv() else { break };
        let into = Arc::get_mut(&mut buffer).expect("nobody else has a free buffer");
        into.clear();
        into.limit(usize::try_from(left).unwrap_or(usize::MAX));
        let start = Instant::now();
        let outcome = catch_unwind(AssertUnwindSafe(|| source.read(into)));
        *busy += start.elapsed();
        // Frames before an error are whole; of those before a panic nothing is known.
        let outcome = outcome.unwrap_or_else(|_| {
            into.clear();
            Err(panicked(name))
        });
        let got = into.len() as u64;
        left -= got;
        if got > 0 && full.send(buffer).is_err() {
            break;
        }
        outcome?;
        if got == 0 {
            break;
        }
    }
    Ok(End::Done)
}

/// A panic in a source ends the run with an error and leaves the caller's process alone.
fn guarded<T>(name: &str, work: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| Err(panicked(name)))
}

fn panicked(name: &str) -> Error {
    Error::Other(format!("{name}: internal error while reading"))
}
