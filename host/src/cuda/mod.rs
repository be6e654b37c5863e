//! The GPU backend `cuda`: the kernels of `scheidegg-kernels`, scheduled on NVIDIA GPUs.
//!
//! ```text
//! frames --copy--> slot --frame kernels--> staged clusters --scan, offsets, place, copy--> results --> Clusters
//!         (bus)            pedestal chain                  raster order, true size         (page-locked)
//! ```
//!
//! A ring of slots keeps the three stages of three chunks going at once, so that a frame costs the slowest of copy in,
//! kernels and results out. Results lie in page-locked memory and are lent as they lie.
//!
//! Files: `api` finds the driver's functions, `driver` and `memory` turn them into values that free themselves,
//! `slots` decides about order, overflow and errors (and is tested without a GPU), `plan` about sizes, `chunk` holds
//! a slot's buffers, `gpu` is one GPU and `gpu::work` what it does for a chunk, `group` spreads lanes over several, `finder` is the [`Finder`].
//!
//! The device code is compiled by rustc for `nvptx64-nvidia-cuda`; the driver is reached through `cudarc`, which
//! loads it at run time. Where there is none, [`CudaBackend`] is [`Unavailable`](scheidegg_finder::Error::Unavailable)
//! with the reason.
//!
//! [`Finder`]: scheidegg_finder::Finder

mod api;
mod backend;
mod budget;
mod chunk;
mod code;
mod driver;
#[cfg(test)]
mod fake;
#[cfg(test)]
mod fake_tests;
mod finder;
mod gpu;
mod group;
mod memory;
#[cfg(test)]
mod mock;
mod options;
mod pinned;
mod plan;
mod ptx;
mod slots;

pub use backend::CudaBackend;
pub use budget::{PinningBudget, pinning_budget};
pub use driver::{DeviceInfo, device_count};
pub use finder::CudaFinder;
pub use options::{ChunkTiming, Options, Output};
pub use pinned::{PinnedPixels, RegisteredFrames, RegisteredSlice};
