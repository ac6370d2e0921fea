/*
 * A small engine for Llama, Mistral, Qwen2 and Qwen3 on the public API of tenmap: what its files share.
 *
 *     main.c     the command line: ids in, ids out
 *     config.c   config.json
 *     weights.c  the weights: where they lie in the files, or converted where they must be
 *     forward.c  ids to logits, with a cache of keys and values
 *     threads.c  the same work on several threads
 *     kernels.c  products of rows that are BF16, F16 or F32, for three instruction sets
 *
 * All functions that can fail return 0 then, and leave a sentence in the error.
 */
#ifndef LLAMA_H
#define LLAMA_H

#include <stddef.h>
#include <stdint.h>
#include <tenmap.h>

/* config.c */

enum { LAYERS_AT_MOST = 1024 };
enum { ROPE_DEFAULT, ROPE_LINEAR, ROPE_LLAMA3 };

typedef struct llama_config {
    size_t vocabulary, width, inner, layers, heads, kv_heads, head_size;
    int tied;                                 /* the embedding is the head too */
    int qkv_bias, o_bias, mlp_bias, qk_norms; /* which weights there are */
    float epsilon;                            /* of the norms */
    int rope;                                 /* ROPE_* */
    float theta, factor, low_factor, high_factor, original_positions;
    size_t window; /* how many positions, its own included, a token sees; 0: all */
    unsigned char sliding[LAYERS_AT_MOST]; /* the layers that the window counts for */
} llama_config;

/* Reads FOLDER/config.json. */
int config_read(llama_config *config, const char *folder, tenmap_error *error);
/* Puts a sentence into the error and returns 0. */
int fail(tenmap_error *error, const char *format, ...);

/* weights.c */

enum { EMBEDDING, HEAD, FINAL_NORM, OUTSIDE }; /* of the layers */
/* Each matrix is followed by its bias. */
enum { Q, Q_BIAS, K, K_BIAS, V, V_BIAS, O, O_BIAS, GATE, GATE_BIAS, UP, UP_BIAS, DOWN, DOWN_BIAS };
enum { INPUT_NORM = DOWN_BIAS + 1, INNER_NORM, Q_NORM, K_NORM, PARTS };

typedef struct llama_weight {
    const void *data;   /* row-major; NULL: this model has none */
    tenmap_dtype dtype; /* BF16, F16 or F32; vectors are F32 */
    size_t rows, columns;
    const tenmap_tensor *tensor; /* where it came from */
} llama_weight;

typedef struct llama_model {
    llama_config config;
    tenmap_model *file;
    tenmap_arena *arena;   /* what had to be converted */
    llama_weight *weights; /* OUTSIDE, then PARTS of each layer */
} llama_model;

int model_load(llama_model *model, const char *folder, unsigned threads, tenmap_error *error);
void model_unload(llama_model *model);
/* How one of the outer weights, or of a layer's, is reached. */
const llama_weight *outer_weight(const llama_model *model, unsigned which);
const llama_weight *layer_weight(const llama_model *model, size_t layer, unsigned part);
/*
 * If most of the model is not in the page cache: begins to bring it in, in the order of use, on a
 * thread of the library, and returns 1. Then each layer is waited for before it is used the first time;
 * layer `layers` is the head.
 */
int model_prefetch(const llama_model *model);
void model_await(const llama_model *model, size_t layer);

/* threads.c */

typedef struct pool pool;
/* Of so many threads, the caller's among them; NULL if memory or threads are out. */
pool *pool_create(unsigned threads);
void pool_free(pool *p);
unsigned pool_size(const pool *p);
/* Calls work(ctx, i) for each i below pool_size, at once, and returns when all have. */
void pool_run(pool *p, void (*work)(void *ctx, unsigned i), void *ctx);
unsigned processors(void);

/* forward.c */

typedef struct session session;
/* With room for so many positions. */
session *session_create(const llama_model *model, pool *threads, size_t room, tenmap_error *error);
void session_free(session *s);
/* Takes the next tokens in; the logits of what follows the last, until the next call. */
const float *session_feed(session *s, const uint32_t *ids, size_t count);

/* kernels.c */

/* y[count][rows] = x[count][columns] * weight + bias, which may be NULL */
typedef struct product {
    const llama_weight *weight;
    const float *bias, *x;
    float *y;
} product;
/* All n of them at once: none needs another's result. */
void multiply(pool *threads, size_t count, size_t n, const product *list);
/*
 * One head of one token: out is the sum of n values, weighted by how their keys agree with q. Keys and
 * values lie `stride` elements apart; scores has room for n.
 */
void attend(float *out, const float *q, const float *keys, const float *values, size_t n,
            size_t stride, size_t size, float *scores);
/* n elements of BF16, F16 or F32 as F32. */
void widen(float *y, const void *from, tenmap_dtype dtype, size_t n);
/* y = x / rms(x) * gain */
void rms_norm(float *y, const float *x, const float *gain, size_t n, float epsilon);
/* y += a * x */
void add_scaled(float *y, const float *x, float a, size_t n);
/* gate = silu(gate) * up */
void swiglu(float *gate, const float *up, size_t n);
/* Turns the pairs (x[i], x[i + n / 2]) of one head by angles with these cosines and sines. */
void rotate(float *x, const float *cosines, const float *sines, size_t n);
/* Radians per position of each of the head_size / 2 pairs. */
void fill_frequencies(float *out, const llama_config *config);

#endif
