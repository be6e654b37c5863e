//! Raw runs, written by the tests themselves: ports, modules, subfiles, losses, gains and everything that goes wrong.

mod io_common;

use std::fs::{self, File};

use io_common::*;
use scheidegg::Shape;
use scheidegg::io::raw::{Detector, Header, PacketSet};
use scheidegg::io::{Gain, RawOptions, RawReading, RawSource, RawWriter, Source};

#[test]
fn one_port_gives_what_was_written() {
    let dir = tempfile::tempdir().unwrap();
    let o = options(32, 50);
    let mut source = open(&write_run(dir.path(), &o, 10));
    assert_eq!((source.shape(), source.remaining()), (o.shape, Some(10)));
    assert_known(&read_all(&mut source), o.shape, 1..=10);
    assert_eq!((source.remaining(), source.health()), (Some(0), Default::default()));
}

#[test]
fn ports_and_modules_give_the_same_frames() {
    for (ports, down, across) in [(2, 1, 1), (1, 3, 1), (1, 1, 2), (2, 2, 3)] {
        let dir = tempfile::tempdir().unwrap();
        let modules = Shape { rows: down, cols: across };
        let o = RawOptions { ports, modules, ..options(48, 60) };
        let mut source = open(&write_run(dir.path(), &o, 9));
        assert_eq!(source.ports().count(), ports * down * across);
        assert_known(&read_all(&mut source), o.shape, 1..=9);
        assert_eq!(source.health(), Default::default(), "{o:?}");
    }
}

#[test]
fn batches_do_not_matter() {
    let dir = tempfile::tempdir().unwrap();
    let o = RawOptions { ports: 2, ..options(32, 50) };
    let master = write_run(dir.path(), &o, 11);
    for batch in [1, 2, 5, 11, 20] {
        let (frames, end) = read_batches(&mut open(&master), batch);
        end.unwrap();
        assert_known(&frames, o.shape, 1..=11);
    }
}

#[test]
fn skipped_frames_are_gone() {
    let dir = tempfile::tempdir().unwrap();
    let o = options(16, 20);
    let mut source = open(&write_run(dir.path(), &o, 10));
    assert_eq!(source.skip(6).unwrap().frames, 6);
    assert_eq!(source.remaining(), Some(4));
    assert_known(&read_all(&mut source), o.shape, 7..=10);
    assert_eq!(source.skip(5).unwrap().frames, 0);
}

#[test]
fn files_are_opened_when_they_are_reached() {
    let dir = tempfile::tempdir().unwrap();
    let o = options(16, 20);
    let mut source = open(&write_run(dir.path(), &o, 10));
    // The third file goes away behind the reader's back; the first two do not need it.
    fs::remove_file(dir.path().join("run_d0_f2_0.raw")).unwrap();
    let (frames, end) = read_batches(&mut source, 2);
    assert_known(&frames, o.shape, 1..=8);
    assert!(said(end).contains("run_d0_f2_0.raw"));
}

#[test]
fn twelve_digits_are_an_index_too() {
    for by_frame in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let o = options(16, 20);
        let master = write_run(dir.path(), &o, 10);
        for k in 0..3 {
            let index = if by_frame { k * 4 } else { k };
            let (from, to) = (format!("run_d0_f{k}_0.raw"), format!("run_d0_f{index:012}_0.raw"));
            fs::rename(dir.path().join(from), dir.path().join(to)).unwrap();
        }
        let mut source = open(&master);
        assert_known(&read_all(&mut source), o.shape, 1..=10);
        assert_eq!(source.health(), Default::default());
    }
}

/// Fault: a subfile that is cut shifts the frames after it.
#[test]
fn a_cut_subfile_is_an_error_and_shifts_nothing() {
    for (file, whole) in [(0, 2), (1, 6)] {
        let dir = tempfile::tempdir().unwrap();
        let o = RawOptions { ports: 2, ..options(16, 20) };
        let master = write_run(dir.path(), &o, 12);
        let path = dir.path().join(format!("run_d1_f{file}_0.raw"));
        let stride = Header::BYTES as u64 + 16 * 20;
        File::options().write(true).open(&path).unwrap().set_len(2 * stride + 200).unwrap();
        let mut source = open(&master);
        let (frames, end) = read_batches(&mut source, 5);
        assert_known(&frames, o.shape, 1..=whole);
        let said = said(end);
        let next = whole + 1;
        for part in [&format!("run_d1_f{file}_0.raw"), &format!("frame {next}"), "200 bytes", "432 expected"]
        {
            assert!(said.contains(part), "{part}: {said}");
        }
        // The same again, not the frames behind it.
        assert_eq!(read_batches(&mut source, 5).1.unwrap_err().to_string(), said);
    }
}

