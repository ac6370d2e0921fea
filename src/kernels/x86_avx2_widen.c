/*
 * AVX2 kernels to wider dtypes, which hold every source value exactly, except those of I32. All
 * values of sources of at most 8 bits fit into BF16, so they are converted to BF16 with 16-bit
 * integer arithmetic, and from there to F32 by appending 16 zero bits.
 */
#include "x86_avx2.h"

#if TMI_AVX2

/*
 * Stores 16 BF16 as two vectors of F32. The 16 lanes must hold elements 0-3, 8-11, 4-7, 12-15,
 * because unpacking works within 128-bit halves.
 */
AVX2_INLINE void store_bf16_as_f32(unsigned char *d, size_t vector, __m256i split, bool stream) {
    __m256i zero = _mm256_setzero_si256();
    avx2_store(d, vector, _mm256_unpacklo_epi16(zero, split), stream);
    avx2_store(d, vector + 1, _mm256_unpackhi_epi16(zero, split), stream);
}

/* Reorders 32 bytes so that byte unpacking leaves their lanes as store_bf16_as_f32 needs them. */
AVX2_INLINE __m256i split_codes(__m256i codes) {
    return _mm256_permutevar8x32_epi32(codes, _mm256_setr_epi32(0, 2, 4, 6, 1, 3, 5, 7));
}

#define AVX2_LOAD_8 _mm_loadl_epi64((const __m128i *)(const void *)(s + i * 8))

AVX2_INLINE void step_bf16_to_f32(unsigned char *d, const unsigned char *s, bool stream,
                                  bool saturate) {
    (void)saturate;
    AVX2_UNROLL
    for (size_t i = 0; i < 2; i++) {
        __m256i v = _mm256_permute4x64_epi64(avx2_load(s, i), _MM_SHUFFLE(3, 1, 2, 0));
        store_bf16_as_f32(d, i * 2, v, stream);
    }
}

AVX2_INLINE void step_f16_to_f32(unsigned char *d, const unsigned char *s, bool stream,
                                 bool saturate) {
    (void)saturate;
    AVX2_UNROLL
    for (size_t i = 0; i < 4; i++) {
        __m256 v = _mm256_cvtph_ps(avx2_load_half(s, i));
        avx2_store(d, i, _mm256_castps_si256(v), stream);
    }
}

/*
 * Converts 8-bit floats to 16 bits, byte by byte. Nearly all magnitudes follow a rule, (code <<
 * shift) + base: each byte of the result is the sum of two contributions, one from each half of the
 * code, which a shuffle looks up. The exceptions (subnormals, infinity, NaN) are at most 16
 * consecutive codes modulo 128: 128 - rotation to 127, then 0 and up. For those, another shuffle
 * finds what to change in the rule's result. The tables that are indexed by the low half are
 * rotated by `rotation` as well, so that one index serves both.
 */
typedef struct byte_tables {
    uint8_t rotation;
    /* By the high half: part of the upper byte, with the sign. */
    uint8_t upper_high[16];
    uint8_t upper_low[16], lower_low[16];       /* by the low half */
    uint8_t upper_change[16], lower_change[16]; /* by the code; both rotated by `rotation` */
} byte_tables;

/* (code << 4) + 0x3c00 */
static const byte_tables e4m3_bf16_bytes = {
    1,
    {0x3c, 0x3d, 0x3e, 0x3f, 0x40, 0x41, 0x42, 0x43, 0xbc, 0xbd, 0xbe, 0xbf, 0xc0, 0xc1, 0xc2,
     0xc3},
    {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0},
    {0xf0, 0, 0x10, 0x20, 0x30, 0x40, 0x50, 0x60, 0x70, 0x80, 0x90, 0xa0, 0xb0, 0xc0, 0xd0, 0xe0},
    {0x3c, 0x3c, 7, 7, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0},
    {0x30, 0, 0x10, 0xa0, 0xf0, 0x40, 0x70, 0x20, 0x10, 0, 0, 0, 0, 0, 0, 0}};
/* (code << 7) + 0x2000 */
static const byte_tables e4m3_f16_bytes = {
    1,
    {0x20, 0x28, 0x30, 0x38, 0x40, 0x48, 0x50, 0x58, 0xa0, 0xa8, 0xb0, 0xb8, 0xc0, 0xc8, 0xd0,
     0xd8},
    {7, 0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7},
    {0x80, 0, 0x80, 0, 0x80, 0, 0x80, 0, 0x80, 0, 0x80, 0, 0x80, 0, 0x80, 0},
    {0x21, 0x20, 0x38, 0x3d, 0x3f, 2, 3, 1, 0, 0, 0, 0, 0, 0, 0, 0},
    {0x80, 0, 0x80, 0, 0x80, 0, 0x80, 0, 0x80, 0, 0, 0, 0, 0, 0, 0}};
