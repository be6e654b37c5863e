//! The steps, in the order of the story.

use scheidegg::{Error, Payload, Precision, Result};

/// How a step hands its results out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ownership {
    /// A fresh allocation a frame.
    Frame,
    /// A fresh allocation a unit of frames.
    Unit,
    /// A fresh allocation a frame, copied by a pool of threads.
    Pool,
    /// Borrowed where they lie; nothing is allocated.
    View,
}

/// A step that works a frame at a time.
#[derive(Clone, Copy, Debug)]
pub struct FramePlan {
    /// Streams that the lanes are dealt to.
    pub streams: usize,
    /// Frames that are submitted and collected together.
    pub unit: usize,
    /// Units that may be in flight.
    pub ring: usize,
    /// Whether the frames lie in page-locked memory.
    pub pinned: bool,
    /// Whether kernels and result copy of a frame are one graph launch.
    pub graph: bool,
    /// Whether the number of clusters is fetched first and then just those; else every frame's result is copied at its
    /// full capacity.
    pub count_first: bool,
    /// How results are handed out.
    pub ownership: Ownership,
}

/// How a chunk's results get to the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// Copied at their full capacity.
    Capacity,
    /// Copied at their true size, once that is known.
    TrueSize,
    /// Written into the host's memory by the kernel.
    Direct,
}

/// A step that works a chunk of frames at a time.
#[derive(Clone, Copy, Debug)]
pub struct ChunkPlan {
    /// Frames of a chunk.
    pub frames: usize,
    /// Chunks that may be in flight.
    pub ring: usize,
    /// The most frames of a lane that one launch takes.
    pub launch: u32,
    /// How results come back.
    pub delivery: Delivery,
}

/// What runs a step.
#[derive(Clone, Copy, Debug)]
pub enum How {
    /// A CPU backend.
    Cpu {
        /// Pedestal chains.
        lanes: usize,
    },
    /// A frame at a time on the GPU.
    Frames(FramePlan),
    /// A chunk at a time on the GPU.
    Chunks(ChunkPlan),
    /// The library's own GPU backend, as users have it.
    Library {
        /// Pedestal chains.
        lanes: usize,
    },
}

/// One rung.
#[derive(Clone, Copy, Debug)]
pub struct Step {
    /// What it is called on the command line and in tables.
    pub name: &'static str,
    /// What it is called in a figure.
    pub title: &'static str,
    /// What it changes against the step before.
    pub change: &'static str,
    /// What runs it.
    pub how: How,
    /// The type of stored values.
    pub payload: Payload,
    /// Whether it is done in `f32` only.
    pub f32_only: bool,
}

/// Pedestal chains of the ladder: one a stream, as the published steps have them.
pub const LANES: usize = 4;

const BASE: FramePlan = FramePlan {
    streams: 4,
    unit: 1,
    ring: 8,
    pinned: true,
    graph: false,
    count_first: false,
    ownership: Ownership::Frame,
};
const CHUNK: FramePlan = FramePlan { unit: 64, ring: 2, ..BASE };
const COARSE: ChunkPlan = ChunkPlan { frames: 64, ring: 4, launch: 1, delivery: Delivery::Capacity };

const fn step(name: &'static str, title: &'static str, change: &'static str, how: How) -> Step {
    Step { name, title, change, how, payload: Payload::I32, f32_only: false }
}

