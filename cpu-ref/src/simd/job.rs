//! What a kernel works on: a frame with the state of its lane ([`Job`]), and how far the frame has come ([`Pipe`]).

use scheidegg_finder::{ClusterSize, Payload};
use scheidegg_kernels::Real;
use scheidegg_kernels::physics::Decision;

use super::aligned::{Aligned, Plain};
use super::shells::Kernel;
use super::vector::BLOCK;

/// Zeros left and right of a row of corrected values: at least a window's reach and a vector.
pub(super) const PAD: usize = 16;

/// Bytes that a record may be written past its end.
pub(super) const SPILL: usize = 64;

/// Stored windows of a word of bits that are looked for before it is known how many there are.
pub(super) const GUESS: usize = 3;

/// Rows that are decided at once.
pub(super) const AT_ONCE: usize = 2;

/// Rows and columns, and how rows are laid out.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    /// Rows of a frame.
    pub rows: usize,
    /// Columns of a frame.
    pub cols: usize,
    /// Columns of a row of state: a whole number of blocks. The pixels past `cols` have sums of 0 and read 0, so
    /// that they stay 0 and never win.
    pub width: usize,
    /// The window.
    pub size: ClusterSize,
    /// Words of a row of bits.
    pub words: usize,
}

impl Layout {
    pub fn new(rows: usize, cols: usize, size: ClusterSize) -> Self {
        let width = cols.next_multiple_of(BLOCK);
        Layout { rows, cols, width, size, words: width.div_ceil(64) }
    }
}

/// A frame to be judged and the state of its lane.
///
/// Pointers, because several frames of a lane are on their way at once, each in other rows of the same planes:
/// a frame touches row `r` of the state only when the frame before has decided it.
pub(super) struct Job<P, C> {
    /// How rows are laid out.
    pub layout: Layout,
    /// `1 / N`.
    pub inv_n: P,
    /// The constants of a decision.
    pub rule: Decision<C>,
    /// `sum` and `sum2`, block by block in turn: rows of `2 * width`.
    pub state: *mut P,
    /// Offsets: rows of `width`.
    pub x0: *const u16,
    /// With fixed noise the thresholds squared: rows of `width`. Null when noise is tracked.
    pub fixed: *const C,
    /// The frame: rows of `cols`.
    pub frame: *const u16,
    /// Masked pixels: rows of `words`. Null for none.
    pub mask: *const u64,
    /// Branch codes: rows of `cols`. Null when they are not asked for.
    pub trace: *mut u8,
    /// The type of stored values.
    pub payload: Payload,
    /// Whether only the first of equal maxima is stored.
    pub ties_first: bool,
    /// Whether the corners are tested.
    pub test2: bool,
    /// Whether every corrected value is small enough for a vector's rounding.
    pub small: bool,
}

impl<P, C> Job<P, C> {
    /// Whether a frame has masked pixels.
    #[inline(always)]
    pub fn masked(&self) -> bool {
        !self.mask.is_null()
    }
}

/// Records of a part of a frame: written straight into the batch's result where their place is known, otherwise
/// put aside.
pub(super) struct Stage {
    aside: Vec<u8>,
    /// Where records go, good for `room` bytes: the result, or `aside`.
    to: *mut u8,
    room: usize,
    direct: bool,
    /// Bytes of whole records.
    pub len: usize,
    /// Values cut to fit.
    pub saturated: u64,
}

// SAFETY: `to` points into `aside`, or into the result of a batch, of which the stage's holder alone may write that part.
unsafe impl Send for Stage {}

impl Default for Stage {
    fn default() -> Self {
        let to = std::ptr::null_mut();
        Stage { aside: Vec::new(), to, room: 0, direct: false, len: 0, saturated: 0 }
    }
}

impl Stage {
    /// Empties it. Records are put aside.
    pub fn restart(&mut self) {
        (self.len, self.saturated, self.direct) = (0, 0, false);
        (self.to, self.room) = (self.aside.as_mut_ptr(), self.aside.len());
    }

    /// Empties it. Records go to `to` as long as they fit.
    ///
    /// # Safety
    /// `to` is good for `room` bytes, and nobody else uses them before the stage is emptied again.
    pub unsafe fn restart_at(&mut self, to: *mut u8, room: usize) {
        (self.len, self.saturated, self.direct) = (0, 0, true);
        (self.to, self.room) = (to, room);
    }

    /// Makes room for `more` bytes and what may be written past them.
    #[inline(always)]
    pub fn reserve(&mut self, more: usize) {
        if self.len + more + SPILL > self.room {
            self.grow(more);
        }
    }

    #[cold]
    fn grow(&mut self, more: usize) {
        let need = self.len + more + SPILL;
        if need > self.aside.len() {
            self.aside.resize(need.max(self.aside.len() * 2), 0);
        }
        if self.direct {
            // SAFETY: `len` bytes were written there; `aside` has room for more.
            unsafe { self.to.copy_to_nonoverlapping(self.aside.as_mut_ptr(), self.len) };
            self.direct = false;
        }
        (self.to, self.room) = (self.aside.as_mut_ptr(), self.aside.len());
    }

