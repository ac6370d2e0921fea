/* Identifies a model from its tensor names, config.json and metadata, without reading values. */
#ifndef TOOL_IDENTIFY_MODEL_H
#define TOOL_IDENTIFY_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tenmap.h>

#include "model/config_json.h"
#include "view/print.h"

typedef struct identity {
    text kind;        /* "LlamaForCausalLM", "Llama-like decoder", "llama"; empty: unknown */
    const char *told; /* the source: "says config.json"; NULL if unknown */
    text adapter;     /* "LoRA, rank 16, alpha 32, on q_proj, v_proj"; empty: not an adapter */
    text tied; /* "lm_head.weight is not stored: tied to the embedding"; empty: nothing known */
    bool by_itself; /* what it is, in a few words, does not depend on what lies beside it */
} identity;

/* The folder of the model's files, or "." if there is none. The caller frees it. */
char *model_folder(const tenmap_model *model);

void identify(const tenmap_model *model, identity *out);
void identity_free(identity *id);

/* What config.json in a folder calls the model; adds nothing where it does not say. */
void kind_by_config(const char *folder, text *out);
/* NULL: names do not tell. */
const char *kind_by_names(const tenmap_model *model);

/* In a few words, for a table: "LoRA r16", "LlamaForCausalLM", "?". */
void text_add_identity(text *t, const identity *id);

#endif
