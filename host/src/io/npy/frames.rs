//! Frames from a `.npy` file.

use std::path::Path;

use scheidegg_finder::{Error, FrameBuf, Result, Shape};

use super::header::{Dtype, Scalar};
use crate::io::decoding::{self, Tally};
use crate::io::raw::{Found, Gain, Rule, decode_rows};
use crate::io::read_at::Lazy;
use crate::io::{Health, Skipped, Source};

/// The frames of a `.npy` file of little-endian `u16` in C order: `frames x rows x cols`, or `rows x cols` for one,
/// decoded like raw files are. Frames are numbered from 0. The file is open only while it is read.
#[derive(Debug)]
pub struct NpySource {
    file: Lazy,
    shape: Shape,
    gain: Gain,
    keep_going: bool,
    data: u64,
    /// Frames that the header promises.
    promised: u64,
    /// Whole frames that are there.
    whole: u64,
    /// Frames that are given.
    frames: u64,
    /// Bytes after the last whole frame.
    rest: u64,
    next: u64,
    numbers: Vec<u64>,
    tally: Tally,
}

impl NpySource {
    /// Opens a file whose words have gain bits on top, as the detectors write them. Pixels that are not in gain 0 are
    /// masked; see [`NpySource::gain`].
    ///
    /// # Errors
    /// [`Error::File`] for another type, order or number of dimensions.
    pub fn open(path: &Path) -> Result<NpySource> {
        NpySource::of(Lazy::closed(path))
    }

    /// The content of a file, in memory: for tests and fuzzing.
    ///
    /// # Errors
    /// As [`NpySource::open`].
    pub fn in_memory(content: &[u8]) -> Result<NpySource> {
        NpySource::of(Lazy::memory("memory.npy", content))
    }

    /// What becomes of pixels that are not in gain 0.
    pub fn gain(mut self, gain: Gain) -> NpySource {
        self.gain = gain;
        self
    }

    /// Whether a file that is cut is read as far as it is there: what is missing of a frame is masked, frames behind it are
    /// counted as missing.
    pub fn keep_going(mut self, keep_going: bool) -> NpySource {
        self.keep_going = keep_going;
        if keep_going && self.frames < self.promised && self.rest > 1 {
            self.frames += 1;
        }
        self
    }

    fn of(mut file: Lazy) -> Result<NpySource> {
        let blob = file.open()?;
        let path = file.path();
        let bytes = blob.bytes().map_err(|e| Error::io(path, e))?;
        let header = super::read_header(&blob, bytes, 0).map_err(|what| Error::file(path, what))?;
        let err = |what: String| Err(Error::file(path, what));
        let wanted = Dtype::One(Scalar::new('u', 2));
        if header.dtype != wanted {
            return err(format!(
                "has elements of type {}, expected {wanted}, raw frames of 16 bits (in numpy: {})",
                header.dtype,
                way_to_u16(&header.dtype)
            ));
        }
        let (frames, rows, cols) = match header.shape.as_slice() {
            &[frames, rows, cols] => (frames, rows, cols),
            &[rows, cols] => (1, rows, cols),
            other => {
                return err(format!(
                    "has shape {other:?}, expected (frames, rows, cols), or (rows, cols) for one frame"
                ));
            }
        };
        // A single column or row is the same in both orders.
        if header.fortran_order && header.shape.iter().filter(|n| **n > 1).count() > 1 {
            return err("is in Fortran order, expected C order (in numpy: np.ascontiguousarray(a))".into());
        }
        let side = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
        let shape = Shape::new(side(rows), side(cols)).map_err(|e| Error::file(path, e.to_string()))?;
        let there = bytes - header.data;
        let frame_bytes = shape.pixels() as u64 * 2;
        let whole = (there / frame_bytes).min(frames);
        file.close();
        Ok(NpySource {
            file,
            shape,
            gain: Gain::default(),
            keep_going: false,
            data: header.data,
            promised: frames,
            whole,
            frames: whole,
            rest: there - whole * frame_bytes,
            next: 0,
            numbers: Vec::new(),
            tally: Tally::default(),
        })
    }

    /// So many frames were given. Behind the last one the file is closed.
    fn go_on(&mut self, frames: u64) {
        self.next += frames;
        if self.next == self.frames {
            self.file.close();
        }
    }

