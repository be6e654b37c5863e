//! Page faults of this process, as the kernel counts them.

use std::fs;
use std::hint::black_box;
use std::ops::Sub;

/// Page faults since the process started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// Faults served from memory: a page touched for the first time.
    pub minor: u64,
    /// Faults that waited for a disk.
    pub major: u64,
}

impl Faults {
    /// The faults so far, over all threads. Zero where `/proc` does not tell.
    pub fn now() -> Faults {
        // Fields 10 and 12; the second field, the name, may hold blanks and ends at the last parenthesis.
        let text = fs::read_to_string("/proc/self/stat").unwrap_or_default();
        let rest = text.rsplit_once(')').map_or("", |(_, rest)| rest);
        let field = |i: usize| rest.split_whitespace().nth(i - 3).and_then(|v| v.parse().ok()).unwrap_or(0);
        Faults { minor: field(10), major: field(12) }
    }
}

impl Sub for Faults {
    type Output = Faults;

    fn sub(self, before: Faults) -> Faults {
        Faults {
            minor: self.minor.saturating_sub(before.minor),
            major: self.major.saturating_sub(before.major),
        }
    }
}

/// Whether this system counts faults at all (some sandboxes do not): 16 MiB of fresh memory are touched. Without this
/// a column of zeros would look like a result.
pub fn are_counted() -> bool {
    let before = Faults::now();
    let mut fresh = vec![0u8; 16 << 20];
    for page in fresh.chunks_mut(4096) {
        page[0] = black_box(1);
    }
    black_box(&fresh);
    (Faults::now() - before).minor > 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn touching_memory_is_seen() {
        if !are_counted() {
            println!("SKIPPED: this system does not count page faults");
            return;
        }
        let before = Faults::now();
        let mut fresh = vec![0u8; 64 << 20];
        for page in fresh.chunks_mut(4096) {
            page[0] = black_box(1);
        }
        black_box(&fresh);
        // Huge pages make it few; none would be wrong.
        assert!((Faults::now() - before).minor >= 32);
    }
}
