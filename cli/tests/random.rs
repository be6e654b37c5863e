//! The whole program with options, values and files drawn at random, sensible and not: it ends by itself with 0, 1 or 2,
//! leaves no half-written file and no changed input, and finds what the library finds.
//!
//! `SCHEIDEGG_SECONDS=600` draws for that long instead of a few dozen times, `SCHEIDEGG_SEED` other things.

mod common;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use common::{command, stderr, stdout, write_npy};
use scheidegg::io::{OpenOptions, load_mask, load_pedestal, open_results, open_source};
use scheidegg::{
    Backend, ClusterSize, CpuBackend, FrameBuf, FrameOwner, Noise, Params, Payload, Precision, Shape, Ties,
    Update,
};
use serde_json::Value;

/// Draws in the normal run.
const DRAWS: u64 = 60;
/// No run of these small files takes longer, however busy the machine.
const LONGEST: Duration = Duration::from_secs(120);

struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        // SplitMix64.
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }
    fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }
    fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }
    fn pick<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[self.below(of.len())]
    }
    /// Mostly of the first, now and then of the second.
    fn mostly<'a>(&mut self, good: &[&'a str], bad: &[&'a str]) -> &'a str {
        if self.one_in(40) { self.pick(bad) } else { self.pick(good) }
    }
}

/// Files good and bad.
fn folder() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let at = |words: &str| {
        let o = command(words.split(' ')).current_dir(dir.path()).output().unwrap();
        assert!(o.status.success(), "{words}: {}", stderr(&o));
    };
    at("simulate --out . --rows 18 --cols 26 --darks 110 --frames 130 --photons 9 --hot 1 --dead 1 --seed 5");
    at(
        "simulate --out raw --format raw --rows 18 --cols 26 --darks 60 --frames 70 --photons 9 --hot 1 --dead 1 --packet-loss 0.01",
    );
    at("train --dark dark.npy --out p32.npz --write-mask mask.npy");
    at("train --dark dark.npy --out p64.npz --precision f64");
    at("find --dark dark.npy --data data.npy --out a.npz");
    at("find --dark dark.npy --data data.npy --out a.clust");
    let path = |name: &str| dir.path().join(name);
    let shape = Shape { rows: 18, cols: 26 };
    write_npy(&path("empty.npy"), shape, &[]);
    write_npy(&path("one.npy"), shape, &[4000; 18 * 26]);
    write_npy(&path("other.npy"), Shape { rows: 9, cols: 26 }, &[4000; 9 * 26 * 12]);
    let whole = fs::read(path("data.npy")).unwrap();
    fs::write(path("cut.npy"), &whole[..whole.len() - 333]).unwrap();
    fs::write(path("text.npy"), "no frames at all").unwrap();
    fs::write(path("bad.json"), "{\"Detector Type\": \"Moench\"").unwrap();
    fs::write(path("nothing.npy"), "").unwrap();
    fs::create_dir(path("folder.npy")).unwrap();
    dir
}

const FRAMES: &[&str] = &["data.npy", "dark.npy", "raw/data_master_0.json", "one.npy"];
const BAD: &[&str] = &[
    "empty.npy",
    "other.npy",
    "cut.npy",
    "text.npy",
    "bad.json",
    "nothing.npy",
    "folder.npy",
    "nowhere.npy",
    "a.npz",
    "a.clust",
    "",
    "-",
    "raw/data_d0_f0_0.raw",
];

/// A command line on its way, with what was asked of it.
#[derive(Default)]
struct Drawn {
    words: Vec<String>,
    options: BTreeMap<&'static str, Vec<String>>,
}

