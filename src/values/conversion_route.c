/*
 * Converts elements from one dtype to another. If a kernel converts the pair in one pass, it gets
 * the whole range. Everything else is converted in blocks small enough for the first-level cache,
 * in up to four steps:
 *
 *     fetch   swap bytes (big-endian hosts), or unpack 4- and 6-bit elements to one per byte
 *     map     a kernel, or two with F32 between them; a table for most sources of at most 8 bits
 *     clamp   infinity to the largest finite F32 or F64, if the caller wants saturation
 *     place   pack 4- and 6-bit elements, or copy with non-temporal stores
 *
 * F32 as the middle step holds every narrower source exactly, and wider ones rounded to odd, so no
 * result is rounded twice.
 */
#include "values.h"
#include "conversion_route.h"
#include "cpu.h"

#include <string.h>

/* Elements per block: a multiple of 8, so that packed blocks end on bytes. */
enum { ROUTE_BLOCK = 1024 };

typedef union route_buffer {
    uint64_t align;
    unsigned char bytes[ROUTE_BLOCK * 8 + 64];
} route_buffer;

typedef struct route_plan {
    tenmap_dtype to, from;
    unsigned to_bits, from_bits;
    uint32_t flags; /* for kernels */
    bool swap, clamp, stream, use_table;
    bool packed;                  /* `first` takes F4 two per byte, as it is stored */
    tmi_kernel *first, *second;   /* second is NULL if one kernel converts the pair */
    tmi_kernel *stream_copy;      /* used if `stream` is set */
    unsigned char table[256 * 8]; /* elements of `to` by code of `from` */
} route_plan;

static void swap_elements(unsigned char *dst, const unsigned char *src, size_t count,
                          size_t width) {
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < width; k++)
            dst[i * width + k] = src[i * width + width - 1 - k];
}

/* Starts at any bit, and reads only the bytes that hold the elements. */
static void unpack_elements(unsigned char *dst, tmi_elements from, const unsigned char *src,
                            size_t count) {
    unsigned width = tmi_dtypes[from.dtype].bits;
    size_t i = 0;
    while (i < count && (from.bit + i * width) % 8 != 0) {
        dst[i] = (unsigned char)tmi_scalar_load(&from, src, i);
        i++;
    }
    const unsigned char *s = src + (from.bit + i * width) / 8;
    if (width == 4) {
        for (; i + 2 <= count; i += 2, s++) {
            dst[i] = *s & 0x0f;
            dst[i + 1] = *s >> 4;
        }
    } else {
        for (; i + 4 <= count; i += 4, s += 3) {
            uint32_t four = s[0] | (uint32_t)s[1] << 8 | (uint32_t)s[2] << 16;
            dst[i] = four & 0x3f;
            dst[i + 1] = four >> 6 & 0x3f;
            dst[i + 2] = four >> 12 & 0x3f;
            dst[i + 3] = (unsigned char)(four >> 18);
        }
    }
    for (; i < count; i++)
        dst[i] = (unsigned char)tmi_scalar_load(&from, src, i);
}

/* Packs from bit 0 on. The codes after the last one must be 0 up to a multiple of 4. */
static void pack_elements(unsigned char *dst, const unsigned char *codes, size_t count,
                          unsigned width) {
    if (width == 4) {
        for (size_t i = 0; i < count; i += 2)
            *dst++ = (unsigned char)(codes[i] | codes[i + 1] << 4);
        return;
    }
    size_t i = 0;
    for (; i < count; i += 4) {
        uint32_t four = codes[i] | (uint32_t)codes[i + 1] << 6 | (uint32_t)codes[i + 2] << 12 |
                        (uint32_t)codes[i + 3] << 18;
        size_t left = count - i; /* 1 to 3 elements take 1 to 3 bytes */
        *dst++ = (unsigned char)four;
        if (left > 1)
            *dst++ = (unsigned char)(four >> 8);
        if (left > 2)
            *dst++ = (unsigned char)(four >> 16);
    }
}

