/*
 * Finds and checks all weights that an engine wants from a model, in one call. Weights that can be
 * used where they lie become views; tenmap_load converts the others into one allocation, or into
 * memory of the caller.
 */
#include "../base/hash.h"
#include "values.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    KNOWN_WANTS = TENMAP_WANT_OPTIONAL | TENMAP_WANT_COPY,
    NUMBER_BITS = 12, /* layer number from bit 8 on, expert number from bit 20 on; 0: none */
    NUMBER_MASK = (1 << NUMBER_BITS) - 1,
    LAYER_AT = 8,
    EXPERT_AT = 20,
    ARENA_ALIGNMENT = 64,     /* at least: a cache line, and the widest vector */
    MOST_ALIGNMENT = 2 << 20, /* of the arena itself */
    SHORT_NAME = 256,         /* longer names are allocated */
};

/* The name of a want with its numbers filled in. Free it with free_name. */
typedef struct wanted_name {
    const char *text;
    size_t len;
    char *taken; /* the allocation of a long name, or NULL */
    char buffer[SHORT_NAME];
} wanted_name;

static void free_name(wanted_name *name) {
    if (name->taken)
        free(name->taken);
}

/*
 * The numbers for the first and the second %u. Returns how many there are; want->numbers is at most
 * 2.
 */
static size_t numbers_of(const tenmap_want *want, uint32_t numbers[2]) {
    size_t count = 0;
    if (want->numbers) {
        numbers[0] = want->layer;
        numbers[1] = want->expert;
        return want->numbers < 2 ? 1 : 2;
    }
    for (unsigned at = LAYER_AT; at <= EXPERT_AT; at += NUMBER_BITS) {
        uint32_t number = want->flags >> at & NUMBER_MASK;
        if (number)
            numbers[count++] = number - 1;
    }
    return count;
}

static char *write_number(char *to, uint32_t number) {
    if (number >= 10)
        to = write_number(to, number / 10);
    *to = (char)('0' + number % 10);
    return to + 1;
}

/*
 * Returns false if there is no memory. The name was checked: it has as many %u as there are
 * numbers.
 */
static bool make_wanted_name(const tenmap_want *want, wanted_name *name) {
    uint32_t numbers[2];
    size_t count = numbers_of(want, numbers);
    name->taken = NULL;
    name->text = want->name;
    name->len = strlen(want->name);
    if (count == 0)
        return true;
    size_t size = name->len + (size_t)2 * NUMBER_BITS;
    char *to = size <= sizeof name->buffer ? name->buffer : (name->taken = malloc(size));
    if (!to)
        return false;
    const char *from = want->name;
    name->text = to;
    for (size_t i = 0; i < count; i++) {
        const char *place = strstr(from, "%u");
        memcpy(to, from, (size_t)(place - from));
        to += place - from;
        to = write_number(to, numbers[i]);
        from = place + 2;
    }
    memcpy(to, from, strlen(from) + 1);
    name->len = (size_t)(to - name->text) + strlen(from);
    return true;
}

/* Whether a quick look shows that nothing is wrong with a want, as with most. */
static inline bool is_plain_want(const tenmap_want *want) {
    return want->name && want->as < TMI_DTYPE_COUNT && want->alignment == 0 &&
           (want->flags & ~(uint32_t)KNOWN_WANTS) == 0 &&
           !(want->reserved[0] | want->reserved[1] | want->reserved2 | want->numbers | want->layer |
             want->expert | want->dst_bytes) &&
           !want->begin && !want->end && !want->dst;
}

/* What is wrong with the numbers for a want's name, or NULL. */
static const char *numbers_problem(const tenmap_want *want) {
    uint32_t numbers[2];
    if (want->numbers > 2)
        return "its numbers are more than 2";
    if (want->numbers && want->flags >> LAYER_AT)
        return "it has numbers both in its flags and in its fields";
    if ((want->numbers < 1 && want->layer) || (want->numbers < 2 && want->expert))
        return "it has a layer or an expert that its numbers do not count";
    size_t count = numbers_of(want, numbers), places = 0;
    for (size_t k = 0; k < count && !want->numbers; k++)
        if (numbers[k] == NUMBER_MASK - 1)
            return "its number is larger than 4093; use the fields numbers, layer and expert";
    for (const char *p = want->name; count && (p = strstr(p, "%u")) != NULL; p += 2)
        places++;
    return places == count ? NULL
                           : "the number of %u in its name differs from how many numbers it has";
}

