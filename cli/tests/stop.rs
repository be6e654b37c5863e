//! Ctrl-C: what was written is whole.
#![cfg(unix)]

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use common::{json, listening, names, write_npy};
use scheidegg::Shape;
use scheidegg_conformance::golden;

/// A run of the slowest kind: long enough to be interrupted.
const SLOW: [&str; 8] = ["--backend", "oracle", "--threads", "1", "--size", "15", "--update", "serial"];

fn signal(child: &Child) {
    let done = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(done.success());
}

fn wait_for(path: &Path, child: &mut Child) {
    let start = Instant::now();
    while !path.exists() {
        assert!(start.elapsed() < Duration::from_secs(120), "no {}", path.display());
        assert!(child.try_wait().unwrap().is_none(), "ended before {}", path.display());
        sleep(Duration::from_millis(5));
    }
}

/// Dark frames and many data frames.
fn frames(dir: &Path) -> (PathBuf, PathBuf) {
    let set = golden::set("moench").unwrap();
    let (dark, data) = (dir.join("dark.npy"), dir.join("data.npy"));
    write_npy(&dark, set.shape, &set.darks);
    write_npy(&data, Shape { ..set.shape }, &set.data.repeat(100));
    (dark, data)
}

#[test]
fn the_first_ends_the_run_at_a_whole_frame() {
    let dir = tempfile::tempdir().unwrap();
    let (dark, data) = frames(dir.path());
    let at = |name: &str| dir.path().join(name).to_str().unwrap().to_string();
    let (dark, data) = (dark.to_str().unwrap(), data.to_str().unwrap());
    let base = ["find", "--dark", dark, "--data", data, "--json"];
    let (out, pedestal, report) = (at("out.clust"), at("p.npz"), at("report"));
    let files = ["--out", &out, "--save-pedestal", &pedestal, "--report", &report];
    let mut child = listening(base.iter().chain(&SLOW).chain(&files))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    wait_for(Path::new(&pedestal), &mut child);
    sleep(Duration::from_millis(300));
    signal(&child);
    let o = child.wait_with_output().unwrap();
    assert_eq!(o.status.code(), Some(130), "{}", common::stderr(&o));
    let said: serde_json::Value = serde_json::from_slice(&o.stdout).unwrap();
    assert_eq!((&said["stopped"], &said["stopped_by"]), (&true.into(), &"SIGINT".into()));
    let frames = said["frames"].as_u64().unwrap();
    assert!(frames < 12_000, "{frames} frames: nothing was stopped");
    assert_eq!(said["stopped_at_frame"].as_u64(), frames.checked_sub(1));
    assert!(dir.path().join("report/report.html").exists());
    // The same bytes as a run that was asked for so many frames.
    let again = at("again.clust");
    let limit = frames.to_string();
    json(base.iter().chain(&SLOW).chain(&["--out", &again, "--frames", &limit]));
    assert_eq!(fs::read(&out).unwrap(), fs::read(&again).unwrap());
}

#[test]
fn the_second_ends_it_at_once_and_no_output_stands_there() {
    let dir = tempfile::tempdir().unwrap();
    let (dark, data) = frames(dir.path());
    let at = |name: &str| dir.path().join(name).to_str().unwrap().to_string();
    let (dark, data) = (dark.to_str().unwrap(), data.to_str().unwrap());
    let (out, pedestal) = (at("out.clust"), at("p.npz"));
    let base = ["find", "--dark", dark, "--data", data, "--out", &out, "--save-pedestal", &pedestal];
    // On a busy machine a run may come to a whole frame before the second Ctrl-C reaches it. Then it is done and complete,
    // and the next one is tried.
    for _ in 0..10 {
        let mut child = listening(base.iter().chain(&SLOW)).stderr(Stdio::null()).spawn().unwrap();
        wait_for(Path::new(&pedestal), &mut child);
        sleep(Duration::from_millis(100));
        let start = Instant::now();
        while child.try_wait().unwrap().is_none() {
            signal(&child);
            sleep(Duration::from_millis(3));
            assert!(start.elapsed() < Duration::from_secs(60));
        }
        let (code, there) =
            (child.wait().unwrap().code(), names(dir.path()).contains(&"out.clust".to_string()));
        assert!(code == Some(130) || (code, there) == (Some(0), true), "{code:?}, {there}");
        if !there {
            // Nor is anything hidden left.
            assert_eq!(names(dir.path()), ["dark.npy", "data.npy", "p.npz"]);
            return;
        }
        fs::remove_file(&out).unwrap();
        fs::remove_file(&pedestal).unwrap();
    }
    panic!("ten runs came to a whole frame before a second Ctrl-C reached them");
}
