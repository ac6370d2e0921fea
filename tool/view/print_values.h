/* Formats and prints tensor elements as text. */
#ifndef TOOL_PRINT_VALUES_H
#define TOOL_PRINT_VALUES_H

#include <stddef.h>

#include "view/print.h"
#include "slice_syntax.h"

/*
 * The dtype in which elements are shown: F32 for narrower floating-point dtypes, else the stored
 * one. TENMAP_OPAQUE has none.
 */
tenmap_dtype shown_dtype(tenmap_dtype stored);

/* A block of a tensor: elements begin[d] to end[d] of each dimension d. */
typedef struct tensor_block {
    const tenmap_tensor *tensor;
    const uint64_t *begin, *end;
    uint64_t count; /* of its elements */
} tensor_block;

/*
 * Reads a block, rounded to `as` (TENMAP_AS_STORED: not rounded), in the dtype in which it is
 * shown. dst has room for that.
 */
tenmap_status read_shown(const tensor_block *block, tenmap_dtype as, void *dst,
                         tenmap_error *error);

/*
 * Adds one element in the host's byte order, of a dtype that shown_dtype returns. `digits` is the
 * number of significant digits of a floating-point number; 0 means the shortest form that reads
 * back the same.
 */
void text_add_value(text *t, tenmap_dtype dtype, const void *element, unsigned digits);
/* The same as JSON; NaN and infinities are null, complex numbers are [real, imaginary]. */
void json_value(tenmap_dtype dtype, const void *element);

typedef struct value_layout {
    tenmap_dtype as; /* round to this first; TENMAP_AS_STORED: no rounding */
    unsigned digits; /* significant digits, as for text_add_value */
    uint64_t edge;   /* how many to show at both ends of each dimension; 0: all */
} value_layout;

/* Prints as numpy does: rows in brackets, decimal points aligned. Returns 0 or an exit code. */
int values_print(const tenmap_tensor *tensor, const slice *s, const value_layout *layout);

#endif
