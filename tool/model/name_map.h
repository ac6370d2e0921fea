/*
 * Maps the tensor names that transformers uses for Llama-like models to those of llama.cpp in GGUF:
 * model.layers.0.self_attn.q_proj.weight is blk.0.attn_q.weight.
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
    uint64_t layer;  /* 0 if it belongs to no layer */
    uint64_t expert; /* index of the expert's matrix in a tensor that GGUF merges; or NO_EXPERT */
    bool query, key; /* a projection whose rows may be permuted in GGUF */
} mapped_name;

/*
 * Fills *out after clearing its text. An unknown name stays unchanged. `model` is the model with
 * that name: what some names mean depends on the tensors beside them.
 */
void map_name(const tenmap_model *model, const char *name, size_t len, mapped_name *out);

/*
 * For most architectures that descend from Llama, llama.cpp's converter permutes the rows of query
 * and key projections: the h rows of each head are stored in the order 0, h/2, 1, h/2 + 1, ...
 */
typedef struct head_order {
    const tenmap_metadata *heads, *key_heads; /* numbers of heads; NULL: rows are not permuted */
} head_order;

/* Reads the head order from a GGUF model's metadata. */
head_order find_head_order(const tenmap_model *gguf);
/*
 * The number of rows per head of this tensor, which is from the other model, if its rows are
 * permuted in GGUF; else 0.
 */
uint64_t permuted_head_rows(const head_order *order, const mapped_name *of, const tenmap_tensor *t);

#endif
