//! A look at the first frames, beside the finder.

use scheidegg_finder::{FrameBuf, FrameOwner, Frames, Params, Pedestal, Result, Shape};

use super::{CEILINGS, noise_of, takes_part};
use crate::io::{Facts, Health, Skipped, Source};
use crate::provenance::Input;

/// Frames that are looked at: a few milliseconds of a run.
const FRAMES: u64 = 64;

/// How the values of the first frames lie to the pedestal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FrameCounts {
    /// Frames looked at.
    pub frames: u64,
    /// Values in them, without masked, untrained and quiet pixels.
    pub values: u64,
    /// Values more than the threshold below the pedestal.
    pub below: u64,
    /// Values more than the threshold above it.
    pub above: u64,
    /// Values at the end of their range.
    pub at_ceiling: u64,
    /// The largest value.
    pub largest: u16,
}

/// Counts in the first frames of a source how many values lie far below the pedestal, and how many above.
#[derive(Clone, Debug)]
pub struct FrameWatch {
    shape: Shape,
    /// A value below the first of a pixel is far below, one above the second far above. A pixel that does not count has
    /// none of either.
    low: Vec<u16>,
    high: Vec<u16>,
    counting: u64,
    counts: FrameCounts,
    at: [u64; 2],
}

impl FrameWatch {
    /// Looks at frames that are judged by this pedestal.
    pub fn new(pedestal: &Pedestal, params: &Params) -> FrameWatch {
        let counts = takes_part(pedestal, params.mask.as_deref());
        let (mean, noise) = (pedestal.mean(), noise_of(pedestal, params));
        let (mut low, mut high) = (vec![0; noise.len()], vec![u16::MAX; noise.len()]);
        let mut counting = 0;
        for (i, (m, s)) in mean.iter().zip(&noise).enumerate() {
            if counts(i) && *s > 0.0 {
                let far = params.n_sigma * s;
                // Floats saturate on their way to an integer.
                (low[i], high[i]) = ((m - far).ceil() as u16, (m + far).floor() as u16);
                counting += 1;
            }
        }
        FrameWatch { shape: pedestal.shape, low, high, counting, counts: FrameCounts::default(), at: [0; 2] }
    }

    /// The source, whose first frames are looked at as they are read.
    pub fn on<'a>(&'a mut self, source: &'a mut dyn Source) -> Watched<'a> {
        Watched { source, watch: self }
    }

    /// What was seen.
    pub fn counts(&self) -> FrameCounts {
        let at_ceiling = self.at[usize::from(self.ceiling() != CEILINGS[0])];
        FrameCounts { at_ceiling, ..self.counts }
    }

    /// The end of a pixel's range: that of 14 bits unless a value was above it.
    pub fn ceiling(&self) -> u16 {
        CEILINGS[usize::from(self.counts.largest > CEILINGS[0])]
    }

    /// Looks at frames, unless enough were.
    pub fn look(&mut self, frames: Frames<'_>) {
        for k in 0..frames.len() {
            if self.counts.frames >= FRAMES || frames.shape() != self.shape {
                return;
            }
            self.counts.frames += 1;
            self.counts.values += self.counting;
            let frame = frames.frame(k);
            let (mut below, mut above, mut at, mut largest) = (0u64, 0u64, [0u64; 2], 0);
            for ((row, low), high) in
                frame.chunks(4096).zip(self.low.chunks(4096)).zip(self.high.chunks(4096))
            {
                let [mut b, mut a, mut c, mut d] = [0u16; 4];
                for ((x, lo), hi) in row.iter().zip(low).zip(high) {
                    b += u16::from(x < lo);
                    a += u16::from(x > hi);
                    c += u16::from(*x == CEILINGS[0]);
                    d += u16::from(*x == CEILINGS[1]);
                    largest = largest.max(*x);
                }
                below += u64::from(b);
                above += u64::from(a);
                at[0] += u64::from(c);
                at[1] += u64::from(d);
            }
            // What was lost is no value: mostly none, or whole packets.
            if let Some(lost) = frames.lost(k) {
                for i in lost.indices() {
                    below -= u64::from(frame[i] < self.low[i]);
                    above -= u64::from(frame[i] > self.high[i]);
                    at[0] -= u64::from(frame[i] == CEILINGS[0]);
                    at[1] -= u64::from(frame[i] == CEILINGS[1]);
                    self.counts.values -= u64::from(self.high[i] < u16::MAX || self.low[i] > 0);
                }
                let rest = frame.iter().enumerate().filter(|(i, _)| !lost.contains_index(*i));
                largest = rest.map(|(_, x)| *x).max().unwrap_or(0);
            }
            self.counts.below += below;
            self.counts.above += above;
            self.counts.largest = self.counts.largest.max(largest);
            self.at = [self.at[0] + at[0], self.at[1] + at[1]];
        }
    }
}

/// A source whose first frames are looked at.
pub struct Watched<'a> {
    source: &'a mut dyn Source,
    watch: &'a mut FrameWatch,
}

impl Source for Watched<'_> {
    fn name(&self) -> String {
        self.source.name()
    }

    fn shape(&self) -> Shape {
        self.source.shape()
    }

    fn remaining(&self) -> Option<u64> {
        self.source.remaining()
    }

    fn read(&mut self, into: &mut FrameBuf) -> Result<usize> {
        let before = into.len();
        let got = self.source.read(into);
        if self.watch.counts.frames < FRAMES {
            self.watch.look(into.frames().slice(before, into.len() - before));
        }
        got
    }

    fn skip(&mut self, frames: u64) -> Result<Skipped> {
        self.source.skip(frames)
    }

    fn facts(&self) -> Facts {
        self.source.facts()
    }

    fn inputs(&self) -> Vec<Input> {
        self.source.inputs()
    }

    fn health(&self) -> Health {
        self.source.health()
    }
}
