/*
 * Opens any bytes as a file with tenmap_open_memory, strict and lenient, with both backends and at
 * an offset inside a larger file; then makes every inspection call and every kind of read.
 */
#include "fuzz.h"

/* How much of a model is read: enough to reach every path, little enough to stay fast. */
enum { MOST_TENSORS = 48, MOST_ELEMENTS = 96, MOST_RANK = 12, SHIFT = 3 };

static tenmap_model *open_bytes(const void *bytes, size_t size, uint32_t backend, uint32_t flags,
                                uint64_t offset, tenmap_status *status, tenmap_error *error) {
    tenmap_options options = TENMAP_OPTIONS_INIT;
    tenmap_model *model = (tenmap_model *)(uintptr_t)1;
    options.backend = backend;
    options.flags = flags;
    options.offset = offset;
    options.max_header_bytes = 1 << 20;
    fuzz_error_arm(error);
    *status = tenmap_open_memory(bytes, size, &options, &model, error);
    fuzz_error_check(error, *status);
    CHECK((*status == TENMAP_OK) == (model != NULL));
    if (!model) {
        CHECK(*status == TENMAP_ERR_FORMAT || *status == TENMAP_ERR_LIMIT);
        CHECK(error->shard == 0 && error->os_error == 0);
        CHECK(error->offset >= offset || error->offset == 0);
    }
    return model;
}

static void check_metadata(const tenmap_model *model) {
    for (size_t i = 0; i < tenmap_metadata_count(model); i++) {
        const tenmap_metadata *m = tenmap_metadata_at(model, i);
        CHECK(m->key[m->key_len] == '\0' && m->value[m->value_len] == '\0' && m->shard == 0);
        CHECK(fuzz_utf8(m->key, m->key_len) == m->key_len);
        CHECK(fuzz_utf8(m->value, m->value_len) == m->value_len);
        if (strlen(m->key) == m->key_len)
            CHECK(tenmap_metadata_get(model, m->key) == m->value);
    }
    CHECK(!tenmap_metadata_at(model, tenmap_metadata_count(model)));
}

static void check_shard(const tenmap_model *model, const uint8_t *bytes, size_t size,
                        uint32_t backend, uint64_t offset) {
    const tenmap_shard *shard = tenmap_shard_at(model, 0);
    CHECK(tenmap_shard_count(model) == 1 && !tenmap_shard_at(model, 1));
    CHECK(strcmp(tenmap_path(model), "") == 0 && strcmp(shard->path, "") == 0 && shard->fd == -1);
    CHECK(shard->size == size - offset && tenmap_file_size(model) == size - offset);
    CHECK(shard->base == (backend == TENMAP_BACKEND_MAP ? bytes + offset : NULL));
    CHECK(shard->offset == offset && shard->data_offset == offset + 8 + shard->header_bytes);
    CHECK(shard->data_offset <= size);
    CHECK(shard->first_tensor == 0 && shard->tensor_count == tenmap_count(model));
    CHECK(tenmap_missing_count(model) == 0 && !tenmap_missing_at(model, 0));
    CHECK(!tenmap_index_json(model, NULL));
}

/* Checks the fields of a tensor; `end` is where the previous one ends. */
static void check_tensor(const tenmap_model *model, const tenmap_tensor *t, const uint8_t *bytes,
                         size_t size, bool lenient, uint64_t end) {
    const tenmap_shard *shard = tenmap_shard_at(model, 0);
    CHECK(t->model == model && t->shard == 0 && t->name[t->name_len] == '\0');
    CHECK(fuzz_utf8(t->name, t->name_len) == t->name_len);
    CHECK(tenmap_find_n(model, t->name, t->name_len) == t);
    if (strlen(t->name) == t->name_len)
        CHECK(tenmap_find(model, t->name) == t);
    CHECK(lenient ? t->file_offset >= end : t->file_offset == end);
    CHECK(t->file_offset <= size && t->nbytes <= size - t->file_offset);
    CHECK(t->data == (shard->base ? bytes + t->file_offset : NULL));
    uint64_t elems = 1;
    for (uint32_t d = 0; d < t->rank; d++)
        elems *= t->shape[d];
    CHECK(t->nelems == elems);
    if (t->dtype == TENMAP_OPAQUE) {
        tenmap_dtype known;
        CHECK(lenient && tenmap_dtype_text(t));
        /* A text that holds NUL may begin with a known one. */
        CHECK(!tenmap_dtype_from_name(tenmap_dtype_text(t), &known) || known != TENMAP_OPAQUE);
        return;
    }
    CHECK(tenmap_dtype_bits(t->dtype) > 0);
    CHECK(strcmp(tenmap_dtype_text(t), tenmap_dtype_name(t->dtype)) == 0);
    CHECK((unsigned __int128)t->nbytes * 8 ==
          (unsigned __int128)t->nelems * tenmap_dtype_bits(t->dtype));
}