/* (code << 5) + 0x3800 */
static const byte_tables e5m2_bf16_bytes = {
    4,
    {0x38, 0x3a, 0x3c, 0x3e, 0x40, 0x42, 0x44, 0x46, 0xb8, 0xba, 0xbc, 0xbe, 0xc0, 0xc2, 0xc4,
     0xc6},
    {1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1},
    {0x80, 0xa0, 0xc0, 0xe0, 0, 0x20, 0x40, 0x60, 0x80, 0xa0, 0xc0, 0xe0, 0, 0x20, 0x40, 0x60},
    {0x38, 0x38, 0x38, 0x38, 0x38, 0xf, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0},
    {0, 0x40, 0, 0, 0, 0xa0, 0x40, 0x20, 0, 0, 0, 0, 0, 0, 0, 0}};
/* (code << 4) + 0x3b80 */
static const byte_tables e4m3fnuz_bf16_bytes = {
    0,
    {0x3b, 0x3c, 0x3d, 0x3e, 0x3f, 0x40, 0x41, 0x42, 0xbb, 0xbc, 0xbd, 0xbe, 0xbf, 0xc0, 0xc1,
     0xc2},
    {0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1},
    {0x80, 0x90, 0xa0, 0xb0, 0xc0, 0xd0, 0xe0, 0xf0, 0, 0x10, 0x20, 0x30, 0x40, 0x50, 0x60, 0x70},
    {0x3b, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0},
    {0x80, 0x10, 0xa0, 0xf0, 0x40, 0x70, 0x20, 0x10, 0, 0, 0, 0, 0, 0, 0, 0}};
/* (code << 7) + 0x1c00 */
static const byte_tables e4m3fnuz_f16_bytes = {
    0,
    {0x1c, 0x24, 0x2c, 0x34, 0x3c, 0x44, 0x4c, 0x54, 0x9c, 0xa4, 0xac, 0xb4, 0xbc, 0xc4, 0xcc,
     0xd4},
    {0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7},
    {0, 0x80, 0, 0x80, 0, 0x80, 0, 0x80, 0, 0x80, 0, 0x80, 0, 0x80, 0, 0x80},
    {0x1c, 8, 5, 7, 2, 3, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0},
    {0, 0x80, 0, 0x80, 0, 0x80, 0, 0x80, 0, 0, 0, 0, 0, 0, 0, 0}};
/* (code << 5) + 0x3780 */
static const byte_tables e5m2fnuz_bf16_bytes = {
    0,
    {0x37, 0x39, 0x3b, 0x3d, 0x3f, 0x41, 0x43, 0x45, 0xb7, 0xb9, 0xbb, 0xbd, 0xbf, 0xc1, 0xc3,
     0xc5},
    {0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2},
    {0x80, 0xa0, 0xc0, 0xe0, 0, 0x20, 0x40, 0x60, 0x80, 0xa0, 0xc0, 0xe0, 0, 0x20, 0x40, 0x60},
    {0x37, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0},
    {0x80, 0xa0, 0x40, 0x20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}};
/* (code << 8) - 0x0400 */
static const byte_tables e5m2fnuz_f16_bytes = {
    0,
    {0xfc, 0xc, 0x1c, 0x2c, 0x3c, 0x4c, 0x5c, 0x6c, 0x7c, 0x8c, 0x9c, 0xac, 0xbc, 0xcc, 0xdc, 0xec},
    {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0xa, 0xb, 0xc, 0xd, 0xe, 0xf},
    {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0},
    {0xfc, 0xfd, 0xff, 0xfe, 2, 3, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0},
    {0, 0x80, 0, 0x80, 0, 0x80, 0, 0x80, 0, 0, 0, 0, 0, 0, 0, 0}};

AVX2_INLINE __m256i byte_lookup(const uint8_t *table, __m256i index) {
    return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(avx2_load_half(table, 0)), index);
}

/*
 * Converts 32 codes to two vectors of 16-bit lanes: v[0] from the lower and v[1] from the upper
 * halves of the two 128-bit lanes.
 */
