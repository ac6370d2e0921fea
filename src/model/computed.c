/*
 * Where the bytes of any tensor lie: its extent in the file, its share of the stored bytes, how
 * close its elements are, and its spans for residency. Tensors that are not plain are described by
 * their maker's state.
 */
#include "computed.h"
#include "derived.h"
#include "quantized.h"

#include <stdlib.h>

/* How the tensors of one maker lie in their parts. */
typedef struct maker_location {
    const char *why; /* for error messages */
    /* The i-th part, and what it is: TENMAP_PART_*, 0 past the end. */
    const tenmap_tensor *(*part)(const tmi_computed *c, uint32_t i);
    uint32_t (*role)(const tmi_computed *c, uint32_t i);
    /* As tmi_stored_extent and tmi_stored_distance. */
    void (*extent)(const tenmap_tensor *t, const tmi_computed *c, uint64_t first, uint64_t last,
                   uint64_t *begin, uint64_t *end);
    uint64_t (*distance)(const tenmap_tensor *t, const tmi_computed *c, uint64_t elements);
} maker_location;

/* Quantized weights. */

/* Which of the weight's parts the i-th is; TMI_PART_COUNT past the end. */
static unsigned quant_part_number(const tmi_quant_weight *w, uint32_t i) {
    unsigned number = 0;
    while (number < TMI_PART_COUNT && (!w->parts[number] || i-- != 0))
        number++;
    return number;
}

static const tenmap_tensor *quant_part(const tmi_computed *c, uint32_t i) {
    const tmi_quant_weight *w = tmi_quant_weight_of(c);
    unsigned number = quant_part_number(w, i);
    return number < TMI_PART_COUNT ? w->parts[number] : NULL;
}

static uint32_t quant_role(const tmi_computed *c, uint32_t i) {
    static const uint8_t roles[TMI_PART_COUNT + 1] = {
        [TMI_PART_VALUES] = TENMAP_PART_VALUES,
        [TMI_PART_SCALES] = TENMAP_PART_SCALES,
        [TMI_PART_ZEROS] = TENMAP_PART_ZEROS,
        [TMI_PART_GLOBAL_SCALE] = TENMAP_PART_GLOBAL_SCALE,
        [TMI_PART_GROUP_INDEX] = TENMAP_PART_GROUP_INDEX,
        [TMI_PART_TABLE] = TENMAP_PART_TABLE,
        [TMI_PART_NESTED_SCALES] = TENMAP_PART_NESTED_SCALES,
        [TMI_PART_NESTED_TABLE] = TENMAP_PART_NESTED_TABLE,
        [TMI_PART_SHAPE] = TENMAP_PART_OTHER,
        [TMI_PART_ANNOTATION] = TENMAP_PART_OTHER};
    const tmi_quant_weight *w = tmi_quant_weight_of(c);
    unsigned number = quant_part_number(w, i);
    bool added = number == TMI_PART_ZEROS && w->layout.zeros == TMI_ZEROS_ADDED;
    return added ? TENMAP_PART_BIASES : roles[number];
}

/*
 * Covers the part that holds the codes, in whole rows, or in whole matrices if the tensor is
 * transposed.
 */
static void quant_extent(const tenmap_tensor *t, const tmi_computed *c, uint64_t first,
                         uint64_t last, uint64_t *begin, uint64_t *end) {
    const tmi_quant_layout *r = &tmi_quant_weight_of(c)->layout;
    uint64_t each = r->transposed ? r->rows * r->columns : r->columns;
    uint64_t bytes = r->transposed ? r->matrix_bytes : r->row_bytes;
    if (r->rows == 1) { /* one long row */
        *begin = first * r->bits / 8;
        *end = ((last + 1) * r->bits + 7) / 8;
    } else {
        *begin = first / each * bytes;
        *end = (last / each + 1) * bytes;
    }
    *begin += t->file_offset;
    *end += t->file_offset;
}

static uint64_t quant_distance(const tenmap_tensor *t, const tmi_computed *c, uint64_t elements) {
    (void)t;
    return tmi_packed_bytes(elements, tmi_quant_weight_of(c)->layout.bits);
}

/* Strided tensors. */

static const tenmap_tensor *strided_part(const tmi_computed *c, uint32_t i) {
    return i == 0 ? &tmi_strided_of(c)->storage : NULL;
}

static uint32_t strided_role(const tmi_computed *c, uint32_t i) {
    (void)c;
    return i == 0 ? TENMAP_PART_VALUES : 0;
}

/*
 * The elements share their indexes up to some axis. From there on, indexes lie between those of the
 * first and the last element; behind it, they may be anything.
 */