/// Every step.
pub const STEPS: &[Step] = &[
    step(
        "baseline",
        "CPU, best thread count",
        "where we start: the CPU finder at the thread count that suits it",
        How::Cpu { lanes: LANES },
    ),
    step(
        "opt1",
        "opt1: a blocking launch a frame",
        "one stream; a frame is copied, judged, counted, fetched, and only then the next one starts",
        How::Frames(FramePlan { streams: 1, unit: 1, ring: 1, pinned: false, count_first: true, ..BASE }),
    ),
    step(
        "opt2",
        "opt2: 4 streams, a barrier a round",
        "four frames at once of a batch of 2000, one a stream; all wait for the slowest, then counts, then clusters",
        How::Frames(FramePlan { unit: 4, ring: 1, pinned: false, count_first: true, ..BASE }),
    ),
    step(
        "opt3",
        "opt3: no barriers, fixed-size results",
        "results are copied at full capacity, so nobody waits for a count",
        How::Frames(FramePlan { pinned: false, ..BASE }),
    ),
    step(
        "opt4",
        "opt4: pinned input",
        "frames lie in page-locked memory: the copy engine takes them without the driver's staging copy",
        How::Frames(BASE),
    ),
    step(
        "routeA",
        "route A: a graph a frame",
        "kernels and result copy of a frame go to the GPU as one graph launch",
        How::Frames(FramePlan { graph: true, ..BASE }),
    ),
    step(
        "opt5",
        "opt5: chunks in flight, owned results",
        "64 frames are submitted before the 64 before them are collected",
        How::Frames(CHUNK),
    ),
    step(
        "routeB1",
        "route B': one allocation a chunk",
        "the owned results of a chunk share one allocation",
        How::Frames(FramePlan { ownership: Ownership::Unit, ..CHUNK }),
    ),
    step(
        "routeB2",
        "route B'': results copied by threads",
        "a pool of threads makes the owned copies",
        How::Frames(FramePlan { ownership: Ownership::Pool, ..CHUNK }),
    ),
    step(
        "opt6",
        "opt6: borrowed views",
        "results are lent where the GPU put them: no copy, no allocation, no page fault",
        How::Frames(FramePlan { ownership: Ownership::View, ..CHUNK }),
    ),
    Step {
        f32_only: true,
        ..step(
            "opt7",
            "opt7: f32 pedestal, centred",
            "opt6 with sums in f32, which centring makes safe",
            How::Frames(FramePlan { ownership: Ownership::View, ..CHUNK }),
        )
    },
    step(
        "coarse",
        "coarse copies",
        "one copy in and one out for 64 frames; results of a chunk lie together",
        How::Chunks(COARSE),
    ),
    step(
        "many",
        "many frames a launch",
        "a block keeps its pedestal in registers over several frames",
        How::Chunks(ChunkPlan { launch: 16, ..COARSE }),
    ),
    step(
        "truesize",
        "true-size results",
        "only the clusters that were found travel",
        How::Chunks(ChunkPlan { launch: 16, delivery: Delivery::TrueSize, ..COARSE }),
    ),
    Step {
        payload: Payload::I16,
        ..step(
            "i16",
            "true size, i16 values",
            "cluster values travel in 16 bits",
            How::Chunks(ChunkPlan { launch: 16, delivery: Delivery::TrueSize, ..COARSE }),
        )
    },
    Step {
        payload: Payload::I16,
        ..step(
            "direct",
            "i16, written by the kernel",
            "the last kernel writes into the host's memory: no copy back, no size to wait for",
            How::Chunks(ChunkPlan { launch: 16, delivery: Delivery::Direct, ..COARSE }),
        )
    },
    Step {
        payload: Payload::I16,
        ..step(
            "library",
            "the library, 4 lanes",
            "the backend as users have it: blocks stay on the GPU for a whole chunk and exchange their edges",
            How::Library { lanes: LANES },
        )
    },
    Step {
        payload: Payload::I16,
        ..step(
            "library1",
            "the library, 1 lane",
            "one pedestal chain: the default",
            How::Library { lanes: 1 },
        )
    },
];

const fn slots(name: &'static str, title: &'static str, ring: usize) -> Step {
    let how = How::Chunks(ChunkPlan { launch: 16, delivery: Delivery::Direct, ring, ..COARSE });
    let change = "the chunk step with another number of chunks in flight";
    Step { payload: Payload::I16, f32_only: true, ..step(name, title, change, how) }
}

