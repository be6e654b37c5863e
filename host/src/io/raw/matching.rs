//! Frames of several ports brought together by number, never by position.
//!
//! A frame is what all ports have under one number. Where ports differ, those frames are passed that lead to the nearest
//! number which all of them have. If each port has as many before it, and their numbers do not contradict each other, they
//! belong together: a number that is corrupt in one port loses no frame. Others are incomplete, left out and counted.

use std::cmp::Ordering;
use std::collections::{BTreeSet, VecDeque};

use scheidegg_finder::{Error, Result};

use super::numbering::{FOLLOWERS, Numbering, Verdict, judge};
use super::port::{Head, Port};

/// Frames that are looked ahead for a number that all ports have.
const WINDOW: usize = 64;
/// Of a full window, those that are judged with all that follow them.
const JUDGED: usize = WINDOW - FOLLOWERS;

/// A frame that all ports have, not numbered yet.
#[derive(Clone, Copy, Debug)]
struct Whole {
    /// The number in its headers.
    number: u64,
    /// Numbers of frames that were left out since the one before, in `Matching::lacking`.
    lacking: usize,
}

/// Frames of one kind of fault, and the first of them in words.
#[derive(Clone, Debug, Default)]
struct Noted {
    count: u64,
    first: String,
}

impl Noted {
    fn add(&mut self, what: impl FnOnce() -> String) {
        self.count += 1;
        if self.count == 1 {
            self.first = what();
        }
    }
}

/// All ports of a run, as one series of frames.
#[derive(Debug)]
pub(super) struct Matching {
    pub ports: Vec<Port>,
    /// Frames that are brought together and wait to be numbered, and their parts, one a port.
    queue: VecDeque<Whole>,
    parts: VecDeque<Head>,
    /// Numbers that were left out before a frame of the queue.
    lacking: VecDeque<u64>,
    /// Of them, those since the last frame of the queue.
    pending: usize,
    /// The number in the headers of the last frame that went into the queue.
    seen: Option<u64>,
    /// For every port, the number before its next frame, and how often its counter began again since `seen`.
    at: Vec<(Option<u64>, u32)>,
    numbering: Numbering,
    /// Numbers that no port had, between whole frames.
    pub gaps: u64,
    /// Frames that some port lacks.
    pub incomplete: u64,
    incomplete_first: Option<String>,
    repeated: Noted,
    replaced: Noted,
    restarts: Noted,
    swapped: Noted,
    ended: Option<String>,
}

impl Matching {
    pub fn new(ports: Vec<Port>) -> Matching {
        Matching {
            at: vec![(None, 0); ports.len()],
            ports,
            queue: VecDeque::new(),
            parts: VecDeque::new(),
            lacking: VecDeque::new(),
            pending: 0,
            seen: None,
            numbering: Numbering::default(),
            gaps: 0,
            incomplete: 0,
            incomplete_first: None,
            repeated: Noted::default(),
            replaced: Noted::default(),
            restarts: Noted::default(),
            swapped: Noted::default(),
            ended: None,
        }
    }

    /// Most frames that can still come: those of the port that has the fewest.
    pub fn left(&self) -> u64 {
        let ports = self.ports.iter().map(Port::left).min().unwrap_or(0);
        self.queue.len() as u64 + if self.ended.is_some() { 0 } else { ports }
    }

    /// Frames left out because another has their number.
    pub fn repeated(&self) -> u64 {
        self.repeated.count
    }

    /// Sentences about frames that were left out or got another number.
    pub fn warnings(&self) -> Vec<String> {
        let mut all: Vec<String> =
            self.incomplete_first.iter().chain(&self.ended).filter(|w| !w.is_empty()).cloned().collect();
        for (noted, what) in [
            (&self.repeated, "left out"),
            (&self.replaced, "taken for the next free number"),
            (&self.swapped, "put in order"),
            (&self.restarts, "numbers go on from the frame before"),
        ] {
            if noted.count > 0 {
                all.push(format!("{}: {what}, {} such frames", noted.first, noted.count));
            }
        }
        for port in &self.ports {
            all.extend(port.warnings.iter().cloned());
        }
        all
    }

