//! The kernels of the GPU as one generic source, and what the host must know to launch them.
//!
//! The same functions run on the GPU (`kernels-rs/entry` makes entries of them) and on the CPU (the backend
//! `sim`): [`block::Block`] is all that differs.

pub mod abi;
pub mod block;
mod frame;
mod gather;
mod pixels;
mod resident;
mod rule;
mod store;
mod tiling;
mod unroll;

pub use frame::frame;
pub use gather::{copy, offsets, place, scan};
pub use resident::resident;
pub use rule::{Any, Rule, Seen, Square};
pub use store::half_bits;
pub use tiling::{STRIP, Tiling, Window, suggested_frames};
