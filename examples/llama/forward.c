/*
 * From token ids to logits: embedding, layers of attention and a gated inner layer, the head. All
 * sums are F32, and so is the key-value cache.
 */
#include "llama.h"

#include <inttypes.h>
#include <stdlib.h>

/*
 * Tokens of a prompt that pass through the layers together, so that each weight is read once for
 * all of them.
 */
enum { BATCH = 32 };

/* One head of one token of the batch. Several consecutive heads share a head of keys and values. */
static void attend_one(void *ctx, size_t i) {
    const session *s = ctx;
    const llama_config *c = &s->model->config;
    size_t size = c->head_size, stride = c->kv_heads * size, window = c->window[s->layer];
    size_t n = s->filled + i / c->heads + 1; /* positions up to the token's own */
    size_t first = window && n > window ? n - window : 0;
    size_t kv_head = i % c->heads / (c->heads / c->kv_heads);
    size_t from = (s->layer * s->room + first) * stride + kv_head * size;
    cached_head head = {s->keys + from, s->values + from, n - first, stride, size};
    attend(s->mixed + i * size, s->q + i * size, &head);
}

static void run_layer(session *s, size_t count) {
    const llama_layer *w = &s->model->layers[s->layer];
    const llama_config *c = &s->model->config;
    size_t size = c->head_size, at = (s->layer * s->room + s->filled) * c->kv_heads * size;
    float *k = s->keys + at, *v = s->values + at;

    rms_norm(s->normed, s->x, w->input_norm, c->width, count, c->epsilon);
    multiply(s->threads, count, 3,
             (product[]){{&w->q, s->normed, s->q}, {&w->k, s->normed, k}, {&w->v, s->normed, v}});
    if (c->qk_norms) {
        rms_norm(s->q, s->q, w->q_norm, size, count * c->heads, c->epsilon);
        rms_norm(k, k, w->k_norm, size, count * c->kv_heads, c->epsilon);
    }
    for (size_t t = 0; t < count; t++) {
        rotate(s->q + t * c->heads * size, s->angles + t * size, size, c->heads);
        rotate(k + t * c->kv_heads * size, s->angles + t * size, size, c->kv_heads);
    }
    pool_run(s->threads, count * c->heads, count * (s->filled + count) * c->heads * c->head_size,
             attend_one, s);
    multiply(s->threads, count, 1, &(product){&w->o, s->mixed, s->normed});
    add_scaled(s->x, s->normed, 1, count * c->width);

    rms_norm(s->normed, s->x, w->inner_norm, c->width, count, c->epsilon);
    multiply(s->threads, count, 2,
             (product[]){{&w->gate, s->normed, s->gate}, {&w->up, s->normed, s->up}});
    swiglu(s->gate, s->up, count * c->inner);
    multiply(s->threads, count, 1, &(product){&w->down, s->gate, s->normed});
    add_scaled(s->x, s->normed, 1, count * c->width);
}

const float *session_feed(session *s, const uint64_t *ids, size_t count) {
    llama_model *m = s->model;
    const llama_config *c = &m->config;
    size_t n = 0;
    for (; count; ids += n, count -= n, s->filled += n) {
        n = count < BATCH ? count : BATCH;
        for (size_t t = 0; t < n; t++) {
            widen(s->x + t * c->width, &m->embedding, ids[t]);
            fill_angles(s->angles + t * c->head_size, s->filled + t, c);
        }
        for (s->layer = 0; s->layer < c->layers; s->layer++) {
            model_await(m, s->layer);
            run_layer(s, n);
        }
    }
    model_await(m, c->layers);
    rms_norm(s->normed, s->x + (n - 1) * c->width, m->final_norm, c->width, 1, c->epsilon);
    multiply(s->threads, 1, 1, &(product){&m->head, s->normed, s->logits});
    return s->logits;
}

int session_begin(session *s, llama_model *m, unsigned threads, uint64_t room,
                  tenmap_error *error) {
    const llama_config *c = &m->config;
    size_t position = c->layers * c->kv_heads * c->head_size, cache = position * (size_t)room;
    size_t queries = c->heads * c->head_size, size = 0;
    const struct {
        float **to;
        size_t n;
    } parts[] = {{&s->keys, cache},
                 {&s->values, cache},
                 {&s->x, BATCH * c->width},
                 {&s->normed, BATCH * c->width},
                 {&s->q, BATCH * queries},
                 {&s->mixed, BATCH * queries},
                 {&s->gate, BATCH * c->inner},
                 {&s->up, BATCH * c->inner},
                 {&s->angles, BATCH * c->head_size},
                 {&s->logits, c->vocabulary}};
    enum { PARTS = sizeof parts / sizeof parts[0] };
    *s = (session){.model = m, .threads = pool_create(threads), .room = (size_t)room};
    for (size_t i = 0; i < PARTS; i++)
        size += parts[i].n;
    if (s->threads && room < SIZE_MAX / 16 / position)
        s->memory = calloc(size, sizeof *s->memory);
    if (!s->memory)
        return fail(error, "out of memory for the keys and values of %" PRIu64 " positions", room);
    float *next = s->memory;
    for (size_t i = 0; i < PARTS; next += parts[i++].n)
        *parts[i].to = next;
    return 1;
}

void session_end(session *s) {
    pool_free(s->threads);
    free(s->memory);
}
