//! Files of columns: what is in them whatever its amount.

use scheidegg_finder::{ClusterSize, ClustersBuf, Payload, Shape, record_bytes};

use super::{NpySink, NpzSink, Results, Sink, TableReader, Written};
use crate::provenance::{Ending, How, Provenance};

/// Frames with so many clusters each, whose bytes count up.
fn clusters(kind: (ClusterSize, Payload), first: u64, counts: &[usize]) -> ClustersBuf {
    let each = record_bytes(kind.0, kind.1);
    let mut buf = ClustersBuf::new(Shape { rows: 400, cols: 400 }, kind.0, kind.1);
    for (k, count) in counts.iter().enumerate() {
        let records: Vec<u8> = (0..count * each).map(|i| (i + k) as u8 & 0x3f).collect();
        buf.push_frame(first + 3 * k as u64, &records);
    }
    buf
}

fn back(path: &std::path::Path) -> (TableReader, ClustersBuf) {
    let mut reader = TableReader::open(path).unwrap();
    let mut all = reader.buffer();
    while reader.read(&mut all, 1000).unwrap() > 0 {}
    (reader, all)
}

/// More numbers of frames than are written at once, several times, with frames that end where such a piece does.
#[test]
fn every_cluster_has_the_number_of_its_frame() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.npz");
    let kind = (ClusterSize::square(2).unwrap(), Payload::I16);
    // As many as fill 1 MiB.
    let piece = 1 << 17;
    let counts = [[piece - 3, 0, 3, 1], [piece, 2 * piece + 5, 0, 7]];
    let mut sink = NpzSink::create(&path, kind.0, kind.1).unwrap();
    assert_eq!(sink.name(), path.display().to_string());
    let batches = [clusters(kind, 5, &counts[0]), clusters(kind, 50, &counts[1])];
    batches.iter().for_each(|b| sink.write(&b.view().into()).unwrap());
    let told = Provenance { frames: 8, ..Provenance::default() };
    sink.finish(&told).unwrap();
    let (reader, found) = back(&path);
    assert_eq!(found.view().numbers(), [5, 11, 14, 50, 53, 59]);
    let ends = [0, piece - 3, piece, piece + 1, 2 * piece + 1, 4 * piece + 6, 4 * piece + 13];
    assert_eq!(found.view().offsets(), ends.map(|e| e as u64));
    assert!(found.view().bytes() == [batches[0].view().bytes(), batches[1].view().bytes()].concat());
    assert_eq!(reader.provenance().unwrap()["frames"], 8);
}

#[test]
fn a_result_that_ends_before_its_first_frame_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let kind = (ClusterSize::square(3).unwrap(), Payload::F32);
    let none = Provenance { ended: Ending { how: How::Fault, why: None }, ..Provenance::default() };
    let mut sinks: [Box<dyn Sink>; 2] = [
        Box::new(NpzSink::create(dir.path().join("a.npz"), kind.0, kind.1).unwrap()),
        Box::new(NpySink::create(dir.path().join("a.npy"), kind.0, kind.1).unwrap()),
    ];
    let names = ["a.npz", "a.npy"].map(|name| dir.path().join(name).display().to_string());
    assert_eq!(sinks.each_ref().map(|sink| sink.name()), names);
    for sink in &mut sinks {
        assert_eq!(sink.finish(&none).unwrap(), Written::nowhere());
        assert!(sink.finish(&none).unwrap_err().to_string().contains("is finished"));
    }
    drop(sinks);
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}
