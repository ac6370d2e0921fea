/*
 * Identifies a model's architecture, adapter and tied embeddings from names, config.json and
 * metadata.
 */
#include "model/identify_model.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "model/gguf_metadata.h"
#include "model/module_numbers.h"
#include "tensor_patterns.h"
#include "view/json_out.h"

char *model_folder(const tenmap_model *model) {
    const char *folder = tenmap_folder(model);
    return need_copy(*folder ? folder : ".", *folder ? strlen(folder) : 1);
}

/* Architectures by tensor names: the first row counts whose patterns all match some tensor. */
static const struct naming {
    const char *what;
    const char *patterns[2];
} namings[] = {
    {"Flux transformer", {"*double_blocks.0.*", "*single_blocks.0.*"}},
    {"Stable Diffusion checkpoint", {"model.diffusion_model.input_blocks.*", NULL}},
    {"diffusers VAE", {"encoder.down_blocks.*", "decoder.up_blocks.*"}},
    {"diffusers UNet", {"down_blocks.0.*", "up_blocks.*"}},
    {"diffusers transformer", {"transformer_blocks.0.*", NULL}},
    {"CLIP", {"text_model.encoder.layers.0.*", "vision_model.*"}},
    {"CLIP text encoder", {"text_model.encoder.layers.0.*", NULL}},
    {"Whisper", {"model.encoder.conv1.weight", "model.decoder.layers.0.encoder_attn.*"}},
    {"T5", {"encoder.block.0.layer.0.SelfAttention.*", NULL}},
    {"BART-like", {"*encoder.layers.0.self_attn.*", "*decoder.layers.0.encoder_attn.*"}},
    {"Segment Anything", {"image_encoder.blocks.0.*", "mask_decoder.*"}},
    {"Mixtral-like decoder", {"model.layers.*.block_sparse_moe.experts.*", NULL}},
    {"Mixture-of-experts decoder", {"model.layers.*.mlp.experts.*", NULL}},
    {"Llama-like decoder", {"*layers.0.self_attn.q_proj.weight", "*layers.0.mlp.gate_proj.weight"}},
    {"Phi-like decoder", {"model.layers.0.self_attn.qkv_proj.weight", NULL}},
    {"GPT-NeoX", {"gpt_neox.layers.0.*", NULL}},
    {"GPT-2", {"*h.0.attn.c_attn.weight", NULL}},
    {"BLOOM- or Falcon-like", {"*h.0.self_attention.query_key_value.weight", NULL}},
    {"Mamba", {"*layers.0.mixer.A_log", NULL}},
    {"BERT-like encoder", {"*encoder.layer.0.attention.self.query.weight", NULL}},
    {"DistilBERT", {"*transformer.layer.0.attention.q_lin.weight", NULL}},
    {"ViT", {"*blocks.0.attn.qkv.weight", "*patch_embed*"}},
    {"ResNet", {"*layer1.0.conv1.weight", "*layer4.*"}},
};

static bool some_matches(const tenmap_model *model, const char *pattern) {
    for (size_t i = 0; i < tenmap_count(model); i++) {
        const tenmap_tensor *t = tenmap_at(model, i);
        if (glob_match(pattern, t->name, t->name_len))
            return true;
    }
    return false;
}

const char *kind_by_names(const tenmap_model *model) {
    for (size_t i = 0; i < sizeof namings / sizeof namings[0]; i++)
        if (some_matches(model, namings[i].patterns[0]) &&
            (!namings[i].patterns[1] || some_matches(model, namings[i].patterns[1])))
            return namings[i].what;
    return NULL;
}

/* LoRA: pairs of small matrices, one down to the rank and one up again. */

static const char *const down_ends[] = {".lora_A.weight",    ".lora_down.weight",
                                        ".lora.down.weight", ".lora_A.default.weight",
                                        ".lora_A",           ".lora_a"};

static size_t down_stem(const tenmap_tensor *t) {
    for (size_t i = 0; i < sizeof down_ends / sizeof down_ends[0]; i++) {
        size_t n = strlen(down_ends[i]);
        if (t->name_len > n && memcmp(t->name + t->name_len - n, down_ends[i], n) == 0)
            return t->name_len - n;
    }
    return 0;
}

/*
 * The adapted module: the text after the last dot and, within that, after the last number that is
 * followed by more text.
 */
