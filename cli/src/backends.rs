//! `backends`: what there is, and why not.

use scheidegg::{AUTO, Shape};
use serde_json::json;

use crate::args::BackendsArgs;
use crate::failure::{Outcome, usage};
use crate::find::registry;
use crate::say::say;
use crate::summary::print_json;

/// The frames that `auto` is asked about: a MÖNCH's.
const SHAPE: Shape = Shape { rows: 400, cols: 400 };

/// Runs the subcommand.
pub fn run(args: &BackendsArgs) -> Outcome {
    let registry = registry(args.cpu.threads, args.cpu.pin)?;
    let params = args.finder.params();
    params.validate(SHAPE).map_err(usage)?;
    let choice = registry.choose(AUTO, SHAPE, &params);
    if args.json {
        let list: Vec<_> = registry
            .iter()
            .map(|b| match b.probe() {
                Ok(p) => {
                    json!({"name": b.name(), "summary": b.summary(), "available": true, "device": p.device,
                                "preference": p.preference})
                }
                Err(e) => json!({"name": b.name(), "summary": b.summary(), "available": false,
                                 "reason": e.to_string()}),
            })
            .collect();
        let auto = choice.as_ref().ok().map(|c| json!({"name": c.name, "reasons": c.reasons}));
        print_json(&json!({"backends": list, "auto": auto}));
    } else {
        let width = registry.iter().map(|b| b.name().len()).max().unwrap_or(0);
        for b in registry.iter() {
            say!("{:<width$}  {}", b.name(), b.summary());
            match b.probe() {
                Ok(p) => say!("{:<width$}  available: {}", "", p.device),
                Err(e) => say!("{:<width$}  {e}", ""),
            }
        }
        if let Ok(c) = &choice {
            say!("\nauto takes {} for these parameters:", c.name);
            c.reasons.iter().for_each(|r| say!("  {r}"));
        }
    }
    choice.map(|_| ()).map_err(usage)
}