impl Drawn {
    fn add(&mut self, option: &'static str, values: &[&str]) {
        self.words.push(option.into());
        self.words.extend(values.iter().map(|v| v.to_string()));
        self.options.entry(option).or_default().extend(values.iter().map(|v| v.to_string()));
    }
    fn maybe(&mut self, d: &mut Dice, share: usize, option: &'static str, good: &[&str], bad: &[&str]) {
        if d.one_in(share) {
            let value = d.mostly(good, bad);
            self.add(option, &[value]);
        }
    }
    fn flag(&mut self, d: &mut Dice, share: usize, option: &'static str) {
        if d.one_in(share) {
            self.add(option, &[]);
        }
    }
    fn value(&self, option: &str) -> Option<&str> {
        self.options.get(option)?.last().map(String::as_str)
    }
    fn values(&self, option: &str) -> Vec<PathBuf> {
        self.options.get(option).into_iter().flatten().map(PathBuf::from).collect()
    }
}

const COUNTS: &[&str] = &["1", "2", "5", "20", "64", "129", "130", "131", "1000", "18446744073709551615"];
const NO_COUNTS: &[&str] = &["0", "-1", "1.5", "many", "", "99999999999999999999"];

fn finder_options(d: &mut Dice, c: &mut Drawn) {
    c.maybe(d, 3, "--size", &["3", "2", "5", "3x5", "9", "15"], &["1", "16", "0", "3x", "axb", "-3", ""]);
    c.maybe(d, 3, "--n-sigma", &["5", "3.5", "8", "1"], &["0", "-1", "nan", "inf", "1e300", "x"]);
    c.maybe(d, 5, "--update", &["frozen", "serial"], &["never"]);
    c.maybe(d, 5, "--noise", &["tracked", "fixed"], &["none"]);
    c.maybe(d, 4, "--precision", &["f32", "f64f32", "f64"], &["f16"]);
    c.maybe(d, 4, "--payload", &["i32", "i16", "f16", "f32"], &["u8"]);
    c.maybe(d, 5, "--ties", &["all", "first"], &["none"]);
    c.flag(d, 8, "--test2");
    c.maybe(d, 6, "--lanes", &["1", "2", "7"], &["0", "5000", "-1"]);
    c.maybe(d, 6, "--noise-floor", &["0", "1", "12.5"], &["-1", "1e9", "nan"]);
    c.maybe(d, 6, "--pedestal-samples", &["10", "50", "60", "110", "2"], &["0", "1", "2000", "99999999999"]);
    c.maybe(d, 6, "--mask", &["mask.npy"], BAD);
}

fn input_options(d: &mut Dice, c: &mut Drawn) {
    let darks = ["dark.npy", "raw/dark_master_0.json", "data.npy"];
    let first = d.mostly(&darks, BAD);
    match d.one_in(6) {
        true => c.add("--dark", &[first, d.mostly(&darks, BAD)]),
        false => c.add("--dark", &[first]),
    }
    let data: Vec<&str> = (0..1 + d.below(5) / 3).map(|_| d.mostly(FRAMES, BAD)).collect();
    c.add("--data", &data);
    c.maybe(d, 4, "--first", COUNTS, NO_COUNTS);
    c.maybe(d, 3, "--frames", COUNTS, NO_COUNTS);
    c.maybe(d, 6, "--dark-frames", &["2", "20", "60", "110", "111"], NO_COUNTS);
    c.maybe(d, 10, "--gain", &["mask", "keep"], &["more"]);
    c.maybe(d, 15, "--roi", &["0", "1"], &["-1", "x"]);
    c.maybe(d, 15, "--dat-shape", &["18x26"], &["18", "0x0"]);
}

fn say_options(d: &mut Dice, c: &mut Drawn) {
    c.flag(d, 10, "--quiet");
    c.flag(d, 12, "--verbose");
}

