/* The list of file formats; finds a file's format by its first bytes. */
#include "format.h"

/* In the order in which they are tried: formats with a magic number come first. */
static const tmi_container *const containers[] = {
    &tmi_gguf, &tmi_safetensors,
#ifdef TENMAP_TOY_CONTAINER
    &tmi_toy_container, /* for tests: only this list knows how many formats there are */
#endif
};

enum { CONTAINERS = sizeof containers / sizeof containers[0] };

const tmi_container *tmi_container_of(const unsigned char *start, size_t len, uint64_t size,
                                      uint64_t limit) {
    for (size_t i = 0; i < CONTAINERS; i++)
        if (containers[i]->recognize(start, len, size, limit))
            return containers[i];
    return NULL;
}

const tmi_container *tmi_container_for_errors(void) {
    return &tmi_safetensors;
}

const tmi_container *tmi_container_at(size_t i) {
    for (size_t k = 0; k < CONTAINERS; k++) {
        size_t before = 0;
        for (size_t other = 0; containers[k]->folder && other < CONTAINERS; other++)
            before += containers[other]->folder &&
                      containers[other]->folder->preference < containers[k]->folder->preference;
        if (containers[k]->folder && before == i)
            return containers[k];
    }
    return NULL;
}
