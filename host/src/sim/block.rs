//! A block of a launch on the CPU: one thread after the other, phase by phase.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use scheidegg_kernels::device::block::{Block, Team};

use super::race::Races;

/// What shared memory holds before a kernel writes it: as a float a huge value, as a count a large one.
const POISON: u32 = 0x7e5a_5a5a;

/// How often a block looks for a neighbour's word before the launch is given up: longer than any test takes.
const PATIENCE: u32 = 2_000_000;

/// The blocks of a launch that run at once.
#[derive(Default)]
pub struct Together {
    /// Whether one has failed: the others need not wait for it.
    pub failed: AtomicBool,
}

/// The state of a block while it runs.
pub struct BlockState<'a> {
    index: (u32, u32),
    grid: u32,
    threads: u32,
    shared: Box<[Cell<u32>]>,
    races: Races,
    /// The thread whose turn it is.
    thread: Cell<u32>,
    /// Phases so far: the order of threads changes from one to the next.
    phases: Cell<u32>,
    /// The others, where blocks run at once.
    together: Option<&'a Together>,
}

impl<'a> BlockState<'a> {
    /// Block `index` of a launch of `grid` blocks (times `gridDim.y`) of `threads` threads with exactly
    /// `shared_bytes` of shared memory.
    pub fn new(index: (u32, u32), grid: u32, threads: u32, shared_bytes: u32) -> Self {
        BlockState {
            index,
            grid,
            threads,
            shared: vec![Cell::new(POISON); shared_bytes as usize / 4].into_boxed_slice(),
            races: Races::new(shared_bytes as usize / 2),
            thread: Cell::new(0),
            // Not all blocks in the same order.
            phases: Cell::new(index.0),
            together: None,
        }
    }

    /// The same among others that run at once.
    pub fn among(self, together: &'a Together) -> Self {
        BlockState { together: Some(together), ..self }
    }

    /// The block as kernels see it.
    pub fn block(&self) -> SimBlock<'_> {
        SimBlock(self)
    }

    fn word(&self, at: u32, align: u32) -> &Cell<u32> {
        assert!(at.is_multiple_of(align), "shared memory at {at} is not aligned to {align}");
        &self.shared[at as usize / 4]
    }
}

/// A block as kernels see it.
#[derive(Clone, Copy)]
pub struct SimBlock<'a>(&'a BlockState<'a>);

/// The threads of a block.
pub struct SimTeam<'a, S> {
    block: &'a BlockState<'a>,
    states: Vec<S>,
}

impl<S> Team<S> for SimTeam<'_, S> {
    /// Runs the threads upwards, downwards or scattered, in turn: what depends on their order shows.
    fn each(&mut self, mut f: impl FnMut(u32, &mut S)) {
        let n = self.block.threads;
        let phase = self.block.phases.get();
        self.block.phases.set(phase.wrapping_add(1));
        // A step that shares no factor with the number of threads visits each once.
        let step = (n / 2 + 1..).find(|s| gcd(*s, n) == 1).expect("a prime above n is one");
        for k in 0..n {
            let t = match phase % 3 {
                0 => k,
                1 => n - 1 - k,
                _ => ((k as u64 * step as u64 + phase as u64) % n as u64) as u32,
            };
            self.block.thread.set(t);
            f(t, &mut self.states[t as usize]);
        }
    }
}

fn gcd(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { gcd(b, a % b) }
}

impl<'a> Block for SimBlock<'a> {
    type Team<S: Copy> = SimTeam<'a, S>;

