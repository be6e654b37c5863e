//! The provenance of a result that has no room for it, in a file beside it.

use std::fs;
use std::path::{Path, PathBuf};

use crc32fast::Hasher;
use scheidegg_finder::Result;

use super::output::Output;
use super::{Kind, Written};
use crate::provenance::{Content, Provenance};

/// Where the provenance of a result stands, for those that do not hold it themselves: `NAME.clust.json`, `NAME.npy.json`,
/// `NAME.csv.json`.
pub fn provenance_beside(result: &Path) -> Option<PathBuf> {
    let extension = result.extension()?.to_str()?.to_ascii_lowercase();
    if !["clust", "npy", "csv"].contains(&extension.as_str()) {
        return None;
    }
    let mut name = result.file_name()?.to_os_string();
    name.push(".json");
    Some(result.with_file_name(name))
}

/// The bytes of a file as they are written: their CRC-32 and how many they are. A start that is known last is put in front
/// at the end.
#[derive(Clone, Debug, Default)]
pub(super) struct Sum {
    hasher: Hasher,
    bytes: u64,
}

impl Sum {
    pub fn add(&mut self, bytes: &[u8]) {
        self.hasher.update(bytes);
        self.bytes += bytes.len() as u64;
    }

    /// With `start` before all that was added.
    pub fn behind(&self, start: &[u8]) -> Content {
        let mut whole = Hasher::new();
        whole.update(start);
        whole.combine(&self.hasher);
        Content { bytes: start.len() as u64 + self.bytes, crc32: whole.finalize() }
    }
}

/// Gives a result its name, and its provenance one beside it. What stood there before goes first, so that whoever is killed in
/// between leaves no provenance of another result. A result that ends early gets its provenance first where its name is free:
/// it does not say itself that it is a part. A FIFO or a device has nothing beside it.
pub(super) fn finish(out: Output, content: Content, provenance: &Provenance) -> Result<Written> {
    if out.is_stream() {
        return Ok(Written::at(out.finish()?));
    }
    let told = Provenance { content: Some(content), ..provenance.clone() };
    let wanted = out.path().to_path_buf();
    if Kind::is_complete(provenance) {
        if let Some(old) = provenance_beside(&wanted) {
            // Where there is none, or it cannot be removed, it is replaced below.
            let _ = fs::remove_file(old);
        }
        let path = out.finish()?;
        let beside = put(&path, &told)?;
        return Ok(Written { paths: [path].into_iter().chain(beside).collect() });
    }
    let early = if wanted.exists() { None } else { put(&wanted, &told)? };
    let path = out.finish_part()?;
    let beside = match early {
        Some(early) if path == wanted => Some(early),
        _ => put(&path, &told)?,
    };
    Ok(Written { paths: [path].into_iter().chain(beside).collect() })
}

/// Writes the provenance of a result, where it has a place beside that.
pub(super) fn put(result: &Path, provenance: &Provenance) -> Result<Option<PathBuf>> {
    let Some(beside) = provenance_beside(result) else { return Ok(None) };
    let mut json = Output::create(&beside)?;
    json.write(provenance.to_json().as_bytes())?;
    json.write(b"\n")?;
    json.finish().map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provenance::{Ending, How};

    #[test]
    fn a_sum_is_that_of_the_whole_file() {
        let all: Vec<u8> = (0..1000u32).map(|i| (i * i % 251) as u8).collect();
        for start in [0, 1, 128, 1000] {
            let mut sum = Sum::default();
            all[start..].chunks(77).for_each(|some| sum.add(some));
            let whole = Content { bytes: 1000, crc32: crc32fast::hash(&all) };
            assert_eq!(sum.behind(&all[..start]), whole, "from byte {start}");
        }
    }

    #[test]
    fn the_place_beside_a_result_tells_its_kind() {
        let beside = |p: &str| provenance_beside(Path::new(p)).map(|p| p.display().to_string());
        assert_eq!(beside("a/b.clust").as_deref(), Some("a/b.clust.json"));
        assert_eq!(beside("b.NPY").as_deref(), Some("b.NPY.json"));
        assert_eq!(beside("b.npz"), None);
        assert_eq!(beside("clust"), None);
    }

    #[test]
    fn a_result_and_its_provenance_stand_beside_each_other() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.clust");
        let mut out = Output::create(&path).unwrap();
        out.write(b"123456789").unwrap();
        let mut sum = Sum::default();
        sum.add(b"123456789");
        let known = Provenance { frames: 7, ..Provenance::default() };
        let written = finish(out, sum.behind(b""), &known).unwrap();
        assert_eq!(written.paths, [path.clone(), dir.path().join("a.clust.json")]);
        let told = Provenance::from_json(&std::fs::read_to_string(&written.paths[1]).unwrap()).unwrap();
        // The check value of this CRC.
        assert_eq!(told.content, Some(Content { bytes: 9, crc32: 0xcbf4_3926 }));
        assert_eq!(told.frames, 7);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 2);
    }
    fn told_by(path: &Path) -> Provenance {
        Provenance::from_json(&std::fs::read_to_string(path).unwrap()).unwrap()
    }

    /// A result that ends early takes no name that is taken, of its own or beside it, and what tells of it is its own.
    #[test]
    fn a_part_and_its_provenance_stand_where_nothing_stood() {
        let content = Content { bytes: 4, crc32: 5 };
        for (how, taken, name) in [
            (How::Stopped, false, "a.npy"),
            (How::Stopped, true, "a.partial.npy"),
            (How::Fault, true, "a.partial.npy"),
            (How::Complete, true, "a.npy"),
            (How::Complete, false, "a.npy"),
            (How::Unknown, true, "a.npy"),
        ] {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("a.npy");
            let old = Provenance { host: "before".into(), ..Provenance::default() };
            if taken {
                std::fs::write(&path, b"before").unwrap();
                std::fs::write(dir.path().join("a.npy.json"), old.to_json()).unwrap();
            }
            let mut out = Output::create(&path).unwrap();
            out.write(b"new!").unwrap();
            let ended = Ending { how, why: None };
            let known = Provenance { frames: 7, host: "now".into(), ended, ..Provenance::default() };
            let written = finish(out, content.clone(), &known).unwrap();
            let at = dir.path().join(name);
            let beside = dir.path().join(format!("{name}.json"));
            assert_eq!(written.paths, [at.clone(), beside.clone()], "{how:?}");
            assert_eq!(std::fs::read(&at).unwrap(), b"new!");
            assert!(std::fs::read(&beside).unwrap().ends_with(b"}\n"));
            assert_eq!(told_by(&beside), Provenance { content: Some(content.clone()), ..known });
            let kept = name != "a.npy";
            if kept {
                assert_eq!(
                    (std::fs::read(&path).unwrap(), told_by(&dir.path().join("a.npy.json"))),
                    (b"before".to_vec(), old)
                );
            }
            assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), if kept { 4 } else { 2 });
        }
    }

    #[test]
    fn a_result_that_holds_its_provenance_and_a_stream_have_nothing_beside_them() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.npz");
        let out = Output::create(&path).unwrap();
        let written = finish(out, Content::default(), &Provenance::default()).unwrap();
        assert_eq!(written.paths, [path]);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
        #[cfg(unix)]
        {
            let null = Path::new("/dev/null");
            let out = Output::create_or_stream(null).unwrap();
            let written = finish(out, Content::default(), &Provenance::default()).unwrap();
            assert_eq!(written.paths, [null]);
        }
    }
}
