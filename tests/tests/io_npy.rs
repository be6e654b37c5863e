//! `.npy` files of frames, images and masks.

mod io_common;

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use io_common::*;
use scheidegg::io::{Gain, NpyFrames, NpySource, Source, load_mask, write_image};
use scheidegg::{PixelMask, Shape};

const SHAPE: Shape = Shape { rows: 6, cols: 9 };

fn write(folder: &Path, frames: u64) -> PathBuf {
    let path = folder.join("a.npy");
    let mut out = NpyFrames::create(&path, SHAPE).unwrap();
    for n in 0..frames {
        out.push(&image(SHAPE, n)).unwrap();
    }
    out.finish().unwrap();
    path
}

/// A file with this header text and these bytes of elements.
fn file(folder: &Path, version: u8, text: &str, elements: &[u8]) -> PathBuf {
    let path = folder.join("b.npy");
    let mut bytes = b"\x93NUMPY".to_vec();
    bytes.extend([version, 0]);
    match version {
        1 => bytes.extend((text.len() as u16).to_le_bytes()),
        _ => bytes.extend((text.len() as u32).to_le_bytes()),
    }
    bytes.extend(text.bytes());
    bytes.extend(elements);
    fs::write(&path, bytes).unwrap();
    path
}

#[test]
fn frames_survive() {
    let dir = tempfile::tempdir().unwrap();
    for frames in [0, 1, 7] {
        let mut source = NpySource::open(&write(dir.path(), frames)).unwrap();
        assert_eq!((source.shape(), source.remaining()), (SHAPE, Some(frames)));
        assert_known(&read_all(&mut source), SHAPE, 0..frames);
        assert_eq!(source.health(), Default::default());
    }
}

#[test]
fn skipped_frames_keep_the_numbers_of_the_others() {
    let dir = tempfile::tempdir().unwrap();
    let mut source = NpySource::open(&write(dir.path(), 7)).unwrap();
    assert_eq!(source.skip(4).unwrap().frames, 4);
    assert_known(&read_all(&mut source), SHAPE, 4..7);
    assert_eq!(source.skip(1).unwrap().frames, 0);
}

#[test]
fn versions_and_two_dimensions_are_read() {
    let dir = tempfile::tempdir().unwrap();
    let elements: Vec<u8> = image(SHAPE, 0).iter().flat_map(|w| w.to_le_bytes()).collect();
    for (version, text) in [
        (1, "{'descr': '<u2', 'fortran_order': False, 'shape': (1, 6, 9), }\n"),
        (2, "{'descr': '<u2', 'fortran_order': False, 'shape': (6, 9)}"),
        (3, "{\"shape\": (1L, 6L, 9L), \"fortran_order\": False, \"descr\": \"<u2\"}   \n"),
    ] {
        let mut source = NpySource::open(&file(dir.path(), version, text, &elements)).unwrap();
        assert_known(&read_all(&mut source), SHAPE, [0]);
        assert_eq!(source.name(), dir.path().join("b.npy").display().to_string());
    }
    // With one row both orders are the same.
    let text = "{'descr': '<u2', 'fortran_order': True, 'shape': (1, 1, 54), }";
    let mut source = NpySource::open(&file(dir.path(), 1, text, &elements)).unwrap();
    assert_eq!(read_all(&mut source)[0].pixels, image(SHAPE, 0));
}

