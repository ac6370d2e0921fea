/*
 * tenmap_derive: checks what the caller describes, completely, and makes a model of it. Makers of
 * the values layer give its elements later.
 */
#include "derive.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_INNER = 1 << 30 };                    /* columns of all B */
enum { MOST_LOW_RANK = 1 + 2 * TMI_MOST_SUMMED }; /* terms: as many pairs as others have terms */

static bool is_move(uint32_t op) {
    return op <= TENMAP_DERIVE_STACK;
}

/* What the tensor is before it becomes a view or gets a state. */
typedef struct derived_result {
    tmi_term_box *boxes;
    tenmap_dtype dtype;
    uint32_t rank;
    uint64_t *extents; /* of op's result, before `order` */
    uint64_t count;
    const uint64_t *shape; /* in the end */
    uint32_t shape_rank;
} derived_result;

/* Arguments. */

static tenmap_status check_name(const tmi_deriving *d) {
    const char *name = d->given->name;
    if (!name)
        return tmi_fail(d->error, TENMAP_ERR_ARGUMENT, "derived tensor %llu: its name is NULL",
                        (ull)d->number);
    size_t len = strlen(name), valid = tmi_utf8_valid(name, len);
    if (valid != len)
        return TMI_FAIL_DERIVED(d, TENMAP_ERR_ARGUMENT, "byte %llu of its name is not valid UTF-8",
                                (ull)valid);
    return TENMAP_OK;
}

static tenmap_status check_count(const tmi_deriving *d) {
    static const uint32_t most[] = {[TENMAP_DERIVE_RENAME] = 1,
                                    [TENMAP_DERIVE_CONCAT] = TMI_MOST_JOINED,
                                    [TENMAP_DERIVE_STACK] = TMI_MOST_JOINED,
                                    [TENMAP_DERIVE_SUM] = TMI_MOST_SUMMED,
                                    [TENMAP_DERIVE_LOW_RANK] = MOST_LOW_RANK,
                                    [TENMAP_DERIVE_CALL] = TMI_MOST_SUMMED};
    const tenmap_derived *g = d->given;
    if (g->op < TENMAP_DERIVE_RENAME || g->op > TENMAP_DERIVE_CALL)
        return TMI_FAIL_DERIVED(d, TENMAP_ERR_ARGUMENT,
                                "its op is %u; TENMAP_DERIVE_RENAME (1) to _CALL (6) are known",
                                (unsigned)g->op);
    if (!g->terms || g->n == 0)
        return TMI_FAIL_DERIVED(d, TENMAP_ERR_ARGUMENT, "%s", "it has no terms");
    if (g->n > most[g->op])
        return TMI_FAIL_DERIVED(d, TENMAP_ERR_LIMIT,
                                "it has %u terms, and this op takes at most %u", (unsigned)g->n,
                                (unsigned)most[g->op]);
    if (g->op == TENMAP_DERIVE_LOW_RANK && (g->n < 3 || g->n % 2 == 0))
        return TMI_FAIL_DERIVED(d, TENMAP_ERR_ARGUMENT,
                                "it has %u terms; LOW_RANK takes one, then pairs (B, A)",
                                (unsigned)g->n);
    return TENMAP_OK;
}

static tenmap_status check_given(const tmi_deriving *d) {
    const tenmap_derived *g = d->given;
    tenmap_status status = check_name(d);
    if (status == TENMAP_OK)
        status = check_count(d);
    if (status != TENMAP_OK)
        return status;
    if (g->reserved[0] || g->reserved[1] || g->reserved[2] || g->reserved[3])
        return TMI_FAIL_DERIVED(d, TENMAP_ERR_ARGUMENT, "%s", "its reserved fields must be 0");
    if (!g->call != (g->op != TENMAP_DERIVE_CALL))
        return TMI_FAIL_DERIVED(d, TENMAP_ERR_ARGUMENT, "call is %s",
                                g->call ? "set, but its op is not TENMAP_DERIVE_CALL" : "NULL");
    if (g->axis && g->op != TENMAP_DERIVE_CONCAT && g->op != TENMAP_DERIVE_STACK)
        return TMI_FAIL_DERIVED(d, TENMAP_ERR_ARGUMENT, "axis is %u, but its op has none",
                                (unsigned)g->axis);
    if (!g->shape && g->rank)
        return TMI_FAIL_DERIVED(d, TENMAP_ERR_ARGUMENT, "its shape is NULL, but its rank is %u",
                                (unsigned)g->rank);
    return TENMAP_OK;
}

/* How many hidden tensors the description may need at most. */
static size_t count_hidden(const tenmap_derived *g) {
    size_t count = g->order != NULL;
    for (uint32_t k = 0; k < g->n; k++)
        count += g->terms[k].begin || g->terms[k].flags;
    return is_move(g->op) ? 0 : count;
}

/* Shapes. */

