//! The engine: lanes, threads, and batches.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use scheidegg_finder::{
    ClustersBuf, Engine, Error, Frames, Params, Pedestal, PixelMask, Result, Shape, Update,
};
use scheidegg_kernels::{Convert, Real};

use super::aligned::{Aligned, Plain};
use super::job::{Layout, Pipe, Stage};
use super::lane::{Lane, Sums, add_mask};
use super::ledger::Ledger;
use super::pool::Pool;
use super::shells::{Advance, Kernel};
use super::wave::{Crew, MOST, Plan, Post};

/// Bytes of state up to which frames go through it one by one: what a third-level cache holds.
const RESIDENT: usize = 16 * 1024 * 1024;

/// Frames of a group where the state is larger.
const GROUP: usize = 4;

/// Bytes of rings that a group may have, so that they and the rows of the state stay in the second-level cache.
const RINGS: usize = 512 * 1024;

/// The kernel for parameters.
pub(super) fn kernel(params: &Params) -> Kernel {
    let size = params.size;
    let plain = size.w == size.h && [3, 5, 7, 9].contains(&size.w) && !params.test2 && !params.trace;
    match (params.update, plain) {
        (Update::Frozen, true) => Kernel::Frozen(size.w),
        (Update::Frozen, false) => Kernel::FrozenAny,
        (Update::Serial, true) => Kernel::Serial(size.w),
        (Update::Serial, false) => Kernel::SerialAny,
    }
}

/// The finder in `(P, C)` with one instruction set.
pub(super) struct CpuEngine<P, C> {
    name: &'static str,
    pub layout: Layout,
    pub params: Params,
    pub advance: Advance<P, C>,
    lanes: Vec<Lane<P, C>>,
    /// Room for the pointers of a batch.
    planes: Vec<Planes<P, C>>,
    pub mask: Option<Aligned<u64>>,
    pool: Pool,
    pub plan: Plan,
    /// What frames leave at the borders of bands, lane by lane; values of one of them.
    edges: Vec<Aligned<C>>,
    pub edge: usize,
    /// Every thread's own.
    crews: Vec<Mutex<Crew<C>>>,
    /// How far every band of every lane has come.
    pub posts: Vec<Post>,
    pub ledger: Mutex<Ledger>,
    /// Cells that did not fit into the result: thread, cell, records.
    pub late: Mutex<Vec<(usize, usize, Stage)>>,
    trace: Vec<u8>,
    /// Clusters of the largest batch so far.
    most: usize,
}

impl<P: Sums + Convert<C>, C: Real + Plain> CpuEngine<P, C> {
    /// `group` frames go through a band at once, or as many as suit.
    pub fn new(
        name: &'static str,
        shape: Shape,
        params: &Params,
        advance: Advance<P, C>,
        pool: Pool,
        group: Option<usize>,
    ) -> Self {
        let layout = Layout::new(shape.rows, shape.cols, params.size);
        let pipe = || Pipe::new(layout, kernel(params), params.test2);
        let threads = pool.threads();
        let state = layout.rows * layout.width * params.lanes * (2 * P::BYTES + 2);
        let group = match group {
            Some(group) => group.clamp(1, MOST),
            None if state <= RESIDENT => 1,
            None => (RINGS / pipe().bytes()).clamp(1, GROUP),
        };
        let plan = Plan::new(&layout, params.lanes, threads, group);
        let edge = layout.size.up() * pipe().edge();
        CpuEngine {
            name,
            layout,
            params: params.clone(),
            advance,
            lanes: Vec::new(),
            planes: Vec::new(),
            mask: None,
            pool,
            plan,
            edges: (0..params.lanes).map(|_| Aligned::zeroed(plan.bands * plan.group * edge)).collect(),
            edge,
            crews: (0..threads).map(|_| Mutex::new(Crew::new(plan.group, pipe))).collect(),
            posts: (0..params.lanes * plan.bands).map(|_| Post::default()).collect(),
            ledger: Mutex::default(),
            late: Mutex::default(),
            trace: Vec::new(),
            most: 0,
        }
    }
}

/// The planes of a lane, shared by the threads of a batch.
pub(super) struct Planes<P, C> {
    pub state: *mut P,
    pub x0: *const u16,
    pub fixed: *const C,
    pub edges: *mut C,
    pub inv_n: P,
    pub small: bool,
}
// SAFETY: rows of `state` and `edges` are handed from thread to thread by `Post`; the rest is read only.
unsafe impl<P: Sync, C: Sync> Sync for Planes<P, C> {}
// SAFETY: as above; between batches the pointers are not used.
unsafe impl<P: Send, C: Send> Send for Planes<P, C> {}

/// A pointer that threads share.
pub(super) struct Bytes(pub *mut u8);
// SAFETY: every cell writes its own part.
unsafe impl Sync for Bytes {}

/// One batch.
pub(super) struct Batch<'a, P, C> {
    pub engine: &'a CpuEngine<P, C>,
    pub planes: &'a [Planes<P, C>],
    pub frames: Frames<'a>,
    pub first: u64,
    /// Groups of a lane, frames of a group.
    groups: usize,
    pub size: usize,
    pub failed: AtomicBool,
    /// The result, and the records that fit.
    pub base: Bytes,
    pub room: usize,
    /// Branch codes.
    pub codes: Bytes,
}

