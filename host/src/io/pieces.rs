//! A batch of clusters, piece by piece and on all cores, in another layout: split into columns, or as rows that start
//! with the number of their frame.

use std::ops::Range;

use rayon::prelude::*;
use scheidegg_finder::{Clusters, Result};

/// Bytes of records that one thread takes at once, and that are rewritten while the ones before are written: small enough
/// to stay in the caches until the system has taken them.
const BLOCK: usize = 64 << 10;
const PIECE: usize = 16 * BLOCK;

/// Bytes of the coordinates of a record.
const PLACE: usize = 4;
/// Bytes of the number of a frame.
pub(super) const NUMBER: usize = 8;

/// How work is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// By this thread alone: waking another one would take longer than the work.
    Alone,
    /// On the threads of the pool.
    Together,
}

impl Way {
    /// Does both, at the same time if possible.
    pub fn both<T: Send>(
        self,
        a: impl FnOnce() -> Result<T> + Send,
        b: impl FnOnce() -> Result<T> + Send,
    ) -> Result<(T, T)> {
        let (a, b) = match self {
            Way::Alone => (a(), b()),
            Way::Together => rayon::join(a, b),
        };
        Ok((a?, b?))
    }

    /// Fills one of two buffers while the other one is written, until `fill` says that there was nothing more.
    pub fn by_turns<S: Send + Sync>(
        self,
        [full, spare]: &mut [S; 2],
        mut fill: impl FnMut(&mut S) -> Result<bool> + Send,
        mut write: impl FnMut(&S) -> Result<()> + Send,
    ) -> Result<()> {
        if self == Way::Alone {
            while fill(full)? {
                write(full)?;
            }
            return Ok(());
        }
        // One entry into the pool for all that follows.
        rayon::scope(|_| {
            let (mut full, mut spare) = (full, spare);
            let mut more = fill(full)?;
            while more {
                (_, more) = self.both(|| write(full).map(|()| true), || fill(spare))?;
                std::mem::swap(&mut full, &mut spare);
            }
            Ok(())
        })
    }
}

/// Clusters split into columns.
#[derive(Debug, Default)]
pub(super) struct Split {
    pub rows: usize,
    pub x: Vec<u8>,
    pub y: Vec<u8>,
    pub data: Vec<u8>,
}

/// Clusters as rows: the number of the frame, then the record.
#[derive(Debug, Default)]
pub(super) struct Rows {
    pub rows: usize,
    pub bytes: Vec<u8>,
}

/// What is left of a batch.
#[derive(Debug)]
pub(super) struct Pieces<'a> {
    batch: &'a Clusters<'a>,
    /// The first record that was not taken yet.
    next: usize,
}

impl<'a> Pieces<'a> {
    pub fn of(batch: &'a Clusters<'a>) -> Pieces<'a> {
        Pieces { batch, next: 0 }
    }

    /// How these are best worked on.
    pub fn way(&self) -> Way {
        if self.batch.bytes().len() <= BLOCK { Way::Alone } else { Way::Together }
    }

    /// The next records, and how many of them a thread takes.
    fn take(&mut self) -> Option<(Range<usize>, usize)> {
        let (first, each) = (self.next, self.batch.record_bytes());
        self.next = self.batch.len().min(first + records_in(PIECE, each));
        (self.next > first).then_some((first..self.next, records_in(BLOCK, each)))
    }

    fn records(&self, which: Range<usize>) -> &'a [u8] {
        let each = self.batch.record_bytes();
        &self.batch.bytes()[which.start * each..which.end * each]
    }

    /// Splits the next records; false when there was none.
    pub fn split(&mut self, into: &mut Split) -> bool {
        let Some((which, block)) = self.take() else { return false };
        let each = self.batch.record_bytes();
        let values = each - PLACE;
        into.rows = which.len();
        into.x.resize(into.rows * 2, 0);
        into.y.resize(into.rows * 2, 0);
        into.data.resize(into.rows * values, 0);
        let split = SPLITTERS.iter().find(|s| s.0 == each).map_or(split_any as Splitter, |s| s.1);
        let records = self.records(which).par_chunks(block * each);
        let places = into.x.par_chunks_mut(block * 2).zip(into.y.par_chunks_mut(block * 2));
        records
            .zip(places)
            .zip(into.data.par_chunks_mut(block * values))
            .for_each(|((records, (x, y)), data)| split(each, records, x, y, data));
        true
    }

    /// Makes rows of the next records; false when there was none.
    pub fn rows(&mut self, into: &mut Rows) -> bool {
        let Some((which, block)) = self.take() else { return false };
        let each = self.batch.record_bytes();
        let row = each + NUMBER;
        into.rows = which.len();
        into.bytes.resize(into.rows * row, 0);
        let number = NUMBERERS.iter().find(|n| n.0 == each).map_or(number_any as Numberer, |n| n.1);
        let (numbers, offsets) = (self.batch.numbers(), self.batch.offsets());
        into.bytes.par_chunks_mut(block * row).enumerate().for_each(|(k, mut rows)| {
            let mut at = which.start + k * block;
            let end = at + rows.len() / row;
            // The frame that holds the first of these records: the last one that starts at or before it.
            let mut frame = offsets.partition_point(|start| *start <= at as u64) - 1;
            while at < end {
                let until = end.min(offsets[frame + 1] as usize);
                let (these, others) = rows.split_at_mut((until - at) * row);
                number(each, numbers[frame].to_le_bytes(), self.records(at..until), these);
                (at, rows) = (until, others);
                frame += 1;
            }
        });
        true
    }
}