static void add_target(adapter *a, const char *name, size_t stem) {
    size_t begin = 0;
    number_span at = {0};
    for (size_t i = 0; i < stem; i++)
        begin = name[i] == '.' ? i + 1 : begin;
    for (at.end = begin; number_find(name, stem, at.end, &at);)
        if (at.end + 1 < stem)
            begin = at.end + 1;
    for (size_t i = 0; i < a->target_count; i++)
        if (a->targets[i].len == stem - begin &&
            memcmp(a->targets[i].bytes, name + begin, stem - begin) == 0)
            return;
    if (a->target_count == MAX_ADAPTER_TARGETS)
        a->targets_complete = false;
    else
        text_add(&a->targets[a->target_count++], name + begin, stem - begin);
}

static void find_alpha(const tenmap_model *model, const tenmap_tensor *down, size_t stem,
                       adapter *a) {
    text name = {0};
    float value;
    text_add(&name, down->name, stem);
    text_addf(&name, ".alpha");
    const tenmap_tensor *alpha = tenmap_find_n(model, name.bytes, name.len);
    if (alpha && alpha->nelems == 1 &&
        tenmap_read(alpha, 0, 1, TENMAP_F32, &value, sizeof value, 0, NULL) == TENMAP_OK &&
        value >= 0)
        text_addf(&a->alpha, "%g", (double)value);
    text_free(&name);
}

static void find_adapter(const tenmap_model *model, const char *folder, adapter *a) {
    config c = {0};
    *a = (adapter){.min_rank = UINT64_MAX, .targets_complete = true};
    for (size_t i = 0; i < tenmap_count(model); i++) {
        const tenmap_tensor *t = tenmap_at(model, i);
        size_t stem = down_stem(t);
        if (!stem || t->rank < 2)
            continue;
        /* MLX stores the factors transposed: the rank comes last. */
        uint64_t rank = t->shape[t->name[t->name_len - 1] == 'a' ? 1 : 0];
        a->modules++;
        a->min_rank = rank < a->min_rank ? rank : a->min_rank;
        a->max_rank = rank > a->max_rank ? rank : a->max_rank;
        if (!a->alpha.len)
            find_alpha(model, t, stem, a);
        add_target(a, t->name, stem);
    }
    if (!a->modules || a->alpha.len)
        return;
    const char *alpha =
        config_read(folder, "adapter_config.json", &c) ? config_text(&c, "lora_alpha") : NULL;
    alpha = alpha ? alpha : tenmap_metadata_get(model, "ss_network_alpha");
    if (alpha)
        text_add_safe(&a->alpha, alpha, strlen(alpha));
    config_free(&c);
}

static void add_rank(text *t, const adapter *a) {
    text_addf(t, " rank %" PRIu64, a->min_rank);
    if (a->max_rank != a->min_rank)
        text_addf(t, " to %" PRIu64, a->max_rank);
}

void text_add_adapter_rank(text *t, const adapter *a) {
    text_addf(t, "LoRA");
    add_rank(t, a);
}

void text_add_adapter(text *t, const adapter *a) {
    enum { MOST_SHOWN = 8 };
    if (!a->modules)
        return;
    text_addf(t, "LoRA,");
    add_rank(t, a);
    if (a->alpha.len)
        text_addf(t, ", alpha %s", a->alpha.bytes);
    text_addf(t, ", %zu module%s: ", a->modules, a->modules == 1 ? "" : "s");
    for (size_t i = 0; i < a->target_count && i < MOST_SHOWN; i++) {
        text_addf(t, i ? ", " : "");
        text_add_safe(t, a->targets[i].bytes, a->targets[i].len);
    }
    if (a->target_count > MOST_SHOWN || !a->targets_complete)
        text_addf(t, " and more");
}

void adapter_json(const adapter *a) {
    char *end = NULL;
    if (!a->modules)
        return;
    json_key("adapter");
    json_open('{', true);
    json_key_text("type", "lora", TENMAP_CSTR);
    json_key_uint("rank", a->max_rank);
    json_key_uint("min_rank", a->min_rank);
    double alpha = a->alpha.len ? strtod(a->alpha.bytes, &end) : 0;
    if (a->alpha.len && end != a->alpha.bytes && *end == '\0')
        json_key_real("alpha", alpha);
    json_key_uint("modules", a->modules);
    json_key("targets");
    json_open('[', true);
    for (size_t i = 0; i < a->target_count; i++)
        json_text(a->targets[i].bytes, a->targets[i].len);
    json_close();
    json_key_bool("targets_complete", a->targets_complete);
    json_close();
}

