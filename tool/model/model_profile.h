/*
 * What people ask first about a model: its architecture, parameters, context length, vocabulary and
 * base model, from config.json, files of the tokenizer, or GGUF metadata.
 */
#ifndef TOOL_MODEL_PROFILE_H
#define TOOL_MODEL_PROFILE_H

#include <stdbool.h>
#include <stdint.h>

#include <tenmap.h>

#include "architectures/architecture.h"
#include "fit/kv_cache.h"
#include "model/identify_model.h"
#include "model/model_summary.h"
#include "model/model_weights.h"
#include "model/scheme_summary.h"
#include "view/print.h"

/* Numbers are 0, and texts empty, if nothing says. */
typedef struct model_profile {
    identity id;
    const architecture *architecture; /* NULL: not in the table */
    model_sizes sizes;
    kv_cache cache;
    model_weights weights;
    uint64_t params, active_params; /* active: those that one token uses, if there are experts */
    bool params_least;              /* there may be more */
    uint64_t context_length, vocabulary;
    text stored_as;  /* the dtype with the most bytes, the scheme, or the mix of a GGUF file */
    text base_model; /* the model that an adapter or a quantized file was made of */
} model_profile;

/*
 * Counts what the library understands about quantized weights, and corrects the summary's numbers
 * by that. `known` is empty if there are none.
 */
void count_quantized(summary *s, schemes *known);

/* Reads config.json, adapter_config.json and tokenizer_config.json if needed; no tensors. */
void profile_read(const summary *s, const schemes *known, bool find_tied, model_profile *out);
void profile_free(model_profile *p);

/* "LlamaForCausalLM, 8.03B parameters, context 8,192, vocabulary 128,256, BF16". */
void text_add_profile(text *t, const model_profile *p);
/* Writes "active_params", "context_length", "vocabulary", "stored_as", "base_model", if known. */
void profile_json(const model_profile *p, bool with_context);

#endif
