//! Archives of arrays (`.npz`), written member by member, not compressed; the numbers are those of zip's APPNOTE.
//!
//! They are written here and not by a library because an archive whose disk is full must be cut back to what fits, and
//! because the first bytes of its first member are known last. Archives are read by the `zip` crate.

use std::io::{Read, Seek, SeekFrom};
use std::path::PathBuf;

use scheidegg_finder::{Error, Result};

use super::beside::Sum;
use super::output::{Output, Place};

/// The version of the format that knows 64-bit sizes (APPNOTE 4.4.3.2).
const VERSION: u16 = 45;
/// The first day that the format can tell, 1980-01-01 (APPNOTE 4.4.6): the same arrays are the same bytes.
const DAY: u16 = 1 << 5 | 1;
/// What stands for a number that has its place in the 64-bit field (APPNOTE 4.4.8, 4.5.3).
const ELSEWHERE: u32 = u32::MAX;

/// An archive on its way into its file.
#[derive(Debug)]
pub(crate) struct Archive {
    out: Output,
    /// Bytes so far.
    at: u64,
    /// The members that are closed, and the one that grows.
    members: Vec<Entry>,
    grows: Option<Member>,
}

/// The member that is written.
#[derive(Debug)]
struct Member {
    name: String,
    start: u64,
    /// Its first bytes, which may be others at the end, and the sum of all that comes behind them.
    head: Vec<u8>,
    sum: Sum,
}

/// A member as the directory has it.
#[derive(Clone, Debug)]
struct Entry {
    name: String,
    start: u64,
    bytes: u64,
    crc: u32,
}

impl Archive {
    /// Starts an archive that will be called `path`.
    pub fn create(place: impl Into<Place>) -> Result<Archive> {
        Ok(Archive::of(Output::create(place)?))
    }

    fn of(out: Output) -> Archive {
        Archive { out, at: 0, members: Vec::new(), grows: None }
    }

    /// Starts the array `name` with its header, or with the first bytes of that.
    pub fn start(&mut self, name: &str, head: &[u8]) -> Result<()> {
        self.close_member()?;
        let entry = Entry { name: format!("{name}.npy"), start: self.at, bytes: 0, crc: 0 };
        let header = entry.local_header();
        self.out.write(&header)?;
        self.out.write(head)?;
        self.at += (header.len() + head.len()) as u64;
        self.grows =
            Some(Member { name: entry.name, start: entry.start, head: head.to_vec(), sum: Sum::default() });
        Ok(())
    }

    /// Appends bytes to the array started last.
    pub fn write(&mut self, bytes: &[u8]) -> Result<()> {
        let member = self.grows.as_mut().expect("an array was started");
        self.out.write(bytes)?;
        self.at += bytes.len() as u64;
        member.sum.add(bytes);
        Ok(())
    }

    /// Gives the array started last another header of the same length.
    pub fn exchange_head(&mut self, head: Vec<u8>) -> Result<()> {
        let member = self.grows.as_mut().expect("an array was started");
        assert_eq!(member.head.len(), head.len(), "headers of one length");
        self.out.write_over(member.start + local_bytes(&member.name), &head)?;
        member.head = head;
        Ok(())
    }

    /// Goes back to the first array and to so many bytes behind its header, after an error too: what was written behind them
    /// is forgotten. They are read again for their CRC-32.
    pub fn cut(&mut self, bytes: u64, head: Vec<u8>) -> Result<()> {
        let name = match (self.members.first(), &self.grows) {
            (Some(entry), _) => entry.name.clone(),
            (None, Some(member)) => member.name.clone(),
            (None, None) => return self.clear(),
        };
        let start = local_bytes(&name) + head.len() as u64;
        self.out.cut(start + bytes)?;
        let path = self.out.path().to_path_buf();
        let failed = |e| Error::io(&path, e);
        let file = self.out.reread()?;
        file.seek(SeekFrom::Start(start)).map_err(failed)?;
        let (mut left, mut some, mut sum) = (bytes, vec![0; 1 << 16], Sum::default());
        while left > 0 {
            some.truncate(left.min(1 << 16) as usize);
            file.read_exact(&mut some).map_err(failed)?;
            sum.add(&some);
            left -= some.len() as u64;
        }
        // The file was read to its end: there it goes on.
        self.at = start + bytes;
        self.members.clear();
        self.grows = Some(Member { name, start: 0, head: head.clone(), sum });
        self.exchange_head(head)
    }

