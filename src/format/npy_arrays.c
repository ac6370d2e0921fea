/* Turns the headers of .npy arrays into the tables of a header: one tensor for each array. */
#include "numpy.h"

#include <stdio.h>

/* Tables that are being filled. */
typedef struct npy_tables {
    tmi_header *header;
    const tmi_place *place;
    tenmap_error *error;
    tenmap_tensor *tensors;
    uint64_t *next; /* where the next shape goes */
    size_t count;
} npy_tables;

tenmap_status tmi_npy_failed(const tmi_place *place, const char *name, uint64_t at,
                             const tmi_npy_problem *problem, tenmap_error *error) {
    tenmap_error unused, *said = error ? error : &unused;
    uint64_t begin = place->offset + at, byte = begin + problem->at;
    if (name)
        tmi_fail_at(said, problem->status, place->shard, byte, "%s: array %s (byte %llu): %s",
                    tmi_quote_path(place->path).text, tmi_quote(name, strlen(name)).text,
                    (ull)begin, problem->text);
    else
        tmi_fail_at(said, problem->status, place->shard, byte, "%s: %s",
                    tmi_quote_path(place->path).text, problem->text);
    said->remedy = problem->remedy;
    if (!TMI_REPORTS(place->report))
        return problem->status;
    tmi_report_failure(place->report, problem->code, place->shard, name, said);
    return TENMAP_OK;
}

/* Counts the elements and bytes of an array. Any other dimension of an empty one may be large. */
static bool count_npy(const tmi_npy_header *npy, uint64_t *bytes, tmi_npy_problem *problem) {
    uint64_t elements = 1;
    bool fits = true, empty = false;
    for (uint32_t d = 0; d < npy->rank; d++) {
        empty = empty || npy->shape[d] == 0;
        fits = fits && tmi_multiply(elements, npy->shape[d], &elements);
    }
    if (empty)
        elements = 0;
    if ((fits || empty) && tmi_dtype_bytes(npy->dtype, elements, bytes) && *bytes <= INT64_MAX)
        return true;
    snprintf(problem->text, sizeof problem->text,
             "the product of its %u dimensions is more than 64 bits can count",
             (unsigned)npy->rank);
    problem->status = TENMAP_ERR_FORMAT;
    problem->code = TENMAP_FOUND_OVERFLOW;
    return false;
}

/* Compares the bytes of the elements with those that follow the header. */
static bool has_npy_bytes(const tmi_place *place, uint64_t bytes, uint64_t left,
                          tmi_npy_problem *problem) {
    bool trailing = tmi_allows(place->flags, TENMAP_OPEN_TRAILING) && !place->report;
    if (bytes == left || (bytes < left && trailing))
        return true;
    problem->status = TENMAP_ERR_FORMAT;
    if (bytes > left) {
        snprintf(problem->text, sizeof problem->text,
                 "its elements take %llu bytes, but only %llu follow its header: it is truncated "
                 "by %s",
                 (ull)bytes, (ull)left, tmi_count(bytes - left, "byte").text);
        problem->code = TENMAP_FOUND_TRUNCATED;
        problem->remedy = TENMAP_REMEDY_FETCH_AGAIN;
    } else {
        snprintf(problem->text, sizeof problem->text,
                 "%s its elements; numpy would ignore them (a lenient open does too)",
                 left - bytes == 1 ? "1 byte follows" : "bytes follow");
        problem->code = TENMAP_FOUND_TRAILING;
        problem->remedy = TENMAP_REMEDY_ALLOW_LENIENT;
    }
    return false;
}

/* Strides in elements. An overflow is one of the product too, unless there are no elements. */
static void set_npy_strides(const tmi_npy_header *npy, uint64_t *strides) {
    uint64_t stride = 1;
    for (uint32_t i = 0; i < npy->rank; i++) {
        uint32_t d = npy->fortran ? i : npy->rank - 1 - i;
        strides[d] = stride;
        if (!tmi_multiply(stride, npy->shape[d], &stride))
            stride = 0;
    }
}

/* Adds the array to the table. */
static tenmap_status add_npy(npy_tables *t, const tmi_npy_array *array) {
    const tmi_place *place = t->place;
    tmi_npy_header npy;
    tmi_npy_problem problem = {.remedy = TENMAP_REMEDY_NONE};
    uint64_t bytes = 0, left = array->bytes - array->length;
    bool good = tmi_npy_parse(array->start, array->length, &npy, &problem);
    if (good) {
        problem.at = array->length;
        good = count_npy(&npy, &bytes, &problem) && has_npy_bytes(place, bytes, left, &problem);
        if (!good && problem.code == TENMAP_FOUND_TRAILING && TMI_REPORTS(place->report)) {
            (void)tmi_npy_failed(place, array->name, array->at, &problem, t->error);
            good = true; /* the check goes on with the array */
        }
    }
    if (!good)
        return tmi_npy_failed(place, array->name, array->at, &problem, t->error);
    tenmap_tensor *tensor = &t->tensors[t->count];
    uint64_t *strides = t->next + npy.rank;
    memcpy(t->next, npy.shape, npy.rank * sizeof npy.shape[0]);
    set_npy_strides(&npy, strides);
    *tensor = (tenmap_tensor){.name = array->name,
                              .name_len = array->name_len,
                              .dtype = npy.dtype,
                              .rank = npy.rank,
                              .shape = t->next,
                              .header_position = t->count};
    tmi_storage storage = {.at = array->at + array->length, .bytes = left, .strides = strides};
    tenmap_status status = tmi_declare_strided(t->header, place, tensor, &storage, t->error);
    t->next += 2 * (size_t)npy.rank;
    t->count += status == TENMAP_OK;
    return status;
}

