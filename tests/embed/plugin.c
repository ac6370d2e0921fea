/*
 * A plug-in with its own copy of tenmap: included as one file with static names (PLUGIN_STATIC), or
 * linked with tenmap.c compiled with TENMAP_HIDDEN. PLUGIN_NAME is the only function that it
 * exports.
 */
#ifdef PLUGIN_STATIC
#define TENMAP_API static
#include "tenmap.c"
#else
#include "tenmap.h"
#endif

#include <string.h>

/*
 * Opens the model in these bytes and puts w as F32 into dst[0..1]. Returns the version of its own
 * copy, or 0.
 */
unsigned PLUGIN_NAME(const void *bytes, size_t size, float *dst, char *said, size_t said_bytes);

unsigned PLUGIN_NAME(const void *bytes, size_t size, float *dst, char *said, size_t said_bytes) {
    tenmap_model *model;
    tenmap_error error;
    tenmap_status status = tenmap_open_memory(bytes, size, NULL, &model, &error);
    if (status == TENMAP_OK)
        status =
            tenmap_read(tenmap_find(model, "w"), 0, 2, TENMAP_F32, dst, 2 * sizeof *dst, 0, &error);
    if (status != TENMAP_OK)
        strncpy(said, error.message, said_bytes - 1);
    tenmap_close(model);
    return status == TENMAP_OK && tenmap_version() == TENMAP_VERSION ? tenmap_version() : 0;
}
