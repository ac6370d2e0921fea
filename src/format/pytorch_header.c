/*
 * Turns a checkpoint's pickle into the tables of a header: tensors with their storages and strides,
 * plain values as metadata, and for a check every global that is not data. Both forms of files give
 * it the pickle in a text of the same form, which is allocated here.
 */
#include "gguf.h"
#include "json.h"
#include "pytorch.h"

#include <stdio.h>
#include <stdlib.h>

#define TORCH_PATH(t) tmi_quote_path((t)->place->path).text

/* The text. */

/* Each size was read or counted below the limit, so the sum fits into 64 bits. */
bool tmi_torch_text_make(const tmi_torch_head *head, tmi_header_text *text, tmi_torch_text *parts) {
    uint64_t before = sizeof *head + head->rows * sizeof(tmi_torch_row) + head->keys_bytes;
    text->length = before + head->pickle_bytes;
    if (text->length > SIZE_MAX / 2 ||
        !tmi_block_alloc_dirty(&text->block, (size_t)text->length + TMI_JSON_PAD))
        return false;
    text->room = (size_t)text->length + TMI_JSON_PAD;
    char *bytes = text->block.bytes;
    memcpy(bytes, head, sizeof *head);
    parts->rows = (tmi_torch_row *)(void *)(bytes + sizeof *head);
    parts->keys = (char *)(parts->rows + head->rows);
    parts->pickle = bytes + before;
    return true;
}

/* The pickle itself. */

tenmap_status tmi_torch_fail_pickle(tmi_torch *t) {
    const tmi_pickle *p = &t->pickle;
    uint64_t at = t->pickle_at + p->problem_at;
    if (p->status == TENMAP_ERR_MEMORY)
        return tmi_fail_memory(t->error, p->len, "the pickle");
    uint32_t code = p->status == TENMAP_ERR_LIMIT ? TENMAP_FOUND_LIMIT : TENMAP_FOUND_ENTRY;
    if (p->problem_at >= p->len)
        return TMI_TORCH_FAIL(t, p->status, code, at, NULL, "%s: pickle, byte %llu: %s",
                              TORCH_PATH(t), (ull)(t->place->offset + at), p->problem);
    return TMI_TORCH_FAIL(t, p->status, code, at, NULL, "%s: pickle, byte %llu, opcode 0x%02x: %s",
                          TORCH_PATH(t), (ull)(t->place->offset + at),
                          (unsigned)p->bytes[p->problem_at], p->problem);
}

/* Reports a global that is code, with the offset of its opcode. */
static void report_global(const tmi_torch *t, uint32_t at) {
    const tmi_pickle *p = &t->pickle;
    const uint32_t *node = p->nodes.at + at;
    const tmi_place *place = t->place;
    uint64_t offset = place->offset + t->pickle_at + node[TMI_WORD_AT];
    bool called = node[TMI_WORD_KIND] & TMI_MARK_CALLED;
    char full[2 * sizeof(tmi_quoted)];
    tmi_atom module, name;
    tenmap_error said;
    tmi_global_text(p, (tmi_ref)(at << 1 | 1), &module, &name);
    tmi_quoted from = tmi_quote(module.text, module.len), what = tmi_quote(name.text, name.len);
    tmi_fail_at(&said, TENMAP_OK, place->shard, offset,
                "%s: pickle, byte %llu: %s of module %s is code, not data; %s. Here it is not run",
                TORCH_PATH(t), (ull)offset, what.text, from.text,
                called ? "Python would import it and call it" : "Python would import it");
    /* Without the quotes. */
    snprintf(full, sizeof full, "%.*s.%.*s", (int)strlen(from.text) - 2, from.text + 1,
             (int)strlen(what.text) - 2, what.text + 1);
    tmi_report_code(place->report, place->shard, full, called, &said);
}

/*
 * Reports the globals that are code, each as a finding: first those that would be called, since
 * only a limited number of findings is passed on one by one.
 */
void tmi_torch_report_code(const tmi_torch *t) {
    const tmi_pickle *p = &t->pickle;
    for (unsigned called = 2; called-- > 0;)
        for (uint32_t at = p->first_global; at; at = p->nodes.at[at + TMI_WORD_NEXT]) {
            const uint32_t *node = p->nodes.at + at;
            bool is_called = node[TMI_WORD_KIND] & TMI_MARK_CALLED;
            if (!node[TMI_WORD_WHICH] && is_called == (called == 1) &&
                !tmi_report_full(t->place->report, TENMAP_FINDING_WARNING, TENMAP_FOUND_CODE))
                report_global(t, at);
        }
}

