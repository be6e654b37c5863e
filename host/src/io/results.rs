//! Result files: what every kind of them shares.

use std::path::PathBuf;

use scheidegg_finder::{ClusterSize, Clusters, ClustersBuf, Error, Payload, Result, Shape};
use serde_json::Value;

use crate::provenance::{How, Provenance};

/// Clusters read back from a file, frame by frame.
pub trait Results: Send {
    /// The file's path.
    fn name(&self) -> String;

    /// The window of the clusters.
    fn size(&self) -> ClusterSize;

    /// The type of the values.
    fn payload(&self) -> Payload;

    /// A buffer for these clusters. Result files do not say the shape of the frames: it is the largest there is.
    fn buffer(&self) -> ClustersBuf {
        let shape = Shape { rows: Shape::MAX_SIDE, cols: Shape::MAX_SIDE };
        ClustersBuf::new(shape, self.size(), self.payload())
    }

    /// Appends the next frame to the buffer; false at the end of the file. Files of columns hold frames that have
    /// clusters only.
    ///
    /// # Errors
    /// Whatever is wrong with the file.
    fn read_frame(&mut self, into: &mut ClustersBuf) -> Result<bool>;

    /// Appends at most `frames` frames to the buffer; returns how many there were, 0 at the end.
    ///
    /// # Errors
    /// As [`Results::read_frame`]. Frames appended before the error are whole.
    fn read(&mut self, into: &mut ClustersBuf, frames: usize) -> Result<usize> {
        for k in 0..frames {
            if !self.read_frame(into)? {
                return Ok(k);
            }
        }
        Ok(frames)
    }

    /// What was noticed so far that is no error, in sentences: numbers that were read as something else, values that look
    /// like another type.
    fn notes(&self) -> Vec<String> {
        Vec::new()
    }

    /// Whether the bytes read so far are those that were written.
    fn checksum(&self) -> Checksum {
        Checksum::None
    }

    /// Where the result comes from, as the file or the one beside it says: a JSON object.
    fn provenance(&self) -> Option<&Value> {
        None
    }
}

/// Whether the bytes of a result are those that were written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checksum {
    /// Nobody has said what they must come to.
    None,
    /// There is a checksum, and it is looked at when the last frame is read.
    Unread,
    /// They are. Others are an error.
    Agrees,
}

/// What a file of clusters was started for.
#[derive(Clone, Debug)]
pub(crate) struct Kind {
    pub path: PathBuf,
    pub size: ClusterSize,
    pub payload: Payload,
}

impl Kind {
    /// The path in words.
    pub fn name(&self) -> String {
        self.path.display().to_string()
    }

    /// Refuses clusters of another kind.
    pub fn check(&self, batch: &Clusters<'_>) -> Result<()> {
        if (batch.size(), batch.payload()) != (self.size, self.payload) {
            let (size, payload) = (batch.size(), batch.payload());
            let what = format!("was started for {} of {}, got {size} of {payload}", self.size, self.payload);
            return Err(Error::file(&self.path, what));
        }
        Ok(())
    }

    /// Whether a result has all that it was to have, so far as anybody has said.
    pub fn is_complete(provenance: &Provenance) -> bool {
        !matches!(provenance.ended.how, How::Stopped | How::Fault | How::NotWritten)
    }

    /// Whether a result of a run ends before its first frame: then nothing is left, and what had its name stays. A provenance
    /// that tells no inputs is that of no run.
    pub fn is_nothing(provenance: &Provenance) -> bool {
        let of_run = provenance.inputs.iter().any(|input| input.role == "data");
        provenance.frames == 0 && (of_run || !Self::is_complete(provenance))
    }

    /// The error for a sink that was finished before.
    pub fn ended(&self) -> Error {
        Error::file(&self.path, "is finished: nothing can be written to it any more")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provenance::{Ending, Input};

    #[test]
    fn a_result_is_complete_unless_somebody_says_otherwise_and_nothing_without_frames_of_a_run() {
        for (how, complete) in [
            (How::Complete, true),
            (How::Unknown, true),
            (How::Stopped, false),
            (How::Fault, false),
            (How::NotWritten, false),
        ] {
            for (frames, roles) in
                [(0, &[][..]), (1, &[]), (0, &["dark"]), (0, &["dark", "data"]), (2, &["data"])]
            {
                let input = |role: &&str| Input { role: role.to_string(), ..Input::default() };
                let inputs = roles.iter().map(input).collect();
                let told =
                    Provenance { frames, inputs, ended: Ending { how, why: None }, ..Provenance::default() };
                assert_eq!(Kind::is_complete(&told), complete, "{how:?}");
                let nothing = frames == 0 && (roles.contains(&"data") || !complete);
                assert_eq!(Kind::is_nothing(&told), nothing, "{how:?}, {frames} frames of {roles:?}");
            }
        }
        let path = PathBuf::from("a/b.npz");
        let kind = Kind { path, size: ClusterSize { w: 3, h: 3 }, payload: Payload::I32 };
        assert_eq!(kind.name(), "a/b.npz");
    }
}
