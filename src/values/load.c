/*
 * Loads many requests at once. They are checked, sorted by shard and file offset, and cut into
 * units of a few MiB: a piece of a large request, or several small requests that lie together.
 * Threads take the units in order, so the files are read forward, and a slow thread takes fewer
 * units.
 */
#include "../model/computed.h"
#include "values.h"

#include <stdlib.h>

/* The bytes that a unit reads or writes, whichever is more. */
enum { UNIT_BYTES = 8 << 20 };
/*
 * The size of one read, bypassing the page cache and otherwise. Its buffer is aligned, and reused
 * for the next read.
 */
enum { DIRECT_WINDOW = 4 << 20, READ_WINDOW = 512 << 10 };
/*
 * Pieces begin at multiples of this many elements: at whole bytes, and at whole cache lines of dst.
 */
enum { SPLIT_STEP = 4096 };
enum { MOST_LOAD_THREADS = 16, LEAST_DIRECT_THREADS = 4 };

/* A file to load from. */
typedef struct load_file {
    const tmi_shard *shard;
    bool use_window; /* read through a window instead of the mapping */
    int direct_fd;   /* for reads that bypass the page cache, or -1 */
} load_file;

typedef struct load_item {
    size_t request;
    size_t file;           /* its index in the job's files */
    uint64_t begin, end;   /* the bytes of the file from the first wanted to the last */
    tmi_transfer transfer; /* the request, checked */
    uint64_t bytes;        /* bytes of files that are wanted */
    uint64_t work;         /* bytes read or written, whichever is more */
    atomic_size_t left;    /* pieces that are not done yet */
} load_item;

/* Elements [first, first+count) of one item; or, with count 0, `items` whole items. */
typedef struct load_unit {
    size_t item, items;
    uint64_t first, count;
} load_unit;

typedef struct load_job {
    const tenmap_model *model; /* all requests must belong to this model; NULL: to any */
    const tenmap_request *requests;
    tenmap_load_options options;
    tmi_block item_block;
    load_item *items; /* in file order */
    size_t item_count;
    tmi_walk *walks; /* of all transfers */
    size_t walk_count, walk_capacity;
    load_unit *units;
    size_t unit_count, unit_capacity;
    load_file *files; /* in the order of the items */
    size_t file_count, file_capacity;
    bool direct;      /* at least one file is read bypassing the page cache, or should be */
    uint64_t written; /* size of all results in the destinations */
    tmi_job run;      /* progress in bytes of the files */
} load_job;

/* The state of one thread. */
typedef struct loader {
    tmi_window window;
    tmi_block buffer;   /* of the window */
    tmi_source *source; /* for computed values */
} loader;

/* Checks a request, from its tensor to its destination. */
static tenmap_status check_request(const load_job *job, const tenmap_request *r, tmi_transfer *x,
                                   tenmap_error *error) {
    if (!r->tensor) {
        tmi_fail(error, TENMAP_ERR_ARGUMENT,
                 "request %llu: the tensor is NULL (was no tensor of that name found?)",
                 (ull)(r - job->requests));
        return TENMAP_ERR_ARGUMENT;
    }
    if (job->model && r->tensor->model != job->model)
        return TMI_FAIL_TENSOR(error, TENMAP_ERR_ARGUMENT, r->tensor, "%s",
                               "it belongs to another model, not to the one to load from");
    if (r->reserved)
        return TMI_FAIL_TENSOR(error, TENMAP_ERR_ARGUMENT, r->tensor, "%s",
                               "the request's reserved field must be 0");
    tenmap_status status = tmi_transfer_begin(x, r->tensor, r->stored_as, r->as, r->flags, error);
    if (status != TENMAP_OK)
        return status;
    status = r->begin || r->end ? tmi_transfer_block(x, r->begin, r->end, error)
                                : tmi_transfer_whole(x, r->dst_stride != 0, error);
    if (status == TENMAP_OK)
        status = tmi_transfer_target(x, r->dst, r->dst_bytes, r->dst_stride, error);
    return status;
}

/* Copies the walk of a transfer out of the buffer in which all requests are checked. */
static tenmap_status copy_walk(load_job *job, const tmi_transfer *x, tenmap_error *error) {
    for (unsigned d = 0; d < x->walked; d++) {
        tmi_walk *walks =
            tmi_grow(job->walks, job->walk_count, &job->walk_capacity, sizeof *job->walks);
        if (!walks)
            return tmi_fail_memory(error, job->walk_capacity * 2 * sizeof *walks,
                                   "the blocks of a load");
        job->walks = walks;
        walks[job->walk_count++] = x->walk[d];
    }
    return TENMAP_OK;
}

