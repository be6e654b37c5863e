//! `compare`: two results, or two backends on the same frames.

mod backends;
mod difference;
mod files;
mod origin;

use std::path::Path;

use scheidegg::Error;
use serde_json::json;

use crate::args::CompareArgs;
use crate::failure::{Failure, Outcome};
use crate::find::registry;
use crate::say::say;
use crate::summary::{count, params, print_json};
use difference::{Difference, Pixel};

/// Runs the subcommand.
pub fn run(args: &CompareArgs) -> Outcome {
    let (found, notes, remarks, kinds) = match args.input.data.is_empty() {
        true => {
            names_of_backends(args)?;
            let c = files::compare(args)?;
            (c.found, c.grave, c.remarks, Some(c.kinds))
        }
        false => {
            let (found, notes) = backends::compare(args)?;
            (found, notes, Vec::new(), None)
        }
    };
    let same = found.is_none() && notes.is_empty();
    if args.json {
        let kind = |k: usize| {
            let (size, payload) = kinds?[k];
            Some(json!({"window": size.to_string(), "values": payload.to_string()}))
        };
        print_json(&json!({
            "a": args.a, "b": args.b,
            "kind_a": kind(0), "kind_b": kind(1),
            "same": same,
            "frames": found.frames,
            "clusters_a": found.common + found.only_a,
            "clusters_b": found.common + found.only_b,
            "common": found.common,
            "different_values": found.values,
            "different_values_without_number": found.without_number,
            "largest_difference_adu": found.largest_adu,
            "only_a": found.only_a,
            "only_b": found.only_b,
            "first_different_values": pixels(&found.first_values),
            "first_only_a": pixels(&found.first_only_a),
            "first_only_b": pixels(&found.first_only_b),
            "notes": notes,
            "remarks": remarks,
            "params": (!args.input.data.is_empty()).then(|| params(&args.finder.params())),
        }));
    } else if kinds.is_some_and(|[a, b]| a.0 != b.0) {
        remarks.iter().chain(&notes).for_each(|n| say!("{n}"));
        say!("they differ");
    } else {
        print(args, &found, &notes, &remarks);
    }
    if same { Ok(()) } else { Err(Failure::Differs) }
}

/// Backends are compared on frames: without frames their names are taken for files.
fn names_of_backends(args: &CompareArgs) -> Outcome {
    let backends = registry(None, false)?;
    let is_backend = |name: &str| !Path::new(name).exists() && backends.get(name).is_ok();
    if is_backend(&args.a) && is_backend(&args.b) {
        let what = format!(
            "{} and {} are backends: give the frames to compare them on (--dark, --data)",
            args.a, args.b
        );
        return Err(Failure::Usage(Error::Other(what)));
    }
    Ok(())
}

fn pixels(list: &[Pixel]) -> serde_json::Value {
    list.iter()
        .map(|p| json!({"frame": p.frame, "x": p.x, "y": p.y, "difference_adu": p.difference_adu}))
        .collect()
}

fn print(args: &CompareArgs, found: &Difference, notes: &[String], remarks: &[String]) {
    say!("A            {}: {} clusters", args.a, count(found.common + found.only_a));
    say!("B            {}: {} clusters", args.b, count(found.common + found.only_b));
    say!("frames       {} with clusters in A or B", count(found.frames));
    say!("common       {} clusters at the same frame and pixel", count(found.common));
    let mut how = String::new();
    if found.values > found.without_number {
        how += &format!(", by at most {} ADU", found.largest_adu);
    }
    if found.without_number > 0 {
        how += &format!(", {} where one is infinite or no number", count(found.without_number));
    }
    say!("values       {} of these differ{how}", count(found.values));
    say!("only in A    {}", count(found.only_a));
    say!("only in B    {}", count(found.only_b));
    for p in &found.first_values {
        let by = p.difference_adu.map_or("one is infinite or no number".into(), |d| format!("by {d} ADU"));
        say!("  value: frame {}, row {}, column {}, {by}", p.frame, p.y, p.x);
    }
    for (what, list) in [("only in A", &found.first_only_a), ("only in B", &found.first_only_b)] {
        list.iter().for_each(|p| say!("  {what}: frame {}, row {}, column {}", p.frame, p.y, p.x));
    }
    remarks.iter().chain(notes).for_each(|n| say!("{n}"));
    say!("{}", if found.is_none() && notes.is_empty() { "the same" } else { "they differ" });
}
