//! A driver without a GPU, for tests: its memory is the host's, its kernels run on the CPU, and its streams are
//! queues whose work is done as late as possible, as early as possible, or at a random time that the order of streams
//! and events allows. A missing wait, a buffer used too early or let go too soon shows as a wrong result.
//!
//! GPUs with numbers from [`FIRST`] on are fakes; the mode is that of the number.

use std::alloc::{Layout, alloc, dealloc};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::sync::{LazyLock, Mutex, MutexGuard};

use cudarc::driver::sys::{
    CUDA_MEMCPY2D, CUcontext, CUdevice, CUdeviceptr, CUevent, CUfunction, CUgraph, CUgraphExec, CUmodule,
    CUstream,
};
use scheidegg_kernels::device::{self, abi};

use super::api::{Api, Code, OUT_OF_MEMORY};
use crate::sim::block::BlockState;
use crate::sim::launch;

/// The number of the first fake GPU: work is done as late as possible.
pub(super) const FIRST: usize = 1000;
/// Work is done at once.
pub(super) const EAGER: usize = 1001;
/// Work is done at random times.
pub(super) const RANDOM: usize = 1002;
/// As [`FIRST`], with little memory.
pub(super) const SMALL: usize = 1003;

const MULTIPROCESSORS: u32 = 4;
const GUARD: usize = 256;
const POISON: u8 = 0xa5;

/// A launch: entry, blocks, arguments.
type Launch = (&'static str, [u32; 2], Arguments);

#[expect(clippy::large_enum_variant, reason = "there are few of them")]
enum Op {
    Copy { to: usize, from: usize, width: usize, to_pitch: usize, from_pitch: usize, rows: usize },
    Fill { at: usize, bytes: usize, value: u8 },
    Launch { entry: &'static str, grid: [u32; 2], arguments: Arguments },
    Record { event: usize, count: u64 },
    Wait { event: usize, count: u64 },
}

#[derive(Clone, Copy)]
enum Arguments {
    F32(abi::FrameArgs<f32>),
    F64(abi::FrameArgs<f64>),
    Gather(abi::GatherArgs),
}

// SAFETY: addresses; what they lead to is touched under the lock of the fake alone.
unsafe impl Send for Arguments {}

#[derive(Default)]
struct Fake {
    next: usize,
    /// Which GPU's context the calls are for.
    device: HashMap<std::thread::ThreadId, usize>,
    streams: BTreeMap<usize, Stream>,
    /// Times recorded into a stream, and times reached.
    events: BTreeMap<usize, (u64, u64)>,
    memory: BTreeMap<usize, (usize, Layout)>,
    graphs: BTreeMap<usize, Vec<Launch>>,
    capturing: BTreeMap<usize, Vec<Launch>>,
    seed: u64,
}

#[derive(Default)]
struct Stream {
    device: usize,
    queue: VecDeque<Op>,
}

static FAKE: LazyLock<Mutex<Fake>> = LazyLock::new(Mutex::default);

/// The names of the entries that exist, so that a handle can be a place in this list.
fn entries() -> Vec<&'static str> {
    abi::FRAME_ENTRIES.into_iter().chain([abi::SCAN, abi::OFFSETS, abi::PLACE, abi::COPY]).collect()
}

fn fake() -> MutexGuard<'static, Fake> {
    FAKE.lock().unwrap_or_else(|e| e.into_inner())
}

impl Fake {
    fn handle(&mut self) -> usize {
        self.next += 16;
        self.next
    }

    fn current(&self) -> usize {
        *self.device.get(&std::thread::current().id()).expect("a context is current on this thread")
    }

