/*
 * Takes all weights by one call of tenmap_take: matrices as they are stored, in place in the files,
 * and vectors as F32. Other weights are converted first: 8-bit floats to BF16, quantized weights to
 * the dtype that the model computes in.
 */
#include "llama.h"

#include <stdlib.h>

enum { OUTSIDE = 3, OF_LAYER_AT_MOST = 18 }; /* weights */

/* The memory that a want points to, and where its result goes. */
struct wish {
    char name[96];
    uint64_t shape[2];
    const void **to;
};

typedef struct asker {
    llama_model *model;
    size_t n;        /* of wants so far */
    char prefix[32]; /* of names */
} asker;

/* A vector has 0 columns. */
static tenmap_want *ask(asker *a, const void **to, const char *name, const char *kind, size_t rows,
                        size_t columns) {
    struct wish *w = &a->model->wishes[a->n];
    tenmap_want *want = &a->model->wants[a->n++];
    *w = (struct wish){.shape = {rows, columns}, .to = to};
    snprintf(w->name, sizeof w->name, "%s%s.%s", a->prefix, name, kind);
    *want = (tenmap_want){
        .name = w->name, .as = TENMAP_F32, .rank = columns ? 2 : 1, .shape = w->shape};
    return want;
}

static void ask_matrix(asker *a, llama_matrix *to, const char *name, size_t rows, size_t columns,
                       int bias) {
    tenmap_want *want = ask(a, &to->data, name, "weight", rows, columns);
    const tenmap_tensor *t = tenmap_find(a->model->file, want->name);
    if (t && (t->dtype == TENMAP_BF16 || t->dtype == TENMAP_F16))
        want->as = t->dtype;
    else if (t && tenmap_dtype_bits(t->dtype) == 8)
        want->as = TENMAP_BF16; /* BF16 can represent all 8-bit floats */
    *to = (llama_matrix){.dtype = want->as, .rows = rows, .columns = columns};
    if (bias)
        ask(a, &to->bias, name, "bias", rows, 0);
}

static void ask_layer(asker *a, llama_layer *to) {
    const llama_config *c = &a->model->config;
    size_t q = c->heads * c->head_size, kv = c->kv_heads * c->head_size;
    ask_matrix(a, &to->q, "self_attn.q_proj", q, c->width, c->qkv_bias);
    ask_matrix(a, &to->k, "self_attn.k_proj", kv, c->width, c->qkv_bias);
    ask_matrix(a, &to->v, "self_attn.v_proj", kv, c->width, c->qkv_bias);
    ask_matrix(a, &to->o, "self_attn.o_proj", c->width, q, c->o_bias);
    ask_matrix(a, &to->gate, "mlp.gate_proj", c->inner, c->width, c->mlp_bias);
    ask_matrix(a, &to->up, "mlp.up_proj", c->inner, c->width, c->mlp_bias);
    ask_matrix(a, &to->down, "mlp.down_proj", c->width, c->inner, c->mlp_bias);
    ask(a, &to->input_norm, "input_layernorm", "weight", c->width, 0);
    ask(a, &to->inner_norm, "post_attention_layernorm", "weight", c->width, 0);
    if (c->qk_norms) {
        ask(a, &to->q_norm, "self_attn.q_norm", "weight", c->head_size, 0);
        ask(a, &to->k_norm, "self_attn.k_norm", "weight", c->head_size, 0);
    }
}

/* After the layers comes the head, which may be the embedding. */
static size_t ask_all(llama_model *m) {
    const llama_config *c = &m->config;
    asker a = {.model = m};
    for (size_t l = 0; l < c->layers; l++) {
        snprintf(a.prefix, sizeof a.prefix, "model.layers.%u.", (unsigned)l);
        ask_layer(&a, &m->layers[l]);
        m->of_layer = a.n / (l + 1);
    }
    a.prefix[0] = 0;
    if (!c->tied)
        ask_matrix(&a, &m->head, "lm_head", c->vocabulary, c->width, 0);
    ask_matrix(&a, &m->embedding, "model.embed_tokens", c->vocabulary, c->width, 0);
    ask(&a, &m->final_norm, "model.norm", "weight", c->width, 0);
    return a.n;
}

static int take(llama_model *m, unsigned threads, tenmap_error *error) {
    size_t most = m->config.layers * OF_LAYER_AT_MOST + OUTSIDE;
    tenmap_load_options options = TENMAP_LOAD_OPTIONS_INIT;
    options.threads = threads;
    m->layers = calloc(m->config.layers, sizeof *m->layers);
    m->wants = calloc(most, sizeof *m->wants);
    m->wishes = calloc(most, sizeof *m->wishes);
    if (!m->layers || !m->wants || !m->wishes)
        return fail(error, "out of memory");
    size_t n = ask_all(m);
    if (tenmap_take(m->file, m->wants, n, &options, &m->arena, error) != TENMAP_OK)
        return 0;
    for (size_t i = 0; i < n; i++)
        *m->wishes[i].to = m->wants[i].data;
    if (m->config.tied)
        m->head = m->embedding;
    return 1;
}

/* Advice about the weights of a layer, or after the last layer the head, that are used in place. */
static void advise(const llama_model *m, size_t layer, uint32_t advice) {
    const tenmap_want *want = &m->wants[layer * m->of_layer];
    const tenmap_want *end = want + (layer < m->config.layers ? m->of_layer : 1);
    const tenmap_tensor *list[OF_LAYER_AT_MOST];
    size_t n = 0;
    for (; want < end; want++)
        if (want->tensor && want->data == want->tensor->data)
            list[n++] = want->tensor;
    (void)tenmap_advise_list(m->file, list, n, advice, NULL); /* a failure only costs speed */
}

void model_await(llama_model *m, size_t layer) {
    for (; m->awaited <= layer; m->awaited++)
        advise(m, m->awaited, TENMAP_ADVISE_POPULATE);
}

/*
 * Whether the page cache has most of the model, judged by one weight of each layer: asking about
 * all weights takes as long as a layer.
 */
static int is_cached(const llama_model *m) {
    uint64_t size = 0, cached = 0, here;
    for (size_t layer = 0; layer < m->config.layers; layer++) {
        const tenmap_tensor *t = m->wants[layer * m->of_layer].tensor;
        if (!t || tenmap_cached(m->file, t, &here, NULL) != TENMAP_OK)
            return 1;
        size += t->nbytes;
        cached += here;
    }
    return cached >= size / 10 * 9;
}

int model_load(llama_model *m, const char *folder, unsigned threads, tenmap_error *error) {
    tenmap_options options = TENMAP_OPTIONS_INIT;
    options.flags = TENMAP_OPEN_DEQUANTIZE; /* no effect unless weights are quantized */
    *m = (llama_model){.file = NULL};
    if (tenmap_open(folder, &options, &m->file, error) != TENMAP_OK ||
        !config_read(&m->config, tenmap_folder(m->file), error) || !take(m, threads, error))
        return 0;
    if (is_cached(m))
        m->awaited = m->config.layers + 1;
    /* What is not in memory yet is prefetched in the order of use. */
    for (size_t layer = m->awaited; layer <= m->config.layers; layer++)
        advise(m, layer, TENMAP_ADVISE_PREFETCH);
    return 1;
}

void model_unload(llama_model *m) {
    free(m->wishes);
    free(m->wants);
    free(m->layers);
    tenmap_arena_free(m->arena);
    tenmap_close(m->file); /* weights that were used in place are gone with it */
}
