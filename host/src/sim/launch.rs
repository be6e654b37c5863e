//! Launches on the CPU: the blocks of a grid side by side.

use std::sync::atomic::Ordering;

use rayon::prelude::*;
use scheidegg_kernels::Convert;
use scheidegg_kernels::device::abi::{self, FrameArgs, GatherArgs};
use scheidegg_kernels::device::block::Stored;
use scheidegg_kernels::device::{self, Any, Rule, Square};

use super::block::{BlockState, SimBlock, Together};

/// Arguments that every block reads.
struct Args<'a, T>(&'a T);

// SAFETY: blocks only read the struct itself. What its pointers lead to is shared as on a GPU: no two blocks write
// one place, and none reads what another writes in the same launch, except by atomic additions.
unsafe impl<T> Sync for Args<'_, T> {}

impl<'a, T> Args<'a, T> {
    fn get(&self) -> &'a T {
        self.0
    }
}

fn launch<T>(
    grid: (u32, u32),
    threads: u32,
    shared_bytes: u32,
    args: &T,
    kernel: impl Fn(SimBlock<'_>, &T) + Sync,
) {
    let args = Args(args);
    (0..u64::from(grid.0) * u64::from(grid.1)).into_par_iter().for_each(|i| {
        let index = ((i % u64::from(grid.0)) as u32, (i / u64::from(grid.0)) as u32);
        kernel(BlockState::new(index, grid.0, threads, shared_bytes).block(), args.get());
    });
}

/// A launch whose blocks run at once: each on a thread of its own.
fn launch_together<T>(
    blocks: u32,
    threads: u32,
    shared_bytes: u32,
    args: &T,
    kernel: impl Fn(SimBlock<'_>, &T) + Sync,
) {
    /// Tells the others when its block ends in a panic.
    struct Alarm<'a>(&'a Together);
    impl Drop for Alarm<'_> {
        fn drop(&mut self) {
            if std::thread::panicking() {
                self.0.failed.store(true, Ordering::Relaxed);
            }
        }
    }
    let (args, kernel, together) = (Args(args), &kernel, &Together::default());
    std::thread::scope(|scope| {
        for i in 0..blocks {
            let args = &args;
            scope.spawn(move || {
                let _alarm = Alarm(together);
                let block = BlockState::new((i, 0), blocks, threads, shared_bytes).among(together);
                kernel(block.block(), args.get());
            });
        }
    });
}

/// Launches the kernel with a rule.
///
/// # Safety
/// As [`frame`].
unsafe fn run<P: Convert<f32> + Stored, R: Rule>(lanes: u32, args: &FrameArgs<P>) {
    let t = &args.tiling;
    if t.is_resident() {
        assert_eq!(lanes, 1, "a resident launch does one lane");
        return launch_together(t.tiles(), t.threads(), t.shared_bytes, args, |b, a| {
            // SAFETY: the caller's promise.
            unsafe { device::resident::<_, P, R>(b, a) }
        });
    }
    launch((t.tiles(), lanes), t.threads(), t.shared_bytes, args, |b, a| {
        // SAFETY: the caller's promise.
        unsafe { device::frame::<_, P, R>(b, a) }
    });
}

/// Launches an entry that finds clusters; `lanes` is `gridDim.y`.
///
/// # Safety
/// Every pointer in `args` is valid for what [`FrameArgs`] says of it.
///
/// # Panics
/// When there is no entry of that name.
pub unsafe fn frame<P: Convert<f32> + Stored>(entry: &str, lanes: u32, args: &FrameArgs<P>) {
    assert_eq!(entry.starts_with("resident_"), args.tiling.is_resident(), "the tiling of {entry}");
    macro_rules! by_name {
        ($($kernel:ident $name:ident: $p:ty, $rule:ty;)+) => {
            match entry {
                // SAFETY: the caller's promise.
                $(stringify!($name) => unsafe { run::<P, $rule>(lanes, args) },)+
                _ => panic!("no entry {entry}"),
            }
        };
    }
    scheidegg_kernels::entries!(by_name);
}

/// Launches `scan`.
///
/// # Safety
/// Every pointer in `args` is valid for what [`GatherArgs`] says of it.
pub unsafe fn scan(args: &GatherArgs) {
    launch((args.frames, 1), abi::SCAN_THREADS, abi::SCAN_SHARED_BYTES, args, |b, a| {
        // SAFETY: the caller's promise.
        unsafe { device::scan(b, a) }
    });
}

/// Launches `offsets`, `place` and `copy`, the last with `blocks` blocks.
///
/// # Safety
/// Every pointer in `args` is valid for what [`GatherArgs`] says of it, and `scan` has run.
pub unsafe fn gather(args: &GatherArgs, blocks: u32) {
    launch((1, 1), abi::SCAN_THREADS, abi::SCAN_SHARED_BYTES, args, |b, a| {
        // SAFETY: the caller's promise.
        unsafe { device::offsets(b, a) }
    });
    launch((args.frames * args.tiling.tiles(), 1), abi::PLACE_THREADS, 0, args, |b, a| {
        // SAFETY: the caller's promise.
        unsafe { device::place(b, a) }
    });
    launch((blocks, 1), abi::COPY_THREADS, 0, args, |b, a| {
        // SAFETY: the caller's promise.
        unsafe { device::copy(b, a) }
    });
}
