//! The photon finder on the CPU.
//!
//! [`oracle`] is [SPEC](scheidegg_finder::spec) in its plainest words: the judge of every other backend. [`simd`]
//! is its fast sister, the
//! default on a CPU, and returns the same bytes.
#![deny(missing_docs, unsafe_op_in_unsafe_fn)]

pub mod oracle;
pub mod simd;

pub use oracle::OracleBackend;
pub use simd::CpuBackend;
