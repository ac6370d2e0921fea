/*
 * A sentence encoder of the BERT family (all-MiniLM-L6-v2 and its like) on the public API: it takes
 * token ids and prints the mean of the last hidden states, normalized to length 1, one number per
 * line. The weights may be stored in any dtype; it computes in F32, with sums in F64.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <tenmap.h>

enum {
    WORDS,
    POSITIONS,
    TYPES,
    FIRST_GAIN,
    FIRST_BIAS,
    OUTSIDE
}; /* weights outside of the layers */
/* Each weight is followed by its bias. */
enum {
    QUERY = 0,
    KEY = 2,
    VALUE = 4,
    MIX = 6,
    MIX_NORM = 8,
    UP = 10,
    DOWN = 12,
    NORM = 14,
    PARTS = 16
};

/* A weight's name and shape: w is the width, i the inner layer's, * any extent. */
typedef struct shaped {
    const char *name, *shape;
} shaped;

static const shaped outside[OUTSIDE] = {{"embeddings.word_embeddings.weight", "*w"},
                                        {"embeddings.position_embeddings.weight", "*w"},
                                        {"embeddings.token_type_embeddings.weight", "*w"},
                                        {"embeddings.LayerNorm.weight", "w"},
                                        {"embeddings.LayerNorm.bias", "w"}};
#define BOTH(name, out, in)                                                                        \
    {"encoder.layer.%u." name ".weight", out in}, {                                                \
        "encoder.layer.%u." name ".bias", out                                                      \
    }
static const shaped parts[PARTS] = {BOTH("attention.self.query", "w", "w"),
                                    BOTH("attention.self.key", "w", "w"),
                                    BOTH("attention.self.value", "w", "w"),
                                    BOTH("attention.output.dense", "w", "w"),
                                    BOTH("attention.output.LayerNorm", "w", ""),
                                    BOTH("intermediate.dense", "i", "w"),
                                    BOTH("output.dense", "w", "i"),
                                    BOTH("output.LayerNorm", "w", "")};

typedef struct encoder {
    tenmap_model *model;
    tenmap_arena *arena;
    tenmap_want *weight; /* OUTSIDE, then PARTS for each layer */
    size_t layers, width, inner, heads, words, positions;
} encoder;

/* The first or the last extent of a tensor; 0 if there is none. */
static size_t extent(const tenmap_model *model, const char *name, int last) {
    const tenmap_tensor *t = tenmap_find(model, name);
    return t && t->rank ? (size_t)t->shape[last ? t->rank - 1 : 0] : 0;
}

static int load(encoder *e, const char *path, size_t layers, size_t heads, tenmap_error *error) {
    size_t n = OUTSIDE + layers * PARTS;
    if (tenmap_open(path, NULL, &e->model, error) != TENMAP_OK)
        return 0;
    e->layers = layers;
    e->heads = heads;
    e->words = extent(e->model, outside[WORDS].name, 0);
    e->width = extent(e->model, outside[WORDS].name, 1);
    e->positions = extent(e->model, outside[POSITIONS].name, 0);
    e->inner = extent(e->model, "encoder.layer.0.intermediate.dense.bias", 0);
    e->weight = calloc(n, sizeof *e->weight);
    uint64_t(*shape)[2] = calloc(n, sizeof *shape);
    for (size_t i = 0; e->weight && shape && i < n; i++) {
        const shaped *from = i < OUTSIDE ? &outside[i] : &parts[(i - OUTSIDE) % PARTS];
        tenmap_want *want = &e->weight[i];
        want->name = from->name;
        want->as = TENMAP_F32;
        want->flags = i < OUTSIDE ? 0 : TENMAP_WANT_LAYER((i - OUTSIDE) / PARTS);
        want->shape = shape[i];
        for (const char *s = from->shape; *s; s++)
            shape[i][want->rank++] = *s == 'w'   ? e->width
                                     : *s == 'i' ? e->inner
                                                 : TENMAP_ANY_EXTENT;
    }
    int good = e->weight && shape &&
               tenmap_take(e->model, e->weight, n, NULL, &e->arena, error) == TENMAP_OK;
    free(shape);
    return good;
}

static void unload(encoder *e) {
    tenmap_arena_free(e->arena);
    tenmap_close(e->model);
    free(e->weight);
}

static const float *part(const encoder *e, size_t layer, size_t which) {
    return e->weight[OUTSIDE + layer * PARTS + which].data;
}

/* A weight[out][in] and its bias[out]. */
typedef struct linear {
    const float *weight, *bias;
    size_t in, out;
} linear;

/* The part `which` of a layer; its bias follows it. */
static linear linear_of(const encoder *e, size_t layer, size_t which, size_t in, size_t out) {
    return (linear){part(e, layer, which), part(e, layer, which + 1), in, out};
}

/* y[rows][out] = x[rows][in] * weight[out][in] + bias[out] */
static void dense(float *y, const float *x, size_t rows, linear l) {
    for (size_t r = 0; r < rows; r++)
        for (size_t o = 0; o < l.out; o++) {
            double sum = (double)l.bias[o];
            for (size_t i = 0; i < l.in; i++)
                sum += (double)x[r * l.in + i] * (double)l.weight[o * l.in + i];
            y[r * l.out + o] = (float)sum;
        }
}

