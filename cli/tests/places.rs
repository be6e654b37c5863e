//! Where results go: names that are taken, links, pipes, devices, what cannot be written; and words that cannot be said.
#![cfg(unix)]

mod common;

use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use common::{clusters, command, fails, golden_files, json, listening, names, run, stderr, stdout};

struct Scene {
    dir: tempfile::TempDir,
    pedestal: String,
    data: String,
}

impl Scene {
    fn new() -> Scene {
        let dir = tempfile::tempdir().unwrap();
        let (dark, data) = golden_files(dir.path(), "moench");
        let pedestal = dir.path().join("pedestal.npz").to_str().unwrap().to_string();
        json(["train", "--dark", dark.to_str().unwrap(), "--out", &pedestal, "--json"]);
        fs::create_dir(dir.path().join("out")).unwrap();
        Scene { dir, pedestal, data: data.to_str().unwrap().into() }
    }

    fn out(&self) -> PathBuf {
        self.dir.path().join("out")
    }

    fn at(&self, name: &str) -> String {
        self.out().join(name).to_str().unwrap().into()
    }

    /// `find` with these options.
    fn find(&self, more: &[&str]) -> Vec<String> {
        let base = ["find", "--backend", "cpu", "--pedestal", &self.pedestal, "--data", &self.data];
        base.iter().chain(more).map(|s| s.to_string()).collect()
    }
}

#[test]
fn a_name_that_is_taken_can_be_kept() {
    let scene = Scene::new();
    let at = |name: &str| scene.at(name);
    fs::create_dir(at("r")).unwrap();
    for name in ["x.npz", "r/report.html", "p.svg", "dark.npy", "data_master_0.json", "clusters.clust"] {
        fs::write(at(name), "old").unwrap();
    }
    let out = scene.out().to_str().unwrap().to_string();
    let p = scene.pedestal.as_str();
    for (args, named) in [
        (scene.find(&["--out", &at("x.npz")]), "--out"),
        (scene.find(&["--out", &at("y.npz"), "--report", &at("r")]), "--report"),
        (vec!["train".into(), "--dark".into(), scene.data.clone(), "--out".into(), at("x.npz")], "--out"),
        (["simulate", "--out", &out].map(String::from).into(), "--out"),
        (["simulate", "--format", "raw", "--out", &out].map(String::from).into(), "--out"),
        (["demo", "--out", &out].map(String::from).into(), "--out"),
        (["bench", "--dark", p, "--data", p, "--plot", &at("p.svg")].map(String::from).into(), "--plot"),
    ] {
        let said = fails(args.iter().map(String::as_str).chain(["--no-clobber"]), 2);
        assert!(said.contains(named) && said.contains("(--no-clobber)"), "{said}");
    }
    let there = ["clusters.clust", "dark.npy", "data_master_0.json", "p.svg", "r", "x.npz"];
    assert_eq!(names(&scene.out()), there);
    assert_eq!(fs::read(at("x.npz")).unwrap(), b"old");
    // Where nothing has the name, nothing is different.
    json(scene.find(&["--out", &at("y.npz"), "--no-clobber", "--json"]));
    assert!(!clusters(Path::new(&at("y.npz")), "3").is_empty());
}

#[test]
fn links_lead_on_and_what_cannot_be_written_is_refused() {
    let scene = Scene::new();
    let at = |name: &str| scene.at(name);
    fs::create_dir(at("store")).unwrap();
    symlink("store/real.clust", at("link.clust")).unwrap();
    for _ in 0..2 {
        let said = json(scene.find(&["--out", &at("link.clust"), "--json"]));
        assert_eq!(said["written"][0], at("link.clust"));
        assert!(Path::new(&at("link.clust")).is_symlink());
        assert!(!clusters(Path::new(&at("store/real.clust")), "3").is_empty());
    }
    fs::write(at("ro.npz"), "old").unwrap();
    let mut mode = fs::metadata(at("ro.npz")).unwrap().permissions();
    mode.set_readonly(true);
    fs::set_permissions(at("ro.npz"), mode).unwrap();
    fs::create_dir(at("folder.npz")).unwrap();
    let pedestal = ["--out", &at("x.npz"), "--save-pedestal", &at("ro.npz")];
    for (options, words) in [
        (&["--out", &at("ro.npz")][..], "ro.npz: is read-only"),
        (&pedestal, "ro.npz: is read-only"),
        (&["--out", &at("folder.npz")], "folder.npz: is a folder"),
        (&["--out", &at("none/x.npz")], "the folder"),
        (&["--out", &at("x.txt")], "x.txt: clusters are written to"),
        (&["--out", "/proc/x.npz"], "x.npz: "),
    ] {
        let said = fails(scene.find(options), 1);
        assert!(said.contains(words), "{said}");
    }
    fs::create_dir(at("folder.npy")).unwrap();
    // Before a pedestal is read, and hours of work.
    for (option, name, words) in [
        ("--save-pedestal", "ro.npz", "ro.npz: is read-only"),
        ("--write-mask", "folder.npy", "folder.npy: is a folder"),
    ] {
        let none = ["find", "--pedestal", "none.npz", "--data", &scene.data, "--out", &at("x.npz")];
        let said = fails(none.iter().chain(&[option, &at(name)]), 1);
        assert!(said.contains(words), "{said}");
        let none = ["train", "--dark", "none.npy", "--out", &at("x.npz"), "--write-mask", &at("folder.npy")];
        assert!(fails(none, 1).contains("folder.npy: is a folder"));
    }
    let there = ["folder.npy", "folder.npz", "link.clust", "link.clust.json", "ro.npz", "store"];
    assert_eq!(names(&scene.out()), there);
    assert_eq!(fs::read(at("ro.npz")).unwrap(), b"old");
}

