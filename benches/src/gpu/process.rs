//! What this process has asked of the system: allocations and page faults.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::harness::faults::Faults;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

/// The system's allocator with a count of allocations, for `#[global_allocator]`.
pub struct Counting;

// SAFETY: every call is handed to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.alloc_zeroed(layout) }
    }
    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.realloc(at, layout, size) }
    }
    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(at, layout) }
    }
}

/// Allocations of all threads so far, when [`Counting`] is the global allocator.
pub fn allocations() -> u64 {
    ALLOCATIONS.load(Ordering::Relaxed)
}

/// Page faults of the process so far, small and large, or nothing where `/proc` does not say; asking allocates nothing.
pub fn page_faults() -> Option<u64> {
    Faults::read().map(|f| f.minor + f.major)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn touching_new_memory_faults() {
        let Some(before) = page_faults() else {
            println!("SKIPPED: no /proc here");
            return;
        };
        let fresh = vec![1u8; 64 << 20];
        assert!(fresh.iter().step_by(4096).all(|b| *b == 1));
        assert!(page_faults().unwrap() > before + 10);
    }
}
