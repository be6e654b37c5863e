//! Puts the commit into the executable: it runs on machines that have no repository.
use std::process::Command;

fn git(args: &[&str]) -> Option<String> {
    let out = Command::new("git").args(args).output().ok()?;
    out.status.success().then(|| String::from_utf8_lossy(&out.stdout).trim().to_string())
}

fn main() {
    println!("cargo::rerun-if-env-changed=SCHEIDEGG_COMMIT");
    for path in ["HEAD", "index"].iter().filter_map(|p| git(&["rev-parse", "--git-path", p])) {
        println!("cargo::rerun-if-changed={path}");
    }
    let commit = std::env::var("SCHEIDEGG_COMMIT").ok().filter(|c| !c.is_empty()).or_else(|| {
        let head = git(&["rev-parse", "--short=12", "HEAD"])?;
        // Results of an earlier run in the tree do not change the program.
        let clean = git(&["status", "--porcelain", "--", "*.rs", "*.toml", "*.ptx"])?.is_empty();
        Some(if clean { head } else { format!("{head}-dirty") })
    });
    println!("cargo::rustc-env=SCHEIDEGG_COMMIT={}", commit.as_deref().unwrap_or("unknown"));
}
