//! What `info` tells of results, whole and broken.

mod io_common;

use std::fs;
use std::path::Path;

use io_common::*;
use scheidegg::io::{
    Facts, Info, NpyFrames, OpenOptions, RawOptions, RawWriter, info, open_sink, save_pedestal,
    save_pedestal_with, write_image,
};
use scheidegg::provenance::Provenance;
use scheidegg::{ClusterSize, ClustersBuf, Frames, Params, Payload, PixelMask, Precision, Shape, Trainer};

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

/// All that is told of a file, line by line; files and complaints without their folder.
fn listing(path: &Path) -> String {
    let i = of(path);
    let folder = format!("{}/", path.parent().unwrap().display());
    let mut lines = vec![i.kind];
    lines.extend(i.rows.iter().map(|(label, value)| format!("{label}: {value}")));
    lines.extend(i.warnings.iter().map(|w| format!("warning: {w}")));
    lines.extend(i.faults.iter().map(|f| format!("fault: {f}")));
    lines.extend(i.files.iter().map(|f| format!("file: {}", f.display())));
    lines.extend(i.provenance.map(|p| format!("host: {}", p["host"])));
    lines.iter().map(|line| line.replace(&folder, "") + "\n").collect()
}

#[test]
fn a_run_is_told_of_as_its_master_and_its_files_say() {
    let dir = tempfile::tempdir().unwrap();
    let o = RawOptions { ports: 2, ..options(16, 20) };
    let master = write_run(dir.path(), &o, 6);
    // Another run in the same folder has files of its own.
    let mut other = RawWriter::create(dir.path(), "other", &o).unwrap();
    other.push(1, &image(o.shape, 1)).unwrap();
    other.finish().unwrap();
    let text = fs::read_to_string(&master).unwrap();
    let told = |from: &str, to: &str| {
        assert!(text.contains(from), "{text}");
        fs::write(&master, text.replace(from, to)).unwrap();
        listing(&master).replace(&format!("{}", fs::metadata(&master).unwrap().len()), "N")
    };
    let whole = told(
        "\"Timing Mode\": \"auto\",",
        "\"Timing Mode\": \"trigger\", \"Readout Speed\": \"half\", \"Mood\": \"good\",",
    );
    let expected = "\
SLS raw run
detector: Moench
master version: 7.2
taken: Thu Jan  1 00:00:00 1970
timing: trigger
exposure: 100000ns
period: 1000000ns
ports, down x across: 2 x 1
UDP ports a module: 2
pixels of a port: 8 x 20
bits of a pixel: 16
frames a data file: 4
frames asked for: 6
frames written, by the master: 6
incomplete frames are: nodiscard
readout speed: half
Mood: good
rows x cols: 16 x 20
port 0: 2 files, 6 frames
port 1: 2 files, 6 frames
packets an image: 1
frames: 6
bytes of the file: N
file: run_master_0.json
file: run_d0_f0_0.raw
file: run_d0_f1_0.raw
file: run_d1_f0_0.raw
file: run_d1_f1_0.raw
";
    assert_eq!(whole, expected);
    let scanned = told("[disabled]", "dac 5, start 1");
    assert!(scanned.contains("\nscan: dac 5, start 1\n"), "{scanned}");
    let none = told("[disabled]", "");
    assert!(!none.contains("\nscan"), "{none}");
    // A detector that is not read here: what its master says is told all the same.
    let rois = "\"Receiver Rois\": [{\"xmin\": 1, \"xmax\": 2, \"ymin\": 3, \"ymax\": 4}, {\"xmin\": 5, \"xmax\": 6, \"ymin\": 7, \"ymax\": 8}], \"Exptime\"";
    fs::write(&master, text.replace("\"Moench\"", "\"Eiger\"").replace("\"Exptime\"", rois)).unwrap();
    let eiger = listing(&master);
    let regions = "\nregion of interest: columns 1 to 2, rows 3 to 4\nregion of interest: columns 5 to 6, rows 7 to 8\n";
    assert!(
        eiger.contains(regions) && eiger.contains("\nwarning: run_master_0.json: taken with Eiger"),
        "{eiger}"
    );
    assert!(!eiger.contains("fault"), "{eiger}");
}

