//! Raw words to charge: the gain bits go, and pixels that carry no charge of gain 0 are masked.

use scheidegg_finder::{PixelMask, Shape};

/// Bits of a word that are charge.
const CHARGE: u16 = 0x3fff;
/// What a receiver writes where a packet was lost.
const LOST: u16 = 0xffff;

/// What becomes of pixels that are not in gain 0 (the top two bits of a word: 00 G0, 01 G1, 11 G2, 10 never valid).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Gain {
    /// They are masked for the frame and counted: a pedestal of gain 0 says nothing of them.
    #[default]
    MaskOthers,
    /// Their 14 bits are kept as if they were gain 0: for detectors whose top bits are neither gain nor charge.
    KeepValue,
    /// No bits of a word are gain: all 16 are charge.
    None,
}

impl Gain {
    /// Bits of a word that are charge.
    const fn charge(self) -> u16 {
        match self {
            Gain::MaskOthers | Gain::KeepValue => CHARGE,
            Gain::None => u16::MAX,
        }
    }
}

/// What was found in one frame.
#[derive(Clone, Debug, Default)]
pub(crate) struct Found {
    /// Pixels to be masked for the frame.
    pub mask: Option<PixelMask>,
    /// How many of them were lost.
    pub lost: u64,
    /// How many of them were in another gain.
    pub gain: u64,
    /// How many of them no port has.
    pub absent: u64,
    /// Whether the file ended inside the frame, whose other pixels are lost.
    pub cut: bool,
}

impl Found {
    /// The mask, begun if there is none yet.
    pub fn mask(&mut self, shape: Shape) -> &mut PixelMask {
        self.mask.get_or_insert_with(|| PixelMask::new(shape))
    }

    /// Counts the lost pixels once all are masked.
    pub fn count_lost(&mut self) {
        self.lost = self.mask.as_ref().map_or(0, |m| m.count() as u64) - self.gain - self.absent;
    }
}

/// How words become charge.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rule {
    /// What becomes of other gains.
    pub gain: Gain,
    /// Whether every 0xFFFF is taken for a loss, because nothing says which packets came; else a whole row of them only.
    pub ones_are_lost: bool,
}

/// Turns the words of one row of a port into charge, in place. `first` is the frame's index of the first of them. A row
/// of nothing but 0xFFFF was lost, whatever its header says: no pixel row is saturated in the lowest gain throughout. A
/// single 0xFFFF is a saturated pixel where all 16 bits are charge.
pub(super) fn row(words: &mut [u16], first: usize, shape: Shape, rule: Rule, found: &mut Found) {
    let (any, all) = words.iter().fold((0, LOST), |(any, all), w| (any | w, all & w));
    if any & !CHARGE == 0 {
        return;
    }
    if all == LOST || (rule.ones_are_lost && rule.gain != Gain::None) {
        for (i, _) in words.iter().enumerate().filter(|w| *w.1 == LOST) {
            found.mask(shape).insert_index(first + i);
        }
    }
    if all != LOST && rule.gain == Gain::MaskOthers {
        let mask = found.mask(shape);
        let mut others = 0;
        for (i, w) in words.iter().enumerate() {
            if w & !CHARGE != 0 && !mask.contains_index(first + i) {
                mask.insert_index(first + i);
                others += 1;
            }
        }
        found.gain += others;
    }
    words.iter_mut().for_each(|w| *w &= rule.gain.charge());
}

/// Turns a whole image, row by row, into charge; `found` is what is known of it before.
pub(crate) fn rows(words: &mut [u16], shape: Shape, rule: Rule, mut found: Found) -> Found {
    for (r, words) in words.chunks_exact_mut(shape.cols).enumerate() {
        row(words, r * shape.cols, shape, rule, &mut found);
    }
    found.count_lost();
    found
}

