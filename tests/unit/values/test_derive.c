/*
 * The elements of derived tensors are those that a plain loop over the terms gives: every op and
 * dtype, through every call that takes a tensor, from every kind of term. What fails below fails
 * here.
 */
#ifndef _DEFAULT_SOURCE
#define _DEFAULT_SOURCE 1
#endif
#include "convert_common.h"
#include "derive_models.h"
#include "gguf_files.h"
#include "io_files.h"

#include <math.h>
#include <pthread.h>

/* All dtypes of whole bytes, plain ones first; TENMAP_AS_STORED past the end. */
static tenmap_dtype whole_bytes(size_t i) {
    for (tenmap_dtype d = TENMAP_BOOL; tenmap_dtype_bits(d); d++)
        if (tenmap_dtype_bits(d) % 8 == 0 && i-- == 0)
            return d;
    return TENMAP_AS_STORED;
}

static bool is_float(tenmap_dtype d) {
    return tenmap_dtype_kind(d) == TENMAP_KIND_FLOAT;
}

/* One source model, opened in one of several ways. */
typedef struct opened {
    tenmap_model *model;
    io_files files;
    tenmap_io io;
} opened;

enum { MAPPED, READ, THROUGH_IO, IN_MEMORY, WAYS };

static void open_way(opened *o, const char *path, bytes file, int way) {
    tenmap_options options = TENMAP_OPTIONS_INIT;
    memset(&o->files, 0, sizeof o->files);
    o->io = io_files_io(&o->files);
    options.backend = way == READ ? TENMAP_BACKEND_READ : TENMAP_BACKEND_MAP;
    options.io = way == THROUGH_IO ? &o->io : NULL;
    o->model = way == IN_MEMORY ? must_open_memory(file, NULL) : must_open(path, &options);
}

/* The elements of a box of a stored matrix [8, 6], row by row, from (row, column) on. */
static void pick_box(const made_tensor *t, uint64_t row, uint64_t column, uint64_t rows,
                     uint64_t columns, bool transposed, unsigned char *out) {
    size_t width = tenmap_dtype_bits(t->dtype) / 8;
    uint64_t first = transposed ? columns : rows, second = transposed ? rows : columns;
    for (uint64_t i = 0; i < first; i++)
        for (uint64_t k = 0; k < second; k++, out += width) {
            uint64_t r = row + (transposed ? k : i), c = column + (transposed ? i : k);
            memcpy(out, t->data + (r * t->shape[1] + c) * width, width);
        }
}

/* Checks whole reads, single elements, slices, rows that lie apart, and the flags of loads. */
static void check_moved(const tenmap_tensor *t, const unsigned char *expected) {
    size_t width = tenmap_dtype_bits(t->dtype) / 8, size = (size_t)t->nbytes;
    unsigned char *got = malloc(size * 2 + 64);
    uint64_t row = t->rank ? t->shape[t->rank - 1] : 1, rows = t->nelems / row;
    assert_int_equal(size, t->nelems * width);
    assert_int_equal(tenmap_read(t, 0, t->nelems, 0, got, size, 0, NULL), TENMAP_OK);
    assert_memory_equal(got, expected, size);
    for (uint64_t i = 0; i < t->nelems; i += 5) {
        assert_int_equal(tenmap_read(t, i, 1, 0, got, width, 0, NULL), TENMAP_OK);
        assert_memory_equal(got, expected + i * width, width);
    }
    for (uint32_t flags = 0; flags < 4; flags++) {
        tenmap_load_options options = TENMAP_LOAD_OPTIONS_INIT;
        options.flags = flags;
        tenmap_request request = {
            .tensor = t, .dst = got, .dst_bytes = size * 2 + 64, .dst_stride = row * width + 3};
        assert_int_equal(tenmap_load(t->model, &request, 1, &options, NULL), TENMAP_OK);
        for (uint64_t i = 0; i < rows; i++)
            assert_memory_equal(got + i * (row * width + 3), expected + i * row * width,
                                row * width);
    }
    if (t->rank != 2) {
        free(got);
        return;
    }
    const uint64_t begin[2] = {1, 1}, end[2] = {t->shape[0], t->shape[1] - 1};
    assert_int_equal(tenmap_read_slice(t, begin, end, 0, got, size, 0, NULL), TENMAP_OK);
    for (uint64_t i = 1; i < t->shape[0]; i++)
        assert_memory_equal(got + (i - 1) * (row - 2) * width, expected + (i * row + 1) * width,
                            (row - 2) * width);
    free(got);
}

/* Cuts, joins, stacks and transposes a matrix of every dtype. */
static void check_moves_of(const tenmap_tensor *t, const made_tensor *made) {
    const uint64_t begin[2] = {2, 1}, end[2] = {7, 5};
    const uint32_t order[2] = {1, 0};
    const tenmap_term terms[3] = {
        {.tensor = t, .begin = begin, .end = end},
        {.tensor = t, .begin = begin, .end = end, .flags = TENMAP_TERM_TRANSPOSED},
        {.tensor = t}};
    const tenmap_term twice[2] = {terms[2], terms[2]}, cut[2] = {terms[0], terms[0]};
    const tenmap_derived d[6] = {
        {.name = "cut", .op = TENMAP_DERIVE_RENAME, .n = 1, .terms = &terms[0]},
        {.name = "turned", .op = TENMAP_DERIVE_RENAME, .n = 1, .terms = &terms[1]},
        {.name = "ordered", .op = TENMAP_DERIVE_RENAME, .n = 1, .terms = &terms[2], .order = order},
        {.name = "down", .op = TENMAP_DERIVE_CONCAT, .n = 2, .terms = cut},
        {.name = "along", .op = TENMAP_DERIVE_CONCAT, .axis = 1, .n = 2, .terms = twice},
        {.name = "stack", .op = TENMAP_DERIVE_STACK, .axis = 2, .n = 2, .terms = twice}};
    size_t width = tenmap_dtype_bits(made->dtype) / 8;
    unsigned char expected[128 * 8], box[64 * 8];
    tenmap_model *m = must_derive(d, COUNT(d));
    pick_box(made, 2, 1, 5, 4, false, expected);
    check_moved(tenmap_at(m, 0), expected);
    memcpy(expected + 20 * width, expected, 20 * width);
    check_moved(tenmap_at(m, 3), expected);
    pick_box(made, 2, 1, 5, 4, true, expected);
    check_moved(tenmap_at(m, 1), expected);
    pick_box(made, 0, 0, 8, 6, true, expected);
    check_moved(tenmap_at(m, 2), expected);
    pick_box(made, 0, 0, 8, 6, false, box);
    for (size_t i = 0; i < 8; i++) {
        memcpy(expected + 12 * i * width, box + 6 * i * width, 6 * width);
        memcpy(expected + (12 * i + 6) * width, box + 6 * i * width, 6 * width);
    }
    check_moved(tenmap_at(m, 4), expected);
    for (size_t i = 0; i < 96; i++)
        memcpy(expected + i * width, box + i / 2 * width, width);
    check_moved(tenmap_at(m, 5), expected);
    tenmap_close(m);
}

