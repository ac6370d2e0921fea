/* Handles several models on one command line. */
#ifndef TOOL_MODEL_OPERANDS_H
#define TOOL_MODEL_OPERANDS_H

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
void expand_model_operands(const char *const *operands, size_t count, model_paths *out);
void model_paths_free(model_paths *p);

/* How many leading operands are existing paths or addresses. The first operand always counts. */
size_t leading_model_count(const char *const *operands, size_t count);

/*
 * Calls `one` with each model and continues after failures. With `json`, several results form an
 * array. Returns the highest exit code.
 */
int for_each_model(const model_paths *p, bool json,
                   int (*one)(const char *path, bool several, const void *settings),
                   const void *settings);

/*
 * If the path is a folder with files of other models than the one that was opened from it, prints
 * to stderr which files were opened and which were left out.
 */
void tell_left_out(const char *path, const tenmap_model *model);

#endif
