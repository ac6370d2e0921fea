/*
 * Which tensors a command works on.
 *
 * A pattern with *, ? or [...] is a glob over the whole name, where * crosses dots. A pattern without
 * any selects the tensor of that name or, where there is none, every tensor whose name contains it.
 */
#ifndef TOOL_SELECT_H
#define TOOL_SELECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tenmap.h>

#include "command.h"

bool glob_match(const char *pattern, const char *name, size_t len);

/* Whether the model's tensor is one that the pattern selects. */
bool pattern_selects(const char *pattern, const tenmap_tensor *tensor);

typedef struct filter {
    const char *const *patterns; /* any of these; none: all tensors */
    size_t pattern_count;
    texts except;                  /* none of these */
    texts dtypes;                  /* "bf16", "f8*": globs, without regard to case */
    uint64_t min_bytes, max_bytes; /* max 0: no limit */
} filter;

typedef struct selection {
    const tenmap_tensor **tensors; /* in file order */
    size_t count;
    uint64_t bytes, elements; /* sums */
} selection;

/*
 * 0, or an exit code: a pattern that selects nothing is a mistake worth telling, and so is a selection
 * that ends up empty, unless the model has no tensors.
 */
int select_tensors(const tenmap_model *model, const filter *wanted, selection *out);
void selection_free(selection *s);

/* Numbers inside names compare as numbers: layers.2 before layers.10. */
int natural_compare(const char *a, size_t a_len, const char *b, size_t b_len);
void selection_sort_natural(selection *s);

/* Sorting by name otherwise: `compare` gets pointers to two of these. */
typedef struct name_entry {
    const char *name;
    size_t len;
    const tenmap_tensor *tensor;
} name_entry;
void selection_sort_names(selection *s, int (*compare)(const void *, const void *));
/* How many of the first `len` bytes are the same in both. */
size_t common_prefix(const char *a, const char *b, size_t len);

/* The largest power of two that divides the offset, up to 4096. */
uint64_t alignment_of(uint64_t offset);

#endif
