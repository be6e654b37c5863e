//! Cluster files (`.clust`): per frame an `i32` frame number, a `u32` count and the records. There is no header: the
//! window and the type of the values must be told.

use std::fs::File;
use std::io::{BufReader, IoSlice, Read};
use std::path::{Path, PathBuf};

use scheidegg_finder::{ClusterSize, ClustersBuf, Error, Payload, Result, record_bytes};

use serde_json::Value;

use super::beside::{self, Sum};
use super::checked::Watch;
use super::looks::Looks;
use super::marks::Marks;
use super::origin::Beside;
use super::output::{Output, Place};
use super::pieces::Pieces;
use super::{Batch, Checksum, Kind, Results, Sink, Written};
use crate::provenance::Provenance;

/// Bytes read at once.
const READ: usize = 1 << 20;

/// Bytes before the records of a frame.
pub(super) const FRAME_HEADER: usize = 8;

/// Writes a cluster file. A frame without clusters is written too, so that no frame gets lost. Its provenance stands
/// [beside it](super::provenance_beside).
#[derive(Debug)]
pub struct ClustSink {
    out: Option<Output>,
    kind: Kind,
    headers: Vec<[u8; FRAME_HEADER]>,
    marks: Marks,
    sum: Sum,
}

impl ClustSink {
    /// Starts a file for clusters of this kind. A FIFO or a device takes them as they come.
    ///
    /// # Errors
    /// As [`Output::create_or_stream`].
    pub fn create(place: impl Into<Place>, size: ClusterSize, payload: Payload) -> Result<ClustSink> {
        let out = Output::create_or_stream(place)?;
        let kind = Kind { path: out.path().to_path_buf(), size, payload };
        Ok(ClustSink { out: Some(out), kind, headers: Vec::new(), marks: Marks::new(0), sum: Sum::default() })
    }
}

impl Sink for ClustSink {
    fn name(&self) -> String {
        self.kind.name()
    }

    fn write(&mut self, batch: &Batch<'_>) -> Result<()> {
        let batch = batch.clusters();
        self.kind.check(batch)?;
        let Some(out) = &mut self.out else { return Err(self.kind.ended()) };
        // Nothing of a batch is written when one of its frames cannot be.
        if let Some(number) = batch.numbers().iter().find(|n| i32::try_from(**n).is_err()) {
            return Err(Error::file(
                &self.kind.path,
                format!(
                    "frame {number}: a cluster file holds frame numbers up to {} (write .npz or .npy instead)",
                    i32::MAX
                ),
            ));
        }
        self.headers.clear();
        for (number, ends) in batch.numbers().iter().zip(batch.offsets().windows(2)) {
            let count = ends[1] - ends[0];
            let Ok(count) = u32::try_from(count) else {
                let what =
                    format!("frame {number}: {count} clusters, a cluster file holds {} a frame", u32::MAX);
                return Err(Error::file(&self.kind.path, what));
            };
            let mut header = [0; FRAME_HEADER];
            header[..4].copy_from_slice(&(*number as i32).to_le_bytes());
            header[4..].copy_from_slice(&count.to_le_bytes());
            self.headers.push(header);
        }
        // The records go to the system from where they lie.
        let pieces = self.headers.iter().enumerate();
        let pieces = pieces.flat_map(|(k, header)| [header.as_slice(), batch.frame_bytes(k)]);
        let sum = &mut self.sum;
        let add = || {
            pieces.clone().for_each(|some| sum.add(some));
            Ok(())
        };
        let write = || out.write_pieces(&mut pieces.clone().map(IoSlice::new).collect::<Vec<_>>());
        Pieces::of(batch).way().both(write, add)?;
        let bytes = batch.frames() * FRAME_HEADER + batch.bytes().len();
        self.marks.add(bytes as u64, batch);
        Ok(())
    }

    fn finish(&mut self, provenance: &Provenance) -> Result<Written> {
        let mut out = self.out.take().ok_or_else(|| self.kind.ended())?;
        if Kind::is_nothing(provenance) {
            return Ok(Written::nowhere());
        }
        if let Err(fault) = out.flush() {
            return self.marks.finish_what_fits(out, provenance, fault, |_, _| Ok(()));
        }
        beside::finish(out, self.sum.behind(&[]), provenance)
    }
}

/// Reads a cluster file frame by frame.
///
/// # Frame numbers
/// The file has room for 32 bits. A negative number is what became of one from 2^31 on in the peer's hands: it is read as
/// what it was, 2^32 more, and [`Results::notes`] says so. Frames come in the order of the file.
///
/// # Checksums
/// A file `NAME.json` beside the file `NAME` has the CRC-32 of its content. It is looked at when the last frame is read,
/// which is not handed out when it is another one.
#[derive(Debug)]
pub struct ClustReader<R = BufReader<File>> {
    path: PathBuf,
    from: R,
    size: ClusterSize,
    payload: Payload,
    /// Bytes of the file, and how many of them were read.
    bytes: u64,
    at: u64,
    /// Number of the last frame, as the file has it.
    last: Option<i32>,
    frames: u64,
    clusters: u64,
    /// Frames with a negative number, and the first of these numbers.
    negative: Option<(u64, i32)>,
    looks: Looks,
    beside: Option<Beside>,
    watch: Option<Watch>,
}