/// Records of `each` bytes in so many bytes, at least one.
fn records_in(bytes: usize, each: usize) -> usize {
    (bytes / each).max(1)
}

/// Splits records of a length into `x`, `y` and values.
type Splitter = fn(usize, &[u8], &mut [u8], &mut [u8], &mut [u8]);
/// For the lengths that are met most.
const SPLITTERS: [(usize, Splitter); 4] = [
    (22, split_of::<22, 18>),
    (40, split_of::<40, 36>),
    (54, split_of::<54, 50>),
    (104, split_of::<104, 100>),
];

/// Makes rows of records of a length and the number of their frame.
type Numberer = fn(usize, [u8; NUMBER], &[u8], &mut [u8]);
/// For the lengths that are met most.
const NUMBERERS: [(usize, Numberer); 4] = [
    (22, number_of::<22, 30>),
    (40, number_of::<40, 48>),
    (54, number_of::<54, 62>),
    (104, number_of::<104, 112>),
];

/// Splits records whose length the compiler knows: `EACH` is `PLACE` and `VALUES`.
fn split_of<const EACH: usize, const VALUES: usize>(
    _: usize,
    records: &[u8],
    x: &mut [u8],
    y: &mut [u8],
    data: &mut [u8],
) {
    let places = x.as_chunks_mut().0.iter_mut().zip(y.as_chunks_mut().0);
    let records = records.as_chunks::<EACH>().0.iter();
    for ((record, (x, y)), data) in records.zip(places).zip(data.as_chunks_mut::<VALUES>().0) {
        *x = [record[0], record[1]];
        *y = [record[2], record[3]];
        data.copy_from_slice(&record[PLACE..]);
    }
}

fn split_any(each: usize, records: &[u8], x: &mut [u8], y: &mut [u8], data: &mut [u8]) {
    let places = x.as_chunks_mut().0.iter_mut().zip(y.as_chunks_mut().0);
    let data = data.chunks_exact_mut(each - PLACE);
    for ((record, (x, y)), data) in records.chunks_exact(each).zip(places).zip(data) {
        *x = [record[0], record[1]];
        *y = [record[2], record[3]];
        data.copy_from_slice(&record[PLACE..]);
    }
}

/// Rows of records whose length the compiler knows: `ROW` is `NUMBER` and `EACH`.
fn number_of<const EACH: usize, const ROW: usize>(
    _: usize,
    number: [u8; NUMBER],
    records: &[u8],
    rows: &mut [u8],
) {
    let records = records.as_chunks::<EACH>().0;
    for (record, row) in records.iter().zip(rows.as_chunks_mut::<ROW>().0) {
        row[..NUMBER].copy_from_slice(&number);
        row[NUMBER..].copy_from_slice(record);
    }
}

