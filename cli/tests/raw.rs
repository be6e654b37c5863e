//! `find` on SLS raw runs: a real JUNGFRAU module, ports, gains, faults.

mod common;

use std::fs;
use std::path::Path;

use common::{clusters, fails, json, real_data};
use scheidegg::io::raw::Detector;
use scheidegg::io::{NpySource, OpenOptions, RawOptions, RawWriter, Source, open_source};
use scheidegg::{FrameBuf, FrameOwner, Shape};

/// Six frames train, the rest is searched.
fn find(master: &Path, out: &Path, more: &[&str]) -> serde_json::Value {
    let (master, out) = (master.to_str().unwrap(), out.to_str().unwrap());
    let files = ["find", "--dark", master, "--data", master, "--out", out];
    let six = ["--pedestal-samples", "6", "--first", "6", "--json"];
    json(files.iter().chain(&six).chain(more))
}

fn all_frames(source: &mut dyn Source) -> FrameBuf {
    let mut buf = FrameBuf::new(source.shape(), source.remaining().unwrap() as usize);
    source.read(&mut buf).unwrap();
    buf
}

/// Writes frames as a JUNGFRAU run, a module through one port or two.
fn write(dir: &Path, name: &str, ports: usize, frames: &FrameBuf) -> std::path::PathBuf {
    let options =
        RawOptions { ports, max_frames_per_file: 3, ..RawOptions::new(Detector::Jungfrau, frames.shape()) };
    let mut run = RawWriter::create(dir, name, &options).unwrap();
    let frames = frames.frames();
    (0..frames.len()).for_each(|k| run.push(frames.number(k), frames.frame(k)).unwrap());
    run.finish().unwrap()
}

#[test]
fn one_port_and_two_ports_give_the_same_clusters() {
    let dir = tempfile::tempdir().unwrap();
    // Real frames where they are, simulated ones everywhere.
    let simulated = dir.path().join("s");
    let asked = "simulate --rows 512 --cols 1024 --photons 2000 --darks 1 --frames 10 --json --out";
    json(asked.split(' ').chain([simulated.to_str().unwrap()]));
    let mut runs = vec![all_frames(&mut NpySource::open(&simulated.join("data.npy")).unwrap())];
    if let Some(real) = real_data("jungfrau") {
        for name in ["jungfrau_single_master_0.json", "jungfrau_double_master_0.json"] {
            let mut source = open_source(&real.join(name), &OpenOptions::default()).unwrap();
            assert_eq!(source.shape(), Shape { rows: 512, cols: 1024 });
            runs.push(all_frames(&mut *source));
        }
    }
    for frames in &runs {
        assert_eq!(frames.len(), 10);
        let said = [1, 2].map(|ports| {
            let master = write(dir.path(), &format!("p{ports}"), ports, frames);
            let back = all_frames(&mut *open_source(&master, &OpenOptions::default()).unwrap());
            assert!(back.frames().as_slice() == frames.frames().as_slice(), "frames through {ports} ports");
            let out = dir.path().join(format!("p{ports}.clust"));
            (find(&master, &out, &[])["clusters"].as_u64().unwrap(), fs::read(out).unwrap())
        });
        assert!(said[0].0 > 100 && said[0] == said[1], "{} and {} clusters", said[0].0, said[1].0);
    }
}

#[test]
fn the_real_module_is_searched_through_one_port_and_through_two() {
    let Some(real) = real_data("jungfrau") else { return };
    let dir = tempfile::tempdir().unwrap();
    for name in ["single", "double"] {
        let out = dir.path().join("out.npz");
        let said = find(&real.join(format!("jungfrau_{name}_master_0.json")), &out, &[]);
        assert_eq!((&said["frames"], &said["training"]["frames"]), (&4.into(), &6.into()));
        assert_eq!((&said["first_frame"], &said["last_frame"]), (&7.into(), &10.into()));
        assert_eq!(said["health"]["lost_packets"], 0);
        // The stuck pixels, at the same place through one port and through two.
        assert_eq!(said["pedestal"]["quiet_pixels"], 2);
        assert!(said["warnings"].to_string().contains("(48, 421), (255, 175)"), "{said}");
        assert!(clusters(&out, "3").iter().all(|c| c.2 < 512 && c.1 < 1024));
    }
}

#[test]
fn the_malformed_master_is_refused_by_its_key() {
    let Some(file) = real_data("masters/malformed_jungfrau_master_0.json") else { return };
    let file = file.to_str().unwrap();
    for args in
        [vec!["info", file], vec!["find", "--dark", file, "--data", file, "--first", "1", "--out", "x.npz"]]
    {
        let said = fails(args, 1);
        assert!(
            said.contains("malformed_jungfrau_master_0.json") && said.contains("\"Image Size in bytes\""),
            "{said}"
        );
    }
}

