/* Maps tensor names of transformers to those of llama.cpp, and reads GGUF's head order. */
#include "model/name_map.h"

#include <string.h>

#include "model/gguf_metadata.h"
#include "model/module_numbers.h"

/* Prefixes before "layers" or one of the names outside the layers, longest first. */
static const char *const prefixes[] = {"model.language_model.", "language_model.model.",
                                       "language_model.", "model."};

typedef struct name_row {
    const char *from, *to;
} name_row;

static const name_row outside[] = {
    {"embed_tokens", "token_embd"}, {"norm", "output_norm"}, {"lm_head", "output"}};

static const name_row inside[] = {
    {"input_layernorm", "attn_norm"},
    {"self_attn.q_proj", "attn_q"},
    {"self_attn.k_proj", "attn_k"},
    {"self_attn.v_proj", "attn_v"},
    {"self_attn.qkv_proj", "attn_qkv"},
    {"self_attn.o_proj", "attn_output"},
    {"self_attn.q_norm", "attn_q_norm"},
    {"self_attn.k_norm", "attn_k_norm"},
    {"self_attn.sinks", "attn_sinks.weight"},
    {"post_attention_layernorm", "ffn_norm"},
    {"pre_feedforward_layernorm", "ffn_norm"},
    {"post_feedforward_layernorm", "post_ffw_norm"},
    {"mlp.gate_proj", "ffn_gate"},
    {"mlp.up_proj", "ffn_up"},
    {"mlp.gate_up_proj", "ffn_up"},
    {"mlp.down_proj", "ffn_down"},
    {"mlp.gate.e_score_correction_bias", "exp_probs_b.bias"},
    {"mlp.gate", "ffn_gate_inp"},
    {"mlp.router", "ffn_gate_inp"},
    {"block_sparse_moe.gate", "ffn_gate_inp"},
    {"mlp.shared_expert.gate_proj", "ffn_gate_shexp"},
    {"mlp.shared_expert.up_proj", "ffn_up_shexp"},
    {"mlp.shared_expert.down_proj", "ffn_down_shexp"},
    {"mlp.shared_experts.gate_proj", "ffn_gate_shexp"},
    {"mlp.shared_experts.up_proj", "ffn_up_shexp"},
    {"mlp.shared_experts.down_proj", "ffn_down_shexp"},
    {"mlp.shared_expert_gate", "ffn_gate_inp_shexp"},
};

static const char *const expert_parents[] = {"mlp.experts.", "block_sparse_moe.experts."};
static const name_row experts[] = {{"gate_proj", "ffn_gate_exps"}, {"up_proj", "ffn_up_exps"},
                                   {"down_proj", "ffn_down_exps"}, {"w1", "ffn_gate_exps"},
                                   {"w3", "ffn_up_exps"},          {"w2", "ffn_down_exps"}};

#define ROWS(table) (table), sizeof(table) / sizeof *(table)

static bool begins(const char *name, size_t len, const char *with) {
    size_t n = strlen(with);
    return len >= n && memcmp(name, with, n) == 0;
}

/* The row whose module is the whole name or is followed by a dot in it. */
static const name_row *find_row(const name_row *rows, size_t count, const char *name, size_t len) {
    for (size_t i = 0; i < count; i++) {
        size_t n = strlen(rows[i].from);
        if (begins(name, len, rows[i].from) && (len == n || name[n] == '.'))
            return &rows[i];
    }
    return NULL;
}

static void put_row(text *out, const name_row *row, const char *name, size_t len) {
    size_t n = strlen(row->from);
    text_addf(out, "%s", row->to);
    text_add(out, name + n, len - n);
}

/*
 * Gemma has a norm before and after each half of a layer. Elsewhere the norm after attention
 * belongs to the second half.
 */
static bool has_norm_before(const tenmap_model *model, const char *name, size_t layer_len) {
    text sibling = {0};
    text_add(&sibling, name, layer_len);
    text_addf(&sibling, "pre_feedforward_layernorm.weight");
    bool there = tenmap_find_n(model, sibling.bytes, sibling.len) != NULL;
    text_free(&sibling);
    return there;
}

