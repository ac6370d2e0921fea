/* Opens a model from a path, a descriptor or memory. */
#include "model.h"
#include "../format/json.h"
#include "pickled_values.h"
#include "quantized.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Copies the members of the caller's tenmap_io that this version knows. */
static tenmap_status copy_io(const tenmap_io *given, tenmap_io *out, tenmap_error *error) {
    static const tmi_options_kind kind = {.name = "tenmap_io",
                                          .init = "TENMAP_IO_INIT",
                                          .size = sizeof(tenmap_io),
                                          .first_size = sizeof(tenmap_io)};
    tenmap_status status = tmi_options_copy(&kind, given, out, error);
    for (size_t i = 0; status == TENMAP_OK && i < sizeof out->reserved / sizeof *out->reserved; i++)
        if (out->reserved[i])
            status = tmi_fail(error, TENMAP_ERR_ARGUMENT, "tenmap_io.reserved must be 0");
    if (status == TENMAP_OK && (!out->open || !out->read || !out->close))
        status = tmi_fail(error, TENMAP_ERR_ARGUMENT, "options.io has no %s function",
                          !out->open   ? "open"
                          : !out->read ? "read"
                                       : "close");
    return status;
}

static tenmap_status fail_private(tenmap_error *error) {
    return tmi_fail(error, TENMAP_ERR_ARGUMENT,
                    "TENMAP_OPEN_PRIVATE needs a mapped file: it does not work with "
                    "TENMAP_BACKEND_READ, options.io and tenmap_open_memory");
}

