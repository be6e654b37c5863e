//! The driver's objects as the ladder's steps use them: plain, complete, and nothing hidden.
//!
//! The library has a layer of its own (`host/src/cuda`), built for one way of working. The steps here need all the
//! others too, the slow ones among them, so they stand on `cudarc` directly.

use std::ffi::{CString, c_void};
use std::sync::Arc;

use cudarc::driver::result::{self, DriverError};
use cudarc::driver::sys;
use scheidegg::{Error, Result};

/// Turns a driver error into ours, with the name of the call.
fn check<T>(call: &'static str, r: Result<T, DriverError>) -> Result<T> {
    r.map_err(|e| Error::Device {
        backend: "ladder".into(),
        call: call.into(),
        message: e.error_name().map_or_else(|_| format!("{:?}", e.0), |n| n.to_string_lossy().into_owned()),
    })
}

/// The first GPU.
pub struct Device {
    device: sys::CUdevice,
    /// Multiprocessors.
    pub sms: u32,
}

impl Device {
    /// Opens the first GPU.
    ///
    /// # Errors
    /// [`Error::Unavailable`] without a driver or a GPU, [`Error::Device`] for a refused call.
    pub fn open() -> Result<Arc<Device>> {
        let none = |reason: &str| Error::Unavailable { backend: "ladder".into(), reason: reason.into() };
        // SAFETY: opening the driver's library runs its initialisers, which is what it is for.
        if !unsafe { sys::is_culib_present() } {
            return Err(none("no NVIDIA driver is installed (libcuda was not found)"));
        }
        check("cuInit", result::init())?;
        if check("cuDeviceGetCount", result::device::get_count())? == 0 {
            return Err(none("the driver shows no GPU"));
        }
        let device = check("cuDeviceGet", result::device::get(0))?;
        let sms = sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT;
        // SAFETY: the device exists; the context is released in `drop`.
        let sms = unsafe {
            let context = check("cuDevicePrimaryCtxRetain", result::primary_ctx::retain(device))?;
            check("cuCtxSetCurrent", result::ctx::set_current(context))?;
            check("cuDeviceGetAttribute", result::device::get_attribute(device, sms))?
        };
        Ok(Arc::new(Device { device, sms: sms as u32 }))
    }

    /// Waits for everything.
    ///
    /// # Errors
    /// [`Error::Device`] for whatever went wrong on the way.
    pub fn synchronize(&self) -> Result<()> {
        check("cuCtxSynchronize", result::ctx::synchronize())
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        // SAFETY: every object that belongs to the context holds the device, so none is left.
        let _ = unsafe { result::primary_ctx::release(self.device) };
    }
}

/// Device code that the driver has compiled for the GPU.
pub struct Module {
    raw: sys::CUmodule,
    _device: Arc<Device>,
}

impl Module {
    /// Loads a PTX text.
    ///
    /// # Errors
    /// [`Error::Device`] when the driver refuses it.
    pub fn load(device: &Arc<Device>, ptx: &str) -> Result<Module> {
        let text = CString::new(ptx).map_err(|_| Error::Other("a PTX text holds no zero bytes".into()))?;
        // SAFETY: the text ends in a zero byte; the module is unloaded in `drop`.
        let raw = unsafe { check("cuModuleLoadData", result::module::load_data(text.as_ptr().cast()))? };
        Ok(Module { raw, _device: device.clone() })
    }

    /// An entry, allowed to use this much dynamic shared memory. It must not outlive the module.
    ///
    /// # Errors
    /// [`Error::Device`] when there is no such entry or not so much memory.
    pub fn function(&self, name: &str, shared_bytes: u32) -> Result<Function> {
        let c = CString::new(name).map_err(|_| Error::Other(format!("no entry is called {name:?}")))?;
        // SAFETY: the module is loaded.
        let raw = unsafe { check("cuModuleGetFunction", result::module::get_function(self.raw, c))? };
        if shared_bytes > 48 * 1024 {
            let what = sys::CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
            // SAFETY: the function is one of the loaded module.
            unsafe {
                let r = result::function::set_function_attribute(raw, what, shared_bytes as i32);
                check("cuFuncSetAttribute", r)?;
            }
        }
        Ok(Function { raw })
    }
}

