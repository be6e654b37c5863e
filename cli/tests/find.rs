//! `find` on golden runs, its arguments, its results and its errors.

mod common;

use std::fs;

use common::{bool_npy, clusters, command, fails, golden_files, json, names, run, stderr, stdout, write_npy};
use scheidegg::{Noise, Precision, Shape, Ties, Update};
use scheidegg_conformance::golden;

#[test]
fn every_golden_result_comes_out_of_the_program() {
    let dir = tempfile::tempdir().unwrap();
    let files = golden::SETS.map(|set| (set, golden_files(dir.path(), set)));
    let mut seen = 0;
    for name in golden::results().unwrap() {
        let e = golden::result(&name).unwrap();
        let (_, (dark, data)) = files.iter().find(|(set, _)| *set == e.set).unwrap();
        let (size, precision) = (e.params.size.to_string(), e.params.precision.word());
        for ending in ["npz", "clust", "npy"] {
            let out = dir.path().join(format!("out.{ending}"));
            let mut args: Vec<&str> = vec!["find", "--dark", dark.to_str().unwrap(), "--data"];
            args.extend([data.to_str().unwrap(), "--out", out.to_str().unwrap(), "--json"]);
            args.extend(["--size", &size, "--precision", precision]);
            args.extend(["--update", e.params.update.word(), "--noise", e.params.noise.word()]);
            args.extend(["--ties", e.params.ties.word()]);
            let mask = dir.path().join("mask.npy");
            if let Some(m) = &e.params.mask {
                let Shape { rows, cols } = m.shape();
                let bytes = bool_npy(rows, cols, (0..rows * cols).map(|i| m.contains_index(i)));
                fs::write(&mask, bytes).unwrap();
                args.extend(["--mask", mask.to_str().unwrap()]);
            }
            if e.params.test2 {
                args.push("--test2");
            }
            let (lanes, floor) = (e.params.lanes.to_string(), e.params.noise_floor_adu.to_string());
            args.extend(["--lanes", &lanes, "--noise-floor", &floor]);
            let said = json(&args);
            assert_eq!(said["clusters"], e.frame.len(), "{name}");
            let found = clusters(&out, &size);
            assert_eq!(found.len(), e.frame.len(), "{name}");
            let n = e.params.size.pixels();
            for (i, (frame, x, y, values)) in found.iter().enumerate() {
                let want: Vec<f64> = e.data[i * n..(i + 1) * n].iter().map(|v| f64::from(*v)).collect();
                assert_eq!(
                    (frame, x, y, values),
                    (&e.frame[i], &e.x[i], &e.y[i], &want),
                    "{name}, cluster {i}"
                );
            }
        }
        seen += 1;
    }
    assert!(seen > 40, "{seen} golden results");
    // Every mode that the program offers was among them.
    let all: Vec<_> = golden::results().unwrap().iter().map(|n| golden::result(n).unwrap().params).collect();
    assert!(Precision::ALL.iter().all(|p| all.iter().any(|q| q.precision == *p)));
    assert!(Update::ALL.iter().all(|p| all.iter().any(|q| q.update == *p)));
    assert!(Noise::ALL.iter().all(|p| all.iter().any(|q| q.noise == *p)));
    assert!(Ties::ALL.iter().all(|p| all.iter().any(|q| q.ties == *p)));
}

#[test]
fn the_summary_says_what_was_done_and_json_says_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let (dark, data) = golden_files(dir.path(), "moench");
    let out = dir.path().join("a.clust");
    let args = ["find", "--dark", dark.to_str().unwrap(), "--data", data.to_str().unwrap(), "--out"];
    let o = run(args.iter().chain(&[out.to_str().unwrap()]));
    assert!(o.status.success());
    let text = stdout(&o);
    for word in [
        "1073",
        "frames",
        "clusters",
        "gaps",
        "lost packets",
        "frames/s",
        "quiet",
        "hot",
        "masked",
        "backend",
    ] {
        assert!(text.contains(word), "no {word} in\n{text}");
    }
    let said = json(args.iter().chain(&[out.to_str().unwrap(), "--json"]));
    assert_eq!(said["frames"], 120);
    assert_eq!(said["clusters"], 1073);
    assert_eq!((&said["first_frame"], &said["last_frame"]), (&0.into(), &119.into()));
    assert_eq!(said["stopped"], false);
    assert_eq!(said["training"]["frames"], 1000);
    assert!(said["backend"]["reasons"].as_array().is_some_and(|r| !r.is_empty()));
    assert_eq!(said["written"][0], out.to_str().unwrap());
    assert_eq!(names(dir.path()), ["a.clust", "a.clust.json", "moench_dark.npy", "moench_data.npy"]);
}