AVX2_INLINE void widen_bytes(__m256i *v, __m256i codes, const byte_tables *t) {
    const __m256i half = _mm256_set1_epi8(0x0f), magnitude = _mm256_set1_epi8(0x7f);
    __m256i high = _mm256_and_si256(_mm256_srli_epi16(codes, 4), half);
    __m256i rotated = _mm256_add_epi8(codes, _mm256_set1_epi8((char)t->rotation));
    rotated = _mm256_and_si256(rotated, magnitude);
    /*
     * Only codes that are below 16 after the rotation have an exception. For all others, adding
     * 0x70 sets the top bit of the index, so the shuffle gives 0.
     */
    __m256i first = _mm256_add_epi8(rotated, _mm256_set1_epi8(0x70));
    __m256i upper =
        _mm256_add_epi8(byte_lookup(t->upper_high, high), byte_lookup(t->upper_low, rotated));
    upper = _mm256_xor_si256(upper, byte_lookup(t->upper_change, first));
    __m256i lower =
        _mm256_xor_si256(byte_lookup(t->lower_low, rotated), byte_lookup(t->lower_change, first));
    v[0] = _mm256_unpacklo_epi8(lower, upper);
    v[1] = _mm256_unpackhi_epi8(lower, upper);
}

/* FNUZ has its NaN where other formats have -0; widen_bytes has converted it as -0. */
AVX2_INLINE void widen_fnuz(__m256i *v, __m256i codes, const byte_tables *t, uint16_t nan) {
    widen_bytes(v, codes, t);
    __m256i is_nan = _mm256_cmpeq_epi8(codes, _mm256_set1_epi8((char)0x80));
    __m256i change = _mm256_set1_epi16((short)(nan ^ 0x8000));
    v[0] = _mm256_xor_si256(v[0], _mm256_and_si256(_mm256_unpacklo_epi8(is_nan, is_nan), change));
    v[1] = _mm256_xor_si256(v[1], _mm256_and_si256(_mm256_unpackhi_epi8(is_nan, is_nan), change));
}

/* Steps from 32 codes of 8 bits to 32 results of 16 bits, and by way of BF16 to F32. */
#define AVX2_STEP_8_TO_16(name, widening)                                                          \
    AVX2_INLINE void name(unsigned char *d, const unsigned char *s, bool stream, bool saturate) {  \
        __m256i v[2], codes = _mm256_permute4x64_epi64(avx2_load(s, 0), _MM_SHUFFLE(3, 1, 2, 0));  \
        (void)saturate;                                                                            \
        widening;                                                                                  \
        avx2_store(d, 0, v[0], stream);                                                            \
        avx2_store(d, 1, v[1], stream);                                                            \
    }
#define AVX2_STEP_8_TO_32(name, widening)                                                          \
    AVX2_INLINE void name(unsigned char *d, const unsigned char *s, bool stream, bool saturate) {  \
        __m256i v[2], codes = split_codes(avx2_load(s, 0));                                        \
        (void)saturate;                                                                            \
        widening;                                                                                  \
        store_bf16_as_f32(d, 0, v[0], stream);                                                     \
        store_bf16_as_f32(d, 2, v[1], stream);                                                     \
    }
AVX2_STEP_8_TO_16(step_e4m3_to_bf16, widen_bytes(v, codes, &e4m3_bf16_bytes))
AVX2_STEP_8_TO_16(step_e5m2_to_bf16, widen_bytes(v, codes, &e5m2_bf16_bytes))
AVX2_STEP_8_TO_16(step_e4m3fnuz_to_bf16, widen_fnuz(v, codes, &e4m3fnuz_bf16_bytes, 0x7fc0))
AVX2_STEP_8_TO_16(step_e5m2fnuz_to_bf16, widen_fnuz(v, codes, &e5m2fnuz_bf16_bytes, 0x7fc0))
AVX2_STEP_8_TO_16(step_e4m3_to_f16, widen_bytes(v, codes, &e4m3_f16_bytes))
AVX2_STEP_8_TO_16(step_e4m3fnuz_to_f16, widen_fnuz(v, codes, &e4m3fnuz_f16_bytes, 0x7e00))
AVX2_STEP_8_TO_16(step_e5m2fnuz_to_f16, widen_fnuz(v, codes, &e5m2fnuz_f16_bytes, 0x7e00))
AVX2_STEP_8_TO_32(step_e4m3_to_f32, widen_bytes(v, codes, &e4m3_bf16_bytes))
AVX2_STEP_8_TO_32(step_e4m3fnuz_to_f32, widen_fnuz(v, codes, &e4m3fnuz_bf16_bytes, 0x7fc0))
AVX2_STEP_8_TO_32(step_e5m2fnuz_to_f32, widen_fnuz(v, codes, &e5m2fnuz_bf16_bytes, 0x7fc0))

