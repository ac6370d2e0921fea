/*
 * Bytes taken as another dtype, rows with a stride, requests of several models: each is compared
 * with a simpler way to the same result. For bytes taken as another dtype, that is a second model
 * over the same bytes, whose header names that dtype.
 */
#include "support.h"

/* The bytes of a row in every dtype: a whole number of elements of each width. */
enum { ROWS = 7, ROW_BYTES = 96, DATA = ROWS * ROW_BYTES };

static const char *const header =
    "{\"t\":{\"dtype\":\"%s\",\"shape\":[%u,%u],\"data_offsets\":[0,%u]}}";

static bytes as_dtype(tenmap_dtype d) {
    char json[256];
    snprintf(json, sizeof json, header, tenmap_dtype_name(d), ROWS,
             ROW_BYTES * 8 / tenmap_dtype_bits(d), DATA);
    return make_model(json, DATA);
}

/*
 * Ways to open the same file. The program runs a second time with all of them behind a tenmap_io.
 */
static const uint32_t request_backends[] = {TENMAP_BACKEND_MAP, TENMAP_BACKEND_READ};

static tenmap_model *open_stored(void **state, tenmap_dtype d, uint32_t backend) {
    static unsigned number;
    char name[32];
    snprintf(name, sizeof name, "t%u.safetensors", number++);
    const char *path = in_folder(state, name);
    bytes file = as_dtype(d);
    tenmap_options options = TENMAP_OPTIONS_INIT;
    options.backend = backend;
    write_file(path, file.at, file.size);
    free(file.at);
    return must_open(path, &options);
}

static size_t packed_size(uint64_t count, tenmap_dtype d) {
    return (size_t)((count * tenmap_dtype_bits(d) + 7) / 8);
}

/*
 * Reads one tensor as `stored_as`, whole, in a range and as a block, and compares with the model
 * whose header names that dtype.
 */
static void check_pair(const tenmap_tensor *t, const tenmap_tensor *plain, tenmap_dtype as) {
    unsigned char got[DATA * 8], expected[DATA * 8]; /* F4 as F32 is eight times as large */
    tenmap_dtype target = as ? as : plain->dtype;
    uint64_t n = plain->nelems, first = n / 3, count = n - first - 1;
    memset(got, 0xa5, sizeof got);
    memset(expected, 0xa5, sizeof expected);
    assert_int_equal(
        tenmap_read_as(t, plain->dtype, 0, n, as, got, packed_size(n, target), 0, NULL), TENMAP_OK);
    assert_int_equal(tenmap_read(plain, 0, n, as, expected, sizeof expected, 0, NULL), TENMAP_OK);
    assert_memory_equal(got, expected, sizeof got);
    assert_int_equal(tenmap_read_as(t, plain->dtype, first, count, as, got, sizeof got, 0, NULL),
                     TENMAP_OK);
    assert_int_equal(tenmap_read(plain, first, count, as, expected, sizeof expected, 0, NULL),
                     TENMAP_OK);
    assert_memory_equal(got, expected, sizeof got);
    uint64_t begin[2] = {1, 1}, end[2] = {ROWS - 1, plain->shape[1] - 2};
    tenmap_request r = {.tensor = t,
                        .begin = begin,
                        .end = end,
                        .as = as,
                        .stored_as = plain->dtype,
                        .dst = got,
                        .dst_bytes = sizeof got};
    assert_int_equal(tenmap_load(t->model, &r, 1, NULL, NULL), TENMAP_OK);
    assert_int_equal(tenmap_read_slice(plain, begin, end, as, expected, sizeof expected, 0, NULL),
                     TENMAP_OK);
    assert_memory_equal(got, expected, sizeof got);
}

static void every_dtype_taken_for_every_other_is_the_model_that_says_so(void **state) {
    for (tenmap_dtype d = TENMAP_BOOL; tenmap_dtype_bits(d); d++)
        for (size_t b = 0; b < COUNT(request_backends); b++) {
            tenmap_model *m = open_stored(state, d, request_backends[b]);
            for (tenmap_dtype s = TENMAP_BOOL; tenmap_dtype_bits(s); s++) {
                bytes file = as_dtype(s);
                tenmap_model *plain = must_open_memory(file, NULL);
                check_pair(tenmap_at(m, 0), tenmap_at(plain, 0), TENMAP_AS_STORED);
                if (s != TENMAP_C64) {
                    check_pair(tenmap_at(m, 0), tenmap_at(plain, 0), TENMAP_F32);
                    check_pair(tenmap_at(m, 0), tenmap_at(plain, 0), TENMAP_F4);
                }
                tenmap_close(plain);
                free(file.at);
            }
            tenmap_close(m);
        }
}

