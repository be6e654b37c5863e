//! Runs that are killed, stopped, or find the disk full, at random moments: no file under a final name is ever incomplete
//! without saying so, what was there before stays, nothing hidden is left but by a kill, and the next run finds that.
//!
//! `SCHEIDEGG_ROUNDS=100` makes 100 rounds of each; `SCHEIDEGG_SEED=N` repeats a failure.
#![cfg(unix)]

mod common;

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use common::{clusters, json, listening, names, stderr, write_npy};
use scheidegg_conformance::golden;

type Clusters = Vec<(u64, u16, u16, Vec<f64>)>;

/// Random numbers that a seed repeats (splitmix64).
struct Dice(u64);

impl Dice {
    fn new() -> Dice {
        let seed = std::env::var("SCHEIDEGG_SEED").ok().and_then(|s| s.parse().ok());
        let seed = seed.unwrap_or_else(|| {
            let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
            now.as_nanos() as u64
        });
        println!("SCHEIDEGG_SEED={seed}");
        Dice(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: u64) -> u64 {
        self.next() % n.max(1)
    }

    fn one<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len() as u64) as usize]
    }
}

fn rounds() -> u64 {
    std::env::var("SCHEIDEGG_ROUNDS").ok().and_then(|n| n.parse().ok()).unwrap_or(8)
}

/// Results of every kind in one run; the folder that they go into is not the one of the frames.
const RESULTS: [&str; 4] = ["a.clust", "b.npz", "c.npy", "d.clust"];

/// What stood under a name before.
const OLD: &[u8] = b"of an earlier run";

/// A run, and what comes of it when nothing disturbs it.
struct Scene {
    dir: tempfile::TempDir,
    pedestal: String,
    data: String,
    expected: Clusters,
    bytes: u64,
    takes: Duration,
}

impl Scene {
    /// A run that is long enough to be met at any point.
    fn new() -> Scene {
        let dir = tempfile::tempdir().unwrap();
        let set = golden::set("moench").unwrap();
        let at = |name: &str| dir.path().join(name).to_str().unwrap().to_string();
        let (dark, data, pedestal) = (at("dark.npy"), at("data.npy"), at("pedestal.npz"));
        write_npy(Path::new(&dark), set.shape, &set.darks);
        write_npy(Path::new(&data), set.shape, &set.data.repeat(20));
        json(["train", "--dark", &dark, "--out", &pedestal, "--json"]);
        let mut scene = Scene { dir, pedestal, data, expected: Vec::new(), bytes: 0, takes: Duration::ZERO };
        let folder = scene.folder("whole");
        let start = Instant::now();
        let done = scene.command(&folder).output().unwrap();
        scene.takes = start.elapsed();
        assert!(done.status.success(), "{}", stderr(&done));
        scene.expected = clusters(&folder.join(RESULTS[0]), "3");
        assert!(scene.expected.len() > 10_000);
        for result in RESULTS {
            assert!(clusters(&folder.join(result), "3") == scene.expected, "{result}");
            scene.bytes = scene.bytes.max(fs::metadata(folder.join(result)).unwrap().len());
        }
        scene
    }

    /// A folder of its own for a round.
    fn folder(&self, name: &str) -> PathBuf {
        let folder = self.dir.path().join(name);
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir(&folder).unwrap();
        folder
    }

    fn arguments(&self, folder: &Path) -> Vec<String> {
        let mut args: Vec<String> = ["find", "--json", "--backend", "oracle", "--threads", "1", "--pedestal"]
            .map(String::from)
            .into();
        args.extend([self.pedestal.clone(), "--data".into(), self.data.clone()]);
        for result in RESULTS {
            args.extend(["--out".into(), folder.join(result).to_str().unwrap().into()]);
        }
        args
    }

    fn command(&self, folder: &Path) -> Command {
        listening(self.arguments(folder))
    }