impl ClustReader {
    /// Opens a file of clusters of this kind.
    ///
    /// # Errors
    /// [`Error::Io`]; [`Error::File`] where what stands beside it cannot be read.
    pub fn open(path: &Path, size: ClusterSize, payload: Payload) -> Result<ClustReader> {
        let beside = Beside::of(path)?;
        let watch = beside.as_ref().and_then(Beside::watch);
        Ok(ClustReader { beside, watch, ..ClustReader::open_alone(path, size, payload)? })
    }

    /// Opens a file whatever stands beside it.
    pub(super) fn open_alone(path: &Path, size: ClusterSize, payload: Payload) -> Result<ClustReader> {
        let file = File::open(path).map_err(|e| Error::io(path, e))?;
        let bytes = file.metadata().map_err(|e| Error::io(path, e))?.len();
        let from = BufReader::with_capacity(READ, file);
        Ok(ClustReader::of(path.to_path_buf(), from, bytes, size, payload))
    }
}

impl<'a> ClustReader<&'a [u8]> {
    /// Reads the content of a cluster file.
    pub fn of_bytes(content: &'a [u8], size: ClusterSize, payload: Payload) -> Self {
        ClustReader::of("memory.clust".into(), content, content.len() as u64, size, payload)
    }
}

impl<R> ClustReader<R> {
    fn of(path: PathBuf, from: R, bytes: u64, size: ClusterSize, payload: Payload) -> ClustReader<R> {
        ClustReader {
            path,
            from,
            size,
            payload,
            bytes,
            at: 0,
            last: None,
            frames: 0,
            clusters: 0,
            negative: None,
            looks: Looks::new(size, payload),
            beside: None,
            watch: None,
        }
    }
}

impl<R: Read> ClustReader<R> {
    fn fill(&mut self, into: &mut [u8]) -> Result<()> {
        self.from.read_exact(into).map_err(|e| Error::io(&self.path, e))?;
        if let Some(watch) = &mut self.watch {
            watch.take(self.at, into);
        }
        self.at += into.len() as u64;
        Ok(())
    }

    /// Everything is read: is it what was written?
    fn end(&self) -> Result<()> {
        if let Some(beside) = &self.beside {
            beside.check_length(&self.path, self.bytes)?;
        }
        self.watch.as_ref().map_or(Ok(()), |watch| watch.end(&self.path, "its content"))
    }

    fn err(&self, what: String) -> Error {
        Error::file(&self.path, what)
    }

    fn doubt(&self) -> String {
        format!("; is it really {} of {}?", self.size, self.payload)
    }
}

/// `1 byte`, `2 bytes`.
fn bytes(n: u64) -> String {
    if n == 1 { "1 byte".into() } else { format!("{n} bytes") }
}

impl<R: Read + Send> Results for ClustReader<R> {
    fn name(&self) -> String {
        self.path.display().to_string()
    }

    fn size(&self) -> ClusterSize {
        self.size
    }

    fn payload(&self) -> Payload {
        self.payload
    }

    /// Refuses a file that ends inside a frame, with the byte and the frame.
    fn read_frame(&mut self, into: &mut ClustersBuf) -> Result<bool> {
        if self.at == self.bytes {
            return self.end().map(|()| false);
        }
        let start = self.at;
        let left = self.bytes - start;
        if left < FRAME_HEADER as u64 {
            let after = self.last.map_or("the first frame".into(), |n| format!("the frame after {n}"));
            return Err(self.err(format!(
                "ends inside {after}: at byte {start} {left} bytes are left, a frame starts with {FRAME_HEADER}"
            )));
        }
        let mut header = [0; FRAME_HEADER];
        self.fill(&mut header)?;
        let number = i32::from_le_bytes([header[0], header[1], header[2], header[3]]);
        let count = u32::from_le_bytes([header[4], header[5], header[6], header[7]]);
        let each = record_bytes(self.size, self.payload) as u64;
        // Seen before any memory is asked for: the count of a damaged file may be anything.
        let (need, there) = (u64::from(count) * each, left - FRAME_HEADER as u64);
        if need > there {
            return Err(self.err(format!(
                "ends inside frame {number}, which starts at byte {start}: {count} clusters of {each} bytes were \
                 promised, {} are there, the file ends at byte {} ({} missing){}",
                there / each,
                self.bytes,
                bytes(need - there),
                self.doubt()
            )));
        }
        self.fill(into.spare_bytes(count as usize))?;
        if self.at == self.bytes {
            self.end()?;
        }
        into.finish_frame(u64::from(number as u32), count as usize);
        if number < 0 {
            self.negative.get_or_insert((0, number)).0 += 1;
        }
        if !self.looks.is_full() {
            let view = into.view();
            view.frame(view.frames() - 1).for_each(|c| self.looks.take(&c));
        }
        self.frames += 1;
        self.clusters += u64::from(count);
        self.last = Some(number);
        Ok(true)
    }