    /// The next number of the random order.
    fn random(&mut self, n: usize) -> usize {
        self.seed = self.seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.seed >> 33) as usize % n
    }

    fn push(&mut self, stream: usize, op: Op) {
        let device = self.streams.get(&stream).expect("a stream that exists").device;
        assert_eq!(device, self.current(), "a stream of another context");
        if let Some(nodes) = self.capturing.get_mut(&stream) {
            match op {
                Op::Launch { entry, grid, arguments } => nodes.push((entry, grid, arguments)),
                _ => panic!("only launches are captured here"),
            }
            return;
        }
        self.streams.get_mut(&stream).expect("seen").queue.push_back(op);
        match device {
            EAGER => self.run(stream, &|s| s.queue.is_empty()),
            RANDOM => {
                for _ in 0..self.random(4) {
                    let streams: Vec<usize> =
                        self.streams.iter().filter(|(_, s)| !s.queue.is_empty()).map(|(k, _)| *k).collect();
                    if streams.is_empty() {
                        return;
                    }
                    let one = streams[self.random(streams.len())];
                    let left = self.streams[&one].queue.len();
                    self.run(one, &|s| s.queue.len() < left);
                }
            }
            _ => {}
        }
    }

    /// Does a stream's work until it is far enough, and what that waits for.
    fn run(&mut self, stream: usize, enough: &dyn Fn(&Stream) -> bool) {
        while !enough(&self.streams[&stream]) {
            let op = self.streams.get_mut(&stream).expect("a stream").queue.pop_front().expect("more work");
            match op {
                Op::Wait { event, count } if self.events[&event].1 < count => {
                    let recorded = |s: &Stream| {
                        s.queue.iter().any(
                            |o| matches!(o, Op::Record { event: e, count: c } if *e == event && *c >= count),
                        )
                    };
                    let other = self.streams.iter().find(|(_, s)| recorded(s)).map(|(k, _)| *k);
                    let other = other.expect("an event that is waited for will be recorded");
                    self.run(other, &|s| !recorded(s));
                    assert!(self.events[&event].1 >= count);
                }
                Op::Wait { .. } => {}
                Op::Record { event, count } => {
                    // An event that was destroyed meanwhile is nobody's concern.
                    if let Some(e) = self.events.get_mut(&event) {
                        e.1 = count;
                    }
                }
                Op::Copy { to, from, width, to_pitch, from_pitch, rows } => {
                    for r in 0..rows {
                        // SAFETY: whoever asked for the copy promised that both ends are valid until now.
                        unsafe {
                            std::ptr::copy_nonoverlapping(
                                (from + r * from_pitch) as *const u8,
                                (to + r * to_pitch) as *mut u8,
                                width,
                            );
                        }
                    }
                }
                // SAFETY: as above.
                Op::Fill { at, bytes, value } => unsafe { (at as *mut u8).write_bytes(value, bytes) },
                Op::Launch { entry, grid, arguments } => run_kernel(entry, grid, &arguments),
            }
        }
    }

    fn finish(&mut self, stream: usize) {
        self.run(stream, &|s| s.queue.is_empty());
    }

    fn finish_all(&mut self) {
        for stream in self.streams.keys().copied().collect::<Vec<_>>() {
            self.finish(stream);
        }
    }

    fn allocate(&mut self, bytes: usize, value: u8) -> usize {
        let layout = Layout::from_size_align(bytes + 2 * GUARD, 4096).expect("a layout");
        // SAFETY: the layout is not empty; all of it is written before it is read.
        let at = unsafe {
            let at = alloc(layout);
            assert!(!at.is_null());
            at.write_bytes(POISON, bytes + 2 * GUARD);
            // Host memory starts at a page as the driver's does; the guard is only behind it there.
            at.write_bytes(value, bytes);
            at as usize
        };
        self.memory.insert(at, (bytes, layout));
        at
    }

    fn free(&mut self, at: usize) {
        let (bytes, layout) = self.memory.remove(&at).expect("memory that was allocated");
        // SAFETY: allocated above with this layout; nobody uses it any more.
        unsafe {
            let guard = std::slice::from_raw_parts((at + bytes) as *const u8, 2 * GUARD);
            assert!(
                guard.iter().all(|b| *b == POISON),
                "something was written behind {bytes} bytes of memory"
            );
            dealloc(at as *mut u8, layout);
        }
    }
}

/// Blocks of an entry that finds clusters.
fn frame_grid(tiling: &abi::Tiling, lanes: u32) -> [u32; 2] {
    [tiling.tiles(), if tiling.is_resident() { 1 } else { lanes }]
}

