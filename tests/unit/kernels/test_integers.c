/*
 * Integers and BOOL convert to each other with the same value, or with an error that names the
 * first one that does not fit, wherever it lies and whichever call converts; or saturated on
 * request. The limits are written down here, in sign and magnitude.
 */
#include "kernels/kernels.h"
#include "support.h"
#include "values/values.h"

/* What each dtype can hold: the largest magnitude below zero, and above. */
static const struct limits {
    tenmap_dtype dtype;
    uint64_t below, above;
} integers[] = {
    {TENMAP_BOOL, 0, 1},          {TENMAP_U8, 0, 255},
    {TENMAP_I8, 128, 127},        {TENMAP_I16, 32768, 32767},
    {TENMAP_U16, 0, 65535},       {TENMAP_I32, 2147483648u, 2147483647},
    {TENMAP_U32, 0, 4294967295u}, {TENMAP_I64, UINT64_C(9223372036854775808), INT64_MAX},
    {TENMAP_U64, 0, UINT64_MAX}};

/* An integer of any dtype. */
typedef struct integer {
    bool negative;
    uint64_t magnitude;
} integer;

static bool is_in(const struct limits *l, integer v) {
    return v.magnitude <= (v.negative ? l->below : l->above);
}

/* The element's bytes, in the host's order. */
static void put_integer(unsigned char *dst, size_t i, tenmap_dtype d, integer v) {
    uint64_t bits = v.negative ? 0 - v.magnitude : v.magnitude;
    size_t width = tenmap_dtype_bits(d) / 8;
    for (size_t k = 0; k < width; k++)
        dst[i * width + (TMI_BIG_ENDIAN ? width - 1 - k : k)] = (unsigned char)(bits >> 8 * k);
}

/* All edges: powers of two, one more and one less, of both signs. */
enum { EDGES = 65 * 3 * 2 };

static size_t edges_in(const struct limits *l, integer *out) {
    size_t n = 0;
    for (unsigned k = 0; k < 65; k++)
        for (uint64_t step = 0; step < 3; step++)
            for (int negative = 0; negative < 2; negative++) {
                integer v = {negative, (k < 64 ? (uint64_t)1 << k : 0) + step - 1};
                if ((v.magnitude != 0 || !negative) && is_in(l, v))
                    out[n++] = v;
            }
    return n;
}

static const struct limits *limits_of(tenmap_dtype d) {
    for (size_t i = 0; i < COUNT(integers); i++)
        if (integers[i].dtype == d)
            return &integers[i];
    return NULL;
}

/*
 * Writes the edges of `from` one after the other; those that `to` cannot hold are left out or
 * saturated.
 */
static size_t lay_edges(tenmap_dtype to, tenmap_dtype from, bool clamp, unsigned char *src,
                        unsigned char *want) {
    integer edges[EDGES];
    size_t n = edges_in(limits_of(from), edges), used = 0;
    for (size_t i = 0; i < n; i++) {
        integer v = edges[i];
        if (!is_in(limits_of(to), v)) {
            if (!clamp)
                continue;
            v.magnitude = v.negative ? limits_of(to)->below : limits_of(to)->above;
            v.negative = v.negative && v.magnitude;
        }
        put_integer(src, used, from, edges[i]);
        put_integer(want, used++, to, v);
    }
    return used;
}

#define FOR_EACH_TWO(to, from)                                                                     \
    for (size_t to_i = 0; to_i < COUNT(integers); to_i++)                                          \
        for (size_t from_i = 0; from_i < COUNT(integers); from_i++)                                \
            for (tenmap_dtype to = integers[to_i].dtype, from = integers[from_i].dtype;            \
                 to != from; from = to)

static void what_fits_keeps_its_value(void **state) {
    (void)state;
    unsigned char src[EDGES * 8], want[EDGES * 8], dst[EDGES * 8];
    FOR_EACH_TWO(to, from)
    for (int clamp = 0; clamp < 2; clamp++) {
        size_t n = lay_edges(to, from, clamp, src, want), width = tenmap_dtype_bits(to) / 8;
        uint32_t flags = clamp ? TENMAP_CONVERT_SATURATE : 0;
        for (size_t count = 0; count <= n; count += count < 70 ? 1 : 37) {
            memset(dst, 0x77, sizeof dst);
            assert_int_equal(tenmap_convert(to, dst, count * width, from, src, count, flags, NULL),
                             TENMAP_OK);
            assert_memory_equal(dst, want, count * width);
            for (size_t i = count * width; i < sizeof dst; i++)
                assert_int_equal(dst[i], 0x77);
        }
        assert_int_equal(
            tenmap_convert(to, dst, sizeof dst, from, src, n, flags | TENMAP_CONVERT_STREAM, NULL),
            TENMAP_OK);
        assert_memory_equal(dst, want, n * width);
    }
}

