/*
 * Finds tensors with the same bytes inside one model, and provides cheap hashes for such searches.
 */
#ifndef TOOL_DUPLICATE_TENSORS_H
#define TOOL_DUPLICATE_TENSORS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tenmap.h>

/* A hash of dtype and shape. */
uint64_t duplicate_key(const tenmap_tensor *t);

/*
 * A hash of a few bytes spread over the tensor; 0 if they cannot be read. *significant is false if
 * the tensor is small or all its samples are the same value, as in untrained biases and norms: even
 * unrelated models share such tensors. `significant` may be NULL.
 */
uint64_t duplicate_sample(const tenmap_tensor *t, bool *significant);

/* Tensors with the same dtype, shape and bytes. */
typedef struct duplicate_group {
    const tenmap_tensor **tensors; /* sorted by name */
    size_t count;
} duplicate_group;

typedef struct duplicates {
    const tenmap_tensor **tensors; /* of all groups */
    duplicate_group *groups;       /* largest possible saving first */
    size_t count;
    uint64_t bytes;          /* stored more than once, not counting the first copy */
    size_t constant_tensors; /* equal because they hold a single value; in no group */
} duplicates;

/*
 * Reads samples, then the whole of tensors with equal samples. Returns 0, or an exit code if
 * interrupted.
 */
int find_duplicates(const tenmap_model *model, duplicates *out);
void duplicates_free(duplicates *d);

#endif
