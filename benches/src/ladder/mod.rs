//! The ladder: one step an optimization, each in a process of its own, all over the same frames and all with the same
//! result.

pub mod budget;
pub mod chunks;
pub mod device;
pub mod finders;
pub mod frames;
pub mod kernels;
pub mod measure;
pub mod memory;
pub mod spawn;
pub mod steps;
pub mod stream;
pub mod summary;
