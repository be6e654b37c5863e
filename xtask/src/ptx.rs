//! `xtask ptx`: build the PTX, or check that what is committed comes from the sources.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::compiler::{self, RUSTFLAGS};
use crate::{Failure, Outcome, PtxArgs, assemble, module, root, sass};

/// Where the PTX comes from: `kernels-rs/ptx/manifest.json`.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Manifest {
    /// The compiler and its LLVM.
    compiler: String,
    /// The flags of the compiler.
    rustflags: String,
    /// Hash of every source that the kernels are made of.
    sources: String,
    /// Hash of every module.
    modules: BTreeMap<String, String>,
}

fn folder() -> PathBuf {
    root().join("kernels-rs/ptx")
}

/// Does what the arguments say.
pub fn run(args: &PtxArgs) -> Outcome {
    if args.check {
        check(args.require)
    } else if args.assemble || args.resources {
        assemble::run(&folder(), args.chip.as_deref(), args.resources)
    } else if let Some(entry) = &args.sass {
        sass::run(&folder(), entry, args.chip.as_deref().unwrap_or("sm_90"))
    } else {
        build()
    }
}

fn build() -> Outcome {
    let compiler = compiler::find()?;
    let modules = module::split(&compiler.compile(&root().join("kernels-rs/entry"))?)?;
    let manifest = Manifest {
        compiler: compiler.version.clone(),
        rustflags: RUSTFLAGS.into(),
        sources: sources()?,
        modules: modules.iter().map(|(n, t)| (n.clone(), hash([t.as_bytes()]))).collect(),
    };
    std::fs::create_dir_all(folder()).map_err(|e| format!("{}: {e}", folder().display()))?;
    for (name, text) in &modules {
        write(&folder().join(format!("{name}.ptx")), text)?;
    }
    let json = serde_json::to_string_pretty(&manifest).map_err(|e| e.to_string())?;
    write(&folder().join("manifest.json"), &(json + "\n"))?;
    let bytes: usize = modules.values().map(String::len).sum();
    println!("{} modules, {} kB, by rustc {}", modules.len(), bytes / 1000, compiler.version);
    Ok(())
}

fn write(path: &Path, text: &str) -> Outcome {
    std::fs::write(path, text).map_err(|e| format!("{}: {e}", path.display()).into())
}

fn read(path: &Path) -> Outcome<String> {
    std::fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()).into())
}

fn check(require: bool) -> Outcome {
    let stale = |what: String| Failure::from(format!("{what} (cargo xtask ptx builds it anew)"));
    let text = read(&folder().join("manifest.json"))?;
    let manifest: Manifest =
        serde_json::from_str(&text).map_err(|e| stale(format!("kernels-rs/ptx/manifest.json: {e}")))?;
    if manifest.sources != sources()? {
        return Err(stale("the PTX in kernels-rs/ptx is not that of the sources in kernels-rs".into()));
    }
    if manifest.rustflags != RUSTFLAGS {
        return Err(stale(format!("the PTX was built with `{}`", manifest.rustflags)));
    }
    for (name, expected) in &manifest.modules {
        let path = folder().join(format!("{name}.ptx"));
        if hash([read(&path)?.as_bytes()]) != *expected {
            return Err(stale(format!("{} is not what the manifest says", path.display())));
        }
    }
    let compiler = match compiler::find() {
        Ok(compiler) => compiler,
        Err(e) if require => return Err(e),
        Err(e) => {
            let message = format!("SKIPPED: sources and PTX agree, but nothing was compiled: {}", e.message);
            return Err(Failure { message, status: 3 });
        }
    };
    if compiler.version != manifest.compiler {
        println!("note: the PTX comes from rustc {}, this is {}", manifest.compiler, compiler.version);
    }
    let fresh = module::split(&compiler.compile(&root().join("kernels-rs/entry"))?)?;
    if !fresh.keys().eq(manifest.modules.keys()) {
        return Err(stale("the modules in kernels-rs/ptx are not those of a fresh build".into()));
    }
    for (name, text) in &fresh {
        if let Some(line) = first_difference(&read(&folder().join(format!("{name}.ptx")))?, text) {
            return Err(stale(format!(
                "kernels-rs/ptx/{name}.ptx differs from a fresh build, first in {line}"
            )));
        }
    }
    println!("{} modules are what rustc {} makes of the sources", fresh.len(), compiler.version);
    Ok(())
}

/// Number and text of the first line that differs.
fn first_difference(committed: &str, fresh: &str) -> Option<String> {
    let (mut a, mut b) = (committed.lines(), fresh.lines());
    for number in 1.. {
        match (a.next(), b.next()) {
            (None, None) => break,
            (x, y) if x == y => {}
            (x, y) => {
                return Some(format!("line {number}: `{}`, now `{}`", x.unwrap_or(""), y.unwrap_or("")));
            }
        }
    }
    None
}

/// The hash of all sources of the kernels, by name and content.
fn sources() -> Outcome<String> {
    let mut files = Vec::new();
    for part in ["kernels-rs/src", "kernels-rs/entry/src"] {
        collect(&root().join(part), &mut files)?;
    }
    for file in ["kernels-rs/Cargo.toml", "kernels-rs/entry/Cargo.toml", "kernels-rs/entry/Cargo.lock"] {
        files.push(root().join(file));
    }
    files.sort();
    let mut parts = Vec::new();
    for file in &files {
        let name = file.strip_prefix(root()).unwrap_or(file).to_string_lossy().replace('\\', "/");
        parts.push(name.into_bytes());
        parts.push(read(file)?.replace("\r\n", "\n").into_bytes());
    }
    Ok(hash(parts.iter().map(Vec::as_slice)))
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> Outcome {
    for item in std::fs::read_dir(folder).map_err(|e| format!("{}: {e}", folder.display()))?.flatten() {
        let path = item.path();
        if path.is_dir() {
            collect(&path, files)?;
        } else if path.extension().is_some_and(|e| e == "rs") {
            files.push(path);
        }
    }
    Ok(())
}

/// FNV-1a of 64 bits over the parts with their lengths: it is to notice changes, not to withstand forgery.
fn hash<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> String {
    let mut h = 0xcbf2_9ce4_8422_2325u64;
    let mut eat = |bytes: &[u8]| {
        for b in bytes {
            h = (h ^ u64::from(*b)).wrapping_mul(0x0100_0000_01b3);
        }
    };
    for part in parts {
        eat(&(part.len() as u64).to_le_bytes());
        eat(part);
    }
    format!("{h:016x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_is_named() {
        assert_eq!(first_difference("a\nb\n", "a\nb\n"), None);
        assert_eq!(first_difference("a\nb\n", "a\nc\n").unwrap(), "line 2: `b`, now `c`");
        assert_eq!(first_difference("a\n", "a\nc\n").unwrap(), "line 2: ``, now `c`");
    }

    #[test]
    fn a_hash_sees_where_parts_end() {
        assert_ne!(hash([&b"ab"[..], b"c"]), hash([&b"a"[..], b"bc"]));
    }
}