static void an_unknown_dtype_is_read_as_what_the_caller_knows_it_to_be(void **state) {
    (void)state;
    tenmap_options options = TENMAP_OPTIONS_INIT;
    options.flags = TENMAP_OPEN_LENIENT;
    bytes file =
        make_model("{\"t\":{\"dtype\":\"F4_NEW\",\"shape\":[4,6],\"data_offsets\":[0,12]}}", 12);
    tenmap_model *m = must_open_memory(file, &options);
    const tenmap_tensor *t = tenmap_at(m, 0);
    unsigned char got[12], dst[24];
    uint64_t begin[2] = {1, 2}, end[2] = {3, 3};
    tenmap_error error;
    assert_int_equal(tenmap_read_as(t, TENMAP_U8, 0, 12, 0, got, sizeof got, 0, NULL), TENMAP_OK);
    for (size_t i = 0; i < sizeof got; i++)
        assert_int_equal(got[i], pattern_byte(i));
    tenmap_request r = {.tensor = t,
                        .begin = begin,
                        .end = end,
                        .stored_as = TENMAP_U8, /* [4, 3]: rows of three bytes */
                        .dst = dst,
                        .dst_bytes = 2};
    assert_int_equal(tenmap_load(m, &r, 1, NULL, NULL), TENMAP_OK);
    assert_int_equal(dst[0], pattern_byte(5));
    assert_int_equal(dst[1], pattern_byte(8));
    assert_int_equal(tenmap_read(t, 0, 1, 0, dst, sizeof dst, 0, &error), TENMAP_ERR_UNSUPPORTED);
    assert_non_null(strstr(error.message, "tenmap_read_as"));
    tenmap_close(m);
    free(file.at);
}

static void scalars_and_empty_tensors_have_a_shape_too(void **state) {
    (void)state;
    bytes file = make_model("{\"s\":{\"dtype\":\"I64\",\"shape\":[],\"data_offsets\":[0,8]},"
                            "\"e\":{\"dtype\":\"U8\",\"shape\":[0,16],\"data_offsets\":[8,8]}}",
                            8);
    tenmap_model *m = must_open_memory(file, NULL);
    unsigned char dst[16] = {0};
    uint64_t none[2] = {0, 0}, end[2] = {0, 32};
    tenmap_request r[2] = {{.tensor = tenmap_find(m, "s"),
                            .stored_as = TENMAP_U8,
                            .begin = none,
                            .end = none,
                            .dst = dst,
                            .dst_bytes = 8},
                           {.tensor = tenmap_find(m, "e"),
                            .stored_as = TENMAP_F4,
                            .begin = none,
                            .end = end,
                            .dst_stride = 1}};
    assert_int_equal(tenmap_load(m, r, 2, NULL, NULL), TENMAP_OK);
    for (size_t i = 0; i < 8; i++)
        assert_int_equal(dst[i], pattern_byte(i));
    end[1] = 33;
    assert_int_equal(tenmap_load(m, r, 2, NULL, NULL), TENMAP_ERR_RANGE);
    tenmap_close(m);
    free(file.at);
}

/* The request must fail with this status before a byte is written. */
static void must_refuse(tenmap_request r, tenmap_status status, const char *fragment) {
    tenmap_error error;
    memset(r.dst, 0x77, r.dst_bytes);
    assert_int_equal(tenmap_load(NULL, &r, 1, NULL, &error), status);
    check_error(&error, status);
    if (!strstr(error.message, fragment))
        fail_msg("\"%s\" does not hold \"%s\"", error.message, fragment);
    for (size_t i = 0; i < r.dst_bytes; i++)
        assert_int_equal(((unsigned char *)r.dst)[i], 0x77);
}

