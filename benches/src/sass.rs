//! Instruction accounting: what a kernel does for a frame in the machine code of a chip, and the cap that follows.

use std::path::{Path, PathBuf};
use std::process::Command;

use rayon::prelude::*;
use scheidegg::{Error, Result};
use scheidegg_kernels::device::abi::{self, Tiling, Window, suggested_frames};
use scheidegg_kernels::ptx;

use crate::harness::table::Table;
use crate::ladder::steps::LANES;

/// The entries that are looked at and the sides of their windows: those with code of their own for a square window, tracked
/// noise.
pub fn entries() -> Vec<(&'static str, u32)> {
    let square = |entry: &str| {
        let (w, h) = entry.rsplit('_').next()?.split_once('x')?;
        w.parse().ok().filter(|_| w == h)
    };
    abi::FRAME_ENTRIES.iter().filter_map(|e| Some((*e, square(e)?))).collect()
}

/// The chips, with a GPU of each that the cap is for: multiprocessors and boost clock in MHz.
pub const CHIPS: [(&str, &str, u32, f64); 6] = [
    ("sm_80", "A100", 108, 1410.0),
    ("sm_86", "RTX 3090", 82, 1695.0),
    ("sm_89", "RTX 4090", 128, 2520.0),
    ("sm_90", "H200", 132, 1980.0),
    ("sm_100", "B200", 148, 1965.0),
    ("sm_120", "RTX 5090", 170, 2407.0),
];

/// The chip that probes run on.
const MEASURED: &str = "sm_90";

/// The pipes of a multiprocessor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pipe {
    /// `f32` arithmetic and integer multiplication.
    Fp32,
    /// `f64` arithmetic.
    Fp64,
    /// Integers, logic, comparisons, selections and conversions of them.
    Integer,
    /// Shared memory.
    Shared,
    /// Global memory and constants.
    Global,
    /// Branches and barriers.
    Control,
    /// Uniform registers, moves between them and what is not named above.
    Other,
}

impl Pipe {
    const ALL: [Pipe; 7] =
        [Pipe::Fp32, Pipe::Fp64, Pipe::Integer, Pipe::Shared, Pipe::Global, Pipe::Control, Pipe::Other];

    const fn word(self) -> &'static str {
        match self {
            Pipe::Fp32 => "fp32",
            Pipe::Fp64 => "fp64",
            Pipe::Integer => "integer",
            Pipe::Shared => "shared",
            Pipe::Global => "global",
            Pipe::Control => "control",
            Pipe::Other => "other",
        }
    }

    /// The pipe of an instruction.
    fn of(name: &str) -> Pipe {
        let op = name.split('.').next().unwrap_or(name);
        match op {
            "FADD" | "FMUL" | "FFMA" | "IMAD" | "HFMA2" => Pipe::Fp32,
            "DADD" | "DMUL" | "DFMA" | "DSETP" | "DMNMX" => Pipe::Fp64,
            "LDS" | "STS" | "ATOMS" | "LDSM" => Pipe::Shared,
            "LDG" | "STG" | "LD" | "ST" | "RED" | "ATOMG" | "LDC" | "ULDC" | "LDCU" | "LDL" | "STL" => {
                Pipe::Global
            }
            "BRA" | "BSSY" | "BSYNC" | "BAR" | "EXIT" | "BREAK" | "CALL" | "RET" | "WARPSYNC" | "YIELD" => {
                Pipe::Control
            }
            "NOP" | "MOV" | "S2R" | "S2UR" | "R2UR" | "CS2R" | "SHFL" | "VOTE" | "MATCH" => Pipe::Other,
            _ if op.starts_with('U') => Pipe::Other,
            _ => Pipe::Integer,
        }
    }

    /// Cycles that one warp's instruction keeps the pipe of a quarter of a multiprocessor busy.
    ///
    /// # Source
    /// CUDA programming guide, table of arithmetic throughput: 32 lanes over the results a cycle and quarter. Shared
    /// memory answers one warp a cycle for all four quarters.
    fn cycles(self, chip: &str) -> f64 {
        match (self, chip) {
            (Pipe::Fp32, "sm_80") => 2.0,
            (Pipe::Fp32, _) => 1.0,
            (Pipe::Fp64, "sm_80") => 4.0,
            (Pipe::Fp64, "sm_90" | "sm_100") => 2.0,
            (Pipe::Fp64, _) => 64.0,
            (Pipe::Integer, _) => 2.0,
            (Pipe::Shared | Pipe::Global, _) => 4.0,
            (Pipe::Control | Pipe::Other, _) => 1.0,
        }
    }
}

