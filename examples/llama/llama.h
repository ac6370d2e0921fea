/*
 * A small engine for Llama, Mistral, Qwen2 and Qwen3 on the public API of tenmap: the declarations
 * that its files share.
 *
 *     main.c     the command line: ids in, ids out
 *     config.c   config.json
 *     weights.c  the weights: where they lie in the files, or converted where they must be
 *     forward.c  ids to logits, with a cache of keys and values
 *     threads.c  the same work on several threads
 *     kernels.c  products of rows that are BF16, F16 or F32, for three instruction sets
 *
 * Functions that can fail return 0 on failure and put a message into the error.
 */
#ifndef LLAMA_H
#define LLAMA_H

#include <stdint.h>
#include <stdio.h>
#include <tenmap.h>

/* config.c */

enum { LAYERS_AT_MOST = 1024 };
enum { ROPE_DEFAULT, ROPE_LINEAR, ROPE_LLAMA3 };

typedef struct llama_config {
    size_t vocabulary, width, inner, layers, heads, kv_heads, head_size;
    int tied;                                 /* the embedding is also the head */
    int qkv_bias, o_bias, mlp_bias, qk_norms; /* which weights exist */
    float epsilon;                            /* of the norms */
    int rope;                                 /* ROPE_* */
    float theta, factor, low_factor, high_factor, original_positions;
    size_t window[LAYERS_AT_MOST]; /* positions that a token attends to, its own included; 0: all */
} llama_config;

int config_read(llama_config *config, const char *folder, tenmap_error *error);
/* Puts a message into the error and returns 0. */
int fail(tenmap_error *error, const char *format, ...);

/* weights.c */

typedef struct llama_matrix {
    const void *data;   /* row-major */
    const void *bias;   /* F32, one for each row; NULL: none */
    tenmap_dtype dtype; /* BF16, F16 or F32 */
    size_t rows, columns;
} llama_matrix;

typedef struct llama_layer {
    llama_matrix q, k, v, o, gate, up, down;
    const void *input_norm, *inner_norm, *q_norm, *k_norm; /* F32; NULL: none */
} llama_layer;

typedef struct llama_model {
    llama_config config;
    llama_matrix embedding, head;
    llama_layer *layers;
    const void *final_norm; /* F32 */
    tenmap_model *file;
    tenmap_arena *arena; /* the weights that had to be converted */
    tenmap_want *wants;  /* those of each layer, head, embedding, final norm */
    struct wish *wishes; /* one for each want */
    size_t of_layer;     /* wants per layer */
    size_t awaited;      /* how many layers, then the head, are in memory */
} llama_model;

int model_load(llama_model *model, const char *folder, unsigned threads, tenmap_error *error);
void model_unload(llama_model *model);
/*
 * Call this before a layer (or, with the number `layers`, the head) is used for the first time.
 * Returns when it is in memory.
 */
void model_await(llama_model *model, size_t layer);

/* threads.c */

typedef struct pool pool;
/* A pool of this many threads, including the caller's; NULL if memory runs out. */
pool *pool_create(unsigned threads);
void pool_free(pool *p);
unsigned processors(void);
/*
 * Calls work(ctx, i) for each i below n, on all threads, or on this one if there are few products.
 */
void pool_run(pool *p, size_t n, size_t products, void (*work)(void *ctx, size_t i), void *ctx);

/* forward.c */

typedef struct session {
    llama_model *model;
    pool *threads;
    size_t room, filled;  /* positions that fit into the cache, and that are in it */
    size_t layer;         /* the current layer */
    float *memory;        /* one allocation for all that follows */
    float *keys, *values; /* [layers][room][kv_heads * head_size] */
    float *x, *normed;    /* [batch][width] */
    float *q, *mixed;     /* [batch][heads * head_size] */
    float *gate, *up;     /* [batch][inner] */
    float *angles;        /* [batch][head_size] */
    float *logits;        /* [vocabulary] */
} session;

/* Makes a cache with room for this many positions. */
int session_begin(session *s, llama_model *model, unsigned threads, uint64_t room,
                  tenmap_error *error);
void session_end(session *s);
/* Processes the next tokens. Returns the logits after the last one, valid until the next call. */
const float *session_feed(session *s, const uint64_t *ids, size_t count);

/* kernels.c */

/* y[count][rows] = x[count][columns] * matrix + its bias */
typedef struct product {
    const llama_matrix *matrix;
    const float *x;
    float *y;
} product;
/* Computes n products together, none of which depends on another. */
void multiply(pool *threads, size_t count, size_t n, const product *list);
/* The cached keys and values of one head: `size` elements for each position, `stride` apart. */
typedef struct cached_head {
    const float *keys, *values;
    size_t positions, stride, size;
} cached_head;
/* out = the mean of the values, weighted by how their keys agree with q */
void attend(float *out, const float *q, const cached_head *head);
/* y = a row of the matrix */
void widen(float *y, const llama_matrix *matrix, size_t row);
/* y = x / rms(x) * gain, of `count` rows of n elements each */
void rms_norm(float *y, const float *x, const float *gain, size_t n, size_t count, float epsilon);
/* y += a * x */
void add_scaled(float *y, const float *x, float a, size_t n);
/* gate = silu(gate) * up */
void swiglu(float *gate, const float *up, size_t n);
/*
 * The angles by which pairs of a head of n elements rotate at a position: n / 2 cosines, then the
 * sines.
 */
void fill_angles(float *angles, size_t position, const llama_config *config);
/* Rotates the pairs (x[i], x[i + n / 2]) of each of `count` heads. */
void rotate(float *x, const float *angles, size_t n, size_t count);

#endif