/* Two terms of which one must have the other's shape, except along one axis. */
static tenmap_status check_same_shape(const tmi_deriving *d, const tmi_term_box *first,
                                      const tmi_term_box *box, uint32_t k, uint32_t except) {
    if (box->rank != first->rank)
        return TMI_FAIL_DERIVED(d, TENMAP_ERR_ARGUMENT,
                                "term %u has %u axes, but term 0 has %u (nothing broadcasts)",
                                (unsigned)k, (unsigned)box->rank, (unsigned)first->rank);
    for (uint32_t i = 0; i < box->rank; i++)
        if (i != except && box->axes[i].extent != first->axes[i].extent)
            return TMI_FAIL_DERIVED(
                d, TENMAP_ERR_ARGUMENT,
                "dimension %u of term %u is %llu, but that of term 0 is %llu (nothing broadcasts)",
                (unsigned)i, (unsigned)k, (ull)box->axes[i].extent, (ull)first->axes[i].extent);
    return TENMAP_OK;
}

/* Sets the extents of the result of an op whose terms have one shape; CONCAT's but for one axis. */
static tenmap_status set_result_shape(const tmi_deriving *d, derived_result *r) {
    const tenmap_derived *g = d->given;
    const tmi_term_box *first = r->boxes;
    bool concat = g->op == TENMAP_DERIVE_CONCAT, stack = g->op == TENMAP_DERIVE_STACK;
    r->rank = first->rank + stack;
    if ((concat || stack) && g->axis >= r->rank)
        return TMI_FAIL_DERIVED(d, TENMAP_ERR_ARGUMENT, "axis is %u, but it has %u axes",
                                (unsigned)g->axis, (unsigned)r->rank);
    tenmap_status status = TENMAP_OK;
    for (uint32_t k = 1; status == TENMAP_OK && k < g->n; k++)
        status = check_same_shape(d, first, &r->boxes[k], k, concat ? g->axis : UINT32_MAX);
    if (status == TENMAP_OK)
        status = tmi_deriving_alloc(d, r->rank, sizeof *r->extents, &r->extents);
    if (status != TENMAP_OK)
        return status;
    for (uint32_t i = 0; i < r->rank; i++)
        r->extents[i] =
            stack && i == g->axis ? g->n : first->axes[stack && i > g->axis ? i - 1 : i].extent;
    for (uint32_t k = 1; concat && k < g->n; k++) {
        uint64_t more = r->boxes[k].axes[g->axis].extent, *sum = &r->extents[g->axis];
        if (more > UINT64_MAX - *sum)
            return TMI_FAIL_DERIVED(d, TENMAP_ERR_LIMIT,
                                    "dimension %u is more than 64 bits can count",
                                    (unsigned)g->axis);
        *sum += more;
    }
    return TENMAP_OK;
}

/* W, and pairs of B and A: rows of B are those of W, and so on. */
static tenmap_status set_low_rank_shape(const tmi_deriving *d, derived_result *r) {
    const tmi_term_box *w = &r->boxes[0];
    uint64_t rows = w->tensor ? w->rows : r->boxes[1].rows;
    uint64_t columns = w->tensor ? w->columns : r->boxes[2].columns, inner = 0;
    for (uint32_t k = 1; k < d->given->n; k += 2) {
        const tmi_term_box *b = &r->boxes[k], *a = &r->boxes[k + 1];
        inner = b->columns > MOST_INNER ? b->columns : inner + b->columns;
        if (b->columns != a->rows)
            return TMI_FAIL_DERIVED(d, TENMAP_ERR_ARGUMENT,
                                    "B, term %u, has %llu columns, but A, term %u, has %llu rows",
                                    (unsigned)k, (ull)b->columns, (unsigned)k + 1, (ull)a->rows);
        if (b->rows != rows || a->columns != columns)
            return TMI_FAIL_DERIVED(d, TENMAP_ERR_ARGUMENT,
                                    "B @ A of terms %u and %u is %llu x %llu, but %s is "
                                    "%llu x %llu",
                                    (unsigned)k, (unsigned)k + 1, (ull)b->rows, (ull)a->columns,
                                    w->tensor ? "term 0" : "the first product", (ull)rows,
                                    (ull)columns);
    }
    if (inner > MOST_INNER)
        return TMI_FAIL_DERIVED(d, TENMAP_ERR_LIMIT, "all B have %llu columns; at most %llu work",
                                (ull)inner, (ull)MOST_INNER);
    r->rank = w->tensor ? w->rank : 2;
    tenmap_status status = tmi_deriving_alloc(d, r->rank, sizeof *r->extents, &r->extents);
    for (uint32_t i = 0; status == TENMAP_OK && i < r->rank; i++)
        r->extents[i] = w->tensor ? w->axes[i].extent : i ? columns : rows;
    return status;
}

/* `order` must be a permutation of the axes. */
static tenmap_status check_order(const tmi_deriving *d, const derived_result *r) {
    const uint32_t *order = d->given->order;
    unsigned char *seen = NULL;
    if (!order)
        return TENMAP_OK;
    tenmap_status status = tmi_deriving_alloc(d, r->rank, 1, &seen);
    for (uint32_t i = 0; status == TENMAP_OK && i < r->rank; i++) {
        if (order[i] >= r->rank || seen[order[i]])
            return TMI_FAIL_DERIVED(d, TENMAP_ERR_ARGUMENT,
                                    "order[%u] is %u: order is no permutation of its %u axes",
                                    (unsigned)i, (unsigned)order[i], (unsigned)r->rank);
        seen[order[i]] = 1;
    }
    return status;
}

