//! A real JUNGFRAU module, read through one port and through two. Skipped where the files are not there.
//!
//! The two recordings are two acquisitions of the same module in the dark, not one written twice: their frames differ by
//! noise (the masters are 55 seconds apart, and one pixel in a hundred has the same value in both). What must be the same is the image: every pixel in its place. The same frames through one port and through two
//! are checked with the first recording written anew through two ports.

mod io_common;

use std::fs;
use std::path::Path;

use io_common::*;
use scheidegg::Shape;
use scheidegg::io::raw::{Detector, Header};
use scheidegg::io::{Health, RawOptions, RawWriter, Source};

const MODULE: Shape = Shape { rows: 512, cols: 1024 };

/// The words of frame `k`, put together from the data files by hand.
fn by_hand(folder: &Path, base: &str, ports: usize, k: usize) -> Vec<u16> {
    let image = MODULE.pixels() * 2 / ports;
    let mut words = Vec::new();
    for d in 0..ports {
        let file = fs::read(folder.join(format!("{base}_d{d}_f{}_0.raw", k / 3))).unwrap();
        let at = (k % 3) * (Header::BYTES + image) + Header::BYTES;
        words.extend(file[at..at + image].chunks(2).map(|b| u16::from_le_bytes([b[0], b[1]])));
    }
    words
}

#[test]
fn every_word_is_in_its_place() {
    let Some(folder) = real_data("jungfrau") else { return };
    for (base, ports, packets) in [("jungfrau_single", 1, 128), ("jungfrau_double", 2, 64)] {
        let mut source = open(&folder.join(format!("{base}_master_0.json")));
        assert_eq!((source.shape(), source.remaining(), source.packets()), (MODULE, Some(10), Some(packets)));
        let frames = read_all(&mut source);
        assert_eq!(frames.len(), 10);
        for (k, f) in frames.iter().enumerate() {
            assert_eq!(f.number, k as u64 + 1);
            assert!(f.pixels == by_hand(&folder, base, ports, k), "{base}, frame {k}");
            assert_eq!(f.lost, None);
            // The module's stuck pixels.
            assert_eq!((f.pixels[48 * 1024 + 421], f.pixels[255 * 1024 + 175]), (16383, 0));
        }
        // The cell of a module that stores one frame is the last one.
        assert_eq!(source.health(), Health { storage_cells: 1 << 15, ..Health::default() });
    }
}

#[test]
fn both_recordings_show_the_same_module() {
    let Some(folder) = real_data("jungfrau") else { return };
    let mean = |base: &str| {
        let frames = read_all(&mut open(&folder.join(format!("{base}_master_0.json"))));
        let pixel = |i: usize| frames.iter().map(|f| f64::from(f.pixels[i])).sum::<f64>() / 10.0;
        (0..MODULE.pixels()).map(pixel).collect::<Vec<_>>()
    };
    let (a, b) = (mean("jungfrau_single"), mean("jungfrau_double"));
    // Pedestals scatter by hundreds of ADU from pixel to pixel, from one recording to the other by few.
    let close = |shift: usize| {
        let far = |i: &usize| (a[*i] - b[(i + shift) % b.len()]).abs() > 100.0;
        (0..a.len()).filter(far).count()
    };
    assert!(close(0) < a.len() / 1000, "{} pixels differ", close(0));
    assert!(close(1024) > a.len() / 4, "the check sees a row's shift");
}

#[test]
fn the_same_frames_come_through_one_port_and_through_two() {
    let Some(folder) = real_data("jungfrau") else { return };
    let single = read_all(&mut open(&folder.join("jungfrau_single_master_0.json")));
    let dir = tempfile::tempdir().unwrap();
    let o = RawOptions { ports: 2, max_frames_per_file: 3, ..RawOptions::new(Detector::Jungfrau, MODULE) };
    let mut writer = RawWriter::create(dir.path(), "again", &o).unwrap();
    single.iter().for_each(|f| writer.push(f.number, &f.pixels).unwrap());
    let mut double = open(&writer.finish().unwrap());
    assert_eq!(double.ports().map(|p| p.1).collect::<Vec<_>>(), [4, 4]);
    assert!(single == read_all(&mut double));
    // A file is laid out like the real one.
    let ours = fs::metadata(dir.path().join("again_d1_f0_0.raw")).unwrap().len();
    assert_eq!(ours, fs::metadata(folder.join("jungfrau_double_d1_f0_0.raw")).unwrap().len());
}
