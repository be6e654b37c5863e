//! What `info` tells of results, whole and broken.

mod io_common;

use std::fs;
use std::path::Path;

use io_common::*;
use scheidegg::io::{Info, NpyFrames, OpenOptions, info, open_sink, save_pedestal, write_image};
use scheidegg::provenance::Provenance;
use scheidegg::{ClusterSize, ClustersBuf, Frames, Params, Payload, Precision, Shape, Trainer};

const SHAPE: Shape = Shape { rows: 20, cols: 20 };

fn of(path: &Path) -> Info {
    info(path, &OpenOptions::default(), None, None).unwrap()
}

fn row<'a>(i: &'a Info, label: &str) -> &'a str {
    i.rows.iter().find(|r| r.0 == label).map_or("", |r| &r.1)
}

/// Clusters whose centre is the largest value, `values` of a payload at a time.
fn clusters(size: ClusterSize, payload: Payload, centre: f32) -> ClustersBuf {
    let mut buf = ClustersBuf::new(SHAPE, size, payload);
    for number in 4..9 {
        let mut records = Vec::new();
        for k in 0..number as u16 {
            records.extend(k.to_le_bytes());
            records.extend(3u16.to_le_bytes());
            for i in 0..size.pixels() {
                let v = if i == size.centre() { centre } else { 20.0 - 7.0 * i as f32 };
                match payload {
                    Payload::I32 => records.extend((v as i32).to_le_bytes()),
                    Payload::I16 => records.extend((v as i16).to_le_bytes()),
                    Payload::F16 => records.extend(half::f16::from_f32(v).to_le_bytes()),
                    Payload::F32 => records.extend((v * 1.2345).to_le_bytes()),
                }
            }
        }
        buf.push_frame(number, &records);
    }
    buf
}

fn write(path: &Path, size: ClusterSize, payload: Payload, centre: f32) {
    let _ = fs::remove_file(path);
    let mut sink = open_sink(path, &Params { payload, ..Params::new(size) }).unwrap();
    sink.write(&clusters(size, payload, centre).view().into()).unwrap();
    sink.finish(&Provenance::default()).unwrap();
    // As others write it.
    let _ = fs::remove_file(format!("{}.json", path.display()));
}

#[test]
fn a_cluster_file_is_guessed_where_one_window_fits() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.clust");
    for (size, payload) in [((5, 5), Payload::I16), ((3, 3), Payload::I32), ((2, 7), Payload::F32)] {
        let size = ClusterSize::new(size.0, size.1).unwrap();
        write(&path, size, payload, 900.0);
        let i = of(&path);
        assert_eq!(
            (row(&i, "window"), row(&i, "values")),
            (&*size.to_string(), &*payload.to_string()),
            "{i:?}"
        );
        assert_eq!((row(&i, "frames"), row(&i, "clusters"), row(&i, "frame numbers")), ("5", "30", "4 to 8"));
        assert_eq!(row(&i, "checksum"), "none beside it");
        assert!(i.faults.is_empty() && i.warnings[0].contains("is a guess: no other"), "{i:?}");
        let told = info(&path, &OpenOptions::default(), Some(size), Some(payload)).unwrap();
        assert!(told.faults.is_empty() && told.warnings.is_empty(), "{told:?}");
    }
    // What is told wrongly is doubted, or ends somewhere else than the file.
    let size = ClusterSize::new(2, 7).unwrap();
    let i = info(&path, &OpenOptions::default(), Some(size), Some(Payload::I32)).unwrap();
    assert!(i.faults.is_empty() && i.warnings[0].contains("are they really i32, and not f32?"), "{i:?}");
    let i = info(&path, &OpenOptions::default(), Some(ClusterSize::square(4).unwrap()), None).unwrap();
    assert!(i.faults[0].contains("is it really 4x4"), "{i:?}");
    // Nothing to go by.
    fs::write(&path, [1, 2, 3]).unwrap();
    assert!(of(&path).faults[0].contains("no window of 2 to 15 pixels"));
    fs::write(&path, []).unwrap();
    assert!(of(&path).faults.is_empty());
}

#[test]
fn values_at_the_end_of_their_type_are_counted() {
    let dir = tempfile::tempdir().unwrap();
    for (payload, centre, label) in [
        (Payload::I16, 40_000.0, "saturated values"),
        (Payload::I32, 3e9, "saturated values"),
        (Payload::F16, 70_000.0, "values without a number"),
        (Payload::F32, f32::INFINITY, "values without a number"),
    ] {
        for ext in ["npz", "npy"] {
            let path = dir.path().join(format!("a.{ext}"));
            write(&path, ClusterSize::square(3).unwrap(), payload, centre);
            let i = of(&path);
            assert_eq!(row(&i, label), "30", "{i:?}");
            assert!(i.warnings[0].contains("30 values") && i.faults.is_empty(), "{i:?}");
            write(&path, ClusterSize::square(3).unwrap(), payload, 30_000.0);
            assert_eq!(row(&of(&path), label), "");
        }
    }
}

