//! Clusters into files and back: `.clust`, `.npz`, `.npy`.

mod io_common;

use std::fs::{self, File};
use std::path::Path;

use half::f16;
use io_common::*;
use scheidegg::io::{ClustReader, ClustSink, Results, Sink, open_results, open_sink, provenance_beside};
use scheidegg::provenance::{Content, Provenance};
use scheidegg::{ClusterSize, ClustersBuf, Params, Payload, Shape, record_bytes};

const SHAPE: Shape = Shape { rows: 400, cols: 400 };

/// Frames `first ..` with as many clusters as `counts` says, of random values.
fn clusters(size: ClusterSize, payload: Payload, first: u64, counts: &[usize]) -> ClustersBuf {
    let mut random = Random::new(first + 1);
    let mut buf = ClustersBuf::new(SHAPE, size, payload);
    for (k, &n) in counts.iter().enumerate() {
        let mut records = Vec::new();
        for _ in 0..n {
            records.extend((random.below(400) as u16).to_le_bytes());
            records.extend((random.below(400) as u16).to_le_bytes());
            for _ in 0..size.pixels() {
                let value = random.below(20_000) as i32 - 10_000;
                match payload {
                    Payload::I32 => records.extend((value * 7).to_le_bytes()),
                    Payload::I16 => records.extend((value as i16).to_le_bytes()),
                    Payload::F16 => records.extend(f16::from_f32(value as f32 / 3.0).to_le_bytes()),
                    Payload::F32 => records.extend((value as f32 / 3.0).to_le_bytes()),
                }
            }
        }
        buf.push_frame(first + k as u64, &records);
    }
    buf
}

fn size(w: usize, h: usize) -> ClusterSize {
    ClusterSize::new(w, h).unwrap()
}

fn params(size: ClusterSize, payload: Payload) -> Params {
    Params { payload, ..Params::new(size) }
}

fn read_back(path: &Path, size: ClusterSize, payload: Payload, at_once: usize) -> ClustersBuf {
    let mut results = open_results(path, Some(size), Some(payload)).unwrap();
    let mut all = results.buffer();
    while results.read(&mut all, at_once).unwrap() > 0 {}
    all
}

fn assert_same(a: &ClustersBuf, b: &ClustersBuf) {
    let (a, b) = (a.view(), b.view());
    assert_eq!((a.numbers(), a.offsets()), (b.numbers(), b.offsets()));
    assert!(a.bytes() == b.bytes());
}

/// A result, and its provenance where that stands beside it.
fn files_of(path: &Path) -> usize {
    1 + usize::from(provenance_beside(path).is_some())
}

fn remove(path: &Path) {
    fs::remove_file(path).unwrap();
    provenance_beside(path).map_or(Ok(()), fs::remove_file).unwrap();
}

/// Fault: what stands beside a result belongs to another one, or lacks bytes that were written over.
#[test]
fn the_provenance_of_a_result_knows_its_bytes() {
    let dir = tempfile::tempdir().unwrap();
    let kind = (size(3, 3), Payload::I16);
    for counts in [vec![], vec![0], vec![3, 0, 5], vec![4000, 1, 9000]] {
        let told = Provenance { frames: counts.len() as u64, ..Provenance::default() };
        for ext in ["clust", "npy"] {
            let path = dir.path().join(format!("a.{ext}"));
            let mut sink = open_sink(&path, &params(kind.0, kind.1)).unwrap();
            sink.write(&clusters(kind.0, kind.1, 0, &counts).view().into()).unwrap();
            sink.write(&clusters(kind.0, kind.1, 50, &counts).view().into()).unwrap();
            sink.finish(&told).unwrap();
            let beside = fs::read_to_string(provenance_beside(&path).unwrap()).unwrap();
            let beside = Provenance::from_json(&beside).unwrap();
            let bytes = fs::read(&path).unwrap();
            let content = Content { bytes: bytes.len() as u64, crc32: crc32fast::hash(&bytes) };
            assert_eq!(beside, Provenance { content: Some(content), ..told.clone() }, "{ext}");
        }
    }
}