    /// Goes back to an archive without arrays, after an error too.
    pub fn clear(&mut self) -> Result<()> {
        (self.at, self.grows) = (0, None);
        self.members.clear();
        self.out.cut(0)
    }

    /// Completes the archive under its name.
    pub fn finish(mut self) -> Result<()> {
        self.end()?;
        self.finish_as(true).map(|_| ())
    }

    /// Gives an archive that is [ended](Archive::end) a name, its own for sure where the run came to its end (`complete`).
    pub fn finish_as(self, complete: bool) -> Result<PathBuf> {
        self.out.finish_as(complete)
    }

    /// Gives an archive that is ended a name beside its own, which says that it is a part.
    pub fn finish_aside(self) -> Result<PathBuf> {
        self.out.finish_aside()
    }

    /// Bytes behind the header of the first array that have reached the file, if nothing else was written yet.
    pub fn reached(&self) -> Result<u64> {
        let before = self.grows.as_ref().map_or(0, |m| local_bytes(&m.name) + m.head.len() as u64);
        Ok(self.out.reached()?.saturating_sub(before))
    }

    /// Completes the file; it has no name yet.
    pub fn end(&mut self) -> Result<()> {
        self.close_member()?;
        self.out.write(&directory(&self.members, self.at))?;
        self.out.flush()
    }

    /// Writes size and CRC-32 of the array started last into the header before it.
    fn close_member(&mut self) -> Result<()> {
        let Some(member) = self.grows.take() else { return Ok(()) };
        let whole = member.sum.behind(&member.head);
        let entry = Entry { name: member.name, start: member.start, bytes: whole.bytes, crc: whole.crc32 };
        self.out.write_over(entry.start, &entry.local_header())?;
        self.members.push(entry);
        Ok(())
    }
}

/// Bytes of the header before a member.
fn local_bytes(name: &str) -> u64 {
    30 + name.len() as u64 + 20
}

impl Entry {
    /// The header before a member, whose sizes have 64 bits (APPNOTE 4.3.7).
    fn local_header(&self) -> Vec<u8> {
        let mut h = b"PK\x03\x04".to_vec();
        self.put_common(&mut h);
        h.extend(ELSEWHERE.to_le_bytes());
        h.extend(ELSEWHERE.to_le_bytes());
        h.extend((self.name.len() as u16).to_le_bytes());
        h.extend(20u16.to_le_bytes());
        h.extend(self.name.bytes());
        put_large(&mut h, &[self.bytes, self.bytes]);
        h
    }

    /// Its header in the directory (APPNOTE 4.3.12).
    fn central_header(&self) -> Vec<u8> {
        let (bytes, start) = (short(self.bytes), short(self.start));
        let sizes: &[u64] = if bytes == ELSEWHERE { &[self.bytes, self.bytes] } else { &[] };
        let place: &[u64] = if start == ELSEWHERE { &[self.start] } else { &[] };
        let large = [sizes, place].concat();
        let mut h = b"PK\x01\x02".to_vec();
        h.extend(VERSION.to_le_bytes());
        self.put_common(&mut h);
        h.extend(bytes.to_le_bytes());
        h.extend(bytes.to_le_bytes());
        h.extend((self.name.len() as u16).to_le_bytes());
        let extra = if large.is_empty() { 0 } else { 4 + 8 * large.len() as u16 };
        h.extend(extra.to_le_bytes());
        // No comment, the first disk, no attributes.
        h.extend([0; 10]);
        h.extend(start.to_le_bytes());
        h.extend(self.name.bytes());
        if !large.is_empty() {
            put_large(&mut h, &large);
        }
        h
    }

    /// What both headers say alike: version, no flags, stored as it is, the time, the CRC-32.
    fn put_common(&self, h: &mut Vec<u8>) {
        h.extend(VERSION.to_le_bytes());
        h.extend([0; 6]);
        h.extend(DAY.to_le_bytes());
        h.extend(self.crc.to_le_bytes());
    }
}

