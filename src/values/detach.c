/*
 * Replaces mappings with memory of this process, shard by shard. Each chunk is read into memory
 * reserved beside the mapping and moved over it, so a reader finds the same bytes at the same
 * address at any time. When all of a shard has been detached, its file is closed.
 */
#include "values.h"

#include <errno.h>

enum { MOST_DETACH_THREADS = 16, LEAST_DETACH_DIRECT = 4 };

typedef struct detach_job {
    tenmap_model *model;
    tenmap_load_options options;
    tmi_shard *shard; /* of this pass */
    tmi_replacement replacement;
    int direct_fd;
    tmi_job run; /* progress in bytes of the mappings */
} detach_job;

/* How many bytes of the file a chunk has: the last page of a mapping may reach past its end. */
static size_t chunk_bytes(tmi_span chunk) {
    uint64_t size = chunk.shard->bytes.file.size;
    return (size_t)((chunk.end < size ? chunk.end : size) - chunk.begin);
}

static tenmap_status check_shard(const tmi_shard *shard, tenmap_error *error) {
    const tmi_file *file = &shard->bytes.file;
    const char *why = NULL;
    if (shard->bytes.io)
        why = "its bytes come from a tenmap_io and are not mapped";
    else if (file->memory && !file->map)
        why = "it lies in the memory of the caller";
    else if (!file->map)
        why = "it was opened to be read, not mapped";
    else if (file->copy_on_write)
        return tmi_fail(error, TENMAP_ERR_UNSUPPORTED,
                        "%s: its mapping is private: detaching it would undo what was written to "
                        "it (models with a shared mapping can be detached)",
                        tmi_quote_path(shard->bytes.shown).text);
    return why ? tmi_fail(error, TENMAP_ERR_UNSUPPORTED, "%s: there is nothing to detach: %s",
                          tmi_quote_path(shard->bytes.shown).text, why)
               : TENMAP_OK;
}

/*
 * Reads a chunk, bypassing the page cache if possible: the replacement has the same page offsets as
 * the file.
 */
static int read_chunk(const detach_job *job, tmi_span chunk, size_t *got) {
    const tmi_file *file = &chunk.shard->bytes.file;
    unsigned char *buffer = tmi_replacement_at(&job->replacement, file, chunk.begin);
    size_t size = chunk_bytes(chunk), direct = 0;
    if (job->direct_fd >= 0) {
        enum { DIRECT_STEP = 4 << 20 };
        size_t whole = (size_t)(chunk.end - chunk.begin), n = 1;
        while (direct < size && n > 0) {
            size_t step = whole - direct < DIRECT_STEP ? whole - direct : DIRECT_STEP;
            if (tmi_file_read_direct(job->direct_fd, chunk.begin + direct, buffer + direct, step,
                                     &n) != 0)
                break;
            direct += n;
            if (n % TMI_DIRECT_ALIGN)
                break; /* the end of the file, or all that can be read this way */
        }
        if (direct >= size) {
            *got = size;
            return 0;
        }
        direct -= direct % TMI_DIRECT_ALIGN;
    }
    int failed = tmi_file_read(file, chunk.begin + direct, buffer + direct, size - direct, got);
    *got += direct;
    return failed;
}

static tenmap_status fail_chunk(tmi_span chunk, int failed, const char *doing,
                                tenmap_error *error) {
    tmi_quoted path = tmi_quote_path(chunk.shard->bytes.shown);
    if (failed == ENOMEM)
        (void)tmi_remedy(
            error, TENMAP_REMEDY_RAISE_PROCESS_LIMIT,
            tmi_fail(
                error, TENMAP_ERR_LIMIT,
                "%s: cannot %s bytes %llu to %llu of the file: the memory that this process may "
                "have or lock (ulimit -v, ulimit -l), or the number of its mappings "
                "(vm.max_map_count), is used up",
                path.text, doing, (ull)chunk.begin, (ull)chunk.end));
    else
        tmi_fail_os(error, failed, "%s: cannot %s bytes %llu to %llu of the file", path.text, doing,
                    (ull)chunk.begin, (ull)chunk.end);
    error->os_error = failed;
    error->shard = chunk.shard->number;
    error->offset = chunk.begin;
    return error->status;
}

/* Fails because the file has changed since it was opened. */
static tenmap_status fail_changed(tmi_span chunk, size_t got, tenmap_error *error) {
    uint64_t now = chunk.shard->bytes.file.size;
    (void)tmi_file_changed(&chunk.shard->bytes.file, &now);
    return tmi_remedy(
        error, TENMAP_REMEDY_OPEN_AGAIN,
        tmi_fail_at(error, TENMAP_ERR_IO, chunk.shard->number, chunk.begin + got,
                    "%s: cannot detach it: another program has %s the file, which has %llu "
                    "bytes now; it had %llu when it was opened: open it again",
                    tmi_quote_path(chunk.shard->bytes.shown).text,
                    now < chunk.shard->bytes.file.size ? "truncated" : "modified", (ull)now,
                    (ull)chunk.shard->bytes.file.size));
}

static tenmap_status detach_chunk(void *ctx, void *state, size_t unit, tenmap_error *error) {
    detach_job *job = ctx;
    tmi_span chunk = tmi_detached_chunk(job->shard, unit);
    const tmi_file *file = &job->shard->bytes.file;
    size_t got, size = chunk_bytes(chunk);
    (void)state;
    if (tmi_is_detached(job->shard, unit))
        return TENMAP_OK;
    int failed = read_chunk(job, chunk, &got);
    if (failed)
        return fail_chunk(chunk, failed, "read", error);
    if (got < size || tmi_file_changed(file, NULL))
        return fail_changed(chunk, got, error);
    failed = tmi_replacement_install(&job->replacement, file, chunk.begin, chunk.end);
    if (failed)
        return fail_chunk(chunk, failed, "replace the mapping of", error);
    tmi_detached_set(job->shard, unit);
    tmi_job_add(&job->run, size);
    failed = tmi_mlock_spans_relock(job->model, chunk);
    return failed ? fail_chunk(chunk, failed, "lock again", error) : TENMAP_OK;
}

