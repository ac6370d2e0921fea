/*
 * The weights, by one call of tenmap_take: matrices as they are stored, where they lie in the files,
 * and vectors as F32. Weights that are stored in other ways are converted first: 8-bit floats to BF16,
 * quantised ones to what the model computes in.
 */
#include "llama.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * A weight's name and shape: w is the width, i that of the inner layer, q and k those of all heads, h of
 * one, v the vocabulary. Without a flag, which is the offset of one in the config, it is always there.
 */
typedef struct row {
    const char *name, *shape;
    size_t flag;
} row;

#define LAYER "model.layers.%u."
#define IF(flag) offsetof(llama_config, flag)
#define BOTH(name, out, in, flag)                                                                  \
    {LAYER name ".weight", out in, 0}, {                                                           \
        LAYER name ".bias", out, IF(flag)                                                          \
    }
static const row outside[OUTSIDE] = {[EMBEDDING] = {"model.embed_tokens.weight", "vw", 0},
                                     [HEAD] = {"lm_head.weight", "vw", 0},
                                     [FINAL_NORM] = {"model.norm.weight", "w", 0}};
static const row parts[PARTS] = {BOTH("self_attn.q_proj", "q", "w", qkv_bias),
                                 BOTH("self_attn.k_proj", "k", "w", qkv_bias),
                                 BOTH("self_attn.v_proj", "k", "w", qkv_bias),
                                 BOTH("self_attn.o_proj", "w", "q", o_bias),
                                 BOTH("mlp.gate_proj", "i", "w", mlp_bias),
                                 BOTH("mlp.up_proj", "i", "w", mlp_bias),
                                 BOTH("mlp.down_proj", "w", "i", mlp_bias),
                                 {LAYER "input_layernorm.weight", "w", 0},
                                 {LAYER "post_attention_layernorm.weight", "w", 0},
                                 {LAYER "self_attn.q_norm.weight", "h", IF(qk_norms)},
                                 {LAYER "self_attn.k_norm.weight", "h", IF(qk_norms)}};

static size_t weight_count(const llama_model *m) {
    return OUTSIDE + m->config.layers * PARTS;
}

const llama_weight *outer_weight(const llama_model *m, unsigned which) {
    return &m->weights[which == HEAD && m->config.tied ? EMBEDDING : which];
}

const llama_weight *layer_weight(const llama_model *m, size_t layer, unsigned part) {
    return &m->weights[OUTSIDE + layer * PARTS + part];
}

static int is_there(const llama_config *c, size_t i) {
    const row *from = i < OUTSIDE ? &outside[i] : &parts[(i - OUTSIDE) % PARTS];
    if (i == HEAD)
        return !c->tied;
    return from->flag == 0 || *(const int *)(const void *)((const char *)c + from->flag);
}

static uint64_t extent(const llama_config *c, char letter) {
    switch (letter) {
    case 'w':
        return c->width;
    case 'i':
        return c->inner;
    case 'q':
        return c->heads * c->head_size;
    case 'k':
        return c->kv_heads * c->head_size;
    case 'h':
        return c->head_size;
    default:
        return c->vocabulary;
    }
}

/* What a matrix is computed with. AS_STORED is for one that is not there: tenmap_take says so. */
static tenmap_dtype dtype_of_matrix(const tenmap_model *file, const char *name, size_t layer) {
    char whole[96];
    snprintf(whole, sizeof whole, name, (unsigned)layer);
    const tenmap_tensor *t = tenmap_find(file, whole);
    if (!t || t->dtype == TENMAP_BF16 || t->dtype == TENMAP_F16 || t->dtype == TENMAP_F32)
        return t ? t->dtype : TENMAP_AS_STORED;
    uint32_t bits = tenmap_dtype_bits(t->dtype);
    return bits && bits <= 8 ? TENMAP_BF16 : TENMAP_F32; /* BF16 has all values of 8-bit floats */
}

