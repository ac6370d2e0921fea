/*
 * Copies tensors of an open model into a writer: by the operating system, through a buffer, or
 * converted; one tensor, or many on several threads.
 */
#include "../model/computed.h"
#include "write.h"

#ifndef TENMAP_NO_WRITE

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Buffers are small enough to stay in the cache between the conversion and the write. */
enum { COPY_BUFFER = 1 << 20, CONVERT_ELEMENTS = 64 << 10 };

/*
 * A copy of elements [first, first + count) of a tensor; every part except the last is a multiple
 * of 8.
 */
typedef struct copying {
    tenmap_writer *writer;
    size_t id;
    const tenmap_tensor *from;
    tenmap_dtype to;
    uint32_t flags;
    uint64_t first, count;
    uint64_t at; /* file offset of the next byte */
    tenmap_error *error;
    tenmap_losses *lost; /* the conversion's losses are added here; NULL: not counted */
    tmi_source **source; /* the thread's own, for tensors that are not plain */
} copying;

static uint64_t bytes_of_elements(uint64_t count, tenmap_dtype dtype) {
    return tmi_bytes_of(dtype, count);
}

static const tmi_shard *copied_shard(const copying *c) {
    return tmi_shard_of(c->from);
}

static tenmap_status put_bytes(copying *c, const void *bytes, size_t size) {
    int failed = tmi_fd_write(tmi_writer_fd(c->writer), c->at, bytes, size);
    c->at += size;
    return failed ? tmi_writer_spoil(c->writer, c->id, failed, c->error) : TENMAP_OK;
}

/* Reads elements of a tensor whose maker gives elements, in file order. A C64 is two F32. */
static tenmap_status get_given(copying *c, uint64_t first, void *dst, size_t size,
                               tenmap_error *why) {
    uint32_t together = 1, bytes = 1; /* whole elements, or whole blocks */
    (void)tenmap_dtype_block(c->from->dtype, &together, &bytes);
    tmi_values_wanted wanted = {.tensor = c->from,
                                .first = first,
                                .count = size / bytes * together,
                                .flags = TENMAP_CONVERT_NO_STREAM,
                                .dst = dst,
                                .dst_bytes = size,
                                .checked = true};
    tenmap_status status = tmi_values_read(c->source, &wanted, why);
    if (TMI_BIG_ENDIAN && status == TENMAP_OK && !tmi_dtype_blocks(c->from->dtype)) {
        size_t width = tmi_dtype_width(c->from->dtype);
        size_t part = c->from->dtype == TENMAP_C64 ? width / 2 : width;
        tmi_to_file_order(dst, part, size / part);
    }
    return status;
}

/*
 * Reads bytes of the source into a buffer; of a tensor that is not plain, those of whole elements.
 * Reads are checked, so a file that shrinks gives an error.
 */
static tenmap_status get_bytes(copying *c, uint64_t offset, void *dst, size_t size) {
    tenmap_error why;
    uint32_t together = 1, bytes = 1;
    (void)tenmap_dtype_block(c->from->dtype, &together, &bytes);
    tenmap_status status =
        tmi_computed_of(c->from)
            ? get_given(c, offset / bytes * together, dst, size, &why)
            : tmi_bytes_read(&copied_shard(c)->bytes, c->from->file_offset + offset, dst, size,
                             (tmi_wanted){NULL, c->from}, &why);
    return status == TENMAP_OK ? status : tmi_writer_spoil_with(c->writer, &why, c->error);
}

