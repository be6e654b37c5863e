//! The engine: lanes, and a batch of frames as a wave over rows.
//!
//! The frames of a lane are a chain: frame `k` may convert row `r` when frame `k - 1` has updated it. So frames run
//! as a wave, each some rows behind the one before. A *group* is a few consecutive frames of a lane that one thread
//! carries through all rows at once: rows of the state are read from memory once a group, not once a frame. The
//! next group follows on another thread. Nobody waits for anything but rows of the frame before.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError, RwLock};

use scheidegg_finder::{
    ClustersBuf, Engine, Error, Frames, Params, Pedestal, PixelMask, Result, Shape, Update, record_bytes,
};
use scheidegg_kernels::physics::Decision;
use scheidegg_kernels::{Convert, Real};

use super::aligned::{Aligned, Plain};
use super::job::{Job, Layout, Pipe, Stage};
use super::lane::{Lane, Sums, add_mask};
use super::pool::Pool;
use super::shells::{Advance, Kernel};

/// Rows that a frame is carried on at a time.
const STEP: usize = 8;

/// Frames of a group at most: for one thread, and for several, where the next group's thread has to fetch the state
/// from another core.
const GROUP: (usize, usize) = (4, 8);

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

/// A frame on its way, and its masked pixels.
struct Way<C> {
    pipe: Pipe<C>,
    mask: Option<Aligned<u64>>,
}

/// The finder in `(P, C)` with one instruction set.
pub(super) struct CpuEngine<P, C> {
    name: &'static str,
    layout: Layout,
    params: Params,
    advance: Advance<P, C>,
    lanes: Vec<Lane<P, C>>,
    /// Room for the pointers of a batch.
    planes: Vec<Planes<P, C>>,
    mask: Option<Aligned<u64>>,
    pool: Pool,
    group: usize,
    ways: Vec<Mutex<Vec<Way<C>>>>,
    /// Stages that no frame uses.
    stages: Mutex<Vec<Stage>>,
    /// Finished frames of a batch that are not in the batch's result yet.
    finished: Vec<Mutex<Option<Stage>>>,
    /// Rows that the last frame of each group has decided.
    progress: Vec<AtomicUsize>,
    counts: Vec<AtomicUsize>,
    trace: Vec<u8>,
    /// Clusters of the largest batch so far.
    most: usize,
}

impl<P: Sums + Convert<C>, C: Real + Plain> CpuEngine<P, C> {
    pub fn new(
        name: &'static str,
        shape: Shape,
        params: &Params,
        advance: Advance<P, C>,
        pool: Pool,
    ) -> Self {
        let layout = Layout::new(shape.rows, shape.cols, params.size);
        let serial = params.update == Update::Serial;
        let pipe = || Pipe::new(layout, params.test2, serial);
        let most = if pool.threads() == 1 { GROUP.0 } else { GROUP.1 };
        let group = (RINGS / pipe().bytes()).clamp(1, most);
        let way = || Way { pipe: pipe(), mask: None };
        let ways = (0..pool.threads()).map(|_| Mutex::new((0..group).map(|_| way()).collect())).collect();
        CpuEngine {
            name,
            layout,
            params: params.clone(),
            advance,
            lanes: Vec::new(),
            planes: Vec::new(),
            mask: None,
            pool,
            group,
            ways,
            stages: Mutex::default(),
            finished: Vec::new(),
            progress: Vec::new(),
            counts: Vec::new(),
            trace: Vec::new(),
            most: 0,
        }
    }
}

/// The result of a batch while several threads write to it.
struct Output<'a> {
    buf: &'a mut ClustersBuf,
    base: *mut u8,
    /// Records that fit.
    room: usize,
}
// SAFETY: `base` points into `buf`, which is borrowed alone; threads write to disjoint parts.
unsafe impl Send for Output<'_> {}
// SAFETY: as above.
unsafe impl Sync for Output<'_> {}

/// What has been handed to the result.
#[derive(Default)]
struct Handed {
    frames: usize,
    clusters: usize,
    saturated: u64,
}

