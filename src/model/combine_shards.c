/* Combines several shards into one model: decides which tensor is taken from which file. */
#include "model.h"

#include <stdlib.h>

typedef struct combining {
    tenmap_model *model;
    tmi_index *index;         /* NULL for a numbered set */
    const size_t *file_shard; /* the shard of each file of the index */
    uint32_t flags;
    tenmap_error *error;
} combining;

static const char *shard_name(const combining *j, size_t shard) {
    return j->model->shards[shard].name;
}

static bool shard_has(const combining *j, size_t shard, const tenmap_tensor *t, uint64_t hash) {
    const tmi_names *names = &j->model->shards[shard].header.names;
    return tmi_names_find(names, t->name, t->name_len, hash) != TMI_NONE;
}

/*
 * Whether the model takes this tensor from this shard. A tensor that the index lists is taken only
 * from the shard that the index names. If the flags allow a stale index and that shard is there but
 * lacks the tensor, another shard may provide it.
 */
static bool takes_tensor(const combining *j, size_t shard, const tenmap_tensor *t, uint64_t hash) {
    if (!j->index)
        return true;
    size_t i = tmi_names_find(&j->index->names, t->name, t->name_len, hash);
    if (i == TMI_NONE)
        return true;
    tmi_listing *listing = &j->index->listings[i];
    size_t named = j->file_shard[listing->file];
    if (named == shard) {
        listing->seen = true;
        return true;
    }
    return tmi_allows(j->flags, TENMAP_OPEN_STALE_INDEX) && named != TMI_NONE &&
           !shard_has(j, named, t, hash);
}

static void fail_duplicate(const combining *j, const tenmap_tensor *a, const tenmap_tensor *b) {
    tmi_fail_at(j->error, TENMAP_ERR_FORMAT, b->shard, b->file_offset,
                "%s: tensor %s is in %s and in %s, and no index says which one counts",
                tmi_quote_path(j->model->path).text, tmi_quote(a->name, a->name_len).text,
                tmi_quote_path(shard_name(j, a->shard)).text,
                tmi_quote_path(shard_name(j, b->shard)).text);
}

static tenmap_status combine_shard(combining *j, size_t shard) {
    tenmap_model *model = j->model;
    tmi_shard *from = &model->shards[shard];
    const tenmap_tensor *tensors = from->header.tensors.bytes;
    size_t before = model->tensor_count;
    for (size_t i = 0; i < from->header.count; i++) {
        uint64_t hash = tmi_hash(&model->key, tensors[i].name, tensors[i].name_len);
        if (TMI_REPORTS(model->report) && j->index)
            tmi_check_combined(model, j->index, j->file_shard, shard, &tensors[i], hash);
        if (!takes_tensor(j, shard, &tensors[i], hash))
            continue;
        tenmap_tensor *t = &model->tensors[model->tensor_count];
        *t = tensors[i];
        t->shard = (uint32_t)shard;
        size_t duplicate = tmi_names_put(&model->names, model->tensor_count, hash);
        if (duplicate == TMI_NONE) {
            model->tensor_count++;
            continue;
        }
        fail_duplicate(j, &model->tensors[duplicate], t);
        if (!TMI_REPORTS(model->report))
            return TENMAP_ERR_FORMAT;
        tmi_report_failure(model->report, TENMAP_FOUND_IN_TWO_SHARDS, from->number, t->name,
                           j->error);
    }
    from->view.tensor_count = model->tensor_count - before;
    return TENMAP_OK;
}

/* Every listed name must be in the shard that the index names, unless that shard is missing. */
static tenmap_status check_listings(const combining *j) {
    const tmi_listing *first = NULL;
    tmi_list lacking = {.used = 0};
    if (!j->index || (tmi_allows(j->flags, TENMAP_OPEN_STALE_INDEX) && !j->model->report))
        return TENMAP_OK;
    for (size_t i = 0; i < j->index->listing_count; i++) {
        const tmi_listing *l = &j->index->listings[i];
        if (l->seen || j->file_shard[l->file] == TMI_NONE)
            continue;
        first = first ? first : l;
        tmi_list_add(&lacking, l->name, l->name_len);
    }
    if (!first)
        return TENMAP_OK;
    tmi_fail_at(j->error, TENMAP_ERR_FORMAT, 0,
                (uint64_t)(first->name - (const char *)j->index->text.bytes) - 1,
                "%s: the index lists %s %s in %s, which %s", tmi_quote_path(j->model->path).text,
                lacking.count == 1 ? "tensor" : "tensors", tmi_list_end(&lacking),
                lacking.count == 1 ? tmi_quote_path(shard_name(j, j->file_shard[first->file])).text
                                   : "shards",
                lacking.count == 1 ? "does not have it" : "do not have them");
    if (!TMI_REPORTS(j->model->report))
        return TENMAP_ERR_FORMAT;
    tmi_report_failure(j->model->report, TENMAP_FOUND_NOT_IN_SHARD, TENMAP_NO_SHARD,
                       lacking.count == 1 ? first->name : NULL, j->error);
    if (lacking.count > 1)
        tmi_check_listings(j->model, j->index, j->file_shard);
    return TENMAP_OK;
}

tenmap_status tmi_combine_metadata(tenmap_model *model, tenmap_error *error) {
    size_t total = 0, used = 0;
    for (size_t s = 0; s < model->shard_count; s++)
        total += model->shards[s].header.metadata_count;
    model->metadata = tmi_calloc(total, sizeof *model->metadata);
    if (!model->metadata)
        return tmi_fail_memory(error, (uint64_t)total * sizeof *model->metadata, "the metadata");
    model->owns_metadata = true;
    for (size_t s = 0; s < model->shard_count; s++) {
        tmi_header *header = &model->shards[s].header;
        for (size_t i = 0; i < header->metadata_count; i++) {
            model->metadata[used] = header->metadata[i];
            model->metadata[used++].shard = (uint32_t)s;
        }
    }
    model->metadata_count = used;
    return TENMAP_OK;
}

void tmi_combine_free_headers(tenmap_model *model) {
    for (size_t s = 0; s < model->shard_count; s++) {
        tmi_header *header = &model->shards[s].header;
        tmi_header_drop_tensors(header);
        free(header->metadata);
        header->metadata = NULL;
        header->metadata_count = 0;
    }
}

tenmap_status tmi_combine_shards(tenmap_model *model, tmi_index *index, const size_t *file_shard,
                                 uint32_t flags, tenmap_error *error) {
    combining j = {model, index, file_shard, flags, error};
    size_t total = 0;
    for (size_t s = 0; s < model->shard_count; s++)
        total += model->shards[s].header.count;
    if (total > SIZE_MAX / sizeof *model->tensors ||
        !tmi_block_alloc(&model->tensor_block, total * sizeof *model->tensors))
        return tmi_fail_memory(error, (uint64_t)total * sizeof *model->tensors,
                               "the tensors' table");
    model->tensors = model->tensor_block.bytes;
    if (!tmi_names_init(&model->names, &model->key, model->tensors, sizeof *model->tensors, total))
        return tmi_fail_memory(error, (uint64_t)total * 16, "the index of names");
    model->finder = &model->names;
    tenmap_status status = TENMAP_OK;
    for (size_t s = 0; s < model->shard_count && status == TENMAP_OK; s++)
        status = combine_shard(&j, s);
    if (status == TENMAP_OK)
        status = check_listings(&j);
    if (status == TENMAP_OK)
        status = tmi_combine_metadata(model, error);
    if (status == TENMAP_OK)
        tmi_combine_free_headers(model);
    return status;
}
