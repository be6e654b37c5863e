//! The driver's objects as Rust values that free themselves: context, module, function, stream, event, graph.
//!
//! Each keeps its context alive. Every method that can fail says which driver call failed. Freeing cannot be
//! reported to anyone, so errors while freeing are ignored (after a fault of the device every call fails).

use std::ffi::{CString, c_int, c_uint, c_void};
use std::sync::{Arc, Mutex, Weak};

use cudarc::driver::sys::{self, CUcontext, CUdevice, CUevent, CUfunction, CUgraphExec, CUmodule, CUstream};
use scheidegg_finder::{Error, Result};

use super::api::{Api, cu, unavailable};
use super::ptx::check_ptx;

/// What a GPU says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceInfo {
    /// Its number among the GPUs that the driver shows.
    pub ordinal: usize,
    /// Its name, like `NVIDIA H200`.
    pub name: String,
    /// Streaming multiprocessors.
    pub sms: u32,
    /// Compute capability, `(9, 0)` for a Hopper chip.
    pub capability: (u32, u32),
    /// Bytes of shared memory that a block may ask for.
    pub shared_bytes: usize,
    /// Whether all blocks of a launch can be made to run at once.
    pub cooperative: bool,
    /// The CUDA version that the driver speaks, `(13, 0)`.
    pub driver: (u32, u32),
}

impl std::fmt::Display for DeviceInfo {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (major, minor) = self.driver;
        write!(f, "{}, {} SMs, driver for CUDA {major}.{minor}", self.name, self.sms)
    }
}

/// How many GPUs there are.
///
/// # Errors
/// [`Error::Unavailable`] without a driver.
pub fn device_count() -> Result<usize> {
    count(Api::get()?)
}

fn count(api: &Api) -> Result<usize> {
    let mut count = 0;
    // SAFETY: the driver is initialised and writes one integer.
    unsafe { cu!(api, cuDeviceGetCount(&raw mut count))? };
    Ok(usize::try_from(count).unwrap_or(0))
}

/// The primary context of a GPU: the one that other CUDA libraries of the process use too.
pub(super) struct Context {
    pub(super) api: &'static Api,
    device: CUdevice,
    raw: CUcontext,
    info: DeviceInfo,
    /// The modules that some finder still uses: compiling PTX takes a while.
    modules: Mutex<Vec<(String, Weak<Module>)>>,
}

// SAFETY: the driver API is thread-safe; a context may be current on several threads at once.
unsafe impl Send for Context {}
// SAFETY: as above; what is mutated after construction is under a lock.
unsafe impl Sync for Context {}

impl Context {
    /// Opens a GPU, or gives the context that is open already.
    ///
    /// # Errors
    /// [`Error::Unavailable`] when there is no driver or no such GPU, [`Error::Device`] when it cannot be opened.
    pub(super) fn open(ordinal: usize) -> Result<Arc<Context>> {
        static OPEN: Mutex<Vec<(usize, Weak<Context>)>> = Mutex::new(Vec::new());
        let mut open = OPEN.lock().unwrap_or_else(|e| e.into_inner());
        if let Some(context) = open.iter().find(|(n, _)| *n == ordinal).and_then(|(_, c)| c.upgrade()) {
            context.bind()?;
            return Ok(context);
        }
        let info = DeviceInfo::of(ordinal)?;
        let api = Api::of(ordinal)?;
        let mut device = 0;
        let mut raw = std::ptr::null_mut();
        // SAFETY: the ordinal is below the device count; the context is released in `drop`.
        unsafe {
            cu!(api, cuDeviceGet(&raw mut device, ordinal as c_int))?;
            cu!(api, cuDevicePrimaryCtxRetain(&raw mut raw, device))?;
        }
        let context = Arc::new(Context { api, device, raw, info, modules: Mutex::default() });
        context.bind()?;
        open.retain(|(n, c)| *n != ordinal && c.strong_count() > 0);
        open.push((ordinal, Arc::downgrade(&context)));
        Ok(context)
    }