static void moves_keep_every_bit_of_every_dtype(void **state) {
    const char *path = in_folder(state, "m.safetensors");
    made_model made = {.count = 0};
    char name[16];
    for (size_t i = 0; whole_bytes(i); i++) {
        snprintf(name, sizeof name, "t%zu", i);
        made_add(&made, name, whole_bytes(i), 2, (uint64_t[]){8, 6}, false);
    }
    assert_true(made.count > 15);
    bytes file = made_file(&made);
    write_file(path, file.at, file.size);
    for (int way = 0; way < WAYS; way++) {
        opened o;
        open_way(&o, path, file, way);
        for (size_t i = 0; i < made.count; i++)
            check_moves_of(tenmap_find(o.model, made.tensors[i].name), &made.tensors[i]);
        tenmap_close(o.model);
    }
    free(file.at);
    made_free(&made);
}

/*
 * Axes in any order, blocks of one index, shapes whose rows cross those of the result, rows that
 * lie apart: each element is where its indexes say.
 */
static void axes_move_anywhere(void **state) {
    const char *path = in_folder(state, "m.safetensors");
    static const uint32_t orders[4][4] = {{3, 2, 1, 0}, {1, 3, 0, 2}, {2, 0, 3, 1}, {0, 2, 1, 3}};
    static const uint64_t begin[4] = {1, 0, 2, 3}, end[4] = {4, 6, 21, 4}, all[4] = {4, 6, 23, 5};
    static const uint64_t zero[4] = {0};
    made_model made = {.count = 0};
    made_add(&made, "x", TENMAP_U16, 4, all, false);
    made_add(&made, "y", TENMAP_F32, 4, all, true);
    bytes file = made_file(&made);
    write_file(path, file.at, file.size);
    for (int way = 0; way < WAYS; way++) {
        opened o;
        open_way(&o, path, file, way);
        for (size_t i = 0; i < 16; i++) {
            const made_tensor *from = &made.tensors[i % 2];
            const uint32_t *order = orders[i / 4];
            bool cut = i / 2 % 2;
            const uint64_t *first = cut ? begin : zero, *last = cut ? end : all;
            const tenmap_term term = {.tensor = tenmap_find(o.model, from->name),
                                      .begin = first,
                                      .end = last,
                                      .factor = 0};
            uint64_t shape[2] = {3, 1}, extent[4], width = tenmap_dtype_bits(from->dtype) / 8;
            for (size_t d = 0; d < 4; d++)
                shape[1] *= extent[d] = last[order[d]] - first[order[d]];
            shape[1] /= 3; /* the third part of the elements in each row */
            const tenmap_derived d = {.name = "d",
                                      .op = TENMAP_DERIVE_RENAME,
                                      .n = 1,
                                      .terms = &term,
                                      .order = order,
                                      .shape = shape,
                                      .rank = 2};
            tenmap_model *m = must_derive(&d, 1);
            const tenmap_tensor *t = tenmap_at(m, 0);
            unsigned char *expected = malloc((size_t)t->nbytes);
            for (uint64_t e = 0; e < t->nelems; e++) {
                uint64_t at[4], rest = e;
                for (size_t k = 4; k-- > 0; rest /= extent[k])
                    at[order[k]] = first[order[k]] + rest % extent[k];
                uint64_t number = ((at[0] * 6 + at[1]) * 23 + at[2]) * 5 + at[3];
                memcpy(expected + e * width, from->data + number * width, width);
            }
            check_moved(t, expected);
            free(expected);
            tenmap_close(m);
        }
        tenmap_close(o.model);
    }
    free(file.at);
    made_free(&made);
}

/* Values that are moved are rounded once, to elements of less than a byte too. */
static void moved_values_are_rounded_once(void **state) {
    (void)state;
    made_model made = {.count = 0};
    made_add(&made, "x", TENMAP_F32, 2, (uint64_t[]){9, 7}, true);
    bytes file = made_file(&made);
    tenmap_model *from = must_open_memory(file, NULL);
    const tenmap_term sum = {.tensor = tenmap_at(from, 0), .factor = 1.0 / 3};
    const uint32_t order[2] = {1, 0};
    tenmap_derived d = {.name = "d",
                        .op = TENMAP_DERIVE_SUM,
                        .n = 1,
                        .terms = &sum,
                        .dtype = TENMAP_BF16,
                        .order = order};
    tenmap_model *m = must_derive(&d, 1);
    const tenmap_term again = {.tensor = tenmap_at(m, 0), .flags = TENMAP_TERM_TRANSPOSED};
    d = (tenmap_derived){.name = "d", .op = TENMAP_DERIVE_RENAME, .n = 1, .terms = &again};
    tenmap_model *back = must_derive(&d, 1);
    double *values = must_read(tenmap_at(back, 0), TENMAP_F64);
    float *floats = must_read(tenmap_at(from, 0), TENMAP_F32);
    unsigned char *narrow = must_read(tenmap_at(back, 0), TENMAP_F6_E3M2), want[48];
    for (size_t i = 0; i < 63; i++)
        assert_true(values[i] == 1.0 / 3 * (double)floats[i]);
    assert_int_equal(
        tenmap_convert(TENMAP_F6_E3M2, want, sizeof want, TENMAP_F64, values, 63, 0, NULL), 0);
    assert_memory_equal(narrow, want, sizeof want);
    free(values);
    free(floats);
    free(narrow);
    tenmap_close(back);
    tenmap_close(m);
    tenmap_close(from);
    free(file.at);
    made_free(&made);
}

/* The value of an element, as F64. */
static double value_at(const made_tensor *t, uint64_t i) {
    uint64_t bits = tmi_scalar_load(&(tmi_elements){t->dtype, 0, true}, t->data, (size_t)i);
    uint64_t wide = tmi_scalar_one(TENMAP_F64, t->dtype, bits, 0);
    double value;
    memcpy(&value, &wide, sizeof value);
    return value;
}

/* Compares a read as `as` with values that are rounded once, by the oracle. */
static void check_values(const tenmap_tensor *t, const volatile double *values, tenmap_dtype as) {
    unsigned char *got = must_read(t, as);
    for (uint64_t i = 0; i < t->nelems; i++) {
        double value = values[i];
        uint64_t bits, want, found;
        memcpy(&bits, &value, sizeof bits);
        want = tmi_scalar_one(as, TENMAP_F64, bits, 0);
        found = tmi_scalar_load(&(tmi_elements){as, 0, !TMI_BIG_ENDIAN}, got, (size_t)i);
        if (want != found)
            fail_msg("element %llu as %s is %llx, not %llx", (unsigned long long)i,
                     tenmap_dtype_name(as), (unsigned long long)found, (unsigned long long)want);
    }
    free(got);
}

