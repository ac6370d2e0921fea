/*
 * Converts any bytes as elements of any dtype to any other, and compares with the scalar oracle,
 * bit for bit. Input: target, source, flags, alignments, repeats; then the elements.
 */
#include "input.h"
#include "values/conversion_route.h"
#include "values/values.h"

enum { MOST_SOURCE = 9 << 10, GUARD = 64 };

typedef struct conversion {
    tenmap_dtype to, from;
    uint32_t flags;
    unsigned src_shift, dst_shift, src_bit;
    uint8_t *elements; /* of the source, src_shift bytes into it */
    size_t src_bytes, count;
} conversion;

static size_t bytes_of(tenmap_dtype dtype, size_t count, unsigned bit) {
    return (count * tenmap_dtype_bits(dtype) + bit + 7) / 8;
}

/* A destination filled with one value, guards on both sides. */
static uint8_t *new_target(const conversion *c, size_t bytes, uint8_t value) {
    uint8_t *target = malloc(bytes + c->dst_shift + 2 * GUARD);
    memset(target, value, bytes + c->dst_shift + 2 * GUARD);
    return target;
}

static void check_guards(const conversion *c, const uint8_t *target, size_t bytes, uint8_t value) {
    for (size_t i = 0; i < GUARD + c->dst_shift; i++)
        CHECK(target[i] == value);
    for (size_t i = 0; i < GUARD; i++)
        CHECK(target[GUARD + c->dst_shift + bytes + i] == value);
}

/* tenmap_convert: host order, both ends at bit 0. */
static void check_public(const conversion *c) {
    size_t bytes = bytes_of(c->to, c->count, 0);
    tmi_elements to = {c->to, 0, !TMI_BIG_ENDIAN}, from = {c->from, 0, !TMI_BIG_ENDIAN};
    uint8_t *target = new_target(c, bytes, 0xa5), *want = malloc(bytes + 1);
    uint8_t *dst = target + GUARD + c->dst_shift, *src = c->elements + c->src_shift;
    tenmap_error error;
    if (bytes > 0) {
        fuzz_error_arm(&error);
        tenmap_status small =
            tenmap_convert(c->to, dst, bytes - 1, c->from, src, c->count, c->flags, &error);
        fuzz_error_check(&error, small);
        CHECK(small == TENMAP_ERR_BUFFER);
    }
    fuzz_error_arm(&error);
    tenmap_status status =
        tenmap_convert(c->to, dst, bytes, c->from, src, c->count, c->flags, &error);
    fuzz_error_check(&error, status);
    CHECK(status == TENMAP_OK);
    tmi_scalar_convert(to, want, from, src, c->count, c->flags & TENMAP_CONVERT_SATURATE);
    CHECK(memcmp(dst, want, bytes) == 0);
    check_guards(c, target, bytes, 0xa5);
    free(target);
    free(want);
}

/* File order, and sub-byte elements that start inside a byte. */
static void check_file(const conversion *c) {
    unsigned from_bits = tenmap_dtype_bits(c->from);
    unsigned bit = from_bits < 8 ? c->src_bit * from_bits % 8 : 0;
    size_t count = c->count, bytes;
    while (count > 0 && bytes_of(c->from, count, bit) > c->src_bytes)
        count--;
    bytes = bytes_of(c->to, count, 0);
    tmi_elements to = {c->to, 0, !TMI_BIG_ENDIAN}, from = {c->from, bit, true};
    uint8_t *target = new_target(c, bytes, 0x3c), *want = malloc(bytes + 1);
    uint8_t *dst = target + GUARD + c->dst_shift, *src = c->elements + c->src_shift;
    memset(want, 0x3c, bytes + 1);
    if (count > 0) {
        tmi_convert_file((tmi_packed){c->to, 0}, dst, (tmi_packed){c->from, bit}, src, count,
                         c->flags);
        tmi_scalar_convert(to, want, from, src, count, c->flags & TENMAP_CONVERT_SATURATE);
    }
    CHECK(memcmp(dst, want, bytes) == 0);
    check_guards(c, target, bytes, 0x3c);
    free(target);
    free(want);
}

