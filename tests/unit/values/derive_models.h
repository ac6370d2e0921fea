/* Models of tests of derived tensors: SafeTensors files in memory, built from their elements. */
#ifndef TENMAP_TESTS_DERIVE_MODELS_H
#define TENMAP_TESTS_DERIVE_MODELS_H

#include "support.h"

enum { MOST_MADE = 64, MOST_MADE_RANK = 5 };

typedef struct made_tensor {
    char name[24];
    tenmap_dtype dtype;
    uint32_t rank;
    uint64_t shape[MOST_MADE_RANK];
    unsigned char *data;
    size_t bytes;
} made_tensor;

/* A file under construction. */
typedef struct made_model {
    made_tensor tensors[MOST_MADE];
    size_t count;
} made_model;

/* Random numbers that are the same in each run. */
static uint64_t made_state = 34;
static inline uint64_t made_below(uint64_t n) {
    made_state = made_state * 6364136223846793005u + 1442695040888963407u;
    return (made_state >> 33) % n;
}

static inline uint64_t made_count(const uint64_t *shape, uint32_t rank) {
    uint64_t count = 1;
    for (uint32_t i = 0; i < rank; i++)
        count *= shape[i];
    return count;
}

/* Adds a tensor of random bits, or of floats between -2 and 2. */
static inline made_tensor *made_add(made_model *m, const char *name, tenmap_dtype dtype,
                                    uint32_t rank, const uint64_t *shape, bool floats) {
    made_tensor *t = &m->tensors[m->count++];
    uint64_t count = made_count(shape, rank), size;
    assert_true(m->count <= MOST_MADE && rank <= MOST_MADE_RANK);
    assert_int_equal(tenmap_dtype_bytes(dtype, count, &size), 1);
    *t = (made_tensor){.dtype = dtype, .rank = rank, .bytes = (size_t)size};
    snprintf(t->name, sizeof t->name, "%s", name);
    if (rank)
        memcpy(t->shape, shape, rank * sizeof *shape);
    t->data = malloc(t->bytes + 1);
    assert_non_null(t->data);
    for (size_t i = 0; i < t->bytes; i++)
        t->data[i] = (unsigned char)made_below(256);
    if (floats) {
        float *values = malloc((size_t)count * sizeof *values + 1);
        for (uint64_t i = 0; i < count; i++)
            values[i] = (float)((double)made_below(1 << 20) / (1 << 18) - 2);
        assert_int_equal(tenmap_convert(dtype, t->data, t->bytes, TENMAP_F32, values, (size_t)count,
                                        TENMAP_CONVERT_SATURATE, NULL),
                         TENMAP_OK);
        free(values);
    }
    return t;
}

/* The file. Its tensors stay as they are, to compare with. */
static inline bytes made_file(const made_model *m) {
    static char json[MOST_MADE * 256];
    size_t used = 1, data = 0;
    json[0] = '{';
    for (size_t i = 0; i < m->count; i++) {
        const made_tensor *t = &m->tensors[i];
        used += (size_t)snprintf(json + used, sizeof json - used,
                                 "%s\"%s\":{\"dtype\":\"%s\",\"shape\":[", i ? "," : "", t->name,
                                 tenmap_dtype_name(t->dtype));
        for (uint32_t d = 0; d < t->rank; d++)
            used += (size_t)snprintf(json + used, sizeof json - used, "%s%llu", d ? "," : "",
                                     (unsigned long long)t->shape[d]);
        used += (size_t)snprintf(json + used, sizeof json - used, "],\"data_offsets\":[%zu,%zu]}",
                                 data, data + t->bytes);
        data += t->bytes;
    }
    used += (size_t)snprintf(json + used, sizeof json - used,
                             ",\"__metadata__\":{\"format\":\"pt\",\"made\":\"here\"}}");
    for (; used % 8; used++)
        json[used] = ' ';
    bytes file = {malloc(8 + used + data), 8 + used + data};
    assert_non_null(file.at);
    for (int i = 0; i < 8; i++)
        file.at[i] = (unsigned char)((uint64_t)used >> 8 * i);
    memcpy(file.at + 8, json, used);
    data = 8 + used;
    for (size_t i = 0; i < m->count; data += m->tensors[i++].bytes)
        if (m->tensors[i].bytes)
            memcpy(file.at + data, m->tensors[i].data, m->tensors[i].bytes);
    return file;
}

static inline void made_free(made_model *m) {
    for (size_t i = 0; i < m->count; i++)
        free(m->tensors[i].data);
    m->count = 0;
}

/* A derived model of one tensor; the test fails if that fails. */
static inline tenmap_model *must_derive(const tenmap_derived *d, size_t n) {
    tenmap_error error = {0};
    tenmap_model *model = NULL;
    tenmap_status status = tenmap_derive(d, n, NULL, &model, &error);
    if (status != TENMAP_OK)
        fail_msg("tenmap_derive: %s", error.message);
    assert_non_null(model);
    return model;
}

/* Reads a tensor whole; the test fails if that fails. Free with free(). */
static inline void *must_read(const tenmap_tensor *t, tenmap_dtype as) {
    uint64_t size;
    tenmap_error error = {0};
    assert_int_equal(tenmap_dtype_bytes(as ? as : t->dtype, t->nelems, &size), 1);
    void *out = malloc((size_t)size + 1);
    assert_non_null(out);
    if (tenmap_read(t, 0, t->nelems, as, out, (size_t)size, 0, &error) != TENMAP_OK)
        fail_msg("tenmap_read: %s", error.message);
    return out;
}

#endif
