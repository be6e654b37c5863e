//! What a kernel needs of the machine that runs it: threads, barriers, shared and global memory.
//!
//! A kernel is a sequence of *phases*. [`Team::each`] runs one phase: once for the calling thread on a GPU, once
//! for every thread of the block, one after the other, in the simulation. Between phases that exchange data through
//! shared memory stands a [`Block::barrier`]. Everything outside `each` is the same for all threads of a block.
//! What a thread keeps from phase to phase is its state `S`: registers on a GPU.

use crate::real::Real;

/// The threads of a block, each with its state.
pub trait Team<S> {
    /// Runs a phase: `f(thread, state)`.
    fn each(&mut self, f: impl FnMut(u32, &mut S));
}

/// One block of a launch. Offsets into shared memory are bytes, aligned to the value.
pub trait Block: Copy {
    /// Its threads with a state `S`.
    type Team<S: Copy>: Team<S>;

    /// `blockIdx.x` and `blockIdx.y`.
    fn index(self) -> (u32, u32);
    /// `gridDim.x`.
    fn grid(self) -> u32;
    /// `blockDim.x`.
    fn threads(self) -> u32;
    /// The threads, all with the same state.
    fn team<S: Copy>(self, start: S) -> Self::Team<S>;
    /// Waits until all threads have come here.
    fn barrier(self);

    /// The same value, of which the compiler knows nothing: what is computed from it is computed anew in every phase
    /// instead of being kept in registers.
    fn opaque(self, v: u32) -> u32;
    /// As [`Block::opaque`].
    fn opaque_f64(self, v: f64) -> f64;

    /// Reads shared memory.
    fn shared_u16(self, at: u32) -> u16;
    /// Reads shared memory.
    fn shared_u32(self, at: u32) -> u32;
    /// Writes shared memory.
    fn set_shared_u16(self, at: u32, v: u16);
    /// Writes shared memory.
    fn set_shared_u32(self, at: u32, v: u32);
    /// Reads four values of shared memory; `at` is aligned to 16.
    fn shared_4(self, at: u32) -> [f32; 4];
    /// Writes four values of shared memory; `at` is aligned to 16.
    fn set_shared_4(self, at: u32, v: [f32; 4]);
    /// Adds to shared memory atomically; the value before.
    fn shared_add(self, at: u32, v: u32) -> u32;
    /// Sets bits in shared memory atomically.
    fn shared_or(self, at: u32, v: u32);
    /// Reads shared memory.
    #[inline(always)]
    fn shared_f32(self, at: u32) -> f32 {
        f32::from_bits(self.shared_u32(at))
    }
    /// Writes shared memory.
    #[inline(always)]
    fn set_shared_f32(self, at: u32, v: f32) {
        self.set_shared_u32(at, v.to_bits());
    }

    /// Reads memory that nobody writes during the launch when bit `BIT` of `wanted` is set, else gives 0.
    ///
    /// # Safety
    /// When the bit is set, `p` is valid for a read.
    unsafe fn load_u16_if<const BIT: u32>(self, wanted: u32, p: *const u16) -> u16;
    /// Reads global memory.
    ///
    /// # Safety
    /// `p` is valid for a read and aligned.
    unsafe fn load_u16(self, p: *const u16) -> u16;
    /// Reads global memory.
    ///
    /// # Safety
    /// `p` is valid for a read and aligned.
    unsafe fn load_u32(self, p: *const u32) -> u32;
    /// Reads global memory.
    ///
    /// # Safety
    /// `p` is valid for a read and aligned.
    unsafe fn load_u64(self, p: *const u64) -> u64;
    /// Writes global memory.
    ///
    /// # Safety
    /// `p` is valid for a write.
    unsafe fn store_u8(self, p: *mut u8, v: u8);
    /// Writes global memory.
    ///
    /// # Safety
    /// `p` is valid for a write and aligned.
    unsafe fn store_u16(self, p: *mut u16, v: u16);
    /// Writes global memory.
    ///
    /// # Safety
    /// `p` is valid for a write and aligned.
    unsafe fn store_u32(self, p: *mut u32, v: u32);
    /// Writes global memory.
    ///
    /// # Safety
    /// `p` is valid for a write and aligned.
    unsafe fn store_u64(self, p: *mut u64, v: u64);
    /// Writes 16 bytes of global memory.
    ///
    /// # Safety
    /// `p` is valid for a write of 16 bytes and aligned to 16.
    unsafe fn store_16_bytes(self, p: *mut u8, v: [u32; 4]);
    /// Writes 8 bytes that other blocks wait for, in one piece; nothing is said about when other writes are seen.
    ///
    /// # Safety
    /// `p` is valid for a write and aligned, and every block accesses it by this and by [`Block::heard_if`] alone.
    unsafe fn tell(self, p: *mut u64, v: u64);
    /// Reads 8 bytes that another block may write now, when bit `BIT` of `wanted` is set, else gives 0.
    ///
    /// # Safety
    /// As [`Block::tell`], when the bit is set.
    unsafe fn heard_if<const BIT: u32>(self, wanted: u32, p: *const u64) -> u64;
    /// Lets other blocks run while this one waits for them, for the `times`-th time.
    fn pause(self, times: u32);
    /// Adds to global memory atomically.
    ///
    /// # Safety
    /// `p` is valid for a read and a write and aligned.
    unsafe fn global_add(self, p: *mut u64, v: u64);
}