/* How many bytes of files elements [first, first+count) of a transfer account for. */
static uint64_t file_bytes_of(const tmi_transfer *x, uint64_t first, uint64_t count) {
    return tmi_stored_bytes(x->tensor, x->stored, first, count);
}

static void size_item(load_job *job, load_item *item) {
    const tmi_transfer *x = &item->transfer;
    uint64_t written = tmi_bytes_of(x->as, x->count);
    item->bytes = file_bytes_of(x, 0, x->count);
    item->work = item->bytes > written ? item->bytes : written;
    item->begin = item->end = x->tensor->file_offset;
    if (x->count)
        tmi_transfer_extent(x, 0, x->count, &item->begin, &item->end);
    job->run.total += item->bytes;
    job->written += written;
}

/* Requests are read here and nowhere else, so changing them later does not affect the load. */
static tenmap_status add_items(load_job *job, tenmap_error *error) {
    tmi_walk buffer[TMI_MOST_WALKED];
    for (size_t i = 0; i < job->item_count; i++) {
        load_item *item = &job->items[i];
        item->request = i;
        item->transfer.walk = buffer;
        tenmap_status status = check_request(job, &job->requests[i], &item->transfer, error);
        if (status == TENMAP_OK)
            status = copy_walk(job, &item->transfer, error);
        if (status != TENMAP_OK) {
            if (error)
                error->index = i;
            return status;
        }
        size_item(job, item);
    }
    size_t walk = 0;
    for (size_t i = 0; i < job->item_count; i++) {
        tmi_transfer *x = &job->items[i].transfer;
        x->walk = x->walked ? job->walks + walk : NULL;
        walk += x->walked;
        tmi_transfer_stream(x, job->written);
    }
    return TENMAP_OK;
}

static int compare_items(const void *left, const void *right) {
    const load_item *a = left, *b = right;
    const tenmap_tensor *s = a->transfer.tensor, *t = b->transfer.tensor;
    if (s->model != t->model) /* any order will do */
        return (uintptr_t)s->model < (uintptr_t)t->model ? -1 : 1;
    if (s->shard != t->shard)
        return s->shard < t->shard ? -1 : 1;
    if (a->begin != b->begin)
        return a->begin < b->begin ? -1 : 1;
    return a->request < b->request ? -1 : a->request > b->request;
}

static bool add_unit(load_job *job, load_unit unit) {
    load_unit *units =
        tmi_grow(job->units, job->unit_count, &job->unit_capacity, sizeof *job->units);
    if (!units)
        return false;
    job->units = units;
    units[job->unit_count++] = unit;
    return true;
}

/* Splits a large request into several units. */
static bool split_item(load_job *job, size_t i) {
    load_item *item = &job->items[i];
    uint64_t pieces = item->work / UNIT_BYTES + 1;
    uint64_t step = (item->transfer.count / pieces + SPLIT_STEP) / SPLIT_STEP * SPLIT_STEP;
    size_t left = 0;
    for (uint64_t first = 0; first < item->transfer.count; first += step, left++) {
        uint64_t rest = item->transfer.count - first;
        if (!add_unit(job, (load_unit){i, 1, first, rest < step ? rest : step}))
            return false;
    }
    atomic_init(&item->left, left);
    return true;
}

/* Makes the units. Small requests that lie together, empty ones included, share a unit. */
static tenmap_status make_units(load_job *job, tenmap_error *error) {
    uint64_t space = 0;
    bool good = true;
    for (size_t i = 0; i < job->item_count && good; i++) {
        load_item *item = &job->items[i];
        bool alone = item->work > UNIT_BYTES;
        if (alone) {
            good = split_item(job, i);
            space = 0;
            continue;
        }
        atomic_init(&item->left, 1);
        if (space > item->work && item->file == item[-1].file) {
            job->units[job->unit_count - 1].items++;
            space -= item->work;
        } else {
            good = add_unit(job, (load_unit){i, 1, 0, 0});
            space = UNIT_BYTES - item->work;
        }
    }
    return good ? TENMAP_OK
                : tmi_fail_memory(error, job->unit_capacity * 2 * sizeof *job->units,
                                  "the parts of a load");
}

/* The bytes of the file that a unit spans, and how many of them are wanted. */
static tmi_span unit_span(const load_job *job, const load_unit *unit, uint64_t *wanted) {
    const load_item *item = &job->items[unit->item];
    tmi_span span = {job->files[item->file].shard, item->begin, item->end};
    *wanted = item->bytes;
    if (unit->count) {
        tmi_transfer_extent(&item->transfer, unit->first, unit->count, &span.begin, &span.end);
        *wanted = file_bytes_of(&item->transfer, unit->first, unit->count);
    }
    for (size_t i = 1; i < unit->items; i++) {
        *wanted += item[i].bytes;
        if (item[i].end > span.end)
            span.end = item[i].end;
    }
    return span;
}