    fn start(&self, folder: &Path) -> Child {
        self.command(folder).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    /// Looks at every file of a folder: hidden ones, the old ones that stayed, and the results, each of which must be whole
    /// and hold the first frames of what is expected. Returns the clusters of each result that is there, with its name.
    fn look(&self, folder: &Path, old: &[&str]) -> Vec<(String, usize)> {
        let mut found = Vec::new();
        for name in names(folder) {
            let path = folder.join(&name);
            if name.starts_with('.') || name.ends_with(".json") {
                continue;
            }
            if old.contains(&name.as_str()) && fs::read(&path).unwrap() == OLD {
                continue;
            }
            let these = clusters(&path, "3");
            let cut = these.len() < self.expected.len();
            assert!(self.expected[..these.len()] == these[..], "{name} is not the beginning of the result");
            // Ends at a whole frame.
            let ends = |n: usize| n == 0 || self.expected[n].0 != self.expected[n - 1].0;
            assert!(!cut || ends(these.len()), "{name} ends inside a frame");
            found.push((name, these.len()));
        }
        found
    }

    /// Some results of earlier runs.
    fn old(&self, folder: &Path, dice: &mut Dice) -> Vec<&'static str> {
        let old: Vec<_> = RESULTS.into_iter().filter(|_| dice.below(2) == 0).collect();
        old.iter().for_each(|name| fs::write(folder.join(name), OLD).unwrap());
        old
    }
}

fn hidden(folder: &Path) -> Vec<String> {
    names(folder).into_iter().filter(|n| n.starts_with('.')).collect()
}

fn signal(child: &Child, name: &str) {
    // It may have ended meanwhile, and waits to be asked for its status.
    let sent = Command::new("kill").args([&format!("-{name}"), &child.id().to_string()]).status().unwrap();
    assert!(sent.success());
}

/// Sleeps a random part of a time, and some more now and then.
fn a_while(dice: &mut Dice, of: Duration) {
    sleep(of.mul_f64(dice.below(1100) as f64 / 1000.0));
}

#[test]
fn a_kill_at_any_moment_leaves_whole_files_or_none() {
    let (mut dice, scene) = (Dice::new(), Scene::new());
    let mut killed = 0;
    for round in 0..rounds() {
        let folder = scene.folder(&format!("kill{round}"));
        let old = scene.old(&folder, &mut dice);
        let mut child = scene.start(&folder);
        a_while(&mut dice, scene.takes);
        child.kill().unwrap();
        let status = child.wait().unwrap();
        for (name, found) in scene.look(&folder, &old) {
            assert_eq!(found, scene.expected.len(), "{name}: a part under a final name");
        }
        if status.signal().is_none() {
            continue;
        }
        killed += 1;
        // The next run finds what is left, and leaves it alone unless it is told to remove it.
        let left = hidden(&folder);
        let (clean, out) = (dice.below(2) == 0, folder.join("next.npz"));
        let more = ["--frames", "1", "--json", "--out", out.to_str().unwrap()];
        let base = ["find", "--pedestal", &scene.pedestal, "--data", &scene.data];
        let said = json(base.iter().chain(&more).chain(if clean { &["--clean"][..] } else { &[] }));
        let words = said["warnings"].to_string();
        assert_eq!(hidden(&folder), if clean { Vec::new() } else { left.clone() }, "{words}");
        if left.len() <= 10 {
            assert!(left.iter().all(|name| words.contains(name)), "{left:?} are not all in {words}");
        }
        fs::remove_dir_all(&folder).unwrap();
    }
    println!("{killed} of {} runs were killed", rounds());
}

