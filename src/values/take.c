/*
 * Finds and checks all weights that an engine wants from a model, in one call. Weights that can be
 * used where they lie become views; tenmap_load converts the others into one allocation.
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

/* The numbers for the first and the second %u. Returns how many there are. */
static size_t numbers_of(const tenmap_want *want, uint32_t numbers[2]) {
    size_t count = 0;
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
           (want->flags & ~(uint32_t)KNOWN_WANTS) == 0 && !(want->reserved[0] | want->reserved[1]);
}

/* Fails if something is wrong with a want by itself. */
static tenmap_status check_want(const tenmap_want *want, size_t i, tenmap_error *error) {
    uint32_t numbers[2];
    size_t count = want->name ? numbers_of(want, numbers) : 0, places = 0;
    const char *why = NULL;
    if (!want->name)
        why = "its name is NULL";
    else if (want->flags & 0xff & ~(uint32_t)KNOWN_WANTS)
        why = "it has unknown flags";
    else if (want->reserved[0] || want->reserved[1])
        why = "its reserved fields must be 0";
    else if (want->alignment > MOST_ALIGNMENT || (want->alignment & (want->alignment - 1)))
        why = "its alignment is not a power of two up to 2 MiB";
    else if (want->as != TENMAP_OPAQUE && strcmp(tenmap_dtype_name(want->as), "UNKNOWN") == 0)
        why = "its dtype is not a known dtype";
    if (!why && count) {
        for (const char *p = want->name; (p = strstr(p, "%u")) != NULL; p += 2)
            places++;
        for (size_t k = 0; k < count; k++)
            if (numbers[k] == NUMBER_MASK - 1)
                why = "its number is larger than 4093; write the name out";
        if (!why && places != count)
            why = "the number of %u in its name differs from how many numbers it has";
    }
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

/*
 * Whether only bytes can be copied: elements of an unknown dtype or a block dtype, wanted as
 * stored.
 */
static bool takes_bytes(const tenmap_want *want, const tenmap_tensor *t) {
    return (want->as == TENMAP_AS_STORED || want->as == t->dtype) && t->dtype >= TMI_DTYPE_COUNT;
}

/* Whether the tensor can be used where it lies. */
static bool can_view(const tenmap_want *want, const tenmap_tensor *t) {
    return t->data && (t->flags & TENMAP_TENSOR_ALIGNED) && !(want->flags & TENMAP_WANT_COPY) &&
           (want->as == TENMAP_AS_STORED || want->as == t->dtype) &&
           !(TMI_BIG_ENDIAN && tmi_dtype_align(t->dtype) > 1) &&
           (want->alignment == 0 || ((uintptr_t)t->data & (want->alignment - 1)) == 0);
}

/* Whether tenmap_load accepts it. */
static bool can_copy(const tenmap_want *want, const tenmap_tensor *t) {
    tmi_transfer x;
    return takes_bytes(want, t) ||
           tmi_transfer_begin(&x, t, TENMAP_AS_STORED, want->as, 0, NULL) == TENMAP_OK;
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
    snprintf(what, sizeof what, "is %s, which does not convert to %s", tmi_stored_dtype(t).text,
             tenmap_dtype_name(want->as));
    add_misfit(m, i, TENMAP_ERR_UNSUPPORTED, name, what);
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
    const tenmap_tensor *next;   /* the tensor after the one found last */
    const tenmap_tensor *behind; /* the end of the model's tensors */
    uint64_t bytes;              /* of the arena */
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
    else if (t && can_view(want, t))
        want->data = t->data;
    else if (t && !can_copy(want, t))
        add_unconvertible(m, i, want, t, &name);
    else if (t)
        job->copies++;
    free_name(&name);
    return TENMAP_OK;
}

/* Models that were opened from a descriptor or from memory have no path. */
static const char *model_shown(const tenmap_model *model) {
    const char *path = tenmap_path(model);
    return *path || !model->shard_count ? path : model->shards[0].bytes.shown;
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

/* Gives a want that is copied a place in the arena. Returns false if the total overflows. */
static bool place_want(take_job *job, size_t i, tenmap_request *r) {
    const tenmap_want *want = &job->wants[i];
    const tenmap_tensor *t = want->tensor;
    uint64_t bytes = t->nbytes, alignment = want->alignment;
    r->tensor = t;
    r->as = want->as;
    if (takes_bytes(want, t)) {
        r->stored_as = TENMAP_U8;
        r->as = TENMAP_AS_STORED;
    } else if (!tmi_dtype_bytes(want->as ? want->as : t->dtype, t->nelems, &bytes)) {
        return false;
    }
    if (alignment < ARENA_ALIGNMENT)
        alignment = ARENA_ALIGNMENT;
    if (job->bytes > UINT64_MAX / 2 || bytes > UINT64_MAX / 2)
        return false;
    uint64_t at = (job->bytes + alignment - 1) / alignment * alignment;
    job->bytes = at + bytes;
    r->dst_bytes = (size_t)bytes;
    r->dst_stride = at; /* its offset, until the arena is allocated */
    return job->bytes <= SIZE_MAX;
}

/* Makes the requests for all wants that are copied, and allocates the arena. */
static tenmap_status plan_copies(take_job *job, unsigned char **memory, tenmap_error *error) {
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
    *memory = tmi_aligned_alloc((size_t)job->bytes);
    if (!*memory)
        return tmi_fail_memory(error, job->bytes, "weights");
    for (size_t k = 0; k < n; k++) {
        tenmap_request *r = &job->requests[k];
        r->dst = *memory + r->dst_stride;
        r->dst_stride = 0;
        job->wants[job->want_of[k]].data = r->dst;
    }
    return TENMAP_OK;
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
    }
}

tenmap_status tenmap_take(const tenmap_model *model, tenmap_want *wants, size_t n,
                          const tenmap_load_options *options, tenmap_arena **arena,
                          tenmap_error *error) {
    take_job job = {.model = model, .wants = wants, .want_count = n};
    unsigned char *memory = NULL;
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
    tenmap_status status = tmi_init_load_options(options, &job.given, error);
    if (status == TENMAP_OK)
        status = find_wants(&job, error);
    if (status == TENMAP_OK && job.copies)
        status = plan_copies(&job, &memory, error);
    if (status == TENMAP_OK)
        status = run_take(&job, error);
    tmi_block_free(&job.block);
    if (status == TENMAP_OK) {
        *arena = (tenmap_arena *)(void *)memory;
        return status;
    }
    clear_wants(wants, n);
    if (memory)
        tmi_aligned_free(memory);
    return status;
}

void tenmap_arena_free(tenmap_arena *arena) {
    if (arena)
        tmi_aligned_free(arena);
}
