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
 * Opens what is needed for the tensors that the patterns select (see pattern_selects), or
 * everything if there are no patterns. `any`: one pattern that selects something is enough. Returns
 * 0 or an exit code.
 */
int open_for_tensors(const char *path, const char *const *patterns, size_t count, bool any,
                     tenmap_model **out);

/* Counts for the whole model, of which open_for_tensors may have opened only a part. */
size_t whole_tensors(const tenmap_model *model);
size_t whole_shards(const tenmap_model *model);
/* The path as given, and as shown (see shown_path). */
const char *whole_path(const tenmap_model *model);
const char *shown_model(const tenmap_model *model);
/* The tensor's shard number in the whole model, from 1. */
size_t whole_shard(const tenmap_tensor *tensor);

#endif
