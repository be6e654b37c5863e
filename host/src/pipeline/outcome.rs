//! What comes of a training and of a run.

use std::time::Duration;

use scheidegg_finder::{Error, Statistics};

use crate::io::{Health, Written};
use crate::provenance::{Ending, How, Input, Provenance};

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
    /// The files that they came from.
    pub inputs: Vec<Input>,
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

/// Why a run ended.
#[derive(Debug)]
pub enum Ended {
    /// All frames that were asked for, or that there are, were judged.
    Complete,
    /// The stop flag was set before that.
    Stopped,
    /// The source could not give the next frame.
    SourceFault(Error),
    /// The finder could not judge the next frames.
    FinderFault(Error),
    /// No sink was left that takes clusters.
    NoSinkLeft,
}

/// What became of a sink.
#[derive(Debug)]
pub struct SinkEnd {
    /// The sink's name.
    pub name: String,
    /// Where its output stands, if it stands anywhere.
    pub written: Option<Written>,
    /// What went wrong, if something did. The output, where there is one all the same, then ends before the other ones.
    pub error: Option<Error>,
}

/// What came of a run. The outputs are complete up to and with the last frame, whatever ended it; those of sinks that
/// failed end before.
#[derive(Debug)]
pub struct Summary {
    /// Frames judged.
    pub frames: u64,
    /// Number of the first frame judged.
    pub first_frame: Option<u64>,
    /// Number of the last frame judged.
    pub last_frame: Option<u64>,
    /// Why the run ended there.
    pub ended: Ended,
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
    /// What became of every sink, in their order.
    pub sinks: Vec<SinkEnd>,
    /// What was written into the outputs of all sinks that did not fail.
    pub provenance: Provenance,
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

    /// Whether the stop flag ended the run.
    pub fn stopped(&self) -> bool {
        matches!(self.ended, Ended::Stopped)
    }

    /// Everything that went wrong: in the source or the finder, then in the sinks in their order.
    pub fn faults(&self) -> impl Iterator<Item = &Error> {
        self.ended.fault().into_iter().chain(self.sinks.iter().filter_map(|s| s.error.as_ref()))
    }

    /// The first thing that went wrong, for a caller to whom the rest is of no use without it.
    ///
    /// # Errors
    /// The first of [`Summary::faults`].
    pub fn check(self) -> Result<Summary, Error> {
        let Summary { ended, sinks, .. } = self;
        let ended = match ended {
            Ended::SourceFault(e) | Ended::FinderFault(e) => return Err(e),
            other => other,
        };
        let mut kept = Vec::with_capacity(sinks.len());
        for sink in sinks {
            match sink.error {
                Some(e) => return Err(e),
                None => kept.push(sink),
            }
        }
        Ok(Summary { ended, sinks: kept, ..self })
    }
}

impl Ended {
    /// What went wrong in the source or the finder.
    pub fn fault(&self) -> Option<&Error> {
        match self {
            Ended::SourceFault(e) | Ended::FinderFault(e) => Some(e),
            Ended::Complete | Ended::Stopped | Ended::NoSinkLeft => None,
        }
    }
}

impl From<&Ended> for Ending {
    fn from(ended: &Ended) -> Self {
        let how = match ended {
            Ended::Complete => How::Complete,
            Ended::Stopped => How::Stopped,
            Ended::SourceFault(_) | Ended::FinderFault(_) => How::Fault,
            Ended::NoSinkLeft => How::NotWritten,
        };
        Ending { how, why: ended.fault().map(Error::to_string) }
    }
}
