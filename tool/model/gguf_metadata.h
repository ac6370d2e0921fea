/* What a GGUF file says of itself in its metadata, for people. */
#ifndef TOOL_GGUF_H
#define TOOL_GGUF_H

#include <stdbool.h>
#include <stdint.h>

#include <tenmap.h>

#include "view/print.h"

/* Texts are empty, and numbers 0, where the file does not say. */
typedef struct gguf_facts {
    text name;         /* general.name */
    text context;      /* "131,072 tokens" */
    text tokenizer;    /* "gpt2 (llama-bpe), 128,256 tokens" */
    text quantisation; /* "Q4_K_M, 4.83 bits per weight" */
    uint64_t context_length, tokens;
} gguf_facts;

/* Whether the model's files are GGUF; one without files is not. */
bool is_gguf(const tenmap_model *model);

/* False, and nothing to free, for a model of another format. */
bool gguf_describe(const tenmap_model *model, gguf_facts *out);
void gguf_facts_free(gguf_facts *facts);

/* A pair of the metadata by its key, or NULL; `architecture` stands before the key: llama.KEY. */
const tenmap_metadata *gguf_pair(const tenmap_model *model, const char *key);
const tenmap_metadata *gguf_own_pair(const tenmap_model *model, const char *key);
/* What a pair holds as a count: a whole number, or number `i` of an array of them. False if neither. */
bool gguf_count(const tenmap_metadata *pair, uint64_t i, uint64_t *out);

#endif