/* Copies bytes [done, end) of the source. */
static tenmap_status copy_buffered(copying *c, uint64_t done, uint64_t end) {
    char *buffer = malloc(COPY_BUFFER);
    tenmap_error why;
    if (!buffer) {
        tmi_fail_memory(&why, COPY_BUFFER, "copying");
        return tmi_writer_spoil_with(c->writer, &why, c->error);
    }
    tenmap_status status = TENMAP_OK;
    uint32_t together, each = 1; /* elements and blocks that are computed are read whole */
    (void)tenmap_dtype_block(c->from->dtype, &together, &each);
    size_t step = COPY_BUFFER - COPY_BUFFER % each;
    while (status == TENMAP_OK && done < end) {
        uint64_t left = end - done;
        size_t size = left < step ? (size_t)left : step;
        status = get_bytes(c, done, buffer, size);
        if (status == TENMAP_OK)
            status = put_bytes(c, buffer, size);
        done += size;
    }
    free(buffer);
    return status;
}

static tenmap_status copy_same_dtype(copying *c) {
    const tmi_shard *shard = copied_shard(c);
    uint64_t begin = bytes_of_elements(c->first, c->to), size = bytes_of_elements(c->count, c->to);
    uint64_t done = 0;
    if (tmi_computed_of(c->from))
        return copy_buffered(c, begin, begin + size);
    tmi_bytes_lock(&shard->bytes);
    bool in_memory = shard->bytes.file.memory;
    int failed = in_memory ? 0
                           : tmi_fd_copy(shard->bytes.file.fd, c->from->file_offset + begin,
                                         tmi_writer_fd(c->writer), c->at, size, &done);
    tmi_bytes_unlock(&shard->bytes);
    if (in_memory && c->from->data)
        return put_bytes(c, (const char *)c->from->data + begin, (size_t)size);
    if (failed && failed != EOPNOTSUPP)
        return tmi_writer_spoil(c->writer, c->id, failed, c->error);
    c->at += done;
    tenmap_error why;
    if (done > 0 &&
        tmi_bytes_check_unchanged(&shard->bytes, c->from->file_offset + begin, done, c->from, &why))
        return tmi_writer_spoil_with(c->writer, &why, c->error);
    return done == size ? TENMAP_OK : copy_buffered(c, begin + done, begin + size);
}

/* Fails because element `number` of the source, at *at, is an integer that does not fit. */
static tenmap_status spoil_misfit(copying *c, const void *at, uint64_t number) {
    tenmap_error why, full;
    tmi_fail_misfit(&why, c->to, c->from->dtype, at, number);
    TMI_FAIL_TENSOR(&full, TENMAP_ERR_RANGE, c->from, "%s", why.message);
    return tmi_writer_spoil_with(c->writer, &full, c->error);
}

/* Each step except the last is a multiple of 256 elements, so it starts on a byte or a block. */
static tenmap_status copy_converted(copying *c) {
    tenmap_status status = TENMAP_OK;
    const tenmap_tensor *t = c->from;
    size_t from_room = (size_t)bytes_of_elements(CONVERT_ELEMENTS, t->dtype);
    size_t to_room = (size_t)bytes_of_elements(CONVERT_ELEMENTS, c->to);
    char *buffer = malloc(from_room + to_room);
    tenmap_error why;
    if (!buffer) {
        tmi_fail_memory(&why, from_room + to_room, "converting");
        return tmi_writer_spoil_with(c->writer, &why, c->error);
    }
    uint64_t end = c->first + c->count;
    for (uint64_t first = c->first; status == TENMAP_OK && first < end; first += CONVERT_ELEMENTS) {
        uint64_t left = end - first;
        uint64_t count = left < CONVERT_ELEMENTS ? left : CONVERT_ELEMENTS;
        status = get_bytes(c, bytes_of_elements(first, t->dtype), buffer,
                           (size_t)bytes_of_elements(count, t->dtype));
        if (status != TENMAP_OK)
            break;
        if (c->lost)
            tmi_losses_add((tmi_counted){c->to, t->dtype, true, c->flags}, buffer, count, c->lost);
        uint64_t fit = tmi_convert_file(
            (tmi_packed){c->to, 0}, buffer + from_room, (tmi_packed){t->dtype, 0}, buffer, count,
            (c->flags & TENMAP_CONVERT_SATURATE) | TENMAP_CONVERT_NO_STREAM);
        if (fit < count) {
            status = spoil_misfit(c, buffer + bytes_of_elements(fit, t->dtype), first + fit);
            break;
        }
        if (TMI_BIG_ENDIAN)
            tmi_to_file_order(buffer + from_room, tmi_dtype_width(c->to), (size_t)count);
        status = put_bytes(c, buffer + from_room, (size_t)bytes_of_elements(count, c->to));
    }
    free(buffer);
    return status;
}

