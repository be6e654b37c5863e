//! Energy by a counter that moves in steps: measured from one of its steps to another.

use std::time::Duration;

use scheidegg::Result;

/// The longest that a step of the counter is waited for, at the start and at the end.
const WAIT_S: f64 = 0.25;

/// What some passes took.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Energy {
    /// Passes.
    pub passes: usize,
    /// Joules.
    pub joules: f64,
    /// Seconds.
    pub wall_s: f64,
}

/// Runs `pass` until `least` has passed, from a step of `joules` (NVML's counter moves about every 100 ms) to another, so
/// that the counter's coarseness does not count. A counter that stands still, or passes longer than its steps, are taken
/// as they are after a quarter of a second. `now` is a clock in seconds.
///
/// # Errors
/// What `pass` says.
pub fn between_steps(
    least: Duration,
    mut now: impl FnMut() -> f64,
    mut joules: impl FnMut() -> f64,
    mut pass: impl FnMut() -> Result<()>,
) -> Result<Energy> {
    let (begun, before) = (now(), joules());
    loop {
        pass()?;
        if joules() != before || now() - begun > WAIT_S {
            break;
        }
    }
    let (start, first) = (now(), joules());
    let (mut passes, mut last) = (0, first);
    loop {
        pass()?;
        passes += 1;
        let (seen, wall_s) = (joules(), now() - start);
        let late = wall_s - least.as_secs_f64();
        if late >= 0.0 && (seen != last || late > WAIT_S) {
            return Ok(Energy { passes, joules: seen - first, wall_s });
        }
        last = seen;
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// 200 W for passes of `pass_s`, seen through a counter that moves every 100 ms.
    fn measure(pass_s: f64, least_s: f64) -> Energy {
        let time = Cell::new(0.037f64);
        let counter = || ((time.get() / 0.1 + 1e-9).floor() * 0.1) * 200.0;
        let pass = || {
            time.set(time.get() + pass_s);
            Ok(())
        };
        between_steps(Duration::from_secs_f64(least_s), || time.get(), counter, pass).unwrap()
    }

    #[test]
    fn the_counters_steps_do_not_count() {
        for (pass_s, least_s) in [(0.012, 0.5), (0.03, 0.5), (0.002, 0.33)] {
            let e = measure(pass_s, least_s);
            let watts = e.joules / e.wall_s;
            // At most a pass too many at either end.
            assert!(
                (watts - 200.0).abs() < 200.0 * 1.5 * pass_s / least_s + 0.1,
                "{watts} W in passes of {pass_s} s"
            );
            assert!((e.wall_s - e.passes as f64 * pass_s).abs() < 1e-9);
            assert!(e.wall_s >= least_s && e.wall_s < least_s + WAIT_S, "{} s", e.wall_s);
        }
    }

    #[test]
    fn a_counter_that_stands_still_ends_too() {
        let time = Cell::new(0.0f64);
        let pass = || {
            time.set(time.get() + 0.1);
            Ok(())
        };
        let e = between_steps(Duration::from_secs(1), || time.get(), || 7.0, pass).unwrap();
        assert_eq!(e.joules, 0.0);
        assert!(e.wall_s < 1.5);
        assert!(measure(0.9, 0.5).passes == 1, "a pass longer than everything is one");
    }
}
