//! The fast finder on a CPU: [SPEC](scheidegg_finder::spec) in vectors, one algorithm for every instruction set,
//! the same bytes as the oracle.
//!
//! ```text
//! engine   lanes, threads, batches                               pool    threads that stay
//! wave     a batch cut into groups of frames and bands of rows   ledger  where records belong
//! frozen   the kernel of frozen mode                             extract stored windows to records
//! serial   the kernel of serial mode                             job     what a kernel works on
//! serial3  the same for windows of 3 x 3, in one pass over a row
//! vector   what a kernel asks of an instruction set              avx512, avx2, portable: the thin shells
//! ```
//!
//! `unsafe` lives here because vectors and rows are reached by pointers: rows of a lane's state are in the hands of
//! one frame after the other while several frames are under way.

mod aligned;
#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod backend;
mod engine;
mod extract;
mod frozen;
mod isa;
mod job;
mod lane;
mod ledger;
mod pool;
mod portable;
mod serial;
mod serial3;
mod shells;
mod vector;
mod wave;

pub use backend::CpuBackend;
pub use isa::Isa;
