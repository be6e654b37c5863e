//! Ports brought together: what comes of the numbers in their headers, frame by frame.

use std::path::PathBuf;
use std::sync::Arc;

use super::header::{Form, Header};
use super::matching::Matching;
use super::port::{Layout, Port, Subfile};

const FAR: u64 = 1 << 40;

/// A port whose headers carry these numbers, in one file of frames without an image.
fn port(d: usize, numbers: &[u64]) -> Port {
    let header = |n: &u64| {
        let mut h = Header::parse(&[0; Header::BYTES]);
        h.frame = *n;
        h.to_bytes()
    };
    let content: Vec<u8> = numbers.iter().flat_map(header).collect();
    let file = Subfile {
        index: 0,
        path: PathBuf::from(format!("p{d}")),
        bytes: content.len() as u64,
        memory: Some(Arc::from(content)),
    };
    let layout =
        Layout { form: Form::Sls, image_bytes: 0, max_frames: 0, pass_holes: false, keep_going: false };
    Port::new(d, vec![file], layout)
}

/// What came of some ports.
#[derive(Debug, Default, PartialEq)]
struct Matched {
    /// The number of every frame, and the place of its parts in their ports.
    frames: Vec<(u64, Vec<usize>)>,
    /// Gaps, incomplete frames, repeated frames.
    counts: [u64; 3],
    warnings: Vec<String>,
    error: Option<String>,
}

fn matched(ports: &[&[u64]]) -> Matched {
    let mut matching = Matching::new(ports.iter().enumerate().map(|(d, p)| port(d, p)).collect());
    let (mut out, mut promised) = (Matched::default(), Vec::new());
    loop {
        let mut heads = Vec::new();
        promised.push(matching.left());
        match matching.next(&mut heads) {
            Ok(Some(number)) => {
                let place = |image: u64| image as usize / Header::BYTES - 1;
                out.frames.push((number, heads.iter().map(|h| place(h.image)).collect()));
            }
            Ok(None) => {
                assert_eq!(matching.left(), 0);
                assert!(matching.next(&mut heads).unwrap().is_none() && heads.is_empty());
                break;
            }
            Err(e) => {
                assert!(heads.is_empty());
                assert_eq!(matching.next(&mut heads).unwrap_err().to_string(), e.to_string());
                out.error = Some(e.to_string());
                break;
            }
        }
    }
    for (k, left) in promised.iter().enumerate() {
        assert!(*left >= (out.frames.len() - k.min(out.frames.len())) as u64, "{promised:?} of {out:?}");
    }
    out.counts = [matching.gaps, matching.incomplete, matching.repeated()];
    out.warnings = matching.warnings();
    out
}

/// Frames of one port: number and place.
fn alone(frames: &[(u64, usize)]) -> Vec<(u64, Vec<usize>)> {
    frames.iter().map(|(n, at)| (*n, vec![*at])).collect()
}

/// Frames of two ports.
fn both(frames: &[(u64, usize, usize)]) -> Vec<(u64, Vec<usize>)> {
    frames.iter().map(|(n, a, b)| (*n, vec![*a, *b])).collect()
}

#[track_caller]
fn check(ports: &[&[u64]], frames: Vec<(u64, Vec<usize>)>, counts: [u64; 3], warnings: &[&str]) {
    let found = matched(ports);
    let warnings = warnings.iter().map(|w| w.to_string()).collect();
    assert_eq!(found, Matched { frames, counts, warnings, error: None }, "{ports:?}");
}

