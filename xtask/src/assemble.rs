//! `xtask ptx --assemble` and `--resources`: what NVIDIA's assembler makes of the PTX, chip by chip.

use std::path::Path;
use std::process::Command;

use scheidegg_kernels::device::abi::{
    COPY, COPY_THREADS, OFFSETS, PLACE, PLACE_THREADS, SCAN, SCAN_SHARED_BYTES, SCAN_THREADS, max_threads,
};
use scheidegg_kernels::device::{Tiling, Window, suggested_frames};

use crate::compiler::nvidia_tool;
use crate::{Outcome, output};

/// A chip, and what one of its multiprocessors has.
///
/// Source: CUDA C++ Programming Guide, table of technical specifications per compute capability; 64 K registers
/// everywhere, given out to warps in units of 256.
struct Chip {
    name: &'static str,
    /// Multiprocessors of a common card of the kind, for the tiling.
    sms: u32,
    threads: u32,
    blocks: u32,
    shared_kib: u32,
}

const CHIPS: [Chip; 7] = [
    Chip { name: "sm_75", sms: 68, threads: 1024, blocks: 16, shared_kib: 64 },
    Chip { name: "sm_80", sms: 108, threads: 2048, blocks: 32, shared_kib: 164 },
    Chip { name: "sm_86", sms: 82, threads: 1536, blocks: 16, shared_kib: 100 },
    Chip { name: "sm_89", sms: 128, threads: 1536, blocks: 24, shared_kib: 100 },
    Chip { name: "sm_90", sms: 132, threads: 2048, blocks: 32, shared_kib: 228 },
    Chip { name: "sm_100", sms: 148, threads: 2048, blocks: 32, shared_kib: 228 },
    Chip { name: "sm_120", sms: 170, threads: 1536, blocks: 24, shared_kib: 100 },
];

/// What the assembler says of an entry.
#[derive(Debug, Default, PartialEq)]
pub struct Resources {
    entry: String,
    registers: u32,
    stack: u32,
    spills: u32,
}

/// Assembles all modules for one chip or for all; prints the table when asked for.
pub fn run(folder: &Path, only: Option<&str>, table: bool) -> Outcome {
    let ptxas = nvidia_tool("ptxas")?;
    let chips: Vec<&Chip> = CHIPS.iter().filter(|c| only.is_none_or(|o| o == c.name)).collect();
    if chips.is_empty() {
        let names: Vec<_> = CHIPS.iter().map(|c| c.name).collect();
        return Err(format!("--chip {}: expected one of {}", only.unwrap_or(""), names.join(", ")).into());
    }
    let mut modules: Vec<_> = std::fs::read_dir(folder)
        .map_err(|e| format!("{}: {e}", folder.display()))?
        .flatten()
        .map(|f| f.path())
        .filter(|p| p.extension().is_some_and(|e| e == "ptx"))
        .collect();
    modules.sort();
    if table {
        println!(
            "Frames of 400 x 400. Stack is memory a thread; blocks and warps are those that a multiprocessor holds.\n"
        );
        println!("| entry | chip | registers | stack | shared | threads | blocks | warps |");
        println!("|---|---|---|---|---|---|---|---|");
    }
    let (mut count, mut spilled) = (0, Vec::new());
    for module in &modules {
        for chip in &chips {
            let mut command = Command::new(&ptxas);
            command.args(["-v", "--output-file", "/dev/null", "-arch", chip.name]).arg(module);
            command.args(["--warn-on-spills"]);
            for r in parse(&report(&mut command)?) {
                count += 1;
                if r.spills > 0 {
                    spilled.push(format!("{} for {}: {} bytes", r.entry, chip.name, r.spills));
                }
                if table {
                    row(&r, chip);
                }
            }
        }
    }
    match spilled.as_slice() {
        [] => {
            eprintln!("{count} entries assembled for {} chips, no spills", chips.len());
            Ok(())
        }
        some => Err(format!("spilled registers:\n  {}", some.join("\n  ")).into()),
    }
}

