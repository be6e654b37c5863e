//! Memory of the GPU and page-locked memory of the host.
//!
//! Page-locked memory is what the GPU's copy engines reach directly; kernels can write it too. Every page-locked
//! region that is made here is entered in one list of the process, so that a finder can tell whether frames that
//! it is given lie in such memory.

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::sync::{Arc, Mutex, MutexGuard};

use bytemuck::{AnyBitPattern, Pod};
use cudarc::driver::sys::{self, CUdeviceptr};
use scheidegg_finder::{Error, Result};

use super::api::{ALREADY_REGISTERED, Api, BACKEND, OUT_OF_MEMORY, cu};
use super::budget::{self, Kind};
use super::driver::{Context, Stream};

/// Bytes on the GPU.
pub(super) struct DeviceMemory {
    context: Arc<Context>,
    address: CUdeviceptr,
    bytes: usize,
}

impl DeviceMemory {
    /// Uninitialised memory; at least one byte is taken, so that every address is a real one.
    ///
    /// # Errors
    /// [`Error::Device`] naming `what` when the GPU has not that much.
    pub(super) fn new(context: &Arc<Context>, bytes: usize, what: &str) -> Result<DeviceMemory> {
        context.bind()?;
        let mut address = 0;
        // SAFETY: one address is written; the memory is freed in `drop`.
        let code = unsafe { (context.api.cuMemAlloc_v2)(&raw mut address, bytes.max(1)) };
        if code == OUT_OF_MEMORY {
            let (free, total) = context.memory()?;
            return Err(Error::Device {
                backend: BACKEND.into(),
                call: "cuMemAlloc_v2".into(),
                message: format!(
                    "{} for {what}: {} of {} are free on {} (smaller chunk_frames, fewer slots or lanes need less)",
                    budget::bytes(bytes as u64),
                    budget::bytes(free as u64),
                    budget::bytes(total as u64),
                    context.info().name
                ),
            });
        }
        context.api.check("cuMemAlloc_v2", code)?;
        Ok(DeviceMemory { context: context.clone(), address, bytes })
    }

    /// Bytes.
    pub(super) fn len(&self) -> usize {
        self.bytes
    }

    /// The address of a byte, for a kernel.
    pub(super) fn at<T>(&self, byte: usize) -> *mut T {
        debug_assert!(byte <= self.bytes);
        (self.address as usize + byte) as *mut T
    }

    fn check(&self, byte: usize, bytes: usize) {
        let end = byte.checked_add(bytes);
        assert!(end.is_some_and(|e| e <= self.bytes), "{byte}+{bytes} outside {} bytes", self.bytes);
    }

    /// Copies from the host, in the stream's order.
    ///
    /// # Safety
    /// `from` stays valid and unchanged until the stream has run the copy (when it is not page-locked: until the
    /// call returns).
    pub(super) unsafe fn upload<T: Pod>(&self, stream: &Stream, byte: usize, from: &[T]) -> Result<()> {
        let from: &[u8] = bytemuck::cast_slice(from);
        self.check(byte, from.len());
        if from.is_empty() {
            return Ok(());
        }
        // SAFETY: the target range was checked; the source is the caller's promise.
        unsafe {
            cu!(
                self.context.api,
                cuMemcpyHtoDAsync_v2(
                    self.address + byte as u64,
                    from.as_ptr().cast(),
                    from.len(),
                    stream.raw
                )
            )
        }
    }

    /// Copies `rows` rows of `width` bytes that lie `pitch` bytes apart in `from` to the start of this memory,
    /// without gaps, in the stream's order.
    ///
    /// # Safety
    /// As [`DeviceMemory::upload`].
    pub(super) unsafe fn upload_rows(
        &self,
        stream: &Stream,
        from: &[u8],
        pitch: usize,
        width: usize,
        rows: usize,
    ) -> Result<()> {
        if rows == 0 {
            return Ok(());
        }
        assert!((rows - 1) * pitch + width <= from.len() && width <= pitch, "rows outside the source");
        self.check(0, rows * width);
        let copy = sys::CUDA_MEMCPY2D {
            srcXInBytes: 0,
            srcY: 0,
            srcMemoryType: sys::CUmemorytype::CU_MEMORYTYPE_HOST,
            srcHost: from.as_ptr().cast(),
            srcDevice: 0,
            srcArray: std::ptr::null_mut(),
            srcPitch: pitch,
            dstXInBytes: 0,
            dstY: 0,
            dstMemoryType: sys::CUmemorytype::CU_MEMORYTYPE_DEVICE,
            dstHost: std::ptr::null_mut(),
            dstDevice: self.address,
            dstArray: std::ptr::null_mut(),
            dstPitch: width,
            WidthInBytes: width,
            Height: rows,
        };
        // SAFETY: both ranges were checked; the source's life is the caller's promise.
        unsafe { cu!(self.context.api, cuMemcpy2DAsync_v2(&raw const copy, stream.raw)) }
    }