/* x = norm(x + add), row by row; add may be NULL. */
static void add_and_norm(float *x, const float *add, const float *gain, const float *bias,
                         size_t rows, size_t width) {
    for (size_t r = 0; r < rows; r++, x += width, add = add ? add + width : NULL) {
        double mean = 0, variance = 0;
        for (size_t i = 0; i < width; i++) {
            x[i] += add ? add[i] : 0;
            mean += (double)x[i] / (double)width;
        }
        for (size_t i = 0; i < width; i++)
            variance += ((double)x[i] - mean) * ((double)x[i] - mean) / (double)width;
        for (size_t i = 0; i < width; i++)
            x[i] = (float)(((double)x[i] - mean) / sqrt(variance + 1e-12) * (double)gain[i] +
                           (double)bias[i]);
    }
}

/* The keys and values of one head: `size` elements for each token, `width` elements apart. */
typedef struct head {
    const float *keys, *values;
    size_t tokens, width, size;
} head;

/* One head for one token: the values of all tokens, weighted by its scores. */
static void attend(float *out, const float *q, head h, double *scores) {
    double most = -INFINITY, all = 0;
    for (size_t s = 0; s < h.tokens; s++) {
        scores[s] = 0;
        for (size_t i = 0; i < h.size; i++)
            scores[s] += (double)q[i] * (double)h.keys[s * h.width + i] / sqrt((double)h.size);
        most = scores[s] > most ? scores[s] : most;
    }
    for (size_t s = 0; s < h.tokens; s++)
        all += scores[s] = exp(scores[s] - most);
    for (size_t i = 0; i < h.size; i++) {
        double sum = 0;
        for (size_t s = 0; s < h.tokens; s++)
            sum += scores[s] / all * (double)h.values[s * h.width + i];
        out[i] = (float)sum;
    }
}

static void run_layer(const encoder *e, size_t l, float *x, float *work, double *scores,
                      size_t rows) {
    size_t w = e->width, size = w / e->heads, all = rows * w;
    float *q = work, *k = q + all, *v = k + all, *mixed = v + all, *inner = mixed + all;
    dense(q, x, rows, linear_of(e, l, QUERY, w, w));
    dense(k, x, rows, linear_of(e, l, KEY, w, w));
    dense(v, x, rows, linear_of(e, l, VALUE, w, w));
    for (size_t r = 0; r < rows; r++)
        for (size_t h = 0; h < w; h += size)
            attend(mixed + r * w + h, q + r * w + h, (head){k + h, v + h, rows, w, size}, scores);
    dense(q, mixed, rows, linear_of(e, l, MIX, w, w));
    add_and_norm(x, q, part(e, l, MIX_NORM), part(e, l, MIX_NORM + 1), rows, w);
    dense(inner, x, rows, linear_of(e, l, UP, w, e->inner));
    for (size_t i = 0; i < rows * e->inner; i++) /* gelu */
        inner[i] = (float)(0.5 * (double)inner[i] * (1 + erf((double)inner[i] * sqrt(0.5))));
    dense(q, inner, rows, linear_of(e, l, DOWN, e->inner, w));
    add_and_norm(x, q, part(e, l, NORM), part(e, l, NORM + 1), rows, w);
}

/* Rows of x: the sum of the embeddings of the token, its position and segment 0. */
static void embed(const encoder *e, const unsigned long *ids, size_t rows, float *x) {
    const float *words = e->weight[WORDS].data, *places = e->weight[POSITIONS].data;
    const float *types = e->weight[TYPES].data;
    for (size_t r = 0; r < rows; r++)
        for (size_t i = 0; i < e->width; i++)
            x[r * e->width + i] =
                words[ids[r] * e->width + i] + places[r * e->width + i] + types[i];
    add_and_norm(x, NULL, e->weight[FIRST_GAIN].data, e->weight[FIRST_BIAS].data, rows, e->width);
}

static void print_mean(const float *x, size_t rows, size_t width) {
    double length = 0;
    for (int print = 0; print < 2; print++)
        for (size_t i = 0; i < width; i++) {
            double mean = 0;
            for (size_t r = 0; r < rows; r++)
                mean += (double)x[r * width + i] / (double)rows;
            if (print)
                printf("%.9g\n", mean / sqrt(length));
            else
                length += mean * mean;
        }
}

static int encode(const encoder *e, char **words, size_t rows) {
    size_t all = rows * e->width;
    unsigned long *ids = calloc(rows, sizeof *ids);
    double *scores = calloc(rows, sizeof *scores);
    float *x = calloc(all * 5 + rows * e->inner, sizeof *x);
    int good = ids && scores && x && rows <= e->positions && e->width % e->heads == 0;
    for (size_t r = 0; good && r < rows; r++) {
        ids[r] = strtoul(words[r], NULL, 10);
        good = ids[r] < e->words;
    }
    if (good) {
        embed(e, ids, rows, x);
        for (size_t l = 0; l < e->layers; l++)
            run_layer(e, l, x, x + all, scores, rows);
        print_mean(x, rows, e->width);
    } else {
        fprintf(stderr, "encoder: too many tokens, an unknown one, odd heads, or no memory\n");
    }
    free(ids);
    free(scores);
    free(x);
    return good;
}

int main(int argc, char **argv) {
    encoder e = {0};
    tenmap_error error = {.message = "out of memory"};
    if (argc < 5 || atoi(argv[2]) < 1 || atoi(argv[3]) < 1) {
        fprintf(stderr, "usage: encoder MODEL LAYERS HEADS ID...\n");
        return 2;
    }
    int good = load(&e, argv[1], (size_t)atoi(argv[2]), (size_t)atoi(argv[3]), &error);
    if (!good)
        fprintf(stderr, "encoder: %s\n", error.message);
    good = good && encode(&e, argv + 4, (size_t)argc - 4);
    unload(&e);
    return good ? 0 : 1;
}
