//! Cluster files as the peer writes and tests them. Its tests are named where ours stand for them.

mod io_common;

use std::fs;

use io_common::*;
use scheidegg::io::{ClustReader, ClustSink, Results, Sink, cluster_file_kinds, open_results};
use scheidegg::provenance::Provenance;
use scheidegg::{ClusterSize, ClustersBuf, Payload, Shape};

/// A cluster file as the peer writes it: per frame its number, and clusters of one value each at (x, y) = (k, k + 1).
fn file(size: ClusterSize, payload: Payload, frames: &[(i32, &[i32])]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (number, clusters) in frames {
        bytes.extend(number.to_le_bytes());
        bytes.extend((clusters.len() as u32).to_le_bytes());
        for (k, &value) in clusters.iter().enumerate() {
            bytes.extend((k as u16).to_le_bytes());
            bytes.extend((k as u16 + 1).to_le_bytes());
            for i in 0..size.pixels() {
                let value = if i == size.centre() { value } else { value / 4 - i as i32 };
                match payload {
                    Payload::I32 => bytes.extend(value.to_le_bytes()),
                    Payload::I16 => bytes.extend((value as i16).to_le_bytes()),
                    Payload::F16 => bytes.extend(half::f16::from_f32(value as f32).to_le_bytes()),
                    Payload::F32 => bytes.extend((value as f32).to_le_bytes()),
                }
            }
        }
    }
    bytes
}

fn read(bytes: &[u8], size: ClusterSize, payload: Payload) -> (ClustersBuf, Vec<String>) {
    let mut reader = ClustReader::of_bytes(bytes, size, payload);
    let mut all = reader.buffer();
    while reader.read(&mut all, 2).unwrap() > 0 {}
    (all, reader.notes())
}

/// `ClusterFile.test.cpp` "empty frames, numbers -43 -42 0 105", `test_ClusterFile.py` "frames -11 42 103 104 105".
#[test]
fn negative_frame_numbers_are_those_past_2_to_the_31() {
    let size = ClusterSize::square(3).unwrap();
    let frames = [(-43, &[][..]), (-42, &[500, 600]), (0, &[]), (105, &[700])];
    let (all, notes) = read(&file(size, Payload::I32, &frames), size, Payload::I32);
    let view = all.view();
    assert_eq!(view.numbers(), [(1 << 32) - 43, (1 << 32) - 42, 0, 105], "in the order of the file");
    assert_eq!(view.offsets(), [0, 0, 2, 2, 3]);
    assert_eq!(notes.len(), 1, "{notes:?}");
    for part in ["2 frames have negative numbers, the first -43", "read as 4294967253", "order of the file"] {
        assert!(notes[0].contains(part), "{notes:?}");
    }
    let frames = [(-11, &[5][..]), (42, &[6]), (103, &[]), (104, &[]), (105, &[8])];
    let (all, _) = read(&file(size, Payload::I32, &frames), size, Payload::I32);
    assert_eq!(all.view().numbers(), [4_294_967_285, 42, 103, 104, 105]);
    // Numbers that go on past 2^31 ascend, and nothing else is said of them.
    let frames = [(i32::MAX, &[500][..]), (i32::MIN, &[600]), (-1, &[700])];
    let (all, _) = read(&file(size, Payload::I32, &frames), size, Payload::I32);
    assert_eq!(all.view().numbers(), [(1 << 31) - 1, 1 << 31, (1 << 32) - 1]);
    let (_, notes) = read(&file(size, Payload::I32, &[(0, &[500]), (i32::MAX, &[600])]), size, Payload::I32);
    assert!(notes.is_empty(), "{notes:?}");
    // Written they are refused by name, as any number that 31 bits do not hold.
    let dir = tempfile::tempdir().unwrap();
    let mut sink = ClustSink::create(dir.path().join("a.clust"), size, Payload::I32).unwrap();
    assert!(said(sink.write(&all.view().into())).contains("frame 2147483648: a cluster file holds"));
}

/// `test_ClusterFile.py` "2,3,5,7,9 x i32 f32 f64, 3x3 i16, frame -42" without f64, and with what the peer has not.
#[test]
fn every_window_and_type_of_the_peer_is_read() {
    for payload in Payload::ALL {
        for size in [(2, 2), (3, 3), (5, 5), (7, 7), (9, 9), (2, 4), (5, 3)] {
            let size = ClusterSize::new(size.0, size.1).unwrap();
            let bytes = file(size, *payload, &[(-42, &[500, 1000]), (7, &[800])]);
            let (all, notes) = read(&bytes, size, *payload);
            let view = all.view();
            assert_eq!((view.numbers(), view.len()), ([4_294_967_254, 7].as_slice(), 3));
            let centres: Vec<f64> = view.iter().map(|c| c.centre()).collect();
            assert_eq!(centres, [500.0, 1000.0, 800.0], "{size} {payload}");
            assert_eq!((view.get(1).x, view.get(1).y), (1, 2));
            assert_eq!(notes.len(), 1, "{notes:?}");
        }
    }
}

