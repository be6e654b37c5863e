//! Ports put together: pixels, masks, notes and what is said of a file that ends too soon.

use std::path::PathBuf;
use std::sync::Arc;

use scheidegg_finder::{Error, FrameBuf, FrameNote, FrameOwner, Shape};

use super::{Assembly, Part, Subfile, split};
use crate::io::raw::{Gain, Header, PacketSet, RawReading, RawSource};
use crate::io::{Health, Source};

const SHAPE: Shape = Shape { rows: 2, cols: 3 };

/// The words of a frame or port, all different.
fn words(n: u64) -> Vec<u16> {
    (0..6).map(|i| 100 * n as u16 + i).collect()
}

fn bytes_of(words: &[u16]) -> Vec<u8> {
    words.iter().flat_map(|w| w.to_le_bytes()).collect()
}

/// A `.dat` file of these frames, of which `less` bytes are gone since it was looked at.
fn dat(index: u64, numbers: &[u64], less: usize) -> Part {
    let frame = |n: &u64| [&n.to_le_bytes()[..], &(500 + n).to_le_bytes(), &bytes_of(&words(*n))].concat();
    let mut content = numbers.iter().map(frame).collect::<Vec<_>>().concat();
    let bytes = content.len() as u64;
    content.truncate(content.len() - less);
    let path = PathBuf::from(format!("s_f{index:05}.dat"));
    Part(Subfile { index, path, bytes, memory: Some(Arc::from(content)) })
}

fn series(parts: Vec<Part>, keep_going: bool) -> Assembly {
    Assembly::of_dat("series".into(), SHAPE, parts, Gain::MaskOthers, keep_going).unwrap()
}

/// A buffer with old values in it, of one frame that is not the source's and room for more.
fn part_full(shape: Shape, room: usize) -> FrameBuf {
    let mut buf = FrameBuf::in_memory(shape, Box::new(vec![0xdead; shape.pixels() * (room + 1)]));
    buf.push(0, |_| Ok(None)).unwrap();
    buf
}

#[test]
fn frames_come_with_their_notes_in_any_batches() {
    for room in 1..6 {
        let mut source = series(vec![dat(0, &[7, 8, 9], 0), dat(1, &[10, 12], 0)], false);
        assert_eq!(source.skip(1).unwrap().frames, 1);
        let mut next = [8, 9, 10, 12].into_iter();
        loop {
            let mut buf = part_full(SHAPE, room);
            let count = source.read(&mut buf).unwrap();
            if count == 0 {
                break;
            }
            assert_eq!(buf.notes().len(), 1 + count);
            assert_eq!(buf.notes()[0], FrameNote::default());
            for k in 1..=count {
                let n = next.next().unwrap();
                assert_eq!((buf.frames().number(k), buf.frames().frame(k)), (n, &words(n)[..]));
                assert_eq!(buf.notes()[k], FrameNote { bunch_id: Some(500 + n), ..FrameNote::default() });
            }
        }
        assert_eq!(next.next(), None);
        assert_eq!(source.health(true), Health { gaps: 1, ..Health::default() });
    }
}

#[test]
fn a_file_that_was_cut_meanwhile_ends_the_frames_for_good() {
    let mut source = series(vec![dat(0, &[7, 8, 9], 8), dat(1, &[10], 0)], false);
    let mut buf = part_full(SHAPE, 9);
    assert_eq!(source.read(&mut buf).unwrap(), 2);
    let said = "s_f00000.dat: frame 9 ends at byte 84, but the file has 76 now: it was cut or written anew while it was \
                read (wait until it is complete, or read the frames before only)";
    for _ in 0..2 {
        assert_eq!(source.read(&mut buf).unwrap_err().to_string(), said);
        assert_eq!(source.skip(1).unwrap_err().to_string(), said);
        // Who asks for nothing gets nothing.
        assert_eq!(source.skip(0).unwrap().frames, 0);
        let mut full = FrameBuf::new(SHAPE, 1);
        full.push(0, |_| Ok(None)).unwrap();
        assert_eq!(source.read(&mut full).unwrap(), 0);
    }
    let error = |e: Error| split(&e);
    let io = std::io::Error::other("no answer");
    assert_eq!(error(Error::io("a/b", io)), ("a/b".into(), "no answer".into()));
    assert_eq!(error(Error::file("a", "is odd")), ("a".into(), "is odd".into()));
    assert_eq!(error(Error::Other("else".into())), ("".into(), "else".into()));
}

