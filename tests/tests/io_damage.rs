//! A damaged file of ours is an error or has the content that it had, never another one: one byte changed, at every place.

mod io_common;

use std::fs;
use std::io::{Seek, SeekFrom, Write};
use std::path::Path;

use io_common::*;
use scheidegg::io::{Checksum, load_pedestal, open_results, open_sink, save_pedestal};
use scheidegg::provenance::Provenance;
use scheidegg::{
    ClusterSize, ClustersBuf, Error, Frames, Params, Payload, Pedestal, PixelMask, Precision, Result, Shape,
    Trainer,
};

/// Changes every byte of a file, one after the other, in one bit or in all. `read` must refuse it with a sentence that
/// names the file, or give what it gave before. Returns how often it refused.
fn every_byte<T: PartialEq + std::fmt::Debug>(path: &Path, read: impl Fn(&Path) -> Result<T>) -> usize {
    let whole = fs::read(path).unwrap();
    let expected = read(path).unwrap();
    let name = path.file_name().unwrap().to_string_lossy().into_owned();
    // In place: a file system waits for a file that is written anew.
    let mut file = fs::File::options().write(true).open(path).unwrap();
    let mut put = |at: usize, byte: u8| {
        file.seek(SeekFrom::Start(at as u64)).unwrap();
        file.write_all(&[byte]).unwrap();
    };
    let mut refused = 0;
    for (at, &byte) in whole.iter().enumerate() {
        let flip = if at % 9 == 8 { 0xff } else { 1 << (at % 9) };
        put(at, byte ^ flip);
        match read(path) {
            Ok(found) => assert_eq!(found, expected, "byte {at} of {name} changed by {flip:#x}"),
            Err(e) => {
                refused += 1;
                assert!(e.to_string().contains(&name), "byte {at} of {name}: {e}");
            }
        }
        put(at, byte);
    }
    assert_eq!(read(path).unwrap(), expected);
    for length in (0..whole.len()).rev().step_by(5) {
        file.set_len(length as u64).unwrap();
        assert!(read(path).is_err(), "{name} cut to {length} bytes is read");
    }
    refused
}

/// Everything that a reader gives before it ends.
fn content(path: &Path, size: ClusterSize, payload: Payload) -> Result<(Vec<u64>, Vec<u64>, Vec<u8>)> {
    let mut results = open_results(path, Some(size), Some(payload))?;
    let mut all = results.buffer();
    while results.read(&mut all, 3)? > 0 {}
    let view = all.view();
    Ok((view.numbers().to_vec(), view.offsets().to_vec(), view.bytes().to_vec()))
}

fn some_clusters(size: ClusterSize, payload: Payload) -> ClustersBuf {
    let mut random = Random::new(7);
    let mut buf = ClustersBuf::new(Shape { rows: 9, cols: 9 }, size, payload);
    for (number, clusters) in [(3u64, 2), (4, 0), (5, 1), (1 << 20, 3)] {
        let bytes = clusters * scheidegg::record_bytes(size, payload);
        let records: Vec<u8> = (0..bytes).map(|_| random.next() as u8).collect();
        buf.push_frame(number, &records);
    }
    buf
}

#[test]
fn archives_of_clusters() {
    let dir = tempfile::tempdir().unwrap();
    let (size, payload) = (ClusterSize::new(2, 3).unwrap(), Payload::I16);
    let path = dir.path().join("a.npz");
    let mut sink = open_sink(&path, &Params { payload, ..Params::new(size) }).unwrap();
    sink.write(&some_clusters(size, payload).view().into()).unwrap();
    sink.finish(&Provenance::default()).unwrap();
    let refused = every_byte(&path, |path| content(path, size, payload));
    let bytes = fs::metadata(&path).unwrap().len() as usize;
    assert!(refused > bytes / 2, "{refused} of {bytes} changes were refused");
}

/// What a run writes beside its result.
fn write_beside(path: &Path, size: ClusterSize, payload: Payload) {
    let content = fs::read(path).unwrap();
    let said = format!(
        "{{\"parameters\": {{\"size\": \"{size}\", \"payload\": \"{payload}\"}}, \"clusters\": 6,\n\
         \"content\": {{\"bytes\": {}, \"crc32\": {}}}}}",
        content.len(),
        crc32fast::hash(&content)
    );
    fs::write(format!("{}.json", path.display()), said).unwrap();
}

