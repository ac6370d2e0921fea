/*
 * The new tensors of a layout: each is made of tensors of one model, whose elements it moves. The
 * files of this folder add them by rules; layout_apply makes them the sources of a plan.
 */
#ifndef TOOL_LAYOUT_PLAN_H
#define TOOL_LAYOUT_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tenmap.h>

#include "architectures/expert_layouts.h"
#include "command.h"
#include "output/output_plan.h"
#include "view/print.h"

/* What config.json and the command line say about the model. 0 and NULL: not known. */
typedef struct layout_facts {
    const char *type; /* model_type of the language model */
    const expert_layout *experts_as;
    uint64_t experts;
    uint64_t heads, kv_heads, head; /* `head` is the number of rows of one */
    uint64_t scale_block;           /* rows and columns that one scale of FP8 in blocks is for */
} layout_facts;

/* A tensor of the output that is made of others. */
typedef struct new_tensor {
    tenmap_derived how; /* all that it points to belongs to the layout */
    size_t place;       /* the index of its first source: where it stands in the output */
    const char *rule;   /* "stack experts" */
    const tenmap_tensor **sources;
    size_t source_count;
    /* Its terms are tensors of the inner model, from this one on, each transposed or as it is. */
    bool nested, transposed;
    size_t first_inner;
} new_tensor;

typedef struct layout {
    const tenmap_model *model;
    layout_facts facts;
    size_t count;        /* of the model's tensors; by their index: */
    bool *chosen;        /* whether rules may change it: its name has no NUL, --only names it */
    const char **taken;  /* the rule that changes it; NULL: none does */
    new_tensor *tensors; /* of the output */
    size_t tensor_count;
    tenmap_derived *inner; /* tensors that exist only as terms of others */
    size_t inner_count;
    tenmap_model *inner_model;
    void **owned;
    size_t owned_count;
} layout;

void layout_begin(layout *l, const tenmap_model *model, const layout_facts *facts);
/* Closes the inner model, so the plan's derived model must be closed first. */
void layout_free(layout *l);

/* Memory that lives as long as the layout, zeroed; never NULL. */
void *layout_own(layout *l, size_t count, size_t size);
char *layout_own_text(layout *l, const text *t);
uint64_t *layout_own_dims(layout *l, const uint64_t *dims, size_t rank);

/*
 * Says that the rule changes the tensor with this index. A tensor changes by one rule only. Returns
 * 0 or an exit code.
 */
int layout_take(layout *l, size_t index, const char *rule);

/* Adds a tensor, whose sources are the tensors with these indexes, which the rule has taken. */
void layout_add(layout *l, const char *rule, const tenmap_derived *how, const size_t *indexes,
                size_t count);
/* The same, where the terms are the inner tensors that were added last: how->n of them. */
void layout_add_nested(layout *l, const char *rule, const tenmap_derived *how, bool transposed,
                       const size_t *indexes, size_t count);
/* Adds a tensor to the inner model. */
void layout_add_inner(layout *l, const tenmap_derived *how);

/* A term that is all of a tensor. */
tenmap_term whole_term(const tenmap_tensor *tensor);
/* Fills *out with a tensor that has another name and else stays as it is. */
void layout_renamed(layout *l, const tenmap_tensor *tensor, const text *name, tenmap_derived *out);

/*
 * Renames all tensors that no rule takes from "A.FROM.B" to "A.TO.B"; those of FROM's experts are
 * taken. Returns 0 or an exit code.
 */
int layout_rename_module(layout *l, const char *rule, const char *from, const char *to);

/* Makes the plan's sources from the new tensors and from those that no rule takes. */
int layout_apply(layout *l, plan *p);

/* "[8, 64, 32]". The last four results stay valid. */
const char *shown_shape(const tenmap_tensor *tensor);

/* layout_report.c: what was moved where, one line for each kind of name. */
void layout_print(const layout *l);
void layout_json(const layout *l);

/* stack_experts.c, split_experts.c */
int layout_stack_experts(layout *l);
int layout_split_experts(layout *l);
/* fused_rows.c; `what` is "qkv" or "gate_up" */
int layout_fuse(layout *l, const char *what);
int layout_split_fused(layout *l, const char *what);
/* Every tensor that is chosen by these patterns changes. */
int layout_transpose(layout *l, const texts *patterns);

#endif
