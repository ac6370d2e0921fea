/*
 * Derived models: tensors that are computed from tensors of other models. derive.c checks what the
 * caller describes and stores it in the form that the makers of the values layer read.
 */
#ifndef TENMAP_DERIVED_H
#define TENMAP_DERIVED_H

#include "computed.h"

enum { TMI_MOST_DERIVED_DEPTH = 8, TMI_MOST_SUMMED = 64, TMI_MOST_JOINED = 65536 };

/* An axis of a term, in elements of its tensor. */
typedef struct tmi_axis {
    uint64_t extent, stride;
} tmi_axis;

/*
 * What is taken of one tensor. Of moves: the element at `at` and those that the axes lead to from
 * there. Of others: `count` elements from `at` on, in the tensor's own order.
 */
typedef struct tmi_derived_term {
    const tenmap_tensor *tensor; /* NULL: zeros */
    double factor;
    uint64_t at, count;
    const tmi_axis *axes; /* of moves: one for each axis of the result, in its order */
} tmi_derived_term;

/*
 * The state of the makers. What the caller describes may take several of these: a block, a
 * transposed term and an `order` are moves of their own if the operation is no move.
 */
typedef struct tmi_derived_tensor {
    tmi_computed computed; /* comes first */
    uint32_t op, n, depth;
    const tmi_derived_term *terms;
    const tenmap_tensor *const *parts; /* what callers see: the tensors of the described terms */
    /*
     * The shards that it comes from, each once, by their numbers in the model that the state
     * belongs to: so that terms that are derived need not be followed to their ends.
     */
    const tenmap_model *home;
    uint32_t *shards;
    size_t shard_count;
    /* Of moves. */
    uint32_t rank;           /* of the result, after `order` and before `shape` */
    uint32_t joined;         /* the axis along which terms follow each other; `rank`: none */
    const uint64_t *extents; /* of the result's axes */
    const uint64_t *starts;  /* n + 1: which index of the joined axis each term begins with */
    /* Of CALL and LOW_RANK: the matrices of the result. */
    uint64_t rows, columns;
    uint64_t *inner; /* of LOW_RANK: for each pair the columns of B, which are A's rows */
    tenmap_status (*call)(void *ctx, uint64_t matrix, uint64_t row, uint64_t column, size_t count,
                          const float *const *terms, float *out, tenmap_error *error);
    void *ctx;
} tmi_derived_tensor;

static inline const tmi_derived_tensor *tmi_derived_of(const tmi_computed *computed) {
    return (const tmi_derived_tensor *)(const void *)computed;
}

/* What only a derived model has. */
typedef struct tmi_derivation {
    const tenmap_model **owners;     /* which model each of model->borrowed belongs to */
    const tenmap_tensor **originals; /* for each tensor the one that it renames, or NULL */
    size_t shard_capacity, owner_capacity;
    tmi_block memory; /* of states, shapes and names; it begins with the tmi_block before it */
    size_t used;
} tmi_derivation;

/* derivation.c */

/*
 * Makes a model derived, with room for so many tensors, of which all but the last `hidden` are
 * listed. Free it with tenmap_close, as any model.
 */
tenmap_status tmi_derivation_begin(tenmap_model **out, size_t tensors, size_t hidden,
                                   tenmap_error *error);
/* Zeroed memory that lives as long as the model; NULL if there is none left. */
void *tmi_derivation_alloc(tenmap_model *model, uint64_t count, size_t size);
/*
 * Sets *number to the number that shard `i` of another model has in the derived model; if it has
 * none yet, it gets the next one.
 */
tenmap_status tmi_derivation_shard(tenmap_model *model, const tenmap_model *from, size_t i,
                                   uint32_t *number, tenmap_error *error);
void tmi_derivation_free(tenmap_model *model);

/* The tensor of another model that this one is only another name of; or NULL. */
static inline const tenmap_tensor *tmi_renamed_tensor(const tenmap_tensor *t) {
    const tmi_derivation *derivation = t->model->derivation;
    return derivation ? derivation->originals[t - t->model->tensors] : NULL;
}

/* The model that a shard of this model was opened with. */
static inline const tenmap_model *tmi_shard_owner(const tenmap_model *model, size_t i) {
    return model->derivation ? model->derivation->owners[i] : model;
}

#endif
