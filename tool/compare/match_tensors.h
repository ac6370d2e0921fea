/* Pairs the tensors of two models by name, after changing names as the caller asks. */
#ifndef TOOL_MATCH_TENSORS_H
#define TOOL_MATCH_TENSORS_H

#include <stdbool.h>
#include <stddef.h>

#include <tenmap.h>

#include "compare/compare_values.h"
#include "compare/regex_rename.h"

typedef struct match_rules {
    bool map_names;              /* map names on both sides as name_map.h describes */
    const substitution *renames; /* applied to A's names, before the mapping */
    size_t rename_count;
} match_rules;

/*
 * Pairs are in A's order; tensors that only B has are in B's order. Several partial pairs may share
 * a tensor.
 */
typedef struct matches {
    pair *pairs;
    size_t pair_count;
    const tenmap_tensor **only_a, **only_b;
    size_t only_a_count, only_b_count;
    size_t permuted; /* pairs whose rows are permuted on one side */
} matches;

/*
 * Returns 0, or an exit code after printing an error: two tensors of one model would have the same
 * name.
 */
int match_tensors(const tenmap_model *a, const tenmap_model *b, const match_rules *rules,
                  matches *out);
void matches_free(matches *m);

#endif
