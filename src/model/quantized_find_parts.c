/* Finds the parts of a weight and explains what is wrong with them. */
#include "model.h"
#include "quantized.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool tmi_ends_with(const tenmap_tensor *t, const char *ending) {
    size_t len = strlen(ending);
    return t->name_len > len && memcmp(t->name + t->name_len - len, ending, len) == 0;
}

/* Builds the name in f->name. NULL, and f->status is set, if out of memory. */
static const char *part_name(tmi_part_finder *f, const tenmap_tensor *t, size_t cut,
                             const char *ending, size_t *len) {
    size_t kept = t->name_len - cut, more = strlen(ending);
    *len = kept + more;
    if (*len + 1 > f->name_capacity) {
        char *room = realloc(f->name, 2 * (*len + 1));
        if (!room) {
            f->status = tmi_fail_memory(f->error, 2 * (*len + 1), "the name of a part");
            return NULL;
        }
        f->name = room;
        f->name_capacity = 2 * (*len + 1);
    }
    memcpy(f->name, t->name, kept);
    memcpy(f->name + kept, ending, more + 1);
    return f->name;
}

const char *tmi_part_name(tmi_part_finder *f, const tenmap_tensor *t, size_t cut,
                          const char *ending) {
    size_t len;
    return part_name(f, t, cut, ending, &len);
}

const tenmap_tensor *tmi_find_part(tmi_part_finder *f, const tenmap_tensor *t, size_t cut,
                                   const char *ending) {
    size_t len;
    const char *name = part_name(f, t, cut, ending, &len);
    const tenmap_tensor *part = name ? tenmap_find_n(f->model, name, len) : NULL;
    if (part && tmi_computed_of(part)) {
        (void)TMI_PART_WRONG(f, t, part, "expected elements that lie one after the other");
        return NULL;
    }
    bool may_lack = f->model->missing_count || tmi_allows(f->flags, TENMAP_OPEN_STALE_INDEX);
    if (name && !part && may_lack && tmi_shard_listed(f->model, name, len))
        (void)tmi_part_missing(f, t, cut, ending, "according to the index");
    return part;
}

bool tmi_part_missing(tmi_part_finder *f, const tenmap_tensor *t, size_t cut, const char *ending,
                      const char *scheme) {
    size_t len;
    const char *name = part_name(f, t, cut, ending, &len);
    f->incomplete = true;
    if (!name || (f->flags & TENMAP_OPEN_PARTIAL))
        return false;
    f->status = TMI_FAIL_TENSOR(f->error, TENMAP_ERR_FORMAT, t,
                                "it holds the values of a quantized weight (%s) whose part %s is "
                                "missing; opened as it is stored, the model lists its parts",
                                scheme, tmi_quote(name, len).text);
    (void)tmi_remedy(f->error, TENMAP_REMEDY_AS_STORED, f->status);
    return false;
}

bool tmi_part_refuse(tmi_part_finder *f, const tenmap_tensor *t, const tenmap_tensor *part) {
    f->status = TMI_FAIL_TENSOR(f->error, TENMAP_ERR_FORMAT, t, "its part %s is %s %s; %s",
                                tmi_quote(part->name, part->name_len).text, tenmap_dtype_text(part),
                                tmi_shape_text(part->shape, part->rank).text, f->why.message);
    return false;
}

tmi_quoted tmi_shape_text(const uint64_t *shape, uint32_t rank) {
    tmi_quoted out = {"["};
    size_t used = 1;
    for (uint32_t d = 0; d < rank && used + 28 < sizeof out.text; d++)
        used += (size_t)snprintf(out.text + used, sizeof out.text - used, "%s%llu", d ? ", " : "",
                                 (ull)shape[d]);
    snprintf(out.text + used, sizeof out.text - used, "]");
    return out;
}

/* Limits on a tensor that is read while a model is opened, and on those that are read with it. */
enum { MOST_ANNOTATION_BYTES = 64 << 10, SMALL_NEIGHBOR = 4 << 10 };

/*
 * Where a run of small tensors ends that begins with this one. Those that follow an annotation are
 * often annotations, too; nothing of a run is larger than a single annotation may be.
 */
static uint64_t run_end(const tenmap_model *model, const tenmap_tensor *part) {
    const tenmap_tensor *last = model->tensors + model->tensor_count;
    uint64_t end = part->file_offset + part->nbytes;
    for (const tenmap_tensor *t = part + 1; t < last; t++) {
        if (t->shard != part->shard || tmi_computed_of(t) || t->nbytes > SMALL_NEIGHBOR ||
            t->file_offset < end ||
            t->file_offset + t->nbytes - part->file_offset > MOST_ANNOTATION_BYTES)
            break;
        end = t->file_offset + t->nbytes;
    }
    return end;
}