#[test]
fn a_series_is_told_of_with_what_it_lacks() {
    let dir = tempfile::tempdir().unwrap();
    let shape = Shape { rows: 256, cols: 256 };
    for (file, numbers) in [(0, [1u64, 2]), (2, [5, 7])] {
        let frame = |n: &u64| {
            let words = image(shape, *n).iter().flat_map(|w| w.to_le_bytes()).collect::<Vec<_>>();
            [&n.to_le_bytes()[..], &[0; 8], &words].concat()
        };
        let all: Vec<u8> = numbers.iter().flat_map(frame).collect();
        fs::write(dir.path().join(format!("x_f{file:05}.dat")), all).unwrap();
    }
    let lacking = "frames, JUNGFRAU .dat\nrows x cols: 256 x 256\nframes: 4\nmissing frame numbers: 3\n\
                   bytes of the file: 262176\nwarning: missing frame numbers: 3\n\
                   warning: x_f00001.dat: is missing, but x_f00002.dat is there: frames in between are lost\n\
                   file: x_f00000.dat\n";
    assert_eq!(listing(&dir.path().join("x_f00000.dat")), lacking);
}

#[test]
fn arrays_are_told_of_by_what_they_may_be() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.npy");
    let told = |descr: &str, sides: &str, elements: usize| {
        let dict = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({sides}), }}");
        let mut bytes = b"\x93NUMPY\x01\x00\x76\x00".to_vec();
        bytes.extend(format!("{dict:<117}\n").bytes());
        bytes.extend(vec![0; elements]);
        fs::write(&path, bytes).unwrap();
        listing(&path)
    };
    let refused = |descr: &str, how: &str| {
        format!(
            "warning: a.npy: has elements of type {descr}, expected <u2, raw frames of 16 bits (in numpy: {how})\n"
        )
    };
    let end = "file: a.npy\n";
    let frames =
        "frames, .npy\ntype: <u2\nshape: 2 x 3 x 4\nrows x cols: 3 x 4\nframes: 2\nbytes of the file: 176\n";
    assert_eq!(told("<u2", "2, 3, 4", 48), format!("{frames}{end}"));
    for descr in ["|u1", "|b1"] {
        let mask = format!("a mask, .npy\ntype: {descr}\nshape: 3 x 4\nbytes of the file: 140\n{end}");
        assert_eq!(told(descr, "3, 4", 12), mask);
    }
    let cube = format!(
        "an array, .npy\ntype: |u1\nshape: 3 x 2 x 2\nbytes of the file: 140\n{}{end}",
        refused("|u1", "a.astype('<u2')")
    );
    assert_eq!(told("|u1", "3, 2, 2", 12), cube);
    let image = told("<f8", "3, 4", 96);
    assert!(
        image.starts_with("an array, .npy\ntype: <f8\nshape: 3 x 4\nbytes of the file: 224\nwarning: "),
        "{image}"
    );
    let cut = told("|u1", "3, 4", 11);
    assert!(cut.contains("\nfault: a.npy: is cut"), "{cut}");
    assert_eq!(
        said(info(&dir.path().join("none.npy"), &OpenOptions::default(), None, None)).rsplit('/').next(),
        Some("none.npy: there is no such file")
    );
}