    fn notes(&self) -> Vec<String> {
        let mut notes: Vec<String> = self.looks.doubt().into_iter().collect();
        if let Some((frames, first)) = self.negative {
            notes.push(format!(
                "{frames} frames have negative numbers, the first {first}: numbers from 2147483648 on become that in a \
                 cluster file, so it was read as {}; frames are in the order of the file",
                first as u32
            ));
        }
        if let (Some(beside), true) = (&self.beside, self.at == self.bytes) {
            notes.extend(beside.doubts(self.size, self.payload, Some(self.frames), Some(self.clusters)));
        }
        notes
    }

    fn checksum(&self) -> Checksum {
        match &self.watch {
            None => Checksum::None,
            Some(_) if self.at < self.bytes => Checksum::Unread,
            Some(_) => Checksum::Agrees,
        }
    }

    fn provenance(&self) -> Option<&Value> {
        self.beside.as_ref().map(|b| &b.said)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use scheidegg_finder::Shape;

    use super::*;
    use crate::io::marks::Mark;
    use crate::provenance::{Ending, How};

    const SIZE: ClusterSize = ClusterSize { w: 2, h: 2 };
    /// Bytes of a record of `i16`.
    const RECORD: usize = 12;

    fn batch(frames: &[(u64, usize)]) -> ClustersBuf {
        let mut batch = ClustersBuf::new(Shape { rows: 9, cols: 9 }, SIZE, Payload::I16);
        for &(number, clusters) in frames {
            // The last value is the centre.
            let record = [1u16, 2, 3, 4, 5, 900].map(u16::to_ne_bytes).concat();
            batch.push_frame(number, &record.repeat(clusters));
        }
        batch
    }

    fn content(frames: &[(i32, usize)]) -> Vec<u8> {
        let mut all = Vec::new();
        for &(number, clusters) in frames {
            all.extend(number.to_le_bytes());
            all.extend((clusters as u32).to_le_bytes());
            all.extend(batch(&[(0, clusters)]).view().bytes());
        }
        all
    }

    #[test]
    fn a_file_that_is_cut_says_what_is_missing() {
        let whole = content(&[(7, 2), (8, 0), (9, 3)]);
        let starts = [0, 32, 40, 84];
        assert_eq!(whole.len(), 84);
        for cut in 0..84 {
            let mut reader = ClustReader::of_bytes(&whole[..cut], SIZE, Payload::I16);
            let mut buf = reader.buffer();
            let outcome = reader.read(&mut buf, 9);
            let frames = starts[1..].iter().filter(|s| **s <= cut).count();
            let (start, left) = (starts[frames], cut - starts[frames]);
            let expected = if left == 0 {
                assert_eq!(outcome.unwrap(), frames);
                continue;
            } else if left < FRAME_HEADER {
                let after = ["the first frame", "the frame after 7", "the frame after 8"][frames];
                format!("ends inside {after}: at byte {start} {left} bytes are left, a frame starts with 8")
            } else {
                let (number, count) = [(7, 2), (8, 0), (9, 3)][frames];
                let missing = starts[frames + 1] - cut;
                format!(
                    "ends inside frame {number}, which starts at byte {start}: {count} clusters of 12 bytes were promised, \
                     {} are there, the file ends at byte {cut} ({missing} {} missing); is it really 2x2 of i16?",
                    (left - FRAME_HEADER) / RECORD,
                    if missing == 1 { "byte" } else { "bytes" }
                )
            };
            assert_eq!(outcome.unwrap_err().to_string(), format!("memory.clust: {expected}"));
            assert_eq!(buf.view().frames(), frames);
        }
    }

    #[test]
    fn negative_numbers_are_noted_once_for_all() {
        let bytes = content(&[(i32::MAX, 1), (-2, 1), (-1, 0), (0, 1)]);
        let mut reader = ClustReader::of_bytes(&bytes, SIZE, Payload::I16);
        let mut buf = reader.buffer();
        assert_eq!(reader.read(&mut buf, 1).unwrap(), 1);
        assert!(reader.notes().is_empty());
        assert_eq!(reader.read(&mut buf, 9).unwrap(), 3);
        let far = 1 << 32;
        assert_eq!(buf.view().numbers(), [i32::MAX as u64, far - 2, far - 1, 0]);
        let note = "2 frames have negative numbers, the first -2: numbers from 2147483648 on become that in a cluster file, \
                    so it was read as 4294967294; frames are in the order of the file";
        assert_eq!(reader.notes(), [note]);
        assert_eq!((reader.name(), reader.checksum()), ("memory.clust".into(), Checksum::None));
    }

    /// What is told beside a file is compared with it when it is read to its end.
    #[test]
    fn what_stands_beside_a_file_is_looked_at_at_its_end() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.clust");
        let bytes = content(&[(7, 2), (8, 0), (9, 3)]);
        fs::write(&path, &bytes).unwrap();
        let beside = |frames: u64, clusters: u64, crc: u32| {
            let said = format!(
                r#"{{"frames": {frames}, "clusters": {clusters}, "content": {{"bytes": 84, "crc32": {crc}}}}}"#
            );
            fs::write(dir.path().join("a.clust.json"), said).unwrap();
        };
        beside(4, 6, crc32fast::hash(&bytes));
        let mut reader = ClustReader::open(&path, SIZE, Payload::I16).unwrap();
        let mut buf = reader.buffer();
        for left in [2, 1, 0] {
            assert!(reader.read_frame(&mut buf).unwrap());
            let (checksum, notes) = if left == 0 { (Checksum::Agrees, 2) } else { (Checksum::Unread, 0) };
            assert_eq!((reader.checksum(), reader.notes().len()), (checksum, notes));
        }
        assert!(!reader.read_frame(&mut buf).unwrap());
        for (note, what) in reader.notes().iter().zip(["4 frames, found were 3", "6 clusters, found were 5"])
        {
            assert!(note.contains(what), "{note}");
        }
        assert_eq!(reader.provenance().unwrap()["frames"], 4);
        // What is right is no news.
        beside(3, 5, crc32fast::hash(&bytes));
        let mut reader = ClustReader::open(&path, SIZE, Payload::I16).unwrap();
        assert_eq!((reader.read(&mut buf, 9).unwrap(), reader.notes().len()), (3, 0));
        // The last frame is not handed out.
        beside(3, 5, 1);
        let mut reader = ClustReader::open(&path, SIZE, Payload::I16).unwrap();
        let mut buf = reader.buffer();
        let said = reader.read(&mut buf, 9).unwrap_err().to_string();
        assert!(said.contains("its content is damaged") && buf.view().frames() == 2, "{said}");
        let mut alone = ClustReader::open_alone(&path, SIZE, Payload::I16).unwrap();
        assert_eq!((alone.read(&mut buf, 9).unwrap(), alone.checksum()), (3, Checksum::None));
    }