static void strided_extent(const tenmap_tensor *t, const tmi_computed *c, uint64_t first,
                           uint64_t last, uint64_t *begin, uint64_t *end) {
    const tmi_strided_tensor *s = tmi_strided_of(c);
    uint64_t least = 0, most = 0, inside = t->nelems;
    bool shared = true;
    for (uint32_t d = 0; d < t->rank; d++) {
        inside /= t->shape[d];
        uint64_t from = first / inside % t->shape[d], to = last / inside % t->shape[d];
        least += (shared ? from : 0) * s->strides[d];
        most += (shared ? to : t->shape[d] - 1) * s->strides[d];
        shared = shared && from == to;
    }
    *begin = t->file_offset + least * tmi_dtype_width(t->dtype);
    *end = t->file_offset + (most + 1) * tmi_dtype_width(t->dtype);
}

/* From element 0 to the one that many later. */
static uint64_t strided_distance(const tenmap_tensor *t, const tmi_computed *c, uint64_t elements) {
    const tmi_strided_tensor *s = tmi_strided_of(c);
    uint64_t at = 0, inside = t->nelems;
    for (uint32_t d = 0; d < t->rank && inside; d++) {
        inside /= t->shape[d];
        at += elements / inside % t->shape[d] * s->strides[d];
    }
    return at * tmi_dtype_width(t->dtype);
}

/* Derived tensors. */

static const tenmap_tensor *derived_part(const tmi_computed *c, uint32_t i) {
    return i < c->scheme.part_count ? tmi_derived_of(c)->parts[i] : NULL;
}

static uint32_t derived_role(const tmi_computed *c, uint32_t i) {
    return i < c->scheme.part_count ? TENMAP_PART_TERM : 0;
}

/* They come from several files: no bytes of one of them are worth reading in advance. */
static void derived_extent(const tenmap_tensor *t, const tmi_computed *c, uint64_t first,
                           uint64_t last, uint64_t *begin, uint64_t *end) {
    (void)c, (void)first, (void)last;
    *begin = *end = t->file_offset;
}

static uint64_t derived_distance(const tenmap_tensor *t, const tmi_computed *c, uint64_t elements) {
    (void)c;
    return tmi_bytes_of(t->dtype, elements);
}

#define DERIVED_LOCATION                                                                           \
    {                                                                                              \
        "it is derived from other tensors", derived_part, derived_role, derived_extent,            \
            derived_distance                                                                       \
    }

static const maker_location locations[TMI_MAKER_COUNT] = {
    [TMI_MAKER_DEQUANTIZE] = {"it is dequantized from parts", quant_part, quant_role, quant_extent,
                              quant_distance},
    [TMI_MAKER_STRIDED] = {"its elements do not lie one after the other", strided_part,
                           strided_role, strided_extent, strided_distance},
    [TMI_MAKER_MOVE] = DERIVED_LOCATION,
    [TMI_MAKER_COMBINE] = DERIVED_LOCATION};

const char *tmi_why_computed(const tmi_computed *c) {
    return locations[c->maker].why;
}

bool tmi_gives_values(const tenmap_tensor *t) {
    const tmi_computed *c = tmi_computed_of(t);
    return c && c->values;
}

/* Any tensor. */

void tmi_computed_extent(const tenmap_tensor *t, const tmi_computed *computed, uint64_t first,
                         uint64_t last, uint64_t *begin, uint64_t *end) {
    locations[computed->maker].extent(t, computed, first, last, begin, end);
}

uint64_t tmi_stored_distance(const tenmap_tensor *t, tenmap_dtype stored, uint64_t elements) {
    const tmi_computed *c = tmi_computed_of(t);
    return c ? locations[c->maker].distance(t, c, elements) : tmi_bytes_of(stored, elements);
}

/* The bytes, of all parts together, that the elements before element `i` account for. */
static uint64_t part_bytes_before(const tenmap_tensor *t, const tmi_computed *c, uint64_t i) {
    if (i >= t->nelems)
        return c->part_bytes;
    return (uint64_t)((double)c->part_bytes * ((double)i / (double)t->nelems));
}

uint64_t tmi_stored_bytes(const tenmap_tensor *t, tenmap_dtype stored, uint64_t first,
                          uint64_t count) {
    const tmi_computed *c = tmi_computed_of(t);
    if (!c)
        return t->dtype == stored && count == t->nelems ? t->nbytes : tmi_bytes_of(stored, count);
    return part_bytes_before(t, c, first + count) - part_bytes_before(t, c, first);
}

const tenmap_scheme *tenmap_scheme_of(const tenmap_tensor *t) {
    static const tenmap_scheme none = {"none", 0, 0, 0, 0};
    const tmi_computed *c = t ? tmi_computed_of(t) : NULL;
    if (c)
        return &c->scheme;
    const tmi_block_dtype *blocks = t ? tmi_dtype_blocks(t->dtype) : NULL;
    return blocks ? &blocks->scheme : &none;
}

