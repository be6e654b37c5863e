//! The way of a frame: from a [`Source`] through a [`Finder`] to [`Sink`]s.
//!
//! A thread of its own reads into buffers that the finder chose; the caller's thread submits them, collects what is
//! done and hands it to the sinks, each of which writes in a thread of its own. The buffers go round: memory is bounded
//! by their number, however long the run.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Instant;

use scheidegg_finder::{Error, Finder, FrameOwner, Result};

use crate::io::{Sink, Source};
use crate::provenance::{Ending, How, Input, Losses, Parameters, Provenance};

mod chain;
mod collect;
mod outcome;
mod reader;
mod writers;
pub use chain::Chain;
pub use outcome::{Ended, Progress, SinkEnd, Stages, Summary, Trained};

use collect::{Collecting, Found, On};
use reader::{End, Reader};
use writers::{Fault, Writers, Wrote};

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
    provenance: Option<Provenance>,
    first: u64,
    frames: Option<u64>,
    fewer_darks: bool,
}

impl<'a> Run<'a> {
    /// A run over all frames that nothing stops.
    pub fn new(finder: &'a mut dyn Finder) -> Self {
        Run {
            finder,
            stop: Arc::default(),
            progress: None,
            provenance: None,
            first: 0,
            frames: None,
            fewer_darks: false,
        }
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

    /// What the caller knows of where the results come from: the program, its command line, dark frames, pedestal and
    /// device. The run adds the rest.
    pub fn provenance(mut self, known: Provenance) -> Self {
        self.provenance = Some(known);
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
        let (finder, progress) = (&mut *self.finder, &mut self.progress);
        let (trained, read) = reader.run(&self.stop, |full, free| {
            let mut found = Found::default();
            for buffer in full {
                finder.train(buffer.frames())?;
                found.add_frames(buffer.numbers());
                report(
                    progress,
                    Progress { frames: found.frames, total, clusters: 0, elapsed: start.elapsed() },
                );
                // The reader may have ended.
                let _ = free.send(buffer);
            }
            Ok::<_, Error>(found)
        })?;
        let found = trained?;
        let frames = found.frames;
        match read.end {
            End::Fault(e) => return Err(e),
            End::Stopped => return Err(Error::Stopped),
            End::Done if self.stop.load(Ordering::Relaxed) => return Err(Error::Stopped),
            End::Done => {}
        }
        if frames < need {
            if frames < 2 || !self.fewer_darks {
                return Err(Error::file(name, too_few(frames, need)));
            }
            self.finder.finish_training()?;
        }
        let (health, inputs) = (darks.health(), inputs(darks, "dark", &found));
        Ok(Trained { frames, health, inputs, seconds: start.elapsed().as_secs_f64() })
    }

    /// Finds the clusters of the frames of `source` and hands them to every sink, in order; then completes the sinks.
    ///
    /// A fault on the way ends the run where it is, and every sink is completed up to there; a sink that fails is left
    /// behind, and the others go on. [`Summary::ended`] and [`Summary::sinks`] say so.
    ///
    /// # Errors
    /// Whatever goes wrong before the first frame is judged. The sinks are then not completed: no output stands under its
    /// final name.
    pub fn find(&mut self, source: &mut dyn Source, sinks: &mut [&mut dyn Sink]) -> Result<Summary> {
        let start = Instant::now();
        let mut provenance = self.provenance.clone().unwrap_or_else(Provenance::begin);
        Error::check_shape(&source.name(), self.finder.shape(), source.shape())?;
        let total = self.total(source);
        let reader = Reader::new(self, source)?;
        let (finder, progress) = (&mut *self.finder, &mut self.progress);
        let (streamed, read, found, finding, wrote) = thread::scope(|scope| {
            let writers = Writers::new(scope, finder, sinks)?;
            let slots = finder.slots().max(1);
            let mut state = Collecting::new(writers, reader.size, slots, total, start);
            let (streamed, read) =
                reader.run(&self.stop, |full, free| state.stream(finder, progress, &full, &free))?;
            Ok::<_, Error>((streamed, read, state.found, state.finding, state.writers.end()))
        })?;
        let ended = match (streamed, read.end) {
            (Err(e), _) => Ended::FinderFault(e),
            (Ok(On::No), _) => Ended::NoSinkLeft,
            (_, End::Fault(e)) => Ended::SourceFault(e),
            (_, End::Stopped) => Ended::Stopped,
            (_, End::Done) => Ended::Complete,
        };
        let ended = match ended {
            Ended::SourceFault(e) | Ended::FinderFault(e) if found.frames == 0 => return Err(e),
            ended => ended,
        };
        let mut health = source.health();
        if let Some(asked) = self.frames
            && matches!(ended, Ended::Complete)
            && found.frames < asked
        {
            let name = source.name();
            health.warnings.push(format!("{name}: {asked} frames were asked for, it has {}", found.frames));
        }
        provenance.seconds = start.elapsed().as_secs_f64();
        provenance.inputs.extend(inputs(source, "data", &found));
        provenance.parameters = Some(Parameters::from(self.finder.params()));
        if provenance.backend.name.is_empty() {
            provenance.backend.name = self.finder.backend().into();
        }
        provenance.losses = Losses::from(&health);
        found.tell(&mut provenance);
        provenance.ended = Ending::from(&ended);

        let ending = Instant::now();
        let busy = wrote.iter().map(|w| w.busy).max().unwrap_or_default();
        let finished = sinks.iter_mut().zip(wrote);
        let sinks = finished.map(|(sink, wrote)| finish(*sink, wrote, &provenance)).collect();
        let writing = busy + ending.elapsed();
        let [reading, finding, writing] = [read.busy, finding, writing].map(|d| d.as_secs_f64());
        Ok(Summary {
            frames: found.frames,
            first_frame: found.first,
            last_frame: found.last,
            ended,
            clusters: found.clusters,
            health,
            statistics: self.finder.statistics(),
            seconds: start.elapsed().as_secs_f64(),
            stages: Stages { reading, finding, writing },
            sinks,
            provenance,
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

/// Completes a sink; one that has failed with what it took before, if it can.
fn finish(sink: &mut dyn Sink, wrote: Wrote, whole: &Provenance) -> SinkEnd {
    let name = sink.name();
    let (written, error) = match wrote.fault {
        None => match writers::finish(sink, whole) {
            Ok(written) => (Some(written), None),
            Err(e) => (None, Some(e)),
        },
        Some(Fault::Error(e)) => {
            let mut part = whole.clone();
            wrote.found.tell(&mut part);
            part.ended = Ending { how: How::NotWritten, why: Some(e.to_string()) };
            (writers::finish(sink, &part).ok(), Some(e))
        }
        Some(Fault::Panic(e)) => (None, Some(e)),
    };
    SinkEnd { name, written, error }
}

/// The files that the frames that were taken come from.
fn inputs(source: &dyn Source, role: &str, found: &Found) -> Vec<Input> {
    let mut parts = source.inputs();
    if parts.is_empty() {
        let (first_frame, last_frame) = (found.first, found.last);
        let frames = Some(found.frames);
        return vec![Input { role: role.into(), path: source.name(), frames, first_frame, last_frame }];
    }
    // More may have been read than was taken.
    let mut left = found.frames;
    parts.retain_mut(|part| {
        let frames = part.frames.unwrap_or(0).min(left);
        if frames > 0 && frames == left {
            part.last_frame = found.last;
        }
        (part.frames, left) = (Some(frames), left - frames);
        part.role = role.into();
        frames > 0
    });
    parts
}

#[cfg(test)]
mod model_tests;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod told_tests;