static tenmap_status check_rest(tmi_torch *t, size_t bytes) {
    const tmi_place *place = t->place;
    uint64_t at = t->pickle_at + t->pickle.end;
    bool allowed = tmi_allows(place->flags, TENMAP_OPEN_TRAILING) && !place->report;
    if (t->pickle.end == bytes || allowed)
        return TENMAP_OK;
    tmi_fail_at(t->error, TENMAP_ERR_FORMAT, place->shard, place->offset + at,
                "%s: %llu bytes follow the end of the pickle, at byte %llu (a lenient open takes "
                "the file as it is)",
                TORCH_PATH(t), (ull)(bytes - t->pickle.end), (ull)(place->offset + at));
    t->error->remedy = TENMAP_REMEDY_ALLOW_LENIENT;
    (void)tmi_torch_failed(t, TENMAP_ERR_FORMAT, TENMAP_FOUND_TRAILING, NULL);
    return TMI_REPORTS(place->report) ? TENMAP_OK : TENMAP_ERR_FORMAT;
}

/* Tensors. */

/* Tables that are being filled. */
typedef struct torch_tables {
    tmi_torch_names names;
    tmi_block described_block;
    tmi_torch_tensor *described; /* of those that can be opened; the others have no storage */
    size_t words;                /* of all shapes and strides */
    tenmap_tensor *tensors;
    uint64_t *next;
    size_t count;
} torch_tables;

#define TORCH_NAME(tables, i) ((tables)->names.text + (tables)->names.named[i].at)

/* A tensor breaks a rule: opening fails; a check reports it and goes on without the tensor. */
static tenmap_status fail_tensor(tmi_torch *t, const char *name, size_t len, tmi_ref at,
                                 const tmi_torch_problem *problem) {
    uint64_t offset = t->pickle_at + tmi_node(&t->pickle, at)[TMI_WORD_AT];
    tmi_report *report = t->place->report;
    if (TMI_REPORTS(report) && tmi_report_full(report, TENMAP_FINDING_ERROR, problem->code))
        return TENMAP_OK;
    return TMI_TORCH_FAIL(
        t, problem->status, problem->code, offset, name, "%s: tensor %s (pickle, byte %llu): %s",
        TORCH_PATH(t), tmi_quote(name, len).text, (ull)(t->place->offset + offset), problem->text);
}

/* Describes all tensors, and counts the words of their shapes. */
static tenmap_status describe_all(tmi_torch *t, torch_tables *tables) {
    const tmi_torch_names *names = &tables->names;
    uint64_t most = 8 * (uint64_t)t->pickle.len / sizeof(uint64_t) + 65536;
    tenmap_status status = TENMAP_OK;
    if (!tmi_block_alloc(&tables->described_block, names->count * sizeof *tables->described + 1))
        return tmi_fail_memory(t->error, names->count * sizeof *tables->described, "the tensors");
    tables->described = tables->described_block.bytes;
    for (size_t i = 0; i < names->count && status == TENMAP_OK; i++) {
        const tmi_torch_named *named = &names->named[i];
        tmi_torch_problem problem;
        tmi_torch_tensor *d = &tables->described[i];
        if (!tmi_torch_describe(t, named->value, d, &problem)) {
            d->storage = NULL;
            status = fail_tensor(t, TORCH_NAME(tables, i), named->len, named->value, &problem);
            continue;
        }
        tables->words += 2 * (size_t)d->rank;
        if (tables->words > most)
            status = TMI_TORCH_FAIL(t, TENMAP_ERR_LIMIT, TENMAP_FOUND_LIMIT, t->pickle_at, NULL,
                                    "%s: the shapes of the tensors take more than 8 times as much "
                                    "memory as the pickle",
                                    TORCH_PATH(t));
    }
    return status;
}

/* Copies shape and strides to the table of dimensions. */
static const char *take_torch_shape(const tmi_torch *t, const tmi_torch_tensor *d, uint64_t *shape,
                                    uint64_t *strides) {
    if (d->bare) {
        shape[0] = d->elements;
        strides[0] = 1;
        return NULL;
    }
    if (!tmi_torch_numbers(t, d->shape, shape, d->rank))
        return "its shape is not made of whole numbers from 0 on";
    if (!tmi_torch_numbers(t, d->strides, strides, d->rank))
        return "its strides are not whole numbers from 0 on";
    return NULL;
}

