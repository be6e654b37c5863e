//! Where a result can be cut when there is no room for all of it.

use std::collections::VecDeque;
use std::path::PathBuf;

use scheidegg_finder::{Clusters, Error, Result};

use super::output::{GATHERED, Output};
use super::{Written, beside};
use crate::provenance::{Ending, How, Provenance};

/// The ends of the batches in a result, so far as they may be asked for.
#[derive(Debug)]
pub(crate) struct Marks {
    all: VecDeque<Mark>,
    /// For a result that needs room at its end, so that it may be cut far before what was written last: the mark of every
    /// so many batches from its start on, and the last one. Without, the last one that is in the file for sure, and
    /// those after it.
    every: Option<u64>,
    batches: u64,
}

/// The most marks that are kept.
const MOST: usize = 8192;

/// How much of what was written is tried, when there is no room for what is missing at its end.
const SHARES: [f64; 14] = [1.0, 0.97, 0.94, 0.88, 0.82, 0.76, 0.7, 0.6, 0.5, 0.35, 0.25, 0.12, 0.06, 0.015];

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
        let start = Mark { bytes: header, ..Mark::default() };
        Marks { all: VecDeque::from([start]), every: None, batches: 0 }
    }

    /// From the start of a result on.
    pub fn spread() -> Marks {
        Marks { every: Some(1), ..Marks::new(0) }
    }

    /// The end of the last batch.
    pub fn last(&self) -> Mark {
        self.all.back().copied().unwrap_or_default()
    }

    /// Notes a batch that was written as so many bytes.
    pub fn add(&mut self, bytes: u64, batch: &Clusters<'_>) {
        let before = self.last();
        let end = Mark {
            bytes: before.bytes + bytes,
            frames: before.frames + batch.frames() as u64,
            clusters: before.clusters + batch.len() as u64,
            last_frame: batch.numbers().last().copied().or(before.last_frame),
        };
        if let Some(every) = &mut self.every {
            if !self.batches.is_multiple_of(*every) {
                self.all.pop_back();
            }
            if self.all.len() == MOST {
                *every *= 2;
                let mut stays = false;
                self.all.retain(|_| {
                    stays = !stays;
                    stays
                });
            }
            self.batches += 1;
            self.all.push_back(end);
            return;
        }
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
        let part = Part::new(&mark, provenance, fault);
        let path = out.finish_aside()?;
        // Where there was no room for the result there may be none for this; the name says that it is a part.
        let beside = beside::put(&path, &part.provenance).unwrap_or_default();
        let mut written = part.at(path)?;
        written.paths.extend(beside);
        Ok(written)
    }

    /// Completes as much of a result as fits together with what is still missing at its end. `complete` goes back to a mark and
    /// completes the result there; it is called with marks that `reached` says are written, further and further back.
    ///
    /// # Errors
    /// The fault, where nothing fits.
    pub fn complete_what_fits(
        &self,
        provenance: &Provenance,
        fault: Error,
        reached: impl Fn(&Mark) -> bool,
        mut complete: impl FnMut(&Mark, &Provenance) -> Result<()>,
    ) -> Result<Part> {
        let there = self.all.partition_point(reached);
        let Some(last) = there.checked_sub(1).map(|k| self.all[k]) else { return Err(fault) };
        let mut part = Part::new(&last, provenance, fault);
        let mut tried = None;
        for share in SHARES {
            let most = (share * last.frames as f64) as u64;
            let fits = |m: &Mark| m.frames <= most;
            let Some(mark) = self.all.iter().take(there).rev().find(|m| fits(m)) else { break };
            if mark.frames == 0 || tried == Some(*mark) {
                continue;
            }
            tried = Some(*mark);
            part.move_to(mark);
            if complete(mark, &part.provenance).is_ok() {
                return Ok(part);
            }
        }
        Err(part.fault)
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

/// A result that has only a part of what it was to have.
#[derive(Debug)]
pub(crate) struct Part {
    fault: Error,
    /// Whether the run knows of the fault already.
    known: bool,
    pub provenance: Provenance,
}

impl Part {
    fn new(mark: &Mark, provenance: &Provenance, fault: Error) -> Part {
        let known = provenance.ended.how == How::NotWritten;
        let mut provenance = provenance.clone();
        if !known {
            provenance.ended = Ending { how: How::NotWritten, why: Some(fault.to_string()) };
        }
        let mut part = Part { fault, known, provenance };
        part.move_to(mark);
        part
    }

    fn move_to(&mut self, mark: &Mark) {
        self.provenance.frames = mark.frames;
        self.provenance.last_frame = mark.last_frame;
        self.provenance.clusters = mark.clusters;
    }

    /// What is to be said of the file, which is complete under this name.
    ///
    /// # Errors
    /// When the run does not know of the fault yet: with the name, and how far the file goes.
    pub fn at(&self, path: PathBuf) -> Result<Written> {
        if self.known {
            return Ok(Written::at(path));
        }
        let last = self.provenance.last_frame.map_or("no frame".to_string(), |n| format!("frame {n}"));
        Err(Error::file(path, format!("holds the result up to and with {last} only: {}", self.fault)))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use scheidegg_finder::{ClusterSize, ClustersBuf, Payload, Shape};

    use super::*;

    fn batch(frames: u64) -> ClustersBuf {
        let shape = Shape { rows: 9, cols: 9 };
        let mut batch = ClustersBuf::new(shape, ClusterSize::square(3).unwrap(), Payload::I32);
        (0..frames).for_each(|k| batch.push_frame(k, &[0; 40]));
        batch
    }

    #[test]
    fn marks_that_are_spread_go_back_to_the_start_and_stay_few() {
        let mut marks = Marks::spread();
        for k in 1..=50_000u64 {
            marks.add(3, &batch(1).view());
            assert!(marks.all.len() <= MOST);
            assert_eq!(marks.last(), Mark { bytes: 3 * k, frames: k, clusters: k, last_frame: Some(0) });
        }
        let frames: Vec<u64> = marks.all.iter().map(|m| m.frames).collect();
        assert_eq!(frames[..4], [0, 8, 16, 24]);
        assert!(frames.windows(2).all(|w| w[0] < w[1] && w[1] - w[0] <= 8));
    }

    /// Fault: marks beyond what was written are tried, or one twice, or the fault is forgotten.
    #[test]
    fn marks_are_tried_from_the_last_one_that_is_written_until_one_fits() {
        let mut marks = Marks::spread();
        (0..100).for_each(|_| marks.add(10, &batch(2).view()));
        let known = Provenance { frames: 200, clusters: 200, last_frame: Some(1), ..Provenance::default() };
        for fits in [0, 1, 2, 3, 77, 140, 179, 180, 300] {
            let mut tried = Vec::new();
            let fault = Error::Other("the disk is full".into());
            let part = marks.complete_what_fits(
                &known,
                fault,
                |m| m.bytes <= 905,
                |mark, told| {
                    assert_eq!((told.frames, told.clusters), (mark.frames, mark.clusters));
                    assert_eq!((told.last_frame, told.ended.how), (Some(1), How::NotWritten));
                    tried.push(mark.frames);
                    if mark.frames <= fits { Ok(()) } else { Err(Error::Other("still full".into())) }
                },
            );
            assert_eq!(tried[0], 180);
            assert!(tried.windows(2).all(|w| w[0] > w[1] && w[1] > 0), "{tried:?}");
            match part {
                Ok(part) => {
                    assert_eq!(
                        (part.provenance.frames, tried.last()),
                        (*tried.last().unwrap(), Some(&part.provenance.frames))
                    );
                    assert!(part.provenance.frames <= fits);
                    let said = part.at("a.npz".into()).unwrap_err().to_string();
                    assert_eq!(said, "a.npz: holds the result up to and with frame 1 only: the disk is full");
                }
                Err(e) => {
                    assert!(fits < 2, "{fits}: {tried:?}");
                    assert_eq!(e.to_string(), "the disk is full");
                }
            }
        }
    }

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

    fn numbered(numbers: &[u64]) -> ClustersBuf {
        let shape = Shape { rows: 9, cols: 9 };
        let mut batch = ClustersBuf::new(shape, ClusterSize::square(3).unwrap(), Payload::I32);
        numbers.iter().for_each(|n| batch.push_frame(*n, &[0; 40]));
        batch
    }

    #[test]
    fn the_last_mark_that_is_in_the_file_for_sure_is_kept_and_all_after_it() {
        let most = GATHERED as u64;
        let mut marks = Marks::new(100);
        assert_eq!(marks.last(), Mark { bytes: 100, ..Mark::default() });
        let mut ends = |bytes: u64| {
            marks.add(bytes, &numbered(&[1]).view());
            marks.all.iter().map(|m| m.bytes).collect::<Vec<_>>()
        };
        assert_eq!(ends(7), [100, 107]);
        // One byte less than is gathered lies behind the second.
        assert_eq!(ends(most - 1), [100, 107, most + 106]);
        assert_eq!(ends(1), [107, most + 106, most + 107]);
        assert_eq!(ends(0), [107, most + 106, most + 107, most + 107]);
        assert_eq!(ends(most), [most + 107, 2 * most + 107]);
        // A batch without frames ends with the frame before.
        marks.add(3, &numbered(&[8, 9]).view());
        marks.add(0, &numbered(&[]).view());
        let last = Mark { bytes: 2 * most + 110, frames: 7, clusters: 7, last_frame: Some(9) };
        assert_eq!(marks.last(), last);
    }

    /// As much of a result as is in its file, under a name of its own, and what stands beside it tells how much that is.
    #[test]
    fn what_fits_is_completed_aside_and_told_of() {
        let fault = || Error::file("a.clust", "no space left");
        for (how, is_told) in [(How::Complete, false), (How::Stopped, false), (How::NotWritten, true)] {
            let dir = tempfile::tempdir().unwrap();
            let mut out = Output::create(dir.path().join("a.clust")).unwrap();
            let mut marks = Marks::new(0);
            for (number, reaches) in [(4, true), (6, true), (9, false)] {
                out.write(&[number as u8; 48]).unwrap();
                if reaches {
                    out.flush().unwrap();
                }
                marks.add(48, &numbered(&[number]).view());
            }
            let why = is_told.then(|| "a.clust: no space left".into());
            let ended = Ending { how, why };
            let known = Provenance {
                host: "h".into(),
                frames: 3,
                clusters: 3,
                last_frame: Some(9),
                ended,
                ..Provenance::default()
            };
            let end = |out: &mut Output, mark: &Mark| out.write_over_start(&mark.clusters.to_le_bytes());
            let outcome = marks.finish_what_fits(out, &known, fault(), end);
            let part = dir.path().join("a.partial.clust");
            let beside = dir.path().join("a.partial.clust.json");
            match outcome {
                Ok(written) => assert!(is_told && written.paths == [part.clone(), beside.clone()]),
                Err(e) => {
                    let said = "a.partial.clust: holds the result up to and with frame 6 only: a.clust: no space left";
                    assert!(!is_told && e.to_string().ends_with(said), "{e}");
                }
            }
            let content = [&2u64.to_le_bytes()[..], &[4; 40], &[6; 48]].concat();
            assert_eq!(fs::read(&part).unwrap(), content);
            let told = Provenance::from_json(&fs::read_to_string(&beside).unwrap()).unwrap();
            let ended = Ending { how: How::NotWritten, why: Some("a.clust: no space left".into()) };
            assert_eq!(told, Provenance { frames: 2, clusters: 2, last_frame: Some(6), ended, ..known });
            assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
        }
    }

    /// What was there before a result, as behind `>>`, is never cut.
    #[cfg(target_os = "linux")]
    #[test]
    fn nothing_is_cut_that_is_no_file_of_its_own() {
        use std::os::fd::AsRawFd;

        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.clust");
        fs::write(&path, [1; 1000]).unwrap();
        let file = fs::File::options().append(true).open(&path).unwrap();
        let stream = format!("/proc/self/fd/{}", file.as_raw_fd());
        let mut out = Output::create_or_stream(std::path::Path::new(&stream)).unwrap();
        assert!(out.is_stream());
        let mut marks = Marks::new(0);
        out.write(&[2; 48]).unwrap();
        out.flush().unwrap();
        marks.add(48, &numbered(&[4]).view());
        let fault = Error::file("a.clust", "no space left");
        let refused = marks.finish_what_fits(out, &Provenance::default(), fault, |_, _| Ok(())).unwrap_err();
        assert_eq!(refused.to_string(), "a.clust: no space left");
        assert_eq!(fs::read(&path).unwrap(), [[1; 1000].as_slice(), &[2; 48]].concat());
    }
}