/// The 64-bit field (APPNOTE 4.5.3).
fn put_large(h: &mut Vec<u8>, numbers: &[u64]) {
    h.extend(1u16.to_le_bytes());
    h.extend((8 * numbers.len() as u16).to_le_bytes());
    numbers.iter().for_each(|n| h.extend(n.to_le_bytes()));
}

/// A number in 32 bits, or [`ELSEWHERE`].
fn short(n: u64) -> u32 {
    u32::try_from(n).unwrap_or(ELSEWHERE)
}

/// The directory behind members that end at `at`, with its end (APPNOTE 4.3.12 to 4.3.16).
fn directory(members: &[Entry], at: u64) -> Vec<u8> {
    let mut d: Vec<u8> = members.iter().flat_map(Entry::central_header).collect();
    let (bytes, count) = (d.len() as u64, members.len() as u16);
    if short(at) == ELSEWHERE {
        d.extend(b"PK\x06\x06");
        // Bytes of what follows of this record.
        d.extend(44u64.to_le_bytes());
        d.extend([VERSION, VERSION].map(u16::to_le_bytes).concat());
        d.extend([0; 8]);
        d.extend([u64::from(count), u64::from(count), bytes, at].map(u64::to_le_bytes).concat());
        d.extend(b"PK\x06\x07");
        d.extend([0; 4]);
        d.extend((at + bytes).to_le_bytes());
        d.extend(1u32.to_le_bytes());
    }
    d.extend(b"PK\x05\x06");
    d.extend([0; 4]);
    d.extend([count, count].map(u16::to_le_bytes).concat());
    d.extend([short(bytes), short(at)].map(u32::to_le_bytes).concat());
    d.extend([0; 2]);
    d
}

