/*
 * Identifies a model's architecture, adapter and tied embeddings from names, config.json and
 * metadata.
 */
#include "model/identify_model.h"

#include <stdlib.h>
#include <string.h>

#include "model/gguf_metadata.h"
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
    const char *named = out->kind.len || is_adapter ? NULL : kind_by_names(model);
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
