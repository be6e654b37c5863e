//! Result files: what every kind of them shares.

use std::path::Path;

use scheidegg_finder::{ClusterSize, ClustersBuf, Error, Payload, Result, Shape};

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

    /// Appends at most `frames` frames to the buffer; returns how many there were, 0 at the end. Files of columns hold
    /// frames that have clusters only.
    ///
    /// # Errors
    /// Whatever is wrong with the file. Frames appended before the error are whole.
    fn read(&mut self, into: &mut ClustersBuf, frames: usize) -> Result<usize>;
}

/// `1 byte`, `2 bytes`.
pub(crate) fn whole_range(n: u64, unit: &str) -> String {
    if n == 1 { format!("1 {unit}") } else { format!("{n} {unit}s") }
}

/// The error for clusters of another kind than the file's.
pub(crate) fn check_kind(
    path: &Path,
    expected: (ClusterSize, Payload),
    got: (ClusterSize, Payload),
) -> Result<()> {
    if expected != got {
        return Err(Error::file(
            path,
            format!("was started for {} of {}, got {} of {}", expected.0, expected.1, got.0, got.1),
        ));
    }
    Ok(())
}

/// The error for a sink that was finished before.
pub(crate) fn written_after_end(path: &Path) -> Error {
    Error::file(path, "is finished: nothing can be written to it any more")
}
