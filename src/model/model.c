/* The handle: closing it, and the functions that look up what it holds. */
#include "computed.h"
#include "derived.h"

#include <stdlib.h>
#include <string.h>

void tenmap_close(tenmap_model *model) {
    if (!model)
        return;
    tmi_prefetch_end(model); /* its thread reads mapped bytes */
    if (model->owns_metadata)
        free(model->metadata);
    free(model->quantized.names);
    free(model->quantized.weights);
    tmi_computed_free(model);
    tmi_names_free(&model->quantized.finder);
    tmi_block_free(&model->quantized.tensors);
    tmi_names_free(&model->names);
    tmi_block_free(&model->tensor_block);
    for (size_t i = 0; i < model->shard_count && !model->borrowed; i++)
        tmi_shard_close(&model->shards[i]);
    free(model->shards);
    tmi_derivation_free(model);
    for (size_t i = 0; i < model->missing_count; i++)
        free(model->missing[i]);
    free(model->missing);
    free(model->locked.spans.list);
    tmi_lookup_free(model);
    for (size_t i = 0; i < model->index_count; i++)
        tmi_index_free(&model->indexes[i]);
    free(model->indexes);
    tmi_block_free(&model->index_text);
    for (size_t i = 0; i < model->scratch_count; i++)
        tmi_scratch_free(&model->scratches[i]);
    free(model->scratches);
    free(model->folder);
    free(model->path);
    free(model);
}

size_t tenmap_count(const tenmap_model *model) {
    return model ? model->tensor_count : 0;
}

const tenmap_tensor *tenmap_at(const tenmap_model *model, size_t i) {
    return model && i < model->tensor_count ? &model->tensors[i] : NULL;
}

const tenmap_tensor *tenmap_at_written(const tenmap_model *model, size_t i) {
    if (!model || i >= model->tensor_count)
        return NULL;
    return &model->tensors[model->written ? model->written[i] : i];
}

const tenmap_tensor *tenmap_find_n(const tenmap_model *model, const char *name, size_t len) {
    if (!model || !name)
        return NULL;
    if (len == TENMAP_CSTR)
        len = strlen(name);
    uint64_t hash = tmi_hash(&model->key, name, len);
    size_t i = tmi_names_find(model->finder, name, len, hash);
    if (i == TMI_NONE && model->aliases)
        i = tmi_alias_find(model, name, len, hash);
    return i == TMI_NONE ? NULL : &model->tensors[i];
}

const tenmap_tensor *tenmap_find(const tenmap_model *model, const char *name) {
    return tenmap_find_n(model, name, TENMAP_CSTR);
}

const char *tenmap_path(const tenmap_model *model) {
    return model && model->path ? model->path : "";
}

const char *tenmap_folder(const tenmap_model *model) {
    return model && model->folder ? model->folder : "";
}

uint64_t tenmap_file_size(const tenmap_model *model) {
    return model ? model->file_size : 0;
}

size_t tenmap_shard_count(const tenmap_model *model) {
    return model ? model->shard_count : 0;
}

const tenmap_shard *tenmap_shard_at(const tenmap_model *model, size_t i) {
    return model && i < model->shard_count ? &tmi_shard_at(model, i)->view : NULL;
}

size_t tenmap_missing_count(const tenmap_model *model) {
    return model ? model->missing_count : 0;
}

const char *tenmap_missing_at(const tenmap_model *model, size_t i) {
    return model && i < model->missing_count ? model->missing[i] : NULL;
}

/* From the combined table of several shards, as it was before quantized.c replaced it. */
static const tenmap_tensor *joined_tensor(const tenmap_model *model, size_t i) {
    return (const tenmap_tensor *)model->tensor_block.bytes + i;
}

const char *tmi_shard_listed(const tenmap_model *model, const char *name, size_t len) {
    for (size_t i = model->index_count; i-- > 0;) { /* the later one wins */
        const tmi_index *index = &model->indexes[i];
        const tmi_names *names = index->tensors ? &model->names : &index->names;
        size_t at = tmi_names_find(names, name, len, tmi_hash(&names->key, name, len));
        if (at != TMI_NONE)
            return index->tensors ? model->shards[joined_tensor(model, at)->shard].name
                                  : index->files[index->listings[at].file].name;
    }
    return NULL;
}

bool tmi_misses_unlisted(const tenmap_model *model) {
    return model->unlisted || (model->missing_count && !model->index_count);
}

const char *tenmap_shard_listed(const tenmap_model *model, const char *name) {
    return model && name ? tmi_shard_listed(model, name, strlen(name)) : NULL;
}

size_t tenmap_listed_count(const tenmap_model *model) {
    size_t count = 0;
    for (size_t i = 0; model && i < model->index_count; i++)
        count += model->indexes[i].listing_count;
    return count;
}

const char *tenmap_listed_at(const tenmap_model *model, size_t i) {
    for (size_t k = 0; model && k < model->index_count; k++) {
        const tmi_index *index = &model->indexes[k];
        if (i < index->listing_count)
            return index->tensors ? joined_tensor(model, index->tensors[i])->name
                                  : index->listings[i].name;
        i -= index->listing_count;
    }
    return NULL;
}

size_t tenmap_metadata_count(const tenmap_model *model) {
    return model ? model->metadata_count : 0;
}

const tenmap_metadata *tenmap_metadata_at(const tenmap_model *model, size_t i) {
    return model && i < model->metadata_count ? &model->metadata[i] : NULL;
}

const char *tenmap_metadata_get(const tenmap_model *model, const char *key) {
    size_t len = key ? strlen(key) : 0;
    for (size_t i = 0; key && i < tenmap_metadata_count(model); i++) {
        const tenmap_metadata *m = &model->metadata[i];
        if (m->key_len == len && memcmp(m->key, key, len) == 0)
            return m->value;
    }
    return NULL;
}

const char *tenmap_index_json(const tenmap_model *model, size_t *len) {
    if (len)
        *len = model && model->index_text.bytes ? model->index_len : 0;
    return model ? model->index_text.bytes : NULL;
}

const char *tenmap_dtype_text(const tenmap_tensor *tensor) {
    if (!tensor)
        return "UNKNOWN";
    if (tensor->dtype != TENMAP_OPAQUE)
        return tenmap_dtype_name(tensor->dtype);
    const tenmap_tensor *original = tmi_renamed_tensor(tensor);
    return original ? tenmap_dtype_text(original)
                    : tmi_header_opaque(&tmi_shard_of(tensor)->header, tensor);
}
