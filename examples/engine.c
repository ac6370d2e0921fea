/*
 * How an inference engine loads a model. It knows the names of its architecture and takes all
 * weights in one call: matrices as they are stored, in place in the file, small vectors as F32, and
 * a separate head if there is one. One error message names everything that is missing or has
 * another shape. What the layers should look like (config.json beside the model) is up to the
 * engine.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <tenmap.h>

enum { EMBEDDING, HEAD, OUTSIDE }; /* weights outside of the layers */
enum { NORM, Q, K, V, O, GATE, UP, DOWN, PARTS };

#define LAYER "model.layers.%u."
static const tenmap_want outside[OUTSIDE] = {
    [EMBEDDING] = {.name = "model.embed_tokens.weight", .rank = 2},
    [HEAD] = {.name = "lm_head.weight", .rank = 2, .flags = TENMAP_WANT_OPTIONAL}};
static const tenmap_want parts[PARTS] = {
    [NORM] = {.name = LAYER "input_layernorm.weight", .as = TENMAP_F32, .rank = 1},
    [Q] = {.name = LAYER "self_attn.q_proj.weight", .rank = 2},
    [K] = {.name = LAYER "self_attn.k_proj.weight", .rank = 2},
    [V] = {.name = LAYER "self_attn.v_proj.weight", .rank = 2},
    [O] = {.name = LAYER "self_attn.o_proj.weight", .rank = 2},
    [GATE] = {.name = LAYER "mlp.gate_proj.weight", .rank = 2},
    [UP] = {.name = LAYER "mlp.up_proj.weight", .rank = 2},
    [DOWN] = {.name = LAYER "mlp.down_proj.weight", .rank = 2}};

typedef struct engine {
    tenmap_model *model;
    tenmap_arena *arena; /* the weights that had to be converted */
    tenmap_want *weight; /* OUTSIDE, then PARTS for each layer: data and tensor of each */
    uint32_t layers;
} engine;

/* A real engine reads this from config.json. */
static uint32_t count_layers(const tenmap_model *model) {
    char name[64];
    for (uint32_t n = 0;; n++) {
        snprintf(name, sizeof name, "model.layers.%" PRIu32 ".input_layernorm.weight", n);
        if (!tenmap_find(model, name))
            return n;
    }
}

static int load(engine *e, const char *path, tenmap_error *error) {
    if (tenmap_open(path, NULL, &e->model, error) != TENMAP_OK)
        return 0;
    e->layers = count_layers(e->model);
    size_t n = OUTSIDE + (size_t)e->layers * PARTS;
    e->weight = calloc(n, sizeof *e->weight);
    for (size_t i = 0; e->weight && i < n; i++) {
        e->weight[i] = i < OUTSIDE ? outside[i] : parts[(i - OUTSIDE) % PARTS];
        if (i >= OUTSIDE)
            e->weight[i].flags |= TENMAP_WANT_LAYER((i - OUTSIDE) / PARTS);
    }
    return e->weight && tenmap_take(e->model, e->weight, n, NULL, &e->arena, error) == TENMAP_OK;
}

static void unload(engine *e) {
    tenmap_arena_free(e->arena);
    tenmap_close(e->model); /* weights that were used in place are gone with it */
    free(e->weight);
}

int main(int argc, char **argv) {
    engine e = {NULL, NULL, NULL, 0};
    tenmap_error error = {.message = "out of memory"};
    if (argc != 2) {
        fprintf(stderr, "usage: engine MODEL\n");
        return 2;
    }
    int loaded = load(&e, argv[1], &error);
    if (loaded) {
        const tenmap_tensor *embedding = e.weight[EMBEDDING].tensor;
        printf("%" PRIu32 " layers, width %" PRIu64 ", vocabulary %" PRIu64
               ", %s weights, %s head\n",
               e.layers, embedding->shape[1], embedding->shape[0],
               tenmap_dtype_name(embedding->dtype), e.weight[HEAD].data ? "own" : "tied");
    } else {
        fprintf(stderr, "engine: %s\n", error.message);
    }
    unload(&e);
    return loaded ? 0 : 1;
}