#[test]
fn archives_are_told_of_by_the_arrays_they_have() {
    let dir = tempfile::tempdir().unwrap();
    let mut trainer = Trainer::new(SHAPE);
    let mut pixels: Vec<u16> = (0..5).flat_map(|n| image(SHAPE, n)).collect();
    // Three pixels without noise.
    pixels.chunks_mut(SHAPE.pixels()).for_each(|frame| frame[..3].fill(7));
    trainer.add(Frames::new(&pixels, SHAPE).unwrap()).unwrap();
    let path = dir.path().join("p.npz");
    save_pedestal(&path, &trainer.finish(Precision::F32).unwrap()).unwrap();
    let bytes = |path: &Path| fs::metadata(path).unwrap().len();
    let tracked = format!(
        "a pedestal\nrows x cols: 20 x 20\ndark frames: 5\nprecision: f32\nnoise: tracked\npixels without noise: 3\n\
         untrained pixels: 0\nchecksum: checked\nbytes of the file: {}\nfile: p.npz\n",
        bytes(&path)
    );
    assert_eq!(listing(&path), tracked);
    let mut fixed = trainer.finish(Precision::F64).unwrap();
    fixed.refresh_noise();
    let mut mask = PixelMask::new(SHAPE);
    [(0, 1), (7, 7)].iter().for_each(|p| mask.insert(p.0, p.1));
    fixed.untrained = Some(mask);
    let told = Provenance { host: "h".into(), ..Provenance::default() };
    save_pedestal_with(&path, &fixed, &Facts::default(), Some(&told)).unwrap();
    let all = format!(
        "a pedestal\nrows x cols: 20 x 20\ndark frames: 5\nprecision: f64\nnoise: fixed\npixels without noise: 3\n\
         untrained pixels: 2\nchecksum: checked\nbytes of the file: {}\nfile: p.npz\nhost: \"h\"\n",
        bytes(&path)
    );
    assert_eq!(listing(&path), all);

    // Some of the names alone make no clusters and no pedestal.
    for names in [["frame", "x"], ["data", "y"], ["x0", "sum"], ["samples", "sum"]] {
        let path = dir.path().join("a.npz");
        let mut zip = zip::ZipWriter::new(fs::File::create(&path).unwrap());
        for name in names {
            zip.start_file(format!("{name}.npy"), zip::write::SimpleFileOptions::default()).unwrap();
        }
        zip.finish().unwrap();
        let names = names.join(", ");
        let arrays = format!(
            "arrays, .npz\narrays: {names}\nbytes of the file: {}\n\
             warning: a.npz: neither clusters (frame, x, y, data) nor a pedestal\nfile: a.npz\n",
            bytes(&path)
        );
        assert_eq!(listing(&path), arrays);
    }
}

#[test]
fn clusters_are_told_of_with_what_stands_beside_them() {
    let dir = tempfile::tempdir().unwrap();
    let size = ClusterSize::square(3).unwrap();
    let path = dir.path().join("a.clust");
    let mut sink = open_sink(&path, &Params::new(size)).unwrap();
    sink.write(&clusters(size, Payload::I32, 900.0).view().into()).unwrap();
    sink.finish(&Provenance { host: "h".into(), frames: 5, clusters: 30, ..Provenance::default() }).unwrap();
    let i = info(&path, &OpenOptions::default(), Some(size), Some(Payload::I32)).unwrap();
    assert_eq!((row(&i, "clusters a frame"), row(&i, "checksum")), ("6.00", "checked"));
    assert_eq!(i.files, [path.clone(), dir.path().join("a.clust.json")]);
    assert_eq!((i.warnings.len(), i.faults.len()), (0, 0), "{:?}", i.warnings);
    assert_eq!(i.provenance.unwrap()["host"], "h");

    let npz = dir.path().join("a.npz");
    let mut sink = open_sink(&npz, &Params::new(size)).unwrap();
    sink.write(&clusters(size, Payload::I32, 900.0).view().into()).unwrap();
    sink.finish(&Provenance { host: "h".into(), ..Provenance::default() }).unwrap();
    let whole = format!(
        "clusters\nwindow: 3x3\nvalues: i32\nframes with clusters: 5\nframe numbers: 4 to 8\nclusters: 30\n\
         clusters a frame: 6.00\nchecksum: checked\nbytes of the file: {}\nfile: a.npz\nhost: \"h\"\n",
        fs::metadata(&npz).unwrap().len()
    );
    assert_eq!(listing(&npz), whole);

    // Without frames there is no share; zeros may be of several types.
    let path = dir.path().join("b.clust");
    fs::write(&path, []).unwrap();
    let empty = "clusters\nwindow: 3x3\nvalues: i32\nframes: 0\nclusters: 0\nchecksum: none beside it\n\
                 bytes of the file: 0\nfile: b.clust\n";
    assert_eq!(listing(&path), empty);
    fs::write(&path, [&[1, 0, 0, 0, 1, 0, 0, 0][..], &[0; 40]].concat()).unwrap();
    let several = "clusters\nbytes of the file: 48\n\
                   fault: b.clust: a cluster file does not say its window and type, and several fit: give one of 3x3 of \
                   i32, 3x3 of f32\nfile: b.clust\n";
    assert_eq!(listing(&path), several);
}
