/*
 * Finds quantized weights. Every tensor that may hold values is offered to each scheme. A weight
 * that a scheme recognizes becomes one tensor, and its parts are no longer listed. This takes one
 * pass over the names and a few lookups per weight.
 */
#include "model.h"
#include "quantized.h"

#include <stdlib.h>
#include <string.h>

#define ABSENT UINT32_MAX /* the owner of codes that must not be taken for values */

typedef struct quantized_search {
    tmi_part_finder finder;
    tmi_quantized_config config;
    tenmap_model *model;
    tmi_quant_weight *found;
    size_t count, capacity;
    /*
     * For each stored tensor: the number + 1 of the weight that it is a part of, or ABSENT; 0 if
     * neither.
     */
    uint32_t *owners;
    tmi_block owner_block;
    const tmi_computed **computed; /* of the listed tensors */
    size_t hidden, name_bytes;
} quantized_search;

/* Whether some scheme stores values in this dtype. */
static bool may_hold_values(const tenmap_tensor *t) {
    if (tmi_computed_of(t)) /* a strided tensor is listed as it is */
        return false;
    if (t->dtype == TENMAP_NVFP4)
        return true;
    return t->dtype < TMI_DTYPE_COUNT && tmi_dtypes[t->dtype].kind != TENMAP_KIND_BOOL &&
           (tmi_dtypes[t->dtype].bits <= 8 || t->dtype == TENMAP_I32 || t->dtype == TENMAP_U32) &&
           t->dtype != TENMAP_F8_E8M0;
}

/*
 * Whether a tensor without scales may be the codes of a weight of the same name, whose scales are
 * in a missing file.
 */
static bool may_be_codes(const tenmap_tensor *t) {
    bool integer = t->dtype == TENMAP_I8 || t->dtype == TENMAP_U8 || t->dtype == TENMAP_U32;
    bool float8 = !integer && t->dtype < TMI_DTYPE_COUNT && tmi_dtypes[t->dtype].bits == 8;
    return integer ? tmi_ends_with(t, ".weight")
                   : float8 && !tmi_ends_with(t, "_scale") && !tmi_ends_with(t, "_qdata");
}

static void complete_scheme(tmi_quant_weight *c, const tmi_quantized_config *config) {
    const tmi_quant_layout *r = &c->layout;
    bool all_rows = r->group_rows >= r->rows, all_columns = r->group_columns >= r->columns;
    uint32_t rows = all_rows && r->group_rows != 1 ? 0 : (uint32_t)r->group_rows;
    uint32_t columns = all_columns && r->group_columns != 1 ? 0 : (uint32_t)r->group_columns;
    if (!tmi_dtype_blocks(r->code_dtype)) { /* blocks contain their scales */
        c->computed.scheme.group_rows = r->transposed ? columns : rows;
        c->computed.scheme.group_columns = r->transposed ? rows : columns;
    }
    c->computed.maker = TMI_MAKER_DEQUANTIZE;
    c->computed.gives = TENMAP_F32;
    c->computed.values = true;
    c->computed.part_bytes = 0;
    for (unsigned i = 0; i < TMI_PART_COUNT; i++) {
        c->computed.scheme.part_count += c->parts[i] != NULL;
        c->computed.part_bytes += c->parts[i] ? c->parts[i]->nbytes : 0;
    }
    tenmap_dtype scales = c->parts[TMI_PART_SCALES] ? c->parts[TMI_PART_SCALES]->dtype : 0;
    bool usual = scales == TENMAP_F32 || scales == TENMAP_F16 || scales == TENMAP_BF16;
    if (c->dtype == TENMAP_AS_STORED)
        c->dtype = config->dtype != TENMAP_AS_STORED ? config->dtype : usual ? scales : TENMAP_BF16;
    tmi_packing_describe(c);
}

/* Marks the parts as owned. A stored tensor may belong to only one weight. */
static bool claim_parts(quantized_search *s, const tmi_quant_weight *c) {
    for (unsigned i = 0; i < TMI_PART_COUNT; i++) {
        const tenmap_tensor *part = c->parts[i];
        if (!part)
            continue;
        uint32_t *owner = &s->owners[part - s->model->tensors];
        if (*owner)
            return TMI_PART_WRONG(&s->finder, c->parts[TMI_PART_VALUES], part,
                                  "it is also a part of another weight");
        *owner = (uint32_t)s->count + 1;
        s->hidden++;
    }
    return true;
}

