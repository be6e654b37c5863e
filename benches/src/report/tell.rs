//! From a run's folder to a report.

use std::fs;
use std::path::{Path, PathBuf};

use scheidegg::{Error, Result};

use super::book::{Book, Text};
use super::{gpu, questions, rungs, studies};
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

/// Writes the report of a run; when asked its text as Markdown, and the answers to the questions.
///
/// # Errors
/// As [`Run::read`], and those of writing.
pub fn report(dir: &Path, markdown: Option<&Path>, answers: Option<&Path>) -> Result<()> {
    let run = Run::read(dir)?;
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
    rungs::arc(&mut book, &run);
    gpu::engines(&mut book, &run);
    rungs::faults(&mut book, &run);
    gpu::timelines(&mut book, &run);
    gpu::wire(&mut book, &run);
    rungs::energy(&mut book, &run);
    gpu::instructions(&mut book, &run);
    rungs::published(&mut book, &run);
    rungs::threads(&mut book, &run);
    studies::precision(&mut book, &run);
    studies::timing(&mut book, &run);
    method(&mut book, &run);
    for table in &run.tables {
        book.source(table);
    }
    book.write(dir, markdown)?;
    match answers {
        Some(path) => questions::questions(&run).write_markdown(dir, path),
        None => Ok(()),
    }
}

fn method(book: &mut Book, run: &Run) {
    book.section("How it was measured, and what was left out");
    book.para(Text::new().t(
        "Each step runs in a process of its own over the same simulated frames (400 x 400 pixels, 2300 photons a frame, \
         seed 1) from the same trained pedestal. The first repetition is the cold one; a warm figure is the best of the \
         others, its spread the way from the best to the worst of them in percent. A GPU that is more than 5 % busy, or \
         whose SM clock has not reached 85 % of its maximum under load, is refused. Page faults are those of the \
         process during the repetition. Probes are runs of their own.",
    ));
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
    match run.table("skips.csv") {
        Some(skips) => {
            book.para(Text::new().t("Left out:"));
            let rows = skips
                .rows()
                .map(|r| vec![Text::new().t(r.text("what")), Text::new().t(r.text("reason"))])
                .collect();
            book.grid(&["what", "reason"], rows);
        }
        None => book.para(Text::new().t("Nothing was left out.")),
    }
}