    /// Makes the context current on this thread. Everything that talks to the driver does this first: a finder
    /// may be moved between threads.
    pub(super) fn bind(&self) -> Result<()> {
        // SAFETY: the context is retained for as long as `self` lives.
        unsafe { cu!(self.api, cuCtxSetCurrent(self.raw)) }
    }

    /// The GPU.
    pub(super) fn info(&self) -> &DeviceInfo {
        &self.info
    }

    /// Free and total bytes of the GPU's memory.
    pub(super) fn memory(&self) -> Result<(usize, usize)> {
        self.bind()?;
        let (mut free, mut total) = (0, 0);
        // SAFETY: two integers are written.
        unsafe { cu!(self.api, cuMemGetInfo_v2(&raw mut free, &raw mut total))? };
        Ok((free, total))
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: retained once in `open`.
        unsafe { (self.api.cuDevicePrimaryCtxRelease_v2)(self.device) };
    }
}

impl DeviceInfo {
    /// Asks the driver about a GPU, without opening it.
    ///
    /// # Errors
    /// [`Error::Unavailable`] when there is no driver or no such GPU.
    pub fn of(ordinal: usize) -> Result<DeviceInfo> {
        let api = Api::of(ordinal)?;
        let count = count(api)?;
        if ordinal >= count {
            let there = if count == 0 { "none".into() } else { format!("0 to {}", count - 1) };
            return Err(unavailable(format!("there is no GPU {ordinal} (the driver shows {there})")));
        }
        let mut device = 0;
        let mut name = [0u8; 256];
        // SAFETY: the ordinal is below the count, and the name's buffer has the length given.
        unsafe {
            cu!(api, cuDeviceGet(&raw mut device, ordinal as c_int))?;
            cu!(api, cuDeviceGetName(name.as_mut_ptr().cast(), name.len() as c_int, device))?;
        }
        let attribute = |what: sys::CUdevice_attribute| -> Result<u32> {
            let mut value = 0;
            // SAFETY: one integer is written.
            unsafe { cu!(api, cuDeviceGetAttribute(&raw mut value, what as c_uint, device))? };
            Ok(u32::try_from(value).unwrap_or(0))
        };
        use sys::CUdevice_attribute as A;
        let end = name.iter().position(|b| *b == 0).unwrap_or(name.len());
        let version = u32::try_from(api.version).unwrap_or(0);
        Ok(DeviceInfo {
            ordinal,
            name: String::from_utf8_lossy(&name[..end]).into_owned(),
            sms: attribute(A::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?,
            capability: (
                attribute(A::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?,
                attribute(A::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
            ),
            shared_bytes: attribute(A::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)? as usize,
            cooperative: attribute(A::CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH)? != 0,
            driver: (version / 1000, version % 1000 / 10),
        })
    }
}

/// Device code, compiled by the driver for its GPU.
pub(super) struct Module {
    context: Arc<Context>,
    raw: CUmodule,
}

// SAFETY: a module handle may be used from any thread.
unsafe impl Send for Module {}
// SAFETY: nothing is mutated after construction.
unsafe impl Sync for Module {}

impl Module {
    /// Compiles PTX for the context's GPU, or gives the module of the same text that is still in use.
    ///
    /// # Errors
    /// [`Error::Unavailable`] when the driver is older than the PTX or the GPU older than its target, with what
    /// is needed; [`Error::Device`] with the compiler's own words otherwise.
    pub(super) fn load(context: &Arc<Context>, ptx: &str) -> Result<Arc<Module>> {
        let mut modules = context.modules.lock().unwrap_or_else(|e| e.into_inner());
        modules.retain(|(_, m)| m.strong_count() > 0);
        if let Some(module) = modules.iter().find(|(text, _)| text == ptx).and_then(|(_, m)| m.upgrade()) {
            return Ok(module);
        }
        let module = Self::compile(context, ptx)?;
        modules.push((ptx.into(), Arc::downgrade(&module)));
        Ok(module)
    }

    fn compile(context: &Arc<Context>, ptx: &str) -> Result<Arc<Module>> {
        context.bind()?;
        check_ptx(ptx, context.info())?;
        let text = CString::new(ptx).map_err(|_| Error::Other("the PTX has a zero byte in it".into()))?;
        let mut log = vec![0u8; 8192];
        use sys::CUjit_option as J;
        let mut options =
            [J::CU_JIT_ERROR_LOG_BUFFER as c_uint, J::CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES as c_uint];
        // The driver reads the size from the pointer's own bits.
        let mut values = [log.as_mut_ptr().cast::<c_void>(), log.len() as *mut c_void];
        let mut raw = std::ptr::null_mut();
        let api = context.api;
        // SAFETY: the text ends in a zero byte; options and values have two entries each; the log lives on.
        let loaded = unsafe {
            (api.cuModuleLoadDataEx)(
                &raw mut raw,
                text.as_ptr().cast(),
                2,
                options.as_mut_ptr(),
                values.as_mut_ptr(),
            )
        };
        if loaded != 0 {
            let end = log.iter().position(|b| *b == 0).unwrap_or(log.len());
            let log = String::from_utf8_lossy(&log[..end]);
            return Err(Error::Device {
                backend: super::api::BACKEND.into(),
                call: "cuModuleLoadDataEx".into(),
                message: format!("{} {}", api.words(loaded), log.trim()).trim().into(),
            });
        }
        Ok(Arc::new(Module { context: context.clone(), raw }))
    }

    /// An entry of the module that may use `shared_bytes` of dynamic shared memory.
    ///
    /// # Errors
    /// [`Error::Device`] when there is no such entry or the GPU has not that much shared memory.
    pub(super) fn function(self: &Arc<Self>, entry: &str, shared_bytes: usize) -> Result<Function> {
        self.context.bind()?;
        let api = self.context.api;
        let name = CString::new(entry).map_err(|_| Error::Other(format!("no entry is called {entry:?}")))?;
        let mut raw = std::ptr::null_mut();
        // SAFETY: the module is loaded and the name ends in a zero byte.
        let code = unsafe { (api.cuModuleGetFunction)(&raw mut raw, self.raw, name.as_ptr()) };
        api.check(&format!("cuModuleGetFunction({entry})"), code)?;
        // Above 48 KiB a kernel has to ask.
        if shared_bytes > 48 * 1024 {
            let what = sys::CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
            // SAFETY: the function belongs to a loaded module.
            let code = unsafe { (api.cuFuncSetAttribute)(raw, what as c_uint, shared_bytes as c_int) };
            api.check(&format!("cuFuncSetAttribute({entry}, {shared_bytes} bytes of shared memory)"), code)?;
        }
        Ok(Function { module: self.clone(), raw })
    }
}

impl Drop for Module {
    fn drop(&mut self) {
        if self.context.bind().is_ok() {
            // SAFETY: loaded in `load`; every `Function` holds the module, so none is left.
            unsafe { (self.context.api.cuModuleUnload)(self.raw) };
        }
    }
}

/// An entry of a module.
pub(super) struct Function {
    module: Arc<Module>,
    raw: CUfunction,
}

// SAFETY: a function handle may be used from any thread.
unsafe impl Send for Function {}
// SAFETY: nothing is mutated after construction.
unsafe impl Sync for Function {}

/// How many threads a kernel runs with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Geometry {
    /// Blocks in x, y and z.
    pub(super) grid: [u32; 3],
    /// Threads of a block in x, y and z.
    pub(super) block: [u32; 3],
    /// Bytes of dynamic shared memory of a block.
    pub(super) shared_bytes: u32,
    /// Whether all blocks must run at once; otherwise the launch fails.
    pub(super) together: bool,
}

impl Function {
    /// Puts a launch with one argument, a structure by value, into a stream.
    ///
    /// # Safety
    /// `A` is `repr(C)` and is the type that the entry takes, the geometry is one that it was written for, and
    /// every address in `arguments` is valid for what the kernel does with it until the stream has run it.
    pub(super) unsafe fn launch<A: Copy>(
        &self,
        stream: &Stream,
        geometry: Geometry,
        arguments: &A,
    ) -> Result<()> {
        let Geometry { grid, block, shared_bytes, together } = geometry;
        let api = self.module.context.api;
        let mut parameters = [std::ptr::from_ref(arguments).cast_mut().cast::<c_void>()];
        if together {
            // SAFETY: as below.
            return unsafe {
                cu!(
                    api,
                    cuLaunchCooperativeKernel(
                        self.raw,
                        grid[0],
                        grid[1],
                        grid[2],
                        block[0],
                        block[1],
                        block[2],
                        shared_bytes,
                        stream.raw,
                        parameters.as_mut_ptr(),
                    )
                )
            };
        }
        // SAFETY: the driver copies the one argument out of `parameters` before it returns; the rest is the
        // caller's promise.
        unsafe {
            cu!(
                api,
                cuLaunchKernel(
                    self.raw,
                    grid[0],
                    grid[1],
                    grid[2],
                    block[0],
                    block[1],
                    block[2],
                    shared_bytes,
                    stream.raw,
                    parameters.as_mut_ptr(),
                    std::ptr::null_mut(),
                )
            )
        }
    }

    /// Blocks of this size that one multiprocessor holds at once.
    pub(super) fn blocks_per_sm(&self, threads: u32, shared_bytes: usize) -> Result<u32> {
        let mut blocks = 0;
        // SAFETY: one integer is written.
        unsafe {
            cu!(
                self.module.context.api,
                cuOccupancyMaxActiveBlocksPerMultiprocessor(
                    &raw mut blocks,
                    self.raw,
                    threads as c_int,
                    shared_bytes
                )
            )?;
        }
        Ok(u32::try_from(blocks).unwrap_or(0))
    }
}

/// A queue of work on a GPU. Streams do not wait for each other unless told so.
pub(super) struct Stream {
    context: Arc<Context>,
    pub(super) raw: CUstream,
}

// SAFETY: a stream handle may be used from any thread.
unsafe impl Send for Stream {}
// SAFETY: the driver locks its own streams.
unsafe impl Sync for Stream {}

impl Stream {
    /// A new stream.
    pub(super) fn new(context: &Arc<Context>) -> Result<Stream> {
        context.bind()?;
        let mut raw = std::ptr::null_mut();
        let flags = sys::CUstream_flags::CU_STREAM_NON_BLOCKING as c_uint;
        // SAFETY: the context is current; the handle is destroyed in `drop`.
        unsafe { cu!(context.api, cuStreamCreate(&raw mut raw, flags))? };
        Ok(Stream { context: context.clone(), raw })
    }

    /// The context it belongs to.
    pub(super) fn context(&self) -> &Arc<Context> {
        &self.context
    }

    /// Waits on the host until everything in the stream has run.
    pub(super) fn synchronize(&self) -> Result<()> {
        // SAFETY: the stream is alive.
        unsafe { cu!(self.context.api, cuStreamSynchronize(self.raw)) }
    }

    /// Lets what comes next in this stream wait for an event.
    pub(super) fn wait(&self, event: &Event) -> Result<()> {
        // SAFETY: both are alive.
        unsafe { cu!(self.context.api, cuStreamWaitEvent(self.raw, event.raw, 0)) }
    }

    /// Records what `work` puts into this stream as a graph instead of running it.
    pub(super) fn capture(&self, work: impl FnOnce() -> Result<()>) -> Result<Graph> {
        let api = self.context.api;
        // Only this thread's calls count as part of the capture: other finders go on undisturbed.
        let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL as c_uint;
        // SAFETY: the stream is alive; capture ends below whatever `work` says.
        unsafe { cu!(api, cuStreamBeginCapture_v2(self.raw, mode))? };
        let worked = work();
        let mut graph = std::ptr::null_mut();
        // SAFETY: capture was begun above.
        let ended = unsafe { cu!(api, cuStreamEndCapture(self.raw, &raw mut graph)) };
        let mut raw = std::ptr::null_mut();
        let made = worked.and(ended).and_then(|()| {
            // SAFETY: the graph was made by the capture.
            unsafe { cu!(api, cuGraphInstantiateWithFlags(&raw mut raw, graph, 0)) }
        });
        if !graph.is_null() {
            // SAFETY: an instantiated graph does not need its template.
            unsafe { (api.cuGraphDestroy)(graph) };
        }
        made?;
        Ok(Graph { context: self.context.clone(), raw })
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if self.context.bind().is_ok() {
            // SAFETY: created in `new`. Work still in the stream is finished by the driver first.
            unsafe { (self.context.api.cuStreamDestroy_v2)(self.raw) };
        }
    }
}

/// A recorded sequence of launches that goes to the GPU as one.
pub(super) struct Graph {
    context: Arc<Context>,
    raw: CUgraphExec,
}

// SAFETY: a graph handle may be used from any thread, one at a time (`launch` takes `&mut self`).
unsafe impl Send for Graph {}

impl Graph {
    /// Puts the whole sequence into a stream.
    ///
    /// # Safety
    /// Every address in the recorded launches is still valid, see [`Function::launch`].
    pub(super) unsafe fn launch(&mut self, stream: &Stream) -> Result<()> {
        // SAFETY: graph and stream are alive; the rest is the caller's promise.
        unsafe { cu!(self.context.api, cuGraphLaunch(self.raw, stream.raw)) }
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        if self.context.bind().is_ok() {
            // SAFETY: instantiated in `capture`.
            unsafe { (self.context.api.cuGraphExecDestroy)(self.raw) };
        }
    }
}

/// A point in a stream.
pub(super) struct Event {
    context: Arc<Context>,
    raw: CUevent,
}

// SAFETY: an event handle may be used from any thread.
unsafe impl Send for Event {}
// SAFETY: the driver locks its own events.
unsafe impl Sync for Event {}

impl Event {
    /// A new event; one that cannot tell the time is cheaper.
    pub(super) fn new(context: &Arc<Context>, timing: bool) -> Result<Event> {
        context.bind()?;
        let flags = match timing {
            true => sys::CUevent_flags::CU_EVENT_DEFAULT,
            false => sys::CUevent_flags::CU_EVENT_DISABLE_TIMING,
        };
        let mut raw = std::ptr::null_mut();
        // SAFETY: the context is current; the handle is destroyed in `drop`.
        unsafe { cu!(context.api, cuEventCreate(&raw mut raw, flags as c_uint))? };
        Ok(Event { context: context.clone(), raw })
    }

    /// Marks the stream's end as it is now.
    pub(super) fn record(&self, stream: &Stream) -> Result<()> {
        // SAFETY: both are alive.
        unsafe { cu!(self.context.api, cuEventRecord(self.raw, stream.raw)) }
    }

    /// Waits on the host until the stream has reached the mark.
    pub(super) fn synchronize(&self) -> Result<()> {
        // SAFETY: the event is alive.
        unsafe { cu!(self.context.api, cuEventSynchronize(self.raw)) }
    }

    /// Seconds from another event to this one; both were made with timing and have been reached.
    pub(super) fn seconds_since(&self, start: &Event) -> Result<f64> {
        let mut ms = 0.0;
        // SAFETY: one float is written.
        unsafe { cu!(self.context.api, cuEventElapsedTime(&raw mut ms, start.raw, self.raw))? };
        Ok(f64::from(ms) * 1e-3)
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        if self.context.bind().is_ok() {
            // SAFETY: created in `new`.
            unsafe { (self.context.api.cuEventDestroy_v2)(self.raw) };
        }
    }
}
