/* The values of two tensors of one shape, compared. */
#ifndef TOOL_COMPARE_H
#define TOOL_COMPARE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tenmap.h>

/*
 * NaN equals NaN, and each infinity itself. Relative differences are |a - b| / max(|a|, |b|). An
 * element of which one side only is NaN or infinite is beyond every tolerance and in no mean.
 */
typedef struct difference {
    uint64_t count;     /* elements (C64: parts) */
    uint64_t different; /* values that are not equal */
    uint64_t beyond;    /* |a - b| > atol + rtol * |a| */
    uint64_t unlike;    /* NaN or infinite on one side only, or of other signs */
    double max_abs, max_rel;
    double sum_abs, sum_rel;     /* over all elements, for means */
    double sum_squares;          /* of a - b */
    double squares_a, squares_b; /* of the values themselves, for pairs of parts */
} difference;

typedef struct pair {
    const tenmap_tensor *a, *b; /* of one shape, but for pairs of parts */
    bool is_part;               /* not all of both is compared, but: */
    uint64_t first_a, first_b;  /* elements from these on, */
    uint64_t count;             /* so many */
    uint64_t
        head_rows;   /* not 0: each so many rows of one side are read as 0, h/2, 1, h/2 + 1, ... */
    bool turn_b;     /* that side is b */
    bool comparable; /* false: dtypes without values in common; only bytes were compared */
    difference found;
    double norm_a, norm_b; /* Euclidean; once relative_change.h has measured them, where it does */
} pair;

typedef struct tolerance {
    double atol, rtol;
} tolerance;

/*
 * Compares all pairs on some threads (0: as many as processors), with a progress bar. Parts whose
 * bytes are equal are not looked at further. 0, or the exit code of a failure that has been told.
 */
int compare_pairs(pair *pairs, size_t count, tolerance within, unsigned threads);

#endif
