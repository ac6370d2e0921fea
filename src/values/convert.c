/*
 * Converts numbers from one dtype to another: checks what is allowed. conversion_route.c does the
 * work.
 */
#include "values.h"
#include "conversion_route.h"
#include "cpu.h"

#include <stdio.h>

static const uint32_t convert_flags =
    TENMAP_CONVERT_SATURATE | TENMAP_CONVERT_STREAM | TENMAP_CONVERT_NO_STREAM;

static bool is_dtype(tenmap_dtype dtype) {
    return (dtype > TENMAP_AS_STORED && dtype < TMI_DTYPE_COUNT) || tmi_dtype_blocks(dtype);
}

/* Why a pair of different dtypes cannot be converted; NULL if it can. */
static const char *why_unsupported(tenmap_dtype to, tenmap_dtype from) {
    unsigned target = tenmap_dtype_kind(to), source = tenmap_dtype_kind(from);
    if (to == from)
        return NULL;
    if (tmi_dtype_blocks(to))
        return "block dtypes can be read, but not written";
    if (target == TENMAP_KIND_COMPLEX || source == TENMAP_KIND_COMPLEX)
        return "complex numbers are copied, not converted";
    if (target == TENMAP_KIND_FLOAT)
        return NULL;
    if (source == TENMAP_KIND_FLOAT)
        return "floating-point numbers convert only to other floating-point dtypes";
    return NULL;
}

tenmap_status tmi_convert_check(tenmap_dtype to, tenmap_dtype from, uint32_t flags,
                                tenmap_error *error) {
    if (!is_dtype(to) || !is_dtype(from))
        return tmi_fail(
            error, TENMAP_ERR_ARGUMENT, "the %s dtype is %u (%s), which has no elements to convert",
            is_dtype(from) ? "target" : "source", (unsigned)(is_dtype(from) ? to : from),
            tenmap_dtype_name(is_dtype(from) ? to : from));
    if (flags & ~convert_flags)
        return tmi_fail(error, TENMAP_ERR_ARGUMENT,
                        "unknown flags 0x%x: conversions know TENMAP_CONVERT_SATURATE (1), "
                        "_STREAM (2) and _NO_STREAM (4)",
                        (unsigned)(flags & ~convert_flags));
    if ((flags & TENMAP_CONVERT_STREAM) && (flags & TENMAP_CONVERT_NO_STREAM))
        return tmi_fail(error, TENMAP_ERR_ARGUMENT,
                        "TENMAP_CONVERT_STREAM and TENMAP_CONVERT_NO_STREAM contradict each other");
    const char *why = why_unsupported(to, from);
    if (why)
        return tmi_fail(error, TENMAP_ERR_UNSUPPORTED, "cannot convert %s to %s: %s",
                        tenmap_dtype_name(from), tenmap_dtype_name(to), why);
    return TENMAP_OK;
}

uint64_t tmi_convert_file(tmi_packed to, void *dst, tmi_packed from, const void *src,
                          uint64_t count, uint32_t flags) {
    tmi_elements target = {to.dtype, to.bit, !TMI_BIG_ENDIAN},
                 source = {from.dtype, from.bit, true};
    return tmi_route(target, dst, source, src, count, flags);
}

/* Writes an integer of `dtype` in decimal; its bits are the low bits of `bits`. */
static void write_integer(char text[24], tenmap_dtype dtype, uint64_t bits) {
    unsigned above = 64 - tmi_dtypes[dtype].bits;
    if (tmi_dtypes[dtype].kind == TENMAP_KIND_INT && bits << above >> 63)
        snprintf(text, 24, "-%llu", (ull)(0 - (bits << above)) >> above);
    else
        snprintf(text, 24, "%llu", (ull)bits);
}

static tenmap_status fail_misfit(tenmap_error *error, tenmap_dtype to, tenmap_dtype from,
                                 uint64_t bits, uint64_t number) {
    char value[24], least[24], most[24];
    unsigned kind = tmi_dtypes[to].kind;
    bool is_signed = kind == TENMAP_KIND_INT;
    uint64_t top = (uint64_t)1 << (tmi_dtypes[to].bits - 1);
    write_integer(value, from, bits);
    write_integer(least, to, is_signed ? top : 0);
    write_integer(most, to, kind == TENMAP_KIND_BOOL ? 1 : is_signed ? top - 1 : top - 1 + top);
    return tmi_fail(error, TENMAP_ERR_RANGE,
                    "element %llu is %s, which does not fit into %s (%s to %s)", (ull)number, value,
                    tmi_dtypes[to].name, least, most);
}

tenmap_status tmi_fail_misfit(tenmap_error *error, tenmap_dtype to, tenmap_dtype from,
                              const void *at, uint64_t number) {
    tmi_elements file = {from, 0, true};
    return fail_misfit(error, to, from, tmi_scalar_load(&file, at, 0), number);
}

/* Arrays that a caller wants to be converted, in host order. */
typedef struct conversion {
    tenmap_dtype to, from;
    unsigned char *dst;
    const unsigned char *src;
    size_t dst_bytes;
    uint64_t count;
    uint32_t flags;
} conversion;