    /// Where the next record goes.
    #[inline(always)]
    pub fn end(&mut self) -> *mut u8 {
        self.to.wrapping_add(self.len)
    }

    /// The records, unless they are in the result already.
    pub fn aside(&self) -> Option<&[u8]> {
        (!self.direct).then(|| &self.aside[..self.len])
    }
}

/// A frame on its way: a ring of the rows that its undecided windows reach.
///
/// A slot of the ring holds of one row: the corrected values between their pads; the row sums and row maxima of
/// every window, block by block in turn; the centred pixels; with test 2 the row sums of the left and right
/// halves of windows, block by block in turn; in serial mode the corrected values after the update between their pads.
pub(super) struct Pipe<C> {
    ring: Aligned<C>,
    /// Rows in the ring.
    slots: usize,
    /// Values of a slot.
    slot: usize,
    /// Where row sums and maxima start in a slot.
    pub sums: usize,
    /// Where centred pixels start.
    pub centred: usize,
    /// Where half row sums start.
    pub halves: usize,
    /// Where corrected values after the update start.
    pub finals: usize,
    /// Where the corrected values start that rows below see.
    above: usize,
    /// Rows before this one are converted.
    pub converted: usize,
    /// Rows before this one are decided: their state is that of the next frame.
    pub decided: usize,
    /// Rows before `decided` whose corrected values came from another pipe, without row sums and maxima.
    pub bare: usize,
    /// Bits of rows, see [`Bits`].
    pub bits: Aligned<u64>,
    /// Rows of values for the serial kernel.
    pub scratch: Aligned<C>,
    /// Values of a scratch row.
    pub scratch_row: usize,
    /// State of masked pixels while a row is updated.
    pub saved: Vec<(usize, f64, f64)>,
    /// Columns of a row's stored windows.
    pub picks: Aligned<u16>,
    /// The end of a row that is no whole number of vectors.
    pub tail: [u16; BLOCK],
    /// The frame's records.
    pub stage: Stage,
}

/// Rows of bits in [`Pipe::bits`].
#[derive(Clone, Copy)]
pub(super) enum Bits {
    /// Stored windows, of each of the rows that are decided at once.
    Stored = 0,
    /// Pixels that are fed back.
    Update = 2,
    /// Test 1 succeeds.
    Peak = 3,
    /// Any test succeeds.
    Fires = 5,
    /// Far below the pedestal.
    Negative = 7,
    /// Not decided by the bounds of the pixels to the left.
    Open = 9,
}
const BIT_ROWS: usize = 10;

/// Rows of [`Pipe::scratch`].
#[derive(Clone, Copy)]
pub(super) enum Scratch {
    /// Corrected values at the frame's start.
    Old = 0,
    /// Those after an update.
    New = 1,
    /// The smaller of both.
    Low = 2,
    /// The larger of both.
    High = 3,
    /// Thresholds squared.
    Threshold = 4,
}
const SCRATCH_ROWS: usize = 5;

impl<C: Real + Plain> Pipe<C> {
    /// A ring for a kernel.
    pub fn new(layout: Layout, kernel: Kernel, test2: bool) -> Self {
        let Layout { cols, width, size, words, .. } = layout;
        let edge = width + 2 * PAD;
        // Windows 3 wide are summed from the corrected values.
        let direct = matches!(kernel, Kernel::Frozen(3) | Kernel::Serial(3));
        let serial = matches!(kernel, Kernel::Serial(_) | Kernel::SerialAny);
        let sums = edge;
        let centred = sums + if direct { 0 } else { 2 * width };
        let halves = centred + width;
        let finals = halves + if test2 { 2 * width } else { 0 };
        let above = if kernel == Kernel::Serial(3) { finals } else { 0 };
        let slot = if above == 0 { finals } else { finals + edge };
        // The rows of the windows that are decided at once, and one that is converted ahead.
        let slots = size.h + AT_ONCE;
        let scratch_row = edge;
        Pipe {
            ring: Aligned::zeroed(slot * (slots + 1)),
            slots,
            slot,
            sums,
            centred,
            halves,
            finals,
            above,
            converted: 0,
            decided: 0,
            bare: 0,
            bits: Aligned::zeroed(BIT_ROWS * words),
            scratch: Aligned::zeroed(if serial { SCRATCH_ROWS * scratch_row } else { 0 }),
            scratch_row,
            saved: Vec::with_capacity(cols * AT_ONCE),
            picks: Aligned::zeroed(cols + GUESS),
            tail: [0; BLOCK],
            stage: Stage::default(),
        }
    }

    /// Bytes of the ring.
    pub fn bytes(&self) -> usize {
        self.slot * (self.slots + 1) * C::BYTES
    }

