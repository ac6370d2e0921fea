/*
 * Streams a model that is larger than memory, layer by layer: while one layer is used, the
 * library's thread reads the next, and the previous one is released. At most two layers are
 * resident.
 *
 *     stream MODEL
 *
 * A layer is all tensors whose names agree up to and including their first number
 * ("model.layers.7."). Each tensor without a number is a layer of its own. The work here is a sum
 * over all bytes.
 */
#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenmap.h>

typedef struct layer {
    size_t first, count; /* of the list of tensors */
    uint64_t bytes;
} layer;

typedef struct plan {
    const tenmap_tensor **tensors; /* in the order in which they are used */
    layer *layers;
    size_t tensor_count, layer_count;
} plan;

/*
 * The length of "model.layers.7." in a name, and the number; the whole name and -1 if it has none.
 */
static size_t layer_prefix(const char *name, long *number) {
    const char *at = name;
    while (*at && !(isdigit((unsigned char)*at) && (at == name || at[-1] == '.')))
        at++;
    *number = *at ? strtol(at, NULL, 10) : -1;
    while (isdigit((unsigned char)*at))
        at++;
    return (size_t)(at - name);
}

/* By layer number, then in file order. */
static int in_use_order(const void *left, const void *right) {
    const tenmap_tensor *a = *(const tenmap_tensor *const *)left;
    const tenmap_tensor *b = *(const tenmap_tensor *const *)right;
    long first, second;
    layer_prefix(a->name, &first);
    layer_prefix(b->name, &second);
    if (first != second)
        return first < second ? -1 : 1;
    if (a->shard != b->shard)
        return a->shard < b->shard ? -1 : 1;
    return a->file_offset < b->file_offset ? -1 : a->file_offset > b->file_offset;
}

static int same_layer(const tenmap_tensor *a, const tenmap_tensor *b) {
    long number, other;
    size_t len = layer_prefix(a->name, &number);
    return layer_prefix(b->name, &other) == len && number == other &&
           memcmp(a->name, b->name, len) == 0;
}

static int make_plan(const tenmap_model *model, plan *p) {
    p->tensor_count = tenmap_count(model);
    p->tensors = calloc(p->tensor_count + 1, sizeof(const tenmap_tensor *));
    p->layers = calloc(p->tensor_count + 1, sizeof *p->layers);
    if (!p->tensors || !p->layers)
        return 0;
    for (size_t i = 0; i < p->tensor_count; i++)
        p->tensors[i] = tenmap_at(model, i);
    qsort(p->tensors, p->tensor_count, sizeof(const tenmap_tensor *), in_use_order);
    for (size_t i = 0; i < p->tensor_count; i++) {
        if (i == 0 || !same_layer(p->tensors[i - 1], p->tensors[i]))
            p->layers[p->layer_count++].first = i;
        p->layers[p->layer_count - 1].count++;
        p->layers[p->layer_count - 1].bytes += p->tensors[i]->nbytes;
    }
    return 1;
}

static tenmap_status advise(const tenmap_model *model, const plan *p, size_t number,
                            uint32_t advice, tenmap_error *error) {
    const layer *l = &p->layers[number];
    return tenmap_advise_list(model, p->tensors + l->first, l->count, advice, error);
}

/* What an engine would compute with the layer. */
static uint64_t use_layer(const plan *p, size_t number) {
    const layer *l = &p->layers[number];
    uint64_t sum = 0, word;
    for (size_t i = l->first; i < l->first + l->count; i++) {
        const unsigned char *bytes = p->tensors[i]->data;
        uint64_t at = 0;
        for (; at + 8 <= p->tensors[i]->nbytes; at += 8) {
            memcpy(&word, bytes + at, 8);
            sum += word;
        }
        for (; at < p->tensors[i]->nbytes; at++)
            sum += bytes[at];
    }
    return sum;
}

static int stream(const tenmap_model *model, const plan *p, uint64_t *sum, tenmap_error *error) {
    for (size_t i = 0; i < p->layer_count; i++) {
        /*
         * First this layer, which waits for what the thread is reading of it; then the thread
         * continues with the next.
         */
        if (advise(model, p, i, TENMAP_ADVISE_POPULATE, error) != TENMAP_OK)
            return 0;
        if (i + 1 < p->layer_count &&
            advise(model, p, i + 1, TENMAP_ADVISE_PREFETCH, error) != TENMAP_OK)
            return 0;
        *sum += use_layer(p, i);
        if (advise(model, p, i, TENMAP_ADVISE_RELEASE, error) != TENMAP_OK)
            return 0;
    }
    return 1;
}

int main(int argc, char **argv) {
    tenmap_model *model;
    tenmap_error error = {0};
    plan p = {0};
    uint64_t sum = 0, largest = 0, left = 0;
    if (argc != 2) {
        fprintf(stderr, "usage: stream MODEL\n");
        return 2;
    }
    if (tenmap_open(argv[1], NULL, &model, &error) != TENMAP_OK) {
        fprintf(stderr, "stream: %s\n", error.message);
        return 1;
    }
    int good = make_plan(model, &p) && stream(model, &p, &sum, &error);
    for (size_t i = 0; i < p.layer_count; i++)
        largest = p.layers[i].bytes > largest ? p.layers[i].bytes : largest;
    if (good && tenmap_resident(model, NULL, &left, NULL) == TENMAP_OK)
        printf("%zu layers of at most %" PRIu64 " bytes, %" PRIu64 " bytes in all, %" PRIu64
               " resident at the end, sum %016" PRIx64 "\n",
               p.layer_count, largest, tenmap_file_size(model), left, sum);
    else
        fprintf(stderr, "stream: %s\n", error.message);
    free(p.tensors);
    free(p.layers);
    tenmap_close(model);
    return good ? 0 : 1;
}
