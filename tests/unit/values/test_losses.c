/*
 * Losses are reported: compares what tenmap_convert_counted and copies count with a count from the
 * results one by one, for every code of the 16-bit floats and for numbers around every limit.
 */
#include "exact.h"
#include "support.h"

#include <math.h>

typedef struct float_limits {
    tenmap_dtype dtype;
    double over; /* where overflow begins, as in docs/format.md */
    bool above;  /* `over` itself does not overflow */
    bool infinity;
} float_limits;

/* The floats that exact.h does not have; add_limits adds the others. */
enum { OTHER_FLOATS = 3 };
static float_limits limits[OTHER_FLOATS + EXACT_FORMAT_COUNT] = {
    {TENMAP_F8_E8M0, 0x1.8p127, false, false},
    {TENMAP_F32, 0x1.ffffffp127, false, true},
    {TENMAP_F64, INFINITY, false, true},
};

/* Overflow begins halfway between the largest value and the next; a tie goes to the even code. */
static void add_limits(void) {
    for (size_t i = 0; i < EXACT_FORMAT_COUNT; i++) {
        const exact_format *f = &exact_formats[i];
        double largest = exact_value(f, f->finite - 1), next = exact_value(f, f->finite);
        double too_large = 0;
        bool number = f->too_large >= 0 && exact_decode(f, (uint32_t)f->too_large, &too_large);
        limits[OTHER_FLOATS + i] = (float_limits){f->dtype, (largest + next) / 2,
                                                  f->finite % 2 == 1, number && isinf(too_large)};
    }
}

static void every_float_has_its_limits(void **state) {
    (void)state;
    for (tenmap_dtype d = TENMAP_BOOL; tenmap_dtype_bits(d); d++) {
        size_t found = 0;
        for (size_t i = 0; i < COUNT(limits); i++)
            found += limits[i].dtype == d;
        if (found != (tenmap_dtype_kind(d) == TENMAP_KIND_FLOAT ? 1 : 0))
            fail_msg("%s is not once here or in exact.h", tenmap_dtype_name(d));
    }
}

static void as_f64(tenmap_dtype from, const void *src, size_t count, double *out) {
    assert_int_equal(
        tenmap_convert(TENMAP_F64, out, count * sizeof *out, from, src, count, 0, NULL), TENMAP_OK);
}

/* Counts by the definition, from each number before and after. */
static tenmap_losses expected_losses(const float_limits *to, tenmap_dtype from,
                                     const double *before, const double *after, size_t count,
                                     uint32_t flags) {
    tenmap_losses lost = {0};
    bool power = to->dtype == TENMAP_F8_E8M0;
    for (size_t i = 0; i < count; i++) {
        double x = fabs(before[i]);
        bool stays = to->dtype == from || (to->infinity && !(flags & TENMAP_CONVERT_SATURATE));
        bool over = isinf(x) ? !stays : to->above ? x > to->over : x >= to->over;
        if (isnan(x))
            lost.nans++;
        else if (to->dtype == from)
            continue;
        else if (over || (power && (before[i] <= 0)))
            lost.overflowed++;
        else if (x != 0 && after[i] == 0)
            lost.flushed++;
    }
    return lost;
}

static void check_counts(tenmap_dtype from, const void *src, size_t count) {
    double *before = malloc(count * sizeof *before), *after = malloc(count * sizeof *after);
    unsigned char *result = malloc(count * 8);
    assert_true(before && after && result);
    as_f64(from, src, count, before);
    for (size_t i = 0; i < COUNT(limits); i++)
        for (uint32_t flags = 0; flags <= TENMAP_CONVERT_SATURATE; flags++) {
            tenmap_losses got = {.overflowed = 99, .reserved = {99}};
            assert_int_equal(tenmap_convert_counted(limits[i].dtype, result, count * 8, from, src,
                                                    count, flags, &got, NULL),
                             TENMAP_OK);
            as_f64(limits[i].dtype, result, count, after);
            tenmap_losses want = expected_losses(&limits[i], from, before, after, count, flags);
            if (memcmp(&got, &want, sizeof got) != 0)
                fail_msg("%s to %s, flags %u: %llu %llu %llu instead of %llu %llu %llu",
                         tenmap_dtype_name(from), tenmap_dtype_name(limits[i].dtype), flags,
                         (unsigned long long)got.overflowed, (unsigned long long)got.flushed,
                         (unsigned long long)got.nans, (unsigned long long)want.overflowed,
                         (unsigned long long)want.flushed, (unsigned long long)want.nans);
        }
    free(before);
    free(after);
    free(result);
}

