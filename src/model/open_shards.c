/*
 * Opens the files of a model that has several: on threads, judging the results in order, and
 * combining them into one model.
 *
 * If an index lists the files and is written as most are, each shard is expected to have exactly
 * the tensors that the index lists in it. They are parsed straight into their places in the model's
 * table. If this succeeds, combine_by_index.c has little left to do. If not, the index is parsed in
 * full, and combine_shards.c decides which tensor is taken from where, or what is wrong.
 */
#include "model.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* One shard to open, and the result. Shards may be opened on several threads. */
typedef struct shard_job {
    tmi_shard shard;
    tenmap_status status;
    tenmap_error error;
} shard_job;

typedef struct shard_jobs {
    shard_job *jobs;
    size_t count;
    const tenmap_options *options;
    const tenmap_model *model;
    const char *asked_by; /* the index, or the folder of a numbered set */
    unsigned threads;
    tmi_shared_table table; /* a slice per shard, if an index counts the tensors of each */
    atomic_size_t next;
} shard_jobs;

/* Moves tensors that the quick parser did not put into the slice, if their number matches. */
static void move_into_slice(tmi_header *header, const tmi_table_slice *slice,
                            const tmi_hash_key *key) {
    if (header->in_shared_table || header->count != slice->count)
        return;
    memcpy(slice->tensors, header->tensors.bytes, slice->count * sizeof *slice->tensors);
    for (size_t i = 0; i < slice->count; i++)
        slice->hashes[i] = tmi_hash(key, slice->tensors[i].name, slice->tensors[i].name_len);
    tmi_header_drop_tensors(header);
    header->tensors.bytes = slice->tensors;
    header->in_shared_table = true;
}

static void open_shard_file(shard_jobs *all, size_t i) {
    shard_job *job = &all->jobs[i];
    job->status = tmi_bytes_open(&job->shard.bytes, all->options->io, job->shard.path, "the shard",
                                 &job->error);
}

static void parse_shard_file(shard_jobs *all, size_t i, const tmi_table_slice *slice,
                             tmi_scratch *scratch) {
    shard_job *job = &all->jobs[i];
    tmi_membership of = {all->model, (uint32_t)i, slice, scratch};
    tmi_start start;
    job->status = tmi_shard_start(&job->shard, all->options, &start, &job->error);
    if (job->status == TENMAP_OK)
        job->status = tmi_shard_parse(&job->shard, all->options, &of, &start, &job->error);
    if (job->status == TENMAP_OK && slice)
        move_into_slice(&job->shard.header, slice, &all->model->key);
    job->error.shard = (uint32_t)i;
}

static void open_shard(shard_jobs *all, size_t i, tmi_scratch *scratch) {
    const tmi_table_slice *slice = all->table.slices ? &all->table.slices[i] : NULL;
    open_shard_file(all, i);
    if (all->jobs[i].status == TENMAP_OK)
        parse_shard_file(all, i, slice, scratch);
}

/* The work of one thread: opens shards until none are left. */
static void open_next_shards(void *ctx, size_t thread) {
    shard_jobs *all = ctx;
    tmi_scratch *scratch = all->model->scratches ? &all->model->scratches[thread] : NULL;
    for (;;) {
        size_t i = atomic_fetch_add_explicit(&all->next, 1, memory_order_relaxed);
        if (i >= all->count)
            break;
        open_shard(all, i, scratch);
    }
    if (scratch)
        tmi_scratch_end(scratch);
}

/* Starting a thread costs about as much as opening a small shard, so each gets a few shards. */
unsigned tmi_open_threads(size_t shards, const tenmap_io *io) {
    enum { SHARDS_PER_THREAD = 4 };
    if (io) /* it waits more than it computes, so one CPU serves many threads */
        return shards < TMI_OPEN_THREADS ? (unsigned)shards : TMI_OPEN_THREADS;
    size_t most = tmi_cpu_count() < TMI_OPEN_THREADS ? tmi_cpu_count() : TMI_OPEN_THREADS;
    size_t worth = shards / SHARDS_PER_THREAD;
    return (unsigned)(worth < most ? worth : most);
}

static bool is_missing(const shard_job *job) {
    return job->status == TENMAP_ERR_NOT_FOUND;
}