    /// The next frame that every port has: appends its part of every port to `heads` and returns its number.
    ///
    /// # Errors
    /// What is wrong with the files of a port; nothing is appended then, and the same comes when asked again.
    pub fn next(&mut self, heads: &mut Vec<Head>) -> Result<Option<u64>> {
        loop {
            if self.queue.is_empty() && !self.bring_together() {
                return self.end().map(|()| None);
            }
            let verdict = self.verdict();
            let whole = self.queue[0];
            let path = |m: &Matching| m.ports[0].files[m.parts[0].file].path.display().to_string();
            if verdict == Verdict::Repeated {
                let what = format!("{}: frame {} {}", path(self), whole.number, self.beside(whole.number));
                self.repeated.add(|| what);
                self.drop_first();
                continue;
            }
            let before = self.numbering.before();
            let Some((number, gap)) = self.numbering.give(whole.number, verdict) else {
                let what = format!("frame {} cannot be numbered: 64 bits are used up", whole.number);
                return Err(Error::file(path(self), what));
            };
            let seen = whole.number;
            match (verdict, before) {
                (Verdict::Taken(_) | Verdict::Unknown, _) => {
                    let what = format!("{}: frame {seen} is no number between its neighbours'", path(self));
                    self.replaced.add(|| format!("{what} ({number} here)"));
                }
                (Verdict::Restart, Some(b)) => {
                    let what = format!("{}: frame {seen} comes after frame {b} ({number} here)", path(self));
                    self.restarts.add(|| what);
                }
                _ => {}
            }
            let between = |n: &u64| before.is_some_and(|b| (b.saturating_add(1)..seen).contains(n));
            let lacking: BTreeSet<u64> = self.lacking.drain(..whole.lacking).filter(between).collect();
            self.gaps += gap.saturating_sub(lacking.len() as u64);
            self.queue.pop_front();
            heads.extend(self.parts.drain(..self.ports.len()));
            return Ok(Some(number));
        }
    }

    /// Where a number stands that does not ascend, in words.
    fn beside(&self, number: u64) -> String {
        let before = self.numbering.before().map(|b| (b, b.cmp(&number)));
        match before {
            Some((b, Ordering::Equal)) => format!("comes again after frame {b}"),
            Some((b, Ordering::Greater)) => format!("comes after frame {b}"),
            _ => "has a number that no place is free for".into(),
        }
    }

    /// Judges the first frame of the queue, which becomes the second where the two changed places.
    fn verdict(&mut self) -> Verdict {
        let (number, before) = (self.queue[0].number, self.numbering.before());
        if before.and_then(|b| b.checked_add(1)) == Some(number) {
            return Verdict::Fine;
        }
        while self.queue.len() <= FOLLOWERS && self.bring_together() {}
        let mut followers = [0; FOLLOWERS];
        let mut n = 0;
        for (to, whole) in followers.iter_mut().zip(self.queue.iter().skip(1)) {
            (*to, n) = (whole.number, n + 1);
        }
        let verdict = judge(before, number, &followers[..n]);
        if verdict != Verdict::Swapped {
            return verdict;
        }
        let path = &self.ports[0].files[self.parts[0].file].path;
        self.swapped
            .add(|| format!("{}: frame {number} comes before frame {}", path.display(), followers[0]));
        self.queue[0].number = followers[0];
        self.queue[1].number = number;
        let ports = self.ports.len();
        (0..ports).for_each(|k| self.parts.swap(k, ports + k));
        Verdict::Fine
    }

    /// Leaves out the first frame of the queue, which is one that repeats a number: another one follows it.
    fn drop_first(&mut self) {
        // What was left out before it was left out before the next one.
        self.queue[1].lacking += self.queue[0].lacking;
        self.queue.pop_front();
        self.parts.drain(..self.ports.len());
    }