/* Adds the tensor with the i-th name to the table. */
static tenmap_status add_tensor(tmi_torch *t, torch_tables *tables, size_t i) {
    const tmi_torch_tensor *d = &tables->described[i];
    const tmi_torch_named *named = &tables->names.named[i];
    tenmap_tensor *tensor = &tables->tensors[tables->count];
    uint64_t *shape = tables->next, *strides = shape + d->rank;
    const char *name = TORCH_NAME(tables, i), *why = take_torch_shape(t, d, shape, strides);
    tmi_torch_problem problem = {.status = TENMAP_ERR_FORMAT, .code = TENMAP_FOUND_ENTRY};
    if (why) {
        memcpy(problem.text, why, strlen(why) + 1);
        return fail_tensor(t, name, named->len, named->value, &problem);
    }
    *tensor = (tenmap_tensor){.name = name,
                              .name_len = named->len,
                              .dtype = d->dtype,
                              .rank = d->rank,
                              .shape = shape,
                              .header_position = tables->count};
    tmi_storage storage = {.at = d->storage->at + d->view_at,
                           .bytes = d->view_bytes,
                           .offset = d->offset,
                           .strides = strides};
    tenmap_status status = tmi_declare_strided(t->header, t->place, tensor, &storage, t->error);
    if (status == TENMAP_ERR_FORMAT || status == TENMAP_ERR_LIMIT)
        return tmi_torch_failed(
            t, status, status == TENMAP_ERR_LIMIT ? TENMAP_FOUND_LIMIT : TENMAP_FOUND_SIZE, name);
    if (status == TENMAP_OK) {
        tables->next += 2 * (size_t)d->rank;
        tables->count++;
    }
    return status;
}

static bool torch_goes_behind(const tenmap_tensor *a, const tenmap_tensor *b) {
    return a->file_offset > b->file_offset ||
           (a->file_offset == b->file_offset && a->nbytes > b->nbytes);
}

/* Sorts the tensors into file order if they are not in it. */
static tenmap_status sort_tensors(tmi_torch *t, torch_tables *tables) {
    bool in_order = true;
    for (size_t i = 1; i < tables->count; i++)
        in_order = in_order && !torch_goes_behind(&tables->tensors[i - 1], &tables->tensors[i]);
    t->header->reordered = !in_order;
    if (!in_order && !tmi_order_tensors(&t->header->tensors, tables->count))
        return tmi_fail_memory(t->error, tables->count * sizeof *tables->tensors,
                               "the tensors' order");
    tables->tensors = t->header->tensors.bytes;
    return TENMAP_OK;
}

static tenmap_status index_torch_tensors(tmi_torch *t, torch_tables *tables) {
    const tmi_hash_key *key = &t->place->key;
    tmi_names *names = &t->header->names;
    tenmap_status status = TENMAP_OK;
    if (!tmi_names_init(names, key, tables->tensors, sizeof *tables->tensors, tables->count))
        return tmi_fail_memory(t->error, (uint64_t)tables->count * 16, "the index of names");
    for (size_t i = 0; i < tables->count && status == TENMAP_OK; i++) {
        const tenmap_tensor *tensor = &tables->tensors[i];
        if (tmi_names_put(names, i, tmi_hash(key, tensor->name, tensor->name_len)) != TMI_NONE)
            status = TMI_TORCH_FAIL(t, TENMAP_ERR_FORMAT, TENMAP_FOUND_DUPLICATE_NAME, t->pickle_at,
                                    tensor->name, "%s: two tensors have the name %s", TORCH_PATH(t),
                                    tmi_quote(tensor->name, tensor->name_len).text);
    }
    return status;
}

static tenmap_status fill_tensors(tmi_torch *t, torch_tables *tables) {
    tmi_header *h = t->header;
    size_t count = tables->names.count;
    tenmap_status status = describe_all(t, tables);
    if (status != TENMAP_OK)
        return status;
    if (count >= UINT32_MAX - 1 ||
        !tmi_block_alloc(&h->tensors, (count + 1) * sizeof *tables->tensors) ||
        !tmi_block_alloc(&h->dims[0], (tables->words + 1) * sizeof(uint64_t)))
        return tmi_fail_memory(t->error, (uint64_t)count * sizeof *tables->tensors,
                               "the tensors' table");
    h->dim_blocks = 1;
    tables->tensors = h->tensors.bytes;
    tables->next = h->dims[0].bytes;
    for (size_t i = 0; i < count && status == TENMAP_OK; i++)
        if (tables->described[i].storage)
            status = add_tensor(t, tables, i);
    if (status == TENMAP_OK)
        status = sort_tensors(t, tables);
    if (status == TENMAP_OK)
        status = index_torch_tensors(t, tables);
    h->count = tables->count;
    return status;
}

