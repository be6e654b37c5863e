//! What is committed under `benches/runs` and `docs` is what the runs say: every number of a report leads to a cell and
//! back, manifests hold, and the documents are generated.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use scheidegg_benches::harness::machine::fnv1a;
use scheidegg_benches::harness::table::Table;
use scheidegg_benches::report::axis::short;
use scheidegg_benches::report::book::thousands;
use scheidegg_benches::report::documents;

fn runs() -> Vec<PathBuf> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("runs");
    let all = fs::read_dir(&dir).unwrap().map(|e| e.unwrap().path());
    let mut runs: Vec<PathBuf> = all.filter(|p| p.join("citations.csv").is_file()).collect();
    runs.sort();
    assert!(!runs.is_empty(), "no campaign is committed in {}", dir.display());
    runs
}

#[test]
fn every_number_of_a_report_leads_to_a_cell_and_back() {
    for run in runs() {
        let citations = Table::read(run.join("citations.csv")).unwrap();
        let html = fs::read_to_string(run.join("report.html")).unwrap();
        let mut tables: Vec<(String, Table)> = Vec::new();
        let (mut count, mut single, mut plain, mut last) = (0, 0, 0, String::new());
        let mut of: HashMap<&str, usize> = HashMap::new();
        citations.rows().for_each(|c| *of.entry(c.text("number")).or_default() += 1);
        for c in citations.rows() {
            let (file, number) = (c.text("file").to_string(), c.text("number").to_string());
            if !tables.iter().any(|(n, _)| *n == file) {
                tables.push((file.clone(), Table::read(run.join(&file)).unwrap()));
            }
            let table = &tables.iter().find(|(n, _)| *n == file).unwrap().1;
            let line: usize = c.text("line").parse().unwrap();
            let row =
                table.rows().nth(line - 2).unwrap_or_else(|| panic!("{number}: {file} has no line {line}"));
            let value = row
                .number(c.text("column"))
                .unwrap_or_else(|| panic!("{number}: no number in {file}:{line}"));
            assert_eq!(value, c.number("value").unwrap(), "{number}: {file}:{line} {}", c.text("column"));
            // A number of one cell is printed as that cell says, unless it was turned over (a rate from a time).
            if of[c.text("number")] == 1 {
                single += 1;
                plain += usize::from([short(value), thousands(value)].contains(&c.text("words").to_string()));
            }
            // There: the number links to the line that is printed below. And back.
            assert!(
                html.contains(&format!("<tr id=\"{file}-{line}\">")),
                "{number}: {file}:{line} is not in report.html"
            );
            if number != last {
                let there = format!("<a class=\"n\" id=\"{number}\" href=\"#{file}-{line}\"");
                assert!(html.contains(&there), "{number} does not link to {file}:{line}");
                count += 1;
            }
            assert!(html.contains(&format!("<a href=\"#{number}\">")), "no way back to {number}");
            last = number;
        }
        assert!(count > 100, "{}: {count} numbers", run.display());
        assert!(plain * 100 >= single * 97, "{}: {plain} of {single} as their cells say", run.display());
    }
}

#[test]
fn a_manifest_names_every_file_as_it_is() {
    for run in runs() {
        let manifest = Table::read(run.join("manifest.csv")).unwrap();
        for row in manifest.rows() {
            let path = run.join(row.text("file"));
            let bytes = fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
            assert_eq!(row.text("fnv1a64"), format!("{:016x}", fnv1a(&bytes)), "{}", path.display());
            assert_eq!(row.text("bytes"), bytes.len().to_string());
        }
        for entry in fs::read_dir(&run).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if path.extension().is_some_and(|e| e == "csv" || e == "json") && name != "manifest.csv" {
                assert!(manifest.find(&[("file", &name)]).is_some(), "{name} is not in the manifest");
            }
        }
    }
}

#[test]
fn the_documents_are_what_the_report_says() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join("docs");
    let places = [docs.join("performance-gpu.md"), docs.join("questions.md")];
    let texts = places.each_ref().map(|p| fs::read_to_string(p).unwrap());
    let run = texts[0].split("the run: `").nth(1).unwrap().split('`').next().unwrap();
    let generated = documents(&docs.join(run), &places[0], &places[1]).unwrap();
    for ((path, text), made) in places.iter().zip(&texts).zip(&generated) {
        assert!(
            text == made,
            "{} is not what `scheidegg-bench report benches/runs/{} --markdown docs/performance-gpu.md --questions \
             docs/questions.md` writes",
            path.display(),
            run.rsplit('/').next().unwrap()
        );
    }
}
