//! The subcommands around `find`: simulate, demo, info, compare, backends.

mod common;

use std::fs;

use common::{fails, golden_files, json, names, run, stderr, stdout};

#[test]
fn a_simulation_in_either_format_gives_the_same_clusters() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name).to_str().unwrap().to_string();
    let physics = ["--rows", "48", "--cols", "64", "--photons", "30", "--seed", "7"];
    for format in ["npy", "raw"] {
        let said = json(
            [
                "simulate",
                "--darks",
                "200",
                "--frames",
                "50",
                "--json",
                "--format",
                format,
                "--out",
                &at(format),
            ]
            .iter()
            .chain(&physics)
            // The other format has no place for lost packets.
            .chain(if format == "raw" { &["--packet-loss", "0"][..] } else { &[] }),
        );
        assert_eq!(
            (&said["darks"], &said["frames"], &said["stopped"]),
            (&200.into(), &50.into(), &false.into())
        );
        let (dark, data) = (said["dark"].as_str().unwrap(), said["data"].as_str().unwrap());
        json([
            "find",
            "--json",
            "--dark",
            dark,
            "--data",
            data,
            "--pedestal-samples",
            "200",
            "--out",
            &at(&format!("{format}.npz")),
        ]);
    }
    let said = json(["compare", &at("npy.npz"), &at("raw.npz"), "--json"]);
    assert_eq!(said["same"], true);
    assert!(said["common"].as_u64().unwrap() > 1000, "{said}");
    // The parameters can be used again.
    let parameters = format!("{}/simulation.json", at("npy"));
    json([
        "simulate",
        "--json",
        "--darks",
        "200",
        "--frames",
        "50",
        "--parameters",
        &parameters,
        "--out",
        &at("again"),
    ]);
    assert_eq!(fs::read(at("npy/data.npy")).unwrap(), fs::read(at("again/data.npy")).unwrap());
    let said = fails(["simulate", "--out", &at("x"), "--rows", "0"], 2);
    assert!(said.contains("--rows and --cols = 0 x 400"), "{said}");
    let said = fails(["simulate", "--out", &at("x"), "--energy", "much"], 2);
    assert!(said.contains("KEV:WEIGHT"), "{said}");
}

#[test]
fn a_small_demo_finds_the_simulated_photons() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("demo");
    let said = json(["demo", "--json", "--side", "64", "--frames", "200", "--out", out.to_str().unwrap()]);
    let truth = &said["truth"];
    assert!(truth["clean_efficiency"].as_f64().unwrap() > 0.999, "{truth}");
    assert!(truth["photons"].as_u64().unwrap() > 10_000, "{truth}");
    assert!(truth["false_clusters"].as_u64().unwrap() < 100, "{truth}");
    let peak = truth["peak"]["position_adu"].as_f64().unwrap();
    assert!((peak - 998.0).abs() < 15.0, "{peak}");
    for file in ["dark_master_0.json", "data_master_0.json", "clusters.clust", "simulation.json"] {
        assert!(out.join(file).exists(), "no {file}");
    }
    let page = fs::read_to_string(out.join("report/report.html")).unwrap();
    assert!(page.contains("Compared with the simulated photons"));
    // Again into the same folder, for a reader this time.
    let o = run(["demo", "--side", "64", "--frames", "20", "--out", out.to_str().unwrap()]);
    assert!(o.status.success(), "{}", stderr(&o));
    let text = stdout(&o);
    assert!(
        text.contains("report.html") && text.contains("clean photons") && text.contains("find them yourself")
    );
}

#[test]
fn a_report_of_a_run_without_photons_is_drawn() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name).to_str().unwrap().to_string();
    json([
        "simulate",
        "--out",
        &at("s"),
        "--rows",
        "20",
        "--cols",
        "30",
        "--photons",
        "0",
        "--darks",
        "100",
        "--frames",
        "10",
        "--faultless",
        "--json",
    ]);
    let (dark, data) = (at("s/dark.npy"), at("s/data.npy"));
    for frames in ["1", "10"] {
        let said = json([
            "find",
            "--dark",
            &dark,
            "--data",
            &data,
            "--pedestal-samples",
            "100",
            "--n-sigma",
            "50",
            "--frames",
            frames,
            "--report",
            &at("r"),
            "--json",
        ]);
        assert_eq!(said["clusters"], 0);
        let pictures = names(&dir.path().join("r"));
        assert_eq!(pictures.iter().filter(|n| n.ends_with(".png")).count(), 13, "{pictures:?}");
    }
}