/* The axis of op's result that axis `i` of the ordered result is. */
static uint32_t ordered_axis(const tmi_deriving *d, uint32_t i) {
    return d->given->order ? d->given->order[i] : i;
}

/* The shape in the end. */
static tenmap_status set_shape(const tmi_deriving *d, derived_result *r) {
    const tenmap_derived *g = d->given;
    uint64_t *shape, count;
    r->shape_rank = g->shape ? g->rank : r->rank;
    tenmap_status status = tmi_deriving_alloc(d, r->shape_rank, sizeof *shape, &shape);
    for (uint32_t i = 0; status == TENMAP_OK && i < r->shape_rank; i++)
        shape[i] = g->shape ? g->shape[i] : r->extents[ordered_axis(d, i)];
    r->shape = shape;
    if (status != TENMAP_OK)
        return status;
    if (!tmi_count_of(shape, r->shape_rank, &count) || count != r->count)
        return TMI_FAIL_DERIVED(d, TENMAP_ERR_ARGUMENT,
                                "it has %llu elements, so it cannot have a shape of %s",
                                (ull)r->count, tmi_count(count, "element").text);
    return TENMAP_OK;
}

/* Dtypes. */

static tenmap_status set_moved_dtype(const tmi_deriving *d, derived_result *r) {
    r->dtype = r->boxes[0].tensor->dtype;
    for (uint32_t k = 1; k < d->given->n; k++)
        if (r->boxes[k].tensor->dtype != r->dtype)
            return TMI_FAIL_DERIVED(d, TENMAP_ERR_ARGUMENT,
                                    "term %u is %s, but term 0 is %s: elements are moved as they "
                                    "are",
                                    (unsigned)k, tenmap_dtype_name(r->boxes[k].tensor->dtype),
                                    tenmap_dtype_name(r->dtype));
    if (d->given->dtype != TENMAP_AS_STORED && d->given->dtype != r->dtype)
        return TMI_FAIL_DERIVED(
            d, TENMAP_ERR_ARGUMENT,
            "its dtype is to be %s, but its terms are %s: elements are moved as "
            "they are",
            tenmap_dtype_name(d->given->dtype), tenmap_dtype_name(r->dtype));
    return TENMAP_OK;
}

static bool is_wide_float(tenmap_dtype dtype) {
    return dtype == TENMAP_F64 || dtype == TENMAP_F32 || dtype == TENMAP_F16 ||
           dtype == TENMAP_BF16;
}

static tenmap_status set_computed_dtype_of(const tmi_deriving *d, derived_result *r) {
    const tenmap_tensor *first = r->boxes[0].tensor;
    for (uint32_t k = 0; k < d->given->n; k++) {
        const tenmap_tensor *t = r->boxes[k].tensor;
        if (t && tenmap_dtype_kind(t->dtype) != TENMAP_KIND_FLOAT)
            return TMI_FAIL_DERIVED(d, TENMAP_ERR_UNSUPPORTED,
                                    "term %u is %s; only floating-point numbers are computed with",
                                    (unsigned)k, tenmap_dtype_name(t->dtype));
    }
    r->dtype = d->given->dtype;
    if (r->dtype == TENMAP_AS_STORED)
        r->dtype = first && is_wide_float(first->dtype) ? first->dtype : TENMAP_F32;
    if (tenmap_dtype_kind(r->dtype) != TENMAP_KIND_FLOAT || tmi_dtype_width(r->dtype) == 0)
        return TMI_FAIL_DERIVED(d, TENMAP_ERR_UNSUPPORTED,
                                "its dtype is to be %s, which is not a floating-point dtype of "
                                "whole bytes",
                                tenmap_dtype_name(r->dtype));
    return TENMAP_OK;
}

/* Blocks of a block dtype are moved whole, and fill the rows of the result. */
static tenmap_status check_blocks(const tmi_deriving *d, const derived_result *r,
                                  const tmi_derived_tensor *s) {
    const tmi_block_dtype *blocks = tmi_dtype_blocks(r->dtype);
    if (!blocks)
        return TENMAP_OK;
    uint64_t each = blocks->elements;
    bool whole = r->shape_rank && r->shape[r->shape_rank - 1] % each == 0 && s->rank;
    for (uint32_t k = 0; whole && k < s->n; k++) {
        const tmi_axis *last = &s->terms[k].axes[s->rank - 1];
        whole = s->terms[k].at % each == 0 && last->extent % each == 0 &&
                (last->stride == 1 || last->extent == 0);
        for (uint32_t i = 0; whole && i + 1 < s->rank; i++)
            whole = s->terms[k].axes[i].extent <= 1 || s->terms[k].axes[i].stride % each == 0;
    }
    if (whole)
        return TENMAP_OK;
    return TMI_FAIL_DERIVED(d, TENMAP_ERR_UNSUPPORTED,
                            "blocks of %s have %llu elements; its rows would not consist of whole "
                            "ones",
                            blocks->name, (ull)each);
}

