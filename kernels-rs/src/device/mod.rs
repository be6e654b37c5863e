//! The kernels of the GPU, and what the host must know to launch them.

pub mod abi;
mod tiling;

pub use tiling::{STRIP, Tiling, Window, suggested_frames};
