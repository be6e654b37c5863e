//! `info`: what files hold and what is wrong with them.

use std::path::Path;

use scheidegg::io::Info;
use serde_json::{Map, Value, json};

use crate::args::InfoArgs;
use crate::failure::{Failure, Outcome};
use crate::say::{say, tell};
use crate::summary::print_json;

/// Runs the subcommand. Every file is told of, then it ends with 1 if something is wrong with one.
pub fn run(args: &InfoArgs) -> Outcome {
    let mut failed = false;
    for file in &args.files {
        match scheidegg::io::info(file, &args.layout.options(), args.size, args.payload) {
            Ok(info) => {
                if args.json {
                    print_json(&object(file, &info));
                } else {
                    print(file, &info);
                }
                complain(&info.faults);
                failed |= !info.faults.is_empty();
            }
            Err(e) => {
                let unknown =
                    Info { kind: "cannot be told".into(), faults: vec![e.to_string()], ..Info::default() };
                if args.json {
                    print_json(&object(file, &unknown));
                }
                complain(&unknown.faults);
                failed = true;
            }
        }
    }
    if failed { Err(Failure::Said) } else { Ok(()) }
}

/// Faults are errors, and go where those go.
fn complain(faults: &[String]) {
    for fault in faults {
        tell!("scheidegg: {fault}");
    }
}

fn object(file: &Path, info: &Info) -> Value {
    let rows: Map<String, Value> = info.rows.iter().map(|(k, v)| (k.clone(), json!(v))).collect();
    json!({
        "file": file,
        "files": info.files,
        "kind": info.kind,
        "facts": rows,
        "provenance": info.provenance,
        "warnings": info.warnings,
        "faults": info.faults,
    })
}

fn print(file: &Path, info: &Info) {
    say!("{}: {}", file.display(), info.kind);
    let origin = info.provenance.as_ref().map_or(Vec::new(), |said| lines(said, ""));
    let width = |rows: &[(String, String)]| rows.iter().map(|r| r.0.chars().count()).max().unwrap_or(0);
    let wide = width(&info.rows).max(width(&origin));
    for (name, value) in &info.rows {
        say!("  {name:<wide$}  {value}");
    }
    if !origin.is_empty() {
        say!("  where it comes from");
    }
    for (name, value) in &origin {
        say!("  {name:<wide$}  {value}");
    }
    for w in &info.warnings {
        say!("warning: {w}");
    }
}

/// A JSON object as a row a value; what lies inside another has its name before its own. Empty values are left out.
fn lines(value: &Value, name: &str) -> Vec<(String, String)> {
    let below = |key: &str| if name.is_empty() { key.to_string() } else { format!("{name} {key}") };
    let row = |text: String| vec![(name.replace('_', " "), text)];
    match value {
        Value::Null => Vec::new(),
        Value::Object(all) => all.iter().flat_map(|(key, value)| lines(value, &below(key))).collect(),
        Value::Array(all) if all.iter().all(|v| !v.is_object() && !v.is_array()) => {
            let words: Vec<_> = all.iter().map(|v| v.as_str().map_or(v.to_string(), String::from)).collect();
            if words.is_empty() { Vec::new() } else { row(words.join(" ")) }
        }
        Value::Array(all) => all.iter().flat_map(|v| lines(v, name)).collect(),
        Value::String(s) if s.is_empty() => Vec::new(),
        Value::String(s) => row(s.clone()),
        other => row(other.to_string()),
    }
}
