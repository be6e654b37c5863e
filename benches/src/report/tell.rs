//! From a run's folder to a report.

use std::fs;
use std::path::{Path, PathBuf};

use scheidegg::{Error, Result};

use super::book::{Book, Text};
use super::{gpu, kernels, published, questions, rungs, steps, studies};
use crate::harness::machine::write_manifest;
use crate::harness::table::{Row, Table};

/// The tables of a run.
pub struct Run {
    dir: PathBuf,
    tables: Vec<Table>,
    env: serde_json::Value,
}

impl Run {
    /// Reads every CSV file of a run and its `env.json`.
    ///
    /// # Errors
    /// [`Error::Io`] or [`Error::File`] for what cannot be read; [`Error::File`] for a folder without tables.
    pub fn read(dir: &Path) -> Result<Run> {
        let mut names = Vec::new();
        for entry in fs::read_dir(dir).map_err(|e| Error::io(dir, e))? {
            let path = entry.map_err(|e| Error::io(dir, e))?.path();
            let name = path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
            if name.ends_with(".csv") && name != "citations.csv" && name != "manifest.csv" {
                names.push(path);
            }
        }
        names.sort();
        let tables = names.into_iter().map(Table::read).collect::<Result<Vec<_>>>()?;
        if tables.is_empty() {
            return Err(Error::file(
                dir,
                "no CSV file: not the folder of a run (campaign, ladder and the studies fill one)",
            ));
        }
        let path = dir.join("env.json");
        let text = fs::read_to_string(&path).map_err(|e| Error::io(&path, e))?;
        let env = serde_json::from_str(&text).map_err(|e| Error::file(&path, e.to_string()))?;
        Ok(Run { dir: dir.into(), tables, env })
    }

    /// A table that the run has and that is not empty.
    pub fn table(&self, name: &str) -> Option<&Table> {
        self.tables.iter().find(|t| t.name() == name && !t.is_empty())
    }

    /// The folder.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// A word of `env.json`, by its path.
    pub fn env(&self, pointer: &str) -> String {
        match self.env.pointer(pointer) {
            Some(serde_json::Value::String(s)) => s.clone(),
            Some(serde_json::Value::Null) | None => String::new(),
            Some(other) => other.to_string(),
        }
    }

    /// Number of calls that the run was made in.
    pub fn calls(&self) -> usize {
        self.env.pointer("/calls").and_then(serde_json::Value::as_array).map_or(1, Vec::len)
    }

    /// The row of a step in `ladder.csv`.
    pub fn step(&self, step: &str, size: &str, precision: &str) -> Option<Row<'_>> {
        self.table("ladder.csv")?.find(&[("step", step), ("size", size), ("precision", precision)])
    }

    /// The row of an engine in `probe.csv`.
    pub fn engine(&self, step: &str, size: &str, precision: &str, engine: &str) -> Option<Row<'_>> {
        let wanted = [("step", step), ("size", size), ("precision", precision), ("engine", engine)];
        self.table("probe.csv")?.find(&wanted)
    }
}

/// Writes the report of a run and its manifest anew; when asked its text as Markdown, and the answers to the questions.
///
/// # Errors
/// As [`Run::read`], and those of writing.
pub fn report(dir: &Path, markdown: Option<&Path>, answers: Option<&Path>) -> Result<()> {
    let run = Run::read(dir)?;
    told(&run).write(dir, markdown)?;
    if let Some(path) = answers {
        questions::questions(&run).write_markdown(dir, path)?;
    }
    write_manifest(dir)
}

/// The report and the answers of a run as Markdown that is to lie at these places.
///
/// # Errors
/// As [`Run::read`].
pub fn documents(dir: &Path, markdown: &Path, answers: &Path) -> Result<[String; 2]> {
    let run = Run::read(dir)?;
    Ok([told(&run).markdown(dir, markdown), questions::questions(&run).markdown(dir, answers)])
}

/// The whole report.
fn told(run: &Run) -> Book {
    let gpu_name = run.env("/gpu/name");
    let machine = if gpu_name.is_empty() { run.env("/cpu") } else { gpu_name.clone() };
    let subtitle = format!(
        "{}. {}, {} threads{}. Commit {}, {}.",
        if gpu_name.is_empty() { "No GPU in this run".into() } else { format!("GPU {gpu_name}") },
        run.env("/cpu"),
        run.env("/threads"),
        if gpu_name.is_empty() {
            String::new()
        } else {
            format!(
                ", driver {}, CUDA {}, PCIe generation {} x{}",
                run.env("/gpu/driver"),
                run.env("/gpu/cuda"),
                run.env("/gpu/pcie_generation/1"),
                run.env("/gpu/pcie_width")
            )
        },
        run.env("/commit"),
        run.env("/date"),
    );
    let mut book = Book::new(&format!("Why the photon finder is fast: measured on {machine}"), &subtitle);
    rungs::arc(&mut book, run);
    steps::table(&mut book, run);
    gpu::engines(&mut book, run);
    kernels::gathering(&mut book, run);
    rungs::faults(&mut book, run);
    gpu::timelines(&mut book, run);
    gpu::wire(&mut book, run);
    rungs::energy(&mut book, run);
    gpu::instructions(&mut book, run);
    published::published(&mut book, run);
    rungs::threads(&mut book, run);
    studies::precision(&mut book, run);
    studies::timing(&mut book, run);
    method(&mut book, run);
    for table in &run.tables {
        book.source(table);
    }
    book
}