const tenmap_tensor *tenmap_part_at(const tenmap_tensor *t, uint32_t i) {
    const tmi_computed *c = t ? tmi_computed_of(t) : NULL;
    return c ? locations[c->maker].part(c, i) : NULL;
}

const uint64_t *tenmap_strides(const tenmap_tensor *t) {
    const tmi_computed *c = t ? tmi_computed_of(t) : NULL;
    return c && c->maker == TMI_MAKER_STRIDED ? tmi_strided_of(c)->strides : NULL;
}

uint32_t tenmap_part_role(const tenmap_tensor *t, uint32_t i) {
    const tmi_computed *c = t ? tmi_computed_of(t) : NULL;
    return c ? locations[c->maker].role(c, i) : 0;
}

void tmi_each_leaf(const tenmap_tensor *t, tmi_leaf_visit *visit, void *ctx) {
    if (!tmi_computed_of(t)) {
        visit(ctx, t);
        return;
    }
    const tenmap_tensor *part, *last = NULL; /* a term that is repeated is visited once */
    for (uint32_t i = 0; (part = tenmap_part_at(t, i)) != NULL; last = part, i++)
        if (part != last)
            tmi_each_leaf(part, visit, ctx);
}

static void look_for_private(void *ctx, const tenmap_tensor *leaf) {
    bool *found = ctx;
    *found = *found || tmi_shard_of(leaf)->bytes.file.copy_on_write;
}

bool tmi_reads_private(const tenmap_tensor *t) {
    bool found = false;
    tmi_each_leaf(t, look_for_private, &found);
    return found;
}

/* Strided tensors of containers. */

/* What the container said about the tensor at this position of its header. */
static const tmi_strided *declared_at(const tmi_header *header, uint64_t position) {
    size_t first = 0, behind = header->strided_count;
    while (behind - first > 1) {
        size_t middle = first + (behind - first) / 2;
        if (header->strided[middle].position <= position)
            first = middle;
        else
            behind = middle;
    }
    return &header->strided[first];
}

static void describe_strided(const tenmap_tensor *t, tmi_strided_tensor *s) {
    const tmi_shard *shard = tmi_shard_of(t);
    const tmi_strided *declared = declared_at(&shard->header, t->header_position);
    uint32_t bits = tenmap_dtype_bits(t->dtype);
    s->strides = declared->strides;
    s->storage = *t;
    s->storage.rank = 1;
    s->storage.nelems = declared->elements;
    s->storage.shape = &s->storage.nelems;
    s->storage.nbytes = declared->elements * tmi_dtype_width(t->dtype);
    if (shard->view.base)
        s->storage.data =
            (const unsigned char *)shard->view.base + (t->file_offset - shard->view.offset);
    uintptr_t address = s->storage.data ? (uintptr_t)s->storage.data : (uintptr_t)t->file_offset;
    s->storage.flags = address % tmi_dtype_align(t->dtype) == 0 ? TENMAP_TENSOR_ALIGNED : 0;
    s->computed = (tmi_computed){.maker = TMI_MAKER_STRIDED,
                                 .gives = t->dtype,
                                 .scheme = {"strided", bits, 0, 0, 1},
                                 .part_bytes = s->storage.nbytes};
}

tenmap_status tmi_computed_prepare(tenmap_model *model, tenmap_error *error) {
    size_t count = 0, used = 0;
    for (size_t i = 0; i < model->shard_count; i++)
        count += model->shards[i].header.strided_count;
    if (count == 0)
        return TENMAP_OK;
    model->computed = tmi_calloc(model->tensor_count, sizeof *model->computed);
    if (!model->computed ||
        !tmi_block_alloc(&model->strided_block, count * sizeof(tmi_strided_tensor)))
        return tmi_fail_memory(error, (uint64_t)count * sizeof(tmi_strided_tensor),
                               "the strided tensors");
    tmi_strided_tensor *described = model->strided_block.bytes;
    for (size_t i = 0; i < model->tensor_count; i++)
        if (model->tensors[i].flags & TENMAP_TENSOR_COMPUTED) {
            describe_strided(&model->tensors[i], &described[used]);
            model->computed[i] = &described[used++].computed;
        }
    return TENMAP_OK;
}

void tmi_computed_free(tenmap_model *model) {
    free((void *)model->computed);
    tmi_block_free(&model->strided_block);
    for (tmi_block block = model->quantized.shapes.block, before; block.bytes; block = before) {
        before = *(const tmi_block *)block.bytes;
        tmi_block_free(&block);
    }
}
