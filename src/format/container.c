/* The list of file formats; finds a file's format by its first bytes. */
#include "format.h"

/* In the order in which they are tried: formats with a magic number come first. */
static const tmi_container *const containers[] = {
    &tmi_gguf,          &tmi_npy, &tmi_pytorch, &tmi_safetensors,
#ifdef TENMAP_TOY_CONTAINER
    &tmi_toy_container, /* for tests: only this list knows how many formats there are */
#endif
};

enum { CONTAINERS = sizeof containers / sizeof containers[0] };

/* Those that have names in folders, the preferred one first. */
static const tmi_container *const in_folders[] = {
    &tmi_safetensors,
    &tmi_gguf,
    &tmi_pytorch,
#ifdef TENMAP_TOY_CONTAINER
    &tmi_toy_container,
#endif
};

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
    return i < sizeof in_folders / sizeof in_folders[0] ? in_folders[i] : NULL;
}