fn draw(d: &mut Dice) -> Drawn {
    let mut c = Drawn::default();
    let name = d.pick(&[
        // Most draws hold something senseless: of many there are some that are done.
        "find",
        "find",
        "find",
        "find",
        "find",
        "find",
        "find",
        "find",
        "find",
        "find",
        "find",
        "find",
        "train",
        "compare",
        "compare",
        "bench",
        "info",
        "info",
        "simulate",
        "backends",
        "completions",
        "man",
        "demo",
        "fnid",
    ]);
    c.words.push(name.into());
    match name {
        "find" => {
            input_options(d, &mut c);
            finder_options(d, &mut c);
            c.maybe(d, 6, "--pedestal", &["p32.npz", "p64.npz"], BAD);
            if c.value("--pedestal").is_some() && !d.one_in(4) {
                // Instead of darks, as it is meant.
                let at = c.words.iter().position(|w| w == "--dark").unwrap();
                let n = c.options.remove("--dark").unwrap().len();
                c.words.drain(at..at + 1 + n);
            }
            for _ in 0..d.below(3) {
                let out = d.mostly(
                    &["out/a.npz", "out/b.clust", "out/c.npy"],
                    &["out/x.txt", "data.npy/a.npz", "no/a.npz", "folder.npy", ""],
                );
                c.add("--out", &[out]);
            }
            c.maybe(d, 6, "--report", &["out/report"], &["data.npy", ""]);
            c.maybe(d, 8, "--save-pedestal", &["out/p.npz"], &["out/p.npy", "a.npz/p.npz"]);
            c.maybe(d, 8, "--write-mask", &["out/m.npy"], &["out/m.npz", "mask.npy/m.npy"]);
            c.maybe(d, 4, "--backend", &["cpu", "oracle", "auto", "sim"], &["cuda", "abacus", ""]);
            c.maybe(d, 6, "--threads", &["1", "2", "5"], &["0", "20000", "-1", "99999999999999999999"]);
            c.flag(d, 15, "--pin");
            c.flag(d, 12, "--dry-run");
            c.flag(d, 2, "--json");
        }
        "train" => {
            let dark = d.mostly(FRAMES, BAD);
            c.add("--dark", &[dark]);
            c.maybe(d, 1, "--out", &["out/p.npz"], &["out/p.npy", ""]);
            c.maybe(d, 4, "--pedestal-samples", &["10", "50", "2"], &["1", "9999"]);
            c.maybe(d, 4, "--precision", &["f32", "f64f32", "f64"], &["f16"]);
            c.maybe(d, 4, "--dark-frames", &["5", "50", "500"], NO_COUNTS);
            c.maybe(d, 4, "--write-mask", &["out/m.npy"], &["out/m.npz"]);
            c.maybe(d, 6, "--report", &["out/report"], &["data.npy"]);
            c.flag(d, 5, "--dry-run");
            c.flag(d, 2, "--json");
        }
        "compare" => {
            let of = if d.one_in(2) { ["cpu", "oracle", "sim"] } else { ["a.npz", "a.clust", "a.npz"] };
            let (a, b) = (d.mostly(&of, BAD), d.mostly(&of, BAD));
            c.words.extend([a.into(), b.into()]);
            if a == "cpu" || d.one_in(3) {
                input_options(d, &mut c);
                finder_options(d, &mut c);
            }
            c.flag(d, 2, "--json");
        }
        "bench" => {
            input_options(d, &mut c);
            finder_options(d, &mut c);
            c.maybe(d, 1, "--reps", &["1", "2"], NO_COUNTS);
            c.maybe(d, 3, "--threads", &["1", "1,2"], &["0", "1,,2", "x"]);
            c.maybe(d, 4, "--plot", &["out/t.svg"], &["out/t.png", "folder.npy"]);
            c.flag(d, 2, "--json");
        }
        "info" => {
            let all = [
                "data.npy",
                "raw/data_master_0.json",
                "a.npz",
                "a.clust",
                "p32.npz",
                "mask.npy",
                "simulation.json",
            ];
            c.words.push(d.mostly(&all, BAD).into());
            c.maybe(d, 3, "--size", &["3", "5"], &["x"]);
            c.maybe(d, 4, "--payload", &["i32", "f16"], &["x"]);
            c.flag(d, 2, "--json");
        }
        "simulate" => {
            c.add("--out", &[d.mostly(&["out/s"], &["data.npy", ""])]);
            for (option, good, bad) in [
                ("--rows", &["9", "20", "1"][..], &["0", "-1", "70000", "x"][..]),
                ("--cols", &["9", "20", "1"], &["0", "-1", "70000", "x"]),
                ("--darks", &["0", "3", "20"], &["-1", "x"]),
                ("--frames", &["0", "3", "20"], &["-1", "x"]),
                ("--hot", &["0", "1"], &["1000"]),
                ("--dead", &["0", "1"], &["1000"]),
            ] {
                c.add(option, &[d.mostly(good, bad)]);
            }
            c.maybe(d, 3, "--format", &["npy", "raw"], &["tiff"]);
            c.maybe(d, 4, "--photons", &["0", "3", "500"], &["-1", "1e12"]);
            c.maybe(d, 4, "--energy", &["8", "8:1", "0.5"], &["0", "x", "-1", "8:0"]);
            c.maybe(d, 4, "--noise", &["0", "17", "2000"], &["-1", "1e9"]);
            c.maybe(d, 6, "--packet-loss", &["0", "0.5", "1"], &["2"]);
            c.maybe(d, 6, "--bits", &["14", "16"], &["15"]);
            c.flag(d, 4, "--faultless");
            c.flag(d, 6, "--dry-run");
            c.flag(d, 2, "--json");
        }
        "demo" => {
            c.add("--out", &["out/demo"]);
            c.add("--side", &[d.mostly(&["8", "20", "1"], &["0", "70000"])]);
            c.add("--frames", &[d.mostly(&["1", "30"], NO_COUNTS)]);
            c.flag(d, 2, "--json");
        }
        "backends" => {
            c.maybe(d, 2, "--shape", &["20x30", "512x1024"], &["0x0", "7"]);
            c.maybe(d, 2, "--update", &["frozen", "serial"], &["x"]);
            c.flag(d, 2, "--json");
        }
        "completions" => c.words.push(d.mostly(&["bash", "zsh", "fish"], &["sh", ""]).into()),
        "man" => c.words.push(d.mostly(&["out/man"], &["data.npy", ""]).into()),
        _ => {}
    }
    say_options(d, &mut c);
    c
}