    /// Copies to page-locked memory, in the stream's order.
    ///
    /// # Safety
    /// `to` is not read, moved or freed until the stream has run the copy.
    pub(super) unsafe fn download(
        &self,
        stream: &Stream,
        byte: usize,
        to: &PinnedMemory,
        at: usize,
        bytes: usize,
    ) -> Result<()> {
        self.check(byte, bytes);
        to.check(at, bytes);
        if bytes == 0 {
            return Ok(());
        }
        // SAFETY: both ranges were checked; the rest is the caller's promise.
        unsafe {
            cu!(
                self.context.api,
                cuMemcpyDtoHAsync_v2(
                    to.host.add(at).cast::<c_void>(),
                    self.address + byte as u64,
                    bytes,
                    stream.raw
                )
            )
        }
    }

    /// Copies to ordinary memory and waits for it; everything in the stream has run then.
    pub(super) fn read<T: Pod>(&self, stream: &Stream, byte: usize, to: &mut [T]) -> Result<()> {
        let to: &mut [u8] = bytemuck::cast_slice_mut(to);
        self.check(byte, to.len());
        if !to.is_empty() {
            // SAFETY: both ranges are valid, and `to` is borrowed until the stream is synchronised below. A failed
            // call copies nothing.
            unsafe {
                cu!(
                    self.context.api,
                    cuMemcpyDtoHAsync_v2(
                        to.as_mut_ptr().cast(),
                        self.address + byte as u64,
                        to.len(),
                        stream.raw
                    )
                )?;
            }
        }
        stream.synchronize()
    }

    /// Copies from ordinary memory and waits for it; everything in the stream has run then.
    pub(super) fn write<T: Pod>(&self, stream: &Stream, byte: usize, from: &[T]) -> Result<()> {
        // SAFETY: `from` is borrowed until the stream is synchronised.
        unsafe { self.upload(stream, byte, from)? };
        stream.synchronize()
    }

    /// Fills a range with one byte, in the stream's order.
    pub(super) fn fill(&self, stream: &Stream, byte: usize, bytes: usize, value: u8) -> Result<()> {
        self.check(byte, bytes);
        if bytes == 0 {
            return Ok(());
        }
        // SAFETY: the range was checked.
        unsafe {
            cu!(self.context.api, cuMemsetD8Async(self.address + byte as u64, value, bytes, stream.raw))
        }
    }
}

impl Drop for DeviceMemory {
    fn drop(&mut self) {
        if self.context.bind().is_ok() {
            // SAFETY: allocated in `new`. `cuMemFree` waits for work that still uses the memory.
            unsafe { (self.context.api.cuMemFree_v2)(self.address) };
        }
    }
}

/// Page-locked memory of our own: ordinary cached memory for the host, reachable by every GPU.
pub(super) struct PinnedMemory {
    context: Arc<Context>,
    host: *mut u8,
    device: CUdeviceptr,
    bytes: usize,
    _listed: Listed,
}

// SAFETY: plain memory; who may touch it when is said at each method.
unsafe impl Send for PinnedMemory {}
// SAFETY: shared access only reads, see `as_slice`.
unsafe impl Sync for PinnedMemory {}

