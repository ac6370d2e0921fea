/* Elements of tensors as text. */
#ifndef TOOL_VALUES_H
#define TOOL_VALUES_H

#include <stddef.h>

#include "view/print.h"
#include "slice_syntax.h"

/*
 * The dtype that elements are read as to be shown: F32 for the floating-point dtypes that are narrower,
 * its own for the others. TENMAP_OPAQUE has none.
 */
tenmap_dtype shown_dtype(tenmap_dtype stored);

/*
 * A block of `count` elements, rounded to `as` (TENMAP_AS_STORED: left alone), in the dtype that it is
 * shown in; dst has room for that.
 */
tenmap_status read_shown(const tenmap_tensor *tensor, const uint64_t *begin, const uint64_t *end,
                         uint64_t count, tenmap_dtype as, void *dst, tenmap_error *error);

/*
 * One element in the host's byte order, of a dtype that shown_dtype returns. `digits` is how many
 * significant ones a floating-point number gets; 0 means the shortest that reads back the same.
 */
void text_add_value(text *t, tenmap_dtype dtype, const void *element, unsigned digits);
/* The same into JSON; NaN and infinities are null, complex numbers [real, imaginary]. */
void json_value(tenmap_dtype dtype, const void *element);

typedef struct value_layout {
    tenmap_dtype as; /* rounded to this first; TENMAP_AS_STORED: not */
    unsigned digits; /* significant ones, as for text_add_value */
    uint64_t edge;   /* of each dimension, show so many at both ends; 0: all */
} value_layout;

/* As numpy prints arrays: rows in brackets, decimal points in line. 0, or an exit code. */
int values_print(const tenmap_tensor *tensor, const slice *s, const value_layout *layout);

#endif
