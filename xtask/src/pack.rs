//! `xtask pack`: executables for a GPU machine without Rust.

use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Args;

use crate::{Outcome, output, root};

/// What a folder that travels may weigh.
const LIMIT: u64 = 64 << 20;

/// Which executables are packed.
#[derive(Args)]
pub struct PackArgs {
    /// Leave out the test executables.
    #[arg(long)]
    no_tests: bool,
    /// Features for the build, as cargo takes them.
    #[arg(long, value_name = "FEATURES")]
    features: Option<String>,
}

/// Builds programs, benches and tests in release and puts them, stripped, into `carry/` with the scripts of `benches/`.
pub fn run(args: &PackArgs) -> Outcome {
    let carry = root().join("carry");
    if carry.exists() {
        std::fs::remove_dir_all(&carry).map_err(|e| format!("{}: {e}", carry.display()))?;
    }
    std::fs::create_dir_all(&carry).map_err(|e| format!("{}: {e}", carry.display()))?;
    let mut found = built(&["build", "--release", "--workspace", "--bins"], args)?;
    if !args.no_tests {
        found.extend(built(&["test", "--release", "--no-run", "--package", "scheidegg-conformance"], args)?);
    }
    let mut total = 0;
    for (name, path) in &found {
        if name == "xtask" {
            continue;
        }
        let to = carry.join(name);
        std::fs::copy(path, &to).map_err(|e| format!("{}: {e}", path.display()))?;
        output(Command::new("strip").arg(&to))?;
        total += size(&to)?;
    }
    let scripts = std::fs::read_dir(root().join("benches")).into_iter().flatten().flatten().map(|f| f.path());
    for script in scripts.filter(|p| p.extension().is_some_and(|e| e == "sh")) {
        let to = carry.join(script.file_name().unwrap_or_default());
        std::fs::copy(&script, &to).map_err(|e| format!("{}: {e}", script.display()))?;
        total += size(&to)?;
    }
    if total > LIMIT {
        return Err(format!(
            "carry/ has {} MiB, at most {} travel (--no-tests leaves out the tests)",
            total >> 20,
            LIMIT >> 20
        )
        .into());
    }
    println!("carry/: {} executables, {:.1} MiB", found.len(), total as f64 / f64::from(1 << 20));
    Ok(())
}

fn size(path: &Path) -> Outcome<u64> {
    std::fs::metadata(path).map(|m| m.len()).map_err(|e| format!("{}: {e}", path.display()).into())
}

/// The executables that a cargo command builds: name and path.
fn built(arguments: &[&str], args: &PackArgs) -> Outcome<Vec<(String, PathBuf)>> {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or("cargo".into()));
    cargo.current_dir(root()).args(arguments).arg("--message-format=json-render-diagnostics");
    if let Some(features) = &args.features {
        cargo.args(["--features", features]);
    }
    let mut found: Vec<(String, PathBuf)> = Vec::new();
    for line in output(&mut cargo)?.lines() {
        let Ok(message) = serde_json::from_str::<serde_json::Value>(line) else { continue };
        let Some(path) = message["executable"].as_str() else { continue };
        let name = message["target"]["name"].as_str().unwrap_or("");
        // A library's unit tests have the library's name.
        let is_test = message["profile"]["test"].as_bool().unwrap_or(false);
        found.push((if is_test { format!("test-{name}") } else { name.into() }, path.into()));
    }
    Ok(found)
}
