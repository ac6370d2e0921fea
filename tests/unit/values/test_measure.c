/*
 * Compares tenmap_measure with slow references: every dtype, every instruction set, both backends,
 * any alignment, any number of threads. It chooses the instruction set itself (see
 * convert_common.h).
 */
#include "convert_common.h"

#include <math.h>
#include <stdlib.h>

enum { MOST = 70001 };

/* A model in memory with one tensor "t" of these file-order bytes, `shift` bytes off alignment. */
typedef struct memory_model {
    unsigned char *bytes;
    tenmap_model *model;
    const tenmap_tensor *t;
} memory_model;

static memory_model make(tenmap_dtype dtype, const void *data, uint64_t count, size_t shift,
                         uint32_t backend) {
    memory_model m;
    char json[256];
    size_t size = stream_bytes(dtype, (size_t)count, 0);
    int len = snprintf(json, sizeof json,
                       "{\"t\":{\"dtype\":\"%s\",\"shape\":[%llu],\"data_offsets\":[0,%zu]}}",
                       tenmap_dtype_name(dtype), (unsigned long long)count, size);
    while (((size_t)len + 8) % 64 != shift % 64)
        json[len++] = ' ';
    m.bytes = malloc(8 + (size_t)len + size);
    assert_non_null(m.bytes);
    for (int i = 0; i < 8; i++)
        m.bytes[i] = (unsigned char)((uint64_t)len >> (8 * i));
    memcpy(m.bytes + 8, json, (size_t)len);
    if (size)
        memcpy(m.bytes + 8 + len, data, size);
    tenmap_options options = TENMAP_OPTIONS_INIT;
    tenmap_error error;
    options.backend = backend;
    if (tenmap_open_memory(m.bytes, 8 + (size_t)len + size, &options, &m.model, &error) !=
        TENMAP_OK)
        fail_msg("%s", error.message);
    m.t = tenmap_find(m.model, "t");
    return m;
}

static void drop(memory_model *m) {
    tenmap_close(m->model);
    free(m->bytes);
}

static tenmap_stats measure(const tenmap_tensor *t, const tenmap_stats_options *options) {
    tenmap_stats stats;
    tenmap_error error;
    memset(&stats, 0x5a, sizeof stats);
    if (tenmap_measure(&t, 1, options, &stats, &error) != TENMAP_OK)
        fail_msg("%s", error.message);
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(stats.reserved[i], 0);
    return stats;
}

