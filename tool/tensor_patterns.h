/*
 * Selects the tensors that a command works on.
 *
 * A pattern with *, ? or [...] is a glob over the whole name, in which * also matches dots. Any
 * other pattern selects the tensor of that name or, if there is none, every tensor whose name
 * contains it.
 */
#ifndef TOOL_TENSOR_PATTERNS_H
#define TOOL_TENSOR_PATTERNS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tenmap.h>

#include "command.h"

bool glob_match(const char *pattern, const char *name, size_t len);

/* Whether the pattern selects this tensor of its model. */
bool pattern_selects(const char *pattern, const tenmap_tensor *tensor);

typedef struct filter {
    const char *const *patterns; /* a tensor matches any of these; none: all tensors */
    size_t pattern_count;
    texts except;                  /* and none of these */
    texts dtypes;                  /* globs such as "bf16" and "f8*", case-insensitive */
    uint64_t min_bytes, max_bytes; /* max 0: no limit */
} filter;

typedef struct selection {
    const tenmap_tensor **tensors; /* in file order */
    size_t count;
    uint64_t bytes, elements; /* sums */
} selection;

/*
 * Returns 0, or an exit code after printing an error. If the model has tensors, a pattern that
 * selects nothing is an error, and so is an empty selection.
 */
int select_tensors(const tenmap_model *model, const filter *wanted, selection *out);
void selection_free(selection *s);

/* Compares numbers inside names as numbers: layers.2 sorts before layers.10. */
int natural_compare(const char *a, size_t a_len, const char *b, size_t b_len);
void selection_sort_natural(selection *s);

/* For sorting by name in another order: `compare` gets pointers to two of these. */
typedef struct name_entry {
    const char *name;
    size_t len;
    const tenmap_tensor *tensor;
} name_entry;
void selection_sort_names(selection *s, int (*compare)(const void *, const void *));
/* Length of the common prefix of both, at most `len` bytes. */
size_t common_prefix(const char *a, const char *b, size_t len);

/* The largest power of two that divides the offset, up to 4096. */
uint64_t alignment_of(uint64_t offset);

#endif
