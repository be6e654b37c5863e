//! What a file is taken for by its name, and what is said of one that cannot be read.

use std::fs;
use std::path::Path;

use scheidegg_finder::{ClusterSize, ClustersBuf, Params, Payload, Result, Shape};

use super::{FrameFile, NpyFrames, OpenOptions, open_results, open_sink, open_source, open_sources};
use crate::provenance::Provenance;

fn said<T>(result: Result<T>, folder: &Path) -> String {
    let e = result.err().expect("nothing was refused").to_string();
    e.replace(&format!("{}/", folder.display()), "").replace(&*folder.to_string_lossy(), ".")
}

#[test]
fn files_of_frames_are_known_by_their_name() {
    let dir = tempfile::tempdir().unwrap();
    let of = |name: &str| FrameFile::of(&dir.path().join(name));
    for (name, kind) in [
        ("a.npy", FrameFile::Npy),
        ("a.NPY", FrameFile::Npy),
        ("a.dat", FrameFile::Dat),
        ("a_f00001.Dat", FrameFile::Dat),
        ("a_master_0.json", FrameFile::RawMaster),
        ("a_master_0.raw", FrameFile::RawMaster),
        ("anything.raw", FrameFile::RawMaster),
    ] {
        assert_eq!(of(name).unwrap(), kind, "{name}");
    }
    let others = "frames are read from raw runs (their master .json or .raw), .npy and .dat files";
    let hdf = "HDF5 files are not read (export frames to .npy, or use the raw files)";
    for (name, what) in [
        ("a.clust", "holds results, not frames"),
        ("a.NPZ", "holds results, not frames"),
        ("a.h5", hdf),
        ("a.hdf5", hdf),
        ("a.nxs", hdf),
        ("a.tif", others),
        ("a", others),
        (".npy", others),
    ] {
        assert_eq!(said(of(name), dir.path()), format!("{name}: {what}"));
    }
    let folder = said(FrameFile::of(dir.path()), dir.path());
    assert_eq!(folder, ".: is a folder: give a master file, or a .npy or .dat file");
    let alone = "a_d1_f0_3.raw: is one data file of a raw run, and the run's master file a_master_3.json is not there: it \
                 says how the data files are to be read";
    assert_eq!(said(of("a_d1_f0_3.raw"), dir.path()), alone);
    for master in ["a_master_3.raw", "a_master_3.json"] {
        fs::write(dir.path().join(master), "").unwrap();
        let beside =
            format!("a_d1_f0_3.raw: is one data file of a raw run: give the run's master file {master}");
        assert_eq!(said(of("a_d1_f0_3.raw"), dir.path()), beside);
    }
    let open = |name: &str| open_source(&dir.path().join(name), &OpenOptions::default());
    for name in ["b.npy", "b.dat", "b_f00001.dat", "b_master_0.json"] {
        assert_eq!(said(open(name), dir.path()), format!("{name}: there is no such file"));
    }
    // A file as if it were a folder.
    let below = said(open("a_master_3.raw/b.npy"), dir.path());
    assert!(below.starts_with("a_master_3.raw/b.npy: ") && !below.contains("no such file"), "{below}");
}

