/*
 * Counts what conversions lose beyond rounding: numbers that are too large for the dtype, and
 * numbers that are too small. Both follow from the source and two limits of the dtype that it is
 * converted to, so the results themselves are not examined.
 *
 * Sources are converted to F32, or to F64 if they are F64. F32 holds every narrower dtype exactly,
 * and keeps wider numbers on their side of every limit. After that only integers are compared,
 * which flush-to-zero modes do not affect.
 */
#include "values.h"
#include "conversion_route.h"

/*
 * Elements of a block, which fits into the first-level cache, and of a stride, which is one vector
 * loop.
 */
enum { LOSSES_BLOCK = 1024, LOSSES_STRIDE = 64 };

typedef struct loss_limits {
    uint64_t over, top; /* magnitudes from over to top exceed the largest number */
    uint64_t under;     /* magnitudes from 1 to under become zero */
    bool positive_only; /* E8M0: zero and negatives are lost too */
} loss_limits;

/*
 * The caller pads a block with zeros to a whole stride; zeros count as nothing here. Magnitudes are
 * less than 2^31, and compared as signed numbers, which every vector unit supports.
 */
static void count_f32(const uint32_t *bits, size_t count, const loss_limits *l,
                      tenmap_losses *lost) {
    const int32_t infinity = 0x7f800000, under = (int32_t)l->under;
    const int32_t before = (int32_t)l->over - 1, top = (int32_t)l->top;
    for (size_t i = 0; i < count; i += LOSSES_STRIDE, bits += LOSSES_STRIDE) {
        int32_t nans = 0, above = 0, beyond = 0, kept = 0, some = 0;
        for (size_t k = 0; k < LOSSES_STRIDE; k++) {
            int32_t magnitude = (int32_t)(bits[k] & 0x7fffffff);
            nans += magnitude > infinity;
            above += magnitude > before;
            beyond += magnitude > top;
            some += magnitude > 0;
            kept += magnitude > under;
        }
        lost->nans += (uint64_t)nans;
        lost->overflowed += (uint64_t)(above - beyond);
        lost->flushed += (uint64_t)(some - kept);
    }
}

static void count_f64(const uint64_t *bits, size_t count, const loss_limits *l,
                      tenmap_losses *lost) {
    const uint64_t infinity = 0x7ff0000000000000;
    for (size_t i = 0; i < count; i++) {
        uint64_t magnitude = bits[i] & 0x7fffffffffffffff;
        lost->nans += magnitude > infinity;
        lost->overflowed += magnitude >= l->over && magnitude <= l->top;
        lost->flushed += magnitude - 1 < l->under;
    }
}

/*
 * Counts the numbers that an unsigned dtype without zero cannot hold, except NaN and those counted
 * already.
 */
static uint64_t count_not_powers_of_two(const void *block, bool wide, size_t count,
                                        const loss_limits *limits) {
    const uint32_t *narrow = block;
    const uint64_t *doubles = block;
    uint64_t found = 0;
    for (size_t i = 0; i < count; i++) {
        uint64_t bits = wide ? doubles[i] : narrow[i];
        uint64_t sign = wide ? bits >> 63 : bits >> 31;
        uint64_t magnitude = bits & (wide ? 0x7fffffffffffffff : 0x7fffffff);
        found += magnitude == 0 || (sign && magnitude < limits->over);
    }
    return found;
}

static loss_limits find_limits(tenmap_dtype to, tenmap_dtype middle, uint32_t flags) {
    loss_limits l = {.positive_only = to == TENMAP_F8_E8M0};
    uint64_t infinity = middle == TENMAP_F32 ? 0x7f800000 : 0x7ff0000000000000;
    bool stays = tmi_dtypes[to].infinity && !(flags & TENMAP_CONVERT_SATURATE);
    tmi_scalar_limits(to, middle, &l.over, &l.under);
    l.top = stays ? infinity - 1 : infinity;
    if (l.over > l.top) /* an empty range, which no magnitude is in */
        l.over = l.top + 1;
    return l;
}

void tmi_losses_add(tmi_counted conversion, const void *src, uint64_t count, tenmap_losses *lost) {
    tenmap_dtype to = conversion.to, from = conversion.from;
    uint32_t flags = conversion.flags;
    bool file_order = conversion.file_order;
    union {
        uint32_t narrow[LOSSES_BLOCK];
        uint64_t wide[LOSSES_BLOCK];
    } block;
    bool copied = to == from;
    if (tenmap_dtype_kind(from) == TENMAP_KIND_COMPLEX) {
        to = from = TENMAP_F32;
        count *= 2;
    }
    if (copied && tenmap_dtype_kind(from) != TENMAP_KIND_FLOAT)
        return;
    if (tmi_route_is_integer(to, from)) { /* without saturation such a loss is an error */
        tmi_elements integer = {to, 0, !TMI_BIG_ENDIAN}, stored = {from, 0, file_order};
        lost->overflowed +=
            tmi_route_integers(integer, NULL, stored, src, count, flags | TENMAP_CONVERT_SATURATE)
                .count;
        return;
    }
    tenmap_dtype middle = from == TENMAP_F64 ? TENMAP_F64 : TENMAP_F32;
    tmi_elements target = {middle, 0, !TMI_BIG_ENDIAN}, source = {from, 0, file_order};
    loss_limits limits = find_limits(copied ? middle : to, middle, copied ? 0 : flags);
    const unsigned char *s = src;
    for (size_t n; count; count -= n, s += tmi_bytes_of(from, n)) {
        n = count < LOSSES_BLOCK ? (size_t)count : LOSSES_BLOCK;
        tmi_route(target, &block, source, s, n, TENMAP_CONVERT_NO_STREAM);
        if (middle == TENMAP_F64) {
            count_f64(block.wide, n, &limits, lost);
        } else {
            for (size_t i = n; i % LOSSES_STRIDE; i++)
                block.narrow[i] = 0;
            count_f32(block.narrow, n, &limits, lost);
        }
        if (limits.positive_only)
            lost->overflowed += count_not_powers_of_two(&block, middle == TENMAP_F64, n, &limits);
    }
}