impl Drop for Module {
    fn drop(&mut self) {
        // SAFETY: loaded in `load`; whoever holds functions of it holds it too.
        let _ = unsafe { result::module::unload(self.raw) };
    }
}

/// An entry of a module.
pub struct Function {
    raw: sys::CUfunction,
}

/// Memory on the GPU.
pub struct DeviceMemory {
    at: sys::CUdeviceptr,
    bytes: usize,
    _device: Arc<Device>,
}

impl DeviceMemory {
    /// Memory that holds zeros.
    ///
    /// # Errors
    /// [`Error::Device`] when there is not so much.
    pub fn new(device: &Arc<Device>, bytes: u64) -> Result<DeviceMemory> {
        let bytes = usize::try_from(bytes.max(16)).map_err(|_| Error::Other("beyond usize".into()))?;
        // SAFETY: the context is current on the one thread that the steps use; freed in `drop`.
        let at = unsafe { check("cuMemAlloc", result::malloc_sync(bytes))? };
        // SAFETY: the memory has just been allocated.
        unsafe { check("cuMemsetD8", result::memset_d8_sync(at, 0, bytes))? };
        Ok(DeviceMemory { at, bytes, _device: device.clone() })
    }

    /// Memory with these values in it.
    ///
    /// # Errors
    /// As [`DeviceMemory::new`].
    pub fn of<T: bytemuck::NoUninit>(device: &Arc<Device>, values: &[T]) -> Result<DeviceMemory> {
        let memory = Self::new(device, size_of_val(values) as u64)?;
        memory.fill(0, values)?;
        Ok(memory)
    }

    /// Writes values at a byte offset and waits for it.
    ///
    /// # Errors
    /// [`Error::Device`].
    ///
    /// # Panics
    /// When they do not fit.
    pub fn fill<T: bytemuck::NoUninit>(&self, offset: usize, values: &[T]) -> Result<()> {
        assert!(offset + size_of_val(values) <= self.bytes, "values beyond the end of device memory");
        // SAFETY: within the allocation.
        unsafe { check("cuMemcpyHtoD", result::memcpy_htod_sync(self.at + offset as u64, values)) }
    }

    /// The address of a byte offset, as kernels take it.
    pub fn at<T>(&self, offset: u64) -> *mut T {
        assert!(offset <= self.bytes as u64, "an address beyond the end of device memory");
        (self.at + offset) as *mut T
    }
}

impl Drop for DeviceMemory {
    fn drop(&mut self) {
        // SAFETY: allocated in `new`; the streams that used it have been waited for or are finished by the driver.
        let _ = unsafe { result::free_sync(self.at) };
    }
}

/// Page-locked memory of the host.
pub struct Pinned {
    at: *mut u8,
    bytes: usize,
    _device: Arc<Device>,
}

// SAFETY: plain memory with one owner.
unsafe impl Send for Pinned {}
// SAFETY: shared references only read.
unsafe impl Sync for Pinned {}

impl Pinned {
    /// Memory that holds zeros. `write_combined` is for input that the host never reads.
    ///
    /// # Errors
    /// [`Error::Device`] when the system does not pin so much.
    pub fn new(device: &Arc<Device>, bytes: usize, write_combined: bool) -> Result<Pinned> {
        let bytes = bytes.max(16);
        let flags = if write_combined { sys::CU_MEMHOSTALLOC_WRITECOMBINED } else { 0 };
        // SAFETY: freed in `drop`; the memory is `bytes` long and is zeroed before anyone reads it.
        let at = unsafe { check("cuMemHostAlloc", result::malloc_host(bytes, flags))?.cast::<u8>() };
        // SAFETY: as above.
        unsafe { at.write_bytes(0, bytes) };
        Ok(Pinned { at, bytes, _device: device.clone() })
    }

    /// Some of the bytes. The GPU must not be writing to them; it may write to others.
    pub fn part(&self, at: usize, bytes: usize) -> &[u8] {
        assert!(at + bytes <= self.bytes, "bytes beyond the end of pinned memory");
        // SAFETY: within the allocation, initialised, and by the events that the callers wait for not being written.
        unsafe { std::slice::from_raw_parts(self.at.add(at), bytes) }
    }

