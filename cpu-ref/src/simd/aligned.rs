//! Zeroed memory that starts on a cache line, so that no vector of a row crosses one.

use std::marker::PhantomData;

/// Bytes of a cache line and of the widest vector.
const LINE: usize = 64;

#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Line([u8; LINE]);

/// Types for which all bits zero is a value and every bit pattern is one.
///
/// # Safety
/// Only for plain numbers of at most 64 bytes' alignment.
pub(super) unsafe trait Plain: Copy {}
// SAFETY: plain numbers.
unsafe impl Plain for u16 {}
// SAFETY: plain numbers.
unsafe impl Plain for u64 {}
// SAFETY: plain numbers.
unsafe impl Plain for f32 {}
// SAFETY: plain numbers.
unsafe impl Plain for f64 {}

/// `len` numbers, zero at first.
#[derive(Clone)]
pub(super) struct Aligned<T> {
    lines: Vec<Line>,
    len: usize,
    of: PhantomData<T>,
}

impl<T: Plain> Aligned<T> {
    /// `len` zeros.
    pub fn zeroed(len: usize) -> Self {
        let lines = (len * size_of::<T>()).div_ceil(LINE);
        Aligned { lines: vec![Line([0; LINE]); lines], len, of: PhantomData }
    }

    /// The numbers.
    pub fn as_slice(&self) -> &[T] {
        // SAFETY: the lines hold at least `len` values of `T`, all bits of them set, and `T` is plain.
        unsafe { std::slice::from_raw_parts(self.lines.as_ptr().cast(), self.len) }
    }

    /// The numbers, to be changed.
    pub fn as_mut_slice(&mut self) -> &mut [T] {
        // SAFETY: as in `as_slice`, and `self` is borrowed alone.
        unsafe { std::slice::from_raw_parts_mut(self.lines.as_mut_ptr().cast(), self.len) }
    }

    /// The first number.
    pub fn as_mut_ptr(&mut self) -> *mut T {
        self.lines.as_mut_ptr().cast()
    }
}
