//! Memory of the GPU, and the host's memory that the GPU reaches.

use std::sync::Arc;

use cudarc::driver::{result, sys};
use scheidegg::{Error, Result};

use super::device::{Device, check};

/// Memory on the GPU.
pub struct DeviceMemory {
    pub(super) at: sys::CUdeviceptr,
    pub(super) bytes: usize,
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
    pub(super) at: *mut u8,
    pub(super) bytes: usize,
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
