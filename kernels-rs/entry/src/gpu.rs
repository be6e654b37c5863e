//! A block on an NVIDIA GPU: special registers, shared memory and global memory by PTX instructions.
//!
//! Memory is addressed by inline assembly because the compiler only sees pointers of no particular space and would
//! emit generic accesses, which are slower.

use core::arch::{asm, global_asm, nvptx};

use scheidegg_kernels::device::block::{Block, Team};

global_asm!(".extern .shared .align 16 .b8 SHARED[];");

/// The calling thread's view of its block.
#[derive(Clone, Copy)]
pub struct Gpu;

/// The calling thread with its state.
pub struct Thread<S> {
    index: u32,
    state: S,
}

impl<S> Team<S> for Thread<S> {
    #[inline(always)]
    fn each(&mut self, mut f: impl FnMut(u32, &mut S)) {
        f(self.index, &mut self.state);
    }
}

/// Declares `$load` and `$store` as accesses of one width to global memory.
macro_rules! global {
    ($load:ident, $store:ident, $t:ty, $class:ident, $suffix:literal) => {
        #[inline(always)]
        unsafe fn $load(self, p: *const $t) -> $t {
            let v: $t;
            // SAFETY: the caller's promise: a valid read.
            unsafe {
                asm!(concat!("ld.global.", $suffix, " {v}, [{p}];"), v = out($class) v, p = in(reg64) p,
                    options(readonly, nostack, preserves_flags));
            }
            v
        }
        #[inline(always)]
        unsafe fn $store(self, p: *mut $t, v: $t) {
            // SAFETY: the caller's promise: a valid write.
            unsafe {
                asm!(concat!("st.global.", $suffix, " [{p}], {v};"), v = in($class) v, p = in(reg64) p,
                    options(nostack, preserves_flags));
            }
        }
    };
}

impl Block for Gpu {
    type Team<S: Copy> = Thread<S>;

    #[inline(always)]
    fn index(self) -> (u32, u32) {
        // SAFETY: reads special registers.
        unsafe { (nvptx::_block_idx_x() as u32, nvptx::_block_idx_y() as u32) }
    }
    #[inline(always)]
    fn grid(self) -> u32 {
        // SAFETY: reads a special register.
        unsafe { nvptx::_grid_dim_x() as u32 }
    }
    #[inline(always)]
    fn threads(self) -> u32 {
        // SAFETY: reads a special register.
        unsafe { nvptx::_block_dim_x() as u32 }
    }
    #[inline(always)]
    fn team<S: Copy>(self, start: S) -> Thread<S> {
        // SAFETY: reads a special register.
        Thread { index: unsafe { nvptx::_thread_idx_x() as u32 }, state: start }
    }
    #[inline(always)]
    fn barrier(self) {
        // The intrinsic, not `bar.sync` as inline assembly: the compiler must know that it may not copy a barrier into
        // the two arms of a branch, where threads of one warp would wait for each other for ever (seen on an H200).
        // SAFETY: a barrier of all threads; kernels call it where control flow is the same for all.
        unsafe { nvptx::_syncthreads() }
    }

    #[inline(always)]
    fn opaque(self, v: u32) -> u32 {
        let mut v = v;
        // SAFETY: no instruction at all.
        unsafe { asm!("// {v}", v = inout(reg32) v, options(nomem, nostack, preserves_flags)) }
        v
    }

    #[inline(always)]
    fn opaque_f64(self, v: f64) -> f64 {
        let mut v = v;
        // SAFETY: no instruction at all.
        unsafe { asm!("// {v}", v = inout(reg64) v, options(nomem, nostack, preserves_flags)) }
        v
    }

