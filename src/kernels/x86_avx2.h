/*
 * The framework of all AVX2 kernels. A kernel is a step, which converts exactly AVX2_STEP elements
 * between addresses of any alignment, and avx2_drive, which runs the step over a range: a short
 * head until the destination is aligned, whole steps, and a short tail. Head and tail go through
 * buffers on the stack, so a step never touches a byte outside the range.
 */
#ifndef TENMAP_X86_AVX2_H
#define TENMAP_X86_AVX2_H

#include "kernels.h"

#if TMI_AVX2

#include <immintrin.h>
#include <string.h>

#define AVX2_TARGET __attribute__((target("avx2,f16c")))
#define AVX2_INLINE static inline __attribute__((target("avx2,f16c"), always_inline))

/* At -O2, GCC does not unroll even loops of two iterations by itself. */
#if defined(__clang__)
#define AVX2_UNROLL _Pragma("clang loop unroll(full)")
#else
#define AVX2_UNROLL _Pragma("GCC unroll 8")
#endif

/*
 * How many bytes ahead streaming loops prefetch their source. Widening kernels perform the same
 * from 512 to 2048. Narrowing kernels read the most and gain the most: a loop with little
 * computation runs ahead of the loads by itself and wants a short distance, one with much
 * computation a long one.
 */
enum { AVX2_STEP = 32, AVX2_NEAR = 512, AVX2_PREFETCH = 1024, AVX2_FAR = 2048 };

/* `stream` and `saturate` are constants wherever a step is inlined. */
typedef void avx2_step(unsigned char *d, const unsigned char *s, bool stream, bool saturate);

/* How results are stored. These are constants where a kernel is inlined. */
typedef struct avx2_form {
    tenmap_dtype as;
    bool stream; /* with non-temporal stores */
    bool saturate;
} avx2_form;

AVX2_INLINE __m256i avx2_load(const unsigned char *s, size_t vector) {
    return _mm256_loadu_si256((const __m256i *)(const void *)(s + vector * 32));
}

AVX2_INLINE __m128i avx2_load_half(const unsigned char *s, size_t half) {
    return _mm_loadu_si128((const __m128i *)(const void *)(s + half * 16));
}

AVX2_INLINE void avx2_store(unsigned char *d, size_t vector, __m256i value, bool stream) {
    __m256i *at = (__m256i *)(void *)(d + vector * 32);
    if (stream)
        _mm256_stream_si256(at, value);
    else
        _mm256_storeu_si256(at, value);
}

/*
 * Whether one of 16 F32 is a NaN. In assembly because under -ffast-math compilers may assume that a
 * comparison never sees a NaN.
 */
AVX2_INLINE bool avx2_any_nan(__m256i a, __m256i b) {
    __m256i mask;
    __asm__("vcmpunordps %2, %1, %0" : "=x"(mask) : "x"(a), "x"(b));
    return !_mm256_testz_si256(mask, mask);
}

/*
 * Clamps F32 magnitudes to `limit` and keeps NaN and signs. Saturation comes before rounding:
 * values above the largest finite one round to at least that.
 */
AVX2_INLINE __m256i clamp_not_nan(__m256i bits, int limit) {
    __m256i magnitude = _mm256_and_si256(bits, _mm256_set1_epi32(0x7fffffff));
    __m256i is_nan = _mm256_cmpgt_epi32(magnitude, _mm256_set1_epi32(0x7f800000));
    __m256i clamped = _mm256_min_epu32(magnitude, _mm256_set1_epi32(limit));
    __m256i sign = _mm256_xor_si256(bits, magnitude);
    return _mm256_or_si256(sign, _mm256_blendv_epi8(clamped, magnitude, is_nan));
}

/* Eight F32 to BF16 in the low halves of 32-bit lanes; handles NaN only if `nans`. */
AVX2_INLINE __m256i bf16_from_f32_avx2(__m256i bits, bool nans) {
    __m256i high = _mm256_srli_epi32(bits, 16);
    __m256i odd = _mm256_and_si256(high, _mm256_set1_epi32(1));
    __m256i sum = _mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7fff)), odd);
    __m256i rounded = _mm256_srli_epi32(sum, 16);
    if (!nans)
        return rounded;
    __m256i magnitude = _mm256_and_si256(bits, _mm256_set1_epi32(0x7fffffff));
    __m256i is_nan = _mm256_cmpgt_epi32(magnitude, _mm256_set1_epi32(0x7f800000));
    __m256i quiet = _mm256_or_si256(high, _mm256_set1_epi32(0x0040));
    return _mm256_blendv_epi8(rounded, quiet, is_nan);
}

