/*
 * Compares the library with the independent roundings of exact.h: all inputs of 8 and 16 bits to
 * all formats, a sample of F32 (the long test takes all), F64 at every halfway case of F16 and
 * BF16.
 */
#include "convert_common.h"
#include "exact.h"

/* Compares results of at most 16 bits with the exact ones; any NaN equals NaN. */
static void check_narrow(tenmap_dtype to, tenmap_dtype from, const void *src, const double *values,
                         const bool *numbers, size_t count) {
    exact_table table = exact_make(to);
    uint32_t near = 0;
    uint8_t *codes = malloc(count * 2 + 16);
    tmi_elements element = {to, 0, !TMI_BIG_ENDIAN};
    for (uint32_t saturate = 0; saturate <= 1; saturate++)
        FOR_EACH_ISA(isa) {
            must_convert(to, codes, count * 2, from, src, count, saturate);
            for (size_t i = 0; i < count; i++) {
                uint32_t got = (uint32_t)tmi_scalar_load(&element, codes, i);
                if (!numbers[i]) {
                    if (!exact_is_nan(table.format, got))
                        fail_msg("%s: NaN of %s became %x", isa, tmi_dtypes[from].name, got);
                    continue;
                }
                uint32_t want = exact_narrow(&table, values[i], saturate, &near);
                if (got != want)
                    fail_msg("%s: %s %a to %s is %x, not %x", isa, tmi_dtypes[from].name, values[i],
                             tmi_dtypes[to].name, got, want);
            }
        }
    free(codes);
    free(table.middle);
}

/* To F32 and F64, where every value of at most 16 bits is exact. */
static void check_widen(tenmap_dtype from, const void *src, const double *values,
                        const bool *numbers, size_t count) {
    float *f32 = malloc(count * sizeof *f32);
    double *f64 = malloc(count * sizeof *f64);
    FOR_EACH_ISA(isa) {
        must_convert(TENMAP_F32, f32, count * 4, from, src, count, 0);
        must_convert(TENMAP_F64, f64, count * 8, from, src, count, 0);
        for (size_t i = 0; i < count; i++) {
            if (!numbers[i]) {
                assert_true(f32[i] != f32[i] && f64[i] != f64[i]);
            } else if ((double)f32[i] != values[i] || f64[i] != values[i] ||
                       !signbit(f64[i]) != !signbit(values[i]) ||
                       !signbit(f32[i]) != !signbit(values[i])) {
                fail_msg("%s: %s %a to F32 is %a", isa, tmi_dtypes[from].name, values[i],
                         (double)f32[i]);
            }
        }
    }
    free(f32);
    free(f64);
}

static void check_all(tenmap_dtype from, const void *src, const double *values, const bool *numbers,
                      size_t count) {
    for (size_t t = 0; t < EXACT_FORMAT_COUNT; t++)
        if (exact_formats[t].dtype != from)
            check_narrow(exact_formats[t].dtype, from, src, values, numbers, count);
}

static void every_input_of_every_narrow_float(void **state) {
    (void)state;
    enum { MOST = 65536 };
    static uint8_t src[MOST * 2];
    static double values[MOST];
    static bool numbers[MOST];
    for (size_t f = 0; f < EXACT_FORMAT_COUNT; f++) {
        const exact_format *format = &exact_formats[f];
        unsigned width = tmi_dtypes[format->dtype].bits;
        size_t codes = (size_t)1 << width, count = width == 16 ? codes : 16 * codes + 8;
        tmi_elements element = {format->dtype, 0, !TMI_BIG_ENDIAN};
        /* Packed elements of all codes come from the oracle's loader over a counting pattern. */
        for (size_t i = 0; i < stream_bytes(format->dtype, count, 0); i++) {
            uint16_t two = (uint16_t)(i / 2);
            src[i] = width == 16 ? ((uint8_t *)&two)[i % 2] : (uint8_t)(i * 5);
        }
        for (size_t i = 0; i < count; i++) {
            uint32_t code = (uint32_t)tmi_scalar_load(&element, src, i);
            numbers[i] = exact_decode(format, code, &values[i]);
        }
        check_all(format->dtype, src, values, numbers, count);
        check_widen(format->dtype, src, values, numbers, count);
    }
}

static void every_small_integer(void **state) {
    (void)state;
    enum { COUNT = 65536 };
    static int16_t i16[COUNT];
    static uint16_t u16[COUNT];
    static int8_t i8[256];
    static uint8_t u8[256];
    static double values[COUNT];
    static bool numbers[COUNT];
    for (size_t i = 0; i < COUNT; i++) {
        numbers[i] = true;
        u16[i] = (uint16_t)i;
        i16[i] = (int16_t)(uint16_t)i;
        u8[i % 256] = (uint8_t)i;
        i8[i % 256] = (int8_t)(uint8_t)i;
    }
    for (size_t i = 0; i < COUNT; i++)
        values[i] = u16[i];
    check_all(TENMAP_U16, u16, values, numbers, COUNT);
    check_widen(TENMAP_U16, u16, values, numbers, COUNT);
    check_all(TENMAP_U8, u8, values, numbers, 256);
    check_widen(TENMAP_U8, u8, values, numbers, 256);
    for (size_t i = 0; i < COUNT; i++)
        values[i] = i16[i];
    check_all(TENMAP_I16, i16, values, numbers, COUNT);
    check_widen(TENMAP_I16, i16, values, numbers, COUNT);
    for (size_t i = 0; i < 256; i++)
        values[i] = i8[i];
    check_all(TENMAP_I8, i8, values, numbers, 256);
    check_widen(TENMAP_I8, i8, values, numbers, 256);
}

