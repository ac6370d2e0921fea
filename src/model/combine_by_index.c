/*
 * Combines several shards into one model if they have exactly the tensors that the index lists. By
 * then the tensors are in one table and their names are hashed. This file enters them into the
 * index of names and proves that lines and tensors match one to one, without a second index of
 * names.
 */
#include "model.h"

#include <stdlib.h>
#include <string.h>

/* Matches the lines of the index to tensors, in parts that threads take. */
typedef struct listed {
    const tenmap_model *model;
    const tmi_outline *outline;
    const tmi_shared_table *table;
    const tmi_names *names;
    uint32_t *found; /* the tensor number of each line */
    size_t parts;
    atomic_bool differs, out_of_memory;
} listed;

tenmap_status tmi_shared_table_alloc(tmi_shared_table *table, const tmi_outline *outline,
                                     tenmap_error *error) {
    size_t count = outline->count, first = 0;
    table->slices = tmi_calloc(outline->file_count, sizeof *table->slices);
    if (!table->slices || count > SIZE_MAX / sizeof(tenmap_tensor) ||
        !tmi_block_alloc_dirty(&table->tensors, count * sizeof(tenmap_tensor)) ||
        !tmi_block_alloc_dirty(&table->hashes, count * sizeof(uint64_t)))
        return tmi_fail_memory(error, (uint64_t)count * sizeof(tenmap_tensor),
                               "the tensors' table");
    for (size_t i = 0; i < outline->file_count; i++) {
        table->slices[i] =
            (tmi_table_slice){(tenmap_tensor *)table->tensors.bytes + first,
                              (uint64_t *)table->hashes.bytes + first, outline->files[i].lines};
        first += outline->files[i].lines;
    }
    return TENMAP_OK;
}

void tmi_shared_table_free(tmi_shared_table *table) {
    tmi_block_free(&table->tensors);
    tmi_block_free(&table->hashes);
    free(table->slices);
    table->slices = NULL;
}

/* False if a name occurs twice. */
static bool index_names(tmi_names *names, const tmi_shared_table *table, size_t count) {
    enum { AHEAD = 16 };
    const tenmap_tensor *tensors = table->tensors.bytes;
    const uint64_t *hashes = table->hashes.bytes;
    for (size_t i = 0; i < count; i++) {
        const tenmap_tensor *t = &tensors[i];
        if (i + AHEAD < count)
            tmi_names_prefetch(names, hashes[i + AHEAD]);
        if (TMI_UNLIKELY(!tmi_names_put_first(names, i, hashes[i], t->name, t->name_len)) &&
            tmi_names_put(names, i, hashes[i]) != TMI_NONE)
            return false;
    }
    return true;
}

/*
 * Where the next lines of a shard are likely to find their tensors: right after the tensors that
 * earlier lines found. Most indexes are sorted by name, and so are headers among tensors of one
 * dtype, so a few positions per shard are enough. A tensor that is at none of them is looked up by
 * name.
 */
enum { CURSORS = 4 };

typedef struct cursors {
    uint32_t next[CURSORS];
} cursors;

static TMI_INLINE bool matches_line(const tenmap_tensor *t, const tmi_line *line) {
    return t->name_len == line->name_len && memcmp(t->name, line->name, line->name_len) == 0;
}

/* The number of the line's tensor in its slice, or TMI_NONE. */
static size_t look_up_line(const listed *l, const tmi_table_slice *slice, const tmi_line *line) {
    const tenmap_tensor *all = l->table->tensors.bytes;
    uint64_t hash = tmi_hash(&l->model->key, line->name, line->name_len);
    size_t at = tmi_names_find(l->names, line->name, line->name_len, hash);
    size_t first = (size_t)(slice->tensors - all);
    return at != TMI_NONE && at >= first && at - first < slice->count ? at - first : TMI_NONE;
}

