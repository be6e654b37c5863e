//! How long a step will take, and how often it may be repeated in the time that is left.
//!
//! A run has a fixed time and a list of steps. When both do not go together, every step that is still to come loses
//! repetitions before one is left out.

use super::steps::{How, Step};

/// Repetitions below which a step says nothing: a cold one, and two warm ones that have a spread.
pub const FEWEST: usize = 3;

/// What a step costs, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cost {
    /// Whatever the number of repetitions: the process, its frames, its memory, the check, the energy.
    pub fixed_s: f64,
    /// A repetition.
    pub repetition_s: f64,
}

impl Cost {
    /// All of it.
    pub fn of(self, repetitions: usize) -> f64 {
        self.fixed_s + self.repetition_s * repetitions as f64
    }
}

/// Times that are expected, in us a frame at 3x3 and at 9x9: those of the run of 2026-11-30 on an H200 with 16 cores
/// (`benches/runs/2026-11-30-h200`), steps that it left out by their neighbours. They plan the time and nothing else.
fn expected_us(step: &Step, size: usize, threads: usize) -> f64 {
    let [small, large] = match (step.name, step.how) {
        (_, How::Cpu { .. }) => [400.0 / threads as f64 + 15.0, 600.0 / threads as f64 + 20.0],
        ("opt1", _) => [200.0, 460.0],
        ("opt2", _) => [160.0, 500.0],
        ("opt3", _) => [135.0, 420.0],
        ("opt4", _) => [73.0, 295.0],
        ("routeA", _) => [58.0, 286.0],
        ("opt5", _) => [76.0, 347.0],
        ("routeB1", _) => [76.0, 372.0],
        ("routeB2", _) => [31.0, 41.0],
        (_, How::Frames(_)) => [24.0, 30.0],
        _ => [7.0, 19.0],
    };
    // Windows between and beyond are as far from the smallest as their side.
    small + (large - small) * (size.max(3) - 3) as f64 / 6.0
}

/// What a step is expected to cost.
pub fn expected(step: &Step, size: usize, threads: usize, frames: usize, energy_s: f64) -> Cost {
    let repetition_s = expected_us(step, size, threads) * frames as f64 * 1e-6;
    // Frames and pedestal are simulated, a GPU is opened and waited for, memory is page-locked.
    let begin = if step.on_gpu() { 1.7 } else { 0.8 };
    // The pass that is checked; the energy from one step of its counter to another, and the passes that it begins and
    // ends in.
    let energy = if step.on_gpu() && energy_s > 0.0 { energy_s + 0.1 + repetition_s } else { 0.0 };
    Cost { fixed_s: begin + repetition_s + energy, repetition_s }
}

/// How often the first of `to_come` may be repeated so that all of them end within `left_s`; `pace` is how much longer
/// than expected the steps before have taken. Nothing when it alone does not fit with [`FEWEST`] repetitions.
pub fn repetitions(left_s: f64, pace: f64, to_come: &[Cost], wanted: usize) -> Option<usize> {
    let first = to_come.first()?;
    let wanted = wanted.max(2);
    let fewest = FEWEST.min(wanted);
    if pace * first.of(fewest) > left_s {
        return None;
    }
    let fixed: f64 = to_come.iter().map(|c| c.fixed_s).sum();
    let one_each: f64 = to_come.iter().map(|c| c.repetition_s).sum();
    let affordable = (left_s / pace - fixed) / one_each.max(1e-9);
    Some((affordable.floor().max(0.0) as usize).clamp(fewest, wanted))
}

/// Expected and true seconds of the steps so far.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pace {
    expected_s: f64,
    took_s: f64,
}

impl Pace {
    /// Adds a step.
    pub fn add(&mut self, expected_s: f64, took_s: f64) {
        self.expected_s += expected_s;
        self.took_s += took_s;
    }

    /// How much longer than expected; 1 before the first steps have told, and never below a half, so that a few quick
    /// steps do not promise that slow ones will be quick too.
    pub fn factor(&self) -> f64 {
        // Ten seconds' worth of trust in the expectation.
        ((10.0 + self.took_s) / (10.0 + self.expected_s)).max(0.5)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: Cost = Cost { fixed_s: 2.0, repetition_s: 1.0 };

    #[test]
    fn repetitions_are_cut_before_steps_are() {
        let ten = [ONE; 10];
        assert_eq!(repetitions(1000.0, 1.0, &ten, 7), Some(7));
        // 10 x 2 s fixed and 10 x 1 s a repetition.
        assert_eq!(repetitions(75.0, 1.0, &ten, 7), Some(5));
        assert_eq!(repetitions(75.0, 1.5, &ten, 7), Some(3));
        assert_eq!(
            repetitions(20.0, 1.0, &ten, 7),
            Some(FEWEST),
            "the last ones may be lost, this one is not"
        );
        assert_eq!(repetitions(4.9, 1.0, &ten, 7), None);
        assert_eq!(repetitions(5.0, 1.0, &ten, 2), Some(2), "a trial asks for less");
        assert_eq!(repetitions(5.0, 1.0, &[], 7), None);
    }

    #[test]
    fn a_run_ends_in_time_whatever_the_machine_does() {
        for slowness in [0.7, 1.0, 1.8, 3.0] {
            let costs: Vec<Cost> =
                (0..60).map(|i| Cost { fixed_s: 1.7, repetition_s: 0.1 * f64::from(i % 9) }).collect();
            let (limit, mut at, mut pace, mut done) = (260.0, 0.0, Pace::default(), 0);
            for i in 0..costs.len() {
                let Some(n) = repetitions(limit - at, pace.factor(), &costs[i..], 7) else { continue };
                let took = slowness * costs[i].of(n);
                pace.add(costs[i].of(n), took);
                at += took;
                done += 1;
            }
            assert!(at <= limit + 5.0, "{at} s at {slowness}");
            assert!(slowness > 1.5 || done == costs.len(), "{done} steps at {slowness}");
        }
    }

    #[test]
    fn the_whole_ladder_is_expected_to_fit_in_seven_minutes() {
        let mut sum = 0.0;
        for step in Step::all() {
            for size in [3, 9] {
                for _ in step.precisions() {
                    sum += expected(step, size, 16, 2000, 0.5).of(6);
                }
            }
        }
        assert!((200.0..420.0).contains(&sum), "{sum}");
    }
}