static void what_does_not_fit_is_named(void **state) {
    (void)state;
    bytes file = make_model("{\"odd\":{\"dtype\":\"U8\",\"shape\":[5],\"data_offsets\":[0,5]},"
                            "\"rows\":{\"dtype\":\"U8\",\"shape\":[4,3],\"data_offsets\":[5,17]}}",
                            17);
    tenmap_model *m = must_open_memory(file, NULL);
    const tenmap_tensor *odd = tenmap_find(m, "odd"), *rows = tenmap_find(m, "rows");
    uint64_t begin[2] = {0, 0}, end[2] = {4, 1};
    unsigned char dst[64];
    tenmap_request r = {.tensor = odd, .dst = dst, .dst_bytes = sizeof dst};
    r.stored_as = TENMAP_U16;
    must_refuse(r, TENMAP_ERR_UNSUPPORTED, "its 5 bytes of U8 are not a whole number of U16");
    r.stored_as = TENMAP_F6_E2M3;
    must_refuse(r, TENMAP_ERR_UNSUPPORTED, "not a whole number of F6_E2M3");
    r.stored_as = TENMAP_OPAQUE;
    must_refuse(r, TENMAP_ERR_UNSUPPORTED, "");
    r.stored_as = 99;
    must_refuse(r, TENMAP_ERR_ARGUMENT, "read as dtype 99");
    r.tensor = rows;
    r.stored_as = TENMAP_U16; /* 12 bytes are six of them, but a row is one and a half */
    r.begin = begin;
    r.end = end;
    must_refuse(r, TENMAP_ERR_UNSUPPORTED, "its last dimension, 3 of U8, is not a whole number of");
    r.begin = r.end = NULL;
    assert_int_equal(tenmap_load(m, &r, 1, NULL, NULL), TENMAP_OK);
    r.dst_stride = 8;
    must_refuse(r, TENMAP_ERR_UNSUPPORTED, "its last dimension");
    r.stored_as = TENMAP_AS_STORED;
    r.dst_stride = 2;
    must_refuse(r, TENMAP_ERR_ARGUMENT, "takes 3 bytes; rows 2 bytes apart would overlap");
    r.dst_stride = 21;
    must_refuse(r, TENMAP_ERR_BUFFER,
                "in rows that lie apart take 66 bytes; the destination has 64");
    r.dst_stride = UINT64_MAX;
    must_refuse(r, TENMAP_ERR_BUFFER, "in rows that lie apart");
    r.dst_stride = UINT64_MAX / 3 - 1;
    must_refuse(r, TENMAP_ERR_BUFFER, "in rows that lie apart");
    r.as = TENMAP_F4;
    r.dst_stride = 4;
    must_refuse(r, TENMAP_ERR_ARGUMENT, "a row of 3 elements of F4 ends inside a byte");
    assert_int_equal(tenmap_read_as(odd, TENMAP_F4, 8, 3, 0, dst, sizeof dst, 0, NULL),
                     TENMAP_ERR_RANGE);
    assert_int_equal(tenmap_read_as(NULL, TENMAP_F4, 0, 0, 0, dst, sizeof dst, 0, NULL),
                     TENMAP_ERR_ARGUMENT);
    tenmap_close(m);
    free(file.at);
}

static void a_view_of_packed_bytes_points_to_reading_them_as_what_they_are(void **state) {
    (void)state;
    static const struct {
        tenmap_dtype stored, asked;
        const char *fragment;
    } rows[] = {{TENMAP_U8, TENMAP_F4, "tenmap_read_as"},
                {TENMAP_I8, TENMAP_F8_E4M3, "tenmap_read_as"},
                {TENMAP_U16, TENMAP_BF16, "tenmap_read_as"},
                {TENMAP_BF16, TENMAP_U16, "tenmap_read_as"},
                {TENMAP_U8, TENMAP_F32, "tenmap_read converts"},
                {TENMAP_BF16, TENMAP_F32, "tenmap_read converts"}};
    for (size_t i = 0; i < COUNT(rows); i++) {
        tenmap_error error;
        bytes file = as_dtype(rows[i].stored);
        tenmap_model *m = must_open_memory(file, NULL);
        assert_null(tenmap_view(tenmap_at(m, 0), rows[i].asked, &error));
        assert_int_equal(error.status, TENMAP_ERR_DTYPE);
        assert_non_null(strstr(error.message, rows[i].fragment));
        tenmap_close(m);
        free(file.at);
    }
}

/* Numbers without a pattern, the same in every run. */
static uint64_t draw_number(uint64_t *seed, uint64_t below) {
    *seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (*seed >> 33) % below;
}

/* Computes the expected dst of a request row by row, with the simplest calls. */
static void lay_rows(const tenmap_tensor *plain, const tenmap_request *r, unsigned char *expected) {
    uint64_t begin[2] = {0, 0}, end[2] = {plain->shape[0], plain->shape[1]};
    if (r->begin) {
        memcpy(begin, r->begin, sizeof begin);
        memcpy(end, r->end, sizeof end);
    }
    size_t row = packed_size(end[1] - begin[1], r->as);
    for (uint64_t y = begin[0]; y < end[0] && begin[1] < end[1]; y++) {
        uint64_t from[2] = {y, begin[1]}, to[2] = {y + 1, end[1]};
        size_t at = (size_t)((y - begin[0]) * r->dst_stride);
        assert_int_equal(
            tenmap_read_slice(plain, from, to, r->as, expected + at, row, r->flags, NULL),
            TENMAP_OK);
    }
}

