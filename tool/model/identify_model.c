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

enum { MOST_TARGETS = 24 };

typedef struct target_words {
    const char *at[MOST_TARGETS];
    size_t len[MOST_TARGETS];
    size_t count, more;
} target_words;

/*
 * The adapted module: the text after the last dot and, within that, after the last number that is
 * followed by more text.
 */
static void add_target(target_words *words, const char *name, size_t stem) {
    size_t begin = 0;
    number_span at = {0};
    for (size_t i = 0; i < stem; i++)
        begin = name[i] == '.' ? i + 1 : begin;
    for (at.end = begin; number_find(name, stem, at.end, &at);)
        if (at.end + 1 < stem)
            begin = at.end + 1;
    for (size_t i = 0; i < words->count; i++)
        if (words->len[i] == stem - begin && memcmp(words->at[i], name + begin, stem - begin) == 0)
            return;
    if (words->count == MOST_TARGETS) {
        words->more++;
        return;
    }
    words->at[words->count] = name + begin;
    words->len[words->count++] = stem - begin;
}

typedef struct lora {
    size_t pairs;
    uint64_t least, most; /* smallest and largest rank */
    double alpha;         /* never NaN; negative if unknown */
    target_words targets;
} lora;

static void find_alpha(const tenmap_model *model, const tenmap_tensor *down, size_t stem,
                       lora *found) {
    text name = {0};
    float value;
    text_add(&name, down->name, stem);
    text_addf(&name, ".alpha");
    const tenmap_tensor *alpha = tenmap_find_n(model, name.bytes, name.len);
    if (alpha && alpha->nelems == 1 &&
        tenmap_read(alpha, 0, 1, TENMAP_F32, &value, sizeof value, 0, NULL) == TENMAP_OK)
        found->alpha = (double)value;
    text_free(&name);
}

static bool find_lora(const tenmap_model *model, lora *found) {
    *found = (lora){.least = UINT64_MAX, .alpha = -1};
    for (size_t i = 0; i < tenmap_count(model); i++) {
        const tenmap_tensor *t = tenmap_at(model, i);
        size_t stem = down_stem(t);
        if (!stem || t->rank < 2)
            continue;
        /* MLX stores the factors transposed: the rank comes last. */
        uint64_t rank = t->shape[t->name[t->name_len - 1] == 'a' ? 1 : 0];
        found->pairs++;
        found->least = rank < found->least ? rank : found->least;
        found->most = rank > found->most ? rank : found->most;
        if (found->alpha < 0)
            find_alpha(model, t, stem, found);
        add_target(&found->targets, t->name, stem);
    }
    return found->pairs > 0;
}

static void describe_lora(const tenmap_model *model, const char *folder, identity *out) {
    enum { MOST_SHOWN = 8 };
    lora found;
    config adapter = {0};
    if (!find_lora(model, &found))
        return;
    bool has_config = config_read(folder, "adapter_config.json", &adapter);
    const char *said = has_config ? config_text(&adapter, "lora_alpha") : NULL;
    text_addf(&out->adapter, "LoRA, rank %" PRIu64, found.least);
    if (found.most != found.least)
        text_addf(&out->adapter, " to %" PRIu64, found.most);
    const char *meta = tenmap_metadata_get(model, "ss_network_alpha");
    if (found.alpha >= 0)
        text_addf(&out->adapter, ", alpha %g", found.alpha);
    else if (said || meta) {
        text_addf(&out->adapter, ", alpha ");
        text_add_safe(&out->adapter, said ? said : meta, strlen(said ? said : meta));
    }
    text_addf(&out->adapter, ", %zu module%s: ", found.pairs, found.pairs == 1 ? "" : "s");
    for (size_t i = 0; i < found.targets.count && i < MOST_SHOWN; i++) {
        text_addf(&out->adapter, i ? ", " : "");
        text_add_safe(&out->adapter, found.targets.at[i], found.targets.len[i]);
    }
    if (found.targets.count > MOST_SHOWN || found.targets.more)
        text_addf(&out->adapter, " and more");
    config_free(&adapter);
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
static void describe_tied(const tenmap_model *model, const config *c, identity *out) {
    const char *tie = config_text(c, "tie_word_embeddings");
    const tenmap_tensor *head = tenmap_find(model, "lm_head.weight");
    if (tie && strcmp(tie, "true") == 0 && !head)
        text_addf(&out->tied, "lm_head.weight is not stored: it is the embedding");
    else if (same_bytes(head, tenmap_find(model, "model.embed_tokens.weight")) ||
             same_bytes(head, tenmap_find(model, "transformer.wte.weight")))
        text_addf(&out->tied, "lm_head.weight holds the bytes of the embedding a second time");
    else if (tie && strcmp(tie, "true") == 0)
        text_addf(&out->tied,
                  "lm_head.weight is stored though config.json ties it to the embedding");
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

void identify(const tenmap_model *model, identity *out) {
    config c = {0};
    char *folder = model_folder(model);
    const char *own = is_gguf(model) ? tenmap_metadata_get(model, "general.architecture") : NULL;
    *out = (identity){0};
    describe_lora(model, folder, out);
    if (own) {
        text_add_safe(&out->kind, own, strlen(own));
        out->told = "says its metadata";
        out->by_itself = true;
    } else if (!out->adapter.len && config_read(folder, "config.json", &c)) {
        add_config_kind(&out->kind, &c);
        out->told = "says config.json";
    }
    out->by_itself = out->by_itself || out->adapter.len > 0;
    if (!out->adapter.len)
        describe_tied(model, &c, out);
    const char *named = out->kind.len ? NULL : kind_by_names(model);
    if (named) {
        text_addf(&out->kind, "%s", named);
        out->told = "by its names";
    }
    config_free(&c);
    free(folder);
}

void identity_free(identity *id) {
    text_free(&id->kind);
    text_free(&id->adapter);
    text_free(&id->tied);
}

void text_add_identity(text *t, const identity *id) {
    if (id->adapter.len) {
        size_t comma = strcspn(id->adapter.bytes, ",");
        const char *rank = id->adapter.bytes + comma + (id->adapter.bytes[comma] != '\0');
        text_add(t, id->adapter.bytes, comma);
        text_add(t, rank, strcspn(rank, ","));
    } else {
        text_addf(t, "%s", id->kind.len ? id->kind.bytes : "?");
    }
}
