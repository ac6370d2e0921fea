/* The table of element types, and the public functions that read it. */
#include "base.h"

#include <string.h>

#define DTYPE(id, text, bits, align, kind)                                                         \
    [TENMAP_##id] = {text, sizeof(text) - 1, bits, align, TMI_KIND_##kind}

const tmi_dtype_info tmi_dtypes[TMI_DTYPE_COUNT] = {
    DTYPE(AS_STORED, "AS_STORED", 0, 1, NONE),
    DTYPE(BOOL, "BOOL", 8, 1, BOOL),
    DTYPE(F4, "F4", 4, 1, FLOAT),
    DTYPE(F6_E2M3, "F6_E2M3", 6, 1, FLOAT),
    DTYPE(F6_E3M2, "F6_E3M2", 6, 1, FLOAT),
    DTYPE(U8, "U8", 8, 1, UINT),
    DTYPE(I8, "I8", 8, 1, INT),
    DTYPE(F8_E5M2, "F8_E5M2", 8, 1, FLOAT),
    DTYPE(F8_E4M3, "F8_E4M3", 8, 1, FLOAT),
    DTYPE(F8_E8M0, "F8_E8M0", 8, 1, FLOAT),
    DTYPE(F8_E4M3FNUZ, "F8_E4M3FNUZ", 8, 1, FLOAT),
    DTYPE(F8_E5M2FNUZ, "F8_E5M2FNUZ", 8, 1, FLOAT),
    DTYPE(I16, "I16", 16, 2, INT),
    DTYPE(U16, "U16", 16, 2, UINT),
    DTYPE(F16, "F16", 16, 2, FLOAT),
    DTYPE(BF16, "BF16", 16, 2, FLOAT),
    DTYPE(I32, "I32", 32, 4, INT),
    DTYPE(U32, "U32", 32, 4, UINT),
    DTYPE(F32, "F32", 32, 4, FLOAT),
    DTYPE(C64, "C64", 64, 4, COMPLEX),
    DTYPE(F64, "F64", 64, 8, FLOAT),
    DTYPE(I64, "I64", 64, 8, INT),
    DTYPE(U64, "U64", 64, 8, UINT),
};

tenmap_dtype tmi_dtype_find(const char *name, size_t len) {
    for (tenmap_dtype d = TENMAP_BOOL; d < TMI_DTYPE_COUNT; d++)
        if (tmi_dtypes[d].name_len == len && memcmp(tmi_dtypes[d].name, name, len) == 0)
            return d;
    return TENMAP_AS_STORED;
}

uint32_t tenmap_dtype_bits(tenmap_dtype dtype) {
    return dtype < TMI_DTYPE_COUNT ? tmi_dtypes[dtype].bits : 0;
}

const char *tenmap_dtype_name(tenmap_dtype dtype) {
    if (dtype == TENMAP_OPAQUE)
        return "OPAQUE";
    return dtype < TMI_DTYPE_COUNT ? tmi_dtypes[dtype].name : "UNKNOWN";
}

int tenmap_dtype_from_name(const char *name, tenmap_dtype *out) {
    tenmap_dtype found = name ? tmi_dtype_find(name, strlen(name)) : TENMAP_AS_STORED;
    if (found == TENMAP_AS_STORED)
        return 0;
    if (out)
        *out = found;
    return 1;
}

uint64_t tmi_packed_bytes(uint64_t count, unsigned bits) {
    return count / 8 * bits + (count % 8 * bits + 7) / 8;
}