/* Reads `size` bytes from the start of the part on. */
static tenmap_status read_shard(tmi_part_finder *f, const tenmap_tensor *part, void *dst,
                                size_t size) {
    const tmi_shard *shard = tmi_shard_of(part);
    tmi_bytes again = TMI_NO_BYTES;
    tenmap_status status = TENMAP_OK;
    if (f->model->report) /* a check has closed its shards, so open this one again */
        status = tmi_bytes_open(&again, f->io, shard->path, "the shard", f->error);
    if (status == TENMAP_OK)
        status = tmi_bytes_read(f->model->report ? &again : &shard->bytes, part->file_offset, dst,
                                size, (tmi_wanted){NULL, part}, f->error);
    tmi_bytes_close(&again);
    return status;
}

/* Makes f->run hold the part and the small tensors behind it, if there are any. */
static tenmap_status read_run(tmi_part_finder *f, const tenmap_tensor *part) {
    tmi_annotation_run *run = &f->run;
    uint64_t end = run_end(f->model, part);
    if (end == part->file_offset + part->nbytes ||
        (!run->buffer.bytes && !tmi_block_alloc(&run->buffer, MOST_ANNOTATION_BYTES)))
        return TENMAP_OK;
    run->shard = NULL;
    tenmap_status status =
        read_shard(f, part, run->buffer.bytes, (size_t)(end - part->file_offset));
    if (status == TENMAP_OK) {
        run->shard = tmi_shard_of(part);
        run->begin = part->file_offset;
        run->end = end;
    }
    return status;
}

static bool is_in_run(const tmi_annotation_run *run, const tenmap_tensor *part) {
    return run->shard == tmi_shard_of(part) && part->file_offset >= run->begin &&
           part->file_offset + part->nbytes <= run->end;
}

bool tmi_part_read(tmi_part_finder *f, const tenmap_tensor *t, const tenmap_tensor *part, void *dst,
                   size_t size) {
    if (part->nbytes > MOST_ANNOTATION_BYTES || size > part->nbytes)
        return TMI_PART_WRONG(f, t, part, "expected at most %d bytes", MOST_ANNOTATION_BYTES);
    f->parts_read++;
    if (f->io && !is_in_run(&f->run, part)) /* each read may be a network request */
        f->status = read_run(f, part);
    if (f->status == TENMAP_OK && is_in_run(&f->run, part)) {
        const unsigned char *held = f->run.buffer.bytes;
        memcpy(dst, held + (part->file_offset - f->run.begin), size);
    } else if (f->status == TENMAP_OK) {
        f->status = read_shard(f, part, dst, size);
    }
    return f->status == TENMAP_OK;
}

const char *tmi_integer_scheme(unsigned bits, unsigned kind) {
    static const char *const names[3][9] = {
        {"", "int1-tensor", "int2-tensor", "int3-tensor", "int4-tensor", "int5-tensor",
         "int6-tensor", "int7-tensor", "int8-tensor"},
        {"", "int1-channel", "int2-channel", "int3-channel", "int4-channel", "int5-channel",
         "int6-channel", "int7-channel", "int8-channel"},
        {"", "int1-group", "int2-group", "int3-group", "int4-group", "int5-group", "int6-group",
         "int7-group", "int8-group"}};
    return names[kind][bits];
}

uint64_t *tmi_shape_room(tmi_part_finder *f, uint32_t rank) {
    enum { LEAST_EXTENTS = 256 };
    tmi_shapes *s = f->shapes;
    if ((size_t)(s->end - s->next) < rank || !s->block.bytes) {
        size_t size = s->block_size ? 2 * s->block_size : LEAST_EXTENTS;
        size = size < rank ? rank : size;
        tmi_block block;
        if (!tmi_block_alloc_dirty(&block, sizeof block + size * sizeof *s->next)) {
            f->status = tmi_fail_memory(f->error, size * sizeof *s->next, "the shapes of weights");
            return NULL;
        }
        *(tmi_block *)block.bytes = s->block;
        s->block = block;
        s->block_size = size;
        s->next = (uint64_t *)(void *)((tmi_block *)block.bytes + 1);
        s->end = s->next + size;
    }
    uint64_t *room = s->next;
    s->next += rank;
    return room;
}

bool tmi_set_last_extent(tmi_part_finder *f, const tenmap_tensor *t, uint64_t last,
                         tmi_quant_weight *c) {
    uint64_t *shape = tmi_shape_room(f, t->rank);
    if (!shape)
        return false;
    memcpy(shape, t->shape, t->rank * sizeof *shape);
    shape[t->rank - 1] = last;
    c->rank = t->rank;
    c->shape = shape;
    return true;
}

