/*
 * A few tensors of a remote model: of an index, only the shards that have them are opened, so that one
 * tensor does not cost the headers of two hundred files. What is here is opened whole.
 */
#ifndef TOOL_NEEDED_H
#define TOOL_NEEDED_H

#include <stdbool.h>
#include <stddef.h>

#include <tenmap.h>

/*
 * Opens what is needed of the model for tensors that the patterns select (see pattern_selects); all of
 * it if there are none. `any`: one pattern that selects something is enough. 0 or an exit code.
 */
int open_needed(const char *path, const char *const *patterns, size_t count, bool any,
                tenmap_model **out);

/* What the whole model has, of which open_needed may have opened a part. */
size_t whole_tensors(const tenmap_model *model);
size_t whole_shards(const tenmap_model *model);
/* The path as it was given; and as it is shown, see shown_path. */
const char *whole_path(const tenmap_model *model);
const char *shown_model(const tenmap_model *model);
/* Which of the whole model's shards the tensor is in, from 1 on. */
size_t whole_shard(const tenmap_tensor *tensor);

#endif