#[test]
fn compare_finds_each_kind_of_difference_and_exits_with_1() {
    let dir = tempfile::tempdir().unwrap();
    let (dark, data) = golden_files(dir.path(), "weak");
    let at = |name: &str| dir.path().join(name).to_str().unwrap().to_string();
    let base =
        ["find", "--json", "--dark", dark.to_str().unwrap(), "--data", data.to_str().unwrap(), "--out"];
    let of =
        |out: &str, more: &[&str]| json(base.iter().chain(&[out]).chain(more))["clusters"].as_u64().unwrap();
    let (a, b, c) = (at("a.npz"), at("b.clust"), at("c.npz"));
    let n = of(&a, &[]);
    of(&b, &[]);
    let m = of(&c, &["--n-sigma", "6", "--payload", "f32"]);
    assert_eq!(json(["compare", &a, &b, "--json"])["common"], n);
    let o = run(["compare", &a, &c, "--json"]);
    assert_eq!(o.status.code(), Some(1));
    let said: serde_json::Value = serde_json::from_slice(&o.stdout).unwrap();
    assert_eq!(said["clusters_a"], n);
    assert_eq!(said["clusters_b"], m);
    assert!(said["only_a"].as_u64().unwrap() > 0 && said["different_values"].as_u64().unwrap() > 0, "{said}");
    let first = &said["first_only_a"][0];
    assert!(first["frame"].is_u64() && first["x"].is_u64() && first["y"].is_u64(), "{said}");
    assert!(said["first_only_a"].as_array().unwrap().len() <= 10);
    let text = stdout(&run(["compare", &a, &c]));
    assert!(text.contains("only in A: frame ") && text.contains("they differ"), "{text}");
    // Cut in the middle of a frame: an error, not a clean end.
    let bytes = fs::read(&b).unwrap();
    fs::write(&b, &bytes[..bytes.len() - 7]).unwrap();
    let said = fails(["compare", &a, &b], 1);
    assert!(said.contains("b.clust: ends inside frame"), "{said}");
}

#[test]
fn backends_compare_on_the_same_frames() {
    let dir = tempfile::tempdir().unwrap();
    let (dark, data) = golden_files(dir.path(), "edges");
    let (dark, data) = (dark.to_str().unwrap(), data.to_str().unwrap());
    let frames = ["--dark", dark, "--data", data];
    let said = json(["compare", "oracle", "auto", "--json", "--lanes", "3"].iter().chain(&frames));
    assert_eq!(said["same"], true, "{said}");
    assert!(said["common"].as_u64().unwrap() > 0);
    let said = fails(["compare", "oracle", "abacus"].iter().chain(&frames), 2);
    assert!(said.contains("backend = abacus"), "{said}");
    let said = fails(["compare", "oracle", "auto", "--data", data], 2);
    assert!(said.contains("--dark"), "{said}");
}

#[test]
fn info_tells_what_a_file_holds() {
    let dir = tempfile::tempdir().unwrap();
    let (_, data) = golden_files(dir.path(), "moench");
    let said = json(["info", data.to_str().unwrap(), "--json"]);
    assert_eq!(said["facts"]["frames"], "120");
    assert!(stdout(&run(["info", data.to_str().unwrap()])).contains("33 x 41"));
    let bytes = fs::read(&data).unwrap();
    fs::write(&data, &bytes[..100]).unwrap();
    assert!(fails(["info", data.to_str().unwrap()], 1).contains("moench_data.npy"));
    fails(["info", "nowhere.npy"], 1);
}

#[test]
fn backends_are_listed_with_what_auto_takes() {
    let said = json(["backends", "--json"]);
    let list = said["backends"].as_array().unwrap();
    assert!(list.iter().any(|b| b["name"] == "oracle" && b["available"] == true), "{said}");
    assert!(list.iter().all(|b| b["available"] == true || b["reason"].is_string()));
    assert!(said["auto"]["name"].is_string());
    let text = stdout(&run(["backends", "--precision", "f64", "--update", "serial"]));
    assert!(text.contains("oracle") && text.contains("auto takes"), "{text}");
}

#[test]
fn help_and_wrong_usage() {
    for words in [&["--help"][..], &["find", "--help"], &["simulate", "--help"], &["compare", "--help"]] {
        let o = run(words);
        assert!(o.status.success() && stdout(&o).contains("Usage"));
    }
    assert!(fails(["info", "nowhere.npy"], 1).contains("nowhere.npy: there is no such file"));
    assert_eq!(run(["find"]).status.code(), Some(2));
    assert_eq!(run(["look"]).status.code(), Some(2));
    assert_eq!(run::<&str>([]).status.code(), Some(2));
}

