/* Reads GGUF metadata and describes the model, tokenizer and quantization in readable form. */
#include "model/gguf_metadata.h"

#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "view/json_out.h"

bool is_gguf(const tenmap_model *model) {
    const tenmap_shard *first = tenmap_shard_at(model, 0);
    return first && strcmp(first->format, "gguf") == 0;
}

const tenmap_metadata *gguf_pair(const tenmap_model *model, const char *key) {
    size_t len = strlen(key);
    for (size_t i = 0; i < tenmap_metadata_count(model); i++) {
        const tenmap_metadata *pair = tenmap_metadata_at(model, i);
        if (pair->key_len == len && memcmp(pair->key, key, len) == 0)
            return pair;
    }
    return NULL;
}

const tenmap_metadata *gguf_own_pair(const tenmap_model *model, const char *key) {
    const tenmap_metadata *architecture = gguf_pair(model, "general.architecture");
    text whole = {0};
    if (!architecture)
        return NULL;
    text_addf(&whole, "%s.%s", architecture->value, key);
    const tenmap_metadata *pair = gguf_pair(model, whole.bytes);
    text_free(&whole);
    return pair;
}

static bool read_count(const char *digits, uint64_t *out) {
    char *end;
    if (*digits < '0' || *digits > '9')
        return false;
    *out = strtoull(digits, &end, 10);
    return *end == '\0';
}

/* Bytes of a type that stands for a count: an integer or a bool; 0 for other types. */
static size_t count_width(uint32_t type) {
    switch (type) {
    case TENMAP_VALUE_U8:
    case TENMAP_VALUE_I8:
    case TENMAP_VALUE_BOOL:
        return 1;
    case TENMAP_VALUE_U16:
    case TENMAP_VALUE_I16:
        return 2;
    case TENMAP_VALUE_U32:
    case TENMAP_VALUE_I32:
        return 4;
    case TENMAP_VALUE_U64:
    case TENMAP_VALUE_I64:
        return 8;
    default:
        return 0;
    }
}

/* Reads an array element by its index; walking to each of many elements would take too long. */
bool gguf_count(const tenmap_metadata *pair, uint64_t i, uint64_t *out) {
    char digits[32];
    if (!pair || pair->type == TENMAP_VALUE_STRING)
        return false;
    if (pair->type != TENMAP_VALUE_ARRAY)
        return read_count(pair->value, out);
    size_t width = count_width(pair->element_type);
    if (width == 0 || i >= pair->count)
        return false;
    if (pair->element_type == TENMAP_VALUE_BOOL) {
        *out = ((const unsigned char *)pair->raw)[i] != 0;
        return true;
    }
    tenmap_value element = {.type = pair->element_type,
                            .element_type = pair->element_type,
                            .count = 1,
                            .raw = (const char *)pair->raw + i * width,
                            .raw_bytes = width};
    tenmap_value_text(&element, digits, sizeof digits);
    return read_count(digits, out);
}

static void add_text(text *out, const tenmap_model *model, const char *key) {
    const tenmap_metadata *pair = gguf_pair(model, key);
    if (pair && pair->type == TENMAP_VALUE_STRING)
        text_add_safe(out, pair->value, pair->value_len);
}

/* The names of dtype mixes by their number in general.file_type. */
static const char *const file_types[] = {
    "F32",   "F16",     "Q4_0",      "Q4_1",   NULL,     NULL,      NULL,     "Q8_0",   "Q5_0",
    "Q5_1",  "Q2_K",    "Q3_K_S",    "Q3_K_M", "Q3_K_L", "Q4_K_S",  "Q4_K_M", "Q5_K_S", "Q5_K_M",
    "Q6_K",  "IQ2_XXS", "IQ2_XS",    "Q2_K_S", "IQ3_XS", "IQ3_XXS", "IQ1_S",  "IQ4_NL", "IQ3_S",
    "IQ3_M", "IQ2_S",   "IQ2_M",     "IQ4_XS", "IQ1_M",  "BF16",    NULL,     NULL,     NULL,
    "TQ1_0", "TQ2_0",   "MXFP4_MOE", "NVFP4",  "Q1_0"};