    /// The address of a byte, as kernels take it: host and GPU share their addresses.
    pub fn at(&self, at: usize) -> *mut u8 {
        assert!(at <= self.bytes, "an address beyond the end of pinned memory");
        // SAFETY: within the allocation or just behind it.
        unsafe { self.at.add(at) }
    }

    /// The bytes, to be written.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and `self` is borrowed for as long.
        unsafe { std::slice::from_raw_parts_mut(self.at, self.bytes) }
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        // SAFETY: allocated in `new`.
        let _ = unsafe { result::free_host(self.at.cast()) };
    }
}

/// A queue of work. Every method that enqueues returns before the work is done.
pub struct Stream {
    raw: sys::CUstream,
    _device: Arc<Device>,
}

impl Stream {
    /// A stream that waits for no other.
    ///
    /// # Errors
    /// [`Error::Device`].
    pub fn new(device: &Arc<Device>) -> Result<Stream> {
        let raw = check("cuStreamCreate", result::stream::create(result::stream::StreamKind::NonBlocking))?;
        Ok(Stream { raw, _device: device.clone() })
    }

    /// Waits until all work in the stream is done.
    ///
    /// # Errors
    /// [`Error::Device`].
    pub fn synchronize(&self) -> Result<()> {
        // SAFETY: the stream is alive.
        unsafe { check("cuStreamSynchronize", result::stream::synchronize(self.raw)) }
    }

    /// Lets later work of this stream wait for an event.
    ///
    /// # Errors
    /// [`Error::Device`].
    pub fn wait(&self, event: &Event) -> Result<()> {
        let none = sys::CUevent_wait_flags::CU_EVENT_WAIT_DEFAULT;
        // SAFETY: both are alive.
        unsafe { check("cuStreamWaitEvent", result::stream::wait_event(self.raw, event.raw, none)) }
    }

    /// Copies from the host. With pageable memory the driver returns after it has staged the bytes.
    ///
    /// # Errors
    /// [`Error::Device`].
    ///
    /// # Safety
    /// Pinned source memory must stay as it is until the stream has got here.
    pub unsafe fn upload<T>(&self, to: &DeviceMemory, offset: u64, from: &[T]) -> Result<()> {
        assert!(offset as usize + size_of_val(from) <= to.bytes, "a copy beyond the end of device memory");
        // SAFETY: within the destination; the rest is the caller's promise.
        unsafe { check("cuMemcpyHtoDAsync", result::memcpy_htod_async(to.at + offset, from, self.raw)) }
    }

    /// Copies to the host.
    ///
    /// # Errors
    /// [`Error::Device`].
    ///
    /// # Safety
    /// `to` must point to `bytes` bytes that nobody else touches until the stream has got here.
    pub unsafe fn download(&self, to: *mut u8, from: &DeviceMemory, offset: u64, bytes: usize) -> Result<()> {
        assert!(offset as usize + bytes <= from.bytes, "a copy beyond the end of device memory");
        // SAFETY: the caller's promise.
        let to = unsafe { std::slice::from_raw_parts_mut(to, bytes) };
        // SAFETY: as above.
        unsafe { check("cuMemcpyDtoHAsync", result::memcpy_dtoh_async(to, from.at + offset, self.raw)) }
    }

    /// Copies to an offset within page-locked memory.
    ///
    /// # Errors
    /// [`Error::Device`].
    ///
    /// # Safety
    /// Nobody may touch those bytes until the stream has got here.
    pub unsafe fn download_pinned(
        &self,
        to: &Pinned,
        at: usize,
        from: &DeviceMemory,
        offset: u64,
        bytes: usize,
    ) -> Result<()> {
        assert!(at + bytes <= to.bytes, "a copy beyond the end of pinned memory");
        // SAFETY: within both; the rest is the caller's promise.
        unsafe { self.download(to.at.add(at), from, offset, bytes) }
    }

    /// Sets bytes to 0.
    ///
    /// # Errors
    /// [`Error::Device`].
    pub fn clear(&self, memory: &DeviceMemory) -> Result<()> {
        // SAFETY: the whole of a living allocation.
        unsafe { check("cuMemsetD8Async", result::memset_d8_async(memory.at, 0, memory.bytes, self.raw)) }
    }

