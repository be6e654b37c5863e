//! Damaged files never end in a panic or in more than they hold: valid inputs, changed at random, through every reader.
//! The same entry points are fuzzed (`fuzz/`); these inputs need no nightly compiler.

mod io_common;

use std::fs;
use std::path::Path;

use io_common::*;
use scheidegg::io::raw::Detector;
use scheidegg::io::{
    ClustReader, Master, NpyFrames, NpySource, RawOptions, RawReading, RawSource, RawWriter, Results,
    load_pedestal, open_results, open_sink, save_pedestal,
};
use scheidegg::{
    ClusterSize, ClustersBuf, FrameBuf, FrameOwner, Frames, Params, Payload, Precision, Shape, Trainer,
};

/// Changes an input in one to four places.
fn mutate(input: &[u8], random: &mut Random) -> Vec<u8> {
    let mut out = input.to_vec();
    for _ in 0..1 + random.below(4) {
        let at = random.below(out.len().max(1));
        let end = (at + 1 + random.below(24)).min(out.len());
        match random.below(8) {
            0 => out.truncate(at),
            1 if !out.is_empty() => out[at] ^= 1 << random.below(8),
            2 if !out.is_empty() => out[at] = random.next() as u8,
            3 if !out.is_empty() => drop(out.drain(at..end)),
            4 if !out.is_empty() => {
                let part = out[at..end].to_vec();
                let to = random.below(out.len());
                out.splice(to..to, part);
            }
            5 if !out.is_empty() => out[at..end].fill([0x00, 0xff, b'9', b' '][random.below(4)]),
            // A number of a text becomes a strange one.
            6 => {
                let digits: Vec<_> = (0..out.len()).filter(|&i| out[i].is_ascii_digit()).collect();
                if let Some(&i) = digits.get(random.below(digits.len().max(1))) {
                    let strange = [
                        "0",
                        "-1",
                        "4294967295",
                        "18446744073709551615",
                        "99999999999999999999",
                        "1e9",
                        "65536",
                    ];
                    out.splice(i..i + 1, strange[random.below(strange.len())].bytes());
                }
            }
            _ => out.extend((0..random.below(40)).map(|_| random.next() as u8)),
        }
    }
    out
}

fn seed_of(test: u64) -> Random {
    println!("seed {test}");
    Random::new(test)
}

/// A small run: its master and the data files of its two ports.
fn run(folder: &Path) -> (Vec<u8>, [Vec<u8>; 2]) {
    let o = RawOptions { ports: 2, ..RawOptions::new(Detector::Moench, Shape { rows: 8, cols: 10 }) };
    let mut writer = RawWriter::create(folder, "run", &o).unwrap();
    (1..=4).for_each(|n| writer.push_lossy(n, &image(o.shape, n), &[(0, 0)][..usize::from(n == 2)]).unwrap());
    let master = fs::read(writer.finish().unwrap()).unwrap();
    (master, [0, 1].map(|d| fs::read(folder.join(format!("run_d{d}_f0_0.raw"))).unwrap()))
}

/// Reads a run to its end, whatever that is, and checks what any frames must be.
fn read_run(master: &[u8], files: &[Vec<u8>; 2]) {
    let bytes: usize = files.iter().map(Vec::len).sum();
    let files = files.iter().enumerate().map(|(d, f)| (d, 0, f.clone()));
    let Ok(mut source) = RawSource::in_memory(master, files, &RawReading::default()) else { return };
    let (shape, most) =
        (scheidegg::io::Source::shape(&source), scheidegg::io::Source::remaining(&source).unwrap());
    if most > 0 {
        assert!(shape.pixels() * 2 <= bytes, "a frame is larger than the files");
        let mut buf = FrameBuf::new(shape, 2);
        let mut frames = 0;
        while matches!(scheidegg::io::Source::read(&mut source, &mut buf), Ok(n) if n > 0) {
            let view = buf.frames();
            frames += view.len() as u64;
            assert!((0..view.len()).all(|k| view.frame(k).iter().all(|w| *w <= 0x3fff)));
            buf.clear();
        }
        assert!(frames <= most);
    }
    scheidegg::io::Source::health(&source);
}

const TEXT: &str = "Version : 6.4\nDetector Type : ChipTestBoard\nGeometry : [1, 1]\nImage Size : 360000 bytes\n\
                    Pixels : [96, 1]\nMax Frames Per File : 100\nADC Mask : 0xffffffff\nAnalog Flag : 1\n\
                    Analog Samples : 5000\nReceiver Roi : [0, 5, 1, 2]\n#Frame Header\nx";

