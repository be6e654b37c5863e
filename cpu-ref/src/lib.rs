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

/// The most threads that a backend takes. Beyond the processors of a machine threads only wait for each other, and each
/// takes memory that the system may not have.
pub const MOST_THREADS: usize = 1024;

/// A number of threads that can be.
fn within(threads: usize) -> scheidegg_finder::Result<usize> {
    match threads {
        1..=MOST_THREADS => Ok(threads),
        _ => Err(scheidegg_finder::Error::param(
            "threads",
            threads,
            format!("1 to {MOST_THREADS}; those beyond the processors only wait for each other"),
        )),
    }
}
