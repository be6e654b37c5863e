//! Several sources one after the other.

use scheidegg_finder::{Error, FrameBuf, Result, Shape};

use crate::io::{Facts, Health, Skipped, Source};
use crate::provenance::Input;

/// Sources one after the other, as one. Frame numbers ascend: a source whose numbers begin at or below the last one
/// before it is numbered onwards from there, and a warning says so. The number of a frame does not depend on how many
/// frames before it were [left out](Source::skip).
pub struct Chain {
    sources: Vec<Box<dyn Source>>,
    /// The one that is read.
    at: usize,
    /// Added to the numbers of the one that is read, once its first frame is known.
    offset: Option<u64>,
    last: Option<u64>,
    /// The first source that was numbered onwards, and how many were.
    renumbered: Option<(String, u64)>,
    /// In what the sources were taken differently.
    mismatches: Vec<String>,
    /// An error behind frames that were given.
    failed: Option<Error>,
    /// What was given of every source.
    given: Vec<Input>,
    keep_going: bool,
    /// The first fault that was gone past, until a frame is given.
    fault: Option<Error>,
    /// Files given up, and what is said of them.
    damage: Health,
}

impl Chain {
    /// Chains sources of one shape that were taken alike.
    ///
    /// # Errors
    /// [`Error::ShapeMismatch`] naming the first source of another shape, [`Error::Param`] for no source at all, and what
    /// [`Facts::check`] says of a source beside the first.
    pub fn new(sources: Vec<Box<dyn Source>>) -> Result<Self> {
        Chain::forced(sources, false)
    }

    /// As [`Chain::new`]; with `force` sources that do not go together are only warned of.
    ///
    /// # Errors
    /// As [`Chain::new`].
    pub fn forced(sources: Vec<Box<dyn Source>>, force: bool) -> Result<Self> {
        let Some(first) = sources.first() else {
            return Err(Error::param("data", "no source", "at least one"));
        };
        let mut mismatches = Vec::new();
        for s in &sources {
            Error::check_shape(&s.name(), first.shape(), s.shape())?;
            mismatches.extend(s.facts().check(&s.name(), &first.facts(), &first.name(), force)?);
        }
        let given = sources.iter().map(|s| Input::file("", s.name())).collect();
        Ok(Chain {
            sources,
            at: 0,
            offset: None,
            last: None,
            renumbered: None,
            given,
            keep_going: false,
            fault: None,
            damage: Health::default(),
            mismatches,
            failed: None,
        })
    }

    /// Gives a source up at a fault and goes on with the next one, with a warning. An error is left where no source gives
    /// a frame.
    pub fn keep_going(mut self, keep_going: bool) -> Self {
        self.keep_going = keep_going;
        self
    }

    /// Notes a file that could not even be opened.
    pub fn without(mut self, fault: Error) -> Self {
        self.note_damage(fault, 0);
        self
    }

    fn note_damage(&mut self, fault: Error, unread: u64) {
        self.damage.damaged_files += 1;
        self.damage.unread_frames += unread;
        let left = if unread == 1 { "1 frame".into() } else { format!("{unread} frames") };
        self.damage.warnings.push(format!("{fault} (given up: at least {left} not read)"));
        if self.last.is_none() {
            self.fault.get_or_insert(fault);
        }
    }

    /// Goes past a fault of the source that is read, where that is wanted.
    fn go_past(&mut self, fault: Error) -> Result<()> {
        if !self.keep_going {
            return Err(fault);
        }
        self.note_damage(fault, self.sources[self.at].remaining().unwrap_or(0));
        self.next_source();
        Ok(())
    }

    /// The end: an error where there was nothing but faults.
    fn end(&mut self) -> Result<()> {
        self.fault.take().map_or(Ok(()), Err)
    }