/// Runs it with a watch on the time.
fn watched(dir: &Path, words: &[String]) -> Output {
    let mut c = command(words);
    c.current_dir(dir).env("RUST_BACKTRACE", "0").stdin(Stdio::null());
    let (out, err) = (dir.join("stdout.txt"), dir.join("stderr.txt"));
    c.stdout(fs::File::create(&out).unwrap()).stderr(fs::File::create(&err).unwrap());
    let mut child = c.spawn().unwrap();
    let start = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if start.elapsed() > LONGEST {
            child.kill().unwrap();
            panic!("it hangs: scheidegg {}", words.join(" "));
        }
        std::thread::sleep(Duration::from_millis(3));
    };
    let output = Output { status, stdout: fs::read(&out).unwrap(), stderr: fs::read(&err).unwrap() };
    fs::remove_file(out).unwrap();
    fs::remove_file(err).unwrap();
    output
}

/// The bytes of every file below a folder, apart from what is written by a run.
fn inputs(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut all = BTreeMap::new();
    let mut left = vec![dir.to_path_buf()];
    while let Some(folder) = left.pop() {
        for entry in fs::read_dir(folder).unwrap().map(|e| e.unwrap().path()) {
            if entry == dir.join("out") {
                continue;
            }
            if entry.is_dir() {
                left.push(entry)
            } else {
                drop(all.insert(entry.clone(), fs::read(&entry).unwrap()))
            }
        }
    }
    all
}