static int ascending(const void *a, const void *b) {
    float x = fabsf(*(const float *)a), y = fabsf(*(const float *)b);
    return (x > y) - (x < y);
}

/* One in 4093 of all F32, and edges, in ascending order, which makes exact_nearest fast. */
static void a_sample_of_f32(void **state) {
    (void)state;
    enum { EVERY = 4093, EDGES = 100000, COUNT = (int)(4294967296 / EVERY) + EDGES };
    float *src = malloc(COUNT * sizeof *src);
    double *values = malloc(COUNT * sizeof *values);
    bool *numbers = malloc(COUNT * sizeof *numbers);
    uint64_t seed = 11;
    fill_edgy(TENMAP_F32, (unsigned char *)src, EDGES, &seed);
    for (uint32_t i = EDGES; i < COUNT; i++) {
        uint32_t bits = (i - EDGES) * EVERY;
        memcpy(&src[i], &bits, 4);
    }
    for (size_t i = 0; i < COUNT; i++)
        if (src[i] != src[i])
            src[i] = 0; /* keeps the order; NaN is tested elsewhere */
    qsort(src, COUNT, sizeof *src, ascending);
    for (size_t i = 0; i < COUNT; i++) {
        numbers[i] = true;
        values[i] = (double)src[i];
    }
    check_all(TENMAP_F32, src, values, numbers, COUNT);
    free(src);
    free(values);
    free(numbers);
}

/*
 * The midpoints of F16 and BF16 are exact in F64. One bit more or less in F64 must decide the
 * rounding.
 */
static void f64_at_every_halfway_case(void **state) {
    (void)state;
    static const tenmap_dtype targets[] = {TENMAP_F16, TENMAP_BF16};
    for (size_t t = 0; t < 2; t++) {
        exact_table table = exact_make(targets[t]);
        size_t each = table.format->finite, count = each * 10;
        double *values = malloc(count * sizeof *values);
        bool *numbers = malloc(count * sizeof *numbers);
        for (size_t i = 0; i < each; i++) {
            double middle = table.middle[i], below = nextafter(middle, 0);
            double above = nextafter(middle, INFINITY), wider = middle * (1 + 0x1p-40);
            double part[] = {middle, below, above, wider, middle * (1 - 0x1p-30)};
            for (size_t k = 0; k < 5; k++) {
                values[i * 10 + k] = part[k];
                values[i * 10 + 5 + k] = -part[k];
            }
        }
        memset(numbers, 1, count);
        check_narrow(targets[t], TENMAP_F64, values, values, numbers, count);
        free(values);
        free(numbers);
        free(table.middle);
    }
}

/* Sums of three powers of two, which rounding by way of F32 gets wrong. */
static void integers_beside_halfway_cases(void **state) {
    (void)state;
    enum { MOST = 64 * 64 * 64 };
    static int64_t i64[MOST];
    static uint32_t u32[MOST];
    static int32_t i32[MOST];
    static double values[MOST];
    static bool numbers[MOST];
    size_t wide = 0, narrow = 0;
    for (int a = 0; a < 53; a++)
        for (int b = 0; b <= a; b++)
            for (int c = 0; c <= b; c++)
                for (int sign = -1; sign <= 1; sign += 2) {
                    int64_t v = ((int64_t)1 << a) + (b < a ? (int64_t)1 << b : 0) - (c < b);
                    if (wide < MOST)
                        i64[wide++] = sign * v;
                    if (a < 31 && sign > 0)
                        u32[narrow++] = (uint32_t)v;
                }
    memset(numbers, 1, sizeof numbers);
    for (size_t i = 0; i < wide; i++)
        values[i] = (double)i64[i];
    check_all(TENMAP_I64, i64, values, numbers, wide);
    for (size_t i = 0; i < narrow; i++) {
        i32[i] = -(int32_t)u32[i];
        values[i] = u32[i];
    }
    check_all(TENMAP_U32, u32, values, numbers, narrow);
    for (size_t i = 0; i < narrow; i++)
        values[i] = i32[i];
    check_all(TENMAP_I32, i32, values, numbers, narrow);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_input_of_every_narrow_float),
        cmocka_unit_test(every_small_integer),
        cmocka_unit_test(a_sample_of_f32),
        cmocka_unit_test(f64_at_every_halfway_case),
        cmocka_unit_test(integers_beside_halfway_cases),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
