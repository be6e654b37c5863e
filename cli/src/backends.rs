//! `backends`: what there is, and why not.

use scheidegg::{AUTO, Backend, ClusterSize, Params, Probe, Result, Shape};
use serde_json::{Value, json};

use crate::args::BackendsArgs;
use crate::failure::{Outcome, usage};
use crate::find::registry;
use crate::say::say;
use crate::summary::print_json;

/// Runs the subcommand.
pub fn run(args: &BackendsArgs) -> Outcome {
    let registry = registry(args.threads, false)?;
    let size = ClusterSize::square(3).map_err(usage)?;
    let params = Params { update: args.update, precision: args.precision, ..Params::new(size) };
    let choice = registry.choose(AUTO, args.shape, &params);
    let mut list = Vec::new();
    for b in registry.iter() {
        list.push(Found {
            name: b.name(),
            summary: b.summary(),
            probe: b.probe(),
            does: does(b, args.shape, &params),
        });
    }
    if args.json {
        let list: Vec<_> = list.iter().map(Found::json).collect();
        let auto = choice.as_ref().ok().map(|c| json!({"name": c.name, "reasons": c.reasons}));
        print_json(&json!({"backends": list, "auto": auto}));
    } else {
        let width = list.iter().map(|b| b.name.len()).max().unwrap_or(0);
        for b in &list {
            say!("{:<width$}  {}", b.name, b.summary);
            match &b.probe {
                Ok(p) => say!("{:<width$}  available: {}", "", p.device),
                Err(e) => say!("{:<width$}  {e}", ""),
            }
            if let (Ok(_), Err(why)) = (&b.probe, &b.does) {
                say!("{:<width$}  not for this: {why}", "");
            }
        }
        if let Ok(c) = &choice {
            say!("\nauto takes {} for frames of {}:", c.name, args.shape);
            c.reasons.iter().for_each(|r| say!("  {r}"));
        }
    }
    choice.map(|_| ()).map_err(usage)
}

/// A backend on this machine.
struct Found<'a> {
    name: &'a str,
    summary: &'a str,
    probe: Result<Probe>,
    /// Whether it does what is asked, or why not.
    does: Result<(), String>,
}

/// Whether a backend does what is asked, and suits such frames; only building a finder tells.
fn does(backend: &dyn Backend, shape: Shape, params: &Params) -> Result<(), String> {
    backend.suits(shape, params)?;
    backend.build(shape, params).map(|_| ()).map_err(|e| e.to_string())
}

impl Found<'_> {
    fn json(&self) -> Value {
        let mut object = match &self.probe {
            Ok(p) => json!({"available": true, "device": p.device, "preference": p.preference}),
            Err(e) => json!({"available": false, "reason": e.to_string()}),
        };
        object["name"] = json!(self.name);
        object["summary"] = json!(self.summary);
        object["does_this"] = json!(self.does.is_ok());
        if let Err(why) = &self.does {
            object["does_not"] = json!(why);
        }
        object
    }
}
