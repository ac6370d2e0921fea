/*
 * Parses a block of a tensor, written as in Python, such as [0:2, -1, ..., :4], and walks over it
 * in pieces.
 */
#ifndef TOOL_SLICE_SYNTAX_H
#define TOOL_SLICE_SYNTAX_H

#include <stdbool.h>
#include <stdint.h>

#include <tenmap.h>

typedef struct slice {
    uint32_t rank;         /* of the tensor */
    uint64_t *begin, *end; /* for each of its dimensions */
    uint32_t out_rank;     /* without the dimensions that a single index removes */
    uint64_t *out_shape;
    uint32_t *out_dim; /* which dimension of the tensor each output dimension is */
    uint64_t count;    /* elements */
    bool whole;        /* the slice is the whole tensor */
} slice;

/* NULL and "" mean the whole tensor. Returns 0, or an exit code after printing an error. */
int slice_parse(const char *given, const tenmap_tensor *tensor, slice *out);
void slice_free(slice *s);

/* Walks a slice in blocks of at most `most` elements, in order. */
typedef struct slice_walk {
    const slice *of;
    uint64_t *begin, *end; /* of the block, as arguments of tenmap_read_slice */
    uint64_t count;        /* its elements */
    /* Along dimension `split`, which is cut; earlier dimensions advance one by one. */
    uint64_t step;
    uint32_t split;
    bool started;
} slice_walk;
void slice_walk_begin(slice_walk *w, const slice *of, uint64_t most);
bool slice_walk_next(slice_walk *w); /* false: no block is left */
void slice_walk_end(slice_walk *w);

#endif