#[test]
fn numbers_of_one_port_that_do_not_ascend_are_said() {
    check(&[&[]], vec![], [0; 3], &[]);
    check(&[&[5, 6, 9]], alone(&[(5, 0), (6, 1), (9, 2)]), [2, 0, 0], &[]);
    check(
        &[&[1, 2, 4, 3, 5]],
        alone(&[(1, 0), (2, 1), (3, 3), (4, 2), (5, 4)]),
        [0; 3],
        &["p0: frame 4 comes before frame 3: put in order, 1 such frames"],
    );
    check(
        &[&[3, 4, FAR, 6, 7, FAR + 1, 9, 10]],
        alone(&[(3, 0), (4, 1), (5, 2), (6, 3), (7, 4), (8, 5), (9, 6), (10, 7)]),
        [0; 3],
        &[
            "p0: frame 1099511627776 is no number between its neighbours' (5 here): taken for the next free number, 2 such frames",
        ],
    );
    check(
        &[&[FAR, 0, 1, 2]],
        alone(&[(0, 0), (1, 1), (2, 2), (3, 3)]),
        [0; 3],
        &[
            "p0: frame 1099511627776 is no number between its neighbours' (0 here): taken for the next free number, 1 such frames",
        ],
    );
    check(
        &[&[98, 99, 0, 1, 3]],
        alone(&[(98, 0), (99, 1), (100, 2), (101, 3), (103, 4)]),
        [1, 0, 0],
        &["p0: frame 0 comes after frame 99 (100 here): numbers go on from the frame before, 1 such frames"],
    );
    // A far jump is believed where the frame behind those that went back goes on from it.
    check(
        &[&[1, 2, FAR, 0, 0, FAR + 1]],
        alone(&[(1, 0), (2, 1), (FAR, 2), (FAR + 1, 5)]),
        [FAR - 3, 0, 2],
        &["p0: frame 0 comes after frame 1099511627776: left out, 2 such frames"],
    );
}

#[test]
fn frames_that_repeat_a_number_are_said_with_their_place() {
    for (numbers, frames, gaps, place) in [
        (&[1, 2, 2, 3][..], alone(&[(1, 0), (2, 1), (3, 3)]), 0, "2 comes again after frame 2"),
        (&[4, 5, 4, 6], alone(&[(4, 0), (5, 1), (6, 3)]), 0, "4 comes after frame 5"),
        (
            &[1, 2, 5, 3, 4, 6],
            alone(&[(1, 0), (2, 1), (3, 3), (4, 4), (6, 5)]),
            1,
            "5 has a number that no place is free for",
        ),
    ] {
        let found = matched(&[numbers]);
        assert_eq!(found.frames, frames, "{numbers:?}");
        let repeated = (numbers.len() - frames.len()) as u64;
        assert_eq!(found.counts, [gaps, 0, repeated], "{numbers:?}");
        let said = format!("p0: frame {place}: left out, {repeated} such frames");
        assert!(found.warnings.contains(&said), "{numbers:?}: {:?}", found.warnings);
    }
}

#[test]
fn a_series_ends_where_64_bits_do() {
    let found = matched(&[&[u64::MAX - 1, u64::MAX, 0, 1]]);
    assert_eq!(found.frames, alone(&[(u64::MAX - 1, 0), (u64::MAX, 1)]));
    assert_eq!(found.error.unwrap(), "p0: frame 0 cannot be numbered: 64 bits are used up");
}

#[test]
fn parts_of_two_ports_stay_together() {
    check(
        &[&[1, 2, 4, 3, 5], &[1, 2, 4, 3, 5]],
        both(&[(1, 0, 0), (2, 1, 1), (3, 3, 3), (4, 2, 2), (5, 4, 4)]),
        [0; 3],
        &["p0: frame 4 comes before frame 3: put in order, 1 such frames"],
    );
    // Each lacks frames of the other, at the start, in between and at the end.
    check(
        &[&[1, 2, 3, 5, 6, 9], &[2, 3, 4, 6, 9, 10, 11]],
        both(&[(2, 1, 0), (3, 2, 1), (6, 4, 3), (9, 5, 4)]),
        [2, 5, 0],
        &[
            "p1: frame 1 is missing in port 1: left out",
            "p0: port 0 ends 2 frames before others do: those are left out",
        ],
    );
    // The nearest number that both have is not the first that one of them has.
    check(
        &[&[1, 2, 7, 5, 6, 7, 8], &[1, 2, 5, 6, 7, 8]],
        both(&[(1, 0, 0), (2, 1, 1), (5, 3, 2), (6, 4, 3), (7, 5, 4), (8, 6, 5)]),
        [2, 1, 0],
        &["p1: frame 7 is missing in port 1: left out"],
    );
    // Three ports: the second lacks 3, the third 4; port 0 sends 6 again.
    let found = matched(&[&[2, 3, 4, 5, 6, 6, 7], &[2, 4, 5, 6, 7], &[2, 3, 5, 6, 7]]);
    let frames = [(2, [0, 0, 0]), (5, [3, 2, 2]), (6, [4, 3, 3]), (7, [6, 4, 4])];
    assert_eq!(found.frames, frames.map(|(n, at)| (n, at.to_vec())));
    assert_eq!(found.counts, [0, 2, 1]);
    assert_eq!(
        found.warnings,
        [
            "p1: frame 3 is missing in port 1: left out",
            "p0: frame 6 comes again after frame 6: left out, 1 such frames"
        ]
    );
}