/// Writes small arrays, whole `.npy` files in memory, as one `.npz` file.
pub(crate) fn write_npz(place: impl Into<Place>, members: &[(&str, Vec<u8>)]) -> Result<()> {
    let mut archive = Archive::create(place)?;
    for (name, bytes) in members {
        archive.start(name, &[])?;
        archive.write(bytes)?;
    }
    archive.finish()
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::io::Write;
    use std::path::Path;

    use zip::ZipArchive;

    use super::*;

    /// Reads a member to its end, where its CRC-32 is looked at.
    fn member(path: &Path, name: &str) -> Vec<u8> {
        let mut archive = ZipArchive::new(File::open(path).unwrap()).unwrap();
        let mut bytes = Vec::new();
        archive.by_name(name).unwrap().read_to_end(&mut bytes).unwrap();
        bytes
    }

    /// Fault: the CRC-32 is the one of the header that stood there first.
    #[test]
    fn the_first_header_can_be_known_last() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.npz");
        for rest in [0, 1, 63, 1 << 20] {
            let rest: Vec<u8> = (0..rest).map(|i: usize| (i % 251) as u8).collect();
            let mut archive = Archive::create(&path).unwrap();
            archive.start("data", b"rows: 0.").unwrap();
            archive.write(&rest).unwrap();
            archive.exchange_head(b"rows: 17".to_vec()).unwrap();
            archive.start("x", b"").unwrap();
            archive.write(b"xyz").unwrap();
            archive.finish().unwrap();
            assert!(member(&path, "data.npy") == [b"rows: 17", rest.as_slice()].concat());
            assert_eq!(member(&path, "x.npy"), b"xyz");
            assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
            // The header before a member says the same as the directory: what reads archives as streams sees that only.
            let file = File::open(&path).unwrap();
            let crc = ZipArchive::new(&file).unwrap().by_name("data.npy").unwrap().crc32();
            let bytes = fs::read(&path).unwrap();
            assert_eq!(bytes[14..18], crc.to_le_bytes());
            let size = (8 + rest.len() as u64).to_le_bytes();
            assert_eq!((&bytes[42..50], &bytes[50..58]), (&size[..], &size[..]));
        }
    }

    #[test]
    fn an_archive_can_be_cut_back_to_the_start_of_its_first_array() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.npz");
        let content: Vec<u8> = (0..200_000u32).map(|i| (i % 253) as u8).collect();
        for left in [0, 1, 65_535, 65_536, 65_537, 200_000] {
            for members in 0..3 {
                let mut archive = Archive::create(&path).unwrap();
                archive.start("data", b"head 0").unwrap();
                archive.write(&content).unwrap();
                for k in 0..members {
                    archive.start(&format!("x{k}"), b"x").unwrap();
                }
                let before = archive.reached().unwrap();
                archive.out.flush().unwrap();
                if members == 0 {
                    assert_eq!([before, archive.reached().unwrap()], [0, 200_000]);
                }
                archive.cut(left, b"head 1".to_vec()).unwrap();
                archive.write(b"more").unwrap();
                archive.start("y", b"").unwrap();
                archive.write(b"yyy").unwrap();
                archive.end().unwrap();
                let part = archive.finish_aside().unwrap();
                assert_eq!(part, dir.path().join("a.partial.npz"));
                let want = [b"head 1", &content[..left as usize], b"more"].concat();
                assert!(member(&part, "data.npy") == want, "{left} {members}");
                assert_eq!(member(&part, "y.npy"), b"yyy");
                assert_eq!(ZipArchive::new(File::open(&part).unwrap()).unwrap().len(), 2);
                fs::remove_file(part).unwrap();
            }
        }
    }

    /// Numbers of 32 bits and beyond, in a file with holes.
    #[test]
    fn members_can_be_larger_than_4_gib() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("large.npz");
        const EDGE: u64 = u32::MAX as u64;
        for sizes in [[3, EDGE - 1], [EDGE - 1, 3], [EDGE, 3], [EDGE + 1, EDGE], [1 << 33, 7]] {
            let mut file = File::create(&path).unwrap();
            let (mut members, mut at) = (Vec::new(), 0);
            for (k, bytes) in sizes.into_iter().enumerate() {
                let entry = Entry { name: format!("m{k}.npy"), start: at, bytes, crc: 7 + k as u32 };
                file.seek(SeekFrom::Start(at)).unwrap();
                file.write_all(&entry.local_header()).unwrap();
                at += local_bytes(&entry.name) + bytes;
                members.push(entry);
            }
            file.seek(SeekFrom::Start(at)).unwrap();
            file.write_all(&directory(&members, at)).unwrap();
            let mut archive = ZipArchive::new(File::open(&path).unwrap()).unwrap();
            assert_eq!(archive.len(), 2);
            for (k, entry) in members.iter().enumerate() {
                let found = archive.by_index(k).unwrap();
                assert_eq!(found.name(), entry.name);
                assert_eq!((found.size(), found.compressed_size()), (entry.bytes, entry.bytes));
                assert_eq!((found.header_start(), found.crc32()), (entry.start, entry.crc));
                assert_eq!(found.data_start(), Some(entry.start + local_bytes(&entry.name)));
            }
        }
    }

    #[test]
    fn an_archive_that_is_dropped_is_not_ended_and_leaves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.npz");
        for members in 0..3 {
            let mut archive = Archive::create(&path).unwrap();
            for k in 0..members {
                archive.start(&format!("a{k}"), b"").unwrap();
                archive.write(b"1234").unwrap();
            }
            let partial = fs::read_dir(dir.path()).unwrap().next().unwrap().unwrap().path();
            let file = File::open(partial).unwrap();
            let before = file.metadata().unwrap().len();
            drop(archive);
            assert_eq!(file.metadata().unwrap().len(), before, "nothing is written for nobody");
            assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_full_disk_ends_an_archive_for_good() {
        use crate::io::output;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.npz");
        for large in [true, false] {
            let mut archive = Archive::of(output::full(&path));
            archive.start("data", b"").unwrap();
            let said = if large {
                let said = archive.write(&vec![1; 1 << 19]).unwrap_err().to_string();
                let refused = archive.finish().unwrap_err().to_string();
                assert!(refused.contains("was not written to the end"), "{refused}");
                said
            } else {
                archive.write(b"few").unwrap();
                archive.finish().unwrap_err().to_string()
            };
            assert!(said.contains("a.npz: ") && said.contains("free some space"), "{said}");
        }
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}
