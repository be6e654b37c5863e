//! Finding the compiler for the GPU and NVIDIA's assembler, and calling the first.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{Outcome, output};

/// The release of rustc that the committed PTX comes from. Another may emit other text for the same kernels.
pub const RUSTC_RELEASE: &str = "1.96.0";

/// What the kernels are compiled with, beside `--release`.
pub const RUSTFLAGS: &str =
    "-C linker=/bin/true -C target-cpu=sm_75 --emit=asm -C llvm-args=-inline-threshold=100000";

/// A rustc that has the sources of `core`.
pub struct Compiler {
    rustc: PathBuf,
    cargo: PathBuf,
    /// Its first line of `rustc -vV`, without the word rustc, and its LLVM.
    pub version: String,
}

/// Finds the compiler: `$PTX_RUSTC`, a rustup toolchain of [`RUSTC_RELEASE`], `/usr/bin/rustc`, `rustc` of the path.
pub fn find() -> Outcome<Compiler> {
    let mut tried = Vec::new();
    let rustup = output(Command::new("rustup").args(["which", "--toolchain", RUSTC_RELEASE, "rustc"]))
        .ok()
        .map(|s| PathBuf::from(s.trim()));
    let asked = std::env::var_os("PTX_RUSTC").map(PathBuf::from);
    let candidates = [asked, rustup, Some("/usr/bin/rustc".into()), Some("rustc".into())];
    for rustc in candidates.into_iter().flatten() {
        match examine(&rustc) {
            Ok(compiler) => return Ok(compiler),
            Err(why) => tried.push(format!("  {}: {}", rustc.display(), why.message)),
        }
    }
    Err(format!(
        "no compiler for the kernels: rustc {RUSTC_RELEASE} with the sources of core is needed (rustup toolchain \
         install {RUSTC_RELEASE} --component rust-src; or on Debian: apt-get install rustc-web cargo-web \
         rust-web-src; or PTX_RUSTC=/path/to/rustc)\n{}",
        tried.join("\n")
    )
    .into())
}

fn examine(rustc: &Path) -> Outcome<Compiler> {
    let about = output(Command::new(rustc).env_remove("RUSTUP_TOOLCHAIN").arg("-vV"))?;
    let field = |name: &str| about.lines().find_map(|l| l.strip_prefix(name)).unwrap_or("unknown").trim();
    if field("release:") != RUSTC_RELEASE {
        return Err(format!("release {}", field("release:")).into());
    }
    let sysroot = output(Command::new(rustc).env_remove("RUSTUP_TOOLCHAIN").args(["--print", "sysroot"]))?;
    let core = Path::new(sysroot.trim()).join("lib/rustlib/src/rust/library/core");
    if !core.is_dir() {
        return Err(format!("no sources of core at {}", core.display()).into());
    }
    let cargo = match rustc.parent() {
        Some(folder) if folder.join("cargo").is_file() => folder.join("cargo"),
        _ => "cargo".into(),
    };
    let version = format!("{}, LLVM {}", field("rustc "), field("LLVM version:"));
    Ok(Compiler { rustc: rustc.into(), cargo, version })
}

impl Compiler {
    /// Compiles the entry crate; the assembly text of the whole module.
    pub fn compile(&self, entry: &Path) -> Outcome<String> {
        let target = entry.join("target");
        let folder = target.join("nvptx64-nvidia-cuda/release/deps");
        let is_module = |p: &Path| {
            p.extension().is_some_and(|e| e == "s")
                && p.file_stem().is_some_and(|n| n.to_string_lossy().starts_with("scheidegg_entry"))
        };
        let modules = || -> Vec<PathBuf> {
            std::fs::read_dir(&folder)
                .map(|d| d.flatten().map(|f| f.path()).filter(|p| is_module(p)).collect())
                .unwrap_or_default()
        };
        // An old module under another name would be ambiguous.
        for old in modules() {
            std::fs::remove_file(&old).map_err(|e| format!("{}: {e}", old.display()))?;
        }
        let mut cargo = Command::new(&self.cargo);
        cargo.current_dir(entry).env("RUSTC", &self.rustc).env("RUSTC_BOOTSTRAP", "1");
        cargo.env("RUSTFLAGS", RUSTFLAGS).env("CARGO_TARGET_DIR", &target);
        // What a developer has set for other builds must not reach this one.
        let set = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
        let of_cargo = |name: &String| {
            let starts = ["CARGO_PROFILE_", "CARGO_BUILD_", "CARGO_TARGET_", "CARGO_ENCODED_"];
            name != "CARGO_TARGET_DIR" && starts.iter().any(|start| name.starts_with(start))
        };
        for name in set.filter(of_cargo) {
            cargo.env_remove(name);
        }
        for name in ["RUSTUP_TOOLCHAIN", "RUSTC_WRAPPER", "CARGO_INCREMENTAL"] {
            cargo.env_remove(name);
        }
        // Cargo would not write the module again if only the file was removed.
        let touched = entry.join("src/lib.rs");
        std::fs::File::options()
            .append(true)
            .open(&touched)
            .and_then(|f| f.set_modified(std::time::SystemTime::now()))
            .map_err(|e| format!("{}: {e}", touched.display()))?;
        output(cargo.args([
            "build",
            "--release",
            "--locked",
            "-Zbuild-std=core",
            "--target",
            "nvptx64-nvidia-cuda",
        ]))?;
        match modules().as_slice() {
            [one] => std::fs::read_to_string(one).map_err(|e| format!("{}: {e}", one.display()).into()),
            other => Err(format!("{}: {} modules, expected one", folder.display(), other.len()).into()),
        }
    }
}

/// Finds one of NVIDIA's tools: `$NAME` in capitals, the path, the Python package `nvidia-cuda-nvcc` and its
/// siblings.
pub fn nvidia_tool(name: &str) -> Outcome<PathBuf> {
    if let Some(path) = std::env::var_os(name.to_uppercase()) {
        return Ok(path.into());
    }
    if output(Command::new(name).arg("--version")).is_ok() {
        return Ok(name.into());
    }
    let ask = "import importlib.util as u\n\
               s = u.find_spec('nvidia')\n\
               print('\\n'.join(s.submodule_search_locations) if s else '')";
    for python in ["python3", "python"] {
        let Ok(folders) = output(Command::new(python).args(["-c", ask])) else { continue };
        for folder in folders.lines().filter(|l| !l.is_empty()) {
            for package in std::fs::read_dir(folder).into_iter().flatten().flatten() {
                let tool = package.path().join("bin").join(name);
                if tool.is_file() {
                    return Ok(tool);
                }
            }
        }
    }
    Err(format!(
        "no {name}: pip install nvidia-cuda-nvcc nvidia-cuda-nvdisasm, or {}=/path/to/{name}",
        name.to_uppercase()
    )
    .into())
}