static tenmap_status fail_missing(const shard_jobs *all, tenmap_error *error) {
    tmi_list names = {.used = 0};
    int os_error = 0;
    for (size_t i = 0; i < all->count; i++)
        if (is_missing(&all->jobs[i])) {
            tmi_list_add(&names, all->jobs[i].shard.name, strlen(all->jobs[i].shard.name));
            os_error = all->jobs[i].error.os_error;
        }
    tmi_fail(error, TENMAP_ERR_NOT_FOUND,
             "%s: %llu of %llu shards are missing: %s; fetch them, or open it with missing shards "
             "allowed to go without",
             tmi_quote_path(all->asked_by).text, (ull)names.count, (ull)all->count,
             tmi_list_end(&names));
    if (error)
        error->os_error = os_error;
    return tmi_remedy(error, TENMAP_REMEDY_ALLOW_PARTIAL, TENMAP_ERR_NOT_FOUND);
}

/* A shard keeps its descriptor while the model is open, so the process needs one for each. */
static tenmap_status fail_descriptors(const shard_jobs *all, size_t first, tenmap_error *error) {
    size_t opened = 0, refused = 0;
    for (size_t i = 0; i < all->count; i++) {
        opened += all->jobs[i].shard.bytes.file.fd >= 0;
        refused += all->jobs[i].error.os_error == EMFILE;
    }
    tmi_fail(error, TENMAP_ERR_LIMIT,
             "%s: the model keeps one file open for each of its %llu shards, but this process "
             "reached its limit of open files after %llu of them: raise the limit (ulimit -n, "
             "RLIMIT_NOFILE) by at least %llu",
             tmi_quote_path(all->asked_by).text, (ull)all->count, (ull)opened, (ull)refused);
    if (error) {
        error->os_error = EMFILE;
        error->shard = (uint32_t)first;
    }
    return tmi_remedy(error, TENMAP_REMEDY_RAISE_PROCESS_LIMIT, TENMAP_ERR_LIMIT);
}

/* Reports all missing shards at once, unless they are allowed; then the first that did not open. */
static tenmap_status fail_first(const shard_jobs *all, tenmap_error *error) {
    for (size_t i = 0; i < all->count; i++)
        if (is_missing(&all->jobs[i]) && !(all->options->flags & TENMAP_OPEN_PARTIAL))
            return fail_missing(all, error);
    for (size_t i = 0; i < all->count; i++)
        if (all->jobs[i].status != TENMAP_OK && !is_missing(&all->jobs[i])) {
            if (all->jobs[i].error.os_error == EMFILE)
                return fail_descriptors(all, i, error);
            if (error)
                *error = all->jobs[i].error;
            return all->jobs[i].status;
        }
    return TENMAP_OK;
}

/* Running out of memory or reaching a limit of the process says nothing about the model. */
static bool is_process_limit(const shard_job *job) {
    return job->status == TENMAP_ERR_MEMORY ||
           (job->status == TENMAP_ERR_LIMIT && job->error.os_error != 0);
}

/*
 * Examines one shard and closes its file again. A check needs only its header, so the process's
 * limit on descriptors does not limit the number of shards.
 */
static tenmap_status report_shard(shard_jobs *all, size_t i, tmi_report *report,
                                  tenmap_error *error) {
    shard_job *job = &all->jobs[i];
    uint64_t before = report->errors;
    open_shard(all, i, NULL);
    tmi_bytes_close(&job->shard.bytes);
    job->shard.view.fd = -1;
    if (is_process_limit(job)) {
        *error = job->error;
        return job->status;
    }
    if (job->status != TENMAP_OK && report->errors == before)
        tmi_report_failure(report,
                           is_missing(job) ? TENMAP_FOUND_MISSING_SHARD : TENMAP_FOUND_UNREADABLE,
                           (uint32_t)i, NULL, &job->error);
    return TENMAP_OK;
}

/* Tests whether the file exists. */
static void find_shard_file(void *ctx, size_t i) {
    shard_jobs *all = ctx;
    open_shard_file(all, i);
    tmi_bytes_close(&all->jobs[i].shard.bytes);
}

/*
 * A check examines all shards in the order of fail_first, on one thread, and does not stop at the
 * first failure. Only the existence of objects of a tenmap_io, which may be remote, is tested on
 * several threads.
 */
static tenmap_status report_shards(shard_jobs *all, tmi_report *report, tenmap_error *error) {
    bool any = false;
    tmi_parallel(all->options->io ? all->threads : 1, all->count, find_shard_file, all);
    for (size_t i = 0; i < all->count; i++)
        any = any || is_missing(&all->jobs[i]);
    if (any) {
        fail_missing(all, error);
        tmi_report_failure(report, TENMAP_FOUND_MISSING_SHARD, TENMAP_NO_SHARD, NULL, error);
    }
    tenmap_status status = TENMAP_OK;
    for (size_t i = 0; i < all->count && status == TENMAP_OK; i++)
        status = report_shard(all, i, report, error);
    return status;
}