/* A matrix [8, 6] of every float, an F4 one among them, and B [8, 3], A [3, 6] of each. */
static void make_floats(made_model *made) {
    char name[16];
    for (tenmap_dtype d = TENMAP_BOOL; tenmap_dtype_bits(d); d++)
        if (is_float(d) && d != TENMAP_F8_E8M0) {
            snprintf(name, sizeof name, "w%u", (unsigned)d);
            made_add(made, name, d, 2, (uint64_t[]){8, 6}, true);
            snprintf(name, sizeof name, "b%u", (unsigned)d);
            made_add(made, name, d, 2, (uint64_t[]){8, 4}, true);
            snprintf(name, sizeof name, "a%u", (unsigned)d);
            made_add(made, name, d, 2, (uint64_t[]){4, 6}, true);
        }
}

static tenmap_dtype expected_dtype(tenmap_dtype first) {
    bool wide =
        first == TENMAP_F64 || first == TENMAP_F32 || first == TENMAP_F16 || first == TENMAP_BF16;
    return wide ? first : TENMAP_F32;
}

static void sums_and_products_round_once(void **state) {
    const char *path = in_folder(state, "m.safetensors");
    made_model made = {.count = 0};
    make_floats(&made);
    bytes file = made_file(&made);
    write_file(path, file.at, file.size);
    for (int way = 0; way < WAYS; way++) {
        opened o;
        open_way(&o, path, file, way);
        for (size_t i = 0; i < made.count; i += 3) {
            const made_tensor *w = &made.tensors[i], *b = w + 1, *a = w + 2;
            const made_tensor *other = &made.tensors[(i + 3) % made.count];
            const tenmap_term sum[2] = {
                {.tensor = tenmap_find(o.model, w->name), .factor = 1.0 / 3},
                {.tensor = tenmap_find(o.model, other->name), .factor = -0.7}};
            const tenmap_term low[3] = {
                {.tensor = sum[0].tensor, .factor = 0.9},
                {.tensor = tenmap_find(o.model, b->name), .factor = 1.0 / 7},
                {.tensor = tenmap_find(o.model, a->name)}};
            tenmap_derived d[2] = {
                {.name = "sum", .op = TENMAP_DERIVE_SUM, .n = 2, .terms = sum},
                {.name = "low", .op = TENMAP_DERIVE_LOW_RANK, .n = 3, .terms = low}};
            volatile double sums[48], lows[48]; /* volatile: never fused */
            for (uint64_t e = 0; e < 48; e++) {
                volatile double s = 0, part;
                sums[e] = 1.0 / 3 * value_at(w, e);
                part = -0.7 * value_at(other, e);
                sums[e] = sums[e] + part;
                for (uint64_t k = 0; k < 4; k++) {
                    part = value_at(b, e / 6 * 4 + k) * value_at(a, k * 6 + e % 6);
                    s = s + part;
                }
                lows[e] = 0.9 * value_at(w, e);
                part = 1.0 / 7 * s;
                lows[e] = lows[e] + part;
            }
            tenmap_model *m = must_derive(d, 2);
            assert_int_equal(tenmap_at(m, 0)->dtype, expected_dtype(w->dtype));
            for (tenmap_dtype as = TENMAP_BOOL; tenmap_dtype_bits(as); as++)
                if (is_float(as) && tenmap_dtype_bits(as) >= 8) {
                    check_values(tenmap_at(m, 0), sums, as);
                    check_values(tenmap_at(m, 1), lows, as);
                    d[0].dtype = d[1].dtype = as;
                    tenmap_model *typed = must_derive(d, 2);
                    assert_int_equal(tenmap_at(typed, 0)->dtype, as);
                    check_values(tenmap_at(typed, 1), lows, as);
                    tenmap_close(typed);
                }
            unsigned char packed[24], want[24];
            double rounded[48];
            for (size_t e = 0; e < 48; e++)
                rounded[e] = sums[e];
            assert_int_equal(tenmap_read(tenmap_at(m, 0), 0, 48, TENMAP_F4, packed, 24, 0, NULL),
                             0);
            assert_int_equal(tenmap_convert(TENMAP_F4, want, 24, TENMAP_F64, rounded, 48, 0, NULL),
                             0);
            assert_memory_equal(packed, want, 24);
            tenmap_close(m);
        }
        tenmap_close(o.model);
    }
    free(file.at);
    made_free(&made);
}

/* What a function of the caller was told. */
typedef struct called {
    atomic_int calls, wrong;
    uint64_t columns, rows, matrices;
    int fail_at; /* this call fails; 0: none */
    bool silent; /* without a message */
} called;

static tenmap_status difference(void *ctx, uint64_t matrix, uint64_t row, uint64_t column,
                                size_t count, const float *const *terms, float *out,
                                tenmap_error *error) {
    called *c = ctx;
    int number = atomic_fetch_add(&c->calls, 1) + 1;
    c->wrong += matrix >= c->matrices || row >= c->rows || column + count > c->columns || !error;
    if (number == c->fail_at && !c->silent) {
        error->status = TENMAP_ERR_IO;
        snprintf(error->message, sizeof error->message, "the thresholds are not there");
    }
    if (number == c->fail_at)
        return c->silent ? TENMAP_ERR_RANGE : TENMAP_ERR_CANCELLED;
    for (size_t i = 0; i < count; i++)
        out[i] = terms[0][i] - terms[1][i] + (float)(matrix * 100 + row * 10 + column + i);
    return TENMAP_OK;
}

static void callers_functions_see_positions_and_values(void **state) {
    (void)state;
    static const uint64_t shapes[4][3] = {{0}, {7}, {5, 7}, {3, 5, 7}};
    for (uint32_t rank = 0; rank < 4; rank++) {
        made_model made = {.count = 0};
        made_add(&made, "x", TENMAP_F64, rank, shapes[rank], true);
        made_add(&made, "y", TENMAP_BF16, rank, shapes[rank], true);
        bytes file = made_file(&made);
        tenmap_model *from = must_open_memory(file, NULL);
        called c = {
            .columns = rank ? 7 : 1, .rows = rank > 1 ? 5 : 1, .matrices = rank > 2 ? 3 : 1};
        const tenmap_term terms[2] = {{.tensor = tenmap_find(from, "x")},
                                      {.tensor = tenmap_find(from, "y")}};
        const uint32_t order[3] = {2, 0, 1};
        tenmap_derived d = {.name = "d",
                            .op = TENMAP_DERIVE_CALL,
                            .n = 2,
                            .terms = terms,
                            .dtype = TENMAP_F32,
                            .call = difference,
                            .ctx = &c};
        tenmap_model *m = must_derive(&d, 1);
        float *got = must_read(tenmap_at(m, 0), TENMAP_F32);
        for (uint64_t i = 0; i < tenmap_at(m, 0)->nelems; i++) {
            float x = (float)value_at(&made.tensors[0], i),
                  y = (float)value_at(&made.tensors[1], i);
            uint64_t row = i / c.columns;
            float where = (float)(row / c.rows * 100 + row % c.rows * 10 + i % c.columns);
            assert_true(got[i] == x - y + where);
        }
        assert_int_equal(c.wrong, 0);
        if (rank == 3) { /* positions are those before `order` */
            d.order = order;
            tenmap_model *turned = must_derive(&d, 1);
            float *moved = must_read(tenmap_at(turned, 0), TENMAP_F32);
            for (size_t i = 0; i < 7; i++)
                for (size_t k = 0; k < 15; k++)
                    assert_true(moved[i * 15 + k] == got[k * 7 + i]);
            assert_ptr_equal(tenmap_part_at(tenmap_at(turned, 0), 1), terms[1].tensor);
            assert_int_equal(tenmap_scheme_of(tenmap_at(turned, 0))->part_count, 2);
            assert_int_equal(c.wrong, 0);
            free(moved);
            tenmap_close(turned);
        }
        tenmap_error error = {0};
        c.fail_at = ++c.calls;
        c.calls--;
        check_refused(tenmap_read(tenmap_at(m, 0), 0, 1, 0, got, 4, 0, &error), &error,
                      TENMAP_ERR_CANCELLED, "the thresholds are not there");
        c.fail_at = c.calls + 1, c.silent = true;
        check_refused(tenmap_read(tenmap_at(m, 0), 0, 1, 0, got, 4, 0, &error), &error,
                      TENMAP_ERR_RANGE,
                      "tensor \"d\": the function that computes it (call) failed");
        c.fail_at = c.calls + 1;
        assert_int_equal(tenmap_read(tenmap_at(m, 0), 0, 1, 0, got, 4, 0, NULL), TENMAP_ERR_RANGE);
        free(got);
        tenmap_close(m);
        tenmap_close(from);
        free(file.at);
        made_free(&made);
    }
}