    /// Adds the next frame that all ports have to the queue; false when there is none.
    fn bring_together(&mut self) -> bool {
        loop {
            self.ports.iter_mut().for_each(|p| p.look_ahead(1));
            let Some(first) = self.ports.first().and_then(|p| p.ahead().front()) else { return false };
            let number = first.header.frame;
            let mut same = true;
            for port in &self.ports[1..] {
                let Some(head) = port.ahead().front() else { return false };
                same &= head.header.frame == number;
            }
            if same {
                self.add(number);
                return true;
            }
            let before = self.queue.len();
            self.resolve();
            if self.queue.len() > before {
                return true;
            }
        }
    }

    /// Moves the next frame of every port into the queue.
    fn add(&mut self, number: u64) {
        self.parts.extend(self.ports.iter_mut().filter_map(Port::take));
        self.queue.push_back(Whole { number, lacking: std::mem::take(&mut self.pending) });
        self.seen = Some(number);
        self.at.fill((Some(number), 0));
    }

    /// How often the counter of a port began again before each of the frames ahead, with their numbers; and the same of the
    /// frame behind them.
    fn counted(&self, k: usize) -> Vec<(u32, u64)> {
        let ahead: Vec<u64> = self.ports[k].ahead().iter().map(|h| h.header.frame).collect();
        let (mut before, mut times) = self.at[k];
        let of = |i: usize| {
            let (n, behind) = ahead[i..].split_first()?;
            match judge(before, *n, &behind[..behind.len().min(FOLLOWERS)]) {
                Verdict::Fine => before = Some(*n),
                Verdict::Taken(m) => before = Some(m),
                Verdict::Restart => (before, times) = (Some(*n), times + 1),
                Verdict::Unknown | Verdict::Swapped | Verdict::Repeated => {}
            }
            Some((times, *n))
        };
        let mut all: Vec<_> = (0..ahead.len()).filter_map(of).collect();
        if all.len() >= WINDOW {
            all.truncate(JUDGED);
        }
        all
    }

    /// Goes past frames of ports that differ.
    fn resolve(&mut self) {
        self.ports.iter_mut().for_each(|p| p.look_ahead(WINDOW));
        let counted: Vec<_> = (0..self.ports.len()).map(|k| self.counted(k)).collect();
        // A number that is wrong may look like a counter that begins again: then they are the same without that.
        let (skips, next) = match nearest(&counted).or_else(|| nearest(&uncounted(&counted))) {
            Some(found) => found,
            // The last frames of the run: nothing comes behind them.
            None if self.ports.iter().all(Port::is_done) => (counted.iter().map(Vec::len).collect(), None),
            None => (behind(&counted), None),
        };
        if skips.iter().all(|s| *s == skips[0]) {
            (0..skips[0]).for_each(|_| self.pair(next));
            return;
        }
        let mut numbers = Vec::new();
        for (k, skip) in skips.iter().enumerate().filter(|s| *s.1 > 0) {
            let (times, number) = counted[k][skip - 1];
            self.at[k] = (Some(number), times);
        }
        for (port, skip) in self.ports.iter_mut().zip(&skips) {
            numbers.push((0..*skip).filter_map(|_| port.take()).map(|h| h.header.frame).collect::<Vec<_>>());
        }
        self.leave_out(&numbers);
    }

    /// Takes the next frames of all ports for one frame, if their numbers allow it: at most one of them lies between the
    /// frame before and the number `next` behind.
    fn pair(&mut self, next: Option<u64>) {
        let heads = self.ports.iter().filter_map(|p| p.ahead().front());
        let numbers: Vec<u64> = heads.map(|h| h.header.frame).collect();
        let (from, to) = match (self.seen, next) {
            (Some(seen), Some(next)) if next > seen => (Some(seen), next),
            (seen, _) => (seen, u64::MAX),
        };
        let mut fit: Vec<u64> =
            numbers.iter().copied().filter(|n| from.is_none_or(|f| *n > f) && *n < to).collect();
        // A number far off is doubted where another is near.
        let near = fit.iter().min().copied().unwrap_or(0);
        fit.retain(|n| n - near <= 1 << 32);
        fit.sort_unstable();
        fit.dedup();
        match fit[..] {
            [] => self.add(numbers[0]),
            [one] => self.add(one),
            _ => {
                self.ports.iter_mut().for_each(|p| drop(p.take()));
                self.leave_out(&numbers.iter().map(|n| vec![*n]).collect::<Vec<_>>());
            }
        }
    }

