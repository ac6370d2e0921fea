/*
 * Opens only the needed shards of a remote model: with an index, one tensor does not cost the
 * headers of two hundred files. Local models are opened whole.
 */
#ifndef TOOL_PARTIAL_REMOTE_OPEN_H
#define TOOL_PARTIAL_REMOTE_OPEN_H

#include <stdbool.h>
#include <stddef.h>

#include <tenmap.h>

/*
 * What the index says about the whole model if only a part of it is open. All zeros: the model is
 * open whole.
 */
typedef struct whole_model {
    char *path; /* as given */
    size_t tensors;
    char **files; /* all files of the index, sorted, each once */
    size_t file_count;
} whole_model;

/*
 * Opens what is needed for the tensors that the patterns select (see pattern_selects), or
 * everything if there are no patterns. `any`: one pattern that selects something is enough. Fills
 * `whole`, which the caller frees with whole_model_free in any case; NULL: not wanted. Returns 0 or
 * an exit code.
 */
int open_for_tensors(const char *path, const char *const *patterns, size_t count, bool any,
                     whole_model *whole, tenmap_model **out);
void whole_model_free(whole_model *whole);

/* Counts for the whole model, of which `model` is what open_for_tensors opened. */
size_t whole_tensors(const whole_model *whole, const tenmap_model *model);
size_t whole_shards(const whole_model *whole, const tenmap_model *model);
/* The path as given. */
const char *whole_path(const whole_model *whole, const tenmap_model *model);
/* The tensor's shard number in the whole model, from 1. */
size_t whole_shard(const whole_model *whole, const tenmap_tensor *tensor);

#endif
