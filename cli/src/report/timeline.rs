//! Clusters per frame over the run, in bounded memory.

/// Most bins kept; beyond, neighbours are merged.
const MOST: usize = 2048;

/// Consecutive frames taken together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Span {
    /// Frames.
    pub frames: u64,
    /// Clusters in all of them.
    pub sum: u64,
    /// Clusters in the frame with the fewest.
    pub min: u64,
    /// Clusters in the frame with the most.
    pub max: u64,
}

/// Clusters per frame over the run.
#[derive(Clone, Debug)]
pub struct Timeline {
    per_bin: u64,
    spans: Vec<Span>,
}

impl Default for Timeline {
    fn default() -> Self {
        Timeline { per_bin: 1, spans: Vec::new() }
    }
}

impl Span {
    fn join(self, other: Span) -> Span {
        Span {
            frames: self.frames + other.frames,
            sum: self.sum + other.sum,
            min: self.min.min(other.min),
            max: self.max.max(other.max),
        }
    }
}

impl Timeline {
    /// The next frame has this many clusters.
    pub fn push(&mut self, clusters: u64) {
        let one = Span { frames: 1, sum: clusters, min: clusters, max: clusters };
        match self.spans.last_mut() {
            Some(last) if last.frames < self.per_bin => *last = last.join(one),
            _ => self.spans.push(one),
        }
        if self.spans.len() > MOST {
            self.per_bin *= 2;
            self.spans = self.spans.chunks(2).map(|c| c[1..].iter().fold(c[0], |a, b| a.join(*b))).collect();
        }
    }

    /// Frames taken together in a span; the last one may have fewer.
    pub fn per_bin(&self) -> u64 {
        self.per_bin
    }

    /// The spans in order.
    pub fn spans(&self) -> &[Span] {
        &self.spans
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merging_loses_no_frame() {
        let mut t = Timeline::default();
        let n = 100_000u64;
        (0..n).for_each(|k| t.push(k % 7));
        assert!(t.spans().len() <= MOST && t.per_bin().is_power_of_two());
        assert_eq!(t.spans().iter().map(|s| s.frames).sum::<u64>(), n);
        assert_eq!(t.spans().iter().map(|s| s.sum).sum::<u64>(), (0..n).map(|k| k % 7).sum::<u64>());
        assert!(t.spans().iter().rev().skip(1).all(|s| s.frames == t.per_bin() && s.min == 0 && s.max == 6));
    }
}