static bool add_weight(quantized_search *s, const tmi_quant_weight *c) {
    tmi_quant_weight *found = tmi_grow(s->found, s->count, &s->capacity, sizeof *found);
    if (!found) {
        s->finder.status = tmi_fail_memory(s->finder.error, s->capacity * 2 * sizeof *found,
                                           "the quantized weights");
        return false;
    }
    s->found = found;
    found[s->count] = *c;
    complete_scheme(&found[s->count], &s->config);
    if (!claim_parts(s, &found[s->count]))
        return false;
    if (c->cut || c->ending[0])
        s->name_bytes += c->parts[TMI_PART_VALUES]->name_len - c->cut + strlen(c->ending) + 1;
    s->count++;
    return true;
}

/*
 * Hides the codes of a weight that cannot be dequantized. No tensor of its name is listed, since
 * its codes would be taken for its values.
 */
static bool hide_codes(quantized_search *s, const tenmap_tensor *t) {
    s->owners[t - s->model->tensors] = ABSENT;
    s->hidden++;
    return true;
}

/* Block dtypes have a single scheme, and no other scheme accepts them. */
static bool try_schemes(quantized_search *s, const tenmap_tensor *t) {
    const size_t of_blocks = TMI_SCHEME_FINDERS - 1;
    size_t first = tmi_dtype_blocks(t->dtype) ? of_blocks : 0;
    size_t end = first ? first + 1 : of_blocks;
    s->finder.incomplete = false;
    for (size_t i = first; i < end; i++) {
        tmi_quant_weight c = {.ending = ""};
        bool found = tmi_scheme_finders[i](&s->finder, t, &c);
        if (s->finder.status != TENMAP_OK)
            return false;
        if (s->finder.incomplete) /* the remaining parts may look like those of another scheme */
            return c.cut || c.ending[0] || hide_codes(s, t);
        if (found)
            return add_weight(s, &c);
    }
    return !tmi_misses_unlisted(s->model) || !may_be_codes(t) || hide_codes(s, t);
}

/* Names that differ from those of stored tensors are built one after the other, each with a NUL. */
static char *make_name(tmi_quant_weight *c, char *room) {
    const tenmap_tensor *values = c->parts[TMI_PART_VALUES];
    if (!c->cut && !c->ending[0]) {
        c->name = values->name;
        return room;
    }
    size_t kept = values->name_len - c->cut, more = strlen(c->ending);
    c->name = room;
    memcpy(room, values->name, kept);
    memcpy(room + kept, c->ending, more + 1);
    return room + kept + more + 1;
}

/*
 * Builds the weight as callers see it, in the place of its values. False if its size does not fit
 * into 64 bits.
 */
static bool make_tensor(tmi_quant_weight *c, tenmap_tensor *t) {
    const tenmap_tensor *values = c->parts[TMI_PART_VALUES];
    *t = *values;
    t->name = c->name;
    t->name_len = values->name_len - c->cut + strlen(c->ending);
    t->dtype = c->dtype;
    t->rank = c->rank;
    t->shape = c->shape;
    t->data = NULL;
    t->flags = TENMAP_TENSOR_COMPUTED;
    t->nelems = 1;
    for (uint32_t d = 0; d < t->rank; d++)
        if (!tmi_multiply(t->nelems, t->shape[d], &t->nelems))
            return false;
    return tmi_dtype_bytes(t->dtype, t->nelems, &t->nbytes);
}

static tenmap_status fail_duplicate_name(const tenmap_tensor *t, tenmap_error *error) {
    return TMI_FAIL_TENSOR(
        error, TENMAP_ERR_FORMAT, t, "%s",
        "the weight that its parts belong to has the same name as another tensor");
}

