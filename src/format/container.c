/* The list of file formats; finds a file's format by its first bytes. */
#include "format.h"

/* In the order in which they are tried: formats with a magic number come first. */
static const tmi_container *const containers[] = {
    &tmi_gguf, &tmi_safetensors,
#ifdef TENMAP_TOY_CONTAINER
    &tmi_toy_container, /* for tests: only this list knows how many formats there are */
#endif
};

const tmi_container *tmi_container_of(const unsigned char *start, size_t len, uint64_t size,
                                      uint64_t limit) {
    for (size_t i = 0; i < sizeof containers / sizeof containers[0]; i++)
        if (containers[i]->recognize(start, len, size, limit))
            return containers[i];
    return NULL;
}

const tmi_container *tmi_container_for_errors(void) {
    return &tmi_safetensors;
}