static bool npy_goes_behind(const tenmap_tensor *a, const tenmap_tensor *b) {
    return a->file_offset > b->file_offset ||
           (a->file_offset == b->file_offset && a->nbytes > b->nbytes);
}

static tenmap_status sort_npy(npy_tables *t) {
    bool in_order = true;
    for (size_t i = 1; i < t->count; i++)
        in_order = in_order && !npy_goes_behind(&t->tensors[i - 1], &t->tensors[i]);
    t->header->reordered = !in_order;
    if (!in_order && !tmi_order_tensors(&t->header->tensors, t->count))
        return tmi_fail_memory(t->error, t->count * sizeof *t->tensors, "the tensors' order");
    t->tensors = t->header->tensors.bytes;
    return TENMAP_OK;
}

static tenmap_status index_npy(npy_tables *t) {
    const tmi_place *place = t->place;
    tmi_names *names = &t->header->names;
    tenmap_status status = TENMAP_OK;
    if (!tmi_names_init(names, &place->key, t->tensors, sizeof *t->tensors, t->count))
        return tmi_fail_memory(t->error, (uint64_t)t->count * 16, "the index of names");
    for (size_t i = 0; i < t->count && status == TENMAP_OK; i++) {
        const tenmap_tensor *tensor = &t->tensors[i];
        uint64_t hash = tmi_hash(&place->key, tensor->name, tensor->name_len);
        if (tmi_names_put(names, i, hash) == TMI_NONE)
            continue;
        tmi_npy_problem problem = {.text = "another array has the same name",
                                   .status = TENMAP_ERR_FORMAT,
                                   .code = TENMAP_FOUND_DUPLICATE_NAME};
        status = tmi_npy_failed(place, tensor->name, tensor->file_offset - place->offset, &problem,
                                t->error);
    }
    return status;
}

/* Reports what is valid, but rarely intended. */
static void lint_npy(const npy_tables *t) {
    const tmi_place *place = t->place;
    for (size_t i = 0; i < t->count; i++)
        if (t->tensors[i].nbytes == 0)
            TMI_REPORT(place->report, EMPTY_TENSOR, place->shard, t->tensors[i].file_offset,
                       t->tensors[i].name, "%s: array %s: it has no data",
                       tmi_quote_path(place->path).text,
                       tmi_quote(t->tensors[i].name, t->tensors[i].name_len).text);
}

/* At most this many dimensions: there is a comma between any two. */
static uint32_t most_npy_rank(const tmi_npy_array *array) {
    uint32_t rank = 1;
    for (size_t i = 0; i < array->length && rank < TMI_NPY_MOST_RANK; i++)
        rank += array->start[i] == ',';
    return rank;
}

tenmap_status tmi_npy_fill(tmi_header *header, const tmi_place *place, const tmi_npy_array *arrays,
                           size_t count, tenmap_error *error) {
    npy_tables t = {.header = header, .place = place, .error = error};
    size_t words = 0;
    for (size_t i = 0; i < count; i++)
        words += 2 * (size_t)most_npy_rank(&arrays[i]);
    if (count >= UINT32_MAX - 1 || words > SIZE_MAX / 2 / sizeof(uint64_t) ||
        !tmi_block_alloc(&header->tensors, (count + 1) * sizeof *t.tensors) ||
        !tmi_block_alloc(&header->dims[0], (words + 1) * sizeof(uint64_t)))
        return tmi_fail_memory(error, (uint64_t)count * sizeof *t.tensors, "the tensors' table");
    header->dim_blocks = 1;
    header->data_at = place->size;
    t.tensors = header->tensors.bytes;
    t.next = header->dims[0].bytes;
    tenmap_status status = TENMAP_OK;
    for (size_t i = 0; i < count && status == TENMAP_OK; i++) {
        uint64_t begins = arrays[i].at + arrays[i].length;
        header->data_at = begins < header->data_at ? begins : header->data_at;
        status = add_npy(&t, &arrays[i]);
    }
    if (status == TENMAP_OK)
        status = sort_npy(&t);
    if (status == TENMAP_OK)
        status = index_npy(&t);
    header->count = t.count;
    if (status == TENMAP_OK && TMI_REPORTS(place->report))
        lint_npy(&t);
    return status;
}