/* Sets the bytes of a read as the tensor's own dtype. */
static tenmap_status set_nbytes(const tmi_deriving *d, tenmap_dtype dtype, tenmap_tensor *t) {
    if (!tmi_dtype_bytes(dtype, t->nelems, &t->nbytes) || t->nbytes > INT64_MAX)
        return TMI_FAIL_DERIVED(d, TENMAP_ERR_LIMIT,
                                "its %llu elements are more bytes than 63 bits can count",
                                (ull)t->nelems);
    return TENMAP_OK;
}

/* Views. */

static uint32_t alignment_flag(const tenmap_tensor *t) {
    uintptr_t address = t->data ? (uintptr_t)t->data : (uintptr_t)t->file_offset;
    return address % tmi_dtype_align(t->dtype) == 0 ? TENMAP_TENSOR_ALIGNED : 0;
}

static bool same_shape(const tenmap_tensor *t, const derived_result *r) {
    return r->shape_rank == t->rank &&
           (t->rank == 0 || memcmp(r->shape, t->shape, t->rank * sizeof *r->shape) == 0);
}

/* A range of a stored tensor's bytes. Sets *done if it is one. */
static tenmap_status view_bytes(const tmi_deriving *d, const derived_result *r, uint64_t at,
                                tenmap_tensor *t, bool *done) {
    const tenmap_tensor *from = r->boxes[0].tensor;
    const tmi_block_dtype *blocks = tmi_dtype_blocks(from->dtype);
    bool whole = r->count == from->nelems;
    unsigned within = 0;
    if (!whole && from->dtype == TENMAP_OPAQUE)
        return TENMAP_OK;
    if (blocks && !same_shape(from, r) &&
        (r->shape_rank == 0 || r->shape[r->shape_rank - 1] % blocks->elements != 0))
        return TENMAP_OK; /* the caller fails */
    uint64_t offset = whole ? 0 : tmi_byte_of(from->dtype, at, &within), bytes = from->nbytes;
    if (within != 0 ||
        (!whole && !blocks && tmi_whole_bytes(from->dtype, r->count, &bytes) != TMI_BYTES_WHOLE))
        return TENMAP_OK;
    if (!whole && blocks)
        bytes = tmi_bytes_of(from->dtype, r->count);
    t->nbytes = bytes;
    t->data = from->data ? (const unsigned char *)from->data + offset : NULL;
    t->file_offset = from->file_offset + offset;
    t->flags = whole ? from->flags : alignment_flag(t);
    *done = true;
    return tmi_derivation_shard(d->model, from->model, from->shard, &t->shard, d->error);
}

/*
 * Makes the tensor another name for a tensor, or for a part of a stored one whose bytes lie
 * together. Sets *done if it did.
 */
static tenmap_status make_view(const tmi_deriving *d, const derived_result *r,
                               const tmi_derived_tensor *s, tenmap_tensor *t, bool *done) {
    const tmi_derived_term *term = &s->terms[0];
    const tenmap_tensor *from = term->tensor;
    const tmi_computed *computed = tmi_computed_of(from);
    if (d->given->op != TENMAP_DERIVE_RENAME || !tmi_axes_contiguous(term->axes, s->rank, r->count))
        return TENMAP_OK;
    tenmap_status status = TENMAP_OK;
    if (!computed) {
        status = view_bytes(d, r, term->at, t, done);
    } else if (r->count == from->nelems && same_shape(from, r)) {
        t->nbytes = from->nbytes;
        t->file_offset = from->file_offset;
        t->flags = from->flags;
        d->model->computed[t - d->model->tensors] = computed;
        *done = true;
        status = tmi_derivation_shard(d->model, from->model, from->shard, &t->shard, d->error);
    }
    if (*done)
        d->model->derivation->originals[t - d->model->tensors] = from;
    return status;
}

/* States. */

static uint32_t depth_of(const tenmap_tensor *t) {
    const tmi_computed *c = t ? tmi_computed_of(t) : NULL;
    return c && c->maker >= TMI_MAKER_MOVE ? tmi_derived_of(c)->depth : 0;
}

/* The bytes of files that a term accounts for. Terms that nest may count more than there are. */
static uint64_t bytes_of_box(const tmi_term_box *box) {
    const tenmap_tensor *t = box->tensor;
    uint64_t all = t ? tmi_stored_bytes(t, t->dtype, 0, t->nelems) : 0;
    if (!t || t->nelems == 0 || box->count >= t->nelems)
        return all;
    return (uint64_t)((double)all * ((double)box->count / (double)t->nelems));
}

