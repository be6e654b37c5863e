//! How much memory may be page-locked. Locked pages cannot be swapped or reclaimed: too many of them and the
//! machine stands still, so that the answer comes before the request goes to the driver.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use scheidegg_finder::{Error, Result};

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// Bytes in words: `1.5 GiB`.
pub(super) fn bytes(n: u64) -> String {
    match n {
        GIB.. => format!("{:.1} GiB", n as f64 / GIB as f64),
        MIB.. => format!("{:.1} MiB", n as f64 / MIB as f64),
        _ => format!("{:.1} KiB", n as f64 / 1024.0),
    }
}

/// What memory is to be locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Memory that does not exist yet.
    Fresh,
    /// Memory that is in use already, or a file's cached pages.
    Resident,
}

/// What is safe to page-lock now, and why. See [`pinning_budget`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PinningBudget {
    /// Bytes of new memory that are safe to page-lock.
    pub fresh: u64,
    /// Bytes of memory in use already (a vector, a mapped file) that are safe to page-lock.
    pub resident: u64,
    /// Bytes that this process has page-locked through this library.
    pub locked: u64,
    /// Bytes of the machine's memory.
    pub total: Option<u64>,
    /// Bytes that the kernel can hand out without swapping.
    pub available: Option<u64>,
    /// Bytes left under the tightest limit of a control group (a container, a batch job).
    pub control_group: Option<u64>,
    /// The limit of locked memory (`ulimit -l`) in bytes. NVIDIA's driver locks pages by itself and does not count
    /// against it; it is reported and does not bind.
    pub memlock: Option<u64>,
}

impl fmt::Display for PinningBudget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = |b: Option<u64>| b.map_or("unknown".into(), bytes);
        write!(
            f,
            "{} of new memory and {} of memory in use may be page-locked: available {}, left in the control group {}, \
             an eighth (at least 512 MiB) stays free; of {} in all, {} are locked already and three quarters may be; \
             ulimit -l is {} and does not count for the driver",
            bytes(self.fresh),
            bytes(self.resident),
            known(self.available),
            self.control_group.map_or("without limit".into(), bytes),
            known(self.total),
            bytes(self.locked),
            self.memlock.map_or("unlimited".into(), bytes),
        )
    }
}

/// What is read from the system.
#[derive(Clone, Copy, Debug, Default)]
struct Readings {
    total: Option<u64>,
    available: Option<u64>,
    control_group: Option<u64>,
    memlock: Option<u64>,
}

impl Readings {
    fn budget(self, locked: u64) -> PinningBudget {
        let least = |a: Option<u64>, b: Option<u64>| match (a, b) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        // Where nothing is known (not Linux), a modest amount.
        let free = least(self.available, self.control_group).unwrap_or(4 * GIB);
        let share = self.total.map(|t| (t / 4 * 3).saturating_sub(locked));
        let fresh = free.saturating_sub((free / 8).max(512 * MIB));
        PinningBudget {
            fresh: fresh.min(share.unwrap_or(u64::MAX)),
            resident: share.unwrap_or(fresh),
            locked,
            total: self.total,
            available: self.available,
            control_group: self.control_group,
            memlock: self.memlock,
        }
    }

    fn now() -> Readings {
        let read = |p: &str| std::fs::read_to_string(p).unwrap_or_default();
        let meminfo = read("/proc/meminfo");
        Readings {
            total: kilobytes(&meminfo, "MemTotal:"),
            available: kilobytes(&meminfo, "MemAvailable:"),
            control_group: control_group_left(&read("/proc/self/cgroup"), Path::new("/sys/fs/cgroup")),
            memlock: memlock(&read("/proc/self/limits")),
        }
    }
}

/// A line of `/proc/meminfo`, in bytes.
fn kilobytes(meminfo: &str, key: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|l| l.strip_prefix(key))?;
    line.split_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1024)
}

/// The soft limit of locked memory of `/proc/self/limits`; none when it is unlimited.
fn memlock(limits: &str) -> Option<u64> {
    limits.lines().find_map(|l| l.strip_prefix("Max locked memory"))?.split_whitespace().next()?.parse().ok()
}

/// Bytes left under the tightest limit of the control groups that the process is in: version 2 from the leaf up,
/// or the memory controller of version 1.
fn control_group_left(membership: &str, root: &Path) -> Option<u64> {
    let number = |p: PathBuf| std::fs::read_to_string(p).ok()?.trim().parse::<u64>().ok();
    let mut left: Option<u64> = None;
    for line in membership.lines() {
        let mut fields = line.splitn(3, ':');
        let (Some(_), Some(controllers), Some(path)) = (fields.next(), fields.next(), fields.next()) else {
            continue;
        };
        let (base, limit, usage) = if controllers.is_empty() {
            (root.to_path_buf(), "memory.max", "memory.current")
        } else if controllers.split(',').any(|c| c == "memory") {
            (root.join("memory"), "memory.limit_in_bytes", "memory.usage_in_bytes")
        } else {
            continue;
        };
        let leaf = base.join(path.trim_start_matches('/'));
        for group in leaf.ancestors().take_while(|g| g.starts_with(&base)) {
            if let (Some(limit), Some(usage)) = (number(group.join(limit)), number(group.join(usage))) {
                let here = limit.saturating_sub(usage);
                left = Some(left.map_or(here, |l| l.min(here)));
            }
        }
    }
    // Version 1 writes "no limit" as a number near 2^63.
    left.filter(|l| *l < 1 << 60)
}