/// Instructions of the loop over frames.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Count {
    /// Outside inner loops, by [`Pipe::ALL`]: what every thread does every frame.
    common: [u32; 7],
    /// Inside inner loops: what is done for a stored cluster.
    rare: u32,
}

impl Count {
    fn common(&self) -> u32 {
        self.common.iter().sum()
    }

    /// The pipe that binds and its cycles a warp and frame, the issue of one instruction a cycle being one of them.
    fn bound(&self, chip: &str) -> (&'static str, f64) {
        let mut best = ("issue", f64::from(self.common()));
        for (pipe, n) in Pipe::ALL.iter().zip(self.common) {
            let cycles = f64::from(n) * pipe.cycles(chip);
            if cycles > best.1 {
                best = (pipe.word(), cycles);
            }
        }
        best
    }
}

/// Counts a listing of `nvdisasm -c`: the loop over frames is the longest backward jump with a barrier in it, and the
/// loops within it are those over stored clusters.
pub fn count(listing: &str, entry: &str) -> Option<Count> {
    let head = format!(".text.{entry}:");
    let body =
        listing.lines().skip_while(|l| l.trim() != head).skip(1).take_while(|l| !l.contains(".section"));
    let mut names: Vec<&str> = Vec::new();
    let mut labels: Vec<(&str, usize)> = Vec::new();
    let mut jumps: Vec<(usize, &str)> = Vec::new();
    for line in body {
        let line = line.trim();
        if let Some(label) = line.strip_suffix(':') {
            labels.push((label, names.len()));
            continue;
        }
        let Some((_, code)) = line.split_once("*/") else { continue };
        let code = code.trim();
        let code =
            code.strip_prefix('@').map_or(code, |c| c.split_once(' ').map_or("", |(_, rest)| rest.trim()));
        let Some(name) = code.split([' ', ';']).find(|w| !w.is_empty()) else { continue };
        if !name.starts_with(|c: char| c.is_ascii_uppercase()) {
            continue;
        }
        if name.starts_with("BRA")
            && let Some(target) = code.split('`').nth(1)
        {
            jumps.push((names.len(), target.trim_matches(['(', ')', ' ', ';'])));
        }
        names.push(name);
    }
    let place = |label: &str| labels.iter().find(|(l, _)| *l == label).map(|(_, at)| *at);
    let loops: Vec<(usize, usize)> = jumps
        .iter()
        .filter_map(|(at, target)| Some((place(target)?, *at)))
        .filter(|(to, from)| to <= from)
        .collect();
    let barrier = |&(to, from): &(usize, usize)| names[to..=from].iter().any(|n| n.starts_with("BAR"));
    let (first, last) = loops.iter().copied().filter(barrier).max_by_key(|(to, from)| from - to)?;
    let inner = |i: usize| {
        loops.iter().any(|&(to, from)| {
            (to, from) != (first, last) && to >= first && from <= last && (to..=from).contains(&i)
        })
    };
    let mut count = Count::default();
    for (i, name) in names.iter().enumerate().take(last + 1).skip(first) {
        if inner(i) {
            count.rare += 1;
        } else {
            let pipe = Pipe::of(name);
            count.common[Pipe::ALL.iter().position(|p| *p == pipe).expect("every pipe is in the list")] += 1;
        }
    }
    Some(count)
}

