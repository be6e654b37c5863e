//! The files of one port: which frames come of them, and what is said where files are missing or end too soon.

use std::path::PathBuf;
use std::sync::Arc;

use super::header::{Form, Header};
use super::port::{Layout, Port, Subfile};

/// Bytes of a frame: a header and an image of 4.
const STRIDE: usize = Header::BYTES + 4;

/// Frames with these numbers.
fn frames(numbers: &[u64]) -> Vec<u8> {
    let frame = |n: &u64| {
        let mut h = Header::parse(&[0; Header::BYTES]);
        h.frame = *n;
        [&h.to_bytes()[..], &[0; 4]].concat()
    };
    numbers.iter().flat_map(frame).collect()
}

fn file(index: u64, digits: usize, content: Vec<u8>) -> Subfile {
    let path = PathBuf::from(format!("x/a_d0_f{index:0digits$}_7.raw"));
    Subfile { index, path, bytes: content.len() as u64, memory: Some(Arc::from(content)) }
}

/// Files of two frames each, numbered from ten times their index.
fn pairs(digits: usize, indices: &[u64]) -> Vec<Subfile> {
    indices.iter().map(|k| file(*k, digits, frames(&[10 * k, 10 * k + 1]))).collect()
}

const LAYOUT: Layout =
    Layout { form: Form::Sls, image_bytes: 4, max_frames: 2, pass_holes: false, keep_going: false };
const KEEP_GOING: Layout = Layout { keep_going: true, ..LAYOUT };

/// What came of a port: numbers, bytes of the last image, and the error.
fn read(port: &mut Port) -> (Vec<u64>, Option<usize>, Option<String>) {
    let (mut numbers, mut last) = (Vec::new(), None);
    loop {
        let left = port.left();
        port.look_ahead(1);
        assert!(port.left() <= left);
        let Some(head) = port.take() else { break };
        numbers.push(head.header.frame);
        last = Some(head.bytes);
    }
    assert!(port.take().is_none() && port.ahead().is_empty());
    let error = port.check().err().map(|e| e.to_string());
    assert_eq!(port.is_done(), error.is_none());
    (numbers, last, error)
}

#[test]
fn frames_are_counted_before_and_while_they_are_read() {
    let files = vec![file(0, 1, frames(&[1, 2])), file(1, 1, frames(&[3]))];
    let mut port = Port::new(0, files, LAYOUT);
    assert_eq!((port.total(), port.left(), port.hole()), (3, 3, None));
    let mut first = port.of_first_file();
    assert_eq!((first.total(), read(&mut first).0), (2, vec![1, 2]));
    port.look_ahead(2);
    assert_eq!((port.left(), port.ahead().len(), port.is_done()), (3, 2, false));
    let place = |p: &Port| p.path().file_name().unwrap().to_str().unwrap().to_string();
    for (left, file) in [(2, "a_d0_f0_7.raw"), (1, "a_d0_f1_7.raw"), (0, "a_d0_f1_7.raw")] {
        assert_eq!(port.take().unwrap().image, if left == 1 { STRIDE as u64 + 112 } else { 112 });
        port.look_ahead(1);
        assert_eq!((port.left(), place(&port).as_str()), (left, file));
    }
    assert!(port.is_done() && port.check().is_ok() && port.warnings.is_empty());
}

#[test]
fn the_first_file_that_is_missing_is_named() {
    let hole = |digits, indices: &[u64], max_frames| {
        let mut port = Port::new(0, pairs(digits, indices), Layout { max_frames, ..LAYOUT });
        let hole = port.hole().map(|p| p.display().to_string());
        assert_eq!(hole.is_none(), read(&mut port).2.is_none());
        hole
    };
    assert_eq!(hole(1, &[0, 1, 2], 2), None);
    assert_eq!(hole(1, &[0, 2, 4], 2).unwrap(), "x/a_d0_f1_7.raw");
    assert_eq!(hole(1, &[0, 1, 3, 5], 2).unwrap(), "x/a_d0_f2_7.raw");
    assert_eq!(hole(1, &[2, 3], 2).unwrap(), "x/a_d0_f0_7.raw");
    assert_eq!(hole(12, &[0, 1, 3], 2).unwrap(), "x/a_d0_f000000000002_7.raw");
    // Counted by their first frame, where all have twelve digits and that fits all of them.
    assert_eq!(hole(12, &[0, 2, 4], 2), None);
    assert_eq!(hole(12, &[0, 2, 6], 2).unwrap(), "x/a_d0_f000000000004_7.raw");
    assert_eq!(hole(12, &[0, 2, 5], 2).unwrap(), "x/a_d0_f000000000001_7.raw");
    assert_eq!(hole(11, &[0, 2, 4], 2).unwrap(), "x/a_d0_f1_7.raw");
    assert_eq!(hole(12, &[0, 1, 2], 1), None);
    assert_eq!(hole(12, &[0, 2, 4], 0).unwrap(), "x/a_d0_f000000000001_7.raw");
    assert_eq!(hole(12, &[2], 2).unwrap(), "x/a_d0_f000000000000_7.raw");
}

