//! What a finder is asked to compute.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::frames::Shape;
use crate::mask::PixelMask;
use crate::pedestal::Pedestal;

/// Width and height of a cluster's window in pixels, each from 2 to 15.
///
/// The window of a pixel covers rows `-(h/2) .. h/2 + h%2 - 1` around it and columns likewise: for even sizes the
/// extra row lies above and the extra column to the left ([SPEC 3](crate::spec#3-a-frame)).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ClusterSize {
    /// Columns.
    pub w: usize,
    /// Rows.
    pub h: usize,
}

impl ClusterSize {
    /// A window of `w x h` pixels.
    ///
    /// # Errors
    /// [`Error::Param`] outside 2 to 15.
    pub fn new(w: usize, h: usize) -> Result<Self> {
        let side = 2..=15;
        if !side.contains(&w) || !side.contains(&h) {
            return Err(Error::param("cluster size", format!("{w}x{h}"), "2 to 15 pixels each way"));
        }
        Ok(ClusterSize { w, h })
    }

    /// A square window.
    ///
    /// # Errors
    /// [`Error::Param`] outside 2 to 15.
    pub fn square(side: usize) -> Result<Self> {
        Self::new(side, side)
    }

    /// Pixels of the window.
    pub const fn pixels(self) -> usize {
        self.w * self.h
    }

    /// Rows above the centre, `h / 2`.
    pub const fn up(self) -> usize {
        self.h / 2
    }

    /// Rows below the centre.
    pub const fn down(self) -> usize {
        self.h - 1 - self.h / 2
    }

    /// Columns left of the centre, `w / 2`.
    pub const fn left(self) -> usize {
        self.w / 2
    }

    /// Columns right of the centre.
    pub const fn right(self) -> usize {
        self.w - 1 - self.w / 2
    }

    /// Index of the centre in a cluster's row-major data.
    pub const fn centre(self) -> usize {
        self.up() * self.w + self.left()
    }
}

impl fmt::Display for ClusterSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x{}", self.w, self.h)
    }
}

impl FromStr for ClusterSize {
    type Err = Error;

    /// `3` or `3x5` (width x height).
    fn from_str(s: &str) -> Result<Self> {
        let side = |t: &str| t.trim().parse::<usize>();
        let parsed = match s.split_once(['x', 'X']) {
            Some((w, h)) => side(w).and_then(|w| side(h).map(|h| (w, h))),
            None => side(s).map(|n| (n, n)),
        };
        let (w, h) =
            parsed.map_err(|_| Error::param("cluster size", s, "a number like 3, or WxH like 3x5"))?;
        Self::new(w, h)
    }
}

macro_rules! words {
    ($(#[$doc:meta])* $name:ident, $param:literal, { $($(#[$vdoc:meta])* $variant:ident = $word:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $name { $($(#[$vdoc])* $variant,)+ }

        impl $name {
            /// Every value, in the order of its words.
            pub const ALL: &'static [$name] = &[$($name::$variant),+];

            /// The word that names the value on a command line and in a file.
            pub const fn word(self) -> &'static str {
                match self { $($name::$variant => $word),+ }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.word())
            }
        }

        impl FromStr for $name {
            type Err = Error;
            fn from_str(s: &str) -> Result<Self> {
                match s {
                    $($word => Ok($name::$variant),)+
                    _ => Err(Error::param($param, s, [$($word),+].join(" or "))),
                }
            }
        }
    };
}

words! {
    /// Which pedestal a decision sees ([SPEC 4](crate::spec#4-modes)).
    Update, "update", {
        /// The one at the start of the frame.
        Frozen = "frozen",
        /// One updated pixel by pixel in raster order inside the frame. CPU only.
        Serial = "serial",
    }
}
words! {
    /// Which noise a decision compares with ([SPEC 4](crate::spec#4-modes)).
    Noise, "noise", {
        /// The pixel's own, tracked every frame.
        Tracked = "tracked",
        /// The one at the end of training, until the noise is refreshed.
        Fixed = "fixed",
    }
}
words! {
    /// The precision of the pedestal and of a decision, `(P, C)` ([SPEC 2](crate::spec#2-pedestal) and
    /// [3](crate::spec#3-a-frame)).
    Precision, "precision", {
        /// `(f32, f32)`.
        F32 = "f32",
        /// `(f64, f32)`.
        F64F32 = "f64f32",
        /// `(f64, f64)`. CPU only.
        F64 = "f64",
    }
}
words! {
    /// What happens when the maximum of a window stands in it more than once ([SPEC 3](crate::spec#3-a-frame)).
    Ties, "ties", {
        /// Each equal maximum is stored.
        All = "all",
        /// Only the first in raster order is stored.
        First = "first",
    }
}
words! {
    /// The type of a stored cluster value ([SPEC 3](crate::spec#3-a-frame)).
    Payload, "payload", {
        /// Rounded half away from zero.
        I32 = "i32",
        /// The same in 16 bits; values that do not fit are cut and counted.
        I16 = "i16",
        /// Half precision, rounded to nearest even; values from 65,520 ADU are infinite and counted.
        F16 = "f16",
        /// Single precision.
        F32 = "f32",
    }
}