/// The parameters that were asked for, which the program has taken.
fn params(c: &Drawn, dir: &Path, shape: Shape) -> Params {
    let size: ClusterSize = c.value("--size").unwrap_or("3").parse().unwrap();
    let word = |option: &str, usual: &'static str| c.value(option).unwrap_or(usual).to_string();
    let mut mask: Option<scheidegg::PixelMask> = None;
    for path in c.values("--mask") {
        let one = load_mask(&dir.join(path), shape).unwrap();
        mask.get_or_insert_with(|| scheidegg::PixelMask::new(shape)).union(&one);
    }
    Params {
        n_sigma: word("--n-sigma", "5").parse().unwrap(),
        update: word("--update", "frozen").parse::<Update>().unwrap(),
        noise: word("--noise", "tracked").parse::<Noise>().unwrap(),
        precision: word("--precision", "f32").parse::<Precision>().unwrap(),
        payload: word("--payload", "i32").parse::<Payload>().unwrap(),
        ties: word("--ties", "all").parse::<Ties>().unwrap(),
        test2: c.options.contains_key("--test2"),
        lanes: word("--lanes", "1").parse().unwrap(),
        noise_floor_adu: word("--noise-floor", "0").parse().unwrap(),
        pedestal_samples: word("--pedestal-samples", "1000").parse().unwrap(),
        mask: mask.map(Arc::new),
        ..Params::new(size)
    }
}

/// Frames of files, read by the library one after the other.
fn frames(dir: &Path, paths: &[PathBuf], skip: u64, limit: u64, options: &OpenOptions) -> Vec<FrameBuf> {
    let mut out = Vec::new();
    let (mut skip, mut left) = (skip, limit);
    for path in paths {
        let mut source = open_source(&dir.join(path), options).unwrap();
        let mut buf = FrameBuf::new(source.shape(), 1);
        while left > 0 && source.read(&mut buf).unwrap() > 0 {
            let full = std::mem::replace(&mut buf, FrameBuf::new(source.shape(), 1));
            if skip > 0 {
                skip -= 1;
                continue;
            }
            left -= 1;
            out.push(full);
        }
    }
    out
}

/// What the library finds: frames and clusters.
fn model(c: &Drawn, dir: &Path) -> (u64, u64) {
    let number = |option: &str| c.value(option).map(|v| v.parse::<u64>().unwrap());
    let mut options = OpenOptions::default();
    if c.value("--gain") == Some("keep") {
        options.gain = scheidegg::io::Gain::KeepValue;
    }
    let first = number("--first").unwrap_or(0);
    let (dark, data) = (c.values("--dark"), c.values("--data"));
    let all = frames(dir, &data, first, number("--frames").unwrap_or(u64::MAX), &options);
    let shape = all[0].shape();
    let mut finder = CpuBackend::new().threads(1).unwrap().build(shape, &params(c, dir, shape)).unwrap();
    match c.value("--pedestal") {
        Some(path) => finder.set_pedestal(&load_pedestal(&dir.join(path)).unwrap()).unwrap(),
        None => {
            let mut limit = number("--dark-frames").unwrap_or(u64::MAX);
            if data.contains(&dark[0]) {
                limit = limit.min(first);
            }
            for buf in frames(dir, &dark, 0, limit, &options) {
                finder.train(buf.frames()).unwrap();
            }
            finder.finish_training().unwrap();
        }
    }
    let mut clusters = 0;
    for buf in &all {
        finder
            .find(buf.frames(), &mut |batch| {
                clusters += batch.len() as u64;
                Ok(())
            })
            .unwrap();
    }
    (all.len() as u64, clusters)
}

