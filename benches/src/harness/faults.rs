//! Page faults of this process, as the kernel counts them.

use std::fs::File;
use std::hint::black_box;
use std::io::Read;
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
        Faults::read().unwrap_or_default()
    }

    /// The faults so far, or nothing where `/proc` does not tell. The file is read into a buffer on the stack, so that
    /// asking costs no allocation and hardly a fault.
    pub fn read() -> Option<Faults> {
        let mut text = [0u8; 1024];
        let n = File::open("/proc/self/stat").ok()?.read(&mut text).ok()?;
        Faults::parse(std::str::from_utf8(&text[..n]).ok()?)
    }

    /// From a line of `/proc/PID/stat` (proc(5)): `minflt` is field 10, `majflt` field 12. The second field, the name in
    /// brackets, may hold blanks and brackets of its own, so fields are counted behind the last one.
    pub fn parse(stat: &str) -> Option<Faults> {
        let mut fields = stat[stat.rfind(')')? + 1..].split_ascii_whitespace();
        // The first field behind the name is the third.
        let minor = fields.nth(10 - 3)?.parse().ok()?;
        let major = fields.nth(1)?.parse().ok()?;
        Some(Faults { minor, major })
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
    fn fields_are_counted_behind_a_name_with_blanks_and_brackets() {
        // pid, name, state, ppid, pgrp, session, tty, tpgid, flags, minflt, cminflt, majflt, cmajflt, utime
        let line = "12 (a (b) c) R 1 12 12 0 -1 4194304 1001 22 33 44 55";
        assert_eq!(Faults::parse(line), Some(Faults { minor: 1001, major: 33 }));
        assert_eq!(Faults::parse("12 (a) R 1 2"), None);
        assert_eq!(Faults::parse(""), None);
    }

    #[test]
    fn a_difference_is_taken_field_by_field() {
        let (before, after) = (Faults { minor: 10, major: 4 }, Faults { minor: 25, major: 5 });
        assert_eq!(after - before, Faults { minor: 15, major: 1 });
    }

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