/// Fault: a file cut while it is read is "failed to fill whole buffer", and the frames of the batch before it are gone.
#[test]
fn a_file_cut_while_it_is_read_is_named_with_its_frame() {
    for ports in [1, 2] {
        let dir = tempfile::tempdir().unwrap();
        let o = RawOptions { ports, ..options(16, 20) };
        let mut source = open(&write_run(dir.path(), &o, 8));
        let path = dir.path().join(format!("run_d{}_f0_0.raw", ports - 1));
        let bytes = fs::metadata(&path).unwrap().len();
        File::options().write(true).open(&path).unwrap().set_len(bytes - 20).unwrap();
        let (frames, end) = read_batches(&mut source, 8);
        assert_known(&frames, o.shape, 1..=3);
        let said = said(end);
        for part in [&format!("run_d{}_f0_0.raw", ports - 1), "frame 4 ends at", "while it was read"] {
            assert!(said.contains(part), "{said}");
        }
        assert_eq!(read_batches(&mut source, 8).1.unwrap_err().to_string(), said);
    }
}

#[test]
fn a_file_cut_inside_a_header_names_the_frame_before() {
    let dir = tempfile::tempdir().unwrap();
    let o = options(16, 20);
    let master = write_run(dir.path(), &o, 3);
    let path = dir.path().join("run_d0_f0_0.raw");
    File::options().write(true).open(&path).unwrap().set_len(2 * (112 + 640) + 50).unwrap();
    let (frames, end) = read_batches(&mut open(&master), 5);
    assert_known(&frames, o.shape, 1..=2);
    let said = said(end);
    assert!(said.contains("the frame after 2") && said.contains("50 bytes"), "{said}");
}

/// Fault: a subfile that is missing shifts the frames after it.
#[test]
fn a_missing_subfile_is_an_error_and_shifts_nothing() {
    for ports in [1, 2] {
        let dir = tempfile::tempdir().unwrap();
        let o = RawOptions { ports, ..options(16, 20) };
        let master = write_run(dir.path(), &o, 12);
        let name = format!("run_d{}_f1_0.raw", ports - 1);
        fs::remove_file(dir.path().join(&name)).unwrap();
        let mut source = open(&master);
        assert!(source.health().warnings.iter().any(|w| w.contains(&name)));
        let (frames, end) = read_batches(&mut source, 3);
        assert_known(&frames, o.shape, 1..=4);
        let said = said(end);
        assert!(said.contains(&name) && said.contains("is missing"), "{said}");
    }
}

#[test]
fn the_first_subfile_may_not_be_missing() {
    let dir = tempfile::tempdir().unwrap();
    let master = write_run(dir.path(), &options(16, 20), 12);
    fs::remove_file(dir.path().join("run_d0_f0_0.raw")).unwrap();
    let (frames, end) = read_batches(&mut open(&master), 3);
    assert!(frames.is_empty());
    assert!(said(end).contains("run_d0_f0_0.raw"));
}

#[test]
fn a_port_without_files_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let master = write_run(dir.path(), &RawOptions { ports: 2, ..options(16, 20) }, 3);
    fs::remove_file(dir.path().join("run_d1_f0_0.raw")).unwrap();
    let refused = said(RawSource::open(&master, &RawReading::default()));
    assert!(refused.contains("port 1 has no data file"), "{refused}");
    fs::remove_file(dir.path().join("run_d0_f0_0.raw")).unwrap();
    let refused = said(RawSource::open(&master, &RawReading::default()));
    assert!(refused.contains("run_d0_f0_0.raw"), "{refused}");
}

