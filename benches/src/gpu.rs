//! What the programs that run on a GPU machine share: frames, measures of the process, statistics.
//!
//! The programs need no files: they make their frames themselves, the same for a seed on every machine.

pub mod equal;
pub mod frames;
pub mod process;

pub use crate::harness::stats::Spread;