/// One sample of a chip test board's ADC, which has 14 bits and no gain: all ones mean that it was lost.
pub(super) fn sample(word: u16, to: &mut u16, pixel: usize, shape: Shape, found: &mut Found) {
    *to = word & CHARGE;
    if word == LOST {
        found.mask(shape).insert_index(pixel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: Shape = Shape { rows: 2, cols: 4 };

    const fn rule(gain: Gain) -> Rule {
        Rule { gain, ones_are_lost: false }
    }

    #[test]
    fn a_sample_of_ones_was_lost_and_others_have_14_bits() {
        let (mut to, mut found) = ([9; 8], Found::default());
        for (pixel, word) in [(1, 0xffff), (2, 0xfffe), (3, 0x1234), (6, 0xffff)] {
            sample(word, &mut to[pixel], pixel, SHAPE, &mut found);
        }
        assert_eq!(to, [9, 0x3fff, 0x3ffe, 0x1234, 9, 9, 0x3fff, 9]);
        assert_eq!(found.mask.unwrap().indices().collect::<Vec<_>>(), [1, 6]);
    }

    #[test]
    fn charge_is_left_alone() {
        let (mut words, mut found) = ([0, 1, 0x3fff, 7], Found::default());
        row(&mut words, 0, SHAPE, rule(Gain::MaskOthers), &mut found);
        assert_eq!(words, [0, 1, 0x3fff, 7]);
        assert!(found.mask.is_none());
    }

    #[test]
    fn other_gains_are_masked_and_never_charge() {
        for bits in [0x4000, 0x8000, 0xc000] {
            let (mut words, mut found) = ([5, 6 | bits, 7, 0x3fff | bits], Found::default());
            row(&mut words, 4, SHAPE, rule(Gain::MaskOthers), &mut found);
            assert_eq!(words, [5, 6, 7, 0x3fff]);
            assert_eq!(found.mask.unwrap().indices().collect::<Vec<_>>(), [5, 7]);
            assert_eq!((found.gain, found.lost), (2, 0));
        }
    }

    #[test]
    fn other_gains_are_kept_when_asked() {
        let (mut words, mut found) = ([5, 0x4006, 7, 8], Found::default());
        row(&mut words, 0, SHAPE, rule(Gain::KeepValue), &mut found);
        assert_eq!(words, [5, 6, 7, 8]);
        assert!(found.mask.is_none() && found.gain == 0);
    }

    #[test]
    fn sixteen_bits_of_charge_are_left_alone() {
        let (mut words, mut found) = ([5, 0x4006, 0xffff, 0xc000], Found::default());
        row(&mut words, 0, SHAPE, Rule { gain: Gain::None, ones_are_lost: true }, &mut found);
        assert_eq!(words, [5, 0x4006, 0xffff, 0xc000]);
        assert!(found.mask.is_none() && found.gain == 0);
    }

    #[test]
    fn a_row_of_ones_was_lost_in_any_case() {
        for gain in [Gain::MaskOthers, Gain::KeepValue, Gain::None] {
            let (mut words, mut found) = ([0xffff; 4], Found::default());
            row(&mut words, 4, SHAPE, rule(gain), &mut found);
            assert_eq!(found.mask.unwrap().indices().collect::<Vec<_>>(), [4, 5, 6, 7]);
            assert_eq!(found.gain, 0);
        }
    }

    #[test]
    fn a_pixel_that_was_lost_is_not_counted_as_gain() {
        let (mut words, mut found) = ([0xffff, 0xffff, 3, 0x4000], Found::default());
        found.mask(SHAPE).insert_index(0);
        found.mask(SHAPE).insert_index(1);
        row(&mut words, 0, SHAPE, rule(Gain::MaskOthers), &mut found);
        assert_eq!(found.gain, 1);
        assert_eq!(found.mask.unwrap().count(), 3);
    }

    #[test]
    fn a_word_of_ones_was_lost_when_nothing_tells() {
        for gain in [Gain::MaskOthers, Gain::KeepValue] {
            let (mut words, mut found) = ([0xffff, 3, 0x4001, 0xffff], Found::default());
            row(&mut words, 0, SHAPE, Rule { gain, ones_are_lost: true }, &mut found);
            found.count_lost();
            assert_eq!((found.lost, found.gain), (2, u64::from(gain == Gain::MaskOthers)));
            assert_eq!(words[1..3], [3, 1]);
        }
    }
}