/* VCVTPS2PH with its rounding mode in the instruction does not depend on the caller's mode. */
AVX2_INLINE __m128i f16_from_f32_avx2(__m256i bits, bool saturate) {
    if (saturate)
        bits = clamp_not_nan(bits, 0x477fe000);
    return _mm256_cvtps_ph(_mm256_castsi256_ps(bits), _MM_FROUND_TO_NEAREST_INT);
}

/* Packs two vectors of 16-bit results in 32-bit lanes into one, in order. */
AVX2_INLINE __m256i pack_16(__m256i a, __m256i b) {
    return _mm256_permute4x64_epi64(_mm256_packus_epi32(a, b), _MM_SHUFFLE(3, 1, 2, 0));
}

/* Sixteen F32 to BF16. Weights rarely contain NaN, so the code for NaN is behind a branch. */
AVX2_INLINE __m256i bf16_from_two(__m256i a, __m256i b, bool saturate) {
    if (saturate) {
        a = clamp_not_nan(a, 0x7f7f0000);
        b = clamp_not_nan(b, 0x7f7f0000);
    }
    if (TMI_UNLIKELY(avx2_any_nan(a, b)))
        return pack_16(bf16_from_f32_avx2(a, true), bf16_from_f32_avx2(b, true));
    return pack_16(bf16_from_f32_avx2(a, false), bf16_from_f32_avx2(b, false));
}

/* How a step is repeated. These are constants where a kernel is inlined. */
typedef struct avx2_loop {
    size_t src_bits, dst_bytes; /* of one element */
    size_t prefetch;            /* how many bytes ahead */
    bool saturate;
} avx2_loop;

/* Converts fewer elements than a step. */
AVX2_INLINE void avx2_partial_step(unsigned char *d, const unsigned char *s, size_t count,
                                   avx2_step *step, avx2_loop loop) {
    unsigned char in[AVX2_STEP * 8], out[AVX2_STEP * 8];
    AVX2_UNROLL
    for (size_t i = 0; i * 256 < AVX2_STEP * loop.src_bits; i++)
        avx2_store(in, i, _mm256_setzero_si256(), false);
    memcpy(in, s, (count * loop.src_bits + 7) / 8);
    step(out, in, false, loop.saturate);
    memcpy(d, out, count * loop.dst_bytes);
}

AVX2_INLINE void avx2_drive(void *dst, const void *src, size_t count, avx2_step *step, bool stream,
                            avx2_loop loop) {
    const size_t src_bits = loop.src_bits, dst_bytes = loop.dst_bytes;
    const size_t src_step = AVX2_STEP * src_bits / 8, dst_step = AVX2_STEP * dst_bytes;
    unsigned char *d = dst;
    const unsigned char *s = src;
    size_t line = dst_bytes == 1 ? 32 : 64;
    size_t gap = (size_t) - (uintptr_t)d & (line - 1), head = gap / dst_bytes;
    bool aligns = gap % dst_bytes == 0 && head * src_bits % 8 == 0;
    if (aligns && head && count >= AVX2_STEP + head) {
        avx2_partial_step(d, s, head, step, loop);
        d += gap;
        s += head * src_bits / 8;
        count -= head;
    }
    size_t steps = count / AVX2_STEP, tail = count % AVX2_STEP;
    if (stream && (uintptr_t)d % 32 == 0) {
        for (; steps; steps--, d += dst_step, s += src_step) {
            AVX2_UNROLL
            for (size_t ahead = 0; ahead < src_step; ahead += 64)
                _mm_prefetch((const char *)s + loop.prefetch + ahead, _MM_HINT_T0);
            step(d, s, true, loop.saturate);
        }
        _mm_sfence();
    } else {
        for (; steps; steps--, d += dst_step, s += src_step)
            step(d, s, false, loop.saturate);
    }
    if (tail)
        avx2_partial_step(d, s, tail, step, loop);
}

/* Defines a kernel from a step that ignores saturation. */
#define AVX2_KERNEL(kernel, step, src_bits, dst_bytes)                                             \
    AVX2_TARGET void kernel(void *dst, const void *src, size_t count, uint32_t flags) {            \
        avx2_loop loop = {src_bits, dst_bytes, AVX2_PREFETCH, false};                              \
        avx2_drive(dst, src, count, step, flags &TENMAP_CONVERT_STREAM, loop);                     \
    }

