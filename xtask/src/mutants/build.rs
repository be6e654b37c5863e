//! The copy of the workspace with every change in it, and its test programs.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::rewrite::{Rewritten, SWITCH, rewrite};
use super::sites::{Change, Source, find};
use crate::{Outcome, output, root};

/// A program with tests.
#[derive(Clone)]
pub struct Binary {
    /// Package and target: `scheidegg-cli/find`.
    pub name: String,
    pub path: PathBuf,
    /// Where cargo would run it.
    pub folder: PathBuf,
}

/// The copy and what was found in it.
pub struct Copy {
    /// The folder for all that is made.
    pub home: PathBuf,
    /// Held as long as the copy is used.
    _lock: fs::File,
    sources: BTreeMap<String, Source>,
    /// The first number of every file.
    first: HashMap<String, u32>,
    dropped: HashSet<u32>,
    constant: HashSet<String>,
}

/// Files of the workspace that git knows or would add.
fn listed() -> Outcome<Vec<String>> {
    let mut git = Command::new("git");
    git.args(["ls-files", "-co", "--exclude-standard"]).current_dir(root());
    let mut files: Vec<String> = output(&mut git)?.lines().map(String::from).collect();
    files.retain(|f| root().join(f).is_file());
    files.sort();
    files.dedup();
    Ok(files)
}

/// Writes a file unless it has this content already, so that nothing is built again without need.
fn put(path: &Path, content: &[u8]) -> Outcome {
    if fs::read(path).is_ok_and(|old| old == content) {
        return Ok(());
    }
    let folder = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder)
        .and_then(|()| fs::write(path, content))
        .map_err(|e| format!("{}: {e}", path.display()))?;
    Ok(())
}

/// The crate of a file: the folder before `src`.
fn crate_of(file: &str) -> &str {
    file.split_once("/src/").map_or(file, |(c, _)| c)
}

impl Copy {
    /// Copies the workspace to `target/mutants/src` and finds what can be changed in the files that are `chosen`.
    pub fn new(chosen: impl Fn(&str) -> bool) -> Outcome<Copy> {
        let home = root().join("target/mutants");
        fs::create_dir_all(&home).map_err(|e| format!("{}: {e}", home.display()))?;
        let lock = fs::File::create(home.join("lock")).map_err(|e| format!("{}: {e}", home.display()))?;
        if lock.try_lock().is_err() {
            return Err(format!("{} is in use by another call", home.display()).into());
        }
        let files = listed()?;
        let mut sources = BTreeMap::new();
        for file in files.iter().filter(|f| chosen(f)) {
            let text = fs::read_to_string(root().join(file)).map_err(|e| format!("{file}: {e}"))?;
            sources.insert(file.clone(), find(file, text)?);
        }
        let mut next = 1;
        let mut first = HashMap::new();
        for (file, source) in &sources {
            first.insert(file.clone(), next);
            next += source.sites.iter().map(|s| s.changes.len() as u32).sum::<u32>();
        }
        if next >= 1 << 15 {
            return Err(format!("{next} changes are more than the switch counts: choose fewer files").into());
        }
        let mut copy =
            Copy { home, _lock: lock, sources, first, dropped: HashSet::new(), constant: HashSet::new() };
        copy.seed()?;
        copy.recall();
        copy.write(&files)?;
        Ok(copy)
    }

    /// All changes that compile, with their numbers.
    pub fn changes(&self) -> Vec<(u32, Change)> {
        let mut out = Vec::new();
        for (file, source) in &self.sources {
            let changes = source.sites.iter().flat_map(|s| &s.changes);
            for (number, (change, _)) in (self.first[file]..).zip(changes) {
                if !self.dropped.contains(&number) {
                    out.push((number, change.clone()));
                }
            }
        }
        out
    }

    /// The number of the first change of the site of a change.
    pub fn site_of(&self, number: u32) -> u32 {
        for (file, source) in &self.sources {
            let mut first = self.first[file];
            for site in &source.sites {
                let next = first + site.changes.len() as u32;
                if (first..next).contains(&number) {
                    return first;
                }
                first = next;
            }
        }
        number
    }

