/* Measures how much tensors changed between two models, in the terms used to compare fine-tunes. */
#ifndef TOOL_RELATIVE_CHANGE_H
#define TOOL_RELATIVE_CHANGE_H

#include "compare/compare_values.h"

/*
 * Computes the norms of both sides of pairs that differ. Of a pair that does not differ, it
 * computes the first side's norm if another pair of its kind differs, or with `across` another pair
 * of the same dtypes: a kind's change is taken over all its tensors. Returns 0, or an exit code
 * after printing an error.
 */
int measure_changes(pair *pairs, size_t count, bool across, unsigned threads);

/* |a - b| / |a|, as Euclidean norms of the finite values. Infinite if |a| is 0, NaN if unknown. */
double relative_change(const pair *p);
/* The cosine similarity of both sides as vectors; NaN if one of them is 0. */
double cosine_of(const pair *p);

/* The tensor that names a pair: A's, or B's if all of B's is compared with a part of A's. */
const tenmap_tensor *pair_tensor(const pair *p);

/*
 * All tensors whose names differ only in their numbers: "layers.*.mlp.up_proj.weight". Tensors with
 * a NaN or an infinity on one side only count as changed and add nothing to the norms.
 */
typedef struct change_kind {
    char *name;
    size_t tensors, changed;
    uint64_t count, different; /* elements */
    double squares, norm;      /* sums of squares, of a - b and of a */
    double max_abs;            /* of a - b */
} change_kind;

/*
 * Returns the kinds with more than one tensor of which at least one differs, largest relative
 * change first. With by_dtypes a kind is instead a pair of stored dtypes, "BF16 -> Q4_K", and may
 * have a single tensor.
 */
change_kind *change_kinds(const pair *pairs, size_t count, bool by_dtypes, size_t *kinds);
double kind_change(const change_kind *kind);
void free_kinds(change_kind *kinds, size_t count);

#endif
