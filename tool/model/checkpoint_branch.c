/* Describes which branch of a PyTorch checkpoint is open, and what it leaves out. */
#include "model/checkpoint_branch.h"

#include <string.h>

#include "command.h"
#include "view/json_out.h"

bool is_checkpoint(const tenmap_model *model) {
    for (size_t i = 0; i < tenmap_shard_count(model); i++)
        if (strcmp(tenmap_shard_at(model, i)->format, "pytorch") == 0)
            return true;
    return false;
}

checkpoint_branch find_branch(const tenmap_model *model) {
    checkpoint_branch found = {NULL, 0};
    for (size_t i = 0; i < tenmap_shard_count(model); i++) {
        const tenmap_shard *shard = tenmap_shard_at(model, i);
        found.name = found.name ? found.name : shard->branch;
        found.others += shard->other_tensors;
    }
    return found;
}

void text_add_other_branches(text *t, const checkpoint_branch *b) {
    if (!b->others)
        return;
    text_add_grouped(t, b->others);
    text_addf(t, " tensor%s of other branches %s left out (--branches takes all)",
              b->others == 1 ? "" : "s", b->others == 1 ? "is" : "are");
}

void branch_json(const checkpoint_branch *b) {
    if (!b->name)
        return;
    json_key_text("branch", b->name, TENMAP_CSTR);
    json_key_uint("other_tensors", b->others);
}
