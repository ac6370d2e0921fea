/* A block of a tensor, written as in Python: [0:2, -1, ..., :4]. */
#ifndef TOOL_SLICE_H
#define TOOL_SLICE_H

#include <stdbool.h>
#include <stdint.h>

#include <tenmap.h>

typedef struct slice {
    uint32_t rank;         /* of the tensor */
    uint64_t *begin, *end; /* for each of its dimensions */
    uint32_t out_rank;     /* without the dimensions that a single index takes away */
    uint64_t *out_shape;
    uint32_t *out_dim; /* which dimension of the tensor each of them is */
    uint64_t count;    /* elements */
    bool whole;        /* the tensor itself */
} slice;

/* NULL and "" mean the whole tensor. 0, or an exit code of a failure that has been told. */
int slice_parse(const char *given, const tenmap_tensor *tensor, slice *out);
void slice_free(slice *s);

/* The slice in blocks of at most `most` elements, in order. */
typedef struct slice_walk {
    const slice *of;
    uint64_t *begin, *end; /* of the block, as tenmap_read_slice takes them */
    uint64_t count;        /* its elements */
    uint64_t step;         /* of dimension `split`, which is cut; those before go one by one */
    uint32_t split;
    bool started;
} slice_walk;
void slice_walk_begin(slice_walk *w, const slice *of, uint64_t most);
bool slice_walk_next(slice_walk *w); /* false: no block is left */
void slice_walk_end(slice_walk *w);

#endif
