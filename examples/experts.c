/*
 * Runs a mixture of experts that is larger than the memory it may use: experts are brought in when
 * the router chooses them, the next layer's while this layer computes, and those that were used
 * longest ago are released.
 *
 *     experts MODEL CAP-IN-MIB TOKENS
 *
 * Layer i has a router "blk.i.ffn_gate_inp.weight" [experts, n] and all of its experts in one
 * tensor "blk.i.ffn_exps.weight" [experts, n, n], as GGUF files and gpt-oss stack them, in F32. A
 * token is a vector of n numbers; each layer adds the outputs of its best two experts.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenmap.h>

enum { BEST = 2, MOST_LAYERS = 256 };

typedef struct mixture {
    uint32_t layers;
    uint64_t experts, n, expert_bytes;
    const float *router[MOST_LAYERS];
    const tenmap_tensor *stack[MOST_LAYERS];
    uint64_t *used;              /* when each expert was used last; 0: it is not in memory */
    uint64_t now, held, cap;     /* uses so far; bytes of experts in memory, and the most */
    uint64_t read, hits, chosen; /* bytes brought in; experts that were in memory; all choices */
    tenmap_error error;
} mixture;

/* Finds and checks the two tensors of each layer. */
static int find_layers(const tenmap_model *model, mixture *m) {
    uint64_t shape[3] = {TENMAP_ANY_EXTENT, TENMAP_ANY_EXTENT, TENMAP_ANY_EXTENT};
    for (m->layers = 0; m->layers < MOST_LAYERS; m->layers++) {
        tenmap_want wants[2] = {{.name = "blk.%u.ffn_gate_inp.weight", .as = TENMAP_F32},
                                {.name = "blk.%u.ffn_exps.weight", .as = TENMAP_F32}};
        tenmap_arena *arena = NULL;
        for (uint32_t i = 0; i < 2; i++) {
            wants[i].numbers = 1;
            wants[i].layer = m->layers;
            wants[i].rank = 2 + i;
            wants[i].shape = shape;
            wants[i].flags = m->layers ? TENMAP_WANT_OPTIONAL : 0;
        }
        if (tenmap_take(model, wants, 2, NULL, &arena, &m->error) != TENMAP_OK)
            return 0;
        if (arena || !wants[0].data != !wants[1].data) {
            tenmap_arena_free(arena);
            snprintf(m->error.message, sizeof m->error.message, "layer %u is not F32 or not whole",
                     (unsigned)m->layers);
            return 0;
        }
        if (!wants[0].data)
            break;
        m->experts = shape[0] = wants[0].tensor->shape[0]; /* the first layer decides */
        m->n = shape[1] = shape[2] = wants[0].tensor->shape[1];
        if (wants[1].nbytes != m->experts * m->n * m->n * 4)
            return 0;
        m->router[m->layers] = wants[0].data;
        m->stack[m->layers] = wants[1].tensor;
    }
    m->expert_bytes = m->n * m->n * 4;
    m->used = calloc((size_t)(m->layers * m->experts) + 1, sizeof *m->used);
    return m->used && m->n && m->cap >= (uint64_t)2 * BEST * m->expert_bytes;
}

static int advise(mixture *m, uint64_t slot, uint32_t advice) {
    return tenmap_advise_range(m->stack[slot / m->experts], slot % m->experts * m->expert_bytes,
                               m->expert_bytes, advice, &m->error) == TENMAP_OK;
}

static int release_oldest(mixture *m) {
    uint64_t oldest = 0, slots = m->layers * m->experts;
    for (uint64_t i = 1; i < slots; i++)
        if (m->used[i] && (!m->used[oldest] || m->used[i] < m->used[oldest]))
            oldest = i;
    m->used[oldest] = 0;
    m->held -= m->expert_bytes;
    return advise(m, oldest, TENMAP_ADVISE_RELEASE);
}

/* Makes an expert the one that was used last, and brings it in: now, or on the library's thread. */
static int need(mixture *m, uint64_t slot, uint32_t advice) {
    m->hits += advice == TENMAP_ADVISE_POPULATE && m->used[slot];
    m->chosen += advice == TENMAP_ADVISE_POPULATE;
    if (!m->used[slot]) {
        while (m->held + m->expert_bytes > m->cap)
            if (!release_oldest(m))
                return 0;
        m->held += m->expert_bytes;
        m->read += m->expert_bytes;
    } else if (advice == TENMAP_ADVISE_PREFETCH) {
        advice = 0; /* it is there, or on its way */
    }
    m->used[slot] = ++m->now;
    return !advice || advise(m, slot, advice);
}