/*
 * Sets up a thread's window if it reads through one. The window is as large as the thread's files
 * have needed so far.
 */
static tenmap_status set_load_window(const load_job *job, const load_file *file, loader *own,
                                     tenmap_error *error) {
    size_t by_default = job->direct ? DIRECT_WINDOW : READ_WINDOW;
    size_t size = tmi_bytes_window_size(&file->shard->bytes, by_default);
    own->window.buffer = NULL;
    if (!file->use_window)
        return TENMAP_OK;
    if (own->window.size < size) {
        tmi_block_free(&own->buffer);
        own->window.size = 0;
        if (!tmi_block_alloc(&own->buffer, size)) /* large blocks are page-aligned */
            return tmi_fail_memory(error, size, "reading");
        own->window.size = size;
    }
    own->window.buffer = own->buffer.bytes;
    return TENMAP_OK;
}

static void free_loader(void *state) {
    loader *own = state;
    tmi_block_free(&own->buffer);
    tmi_source_free(own->source);
}

/*
 * Points the thread's window at the unit. Reads in mapped bytes if at least half of them are
 * wanted.
 */
static tenmap_status begin_unit(const load_job *job, const load_unit *unit, loader *own,
                                tenmap_error *error) {
    const load_item *item = &job->items[unit->item];
    tmi_window *window = &own->window;
    uint64_t wanted;
    tmi_span span = unit_span(job, unit, &wanted);
    tenmap_status status = set_load_window(job, &job->files[item->file], own, error);
    window->bytes = &span.shard->bytes;
    window->direct_fd = job->files[item->file].direct_fd;
    window->at = window->end = 0; /* it held bytes of another unit */
    window->last = span.end;
    if (status == TENMAP_OK && !window->buffer && span.end - span.begin <= 2 * wanted)
        status = tmi_populate_span(span, item->transfer.tensor, error);
    return status;
}

/* Runs one piece of an item, or all of it. */
static tenmap_status load_elements(load_job *job, load_item *item, loader *own, uint64_t first,
                                   uint64_t count, tenmap_error *error) {
    const tmi_transfer *x = &item->transfer;
    if (count > 0) {
        own->window.ahead = tmi_transfer_is_dense(x);
        tenmap_status status = tmi_values_run(x, &own->window, &own->source, first, count, error);
        if (status == TENMAP_ERR_RANGE)
            tmi_values_first_misfit(x, &own->window, &own->source, first, error);
        if (status != TENMAP_OK)
            return status;
        tmi_job_add(&job->run, file_bytes_of(x, first, count));
    }
    if (atomic_fetch_sub(&item->left, 1) == 1 && job->options.done)
        job->options.done(job->options.ctx, item->request, TENMAP_OK);
    return TENMAP_OK;
}

static tenmap_status run_load_unit(void *ctx, void *state, size_t number, tenmap_error *error) {
    load_job *job = ctx;
    loader *own = state;
    const load_unit *unit = &job->units[number];
    load_item *item = &job->items[unit->item];
    tenmap_status status = begin_unit(job, unit, own, error);
    for (size_t i = 0; i < unit->items && status == TENMAP_OK; i++) {
        uint64_t count = unit->count ? unit->count : item->transfer.count;
        status = load_elements(job, item, own, unit->first, count, error);
        if (status == TENMAP_OK)
            item++;
    }
    if (status != TENMAP_OK)
        error->index = item->request;
    return status;
}

tenmap_status tmi_init_take_options(const tenmap_load_options *given, tenmap_load_options *out,
                                    tenmap_error *error) {
    static const tmi_options_kind kind = {"tenmap_load_options",
                                          "TENMAP_LOAD_OPTIONS_INIT",
                                          sizeof(tenmap_load_options),
                                          offsetof(tenmap_load_options, ctx) + sizeof(void *),
                                          offsetof(tenmap_load_options, flags),
                                          TENMAP_LOAD_READ | TENMAP_LOAD_DIRECT,
                                          0};
    tenmap_status status = tmi_options_copy(&kind, given, out, error);
    if (status == TENMAP_OK && !out->alloc != !out->dealloc)
        return tmi_fail(error, TENMAP_ERR_ARGUMENT,
                        "options.%s is NULL; set both alloc and dealloc, or neither",
                        out->alloc ? "dealloc" : "alloc");
    return status;
}

tenmap_status tmi_init_load_options(const tenmap_load_options *given, tenmap_load_options *out,
                                    tenmap_error *error) {
    tenmap_status status = tmi_init_take_options(given, out, error);
    if (status == TENMAP_OK && out->append)
        return tmi_fail(error, TENMAP_ERR_ARGUMENT,
                        "options.append is an arena, which only tenmap_take appends to");
    return status;
}