static void any_byte_but_zero_is_a_true_bool(void **state) {
    (void)state;
    unsigned char src[256];
    uint64_t dst[256];
    for (size_t i = 0; i < 256; i++)
        src[i] = (unsigned char)i;
    assert_int_equal(tenmap_convert(TENMAP_U64, dst, sizeof dst, TENMAP_BOOL, src, 256, 0, NULL),
                     TENMAP_OK);
    for (size_t i = 0; i < 256; i++)
        assert_int_equal(dst[i], i != 0);
}

static void show_integer(char *text, size_t size, integer v) {
    snprintf(text, size, "is %s%llu,", v.negative ? "-" : "", (unsigned long long)v.magnitude);
}

/* Every edge that does not fit, alone among zeros at every position of two strides. */
static void the_first_that_does_not_fit_is_named(void **state) {
    (void)state;
    enum { PLACES = 150 };
    unsigned char src[PLACES * 8], dst[PLACES * 8];
    size_t seen = 0;
    FOR_EACH_TWO(to, from) {
        integer edges[EDGES];
        size_t n = edges_in(limits_of(from), edges);
        for (size_t e = 0; e < n; e++) {
            size_t at = seen % PLACES;
            char text[40];
            tenmap_error error;
            if (is_in(limits_of(to), edges[e]))
                continue;
            memset(src, 0, sizeof src);
            memset(dst, 0x77, sizeof dst);
            put_integer(src, at, from, edges[e]);
            put_integer(src, PLACES - 1, from, edges[e]);
            assert_int_equal(tenmap_convert(to, dst, sizeof dst, from, src, PLACES, 0, &error),
                             TENMAP_ERR_RANGE);
            check_error(&error, TENMAP_ERR_RANGE);
            show_integer(text, sizeof text, edges[e]);
            if (error.index != at || !strstr(error.message, text) ||
                !strstr(error.message, tenmap_dtype_name(to)))
                fail_msg("element %zu that %s: \"%s\"", at, text, error.message);
            for (size_t i = 0; i < sizeof dst; i++)
                assert_int_equal(dst[i], 0x77); /* a call that fails writes nothing */
            assert_int_equal(tenmap_convert(to, dst, sizeof dst, from, src, at, 0, NULL),
                             TENMAP_OK);
            seen++;
        }
    }
    assert_true(seen > 1000);
}

static void the_sentence_says_what_would_fit(void **state) {
    (void)state;
    int64_t v[3] = {5, -7, 300};
    unsigned char dst[3];
    tenmap_error error;
    assert_int_equal(tenmap_convert(TENMAP_U8, dst, 3, TENMAP_I64, v, 3, 0, &error),
                     TENMAP_ERR_RANGE);
    assert_string_equal(error.message, "element 1 is -7, which does not fit into U8 (0 to 255)");
    assert_int_equal(tenmap_convert(TENMAP_I8, dst, 3, TENMAP_I64, v, 3, 0, &error),
                     TENMAP_ERR_RANGE);
    assert_string_equal(error.message,
                        "element 2 is 300, which does not fit into I8 (-128 to 127)");
    v[0] = 1, v[1] = 0, v[2] = INT64_MIN;
    assert_int_equal(tenmap_convert(TENMAP_BOOL, dst, 3, TENMAP_I64, v, 3, 0, &error),
                     TENMAP_ERR_RANGE);
    assert_string_equal(error.message,
                        "element 2 is -9223372036854775808, which does not fit into BOOL (0 to 1)");
}

/* Large enough that several threads have parts of it, with two elements that do not fit. */
enum { MANY = 6 << 20, FIRST_BAD = 2000003, SECOND_BAD = 5999999 };

static void write_integers(const char *path) {
    char json[128];
    size_t data = (size_t)MANY * 4;
    snprintf(json, sizeof json,
             "{\"ids\":{\"dtype\":\"I32\",\"shape\":[%d],\"data_offsets\":[0,%zu]}}", MANY, data);
    bytes file = make_model(json, data);
    unsigned char *ids = file.at + file.size - data;
    for (size_t i = 0; i < MANY; i++) {
        uint32_t v = (uint32_t)(i % 30000) - 15000;
        if (i == FIRST_BAD || i == SECOND_BAD)
            v = (uint32_t)(i + 100000);
        for (size_t k = 0; k < 4; k++)
            ids[i * 4 + k] = (unsigned char)(v >> 8 * k);
    }
    write_file(path, file.at, file.size);
    free(file.at);
}