/* What is wrong with what is asked for and with where it shall go, or NULL. */
static const char *place_problem(const tenmap_want *want) {
    uint32_t alignment = want->alignment;
    if (alignment > MOST_ALIGNMENT || (alignment & (alignment - 1)))
        return "its alignment is not a power of two up to 2 MiB";
    if (want->as != TENMAP_OPAQUE && strcmp(tenmap_dtype_name(want->as), "UNKNOWN") == 0)
        return "its dtype is not a known dtype";
    if (!want->begin != !want->end)
        return "only one of its begin and end is NULL";
    if (want->begin && !want->shape && want->rank == 0)
        return "a block of it needs the rank that it must have";
    if (!want->dst && want->dst_bytes)
        return "its dst is NULL, but dst_bytes is not 0";
    if (want->dst && alignment && (uintptr_t)want->dst % alignment)
        return "its dst does not have its alignment";
    return NULL;
}

/* Fails if something is wrong with a want by itself. */
static tenmap_status check_want(const tenmap_want *want, size_t i, tenmap_error *error) {
    const char *why = NULL;
    if (!want->name)
        why = "its name is NULL";
    else if (want->flags & 0xff & ~(uint32_t)KNOWN_WANTS)
        why = "it has unknown flags";
    else if (want->reserved[0] || want->reserved[1] || want->reserved2)
        why = "its reserved fields must be 0";
    else
        why = place_problem(want);
    if (!why)
        why = numbers_problem(want);
    if (!why)
        return TENMAP_OK;
    tmi_fail(error, TENMAP_ERR_ARGUMENT, "want %llu: %s", (ull)i, why);
    if (error)
        error->index = i;
    return TENMAP_ERR_ARGUMENT;
}

static bool has_shape(const tenmap_want *want, const tenmap_tensor *t) {
    if (!want->shape)
        return want->rank == 0 || want->rank == t->rank;
    if (want->rank != t->rank)
        return false;
    for (uint32_t d = 0; d < t->rank; d++)
        if (want->shape[d] != t->shape[d] && want->shape[d] != TENMAP_ANY_EXTENT)
            return false;
    return true;
}

/* The elements of a tensor that are wanted: all of them, or a block. */
typedef struct wanted_elements {
    uint64_t first, count;
    bool together; /* they lie one after the other, from `first` on */
    bool inside;   /* the block lies inside the tensor, and cuts through no block of its dtype */
} wanted_elements;

static bool is_wanted_as_stored(const tenmap_want *want, const tenmap_tensor *t) {
    return want->as == TENMAP_AS_STORED || want->as == t->dtype;
}

static wanted_elements select_block(const tenmap_want *want, const tenmap_tensor *t) {
    tmi_walk walk[TMI_MOST_WALKED];
    tmi_transfer x = {.tensor = t, .stored = t->dtype, .walk = walk};
    const tmi_block_dtype *blocks =
        is_wanted_as_stored(want, t) ? tmi_dtype_blocks(t->dtype) : NULL;
    if (tmi_transfer_block(&x, want->begin, want->end, NULL) != TENMAP_OK)
        return (wanted_elements){0, 0, false, false};
    if (x.count == 0)
        return (wanted_elements){0, 0, true, true};
    bool whole = !blocks || (x.start % blocks->elements == 0 && x.run % blocks->elements == 0);
    return (wanted_elements){x.start, x.count, x.walked == 0, whole};
}

/*
 * Whether only bytes can be copied: all elements of an unknown dtype or a block dtype, wanted as
 * stored.
 */
static bool takes_bytes(const tenmap_want *want, const tenmap_tensor *t) {
    return !want->begin && is_wanted_as_stored(want, t) && t->dtype >= TMI_DTYPE_COUNT;
}

/* Whether the elements are whole bytes, from *at on, or reach to the last byte of the tensor. */
static bool begins_at_byte(const wanted_elements *e, const tenmap_tensor *t, uint64_t *at) {
    unsigned begin, end;
    if (t->dtype == TENMAP_OPAQUE)
        return false;
    *at = tmi_byte_of(t->dtype, e->first, &begin);
    (void)tmi_byte_of(t->dtype, e->first + e->count, &end);
    return begin == 0 && (end == 0 || e->first + e->count == t->nelems);
}

