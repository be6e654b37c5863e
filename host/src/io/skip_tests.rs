//! Frames that are left out.

use std::cell::Cell;

use scheidegg_finder::{FrameBuf, Result, Shape};

use super::{Skipped, Source, skip_first, skip_while};

/// Frames without charge, which can only be read.
struct Plain {
    next: u64,
    frames: u64,
}

impl Source for Plain {
    fn name(&self) -> String {
        "plain.npy".into()
    }

    fn shape(&self) -> Shape {
        Shape { rows: 2, cols: 2 }
    }

    fn remaining(&self) -> Option<u64> {
        Some(self.frames - self.next)
    }

    fn read(&mut self, into: &mut FrameBuf) -> Result<usize> {
        let room = (into.capacity() - into.len()) as u64;
        let numbers: Vec<u64> = (self.next..self.frames).take(room as usize).collect();
        into.extend(&numbers, |_| Ok(Vec::new()))?;
        self.next += numbers.len() as u64;
        Ok(numbers.len())
    }
}

#[test]
fn frames_are_left_out_one_by_one_where_a_source_knows_no_better() {
    let mut source = Plain { next: 2, frames: 7 };
    for (asked, got) in [(3, Some((3, 2, 4))), (0, None), (9, Some((2, 5, 6))), (1, None)] {
        let want = got.map_or(Skipped::default(), |(frames, first, last)| Skipped {
            frames,
            first: Some(first),
            last: Some(last),
        });
        assert_eq!(source.skip(asked).unwrap(), want, "{asked}");
    }
}

#[test]
fn as_many_frames_as_are_asked_for_are_left_out_or_it_is_said() {
    for (frames, first, said) in [
        (10, 0, ""),
        (10, 9, ""),
        (10, 10, ""),
        (10, 11, "plain.npy: 10 frames, the first one asked for is 11: ask for 0 to 9"),
        (9000, 9001, "plain.npy: 9000 frames, the first one asked for is 9001: ask for 0 to 8999"),
        (0, 1, "plain.npy: holds no frames"),
    ] {
        let mut source = Plain { next: 0, frames };
        match skip_first(&mut source, first) {
            Ok(()) => assert_eq!((source.next, said), (first, "")),
            Err(e) => assert_eq!(e.to_string(), said),
        }
    }
}

#[test]
fn leaving_out_can_be_stopped() {
    for most in 0..4 {
        let (mut source, asked) = (Plain { next: 0, frames: 20_000 }, Cell::new(0));
        let on = || asked.replace(asked.get() + 1) < most;
        assert_eq!(skip_while(&mut source, 10_000, on).unwrap(), most == 3);
        assert_eq!(source.next, [0, 4096, 8192, 10_000][most]);
    }
}