#[test]
fn a_number_that_is_wrong_in_one_port_loses_no_frame() {
    let all = both(&[(1, 0, 0), (2, 1, 1), (3, 2, 2), (4, 3, 3), (5, 4, 4)]);
    // Also the number of the frame before.
    for (at, bad) in [(0, FAR), (0, u64::MAX), (2, FAR), (2, u64::MAX), (2, 1000), (2, 2)] {
        let mut numbers = [1, 2, 3, 4, 5];
        numbers[at] = bad;
        check(&[&numbers, &[1, 2, 3, 4, 5]], all.clone(), [0; 3], &[]);
        check(&[&[1, 2, 3, 4, 5], &numbers], all.clone(), [0; 3], &[]);
    }
    // Two numbers that both may be right are no frame.
    check(
        &[&[1000, 2002, 2003], &[1, 2002, 2003]],
        both(&[(2002, 1, 1), (2003, 2, 2)]),
        [0, 2, 0],
        &["p0: frame 1 is missing in port 0: left out"],
    );
    // Before a counter that begins again any number above the last one may be right.
    check(
        &[&[20, 0, 1, 2], &[20, FAR, 1, 2]],
        both(&[(20, 0, 0), (21, 1, 1), (22, 2, 2), (23, 3, 3)]),
        [0; 3],
        &[
            "p0: frame 1099511627776 is no number between its neighbours' (21 here): taken for the next free number, 1 such frames",
            "p0: frame 1 comes after frame 21 (22 here): numbers go on from the frame before, 1 such frames",
        ],
    );
}

/// Fault: all that follows is left out, because one port seems to begin again.
#[test]
fn two_numbers_that_are_wrong_in_one_port_lose_no_frame_behind_them() {
    let found = matched(&[&[1, 2, 3, 90, 2, 4, 5, 6, 7], &[1, 2, 3, 2, 4, 6, 7]]);
    let places: Vec<_> = found.frames.iter().map(|f| f.1.clone()).collect();
    assert_eq!(places[..3], [[0, 0], [1, 1], [2, 2]]);
    for both in [[5, 4], [7, 5], [8, 6]] {
        assert!(places.contains(&both.to_vec()), "{places:?}");
    }
}

#[test]
fn numbers_that_are_left_out_are_no_gaps() {
    // 100 is a wrong number that port 1 lacks: it lies in no gap.
    check(
        &[&[1, 2, 100, 5], &[1, 2, 5]],
        both(&[(1, 0, 0), (2, 1, 1), (5, 3, 2)]),
        [2, 1, 0],
        &["p1: frame 100 is missing in port 1: left out"],
    );
    // The frame before was taken for 3, which port 0 has once more: 4 alone is a gap.
    check(
        &[&[1, 2, FAR, 3, 5, 6, 7], &[1, 2, FAR, 5, 6, 7]],
        both(&[(1, 0, 0), (2, 1, 1), (3, 2, 2), (5, 4, 3), (6, 5, 4), (7, 6, 5)]),
        [1, 1, 0],
        &[
            "p1: frame 3 is missing in port 1: left out",
            "p0: frame 1099511627776 is no number between its neighbours' (3 here): taken for the next free number, 1 such frames",
        ],
    );
    // Before a frame that repeats a number, and behind the one after it: 5 is left out and in no gap.
    check(
        &[&[1, 2, 3, 2, 1, 4, 5, 6], &[1, 2, 3, 1, 4, 6]],
        both(&[(1, 0, 0), (2, 1, 1), (3, 2, 2), (4, 5, 4), (6, 7, 5)]),
        [0, 2, 1],
        &[
            "p1: frame 2 is missing in port 1: left out",
            "p0: frame 1 comes after frame 3: left out, 1 such frames",
        ],
    );
}

