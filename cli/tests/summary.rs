//! Snapshots of what runs say: the summary for a reader and as JSON. `INSTA_UPDATE=always` takes what is said now.

mod common;

use std::fs;
use std::path::Path;

use common::{command, stderr, stdout};
use serde_json::Value;

/// Small files of every kind, with faults of every kind.
fn folder() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let at = |words: &str| {
        let o = command(words.split(' ')).current_dir(dir.path()).output().unwrap();
        assert!(o.status.success(), "{words}: {}", stderr(&o));
    };
    at(
        "simulate --out . --rows 20 --cols 30 --darks 120 --frames 110 --photons 20 --hot 2 --dead 2 --seed 3",
    );
    at(
        "simulate --out loss --format raw --rows 40 --cols 48 --darks 60 --frames 40 --photons 40 --packet-loss 0.2",
    );
    at("train --dark dark.npy --out p.npz --write-mask mask.npy");
    // Charge beyond what 14 bits hold.
    at(
        "simulate --out bright --rows 20 --cols 30 --darks 120 --frames 30 --photons 3 --energy 120 --pedestal-spread 0 --faultless",
    );
    // The other sign: every value turned over.
    let turned = fs::read(dir.path().join("bright/data.npy")).unwrap();
    let (header, pixels) = turned.split_at(turned.len() - 30 * 600 * 2);
    let values =
        pixels.chunks(2).map(|b| (9310u16).saturating_sub(u16::from_le_bytes([b[0], b[1]])).to_le_bytes());
    fs::write(dir.path().join("turned.npy"), [header.to_vec(), values.flatten().collect()].concat()).unwrap();
    // A JUNGFRAU file with pixels in another gain and a gap.
    let mut dat = Vec::new();
    for k in (0..40u64).filter(|k| *k != 30) {
        dat.extend(k.to_le_bytes());
        dat.extend([0; 8]);
        let value = |i: u64| (3000 + (i * 7 + k * 13) % 40 + if i == 5 { 1 << 14 } else { 0 }) as u16;
        (0..600).for_each(|i| dat.extend(value(i).to_le_bytes()));
    }
    fs::write(dir.path().join("x.dat"), dat).unwrap();
    dir
}

/// Rows whose value depends on the machine or the moment; that they are there is looked at.
const VOLATILE: [&str; 3] = ["rate", "time", "backend"];
const VOLATILE_KEYS: [&str; 5] = ["seconds", "frames_per_second", "stages", "backend", "provenance"];

fn redacted(text: &str) -> String {
    let mut out = String::new();
    let mut after_backend = false;
    for line in text.lines() {
        let name = line.split(' ').next().unwrap_or("");
        // Why a backend was taken stands in lines without a name.
        if name.is_empty() && after_backend {
            continue;
        }
        after_backend = name == "backend";
        match VOLATILE.contains(&name) {
            true => out += &format!("{name:<12} [...]\n"),
            false => out += &format!("{line}\n"),
        }
    }
    out
}

fn steady(value: &mut Value) {
    match value {
        Value::Object(map) => {
            for (key, value) in map.iter_mut() {
                match VOLATILE_KEYS.contains(&key.as_str()) {
                    true => *value = Value::from("[...]"),
                    false => steady(value),
                }
            }
        }
        Value::Array(list) => list.iter_mut().for_each(steady),
        _ => {}
    }
}

fn snapshot(dir: &Path, name: &str, words: &str) {
    let words: Vec<&str> = words.split(' ').collect();
    let o = command(&words).current_dir(dir).output().unwrap();
    insta::assert_snapshot!(format!("{name}_text"), redacted(&stdout(&o)) + &stderr(&o));
    let o = command(words.iter().chain(&["--json"])).current_dir(dir).output().unwrap();
    let mut value: Value = serde_json::from_slice(&o.stdout).unwrap();
    steady(&mut value);
    insta::assert_snapshot!(format!("{name}_json"), format!("{value:#}"));
}

#[test]
fn runs_say_what_they_said() {
    let dir = folder();
    let dark = "find --dark dark.npy --data data.npy";
    for (name, words) in [
        (
            "ordinary",
            format!("{dark} --out o.npz --out o.clust --report r --save-pedestal s.npz --write-mask m.npy"),
        ),
        ("losses", "find --dark loss/dark_master_0.json --data loss/data_master_0.json --out o.npy".into()),
        (
            "modes",
            format!(
                "{dark} --out o.npz --test2 --lanes 2 --noise-floor 2.5 --ties first --noise fixed --payload f32 --precision f64"
            ),
        ),
        (
            "saved_pedestal",
            "find --pedestal p.npz --mask mask.npy --data data.npy --first 10 --frames 200 --out o.npz"
                .into(),
        ),
        ("few_darks", format!("{dark} --dark-frames 12 --out o.npz")),
        ("bright", "find --dark bright/dark.npy --data bright/data.npy --payload i16 --out o.npz".into()),
        ("turned", "find --dark bright/dark.npy --data turned.npy --out o.npz".into()),
        ("gain", "find --dark x.dat --data x.dat --dat-shape 20x30 --first 20 --out o.npz".into()),
        ("trained", "train --dark dark.npy --out t.npz --report r --write-mask m.npy".into()),
    ] {
        snapshot(dir.path(), name, &words);
    }
}
