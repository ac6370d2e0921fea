/* Opening what a path, a descriptor or memory holds. */
#include "model.h"
#include "json.h"
#include "quantized.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* The caller's functions, as many as this version knows. */
static tenmap_status take_io(const tenmap_io *given, tenmap_io *out, tenmap_error *error) {
    static const tmi_options_kind kind = {.name = "tenmap_io",
                                          .init = "TENMAP_IO_INIT",
                                          .size = sizeof(tenmap_io),
                                          .first_size = sizeof(tenmap_io)};
    tenmap_status status = tmi_options_take(&kind, given, out, error);
    for (size_t i = 0; status == TENMAP_OK && i < sizeof out->reserved / sizeof *out->reserved; i++)
        if (out->reserved[i])
            status = tmi_fail(error, TENMAP_ERR_ARGUMENT, "tenmap_io.reserved must be 0");
    if (status == TENMAP_OK && (!out->open || !out->read || !out->close))
        status = tmi_fail(error, TENMAP_ERR_ARGUMENT, "options.io lacks its function %s",
                          !out->open   ? "open"
                          : !out->read ? "read"
                                       : "close");
    return status;
}

static tenmap_status take_options(const tenmap_options *given, tenmap_options *out,
                                  tenmap_error *error) {
    static const tmi_options_kind kind = {
        "tenmap_options",
        "TENMAP_OPTIONS_INIT",
        sizeof(tenmap_options),
        offsetof(tenmap_options, length) + sizeof(uint64_t),
        offsetof(tenmap_options, flags),
        TENMAP_OPEN_LENIENT | TENMAP_OPEN_PARTIAL | TENMAP_OPEN_DEQUANTIZE |
            TENMAP_OPEN_LATER_WINS | TENMAP_OPEN_ALIASES | TENMAP_OPEN_INDEX_ONLY |
            TENMAP_OPEN_TRAILING | TENMAP_OPEN_HOLES | TENMAP_OPEN_UNKNOWN_DTYPES |
            TENMAP_OPEN_STALE_INDEX | TENMAP_OPEN_SUBFOLDERS,
        offsetof(tenmap_options, reserved)};
    tenmap_status status = tmi_options_take(&kind, given, out, error);
    if (status != TENMAP_OK)
        return status;
    if (out->backend > TENMAP_BACKEND_READ)
        return tmi_fail(error, TENMAP_ERR_ARGUMENT, "options.backend is %u, which is none",
                        (unsigned)out->backend);
    return TENMAP_OK;
}

tenmap_model *tmi_model_new(void) {
    tenmap_model *model = tmi_calloc(1, sizeof *model);
    if (!model)
        return NULL;
    model->shards = tmi_calloc(1, sizeof *model->shards);
    if (!model->shards) {
        free(model);
        return NULL;
    }
    model->shard_count = 1;
    model->shards[0].bytes = (tmi_bytes)TMI_NO_BYTES;
    model->key = tmi_hash_key_new();
    return model;
}

/* A model of one shard uses what its header already has. */
static void adopt_only_shard(tenmap_model *model) {
    const tmi_header *header = &model->shards[0].header;
    model->tensors = header->tensors.bytes;
    model->tensor_count = header->count;
    model->finder = &header->names;
    model->metadata = header->metadata;
    model->metadata_count = header->metadata_count;
    model->file_size = model->shards[0].size;
}

/* The shard's file is open; `start` is what tmi_shard_start read of it. */
static tenmap_status open_single(tenmap_model *model, const tenmap_options *options,
                                 const unsigned char *start, size_t len, tenmap_error *error) {
    tenmap_status status = tmi_shard_parse(&model->shards[0], options, model, 0, start, len, error);
    if (status == TENMAP_OK)
        adopt_only_shard(model);
    return status;
}

/* Several shards. */

/* One shard to open, and how it went: opening may run on several threads. */
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
} shard_jobs;

static void open_shard_file(shard_jobs *all, size_t i) {
    shard_job *job = &all->jobs[i];
    job->status = tmi_bytes_open(&job->shard.bytes, all->options->io, job->shard.path, "the shard",
                                 &job->error);
}

static void parse_shard_file(shard_jobs *all, size_t i) {
    shard_job *job = &all->jobs[i];
    unsigned char start[TMI_START];
    size_t len;
    job->status = tmi_shard_start(&job->shard, all->options, start, &len, &job->error);
    if (job->status == TENMAP_OK)
        job->status = tmi_shard_parse(&job->shard, all->options, all->model, (uint32_t)i, start,
                                      len, &job->error);
    job->error.shard = (uint32_t)i;
}

