//! The arrays of a `.npz` file.

use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytemuck::Pod;
use scheidegg_finder::{Error, Result};
use serde_json::Value;
use zip::ZipArchive;
use zip::result::ZipError;

use super::checked::Watch;
use super::npy::{self, Dtype, NpyHeader, Scalar};
use super::read_at::Blob;

/// An array of a file: where its elements lie, and what they are.
#[derive(Clone, Debug)]
pub(crate) struct Array {
    pub blob: Blob,
    /// Offset of its header, and of its first element.
    pub start: u64,
    pub data: u64,
    pub header: NpyHeader,
    /// The CRC-32 of header and elements, where one is known that nobody has looked at yet.
    pub crc: Option<u32>,
}

impl Array {
    /// The array that starts at `start` of a blob and has `bytes` bytes, header included.
    pub fn at(blob: Blob, start: u64, bytes: u64) -> Result<Array, String> {
        let header = npy::read_header(&blob, bytes, start)?;
        let (need, there) = (header.data_bytes().unwrap_or(u64::MAX), bytes - header.data);
        if need > there {
            return Err(format!("is cut: its header promises {need} bytes of elements, {there} are there"));
        }
        if need < there {
            return Err(format!("has {} bytes behind the {need} that its header promises", there - need));
        }
        Ok(Array { blob, start, data: start + header.data, header, crc: None })
    }

    /// Bytes of all elements.
    pub fn bytes(&self) -> u64 {
        self.header.data_bytes().unwrap_or(0)
    }

    /// What the bytes of this array must come to, header taken already.
    pub fn watch(&self, path: &Path) -> Result<Option<Watch>> {
        let Some(crc) = self.crc else { return Ok(None) };
        let mut watch = Watch::new(crc, self.start);
        let mut header = vec![0; (self.data - self.start) as usize];
        self.blob.read_exact_at(&mut header, self.start).map_err(|e| Error::io(path, e))?;
        watch.take(self.start, &header);
        Ok(Some(watch))
    }

    /// All elements, whose type must have been looked at. A CRC-32 that is known is looked at.
    pub fn values<T: Pod>(&self, name: &str, path: &Path) -> Result<Vec<T>> {
        let too_large = || Error::file(path, format!("array {name} is too large"));
        let bytes = usize::try_from(self.bytes()).map_err(|_| too_large())?;
        let mut all = vec![T::zeroed(); bytes / size_of::<T>()];
        self.blob
            .read_exact_at(bytemuck::cast_slice_mut(&mut all), self.data)
            .map_err(|e| Error::io(path, e))?;
        if let Some(mut watch) = self.watch(path)? {
            watch.take(self.data, bytemuck::cast_slice(&all));
            watch.end(path, &format!("array {name}"))?;
        }
        Ok(all)
    }
}

/// A `.npz` file.
#[derive(Debug)]
pub(crate) struct Npz {
    path: PathBuf,
    blob: Blob,
    archive: ZipArchive<BufReader<std::fs::File>>,
}

impl Npz {
    /// # Errors
    /// [`Error::File`] for what is no archive, and for one whose directory and members do not say the same.
    pub fn open(path: &Path) -> Result<Npz> {
        let (blob, _) = Blob::open(path)?;
        let file = std::fs::File::open(path).map_err(|e| Error::io(path, e))?;
        let mut start = [0; 6];
        let is_npy = blob.read_exact_at(&mut start, 0).is_ok() && start == *b"\x93NUMPY";
        let archive = ZipArchive::new(BufReader::new(file)).map_err(|e| match e {
            ZipError::Io(e) => Error::io(path, e),
            _ if is_npy => Error::file(path, "is not a .npz file, but a .npy file: one array and no archive"),
            e => Error::file(path, format!("is not a whole .npz file: {e}")),
        })?;
        let mut npz = Npz { path: path.to_path_buf(), blob, archive };
        npz.check_directory()
            .map_err(|what| Error::file(path, format!("is not a whole .npz file: {what}")))?;
        Ok(npz)
    }

