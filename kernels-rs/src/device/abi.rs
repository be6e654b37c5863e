//! What host and device agree on: entry names, argument structs, launch geometry, sizes of buffers.
//!
//! A chunk of frames goes through four kernels, in this order on one stream:
//!
//! | entry | grid x block | what it does |
//! |---|---|---|
//! | `resident_*` (one launch a lane, all blocks at once) or | [`Tiling::tiles`], [`Tiling::threads`] | finds clusters, updates the pedestal |
//! | `frame_*` (several launches) | [`Tiling::tiles`] x lanes, [`Tiling::threads`] | the same for some frames |
//! | `scan` | frames x 1, [`SCAN_THREADS`] | ranks of the set bits of a frame's bitmap |
//! | `offsets` | 1 x 1, [`SCAN_THREADS`] | where each frame's records start, the [`Header`] |
//! | `place` | frames*tiles x 1, [`PLACE_THREADS`] | which staged record stands at which rank |
//! | `copy` | any x 1, [`COPY_THREADS`] | the records in order, at their true size |
//!
//! Only `resident_*`, `frame_*` and `scan`, `offsets` use dynamic shared memory ([`Tiling::shared_bytes`], [`SCAN_SHARED_BYTES`]).
//! Every argument struct is passed by value as the one parameter of its entry.

use crate::physics::Decision;

/// The most threads that a block of the entry may have.
pub const fn max_threads(entry: &str) -> u32 {
    match entry.as_bytes() {
        // frame_f32_3x3, frame_f32_5x5 and frame_f64_3x3, with fixed noise too.
        [b'f', _, _, _, _, _, _, b'3', _, _, b'3' | b'5', ..]
        | [b'f', _, _, _, _, _, _, b'6', _, _, b'3', ..] => MAX_THREADS,
        _ => MAX_THREADS_GENERAL,
    }
}

pub use super::tiling::{Tiling, Window, suggested_frames};

/// Threads of a block of `scan` and of `offsets`.
pub const SCAN_THREADS: u32 = 256;
/// Dynamic shared memory of `scan` and of `offsets`.
pub const SCAN_SHARED_BYTES: u32 = SCAN_THREADS * 2 * 4;
/// Threads of a block of `place`.
pub const PLACE_THREADS: u32 = 32;
/// Threads of a block of `copy`; a grid of two blocks a multiprocessor is plenty.
pub const COPY_THREADS: u32 = 256;
/// The most threads of a block of an entry that finds clusters (`.maxntid` in the PTX) where 96 registers are enough.
pub const MAX_THREADS: u32 = 640;
/// The same of the other entries: 128 registers.
pub const MAX_THREADS_GENERAL: u32 = 512;
/// Added to [`FrameArgs::saturated`] by every thread that stopped waiting for a neighbour, which is a fault: all blocks of
/// a `resident_*` launch run at once.
pub const UNHEARD: u64 = 1 << 48;
/// In [`FrameArgs::lost_slot`]: the frame lost nothing.
pub const NO_LOST: u32 = u32::MAX;

/// Type of a stored value, as [`Job::payload`].
pub mod payload {
    /// Rounded half away from zero.
    pub const I32: u32 = 0;
    /// The same in 16 bits, cut to fit.
    pub const I16: u32 = 1;
    /// Half precision, to nearest even.
    pub const F16: u32 = 2;
    /// Single precision.
    pub const F32: u32 = 3;
}

/// Name of the entry `scan`.
pub const SCAN: &str = "scan";
/// Name of the entry `offsets`.
pub const OFFSETS: &str = "offsets";
/// Name of the entry `place`.
pub const PLACE: &str = "place";
/// Name of the entry `copy`.
pub const COPY: &str = "copy";