/* Closes the file of a shard that has been detached completely, and reports the shard as done. */
static void close_detached_file(detach_job *job) {
    tmi_shard *shard = job->shard;
    tmi_rwlock_write(&shard->bytes.file_lock);
    tmi_file_become_memory(&shard->bytes.file);
    tmi_rwlock_write_end(&shard->bytes.file_lock);
    shard->view.fd = -1;
    if (job->options.done)
        job->options.done(job->options.ctx, (size_t)(shard - job->model->shards), TENMAP_OK);
}

/* Discards the replacement of all chunks that have been detached, or of all that have not. */
static void discard_replacement(detach_job *job, size_t chunks, bool detached) {
    for (size_t i = 0; i < chunks; i++) {
        tmi_span chunk = tmi_detached_chunk(job->shard, i);
        if (tmi_is_detached(job->shard, i) == detached)
            tmi_replacement_discard(&job->replacement, &job->shard->bytes.file, chunk.begin,
                                    chunk.end);
    }
}

static tenmap_status detach_shard(detach_job *job, tmi_shard *shard, tenmap_error *error) {
    const tmi_file *file = &shard->bytes.file;
    size_t chunks = tmi_detached_begin(shard);
    if (chunks == 0)
        return tmi_fail_memory(error, sizeof(tmi_span), "the pieces of a file");
    int failed = tmi_replacement_reserve(&job->replacement, file);
    if (failed == ENOTSUP)
        return tmi_fail(error, TENMAP_ERR_UNSUPPORTED,
                        "%s: this system cannot replace a mapping while other threads read it; "
                        "tenmap_load copies tensors to memory of your own",
                        tmi_quote_path(shard->bytes.shown).text);
    if (failed)
        return tmi_fail_memory(error, file->map_size, "the bytes of the model");
    job->shard = shard;
    job->direct_fd = job->options.flags & TENMAP_LOAD_DIRECT ? tmi_direct_open(file) : -1;
    discard_replacement(job, chunks, true); /* those that an earlier call detached */
    tmi_job_run(&job->run, chunks);
    discard_replacement(job, chunks, false);
    tmi_direct_close(job->direct_fd);
    if (job->run.status == TENMAP_OK)
        close_detached_file(job);
    return job->run.status;
}

/* The bytes of the mappings that are not memory yet, for the progress. */
static uint64_t bytes_left(const tenmap_model *model) {
    uint64_t total = 0;
    for (size_t i = 0; i < model->shard_count; i++) {
        const tmi_file *file = &model->shards[i].bytes.file;
        tmi_span rest = {&model->shards[i], file->map_offset, file->map_offset + file->map_size};
        tmi_span run;
        while (!file->memory && tmi_next_mapped(&rest, &run))
            total += run.end - run.begin;
    }
    return total;
}

static tenmap_status detach_all(detach_job *job, tenmap_error *error) {
    tenmap_model *model = job->model;
    tenmap_status status = TENMAP_OK;
    bool ran = false;
    job->run.total = bytes_left(model);
    for (size_t i = 0; i < model->shard_count && status == TENMAP_OK; i++) {
        tmi_shard *shard = &model->shards[i];
        if (shard->bytes.file.memory)
            continue; /* detached by an earlier call */
        tmi_prefetch_drop(model, (tmi_span){shard, 0, shard->bytes.file.size});
        status = detach_shard(job, shard, error);
        ran = job->run.status == TENMAP_OK;
    }
    return status == TENMAP_OK || !ran ? tmi_job_end(&job->run, error) : status;
}

tenmap_status tenmap_detach(tenmap_model *model, const tenmap_load_options *options,
                            tenmap_error *error) {
    detach_job job = {.model = model, .direct_fd = -1};
    tenmap_status status = tmi_init_load_options(options, &job.options, error);
    if (status != TENMAP_OK)
        return status;
    if (!model)
        return tmi_fail(error, TENMAP_ERR_ARGUMENT, "the model is NULL");
    if (model->derivation)
        return tmi_fail(error, TENMAP_ERR_UNSUPPORTED,
                        "the model is derived and has no files of its own: detach the models that "
                        "it is computed from");
    for (size_t i = 0; i < model->shard_count && status == TENMAP_OK; i++)
        status = check_shard(&model->shards[i], error);
    if (status != TENMAP_OK)
        return status;
    bool direct = job.options.flags & TENMAP_LOAD_DIRECT;
    job.run.threads = tmi_job_threads(job.options.threads, MOST_DETACH_THREADS);
    if (direct && !job.options.threads && job.run.threads < LEAST_DETACH_DIRECT)
        job.run.threads = LEAST_DETACH_DIRECT; /* they wait for the disk, not for a CPU */
    job.run.unit = detach_chunk;
    job.run.ctx = &job;
    job.run.progress = job.options.progress;
    job.run.progress_ctx = job.options.ctx;
    job.run.cancelled = "detaching was cancelled by its progress function";
    tmi_rwlock_write(&model->advice);
    status = detach_all(&job, error);
    tmi_rwlock_write_end(&model->advice);
    return status;
}
