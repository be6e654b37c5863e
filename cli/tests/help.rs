//! What the command line says of itself: help with examples that work, completions, man pages, how much is said.

mod common;

use std::fs;
use std::path::Path;

use common::{command, fails, json, names, run, stderr, stdout};

/// Small simulated files with the names that the examples use.
fn folder() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let at = |words: &str| {
        let o = command(words.split(' ')).current_dir(dir.path()).output().unwrap();
        assert!(o.status.success(), "{words}: {}", stderr(&o));
    };
    at("simulate --out . --rows 40 --cols 48 --darks 120 --frames 110 --photons 25 --seed 3");
    at("find --dark dark.npy --data data.npy --out clusters.npz --save-pedestal pedestal.npz");
    at("find --dark dark.npy --data data.npy --out clusters.clust --size 5 --write-mask mask.npy");
    dir
}

fn in_folder(dir: &Path, words: &[&str]) -> std::process::Output {
    command(words).current_dir(dir).output().unwrap()
}

/// The examples of every help.
fn examples() -> Vec<String> {
    let all = stdout(&run(["--help"]));
    let commands = all.lines().skip_while(|l| !l.starts_with("Commands:")).skip(1);
    let names: Vec<&str> = commands
        .take_while(|l| !l.is_empty())
        .filter(|l| l.starts_with("  ") && !l.starts_with("   "))
        .filter_map(|l| l.split_whitespace().next())
        .filter(|n| *n != "help")
        .collect();
    assert!(names.contains(&"find") && names.contains(&"man"), "{names:?}");
    let mut out = Vec::new();
    for name in names {
        let help = stdout(&run([name, "--help"]));
        let lines = help.lines().skip_while(|l| !l.starts_with("Example")).skip(1);
        let some: Vec<String> = lines.map(|l| l.trim().to_string()).filter(|l| !l.is_empty()).collect();
        assert!(!some.is_empty(), "the help of {name} has no example");
        assert!(some.iter().all(|l| l.starts_with(&format!("scheidegg {name} "))), "{some:?}");
        out.extend(some);
    }
    out
}

#[test]
fn every_example_of_every_help_works() {
    let dir = folder();
    let mut seen = 0;
    for example in examples() {
        let line = example.split(" > ").next().unwrap();
        let words: Vec<&str> = line.split_whitespace().skip(1).collect();
        let o = in_folder(dir.path(), &words);
        assert!(o.status.success(), "{example}: {}{}", stdout(&o), stderr(&o));
        seen += 1;
    }
    assert!(seen >= 10, "{seen} examples");
}

#[test]
fn completions_and_man_pages_know_every_option() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let text = stdout(&run(["completions", shell]));
        for word in ["find", "train", "pedestal-samples", "write-mask", "completions"] {
            assert!(text.contains(word), "{shell}: no {word}");
        }
    }
    assert!(fails(["completions", "cobol"], 2).contains("bash"));
    let page = stdout(&run(["man"]));
    assert!(page.contains(".TH scheidegg 1") && page.contains("scheidegg\\-train"), "{page}");
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("man1");
    assert!(stdout(&run(["man", folder.to_str().unwrap()])).contains("11 pages"));
    let pages = names(&folder);
    assert_eq!(pages.len(), 11, "{pages:?}");
    let find = fs::read_to_string(folder.join("scheidegg-find.1")).unwrap();
    assert!(
        find.contains(".TH scheidegg-find 1") && find.contains("noise\\-floor") && find.contains("Examples"),
        "{find}"
    );
}

#[test]
fn the_version_has_a_commit() {
    let text = stdout(&run(["--version"]));
    let (version, commit) = text.trim().strip_prefix("scheidegg ").unwrap().split_once(' ').unwrap();
    assert_eq!(version, env!("CARGO_PKG_VERSION"));
    let commit = commit.trim_matches(|c| c == '(' || c == ')');
    let hex = commit.trim_end_matches("-dirty");
    assert!(commit == "unknown" || (hex.len() >= 7 && hex.chars().all(|c| c.is_ascii_hexdigit())), "{text}");
}

#[test]
fn quiet_says_nothing_and_verbose_says_why() {
    let dir = folder();
    let find = ["find", "--dark", "dark.npy", "--data", "data.npy", "--out", "q.npz"];
    let with = |more: &[&str]| {
        let o = in_folder(dir.path(), &[&find[..], more].concat());
        assert!(o.status.success(), "{}", stderr(&o));
        (stdout(&o), stderr(&o))
    };
    assert_eq!(with(&["--quiet"]), (String::new(), String::new()));
    assert_eq!(with(&["-q"]), (String::new(), String::new()));
    let (out, err) = with(&["--quiet", "--json"]);
    assert!(serde_json::from_str::<serde_json::Value>(&out).unwrap()["clusters"].is_u64() && err.is_empty());
    let (usual, nothing) = with(&[]);
    assert!(usual.contains("clusters     ") && nothing.is_empty(), "{nothing}");
    let (_, told) = with(&["--verbose"]);
    for words in ["scheidegg: backend ", "frames, ", "in flight", "pedestal from 120 dark frames of dark.npy"]
    {
        assert!(told.contains(words), "no {words} in {told}");
    }
    for (words, quiet) in [
        (&["train", "--dark", "dark.npy", "--out", "t.npz"][..], true),
        (&["info", "data.npy"], true),
        (&["compare", "q.npz", "q.npz"], true),
        (&["backends"], true),
        (
            &[
                "simulate",
                "--out",
                "s",
                "--rows",
                "9",
                "--cols",
                "9",
                "--darks",
                "2",
                "--frames",
                "2",
                "--faultless",
            ],
            true,
        ),
    ] {
        let said = |o: std::process::Output| stdout(&o) + &stderr(&o);
        let (loud, less) = (in_folder(dir.path(), words), in_folder(dir.path(), &[words, &["-q"]].concat()));
        assert_eq!(loud.status.code(), less.status.code());
        assert!(!said(loud).is_empty() && said(less).is_empty() == quiet, "{words:?}");
    }
    // Errors are said all the same, and by the exit status.
    let o = in_folder(dir.path(), &["info", "nowhere.npy", "--quiet"]);
    assert!(o.status.code() == Some(1) && stderr(&o).contains("nowhere.npy"));
    assert!(fails(["info", "x", "--quiet", "--verbose"], 2).contains("cannot be used with"));
}

