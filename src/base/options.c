/* Reads option structs from callers that may have been compiled against another version of them. */
#include "base.h"

#include <string.h>

static uint32_t option_at(const void *options, size_t offset) {
    uint32_t value;
    memcpy(&value, (const unsigned char *)options + offset, sizeof value);
    return value;
}

tenmap_status tmi_options_copy(const tmi_options_kind *kind, const void *given, void *out,
                               tenmap_error *error) {
    enum { LARGEST_SIZE = 4096 };
    size_t size;
    memset(out, 0, kind->size);
    memcpy(out, &kind->size, sizeof kind->size);
    if (!given)
        return TENMAP_OK;
    memcpy(&size, given, sizeof size); /* struct_size is the first field of all of them */
    /* Every version ends at a field boundary, so a size that cuts a pointer is invalid. */
    if (size < kind->first_size || size > LARGEST_SIZE || size % sizeof size != 0)
        return tmi_fail(error, TENMAP_ERR_ARGUMENT,
                        "options.struct_size is %llu; start from %s, which sets it to sizeof(%s), "
                        "here %llu",
                        (ull)size, kind->init, kind->name, (ull)kind->size);
    for (size_t i = kind->size; i < size; i++)
        if (((const unsigned char *)given)[i])
            return tmi_fail(error, TENMAP_ERR_ARGUMENT,
                            "options uses a field at byte %llu that this version of the library "
                            "does not know",
                            (ull)i);
    memcpy(out, given, size < kind->size ? size : kind->size);
    uint32_t unknown = kind->flags ? option_at(out, kind->flags) & ~kind->known : 0;
    if (unknown)
        return tmi_fail(error, TENMAP_ERR_ARGUMENT, "options.flags has unknown bits: 0x%x",
                        (unsigned)unknown);
    if (kind->reserved && option_at(out, kind->reserved))
        return tmi_fail(error, TENMAP_ERR_ARGUMENT, "options.reserved must be 0");
    return TENMAP_OK;
}
