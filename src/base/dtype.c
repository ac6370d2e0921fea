/* The public functions about element types, which read their table. */
#include "base.h"

#include <string.h>

#define DTYPE_ROW(id, bits, align, kind, infinity)                                                 \
    [TENMAP_##id] = {#id, sizeof #id - 1, bits, align, TENMAP_KIND_##kind, infinity},
const tmi_dtype_info tmi_dtypes[TMI_DTYPE_COUNT] = {TMI_DTYPES(DTYPE_ROW)};

enum { FIRST_BLOCK = TENMAP_Q4_0 };

#define BLOCK_ROW(id, scheme, bits, group, elements, bytes, align)                                 \
    [TENMAP_##id - FIRST_BLOCK] = {#id, elements, bytes, align, {scheme, bits, 1, group, 0}},
static const tmi_block_dtype block_dtypes[TMI_BLOCK_ROWS] = {TMI_BLOCK_DTYPES(BLOCK_ROW)};

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

/* The dtypes that ggml has too and that are not blocks, by ggml's number; 0: none. */
static const uint8_t ggml_plain[] = {
    [0] = TENMAP_F32,  [1] = TENMAP_F16,  [24] = TENMAP_I8,  [25] = TENMAP_I16,
    [26] = TENMAP_I32, [27] = TENMAP_I64, [28] = TENMAP_F64, [30] = TENMAP_BF16};
enum { GGML_TO_BLOCKS = 62 }; /* a block dtype is ggml's number plus this */

tenmap_dtype tenmap_dtype_from_ggml(uint32_t type) {
    if (type < sizeof ggml_plain && ggml_plain[type])
        return ggml_plain[type];
    tenmap_dtype dtype = type <= UINT32_MAX - GGML_TO_BLOCKS ? type + GGML_TO_BLOCKS : 0;
    return tmi_dtype_blocks(dtype) ? dtype : TENMAP_AS_STORED;
}

int tenmap_dtype_to_ggml(tenmap_dtype dtype, uint32_t *type) {
    uint32_t found = tmi_dtype_blocks(dtype) ? dtype - GGML_TO_BLOCKS : 0;
    while (found < sizeof ggml_plain && tenmap_dtype_from_ggml(found) != dtype)
        found++;
    if (dtype == TENMAP_AS_STORED || tenmap_dtype_from_ggml(found) != dtype)
        return 0;
    if (type)
        *type = found;
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

int tenmap_dtype_bytes(tenmap_dtype dtype, uint64_t elements, uint64_t *bytes) {
    const tmi_block_dtype *blocks = tmi_dtype_blocks(dtype);
    uint64_t size;
    if (blocks ? elements % blocks->elements != 0 : tenmap_dtype_bits(dtype) == 0)
        return 0;
    if (!tmi_dtype_bytes(dtype, elements, &size))
        return 0;
    if (bytes)
        *bytes = size;
    return 1;
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
