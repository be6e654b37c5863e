//! What every measurement looks at: simulated frames of one detector, made anew by each process from the seed.

use std::sync::Arc;

use scheidegg::io::Source;
use scheidegg::io::simulate::{Simulation, Simulator};
use scheidegg::{
    Clusters, FrameBuf, FrameOwner, Frames, Pedestal, Precision, Result, Shape, Trainer, Values,
};

/// Dark frames that train the pedestal.
pub const DARKS: u64 = 1000;

/// The detector of the ladder: a MÖNCH in copper fluorescence (400 x 400 pixels, 2300 photons a frame) without faults,
/// so that every difference between two steps is the step's.
pub fn ladder_detector() -> Simulation {
    Simulation::default().without_faults()
}

/// A trained detector and frames with photons.
pub struct Scene {
    simulator: Arc<Simulator>,
    trainer: Trainer,
    frames: FrameBuf,
}

impl Scene {
    /// Simulates [`DARKS`] dark frames and `frames` with photons.
    ///
    /// # Errors
    /// What [`Simulation::validate`] says.
    pub fn new(simulation: &Simulation, frames: usize) -> Result<Scene> {
        let simulator = simulation.build()?;
        let shape = simulator.shape();
        let mut trainer = Trainer::new(shape);
        let mut darks = simulator.darks(DARKS);
        let mut buf = FrameBuf::new(shape, 100);
        while darks.read(&mut buf)? > 0 {
            trainer.add(buf.frames())?;
            buf.clear();
        }
        let mut data = FrameBuf::new(shape, frames);
        simulator.frames(frames as u64).read(&mut data)?;
        Ok(Scene { simulator, trainer, frames: data })
    }

    /// The detector.
    pub fn simulator(&self) -> &Arc<Simulator> {
        &self.simulator
    }

    /// Rows and columns.
    pub fn shape(&self) -> Shape {
        self.simulator.shape()
    }

    /// The trained pedestal.
    ///
    /// # Errors
    /// None with [`DARKS`] dark frames; those of [`Trainer::finish`].
    pub fn pedestal(&self, precision: Precision) -> Result<Pedestal> {
        self.trainer.finish(precision)
    }

    /// The frames with photons.
    pub fn frames(&self) -> Frames<'_> {
        self.frames.frames()
    }
}

/// A checksum of clusters: frame numbers, coordinates and values in order, whatever type the values are stored in.
/// Two steps with the same checksum found the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Checksum {
    state: u64,
    clusters: u64,
}

impl Checksum {
    #[inline(always)]
    fn mix(&mut self, v: u64) {
        // An odd multiplier and a rotation: every bit of the input reaches every bit of the state in a few steps.
        self.state = (self.state ^ v).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
    }

    /// Takes the clusters of the next frames.
    pub fn add(&mut self, clusters: &Clusters<'_>) {
        for k in 0..clusters.frames() {
            self.mix(clusters.numbers()[k]);
            for c in clusters.frame(k) {
                self.mix(u64::from(c.y) << 16 | u64::from(c.x));
                match c.values() {
                    Values::I32(v) => v.iter().for_each(|v| self.mix(*v as u32 as u64)),
                    Values::I16(v) => v.iter().for_each(|v| self.mix(i32::from(*v) as u32 as u64)),
                    Values::F16(v) => v.iter().for_each(|v| self.mix(u64::from(v.to_f32().to_bits()))),
                    Values::F32(v) => v.iter().for_each(|v| self.mix(u64::from(v.to_bits()))),
                }
            }
            self.clusters += (clusters.offsets()[k + 1]) - clusters.offsets()[k];
        }
    }

    /// Clusters taken so far.
    pub fn clusters(&self) -> u64 {
        self.clusters
    }
}

impl std::fmt::Display for Checksum {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:016x}", self.state)
    }
}

#[cfg(test)]
mod tests {
    use scheidegg::{ClusterSize, ClustersBuf, Payload};

    use super::*;

    #[test]
    fn the_checksum_sees_values_and_order_but_not_their_type() {
        let shape = Shape::new(10, 10).unwrap();
        let size = ClusterSize::square(3).unwrap();
        let sum = |payload: Payload, records: &[(u16, [i32; 9])]| {
            let mut bytes = Vec::new();
            for (x, values) in records {
                bytes.extend(x.to_ne_bytes());
                bytes.extend(5u16.to_ne_bytes());
                for v in values {
                    match payload {
                        Payload::I16 => bytes.extend((*v as i16).to_ne_bytes()),
                        _ => bytes.extend(v.to_ne_bytes()),
                    }
                }
            }
            let mut buf = ClustersBuf::new(shape, size, payload);
            buf.push_frame(3, &bytes);
            let mut sum = Checksum::default();
            sum.add(&buf.view());
            sum
        };
        let (a, b) = ((1, [-7; 9]), (2, [1000; 9]));
        assert_eq!(sum(Payload::I32, &[a, b]), sum(Payload::I16, &[a, b]));
        assert_ne!(sum(Payload::I32, &[a, b]), sum(Payload::I32, &[b, a]));
        assert_ne!(sum(Payload::I32, &[a, b]), sum(Payload::I32, &[a, (2, [1001; 9])]));
    }
}