/* Checks that all integers fit, before a byte is written. */
static tenmap_status check_integers(const conversion *c, tenmap_error *error) {
    tmi_elements target = {c->to, 0, !TMI_BIG_ENDIAN}, source = {c->from, 0, !TMI_BIG_ENDIAN};
    if (!tmi_route_is_integer(c->to, c->from) || tmi_integers_all_fit(c->to, c->from) ||
        c->flags & TENMAP_CONVERT_SATURATE)
        return TENMAP_OK;
    uint64_t first = tmi_route_integers(target, NULL, source, c->src, c->count, c->flags).first;
    if (first == c->count)
        return TENMAP_OK;
    tenmap_status status =
        fail_misfit(error, c->to, c->from, tmi_scalar_load(&source, c->src, (size_t)first), first);
    if (error)
        error->index = first;
    return status;
}

/* Checks that the buffers are not NULL and hold `count` elements. */
static tenmap_status check_convert_buffers(const conversion *c, tenmap_error *error) {
    tenmap_dtype to = c->to, from = c->from;
    size_t dst_bytes = c->dst_bytes;
    uint64_t count = c->count, dst_need, src_need;
    if (!c->dst || !c->src)
        return tmi_fail(error, TENMAP_ERR_ARGUMENT, "%s is NULL, but there are %llu elements",
                        c->dst ? "src" : "dst", (unsigned long long)count);
    if (!tmi_dtype_bytes(to, count, &dst_need))
        return tmi_fail(error, TENMAP_ERR_BUFFER,
                        "the destination has %llu bytes, but %llu elements of %s take more than "
                        "2^64",
                        (unsigned long long)dst_bytes, (unsigned long long)count,
                        tenmap_dtype_name(to));
    if (dst_bytes < dst_need)
        return tmi_fail(error, TENMAP_ERR_BUFFER,
                        "the destination has %llu bytes, but %llu elements of %s take %llu",
                        (unsigned long long)dst_bytes, (unsigned long long)count,
                        tenmap_dtype_name(to), (unsigned long long)dst_need);
    if (!tmi_dtype_bytes(from, count, &src_need) || src_need > SIZE_MAX)
        return tmi_fail(error, TENMAP_ERR_ARGUMENT,
                        "%llu elements of %s are more than an address space can hold",
                        (unsigned long long)count, tenmap_dtype_name(from));
    const tmi_block_dtype *blocks = tmi_dtype_blocks(to); /* `from` is the same dtype then */
    if (blocks && count % blocks->elements != 0)
        return tmi_fail(error, TENMAP_ERR_ARGUMENT,
                        "%llu elements are not a whole number of blocks: a block of %s has %u",
                        (unsigned long long)count, blocks->name, (unsigned)blocks->elements);
    return TENMAP_OK;
}

tenmap_status tenmap_convert(tenmap_dtype to, void *dst, size_t dst_bytes, tenmap_dtype from,
                             const void *src, uint64_t count, uint32_t flags, tenmap_error *error) {
    return tenmap_convert_counted(to, dst, dst_bytes, from, src, count, flags, NULL, error);
}

/* Converts a piece at a time, so that counted elements are still in the cache. */
static void convert_and_count(const conversion *c, tenmap_losses *lost) {
    enum { COUNTED_PART = 8 << 10 };
    tmi_elements target = {c->to, 0, !TMI_BIG_ENDIAN}, source = {c->from, 0, !TMI_BIG_ENDIAN};
    tmi_counted counted = {c->to, c->from, !TMI_BIG_ENDIAN, c->flags};
    unsigned char *dst = c->dst;
    const unsigned char *src = c->src;
    if (!(c->flags & (TENMAP_CONVERT_STREAM | TENMAP_CONVERT_NO_STREAM)))
        counted.flags |= tmi_cpu_streams(tmi_bytes_of(c->to, c->count)) ? TENMAP_CONVERT_STREAM
                                                                        : TENMAP_CONVERT_NO_STREAM;
    for (uint64_t left = c->count, n; left; left -= n) {
        n = left < COUNTED_PART ? left : COUNTED_PART;
        tmi_losses_add(counted, src, n, lost);
        tmi_route(target, dst, source, src, n, counted.flags);
        dst += tmi_bytes_of(c->to, n);
        src += tmi_bytes_of(c->from, n);
    }
}

tenmap_status tenmap_convert_counted(tenmap_dtype to, void *dst, size_t dst_bytes,
                                     tenmap_dtype from, const void *src, uint64_t count,
                                     uint32_t flags, tenmap_losses *losses, tenmap_error *error) {
    conversion c = {to, from, dst, src, dst_bytes, count, flags};
    tenmap_losses lost = {0};
    tenmap_status status = tmi_convert_check(to, from, flags, error);
    if (status == TENMAP_OK && count)
        status = check_convert_buffers(&c, error);
    if (status == TENMAP_OK && count)
        status = check_integers(&c, error);
    if (status != TENMAP_OK)
        return status;
    if (losses) {
        convert_and_count(&c, &lost);
        *losses = lost;
    } else if (count) {
        tmi_elements target = {to, 0, !TMI_BIG_ENDIAN}, source = {from, 0, !TMI_BIG_ENDIAN};
        tmi_route(target, dst, source, src, count, flags);
    }
    return TENMAP_OK;
}
