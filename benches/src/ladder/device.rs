//! The driver's objects as the ladder's steps use them: plain, complete, and nothing hidden. Here the GPU and its code;
//! memory in `memory`, what is queued in `stream`.
//!
//! The library has a layer of its own (`host/src/cuda`), built for one way of working. The steps here need all the
//! others too, the slow ones among them, so they stand on `cudarc` directly.

use std::ffi::CString;
use std::sync::Arc;

use cudarc::driver::result::{self, DriverError};
use cudarc::driver::sys;
use scheidegg::{Error, Result};

/// Turns a driver error into ours, with the name of the call.
pub(super) fn check<T>(call: &'static str, r: Result<T, DriverError>) -> Result<T> {
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
    pub(super) raw: sys::CUfunction,
}
