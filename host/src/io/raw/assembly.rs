//! Ports put together to frames: what raw runs and `.dat` series have in common.

use scheidegg_finder::{Error, FrameBuf, FrameNote, Result};

use super::boards::Map;
use super::decode::Gain;
use super::layout::{Layout, Packets, PortView};
use super::matching::Matching;
use super::port::{self, Head, Port};
use crate::io::decoding::{self, Tally};
use crate::io::{Health, Skipped};

mod image;
#[cfg(test)]
mod tests;

pub(crate) use super::header::Form;
pub(super) use super::port::Subfile;

/// One data file of a series, as it was found.
#[derive(Clone, Debug)]
pub(crate) struct Part(pub(super) Subfile);

impl Part {
    /// A file on disk.
    pub fn on_disk(path: std::path::PathBuf, index: u64) -> Result<Part> {
        let bytes = crate::io::read_at::plain_file(&path)?.len();
        Ok(Part(Subfile { index, path, bytes, memory: None }))
    }

    pub fn index(&self) -> u64 {
        self.0.index
    }
}

/// The frames of some ports: matched by number, lost packets and other gains masked.
#[derive(Debug)]
pub(crate) struct Assembly {
    name: String,
    pub(super) layout: Layout,
    pub(super) matching: Matching,
    gain: Gain,
    keep_going: bool,
    pub(super) packets: Option<Packets>,
    /// Where pixels are that do not lie in rows.
    pub(super) map: Option<Map>,
    /// Whether headers tell of storage cells.
    pub(super) has_cells: bool,
    /// Whether headers tell when a frame was taken.
    pub(super) has_times: bool,
    pub(super) health: Health,
    tally: Tally,
    /// What made reading fail for good.
    stuck: Option<(std::path::PathBuf, String)>,
    /// Work space: the batch that is read, one entry a frame and port.
    heads: Vec<Head>,
    numbers: Vec<u64>,
}

impl Assembly {
    pub(super) fn new(
        name: String,
        layout: Layout,
        ports: Vec<Port>,
        gain: Gain,
        keep_going: bool,
        map: Option<Map>,
    ) -> Assembly {
        Assembly {
            name,
            layout,
            matching: Matching::new(ports),
            gain,
            keep_going,
            packets: None,
            map,
            has_cells: false,
            has_times: false,
            health: Health::default(),
            tally: Tally::default(),
            stuck: None,
            heads: Vec::new(),
            numbers: Vec::new(),
        }
    }

