/* The table of element types, and the public functions that read it. */
#include "base.h"

#include <string.h>

/*
 * Each row: name, bits per element, alignment of an element in bytes, kind, whether it has
 * infinity.
 */
#define DTYPES(X)                                                                                  \
    X(AS_STORED, 0, 1, NONE, 0)                                                                    \
    X(BOOL, 8, 1, BOOL, 0)                                                                         \
    X(F4, 4, 1, FLOAT, 0)                                                                          \
    X(F6_E2M3, 6, 1, FLOAT, 0)                                                                     \
    X(F6_E3M2, 6, 1, FLOAT, 0)                                                                     \
    X(U8, 8, 1, UINT, 0)                                                                           \
    X(I8, 8, 1, INT, 0)                                                                            \
    X(F8_E5M2, 8, 1, FLOAT, 1)                                                                     \
    X(F8_E4M3, 8, 1, FLOAT, 0)                                                                     \
    X(F8_E8M0, 8, 1, FLOAT, 0)                                                                     \
    X(F8_E4M3FNUZ, 8, 1, FLOAT, 0)                                                                 \
    X(F8_E5M2FNUZ, 8, 1, FLOAT, 0)                                                                 \
    X(I16, 16, 2, INT, 0)                                                                          \
    X(U16, 16, 2, UINT, 0)                                                                         \
    X(F16, 16, 2, FLOAT, 1)                                                                        \
    X(BF16, 16, 2, FLOAT, 1)                                                                       \
    X(I32, 32, 4, INT, 0)                                                                          \
    X(U32, 32, 4, UINT, 0)                                                                         \
    X(F32, 32, 4, FLOAT, 1)                                                                        \
    X(C64, 64, 4, COMPLEX, 1)                                                                      \
    X(F64, 64, 8, FLOAT, 1)                                                                        \
    X(I64, 64, 8, INT, 0)                                                                          \
    X(U64, 64, 8, UINT, 0)