static void store_code(unsigned char *dst, uint64_t code, size_t bytes) {
    uint8_t one = (uint8_t)code;
    uint16_t two = (uint16_t)code;
    uint32_t four = (uint32_t)code;
    const void *value = bytes == 1   ? (const void *)&one
                        : bytes == 2 ? (const void *)&two
                        : bytes == 4 ? (const void *)&four
                                     : (const void *)&code;
    memcpy(dst, value, bytes);
}

static size_t element_bytes(unsigned bits) {
    return bits < 8 ? 1 : bits / 8;
}

static void fill_table(route_plan *plan) {
    size_t codes = (size_t)1 << plan->from_bits, bytes = element_bytes(plan->to_bits);
    for (size_t code = 0; code < codes; code++)
        store_code(plan->table + code * bytes,
                   tmi_scalar_one(plan->to, plan->from, code, plan->flags), bytes);
}

/* One loop per width, so that each copies with a single load and store. */
static void map_by_table(const route_plan *plan, unsigned char *dst, const unsigned char *codes,
                         size_t count) {
    const unsigned char *table = plan->table;
    switch (element_bytes(plan->to_bits)) {
    case 1:
        for (size_t i = 0; i < count; i++)
            dst[i] = table[codes[i]];
        break;
    case 2:
        for (size_t i = 0; i < count; i++)
            memcpy(dst + i * 2, table + (size_t)codes[i] * 2, 2);
        break;
    case 4:
        for (size_t i = 0; i < count; i++)
            memcpy(dst + i * 4, table + (size_t)codes[i] * 4, 4);
        break;
    default:
        for (size_t i = 0; i < count; i++)
            memcpy(dst + i * 8, table + (size_t)codes[i] * 8, 8);
        break;
    }
}

static void clamp_infinities(unsigned char *dst, size_t count, unsigned bits) {
    for (size_t i = 0; bits == 32 && i < count; i++) {
        uint32_t v;
        memcpy(&v, dst + i * 4, 4);
        v -= (v & 0x7fffffff) == 0x7f800000;
        memcpy(dst + i * 4, &v, 4);
    }
    for (size_t i = 0; bits == 64 && i < count; i++) {
        uint64_t v;
        memcpy(&v, dst + i * 8, 8);
        v -= (v & 0x7fffffffffffffff) == 0x7ff0000000000000;
        memcpy(dst + i * 8, &v, 8);
    }
}

/*
 * Plans a source of at most 8 bits if no kernel converts the pair: by a table, or to F64 by two
 * kernels. F32 holds all such sources exactly, and a table would be built anew for every call.
 * These kernels do not saturate, so a table is used where infinities must be clamped.
 */
static void plan_narrow(route_plan *plan) {
    const tmi_kernels *k = tmi_cpu_kernels();
    bool clamps = (plan->flags & TENMAP_CONVERT_SATURATE) && tmi_dtypes[plan->from].infinity;
    tmi_kernel *widen = plan->to == TENMAP_F64 && !clamps ? k->pair[TENMAP_F32][plan->from] : NULL;
    plan->second = widen ? k->pair[TENMAP_F64][TENMAP_F32] : NULL;
    plan->first = plan->second ? widen : NULL;
    plan->use_table = !plan->first;
    plan->clamp = false;
}

static void plan_kernels(route_plan *plan, unsigned from_bit) {
    bool saturate = plan->flags & TENMAP_CONVERT_SATURATE;
    if (plan->to == plan->from || tmi_route_is_integer(plan->to, plan->from))
        return;
    const tmi_kernels *k = tmi_cpu_kernels();
    if (plan->from == TENMAP_F4 && from_bit == 0)
        plan->first = k->packed_f4[plan->to];
    if (plan->first) {
        plan->packed = true;
        return;
    }
    /* Kernels that widen do not saturate, so E5M2 takes a table. */
    if (!(saturate && plan->from == TENMAP_F8_E5M2))
        plan->first = k->pair[plan->to][plan->from];
    plan->clamp = saturate && plan->to_bits >= 32 && tmi_dtypes[plan->from].infinity;
    if (plan->first)
        return;
    if (plan->from_bits <= 8) {
        plan_narrow(plan);
        return;
    }
    bool exact = plan->from_bits < 32;
    plan->first = exact ? k->pair[TENMAP_F32][plan->from] : k->odd[plan->from];
    plan->second = k->pair[plan->to][TENMAP_F32];
}

