//! Runs that end early, or go past what is damaged: nothing that was found is lost, and everything is said.

mod common;

use std::fs;
use std::path::{Path, PathBuf};

use common::{clusters, golden_files, json, names, run, stderr, write_npy};
use scheidegg_conformance::golden;
use serde_json::Value;

/// Dark frames, and the data in three files of 50, 40 and 30 frames.
fn parts(dir: &Path) -> (String, Vec<String>) {
    let set = golden::set("moench").unwrap();
    let (dark, _) = golden_files(dir, "moench");
    let pixels = set.shape.pixels();
    let cuts = [(0, 50), (50, 90), (90, 120)];
    let files = cuts.iter().enumerate().map(|(k, (from, to))| {
        let path = dir.join(format!("part{k}.npy"));
        write_npy(&path, set.shape, &set.data[from * pixels..to * pixels]);
        path.to_str().unwrap().to_string()
    });
    (dark.to_str().unwrap().into(), files.collect())
}

fn at(dir: &Path, name: &str) -> (String, PathBuf) {
    let path = dir.join(name);
    (path.to_str().unwrap().into(), path)
}

/// Takes the last bytes of a file of frames.
fn cut(path: &str) {
    let bytes = fs::metadata(path).unwrap().len();
    fs::File::options().write(true).open(path).unwrap().set_len(bytes - 10).unwrap();
}

#[test]
fn limits_above_what_is_there_are_no_fault() {
    let dir = tempfile::tempdir().unwrap();
    let (dark, files) = parts(dir.path());
    let (out, path) = at(dir.path(), "a.npz");
    let find = |more: &[&str]| {
        let base = ["find", "--json", "--dark", &dark, "--out", &out, "--data"];
        let said =
            json(base.iter().copied().chain(files.iter().map(String::as_str)).chain(more.iter().copied()));
        (said, clusters(&path, "3"))
    };
    let (_, whole) = find(&[]);
    for frames in ["120", "121", "127", "129", "1000", "18446744073709551615"] {
        let (said, found) = find(&["--frames", frames]);
        assert_eq!((said["frames"].as_u64(), &found), (Some(120), &whole), "--frames {frames}");
        assert_eq!(said["ended"]["how"], "complete");
    }
    for darks in ["1001", "1063", "5000"] {
        let (said, found) = find(&["--dark-frames", darks]);
        assert_eq!(
            (said["training"]["frames"].as_u64(), &found),
            (Some(1000), &whole),
            "--dark-frames {darks}"
        );
    }
}

#[test]
fn frames_have_their_numbers_wherever_a_piece_begins() {
    let dir = tempfile::tempdir().unwrap();
    let (dark, files) = parts(dir.path());
    let (out, path) = at(dir.path(), "a.npz");
    let find = |more: &[&str]| {
        let base = ["find", "--json", "--dark", &dark, "--out", &out, "--data"];
        json(base.iter().copied().chain(files.iter().map(String::as_str)).chain(more.iter().copied()))
    };
    for (first, frames) in [(0, 30), (12, 60), (49, 2), (50, 40), (95, 25)] {
        let said = find(&["--first", &first.to_string(), "--frames", &frames.to_string()]);
        assert_eq!(
            (&said["first_frame"], &said["last_frame"]),
            (&first.into(), &(first + frames - 1).into())
        );
        let numbers: Vec<u64> = clusters(&path, "3").iter().map(|c| c.0).collect();
        assert!(numbers.iter().all(|n| (first..first + frames).contains(n)), "{first}: {numbers:?}");
    }
}

/// The provenance beside a result.
fn beside(path: &Path) -> Value {
    let text = fs::read_to_string(format!("{}.json", path.display())).unwrap();
    serde_json::from_str(&text).unwrap()
}