#define DTYPE_ROW(id, bits, align, kind, infinity)                                                 \
    [TENMAP_##id] = {#id, sizeof #id - 1, bits, align, TENMAP_KIND_##kind, infinity},
const tmi_dtype_info tmi_dtypes[TMI_DTYPE_COUNT] = {DTYPES(DTYPE_ROW)};

/*
 * Block dtypes. Each row: name, name of the scheme, bits per value, values that share a scale;
 * elements and bytes per block, alignment of the block in bytes. If one code stands for several
 * values, the bits are those per value.
 */
#define BLOCK_DTYPES(X)                                                                            \
    X(Q4_0, "q4_0", 4, 32, 32, 18, 2)                                                              \
    X(Q4_1, "q4_1", 4, 32, 32, 20, 2)                                                              \
    X(Q5_0, "q5_0", 5, 32, 32, 22, 2)                                                              \
    X(Q5_1, "q5_1", 5, 32, 32, 24, 2)                                                              \
    X(Q8_0, "q8_0", 8, 32, 32, 34, 2)                                                              \
    X(Q8_1, "q8_1", 8, 32, 32, 36, 2)                                                              \
    X(Q2_K, "q2_k", 2, 16, 256, 84, 2)                                                             \
    X(Q3_K, "q3_k", 3, 16, 256, 110, 2)                                                            \
    X(Q4_K, "q4_k", 4, 32, 256, 144, 2)                                                            \
    X(Q5_K, "q5_k", 5, 32, 256, 176, 2)                                                            \
    X(Q6_K, "q6_k", 6, 16, 256, 210, 2)                                                            \
    X(Q8_K, "q8_k", 8, 256, 256, 292, 4)                                                           \
    X(IQ2_XXS, "iq2_xxs", 2, 32, 256, 66, 2)                                                       \
    X(IQ2_XS, "iq2_xs", 2, 16, 256, 74, 2)                                                         \
    X(IQ3_XXS, "iq3_xxs", 3, 32, 256, 98, 2)                                                       \
    X(IQ1_S, "iq1_s", 1, 32, 256, 50, 2)                                                           \
    X(IQ4_NL, "iq4_nl", 4, 32, 32, 18, 2)                                                          \
    X(IQ3_S, "iq3_s", 3, 32, 256, 110, 2)                                                          \
    X(IQ2_S, "iq2_s", 2, 16, 256, 82, 2)                                                           \
    X(IQ4_XS, "iq4_xs", 4, 32, 256, 136, 2)                                                        \
    X(IQ1_M, "iq1_m", 1, 16, 256, 56, 1)                                                           \
    X(TQ1_0, "tq1_0", 2, 256, 256, 54, 2)                                                          \
    X(TQ2_0, "tq2_0", 2, 256, 256, 66, 2)                                                          \
    X(MXFP4, "mxfp4", 4, 32, 32, 17, 1)                                                            \
    X(NVFP4, "nvfp4", 4, 16, 64, 36, 1)                                                            \
    X(Q1_0, "q1_0", 1, 128, 128, 18, 2)

enum { FIRST_BLOCK = TENMAP_Q4_0 };

#define BLOCK_ROW(id, scheme, bits, group, elements, bytes, align)                                 \
    [TENMAP_##id - FIRST_BLOCK] = {#id, elements, bytes, align, {scheme, bits, 1, group, 0}},
static const tmi_block_dtype block_dtypes[TMI_BLOCK_ROWS] = {BLOCK_DTYPES(BLOCK_ROW)};

const tmi_block_dtype *tmi_dtype_blocks(tenmap_dtype dtype) {
    if (dtype < FIRST_BLOCK || dtype - FIRST_BLOCK >= TMI_BLOCK_ROWS)
        return NULL;
    const tmi_block_dtype *row = &block_dtypes[dtype - FIRST_BLOCK];
    return row->name ? row : NULL;
}

unsigned tmi_dtype_align(tenmap_dtype dtype) {
    const tmi_block_dtype *blocks = tmi_dtype_blocks(dtype);
    if (blocks)
        return blocks->align;
    return dtype < TMI_DTYPE_COUNT ? tmi_dtypes[dtype].align : 1;
}

tenmap_dtype tmi_dtype_find(const char *name, size_t len) {
    for (tenmap_dtype d = TENMAP_BOOL; d < TMI_DTYPE_COUNT; d++)
        if (tmi_dtypes[d].name_len == len && memcmp(tmi_dtypes[d].name, name, len) == 0)
            return d;
    return TENMAP_AS_STORED;
}

uint32_t tenmap_dtype_bits(tenmap_dtype dtype) {
    return dtype < TMI_DTYPE_COUNT ? tmi_dtypes[dtype].bits : 0;
}

int tenmap_dtype_block(tenmap_dtype dtype, uint32_t *elements, uint32_t *bytes) {
    const tmi_block_dtype *blocks = tmi_dtype_blocks(dtype);
    uint32_t bits = tenmap_dtype_bits(dtype), together = 1;
    if (!blocks && bits == 0)
        return 0;
    while (bits * together % 8 != 0)
        together *= 2;
    if (elements)
        *elements = blocks ? blocks->elements : together;
    if (bytes)
        *bytes = blocks ? blocks->bytes : bits * together / 8;
    return 1;
}

uint32_t tenmap_dtype_kind(tenmap_dtype dtype) {
    if (tmi_dtype_blocks(dtype))
        return TENMAP_KIND_FLOAT;
    return dtype < TMI_DTYPE_COUNT ? tmi_dtypes[dtype].kind : TENMAP_KIND_NONE;
}

const char *tenmap_dtype_name(tenmap_dtype dtype) {
    if (dtype == TENMAP_OPAQUE)
        return "OPAQUE";
    const tmi_block_dtype *blocks = tmi_dtype_blocks(dtype);
    if (blocks)
        return blocks->name;
    return dtype < TMI_DTYPE_COUNT ? tmi_dtypes[dtype].name : "UNKNOWN";
}

int tenmap_dtype_from_name(const char *name, tenmap_dtype *out) {
    tenmap_dtype found = name ? tmi_dtype_find(name, strlen(name)) : TENMAP_AS_STORED;
    for (uint32_t i = 0; name && i < TMI_BLOCK_ROWS; i++)
        if (block_dtypes[i].name && strcmp(block_dtypes[i].name, name) == 0)
            found = FIRST_BLOCK + i;
    if (found == TENMAP_AS_STORED)
        return 0;
    if (out)
        *out = found;
    return 1;
}

bool tmi_dtype_bytes(tenmap_dtype dtype, uint64_t count, uint64_t *bytes) {
    const tmi_block_dtype *blocks = tmi_dtype_blocks(dtype);
    if (blocks) {
        uint64_t whole = count / blocks->elements + (count % blocks->elements != 0);
        bool fits = tmi_multiply(whole, blocks->bytes, bytes);
        *bytes = fits ? *bytes : UINT64_MAX;
        return fits;
    }
    unsigned bits = tmi_dtypes[dtype].bits;
    *bytes = UINT64_MAX;
    if (count > UINT64_MAX / bits)
        return false;
    *bytes = tmi_packed_bytes(count, bits);
    return true;
}

int tmi_whole_bytes(tenmap_dtype dtype, uint64_t count, uint64_t *bytes) {
    uint64_t bits;
    if (!tmi_multiply(count, tmi_dtypes[dtype].bits, &bits))
        return TMI_BYTES_OVERFLOW;
    *bytes = bits / 8;
    return bits % 8 ? TMI_BYTES_PART : TMI_BYTES_WHOLE;
}

uint64_t tmi_elements_in(tenmap_dtype dtype, size_t room) {
    const tmi_block_dtype *blocks = tmi_dtype_blocks(dtype);
    if (blocks)
        return (uint64_t)(room / blocks->bytes) * blocks->elements;
    return (uint64_t)room * 8 / tmi_dtypes[dtype].bits / 8 * 8;
}

size_t tmi_dtype_width(tenmap_dtype dtype) {
    return tenmap_dtype_bits(dtype) / 8;
}

uint64_t tmi_bytes_of(tenmap_dtype dtype, uint64_t count) {
    uint64_t bytes;
    (void)tmi_dtype_bytes(dtype, count, &bytes);
    return bytes;
}

uint64_t tmi_byte_of(tenmap_dtype dtype, uint64_t i, unsigned *within) {
    const tmi_block_dtype *blocks = tmi_dtype_blocks(dtype);
    if (blocks) {
        *within = (unsigned)(i % blocks->elements);
        return i / blocks->elements * blocks->bytes;
    }
    uint64_t bits = i % 8 * tmi_dtypes[dtype].bits;
    *within = (unsigned)(bits % 8);
    return i / 8 * tmi_dtypes[dtype].bits + bits / 8;
}

uint64_t tmi_packed_bytes(uint64_t count, unsigned bits) {
    return count / 8 * bits + (count % 8 * bits + 7) / 8;
}