    /// An archive names its arrays in a directory at its end and before each of them: both must say the same, and the
    /// arrays must fill the file up to the directory. Otherwise a damaged name or count would make an array vanish.
    fn check_directory(&mut self) -> Result<(), String> {
        let mut places = Vec::new();
        for i in 0..self.archive.len() {
            let member = self.archive.by_index_raw(i).map_err(|e| e.to_string())?;
            let (name, start) = (member.name().to_string(), member.header_start());
            let header = LocalHeader::read(&self.blob, start).map_err(|e| format!("{name}: {e}"))?;
            let same = header.name == member.name_raw()
                && (header.is_followed_by_sizes() || header.crc == member.crc32());
            if !same {
                return Err(format!(
                    "its directory and the header at byte {start} do not say the same of {name}"
                ));
            }
            let end = member.data_start().and_then(|at| at.checked_add(member.compressed_size()));
            let end = end.ok_or_else(|| format!("{name} has no end"))?;
            places.push((start, end, header.is_followed_by_sizes()));
        }
        places.sort_unstable();
        // Where the next member starts, and the most bytes before it that no member has.
        let (mut next, mut spare) = (0, 0);
        let directory = (self.archive.central_directory_start(), 0, false);
        for (start, end, followed) in places.into_iter().chain([directory]) {
            if start < next || start - next > spare {
                return Err(format!("its directory does not name what lies at byte {next}"));
            }
            (next, spare) = (end, if followed { LocalHeader::MOST_SIZES } else { 0 });
        }
        Ok(())
    }

    /// The names of the arrays.
    pub fn names(&self) -> Vec<String> {
        self.archive.file_names().filter_map(|n| n.strip_suffix(".npy")).map(String::from).collect()
    }

    /// One array, if it is there. An array that is stored as it is stays in the file, and its CRC-32 is looked at by whoever
    /// reads it; a compressed one is held in memory.
    pub fn array(&mut self, name: &str) -> Result<Option<Array>> {
        let err = |what: String| Error::file(&self.path, format!("array {name} {what}"));
        let mut member = match self.archive.by_name(&format!("{name}.npy")) {
            Ok(member) => member,
            Err(ZipError::FileNotFound) => return Ok(None),
            Err(e) => return Err(err(format!("cannot be read: {e}"))),
        };
        let (bytes, crc) = (member.size(), member.crc32());
        let start = member.data_start();
        if let (zip::CompressionMethod::Stored, Some(start)) = (member.compression(), start) {
            let array = Array::at(self.blob.clone(), start, bytes).map_err(err)?;
            return Ok(Some(Array { crc: Some(crc), ..array }));
        }
        let mut content = Vec::new();
        let read = member.by_ref().take(bytes.saturating_add(1)).read_to_end(&mut content);
        read.map_err(|e| err(format!("cannot be unpacked: {e} (it is damaged: copy the file again)")))?;
        if content.len() as u64 != bytes {
            return Err(err(format!("unpacks to {} bytes, {bytes} were promised", content.len())));
        }
        Array::at(Blob::Memory(Arc::from(content)), 0, bytes).map(Some).map_err(err)
    }

    /// An array that is one string of bytes, a JSON object, if it is there.
    pub fn json(&mut self, name: &str) -> Result<Option<Value>> {
        let err = |path: &Path, what: String| Err(Error::file(path, format!("array {name} {what}")));
        let Some(array) = self.array(name)? else { return Ok(None) };
        let h = &array.header;
        let Dtype::One(Scalar { kind: 'S', .. }) = h.dtype else {
            return err(&self.path, format!("is {} {:?}, expected a string of bytes", h.dtype, h.shape));
        };
        let text = array.values::<u8>(name, &self.path)?;
        // Numpy fills strings up with zeros.
        let end = text.iter().rposition(|b| *b != 0).map_or(0, |i| i + 1);
        match serde_json::from_slice(&text[..end]) {
            Ok(Value::Object(said)) => Ok(Some(Value::Object(said))),
            Ok(_) => err(&self.path, "is no JSON object".into()),
            Err(e) => err(&self.path, format!("is no JSON: {e}")),
        }
    }

    /// One array that must be there.
    pub fn need(&mut self, name: &str) -> Result<Array> {
        let names = self.names();
        self.array(name)?.ok_or_else(|| {
            let found = if names.is_empty() { "none".into() } else { names.join(", ") };
            Error::file(&self.path, format!("has no array {name} (found: {found})"))
        })
    }
}

/// The header before a member of an archive (zip's APPNOTE 4.3.7).
struct LocalHeader {
    flags: u16,
    crc: u32,
    name: Vec<u8>,
}

impl LocalHeader {
    const BYTES: usize = 30;
    /// Bytes of the sizes that follow a member whose header does not say them (APPNOTE 4.3.9).
    const MOST_SIZES: u64 = 24;

    fn read(blob: &Blob, at: u64) -> std::io::Result<LocalHeader> {
        let mut h = [0; Self::BYTES];
        blob.read_exact_at(&mut h, at)?;
        let two = |i: usize| u16::from_le_bytes([h[i], h[i + 1]]);
        let mut name = vec![0; usize::from(two(26))];
        blob.read_exact_at(&mut name, at + Self::BYTES as u64)?;
        Ok(LocalHeader { flags: two(6), crc: u32::from_le_bytes([h[14], h[15], h[16], h[17]]), name })
    }

