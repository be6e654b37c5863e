//! The arithmetic of the photon finder (SPEC 2 and 3), written once and generic over the pedestal
//! precision `P` and the compute precision `C`.
//!
//! The crate is `no_std` and has no dependencies, so that the same source runs on the host (the fast CPU
//! finder, the pedestal's training) and on the GPU ([`device`], and compiled in `ptx`). The oracle in `scheidegg-cpu` does *not* use it: its
//! arithmetic is written again, so that a mistake made here cannot hide.
#![no_std]
#![deny(missing_docs, unsafe_op_in_unsafe_fn)]

pub mod device;
pub mod physics;
// Not for the kernels themselves: it is made of them.
#[cfg(not(target_arch = "nvptx64"))]
pub mod ptx;
pub mod real;

pub use physics::{Branch, Decision, Tests};
pub use real::{Convert, Real};
