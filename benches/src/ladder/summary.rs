//! What repetitions come to, and the check that all steps found the same.

use std::path::Path;

use scheidegg::{Error, Result};

use crate::harness::stats::Spread;
use crate::harness::table::{Row, Table};

/// The columns of `ladder.csv`.
pub const SUMMARY: [&str; 23] = [
    "step",
    "size",
    "precision",
    "payload",
    "lanes",
    "threads",
    "frames",
    "repetitions",
    "cold_us_per_frame",
    "best_us_per_frame",
    "median_us_per_frame",
    "spread_percent",
    "frames_per_s",
    "cold_faults_per_frame",
    "plateau_faults_per_frame",
    "major_faults",
    "clusters",
    "checksum",
    "h2d_bytes_per_frame",
    "d2h_bytes_per_frame",
    "result_bytes_per_frame",
    "energy_mj_per_frame",
    "sm_mhz",
];

/// What a step's repetitions come to: cold is the first one, warm the best of the rest; the spread is from the best to
/// the worst of the warm ones, in percent of the best. Nothing without a warm repetition.
pub fn summarise(rows: &[Row<'_>]) -> Option<Vec<String>> {
    let first = *rows.first()?;
    let phase = |p: &'static str| rows.iter().filter(move |r| r.text("phase") == p);
    let warm: Vec<f64> = phase("warm").filter_map(|r| r.number("us_per_frame")).collect();
    if warm.is_empty() {
        return None;
    }
    let times = Spread::of(&warm);
    let faults: Vec<f64> = phase("warm").filter_map(|r| r.number("minor_faults_per_frame")).collect();
    let of = |p, c: &str| phase(p).next().map_or("", |r| r.text(c)).to_string();
    let major: f64 = phase("warm").filter_map(|r| r.number("major_faults")).sum();
    let last = *phase("warm").next_back()?;
    let keep = |c: &str| first.text(c).to_string();
    Some(vec![
        keep("step"),
        keep("size"),
        keep("precision"),
        keep("payload"),
        keep("lanes"),
        keep("threads"),
        keep("frames"),
        (warm.len() + phase("cold").count()).to_string(),
        of("cold", "us_per_frame"),
        format!("{:.4}", times.least),
        format!("{:.4}", times.median),
        format!("{:.2}", times.percent_of_least()),
        format!("{:.1}", 1e6 / times.least),
        of("cold", "minor_faults_per_frame"),
        if faults.is_empty() { String::new() } else { format!("{:.3}", Spread::of(&faults).median) },
        major.to_string(),
        keep("clusters"),
        keep("checksum"),
        last.text("h2d_bytes_per_frame").into(),
        last.text("d2h_bytes_per_frame").into(),
        last.text("result_bytes_per_frame").into(),
        of("energy", "energy_mj_per_frame"),
        last.text("sm_mhz").into(),
    ])
}

/// Every step with the same window, precision and number of lanes must have found the same; says so in `checks.csv`.
///
/// # Errors
/// [`Error::Other`] that names the steps that differ, after the table is written; those of writing.
pub fn check(summary: &Table, run: &Path) -> Result<()> {
    let mut checks = Table::new(
        run.join("checks.csv"),
        &["size", "precision", "lanes", "steps", "clusters", "checksum", "equal"],
    );
    let mut groups: Vec<[String; 3]> = Vec::new();
    for row in summary.rows() {
        let key = ["size", "precision", "lanes"].map(|c| row.text(c).to_string());
        if !groups.contains(&key) {
            groups.push(key);
        }
    }
    let mut wrong = Vec::new();
    for [size, precision, lanes] in groups {
        let wanted = [("size", size.as_str()), ("precision", &precision), ("lanes", &lanes)];
        let rows: Vec<Row<'_>> = summary.rows().filter(|r| r.is(&wanted)).collect();
        let found = |r: &Row<'_>| (r.text("checksum").to_string(), r.text("clusters").to_string());
        let (sum, clusters) = found(&rows[0]);
        let odd: Vec<&str> = rows
            .iter()
            .filter(|r| found(r) != (sum.clone(), clusters.clone()))
            .map(|r| r.text("step"))
            .collect();
        if !odd.is_empty() {
            wrong.push(format!(
                "{size}x{size} {precision}: {} differ from {}",
                odd.join(", "),
                rows[0].text("step")
            ));
        }
        checks.push([
            size.clone(),
            precision.clone(),
            lanes.clone(),
            rows.len().to_string(),
            clusters,
            sum,
            if odd.is_empty() { "yes".into() } else { format!("no: {}", odd.join(" ")) },
        ]);
    }
    checks.write()?;
    match wrong.is_empty() {
        true => Ok(()),
        false => Err(Error::Other(format!("steps found different clusters: {}", wrong.join("; ")))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows as a step writes them: phase, time, faults, major faults, energy.
    fn steps(rows: &[(&str, &str, &str, &str, &str)]) -> Table {
        let columns = [
            "step",
            "phase",
            "us_per_frame",
            "minor_faults_per_frame",
            "major_faults",
            "energy_mj_per_frame",
            "sm_mhz",
        ];
        let mut table = Table::new("steps.csv", &columns);
        for (i, (phase, us, minor, major, energy)) in rows.iter().enumerate() {
            let clock = (1900 + i).to_string();
            table.push(["opt5", phase, us, minor, major, energy, &clock].map(String::from));
        }
        table
    }

    fn value(summary: &[String], column: &str) -> String {
        summary[SUMMARY.iter().position(|c| *c == column).unwrap()].clone()
    }

    #[test]
    fn cold_is_the_first_and_warm_the_best_of_the_rest() {
        let table = steps(&[
            ("cold", "90", "50", "7", ""),
            ("warm", "40", "21", "0", ""),
            ("warm", "30", "20", "1", ""),
            ("warm", "36", "20", "0", ""),
            ("warm", "33", "24", "2", ""),
            ("energy", "20", "", "", "1.5"),
        ]);
        let s = summarise(&table.rows().collect::<Vec<_>>()).unwrap();
        for (column, wanted) in [
            ("repetitions", "5"),
            ("cold_us_per_frame", "90"),
            ("best_us_per_frame", "30.0000"),
            ("median_us_per_frame", "34.5000"),
            ("spread_percent", "33.33"),
            ("frames_per_s", "33333.3"),
            ("cold_faults_per_frame", "50"),
            ("plateau_faults_per_frame", "20.500"),
            ("major_faults", "3"),
            ("energy_mj_per_frame", "1.5"),
            ("sm_mhz", "1904"),
        ] {
            assert_eq!(value(&s, column), wanted, "{column}");
        }
    }

    #[test]
    fn a_step_without_a_warm_repetition_comes_to_nothing() {
        let table = steps(&[("cold", "90", "50", "0", "")]);
        assert_eq!(summarise(&table.rows().collect::<Vec<_>>()), None);
        assert_eq!(summarise(&[]), None);
    }

    #[test]
    fn steps_that_found_something_else_fail_the_ladder() {
        let run = std::env::temp_dir().join(format!("scheidegg-check-{}", std::process::id()));
        let columns = ["step", "size", "precision", "lanes", "clusters", "checksum"];
        let mut same = Table::new(run.join("ladder.csv"), &columns);
        same.push(["opt1", "3", "f32", "4", "10", "aa"].map(String::from));
        same.push(["opt2", "3", "f32", "4", "10", "aa"].map(String::from));
        // Another window, precision or number of lanes may differ.
        same.push(["opt1", "9", "f32", "4", "7", "bb"].map(String::from));
        same.push(["opt1", "3", "f64f32", "4", "10", "cc"].map(String::from));
        same.push(["library1", "3", "f32", "1", "11", "dd"].map(String::from));
        check(&same, &run).unwrap();
        let checks = Table::read(run.join("checks.csv")).unwrap();
        assert_eq!((checks.len(), checks.rows().filter(|r| r.text("equal") == "yes").count()), (4, 4));
        assert_eq!(
            checks.find(&[("size", "3"), ("lanes", "4"), ("precision", "f32")]).unwrap().text("steps"),
            "2"
        );
        for odd in [["opt3", "3", "f32", "4", "10", "ab"], ["opt3", "3", "f32", "4", "9", "aa"]] {
            let mut table = same.clone();
            table.push(odd.map(String::from));
            let e = check(&table, &run).unwrap_err().to_string();
            assert!(e.contains("3x3 f32: opt3 differ from opt1"), "{e}");
            let checks = Table::read(run.join("checks.csv")).unwrap();
            assert!(checks.find(&[("equal", "no: opt3")]).is_some());
        }
        std::fs::remove_dir_all(run).unwrap();
    }
}
