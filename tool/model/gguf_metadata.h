/* Describes a GGUF file from its metadata, in readable form. */
#ifndef TOOL_GGUF_METADATA_H
#define TOOL_GGUF_METADATA_H

#include <stdbool.h>
#include <stdint.h>

#include <tenmap.h>

#include "view/print.h"

/* Texts are empty and numbers are 0 if the file does not say. */
typedef struct gguf_facts {
    text name;         /* general.name */
    text context;      /* "131,072 tokens" */
    text tokenizer;    /* "gpt2 (llama-bpe), 128,256 tokens" */
    text quantization; /* "Q4_K_M, 4.83 bits per weight" */
    uint64_t context_length, tokens;
} gguf_facts;

/* Whether the model's files are GGUF; false for a model without files. */
bool is_gguf(const tenmap_model *model);

/* Returns false, with nothing to free, for a model of another format. */
bool gguf_describe(const tenmap_model *model, gguf_facts *out);
void gguf_facts_free(gguf_facts *facts);

/*
 * Finds a metadata pair by key, or returns NULL. The second form puts the architecture before the
 * key: llama.KEY.
 */
const tenmap_metadata *gguf_pair(const tenmap_model *model, const char *key);
const tenmap_metadata *gguf_own_pair(const tenmap_model *model, const char *key);
/*
 * Reads a pair as a count: a whole number, or element `i` of an array of whole numbers. Returns
 * false if it is neither.
 */
bool gguf_count(const tenmap_metadata *pair, uint64_t i, uint64_t *out);

#endif
