/* Quantizing to block dtypes: sizes, what is refused, clamping. tests/peers compares the bytes. */
#include "support.h"

#include <math.h>

static const tenmap_dtype quantized[] = {TENMAP_Q4_0, TENMAP_Q4_1,  TENMAP_Q5_0,  TENMAP_Q5_1,
                                         TENMAP_Q8_0, TENMAP_TQ1_0, TENMAP_TQ2_0, TENMAP_MXFP4};
enum { ROWS = 3, COLUMNS = 512, ALL = ROWS * COLUMNS };

static float values[ALL], back[ALL];
static unsigned char room[ALL * 4], again[ALL * 4];

static void fill(void) {
    for (size_t i = 0; i < ALL; i++)
        values[i] = (float)((i * 37) % 101) / 50 - 1;
}

static tenmap_status quantize(tenmap_dtype to, size_t size, uint32_t flags, tenmap_error *error) {
    return tenmap_quantize(to, room, size, values, ROWS, COLUMNS, NULL, flags, error);
}

static size_t size_of(tenmap_dtype dtype, uint64_t elements) {
    uint64_t size = 0;
    assert_int_equal(tenmap_dtype_bytes(dtype, elements, &size), 1);
    return (size_t)size;
}

/* Half a step of the coarsest code in a block of values up to 1, and the rounding of scales. */
static double bound_of(tenmap_dtype dtype) {
    return dtype == TENMAP_Q8_0                           ? 0.005
           : dtype == TENMAP_Q5_0 || dtype == TENMAP_Q5_1 ? 0.07
           : dtype == TENMAP_MXFP4 ? 0.26 /* its largest level is 0.75 * 2^n */
           : dtype == TENMAP_TQ1_0 || dtype == TENMAP_TQ2_0 ? 0.51
                                                            : 0.17;
}

static void values_come_back_within_half_a_step(void **state) {
    (void)state;
    fill();
    for (size_t d = 0; d < COUNT(quantized); d++) {
        assert_int_equal(quantize(quantized[d], size_of(quantized[d], ALL), 0, NULL), TENMAP_OK);
        assert_int_equal(
            tenmap_convert(TENMAP_F32, back, sizeof back, quantized[d], room, ALL, 0, NULL),
            TENMAP_OK);
        for (size_t i = 0; i < ALL; i++)
            if (fabs((double)back[i] - (double)values[i]) > bound_of(quantized[d]))
                fail_msg("%s: %g became %g", tenmap_dtype_name(quantized[d]), (double)values[i],
                         (double)back[i]);
    }
}

static void rows_do_not_depend_on_each_other(void **state) {
    (void)state;
    fill();
    for (size_t d = 0; d < COUNT(quantized); d++) {
        size_t all = size_of(quantized[d], ALL), row = size_of(quantized[d], COLUMNS);
        assert_int_equal(quantize(quantized[d], all, 0, NULL), TENMAP_OK);
        for (size_t r = 0; r < ROWS; r++)
            assert_int_equal(tenmap_quantize(quantized[d], again + r * row + 1, row,
                                             values + r * COLUMNS, 1, COLUMNS, NULL, 0, NULL),
                             TENMAP_OK);
        assert_memory_equal(room, again + 1, all);
    }
}

static void what_cannot_be_quantized_is_refused(void **state) {
    tenmap_error error = {0};
    (void)state;
    fill();
    check_refused(quantize(TENMAP_Q4_K, sizeof room, 0, &error), &error, TENMAP_ERR_UNSUPPORTED,
                  "nothing quantizes to Q4_K");
    check_refused(quantize(TENMAP_F32, sizeof room, 0, &error), &error, TENMAP_ERR_UNSUPPORTED,
                  "nothing quantizes to F32");
    check_refused(tenmap_quantize(TENMAP_Q8_0, room, sizeof room, values, 2, 33, NULL, 0, &error),
                  &error, TENMAP_ERR_UNSUPPORTED, "a block of Q8_0 has 32");
    check_refused(tenmap_quantize(TENMAP_Q8_0, room, 33, values, 1, 32, NULL, 0, &error), &error,
                  TENMAP_ERR_BUFFER, "take 34");
    check_refused(
        tenmap_quantize(TENMAP_Q8_0, room, sizeof room, values, UINT64_MAX, 32, NULL, 0, &error),
        &error, TENMAP_ERR_ARGUMENT, "more than an address space");
    check_refused(tenmap_quantize(TENMAP_Q8_0, NULL, 34, values, 1, 32, NULL, 0, &error), &error,
                  TENMAP_ERR_ARGUMENT, "dst is NULL");
    check_refused(quantize(TENMAP_Q8_0, sizeof room, 64, &error), &error, TENMAP_ERR_ARGUMENT,
                  "unknown flags 0x40");
    assert_int_equal(tenmap_quantize(TENMAP_Q8_0, NULL, 0, NULL, 0, 32, NULL, 0, NULL), TENMAP_OK);
}

/* The value at one place makes every dtype fail, and nothing is written. */
static void must_be_out_of_range(float value, bool also_mxfp4, uint32_t flags) {
    enum { AT = 700 };
    fill();
    values[AT] = value;
    for (size_t d = 0; d < COUNT(quantized); d++) {
        tenmap_error error = {0};
        if (quantized[d] == TENMAP_MXFP4 && !also_mxfp4)
            continue;
        memset(room, 0x5a, sizeof room);
        check_refused(quantize(quantized[d], sizeof room, flags, &error), &error, TENMAP_ERR_RANGE,
                      "element 700 is ");
        assert_int_equal(error.index, AT);
        for (size_t i = 0; i < sizeof room; i++)
            assert_int_equal(room[i], 0x5a);
    }
}

static void values_that_no_block_holds_are_out_of_range(void **state) {
    (void)state;
    must_be_out_of_range(NAN, true, 0);
    must_be_out_of_range(NAN, true, TENMAP_CONVERT_SATURATE);
    must_be_out_of_range(INFINITY, true, 0);
    must_be_out_of_range(-INFINITY, true, 0);
    must_be_out_of_range(3e38F, false, 0);
    must_be_out_of_range(-3e38F, false, 0);
}

static void saturating_clamps_infinities_and_scales(void **state) {
    static const float large[] = {INFINITY, -INFINITY, 3e38F, -3e38F};
    (void)state;
    for (size_t v = 0; v < COUNT(large); v++)
        for (size_t d = 0; d < COUNT(quantized); d++) {
            fill();
            values[40] = large[v];
            assert_int_equal(quantize(quantized[d], sizeof room, TENMAP_CONVERT_SATURATE, NULL),
                             TENMAP_OK);
            assert_int_equal(
                tenmap_convert(TENMAP_F32, back, sizeof back, quantized[d], room, ALL, 0, NULL),
                TENMAP_OK);
            for (size_t i = 0; i < ALL; i++)
                assert_true(isfinite(back[i]));
            assert_true(large[v] > 0 ? back[40] > 60000 : back[40] < -60000);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_come_back_within_half_a_step),
        cmocka_unit_test(rows_do_not_depend_on_each_other),
        cmocka_unit_test(what_cannot_be_quantized_is_refused),
        cmocka_unit_test(values_that_no_block_holds_are_out_of_range),
        cmocka_unit_test(saturating_clamps_infinities_and_scales),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