/*
 * Chooses how the bytes of a file are read: from memory or the mapping, or through windows if there
 * is none or the caller asks for reads. If no descriptor that bypasses the page cache can be
 * opened, reads go through the page cache.
 */
static load_file open_load_file(load_job *job, const tmi_shard *shard) {
    bool asked = job->options.flags & (TENMAP_LOAD_READ | TENMAP_LOAD_DIRECT);
    tmi_bytes_lock(&shard->bytes);
    load_file file = {shard, !shard->view.base || (asked && !shard->bytes.file.memory), -1};
    if (file.use_window && job->options.flags & TENMAP_LOAD_DIRECT) {
        file.direct_fd = tmi_direct_open(&shard->bytes.file);
        job->direct = true;
    }
    tmi_bytes_unlock(&shard->bytes);
    return file;
}

/* Sorts the items in file order, and lists each file once. */
static tenmap_status add_files(load_job *job, tenmap_error *error) {
    const tmi_shard *last = NULL;
    qsort(job->items, job->item_count, sizeof *job->items, compare_items);
    for (size_t i = 0; i < job->item_count; i++) {
        const tmi_shard *shard = tmi_shard_of(job->items[i].transfer.tensor);
        if (shard != last) {
            load_file *files =
                tmi_grow(job->files, job->file_count, &job->file_capacity, sizeof *job->files);
            if (!files)
                return tmi_fail_memory(error, job->file_capacity * 2 * sizeof *files,
                                       "the files of a load");
            job->files = files;
            files[job->file_count++] = open_load_file(job, shard);
            last = shard;
        }
        job->items[i].file = job->file_count - 1;
    }
    return TENMAP_OK;
}

static unsigned load_threads(const load_job *job) {
    unsigned threads = tmi_job_threads(job->options.threads, MOST_LOAD_THREADS);
    if (job->direct && !job->options.threads && threads < LEAST_DIRECT_THREADS)
        return LEAST_DIRECT_THREADS; /* they wait for the disk, not for a CPU */
    return threads;
}

/* Does everything that comes before the first byte is written. */
static tenmap_status plan_load(load_job *job, tenmap_error *error) {
    size_t size = job->item_count > SIZE_MAX / sizeof *job->items
                      ? SIZE_MAX
                      : job->item_count * sizeof *job->items;
    if (size == SIZE_MAX || !tmi_block_alloc(&job->item_block, size))
        return tmi_fail_memory(error, size, "the list of requests");
    job->items = job->item_block.bytes;
    tenmap_status status = add_items(job, error);
    if (status == TENMAP_OK)
        status = add_files(job, error);
    if (status == TENMAP_OK)
        status = make_units(job, error);
    return status;
}

/*
 * Reports the requests that were not finished, on the caller's thread, after all threads have
 * stopped.
 */
static void report_undone(const load_job *job) {
    tenmap_status status = job->run.status;
    for (size_t i = 0; job->options.done && i < job->item_count; i++) {
        const load_item *item = &job->items[i];
        bool failed = status != TENMAP_ERR_CANCELLED && item->request == job->run.error.index;
        if (atomic_load(&item->left) > 0)
            job->options.done(job->options.ctx, item->request,
                              failed ? status : TENMAP_ERR_CANCELLED);
    }
}

static tenmap_status run_load(load_job *job, tenmap_error *error) {
    tmi_job *run = &job->run;
    run->threads = load_threads(job);
    run->unit = run_load_unit;
    run->ctx = job;
    run->state_bytes = sizeof(loader);
    run->release = free_loader;
    run->what = "a load";
    run->progress = job->options.progress;
    run->progress_ctx = job->options.ctx;
    run->cancelled = "the load was cancelled by its progress function";
    tmi_job_run(run, job->unit_count);
    tenmap_status status = tmi_job_end(run, error);
    if (status != TENMAP_OK)
        report_undone(job);
    return status;
}

static void free_load(load_job *job) {
    for (size_t i = 0; i < job->file_count; i++)
        tmi_direct_close(job->files[i].direct_fd);
    free(job->files);
    free(job->units);
    free(job->walks);
    tmi_block_free(&job->item_block);
}

tenmap_status tenmap_load(const tenmap_model *model, const tenmap_request *requests, size_t count,
                          const tenmap_load_options *options, tenmap_error *error) {
    load_job job = {.model = model, .requests = requests, .item_count = count};
    tenmap_status status = tmi_init_load_options(options, &job.options, error);
    if (status != TENMAP_OK)
        return status;
    if (!requests && count)
        return tmi_fail(error, TENMAP_ERR_ARGUMENT, "the list of requests is NULL");
    status = plan_load(&job, error);
    if (status == TENMAP_OK)
        status = run_load(&job, error);
    free_load(&job);
    return status;
}
