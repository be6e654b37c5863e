//! Frame numbers that ascend, whatever the headers say.
//!
//! A frame keeps the number in its header as long as numbers ascend. A number that does not lie between its neighbours is
//! replaced by the next free one; two frames that changed places are put in order; where the counter begins again the
//! numbers go on from the last one. Left out is only a frame for which no number is free between its neighbours, and it is
//! counted.

/// Two numbers further apart than this are no neighbours unless a third one says so: years of frames.
const FAR: u64 = 1 << 32;

/// What a number in a header is taken for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It is the frame's number.
    Fine,
    /// It is not: the frame gets this one, the next free number.
    Taken(u64),
    /// It is not, and nothing tells which one is: the next frame begins anew.
    Unknown,
    /// The frame behind comes first.
    Swapped,
    /// Another frame has the number, and no other is free.
    Repeated,
    /// The counter begins again with it.
    Restart,
}

/// Followers that a number is judged by.
pub(super) const FOLLOWERS: usize = 3;

/// Judges the number `n` by the one before it and those that follow.
pub(super) fn judge(before: Option<u64>, n: u64, followers: &[u64]) -> Verdict {
    let Some(p) = before else { return judge_first(n, followers) };
    // The first of the next two that goes on from the number before, as if those up to it were not there.
    let on = |most: u64| {
        (1..=2usize).zip(followers).find(|(_, f)| (p + 1..=most).contains(f)).map(|(d, f)| (d, *f))
    };
    let next_is_free = !followers.contains(&p.saturating_add(1));
    let room = |d: usize, f: u64| f - p > d as u64 && next_is_free;
    if p == u64::MAX {
        return Verdict::Restart;
    }
    if n > p {
        return match on(n) {
            Some((d, f)) if room(d, f) => Verdict::Taken(p + 1),
            Some((1, f)) if f < n && followers.get(1).map_or(n - p <= FAR, |g| *g > n) => Verdict::Swapped,
            Some((1, f)) if f < n && followers.get(1).is_some_and(|g| *g > f) => Verdict::Repeated,
            None if n - p > FAR && next_is_free && !followers.iter().any(|f| *f > n) => Verdict::Taken(p + 1),
            _ => Verdict::Fine,
        };
    }
    match on(u64::MAX) {
        Some((d, f)) if room(d, f) => Verdict::Taken(p + 1),
        Some((1, _)) => Verdict::Repeated,
        Some((_, _)) if followers[0] <= n => Verdict::Repeated,
        None if followers.is_empty() => Verdict::Taken(p + 1),
        _ => Verdict::Restart,
    }
}

fn judge_first(n: u64, followers: &[u64]) -> Verdict {
    match *followers {
        [f, g, ..] if f < n && g > n => Verdict::Swapped,
        [f, g, ..] if f < n && g > f => f.checked_sub(1).map_or(Verdict::Unknown, Verdict::Taken),
        _ => Verdict::Fine,
    }
}

/// Gives frames their numbers.
#[derive(Clone, Debug, Default)]
pub(super) struct Numbering {
    /// The number in the last frame's header, or what it was taken for. Nothing at the start and where the next frame
    /// begins anew.
    before: Option<u64>,
    /// The last number given.
    last: Option<u64>,
}

impl Numbering {
    /// The number in the header before.
    pub fn before(&self) -> Option<u64> {
        self.before
    }