/* What callers see: the scheme, the parts, the depth. Also what the maker gives. */
static tenmap_status describe(const tmi_deriving *d, const derived_result *r,
                              tmi_derived_tensor *s) {
    const uint64_t most_bytes = UINT64_C(1) << 62; /* so that no sum overflows */
    const tenmap_derived *g = d->given;
    const tenmap_tensor **parts;
    tmi_computed *c = &s->computed;
    tenmap_status status = tmi_deriving_alloc(d, g->n, sizeof *parts, (void *)&parts);
    if (status != TENMAP_OK)
        return status;
    s->parts = parts;
    s->op = g->op;
    *c = (tmi_computed){.maker = is_move(g->op) ? TMI_MAKER_MOVE : TMI_MAKER_COMBINE,
                        .gives = r->dtype,
                        .scheme = {"derived", tenmap_dtype_bits(r->dtype), 0, 0, 0}};
    bool values = false, wide = r->dtype == TENMAP_F64;
    for (uint32_t k = 0; k < g->n; k++) {
        const tenmap_tensor *t = r->boxes[k].tensor;
        uint64_t bytes = bytes_of_box(&r->boxes[k]), depth = depth_of(t);
        if (!t)
            continue;
        parts[c->scheme.part_count++] = t;
        c->part_bytes += bytes;
        if (c->part_bytes > most_bytes)
            c->part_bytes = most_bytes;
        s->depth = depth > s->depth ? (uint32_t)depth : s->depth;
        values = values || tmi_gives_values(t);
        wide = wide || (tmi_gives_values(t) && tmi_given_dtype(t) == TENMAP_F64);
    }
    if (++s->depth > TMI_MOST_DERIVED_DEPTH)
        return TMI_FAIL_DERIVED(d, TENMAP_ERR_LIMIT,
                                "its terms are derived from others that are derived, %u deep; at "
                                "most %u are allowed",
                                (unsigned)s->depth, (unsigned)TMI_MOST_DERIVED_DEPTH);
    c->values = values || !is_move(g->op);
    if (!is_move(g->op))
        c->gives = g->op == TENMAP_DERIVE_CALL ? TENMAP_F32 : TENMAP_F64;
    else if (values)
        c->gives = wide ? TENMAP_F64 : TENMAP_F32;
    return TENMAP_OK;
}

/* Sets the terms of a move, with their axes in the order of the result. */
static tenmap_status set_moves(const tmi_deriving *d, const derived_result *r,
                               tmi_derived_tensor *s) {
    const tenmap_derived *g = d->given;
    tmi_derived_term *terms;
    uint64_t *starts, *extents;
    uint32_t *kept; /* which axes of the result are kept */
    tenmap_status status = tmi_deriving_alloc(d, g->n, sizeof *terms, &terms);
    if (status == TENMAP_OK)
        status = tmi_deriving_alloc(d, (uint64_t)g->n + 1, sizeof *starts, &starts);
    if (status == TENMAP_OK)
        status = tmi_deriving_alloc(d, r->rank, sizeof *extents, &extents);
    if (status == TENMAP_OK)
        status = tmi_deriving_alloc(d, r->rank, sizeof *kept, &kept);
    if (status != TENMAP_OK)
        return status;
    s->n = g->n;
    s->terms = terms;
    s->starts = starts;
    s->extents = extents;
    bool stack = g->op == TENMAP_DERIVE_STACK, joins = g->op != TENMAP_DERIVE_RENAME;
    uint32_t used = 0;
    for (uint32_t i = 0; i < r->rank; i++) {
        bool joined = joins && ordered_axis(d, i) == g->axis;
        s->joined = joined ? used : s->joined;
        kept[used] = ordered_axis(d, i);
        extents[used] = r->extents[kept[used]];
        used += joined || extents[used] != 1; /* axes of extent 1 only add to the start */
    }
    s->rank = used;
    s->joined = joins ? s->joined : used;
    for (uint32_t k = 0; k < g->n; k++) {
        const tmi_term_box *box = &r->boxes[k];
        tmi_axis *axes;
        status = tmi_deriving_alloc(d, used, sizeof *axes, &axes);
        if (status != TENMAP_OK)
            return status;
        for (uint32_t i = 0; i < used; i++) {
            uint32_t from = kept[i];
            axes[i] = stack && from == g->axis
                          ? (tmi_axis){1, 0}
                          : box->axes[stack && from > g->axis ? from - 1 : from];
        }
        terms[k] = (tmi_derived_term){box->tensor, 0, box->at, box->count, axes};
        starts[k + 1] = starts[k] + (joins ? axes[s->joined].extent : 0);
    }
    return TENMAP_OK;
}

/* Stores a COMPUTED tensor of this state. */
static tenmap_status finish_computed(const tmi_deriving *d, const tmi_derived_tensor *s,
                                     tenmap_dtype dtype, tenmap_tensor *t) {
    const tenmap_tensor *first = s->parts[0];
    t->flags = TENMAP_TENSOR_COMPUTED;
    t->file_offset = first->file_offset;
    t->dtype = dtype;
    d->model->computed[t - d->model->tensors] = &s->computed;
    tenmap_status status =
        tmi_derivation_shard(d->model, first->model, first->shard, &t->shard, d->error);
    return status == TENMAP_OK ? set_nbytes(d, dtype, t) : status;
}

/* A tensor that is not listed, for a step of its own. */
static tenmap_tensor *next_hidden(tmi_deriving *d, const tenmap_tensor *listed) {
    tenmap_tensor *hidden = &d->model->tensors[d->hidden++];
    *hidden = *listed;
    return hidden;
}

