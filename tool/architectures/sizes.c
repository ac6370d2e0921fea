/* Reads the dimensions of a model from config.json or GGUF metadata, and evaluates expressions. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "architectures/architecture.h"
#include "command.h"
#include "model/gguf_metadata.h"

/* A dimension may be expressed by those above it. */
static const dimension common_dimensions[] = {
    {"hidden", "hidden_size|n_embd|d_model", "embedding_length", NULL},
    {"layers", "num_hidden_layers|n_layer|n_layers|num_layers", "block_count", NULL},
    {"vocab", "vocab_size", "vocab_size", NULL},
    {"positions", "max_position_embeddings|n_positions|max_sequence_length|seq_length|n_ctx",
     "context_length", NULL},
    {"inner", "intermediate_size|n_inner|d_ff|ffn_dim", "feed_forward_length", NULL},
    {"heads", "num_attention_heads|n_head|n_heads|num_heads", "attention.head_count", NULL},
    {"kv", "num_key_value_heads|num_kv_heads", "attention.head_count_kv", "heads"},
    {"head", "head_dim", "attention.key_length", "hidden/heads"},
    {"value", "v_head_dim", "attention.value_length", "head"},
    {"window", "sliding_window", "attention.sliding_window", NULL},
    {"full_every", "sliding_window_pattern|_sliding_window_pattern",
     "attention.sliding_window_pattern", NULL},
    {"full_first", "max_window_layers", NULL, NULL},
    {"experts", "num_local_experts|num_experts|n_routed_experts", "expert_count", NULL},
    {"used", "num_experts_per_tok|num_experts_per_token|top_k_experts", "expert_used_count", NULL},
    {"expert_inner", "moe_intermediate_size", "expert_feed_forward_length", "inner"},
    {"shared", "n_shared_experts", "expert_shared_count", NULL},
    {"shared_inner", "shared_expert_intermediate_size", "expert_shared_feed_forward_length",
     "expert_inner*shared"},
    {"q_rank", "q_lora_rank", "attention.q_lora_rank", NULL},
    {"kv_rank", "kv_lora_rank", "attention.kv_lora_rank", NULL},
    {"nope", "qk_nope_head_dim", NULL, NULL},
    {"rope", "qk_rope_head_dim", "rope.dimension_count", NULL},
    {"extra_layers", "num_nextn_predict_layers|num_mtp_layers", "nextn_predict_layers", NULL},
    {"encoder_layers", "encoder_layers", "block_count", NULL},
    {"encoder_inner", "encoder_ffn_dim", NULL, "inner"},
    {"encoder_positions", "max_source_positions", NULL, NULL},
    {"mels", "num_mel_bins", NULL, NULL},
    {"buckets", "relative_attention_num_buckets", NULL, NULL},
    {"projection", "projection_dim", NULL, NULL},
    {"vision_hidden", "vision_config.hidden_size", NULL, NULL},
    {"vision_inner", "vision_config.intermediate_size", NULL, NULL},
    {"vision_layers", "vision_config.num_hidden_layers", NULL, NULL},
    {"patch", "vision_config.patch_size|patch_size", NULL, NULL},
    {"image", "vision_config.image_size|image_size", NULL, NULL},
    {"channels", "vision_config.num_channels|num_channels", NULL, "3"},
};
enum { COMMON_COUNT = sizeof common_dimensions / sizeof common_dimensions[0] };
_Static_assert((int)COMMON_COUNT <= (int)MAX_DIMENSIONS, "every dimension has a place");

static size_t place_of_name(const char *name, size_t len) {
    size_t i = 0;
    while (i < COMMON_COUNT &&
           (strncmp(common_dimensions[i].name, name, len) != 0 || common_dimensions[i].name[len]))
        i++;
    return i;
}

uint64_t size_named(const model_sizes *sizes, const char *name) {
    size_t at = place_of_name(name, strlen(name));
    return at < COMMON_COUNT ? sizes->values[at] : 0;
}