/// A precision of the pedestal: how its values lie in global memory, and how a thread keeps a pixel.
pub trait Stored: Real {
    /// A pixel's raw value and offset from one phase to the next.
    type Kept: Copy;

    /// What to keep of a pixel with this offset and a raw value of 0.
    fn offset(x0: u16) -> Self::Kept;
    /// The same pixel with another raw value.
    fn with(kept: Self::Kept, x: u16) -> Self::Kept;
    /// `x - x0`, exactly.
    fn y(kept: Self::Kept) -> Self;
    /// See [`Block::opaque`].
    fn opaque<B: Block>(b: B, kept: Self::Kept) -> Self::Kept;
    /// The same value, computed now: the compiler would jump over arithmetic in `f64` whose result is not chosen, and
    /// no other pixel's arithmetic could fill the gaps.
    fn settled<B: Block>(b: B, v: Self) -> Self;

    /// Reads global memory.
    ///
    /// # Safety
    /// `p` is valid for a read and aligned.
    unsafe fn load<B: Block>(b: B, p: *const Self) -> Self;
    /// Writes global memory.
    ///
    /// # Safety
    /// `p` is valid for a write and aligned.
    unsafe fn store<B: Block>(b: B, p: *mut Self, v: Self);
}

/// 2^23 + v: a float whose last bits are those of `v`. The difference of two is exact, and cheaper on a GPU than to
/// convert an integer.
#[inline(always)]
fn lifted(v: u16) -> f32 {
    f32::from_bits(0x4b00_0000 | v as u32)
}

impl Stored for f32 {
    /// The difference, and 2^23 + offset.
    type Kept = (f32, f32);

    #[inline(always)]
    fn offset(x0: u16) -> (f32, f32) {
        Self::with((0.0, lifted(x0)), 0)
    }
    #[inline(always)]
    fn with(kept: (f32, f32), x: u16) -> (f32, f32) {
        (lifted(x) - kept.1, kept.1)
    }
    #[inline(always)]
    fn y(kept: (f32, f32)) -> f32 {
        kept.0
    }
    #[inline(always)]
    fn opaque<B: Block>(_: B, kept: (f32, f32)) -> (f32, f32) {
        kept
    }
    #[inline(always)]
    fn settled<B: Block>(_: B, v: f32) -> f32 {
        v
    }
    #[inline(always)]
    unsafe fn load<B: Block>(b: B, p: *const f32) -> f32 {
        // SAFETY: the caller's promise; both types have one layout.
        f32::from_bits(unsafe { b.load_u32(p.cast()) })
    }
    #[inline(always)]
    unsafe fn store<B: Block>(b: B, p: *mut f32, v: f32) {
        // SAFETY: the caller's promise; both types have one layout.
        unsafe { b.store_u32(p.cast(), v.to_bits()) }
    }
}

impl Stored for f64 {
    /// Raw value and offset in one register; a difference in `f64` would take two beside it.
    type Kept = u32;

    #[inline(always)]
    fn offset(x0: u16) -> u32 {
        (x0 as u32) << 16
    }
    #[inline(always)]
    fn with(kept: u32, x: u16) -> u32 {
        kept & 0xffff_0000 | x as u32
    }
    #[inline(always)]
    fn y(kept: u32) -> f64 {
        // As `lifted`, from 2^52.
        let float = |v: u32| f64::from_bits(0x4330_0000_0000_0000 | v as u64);
        float(kept & 0xffff) - float(kept >> 16)
    }
    #[inline(always)]
    fn opaque<B: Block>(b: B, kept: u32) -> u32 {
        b.opaque(kept)
    }
    #[inline(always)]
    fn settled<B: Block>(b: B, v: f64) -> f64 {
        b.opaque_f64(v)
    }
    #[inline(always)]
    unsafe fn load<B: Block>(b: B, p: *const f64) -> f64 {
        // SAFETY: the caller's promise; both types have one layout.
        f64::from_bits(unsafe { b.load_u64(p.cast()) })
    }
    #[inline(always)]
    unsafe fn store<B: Block>(b: B, p: *mut f64, v: f64) {
        // SAFETY: the caller's promise; both types have one layout.
        unsafe { b.store_u64(p.cast(), v.to_bits()) }
    }
}