    /// What is added to the numbers of the source that is read, whose first frame has this number.
    fn offset_of(&mut self, first: u64) -> u64 {
        let last = self.last;
        *self.offset.get_or_insert_with(|| match last {
            Some(last) if first <= last => {
                let (_, count) = self.renumbered.get_or_insert_with(|| (self.sources[self.at].name(), 0));
                *count += 1;
                last + 1 - first
            }
            _ => 0,
        })
    }

    fn renumber(&mut self, into: &mut FrameBuf, from: usize) {
        let Some(&first) = into.numbers()[from..].first() else { return };
        let offset = self.offset_of(first);
        let numbers = &mut into.numbers_mut()[from..];
        numbers.iter_mut().for_each(|n| *n += offset);
        self.last = numbers.last().copied();
        self.fault = None;
        let given = &mut self.given[self.at];
        given.frames = Some(given.frames.unwrap_or(0) + numbers.len() as u64);
        given.first_frame = given.first_frame.or(Some(first + offset));
        given.last_frame = self.last;
    }

    fn next_source(&mut self) {
        self.at += 1;
        self.offset = None;
    }
}

impl Source for Chain {
    fn name(&self) -> String {
        match &self.sources[..] {
            [one] => one.name(),
            [first, rest @ ..] => format!("{} and {} more", first.name(), rest.len()),
            [] => String::new(),
        }
    }

    fn shape(&self) -> Shape {
        self.sources[0].shape()
    }

    fn remaining(&self) -> Option<u64> {
        self.sources[self.at.min(self.sources.len())..].iter().map(|s| s.remaining()).sum()
    }

    fn read(&mut self, into: &mut FrameBuf) -> Result<usize> {
        let start = into.len();
        while !into.is_full() && self.at < self.sources.len() {
            let from = into.len();
            let got = match self.failed.take() {
                Some(e) => Err(e),
                None => self.sources[self.at].read(into),
            };
            self.renumber(into, from);
            match got {
                Ok(0) => self.next_source(),
                Ok(_) => {}
                Err(e) if self.keep_going => self.go_past(e)?,
                // The frames before it are whole; the error comes with the next call.
                Err(e) if into.len() > start => {
                    self.failed = Some(e);
                    break;
                }
                Err(e) => return Err(e),
            }
        }
        if into.len() == start && !into.is_full() {
            self.end()?;
        }
        Ok(into.len() - start)
    }

    fn skip(&mut self, frames: u64) -> Result<Skipped> {
        let mut all = Skipped::default();
        while all.frames < frames && self.at < self.sources.len() {
            let got = match self.sources[self.at].skip(frames - all.frames) {
                Ok(got) => got,
                // The error comes again with the next call.
                Err(_) if all.frames > 0 && !self.keep_going => break,
                Err(e) => {
                    self.go_past(e)?;
                    continue;
                }
            };
            if let (Some(first), Some(last)) = (got.first, got.last) {
                let offset = self.offset_of(first);
                all = Skipped {
                    frames: all.frames + got.frames,
                    first: all.first.or(Some(first + offset)),
                    last: Some(last + offset),
                };
                self.last = all.last;
                self.fault = None;
            } else {
                self.next_source();
            }
        }
        if all.frames == 0 && frames > 0 {
            self.end()?;
        }
        Ok(all)
    }

    fn facts(&self) -> Facts {
        self.sources[0].facts()
    }

    fn inputs(&self) -> Vec<Input> {
        self.given.iter().filter(|g| g.frames.is_some()).cloned().collect()
    }

