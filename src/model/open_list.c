/*
 * Opens several paths as one model. Each path is opened separately, as by tenmap_open; then its
 * shards, tensors, metadata and listings are appended to those of one model.
 */
#include "model.h"

#include <stdlib.h>
#include <string.h>

typedef struct list_member {
    tenmap_model *model;
    tenmap_status status;
    bool absent; /* nothing exists at the path */
    tenmap_error error;
} list_member;

typedef struct member_list {
    list_member *members;
    size_t count;
    const char *const *paths;
    tenmap_options options; /* io is that of the combined model; the members' bytes keep using it */
} member_list;

static void open_member(void *ctx, size_t i) {
    member_list *list = ctx;
    list_member *p = &list->members[i];
    p->model = tmi_model_new();
    if (p->model)
        p->model->in_list = true;
    p->status = p->model
                    ? tmi_open_path(p->model, list->paths[i], &list->options, &p->absent, &p->error)
                    : tmi_fail_memory(&p->error, sizeof *p->model, "the model");
}

/* Whether the list is opened without this member. */
static bool is_left_out(const member_list *list, size_t i) {
    return list->members[i].absent && (list->options.flags & TENMAP_OPEN_PARTIAL);
}

static tenmap_status open_members(member_list *list, tenmap_error *error) {
    const tenmap_io *io = list->options.io;
    unsigned most = list->options.threads, threads = tmi_open_threads(list->count, io);
    if (most && threads > most)
        threads = most;
    if (threads > 1) /* threads for the shards of each member */
        list->options.threads = io ? (most ? most : TMI_OPEN_THREADS) / threads : 1;
    tmi_parallel(threads, list->count, open_member, list);
    for (size_t i = 0; i < list->count; i++) {
        const list_member *p = &list->members[i];
        if (p->status == TENMAP_OK || is_left_out(list, i))
            continue;
        if (error) {
            *error = p->error;
            error->index = i;
        }
        return p->status;
    }
    return TENMAP_OK;
}

/* Moving the members into one model. */

typedef struct member_sums {
    size_t shards, tensors, metadata, indexes, missing;
} member_sums;

static member_sums count_members(const member_list *list) {
    member_sums sums = {0, 0, 0, 0, 0};
    for (size_t i = 0; i < list->count; i++) {
        const tenmap_model *m = list->members[i].model;
        sums.missing += is_left_out(list, i) ? 1 : m->missing_count;
        if (is_left_out(list, i))
            continue;
        sums.shards += m->shard_count;
        sums.tensors += m->tensor_count;
        sums.metadata += m->metadata_count;
        sums.indexes += m->index_count;
    }
    return sums;
}

static tenmap_status alloc_tables(tenmap_model *model, member_sums sums, tenmap_error *error) {
    tmi_shard *shards = tmi_calloc(sums.shards, sizeof *shards);
    model->metadata = tmi_calloc(sums.metadata, sizeof *model->metadata);
    model->owns_metadata = true;
    model->indexes = tmi_calloc(sums.indexes, sizeof *model->indexes);
    model->missing = tmi_calloc(sums.missing, sizeof *model->missing);
    if (shards) {
        free(model->shards);
        model->shards = shards;
        model->shard_count = 0;
    }
    if (!shards || !model->metadata || !model->indexes || !model->missing ||
        sums.tensors > SIZE_MAX / sizeof *model->tensors ||
        !tmi_block_alloc(&model->tensor_block, sums.tensors * sizeof *model->tensors) ||
        !tmi_names_init(&model->names, &model->key, model->tensor_block.bytes,
                        sizeof *model->tensors, sums.tensors))
        return tmi_fail_memory(error, (uint64_t)sums.tensors * sizeof *model->tensors,
                               "the tables of several files");
    model->tensors = model->tensor_block.bytes;
    model->finder = &model->names;
    return TENMAP_OK;
}

/* Moves everything out of a member, which can then be closed. */
static void move_member(tenmap_model *model, tenmap_model *from) {
    uint32_t first = (uint32_t)model->shard_count;
    for (size_t i = 0; i < from->tensor_count; i++) {
        tenmap_tensor *t = &model->tensors[model->tensor_count++];
        *t = from->tensors[i];
        t->shard += first;
        t->model = model;
    }
    for (size_t i = 0; i < from->metadata_count; i++) {
        tenmap_metadata *m = &model->metadata[model->metadata_count++];
        *m = from->metadata[i];
        m->shard += first;
    }
    for (size_t i = 0; i < from->shard_count; i++)
        model->shards[model->shard_count++] = from->shards[i];
    for (size_t i = 0; i < from->index_count; i++)
        model->indexes[model->index_count++] = from->indexes[i];
    for (size_t i = 0; i < from->missing_count; i++)
        model->missing[model->missing_count++] = from->missing[i];
    model->unlisted += from->index_count ? 0 : from->missing_count;
    from->shard_count = from->index_count = from->missing_count = 0;
    model->file_size += from->file_size;
    if (!model->index_text.bytes) {
        model->index_text = from->index_text;
        model->index_len = from->index_len;
        from->index_text = (tmi_block){NULL, 0};
    }
}

static tenmap_status move_members(tenmap_model *model, const member_list *list,
                                  tenmap_error *error) {
    for (size_t i = 0; i < list->count; i++) {
        const char *path = list->paths[i];
        if (!is_left_out(list, i)) {
            move_member(model, list->members[i].model);
            continue;
        }
        char *copy = tmi_copy_text(path, strlen(path));
        if (!copy)
            return tmi_fail_memory(error, strlen(path), "the name of a missing file");
        model->missing[model->missing_count++] = copy;
        model->unlisted++;
    }
    tenmap_model *named = list->members[0].model; /* the first member gives its path and folder */
    model->path = named->path;
    model->folder = named->folder;
    named->path = named->folder = NULL;
    if (!model->folder) /* the first member is missing */
        model->folder = tmi_config_folder(list->options.io, model->path, false);
    tmi_combine_free_headers(model);
    return model->folder ? TENMAP_OK : tmi_fail_memory(error, strlen(model->path), "the path");
}

