/* Which branch of a PyTorch checkpoint is open, and what it leaves out. */
#ifndef TOOL_CHECKPOINT_BRANCH_H
#define TOOL_CHECKPOINT_BRANCH_H

#include <stdbool.h>
#include <stdint.h>

#include <tenmap.h>

#include "view/print.h"

typedef struct checkpoint_branch {
    const char
        *name; /* "state_dict"; NULL: the model begins at the root, or this is no checkpoint */
    uint64_t others; /* how many tensors other branches hold; --branches lists them */
} checkpoint_branch;

/* Whether any file of the model is a PyTorch checkpoint. */
bool is_checkpoint(const tenmap_model *model);
/* Of several files, the first one's branch, and the tensors that all of them leave out. */
checkpoint_branch find_branch(const tenmap_model *model);
/* Adds "3 tensors of other branches are left out (--branches ...)", or nothing. */
void text_add_other_branches(text *t, const checkpoint_branch *b);
/* Writes the keys "branch" and "other_tensors" into the open object, or nothing. */
void branch_json(const checkpoint_branch *b);

#endif