/* tenmap_at_written returns each tensor of a file once. */
static void check_written(const tenmap_model *model) {
    for (size_t i = 0; i < tenmap_count(model); i++) {
        const tenmap_tensor *t = tenmap_at_written(model, i);
        CHECK(t && t->header_position == i);
        CHECK(tenmap_find_n(model, t->name, t->name_len) == t);
    }
    CHECK(!tenmap_at_written(model, tenmap_count(model)));
}

static void check_model(const tenmap_model *model, const uint8_t *bytes, size_t size,
                        uint32_t backend, bool lenient, uint64_t offset) {
    check_shard(model, bytes, size, backend, offset);
    check_metadata(model);
    uint64_t end = tenmap_shard_at(model, 0)->data_offset;
    for (size_t i = 0; i < tenmap_count(model); i++) {
        const tenmap_tensor *t = tenmap_at(model, i);
        check_tensor(model, t, bytes, size, lenient, end);
        end = t->file_offset + t->nbytes;
    }
    CHECK(lenient || end == size);
    CHECK(!tenmap_at(model, tenmap_count(model)));
    check_written(model);
    CHECK(!tenmap_find_n(model, "no tensor has this name, surely", TENMAP_CSTR));
}

/* Two models of the same bytes must be equal; `shift` is how much further b lies in its file. */
static void check_same(const tenmap_model *a, const tenmap_model *b, uint64_t shift) {
    CHECK(tenmap_count(a) == tenmap_count(b));
    CHECK(tenmap_metadata_count(a) == tenmap_metadata_count(b));
    for (size_t i = 0; i < tenmap_count(a); i++) {
        const tenmap_tensor *x = tenmap_at(a, i), *y = tenmap_at(b, i);
        CHECK(x->name_len == y->name_len && memcmp(x->name, y->name, x->name_len) == 0);
        CHECK(x->dtype == y->dtype && x->rank == y->rank && x->nbytes == y->nbytes);
        CHECK(x->nelems == y->nelems && x->file_offset + shift == y->file_offset);
        for (uint32_t d = 0; d < x->rank; d++)
            CHECK(x->shape[d] == y->shape[d]);
        CHECK(strcmp(tenmap_dtype_text(x), tenmap_dtype_text(y)) == 0);
    }
    for (size_t i = 0; i < tenmap_metadata_count(a); i++) {
        const tenmap_metadata *x = tenmap_metadata_at(a, i), *y = tenmap_metadata_at(b, i);
        CHECK(x->key_len == y->key_len && memcmp(x->key, y->key, x->key_len) == 0);
        CHECK(x->value_len == y->value_len && memcmp(x->value, y->value, x->value_len) == 0);
    }
}

/* Reads a range into a buffer of exactly its size. The caller frees it; NULL if it was refused. */
static unsigned char *read_range(const tenmap_tensor *t, uint64_t first, uint64_t count,
                                 tenmap_dtype as, size_t *bytes) {
    tenmap_error error;
    unsigned bits = tenmap_dtype_bits(as == TENMAP_AS_STORED ? t->dtype : as);
    *bytes = ((size_t)count * bits + 7) / 8;
    unsigned char *dst = malloc(*bytes ? *bytes : 1);
    if (*bytes > 0) {
        fuzz_error_arm(&error);
        tenmap_status small = tenmap_read(t, first, count, as, dst, *bytes - 1, 0, &error);
        fuzz_error_check(&error, small);
        CHECK(small == TENMAP_ERR_BUFFER || small == TENMAP_ERR_UNSUPPORTED);
    }
    fuzz_error_arm(&error);
    tenmap_status status = tenmap_read(t, first, count, as, dst, *bytes, 0, &error);
    fuzz_error_check(&error, status);
    if (status == TENMAP_OK)
        return dst;
    bool refused = t->dtype == TENMAP_OPAQUE || t->dtype == TENMAP_C64;
    CHECK(refused && status == TENMAP_ERR_UNSUPPORTED);
    free(dst);
    return NULL;
}