#[test]
fn what_is_there_of_a_cut_frame_is_given_to_who_keeps_going() {
    // Two of its six words are there, and half of the third.
    for (less, there) in [(8, 2), (7, 2), (12, 0), (2, 5)] {
        let mut source = series(vec![dat(0, &[7, 8, 9], less), dat(1, &[10], 0)], true);
        let mut buf = part_full(SHAPE, 9);
        assert_eq!(source.read(&mut buf).unwrap(), 4);
        let frames = buf.frames();
        assert_eq!((frames.frame(2), frames.frame(4)), (&words(8)[..], &words(10)[..]));
        assert_eq!(frames.frame(3)[..there], words(9)[..there]);
        assert!(frames.frame(3)[there..].iter().all(|p| *p == 0));
        let lost: Vec<_> = frames.lost(3).unwrap().indices().collect();
        assert_eq!(lost, (there..6).collect::<Vec<_>>());
        let warnings = vec!["series: 1 frames were cut: the pixels that are missing are masked".to_string()];
        let lost_pixels = 6 - there as u64;
        assert_eq!(source.health(true), Health { lost_pixels, warnings, ..Health::default() });
    }
}

/// A JUNGFRAU of two ports, one below the other or side by side; three packets an image where their number is told.
fn raw(
    across: bool,
    rows_read: usize,
    files: [Option<Vec<u8>>; 2],
    reading: &RawReading,
) -> scheidegg_finder::Result<RawSource> {
    let (x, y) = if across { (2, 1) } else { (1, 2) };
    let master = format!(
        r#"{{"Version": 8.0, "Detector Type": "Jungfrau", "Geometry": {{"x": {x}, "y": {y}}}, "Image Size": 12,
            "Pixels": {{"x": 3, "y": 2}}, "Number of Rows": {rows_read}}}"#
    );
    let files = files.into_iter().enumerate().filter_map(|(d, f)| Some((d, 0, f?)));
    RawSource::in_memory(master.as_bytes(), files, reading)
}

/// A frame of a port, of which these packets came.
fn sent(n: u64, caught: &[usize], words: &[u16]) -> Vec<u8> {
    let mut h = Header::parse(&[0; Header::BYTES]);
    (h.frame, h.bunch, h.timestamp_100ns, h.packets) = (n, 40 + n, 70 + n, caught.len() as u32);
    h.spec3 = (n as u32 % 2) << 8;
    h.caught = PacketSet::first(3);
    (0..3).filter(|p| !caught.contains(p)).for_each(|p| h.caught.remove(p));
    [&h.to_bytes()[..], &bytes_of(words)].concat()
}

const ALL: &[usize] = &[0, 1, 2];

#[test]
fn headers_are_noted_and_their_losses_added_up() {
    let port = |lost: &[usize], first| {
        let caught: Vec<_> = (0..3).filter(|p| !lost.contains(p)).collect();
        [sent(1, ALL, &words(first)), sent(2, &caught, &words(first + 1))].concat()
    };
    let files = || [Some(port(&[1], 1)), Some(port(&[0, 2], 3))];
    for across in [false, true] {
        let mut source = raw(across, 2, files(), &RawReading::default()).unwrap();
        let mut buf = part_full(source.shape(), 2);
        assert_eq!(source.read(&mut buf).unwrap(), 2);
        let note = |n: u64, lost| FrameNote {
            bunch_id: Some(40 + n),
            timestamp: Some(70 + n),
            lost_packets: Some(lost),
            storage_cell: Some(n as u32 % 2),
        };
        assert_eq!(buf.notes()[1..], [note(1, 0), note(2, 3)]);
        // Two words a packet; ports side by side have every other three pixels.
        let lost: Vec<_> = buf.frames().lost(2).unwrap().indices().collect();
        assert_eq!(lost, if across { [2, 3, 4, 6, 10, 11].to_vec() } else { [2, 3, 6, 7, 10, 11].to_vec() });
        let health = source.health();
        assert_eq!((health.lost_packets, health.lost_pixels, health.storage_cells), (3, 6, 3));
        let cells = "memory_master_0.json: frames of the storage cells 0, 1 are mixed, each of which has a pedestal of its \
                     own: take frames of one cell only";
        assert_eq!(health.warnings, [cells]);
        // What is passed is counted as well, once.
        let mut source = raw(across, 2, files(), &RawReading::default()).unwrap();
        assert_eq!(source.skip(9).unwrap().frames, 2);
        assert_eq!((source.health().lost_packets, source.health().storage_cells), (3, 3));
        assert_eq!(source.facts().storage_cell, Some(1));
    }
}