/*
 * Writes a part of a dequantized tensor. If losses are to be counted and there may be some, the
 * values are first computed as the maker gives them, as F32 or F64.
 */
static tenmap_status compute_part(copying *c, uint64_t first, uint64_t count, char *computed,
                                  char *out) {
    uint32_t flags = (c->flags & TENMAP_CONVERT_SATURATE) | TENMAP_CONVERT_NO_STREAM;
    size_t out_bytes = (size_t)bytes_of_elements(count, c->to);
    bool counts = c->lost != NULL, normal = false;
    tenmap_dtype given = tmi_given_dtype(c->from);
    tmi_values_wanted wanted = {.tensor = c->from,
                                .first = first,
                                .count = count,
                                .as = c->to,
                                .flags = flags,
                                .dst = out,
                                .dst_bytes = out_bytes,
                                .checked = true,
                                .normal = counts ? &normal : NULL};
    tenmap_error why;
    tenmap_status status = TENMAP_OK;
    if (!counts || tmi_values_can_be_normal(c->from, c->to))
        status = tmi_values_read(c->source, &wanted, &why);
    counts = counts && !normal;
    if (status == TENMAP_OK && counts) {
        wanted.as = given;
        wanted.dst = computed;
        wanted.dst_bytes = (size_t)bytes_of_elements(count, given);
        wanted.normal = NULL;
        status = tmi_values_read(c->source, &wanted, &why);
    }
    if (status != TENMAP_OK)
        return tmi_writer_spoil_with(c->writer, &why, c->error);
    if (counts) {
        tmi_losses_add((tmi_counted){c->to, given, !TMI_BIG_ENDIAN, c->flags}, computed, count,
                       c->lost);
        (void)tenmap_convert(c->to, out, out_bytes, given, computed, count, flags, NULL);
    }
    if (TMI_BIG_ENDIAN)
        tmi_to_file_order(out, tmi_dtype_width(c->to), (size_t)count);
    return put_bytes(c, out, out_bytes);
}

/*
 * Each step stays in the cache until it is written. Tensors that are stored transposed take larger
 * steps, so that each covers many rows.
 */
static tenmap_status copy_values(copying *c) {
    enum { STEP_IN_ROWS = 128 << 10, STEP_TRANSPOSED = 512 << 10 };
    tenmap_status status = TENMAP_OK;
    uint64_t step = tmi_values_in_rows(c->from) ? STEP_IN_ROWS : STEP_TRANSPOSED;
    uint64_t most = c->count < step ? c->count : step, end = c->first + c->count;
    size_t made_room = c->lost ? (size_t)bytes_of_elements(most, tmi_given_dtype(c->from)) : 0;
    size_t out_room = (size_t)bytes_of_elements(most, c->to);
    char *buffer = malloc(made_room + out_room);
    tenmap_error why;
    if (!buffer) {
        tmi_fail_memory(&why, made_room + out_room, "converting");
        return tmi_writer_spoil_with(c->writer, &why, c->error);
    }
    for (uint64_t first = c->first; status == TENMAP_OK && first < end; first += step) {
        uint64_t count = end - first < most ? end - first : most;
        status = compute_part(c, first, count, buffer, buffer + made_room);
    }
    free(buffer);
    return status;
}