    fn src(&self) -> PathBuf {
        self.home.join("src")
    }

    /// Takes the dependencies that are built already, so that they are not built twice.
    fn seed(&self) -> Outcome {
        let (from, to) = (root().join("target/debug"), self.home.join("target/debug"));
        if to.exists() || !from.join("deps").exists() {
            return Ok(());
        }
        let own = |name: &str| ["scheidegg", "libscheidegg", "xtask"].iter().any(|o| name.starts_with(o));
        for folder in ["deps", "build", ".fingerprint"] {
            fs::create_dir_all(to.join(folder)).map_err(|e| format!("{}: {e}", to.display()))?;
            let names = fs::read_dir(from.join(folder)).into_iter().flatten().flatten();
            let wanted = names.map(|n| n.path()).filter(|p| {
                let name = p.file_name().unwrap_or_default().to_string_lossy();
                let built = [".rlib", ".rmeta", ".so", ".d"].iter().any(|e| name.ends_with(e));
                !own(&name) && (folder != "deps" || built)
            });
            let wanted: Vec<PathBuf> = wanted.collect();
            for some in wanted.chunks(200) {
                output(Command::new("cp").arg("-a").args(some).arg(to.join(folder)))?;
            }
        }
        Ok(())
    }

    /// Leaves out at once what did not compile the last time.
    fn recall(&mut self) {
        let known = fs::read_to_string(self.home.join("uncompilable.txt")).unwrap_or_default();
        let known: HashSet<&str> = known.lines().collect();
        for (file, source) in &self.sources {
            let changes = source.sites.iter().flat_map(|s| &s.changes);
            for (number, (change, _)) in (self.first[file]..).zip(changes) {
                if known.contains(change.key().as_str()) {
                    self.dropped.insert(number);
                }
            }
        }
        self.constant = known.iter().filter_map(|k| k.strip_prefix("const ")).map(String::from).collect();
    }

    fn remember(&self) -> Outcome {
        let mut lines: Vec<String> = self.constant.iter().map(|c| format!("const {c}")).collect();
        for (file, source) in &self.sources {
            let changes = source.sites.iter().flat_map(|s| &s.changes);
            let dropped = (self.first[file]..).zip(changes).filter(|(n, _)| self.dropped.contains(n));
            lines.extend(dropped.map(|(_, (c, _))| c.key()));
        }
        lines.sort();
        put(&self.home.join("uncompilable.txt"), lines.join("\n").as_bytes())
    }

    /// Writes the whole copy, and takes away what is no longer in the workspace.
    fn write(&self, files: &[String]) -> Outcome {
        let crates: HashSet<&str> = self.sources.keys().map(|f| crate_of(f)).collect();
        let mut kept: HashSet<PathBuf> = HashSet::new();
        for file in files {
            kept.insert(self.src().join(file));
            if self.sources.contains_key(file) {
                continue;
            }
            let mut content = fs::read(root().join(file)).map_err(|e| format!("{file}: {e}"))?;
            if file == "Cargo.toml" {
                content = manifest(&String::from_utf8_lossy(&content)).into_bytes();
            } else if crates.contains(crate_of(file)) && is_root(file) {
                content = [BEFORE.as_bytes(), &content, AFTER.as_bytes()].concat();
            }
            put(&self.src().join(file), &content)?;
        }
        for c in crates {
            let switch = self.src().join(c).join("src/scheidegg_switch.rs");
            put(&switch, SWITCH.as_bytes())?;
            kept.insert(switch);
        }
        self.rewritten()?;
        tidy(&self.src(), &kept);
        let shared = self.home.join("shared");
        let real =
            root().ancestors().skip(1).take(2).map(|a| a.join("shared")).find(|p| p.join("data").exists());
        if let (Some(real), false) = (real, shared.exists()) {
            // Tests look for real detector files beside the workspace.
            std::os::unix::fs::symlink(&real, &shared).map_err(|e| format!("{}: {e}", shared.display()))?;
        }
        Ok(())
    }