fn number_any(each: usize, number: [u8; NUMBER], records: &[u8], rows: &mut [u8]) {
    for (record, row) in records.chunks_exact(each).zip(rows.chunks_exact_mut(each + NUMBER)) {
        row[..NUMBER].copy_from_slice(&number);
        row[NUMBER..].copy_from_slice(record);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use scheidegg_finder::{ClusterSize, ClustersBuf, Error, Payload, Shape, record_bytes};

    use super::*;

    /// Frames with so many clusters each of bytes that differ from record to record.
    fn clusters(size: ClusterSize, payload: Payload, counts: &[usize]) -> ClustersBuf {
        let each = record_bytes(size, payload);
        let mut buf = ClustersBuf::new(Shape { rows: 400, cols: 400 }, size, payload);
        let mut byte = 0u32;
        for (k, count) in counts.iter().enumerate() {
            let records = std::iter::repeat_with(|| {
                byte = byte.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (byte >> 24) as u8
            });
            buf.push_frame(1000 + 3 * k as u64, &records.take(count * each).collect::<Vec<_>>());
        }
        buf
    }

    /// Batches without frames, without clusters, and with ends of frames at, before and behind those of blocks and pieces.
    fn batches(each: usize) -> Vec<Vec<usize>> {
        let (block, piece) = (BLOCK / each, PIECE / each);
        vec![
            vec![],
            vec![0],
            vec![0, 0, 0],
            vec![1],
            vec![0, 2, 0, 0, 3, 0],
            vec![block],
            vec![block + 1],
            vec![block, 1, block - 1, 0, 2 * block],
            vec![0, piece - 1, 1, 0, 1, piece - 1, 0],
            vec![piece + 1, 0, 2 * piece, 7],
            vec![1; 3000],
        ]
    }

    #[test]
    fn every_record_is_split_and_numbered_once_and_in_order() {
        let sizes = [(2, 2), (3, 3), (5, 5), (4, 2), (9, 9)];
        for (size, payload) in sizes.into_iter().flat_map(|s| [Payload::I16, Payload::F32].map(|p| (s, p))) {
            let size = ClusterSize::new(size.0, size.1).unwrap();
            let each = record_bytes(size, payload);
            for counts in batches(each) {
                let buf = clusters(size, payload, &counts);
                let batch = buf.view();
                let [mut x, mut y, mut data, mut rows] = [const { Vec::new() }; 4];
                for (k, number) in batch.numbers().iter().enumerate() {
                    for record in batch.frame_bytes(k).chunks_exact(each) {
                        x.extend_from_slice(&record[..2]);
                        y.extend_from_slice(&record[2..4]);
                        data.extend_from_slice(&record[4..]);
                        rows.extend(number.to_le_bytes());
                        rows.extend_from_slice(record);
                    }
                }
                for way in [Way::Alone, Way::Together] {
                    let what = format!("{size} of {payload}, {} frames, {way:?}", counts.len());
                    let mut pieces = Pieces::of(&batch);
                    let mut found = Split::default();
                    let write = |split: &Split| {
                        assert_eq!(split.rows, (batch.len() - found.rows).min(PIECE / each), "{what}");
                        found.rows += split.rows;
                        found.x.extend(&split.x);
                        found.y.extend(&split.y);
                        found.data.extend(&split.data);
                        Ok(())
                    };
                    way.by_turns(&mut Default::default(), |split| Ok(pieces.split(split)), write).unwrap();
                    assert_eq!(found.rows, batch.len(), "{what}");
                    assert!(found.x == x && found.y == y && found.data == data, "{what}");

                    let mut pieces = Pieces::of(&batch);
                    let mut found = Rows::default();
                    let write = |some: &Rows| {
                        found.rows += some.rows;
                        found.bytes.extend(&some.bytes);
                        Ok(())
                    };
                    way.by_turns(&mut Default::default(), |rows| Ok(pieces.rows(rows)), write).unwrap();
                    assert_eq!(found.rows, batch.len(), "{what}");
                    assert!(found.bytes == rows, "{what}");
                }
            }
        }
    }

    #[test]
    fn a_record_that_is_larger_than_a_piece_is_one() {
        for (bytes, each, records) in [(100, 30, 3), (100, 100, 1), (99, 100, 1), (1000, 1, 1000)] {
            assert_eq!(records_in(bytes, each), records);
        }
    }

    #[test]
    fn one_thread_needs_one_buffer() {
        for (way, spare) in [(Way::Alone, 9), (Way::Together, 3)] {
            let (mut filled, mut written, mut buffers) = (0, Vec::new(), [9, 9]);
            let fill = |buffer: &mut i32| {
                *buffer = filled;
                filled += 1;
                Ok(filled <= 3)
            };
            let write = |buffer: &i32| {
                written.push(*buffer);
                Ok(())
            };
            way.by_turns(&mut buffers, fill, write).unwrap();
            assert_eq!((filled, written, buffers[1]), (4, vec![0, 1, 2], spare), "{way:?}");
        }
    }

    #[test]
    fn an_error_ends_the_turns() {
        for way in [Way::Alone, Way::Together] {
            for (bad_fill, bad_write) in [(Some(3), None), (None, Some(2)), (Some(0), None)] {
                let (mut filled, written) = (0, Mutex::new(Vec::new()));
                let outcome = way.by_turns(
                    &mut [0, 0],
                    |buffer| {
                        *buffer = filled;
                        filled += 1;
                        if Some(*buffer) == bad_fill { Err(Error::Other("fill".into())) } else { Ok(true) }
                    },
                    |buffer| {
                        written.lock().unwrap().push(*buffer);
                        if Some(*buffer) == bad_write { Err(Error::Other("write".into())) } else { Ok(()) }
                    },
                );
                let said = outcome.unwrap_err().to_string();
                assert_eq!(said, if bad_fill.is_some() { "fill" } else { "write" });
                let last = bad_fill.unwrap_or(3);
                assert_eq!(*written.lock().unwrap(), (0..last).collect::<Vec<_>>());
            }
        }
    }
}
