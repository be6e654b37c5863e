//! What can go wrong, said so that a detector scientist knows what to do.

use std::path::PathBuf;

use crate::frames::Shape;
use crate::tickets::Ticket;

/// The result of everything that can fail here.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error of the finder, its backends, its sources and sinks.
///
/// Every message names the thing, what was found, what was expected and, where there is one, the way out.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Frames, a mask or a pedestal of another shape than the finder's.
    #[error("{what}: shape {got}, expected {expected}")]
    ShapeMismatch {
        /// Which thing has the wrong shape.
        what: String,
        /// The shape of the finder.
        expected: Shape,
        /// The shape that was given.
        got: Shape,
    },
    /// Data frames came before the pedestal was trained.
    #[error(
        "the pedestal has {have} dark frames and needs {need} (train it with more, or ask for {have} samples)"
    )]
    PedestalNotReady {
        /// Dark frames seen so far.
        have: u64,
        /// Dark frames needed.
        need: u64,
    },
    /// A frame has more clusters than a result can hold, even after a second try with more room.
    #[error("frame {frame}: {found} clusters, the result holds {capacity}")]
    Overflow {
        /// The frame's number.
        frame: u64,
        /// Clusters found in it.
        found: u64,
        /// Clusters that fit.
        capacity: u64,
    },
    /// A backend cannot run on this machine.
    #[error("backend {backend}: not available here: {reason}")]
    Unavailable {
        /// The backend's name.
        backend: String,
        /// Why.
        reason: String,
    },
    /// A backend is there but does not compute what was asked.
    #[error("backend {backend} does not do {what}")]
    Unsupported {
        /// The backend's name.
        backend: String,
        /// What it does not do, and who does.
        what: String,
    },
    /// A parameter outside its range.
    #[error("{name} = {found}: expected {expected}")]
    Param {
        /// The parameter as its user spells it.
        name: String,
        /// The value given.
        found: String,
        /// What is allowed.
        expected: String,
    },
    /// Something in a file is not as it must be.
    #[error("{}: {what}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What was found, what was expected and what to do.
        what: String,
    },
    /// The operating system refused a file.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's own words.
        source: std::io::Error,
    },
    /// A device, driver or library call failed.
    #[error("{backend}: {call}: {message}")]
    Device {
        /// The backend's name.
        backend: String,
        /// The call that failed.
        call: String,
        /// The error it gave.
        message: String,
    },
    /// Batches are in flight where there must be none, or as many as the finder has slots for.
    #[error("{slots} {} in flight: collect the oldest ticket first, or abandon them all (Finder::abandon)",
        if *slots == 1 { "batch is" } else { "batches are" })]
    SlotsFull {
        /// Batches in flight.
        slots: usize,
    },
    /// A ticket of another finder, or not the oldest one in flight.
    #[error("{ticket} {reason}")]
    WrongTicket {
        /// The ticket given, which is still good for whoever gave it.
        ticket: Ticket,
        /// Why it was refused and what to do.
        reason: String,
    },
    /// The user asked to stop (Ctrl-C).
    #[error("stopped by the user")]
    Stopped,
    /// Anything else, in a sentence.
    #[error("{0}")]
    Other(String),
}

impl Error {
    /// A parameter outside its range.
    pub fn param(name: impl Into<String>, found: impl ToString, expected: impl Into<String>) -> Error {
        let found = match found.to_string() {
            empty if empty.is_empty() => "nothing".into(),
            found => found,
        };
        Error::Param { name: name.into(), found, expected: expected.into() }
    }

    /// Something in a file is not as it must be.
    pub fn file(path: impl Into<PathBuf>, what: impl Into<String>) -> Error {
        Error::File { path: path.into(), what: what.into() }
    }

    /// The operating system refused a file.
    pub fn io(path: impl Into<PathBuf>, source: std::io::Error) -> Error {
        Error::Io { path: path.into(), source }
    }
}
