//! The vocabulary of scheidegg, the photon finder for charge-integrating X-ray pixel detectors.
//!
//! A leaf crate: no I/O, no threads, no SIMD, no GPU. Backends implement [`Backend`] and [`Finder`] with
//! nothing but this crate; programs speak to them through it.
//!
//! ```text
//! Frames --submit--> Ticket --collect--> Clusters (a borrowed view)
//! ```
//!
//! What a finder computes is defined to the bit by [SPEC](spec); the words here are its words.
#![deny(missing_docs, unsafe_op_in_unsafe_fn)]
#![forbid(unsafe_code)]

mod backend;
mod buffer;
mod cluster;
mod clusters;
mod clusters_buf;
mod error;
mod frames;
mod judge;
mod mask;
mod params;
mod pedestal;
mod rounding;
mod sync;
mod tickets;
mod training;

pub use backend::{Backend, Finder, Probe, Statistics};
pub use buffer::{FrameBuf, FrameNote, FrameOwner, PixelMemory};
pub use cluster::{Charge, Cluster, Corner, Eta, Values};
pub use clusters::{Clusters, PayloadType, Record, record_bytes};
pub use clusters_buf::ClustersBuf;
pub use error::{Error, Result};
pub use frames::{Frames, LostPixels, Numbers, Shape};
pub use judge::{Corrected, Judge, judged};
pub use mask::PixelMask;
pub use params::{ClusterSize, Noise, Params, Payload, Precision, Ties, Update};
pub use pedestal::{Pedestal, Plane, Trainer};
pub use rounding::to_f16;
pub use scheidegg_kernels::{Branch, Decision, Real};
pub use sync::{Engine, SyncFinder};
pub use tickets::{Ticket, Tickets};

#[doc = include_str!("../spec.md")]
pub mod spec {}
pub use training::Training;