static float dot(const float *a, const float *b, uint64_t n) {
    float sum = 0;
    for (uint64_t i = 0; i < n; i++)
        sum += a[i] * b[i];
    return sum;
}

/* The layer's best experts for x, as numbers among all experts of the model. */
static void route(const mixture *m, uint32_t layer, const float *x, uint64_t best[BEST]) {
    float score[BEST] = {-INFINITY, -INFINITY};
    best[0] = best[1] = (uint64_t)layer * m->experts;
    for (uint64_t e = 0; e < m->experts; e++) {
        float s = dot(m->router[layer] + e * m->n, x, m->n);
        int place = s > score[0] ? 0 : s > score[1] ? 1 : BEST;
        if (place == 0) {
            score[1] = score[0];
            best[1] = best[0];
        }
        if (place < BEST) {
            score[place] = s;
            best[place] = (uint64_t)layer * m->experts + e;
        }
    }
}

/* Adds the outputs of the layer's experts to x. The next layer's are guessed from the same x. */
static int run_layer(mixture *m, uint32_t layer, float *x, float *out) {
    uint64_t best[BEST], guess[BEST];
    route(m, layer, x, best);
    for (int i = 0; i < BEST; i++)
        if (!need(m, best[i], TENMAP_ADVISE_POPULATE))
            return 0;
    if (layer + 1 < m->layers) {
        route(m, layer + 1, x, guess);
        for (int i = 0; i < BEST; i++)
            if (!need(m, guess[i], TENMAP_ADVISE_PREFETCH))
                return 0;
    }
    memset(out, 0, (size_t)m->n * sizeof *out);
    for (int i = 0; i < BEST; i++) {
        const float *w = m->stack[layer]->data;
        w += best[i] % m->experts * m->n * m->n;
        for (uint64_t k = 0; k < m->n; k++)
            out[k] += dot(w + k * m->n, x, m->n) / BEST;
    }
    float largest = 1e-6f;
    for (uint64_t k = 0; k < m->n; k++) {
        x[k] += out[k];
        largest = fabsf(x[k]) > largest ? fabsf(x[k]) : largest;
    }
    for (uint64_t k = 0; k < m->n; k++)
        x[k] /= largest;
    return 1;
}

static int run_tokens(mixture *m, unsigned tokens, double *sum) {
    float *x = calloc((size_t)m->n, sizeof *x), *out = calloc((size_t)m->n, sizeof *out);
    int good = x && out;
    for (unsigned t = 0; t < tokens && good; t++) {
        for (uint64_t k = 0; k < m->n; k++)
            x[k] = (float)(((uint64_t)t / 4 * 7919 + k * 104729) % 1009) / 1009 - 0.5f;
        for (uint32_t layer = 0; layer < m->layers && good; layer++)
            good = run_layer(m, layer, x, out);
        for (uint64_t k = 0; k < m->n && good; k++)
            *sum += (double)x[k] * (double)(k % 17 + 1);
    }
    free(x);
    free(out);
    return good;
}

int main(int argc, char **argv) {
    tenmap_model *model;
    mixture m = {.layers = 0};
    double sum = 0;
    if (argc != 4) {
        fprintf(stderr, "usage: experts MODEL CAP-IN-MIB TOKENS\n");
        return 2;
    }
    unsigned tokens = (unsigned)strtoul(argv[3], NULL, 10);
    m.cap = (uint64_t)strtoul(argv[2], NULL, 10) << 20;
    snprintf(m.error.message, sizeof m.error.message, "the model or the cap is too small");
    if (tenmap_open(argv[1], NULL, &model, &m.error) != TENMAP_OK) {
        fprintf(stderr, "experts: %s\n", m.error.message);
        return 1;
    }
    int good = find_layers(model, &m) && run_tokens(&m, tokens, &sum);
    if (good)
        printf("%u layers of %" PRIu64 " experts of %" PRIu64 " bytes, %" PRIu64
               " bytes in all; %.1f MB read per token, %" PRIu64 " of %" PRIu64
               " experts were in memory, sum %.17g\n",
               (unsigned)m.layers, m.experts, m.expert_bytes, tenmap_file_size(model),
               tokens ? (double)m.read / tokens / 1e6 : 0, m.hits, m.chosen, sum);
    else
        fprintf(stderr, "experts: %s\n", m.error.message);
    free(m.used);
    tenmap_close(model);
    return good ? 0 : 1;
}
