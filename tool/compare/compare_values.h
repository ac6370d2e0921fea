/* Compares the values of two tensors of the same shape. */
#ifndef TOOL_COMPARE_VALUES_H
#define TOOL_COMPARE_VALUES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tenmap.h>

/*
 * NaN equals NaN, and each infinity equals itself. A relative difference is |a - b| / max(|a|,
 * |b|). An element that is NaN or infinite on one side only exceeds every tolerance and enters no
 * mean.
 */
typedef struct difference {
    uint64_t count;     /* elements (C64: real and imaginary parts) */
    uint64_t different; /* values that are not equal */
    uint64_t beyond;    /* |a - b| > atol + rtol * |a| */
    uint64_t unlike;    /* not both finite, and different (NaN equals NaN) */
    uint64_t unlike_a;  /* of these, those that are not finite in a */
    double max_abs, max_rel;
    double sum_abs, sum_rel;     /* over all elements, to compute means */
    double sum_squares;          /* of a - b */
    double squares_a, squares_b; /* of the values themselves, for partial pairs */
} difference;

typedef struct pair {
    const tenmap_tensor *a, *b; /* of the same shape, except for partial pairs */
    bool is_part;               /* only a range of elements is compared: */
    uint64_t first_a, first_b;  /* the first element on each side */
    uint64_t count;             /* and how many */
    /*
     * If nonzero, the rows of one side are read in groups of this many rows (h), each in the order
     * 0, h/2, 1, h/2 + 1, ...
     */
    uint64_t head_rows;
    bool permuted_b; /* that side is b */
    bool comparable; /* false: the dtypes share no values; only bytes were compared */
    difference found;
    double norm_a, norm_b; /* Euclidean norms; set for the pairs that relative_change.h measures */
} pair;

typedef struct tolerance {
    double atol, rtol;
} tolerance;

/*
 * Compares all pairs on `threads` threads (0: one per processor), with a progress bar. Blocks with
 * equal bytes are not examined further. Returns 0, or an exit code after printing an error.
 */
int compare_pairs(pair *pairs, size_t count, tolerance within, unsigned threads);

#endif
