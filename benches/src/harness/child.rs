//! This program again, in a process of its own: a step or a probe starts from nothing.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use scheidegg::{Error, Result};

/// Runs this program again with other arguments, its words in a file. Kills it when it takes too long.
///
/// # Errors
/// [`Error::Other`] with its last line when it fails.
pub fn child(arguments: &[String], log: &Path, patience: Duration) -> Result<()> {
    let program = std::env::current_exe().map_err(|e| Error::Other(format!("this program: {e}")))?;
    run(Command::new(program).args(arguments), log, patience)
}

/// Runs a command, its words in a file, and kills it when it takes too long.
fn run(command: &mut Command, log: &Path, patience: Duration) -> Result<()> {
    let program = PathBuf::from(command.get_program());
    let file = File::create(log).map_err(|e| Error::io(log, e))?;
    let copy = file.try_clone().map_err(|e| Error::io(log, e))?;
    let spawned = command.stdin(Stdio::null()).stdout(file).stderr(copy).spawn();
    let mut child = spawned.map_err(|e| Error::io(&program, e))?;
    let start = Instant::now();
    let status = loop {
        match child.try_wait().map_err(|e| Error::io(&program, e))? {
            Some(status) => break Some(status),
            None if start.elapsed() > patience => {
                let _ = child.kill();
                let _ = child.wait();
                break None;
            }
            None => std::thread::sleep(Duration::from_millis(2)),
        }
    };
    let words = fs::read_to_string(log).unwrap_or_default();
    let last = words.lines().rev().find(|l| !l.trim().is_empty()).unwrap_or("it said nothing");
    let last = last.trim_start_matches("scheidegg-bench: ").to_string();
    match status {
        Some(status) if status.success() => Ok(()),
        Some(status) if status.code().is_some() => Err(Error::Other(last)),
        Some(status) => Err(Error::Other(format!("{status}: {last}"))),
        None => Err(Error::Other(format!("stopped after {} s: {last}", patience.as_secs()))),
    }
}

/// The folder for what children write.
///
/// # Errors
/// [`Error::Io`].
pub fn parts(run: &Path) -> Result<PathBuf> {
    let parts = run.join("parts");
    fs::create_dir_all(&parts).map_err(|e| Error::io(&parts, e))?;
    Ok(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, patience: Duration) -> Result<()> {
        let log =
            std::env::temp_dir().join(format!("scheidegg-child-{}-{}", std::process::id(), script.len()));
        let outcome = run(Command::new("sh").args(["-c", script]), &log, patience);
        fs::remove_file(log).unwrap();
        outcome
    }

    #[test]
    fn a_child_that_fails_is_quoted_and_one_that_hangs_is_stopped() {
        let long = Duration::from_secs(30);
        assert!(shell("echo fine", long).is_ok());
        let e = shell("echo one; echo 'scheidegg-bench: the GPU is busy' >&2; exit 1", long).unwrap_err();
        assert_eq!(e.to_string(), "the GPU is busy");
        let start = Instant::now();
        let e = shell("echo working; exec sleep 60", Duration::from_millis(300)).unwrap_err().to_string();
        assert!(e.contains("stopped after 0 s: working"), "{e}");
        assert!(start.elapsed() < Duration::from_secs(20));
    }
}