#[test]
fn files_with_their_checksum_beside_them() {
    let dir = tempfile::tempdir().unwrap();
    let (size, payload) = (ClusterSize::new(2, 3).unwrap(), Payload::F16);
    for ext in ["clust", "npy"] {
        let path = dir.path().join(format!("a.{ext}"));
        let mut sink = open_sink(&path, &Params { payload, ..Params::new(size) }).unwrap();
        sink.write(&some_clusters(size, payload).view().into()).unwrap();
        sink.finish(&Provenance::default()).unwrap();
        write_beside(&path, size, payload);
        let whole = fs::read(&path).unwrap();
        assert_eq!(every_byte(&path, |path| content(path, size, payload)), whole.len(), "every byte counts");

        // What is damaged beside it is refused too, or changes nothing.
        fs::write(&path, &whole).unwrap();
        let beside = dir.path().join(format!("a.{ext}.json"));
        let said = fs::read(&beside).unwrap();
        let expected = content(&path, size, payload).unwrap();
        for at in 0..said.len() {
            let mut damaged = said.clone();
            damaged[at] ^= 1 << (at % 8);
            fs::write(&beside, damaged).unwrap();
            match content(&path, size, payload) {
                Ok(found) => assert_eq!(found, expected),
                Err(e) => assert!(e.to_string().contains(&format!("a.{ext}")), "{e}"),
            }
        }
        // Without it everything goes, unseen; the checksum says whether there is one.
        fs::write(&beside, &said).unwrap();
        let checksum = |path: &Path| {
            let mut results = open_results(path, Some(size), Some(payload)).unwrap();
            let mut buf = results.buffer();
            let before = results.checksum();
            while results.read(&mut buf, 10).unwrap() > 0 {}
            (before, results.checksum())
        };
        assert_eq!(checksum(&path), (Checksum::Unread, Checksum::Agrees));
        fs::remove_file(&beside).unwrap();
        assert_eq!(checksum(&path), (Checksum::None, Checksum::None));
    }
}

/// A result under the name of another one is doubted by name, and read once nothing speaks against it.
#[test]
fn what_stands_beside_another_result_is_said() {
    let dir = tempfile::tempdir().unwrap();
    let (size, payload) = (ClusterSize::new(2, 3).unwrap(), Payload::I32);
    for ext in ["clust", "npy"] {
        let path = dir.path().join(format!("a.{ext}"));
        let mut sink = open_sink(&path, &Params { payload, ..Params::new(size) }).unwrap();
        sink.write(&some_clusters(size, payload).view().into()).unwrap();
        sink.finish(&Provenance::default()).unwrap();
        write_beside(&path, size, payload);
        let before = fs::read(format!("{}.json", path.display())).unwrap();
        fs::remove_file(&path).unwrap();
        let mut sink = open_sink(&path, &Params { payload, ..Params::new(size) }).unwrap();
        sink.finish(&Provenance::default()).unwrap();
        // Of the run before.
        fs::write(format!("{}.json", path.display()), &before).unwrap();
        let said = said(content(&path, size, payload));
        let beside = format!("a.{ext}.json beside it speaks of ");
        assert!(said.contains(&beside) && said.contains("remove the .json file"), "{said}");
        // Of the right length and with the right checksum, but of another window and number of clusters.
        write_beside(&path, ClusterSize::square(5).unwrap(), payload);
        let mut results = open_results(&path, Some(size), Some(payload)).unwrap();
        let mut buf = results.buffer();
        while results.read(&mut buf, 10).unwrap() > 0 {}
        let notes = results.notes().join("\n");
        for part in ["speaks of 5x5 windows, found were 2x3", "speaks of 6 clusters, found were 0"] {
            assert!(notes.contains(part), "{notes}");
        }
    }
}

fn pedestal(precision: Precision) -> Pedestal {
    let shape = Shape { rows: 3, cols: 4 };
    let pixels: Vec<u16> = (0..5).flat_map(|n| image(shape, n)).collect();
    let mut trainer = Trainer::new(shape);
    trainer.add(Frames::new(&pixels, shape).unwrap()).unwrap();
    trainer.finish(precision).unwrap()
}

/// Fault: an array that need not be there vanishes with its name, and masked pixels are judged again.
#[test]
fn pedestals() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("p.npz");
    for precision in [Precision::F32, Precision::F64] {
        let mut p = pedestal(precision);
        let mut mask = PixelMask::new(p.shape);
        mask.insert(1, 2);
        p.refresh_noise();
        p.untrained = Some(mask);
        save_pedestal(&path, &p).unwrap();
        assert_eq!(load_pedestal(&path).unwrap(), p);
        let refused = every_byte(&path, load_pedestal);
        let bytes = fs::metadata(&path).unwrap().len() as usize;
        assert!(refused > bytes / 2, "{refused} of {bytes} changes were refused");
    }
}

/// Four bits of a sum, as a disk or a network may flip them: the array is named.
#[test]
fn a_damaged_plane_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("p.npz");
    save_pedestal(&path, &pedestal(Precision::F32)).unwrap();
    let whole = fs::read(&path).unwrap();
    let p = load_pedestal(&path).unwrap();
    for (name, bytes) in [
        ("sum2", bytes_of(&p.sum2)),
        ("sum", bytes_of(&p.sum)),
        ("x0", p.x0.iter().flat_map(|v| v.to_le_bytes()).collect()),
    ] {
        let at = whole.windows(bytes.len()).position(|w| w == bytes).unwrap();
        let mut damaged = whole.clone();
        damaged[at + 9] ^= 0x10;
        fs::write(&path, &damaged).unwrap();
        let Err(e) = load_pedestal(&path) else { panic!("a damaged {name} was read") };
        assert!(matches!(&e, Error::File { .. }), "{e:?}");
        let said = e.to_string();
        assert!(said.contains(&format!("p.npz: array {name} is damaged")), "{said}");
    }
}

fn bytes_of(plane: &scheidegg::Plane) -> Vec<u8> {
    let scheidegg::Plane::F32(values) = plane else { panic!("single precision") };
    values.iter().flat_map(|v| v.to_le_bytes()).collect()
}
