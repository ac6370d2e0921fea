/* Handles several models on one command line. */
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
 * Expands the operands. Each stands for itself, except that a folder of single models, such as
 * adapters, stands for all of them, sorted by name. A folder with an index, with one model, or with
 * the shards of one model is one model.
 */
void several_models(const char *const *operands, size_t count, model_paths *out);
void several_free(model_paths *p);

/* How many leading operands are existing paths or addresses. The first operand always counts. */
size_t several_leading(const char *const *operands, size_t count);

/*
 * Calls `one` with each model and continues after failures. With `json`, several results form an
 * array. Returns the highest exit code.
 */
int several_run(const model_paths *p, bool json,
                int (*one)(const char *path, bool several, const void *settings),
                const void *settings);

#endif