/* The same range through the mapping and through checked reads must be equal. */
static void check_range(const tenmap_tensor *mapped, const tenmap_tensor *read, uint64_t first,
                        uint64_t count, tenmap_dtype as) {
    size_t a_size, b_size;
    unsigned char *a = read_range(mapped, first, count, as, &a_size);
    unsigned char *b = read_range(read, first, count, as, &b_size);
    CHECK(a_size == b_size && !a == !b && (!a || memcmp(a, b, a_size) == 0));
    free(a);
    free(b);
}

/* Compares a block with its elements read one by one. */
static void check_slice(const tenmap_tensor *t) {
    uint64_t begin[MOST_RANK] = {0}, end[MOST_RANK] = {0}, index[MOST_RANK] = {0}, count = 1;
    tenmap_error error;
    if (t->rank > MOST_RANK || t->dtype == TENMAP_OPAQUE || t->dtype == TENMAP_C64)
        return;
    for (uint32_t d = 0; d < t->rank; d++) {
        index[d] = begin[d] = t->shape[d] / 3;
        end[d] = t->shape[d] - t->shape[d] / 4;
        if (end[d] - begin[d] > MOST_ELEMENTS)
            end[d] = begin[d] + MOST_ELEMENTS;
        count *= end[d] - begin[d];
    }
    if (count > MOST_ELEMENTS)
        return;
    float *block = malloc((size_t)count * sizeof *block + 1), one;
    fuzz_error_arm(&error);
    tenmap_status status = tenmap_read_slice(t, begin, end, TENMAP_F32, block,
                                             (size_t)count * sizeof *block, 0, &error);
    fuzz_error_check(&error, status);
    CHECK(status == TENMAP_OK);
    for (uint64_t i = 0; i < count; i++) {
        uint64_t at = 0;
        for (uint32_t d = 0; d < t->rank; d++)
            at = at * t->shape[d] + index[d];
        CHECK(tenmap_read(t, at, 1, TENMAP_F32, &one, sizeof one, 0, NULL) == TENMAP_OK);
        CHECK(memcmp(&one, &block[i], sizeof one) == 0);
        for (uint32_t d = t->rank; d-- > 0 && ++index[d] == end[d];)
            index[d] = begin[d];
    }
    free(block);
}

static void check_view(const tenmap_tensor *t, tenmap_dtype as) {
    tenmap_error error;
    fuzz_error_arm(&error);
    const void *view = tenmap_view(t, as, &error);
    fuzz_error_check(&error, view ? TENMAP_OK : error.status);
    CHECK(!view || view == t->data);
    bool same = as == TENMAP_AS_STORED || as == t->dtype;
    if (!same)
        CHECK(error.status == TENMAP_ERR_DTYPE);
    else if (!t->data)
        CHECK(error.status == TENMAP_ERR_UNSUPPORTED);
    else
        CHECK(view || error.status == TENMAP_ERR_ALIGNMENT);
}

static void check_bytes(const tenmap_tensor *t, const uint8_t *bytes) {
    tenmap_error error;
    unsigned char got[64];
    uint64_t offsets[] = {0, t->nbytes / 2, t->nbytes};
    for (size_t i = 0; i < sizeof offsets / sizeof offsets[0]; i++) {
        uint64_t left = t->nbytes - offsets[i];
        size_t part = left < sizeof got ? (size_t)left : sizeof got;
        CHECK(tenmap_read_bytes(t, offsets[i], part, got, NULL) == TENMAP_OK);
        CHECK(memcmp(got, bytes + t->file_offset + offsets[i], part) == 0);
        fuzz_error_arm(&error);
        tenmap_status status = tenmap_read_bytes(t, offsets[i], (size_t)left + 1, got, &error);
        CHECK(status == TENMAP_ERR_RANGE);
        fuzz_error_check(&error, status);
    }
}

static void check_reads(const tenmap_model *mapped, const uint8_t *mapped_bytes,
                        const tenmap_model *read, const uint8_t *read_bytes) {
    for (size_t i = 0; i < tenmap_count(mapped) && i < MOST_TENSORS; i++) {
        const tenmap_tensor *m = tenmap_at(mapped, i), *r = tenmap_at(read, i);
        uint64_t all = m->nelems, some = all < MOST_ELEMENTS ? all : MOST_ELEMENTS;
        tenmap_error error;
        for (unsigned as = 0; as < 2; as++) {
            tenmap_dtype to = as ? TENMAP_F32 : TENMAP_AS_STORED;
            check_range(m, r, 0, some, to);
            check_range(m, r, all - some, some, to);
            check_range(m, r, some / 3, some / 3, to);
            check_view(m, to);
            check_view(r, to);
        }
        check_view(m, TENMAP_OPAQUE);
        check_slice(m);
        check_slice(r);
        check_bytes(m, mapped_bytes);
        check_bytes(r, read_bytes);
        fuzz_error_arm(&error);
        tenmap_status beyond = tenmap_read(m, all, 1, 0, &error, 0, 0, &error);
        fuzz_error_check(&error, beyond);
        CHECK(beyond == TENMAP_ERR_RANGE || m->dtype == TENMAP_OPAQUE);
    }
}

