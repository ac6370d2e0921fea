/* Tensors that hold the same bytes: cheap signs of it, and the search for them inside one model. */
#ifndef TOOL_ALIKE_H
#define TOOL_ALIKE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tenmap.h>

/* A hash of dtype and shape. */
uint64_t alike_kind(const tenmap_tensor *t);

/*
 * A hash of a few bytes from all over the tensor; 0 where they cannot be read. *telling is false where
 * the tensor is small or its samples are all one value, as untrained biases and norms are: models
 * without anything in common have such ones in common. May be NULL.
 */
uint64_t alike_sample(const tenmap_tensor *t, bool *telling);

/* Tensors of one dtype, one shape and the same bytes. */
typedef struct duplicate_group {
    const tenmap_tensor **tensors; /* in the order of their names */
    size_t count;
} duplicate_group;

typedef struct duplicates {
    const tenmap_tensor **tensors; /* of all groups */
    duplicate_group *groups;       /* those that could save most first */
    size_t count;
    uint64_t bytes;          /* that are stored more than once, the first time not counted */
    size_t constant_tensors; /* alike because they hold one value only: in no group */
} duplicates;

/* Reads samples, and what is behind equal ones. 0, or the exit code of an interruption. */
int find_duplicates(const tenmap_model *model, duplicates *out);
void duplicates_free(duplicates *d);

#endif
