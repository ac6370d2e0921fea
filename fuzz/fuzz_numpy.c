/*
 * .npy arrays and .npz archives: for any bytes, an error keeps its promises. If the file opens,
 * every tensor lies inside it, is found by its name and has the size of its shape and dtype, and
 * those in Fortran order read the same in ranges as in whole. Input that begins with a brace is
 * taken as the dict of an array, so that mutations need not get its length right.
 */
#include "fuzz.h"

enum { MOST_TENSORS = 12, MOST_BYTES = 4096, ELEMENTS = 96, LENGTH_AT = 8, DICT_AT = 10 };

static void check_tensor(const tenmap_model *model, const tenmap_tensor *t, const uint8_t *bytes,
                         size_t size) {
    uint64_t product = 1;
    CHECK(t->name[t->name_len] == '\0' && fuzz_utf8(t->name, t->name_len) == t->name_len);
    CHECK(tenmap_find_n(model, t->name, t->name_len) == t);
    for (uint32_t d = 0; d < t->rank; d++)
        product *= t->shape[d];
    CHECK(product == t->nelems && t->file_offset <= size && t->nbytes <= size - t->file_offset);
    CHECK(t->nbytes == t->nelems * (tenmap_dtype_bits(t->dtype) / 8));
    if (t->flags & TENMAP_TENSOR_COMPUTED)
        CHECK(!t->data && t->rank > 1);
    else
        CHECK(t->data == (t->data ? bytes + t->file_offset : NULL));
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
    for (size_t i = 0; i < tenmap_count(model); i++) {
        check_tensor(model, tenmap_at(model, i), file, size);
        if (i < MOST_TENSORS)
            check_halves(tenmap_at(model, i));
    }
    tenmap_close(model);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    bool dict = size > 0 && data[0] == '{' && size < UINT16_MAX;
    size_t before = dict ? DICT_AT : 0, after = dict ? ELEMENTS : 0;
    uint8_t *file = calloc(1, before + size + after); /* the exact size: no read past its end */
    if (dict) {
        memcpy(file, "\x93NUMPY\1", LENGTH_AT - 1);
        file[LENGTH_AT] = (uint8_t)size;
        file[LENGTH_AT + 1] = (uint8_t)(size >> 8);
    }
    memcpy(file + before, data, size);
    run(file, before + size + after, 0, TENMAP_BACKEND_MAP);
    run(file, before + size + after, TENMAP_OPEN_LENIENT, TENMAP_BACKEND_READ);
    free(file);
    return 0;
}
