//! Where clusters are, and which of them have a pixel at the end of its range.

use scheidegg_finder::{Clusters, Params, Payload, Pedestal, Result, Shape};

use super::{CEILINGS, noise_of};
use crate::io::{Batch, Sink, Written};
use crate::provenance::Provenance;

/// Counts clusters a pixel, and those whose brightest pixel reached the end of its range. A sink beside the others.
#[derive(Clone, Debug)]
pub struct ClusterWatch {
    shape: Shape,
    /// Clusters at every pixel.
    hits: Vec<u32>,
    frames: u64,
    /// The trained means, in ADU, and how far a value may be from its raw one.
    mean: Vec<f32>,
    slack: Vec<f32>,
    /// No pixel at the end of its range has a smaller value.
    least: f32,
    /// By ceiling: clusters, and the pixels that they are at.
    saturated: [(u64, Vec<usize>); 2],
}

/// Pixels of a list that are kept; all are counted.
const KEPT: usize = 1000;

impl ClusterWatch {
    /// Watches a run that starts from this pedestal.
    pub fn new(pedestal: &Pedestal, params: &Params) -> ClusterWatch {
        // Stored values are rounded, in half precision to 8 ADU up there; the pedestal moves by less than the noise.
        let rounding = if params.payload == Payload::F16 { 8.0 } else { 1.0 };
        let mean: Vec<f32> = pedestal.mean().iter().map(|m| *m as f32).collect();
        let slack: Vec<f32> = noise_of(pedestal, params).iter().map(|n| *n as f32 + rounding).collect();
        let reach =
            mean.iter().zip(&slack).flat_map(|(m, s)| CEILINGS.iter().filter_map(|c| reach(*c, *m, *s)));
        ClusterWatch {
            shape: pedestal.shape,
            hits: vec![0; pedestal.shape.pixels()],
            frames: 0,
            least: reach.fold(f32::INFINITY, f32::min),
            mean,
            slack,
            saturated: Default::default(),
        }
    }

    /// Clusters at every pixel, row-major.
    pub fn hits(&self) -> &[u32] {
        &self.hits
    }

    /// Frames seen.
    pub fn frames(&self) -> u64 {
        self.frames
    }

    /// Clusters whose brightest pixel was at this end of the range, to within its noise, and some of the pixels.
    pub(super) fn saturated(&self, ceiling: u16) -> &(u64, Vec<usize>) {
        &self.saturated[usize::from(ceiling != CEILINGS[0])]
    }

    /// Takes the clusters of some frames.
    pub fn look(&mut self, batch: &Clusters<'_>) {
        self.frames += batch.frames() as u64;
        match batch.payload() {
            Payload::I32 => self.look_at(batch, |b| i32::from_ne_bytes([b[0], b[1], b[2], b[3]]) as f32),
            Payload::I16 => self.look_at(batch, |b| f32::from(i16::from_ne_bytes([b[0], b[1]]))),
            Payload::F16 => self.look_at(batch, |b| half::f16::from_ne_bytes([b[0], b[1]]).to_f32()),
            Payload::F32 => self.look_at(batch, |b| f32::from_ne_bytes([b[0], b[1], b[2], b[3]])),
        }
    }

    #[inline(always)]
    fn look_at(&mut self, batch: &Clusters<'_>, value: impl Fn(&[u8]) -> f32) {
        let (size, each) = (batch.record_bytes(), batch.payload().bytes());
        let centre = 4 + batch.size().centre() * each;
        for record in batch.bytes().chunks_exact(size) {
            let side = |i: usize| usize::from(u16::from_ne_bytes([record[i], record[i + 1]]));
            let at = side(2) * self.shape.cols + side(0);
            self.hits[at] = self.hits[at].saturating_add(1);
            let value = value(&record[centre..centre + each]);
            if value >= self.least {
                self.near_the_end(at, value);
            }
        }
    }

    #[cold]
    fn near_the_end(&mut self, at: usize, value: f32) {
        let raw = value + self.mean[at];
        for (ceiling, (count, pixels)) in CEILINGS.iter().zip(&mut self.saturated) {
            let far = reach(*ceiling, self.mean[at], self.slack[at]).is_some();
            if far && (raw - f32::from(*ceiling)).abs() <= self.slack[at] {
                *count += 1;
                if pixels.len() < KEPT && !pixels.contains(&at) {
                    pixels.push(at);
                }
            }
        }
    }
}

/// From which value on a pixel is at the end of its range; nothing for one whose pedestal is there already.
fn reach(ceiling: u16, mean: f32, slack: f32) -> Option<f32> {
    let reach = f32::from(ceiling) - mean - slack;
    (reach > 5.0 * slack).then_some(reach)
}

impl Sink for ClusterWatch {
    fn name(&self) -> String {
        "watch".into()
    }

    fn write(&mut self, batch: &Batch<'_>) -> Result<()> {
        self.look(batch.clusters());
        Ok(())
    }

    fn finish(&mut self, _: &Provenance) -> Result<Written> {
        Ok(Written::nowhere())
    }

    fn is_needed(&self) -> bool {
        false
    }
}
