/* The steps of tenmap_derive: what describes one tensor, and the terms of it as boxes. */
#ifndef TENMAP_DERIVE_STEPS_H
#define TENMAP_DERIVE_STEPS_H

#include "derived.h"

/* The tensor that is being made. */
typedef struct tmi_deriving {
    tenmap_model *model;
    const tenmap_derived *given;
    size_t number; /* of the tensor */
    size_t hidden; /* the tensor that the next hidden one becomes */
    tenmap_error *error;
} tmi_deriving;

/* Fails with a message that names the tensor. */
#define TMI_FAIL_DERIVED(d, status, format, ...)                                                   \
    tmi_fail((d)->error, status, "derived tensor %s: " format,                                     \
             tmi_quote((d)->given->name, strlen((d)->given->name)).text, __VA_ARGS__)

/* What is taken of a term: the element at `at`, and those that the axes lead to from there. */
typedef struct tmi_term_box {
    const tenmap_tensor *tensor; /* NULL: zeros */
    double factor;
    uint64_t at, count;
    uint32_t rank;
    tmi_axis *axes;
    uint64_t rows, columns; /* of LOW_RANK's matrix, if it has one */
} tmi_term_box;

/* Takes up term `k` of the description, checked by itself. */
tenmap_status tmi_take_term(const tmi_deriving *d, uint32_t k, tmi_term_box *box);
/* Whether the elements of such axes lie one after the other. */
bool tmi_axes_contiguous(const tmi_axis *axes, uint32_t rank, uint64_t count);
/* The product of the extents; false if it does not fit into 64 bits. 0 if one of them is. */
bool tmi_count_of(const uint64_t *extents, uint32_t rank, uint64_t *count);
/* Memory of the model for this tensor; fails with an error. */
tenmap_status tmi_deriving_alloc(const tmi_deriving *d, uint64_t count, size_t size, void *out);

#endif