#[test]
fn rows_of_ones_are_remarked_where_packets_are_not_known() {
    let mut ones = words(1);
    ones[3..].fill(0xffff);
    for (rows_read, known) in [(2, true), (3, false)] {
        let files = || [Some(sent(2, ALL, &words(5))), Some(sent(2, ALL, &ones))];
        let mut source = raw(false, rows_read, files(), &RawReading::default()).unwrap();
        assert_eq!(source.packets(), known.then_some(3));
        let mut buf = part_full(source.shape(), 2);
        assert_eq!(source.read(&mut buf).unwrap(), 1);
        assert_eq!(buf.frames().lost(1).unwrap().indices().collect::<Vec<_>>(), [9, 10, 11]);
        let warnings: &[&str] = match known {
            true => &[],
            false => &[
                "memory_master_0.json: packets of an image are not known; lost ones are told by rows of 0xFFFF and not \
                 counted",
                "memory_master_0.json: 3 pixels in 1 frames are 0xFFFF, as receivers write for lost packets: masked there",
            ],
        };
        assert_eq!(source.health().warnings, warnings);
    }
}

#[test]
fn a_port_that_is_damaged_or_missing_is_masked_where_it_is() {
    let keep_going = RawReading { keep_going: true, ..RawReading::default() };
    let two = |first| [sent(2, ALL, &words(first)), sent(3, ALL, &words(first + 1))].concat();
    for across in [false, true] {
        // One word more than the first row of the second port's last image.
        let mut cut = two(3);
        cut.truncate(cut.len() - 4);
        let mut source = raw(across, 2, [Some(two(1)), Some(cut)], &keep_going).unwrap();
        let mut buf = part_full(source.shape(), 3);
        assert_eq!(source.read(&mut buf).unwrap(), 2);
        assert_eq!(buf.frames().lost(1), None);
        assert_eq!(buf.frames().lost(2).unwrap().indices().collect::<Vec<_>>(), [10, 11]);
        assert_eq!(buf.frames().frame(2)[9], words(4)[3]);
        assert_eq!((source.health().lost_pixels, source.health().damaged_files), (2, 1));

        // Nothing of the first port: zeros, masked, and not taken for lost.
        let mut source = raw(across, 2, [None, Some(two(3))], &keep_going).unwrap();
        let mut buf = part_full(source.shape(), 3);
        assert_eq!(source.read(&mut buf).unwrap(), 2);
        let first: Vec<usize> = if across { vec![0, 1, 2, 6, 7, 8] } else { (0..6).collect() };
        assert_eq!(buf.frames().lost(1).unwrap().indices().collect::<Vec<_>>(), first);
        assert!(first.iter().all(|p| buf.frames().frame(1)[*p] == 0));
        assert_eq!(source.health().lost_pixels, 0);

        // A part of a header and no more: the frame is not there.
        let mut short = two(3);
        short.extend([0; 50]);
        let mut source = raw(across, 2, [Some(two(1)), Some(short)], &keep_going).unwrap();
        assert_eq!(source.skip(9).unwrap().frames, 2);
        let health = source.health();
        assert_eq!((health.incomplete_frames, health.damaged_files), (1, 1));
        let said =
            "memory_d1_f0_0.raw: ends inside the header of a frame: 50 bytes of it are there: passed over";
        assert!(health.warnings.contains(&said.to_string()), "{health:?}");
    }
}
