/* Several models on one command line. */
#ifndef TOOL_SEVERAL_H
#define TOOL_SEVERAL_H

#include <stdbool.h>
#include <stddef.h>

#include "command.h"

typedef struct model_paths {
    char **items;
    size_t count, room;
} model_paths;

/*
 * What the operands stand for: each for itself, but a folder of single models, such as adapters, for all
 * of them, by name. A folder with an index, with one model or with the parts of one is one model.
 */
void several_models(const char *const *operands, size_t count, model_paths *out);
void several_free(model_paths *p);

/* How many operands at the beginning are paths of something, the first counted in any case. */
size_t several_leading(const char *const *operands, size_t count);

/*
 * Calls with each of them, and goes on after a failure. With `json` several answers are an array. The
 * worst exit code.
 */
int several_run(const model_paths *p, bool json,
                int (*one)(const char *path, bool several, const void *settings),
                const void *settings);

#endif