/// The planes of a lane, shared by the threads of a batch.
struct Planes<P, C> {
    state: *mut P,
    x0: *const u16,
    fixed: *const C,
    inv_n: P,
    small: bool,
}
// SAFETY: rows of `state` are handed from thread to thread by `progress`; the rest is read only.
unsafe impl<P: Sync, C: Sync> Sync for Planes<P, C> {}
// SAFETY: as above; between batches the pointers are not used.
unsafe impl<P: Send, C: Send> Send for Planes<P, C> {}

/// A pointer that threads share.
struct Codes(*mut u8);
// SAFETY: every frame writes its own part.
unsafe impl Sync for Codes {}

/// One batch.
struct Batch<'a, P, C> {
    engine: &'a CpuEngine<P, C>,
    planes: &'a [Planes<P, C>],
    frames: Frames<'a>,
    first: u64,
    /// Groups of a lane, frames of a group.
    groups: usize,
    size: usize,
    next: AtomicUsize,
    failed: AtomicBool,
    handed: Mutex<Handed>,
    output: RwLock<Output<'a>>,
    codes: Codes,
}

fn hold<T>(m: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    m.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<P: Sums + Convert<C>, C: Real + Plain> Batch<'_, P, C> {
    /// Takes groups until none is left. Groups are taken in an order in which nobody waits for a group that has not
    /// been taken.
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
        let mut ways = hold(&self.engine.ways[thread]);
        let lanes = self.engine.params.lanes;
        loop {
            let task = self.next.fetch_add(1, Ordering::Relaxed);
            if task >= self.groups * lanes || self.failed.load(Ordering::Acquire) {
                return;
            }
            self.group(task / lanes, task % lanes, &mut ways);
            self.hand_over();
        }
    }

    /// Carries the frames of a group through all rows.
    fn group(&self, g: usize, lane: usize, ways: &mut [Way<C>]) {
        let engine = self.engine;
        let (lanes, rows) = (engine.params.lanes, engine.layout.rows);
        // The lane's first frame of this batch, then every `lanes`-th.
        let start = (lane as u64 + lanes as u64 - self.first % lanes as u64) as usize % lanes;
        let index = |i: usize| start + (g * self.size + i) * lanes;
        let count = (0..self.size).take_while(|&i| index(i) < self.frames.len()).count();
        let progress = |g: usize| &engine.progress[g * lanes + lane];
        if count == 0 {
            return;
        }
        let mut jobs: [Option<Job<P, C>>; GROUP.1] = [const { None }; GROUP.1];
        for (i, (job, way)) in jobs.iter_mut().zip(ways.iter_mut()).enumerate().take(count) {
            way.pipe.stage = hold(&engine.stages).pop().unwrap_or_default();
            way.pipe.restart();
            *job = Some(self.job(index(i), lane, &mut way.mask));
        }
        let mut before = if g == 0 { rows } else { 0 };
        let mut done = 0;
        while done < count {
            let mut limit = (ways[done].pipe.converted + STEP).min(rows);
            for i in done..count {
                if i == 0 && before < limit {
                    before = self.wait(progress(g - 1), limit);
                    if before < limit {
                        return;
                    }
                }
                let pipe = &mut ways[i].pipe;
                if limit > pipe.converted {
                    let job = jobs[i].as_ref().expect("a job for every frame of the group");
                    // SAFETY: the instruction set was checked when the engine was built. The rows before `limit` are
                    // decided by the frame before, whoever carried it: `wait` and `progress` order the accesses.
                    unsafe { (engine.advance)(job, pipe, limit) };
                }
                limit = pipe.decided;
            }
            progress(g).store(limit, Ordering::Release);
            while done < count && ways[done].pipe.decided == rows {
                let stage = std::mem::take(&mut ways[done].pipe.stage);
                engine.counts[index(done)].store(stage.count, Ordering::Relaxed);
                *hold(&engine.finished[index(done)]) = Some(stage);
                done += 1;
            }
        }
    }

    /// Waits until a group has decided `rows` rows; gives up when a thread has failed.
    fn wait(&self, progress: &AtomicUsize, rows: usize) -> usize {
        let mut turns = 0u32;
        loop {
            let now = progress.load(Ordering::Acquire);
            if now >= rows || self.failed.load(Ordering::Acquire) {
                return now;
            }
            turns += 1;
            // Should there be fewer processors than threads, the one that is waited for must get its turn.
            if turns.is_multiple_of(256) {
                std::thread::yield_now();
            } else {
                std::hint::spin_loop();
            }
        }
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

    /// Copies frames whose predecessors are all finished into the result.
    fn hand_over(&self) {
        let engine = self.engine;
        let bytes = record_bytes(engine.params.size, engine.params.payload);
        loop {
            // The place is decided under the lock, the copy is made outside.
            let (stage, at) = {
                let mut handed = hold(&self.handed);
                let Some(slot) =
                    engine.finished.get(handed.frames).filter(|_| handed.frames < self.frames.len())
                else {
                    return;
                };
                let Some(stage) = hold(slot).take() else { return };
                let at = handed.clusters;
                handed.frames += 1;
                handed.clusters += stage.count;
                handed.saturated += stage.saturated;
                (stage, at)
            };
            loop {
                let output = self.output.read().unwrap_or_else(PoisonError::into_inner);
                if at + stage.count <= output.room {
                    // SAFETY: there is room for that many records, and no other frame has this part.
                    unsafe {
                        let to = output.base.add(at * bytes);
                        stage.bytes.as_ptr().copy_to_nonoverlapping(to, stage.len);
                    }
                    break;
                }
                drop(output);
                let mut output = self.output.write().unwrap_or_else(PoisonError::into_inner);
                if at + stage.count > output.room {
                    // All of the spare part moves along, with what other threads have written.
                    let room = (at + stage.count).max(output.room * 2);
                    output.base = output.buf.spare_bytes(room).as_mut_ptr();
                    output.room = room;
                }
            }
            hold(&engine.stages).push(stage);
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
        let (count, lanes) = (frames.len(), self.params.lanes);
        if count == 0 {
            return Ok(0);
        }
        let of_lane = count.div_ceil(lanes);
        let threads = self.pool.threads();
        let mut groups = of_lane.div_ceil(self.group);
        while groups < of_lane && !(groups * lanes).is_multiple_of(threads) {
            groups += 1;
        }
        let size = of_lane.div_ceil(groups);
        self.progress.resize_with((groups * lanes).max(self.progress.len()), Default::default);
        self.counts.resize_with(count.max(self.counts.len()), Default::default);
        self.finished.resize_with(count.max(self.finished.len()), Default::default);
        for p in &self.progress {
            p.store(0, Ordering::Relaxed);
        }
        for slot in &self.finished {
            *hold(slot) = None;
        }
        let pixels = self.layout.rows * self.layout.cols;
        if self.params.trace {
            self.trace.resize(self.trace.len().max(count * pixels), 0);
        }
        let codes = Codes(self.trace.as_mut_ptr());
        let mut planes = std::mem::take(&mut self.planes);
        planes.clear();
        planes.extend(self.lanes.iter_mut().map(|lane| Planes {
            state: lane.state.as_mut_ptr(),
            x0: lane.x0.as_slice().as_ptr(),
            fixed: lane.fixed.as_ref().map_or(std::ptr::null(), |f| f.as_slice().as_ptr()),
            inv_n: lane.inv_n,
            small: lane.small,
        }));
        let room = self.most.max(1);
        let base = out.spare_bytes(room).as_mut_ptr();
        let batch = Batch {
            engine: self,
            planes: &planes,
            frames,
            first,
            groups,
            size,
            next: AtomicUsize::new(0),
            failed: AtomicBool::new(false),
            handed: Mutex::default(),
            output: RwLock::new(Output { buf: out, base, room }),
            codes,
        };
        self.pool.run(&|thread| batch.work(thread));
        batch.hand_over();
        let Batch { handed, .. } = batch;
        let handed = handed.into_inner().unwrap_or_else(PoisonError::into_inner);
        self.planes = planes;
        if handed.frames != count {
            return Err(Error::Other(format!("backend {}: a thread failed", self.name)));
        }
        for k in 0..count {
            out.finish_frame(frames.number(k), self.counts[k].load(Ordering::Relaxed));
            if self.params.trace {
                out.push_trace(&self.trace[k * pixels..][..pixels]);
            }
        }
        self.most = self.most.max(handed.clusters + handed.clusters / 8);
        Ok(handed.saturated)
    }

    /// Enough for every thread to have several groups, few enough for the clusters to stay in the last-level cache.
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