/* E5M2 is the upper half of F16. */
AVX2_INLINE void step_e5m2_to_f32(unsigned char *d, const unsigned char *s, bool stream,
                                  bool saturate) {
    (void)saturate;
    AVX2_UNROLL
    for (size_t i = 0; i < 4; i++) {
        __m256 v = _mm256_cvtph_ps(_mm_unpacklo_epi8(_mm_setzero_si128(), AVX2_LOAD_8));
        avx2_store(d, i, _mm256_castps_si256(v), stream);
    }
}

AVX2_INLINE void step_e5m2_to_f16(unsigned char *d, const unsigned char *s, bool stream,
                                  bool saturate) {
    (void)saturate;
    AVX2_UNROLL
    for (size_t i = 0; i < 2; i++) {
        __m256i codes = _mm256_cvtepu8_epi16(avx2_load_half(s, i));
        avx2_store(d, i, _mm256_slli_epi16(codes, 8), stream);
    }
}

/* Splits 16 bytes of packed F4 into 32 codes, in order. */
AVX2_INLINE __m256i unpack_f4(const unsigned char *s) {
    const __m128i nibble = _mm_set1_epi8(0x0f);
    __m128i both = avx2_load_half(s, 0);
    __m128i low = _mm_and_si128(both, nibble);
    __m128i high = _mm_and_si128(_mm_srli_epi16(both, 4), nibble);
    return _mm256_set_m128i(_mm_unpackhi_epi8(low, high), _mm_unpacklo_epi8(low, high));
}

/* The low and the high bytes of the 16 F4 values in BF16, and the high bytes in F16. */
AVX2_INLINE __m256i f4_bf16_low(__m256i codes) {
    const __m128i low =
        _mm_setr_epi8(0, 0, (char)0x80, (char)0xc0, 0, 0x40, (char)0x80, (char)0xc0, 0, 0,
                      (char)0x80, (char)0xc0, 0, 0x40, (char)0x80, (char)0xc0);
    return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(low), codes);
}

AVX2_INLINE __m256i f4_bf16_high(__m256i codes) {
    const __m128i high =
        _mm_setr_epi8(0, 0x3f, 0x3f, 0x3f, 0x40, 0x40, 0x40, 0x40, (char)0x80, (char)0xbf,
                      (char)0xbf, (char)0xbf, (char)0xc0, (char)0xc0, (char)0xc0, (char)0xc0);
    return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(high), codes);
}

AVX2_INLINE __m256i f4_f16_high(__m256i codes) {
    const __m128i high =
        _mm_setr_epi8(0, 0x38, 0x3c, 0x3e, 0x40, 0x42, 0x44, 0x46, (char)0x80, (char)0xb8,
                      (char)0xbc, (char)0xbe, (char)0xc0, (char)0xc2, (char)0xc4, (char)0xc6);
    return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(high), codes);
}

/* Interleaves two vectors of bytes into two vectors of 16-bit lanes, in order. */
AVX2_INLINE void store_interleaved(unsigned char *d, __m256i low, __m256i high, bool stream) {
    __m256i even = _mm256_unpacklo_epi8(low, high), odd = _mm256_unpackhi_epi8(low, high);
    avx2_store(d, 0, _mm256_permute2x128_si256(even, odd, 0x20), stream);
    avx2_store(d, 1, _mm256_permute2x128_si256(even, odd, 0x31), stream);
}

AVX2_INLINE void step_f4_to_bf16(unsigned char *d, const unsigned char *s, bool stream,
                                 bool saturate) {
    (void)saturate;
    __m256i codes = unpack_f4(s);
    store_interleaved(d, f4_bf16_low(codes), f4_bf16_high(codes), stream);
}

AVX2_INLINE void step_f4_to_f16(unsigned char *d, const unsigned char *s, bool stream,
                                bool saturate) {
    (void)saturate;
    store_interleaved(d, _mm256_setzero_si256(), f4_f16_high(unpack_f4(s)), stream);
}