/// Steps that answer a question of their own and are no rung: how many slots help, and one pedestal chain on the CPU.
pub const EXTRA: &[Step] = &[
    slots("slots1", "1 slot", 1),
    slots("slots2", "2 slots", 2),
    slots("slots3", "3 slots", 3),
    slots("slots4", "4 slots", 4),
    slots("slots6", "6 slots", 6),
    step("baseline1", "CPU, 1 lane", "what the library with 1 lane is compared with", How::Cpu { lanes: 1 }),
];

impl Step {
    /// Rungs, then the others.
    pub fn all() -> impl Iterator<Item = &'static Step> {
        STEPS.iter().chain(EXTRA)
    }

    /// The step of a name.
    ///
    /// # Errors
    /// [`Error::Param`] for an unknown one; it lists the known ones.
    pub fn named(name: &str) -> Result<&'static Step> {
        Step::all().find(|s| s.name == name).ok_or_else(|| {
            let names: Vec<&str> = Step::all().map(|s| s.name).collect();
            Error::param("step", name, format!("one of {}", names.join(", ")))
        })
    }

    /// The step that this one changes: the one before it, but for the routes, which leave the way and lead nowhere.
    pub fn follows(&self) -> Option<&'static Step> {
        let name = match self.name {
            "opt5" => "opt4",
            "routeB2" | "opt6" => "opt5",
            name => {
                let at = STEPS.iter().position(|s| s.name == name)?;
                return STEPS.get(at.checked_sub(1)?);
            }
        };
        STEPS.iter().find(|s| s.name == name)
    }

    /// Pedestal chains.
    pub fn lanes(&self) -> usize {
        match self.how {
            How::Cpu { lanes } | How::Library { lanes } => lanes,
            _ => LANES,
        }
    }

    /// Whether it needs a GPU.
    pub fn on_gpu(&self) -> bool {
        !matches!(self.how, How::Cpu { .. })
    }

    /// Whether it allocates while it runs, so that its page faults are part of its story.
    pub fn allocates(&self) -> bool {
        matches!(self.how, How::Frames(plan) if plan.ownership != Ownership::View)
    }

    /// The precision in which the story tells it: sums in f64 until the step that makes them f32.
    pub fn told_in(&self) -> Precision {
        let turn = STEPS.iter().position(|s| s.f32_only);
        let at = STEPS.iter().position(|s| s.name == self.name);
        match (at, turn) {
            (Some(at), Some(turn)) if at < turn => Precision::F64F32,
            _ => Precision::F32,
        }
    }

    /// Whether it is a rung of the story rather than an answer to a question of its own.
    pub fn is_rung(&self) -> bool {
        STEPS.iter().any(|s| s.name == self.name)
    }

    /// The precisions that it is done in.
    pub fn precisions(&self) -> &'static [Precision] {
        match (self.f32_only, self.how) {
            (true, _) => &[Precision::F32],
            (false, _) => &[Precision::F64F32, Precision::F32],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_step_has_a_name_of_its_own() {
        for (i, s) in Step::all().enumerate() {
            assert_eq!(Step::all().position(|t| t.name == s.name), Some(i));
            assert_eq!(Step::named(s.name).unwrap().title, s.title);
        }
        let follows = |name: &str| Step::named(name).unwrap().follows().map(|s| s.name);
        for (step, before) in [
            ("opt1", "baseline"),
            ("routeA", "opt4"),
            ("opt5", "opt4"),
            ("routeB1", "opt5"),
            ("routeB2", "opt5"),
            ("opt6", "opt5"),
            ("coarse", "opt7"),
            ("library1", "library"),
        ] {
            assert_eq!(follows(step), Some(before), "{step}");
        }
        assert_eq!((follows("baseline"), follows("slots3")), (None, None));
        assert!(Step::named("opt99").unwrap_err().to_string().contains("opt1, opt2"));
    }
}