    #[test]
    fn a_sink_knows_where_its_batches_end() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.clust");
        let mut sink = ClustSink::create(&path, SIZE, Payload::I16).unwrap();
        assert_eq!(sink.name(), path.display().to_string());
        sink.write(&batch(&[(7, 2), (8, 0)]).view().into()).unwrap();
        sink.write(&batch(&[(9, 3)]).view().into()).unwrap();
        let last = Mark { bytes: 84, frames: 3, clusters: 5, last_frame: Some(9) };
        assert_eq!(sink.marks.last(), last);
        sink.finish(&Provenance { frames: 3, ..Provenance::default() }).unwrap();
        assert_eq!(fs::read(&path).unwrap(), content(&[(7, 2), (8, 0), (9, 3)]));
        for ended in [sink.finish(&Provenance::default()).err(), sink.write(&batch(&[]).view().into()).err()]
        {
            assert!(ended.unwrap().to_string().contains("is finished"));
        }
    }

    #[test]
    fn a_run_that_was_stopped_before_its_first_frame_leaves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let mut sink = ClustSink::create(dir.path().join("a.clust"), SIZE, Payload::I16).unwrap();
        let ended = Ending { how: How::Stopped, why: None };
        let written = sink.finish(&Provenance { ended, ..Provenance::default() }).unwrap();
        assert_eq!(written, Written::nowhere());
        drop(sink);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    /// The system's own words, not those that nothing was written.
    #[cfg(target_os = "linux")]
    #[test]
    fn a_full_disk_is_what_a_small_result_complains_of() {
        let dir = tempfile::tempdir().unwrap();
        let mut sink = ClustSink::create(dir.path().join("a.clust"), SIZE, Payload::I16).unwrap();
        sink.out = Some(crate::io::output::full(&dir.path().join("a.clust")));
        sink.write(&batch(&[(7, 2)]).view().into()).unwrap();
        let told = Provenance { frames: 1, ..Provenance::default() };
        let said = sink.finish(&told).unwrap_err().to_string();
        assert!(said.contains("a.clust: ") && said.contains("free some space"), "{said}");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}
