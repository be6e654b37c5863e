//! The way of a frame: from a [`Source`] through a [`Finder`] to [`Sink`]s.
//!
//! A thread of its own reads into buffers that the finder chose; the caller's thread submits them, collects what is
//! done and hands it to the sinks, each of which writes in a thread of its own. The buffers go round: memory is bounded
//! by their number, however long the run.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread;
use std::time::{Duration, Instant};

use scheidegg_finder::{Error, Finder, FrameBuf, FrameOwner, Result, Statistics, Ticket};

use crate::io::{Health, Sink, Source};

mod chain;
mod writers;
pub use chain::Chain;
use writers::Writers;

/// How far a run is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Frames done.
    pub frames: u64,
    /// Frames that there will be, if that is known.
    pub total: Option<u64>,
    /// Clusters found in them; 0 while a pedestal is trained.
    pub clusters: u64,
    /// Time since the start.
    pub elapsed: Duration,
}

/// What came of a training.
#[derive(Clone, Debug)]
pub struct Trained {
    /// Dark frames taken.
    pub frames: u64,
    /// What was amiss with them.
    pub health: Health,
    /// How long it took, in seconds.
    pub seconds: f64,
}

/// How long the stages of a run worked, in seconds, without what they waited for each other. They work side by side:
/// the run took about as long as the one that worked longest.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Stages {
    /// Reading frames.
    pub reading: f64,
    /// Finding clusters, with handing frames over and results back.
    pub finding: f64,
    /// Writing, of the slowest sink, with completing the output at the end.
    pub writing: f64,
}

/// What came of a run.
#[derive(Clone, Debug)]
pub struct Summary {
    /// Frames judged.
    pub frames: u64,
    /// Number of the first frame judged.
    pub first_frame: Option<u64>,
    /// Number of the last frame judged: the output is complete up to and with this one.
    pub last_frame: Option<u64>,
    /// Whether the stop flag ended the run before the input did.
    pub stopped: bool,
    /// Clusters found.
    pub clusters: u64,
    /// What was amiss with the frames.
    pub health: Health,
    /// What the finder counted since it was built.
    pub statistics: Statistics,
    /// From the first read to the last sink's end, in seconds.
    pub seconds: f64,
    /// Where the time went.
    pub stages: Stages,
}

impl Summary {
    /// Frames a second.
    pub fn rate(&self) -> f64 {
        if self.seconds > 0.0 { self.frames as f64 / self.seconds } else { 0.0 }
    }

    /// Clusters a frame, 0 without frames.
    pub fn clusters_per_frame(&self) -> f64 {
        if self.frames > 0 { self.clusters as f64 / self.frames as f64 } else { 0.0 }
    }
}

type Listener<'a> = Option<Box<dyn FnMut(&Progress) + 'a>>;

/// A run of a finder over sources and sinks.
///
/// ```no_run
/// # use scheidegg::{Finder, io::{Sink, Source}, pipeline::Run};
/// # fn f(finder: &mut dyn Finder, dark: &mut dyn Source, data: &mut dyn Source, out: &mut dyn Sink)
/// # -> scheidegg::Result<()> {
/// let mut run = Run::new(finder);
/// run.train(dark)?;
/// let summary = run.first(6).frames(1000).find(data, &mut [out])?;
/// # Ok(()) }
/// ```
pub struct Run<'a> {
    finder: &'a mut dyn Finder,
    stop: Arc<AtomicBool>,
    progress: Listener<'a>,
    first: u64,
    frames: Option<u64>,
    fewer_darks: bool,
}

impl<'a> Run<'a> {
    /// A run over all frames that nothing stops.
    pub fn new(finder: &'a mut dyn Finder) -> Self {
        Run { finder, stop: Arc::default(), progress: None, first: 0, frames: None, fewer_darks: false }
    }

    /// Ends the run early when the flag becomes true: nothing more is read, what was read is finished, and the sinks
    /// are completed.
    pub fn stop_flag(mut self, stop: Arc<AtomicBool>) -> Self {
        self.stop = stop;
        self
    }

    /// Calls `progress` after every batch, on the caller's thread.
    pub fn on_progress(mut self, progress: impl FnMut(&Progress) + 'a) -> Self {
        self.progress = Some(Box::new(progress));
        self
    }

    /// Leaves out the first `first` frames of the next source.
    pub fn first(&mut self, first: u64) -> &mut Self {
        self.first = first;
        self
    }