#[test]
fn a_reader_that_has_gone_is_no_failure() {
    let dir = tempfile::tempdir().unwrap();
    let (dark, data) = golden_files(dir.path(), "moench");
    let out = dir.path().join("out.npz");
    // The reading end is closed before the program starts, as by `head` once it has what it wants.
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut run = command(["find", "--dark"]);
    run.arg(&dark).arg("--data").arg(&data).arg("--out").arg(&out);
    let done = run.stdout(writer).stderr(std::process::Stdio::piped()).spawn().unwrap();
    let done = done.wait_with_output().unwrap();
    assert!(done.status.success(), "{}", stderr(&done));
    assert!(!clusters(&out, "3").is_empty());
}

#[test]
fn threads_do_not_matter() {
    let dir = tempfile::tempdir().unwrap();
    let (dark, data) = golden_files(dir.path(), "weak");
    let (dark, data) = (dark.to_str().unwrap(), data.to_str().unwrap());
    let pinned: &[&str] = if cfg!(target_os = "linux") { &["1", "--pin"] } else { &["1"] };
    let bytes = [&["1"], &["2"], &["5"], pinned].map(|threads| {
        let out = dir.path().join("t.clust");
        let find = ["find", "--dark", dark, "--data", data, "--json", "--out", out.to_str().unwrap()];
        json(find.iter().chain(&["--backend", "cpu", "--threads"]).chain(threads));
        fs::read(out).unwrap()
    });
    assert!(bytes[0].len() > 1000 && bytes.iter().all(|b| *b == bytes[0]));
}

#[test]
fn first_frames_and_several_files_are_parts_of_one_run() {
    let dir = tempfile::tempdir().unwrap();
    let (dark, data) = golden_files(dir.path(), "moench");
    let set = golden::set("moench").unwrap();
    let cut = 50 * set.shape.pixels();
    let (a, b) = (dir.path().join("a.npy"), dir.path().join("b.npy"));
    write_npy(&a, set.shape, &set.data[..cut]);
    write_npy(&b, set.shape, &set.data[cut..]);
    let find = |name: &str, data: &[&str], more: &[&str]| {
        let out = dir.path().join(name);
        let args =
            ["find", "--json", "--dark", dark.to_str().unwrap(), "--out", out.to_str().unwrap(), "--data"];
        let said = json(args.iter().chain(data).chain(more));
        (said, clusters(&out, "3"))
    };
    let (_, whole) = find("whole.npz", &[data.to_str().unwrap()], &[]);
    let (said, parts) = find("parts.npz", &[a.to_str().unwrap(), b.to_str().unwrap()], &[]);
    assert_eq!(whole, parts);
    assert!(said["warnings"][0].as_str().unwrap().contains("begin again"), "{said}");
    let (said, some) = find("some.npz", &[data.to_str().unwrap()], &["--first", "0", "--frames", "33"]);
    assert_eq!(said["frames"], 33);
    assert!(some.iter().eq(whole.iter().filter(|c| c.0 < 33)));
    let (said, _) = find("tail.npz", &[data.to_str().unwrap()], &["--first", "100"]);
    assert_eq!((&said["frames"], &said["first_frame"]), (&20.into(), &100.into()));
}