/// Finds a tool of the CUDA toolkit: in `tools`, in its environment variable, in the path, in the usual places.
fn tool(name: &str, tools: Option<&Path>) -> Result<PathBuf> {
    let mut places: Vec<PathBuf> = tools.map(|t| t.join(name)).into_iter().collect();
    places.extend(std::env::var_os(name.to_uppercase()).map(PathBuf::from));
    places.extend(std::env::var_os("PATH").iter().flat_map(std::env::split_paths).map(|p| p.join(name)));
    places.push(Path::new("/usr/local/cuda/bin").join(name));
    places.into_iter().find(|p| p.is_file()).ok_or_else(|| Error::Unavailable {
        backend: "sass".into(),
        reason: format!("{name} was not found (it comes with the CUDA toolkit, or `pip install nvidia-cuda-nvcc nvidia-cuda-nvdisasm`; --tools names its folder)"),
    })
}

fn output(command: &mut Command) -> Result<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let out = command.output().map_err(|e| Error::io(&name, e))?;
    if !out.status.success() {
        let words = String::from_utf8_lossy(&out.stderr);
        return Err(Error::Other(format!("{name}: {}", words.lines().next().unwrap_or("it failed"))));
    }
    Ok(String::from_utf8_lossy(&out.stdout).into_owned())
}

/// The version in what `ptxas --version` prints: `V13.0.48`.
fn version(words: &str) -> String {
    let is = |w: &&str| w.starts_with('V') && w[1..].starts_with(|c: char| c.is_ascii_digit());
    words.split([' ', ',', '\n']).find(is).unwrap_or("unknown").to_string()
}

/// Warps of a frame of 400 x 400 pixels in launches of several frames, as the step `many` has them.
fn warps_of(entry: &str, side: u32, sms: u32) -> u32 {
    let window = Window { w: side, h: side };
    let threads = abi::max_threads(entry);
    let most = suggested_frames(400, 400, window, sms, LANES as u32, threads, 16);
    let tiling = Tiling::new(400, 400, window, most.max(1), sms, LANES as u32, threads);
    tiling.map_or(0, |t| t.tiles() * t.threads().div_ceil(32))
}

