//! scheidegg finds photons in frames of charge-integrating X-ray pixel detectors.
//!
//! This crate is what a program embeds: the registry of backends, the pipeline from a [`Source`](io::Source)
//! of frames through a [`Finder`] to [`Sink`](io::Sink)s of clusters, and the files that detectors and their
//! users have. The vocabulary comes from `scheidegg-finder` and is here again under one name.
#![deny(missing_docs, unsafe_op_in_unsafe_fn)]

pub use scheidegg_cpu::{CpuBackend, MOST_THREADS, OracleBackend};
pub use scheidegg_finder::*;

pub mod cuda;
pub mod io;
pub mod pipeline;
pub mod provenance;
mod registry;
pub mod sim;
#[cfg(test)]
mod testing;
pub mod truth;
pub mod watch;

pub use registry::{AUTO, Choice, Registry};

/// The examples of the repository's README are compiled with the tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