/* A move of one term as a hidden tensor: a block or a transposed term of another operation. */
static tenmap_status hide_move(tmi_deriving *d, const tenmap_tensor *listed, tmi_term_box *box) {
    tmi_derived_tensor *s;
    tmi_derived_term *term;
    const tenmap_tensor *from = box->tensor, **part;
    uint64_t *extents, *starts;
    tenmap_status status = tmi_deriving_alloc(d, 1, sizeof *s, &s);
    if (status == TENMAP_OK)
        status = tmi_deriving_alloc(d, 1, sizeof *term, &term);
    if (status == TENMAP_OK)
        status = tmi_deriving_alloc(d, 1, sizeof(const tenmap_tensor *), (void *)&part);
    if (status == TENMAP_OK)
        status = tmi_deriving_alloc(d, 2, sizeof *starts, &starts);
    if (status == TENMAP_OK)
        status = tmi_deriving_alloc(d, box->rank, sizeof *extents, &extents);
    if (status != TENMAP_OK)
        return status;
    uint32_t used = 0;
    for (uint32_t i = 0; i < box->rank; i++) {
        extents[used] = box->axes[i].extent;
        box->axes[used] = box->axes[i];
        used += extents[used] != 1;
    }
    *term = (tmi_derived_term){from, 0, box->at, box->count, box->axes};
    *part = from;
    *s = (tmi_derived_tensor){.computed = {.maker = TMI_MAKER_MOVE,
                                           .gives = tmi_given_dtype(from),
                                           .values = tmi_gives_values(from),
                                           .scheme = {"derived", 0, 0, 0, 1}},
                              .op = TENMAP_DERIVE_RENAME,
                              .n = 1,
                              .terms = term,
                              .parts = part,
                              .rank = used,
                              .joined = used,
                              .extents = extents,
                              .starts = starts};
    tenmap_tensor *hidden = next_hidden(d, listed);
    hidden->rank = used;
    hidden->shape = extents;
    hidden->nelems = box->count;
    status = finish_computed(d, s, from->dtype, hidden);
    box->tensor = hidden;
    box->at = 0;
    return status;
}

/* Sets the terms of an operation that is no move: each a range of a tensor. */
static tenmap_status set_ranges(tmi_deriving *d, derived_result *r, const tenmap_tensor *listed,
                                tmi_derived_tensor *s) {
    const tenmap_derived *g = d->given;
    tmi_derived_term *terms;
    bool low_rank = g->op == TENMAP_DERIVE_LOW_RANK;
    tenmap_status status = tmi_deriving_alloc(d, g->n, sizeof *terms, &terms);
    if (status == TENMAP_OK && low_rank)
        status = tmi_deriving_alloc(d, g->n / 2, sizeof *s->inner, &s->inner);
    for (uint32_t k = 0; status == TENMAP_OK && k < g->n; k++) {
        tmi_term_box *box = &r->boxes[k];
        if (low_rank && k % 2 == 1)
            s->inner[k / 2] = box->columns;
        if (box->tensor && !tmi_axes_contiguous(box->axes, box->rank, box->count))
            status = hide_move(d, listed, box);
        terms[k] = (tmi_derived_term){box->tensor, box->factor, box->at, box->count, NULL};
    }
    s->n = g->n;
    s->terms = terms;
    s->call = g->call;
    s->ctx = g->ctx;
    s->columns = low_rank ? r->boxes[2].columns : r->rank ? r->extents[r->rank - 1] : 1;
    s->rows = low_rank ? r->boxes[1].rows : r->rank > 1 ? r->extents[r->rank - 2] : 1;
    return status;
}

/* Gives the hidden result of an operation the order of axes that the caller wants. */
static tenmap_status order_result(tmi_deriving *d, const derived_result *r,
                                  const tmi_derived_tensor *inner, tenmap_tensor *t) {
    tmi_derived_tensor *s;
    tmi_term_box box = {.count = r->count, .rank = r->rank};
    tenmap_tensor *hidden = next_hidden(d, t);
    hidden->rank = r->rank;
    hidden->shape = r->extents;
    tenmap_status status = finish_computed(d, inner, r->dtype, hidden);
    if (status == TENMAP_OK)
        status = tmi_deriving_alloc(d, 1, sizeof *s, &s);
    if (status == TENMAP_OK)
        status = tmi_deriving_alloc(d, r->rank, sizeof *box.axes, &box.axes);
    uint64_t stride = 1;
    for (uint32_t i = r->rank; status == TENMAP_OK && i-- > 0; stride *= r->extents[i])
        box.axes[i] = (tmi_axis){r->extents[i], stride};
    if (status != TENMAP_OK)
        return status;
    box.tensor = hidden;
    derived_result moved = *r;
    tenmap_derived rename = {
        .name = d->given->name, .op = TENMAP_DERIVE_RENAME, .n = 1, .order = d->given->order};
    tmi_deriving as_rename = *d;
    moved.boxes = &box;
    as_rename.given = &rename;
    *s = *inner; /* what callers see */
    s->computed.maker = TMI_MAKER_MOVE;
    status = set_moves(&as_rename, &moved, s);
    return status == TENMAP_OK ? finish_computed(d, s, r->dtype, t) : status;
}

