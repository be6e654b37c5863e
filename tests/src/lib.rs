//! The conformance suite of the photon finder, for any backend.
//!
//! A stranger's backend runs it on itself: [`suite::run`] compares it with the oracle and with the golden data,
//! to the bit, and returns a [`suite::Report`].
//!
//! ```no_run
//! use scheidegg_conformance::suite::{self, Options};
//! # use scheidegg_cpu::OracleBackend as MyBackend;
//!
//! let report = suite::run(&MyBackend::default(), &Options::default());
//! report.assert();
//! ```
//!
//! Environment of [`suite::Options::default`]: `SCHEIDEGG_SEED` for other synthetic data, `SCHEIDEGG_ONLY` for the
//! checks whose name holds a text, `SCHEIDEGG_REQUIRE=name,name` for backends whose absence is a failure and no skip.
//! `SCHEIDEGG_WATCHDOG` says how many seconds a check may take ([`watchdog`]).
#![deny(missing_docs, unsafe_code)]

pub mod case;
pub mod golden;
pub mod npy;
pub mod suite;
pub mod synth;
pub mod watchdog;