/* Expressions: 0 stands for a value that is not known, and makes everything around it unknown. */

static uint64_t take_sum(const model_sizes *sizes, const char **at);

static void skip_blanks(const char **at) {
    while (**at == ' ')
        ++*at;
}

static uint64_t take_atom(const model_sizes *sizes, const char **at) {
    skip_blanks(at);
    if (**at == '(') {
        ++*at;
        uint64_t inside = take_sum(sizes, at);
        skip_blanks(at);
        *at += **at == ')';
        return inside;
    }
    if (isdigit((unsigned char)**at)) {
        char *end;
        uint64_t number = strtoull(*at, &end, 10);
        *at = end;
        return number;
    }
    const char *begin = *at;
    while (isalpha((unsigned char)**at) || **at == '_')
        ++*at;
    size_t place = place_of_name(begin, (size_t)(*at - begin));
    return *at > begin && place < COMMON_COUNT ? sizes->values[place] : 0;
}

static uint64_t take_product(const model_sizes *sizes, const char **at) {
    uint64_t left = take_atom(sizes, at);
    for (skip_blanks(at); **at == '*' || **at == '/'; skip_blanks(at)) {
        char sign = *(*at)++;
        uint64_t right = take_atom(sizes, at);
        if (!left || !right || (sign == '*' && left > UINT64_MAX / right))
            left = 0;
        else
            left = sign == '*' ? left * right : left / right;
    }
    return left;
}

static uint64_t take_sum(const model_sizes *sizes, const char **at) {
    uint64_t left = take_product(sizes, at);
    for (skip_blanks(at); **at == '+'; skip_blanks(at)) {
        ++*at;
        uint64_t right = take_product(sizes, at);
        left = left && right && left <= UINT64_MAX - right ? left + right : 0;
    }
    return left;
}

uint64_t size_of_expression(const model_sizes *sizes, const char *expression, const char **end) {
    const char *at = expression;
    uint64_t value = take_sum(sizes, &at);
    *end = at;
    return value;
}

/* Sources of dimensions. */

static bool read_config_keys(const config *c, const char *keys, uint64_t *out) {
    bool found = false;
    while (!found && keys && *keys) {
        size_t len = strcspn(keys, "|");
        char *key = need_copy(keys, len);
        found = config_uint(c, key, out);
        free(key);
        keys += len + (keys[len] == '|');
    }
    return found;
}

static const dimension *dimension_at(const architecture *a, size_t i) {
    for (const dimension *own = a ? a->own : NULL; own && own->name; own++)
        if (strcmp(own->name, common_dimensions[i].name) == 0)
            return own;
    return &common_dimensions[i];
}

static void fill_sizes(const architecture *a, const config *c, const tenmap_model *gguf,
                       model_sizes *out) {
    const char *end;
    *out = (model_sizes){0};
    for (size_t i = 0; i < COMMON_COUNT; i++) {
        const dimension *d = dimension_at(a, i);
        uint64_t value = 0;
        bool found = c ? read_config_keys(c, d->keys, &value)
                       : d->gguf && gguf_count(gguf_own_pair(gguf, d->gguf), 0, &value);
        if (!found && d->otherwise)
            value = size_of_expression(out, d->otherwise, &end);
        out->values[i] = value;
    }
}

void sizes_of_config(const architecture *a, const config *c, model_sizes *out) {
    fill_sizes(a, c, NULL, out);
}

/* GGUF counts the layers that predict further tokens among the others; config.json does not. */
void sizes_of_gguf(const architecture *a, const tenmap_model *model, model_sizes *out) {
    fill_sizes(a, NULL, model, out);
    uint64_t *layers = &out->values[place_of_name("layers", strlen("layers"))];
    uint64_t further = size_named(out, "extra_layers");
    *layers -= further < *layers ? further : 0;
}
