/*
 * For tenmap_check: reports where an index and its shards disagree, while the shards are combined.
 */
#include "model.h"

#ifndef TENMAP_NO_CHECK

#include <stdlib.h>
#include <string.h>

/* Offset of the listed name, from its opening quote, in the text of the index. */
static uint64_t listing_offset(const tmi_index *index, const tmi_listing *listing) {
    return (uint64_t)(listing->name - (const char *)index->text.bytes) - 1;
}

void tmi_check_combined(const tenmap_model *model, const tmi_index *index, const size_t *file_shard,
                        size_t shard, const tenmap_tensor *t, uint64_t hash) {
    tmi_report *r = model->report;
    const tmi_shard *here = &model->shards[shard];
    tmi_quoted path = tmi_quote_path(model->path);
    size_t i = tmi_names_find(&index->names, t->name, t->name_len, hash);
    if (i == TMI_NONE) {
        TMI_REPORT(r, NOT_LISTED, here->number, t->file_offset, t->name,
                   "%s: tensor %s is in %s, but the index does not list it", path.text,
                   tmi_quote(t->name, t->name_len).text, tmi_quote_path(here->name).text);
        return;
    }
    size_t file = index->listings[i].file, named = file_shard[file];
    tmi_quoted there = tmi_quote(index->files[file].name, index->files[file].name_len);
    if (named == shard)
        return;
    bool twice = named != TMI_NONE && tmi_names_find(&model->shards[named].header.names, t->name,
                                                     t->name_len, hash) != TMI_NONE;
    if (twice)
        TMI_REPORT_AS(r, TENMAP_FINDING_WARNING, IN_TWO_SHARDS, here->number, t->file_offset,
                      t->name, "%s: tensor %s is in %s and in %s; the index names the latter",
                      path.text, tmi_quote(t->name, t->name_len).text,
                      tmi_quote_path(here->name).text, there.text);
    else
        TMI_REPORT_AS(r, TENMAP_FINDING_WARNING, NOT_IN_SHARD, here->number, t->file_offset,
                      t->name, "%s: tensor %s is in %s, but the index lists it in %s", path.text,
                      tmi_quote(t->name, t->name_len).text, tmi_quote_path(here->name).text,
                      there.text);
}

void tmi_check_listings(const tenmap_model *model, const tmi_index *index,
                        const size_t *file_shard) {
    tmi_report *r = model->report;
    tenmap_error said;
    for (size_t i = 0; i < index->listing_count; i++) {
        const tmi_listing *l = &index->listings[i];
        if (l->seen || file_shard[l->file] == TMI_NONE ||
            tmi_report_full(r, TENMAP_FINDING_ERROR, TENMAP_FOUND_NOT_IN_SHARD))
            continue;
        tmi_fail_at(&said, TENMAP_ERR_FORMAT, 0, listing_offset(index, l),
                    "%s: the index lists tensor %s in %s, which does not have it",
                    tmi_quote_path(model->path).text, tmi_quote(l->name, l->name_len).text,
                    tmi_quote_path(model->shards[file_shard[l->file]].name).text);
        tmi_report_failure(r, TENMAP_FOUND_NOT_IN_SHARD, TENMAP_NO_SHARD, l->name, &said);
    }
}

/* PyTorch files may name a range several times; it counts once. Such tensors are neighbors. */
static bool is_same_range(const tenmap_tensor *a, const tenmap_tensor *b) {
    return a->shard == b->shard && a->file_offset == b->file_offset && a->nbytes == b->nbytes;
}

static void check_total_size(const tenmap_model *model, const tmi_index *index, const char *path) {
    uint64_t total = 0;
    if (!index->has_total_size) {
        TMI_REPORT_AS(model->report, TENMAP_FINDING_NOTE, TOTAL_SIZE, TENMAP_NO_SHARD, 0, NULL,
                      "%s: the index has no metadata.total_size, which some loaders require",
                      tmi_quote_path(path).text);
        return;
    }
    if (model->report->errors || model->missing_count)
        return; /* the tensors at hand are not those that the index describes */
    for (size_t i = 0; i < model->tensor_count; i++)
        total += i && is_same_range(&model->tensors[i - 1], &model->tensors[i])
                     ? 0
                     : model->tensors[i].nbytes;
    if (total != index->total_size)
        TMI_REPORT(model->report, TOTAL_SIZE, TENMAP_NO_SHARD, 0, NULL,
                   "%s: the index says that the tensors have %llu bytes in total "
                   "(metadata.total_size), but they have %llu",
                   tmi_quote_path(path).text, (ull)index->total_size, (ull)total);
}

typedef struct folder_check {
    const tenmap_model *model;
    const tmi_index *index;
    const char *path;
} folder_check;

static int compare_listed_file(const void *name, const void *file) {
    return strcmp(name, ((const tmi_listed_file *)file)->name);
}

static bool check_folder_entry(void *ctx, const char *name) {
    const folder_check *b = ctx;
    const tmi_index *index = b->index;
    const char *like = index->file_count ? index->files[0].name : NULL;
    if (tmi_is_numbered_name(name, like) &&
        !bsearch(name, index->files, index->file_count, sizeof *index->files, compare_listed_file))
        TMI_REPORT(b->model->report, EXTRA_SHARD, TENMAP_NO_SHARD, 0, NULL,
                   "%s: %s lies beside the index, which names no tensor in it",
                   tmi_quote_path(b->path).text, tmi_quote_path(name).text);
    return true;
}

void tmi_check_index(const tenmap_model *model, const tmi_index *index, const tenmap_io *io,
                     const char *path) {
    folder_check b = {model, index, path};
    char *folder = tmi_path_folder(io, path);
    check_total_size(model, index, path);
    if (folder)
        (void)tmi_bytes_list(io, folder, check_folder_entry, &b, NULL);
    free(folder);
}

#endif