/* If the elements can be used where they lie, sets *at to the first one's byte in the tensor. */
static bool can_view(const tenmap_want *want, const tenmap_tensor *t, const wanted_elements *e,
                     uint64_t *at) {
    *at = 0;
    return t->data && (t->flags & TENMAP_TENSOR_ALIGNED) && !(want->flags & TENMAP_WANT_COPY) &&
           !want->dst && is_wanted_as_stored(want, t) && e->together &&
           !(TMI_BIG_ENDIAN && tmi_dtype_align(t->dtype) > 1) &&
           (!want->begin || begins_at_byte(e, t, at)) &&
           (want->alignment == 0 ||
            (((uintptr_t)t->data + (uintptr_t)*at) & (want->alignment - 1)) == 0);
}

/* Whether tenmap_load accepts it. */
static bool can_copy(const tenmap_want *want, const tenmap_tensor *t) {
    tmi_transfer x;
    return takes_bytes(want, t) ||
           tmi_transfer_begin(&x, t, TENMAP_AS_STORED, want->as, 0, NULL) == TENMAP_OK;
}

/*
 * The size of the elements in memory; UINT64_MAX if that overflows. Elements of an unknown dtype,
 * of which no block can be taken, have none.
 */
static uint64_t bytes_wanted(const tenmap_want *want, const tenmap_tensor *t,
                             const wanted_elements *e) {
    tenmap_dtype dtype = want->as ? want->as : t->dtype;
    uint64_t bytes = t->nbytes;
    if (dtype != TENMAP_OPAQUE && (want->begin || !is_wanted_as_stored(want, t)))
        (void)tmi_dtype_bytes(dtype, e->count, &bytes);
    return bytes;
}

/* The first few wants that are missing or do not fit, and how many there are in all. */
typedef struct misfits {
    size_t count, shown, first;
    tenmap_status status; /* of the first */
    size_t used;
    char text[300];
} misfits;

static void write_shape(char *text, size_t size, uint32_t rank, const uint64_t *shape) {
    size_t used = (size_t)snprintf(text, size, "[");
    for (uint32_t d = 0; d < rank && used + 28 < size; d++) {
        const char *comma = d ? ", " : "";
        used += (size_t)(shape[d] == TENMAP_ANY_EXTENT
                             ? snprintf(text + used, size - used, "%sany", comma)
                             : snprintf(text + used, size - used, "%s%llu", comma, (ull)shape[d]));
    }
    snprintf(text + used, size - used, used + 28 < size ? "]" : ", ...]");
}

/* Adds one in words. If there is no room for it, it is only counted. */
static void add_misfit(misfits *m, size_t i, tenmap_status status, const wanted_name *name,
                       const char *what) {
    enum { SHOWN_AT_MOST = 5, ROOM_FOR_COUNT = 32 };
    if (m->count++ == 0) {
        m->first = i;
        m->status = status;
    }
    tmi_quoted quoted = tmi_quote(name->text, name->len);
    size_t left = sizeof m->text - m->used, need = strlen(quoted.text) + strlen(what) + 3;
    if (m->shown + 1 < m->count || m->shown == SHOWN_AT_MOST ||
        (m->shown && need + ROOM_FOR_COUNT > left))
        return;
    int wrote =
        snprintf(m->text + m->used, left, "%s%s %s", m->shown ? ", " : "", quoted.text, what);
    m->used += (size_t)wrote < left ? (size_t)wrote : left - 1;
    m->shown++;
}

static void add_misshapen(misfits *m, size_t i, const tenmap_want *want, const tenmap_tensor *t,
                          const wanted_name *name) {
    char found[96], expected[96], what[220];
    write_shape(found, sizeof found, t->rank, t->shape);
    if (want->shape)
        write_shape(expected, sizeof expected, want->rank, want->shape);
    else
        snprintf(expected, sizeof expected, "of rank %u", (unsigned)want->rank);
    snprintf(what, sizeof what, "is %s, not %s", found, expected);
    add_misfit(m, i, TENMAP_ERR_RANGE, name, what);
}