/* A LoRA on a matrix that is wider than all buffers, whole, in pieces, and on every CPU path. */
static void products_do_not_depend_on_the_box(void **state) {
    (void)state;
    enum { ROWS = 37, COLUMNS = 9001, INNER = 5, ALL = ROWS * COLUMNS };
    made_model made = {.count = 0};
    made_add(&made, "w", TENMAP_BF16, 2, (uint64_t[]){ROWS, COLUMNS}, true);
    made_add(&made, "b", TENMAP_F32, 2, (uint64_t[]){ROWS, INNER}, true);
    made_add(&made, "a", TENMAP_F64, 2, (uint64_t[]){INNER, COLUMNS}, true);
    made_add(&made, "at", TENMAP_F16, 2, (uint64_t[]){COLUMNS, 1}, true);
    made_add(&made, "bt", TENMAP_F16, 2, (uint64_t[]){1, ROWS}, true);
    bytes file = made_file(&made);
    tenmap_model *from = must_open_memory(file, NULL);
    const tenmap_term terms[5] = {
        {.tensor = tenmap_find(from, "w"), .factor = 1},
        {.tensor = tenmap_find(from, "b"), .factor = 0.1},
        {.tensor = tenmap_find(from, "a")},
        {.tensor = tenmap_find(from, "bt"), .factor = -2.5, .flags = TENMAP_TERM_TRANSPOSED},
        {.tensor = tenmap_find(from, "at"), .flags = TENMAP_TERM_TRANSPOSED}};
    const tenmap_derived d = {.name = "d", .op = TENMAP_DERIVE_LOW_RANK, .n = 5, .terms = terms};
    tenmap_model *m = must_derive(&d, 1);
    const tenmap_tensor *t = tenmap_at(m, 0);
    double *expected = malloc(ALL * sizeof(double));
    for (uint64_t e = 0; e < ALL; e++) {
        volatile double s = 0, sum = value_at(&made.tensors[0], e), part;
        for (uint64_t k = 0; k < INNER; k++) {
            part = value_at(&made.tensors[1], e / COLUMNS * INNER + k) *
                   value_at(&made.tensors[2], k * COLUMNS + e % COLUMNS);
            s = s + part;
        }
        part = 0.1 * s;
        sum = sum + part;
        part = value_at(&made.tensors[4], e / COLUMNS) * value_at(&made.tensors[3], e % COLUMNS);
        s = 0 + part;
        part = -2.5 * s;
        expected[e] = sum + part;
    }
    FOR_EACH_ISA(name) {
        double *got = must_read(t, TENMAP_F64);
        if (memcmp(got, expected, ALL * sizeof(double)) != 0)
            fail_msg("other values with %s", name);
        free(got);
        for (int i = 0; i < 40; i++) { /* pieces at random places */
            double some[3000];
            uint64_t count = 1 + made_below(3000), first = made_below(ALL - count);
            assert_int_equal(tenmap_read(t, first, count, TENMAP_F64, some, sizeof some, 0, NULL),
                             TENMAP_OK);
            assert_memory_equal(some, expected + first, count * sizeof(double));
            const uint64_t begin[2] = {made_below(ROWS - 2), made_below(COLUMNS - 90)};
            const uint64_t end[2] = {begin[0] + 1 + made_below(2), begin[1] + 1 + made_below(90)};
            assert_int_equal(
                tenmap_read_slice(t, begin, end, TENMAP_F64, some, sizeof some, 0, NULL), 0);
            for (uint64_t r = begin[0]; r < end[0]; r++)
                assert_memory_equal(some + (r - begin[0]) * (end[1] - begin[1]),
                                    expected + r * COLUMNS + begin[1],
                                    (end[1] - begin[1]) * sizeof(double));
        }
    }
    free(expected);
    tenmap_close(m);
    tenmap_close(from);
    free(file.at);
    made_free(&made);
}

/* Kernels at every length: the same bits, and not a value more. */
static void kernels_of_all_paths_agree(void **state) {
    (void)state;
    double a[9 * 40], b[9 * 7], want[9 * 40 + 1], got[9 * 40 + 1];
    for (size_t i = 0; i < COUNT(a); i++)
        a[i] = (double)made_below(1u << 31) / 3 - 3e8;
    for (size_t i = 0; i < COUNT(b); i++)
        b[i] = 1.0 / (double)(1 + made_below(1000));
    for (size_t rows = 0; rows <= 9; rows++)
        for (size_t columns = 0; columns <= 33; columns++)
            for (size_t inner = 0; inner <= 7; inner += 7 - rows % 3) {
                tmi_product p = {b, a, 40, rows, columns, inner};
                memset(want, 0x55, sizeof want);
                tmi_scalar_product(want, &p);
                tmi_scalar_add_scaled(want, a, rows * columns, 0.3);
                FOR_EACH_ISA(name) {
                    memset(got, 0x55, sizeof got);
                    tmi_cpu_kernels()->product(got, &p);
                    tmi_cpu_kernels()->add_scaled(got, a, rows * columns, 0.3);
                    if (memcmp(got, want, sizeof want) != 0)
                        fail_msg("%s: %zu x %zu x %zu", name, rows, inner, columns);
                }
            }
}