static LOCKED: Mutex<u64> = Mutex::new(0);

/// How much memory is safe to page-lock now, in bytes, with the reasons (its `Display` is a sentence).
///
/// Reads `/proc/meminfo`, the limits of the control group and `ulimit -l`, and leaves a margin. Page-locked memory
/// is what lets a GPU read frames at the full speed of the bus; a machine that has locked too much of it stands still.
///
/// ```
/// println!("{}", scheidegg::cuda::pinning_budget());
/// ```
pub fn pinning_budget() -> PinningBudget {
    Readings::now().budget(*LOCKED.lock().unwrap_or_else(|e| e.into_inner()))
}

/// Takes `n` bytes out of the budget.
///
/// # Errors
/// [`Error::Other`] with the whole reckoning when that much is not safe.
pub(super) fn ask(n: u64, kind: Kind, what: &str) -> Result<()> {
    let mut locked = LOCKED.lock().unwrap_or_else(|e| e.into_inner());
    grant(n, kind, what, &Readings::now().budget(*locked))?;
    *locked += n;
    Ok(())
}

fn grant(n: u64, kind: Kind, what: &str, budget: &PinningBudget) -> Result<()> {
    let most = match kind {
        Kind::Fresh => budget.fresh,
        Kind::Resident => budget.resident,
    };
    if n > most {
        return Err(Error::Other(format!(
            "{what} would page-lock {}, which is not safe on this machine now: {budget}. Take smaller chunks, fewer \
             slots or fewer frames at a time",
            bytes(n)
        )));
    }
    Ok(())
}

/// Puts `n` bytes back.
pub(super) fn give_back(n: u64) {
    let mut locked = LOCKED.lock().unwrap_or_else(|e| e.into_inner());
    *locked = locked.saturating_sub(n);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_margin_and_the_tightest_limit() {
        let machine = Readings {
            total: Some(64 * GIB),
            available: Some(40 * GIB),
            control_group: None,
            memlock: Some(8 * MIB),
        };
        let b = machine.budget(0);
        assert_eq!((b.fresh, b.resident), (35 * GIB, 48 * GIB));
        // A container with little left.
        let b = Readings { control_group: Some(2 * GIB), ..machine }.budget(0);
        assert_eq!(b.fresh, 2 * GIB - 512 * MIB);
        // What is locked already counts against three quarters of the memory.
        assert_eq!(machine.budget(40 * GIB).fresh, 8 * GIB);
        assert_eq!(machine.budget(60 * GIB).resident, 0);
        // Less than the margin is nothing.
        assert_eq!(Readings { available: Some(100 * MIB), ..machine }.budget(0).fresh, 0);
    }

    #[test]
    fn a_refusal_says_all_of_it() {
        let budget =
            Readings { total: Some(8 * GIB), available: Some(2 * GIB), ..Readings::default() }.budget(0);
        grant(GIB, Kind::Fresh, "results", &budget).unwrap();
        let e = grant(2 * GIB, Kind::Fresh, "results of 4 slots", &budget).unwrap_err().to_string();
        assert!(e.starts_with("results of 4 slots would page-lock 2.0 GiB"), "{e}");
        assert!(e.contains("1.5 GiB of new memory") && e.contains("available 2.0 GiB"), "{e}");
        grant(6 * GIB, Kind::Resident, "a file", &budget).unwrap();
        assert!(grant(6 * GIB + 1, Kind::Resident, "a file", &budget).is_err());
    }

    #[test]
    fn the_files_of_the_kernel() {
        let meminfo = "MemTotal:       24653064 kB\nMemFree:  1 kB\nMemAvailable:   20000000 kB\n";
        assert_eq!(kilobytes(meminfo, "MemAvailable:"), Some(20_480_000_000));
        assert_eq!(kilobytes(meminfo, "MemNothing:"), None);
        let limits = "Max locked memory         8388608              8388608              bytes     \n";
        assert_eq!(memlock(limits), Some(8 * MIB));
        assert_eq!(
            memlock("Max locked memory         unlimited            unlimited            bytes\n"),
            None
        );
    }

    #[test]
    fn control_groups_of_both_versions() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        let put = |p: &str, text: &str| {
            let p = root.join(p);
            std::fs::create_dir_all(p.parent().unwrap()).unwrap();
            std::fs::write(p, text).unwrap();
        };
        put("job/memory.max", "4294967296\n");
        put("job/memory.current", "1073741824\n");
        put("job/step/memory.max", "max\n");
        put("job/step/memory.current", "1073741824\n");
        assert_eq!(control_group_left("0::/job/step\n", root), Some(3 * GIB));
        assert_eq!(control_group_left("0::/elsewhere\n", root), None);
        put("memory/old/memory.limit_in_bytes", "2147483648\n");
        put("memory/old/memory.usage_in_bytes", "1073741824\n");
        assert_eq!(control_group_left("5:cpu:/x\n4:hugetlb,memory:/old\n", root), Some(GIB));
        put("memory/none/memory.limit_in_bytes", "9223372036854771712\n");
        put("memory/none/memory.usage_in_bytes", "4096\n");
        assert_eq!(control_group_left("4:memory:/none\n", root), None);
    }

    #[test]
    fn this_machine_has_a_budget() {
        let b = pinning_budget();
        assert!(b.to_string().contains("page-locked"), "{b}");
    }
}