static void add_unconvertible(misfits *m, size_t i, const tenmap_want *want, const tenmap_tensor *t,
                              const wanted_name *name) {
    char what[220];
    if (is_wanted_as_stored(want, t))
        snprintf(what, sizeof what, "is %s, of which no block can be taken",
                 tmi_stored_dtype(t).text);
    else
        snprintf(what, sizeof what, "is %s, which does not convert to %s", tmi_stored_dtype(t).text,
                 tenmap_dtype_name(want->as));
    add_misfit(m, i, TENMAP_ERR_UNSUPPORTED, name, what);
}

/* A block that is not inside the weight, or not in whole blocks of its dtype. */
static void add_miscut(misfits *m, size_t i, const tenmap_want *want, const tenmap_tensor *t,
                       const wanted_name *name) {
    char found[96], begin[80], end[80], what[400];
    const tmi_block_dtype *blocks = tmi_dtype_blocks(t->dtype);
    write_shape(found, sizeof found, t->rank, t->shape);
    write_shape(begin, sizeof begin, t->rank, want->begin);
    write_shape(end, sizeof end, t->rank, want->end);
    snprintf(what, sizeof what, "is %s; the block from %s to %s is not inside it%s", found, begin,
             end, blocks ? ", or not in whole blocks" : "");
    add_misfit(m, i, TENMAP_ERR_RANGE, name, what);
}

static void add_too_large(misfits *m, size_t i, const tenmap_want *want, const wanted_name *name) {
    char what[96];
    snprintf(what, sizeof what, "takes %llu bytes; its destination has %llu", (ull)want->nbytes,
             (ull)want->dst_bytes);
    add_misfit(m, i, TENMAP_ERR_BUFFER, name, what);
}

typedef struct take_job {
    const tenmap_model *model;
    tenmap_want *wants;
    size_t want_count;
    tenmap_load_options given;
    tmi_block block; /* of requests and want_of */
    tenmap_request *requests;
    size_t *want_of;             /* the want of each request */
    size_t copies;               /* how many requests there will be */
    size_t arena_copies;         /* how many of them go into the arena */
    const tenmap_tensor *next;   /* the tensor after the one found last */
    const tenmap_tensor *behind; /* the end of the model's tensors */
    uint64_t bytes;              /* of the arena */
    size_t alignment;            /* of the arena */
    tenmap_arena *arena;         /* the new one; NULL: none is needed */
} take_job;

/* For names, which are too short for a call of memcmp to pay off. */
static inline bool same_bytes(const char *a, const char *b, size_t len) {
    if (len < 8)
        return memcmp(a, b, len) == 0;
    uint64_t unlike = tmi_load64(a + len - 8) ^ tmi_load64(b + len - 8);
    for (size_t i = 0; i + 8 < len; i += 8)
        unlike |= tmi_load64(a + i) ^ tmi_load64(b + i);
    return unlike == 0;
}

/*
 * Finds a tensor by name. Engines that list their weights in file order ask for the tensor after
 * the last one: a comparison costs a third of a lookup.
 */
static const tenmap_tensor *find_named(take_job *job, const wanted_name *name) {
    const tenmap_model *model = job->model;
    const tenmap_tensor *t = job->next;
    if (t == job->behind || t->name_len != name->len || !same_bytes(t->name, name->text, name->len))
        t = tenmap_find_n(model, name->text, name->len);
    if (t)
        job->next = t + 1;
    return t;
}

/* Sets the data of a want whose shape fits if it is a view; counts it if it must be copied. */
static void place_found(take_job *job, size_t i, const wanted_name *name, misfits *m) {
    tenmap_want *want = &job->wants[i];
    const tenmap_tensor *t = want->tensor;
    wanted_elements e = {0, t->nelems, true, true};
    uint64_t at;
    if (want->begin)
        e = select_block(want, t);
    want->nbytes = bytes_wanted(want, t, &e);
    if (!e.inside)
        add_miscut(m, i, want, t, name);
    else if (can_view(want, t, &e, &at))
        want->data = (const unsigned char *)t->data + at;
    else if (!can_copy(want, t))
        add_unconvertible(m, i, want, t, name);
    else if (want->dst && want->dst_bytes < want->nbytes)
        add_too_large(m, i, want, name);
    else {
        job->copies++;
        job->arena_copies += !want->dst;
    }
}