pub(super) fn hold<T>(m: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    m.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<P: Sums + Convert<C>, C: Real + Plain> Batch<'_, P, C> {
    /// The part of a thread. Every thread takes its tiles group by group, lane by lane: the first of all tiles that
    /// are not done never waits for another.
    fn work(&self, thread: usize) {
        struct Alarm<'a>(&'a AtomicBool);
        impl Drop for Alarm<'_> {
            fn drop(&mut self) {
                if std::thread::panicking() {
                    self.0.store(true, Ordering::Release);
                }
            }
        }
        let _alarm = Alarm(&self.failed);
        let plan = &self.engine.plan;
        let Some((chain, band)) = plan.place(thread) else { return };
        let mut crew = hold(&self.engine.crews[thread]);
        for g in 0..self.groups {
            for lane in (chain..self.engine.params.lanes).step_by(plan.chains) {
                if self.tile(g, lane, band, &mut crew).is_err() {
                    return;
                }
                self.settle(&mut crew, thread);
            }
        }
        while !crew.pending.is_empty() && !self.failed.load(Ordering::Acquire) {
            std::thread::yield_now();
            self.settle(&mut crew, thread);
        }
    }
}

impl<P: Sums + Convert<C> + Sync, C: Real + Plain + Sync> Engine for CpuEngine<P, C> {
    fn name(&self) -> &str {
        self.name
    }

    fn start(&mut self, pedestal: &Pedestal, mask: Option<&PixelMask>) -> Result<()> {
        for lane in &mut self.lanes {
            lane.set(pedestal, &self.params);
        }
        while self.lanes.len() < self.params.lanes {
            self.lanes.push(Lane::new(self.layout, pedestal, &self.params));
        }
        self.mask = mask.filter(|m| !m.is_empty()).map(|m| {
            let mut rows = Aligned::zeroed(self.layout.rows * self.layout.words);
            add_mask(m, self.layout, rows.as_mut_slice());
            rows
        });
        Ok(())
    }

    fn find(&mut self, frames: Frames<'_>, first: u64, out: &mut ClustersBuf) -> Result<u64> {
        let count = frames.len();
        if count == 0 {
            return Ok(0);
        }
        let of_lane = count.div_ceil(self.params.lanes);
        let groups = of_lane.div_ceil(self.plan.group);
        hold(&self.ledger).begin(count * self.plan.bands);
        for post in &mut self.posts {
            *post = Post::default();
        }
        for crew in &self.crews {
            let mut crew = hold(crew);
            // Of a batch that failed.
            let Crew { pending, free, .. } = &mut *crew;
            free.extend(pending.drain(..).map(|(_, stage)| stage));
        }
        hold(&self.late).clear();
        let pixels = self.layout.rows * self.layout.cols;
        if self.params.trace {
            self.trace.resize(self.trace.len().max(count * pixels), 0);
        }
        let codes = Bytes(self.trace.as_mut_ptr());
        let mut planes = std::mem::take(&mut self.planes);
        planes.clear();
        planes.extend(self.lanes.iter_mut().zip(&mut self.edges).map(|(lane, edges)| Planes {
            state: lane.state.as_mut_ptr(),
            x0: lane.x0.as_slice().as_ptr(),
            fixed: lane.fixed.as_ref().map_or(std::ptr::null(), |f| f.as_slice().as_ptr()),
            edges: edges.as_mut_ptr(),
            inv_n: lane.inv_n,
            small: lane.small,
        }));
        let batch = Batch {
            engine: self,
            planes: &planes,
            frames,
            first,
            groups,
            size: of_lane.div_ceil(groups),
            failed: AtomicBool::new(false),
            base: Bytes(out.spare_bytes(self.most).as_mut_ptr()),
            room: self.most,
            codes,
        };
        self.pool.run(&|thread| batch.work(thread));
        self.planes = planes;
        let ledger = hold(&self.ledger);
        if !ledger.is_complete() {
            return Err(Error::Other(format!("backend {}: a thread failed", self.name)));
        }
        let (clusters, saturated) = ledger.totals();
        let bytes = scheidegg_finder::record_bytes(self.params.size, self.params.payload);
        for (thread, cell, stage) in hold(&self.late).drain(..) {
            let (Some(start), Some(records)) = (ledger.start(cell), stage.aside()) else { continue };
            // What is in the result already moves along when it grows.
            out.spare_bytes(clusters)[start * bytes..][..records.len()].copy_from_slice(records);
            hold(&self.crews[thread]).free.push(stage);
        }
        for (k, clusters) in ledger.frames(self.plan.bands).enumerate() {
            out.finish_frame(frames.number(k), clusters);
            if self.params.trace {
                out.push_trace(&self.trace[k * pixels..][..pixels]);
            }
        }
        self.most = self.most.max(clusters + clusters / 8 + self.layout.cols);
        Ok(saturated)
    }

    /// Enough for threads to wait little for each other at both ends, few enough for the clusters to stay in the
    /// last-level cache.
    fn batch_frames(&self) -> usize {
        match self.pool.threads() {
            1 => 16,
            n => 32 * n,
        }
    }

    fn pedestal(&self, lane: usize) -> Pedestal {
        self.lanes[lane].pedestal()
    }

    fn set_lane(&mut self, lane: usize, pedestal: &Pedestal) {
        self.lanes[lane].set(pedestal, &self.params);
    }
}
