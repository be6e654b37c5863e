//! Two result files, frame by frame.

use std::path::Path;

use scheidegg::io::{Results, cluster_file_kinds, open_results};
use scheidegg::{Cluster, ClusterSize, ClustersBuf, Error, Payload, Result};

use super::difference::Difference;
use super::origin;
use crate::args::CompareArgs;
use crate::failure::Outcome;

/// Frames read at a time.
const BATCH: usize = 64;

/// What came of it.
pub struct Compared {
    pub found: Difference,
    /// What makes the files differ whatever the clusters are.
    pub grave: Vec<String>,
    /// What else is known of them.
    pub remarks: Vec<String>,
    /// Window and type of values, of A and B.
    pub kinds: [(ClusterSize, Payload); 2],
}

/// Compares the two files of the command line.
pub fn compare(args: &CompareArgs) -> Outcome<Compared> {
    let mut remarks = Vec::new();
    let mut open = |name: &str| open(Path::new(name), args, &mut remarks);
    let (a, b) = (open(&args.a)?, open(&args.b)?);
    let kinds = [(a.size(), a.payload()), (b.size(), b.payload())];
    remarks.extend(origin::differences(a.provenance(), b.provenance()));
    if a.payload() != b.payload() {
        remarks.push(format!("values: {} in A, {} in B", a.payload(), b.payload()));
    }
    let mut found = Difference::default();
    if a.size() != b.size() {
        let grave = vec![format!("window: {} in A, {} in B: no cluster can be the same", a.size(), b.size())];
        return Ok(Compared { found, grave, remarks, kinds });
    }
    let (mut a, mut b) = (Frames::new(a)?, Frames::new(b)?);
    loop {
        let number = match (a.number(), b.number()) {
            (Some(p), Some(q)) => p.min(q),
            (p, q) => match p.or(q) {
                Some(n) => n,
                None => break,
            },
        };
        let both = a.number() == b.number();
        found.frame(number, a.clusters(number), b.clusters(number));
        a.advance(number)?;
        b.advance(number)?;
        // Where both go on with the same frame, whatever its number, the order does not matter.
        if !both || a.number() != b.number() {
            a.check_order()?;
            b.check_order()?;
        }
    }
    for (name, frames) in [(&args.a, &a), (&args.b, &b)] {
        remarks.extend(frames.file.notes().into_iter().map(|note| format!("{name}: {note}")));
    }
    Ok(Compared { found, grave: Vec::new(), remarks, kinds })
}

/// Opens a file of clusters. Only `.clust` files have to be told their window and the type of their values; where the command
/// line has the defaults, the file beside it or the one guess that fits is taken.
fn open(path: &Path, args: &CompareArgs, remarks: &mut Vec<String>) -> Result<Box<dyn Results>> {
    const DEFAULT: (ClusterSize, Payload) = (ClusterSize { w: 3, h: 3 }, Payload::I32);
    let told = (args.finder.size, args.finder.payload);
    if !path.extension().is_some_and(|e| e.eq_ignore_ascii_case("clust")) {
        return open_results(path, None, None);
    }
    if told != DEFAULT {
        return open_results(path, Some(told.0), Some(told.1));
    }
    if let Ok(results) = open_results(path, None, None) {
        return Ok(results);
    }
    let kind = match path.is_file().then(|| cluster_file_kinds(path, None, None)).transpose()?.as_deref() {
        Some(&[kind]) if kind != told => {
            remarks.push(format!(
                "{}: {} of {} is a guess: no other window and type fits the whole file",
                path.display(),
                kind.0,
                kind.1
            ));
            kind
        }
        _ => told,
    };
    open_results(path, Some(kind.0), Some(kind.1))
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

    /// Reads on when the buffer is used up.
    fn fill(&mut self) -> Result<()> {
        if self.at == self.buf.view().frames() {
            self.buf.clear();
            self.at = 0;
            self.file.read(&mut self.buf, BATCH)?;
        }
        Ok(())
    }

    /// Refuses a frame that does not come after the one before it.
    fn check_order(&self) -> Result<()> {
        if let (Some(last), Some(next)) = (self.last, self.number())
            && next <= last
        {
            let what = format!(
                "frame {next} follows frame {last}, where the other file goes on with another one: expected frames in \
                 ascending order"
            );
            return Err(Error::file(self.file.name(), what));
        }
        Ok(())
    }
}
