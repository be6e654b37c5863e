//! Where a report comes from, as a table.

use scheidegg::provenance::{How, Input, Provenance};

use super::Table;
use crate::summary::count;

/// What made a report, of what, and how far it goes.
pub fn table(p: &Provenance) -> Table {
    let mut rows = vec![
        ("program", format!("{} {}, commit {}", p.program.name, p.program.version, p.program.commit)),
        ("command", p.command.iter().map(|w| quoted(w)).collect::<Vec<_>>().join(" ")),
        ("computer", p.host.clone()),
        ("started", format!("{}, took {:.1} s", p.started, p.seconds)),
    ];
    rows.extend(p.inputs.iter().map(|i| (role(i), input(i))));
    rows.push(("frames", frames(p.frames, p.first_frame, p.last_frame)));
    rows.push(("ended", ending(p)));
    rows.retain(|(_, value)| !value.is_empty());
    Table {
        title: "Provenance".into(),
        rows: rows.into_iter().map(|(name, value)| (name.to_string(), value)).collect(),
    }
}

/// A word of a command line as a shell takes it.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "-_./,:=+@%".contains(c);
    match !word.is_empty() && word.chars().all(plain) {
        true => word.to_string(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}

fn role(input: &Input) -> &str {
    if input.role.is_empty() { "read" } else { &input.role }
}

fn input(input: &Input) -> String {
    match input.frames {
        Some(n) => format!("{}: {}", input.path, frames(n, input.first_frame, input.last_frame)),
        None => input.path.clone(),
    }
}

fn frames(n: u64, first: Option<u64>, last: Option<u64>) -> String {
    match (first, last) {
        (Some(a), Some(b)) => format!("{} frames, numbers {a} to {b}", count(n)),
        _ => format!("{} frames", count(n)),
    }
}

/// How a run ended, in words.
fn ending(p: &Provenance) -> String {
    let how = match p.ended.how {
        How::Complete => "complete: all frames that were asked for",
        How::Stopped => "stopped: complete up to the last frame given",
        How::Fault => "by a fault: complete up to the last frame given",
        How::NotWritten => "by a fault of the report: complete up to the last frame given",
        How::Unknown => "",
    };
    match &p.ended.why {
        Some(why) => format!("{how} ({why})"),
        None => how.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use scheidegg::provenance::Ending;

    #[test]
    fn a_report_says_what_made_it_and_how_far_it_goes() {
        let p = Provenance {
            command: ["scheidegg", "find", "--data", "a b.npy", ""].map(String::from).to_vec(),
            inputs: vec![
                Input {
                    role: "data".into(),
                    path: "a b.npy".into(),
                    frames: Some(12_000),
                    first_frame: Some(7),
                    last_frame: Some(12_006),
                },
                Input::file("mask", "m.npy"),
            ],
            frames: 11,
            first_frame: Some(7),
            last_frame: Some(17),
            ended: Ending { how: How::Fault, why: Some("x.raw: cut short".into()) },
            ..Provenance::begin()
        };
        let rows = table(&p).rows;
        let of = |name: &str| rows.iter().find(|r| r.0 == name).map(|r| r.1.as_str());
        assert_eq!(of("command"), Some("scheidegg find --data 'a b.npy' ''"));
        assert_eq!(of("data"), Some("a b.npy: 12 000 frames, numbers 7 to 12006"));
        assert_eq!(of("mask"), Some("m.npy"));
        assert_eq!(of("frames"), Some("11 frames, numbers 7 to 17"));
        assert!(of("ended").unwrap().contains("by a fault") && of("ended").unwrap().contains("cut short"));
        assert!(table(&Provenance::default()).rows.iter().all(|r| r.0 != "command" && r.0 != "ended"));
    }
}
