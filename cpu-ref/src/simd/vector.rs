//! What the finder asks of an instruction set: a handful of operations on vectors of `f32` or `f64`.
//!
//! Every operation is the IEEE operation of its scalar twin, lane by lane; nothing is contracted.
//!
//! All methods are `unsafe`: they may be called only where the instruction set is known to be there, and pointers
//! must be good for [`Vector::LANES`] values (unaligned is fine). They are inlined into the shells of `avx512.rs`,
//! `avx2.rs` and `portable.rs`, which carry the target features.

use scheidegg_kernels::Real;

/// Elements of a block: planes that are read together (`sum` and `sum2`) lie block by block in turn, so that one
/// pointer reaches both. A multiple of every vector's lanes.
pub(super) const BLOCK: usize = 16;

/// A vector of floating point numbers.
pub(super) trait Vector: Copy {
    /// One lane.
    type Elem: Real;
    /// One truth value a lane.
    type Mask: Copy;
    /// Lanes, 8 or 16.
    const LANES: usize;

    unsafe fn splat(v: Self::Elem) -> Self;
    unsafe fn load(at: *const Self::Elem) -> Self;
    unsafe fn store(self, at: *mut Self::Elem);
    unsafe fn add(self, other: Self) -> Self;
    unsafe fn sub(self, other: Self) -> Self;
    unsafe fn mul(self, other: Self) -> Self;
    /// `other > self ? other : self`.
    unsafe fn larger(self, other: Self) -> Self;
    /// The larger of both where either is above zero; where none is, any value that is not above zero.
    #[inline(always)]
    unsafe fn peak(self, other: Self) -> Self {
        // SAFETY: as the caller promises.
        unsafe { self.larger(other) }
    }
    /// `other < self ? other : self`.
    unsafe fn smaller(self, other: Self) -> Self;
    /// The vectors one value before and after `own`, which lies `at` in memory between `before` and `after`.
    #[inline(always)]
    unsafe fn beside(before: Self, own: Self, after: Self, at: *const Self::Elem) -> (Self, Self) {
        let _ = (before, own, after);
        // SAFETY: as the caller promises, also for one value to either side.
        unsafe { (Self::load(at.sub(1)), Self::load(at.add(1))) }
    }
    /// The vector `by` values after `own`, at most 7 in magnitude, which lies `at` in memory between `before` and
    /// `after`. `by` is a constant where it matters.
    #[inline(always)]
    unsafe fn aside(before: Self, own: Self, after: Self, at: *const Self::Elem, by: isize) -> Self {
        let _ = (before, own, after);
        // SAFETY: as the caller promises, also for 7 values to either side.
        unsafe { Self::load(at.offset(by)) }
    }
    /// The vector one value before `own`, of which `before` is the one a whole vector before.
    unsafe fn earlier(before: Self, own: Self) -> Self;
    /// `self > other`.
    unsafe fn gt(self, other: Self) -> Self::Mask;
    /// `self >= other`.
    unsafe fn ge(self, other: Self) -> Self::Mask;
    /// `mask ? self : other`.
    unsafe fn or_else(self, mask: Self::Mask, other: Self) -> Self;

    unsafe fn or(a: Self::Mask, b: Self::Mask) -> Self::Mask;
    unsafe fn not(a: Self::Mask) -> Self::Mask;
    /// `self <= other`.
    unsafe fn le(self, other: Self) -> Self::Mask;
    /// `mask && self <= other`.
    unsafe fn and_le(self, mask: Self::Mask, other: Self) -> Self::Mask;
    /// `mask && self >= other`.
    unsafe fn and_ge(self, mask: Self::Mask, other: Self) -> Self::Mask;
    /// `mask ? self + other : self`.
    #[inline(always)]
    unsafe fn add_where(self, mask: Self::Mask, other: Self) -> Self {
        // SAFETY: as the caller promises.
        unsafe { self.add(other).or_else(mask, self) }
    }
    /// Lane `i` in bit `i`.
    unsafe fn bits(mask: Self::Mask) -> u32;
    /// Bit `i` in lane `i`.
    unsafe fn mask(bits: u32) -> Self::Mask;

    /// `x - x0` of [`Vector::LANES`] pixels, exact.
    unsafe fn pixels(x: *const u16, x0: *const u16) -> Self;
    /// Rounds half away from zero and stores. For values below 2^30 in magnitude.
    unsafe fn store_rounded(self, at: *mut i32);
    /// Rounds 4 values half away from zero, as [`Vector::store_rounded`]; pointers are good for 4.
    unsafe fn round4(from: *const Self::Elem, to: *mut i32);
    /// The same for 8.
    unsafe fn round8(from: *const Self::Elem, to: *mut i32);
    /// Asks for the cache line of an address a little ahead of its use.
    #[inline(always)]
    unsafe fn prefetch(_at: *const u8) {}
}

/// The vectors of an instruction set for a pedestal in `P` and decisions in `C`: equal lanes in both.
pub(super) trait Family<P, C> {
    /// Decisions.
    type V: Vector<Elem = C>;
    /// The pedestal.
    type W: Vector<Elem = P>;
    /// Whether both are one, so that `widen` and `narrow` change nothing.
    const SAME: bool;

    /// To the pedestal's precision, exact.
    unsafe fn widen(v: Self::V) -> Self::W;
    /// To the decision's precision, rounded to nearest even.
    unsafe fn narrow(w: Self::W) -> Self::V;
    /// The same lanes.
    unsafe fn mask(m: <Self::V as Vector>::Mask) -> <Self::W as Vector>::Mask;
}