/* Finds one want's tensor. Sets its data if it is a view; counts it if it must be copied. */
static tenmap_status find_want(take_job *job, size_t i, misfits *m, tenmap_error *error) {
    tenmap_want *want = &job->wants[i];
    wanted_name name;
    if (!make_wanted_name(want, &name))
        return tmi_fail_memory(error, strlen(want->name), "a name");
    const tenmap_tensor *t = find_named(job, &name);
    want->tensor = t;
    if (!t && !(want->flags & TENMAP_WANT_OPTIONAL))
        add_misfit(m, i, TENMAP_ERR_NOT_FOUND, &name, "is missing");
    else if (t && !has_shape(want, t))
        add_misshapen(m, i, want, t, &name);
    else if (t)
        place_found(job, i, &name, m);
    free_name(&name);
    return TENMAP_OK;
}

/* Models that were opened from a descriptor or from memory have no path. */
static const char *model_shown(const tenmap_model *model) {
    const char *path = tenmap_path(model);
    return *path || !model->shard_count ? path : tmi_shard_at(model, 0)->bytes.shown;
}

/* If the weight is there in parts, says that the model can be opened with its values. */
static tenmap_status explain_quantized(const take_job *job, const tenmap_want *want,
                                       tenmap_status status, tenmap_error *error) {
    wanted_name name;
    if (!error || job->model->quantized.weights || !make_wanted_name(want, &name))
        return status;
    if (tmi_stored_in_parts(job->model, name.text, name.len)) {
        tmi_fail_more(error,
                      "; the model is quantized: opened to be dequantized, it has the values");
        error->remedy = TENMAP_REMEDY_DEQUANTIZE;
    }
    free_name(&name);
    return status;
}

static tenmap_status find_wants(take_job *job, tenmap_error *error) {
    misfits m;
    m.count = m.shown = m.used = 0;
    for (size_t i = 0; i < job->want_count; i++) {
        tenmap_want *want = &job->wants[i];
        want->data = NULL;
        want->nbytes = 0;
        tenmap_status status = is_plain_want(want) ? TENMAP_OK : check_want(want, i, error);
        if (status == TENMAP_OK)
            status = find_want(job, i, &m, error);
        if (status != TENMAP_OK)
            return status;
    }
    if (m.count == 0)
        return TENMAP_OK;
    char more[40] = "";
    if (m.count > m.shown)
        snprintf(more, sizeof more, " and %llu more", (ull)(m.count - m.shown));
    tmi_fail(error, m.status, "%s: %llu of %llu weights are missing or do not fit: %s%s",
             tmi_quote_path(model_shown(job->model)).text, (ull)m.count, (ull)job->want_count,
             m.text, more);
    if (error)
        error->index = m.first;
    return explain_quantized(job, &job->wants[m.first], m.status, error);
}

/*
 * Makes the request of a want that is copied, and gives it a place in the arena, unless it has a
 * destination. Returns false if the total overflows.
 */
static bool place_want(take_job *job, size_t i, tenmap_request *r) {
    const tenmap_want *want = &job->wants[i];
    size_t alignment = want->alignment > ARENA_ALIGNMENT ? want->alignment : ARENA_ALIGNMENT;
    bool as_bytes = takes_bytes(want, want->tensor);
    r->tensor = want->tensor;
    r->as = as_bytes ? TENMAP_AS_STORED : want->as;
    r->stored_as = as_bytes ? TENMAP_U8 : TENMAP_AS_STORED;
    r->begin = want->begin;
    r->end = want->end;
    r->dst = want->dst;
    r->dst_bytes = (size_t)want->nbytes;
    if (want->nbytes > SIZE_MAX / 2)
        return false;
    if (want->dst)
        return true;
    if (alignment > job->alignment)
        job->alignment = alignment;
    uint64_t at = (job->bytes + alignment - 1) / alignment * alignment;
    job->bytes = at + want->nbytes;
    r->dst_stride = at; /* its offset, until the arena is allocated */
    return job->bytes <= SIZE_MAX / 2;
}