/* More than two axes count as the first by all others, as LoRAs of convolutions have them. */
static void more_axes_count_as_a_matrix(void **state) {
    (void)state;
    made_model made = {.count = 0};
    made_add(&made, "w", TENMAP_F32, 4, (uint64_t[]){6, 5, 3, 2}, true);
    made_add(&made, "b", TENMAP_F32, 4, (uint64_t[]){6, 2, 1, 1}, true);
    made_add(&made, "a", TENMAP_F32, 4, (uint64_t[]){2, 5, 3, 2}, true);
    bytes file = made_file(&made);
    tenmap_model *from = must_open_memory(file, NULL);
    tenmap_term terms[3] = {{.tensor = tenmap_find(from, "w"), .factor = 1},
                            {.tensor = tenmap_find(from, "b"), .factor = 1},
                            {.tensor = tenmap_find(from, "a")}};
    const uint64_t back[4] = {5, 3, 2, 6};
    tenmap_derived d = {.name = "d", .op = TENMAP_DERIVE_LOW_RANK, .n = 3, .terms = terms};
    tenmap_model *m = must_derive(&d, 1);
    double sums[180];
    assert_int_equal(tenmap_at(m, 0)->rank, 4);
    for (uint64_t e = 0; e < 180; e++)
        sums[e] =
            value_at(&made.tensors[0], e) +
            (0 + value_at(&made.tensors[1], e / 30 * 2) * value_at(&made.tensors[2], e % 30) +
             value_at(&made.tensors[1], e / 30 * 2 + 1) * value_at(&made.tensors[2], 30 + e % 30));
    check_values(tenmap_at(m, 0), sums, TENMAP_F32);
    tenmap_close(m);
    /* The same transposed: A^T @ B^T added to the transposed matrix. */
    tenmap_term turned[3] = {terms[0], terms[2], terms[1]};
    for (size_t i = 0; i < 3; i++)
        turned[i].flags = TENMAP_TERM_TRANSPOSED;
    turned[1].factor = 1, turned[2].factor = 0;
    d.terms = turned;
    m = must_derive(&d, 1);
    assert_memory_equal(tenmap_at(m, 0)->shape, back, sizeof back);
    double other[180];
    for (size_t e = 0; e < 180; e++)
        other[e % 30 * 6 + e / 30] = sums[e];
    check_values(tenmap_at(m, 0), other, TENMAP_F32);
    tenmap_close(m);
    /* Without a base the result is B's rows by A's columns. */
    terms[0] = (tenmap_term){.tensor = NULL};
    d.terms = terms;
    m = must_derive(&d, 1);
    assert_int_equal(tenmap_at(m, 0)->rank, 2);
    assert_int_equal(tenmap_at(m, 0)->shape[1], 30);
    assert_int_equal(tenmap_at(m, 0)->dtype, TENMAP_F32);
    for (uint64_t e = 0; e < 180; e++)
        sums[e] =
            0 + value_at(&made.tensors[1], e / 30 * 2) * value_at(&made.tensors[2], e % 30) +
            value_at(&made.tensors[1], e / 30 * 2 + 1) * value_at(&made.tensors[2], 30 + e % 30);
    check_values(tenmap_at(m, 0), sums, TENMAP_F64);
    tenmap_close(m);
    tenmap_close(from);
    free(file.at);
    made_free(&made);
}

static void not_a_number_has_one_form(void **state) {
    (void)state;
    made_model made = {.count = 0};
    made_tensor *x = made_add(&made, "x", TENMAP_F32, 1, (uint64_t[]){4}, true);
    const uint32_t bits[4] = {0x7fc12345, 0xff800001, 0x7f800000, 0xff800000};
    memcpy(x->data, bits, sizeof bits);
    bytes file = made_file(&made);
    tenmap_model *from = must_open_memory(file, NULL);
    const tenmap_term terms[2] = {{.tensor = tenmap_at(from, 0), .factor = 1},
                                  {.tensor = tenmap_at(from, 0), .factor = -1}};
    const tenmap_derived d = {.name = "d", .op = TENMAP_DERIVE_SUM, .n = 2, .terms = terms};
    tenmap_model *m = must_derive(&d, 1);
    uint64_t *got = must_read(tenmap_at(m, 0), TENMAP_F64);
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(got[i], UINT64_C(0x7ff8000000000000));
    free(got);
    tenmap_close(m);
    tenmap_close(from);
    free(file.at);
    made_free(&made);
}

/* Integers that do not fit are found in order, wherever they come from. */
static void integers_that_do_not_fit_are_named(void **state) {
    (void)state;
    made_model made = {.count = 0};
    made_tensor *x = made_add(&made, "x", TENMAP_I32, 2, (uint64_t[]){100, 300}, false);
    int32_t values[30000];
    for (int i = 0; i < 30000; i++)
        values[i] = i % 100;
    values[50 * 300 + 7] = 1000;
    values[20 * 300 + 9] = 2000;
    memcpy(x->data, values, sizeof values);
    bytes file = made_file(&made);
    tenmap_model *from = must_open_memory(file, NULL);
    const tenmap_term term = {.tensor = tenmap_at(from, 0), .flags = TENMAP_TERM_TRANSPOSED};
    const tenmap_derived d = {.name = "d", .op = TENMAP_DERIVE_RENAME, .n = 1, .terms = &term};
    tenmap_model *m = must_derive(&d, 1);
    int8_t *got = malloc(30000);
    tenmap_error error = {0};
    check_refused(tenmap_read(tenmap_at(m, 0), 0, 30000, TENMAP_I8, got, 30000, 0, &error), &error,
                  TENMAP_ERR_RANGE, "tensor \"d\"");
    assert_int_equal(error.index, 7 * 100 + 50);
    tenmap_request r = {.tensor = tenmap_at(m, 0), .as = TENMAP_I8, .dst = got, .dst_bytes = 30000};
    check_refused(tenmap_load(m, &r, 1, NULL, &error), &error, TENMAP_ERR_RANGE, "1000");
    r.flags = TENMAP_CONVERT_SATURATE;
    assert_int_equal(tenmap_load(m, &r, 1, NULL, NULL), TENMAP_OK);
    assert_int_equal(got[750], 127);
    assert_int_equal(got[751], values[51 * 300 + 7]);
    int64_t *wide = must_read(tenmap_at(m, 0), TENMAP_I64);
    assert_int_equal(wide[750], 1000);
    free(wide);
    free(got);
    tenmap_close(m);
    tenmap_close(from);
    free(file.at);
    made_free(&made);
}

/* Q8_0: a scale, then 32 numbers. */
enum { BLOCK_ROWS = 6, BLOCK_COLUMNS = 96 };

static bytes blocks_file(float values[BLOCK_ROWS * BLOCK_COLUMNS]) {
    gguf_file f;
    gguf_begin(&f, 1, 0);
    gguf_text(&f, "q");
    gguf_number(&f, 2, 4);
    gguf_number(&f, BLOCK_COLUMNS, 8);
    gguf_number(&f, BLOCK_ROWS, 8);
    gguf_number(&f, 8, 4); /* GGML_TYPE_Q8_0 */
    gguf_number(&f, 0, 8);
    while (f.out.size % 32)
        gguf_number(&f, 0, 1);
    for (size_t block = 0; block < BLOCK_ROWS * BLOCK_COLUMNS / 32; block++) {
        gguf_number(&f, 0x3800 + block, 2); /* F16: 0.5 and a little */
        for (size_t i = 0; i < 32; i++) {
            int8_t code = (int8_t)made_below(256);
            gguf_number(&f, (uint8_t)code, 1);
            values[block * 32 + i] = (float)code * (0.5f + (float)block / 2048);
        }
    }
    while (f.out.size % 32)
        gguf_number(&f, 0, 1);
    return f.out;
}