/* The same for a step that saturates: two copies, so that neither tests the flag at every step. */
#define AVX2_SATURATING_KERNEL(kernel, step, src_bits, dst_bytes, prefetch)                        \
    AVX2_TARGET void kernel(void *dst, const void *src, size_t count, uint32_t flags) {            \
        bool stream = flags & TENMAP_CONVERT_STREAM;                                               \
        avx2_loop plain = {src_bits, dst_bytes, prefetch, false};                                  \
        avx2_loop saturating = {src_bits, dst_bytes, prefetch, true};                              \
        if (flags & TENMAP_CONVERT_SATURATE)                                                       \
            avx2_drive(dst, src, count, step, stream, saturating);                                 \
        else                                                                                       \
            avx2_drive(dst, src, count, step, stream, plain);                                      \
    }

/* x86_avx2_widen.c: exact results, except for I32 to F32. */
tmi_kernel tmi_avx2_bf16_to_f32, tmi_avx2_f16_to_f32, tmi_avx2_e4m3_to_f32, tmi_avx2_e5m2_to_f32;
tmi_kernel tmi_avx2_e4m3_to_bf16, tmi_avx2_e5m2_to_bf16, tmi_avx2_e4m3_to_f16;
tmi_kernel tmi_avx2_e5m2_to_f16, tmi_avx2_f4_to_f32, tmi_avx2_f4_to_bf16, tmi_avx2_f4_to_f16;
tmi_kernel tmi_avx2_e4m3fnuz_to_f32, tmi_avx2_e4m3fnuz_to_bf16, tmi_avx2_e4m3fnuz_to_f16;
tmi_kernel tmi_avx2_e5m2fnuz_to_f32, tmi_avx2_e5m2fnuz_to_bf16, tmi_avx2_e5m2fnuz_to_f16;
tmi_kernel tmi_avx2_i8_to_f32, tmi_avx2_u8_to_f32, tmi_avx2_i16_to_f32, tmi_avx2_u16_to_f32;
tmi_kernel tmi_avx2_i32_to_f32;

/* x86_avx2_f64.c: to and from F64. */
tmi_kernel tmi_avx2_f32_to_f64, tmi_avx2_f64_to_f32, tmi_avx2_f64_to_odd;
tmi_kernel tmi_avx2_f64_to_bf16, tmi_avx2_f64_to_f16;

/* x86_avx2_narrow.c */
tmi_kernel tmi_avx2_f32_to_bf16, tmi_avx2_f32_to_f16, tmi_avx2_bf16_to_f16, tmi_avx2_f16_to_bf16;
tmi_kernel tmi_avx2_f32_to_f4, tmi_avx2_f32_to_e2m3, tmi_avx2_f32_to_e3m2, tmi_avx2_f32_to_e5m2;
tmi_kernel tmi_avx2_f32_to_e4m3, tmi_avx2_f32_to_e4m3fnuz, tmi_avx2_f32_to_e5m2fnuz;
tmi_kernel tmi_avx2_bf16_to_e5m2, tmi_avx2_bf16_to_e4m3, tmi_avx2_bf16_to_e4m3fnuz;
tmi_kernel tmi_avx2_bf16_to_e5m2fnuz, tmi_avx2_f16_to_e5m2, tmi_avx2_f16_to_e4m3;
tmi_kernel tmi_avx2_f16_to_e4m3fnuz, tmi_avx2_f16_to_e5m2fnuz;

/* x86_avx2_group_ops.c */
tmi_group_op tmi_avx2_group_times, tmi_avx2_group_minus, tmi_avx2_group_plus;
tmi_nibbles tmi_avx2_nibbles;

/* x86_avx2_dequant_fused.c and x86_avx2_dequant_fused8.c */
tmi_dequant_fused tmi_avx2_fused4, tmi_avx2_fused_e4m3, tmi_avx2_fused_i8;
/* x86_avx2_transpose.c */
tmi_split_columns tmi_avx2_split_columns;
tmi_scale_by_powers tmi_avx2_scale_by_powers;
tmi_transpose tmi_avx2_transpose16, tmi_avx2_transpose32;
/* x86_avx2_low_rank.c */
tmi_add_scaled tmi_avx2_add_scaled;
tmi_matrix_product tmi_avx2_product;

#ifndef TENMAP_NO_MEASURE
/* x86_avx2_moments.c */
tmi_moments tmi_avx2_moments_bf16, tmi_avx2_moments_f16, tmi_avx2_moments_f32;
tmi_f32_find_bins tmi_avx2_f32_find_bins;
#endif

#endif
#endif