    #[inline(always)]
    fn shared_u16(self, at: u32) -> u16 {
        let v: u16;
        // SAFETY: reads shared memory of the block; the hardware faults outside of it.
        unsafe {
            asm!("ld.shared.b16 {v}, [{a}];", v = out(reg16) v, a = in(reg32) address(at),
                options(readonly, nostack, preserves_flags));
        }
        v
    }
    #[inline(always)]
    fn shared_u32(self, at: u32) -> u32 {
        let v: u32;
        // SAFETY: as above.
        unsafe {
            asm!("ld.shared.b32 {v}, [{a}];", v = out(reg32) v, a = in(reg32) address(at),
                options(readonly, nostack, preserves_flags));
        }
        v
    }
    #[inline(always)]
    fn shared_f32(self, at: u32) -> f32 {
        let v: f32;
        // SAFETY: as above.
        unsafe {
            asm!("ld.shared.f32 {v}, [{a}];", v = out(reg32) v, a = in(reg32) address(at),
                options(readonly, nostack, preserves_flags));
        }
        v
    }
    #[inline(always)]
    fn set_shared_u16(self, at: u32, v: u16) {
        // SAFETY: writes shared memory of the block; the hardware faults outside of it.
        unsafe {
            asm!("st.shared.b16 [{a}], {v};", v = in(reg16) v, a = in(reg32) address(at), options(nostack))
        }
    }
    #[inline(always)]
    fn set_shared_u32(self, at: u32, v: u32) {
        // SAFETY: as above.
        unsafe {
            asm!("st.shared.b32 [{a}], {v};", v = in(reg32) v, a = in(reg32) address(at), options(nostack))
        }
    }
    #[inline(always)]
    fn set_shared_f32(self, at: u32, v: f32) {
        // SAFETY: as above.
        unsafe {
            asm!("st.shared.f32 [{a}], {v};", v = in(reg32) v, a = in(reg32) address(at), options(nostack))
        }
    }
    #[inline(always)]
    fn shared_4(self, at: u32) -> [f32; 4] {
        let (a, b, c, d): (f32, f32, f32, f32);
        // SAFETY: reads shared memory of the block; the hardware faults outside of it.
        unsafe {
            asm!("ld.shared.v4.f32 {{{a}, {b}, {c}, {d}}}, [{at}];", a = out(reg32) a, b = out(reg32) b,
                c = out(reg32) c, d = out(reg32) d, at = in(reg32) address(at),
                options(readonly, nostack, preserves_flags));
        }
        [a, b, c, d]
    }
    #[inline(always)]
    fn set_shared_4(self, at: u32, v: [f32; 4]) {
        // SAFETY: writes shared memory of the block; the hardware faults outside of it.
        unsafe {
            asm!("st.shared.v4.f32 [{at}], {{{a}, {b}, {c}, {d}}};", a = in(reg32) v[0], b = in(reg32) v[1],
                c = in(reg32) v[2], d = in(reg32) v[3], at = in(reg32) address(at), options(nostack));
        }
    }
    #[inline(always)]
    fn shared_add(self, at: u32, v: u32) -> u32 {
        let old: u32;
        // SAFETY: as above.
        unsafe {
            asm!("atom.shared.add.u32 {o}, [{a}], {v};", o = out(reg32) old, v = in(reg32) v,
                a = in(reg32) address(at), options(nostack));
        }
        old
    }
    #[inline(always)]
    fn shared_or(self, at: u32, v: u32) {
        // SAFETY: as above.
        unsafe {
            asm!("red.shared.or.b32 [{a}], {v};", v = in(reg32) v, a = in(reg32) address(at), options(nostack))
        }
    }

    #[inline(always)]
    unsafe fn load_u16_if<const BIT: u32>(self, wanted: u32, p: *const u16) -> u16 {
        let v: u16;
        // SAFETY: the caller's promise: a valid read when the bit is set; otherwise nothing is read.
        unsafe {
            asm!("{{ .reg .pred q; .reg .b32 t; and.b32 t, {w}, {bit}; setp.ne.u32 q, t, 0; mov.b16 {v}, 0; \
                  @q ld.global.nc.u16 {v}, [{p}]; }}",
                v = out(reg16) v, w = in(reg32) wanted, bit = const 1u32 << BIT, p = in(reg64) p,
                options(pure, readonly, nostack, preserves_flags));
        }
        v
    }
    global!(load_u16, store_u16, u16, reg16, "b16");
    global!(load_u32, store_u32, u32, reg32, "b32");
    global!(load_u64, store_u64, u64, reg64, "b64");
    #[inline(always)]
    unsafe fn store_u8(self, p: *mut u8, v: u8) {
        // SAFETY: the caller's promise: a valid write.
        unsafe { asm!("st.global.b8 [{p}], {v};", v = in(reg16) v as u16, p = in(reg64) p, options(nostack)) }
    }
    #[inline(always)]
    unsafe fn store_16_bytes(self, p: *mut u8, v: [u32; 4]) {
        // SAFETY: the caller's promise: a valid, aligned write of 16 bytes.
        unsafe {
            asm!("st.global.v4.b32 [{p}], {{{a}, {b}, {c}, {d}}};", p = in(reg64) p, a = in(reg32) v[0],
                b = in(reg32) v[1], c = in(reg32) v[2], d = in(reg32) v[3], options(nostack));
        }
    }
    #[inline(always)]
    unsafe fn tell(self, p: *mut u64, v: u64) {
        // SAFETY: the caller's promise: valid and aligned.
        unsafe { asm!("st.relaxed.gpu.global.b64 [{p}], {v};", p = in(reg64) p, v = in(reg64) v, options(nostack)) }
    }
    #[inline(always)]
    unsafe fn heard_if<const BIT: u32>(self, wanted: u32, p: *const u64) -> u64 {
        let v: u64;
        // SAFETY: the caller's promise: valid and aligned when the bit is set; otherwise nothing is read. Not `pure`:
        // every call reads anew.
        unsafe {
            asm!("{{ .reg .pred q; .reg .b32 t; and.b32 t, {w}, {bit}; setp.ne.u32 q, t, 0; mov.b64 {v}, 0; \
                  @q ld.relaxed.gpu.global.b64 {v}, [{p}]; }}",
                v = out(reg64) v, w = in(reg32) wanted, bit = const 1u32 << BIT, p = in(reg64) p,
                options(nostack, preserves_flags));
        }
        v
    }
    #[inline(always)]
    fn pause(self, _: u32) {}
    #[inline(always)]
    unsafe fn global_add(self, p: *mut u64, v: u64) {
        // SAFETY: the caller's promise: valid and aligned.
        unsafe { asm!("red.global.add.u64 [{p}], {v};", v = in(reg64) v, p = in(reg64) p, options(nostack)) }
    }
}

/// The address of a byte of dynamic shared memory.
#[inline(always)]
fn address(at: u32) -> u32 {
    let base: u32;
    // SAFETY: takes an address.
    unsafe {
        asm!("mov.u32 {b}, SHARED;", b = out(reg32) base, options(pure, nomem, nostack, preserves_flags))
    }
    base + at
}