/* Maps "mlp.experts.3.up_proj.weight". */
static bool map_expert(const char *rest, size_t len, mapped_name *out) {
    for (size_t i = 0; i < sizeof expert_parents / sizeof *expert_parents; i++) {
        size_t n = strlen(expert_parents[i]);
        number_span at;
        if (!begins(rest, len, expert_parents[i]) || !number_find(rest, len, n, &at) ||
            at.begin != n || at.end + 1 >= len)
            continue;
        const char *own = rest + at.end + 1;
        size_t left = len - at.end - 1;
        const name_row *row = find_row(ROWS(experts), own, left);
        if (!row)
            continue;
        out->expert = at.value;
        put_row(&out->name, row, own, left);
        return true;
    }
    return false;
}

/* Maps "layers.0.self_attn.q_proj.weight", which begins at byte `start` of the name. */
static bool map_inside(const tenmap_model *model, const char *name, size_t len, size_t start,
                       mapped_name *out) {
    const size_t behind = start + strlen("layers.");
    number_span at;
    if (!begins(name + start, len - start, "layers.") || !number_find(name, len, behind, &at) ||
        at.begin != behind || at.end + 1 >= len)
        return false;
    const char *rest = name + at.end + 1;
    size_t left = len - at.end - 1;
    text_addf(&out->name, "blk.%llu.", (unsigned long long)at.value);
    out->layer = at.value;
    if (map_expert(rest, left, out))
        return true;
    const name_row *row = find_row(ROWS(inside), rest, left);
    static const name_row behind_attention = {"post_attention_layernorm", "post_attention_norm"};
    if (row && strcmp(row->from, behind_attention.from) == 0 &&
        has_norm_before(model, name, at.end + 1))
        row = &behind_attention;
    if (!row)
        return false;
    out->query = strcmp(row->to, "attn_q") == 0;
    out->key = strcmp(row->to, "attn_k") == 0;
    put_row(&out->name, row, rest, left);
    return true;
}

void map_name(const tenmap_model *model, const char *name, size_t len, mapped_name *out) {
    size_t start = 0;
    text_clear(&out->name);
    out->layer = 0;
    out->expert = NO_EXPERT;
    out->query = out->key = false;
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes && !start; i++)
        start = begins(name, len, prefixes[i]) ? strlen(prefixes[i]) : 0;
    if (map_inside(model, name, len, start, out))
        return;
    text_clear(&out->name);
    const name_row *row = find_row(ROWS(outside), name + start, len - start);
    if (row)
        put_row(&out->name, row, name + start, len - start);
    else
        text_add(&out->name, name, len);
}

/* general.architecture of models whose query and key projections the converter permutes. */
static const char *const permuted_architectures[] = {
    "llama", "mistral3", "deci",       "baichuan",      "xverse",  "minicpm",
    "olmo",  "granite",  "granitemoe", "granitehybrid", "smollm3", "arcee"};

head_order find_head_order(const tenmap_model *gguf) {
    const char *architecture = tenmap_metadata_get(gguf, "general.architecture");
    for (size_t i = 0;
         architecture && i < sizeof permuted_architectures / sizeof *permuted_architectures; i++)
        if (strcmp(architecture, permuted_architectures[i]) == 0)
            return (head_order){gguf_own_pair(gguf, "attention.head_count"),
                                gguf_own_pair(gguf, "attention.head_count_kv")};
    return (head_order){NULL, NULL};
}

uint64_t permuted_head_rows(const head_order *order, const mapped_name *of,
                            const tenmap_tensor *t) {
    uint64_t heads = 0;
    bool as_queries = of->query || !order->key_heads;
    if (!order->heads || (!of->query && !of->key) || t->rank == 0 || t->dtype == TENMAP_C64 ||
        !gguf_count(as_queries ? order->heads : order->key_heads, of->layer, &heads) ||
        heads == 0 || t->shape[0] % heads != 0)
        return 0;
    uint64_t rows = t->shape[0] / heads;
    return rows % 2 == 0 ? rows : 0;
}
