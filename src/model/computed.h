/*
 * Tensors whose elements do not lie one after the other in a file: who makes them (a maker), what
 * the maker gives, and where the bytes lie that it reads. Opening stores a maker's id and its state
 * here; the table of makers is in the values layer (value_source.h). This is also the one place
 * that knows which bytes of files a tensor of either kind accounts for.
 */
#ifndef TENMAP_COMPUTED_H
#define TENMAP_COMPUTED_H

#include "model.h"

/* The makers. tmi_makers of the values layer has an entry for each. */
enum {
    TMI_MAKER_DEQUANTIZE, /* tmi_quant_weight of quantized.h: gives values, as F32 */
    TMI_MAKER_STRIDED,    /* tmi_strided_tensor below: gives elements, bit for bit */
    TMI_MAKER_MOVE,       /* tmi_derived_tensor of derived.h: gives what its terms give */
    TMI_MAKER_COMBINE,    /* the same: computes with its terms and gives values, as F64 or F32 */
    TMI_MAKER_COUNT
};

/* What is known of every such tensor. The state of its maker begins with it. */
typedef struct tmi_computed {
    uint32_t maker; /* TMI_MAKER_* */
    /* What the maker gives: the tensor's own dtype (elements), or the dtype of values. */
    tenmap_dtype gives;
    bool values;          /* values, which are no elements yet, even if their dtype is the same */
    tenmap_scheme scheme; /* what callers see */
    uint64_t part_bytes;  /* of all parts together */
} tmi_computed;

/* A tensor that sees the elements of a storage with strides. */
typedef struct tmi_strided_tensor {
    tmi_computed computed; /* comes first */
    /* The storage's elements from the first to the last that the tensor uses: its only part. */
    tenmap_tensor storage;
    const uint64_t *strides; /* one for each axis, in elements; element 0 is the storage's first */
} tmi_strided_tensor;

static inline const tmi_strided_tensor *tmi_strided_of(const tmi_computed *computed) {
    return (const tmi_strided_tensor *)(const void *)computed;
}

/* NULL for a plain tensor. Nothing else in the library tests the flag. */
static inline const tmi_computed *tmi_computed_of(const tenmap_tensor *t) {
    return t->flags & TENMAP_TENSOR_COMPUTED ? t->model->computed[t - t->model->tensors] : NULL;
}

/* Why it is not plain, for error messages: "it is dequantized from parts". */
const char *tmi_why_computed(const tmi_computed *computed);

/* The dtype that conversions begin with: the tensor's own, unless its maker gives values. */
static inline tenmap_dtype tmi_given_dtype(const tenmap_tensor *t) {
    const tmi_computed *c = tmi_computed_of(t);
    return c ? c->gives : t->dtype;
}

/* Whether the tensor has a maker that gives values, which are no elements yet. */
bool tmi_gives_values(const tenmap_tensor *t);

/*
 * Describes the tensors that containers declared as strided (tmi_header.strided). Call it when the
 * model's table of tensors is complete.
 */
tenmap_status tmi_computed_prepare(tenmap_model *model, tenmap_error *error);
void tmi_computed_free(tenmap_model *model);

/*
 * Where the bytes of any tensor lie. `stored` is the dtype as which the bytes of a plain tensor are
 * read; for others it is ignored. Elements are numbered as the tensor has them.
 */

/*
 * How many bytes of files elements [first, first+count) account for. The numbers of adjacent ranges
 * add up, to the bytes of all parts.
 */
uint64_t tmi_stored_bytes(const tenmap_tensor *t, tenmap_dtype stored, uint64_t first,
                          uint64_t count);
/* About how many bytes of the file lie between elements that are `elements` apart. */
uint64_t tmi_stored_distance(const tenmap_tensor *t, tenmap_dtype stored, uint64_t elements);

/*
 * Sets [*begin, *end) to bytes of the shard's file that hold all elements from `first` to `last`,
 * inclusive; of a quantized weight, to those that hold their codes. The first is for tensors that
 * are not plain.
 */
void tmi_computed_extent(const tenmap_tensor *t, const tmi_computed *computed, uint64_t first,
                         uint64_t last, uint64_t *begin, uint64_t *end);
static inline void tmi_stored_extent(const tenmap_tensor *t, tenmap_dtype stored, uint64_t first,
                                     uint64_t last, uint64_t *begin, uint64_t *end) {
    const tmi_computed *computed = tmi_computed_of(t);
    unsigned within;
    if (computed) {
        tmi_computed_extent(t, computed, first, last, begin, end);
        return;
    }
    *begin = t->file_offset + tmi_byte_of(stored, first, &within);
    *end = t->file_offset + tmi_bytes_of(stored, last + 1);
}

/*
 * The bytes that residency is about: those of a plain tensor, otherwise those of all parts, of
 * their parts, and so on. Calls `visit` with each plain one.
 */
typedef void tmi_leaf_visit(void *ctx, const tenmap_tensor *leaf);
void tmi_each_leaf(const tenmap_tensor *t, tmi_leaf_visit *visit, void *ctx);

/* Whether a program may have written to the mapping of a file that the tensor comes from. */
bool tmi_reads_private(const tenmap_tensor *t);

static inline tmi_span tmi_stored_span(const tenmap_tensor *leaf) {
    return (tmi_span){tmi_shard_of(leaf), leaf->file_offset, leaf->file_offset + leaf->nbytes};
}

#endif
