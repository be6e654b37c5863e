//! Measurements of the photon finder: the ladder of optimizations, the probes of the GPU's engines, the studies of
//! precision and of timing, and the report that tells what they say.
//!
//! The program is `scheidegg-bench`. Every number that it measures goes into a CSV file of a run's folder, and every
//! number of the report names the file, line and column that it came from.
#![deny(missing_docs, unsafe_op_in_unsafe_fn)]

pub mod backends;
pub mod campaign;
pub mod gpu;
pub mod harness;
pub mod ladder;
pub mod probes;
pub mod report;
pub mod sass;
pub mod scene;
pub mod study;