#[test]
fn a_saved_pedestal_starts_the_same_run() {
    let dir = tempfile::tempdir().unwrap();
    let (dark, data) = golden_files(dir.path(), "moench");
    let at = |name: &str| dir.path().join(name).to_str().unwrap().to_string();
    let (dark, data) = (dark.to_str().unwrap(), data.to_str().unwrap());
    for (noise, precision) in [("tracked", "f32"), ("fixed", "f64")] {
        let mode = ["--noise", noise, "--precision", precision, "--json", "--data", data];
        json(
            ["find", "--dark", dark, "--out", &at("a.clust"), "--save-pedestal", &at("p.npz")]
                .iter()
                .chain(&mode),
        );
        json(["find", "--pedestal", &at("p.npz"), "--out", &at("b.clust")].iter().chain(&mode));
        assert_eq!(fs::read(at("a.clust")).unwrap(), fs::read(at("b.clust")).unwrap());
    }
    let with = |data: &str| {
        ["find", "--pedestal", &at("p.npz"), "--data", data, "--out", &at("c.clust")].map(String::from)
    };
    let said = fails(with(data), 2);
    assert!(said.contains("--precision = f32: expected f64 or f64f32, with which"), "{said}");
    write_npy(dir.path().join("small.npy").as_path(), Shape { rows: 3, cols: 4 }, &[0; 24]);
    let said = fails(with(&at("small.npy")), 1);
    assert!(said.contains("p.npz: holds 33 x 41 pixels, the data frames have 3 x 4"), "{said}");
}

#[test]
fn a_mask_takes_pixels_out() {
    let dir = tempfile::tempdir().unwrap();
    let (dark, data) = golden_files(dir.path(), "moench");
    let set = golden::set("moench").unwrap();
    // The left half is masked.
    let (rows, cols) = (set.shape.rows, set.shape.cols);
    let half = |rows: usize| bool_npy(rows, cols, (0..rows * cols).map(|i| i % cols < cols / 2));
    let mask = dir.path().join("mask.npy");
    fs::write(&mask, half(rows)).unwrap();
    let out = dir.path().join("m.npz");
    let args = [
        "find",
        "--dark",
        dark.to_str().unwrap(),
        "--data",
        data.to_str().unwrap(),
        "--mask",
        mask.to_str().unwrap(),
        "--out",
        out.to_str().unwrap(),
        "--json",
    ];
    let said = json(args);
    assert_eq!(said["pedestal"]["masked_pixels"], rows * (cols / 2));
    let inputs = said["provenance"]["inputs"].as_array().unwrap();
    assert!(inputs.iter().any(|i| i["role"] == "mask" && i["path"] == args[6]), "{inputs:?}");
    let found = clusters(&out, "3");
    assert!(!found.is_empty() && found.iter().all(|c| usize::from(c.1) >= cols / 2));
    fs::write(&mask, half(rows - 1)).unwrap();
    let said = fails(args, 1);
    assert!(said.contains("mask.npy") && said.contains(&format!("{rows} x {cols}")), "{said}");
}