AVX2_INLINE void step_f4_to_f32(unsigned char *d, const unsigned char *s, bool stream,
                                bool saturate) {
    (void)saturate;
    __m256i codes = split_codes(unpack_f4(s));
    __m256i low = f4_bf16_low(codes), high = f4_bf16_high(codes);
    store_bf16_as_f32(d, 0, _mm256_unpacklo_epi8(low, high), stream);
    store_bf16_as_f32(d, 2, _mm256_unpackhi_epi8(low, high), stream);
}

/* Integers of at most 24 bits are exact in F32; the conversion rounds 32-bit ones, once. */
#define AVX2_STEP_INTEGER(name, expression)                                                        \
    AVX2_INLINE void name(unsigned char *d, const unsigned char *s, bool stream, bool saturate) {  \
        (void)saturate;                                                                            \
        AVX2_UNROLL                                                                                \
        for (size_t i = 0; i < 4; i++) {                                                           \
            __m256 v = _mm256_cvtepi32_ps(expression);                                             \
            avx2_store(d, i, _mm256_castps_si256(v), stream);                                      \
        }                                                                                          \
    }
AVX2_STEP_INTEGER(step_i8_to_f32, _mm256_cvtepi8_epi32(AVX2_LOAD_8))
AVX2_STEP_INTEGER(step_u8_to_f32, _mm256_cvtepu8_epi32(AVX2_LOAD_8))
AVX2_STEP_INTEGER(step_i16_to_f32, _mm256_cvtepi16_epi32(avx2_load_half(s, i)))
AVX2_STEP_INTEGER(step_u16_to_f32, _mm256_cvtepu16_epi32(avx2_load_half(s, i)))
AVX2_STEP_INTEGER(step_i32_to_f32, avx2_load(s, i))

AVX2_KERNEL(tmi_avx2_bf16_to_f32, step_bf16_to_f32, 16, 4)
AVX2_KERNEL(tmi_avx2_f16_to_f32, step_f16_to_f32, 16, 4)
AVX2_KERNEL(tmi_avx2_e4m3_to_f32, step_e4m3_to_f32, 8, 4)
AVX2_KERNEL(tmi_avx2_e5m2_to_f32, step_e5m2_to_f32, 8, 4)
AVX2_KERNEL(tmi_avx2_e4m3_to_bf16, step_e4m3_to_bf16, 8, 2)
AVX2_KERNEL(tmi_avx2_e5m2_to_bf16, step_e5m2_to_bf16, 8, 2)
AVX2_KERNEL(tmi_avx2_e4m3_to_f16, step_e4m3_to_f16, 8, 2)
AVX2_KERNEL(tmi_avx2_e5m2_to_f16, step_e5m2_to_f16, 8, 2)
AVX2_KERNEL(tmi_avx2_e4m3fnuz_to_f32, step_e4m3fnuz_to_f32, 8, 4)
AVX2_KERNEL(tmi_avx2_e5m2fnuz_to_f32, step_e5m2fnuz_to_f32, 8, 4)
AVX2_KERNEL(tmi_avx2_e4m3fnuz_to_bf16, step_e4m3fnuz_to_bf16, 8, 2)
AVX2_KERNEL(tmi_avx2_e5m2fnuz_to_bf16, step_e5m2fnuz_to_bf16, 8, 2)
AVX2_KERNEL(tmi_avx2_e4m3fnuz_to_f16, step_e4m3fnuz_to_f16, 8, 2)
AVX2_KERNEL(tmi_avx2_e5m2fnuz_to_f16, step_e5m2fnuz_to_f16, 8, 2)
AVX2_KERNEL(tmi_avx2_f4_to_f32, step_f4_to_f32, 4, 4)
AVX2_KERNEL(tmi_avx2_f4_to_bf16, step_f4_to_bf16, 4, 2)
AVX2_KERNEL(tmi_avx2_f4_to_f16, step_f4_to_f16, 4, 2)
AVX2_KERNEL(tmi_avx2_i8_to_f32, step_i8_to_f32, 8, 4)
AVX2_KERNEL(tmi_avx2_u8_to_f32, step_u8_to_f32, 8, 4)
AVX2_KERNEL(tmi_avx2_i16_to_f32, step_i16_to_f32, 16, 4)
AVX2_KERNEL(tmi_avx2_u16_to_f32, step_u16_to_f32, 16, 4)
AVX2_KERNEL(tmi_avx2_i32_to_f32, step_i32_to_f32, 32, 4)

#endif