/* Checks everything that can be refused before a byte is claimed. */
static tenmap_status check_copy(const copying *c, const tmi_planned *t) {
    if (c->from->dtype == TENMAP_OPAQUE)
        return tmi_fail(c->error, TENMAP_ERR_UNSUPPORTED,
                        "%s: tensor %s: the source's dtype is unknown, so it cannot be written "
                        "under a known one",
                        tmi_writer_shown(c->writer).text, tmi_quote(t->name, t->name_len).text);
    if (c->from->nelems != t->nelems)
        return tmi_fail(c->error, TENMAP_ERR_RANGE,
                        "%s: tensor %s: it has %llu elements, but the source %s has %llu",
                        tmi_writer_shown(c->writer).text, tmi_quote(t->name, t->name_len).text,
                        (ull)t->nelems, tmi_quote(c->from->name, c->from->name_len).text,
                        (ull)c->from->nelems);
    return tmi_convert_check(c->to, tmi_given_dtype(c->from), c->flags, c->error);
}

tenmap_status tmi_copy_check(tenmap_writer *writer, size_t id, const tenmap_tensor *tensor,
                             uint32_t flags, tenmap_error *error) {
    tmi_planned planned;
    if (!tmi_writer_tensor(writer, id, &planned))
        return tmi_fail(error, TENMAP_ERR_ARGUMENT, "%s: there is no tensor number %llu",
                        tmi_writer_shown(writer).text, (ull)id);
    copying c = {writer, id, tensor, planned.dtype, flags, 0, tensor->nelems, 0, error, NULL, NULL};
    return check_copy(&c, &planned);
}

/* Copies a part of a tensor that passed the check. */
static tenmap_status copy_part(copying *c) {
    uint64_t begin = bytes_of_elements(c->first, c->to), bytes = bytes_of_elements(c->count, c->to);
    tenmap_status status = tmi_writer_claim(c->writer, c->id, begin, bytes, &c->at, c->error);
    if (status != TENMAP_OK || bytes == 0)
        return status;
    if (tmi_gives_values(c->from))
        return copy_values(c);
    return c->to == c->from->dtype ? copy_same_dtype(c) : copy_converted(c);
}

tenmap_status tenmap_writer_copy(tenmap_writer *writer, size_t id, const tenmap_tensor *tensor,
                                 uint32_t flags, tenmap_error *error) {
    tmi_planned planned;
    if (!writer || !tensor)
        return tmi_fail(error, TENMAP_ERR_ARGUMENT, "the %s is NULL",
                        writer ? "tensor to copy" : "writer");
    tenmap_status status = tmi_copy_check(writer, id, tensor, flags, error);
    if (status != TENMAP_OK)
        return status;
    (void)tmi_writer_tensor(writer, id, &planned);
    tmi_source *computed = NULL;
    copying c = {writer,         id, tensor, planned.dtype, flags,    0,
                 planned.nelems, 0,  error,  NULL,          &computed};
    status = copy_part(&c);
    tmi_source_free(computed);
    return status;
}

/* Copying many sources, in parts that threads take in the order of the sources. */

enum { COPY_PART_BYTES = 8 << 20, MOST_COPY_THREADS = 8 };
/*
 * Beyond this many parts, parts get larger, so that a size claimed by a file cannot make us use
 * much memory.
 */
enum { MOST_PARTS = 1 << 18 };

/* A range of elements of a source, or of its data. */
typedef struct copy_unit {
    size_t source;
    uint64_t first, count;
    uint64_t bytes; /* of the source */
    uint64_t overflowed, flushed, nans;
} copy_unit;

typedef struct copy_job {
    tenmap_writer *writer;
    const tenmap_source *sources;
    copy_unit *units;
    size_t unit_count, unit_capacity;
    uint64_t part; /* approximate bytes of a unit */
    bool counts;   /* count what conversions lose */
    tmi_job run;   /* in bytes of the sources, including those of other calls of the same save */
} copy_job;

static uint64_t bytes_of_source(const copy_job *job, size_t i) {
    const tenmap_tensor *t = job->sources[i].tensor;
    tmi_planned planned;
    if (t)
        return tmi_stored_bytes(t, t->dtype, 0, t->nelems);
    return tmi_writer_tensor(job->writer, i, &planned) ? planned.nbytes : 0;
}