#[test]
fn errors_name_the_thing_and_leave_nothing_behind() {
    let dir = tempfile::tempdir().unwrap();
    let (dark, data) = golden_files(dir.path(), "moench");
    let (dark, data) = (dark.to_str().unwrap(), data.to_str().unwrap());
    let out = dir.path().join("out.clust");
    fs::write(&out, "of an earlier run").unwrap();
    let out = out.to_str().unwrap();
    let cut = dir.path().join("cut.npy");
    let bytes = fs::read(data).unwrap();
    fs::write(&cut, &bytes[..bytes.len() - 1000]).unwrap();
    let small = dir.path().join("small.npy");
    write_npy(&small, Shape { rows: 3, cols: 4 }, &[0; 24]);
    let before = names(dir.path());

    let base = ["find", "--dark", dark, "--data", data, "--out", out];
    for (more, status, words) in [
        (
            &["--pedestal-samples", "1001"][..],
            1,
            "moench_dark.npy: 1000 dark frames, the pedestal needs 1001 (give more, or --pedestal-samples 1000)",
        ),
        (
            &["--first", "120"],
            1,
            "moench_data.npy: 120 frames, the first one asked for is 120: give --first 0 to 119",
        ),
        (
            &["--first", "121"],
            1,
            "moench_data.npy: 120 frames, the first one asked for is 121: give --first 0 to 119",
        ),
        (&["--backend", "abacus"], 2, "--backend = abacus: expected one of auto, "),
        (&["--out", out], 2, "expected another file than --out"),
        (&["--save-pedestal", "pedestal.npy"], 2, "pedestal.npy: expected a name that ends with .npz"),
        (&["--n-sigma", "-1"], 2, "--n-sigma = -1"),
        (&["--noise-floor", "-1"], 2, "--noise-floor = -1"),
        (&["--lanes", "0"], 2, "--lanes = 0"),
        (&["--threads", "0"], 2, "--threads = 0: expected 1 to 1024"),
        (&["--threads", "20000"], 2, "--threads = 20000: expected 1 to 1024"),
        (&["--threads", "1024", "--pin", "--backend", "cpu"], 2, "--threads = 1024: expected at most"),
        (&["--test2", "--size", "4"], 2, "test2"),
        (&["--size", "16"], 2, "2 to 15 pixels"),
        (&["--mask", "nowhere.npy"], 1, "nowhere.npy"),
        (&["--out", "clusters.txt"], 1, "clusters.txt"),
        (&["--report", out], 1, "out.clust: is a file: give the name of a folder"),
        (&["--update", "sometimes"], 2, "possible values: frozen, serial"),
        (&["--pedestal", "p.npz"], 2, "cannot be used with"),
    ] {
        let said = fails(base.iter().chain(more), status);
        assert!(said.contains(words), "{more:?}: {said}");
    }
    let with = |dark: &str, data: &str| fails(["find", "--dark", dark, "--data", data, "--out", out], 1);
    assert!(with(dark, cut.to_str().unwrap()).contains("cut.npy"));
    // What was found before the cut lies beside the earlier result.
    let part = dir.path().join("out.partial.clust");
    assert!(!clusters(&part, "3").is_empty());
    fs::remove_file(&part).unwrap();
    fs::remove_file(part.with_extension("clust.json")).unwrap();
    assert!(
        with(dark, small.to_str().unwrap())
            .contains("moench_dark.npy: holds 33 x 41 pixels, the data frames have 3 x 4")
    );
    let empty = dir.path().join("empty.npy");
    write_npy(&empty, Shape { rows: 33, cols: 41 }, &[]);
    assert!(with(dark, empty.to_str().unwrap()).contains("empty.npy: holds no frames"));
    fs::remove_file(&empty).unwrap();
    assert!(with(dark, "nowhere.npy").contains("nowhere.npy: there is no such file"));
    assert!(with(dark, "nowhere.clust").contains("holds results, not frames"));
    // Dark and data in one file: darks must not be judged.
    let said = fails(["find", "--dark", data, "--data", data, "--out", out, "--pedestal-samples", "20"], 2);
    assert!(said.contains("--first"), "{said}");
    assert_eq!(fs::read(out).unwrap(), b"of an earlier run");
    assert_eq!(names(dir.path()), before, "something was left behind");
}

#[test]
fn no_result_takes_the_place_of_an_input() {
    let dir = tempfile::tempdir().unwrap();
    let (dark, data) = golden_files(dir.path(), "moench");
    let at = |name: &str| dir.path().join(name).to_str().unwrap().to_string();
    let (dark, data, pedestal) = (dark.to_str().unwrap(), data.to_str().unwrap(), at("p.npz"));
    let start = ["find", "--dark", dark, "--data", data, "--out", &at("first.npz")];
    json(start.iter().chain(&["--save-pedestal", &pedestal, "--json"]));
    fs::create_dir(at("sub")).unwrap();
    fs::copy(&pedestal, at("mask.npz")).unwrap();
    let before = names(dir.path()).iter().map(|n| fs::read(at(n)).ok()).collect::<Vec<_>>();
    let base = ["find", "--data", data];
    for (more, words) in [
        (&["--dark", dark, "--out", data][..], "another file than --data"),
        (&["--dark", dark, "--out", &at("sub/../moench_dark.npy")], "another file than --dark"),
        (&["--pedestal", &pedestal, "--out", &pedestal], "another file than --pedestal"),
        (
            &["--dark", dark, "--out", &at("x.npz"), "--save-pedestal", &at("sub/../x.npz")],
            "another file than --out",
        ),
        (&["--dark", dark, "--mask", &at("mask.npz"), "--out", &at("mask.npz")], "another file than --mask"),
    ] {
        let said = fails(base.iter().chain(more), 2);
        assert!(said.contains(words), "{more:?}: {said}");
    }
    assert_eq!(names(dir.path()).iter().map(|n| fs::read(at(n)).ok()).collect::<Vec<_>>(), before);
}