uint64_t tmi_matrices(const uint64_t *shape, uint32_t rank) {
    uint64_t product = 1;
    for (uint32_t d = 0; d + 2 < rank; d++)
        product *= shape[d];
    return product;
}

static uint64_t groups_in(uint64_t extent, uint64_t group) {
    return group ? extent / group + (extent % group != 0) : 0;
}

/*
 * Deduces how many rows or columns share a scale from the number of scales; 0 if nothing fits.
 * Blocks are more often of 128, with a ragged edge, than of a size that divides the extent, so 128
 * is tried first. Groups within a row are not: for them a size that divides the row is tried first
 * if it is a multiple of 16.
 */
static uint64_t deduce_group(uint64_t extent, uint64_t groups, uint64_t said, bool within_rows) {
    if (said && groups_in(extent, said) == groups)
        return said;
    if (groups == extent)
        return 1;
    if (groups == 1)
        return extent ? extent : 1;
    if (within_rows && groups && extent % groups == 0 && extent / groups % 16 == 0)
        return extent / groups;
    if (groups_in(extent, 128) == groups)
        return 128;
    if (groups && extent % groups == 0)
        return extent / groups;
    for (uint64_t group = 16; group <= 1024; group *= 2)
        if (groups_in(extent, group) == groups)
            return group;
    return 0;
}

/*
 * Takes the last two axes of the scales as rows and columns. False if the leading axes are not the
 * weight's.
 */
static bool scale_axes(const tenmap_tensor *t, const tenmap_tensor *scales, tmi_quant_layout *r) {
    r->scale_shared = false;
    if (scales->nelems == 1 && scales->rank <= t->rank) {
        r->scale_rows = r->scale_columns = 1;
        r->scale_shared = true;
        return true;
    }
    if (scales->rank == 1 && t->rank == 2) {
        r->scale_rows = scales->shape[0];
        r->scale_columns = 1;
        return true;
    }
    if (scales->rank != t->rank || t->rank < 2)
        return false;
    for (uint32_t d = 0; d + 2 < t->rank; d++)
        if (scales->shape[d] != t->shape[d])
            return false;
    r->scale_rows = scales->shape[t->rank - 2];
    r->scale_columns = scales->shape[t->rank - 1];
    return true;
}

bool tmi_set_scales(tmi_part_finder *f, const tenmap_tensor *t, tmi_quant_weight *c,
                    const tenmap_tensor *scales, tenmap_dtype as) {
    tmi_quant_layout *r = &c->layout;
    const uint64_t *block = f->config->block;
    bool fits = scale_axes(t, scales, r), fp8 = strcmp(f->config->method, "fp8") == 0;
    r->group_rows = fits ? deduce_group(r->rows, r->scale_rows, block[0], false) : 0;
    r->group_columns =
        fits ? deduce_group(r->columns, r->scale_columns, block[1] ? block[1] : f->config->group,
                            r->group_rows == 1)
             : 0;
    if (fp8 && block[0] && block[1] && scales->nelems != 1 &&
        (groups_in(r->rows, block[0]) != r->scale_rows ||
         groups_in(r->columns, block[1]) != r->scale_columns))
        return TMI_PART_WRONG(
            f, t, scales,
            "config.json says blocks of %llux%llu, which gives [%llu, %llu] scales for this weight",
            (ull)block[0], (ull)block[1], (ull)groups_in(r->rows, block[0]),
            (ull)groups_in(r->columns, block[1]));
    bool grouped = fits && r->group_rows == 1 && r->scale_columns > 1 && f->config->groups == 1;
    if (grouped && f->config->group && groups_in(r->columns, f->config->group) != r->scale_columns)
        return TMI_PART_WRONG(
            f, t, scales,
            "config.json says groups of %llu columns, which gives %llu scales for a row of %llu",
            (ull)f->config->group, (ull)groups_in(r->columns, f->config->group), (ull)r->columns);
    if (!r->group_rows || !r->group_columns)
        return TMI_PART_WRONG(
            f, t, scales,
            "expected one scale, or one for each row or block, for a weight of shape %s",
            tmi_shape_text(t->shape, t->rank).text);
    if (as >= TMI_DTYPE_COUNT || tmi_dtypes[as].kind != TENMAP_KIND_FLOAT ||
        tmi_dtype_width(as) == 0)
        return TMI_PART_WRONG(f, t, scales, "expected scales of a floating-point dtype");
    r->scale_dtype = as;
    c->parts[TMI_PART_SCALES] = scales;
    return true;
}
