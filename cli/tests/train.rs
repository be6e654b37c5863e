//! Dark frames: `train`, several files of them, the pedestal's window, masks.

mod common;

use std::fs;
use std::path::Path;

use common::{bool_npy, clusters, fails, golden_files, json, names, run, stderr, stdout, write_npy};
use scheidegg::io::load_pedestal;
use scheidegg_conformance::golden;

fn at(dir: &Path, name: &str) -> String {
    dir.join(name).to_str().unwrap().to_string()
}

/// The darks of a golden set in pieces of so many frames.
fn pieces(dir: &Path, set: &str, frames: &[usize]) -> Vec<String> {
    let set = golden::set(set).unwrap();
    let (mut left, mut out) = (&set.darks[..], Vec::new());
    for (i, n) in frames.iter().enumerate() {
        let (piece, rest) = left.split_at(n * set.shape.pixels());
        left = rest;
        out.push(at(dir, &format!("dark{i}.npy")));
        write_npy(Path::new(&out[i]), set.shape, piece);
    }
    out
}

#[test]
fn train_saves_the_pedestal_that_find_would_train() {
    let dir = tempfile::tempdir().unwrap();
    let (dark, data) = golden_files(dir.path(), "moench");
    let (dark, data) = (dark.to_str().unwrap(), data.to_str().unwrap());
    let (p, q, report) = (at(dir.path(), "p.npz"), at(dir.path(), "q.npz"), at(dir.path(), "r"));
    let (a, b) = (at(dir.path(), "a.clust"), at(dir.path(), "b.clust"));
    for mode in [
        &["--precision", "f32"][..],
        &["--precision", "f64", "--noise", "fixed", "--pedestal-samples", "300"],
        &["--dark-frames", "50"],
    ] {
        let said =
            json(["train", "--dark", dark, "--out", &p, "--report", &report, "--json"].iter().chain(mode));
        assert_eq!(said["written"].as_array().unwrap().len(), 2, "{said}");
        let find = ["find", "--dark", dark, "--data", data, "--json", "--out", &a, "--save-pedestal", &q];
        let found = json(find.iter().chain(mode));
        assert_eq!(said["pedestal"], found["pedestal"]);
        assert_eq!(load_pedestal(Path::new(&p)).unwrap(), load_pedestal(Path::new(&q)).unwrap());
        let rest = mode.iter().filter(|m| !["--pedestal-samples", "300", "--dark-frames", "50"].contains(m));
        json(["find", "--pedestal", &p, "--data", data, "--json", "--out", &b].iter().chain(rest));
        assert_eq!(fs::read(&a).unwrap(), fs::read(&b).unwrap());
    }
    let pictures = names(Path::new(&report));
    assert_eq!(pictures.iter().filter(|n| n.starts_with("pedestal_") && n.ends_with(".svg")).count(), 4);
    assert!(!pictures.contains(&"spectrum.svg".to_string()), "{pictures:?}");
    let o = run(["train", "--dark", dark, "--out", &p]);
    let text = stdout(&o);
    for words in ["dark frames  1000, window 1000\n", "median       mean", "written      ", "pixels       "] {
        assert!(text.contains(words), "no {words} in {text}{}", stderr(&o));
    }
    assert!(
        fails(["train", "--dark", dark, "--out", &at(dir.path(), "p.npy")], 2).contains("ends with .npz")
    );
    let link = at(dir.path(), "dark.npz");
    fs::hard_link(dark, &link).unwrap();
    fails(["train", "--dark", &link, "--out", &link], 2);
}

#[test]
fn several_files_of_darks_are_one_run() {
    let dir = tempfile::tempdir().unwrap();
    let (dark, data) = golden_files(dir.path(), "moench");
    let parts = pieces(dir.path(), "moench", &[1, 400, 599]);
    let find = |dark: &[&str], out: &str| {
        let out = dir.path().join(out);
        let data = data.to_str().unwrap();
        json(["find", "--json", "--data", data, "--out", out.to_str().unwrap(), "--dark"].iter().chain(dark));
        fs::read(out).unwrap()
    };
    let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
    assert!(find(&[dark.to_str().unwrap()], "one.clust") == find(&parts, "many.clust"));
}