static tenmap_status make_move(const tmi_deriving *d, const derived_result *r,
                               tmi_derived_tensor *s, tenmap_tensor *t) {
    bool done = false;
    tenmap_status status = set_moves(d, r, s);
    if (status == TENMAP_OK)
        status = make_view(d, r, s, t, &done);
    if (status == TENMAP_OK && !done)
        status = check_blocks(d, r, s);
    if (status != TENMAP_OK || done)
        return status;
    if (!tmi_dtype_blocks(r->dtype) && tmi_dtype_width(r->dtype) == 0)
        return TMI_FAIL_DERIVED(
            d, TENMAP_ERR_UNSUPPORTED,
            "elements of %s are not whole bytes, so only a part whose bytes lie "
            "together can be renamed",
            tenmap_dtype_name(r->dtype));
    return finish_computed(d, s, r->dtype, t);
}

static tenmap_status make_computed(tmi_deriving *d, derived_result *r, tmi_derived_tensor *s,
                                   tenmap_tensor *t) {
    tenmap_status status = set_ranges(d, r, t, s);
    if (status != TENMAP_OK)
        return status;
    return d->given->order ? order_result(d, r, s, t) : finish_computed(d, s, r->dtype, t);
}

/* Takes up the terms, and finds the dtype and the shape of the result. */
static tenmap_status find_result(const tmi_deriving *d, derived_result *r) {
    tenmap_status status = tmi_deriving_alloc(d, d->given->n, sizeof *r->boxes, &r->boxes);
    for (uint32_t k = 0; status == TENMAP_OK && k < d->given->n; k++)
        status = tmi_take_term(d, k, &r->boxes[k]);
    if (status == TENMAP_OK)
        status = is_move(d->given->op) ? set_moved_dtype(d, r) : set_computed_dtype_of(d, r);
    if (status == TENMAP_OK)
        status = d->given->op == TENMAP_DERIVE_LOW_RANK ? set_low_rank_shape(d, r)
                                                        : set_result_shape(d, r);
    if (status != TENMAP_OK)
        return status;
    if (!tmi_count_of(r->extents, r->rank, &r->count))
        return TMI_FAIL_DERIVED(d, TENMAP_ERR_LIMIT, "%s",
                                "its elements are more than 64 bits can count");
    status = check_order(d, r);
    return status == TENMAP_OK ? set_shape(d, r) : status;
}

/* The model. */

static tenmap_status check_options(const tenmap_options *given, tenmap_error *error) {
    static const tenmap_options defaults = TENMAP_OPTIONS_INIT;
    static const tmi_options_kind kind = {.name = "tenmap_options",
                                          .init = "TENMAP_OPTIONS_INIT",
                                          .size = sizeof(tenmap_options),
                                          .first_size =
                                              offsetof(tenmap_options, length) + sizeof(uint64_t),
                                          .flags = offsetof(tenmap_options, flags),
                                          .reserved = offsetof(tenmap_options, reserved)};
    tenmap_options options;
    tenmap_status status = tmi_options_copy(&kind, given, &options, error);
    options.struct_size = defaults.struct_size;
    if (status == TENMAP_OK && memcmp(&options, &defaults, sizeof options) != 0)
        status = tmi_fail(error, TENMAP_ERR_ARGUMENT,
                          "tenmap_derive opens no file: its options are NULL or all defaults");
    return status;
}

/* Path, folder and metadata are those of the model of the first term. */
static tenmap_status take_after(tenmap_model *model, const tenmap_model *first,
                                tenmap_error *error) {
    size_t path = first->path ? strlen(first->path) : 0;
    size_t folder = first->folder ? strlen(first->folder) : 0;
    if (first->path)
        model->path = tmi_copy_text(first->path, path);
    if (first->folder)
        model->folder = tmi_copy_text(first->folder, folder);
    if ((first->path && !model->path) || (first->folder && !model->folder))
        return tmi_fail_memory(error, path + folder, "the path");
    model->metadata = first->metadata;
    model->metadata_count = first->metadata_count;
    return TENMAP_OK;
}

/* The shards of what a tensor is computed from, each once. */
typedef struct shard_list {
    const tmi_deriving *d;
    uint32_t *numbers;
    size_t count, capacity;
    tenmap_status status;
} shard_list;

static void list_shard(shard_list *list, const tenmap_model *from, size_t i) {
    uint32_t number;
    if (list->status != TENMAP_OK)
        return;
    list->status = tmi_derivation_shard(list->d->model, from, i, &number, list->d->error);
    if (list->status != TENMAP_OK)
        return;
    for (size_t k = list->count; k-- > 0;)
        if (list->numbers[k] == number)
            return;
    uint32_t *grown = tmi_grow(list->numbers, list->count, &list->capacity, sizeof *grown);
    if (!grown) {
        list->status = tmi_fail_memory(list->d->error, list->count * sizeof number, "the shards");
        return;
    }
    list->numbers = grown;
    grown[list->count++] = number;
}