    /// Whether CRC-32 and sizes stand behind the member, and 0 in the header.
    fn is_followed_by_sizes(&self) -> bool {
        self.flags & 1 << 3 != 0
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::{Cursor, Write};

    use zip::write::SimpleFileOptions;
    use zip::{CompressionMethod, ZipWriter};

    use super::*;

    fn array(descr: &str, sides: &[u64], bytes: &[u8]) -> Vec<u8> {
        [NpyHeader::write(&format!("'{descr}'"), sides), bytes.to_vec()].concat()
    }

    /// An archive in memory.
    fn zipped(members: &[(&str, &[u8])], method: CompressionMethod) -> Vec<u8> {
        let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
        for (name, bytes) in members {
            zip.start_file(format!("{name}.npy"), SimpleFileOptions::default().compression_method(method))
                .unwrap();
            zip.write_all(bytes).unwrap();
        }
        zip.finish().unwrap().into_inner()
    }

    /// An archive as those write it who cannot go back: sizes and CRC-32 stand behind each member, not before it.
    fn streamed(members: &[(&str, &[u8])], behind: &[u8]) -> Vec<u8> {
        let mut zip = ZipWriter::new_stream(Vec::new());
        for (name, bytes) in members {
            let options = SimpleFileOptions::default().compression_method(CompressionMethod::Stored);
            zip.start_file(format!("{name}.npy"), options).unwrap();
            zip.write_all(bytes).unwrap();
        }
        let all = zip.finish().unwrap().into_inner();
        if behind.is_empty() {
            return all;
        }
        // The directory starts later by what lies before it; the end of the archive says where.
        let end = all.len() - 22;
        let start = u32::from_le_bytes(all[end + 16..end + 20].try_into().unwrap());
        let moved = (start + behind.len() as u32).to_le_bytes();
        let (before, directory) = all.split_at(start as usize);
        [before, behind, &directory[..directory.len() - 6], &moved, &directory[directory.len() - 2..]]
            .concat()
    }

    #[test]
    fn archives_of_any_writer_are_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.npz");
        let (a, b) = (array("<u2", &[3], &[1, 0, 2, 0, 3, 0]), array("|u1", &[1000], &[7; 1000]));
        let members: [(&str, &[u8]); 2] = [("a", &a), ("b", &b)];
        for content in [
            zipped(&members, CompressionMethod::Stored),
            zipped(&members, CompressionMethod::Deflated),
            streamed(&members, &[]),
        ] {
            fs::write(&path, content).unwrap();
            let mut npz = Npz::open(&path).unwrap();
            let mut names = npz.names();
            names.sort();
            assert_eq!(names, ["a", "b"]);
            let read = npz.need("a").unwrap().values::<u16>("a", &path).unwrap();
            assert_eq!(read, [1, 2, 3]);
            assert_eq!(npz.need("b").unwrap().values::<u8>("b", &path).unwrap(), [7; 1000]);
            assert!(npz.array("c").unwrap().is_none());
            let said = npz.need("c").unwrap_err().to_string();
            assert!(said.contains("a.npz: has no array c (found: ") && said.contains('b'), "{said}");
        }
        fs::write(&path, zipped(&[], CompressionMethod::Stored)).unwrap();
        let said = Npz::open(&path).unwrap().need("c").unwrap_err().to_string();
        assert!(said.ends_with("a.npz: has no array c (found: none)"), "{said}");
    }

