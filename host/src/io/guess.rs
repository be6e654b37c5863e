//! Which window and type a cluster file may have: it does not say them itself.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;

use scheidegg_finder::{ClusterSize, Error, Payload, Result, record_bytes};

use super::Results;
use super::clust::{ClustReader, FRAME_HEADER};
use super::looks::Looks;

/// The windows and types that a cluster file may have: its frames end where the file ends, and the values look like those of
/// pixels. Of square windows where there are such, else of oblong ones. What is known already is not guessed. Nothing
/// for a file without clusters, which may have any.
///
/// # Errors
/// [`Error::Io`].
pub fn cluster_file_kinds(
    path: &Path,
    size: Option<ClusterSize>,
    payload: Option<Payload>,
) -> Result<Vec<(ClusterSize, Payload)>> {
    let all = (2..=15).flat_map(|h| (2..=15).map(move |w| ClusterSize { w, h }));
    let (squares, oblong): (Vec<_>, Vec<_>) =
        all.filter(|s| size.is_none_or(|told| told == *s)).partition(|s| s.w == s.h);
    let payloads = [Payload::I32, Payload::I16, Payload::F16, Payload::F32];
    // Whether frames of such records end with the file, by the bytes of a record.
    let mut known = BTreeMap::new();
    for sizes in [squares, oblong] {
        let mut fit = Vec::new();
        for size in sizes {
            for payload in payloads.into_iter().filter(|p| payload.is_none_or(|told| told == *p)) {
                let each = record_bytes(size, payload) as u64;
                let ends = match known.get(&each) {
                    Some(ends) => *ends,
                    None => {
                        let ends = ends_with_the_file(path, each).map_err(|e| Error::io(path, e))?;
                        known.insert(each, ends);
                        ends
                    }
                };
                if ends && looks_right(path, size, payload)? {
                    fit.push((size, payload));
                }
            }
        }
        if !fit.is_empty() {
            return Ok(fit);
        }
    }
    Ok(Vec::new())
}

/// Goes from frame to frame: whether the last one ends with the file, and there is a cluster.
fn ends_with_the_file(path: &Path, record: u64) -> std::io::Result<bool> {
    let file = File::open(path)?;
    let bytes = file.metadata()?.len();
    let mut file = BufReader::new(file);
    let (mut at, mut clusters) = (0, 0);
    while at < bytes {
        let mut header = [0; FRAME_HEADER];
        if bytes - at < header.len() as u64 {
            return Ok(false);
        }
        file.read_exact(&mut header)?;
        let count = u32::from_le_bytes([header[4], header[5], header[6], header[7]]);
        let records = u64::from(count) * record;
        at += header.len() as u64;
        if bytes - at < records {
            return Ok(false);
        }
        file.seek_relative(records as i64)?;
        (at, clusters) = (at + records, clusters + u64::from(count));
    }
    Ok(clusters > 0)
}

/// Whether the first clusters could be of this kind.
fn looks_right(path: &Path, size: ClusterSize, payload: Payload) -> Result<bool> {
    let mut reader = ClustReader::open_alone(path, size, payload)?;
    let (mut buf, mut looks) = (reader.buffer(), Looks::new(size, payload));
    while !looks.is_full() && reader.read_frame(&mut buf)? {
        buf.view().iter().for_each(|c| looks.take(&c));
        buf.clear();
    }
    Ok(looks.doubt().is_none())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Frames of 3x3 `i32`, of a cluster each whose centre is this, between neighbours of 50; none without.
    fn kinds(centres: &[Option<i32>]) -> Vec<(ClusterSize, Payload)> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.clust");
        let mut bytes = Vec::new();
        for centre in centres {
            bytes.extend([1, 0, 0, 0, u8::from(centre.is_some()), 0, 0, 0]);
            let Some(centre) = centre else { continue };
            bytes.extend([1, 0, 1, 0]);
            bytes.extend([50, 50, 50, 50, *centre, 50, 50, 50, 50].map(i32::to_le_bytes).concat());
        }
        std::fs::write(&path, bytes).unwrap();
        cluster_file_kinds(&path, None, None).unwrap()
    }

    #[test]
    fn every_cluster_is_looked_at_once_and_the_last_frame_may_have_none() {
        let usual = [(ClusterSize { w: 3, h: 3 }, Payload::I32)];
        assert_eq!(kinds(&[Some(900), None]), usual);
        assert_eq!(kinds(&[None, Some(900), None, None]), usual);
        // Two of five centres are not the largest value: few enough, wherever they come.
        let some = [Some(9), Some(9), Some(900), Some(900), Some(900)];
        assert_eq!(kinds(&some), usual);
        assert!(!kinds(&[Some(9), Some(9), Some(900)]).contains(&usual[0]));
        assert_eq!((kinds(&[]), kinds(&[None])), (vec![], vec![]));
    }
}
