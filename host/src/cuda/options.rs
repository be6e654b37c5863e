//! What a user may choose about how the GPU works. Nothing here changes a result.

use std::fmt;
use std::str::FromStr;

use scheidegg_finder::{Error, Result};

/// How results come from the GPU to the host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Output {
    /// The kernel that puts clusters in order writes them straight into page-locked memory of the host. Its blocks
    /// wait for the bus and keep the next chunk's from their multiprocessors: slower on the GPU measured.
    Mapped,
    /// They are put in order on the GPU and fetched by a copy engine.
    #[default]
    Copied,
}

impl Output {
    /// Both ways.
    pub const ALL: [Output; 2] = [Output::Mapped, Output::Copied];
}

impl fmt::Display for Output {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Output::Mapped => "mapped",
            Output::Copied => "copied",
        })
    }
}

impl FromStr for Output {
    type Err = Error;

    fn from_str(s: &str) -> Result<Self> {
        Self::ALL
            .into_iter()
            .find(|o| o.to_string() == s)
            .ok_or_else(|| Error::param("output", s, "mapped or copied"))
    }
}

/// How the GPU works. Results do not depend on any of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// GPUs to use, by number. Lane `l` of a run is done by the `l mod n`-th of them: with one lane only the first
    /// one works. Default `[0]`.
    pub devices: Vec<usize>,
    /// Frames of a chunk, which is also the largest batch. None: as many as fit 40 MiB, less where their clusters
    /// need more room than is sensible.
    pub chunk_frames: Option<usize>,
    /// Chunks in flight. Default 6.
    pub slots: usize,
    /// Frames that one launch does, without blocks that wait for each other. None: where the whole frame fits the GPU at
    /// once, all of a chunk, by blocks that exchange what they need of each other; otherwise estimated from shape and
    /// window.
    pub frames_per_launch: Option<usize>,
    /// Clusters a frame that there is room for at first. None: one in 40 pixels. What does not fit is done again
    /// with more room, so that this is a matter of speed alone.
    pub capacity: Option<usize>,
    /// How results reach the host.
    pub output: Output,
    /// Whether the launches of a chunk go to the GPU as one graph. Default yes.
    pub graphs: bool,
    /// Whether every chunk is timed on the GPU ([`CudaFinder::timing`](super::CudaFinder::timing)). Default no; it
    /// costs nothing then.
    pub timing: bool,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            devices: vec![0],
            chunk_frames: None,
            slots: 6,
            frames_per_launch: None,
            capacity: None,
            output: Output::default(),
            graphs: true,
            timing: false,
        }
    }
}

impl Options {
    /// Checks every value against its range.
    ///
    /// # Errors
    /// [`Error::Param`] for the first that does not fit.
    pub fn validate(&self) -> Result<()> {
        let within = |name: &str, value: Option<usize>, most: usize| match value {
            Some(v) if v == 0 || v > most => Err(Error::param(name, v, format!("1 to {most}"))),
            _ => Ok(()),
        };
        within("chunk_frames", self.chunk_frames, 1 << 16)?;
        within("slots", Some(self.slots), 64)?;
        within("frames_per_launch", self.frames_per_launch, 1024)?;
        within("capacity", self.capacity, 1 << 30)?;
        if self.devices.is_empty() {
            return Err(Error::param("devices", "none", "at least one GPU number"));
        }
        let mut seen = self.devices.clone();
        seen.sort_unstable();
        if let Some(twice) = seen.windows(2).find(|w| w[0] == w[1]) {
            return Err(Error::param("devices", format!("GPU {} twice", twice[0]), "each GPU once"));
        }
        Ok(())
    }
}

/// How long a chunk took on the GPU, in seconds by the GPU's own clock.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ChunkTiming {
    /// Frames of the chunk.
    pub frames: usize,
    /// Copy of the frames to the GPU.
    pub upload_s: f64,
    /// Finding clusters and updating the pedestal.
    pub find_s: f64,
    /// Putting clusters in order and bringing them to the host.
    pub output_s: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_outside_their_range_are_named() {
        let refused = |o: Options| o.validate().unwrap_err().to_string();
        let d = Options::default;
        d().validate().unwrap();
        assert!(refused(Options { chunk_frames: Some(0), ..d() }).starts_with("chunk_frames = 0"));
        assert!(refused(Options { slots: 0, ..d() }).starts_with("slots = 0"));
        assert!(refused(Options { capacity: Some(0), ..d() }).starts_with("capacity = 0"));
        assert!(refused(Options { devices: vec![], ..d() }).contains("at least one"));
        assert!(refused(Options { devices: vec![1, 0, 1], ..d() }).contains("GPU 1 twice"));
        assert_eq!("copied".parse::<Output>().unwrap(), Output::Copied);
        assert!("fast".parse::<Output>().is_err());
    }
}
