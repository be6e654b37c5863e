//! From intervals to busy time: the union per engine, how much the engines overlap, and which of them binds.

use super::cupti::{Activity, Engine};

/// What one engine did during a probe.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Busy {
    /// Intervals: copies, or kernels.
    pub count: u64,
    /// Time with at least one interval open, in ns.
    pub union_ns: u64,
    /// All intervals added up, in ns; above the union when they overlap each other.
    pub sum_ns: u64,
    /// Bytes moved (for kernels: threads run).
    pub amount: u64,
    /// The middle one of the durations, in ns.
    pub median_ns: u64,
}

/// The engines over a span of time.
#[derive(Clone, Debug, PartialEq)]
pub struct Engines {
    /// From the first start to the last end, in ns.
    pub span_ns: u64,
    /// One for each of [`Engine::ALL`].
    pub busy: [Busy; 4],
    /// Time in which at least one engine worked, in ns.
    pub any_ns: u64,
    /// Time in which at least two worked, in ns.
    pub overlap_ns: u64,
}

/// Time covered by intervals that are sorted by start.
fn union(intervals: impl Iterator<Item = (u64, u64)>) -> Vec<(u64, u64)> {
    let mut merged: Vec<(u64, u64)> = Vec::new();
    for (start, end) in intervals {
        match merged.last_mut() {
            Some(last) if start <= last.1 => last.1 = last.1.max(end),
            _ => merged.push((start, end)),
        }
    }
    merged
}

fn length(intervals: &[(u64, u64)]) -> u64 {
    intervals.iter().map(|(a, b)| b - a).sum()
}

impl Engines {
    /// From activities sorted by start.
    pub fn of(activities: &[Activity]) -> Engines {
        let mut unions = Vec::new();
        let busy = Engine::ALL.map(|engine| {
            let mine = || activities.iter().filter(move |a| a.engine == engine);
            let merged = union(mine().map(|a| (a.start, a.end)));
            let mut durations: Vec<u64> = mine().map(|a| a.end - a.start).collect();
            durations.sort_unstable();
            let busy = Busy {
                count: durations.len() as u64,
                union_ns: length(&merged),
                sum_ns: durations.iter().sum(),
                amount: mine().map(|a| a.amount).sum(),
                median_ns: durations.get(durations.len() / 2).copied().unwrap_or(0),
            };
            unions.push(merged);
            busy
        });
        // Sweep over the edges of the merged intervals: how many engines are at work.
        let mut edges: Vec<(u64, i32)> =
            unions.iter().flatten().flat_map(|&(a, b)| [(a, 1), (b, -1)]).collect();
        edges.sort_unstable();
        let (mut at, mut depth, mut any_ns, mut overlap_ns) = (0, 0, 0, 0);
        for (time, step) in edges {
            if depth >= 1 {
                any_ns += time - at;
            }
            if depth >= 2 {
                overlap_ns += time - at;
            }
            depth += step;
            at = time;
        }
        let first = activities.iter().map(|a| a.start).min().unwrap_or(0);
        let last = activities.iter().map(|a| a.end).max().unwrap_or(0);
        Engines { span_ns: last - first, busy, any_ns, overlap_ns }
    }

    /// One engine.
    pub fn get(&self, engine: Engine) -> Busy {
        self.busy[Engine::ALL.iter().position(|e| *e == engine).expect("every engine is in the list")]
    }

    /// The engine that was busy longest: no schedule of the same work can take less.
    pub fn binding(&self) -> Engine {
        // The first of equals, so that the answer does not depend on anything else.
        let mut best = Engine::H2d;
        for engine in Engine::ALL {
            if self.get(engine).union_ns > self.get(best).union_ns {
                best = engine;
            }
        }
        best
    }

    /// The share of the span that an engine worked.
    pub fn duty(&self, engine: Engine) -> f64 {
        self.get(engine).union_ns as f64 / self.span_ns.max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn activity(engine: Engine, start: u64, end: u64) -> Activity {
        Activity { engine, start, end, amount: 100, stream: 0, name: String::new(), registers: 0 }
    }

    #[test]
    fn busy_time_is_the_union_and_overlap_counts_once() {
        let e = Engines::of(&[
            activity(Engine::H2d, 0, 10),
            activity(Engine::H2d, 5, 15),
            activity(Engine::Kernel, 12, 20),
            activity(Engine::D2h, 14, 16),
            activity(Engine::H2d, 30, 31),
        ]);
        assert_eq!(e.span_ns, 31);
        assert_eq!(
            e.get(Engine::H2d),
            Busy { count: 3, union_ns: 16, sum_ns: 21, amount: 300, median_ns: 10 }
        );
        assert_eq!((e.any_ns, e.overlap_ns), (21, 4));
        assert_eq!(e.binding(), Engine::H2d);
    }

    #[test]
    fn nothing_recorded_is_no_panic() {
        let e = Engines::of(&[]);
        assert_eq!((e.span_ns, e.any_ns, e.overlap_ns), (0, 0, 0));
    }
}