adapter adapter_copy(const adapter *a) {
    adapter copy = *a;
    copy.alpha = (text){0};
    if (a->alpha.len)
        text_add(&copy.alpha, a->alpha.bytes, a->alpha.len);
    for (size_t i = 0; i < a->target_count; i++) {
        copy.targets[i] = (text){0};
        text_add(&copy.targets[i], a->targets[i].bytes, a->targets[i].len);
    }
    return copy;
}

void adapter_free(adapter *a) {
    text_free(&a->alpha);
    for (size_t i = 0; i < a->target_count; i++)
        text_free(&a->targets[i]);
    *a = (adapter){0};
}

/*
 * Compares until the bytes differ, which is almost at once if they do. Reads no more than this
 * limit.
 */
static bool same_bytes(const tenmap_tensor *a, const tenmap_tensor *b) {
    const uint64_t most = 1000000000;
    return a && b && a->data && b->data && a->nbytes == b->nbytes && a->nbytes <= most &&
           a->dtype == b->dtype && memcmp(a->data, b->data, (size_t)a->nbytes) == 0;
}

/* Tied embeddings: declared by config.json, or detected because the same bytes are stored twice. */
static void find_tied_embeddings(const tenmap_model *model, const config *c, tied_embeddings *out) {
    const char *tie = config_text(c, "tie_word_embeddings");
    const tenmap_tensor *head = tenmap_find(model, "lm_head.weight");
    out->declared = tie && strcmp(tie, "true") == 0;
    out->head_stored = head != NULL;
    out->same_bytes = same_bytes(head, tenmap_find(model, "model.embed_tokens.weight")) ||
                      same_bytes(head, tenmap_find(model, "transformer.wte.weight"));
}

static bool is_tied(const tied_embeddings *tied) {
    return tied->declared || tied->same_bytes;
}

void text_add_tied(text *t, const tied_embeddings *tied) {
    if (tied->same_bytes)
        text_addf(t, "lm_head.weight holds the bytes of the embedding a second time");
    else if (tied->declared && !tied->head_stored)
        text_addf(t, "lm_head.weight is not stored: it is the embedding");
    else if (tied->declared)
        text_addf(t, "lm_head.weight is stored though config.json ties it to the embedding");
}

void identity_json(const identity *id) {
    if (id->kind.len) {
        json_key_text("architecture", id->kind.bytes, id->kind.len);
        json_key_text("architecture_source", id->source, TENMAP_CSTR);
    }
    adapter_json(&id->adapter);
    if (is_tied(&id->tied)) {
        json_key("tied");
        json_open('{', true);
        json_key_bool("declared", id->tied.declared);
        json_key_bool("head_stored", id->tied.head_stored);
        json_key_bool("same_bytes", id->tied.same_bytes);
        json_close();
    }
}

static void add_config_kind(text *out, const config *c) {
    const char *name = config_text(c, "architectures.0");
    name = name ? name : config_text(c, "_class_name");
    name = name ? name : config_text(c, "model_type");
    if (name)
        text_add_safe(out, name, strlen(name));
}

void kind_by_config(const char *folder, text *out) {
    config c;
    if (config_read(folder, "config.json", &c))
        add_config_kind(out, &c);
    config_free(&c);
}

void identify(const tenmap_model *model, bool find_tied, identity *out) {
    config c = {0};
    char *folder = model_folder(model);
    const char *own = is_gguf(model) ? tenmap_metadata_get(model, "general.architecture") : NULL;
    *out = (identity){0};
    find_adapter(model, folder, &out->adapter);
    bool is_adapter = out->adapter.modules > 0;
    if (own) {
        text_add_safe(&out->kind, own, strlen(own));
        out->source = "metadata";
    } else if (!is_adapter && config_read(folder, "config.json", &c)) {
        add_config_kind(&out->kind, &c);
        out->source = "config";
    }
    out->by_itself = own || is_adapter;
    if (!is_adapter && find_tied)
        find_tied_embeddings(model, &c, &out->tied);
    const char *named = out->kind.len ? NULL : kind_by_names(model);
    if (named) {
        text_addf(&out->kind, "%s", named);
        out->source = "names";
    }
    config_free(&c);
    free(folder);
}

void identity_free(identity *id) {
    text_free(&id->kind);
    adapter_free(&id->adapter);
}
