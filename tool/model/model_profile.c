/* Reads what people ask first about a model, and prints it on one line. */
#include "model/model_profile.h"

#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "model/gguf_metadata.h"
#include "view/json_out.h"

void count_quantized(summary *s, schemes *known) {
    *known = (schemes){0};
    if (!s->quantized)
        return;
    schemes_find(s->model, known);
    if (!known->weights)
        return;
    s->quantized = known->weights;
    s->params = known->params;
    s->params_least = false;
}

static void read_gguf(const tenmap_model *model, model_profile *p) {
    gguf_facts facts;
    p->architecture = architecture_of_gguf(model);
    sizes_of_gguf(p->architecture, model, &p->sizes);
    kv_cache_find(p->architecture, &p->sizes, NULL, model, &p->cache);
    if (gguf_describe(model, &facts)) {
        p->vocabulary = facts.tokens;
        if (facts.file_type_name)
            text_addf(&p->stored_as, "%s", facts.file_type_name);
        gguf_facts_free(&facts);
    }
    const char *base = tenmap_metadata_get(model, "general.base_model.0.name");
    const char *owner = tenmap_metadata_get(model, "general.base_model.0.organization");
    if (base && owner) {
        text_add_safe(&p->base_model, owner, strlen(owner));
        text_addf(&p->base_model, "/");
    }
    if (base)
        text_add_safe(&p->base_model, base, strlen(base));
}

static void read_config(const char *folder, model_profile *p) {
    config c;
    if (!config_read(folder, "config.json", &c))
        return;
    p->architecture = architecture_of_config(&c);
    sizes_of_config(p->architecture, &c, &p->sizes);
    kv_cache_find(p->architecture, &p->sizes, &c, NULL, &p->cache);
    p->vocabulary = size_named(&p->sizes, "vocab");
    config_free(&c);
}

/* Tokenizers without a limit have a number with thirty digits here, which is not read. */
static uint64_t tokenizer_limit(const char *folder) {
    config c;
    uint64_t limit = 0;
    if (config_read(folder, "tokenizer_config.json", &c))
        (void)config_uint(&c, "model_max_length", &limit);
    config_free(&c);
    return limit;
}

/* Layers after the last predict further tokens; nothing else uses them. */
static bool is_further(const model_profile *p, const model_weight *w) {
    return size_named(&p->sizes, "extra_layers") && w->layer != NO_LAYER &&
           w->layer >= size_named(&p->sizes, "layers");
}

static void count_active(model_profile *p) {
    uint64_t experts = size_named(&p->sizes, "experts"), used = size_named(&p->sizes, "used");
    uint64_t of_experts = 0, further = 0;
    for (size_t i = 0; i < p->weights.count; i++) {
        const model_weight *w = &p->weights.items[i];
        uint64_t *sum = is_further(p, w) ? &further : &of_experts;
        *sum += sum == &further || is_expert(w) ? w->values : 0;
    }
    if (experts && used && used <= experts && of_experts && of_experts + further <= p->params)
        p->active_params = p->params - further - of_experts + of_experts / experts * used;
}

static void describe_storage(const summary *s, const schemes *known, model_profile *p) {
    if (p->stored_as.len)
        return;
    if (known->weights)
        text_addf(&p->stored_as, "%s", known->items[0].name);
    else if (s->quantized && s->scheme)
        text_addf(&p->stored_as, "%s", s->scheme);
    else if (s->dtype_count)
        text_add_safe(&p->stored_as, s->dtypes[0].name, strlen(s->dtypes[0].name));
}

void profile_read(const summary *s, const schemes *known, bool find_tied, model_profile *out) {
    char *folder = model_folder(s->model);
    *out = (model_profile){.params = s->params, .params_least = s->params_least};
    identify(s->model, find_tied, &out->id);
    if (is_gguf(s->model))
        read_gguf(s->model, out);
    else if (!out->id.adapter.modules)
        read_config(folder, out);
    const text *base = &out->id.adapter.base_model;
    if (base->len && !out->base_model.len)
        text_add(&out->base_model, base->bytes, base->len);
    out->context_length = size_named(&out->sizes, "positions");
    if (!out->context_length && !is_gguf(s->model) && out->architecture)
        out->context_length = tokenizer_limit(folder);
    weights_list(s->model, out->architecture, &out->weights);
    count_active(out);
    describe_storage(s, known, out);
    free(folder);
}

void profile_free(model_profile *p) {
    identity_free(&p->id);
    weights_free(&p->weights);
    text_free(&p->stored_as);
    text_free(&p->base_model);
}

static void add_fact(text *t, const char *name, uint64_t number) {
    if (!number)
        return;
    text_addf(t, ", %s ", name);
    text_add_grouped(t, number);
}

void text_add_profile(text *t, const model_profile *p) {
    if (p->id.adapter.modules)
        text_add_adapter_rank(t, &p->id.adapter);
    else if (p->id.kind.len)
        text_addf(t, "%s", p->id.kind.bytes);
    else
        return;
    text_addf(t, ", %s", p->params_least ? "at least " : "");
    text_add_count(t, p->params);
    text_addf(t, " parameters");
    if (p->active_params) {
        text_addf(t, " (");
        text_add_count(t, p->active_params);
        text_addf(t, " active)");
    }
    add_fact(t, "context", p->context_length);
    add_fact(t, "vocabulary", p->vocabulary);
    if (p->stored_as.len)
        text_addf(t, ", %s", p->stored_as.bytes);
    if (p->base_model.len)
        text_addf(t, ", base %s", p->base_model.bytes);
}

static void json_if_known(const char *key, uint64_t number) {
    if (number)
        json_key_uint(key, number);
}

void profile_json(const model_profile *p, bool with_context) {
    json_if_known("active_params", p->active_params);
    if (with_context)
        json_if_known("context_length", p->context_length);
    json_if_known("vocabulary", p->vocabulary);
    if (p->stored_as.len)
        json_key_text("stored_as", p->stored_as.bytes, p->stored_as.len);
    if (p->base_model.len)
        json_key_text("base_model", p->base_model.bytes, p->base_model.len);
}