#[test]
fn what_is_no_frames_is_explained() {
    let dir = tempfile::tempdir().unwrap();
    let refused = |descr: &str, fortran: &str, shape: &str| {
        let text = format!("{{'descr': {descr}, 'fortran_order': {fortran}, 'shape': {shape}}}");
        said(NpySource::open(&file(dir.path(), 1, &text, &[0; 432])))
    };
    for (descr, fortran, shape, part) in [
        ("'<f4'", "False", "(1, 6, 9)", "type <f4, expected <u2"),
        ("'>u2'", "False", "(1, 6, 9)", "type >u2"),
        ("'|u1'", "False", "(1, 6, 9)", "type |u1"),
        ("[('x', '<u2')]", "False", "(1, 6, 9)", "records of x <u2"),
        ("'<u2'", "True", "(4, 6, 9)", "Fortran order"),
        ("'<u2'", "False", "(216,)", "(frames, rows, cols)"),
        ("'<u2'", "False", "(1, 2, 3, 4)", "(frames, rows, cols)"),
        ("'<u2'", "False", "(1, 0, 9)", "0 x 9"),
        ("'<u2'", "False", "(1, 70000, 9)", "70000 x 9"),
        ("'<u2'", "False", "(9223372036854775807, 6, 9)", "too many"),
        ("3", "False", "(1, 6, 9)", "no dict"),
    ] {
        let refused = refused(descr, fortran, shape);
        assert!(refused.contains(part) && refused.contains("b.npy"), "{part}: {refused}");
    }
    let path = dir.path().join("c.npy");
    fs::write(&path, b"\x93NUMPY\x01\x00\xff\xff{").unwrap();
    assert!(said(NpySource::open(&path)).contains("inside its header"));
    fs::write(&path, b"hello").unwrap();
    assert!(said(NpySource::open(&path)).contains("not a .npy file"));
    assert!(said(NpySource::open(&dir.path().join("none.npy"))).contains("none.npy"));
}

#[test]
fn a_cut_file_ends_in_an_error_after_its_whole_frames() {
    let dir = tempfile::tempdir().unwrap();
    let path = write(dir.path(), 7);
    let bytes = fs::metadata(&path).unwrap().len();
    File::options().write(true).open(&path).unwrap().set_len(bytes - 120).unwrap();
    let mut source = NpySource::open(&path).unwrap();
    assert_eq!(source.remaining(), Some(5));
    assert!(source.health().warnings[0].contains("ends inside frame 5"));
    let (frames, end) = read_batches(&mut source, 2);
    assert_known(&frames, SHAPE, 0..5);
    let said = said(end);
    assert!(said.contains("96 of its 108 bytes") && said.contains("promises 7 frames"), "{said}");
}

#[test]
fn bytes_behind_the_last_frame_are_remarked() {
    let dir = tempfile::tempdir().unwrap();
    let path = write(dir.path(), 2);
    let mut bytes = fs::read(&path).unwrap();
    bytes.extend([0; 5]);
    fs::write(&path, bytes).unwrap();
    let mut source = NpySource::open(&path).unwrap();
    assert_known(&read_all(&mut source), SHAPE, 0..2);
    assert!(source.health().warnings[0].contains("5 bytes behind"));
}

/// Fault: words of a detector are taken as they are, gain bits and the 0xFFFF of lost packets included.
#[test]
fn words_are_decoded_like_raw_ones() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.npy");
    let charge = image(SHAPE, 1);
    let mut words = charge.clone();
    [(3, 0x4000), (20, 0xc000), (53, 0x8000)].iter().for_each(|(i, bits)| words[*i] |= bits);
    words[27..36].fill(0xffff);
    let mut out = NpyFrames::create(&path, SHAPE).unwrap();
    out.push(&image(SHAPE, 0)).unwrap();
    out.push(&words).unwrap();
    out.finish().unwrap();
    for (gain, others) in [(Gain::MaskOthers, true), (Gain::KeepValue, false), (Gain::None, false)] {
        let mut source = NpySource::open(&path).unwrap().gain(gain);
        let frames = read_all(&mut source);
        assert_known(&frames[..1], SHAPE, [0]);
        let lost: Vec<_> = frames[1].lost.as_ref().unwrap().indices().collect();
        let mut want: Vec<_> = (27..36).collect();
        if others {
            want = [3, 20].into_iter().chain(want).chain([53]).collect();
        }
        assert_eq!(lost, want);
        let kept = if gain == Gain::None { &words } else { &charge };
        assert!((0..54).filter(|i| !lost.contains(i)).all(|i| frames[1].pixels[i] == kept[i]), "{gain:?}");
        let health = source.health();
        assert_eq!((health.lost_pixels, health.gain_pixels), (9, if others { 3 } else { 0 }));
        let says = |part: &str| health.warnings.iter().any(|w| w.contains(part));
        assert!(says("9 pixels in 1 frames are 0xFFFF"), "{health:?}");
        assert_eq!(
            says("3 pixels in 1 frames are not in gain 0") && says("gain = keep"),
            others,
            "{health:?}"
        );
    }
}