fn run_kernel(entry: &str, grid: [u32; 2], arguments: &Arguments) {
    match arguments {
        Arguments::F32(a) => {
            assert_eq!(grid, frame_grid(&a.tiling, a.lanes), "the grid of {entry}");
            assert!(a.sum_in != a.sum_out && a.sum2_in != a.sum2_out, "pedestal in place");
            // SAFETY: the scheduler's promise at the launch; that is what these tests are about.
            unsafe { launch::frame(entry, grid[1], a) }
        }
        Arguments::F64(a) => {
            assert_eq!(grid, frame_grid(&a.tiling, a.lanes), "the grid of {entry}");
            assert!(a.sum_in != a.sum_out && a.sum2_in != a.sum2_out, "pedestal in place");
            // SAFETY: as above.
            unsafe { launch::frame(entry, grid[1], a) }
        }
        Arguments::Gather(a) => {
            let (blocks, threads, shared) = match entry {
                abi::SCAN => (Some(a.frames), abi::SCAN_THREADS, abi::SCAN_SHARED_BYTES),
                abi::OFFSETS => (Some(1), abi::SCAN_THREADS, abi::SCAN_SHARED_BYTES),
                abi::PLACE => (Some(a.frames * a.tiling.tiles()), abi::PLACE_THREADS, 0),
                _ => (None, abi::COPY_THREADS, 0),
            };
            assert!(blocks.is_none_or(|b| b == grid[0]) && grid[1] == 1, "the grid of {entry}");
            for i in 0..grid[0] {
                let state = BlockState::new((i, 0), grid[0], threads, shared);
                // SAFETY: as above.
                unsafe {
                    match entry {
                        abi::SCAN => device::scan(state.block(), a),
                        abi::OFFSETS => device::offsets(state.block(), a),
                        abi::PLACE => device::place(state.block(), a),
                        _ => device::copy(state.block(), a),
                    }
                }
            }
        }
    }
}

// The functions. Each has the type of its namesake in the driver and is called by our own layer alone, which gives it
// valid pointers; that is the safety of every block below.
macro_rules! functions {
    ($(fn $name:ident($($arg:ident: $t:ty),* $(,)?) $body:block)*) => {
        $(#[allow(non_snake_case, unused_unsafe)]
        unsafe extern "C" fn $name($($arg: $t),*) -> Code {
            // SAFETY: see above.
            unsafe { $body }
        })*

        /// The fake driver.
        pub(super) fn api() -> &'static Api {
            static API: LazyLock<Api> = LazyLock::new(|| Api { $($name,)* version: 13_000 });
            &API
        }
    };
}

