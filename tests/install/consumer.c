#include <stdio.h>
#include <string.h>
#include <tenmap.h>

int main(void) {
    static const unsigned char file[] = "\2\0\0\0\0\0\0\0{}";
    tenmap_model *model;
    tenmap_error error;
    if (tenmap_open_memory(file, sizeof file - 1, NULL, &model, &error) != TENMAP_OK) {
        fprintf(stderr, "%s\n", error.message);
        return 1;
    }
    size_t count = tenmap_count(model);
    tenmap_close(model);
    return count == 0 && tenmap_version() == TENMAP_VERSION_MAJOR * 1000000u +
                                                 TENMAP_VERSION_MINOR * 1000u + TENMAP_VERSION_PATCH
               ? 0
               : 1;
}