#[test]
fn counters_that_begin_again_are_told_port_by_port() {
    let restart = |b: u64, n: u64, here: u64| {
        format!(
            "p0: frame {n} comes after frame {b} ({here} here): numbers go on from the frame before, 1 such frames"
        )
    };
    // Port 1 has one more frame before the counter begins again.
    check(
        &[&[9, 10, 0, 1, 2, 3], &[9, 10, 11, 0, 1, 2, 3]],
        both(&[(9, 0, 0), (10, 1, 1), (11, 2, 3), (12, 3, 4), (13, 4, 5), (14, 5, 6)]),
        [0, 1, 0],
        &["p0: frame 11 is missing in port 0: left out", &restart(10, 0, 11)],
    );
    // Frame 21 before it is not frame 21 behind it.
    check(
        &[&[19, 20, 21, 22, 23, 24, 25, 19, 20, 21, 22], &[19, 20, 19, 20, 21, 22]],
        both(&[(19, 0, 0), (20, 1, 1), (21, 7, 2), (22, 8, 3), (23, 9, 4), (24, 10, 5)]),
        [0, 5, 0],
        &["p1: frame 21 is missing in port 1: left out", &restart(20, 19, 21)],
    );
    // Two wrong numbers are no beginning.
    check(
        &[&[9, 10, 3, 4, 13, 14, 15], &[9, 10, 11, 13, 14, 15]],
        both(&[(9, 0, 0), (10, 1, 1), (13, 4, 3), (14, 5, 4), (15, 6, 5)]),
        [1, 3, 0],
        &["p1: frame 3 is missing in port 1: left out"],
    );
}

#[test]
fn frames_are_found_behind_more_than_a_window() {
    // 63 frames that port 1 lacks, then the counter begins again with the last frame that is looked at.
    let long: Vec<u64> = (99..=163).chain(0..9).collect();
    let short: Vec<u64> = [99, 100].into_iter().chain(0..9).collect();
    let found = matched(&[&long, &short]);
    let frames = (0..9).map(|k| (101 + k, 65 + k as usize, 2 + k as usize));
    assert_eq!(found.frames, both(&[(99, 0, 0), (100, 1, 1)].into_iter().chain(frames).collect::<Vec<_>>()));
    assert_eq!(found.counts, [0, 63, 0]);

    // One port has nothing but its last two frames; the other one goes a long way there.
    let long: Vec<u64> = (100..=350).collect();
    for (ports, at) in [([&[100, 300, 301][..], &long], [1, 200]), ([&long, &[100, 300, 301]], [200, 1])] {
        let found = matched(&ports);
        let parts = |k: usize| at.map(|p| p + k).to_vec();
        assert_eq!(found.frames, [(100, vec![0, 0]), (300, parts(0)), (301, parts(1))]);
        assert_eq!(found.counts, [0, 199 + 49, 0]);
    }

    // Both counters began again, and the ports have frames of their own for longer than a window.
    let long: Vec<u64> = [999, 1000].into_iter().chain((1..1600).step_by(20)).collect();
    let short: Vec<u64> = [999, 1000, 997, 998, 999].into_iter().chain((1301..1600).step_by(20)).collect();
    let found = matched(&[&long, &short]);
    let frames: Vec<_> = (0..15).map(|k| (1301 + 20 * k as u64, 67 + k, 5 + k)).collect();
    assert_eq!(found.frames, both(&[&[(999, 0, 0), (1000, 1, 1)], &frames[..]].concat()));
    assert_eq!(found.counts[1], 65 + 3);
}

#[test]
fn what_no_port_has_again_is_left_out_to_the_end() {
    // Nothing that both have comes any more: frames stand for one another where their numbers allow it.
    check(
        &[&[1, 2, 3, 4], &[1, 2, 13, 14]],
        both(&[(1, 0, 0), (2, 1, 1)]),
        [0, 4, 0],
        &["p1: frame 3 is missing in port 1: left out"],
    );
    check(
        &[&[1, 2, 3, 4], &[1, 2, FAR, FAR]],
        both(&[(1, 0, 0), (2, 1, 1), (3, 2, 2), (4, 3, 3)]),
        [0; 3],
        &[],
    );
    check(
        &[&[1, 2, 3, 4, 5], &[1, 2, 13]],
        both(&[(1, 0, 0), (2, 1, 1)]),
        [0, 4, 0],
        &["p1: frame 3 is missing in port 1: left out"],
    );
}
