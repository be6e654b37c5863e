//! SPEC is in the clone and in the crate, and whatever cites one of its sections leads there.

use std::path::{Path, PathBuf};

const SPEC: &str = include_str!("../spec.md");

/// The root of the clone; nothing where the crate stands alone.
fn root() -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent()?;
    let found = root.join("docs/spec.md").exists();
    if !found {
        println!("SKIPPED: docs/spec.md is not here (the crate stands alone)");
    }
    found.then(|| root.to_path_buf())
}

/// The anchor of every section, by its number, as rustdoc and GitHub make it of the heading.
fn anchors() -> Vec<(String, String)> {
    let headings = SPEC.lines().filter_map(|l| l.strip_prefix("## "));
    let anchor = |h: &str| h.to_lowercase().replace(['.', '(', ')'], "").replace(' ', "-");
    headings.map(|h| (h.split('.').next().unwrap().to_string(), anchor(h))).collect()
}

/// Every file of the clone with this ending that somebody wrote, with its path.
fn files(dir: &Path, ending: &str, all: &mut Vec<(PathBuf, String)>) {
    for entry in std::fs::read_dir(dir).unwrap().flatten() {
        let (path, name) = (entry.path(), entry.file_name());
        let name = name.to_string_lossy();
        if path.is_dir() && !name.starts_with('.') && !["target", "runs", "shared"].contains(&&*name) {
            files(&path, ending, all);
        } else if name.ends_with(ending) && path.is_file() {
            let text = std::fs::read_to_string(&path).unwrap();
            all.push((path, text));
        }
    }
}

/// The section numbers that follow every mention of SPEC in a line: `SPEC 2`, `SPEC 2 and 3`, `[SPEC 2](link) and [3](link)`.
fn cited(line: &str) -> Vec<String> {
    let after = |rest: &str| -> String { rest.chars().take_while(char::is_ascii_digit).collect() };
    let mut all = Vec::new();
    for rest in line.split("SPEC ").skip(1) {
        let number = after(rest);
        let link = rest[number.len()..].strip_prefix("](").and_then(|r| r.split_once(')')).map(|(_, r)| r);
        let second = link.unwrap_or(&rest[number.len()..]).strip_prefix(" and ").unwrap_or("");
        all.push(number);
        all.push(after(second.strip_prefix('[').unwrap_or(second)));
    }
    all.retain(|n| !n.is_empty());
    all
}

/// `(label, anchor)` of every link into a section.
fn links(line: &str) -> Vec<(String, String)> {
    let mut all = Vec::new();
    for (at, _) in line.match_indices("spec#").chain(line.match_indices("spec.md#")) {
        let label = line[..at].rsplit_once('[').map_or("", |(_, l)| l).split(']').next().unwrap_or("");
        let anchor = line[at..].split_once('#').map_or("", |(_, a)| a).split(')').next().unwrap_or("");
        all.push((label.trim_start_matches("SPEC ").to_string(), anchor.to_string()));
    }
    all
}

#[test]
fn the_crate_holds_the_spec_of_the_clone() {
    let Some(root) = root() else { return };
    assert_eq!(std::fs::read_to_string(root.join("docs/spec.md")).unwrap(), SPEC);
    let numbers: Vec<_> = anchors().into_iter().map(|(n, _)| n).collect();
    assert_eq!(numbers, ["1", "2", "3", "4", "5", "6"]);
    // Rustdoc takes an indented block for Rust.
    assert!(SPEC.lines().all(|l| !l.starts_with("    ")), "an indented block is a doc test");
}

#[test]
fn every_citation_names_a_section_and_leads_there() {
    let Some(root) = root() else { return };
    let anchors = anchors();
    let mut all = Vec::new();
    files(&root, ".rs", &mut all);
    files(&root, ".md", &mut all);
    assert!(all.len() > 200, "{} files", all.len());
    let mut seen = 0;
    for (path, text) in all {
        let name = path.strip_prefix(&root).unwrap().display().to_string().replace('\\', "/");
        if name == "finder/tests/spec.rs" || name.ends_with("/spec.md") {
            continue;
        }
        for (n, line) in text.lines().enumerate() {
            for number in cited(line) {
                seen += 1;
                assert!(anchors.iter().any(|(s, _)| *s == number), "{name}:{}: no section {number}", n + 1);
            }
            for (label, anchor) in links(line) {
                let right = anchors.iter().find(|(_, a)| *a == anchor);
                assert_eq!(right.map(|(n, _)| n), Some(&label), "{name}:{}: {line}", n + 1);
            }
        }
        // Documents, and what docs.rs shows of the libraries.
        let library = ["finder/src/", "cpu-ref/src/", "host/src/"].iter().any(|l| name.starts_with(l));
        let shown = |l: &&str| match name.ends_with(".md") {
            true => l.contains("SPEC"),
            false => {
                library && !name.contains("tests") && l.trim_start().starts_with("//") && {
                    let l = l.trim_start();
                    (l.starts_with("///") || l.starts_with("//!")) && l.contains("SPEC")
                }
            }
        };
        let generated = name == "docs/performance-gpu.md" || name.contains("golden");
        let linked = text.contains("spec.md") || text.contains("](crate::spec") || text.contains("::spec");
        let linked = linked || text.contains("](spec)");
        let mention = text.lines().find(shown);
        assert!(generated || linked || mention.is_none(), "{name}: leads nowhere: {}", mention.unwrap_or(""));
        // A section that is cited in the docs of a library is a link by itself.
        for line in text.lines().filter(|l| library && shown(l)) {
            assert_eq!(cited(line).len(), links(line).len(), "{name}: {line}");
        }
    }
    assert!(seen > 50, "only {seen} citations seen");
}

#[test]
fn the_windows_that_the_spec_names_round_below_one() {
    let below = |n: &u32| f64::from(*n) * (1.0 / f64::from(*n)) < 1.0;
    assert_eq!((2..100).filter(below).collect::<Vec<u32>>(), [49, 98]);
    let single = |n: &u32| *n as f32 * (1.0 / *n as f32) < 1.0;
    assert_eq!((2..100).find(single), Some(41));
}