static void every_code_of_the_small_floats_is_counted(void **state) {
    static uint16_t wide[1 << 16];
    static unsigned char narrow[1 << 8];
    (void)state;
    for (size_t i = 0; i < COUNT(wide); i++)
        wide[i] = (uint16_t)i;
    for (size_t i = 0; i < COUNT(narrow); i++)
        narrow[i] = (unsigned char)i;
    check_counts(TENMAP_F16, wide, COUNT(wide));
    check_counts(TENMAP_BF16, wide, COUNT(wide));
    for (tenmap_dtype d = TENMAP_BOOL; tenmap_dtype_bits(d); d++)
        if (tenmap_dtype_kind(d) == TENMAP_KIND_FLOAT && tenmap_dtype_bits(d) == 8)
            check_counts(d, narrow, COUNT(narrow));
}

/*
 * Around each limit: the largest value, and half of the smallest, below which values become zero.
 */
static void limits_are_exact_from_f32_and_f64(void **state) {
    static float narrow[4096];
    static double wide[4096];
    size_t n = 0, m = 0;
    (void)state;
    for (size_t i = 0; i < COUNT(limits); i++)
        for (int sign = -1; sign <= 1; sign += 2) {
            double x = sign * limits[i].over;
            wide[n++] = x;
            wide[n++] = nextafter(x, 0);
            wide[n++] = nextafter(x, x * 2);
            narrow[m++] = (float)x;
            narrow[m++] = nextafterf((float)x, 0);
            narrow[m++] = nextafterf((float)x, (float)x * 2);
        }
    for (int power = -160; power < 20; power++)
        for (int sign = -1; sign <= 1; sign += 2) {
            double x = sign * ldexp(1, power);
            wide[n++] = x;
            wide[n++] = nextafter(x, 0);
            wide[n++] = nextafter(x, x * 2);
            narrow[m++] = (float)x;
            narrow[m++] = nextafterf((float)x, 0);
            narrow[m++] = nextafterf((float)x, (float)x * 2);
        }
    wide[n++] = NAN;
    narrow[m++] = NAN;
    check_counts(TENMAP_F64, wide, n);
    check_counts(TENMAP_F32, narrow, m);
    for (size_t count = 1; count < 140; count++) /* every end of a stride */
        check_counts(TENMAP_F32, narrow + m - count, count);
}

static void integers_overflow_too(void **state) {
    static const int32_t ints[] = {0, 1, -1, 464, 465, -465, 65519, 65520, -65520, 2147483647};
    static const uint64_t larger[] = {0, 65519, 65520, UINT64_MAX, (uint64_t)1 << 53};
    (void)state;
    check_counts(TENMAP_I32, ints, COUNT(ints));
    check_counts(TENMAP_U64, larger, COUNT(larger));
}

static void failures_leave_the_counts_alone(void **state) {
    float x = 1e6f;
    uint16_t half = 0;
    tenmap_losses lost = {.overflowed = 7};
    tenmap_error e = {0};
    (void)state;
    assert_int_equal(tenmap_convert_counted(TENMAP_F16, &half, 1, TENMAP_F32, &x, 1, 0, &lost, &e),
                     TENMAP_ERR_BUFFER);
    assert_int_equal(lost.overflowed, 7);
    assert_int_equal(tenmap_convert_counted(TENMAP_F16, &half, 2, TENMAP_F32, &x, 1, 0, NULL, &e),
                     TENMAP_OK);
    assert_int_equal(half, 0x7c00);
    assert_int_equal(tenmap_convert_counted(TENMAP_F16, NULL, 0, TENMAP_F32, NULL, 0, 0, &lost, &e),
                     TENMAP_OK);
    assert_int_equal(lost.overflowed, 0);
    float parts[4] = {NAN, 1, INFINITY, NAN}, copy[4];
    assert_int_equal(
        tenmap_convert_counted(TENMAP_C64, copy, sizeof copy, TENMAP_C64, parts, 2, 0, &lost, &e),
        TENMAP_OK);
    assert_int_equal(lost.nans, 2);
    assert_int_equal(lost.overflowed, 0);
}

enum { LARGE = 5000000 };