/*
 * Maps and clamps one block. `out` is the destination itself unless the block must still be packed,
 * or copied with non-temporal stores.
 */
static void map_block(const route_plan *plan, unsigned char *out, const unsigned char *in,
                      size_t count) {
    route_buffer middle;
    uint32_t flags = plan->flags & TENMAP_CONVERT_SATURATE;
    if (plan->use_table) {
        map_by_table(plan, out, in, count);
    } else if (plan->second) {
        plan->first(middle.bytes, in, count, 0);
        plan->second(out, middle.bytes, count, flags);
    } else if (plan->first) {
        plan->first(out, in, count, flags);
    } else {
        memcpy(out, in, count * element_bytes(plan->to_bits));
    }
    if (plan->clamp)
        clamp_infinities(out, count, plan->to_bits);
}

static void run_blocks(const route_plan *plan, unsigned char *dst, tmi_elements from,
                       const unsigned char *src, uint64_t count) {
    route_buffer fetched, placed;
    uint64_t bit = from.bit;
    while (count > 0) {
        size_t n = count < ROUTE_BLOCK ? (size_t)count : ROUTE_BLOCK;
        const unsigned char *in = src + bit / 8;
        if (plan->from_bits < 8 && !plan->packed) {
            from.bit = (unsigned)(bit % 8);
            unpack_elements(fetched.bytes, from, in, n);
            in = fetched.bytes;
        } else if (plan->swap) {
            swap_elements(fetched.bytes, in, n, plan->from_bits / 8);
            in = fetched.bytes;
        }
        bool pack = plan->to_bits < 8;
        map_block(plan, pack || plan->stream ? placed.bytes : dst, in, n);
        if (pack) {
            memset(placed.bytes + n, 0, 4);
            pack_elements(dst, placed.bytes, n, plan->to_bits);
        } else if (plan->stream) {
            plan->stream_copy(dst, placed.bytes, n * plan->to_bits / 8, 0);
        }
        dst += n * plan->to_bits / 8;
        bit += (uint64_t)n * plan->from_bits;
        count -= n;
    }
}

/* The pair's kernel if one pass over the whole range is enough; otherwise NULL. */
static tmi_kernel *direct_kernel(const route_plan *plan, const void *dst) {
    if (plan->swap || plan->clamp || plan->second || plan->to_bits < 8)
        return NULL;
    if (plan->from_bits < 8 && !plan->packed)
        return NULL;
    /*
     * Kernels align dst for non-temporal stores by converting whole source bytes first. If that
     * cannot align dst, the kernel cannot use such stores itself.
     */
    size_t granule = plan->packed ? plan->to_bits / 4 : plan->to_bits / 8;
    if (plan->stream && (uintptr_t)dst % granule != 0)
        return NULL;
    return plan->first;
}

static void copy_same(const route_plan *plan, unsigned char *dst, const unsigned char *src,
                      uint64_t count) {
    uint64_t bits = count * plan->to_bits;
    size_t bytes = (size_t)(bits / 8);
    if (plan->stream)
        plan->stream_copy(dst, src, bytes, 0);
    else
        memcpy(dst, src, bytes);
    if (bits % 8 != 0)
        dst[bytes] = (unsigned char)(src[bytes] & ((1u << bits % 8) - 1));
}

/*
 * How many elements to convert one by one before the rest is aligned for a fast path; `count` if
 * there is none, or if the elements are few.
 */
static uint64_t count_head(const tmi_elements *to, const tmi_elements *from, uint64_t count) {
    unsigned to_bits = tmi_dtypes[to->dtype].bits, from_bits = tmi_dtypes[from->dtype].bits;
    uint64_t head = 0;
    if (to_bits < 8) {
        while (head < 8 && (to->bit + head * to_bits) % 8 != 0)
            head++;
        if (head == 8)
            head = count;
    } else if (from_bits == 4 && from->bit == 4) {
        head = 1; /* then the source is byte-aligned, as kernels for packed F4 need it */
    }
    /* Building a table costs as many conversions as it has entries. */
    if (from_bits <= 8 && count < (uint64_t)1 << from_bits) {
        const tmi_kernels *k = tmi_cpu_kernels();
        if (!k->pair[to->dtype][from->dtype] && !k->packed_f4[to->dtype])
            head = count;
    }
    return head < count ? head : count;
}

