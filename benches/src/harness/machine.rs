//! The machine and the program behind a run: `env.json` and `manifest.csv`.

use std::fs;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use scheidegg::{Error, Result};
use serde::Serialize;
use serde_json::Value;

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

    /// Writes `env.json` for a run that begins.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn write(&self, run: &Path) -> Result<()> {
        let mut all = self.json()?;
        all["calls"] = Value::Array(vec![self.json()?]);
        save(run, &all)
    }

    /// Adds a call to the `env.json` of a run that goes on, and returns its number, the first call's being 1. The machine
    /// may be another one of the same kind; the program may not be another one.
    ///
    /// # Errors
    /// [`Error::File`] when the run was begun by another commit, on another GPU or processor, or with another number of
    /// threads: its numbers would stand beside ones that cannot be compared with them. [`Error::Io`] without `env.json`.
    pub fn join(&self, run: &Path) -> Result<usize> {
        let path = run.join("env.json");
        let text = fs::read_to_string(&path).map_err(|e| Error::io(&path, e))?;
        let mut all: Value = serde_json::from_str(&text).map_err(|e| Error::file(&path, e.to_string()))?;
        let mine = self.json()?;
        for pointer in ["/commit", "/gpu/name", "/cpu", "/threads"] {
            let (before, now) = (all.pointer(pointer).cloned(), mine.pointer(pointer).cloned());
            let (before, now) = (before.unwrap_or_default(), now.unwrap_or_default());
            if before != now {
                let what = format!(
                    "the run was begun with {} = {before}, this is {now}: start a run of its own",
                    &pointer[1..]
                );
                return Err(Error::file(&path, what));
            }
        }
        if !all["calls"].is_array() {
            let mut first = all.clone();
            if let Some(o) = first.as_object_mut() {
                o.remove("calls");
            }
            all["calls"] = Value::Array(vec![first]);
        }
        let calls = all["calls"].as_array_mut().expect("made one above");
        calls.push(mine);
        let number = calls.len();
        save(run, &all)?;
        Ok(number)
    }

    fn json(&self) -> Result<Value> {
        serde_json::to_value(self).map_err(|e| Error::Other(format!("env.json: {e}")))
    }
}

fn save(run: &Path, all: &Value) -> Result<()> {
    let text = serde_json::to_string_pretty(all).map_err(|e| Error::Other(format!("env.json: {e}")))?;
    write_whole(&run.join("env.json"), (text + "\n").as_bytes())
}

/// Writes `manifest.csv`: every file of a run with its size and checksum, and the machine, driver and commit behind it as
/// `env.json` has them. A manifest that is written again later (for a report made elsewhere) names the machine of the
/// run, not its own.
///
/// # Errors
/// [`Error::Io`].
pub fn write_manifest(run: &Path) -> Result<()> {
    let columns = ["file", "bytes", "fnv1a64", "commit", "machine", "driver"];
    let mut table = Table::new(run.join("manifest.csv"), &columns);
    let env = fs::read_to_string(run.join("env.json")).unwrap_or_default();
    let env: Value = serde_json::from_str(&env).unwrap_or_default();
    let word = |pointer: &str| env.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_string();
    let cpu = word("/cpu");
    let machine = match word("/gpu/name") {
        gpu if gpu.is_empty() => cpu,
        gpu => format!("{gpu}, {cpu}"),
    };
    let commit = Some(word("/commit")).filter(|c| !c.is_empty()).unwrap_or_else(|| COMMIT.to_string());
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
        let (commit, machine) = (commit.clone(), machine.clone());
        table.push([name, bytes.len().to_string(), hash, commit, machine, word("/gpu/driver")]);
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

    #[test]
    fn a_run_in_two_calls_records_both_and_refuses_another_program() {
        let run = std::env::temp_dir().join(format!("scheidegg-env-{}", std::process::id()));
        fs::create_dir_all(&run).unwrap();
        let gpu = GpuFacts { name: "NVIDIA H200".into(), driver: "580".into(), ..GpuFacts::default() };
        let first = Environment { gpu: Some(gpu.clone()), date: "one".into(), ..Environment::here() };
        assert!(first.join(&run).is_err(), "there is nothing to go on with");
        first.write(&run).unwrap();
        let later = Environment {
            gpu: Some(GpuFacts { driver: "581".into(), ..gpu.clone() }),
            date: "two".into(),
            ..first.clone()
        };
        assert_eq!(later.join(&run).unwrap(), 2);
        let read =
            || -> Value { serde_json::from_str(&fs::read_to_string(run.join("env.json")).unwrap()).unwrap() };
        let env = read();
        assert_eq!((env["date"].as_str(), env["calls"].as_array().unwrap().len()), (Some("one"), 2));
        assert_eq!(env.pointer("/calls/1/gpu/driver").and_then(Value::as_str), Some("581"));
        let other = Environment { commit: "another".into(), ..first.clone() };
        let e = other.join(&run).unwrap_err().to_string();
        assert!(e.contains("env.json") && e.contains("another"), "{e}");
        let other = GpuFacts { name: "A100".into(), ..gpu };
        assert!(Environment { gpu: Some(other), ..first }.join(&run).is_err());
        assert_eq!(read(), env, "a refused call changes nothing");
        // The manifest names the machine of the run.
        write_manifest(&run).unwrap();
        let manifest = Table::read(run.join("manifest.csv")).unwrap();
        let row = manifest.find(&[("file", "env.json"), ("driver", "580")]).unwrap();
        assert!(row.text("machine").starts_with("NVIDIA H200"));
        let bytes = fs::read(run.join("env.json")).unwrap();
        assert_eq!(row.text("fnv1a64"), format!("{:016x}", fnv1a(&bytes)));
        fs::remove_dir_all(run).unwrap();
    }
}