/* Metadata. */

/* The bytes that a value's text takes, and a number's bytes before it; 0: it is left out. */
static size_t value_room(const tmi_atom *atom) {
    if (atom->kind != TMI_ATOM_TEXT)
        return sizeof(uint64_t) + TMI_NUMBER_ROOM;
    return 2 * atom->len + 1;
}

/* Writes a number's bytes as files have them. */
static size_t put_number(const tmi_atom *atom, unsigned char raw[8]) {
    uint64_t bits = (uint64_t)atom->number;
    if (atom->kind == TMI_ATOM_FLOAT)
        memcpy(&bits, &atom->real, sizeof bits);
    for (unsigned i = 0; i < 8; i++)
        raw[i] = (unsigned char)(bits >> (8 * i));
    return atom->kind == TMI_ATOM_BOOL ? 1 : 8;
}

/* Fills in the value, at *room; false if it is a string that is not UTF-8. */
static bool take_value(const tmi_atom *atom, tenmap_metadata *m, char **room) {
    static const uint32_t types[] = {[TMI_ATOM_BOOL] = TENMAP_VALUE_BOOL,
                                     [TMI_ATOM_INT] = TENMAP_VALUE_I64,
                                     [TMI_ATOM_FLOAT] = TENMAP_VALUE_F64,
                                     [TMI_ATOM_TEXT] = TENMAP_VALUE_STRING};
    char *at = *room;
    m->type = m->element_type = types[atom->kind];
    m->count = 1;
    m->raw = at;
    if (atom->kind == TMI_ATOM_TEXT) {
        size_t len = tmi_atom_text(atom, at, 2 * atom->len);
        if (len == SIZE_MAX)
            return false;
        at[len] = '\0';
        m->value = at;
        m->value_len = len;
        m->raw_bytes = len;
        *room += len + 1;
        return true;
    }
    m->raw_bytes = put_number(atom, (unsigned char *)at);
    m->value = at + sizeof(uint64_t);
    m->value_len = tmi_number_text(at + sizeof(uint64_t), m->type, at);
    *room += sizeof(uint64_t) + TMI_NUMBER_ROOM;
    return true;
}

/* If several values have one name, the last one counts, as in Python. */
static void add_torch_value(tmi_torch *t, tmi_names *names, const tenmap_metadata *m) {
    tmi_header *h = t->header;
    h->metadata[h->metadata_count] = *m;
    size_t twin =
        tmi_names_put(names, h->metadata_count, tmi_hash(&t->place->key, m->key, m->key_len));
    if (twin == TMI_NONE)
        h->metadata_count++;
    else
        h->metadata[twin] = *m;
}

static tenmap_status fill_values(tmi_torch *t) {
    tmi_torch_names found = {.count = 0};
    tmi_names names = {.mask = 0};
    tmi_header *h = t->header;
    uint64_t bytes = 1, most = 8 * (uint64_t)t->pickle.len + 65536;
    tenmap_status status = tmi_torch_find_values(t, &found);
    size_t count = 0;
    for (; count < found.count; count++) {
        tmi_atom atom = tmi_atom_of(&t->pickle, found.named[count].value);
        if (value_room(&atom) > most - bytes)
            break; /* strings that are listed again and again */
        bytes += value_room(&atom);
    }
    if (status == TENMAP_OK && count) {
        h->metadata = tmi_calloc(count, sizeof *h->metadata);
        h->dims[h->dim_blocks++].bytes = found.text; /* the keys: the header frees them */
        char *keys = found.text;
        found.text = NULL;
        if (!h->metadata || !tmi_block_alloc(&h->numbers, (size_t)bytes) ||
            !tmi_names_init(&names, &t->place->key, h->metadata, sizeof *h->metadata, count))
            status = tmi_fail_memory(t->error, bytes, "the metadata");
        char *room = h->numbers.bytes;
        for (size_t i = 0; i < count && status == TENMAP_OK; i++) {
            const tmi_torch_named *named = &found.named[i];
            tmi_atom atom = tmi_atom_of(&t->pickle, named->value);
            tenmap_metadata m = {
                .key = keys + named->at, .key_len = named->len, .shard = t->place->shard};
            if (take_value(&atom, &m, &room))
                add_torch_value(t, &names, &m);
        }
    }
    tmi_names_free(&names);
    tmi_torch_names_free(&found);
    return status;
}