/* Builds the listed tensors: plain tensors, and each weight in the place of its values. */
static tenmap_status list_tensors(quantized_search *s, tenmap_error *error) {
    tenmap_model *model = s->model;
    tmi_quantized *q = &model->quantized;
    char *names = q->names;
    size_t shown = 0;
    for (size_t i = 0; i < s->count; i++)
        names = make_name(&s->found[i], names);
    for (size_t i = 0; i < model->shard_count; i++)
        model->shards[i].view.tensor_count = 0;
    for (size_t i = 0; i < model->tensor_count; i++) {
        const tenmap_tensor *stored = &model->tensors[i];
        tenmap_tensor *t = &((tenmap_tensor *)q->tensors.bytes)[shown];
        uint32_t owner = s->owners[i];
        if (owner == ABSENT)
            continue;
        tmi_quant_weight *c = owner ? &s->found[owner - 1] : NULL;
        if (c && c->parts[TMI_PART_VALUES] != stored)
            continue;
        *t = *stored;
        if (c && !make_tensor(c, t))
            return TMI_FAIL_TENSOR(
                error, TENMAP_ERR_FORMAT, stored, "%s",
                "the weight that it is a part of has a size that overflows 64 bits");
        if (c)
            s->computed[shown] = &c->computed;
        else if (model->computed)
            s->computed[shown] = model->computed[i];
        if (tmi_names_put(&q->finder, shown, tmi_hash(&model->key, t->name, t->name_len)) !=
            TMI_NONE)
            return fail_duplicate_name(stored, error);
        model->shards[t->shard].view.tensor_count++;
        shown++;
    }
    q->shown = shown;
    return TENMAP_OK;
}

static tenmap_status make_list(quantized_search *s, tenmap_error *error) {
    tmi_quantized *q = &s->model->quantized;
    size_t shown = s->model->tensor_count - s->hidden + s->count;
    size_t bytes = shown * sizeof(tenmap_tensor);
    q->names = tmi_calloc(s->name_bytes + 1, 1); /* freed with the model, like the rest */
    s->computed = tmi_calloc(shown, sizeof *s->computed);
    if (!q->names || !s->computed || !tmi_block_alloc(&q->tensors, bytes) ||
        !tmi_names_init(&q->finder, &s->model->key, q->tensors.bytes, sizeof(tenmap_tensor), shown))
        return tmi_fail_memory(error, bytes, "the tensors' table");
    tenmap_status status = list_tensors(s, error);
    if (status != TENMAP_OK)
        return status;
    q->weights = s->found;
    s->found = NULL;
    free((void *)s->model->computed);
    s->model->computed = s->computed;
    s->computed = NULL;
    s->model->tensors = q->tensors.bytes;
    s->model->tensor_count = q->shown;
    s->model->finder = &q->finder;
    return TENMAP_OK;
}

static tenmap_status search_weights(quantized_search *s) {
    const tenmap_model *model = s->model;
    size_t bytes = model->tensor_count * sizeof *s->owners;
    if (!tmi_block_alloc(&s->owner_block, bytes))
        return tmi_fail_memory(s->finder.error, bytes, "the quantized weights");
    s->owners = s->owner_block.bytes;
    for (size_t i = 0; i < model->tensor_count; i++)
        if (!s->owners[i] && may_hold_values(&model->tensors[i]) &&
            !try_schemes(s, &model->tensors[i]))
            return s->finder.status;
    return TENMAP_OK;
}

tenmap_status tmi_quantized_find(tenmap_model *model, const tenmap_options *options,
                                 tenmap_error *error) {
    quantized_search s = {.model = model};
    tenmap_status status = tmi_quantized_config_read(model, options, &s.config, error);
    if (status != TENMAP_OK)
        return status;
    s.finder = (tmi_part_finder){.model = model,
                                 .shapes = &model->quantized.shapes,
                                 .flags = options->flags,
                                 .config = &s.config,
                                 .io = options->io,
                                 .error = error};
    status = search_weights(&s);
    if (status == TENMAP_OK && s.hidden > 0)
        status = make_list(&s, error);
    tmi_block_free(&s.owner_block);
    free(s.finder.name);
    tmi_block_free(&s.finder.run.buffer);
    if (s.finder.metadata_known)
        tmi_names_free(&s.finder.metadata);
    free((void *)s.computed);
    free(s.found);
    return status;
}