/// Simulated frames of 16 bits come back from a file as they were, when told that no bits are gain.
#[test]
fn sixteen_bits_survive() {
    let dir = tempfile::tempdir().unwrap();
    let simulation = scheidegg::io::simulate::Simulation {
        rows: 32,
        cols: 32,
        bits: 16,
        gain_adu_per_kev: 4000.0,
        packet_loss: 0.0,
        ..Default::default()
    };
    let written =
        scheidegg::io::simulate::write_npy(dir.path(), &simulation, 3, 9, &mut |_, _| Ok(())).unwrap();
    let mut source = NpySource::open(&written.data.unwrap()).unwrap().gain(Gain::None);
    let frames = read_all(&mut source);
    let simulated = read_all(&mut written.simulator.frames(9));
    assert!(frames.iter().zip(&simulated).all(|(a, b)| a.pixels == b.pixels && a.lost.is_none()));
    assert!(frames.iter().any(|f| f.pixels.iter().any(|p| *p > 0x3fff)), "no value needs 16 bits");
    assert_eq!((frames.len(), source.health()), (9, Default::default()));
}

#[test]
fn a_file_cut_while_it_is_read_is_named_with_its_frame() {
    let dir = tempfile::tempdir().unwrap();
    let path = write(dir.path(), 7);
    let whole = fs::metadata(&path).unwrap().len();
    let mut source = NpySource::open(&path).unwrap();
    File::options().write(true).open(&path).unwrap().set_len(whole - 120).unwrap();
    let (frames, end) = read_batches(&mut source, 4);
    assert_known(&frames, SHAPE, 0..5);
    let said = said(end);
    for part in ["a.npy", "frame 5 ends at", "cut or written anew while it was read"] {
        assert!(said.contains(part), "{said}");
    }
    assert_eq!(read_batches(&mut source, 4).1.unwrap_err().to_string(), said);
}

#[test]
fn frames_of_another_size_are_not_written() {
    let dir = tempfile::tempdir().unwrap();
    let mut out = NpyFrames::create(dir.path().join("a.npy"), SHAPE).unwrap();
    assert!(said(out.push(&[0; 53])).contains("53 pixels"));
    drop(out);
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn a_wrong_buffer_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let mut source = NpySource::open(&write(dir.path(), 2)).unwrap();
    let mut buf = scheidegg::FrameBuf::new(Shape { rows: 9, cols: 6 }, 2);
    assert!(said(source.read(&mut buf)).contains("shape 9 x 6, expected 6 x 9"));
}

#[test]
fn masks_are_loaded() {
    let dir = tempfile::tempdir().unwrap();
    let mut elements = [0; 54];
    (elements[3], elements[53]) = (1, 200);
    let mut expected = PixelMask::new(SHAPE);
    expected.insert_index(3);
    expected.insert_index(53);
    let mask = |descr: &str, shape: &str| {
        let text = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}}}");
        load_mask(&file(dir.path(), 1, &text, &elements), SHAPE)
    };
    assert_eq!(mask("|b1", "(6, 9)").unwrap(), expected);
    assert_eq!(mask("|u1", "(6, 9)").unwrap(), expected);
    assert!(said(mask("|u1", "(9, 6)")).contains("shape 9 x 6, expected 6 x 9"));
    assert!(said(mask("|u1", "(54,)")).contains("[54]"));
    assert!(said(mask("<u2", "(3, 9)")).contains("3 x 9"));
    assert_eq!(mask("|i1", "(6, 9)").unwrap(), expected);
    assert!(said(mask("<f2", "(3, 9)")).contains("<f2"));
    assert!(said(mask("<u2", "(6, 9)")).contains("is cut"));
}

#[test]
fn images_are_written() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("mean.npy");
    let image = ndarray::Array2::from_shape_fn((3, 4), |(r, c)| r as f64 + c as f64 / 10.0);
    write_image(&path, image.t()).unwrap();
    let bytes = fs::read(&path).unwrap();
    assert!(
        String::from_utf8_lossy(&bytes).contains("'descr': '<f8', 'fortran_order': False, 'shape': (4, 3)")
    );
    let last = f64::from_le_bytes(bytes[bytes.len() - 8..].try_into().unwrap());
    let second = f64::from_le_bytes(bytes[bytes.len() - 11 * 8..][..8].try_into().unwrap());
    assert_eq!((last, second), (2.3, 1.0));
}
