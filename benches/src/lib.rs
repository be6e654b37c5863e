//! Benchmarks of the photon finder and what they share.
#![deny(missing_docs, unsafe_op_in_unsafe_fn)]

pub mod gpu;