/* The plain C kernel of the pair, which a CPU without vector kernels uses. */
static void check_portable(const conversion *c) {
    tmi_kernel *kernel = tmi_kernels_scalar.pair[c->to][c->from];
    if (!kernel || tenmap_dtype_bits(c->to) < 8 || tenmap_dtype_bits(c->from) < 8)
        return;
    size_t bytes = bytes_of(c->to, c->count, 0);
    tmi_elements to = {c->to, 0, !TMI_BIG_ENDIAN}, from = {c->from, 0, !TMI_BIG_ENDIAN};
    uint8_t *got = malloc(bytes + 1), *want = malloc(bytes + 1);
    kernel(got, c->elements + c->src_shift, c->count, 0);
    tmi_scalar_convert(to, want, from, c->elements + c->src_shift, c->count, 0);
    CHECK(memcmp(got, want, bytes) == 0);
    free(got);
    free(want);
}

/* Pairs that are refused, by the table of docs/format.md. */
static bool is_allowed(tenmap_dtype to, tenmap_dtype from) {
    unsigned target = tmi_dtypes[to].kind, source = tmi_dtypes[from].kind;
    if (to == from)
        return true;
    if (target == TENMAP_KIND_COMPLEX || source == TENMAP_KIND_COMPLEX)
        return false;
    return target == TENMAP_KIND_FLOAT || source != TENMAP_KIND_FLOAT;
}

/*
 * The first integer that the target cannot hold, by the oracle: a saturated value does not convert
 * back.
 */
static size_t first_misfit_of(const conversion *c) {
    tmi_elements from = {c->from, 0, !TMI_BIG_ENDIAN};
    for (size_t i = 0; i < c->count; i++) {
        uint64_t bits = tmi_scalar_load(&from, c->elements + c->src_shift, i);
        uint64_t there = tmi_scalar_one(c->to, c->from, bits, 0);
        if (c->from != TENMAP_BOOL && tmi_scalar_one(c->from, c->to, there, 0) != bits)
            return i;
    }
    return c->count;
}

/*
 * Without saturation, the error names the first integer that does not fit, and nothing is written.
 */
static void check_misfits(const conversion *c) {
    size_t bytes = bytes_of(c->to, c->count, 0), first = first_misfit_of(c);
    uint8_t *target = new_target(c, bytes, 0x5a), *dst = target + GUARD + c->dst_shift;
    tenmap_error error;
    fuzz_error_arm(&error);
    tenmap_status status = tenmap_convert(c->to, dst, bytes, c->from, c->elements + c->src_shift,
                                          c->count, c->flags & ~1u, &error);
    fuzz_error_check(&error, status);
    CHECK(status == (first < c->count ? TENMAP_ERR_RANGE : TENMAP_OK));
    if (status != TENMAP_OK) {
        CHECK(error.index == first);
        check_guards(c, target, 0, 0x5a);
        for (size_t i = 0; i < bytes; i++)
            CHECK(dst[i] == 0x5a);
    }
    free(target);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const uint32_t flags[] = {0,
                                     TENMAP_CONVERT_SATURATE,
                                     TENMAP_CONVERT_STREAM,
                                     TENMAP_CONVERT_NO_STREAM,
                                     TENMAP_CONVERT_SATURATE | TENMAP_CONVERT_STREAM,
                                     TENMAP_CONVERT_SATURATE | TENMAP_CONVERT_NO_STREAM};
    input in = {data, data + size, NULL};
    conversion c = {.to = 1 + input_below(&in, TMI_DTYPE_COUNT - 1),
                    .from = 1 + input_below(&in, TMI_DTYPE_COUNT - 1)};
    c.flags = flags[input_below(&in, sizeof flags / sizeof flags[0])];
    c.src_shift = input_below(&in, 64);
    c.dst_shift = input_below(&in, 64);
    c.src_bit = input_below(&in, 4);
    size_t repeats = 1 + input_below(&in, 32), left = input_left(&in);
    while (left * repeats > MOST_SOURCE)
        repeats--;
    c.src_bytes = left * repeats;
    c.count = c.src_bytes * 8 / tenmap_dtype_bits(c.from);
    c.elements = malloc(c.src_shift + c.src_bytes + 1);
    for (size_t i = 0; i < repeats && left > 0; i++)
        memcpy(c.elements + c.src_shift + i * left, in.at, left);
    if (tmi_route_is_integer(c.to, c.from)) {
        check_misfits(&c);
        c.flags |= TENMAP_CONVERT_SATURATE;
    }
    if (is_allowed(c.to, c.from)) {
        check_public(&c);
        check_file(&c);
        check_portable(&c);
    } else {
        uint64_t dst[2];
        CHECK(tenmap_convert(c.to, dst, sizeof dst, c.from, dst, 1, c.flags, NULL) ==
              TENMAP_ERR_UNSUPPORTED);
    }
    free(c.elements);
    return 0;
}
