//! How a batch is cut into tiles, and how a tile is worked on.
//!
//! The frames of a lane are a chain: frame `k` may convert row `r` when frame `k - 1` has updated it. Rows are cut into
//! *bands*, each of which belongs to one thread for good, so that its state stays in that core's caches. A frame runs
//! down through the bands; what a thread hands to the next one is the corrected values of the few rows above the
//! border that windows below it reach.
//!
//! Where the state is too large for the caches, several frames, a *group*, go through the band as a wave, each some
//! rows behind the one before, so that rows of the state are fetched once a group. A frame's borders lie the wave's
//! shift higher than those of the frame before, so that within a tile nobody waits for another thread.

// Counters reach several arrays at once.
#![allow(clippy::needless_range_loop)]

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};

use scheidegg_finder::record_bytes;
use scheidegg_kernels::physics::Decision;
use scheidegg_kernels::{Convert, Real};

use super::aligned::{Aligned, Plain};
use super::engine::{Batch, hold};
use super::job::{AT_ONCE, Job, Layout, Pipe, Stage};
use super::lane::{Sums, add_mask};

/// Rows that a frame of a wave is carried on at a time.
const STEP: usize = 8;

/// Frames of a group at most.
pub(super) const MOST: usize = 8;

/// Which rows and lanes belong to which thread.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    rows: usize,
    /// Lanes that are worked on at once, each by other threads.
    pub chains: usize,
    /// Threads of a lane, each with a band of rows.
    pub bands: usize,
    /// Frames of a group.
    pub group: usize,
    /// Rows by which the borders of a frame lie above those of the frame before.
    shift: usize,
}

impl Plan {
    /// For `threads` threads. Every thread gets the same share of lanes and rows.
    pub fn new(layout: &Layout, lanes: usize, threads: usize, group: usize) -> Plan {
        let chains = gcd(lanes, threads);
        let shift = layout.size.down().max(1).next_multiple_of(AT_ONCE);
        // A wave must not reach back beyond a band, nor the windows at its end beyond what was handed to it.
        let least = (group - 1) * shift + (layout.size.h + AT_ONCE).next_multiple_of(AT_ONCE);
        let bands = (threads / chains).min(layout.rows / least).max(1);
        Plan { rows: layout.rows, chains, bands, group, shift }
    }

    /// The first lane and the band of a thread.
    pub fn place(&self, thread: usize) -> Option<(usize, usize)> {
        (thread < self.chains * self.bands).then_some((thread / self.bands, thread % self.bands))
    }

    /// Where a band begins for the `i`-th frame of a group; [`Plan::bands`] ends the last one.
    fn border(&self, band: usize, i: usize) -> usize {
        match band {
            0 => 0,
            b if b == self.bands => self.rows,
            b => self.rows * b / self.bands / AT_ONCE * AT_ONCE - i * self.shift,
        }
    }
}

fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// A number that one thread writes and another watches, on cache lines of its own.
#[derive(Default)]
#[repr(align(128))]
pub(super) struct Mark(pub AtomicUsize);

/// How far a band of a lane has come.
#[derive(Default)]
pub(super) struct Post {
    /// Groups that are through, and whose last rows lie in the edge.
    pub finished: Mark,
    /// Groups whose first rows are decided, and which have left the edge of the band above.
    pub started: Mark,
}

/// A frame on its way through a band, and its masked pixels. On cache lines of its own.
#[repr(align(128))]
struct Way<C> {
    pipe: Pipe<C>,
    mask: Option<Aligned<u64>>,
}

/// What a thread keeps. On cache lines of its own.
#[repr(align(128))]
pub(super) struct Crew<C> {
    ways: Vec<Way<C>>,
    /// Stages that no frame uses.
    pub free: Vec<Stage>,
    /// Finished cells that are not in the result yet.
    pub pending: VecDeque<(usize, Stage)>,
}

impl<C: Real + Plain> Crew<C> {
    /// For groups of so many frames.
    pub fn new(group: usize, pipe: impl Fn() -> Pipe<C>) -> Self {
        let ways = (0..group).map(|_| Way { pipe: pipe(), mask: None }).collect();
        Crew { ways, free: Vec::new(), pending: VecDeque::new() }
    }
}

/// A thread has failed.
pub(super) struct Failed;

