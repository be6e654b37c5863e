//! Running one test in a process of its own, with a limit on its time and memory.

use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::build::Binary;

/// Memory that a test may ask for, in KiB, and the size of a file, in blocks of 512 bytes.
const LIMITS: &str = "ulimit -v 12582912; ulimit -f 1073741824; ulimit -c 0; exec \"$@\"";

/// How a test ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Passed,
    Failed,
    /// It ran longer than the limit and was ended.
    Late,
}

/// What is on while a test runs.
pub enum Mode<'p> {
    /// Nothing.
    Plain,
    /// No change; the process writes which it comes to.
    Survey(&'p Path),
    /// The change of this number.
    Change(u32),
}

/// A folder for what tests write, emptied after each.
pub struct Scratch(PathBuf);

impl Scratch {
    /// A folder below `home` for one worker.
    pub fn new(home: &Path, worker: usize) -> Scratch {
        Scratch(home.join(format!("tmp/{worker}")))
    }
}

/// Runs one test; gives how it ended and how long it took.
pub fn run(
    binary: &Binary,
    test: &str,
    mode: &Mode<'_>,
    limit: Duration,
    scratch: &Scratch,
) -> Result<(End, Duration), String> {
    let _ = std::fs::remove_dir_all(&scratch.0);
    std::fs::create_dir_all(&scratch.0).map_err(|e| format!("{}: {e}", scratch.0.display()))?;
    let mut command = Command::new("sh");
    command.args(["-c", LIMITS, "sh"]).arg(&binary.path).args([test, "--exact", "--test-threads=1"]);
    command.current_dir(&binary.folder).process_group(0);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.env("TMPDIR", &scratch.0).env("CARGO_MANIFEST_DIR", &binary.folder).env("RUST_BACKTRACE", "0");
    // Neither regressions nor snapshots are written beside the sources.
    command.env("PROPTEST_DISABLE_FAILURE_PERSISTENCE", "true").env("PROPTEST_MAX_SHRINK_ITERS", "0");
    command
        .env("INSTA_UPDATE", "no")
        .env("INSTA_WORKSPACE_ROOT", binary.folder.parent().unwrap_or(&binary.folder));
    command.env_remove("SCHEIDEGG_MUTANT").env_remove("SCHEIDEGG_MUTANT_SURVEY");
    match mode {
        Mode::Plain => {}
        Mode::Survey(to) => {
            command.env("SCHEIDEGG_MUTANT_SURVEY", to);
        }
        Mode::Change(number) => {
            command.env("SCHEIDEGG_MUTANT", number.to_string());
        }
    }
    let start = Instant::now();
    let mut child = command.spawn().map_err(|e| format!("{}: {e}", binary.path.display()))?;
    let mut pause = Duration::from_micros(500);
    let end = loop {
        match child.try_wait().map_err(|e| format!("{}: {e}", binary.name))? {
            Some(s) if s.success() => break End::Passed,
            Some(s) => {
                debug_assert!(s.code().is_some() || s.signal().is_some());
                break End::Failed;
            }
            None if start.elapsed() > limit => break End::Late,
            None => std::thread::sleep(pause),
        }
        pause = (pause * 2).min(Duration::from_millis(20));
    };
    let took = start.elapsed();
    if end != End::Passed {
        // With all that it started.
        let group = format!("-{}", child.id());
        let mut kill = Command::new("kill");
        let _ = kill.args(["-KILL", "--", &group]).stdout(Stdio::null()).stderr(Stdio::null()).status();
        let _ = child.wait();
    }
    Ok((end, took))
}

/// The names of the tests of a program.
pub fn tests(binary: &Binary) -> Result<Vec<String>, String> {
    let list = |more: &[&str]| -> Result<Vec<String>, String> {
        let mut command = Command::new(&binary.path);
        command.args(["--list", "--format", "terse"]).args(more).current_dir(&binary.folder);
        let out = command.output().map_err(|e| format!("{}: {e}", binary.path.display()))?;
        let text = String::from_utf8_lossy(&out.stdout).into_owned();
        Ok(text.lines().filter_map(|l| l.strip_suffix(": test")).map(String::from).collect())
    };
    let ignored = list(&["--ignored"])?;
    Ok(list(&[])?.into_iter().filter(|t| !ignored.contains(t)).collect())
}
