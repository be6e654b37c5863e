//! The entries of the PTX module. Names and arguments are those of `scheidegg_kernels::device::abi`.
#![no_std]
#![feature(abi_gpu_kernel, asm_experimental_arch, stdarch_nvptx)]
// The arguments are one `repr(C)` struct by value; host and device lay it out alike.
#![allow(improper_gpu_kernel_arg)]

mod gpu;

use gpu::Gpu;
use scheidegg_kernels::device::abi::{FrameArgs, GatherArgs};
use scheidegg_kernels::device::{self, Any, Square};

#[panic_handler]
fn panic(_: &core::panic::PanicInfo) -> ! {
    // SAFETY: stops the kernel; the driver reports it.
    unsafe { core::arch::nvptx::trap() }
}

macro_rules! frame_entries {
    ($($kernel:ident $name:ident: $p:ty, $rule:ty;)+) => {$(
        /// See the function of the first part of the name in `scheidegg_kernels::device`.
        ///
        /// # Safety
        /// As `abi::FrameArgs` says.
        #[unsafe(no_mangle)]
        pub unsafe extern "gpu-kernel" fn $name(args: FrameArgs<$p>) {
            // SAFETY: the launcher's promise.
            unsafe { device::$kernel::<Gpu, $p, $rule>(Gpu, &args) }
        }
    )+};
}
scheidegg_kernels::entries!(frame_entries);

macro_rules! gather_entries {
    ($($name:ident)+) => {$(
        /// See the function of this name in `scheidegg_kernels::device`.
        ///
        /// # Safety
        /// As `abi::GatherArgs` says.
        #[unsafe(no_mangle)]
        pub unsafe extern "gpu-kernel" fn $name(args: GatherArgs) {
            // SAFETY: the launcher's promise.
            unsafe { device::$name(Gpu, &args) }
        }
    )+};
}

gather_entries! { scan offsets place copy }
