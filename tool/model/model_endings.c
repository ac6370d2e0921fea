/* The endings of files that are models. */
#include "model/model_endings.h"

#include <stddef.h>
#include <string.h>

const char *const model_endings[] = {".safetensors", ".gguf", NULL};

bool has_ending(const char *name, const char *ending) {
    size_t n = strlen(name), m = strlen(ending);
    return n > m && strcmp(name + n - m, ending) == 0;
}

bool has_model_ending(const char *name) {
    for (const char *const *ending = model_endings; *ending; ending++)
        if (has_ending(name, *ending))
            return true;
    return false;
}