/// Looks at what a run left behind; whether its numbers were compared with the library's.
fn judge(dir: &Path, c: &Drawn, o: &Output) -> bool {
    let line = format!("scheidegg {}", c.words.join(" "));
    let said = format!("{line}\n{}{}", stdout(o), stderr(o));
    let code = o.status.code();
    assert!(matches!(code, Some(0..=2)), "{code:?}: {said}");
    assert!(!stderr(o).contains("panicked") && !stderr(o).contains("internal error"), "{said}");
    assert!(
        code == Some(0) || c.words[0] == "compare" || !o.stderr.is_empty(),
        "ended with {code:?} without a word: {said}"
    );
    let payload = c.value("--payload").unwrap_or("i32");
    let (find, dry) = (c.words[0] == "find", c.options.contains_key("--dry-run"));
    let left: Vec<PathBuf> = inputs(&dir.join("out")).into_keys().collect();
    if dry || code == Some(2) {
        assert!(left.is_empty(), "{left:?} {said}");
        return false;
    }
    let mut found = Vec::new();
    for path in left.iter().filter(|_| find) {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        assert!(!name.contains("partial"), "{name}: {said}");
        if !["a.npz", "b.clust", "c.npy"].contains(&name.as_str()) {
            continue;
        }
        let size = c.value("--size").unwrap_or("3");
        let of_clust = name.ends_with("clust");
        let hints: &[&str] = if of_clust { &["--size", size, "--payload", payload] } else { &[] };
        let info = command(["info".as_ref(), path.as_os_str()]).args(hints).output().unwrap();
        assert_eq!(info.status.code(), Some(0), "{}{said}", stderr(&info));
        let clust = of_clust.then(|| (size.parse().unwrap(), payload.parse().unwrap()));
        let mut file = open_results(path, clust.map(|c| c.0), clust.map(|c| c.1)).unwrap();
        let (mut buf, mut clusters) = (file.buffer(), 0);
        while file.read(&mut buf, 100).unwrap() > 0 {
            clusters += buf.view().len() as u64;
            buf.clear();
        }
        found.push(clusters);
    }
    if !find || code != Some(0) {
        return false;
    }
    for out in c.values("--out") {
        assert!(dir.join(&out).is_file(), "{} is not there: {said}", out.display());
    }
    let (frames, clusters) = model(c, dir);
    assert!(
        found.iter().all(|n| *n == clusters),
        "files have {found:?} clusters, the library {clusters}: {said}"
    );
    if c.options.contains_key("--json") {
        let json: Value = serde_json::from_slice(&o.stdout).unwrap_or_else(|e| panic!("{e}: {said}"));
        assert_eq!(
            (json["frames"].as_u64(), json["clusters"].as_u64()),
            (Some(frames), Some(clusters)),
            "{said}"
        );
    }
    true
}

#[test]
fn whatever_is_asked_it_ends_well() {
    let number = |name: &str| std::env::var(name).ok().and_then(|v| v.parse::<u64>().ok());
    let seed = number("SCHEIDEGG_SEED").unwrap_or(1);
    let time = number("SCHEIDEGG_SECONDS").map(Duration::from_secs);
    let dir = folder();
    let before = inputs(dir.path());
    let start = Instant::now();
    let (mut draws, mut compared, mut done) = (0, 0, 0);
    while time.map_or(draws < DRAWS, |t| start.elapsed() < t) {
        let c = draw(&mut Dice(seed.wrapping_mul(1 << 32).wrapping_add(draws)));
        fs::create_dir(dir.path().join("out")).unwrap();
        let o = watched(dir.path(), &c.words);
        compared += u64::from(judge(dir.path(), &c, &o));
        done += u64::from(o.status.success());
        fs::remove_dir_all(dir.path().join("out")).unwrap();
        assert!(
            inputs(dir.path()) == before,
            "an input has changed, or something lies about: {}",
            c.words.join(" ")
        );
        draws += 1;
    }
    println!("{draws} draws, {done} of them done, {compared} compared with the library");
    assert!(
        done * 5 > draws && compared * 20 > draws,
        "{draws} draws, {done} done, {compared} compared: they tell little"
    );
}