#[test]
fn a_signal_at_any_moment_ends_with_complete_files() {
    let (mut dice, scene) = (Dice::new(), Scene::new());
    let mut met = [0; 3];
    for round in 0..rounds() {
        let folder = scene.folder(&format!("stop{round}"));
        let old = scene.old(&folder, &mut dice);
        let (name, number) = *dice.one(&[("INT", 2), ("TERM", 15), ("HUP", 1)]);
        let twice = dice.below(4) == 0;
        let child = scene.start(&folder);
        a_while(&mut dice, scene.takes);
        signal(&child, name);
        if twice {
            a_while(&mut dice, Duration::from_millis(20));
            signal(&child, name);
        }
        let done = child.wait_with_output().unwrap();
        let found = scene.look(&folder, &old);
        assert_eq!(hidden(&folder), [""; 0], "{}", stderr(&done));
        match outcome(&done) {
            // Before a handler was there, or the second one: at once.
            (None, None) => {
                assert!(done.status.signal() == Some(number) || done.status.code() == Some(128 + number));
                met[0] += 1;
            }
            (Some(said), code) => {
                let frames = said["frames"].as_u64().unwrap();
                let stopped = said["stopped"] == true;
                assert_eq!(code, Some(if stopped { 128 + number } else { 0 }), "{said}");
                let by = if stopped { format!("SIG{name}").into() } else { serde_json::Value::Null };
                assert_eq!(said["stopped_by"], by);
                met[if stopped { 1 } else { 2 }] += 1;
                let want = scene.expected.iter().filter(|c| c.0 < frames).count();
                let written: Vec<_> =
                    said["written"].as_array().unwrap().iter().map(|p| p.as_str().unwrap()).collect();
                // A run that was stopped before its first frame leaves nothing.
                for result in RESULTS.into_iter().filter(|_| frames > 0 || !stopped) {
                    let aside = stopped && old.contains(&result);
                    let named = if aside { result.replace('.', ".partial.") } else { result.to_string() };
                    assert!(
                        found.contains(&(named.clone(), want)),
                        "{named} with {want} clusters: {found:?}"
                    );
                    let path = folder.join(&named);
                    assert!(written.contains(&path.to_str().unwrap()), "{named} is not in {written:?}");
                    if aside {
                        assert!(fs::read(folder.join(result)).unwrap() == OLD, "{result} was replaced");
                    }
                }
            }
            (None, code) => panic!("{code:?}: {}", stderr(&done)),
        }
        fs::remove_dir_all(&folder).unwrap();
    }
    println!("{} ended at once, {} at a whole frame, {} were done before", met[0], met[1], met[2]);
}

/// What a run said and its exit status; nothing of both for one that was ended at once.
fn outcome(done: &Output) -> (Option<serde_json::Value>, Option<i32>) {
    match serde_json::from_slice(&done.stdout) {
        Ok(said) => (Some(said), done.status.code()),
        Err(_) if done.status.code().is_none_or(|code| code > 128) => (None, None),
        Err(_) => (None, done.status.code()),
    }
}

/// No file may be larger than so many bytes.
#[test]
fn a_limit_on_files_at_any_size_leaves_whole_files_or_none() {
    let (mut dice, scene) = (Dice::new(), Scene::new());
    for round in 0..rounds() {
        let folder = scene.folder(&format!("limit{round}"));
        let old = scene.old(&folder, &mut dice);
        let blocks = dice.below(scene.bytes * 11 / 10) / 512;
        let script = format!("ulimit -f {blocks} && exec \"$@\"");
        let mut limited = Command::new("sh");
        limited.args(["-c", &script, "sh", env!("CARGO_BIN_EXE_scheidegg")]).args(scene.arguments(&folder));
        let done = limited.output().unwrap();
        after_full(&scene, &folder, &old, &done, blocks * 512);
        fs::remove_dir_all(&folder).unwrap();
    }
}