#[test]
fn gains_are_masked_and_counted_or_kept() {
    let dir = tempfile::tempdir().unwrap();
    let shape = Shape { rows: 256, cols: 256 };
    let mut frames = FrameBuf::new(shape, 10);
    for k in 0..10u64 {
        frames
            .push(k, |pixels| {
                for (i, p) in pixels.iter_mut().enumerate() {
                    *p = 1000 + ((i as u64 * 7919 + k * 104_729) % 17) as u16;
                }
                // Gain 1 in a data frame: not charge.
                pixels[shape.cols * 100 + 50] |= if k == 8 { 0x4000 } else { 0 };
                Ok(None)
            })
            .unwrap();
    }
    let master = write(dir.path(), "gain", 1, &frames);
    let out = dir.path().join("o.npz");
    let said = find(&master, &out, &[]);
    assert_eq!((&said["health"]["gain_pixels"], &said["clusters"]), (&1.into(), &0.into()), "{said}");
    let said = find(&master, &out, &["--gain", "keep"]);
    assert_eq!(said["health"]["gain_pixels"], 0, "{said}");
}

/// Darks and data of another region of interest, another forced gain, another exposure.
#[test]
fn frames_that_do_not_go_together_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let shape = Shape { rows: 16, cols: 24 };
    let run = |name: &str, change: &dyn Fn(&mut String, &mut Vec<u8>)| {
        let options = RawOptions::new(Detector::Jungfrau, shape);
        let mut writer = RawWriter::create(dir.path(), name, &options).unwrap();
        for n in 0..30u16 {
            let pixels: Vec<u16> = (0..384).map(|i| 3000 + (i * 7 + n * 13) % 11).collect();
            writer.push(u64::from(n) + 1, &pixels).unwrap();
        }
        let master = writer.finish().unwrap();
        let data = dir.path().join(format!("{name}_d0_f0_0.raw"));
        let (mut text, mut bytes) = (fs::read_to_string(&master).unwrap(), fs::read(&data).unwrap());
        change(&mut text, &mut bytes);
        fs::write(&master, text).unwrap();
        fs::write(data, bytes).unwrap();
        master.display().to_string()
    };
    let roi = |x: usize| {
        move |text: &mut String, _: &mut Vec<u8>| {
            *text = text.replace("\"x\": 24", "\"x\": 48").replace(": 768", ": 1536");
            let last = x + 23;
            for (key, value) in [("xmin", x), ("xmax", last), ("ymin", 0), ("ymax", 15)] {
                *text = text.replace(&format!("\"{key}\": 4294967295"), &format!("\"{key}\": {value}"));
            }
        }
    };
    let forced = |_: &mut String, bytes: &mut Vec<u8>| {
        bytes.chunks_mut(112 + 768).for_each(|frame| frame[41] = 0x10);
    };
    let longer = |text: &mut String, _: &mut Vec<u8>| *text = text.replace("\"100000ns\"", "\"200000ns\"");
    let (plain, left, right) = (run("plain", &|_, _| {}), run("left", &roi(0)), run("right", &roi(9)));
    let (held, long) = (run("held", &forced), run("long", &longer));
    let out = dir.path().join("o.clust").display().to_string();
    let pedestal = dir.path().join("p.npz").display().to_string();
    let find = |dark: [&str; 2], data: &str| {
        ["find", dark[0], dark[1], "--data", data, "--out", &out, "--json"].map(String::from)
    };
    for (dark, data, part) in [
        (&left, &right, "region of interest: columns 0 to 23, rows 0 to 15 here, columns 9 to 32"),
        (&plain, &left, "size of the whole detector"),
        (&plain, &held, "gain: switching by itself here, forced to G1"),
    ] {
        let said = fails(find(["--dark", dark], data), 1);
        assert!(said.contains(part) && said.contains("or --force to take them"), "{said}");
        json(["train", "--dark", dark, "--out", &pedestal, "--json"]);
        let said = fails(find(["--pedestal", &pedestal], data), 1);
        assert!(said.contains(part) && said.contains("p.npz"), "{said}");
        let forced =
            json(find(["--pedestal", &pedestal], data).iter().map(String::as_str).chain(["--force"]));
        assert!(forced["warnings"].to_string().contains(part), "{forced}");
    }
    let said = json(find(["--dark", &plain], &long));
    assert!(said["warnings"].to_string().contains("exposure: 100000ns here, 200000ns in"), "{said}");
    let same = run("same", &roi(0));
    let said = json(find(["--dark", &left], &same));
    let warned = said["warnings"].to_string();
    assert!(!warned.contains(" here, ") && !warned.contains("--force"), "{warned}");
}
