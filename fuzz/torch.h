/*
 * What the targets of PyTorch checkpoints share: for any file, an error keeps its promises. If the
 * file opens, every tensor lies inside it, is found by its name and has the size of its shape and
 * dtype, strided ones read the same in ranges as in whole, and all texts end where they say.
 */
#ifndef TENMAP_FUZZ_TORCH_H
#define TENMAP_FUZZ_TORCH_H

#include "fuzz.h"

enum { MOST_TENSORS = 12, MOST_BYTES = 4096 };

static inline void check_texts(const tenmap_model *model) {
    for (size_t i = 0; i < tenmap_metadata_count(model); i++) {
        const tenmap_metadata *m = tenmap_metadata_at(model, i);
        CHECK(m->key[m->key_len] == '\0' && m->value[m->value_len] == '\0');
        CHECK(fuzz_utf8(m->key, m->key_len) == m->key_len);
        CHECK(fuzz_utf8(m->value, m->value_len) == m->value_len);
        CHECK(m->type == TENMAP_VALUE_I64 || m->type == TENMAP_VALUE_F64 ||
              m->type == TENMAP_VALUE_BOOL || m->type == TENMAP_VALUE_STRING);
    }
}

static inline void check_tensor(const tenmap_model *model, const tenmap_tensor *t,
                                const uint8_t *bytes, size_t size) {
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
static inline void check_halves(const tenmap_tensor *t) {
    static uint8_t all[MOST_BYTES], some[MOST_BYTES];
    uint64_t first = t->nelems / 2, rest = t->nelems - first;
    if (t->nbytes > MOST_BYTES)
        return;
    size_t width = tenmap_dtype_bits(t->dtype) / 8;
    CHECK(tenmap_read(t, 0, t->nelems, TENMAP_AS_STORED, all, sizeof all, 0, NULL) == TENMAP_OK);
    CHECK(tenmap_read(t, first, rest, TENMAP_AS_STORED, some, sizeof some, 0, NULL) == TENMAP_OK);
    CHECK(memcmp(all + first * width, some, (size_t)rest * width) == 0);
}

static inline void open_torch(const uint8_t *file, size_t size, uint32_t flags, uint32_t backend) {
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

/* Opens the file with and without what a lenient open allows. */
static inline void check_torch(const uint8_t *data, size_t size) {
    uint8_t *file =
        malloc(size + !size); /* the exact size, so that a read past its end is detected */
    if (size)
        memcpy(file, data, size);
    open_torch(file, size, 0, TENMAP_BACKEND_MAP);
    open_torch(file, size, TENMAP_OPEN_LENIENT | TENMAP_OPEN_BRANCHES, TENMAP_BACKEND_READ);
    free(file);
}

/* A file that is being written. */
typedef struct torch_file {
    uint8_t at[1 << 17];
    size_t size;
} torch_file;

static inline void torch_put(torch_file *f, const void *data, size_t size) {
    CHECK(size <= sizeof f->at - f->size);
    if (size)
        memcpy(f->at + f->size, data, size);
    f->size += size;
}

#define TORCH_LITERAL(f, text) torch_put(f, text, sizeof(text) - 1)

static inline void torch_number(torch_file *f, uint64_t value, unsigned width) {
    for (unsigned i = 0; i < width; i++)
        f->at[f->size + i] = (uint8_t)(value >> 8 * i);
    f->size += width;
}

/* The magic number of checkpoints from before torch 1.6. */
#define TORCH_MAGIC "\x80\2\x8a\nl\xfc\x9c\x46\xf9 j\xa8P\x19."

#endif
