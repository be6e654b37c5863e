//! The program's `bench`.

mod common;

use common::{command, fails, stderr, stdout};
use scheidegg::io::simulate::{Simulation, write_npy};

fn frames(dir: &std::path::Path) -> (String, String) {
    let simulation = Simulation { rows: 40, cols: 50, photons_per_frame: 20.0, ..Simulation::default() };
    write_npy(dir, &simulation, 30, 12, &mut |_, _| Ok(())).expect("simulated files");
    let path = |name: &str| dir.join(name).display().to_string();
    (path("dark.npy"), path("data.npy"))
}

/// Fault: frames before a cut are timed as if they were all.
#[test]
fn a_file_that_is_cut_is_said_unless_its_whole_frames_are_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let (dark, data) = frames(dir.path());
    let file = std::fs::File::options().write(true).open(&data).unwrap();
    file.set_len(file.metadata().unwrap().len() - 10).unwrap();
    let bench = ["bench", "--backend", "cpu", "--reps", "1", "--dark", &dark, "--data", &data];
    let said = fails(bench, 1);
    assert!(said.contains("data.npy: ends inside frame 11"), "{said}");
    assert!(command(bench.iter().chain(&["--frames", "11"])).output().unwrap().status.success());
}

#[test]
fn a_sweep_prints_a_line_a_number_of_threads_and_draws_a_plot() {
    let dir = tempfile::tempdir().unwrap();
    let (dark, data) = frames(dir.path());
    let svg = dir.path().join("threads.svg");
    let mut bench = command(["bench", "--backend", "cpu", "--threads", "1,2", "--pedestal-samples", "30"]);
    bench.args(["--reps", "3", "--json", "--dark", &dark, "--data", &data, "--plot"]).arg(&svg);
    let o = bench.output().unwrap();
    assert!(o.status.success(), "{}", stderr(&o));
    let lines: Vec<serde_json::Value> =
        stdout(&o).lines().map(|l| serde_json::from_str(l).expect("an object a line")).collect();
    assert_eq!(lines.len(), 2, "{lines:?}");
    for (line, threads) in lines.iter().zip([1, 2]) {
        assert_eq!(line["threads"], threads);
        assert_eq!(line["frames"], 12);
        assert_eq!(line["reps"], 3);
        assert_eq!(line["clusters"], lines[0]["clusters"]);
        assert!(line["clusters"].as_u64().unwrap() > 100, "{line}");
        let us = |name: &str| line[name].as_f64().unwrap();
        assert!(us("min_us") > 0.0 && us("min_us") <= us("median_us"), "{line}");
        assert!(us("median_us") <= us("max_us"), "{line}");
        assert_eq!(us("spread_us"), us("max_us") - us("min_us"), "{line}");
    }
    assert!(std::fs::read_to_string(&svg).unwrap().contains("frames/s"));
}

#[test]
fn without_darks_it_says_what_is_missing() {
    let dir = tempfile::tempdir().unwrap();
    let (_, data) = frames(dir.path());
    let said = fails(["bench", "--data", &data], 2);
    assert!(said.contains("--dark"), "{said}");
    let said = fails(["bench", "--dark", &data, "--data", &data, "--first", "5", "--backend", "gone"], 2);
    assert!(said.contains("gone"), "{said}");
    assert!(fails(["bench"], 2).contains("--data = nothing"));
    let said = fails(["bench", "--dark", &data, "--data", &data, "--plot", &data], 2);
    assert!(said.contains("a name that ends with .svg"), "{said}");
}