/*
 * With one set of rules, both backends and a shifted copy must agree. Returns the mapped model, or
 * NULL.
 */
static tenmap_model *run_rules(const uint8_t *data, size_t size, uint32_t flags) {
    tenmap_status status, other;
    tenmap_error error, other_error;
    bool lenient = flags & TENMAP_OPEN_LENIENT;
    tenmap_model *mapped = open_bytes(data, size, TENMAP_BACKEND_MAP, flags, 0, &status, &error);
    tenmap_model *read =
        open_bytes(data, size, TENMAP_BACKEND_READ, flags, 0, &other, &other_error);
    CHECK(status == other && (mapped || memcmp(&error, &other_error, sizeof error) == 0));
    uint8_t *shifted = malloc(size + SHIFT);
    memset(shifted, '{', SHIFT);
    memcpy(shifted + SHIFT, data, size);
    tenmap_model *inner =
        open_bytes(shifted, size + SHIFT, TENMAP_BACKEND_MAP, flags, SHIFT, &other, &other_error);
    CHECK(status == other);
    if (mapped) {
        check_model(mapped, data, size, TENMAP_BACKEND_MAP, lenient, 0);
        check_model(read, data, size, TENMAP_BACKEND_READ, lenient, 0);
        check_model(inner, shifted, size + SHIFT, TENMAP_BACKEND_MAP, lenient, SHIFT);
        check_same(mapped, read, 0);
        check_same(mapped, inner, SHIFT);
        check_reads(mapped, data, read, data);
        check_reads(inner, shifted, read, data);
    }
    tenmap_close(read);
    tenmap_close(inner);
    free(shifted);
    return mapped;
}

/* Aliases: a metadata pair whose value is a tensor's name and whose key is not. */
static void check_aliases(const uint8_t *data, size_t size, const tenmap_model *plain) {
    tenmap_options options = TENMAP_OPTIONS_INIT;
    tenmap_model *model = NULL;
    options.flags = TENMAP_OPEN_ALIASES;
    CHECK(tenmap_open_memory(data, size, &options, &model, NULL) == TENMAP_OK);
    check_same(plain, model, 0);
    for (size_t i = 0; i < tenmap_metadata_count(model); i++) {
        const tenmap_metadata *m = tenmap_metadata_at(model, i);
        const tenmap_tensor *own = tenmap_find_n(plain, m->key, m->key_len);
        const tenmap_tensor *kept = tenmap_find_n(plain, m->value, m->value_len);
        const tenmap_tensor *want = own ? own : kept;
        const tenmap_tensor *got = tenmap_find_n(model, m->key, m->key_len);
        CHECK(!want == !got && (!got || got->header_position == want->header_position));
    }
    tenmap_close(model);
}

/* The flags that each allow one thing together allow what TENMAP_OPEN_LENIENT does. */
static void check_relaxations(const uint8_t *data, size_t size, const tenmap_model *lenient) {
    tenmap_options options = TENMAP_OPTIONS_INIT;
    tenmap_model *model = NULL;
    options.flags = TENMAP_OPEN_TRAILING | TENMAP_OPEN_HOLES | TENMAP_OPEN_UNKNOWN_DTYPES;
    tenmap_status status = tenmap_open_memory(data, size, &options, &model, NULL);
    CHECK((status == TENMAP_OK) == (lenient != NULL));
    if (model)
        check_same(lenient, model, 0);
    tenmap_close(model);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const uint8_t nothing[1];
    if (size >= 4 && memcmp(data, "GGUF", 4) == 0)
        return 0; /* fuzz_gguf.c checks those */
    tenmap_model *strict = run_rules(size ? data : nothing, size, 0);
    tenmap_model *lenient = run_rules(size ? data : nothing, size, TENMAP_OPEN_LENIENT);
    CHECK(lenient || !strict);
    check_relaxations(size ? data : nothing, size, lenient);
    if (strict) {
        check_same(strict, lenient, 0);
        check_aliases(data, size, strict);
    }
    tenmap_close(strict);
    tenmap_close(lenient);
    return 0;
}
