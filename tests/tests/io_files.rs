//! Files by their names, pedestals, `.dat`, and what `info` says.

mod io_common;

use std::fs;
use std::path::Path;

use io_common::*;
use scheidegg::io::{
    DatSource, Gain, NpyFrames, OpenOptions, RawOptions, Source, info, load_pedestal, open_sink, open_source,
    save_pedestal,
};
use scheidegg::{ClusterSize, ClustersBuf, Frames, Params, PixelMask, Plane, Precision, Shape, Trainer};

fn sourced(path: &Path) -> scheidegg::Result<Box<dyn Source>> {
    open_source(path, &OpenOptions::default())
}

#[test]
fn files_are_known_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let o = options(16, 20);
    let master = write_run(dir.path(), &o, 5);
    assert_known(&read_all(&mut *sourced(&master).unwrap()), o.shape, 1..=5);
    let npy = dir.path().join("a.npy");
    let mut out = NpyFrames::create(&npy, o.shape).unwrap();
    (0..3).for_each(|n| out.push(&image(o.shape, n)).unwrap());
    out.finish().unwrap();
    assert_known(&read_all(&mut *sourced(&npy).unwrap()), o.shape, 0..3);

    let refused = said(sourced(&dir.path().join("run_d0_f1_0.raw")));
    assert!(
        refused.contains("give the run's master file") && refused.contains("run_master_0.json"),
        "{refused}"
    );
    fs::remove_file(&master).unwrap();
    let refused = said(sourced(&dir.path().join("run_d0_f1_0.raw")));
    assert!(refused.contains("run_master_0.json is not there"), "{refused}");
    for (name, part) in [
        ("none.npy", "no such file"),
        ("x_master_0.json", "no such file"),
        ("a.h5", "HDF5"),
        ("a.clust", "results"),
        ("a.tif", ".npy and .dat"),
        ("", "is a folder"),
    ] {
        let refused = said(sourced(&dir.path().join(name)));
        assert!(refused.contains(part), "{name}: {refused}");
    }
}

/// Bytes of `.dat` frames with these numbers.
fn dat(shape: Shape, numbers: &[u64]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for n in numbers {
        bytes.extend(n.to_le_bytes());
        bytes.extend(77u64.to_le_bytes());
        bytes.extend(image(shape, *n).iter().flat_map(|w| w.to_le_bytes()));
    }
    bytes
}

#[test]
fn dat_files_tell_their_shape() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.dat");
    for (rows, cols) in [(512, 1024), (256, 1024), (256, 256)] {
        let shape = Shape { rows, cols };
        fs::write(&path, dat(shape, &[24, 25, 27])).unwrap();
        let mut source = sourced(&path).unwrap();
        assert_eq!((source.shape(), source.remaining()), (shape, Some(3)));
        assert_known(&read_all(&mut *source), shape, [24, 25, 27]);
        assert_eq!(source.health().gaps, 1);
    }
    fs::write(&path, [0; 1000]).unwrap();
    assert!(said(sourced(&path)).contains("1000 bytes are no frames"));
}

#[test]
fn a_cut_dat_file_ends_in_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.dat");
    let shape = Shape { rows: 256, cols: 256 };
    let mut bytes = dat(shape, &[1, 2, 3]);
    bytes.truncate(bytes.len() - 10);
    fs::write(&path, bytes).unwrap();
    let mut source = DatSource::open(&path, None, Gain::MaskOthers).unwrap();
    assert_eq!(source.shape(), shape);
    let (frames, end) = read_batches(&mut source, 2);
    assert_known(&frames, shape, [1, 2]);
    let said = said(end);
    assert!(said.contains("inside frame 3: 131078 bytes") && said.contains("131088 expected"), "{said}");
}