/// Every entry that finds clusters, given to the macro `$with`: kernel, name, type of the pedestal's sums, rule. Those of
/// [`frame_entry`] come first, in the order that it counts on.
#[macro_export]
macro_rules! entries {
    ($with:ident) => {
        $with! {
            frame frame_f32_3x3: f32, Square<3, false>;
            frame frame_f32_5x5: f32, Square<5, false>;
            frame frame_f32_7x7: f32, Square<7, false>;
            frame frame_f32_9x9: f32, Square<9, false>;
            frame frame_f32_3x3_fixed: f32, Square<3, true>;
            frame frame_f32_5x5_fixed: f32, Square<5, true>;
            frame frame_f32_7x7_fixed: f32, Square<7, true>;
            frame frame_f32_9x9_fixed: f32, Square<9, true>;
            frame frame_f32_any: f32, Any<false>;
            frame frame_f32_trace: f32, Any<true>;
            frame frame_f64_3x3: f64, Square<3, false>;
            frame frame_f64_5x5: f64, Square<5, false>;
            frame frame_f64_7x7: f64, Square<7, false>;
            frame frame_f64_9x9: f64, Square<9, false>;
            frame frame_f64_3x3_fixed: f64, Square<3, true>;
            frame frame_f64_5x5_fixed: f64, Square<5, true>;
            frame frame_f64_7x7_fixed: f64, Square<7, true>;
            frame frame_f64_9x9_fixed: f64, Square<9, true>;
            frame frame_f64_any: f64, Any<false>;
            frame frame_f64_trace: f64, Any<true>;
            resident resident_f32_3x3: f32, Square<3, false>;
            resident resident_f32_5x5: f32, Square<5, false>;
            resident resident_f32_7x7: f32, Square<7, false>;
            resident resident_f32_9x9: f32, Square<9, false>;
            resident resident_f32_3x3_fixed: f32, Square<3, true>;
            resident resident_f32_5x5_fixed: f32, Square<5, true>;
            resident resident_f32_7x7_fixed: f32, Square<7, true>;
            resident resident_f32_9x9_fixed: f32, Square<9, true>;
            resident resident_f64_3x3: f64, Square<3, false>;
            resident resident_f64_5x5: f64, Square<5, false>;
            resident resident_f64_7x7: f64, Square<7, false>;
            resident resident_f64_9x9: f64, Square<9, false>;
            resident resident_f64_3x3_fixed: f64, Square<3, true>;
            resident resident_f64_5x5_fixed: f64, Square<5, true>;
            resident resident_f64_7x7_fixed: f64, Square<7, true>;
            resident resident_f64_9x9_fixed: f64, Square<9, true>;
        }
    };
}

macro_rules! names {
    ($($kernel:ident $name:ident: $p:ty, $rule:ty;)+) => {
        /// The names of all entries that find clusters.
        pub const FRAME_ENTRIES: [&str; [$(stringify!($name)),+].len()] = [$(stringify!($name)),+];
    };
}
entries!(names);

/// The entry that does the same as a `frame_*` entry on a resident tiling; nothing for the general entries.
pub fn resident_entry(frame_entry: &str) -> Option<&'static str> {
    let kind = frame_entry.strip_prefix("frame_")?;
    FRAME_ENTRIES.into_iter().find(|e| e.strip_prefix("resident_") == Some(kind))
}

/// The entry for a pedestal precision, a window and options: the four squares have code of their own, for tracked
/// and for fixed noise; other sizes, `ties = first` and test 2 take the general code, a branch trace the general
/// code with a trace.
pub const fn frame_entry(
    pedestal_f64: bool,
    w: u32,
    h: u32,
    fixed_noise: bool,
    ties_first: bool,
    test2: bool,
    trace: bool,
) -> &'static str {
    let fixed = if fixed_noise { 4 } else { 0 };
    let at = match (w, h) {
        _ if trace => 9,
        _ if ties_first || test2 => 8,
        (3, 3) => fixed,
        (5, 5) => 1 + fixed,
        (7, 7) => 2 + fixed,
        (9, 9) => 3 + fixed,
        _ => 8,
    };
    FRAME_ENTRIES[at + if pedestal_f64 { 10 } else { 0 }]
}

/// What does not change during a run.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Job {
    /// The constants of the decision.
    pub decision: Decision<f32>,
    /// Rows of a frame.
    pub rows: u32,
    /// Columns of a frame.
    pub cols: u32,
    /// The window.
    pub window: Window,
    /// One of [`payload`].
    pub payload: u32,
    /// Not 0: of equal maxima only the first in raster order is stored. General entries only.
    pub ties_first: u32,
    /// Not 0: with the quadrant test. General entries only.
    pub test2: u32,
}

impl Job {
    /// Pixels of a frame.
    pub const fn pixels(&self) -> u64 {
        self.rows as u64 * self.cols as u64
    }