impl PinnedMemory {
    /// Zeroed memory, every page touched.
    ///
    /// # Errors
    /// [`Error::Other`] with the budget when that much is not safe to lock, [`Error::Device`] when the driver
    /// refuses.
    pub(super) fn new(context: &Arc<Context>, bytes: usize, what: &str) -> Result<PinnedMemory> {
        let bytes = bytes.max(8).next_multiple_of(4096);
        budget::ask(bytes as u64, Kind::Fresh, what)?;
        context.bind()?;
        let mut host = std::ptr::null_mut();
        let mut device = 0;
        // Not write-combined: the host reads results, and sources may read back what they wrote.
        let flags = sys::CU_MEMHOSTALLOC_PORTABLE | sys::CU_MEMHOSTALLOC_DEVICEMAP;
        // SAFETY: one pointer is written; the memory is freed in `drop`, or below when it cannot be mapped.
        unsafe {
            cu!(context.api, cuMemHostAlloc(&raw mut host, bytes, flags))?;
            let mapped = cu!(context.api, cuMemHostGetDevicePointer_v2(&raw mut device, host, 0));
            if let Err(e) = mapped {
                (context.api.cuMemFreeHost)(host);
                return Err(e);
            }
            host.cast::<u8>().write_bytes(0, bytes);
        }
        let region = Region { start: host as usize, bytes, api: None };
        let listed = Listed::new(Arc::new(region));
        Ok(PinnedMemory { context: context.clone(), host: host.cast(), device, bytes, _listed: listed })
    }

    fn check(&self, byte: usize, bytes: usize) {
        let end = byte.checked_add(bytes);
        assert!(end.is_some_and(|e| e <= self.bytes), "{byte}+{bytes} outside {} bytes", self.bytes);
    }

    /// The address of a byte as a kernel sees it.
    pub(super) fn device_at<T>(&self, byte: usize) -> *mut T {
        debug_assert!(byte <= self.bytes);
        (self.device as usize + byte) as *mut T
    }

    /// `len` values from a byte on.
    ///
    /// # Safety
    /// No stream writes the range while the slice is alive.
    pub(super) unsafe fn as_slice<T: AnyBitPattern>(&self, byte: usize, len: usize) -> &[T] {
        self.check(byte, len * size_of::<T>());
        assert!((self.host as usize + byte).is_multiple_of(align_of::<T>()), "unaligned");
        // SAFETY: in range, aligned, initialised (zeroed at first), any bits are a value; the rest is the caller's
        // promise.
        unsafe { std::slice::from_raw_parts(self.host.add(byte).cast(), len) }
    }

    /// `len` values from a byte on, to be written.
    ///
    /// # Safety
    /// No stream reads or writes the range while the slice is alive.
    pub(super) unsafe fn as_mut_slice<T: Pod>(&mut self, byte: usize, len: usize) -> &mut [T] {
        self.check(byte, len * size_of::<T>());
        assert!((self.host as usize + byte).is_multiple_of(align_of::<T>()), "unaligned");
        // SAFETY: as above, and `self` is borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(self.host.add(byte).cast(), len) }
    }

    /// Reads one word that a stream may be writing.
    pub(super) fn peek(&self, byte: usize) -> u32 {
        self.check(byte, 4);
        assert!(byte.is_multiple_of(4));
        // SAFETY: in range and aligned (the memory starts at a page). The device writes the word whole.
        unsafe { self.host.add(byte).cast::<u32>().read_volatile() }
    }
}

impl Drop for PinnedMemory {
    fn drop(&mut self) {
        budget::give_back(self.bytes as u64);
        if self.context.bind().is_ok() {
            // SAFETY: allocated in `new`.
            unsafe { (self.context.api.cuMemFreeHost)(self.host.cast()) };
        }
    }
}

/// A page-locked region. One that was registered is unregistered when the last user lets go of it.
pub(super) struct Region {
    start: usize,
    bytes: usize,
    /// The driver that registered it; none for memory that frees itself.
    api: Option<(&'static Api, Arc<Context>)>,
}

impl Drop for Region {
    fn drop(&mut self) {
        if let Some((api, context)) = &self.api {
            budget::give_back(self.bytes as u64);
            if context.bind().is_ok() {
                // SAFETY: registered in `register`, and nobody copies from it any more.
                unsafe { (api.cuMemHostUnregister)(self.start as *mut c_void) };
            }
        }
    }
}

/// The page-locked regions of the process, by address.
fn regions() -> MutexGuard<'static, BTreeMap<usize, Arc<Region>>> {
    static REGIONS: Mutex<BTreeMap<usize, Arc<Region>>> = Mutex::new(BTreeMap::new());
    REGIONS.lock().unwrap_or_else(|e| e.into_inner())
}

