//! A batch of frames, read and decoded in parallel: the way of every file of frames, so that all follow one rule.

use rayon::prelude::*;
use scheidegg_finder::{Error, FrameBuf, LostPixels, Result};

use super::Health;
use super::raw::Found;

/// What was masked in the frames given so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally {
    /// Frames given.
    pub frames: u64,
    pub lost_pixels: u64,
    /// Lost pixels of frames that are whole in their file, and how many frames these are.
    pub filled_pixels: u64,
    pub filled_frames: u64,
    pub gain_pixels: u64,
    /// Frames with pixels that are not in gain 0.
    pub gain_frames: u64,
    /// Frames that their file ended inside of.
    pub cut_frames: u64,
}

impl Tally {
    fn add(&mut self, found: &Found) {
        self.lost_pixels += found.lost;
        if !found.cut {
            self.filled_pixels += found.lost;
            self.filled_frames += u64::from(found.lost > 0);
        }
        self.gain_pixels += found.gain;
        self.gain_frames += u64::from(found.gain > 0);
        self.cut_frames += u64::from(found.cut);
    }

    /// Puts the counts into a report, and a sentence for what was masked. `detector_known`: the top bits of these words are
    /// gain for sure; `packets_known`: lost packets are counted elsewhere.
    pub fn report(
        &self,
        health: &mut Health,
        name: &str,
        pixels: usize,
        detector_known: bool,
        packets_known: bool,
    ) {
        health.lost_pixels += self.lost_pixels;
        health.gain_pixels += self.gain_pixels;
        if self.cut_frames > 0 {
            health.warnings.push(format!(
                "{name}: {} frames were cut: the pixels that are missing are masked",
                self.cut_frames
            ));
        }
        if self.filled_pixels > 0 && !packets_known {
            health.warnings.push(format!(
                "{name}: {} pixels in {} frames are 0xFFFF, as receivers write for lost packets: masked there",
                self.filled_pixels, self.filled_frames
            ));
        }
        if self.gain_pixels > 0 {
            let most = self.gain_pixels > self.frames.saturating_mul(pixels as u64) / 2;
            let advice = if most {
                "; most pixels are masked: if the top two bits of these words are no gain, read with gain = keep (14 bits \
                 of charge) or none (16 bits)"
            } else if !detector_known {
                "; if the top two bits of these words are no gain, read with gain = keep (14 bits of charge) or none (16 bits)"
            } else {
                ""
            };
            health.warnings.push(format!(
                "{name}: {} pixels in {} frames are not in gain 0 (top two bits of a word): masked there{advice}",
                self.gain_pixels, self.gain_frames
            ));
        }
    }
}

/// Appends the frames `numbers`; `frame` reads and decodes the one of that index. Where one fails, those before it are
/// appended. Returns how many were, and why not all.
pub(crate) fn read_frames(
    into: &mut FrameBuf,
    numbers: &[u64],
    tally: &mut Tally,
    frame: impl Fn(usize, &mut [u16]) -> Result<Found> + Sync,
) -> (usize, Option<Error>) {
    let pixels = into.shape().pixels();
    let (mut count, mut failed) = (numbers.len(), None);
    while count > 0 {
        let outcome = into.extend(&numbers[..count], |memory| {
            let mut found: Vec<Result<Found>> =
                memory.par_chunks_exact_mut(pixels).enumerate().map(|(k, pixels)| frame(k, pixels)).collect();
            if let Some(k) = found.iter().position(Result::is_err) {
                count = k;
                return Err(found.swap_remove(k).expect_err("an error stands there"));
            }
            let mut masks = Vec::new();
            for (frame, found) in found.into_iter().flatten().enumerate() {
                tally.add(&found);
                masks.extend(found.mask.filter(|m| !m.is_empty()).map(|mask| LostPixels { frame, mask }));
            }
            Ok(masks)
        });
        match outcome {
            Ok(()) => break,
            // Again without the frame that failed: those before it are whole.
            Err(e) => failed = Some(e),
        }
    }
    tally.frames += count as u64;
    (count, failed)
}

/// What a source says of a batch that ended early: first the frames that are whole, then, asked again, the error.
pub(crate) fn outcome((count, failed): (usize, Option<Error>)) -> Result<usize> {
    match failed {
        Some(e) if count == 0 => Err(e),
        _ => Ok(count),
    }
}
