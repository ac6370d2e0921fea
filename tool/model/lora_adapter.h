/* Recognizes LoRA adapters by the names of their tensors, and describes them. */
#ifndef TOOL_LORA_ADAPTER_H
#define TOOL_LORA_ADAPTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tenmap.h>

#include "view/print.h"

enum { MAX_ADAPTER_NAMES = 24 };

/* Names of modules, each once, in the order of the file. */
typedef struct module_names {
    text items[MAX_ADAPTER_NAMES];
    size_t count;
    bool incomplete; /* there are more names than the limit */
} module_names;

/* A LoRA adapter. */
typedef struct adapter {
    size_t modules; /* adapted modules; 0: the model is not an adapter */
    uint64_t min_rank, max_rank;
    text alpha;           /* as written; empty: unknown */
    bool rslora, dora;    /* scaled by alpha / sqrt(rank); with a magnitude for each module */
    module_names targets; /* "q_proj", "to_out.0", "embed_tokens" */
    size_t whole_tensors; /* stored as they are, not as factors: PEFT's modules_to_save */
    module_names whole;
    text base_model; /* what adapter_config.json or metadata call the base; empty: unknown */
} adapter;

/*
 * Reads the adapter_config.json in `folder`, metadata, and one value: the first alpha. `folder` is
 * that of the model's files.
 */
void find_adapter(const tenmap_model *model, const char *folder, adapter *a);
adapter adapter_copy(const adapter *a);
void adapter_free(adapter *a);

/*
 * How many modules the tensors adapt, by their names; 0: the model is not a LoRA. A module whose
 * own weight lies beside the factors does not count: such a model holds its base.
 */
size_t count_adapted(const tenmap_model *model);

/* Whether the name is that of a factor, or of what lies beside factors, such as alpha. */
bool belongs_to_adapter(const tenmap_tensor *t);

/* "LoRA, rank 16, alpha 32, 4 modules: q_proj, v_proj"; nothing if it is not an adapter. */
void text_add_adapter(text *t, const adapter *a);
/* "LoRA rank 16", for a table. */
void text_add_adapter_rank(text *t, const adapter *a);
/* Writes the key "adapter" into the open object, or nothing if it is not an adapter. */
void adapter_json(const adapter *a);

#endif