#[test]
fn damaged_masters() {
    let dir = tempfile::tempdir().unwrap();
    let (json, files) = run(dir.path());
    let mut random = seed_of(1);
    let path = Path::new("a_master_0.json");
    let mut whole = 0;
    for k in 0..6000 {
        let input = mutate(if k % 3 == 0 { TEXT.as_bytes() } else { &json }, &mut random);
        if let Ok(master) = Master::parse(path, &input) {
            whole += 1;
            let _ = master.detector(None);
        }
        if k % 3 != 0 {
            read_run(&input, &files);
        }
    }
    assert!(whole > 100, "changes so wild that {whole} masters are read test little");
}

#[test]
fn damaged_data_files() {
    let dir = tempfile::tempdir().unwrap();
    let (master, files) = run(dir.path());
    let mut random = seed_of(2);
    for k in 0..4000 {
        let mut damaged = files.clone();
        damaged[k % 2] = mutate(&damaged[k % 2], &mut random);
        if k % 5 == 0 {
            damaged[1 - k % 2] = mutate(&damaged[1 - k % 2], &mut random);
        }
        read_run(&master, &damaged);
    }
}

#[test]
fn damaged_cluster_files() {
    let size = ClusterSize::square(3).unwrap();
    let mut bytes = Vec::new();
    for (n, count) in [(1, 2u32), (2, 0), (3, 5)] {
        bytes.extend(i32::to_le_bytes(n));
        bytes.extend(count.to_le_bytes());
        bytes.extend((0..count * 40).map(|b| b as u8));
    }
    let mut random = seed_of(3);
    for k in 0..10_000 {
        let input = mutate(&bytes, &mut random);
        let payload = Payload::ALL[k % 4];
        let mut reader = ClustReader::of_bytes(&input, size, payload);
        let mut buf = reader.buffer();
        let outcome = reader.read(&mut buf, usize::MAX);
        let view = buf.view();
        let used = view.frames() * 8 + view.bytes().len();
        // Whole is what was used up to the last byte, and nothing else.
        assert_eq!(outcome.is_ok(), used == input.len());
        assert!(used <= input.len());
    }
}

#[test]
fn damaged_npy_files() {
    let dir = tempfile::tempdir().unwrap();
    let (path, shape) = (dir.path().join("a.npy"), Shape { rows: 5, cols: 6 });
    let mut out = NpyFrames::create(&path, shape).unwrap();
    (0..3).for_each(|n| out.push(&image(shape, n)).unwrap());
    out.finish().unwrap();
    let bytes = fs::read(&path).unwrap();
    let mut random = seed_of(4);
    for _ in 0..10_000 {
        let input = mutate(&bytes, &mut random);
        let Ok(mut source) = NpySource::in_memory(&input) else { continue };
        if scheidegg::io::Source::remaining(&source) != Some(0) {
            let (frames, _) = read_batches(&mut source, 2);
            assert!(frames.iter().map(|f| f.pixels.len() * 2).sum::<usize>() <= input.len());
        }
    }
}

#[test]
fn damaged_archives() {
    let dir = tempfile::tempdir().unwrap();
    let (results, pedestal) = (dir.path().join("a.npz"), dir.path().join("p.npz"));
    let records = dir.path().join("a.npy");
    let (shape, size) = (Shape { rows: 3, cols: 4 }, ClusterSize::square(3).unwrap());
    let mut buf = ClustersBuf::new(shape, size, Payload::I32);
    buf.push_frame(1, &[1; 120]);
    for path in [&results, &records] {
        let mut sink = open_sink(path, &Params::new(size)).unwrap();
        sink.write(&buf.view().into()).unwrap();
        sink.finish(&scheidegg::provenance::Provenance::default()).unwrap();
    }
    let pixels: Vec<u16> = (0..5).flat_map(|n| image(shape, n)).collect();
    let mut trainer = Trainer::new(shape);
    trainer.add(Frames::new(&pixels, shape).unwrap()).unwrap();
    save_pedestal(&pedestal, &trainer.finish(Precision::F32).unwrap()).unwrap();
    let mut random = seed_of(5);
    for path in [&results, &records, &pedestal] {
        let bytes = fs::read(path).unwrap();
        for _ in 0..400 {
            fs::write(path, mutate(&bytes, &mut random)).unwrap();
            let _ = load_pedestal(path);
            if let Ok(mut reader) = open_results(path, None, None) {
                let mut buf = reader.buffer();
                let _ = reader.read(&mut buf, 10);
            }
        }
    }
}
