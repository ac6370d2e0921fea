/* Describes a GGUF file from its metadata, in readable form. */
#ifndef TOOL_GGUF_METADATA_H
#define TOOL_GGUF_METADATA_H

#include <stdbool.h>
#include <stdint.h>

#include <tenmap.h>

#include "view/print.h"

/* Texts are empty, and numbers are 0, if the file does not say. */
typedef struct gguf_facts {
    text name; /* general.name */
    bool has_context_length, has_tokens, has_file_type;
    uint64_t context_length;
    text tokenizer, pretokenizer; /* "gpt2", "llama-bpe" */
    uint64_t tokens;
    uint64_t file_type;         /* its number in general.file_type */
    const char *file_type_name; /* "Q4_K_M"; NULL: unknown */
    double bits_per_weight;     /* over all tensors */
    size_t block_tensors;       /* tensors of block dtypes */
} gguf_facts;

/* Whether the model's files are GGUF; false for a model without files. */
bool is_gguf(const tenmap_model *model);

/* Returns false, with nothing to free, for a model of another format. */
bool gguf_describe(const tenmap_model *model, gguf_facts *out);
void gguf_facts_free(gguf_facts *facts);
/* Add nothing if the file does not say. */
void text_add_context(text *t, const gguf_facts *facts);   /* "131,072 tokens" */
void text_add_tokenizer(text *t, const gguf_facts *facts); /* "gpt2 (llama-bpe), 128,256 tokens" */
void text_add_file_type(text *t, const gguf_facts *facts); /* "Q4_K_M, 4.83 bits per weight" */
/* Writes the keys "name", "context_length" and "tokenizer", where known, into the open object. */
void gguf_json(const gguf_facts *facts);

/*
 * Finds a metadata pair by key, or returns NULL. The second form puts the architecture before the
 * key: llama.KEY.
 */
const tenmap_metadata *gguf_pair(const tenmap_model *model, const char *key);
const tenmap_metadata *gguf_own_pair(const tenmap_model *model, const char *key);
/*
 * Reads a pair as a count: a whole number, or element `i` of an array of whole numbers or of bools,
 * which are 0 and 1. Returns false if it is none of these.
 */
bool gguf_count(const tenmap_metadata *pair, uint64_t i, uint64_t *out);

#endif
