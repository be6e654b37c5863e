//! Every option of every subcommand changes something that can be seen, or is refused where it would change nothing.

mod common;

use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::hash::Hasher;
use std::path::Path;

use common::{command, names, run, stderr, stdout};
use serde_json::Value;

/// Files for every subcommand: npy, raw, a .dat file with pixels in another gain, a pedestal, a mask, results.
fn folder() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let at = |words: &str| {
        let o = command(words.split(' ')).current_dir(dir.path()).output().unwrap();
        assert!(o.status.success(), "{words}: {}", stderr(&o));
    };
    at("simulate --out . --rows 20 --cols 30 --darks 110 --frames 30 --photons 20 --hot 2 --dead 2 --seed 3");
    at(
        "simulate --out . --format raw --rows 40 --cols 48 --darks 100 --frames 30 --photons 20 --packet-loss 0.01",
    );
    at("find --dark dark.npy --data data.npy --out a.clust --save-pedestal p.npz --write-mask mask.npy");
    // Pixels with photons among the masked ones: a mask of bad pixels alone may change nothing.
    let mut mask = b"\x93NUMPY\x01\x00\x76\x00".to_vec();
    mask.extend(
        format!("{:<117}\n", "{'descr': '|u1', 'fortran_order': False, 'shape': (20, 30), }").bytes(),
    );
    mask.extend((0..600).map(|i| u8::from(i % 3 == 0)));
    fs::write(dir.path().join("mask.npy"), mask).unwrap();
    at("find --dark dark.npy --data data.npy --out b.npz --n-sigma 7");
    at("find --dark dark.npy --data data.npy --out a.npz");
    let mut dat = Vec::new();
    for k in 0..30u64 {
        dat.extend(k.to_le_bytes());
        dat.extend([0; 8]);
        // A pixel in gain 1 in every frame, with charge in some of those that are searched.
        let charge = if k >= 20 && k.is_multiple_of(3) { 900 } else { 0 };
        let value =
            |i: u64| (3000 + (i * 7 + k * 13) % 40 + if i == 45 { (1 << 14) + charge } else { 0 }) as u16;
        (0..600).for_each(|i| dat.extend(value(i).to_le_bytes()));
    }
    fs::write(dir.path().join("x.dat"), dat).unwrap();
    dir
}

/// Keys of JSON that no two runs have alike.
const VOLATILE: &[&str] = &[
    "seconds",
    "frames_per_second",
    "stages",
    "demo_seconds",
    "median_us",
    "min_us",
    "spread_us",
    "frames_per_s",
    "gb_per_s",
    "us",
    "provenance",
    "started",
    "eta_seconds",
];

fn steady(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.retain(|k, _| !VOLATILE.contains(&k.as_str()));
            map.values_mut().for_each(steady);
        }
        Value::Array(list) => list.iter_mut().for_each(steady),
        _ => {}
    }
}

/// What can be seen of a run: status, JSON or text, and the files that it wrote.
fn seen(dir: &Path, words: &[&str]) -> (Option<i32>, String, BTreeSet<String>) {
    let before: BTreeSet<String> = names(dir).into_iter().collect();
    let o = command(words).current_dir(dir).output().unwrap();
    assert!([0, 1, 2].contains(&o.status.code().unwrap_or(-1)), "{words:?}: {}", stderr(&o));
    let text = match serde_json::from_slice::<Value>(&o.stdout) {
        Ok(mut value) => {
            steady(&mut value);
            value.to_string()
        }
        Err(_) => stdout(&o),
    };
    let new: BTreeSet<String> = names(dir).into_iter().filter(|n| !before.contains(n)).collect();
    let mut text = text;
    for name in &new {
        let path = dir.join(name);
        // What a pedestal's file holds and the summary does not say.
        if name.ends_with(".npz") {
            let info = stdout(&command(["info".as_ref(), path.as_os_str()]).output().unwrap());
            text.extend(info.lines().filter(|l| l.trim_start().starts_with("noise ")));
        }
        // Simulated frames.
        for file in frames_in(&path) {
            let mut hasher = DefaultHasher::new();
            hasher.write(&fs::read(path.join(&file)).unwrap());
            text += &format!("{file} {:x}", hasher.finish());
        }
        if path.is_dir() { fs::remove_dir_all(path).unwrap() } else { fs::remove_file(path).unwrap() }
    }
    (o.status.code(), text + &stderr(&o), new)
}

