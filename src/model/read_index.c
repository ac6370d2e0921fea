/* Reads and parses the index of a model in several files. */
#include "model.h"
#include "../format/json.h"

#include <stdlib.h>
#include <string.h>

tenmap_status tmi_read_index(tenmap_model *model, tmi_shard *file, const tenmap_options *options,
                             tenmap_error *error) {
    tmi_block *text = &model->index_text;
    uint64_t limit = tmi_header_limit(options);
    for (;;) {
        if (file->size > limit || file->size > SIZE_MAX - TMI_JSON_PAD)
            return tmi_remedy(error, TENMAP_REMEDY_RAISE_HEADER_LIMIT,
                              tmi_fail(error, TENMAP_ERR_LIMIT,
                                       "%s: the index has %llu bytes, over the limit of %llu "
                                       "(a higher limit for headers allows it)",
                                       tmi_quote_path(file->bytes.shown).text, (ull)file->size,
                                       (ull)limit));
        tenmap_status status = tmi_read_text(&file->bytes, 0, file->size, "the index", text, error);
        model->index_len = status == TENMAP_OK ? (size_t)file->size : 0;
        if (status != TENMAP_OK || file->bytes.io || tmi_file_refresh(&file->bytes.file))
            return status;
        tmi_block_free(text);
        status = tmi_shard_again(file, error);
        if (status != TENMAP_OK)
            return status;
        file->size = file->bytes.file.size;
    }
}

static tmi_place place_of_index(const tenmap_model *model, const char *path,
                                const tenmap_options *options) {
    return (tmi_place){.path = path,
                       .flags = options->flags,
                       .size = model->index_len,
                       .key = model->key,
                       .report = model->report};
}

/*
 * The outline says only which tensor is in which file. It is not enough for aliases, which need the
 * metadata; for a check; for a model in a list; or for an open of the index alone, which has no
 * tensors.
 */
tenmap_status tmi_outline_index(const tenmap_model *model, const char *path,
                                const tenmap_options *options, tmi_outline *outline,
                                tenmap_error *error) {
    tmi_place place = place_of_index(model, path, options);
    bool done;
    if (TMI_REPORTS(model->report) || model->in_list ||
        (options->flags & (TENMAP_OPEN_ALIASES | TENMAP_OPEN_INDEX_ONLY)))
        return TENMAP_OK;
    return tmi_index_quick(outline, &place, model->index_text.bytes, model->index_len, &done,
                           error);
}

tenmap_status tmi_parse_index(tenmap_model *model, const char *path, const tenmap_options *options,
                              tenmap_error *error) {
    tmi_place place = place_of_index(model, path, options);
    tmi_block copy; /* it is unescaped in place */
    size_t length = model->index_len;
    model->indexes = tmi_calloc(1, sizeof *model->indexes);
    if (!model->indexes || !tmi_block_alloc_dirty(&copy, length + TMI_JSON_PAD))
        return tmi_fail_memory(error, length, "the index");
    memcpy(copy.bytes, model->index_text.bytes, length + TMI_JSON_PAD);
    tenmap_status status = tmi_index_parse(model->indexes, &place, copy, length, error);
    model->index_count = status == TENMAP_OK;
    return status;
}
