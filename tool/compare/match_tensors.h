/* The tensors of two models that belong together: by their names, changed as the caller wants. */
#ifndef TOOL_MATCH_H
#define TOOL_MATCH_H

#include <stdbool.h>
#include <stddef.h>

#include <tenmap.h>

#include "compare/compare_values.h"
#include "compare/regex_rename.h"

typedef struct match_rules {
    bool map_names;              /* as name_map.h says, on both sides */
    const substitution *renames; /* of A's names, before that */
    size_t rename_count;
} match_rules;

/* In A's order, and what only B has in B's. A tensor of one may belong to parts of several pairs. */
typedef struct matches {
    pair *pairs;
    size_t pair_count;
    const tenmap_tensor **only_a, **only_b;
    size_t only_a_count, only_b_count;
    size_t turned; /* pairs whose rows are in another order on one side */
} matches;

/* 0, or the exit code of a failure that has been told: two tensors of one model would have one name. */
int match_tensors(const tenmap_model *a, const tenmap_model *b, const match_rules *rules,
                  matches *out);
void matches_free(matches *m);

#endif
