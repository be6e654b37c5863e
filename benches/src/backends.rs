//! The backends that are measured, by name.

use scheidegg::cuda::CudaBackend;
use scheidegg::{Backend, Error, Result};
use scheidegg_cpu::OracleBackend;
use scheidegg_cpu::simd::CpuBackend;

/// The name of the CPU backend that studies and baselines use.
pub const DEFAULT: &str = "cpu";

/// The CPU finder with a number of threads.
///
/// # Errors
/// [`Error::Param`] for a name that no CPU backend has.
pub fn cpu(name: &str, threads: usize) -> Result<Box<dyn Backend>> {
    match name {
        "cpu" => Ok(Box::new(CpuBackend::new().threads(threads)?)),
        "oracle" => Ok(Box::new(OracleBackend::with_threads(threads)?)),
        other => Err(Error::param("backend", other, "cpu or oracle")),
    }
}

/// The library's GPU backend.
pub fn gpu() -> Box<dyn Backend> {
    Box::new(CudaBackend::default())
}