#[test]
fn a_pipe_takes_clusters_as_they_come() {
    let scene = Scene::new();
    let at = |name: &str| scene.at(name);
    json(scene.find(&["--out", &at("whole.clust"), "--json"]));
    let whole = fs::read(at("whole.clust")).unwrap();
    if !Command::new("mkfifo").arg(at("f.clust")).arg(at("f.npz")).status().is_ok_and(|s| s.success()) {
        println!("SKIPPED: no mkfifo");
        return;
    }
    let fifo = at("f.clust");
    let reader = std::thread::spawn(move || fs::read(fifo).unwrap());
    json(scene.find(&["--out", &at("f.clust"), "--json"]));
    assert!(reader.join().unwrap() == whole);
    let said = fails(scene.find(&["--out", &at("f.npz")]), 1);
    assert!(said.contains("f.npz: is a FIFO") && said.contains(".clust"), "{said}");
    // A reader that goes away early costs this result, and no other.
    let fifo = at("f.clust");
    let reader = std::thread::spawn(move || drop(File::open(fifo).unwrap()));
    let o = run(scene.find(&["--out", &at("f.clust"), "--out", &at("beside.clust")]));
    reader.join().unwrap();
    assert!(stderr(&o).contains("its reader has gone") && !stderr(&o).contains("panicked"), "{}", stderr(&o));
    assert_eq!(o.status.code(), Some(1));
    // A result beside it whose name cannot be given in the end costs no summary. More clusters than a pipe holds: the run
    // waits for its reader with them, and has looked at all places before.
    let mask = ["--out", &at("f.clust"), "--size", "9", "--write-mask", &at("m.npy")];
    let child = command(scene.find(&mask)).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut fifo = File::open(at("f.clust")).unwrap();
    fs::create_dir(at("m.npy")).unwrap();
    std::io::copy(&mut fifo, &mut std::io::sink()).unwrap();
    let o = child.wait_with_output().unwrap();
    assert_eq!(o.status.code(), Some(1));
    assert!(stderr(&o).contains("m.npy: is a folder") && stdout(&o).contains("clusters "), "{}", stderr(&o));
    // Standard output as a result: the summary goes to standard error.
    let o = run(scene.find(&["--out", "/dev/stdout"]));
    assert!(o.status.success() && o.stdout == whole, "{}", stderr(&o));
    assert!(stderr(&o).contains("clusters     1073"), "{}", stderr(&o));
    let o = run(scene.find(&["--out", &at("too.npz"), "--out", "/dev/stdout"]));
    assert!(o.status.success() && o.stdout == whole, "{}", stderr(&o));
    let to = File::create(at("redirected")).unwrap();
    let o =
        command(scene.find(&["--out", "/dev/stdout"])).stdout(to).stderr(Stdio::piped()).output().unwrap();
    assert!(o.status.success() && fs::read(at("redirected")).unwrap() == whole, "{}", stderr(&o));
    let o = run(scene.find(&["--out", "/dev/null"]));
    assert!(o.status.success() && stdout(&o).contains("clusters     1073"), "{}", stderr(&o));
    assert!(names(&scene.out()).iter().all(|n| !n.starts_with('.')));
}