functions! {
    fn cuInit(_flags: c_uint) { 0 }
    fn cuDriverGetVersion(version: *mut c_int) { *version = 13_000; 0 }
    fn cuGetErrorName(_code: Code, name: *mut *const c_char) { *name = c"CUDA_ERROR_FAKE".as_ptr(); 0 }
    fn cuGetErrorString(_code: Code, text: *mut *const c_char) { *text = c"a fake error".as_ptr(); 0 }
    fn cuDeviceGetCount(count: *mut c_int) { *count = 2000; 0 }
    fn cuDeviceGet(device: *mut CUdevice, ordinal: c_int) { *device = ordinal; 0 }
    fn cuDeviceGetName(name: *mut c_char, _len: c_int, _device: CUdevice) {
        for (i, b) in b"Fake GPU\0".iter().enumerate() {
            *name.add(i) = *b as c_char;
        }
        0
    }
    fn cuDeviceGetAttribute(value: *mut c_int, what: c_uint, _device: CUdevice) {
        *value = match what { 16 => MULTIPROCESSORS as c_int, 75 => 9, 76 => 0, 95 => 1, 97 => 227 * 1024, _ => 0 };
        0
    }
    fn cuDevicePrimaryCtxRetain(context: *mut CUcontext, device: CUdevice) {
        *context = device as usize as CUcontext;
        0
    }
    fn cuDevicePrimaryCtxRelease_v2(_device: CUdevice) { 0 }
    fn cuCtxSetCurrent(context: CUcontext) {
        fake().device.insert(std::thread::current().id(), context as usize);
        0
    }
    fn cuModuleLoadDataEx(
        module: *mut CUmodule, _image: *const c_void, _n: c_uint, _o: *mut c_uint, _v: *mut *mut c_void,
    ) { *module = 16 as CUmodule; 0 }
    fn cuModuleUnload(_module: CUmodule) { 0 }
    fn cuModuleGetFunction(function: *mut CUfunction, _module: CUmodule, name: *const c_char) {
        let name = CStr::from_ptr(name).to_str().unwrap_or("");
        match entries().iter().position(|e| *e == name) {
            Some(i) => { *function = (i + 1) as CUfunction; 0 }
            None => 500,
        }
    }
    fn cuFuncSetAttribute(_function: CUfunction, _what: c_uint, _value: c_int) { 0 }
    fn cuOccupancyMaxActiveBlocksPerMultiprocessor(n: *mut c_int, _f: CUfunction, _t: c_int, _s: usize) { *n = 2; 0 }
    fn cuStreamCreate(stream: *mut CUstream, _flags: c_uint) {
        let mut f = fake();
        let (h, device) = (f.handle(), f.current());
        f.streams.insert(h, Stream { device, queue: VecDeque::new() });
        *stream = h as CUstream;
        0
    }
    fn cuStreamDestroy_v2(stream: CUstream) {
        let mut f = fake();
        f.finish(stream as usize);
        f.streams.remove(&(stream as usize));
        0
    }
    fn cuStreamSynchronize(stream: CUstream) { fake().finish(stream as usize); 0 }
    fn cuStreamWaitEvent(stream: CUstream, event: CUevent, _flags: c_uint) {
        let mut f = fake();
        let count = f.events[&(event as usize)].0;
        f.push(stream as usize, Op::Wait { event: event as usize, count });
        0
    }
    fn cuStreamBeginCapture_v2(stream: CUstream, _mode: c_uint) {
        fake().capturing.insert(stream as usize, Vec::new());
        0
    }
    fn cuStreamEndCapture(stream: CUstream, graph: *mut CUgraph) {
        let mut f = fake();
        let nodes = f.capturing.remove(&(stream as usize)).expect("a capture was begun");
        let h = f.handle();
        f.graphs.insert(h, nodes);
        *graph = h as CUgraph;
        0
    }
    fn cuGraphInstantiateWithFlags(exec: *mut CUgraphExec, graph: CUgraph, _flags: u64) {
        let mut f = fake();
        let h = f.handle();
        let nodes = f.graphs[&(graph as usize)].clone();
        f.graphs.insert(h, nodes);
        *exec = h as CUgraphExec;
        0
    }
    fn cuGraphLaunch(exec: CUgraphExec, stream: CUstream) {
        let mut f = fake();
        for (entry, grid, arguments) in f.graphs[&(exec as usize)].clone() {
            f.push(stream as usize, Op::Launch { entry, grid, arguments });
        }
        0
    }
    fn cuGraphExecDestroy(exec: CUgraphExec) { fake().graphs.remove(&(exec as usize)); 0 }
    fn cuGraphDestroy(graph: CUgraph) { fake().graphs.remove(&(graph as usize)); 0 }
    fn cuEventCreate(event: *mut CUevent, _flags: c_uint) {
        let mut f = fake();
        let h = f.handle();
        f.events.insert(h, (0, 0));
        *event = h as CUevent;
        0
    }
    fn cuEventDestroy_v2(event: CUevent) { fake().events.remove(&(event as usize)); 0 }
    fn cuEventRecord(event: CUevent, stream: CUstream) {
        let mut f = fake();
        let e = f.events.get_mut(&(event as usize)).expect("an event");
        e.0 += 1;
        let count = e.0;
        f.push(stream as usize, Op::Record { event: event as usize, count });
        0
    }
    fn cuEventSynchronize(event: CUevent) {
        let mut f = fake();
        let e = event as usize;
        let (count, reached) = f.events[&e];
        if reached < count {
            let recorded = |s: &Stream| {
                s.queue.iter().any(|o| matches!(o, Op::Record { event, count: c } if *event == e && *c >= count))
            };
            let stream = f.streams.iter().find(|(_, s)| recorded(s)).map(|(k, _)| *k).expect("it was recorded");
            f.run(stream, &|s| !recorded(s));
        }
        0
    }
    fn cuEventElapsedTime(ms: *mut f32, _start: CUevent, _end: CUevent) { *ms = 1.0; 0 }
    fn cuMemGetInfo_v2(free: *mut usize, total: *mut usize) { *free = 1 << 34; *total = 1 << 35; 0 }
    fn cuMemAlloc_v2(at: *mut CUdeviceptr, bytes: usize) {
        let mut f = fake();
        if f.current() == SMALL && bytes > 1 << 20 {
            return OUT_OF_MEMORY;
        }
        *at = f.allocate(bytes, POISON) as u64;
        0
    }
    fn cuMemFree_v2(at: CUdeviceptr) {
        let mut f = fake();
        f.finish_all();
        f.free(at as usize);
        0
    }
    fn cuMemHostAlloc(at: *mut *mut c_void, bytes: usize, _flags: c_uint) {
        *at = fake().allocate(bytes, POISON) as *mut c_void;
        0
    }
    fn cuMemFreeHost(at: *mut c_void) {
        let mut f = fake();
        f.finish_all();
        f.free(at as usize);
        0
    }
    fn cuMemHostGetDevicePointer_v2(device: *mut CUdeviceptr, host: *mut c_void, _flags: c_uint) {
        *device = host as u64;
        0
    }
    fn cuMemHostRegister_v2(_at: *mut c_void, _bytes: usize, _flags: c_uint) { 0 }
    fn cuMemHostUnregister(_at: *mut c_void) { 0 }
    fn cuMemcpyHtoDAsync_v2(to: CUdeviceptr, from: *const c_void, bytes: usize, stream: CUstream) {
        copy(stream, to as usize, from as usize, bytes);
        0
    }
    fn cuMemcpyDtoHAsync_v2(to: *mut c_void, from: CUdeviceptr, bytes: usize, stream: CUstream) {
        copy(stream, to as usize, from as usize, bytes);
        0
    }
    fn cuMemcpy2DAsync_v2(c: *const CUDA_MEMCPY2D, stream: CUstream) {
        let c = &*c;
        fake().push(stream as usize, Op::Copy {
            to: c.dstDevice as usize,
            from: c.srcHost as usize,
            width: c.WidthInBytes,
            to_pitch: c.dstPitch,
            from_pitch: c.srcPitch,
            rows: c.Height,
        });
        0
    }
    fn cuMemsetD8Async(at: CUdeviceptr, value: u8, bytes: usize, stream: CUstream) {
        fake().push(stream as usize, Op::Fill { at: at as usize, bytes, value });
        0
    }
    fn cuLaunchKernel(
        function: CUfunction, gx: c_uint, gy: c_uint, gz: c_uint, bx: c_uint, by: c_uint, bz: c_uint,
        shared: c_uint, stream: CUstream, parameters: *mut *mut c_void, _extra: *mut *mut c_void,
    ) {
        let entry = start(function, [gx, gy, gz], [bx, by, bz], shared, stream, *parameters);
        assert!(!entry.starts_with("resident_"), "{entry} launched without all its blocks at once");
        0
    }
    fn cuLaunchCooperativeKernel(
        function: CUfunction, gx: c_uint, gy: c_uint, gz: c_uint, bx: c_uint, by: c_uint, bz: c_uint,
        shared: c_uint, stream: CUstream, parameters: *mut *mut c_void,
    ) {
        assert!(gx * gy <= MULTIPROCESSORS, "more blocks at once than there is room for");
        start(function, [gx, gy, gz], [bx, by, bz], shared, stream, *parameters);
        0
    }
}