#[test]
fn every_kind_of_cluster_survives_every_kind_of_file() {
    let dir = tempfile::tempdir().unwrap();
    for payload in Payload::ALL {
        for size in [size(3, 3), size(4, 2), size(9, 9), size(2, 15)] {
            for ext in ["clust", "npz", "npy"] {
                let path = dir.path().join(format!("a.{ext}"));
                let mut sink = open_sink(&path, &params(size, *payload)).unwrap();
                let (first, second) =
                    (clusters(size, *payload, 5, &[3, 0, 40, 1]), clusters(size, *payload, 9, &[0, 7, 0]));
                sink.write(&first.view().into()).unwrap();
                sink.write(&second.view().into()).unwrap();
                assert!(!path.exists());
                sink.finish(&Provenance::default()).unwrap();
                assert!(said(sink.finish(&Provenance::default())).contains("is finished"));
                assert_eq!(fs::read_dir(dir.path()).unwrap().count(), files_of(&path));
                // Columns know nothing of frames without clusters.
                let mut expected = ClustersBuf::new(SHAPE, size, *payload);
                for batch in [&first, &second] {
                    let view = batch.view();
                    for (k, n) in view.numbers().iter().enumerate() {
                        if ext == "clust" || !view.frame_bytes(k).is_empty() {
                            expected.push_frame(*n, view.frame_bytes(k));
                        }
                    }
                }
                for at_once in [1, 3, 100] {
                    assert_same(&read_back(&path, size, *payload, at_once), &expected);
                }
                assert!(sink.write(&first.view().into()).is_err());
                remove(&path);
            }
        }
    }
}

#[test]
fn a_cluster_file_is_laid_out_as_others_write_it() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.clust");
    let mut sink = ClustSink::create(&path, size(3, 3), Payload::I32).unwrap();
    let mut buf = ClustersBuf::new(SHAPE, size(3, 3), Payload::I32);
    let mut record = vec![7, 1, 9, 0];
    (0..9).for_each(|v: i32| record.extend((-v).to_le_bytes()));
    buf.push_frame(300, &record);
    buf.push_frame(301, &[]);
    sink.write(&buf.view().into()).unwrap();
    sink.finish(&Provenance::default()).unwrap();
    let mut expected = vec![44, 1, 0, 0, 1, 0, 0, 0];
    expected.extend(&record);
    expected.extend([45, 1, 0, 0, 0, 0, 0, 0]);
    assert_eq!(fs::read(&path).unwrap(), expected);
}

#[test]
fn a_real_cluster_file_is_read() {
    let Some(path) = real_data("clust/single_frame_97_clustrers.clust") else { return };
    let all = read_back(&path, size(3, 3), Payload::I32, 10);
    let view = all.view();
    assert_eq!((view.numbers(), view.len()), ([135].as_slice(), 97));
    let dir = tempfile::tempdir().unwrap();
    let again = dir.path().join("again.clust");
    let mut sink = open_sink(&again, &params(size(3, 3), Payload::I32)).unwrap();
    sink.write(&view.into()).unwrap();
    sink.finish(&Provenance::default()).unwrap();
    assert_eq!(fs::read(&again).unwrap(), fs::read(&path).unwrap());
}

/// Fault: frame numbers above 2^31 wrap around.
#[test]
fn frame_numbers_above_i32_are_refused_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.clust");
    let mut sink = ClustSink::create(&path, size(3, 3), Payload::I32).unwrap();
    sink.write(&clusters(size(3, 3), Payload::I32, i32::MAX as u64 - 1, &[1, 2]).view().into()).unwrap();
    let refused =
        said(sink.write(&clusters(size(3, 3), Payload::I32, i32::MAX as u64, &[1, 2]).view().into()));
    assert!(refused.contains("frame 2147483648") && refused.contains(".npz"), "{refused}");
    sink.finish(&Provenance::default()).unwrap();
    let numbers = read_back(&path, size(3, 3), Payload::I32, 10).view().numbers().to_vec();
    assert_eq!(numbers, [i32::MAX as u64 - 1, i32::MAX as u64]);

    for ext in ["npz", "npy"] {
        let path = dir.path().join(format!("a.{ext}"));
        let mut sink = open_sink(&path, &params(size(3, 3), Payload::I32)).unwrap();
        let far = clusters(size(3, 3), Payload::I32, u64::MAX - 1, &[1, 2]);
        sink.write(&far.view().into()).unwrap();
        sink.finish(&Provenance::default()).unwrap();
        assert_same(&read_back(&path, size(3, 3), Payload::I32, 10), &far);
    }
}

