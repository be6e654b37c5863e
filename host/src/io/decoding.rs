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

#[cfg(test)]
mod tests {
    use scheidegg_finder::{FrameOwner, PixelMask, Shape};

    use super::*;

    const SHAPE: Shape = Shape { rows: 1, cols: 4 };

    #[test]
    fn frames_before_one_that_fails_are_whole_and_counted_once() {
        for (bad, count) in [(None, 5), (Some(4), 4), (Some(2), 2), (Some(0), 0)] {
            let mut buf = FrameBuf::new(SHAPE, 6);
            buf.push(1, |pixels| {
                pixels.fill(99);
                Ok(None)
            })
            .unwrap();
            let mut tally = Tally::default();
            let (found, failed) = read_frames(&mut buf, &[3, 5, 6, 8, 9], &mut tally, |k, pixels| {
                if bad.is_some_and(|b| b <= k) {
                    return Err(Error::Other(format!("frame {k}")));
                }
                pixels.fill(k as u16);
                // Frame 1 lost two pixels, of frame 2 the file has a part only, frame 3 is in another gain.
                let mut mask = PixelMask::new(SHAPE);
                (0..[0, 2, 3, 1, 0][k]).for_each(|i| mask.insert_index(i));
                let (lost, gain) = [(0, 0), (2, 0), (3, 0), (0, 1), (0, 0)][k];
                Ok(Found { mask: Some(mask), lost, gain, absent: 0, cut: k == 2 })
            });
            assert_eq!(
                (found, failed.as_ref().map(Error::to_string)),
                (count, bad.map(|b| format!("frame {b}")))
            );
            assert_eq!(buf.numbers(), &[1, 3, 5, 6, 8, 9][..=count]);
            let frames = buf.frames();
            let lost: Vec<_> = (0..=count).map(|k| frames.lost(k).map_or(0, PixelMask::count)).collect();
            assert_eq!(lost, &[0, 0, 2, 3, 1, 0][..=count]);
            assert!((1..=count).all(|k| frames.frame(k) == [k as u16 - 1; 4]) && frames.frame(0) == [99; 4]);
            let upto = |each: [u64; 5]| each[..count].iter().sum::<u64>();
            assert_eq!((tally.frames, tally.lost_pixels), (count as u64, upto([0, 2, 3, 0, 0])));
            assert_eq!(
                (tally.filled_pixels, tally.filled_frames),
                (upto([0, 2, 0, 0, 0]), upto([0, 1, 0, 0, 0]))
            );
            assert_eq!(
                (tally.gain_pixels, tally.gain_frames),
                (upto([0, 0, 0, 1, 0]), upto([0, 0, 0, 1, 0]))
            );
            assert_eq!(tally.cut_frames, upto([0, 0, 1, 0, 0]));
            assert_eq!(outcome((found, failed)).ok(), (count > 0).then_some(count));
        }
        assert_eq!(outcome((0, None)).unwrap(), 0);
    }

    #[test]
    fn what_was_masked_is_said() {
        let said = |tally: Tally, known: bool, packets: bool| {
            let mut health = Health { lost_pixels: 1, gain_pixels: 2, ..Health::default() };
            tally.report(&mut health, "a", 5, known, packets);
            assert_eq!(
                (health.lost_pixels, health.gain_pixels),
                (1 + tally.lost_pixels, 2 + tally.gain_pixels)
            );
            health.warnings
        };
        let none = Tally { frames: 3, lost_pixels: 4, ..Tally::default() };
        assert!(said(none, false, false).is_empty());
        let cut = Tally { cut_frames: 1, ..Tally::default() };
        assert_eq!(said(cut, true, true), ["a: 1 frames were cut: the pixels that are missing are masked"]);
        let filled = Tally { filled_pixels: 1, filled_frames: 1, ..Tally::default() };
        assert!(said(filled.clone(), true, true).is_empty());
        let what = "a: 1 pixels in 1 frames are 0xFFFF, as receivers write for lost packets: masked there";
        assert_eq!(said(filled, true, false), [what]);
        // More than half of 15 pixels.
        let keep = "if the top two bits of these words are no gain, read with gain = keep (14 bits of charge) or none (16 bits)";
        for (pixels, known, advice) in [
            (1, true, String::new()),
            (7, true, String::new()),
            (7, false, format!("; {keep}")),
            (8, true, format!("; most pixels are masked: {keep}")),
            (8, false, format!("; most pixels are masked: {keep}")),
        ] {
            let gain = Tally { frames: 3, gain_pixels: pixels, gain_frames: 2, ..Tally::default() };
            let what = format!(
                "a: {pixels} pixels in 2 frames are not in gain 0 (top two bits of a word): masked there{advice}"
            );
            assert_eq!(said(gain, known, true), [what]);
        }
    }
}