    /// Copies within the GPU: all of one allocation into another of at least its size.
    ///
    /// # Errors
    /// [`Error::Device`].
    pub fn copy(&self, to: &DeviceMemory, from: &DeviceMemory) -> Result<()> {
        assert!(to.bytes >= from.bytes, "a copy beyond the end of device memory");
        // SAFETY: within both.
        let r = unsafe { result::memcpy_dtod_async(to.at, from.at, from.bytes, self.raw) };
        check("cuMemcpyDtoDAsync", r)
    }

    /// Launches an entry with one argument, a structure by value.
    ///
    /// # Errors
    /// [`Error::Device`].
    ///
    /// # Safety
    /// `A` is what the entry takes, and every address in it stays valid until the stream has got here.
    pub unsafe fn launch<A: Copy>(
        &self,
        function: &Function,
        grid: (u32, u32),
        threads: u32,
        shared_bytes: u32,
        arguments: &A,
    ) -> Result<()> {
        let mut parameters = [std::ptr::from_ref(arguments).cast_mut().cast::<c_void>()];
        let (grid, block) = ((grid.0, grid.1, 1), (threads, 1, 1));
        // SAFETY: the driver copies the argument before it returns; the rest is the caller's promise.
        let r = unsafe {
            result::launch_kernel(function.raw, grid, block, shared_bytes, self.raw, &mut parameters)
        };
        check("cuLaunchKernel", r)
    }

    /// Records what `work` puts into the stream as a graph.
    ///
    /// # Errors
    /// [`Error::Device`], or what `work` says.
    pub fn capture(&self, work: impl FnOnce() -> Result<()>) -> Result<Graph> {
        let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        // SAFETY: the stream is alive, and capture ends two lines below.
        unsafe { check("cuStreamBeginCapture", result::stream::begin_capture(self.raw, mode))? };
        let worked = work();
        // SAFETY: capture was begun above; the graph is destroyed as soon as it has been instantiated.
        unsafe {
            let graph = check("cuStreamEndCapture", result::stream::end_capture(self.raw))?;
            let mut raw = std::ptr::null_mut();
            let made = sys::cuGraphInstantiateWithFlags(&raw mut raw, graph, 0).result();
            let _ = result::graph::destroy(graph);
            worked?;
            check("cuGraphInstantiateWithFlags", made)?;
            Ok(Graph { raw, _device: self._device.clone() })
        }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        // SAFETY: created in `new`.
        let _ = unsafe { result::stream::destroy(self.raw) };
    }
}

/// A recorded sequence of copies and launches.
pub struct Graph {
    raw: sys::CUgraphExec,
    _device: Arc<Device>,
}

impl Graph {
    /// Puts the whole sequence into a stream.
    ///
    /// # Errors
    /// [`Error::Device`].
    ///
    /// # Safety
    /// Every address in the sequence is still valid until the stream has got here.
    pub unsafe fn launch(&self, stream: &Stream) -> Result<()> {
        // SAFETY: both are alive; the rest is the caller's promise.
        unsafe { check("cuGraphLaunch", result::graph::launch(self.raw, stream.raw)) }
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        // SAFETY: instantiated in `capture`.
        let _ = unsafe { result::graph::exec_destroy(self.raw) };
    }
}

/// A mark in a stream.
pub struct Event {
    raw: sys::CUevent,
    _device: Arc<Device>,
}

impl Event {
    /// A mark that tells no time.
    ///
    /// # Errors
    /// [`Error::Device`].
    pub fn new(device: &Arc<Device>) -> Result<Event> {
        let flags = sys::CUevent_flags::CU_EVENT_DISABLE_TIMING;
        let raw = check("cuEventCreate", result::event::create(flags))?;
        Ok(Event { raw, _device: device.clone() })
    }

    /// Marks the end of the stream as it is now.
    ///
    /// # Errors
    /// [`Error::Device`].
    pub fn record(&self, stream: &Stream) -> Result<()> {
        // SAFETY: both are alive.
        unsafe { check("cuEventRecord", result::event::record(self.raw, stream.raw)) }
    }

    /// Waits until the mark is reached.
    ///
    /// # Errors
    /// [`Error::Device`].
    pub fn synchronize(&self) -> Result<()> {
        // SAFETY: the event is alive.
        unsafe { check("cuEventSynchronize", result::event::synchronize(self.raw)) }
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        // SAFETY: created in `new`.
        let _ = unsafe { result::event::destroy(self.raw) };
    }
}
