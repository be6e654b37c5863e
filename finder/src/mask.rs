//! A set of pixels that take no part.

use crate::error::{Error, Result};
use crate::frames::Shape;

/// A set of pixels, one bit each, row-major.
#[derive(Clone, PartialEq, Eq)]
pub struct PixelMask {
    shape: Shape,
    bits: Vec<u64>,
}

impl PixelMask {
    /// An empty set: no pixel is masked.
    pub fn new(shape: Shape) -> Self {
        PixelMask { shape, bits: vec![0; shape.pixels().div_ceil(64)] }
    }

    /// From one `bool` a pixel, row-major; `true` masks.
    ///
    /// # Errors
    /// [`Error::Param`] when `masked` has another length than the shape.
    pub fn from_bools(shape: Shape, masked: &[bool]) -> Result<Self> {
        if masked.len() != shape.pixels() {
            return Err(Error::param(
                "mask",
                format!("{} values", masked.len()),
                format!("{} for {shape} pixels", shape.pixels()),
            ));
        }
        let mut mask = PixelMask::new(shape);
        for (i, _) in masked.iter().enumerate().filter(|(_, m)| **m) {
            mask.insert_index(i);
        }
        Ok(mask)
    }

    /// Rows and columns.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// Whether the pixel is masked. A pixel outside the shape is not.
    #[inline]
    pub fn contains(&self, row: usize, col: usize) -> bool {
        row < self.shape.rows && col < self.shape.cols && self.contains_index(row * self.shape.cols + col)
    }

    /// Whether the pixel of a row-major index is masked.
    #[inline]
    pub fn contains_index(&self, i: usize) -> bool {
        self.bits[i / 64] >> (i % 64) & 1 == 1
    }

    /// Masks a pixel.
    ///
    /// # Panics
    /// When the pixel is outside the shape.
    pub fn insert(&mut self, row: usize, col: usize) {
        assert!(
            row < self.shape.rows && col < self.shape.cols,
            "pixel ({row}, {col}) outside {}",
            self.shape
        );
        self.insert_index(row * self.shape.cols + col);
    }

    /// Masks the pixel of a row-major index.
    ///
    /// # Panics
    /// When the index is outside the shape.
    pub fn insert_index(&mut self, i: usize) {
        assert!(i < self.shape.pixels(), "pixel {i} outside {}", self.shape);
        self.bits[i / 64] |= 1 << (i % 64);
    }

    /// Masks every pixel that `other` masks.
    ///
    /// # Panics
    /// When the shapes differ.
    pub fn union(&mut self, other: &PixelMask) {
        assert_eq!(self.shape, other.shape, "masks of different shapes");
        for (a, b) in self.bits.iter_mut().zip(&other.bits) {
            *a |= b;
        }
    }

    /// Number of masked pixels.
    pub fn count(&self) -> usize {
        self.bits.iter().map(|w| w.count_ones() as usize).sum()
    }

    /// Whether no pixel is masked.
    pub fn is_empty(&self) -> bool {
        self.bits.iter().all(|w| *w == 0)
    }

    /// The masked pixels as row-major indices, ascending.
    pub fn indices(&self) -> impl Iterator<Item = usize> + '_ {
        self.bits.iter().enumerate().flat_map(|(k, &word)| {
            std::iter::successors(Some(word), |w| Some(w & w.wrapping_sub(1)))
                .take_while(|w| *w != 0)
                .map(move |w| k * 64 + w.trailing_zeros() as usize)
        })
    }

    /// The bits themselves, 64 pixels a word, row-major without padding between rows.
    pub fn words(&self) -> &[u64] {
        &self.bits
    }
}

impl std::fmt::Debug for PixelMask {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "PixelMask({}, {} masked)", self.shape, self.count())
    }
}