static void blocks_are_moved_whole_and_computed_with(void **state) {
    (void)state;
    float values[BLOCK_ROWS * BLOCK_COLUMNS];
    bytes file = blocks_file(values);
    tenmap_model *from = must_open_memory(file, NULL);
    const tenmap_tensor *q = tenmap_at(from, 0);
    assert_int_equal(q->dtype, TENMAP_Q8_0);
    const uint64_t begin[2] = {1, 32}, end[2] = {5, 96}, odd[2] = {1, 16};
    const uint64_t square[2] = {12, 48}, flat[1] = {576};
    tenmap_term terms[3] = {{.tensor = q, .begin = begin, .end = end},
                            {.tensor = q, .begin = begin, .end = end},
                            {.tensor = q, .begin = begin, .end = end}};
    tenmap_derived d[2] = {
        {.name = "bad", .op = TENMAP_DERIVE_CONCAT, .axis = 1, .n = 2, .terms = terms},
        {.name = "stack", .op = TENMAP_DERIVE_STACK, .n = 3, .terms = terms}};
    tenmap_model *m = must_derive(d, 2), *none = NULL;
    tenmap_error error = {0};
    const tenmap_tensor *t = tenmap_at(m, 0);
    assert_int_equal(t->dtype, TENMAP_Q8_0);
    assert_int_equal(t->nbytes, 4 * 4 * 34);
    unsigned char *raw = must_read(t, 0);
    for (size_t r = 0; r < 4; r++)
        for (size_t k = 0; k < 2; k++)
            assert_memory_equal(raw + (r * 4 + k * 2) * 34,
                                (const unsigned char *)q->data + ((r + 1) * 3 + 1) * 34, 68);
    free(raw);
    float *got = must_read(t, TENMAP_F32);
    for (size_t i = 0; i < 4 * 128; i++)
        assert_true(got[i] == values[(1 + i / 128) * 96 + 32 + i % 64]);
    free(got);
    uint8_t digest[16];
    assert_int_equal(tenmap_fingerprint_tensors(&t, 1, NULL, digest, &error), TENMAP_OK);
    tenmap_close(m);
    d[0].axis = 0;
    terms[0].begin = terms[1].begin = odd;
    assert_int_equal(tenmap_derive(d, 1, NULL, &none, &error), TENMAP_ERR_UNSUPPORTED);
    assert_non_null(strstr(error.message, "blocks of Q8_0 have 32 elements"));
    d[0] = (tenmap_derived){.name = "bad", .op = TENMAP_DERIVE_RENAME, .n = 1, .terms = terms};
    terms[0] = (tenmap_term){.tensor = q, .flags = TENMAP_TERM_TRANSPOSED};
    assert_int_equal(tenmap_derive(d, 1, NULL, &none, &error), TENMAP_ERR_UNSUPPORTED);
    terms[0].flags = 0, d[0].shape = square, d[0].rank = 2;
    assert_int_equal(tenmap_derive(d, 1, NULL, &none, &error), TENMAP_ERR_UNSUPPORTED);
    d[0].shape = flat, d[0].rank = 1; /* whole blocks: a view */
    m = must_derive(d, 1);
    assert_ptr_equal(tenmap_at(m, 0)->data, q->data);
    tenmap_close(m);
    /* As numbers they may be cut anywhere. */
    const tenmap_term sum[2] = {
        {.tensor = q, .begin = odd, .end = end, .flags = TENMAP_TERM_TRANSPOSED, .factor = 2},
        {.tensor = q, .begin = odd, .end = end, .flags = TENMAP_TERM_TRANSPOSED, .factor = 1}};
    d[0] = (tenmap_derived){.name = "sum", .op = TENMAP_DERIVE_SUM, .n = 2, .terms = sum};
    m = must_derive(d, 1);
    assert_int_equal(tenmap_at(m, 0)->dtype, TENMAP_F32);
    got = must_read(tenmap_at(m, 0), TENMAP_F32);
    for (size_t i = 0; i < 80 * 4; i++)
        assert_true(got[i] == (float)(3.0 * (double)values[(1 + i % 4) * 96 + 16 + i / 4]));
    free(got);
    tenmap_close(m);
    tenmap_close(from);
    free(file.at);
}

/* FP8 codes with one scale for each row. */
static void quantized_weights_are_terms_as_their_values(void **state) {
    const char *path = in_folder(state, "q.safetensors");
    made_model made = {.count = 0};
    made_add(&made, "w.weight", TENMAP_F8_E4M3, 2, (uint64_t[]){16, 8}, true);
    made_add(&made, "w.weight_scale", TENMAP_F32, 2, (uint64_t[]){16, 1}, true);
    bytes file = made_file(&made);
    write_file(path, file.at, file.size);
    for (uint32_t backend = 0; backend < 2; backend++) {
        tenmap_options options = TENMAP_OPTIONS_INIT;
        options.flags = TENMAP_OPEN_DEQUANTIZE;
        options.backend = backend;
        tenmap_model *from = must_open(path, &options);
        const tenmap_tensor *w = tenmap_find(from, "w.weight");
        assert_int_equal(w->flags, TENMAP_TENSOR_COMPUTED);
        const uint64_t begin[2] = {1, 2}, end[2] = {9, 6};
        const tenmap_term whole = {.tensor = w}, cut = {.tensor = w, .begin = begin, .end = end};
        const tenmap_term sum[2] = {{.tensor = w, .factor = 0.3}, {.tensor = w, .factor = 0.3}};
        const tenmap_derived d[3] = {
            {.name = "renamed", .op = TENMAP_DERIVE_RENAME, .n = 1, .terms = &whole},
            {.name = "cut", .op = TENMAP_DERIVE_RENAME, .n = 1, .terms = &cut},
            {.name = "sum", .op = TENMAP_DERIVE_SUM, .n = 2, .terms = sum}};
        tenmap_model *m = must_derive(d, 3);
        float *values = must_read(w, TENMAP_F32), *same = must_read(tenmap_at(m, 0), TENMAP_F32);
        float *some = must_read(tenmap_at(m, 1), TENMAP_F32);
        double *sums = must_read(tenmap_at(m, 2), TENMAP_F64);
        assert_memory_equal(values, same, 128 * sizeof *values);
        assert_string_equal(tenmap_scheme_of(tenmap_at(m, 0))->name, tenmap_scheme_of(w)->name);
        assert_ptr_equal(tenmap_part_at(tenmap_at(m, 0), 0), tenmap_part_at(w, 0));
        assert_non_null(tenmap_packing_of(tenmap_at(m, 0)));
        assert_string_equal(tenmap_scheme_of(tenmap_at(m, 1))->name, "derived");
        for (size_t i = 0; i < 32; i++) /* not rounded to the weight's BF16 on the way */
            assert_true(some[i] == values[(1 + i / 4) * 8 + 2 + i % 4]);
        for (size_t i = 0; i < 128; i++) {
            volatile double half = 0.3 * (double)values[i];
            assert_true(sums[i] == half + half);
        }
        assert_int_equal(tenmap_at(m, 2)->dtype, w->dtype);
        free(values);
        free(same);
        free(some);
        free(sums);
        tenmap_close(m);
        tenmap_close(from);
    }
    free(file.at);
    made_free(&made);
}