/* A dtype to which any number converts, of whole bytes or not. */
static tenmap_dtype draw_target(uint64_t *seed, tenmap_dtype from) {
    static const tenmap_dtype targets[] = {TENMAP_F32, TENMAP_BF16, TENMAP_F8_E4M3, TENMAP_F64,
                                           TENMAP_F4};
    uint64_t k = draw_number(seed, COUNT(targets) + 1);
    return from == TENMAP_C64 || k == COUNT(targets) ? from : targets[k];
}

static void random_requests_put_rows_where_single_reads_put_them(void **state) {
    enum { ROOM = ROWS * (ROW_BYTES * 16 + 64) };
    static unsigned char got[ROOM], expected[ROOM];
    static bytes files[TENMAP_Q4_0]; /* block dtypes begin there */
    tenmap_model *plain[TENMAP_Q4_0];
    tenmap_dtype last = last_dtype();
    uint64_t seed = 14, done = 0;
    for (tenmap_dtype d = TENMAP_BOOL; tenmap_dtype_bits(d); d++)
        plain[d] = must_open_memory(files[d] = as_dtype(d), NULL);
    for (unsigned i = 0; i < 4000; i++) {
        if (i % 200 == 0 && i > 0)
            tenmap_close(plain[0]);
        if (i % 200 == 0)
            plain[0] = open_stored(state, (tenmap_dtype)(1 + draw_number(&seed, last)),
                                   request_backends[i / 200 % 2]);
        tenmap_dtype stored = (tenmap_dtype)(1 + draw_number(&seed, last));
        const tenmap_tensor *t = tenmap_at(plain[stored], 0);
        uint64_t begin[2], end[2];
        for (int d = 0; d < 2; d++) {
            begin[d] = draw_number(&seed, t->shape[d]);
            end[d] = begin[d] + draw_number(&seed, t->shape[d] - begin[d] + 1);
        }
        tenmap_request r = {.tensor = tenmap_at(plain[0], 0), .stored_as = stored, .dst = got};
        bool whole = draw_number(&seed, 4) == 0;
        r.begin = whole ? NULL : begin;
        r.end = whole ? NULL : end;
        r.as = draw_target(&seed, stored);
        uint64_t row = whole ? t->shape[1] : end[1] - begin[1],
                 rows = whole ? ROWS : end[0] - begin[0];
        if (row * tenmap_dtype_bits(r.as) % 8 != 0)
            continue;
        r.dst_stride = packed_size(row, r.as) + draw_number(&seed, 40);
        r.dst_bytes =
            rows && row ? (size_t)((rows - 1) * r.dst_stride) + packed_size(row, r.as) : 0;
        memset(got, 0xa5, sizeof got);
        memset(expected, 0xa5, sizeof expected);
        tenmap_load_options options = TENMAP_LOAD_OPTIONS_INIT;
        options.flags = (uint32_t)draw_number(&seed, 4);
        tenmap_error error;
        if (tenmap_load(NULL, &r, 1, &options, &error) != TENMAP_OK)
            fail_msg("request %u: %s", i, error.message);
        lay_rows(t, &r, expected);
        assert_memory_equal(got, expected, sizeof got);
        done++;
    }
    assert_true(done > 3000);
    for (tenmap_dtype d = 0; d <= last; d++) {
        tenmap_close(plain[d]);
        free(files[d].at);
    }
}

/*
 * Two projections in one buffer, with alternating rows, for engines that multiply by both at once.
 */
