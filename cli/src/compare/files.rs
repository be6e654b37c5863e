//! Two result files, frame by frame.

use std::path::Path;

use scheidegg::io::Results;
use scheidegg::{Cluster, ClustersBuf, Error, Result};

use super::difference::Difference;
use crate::args::CompareArgs;
use crate::failure::Outcome;
use crate::input;

/// Frames read at a time.
const BATCH: usize = 64;

/// Compares the two files of the command line.
pub fn compare(args: &CompareArgs) -> Outcome<Difference> {
    let (size, payload) = (args.finder.size, args.finder.payload);
    let a = input::results(Path::new(&args.a), size, payload)?;
    let b = input::results(Path::new(&args.b), size, payload)?;
    if a.size() != b.size() {
        let what = format!("clusters of {}, {} has clusters of {}", b.size(), args.a, a.size());
        return Err(Error::file(&args.b, what).into());
    }
    let (mut a, mut b) = (Frames::new(a)?, Frames::new(b)?);
    let mut found = Difference::default();
    loop {
        let number = match (a.number(), b.number()) {
            (Some(p), Some(q)) => p.min(q),
            (p, q) => match p.or(q) {
                Some(n) => n,
                None => return Ok(found),
            },
        };
        found.frame(number, a.clusters(number), b.clusters(number));
        a.advance(number)?;
        b.advance(number)?;
    }
}

/// The frames of a result file in order.
struct Frames {
    file: Box<dyn Results>,
    buf: ClustersBuf,
    at: usize,
    last: Option<u64>,
}

impl Frames {
    fn new(file: Box<dyn Results>) -> Result<Self> {
        let buf = file.buffer();
        let mut frames = Frames { file, buf, at: 0, last: None };
        frames.fill()?;
        Ok(frames)
    }

    /// The number of the current frame; nothing at the end.
    fn number(&self) -> Option<u64> {
        self.buf.view().numbers().get(self.at).copied()
    }

    /// The clusters of the current frame if it has this number.
    fn clusters(&self, number: u64) -> impl Iterator<Item = Cluster<'_>> {
        let there = self.number() == Some(number);
        there.then(|| self.buf.view().frame(self.at)).into_iter().flatten()
    }

    /// Goes on if the current frame has this number.
    fn advance(&mut self, number: u64) -> Result<()> {
        if self.number() == Some(number) {
            self.at += 1;
            self.last = Some(number);
            self.fill()?;
        }
        Ok(())
    }

    /// Reads on when the buffer is used up, and checks that frames ascend.
    fn fill(&mut self) -> Result<()> {
        if self.at == self.buf.view().frames() {
            self.buf.clear();
            self.at = 0;
            self.file.read(&mut self.buf, BATCH)?;
        }
        if let (Some(last), Some(next)) = (self.last, self.number())
            && next <= last
        {
            let what = format!("frame {next} follows frame {last}: expected frames in ascending order");
            return Err(Error::file(self.file.name(), what));
        }
        Ok(())
    }
}
