//! The kernels of the GPU on the CPU: the backend `sim`.
//!
//! Block by block and, between barriers, phase by phase, the same source runs that is compiled for the GPU
//! (`kernels-rs/src/device`). Buffers are exactly as long as the kernels' interface says, shared memory is poisoned,
//! threads run in changing order, and two threads that touch the same shared memory without a barrier between
//! are caught. It is slow and meant for tests: a machine without a GPU proves the kernels, also under
//! AddressSanitizer.

pub(crate) mod block;
mod engine;
pub(crate) mod launch;
mod race;
#[cfg(test)]
mod tests;

use scheidegg_finder::{Backend, Error, Finder, Params, Precision, Probe, Result, Shape, SyncFinder, Update};

use engine::SimEngine;

const NAME: &str = "sim";

/// How the work is cut, which no result depends on.
#[derive(Clone, Debug)]
pub struct SimOptions {
    /// Frames of a lane that one launch does; fewer where the halo of so many fits no block. 0: all of a chunk, by
    /// blocks that exchange what they need of each other, where there is such an entry and the frame is small enough;
    /// otherwise 3.
    pub frames_per_launch: u32,
    /// Frames whose clusters are gathered at once.
    pub chunk_frames: u32,
    /// Staged clusters of a tile and frame. Too few is found out and put right.
    pub tile_capacity: u32,
    /// Gathered clusters of a chunk. Too few is found out and put right.
    pub chunk_capacity: u64,
    /// Multiprocessors to cut the frame for.
    pub multiprocessors: u32,
    /// Whether one launch does all lanes, or each has its own.
    pub lanes_together: bool,
}

impl Default for SimOptions {
    fn default() -> Self {
        SimOptions {
            frames_per_launch: 0,
            chunk_frames: 8,
            tile_capacity: 16,
            chunk_capacity: 1024,
            multiprocessors: 24,
            lanes_together: true,
        }
    }
}

/// The backend `sim`.
#[derive(Clone, Debug, Default)]
pub struct SimBackend {
    options: SimOptions,
}

impl SimBackend {
    /// With the default options.
    pub fn new() -> Self {
        Self::default()
    }

    /// With these options.
    pub fn with_options(options: SimOptions) -> Self {
        SimBackend { options }
    }
}

impl Backend for SimBackend {
    fn name(&self) -> &str {
        NAME
    }

    fn summary(&self) -> &str {
        "the GPU's kernels run on the CPU, slowly, to prove them"
    }

    fn probe(&self) -> Result<Probe> {
        Ok(Probe {
            device: format!("a simulated GPU, {} CPU threads", rayon::current_num_threads()),
            preference: 0,
        })
    }

    fn build(&self, shape: Shape, params: &Params) -> Result<Box<dyn Finder>> {
        params.validate(shape)?;
        let refuse = |what: &str| Err(Error::Unsupported { backend: NAME.into(), what: what.into() });
        if params.update == Update::Serial {
            return refuse("serial updates: pixels wait for one another (a CPU backend does them)");
        }
        for (name, value) in [
            ("chunk_frames", self.options.chunk_frames),
            ("tile_capacity", self.options.tile_capacity),
            ("multiprocessors", self.options.multiprocessors),
        ] {
            if value == 0 {
                return Err(Error::param(name, 0, "at least 1"));
            }
        }
        let options = self.options.clone();
        Ok(match params.precision {
            Precision::F32 => {
                Box::new(SyncFinder::new(SimEngine::<f32>::new(shape, params, options)?, shape, params)?)
            }
            Precision::F64F32 => {
                Box::new(SyncFinder::new(SimEngine::<f64>::new(shape, params, options)?, shape, params)?)
            }
            Precision::F64 => {
                return refuse(
                    "decisions in f64 (precision f64f32 keeps the pedestal in f64; a CPU backend does f64)",
                );
            }
        })
    }
}