    /// Whether frames that were promised are missing and that is an error.
    fn is_fault(&self) -> bool {
        self.frames < self.promised && !self.keep_going
    }

    /// What is wrong with the length of the file, if something is.
    fn fault(&self) -> Option<String> {
        let frame_bytes = self.shape.pixels() as u64 * 2;
        if self.keep_going && self.whole < self.promised {
            return Some(format!(
                "ends inside frame {}: {} of its {frame_bytes} bytes are there, of {} frames that the header promises",
                self.whole, self.rest, self.promised
            ));
        }
        if self.frames < self.promised {
            return Some(format!(
                "ends inside frame {}: {} of its {frame_bytes} bytes were found; the header promises {} frames, the {} \
                 before it are whole (read those only, or bring the whole file)",
                self.frames, self.rest, self.promised, self.frames
            ));
        }
        (self.rest > 0)
            .then(|| format!("has {} bytes behind the last of its {} frames", self.rest, self.promised))
    }
}

/// How numpy makes raw frames of other values without one that does not fit turning into another.
fn way_to_u16(dtype: &Dtype) -> &'static str {
    match dtype {
        Dtype::One(Scalar { kind: 'u', size: 1 | 2, .. } | Scalar { kind: 'b', .. }) => "a.astype('<u2')",
        Dtype::One(Scalar { kind: 'u' | 'i', .. }) => "a.clip(0, 65535).astype('<u2')",
        Dtype::One(Scalar { kind: 'f', .. }) => {
            "np.rint(a).clip(0, 65535).astype('<u2'), without the pedestal subtracted"
        }
        _ => "a['the frames'].astype('<u2')",
    }
}

impl Source for NpySource {
    fn name(&self) -> String {
        self.file.path().display().to_string()
    }

    fn shape(&self) -> Shape {
        self.shape
    }

    fn remaining(&self) -> Option<u64> {
        Some(self.frames - self.next)
    }

    fn read(&mut self, into: &mut FrameBuf) -> Result<usize> {
        Error::check_shape(&self.name(), self.shape, into.shape())?;
        let room = into.capacity() - into.len();
        let count = usize::try_from(self.frames - self.next).map_or(room, |left| left.min(room));
        if count == 0 {
            return match self.fault() {
                Some(what) if room > 0 && self.is_fault() => Err(Error::file(self.file.path(), what)),
                _ => Ok(0),
            };
        }
        let (first, shape, data) = (self.next, self.shape, self.data);
        self.numbers.clear();
        self.numbers.extend(first..first + count as u64);
        let blob = self.file.open()?;
        let (path, frame_bytes) = (self.file.path(), shape.pixels() as u64 * 2);
        // Nothing in the file tells of lost packets.
        let rule = Rule { gain: self.gain, ones_are_lost: true };
        let keep_going = self.keep_going;
        let outcome = decoding::read_frames(into, &self.numbers, &mut self.tally, |k, frame| {
            let number = first + k as u64;
            let at = data + number * frame_bytes;
            let mut cut = Found::default();
            let bytes: &mut [u8] = bytemuck::cast_slice_mut(frame);
            if let Err(e) = blob.read_exact_at(bytes, at) {
                let there = blob.bytes().unwrap_or(0).saturating_sub(at).min(frame_bytes) as usize;
                if !keep_going
                    || there as u64 == frame_bytes
                    || blob.read_exact_at(&mut bytes[..there], at).is_err()
                {
                    return Err(blob.read_failed(path, e, &format!("frame {number}"), at + frame_bytes));
                }
                frame[there / 2..].fill(0);
                cut.cut = true;
                (there / 2..shape.pixels()).for_each(|i| cut.mask(shape).insert_index(i));
            }
            Ok(decode_rows(frame, shape, rule, cut))
        });
        self.go_on(outcome.0 as u64);
        decoding::outcome(outcome)
    }

    fn skip(&mut self, frames: u64) -> Result<Skipped> {
        let skipped = frames.min(self.frames - self.next);
        let numbers = self.next..self.next + skipped;
        self.go_on(skipped);
        match self.fault() {
            Some(what) if skipped == 0 && frames > 0 && self.is_fault() => {
                Err(Error::file(self.file.path(), what))
            }
            _ => Ok(Skipped::range(numbers)),
        }
    }

