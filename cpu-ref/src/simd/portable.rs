//! Vectors as plain arrays: whatever the compiler makes of them on the baseline of the machine.

use scheidegg_kernels::{Convert, Real, physics};

use super::shells::shells;
use super::vector::{Family, Vector};

/// Lanes of the arrays.
const LANES: usize = 8;

/// The instruction set of the target as it is compiled.
pub(super) struct Portable;

shells!(Portable,);

/// An array of lanes.
#[derive(Clone, Copy)]
pub(super) struct Array<T>([T; LANES]);

impl<T: Real> Array<T> {
    #[inline(always)]
    fn zip<U>(self, other: Self, f: impl Fn(T, T) -> U) -> [U; LANES] {
        std::array::from_fn(|i| f(self.0[i], other.0[i]))
    }
}

impl<T: Real> Vector for Array<T> {
    type Elem = T;
    type Mask = [bool; LANES];
    const LANES: usize = LANES;

    #[inline(always)]
    unsafe fn splat(v: T) -> Self {
        Array([v; LANES])
    }
    #[inline(always)]
    unsafe fn load(at: *const T) -> Self {
        // SAFETY: the caller's pointer is good for `LANES` values.
        Array(unsafe { at.cast::<[T; LANES]>().read_unaligned() })
    }
    #[inline(always)]
    unsafe fn store(self, at: *mut T) {
        // SAFETY: the caller's pointer is good for `LANES` values.
        unsafe { at.cast::<[T; LANES]>().write_unaligned(self.0) }
    }
    #[inline(always)]
    unsafe fn add(self, other: Self) -> Self {
        Array(self.zip(other, |a, b| a + b))
    }
    #[inline(always)]
    unsafe fn sub(self, other: Self) -> Self {
        Array(self.zip(other, |a, b| a - b))
    }
    #[inline(always)]
    unsafe fn mul(self, other: Self) -> Self {
        Array(self.zip(other, |a, b| a * b))
    }
    #[inline(always)]
    unsafe fn larger(self, other: Self) -> Self {
        Array(self.zip(other, |a, b| if b > a { b } else { a }))
    }
    #[inline(always)]
    unsafe fn smaller(self, other: Self) -> Self {
        Array(self.zip(other, |a, b| if b < a { b } else { a }))
    }
    #[inline(always)]
    unsafe fn earlier(before: Self, own: Self) -> Self {
        Array(std::array::from_fn(|i| if i == 0 { before.0[LANES - 1] } else { own.0[i - 1] }))
    }
    #[inline(always)]
    unsafe fn gt(self, other: Self) -> Self::Mask {
        self.zip(other, |a, b| a > b)
    }
    #[inline(always)]
    unsafe fn ge(self, other: Self) -> Self::Mask {
        self.zip(other, |a, b| a >= b)
    }
    #[inline(always)]
    unsafe fn or_else(self, mask: Self::Mask, other: Self) -> Self {
        Array(std::array::from_fn(|i| if mask[i] { self.0[i] } else { other.0[i] }))
    }
    #[inline(always)]
    unsafe fn not(a: Self::Mask) -> Self::Mask {
        a.map(|a| !a)
    }
    #[inline(always)]
    unsafe fn le(self, other: Self) -> Self::Mask {
        self.zip(other, |a, b| a <= b)
    }
    #[inline(always)]
    unsafe fn and_le(self, mask: Self::Mask, other: Self) -> Self::Mask {
        std::array::from_fn(|i| mask[i] & (self.0[i] <= other.0[i]))
    }
    #[inline(always)]
    unsafe fn and_ge(self, mask: Self::Mask, other: Self) -> Self::Mask {
        std::array::from_fn(|i| mask[i] & (self.0[i] >= other.0[i]))
    }
    #[inline(always)]
    unsafe fn or(a: Self::Mask, b: Self::Mask) -> Self::Mask {
        std::array::from_fn(|i| a[i] | b[i])
    }
    #[inline(always)]
    unsafe fn bits(mask: Self::Mask) -> u32 {
        mask.iter().enumerate().fold(0, |bits, (i, m)| bits | u32::from(*m) << i)
    }
    #[inline(always)]
    unsafe fn mask(bits: u32) -> Self::Mask {
        std::array::from_fn(|i| bits >> i & 1 == 1)
    }
    #[inline(always)]
    unsafe fn pixels(x: *const u16, x0: *const u16) -> Self {
        // SAFETY: the caller's pointers are good for `LANES` pixels.
        let (x, x0) = unsafe {
            (x.cast::<[u16; LANES]>().read_unaligned(), x0.cast::<[u16; LANES]>().read_unaligned())
        };
        Array(std::array::from_fn(|i| T::from_i32(i32::from(x[i]) - i32::from(x0[i]))))
    }
    #[inline(always)]
    unsafe fn store_rounded(self, at: *mut i32) {
        let rounded: [i32; LANES] = std::array::from_fn(|i| physics::round_half_away(self.0[i]));
        // SAFETY: the caller's pointer is good for `LANES` values.
        unsafe { at.cast::<[i32; LANES]>().write_unaligned(rounded) }
    }
    #[inline(always)]
    unsafe fn round4(from: *const T, to: *mut i32) {
        // SAFETY: the caller's pointers are good for 4 values.
        unsafe {
            let from = from.cast::<[T; 4]>().read_unaligned();
            to.cast::<[i32; 4]>().write_unaligned(from.map(physics::round_half_away));
        }
    }
    #[inline(always)]
    unsafe fn round8(from: *const T, to: *mut i32) {
        // SAFETY: the caller's pointers are good for 8 values, and there are 8 lanes.
        unsafe { Self::load(from).store_rounded(to) }
    }
}

impl<P: Convert<C>, C: Convert<C>> Family<P, C> for Portable {
    type V = Array<C>;
    type W = Array<P>;
    const SAME: bool = P::BYTES == C::BYTES;

    #[inline(always)]
    unsafe fn widen(v: Array<C>) -> Array<P> {
        Array(std::array::from_fn(|i| P::from_f64(v.0[i].to_f64())))
    }
    #[inline(always)]
    unsafe fn narrow(w: Array<P>) -> Array<C> {
        Array(std::array::from_fn(|i| w.0[i].convert()))
    }
    #[inline(always)]
    unsafe fn mask(m: [bool; LANES]) -> [bool; LANES] {
        m
    }
}