impl<P: Sums + Convert<C>, C: Real + Plain> Batch<'_, P, C> {
    /// Carries the frames of a group of a lane through a band.
    pub fn tile(&self, g: usize, lane: usize, band: usize, crew: &mut Crew<C>) -> Result<(), Failed> {
        let (engine, plan) = (self.engine, &self.engine.plan);
        let (layout, bands) = (&engine.layout, plan.bands);
        let (up, down) = (layout.size.up(), layout.size.down());
        let frame = |i: usize| self.frame(lane, g * self.size + i);
        let count = (0..self.size).take_while(|&i| frame(i) < self.frames.len()).count();
        let post = |band: usize| &engine.posts[lane * bands + band];
        let bottom = band + 1 == bands;
        if count == 0 {
            return Ok(());
        }
        if band > 0 {
            self.wait(&post(band - 1).finished, g + 1)?;
        }
        let mut jobs: [Option<Job<P, C>>; MOST] = [const { None }; MOST];
        for i in 0..count {
            let way = &mut crew.ways[i];
            way.pipe.restart(plan.border(band, i));
            if band > 0 {
                // SAFETY: `finished` says that the edge is written, and it is written again only after `started`.
                way.pipe.take(up, unsafe { self.edge(lane, band - 1, i) });
            }
            way.pipe.stage = crew.free.pop().unwrap_or_default();
            self.open(frame(i) * bands + band, count, &mut way.pipe.stage);
            jobs[i] = Some(self.job(frame(i), lane, &mut way.mask));
        }
        // Below this row the state of the group before is the next band's to make.
        let own = plan.border(band + 1, self.size - 1);
        let (mut ready, mut begun, mut done) = (bottom || g == 0, false, 0);
        while done < count {
            let step = if count == 1 { layout.rows } else { STEP };
            let mut limit = crew.ways[done].pipe.converted + step;
            for i in done..count {
                let end = (plan.border(band + 1, i) + down).min(layout.rows);
                limit = limit.min(end);
                if i == 0 && !ready && limit > own {
                    if crew.ways[0].pipe.converted < own {
                        limit = own;
                    } else {
                        self.wait(&post(band + 1).started, g)?;
                        ready = true;
                    }
                }
                // The band above waits for the first rows: they go first.
                let pipe = &mut crew.ways[i].pipe;
                let head = (plan.border(band, 0) + 2 * down + AT_ONCE).min(end);
                let stops =
                    if band > 0 && count == 1 && !begun { [head.min(limit), limit] } else { [limit; 2] };
                for stop in stops {
                    if stop > pipe.converted {
                        let job = jobs[i].as_ref().expect("a job for every frame of the group");
                        // SAFETY: the instruction set was checked when the engine was built. The rows before `stop`
                        // are decided by the frame before: in this tile, in an earlier one of this thread, or in
                        // one that was waited for.
                        unsafe { (engine.advance)(job, pipe, stop) };
                    }
                    if !begun && i + 1 == count && pipe.decided >= plan.border(band, 0) + down {
                        begun = true;
                        post(band).started.0.store(g + 1, Ordering::Release);
                    }
                }
                limit = pipe.decided;
            }
            while done < count && crew.ways[done].pipe.decided == plan.border(band + 1, done) {
                let pipe = &mut crew.ways[done].pipe;
                if !ready {
                    // Windows that reach no row below have not made it wait yet.
                    self.wait(&post(band + 1).started, g)?;
                    ready = true;
                }
                if !bottom {
                    // SAFETY: the next band has read what was there: it has started the group before.
                    pipe.give(up, unsafe { self.edge(lane, band, done) });
                }
                let stage = std::mem::take(&mut pipe.stage);
                self.close(frame(done) * bands + band, stage, crew);
                done += 1;
            }
        }
        post(band).finished.0.store(g + 1, Ordering::Release);
        Ok(())
    }

    /// The index in the batch of a lane's `i`-th frame.
    fn frame(&self, lane: usize, i: usize) -> usize {
        let lanes = self.engine.params.lanes as u64;
        ((lane as u64 + lanes - self.first % lanes) % lanes) as usize + i * lanes as usize
    }

    /// What the `i`-th frame of a group leaves at the lower border of a band.
    ///
    /// # Safety
    /// Nobody else uses it.
    #[allow(clippy::mut_from_ref)]
    unsafe fn edge(&self, lane: usize, band: usize, i: usize) -> &mut [C] {
        let engine = self.engine;
        let len = engine.edge;
        // SAFETY: every lane has `bands * group` edges.
        unsafe {
            let at = self.planes[lane].edges.add((band * engine.plan.group + i) * len);
            std::slice::from_raw_parts_mut(at, len)
        }
    }

    /// Waits until a mark has reached a value.
    pub fn wait(&self, mark: &Mark, value: usize) -> Result<(), Failed> {
        let mut turns = 0u32;
        while mark.0.load(Ordering::Acquire) < value {
            if self.failed.load(Ordering::Acquire) {
                return Err(Failed);
            }
            turns += 1;
            // Should there be fewer processors than threads, the one that is waited for must get its turn.
            if turns.is_multiple_of(256) {
                std::thread::yield_now();
            } else {
                std::hint::spin_loop();
            }
        }
        Ok(())
    }

    fn job(&self, k: usize, lane: usize, own: &mut Option<Aligned<u64>>) -> Job<P, C> {
        let (engine, planes) = (self.engine, &self.planes[lane]);
        let (layout, params) = (engine.layout, &engine.params);
        let run = engine.mask.as_ref();
        let mask = match self.frames.lost(k) {
            None => run.map_or(std::ptr::null(), |m| m.as_slice().as_ptr()),
            Some(lost) => {
                let rows = own.get_or_insert_with(|| Aligned::zeroed(layout.rows * layout.words));
                match run {
                    Some(run) => rows.as_mut_slice().copy_from_slice(run.as_slice()),
                    None => rows.as_mut_slice().fill(0),
                }
                add_mask(lost, layout, rows.as_mut_slice());
                rows.as_slice().as_ptr()
            }
        };
        Job {
            layout,
            inv_n: planes.inv_n,
            rule: Decision::new(
                params.size.w as u32,
                params.size.h as u32,
                params.n_sigma,
                params.noise_floor_adu,
            ),
            state: planes.state,
            x0: planes.x0,
            fixed: planes.fixed,
            frame: self.frames.frame(k).as_ptr(),
            mask,
            trace: match params.trace {
                true => self.codes.0.wrapping_add(k * layout.rows * layout.cols),
                false => std::ptr::null_mut(),
            },
            payload: params.payload,
            ties_first: params.ties == scheidegg_finder::Ties::First,
            test2: params.test2,
            small: planes.small,
        }
    }

    /// Gives a stage a place in the result when all cells before its own are finished, and no other cell of its tile
    /// is written at the same time.
    fn open(&self, cell: usize, frames: usize, stage: &mut Stage) {
        stage.restart();
        if frames > 1 {
            return;
        }
        let at = hold(&self.engine.ledger).at(cell);
        if let Some(at) = at.filter(|&at| at < self.room) {
            let bytes = self.record_bytes();
            // SAFETY: the result has `room` records. Nobody else gets a place until this cell is finished.
            unsafe { stage.restart_at(self.base.0.add(at * bytes), (self.room - at) * bytes) };
        }
    }

    /// Finishes a cell.
    fn close(&self, cell: usize, stage: Stage, crew: &mut Crew<C>) {
        hold(&self.engine.ledger).finish(cell, stage.len / self.record_bytes(), stage.saturated);
        match stage.aside() {
            Some(_) => crew.pending.push_back((cell, stage)),
            None => crew.free.push(stage),
        }
    }

    /// Copies what the thread has put aside and whose place is known by now.
    pub fn settle(&self, crew: &mut Crew<C>, thread: usize) {
        let bytes = self.record_bytes();
        while let Some((cell, _)) = crew.pending.front() {
            let Some(at) = hold(&self.engine.ledger).start(*cell) else { return };
            let Some((cell, stage)) = crew.pending.pop_front() else { return };
            let records = stage.aside().unwrap_or_default();
            if at * bytes + records.len() > self.room * bytes {
                hold(&self.engine.late).push((thread, cell, stage));
                continue;
            }
            // SAFETY: the records fit, and no other cell has this part.
            unsafe { records.as_ptr().copy_to_nonoverlapping(self.base.0.add(at * bytes), records.len()) };
            crew.free.push(stage);
        }
    }

    fn record_bytes(&self) -> usize {
        record_bytes(self.engine.params.size, self.engine.params.payload)
    }
}