/// The calls that a run was made in, when there were several, and how long everything took.
fn calls(book: &mut Book, run: &Run) {
    let calls = run.calls();
    if calls > 1 {
        let words: Vec<String> = (0..calls)
            .map(|i| {
                let of = |p: &str| run.env(&format!("/calls/{i}{p}"));
                format!(
                    "call {} {} (driver {}, kernel {})",
                    i + 1,
                    of("/date"),
                    of("/gpu/driver"),
                    of("/kernel")
                )
            })
            .collect();
        book.para(Text::new().t(format!(
            "The run was made in {calls} calls, on machines of the same kind with the same program: {}. Which call \
             measured what stands in times.csv.",
            words.join("; ")
        )));
    }
    let Some(times) = run.table("times.csv") else { return };
    let rows: Vec<Vec<Text>> = times
        .rows()
        .filter(|r| r.text("what") == "in all")
        .filter_map(|r| {
            let (took, expected) = (r.cell("took_s")?, r.cell("expected_s")?);
            Some(vec![
                Text::new().t(r.text("part")),
                Text::new().t(r.text("call")),
                Text::new().n(&expected),
                Text::new().n(&took),
            ])
        })
        .collect();
    if !rows.is_empty() {
        book.grid(&["part", "call", "expected s", "took s"], rows);
    }
    let cut: Vec<&str> = run
        .table("ladder.csv")
        .into_iter()
        .flat_map(|t| t.rows())
        .filter(|r| r.number("repetitions").is_some_and(|n| n <= 3.0))
        .map(|r| r.text("step"))
        .collect();
    if !cut.is_empty() {
        book.para(Text::new().t(format!(
            "For lack of time only two warm repetitions or fewer: {}. Their spread says little.",
            cut.join(", ")
        )));
    }
}

/// Tables that a whole run has, and the part of the campaign that makes each.
const PARTS: [(&str, &str); 6] = [
    ("wire.csv", "wire"),
    ("probe.csv", "probes"),
    ("precision.csv", "precision"),
    ("timing.csv", "timing"),
    ("sass.csv", "instructions"),
    ("ladder.csv", "ladder"),
];

fn method(book: &mut Book, run: &Run) {
    book.section("How it was measured, and what was left out");
    book.para(Text::new().t(
        "Each step runs in a process of its own over the same simulated frames (400 x 400 pixels, 2300 photons a frame, \
         seed 1) from the same trained pedestal. A repetition is one batch of frames (ladder.csv, frames) from the trained \
         pedestal on. f64f32 has the sums of the pedestal in f64 and decides in f32, f32 has both in f32. The first repetition is the cold one; a warm figure is the best of the \
         others, its spread the way from the best to the worst of them in percent. A GPU that is more than 5 % busy, or \
         whose SM clock has not reached 85 % of its maximum under load, is refused. Page faults are those of the \
         process during the repetition. Probes are runs of their own.",
    ));
    calls(book, run);
    if run.env("/page_faults_counted") == "false" {
        book.para(Text::new().t("This system does not count page faults: their columns mean nothing here."));
    }
    if let Some(checks) = run.table("checks.csv") {
        let rows = checks
            .rows()
            .map(|r| {
                let cell =
                    |c: &str| r.cell(c).map_or_else(|| Text::new().t(r.text(c)), |n| Text::new().whole(&n));
                vec![
                    Text::new().t(format!(
                        "{0}x{0} {1}, {2} lanes",
                        r.text("size"),
                        r.text("precision"),
                        r.text("lanes")
                    )),
                    cell("steps"),
                    cell("clusters"),
                    Text::new().t(r.text("checksum")),
                    Text::new().t(r.text("equal")),
                ]
            })
            .collect();
        book.para(Text::new().t("Every step found the same clusters, value for value:"));
        book.grid(&["what", "steps", "clusters", "checksum", "equal"], rows);
    }
    let missing: Vec<&str> =
        PARTS.iter().filter(|(table, _)| run.table(table).is_none()).map(|(_, part)| *part).collect();
    if !missing.is_empty() {
        book.para(Text::new().t(format!("Parts that are not in this run: {}.", missing.join(", "))));
    }
    match run.table("skips.csv") {
        Some(skips) => {
            book.para(Text::new().t("Left out:"));
            let rows = skips
                .rows()
                .map(|r| ["part", "what", "reason"].map(|c| Text::new().t(r.text(c))).into())
                .collect();
            book.grid(&["part", "what", "reason"], rows);
        }
        None if missing.is_empty() => book.para(Text::new().t("Nothing was left out.")),
        None => {}
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// What `ask` says of a run with these tables.
    pub(in super::super) fn run_with<T>(tables: &[(&str, &str)], ask: impl FnOnce(&Run) -> T) -> T {
        use std::sync::atomic::{AtomicUsize, Ordering};
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let dir = std::env::temp_dir().join(format!("scheidegg-run-{}-{count}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        fs::write(dir.join("env.json"), "{\"cpu\": \"a CPU\"}").unwrap();
        for (name, text) in tables {
            fs::write(dir.join(name), text).unwrap();
        }
        let run = Run::read(&dir).unwrap();
        let told = ask(&run);
        fs::remove_dir_all(dir).unwrap();
        told
    }

    #[test]
    fn what_is_missing_is_said() {
        let text = run_with(&[("wire.csv", "direction\nh2d\n")], |run| {
            let mut book = Book::new("T", "S");
            method(&mut book, run);
            book.plain()
        });
        assert!(text.contains("not in this run: probes, precision, timing, instructions, ladder"), "{text}");
        assert!(!text.contains("Nothing was left out"), "{text}");
    }

    #[test]
    fn a_folder_without_tables_is_no_run() {
        let dir = std::env::temp_dir().join(format!("scheidegg-norun-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let e = Run::read(&dir).err().unwrap().to_string();
        fs::remove_dir_all(dir).unwrap();
        assert!(e.contains("not the folder of a run"), "{e}");
    }
}