/* The i-th weight, as it is asked for. */
static tenmap_want want_of(const llama_model *m, size_t i, uint64_t shape[2]) {
    const row *from = i < OUTSIDE ? &outside[i] : &parts[(i - OUTSIDE) % PARTS];
    size_t layer = i < OUTSIDE ? 0 : (i - OUTSIDE) / PARTS;
    tenmap_want want = {.name = from->name, .as = TENMAP_F32, .shape = shape};
    want.flags = i < OUTSIDE ? 0 : TENMAP_WANT_LAYER(layer);
    for (const char *s = from->shape; *s; s++)
        shape[want.rank++] = extent(&m->config, *s);
    if (want.rank == 2)
        want.as = dtype_of_matrix(m->file, from->name, layer);
    return want;
}

static int take(llama_model *m, unsigned threads, tenmap_error *error) {
    size_t count = weight_count(m), wanted = 0, k = 0;
    tenmap_load_options options = TENMAP_LOAD_OPTIONS_INIT;
    tenmap_want *wants = calloc(count, sizeof *wants);
    uint64_t(*shapes)[2] = calloc(count, sizeof *shapes);
    m->weights = calloc(count, sizeof *m->weights);
    int good = wants && shapes && m->weights;
    for (size_t i = 0; good && i < count; i++)
        if (is_there(&m->config, i)) {
            wants[wanted] = want_of(m, i, shapes[wanted]);
            wanted++;
        }
    options.threads = threads;
    if (!good)
        fail(error, "out of memory");
    good = good && tenmap_take(m->file, wants, wanted, &options, &m->arena, error) == TENMAP_OK;
    for (size_t i = 0; good && i < count; i++)
        if (is_there(&m->config, i)) {
            size_t columns = wants[k].rank == 2 ? (size_t)shapes[k][1] : 1;
            m->weights[i] = (llama_weight){wants[k].data, wants[k].as, (size_t)shapes[k][0],
                                           columns, wants[k].tensor};
            k++;
        }
    free(wants);
    free(shapes);
    return good;
}

int model_load(llama_model *m, const char *folder, unsigned threads, tenmap_error *error) {
    tenmap_options options = TENMAP_OPTIONS_INIT;
    memset(m, 0, sizeof *m);
    options.flags =
        TENMAP_OPEN_DEQUANTIZE; /* of models that are not quantised it changes nothing */
    return tenmap_open(folder, &options, &m->file, error) == TENMAP_OK &&
           config_read(&m->config, tenmap_folder(m->file), error) && take(m, threads, error);
}

void model_unload(llama_model *m) {
    free(m->weights);
    tenmap_arena_free(m->arena);
    tenmap_close(m->file); /* what was used where it lies is gone with it */
}

/* The matrices of a layer that are used where they lie; layer `layers` is the head. */
static void advise(const llama_model *m, size_t layer, uint32_t advice) {
    const tenmap_tensor *list[DOWN + 1];
    size_t n = 0;
    if (layer == m->config.layers)
        list[n++] = outer_weight(m, HEAD)->tensor;
    for (unsigned part = Q; layer < m->config.layers && part <= DOWN; part += 2) {
        const llama_weight *w = layer_weight(m, layer, part);
        if (w->data == w->tensor->data)
            list[n++] = w->tensor;
    }
    (void)tenmap_advise_list(m->file, list, n, advice, NULL); /* without it, it is only slower */
}

int model_prefetch(const llama_model *m) {
    uint64_t cached = 0, all = 0;
    for (size_t i = 0; i < tenmap_count(m->file); i++)
        all += tenmap_at(m->file, i)->nbytes;
    if (tenmap_cached(m->file, NULL, &cached, NULL) != TENMAP_OK || cached / 8 >= all / 9)
        return 0;
    for (size_t layer = 0; layer <= m->config.layers; layer++)
        advise(m, layer, TENMAP_ADVISE_PREFETCH);
    return 1;
}

void model_await(const llama_model *m, size_t layer) {
    advise(m, layer, TENMAP_ADVISE_POPULATE);
}