#[test]
fn a_dry_run_checks_everything_and_writes_nothing() {
    let dir = folder();
    let before = names(dir.path());
    let data = ["--data", "data.npy"];
    let find = [&["find", "--dark", "dark.npy"][..], &data].concat();
    let plan = |words: &[&str]| {
        let o = in_folder(dir.path(), &[words, &["--dry-run"]].concat());
        assert_eq!(names(dir.path()), before, "{words:?} left something");
        (o.status.code(), stdout(&o) + &stderr(&o))
    };
    let out = ["--out", "o.clust", "--out", "clusters.npz", "--report", "r", "--save-pedestal", "p.npz"];
    let (code, text) = plan(&[&find[..], &out, &["--first", "20", "--frames", "1000"]].concat());
    assert_eq!(code, Some(0), "{text}");
    for words in [
        "data.npy, 90 frames of 40 x 48",
        "dark.npy, 120 dark frames, window 120",
        "would write  o.clust (clusters)",
        "clusters.npz (clusters, in the place of the one that is there)",
        "report.html (report)",
        "p.npz (pedestal)",
        "backend      ",
    ] {
        assert!(text.contains(words), "no {words} in {text}");
    }
    let o = in_folder(dir.path(), &[&find[..], &["--out", "o.clust", "--dry-run", "--json"]].concat());
    let said: serde_json::Value = serde_json::from_slice(&o.stdout).unwrap();
    assert_eq!((&said["frames"], &said["would_write"][0]), (&110.into(), &"o.clust".into()));
    assert!(plan(&["train", "--dark", "dark.npy", "--out", "p2.npz"]).1.contains("would write  p2.npz"));
    assert!(
        plan(&["simulate", "--out", "new", "--frames", "3"])
            .1
            .contains("1000 and 3 frames of 400 x 400 as npy")
    );
    // What would fail later fails now.
    for (more, code, words) in [
        (&["--out", "nowhere/o.npz"][..], 1, "nowhere"),
        (&["--out", "o.npz", "--report", "data.npy"], 1, "is a file"),
        (&["--out", "o.npz", "--mask", "none.npy"], 1, "none.npy"),
        (&["--out", "o.npz", "--size", "9x1"], 2, "2 to 15"),
        (&["--out", "o.npz", "--backend", "abacus"], 2, "abacus"),
        (&["--out", "data.npy"], 2, "another file than --data"),
        (&["--out", "o.npz", "--dark-frames", "5"], 1, "5 dark frames"),
    ] {
        let (got, text) = plan(&[&find[..], more].concat());
        assert!(got == Some(code) && text.contains(words), "{more:?}: {got:?} {text}");
    }
}

#[test]
fn numbers_that_are_none_are_told_as_such() {
    for (words, said) in [
        (&["find", "--size", "-3"][..], "a number like 3, or WxH like 3x5"),
        (&["find", "--frames", "0"], "whole number, 1 or more"),
        (&["find", "--frames", "-1"], "whole number, 1 or more"),
        (&["find", "--first", "-1"], "whole number, 0 or more"),
        (&["find", "--dark-frames", "1"], "whole number, 2 or more"),
        (&["find", "--pedestal-samples", "1"], "whole number, 2 or more"),
        (&["find", "--n-sigma", "five"], "expected a number, like 5 or 4.5"),
        (&["find", "--n-sigma", "nan"], "expected a number"),
        (&["find", "--roi", "-1"], "whole number, 0 or more"),
        (&["bench", "--threads", "1,-2"], "whole number, 0 or more"),
        (&["bench", "--reps", "0"], "whole number, 1 or more"),
        (&["simulate", "--rows", "1e3"], "whole number, 0 or more"),
    ] {
        let text = fails(words, 2);
        assert!(text.contains(said), "{words:?}: {text}");
    }
    // What is a number but out of range is told by its option.
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("s");
    for (option, value) in
        [("--photons", "-1"), ("--hot", "1000000"), ("--bits", "15"), ("--energy", "-8"), ("--drift", "-1e9")]
    {
        let said = fails(["simulate", "--out", out.to_str().unwrap(), option, value], 2);
        assert!(said.contains(option), "{said}");
    }
    assert!(fails(["demo", "--side", "70000", "--out", out.to_str().unwrap()], 2).contains("--side"));
    json(["backends", "--json"]);
}