/// Files of frames in a folder, none if it is no folder.
fn frames_in(path: &Path) -> Vec<String> {
    let all = if path.is_dir() { names(path) } else { Vec::new() };
    all.into_iter().filter(|n| n.ends_with(".npy") || n.ends_with(".raw")).collect()
}

const FIND: &str = "find --dark dark.npy --data data.npy --out o.npz --backend cpu --json";
const FIND_RAW: &str = "find --dark dark_master_0.json --data data_master_0.json --out o.npz --json";
const FIND_DAT: &str = "find --dark x.dat --data x.dat --first 20 --out o.npz --json --dat-shape 20x30";
const COMPARE: &str = "compare cpu oracle --dark dark.npy --data data.npy --json";
const BENCH: &str = "bench --dark dark.npy --data data.npy --backend cpu --reps 2 --json";
const TRAIN: &str = "train --dark dark.npy --out o.npz --json";
const SIMULATE: &str = "simulate --out new --rows 9 --cols 11 --darks 3 --frames 4 --hot 1 --dead 1 --json";
const DEMO: &str = "demo --side 24 --frames 20 --out new --json";

/// An option beside a base with which it changes something: subcommand, base, what is given.
fn with_effect() -> Vec<(&'static str, &'static str)> {
    let mut all = Vec::new();
    let mut add = |base, options: &[&'static str]| all.extend(options.iter().map(|o| (base, *o)));
    let found = [
        "--size 5",
        "--n-sigma 4",
        "--update serial",
        "--noise fixed",
        "--precision f64",
        "--payload f32",
        "--ties first",
        "--test2",
        "--lanes 2",
        "--noise-floor 40",
        "--pedestal-samples 60",
        "--mask mask.npy",
        "--first 3",
        "--frames 7",
        "--dark-frames 12",
    ];
    add(FIND, &found);
    add(
        FIND,
        &[
            "--backend oracle",
            "--threads 3",
            "--report r",
            "--save-pedestal s.npz",
            "--write-mask w.npy",
            "--dry-run",
            "--quiet",
            "--verbose",
        ],
    );
    add("find --data data.npy --out o.npz", &["--pedestal p.npz", "--dark dark.npy"]);
    add("find --dark dark.npy --data data.npy", &["--out o.npz"]);
    add("find --dark dark.npy --data data.npy --out o.npz", &["--json"]);
    add("find --dark dark.npy --out o.npz", &["--data data.npy"]);
    add(FIND_RAW, &["--roi 0"]);
    add(FIND_DAT, &["--gain keep"]);
    add("find --dark x.dat --data x.dat --first 20 --out o.npz --json", &["--dat-shape 20x30"]);

    // Where two backends agree in all they are asked, what they find is the same and only its count tells.
    add(
        COMPARE,
        &[
            "--size 5",
            "--n-sigma 4",
            "--noise-floor 40",
            "--pedestal-samples 60",
            "--mask mask.npy",
            "--first 3",
            "--frames 7",
            "--dark-frames 12",
            "--ties first",
            "--test2",
            "--update serial",
            "--noise fixed",
            "--precision f64",
            "--payload f32",
            "--lanes 2",
            "--quiet",
            "--verbose",
            "--threads 3",
            "--pin",
        ],
    );
    add("compare a.npz b.npz", &["--json"]);
    add("compare a.clust a.clust --json", &["--size 2", "--payload i16"]);
    add("compare cpu oracle --data data.npy", &["--dark dark.npy"]);
    add("compare cpu oracle --dark dark.npy", &["--data data.npy"]);
    add("compare cpu oracle --dark dark_master_0.json --data data_master_0.json", &["--roi 0"]);
    add("compare cpu oracle --dark x.dat --data x.dat --first 20 --dat-shape 20x30", &["--gain keep"]);
    add("compare cpu oracle --dark x.dat --data x.dat --first 20", &["--dat-shape 20x30"]);

    add(
        BENCH,
        &[
            "--size 5",
            "--n-sigma 4",
            "--update serial",
            "--noise fixed",
            "--precision f64",
            "--reps 3",
            "--noise-floor 40",
            "--pedestal-samples 60",
            "--mask mask.npy",
            "--first 3",
            "--frames 7",
            "--dark-frames 12",
            "--ties first",
            "--test2",
            "--lanes 2",
            "--payload f32",
            "--backend oracle",
            "--threads 3",
            "--pin",
            "--plot t.svg",
            "--verbose",
            "--quiet",
        ],
    );
    add("bench --dark dark.npy --data data.npy --reps 1", &["--json"]);
    add("bench --data data.npy --reps 1", &["--dark dark.npy"]);
    add("bench --dark dark.npy --reps 1", &["--data data.npy"]);
    add("bench --dark dark_master_0.json --data data_master_0.json --reps 1 --json", &["--roi 0"]);
    add("bench --dark x.dat --data x.dat --first 20 --reps 1 --dat-shape 20x30 --json", &["--gain keep"]);
    add("bench --dark x.dat --data x.dat --first 20 --reps 1", &["--dat-shape 20x30"]);

    add(
        TRAIN,
        &[
            "--dark-frames 12",
            "--pedestal-samples 60",
            "--precision f64",
            "--noise fixed",
            "--report r",
            "--write-mask w.npy",
            "--dry-run",
            "--quiet",
            "--verbose",
        ],
    );
    add("train --dark dark.npy --out o.npz", &["--json"]);
    add("train --out o.npz", &["--dark dark.npy"]);
    add("train --dark dark.npy", &["--out o.npz"]);
    add("train --dark dark_master_0.json --out o.npz --json", &["--roi 0"]);
    add("train --dark x.dat --out o.npz --json --dat-shape 20x30", &["--gain keep"]);
    add("train --dark x.dat --out o.npz --json", &["--dat-shape 20x30"]);

    add(
        SIMULATE,
        &[
            "--format raw",
            "--parameters simulation.json",
            "--seed 2",
            "--energy 6",
            "--photons 5",
            "--gain 100",
            "--gain-spread 0.1",
            "--cloud 9",
            "--pixel 50",
            "--fano 0",
            "--pedestal 3000",
            "--pedestal-spread 10",
            "--noise 30",
            "--noise-spread 5",
            "--common-mode 3",
            "--drift 900",
            "--bits 16",
            "--faultless",
            "--dry-run",
            "--quiet",
            "--verbose",
        ],
    );
    add("simulate --out new --rows 9 --cols 11 --darks 3 --frames 4 --json", &["--hot 3", "--dead 3"]);
    add("simulate --out new --rows 9 --cols 11 --hot 1 --dead 1 --json", &["--darks 3", "--frames 4"]);
    add("simulate --out new --darks 3 --frames 4 --json", &["--rows 9", "--cols 11"]);
    add("simulate --out new --rows 9 --cols 11 --darks 3 --frames 4 --hot 1 --dead 1", &["--json"]);
    add("simulate --rows 9 --cols 11 --darks 3 --frames 4", &["--out new"]);
    add(
        "simulate --out new --format raw --rows 40 --cols 48 --darks 3 --frames 4 --json",
        &["--packet-loss 0.5"],
    );

    add(
        DEMO,
        &[
            "--seed 2",
            "--backend oracle",
            "--threads 3",
            "--pin",
            "--quiet",
            "--verbose",
            "--frames 10",
            "--side 30",
        ],
    );
    add("demo --side 24 --frames 20", &["--out new"]);
    add("demo --side 24 --frames 20 --out new", &["--json"]);

    add("info a.clust --json", &["--size 5", "--quiet", "--verbose"]);
    add("info a.clust --size 3 --json", &["--payload f32"]);
    add("info a.npz", &["--json"]);
    add("info data_master_0.json --json", &["--roi 0"]);
    add("info x.dat --json", &["--dat-shape 20x30"]);

    add(
        "backends --json",
        &["--shape 20x30", "--update serial", "--precision f64", "--threads 3", "--quiet", "--verbose"],
    );
    add("backends", &["--json"]);
    all
}

/// Options that change nothing but how much is said, or how fast: where they can be seen on this machine alone.
const UNSEEN: &[&str] = &["--pin", "--threads", "--verbose", "--quiet"];

/// Options of others that these tables do not know yet; each has a test of its own.
const ELSEWHERE: &[&str] =
    &["--help", "--version", "--keep-going", "--force", "--no-clobber", "--clean", "--frames-out", "--board"];

fn subcommands() -> Vec<String> {
    let all = stdout(&run(["--help"]));
    let lines = all.lines().skip_while(|l| !l.starts_with("Commands:")).skip(1).take_while(|l| !l.is_empty());
    let names = lines.filter(|l| l.starts_with("  ") && !l.starts_with("   "));
    names.filter_map(|l| l.split_whitespace().next()).filter(|n| *n != "help").map(String::from).collect()
}

/// The options that the help of a subcommand lists.
fn options(subcommand: &str) -> BTreeSet<String> {
    let help = stdout(&run([subcommand, "--help"]));
    let words = help.lines().filter_map(|l| {
        let l = l.trim_start();
        let l = if l.starts_with("-") && !l.starts_with("--") { l.split_once(", ")?.1 } else { l };
        l.starts_with("--")
            .then(|| l.split(|c: char| c.is_whitespace() || c == '=').next().unwrap().to_string())
    });
    words.map(|w| w.trim_end_matches(',').to_string()).collect()
}

#[test]
fn every_option_changes_something() {
    let dir = folder();
    let table = with_effect();
    let mut told: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut bases = BTreeMap::new();
    for (base, option) in &table {
        let words: Vec<&str> = base.split(' ').collect();
        let without = bases.entry(*base).or_insert_with(|| seen(dir.path(), &words));
        let name = option.split(' ').next().unwrap();
        let with: Vec<&str> = match words.iter().position(|w| *w == name) {
            // In the place of the one of the base.
            Some(at) => {
                let mut all = words.clone();
                all.splice(at..at + 2, option.split(' '));
                all
            }
            None => words.iter().copied().chain(option.split(' ')).collect(),
        };
        let got = seen(dir.path(), &with);
        assert!(!got.1.contains("no effect here"), "{with:?}: {}", got.1);
        assert!(*without != got || UNSEEN.contains(&name), "{base}: {option} changes nothing: {}", got.1);
        told.entry(words[0].into()).or_default().insert(name.into());
    }
    for subcommand in subcommands() {
        let told = told.remove(&subcommand).unwrap_or_default();
        for option in options(&subcommand) {
            let known = ELSEWHERE.contains(&option.as_str()) || UNSEEN.contains(&option.as_str());
            assert!(known || told.contains(&option), "{subcommand} {option}: not in the table of this test");
        }
    }
}

#[test]
fn options_without_effect_are_refused() {
    let dir = folder();
    let pedestal = "find --pedestal p.npz --data data.npy --out o.npz";
    let mut table: Vec<(String, &str)> = Vec::new();
    let mut add =
        |base: &str, options: &[&'static str]| table.extend(options.iter().map(|o| (base.to_string(), *o)));
    for base in [FIND, COMPARE, BENCH, TRAIN, "info data.npy"] {
        add(base, &["--roi 0", "--dat-shape 20x30"]);
    }
    add("info a.npz", &["--size 3", "--payload i32"]);
    add(pedestal, &["--dark-frames 50", "--pedestal-samples 50"]);
    add(
        "compare a.npz b.npz",
        &[
            "--dark dark.npy",
            "--first 3",
            "--frames 7",
            "--dark-frames 12",
            "--gain keep",
            "--roi 0",
            "--dat-shape 20x30",
            "--n-sigma 4",
            "--update serial",
            "--noise fixed",
            "--precision f64",
            "--ties first",
            "--test2",
            "--lanes 2",
            "--noise-floor 40",
            "--pedestal-samples 60",
            "--mask mask.npy",
            "--threads 3",
            "--pin",
            "--size 3",
            "--payload i32",
        ],
    );
    add(SIMULATE, &["--packet-loss 0.5"]);
    add(BENCH, &["--no-clobber", "--clean"]);
    for base in [
        "find --dark dark.npy --data data.npy --out o.npz --backend sim",
        "bench --dark dark.npy --data data.npy --reps 1 --backend cuda",
        "demo --side 24 --frames 20 --out new --backend sim",
        "compare sim cuda --dark dark.npy --data data.npy",
    ] {
        add(base, &["--threads 2", "--pin"]);
    }
    add("find --dark dark.npy --data data.npy --out o.npz --backend oracle", &["--pin"]);
    add("completions bash", &["--quiet", "--verbose"]);
    add("man", &["--quiet", "--verbose"]);
    let before = names(dir.path());
    for (base, option) in table {
        let words: Vec<&str> = base.split(' ').chain(option.split(' ')).collect();
        let o = command(&words).current_dir(dir.path()).output().unwrap();
        let name = option.split(' ').next().unwrap();
        let want = format!("scheidegg: {name} has no effect here: ");
        assert!(o.status.code() == Some(2) && stderr(&o).starts_with(&want), "{words:?}: {}", stderr(&o));
        assert!(o.stdout.is_empty());
    }
    assert_eq!(names(dir.path()), before);
}