/* Measures, takes, copies and fingerprints are those of a file that holds the same elements. */
static void every_call_gives_what_a_file_would(void **state) {
    char *path = strdup(in_folder(state, "m.safetensors"));
    char *copy = strdup(in_folder(state, "copy.safetensors"));
    made_model made = {.count = 0};
    made_add(&made, "w", TENMAP_BF16, 2, (uint64_t[]){300, 500}, true);
    made_add(&made, "x", TENMAP_BF16, 2, (uint64_t[]){300, 500}, true);
    made_add(&made, "c", TENMAP_C64, 2, (uint64_t[]){30, 20}, false);
    bytes file = made_file(&made);
    write_file(path, file.at, file.size);
    tenmap_model *from = must_open(path, NULL);
    const uint64_t begin[2] = {3, 5}, end[2] = {290, 499};
    const tenmap_tensor *w = tenmap_find(from, "w"), *x = tenmap_find(from, "x");
    const tenmap_term turned = {.tensor = w, .flags = TENMAP_TERM_TRANSPOSED};
    const tenmap_term cut = {.tensor = tenmap_find(from, "c"), .flags = TENMAP_TERM_TRANSPOSED};
    const tenmap_term sum[2] = {{.tensor = w, .factor = 1e38, .begin = begin, .end = end},
                                {.tensor = x, .factor = 1e39, .begin = begin, .end = end}};
    const tenmap_derived d[3] = {
        {.name = "turned", .op = TENMAP_DERIVE_RENAME, .n = 1, .terms = &turned},
        {.name = "c", .op = TENMAP_DERIVE_RENAME, .n = 1, .terms = &cut},
        {.name = "sum", .op = TENMAP_DERIVE_SUM, .n = 2, .terms = sum}};
    tenmap_model *m = must_derive(d, 3);
    tenmap_error error = {0};
    tenmap_writer *writer = NULL;
    assert_int_equal(tenmap_writer_create(copy, NULL, &writer, &error), TENMAP_OK);
    size_t ids[3];
    for (size_t i = 0; i < 3; i++) {
        const tenmap_tensor *t = tenmap_at(m, i);
        assert_int_equal(tenmap_writer_add(writer, t->name, TENMAP_CSTR, t->dtype, t->shape,
                                           t->rank, &ids[i], &error),
                         TENMAP_OK);
    }
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(tenmap_writer_copy(writer, ids[i], tenmap_at(m, i), 0, &error), TENMAP_OK);
    assert_int_equal(tenmap_writer_commit(writer, &error), TENMAP_OK);
    tenmap_model *stored = must_open(copy, NULL);
    uint8_t a[32], b[32];
    const tenmap_tensor *pair[3], *same[3];
    for (size_t i = 0; i < 3; i++) {
        pair[i] = tenmap_at(m, i);
        same[i] = tenmap_find(stored, pair[i]->name);
        void *one = must_read(pair[i], 0), *two = must_read(same[i], 0);
        assert_memory_equal(one, two, (size_t)pair[i]->nbytes);
        free(one);
        free(two);
    }
    uint8_t prints[2][3 * 16];
    assert_int_equal(tenmap_fingerprint_tensors(pair, 3, NULL, prints[0], &error), TENMAP_OK);
    assert_int_equal(tenmap_fingerprint_tensors(same, 3, NULL, prints[1], &error), TENMAP_OK);
    assert_memory_equal(prints[0], prints[1], sizeof prints[0]);
    assert_int_equal(tenmap_fingerprint(m, TENMAP_FINGERPRINT_VALUES, a, &error), TENMAP_OK);
    assert_int_equal(tenmap_fingerprint(m, TENMAP_FINGERPRINT_VALUES, b, &error), TENMAP_OK);
    assert_memory_equal(a, b, 32);
    tenmap_stats stats[2][3];
    memset(stats, 0, sizeof stats);
    assert_int_equal(tenmap_measure(pair, 3, NULL, stats[0], &error), TENMAP_OK);
    assert_int_equal(tenmap_measure(same, 3, NULL, stats[1], &error), TENMAP_OK);
    assert_memory_equal(stats[0], stats[1], sizeof stats[0]);
    tenmap_want wants[2] = {{.name = "turned"}, {.name = "sum", .as = TENMAP_F32}};
    tenmap_arena *arena = NULL;
    assert_int_equal(tenmap_take(m, wants, 2, NULL, &arena, &error), TENMAP_OK);
    void *one = must_read(pair[0], 0), *two = must_read(pair[2], TENMAP_F32);
    assert_memory_equal(wants[0].data, one, (size_t)pair[0]->nbytes);
    assert_memory_equal(wants[1].data, two, (size_t)pair[2]->nelems * 4);
    free(one);
    free(two);
    tenmap_arena_free(arena);
    tenmap_close(stored);
    tenmap_close(m);
    tenmap_close(from);
    free(file.at);
    free(path);
    free(copy);
    made_free(&made);
}