/// Two vectors as one of twice the lanes.
#[derive(Clone, Copy)]
pub(super) struct Two<V>(pub V, pub V);

macro_rules! lanewise {
    ($($name:ident),+) => {
        $(#[inline(always)]
        unsafe fn $name(self, other: Self) -> Self {
            // SAFETY: as the caller promises.
            unsafe { Two(self.0.$name(other.0), self.1.$name(other.1)) }
        })+
    };
}

impl<V: Vector> Vector for Two<V> {
    type Elem = V::Elem;
    type Mask = (V::Mask, V::Mask);
    const LANES: usize = 2 * V::LANES;

    lanewise!(add, sub, mul, larger, peak, smaller);

    #[inline(always)]
    unsafe fn splat(v: V::Elem) -> Self {
        // SAFETY: as the caller promises; so below.
        unsafe { Two(V::splat(v), V::splat(v)) }
    }
    #[inline(always)]
    unsafe fn load(at: *const V::Elem) -> Self {
        // SAFETY: the caller's pointer is good for both halves.
        unsafe { Two(V::load(at), V::load(at.add(V::LANES))) }
    }
    #[inline(always)]
    unsafe fn store(self, at: *mut V::Elem) {
        // SAFETY: the caller's pointer is good for both halves.
        unsafe {
            self.0.store(at);
            self.1.store(at.add(V::LANES));
        }
    }
    #[inline(always)]
    unsafe fn earlier(before: Self, own: Self) -> Self {
        // SAFETY: as the caller promises.
        unsafe { Two(V::earlier(before.1, own.0), V::earlier(own.0, own.1)) }
    }
    #[inline(always)]
    unsafe fn gt(self, other: Self) -> Self::Mask {
        // SAFETY: as the caller promises.
        unsafe { (self.0.gt(other.0), self.1.gt(other.1)) }
    }
    #[inline(always)]
    unsafe fn ge(self, other: Self) -> Self::Mask {
        // SAFETY: as the caller promises.
        unsafe { (self.0.ge(other.0), self.1.ge(other.1)) }
    }
    #[inline(always)]
    unsafe fn or_else(self, mask: Self::Mask, other: Self) -> Self {
        // SAFETY: as the caller promises.
        unsafe { Two(self.0.or_else(mask.0, other.0), self.1.or_else(mask.1, other.1)) }
    }
    #[inline(always)]
    unsafe fn not(a: Self::Mask) -> Self::Mask {
        // SAFETY: as the caller promises.
        unsafe { (V::not(a.0), V::not(a.1)) }
    }
    #[inline(always)]
    unsafe fn le(self, other: Self) -> Self::Mask {
        // SAFETY: as the caller promises.
        unsafe { (self.0.le(other.0), self.1.le(other.1)) }
    }
    #[inline(always)]
    unsafe fn and_le(self, mask: Self::Mask, other: Self) -> Self::Mask {
        // SAFETY: as the caller promises.
        unsafe { (self.0.and_le(mask.0, other.0), self.1.and_le(mask.1, other.1)) }
    }
    #[inline(always)]
    unsafe fn and_ge(self, mask: Self::Mask, other: Self) -> Self::Mask {
        // SAFETY: as the caller promises.
        unsafe { (self.0.and_ge(mask.0, other.0), self.1.and_ge(mask.1, other.1)) }
    }
    #[inline(always)]
    unsafe fn add_where(self, mask: Self::Mask, other: Self) -> Self {
        // SAFETY: as the caller promises.
        unsafe { Two(self.0.add_where(mask.0, other.0), self.1.add_where(mask.1, other.1)) }
    }
    #[inline(always)]
    unsafe fn or(a: Self::Mask, b: Self::Mask) -> Self::Mask {
        // SAFETY: as the caller promises.
        unsafe { (V::or(a.0, b.0), V::or(a.1, b.1)) }
    }
    #[inline(always)]
    unsafe fn bits(mask: Self::Mask) -> u32 {
        // SAFETY: as the caller promises.
        unsafe { V::bits(mask.0) | V::bits(mask.1) << V::LANES }
    }
    #[inline(always)]
    unsafe fn mask(bits: u32) -> Self::Mask {
        // SAFETY: as the caller promises.
        unsafe { (V::mask(bits), V::mask(bits >> V::LANES)) }
    }
    #[inline(always)]
    unsafe fn pixels(x: *const u16, x0: *const u16) -> Self {
        // SAFETY: the caller's pointers are good for both halves.
        unsafe { Two(V::pixels(x, x0), V::pixels(x.add(V::LANES), x0.add(V::LANES))) }
    }
    #[inline(always)]
    unsafe fn store_rounded(self, at: *mut i32) {
        // SAFETY: the caller's pointer is good for both halves.
        unsafe {
            self.0.store_rounded(at);
            self.1.store_rounded(at.add(V::LANES));
        }
    }
    #[inline(always)]
    unsafe fn round4(from: *const V::Elem, to: *mut i32) {
        // SAFETY: as the caller promises.
        unsafe { V::round4(from, to) }
    }
    #[inline(always)]
    unsafe fn round8(from: *const V::Elem, to: *mut i32) {
        // SAFETY: as the caller promises.
        unsafe { V::round8(from, to) }
    }
    #[inline(always)]
    unsafe fn prefetch(at: *const u8) {
        // SAFETY: as the caller promises.
        unsafe { V::prefetch(at) }
    }
}
