//! Queues of work, what is put into them, and the marks that others wait for.

use std::ffi::c_void;
use std::sync::Arc;

use cudarc::driver::{result, sys};
use scheidegg::Result;

use super::device::{Device, Function, check};
use super::memory::{DeviceMemory, Pinned};

/// A queue of work. Every method that enqueues returns before the work is done.
pub struct Stream {
    raw: sys::CUstream,
    _device: Arc<Device>,
}

impl Stream {
    /// A stream that waits for no other.
    ///
    /// # Errors
    /// [`scheidegg::Error::Device`].
    pub fn new(device: &Arc<Device>) -> Result<Stream> {
        let raw = check("cuStreamCreate", result::stream::create(result::stream::StreamKind::NonBlocking))?;
        Ok(Stream { raw, _device: device.clone() })
    }

    /// Waits until all work in the stream is done.
    ///
    /// # Errors
    /// [`scheidegg::Error::Device`].
    pub fn synchronize(&self) -> Result<()> {
        // SAFETY: the stream is alive.
        unsafe { check("cuStreamSynchronize", result::stream::synchronize(self.raw)) }
    }

    /// Lets later work of this stream wait for an event.
    ///
    /// # Errors
    /// [`scheidegg::Error::Device`].
    pub fn wait(&self, event: &Event) -> Result<()> {
        let none = sys::CUevent_wait_flags::CU_EVENT_WAIT_DEFAULT;
        // SAFETY: both are alive.
        unsafe { check("cuStreamWaitEvent", result::stream::wait_event(self.raw, event.raw, none)) }
    }

    /// Copies from the host. With pageable memory the driver returns after it has staged the bytes.
    ///
    /// # Errors
    /// [`scheidegg::Error::Device`].
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
    /// [`scheidegg::Error::Device`].
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
    /// [`scheidegg::Error::Device`].
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
    /// [`scheidegg::Error::Device`].
    pub fn clear(&self, memory: &DeviceMemory) -> Result<()> {
        // SAFETY: the whole of a living allocation.
        unsafe { check("cuMemsetD8Async", result::memset_d8_async(memory.at, 0, memory.bytes, self.raw)) }
    }

    /// Copies within the GPU: all of one allocation into another of at least its size.
    ///
    /// # Errors
    /// [`scheidegg::Error::Device`].
    pub fn copy(&self, to: &DeviceMemory, from: &DeviceMemory) -> Result<()> {
        assert!(to.bytes >= from.bytes, "a copy beyond the end of device memory");
        // SAFETY: within both.
        let r = unsafe { result::memcpy_dtod_async(to.at, from.at, from.bytes, self.raw) };
        check("cuMemcpyDtoDAsync", r)
    }

    /// Launches an entry with one argument, a structure by value.
    ///
    /// # Errors
    /// [`scheidegg::Error::Device`].
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
    /// [`scheidegg::Error::Device`], or what `work` says.
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
    /// [`scheidegg::Error::Device`].
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
    /// [`scheidegg::Error::Device`].
    pub fn new(device: &Arc<Device>) -> Result<Event> {
        let flags = sys::CUevent_flags::CU_EVENT_DISABLE_TIMING;
        let raw = check("cuEventCreate", result::event::create(flags))?;
        Ok(Event { raw, _device: device.clone() })
    }

    /// Marks the end of the stream as it is now.
    ///
    /// # Errors
    /// [`scheidegg::Error::Device`].
    pub fn record(&self, stream: &Stream) -> Result<()> {
        // SAFETY: both are alive.
        unsafe { check("cuEventRecord", result::event::record(self.raw, stream.raw)) }
    }

    /// Waits until the mark is reached.
    ///
    /// # Errors
    /// [`scheidegg::Error::Device`].
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