/*
 * Whether to use non-temporal stores: as the caller says, otherwise if the result is too large for
 * the cache.
 */
static bool uses_streaming(uint64_t count, unsigned bits, uint32_t flags) {
    if (flags & (TENMAP_CONVERT_STREAM | TENMAP_CONVERT_NO_STREAM))
        return flags & TENMAP_CONVERT_STREAM;
    return tmi_cpu_streams(count / 8 * bits);
}

/* Plans everything except the table, which only run_blocks needs. */
static void make_plan(route_plan *plan, const tmi_elements *to, const tmi_elements *from,
                      uint64_t count, uint32_t flags) {
    plan->to = to->dtype;
    plan->from = from->dtype;
    plan->to_bits = tmi_dtypes[to->dtype].bits;
    plan->from_bits = tmi_dtypes[from->dtype].bits;
    plan->flags = flags & TENMAP_CONVERT_SATURATE;
    plan->swap = plan->from_bits > 8 && from->little_endian != !TMI_BIG_ENDIAN;
    plan->clamp = plan->use_table = plan->packed = false;
    plan->first = plan->second = NULL;
    plan->stream_copy = tmi_cpu_kernels()->stream_copy;
    plan->stream = plan->stream_copy && uses_streaming(count, plan->to_bits, flags);
    plan_kernels(plan, from->bit);
}

/* Converts all pairs except integer to integer. This cannot fail. */
static void route_numbers(tmi_elements to, void *dst, tmi_elements from, const void *src,
                          uint64_t count, uint32_t flags) {
    if (to.dtype == TENMAP_C64) { /* two F32 each */
        to.dtype = from.dtype = TENMAP_F32;
        count *= 2;
    }
    unsigned char *d = dst;
    const unsigned char *s = src;
    uint64_t head = to.dtype == from.dtype && to.bit == 0 ? 0 : count_head(&to, &from, count);
    if (head) {
        tmi_scalar_convert(to, dst, from, src, (size_t)head, flags);
        uint64_t to_bit = to.bit + head * tmi_dtypes[to.dtype].bits;
        uint64_t from_bit = from.bit + head * tmi_dtypes[from.dtype].bits;
        d += to_bit / 8;
        s += from_bit / 8;
        from.bit = (unsigned)(from_bit % 8);
        count -= head;
    }
    if (count == 0)
        return;
    route_plan plan;
    make_plan(&plan, &to, &from, count, flags);
    if (to.dtype == from.dtype && !plan.swap && from.bit == 0) {
        copy_same(&plan, d, s, count);
        return;
    }
    tmi_kernel *direct = direct_kernel(&plan, d);
    if (direct) {
        direct(d, s, (size_t)count, plan.flags | (plan.stream ? TENMAP_CONVERT_STREAM : 0));
        return;
    }
    if (plan.use_table)
        fill_table(&plan);
    run_blocks(&plan, d, from, s, count);
}

/*
 * Block dtypes: some blocks at a time become F32, in the first-level cache, and then the wanted
 * dtype.
 */

static bool same_elements(const tmi_elements *a, const tmi_elements *b) {
    return a->dtype == b->dtype && a->bit == b->bit && a->little_endian == b->little_endian;
}