static void choose_part(copy_job *job, size_t n) {
    uint64_t parts = 0;
    job->part = COPY_PART_BYTES;
    for (size_t i = 0; i < n; i++)
        parts += bytes_of_source(job, i) / COPY_PART_BYTES;
    for (; parts > MOST_PARTS; parts /= 2)
        job->part *= 2;
}

static bool cut_source(copy_job *job, size_t i, uint64_t *total) {
    const tenmap_source *source = &job->sources[i];
    tmi_planned planned;
    (void)tmi_writer_tensor(job->writer, i, &planned);
    tenmap_dtype dtype = source->tensor ? source->tensor->dtype : planned.dtype;
    uint32_t together, size;
    (void)tenmap_dtype_block(dtype, &together, &size);
    uint64_t most = job->part / size * together / 256 * 256;
    uint64_t first = 0;
    do { /* a tensor without elements is a part too */
        uint64_t left = planned.nelems - first, count = left < most ? left : most;
        copy_unit *units =
            tmi_grow(job->units, job->unit_count, &job->unit_capacity, sizeof *job->units);
        if (!units)
            return false;
        job->units = units;
        uint64_t bytes = source->tensor ? tmi_stored_bytes(source->tensor, dtype, first, count)
                                        : bytes_of_elements(count, dtype);
        units[job->unit_count++] =
            (copy_unit){.source = i, .first = first, .count = count, .bytes = bytes};
        *total += bytes;
        first += count;
    } while (first < planned.nelems);
    return true;
}

static tenmap_status put_data(const copying *c, const tenmap_source *source) {
    uint64_t begin = bytes_of_elements(c->first, c->to);
    return tenmap_writer_write(c->writer, c->id, begin, (const char *)source->data + begin,
                               (size_t)bytes_of_elements(c->count, c->to), c->error);
}

static tenmap_status run_copy_unit(void *ctx, void *state, size_t number, tenmap_error *error) {
    copy_job *job = ctx;
    copy_unit *unit = &job->units[number];
    const tenmap_source *source = &job->sources[unit->source];
    tmi_planned planned;
    tenmap_losses lost = {0};
    (void)tmi_writer_tensor(job->writer, unit->source, &planned);
    copying c = {job->writer,    unit->source,
                 source->tensor, planned.dtype,
                 source->flags,  unit->first,
                 unit->count,    0,
                 error,          job->counts ? &lost : NULL,
                 state};
    tenmap_status status = c.from ? copy_part(&c) : put_data(&c, source);
    unit->overflowed = lost.overflowed;
    unit->flushed = lost.flushed;
    unit->nans = lost.nans;
    if (status == TENMAP_OK)
        tmi_job_add(&job->run, unit->bytes);
    else
        error->index = unit->source;
    return status;
}

static void free_copier(void *state) {
    tmi_source_free(*(tmi_source **)state);
}

static tenmap_status run_copies(copy_job *job, const tenmap_copy_options *options, uint64_t bytes,
                                tenmap_error *error) {
    tmi_job *run = &job->run;
    char cancelled[sizeof(tmi_quoted) + 48];
    uint64_t worth = bytes / COPY_PART_BYTES + 1; /* small copies are not worth a thread */
    unsigned threads = tmi_job_threads(options->threads, MOST_COPY_THREADS);
    snprintf(cancelled, sizeof cancelled, "%s: cancelled by the progress function",
             tmi_writer_shown(job->writer).text);
    run->threads = worth < threads ? (unsigned)worth : threads;
    run->unit = run_copy_unit;
    run->ctx = job;
    run->state_bytes = sizeof(tmi_source *);
    run->release = free_copier;
    run->what = "a copy";
    run->progress = options->progress;
    run->progress_ctx = options->ctx;
    run->cancelled = cancelled;
    run->last_cancels = true;
    tmi_job_run(run, job->unit_count);
    tenmap_status status = tmi_job_end(run, error);
    if (status != TENMAP_OK)
        (void)tmi_writer_spoil_with(job->writer, &run->error, NULL); /* whatever has been written */
    return status;
}

