//! Results as CSV, the changes that nobody can observe, and the counts by file.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::path::Path;

use super::sites::Change;
use crate::Outcome;

/// What became of a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// A test failed.
    Noticed(String),
    /// A test went on for ever.
    Hang(String),
    /// Every test that comes to it passed.
    Survived,
    /// No test comes to it.
    NotReached,
    /// It cannot be observed, see `tests/mutants/allowed.csv`.
    Allowed,
}

impl Fate {
    fn words(&self) -> (&'static str, &str) {
        match self {
            Fate::Noticed(by) => ("noticed", by),
            Fate::Hang(by) => ("hang", by),
            Fate::Survived => ("survived", ""),
            Fate::NotReached => ("not reached", ""),
            Fate::Allowed => ("allowed", ""),
        }
    }

    fn of(word: &str, by: &str) -> Option<Fate> {
        Some(match word {
            "noticed" => Fate::Noticed(by.into()),
            "hang" => Fate::Hang(by.into()),
            "survived" => Fate::Survived,
            "not reached" => Fate::NotReached,
            "allowed" => Fate::Allowed,
            _ => return None,
        })
    }

    /// Whether the tests told it from the source.
    pub fn is_noticed(&self) -> bool {
        matches!(self, Fate::Noticed(_) | Fate::Hang(_))
    }
}

const HEAD: [&str; 8] = ["file", "line", "function", "change", "text", "nth", "outcome", "by"];

/// Reads results; a file that is not there has none.
pub fn read(path: &Path) -> Outcome<Vec<(Change, Fate)>> {
    let fault = |e: csv::Error| format!("{}: {e}", path.display());
    if !path.exists() {
        return Ok(Vec::new());
    }
    let mut out = Vec::new();
    for record in csv::Reader::from_path(path).map_err(fault)?.records() {
        let r = record.map_err(fault)?;
        let get = |k: usize| r.get(k).unwrap_or_default().to_string();
        let change = Change {
            file: get(0),
            line: get(1).parse().unwrap_or(0),
            function: get(2),
            what: get(3),
            text: get(4),
            nth: get(5).parse().unwrap_or(1),
        };
        if let Some(fate) = Fate::of(&get(6), &get(7)) {
            out.push((change, fate));
        }
    }
    Ok(out)
}

/// Writes results.
pub fn write(path: &Path, results: &[(Change, Fate)]) -> Outcome {
    let fault = |e: csv::Error| format!("{}: {e}", path.display());
    let mut file = csv::Writer::from_path(path).map_err(fault)?;
    file.write_record(HEAD).map_err(fault)?;
    for (change, fate) in results {
        file.write_record(row(change, fate)).map_err(fault)?;
    }
    file.flush().map_err(|e| format!("{}: {e}", path.display()))?;
    Ok(())
}

/// Appends one result, so that a run that is ended early loses nothing.
pub fn append(path: &Path, change: &Change, fate: &Fate) -> Result<(), String> {
    let fault = |e: &dyn std::fmt::Display| format!("{}: {e}", path.display());
    let new = !path.exists();
    let file = OpenOptions::new().create(true).append(true).open(path).map_err(|e| fault(&e))?;
    let mut file = csv::Writer::from_writer(file);
    if new {
        file.write_record(HEAD).map_err(|e| fault(&e))?;
    }
    file.write_record(row(change, fate)).map_err(|e| fault(&e))?;
    file.flush().map_err(|e| fault(&e))
}

fn row(c: &Change, fate: &Fate) -> [String; 8] {
    let (word, by) = fate.words();
    let (line, nth) = (c.line.to_string(), c.nth.to_string());
    let text = |s: &str| s.to_string();
    [text(&c.file), line, text(&c.function), text(&c.what), text(&c.text), nth, text(word), text(by)]
}

/// The changes that cannot be observed.
pub struct Allowed {
    /// File, function, change, text, and which of several equal ones (empty: all).
    rows: Vec<[String; 5]>,
}

impl Allowed {
    /// Reads the list; every line has a reason.
    pub fn read(path: &Path) -> Outcome<Allowed> {
        let fault = |e: csv::Error| format!("{}: {e}", path.display());
        let mut rows = Vec::new();
        for record in csv::Reader::from_path(path).map_err(fault)?.records() {
            let r = record.map_err(fault)?;
            if r.len() != 6 || r[5].trim().is_empty() {
                let found = r.iter().collect::<Vec<_>>().join(",");
                return Err(format!(
                    "{}: expected file,function,change,text,nth,reason, found {found}",
                    path.display()
                )
                .into());
            }
            rows.push([0, 1, 2, 3, 4].map(|k| r[k].to_string()));
        }
        Ok(Allowed { rows })
    }

    /// Whether a change is on the list.
    pub fn holds(&self, c: &Change) -> bool {
        self.rows.iter().any(|r| matches(r, c))
    }

    /// Lines for files among `changes` that fit none of them: the source has moved on.
    pub fn stale(&self, changes: &[Change]) -> Vec<String> {
        let chosen = |r: &&[String; 5]| changes.iter().any(|c| c.file == r[0]);
        let fits = |r: &&[String; 5]| !changes.iter().any(|c| matches(r, c));
        self.rows.iter().filter(chosen).filter(fits).map(|r| r.join(",")).collect()
    }
}

fn matches([file, function, what, text, nth]: &[String; 5], c: &Change) -> bool {
    *file == c.file
        && *function == c.function
        && *what == c.what
        && *text == c.text
        && (nth.is_empty() || *nth == c.nth.to_string())
}

/// Prints the counts by file and the changes that no test noticed; gives the share noticed in percent, of all that can be
/// observed or only of those that a test comes to.
pub fn summarise(results: &[(Change, Fate)], all: bool) -> f64 {
    let share = |n: &[usize; 5]| {
        let (noticed, of) = (n[0] + n[1], n[..if all { 4 } else { 3 }].iter().sum::<usize>());
        if of == 0 { 100.0 } else { 100.0 * noticed as f64 / of as f64 }
    };
    let mut files: BTreeMap<&str, [usize; 5]> = BTreeMap::new();
    for (change, fate) in results {
        let k = match fate {
            Fate::Noticed(_) => 0,
            Fate::Hang(_) => 1,
            Fate::Survived => 2,
            Fate::NotReached => 3,
            Fate::Allowed => 4,
        };
        files.entry(&change.file).or_default()[k] += 1;
        files.entry("all").or_default()[k] += 1;
    }
    println!("\n| file | noticed | hang | survived | not reached | not observable | noticed of observable |");
    println!("|---|---|---|---|---|---|---|");
    for (file, n) in &files {
        println!("| {file} | {} | {} | {} | {} | {} | {:.1} % |", n[0], n[1], n[2], n[3], n[4], share(n));
    }
    println!();
    for (c, fate) in results.iter().filter(|(_, f)| matches!(f, Fate::Survived | Fate::NotReached)) {
        println!("{}: {}:{} `{}` {} in `{}`", fate.words().0, c.file, c.line, c.function, c.what, c.text);
    }
    files.get("all").map_or(100.0, share)
}