static void route_blocks(tmi_elements to, void *dst, tmi_elements from, const void *src,
                         uint64_t count, uint32_t flags) {
    enum { VALUES_AT_ONCE = 2048 };
    float values[VALUES_AT_ONCE];
    const tmi_block_dtype *blocks = tmi_dtype_blocks(from.dtype);
    const tmi_kernels *k = tmi_cpu_kernels();
    tmi_unpack *unpack = k->unpack[from.dtype - TENMAP_Q4_0];
    unsigned to_bits = tmi_dtypes[to.dtype].bits, skip = from.bit;
    bool stream = uses_streaming(count, to_bits, flags);
    const unsigned char *s = src;
    unsigned char *d = dst;
    flags = (flags & TENMAP_CONVERT_SATURATE) |
            (stream ? TENMAP_CONVERT_STREAM : TENMAP_CONVERT_NO_STREAM);
    tmi_elements middle = {TENMAP_F32, 0, !TMI_BIG_ENDIAN};
    tmi_unpack *streaming_unpack =
        stream && same_elements(&to, &middle) ? k->unpack_nt[from.dtype - TENMAP_Q4_0] : NULL;
    while (count > 0) {
        size_t whole = (size_t)(count / blocks->elements);
        if (streaming_unpack && whole > 0 && skip == 0 && (uintptr_t)d % 32 == 0) {
            streaming_unpack((float *)(void *)d, s, whole);
            d += whole * blocks->elements * sizeof(float);
            s += whole * blocks->bytes;
            count -= (uint64_t)whole * blocks->elements;
            continue;
        }
        size_t wanted = count < VALUES_AT_ONCE - skip ? (size_t)count : VALUES_AT_ONCE - skip;
        size_t n = (wanted + skip + blocks->elements - 1) / blocks->elements;
        unpack(values, s, n);
        route_numbers(to, d, middle, values + skip, wanted, flags);
        uint64_t bit = to.bit + (uint64_t)wanted * to_bits;
        d += bit / 8;
        to.bit = (unsigned)(bit % 8);
        s += n * blocks->bytes;
        count -= wanted;
        skip = 0;
    }
}

static void copy_blocks(void *dst, tenmap_dtype dtype, const void *src, uint64_t count,
                        uint32_t flags) {
    uint64_t bytes = tmi_bytes_of(dtype, count);
    tmi_kernel *stream_copy = tmi_cpu_kernels()->stream_copy;
    if (stream_copy && uses_streaming(bytes, 8, flags))
        stream_copy(dst, src, (size_t)bytes, 0);
    else
        memcpy(dst, src, (size_t)bytes);
}

static bool is_integer(tenmap_dtype dtype) {
    unsigned kind = tenmap_dtype_kind(dtype);
    return kind == TENMAP_KIND_BOOL || kind == TENMAP_KIND_UINT || kind == TENMAP_KIND_INT;
}

bool tmi_route_is_integer(tenmap_dtype to, tenmap_dtype from) {
    return to != from && is_integer(to) && is_integer(from);
}

tmi_route_misfits tmi_route_integers(tmi_elements to, void *dst, tmi_elements from, const void *src,
                                     uint64_t count, uint32_t flags) {
    tmi_route_misfits all = {count, 0};
    route_buffer fetched, placed;
    route_plan plan;
    make_plan(&plan, &to, &from, count, flags);
    const unsigned char *s = src;
    unsigned char *d = dst;
    for (uint64_t done = 0; done < count;) {
        size_t n = count - done < ROUTE_BLOCK ? (size_t)(count - done) : ROUTE_BLOCK;
        const unsigned char *in = s;
        if (plan.swap) {
            swap_elements(fetched.bytes, s, n, plan.from_bits / 8);
            in = fetched.bytes;
        }
        bool stream = d && plan.stream;
        tmi_misfits misfits =
            tmi_integers(to.dtype, stream ? placed.bytes : d, from.dtype, in, n, plan.flags);
        all.count += misfits.count;
        if (misfits.first < n) {
            all.first = done + misfits.first;
            return all;
        }
        if (stream)
            plan.stream_copy(d, placed.bytes, n * plan.to_bits / 8, 0);
        done += n;
        s += n * plan.from_bits / 8;
        d = d ? d + n * plan.to_bits / 8 : NULL;
    }
    return all;
}

uint64_t tmi_route(tmi_elements to, void *dst, tmi_elements from, const void *src, uint64_t count,
                   uint32_t flags) {
    if (tmi_route_is_integer(to.dtype, from.dtype))
        return tmi_route_integers(to, dst, from, src, count, flags).first;
    if (!tmi_dtype_blocks(from.dtype))
        route_numbers(to, dst, from, src, count, flags);
    else if (to.dtype == from.dtype)
        copy_blocks(dst, to.dtype, src, count, flags);
    else
        route_blocks(to, dst, from, src, count, flags);
    return count;
}