/// Tables of frames that are too large end where there was room, and say so.
#[test]
fn a_limit_on_files_leaves_the_beginning_of_a_table_of_frames() {
    let scene = Scene::new();
    let folder = scene.folder("tables");
    for (name, blocks) in [("f.csv", 8), ("f.npz", 24), ("f.npz", 100_000)] {
        let path = folder.join(name);
        let script = format!("ulimit -f {blocks} && exec \"$@\"");
        let mut limited = Command::new("sh");
        limited.args(["-c", &script, "sh", env!("CARGO_BIN_EXE_scheidegg"), "find", "--json", "--pedestal"]);
        limited.args([&scene.pedestal, "--data", &scene.data, "--frames-out", path.to_str().unwrap()]);
        let done = limited.output().unwrap();
        let said: serde_json::Value = serde_json::from_slice(&done.stdout).unwrap();
        let all = said["frames"].as_u64().unwrap();
        if blocks == 100_000 {
            assert!(done.status.success() && path.exists(), "{}", stderr(&done));
            continue;
        }
        assert_eq!(done.status.code(), Some(1));
        let part = folder.join(name.replace('.', ".partial."));
        let words = stderr(&done);
        assert!(words.contains(part.to_str().unwrap()) && words.contains("ulimit -f"), "{words}");
        assert!(!path.exists() && hidden(&folder).is_empty());
        let content = fs::read(&part).unwrap();
        let text = String::from_utf8_lossy(&content);
        let frames = match name {
            "f.csv" => text.lines().count() as u64 - 1,
            _ => text.split("'shape': (").nth(1).unwrap().split(',').next().unwrap().parse().unwrap(),
        };
        assert!(frames > 0 && frames < all, "{frames} of {all}");
        assert!(words.contains(&format!("up to and with frame {} only", frames - 1)), "{words}");
    }
}

/// A file system of so many bytes, mounted for the run only; its files are copied out of it at the end.
#[test]
fn a_full_disk_at_any_size_leaves_whole_files_or_none() {
    let may = Command::new("unshare").args(["-m", "-r", "true"]).output();
    if !may.is_ok_and(|o| o.status.success()) {
        println!("SKIPPED: this system mounts no file system for a user");
        return;
    }
    let (mut dice, scene) = (Dice::new(), Scene::new());
    for round in 0..rounds() {
        let (folder, after) = (scene.folder(&format!("disk{round}")), scene.folder(&format!("after{round}")));
        let old = scene.old(&after, &mut dice);
        let bytes = 16_384 + dice.below(scene.bytes * 5);
        let script = format!(
            "mount -t tmpfs -o size={bytes} tmpfs {f} && cp {a}/. {f} -R && \"$@\"; code=$?; cp -R {f}/. {a}; exit $code",
            f = folder.display(),
            a = after.display()
        );
        let mut small = Command::new("unshare");
        small.args(["-m", "-r", "sh", "-c", &script, "sh", env!("CARGO_BIN_EXE_scheidegg")]);
        let done = small.args(scene.arguments(&folder)).output().unwrap();
        after_full(&scene, &after, &old, &done, 0);
        fs::remove_dir_all(&after).unwrap();
    }
}

/// What holds after a run for some of whose results there was no room.
fn after_full(scene: &Scene, folder: &Path, old: &[&str], done: &Output, room: u64) {
    let words = format!("{room} bytes, {:?}: {}", done.status, stderr(done));
    let found = scene.look(folder, old);
    assert_eq!(hidden(folder), [""; 0], "{words}");
    let whole = |name: &str| found.contains(&(name.to_string(), scene.expected.len()));
    match done.status.code() {
        Some(0) => assert!(RESULTS.iter().all(|name| whole(name)), "{found:?}: {words}"),
        Some(1) => {
            assert!(
                stderr(done).contains("ulimit -f") || stderr(done).contains("free some space"),
                "{words}"
            );
            // What fits is there, under a name that says that it is a part.
            for name in RESULTS.into_iter().filter(|name| !whole(name)) {
                let part = name.replace('.', ".partial.");
                let there = found.iter().find(|f| f.0 == part).map(|f| f.1);
                assert!(room < 400_000 || there.is_some_and(|n| n > 0), "{part}: {found:?}: {words}");
            }
            // Whatever is under its own name in place of an old file is complete.
            for name in old {
                let there = fs::read(folder.join(name)).unwrap();
                assert!(there == OLD || whole(name), "{name} was replaced by a part: {words}");
            }
            for (name, clusters) in &found {
                let part = name.contains(".partial.");
                assert!(part || *clusters == scene.expected.len(), "{name} is a part: {found:?}: {words}");
            }
        }
        _ => panic!("{words}"),
    }
}