/// Every pixel of the dark frames is in another gain.
#[test]
fn a_run_without_a_pixel_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.dat");
    let frame = |k: u64| {
        let value = move |i: u64| (1 << 14 | (3000 + (i * 7 + k * 13) % 40)) as u16;
        [k.to_le_bytes(), [0; 8]]
            .concat()
            .into_iter()
            .chain((0..12).flat_map(move |i| value(i).to_le_bytes()))
    };
    fs::write(&path, (0..30).flat_map(frame).collect::<Vec<u8>>()).unwrap();
    let (x, out) = (path.to_str().unwrap(), dir.path().join("o.npz"));
    let args = ["find", "--dark", x, "--data", x, "--dat-shape", "3x4", "--first", "20", "--out"];
    let said = fails(args.iter().chain(&[out.to_str().unwrap()]), 1);
    let words =
        "x.dat: no pixel is left to find photons in: 0 masked, 12 lost in all dark frames but one at most";
    assert!(said.contains(words), "{said}");
    assert_eq!(names(dir.path()), ["x.dat"]);
}

/// The clusters are safe, the picture is not, and both are said.
#[test]
fn pictures_that_cannot_be_written_do_not_cost_the_summary() {
    let dir = tempfile::tempdir().unwrap();
    let (dark, data) = golden_files(dir.path(), "moench");
    let (out, report) = (dir.path().join("o.npz"), dir.path().join("report"));
    fs::create_dir_all(report.join("spectrum.svg")).unwrap();
    let args = ["find", "--dark", dark.to_str().unwrap(), "--data", data.to_str().unwrap()];
    let o = run(args.iter().chain(&["--out", out.to_str().unwrap(), "--report", report.to_str().unwrap()]));
    assert_eq!(o.status.code(), Some(1));
    assert!(stdout(&o).contains("clusters     1073") && stderr(&o).contains("spectrum.svg: is a folder"));
    assert!(!clusters(&out, "3").is_empty());
    assert_eq!(names(&report), ["spectrum.svg"]);
}

#[test]
fn one_file_can_hold_darks_and_data() {
    let dir = tempfile::tempdir().unwrap();
    let set = golden::set("moench").unwrap();
    let both = dir.path().join("both.npy");
    let darks = &set.darks[..100 * set.shape.pixels()];
    write_npy(&both, set.shape, &[darks, &set.data[..]].concat());
    let dark = dir.path().join("dark.npy");
    write_npy(&dark, set.shape, darks);
    let data = dir.path().join("data.npy");
    write_npy(&data, set.shape, &set.data);
    let at = |name: &str| dir.path().join(name).to_str().unwrap().to_string();
    let common = ["--pedestal-samples", "100", "--json"];
    let (b, d) = (at("both.npy"), at("data.npy"));
    let one = json(
        ["find", "--dark", &b, "--data", &b, "--first", "100", "--out", &at("1.npz")].iter().chain(&common),
    );
    let two =
        json(["find", "--dark", &at("dark.npy"), "--data", &d, "--out", &at("2.npz")].iter().chain(&common));
    assert_eq!((&one["frames"], &one["training"]["frames"]), (&120.into(), &100.into()));
    assert_eq!(one["clusters"], two["clusters"]);
    let (one, two) =
        (clusters(dir.path().join("1.npz").as_path(), "3"), clusters(&dir.path().join("2.npz"), "3"));
    assert!(one.iter().map(|c| (c.0 - 100, c.1, c.2, c.3.clone())).eq(two));
}

