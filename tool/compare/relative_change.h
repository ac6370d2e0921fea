/* How much tensors changed between two models, in the terms that people compare fine-tunes by. */
#ifndef TOOL_CHANGE_H
#define TOOL_CHANGE_H

#include "compare/compare_values.h"

/*
 * The norms of both sides of pairs that differ, and of the first side of those that do not, where
 * another of their kind does, or with `across` another of the same dtypes: a kind's change is that over
 * all its tensors. 0, or the exit code of a failure that has been told.
 */
int measure_changes(pair *pairs, size_t count, bool across, unsigned threads);

/* |a - b| / |a| by Euclidean norms of the finite values; infinite where |a| is 0, NaN where not known. */
double relative_change(const pair *p);
/* Of the angle between both sides as vectors; NaN where one of them is 0. */
double cosine_of(const pair *p);

/* The tensor that a pair is called by: A's, or the one that all of is compared with a part of A's. */
const tenmap_tensor *pair_tensor(const pair *p);

/*
 * All tensors whose names are the same but for their numbers: "layers.*.mlp.up_proj.weight". Those with
 * a NaN or an infinity on one side only count as changed, and have no norms.
 */
typedef struct change_kind {
    char *name;
    size_t tensors, changed;
    uint64_t count, different; /* elements */
    double squares, norm;      /* sums of squares, of a - b and of a */
    double max_abs;            /* of a - b */
} change_kind;

/*
 * The kinds with more than one tensor of which one differs, the largest relative change first. With
 * by_dtypes a kind is what tensors are stored as on both sides instead, "BF16 -> Q4_K", one or more.
 */
change_kind *change_kinds(const pair *pairs, size_t count, bool by_dtypes, size_t *kinds);
double kind_change(const change_kind *kind);
void free_kinds(change_kind *kinds, size_t count);

#endif
