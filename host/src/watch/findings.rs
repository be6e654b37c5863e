//! What the watches say together.

use scheidegg_finder::{Params, Pedestal};

use super::pixels::{HOT, unmoved};
use super::{ClusterWatch, FaultyPixels, FrameCounts, FrameWatch, few_darks};

/// Frames of a run below which nothing is said of pixels that never update or always fire: chance could do it.
const LEAST_FRAMES: u64 = 100;

/// What was seen in a run that is no error, in numbers and in [sentences](Findings::warnings).
#[derive(Clone, Debug, PartialEq)]
pub struct Findings {
    /// Pixels that cannot be trusted.
    pub pixels: FaultyPixels,
    /// How the first frames lie to the pedestal.
    pub frames: FrameCounts,
    /// Clusters whose brightest pixel was at the end of its range, to within its noise.
    pub saturated_clusters: u64,
    /// Some of the pixels that they were at, row-major.
    pub saturated_pixels: Vec<usize>,
    /// The end of a pixel's range in ADU.
    pub ceiling_adu: u16,
    samples: u64,
    params: Params,
    /// Quiet pixels that have no noise floor.
    exposed: usize,
}

impl Findings {
    /// What a trained pedestal tells before there is a run.
    pub fn of_pedestal(trained: &Pedestal, params: &Params) -> Findings {
        let pixels = FaultyPixels::of_pedestal(trained, params.mask.as_deref());
        Findings {
            exposed: if params.noise_floor_adu > 0.0 { 0 } else { pixels.quiet.len() },
            pixels,
            frames: FrameCounts::default(),
            saturated_clusters: 0,
            saturated_pixels: Vec::new(),
            ceiling_adu: 0,
            samples: trained.samples,
            params: params.clone(),
        }
    }

    /// What came of a run that started from `trained` and left `end` behind, both of lane 0; without `end` nothing is said
    /// of pixels that never update.
    pub fn new(
        frames: &FrameWatch,
        clusters: &ClusterWatch,
        trained: &Pedestal,
        end: Option<&Pedestal>,
        params: &Params,
    ) -> Findings {
        let mut found = Findings::of_pedestal(trained, params);
        found.frames = frames.counts();
        found.ceiling_adu = frames.ceiling();
        (found.saturated_clusters, found.saturated_pixels) = clusters.saturated(found.ceiling_adu).clone();
        let seen = clusters.frames();
        if let Some(end) = end.filter(|_| seen / params.lanes.max(1) as u64 >= LEAST_FRAMES) {
            found.pixels.never_updated = unmoved(trained, end, params.mask.as_deref());
        }
        if seen >= LEAST_FRAMES {
            let often = |(_, n): &(usize, &u32)| u64::from(**n) * 2 > seen;
            found.pixels.always_firing =
                clusters.hits().iter().enumerate().filter(often).map(|(i, _)| i).collect();
        }
        found
    }

    /// Sentences that need attention.
    pub fn warnings(&self) -> Vec<String> {
        let mut out = Vec::new();
        let pixels = self.pixels.shape.pixels();
        out.extend(few_darks(self.samples, pixels - self.pixels.untrained.len(), &self.params));
        let p = &self.pixels;
        if self.exposed > 0 {
            out.push(format!(
                "{} no noise (stuck, or masked in hardware; {}): the slightest step makes {} fire. Mask {}, or set a noise \
                 floor of 1 ADU",
                have(self.exposed),
                self.first_of(&p.quiet),
                them(self.exposed),
                them(self.exposed)
            ));
        }
        let untrained = p.untrained.len();
        if untrained > 0 {
            let most = match untrained * 2 > pixels {
                true => {
                    " These are most pixels: the dark frames are damaged, or of another kind than the data"
                }
                false => "",
            };
            out.push(format!(
                "{} lost in all dark frames but one at most ({}): masked for the run.{most}",
                were(untrained),
                self.first_of(&p.untrained)
            ));
        }
        // A few hot pixels are in the tables; many are a fault.
        if p.hot.len() * 100 > pixels {
            out.push(format!(
                "{} a noise above {HOT} times the median ({}): were the dark frames dark?",
                have(p.hot.len()),
                self.first_of(&p.hot)
            ));
        }
        out.extend(self.of_first_frames());
        if self.saturated_clusters > 0 {
            let n = self.saturated_clusters;
            out.push(format!(
                "{n} {} a pixel at the end of its range, {} ADU ({}): the charge is larger than what is stored",
                if n == 1 { "cluster has" } else { "clusters have" },
                self.ceiling_adu,
                self.first_of(&self.saturated_pixels)
            ));
        }
        if !p.never_updated.is_empty() {
            let n = p.never_updated.len();
            out.push(format!(
                "the pedestal of {} never changed in the run ({}): every value was far from it. Mask {}, or train with \
                 dark frames of this run",
                if n == 1 { "1 pixel".into() } else { format!("{n} pixels") },
                self.first_of(&p.never_updated),
                them(n)
            ));
        }
        if !p.always_firing.is_empty() {
            let n = p.always_firing.len();
            out.push(format!(
                "{} in more than half of the frames ({}): noise, a step of the pedestal, or the direct beam. Mask {} unless it \
                 is the beam",
                if n == 1 { "1 pixel fires".into() } else { format!("{n} pixels fire") },
                self.first_of(&p.always_firing),
                them(n)
            ));
        }
        out
    }

    /// What the first frames tell of the pedestal.
    fn of_first_frames(&self) -> Option<String> {
        let FrameCounts { frames, values, below, above, .. } = self.frames;
        if values == 0 {
            return None;
        }
        let sigma = self.params.n_sigma;
        // Far beyond what noise alone does, of which a Gaussian has 3e-7 at 5 sigma and a tenth at 1.
        let by_noise = super::false_rate(self.samples, sigma) * values as f64;
        if below as f64 > 20.0 + 10.0 * by_noise && below > 2 * above {
            return Some(format!(
                "{below} values of the first {} lie more than {sigma} sigma below the pedestal, {above} above it: photons \
                 must make a pixel's value larger (turn the sign of the frames over), or the pedestal is not that of these \
                 frames",
                if frames == 1 { "frame".into() } else { format!("{frames} frames") }
            ));
        }
        if above * 4 > values {
            return Some(format!(
                "{:.0} % of the values of the first {} lie more than {sigma} sigma above the pedestal: it is not that of \
                 these frames, or there is too much light to tell photons apart",
                100.0 * above as f64 / values as f64,
                if frames == 1 { "frame".into() } else { format!("{frames} frames") }
            ));
        }
        None
    }

    /// The first few pixels of a list.
    fn first_of(&self, list: &[usize]) -> String {
        let at = |i: &usize| format!("({}, {})", self.pixels.place(*i).0, self.pixels.place(*i).1);
        let some: Vec<String> = list.iter().take(3).map(at).collect();
        let more = if list.len() > 3 { ", ..." } else { "" };
        format!("row, column {}{more}", some.join(", "))
    }
}

fn have(n: usize) -> String {
    if n == 1 { "1 pixel has".into() } else { format!("{n} pixels have") }
}

fn were(n: usize) -> String {
    if n == 1 { "1 pixel was".into() } else { format!("{n} pixels were") }
}

fn them(n: usize) -> &'static str {
    if n == 1 { "it" } else { "them" }
}
