//! Detectors read by a chip test board: which word of the image is which pixel.

use scheidegg_finder::Shape;

/// A detector that a chip test board read. Its master does not always say which one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Board {
    /// MÖNCH 03: 400 x 400 pixels, 5000 samples of 32 ADCs.
    Moench03,
    /// MÖNCH 04: 400 x 400 pixels, 5000 samples of 32 ADCs in another order.
    Moench04,
    /// MÖNCH 05: 160 x 150 pixels, 8000 samples of three ADCs.
    Moench05,
}

impl Board {
    /// All of them.
    pub const ALL: [Board; 3] = [Board::Moench03, Board::Moench04, Board::Moench05];

    /// The name, as one word.
    pub const fn word(self) -> &'static str {
        match self {
            Board::Moench03 => "moench03",
            Board::Moench04 => "moench04",
            Board::Moench05 => "moench05",
        }
    }

    /// Rows and columns of a frame.
    pub const fn shape(self) -> Shape {
        match self {
            Board::Moench03 | Board::Moench04 => Shape { rows: 400, cols: 400 },
            Board::Moench05 => Shape { rows: 160, cols: 150 },
        }
    }

    /// Samples of an ADC in one frame.
    pub const fn samples(self) -> u64 {
        match self {
            Board::Moench03 | Board::Moench04 => 5000,
            Board::Moench05 => 8000,
        }
    }

    /// Whether an image of so many ADCs can be told apart into pixels.
    pub const fn takes_adcs(self, adcs: usize) -> bool {
        match self {
            Board::Moench03 | Board::Moench04 => adcs == 32,
            Board::Moench05 => matches!(adcs, 3 | 12 | 32),
        }
    }

    /// The pixel of a word: ADC `word % adcs` at sample `word / adcs`. Nothing for an ADC that reads no pixels.
    pub fn pixel_of(self, word: usize, adcs: usize) -> Option<usize> {
        /// First column of every ADC of a MÖNCH 03.
        const FIRST: [usize; 32] = [
            300, 325, 350, 375, 300, 325, 350, 375, 200, 225, 250, 275, 200, 225, 250, 275, 100, 125, 150,
            175, 100, 125, 150, 175, 0, 25, 50, 75, 0, 25, 50, 75,
        ];
        /// Block of every ADC of a MÖNCH 04, 16 of 25 columns in each half.
        const BLOCK: [usize; 32] = [
            9, 8, 11, 10, 13, 12, 15, 14, 1, 0, 3, 2, 5, 4, 7, 6, 23, 22, 21, 20, 19, 18, 17, 16, 31, 30, 29,
            28, 27, 26, 25, 24,
        ];
        let (sample, adc) = (word / adcs, word % adcs);
        if sample >= self.samples() as usize {
            return None;
        }
        let (row, col) = match self {
            // The halves are read away from the middle.
            Board::Moench03 => {
                let row = if (adc / 4).is_multiple_of(2) { 199 - sample / 25 } else { 200 + sample / 25 };
                (row, FIRST[adc] + sample % 25)
            }
            Board::Moench04 => {
                let row = if adc < 16 { 199 - sample / 25 } else { 200 + sample / 25 };
                (row, BLOCK[adc] % 16 * 25 + sample % 25)
            }
            Board::Moench05 => {
                let third = match adcs {
                    3 => [1, 2, 0],
                    12 => [5, 9, 1],
                    _ => [9, 13, 1],
                };
                let k = third.iter().position(|a| *a == adc)?;
                (sample / 50, 50 * k + sample % 50)
            }
        };
        Some(row * self.shape().cols + col)
    }
}

/// Where the pixels of a board's image are.
#[derive(Clone, Debug)]
pub(super) struct Map {
    pub board: Board,
    adcs: usize,
    /// The word of every pixel.
    words: Vec<u32>,
}

impl Map {
    pub fn new(board: Board, adcs: usize) -> Map {
        let mut words = vec![0; board.shape().pixels()];
        for word in 0..board.samples() as usize * adcs {
            if let Some(pixel) = board.pixel_of(word, adcs) {
                words[pixel] = word as u32;
            }
        }
        Map { board, adcs, words }
    }

    /// Words of an image that are looked at; digital samples lie behind them.
    pub fn len(&self) -> usize {
        self.board.samples() as usize * self.adcs
    }

    pub fn words(&self) -> &[u32] {
        &self.words
    }

    pub fn pixel_of(&self, word: usize) -> Option<usize> {
        self.board.pixel_of(word, self.adcs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pixel_has_one_word() {
        for (board, adcs) in [
            (Board::Moench03, 32),
            (Board::Moench04, 32),
            (Board::Moench05, 3),
            (Board::Moench05, 12),
            (Board::Moench05, 32),
        ] {
            assert!(board.takes_adcs(adcs));
            let map = Map::new(board, adcs);
            let mut seen = vec![false; board.shape().pixels()];
            for pixel in (0..map.len()).filter_map(|w| map.pixel_of(w)) {
                assert!(!std::mem::replace(&mut seen[pixel], true), "{board:?}: pixel {pixel} has two words");
            }
            assert!(seen.iter().all(|s| *s));
            for (pixel, word) in map.words().iter().enumerate() {
                assert_eq!(map.pixel_of(*word as usize), Some(pixel));
            }
            assert_eq!(map.pixel_of(map.len()), None);
        }
    }

    #[test]
    fn some_words_are_where_the_descriptions_say() {
        let at = |board: Board, word, adcs| board.pixel_of(word, adcs);
        // ADC 0 starts left of the upper half's middle row, ADC 4 in the lower half.
        assert_eq!(at(Board::Moench03, 0, 32), Some(199 * 400 + 300));
        assert_eq!(at(Board::Moench03, 4, 32), Some(200 * 400 + 300));
        assert_eq!(at(Board::Moench03, 32 * 26 + 31, 32), Some(201 * 400 + 76));
        assert_eq!(at(Board::Moench04, 0, 32), Some(199 * 400 + 225));
        assert_eq!(at(Board::Moench04, 32 * 26 + 15, 32), Some(198 * 400 + 151));
        assert_eq!(at(Board::Moench04, 32 * 4999 + 16, 32), Some(399 * 400 + 199));
        assert_eq!(at(Board::Moench05, 51 * 12 + 5, 12), Some(150 + 1));
        assert_eq!(at(Board::Moench05, 9, 12), Some(50));
        assert_eq!(at(Board::Moench05, 3, 3), Some(101));
        assert_eq!(at(Board::Moench05, 32 + 13, 32), Some(51));
        assert_eq!(at(Board::Moench05, 0, 12), None);
    }
}
