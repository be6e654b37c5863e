//! The conformance suite of the photon finder, for any backend.
//!
//! A stranger's backend runs it on itself: [`suite::run`] compares it with the oracle and with the golden data,
//! to the bit, and returns a [`suite::Report`].
#![deny(missing_docs, unsafe_code)]

pub mod case;
pub mod golden;
pub mod npy;
pub mod suite;
pub mod synth;