enum { GUESSED = 1024 }; /* flag: the writing program guessed the type from the tensors */

static void find_file_type(const tenmap_model *model, gguf_facts *out) {
    uint64_t bytes = 0, elements = 0;
    out->has_file_type = gguf_count(gguf_pair(model, "general.file_type"), 0, &out->file_type);
    out->file_type &= ~(uint64_t)GUESSED;
    if (out->has_file_type && out->file_type < sizeof file_types / sizeof file_types[0])
        out->file_type_name = file_types[out->file_type];
    for (size_t i = 0; i < tenmap_count(model); i++) {
        const tenmap_tensor *t = tenmap_at(model, i);
        bytes += t->nbytes;
        elements += t->nelems;
        out->block_tensors += t->dtype != TENMAP_OPAQUE && tenmap_dtype_bits(t->dtype) == 0;
    }
    out->bits_per_weight = elements ? 8 * (double)bytes / (double)elements : 0;
}

bool gguf_describe(const tenmap_model *model, gguf_facts *out) {
    *out = (gguf_facts){0};
    if (!is_gguf(model))
        return false;
    add_text(&out->name, model, "general.name");
    out->has_context_length =
        gguf_count(gguf_own_pair(model, "context_length"), 0, &out->context_length);
    add_text(&out->tokenizer, model, "tokenizer.ggml.model");
    add_text(&out->pretokenizer, model, "tokenizer.ggml.pre");
    const tenmap_metadata *tokens = gguf_pair(model, "tokenizer.ggml.tokens");
    out->has_tokens = tokens && tokens->type == TENMAP_VALUE_ARRAY;
    out->tokens = out->has_tokens ? tokens->count : 0;
    find_file_type(model, out);
    return true;
}

void gguf_facts_free(gguf_facts *facts) {
    text_free(&facts->name);
    text_free(&facts->tokenizer);
    text_free(&facts->pretokenizer);
}

static void add_tokens(text *t, uint64_t count) {
    text_add_grouped(t, count);
    text_addf(t, count == 1 ? " token" : " tokens");
}

void text_add_context(text *t, const gguf_facts *facts) {
    if (facts->has_context_length)
        add_tokens(t, facts->context_length);
}

void text_add_tokenizer(text *t, const gguf_facts *facts) {
    if (facts->tokenizer.len)
        text_addf(t, "%s", facts->tokenizer.bytes);
    if (facts->tokenizer.len && facts->pretokenizer.len)
        text_addf(t, " (%s)", facts->pretokenizer.bytes);
    if (!facts->has_tokens)
        return;
    text_addf(t, t->len ? ", " : "");
    add_tokens(t, facts->tokens);
}

void text_add_file_type(text *t, const gguf_facts *facts) {
    if (facts->file_type_name)
        text_addf(t, "%s", facts->file_type_name);
    else if (facts->has_file_type)
        text_addf(t, "file type %llu", (unsigned long long)facts->file_type);
    if (facts->bits_per_weight > 0)
        text_addf(t, "%s%.2f bits per weight", t->len ? ", " : "", facts->bits_per_weight);
}

void gguf_json(const gguf_facts *facts) {
    if (facts->name.len)
        json_key_text("name", facts->name.bytes, facts->name.len);
    if (facts->has_context_length)
        json_key_uint("context_length", facts->context_length);
    if (!facts->tokenizer.len && !facts->pretokenizer.len && !facts->has_tokens)
        return;
    json_key("tokenizer");
    json_open('{', true);
    if (facts->tokenizer.len)
        json_key_text("model", facts->tokenizer.bytes, facts->tokenizer.len);
    if (facts->pretokenizer.len)
        json_key_text("pretokenizer", facts->pretokenizer.bytes, facts->pretokenizer.len);
    if (facts->has_tokens)
        json_key_uint("tokens", facts->tokens);
    json_close();
}