/// Fault: a file that is cut or damaged is told of as if nothing were wrong, or not at all.
#[test]
fn what_is_known_of_a_broken_file_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let size = ClusterSize::square(3).unwrap();
    let cut = |path: &Path, by: usize| {
        let bytes = fs::read(path).unwrap();
        fs::write(path, &bytes[..bytes.len() - by]).unwrap();
    };
    let flip = |path: &Path, at: usize| {
        let mut bytes = fs::read(path).unwrap();
        bytes[at] ^= 4;
        fs::write(path, bytes).unwrap();
    };
    let broken = |path: &Path, kind: &str, fact: (&str, &str), fault: &str| {
        let i = of(path);
        assert_eq!(i.kind, kind, "{i:?}");
        assert_eq!(row(&i, fact.0), fact.1, "{i:?}");
        assert!(i.faults.iter().any(|f| f.contains(fault)), "{i:?}");
        let name = path.file_name().unwrap().to_str().unwrap();
        assert!(i.faults.iter().all(|f| f.contains(name)), "{i:?}");
        assert_eq!(i.files[0], path);
    };

    write(&at("a.clust"), size, Payload::I32, 900.0);
    cut(&at("a.clust"), 7);
    broken(&at("a.clust"), "clusters", ("bytes of the file", "1233"), "no window of 2 to 15 pixels");
    let i = info(&at("a.clust"), &OpenOptions::default(), Some(size), None).unwrap();
    assert_eq!(
        (row(&i, "frames"), row(&i, "clusters")),
        ("4 before the fault below", "22 before the fault below")
    );
    assert!(i.faults[0].contains("ends inside frame 8"), "{i:?}");

    // A damaged file beside it: the clusters are told all the same.
    write(&at("b.clust"), size, Payload::I32, 900.0);
    fs::write(at("b.clust.json"), "{\"content\": {\"bytes\": 12").unwrap();
    broken(&at("b.clust"), "clusters", ("clusters", "30"), "b.clust.json: is not what a run writes");
    fs::write(at("b.clust.json"), r#"{"host": "h", "content": {"bytes": 1240, "crc32": 5}}"#).unwrap();
    broken(&at("b.clust"), "clusters", ("frames", "4 before the fault below"), "its content is damaged");
    assert_eq!(of(&at("b.clust")).provenance.unwrap()["host"], "h");

    write(&at("a.npz"), size, Payload::I32, 900.0);
    // The first array is the data.
    flip(&at("a.npz"), 300);
    broken(&at("a.npz"), "clusters", ("clusters", "0 of 30 before the fault below"), "array data is damaged");
    write(&at("b.npz"), size, Payload::I32, 900.0);
    cut(&at("b.npz"), 9);
    broken(
        &at("b.npz"),
        "a .npz file",
        ("bytes of the file", &(fs::metadata(at("b.npz")).unwrap().len()).to_string()),
        "not a whole .npz",
    );

    let mut trainer = Trainer::new(SHAPE);
    let pixels: Vec<u16> = (0..5).flat_map(|n| image(SHAPE, n)).collect();
    trainer.add(Frames::new(&pixels, SHAPE).unwrap()).unwrap();
    let pedestal = trainer.finish(Precision::F32).unwrap();
    save_pedestal(at("p.npz"), &pedestal).unwrap();
    let i = of(&at("p.npz"));
    assert_eq!((row(&i, "checksum"), row(&i, "rows x cols")), ("checked", "20 x 20"));
    flip(&at("p.npz"), 2000);
    broken(&at("p.npz"), "a pedestal", ("rows x cols", ""), "is damaged");

    let mut frames = NpyFrames::create(at("f.npy"), SHAPE).unwrap();
    (0..3).for_each(|n| frames.push(&image(SHAPE, n)).unwrap());
    frames.finish().unwrap();
    cut(&at("f.npy"), 3);
    broken(&at("f.npy"), "frames, .npy", ("frames", "2 before the fault below"), "ends inside frame 2");
    cut(&at("f.npy"), fs::metadata(at("f.npy")).unwrap().len() as usize - 50);
    broken(&at("f.npy"), "a .npy file", ("bytes of the file", "50"), "ends inside its header");
    write_image(at("g.npy"), pedestal.mean().view()).unwrap();
    assert!(of(&at("g.npy")).faults.is_empty());
    cut(&at("g.npy"), 1);
    broken(&at("g.npy"), "an array, .npy", ("shape", "20 x 20"), "is cut");

    let master = write_run(dir.path(), &options(16, 20), 6);
    let whole = of(&master);
    assert_eq!(whole.files, ["run_master_0.json", "run_d0_f0_0.raw", "run_d0_f1_0.raw"].map(at));
    assert!(whole.faults.is_empty(), "{whole:?}");
    cut(&at("run_d0_f1_0.raw"), 5);
    broken_run(&of(&master), "5 before the fault below", "run_d0_f1_0.raw");
    for file in ["run_d0_f0_0.raw", "run_d0_f1_0.raw"] {
        fs::remove_file(at(file)).unwrap();
    }
    broken_run(&of(&master), "", "run_master_0.json");
    cut(&master, 30);
    let i = of(&master);
    assert_eq!(i.kind, "the master of an SLS raw run");
    assert!(i.faults[0].contains("run_master_0.json"), "{i:?}");
}

fn broken_run(i: &Info, frames: &str, file: &str) {
    assert_eq!(row(i, "frames"), frames, "{i:?}");
    assert!(i.faults.len() == 1 && i.faults[0].contains(file), "{i:?}");
    assert_eq!(row(i, "detector"), "Moench");
}
