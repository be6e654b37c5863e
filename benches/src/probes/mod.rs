//! What each engine of the GPU did and when: the probes behind the ladder's numbers.
//!
//! Profiling slows the wall clock, so a probe is a run of its own; its intervals tell who was busy, never how fast a
//! step is.

pub mod cupti;
pub mod engines;
pub mod step;
pub mod wire;