#[test]
fn the_window_is_all_darks_up_to_1000() {
    let dir = tempfile::tempdir().unwrap();
    let (_, data) = golden_files(dir.path(), "moench");
    let data = data.to_str().unwrap();
    let parts = pieces(dir.path(), "moench", &[150, 9, 1, 2]);
    let (a, b) = (at(dir.path(), "a.clust"), at(dir.path(), "b.clust"));
    let find = |dark: &str, out: &str, more: &[&str]| {
        json(["find", "--dark", dark, "--data", data, "--out", out, "--json"].iter().chain(more))
    };
    let said = find(&parts[0], &a, &[]);
    assert_eq!(said["pedestal"]["samples"], 150);
    find(&parts[0], &b, &["--pedestal-samples", "150"]);
    assert_eq!(fs::read(&a).unwrap(), fs::read(&b).unwrap());
    let text = stdout(&run(["find", "--dark", &parts[0], "--data", data, "--out", &a]));
    assert!(
        text.contains("dark frames  150, window 150 (all of them; 1000 where there are as many)"),
        "{text}"
    );

    let base = |dark: &str, more: &[&str]| {
        let args = ["find", "--dark", dark, "--data", data, "--out", &a];
        fails(args.iter().chain(more), 1)
    };
    let said = base(&parts[0], &["--pedestal-samples", "151"]);
    assert!(
        said.contains("150 dark frames, the pedestal needs 151 (give more, or --pedestal-samples 150)"),
        "{said}"
    );
    let said = base(&parts[1], &[]);
    assert!(said.contains("dark1.npy: 9 dark frames do not tell the noise of a pixel"), "{said}");
    // The advice works.
    assert!(said.contains("--pedestal-samples 9 "));
    assert_eq!(find(&parts[1], &a, &["--pedestal-samples", "9"])["pedestal"]["samples"], 9);
    let said = base(&parts[2], &[]);
    assert!(said.contains("1 dark frame, the pedestal needs 1000 (give at least 2)"), "{said}");
    assert_eq!(find(&parts[3], &a, &["--pedestal-samples", "2"])["pedestal"]["samples"], 2);
}

#[test]
fn masks_are_united_and_one_must_leave_a_pixel() {
    let dir = tempfile::tempdir().unwrap();
    let (dark, data) = golden_files(dir.path(), "moench");
    let (dark, data) = (dark.to_str().unwrap(), data.to_str().unwrap());
    let shape = golden::set("moench").unwrap().shape;
    let (rows, cols) = (shape.rows, shape.cols);
    let mask = |name: &str, of: &dyn Fn(usize, usize) -> bool| {
        fs::write(
            dir.path().join(name),
            bool_npy(rows, cols, (0..rows * cols).map(|i| of(i / cols, i % cols))),
        )
        .unwrap();
        at(dir.path(), name)
    };
    let (left, top) = (mask("left.npy", &|_, c| c < 20), mask("top.npy", &|r, _| r < 10));
    let rest = mask("rest.npy", &|r, c| c >= 20 && r >= 10);
    let out = at(dir.path(), "o.npz");
    let find = ["find", "--dark", dark, "--data", data, "--out", &out, "--json"];
    let said = json(find.iter().chain(&["--mask", &left, &top]));
    assert_eq!(said["pedestal"]["masked_pixels"], rows * 20 + 10 * (cols - 20));
    let found = clusters(Path::new(&out), "3");
    assert!(!found.is_empty() && found.iter().all(|c| c.1 >= 20 && c.2 >= 10));
    assert_eq!(json(find.iter().chain(&["--mask", &left, "--mask", &top]))["clusters"], found.len());
    let said = fails(find.iter().chain(&["--mask", &left, &top, &rest]), 1);
    assert!(said.contains("rest.npy: masks with those before it every pixel"), "{said}");
    let all = mask("all.npy", &|_, _| true);
    assert!(fails(find.iter().chain(&["--mask", &all]), 1).contains("all.npy: masks every pixel"));
}