static void list_leaf(void *ctx, const tenmap_tensor *leaf) {
    list_shard(ctx, leaf->model, leaf->shard);
}

static void list_term(shard_list *list, const tenmap_tensor *t) {
    const tmi_computed *c = tmi_computed_of(t);
    if (!c || c->maker < TMI_MAKER_MOVE) {
        tmi_each_leaf(t, list_leaf, list);
        return;
    }
    const tmi_derived_tensor *derived = tmi_derived_of(c);
    for (size_t i = 0; i < derived->shard_count; i++)
        list_shard(list, derived->home, derived->shards[i]);
}

/* Adds the shards of all terms to the model, and to the state of the tensor if it has its own. */
static tenmap_status add_shards(const tmi_deriving *d, tmi_derived_tensor *s) {
    shard_list list = {.d = d, .status = TENMAP_OK};
    for (uint32_t k = 0; k < d->given->n; k++)
        if (d->given->terms[k].tensor)
            list_term(&list, d->given->terms[k].tensor);
    if (list.status == TENMAP_OK)
        list.status = tmi_deriving_alloc(d, list.count, sizeof *s->shards, &s->shards);
    if (list.status == TENMAP_OK && list.count)
        memcpy(s->shards, list.numbers, list.count * sizeof *s->shards);
    s->shard_count = list.count;
    s->home = d->model;
    free(list.numbers);
    return list.status;
}

/* Makes the tensor, when everything about it is known and checked. */
static tenmap_status make_derived(tmi_deriving *d, derived_result *r, tmi_derived_tensor *s,
                                  tenmap_tensor *t) {
    tenmap_status status = add_shards(d, s);
    if (status != TENMAP_OK)
        return status;
    return is_move(d->given->op) ? make_move(d, r, s, t) : make_computed(d, r, s, t);
}

static tenmap_status derive_tensor(tmi_deriving *d) {
    derived_result r = {.boxes = NULL};
    tmi_derived_tensor *s;
    tenmap_tensor *t = &d->model->tensors[d->number];
    size_t len = strlen(d->given->name);
    char *name;
    tenmap_status status = find_result(d, &r);
    if (status == TENMAP_OK)
        status = tmi_deriving_alloc(d, (uint64_t)len + 1, 1, &name);
    if (status == TENMAP_OK)
        status = tmi_deriving_alloc(d, 1, sizeof *s, &s);
    if (status == TENMAP_OK)
        status = describe(d, &r, s);
    if (status != TENMAP_OK)
        return status;
    memcpy(name, d->given->name, len);
    *t = (tenmap_tensor){.name = name,
                         .name_len = len,
                         .dtype = r.dtype,
                         .rank = r.shape_rank,
                         .shape = r.shape,
                         .nelems = r.count,
                         .model = d->model,
                         .header_position = d->number};
    uint64_t hash = tmi_hash(&d->model->key, name, len);
    size_t twin = tmi_names_put(&d->model->names, d->number, hash);
    if (twin != TMI_NONE)
        return TMI_FAIL_DERIVED(d, TENMAP_ERR_ARGUMENT,
                                "it is number %llu, and number %llu has the same name",
                                (ull)d->number, (ull)twin);
    return make_derived(d, &r, s, t);
}

static tenmap_status derive_all(tenmap_model *model, const tenmap_derived *tensors, size_t n,
                                tenmap_error *error) {
    tmi_deriving d = {.model = model, .hidden = n, .error = error};
    const tenmap_term *first = tensors[0].terms;
    tenmap_status status = TENMAP_OK;
    for (; status == TENMAP_OK && d.number < n; d.number++) {
        d.given = &tensors[d.number];
        status = derive_tensor(&d);
        model->tensor_count++;
        if (status != TENMAP_OK && error)
            error->index = d.number;
    }
    if (status != TENMAP_OK)
        return status;
    first += !first->tensor; /* LOW_RANK has a second term */
    return take_after(model, first->tensor->model, error);
}

tenmap_status tenmap_derive(const tenmap_derived *tensors, size_t n, const tenmap_options *options,
                            tenmap_model **out, tenmap_error *error) {
    if (!out)
        return tmi_fail(error, TENMAP_ERR_ARGUMENT, "the model's address (out) is NULL");
    *out = NULL;
    tenmap_status status = check_options(options, error);
    if (status != TENMAP_OK)
        return status;
    if (!tensors || n == 0)
        return tmi_fail(error, TENMAP_ERR_ARGUMENT, "there is no tensor to derive");
    tmi_deriving d = {.error = error};
    size_t hidden = 0;
    for (; status == TENMAP_OK && d.number < n; d.number++) {
        d.given = &tensors[d.number];
        status = check_given(&d);
        if (status == TENMAP_OK)
            hidden += count_hidden(d.given);
        else if (error)
            error->index = d.number;
    }
    tenmap_model *model = NULL;
    if (status == TENMAP_OK)
        status = tmi_derivation_begin(&model, n, hidden, error);
    if (status == TENMAP_OK)
        status = derive_all(model, tensors, n, error);
    if (status == TENMAP_OK)
        *out = model;
    else
        tenmap_close(model);
    return status;
}
