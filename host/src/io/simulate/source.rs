//! The simulation as a source of frames.

use std::sync::Arc;

use rayon::prelude::*;
use scheidegg_finder::{Error, FrameBuf, LostPixels, Result, Shape};

use super::physics::{Kind, Simulator};
use crate::io::{Health, Skipped, Source};

/// Simulated frames, numbered from 0: dark ones from [`Simulator::darks`], those with photons from
/// [`Simulator::frames`]. Frames of a batch are made in parallel.
#[derive(Debug)]
pub struct SimulatedFrames {
    simulator: Arc<Simulator>,
    kind: Kind,
    next: u64,
    end: u64,
    health: Health,
}

impl Simulator {
    /// Dark frames 0 to `frames`.
    pub fn darks(self: &Arc<Self>, frames: u64) -> SimulatedFrames {
        self.source(Kind::Dark, frames)
    }

    /// Frames with photons, 0 to `frames`.
    pub fn frames(self: &Arc<Self>, frames: u64) -> SimulatedFrames {
        self.source(Kind::Data, frames)
    }

    fn source(self: &Arc<Self>, kind: Kind, end: u64) -> SimulatedFrames {
        SimulatedFrames { simulator: self.clone(), kind, next: 0, end, health: Health::default() }
    }
}

impl SimulatedFrames {
    /// The detector that makes the frames.
    pub fn simulator(&self) -> &Arc<Simulator> {
        &self.simulator
    }
}

impl Source for SimulatedFrames {
    fn name(&self) -> String {
        let what = if self.kind == Kind::Dark { "darks" } else { "frames" };
        format!("simulated {what} (seed {})", self.simulator.simulation().seed)
    }

    fn shape(&self) -> Shape {
        self.simulator.shape()
    }

    fn remaining(&self) -> Option<u64> {
        Some(self.end - self.next)
    }

    fn read(&mut self, into: &mut FrameBuf) -> Result<usize> {
        Error::check_shape(&self.name(), self.shape(), into.shape())?;
        let room = (into.capacity() - into.len()) as u64;
        let count = room.min(self.end - self.next);
        let numbers: Vec<u64> = (self.next..self.next + count).collect();
        let (simulator, kind, health) = (&self.simulator, self.kind, &mut self.health);
        into.extend(&numbers, |pixels| {
            let masks: Vec<_> = pixels
                .par_chunks_mut(simulator.shape().pixels())
                .zip(&numbers)
                .map_init(Vec::new, |charge, (frame, &index)| simulator.render(kind, index, frame, charge))
                .collect();
            let lost = masks.into_iter().enumerate().filter_map(|(frame, mask)| Some((frame, mask?)));
            Ok(lost
                .map(|(frame, mask)| {
                    health.lost_packets += simulator.lost_rows(kind, numbers[frame]).len() as u64;
                    health.lost_pixels += mask.count() as u64;
                    LostPixels { frame, mask }
                })
                .collect())
        })?;
        self.next += count;
        Ok(count as usize)
    }

    fn skip(&mut self, frames: u64) -> Result<Skipped> {
        let skipped = frames.min(self.end - self.next);
        self.next += skipped;
        Ok(Skipped::range(self.next - skipped..self.next))
    }

    fn health(&self) -> Health {
        self.health.clone()
    }
}