/* Moves the shards that opened into the model, in order, and records the names of missing ones. */
static tenmap_status move_shards(tenmap_model *model, shard_jobs *all, size_t *place,
                                 tenmap_error *error) {
    model->missing = tmi_calloc(all->count, sizeof *model->missing);
    if (!model->missing)
        return tmi_fail_memory(error, all->count * sizeof *model->missing, "the missing shards");
    model->shard_count = 0;
    for (size_t i = 0; i < all->count; i++) {
        shard_job *job = &all->jobs[i];
        place[i] = TMI_NONE;
        if (job->status != TENMAP_OK) { /* missing, or already reported */
            const char *name = job->shard.name;
            char *copy = tmi_copy_text(name, strlen(name));
            if (!copy)
                return tmi_fail_memory(error, strlen(name), "the name of a missing shard");
            model->missing[model->missing_count++] = copy;
            continue;
        }
        place[i] = model->shard_count;
        model->file_size += job->shard.size;
        model->shards[model->shard_count++] = job->shard;
        job->shard = (tmi_shard){.bytes = TMI_NO_BYTES};
    }
    return TENMAP_OK;
}

/* Enters the names of a shard's tensors that are in a slice; false if a name occurs twice. */
static bool index_tensor_names(tmi_header *header, const tmi_table_slice *slice,
                               const tmi_hash_key *key, bool *out_of_memory) {
    *out_of_memory =
        !tmi_names_init(&header->names, key, slice->tensors, sizeof *slice->tensors, header->count);
    for (size_t i = 0; !*out_of_memory && i < header->count; i++)
        if (tmi_names_put(&header->names, i, slice->hashes[i]) != TMI_NONE)
            return false;
    return true;
}

/*
 * Falls back if the shards do not have what the index lists, or if anything else is wrong. Parses
 * the index in full and gives each shard the names that it has when it is opened without a slice. A
 * shard with a duplicate name is parsed again, for its error message.
 */
static tenmap_status parse_in_full(tenmap_model *model, shard_jobs *all, tenmap_error *error) {
    tenmap_status status = tmi_parse_index(model, all->asked_by, all->options, error);
    for (size_t i = 0; i < all->count && status == TENMAP_OK; i++) {
        tmi_shard *shard = &all->jobs[i].shard;
        bool out_of_memory;
        if (all->jobs[i].status != TENMAP_OK || !shard->header.in_shared_table)
            continue;
        if (!index_tensor_names(&shard->header, &all->table.slices[i], &model->key,
                                &out_of_memory)) {
            tmi_header_free(&shard->header);
            tmi_file_unmap(&shard->bytes.file);
            parse_shard_file(all, i, NULL, NULL);
        } else if (out_of_memory) {
            status =
                tmi_fail_memory(error, (uint64_t)shard->header.count * 16, "the index of names");
        }
    }
    return status;
}

/* Whether every shard is there and has as many tensors as the index lists in it. */
static bool slices_are_full(const shard_jobs *all) {
    for (size_t i = 0; i < all->count; i++)
        if (all->jobs[i].status != TENMAP_OK || !all->jobs[i].shard.header.in_shared_table ||
            all->jobs[i].shard.header.count != all->table.slices[i].count)
            return false;
    return true;
}

/*
 * Combines shards that match their outline into one model; *combined is false if they do not match.
 */
