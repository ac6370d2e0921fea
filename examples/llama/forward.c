/*
 * Ids to logits: embedding, layers of attention and a gated inner layer, the head. All sums are F32, and
 * so is the cache of keys and values.
 */
#include "llama.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* Tokens of a prompt that go through the layers together: each weight is read once for all of them. */
enum { BATCH = 32 };

struct session {
    const llama_model *model;
    pool *threads;
    size_t room, filled;    /* positions that the cache has room for, and has */
    float *keys, *values;   /* [layers][room][kv_heads * head_size] */
    float *frequencies;     /* [head_size / 2]: radians per position */
    float *memory;          /* what follows is in it, one row per token of a batch */
    float *x, *normed;      /* [width] */
    float *q, *mixed;       /* [heads * head_size] */
    float *gate, *up;       /* [inner] */
    float *cosines, *sines; /* [head_size / 2] */
    float *scores;          /* [threads][room] */
    float *logits;          /* [vocabulary], once */
    int await;              /* the weights are coming in: each layer is waited for */
};

/* A layer's matrix and its bias. */
static product product_of(const session *s, size_t layer, unsigned part, const float *x, float *y) {
    return (product){layer_weight(s->model, layer, part),
                     layer_weight(s->model, layer, part + 1)->data, x, y};
}

/* Tokens at positions from `filled` on; each head of each token is a unit of work. */
typedef struct attention {
    session *s;
    size_t layer, count;
    atomic_size_t next;
} attention;

static void attend_some(void *ctx, unsigned thread) {
    attention *a = ctx;
    const session *s = a->s;
    const llama_config *c = &s->model->config;
    size_t size = c->head_size, stride = c->kv_heads * size, unit;
    while ((unit = atomic_fetch_add(&a->next, 1)) < a->count * c->heads) {
        size_t at = s->filled + unit / c->heads, first = 0;
        size_t kv = a->layer * s->room * stride + unit % c->heads / (c->heads / c->kv_heads) * size;
        if (c->window && c->sliding[a->layer] && at + 1 > c->window)
            first = at + 1 - c->window;
        attend(s->mixed + unit * size, s->q + unit * size, s->keys + kv + first * stride,
               s->values + kv + first * stride, at + 1 - first, stride, size,
               s->scores + thread * s->room);
    }
}

static void run_attention(session *s, size_t layer, size_t count) {
    enum { ALONE = 1 << 14 }; /* products that are sooner done than told to others */
    const llama_config *c = &s->model->config;
    attention a = {.s = s, .layer = layer, .count = count};
    if (count * (s->filled + count) * c->heads * c->head_size < ALONE)
        attend_some(&a, 0);
    else
        pool_run(s->threads, attend_some, &a);
}

/* The norm of each head, where the model has one, then its turn by the token's position. */
static void turn_heads(const session *s, float *x, size_t heads, size_t count, const float *gain) {
    const llama_config *c = &s->model->config;
    size_t size = c->head_size;
    for (size_t t = 0; t < count; t++)
        for (size_t h = 0; h < heads; h++, x += size) {
            if (gain)
                rms_norm(x, x, gain, size, c->epsilon);
            rotate(x, s->cosines + t * size / 2, s->sines + t * size / 2, size);
        }
}

static void norm_all(session *s, const llama_weight *gain, size_t count) {
    const llama_config *c = &s->model->config;
    for (size_t t = 0; t < count; t++)
        rms_norm(s->normed + t * c->width, s->x + t * c->width, gain->data, c->width, c->epsilon);
}

