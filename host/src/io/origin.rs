//! What stands beside a result: `NAME.json` tells where the result `NAME` comes from, and the CRC-32 of its bytes.

use std::path::{Path, PathBuf};

use scheidegg_finder::{ClusterSize, Error, Payload, Result};
use serde_json::Value;

use super::checked::Watch;

/// The file beside a result.
#[derive(Clone, Debug)]
pub(crate) struct Beside {
    path: PathBuf,
    /// All that it says.
    pub said: Value,
    /// Length and CRC-32 of the result.
    content: Option<(u64, u32)>,
}

impl Beside {
    /// The file that stands beside a result, or would.
    pub fn path_of(result: &Path) -> PathBuf {
        let mut name = result.as_os_str().to_owned();
        name.push(".json");
        name.into()
    }

    /// What stands beside a result, if there is something.
    ///
    /// # Errors
    /// [`Error::File`] for a file that is no JSON object: it is damaged, or no run has written it.
    pub fn of(result: &Path) -> Result<Option<Beside>> {
        let path = Self::path_of(result);
        let text = match std::fs::read(&path) {
            Ok(text) => text,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(Error::io(&path, e)),
        };
        let said: Value = match serde_json::from_slice(&text) {
            Ok(Value::Object(said)) => Value::Object(said),
            wrong => {
                let why = wrong.err().map_or("no object".to_string(), |e| e.to_string());
                return Err(Error::file(
                    path,
                    format!(
                        "is not what a run writes beside its result ({why}): remove it to read {} without its checksum",
                        result.display()
                    ),
                ));
            }
        };
        let number = |key: &str| said["content"][key].as_u64();
        let crc = number("crc32").and_then(|n| u32::try_from(n).ok());
        let content = number("bytes").zip(crc);
        Ok(Some(Beside { path, said, content }))
    }

    /// The window and the type of the values.
    pub fn kind(&self) -> (Option<ClusterSize>, Option<Payload>) {
        let word = |key: &str| self.said["parameters"][key].as_str();
        (word("size").and_then(|s| s.parse().ok()), word("payload").and_then(|s| s.parse().ok()))
    }

    /// The CRC-32 of the result.
    pub fn crc(&self) -> Option<u32> {
        self.content.map(|c| c.1)
    }

    /// What the bytes of the result must come to.
    pub fn watch(&self) -> Option<Watch> {
        self.crc().map(|crc| Watch::new(crc, 0))
    }

    /// Refuses a result of another length.
    pub fn check_length(&self, result: &Path, bytes: u64) -> Result<()> {
        match self.content {
            Some((expected, _)) if expected != bytes => Err(Error::file(
                result,
                format!(
                    "has {bytes} bytes, {} beside it speaks of {expected}: it is damaged or another result (copy both \
                     again, or remove the .json file to read what is there)",
                    self.path.display()
                ),
            )),
            _ => Ok(()),
        }
    }

    /// Sentences on what it says otherwise than was found. Frames are known where a file has those without clusters.
    pub fn doubts(
        &self,
        size: ClusterSize,
        payload: Payload,
        frames: Option<u64>,
        clusters: Option<u64>,
    ) -> Vec<String> {
        let (said_size, said_payload) = self.kind();
        let number = |key: &str| self.said[key].as_u64();
        let differs = |what: &str, said: Option<String>, found: Option<String>| match (said, found) {
            (Some(said), Some(found)) if said != found => Some(format!(
                "{} speaks of {said} {what}, found were {found}: it may belong to another run",
                self.path.display()
            )),
            _ => None,
        };
        let text = |n: u64| n.to_string();
        let window = |s: ClusterSize| s.to_string();
        let word = |p: Payload| p.to_string();
        [
            differs("windows", said_size.map(window), Some(window(size))),
            differs("values", said_payload.map(word), Some(word(payload))),
            differs("frames", number("frames").map(text), frames.map(text)),
            differs("clusters", number("clusters").map(text), clusters.map(text)),
        ]
        .into_iter()
        .flatten()
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn beside(text: &str) -> Result<Option<Beside>> {
        let dir = tempfile::tempdir().unwrap();
        let result = dir.path().join("a.clust");
        std::fs::write(Beside::path_of(&result), text).unwrap();
        Beside::of(&result)
    }

    fn said(text: &str) -> Beside {
        Beside { path: "a.clust.json".into(), ..beside(text).unwrap().unwrap() }
    }

    #[test]
    fn what_stands_beside_a_result_is_an_object_or_refused() {
        assert_eq!(Beside::path_of(Path::new("x/a.clust")), Path::new("x/a.clust.json"));
        assert!(Beside::of(Path::new("no/such.clust")).unwrap().is_none());
        for (text, why) in [("[1]", "(no object)"), ("{", "(EOF while parsing"), ("", "(EOF while parsing")] {
            let refused = beside(text).unwrap_err().to_string();
            assert!(
                refused.contains(&format!("a.clust.json: is not what a run writes beside its result {why}")),
                "{refused}"
            );
            assert!(refused.ends_with("a.clust without its checksum"), "{refused}");
        }
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("a.clust.json")).unwrap();
        assert!(matches!(Beside::of(&dir.path().join("a.clust")), Err(Error::Io { .. })));
    }

    #[test]
    fn lengths_and_checksums_are_known_together() {
        for (content, crc) in [
            (r#"{"bytes": 7, "crc32": 5}"#, Some(5)),
            (r#"{"bytes": 7, "crc32": 4294967296}"#, None),
            (r#"{"bytes": 7}"#, None),
            (r#"{"crc32": 5}"#, None),
        ] {
            let b = said(&format!(r#"{{"content": {content}}}"#));
            assert_eq!((b.crc(), b.watch().is_some()), (crc, crc.is_some()));
            assert!(b.check_length(Path::new("a.clust"), 7).is_ok());
            let other = b.check_length(Path::new("a.clust"), 8).map_err(|e| e.to_string());
            let what = "a.clust: has 8 bytes, a.clust.json beside it speaks of 7: it is damaged or another result (copy both \
                        again, or remove the .json file to read what is there)";
            assert_eq!(other, if crc.is_some() { Err(what.to_string()) } else { Ok(()) });
        }
    }

    #[test]
    fn what_differs_is_doubted() {
        let size = |n| ClusterSize::square(n).unwrap();
        let b = said(r#"{"frames": 4, "clusters": 9, "parameters": {"size": "3x3", "payload": "i16"}}"#);
        assert_eq!(b.kind(), (Some(size(3)), Some(Payload::I16)));
        assert!(b.doubts(size(3), Payload::I16, Some(4), Some(9)).is_empty());
        assert!(b.doubts(size(3), Payload::I16, None, None).is_empty());
        let doubt = |said: &str, what: &str, found: &str| {
            format!("a.clust.json speaks of {said} {what}, found were {found}: it may belong to another run")
        };
        let all = b.doubts(size(5), Payload::F32, Some(3), Some(8));
        let expected = [
            doubt("3x3", "windows", "5x5"),
            doubt("i16", "values", "f32"),
            doubt("4", "frames", "3"),
            doubt("9", "clusters", "8"),
        ];
        assert_eq!(all, expected);
        let bare = said("{}");
        assert_eq!((bare.kind(), bare.crc()), ((None, None), None));
        assert!(bare.doubts(size(5), Payload::F32, Some(3), Some(8)).is_empty());
    }
}