    /// Bytes of a stored value.
    pub const fn value_bytes(&self) -> u32 {
        if self.payload == payload::I16 || self.payload == payload::F16 { 2 } else { 4 }
    }

    /// Bytes of a record as it is given out: `x` and `y` as `u16`, then the values.
    pub const fn record_bytes(&self) -> u32 {
        4 + self.window.w * self.window.h * self.value_bytes()
    }

    /// Bytes from one staged record to the next: [`Job::record_bytes`], rounded up to 8.
    pub const fn staged_bytes(&self) -> u32 {
        self.record_bytes().next_multiple_of(8)
    }

    /// `u32` words of a bit set of one frame (mask or lost pixels): that of `PixelMask::words()` read as `u32`,
    /// pixel `i` at bit `i % 32` of word `i / 32`, and an even number of words.
    pub const fn mask_words(&self) -> u64 {
        self.pixels().div_ceil(64) * 2
    }
}

/// Arguments of a `frame_*` or `resident_*` entry with a pedestal in `P`.
///
/// A launch takes `frames` frames of each of `gridDim.y` lanes. Block row `b` (`blockIdx.y`) works on lane
/// `(lane0 + b) % lanes` and on the chunk's frames `first + b + i*step` for `i` below `frames`, those at `end` and
/// beyond left out. One lane: `step = 1`, `gridDim.y = 1`. All lanes in one launch: `step = lanes`,
/// `gridDim.y = lanes`. One lane of several: `step = lanes`, `gridDim.y = 1`, `first` its first frame, `lane0` it.
///
/// A `resident_*` entry does one lane (`gridDim.y = 1`); all its blocks must be on the GPU at once (a cooperative
/// launch).
///
/// Blocks read the pedestal of their neighbours' pixels, so `sum_in` and `sum_out` must be different memory. A
/// chunk can be done again as long as the planes that its first launch read are untouched.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct FrameArgs<P> {
    /// Frame 0 of the chunk.
    pub raw: *const u16,
    /// Pixels from the start of a frame to the next.
    pub stride: u64,
    /// Offsets, one a pixel.
    pub x0: *const u16,
    /// Running sums before the launch, `lanes x pixels`.
    pub sum_in: *const P,
    /// Running sums of squares before the launch, `lanes x pixels`.
    pub sum2_in: *const P,
    /// Running sums after the launch, other memory than `sum_in`.
    pub sum_out: *mut P,
    /// Running sums of squares after the launch.
    pub sum2_out: *mut P,
    /// With fixed noise the variance that decisions use, `lanes x pixels`; null: tracked noise.
    /// The entries of the squares look at it only if their name ends in `_fixed`.
    pub fixed: *const P,
    /// Pixels masked for the run, [`Job::mask_words`]; null: none.
    pub mask: *const u32,
    /// For every frame of the chunk the index of its set in `lost_bits`, or [`NO_LOST`]; null: nothing was lost.
    pub lost_slot: *const u32,
    /// Sets of lost pixels, [`Job::mask_words`] each.
    pub lost_bits: *const u32,
    /// Staged records, `chunk frames x tiles x cap_tile` of [`Job::staged_bytes`], aligned to 8.
    pub staging: *mut u8,
    /// Stored pixels, `chunk frames x` [`Tiling::bitmap_words`].
    pub bitmaps: *mut u32,
    /// Clusters found, `chunk frames x tiles`; counted past `cap_tile`.
    pub counts: *mut u32,
    /// Values cut to fit an `i16` are added here; the host zeroes it before a chunk.
    pub saturated: *mut u64,
    /// Branch codes, `chunk frames x pixels`; `frame_*_trace` only.
    pub trace: *mut u8,
    /// What blocks tell each other: a value and its frame's number for every pixel, for even and for odd frames,
    /// `2 x pixels`; `resident_*` only. The host zeroes it before a chunk.
    pub edges: *mut u64,
    /// `1/N`, rounded in `P`.
    pub inv_n: P,
    /// The run.
    pub job: Job,
    /// How the frame is cut.
    pub tiling: Tiling,
    /// The launch's first frame in the chunk.
    pub first: u32,
    /// Frames a lane; at most [`Tiling::frames_per_launch`].
    pub frames: u32,
    /// Frames of the chunk from one frame of a lane to its next.
    pub step: u32,
    /// Frames of the chunk.
    pub end: u32,
    /// Lane of block row 0.
    pub lane0: u32,
    /// Lanes in the planes.
    pub lanes: u32,
    /// Records that fit into the staging of a tile and frame.
    pub cap_tile: u32,
    /// Frames that launches before this one have told of since `edges` was zeroed.
    pub told: u32,
}