    /// Takes at most `frames` frames of the next source.
    pub fn frames(&mut self, frames: impl Into<Option<u64>>) -> &mut Self {
        self.frames = frames.into();
        self
    }

    /// Whether training may end with fewer dark frames than
    /// [`Params::pedestal_samples`](scheidegg_finder::Params::pedestal_samples), at least 2: the pedestal's window is then
    /// as many. Without this they are too few.
    pub fn fewer_darks(&mut self, fewer: bool) -> &mut Self {
        self.fewer_darks = fewer;
        self
    }

    /// Trains the pedestal with the frames of `darks`: those up to
    /// [`Params::pedestal_samples`](scheidegg_finder::Params::pedestal_samples) train it, later ones update it.
    ///
    /// # Errors
    /// [`Error::File`] naming the source when it has too few frames, [`Error::Stopped`], and whatever goes wrong on
    /// the way.
    pub fn train(&mut self, darks: &mut dyn Source) -> Result<Trained> {
        let start = Instant::now();
        Error::check_shape(&darks.name(), self.finder.shape(), darks.shape())?;
        let need = self.finder.params().pedestal_samples;
        let (name, total) = (darks.name(), self.total(darks));
        let reader = Reader::new(self, darks)?;
        let mut frames = 0;
        let (finder, progress) = (&mut *self.finder, &mut self.progress);
        reader.run(&self.stop, |full, free| {
            for buffer in full {
                let buffer = buffer?;
                finder.train(buffer.frames())?;
                frames += buffer.len() as u64;
                report(progress, Progress { frames, total, clusters: 0, elapsed: start.elapsed() });
                // The reader may have ended.
                let _ = free.send(buffer);
            }
            Ok(())
        })?;
        if self.stop.load(Ordering::Relaxed) {
            return Err(Error::Stopped);
        }
        if frames < need {
            if frames < 2 || !self.fewer_darks {
                return Err(Error::file(name, too_few(frames, need)));
            }
            self.finder.finish_training()?;
        }
        Ok(Trained { frames, health: darks.health(), seconds: start.elapsed().as_secs_f64() })
    }

    /// Finds the clusters of the frames of `source` and hands them to every sink, in order; then completes the
    /// sinks.
    ///
    /// # Errors
    /// The first thing that goes wrong in the source, the finder or a sink. The sinks are then not completed, so
    /// that no output stands under its final name.
    pub fn find(&mut self, source: &mut dyn Source, sinks: &mut [&mut dyn Sink]) -> Result<Summary> {
        let start = Instant::now();
        Error::check_shape(&source.name(), self.finder.shape(), source.shape())?;
        let total = self.total(source);
        let reader = Reader::new(self, source)?;
        let (finder, progress) = (&mut *self.finder, &mut self.progress);
        let slots = finder.slots().max(1);
        let (found, mut stages) = thread::scope(|scope| {
            let mut state = Collecting {
                writers: Writers::new(scope, finder, sinks),
                flight: VecDeque::new(),
                held: Vec::new(),
                size: reader.size,
                // With those that the reader has, two more than slots.
                more: slots,
                found: Found {
                    seen: Progress { frames: 0, total, clusters: 0, elapsed: Duration::ZERO },
                    first: None,
                    last: None,
                },
                finding: Duration::ZERO,
                start,
            };
            let outcome = reader.run(&self.stop, |full, free| {
                let outcome = state.stream(finder, progress, &full, &free);
                // After an error what is in flight is waited for, so that the finder can be used again.
                for (ticket, _) in state.flight.drain(..) {
                    let _ = finder.collect(ticket);
                }
                outcome
            });
            let written = state.writers.finish();
            let ((), reading) = outcome?;
            let [reading, finding, writing] = [reading, state.finding, written?].map(|d| d.as_secs_f64());
            Ok::<_, Error>((state.found, Stages { reading, finding, writing }))
        })?;
        let Found { seen, first, last } = found;
        let ending = Instant::now();
        for sink in sinks.iter_mut() {
            sink.finish()?;
        }
        stages.writing += ending.elapsed().as_secs_f64();
        let stopped = self.stop.load(Ordering::Relaxed) && total != Some(seen.frames);
        let mut health = source.health();
        if let Some(asked) = self.frames
            && !stopped
            && seen.frames < asked
        {
            let name = source.name();
            health.warnings.push(format!("{name}: {asked} frames were asked for, it has {}", seen.frames));
        }
        Ok(Summary {
            frames: seen.frames,
            first_frame: first,
            last_frame: last,
            stopped,
            clusters: seen.clusters,
            health,
            statistics: self.finder.statistics(),
            seconds: start.elapsed().as_secs_f64(),
            stages,
        })
    }

