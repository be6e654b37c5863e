//! What goes wrong in a run without an error: pixels that cannot be trusted, light of the wrong sign, pixels at the end of
//! their range, too few dark frames.
//!
//! A [`ClusterWatch`] is a sink beside the others, a [`FrameWatch`] looks at the first frames of a source, and
//! [`Findings`] says what came of both. The cost is some nanoseconds a cluster, and a few milliseconds a run.
//!
//! ```no_run
//! # use scheidegg::{Finder, io::{Sink, Source}, pipeline::Run, watch::{ClusterWatch, Findings, FrameWatch}};
//! # fn f(finder: &mut dyn Finder, data: &mut dyn Source, out: &mut dyn Sink) -> scheidegg::Result<()> {
//! let trained = finder.pedestal(0)?;
//! let mut clusters = ClusterWatch::new(&trained, finder.params());
//! let mut frames = FrameWatch::new(&trained, finder.params());
//! Run::new(finder).find(&mut frames.on(data), &mut [out, &mut clusters])?;
//! let findings = Findings::new(&frames, &clusters, &trained, finder.pedestal(0).ok().as_ref(), finder.params());
//! findings.warnings().iter().for_each(|w| println!("{w}"));
//! # Ok(()) }
//! ```

use scheidegg_finder::{Params, Pedestal, PixelMask};

mod clusters;
mod darks;
mod findings;
mod frames;
mod pixels;

pub use clusters::ClusterWatch;
pub use darks::{false_rate, few_darks};
pub use findings::Findings;
pub use frames::{FrameCounts, FrameWatch, Watched};
pub use pixels::{FaultyPixels, Medians};

/// The largest values that a pixel of 14 and of 16 bits can have.
const CEILINGS: [u16; 2] = [0x3FFF, 0xFFFF];

/// The pixels that take part in a run: neither masked nor untrained.
fn takes_part<'a>(pedestal: &'a Pedestal, mask: Option<&'a PixelMask>) -> impl Fn(usize) -> bool + 'a {
    let out = |m: Option<&PixelMask>, i: usize| m.is_some_and(|m| m.contains_index(i));
    move |i| !out(mask, i) && !out(pedestal.untrained.as_ref(), i)
}

/// The noise that a decision compares with, at least the floor.
fn noise_of(pedestal: &Pedestal, params: &Params) -> Vec<f64> {
    pedestal.noise().iter().map(|n| n.max(params.noise_floor_adu)).collect()
}

#[cfg(test)]
mod tests;