static void open_shard_job(void *ctx, size_t i) {
    shard_jobs *all = ctx;
    open_shard_file(all, i);
    if (all->jobs[i].status == TENMAP_OK)
        parse_shard_file(all, i);
}

/* Starting one costs about as much as opening a small shard: a few are worth one each. */
unsigned tmi_open_threads(size_t shards) {
    enum { MOST_BY_DEFAULT = 8, SHARDS_PER_THREAD = 4 };
    size_t most = tmi_cpu_count() < MOST_BY_DEFAULT ? tmi_cpu_count() : MOST_BY_DEFAULT;
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
    return TENMAP_ERR_NOT_FOUND;
}

/* A shard keeps its descriptor while the model is open, so the process must be allowed as many. */
static tenmap_status fail_descriptors(const shard_jobs *all, size_t first, tenmap_error *error) {
    size_t opened = 0, refused = 0;
    for (size_t i = 0; i < all->count; i++) {
        opened += all->jobs[i].shard.bytes.file.fd >= 0;
        refused += all->jobs[i].error.os_error == EMFILE;
    }
    tmi_fail(error, TENMAP_ERR_LIMIT,
             "%s: the model keeps one file open for each of its %llu shards, but this process may "
             "open no more after %llu of them: raise its limit of open files (ulimit -n, "
             "RLIMIT_NOFILE) by at least %llu",
             tmi_quote_path(all->asked_by).text, (ull)all->count, (ull)opened, (ull)refused);
    if (error) {
        error->os_error = EMFILE;
        error->shard = (uint32_t)first;
    }
    return TENMAP_ERR_LIMIT;
}

