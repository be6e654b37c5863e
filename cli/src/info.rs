//! `info`: what a file holds and what is wrong with it.

use serde_json::{Map, Value, json};

use crate::args::InfoArgs;
use crate::failure::Outcome;
use crate::say::say;
use crate::summary::print_json;

/// Runs the subcommand.
pub fn run(args: &InfoArgs) -> Outcome {
    let info = scheidegg::io::info(&args.file, &args.reading.options(), args.size, args.payload)?;
    if args.json {
        let rows: Map<String, Value> = info.rows.iter().map(|(k, v)| (k.clone(), json!(v))).collect();
        print_json(&json!({
            "file": args.file,
            "kind": info.kind,
            "facts": rows,
            "warnings": info.warnings,
        }));
        return Ok(());
    }
    say!("{}: {}", args.file.display(), info.kind);
    let width = info.rows.iter().map(|r| r.0.chars().count()).max().unwrap_or(0);
    for (name, value) in &info.rows {
        say!("  {name:<width$}  {value}");
    }
    for w in &info.warnings {
        say!("warning: {w}");
    }
    Ok(())
}