/// Fault: a broken file is told of with exit status 0; of several files, only one is told of.
#[test]
fn info_tells_what_it_knows_of_broken_files_and_exits_with_1() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name).to_str().unwrap().to_string();
    let (dark, data) = golden_files(dir.path(), "weak");
    let (dark, data) = (dark.to_str().unwrap(), data.to_str().unwrap());
    for out in ["a.clust", "a.npz", "a.npy"] {
        json(["find", "--json", "--dark", dark, "--data", data, "--out", &at(out)]);
    }
    let (clust, npz, npy) = (at("a.clust"), at("a.npz"), at("a.npy"));
    let said = stdout(&run(["info", &clust, &npz, &npy, data, "--json"]));
    let all: Vec<serde_json::Value> =
        serde_json::Deserializer::from_str(&said).into_iter().map(|v| v.unwrap()).collect();
    let files: Vec<_> = all.iter().map(|v| v["file"].as_str().unwrap()).collect();
    assert_eq!(files, [&clust, &npz, &npy, data]);
    for one in &all {
        assert_eq!(one["faults"], serde_json::json!([]), "{one}");
        assert_eq!(one["files"][0], one["file"]);
    }
    assert_eq!(all[0]["facts"]["window"], "3x3");
    assert_eq!(all[1]["facts"]["checksum"], "checked");
    // A damaged array, a cut file, and a good one between them.
    let mut bytes = fs::read(&npz).unwrap();
    bytes[400] ^= 1;
    fs::write(&npz, bytes).unwrap();
    let bytes = fs::read(data).unwrap();
    fs::write(data, &bytes[..bytes.len() - 1]).unwrap();
    let o = run(["info", &npz, &npy, data]);
    assert_eq!(o.status.code(), Some(1));
    let (told, wrong) = (stdout(&o), stderr(&o));
    assert!(told.contains("a.npz: clusters") && told.contains("weak_data.npy: frames, .npy"), "{told}");
    assert_eq!(wrong.lines().count(), 2, "{wrong}");
    assert!(wrong.contains("scheidegg: ") && wrong.contains("a.npz: array data is damaged"), "{wrong}");
    assert!(wrong.contains("ends inside frame"), "{wrong}");
    // A damaged result is no partner for a comparison.
    assert!(fails(["compare", &npz, &npy], 1).contains("a.npz: array data is damaged"));
}

#[test]
fn compare_says_in_what_files_differ_besides_their_clusters() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name).to_str().unwrap().to_string();
    let (dark, data) = golden_files(dir.path(), "weak");
    let (dark, data) = (dark.to_str().unwrap(), data.to_str().unwrap());
    let find = |out: &str, more: &[&str]| {
        let base = ["find", "--json", "--dark", dark, "--data", data, "--out", out];
        json(base.iter().chain(more));
    };
    find(&at("a.npz"), &[]);
    find(&at("b.npz"), &["--payload", "f32", "--n-sigma", "6"]);
    find(&at("c.npz"), &["--size", "5"]);
    let both = |a: &str, b: &str| {
        let o = run(["compare", &at(a), &at(b), "--json"]);
        (o.status.code(), serde_json::from_slice::<serde_json::Value>(&o.stdout).unwrap())
    };
    let (code, said) = both("a.npz", "a.npz");
    assert_eq!((code, &said["same"], &said["remarks"]), (Some(0), &true.into(), &serde_json::json!([])));
    let (code, said) = both("a.npz", "b.npz");
    assert_eq!(code, Some(1));
    let remarks = said["remarks"].to_string();
    for part in ["n sigma: 5.0 in A, 6.0 in B", "payload: i32 in A, f32 in B", "values: i32 in A, f32 in B"] {
        assert!(remarks.contains(part), "{remarks}");
    }
    assert_eq!(said["kind_b"], serde_json::json!({"window": "3x3", "values": "f32"}));
    let (code, said) = both("a.npz", "c.npz");
    assert_eq!((code, &said["same"]), (Some(1), &false.into()));
    assert!(said["notes"][0].as_str().unwrap().contains("window: 3x3 in A, 5x5 in B"), "{said}");
    let text = stdout(&run(["compare", &at("a.npz"), &at("c.npz")]));
    assert!(text.contains("size: 3x3 in A, 5x5 in B") && text.ends_with("they differ\n"), "{text}");
    fails(["compare", &at("a.npz"), &at("nowhere.npz")], 1);
    assert_eq!(run(["compare", &at("a.npz")]).status.code(), Some(2));
}

#[test]
fn backends_are_compared_on_frames() {
    let said = fails(["compare", "cpu", "oracle"], 2);
    assert!(said.contains("cpu and oracle are backends: give the frames"), "{said}");
    // One name alone may be that of a file.
    assert!(fails(["compare", "cpu", "a.npz"], 1).contains("there is no such file"));
}
