//! Clusters per frame over the run, in bounded memory.

/// Most spans kept; beyond, neighbours are joined.
const MOST: usize = 2048;

/// Frames with consecutive numbers taken together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Span {
    /// Frames of the run before these.
    pub before: u64,
    /// Number of the first frame.
    pub first: u64,
    /// Number of the last frame.
    pub last: u64,
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
    /// Frame numbers that a span may reach over.
    width: u64,
    spans: Vec<Span>,
    /// Frames seen.
    frames: u64,
    /// Smallest step from one frame's number to the next.
    stride: Option<u64>,
    /// How often a number was not above the one before.
    restarts: u64,
}

impl Default for Timeline {
    fn default() -> Self {
        Timeline { width: 1, spans: Vec::new(), frames: 0, stride: None, restarts: 0 }
    }
}

impl Span {
    /// Clusters per frame.
    pub fn mean(&self) -> f64 {
        self.sum as f64 / self.frames as f64
    }

    /// The two as one if their numbers ascend and reach over no more than `width`. The largest width takes whatever comes.
    fn join(self, other: Span, width: u64) -> Option<Span> {
        let ascending = other.first > self.last && other.last >= self.first;
        let near = ascending && other.last - self.first < width;
        (near || width == u64::MAX).then(|| Span {
            before: self.before,
            first: self.first,
            last: other.last,
            frames: self.frames + other.frames,
            sum: self.sum + other.sum,
            min: self.min.min(other.min),
            max: self.max.max(other.max),
        })
    }
}

impl Timeline {
    /// The next frame has this number and so many clusters.
    pub fn push(&mut self, number: u64, clusters: u64) {
        let span = Span {
            before: self.frames,
            first: number,
            last: number,
            frames: 1,
            sum: clusters,
            min: clusters,
            max: clusters,
        };
        self.frames += 1;
        let Some(last) = self.spans.last_mut() else {
            self.spans.push(span);
            return;
        };
        match number.checked_sub(last.last).filter(|step| *step > 0) {
            Some(step) => self.stride = Some(self.stride.map_or(step, |s| s.min(step))),
            None => self.restarts += 1,
        }
        match last.join(span, self.width) {
            Some(joined) => *last = joined,
            None => self.spans.push(span),
        }
        while self.spans.len() > MOST {
            self.width = self.width.saturating_mul(2);
            self.spans = joined(&self.spans, self.width);
        }
    }

    /// Frames seen.
    pub fn frames(&self) -> u64 {
        self.frames
    }

    /// The usual step from one frame's number to the next.
    pub fn stride(&self) -> u64 {
        self.stride.unwrap_or(1)
    }

    /// How often a number was not above the one before: the numbers then say nothing of the order.
    pub fn restarts(&self) -> u64 {
        self.restarts
    }

    /// Numbers between the first and the last that no frame has.
    pub fn missing(&self) -> u64 {
        match (self.spans.first(), self.spans.last()) {
            (Some(a), Some(b)) if self.restarts == 0 => {
                ((b.last - a.first) / self.stride()).saturating_add(1).saturating_sub(self.frames)
            }
            _ => 0,
        }
    }

    /// The spans in order, with neighbours taken together so that there are at most `most`.
    pub fn spans(&self, most: usize) -> Vec<Span> {
        let (mut spans, mut width) = (self.spans.clone(), self.width);
        while spans.len() > most.max(1) {
            // A little at a time: the picture is to show as many as it can.
            width = width.saturating_add((width / 4).max(1));
            spans = joined(&self.spans, width);
        }
        spans
    }
}

fn joined(spans: &[Span], width: u64) -> Vec<Span> {
    let mut out: Vec<Span> = Vec::new();
    for span in spans {
        match out.last_mut().and_then(|last| Some((last.join(*span, width)?, last))) {
            Some((both, last)) => *last = both,
            None => out.push(*span),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What no joining may lose: every frame, in order.
    fn check(t: &Timeline, frames: &[(u64, u64)]) {
        for most in [MOST, 100, 1] {
            let spans = t.spans(most);
            assert!(spans.len() <= most, "{} of {most}", spans.len());
            assert_eq!(spans.iter().map(|s| s.frames).sum::<u64>(), frames.len() as u64);
            for s in spans {
                let of = &frames[s.before as usize..][..s.frames as usize];
                let counts = of.iter().map(|f| f.1);
                assert_eq!((s.first, s.last), (of[0].0, of[of.len() - 1].0));
                assert_eq!(s.sum, counts.clone().sum::<u64>());
                assert_eq!((Some(s.min), Some(s.max)), (counts.clone().min(), counts.max()));
            }
        }
    }

    fn timeline(frames: &[(u64, u64)]) -> Timeline {
        let mut t = Timeline::default();
        frames.iter().for_each(|(number, clusters)| t.push(*number, *clusters));
        t
    }

    #[test]
    fn joining_loses_no_frame() {
        let frames: Vec<_> = (0..100_000).map(|k| (k + 17, k % 7)).collect();
        let t = timeline(&frames);
        check(&t, &frames);
        assert_eq!((t.frames(), t.stride(), t.restarts(), t.missing()), (100_000, 1, 0, 0));
        // As many as there is room for, all alike.
        let spans = t.spans(300);
        assert!(spans.len() > 200, "{}", spans.len());
        assert!(spans.iter().rev().skip(1).all(|s| s.frames == spans[0].frames && s.min == 0 && s.max == 6));
    }

    #[test]
    fn gaps_stay_between_spans() {
        let frames: Vec<_> = (0..30_000).chain(90_000..120_000).map(|n| (n, 5)).collect();
        let t = timeline(&frames);
        check(&t, &frames);
        assert_eq!((t.missing(), t.stride()), (60_000, 1));
        assert!(t.spans(300).iter().all(|s| s.last < 30_000 || s.first >= 90_000));
    }

    #[test]
    fn every_tenth_frame_has_no_gaps() {
        let frames: Vec<_> = (0..5000).map(|k| (k * 10, 1)).collect();
        let t = timeline(&frames);
        check(&t, &frames);
        assert_eq!((t.missing(), t.stride()), (0, 10));
    }

    #[test]
    fn numbers_of_any_kind_take_bounded_memory() {
        let mut state = 1u64;
        let mut random = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            state
        };
        for mask in [0, 1, 7, u64::from(u32::MAX), u64::MAX] {
            let frames: Vec<_> = (0..20_000).map(|k| (random() & mask, k % 3)).collect();
            let t = timeline(&frames);
            assert!(t.spans.len() <= MOST && t.restarts() > 0);
            check(&t, &frames);
        }
        let far: Vec<_> = (0..5000).map(|k| (k * (1 << 51), 1)).collect();
        check(&timeline(&far), &far);
        let ends = timeline(&[(0, 1), (u64::MAX, 2)]);
        assert_eq!((ends.missing(), ends.spans(300).len()), (0, 2));
        assert!(timeline(&[]).spans(300).is_empty());
    }
}