    fn rewritten(&self) -> Outcome<HashMap<String, Rewritten>> {
        let mut out = HashMap::new();
        for (file, source) in &self.sources {
            let (before, after) = if is_root(file) { (BEFORE, AFTER) } else { ("", "") };
            let mut r = rewrite(source, before, self.first[file], &self.dropped, &self.constant);
            r.text += after;
            put(&self.src().join(file), r.text.as_bytes())?;
            out.insert(file.clone(), r);
        }
        Ok(out)
    }

    /// Builds the test programs of some packages. Changes that do not compile are found and left out, round by round.
    pub fn build(&mut self, packages: &[String]) -> Outcome<Vec<Binary>> {
        for round in 1.. {
            let written = self.rewritten()?;
            let (binaries, errors) = self.cargo(packages)?;
            if errors.is_empty() {
                self.remember()?;
                return Ok(binaries);
            }
            let before = (self.dropped.len(), self.constant.len());
            for e in &errors {
                self.blame(e, &written);
            }
            println!("round {round}: {} errors, {} changes do not compile", errors.len(), self.dropped.len());
            self.remember()?;
            if before == (self.dropped.len(), self.constant.len()) || round == 40 {
                let text: Vec<_> = errors.iter().map(|e| e.shown.as_str()).collect();
                return Err(format!(
                    "the copy in {} does not compile:\n{}",
                    self.src().display(),
                    text.join("\n")
                )
                .into());
            }
        }
        unreachable!("rounds are counted")
    }

    /// Leaves out what an error of the compiler points to.
    fn blame(&mut self, e: &Fault, written: &HashMap<String, Rewritten>) {
        if e.code == "E0015" {
            // "cannot call non-const associated function `Shape::pixels` in constants"
            let name = e.message.split('`').nth(1).unwrap_or_default();
            let name = name.rsplit("::").next().unwrap_or(name);
            self.constant.insert(name.split('<').next().unwrap_or(name).to_string());
            return;
        }
        for (file, at) in &e.at {
            let Some(w) = written.get(file) else { continue };
            let holds = |r: &Range<usize>| r.start <= at.start && at.end <= r.end;
            let size = |r: &Range<usize>| r.len();
            let change = w.changes.iter().filter(|(r, _)| holds(r)).min_by_key(|(r, _)| size(r));
            let site = w.sites.iter().filter(|(r, _)| holds(r)).min_by_key(|(r, _)| size(r));
            match (change, site) {
                (Some((c, number)), Some((s, _))) if size(c) <= size(s) => {
                    self.dropped.insert(*number);
                }
                (_, Some((_, numbers))) => self.dropped.extend(numbers.clone()),
                _ => {
                    let function = w.functions.iter().filter(|(r, _)| holds(r)).min_by_key(|(r, _)| size(r));
                    if let Some((_, numbers)) = function {
                        self.leave_out(file, numbers.clone());
                        println!("left out in a function of {file}:\n{}", e.shown);
                    }
                }
            }
        }
    }

    /// Leaves out what may be to blame for an error somewhere in a function: statements that are gone (a `return`, a `drop`),
    /// and if it is none of those, everything.
    fn leave_out(&mut self, file: &str, numbers: Range<u32>) {
        let changes = self.sources[file].sites.iter().flat_map(|s| &s.changes);
        let statements: Vec<u32> = (self.first[file]..)
            .zip(changes)
            .filter(|(n, (c, _))| numbers.contains(n) && c.what == "delete statement")
            .map(|(n, _)| n)
            .collect();
        if statements.iter().all(|n| self.dropped.contains(n)) {
            self.dropped.extend(numbers);
        } else {
            self.dropped.extend(statements);
        }
    }

