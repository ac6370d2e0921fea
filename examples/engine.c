/*
 * How an inference engine loads: it knows its architecture's names, walks the layers, takes
 * matrices as views where they lie and small vectors as F32, and falls back to tied embeddings.
 * What the layers should look like (config.json beside the model) is the engine's own business.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenmap.h>

enum { MOST_LAYERS = 1024 };

typedef struct matrix { /* a view into the mapping, in the type that the file has */
    const void *data;
    tenmap_dtype dtype;
    uint64_t rows, columns;
} matrix;

typedef struct layer {
    float *norm; /* converted, owned */
    matrix q, k, v, o, gate, up, down;
} layer;

typedef struct engine {
    tenmap_model *model;
    matrix embedding, head;
    size_t layer_count;
    layer layers[MOST_LAYERS];
} engine;

static int fail(const char *what, const char *why) {
    fprintf(stderr, "engine: %s: %s\n", what, why);
    return 0;
}

static int take_matrix(const engine *e, const char *name, matrix *out) {
    const tenmap_tensor *t = tenmap_find(e->model, name);
    if (!t || t->rank != 2)
        return fail(name, t ? "is not a matrix" : "is missing");
    tenmap_error error;
    const void *data = tenmap_view(t, TENMAP_AS_STORED, &error);
    if (!data)
        return fail(name, error.message); /* misaligned: a real engine would tenmap_read it */
    *out = (matrix){data, t->dtype, t->shape[0], t->shape[1]};
    return 1;
}

static int take_vector(const engine *e, const char *name, float **out) {
    const tenmap_tensor *t = tenmap_find(e->model, name);
    tenmap_error error;
    if (!t)
        return fail(name, "is missing");
    size_t bytes = (size_t)t->nelems * sizeof **out;
    *out = malloc(bytes ? bytes : 1);
    if (!*out)
        return fail(name, "out of memory");
    if (tenmap_read(t, 0, t->nelems, TENMAP_F32, *out, bytes, 0, &error) != TENMAP_OK)
        return fail(name, error.message);
    return 1;
}

static int load_layer(engine *e, size_t number) {
    layer *l = &e->layers[number];
    const struct {
        const char *name;
        matrix *to;
    } parts[] = {{"self_attn.q_proj", &l->q}, {"self_attn.k_proj", &l->k},
                 {"self_attn.v_proj", &l->v}, {"self_attn.o_proj", &l->o},
                 {"mlp.gate_proj", &l->gate}, {"mlp.up_proj", &l->up},
                 {"mlp.down_proj", &l->down}};
    char name[128];
    snprintf(name, sizeof name, "model.layers.%zu.input_layernorm.weight", number);
    if (!tenmap_find(e->model, name))
        return 0; /* the layer before this one was the last */
    if (!take_vector(e, name, &l->norm))
        return -1;
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        snprintf(name, sizeof name, "model.layers.%zu.%s.weight", number, parts[i].name);
        if (!take_matrix(e, name, parts[i].to))
            return -1;
    }
    return 1;
}

static int load(engine *e, const char *path) {
    tenmap_error error;
    if (tenmap_open(path, NULL, &e->model, &error) != TENMAP_OK)
        return fail(path, error.message);
    if (!take_matrix(e, "model.embed_tokens.weight", &e->embedding))
        return 0;
    if (tenmap_find(e->model, "lm_head.weight")) {
        if (!take_matrix(e, "lm_head.weight", &e->head))
            return 0;
    } else {
        e->head = e->embedding; /* tied: the file holds it once */
    }
    int more = 1;
    while (e->layer_count < MOST_LAYERS && (more = load_layer(e, e->layer_count)) > 0)
        e->layer_count++;
    return more >= 0;
}

static void unload(engine *e) {
    for (size_t i = 0; i < MOST_LAYERS; i++)
        free(e->layers[i].norm);
    tenmap_close(e->model); /* the matrices are gone with it */
}

int main(int argc, char **argv) {
    static engine e;
    if (argc != 2) {
        fprintf(stderr, "usage: engine MODEL\n");
        return 2;
    }
    int loaded = load(&e, argv[1]);
    if (loaded)
        printf("%zu layers, width %" PRIu64 ", vocabulary %" PRIu64 ", %s weights, %s head\n",
               e.layer_count, e.embedding.columns, e.embedding.rows,
               tenmap_dtype_name(e.embedding.dtype),
               e.head.data == e.embedding.data ? "tied" : "own");
    unload(&e);
    return loaded ? 0 : 1;
}