#[test]
fn dat_words_are_decoded_like_raw_ones() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.dat");
    let shape = Shape { rows: 256, cols: 256 };
    let mut bytes = dat(shape, &[1]);
    bytes[16 + 2 * 300 + 1] |= 0x40;
    bytes[16 + 512 * 9..16 + 512 * 10].fill(0xff);
    fs::write(&path, bytes).unwrap();
    let mut source = DatSource::open(&path, None, Gain::MaskOthers).unwrap();
    let frames = read_all(&mut source);
    let lost: Vec<_> = frames[0].lost.as_ref().unwrap().indices().collect();
    assert_eq!(lost[0], 300);
    assert_eq!(lost[1..], (9 * 256..10 * 256).collect::<Vec<_>>());
    assert_eq!(frames[0].pixels[300], image(shape, 1)[300]);
    assert_eq!((source.health().gain_pixels, source.health().lost_pixels), (1, 256));
}

/// Fault: a named pipe is waited for, or is called no .npy file.
#[cfg(unix)]
#[test]
fn what_can_only_be_read_once_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["a.npy", "a_f00000.dat", "a_master_0.json"] {
        let path = dir.path().join(name);
        assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
        let refused = said(sourced(&path));
        assert!(refused.contains(name) && refused.contains("is a named pipe"), "{refused}");
    }
}

/// More files than a process may have open.
#[cfg(target_os = "linux")]
#[test]
fn files_are_open_only_while_they_are_read() {
    let dir = tempfile::tempdir().unwrap();
    let shape = Shape { rows: 256, cols: 256 };
    let mut paths = Vec::new();
    for k in 0..12 {
        paths.push(dir.path().join(format!("{k}.npy")));
        let mut out = NpyFrames::create(&paths[3 * k], shape).unwrap();
        out.push(&image(shape, 0)).unwrap();
        out.finish().unwrap();
        paths.push(dir.path().join(format!("{k}.dat")));
        fs::write(&paths[3 * k + 1], dat(shape, &[1])).unwrap();
        let folder = dir.path().join(k.to_string());
        fs::create_dir(&folder).unwrap();
        paths.push(write_run(&folder, &RawOptions { ports: 2, ..options(256, 256) }, 2));
    }
    let open_files = || {
        let all =
            fs::read_dir("/proc/self/fd").unwrap().filter_map(|e| fs::read_link(e.unwrap().path()).ok());
        all.filter(|p| p.starts_with(dir.path())).count()
    };
    let sources = paths.iter().map(|p| sourced(p).unwrap()).collect();
    assert_eq!(open_files(), 0);
    let mut chain = scheidegg::pipeline::Chain::new(sources).unwrap();
    let mut buf = scheidegg::FrameBuf::new(shape, 1);
    let (mut frames, mut most) = (0, 0);
    while chain.read(&mut buf).unwrap() > 0 {
        frames += buf.len();
        most = most.max(open_files());
        buf.clear();
    }
    assert_eq!((frames, open_files()), (48, 0));
    assert!(most <= 4, "{most} files were open at once");
}

#[test]
fn pedestals_survive_to_the_bit() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("pedestal.npz");
    let shape = Shape { rows: 5, cols: 7 };
    let mut pixels = Vec::new();
    (0..9).for_each(|n| pixels.extend(image(shape, n)));
    let mut trainer = Trainer::new(shape);
    trainer.add(Frames::new(&pixels, shape).unwrap()).unwrap();
    for precision in [Precision::F32, Precision::F64F32, Precision::F64] {
        let mut pedestal = trainer.finish(precision).unwrap();
        save_pedestal(&path, &pedestal).unwrap();
        assert_eq!(load_pedestal(&path).unwrap(), pedestal);
        pedestal.refresh_noise();
        let mut mask = PixelMask::new(shape);
        mask.insert(4, 6);
        pedestal.untrained = Some(mask);
        save_pedestal(&path, &pedestal).unwrap();
        assert_eq!(load_pedestal(&path).unwrap(), pedestal);
        let about = info(&path, &OpenOptions::default(), None, None).unwrap();
        assert_eq!(about.kind, "a pedestal");
        assert!(about.rows.contains(&("dark frames".into(), "9".into())));
    }
    let mut broken = trainer.finish(Precision::F32).unwrap();
    broken.sum = Plane::F32(vec![f32::NAN; shape.pixels()]);
    assert!(said(save_pedestal(&path, &broken)).contains("pedestal sum"));
}

