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
    ($kernel:ident: $($name:ident: $p:ty, $rule:ty;)+) => {$(
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

frame_entries! { frame:
    frame_f32_3x3: f32, Square<3, false>;
    frame_f32_5x5: f32, Square<5, false>;
    frame_f32_7x7: f32, Square<7, false>;
    frame_f32_9x9: f32, Square<9, false>;
    frame_f32_3x3_fixed: f32, Square<3, true>;
    frame_f32_5x5_fixed: f32, Square<5, true>;
    frame_f32_7x7_fixed: f32, Square<7, true>;
    frame_f32_9x9_fixed: f32, Square<9, true>;
    frame_f32_any: f32, Any<false>;
    frame_f32_trace: f32, Any<true>;
    frame_f64_3x3: f64, Square<3, false>;
    frame_f64_5x5: f64, Square<5, false>;
    frame_f64_7x7: f64, Square<7, false>;
    frame_f64_9x9: f64, Square<9, false>;
    frame_f64_3x3_fixed: f64, Square<3, true>;
    frame_f64_5x5_fixed: f64, Square<5, true>;
    frame_f64_7x7_fixed: f64, Square<7, true>;
    frame_f64_9x9_fixed: f64, Square<9, true>;
    frame_f64_any: f64, Any<false>;
    frame_f64_trace: f64, Any<true>;
}

frame_entries! { resident:
    resident_f32_3x3: f32, Square<3, false>;
    resident_f32_5x5: f32, Square<5, false>;
    resident_f32_7x7: f32, Square<7, false>;
    resident_f32_9x9: f32, Square<9, false>;
    resident_f32_3x3_fixed: f32, Square<3, true>;
    resident_f32_5x5_fixed: f32, Square<5, true>;
    resident_f32_7x7_fixed: f32, Square<7, true>;
    resident_f32_9x9_fixed: f32, Square<9, true>;
    resident_f64_3x3: f64, Square<3, false>;
    resident_f64_5x5: f64, Square<5, false>;
    resident_f64_7x7: f64, Square<7, false>;
    resident_f64_9x9: f64, Square<9, false>;
    resident_f64_3x3_fixed: f64, Square<3, true>;
    resident_f64_5x5_fixed: f64, Square<5, true>;
    resident_f64_7x7_fixed: f64, Square<7, true>;
    resident_f64_9x9_fixed: f64, Square<9, true>;
}

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
