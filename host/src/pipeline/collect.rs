//! The caller's side of a run: frames to the finder, its clusters to the sinks.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use scheidegg_finder::{Clusters, Error, Finder, FrameBuf, Result, Ticket};

use super::outcome::Progress;
use super::reader::{Free, Full};
use super::writers::Writers;
use super::{Listener, report};
use crate::provenance::Provenance;

/// How many frames and clusters there are so far, and the numbers of the first and the last frame.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Found {
    pub frames: u64,
    pub clusters: u64,
    pub first: Option<u64>,
    pub last: Option<u64>,
}

impl Found {
    pub fn add(&mut self, batch: &Clusters<'_>) {
        self.add_frames(batch.numbers());
        self.clusters += batch.len() as u64;
    }

    /// Adds the frames with these numbers.
    pub fn add_frames(&mut self, numbers: &[u64]) {
        self.frames += numbers.len() as u64;
        self.first = self.first.or(numbers.first().copied());
        self.last = numbers.last().copied().or(self.last);
    }

    /// Writes it down.
    pub fn tell(&self, provenance: &mut Provenance) {
        (provenance.frames, provenance.clusters) = (self.frames, self.clusters);
        (provenance.first_frame, provenance.last_frame) = (self.first, self.last);
    }
}

/// The caller's side of a run.
pub(super) struct Collecting<'s> {
    pub writers: Writers<'s>,
    pub found: Found,
    pub finding: Duration,
    flight: VecDeque<(Ticket, Arc<FrameBuf>)>,
    /// Buffers of collected batches that the finder has not let go of yet.
    held: Vec<Arc<FrameBuf>>,
    /// A batch that was submitted has failed: those after it are of no use.
    broken: bool,
    /// Frames of a buffer, and buffers that are still to be made: page-locked ones take their time, which passes while
    /// the first ones are read and worked on.
    size: usize,
    more: usize,
    total: Option<u64>,
    start: Instant,
}

/// What goes on after a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum On {
    /// There is somebody to go on for.
    Yes,
    /// No sink is left.
    No,
}

impl<'s> Collecting<'s> {
    pub fn new(writers: Writers<'s>, size: usize, slots: usize, total: Option<u64>, start: Instant) -> Self {
        Collecting {
            writers,
            found: Found::default(),
            finding: Duration::ZERO,
            flight: VecDeque::new(),
            held: Vec::new(),
            broken: false,
            size,
            // With those that the reader has, two more than slots.
            more: slots,
            total,
            start,
        }
    }

    /// Until the frames end, no sink is left or the finder fails. What it found before that is handed out then, and
    /// nothing is in flight, so that it can be used again.
    pub fn stream(
        &mut self,
        finder: &mut dyn Finder,
        progress: &mut Listener<'_>,
        full: &Full,
        free: &Free,
    ) -> Result<On> {
        let mut outcome = self.feed(finder, progress, full, free);
        // Batches before one that was refused are good, unless one of them fails itself: that is the first fault then.
        while !self.broken && !matches!(outcome, Ok(On::No)) && !self.flight.is_empty() {
            if let Err(e) = self.collect(finder, progress) {
                outcome = Err(e);
            }
        }
        self.flight.clear();
        // What it was given last may be what it fails at: its panic changes nothing.
        let _ = guarded(finder, |finder| Ok(finder.abandon()));
        outcome
    }

    fn feed(
        &mut self,
        finder: &mut dyn Finder,
        progress: &mut Listener<'_>,
        full: &Full,
        free: &Free,
    ) -> Result<On> {
        let slots = finder.slots().max(1);
        loop {
            // As long as a slot is free and a buffer is full, submit; else collect; with nothing in flight, wait.
            let next = if self.flight.len() >= slots {
                None
            } else if self.flight.is_empty() {
                match full.recv() {
                    Ok(buffer) => Some(buffer),
                    Err(_) => return Ok(On::Yes),
                }
            } else {
                full.try_recv().ok()
            };
            match next {
                Some(buffer) => {
                    let start = Instant::now();
                    let ticket = guarded(finder, |finder| finder.submit_shared(buffer.clone()))?;
                    self.finding += start.elapsed();
                    self.flight.push_back((ticket, buffer));
                    self.make_one_more(finder, free);
                }
                None if self.collect(finder, progress)? == On::Yes => {}
                None => return Ok(On::No),
            }
            self.give_back(free)?;
        }
    }

    /// Hands the oldest batch in flight to the sinks.
    fn collect(&mut self, finder: &mut dyn Finder, progress: &mut Listener<'_>) -> Result<On> {
        let Some((ticket, buffer)) = self.flight.pop_front() else { return Ok(On::Yes) };
        let into = self.writers.free();
        let start = Instant::now();
        let outcome = guarded(finder, |finder| finder.collect_into(ticket, &mut into.clusters));
        self.finding += start.elapsed();
        self.broken |= outcome.is_err();
        outcome?;
        into.note(&buffer);
        self.found.add(&into.clusters.view());
        self.held.push(buffer);
        let on = if self.writers.hand_out() { On::Yes } else { On::No };
        let Found { frames, clusters, .. } = self.found;
        report(progress, Progress { frames, total: self.total, clusters, elapsed: self.start.elapsed() });
        Ok(on)
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

/// A panic in a finder ends the run with an error and leaves what was found before.
fn guarded<T>(finder: &mut dyn Finder, work: impl FnOnce(&mut dyn Finder) -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(|| work(finder))).unwrap_or_else(|_| {
        Err(Error::Other(format!("backend {}: internal error while finding clusters", finder.backend())))
    })
}