/// Puts a launch into a stream; the entry's name.
///
/// # Safety
/// The argument is the one that the entry takes.
unsafe fn start(
    function: CUfunction,
    grid: [u32; 3],
    block: [u32; 3],
    shared: u32,
    stream: CUstream,
    argument: *const c_void,
) -> &'static str {
    let entry = entries()[function as usize - 1];
    assert!(grid[2] == 1 && grid[0] > 0 && grid[1] > 0, "the grid of {entry}");
    // SAFETY: the caller's promise, in every line.
    let (arguments, threads, bytes) = unsafe {
        if entry.contains("_f32_") {
            let a = *argument.cast::<abi::FrameArgs<f32>>();
            (Arguments::F32(a), a.tiling.threads(), a.tiling.shared_bytes)
        } else if entry.contains("_f64_") {
            let a = *argument.cast::<abi::FrameArgs<f64>>();
            (Arguments::F64(a), a.tiling.threads(), a.tiling.shared_bytes)
        } else {
            let a = Arguments::Gather(*argument.cast::<abi::GatherArgs>());
            match entry {
                abi::SCAN | abi::OFFSETS => (a, abi::SCAN_THREADS, abi::SCAN_SHARED_BYTES),
                abi::PLACE => (a, abi::PLACE_THREADS, 0),
                _ => (a, abi::COPY_THREADS, 0),
            }
        }
    };
    assert_eq!((block, shared), ([threads, 1, 1], bytes), "block and shared memory of {entry}");
    fake().push(stream as usize, Op::Launch { entry, grid: [grid[0], grid[1]], arguments });
    entry
}

fn copy(stream: CUstream, to: usize, from: usize, bytes: usize) {
    fake().push(
        stream as usize,
        Op::Copy { to, from, width: bytes, to_pitch: bytes, from_pitch: bytes, rows: 1 },
    );
}