#[test]
fn what_is_no_pedestal_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.npz");
    let params = Params::new(ClusterSize::square(3).unwrap());
    open_sink(&path, &params).unwrap().finish(&scheidegg::provenance::Provenance::default()).unwrap();
    let refused = said(load_pedestal(&path));
    assert!(refused.contains("no array shape") && refused.contains("data, frame, x, y"), "{refused}");
    fs::write(&path, b"nothing").unwrap();
    assert!(said(load_pedestal(&path)).contains("not a whole .npz"));
    scheidegg::io::write_image(&path, ndarray::Array2::zeros((2, 2)).view()).unwrap();
    assert!(said(load_pedestal(&path)).contains("not a .npz file, but a .npy file"));
}

fn about(path: &Path) -> scheidegg::io::Info {
    info(path, &OpenOptions::default(), Some(ClusterSize::square(3).unwrap()), None).unwrap()
}

#[test]
fn info_tells_what_is_in_a_run_and_what_is_wrong() {
    let dir = tempfile::tempdir().unwrap();
    let master = write_run(dir.path(), &RawOptions { ports: 2, ..options(16, 20) }, 10);
    let whole = about(&master);
    let row = |i: &scheidegg::io::Info, label: &str| {
        i.rows.iter().find(|r| r.0 == label).map(|r| r.1.clone()).unwrap_or_default()
    };
    assert_eq!((row(&whole, "detector"), row(&whole, "rows x cols")), ("Moench".into(), "16 x 20".into()));
    assert_eq!((row(&whole, "frames"), row(&whole, "port 1")), ("10".into(), "3 files, 10 frames".into()));
    assert!(whole.warnings.is_empty(), "{:?}", whole.warnings);
    let cut = dir.path().join("run_d1_f1_0.raw");
    let bytes = fs::read(&cut).unwrap();
    fs::write(&cut, &bytes[..bytes.len() - 5]).unwrap();
    let broken = about(&master);
    assert_eq!(row(&broken, "frames"), "7 before the fault below");
    assert!(broken.faults.iter().any(|w| w.contains("ends inside frame 8")), "{:?}", broken.faults);
}

#[test]
fn info_tells_clusters_and_arrays() {
    let dir = tempfile::tempdir().unwrap();
    let size = ClusterSize::square(3).unwrap();
    let params = Params::new(size);
    let mut buf = ClustersBuf::new(Shape { rows: 9, cols: 9 }, size, params.payload);
    buf.push_frame(4, &[0; 80]);
    buf.push_frame(5, &[]);
    for (ext, frames) in [("clust", "2"), ("npz", "1"), ("npy", "1")] {
        let path = dir.path().join(format!("a.{ext}"));
        let mut sink = open_sink(&path, &params).unwrap();
        sink.write(&buf.view().into()).unwrap();
        let told = scheidegg::provenance::Provenance { frames: 2, clusters: 2, ..Default::default() };
        sink.finish(&told).unwrap();
        let i = about(&path);
        assert_eq!(i.kind, "clusters");
        assert!(i.rows.contains(&("clusters".into(), "2".into())), "{i:?}");
        assert!(i.rows.iter().any(|r| r.0.starts_with("frames") && r.1 == frames), "{i:?}");
        assert!(i.warnings.is_empty() && i.faults.is_empty(), "{i:?}");
    }
    let bytes = fs::read(dir.path().join("a.clust")).unwrap();
    fs::write(dir.path().join("a.clust"), &bytes[..bytes.len() - 3]).unwrap();
    let cut = about(&dir.path().join("a.clust"));
    assert!(cut.faults.iter().any(|f| f.contains("ends inside")), "{cut:?}");
}

#[test]
fn info_reads_real_masters() {
    let Some(folder) = real_data("masters") else { return };
    let i = about(&folder.join("eiger_500k_16bit_master_0.json"));
    assert!(i.rows.contains(&("detector".into(), "Eiger".into())));
    assert!(i.warnings[0].contains("Eiger"), "{:?}", i.warnings);
}