impl Precision {
    /// Whether the pedestal is kept in `f64`.
    pub const fn pedestal_is_f64(self) -> bool {
        !matches!(self, Precision::F32)
    }

    /// Whether decisions are made in `f64`.
    pub const fn compute_is_f64(self) -> bool {
        matches!(self, Precision::F64)
    }
}

impl Payload {
    /// Bytes of one value.
    pub const fn bytes(self) -> usize {
        match self {
            Payload::I32 | Payload::F32 => 4,
            Payload::I16 | Payload::F16 => 2,
        }
    }
}

/// Everything that decides what a finder computes. Two finders with equal parameters return the same bytes,
/// whatever backend runs them.
///
/// ```
/// use scheidegg_finder::{ClusterSize, Params, Precision};
///
/// let params = Params { precision: Precision::F32, ..Params::new(ClusterSize::square(3)?) };
/// # Ok::<(), scheidegg_finder::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Params {
    /// The window of a cluster.
    pub size: ClusterSize,
    /// The threshold in units of a pixel's noise. Default 5.
    pub n_sigma: f64,
    /// Which pedestal a decision sees. Default frozen.
    pub update: Update,
    /// Which noise a decision compares with. Default tracked.
    pub noise: Noise,
    /// Precision of pedestal and decision. Default `(f32, f32)`.
    pub precision: Precision,
    /// Equal maxima. Default all.
    pub ties: Ties,
    /// Whether the quadrant test is made too (odd sizes only). Default no.
    pub test2: bool,
    /// Independent pedestal chains: frame `k` of a run belongs to lane `k mod lanes`. Default 1.
    pub lanes: usize,
    /// Pixels that never take part.
    pub mask: Option<Arc<PixelMask>>,
    /// A pixel's noise is never taken to be below this many ADU. Default 0.
    pub noise_floor_adu: f64,
    /// The type of stored values. Default `i32`.
    pub payload: Payload,
    /// Dark frames in the pedestal's window, `N`. Default 1000.
    pub pedestal_samples: u64,
    /// Whether the branch of every pixel is returned ([SPEC 6](crate::spec#6-branch-codes)). Default no.
    pub trace: bool,
}

impl Params {
    /// The most pixels of all lanes together: their pedestals take some 20 bytes each.
    pub const MOST_LANE_PIXELS: usize = 1 << 32;

    /// The default parameters for a window.
    pub fn new(size: ClusterSize) -> Self {
        Params {
            size,
            n_sigma: 5.0,
            update: Update::Frozen,
            noise: Noise::Tracked,
            precision: Precision::F32,
            ties: Ties::All,
            test2: false,
            lanes: 1,
            mask: None,
            noise_floor_adu: 0.0,
            payload: Payload::I32,
            pedestal_samples: 1000,
            trace: false,
        }
    }

    /// Checks every value against its range and the frames' shape.
    ///
    /// # Errors
    /// [`Error::Param`] or [`Error::ShapeMismatch`] for the first that does not fit.
    pub fn validate(&self, shape: Shape) -> Result<()> {
        Shape::new(shape.rows, shape.cols)?;
        ClusterSize::new(self.size.w, self.size.h)?;
        // The square must be finite in f32 too, or a threshold would be infinite or NaN.
        if !(self.n_sigma > 0.0 && self.n_sigma <= 1e6) {
            return Err(Error::param("n_sigma", self.n_sigma, "a number above 0, at most 1e6"));
        }
        if !(self.noise_floor_adu >= 0.0 && self.noise_floor_adu <= 65535.0) {
            return Err(Error::param("noise_floor_adu", self.noise_floor_adu, "0 to 65535 ADU"));
        }
        if self.lanes == 0 || self.lanes > 4096 {
            return Err(Error::param("lanes", self.lanes, "1 to 4096"));
        }
        if shape.pixels().saturating_mul(self.lanes) > Self::MOST_LANE_PIXELS {
            let most = format!("at most {} for frames of {shape}", Self::MOST_LANE_PIXELS / shape.pixels());
            return Err(Error::param("lanes", self.lanes, most));
        }
        if !(2..=Pedestal::MOST_SAMPLES).contains(&self.pedestal_samples) {
            let range = format!("2 to {} dark frames", Pedestal::MOST_SAMPLES);
            return Err(Error::param("pedestal_samples", self.pedestal_samples, range));
        }
        if self.test2 && (self.size.w.is_multiple_of(2) || self.size.h.is_multiple_of(2)) {
            return Err(Error::param(
                "test2",
                format!("on with {}", self.size),
                "an odd cluster size both ways",
            ));
        }
        if let Some(mask) = &self.mask
            && mask.shape() != shape
        {
            return Err(Error::ShapeMismatch { what: "mask".into(), expected: shape, got: mask.shape() });
        }
        Ok(())
    }
}
