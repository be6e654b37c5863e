//! Zeroed memory that starts on a cache line, so that no vector of a row crosses one, and keeps its distance from what
//! other threads write to.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ptr::NonNull;

/// Two cache lines: processors fetch lines in pairs.
const ALIGN: usize = 128;

/// Bytes that follow and that nobody uses. Whoever walks through rows makes the processor fetch what seems to come next,
/// up to some 50 kB ahead on the machine of `docs/performance.md`; should another thread write there, it loses
/// those cache lines again and again.
const APART: usize = 64 * 1024;

/// Types for which all bits zero is a value and every bit pattern is one.
///
/// # Safety
/// Only for plain numbers of at most 128 bytes' alignment.
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
pub(super) struct Aligned<T> {
    at: NonNull<T>,
    len: usize,
}

// SAFETY: it owns plain numbers, as a `Vec` does.
unsafe impl<T: Send> Send for Aligned<T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for Aligned<T> {}

impl<T> Aligned<T> {
    fn layout(len: usize) -> Layout {
        // Numbers of a frame's planes: far below what the address space holds.
        Layout::from_size_align(len * size_of::<T>() + APART, ALIGN).expect("the size of a frame's planes")
    }
}

impl<T: Plain> Aligned<T> {
    /// `len` zeros.
    pub fn zeroed(len: usize) -> Self {
        let layout = Self::layout(len);
        // SAFETY: the layout is not empty.
        let at = unsafe { alloc_zeroed(layout) };
        match NonNull::new(at.cast()) {
            Some(at) => Aligned { at, len },
            None => handle_alloc_error(layout),
        }
    }

    /// The numbers.
    pub fn as_slice(&self) -> &[T] {
        // SAFETY: `len` values of `T`, all bits of them set, and `T` is plain.
        unsafe { std::slice::from_raw_parts(self.at.as_ptr(), self.len) }
    }

    /// The numbers, to be changed.
    pub fn as_mut_slice(&mut self) -> &mut [T] {
        // SAFETY: as in `as_slice`, and `self` is borrowed alone.
        unsafe { std::slice::from_raw_parts_mut(self.at.as_ptr(), self.len) }
    }

    /// The first number.
    pub fn as_mut_ptr(&mut self) -> *mut T {
        self.at.as_ptr()
    }
}

impl<T> Drop for Aligned<T> {
    fn drop(&mut self) {
        // SAFETY: from `alloc_zeroed` with the same layout.
        unsafe { dealloc(self.at.as_ptr().cast(), Self::layout(self.len)) }
    }
}