/// Writes `sass.csv`: one row an entry and chip. A chip that the assembler does not know is left out, and named.
///
/// # Errors
/// [`Error::Unavailable`] without the tools.
pub fn run(dir: &Path, tools: Option<&Path>) -> Result<()> {
    let (ptxas, nvdisasm) = (tool("ptxas", tools)?, tool("nvdisasm", tools)?);
    let columns: Vec<&str> = ["entry", "chip", "gpu", "common"]
        .into_iter()
        .chain(Pipe::ALL.map(Pipe::word))
        .chain([
            "rare",
            "bound",
            "cycles",
            "warps_per_frame",
            "cap_us_per_frame",
            "measured_us_per_frame",
            "assembler",
        ])
        .collect();
    let mut table = Table::new(dir.join("sass.csv"), &columns);
    // Another assembler makes other code: its version is part of the count.
    let assembler = version(&output(Command::new(&ptxas).arg("--version"))?);
    let measured = Table::read(dir.join("probe_kernels.csv")).ok();
    let work = std::env::temp_dir().join(format!("scheidegg-sass-{}", std::process::id()));
    std::fs::create_dir_all(&work).map_err(|e| Error::io(&work, e))?;
    let jobs: Vec<_> =
        CHIPS.iter().flat_map(|chip| entries().into_iter().map(move |entry| (*chip, entry))).collect();
    let rows = jobs.par_iter().map(|&((chip, gpu, sms, mhz), (entry, side))| {
        let text =
            ptx::module(entry).ok_or_else(|| Error::Other(format!("no device code called {entry}")))?;
        let stem = work.join(format!("{entry}-{chip}"));
        let (source, cubin) = (stem.with_extension("ptx"), stem.with_extension("cubin"));
        std::fs::write(&source, text).map_err(|e| Error::io(&source, e))?;
        let assembled =
            output(Command::new(&ptxas).arg(format!("-arch={chip}")).arg(&source).arg("-o").arg(&cubin));
        if let Err(e) = assembled {
            println!("SKIPPED: {entry} for {chip}: {e}");
            return Ok(None);
        }
        let listing = output(Command::new(&nvdisasm).arg("-c").arg(&cubin))?;
        let Some(count) = count(&listing, entry) else {
            println!("SKIPPED: {entry} for {chip}: no loop over frames in its machine code");
            return Ok(None);
        };
        // The probe of the chip of this run: how long a frame takes the kernel, and how many threads a launch has.
        let seen = measured.as_ref().filter(|_| chip == MEASURED).and_then(|m| {
            let steps = ["many", "direct", "i16", "truesize", "library", "library1"];
            steps.into_iter().find_map(|step| m.find(&[("step", step), ("kernel", entry)]))
        });
        let us = seen.and_then(|r| r.number("us_per_frame"));
        let warps = match entry.starts_with("frame_") {
            true => warps_of(entry, side, sms),
            // Blocks that stay for a whole chunk all work on every frame: the threads of a launch are those of a frame.
            false => seen.and_then(|r| r.number("threads")).map_or(0, |t| t as u32 / 32),
        };
        let (bound, cycles) = count.bound(chip);
        // Four quarters a multiprocessor share the warps.
        let cap = cycles * f64::from(warps) / (4.0 * f64::from(sms)) / mhz;
        let or_empty = |there: bool, words: String| if there { words } else { String::new() };
        let mut row = vec![entry.to_string(), chip.to_string(), gpu.to_string(), count.common().to_string()];
        row.extend(count.common.iter().map(u32::to_string));
        row.extend([
            count.rare.to_string(),
            bound.to_string(),
            format!("{cycles:.0}"),
            or_empty(warps > 0, warps.to_string()),
            or_empty(warps > 0, format!("{cap:.4}")),
            us.map_or(String::new(), |v| format!("{v:.4}")),
            assembler.clone(),
        ]);
        Ok(Some(row))
    });
    for row in rows.collect::<Result<Vec<_>>>()?.into_iter().flatten() {
        table.push(row);
    }
    let _ = std::fs::remove_dir_all(&work);
    table.write()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LISTING: &str = ".section .text.f\n.text.f:\n\
        /*0000*/ MOV R1, c[0x0][0x28] ;\n\
        .L_x_1:\n\
        /*0010*/ FADD R1, R2, R3 ;\n\
        /*0020*/ @!P0 DADD R4, R4, R6 ;\n\
        /*0030*/ LDS R1, [R2] ;\n\
        .L_x_2:\n\
        /*0040*/ ATOMS.ADD R1, [R2], R3 ;\n\
        /*0050*/ @P0 BRA `(.L_x_2) ;\n\
        /*0060*/ BAR.SYNC 0x0 ;\n\
        /*0070*/ @P1 BRA `(.L_x_1) ;\n\
        /*0080*/ EXIT ;\n.section .b\n";

    #[test]
    fn the_loop_over_frames_is_told_from_the_loops_over_clusters() {
        let count = count(LISTING, "f").unwrap();
        // FADD, DADD, LDS, BAR and the jump back.
        assert_eq!((count.common(), count.rare), (5, 2));
        assert_eq!(count.common, [1, 1, 0, 1, 0, 2, 0]);
        assert_eq!(count.bound("sm_90"), ("issue", 5.0));
        assert_eq!(count.bound("sm_89"), ("fp64", 64.0));
    }

    #[test]
    fn the_entries_are_the_square_windows_with_tracked_noise() {
        let all = entries();
        for entry in ["frame_f32_3x3", "frame_f32_9x9", "frame_f64_5x5", "frame_f64_7x7"] {
            assert!(
                all.iter().any(|(e, side)| *e == entry && entry.ends_with(&format!("{side}x{side}"))),
                "{entry}"
            );
        }
        assert!(all.iter().all(|(e, _)| !e.contains("fixed") && !e.contains("any") && !e.contains("trace")));
        assert!(warps_of("frame_f32_3x3", 3, 132) > 1000);
    }

    #[test]
    fn the_assemblers_version_is_read() {
        let words = "ptxas: NVIDIA (R) Ptx optimizing assembler\nCuda compilation tools, release 13.0, V13.0.48\nBuild x";
        assert_eq!(version(words), "V13.0.48");
        assert_eq!(version("Version unknown"), "unknown");
    }

    #[test]
    fn another_entry_is_not_found() {
        assert_eq!(count(LISTING, "g"), None);
    }
}
