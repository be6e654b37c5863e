//! `xtask ptx --sass`: the machine instructions of an entry, by pipe.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use crate::compiler::nvidia_tool;
use crate::{Outcome, assemble, module, output};

/// The pipe of an instruction by its name, as the profiler's manual for sm_80 to sm_90 groups them.
fn pipe(name: &str) -> &'static str {
    let op = name.split('.').next().unwrap_or(name);
    match op {
        "FADD" | "FMUL" | "FFMA" => "fma (f32)",
        "IMAD" | "IDP" => "fma (integer)",
        "DADD" | "DMUL" | "DFMA" | "DSETP" | "DMNMX" => "fp64",
        "I2F" | "F2F" | "F2I" | "MUFU" | "I2I" | "FRND" | "POPC" | "FLO" | "BREV" | "I2FP" | "F2FP" => {
            "conversion"
        }
        "LDS" | "STS" | "ATOMS" => "shared memory",
        "LDG" | "STG" | "LDL" | "STL" | "RED" | "ATOMG" | "LD" | "ST" => "global memory",
        "LDC" | "ULDC" | "LDCU" => "constants",
        "BRA" | "BSSY" | "BSYNC" | "BAR" | "EXIT" | "NOP" | "BREAK" | "CALL" | "RET" | "WARPSYNC"
        | "YIELD" => "control",
        _ if op.starts_with('U') || op == "R2UR" || op == "S2UR" => "uniform",
        _ => "alu",
    }
}

/// Prints the instructions by pipe: of the whole entry, and of its longest stretch between two barriers, which for
/// an entry that finds clusters is the loop over frames.
pub fn run(folder: &Path, entry: &str, chip: &str) -> Outcome {
    let file = if entry.starts_with("frame_") { entry } else { module::GATHER };
    let cubin = std::env::temp_dir().join(format!("scheidegg-{}-{chip}.cubin", std::process::id()));
    assemble::cubin(&folder.join(format!("{file}.ptx")), chip, &cubin)?;
    let text = output(Command::new(nvidia_tool("nvdisasm")?).arg("-c").arg(&cubin));
    std::fs::remove_file(&cubin).map_err(|e| format!("{}: {e}", cubin.display()))?;
    let names = instructions(&text?, entry);
    if names.is_empty() {
        return Err(format!("no entry {entry} in {file}.ptx").into());
    }
    let stretch = names.split(|n| n.starts_with("BAR")).max_by_key(|s| s.len()).unwrap_or(&[]);
    println!(
        "{entry}, {chip}: {} instructions, {} in the longest stretch between barriers\n",
        names.len(),
        stretch.len()
    );
    println!("| pipe | all | stretch | instructions of the stretch |\n|---|---|---|---|");
    let (all, part) = (by_pipe(&names), by_pipe(stretch));
    for (pipe, ops) in &all {
        let inside = part.get(pipe).cloned().unwrap_or_default();
        let words: Vec<String> = inside.iter().map(|(op, n)| format!("{op} {n}")).collect();
        println!(
            "| {pipe} | {} | {} | {} |",
            ops.values().sum::<u32>(),
            inside.values().sum::<u32>(),
            words.join(", ")
        );
    }
    Ok(())
}

fn by_pipe(names: &[String]) -> BTreeMap<&'static str, BTreeMap<String, u32>> {
    let mut pipes: BTreeMap<&'static str, BTreeMap<String, u32>> = BTreeMap::new();
    for name in names {
        let op = name.split('.').next().unwrap_or(name).to_string();
        *pipes.entry(pipe(name)).or_default().entry(op).or_default() += 1;
    }
    pipes
}

/// The names of the instructions of an entry in a listing of `nvdisasm -c`.
fn instructions(listing: &str, entry: &str) -> Vec<String> {
    let head = format!(".text.{entry}:");
    let body =
        listing.lines().skip_while(|l| l.trim() != head).skip(1).take_while(|l| !l.contains(".section"));
    let code = body.filter_map(|l| l.split_once("*/")).map(|(_, code)| code.trim());
    let words = code.filter_map(|code| {
        let code = code.strip_prefix('@').map_or(code, |c| c.split_once(' ').map_or("", |(_, rest)| rest));
        code.split([' ', ';']).find(|w| !w.is_empty())
    });
    words.filter(|w| w.starts_with(|c: char| c.is_ascii_uppercase())).map(String::from).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listing_is_read() {
        let text = ".section .text.a\n.text.a:\n        /*0000*/    MOV R1, c[0x0][0x28] ;\n\
                    .L_x_1:\n        /*0010*/    @!P0 BRA `(.L_x_1) ;\n        /*0020*/    FADD.FTZ R1, R2, R3 ;\n.section .b\n";
        assert_eq!(instructions(text, "a"), ["MOV", "BRA", "FADD.FTZ"]);
        assert_eq!(
            (pipe("FADD.FTZ"), pipe("UIADD3"), pipe("LDS.U16")),
            ("fma (f32)", "uniform", "shared memory")
        );
    }
}