/* A source file that changes, shrinks or cannot be read is an error of every call. */
static void sources_that_fail_fail_here(void **state) {
    char *path = strdup(in_folder(state, "m.safetensors"));
    made_model made = {.count = 0};
    made_add(&made, "w", TENMAP_F32, 2, (uint64_t[]){64, 64}, true);
    made_add(&made, "b", TENMAP_F32, 2, (uint64_t[]){64, 64}, true);
    bytes file = made_file(&made);
    write_file(path, file.at, file.size);
    opened o;
    open_way(&o, path, file, THROUGH_IO);
    const tenmap_tensor *w = tenmap_find(o.model, "w"), *b = tenmap_find(o.model, "b");
    const tenmap_term sum[2] = {{.tensor = w, .factor = 1},
                                {.tensor = b, .factor = 1, .flags = TENMAP_TERM_TRANSPOSED}};
    const tenmap_term low[3] = {
        {.tensor = w, .factor = 1}, {.tensor = b, .factor = 1}, {.tensor = w}};
    const tenmap_term move[2] = {{.tensor = w}, {.tensor = b}};
    const tenmap_derived d[4] = {
        {.name = "sum", .op = TENMAP_DERIVE_SUM, .n = 2, .terms = sum},
        {.name = "low", .op = TENMAP_DERIVE_LOW_RANK, .n = 3, .terms = low},
        {.name = "move", .op = TENMAP_DERIVE_CONCAT, .axis = 1, .n = 2, .terms = move},
        {.name = "turned", .op = TENMAP_DERIVE_RENAME, .n = 1, .terms = &sum[1]}};
    tenmap_derived all[4];
    memcpy(all, d, sizeof d);
    tenmap_term plain = sum[1];
    plain.factor = 0;
    all[3].terms = &plain;
    tenmap_model *m = must_derive(all, 4);
    float *got = malloc(64 * 128 * 4);
    o.files.fail_with = TENMAP_ERR_IO;
    o.files.message = "the network is down";
    for (size_t i = 0; i < 4; i++) {
        tenmap_error error = {0};
        long n = 0;
        tenmap_status status;
        do { /* each call in turn */
            o.files.fail_at = o.files.calls + ++n;
            status = tenmap_read(tenmap_at(m, i), 0, tenmap_at(m, i)->nelems, 0, got, 64 * 128 * 4,
                                 0, &error);
            if (status != TENMAP_OK)
                check_refused(status, &error, TENMAP_ERR_IO, "the network is down");
        } while (status != TENMAP_OK && n < 1000);
        assert_true(n > 1 && n < 1000);
    }
    tenmap_close(m);
    tenmap_close(o.model);
    open_way(&o, path, file, READ);
    plain.tensor = tenmap_find(o.model, "b");
    tenmap_term two[2] = {{.tensor = tenmap_find(o.model, "w"), .factor = 1},
                          {.tensor = plain.tensor, .factor = 2}};
    all[0].terms = two;
    m = must_derive(all, 1);
    modify_data(path);
    tenmap_error error = {0};
    check_refused(tenmap_read(tenmap_at(m, 0), 0, 4096, 0, got, 4096 * 4, 0, &error), &error,
                  TENMAP_ERR_IO, "m.safetensors");
    char *copy = strdup(in_folder(state, "copy.safetensors"));
    tenmap_writer *writer = NULL;
    size_t id;
    assert_int_equal(tenmap_writer_create(copy, NULL, &writer, &error), TENMAP_OK);
    assert_int_equal(tenmap_writer_add(writer, "t", TENMAP_CSTR, TENMAP_F32,
                                       &tenmap_at(m, 0)->nelems, 1, &id, &error),
                     TENMAP_OK);
    assert_int_equal(tenmap_writer_copy(writer, id, tenmap_at(m, 0), 0, &error), TENMAP_ERR_IO);
    tenmap_writer_abort(writer);
    must_fail(copy, NULL, TENMAP_ERR_NOT_FOUND, "");
    tenmap_close(m);
    tenmap_close(o.model);
    free(got);
    free(copy);
    free(file.at);
    free(path);
    made_free(&made);
}

/* Many threads use the same tensors at once. */
typedef struct reading_thread {
    const tenmap_model *model;
    unsigned char *expected[4];
    int wrong;
} reading_thread;

static void *read_again(void *ctx) {
    reading_thread *r = ctx;
    for (int round = 0; round < 6; round++)
        for (size_t i = 0; i < tenmap_count(r->model); i++) {
            const tenmap_tensor *t = tenmap_at(r->model, i);
            unsigned char *got = malloc((size_t)t->nbytes);
            r->wrong +=
                tenmap_read(t, 0, t->nelems, 0, got, (size_t)t->nbytes, 0, NULL) != TENMAP_OK ||
                memcmp(got, r->expected[i], (size_t)t->nbytes) != 0;
            free(got);
        }
    return NULL;
}

static void threads_get_the_same_values(void **state) {
    const char *path = in_folder(state, "m.safetensors");
    made_model made = {.count = 0};
    made_add(&made, "w", TENMAP_BF16, 2, (uint64_t[]){120, 200}, true);
    made_add(&made, "b", TENMAP_F32, 2, (uint64_t[]){120, 8}, true);
    made_add(&made, "a", TENMAP_F32, 2, (uint64_t[]){8, 200}, true);
    bytes file = made_file(&made);
    write_file(path, file.at, file.size);
    for (int way = 0; way < 2; way++) {
        opened o;
        open_way(&o, path, file, way);
        called c = {.columns = 200, .rows = 120, .matrices = 1};
        const tenmap_term low[3] = {{.tensor = tenmap_find(o.model, "w"), .factor = 1},
                                    {.tensor = tenmap_find(o.model, "b"), .factor = 1},
                                    {.tensor = tenmap_find(o.model, "a")}};
        const tenmap_term turned = {.tensor = low[0].tensor, .flags = TENMAP_TERM_TRANSPOSED};
        const tenmap_term two[2] = {{.tensor = low[0].tensor}, {.tensor = low[0].tensor}};
        const tenmap_derived d[4] = {
            {.name = "low", .op = TENMAP_DERIVE_LOW_RANK, .n = 3, .terms = low},
            {.name = "turned", .op = TENMAP_DERIVE_RENAME, .n = 1, .terms = &turned},
            {.name = "call",
             .op = TENMAP_DERIVE_CALL,
             .n = 2,
             .terms = two,
             .call = difference,
             .ctx = &c},
            {.name = "stack", .op = TENMAP_DERIVE_STACK, .axis = 2, .n = 2, .terms = two}};
        tenmap_model *m = must_derive(d, 4);
        reading_thread threads[4];
        pthread_t ids[4];
        for (size_t i = 0; i < 4; i++) {
            threads[i] = (reading_thread){.model = m};
            for (size_t k = 0; k < 4; k++)
                threads[i].expected[k] = i ? threads[0].expected[k] : must_read(tenmap_at(m, k), 0);
        }
        for (size_t i = 0; i < 4; i++)
            assert_int_equal(pthread_create(&ids[i], NULL, read_again, &threads[i]), 0);
        for (size_t i = 0; i < 4; i++) {
            assert_int_equal(pthread_join(ids[i], NULL), 0);
            assert_int_equal(threads[i].wrong, 0);
        }
        assert_int_equal(c.wrong, 0);
        for (size_t k = 0; k < 4; k++)
            free(threads[0].expected[k]);
        tenmap_close(m);
        tenmap_close(o.model);
    }
    free(file.at);
    made_free(&made);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(moves_keep_every_bit_of_every_dtype, empty_folder),
        cmocka_unit_test_setup(axes_move_anywhere, empty_folder),
        cmocka_unit_test(moved_values_are_rounded_once),
        cmocka_unit_test_setup(sums_and_products_round_once, empty_folder),
        cmocka_unit_test(callers_functions_see_positions_and_values),
        cmocka_unit_test(products_do_not_depend_on_the_box),
        cmocka_unit_test(kernels_of_all_paths_agree),
        cmocka_unit_test(more_axes_count_as_a_matrix),
        cmocka_unit_test(not_a_number_has_one_form),
        cmocka_unit_test(integers_that_do_not_fit_are_named),
        cmocka_unit_test(blocks_are_moved_whole_and_computed_with),
        cmocka_unit_test_setup(quantized_weights_are_terms_as_their_values, empty_folder),
        cmocka_unit_test_setup(every_call_gives_what_a_file_would, empty_folder),
        cmocka_unit_test_setup(sources_that_fail_fail_here, empty_folder),
        cmocka_unit_test_setup(threads_get_the_same_values, empty_folder),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