/// The assembler reports on standard error.
fn report(command: &mut Command) -> Outcome<String> {
    let shown = format!("{command:?}");
    let out = command.output().map_err(|e| format!("{shown}: {e}"))?;
    let text = String::from_utf8_lossy(&out.stderr).into_owned() + &String::from_utf8_lossy(&out.stdout);
    if out.status.success() { Ok(text) } else { Err(format!("{shown}: {}\n{text}", out.status).into()) }
}

/// The entries of a report of `ptxas -v`.
fn parse(report: &str) -> Vec<Resources> {
    let mut all: Vec<Resources> = Vec::new();
    let number = |line: &str, before: &str| {
        line.split(before).next().and_then(|l| l.split_whitespace().last()?.parse::<u32>().ok())
    };
    for line in report.lines() {
        if let Some(rest) = line.split("Compiling entry function '").nth(1) {
            all.push(Resources { entry: rest.split('\'').next().unwrap_or("").into(), ..Default::default() });
        }
        let Some(last) = all.last_mut() else { continue };
        if line.contains(" bytes stack frame") {
            last.stack = number(line, " bytes stack frame").unwrap_or(0);
            last.spills = number(line, " bytes spill stores").unwrap_or(0)
                + number(line, " bytes spill loads").unwrap_or(0);
        }
        if let Some(rest) = line.split("Used ").nth(1) {
            last.registers = rest.split(' ').next().and_then(|n| n.parse().ok()).unwrap_or(0);
        }
    }
    all
}

fn row(r: &Resources, chip: &Chip) {
    let (shared, threads) = launch(&r.entry, chip.sms);
    let warps = threads.div_ceil(32);
    let by_registers = 65536 / (warps * (r.registers * 32).next_multiple_of(256));
    // A block's shared memory comes with 1 KiB that the system keeps, from sm_80 on.
    let by_shared = chip.shared_kib * 1024 / (shared + 1024);
    let blocks = (chip.threads / (warps * 32))
        .min(chip.blocks)
        .min(by_registers)
        .min(by_shared.max(u32::from(shared <= 65536)));
    println!(
        "| {} | {} | {} | {} | {} | {} | {} | {} of {} |",
        r.entry,
        chip.name,
        r.registers,
        r.stack,
        shared,
        threads,
        blocks,
        blocks * warps,
        chip.threads / 32
    );
}

/// Shared memory and threads of a block of an entry on frames of 400 x 400.
fn launch(entry: &str, sms: u32) -> (u32, u32) {
    match entry {
        SCAN | OFFSETS => (SCAN_SHARED_BYTES, SCAN_THREADS),
        PLACE => (0, PLACE_THREADS),
        COPY => (0, COPY_THREADS),
        _ => {
            let side = entry.split('_').find_map(|w| w.split_once('x')?.0.parse().ok()).unwrap_or(3);
            let window = Window { w: side, h: side };
            let t = if entry.starts_with("resident_") {
                Tiling::resident(400, 400, window, sms, max_threads(entry))
            } else {
                let frames = suggested_frames(400, 400, window, sms, 1, max_threads(entry), 16);
                Tiling::new(400, 400, window, frames, sms, 1, max_threads(entry))
            };
            t.map_or((0, 0), |t| (t.shared_bytes, t.threads()))
        }
    }
}

/// Assembles a module for a chip into a file.
pub fn cubin(module: &Path, chip: &str, to: &Path) -> Outcome {
    let mut command = Command::new(nvidia_tool("ptxas")?);
    output(command.arg("-arch").arg(chip).arg("--output-file").arg(to).arg(module)).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_read() {
        let text = "ptxas info    : 0 bytes gmem\n\
                    ptxas info    : Compiling entry function 'scan' for 'sm_90'\n\
                    ptxas info    : Function properties for scan\n    \
                    192 bytes stack frame, 4 bytes spill stores, 8 bytes spill loads\n\
                    ptxas info    : Used 28 registers, used 1 barriers\n";
        let expected = Resources { entry: "scan".into(), registers: 28, stack: 192, spills: 12 };
        assert_eq!(parse(text), [expected]);
    }
}