    /// To row `first`. The rows above it have to be [taken](Pipe::take) from the pipe that brought the frame there.
    pub fn restart(&mut self, first: usize) {
        (self.converted, self.decided, self.bare) = (first, first, 0);
    }

    /// Values of a row of corrected values with its pads.
    pub fn edge(&self) -> usize {
        self.scratch_row
    }

    /// Copies the corrected values of the `count` rows before the last one decided.
    pub fn give(&mut self, count: usize, to: &mut [C]) {
        let edge = self.edge();
        for (r, to) in (self.decided - count..self.decided).zip(to.chunks_exact_mut(edge)) {
            // SAFETY: there a slot has a row of corrected values and its pads.
            unsafe { self.row(r).add(self.above).copy_to_nonoverlapping(to.as_mut_ptr(), edge) };
        }
    }

    /// Takes the corrected values of the `count` rows before the first one.
    pub fn take(&mut self, count: usize, from: &[C]) {
        let edge = self.edge();
        for (r, from) in (self.decided - count..self.decided).zip(from.chunks_exact(edge)) {
            // SAFETY: as in `give`.
            unsafe { self.row(r).add(self.above).copy_from_nonoverlapping(from.as_ptr(), edge) };
        }
        self.bare = count;
    }

    /// The slot of a row in the ring.
    #[inline(always)]
    pub fn row(&mut self, r: usize) -> *mut C {
        let at = (r % self.slots) * self.slot;
        // SAFETY: within the ring.
        unsafe { self.ring.as_mut_ptr().add(at) }
    }

    /// The slots of rows `first ..` for every element of `to`; rows outside the frame are rows of zeros.
    #[inline(always)]
    pub fn rows(&mut self, first: isize, rows: usize, to: &mut [*const C]) {
        let base = self.ring.as_mut_ptr();
        // SAFETY: one slot more than there are rows in the ring; nobody writes to it.
        let zeros = unsafe { base.add(self.slots * self.slot) };
        let mut at = first.rem_euclid(self.slots as isize) as usize;
        for (i, to) in to.iter_mut().enumerate() {
            let r = first + i as isize;
            *to = if r < 0 || r >= rows as isize {
                zeros
            } else {
                // SAFETY: `at` is a slot of the ring.
                unsafe { base.add(at * self.slot) }
            };
            at += 1;
            if at == self.slots {
                at = 0;
            }
        }
    }

    /// The words of a row of bits.
    #[inline(always)]
    pub fn bits(&mut self, which: Bits, of: usize, words: usize) -> *mut u64 {
        // SAFETY: `BIT_ROWS` rows of that many words.
        unsafe { self.bits.as_mut_ptr().add((which as usize + of) * words) }
    }

    /// A scratch row, at its first column.
    #[inline(always)]
    pub fn scratch(&mut self, which: Scratch) -> *mut C {
        // SAFETY: `SCRATCH_ROWS` rows, each with its pads.
        unsafe { self.scratch.as_mut_ptr().add(which as usize * self.scratch_row + PAD) }
    }
}

/// Writes the truth values of a vector as bits `at .. at + lanes` of a row.
///
/// # Safety
/// `words` is good for those bits, `at` is a whole number of vectors of 8 or 16 lanes.
#[inline(always)]
pub(super) unsafe fn put_bits(words: *mut u64, at: usize, lanes: usize, bits: u32) {
    // SAFETY: as the caller promises. Bytes in memory order, read again with `get_word`.
    unsafe {
        let bytes = words.cast::<u8>().add(at / 8);
        match lanes {
            16 => bytes.cast::<[u8; 2]>().write((bits as u16).to_le_bytes()),
            _ => bytes.write(bits as u8),
        }
    }
}

/// The bits of a vector, as written by [`put_bits`].
///
/// # Safety
/// As [`put_bits`].
#[inline(always)]
pub(super) unsafe fn get_bits(words: *const u64, at: usize, lanes: usize) -> u32 {
    // SAFETY: as the caller promises.
    unsafe {
        let bytes = words.cast::<u8>().add(at / 8);
        match lanes {
            16 => u32::from(u16::from_le_bytes(bytes.cast::<[u8; 2]>().read())),
            _ => u32::from(bytes.read()),
        }
    }
}

/// Calls `each` with the index of every set bit of a row, ascending.
///
/// # Safety
/// `words` is good for `count` words.
#[inline(always)]
pub(super) unsafe fn each_bit(words: *const u64, count: usize, mut each: impl FnMut(usize)) {
    for k in 0..count {
        // SAFETY: as the caller promises.
        let mut word = u64::from_le(unsafe { *words.add(k) });
        while word != 0 {
            each(k * 64 + word.trailing_zeros() as usize);
            word &= word - 1;
        }
    }
}

/// Where a column's `sum` lies in a row of state, or its row sum in a slot; the partner lies [`BLOCK`] further.
#[inline(always)]
pub(super) fn paired(col: usize) -> usize {
    col / BLOCK * (2 * BLOCK) + col % BLOCK
}
