//! Which test comes to which change, and how long it takes.

use std::collections::HashMap;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::build::Binary;
use super::process::{End, Mode, Scratch, run, tests};
use super::workers::each;
use crate::Outcome;

/// A test that passes while no change is on.
#[derive(Clone, Serialize, Deserialize)]
pub struct Test {
    /// Place of its program in the list.
    #[serde(skip)]
    pub binary: usize,
    pub name: String,
    pub seconds: f64,
    /// The first numbers of the sites that it comes to, ascending.
    pub sites: Vec<u32>,
    passes: bool,
}

/// Runs every test of the programs once, those of programs that have not changed since the last time excepted. Tests that
/// take longer than `longest` are left out.
pub fn survey(
    home: &Path,
    binaries: &[Binary],
    wanted: &dyn Fn(&str) -> bool,
    jobs: usize,
    longest: Duration,
) -> Outcome<Vec<Test>> {
    // One line a test, so that a survey that is ended early loses nothing.
    let kept = home.join("survey.jsonl");
    let lines = fs::read_to_string(&kept).unwrap_or_default();
    let mut known: HashMap<String, Test> =
        lines.lines().filter_map(|l| serde_json::from_str(l).ok()).collect();
    let program = fs::read(home.join("target/debug/scheidegg")).map_or(0, |b| crc32fast::hash(&b));
    let mut queue = Vec::new();
    for (b, binary) in binaries.iter().enumerate() {
        let content = fs::read(&binary.path).map_err(|e| format!("{}: {e}", binary.path.display()))?;
        let stamp = crc32fast::hash(&content) ^ if binary.name.starts_with("cli/") { program } else { 0 };
        for test in tests(binary)? {
            if wanted(&format!("{}::{test}", binary.name)) {
                queue.push((b, format!("{}::{test} {stamp:08x}", binary.name), test));
            }
        }
    }
    let missing: Vec<_> = queue.iter().filter(|(_, key, _)| !known.contains_key(key)).collect();
    println!(
        "{} tests in {} programs, {} of them not run before",
        queue.len(),
        binaries.len(),
        missing.len()
    );
    let start = Instant::now();
    let found = each(jobs, &missing, |worker, (b, key, test)| {
        let scratch = Scratch::new(home, worker);
        let reached = home.join(format!("reached-{worker}.txt"));
        let _ = fs::remove_file(&reached);
        let (end, took) = run(&binaries[*b], test, &Mode::Survey(&reached), longest, &scratch)?;
        let text = fs::read_to_string(&reached).unwrap_or_default();
        let mut sites: Vec<u32> = text.lines().filter_map(|l| l.parse().ok()).collect();
        sites.sort_unstable();
        sites.dedup();
        let passes = end == End::Passed;
        let test = Test { binary: *b, name: test.clone(), seconds: took.as_secs_f64(), sites, passes };
        let line = serde_json::to_string(&(key, &test)).map_err(|e| e.to_string())?;
        let fault = |e: std::io::Error| format!("{}: {e}", kept.display());
        let mut file = OpenOptions::new().create(true).append(true).open(&kept).map_err(fault)?;
        file.write_all(format!("{line}\n").as_bytes()).map_err(fault)?;
        Ok(test)
    })?;
    for ((_, key, _), test) in missing.iter().zip(found) {
        known.insert(key.clone(), test);
    }
    println!("surveyed in {:.0} s", start.elapsed().as_secs_f64());
    let mut out = Vec::new();
    for (b, key, name) in &queue {
        let Some(test) = known.get(key) else { continue };
        if test.passes {
            out.push(Test { binary: *b, ..test.clone() });
        } else {
            let why = if test.seconds < longest.as_secs_f64() {
                "fails without any change"
            } else {
                "takes too long"
            };
            println!("left out, because it {why}: {}::{name}", binaries[*b].name);
        }
    }
    Ok(out)
}
