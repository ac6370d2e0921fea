/* The table of element types, and the public functions that read it. */
#include "base.h"

#include <string.h>

/* Each once: its name, the bits and the alignment in bytes of an element, its kind, infinity. */
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

tenmap_dtype tmi_dtype_find(const char *name, size_t len) {
    for (tenmap_dtype d = TENMAP_BOOL; d < TMI_DTYPE_COUNT; d++)
        if (tmi_dtypes[d].name_len == len && memcmp(tmi_dtypes[d].name, name, len) == 0)
            return d;
    return TENMAP_AS_STORED;
}

uint32_t tenmap_dtype_bits(tenmap_dtype dtype) {
    return dtype < TMI_DTYPE_COUNT ? tmi_dtypes[dtype].bits : 0;
}

uint32_t tenmap_dtype_kind(tenmap_dtype dtype) {
    return dtype < TMI_DTYPE_COUNT ? tmi_dtypes[dtype].kind : TENMAP_KIND_NONE;
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

bool tmi_dtype_bytes(tenmap_dtype dtype, uint64_t count, uint64_t *bytes) {
    unsigned bits = tmi_dtypes[dtype].bits;
    *bytes = UINT64_MAX;
    if (count > UINT64_MAX / bits)
        return false;
    *bytes = tmi_packed_bytes(count, bits);
    return true;
}

uint64_t tmi_packed_bytes(uint64_t count, unsigned bits) {
    return count / 8 * bits + (count % 8 * bits + 7) / 8;
}
