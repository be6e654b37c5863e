//! Frames as they lie in memory, borrowed.

use std::fmt;

use ndarray::ArrayView3;

use crate::error::{Error, Result};
use crate::mask::PixelMask;

/// Rows and columns of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Shape {
    /// Rows (`y`).
    pub rows: usize,
    /// Columns (`x`).
    pub cols: usize,
}

impl Shape {
    /// The largest number of rows and of columns: a stored coordinate is a `u16`.
    pub const MAX_SIDE: usize = 65_536;

    /// Rows and columns, each from 1 to [`Shape::MAX_SIDE`].
    ///
    /// # Errors
    /// [`Error::Param`] outside that range.
    pub fn new(rows: usize, cols: usize) -> Result<Shape> {
        let side = 1..=Self::MAX_SIDE;
        if !side.contains(&rows) || !side.contains(&cols) {
            return Err(Error::param(
                "frame shape",
                format!("{rows} x {cols}"),
                "1 to 65536 rows and columns",
            ));
        }
        Ok(Shape { rows, cols })
    }

    /// Pixels of a frame.
    #[inline]
    pub const fn pixels(self) -> usize {
        self.rows * self.cols
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} x {}", self.rows, self.cols)
    }
}

/// The numbers of the frames of a batch.
#[derive(Clone, Copy, Debug)]
pub enum Numbers<'a> {
    /// Consecutive numbers from this one on.
    From(u64),
    /// One number a frame.
    List(&'a [u64]),
}

/// The pixels of one frame that were lost on the way (or carry no charge): masked for that frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LostPixels {
    /// Index of the frame in its batch.
    pub frame: usize,
    /// Its lost pixels.
    pub mask: PixelMask,
}

/// A batch of frames: borrowed `frames x rows x cols` of raw `u16`, with their numbers and lost pixels.
///
/// # Shapes
/// A frame is row-major and dense; from one frame to the next there may be a gap (`stride`), so that frames
/// of a raw file, header and image in turn, are used where they lie.
///
/// # Units
/// Raw ADU. Bits that are not charge (gain, for JUNGFRAU) must have been removed by the source.
#[derive(Clone, Copy, Debug)]
pub struct Frames<'a> {
    pixels: &'a [u16],
    shape: Shape,
    count: usize,
    stride: usize,
    numbers: Numbers<'a>,
    lost: &'a [LostPixels],
    /// What index 0 is called in `lost`.
    lost_first: usize,
}

impl<'a> Frames<'a> {
    /// Dense frames, numbered from 0.
    ///
    /// # Errors
    /// [`Error::Param`] when `pixels` is not a whole number of frames.
    pub fn new(pixels: &'a [u16], shape: Shape) -> Result<Self> {
        Shape::new(shape.rows, shape.cols)?;
        if !pixels.len().is_multiple_of(shape.pixels()) {
            return Err(Error::param(
                "frames",
                format!("{} pixels", pixels.len()),
                format!("a whole number of frames of {} ({shape})", shape.pixels()),
            ));
        }
        Self::strided(pixels, shape, pixels.len() / shape.pixels(), shape.pixels())
    }

    /// `count` frames, each starting `stride` pixels after the one before.
    ///
    /// # Errors
    /// [`Error::Param`] when the stride is shorter than a frame or `pixels` ends before the last frame does.
    pub fn strided(pixels: &'a [u16], shape: Shape, count: usize, stride: usize) -> Result<Self> {
        Shape::new(shape.rows, shape.cols)?;
        if stride < shape.pixels() {
            return Err(Error::param("frame stride", stride, format!("at least {} pixels", shape.pixels())));
        }
        // In 128 bits: count and stride may be anything that a file claims.
        let need = match count {
            0 => 0,
            n => (n as u128 - 1) * stride as u128 + shape.pixels() as u128,
        };
        if (pixels.len() as u128) < need {
            return Err(Error::param(
                "frames",
                format!("{} pixels", pixels.len()),
                format!("at least {need} for {count} frames of {shape}"),
            ));
        }
        Ok(Frames { pixels, shape, count, stride, numbers: Numbers::From(0), lost: &[], lost_first: 0 })
    }

    /// The frames of a three-dimensional array `frames x rows x cols` in C order.
    ///
    /// # Errors
    /// [`Error::Param`] when the array is not contiguous in C order.
    pub fn from_array(array: ArrayView3<'a, u16>) -> Result<Self> {
        let (_, rows, cols) = array.dim();
        let shape = Shape::new(rows, cols)?;
        match array.to_slice() {
            Some(pixels) => Self::new(pixels, shape),
            None => {
                Err(Error::param("frames", "an array with gaps or another order", "C order without gaps"))
            }
        }
    }