/// Fault: a panic (101) where a line cannot be printed.
#[cfg(target_os = "linux")]
#[test]
fn what_cannot_be_said_never_ends_a_run() {
    let scene = Scene::new();
    let full = || File::options().write(true).open("/dev/full").unwrap();
    let find = scene.find(&["--out", &scene.at("x.npz")]);
    let find: Vec<&str> = find.iter().map(String::as_str).collect();
    for (args, to_stdout, status) in [
        (&find[..], true, 1),
        (&find, false, 0),
        (&["--help"], true, 1),
        (&["help", "find"], true, 1),
        (&["--version"], true, 1),
        (&["find", "--nonsense"], false, 2),
        (&["info", "nosuch"], false, 1),
        (&["info", &scene.data], true, 1),
        (&["backends"], true, 1),
    ] {
        let mut c = command(args);
        match to_stdout {
            true => c.stdout(full()).stderr(Stdio::piped()),
            false => c.stdout(Stdio::piped()).stderr(full()),
        };
        let o = c.output().unwrap();
        assert_eq!(o.status.code(), Some(status), "{args:?}: {}", stderr(&o));
        if to_stdout {
            assert!(stderr(&o).contains("scheidegg: standard output: "), "{args:?}: {}", stderr(&o));
        }
    }
    assert!(!clusters(Path::new(&scene.at("x.npz")), "3").is_empty());
}

/// Fault: `nohup` and the background jobs of a script are stopped all the same.
#[cfg(target_os = "linux")]
#[test]
fn a_signal_that_was_ignored_stays_ignored() {
    let scene = Scene::new();
    let set = scheidegg_conformance::golden::set("moench").unwrap();
    let long = scene.dir.path().join("long.npy");
    common::write_endless_npy(&long, set.shape);
    for (signal, ignored) in [("HUP", true), ("INT", true), ("HUP", false)] {
        let out = scene.at("x.clust");
        let find = ["find", "--backend", "oracle", "--threads", "1", "--pedestal", &scene.pedestal, "--json"];
        let files = ["--data", long.to_str().unwrap(), "--out", &out];
        let args = find.iter().chain(&files);
        let mut c = if ignored {
            let script = format!("trap '' {signal}; exec \"$@\"");
            let mut c = Command::new("sh");
            c.args(["-c", &script, "sh", env!("CARGO_BIN_EXE_scheidegg")]).args(args);
            c
        } else {
            listening(args)
        };
        let mut child = c.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        // The hidden file is there as soon as handlers are.
        while names(&scene.out()).is_empty() {
            assert!(child.try_wait().unwrap().is_none(), "ended before it began");
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
        let send = |signal: &str| {
            let id = child.id().to_string();
            assert!(Command::new("kill").args([&format!("-{signal}"), &id]).status().unwrap().success());
        };
        send(signal);
        // What is ignored is so at once; only what is heard ends a run that has no end.
        if ignored {
            send("TERM");
        }
        let o = child.wait_with_output().unwrap();
        let said: serde_json::Value = serde_json::from_slice(&o.stdout)
            .unwrap_or_else(|e| panic!("{e}: {}", String::from_utf8_lossy(&o.stderr)));
        let (by, status) = if ignored { ("SIGTERM", 143) } else { ("SIGHUP", 129) };
        assert_eq!((&said["stopped_by"], o.status.code()), (&by.into(), Some(status)));
        // A run that is stopped before its first frame leaves nothing.
        let left = [out.clone(), out + ".json"].map(|path| fs::remove_file(path).is_ok());
        assert_eq!(left, [said["frames"] != 0; 2]);
    }
}

/// A simulation that is stopped leaves the files of an earlier one alone.
#[test]
fn a_simulation_that_is_stopped_lies_beside_an_earlier_one() {
    let scene = Scene::new();
    for format in ["npy", "raw"] {
        let folder = scene.out().join(format);
        let out = folder.to_str().unwrap();
        let base = ["simulate", "--out", out, "--format", format, "--rows", "40", "--cols", "40", "--json"];
        json(base.iter().chain(&["--darks", "5", "--frames", "5"]));
        let before: Vec<_> =
            names(&folder).iter().map(|n| (n.clone(), fs::read(folder.join(n)).unwrap())).collect();
        let child = listening(base.iter().chain(&["--darks", "5", "--frames", "100000000"]));
        let mut child = { child }.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        while !names(&folder).iter().any(|n| n.starts_with(".data")) {
            assert!(child.try_wait().unwrap().is_none(), "ended before it began");
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
        Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap();
        let o = child.wait_with_output().unwrap();
        assert_eq!(o.status.code(), Some(143), "{}", stderr(&o));
        let said: serde_json::Value = serde_json::from_slice(&o.stdout).unwrap();
        assert_eq!(said["stopped_by"], "SIGTERM");
        for (name, bytes) in &before {
            assert!(fs::read(folder.join(name)).unwrap() == *bytes, "{name} was replaced");
        }
        for named in ["dark", "data", "parameters"] {
            let path = Path::new(said[named].as_str().unwrap());
            assert!(path.exists() && path.to_str().unwrap().contains(".partial"), "{said}");
        }
        let info = json(["info", said["data"].as_str().unwrap(), "--json"]);
        assert!(info["warnings"].as_array().unwrap().is_empty(), "{info}");
        assert!(names(&folder).iter().all(|n| !n.starts_with('.')));
    }
}