    fn health(&self) -> Health {
        let name = self.name();
        let mut health = Health::default();
        health.warnings.extend(self.fault().map(|what| format!("{name}: {what}")));
        if self.keep_going {
            health.incomplete_frames = self.promised - self.frames;
            health.damaged_files = u64::from(self.whole < self.promised);
        }
        self.tally.report(&mut health, &name, self.shape.pixels(), false, false);
        health
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};

    use scheidegg_finder::FrameOwner;

    use super::super::header::NpyHeader;
    use super::*;

    const SHAPE: Shape = Shape { rows: 2, cols: 3 };
    /// Bytes of a frame, and frames of the file.
    const FRAME: usize = 12;
    const FRAMES: usize = 3;

    /// Three frames of the words 100, 101, ..., of which so many bytes are there; a few too many, if need be.
    fn file(bytes: usize) -> Vec<u8> {
        let mut all = NpyHeader::write("'<u2'", &[FRAMES as u64, 2, 3]);
        let words = (0..50u16).flat_map(|i| (100 + i).to_le_bytes());
        all.extend(words.take(bytes));
        all
    }

    /// The number of a frame and its words, as far as they are not masked.
    type Known = (u64, Vec<Option<u16>>);

    /// Every frame, then the end.
    fn read(source: &mut NpySource) -> (Vec<Known>, Result<usize>) {
        let (mut all, mut buf) = (Vec::new(), FrameBuf::new(SHAPE, 2));
        loop {
            buf.clear();
            match source.read(&mut buf) {
                Ok(n) if n > 0 => {}
                end => return (all, end),
            }
            let frames = buf.frames();
            for k in 0..frames.len() {
                let is_lost = |i: usize| frames.lost(k).is_some_and(|m| m.contains_index(i));
                let words = frames.frame(k).iter().enumerate();
                let words = words.map(|(i, w)| (!is_lost(i)).then_some(*w)).collect();
                all.push((frames.number(k), words));
            }
        }
    }

    /// Frame `k` with so many words of it.
    fn known(k: usize, words: usize) -> Known {
        (k as u64, (0..6).map(|i| (i < words).then_some((100 + 6 * k + i) as u16)).collect())
    }

    #[test]
    fn a_file_of_any_length_gives_its_whole_frames_and_says_what_is_wrong() {
        for bytes in 0..=3 * FRAME + 4 {
            let whole = (bytes / FRAME).min(FRAMES);
            let rest = bytes - whole * FRAME;
            let mut source = NpySource::in_memory(&file(bytes)).unwrap();
            assert_eq!(source.remaining(), Some(whole as u64));
            let (frames, end) = read(&mut source);
            assert_eq!(frames, (0..whole).map(|k| known(k, 6)).collect::<Vec<_>>());
            let fault = match (whole < FRAMES, rest) {
                (true, _) => vec![format!(
                    "memory.npy: ends inside frame {whole}: {rest} of its 12 bytes were found; the header promises 3 \
                     frames, the {whole} before it are whole (read those only, or bring the whole file)"
                )],
                (false, 0) => vec![],
                (false, _) => vec![format!("memory.npy: has {rest} bytes behind the last of its 3 frames")],
            };
            assert_eq!(end.err().map(|e| e.to_string()), fault.first().cloned().filter(|_| whole < FRAMES));
            assert_eq!(source.health(), Health { warnings: fault, ..Health::default() }, "{bytes} bytes");
        }
    }