    /// Frames that the source will give, if that is known.
    fn total(&self, source: &dyn Source) -> Option<u64> {
        let left = source.remaining()?.saturating_sub(self.first);
        Some(self.frames.map_or(left, |n| n.min(left)))
    }
}

/// What is said of fewer dark frames than the pedestal's window needs.
fn too_few(frames: u64, need: u64) -> String {
    let has = match frames {
        0 => "no dark frames".to_string(),
        1 => "1 dark frame".to_string(),
        n => format!("{n} dark frames"),
    };
    let way = match frames {
        0 | 1 => "give at least 2".to_string(),
        n => format!("give more, or a window of {n}"),
    };
    format!("{has}, the pedestal needs {need} ({way})")
}

fn report(progress: &mut Listener<'_>, now: Progress) {
    if let Some(f) = progress {
        f(&now);
    }
}

type Full = Receiver<Result<Arc<FrameBuf>>>;
type Free = Sender<Arc<FrameBuf>>;

/// The caller's side of a run.
struct Collecting<'s> {
    writers: Writers<'s>,
    flight: VecDeque<(Ticket, Arc<FrameBuf>)>,
    /// Buffers of collected batches that the finder has not let go of yet.
    held: Vec<Arc<FrameBuf>>,
    /// Frames of a buffer, and buffers that are still to be made: page-locked ones take their time, which passes while
    /// the first ones are read and worked on.
    size: usize,
    more: usize,
    found: Found,
    finding: Duration,
    start: Instant,
}

/// What was found so far, and the numbers of the first and the last frame.
struct Found {
    seen: Progress,
    first: Option<u64>,
    last: Option<u64>,
}

impl Collecting<'_> {
    /// Until the frames end or a sink has failed.
    fn stream(
        &mut self,
        finder: &mut dyn Finder,
        progress: &mut Listener<'_>,
        full: &Full,
        free: &Free,
    ) -> Result<()> {
        let slots = finder.slots().max(1);
        loop {
            // As long as a slot is free and a buffer is full, submit; else collect; with nothing in flight, wait.
            let next = if self.flight.len() >= slots {
                None
            } else if self.flight.is_empty() {
                match full.recv() {
                    Ok(buffer) => Some(buffer?),
                    Err(_) => return Ok(()),
                }
            } else {
                match full.try_recv() {
                    Ok(buffer) => Some(buffer?),
                    Err(TryRecvError::Empty | TryRecvError::Disconnected) => None,
                }
            };
            match next {
                Some(buffer) => {
                    let start = Instant::now();
                    let ticket = finder.submit_shared(buffer.clone())?;
                    self.finding += start.elapsed();
                    self.flight.push_back((ticket, buffer));
                    self.make_one_more(finder, free);
                }
                None if self.collect(finder, progress)? => {}
                None => return Ok(()),
            }
            self.give_back(free)?;
        }
    }

    /// Hands the oldest batch in flight to the sinks; false when one of them has failed.
    fn collect(&mut self, finder: &mut dyn Finder, progress: &mut Listener<'_>) -> Result<bool> {
        let Some((ticket, buffer)) = self.flight.pop_front() else { return Ok(true) };
        let into = self.writers.free();
        let start = Instant::now();
        finder.collect_into(ticket, into)?;
        self.finding += start.elapsed();
        let batch = into.view();
        let Found { seen, first, last } = &mut self.found;
        *first = first.or(batch.numbers().first().copied());
        *last = batch.numbers().last().copied().or(*last);
        seen.frames += batch.frames() as u64;
        seen.clusters += batch.len() as u64;
        seen.elapsed = self.start.elapsed();
        report(progress, *seen);
        self.held.push(buffer);
        Ok(self.writers.hand_out())
    }

    /// Makes a buffer for the reader, if one is missing. Where there is no memory for it, those that are there will do.
    fn make_one_more(&mut self, finder: &dyn Finder, free: &Free) {
        if self.more > 0 {
            self.more -= 1;
            match finder.frame_buffer(self.size) {
                // The reader may have ended.
                Ok(buffer) => drop(free.send(Arc::new(buffer))),
                Err(e) => {
                    tracing::debug!("no further buffer for frames: {e}");
                    self.more = 0;
                }
            }
        }
    }

    /// Returns the buffers that nobody reads any more to the reader.
    fn give_back(&mut self, free: &Free) -> Result<()> {
        let mut i = 0;
        while i < self.held.len() {
            if Arc::get_mut(&mut self.held[i]).is_some() {
                // The reader may have ended.
                let _ = free.send(self.held.swap_remove(i));
            } else {
                i += 1;
            }
        }
        // Two buffers more than may be in flight go round: with two held beside those the reader would starve.
        if self.held.len() >= 2 {
            return Err(Error::Other("the backend keeps frames of batches that were collected".into()));
        }
        Ok(())
    }
}

