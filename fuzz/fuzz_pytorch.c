/*
 * PyTorch checkpoints: for any bytes, an error keeps its promises. If the file opens, every tensor
 * lies inside it, is found by its name and has the size of its shape and dtype, strided ones read
 * the same in ranges as in whole, and all texts end where they say. Input that is no zip archive is
 * taken as the pickle of one, so that mutations need not get an archive right.
 */
#include "fuzz.h"

#include <stdbool.h>

enum { MOST_TENSORS = 12, MOST_BYTES = 4096, STORAGE = 96, ROOM = 1 << 16 };

static void check_texts(const tenmap_model *model) {
    for (size_t i = 0; i < tenmap_metadata_count(model); i++) {
        const tenmap_metadata *m = tenmap_metadata_at(model, i);
        CHECK(m->key[m->key_len] == '\0' && m->value[m->value_len] == '\0');
        CHECK(fuzz_utf8(m->key, m->key_len) == m->key_len);
        CHECK(fuzz_utf8(m->value, m->value_len) == m->value_len);
        CHECK(m->type == TENMAP_VALUE_I64 || m->type == TENMAP_VALUE_F64 ||
              m->type == TENMAP_VALUE_BOOL || m->type == TENMAP_VALUE_STRING);
    }
}

static void check_tensor(const tenmap_model *model, const tenmap_tensor *t, const uint8_t *bytes,
                         size_t size) {
    uint64_t product = 1;
    CHECK(t->name[t->name_len] == '\0' && fuzz_utf8(t->name, t->name_len) == t->name_len);
    CHECK(tenmap_find_n(model, t->name, t->name_len) == t);
    for (uint32_t d = 0; d < t->rank; d++)
        product *= t->shape[d];
    CHECK(product == t->nelems && t->file_offset <= size);
    CHECK(t->nbytes == t->nelems * (tenmap_dtype_bits(t->dtype) / 8));
    if (t->flags & TENMAP_TENSOR_COMPUTED) {
        const tenmap_tensor *part = tenmap_part_at(t, 0);
        CHECK(!t->data && part->file_offset <= size && part->nbytes <= size - part->file_offset);
    } else {
        CHECK(t->nbytes <= size - t->file_offset);
        CHECK(t->data == (t->data ? bytes + t->file_offset : NULL));
    }
}

/* Compares the second half with that of a full read. */
static void check_halves(const tenmap_tensor *t) {
    static uint8_t all[MOST_BYTES], some[MOST_BYTES];
    uint64_t first = t->nelems / 2, rest = t->nelems - first;
    if (t->nbytes > MOST_BYTES)
        return;
    size_t width = tenmap_dtype_bits(t->dtype) / 8;
    CHECK(tenmap_read(t, 0, t->nelems, TENMAP_AS_STORED, all, sizeof all, 0, NULL) == TENMAP_OK);
    CHECK(tenmap_read(t, first, rest, TENMAP_AS_STORED, some, sizeof some, 0, NULL) == TENMAP_OK);
    CHECK(memcmp(all + first * width, some, (size_t)rest * width) == 0);
}

static void run(const uint8_t *file, size_t size, uint32_t flags, uint32_t backend) {
    tenmap_options options = TENMAP_OPTIONS_INIT;
    tenmap_model *model;
    tenmap_error error;
    options.flags = flags;
    options.backend = backend;
    fuzz_error_arm(&error);
    tenmap_status status = tenmap_open_memory(file, size, &options, &model, &error);
    fuzz_error_check(&error, status);
    CHECK((status == TENMAP_OK) == (model != NULL));
    if (!model)
        return;
    check_texts(model);
    for (size_t i = 0; i < tenmap_count(model); i++) {
        check_tensor(model, tenmap_at(model, i), file, size);
        if (i < MOST_TENSORS)
            check_halves(tenmap_at(model, i));
    }
    tenmap_close(model);
}

/* An archive that is being written. */
typedef struct archive {
    uint8_t at[ROOM], directory[1024];
    size_t size, directory_size, entries;
} archive;

static void put_number(uint8_t *at, uint64_t value, unsigned width) {
    for (unsigned i = 0; i < width; i++)
        at[i] = (uint8_t)(value >> 8 * i);
}

static void put_entry(archive *a, const char *name, const void *data, size_t size) {
    size_t len = strlen(name);
    uint8_t *local = a->at + a->size, *record = a->directory + a->directory_size;
    memset(local, 0, 30);
    memset(record, 0, 46);
    memcpy(local, "PK\3\4\24", 5);
    put_number(local + 18, size, 4);
    put_number(local + 22, size, 4);
    put_number(local + 26, len, 2);
    memcpy(local + 30, name, len);
    memcpy(local + 30 + len, data, size);
    memcpy(record, "PK\1\2", 4);
    put_number(record + 20, size, 4);
    put_number(record + 24, size, 4);
    put_number(record + 28, len, 2);
    put_number(record + 42, a->size, 4);
    memcpy(record + 46, name, len);
    a->size += 30 + len + size;
    a->directory_size += 46 + len;
    a->entries++;
}

/* Makes a checkpoint of the pickle and two storages. */
static void wrap_pickle(archive *a, const uint8_t *pickle, size_t size) {
    uint8_t storage[STORAGE];
    for (size_t i = 0; i < sizeof storage; i++)
        storage[i] = (uint8_t)i;
    a->size = a->directory_size = a->entries = 0;
    put_entry(a, "m/data.pkl", pickle, size);
    put_entry(a, "m/data/0", storage, sizeof storage);
    put_entry(a, "m/data/1", storage, sizeof storage);
    uint8_t *end = a->at + a->size + a->directory_size;
    memcpy(a->at + a->size, a->directory, a->directory_size);
    memset(end, 0, 22);
    memcpy(end, "PK\5\6", 4);
    put_number(end + 8, a->entries, 2);
    put_number(end + 10, a->entries, 2);
    put_number(end + 12, a->directory_size, 4);
    put_number(end + 16, a->size, 4);
    a->size += a->directory_size + 22;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static archive a;
    bool zip = size >= 4 && memcmp(data, "PK\3\4", 4) == 0;
    if (!zip && size > ROOM - 1024)
        return 0;
    if (!zip)
        wrap_pickle(&a, data, size);
    size = zip ? size : a.size;
    uint8_t *file = malloc(size); /* the exact size, so that a read past its end is detected */
    memcpy(file, zip ? data : a.at, size);
    run(file, size, 0, TENMAP_BACKEND_MAP);
    run(file, size, TENMAP_OPEN_LENIENT | TENMAP_OPEN_BRANCHES, TENMAP_BACKEND_READ);
    free(file);
    return 0;
}
