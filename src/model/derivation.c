/* What only derived models have: their memory, and shards that belong to other models. */
#include "derived.h"

#include <stdlib.h>

enum { LEAST_BLOCK = 32 << 10, BLOCK_ALIGN = 16, BLOCK_HEAD = 2 * BLOCK_ALIGN };
_Static_assert(sizeof(tmi_block) <= BLOCK_ALIGN, "a block begins with the one before it");

tenmap_status tmi_derivation_begin(tenmap_model **out, size_t tensors, size_t hidden,
                                   tenmap_error *error) {
    size_t count = tensors + hidden;
    tenmap_model *model = tmi_calloc(1, sizeof *model);
    *out = model;
    if (!model)
        return tmi_fail_memory(error, sizeof *model, "the model");
    model->derivation = tmi_calloc(1, sizeof *model->derivation);
    model->borrowed = tmi_calloc(1, sizeof *model->borrowed);
    model->computed = tmi_calloc(count, sizeof *model->computed);
    if (model->derivation)
        model->derivation->originals = tmi_calloc(count, sizeof *model->derivation->originals);
    bool fits = count <= SIZE_MAX / sizeof *model->tensors;
    if (!model->derivation || !model->borrowed || !model->computed ||
        !model->derivation->originals || !fits ||
        !tmi_block_alloc(&model->tensor_block, count * sizeof *model->tensors))
        return tmi_fail_memory(error, (uint64_t)count * sizeof *model->tensors, "the tensors");
    model->derivation->shard_capacity = 1;
    model->tensors = model->tensor_block.bytes;
    model->key = tmi_hash_key_new();
    if (!tmi_names_init(&model->names, &model->key, model->tensors, sizeof *model->tensors,
                        tensors))
        return tmi_fail_memory(error, (uint64_t)tensors * sizeof(tmi_slot), "the names");
    model->finder = &model->names;
    return TENMAP_OK;
}

void *tmi_derivation_alloc(tenmap_model *model, uint64_t count, size_t size) {
    tmi_derivation *d = model->derivation;
    uint64_t bytes;
    if (!tmi_multiply(count, size, &bytes) || bytes > SIZE_MAX / 2)
        return NULL;
    size_t need = ((size_t)bytes + BLOCK_ALIGN - 1) / BLOCK_ALIGN * BLOCK_ALIGN;
    size_t room = d->memory.bytes ? *((const size_t *)d->memory.bytes + 2) : 0;
    if (d->used > room || need > room - d->used) {
        size_t whole = need + BLOCK_HEAD;
        tmi_block next;
        whole = whole < LEAST_BLOCK ? LEAST_BLOCK : whole;
        if (!tmi_block_alloc(&next, whole))
            return NULL;
        *(tmi_block *)next.bytes = d->memory;
        *((size_t *)next.bytes + 2) = whole;
        d->memory = next;
        d->used = BLOCK_HEAD;
    }
    void *out = (unsigned char *)d->memory.bytes + d->used;
    d->used += need;
    return out;
}

static bool add_shard(tenmap_model *model, const tmi_shard *shard, const tenmap_model *owner) {
    tmi_derivation *d = model->derivation;
    const tenmap_model **owners =
        tmi_grow((void *)d->owners, model->shard_count, &d->owner_capacity, sizeof *owners);
    if (!owners)
        return false;
    d->owners = owners;
    const tmi_shard **shards =
        tmi_grow((void *)model->borrowed, model->shard_count, &d->shard_capacity, sizeof *shards);
    if (!shards)
        return false;
    model->borrowed = shards;
    owners[model->shard_count] = owner;
    shards[model->shard_count++] = shard;
    model->file_size += shard->size;
    return true;
}

tenmap_status tmi_derivation_shard(tenmap_model *model, const tenmap_model *from, size_t i,
                                   uint32_t *number, tenmap_error *error) {
    const tmi_shard *shard = tmi_shard_at(from, i);
    size_t known = model->shard_count;
    while (known > 0 && model->borrowed[known - 1] != shard) /* most use those that came last */
        known--;
    if (known > 0) {
        *number = (uint32_t)(known - 1);
        return TENMAP_OK;
    }
    if (model->shard_count == UINT32_MAX || !add_shard(model, shard, tmi_shard_owner(from, i)))
        return tmi_fail_memory(error, (uint64_t)model->shard_count * sizeof shard, "the shards");
    *number = (uint32_t)(model->shard_count - 1);
    return TENMAP_OK;
}

void tmi_derivation_free(tenmap_model *model) {
    tmi_derivation *d = model->derivation;
    free((void *)model->borrowed);
    if (!d)
        return;
    for (tmi_block block = d->memory, before; block.bytes; block = before) {
        before = *(const tmi_block *)block.bytes;
        tmi_block_free(&block);
    }
    free((void *)d->owners);
    free((void *)d->originals);
    free(d);
}