#[test]
fn a_missing_file_ends_the_frames_or_is_passed_over() {
    let what = "x/a_d0_f1_7.raw: is missing, but a_d0_f3_7.raw is there: frames in between are lost";
    let port = |layout| Port::new(0, pairs(1, &[0, 3, 4]), layout);
    let mut strict = port(LAYOUT);
    let advice = "(bring the file back, read the frames before it only, or keep going)";
    assert_eq!(read(&mut strict), (vec![0, 1], Some(4), Some(format!("{what} {advice}"))));
    assert_eq!((strict.damaged, strict.warnings.len()), (0, 0));
    for (layout, damaged) in [(KEEP_GOING, 1), (Layout { pass_holes: true, ..LAYOUT }, 0)] {
        let mut port = port(layout);
        assert_eq!(read(&mut port), (vec![0, 1, 30, 31, 40, 41], Some(4), None));
        assert_eq!((port.damaged, port.cut_frames, port.left()), (damaged, 0, 0));
        assert_eq!(port.warnings, [what]);
    }
    // A series that may begin anywhere lacks nothing before its first file.
    let mut late = Port::new(0, pairs(1, &[3, 4]), Layout { pass_holes: true, ..LAYOUT });
    assert_eq!((late.hole(), read(&mut late).0.len(), late.warnings.len()), (None, 4, 0));
    // The same of a .dat series.
    let mut files = pairs(1, &[0, 2]);
    files.iter_mut().for_each(|f| f.path = format!("x/s_f{:05}.dat", f.index).into());
    let mut dat = Port::new(0, files, KEEP_GOING);
    assert_eq!(read(&mut dat).0.len(), 4);
    assert_eq!(
        dat.warnings,
        ["x/s_f00001.dat: is missing, but s_f00002.dat is there: frames in between are lost"]
    );
}

#[test]
fn a_file_that_ends_inside_a_frame_is_named_with_it() {
    let name = "x/a_d0_f0_7.raw";
    for (before, rest, which) in [
        (2, 115, "frame 9"),
        (2, 112, "frame 9"),
        (2, 111, "the frame after 2"),
        (2, 1, "the frame after 2"),
        (0, 115, "frame 9"),
        (0, 50, "the first frame"),
    ] {
        let content = || [frames(&[1, 2][..before]), frames(&[9])[..rest].to_vec()].concat();
        let files = || vec![file(0, 1, content()), file(1, 1, frames(&[10]))];
        let whole: Vec<u64> = (1..=before as u64).collect();
        let mut strict = Port::new(0, files(), LAYOUT);
        assert_eq!((strict.left(), strict.total()), (before as u64 + 1, before as u64 + 1));
        let said = format!(
            "{name}: ends inside {which}: {rest} bytes of it were found, 116 expected; the {before} frames before it in this \
             file are whole (read those only, keep going, or bring the whole file)"
        );
        assert_eq!(read(&mut strict), (whole.clone(), (before > 0).then_some(4), Some(said)));

        let mut port = Port::new(0, files(), KEEP_GOING);
        let part = rest >= 112;
        assert_eq!(port.left(), before as u64 + 1 + u64::from(part));
        let numbers = [whole, if part { vec![9, 10] } else { vec![10] }].concat();
        assert_eq!(read(&mut port), (numbers, Some(4), None), "{rest}");
        assert_eq!((port.damaged, port.cut_frames), (1, u64::from(!part)));
        let said = match part {
            true => format!(
                "{name}: ends inside frame 9: {} of the 4 bytes of its image are there, the others are masked",
                rest - 112
            ),
            false => format!(
                "{name}: ends inside the header of a frame: {rest} bytes of it are there: passed over"
            ),
        };
        assert_eq!(port.warnings, [said]);
        let mut alone = Port::new(0, files()[..1].to_vec(), KEEP_GOING);
        let last = if part { Some(rest - 112) } else { (before > 0).then_some(4) };
        assert_eq!(read(&mut alone).1, last);
    }
}

#[test]
fn a_file_that_was_cut_meanwhile_is_said() {
    for (before, now, which, end) in [(2, 282, "the frame after 2", 348), (0, 50, "the first frame", 116)] {
        let content = || {
            let mut f = file(0, 1, frames(&[1, 2, 9][..before + usize::from(before > 0)]));
            if before == 0 {
                f = file(0, 1, frames(&[9]));
            }
            let bytes = f.memory.take().unwrap();
            f.memory = Some(Arc::from(&bytes[..now]));
            vec![f, file(1, 1, frames(&[10]))]
        };
        let said = format!(
            "{which} ends at byte {end}, but the file has {now} now: it was cut or written anew while it was read (wait until \
             it is complete, or read the frames before only)"
        );
        let whole: Vec<u64> = (1..=before as u64).collect();
        let mut strict = Port::new(0, content(), LAYOUT);
        let (numbers, _, error) = read(&mut strict);
        assert_eq!((&numbers, error.unwrap()), (&whole, format!("x/a_d0_f0_7.raw: {said}")));
        let mut port = Port::new(0, content(), KEEP_GOING);
        assert_eq!(read(&mut port).0, [whole, vec![10]].concat());
        assert_eq!(port.warnings, [format!("x/a_d0_f0_7.raw: {said}: passed over")]);
        assert_eq!(port.damaged, 1);
    }
}

#[test]
fn a_file_that_is_gone_is_said() {
    let mut files = pairs(1, &[0, 1]);
    files[0].memory = None;
    let mut strict = Port::new(0, files.clone(), LAYOUT);
    let (numbers, _, error) = read(&mut strict);
    let error = error.unwrap();
    assert!(numbers.is_empty() && error.starts_with("x/a_d0_f0_7.raw: "), "{error}");
    assert!(!error[1..].contains("x/a_d0_f0_7.raw"), "named once: {error}");
    let mut port = Port::new(0, files, KEEP_GOING);
    assert_eq!(read(&mut port).0, [10, 11]);
    assert_eq!(port.warnings, [format!("{error}: passed over")]);
}