/// Fault: a cut cluster file is read as if it ended there.
#[test]
fn a_cluster_file_that_ends_inside_a_frame_says_where() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.clust");
    let kind = (size(3, 3), Payload::I32);
    let mut sink = ClustSink::create(&path, kind.0, kind.1).unwrap();
    sink.write(&clusters(kind.0, kind.1, 100, &[2, 0, 3]).view().into()).unwrap();
    sink.finish(&Provenance::default()).unwrap();
    let whole = fs::read(&path).unwrap();
    // Frames start at bytes 0, 88 and 96.
    let ends = [0, 88, 96, whole.len()];
    for cut in 0..whole.len() {
        let mut reader = ClustReader::of_bytes(&whole[..cut], kind.0, kind.1);
        let mut buf = reader.buffer();
        let outcome = reader.read(&mut buf, 10);
        let frames = ends[1..].iter().filter(|e| **e <= cut).count();
        assert_eq!(buf.view().frames(), frames, "cut at {cut}");
        if ends.contains(&cut) {
            assert_eq!(outcome.unwrap(), frames);
            continue;
        }
        let said = said(outcome);
        let at = ends[frames];
        assert!(said.contains(&format!("byte {at}")), "cut at {cut}: {said}");
        let inside = cut - at >= 8;
        let frame = 100 + frames as u64 - u64::from(!inside);
        let named = match (inside, frames) {
            (true, _) => format!("inside frame {frame}"),
            (false, 0) => "inside the first frame".into(),
            (false, _) => format!("the frame after {frame}"),
        };
        assert!(said.contains(&named), "cut at {cut}: {said}");
    }
    File::options().write(true).open(&path).unwrap().set_len(120).unwrap();
    let mut results = open_results(&path, Some(kind.0), None).unwrap();
    let mut buf = results.buffer();
    assert!(said(results.read(&mut buf, 10)).contains("3 clusters of 40 bytes were promised, 0 are there"));
}

#[test]
fn a_damaged_count_takes_no_memory() {
    let mut bytes = vec![1, 0, 0, 0, 0xff, 0xff, 0xff, 0xff];
    bytes.extend([0; 100]);
    let mut reader = ClustReader::of_bytes(&bytes, size(15, 15), Payload::I32);
    let mut buf = reader.buffer();
    let said = said(reader.read(&mut buf, 1));
    assert!(said.contains("4294967295 clusters") && said.contains("is it really 15x15"), "{said}");
}

#[test]
fn clusters_of_another_kind_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    for ext in ["clust", "npz", "npy"] {
        let path = dir.path().join(format!("a.{ext}"));
        let mut sink = open_sink(&path, &params(size(3, 3), Payload::I32)).unwrap();
        let refused = said(sink.write(&clusters(size(3, 3), Payload::F32, 0, &[1]).view().into()));
        assert!(refused.contains("3x3 of i32, got 3x3 of f32"), "{refused}");
        drop(sink);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "{ext} left something");
    }
    assert!(
        said(open_sink(dir.path().join("a.txt"), &params(size(3, 3), Payload::I32))).contains(".clust, .npz")
    );
}

#[test]
fn columns_say_what_they_hold() {
    let dir = tempfile::tempdir().unwrap();
    for ext in ["npz", "npy"] {
        let path = dir.path().join(format!("a.{ext}"));
        let mut sink = open_sink(&path, &params(size(4, 2), Payload::F16)).unwrap();
        sink.write(&clusters(size(4, 2), Payload::F16, 0, &[2]).view().into()).unwrap();
        sink.finish(&Provenance::default()).unwrap();
        let results = open_results(&path, None, None).unwrap();
        assert_eq!((results.size(), results.payload()), (size(4, 2), Payload::F16));
        let refused = said(open_results(&path, Some(size(3, 3)), None));
        assert!(refused.contains("4x2 f16, not of 3x3"), "{refused}");
    }
    let clust = dir.path().join("a.clust");
    fs::write(&clust, b"").unwrap();
    assert!(said(open_results(&clust, None, None)).contains("give its size"));
    assert!(said(open_results(&dir.path().join("b.npz"), None, None)).contains("no such file"));
}

#[test]
fn a_cut_or_foreign_archive_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.npz");
    let mut sink = open_sink(&path, &params(size(3, 3), Payload::I32)).unwrap();
    sink.write(&clusters(size(3, 3), Payload::I32, 0, &[20]).view().into()).unwrap();
    sink.finish(&Provenance::default()).unwrap();
    let whole = fs::read(&path).unwrap();
    for cut in [0, 10, whole.len() / 2, whole.len() - 1] {
        fs::write(&path, &whole[..cut]).unwrap();
        assert!(said(open_results(&path, None, None)).contains("not a whole .npz"), "cut at {cut}");
    }
    let npy = dir.path().join("a.npy");
    let mut out = scheidegg::io::NpyFrames::create(&npy, SHAPE).unwrap();
    out.push(&image(SHAPE, 1)).unwrap();
    out.finish().unwrap();
    assert!(said(open_results(&npy, None, None)).contains("expected records with frame, x, y and data"));
}