    fn index(self) -> (u32, u32) {
        self.0.index
    }
    fn grid(self) -> u32 {
        self.0.grid
    }
    fn threads(self) -> u32 {
        self.0.threads
    }
    fn team<S: Copy>(self, start: S) -> SimTeam<'a, S> {
        SimTeam { block: self.0, states: vec![start; self.0.threads as usize] }
    }
    fn barrier(self) {
        self.0.races.barrier();
    }
    fn opaque(self, v: u32) -> u32 {
        v
    }

    fn opaque_f64(self, v: f64) -> f64 {
        v
    }

    fn shared_u16(self, at: u32) -> u16 {
        let word = self.0.word(at, 2);
        self.0.races.read(at / 2, self.0.thread.get());
        (word.get() >> (at % 4 * 8)) as u16
    }
    fn shared_u32(self, at: u32) -> u32 {
        let word = self.0.word(at, 4);
        self.0.races.read(at / 2, self.0.thread.get());
        self.0.races.read(at / 2 + 1, self.0.thread.get());
        word.get()
    }
    fn set_shared_u16(self, at: u32, v: u16) {
        let word = self.0.word(at, 2);
        self.0.races.write(at / 2, self.0.thread.get());
        let shift = at % 4 * 8;
        word.set(word.get() & !(0xffff << shift) | u32::from(v) << shift);
    }
    fn set_shared_u32(self, at: u32, v: u32) {
        let word = self.0.word(at, 4);
        self.0.races.write(at / 2, self.0.thread.get());
        self.0.races.write(at / 2 + 1, self.0.thread.get());
        word.set(v);
    }
    fn shared_4(self, at: u32) -> [f32; 4] {
        assert!(at.is_multiple_of(16), "shared memory at {at} is not aligned to 16");
        std::array::from_fn(|i| self.shared_f32(at + 4 * i as u32))
    }
    fn set_shared_4(self, at: u32, v: [f32; 4]) {
        assert!(at.is_multiple_of(16), "shared memory at {at} is not aligned to 16");
        for (i, v) in v.into_iter().enumerate() {
            self.set_shared_f32(at + 4 * i as u32, v);
        }
    }
    fn shared_add(self, at: u32, v: u32) -> u32 {
        let word = self.0.word(at, 4);
        self.0.races.atomic(at / 2, self.0.thread.get());
        word.replace(word.get().wrapping_add(v))
    }
    fn shared_or(self, at: u32, v: u32) {
        let word = self.0.word(at, 4);
        self.0.races.atomic(at / 2, self.0.thread.get());
        word.set(word.get() | v);
    }

    unsafe fn load_u16_if<const BIT: u32>(self, wanted: u32, p: *const u16) -> u16 {
        // SAFETY: the caller's promise: valid when the bit is set.
        if wanted >> BIT & 1 != 0 { unsafe { p.read() } } else { 0 }
    }
    unsafe fn load_u16(self, p: *const u16) -> u16 {
        // SAFETY: the caller's promise.
        unsafe { p.read() }
    }
    unsafe fn load_u32(self, p: *const u32) -> u32 {
        // SAFETY: the caller's promise.
        unsafe { p.read() }
    }
    unsafe fn load_u64(self, p: *const u64) -> u64 {
        // SAFETY: the caller's promise.
        unsafe { p.read() }
    }
    unsafe fn store_u8(self, p: *mut u8, v: u8) {
        // SAFETY: the caller's promise.
        unsafe { p.write(v) }
    }
    unsafe fn store_u16(self, p: *mut u16, v: u16) {
        // SAFETY: the caller's promise.
        unsafe { p.write(v) }
    }
    unsafe fn store_u32(self, p: *mut u32, v: u32) {
        // SAFETY: the caller's promise.
        unsafe { p.write(v) }
    }
    unsafe fn store_u64(self, p: *mut u64, v: u64) {
        // SAFETY: the caller's promise.
        unsafe { p.write(v) }
    }
    unsafe fn store_16_bytes(self, p: *mut u8, v: [u32; 4]) {
        assert!((p as usize).is_multiple_of(16), "a unit of 16 bytes at {p:p}");
        // SAFETY: the caller's promise; the alignment was just seen.
        unsafe { p.cast::<[u32; 4]>().write(v) }
    }
    unsafe fn tell(self, p: *mut u64, v: u64) {
        // SAFETY: the caller's promise: only atomic accesses while blocks run side by side.
        unsafe { AtomicU64::from_ptr(p) }.store(v, Ordering::Relaxed);
    }
    unsafe fn heard_if<const BIT: u32>(self, wanted: u32, p: *const u64) -> u64 {
        if wanted >> BIT & 1 == 0 {
            return 0;
        }
        // SAFETY: as above, when the bit is set.
        unsafe { AtomicU64::from_ptr(p.cast_mut()) }.load(Ordering::Relaxed)
    }
    fn pause(self, times: u32) {
        let together = self.0.together.expect("blocks that do not run at once wait for each other");
        assert!(!together.failed.load(Ordering::Relaxed), "another block of the launch failed");
        assert!(times < PATIENCE, "a neighbour of block {:?} says nothing", self.0.index);
        std::thread::yield_now();
    }
    unsafe fn global_add(self, p: *mut u64, v: u64) {
        // SAFETY: the caller's promise; all blocks access it atomically during a launch.
        unsafe { AtomicU64::from_ptr(p) }.fetch_add(v, Ordering::Relaxed);
    }
}