/* Each thread counts its units separately; this adds up the units of each source. */
static void sum_losses(const copy_job *job, tenmap_losses *losses, size_t n) {
    memset(losses, 0, n * sizeof *losses);
    for (size_t i = 0; i < job->unit_count; i++) {
        const copy_unit *unit = &job->units[i];
        losses[unit->source].overflowed += unit->overflowed;
        losses[unit->source].flushed += unit->flushed;
        losses[unit->source].nans += unit->nans;
    }
}

tenmap_status tmi_copy_sources(tenmap_writer *writer, const tenmap_source *sources, size_t n,
                               const tenmap_copy_options *options, tmi_copied before,
                               tenmap_error *error) {
    copy_job job = {.writer = writer, .sources = sources, .counts = options->losses};
    tenmap_status status = TENMAP_OK;
    uint64_t bytes = 0;
    choose_part(&job, n);
    for (size_t i = 0; i < n && status == TENMAP_OK; i++)
        if (!cut_source(&job, i, &bytes))
            status = tmi_fail_memory(error, job.unit_capacity * 2 * sizeof *job.units,
                                     "the parts of a copy");
    job.run.total = before.total ? before.total : bytes;
    atomic_init(&job.run.done, before.done);
    if (status == TENMAP_OK)
        status = run_copies(&job, options, bytes, error);
    if (status == TENMAP_OK && options->losses)
        sum_losses(&job, options->losses, n);
    free(job.units);
    return status;
}

static tenmap_status check_sources_to_copy(tenmap_writer *writer, const tenmap_source *sources,
                                           size_t n, tenmap_error *error) {
    tenmap_status status = TENMAP_OK;
    for (size_t i = 0; status == TENMAP_OK && i < n; i++) {
        tmi_planned planned;
        if (sources[i].tensor)
            status = tmi_copy_check(writer, i, sources[i].tensor, sources[i].flags, error);
        else if (!tmi_writer_tensor(writer, i, &planned))
            status = tmi_fail(error, TENMAP_ERR_ARGUMENT, "%s: there is no tensor number %llu",
                              tmi_writer_shown(writer).text, (ull)i);
        else if (!sources[i].data && planned.nbytes)
            status = tmi_fail(error, TENMAP_ERR_ARGUMENT,
                              "%s: source %llu has neither a tensor nor data",
                              tmi_writer_shown(writer).text, (ull)i);
        if (status != TENMAP_OK && error)
            error->index = i;
    }
    return status;
}

tenmap_status tmi_init_copy_options(const tenmap_copy_options *given, tenmap_copy_options *out,
                                    tenmap_error *error) {
    static const tmi_options_kind kind = {"tenmap_copy_options",
                                          "TENMAP_COPY_OPTIONS_INIT",
                                          sizeof(tenmap_copy_options),
                                          offsetof(tenmap_copy_options, ctx) + sizeof(void *),
                                          offsetof(tenmap_copy_options, flags),
                                          0,
                                          0};
    return tmi_options_copy(&kind, given, out, error);
}

tenmap_status tenmap_writer_copy_list(tenmap_writer *writer, const tenmap_source *sources, size_t n,
                                      const tenmap_copy_options *given, tenmap_error *error) {
    tenmap_copy_options options;
    if (!writer || (n && !sources))
        return tmi_fail(error, TENMAP_ERR_ARGUMENT, "the %s NULL",
                        writer ? "sources are" : "writer is");
    tenmap_status status = tmi_init_copy_options(given, &options, error);
    if (status == TENMAP_OK)
        status = check_sources_to_copy(writer, sources, n, error);
    if (status != TENMAP_OK || n == 0)
        return status;
    return tmi_copy_sources(writer, sources, n, &options, (tmi_copied){0, 0}, error);
}

#endif