static tenmap_status init_open_options(const tenmap_options *given, tenmap_options *out,
                                       tenmap_error *error) {
    static const tmi_options_kind kind = {
        "tenmap_options",
        "TENMAP_OPTIONS_INIT",
        sizeof(tenmap_options),
        offsetof(tenmap_options, length) + sizeof(uint64_t),
        offsetof(tenmap_options, flags),
        TENMAP_OPEN_LENIENT | TENMAP_OPEN_PARTIAL | TENMAP_OPEN_DEQUANTIZE |
            TENMAP_OPEN_LATER_WINS | TENMAP_OPEN_ALIASES | TENMAP_OPEN_INDEX_ONLY |
            TENMAP_OPEN_PRIVATE | TENMAP_OPEN_BRANCHES | TENMAP_OPEN_TRAILING | TENMAP_OPEN_HOLES |
            TENMAP_OPEN_UNKNOWN_DTYPES | TENMAP_OPEN_STALE_INDEX | TENMAP_OPEN_SUBFOLDERS,
        offsetof(tenmap_options, reserved)};
    tenmap_status status = tmi_options_copy(&kind, given, out, error);
    if (status != TENMAP_OK)
        return status;
    if (out->backend > TENMAP_BACKEND_READ)
        return tmi_fail(error, TENMAP_ERR_ARGUMENT, "options.backend is %u, which is not a backend",
                        (unsigned)out->backend);
    if (out->flags & TENMAP_OPEN_PRIVATE && (out->backend != TENMAP_BACKEND_MAP || out->io))
        return fail_private(error);
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

/* A model of one shard uses the tables of its header. */
static void adopt_only_shard(tenmap_model *model) {
    const tmi_header *header = &model->shards[0].header;
    model->tensors = header->tensors.bytes;
    model->tensor_count = header->count;
    model->finder = &header->names;
    model->metadata = header->metadata;
    model->metadata_count = header->metadata_count;
    model->file_size = model->shards[0].size;
}

/* The shard's file is open; `start` holds the bytes that tmi_shard_start read. */
static tenmap_status open_single(tenmap_model *model, const tenmap_options *options,
                                 const tmi_start *start, tenmap_error *error) {
    tmi_membership of = {.model = model};
    tenmap_status status = tmi_shard_parse(&model->shards[0], options, &of, start, error);
    if (status == TENMAP_OK)
        adopt_only_shard(model);
    return status;
}

/* The file open in shards[0] is an index. */
static tenmap_status open_index(tenmap_model *model, const char *path,
                                const tenmap_options *options, tenmap_error *error) {
    tmi_outline outline = {.count = 0};
    if (options->offset || options->length)
        return tmi_fail(error, TENMAP_ERR_ARGUMENT,
                        "%s: options.offset and length are for single files; this is an index",
                        tmi_quote_path(path).text);
    tenmap_status status = tmi_read_index(model, &model->shards[0], options, error);
    if (status == TENMAP_OK)
        status = tmi_outline_index(model, path, options, &outline, error);
    if (status == TENMAP_OK && !outline.count)
        status = tmi_parse_index(model, path, options, error);
    if (status != TENMAP_OK)
        return status;
    tmi_shard_close(&model->shards[0]);
    if (options->flags & TENMAP_OPEN_INDEX_ONLY) {
        model->shard_count = 0;
        model->finder = &model->names; /* empty */
        return TENMAP_OK;
    }
    tmi_shard_names from = {.path = path, .outline = outline.count ? &outline : NULL};
    from.count = from.outline ? outline.file_count : model->indexes->file_count;
    status = tmi_open_shards(model, &from, options, error);
    tmi_outline_free(&outline);
    if (status == TENMAP_OK && TMI_REPORTS(model->report))
        tmi_check_index(model, model->indexes, options->io, path);
    return status;
}

/* The file open in shards[0] is the first of several. */
static tenmap_status open_parts(tenmap_model *model, const char *path,
                                const tenmap_options *options, tenmap_error *error) {
    tmi_folder_choice choice;
    tenmap_status status = tmi_split_choose(&choice, options->io, path, &model->shards[0], error);
    if (status != TENMAP_OK && (options->flags & TENMAP_OPEN_PARTIAL))
        return status == TENMAP_ERR_NOT_FOUND ? TENMAP_OK : status;
    if (status != TENMAP_OK)
        return status;
    tmi_shard_close(&model->shards[0]);
    model->file_size = 0;
    model->tensor_count = model->metadata_count = 0;
    model->metadata = NULL;
    tmi_shard_names from = {
        .count = choice.count, .names = choice.names, .path = path, .path_is_member = true};
    status = tmi_open_shards(model, &from, options, error);
    tmi_folder_choice_free(&choice);
    return status;
}

/* Opening a path: a file or a folder. */

static tenmap_status open_file(tenmap_model *model, const char *path, const tenmap_options *options,
                               tenmap_error *error) {
    tmi_shard *shard = &model->shards[0];
    tmi_start start;
    if (!shard->path)
        shard->path = tmi_copy_text(path, strlen(path));
    if (!model->folder)
        model->folder = tmi_config_folder(options->io, path, false);
    if (!shard->path || !model->folder)
        return tmi_fail_memory(error, strlen(path), "the path");
    shard->bytes.shown = shard->path;
    tenmap_status status = tmi_shard_start(shard, options, &start, error);
    if (status != TENMAP_OK)
        return status;
    if (tmi_index_recognize(start.bytes, start.len, shard->size))
        return open_index(model, path, options, error);
    status = open_single(model, options, &start, error);
    bool alone = options->offset || options->length || shard->edited_here;
    if (status == TENMAP_OK && tmi_split_is_first(shard) && !alone)
        status = open_parts(model, path, options, error);
    return status;
}

static tenmap_status open_in_folder(tenmap_model *model, const char *folder, const char *name,
                                    const tenmap_options *options, tenmap_error *error) {
    char *file = tmi_path_inside(options->io, folder, name, strlen(name));
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
    tmi_folder_choice choice;
    char *snapshot = NULL;
    if (options->offset || options->length)
        return tmi_fail(error, TENMAP_ERR_ARGUMENT,
                        "%s: options.offset and length are for single files; this is a folder",
                        tmi_quote_path(path).text);
    tenmap_status status = tmi_folder_choose(&choice, options->io, path, error);
    if (status == TENMAP_ERR_NOT_FOUND)
        status = tmi_hub_cache_choose(&snapshot, options->io, path, error);
    if (snapshot)
        status = tmi_folder_choose(&choice, options->io, snapshot, error);
    path = snapshot ? snapshot : path;
    if (status == TENMAP_OK)
        model->folder = tmi_config_folder(options->io, path, true);
    if (status == TENMAP_OK && !model->folder)
        status = tmi_fail_memory(error, strlen(path), "the path");
    if (status != TENMAP_OK) {
        tmi_folder_choice_free(&choice);
        free(snapshot);
        return status;
    }
    tmi_shard_names from = {.count = choice.count, .names = choice.names, .path = path};
    status = choice.is_set ? tmi_open_shards(model, &from, options, error)
                           : open_in_folder(model, path, choice.names[0], options, error);
    tmi_folder_choice_free(&choice);
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

/*
 * Opens a descriptor or memory that is already in shards[0]. It is a single file, since it has no
 * folder.
 */
static tenmap_status open_bare(tenmap_model *model, const char *shown,
                               const tenmap_options *options, tenmap_error *error) {
    tmi_shard *shard = &model->shards[0];
    tmi_start start;
    shard->bytes.shown = shown;
    tenmap_status status = tmi_shard_start(shard, options, &start, error);
    if (status != TENMAP_OK)
        return status;
    if (tmi_index_recognize(start.bytes, start.len, shard->size))
        return tmi_fail(
            error, TENMAP_ERR_FORMAT,
            "%s: this is JSON text; an index names files that lie beside it, so open it "
            "by its path",
            shown);
    return open_single(model, options, &start, error);
}

tenmap_status tmi_open_begin(const tenmap_options *given, tenmap_options *options,
                             tenmap_model **model, tenmap_model **out, tenmap_error *error) {
    if (!out)
        return tmi_fail(error, TENMAP_ERR_ARGUMENT, "the model's address (out) is NULL");
    *out = NULL;
    tenmap_status status = init_open_options(given, options, error);
    if (status != TENMAP_OK)
        return status;
    *model = tmi_model_new();
    if (!*model)
        return tmi_fail_memory(error, sizeof **model, "the model");
    if (!options->io)
        return TENMAP_OK;
    status = copy_io(options->io, &(*model)->io, error);
    options->io = &(*model)->io;
    return status;
}

/* A tenmap_io opens paths, so it does not apply to a descriptor or memory. */
static tenmap_status refuse_io(const tenmap_options *options, tenmap_error *error) {
    return options->io ? tmi_fail(error, TENMAP_ERR_ARGUMENT,
                                  "options.io works only for models that are opened by a path")
                       : TENMAP_OK;
}

tenmap_status tmi_open_end(tenmap_model *model, const tenmap_options *options, tenmap_status status,
                           tenmap_model **out, tenmap_error *error) {
    if (status == TENMAP_OK)
        status = tmi_computed_prepare(model, error);
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

/* Opens a path; `more` are flags beside those of the caller. */
static tenmap_status open_path(const char *path, const tenmap_options *given, uint32_t more,
                               tenmap_model **out, tenmap_error *error) {
    tenmap_options options;
    tenmap_model *model = NULL;
    bool absent;
    tenmap_status status = tmi_open_begin(given, &options, &model, out, error);
    if (!model)
        return status;
    options.flags |= more;
    if (status == TENMAP_OK)
        status = path ? tmi_open_path(model, path, &options, &absent, error)
                      : tmi_fail(error, TENMAP_ERR_ARGUMENT, "the path is NULL");
    return tmi_open_end(model, &options, status, out, error);
}

tenmap_status tenmap_open(const char *path, const tenmap_options *given, tenmap_model **out,
                          tenmap_error *error) {
    return open_path(path, given, 0, out, error);
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
    if (status == TENMAP_OK && !model->path)
        status = tmi_fail_memory(error, strlen(path), "the path");
    if (status == TENMAP_OK && failed)
        status = tmi_fail_os(error, failed, "%s: cannot open it", tmi_quote_path(path).text);
    if (status == TENMAP_OK)
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
    if (status == TENMAP_OK)
        status = tmi_computed_prepare(model, error);
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
        status =
            tmi_fail(error, TENMAP_ERR_ARGUMENT, "the descriptor is %d, which is negative", fd);
    else if (status == TENMAP_OK && failed)
        status = tmi_fail_os(error, failed, "descriptor %d: cannot be duplicated", fd);
    if (status == TENMAP_OK)
        status = open_bare(model, "descriptor", &options, error);
    return tmi_open_end(model, &options, status, out, error);
}

/* A range of memory to open. */
typedef struct memory_range {
    const void *bytes;
    size_t size;
} memory_range;

/* Opens memory; `more` are flags beside those of the caller. */
static tenmap_status open_memory(memory_range memory, const tenmap_options *given, uint32_t more,
                                 tenmap_model **out, tenmap_error *error) {
    tenmap_options options;
    tenmap_model *model = NULL;
    tenmap_status status = tmi_open_begin(given, &options, &model, out, error);
    if (!model)
        return status;
    options.flags |= more;
    if (status == TENMAP_OK)
        status = refuse_io(&options, error);
    if (status == TENMAP_OK && options.flags & TENMAP_OPEN_PRIVATE)
        status = fail_private(error);
    if (status == TENMAP_OK && !memory.bytes)
        status = tmi_fail(error, TENMAP_ERR_ARGUMENT, "the address of the bytes is NULL");
    if (status == TENMAP_OK) {
        tmi_file_memory(&model->shards[0].bytes.file, memory.bytes, memory.size);
        status = open_bare(model, "memory", &options, error);
    }
    return tmi_open_end(model, &options, status, out, error);
}

tenmap_status tenmap_open_memory(const void *bytes, size_t size, const tenmap_options *given,
                                 tenmap_model **out, tenmap_error *error) {
    return open_memory((memory_range){bytes, size}, given, 0, out, error);
}

/* With the values of a pickle. */

tenmap_status tmi_open_values(const char *path, const tenmap_options *given, tenmap_model **out,
                              tenmap_error *error) {
    return open_path(path, given, TMI_OPEN_VALUES, out, error);
}

tenmap_status tmi_open_values_memory(const void *bytes, size_t size, const tenmap_options *given,
                                     tenmap_model **out, tenmap_error *error) {
    return open_memory((memory_range){bytes, size}, given, TMI_OPEN_VALUES, out, error);
}

const void *tmi_values_of(const tenmap_model *model) {
    return model->shard_count == 1 ? model->shards[0].header.values : NULL;
}