/// Dark frames alike in every pixel, and one frame with two equal neighbours: a tie to the bit.
#[test]
fn every_option_reaches_the_finder() {
    let dir = tempfile::tempdir().unwrap();
    let shape = Shape { rows: 9, cols: 9 };
    let at = |name: &str| dir.path().join(name).to_str().unwrap().to_string();
    let darks: Vec<u16> = (0..20 * shape.pixels()).map(|i| 100 + (i / shape.pixels() % 3) as u16).collect();
    let mut frame = vec![101; shape.pixels()];
    (frame[40], frame[41]) = (5000, 5000);
    write_npy(dir.path().join("dark.npy").as_path(), shape, &darks);
    write_npy(dir.path().join("data.npy").as_path(), shape, &frame);
    let (dark, data, out) = (at("dark.npy"), at("data.npy"), at("o.npz"));
    let base =
        ["find", "--dark", &dark, "--data", &data, "--out", &out, "--pedestal-samples", "20", "--json"];
    let with = |more: &[&str]| json(base.iter().chain(more));
    let said = with(&[]);
    assert_eq!(said["clusters"], 2);
    assert_eq!(with(&["--ties", "first"])["clusters"], 1);
    assert_eq!(with(&["--noise-floor", "2000"])["clusters"], 0);
    for (option, value, name) in [
        ("--size", "5x3", "size"),
        ("--update", "serial", "update"),
        ("--noise", "fixed", "noise"),
        ("--precision", "f64f32", "precision"),
        ("--payload", "f16", "payload"),
        ("--ties", "first", "ties"),
    ] {
        assert_ne!(said["params"][name], value);
        assert_eq!(with(&[option, value])["params"][name], value);
    }
    for (option, value, name) in [
        ("--n-sigma", "7.5", "n_sigma"),
        ("--lanes", "3", "lanes"),
        ("--noise-floor", "2.5", "noise_floor_adu"),
    ] {
        assert_eq!(with(&[option, value])["params"][name].as_f64().unwrap().to_string(), value);
    }
    assert_eq!(with(&["--test2"])["params"]["test2"], true);
    let clipped = with(&["--payload", "i16", "--n-sigma", "1"]);
    assert_eq!(clipped["saturated_values"], 0);
}

/// One run with all results, and one with a report: nothing of them is lost on the way to the summary.
#[test]
fn what_a_run_has_seen_and_written_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let shape = Shape { rows: 9, cols: 9 };
    let darks: Vec<u16> = (0..20 * 81).map(|i| 100 + (i / 81 % 3) as u16).collect();
    let mut frames: Vec<u16> = (0..5 * 81).map(|i| 101 + (i / 81 % 2) as u16).collect();
    // The end of the range.
    frames[40] = 16383;
    write_npy(dir.path().join("dark.npy").as_path(), shape, &darks);
    write_npy(dir.path().join("data.npy").as_path(), shape, &frames);
    let with = |words: &str| {
        let words = format!("find --dark dark.npy --data data.npy --backend cpu {words}");
        let o = command(words.split(' ')).current_dir(dir.path()).output().unwrap();
        assert!(o.status.success(), "{}", stderr(&o));
        o
    };
    let o = with("--out o.npz --frames-out f.csv --save-pedestal p.npz --write-mask m.npy --json --verbose");
    let said: serde_json::Value = serde_json::from_slice(&o.stdout).unwrap();
    let written: Vec<_> = said["written"].as_array().unwrap().iter().map(|w| w.as_str().unwrap()).collect();
    assert_eq!(written, ["p.npz", "o.npz", "f.csv", "f.csv.json", "m.npy"]);
    assert!(written.iter().all(|name| dir.path().join(name).exists()));
    assert_eq!((&said["clusters"], &said["saturated_clusters"]), (&1.into(), &1.into()));
    assert!(said["drift"]["median_adu"].is_number(), "{said}");
    for words in ["backend cpu (", "  ", "batches of ", "pedestal from 20 dark frames of dark.npy"] {
        assert!(stderr(&o).contains(&format!("scheidegg: {words}")), "no {words} in {}", stderr(&o));
    }
    with("--report r");
    let page = fs::read_to_string(dir.path().join("r/report.html")).unwrap();
    // It has seen the run to its end.
    assert!(page.contains("Provenance") && page.contains("--report r"), "{page}");
}
