//! What the tests of the program share: running it, golden runs as files, reading results.
#![allow(dead_code)]

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use scheidegg::io::{NpyFrames, open_results};
use scheidegg::{ClusterSize, Shape};
use scheidegg_conformance::golden;

/// The program with arguments, to be run or spawned.
pub fn command<S: AsRef<std::ffi::OsStr>>(args: impl IntoIterator<Item = S>) -> Command {
    let mut c = Command::new(env!("CARGO_BIN_EXE_scheidegg"));
    c.args(args);
    c
}

/// As [`command`], for a program that is sent signals: where they are ignored here, as in a background job of a script, they
/// are not so there.
pub fn listening<S: AsRef<std::ffi::OsStr>>(args: impl IntoIterator<Item = S>) -> Command {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    // SIGHUP, SIGINT and SIGTERM are 1, 2 and 15.
    if ignored & (1 | 1 << 1 | 1 << 14) == 0 {
        return command(args);
    }
    let mut c = Command::new("env");
    c.args(["--default-signal=HUP,INT,TERM", env!("CARGO_BIN_EXE_scheidegg")]).args(args);
    c
}

/// Runs the program.
pub fn run<S: AsRef<std::ffi::OsStr>>(args: impl IntoIterator<Item = S>) -> Output {
    command(args).output().expect("the program runs")
}

pub fn stdout(o: &Output) -> String {
    String::from_utf8_lossy(&o.stdout).into_owned()
}

pub fn stderr(o: &Output) -> String {
    String::from_utf8_lossy(&o.stderr).into_owned()
}

/// Runs the program, which must succeed, and parses the JSON object that it prints.
pub fn json<S: AsRef<std::ffi::OsStr>>(args: impl IntoIterator<Item = S>) -> serde_json::Value {
    let o = run(args);
    assert!(o.status.success(), "{}", stderr(&o));
    serde_json::from_slice(&o.stdout).unwrap_or_else(|e| panic!("{e}: {}", stdout(&o)))
}

/// Runs the program, which must end with this status and a sentence that begins with its name.
pub fn fails<S: AsRef<std::ffi::OsStr>>(args: impl IntoIterator<Item = S>, status: i32) -> String {
    let o = run(args);
    assert_eq!(o.status.code(), Some(status), "{}{}", stdout(&o), stderr(&o));
    let said = stderr(&o);
    assert!(said.starts_with("scheidegg: ") || said.starts_with("error: "), "{said}");
    said
}

/// Writes frames as npy.
pub fn write_npy(path: &Path, shape: Shape, pixels: &[u16]) {
    let mut file = NpyFrames::create(path, shape).unwrap();
    pixels.chunks(shape.pixels()).for_each(|f| file.push(f).unwrap());
    file.finish().unwrap();
}

/// Writes an npy of so many frames of zeros, as a file with a hole, that no run reaches its end.
pub fn write_endless_npy(path: &Path, shape: Shape) {
    const FRAMES: u64 = 100_000_000;
    let header = format!(
        "{{'descr': '<u2', 'fortran_order': False, 'shape': ({FRAMES}, {}, {}), }}",
        shape.rows, shape.cols
    );
    let mut bytes = b"\x93NUMPY\x01\x00\xf6\x00".to_vec();
    bytes.extend(format!("{header:<245}\n").bytes());
    let mut file = std::fs::File::create(path).unwrap();
    file.write_all(&bytes).unwrap();
    file.set_len(256 + FRAMES * 2 * shape.pixels() as u64).unwrap();
}

/// An image of booleans as the bytes of an npy file.
pub fn bool_npy(rows: usize, cols: usize, values: impl Iterator<Item = bool>) -> Vec<u8> {
    let dict = format!("{{'descr': '|b1', 'fortran_order': False, 'shape': ({rows}, {cols}), }}");
    let mut bytes = b"\x93NUMPY\x01\x00\x76\x00".to_vec();
    bytes.extend(format!("{dict:<117}\n").bytes());
    bytes.extend(values.map(u8::from));
    bytes
}

/// A golden set as `<set>_dark.npy` and `<set>_data.npy` in a folder.
pub fn golden_files(dir: &Path, set: &str) -> (PathBuf, PathBuf) {
    let frames = golden::set(set).unwrap();
    let (dark, data) = (dir.join(format!("{set}_dark.npy")), dir.join(format!("{set}_data.npy")));
    write_npy(&dark, frames.shape, &frames.darks);
    write_npy(&data, frames.shape, &frames.data);
    (dark, data)
}

/// The clusters of a result file: frame, x, y, values.
pub fn clusters(path: &Path, size: &str) -> Vec<(u64, u16, u16, Vec<f64>)> {
    let clust = path.extension().is_some_and(|e| e == "clust");
    let size: ClusterSize = size.parse().unwrap();
    let mut file = open_results(path, clust.then_some(size), None).unwrap();
    let mut buf = file.buffer();
    while file.read(&mut buf, 100).unwrap() > 0 {}
    let view = buf.view();
    let mut out = Vec::new();
    for (k, number) in view.numbers().iter().enumerate() {
        for c in view.frame(k) {
            out.push((*number, c.x, c.y, (0..c.values().len()).map(|i| c.values().get(i)).collect()));
        }
    }
    out
}

/// Real detector files in a folder `shared` beside the repository (or a work tree of it), or a counted skip.
pub fn real_data(what: &str) -> Option<PathBuf> {
    let above = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().skip(2).take(2);
    let found = above.map(|a| a.join("shared/data").join(what)).find(|p| p.exists());
    if found.is_none() {
        let required = std::env::var("SCHEIDEGG_REQUIRE").unwrap_or_default();
        assert!(
            required.split(',').all(|w| w.trim() != "data"),
            "{what} is not here, SCHEIDEGG_REQUIRE names data"
        );
        // Past what keeps the output of a test that passes: a skip is always seen.
        let _ = writeln!(
            std::io::stdout(),
            "SKIPPED: {what} is not here (real detector files are not part of the repository)"
        );
    }
    found
}

/// The names in a folder, sorted.
pub fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        std::fs::read_dir(dir).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}
