//! The backends that are measured, by name.

use scheidegg::{Backend, Error, Result};
use scheidegg_cpu::OracleBackend;

/// The name of the CPU backend that studies and baselines use.
pub const DEFAULT: &str = "oracle";

/// The CPU finder with a number of threads.
///
/// # Errors
/// [`Error::Param`] for a name that no CPU backend has.
pub fn cpu(name: &str, threads: usize) -> Result<Box<dyn Backend>> {
    match name {
        "oracle" => Ok(Box::new(OracleBackend::with_threads(threads))),
        other => Err(Error::param("backend", other, "cpu or oracle")),
    }
}