static void reads_and_loads_name_the_first_too(void **state) {
    const char *path = in_folder(state, "ids.safetensors");
    int16_t *dst = malloc((size_t)MANY * sizeof *dst);
    write_integers(path);
    for (uint32_t way = 0; way < 8; way++) {
        tenmap_options options = TENMAP_OPTIONS_INIT;
        tenmap_load_options load = TENMAP_LOAD_OPTIONS_INIT;
        tenmap_error error;
        options.backend = way % 2;
        load.flags = way / 4;
        load.threads = way % 4 + 1;
        tenmap_model *m = must_open(path, &options);
        const tenmap_tensor *t = tenmap_at(m, 0);
        tenmap_request r = {.tensor = t, .as = TENMAP_I16, .dst = dst};
        r.dst_bytes = (size_t)MANY * sizeof *dst;
        assert_int_equal(tenmap_load(m, &r, 1, &load, &error), TENMAP_ERR_RANGE);
        assert_non_null(strstr(error.message, "element 2000003 is 2100003, which does not fit"));
        assert_int_equal(error.index, 0); /* the request */
        assert_int_equal(error.offset, t->file_offset + (uint64_t)FIRST_BAD * 4);
        assert_int_equal(tenmap_read(t, FIRST_BAD + 1, MANY - FIRST_BAD - 1, TENMAP_I16, dst,
                                     r.dst_bytes, 0, &error),
                         TENMAP_ERR_RANGE);
        assert_int_equal(error.index, SECOND_BAD);
        assert_non_null(strstr(error.message, "\"ids\": element 5999999 is 6099999"));
        assert_int_equal(tenmap_read(t, 0, FIRST_BAD, TENMAP_I16, dst, r.dst_bytes, 0, &error),
                         TENMAP_OK);
        assert_int_equal(dst[FIRST_BAD - 1], (FIRST_BAD - 1) % 30000 - 15000);
        r.flags = TENMAP_CONVERT_SATURATE;
        assert_int_equal(tenmap_load(m, &r, 1, &load, &error), TENMAP_OK);
        assert_int_equal(dst[FIRST_BAD], INT16_MAX);
        assert_int_equal(dst[7], 7 - 15000);
        tenmap_close(m);
    }
    free(dst);
}

static void copies_into_a_file_check_and_count(void **state) {
    char path[256], to[256];
    snprintf(path, sizeof path, "%s", in_folder(state, "ids.safetensors"));
    snprintf(to, sizeof to, "%s", in_folder(state, "small.safetensors"));
    write_integers(path);
    tenmap_model *m = must_open(path, NULL);
    uint64_t shape[1] = {MANY};
    for (uint32_t saturate = 0; saturate < 2; saturate++) {
        tenmap_writer *w;
        size_t id;
        tenmap_error error;
        tenmap_losses lost = {0};
        tenmap_source source = {.tensor = tenmap_at(m, 0), .flags = saturate};
        tenmap_copy_options options = TENMAP_COPY_OPTIONS_INIT;
        options.losses = &lost;
        assert_int_equal(tenmap_writer_create(to, NULL, &w, NULL), TENMAP_OK);
        assert_int_equal(tenmap_writer_add(w, "ids", TENMAP_CSTR, TENMAP_I16, shape, 1, &id, NULL),
                         TENMAP_OK);
        tenmap_status status = tenmap_writer_copy_list(w, &source, 1, &options, &error);
        if (saturate) {
            assert_int_equal(status, TENMAP_OK);
            assert_int_equal(lost.overflowed, 2);
            assert_int_equal(tenmap_writer_commit(w, NULL), TENMAP_OK);
        } else {
            assert_int_equal(status, TENMAP_ERR_RANGE);
            assert_non_null(strstr(error.message, "\"ids\": element "));
            assert_int_equal(tenmap_writer_commit(w, &error), TENMAP_ERR_RANGE);
        }
    }
    tenmap_close(m);
    m = must_open(to, NULL);
    int16_t v[2];
    assert_int_equal(
        tenmap_read(tenmap_at(m, 0), FIRST_BAD - 1, 2, TENMAP_AS_STORED, v, sizeof v, 0, NULL),
        TENMAP_OK);
    assert_int_equal(v[0], (FIRST_BAD - 1) % 30000 - 15000);
    assert_int_equal(v[1], INT16_MAX);
    tenmap_close(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_fits_keeps_its_value),
        cmocka_unit_test(any_byte_but_zero_is_a_true_bool),
        cmocka_unit_test(the_first_that_does_not_fit_is_named),
        cmocka_unit_test(the_sentence_says_what_would_fit),
        cmocka_unit_test_setup(reads_and_loads_name_the_first_too, empty_folder),
        cmocka_unit_test_setup(copies_into_a_file_check_and_count, empty_folder),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
