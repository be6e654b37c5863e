//! Frames of several ports brought together by number, never by position.

use scheidegg_finder::Result;

use super::port::{Head, Port};

/// All ports of a run, as one series of frames.
#[derive(Debug)]
pub(super) struct Matching {
    pub ports: Vec<Port>,
    /// Number of the last frame that any port had.
    seen: Option<u64>,
    given: bool,
    /// Numbers that no port had since the last whole frame.
    pending_gaps: u64,
    /// Numbers that no port had, between whole frames.
    pub gaps: u64,
    /// Frames that some port lacks.
    pub incomplete: u64,
    /// Sentences about frames that were left out.
    pub warnings: Vec<String>,
    ended: bool,
}

impl Matching {
    pub fn new(ports: Vec<Port>) -> Matching {
        Matching {
            ports,
            seen: None,
            given: false,
            pending_gaps: 0,
            gaps: 0,
            incomplete: 0,
            warnings: Vec::new(),
            ended: false,
        }
    }

    /// Most frames that can still come: those of the port that has the fewest.
    pub fn left(&self) -> u64 {
        if self.ended { 0 } else { self.ports.iter().map(Port::left).min().unwrap_or(0) }
    }

    /// The next frame that every port has: appends its part of every port to `heads` and returns its number.
    ///
    /// # Errors
    /// What is wrong with the files of a port; nothing is appended then, and the same comes when asked again.
    pub fn next(&mut self, heads: &mut Vec<Head>) -> Result<Option<u64>> {
        while !self.ended {
            let (mut lowest, mut highest) = (u64::MAX, 0);
            for k in 0..self.ports.len() {
                match self.ports[k].peek()? {
                    Some(head) => {
                        lowest = lowest.min(head.header.frame);
                        highest = highest.max(head.header.frame);
                    }
                    None => {
                        self.end(k);
                        return Ok(None);
                    }
                }
            }
            self.pending_gaps += self.seen.map_or(0, |seen| lowest.saturating_sub(seen).saturating_sub(1));
            self.seen = Some(self.seen.map_or(lowest, |seen| seen.max(lowest)));
            if lowest == highest {
                heads.extend(self.ports.iter_mut().map(Port::take));
                if self.given {
                    self.gaps += self.pending_gaps;
                }
                (self.given, self.pending_gaps) = (true, 0);
                return Ok(Some(lowest));
            }
            self.leave_out(lowest)?;
        }
        Ok(None)
    }

    /// Goes past a frame that some port lacks.
    fn leave_out(&mut self, number: u64) -> Result<()> {
        let mut lacking = None;
        for port in &mut self.ports {
            match port.peek()? {
                Some(head) if head.header.frame == number => drop(port.take()),
                _ => lacking = lacking.or(Some((port.d, port.path().to_path_buf()))),
            }
        }
        self.incomplete += 1;
        if self.incomplete == 1
            && let Some((d, path)) = lacking
        {
            self.warnings
                .push(format!("{}: frame {number} is missing in port {d}: left out", path.display()));
        }
        Ok(())
    }

    /// Port `k` has no more frames: what the others still have is left out.
    fn end(&mut self, k: usize) {
        self.ended = true;
        let more = self.ports.iter().map(Port::left).max().unwrap_or(0);
        if more > 0 {
            self.incomplete += more;
            let ended = &self.ports[k];
            self.warnings.push(format!(
                "{}: port {} ends {more} frames before others do: those are left out",
                ended.path().display(),
                ended.d
            ));
        }
    }
}
