/* Lookup tables besides number and name: the order in which tensors are written, and aliases. */
#include "model.h"

#include <stdlib.h>

/* The order in which tensors are written. */

/*
 * Orders the tensors of one shard. Their positions are below header.count; some positions may be
 * unused, since an index may take a tensor from another file. `room` holds header.count zeros on
 * entry and on return.
 */
static void order_shard(tenmap_model *model, const tmi_shard *shard, uint32_t *room) {
    size_t first = shard->view.first_tensor, behind = first + shard->view.tensor_count;
    size_t next = first;
    for (size_t i = first; i < behind; i++)
        room[model->tensors[i].header_position] = (uint32_t)i + 1;
    for (size_t p = 0; p < shard->header.count; p++) {
        if (room[p])
            model->written[next++] = room[p] - 1;
        room[p] = 0;
    }
}

static tenmap_status order_as_written(tenmap_model *model, tenmap_error *error) {
    size_t longest = 0;
    for (size_t s = 0; s < model->shard_count; s++) {
        const tmi_header *header = &model->shards[s].header;
        if (header->reordered && header->count > longest)
            longest = header->count;
    }
    if (longest == 0)
        return TENMAP_OK;
    uint32_t *room = tmi_calloc(longest, sizeof *room);
    model->written = tmi_calloc(model->tensor_count, sizeof *model->written);
    if (!room || !model->written) {
        free(room);
        return tmi_fail_memory(error, (uint64_t)model->tensor_count * sizeof *room,
                               "the order of the tensors");
    }
    for (size_t i = 0; i < model->tensor_count; i++)
        model->written[i] = (uint32_t)i;
    for (size_t s = 0; s < model->shard_count; s++)
        if (model->shards[s].header.reordered)
            order_shard(model, &model->shards[s], room);
    free(room);
    return TENMAP_OK;
}

/* Aliases. */

static size_t find_name(const tenmap_model *model, const char *name, size_t len) {
    return tmi_names_find(model->finder, name, len, tmi_hash(&model->key, name, len));
}

/*
 * Adds the pair if it is an alias: its value is the name of a tensor and its key is not. If several
 * pairs define the same alias, the first wins.
 */
static void add_alias(tenmap_model *model, size_t *count, const tenmap_metadata *pair) {
    size_t tensor = find_name(model, pair->value, pair->value_len);
    if (tensor == TMI_NONE || find_name(model, pair->key, pair->key_len) != TMI_NONE)
        return;
    uint64_t hash = tmi_hash(&model->key, pair->key, pair->key_len);
    model->aliases[*count] = (tmi_alias){pair->key, pair->key_len, tensor};
    if (tmi_names_put(&model->alias_names, *count, hash) == TMI_NONE)
        ++*count;
}

static tenmap_status make_aliases(tenmap_model *model, tenmap_error *error) {
    size_t most = model->metadata_count, count = 0;
    for (size_t i = 0; i < model->index_count; i++)
        most += model->indexes[i].pair_count;
    if (most == 0 || model->tensor_count == 0)
        return TENMAP_OK;
    model->aliases = tmi_calloc(most, sizeof *model->aliases);
    if (!model->aliases || !tmi_names_init(&model->alias_names, &model->key, model->aliases,
                                           sizeof *model->aliases, most))
        return tmi_fail_memory(error, (uint64_t)most * sizeof *model->aliases,
                               "other names of tensors");
    for (size_t i = 0; i < model->metadata_count; i++)
        add_alias(model, &count, &model->metadata[i]);
    for (size_t i = 0; i < model->index_count; i++)
        for (size_t k = 0; k < model->indexes[i].pair_count; k++)
            add_alias(model, &count, &model->indexes[i].pairs[k]);
    return TENMAP_OK;
}

size_t tmi_alias_find(const tenmap_model *model, const char *name, size_t len, uint64_t hash) {
    size_t i = tmi_names_find(&model->alias_names, name, len, hash);
    return i == TMI_NONE ? TMI_NONE : model->aliases[i].tensor;
}

tenmap_status tmi_lookup_make(tenmap_model *model, uint32_t flags, tenmap_error *error) {
    tenmap_status status = order_as_written(model, error);
    if (status == TENMAP_OK && (flags & TENMAP_OPEN_ALIASES))
        status = make_aliases(model, error);
    return status;
}

void tmi_lookup_free(tenmap_model *model) {
    free(model->written);
    free(model->aliases);
    tmi_names_free(&model->alias_names);
}
