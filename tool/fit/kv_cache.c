/* Computes the size of the KV cache from the heads and layers of a model. */
#include "fit/kv_cache.h"

#include <inttypes.h>
#include <string.h>

#include "fit/saturate.h"
#include "model/gguf_metadata.h"

enum { MOST_LAYERS = 100000 };

/* Whether config.json lists the kind of each layer; then it counts them. */
static bool count_layer_types(const config *c, kv_cache *kv) {
    uint64_t full = config_count(c, "layer_types", "full_attention");
    uint64_t windowed = config_count(c, "layer_types", "sliding_attention") +
                        config_count(c, "layer_types", "chunked_attention");
    if (!full && !windowed)
        return false;
    kv->layers = full;
    kv->window_layers = windowed;
    return true;
}

/* Whether layer i keeps only the window. */
static bool is_windowed(const architecture *a, const model_sizes *sizes, const config *c,
                        uint64_t i) {
    uint64_t every = size_named(sizes, "full_every");
    const char *use = c ? config_text(c, "use_sliding_window") : NULL;
    switch (a ? a->windows : WINDOW_NONE) {
    case WINDOW_ALL:
        return !use || strcmp(use, "true") == 0;
    case WINDOW_MOST:
        return every && (i + 1) % every != 0;
    case WINDOW_ON_DEMAND:
        return use && strcmp(use, "true") == 0 && i >= size_named(sizes, "full_first");
    default:
        return false;
    }
}

/* Values of one token in one layer. */
static uint64_t values_of_layer(const kv_cache *kv, uint64_t kv_heads) {
    return kv->kind == CACHE_LATENT
               ? saturated_sum(kv->head, kv->value_head)
               : saturated_product(kv_heads, saturated_sum(kv->head, kv->value_head));
}

/* The list of layers that keep only the window, if a GGUF file has one. Instead of a list, there
 * may be a number, which is the dimension full_every. */
static const tenmap_metadata *list_of_windows(const tenmap_model *gguf) {
    const tenmap_metadata *pair =
        gguf ? gguf_own_pair(gguf, "attention.sliding_window_pattern") : NULL;
    return pair && pair->type == TENMAP_VALUE_ARRAY ? pair : NULL;
}

/* GGUF may have another number of heads in each layer; 0 for those without attention. */
static void count_layers(const architecture *a, const model_sizes *sizes, const config *c,
                         const tenmap_model *gguf, kv_cache *kv) {
    uint64_t layers = size_named(sizes, "layers");
    const tenmap_metadata *heads = gguf ? gguf_own_pair(gguf, "attention.head_count_kv") : NULL;
    const tenmap_metadata *windows = list_of_windows(gguf);
    for (uint64_t i = 0; i < layers; i++) {
        uint64_t own = kv->kv_heads, listed = 0;
        (void)(heads && gguf_count(heads, i, &own));
        kv->varies = kv->varies || (own && own != kv->kv_heads);
        bool windowed =
            kv->window &&
            (gguf_count(windows, i, &listed) ? listed != 0 : is_windowed(a, sizes, c, i));
        uint64_t *sum = windowed ? &kv->window_values : &kv->values;
        *(windowed ? &kv->window_layers : &kv->layers) += own != 0;
        *sum = saturated_sum(*sum, values_of_layer(kv, own));
    }
}

void kv_cache_find(const architecture *a, const model_sizes *sizes, const config *c,
                   const tenmap_model *gguf, kv_cache *out) {
    uint64_t layers = size_named(sizes, "layers"), rank = size_named(sizes, "kv_rank");
    *out = (kv_cache){.by_table = a != NULL,
                      .kind = a      ? a->cache
                              : rank ? CACHE_LATENT
                                     : CACHE_KEY_VALUE,
                      .window = size_named(sizes, "window"),
                      .kv_heads = size_named(sizes, "kv"),
                      .head = size_named(sizes, "head"),
                      .value_head = size_named(sizes, "value")};
    if (out->kind == CACHE_LATENT) {
        out->head = rank;
        out->value_head = size_named(sizes, "rope");
        out->kv_heads = 1;
    }
    out->known = out->kind == CACHE_NONE ||
                 (layers && layers <= MOST_LAYERS && out->kv_heads && out->head && out->value_head);
    if (!out->known || out->kind == CACHE_NONE)
        return;
    if (c && count_layer_types(c, out)) {
        out->values = saturated_product(out->layers, values_of_layer(out, out->kv_heads));
        out->window_values =
            saturated_product(out->window_layers, values_of_layer(out, out->kv_heads));
    } else {
        count_layers(a, sizes, c, gguf, out);
    }
    if (out->kind == CACHE_CROSS) {
        out->cross_values = out->values;
        out->cross_tokens = size_named(sizes, "encoder_positions");
    }
}

uint64_t kv_cache_values(const kv_cache *kv, uint64_t tokens) {
    uint64_t windowed = kv->window && kv->window < tokens ? kv->window : tokens;
    uint64_t crossed = kv->cross_tokens ? kv->cross_tokens : tokens;
    return saturated_sum(saturated_sum(saturated_product(kv->values, tokens),
                                       saturated_product(kv->window_values, windowed)),
                         saturated_product(kv->cross_values, crossed));
}

uint64_t kv_cache_bytes(const kv_cache *kv, uint64_t tokens, tenmap_dtype dtype) {
    uint64_t values = kv_cache_values(kv, tokens);
    uint32_t elements, bytes;
    if (values == UINT64_MAX || !tenmap_dtype_block(dtype, &elements, &bytes))
        return UINT64_MAX;
    return saturated_product(values / elements + (values % elements != 0), bytes);
}

void text_add_kv_cache(text *t, const kv_cache *kv) {
    uint64_t layers = kv->layers + kv->window_layers;
    if (!kv->known || kv->kind == CACHE_NONE)
        return;
    text_addf(t, "%" PRIu64 " layer%s", layers, layers == 1 ? "" : "s");
    if (kv->kind == CACHE_LATENT)
        text_addf(t, " of %" PRIu64 "+%" PRIu64 " values", kv->head, kv->value_head);
    else if (!kv->varies)
        text_addf(t, " of %" PRIu64 " KV head%s of %" PRIu64, kv->kv_heads,
                  kv->kv_heads == 1 ? "" : "s", kv->head);
    if (kv->window_layers) {
        if (kv->layers)
            text_addf(t, "; %" PRIu64 " of them keep only ", kv->window_layers);
        else
            text_addf(t, "; they keep only ");
        text_add_grouped(t, kv->window);
        text_addf(t, " tokens");
    }
    if (kv->cross_values && kv->cross_tokens) {
        text_addf(t, "; and ");
        text_add_grouped(t, kv->cross_tokens);
        text_addf(t, " tokens of the encoder");
    } else if (kv->cross_values) {
        text_addf(t, "; and as many tokens of the encoder");
    }
}