/* Makes the requests for all wants that are copied, and allocates the arena. */
static tenmap_status plan_copies(take_job *job, tenmap_error *error) {
    size_t each = sizeof *job->requests + sizeof *job->want_of, n = 0;
    size_t size = job->copies > SIZE_MAX / each ? SIZE_MAX : job->copies * each;
    if (size == SIZE_MAX || !tmi_block_alloc(&job->block, size))
        return tmi_fail_memory(error, size, "the list of weights");
    job->requests = job->block.bytes;
    job->want_of = (size_t *)(void *)(job->requests + job->copies);
    for (size_t i = 0; i < job->want_count; i++) {
        const tenmap_want *want = &job->wants[i];
        if (!want->tensor || want->data)
            continue;
        job->want_of[n] = i;
        if (!place_want(job, i, &job->requests[n++]))
            return tmi_fail_memory(error, UINT64_MAX, "weights");
    }
    tenmap_status status = job->arena_copies ? tmi_arena_create(&job->arena, &job->given,
                                                                job->bytes, job->alignment, error)
                                             : TENMAP_OK;
    for (size_t k = 0; k < n && status == TENMAP_OK; k++) {
        tenmap_request *r = &job->requests[k];
        if (!r->dst)
            r->dst = tmi_arena_memory(job->arena) + r->dst_stride;
        r->dst_stride = 0;
        job->wants[job->want_of[k]].data = r->dst;
    }
    return status;
}

static int pass_progress(void *ctx, uint64_t done, uint64_t total) {
    const take_job *job = ctx;
    return job->given.progress(job->given.ctx, done, total);
}

static void pass_done(void *ctx, size_t request, tenmap_status status) {
    const take_job *job = ctx;
    job->given.done(job->given.ctx, job->want_of[request], status);
}

/* Reports views as done, and loads the rest. Requests of the load are reported as wants. */
static tenmap_status run_take(take_job *job, tenmap_error *error) {
    tenmap_load_options options = job->given;
    if (options.progress)
        options.progress = pass_progress;
    if (options.done)
        options.done = pass_done;
    options.ctx = job;
    options.struct_size = sizeof options;
    options.append = NULL;
    size_t next = 0;
    for (size_t i = 0; options.done && i < job->want_count; i++) {
        if (next < job->copies && job->want_of[next] == i)
            next++;
        else
            job->given.done(job->given.ctx, i, TENMAP_OK);
    }
    if (!job->copies && !options.progress)
        return TENMAP_OK;
    tenmap_status status = tenmap_load(job->model, job->requests, job->copies, &options, error);
    bool of_one = status != TENMAP_ERR_CANCELLED && status != TENMAP_ERR_MEMORY;
    if (status != TENMAP_OK && of_one && error && job->copies)
        error->index = job->want_of[error->index];
    return status;
}

static void clear_wants(tenmap_want *wants, size_t n) {
    for (size_t i = 0; i < n; i++) {
        wants[i].data = NULL;
        wants[i].tensor = NULL;
        wants[i].nbytes = 0;
    }
}

tenmap_status tenmap_take(const tenmap_model *model, tenmap_want *wants, size_t n,
                          const tenmap_load_options *options, tenmap_arena **arena,
                          tenmap_error *error) {
    take_job job = {.model = model, .wants = wants, .want_count = n};
    /* `arena` may be the address of options->append, so the options are copied first. */
    tenmap_status status = tmi_init_take_options(options, &job.given, error);
    if (arena)
        *arena = NULL;
    if (!model || !arena || (!wants && n)) {
        clear_wants(wants, wants ? n : 0);
        return tmi_fail(error, TENMAP_ERR_ARGUMENT, "%s NULL",
                        !model   ? "the model is"
                        : !arena ? "the place for the arena is"
                                 : "the list of wants is");
    }
    job.next = model->tensors;
    job.behind = model->tensor_count ? model->tensors + model->tensor_count : job.next;
    if (status == TENMAP_OK)
        status = find_wants(&job, error);
    if (status == TENMAP_OK && job.copies)
        status = plan_copies(&job, error);
    if (status == TENMAP_OK)
        status = run_take(&job, error);
    tmi_block_free(&job.block);
    if (status != TENMAP_OK) {
        clear_wants(wants, n);
        tenmap_arena_free(job.arena);
        return status;
    }
    if (job.given.append && job.arena)
        tmi_arena_append(job.given.append, job.arena);
    *arena = job.given.append ? job.given.append : job.arena;
    return status;
}
