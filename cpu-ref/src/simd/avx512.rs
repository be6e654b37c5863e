//! AVX-512: 16 lanes of `f32`, 8 of `f64`, truth values in mask registers.

use std::arch::x86_64::*;

use super::shells::shells;
use super::vector::{Family, Two, Vector};

/// AVX-512 F, BW, DQ and VL.
pub(super) struct Avx512;

shells!(Avx512, #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,bmi1,bmi2,lzcnt,popcnt")]);

#[derive(Clone, Copy)]
pub(super) struct F32x16(__m512);
#[derive(Clone, Copy)]
pub(super) struct F64x8(__m512d);

impl Vector for F32x16 {
    type Elem = f32;
    type Mask = __mmask16;
    const LANES: usize = 16;

    // SAFETY, for every block here: the caller runs on a machine with AVX-512 and gives pointers that are good for
    // 16 values; the loads and stores are the unaligned ones.
    #[inline(always)]
    unsafe fn splat(v: f32) -> Self {
        // SAFETY: see above.
        unsafe { F32x16(_mm512_set1_ps(v)) }
    }
    #[inline(always)]
    unsafe fn load(at: *const f32) -> Self {
        // SAFETY: see above.
        unsafe { F32x16(_mm512_loadu_ps(at)) }
    }
    #[inline(always)]
    unsafe fn store(self, at: *mut f32) {
        // SAFETY: see above.
        unsafe { _mm512_storeu_ps(at, self.0) }
    }
    #[inline(always)]
    unsafe fn add(self, other: Self) -> Self {
        // SAFETY: see above.
        unsafe { F32x16(_mm512_add_ps(self.0, other.0)) }
    }
    #[inline(always)]
    unsafe fn sub(self, other: Self) -> Self {
        // SAFETY: see above.
        unsafe { F32x16(_mm512_sub_ps(self.0, other.0)) }
    }
    #[inline(always)]
    unsafe fn mul(self, other: Self) -> Self {
        // SAFETY: see above.
        unsafe { F32x16(_mm512_mul_ps(self.0, other.0)) }
    }
    #[inline(always)]
    unsafe fn larger(self, other: Self) -> Self {
        // SAFETY: see above. The instruction is `first > second ? first : second`.
        unsafe { F32x16(_mm512_max_ps(other.0, self.0)) }
    }
    #[inline(always)]
    unsafe fn peak(self, other: Self) -> Self {
        // SAFETY: see above. Values that are not negative are ordered as their bits are as integers, and negative
        // ones come below them; integer units are free while the others multiply and compare.
        unsafe {
            let (a, b) = (_mm512_castps_si512(self.0), _mm512_castps_si512(other.0));
            F32x16(_mm512_castsi512_ps(_mm512_max_epi32(a, b)))
        }
    }
    #[inline(always)]
    unsafe fn smaller(self, other: Self) -> Self {
        // SAFETY: see above. The instruction is `first < second ? first : second`.
        unsafe { F32x16(_mm512_min_ps(other.0, self.0)) }
    }
    #[inline(always)]
    unsafe fn beside(before: Self, own: Self, after: Self, _: *const f32) -> (Self, Self) {
        // SAFETY: see above. A load across two cache lines costs two; shifting registers costs the loads nothing.
        unsafe {
            let (b, o) = (_mm512_castps_si512(before.0), _mm512_castps_si512(own.0));
            let a = _mm512_castps_si512(after.0);
            let (left, right) = (_mm512_alignr_epi32::<15>(o, b), _mm512_alignr_epi32::<1>(a, o));
            (F32x16(_mm512_castsi512_ps(left)), F32x16(_mm512_castsi512_ps(right)))
        }
    }
    #[inline(always)]
    unsafe fn earlier(before: Self, own: Self) -> Self {
        // SAFETY: see above.
        unsafe {
            let (b, o) = (_mm512_castps_si512(before.0), _mm512_castps_si512(own.0));
            F32x16(_mm512_castsi512_ps(_mm512_alignr_epi32::<15>(o, b)))
        }
    }
    #[inline(always)]
    unsafe fn aside(before: Self, own: Self, after: Self, _: *const f32, by: isize) -> Self {
        // SAFETY: see above, and `beside`.
        unsafe {
            let (b, o) = (_mm512_castps_si512(before.0), _mm512_castps_si512(own.0));
            let a = _mm512_castps_si512(after.0);
            let v = match by {
                -7 => _mm512_alignr_epi32::<9>(o, b),
                -6 => _mm512_alignr_epi32::<10>(o, b),
                -5 => _mm512_alignr_epi32::<11>(o, b),
                -4 => _mm512_alignr_epi32::<12>(o, b),
                -3 => _mm512_alignr_epi32::<13>(o, b),
                -2 => _mm512_alignr_epi32::<14>(o, b),
                -1 => _mm512_alignr_epi32::<15>(o, b),
                1 => _mm512_alignr_epi32::<1>(a, o),
                2 => _mm512_alignr_epi32::<2>(a, o),
                3 => _mm512_alignr_epi32::<3>(a, o),
                4 => _mm512_alignr_epi32::<4>(a, o),
                5 => _mm512_alignr_epi32::<5>(a, o),
                6 => _mm512_alignr_epi32::<6>(a, o),
                7 => _mm512_alignr_epi32::<7>(a, o),
                _ => o,
            };
            F32x16(_mm512_castsi512_ps(v))
        }
    }
    #[inline(always)]
    unsafe fn gt(self, other: Self) -> __mmask16 {
        // SAFETY: see above.
        unsafe { _mm512_cmp_ps_mask::<_CMP_GT_OQ>(self.0, other.0) }
    }
    #[inline(always)]
    unsafe fn ge(self, other: Self) -> __mmask16 {
        // SAFETY: see above.
        unsafe { _mm512_cmp_ps_mask::<_CMP_GE_OQ>(self.0, other.0) }
    }
    #[inline(always)]
    unsafe fn or_else(self, mask: __mmask16, other: Self) -> Self {
        // SAFETY: see above.
        unsafe { F32x16(_mm512_mask_blend_ps(mask, other.0, self.0)) }
    }
    #[inline(always)]
    unsafe fn not(a: __mmask16) -> __mmask16 {
        !a
    }
    #[inline(always)]
    unsafe fn le(self, other: Self) -> __mmask16 {
        // SAFETY: see above.
        unsafe { _mm512_cmp_ps_mask::<_CMP_LE_OQ>(self.0, other.0) }
    }
    #[inline(always)]
    unsafe fn and_le(self, mask: __mmask16, other: Self) -> __mmask16 {
        // SAFETY: see above.
        unsafe { _mm512_mask_cmp_ps_mask::<_CMP_LE_OQ>(mask, self.0, other.0) }
    }
    #[inline(always)]
    unsafe fn and_ge(self, mask: __mmask16, other: Self) -> __mmask16 {
        // SAFETY: see above.
        unsafe { _mm512_mask_cmp_ps_mask::<_CMP_GE_OQ>(mask, self.0, other.0) }
    }
    #[inline(always)]
    unsafe fn add_where(self, mask: __mmask16, other: Self) -> Self {
        // SAFETY: see above.
        unsafe { F32x16(_mm512_mask_add_ps(self.0, mask, self.0, other.0)) }
    }
    #[inline(always)]
    unsafe fn or(a: __mmask16, b: __mmask16) -> __mmask16 {
        a | b
    }
    #[inline(always)]
    unsafe fn bits(mask: __mmask16) -> u32 {
        u32::from(mask)
    }
    #[inline(always)]
    unsafe fn mask(bits: u32) -> __mmask16 {
        bits as __mmask16
    }
    #[inline(always)]
    unsafe fn pixels(x: *const u16, x0: *const u16) -> Self {
        // SAFETY: see above.
        unsafe {
            let x = _mm512_cvtepu16_epi32(_mm256_loadu_si256(x.cast()));
            let x0 = _mm512_cvtepu16_epi32(_mm256_loadu_si256(x0.cast()));
            F32x16(_mm512_cvtepi32_ps(_mm512_sub_epi32(x, x0)))
        }
    }
    #[inline(always)]
    unsafe fn store_rounded(self, at: *mut i32) {
        // SAFETY: see above. What truncation leaves is exact, and so is its double, which is 1 or more in magnitude
        // where the value has to be rounded away from zero.
        unsafe {
            let whole = _mm512_cvttps_epi32(self.0);
            let rest = _mm512_sub_ps(self.0, _mm512_cvtepi32_ps(whole));
            let away = _mm512_cvttps_epi32(_mm512_add_ps(rest, rest));
            _mm512_storeu_si512(at.cast(), _mm512_add_epi32(whole, away));
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
        // SAFETY: as `store_rounded`, with 8 values.
        unsafe {
            let d = _mm256_loadu_ps(from);
            let whole = _mm256_cvttps_epi32(d);
            let rest = _mm256_sub_ps(d, _mm256_cvtepi32_ps(whole));
            let away = _mm256_cvttps_epi32(_mm256_add_ps(rest, rest));
            _mm256_storeu_si256(to.cast(), _mm256_add_epi32(whole, away));
        }
    }
    #[inline(always)]
    unsafe fn prefetch(at: *const u8) {
        // SAFETY: a hint, good for any address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(at.cast()) }
    }
}

impl Vector for F64x8 {
    type Elem = f64;
    type Mask = __mmask8;
    const LANES: usize = 8;

    // SAFETY, for every block here: as above with 8 values.
    #[inline(always)]
    unsafe fn splat(v: f64) -> Self {
        // SAFETY: see above.
        unsafe { F64x8(_mm512_set1_pd(v)) }
    }
    #[inline(always)]
    unsafe fn load(at: *const f64) -> Self {
        // SAFETY: see above.
        unsafe { F64x8(_mm512_loadu_pd(at)) }
    }
    #[inline(always)]
    unsafe fn store(self, at: *mut f64) {
        // SAFETY: see above.
        unsafe { _mm512_storeu_pd(at, self.0) }
    }
    #[inline(always)]
    unsafe fn add(self, other: Self) -> Self {
        // SAFETY: see above.
        unsafe { F64x8(_mm512_add_pd(self.0, other.0)) }
    }
    #[inline(always)]
    unsafe fn sub(self, other: Self) -> Self {
        // SAFETY: see above.
        unsafe { F64x8(_mm512_sub_pd(self.0, other.0)) }
    }
    #[inline(always)]
    unsafe fn mul(self, other: Self) -> Self {
        // SAFETY: see above.
        unsafe { F64x8(_mm512_mul_pd(self.0, other.0)) }
    }
    #[inline(always)]
    unsafe fn larger(self, other: Self) -> Self {
        // SAFETY: see above. The instruction is `first > second ? first : second`.
        unsafe { F64x8(_mm512_max_pd(other.0, self.0)) }
    }
    #[inline(always)]
    unsafe fn peak(self, other: Self) -> Self {
        // SAFETY: see above, and `peak` of `F32x16`.
        unsafe {
            let (a, b) = (_mm512_castpd_si512(self.0), _mm512_castpd_si512(other.0));
            F64x8(_mm512_castsi512_pd(_mm512_max_epi64(a, b)))
        }
    }
    #[inline(always)]
    unsafe fn smaller(self, other: Self) -> Self {
        // SAFETY: see above. The instruction is `first < second ? first : second`.
        unsafe { F64x8(_mm512_min_pd(other.0, self.0)) }
    }
    #[inline(always)]
    unsafe fn beside(before: Self, own: Self, after: Self, _: *const f64) -> (Self, Self) {
        // SAFETY: see above, and `beside` of `F32x16`.
        unsafe {
            let (b, o) = (_mm512_castpd_si512(before.0), _mm512_castpd_si512(own.0));
            let a = _mm512_castpd_si512(after.0);
            let (left, right) = (_mm512_alignr_epi64::<7>(o, b), _mm512_alignr_epi64::<1>(a, o));
            (F64x8(_mm512_castsi512_pd(left)), F64x8(_mm512_castsi512_pd(right)))
        }
    }
    #[inline(always)]
    unsafe fn earlier(before: Self, own: Self) -> Self {
        // SAFETY: see above.
        unsafe {
            let (b, o) = (_mm512_castpd_si512(before.0), _mm512_castpd_si512(own.0));
            F64x8(_mm512_castsi512_pd(_mm512_alignr_epi64::<7>(o, b)))
        }
    }
    #[inline(always)]
    unsafe fn aside(before: Self, own: Self, after: Self, _: *const f64, by: isize) -> Self {
        // SAFETY: see above, and `beside`.
        unsafe {
            let (b, o) = (_mm512_castpd_si512(before.0), _mm512_castpd_si512(own.0));
            let a = _mm512_castpd_si512(after.0);
            let v = match by {
                -7 => _mm512_alignr_epi64::<1>(o, b),
                -6 => _mm512_alignr_epi64::<2>(o, b),
                -5 => _mm512_alignr_epi64::<3>(o, b),
                -4 => _mm512_alignr_epi64::<4>(o, b),
                -3 => _mm512_alignr_epi64::<5>(o, b),
                -2 => _mm512_alignr_epi64::<6>(o, b),
                -1 => _mm512_alignr_epi64::<7>(o, b),
                1 => _mm512_alignr_epi64::<1>(a, o),
                2 => _mm512_alignr_epi64::<2>(a, o),
                3 => _mm512_alignr_epi64::<3>(a, o),
                4 => _mm512_alignr_epi64::<4>(a, o),
                5 => _mm512_alignr_epi64::<5>(a, o),
                6 => _mm512_alignr_epi64::<6>(a, o),
                7 => _mm512_alignr_epi64::<7>(a, o),
                _ => o,
            };
            F64x8(_mm512_castsi512_pd(v))
        }
    }
    #[inline(always)]
    unsafe fn gt(self, other: Self) -> __mmask8 {
        // SAFETY: see above.
        unsafe { _mm512_cmp_pd_mask::<_CMP_GT_OQ>(self.0, other.0) }
    }
    #[inline(always)]
    unsafe fn ge(self, other: Self) -> __mmask8 {
        // SAFETY: see above.
        unsafe { _mm512_cmp_pd_mask::<_CMP_GE_OQ>(self.0, other.0) }
    }
    #[inline(always)]
    unsafe fn or_else(self, mask: __mmask8, other: Self) -> Self {
        // SAFETY: see above.
        unsafe { F64x8(_mm512_mask_blend_pd(mask, other.0, self.0)) }
    }
    #[inline(always)]
    unsafe fn not(a: __mmask8) -> __mmask8 {
        !a
    }
    #[inline(always)]
    unsafe fn le(self, other: Self) -> __mmask8 {
        // SAFETY: see above.
        unsafe { _mm512_cmp_pd_mask::<_CMP_LE_OQ>(self.0, other.0) }
    }
    #[inline(always)]
    unsafe fn and_le(self, mask: __mmask8, other: Self) -> __mmask8 {
        // SAFETY: see above.
        unsafe { _mm512_mask_cmp_pd_mask::<_CMP_LE_OQ>(mask, self.0, other.0) }
    }
    #[inline(always)]
    unsafe fn and_ge(self, mask: __mmask8, other: Self) -> __mmask8 {
        // SAFETY: see above.
        unsafe { _mm512_mask_cmp_pd_mask::<_CMP_GE_OQ>(mask, self.0, other.0) }
    }
    #[inline(always)]
    unsafe fn add_where(self, mask: __mmask8, other: Self) -> Self {
        // SAFETY: see above.
        unsafe { F64x8(_mm512_mask_add_pd(self.0, mask, self.0, other.0)) }
    }
    #[inline(always)]
    unsafe fn or(a: __mmask8, b: __mmask8) -> __mmask8 {
        a | b
    }
    #[inline(always)]
    unsafe fn bits(mask: __mmask8) -> u32 {
        u32::from(mask)
    }
    #[inline(always)]
    unsafe fn mask(bits: u32) -> __mmask8 {
        bits as __mmask8
    }
    #[inline(always)]
    unsafe fn pixels(x: *const u16, x0: *const u16) -> Self {
        // SAFETY: see above.
        unsafe {
            let x = _mm256_cvtepu16_epi32(_mm_loadu_si128(x.cast()));
            let x0 = _mm256_cvtepu16_epi32(_mm_loadu_si128(x0.cast()));
            F64x8(_mm512_cvtepi32_pd(_mm256_sub_epi32(x, x0)))
        }
    }
    #[inline(always)]
    unsafe fn store_rounded(self, at: *mut i32) {
        // SAFETY: see above, and `store_rounded` of `F32x16`.
        unsafe {
            let whole = _mm512_cvttpd_epi32(self.0);
            let rest = _mm512_sub_pd(self.0, _mm512_cvtepi32_pd(whole));
            let away = _mm512_cvttpd_epi32(_mm512_add_pd(rest, rest));
            _mm256_storeu_si256(at.cast(), _mm256_add_epi32(whole, away));
        }
    }
    #[inline(always)]
    unsafe fn round4(from: *const f64, to: *mut i32) {
        // SAFETY: as `store_rounded`, with 4 values.
        unsafe {
            let d = _mm256_loadu_pd(from);
            let whole = _mm256_cvttpd_epi32(d);
            let rest = _mm256_sub_pd(d, _mm256_cvtepi32_pd(whole));
            let away = _mm256_cvttpd_epi32(_mm256_add_pd(rest, rest));
            _mm_storeu_si128(to.cast(), _mm_add_epi32(whole, away));
        }
    }
    #[inline(always)]
    unsafe fn round8(from: *const f64, to: *mut i32) {
        // SAFETY: as `store_rounded`.
        unsafe { Self::load(from).store_rounded(to) }
    }
    #[inline(always)]
    unsafe fn prefetch(at: *const u8) {
        // SAFETY: a hint, good for any address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(at.cast()) }
    }
}

impl Family<f32, f32> for Avx512 {
    type V = F32x16;
    type W = F32x16;
    const SAME: bool = true;
    #[inline(always)]
    unsafe fn widen(v: F32x16) -> F32x16 {
        v
    }
    #[inline(always)]
    unsafe fn narrow(w: F32x16) -> F32x16 {
        w
    }
    #[inline(always)]
    unsafe fn mask(m: __mmask16) -> __mmask16 {
        m
    }
}

impl Family<f64, f32> for Avx512 {
    type V = F32x16;
    type W = Two<F64x8>;
    const SAME: bool = false;
    #[inline(always)]
    unsafe fn widen(v: F32x16) -> Two<F64x8> {
        // SAFETY: the caller runs on a machine with AVX-512.
        unsafe {
            let (low, high) = (_mm512_castps512_ps256(v.0), _mm512_extractf32x8_ps::<1>(v.0));
            Two(F64x8(_mm512_cvtps_pd(low)), F64x8(_mm512_cvtps_pd(high)))
        }
    }
    #[inline(always)]
    unsafe fn narrow(w: Two<F64x8>) -> F32x16 {
        // SAFETY: the caller runs on a machine with AVX-512; rounding is to nearest even, the mode of the process.
        unsafe {
            let low = _mm512_castps256_ps512(_mm512_cvtpd_ps(w.0.0));
            F32x16(_mm512_insertf32x8::<1>(low, _mm512_cvtpd_ps(w.1.0)))
        }
    }
    #[inline(always)]
    unsafe fn mask(m: __mmask16) -> (__mmask8, __mmask8) {
        (m as __mmask8, (m >> 8) as __mmask8)
    }
}

impl Family<f64, f64> for Avx512 {
    type V = F64x8;
    type W = F64x8;
    const SAME: bool = true;
    #[inline(always)]
    unsafe fn widen(v: F64x8) -> F64x8 {
        v
    }
    #[inline(always)]
    unsafe fn narrow(w: F64x8) -> F64x8 {
        w
    }
    #[inline(always)]
    unsafe fn mask(m: __mmask8) -> __mmask8 {
        m
    }
}