static size_t find_line(const listed *l, const tmi_table_slice *slice, cursors *c,
                        const tmi_line *line) {
    for (unsigned k = 0; k < CURSORS; k++)
        if (c->next[k] < slice->count && matches_line(&slice->tensors[c->next[k]], line))
            return c->next[k]++;
    size_t at = look_up_line(l, slice, line);
    if (at != TMI_NONE) {
        memmove(&c->next[1], &c->next[0], (CURSORS - 1) * sizeof c->next[0]);
        c->next[0] = (uint32_t)at + 1;
    }
    return at;
}

static void find_lines(void *ctx, size_t part) {
    listed *l = ctx;
    const tmi_outline *o = l->outline;
    size_t share = o->count / l->parts, first = part * share;
    size_t behind = part + 1 == l->parts ? o->count : first + share;
    cursors *all = tmi_calloc(o->file_count, sizeof *all);
    if (!all) {
        atomic_store(&l->out_of_memory, true);
        return;
    }
    for (size_t i = first; i < behind; i++) {
        uint32_t file = o->place_of[o->lines[i].file];
        const tmi_table_slice *slice = &l->table->slices[file];
        size_t at = find_line(l, slice, &all[file], &o->lines[i]);
        if (at == TMI_NONE) {
            atomic_store(&l->differs, true);
            break;
        }
        l->found[i] =
            (uint32_t)((size_t)(slice->tensors - (const tenmap_tensor *)l->table->tensors.bytes) +
                       at);
    }
    free(all);
}

/*
 * Whether all lines found different tensors. There are as many lines as tensors, so then every
 * tensor was found.
 */
static bool are_all_found(const listed *l, bool *out_of_memory) {
    size_t count = l->outline->count;
    bool *seen = tmi_calloc(count, sizeof *seen), once = true;
    *out_of_memory = !seen;
    for (size_t i = 0; seen && i < count && once; i++) {
        once = !seen[l->found[i]];
        seen[l->found[i]] = true;
    }
    free(seen);
    return once;
}

/* Gives the tables to the model. */
static void move_tables(tenmap_model *model, const listed *l, tmi_shared_table *table,
                        const tmi_names *names) {
    model->tensor_block = table->tensors;
    table->tensors = (tmi_block){NULL, 0};
    model->tensors = model->tensor_block.bytes;
    model->tensor_count = l->outline->count;
    model->names = *names;
    model->finder = &model->names;
    model->indexes[0] = (tmi_index){.listing_count = l->outline->count, .tensors = l->found};
    model->index_count = 1;
}

tenmap_status tmi_combine_by_index(tenmap_model *model, const tmi_outline *outline,
                                   tmi_shared_table *table, unsigned threads, bool *combined,
                                   tenmap_error *error) {
    enum { LINES_PER_PART = 4096 };
    size_t count = outline->count, worth = count / LINES_PER_PART + 1;
    tmi_names names = {.slots = NULL};
    bool out_of_memory = false;
    listed l = {.model = model,
                .outline = outline,
                .table = table,
                .names = &names,
                .found = tmi_calloc(count, sizeof *l.found),
                .parts = threads < worth ? (threads ? threads : 1) : worth};
    tmi_index *index = tmi_calloc(1, sizeof *index);
    *combined = false;
    if (!index || !l.found ||
        !tmi_names_init(&names, &model->key, table->tensors.bytes, sizeof(tenmap_tensor), count)) {
        out_of_memory = true;
    } else if (index_names(&names, table, count)) {
        tmi_parallel((unsigned)l.parts, l.parts, find_lines, &l);
        out_of_memory = l.out_of_memory;
        if (!out_of_memory && !l.differs)
            *combined = are_all_found(&l, &out_of_memory) && !out_of_memory;
    }
    if (*combined) {
        model->indexes = index;
        move_tables(model, &l, table, &names);
        return TENMAP_OK;
    }
    tmi_names_free(&names);
    free(index);
    free(l.found);
    return out_of_memory ? tmi_fail_memory(error, (uint64_t)count * 16, "the index of names")
                         : TENMAP_OK;
}