/// `ClusterFile.test.cpp` "two frames 2x2 double": `f32` holds such values.
#[test]
fn two_frames_of_2x2_are_read_back_to_the_value() {
    let (size, dir) = (ClusterSize::square(2).unwrap(), tempfile::tempdir().unwrap());
    let path = dir.path().join("a.clust");
    let mut buf = ClustersBuf::new(Shape { rows: 9, cols: 9 }, size, Payload::F32);
    for number in [1, 2] {
        let mut record = vec![1, 0, 2, 0];
        [0.5f32, 1.25, -2.0, 1e6].iter().for_each(|v| record.extend((v * number as f32).to_le_bytes()));
        buf.push_frame(number, &record);
    }
    let mut sink = ClustSink::create(&path, size, Payload::F32).unwrap();
    sink.write(&buf.view().into()).unwrap();
    sink.finish(&Provenance::default()).unwrap();
    let mut results = open_results(&path, Some(size), Some(Payload::F32)).unwrap();
    let mut back = results.buffer();
    while results.read(&mut back, 9).unwrap() > 0 {}
    assert_eq!(back.view().bytes(), buf.view().bytes());
    assert_eq!(back.view().numbers(), [1, 2]);
}

/// `ClusterFile.test.cpp` "first cluster of a cut frame, then error": the whole frame is refused here, by design.
#[test]
fn nothing_of_a_cut_frame_is_read() {
    let size = ClusterSize::square(3).unwrap();
    let mut bytes = file(size, Payload::I32, &[(7, &[500]), (8, &[600, 700])]);
    bytes.truncate(bytes.len() - 20);
    let mut reader = ClustReader::of_bytes(&bytes, size, Payload::I32);
    let mut buf = reader.buffer();
    let said = said(reader.read(&mut buf, 9));
    assert!(
        said.contains("ends inside frame 8") && said.contains("2 clusters of 40 bytes were promised, 1 are"),
        "{said}"
    );
    assert_eq!(buf.view().numbers(), [7]);
    assert_eq!(reader.name(), "memory.clust");
}

/// `ClusterVector.test.cpp` "3x1 clusters": windows have 2 to 15 pixels each way here.
#[test]
fn windows_of_one_row_are_refused() {
    assert!(said(ClusterSize::new(3, 1)).contains("3x1"));
}

/// Types of the same size are told apart by their values, windows by the frames.
#[test]
fn what_a_file_is_not_is_doubted_and_what_it_is_can_be_guessed() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.clust");
    let frames: &[(i32, &[i32])] = &[(1, &[900, 1100]), (2, &[]), (3, &[850, 2000, 400])];
    for payload in Payload::ALL.iter().copied() {
        for size in [(3, 3), (2, 2), (9, 9), (3, 5), (5, 3), (2, 9)] {
            let size = ClusterSize::new(size.0, size.1).unwrap();
            let bytes = file(size, payload, frames);
            let (_, notes) = read(&bytes, size, payload);
            assert!(notes.is_empty(), "{size} {payload}: {notes:?}");
            let other = match payload {
                Payload::I32 => Payload::F32,
                Payload::F32 => Payload::I32,
                Payload::I16 => Payload::F16,
                Payload::F16 => Payload::I16,
            };
            let (_, notes) = read(&bytes, size, other);
            let asked = format!("are they really {other}, and not {payload}?");
            assert!(notes.len() == 1 && notes[0].contains(&asked), "{size} {payload}: {notes:?}");
            fs::write(&path, &bytes).unwrap();
            let fit = cluster_file_kinds(&path, None, None).unwrap();
            assert!(fit.contains(&(size, payload)), "{size} {payload}: {fit:?}");
            if size.w == size.h {
                assert_eq!(fit, [(size, payload)]);
            }
            // What is known leaves less to guess.
            assert_eq!(cluster_file_kinds(&path, Some(size), None).unwrap(), [(size, payload)]);
            assert!(cluster_file_kinds(&path, Some(size), Some(other)).unwrap().is_empty());
        }
    }
    // 18 words of 16 bits and 9 of 32 are as long: the centre tells.
    let size = ClusterSize::new(3, 6).unwrap();
    let (_, notes) = read(&file(ClusterSize::square(3).unwrap(), Payload::I32, frames), size, Payload::I16);
    assert!(notes[0].contains("the centre is not the largest value"), "{notes:?}");
    for bytes in [&b""[..], &[1, 0, 0, 0, 0, 0, 0, 0], &[1, 0, 0, 0, 1, 0, 0, 0, 0]] {
        fs::write(&path, bytes).unwrap();
        assert!(cluster_file_kinds(&path, None, None).unwrap().is_empty());
    }
}