#[test]
fn a_damaged_file_costs_nothing_that_was_found() {
    let dir = tempfile::tempdir().unwrap();
    let (dark, files) = parts(dir.path());
    let (out, path) = at(dir.path(), "a.clust");
    let (npy, npy_path) = at(dir.path(), "a.npy");
    let find = |more: &[&str]| {
        let base = ["find", "--json", "--dark", &dark, "--out", &out, "--out", &npy, "--data"];
        run(base.iter().copied().chain(files.iter().map(String::as_str)).chain(more.iter().copied()))
    };
    assert!(find(&["--frames", "89"]).status.success());
    let (whole, rows) = (fs::read(&path).unwrap(), fs::read(&npy_path).unwrap());
    cut(&files[1]);
    let o = find(&[]);
    assert_eq!(o.status.code(), Some(1));
    let last = stderr(&o).lines().last().unwrap().to_string();
    assert!(last.contains("part1.npy: ends inside frame 39"), "{last}");
    assert!(last.ends_with("the results are complete up to and with frame 88"), "{last}");
    // The earlier results stay; these lie beside them.
    let (part, npy_part) = (dir.path().join("a.partial.clust"), dir.path().join("a.partial.npy"));
    assert!(fs::read(&path).unwrap() == whole && fs::read(&part).unwrap() == whole);
    assert!(fs::read(&npy_path).unwrap() == rows && fs::read(&npy_part).unwrap() == rows);
    let said: Value = serde_json::from_slice(&o.stdout).unwrap();
    for told in [&said["provenance"], &beside(&part), &beside(&npy_part)] {
        assert_eq!((&told["frames"], &told["last_frame"]), (&89.into(), &88.into()));
        assert_eq!(told["ended"]["how"], "fault");
        assert!(told["ended"]["why"].as_str().unwrap().contains("ends inside frame 39"));
        let data: Vec<_> =
            told["inputs"].as_array().unwrap().iter().filter(|i| i["role"] == "data").collect();
        assert_eq!((data.len(), &data[1]["frames"], &data[1]["last_frame"]), (2, &39.into(), &88.into()));
        assert_eq!(told["program"]["name"], "scheidegg");
        assert_eq!(told["command"][1], "find");
    }
    assert!(names(dir.path()).iter().all(|n| !n.ends_with(".partial")));

    let o = find(&["--keep-going"]);
    assert_eq!(o.status.code(), Some(0), "{}", stderr(&o));
    let said: Value = serde_json::from_slice(&o.stdout).unwrap();
    assert_eq!((&said["frames"], &said["health"]["damaged_files"]), (&120.into(), &1.into()));
    // The frame that is cut is there as far as it goes.
    assert!(said["warnings"].to_string().contains("part1.npy: ends inside frame 39"), "{said}");
    assert_eq!(said["ended"]["how"], "complete");

    // A file that is none is left out like one that is damaged; alone it is an error.
    fs::write(&files[1], b"nothing").unwrap();
    let o = find(&["--keep-going"]);
    assert_eq!(o.status.code(), Some(0), "{}", stderr(&o));
    let said: Value = serde_json::from_slice(&o.stdout).unwrap();
    assert_eq!((&said["frames"], &said["health"]["damaged_files"]), (&80.into(), &1.into()));
    assert_eq!(find(&[]).status.code(), Some(1));

    // One that is not there was mistyped.
    fs::remove_file(&files[1]).unwrap();
    let o = find(&["--keep-going"]);
    assert_eq!(o.status.code(), Some(1));
    assert!(stderr(&o).contains("part1.npy: there is no such file"), "{}", stderr(&o));
}

#[test]
fn a_table_of_frames_has_a_row_a_frame() {
    let dir = tempfile::tempdir().unwrap();
    let (dark, files) = parts(dir.path());
    let (table, path) = at(dir.path(), "f.csv");
    let said = json(["find", "--json", "--dark", &dark, "--frames-out", &table, "--data", &files[0]]);
    let text = fs::read_to_string(&path).unwrap();
    let rows: Vec<Vec<&str>> = text.lines().map(|l| l.split(',').collect()).collect();
    assert_eq!((rows.len(), rows[0][0], rows[1][0], rows[50][0]), (51, "frame", "0", "49"));
    let clusters: u64 = rows[1..].iter().map(|r| r.last().unwrap().parse::<u64>().unwrap()).sum();
    assert_eq!(said["clusters"].as_u64(), Some(clusters));
    // Where no clusters are stored they are as they were measured.
    assert_eq!(said["params"]["payload"], "f32");
}

#[test]
fn a_saved_pedestal_says_where_it_comes_from() {
    let dir = tempfile::tempdir().unwrap();
    let (dark, files) = parts(dir.path());
    let (pedestal, path) = at(dir.path(), "p.npz");
    let (out, _) = at(dir.path(), "a.npz");
    json([
        "find",
        "--json",
        "--dark",
        &dark,
        "--save-pedestal",
        &pedestal,
        "--out",
        &out,
        "--data",
        &files[0],
    ]);
    let bytes = fs::read(&path).unwrap();
    let text = String::from_utf8_lossy(&bytes).into_owned();
    assert!(text.contains("\"role\": \"dark\"") && text.contains("provenance.npy"));
    json(["find", "--json", "--pedestal", &pedestal, "--out", &out, "--data", &files[0]]);
}