#[test]
fn a_shorter_port_ends_the_run() {
    let dir = tempfile::tempdir().unwrap();
    let o = RawOptions { ports: 2, ..options(16, 20) };
    let master = write_run(dir.path(), &o, 12);
    fs::remove_file(dir.path().join("run_d1_f2_0.raw")).unwrap();
    let mut source = open(&master);
    assert_eq!(source.remaining(), Some(8));
    assert_known(&read_all(&mut source), o.shape, 1..=8);
    let health = source.health();
    assert_eq!((health.incomplete_frames, health.gaps), (4, 0));
    assert!(health.warnings.iter().any(|w| w.contains("port 1 ends 4 frames before")), "{health:?}");
    assert!(health.warnings.iter().any(|w| w.contains("master says 12 frames")), "{health:?}");
}

/// Writes frames 1 to 12 of two ports; port `d` lacks the frames `missing[d]`.
fn write_with_missing(folder: &std::path::Path, o: &RawOptions, missing: [&[u64]; 2]) -> std::path::PathBuf {
    let mut writer = RawWriter::create(folder, "run", o).unwrap();
    for n in 1..=12 {
        writer.push_ports(n, &image(o.shape, n), &[], |d| !missing[d].contains(&n)).unwrap();
    }
    writer.finish().unwrap()
}

#[test]
fn a_frame_that_one_port_lacks_is_left_out_and_shifts_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let o = RawOptions { ports: 2, ..options(16, 20) };
    let mut source = open(&write_with_missing(dir.path(), &o, [&[3, 10], &[4, 5]]));
    assert_known(&read_all(&mut source), o.shape, [1, 2, 6, 7, 8, 9, 11, 12]);
    let health = source.health();
    assert_eq!((health.incomplete_frames, health.gaps, health.repeated_frames), (4, 0, 0));
    assert!(health.warnings.iter().any(|w| w.contains("frame 3 is missing in port 0")), "{health:?}");
}

#[test]
fn frames_that_every_port_lacks_are_gaps() {
    let dir = tempfile::tempdir().unwrap();
    let o = RawOptions { ports: 2, ..options(16, 20) };
    // 1 is before the first, 12 after the last: nobody knows that they ever were.
    let mut source = open(&write_with_missing(dir.path(), &o, [&[1, 5, 6, 9, 12], &[1, 5, 6, 12]]));
    assert_known(&read_all(&mut source), o.shape, [2, 3, 4, 7, 8, 10, 11]);
    assert_eq!((source.health().gaps, source.health().incomplete_frames), (2, 1));
}

#[test]
fn repeated_frames_are_left_out_and_late_ones_put_in_order() {
    let dir = tempfile::tempdir().unwrap();
    let o = options(16, 20);
    let mut writer = RawWriter::create(dir.path(), "run", &o).unwrap();
    for n in [1, 2, 2, 4, 3, 5] {
        writer.push(n, &image(o.shape, n)).unwrap();
    }
    let mut source = open(&writer.finish().unwrap());
    assert_known(&read_all(&mut source), o.shape, 1..=5);
    let health = source.health();
    assert_eq!((health.repeated_frames, health.gaps), (1, 0));
    assert!(health.warnings.iter().any(|w| w.contains("frame 4 comes before frame 3")), "{health:?}");
    assert!(health.warnings.iter().any(|w| w.contains("frame 2 comes again after frame 2")), "{health:?}");
}

#[test]
fn a_repeated_frame_in_one_port_shifts_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let o = RawOptions { ports: 2, ..options(16, 20) };
    let mut writer = RawWriter::create(dir.path(), "run", &o).unwrap();
    for n in 1..=6 {
        writer.push(n, &image(o.shape, n)).unwrap();
        if n == 3 {
            writer.push_ports(n, &image(o.shape, 99), &[], |d| d == 1).unwrap();
        }
    }
    let mut source = open(&writer.finish().unwrap());
    assert_known(&read_all(&mut source), o.shape, 1..=6);
    assert_eq!(source.health().repeated_frames, 1);
}

#[test]
fn frame_numbers_have_64_bits() {
    let dir = tempfile::tempdir().unwrap();
    let o = options(16, 20);
    let mut writer = RawWriter::create(dir.path(), "run", &o).unwrap();
    let numbers = [7, 1 << 31, 1 << 40, u64::MAX - 1, u64::MAX];
    for n in numbers {
        writer.push(n, &image(o.shape, 0)).unwrap();
    }
    let mut source = open(&writer.finish().unwrap());
    let read: Vec<_> = read_all(&mut source).iter().map(|f| f.number).collect();
    assert_eq!(read, numbers);
}