    /// Members that the directory does not name, and one that says something else before the member than there.
    #[test]
    fn what_the_directory_does_not_name_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.npz");
        let a = array("<u2", &[1], &[1, 0]);
        let bytes = 30 + "a.npy".len() + a.len();
        let refused = |content: Vec<u8>| {
            fs::write(&path, content).unwrap();
            Npz::open(&path).err().map(|e| e.to_string())
        };
        // Where sizes may stand behind a member there is room for these, and for nothing more.
        let known = streamed(&[("a", &a)], &[]);
        let start = known.windows(4).position(|w| w == b"PK\x01\x02").unwrap();
        let sizes = start - bytes;
        assert_eq!(refused(streamed(&[("a", &a)], &vec![0; 24 - sizes])), None);
        let said = refused(streamed(&[("a", &a)], &vec![0; 25 - sizes])).unwrap();
        let words =
            format!("a.npz: is not a whole .npz file: its directory does not name what lies at byte {bytes}");
        assert!(said.ends_with(&words), "{said}");
        // Where they stand before it there is room for nothing.
        let mut plain = streamed(&[("a", &a)], &[]);
        plain[6] &= !8;
        plain[start + 8] &= !8;
        let crc = crc32fast::hash(&a).to_le_bytes();
        plain[14..18].copy_from_slice(&crc);
        assert!(refused(plain.clone()).unwrap().ends_with(&words));
        plain[14] ^= 1;
        let said = refused(plain).unwrap();
        assert!(
            said.ends_with("its directory and the header at byte 0 do not say the same of a.npy"),
            "{said}"
        );
        let mut renamed = streamed(&[("a", &a)], &[]);
        renamed[30] = b'c';
        assert!(refused(renamed).unwrap().ends_with("do not say the same of a.npy"));
    }

    #[test]
    fn members_may_lie_in_another_order_than_the_directory_names_them() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.npz");
        let (a, b) = (array("|u1", &[2], &[1, 2]), array("|u1", &[2], &[3, 4]));
        let all = zipped(&[("a", &a), ("b", &b)], CompressionMethod::Stored);
        let start = all.windows(4).position(|w| w == b"PK\x01\x02").unwrap();
        let second = start + 4 + all[start + 4..].windows(4).position(|w| w == b"PK\x01\x02").unwrap();
        let end = all.len() - 22;
        let turned = [&all[..start], &all[second..end], &all[start..second], &all[end..]].concat();
        fs::write(&path, turned).unwrap();
        let mut npz = Npz::open(&path).unwrap();
        for (name, values) in [("a", [1, 2]), ("b", [3, 4])] {
            assert_eq!(npz.need(name).unwrap().values::<u8>(name, &path).unwrap(), values);
        }
    }

    #[test]
    fn a_compressed_array_is_as_long_as_promised_or_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.npz");
        let b = array("|u1", &[1000], &[7; 1000]);
        let good = zipped(&[("b", &b)], CompressionMethod::Deflated);
        let start = good.windows(4).position(|w| w == b"PK\x01\x02").unwrap();
        let refused = |change: &dyn Fn(&mut Vec<u8>)| {
            let mut content = good.clone();
            change(&mut content);
            fs::write(&path, content).unwrap();
            Npz::open(&path).unwrap().array("b").unwrap_err().to_string()
        };
        // The uncompressed size, before the member and in the directory.
        let promise = |by: i64| {
            move |content: &mut Vec<u8>| {
                for at in [22, start + 24] {
                    let size = (b_len() as i64 + by) as u32;
                    content[at..at + 4].copy_from_slice(&size.to_le_bytes());
                }
            }
        };
        fn b_len() -> usize {
            array("|u1", &[1000], &[7; 1000]).len()
        }
        let said = refused(&promise(5));
        let words = format!("array b unpacks to {} bytes, {} were promised", b.len(), b.len() + 5);
        assert!(said.ends_with(&words), "{said}");
        let said = refused(&promise(-5));
        let words = format!("array b unpacks to {} bytes, {} were promised", b.len() - 4, b.len() - 5);
        assert!(said.ends_with(&words), "{said}");
        let said = refused(&|content: &mut Vec<u8>| content[40..44].fill(0xff));
        assert!(
            said.contains("array b cannot be unpacked: ") && said.contains("copy the file again"),
            "{said}"
        );
    }

    #[test]
    fn provenance_is_a_string_of_json_or_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.npz");
        let json = |member: Option<Vec<u8>>| {
            let all: Vec<(&str, &[u8])> = member.iter().map(|m| ("said", m.as_slice())).collect();
            fs::write(&path, zipped(&all, CompressionMethod::Stored)).unwrap();
            Npz::open(&path).unwrap().json("said")
        };
        assert_eq!(json(None).unwrap(), None);
        let text = |text: &[u8]| array(&format!("|S{}", text.len()), &[], text);
        // Filled up with zeros or not.
        for said in [&b"{\"a\": 3}"[..], b"{\"a\": 3}\0\0\0"] {
            assert_eq!(json(Some(text(said))).unwrap().unwrap()["a"], 3);
        }
        for (member, words) in [
            (array("|u1", &[2], b"{}"), "array said is |u1 [2], expected a string of bytes"),
            (text(b"[1]"), "array said is no JSON object"),
            (text(b"{\"a\""), "array said is no JSON: "),
            (text(b"\0"), "array said is no JSON: "),
        ] {
            let said = json(Some(member)).unwrap_err().to_string();
            assert!(said.contains("a.npz: ") && said.contains(words), "{said}");
        }
    }
}