/* All of it. */

/* Reports what is valid in a checkpoint, but rarely intended. */
static void lint_torch(const tmi_torch *t) {
    const tmi_header *h = t->header;
    const tmi_place *place = t->place;
    const tenmap_tensor *tensors = h->tensors.bytes;
    if (h->count == 0)
        TMI_REPORT(place->report, NO_TENSORS, place->shard, place->offset, NULL,
                   "%s: it holds no tensors", TORCH_PATH(t));
    for (size_t i = 0; i < h->count; i++)
        if (tensors[i].nbytes == 0)
            TMI_REPORT(place->report, EMPTY_TENSOR, place->shard, tensors[i].file_offset,
                       tensors[i].name, "%s: tensor %s: it has no data", TORCH_PATH(t),
                       tmi_quote(tensors[i].name, tensors[i].name_len).text);
}

static tenmap_status index_storages(tmi_torch *t) {
    const tmi_hash_key *key = &t->place->key;
    if (!tmi_names_init(&t->keys, key, t->storages, sizeof *t->storages, t->storage_count))
        return tmi_fail_memory(t->error, (uint64_t)t->storage_count * 16, "the storages");
    uint64_t begins = t->place->size;
    for (size_t i = 0; i < t->storage_count; i++) {
        const tmi_torch_storage *s = &t->storages[i];
        begins = s->at < begins ? s->at : begins;
        (void)tmi_names_put(&t->keys, i, tmi_hash(key, s->key, s->key_len));
    }
    t->header->data_at = begins;
    return TENMAP_OK;
}

/* TMI_OPEN_VALUES. */

static void free_torch_values(void *values) {
    tmi_torch_values *v = values;
    tmi_pickle_free(&v->pickle);
    free(v->storages);
    tmi_block_free(&v->text);
    free(v);
}

/* Moves the pickle and the storages into the header. */
static tenmap_status keep_torch_values(tmi_torch *t) {
    tmi_torch_values *v = tmi_calloc(1, sizeof *v);
    if (!v)
        return tmi_fail_memory(t->error, sizeof *v, "the values");
    *v = (tmi_torch_values){.pickle = t->pickle,
                            .pickle_at = t->pickle_at,
                            .storages = t->storages,
                            .storage_count = t->storage_count};
    t->pickle = (tmi_pickle){.bytes = NULL};
    t->storages = NULL;
    t->header->values = v;
    t->header->free_values = free_torch_values;
    return TENMAP_OK;
}

/* Lists the tensors and the plain values. */
static tenmap_status fill_tables(tmi_torch *t) {
    torch_tables tables = {.count = 0};
    tmi_torch_take_types(t);
    tenmap_status status = tmi_torch_find_tensors(t, &tables.names);
    if (status == TENMAP_OK)
        status = fill_tensors(t, &tables);
    t->header->text.bytes = tables.names.text; /* malloc's, as that of a small block */
    tables.names.text = NULL;
    if (status == TENMAP_OK)
        status = fill_values(t);
    if (status == TENMAP_OK && TMI_REPORTS(t->place->report))
        lint_torch(t);
    tmi_block_free(&tables.described_block);
    tmi_torch_names_free(&tables.names);
    return status;
}

tenmap_status tmi_torch_fill(tmi_torch *t, const unsigned char *pickle, size_t bytes) {
    tenmap_error unused, *given = t->error;
    t->error = given ? given : &unused;
    tenmap_status status = index_storages(t);
    if (status == TENMAP_OK && !tmi_pickle_read(&t->pickle, pickle, bytes)) {
        if (TMI_REPORTS(t->place->report))
            tmi_torch_report_code(t);
        status = tmi_torch_fail_pickle(t);
    } else if (status == TENMAP_OK) {
        if (TMI_REPORTS(t->place->report))
            tmi_torch_report_code(t);
        status = check_rest(t, bytes);
    }
    if (status == TENMAP_OK)
        status = t->place->flags & TMI_OPEN_VALUES ? keep_torch_values(t) : fill_tables(t);
    tmi_names_free(&t->keys);
    tmi_pickle_free(&t->pickle);
    t->error = given;
    return status;
}