/// Fault: the 0xFFFF of lost packets is found as photons, or fed to the pedestal.
#[test]
fn lost_packets_are_masked_and_counted() {
    for (detector, shape, ports, packets) in [
        (Detector::Jungfrau, Shape { rows: 512, cols: 1024 }, 1, 128),
        (Detector::Jungfrau, Shape { rows: 512, cols: 1024 }, 2, 64),
        (Detector::Moench, Shape { rows: 400, cols: 400 }, 1, 50),
        (Detector::Moench, Shape { rows: 400, cols: 400 }, 2, 25),
        // An image that no packet of the detector divides.
        (Detector::Moench, Shape { rows: 60, cols: 400 }, 1, 10),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let o = RawOptions { ports, ..RawOptions::new(detector, shape) };
        let mut writer = RawWriter::create(dir.path(), "run", &o).unwrap();
        assert_eq!(writer.packets(), packets);
        let last = ports - 1;
        let (lost, rows) = ([(0, 2), (last, 5)], [writer.packet_rows(0, 2), writer.packet_rows(last, 5)]);
        writer.push(1, &image(shape, 1)).unwrap();
        writer.push_lossy(2, &image(shape, 2), &lost).unwrap();
        writer.push(3, &image(shape, 3)).unwrap();
        let mut source = open(&writer.finish().unwrap());
        assert_eq!(source.packets(), Some(packets));
        let frames = read_all(&mut source);
        let mask = frames[1].lost.as_ref().unwrap();
        let whole = image(shape, 2);
        for (i, pixel) in whole.iter().enumerate() {
            let gone = rows.iter().any(|r| r.contains(&(i / shape.cols)));
            assert_eq!(mask.contains_index(i), gone, "pixel {i}");
            assert!(frames[1].pixels[i] <= 0x3fff, "gain bits stay at pixel {i}");
            assert!(gone || frames[1].pixels[i] == *pixel);
        }
        assert!(frames[0].lost.is_none() && frames[2].lost.is_none());
        let health = source.health();
        assert_eq!((health.lost_packets, health.gain_pixels), (2, 0));
        assert_eq!(health.lost_pixels, (2 * rows[0].len() * shape.cols) as u64);
    }
}

#[test]
fn a_frame_of_which_nothing_arrived_is_masked_whole() {
    let dir = tempfile::tempdir().unwrap();
    let o = options(32, 200);
    let mut writer = RawWriter::create(dir.path(), "run", &o).unwrap();
    let all: Vec<_> = (0..writer.packets()).map(|p| (0, p)).collect();
    writer.push(1, &image(o.shape, 1)).unwrap();
    writer.push_lossy(2, &image(o.shape, 2), &all).unwrap();
    let frames = read_all(&mut open(&writer.finish().unwrap()));
    assert_eq!(frames[1].lost.as_ref().unwrap().count(), o.shape.pixels());
}

/// Changes the headers of a data file.
fn change_headers(path: &std::path::Path, image: usize, change: impl Fn(usize, &mut Header)) {
    let mut bytes = fs::read(path).unwrap();
    for (k, frame) in bytes.chunks_mut(Header::BYTES + image).enumerate() {
        let mut header = Header::parse(frame[..Header::BYTES].try_into().unwrap());
        change(k, &mut header);
        frame[..Header::BYTES].copy_from_slice(&header.to_bytes());
    }
    fs::write(path, bytes).unwrap();
}

#[test]
fn without_a_packet_mask_lost_rows_are_told_by_their_ones() {
    let dir = tempfile::tempdir().unwrap();
    let shape = Shape { rows: 400, cols: 400 };
    let o = RawOptions::new(Detector::Moench, shape);
    let mut writer = RawWriter::create(dir.path(), "run", &o).unwrap();
    writer.push(1, &image(shape, 1)).unwrap();
    writer.push_lossy(2, &image(shape, 2), &[(0, 7)]).unwrap();
    let master = writer.finish().unwrap();
    change_headers(&dir.path().join("run_d0_f0_0.raw"), 320_000, |_, h| h.caught = PacketSet::EMPTY);
    let mut source = open(&master);
    let frames = read_all(&mut source);
    assert_eq!(frames[0].lost, None);
    let rows: Vec<_> = frames[1].lost.as_ref().unwrap().indices().step_by(400).map(|i| i / 400).collect();
    assert_eq!(rows, (56..64).collect::<Vec<_>>());
    assert_eq!((source.health().lost_packets, source.health().lost_pixels), (1, 3200));
}

