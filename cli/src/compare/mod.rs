//! `compare`: two results, or two backends on the same frames.

mod backends;
mod difference;
mod files;

use serde_json::json;

use crate::args::CompareArgs;
use crate::failure::{Failure, Outcome};
use crate::say::say;
use crate::summary::{count, print_json};
use difference::{Difference, Pixel};

/// Runs the subcommand.
pub fn run(args: &CompareArgs) -> Outcome {
    let (found, notes) = match args.input.data.is_empty() {
        true => (files::compare(args)?, Vec::new()),
        false => backends::compare(args)?,
    };
    let same = found.is_none() && notes.is_empty();
    if args.json {
        print_json(&json!({
            "a": args.a, "b": args.b,
            "same": same,
            "frames": found.frames,
            "clusters_a": found.common + found.only_a,
            "clusters_b": found.common + found.only_b,
            "common": found.common,
            "different_values": found.values,
            "largest_difference_adu": found.largest_adu,
            "only_a": found.only_a,
            "only_b": found.only_b,
            "first_different_values": pixels(&found.first_values),
            "first_only_a": pixels(&found.first_only_a),
            "first_only_b": pixels(&found.first_only_b),
            "notes": notes,
        }));
    } else {
        print(args, &found, &notes);
    }
    if same { Ok(()) } else { Err(Failure::Differs) }
}

fn pixels(list: &[Pixel]) -> serde_json::Value {
    list.iter()
        .map(|p| json!({"frame": p.frame, "x": p.x, "y": p.y, "difference_adu": p.difference_adu}))
        .collect()
}

fn print(args: &CompareArgs, found: &Difference, notes: &[String]) {
    say!("A            {}: {} clusters", args.a, count(found.common + found.only_a));
    say!("B            {}: {} clusters", args.b, count(found.common + found.only_b));
    say!("frames       {} with clusters in A or B", count(found.frames));
    say!("common       {} clusters at the same frame and pixel", count(found.common));
    let most = match found.values {
        0 => String::new(),
        _ => format!(", by at most {} ADU", found.largest_adu),
    };
    say!("values       {} of these differ{most}", count(found.values));
    say!("only in A    {}", count(found.only_a));
    say!("only in B    {}", count(found.only_b));
    for (what, list) in [
        ("value", &found.first_values),
        ("only in A", &found.first_only_a),
        ("only in B", &found.first_only_b),
    ] {
        for p in list {
            let by = p.difference_adu.map_or(String::new(), |d| format!(", by {d} ADU"));
            say!("  {what}: frame {}, row {}, column {}{by}", p.frame, p.y, p.x);
        }
    }
    notes.iter().for_each(|n| say!("{n}"));
    say!("{}", if found.is_none() && notes.is_empty() { "the same" } else { "they differ" });
}
