/* Opens models with the options that every command takes. */
#include "open_model.h"

#include "command.h"
#include "remote/remote.h"

tenmap_options open_options(void) {
    tenmap_options options = TENMAP_OPTIONS_INIT;
    options.flags = (common.lenient ? (uint32_t)TENMAP_OPEN_LENIENT : 0) |
                    (common.partial ? (uint32_t)TENMAP_OPEN_PARTIAL : 0) |
                    (common.branches ? (uint32_t)TENMAP_OPEN_BRANCHES : 0) |
                    (common.dequantize ? (uint32_t)TENMAP_OPEN_DEQUANTIZE : 0);
    options.max_header_bytes = common.max_header;
    options.backend = common.unmapped ? TENMAP_BACKEND_READ : TENMAP_BACKEND_MAP;
    return options;
}

int open_model(const char *path, tenmap_model **out) {
    tenmap_options options = open_options();
    tenmap_error error;
    *out = NULL;
    int status = remote_options(path, &options);
    if (!status && tenmap_open(path, &options, out, &error) != TENMAP_OK)
        status = fail_error(&error);
    remote_opened();
    return status;
}