    /// Counts frames that were taken from the ports and are no frame of all.
    fn leave_out(&mut self, numbers: &[Vec<u64>]) {
        let seen = self.seen;
        let mut all: Vec<u64> = numbers.concat();
        all.sort_unstable();
        all.dedup();
        for n in all {
            if seen == Some(n) {
                let path = self.ports[0].path().display().to_string();
                self.repeated.add(|| format!("{path}: frame {n} comes again after frame {n}"));
                continue;
            }
            // The other part of a frame that was left out just now.
            if self.lacking.iter().rev().take(self.pending.min(2 * WINDOW)).any(|l| *l == n) {
                continue;
            }
            self.incomplete += 1;
            self.lacking.push_back(n);
            self.pending += 1;
            if self.incomplete_first.is_none()
                && let Some(k) = numbers.iter().position(|own| !own.contains(&n))
            {
                let port = &self.ports[k];
                let what = format!("{}: frame {n} is missing in port {}", port.path().display(), port.d);
                self.incomplete_first = Some(format!("{what}: left out"));
            }
        }
    }

    /// Some port has no more frames: what the others still have is left out.
    fn end(&mut self) -> Result<()> {
        for port in self.ports.iter().filter(|p| p.ahead().is_empty()) {
            port.check()?;
        }
        let more = self.ports.iter().map(Port::left).max().unwrap_or(0);
        if more > 0 && self.ended.is_none() {
            self.incomplete += more;
            let ended = self.ports.iter().find(|p| p.ahead().is_empty()).expect("a port that ended");
            self.ended = Some(format!(
                "{}: port {} ends {more} frames before others do: those are left out",
                ended.path().display(),
                ended.d
            ));
        }
        self.ended.get_or_insert_default();
        Ok(())
    }
}

/// The nearest number that all ports have, where their counters began again as often: how many frames of each port are
/// before it.
fn nearest(counted: &[Vec<(u32, u64)>]) -> Option<(Vec<usize>, Option<u64>)> {
    let mut best: Option<(usize, Vec<usize>, u64)> = None;
    for (k, number) in counted[0].iter().enumerate() {
        if best.as_ref().is_some_and(|b| b.0 <= k) {
            break;
        }
        let place = |port: &Vec<(u32, u64)>| port.iter().position(|n| n == number);
        let places: Option<Vec<usize>> = counted[1..].iter().map(place).collect();
        if let Some(places) = places {
            let total = k + places.iter().sum::<usize>();
            if best.as_ref().is_none_or(|b| total < b.0) {
                best = Some((total, [vec![k], places].concat(), number.1));
            }
        }
    }
    best.map(|(_, places, number)| (places, Some(number)))
}

/// The numbers without how often their counters began again.
fn uncounted(counted: &[Vec<(u32, u64)>]) -> Vec<Vec<(u32, u64)>> {
    counted.iter().map(|port| port.iter().map(|(_, n)| (0, *n)).collect()).collect()
}

/// No number is near that all have: how many frames of every port lie behind the others.
fn behind(counted: &[Vec<(u32, u64)>]) -> Vec<usize> {
    let lowest = counted.iter().map(|port| port.iter().min().copied().unwrap_or((u32::MAX, u64::MAX)));
    let floor = lowest.max().unwrap_or((0, 0));
    let last_below = |port: &Vec<(u32, u64)>| port.iter().rposition(|n| *n < floor);
    counted.iter().map(|port| last_below(port).map_or(0, |k| k + 1)).collect()
}
