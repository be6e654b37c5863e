//! Several sources one after the other.

use scheidegg_finder::{Error, FrameBuf, Result, Shape};

use crate::io::{Facts, Health, Skipped, Source};

/// Sources one after the other, as one. Frame numbers ascend: a source whose numbers begin at or below the last one
/// given is numbered onwards from there, and a warning says so.
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
        Ok(Chain { sources, at: 0, offset: None, last: None, renumbered: None, mismatches, failed: None })
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
                // The frames before it are whole; the error comes with the next call.
                Err(e) if into.len() > start => {
                    self.failed = Some(e);
                    break;
                }
                Err(e) => return Err(e),
            }
        }
        Ok(into.len() - start)
    }

    fn skip(&mut self, frames: u64) -> Result<Skipped> {
        let mut all = Skipped::default();
        while all.frames < frames && self.at < self.sources.len() {
            let got = match self.sources[self.at].skip(frames - all.frames) {
                Ok(got) => got,
                Err(e) if all.frames == 0 => return Err(e),
                Err(_) => break,
            };
            if let (Some(first), Some(last)) = (got.first, got.last) {
                let offset = self.offset_of(first);
                all = Skipped {
                    frames: all.frames + got.frames,
                    first: all.first.or(Some(first + offset)),
                    last: Some(last + offset),
                };
                self.last = all.last;
            } else {
                self.next_source();
            }
        }
        Ok(all)
    }

    fn facts(&self) -> Facts {
        self.sources[0].facts()
    }

    fn health(&self) -> Health {
        let mut all = Health::default();
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
    fn other_shapes_and_no_source_are_refused() {
        assert!(Chain::new(Vec::new()).is_err());
        let other = Box::new(CountSource::new(Shape { rows: 5, cols: 4 }, 1));
        let e = Chain::new(vec![Box::new(CountSource::new(SHAPE, 1)), other]).map(|_| ()).unwrap_err();
        assert_eq!(e.to_string(), "count.npy: shape 5 x 4, expected 4 x 5");
    }
}
