/*
 * Converts integers and BOOL to other such dtypes. It widens 64 elements at a time to 64 bits,
 * where one comparison finds values that do not fit. The loops have a fixed length, so compilers
 * vectorize them.
 */
#include "kernels.h"

#include <string.h>

enum { INTEGER_STRIDE = 64 };

/* The values v that fit: v - low <= span, in wrapping 64-bit arithmetic. */
typedef struct integer_range {
    uint64_t low, span;
    bool is_signed; /* the source is signed, so values that do not fit may lie below */
} integer_range;

/* Bits of the largest value: one for BOOL, seven for I8. */
static unsigned value_bits(tenmap_dtype dtype) {
    unsigned kind = tmi_dtypes[dtype].kind, bits = tmi_dtypes[dtype].bits;
    return kind == TENMAP_KIND_BOOL ? 1 : kind == TENMAP_KIND_INT ? bits - 1 : bits;
}

static bool has_sign(tenmap_dtype dtype) {
    return tmi_dtypes[dtype].kind == TENMAP_KIND_INT;
}

bool tmi_integers_all_fit(tenmap_dtype to, tenmap_dtype from) {
    return value_bits(from) <= value_bits(to) && (has_sign(to) || !has_sign(from));
}

static integer_range range_of(tenmap_dtype to, tenmap_dtype from) {
    unsigned bits = value_bits(to);
    uint64_t high = bits == 64 ? UINT64_MAX : ((uint64_t)1 << bits) - 1;
    bool both = has_sign(to) && has_sign(from);
    uint64_t low = both ? ~high : 0;
    if (has_sign(from) && bits == 64)
        high = INT64_MAX;
    return (integer_range){low, high - low, has_sign(from)};
}

/* Bodies of the switches below. In whole strides `n` is a compile-time constant. */
#define INTEGER_LOOP(type, expression)                                                             \
    for (size_t i = 0; i < n; i++) {                                                               \
        type x;                                                                                    \
        memcpy(&x, src + i * sizeof x, sizeof x);                                                  \
        v[i] = (uint64_t)(expression);                                                             \
    }                                                                                              \
    break

static TMI_INLINE void widen_integers(uint64_t *v, tenmap_dtype from, const unsigned char *src,
                                      size_t n) {
    switch (from) {
    case TENMAP_BOOL:
        INTEGER_LOOP(uint8_t, x != 0);
    case TENMAP_U8:
        INTEGER_LOOP(uint8_t, x);
    case TENMAP_I8:
        INTEGER_LOOP(int8_t, (int64_t)x);
    case TENMAP_U16:
        INTEGER_LOOP(uint16_t, x);
    case TENMAP_I16:
        INTEGER_LOOP(int16_t, (int64_t)x);
    case TENMAP_U32:
        INTEGER_LOOP(uint32_t, x);
    case TENMAP_I32:
        INTEGER_LOOP(int32_t, (int64_t)x);
    default:
        memcpy(v, src, n * sizeof *v);
    }
}

#define INTEGER_STORE(type)                                                                        \
    for (size_t i = 0; i < n; i++) {                                                               \
        type x = (type)v[i];                                                                       \
        memcpy(dst + i * sizeof x, &x, sizeof x);                                                  \
    }                                                                                              \
    break

static TMI_INLINE void narrow_integers(unsigned char *dst, unsigned bits, const uint64_t *v,
                                       size_t n) {
    switch (bits) {
    case 8:
        INTEGER_STORE(uint8_t);
    case 16:
        INTEGER_STORE(uint16_t);
    case 32:
        INTEGER_STORE(uint32_t);
    default:
        memcpy(dst, v, n * sizeof *v);
    }
}

static TMI_INLINE size_t count_misfits(const uint64_t *v, const integer_range *range, size_t n) {
    uint64_t low = range->low, span = range->span, found = 0;
    for (size_t i = 0; i < n; i++)
        found += v[i] - low > span;
    return (size_t)found;
}

static size_t first_misfit(const uint64_t *v, const integer_range *range) {
    size_t i = 0;
    while (v[i] - range->low <= range->span)
        i++;
    return i;
}

static void clamp_integers(uint64_t *v, const integer_range *range, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (v[i] - range->low > range->span) {
            bool below = range->is_signed && (int64_t)v[i] < (int64_t)range->low;
            v[i] = below ? range->low : range->low + range->span;
        }
}

/* How integers are converted. */
typedef struct integer_rule {
    tenmap_dtype to, from;
    const integer_range *range; /* NULL: all fit */
    bool clamp;                 /* those that do not fit */
} integer_rule;

/*
 * Converts one stride of at most INTEGER_STRIDE elements by way of `v`; returns how many do not
 * fit.
 */
static TMI_INLINE size_t integer_stride(integer_rule rule, unsigned char *dst,
                                        const unsigned char *src, size_t n, uint64_t *v) {
    widen_integers(v, rule.from, src, n);
    size_t misfits = rule.range ? count_misfits(v, rule.range, n) : 0;
    if (misfits && rule.clamp)
        clamp_integers(v, rule.range, n);
    if (dst && (!misfits || rule.clamp))
        narrow_integers(dst, tmi_dtypes[rule.to].bits, v, n);
    return misfits;
}

tmi_misfits tmi_integers(tenmap_dtype to, void *dst, tenmap_dtype from, const void *src,
                         size_t count, uint32_t flags) {
    integer_range limits = range_of(to, from);
    size_t from_bytes = tmi_dtypes[from].bits / 8, to_bytes = tmi_dtypes[to].bits / 8;
    integer_rule rule = {to, from, &limits, flags & TENMAP_CONVERT_SATURATE};
    const unsigned char *s = src;
    unsigned char *d = dst;
    size_t misfits = 0;
    if (tmi_integers_all_fit(to, from))
        rule.range = NULL;
    for (size_t at = 0; at < count; at += INTEGER_STRIDE) {
        uint64_t v[INTEGER_STRIDE];
        size_t left = count - at;
        size_t bad = left >= INTEGER_STRIDE ? integer_stride(rule, d, s, INTEGER_STRIDE, v)
                                            : integer_stride(rule, d, s, left, v);
        misfits += bad;
        if (bad && !rule.clamp)
            return (tmi_misfits){at + first_misfit(v, &limits), misfits};
        s += INTEGER_STRIDE * from_bytes;
        d = d ? d + INTEGER_STRIDE * to_bytes : NULL;
    }
    return (tmi_misfits){count, misfits};
}