#[test]
fn many_clusters_are_read_in_blocks() {
    let dir = tempfile::tempdir().unwrap();
    let kind = (size(2, 2), Payload::I16);
    // More rows than a reader holds at once.
    let many = clusters(kind.0, kind.1, 0, &[30_000, 50_000, 0, 70_000, 3]);
    for ext in ["npz", "npy"] {
        let path = dir.path().join(format!("a.{ext}"));
        let mut sink = open_sink(&path, &params(kind.0, kind.1)).unwrap();
        sink.write(&many.view().into()).unwrap();
        sink.finish(&Provenance::default()).unwrap();
        let back = read_back(&path, kind.0, kind.1, 1);
        assert_eq!(back.view().numbers(), [0, 1, 3, 4]);
        assert!(back.view().bytes() == many.view().bytes());
        assert_eq!(back.view().bytes().len(), 150_003 * record_bytes(kind.0, kind.1));
    }
}

/// Fault: frames beyond the number of pieces that a system takes at once (1024), or clusters beyond what is rewritten at once,
/// are lost or stand in another order.
#[test]
fn batches_of_many_frames_are_written_whole() {
    let dir = tempfile::tempdir().unwrap();
    for (kind, each) in
        [((size(3, 3), Payload::I16), 40), ((size(3, 3), Payload::F32), 1), ((size(5, 5), Payload::F16), 20)]
    {
        // Some without clusters; an empty batch, and one whose frames are all empty, in between.
        let counts: Vec<usize> = (0..2500).map(|k| if k % 7 == 3 { 0 } else { each + k % 5 }).collect();
        let batches = [
            clusters(kind.0, kind.1, 10, &counts),
            clusters(kind.0, kind.1, 2510, &[]),
            clusters(kind.0, kind.1, 2510, &[0; 1100]),
            clusters(kind.0, kind.1, 3610, &counts),
        ];
        let (mut clust, mut rows, mut filled) =
            (Vec::new(), Vec::new(), ClustersBuf::new(SHAPE, kind.0, kind.1));
        for batch in batches.iter().map(ClustersBuf::view) {
            for (k, number) in batch.numbers().iter().enumerate() {
                let records = batch.frame_bytes(k);
                clust.extend((*number as i32).to_le_bytes());
                clust.extend((batch.frame(k).len() as u32).to_le_bytes());
                clust.extend_from_slice(records);
                for record in records.chunks_exact(batch.record_bytes()) {
                    rows.extend(number.to_le_bytes());
                    rows.extend_from_slice(record);
                }
                if !records.is_empty() {
                    filled.push_frame(*number, records);
                }
            }
        }
        for ext in ["clust", "npy", "npz"] {
            let path = dir.path().join(format!("a.{ext}"));
            let mut sink = open_sink(&path, &params(kind.0, kind.1)).unwrap();
            for batch in &batches {
                sink.write(&batch.view().into()).unwrap();
            }
            sink.finish(&Provenance::default()).unwrap();
            let bytes = fs::read(&path).unwrap();
            match ext {
                "clust" => assert!(bytes == clust),
                "npy" => assert!(bytes.ends_with(&rows)),
                _ => assert_same(&read_back(&path, kind.0, kind.1, 1000), &filled),
            }
            fs::remove_file(&path).unwrap();
        }
    }
}

/// A run that finds nothing, or sees no frame at all, has a result like any other.
#[test]
fn files_without_clusters_are_whole() {
    let dir = tempfile::tempdir().unwrap();
    let kind = (size(3, 3), Payload::F16);
    for frames in [None, Some(0), Some(3)] {
        for ext in ["clust", "npy", "npz"] {
            let path = dir.path().join(format!("a.{ext}"));
            let mut sink = open_sink(&path, &params(kind.0, kind.1)).unwrap();
            if let Some(frames) = frames {
                sink.write(&clusters(kind.0, kind.1, 4, &vec![0; frames]).view().into()).unwrap();
            }
            sink.finish(&Provenance::default()).unwrap();
            let back = read_back(&path, kind.0, kind.1, 10);
            let expected = if ext == "clust" { frames.unwrap_or(0) } else { 0 };
            assert_eq!((back.view().frames(), back.view().len()), (expected, 0), "{ext}");
            assert_eq!(fs::read_dir(dir.path()).unwrap().count(), files_of(&path));
            remove(&path);
        }
    }
}