    fn health(&self) -> Health {
        let mut all = self.damage.clone();
        all.warnings.extend(self.mismatches.iter().cloned());
        if let Some((name, count)) = &self.renumbered {
            let more = if *count > 1 { format!(" (as those of {} more)", count - 1) } else { String::new() };
            all.warnings.push(format!(
                "{name}: its frame numbers begin again{more}; here they go on from the frames before"
            ));
        }
        for h in self.sources.iter().map(|s| s.health()) {
            all += h;
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::CountSource;
    use scheidegg_finder::FrameOwner;

    const SHAPE: Shape = Shape { rows: 4, cols: 5 };

    fn numbers(chain: &mut Chain, capacity: usize) -> Vec<u64> {
        let mut buf = FrameBuf::new(SHAPE, capacity);
        let mut all = Vec::new();
        loop {
            buf.clear();
            if chain.read(&mut buf).unwrap() == 0 {
                return all;
            }
            all.extend((0..buf.len()).map(|k| buf.frames().number(k)));
        }
    }

    fn chain(parts: &[(u64, u64)]) -> Chain {
        let source = |&(first, count)| -> Box<dyn Source> {
            Box::new(CountSource { first, ..CountSource::new(SHAPE, count) })
        };
        Chain::new(parts.iter().map(source).collect()).unwrap()
    }

    #[test]
    fn numbers_ascend_over_all_sources() {
        for capacity in [1, 3, 100] {
            let mut one = chain(&[(0, 5), (0, 0), (5, 2), (0, 4), (20, 2)]);
            assert_eq!(one.remaining(), Some(13));
            let want: Vec<u64> = (0..11).chain(20..22).collect();
            assert_eq!(numbers(&mut one, capacity), want);
            assert_eq!(
                one.health().warnings,
                ["count.npy: its frame numbers begin again; here they go on from the frames before"]
            );
            assert_eq!(one.remaining(), Some(0));
            assert_eq!(numbers(&mut chain(&[(0, 5), (4, 2), (7, 1)]), capacity), (0..8).collect::<Vec<_>>());
        }
    }

    #[test]
    fn skipping_goes_on_in_the_next_source() {
        let mut c = chain(&[(0, 5), (5, 5)]);
        assert_eq!(c.skip(7).unwrap(), Skipped::range(0..7));
        assert_eq!(numbers(&mut c, 2), [7, 8, 9]);
        assert_eq!(c.skip(1).unwrap(), Skipped::default());
        assert_eq!(chain(&[(0, 5), (5, 5)]).skip(11).unwrap(), Skipped::range(0..10));
    }

    #[test]
    fn frames_are_numbered_the_same_wherever_one_begins() {
        let parts = [(0, 5), (0, 0), (5, 2), (0, 4), (20, 2), (3, 3)];
        let want = numbers(&mut chain(&parts), 100);
        for first in 0..=want.len() {
            for step in [1, 2, 100] {
                let mut c = chain(&parts);
                let mut left = first as u64;
                while left > 0 {
                    let got = c.skip(left.min(step)).unwrap();
                    let at = first - left as usize;
                    let numbers = &want[at..at + got.frames as usize];
                    assert_eq!((got.first, got.last), (numbers.first().copied(), numbers.last().copied()));
                    left -= got.frames;
                }
                assert_eq!(numbers(&mut c, 3), want[first..], "from frame {first}, {step} at a time");
            }
        }
    }

    #[test]
    fn what_was_given_of_every_source_is_told() {
        let mut c = chain(&[(0, 5), (9, 0), (0, 4)]);
        c.skip(2).unwrap();
        let mut buf = FrameBuf::new(SHAPE, 4);
        c.read(&mut buf).unwrap();
        let told: Vec<_> = c.inputs().iter().map(|i| (i.frames, i.first_frame, i.last_frame)).collect();
        assert_eq!(told, [(Some(3), Some(2), Some(4)), (Some(1), Some(5), Some(5))]);
    }

    #[test]
    fn a_damaged_source_is_given_up_and_the_next_one_read() {
        let broken = |at| -> Box<dyn Source> {
            Box::new(CountSource { fail_at: Some(at), ..CountSource::new(SHAPE, 6) })
        };
        let whole = || -> Box<dyn Source> { Box::new(CountSource::new(SHAPE, 2)) };
        for at in 0..6 {
            let mut c = Chain::new(vec![broken(at), whole(), broken(0)]).unwrap().keep_going(true);
            assert_eq!(numbers(&mut c, 4), (0..at + 2).collect::<Vec<_>>());
            let health = c.health();
            assert_eq!((health.damaged_files, health.unread_frames), (2, 6 - at + 6));
            let left = if at == 5 { "1 frame".into() } else { format!("{} frames", 6 - at) };
            let said = format!("count.npy: ends inside frame {at} (given up: at least {left} not read)");
            assert!(health.warnings.contains(&said), "{health:?}");
            let mut c = Chain::new(vec![broken(at), whole()]).unwrap();
            let mut buf = FrameBuf::new(SHAPE, 9);
            // Frames before the fault first, the fault with the next call.
            if at > 0 {
                assert_eq!(c.read(&mut buf).unwrap() as u64, at);
            }
            assert!(c.read(&mut buf).is_err());
            assert_eq!(buf.len() as u64, at);
        }
        let mut c = Chain::new(vec![broken(0), broken(0)]).unwrap().keep_going(true);
        assert!(c.read(&mut FrameBuf::new(SHAPE, 9)).is_err(), "nothing but faults");
        let without = Chain::new(vec![whole()]).unwrap().without(Error::Other("b.npy: is cut".into()));
        assert_eq!(without.health().damaged_files, 1);
    }

    #[test]
    fn skipping_goes_past_damaged_sources_or_ends_at_them() {
        let broken = |at| -> Box<dyn Source> {
            Box::new(CountSource { fail_at: Some(at), ..CountSource::new(SHAPE, 6) })
        };
        let whole = |n| -> Box<dyn Source> { Box::new(CountSource::new(SHAPE, n)) };
        let mut c = Chain::new(vec![whole(3), broken(0), whole(4)]).unwrap().keep_going(true);
        assert_eq!(c.skip(5).unwrap(), Skipped::range(0..5));
        assert_eq!(numbers(&mut c, 9), [5, 6]);
        assert_eq!((c.health().damaged_files, c.health().unread_frames), (1, 6));
        let mut c = Chain::new(vec![whole(3), broken(0), whole(4)]).unwrap();
        assert_eq!(c.skip(5).unwrap(), Skipped::range(0..3));
        assert!(c.skip(2).unwrap_err().to_string().contains("ends inside frame 0"));
        let mut c = Chain::new(vec![broken(0), broken(0)]).unwrap().keep_going(true);
        assert_eq!(c.skip(0).unwrap(), Skipped::default());
        assert!(c.skip(1).is_err(), "nothing but faults");
        // Behind frames that were given a fault is no error.
        let mut c = Chain::new(vec![whole(1), broken(0)]).unwrap().keep_going(true);
        assert_eq!(c.skip(9).unwrap(), Skipped::range(0..1));
        assert_eq!(c.skip(9).unwrap(), Skipped::default());
        // Before them neither.
        let mut c = Chain::new(vec![broken(0), whole(2), whole(0)]).unwrap().keep_going(true);
        assert_eq!(c.skip(1).unwrap(), Skipped::range(0..1));
        assert_eq!(numbers(&mut c, 9), [1]);
    }

    #[test]
    fn a_file_that_could_not_be_opened_is_an_error_where_no_frame_is_given() {
        let fault = || Error::Other("b.npy: is cut".into());
        let mut c = chain(&[(0, 0)]).without(fault());
        let e = c.read(&mut FrameBuf::new(SHAPE, 9)).unwrap_err();
        assert_eq!(e.to_string(), "b.npy: is cut");
        let mut c = chain(&[(0, 1)]).without(fault());
        assert_eq!(numbers(&mut c, 9), [0]);
        assert_eq!(c.health().warnings, ["b.npy: is cut (given up: at least 0 frames not read)"]);
        // A buffer without room asks for nothing.
        let mut c = chain(&[(0, 0)]).without(fault());
        let mut full = FrameBuf::new(SHAPE, 1);
        full.push(0, |_| Ok(None)).unwrap();
        assert_eq!(c.read(&mut full).unwrap(), 0);
    }

    #[test]
    fn sources_numbered_onwards_are_counted() {
        let mut c = chain(&[(0, 5), (0, 2), (9, 1), (3, 3), (0, 1)]);
        assert_eq!(numbers(&mut c, 4), (0..7).chain(9..14).collect::<Vec<_>>());
        let said = "count.npy: its frame numbers begin again (as those of 2 more); here they go on from the frames before";
        assert_eq!(c.health().warnings, [said]);
        assert_eq!(chain(&[(0, 5), (5, 2)]).health().warnings, Vec::<String>::new());
    }

    /// A source that says how its frames were taken.
    struct Taken(CountSource, Facts);

    impl Source for Taken {
        fn name(&self) -> String {
            self.0.name()
        }
        fn shape(&self) -> Shape {
            SHAPE
        }
        fn remaining(&self) -> Option<u64> {
            None
        }
        fn read(&mut self, into: &mut FrameBuf) -> Result<usize> {
            self.0.read(into)
        }
        fn facts(&self) -> Facts {
            self.1.clone()
        }
    }

    #[test]
    fn sources_that_were_taken_differently_are_refused_or_warned_of() {
        let sources = |gain: &str| -> Vec<Box<dyn Source>> {
            let one = |gain: &str| -> Box<dyn Source> {
                let facts = Facts { gain: Some(gain.into()), ..Facts::default() };
                Box::new(Taken(CountSource::new(SHAPE, 1), facts))
            };
            vec![one("G0"), one(gain)]
        };
        let said = Chain::new(sources("G1")).map(|_| ()).unwrap_err().to_string();
        assert!(said.contains("gain: G1 here, G0"), "{said}");
        let forced = Chain::forced(sources("G1"), true).unwrap();
        let warnings = forced.health().warnings;
        assert!(warnings.len() == 1 && warnings[0].contains("gain: G1 here, G0"), "{warnings:?}");
        assert_eq!(forced.facts().gain.as_deref(), Some("G0"));
        assert_eq!(Chain::new(sources("G0")).unwrap().health().warnings, Vec::<String>::new());
        assert_eq!(forced.remaining(), None);
    }

    #[test]
    fn what_is_amiss_is_added_up() {
        let one = |n: u64| Health {
            gaps: n,
            incomplete_frames: n + 1,
            repeated_frames: n + 2,
            lost_packets: n + 3,
            lost_pixels: n + 4,
            gain_pixels: n + 5,
            damaged_files: n + 6,
            unread_frames: n + 7,
            storage_cells: n as u16,
            warnings: vec!["the same".into(), format!("{n}")],
        };
        let mut all = one(1);
        all += one(100);
        let want = Health {
            gaps: 101,
            incomplete_frames: 103,
            repeated_frames: 105,
            lost_packets: 107,
            lost_pixels: 109,
            gain_pixels: 111,
            damaged_files: 113,
            unread_frames: 115,
            storage_cells: 101,
            warnings: vec!["the same".into(), "1".into(), "100".into()],
        };
        assert_eq!(all, want);
        assert_eq!(chain(&[(0, 1)]).name(), "count.npy");
        assert_eq!(chain(&[(0, 1), (0, 1), (0, 1)]).name(), "count.npy and 2 more");
    }

    #[test]
    fn other_shapes_and_no_source_are_refused() {
        assert!(Chain::new(Vec::new()).is_err());
        let other = Box::new(CountSource::new(Shape { rows: 5, cols: 4 }, 1));
        let e = Chain::new(vec![Box::new(CountSource::new(SHAPE, 1)), other]).map(|_| ()).unwrap_err();
        assert_eq!(e.to_string(), "count.npy: shape 5 x 4, expected 4 x 5");
    }
}
