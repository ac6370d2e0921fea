/*
 * Names of Llama-like models as transformers writes them, and what llama.cpp calls the same weights in
 * GGUF: model.layers.0.self_attn.q_proj.weight is blk.0.attn_q.weight.
 */
#ifndef TOOL_NAME_MAP_H
#define TOOL_NAME_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tenmap.h>

#include "view/print.h"

#define NO_EXPERT UINT64_MAX

typedef struct mapped_name {
    text name;       /* in GGUF */
    uint64_t layer;  /* 0 where it belongs to none */
    uint64_t expert; /* whose matrix it is, of those that GGUF has in one tensor; or NO_EXPERT */
    bool query, key; /* a projection whose rows may be in another order there */
} mapped_name;

/*
 * Fills *out, whose text is cleared first; a name that is none of those stays as it is. `model` is the
 * one that has it: some names mean one thing or another by what is beside them.
 */
void map_name(const tenmap_model *model, const char *name, size_t len, mapped_name *out);

/*
 * llama.cpp's converter stores the rows of query and key projections, inside each head, in the order
 * 0, h/2, 1, h/2 + 1, ... of h rows for most architectures that descend from Llama.
 */
typedef struct head_order {
    const tenmap_metadata *heads, *key_heads; /* how many there are; NULL: rows are as they were */
} head_order;

/* What a GGUF model's metadata says of it. */
head_order find_head_order(const tenmap_model *gguf);
/* How many rows a head of this tensor, of the other model, has if they are in that order; else 0. */
uint64_t turned_head(const head_order *order, const mapped_name *of, const tenmap_tensor *t);

#endif