    #[test]
    fn a_cut_file_is_read_as_far_as_it_is_there_when_asked_to() {
        for bytes in 0..=3 * FRAME + 4 {
            let whole = (bytes / FRAME).min(FRAMES);
            let (rest, is_cut) = (bytes - whole * FRAME, whole < FRAMES);
            // Half a word is none.
            let part = is_cut && rest > 1;
            let given = whole + usize::from(part);
            let mut source = NpySource::in_memory(&file(bytes)).unwrap().keep_going(true);
            assert_eq!(source.remaining(), Some(given as u64), "{bytes} bytes");
            let (frames, end) = read(&mut source);
            let expected = (0..given).map(|k| known(k, if k < whole { 6 } else { rest / 2 }));
            assert_eq!((frames, end.unwrap()), (expected.collect(), 0), "{bytes} bytes");
            let mut warnings = Vec::new();
            if is_cut {
                warnings.push(format!(
                    "memory.npy: ends inside frame {whole}: {rest} of its 12 bytes are there, of 3 frames that the \
                     header promises"
                ));
            } else if rest > 0 {
                warnings.push(format!("memory.npy: has {rest} bytes behind the last of its 3 frames"));
            }
            if part {
                let cut = "memory.npy: 1 frames were cut: the pixels that are missing are masked";
                warnings.push(cut.into());
            }
            let health = Health {
                incomplete_frames: (FRAMES - given) as u64,
                damaged_files: u64::from(is_cut),
                lost_pixels: if part { 6 - rest as u64 / 2 } else { 0 },
                warnings,
                ..Health::default()
            };
            assert_eq!(source.health(), health, "{bytes} bytes");
        }
    }

    #[test]
    fn a_file_is_open_until_its_last_frame_is_given_or_left_out() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.npy");
        fs::write(&path, file(3 * FRAME)).unwrap();
        let mut one = FrameBuf::new(SHAPE, 1);
        for (read, skip) in [(0, 0), (1, 0), (2, 0), (3, 0), (0, 3), (1, 1), (1, 2), (2, 1), (2, 9)] {
            let mut source = NpySource::open(&path).unwrap();
            for _ in 0..read {
                one.clear();
                source.read(&mut one).unwrap();
            }
            source.skip(skip).unwrap();
            // There is no room for more.
            if read > 0 {
                assert_eq!(source.read(&mut one).unwrap(), 0);
            }
            assert_eq!(source.file.is_open(), read > 0 && read + skip < 3, "{read} read, {skip} left out");
        }
    }

    /// A file that another program cuts while it is read: where the frame should end is said, and what is left of it read
    /// when that is asked for.
    #[test]
    fn a_file_that_is_cut_meanwhile_is_found_out() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.npy");
        let header = (file(0)).len();
        for (keep_going, left) in [(false, FRAME + 7), (true, FRAME + 7), (true, FRAME), (true, 5)] {
            fs::write(&path, file(3 * FRAME)).unwrap();
            let mut source = NpySource::open(&path).unwrap().keep_going(keep_going);
            File::options().write(true).open(&path).unwrap().set_len((header + left) as u64).unwrap();
            let (frames, end) = read(&mut source);
            if !keep_going {
                assert_eq!(frames, [known(0, 6)]);
                let said = end.unwrap_err().to_string();
                let (ends, now) = (header + 2 * FRAME, header + left);
                assert!(
                    said.contains(&format!("frame 1 ends at byte {ends}, but the file has {now} now")),
                    "{said}"
                );
                continue;
            }
            end.unwrap();
            let words = |k: usize| (left.saturating_sub(k * FRAME) / 2).min(6);
            assert_eq!(frames, (0..3).map(|k| known(k, words(k))).collect::<Vec<_>>(), "{left} bytes left");
        }
    }

    #[test]
    fn values_of_other_types_are_refused_with_a_way_to_make_frames_of_them() {
        let clip = "a.clip(0, 65535).astype('<u2')";
        let round = "np.rint(a).clip(0, 65535).astype('<u2'), without the pedestal subtracted";
        for (descr, shown, way) in [
            ("'|u1'", "|u1", "a.astype('<u2')"),
            ("'>u2'", ">u2", "a.astype('<u2')"),
            ("'|b1'", "|b1", "a.astype('<u2')"),
            ("'<u4'", "<u4", clip),
            ("'|i1'", "|i1", clip),
            ("'<i2'", "<i2", clip),
            ("'<f4'", "<f4", round),
            ("'>f8'", ">f8", round),
            ("'<c8'", "<c8", "a['the frames'].astype('<u2')"),
            ("[('n', '<u8'), ('a', '<u2')]", "records of n <u8, a <u2", "a['the frames'].astype('<u2')"),
        ] {
            let content = NpyHeader::write(descr, &[1, 2, 3]);
            let said = NpySource::in_memory(&content).unwrap_err().to_string();
            let expected = format!(
                "memory.npy: has elements of type {shown}, expected <u2, raw frames of 16 bits (in numpy: {way})"
            );
            assert_eq!(said, expected);
        }
    }
}