#[test]
fn files_are_opened_in_the_order_given() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let shape = Shape { rows: 1, cols: 2 };
    for name in ["s_f0.dat", "s_f1.dat", "s_f2.dat", "t_f0.dat", "t_f1.dat"] {
        fs::write(at(name), [0; 20]).unwrap();
    }
    fs::create_dir(at("u")).unwrap();
    fs::write(at("u/s_f1.dat"), [0; 20]).unwrap();
    let mut npy = NpyFrames::create(at("a.npy"), shape).unwrap();
    npy.push(&[1; 6]).unwrap();
    npy.finish().unwrap();
    let options = OpenOptions { dat_shape: Some(shape), ..OpenOptions::default() };
    let frames = |names: &[&str]| {
        let paths: Vec<_> = names.iter().map(|n| at(n)).collect();
        open_sources(&paths, &options)
            .map(|all| all.iter().map(|s| s.remaining().unwrap()).collect::<Vec<_>>())
    };
    assert!(frames(&[]).unwrap().is_empty());
    assert_eq!(frames(&["s_f1.dat"]).unwrap(), [3], "the series");
    assert_eq!(frames(&["s_f1.dat", "s_f0.dat"]).unwrap(), [1, 1], "these");
    assert_eq!(frames(&["s_f1.dat", "a.npy", "t_f0.dat"]).unwrap(), [3, 3, 2]);
    // A series of the same name in another folder is another one.
    assert_eq!(frames(&["s_f1.dat", "u/s_f1.dat"]).unwrap(), [3, 1]);
    assert_eq!(said(frames(&["s_f1.dat", "s_f3.dat"]), dir.path()), "s_f3.dat: there is no such file");
}

#[test]
fn results_are_read_as_what_they_say_and_what_is_asked() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let size = |n| ClusterSize::square(n).unwrap();
    let params = Params { payload: Payload::I16, ..Params::new(size(3)) };
    for name in ["a.clust", "a.NPZ", "a.npy"] {
        let mut sink = open_sink(at(name), &params).unwrap();
        let mut buf = ClustersBuf::new(Shape { rows: 9, cols: 9 }, size(3), Payload::I16);
        buf.push_frame(4, &[1; 22]);
        sink.write(&buf.view().into()).unwrap();
        sink.finish(&Provenance::default()).unwrap();
    }
    let refused = said(open_sink(at("a.csv"), &params), dir.path());
    assert_eq!(refused, "a.csv: clusters are written to .clust, .npz and .npy files");
    let open = |name: &str, size: Option<ClusterSize>, payload: Option<Payload>| {
        open_results(&at(name), size, payload).map(|r| (r.size(), r.payload()))
    };
    let own = (size(3), Payload::I16);
    for name in ["a.NPZ", "a.npy"] {
        for (s, p) in
            [(None, None), (Some(size(3)), None), (None, Some(Payload::I16)), (Some(own.0), Some(own.1))]
        {
            assert_eq!(open(name, s, p).unwrap(), own);
        }
        for (s, p, asked) in [
            (Some(size(5)), None, "5x5 i16"),
            (None, Some(Payload::F32), "3x3 f32"),
            (Some(size(5)), Some(own.1), "5x5 i16"),
            (Some(own.0), Some(Payload::F32), "3x3 f32"),
        ] {
            let what = format!("{name}: holds clusters of 3x3 i16, not of {asked}");
            assert_eq!(said(open(name, s, p), dir.path()), what);
        }
    }
    let window =
        "a.clust: a cluster file does not say its window: give its size (3, or 3x5 for width x height)";
    fs::remove_file(at("a.clust.json")).unwrap();
    assert_eq!(said(open("a.clust", None, None), dir.path()), window);
    assert_eq!(open("a.clust", Some(size(3)), None).unwrap(), (size(3), Payload::I32));
    assert_eq!(open("a.clust", Some(size(3)), Some(Payload::I16)).unwrap(), own);
    // What stands beside it tells what is not said.
    let beside = r#"{"parameters": {"size": "3x3", "payload": "i16"}}"#;
    fs::write(at("a.clust.json"), beside).unwrap();
    assert_eq!(open("a.clust", None, None).unwrap(), own);
    assert_eq!(open("a.clust", Some(size(5)), Some(Payload::F32)).unwrap(), (size(5), Payload::F32));
    assert_eq!(said(open("none.npz", None, None), dir.path()), "none.npz: there is no such file");
    fs::write(at("a.txt"), "").unwrap();
    let text = said(open("a.txt", None, None), dir.path());
    assert_eq!(text, "a.txt: clusters are read from .clust, .npz and .npy files");
}
