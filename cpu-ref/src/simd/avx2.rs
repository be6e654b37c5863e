//! AVX2: 8 lanes of `f32`, two times 4 of `f64`, truth values as lanes of all ones.

use std::arch::x86_64::*;

use super::shells::shells;
use super::vector::{Family, Two, Vector};

/// AVX2.
pub(super) struct Avx2;

shells!(Avx2, #[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]);

#[derive(Clone, Copy)]
pub(super) struct F32x8(__m256);
#[derive(Clone, Copy)]
pub(super) struct F64x4(__m256d);

impl Vector for F32x8 {
    type Elem = f32;
    type Mask = __m256;
    const LANES: usize = 8;

    // SAFETY, for every block here: the caller runs on a machine with AVX2 and gives pointers that are good for
    // 8 values; the loads and stores are the unaligned ones.
    #[inline(always)]
    unsafe fn splat(v: f32) -> Self {
        // SAFETY: see above.
        unsafe { F32x8(_mm256_set1_ps(v)) }
    }
    #[inline(always)]
    unsafe fn load(at: *const f32) -> Self {
        // SAFETY: see above.
        unsafe { F32x8(_mm256_loadu_ps(at)) }
    }
    #[inline(always)]
    unsafe fn store(self, at: *mut f32) {
        // SAFETY: see above.
        unsafe { _mm256_storeu_ps(at, self.0) }
    }
    #[inline(always)]
    unsafe fn add(self, other: Self) -> Self {
        // SAFETY: see above.
        unsafe { F32x8(_mm256_add_ps(self.0, other.0)) }
    }
    #[inline(always)]
    unsafe fn sub(self, other: Self) -> Self {
        // SAFETY: see above.
        unsafe { F32x8(_mm256_sub_ps(self.0, other.0)) }
    }
    #[inline(always)]
    unsafe fn mul(self, other: Self) -> Self {
        // SAFETY: see above.
        unsafe { F32x8(_mm256_mul_ps(self.0, other.0)) }
    }
    #[inline(always)]
    unsafe fn larger(self, other: Self) -> Self {
        // SAFETY: see above. The instruction is `first > second ? first : second`.
        unsafe { F32x8(_mm256_max_ps(other.0, self.0)) }
    }
    #[inline(always)]
    unsafe fn peak(self, other: Self) -> Self {
        // SAFETY: see above. Values that are not negative are ordered as their bits are as integers, and negative
        // ones come below them; integer units are free while the others multiply and compare.
        unsafe {
            let (a, b) = (_mm256_castps_si256(self.0), _mm256_castps_si256(other.0));
            F32x8(_mm256_castsi256_ps(_mm256_max_epi32(a, b)))
        }
    }
    #[inline(always)]
    unsafe fn smaller(self, other: Self) -> Self {
        // SAFETY: see above. The instruction is `first < second ? first : second`.
        unsafe { F32x8(_mm256_min_ps(other.0, self.0)) }
    }
    #[inline(always)]
    unsafe fn earlier(before: Self, own: Self) -> Self {
        // SAFETY: see above. The middle is the upper half of `before` and the lower half of `own`.
        unsafe {
            let (b, o) = (_mm256_castps_si256(before.0), _mm256_castps_si256(own.0));
            let middle = _mm256_permute2x128_si256::<0x21>(b, o);
            F32x8(_mm256_castsi256_ps(_mm256_alignr_epi8::<12>(o, middle)))
        }
    }
    #[inline(always)]
    unsafe fn gt(self, other: Self) -> __m256 {
        // SAFETY: see above.
        unsafe { _mm256_cmp_ps::<_CMP_GT_OQ>(self.0, other.0) }
    }
    #[inline(always)]
    unsafe fn ge(self, other: Self) -> __m256 {
        // SAFETY: see above.
        unsafe { _mm256_cmp_ps::<_CMP_GE_OQ>(self.0, other.0) }
    }
    #[inline(always)]
    unsafe fn or_else(self, mask: __m256, other: Self) -> Self {
        // SAFETY: see above.
        unsafe { F32x8(_mm256_blendv_ps(other.0, self.0, mask)) }
    }
    #[inline(always)]
    unsafe fn not(a: __m256) -> __m256 {
        // SAFETY: see above.
        unsafe { _mm256_xor_ps(a, _mm256_castsi256_ps(_mm256_set1_epi32(-1))) }
    }
    #[inline(always)]
    unsafe fn le(self, other: Self) -> __m256 {
        // SAFETY: see above.
        unsafe { _mm256_cmp_ps::<_CMP_LE_OQ>(self.0, other.0) }
    }
    #[inline(always)]
    unsafe fn and_le(self, mask: __m256, other: Self) -> __m256 {
        // SAFETY: see above.
        unsafe { _mm256_and_ps(mask, _mm256_cmp_ps::<_CMP_LE_OQ>(self.0, other.0)) }
    }
    #[inline(always)]
    unsafe fn and_ge(self, mask: __m256, other: Self) -> __m256 {
        // SAFETY: see above.
        unsafe { _mm256_and_ps(mask, _mm256_cmp_ps::<_CMP_GE_OQ>(self.0, other.0)) }
    }
    #[inline(always)]
    unsafe fn or(a: __m256, b: __m256) -> __m256 {
        // SAFETY: see above.
        unsafe { _mm256_or_ps(a, b) }
    }
    #[inline(always)]
    unsafe fn bits(mask: __m256) -> u32 {
        // SAFETY: see above.
        unsafe { _mm256_movemask_ps(mask) as u32 }
    }
    #[inline(always)]
    unsafe fn mask(bits: u32) -> __m256 {
        // SAFETY: see above.
        unsafe {
            let each = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
            let set = _mm256_and_si256(_mm256_set1_epi32(bits as i32), each);
            _mm256_castsi256_ps(_mm256_cmpeq_epi32(set, each))
        }
    }
    #[inline(always)]
    unsafe fn pixels(x: *const u16, x0: *const u16) -> Self {
        // SAFETY: see above.
        unsafe {
            let x = _mm256_cvtepu16_epi32(_mm_loadu_si128(x.cast()));
            let x0 = _mm256_cvtepu16_epi32(_mm_loadu_si128(x0.cast()));
            F32x8(_mm256_cvtepi32_ps(_mm256_sub_epi32(x, x0)))
        }
    }
    #[inline(always)]
    unsafe fn store_rounded(self, at: *mut i32) {
        // SAFETY: see above. What truncation leaves is exact, and so is its double, which is 1 or more in magnitude
        // where the value has to be rounded away from zero.
        unsafe {
            let whole = _mm256_cvttps_epi32(self.0);
            let rest = _mm256_sub_ps(self.0, _mm256_cvtepi32_ps(whole));
            let away = _mm256_cvttps_epi32(_mm256_add_ps(rest, rest));
            _mm256_storeu_si256(at.cast(), _mm256_add_epi32(whole, away));
        }
    }
    #[inline(always)]
    unsafe fn round4(from: *const f32, to: *mut i32) {
        // SAFETY: as `store_rounded`, with 4 values.
        unsafe {
            let d = _mm_loadu_ps(from);
            let whole = _mm_cvttps_epi32(d);
            let rest = _mm_sub_ps(d, _mm_cvtepi32_ps(whole));
            let away = _mm_cvttps_epi32(_mm_add_ps(rest, rest));
            _mm_storeu_si128(to.cast(), _mm_add_epi32(whole, away));
        }
    }
    #[inline(always)]
    unsafe fn round8(from: *const f32, to: *mut i32) {
        // SAFETY: as `store_rounded`.
        unsafe { Self::load(from).store_rounded(to) }
    }
    #[inline(always)]
    unsafe fn prefetch(at: *const u8) {
        // SAFETY: a hint, good for any address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(at.cast()) }
    }
}

impl Vector for F64x4 {
    type Elem = f64;
    type Mask = __m256d;
    const LANES: usize = 4;

    // SAFETY, for every block here: as above with 4 values.
    #[inline(always)]
    unsafe fn splat(v: f64) -> Self {
        // SAFETY: see above.
        unsafe { F64x4(_mm256_set1_pd(v)) }
    }
    #[inline(always)]
    unsafe fn load(at: *const f64) -> Self {
        // SAFETY: see above.
        unsafe { F64x4(_mm256_loadu_pd(at)) }
    }
    #[inline(always)]
    unsafe fn store(self, at: *mut f64) {
        // SAFETY: see above.
        unsafe { _mm256_storeu_pd(at, self.0) }
    }
    #[inline(always)]
    unsafe fn add(self, other: Self) -> Self {
        // SAFETY: see above.
        unsafe { F64x4(_mm256_add_pd(self.0, other.0)) }
    }
    #[inline(always)]
    unsafe fn sub(self, other: Self) -> Self {
        // SAFETY: see above.
        unsafe { F64x4(_mm256_sub_pd(self.0, other.0)) }
    }
    #[inline(always)]
    unsafe fn mul(self, other: Self) -> Self {
        // SAFETY: see above.
        unsafe { F64x4(_mm256_mul_pd(self.0, other.0)) }
    }
    #[inline(always)]
    unsafe fn larger(self, other: Self) -> Self {
        // SAFETY: see above. The instruction is `first > second ? first : second`.
        unsafe { F64x4(_mm256_max_pd(other.0, self.0)) }
    }
    #[inline(always)]
    unsafe fn smaller(self, other: Self) -> Self {
        // SAFETY: see above. The instruction is `first < second ? first : second`.
        unsafe { F64x4(_mm256_min_pd(other.0, self.0)) }
    }
    #[inline(always)]
    unsafe fn earlier(before: Self, own: Self) -> Self {
        // SAFETY: see above. The middle is the upper half of `before` and the lower half of `own`.
        unsafe {
            let (b, o) = (_mm256_castpd_si256(before.0), _mm256_castpd_si256(own.0));
            let middle = _mm256_permute2x128_si256::<0x21>(b, o);
            F64x4(_mm256_castsi256_pd(_mm256_alignr_epi8::<8>(o, middle)))
        }
    }
    #[inline(always)]
    unsafe fn gt(self, other: Self) -> __m256d {
        // SAFETY: see above.
        unsafe { _mm256_cmp_pd::<_CMP_GT_OQ>(self.0, other.0) }
    }
    #[inline(always)]
    unsafe fn ge(self, other: Self) -> __m256d {
        // SAFETY: see above.
        unsafe { _mm256_cmp_pd::<_CMP_GE_OQ>(self.0, other.0) }
    }
    #[inline(always)]
    unsafe fn or_else(self, mask: __m256d, other: Self) -> Self {
        // SAFETY: see above.
        unsafe { F64x4(_mm256_blendv_pd(other.0, self.0, mask)) }
    }
    #[inline(always)]
    unsafe fn not(a: __m256d) -> __m256d {
        // SAFETY: see above.
        unsafe { _mm256_xor_pd(a, _mm256_castsi256_pd(_mm256_set1_epi32(-1))) }
    }
    #[inline(always)]
    unsafe fn le(self, other: Self) -> __m256d {
        // SAFETY: see above.
        unsafe { _mm256_cmp_pd::<_CMP_LE_OQ>(self.0, other.0) }
    }
    #[inline(always)]
    unsafe fn and_le(self, mask: __m256d, other: Self) -> __m256d {
        // SAFETY: see above.
        unsafe { _mm256_and_pd(mask, _mm256_cmp_pd::<_CMP_LE_OQ>(self.0, other.0)) }
    }
    #[inline(always)]
    unsafe fn and_ge(self, mask: __m256d, other: Self) -> __m256d {
        // SAFETY: see above.
        unsafe { _mm256_and_pd(mask, _mm256_cmp_pd::<_CMP_GE_OQ>(self.0, other.0)) }
    }
    #[inline(always)]
    unsafe fn or(a: __m256d, b: __m256d) -> __m256d {
        // SAFETY: see above.
        unsafe { _mm256_or_pd(a, b) }
    }
    #[inline(always)]
    unsafe fn bits(mask: __m256d) -> u32 {
        // SAFETY: see above.
        unsafe { _mm256_movemask_pd(mask) as u32 }
    }
    #[inline(always)]
    unsafe fn mask(bits: u32) -> __m256d {
        // SAFETY: see above.
        unsafe {
            let each = _mm256_setr_epi64x(1, 2, 4, 8);
            let set = _mm256_and_si256(_mm256_set1_epi64x(i64::from(bits)), each);
            _mm256_castsi256_pd(_mm256_cmpeq_epi64(set, each))
        }
    }
    #[inline(always)]
    unsafe fn pixels(x: *const u16, x0: *const u16) -> Self {
        // SAFETY: see above.
        unsafe {
            let x = _mm_cvtepu16_epi32(_mm_loadl_epi64(x.cast()));
            let x0 = _mm_cvtepu16_epi32(_mm_loadl_epi64(x0.cast()));
            F64x4(_mm256_cvtepi32_pd(_mm_sub_epi32(x, x0)))
        }
    }
    #[inline(always)]
    unsafe fn store_rounded(self, at: *mut i32) {
        // SAFETY: see above, and `store_rounded` of `F32x8`.
        unsafe {
            let whole = _mm256_cvttpd_epi32(self.0);
            let rest = _mm256_sub_pd(self.0, _mm256_cvtepi32_pd(whole));
            let away = _mm256_cvttpd_epi32(_mm256_add_pd(rest, rest));
            _mm_storeu_si128(at.cast(), _mm_add_epi32(whole, away));
        }
    }
    #[inline(always)]
    unsafe fn round4(from: *const f64, to: *mut i32) {
        // SAFETY: as `store_rounded`.
        unsafe { Self::load(from).store_rounded(to) }
    }
    #[inline(always)]
    unsafe fn round8(from: *const f64, to: *mut i32) {
        // SAFETY: as `round4`, twice.
        unsafe {
            Self::round4(from, to);
            Self::round4(from.add(4), to.add(4));
        }
    }
    #[inline(always)]
    unsafe fn prefetch(at: *const u8) {
        // SAFETY: a hint, good for any address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(at.cast()) }
    }
}

impl Family<f32, f32> for Avx2 {
    type V = F32x8;
    type W = F32x8;
    const SAME: bool = true;
    #[inline(always)]
    unsafe fn widen(v: F32x8) -> F32x8 {
        v
    }
    #[inline(always)]
    unsafe fn narrow(w: F32x8) -> F32x8 {
        w
    }
    #[inline(always)]
    unsafe fn mask(m: __m256) -> __m256 {
        m
    }
}

impl Family<f64, f32> for Avx2 {
    type V = F32x8;
    type W = Two<F64x4>;
    const SAME: bool = false;
    #[inline(always)]
    unsafe fn widen(v: F32x8) -> Two<F64x4> {
        // SAFETY: the caller runs on a machine with AVX2.
        unsafe {
            let (low, high) = (_mm256_castps256_ps128(v.0), _mm256_extractf128_ps::<1>(v.0));
            Two(F64x4(_mm256_cvtps_pd(low)), F64x4(_mm256_cvtps_pd(high)))
        }
    }
    #[inline(always)]
    unsafe fn narrow(w: Two<F64x4>) -> F32x8 {
        // SAFETY: the caller runs on a machine with AVX2; rounding is to nearest even, the mode of the process.
        unsafe { F32x8(_mm256_set_m128(_mm256_cvtpd_ps(w.1.0), _mm256_cvtpd_ps(w.0.0))) }
    }
    #[inline(always)]
    unsafe fn mask(m: __m256) -> (__m256d, __m256d) {
        // SAFETY: the caller runs on a machine with AVX2. Lanes of all ones stay so when they are sign-extended.
        unsafe {
            let m = _mm256_castps_si256(m);
            let (low, high) = (_mm256_castsi256_si128(m), _mm256_extracti128_si256::<1>(m));
            (
                _mm256_castsi256_pd(_mm256_cvtepi32_epi64(low)),
                _mm256_castsi256_pd(_mm256_cvtepi32_epi64(high)),
            )
        }
    }
}

impl Family<f64, f64> for Avx2 {
    type V = Two<F64x4>;
    type W = Two<F64x4>;
    const SAME: bool = true;
    #[inline(always)]
    unsafe fn widen(v: Two<F64x4>) -> Two<F64x4> {
        v
    }
    #[inline(always)]
    unsafe fn narrow(w: Two<F64x4>) -> Two<F64x4> {
        w
    }
    #[inline(always)]
    unsafe fn mask(m: (__m256d, __m256d)) -> (__m256d, __m256d) {
        m
    }
}
