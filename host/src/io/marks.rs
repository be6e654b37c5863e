//! Where a result can be cut when there is no room for all of it.

use std::collections::VecDeque;

use scheidegg_finder::{Clusters, Error, Result};

use super::output::{GATHERED, Output};
use super::{Written, beside};
use crate::provenance::{Ending, How, Provenance};

/// The ends of the batches in a result, so far as they may not have reached the file yet.
#[derive(Debug)]
pub(crate) struct Marks {
    /// The last one that is in the file for sure, and those after it.
    all: VecDeque<Mark>,
}

/// The end of a batch, and what comes before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Mark {
    /// Bytes of the file.
    pub bytes: u64,
    pub frames: u64,
    pub clusters: u64,
    pub last_frame: Option<u64>,
}

impl Marks {
    /// Behind a header of so many bytes.
    pub fn new(header: u64) -> Marks {
        Marks { all: VecDeque::from([Mark { bytes: header, ..Mark::default() }]) }
    }

    /// Notes a batch that was written as so many bytes.
    pub fn add(&mut self, bytes: u64, batch: &Clusters<'_>) {
        let before = self.all.back().copied().unwrap_or_default();
        let end = Mark {
            bytes: before.bytes + bytes,
            frames: before.frames + batch.frames() as u64,
            clusters: before.clusters + batch.len() as u64,
            last_frame: batch.numbers().last().copied().or(before.last_frame),
        };
        self.all.push_back(end);
        while self.all.get(1).is_some_and(|m| m.bytes + GATHERED as u64 <= end.bytes) {
            self.all.pop_front();
        }
    }

    /// Completes as much of a result as fits, after `fault` kept it from being written to its end, under a name that says so:
    /// `NAME.partial.EXT`. `end` changes what must be changed in a file that is cut at a mark.
    ///
    /// # Errors
    /// The fault, where nothing can stand there; and where the provenance does not know of it yet, with the file that does.
    pub fn finish_what_fits(
        &self,
        mut out: Output,
        provenance: &Provenance,
        fault: Error,
        end: impl FnOnce(&mut Output, &Mark) -> Result<()>,
    ) -> Result<Written> {
        let Ok(mark) = self.cut(&mut out) else { return Err(fault) };
        end(&mut out, &mark)?;
        let path = out.finish_aside()?;
        let told = Provenance {
            frames: mark.frames,
            last_frame: mark.last_frame,
            clusters: mark.clusters,
            ended: Ending { how: How::NotWritten, why: Some(fault.to_string()) },
            ..provenance.clone()
        };
        // Where there was no room for the result there may be none for this; the name says that it is a part.
        let beside = beside::put(&path, &told).unwrap_or_default();
        if provenance.ended.how == How::NotWritten {
            return Ok(Written { paths: [path].into_iter().chain(beside).collect() });
        }
        let last = mark.last_frame.map_or("no frame".to_string(), |n| format!("frame {n}"));
        Err(Error::file(path, format!("holds the result up to and with {last} only: {fault}")))
    }

    /// Cuts a result whose file is full behind the last batch that is in it as a whole.
    ///
    /// # Errors
    /// When not a single batch is, or the system refuses it: then the result can only be dropped.
    fn cut(&self, out: &mut Output) -> Result<Mark> {
        let nothing = || Error::file(out.path(), "nothing of it could be written");
        if out.is_stream() {
            return Err(nothing());
        }
        let reached = out.reached()?;
        let mark = self.all.iter().rev().find(|m| m.bytes <= reached && m.frames > 0).copied();
        let mark = mark.ok_or_else(nothing)?;
        out.cut(mark.bytes)?;
        Ok(mark)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use scheidegg_finder::{ClusterSize, ClustersBuf, Payload, Shape};

    use super::*;

    /// Fault: a cut behind bytes that were gathered and never reached the file.
    #[test]
    fn a_result_is_cut_behind_what_has_reached_its_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.clust");
        let mut out = Output::create(&path).unwrap();
        let mut marks = Marks::new(4);
        out.write(b"head").unwrap();
        out.flush().unwrap();
        assert!(marks.cut(&mut out).unwrap_err().to_string().contains("nothing of it"));
        let batch = |first: u64| {
            let shape = Shape { rows: 9, cols: 9 };
            let mut batch = ClustersBuf::new(shape, ClusterSize::square(3).unwrap(), Payload::I32);
            batch.push_frame(first, &[0; 40]);
            batch.push_frame(first + 1, &[0; 80]);
            batch
        };
        for k in 0..3 {
            out.write(&[k; 10]).unwrap();
            if k == 1 {
                out.flush().unwrap();
            }
            marks.add(10, &batch(10 + 2 * u64::from(k)).view());
        }
        let mark = marks.cut(&mut out).unwrap();
        assert_eq!(mark, Mark { bytes: 24, frames: 4, clusters: 6, last_frame: Some(13) });
        let path = out.finish_aside().unwrap();
        assert_eq!(path, dir.path().join("a.partial.clust"));
        assert_eq!(fs::read(&path).unwrap(), [&b"head"[..], &[0; 10], &[1; 10]].concat());
        // What is far back is forgotten: marks do not pile up.
        for _ in 0..100 {
            marks.add(GATHERED as u64, &batch(0).view());
        }
        assert!(marks.all.len() <= 3);
    }
}