static void large_projections_are_interleaved_by_many_threads(void **state) {
    enum { HIDDEN = 1536, WIDE = 4096 };
    static const char *const json =
        "{\"gate\":{\"dtype\":\"BF16\",\"shape\":[4096,1536],\"data_offsets\":[0,12582912]},"
        "\"up\":{\"dtype\":\"BF16\",\"shape\":[4096,1536],\"data_offsets\":[12582912,25165824]}}";
    const char *path = in_folder(state, "two.safetensors");
    write_model(path, json, (size_t)WIDE * HIDDEN * 4);
    for (uint32_t way = 0; way < 6; way++) {
        tenmap_options options = TENMAP_OPTIONS_INIT;
        tenmap_load_options load = TENMAP_LOAD_OPTIONS_INIT;
        options.backend = way % 2;
        load.flags = way / 2;
        load.threads = 3;
        tenmap_model *m = must_open(path, &options);
        float *both = tenmap_alloc((size_t)WIDE * HIDDEN * 2 * sizeof(float));
        float *alone = malloc(HIDDEN * sizeof *alone);
        tenmap_request r[2] = {{.tensor = tenmap_find(m, "gate")},
                               {.tensor = tenmap_find(m, "up")}};
        for (size_t i = 0; i < 2; i++) {
            r[i].as = TENMAP_F32;
            r[i].dst = both + i * HIDDEN;
            r[i].dst_bytes = ((size_t)WIDE * 2 - 1) * HIDDEN * sizeof(float);
            r[i].dst_stride = 2 * HIDDEN * sizeof(float);
        }
        assert_int_equal(tenmap_load(m, r, 2, &load, NULL), TENMAP_OK);
        for (size_t row = 0; row < WIDE; row += 7)
            for (size_t i = 0; i < 2; i++) {
                assert_int_equal(tenmap_read(r[i].tensor, row * HIDDEN, HIDDEN, TENMAP_F32, alone,
                                             HIDDEN * sizeof *alone, 0, NULL),
                                 TENMAP_OK);
                assert_memory_equal(both + (2 * row + i) * HIDDEN, alone, HIDDEN * sizeof *alone);
            }
        free(alone);
        tenmap_free(both);
        tenmap_close(m);
    }
}

static void one_load_takes_from_several_models(void **state) {
    enum { MODELS = 5, MANY = 40 };
    tenmap_model *models[MODELS];
    bytes memory = as_dtype(TENMAP_I16);
    float dst[MANY][ROW_BYTES / 2], expected[ROW_BYTES / 2];
    tenmap_request r[MANY];
    for (unsigned i = 0; i + 1 < MODELS; i++)
        models[i] = open_stored(state, TENMAP_BF16, i % 2);
    models[MODELS - 1] = must_open_memory(memory, NULL);
    uint64_t begin[MANY][2], end[MANY][2];
    for (uint32_t flags = 0; flags < 4; flags++) {
        for (size_t i = 0; i < MANY; i++) {
            const tenmap_tensor *t = tenmap_at(models[i % MODELS], 0);
            begin[i][0] = i % ROWS, begin[i][1] = 0;
            end[i][0] = i % ROWS + 1, end[i][1] = ROW_BYTES / 2;
            r[i] = (tenmap_request){.tensor = t, .as = TENMAP_F32};
            r[i].begin = begin[i];
            r[i].end = end[i];
            r[i].dst = dst[i];
            r[i].dst_bytes = sizeof dst[i];
        }
        tenmap_load_options options = TENMAP_LOAD_OPTIONS_INIT;
        options.flags = flags;
        tenmap_error error;
        if (tenmap_load(NULL, r, MANY, &options, &error) != TENMAP_OK)
            fail_msg("%s", error.message);
        for (size_t i = 0; i < MANY; i++) {
            assert_int_equal(tenmap_read_slice(r[i].tensor, begin[i], end[i], TENMAP_F32, expected,
                                               sizeof expected, 0, NULL),
                             TENMAP_OK);
            assert_memory_equal(dst[i], expected, sizeof expected);
        }
        assert_int_equal(tenmap_load(models[0], r, MANY, &options, &error), TENMAP_ERR_ARGUMENT);
        assert_int_equal(error.index, 1);
    }
    for (size_t i = 0; i < MODELS; i++)
        tenmap_close(models[i]);
    free(memory.at);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(every_dtype_taken_for_every_other_is_the_model_that_says_so,
                               empty_folder),
        cmocka_unit_test(an_unknown_dtype_is_read_as_what_the_caller_knows_it_to_be),
        cmocka_unit_test(scalars_and_empty_tensors_have_a_shape_too),
        cmocka_unit_test(what_does_not_fit_is_named),
        cmocka_unit_test(a_view_of_packed_bytes_points_to_reading_them_as_what_they_are),
        cmocka_unit_test_setup(random_requests_put_rows_where_single_reads_put_them, empty_folder),
        cmocka_unit_test_setup(large_projections_are_interleaved_by_many_threads, empty_folder),
        cmocka_unit_test_setup(one_load_takes_from_several_models, empty_folder),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