#[test]
fn lost_packets_that_were_not_padded_are_told_by_the_mask() {
    let dir = tempfile::tempdir().unwrap();
    let shape = Shape { rows: 400, cols: 400 };
    let o = RawOptions { ports: 2, ..RawOptions::new(Detector::Moench, shape) };
    let master = write_run(dir.path(), &o, 2);
    // What lies in the file is an older image, say, and no 0xFFFF.
    change_headers(&dir.path().join("run_d1_f0_0.raw"), 160_000, |k, h| {
        if k == 1 {
            h.caught.remove(24);
            h.packets = 24;
        }
    });
    let mut source = open(&master);
    let frames = read_all(&mut source);
    assert_eq!(frames[0].lost, None);
    let lost: Vec<_> = frames[1].lost.as_ref().unwrap().indices().collect();
    assert_eq!(lost, (392 * 400..400 * 400).collect::<Vec<_>>());
    assert_eq!((source.health().lost_packets, source.health().lost_pixels), (1, 3200));
}

#[test]
fn headers_that_count_no_packets_leave_the_rows_of_ones() {
    let dir = tempfile::tempdir().unwrap();
    let o = options(30, 70);
    let mut writer = RawWriter::create(dir.path(), "run", &o).unwrap();
    let mut pixels = image(o.shape, 1);
    pixels[4 * 70..6 * 70].fill(0xffff);
    writer.push(1, &pixels).unwrap();
    let master = writer.finish().unwrap();
    change_headers(&dir.path().join("run_d0_f0_0.raw"), 4200, |_, h| {
        (h.caught, h.packets) = (PacketSet::EMPTY, 0)
    });
    let mut source = open(&master);
    let frames = read_all(&mut source);
    assert_eq!(frames[0].lost.as_ref().unwrap().count(), 140);
    assert!(source.health().warnings.iter().any(|w| w.contains("rows of 0xFFFF")), "{:?}", source.health());
}

/// Fault: gain bits are taken as charge.
#[test]
fn other_gains_are_masked_unless_told_otherwise() {
    for detector in [Detector::Jungfrau, Detector::Moench] {
        let dir = tempfile::tempdir().unwrap();
        let shape = Shape { rows: 16, cols: 24 };
        let o = RawOptions { ports: 2, ..RawOptions::new(detector, shape) };
        let mut writer = RawWriter::create(dir.path(), "run", &o).unwrap();
        let charge = image(shape, 1);
        let mut words = charge.clone();
        let switched = [(5, 0x4000), (200, 0xc000), (383, 0x8000)];
        switched.iter().for_each(|(i, bits)| words[*i] |= bits);
        writer.push(1, &words).unwrap();
        let master = writer.finish().unwrap();

        let mut source = open(&master);
        let frame = read_all(&mut source).remove(0);
        assert_eq!(frame.pixels, charge);
        assert_eq!(frame.lost.unwrap().indices().collect::<Vec<_>>(), [5, 200, 383]);
        assert_eq!((source.health().gain_pixels, source.health().lost_pixels), (3, 0));

        assert!(
            source.health().warnings.iter().any(|w| w.contains("3 pixels in 1 frames are not in gain 0"))
        );

        for (gain, kept) in [(Gain::KeepValue, &charge), (Gain::None, &words)] {
            let reading = RawReading { gain, ..RawReading::default() };
            let mut source = RawSource::open(&master, &reading).unwrap();
            let frame = read_all(&mut source).remove(0);
            assert_eq!((&frame.pixels, frame.lost), (kept, None));
            assert!(source.health().gain_pixels == 0 && source.health().warnings.is_empty());
        }
    }
}

#[test]
fn most_pixels_in_another_gain_are_remarked() {
    let dir = tempfile::tempdir().unwrap();
    let o = options(16, 20);
    let mut writer = RawWriter::create(dir.path(), "run", &o).unwrap();
    writer.push(1, &image(o.shape, 1).iter().map(|w| w | 0x4000).collect::<Vec<_>>()).unwrap();
    let mut source = open(&writer.finish().unwrap());
    assert_eq!(read_all(&mut source)[0].lost.as_ref().unwrap().count(), 320);
    assert!(source.health().warnings.iter().any(|w| w.contains("most pixels are masked")));
}

