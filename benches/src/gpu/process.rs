//! What this process has asked of the system: allocations and page faults.

use std::alloc::{GlobalAlloc, Layout, System};
use std::fs::File;
use std::io::Read;
use std::sync::atomic::{AtomicU64, Ordering};

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

/// Page faults of the process so far, small and large, or nothing where `/proc` does not say. The open file is read
/// into a buffer on the stack, so that asking costs no allocation and hardly a fault.
pub fn page_faults() -> Option<u64> {
    let mut text = [0u8; 1024];
    let n = File::open("/proc/self/stat").ok()?.read(&mut text).ok()?;
    let text = std::str::from_utf8(&text[..n]).ok()?;
    // Behind the name, which may hold anything, in brackets: state, parent, ..., minflt 8th, majflt 10th.
    let mut fields = text[text.rfind(')')? + 1..].split_ascii_whitespace();
    let small: u64 = fields.nth(7)?.parse().ok()?;
    let large: u64 = fields.nth(1)?.parse().ok()?;
    Some(small + large)
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