/// What `scan` knows of a frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct FrameInfo {
    /// Clusters found: set bits of the bitmap.
    pub found: u32,
    /// The same by the tiles' counts; differs only if a kernel is wrong.
    pub counted: u32,
    /// The largest count of a tile.
    pub fullest_tile: u32,
    /// Always 0.
    pub reserved: u32,
}

/// What the host wants to know of a chunk first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Header {
    /// Clusters of all frames, whether they fit or not.
    pub total: u64,
    /// Some of [`Header::TILE_OVERFLOW`], [`Header::OUT_OVERFLOW`], [`Header::MISMATCH`].
    pub flags: u32,
    /// The largest count of a tile: the `cap_tile` that is enough.
    pub fullest_tile: u32,
}

impl Header {
    /// A tile found more than `cap_tile`: nothing was copied, do the chunk again with `cap_tile = fullest_tile`.
    pub const TILE_OVERFLOW: u32 = 1;
    /// More than `out_cap` in all: nothing was copied, do `offsets`, `place` and `copy` again with room for `total`.
    pub const OUT_OVERFLOW: u32 = 2;
    /// Bits and counts of some frame differ: a fault.
    pub const MISMATCH: u32 = 4;
}

/// Arguments of `scan`, `offsets`, `place` and `copy`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct GatherArgs {
    /// As in [`FrameArgs`].
    pub staging: *const u8,
    /// As in [`FrameArgs`].
    pub bitmaps: *const u32,
    /// As in [`FrameArgs`].
    pub counts: *const u32,
    /// Ranks within the frame, as many words as `bitmaps`. Written by `scan`.
    pub ranks: *mut u32,
    /// One a frame. Written by `scan`.
    pub infos: *mut FrameInfo,
    /// Where every frame's records start and one more, `frames + 1`, in records. Written by `offsets`.
    pub offsets: *mut u64,
    /// One. Written by `offsets`.
    pub header: *mut Header,
    /// The staged record at every place, `out_cap`. Written by `place`.
    pub order: *mut u32,
    /// The records, `out_cap * record_bytes` rounded up to 16, aligned to 16. Written by `copy`.
    pub out: *mut u8,
    /// The run.
    pub job: Job,
    /// How the frame is cut.
    pub tiling: Tiling,
    /// Frames of the chunk.
    pub frames: u32,
    /// As in [`FrameArgs`].
    pub cap_tile: u32,
    /// Records that fit into `out`.
    pub out_cap: u64,
}

/// Sizes of the buffers of a chunk of `frames` frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// Bytes of `staging`.
    pub staging_bytes: u64,
    /// Words of `bitmaps` and of `ranks`.
    pub bitmap_words: u64,
    /// Words of `counts`.
    pub counts: u64,
    /// Entries of `infos`.
    pub infos: u64,
    /// Entries of `offsets`.
    pub offsets: u64,
    /// Words of `order`.
    pub order: u64,
    /// Bytes of `out`.
    pub out_bytes: u64,
}

impl Sizes {
    /// The sizes, or nothing when a staged record's index would not fit a `u32`: then fewer frames or less room.
    pub const fn new(job: &Job, tiling: &Tiling, frames: u32, cap_tile: u32, out_cap: u64) -> Option<Sizes> {
        let tiles = frames as u64 * tiling.tiles() as u64;
        let staged = tiles * cap_tile as u64;
        if staged > u32::MAX as u64 {
            return None;
        }
        Some(Sizes {
            staging_bytes: staged * job.staged_bytes() as u64,
            bitmap_words: frames as u64 * tiling.bitmap_words(job.rows),
            counts: tiles,
            infos: frames as u64,
            offsets: frames as u64 + 1,
            order: out_cap,
            out_bytes: (out_cap * job.record_bytes() as u64).next_multiple_of(16),
        })
    }
}