/// The reader's side of a run.
struct Reader<'s> {
    source: &'s mut dyn Source,
    skip: u64,
    limit: Option<u64>,
    /// Frames of a buffer.
    size: usize,
    buffers: Vec<Arc<FrameBuf>>,
    /// A shorter buffer for the end of a limited run, so that no frame beyond it is read.
    tail: Option<Arc<FrameBuf>>,
}

impl<'s> Reader<'s> {
    /// With two buffers: one is filled while the other one is worked on.
    fn new(run: &Run<'_>, source: &'s mut dyn Source) -> Result<Self> {
        let finder = &run.finder;
        let size = finder.batch_frames().clamp(1, finder.max_batch_frames().max(1)) as u64;
        let size = run.total(source).map_or(size, |n| size.min(n.max(1)));
        let buffer = |frames: u64| finder.frame_buffer(frames as usize).map(Arc::new);
        let tail = match run.frames.map_or(0, |n| n % size) {
            0 => None,
            rest => Some(buffer(rest)?),
        };
        let buffers = (0..2).map(|_| buffer(size)).collect::<Result<_>>()?;
        Ok(Reader { source, skip: run.first, limit: run.frames, size: size as usize, buffers, tail })
    }

    /// Reads in a thread of its own while `work` takes full buffers and gives them back; what came of the work, and how
    /// long reading took without the waiting.
    fn run<T>(self, stop: &AtomicBool, work: impl FnOnce(Full, Free) -> Result<T>) -> Result<(T, Duration)> {
        let Reader { source, skip, limit, buffers, tail, .. } = self;
        let (full_in, full) = channel();
        let (free, free_out) = channel();
        for buffer in buffers {
            free.send(buffer).expect("the other end is here");
        }
        thread::scope(|scope| {
            let reading = scope.spawn(move || {
                let name = source.name();
                let mut busy = Duration::ZERO;
                let outcome = catch_unwind(AssertUnwindSafe(|| {
                    read_all(source, (skip, limit), stop, free_out, tail, &full_in, &mut busy)
                }));
                let error = match outcome {
                    Ok(Ok(())) => return busy,
                    Ok(Err(e)) => e,
                    Err(_) => Error::Other(format!("{name}: internal error while reading")),
                };
                // Nobody listens when the other side ended first.
                let _ = full_in.send(Err(error));
                busy
            });
            let done = work(full, free)?;
            Ok((done, reading.join().unwrap_or_else(|panic| resume_unwind(panic))))
        })
    }
}

fn read_all(
    source: &mut dyn Source,
    (skip, limit): (u64, Option<u64>),
    stop: &AtomicBool,
    free: Receiver<Arc<FrameBuf>>,
    mut tail: Option<Arc<FrameBuf>>,
    full: &Sender<Result<Arc<FrameBuf>>>,
    busy: &mut Duration,
) -> Result<()> {
    if skip > 0 {
        let there = source.skip(skip)?;
        if there < skip {
            let what =
                format!("{there} frames, the first one asked for is {skip} (ask for --first 0 to {there})");
            return Err(Error::file(source.name(), what));
        }
    }
    let mut left = limit.unwrap_or(u64::MAX);
    while left > 0 && !stop.load(Ordering::Relaxed) {
        let Ok(mut buffer) = free.recv() else { return Ok(()) };
        if left < buffer.capacity() as u64 {
            buffer = tail.take().expect("a tail for what a limit leaves");
        }
        let into = Arc::get_mut(&mut buffer).expect("nobody else has a free buffer");
        into.clear();
        let start = Instant::now();
        let got = source.read(into)?;
        *busy += start.elapsed();
        if got == 0 {
            return Ok(());
        }
        left -= got as u64;
        if full.send(Ok(buffer)).is_err() {
            return Ok(());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