/* Missing shards first, all of them at once; then the first shard that did not open. */
static tenmap_status judge_shards(const shard_jobs *all, tenmap_error *error) {
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

/* A limit of the process, or its memory, says nothing about the model. */
static bool is_of_process(const shard_job *job) {
    return job->status == TENMAP_ERR_MEMORY ||
           (job->status == TENMAP_ERR_LIMIT && job->error.os_error != 0);
}

/*
 * Looks at one shard and closes its file again: what a check needs of it is in its header, and so
 * no number of shards is too large for the descriptors of the process.
 */
static tenmap_status report_shard(shard_jobs *all, size_t i, tmi_report *report,
                                  tenmap_error *error) {
    shard_job *job = &all->jobs[i];
    uint64_t before = report->errors;
    open_shard_job(all, i);
    tmi_bytes_close(&job->shard.bytes);
    job->shard.view.fd = -1;
    if (is_of_process(job)) {
        *error = job->error;
        return job->status;
    }
    if (job->status != TENMAP_OK && report->errors == before)
        tmi_report_failure(report,
                           is_missing(job) ? TENMAP_FOUND_MISSING_SHARD : TENMAP_FOUND_UNREADABLE,
                           (uint32_t)i, NULL, &job->error);
    return TENMAP_OK;
}

/* Whether it is there. */
static void seek_shard(void *ctx, size_t i) {
    shard_jobs *all = ctx;
    open_shard_file(all, i);
    tmi_bytes_close(&all->jobs[i].shard.bytes);
}

/*
 * A check: all of it in the order of judge_shards, on one thread, and no end at the first. Only whether
 * objects of a tenmap_io are there, which may be far, is asked for several at a time.
 */
static tenmap_status report_shards(shard_jobs *all, unsigned threads, tmi_report *report,
                                   tenmap_error *error) {
    bool any = false;
    tmi_parallel(all->options->io ? threads : 1, all->count, seek_shard, all);
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

/* Moves the shards that opened into the model, in order, and notes the names of those missing. */
static tenmap_status keep_shards(tenmap_model *model, shard_jobs *all, size_t *place,
                                 tenmap_error *error) {
    model->missing = tmi_calloc(all->count, sizeof *model->missing);
    if (!model->missing)
        return tmi_fail_memory(error, all->count * sizeof *model->missing, "the missing shards");
    model->shard_count = 0;
    for (size_t i = 0; i < all->count; i++) {
        shard_job *job = &all->jobs[i];
        place[i] = TMI_NONE;
        if (job->status != TENMAP_OK) { /* missing, or reported */
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

/* Opens the shards of jobs whose paths are set, and makes one model of them. */
static tenmap_status open_shards(tenmap_model *model, shard_jobs *all, tmi_index *index,
                                 tenmap_error *error) {
    size_t *place = tmi_calloc(all->count, sizeof *place);
    if (!place)
        return tmi_fail_memory(error, all->count * sizeof *place, "the list of shards");
    unsigned threads = all->options->threads ? all->options->threads : tmi_open_threads(all->count);
    tenmap_status status;
    if (TMI_REPORTS(model->report)) {
        status = report_shards(all, threads, model->report, error);
    } else {
        tmi_parallel(threads, all->count, open_shard_job, all);
        status = judge_shards(all, error);
    }
    if (status == TENMAP_OK)
        status = keep_shards(model, all, place, error);
    if (status == TENMAP_OK)
        status = tmi_join(model, index, place, all->options->flags, error);
    if (status == TENMAP_OK)
        status = tmi_split_check(model, error);
    free(place);
    return status;
}

/* The names of the shards, from an index or a numbered set, and what they lie beside or in. */
typedef struct shard_names {
    size_t count;
    tmi_index *index;
    char *const *names;
    const char *path; /* of the index, or of the folder of the set */
    bool beside;      /* the path is that of one of them, and the names are written as there */
} shard_names;

static bool name_shard(tmi_shard *shard, const shard_names *from, size_t i, const tenmap_io *io) {
    const char *name = from->index ? from->index->files[i].name : from->names[i];
    size_t len = strlen(name);
    shard->bytes = (tmi_bytes)TMI_NO_BYTES;
    shard->number = (uint32_t)i;
    shard->name = tmi_copy_text(name, len);
    shard->path = from->index    ? tmi_beside(io, from->path, name, len)
                  : from->beside ? tmi_renamed(io, from->path, name, len)
                                 : tmi_inside(io, from->path, name, len);
    return shard->name && shard->path;
}

static tenmap_status open_named_shards(tenmap_model *model, const shard_names *from,
                                       const tenmap_options *options, tenmap_error *error) {
    shard_jobs all = {
        .count = from->count, .options = options, .model = model, .asked_by = from->path};
    tenmap_status status = TENMAP_OK;
    tmi_shard *room = tmi_calloc(from->count, sizeof *room);
    all.jobs = tmi_calloc(from->count, sizeof *all.jobs);
    if (!room || !all.jobs) {
        free(room);
        free(all.jobs);
        return tmi_fail_memory(error, from->count * sizeof *all.jobs, "the list of shards");
    }
    free(model->shards);
    model->shards = room;
    model->shard_count = 0;
    for (size_t i = 0; i < all.count; i++)
        if (!name_shard(&all.jobs[i].shard, from, i, options->io))
            status = tmi_fail_memory(error, strlen(from->path), "a shard's path");
    if (status == TENMAP_OK)
        status = open_shards(model, &all, from->index, error);
    for (size_t i = 0; i < all.count; i++)
        tmi_shard_close(&all.jobs[i].shard);
    free(all.jobs);
    return status;
}

/* The index's text, of one piece. */
static tenmap_status read_index(tmi_shard *file, const tenmap_options *options, tmi_block *text,
                                tenmap_error *error) {
    uint64_t limit = tmi_header_limit(options);
    for (;;) {
        if (file->size > limit || file->size > SIZE_MAX - TMI_JSON_PAD)
            return tmi_fail(error, TENMAP_ERR_LIMIT,
                            "%s: the index has %llu bytes, over the limit of %llu "
                            "(a higher limit for headers allows it)",
                            tmi_quote_path(file->bytes.shown).text, (ull)file->size, (ull)limit);
        tenmap_status status = tmi_read_text(&file->bytes, 0, file->size, "the index", text, error);
        if (status != TENMAP_OK || file->bytes.io || tmi_file_look(&file->bytes.file))
            return status;
        tmi_block_free(text);
        status = tmi_shard_again(file, error);
        if (status != TENMAP_OK)
            return status;
        file->size = file->bytes.file.size;
    }
}

/* The model takes the index over, or it is freed. */
static tenmap_status keep_index(tenmap_model *model, tmi_index *index, tenmap_error *error) {
    model->indexes = tmi_calloc(1, sizeof *model->indexes);
    if (!model->indexes) {
        tmi_index_free(index);
        return tmi_fail_memory(error, sizeof *model->indexes, "the index");
    }
    model->indexes[0] = *index;
    model->index_count = 1;
    return TENMAP_OK;
}

/* The file open in shards[0] is an index. */
static tenmap_status open_index(tenmap_model *model, const char *path,
                                const tenmap_options *options, tenmap_error *error) {
    tmi_shard *file = &model->shards[0];
    tmi_block text = {NULL, 0};
    tmi_index index;
    if (options->offset || options->length)
        return tmi_fail(error, TENMAP_ERR_ARGUMENT,
                        "%s: options.offset and length are for single files; this is an index",
                        tmi_quote_path(path).text);
    tenmap_status status = read_index(file, options, &text, error);
    if (status != TENMAP_OK)
        return status;
    size_t length = (size_t)file->size;
    tmi_place place = {.path = path,
                       .flags = options->flags,
                       .size = file->size,
                       .key = model->key,
                       .report = model->report};
    model->index_json = tmi_copy_text(text.bytes, length); /* parsing unescapes in place */
    model->index_len = length;
    if (!model->index_json) {
        tmi_block_free(&text);
        return tmi_fail_memory(error, length, "the index");
    }
    status = tmi_index_parse(&index, &place, text, length, error);
    if (status != TENMAP_OK)
        return status;
    tmi_shard_close(&model->shards[0]);
    status = keep_index(model, &index, error);
    if (status != TENMAP_OK)
        return status;
    if (options->flags & TENMAP_OPEN_INDEX_ONLY) {
        model->shard_count = 0;
        model->finder = &model->names; /* of nothing */
        return TENMAP_OK;
    }
    shard_names from = {.count = model->indexes->file_count, .index = model->indexes, .path = path};
    status = open_named_shards(model, &from, options, error);
    if (status == TENMAP_OK && TMI_REPORTS(model->report))
        tmi_check_index(model, model->indexes, options->io, path);
    return status;
}

/* The file open in shards[0] is the first of several. */
static tenmap_status open_parts(tenmap_model *model, const char *path,
                                const tenmap_options *options, tenmap_error *error) {
    tmi_split split = model->shards[0].header.split;
    tmi_choice choice;
    tenmap_status status = tmi_split_names(&choice, options->io, path, &split, error);
    if (status != TENMAP_OK && (options->flags & TENMAP_OPEN_PARTIAL))
        return status == TENMAP_ERR_NOT_FOUND ? TENMAP_OK : status;
    if (status != TENMAP_OK)
        return status;
    tmi_shard_close(&model->shards[0]);
    model->file_size = 0;
    model->tensor_count = model->metadata_count = 0;
    model->metadata = NULL;
    shard_names from = {.count = choice.count, .names = choice.names, .path = path, .beside = true};
    status = open_named_shards(model, &from, options, error);
    tmi_choice_free(&choice);
    return status;
}

/* What a path, a file or a folder, holds. */

static tenmap_status open_file(tenmap_model *model, const char *path, const tenmap_options *options,
                               tenmap_error *error) {
    tmi_shard *shard = &model->shards[0];
    unsigned char start[TMI_START];
    size_t len;
    if (!shard->path)
        shard->path = tmi_copy_text(path, strlen(path));
    if (!model->folder)
        model->folder = tmi_config_folder(options->io, path, false);
    if (!shard->path || !model->folder)
        return tmi_fail_memory(error, strlen(path), "the path");
    shard->bytes.shown = shard->path;
    tenmap_status status = tmi_shard_start(shard, options, start, &len, error);
    if (status != TENMAP_OK)
        return status;
    if (tmi_index_recognise(start, len, shard->size))
        return open_index(model, path, options, error);
    status = open_single(model, options, start, len, error);
    bool alone = options->offset || options->length;
    if (status == TENMAP_OK && tmi_split_is_first(&shard->header.split) && !alone)
        status = open_parts(model, path, options, error);
    return status;
}

static tenmap_status open_in_folder(tenmap_model *model, const char *folder, const char *name,
                                    const tenmap_options *options, tenmap_error *error) {
    char *file = tmi_inside(options->io, folder, name, strlen(name));
    if (!file)
        return tmi_fail_memory(error, strlen(folder), "the path");
    tenmap_status status =
        tmi_bytes_open(&model->shards[0].bytes, options->io, file, "the file", error);
    if (status == TENMAP_OK)
        status = open_file(model, file, options, error);
    free(file);
    return status;
}

static tenmap_status open_folder(tenmap_model *model, const char *path,
                                 const tenmap_options *options, tenmap_error *error) {
    tmi_choice choice;
    char *snapshot = NULL;
    if (options->offset || options->length)
        return tmi_fail(error, TENMAP_ERR_ARGUMENT,
                        "%s: options.offset and length are for single files; this is a folder",
                        tmi_quote_path(path).text);
    tenmap_status status = tmi_folder_choose(&choice, options->io, path, error);
    if (status == TENMAP_ERR_NOT_FOUND)
        status = tmi_snapshot_choose(&snapshot, options->io, path, error);
    if (snapshot)
        status = tmi_folder_choose(&choice, options->io, snapshot, error);
    path = snapshot ? snapshot : path;
    if (status == TENMAP_OK)
        model->folder = tmi_config_folder(options->io, path, true);
    if (status == TENMAP_OK && !model->folder)
        status = tmi_fail_memory(error, strlen(path), "the path");
    if (status != TENMAP_OK) {
        tmi_choice_free(&choice);
        free(snapshot);
        return status;
    }
    shard_names from = {.count = choice.count, .names = choice.names, .path = path};
    status = choice.is_set ? open_named_shards(model, &from, options, error)
                           : open_in_folder(model, path, choice.names[0], options, error);
    tmi_choice_free(&choice);
    free(snapshot);
    return status;
}

tenmap_status tmi_open_path(tenmap_model *model, const char *path, const tenmap_options *options,
                            bool *absent, tenmap_error *error) {
    model->path = tmi_copy_text(path, strlen(path));
    if (!model->path)
        return tmi_fail_memory(error, strlen(path), "the path");
    tmi_bytes *bytes = &model->shards[0].bytes;
    tenmap_status status = tmi_bytes_open(bytes, options->io, model->path, "it", error);
    *absent = status == TENMAP_ERR_NOT_FOUND;
    if (status != TENMAP_OK)
        return status;
    if (bytes->file.kind == TMI_FILE_FOLDER)
        return open_folder(model, path, options, error);
    return open_file(model, path, options, error);
}

/* A descriptor or memory, already in shards[0]: one file, since there is no folder around it. */
static tenmap_status open_bare(tenmap_model *model, const char *shown,
                               const tenmap_options *options, tenmap_error *error) {
    tmi_shard *shard = &model->shards[0];
    unsigned char start[TMI_START];
    size_t len;
    shard->bytes.shown = shown;
    tenmap_status status = tmi_shard_start(shard, options, start, &len, error);
    if (status != TENMAP_OK)
        return status;
    if (tmi_index_recognise(start, len, shard->size))
        return tmi_fail(
            error, TENMAP_ERR_FORMAT,
            "%s: this is JSON text; an index names files that lie beside it, so open it "
            "by its path",
            shown);
    return open_single(model, options, start, len, error);
}

tenmap_status tmi_open_begin(const tenmap_options *given, tenmap_options *options,
                             tenmap_model **model, tenmap_model **out, tenmap_error *error) {
    if (!out)
        return tmi_fail(error, TENMAP_ERR_ARGUMENT, "the model's address (out) is NULL");
    *out = NULL;
    tenmap_status status = take_options(given, options, error);
    if (status != TENMAP_OK)
        return status;
    *model = tmi_model_new();
    if (!*model)
        return tmi_fail_memory(error, sizeof **model, "the model");
    if (!options->io)
        return TENMAP_OK;
    status = take_io(options->io, &(*model)->io, error);
    options->io = &(*model)->io;
    return status;
}

/* A descriptor and memory are what they are. */
static tenmap_status refuse_io(const tenmap_options *options, tenmap_error *error) {
    return options->io ? tmi_fail(error, TENMAP_ERR_ARGUMENT,
                                  "options.io is for models that are opened by a path")
                       : TENMAP_OK;
}

tenmap_status tmi_open_end(tenmap_model *model, const tenmap_options *options, tenmap_status status,
                           tenmap_model **out, tenmap_error *error) {
    if (status == TENMAP_OK && (options->flags & TENMAP_OPEN_DEQUANTIZE))
        status = tmi_quantized_find(model, options, error);
    size_t first = 0;
    for (size_t i = 0; i < model->shard_count; i++) {
        model->shards[i].view.first_tensor = first;
        first += model->shards[i].view.tensor_count;
    }
    if (status == TENMAP_OK)
        status = tmi_lookup_make(model, options->flags, error);
    if (status == TENMAP_OK)
        *out = model;
    else
        tenmap_close(model);
    return status;
}

tenmap_status tenmap_open(const char *path, const tenmap_options *given, tenmap_model **out,
                          tenmap_error *error) {
    tenmap_options options;
    tenmap_model *model = NULL;
    bool absent;
    tenmap_status status = tmi_open_begin(given, &options, &model, out, error);
    if (!model)
        return status;
    if (status == TENMAP_OK)
        status = path ? tmi_open_path(model, path, &options, &absent, error)
                      : tmi_fail(error, TENMAP_ERR_ARGUMENT, "the path is NULL");
    return tmi_open_end(model, &options, status, out, error);
}

tenmap_status tmi_open_edited(const tmi_file *file, const char *path, const tenmap_options *given,
                              tenmap_model **out, tenmap_error *error) {
    tenmap_options options;
    tenmap_model *model = NULL;
    tenmap_status status = tmi_open_begin(given, &options, &model, out, error);
    if (!model)
        return status;
    tmi_shard *shard = &model->shards[0];
    shard->edited_here = true;
    shard->bytes.file = (tmi_file){.fd = -1, .kind = file->kind};
    model->path = tmi_copy_text(path, strlen(path));
    int failed = file->fd < 0 ? 0 : tmi_file_dup(&shard->bytes.file, file->fd);
    if (!model->path)
        status = tmi_fail_memory(error, strlen(path), "the path");
    else if (failed)
        status = tmi_fail_os(error, failed, "%s: cannot open it", tmi_quote_path(path).text);
    else
        status = open_file(model, path, &options, error);
    return tmi_open_end(model, &options, status, out, error);
}

#ifndef TENMAP_NO_CHECK
tenmap_status tmi_open_reporting(const char *path, const tenmap_options *given, tmi_report *report,
                                 tenmap_error *error) {
    tenmap_options options;
    tenmap_model *model = NULL, *unused;
    bool absent;
    tenmap_status status = tmi_open_begin(given, &options, &model, &unused, error);
    if (!model)
        return status;
    options.backend = TENMAP_BACKEND_READ;
    report->flags = options.flags;
    model->report = report;
    if (status == TENMAP_OK)
        status = path ? tmi_open_path(model, path, &options, &absent, error)
                      : tmi_fail(error, TENMAP_ERR_ARGUMENT, "the path is NULL");
    if (status == TENMAP_OK && (options.flags & TENMAP_OPEN_DEQUANTIZE) && report->errors == 0 &&
        tmi_quantized_find(model, &options, error) != TENMAP_OK)
        tmi_report_failure(report, TENMAP_FOUND_PARTS, TENMAP_NO_SHARD, NULL, error);
    tenmap_close(model);
    return status;
}
#endif

tenmap_status tenmap_open_fd(int fd, const tenmap_options *given, tenmap_model **out,
                             tenmap_error *error) {
    tenmap_options options;
    tenmap_model *model = NULL;
    tenmap_status status = tmi_open_begin(given, &options, &model, out, error);
    if (!model)
        return status;
    if (status == TENMAP_OK)
        status = refuse_io(&options, error);
    int failed = fd < 0 ? EBADF : tmi_file_dup(&model->shards[0].bytes.file, fd);
    if (status == TENMAP_OK && fd < 0)
        status = tmi_fail(error, TENMAP_ERR_ARGUMENT, "the descriptor is %d", fd);
    else if (status == TENMAP_OK && failed)
        status = tmi_fail_os(error, failed, "descriptor %d: cannot be duplicated", fd);
    if (status == TENMAP_OK)
        status = open_bare(model, "descriptor", &options, error);
    return tmi_open_end(model, &options, status, out, error);
}

tenmap_status tenmap_open_memory(const void *bytes, size_t size, const tenmap_options *given,
                                 tenmap_model **out, tenmap_error *error) {
    tenmap_options options;
    tenmap_model *model = NULL;
    tenmap_status status = tmi_open_begin(given, &options, &model, out, error);
    if (!model)
        return status;
    if (status == TENMAP_OK)
        status = refuse_io(&options, error);
    if (status == TENMAP_OK && !bytes)
        status = tmi_fail(error, TENMAP_ERR_ARGUMENT, "the address of the bytes is NULL");
    if (status == TENMAP_OK) {
        tmi_file_memory(&model->shards[0].bytes.file, bytes, size);
        status = open_bare(model, "memory", &options, error);
    }
    return tmi_open_end(model, &options, status, out, error);
}