/* "a" has more than one part of a copy, and losses in its first, its middle and its last. */
static tenmap_model *make_lossy(const char *path) {
    char json[200];
    int len = snprintf(json, sizeof json,
                       "{\"a\":{\"dtype\":\"F32\",\"shape\":[%d],\"data_offsets\":[0,%d]},\"b\":{"
                       "\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[%d,%d]}}",
                       LARGE, LARGE * 4, LARGE * 4, LARGE * 4 + 8);
    assert_true(len > 0 && (size_t)len < sizeof json);
    bytes file = make_model(json, (size_t)LARGE * 4 + 8);
    float *a = malloc((size_t)LARGE * 4 + 8);
    assert_non_null(a);
    for (size_t i = 0; i < LARGE; i++)
        a[i] = 1;
    a[0] = 1e6f;
    a[LARGE / 2] = -1e-20f;
    a[LARGE - 2] = NAN;
    a[LARGE - 1] = -2e5f;
    a[LARGE] = a[LARGE + 1] = 70000;
    unsigned char *data = file.at + file.size - ((size_t)LARGE * 4 + 8);
    for (size_t i = 0; i < LARGE + 2; i++, data += 4) {
        uint32_t word;
        memcpy(&word, &a[i], sizeof word);
        for (unsigned k = 0; k < 4; k++)
            data[k] = (unsigned char)(word >> 8 * k);
    }
    write_file(path, file.at, file.size);
    free(file.at);
    free(a);
    return must_open(path, NULL);
}

static void copies_count_per_source(void **state) {
    static const uint64_t shapes[2] = {LARGE, 2};
    tenmap_model *m = make_lossy(in_folder(state, "m.safetensors"));
    tenmap_copy_options options = TENMAP_COPY_OPTIONS_INIT;
    tenmap_losses lost[2];
    tenmap_source sources[2] = {{.tensor = tenmap_find(m, "a"), .dtype = TENMAP_F16},
                                {.tensor = tenmap_find(m, "b")}};
    options.losses = lost;
    for (uint32_t threads = 1; threads < 4; threads++) {
        tenmap_writer *w;
        memset(lost, 0xff, sizeof lost);
        options.threads = threads;
        assert_int_equal(tenmap_writer_create(in_folder(state, "o.safetensors"), NULL, &w, NULL),
                         TENMAP_OK);
        for (size_t i = 0; i < 2; i++)
            assert_int_equal(tenmap_writer_add(w, i ? "b" : "a", 1, i ? TENMAP_F32 : TENMAP_F16,
                                               &shapes[i], 1, NULL, NULL),
                             TENMAP_OK);
        assert_int_equal(tenmap_writer_copy_list(w, sources, 2, &options, NULL), TENMAP_OK);
        assert_int_equal(tenmap_writer_commit(w, NULL), TENMAP_OK);
        assert_int_equal(lost[0].overflowed, 2);
        assert_int_equal(lost[0].flushed, 1);
        assert_int_equal(lost[0].nans, 1);
        assert_int_equal(lost[1].overflowed + lost[1].flushed + lost[1].nans, 0);
    }
    tenmap_close(m);
}

/* Each shard is copied separately, but losses keep the sources' positions. */
static void sharded_saves_count_per_source(void **state) {
    tenmap_model *m = make_lossy(in_folder(state, "m.safetensors"));
    tenmap_save_options options = TENMAP_SAVE_OPTIONS_INIT;
    tenmap_copy_options copy = TENMAP_COPY_OPTIONS_INIT;
    tenmap_losses lost[2];
    tenmap_source sources[2] = {{.tensor = tenmap_find(m, "a"), .dtype = TENMAP_F16},
                                {.tensor = tenmap_find(m, "b"), .dtype = TENMAP_F16}};
    copy.losses = lost;
    options.copy = &copy;
    options.max_shard_bytes = 100;
    assert_int_equal(tenmap_save_sharded(*state, sources, 2, &options, NULL), TENMAP_OK);
    assert_int_equal(lost[0].overflowed, 2);
    assert_int_equal(lost[1].overflowed, 2);
    assert_int_equal(lost[1].flushed, 0);
    tenmap_close(m);
}

int main(void) {
    add_limits();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_float_has_its_limits),
        cmocka_unit_test(every_code_of_the_small_floats_is_counted),
        cmocka_unit_test(limits_are_exact_from_f32_and_f64),
        cmocka_unit_test(integers_overflow_too),
        cmocka_unit_test(failures_leave_the_counts_alone),
        cmocka_unit_test_setup(copies_count_per_source, empty_folder),
        cmocka_unit_test_setup(sharded_saves_count_per_source, empty_folder),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