static void run_layer(session *s, size_t l, size_t count) {
    const llama_model *m = s->model;
    const llama_config *c = &m->config;
    size_t kv = c->kv_heads * c->head_size;
    float *k = s->keys + (l * s->room + s->filled) * kv;
    float *v = s->values + (l * s->room + s->filled) * kv;
    norm_all(s, layer_weight(m, l, INPUT_NORM), count);
    multiply(s->threads, count, 3,
             (product[]){product_of(s, l, Q, s->normed, s->q), product_of(s, l, K, s->normed, k),
                         product_of(s, l, V, s->normed, v)});
    turn_heads(s, s->q, c->heads, count, layer_weight(m, l, Q_NORM)->data);
    turn_heads(s, k, c->kv_heads, count, layer_weight(m, l, K_NORM)->data);
    run_attention(s, l, count);
    multiply(s->threads, count, 1, (product[]){product_of(s, l, O, s->mixed, s->normed)});
    add_scaled(s->x, s->normed, 1, count * c->width);

    norm_all(s, layer_weight(m, l, INNER_NORM), count);
    multiply(s->threads, count, 2,
             (product[]){product_of(s, l, GATE, s->normed, s->gate),
                         product_of(s, l, UP, s->normed, s->up)});
    swiglu(s->gate, s->up, count * c->inner);
    multiply(s->threads, count, 1, (product[]){product_of(s, l, DOWN, s->gate, s->normed)});
    add_scaled(s->x, s->normed, 1, count * c->width);
}

static void embed(session *s, const uint32_t *ids, size_t count) {
    const llama_weight *w = outer_weight(s->model, EMBEDDING);
    size_t half = s->model->config.head_size / 2;
    size_t bytes = w->columns * (w->dtype == TENMAP_F32 ? 4 : 2);
    for (size_t t = 0; t < count; t++) {
        widen(s->x + t * w->columns, (const char *)w->data + ids[t] * bytes, w->dtype, w->columns);
        for (size_t i = 0; i < half; i++) {
            float angle = (float)(s->filled + t) * s->frequencies[i];
            s->cosines[t * half + i] = cosf(angle);
            s->sines[t * half + i] = sinf(angle);
        }
    }
}

const float *session_feed(session *s, const uint32_t *ids, size_t count) {
    const llama_model *m = s->model;
    size_t width = m->config.width, n = 0;
    for (; count; ids += n, count -= n) {
        n = count < BATCH ? count : BATCH;
        embed(s, ids, n);
        for (size_t l = 0; l < m->config.layers; l++) {
            if (s->await)
                model_await(m, l);
            run_layer(s, l, n);
        }
        if (s->await)
            model_await(m, m->config.layers);
        s->await = 0;
        s->filled += n;
    }
    norm_all(s, outer_weight(m, FINAL_NORM), n); /* of the last batch */
    product head = {outer_weight(m, HEAD), NULL, s->normed + (n - 1) * width, s->logits};
    multiply(s->threads, 1, 1, &head);
    return s->logits;
}

static float *slice(float **memory, size_t n) {
    float *start = *memory;
    *memory += n;
    return start;
}

session *session_create(const llama_model *m, pool *threads, size_t room, tenmap_error *error) {
    const llama_config *c = &m->config;
    size_t cache = c->layers * room * c->kv_heads * c->head_size, half = c->head_size / 2;
    size_t row = 2 * c->width + 2 * c->heads * c->head_size + 2 * c->inner + 2 * half;
    session *s = calloc(1, sizeof *s);
    float *rest =
        s ? calloc(BATCH * row + c->vocabulary + pool_size(threads) * room + half, sizeof *rest)
          : NULL;
    if (!rest || cache / room / c->layers != c->kv_heads * c->head_size ||
        !(s->keys = calloc(cache, sizeof *s->keys)) ||
        !(s->values = calloc(cache, sizeof *s->values))) {
        fail(error, "out of memory for the keys and values of %zu positions", room);
        free(rest);
        session_free(s);
        return NULL;
    }
    s->model = m;
    s->threads = threads;
    s->room = room;
    s->memory = rest;
    s->x = slice(&rest, BATCH * c->width);
    s->normed = slice(&rest, BATCH * c->width);
    s->q = slice(&rest, BATCH * c->heads * c->head_size);
    s->mixed = slice(&rest, BATCH * c->heads * c->head_size);
    s->gate = slice(&rest, BATCH * c->inner);
    s->up = slice(&rest, BATCH * c->inner);
    s->cosines = slice(&rest, BATCH * half);
    s->sines = slice(&rest, BATCH * half);
    s->logits = slice(&rest, c->vocabulary);
    s->scores = slice(&rest, pool_size(threads) * room);
    s->frequencies = slice(&rest, half);
    fill_frequencies(s->frequencies, c);
    s->await = model_prefetch(m);
    return s;
}

void session_free(session *s) {
    if (!s)
        return;
    free(s->keys);
    free(s->values);
    free(s->memory);
    free(s);
}