    /// One build: its test programs, or its errors.
    fn cargo(&self, packages: &[String]) -> Outcome<(Vec<Binary>, Vec<Fault>)> {
        let mut cargo = Command::new("cargo");
        cargo.args(["build", "--tests", "--message-format=json", "--keep-going"]);
        for p in packages {
            cargo.args(["--package", p]);
        }
        cargo
            .current_dir(self.src())
            .env("CARGO_TARGET_DIR", self.home.join("target"))
            .stderr(Stdio::piped());
        let out = cargo.output().map_err(|e| format!("cargo: {e}"))?;
        let (mut binaries, mut faults) = (Vec::new(), Vec::new());
        for line in String::from_utf8_lossy(&out.stdout).lines() {
            let Ok(m) = serde_json::from_str::<serde_json::Value>(line) else { continue };
            match m["reason"].as_str() {
                Some("compiler-artifact") if m["profile"]["test"] == true => {
                    let Some(path) = m["executable"].as_str() else { continue };
                    let manifest = PathBuf::from(m["manifest_path"].as_str().unwrap_or_default());
                    let folder = manifest.parent().map(Path::to_path_buf).unwrap_or_default();
                    let package = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
                    let target = m["target"]["name"].as_str().unwrap_or_default();
                    let name = format!("{package}/{target}");
                    binaries.push(Binary { name, path: path.into(), folder });
                }
                Some("compiler-message") if m["message"]["level"] == "error" => {
                    faults.extend(fault(&m["message"]))
                }
                _ => {}
            }
        }
        if !out.status.success() && faults.is_empty() {
            return Err(
                format!("cargo build --tests failed:\n{}", String::from_utf8_lossy(&out.stderr)).into()
            );
        }
        binaries.sort_by(|a, b| a.name.cmp(&b.name));
        Ok((binaries, faults))
    }
}

/// An error of the compiler.
struct Fault {
    code: String,
    message: String,
    shown: String,
    /// Files and bytes that it points to.
    at: Vec<(String, Range<usize>)>,
}

fn fault(m: &serde_json::Value) -> Option<Fault> {
    let mut at = Vec::new();
    for span in m["spans"].as_array()? {
        if span["is_primary"] != true {
            continue;
        }
        // Out of a macro to where it is called.
        let mut span = span;
        while !span["expansion"].is_null() {
            span = &span["expansion"]["span"];
        }
        let bytes = span["byte_start"].as_u64()? as usize..span["byte_end"].as_u64()? as usize;
        at.push((span["file_name"].as_str()?.to_string(), bytes));
    }
    let text = |v: &serde_json::Value| v.as_str().unwrap_or_default().to_string();
    let shown = text(&m["rendered"]);
    (!at.is_empty()).then(|| Fault {
        code: text(&m["code"]["code"]),
        message: text(&m["message"]),
        shown,
        at,
    })
}

fn is_root(file: &str) -> bool {
    file.ends_with("/src/lib.rs") || file.ends_with("/src/main.rs")
}

/// What a root of a crate begins and ends with.
const BEFORE: &str = "#![allow(warnings, arithmetic_overflow, unconditional_panic)]\n";
const AFTER: &str = "\nmod scheidegg_switch;\n";

/// The manifest of the workspace for the copy: no lint ends the build, and the workspace's own crates, built from scratch,
/// are optimised less than their dependencies, which are there already.
fn manifest(text: &str) -> String {
    let text = text.replace("= \"deny\"", "= \"allow\"");
    if std::env::var_os("CARGO_PROFILE_DEV_OPT_LEVEL").is_some() {
        return text;
    }
    let own = "[profile.dev]\nopt-level = 1\ndebug = false\n\n[profile.dev.package.\"*\"]\n";
    text.replace("[profile.dev]\n", own)
}

/// Removes files that are not kept.
fn tidy(folder: &Path, kept: &HashSet<PathBuf>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() && !path.is_symlink() {
            tidy(&path, kept);
        } else if !kept.contains(&path) {
            let _ = fs::remove_file(&path);
        }
    }
}