/* Names. */

static uint64_t hash_of(const tenmap_model *model, size_t i) {
    return tmi_hash(&model->key, model->tensors[i].name, model->tensors[i].name_len);
}

static tenmap_status fail_in_both(const tenmap_model *model, size_t a, size_t b,
                                  tenmap_error *error) {
    const tenmap_tensor *x = &model->tensors[a], *y = &model->tensors[b];
    return tmi_remedy(
        error, TENMAP_REMEDY_LATER_WINS,
        tmi_fail_at(error, TENMAP_ERR_FORMAT, y->shard, y->file_offset,
                    "tensor %s is in %s and in %s; opening them so that the later file wins "
                    "takes the tensor from the second",
                    tmi_quote(x->name, x->name_len).text,
                    tmi_quote_path(tmi_shard_of(x)->bytes.shown).text,
                    tmi_quote_path(tmi_shard_of(y)->bytes.shown).text));
}

/* Enters all names; a duplicate name is an error. */
static tenmap_status enter_names(tenmap_model *model, tenmap_error *error) {
    for (size_t i = 0; i < model->tensor_count; i++) {
        size_t duplicate = tmi_names_put(&model->names, i, hash_of(model, i));
        if (duplicate != TMI_NONE)
            return fail_in_both(model, duplicate, i, error);
    }
    return TENMAP_OK;
}

/* Removes the tensors that a later member has too, by entering the names from last to first. */
static tenmap_status drop_earlier(tenmap_model *model, tenmap_error *error) {
    size_t kept = 0, count = model->tensor_count;
    for (size_t i = count; i-- > 0;)
        if (tmi_names_put(&model->names, i, hash_of(model, i)) != TMI_NONE)
            model->tensors[i].model = NULL;
    for (size_t i = 0; i < count; i++) {
        if (model->tensors[i].model)
            model->tensors[kept++] = model->tensors[i];
        else
            model->shards[model->tensors[i].shard].view.tensor_count--;
    }
    if (kept == count)
        return TENMAP_OK;
    model->tensor_count = kept;
    tmi_names_free(&model->names);
    if (!tmi_names_init(&model->names, &model->key, model->tensors, sizeof *model->tensors, kept))
        return tmi_fail_memory(error, (uint64_t)kept * 16, "the index of names");
    return enter_names(model, error);
}

static tenmap_status combine_list(tenmap_model *model, const member_list *list,
                                  tenmap_error *error) {
    tenmap_status status = alloc_tables(model, count_members(list), error);
    if (status == TENMAP_OK)
        status = move_members(model, list, error);
    if (status != TENMAP_OK)
        return status;
    return list->options.flags & TENMAP_OPEN_LATER_WINS ? drop_earlier(model, error)
                                                        : enter_names(model, error);
}

static tenmap_status open_many(tenmap_model *model, const char *const *paths, size_t n,
                               const tenmap_options *options, tenmap_error *error) {
    member_list list = {.count = n, .paths = paths, .options = *options};
    if (n > 1 && (options->offset || options->length))
        return tmi_fail(error, TENMAP_ERR_ARGUMENT,
                        "options.offset and length are for single files; this is a list of %llu",
                        (ull)n);
    list.members = tmi_calloc(n, sizeof *list.members);
    if (!list.members)
        return tmi_fail_memory(error, (uint64_t)n * sizeof *list.members, "the list of files");
    tenmap_status status = open_members(&list, error);
    if (status == TENMAP_OK)
        status = combine_list(model, &list, error);
    for (size_t i = 0; i < n; i++)
        tenmap_close(list.members[i].model);
    free(list.members);
    return status;
}

static tenmap_status check_paths(const char *const *paths, size_t n, tenmap_error *error) {
    if (!paths || n == 0)
        return tmi_fail(error, TENMAP_ERR_ARGUMENT, "the list of paths is %s",
                        paths ? "empty" : "NULL");
    if (n > TMI_MOST_SHARDS)
        return tmi_fail(error, TENMAP_ERR_LIMIT, "%llu paths are over the limit of %d", (ull)n,
                        (int)TMI_MOST_SHARDS);
    for (size_t i = 0; i < n; i++)
        if (!paths[i]) {
            tmi_fail(error, TENMAP_ERR_ARGUMENT, "path %llu of the list is NULL", (ull)i);
            if (error)
                error->index = i;
            return TENMAP_ERR_ARGUMENT;
        }
    return TENMAP_OK;
}

tenmap_status tenmap_open_list(const char *const *paths, size_t n, const tenmap_options *given,
                               tenmap_model **out, tenmap_error *error) {
    tenmap_options options;
    tenmap_model *model = NULL;
    bool absent = false;
    tenmap_status status = tmi_open_begin(given, &options, &model, out, error);
    if (!model)
        return status;
    if (status == TENMAP_OK)
        status = check_paths(paths, n, error);
    bool alone = n == 1 && !(options.flags & TENMAP_OPEN_PARTIAL);
    if (status == TENMAP_OK)
        status = alone ? tmi_open_path(model, paths[0], &options, &absent, error)
                       : open_many(model, paths, n, &options, error);
    return tmi_open_end(model, &options, status, out, error);
}
