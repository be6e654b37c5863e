//! The machine and the program behind a run: `env.json` and `manifest.csv`.

use std::fs;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use scheidegg::{Error, Result};
use serde::Serialize;

use super::faults;
use super::gpu::{Gpu, GpuFacts};
use super::table::{Table, write_whole};

/// The commit that this program was built from.
pub const COMMIT: &str = env!("SCHEIDEGG_COMMIT");

/// The machine, as `env.json` keeps it.
#[derive(Clone, Debug, Serialize)]
pub struct Environment {
    /// When the run started, UTC.
    pub date: String,
    /// The commit of the program, with `-dirty` when its sources were changed.
    pub commit: String,
    /// The version of the program.
    pub version: String,
    /// The processor's name.
    pub cpu: String,
    /// Threads that the process may use.
    pub threads: usize,
    /// The vector instructions that matter here.
    pub instruction_sets: Vec<String>,
    /// Memory in GiB.
    pub memory_gib: f64,
    /// The operating system's kernel.
    pub kernel: String,
    /// Whether page faults are counted here; if not, their columns mean nothing.
    pub page_faults_counted: bool,
    /// The GPU, when there is one.
    pub gpu: Option<GpuFacts>,
    /// Why there is no GPU.
    pub no_gpu: Option<String>,
}

impl Environment {
    /// This machine now.
    pub fn here() -> Environment {
        let read = |p: &str| fs::read_to_string(p).unwrap_or_default();
        let cpuinfo = read("/proc/cpuinfo");
        let field = |name: &str| {
            let line = cpuinfo.lines().find(|l| l.starts_with(name));
            line.and_then(|l| l.split_once(':')).map_or(String::new(), |(_, v)| v.trim().to_string())
        };
        let flags = field("flags");
        let wanted = ["avx2", "fma", "avx512f", "avx512bw", "avx512vl", "avx512_vbmi2"];
        let kib = read("/proc/meminfo")
            .lines()
            .find_map(|l| l.strip_prefix("MemTotal:")?.trim().strip_suffix(" kB")?.parse::<f64>().ok());
        let gpu = Gpu::open().and_then(|g| g.facts());
        Environment {
            date: utc_now(),
            commit: COMMIT.into(),
            version: env!("CARGO_PKG_VERSION").into(),
            cpu: field("model name"),
            threads: std::thread::available_parallelism().map_or(1, usize::from),
            instruction_sets: wanted
                .into_iter()
                .filter(|w| flags.split(' ').any(|f| f == *w))
                .map(String::from)
                .collect(),
            memory_gib: (kib.unwrap_or(0.0) / 1024.0 / 1024.0 * 10.0).round() / 10.0,
            kernel: read("/proc/sys/kernel/osrelease").trim().to_string(),
            page_faults_counted: faults::are_counted(),
            no_gpu: gpu.as_ref().err().map(ToString::to_string),
            gpu: gpu.ok(),
        }
    }

    /// Writes `env.json`.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn write(&self, run: &Path) -> Result<()> {
        let text = serde_json::to_string_pretty(self).map_err(|e| Error::Other(format!("env.json: {e}")))?;
        write_whole(&run.join("env.json"), (text + "\n").as_bytes())
    }
}

/// Writes `manifest.csv`: every file of a run with its size and checksum.
///
/// # Errors
/// [`Error::Io`].
pub fn write_manifest(run: &Path) -> Result<()> {
    let mut table = Table::new(run.join("manifest.csv"), &["file", "bytes", "fnv1a64", "commit"]);
    let mut names = Vec::new();
    for entry in fs::read_dir(run).map_err(|e| Error::io(run, e))? {
        let entry = entry.map_err(|e| Error::io(run, e))?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if entry.path().is_file() && name != "manifest.csv" {
            names.push(name);
        }
    }
    names.sort();
    for name in names {
        let path = run.join(&name);
        let bytes = fs::read(&path).map_err(|e| Error::io(&path, e))?;
        let hash = format!("{:016x}", fnv1a(&bytes));
        table.push([name, bytes.len().to_string(), hash, COMMIT.to_string()]);
    }
    table.write()
}

/// The FNV-1a checksum of bytes: enough to see that a file is another one.
pub fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |h, b| (h ^ u64::from(*b)).wrapping_mul(0x100_0000_01b3))
}

/// The time now as `2026-11-29T22:15:53Z`.
pub fn utc_now() -> String {
    let s = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs());
    let (y, m, d) = civil(s / 86_400);
    let t = s % 86_400;
    format!("{y:04}-{m:02}-{d:02}T{:02}:{:02}:{:02}Z", t / 3600, t / 60 % 60, t % 60)
}

/// Year, month and day of a number of days since 1970 (the Gregorian calendar's 400-year cycle).
fn civil(days: u64) -> (u64, u64, u64) {
    let z = days + 719_468;
    let era = z / 146_097;
    let doe = z % 146_097;
    let yoe = (doe - doe / 1460 + doe / 36_524 - doe / 146_096) / 365;
    let doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
    let mp = (5 * doy + 2) / 153;
    let month = if mp < 10 { mp + 3 } else { mp - 9 };
    (yoe + era * 400 + u64::from(month <= 2), month, doy - (153 * mp + 2) / 5 + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_become_dates() {
        assert_eq!(civil(0), (1970, 1, 1));
        assert_eq!(civil(11_016), (2000, 2, 29));
        assert_eq!(civil(20_786), (2026, 11, 29));
    }
}
