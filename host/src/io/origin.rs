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