    /// The frames of a `.dat` series.
    pub fn of_dat(
        name: String,
        shape: scheidegg_finder::Shape,
        parts: Vec<Part>,
        gain: Gain,
        keep_going: bool,
    ) -> Result<Assembly, String> {
        let layout = Layout::of_ports(shape, scheidegg_finder::Shape { rows: 1, cols: 1 }, None)?;
        let kind = port::Layout {
            form: Form::Dat,
            image_bytes: shape.pixels() * 2,
            max_frames: 0,
            pass_holes: true,
            keep_going,
        };
        let port = Port::new(0, parts.into_iter().map(|p| p.0).collect(), kind);
        Ok(Assembly::new(name, layout, vec![port], gain, keep_going, None))
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn shape(&self) -> scheidegg_finder::Shape {
        self.layout.shape
    }

    /// Most frames that may still come.
    pub fn left(&self) -> u64 {
        self.matching.left()
    }

    /// Collects the next frames, at most `room`, into the work space, which has no heads of others.
    fn plan(&mut self, room: usize) -> Result<()> {
        self.numbers.clear();
        if let Some((path, what)) = self.stuck.as_ref().filter(|_| room > 0) {
            return Err(Error::file(path, what));
        }
        while self.numbers.len() < room {
            match self.matching.next(&mut self.heads) {
                Ok(Some(number)) => self.numbers.push(number),
                Ok(None) => break,
                // The frames before it are whole; the error comes again with the next call.
                Err(_) if !self.numbers.is_empty() => break,
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    /// Counts what the headers of the first `frames` frames of the batch say.
    fn note_headers(&mut self, frames: usize) {
        let heads = &self.heads[..frames * self.layout.ports.len()];
        if let Some(packets) = self.packets {
            self.health.lost_packets +=
                heads.iter().map(|h| packets.lost(&h.header).packets() as u64).sum::<u64>();
        }
        if self.has_cells {
            for head in heads {
                self.health.storage_cells |= 1 << head.header.storage_cell();
            }
        }
    }

    /// Notes what the headers say of the last `frames` frames of a buffer.
    fn note_frames(&self, into: &mut FrameBuf, frames: usize) {
        let (ports, first) = (self.layout.ports.len(), into.len() - frames);
        for (k, heads) in self.heads.chunks_exact(ports).take(frames).enumerate() {
            let header = &heads[0].header;
            let lost = |p: Packets| heads.iter().map(|h| p.lost(&h.header).packets() as u32).sum();
            let note = FrameNote {
                bunch_id: Some(header.bunch),
                timestamp: self.has_times.then_some(header.timestamp_100ns),
                lost_packets: self.packets.map(lost),
                storage_cell: self.has_cells.then(|| header.storage_cell().into()),
            };
            into.note(first + k, note);
        }
    }

    /// As [`Source::read`](crate::io::Source::read).
    pub fn read(&mut self, into: &mut FrameBuf) -> Result<usize> {
        Error::check_shape(&self.name, self.layout.shape, into.shape())?;
        self.plan(into.capacity() - into.len())?;
        let ports = self.layout.ports.len();
        let mut tally = std::mem::take(&mut self.tally);
        let (count, failed) = decoding::read_frames(into, &self.numbers, &mut tally, |k, pixels| {
            self.frame(self.numbers[k], &self.heads[k * ports..][..ports], pixels)
        });
        self.tally = tally;
        self.note_headers(count);
        self.note_frames(into, count);
        if let Some(e) = &failed {
            // What lies behind it is gone with the batch.
            self.stuck = Some(split(e));
        }
        // Files that are done are closed.
        self.heads.clear();
        decoding::outcome((count, failed))
    }

    /// As [`Source::skip`](crate::io::Source::skip).
    pub fn skip(&mut self, frames: u64) -> Result<Skipped> {
        /// Frames that are gone past together.
        const AT_ONCE: u64 = 1024;
        let mut skipped = Skipped::default();
        loop {
            match self.plan(AT_ONCE.min(frames - skipped.frames) as usize) {
                Ok(()) if self.numbers.is_empty() => break,
                Ok(()) => skipped.add(&self.numbers),
                Err(e) if skipped.frames == 0 => return Err(e),
                Err(_) => break,
            }
            self.note_headers(self.numbers.len());
            self.heads.clear();
        }
        Ok(skipped)
    }

    /// What was amiss so far. `detector_known`: the top bits of its words are gain for sure.
    pub fn health(&self, detector_known: bool) -> Health {
        let mut health = self.health.clone();
        health.gaps = self.matching.gaps;
        health.incomplete_frames =
            self.matching.incomplete + self.matching.ports.iter().map(|p| p.cut_frames).max().unwrap_or(0);
        health.damaged_files = self.matching.ports.iter().map(|p| p.damaged).sum();
        health.repeated_frames = self.matching.repeated();
        health.warnings.extend(self.matching.warnings());
        if health.storage_cells.count_ones() > 1 {
            let cells: Vec<_> =
                (0..16).filter(|c| health.storage_cells >> c & 1 == 1).map(|c| c.to_string()).collect();
            health.warnings.push(format!(
                "{}: frames of the storage cells {} are mixed, each of which has a pedestal of its own: take frames of one \
                 cell only",
                self.name,
                cells.join(", ")
            ));
        }
        let pixels = self.layout.shape.pixels();
        self.tally.report(&mut health, &self.name, pixels, detector_known, self.packets.is_some());
        health
    }

    /// A port's part of the frame.
    fn view(&self, k: usize) -> &PortView {
        &self.layout.ports[k]
    }
}

/// An error's file and what it says.
fn split(e: &Error) -> (std::path::PathBuf, String) {
    match e {
        Error::File { path, what } => (path.clone(), what.clone()),
        Error::Io { path, source } => (path.clone(), source.to_string()),
        other => (std::path::PathBuf::new(), other.to_string()),
    }
}
