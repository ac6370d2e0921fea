/*
 * Shared by the conversion tests: the pairs of dtypes, the instruction sets, and interesting source
 * values.
 */
#ifndef TENMAP_TESTS_CONVERT_COMMON_H
#define TENMAP_TESTS_CONVERT_COMMON_H

#include "cmocka_all.h"
#include "values/conversion_route.h"
#include "values/cpu.h"
#include "values/values.h"

#include <stdio.h>
#include <string.h>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

static const char *const isa_names[] = {"avx2", "neon", "scalar"};
enum { ISA_COUNT = sizeof isa_names / sizeof isa_names[0] };

/* Makes the library use that instruction set; false if this machine or build lacks it. */
static inline bool use_isa(size_t i) {
    static const tmi_kernels *found[ISA_COUNT];
    static bool asked[ISA_COUNT];
    if (!asked[i]) {
        found[i] = tmi_cpu_find(isa_names[i]);
        asked[i] = true;
    }
    if (found[i])
        tmi_cpu_use(found[i]);
    return found[i];
}

/* Statements run once for each instruction set. */
#define FOR_EACH_ISA(name)                                                                         \
    for (size_t isa_i_ = 0; isa_i_ < ISA_COUNT; isa_i_++)                                          \
        for (const char *name = isa_names[isa_i_]; name && use_isa(isa_i_); name = NULL)

/* Whether the pair converts for all values, which is not so if integers narrow. */
static inline bool always_converts(tenmap_dtype to, tenmap_dtype from) {
    return tmi_convert_check(to, from, 0, NULL) == TENMAP_OK &&
           (!tmi_route_is_integer(to, from) || tmi_integers_all_fit(to, from));
}

/* Statements run once for each pair of dtypes that always converts, same-type copies included. */
#define FOR_EACH_PAIR(to, from)                                                                    \
    for (tenmap_dtype from = TENMAP_BOOL; from < TMI_DTYPE_COUNT; from++)                          \
        for (tenmap_dtype to = TENMAP_BOOL; to < TMI_DTYPE_COUNT; to++)                            \
            if (always_converts(to, from))

static inline size_t stream_bytes(tenmap_dtype dtype, size_t count, unsigned bit) {
    return (bit + count * tmi_dtypes[dtype].bits + 7) / 8;
}

static inline uint64_t next_random(uint64_t *state) {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state * 0x2545f4914f6cdd1d;
}

/*
 * An element that is likely an edge case of some format: random bits; random bits with the exponent
 * of a format's smallest or largest values; fractions that are all zeros or ones except for a few
 * bits; NaN.
 */
static inline uint64_t edgy_bits(tenmap_dtype dtype, uint64_t *state) {
    uint64_t r = next_random(state), how = next_random(state) % 8;
    unsigned width = tmi_dtypes[dtype].bits;
    int fraction = dtype == TENMAP_F64 ? 52 : dtype == TENMAP_F32 ? 23 : 0;
    if (width > 64 || !fraction || how == 0)
        return width < 64 && how < 6 ? r >> (next_random(state) % width) : r;
    static const int edges[] = {0,   1,   -1,  5,    7,    8,    9,    15,   16,  -6,   -7,
                                -8,  -9,  -10, -14,  -15,  -16,  -17,  -18,  -24, -25,  -126,
                                127, 128, 129, -127, -133, -134, -149, -150, 3,   -150, 2};
    int exponent = edges[next_random(state) % (sizeof edges / sizeof edges[0])];
    uint64_t bias = fraction == 52 ? 1023 : 127;
    uint64_t field = (uint64_t)((int64_t)bias + exponent) & (2 * bias + 1);
    if (how == 1)
        field = 2 * bias + 1;
    if (how == 2)
        field = 0;
    uint64_t bits = r & (((uint64_t)1 << fraction) - 1);
    if (how >= 4) { /* a short fraction, then zeros, ones, or one bit */
        unsigned kept = (unsigned)(next_random(state) % (unsigned)fraction);
        uint64_t low = ((uint64_t)1 << kept) - 1;
        bits = how == 4 ? bits & ~low : how == 5 ? bits | low : (bits & ~low) | (low + 1) >> 1;
        bits ^= how == 7;
    }
    return (r >> 63) << (width - 1) | field << fraction | bits;
}

/* Fills `count` elements in host order; any spare bits are random too. */
static inline void fill_edgy(tenmap_dtype dtype, unsigned char *dst, size_t count,
                             uint64_t *state) {
    size_t bytes = stream_bytes(dtype, count, 0);
    if (tmi_dtypes[dtype].bits <= 16 || tmi_dtypes[dtype].kind == TENMAP_KIND_COMPLEX) {
        for (size_t i = 0; i < bytes; i++)
            dst[i] = (unsigned char)(next_random(state) >> 32);
        return;
    }
    size_t width = tmi_dtypes[dtype].bits / 8;
    for (size_t i = 0; i < count; i++) {
        uint64_t bits = edgy_bits(dtype, state);
        uint32_t half = (uint32_t)bits;
        memcpy(dst + i * width, width == 4 ? (void *)&half : (void *)&bits, width);
    }
}

/* The oracle's result for host-order elements. */
static inline void oracle_convert(tenmap_dtype to, void *dst, tenmap_dtype from, const void *src,
                                  size_t count, uint32_t flags) {
    tmi_elements target = {to, 0, !TMI_BIG_ENDIAN}, source = {from, 0, !TMI_BIG_ENDIAN};
    tmi_scalar_convert(target, dst, source, src, count, flags);
}

static inline void must_convert(tenmap_dtype to, void *dst, size_t dst_bytes, tenmap_dtype from,
                                const void *src, uint64_t count, uint32_t flags) {
    tenmap_error error;
    if (tenmap_convert(to, dst, dst_bytes, from, src, count, flags, &error) != TENMAP_OK)
        fail_msg("%s to %s: %s", tmi_dtypes[from].name, tmi_dtypes[to].name, error.message);
}

static inline void must_equal(const unsigned char *got, const unsigned char *want, size_t bytes,
                              tenmap_dtype to, tenmap_dtype from, const char *what) {
    for (size_t i = 0; i < bytes; i++)
        if (got[i] != want[i])
            fail_msg("%s to %s on %s, %s: byte %zu of %zu is %02x, not %02x", tmi_dtypes[from].name,
                     tmi_dtypes[to].name, tenmap_cpu_path(), what, i, bytes, got[i], want[i]);
}

/*
 * Turns the CPU's flush-to-zero modes on (1) or back to default (0); returns 0 if it has none that
 * we know.
 */
static inline int set_flush_modes(int on) {
#if defined(__x86_64__)
    _mm_setcsr((_mm_getcsr() & ~0x8040u) | (on ? 0x8040u : 0u)); /* FTZ and DAZ */
    return 1;
#elif defined(__aarch64__)
    uint64_t fpcr = on ? (uint64_t)7 << 24 : 0; /* FZ, DN and AHP */
    __asm__ volatile("msr fpcr, %0" : : "r"(fpcr));
    return 1;
#else
    (void)on;
    return 0;
#endif
}

#endif
