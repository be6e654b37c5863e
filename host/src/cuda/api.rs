//! The functions of the NVIDIA driver that are used here, found at run time in the library that `cudarc` opens.
//!
//! `cudarc::driver::sys` gives the types. Its functions are not called: they panic when the driver lacks one of
//! them, and they return an enum that has no value for an error code newer than the CUDA version it was built
//! for. Here a missing function is a sentence and an error code is a number.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::sync::OnceLock;

use cudarc::driver::sys::{
    self, CUcontext, CUdevice, CUdeviceptr, CUevent, CUfunction, CUgraph, CUgraphExec, CUmodule, CUstream,
};
use scheidegg_finder::{Error, Result};

/// The name under which errors are reported.
pub(super) const BACKEND: &str = "cuda";

/// What a driver function returns; 0 is success.
pub(super) type Code = u32;

/// The driver's code for "out of memory".
pub(super) const OUT_OF_MEMORY: Code = 2;
/// The driver's code for memory that is registered already.
pub(super) const ALREADY_REGISTERED: Code = 712;

/// The oldest driver that has every function below: CUDA 11.4.
const OLDEST: c_int = 11_040;

macro_rules! api {
    ($($name:ident ( $($arg:ty),* $(,)? );)*) => {
        /// The driver's functions.
        #[allow(non_snake_case)]
        pub(super) struct Api {
            $(pub(super) $name: unsafe extern "C" fn($($arg),*) -> Code,)*
            /// The CUDA version that the driver speaks, `1000 * major + 10 * minor`.
            pub(super) version: c_int,
        }

        impl Api {
            fn load() -> Result<Api, String> {
                // SAFETY: opening the driver's library runs its initialisers, which is what the library is for.
                if !unsafe { sys::is_culib_present() } {
                    return Err("no NVIDIA driver is installed (libcuda was not found)".into());
                }
                // SAFETY: as above; the library stays open for the life of the process.
                let library = unsafe { sys::culib() };
                Ok(Api {
                    $($name: {
                        // SAFETY: the type is that of the function of this name in the CUDA driver API, and the
                        // library is never closed, so the pointer stays valid.
                        let symbol = unsafe {
                            library.get::<unsafe extern "C" fn($($arg),*) -> Code>(
                                concat!(stringify!($name), "\0").as_bytes(),
                            )
                        };
                        *symbol.map_err(|_| format!(
                            "the NVIDIA driver lacks {}: it is older than CUDA 11.4 (update the driver)",
                            stringify!($name),
                        ))?
                    },)*
                    version: 0,
                })
            }
        }
    };
}

api! {
    cuInit(c_uint);
    cuDriverGetVersion(*mut c_int);
    cuGetErrorName(Code, *mut *const c_char);
    cuGetErrorString(Code, *mut *const c_char);
    cuDeviceGetCount(*mut c_int);
    cuDeviceGet(*mut CUdevice, c_int);
    cuDeviceGetName(*mut c_char, c_int, CUdevice);
    cuDeviceGetAttribute(*mut c_int, c_uint, CUdevice);
    cuDevicePrimaryCtxRetain(*mut CUcontext, CUdevice);
    cuDevicePrimaryCtxRelease_v2(CUdevice);
    cuCtxSetCurrent(CUcontext);
    cuModuleLoadDataEx(*mut CUmodule, *const c_void, c_uint, *mut c_uint, *mut *mut c_void);
    cuModuleUnload(CUmodule);
    cuModuleGetFunction(*mut CUfunction, CUmodule, *const c_char);
    cuFuncSetAttribute(CUfunction, c_uint, c_int);
    cuOccupancyMaxActiveBlocksPerMultiprocessor(*mut c_int, CUfunction, c_int, usize);
    cuStreamCreate(*mut CUstream, c_uint);
    cuStreamDestroy_v2(CUstream);
    cuStreamSynchronize(CUstream);
    cuStreamWaitEvent(CUstream, CUevent, c_uint);
    cuStreamBeginCapture_v2(CUstream, c_uint);
    cuStreamEndCapture(CUstream, *mut CUgraph);
    cuGraphInstantiateWithFlags(*mut CUgraphExec, CUgraph, u64);
    cuGraphLaunch(CUgraphExec, CUstream);
    cuGraphExecDestroy(CUgraphExec);
    cuGraphDestroy(CUgraph);
    cuEventCreate(*mut CUevent, c_uint);
    cuEventDestroy_v2(CUevent);
    cuEventRecord(CUevent, CUstream);
    cuEventSynchronize(CUevent);
    cuEventElapsedTime(*mut f32, CUevent, CUevent);
    cuMemGetInfo_v2(*mut usize, *mut usize);
    cuMemAlloc_v2(*mut CUdeviceptr, usize);
    cuMemFree_v2(CUdeviceptr);
    cuMemHostAlloc(*mut *mut c_void, usize, c_uint);
    cuMemFreeHost(*mut c_void);
    cuMemHostGetDevicePointer_v2(*mut CUdeviceptr, *mut c_void, c_uint);
    cuMemHostRegister_v2(*mut c_void, usize, c_uint);
    cuMemHostUnregister(*mut c_void);
    cuMemcpyHtoDAsync_v2(CUdeviceptr, *const c_void, usize, CUstream);
    cuMemcpyDtoHAsync_v2(*mut c_void, CUdeviceptr, usize, CUstream);
    cuMemcpy2DAsync_v2(*const sys::CUDA_MEMCPY2D, CUstream);
    cuMemsetD8Async(CUdeviceptr, u8, usize, CUstream);
    cuLaunchKernel(
        CUfunction, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, CUstream, *mut *mut c_void,
        *mut *mut c_void,
    );
    cuLaunchCooperativeKernel(
        CUfunction, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, CUstream, *mut *mut c_void,
    );
}

