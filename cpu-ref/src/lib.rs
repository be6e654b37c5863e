//! The photon finder on the CPU.
#![deny(missing_docs, unsafe_op_in_unsafe_fn)]

pub mod simd;
