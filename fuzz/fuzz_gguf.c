/*
 * GGUF files: for any bytes, an error keeps its promises. If the file opens, every tensor lies
 * inside it, is found by its name, has the size of its shape and dtype, and reads the same in
 * ranges as in whole, and the metadata can be walked to its last element.
 */
#include "fuzz.h"

enum { MOST_TENSORS = 12, MOST_ELEMENTS = 1024, MOST_VALUES = 4096 };

/* Walks an array and its nested arrays, within the budget. */
static void check_value(tenmap_value value, unsigned depth, size_t *budget) {
    tenmap_value element;
    char text[16];
    size_t len = tenmap_value_text(&value, text, sizeof text);
    CHECK(memchr(text, '\0', sizeof text));
    if (value.type == TENMAP_VALUE_STRING)
        CHECK(len == value.raw_bytes);
    if (value.type != TENMAP_VALUE_ARRAY) {
        CHECK(value.count == 1 && value.element_type == value.type);
        CHECK(!tenmap_value_next(&value, &element));
        return;
    }
    CHECK(depth < 8);
    uint64_t count = value.count, left = value.raw_bytes;
    while (*budget > 0 && tenmap_value_next(&value, &element)) {
        --*budget;
        count--;
        CHECK(value.count == count && value.raw_bytes <= left);
        CHECK(element.type == value.element_type);
        left = value.raw_bytes;
        check_value(element, depth + 1, budget);
    }
    CHECK(*budget == 0 || (count == 0 && left == 0));
}

static void check_pairs(const tenmap_model *model) {
    size_t budget = MOST_VALUES;
    for (size_t i = 0; i < tenmap_metadata_count(model); i++) {
        const tenmap_metadata *m = tenmap_metadata_at(model, i);
        tenmap_value value;
        CHECK(m->key[m->key_len] == '\0' && m->value[m->value_len] == '\0');
        CHECK(fuzz_utf8(m->key, m->key_len) == m->key_len);
        tenmap_metadata_value(m, &value);
        check_value(value, 0, &budget);
    }
}

static void check_row(const tenmap_model *model, const tenmap_tensor *t, const uint8_t *bytes,
                      size_t size, uint64_t end) {
    uint32_t elements, block;
    uint64_t product = 1;
    CHECK(t->name[t->name_len] == '\0' && fuzz_utf8(t->name, t->name_len) == t->name_len);
    CHECK(tenmap_find_n(model, t->name, t->name_len) == t);
    CHECK(t->file_offset >= end && t->file_offset <= size && t->nbytes <= size - t->file_offset);
    CHECK(t->data == (t->data ? bytes + t->file_offset : NULL) && t->rank <= 4);
    for (uint32_t d = 0; d < t->rank; d++)
        product *= t->shape[d];
    CHECK(product == t->nelems && tenmap_dtype_block(t->dtype, &elements, &block));
    CHECK(t->nelems % elements == 0 && t->nelems / elements * block == t->nbytes);
}

/* Compares a range that begins inside a block with the same elements of a full read. */
static void check_range(const tenmap_tensor *t) {
    static float all[MOST_ELEMENTS], some[MOST_ELEMENTS];
    uint64_t count = t->nelems < MOST_ELEMENTS ? t->nelems : MOST_ELEMENTS, first = count / 3;
    tenmap_error error;
    fuzz_error_arm(&error);
    tenmap_status status = tenmap_read(t, 0, count, TENMAP_F32, all, sizeof all, 0, &error);
    fuzz_error_check(&error, status);
    CHECK(status == TENMAP_OK);
    CHECK(tenmap_read(t, first, count - first, TENMAP_F32, some, sizeof some, 0, NULL) ==
          TENMAP_OK);
    CHECK(memcmp(all + first, some, (size_t)(count - first) * sizeof *some) == 0);
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
    uint64_t end = tenmap_shard_at(model, 0)->data_offset;
    check_pairs(model);
    for (size_t i = 0; i < tenmap_count(model); i++) {
        const tenmap_tensor *t = tenmap_at(model, i);
        check_row(model, t, file, size, end);
        end = t->file_offset + t->nbytes;
        if (i < MOST_TENSORS)
            check_range(t);
    }
    tenmap_close(model);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 4 || memcmp(data, "GGUF", 4) != 0)
        return 0;
    uint8_t *file = malloc(size); /* the exact size, so that a read past its end is detected */
    memcpy(file, data, size);
    run(file, size, 0, TENMAP_BACKEND_MAP);
    run(file, size, TENMAP_OPEN_LENIENT, TENMAP_BACKEND_READ);
    free(file);
    return 0;
}