    /// The same frames with other numbers.
    ///
    /// # Errors
    /// [`Error::Param`] when a list has not one number a frame, or consecutive ones do not fit in a `u64`.
    pub fn with_numbers(self, numbers: Numbers<'a>) -> Result<Self> {
        if let Numbers::List(list) = numbers
            && list.len() != self.count
        {
            return Err(Error::param("frame numbers", list.len(), format!("{}, one a frame", self.count)));
        }
        if let Numbers::From(first) = numbers
            && first.checked_add(self.count as u64).is_none()
        {
            let most = u64::MAX - self.count as u64;
            return Err(Error::param("first frame number", first, format!("at most {most}")));
        }
        Ok(Frames { numbers, ..self })
    }

    /// The same frames with lost pixels, at most one entry a frame, ordered by frame.
    ///
    /// # Errors
    /// [`Error::ShapeMismatch`] for a mask of another shape, [`Error::Param`] for entries out of order or
    /// outside the batch.
    pub fn with_lost(self, lost: &'a [LostPixels]) -> Result<Self> {
        for l in lost {
            if l.mask.shape() != self.shape {
                return Err(Error::ShapeMismatch {
                    what: format!("lost pixels of frame {}", l.frame),
                    expected: self.shape,
                    got: l.mask.shape(),
                });
            }
        }
        if lost.windows(2).any(|w| w[0].frame >= w[1].frame)
            || lost.last().is_some_and(|l| l.frame >= self.count)
        {
            return Err(Error::param(
                "lost pixels",
                "entries out of order or outside the batch",
                format!("one a frame, ascending, below {}", self.count),
            ));
        }
        Ok(Frames { lost, lost_first: 0, ..self })
    }

    /// Rows and columns of every frame.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// Number of frames.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there is no frame.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Pixels from the start of a frame to the start of the next.
    pub fn stride(&self) -> usize {
        self.stride
    }

    /// The pixels of one frame, row-major.
    ///
    /// # Panics
    /// When `k` is not below [`Frames::len`].
    #[inline]
    pub fn frame(&self, k: usize) -> &'a [u16] {
        assert!(k < self.count, "frame {k} of {}", self.count);
        &self.pixels[k * self.stride..][..self.shape.pixels()]
    }

    /// Everything from the first frame's first pixel to the last frame's last, gaps included.
    pub fn as_slice(&self) -> &'a [u16] {
        match self.count {
            0 => &[],
            n => &self.pixels[..(n - 1) * self.stride + self.shape.pixels()],
        }
    }

    /// The number of one frame.
    #[inline]
    pub fn number(&self, k: usize) -> u64 {
        match self.numbers {
            Numbers::From(first) => first + k as u64,
            Numbers::List(list) => list[k],
        }
    }

    /// The lost pixels of one frame.
    #[inline]
    pub fn lost(&self, k: usize) -> Option<&'a PixelMask> {
        let i = self.lost.binary_search_by_key(&(k + self.lost_first), |l| l.frame).ok()?;
        Some(&self.lost[i].mask)
    }

    /// The frames that have lost pixels, by index in this batch, ascending.
    pub fn lost_frames(&self) -> impl Iterator<Item = (usize, &'a PixelMask)> + use<'a> {
        let (first, end) = (self.lost_first, self.lost_first + self.count);
        self.lost
            .iter()
            .filter(move |l| (first..end).contains(&l.frame))
            .map(move |l| (l.frame - first, &l.mask))
    }

    /// The `count` frames from index `first` on.
    ///
    /// # Panics
    /// When they are not all in the batch.
    pub fn slice(&self, first: usize, count: usize) -> Frames<'a> {
        assert!(first + count <= self.count, "frames {first}..{} of {}", first + count, self.count);
        let pixels = if count == 0 { &[] } else { &self.pixels[first * self.stride..] };
        let numbers = match self.numbers {
            Numbers::From(n) => Numbers::From(n + first as u64),
            Numbers::List(list) => Numbers::List(&list[first..first + count]),
        };
        Frames { pixels, count, numbers, lost_first: self.lost_first + first, ..*self }
    }

    /// The batches of at most `size` frames that make up this one, in order.
    ///
    /// # Panics
    /// When `size` is 0.
    pub fn batches(&self, size: usize) -> impl Iterator<Item = Frames<'a>> + use<'a> {
        assert!(size > 0, "batches of at least one frame");
        let all = *self;
        (0..all.count).step_by(size).map(move |first| all.slice(first, size.min(all.count - first)))
    }
}