#[test]
fn an_unfinished_run_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let o = options(16, 20);
    let mut writer = RawWriter::create(dir.path(), "run", &o).unwrap();
    (1..=9).for_each(|n| writer.push(n, &image(o.shape, n)).unwrap());
    drop(writer);
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn a_shorter_run_replaces_a_longer_one_whole() {
    let dir = tempfile::tempdir().unwrap();
    let o = options(16, 20);
    write_run(dir.path(), &o, 10);
    fs::write(dir.path().join("run_d0_f0_1.raw"), b"another run").unwrap();
    let mut source = open(&write_run(dir.path(), &o, 3));
    assert_known(&read_all(&mut source), o.shape, 1..=3);
    assert_eq!(source.health(), Default::default());
    assert!(dir.path().join("run_d0_f0_1.raw").exists());
}

#[test]
fn a_run_without_frames_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let o = options(16, 20);
    let mut source = open(&write_run(dir.path(), &o, 0));
    assert!(read_all(&mut source).is_empty());
}

#[test]
fn what_cannot_be_written_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let odd = RawOptions { ports: 2, ..options(33, 20) };
    assert!(said(RawWriter::create(dir.path(), "run", &odd)).contains("33 x 20"));
    let mut writer = RawWriter::create(dir.path(), "run", &options(16, 20)).unwrap();
    assert!(said(writer.push(1, &[0; 7])).contains("7 pixels"));
    assert!(said(writer.push_lossy(1, &[0; 320], &[(0, 9)])).contains("lost packet"));
}

#[test]
fn two_files_for_one_part_of_a_run_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let master = write_run(dir.path(), &options(16, 20), 9);
    let twice = dir.path().join("run_d0_f000000000001_0.raw");
    fs::copy(dir.path().join("run_d0_f1_0.raw"), twice).unwrap();
    let refused = said(RawSource::open(&master, &RawReading::default()));
    assert!(
        refused.contains("stands for the same part of the run as") && refused.contains("f1_0.raw"),
        "{refused}"
    );
}

/// What headers say that the master does not.
#[test]
fn headers_that_lie_are_remarked() {
    type Change<'a> = &'a dyn Fn(&mut Header);
    let cases: [(Change, Option<&str>); 6] = [
        (&|_| {}, None),
        (&|h| h.detector = 0, None),
        (&|h| h.detector = 3, Some("the frame header says detector 3, the master 5 (Moench)")),
        (&|h| (h.row, h.column) = (0, 0), None),
        (&|h| h.column = 7, Some("puts port 1 at row 1 and column 7, its place in the run at 1 and 0")),
        (&|h| (h.row, h.column) = (0, 1), Some("puts port 1 at row 0 and column 1")),
    ];
    for (change, part) in cases {
        let dir = tempfile::tempdir().unwrap();
        let o = RawOptions { ports: 2, ..options(16, 20) };
        let master = write_run(dir.path(), &o, 3);
        change_headers(&dir.path().join("run_d1_f0_0.raw"), 320, |_, h| change(h));
        let mut source = open(&master);
        let warnings = source.health().warnings;
        match part {
            None => assert!(warnings.is_empty(), "{warnings:?}"),
            Some(part) => assert!(warnings.len() == 1 && warnings[0].contains(part), "{warnings:?}"),
        }
        assert_known(&read_all(&mut source), o.shape, 1..=3);
    }
}

/// Of every image the packets that its header lacks are counted, also where no header of the first file counts all.
#[test]
fn packets_are_learnt_from_the_headers_of_every_port() {
    let dir = tempfile::tempdir().unwrap();
    let o = RawOptions { ports: 2, ..options(64, 200) };
    let mut writer = RawWriter::create(dir.path(), "run", &o).unwrap();
    let packets = writer.packets();
    assert!(packets > 1, "one packet tells nothing");
    (1..=3).for_each(|n| writer.push_lossy(n, &image(o.shape, n), &[(0, packets - 1)]).unwrap());
    let mut source = open(&writer.finish().unwrap());
    assert_eq!(source.packets(), Some(packets));
    let frames = read_all(&mut source);
    assert_eq!((frames.len() as u64, source.health().lost_packets), (3, 3));
    assert_eq!(frames[2].lost.as_ref().unwrap().count(), 32 / packets * 200);
}