/* Compares bits, because the library and this file may be built with flags that assume no NaN. */
static uint64_t bits_of(double x) {
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static bool is_nan(double x) {
    return (bits_of(x) & INT64_MAX) > UINT64_C(0x7ff0000000000000);
}

static bool is_finite(double x) {
    return (bits_of(x) & INT64_MAX) < UINT64_C(0x7ff0000000000000);
}

static void must_be_near(double got, double want, double scale, const char *what,
                         tenmap_dtype dtype) {
    if (is_nan(want) != is_nan(got) ||
        (!is_nan(want) && !(fabs(got - want) <= 1e-12 * scale + 1e-300)))
        fail_msg("%s of %s on %s is %.17g, not %.17g", what, tmi_dtypes[dtype].name,
                 tenmap_cpu_path(), got, want);
}

/* Element i of file-order bytes as a double, and whether it is subnormal in its dtype. */
static double element(tenmap_dtype dtype, const unsigned char *data, size_t i) {
    tmi_elements elements = {dtype, 0, true};
    uint64_t bits = tmi_scalar_one(TENMAP_F64, dtype, tmi_scalar_load(&elements, data, i), 0);
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static void check_against_reference(tenmap_dtype dtype, const unsigned char *data, size_t count,
                                    const tenmap_stats *got) {
    tmi_elements elements = {dtype, 0, true};
    tenmap_stats want = {.count = count};
    long double sum = 0, squares = 0, apart = 0;
    double min = 0, max = 0;
    uint64_t finite = 0;
    for (size_t i = 0; i < count; i++) {
        double x = element(dtype, data, i);
        want.nans += is_nan(x);
        want.infinities += !is_nan(x) && !is_finite(x);
        if (!is_finite(x))
            continue;
        want.zeros += (bits_of(x) & INT64_MAX) == 0;
        want.subnormals += tmi_scalar_is_subnormal(dtype, tmi_scalar_load(&elements, data, i));
        min = finite && min < x ? min : x;
        max = finite && max > x ? max : x;
        sum += x;
        squares += (long double)x * x;
        finite++;
    }
    double mean = (double)(sum / (long double)finite);
    for (size_t i = 0; i < count; i++) {
        double x = element(dtype, data, i);
        if (is_finite(x))
            apart += ((long double)x - sum / (long double)finite) *
                     ((long double)x - sum / (long double)finite);
    }
    assert_int_equal(got->count, want.count);
    assert_int_equal(got->zeros, want.zeros);
    assert_int_equal(got->subnormals, want.subnormals);
    assert_int_equal(got->nans, want.nans);
    assert_int_equal(got->infinities, want.infinities);
    if (finite == 0) {
        assert_true(is_nan(got->min) && is_nan(got->max) && is_nan(got->mean) && is_nan(got->std));
        assert_true(got->norm == 0);
        return;
    }
    assert_true(got->min == min && got->max == max);
    double largest = fabs(min) > fabs(max) ? fabs(min) : fabs(max);
    must_be_near(got->mean, mean, largest, "mean", dtype);
    double std = (double)sqrtl(apart / (long double)finite);
    must_be_near(got->std, std, std + 1e-4 * largest, "std", dtype);
    must_be_near(got->norm, (double)sqrtl(squares), (double)sqrtl(squares), "norm", dtype);
}

/* Random bytes, including edge cases; F64 stays in the range where squares do not overflow. */
static void fill_values(tenmap_dtype dtype, unsigned char *data, size_t count, uint64_t *seed,
                        bool specials) {
    unsigned width = tmi_dtypes[dtype].bits;
    for (size_t i = 0; i < stream_bytes(dtype, count, 0); i++)
        data[i] = (unsigned char)(next_random(seed) >> 32);
    if (tmi_dtypes[dtype].kind != TENMAP_KIND_FLOAT || width < 16)
        return;
    static const uint64_t exponents[][2] = {
        [TENMAP_F16] = {0x7c00, 0x3800},
        [TENMAP_BF16] = {0x7f80, 0x3f00},
        [TENMAP_F32] = {0x7f800000, 0x3f000000},
        [TENMAP_F64] = {UINT64_C(0x7ff0000000000000), UINT64_C(0x3fe0000000000000)}};
    for (size_t i = 0; i < count; i++) {
        uint64_t bits = 0;
        bool wild = specials && next_random(seed) % 16 == 0;
        for (unsigned k = 0; k < width / 8; k++)
            bits |= (uint64_t)data[i * (width / 8) + k] << (8 * k);
        if (!wild || dtype == TENMAP_F64)
            bits = (bits & ~exponents[dtype][0]) | exponents[dtype][1];
        if (wild && dtype == TENMAP_F64 && next_random(seed) % 4 == 0)
            bits |= exponents[dtype][0];
        if (wild && dtype == TENMAP_F64 && next_random(seed) % 4 == 0)
            bits &= ~exponents[dtype][0];
        for (unsigned k = 0; k < width / 8; k++)
            data[i * (width / 8) + k] = (unsigned char)(bits >> (8 * k));
    }
}

static const size_t lengths[] = {0, 1, 2, 8, 15, 16, 17, 4095, 4096, 4097, 8200, MOST};

static void every_dtype_against_the_reference(void **state) {
    (void)state;
    unsigned char *data = malloc(MOST * 8);
    uint64_t seed = 7;
    assert_non_null(data);
    for (tenmap_dtype dtype = TENMAP_BOOL; dtype < TMI_DTYPE_COUNT; dtype++) {
        if (dtype == TENMAP_C64)
            continue;
        for (size_t k = 0; k < sizeof lengths / sizeof lengths[0] * 2; k++) {
            size_t count = lengths[k / 2];
            if (tmi_dtypes[dtype].bits < 8)
                count = count / 4 * 4;
            fill_values(dtype, data, count, &seed, k % 2);
            tenmap_stats first;
            bool have = false;
            FOR_EACH_ISA(isa) {
                for (uint32_t backend = 0; backend < 2; backend++) {
                    memory_model m = make(dtype, data, count, backend ? 8 : k % 9, backend);
                    tenmap_stats got = measure(m.t, NULL);
                    if (!have)
                        check_against_reference(dtype, data, count, &got);
                    else if (memcmp(&first, &got, sizeof got) != 0)
                        fail_msg("%s, %zu elements: %s says something else", tmi_dtypes[dtype].name,
                                 count, isa);
                    first = got;
                    have = true;
                    drop(&m);
                }
            }
        }
    }
    free(data);
}

static void the_same_bits_on_any_number_of_threads(void **state) {
    (void)state;
    enum { MANY = 5 << 20 };
    uint16_t *data = malloc(MANY * sizeof *data);
    uint64_t seed = 3;
    assert_non_null(data);
    fill_values(TENMAP_BF16, (unsigned char *)data, MANY, &seed, false);
    memory_model m = make(TENMAP_BF16, data, MANY, 2, TENMAP_BACKEND_MAP);
    tenmap_stats one = {.count = 0};
    for (uint32_t threads = 1; threads < 6; threads++) {
        tenmap_stats_options options = TENMAP_STATS_OPTIONS_INIT;
        options.threads = threads;
        tenmap_stats got = measure(m.t, &options);
        if (threads > 1)
            assert_memory_equal(&got, &one, sizeof got);
        one = got;
    }
    drop(&m);
    free(data);
}

static tenmap_stats measure_f32(const float *values, size_t count) {
    static unsigned char data[9000 * 4];
    tmi_elements host = {TENMAP_F32, 0, !TMI_BIG_ENDIAN}, file = {TENMAP_F32, 0, true};
    tmi_scalar_convert(file, data, host, values, count, 0);
    memory_model m = make(TENMAP_F32, data, count, 0, TENMAP_BACKEND_MAP);
    tenmap_stats stats = measure(m.t, NULL);
    drop(&m);
    return stats;
}

static void edge_cases(void **state) {
    (void)state;
    static float values[9000];
    values[0] = 3e38f; /* a literal may be more precise than a float */
    const double large = (double)values[0];
    FOR_EACH_ISA(isa) {
        (void)isa;
        for (size_t i = 0; i < 9000; i++)
            values[i] = 3e38f;
        tenmap_stats s = measure_f32(values, 9000);
        assert_true(s.std == 0 && s.mean == large && s.min == s.max);
        must_be_near(s.norm, large * sqrt(9000.0), s.norm, "norm", TENMAP_F32);
        for (size_t i = 0; i < 9000; i++)
            values[i] = i % 2 ? 3e38f : -3e38f;
        s = measure_f32(values, 9000);
        assert_true(s.mean == 0 && s.max == large && s.min == -large);
        must_be_near(s.std, large, 3e38, "std", TENMAP_F32);
        /* A large mean and a small spread: naive sums of squares lose all of it. */
        for (size_t i = 0; i < 9000; i++)
            values[i] = i % 2 ? 16777215.0f : 16777214.0f;
        s = measure_f32(values, 9000);
        must_be_near(s.std, 0.5, 0.5, "std", TENMAP_F32);
        must_be_near(s.mean, 16777214.5, 1e7, "mean", TENMAP_F32);
        const uint32_t nan = 0xffc00001u, infinity = 0xff800000u, subnormal = 0x80000001u;
        for (size_t i = 0; i < 9000; i++)
            memcpy(&values[i], &nan, 4);
        s = measure_f32(values, 9000);
        assert_true(s.nans == 9000 && is_nan(s.min) && is_nan(s.mean) && s.norm == 0);
        memcpy(&values[5], &infinity, 4);
        memcpy(&values[4500], &subnormal, 4);
        s = measure_f32(values, 9000);
        assert_true(s.nans == 8998 && s.infinities == 1 && s.subnormals == 1 && s.std == 0);
        assert_true(s.min == -0x1p-149 && s.max == -0x1p-149 && s.mean == -0x1p-149);
        assert_true(s.norm == 0x1p-149);
    }
}

/*
 * Element i is exactly base + unit * steps[i], so that the results can be computed with integers.
 */
typedef struct pattern {
    const char *name;
    tenmap_dtype dtype;
    double base, unit;
    int32_t first, step, modulo; /* steps: `first` where a block begins, else i * step % modulo */
} pattern;

/* Subnormal numbers have fewer digits. */
static void must_have_12_digits(double got, double want, const pattern *p, const char *what) {
    double most = 1e-12 * fabs(want) > 0x1p-1074 ? 1e-12 * fabs(want) : 0x1p-1074;
    if (!(fabs(got - want) <= most))
        fail_msg("%s of %s (%s) is %.17g, not %.17g", what, p->name, tenmap_cpu_path(), got, want);
}

static void check_pattern(const pattern *p) {
    enum { COUNT_OF = 20480 };
    static unsigned char data[COUNT_OF * 8];
    tmi_elements host = {p->dtype, 0, !TMI_BIG_ENDIAN}, file = {p->dtype, 0, true};
    uint64_t squares = 0;
    int64_t sum = 0;
    for (int64_t i = 0; i < COUNT_OF; i++) {
        int64_t step = p->first && i % 4096 == 0 ? p->first : i * p->step % p->modulo;
        double wide = p->base + p->unit * (double)step;
        float narrow = (float)wide;
        tmi_scalar_convert(file, data + i * (p->dtype == TENMAP_F64 ? 8 : 4), host,
                           p->dtype == TENMAP_F64 ? (void *)&wide : (void *)&narrow, 1, 0);
        sum += step;
        squares += (uint64_t)(step * step);
    }
    double distance = (double)(COUNT_OF * squares - (uint64_t)(sum * sum));
    double mean = p->base / p->unit + (double)sum / COUNT_OF, std = sqrt(distance) / COUNT_OF;
    double norm = hypot(mean, std) * sqrt(COUNT_OF);
    FOR_EACH_ISA(isa) {
        (void)isa;
        memory_model m = make(p->dtype, data, COUNT_OF, 0, TENMAP_BACKEND_MAP);
        tenmap_stats s = measure(m.t, NULL);
        must_have_12_digits(s.mean, mean * p->unit, p, "mean");
        must_have_12_digits(s.std, std * p->unit, p, "std");
        must_have_12_digits(s.norm, norm * p->unit, p, "norm");
        drop(&m);
    }
}

static void twelve_digits_at_any_scale_and_spread(void **state) {
    (void)state;
    static const pattern patterns[] = {
        {"near 1e-170", TENMAP_F64, 0, 0x1p-565, 0, 7, 1000},
        {"subnormal", TENMAP_F64, 0, 0x1p-1060, 0, 7, 1000},
        {"near 1e-110", TENMAP_F64, 0, 0x1p-360, 0, 7, 1000},
        {"near 1e110", TENMAP_F64, 0, 0x1p355, 0, 7, 1000},
        {"near 1e160", TENMAP_F64, 0, 0x1p520, 0, 7, 1000},
        {"near 1e303", TENMAP_F64, 0, 0x1p998, 0, 7, 1000},
        {"1e15 and little more", TENMAP_F64, 1e15, 0.125, 0, 7, 1000},
        {"1e15 and 0 to 1000", TENMAP_F64, 1e15, 1, 0, 7, 1000},
        {"1e9 and 1e-6", TENMAP_F64, 1e9, 0x1p-20, 0, 7, 11},
        {"-1e9 and a slope", TENMAP_F64, -1e9, 0x1p-20, 0, 1, 20480},
        {"1 and its last digits", TENMAP_F64, 1, 0x1p-52, 0, 7, 11},
        {"an outlier first in each block", TENMAP_F64, 0, 0x1p-10, 10000001, 7, 1000},
        {"an outlier first in each block", TENMAP_F32, 0, 0x1p-10, 10000001, 7, 1000},
        {"outliers, and a spread elsewhere", TENMAP_F32, 64, 0x1p-17, 100001, 7, 11},
        {"65536 and little more", TENMAP_F32, 65536, 0x1p-7, 0, 7, 11},
    };
    for (size_t i = 0; i < sizeof patterns / sizeof patterns[0]; i++)
        check_pattern(&patterns[i]);
}

/*
 * Blocks of zeros, of tiny values and of ones have different scales, which must combine correctly.
 */
static void blocks_of_different_scales_come_together(void **state) {
    (void)state;
    enum { COUNT_OF = 3 * 4096 };
    static const double levels[][3] = {
        {0, 0x1p-565, 0},  {0x1p-565, 0, 0},   {0, 0, 0x1p-1070},       {1, 0x1p-565, 1},
        {0x1p-1060, 1, 0}, {0x1p520, 1, 0},    {0, 0x1p-900, 1},        {0x1p-900, 0, 0x1p900},
        {1, 0, 0x1p1000},  {0x1p-360, 1, 1.5}, {0x1p1000, 0x1p-1060, 0}};
    static unsigned char data[COUNT_OF * 8];
    tmi_elements host = {TENMAP_F64, 0, !TMI_BIG_ENDIAN}, file = {TENMAP_F64, 0, true};
    for (size_t k = 0; k < sizeof levels / sizeof levels[0]; k++) {
        const double *level = levels[k];
        pattern p = {"levels", TENMAP_F64, level[0], level[1], 0, 0, 1};
        double top = level[0] > level[1] ? level[0] : level[1];
        top = level[2] > top ? level[2] : top;
        /* Alternating with 0: the mean is half of the levels' mean, the squares half of theirs. */
        for (size_t i = 0; i < COUNT_OF; i++) {
            double x = i % 2 ? level[i / 4096] : 0;
            tmi_scalar_convert(file, data + i * 8, host, &x, 1, 0);
        }
        double a = level[0] / top, b = level[1] / top, c = level[2] / top;
        double mean = (a + b + c) / 6, square = (a * a + b * b + c * c) / 6;
        memory_model m = make(TENMAP_F64, data, COUNT_OF, 0, TENMAP_BACKEND_MAP);
        tenmap_stats s = measure(m.t, NULL);
        must_have_12_digits(s.mean, mean * top, &p, "mean");
        must_have_12_digits(s.std, sqrt(square - mean * mean) * top, &p, "std");
        must_have_12_digits(s.norm, sqrt(square * COUNT_OF) * top, &p, "norm");
        drop(&m);
    }
}

static void a_norm_beyond_f64_is_infinite_and_std_is_not(void **state) {
    (void)state;
    static unsigned char data[5000 * 8];
    tmi_elements host = {TENMAP_F64, 0, !TMI_BIG_ENDIAN}, file = {TENMAP_F64, 0, true};
    const double most = 0x1.fffffffffffffp1023;
    for (size_t i = 0; i < 5000; i++) {
        double x = i % 2 ? most : -most;
        tmi_scalar_convert(file, data + i * 8, host, &x, 1, 0);
    }
    memory_model m = make(TENMAP_F64, data, 5000, 0, TENMAP_BACKEND_MAP);
    tenmap_stats s = measure(m.t, NULL);
    assert_true(s.mean == 0 && s.std == most);
    assert_int_equal(bits_of(s.norm), UINT64_C(0x7ff0000000000000));
    drop(&m);
}

/* A CPU in that mode would read subnormal F32 and BF16 as zero; tenmap_measure must not. */
static void the_same_with_flush_to_zero_modes_on(void **state) {
    (void)state;
    static unsigned char data[5000 * 4];
    uint64_t seed = 11;
    static const tenmap_dtype dtypes[] = {TENMAP_F32, TENMAP_BF16, TENMAP_F16, TENMAP_F8_E5M2};
    for (size_t d = 0; d < sizeof dtypes / sizeof dtypes[0]; d++) {
        fill_values(dtypes[d], data, 5000, &seed, true);
        memset(data + 100, 0, 4000);
        for (size_t i = 100; i < 4100; i += 4)
            data[i] = 1; /* F32 and BF16 subnormals */
        FOR_EACH_ISA(isa) {
            (void)isa;
            memory_model m = make(dtypes[d], data, 5000, 0, TENMAP_BACKEND_MAP);
            tenmap_stats want = measure(m.t, NULL);
            if (!set_flush_modes(1)) {
                drop(&m);
                return; /* no such modes here */
            }
            tenmap_stats got;
            tenmap_status status = tenmap_measure(&m.t, 1, NULL, &got, NULL);
            set_flush_modes(0);
            assert_int_equal(status, TENMAP_OK);
            assert_memory_equal(&got, &want, sizeof got);
            drop(&m);
        }
    }
}

static void complex_numbers_count_as_their_parts(void **state) {
    (void)state;
    const float parts[] = {1, -2, 0, 4};
    unsigned char data[16];
    tmi_elements host = {TENMAP_F32, 0, !TMI_BIG_ENDIAN}, file = {TENMAP_F32, 0, true};
    tmi_scalar_convert(file, data, host, parts, 4, 0);
    memory_model m = make(TENMAP_C64, data, 2, 0, TENMAP_BACKEND_MAP);
    tenmap_stats s = measure(m.t, NULL);
    assert_int_equal(s.count, 4);
    assert_int_equal(s.zeros, 1);
    assert_true(s.min == -2 && s.max == 4 && s.mean == 0.75);
    drop(&m);
}

/* The bins' edges as the header has them, which are those of numpy.histogram. */
static size_t bin_by_edges(double x, double low, double high, size_t bins) {
    volatile double width = high - low, step = width / (double)bins;
    size_t bin = 0;
    for (size_t b = 1; b < bins && low < high; b++) {
        volatile double far = (double)b * step, edge = low + far;
        bin = edge <= x ? b : bin;
    }
    return bin;
}

static void histograms_count_every_finite_value(void **state) {
    (void)state;
    enum { COUNT_OF = 6000, BINS = 7 };
    static unsigned char data[COUNT_OF * 8];
    uint64_t seed = 5, bins[BINS], want[BINS];
    for (tenmap_dtype dtype = TENMAP_BOOL; dtype < TMI_DTYPE_COUNT; dtype++) {
        if (dtype == TENMAP_C64)
            continue;
        for (int own = 0; own < 2; own++) {
            fill_values(dtype, data, COUNT_OF, &seed, true);
            memory_model m = make(dtype, data, COUNT_OF, 1, TENMAP_BACKEND_READ);
            tenmap_stats_options options = TENMAP_STATS_OPTIONS_INIT;
            options.bins = BINS;
            options.histogram = bins;
            options.low = own ? 0 : -0.75;
            options.high = own ? 0 : 1.5;
            memset(bins, 0x5a, sizeof bins);
            tenmap_stats s = measure(m.t, &options);
            double low = own ? s.min : -0.75, high = own ? s.max : 1.5;
            uint64_t all = 0, inside = 0;
            memset(want, 0, sizeof want);
            for (size_t i = 0; i < COUNT_OF; i++) {
                double x = element(dtype, data, i);
                if (!is_finite(x) || x < low || x > high)
                    continue;
                want[bin_by_edges(x, low, high, BINS)]++;
                inside++;
            }
            for (size_t b = 0; b < BINS; b++)
                all += bins[b];
            assert_int_equal(all, inside);
            if (own)
                assert_int_equal(all, s.count - s.nans - s.infinities);
            assert_memory_equal(bins, want, sizeof want);
            drop(&m);
        }
    }
}

/* Measures `count` F64 or I64, and compares with bin_by_edges. */
static void check_bins(tenmap_dtype dtype, const void *values, size_t count, double low,
                       double high, uint32_t bins, const uint64_t *known) {
    enum { MOST_BINS = 1000, MOST_VALUES = 4000 };
    static unsigned char data[MOST_VALUES * 8];
    uint64_t got[MOST_BINS], want[MOST_BINS] = {0};
    tmi_elements host = {dtype, 0, !TMI_BIG_ENDIAN}, file = {dtype, 0, true};
    tmi_scalar_convert(file, data, host, values, count, 0);
    memory_model m = make(dtype, data, count, 0, TENMAP_BACKEND_MAP);
    tenmap_stats_options options = TENMAP_STATS_OPTIONS_INIT;
    options.bins = bins;
    options.histogram = got;
    options.low = low;
    options.high = high;
    tenmap_stats s = measure(m.t, &options);
    low = low < high ? low : s.min;
    high = options.low < high ? high : s.max;
    for (size_t i = 0; i < count; i++) {
        double x = element(dtype, data, i);
        if (x >= low && x <= high)
            want[bin_by_edges(x, low, high, bins)]++;
    }
    for (uint32_t b = 0; b < bins; b++)
        if (got[b] != want[b] || (known && got[b] != known[b]))
            fail_msg("bin %u of %u from %.17g to %.17g counts %llu, not %llu", b, bins, low, high,
                     (unsigned long long)got[b], (unsigned long long)want[b]);
    drop(&m);
}

static void values_on_edges_are_in_the_bin_that_begins_there(void **state) {
    (void)state;
    static const uint64_t as_numpy[] = {25, 24, 25, 24, 25, 24, 25, 25};
    static const double ranges[][2] = {{0, 1},           {-1, 2},         {0.1, 0.7},
                                       {-3e300, 1e300},  {1e9, 1e9 + 1},  {-1e-300, 1},
                                       {1e-310, 1e-309}, {1, 1 + 1e-14},  {-0.3, 0.3},
                                       {-1e-3, 1e-3},    {1e-321, 1e-317}};
    static const uint32_t bins[] = {1, 2, 3, 7, 10, 49, 64, 100, 1000};
    int64_t whole[197];
    double x[4000];
    for (int64_t i = 0; i < 197; i++)
        whole[i] = i - 100;
    check_bins(TENMAP_I64, whole, 197, 0, 0, 8, as_numpy);
    for (size_t r = 0; r < sizeof ranges / sizeof ranges[0]; r++)
        for (size_t k = 0; k < sizeof bins / sizeof bins[0]; k++) {
            /* Every edge, the number before it and the one after it, which may be outside. */
            size_t count = 0;
            for (uint32_t b = 0; b <= bins[k]; b++) {
                volatile double width = ranges[r][1] - ranges[r][0], step = width / bins[k];
                volatile double far = b * step, edge = ranges[r][0] + far;
                x[count++] = nextafter(edge, -INFINITY);
                x[count++] = edge;
                x[count++] = nextafter(edge, INFINITY);
            }
            check_bins(TENMAP_F64, x, count, ranges[r][0], ranges[r][1], bins[k], NULL);
        }
}

/*
 * Enough elements to be counted by their codes. Bytes are counted in pairs, and the last one has no
 * partner.
 */
static void histograms_of_many_elements(void **state) {
    (void)state;
    enum { BINS = 13 };
    unsigned char *data = malloc((size_t)MOST * 8);
    uint64_t seed = 17, bins[BINS], want[BINS];
    assert_non_null(data);
    for (tenmap_dtype dtype = TENMAP_BOOL; dtype < TMI_DTYPE_COUNT; dtype++) {
        if (dtype == TENMAP_C64 || tmi_dtypes[dtype].bits > 32)
            continue;
        size_t count = tmi_dtypes[dtype].bits < 8 ? MOST / 4 * 4 : MOST;
        fill_values(dtype, data, count, &seed, true);
        for (int k = 0; k < 4; k++) {
            memory_model m = make(dtype, data, count, k < 2 ? 1 : 8,
                                  k < 2 ? TENMAP_BACKEND_MAP : TENMAP_BACKEND_READ);
            tenmap_stats_options options = TENMAP_STATS_OPTIONS_INIT;
            tenmap_stats alone = measure(m.t, NULL);
            options.bins = BINS;
            options.histogram = bins;
            options.low = k % 2 ? 0 : -0.75;
            options.high = k % 2 ? 0 : 1.5;
            double low = k % 2 ? alone.min : -0.75, high = k % 2 ? alone.max : 1.5;
            memset(want, 0, sizeof want);
            for (size_t i = 0; i < count; i++) {
                double x = element(dtype, data, i);
                if (is_finite(x) && x >= low && x <= high)
                    want[bin_by_edges(x, low, high, BINS)]++;
            }
            FOR_EACH_ISA(isa) {
                tenmap_stats both = measure(m.t, &options);
                assert_memory_equal(&both, &alone, sizeof both);
                if (memcmp(bins, want, sizeof want) != 0)
                    fail_msg("a histogram of %s on %s is wrong", tmi_dtypes[dtype].name, isa);
            }
            drop(&m);
        }
    }
    free(data);
}

/*
 * F32 has its own code for bins: every edge, its neighbors, NaN and infinities, with any
 * floating-point modes.
 */
static void f32_on_edges_are_in_the_bin_that_begins_there(void **state) {
    (void)state;
    enum { MOST_EDGES = 200 };
    static const double ranges[][2] = {
        {-2, 2},         {0, 1},         {-1, 0},       {0.1, 0.7},           {1e9, 1e9 + 1},
        {-1e-30, 1e-30}, {-0x1p-120, 1}, {-3e38, 3e38}, {0x1p-140, 0x1p-130}, {-0x1p-99, 0x1p-99},
        {1000, 1001}};
    static const uint32_t numbers[] = {1, 2, 3, 7, 64, MOST_EDGES};
    static float x[3 * MOST_EDGES + 16];
    static unsigned char data[sizeof x];
    tmi_elements host = {TENMAP_F32, 0, !TMI_BIG_ENDIAN}, file = {TENMAP_F32, 0, true};
    for (size_t r = 0; r < sizeof ranges / sizeof ranges[0] * 6; r++) {
        double low = ranges[r / 6][0], high = ranges[r / 6][1];
        uint32_t bins = numbers[r % 6];
        uint64_t got[MOST_EDGES], want[MOST_EDGES] = {0};
        static const uint32_t others[] = {0,          0x80000000u, 1,          0x80000001u,
                                          0x7f800000, 0xff800000u, 0x7fc00000, 0xffffffffu};
        size_t count = sizeof others / sizeof others[0];
        memcpy(x, others, sizeof others);
        for (uint32_t b = 0; b <= bins; b++) {
            volatile double width = high - low, step = width / bins, far = b * step;
            volatile float edge = (float)(low + far);
            x[count++] = nextafterf(edge, -INFINITY);
            x[count++] = edge;
            x[count++] = nextafterf(edge, INFINITY);
        }
        tmi_scalar_convert(file, data, host, x, count, 0);
        for (size_t i = 0; i < count; i++) {
            double value = element(TENMAP_F32, data, i);
            if (is_finite(value) && value >= low && value <= high)
                want[bin_by_edges(value, low, high, bins)]++;
        }
        FOR_EACH_ISA(isa) {
            for (int flush = 0; flush < 2; flush++) {
                memory_model m = make(TENMAP_F32, data, count, 0, TENMAP_BACKEND_MAP);
                tenmap_stats_options options = TENMAP_STATS_OPTIONS_INIT;
                tenmap_stats s;
                options.bins = bins;
                options.histogram = got;
                options.low = low;
                options.high = high;
                options.threads = 1; /* whose modes are set */
                bool set = flush && set_flush_modes(1);
                tenmap_status status = tenmap_measure(&m.t, 1, &options, &s, NULL);
                if (set)
                    set_flush_modes(0);
                assert_int_equal(status, TENMAP_OK);
                if (memcmp(got, want, bins * sizeof *got) != 0)
                    fail_msg("%u bins from %g to %g are wrong on %s", bins, low, high, isa);
                drop(&m);
            }
        }
    }
}

/* From the smallest to the largest number, whose difference exceeds F64. */
static void a_range_may_be_wider_than_f64(void **state) {
    (void)state;
    const double most = 0x1.fffffffffffffp1023, x[] = {-most, -most / 2, -1, 0, most / 2, most};
    unsigned char data[sizeof x];
    uint64_t bins[4];
    tmi_elements host = {TENMAP_F64, 0, !TMI_BIG_ENDIAN}, file = {TENMAP_F64, 0, true};
    tmi_scalar_convert(file, data, host, x, 6, 0);
    memory_model m = make(TENMAP_F64, data, 6, 0, TENMAP_BACKEND_MAP);
    tenmap_stats_options options = TENMAP_STATS_OPTIONS_INIT;
    options.bins = 4;
    options.histogram = bins;
    (void)measure(m.t, &options);
    assert_true(bins[0] == 1 && bins[1] == 2 && bins[2] == 1 && bins[3] == 2);
    drop(&m);
}

typedef struct watched {
    uint64_t last, total;
    int calls, stop_at;
} watched;

static int watch(void *ctx, uint64_t done, uint64_t total) {
    watched *w = ctx;
    assert_true(done >= w->last && done <= total);
    assert_true(w->calls > 0 || done == 0);
    w->last = done;
    w->total = total;
    return ++w->calls == w->stop_at;
}

static void progress_counts_bytes_and_cancels(void **state) {
    (void)state;
    enum { MANY = 3 << 20 };
    uint64_t bins[4];
    unsigned char *data = calloc(MANY, 2);
    assert_non_null(data);
    memory_model m = make(TENMAP_F16, data, MANY, 0, TENMAP_BACKEND_MAP);
    tenmap_stats_options options = TENMAP_STATS_OPTIONS_INIT;
    tenmap_error error;
    tenmap_stats s;
    watched w = {0, 0, 0, 0};
    options.progress = watch;
    options.ctx = &w;
    options.threads = 1;
    (void)measure(m.t, &options);
    assert_true(w.calls >= 3 && w.last == MANY * 2 && w.total == MANY * 2);
    options.bins = 4;
    options.histogram = bins;
    w = (watched){0, 0, 0, 0};
    (void)measure(m.t, &options);
    assert_int_equal(w.total, MANY * 4); /* two passes */
    assert_int_equal(bins[0], MANY);
    for (int stop = 1; stop < 4; stop++) {
        w = (watched){0, 0, 0, stop};
        assert_int_equal(tenmap_measure(&m.t, 1, &options, &s, &error), TENMAP_ERR_CANCELLED);
        assert_non_null(strstr(error.message, "cancelled"));
    }
    drop(&m);
    free(data);
}

static void arguments_are_checked(void **state) {
    (void)state;
    float value = 1;
    memory_model m = make(TENMAP_F32, &value, 1, 0, TENMAP_BACKEND_MAP);
    const tenmap_tensor *list[] = {m.t, NULL};
    tenmap_stats s[2];
    tenmap_error error;
    assert_int_equal(tenmap_measure(NULL, 0, NULL, NULL, &error), TENMAP_OK);
    assert_int_equal(tenmap_measure(NULL, 1, NULL, s, &error), TENMAP_ERR_ARGUMENT);
    assert_int_equal(tenmap_measure(list, 1, NULL, NULL, NULL), TENMAP_ERR_ARGUMENT);
    assert_int_equal(tenmap_measure(list, 2, NULL, s, &error), TENMAP_ERR_ARGUMENT);
    assert_int_equal(error.index, 1);
    tenmap_stats_options options = TENMAP_STATS_OPTIONS_INIT;
    uint64_t bins[2];
    options.histogram = bins;
    assert_int_equal(tenmap_measure(list, 1, &options, s, &error), TENMAP_ERR_ARGUMENT);
    options.bins = 2;
    options.low = 2;
    assert_int_equal(tenmap_measure(list, 1, &options, s, &error), TENMAP_ERR_ARGUMENT);
    uint64_t nan = UINT64_C(0x7ff8000000000000);
    memcpy(&options.low, &nan, sizeof nan);
    assert_int_equal(tenmap_measure(list, 1, &options, s, &error), TENMAP_ERR_ARGUMENT);
    options = (tenmap_stats_options)TENMAP_STATS_OPTIONS_INIT;
    options.flags = 1;
    assert_int_equal(tenmap_measure(list, 1, &options, s, &error), TENMAP_ERR_ARGUMENT);
    options.struct_size = 1;
    assert_int_equal(tenmap_measure(list, 1, &options, s, &error), TENMAP_ERR_ARGUMENT);
    drop(&m);
}

static void opaque_tensors_are_refused(void **state) {
    (void)state;
    static const char file[] =
        "\x37\0\0\0\0\0\0\0{\"t\":{\"dtype\":\"F99\",\"shape\":[1],\"data_offsets\":[0,1]}}   x";
    tenmap_options options = TENMAP_OPTIONS_INIT;
    tenmap_model *model;
    tenmap_error error;
    tenmap_stats s;
    options.flags = TENMAP_OPEN_LENIENT;
    assert_int_equal(tenmap_open_memory(file, 8 + 0x37 + 1, &options, &model, &error), TENMAP_OK);
    const tenmap_tensor *t = tenmap_at(model, 0);
    assert_int_equal(tenmap_measure(&t, 1, NULL, &s, &error), TENMAP_ERR_UNSUPPORTED);
    assert_non_null(strstr(error.message, "F99"));
    tenmap_close(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_dtype_against_the_reference),
        cmocka_unit_test(the_same_bits_on_any_number_of_threads),
        cmocka_unit_test(edge_cases),
        cmocka_unit_test(twelve_digits_at_any_scale_and_spread),
        cmocka_unit_test(blocks_of_different_scales_come_together),
        cmocka_unit_test(a_norm_beyond_f64_is_infinite_and_std_is_not),
        cmocka_unit_test(the_same_with_flush_to_zero_modes_on),
        cmocka_unit_test(complex_numbers_count_as_their_parts),
        cmocka_unit_test(histograms_count_every_finite_value),
        cmocka_unit_test(values_on_edges_are_in_the_bin_that_begins_there),
        cmocka_unit_test(histograms_of_many_elements),
        cmocka_unit_test(f32_on_edges_are_in_the_bin_that_begins_there),
        cmocka_unit_test(a_range_may_be_wider_than_f64),
        cmocka_unit_test(progress_counts_bytes_and_cancels),
        cmocka_unit_test(arguments_are_checked),
        cmocka_unit_test(opaque_tensors_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
