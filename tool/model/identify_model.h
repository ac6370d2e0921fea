/* Identifies a model from its tensor names, config.json and metadata, without reading values. */
#ifndef TOOL_IDENTIFY_MODEL_H
#define TOOL_IDENTIFY_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tenmap.h>

#include "model/config_json.h"
#include "model/lora_adapter.h"
#include "view/print.h"

/* How the output head and the embedding are related; all false if nothing is known. */
typedef struct tied_embeddings {
    bool declared;    /* config.json ties them */
    bool head_stored; /* lm_head.weight exists */
    bool same_bytes;  /* it holds the bytes of the embedding */
} tied_embeddings;

typedef struct identity {
    text kind;          /* "LlamaForCausalLM", "Llama-like decoder", "llama"; empty: unknown */
    const char *source; /* what names the kind: "config", "metadata", "names"; NULL if unknown */
    adapter adapter;
    tied_embeddings tied;
    bool by_itself; /* kind and adapter do not depend on what lies beside the model */
} identity;

/* The folder of the model's files, or "." if there is none. The caller frees it. */
char *model_folder(const tenmap_model *model);

/*
 * Reads config.json and metadata. If tied embeddings are to be found, it may also compare the bytes
 * of two tensors.
 */
void identify(const tenmap_model *model, bool find_tied, identity *out);
void identity_free(identity *id);

/* Describes tied embeddings; adds nothing if nothing is known. */
void text_add_tied(text *t, const tied_embeddings *tied);
/* Writes the keys "architecture", "architecture_source", "adapter" and "tied", where known. */
void identity_json(const identity *id);

/* What config.json in a folder calls the model; adds nothing where it does not say. */
void kind_by_config(const char *folder, text *out);
/* NULL: names do not tell. */
const char *kind_by_names(const tenmap_model *model);

#endif
