//! Tells the program which commit it is built from.

use std::path::Path;
use std::process::Command;

/// What git says, if there is git and this is a clone.
fn git(args: &[&str]) -> Option<String> {
    let output = Command::new("git").args(args).output().ok()?;
    let words = String::from_utf8(output.stdout).ok()?.trim().to_string();
    (output.status.success() && !words.is_empty()).then_some(words)
}

fn main() {
    let commit = git(&["describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]);
    println!("cargo::rustc-env=SCHEIDEGG_COMMIT={}", commit.as_deref().unwrap_or("unknown"));
    println!("cargo::rerun-if-changed=build.rs");
    let Some(root) = git(&["rev-parse", "--show-toplevel"]) else { return };
    // Another commit, or another state of the sources. `logs/HEAD` changes with every commit.
    let moved = ["HEAD", "logs/HEAD"].map(|name| git(&["rev-parse", "--git-path", name]));
    let sources = ["cli/src", "host/src", "finder/src", "kernels-rs/src", "cpu-ref/src"];
    let sources = sources.map(|folder| Path::new(&root).join(folder).display().to_string());
    for path in moved.into_iter().flatten().chain(sources).filter(|p| Path::new(p).exists()) {
        println!("cargo::rerun-if-changed={path}");
    }
}