/// An entry in the list of page-locked regions.
pub(super) struct Listed(Arc<Region>);

impl Listed {
    fn new(region: Arc<Region>) -> Listed {
        regions().insert(region.start, region.clone());
        Listed(region)
    }
}

impl Drop for Listed {
    fn drop(&mut self) {
        // Bound to a name, so that the list is unlocked before the region may be unregistered.
        let _region = regions().remove(&self.0.start);
    }
}

/// The page-locked region that holds all of the pixels, if one does. Holding it keeps the region page-locked.
pub(super) fn page_locked(pixels: &[u16]) -> Option<Arc<Region>> {
    let start = pixels.as_ptr() as usize;
    let (_, region) = regions().range(..=start).next_back().map(|(k, r)| (*k, r.clone()))?;
    (start + size_of_val(pixels) <= region.start + region.bytes).then_some(region)
}

/// Page-locks memory that is there already.
///
/// # Safety
/// The memory stays mapped until the last `Arc` of the region is gone; the entry must be dropped before it.
///
/// # Errors
/// [`Error::Other`] with the budget when that much is not safe to lock; [`Error::Device`] when the driver refuses.
pub(super) unsafe fn register(context: &Arc<Context>, pixels: &[u16], what: &str) -> Result<Listed> {
    let bytes = size_of_val(pixels);
    if bytes == 0 {
        return Err(Error::param("memory to page-lock", "0 bytes", "at least one frame"));
    }
    budget::ask(bytes as u64, Kind::Resident, what)?;
    let api = context.api;
    let start = pixels.as_ptr() as usize;
    let try_with = |flags| {
        context.bind()?;
        // SAFETY: the range is mapped (it is borrowed); the region unregisters it.
        Ok::<_, Error>(unsafe { (api.cuMemHostRegister_v2)(start as *mut c_void, bytes, flags) })
    };
    let flags = sys::CU_MEMHOSTREGISTER_PORTABLE | sys::CU_MEMHOSTREGISTER_DEVICEMAP;
    let outcome = try_with(flags).and_then(|code| match code {
        // A file mapped for reading only can be registered for reading only.
        0 | ALREADY_REGISTERED => Ok(code),
        first => Ok(match try_with(sys::CU_MEMHOSTREGISTER_PORTABLE | sys::CU_MEMHOSTREGISTER_READ_ONLY)? {
            0 => 0,
            _ => first,
        }),
    });
    match outcome {
        Ok(0) => {}
        other => {
            budget::give_back(bytes as u64);
            let message = match other {
                Err(e) => return Err(e),
                Ok(code) => api.words(code),
            };
            return Err(Error::Device {
                backend: BACKEND.into(),
                call: "cuMemHostRegister_v2".into(),
                message: format!("{what}, {}: {message}", budget::bytes(bytes as u64)),
            });
        }
    }
    Ok(Listed::new(Arc::new(Region { start, bytes, api: Some((api, context.clone())) })))
}

/// Enters memory in the list as if it were page-locked: for tests without a driver.
#[cfg(test)]
pub(super) fn pretend_locked(pixels: &[u16]) -> Listed {
    let (start, bytes) = (pixels.as_ptr() as usize, size_of_val(pixels));
    Listed::new(Arc::new(Region { start, bytes, api: None }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_pixels_that_lie_wholly_in_one_region_are_page_locked() {
        let all = vec![0u16; 1000];
        let listed = pretend_locked(&all[100..500]);
        assert!(page_locked(&all[100..500]).is_some());
        assert!(page_locked(&all[200..300]).is_some());
        assert!(page_locked(&all[99..200]).is_none());
        assert!(page_locked(&all[400..501]).is_none());
        assert!(page_locked(&all[500..600]).is_none());
        let held = page_locked(&all[100..101]).unwrap();
        drop(listed);
        assert!(page_locked(&all[100..101]).is_none(), "no longer listed");
        assert_eq!(Arc::strong_count(&held), 1, "whoever copies from it still holds it");
    }
}