impl Api {
    /// The driver, loaded and initialised once for the process.
    ///
    /// # Errors
    /// [`Error::Unavailable`] with the reason, the same at every call.
    pub(super) fn get() -> Result<&'static Api> {
        static API: OnceLock<Result<Api, String>> = OnceLock::new();
        API.get_or_init(|| {
            let mut api = Self::load()?;
            api.start()?;
            Ok(api)
        })
        .as_ref()
        .map_err(|reason| unavailable(reason.clone()))
    }

    /// The driver of a GPU: in tests GPUs with large numbers are fakes.
    pub(super) fn of(ordinal: usize) -> Result<&'static Api> {
        #[cfg(test)]
        if ordinal >= super::fake::FIRST {
            return Ok(super::fake::api());
        }
        let _ = ordinal;
        Self::get()
    }

    fn start(&mut self) -> Result<(), String> {
        // SAFETY: both are called with valid arguments, in the order that the driver API asks for.
        let (init, version) = unsafe { ((self.cuInit)(0), (self.cuDriverGetVersion)(&raw mut self.version)) };
        if version == 0 && self.version < OLDEST {
            let (major, minor) = (self.version / 1000, self.version % 1000 / 10);
            return Err(format!(
                "the NVIDIA driver speaks CUDA {major}.{minor}, 11.4 is the oldest that works (update the driver)"
            ));
        }
        match init {
            0 => Ok(()),
            100 => Err("the NVIDIA driver is installed but finds no GPU".into()),
            34 => Err("libcuda is the toolkit's stub, not a driver (install the NVIDIA driver)".into()),
            code => Err(format!("the NVIDIA driver does not start: {}", self.words(code))),
        }
    }

    /// An error code in the driver's own words.
    pub(super) fn words(&self, code: Code) -> String {
        let text = |f: unsafe extern "C" fn(Code, *mut *const c_char) -> Code| {
            let mut text = std::ptr::null();
            // SAFETY: the function writes a pointer to a static string, or null for an unknown code.
            unsafe {
                if f(code, &raw mut text) != 0 || text.is_null() {
                    return None;
                }
                Some(CStr::from_ptr(text).to_string_lossy().into_owned())
            }
        };
        match (text(self.cuGetErrorName), text(self.cuGetErrorString)) {
            (Some(name), Some(words)) => format!("{name} ({code}): {words}"),
            _ => format!("unknown error {code}"),
        }
    }

    /// Turns a code into a result that carries the call's name.
    ///
    /// # Errors
    /// [`Error::Device`] unless the code is 0.
    #[inline]
    pub(super) fn check(&self, call: &str, code: Code) -> Result<()> {
        if code == 0 { Ok(()) } else { Err(self.error(call, code)) }
    }

    #[cold]
    fn error(&self, call: &str, code: Code) -> Error {
        Error::Device { backend: BACKEND.into(), call: call.into(), message: self.words(code) }
    }
}

/// Calls a driver function and turns its code into a `Result` with its name.
macro_rules! cu {
    ($api:expr, $name:ident ( $($arg:expr),* $(,)? )) => {{
        let api: &$crate::cuda::api::Api = $api;
        api.check(stringify!($name), (api.$name)($($arg),*))
    }};
}
pub(super) use cu;

/// This backend cannot run here.
pub(super) fn unavailable(reason: impl Into<String>) -> Error {
    Error::Unavailable { backend: BACKEND.into(), reason: reason.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_driver_the_reason_is_a_sentence() {
        match Api::get() {
            Ok(api) => assert!(api.version >= OLDEST),
            Err(Error::Unavailable { backend, reason }) => {
                assert_eq!(backend, "cuda");
                assert!(reason.contains("driver"), "{reason}");
            }
            Err(other) => panic!("{other}"),
        }
    }
}
