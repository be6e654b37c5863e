//! A charge-integrating pixel detector in X-rays, simulated: a source of frames whose photons are known.
//!
//! ```
//! use scheidegg::io::{Source, simulate::Simulation};
//!
//! let simulator = Simulation { rows: 64, cols: 64, photons_per_frame: 50.0, ..Simulation::default() }.build()?;
//! let mut darks = simulator.darks(1000);
//! let mut frames = simulator.frames(100);
//! let truth = simulator.photons(42);
//! assert_eq!(frames.remaining(), Some(100));
//! # Ok::<(), scheidegg::Error>(())
//! ```
//!
//! # Determinism
//! Every pixel of every frame is a function of the [`Simulation`] and the frame's index alone: not of threads, not of
//! how frames are cut into batches, not of the machine (IEEE additions, products, quotients and square roots, and no
//! mathematics library).

mod numerics;
mod params;
mod physics;
mod rng;
mod source;
mod write;

pub use params::{Line, Simulation};
pub use physics::{Photon, Simulator};
pub use source::SimulatedFrames;
pub use write::{Progress, Written, write_npy, write_raw};

#[cfg(test)]
mod tests;