    /// The number of the frame with `n` in its header, which was judged, and how many numbers between the frame before and
    /// this one no frame has. Nothing when 64 bits do not hold it.
    pub fn give(&mut self, n: u64, verdict: Verdict) -> Option<(u64, u64)> {
        let after = self.last.map_or(Some(0), |last| last.checked_add(1))?;
        let (before, number) = match (verdict, self.before) {
            (Verdict::Taken(m), Some(_)) => (Some(m), after),
            (Verdict::Taken(m), None) => (Some(m), m.max(after)),
            (Verdict::Unknown, _) => (None, after),
            (Verdict::Restart, _) => (Some(n), after),
            (_, None) => (Some(n), n.max(after)),
            (_, Some(p)) => (Some(n), self.last?.checked_add(n - p)?),
        };
        let gap = if self.last.is_some() { number - after } else { 0 };
        (self.before, self.last) = (before, Some(number));
        Some((number, gap))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The numbers given for these headers, with 0 for what was left out.
    fn given(headers: &[u64]) -> Vec<u64> {
        let (mut numbering, mut out) = (Numbering::default(), Vec::new());
        let mut queue = headers.to_vec();
        while !queue.is_empty() {
            let followers: Vec<_> = queue.iter().skip(1).take(FOLLOWERS).copied().collect();
            let mut verdict = judge(numbering.before(), queue[0], &followers);
            if verdict == Verdict::Swapped {
                queue.swap(0, 1);
                verdict = Verdict::Fine;
            }
            let n = queue.remove(0);
            out.push(match verdict {
                Verdict::Repeated => 0,
                verdict => numbering.give(n, verdict).unwrap().0,
            });
        }
        out
    }

    #[test]
    fn every_number_is_judged_by_those_around_it() {
        use Verdict::*;
        const T: Verdict = Taken(11);
        let over = 11 + FAR;
        let after_10: &[(u64, &[u64], Verdict)] = &[
            // The next number, or one not far behind it.
            (11, &[], Fine),
            (11, &[11], Fine),
            (11, &[12, 13, 14], Fine),
            (12, &[], Fine),
            (12, &[13], Fine),
            (12, &[5, 13], Fine),
            (12, &[5, 12], Fine),
            (12, &[12, 11], Fine),
            (12, &[11, 11], Fine),
            (14, &[12, 11], Fine),
            (14, &[5, 12], Fine),
            (14, &[5, 13, 11], Fine),
            // Those behind go on from the one before, and there is room for this one.
            (12, &[12], T),
            (14, &[12], T),
            (14, &[5, 13], T),
            // The one behind comes first, or this one twice.
            (12, &[11], Swapped),
            (12, &[11, 13], Swapped),
            (14, &[12, 15, 11], Swapped),
            (10 + FAR, &[11], Swapped),
            (over, &[11], Fine),
            (12, &[11, 12], Repeated),
            (14, &[12, 13, 11], Repeated),
            // Far off it needs a witness.
            (10 + FAR, &[], Fine),
            (over, &[], T),
            (over, &[5, 6, 7], T),
            (over, &[over + 1], Fine),
            (over, &[5, 6, over + 1], Fine),
            (over, &[5, 6, 11], Fine),
            // Numbers that do not ascend.
            (10, &[], T),
            (5, &[], T),
            (5, &[12], T),
            (5, &[6, 13], T),
            (5, &[11], Repeated),
            (5, &[12, 11], Repeated),
            (5, &[5, 11], Repeated),
            (5, &[4, 11], Repeated),
            (5, &[6, 11], Restart),
            (5, &[6, 12], Restart),
            (5, &[6, 13, 11], Restart),
            (5, &[6], Restart),
            (5, &[6, 7, 12], Restart),
        ];
        for (n, followers, verdict) in after_10 {
            assert_eq!(judge(Some(10), *n, followers), *verdict, "{n} before {followers:?}");
        }
        for (n, followers, verdict) in [
            (5, &[][..], Fine),
            (5, &[3], Fine),
            (5, &[6, 7], Fine),
            (5, &[5, 6], Fine),
            (5, &[3, 3], Fine),
            (5, &[3, 2], Fine),
            (5, &[3, 6], Swapped),
            (5, &[3, 5], Taken(2)),
            (5, &[3, 4, 9], Taken(2)),
            (5, &[0, 1], Unknown),
        ] {
            assert_eq!(judge(None, n, followers), verdict, "{n} first, before {followers:?}");
        }
        assert_eq!(judge(Some(u64::MAX - 1), u64::MAX, &[]), Fine);
        assert_eq!(judge(Some(u64::MAX), u64::MAX, &[]), Restart);
        // Only where another frame follows.
        for n in 0..20 {
            assert_ne!(judge(Some(10), n, &[]), Repeated);
        }
    }

    #[test]
    fn numbers_are_given_from_the_last_one_on() {
        use Verdict::*;
        let mut numbering = Numbering::default();
        for (n, verdict, given, before) in [
            (7, Fine, (7, 0), Some(7)),
            (9, Fine, (9, 1), Some(9)),
            (1 << 40, Taken(10), (10, 0), Some(10)),
            (3, Restart, (11, 0), Some(3)),
            (5, Fine, (13, 1), Some(5)),
            (0, Unknown, (14, 0), None),
            (20, Fine, (20, 5), Some(20)),
            (0, Unknown, (21, 0), None),
            (9, Taken(2), (22, 0), Some(2)),
            (0, Unknown, (23, 0), None),
            (9, Fine, (24, 0), Some(9)),
            (u64::MAX - 16, Fine, (u64::MAX - 1, u64::MAX - 26), Some(u64::MAX - 16)),
        ] {
            assert_eq!(numbering.give(n, verdict), Some(given), "{n} {verdict:?}");
            assert_eq!(numbering.before(), before);
        }
        assert_eq!(numbering.clone().give(u64::MAX - 14, Fine), None);
        assert_eq!(numbering.give(u64::MAX - 15, Fine), Some((u64::MAX, 0)));
        assert_eq!(numbering.give(3, Restart), None);
        assert_eq!(Numbering::default().give(9, Taken(4)), Some((4, 0)));
        assert_eq!(Numbering::default().give(9, Unknown), Some((0, 0)));
    }

    #[test]
    fn ascending_numbers_are_kept() {
        for kept in
            [&[1, 2, 3][..], &[7, 9, 1 << 31, 1 << 40, (1 << 40) + 1], &[5], &[u64::MAX - 1, u64::MAX]]
        {
            assert_eq!(given(kept), kept);
        }
    }

    #[test]
    fn a_corrupt_number_is_replaced_and_no_frame_lost() {
        const FAR: u64 = 1 << 40;
        for bad in [FAR, u64::MAX, 0, 3, 1] {
            assert_eq!(given(&[3, 4, bad, 6, 7]), [3, 4, 5, 6, 7]);
            assert_eq!(given(&[3, 4, bad, bad, 7, 8]), [3, 4, 5, 6, 7, 8]);
        }
        assert_eq!(given(&[3, 4, 9, 6, 7]), [3, 4, 5, 6, 7]);
        assert_eq!(given(&[3, 4, FAR, FAR + 5, 7, 8]), [3, 4, 5, 6, 7, 8]);
        assert_eq!(given(&[FAR, 2, 3, 4]), [1, 2, 3, 4]);
        assert_eq!(given(&[FAR, 0, 1, 2]), [0, 1, 2, 3]);
        for last in [FAR, u64::MAX, 0, 2] {
            assert_eq!(given(&[3, 4, last]), [3, 4, 5]);
        }
        // The gap behind it does not tell its number; the first free one is as good as any.
        assert_eq!(given(&[3, 4, FAR, 9, 10]), [3, 4, 5, 9, 10]);
    }

    #[test]
    fn a_counter_that_begins_again_goes_on() {
        assert_eq!(given(&[1, 2, 3, 1, 2, 3, 4, 5]), [1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(given(&[98, 99, 0, 1, 3, 4]), [98, 99, 100, 101, 103, 104]);
        assert_eq!(
            given(&[4_294_967_294, 4_294_967_295, 0, 1, 2]),
            (4_294_967_294..4_294_967_299).collect::<Vec<_>>()
        );
        assert_eq!(given(&[0; 5]), [0, 1, 2, 3, 4]);
        assert_eq!(given(&[9, 8, 7, 6]), [9, 10, 11, 12]);
        assert_eq!(given(&[1, 2, 3, 4, 1, 2, 3, 1, 2]), (1..10).collect::<Vec<_>>());
    }

    #[test]
    fn a_frame_that_comes_again_is_left_out_and_a_late_one_put_in_order() {
        assert_eq!(given(&[1, 2, 2, 3, 4]), [1, 2, 0, 3, 4]);
        assert_eq!(given(&[1, 2, 4, 3, 5]), [1, 2, 3, 4, 5]);
        assert_eq!(given(&[2, 1, 3, 4]), [1, 2, 3, 4]);
        assert_eq!(given(&[1, 2, 2, 4, 3, 5]), [1, 2, 0, 3, 4, 5]);
        assert_eq!(given(&[1, 2, 4, 5, 6, 3, 7, 8]), [1, 2, 4, 5, 6, 0, 7, 8]);
    }

    #[test]
    fn numbers_always_ascend() {
        let mut state = 1u64;
        let mut draw = |n: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % n
        };
        for _ in 0..20_000 {
            let top = [4, 20, 1 << 30][draw(3) as usize];
            let headers: Vec<_> =
                (0..draw(9)).map(|_| if draw(9) == 0 { 1 << 50 } else { draw(top) }).collect();
            let numbers = given(&headers);
            let mut last = None;
            for (k, n) in numbers.iter().enumerate() {
                // 0 is a number only for the first.
                if *n > 0 || k == 0 {
                    assert!(last.is_none_or(|l| l < *n), "{headers:?}: {numbers:?}");
                    last = Some(*n);
                }
            }
        }
    }
}