static tenmap_status combine_outlined(tenmap_model *model, shard_jobs *all,
                                      const tmi_outline *outline, size_t *place, bool *combined,
                                      tenmap_error *error) {
    *combined = false;
    if (!slices_are_full(all))
        return TENMAP_OK;
    tenmap_status status =
        tmi_combine_by_index(model, outline, &all->table, all->threads, combined, error);
    if (status == TENMAP_OK && *combined)
        status = move_shards(model, all, place, error);
    if (status == TENMAP_OK && *combined)
        status = tmi_combine_metadata(model, error);
    if (status == TENMAP_OK && *combined)
        tmi_combine_free_headers(model);
    return status;
}
/* Opens the shards of jobs whose paths are set, and combines them into one model. */
static tenmap_status open_jobs(tenmap_model *model, shard_jobs *all, const tmi_outline *outline,
                               tenmap_error *error) {
    tenmap_status status = TENMAP_OK;
    bool combined = false;
    size_t *place = tmi_calloc(all->count, sizeof *place);
    if (!place)
        return tmi_fail_memory(error, all->count * sizeof *place, "the list of shards");
    if (TMI_REPORTS(model->report)) {
        status = report_shards(all, model->report, error);
    } else {
        tmi_parallel(all->threads, all->threads, open_next_shards, all);
        if (outline)
            status = combine_outlined(model, all, outline, place, &combined, error);
        if (outline && status == TENMAP_OK && !combined)
            status = parse_in_full(model, all, error);
        if (status == TENMAP_OK && !combined)
            status = fail_first(all, error);
    }
    if (status == TENMAP_OK && !combined)
        status = move_shards(model, all, place, error);
    if (status == TENMAP_OK && !combined)
        status = tmi_combine_shards(model, model->indexes, place, all->options->flags, error);
    if (status == TENMAP_OK)
        status = tmi_split_check(model, error);
    free(place);
    return status;
}

static bool name_shard(tmi_shard *shard, const tmi_shard_names *from, size_t i,
                       const tenmap_model *model, const tenmap_io *io) {
    tmi_listed_file file = from->names ? (tmi_listed_file){from->names[i], strlen(from->names[i])}
                           : from->outline ? from->outline->files[i].listed
                                           : model->indexes->files[i];
    shard->bytes = (tmi_bytes)TMI_NO_BYTES;
    shard->number = (uint32_t)i;
    shard->name = tmi_copy_text(file.name, file.name_len);
    shard->path = !from->names ? tmi_path_beside(io, from->path, file.name, file.name_len)
                  : from->path_is_member
                      ? tmi_path_renamed(io, from->path, file.name, file.name_len)
                      : tmi_path_inside(io, from->path, file.name, file.name_len);
    return shard->name && shard->path;
}

static unsigned threads_for(const tenmap_options *options, size_t shards) {
    unsigned most = options->threads ? options->threads : tmi_open_threads(shards, options->io);
    if (most > TMI_MOST_THREADS)
        most = TMI_MOST_THREADS;
    if (most > shards)
        most = (unsigned)shards;
    return most ? most : 1;
}

/* The index contains all names too, so its length is enough for the names of any one thread. */
static tenmap_status alloc_scratches(tenmap_model *model, unsigned threads, tenmap_error *error) {
    enum { BLOCK_AT_MOST = 4 << 20 };
    model->scratches = tmi_calloc(threads, sizeof *model->scratches);
    if (!model->scratches)
        return tmi_fail_memory(error, threads * sizeof *model->scratches, "the list of shards");
    model->scratch_count = threads;
    for (unsigned i = 0; i < threads; i++)
        model->scratches[i].least_bytes =
            model->index_len < BLOCK_AT_MOST ? model->index_len : BLOCK_AT_MOST;
    return TENMAP_OK;
}

tenmap_status tmi_open_shards(tenmap_model *model, const tmi_shard_names *from,
                              const tenmap_options *options, tenmap_error *error) {
    shard_jobs all = {.count = from->count,
                      .options = options,
                      .model = model,
                      .asked_by = from->path,
                      .threads = threads_for(options, from->count)};
    tenmap_status status = TENMAP_OK;
    tmi_shard *slice = tmi_calloc(from->count, sizeof *slice);
    all.jobs = tmi_calloc(from->count, sizeof *all.jobs);
    if (!slice || !all.jobs) {
        free(slice);
        free(all.jobs);
        return tmi_fail_memory(error, from->count * sizeof *all.jobs, "the list of shards");
    }
    free(model->shards);
    model->shards = slice;
    model->shard_count = 0;
    for (size_t i = 0; i < all.count; i++)
        if (!name_shard(&all.jobs[i].shard, from, i, model, options->io))
            status = tmi_fail_memory(error, strlen(from->path), "a shard's path");
    if (status == TENMAP_OK && from->outline)
        status = alloc_scratches(model, all.threads, error);
    if (status == TENMAP_OK && from->outline)
        status = tmi_shared_table_alloc(&all.table, from->outline, error);
    if (status == TENMAP_OK)
        status = open_jobs(model, &all, from->outline, error);
    for (size_t i = 0; i < all.count; i++)
        tmi_shard_close(&all.jobs[i].shard);
    tmi_shared_table_free(&all.table);
    free(all.jobs);
    return status;
}
