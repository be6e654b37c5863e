//! The functions that carry an instruction set's target features: one for every kernel, window and precision.

use super::job::{Job, Pipe};

/// Carries a frame on until all rows before a given one are converted, and decides every row that then can be.
///
/// # Safety
/// The machine has the instruction set of the kernel, and the job's pointers are good as [`Job`] says.
pub(super) type Advance<P, C> = unsafe fn(&Job<P, C>, &mut Pipe<C>, usize);

/// Which function of an instruction set.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kernel {
    /// Frozen, square and odd, nothing out of the ordinary: unrolled.
    Frozen(usize),
    /// Frozen, any window, test 2 and trace.
    FrozenAny,
    /// Serial, square and odd: unrolled.
    Serial(usize),
    /// Serial, any window, test 2 and trace.
    SerialAny,
}

macro_rules! shells {
    ($isa:ident, $(#[$features:meta])*) => {
        $(#[$features])*
        unsafe fn frozen<P, C, const W: usize, const H: usize>(
            job: &$crate::simd::job::Job<P, C>,
            pipe: &mut $crate::simd::job::Pipe<C>,
            upto: usize,
        ) where
            P: scheidegg_kernels::Convert<C> + $crate::simd::aligned::Plain,
            C: scheidegg_kernels::Real + $crate::simd::aligned::Plain,
            $isa: $crate::simd::vector::Family<P, C>,
        {
            // SAFETY: as the caller promises.
            unsafe { $crate::simd::frozen::advance::<$isa, P, C, W, H>(job, pipe, upto) }
        }

        $(#[$features])*
        unsafe fn serial<P, C, const W: usize, const H: usize>(
            job: &$crate::simd::job::Job<P, C>,
            pipe: &mut $crate::simd::job::Pipe<C>,
            upto: usize,
        ) where
            P: scheidegg_kernels::Convert<C> + $crate::simd::aligned::Plain,
            C: scheidegg_kernels::Real + $crate::simd::aligned::Plain,
            $isa: $crate::simd::vector::Family<P, C>,
        {
            // SAFETY: as the caller promises.
            unsafe { $crate::simd::serial::advance::<$isa, P, C, W, H>(job, pipe, upto) }
        }

        /// The function of this instruction set for a kernel.
        pub(super) fn pick<P, C>(
            kernel: $crate::simd::shells::Kernel,
        ) -> $crate::simd::shells::Advance<P, C>
        where
            P: scheidegg_kernels::Convert<C> + $crate::simd::aligned::Plain,
            C: scheidegg_kernels::Real + $crate::simd::aligned::Plain,
            $isa: $crate::simd::vector::Family<P, C>,
        {
            use $crate::simd::shells::Kernel;
            match kernel {
                Kernel::Frozen(3) => frozen::<P, C, 3, 3>,
                Kernel::Frozen(5) => frozen::<P, C, 5, 5>,
                Kernel::Frozen(7) => frozen::<P, C, 7, 7>,
                Kernel::Frozen(9) => frozen::<P, C, 9, 9>,
                Kernel::Frozen(_) | Kernel::FrozenAny => frozen::<P, C, 0, 0>,
                Kernel::Serial(3) => serial::<P, C, 3, 3>,
                Kernel::Serial(5) => serial::<P, C, 5, 5>,
                Kernel::Serial(7) => serial::<P, C, 7, 7>,
                Kernel::Serial(9) => serial::<P, C, 9, 9>,
                Kernel::Serial(_) | Kernel::SerialAny => serial::<P, C, 0, 0>,
            }
        }
    };
}
pub(super) use shells;
