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
#[derive(Clone, Debug, PartialEq)]
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

    /// The spans in order, with neighbours taken together so that there are at most `most`; and how many frames
    /// are in each but the last.
    pub fn spans(&self, most: usize) -> (u64, Vec<Span>) {
        let by = self.spans.len().div_ceil(most.max(1)).max(1);
        let joined = self.spans.chunks(by).map(|c| c[1..].iter().fold(c[0], |a, b| a.join(*b)));
        (self.per_bin * by as u64, joined.collect())
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
        for most in [MOST, 100, 1] {
            let (per, spans) = t.spans(most);
            assert!(spans.len() <= most);
            assert_eq!(spans.iter().map(|s| s.frames).sum::<u64>(), n);
            assert_eq!(spans.iter().map(|s| s.sum).sum::<u64>(), (0..n).map(|k| k % 7).sum::<u64>());
            assert!(spans.iter().rev().skip(1).all(|s| s.frames == per && s.min == 0 && s.max == 6));
        }
    }
}
