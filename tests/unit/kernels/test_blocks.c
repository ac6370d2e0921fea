/*
 * Block dtypes become floats by the formulas of their format: every kernel of every instruction set
 * is compared with values that are computed here a second time, element by element, in F64.
 */
#include "kernels/blocks.h"
#include "values/conversion_route.h"
#include "values/cpu.h"
#include "values/values.h"

#include "cmocka_all.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Element i of a block, from its bytes: the format's definition, without optimizations. */

static double half_at(const unsigned char *b) {
    int bits = b[0] | b[1] << 8, exponent = bits >> 10 & 31, fraction = bits & 1023;
    double value = exponent == 0    ? ldexp(fraction, -24)
                   : exponent == 31 ? (fraction ? (double)NAN : (double)INFINITY)
                                    : ldexp(1024 + fraction, exponent - 25);
    return bits >> 15 ? -value : value;
}

static int nibble(const unsigned char *b, int i) { /* of 32: the low halves, then the high ones */
    return i < 16 ? b[i] & 15 : b[i - 16] >> 4;
}

static double one_q4_0(const unsigned char *b, int i) {
    return (nibble(b + 2, i) - 8) * half_at(b);
}

static double one_q4_1(const unsigned char *b, int i) {
    return nibble(b + 4, i) * half_at(b) + half_at(b + 2);
}

static double one_q5_0(const unsigned char *b, int i) {
    return ((nibble(b + 6, i) | (b[2 + i / 8] >> i % 8 & 1) << 4) - 16) * half_at(b);
}

static double one_q5_1(const unsigned char *b, int i) {
    return (nibble(b + 8, i) | (b[4 + i / 8] >> i % 8 & 1) << 4) * half_at(b) + half_at(b + 2);
}

static double one_q8_0(const unsigned char *b, int i) {
    return (int8_t)b[2 + i] * half_at(b);
}

static double one_q8_1(const unsigned char *b, int i) {
    return (int8_t)b[4 + i] * half_at(b);
}

static double one_q2_k(const unsigned char *b, int i) {
    int code = b[16 + i / 128 * 32 + i % 32] >> i / 32 % 4 * 2 & 3, scale = b[i / 16];
    return half_at(b + 80) * (scale & 15) * code - half_at(b + 82) * (scale >> 4);
}

static double one_q3_k(const unsigned char *b, int i) {
    int k = i / 16, code = b[32 + i / 128 * 32 + i % 32] >> i / 32 % 4 * 2 & 3;
    int scale = (b[96 + k % 8] >> (k < 8 ? 0 : 4) & 15) | (b[104 + k % 4] >> k / 4 * 2 & 3) << 4;
    if (!(b[i % 32] >> i / 32 & 1))
        code -= 4;
    return half_at(b + 108) * (scale - 32) * code;
}

static void six_bits(const unsigned char *s, int k, int *scale, int *min) {
    *scale = k < 4 ? s[k] & 63 : (s[k + 4] & 15) | s[k - 4] >> 6 << 4;
    *min = k < 4 ? s[k + 4] & 63 : s[k + 4] >> 4 | s[k] >> 6 << 4;
}

static double one_q4_k(const unsigned char *b, int i) {
    int scale, min, code = b[16 + i / 64 * 32 + i % 32] >> i / 32 % 2 * 4 & 15;
    six_bits(b + 4, i / 32, &scale, &min);
    return half_at(b) * scale * code - half_at(b + 2) * min;
}

static double one_q5_k(const unsigned char *b, int i) {
    int scale, min, code = b[48 + i / 64 * 32 + i % 32] >> i / 32 % 2 * 4 & 15;
    six_bits(b + 4, i / 32, &scale, &min);
    code |= (b[16 + i % 32] >> i / 32 & 1) << 4;
    return half_at(b) * scale * code - half_at(b + 2) * min;
}

static double one_q6_k(const unsigned char *b, int i) {
    int half = i / 128, row = i / 32 % 4, column = i % 32;
    int low = b[half * 64 + row % 2 * 32 + column] >> row / 2 * 4 & 15;
    int high = b[128 + half * 32 + column] >> row * 2 & 3;
    return half_at(b + 208) * (int8_t)b[192 + i / 16] * ((low | high << 4) - 32);
}

static double one_q8_k(const unsigned char *b, int i) {
    float d;
    uint32_t bits = b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
    memcpy(&d, &bits, sizeof d);
    return (double)d * (int8_t)b[4 + i];
}

static double one_iq4_nl(const unsigned char *b, int i) {
    return half_at(b) * tmi_levels_iq4[nibble(b + 2, i)];
}

static double one_iq4_xs(const unsigned char *b, int i) {
    int k = i / 32, scale = b[4 + k / 2] >> k % 2 * 4 & 15;
    scale |= ((b[2] | b[3] << 8) >> 2 * k & 3) << 4;
    return half_at(b) * (scale - 32) * tmi_levels_iq4[nibble(b + 8 + 16 * k, i % 32)];
}

static const double e2m1[16] = {0, .5, 1, 1.5, 2, 3, 4, 6, 0, -.5, -1, -1.5, -2, -3, -4, -6};

static double one_mxfp4(const unsigned char *b, int i) {
    return ldexp(e2m1[nibble(b + 1, i)], b[0] - 127);
}

static double one_nvfp4(const unsigned char *b, int i) {
    int scale = b[i / 16], code = b[4 + i / 16 * 8 + i % 8] >> i / 8 % 2 * 4 & 15;
    int exponent = scale >> 3 & 15;
    double d = exponent ? ldexp(8 + (scale & 7), exponent - 10) : ldexp(scale & 7, -9);
    return (scale == 0 || scale == 0x7f ? 0 : d) * e2m1[code];
}

static double one_q1_0(const unsigned char *b, int i) {
    return b[2 + i / 8] >> i % 8 & 1 ? half_at(b) : -half_at(b);
}

static double one_tq1_0(const unsigned char *b, int i) {
    static const int powers[] = {1, 3, 9, 27, 81};
    int byte = i < 160 ? b[i % 32] : i < 240 ? b[32 + (i - 160) % 16] : b[48 + (i - 240) % 4];
    int digit = i < 160 ? i / 32 : i < 240 ? (i - 160) / 16 : (i - 240) / 4;
    return ((byte * powers[digit] % 256 * 3 / 256) - 1) * half_at(b + 52);
}

static double one_tq2_0(const unsigned char *b, int i) {
    return ((b[i / 128 * 32 + i % 32] >> i / 32 % 4 * 2 & 3) - 1) * half_at(b + 64);
}

static const struct {
    tenmap_dtype dtype;
    double (*one)(const unsigned char *block, int i);
} formulas[] = {
    {TENMAP_Q4_0, one_q4_0},     {TENMAP_Q4_1, one_q4_1},     {TENMAP_Q5_0, one_q5_0},
    {TENMAP_Q5_1, one_q5_1},     {TENMAP_Q8_0, one_q8_0},     {TENMAP_Q8_1, one_q8_1},
    {TENMAP_Q2_K, one_q2_k},     {TENMAP_Q3_K, one_q3_k},     {TENMAP_Q4_K, one_q4_k},
    {TENMAP_Q5_K, one_q5_k},     {TENMAP_Q6_K, one_q6_k},     {TENMAP_Q8_K, one_q8_k},
    {TENMAP_IQ4_NL, one_iq4_nl}, {TENMAP_IQ4_XS, one_iq4_xs}, {TENMAP_MXFP4, one_mxfp4},
    {TENMAP_NVFP4, one_nvfp4},   {TENMAP_Q1_0, one_q1_0},     {TENMAP_TQ1_0, one_tq1_0},
    {TENMAP_TQ2_0, one_tq2_0},
};

enum { BLOCKS = 64, MOST_BYTES = 292, MOST_ELEMENTS = 256 };
static unsigned char source[BLOCKS * MOST_BYTES + 1];
static float got[BLOCKS * MOST_ELEMENTS], again[BLOCKS * MOST_ELEMENTS];

static void fill_source(unsigned seed) {
    for (size_t i = 0; i < sizeof source; i++) {
        seed = seed * 1664525 + 1013904223;
        source[i] = (unsigned char)(seed >> 24);
    }
}

static uint32_t float_bits(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* Dtypes whose values come from large tables: tests/peers/gguf_package.py compares them. */
static const tenmap_dtype by_table[] = {TENMAP_IQ1_S, TENMAP_IQ1_M,   TENMAP_IQ2_XXS, TENMAP_IQ2_XS,
                                        TENMAP_IQ2_S, TENMAP_IQ3_XXS, TENMAP_IQ3_S};

static void every_block_dtype_has_a_formula_or_a_table(void **state) {
    (void)state;
    for (tenmap_dtype d = TENMAP_Q4_0; d < TENMAP_OPAQUE; d++) {
        size_t found = 0;
        for (size_t i = 0; i < sizeof formulas / sizeof *formulas; i++)
            found += formulas[i].dtype == d;
        for (size_t i = 0; i < sizeof by_table / sizeof *by_table; i++)
            found += by_table[i] == d;
        if (found != (tmi_dtype_blocks(d) ? 1 : 0))
            fail_msg("%s has %zu formulas here", tenmap_dtype_name(d), found);
    }
}

/* Every formula is exact in F64, so rounding it once is the right answer. */
static void every_element_is_what_the_format_says(void **state) {
    (void)state;
    for (unsigned round = 0; round < 16; round++)
        for (size_t k = 0; k < sizeof formulas / sizeof *formulas; k++) {
            const tmi_block_dtype *type = tmi_dtype_blocks(formulas[k].dtype);
            fill_source(round * 100 + (unsigned)k);
            tmi_kernels_scalar.unpack[formulas[k].dtype - TENMAP_Q4_0](got, source, BLOCKS);
            for (int i = 0; i < BLOCKS * type->elements; i++) {
                const unsigned char *block = source + i / type->elements * type->bytes;
                double want = formulas[k].one(block, i % type->elements);
                uint32_t bits = isnan(want) ? 0x7fc00000 : float_bits((float)want);
                if (float_bits(got[i]) != bits)
                    fail_msg("%s, element %d: %a, not %a", type->name, i, (double)got[i], want);
            }
        }
}

/* The same bits by every instruction set, at every alignment of the source. */
static void every_instruction_set_agrees(void **state) {
    static const char *const names[] = {"avx2", "neon"};
    (void)state;
    for (size_t n = 0; n < sizeof names / sizeof *names; n++) {
        const tmi_kernels *kernels = tmi_cpu_find(names[n]);
        size_t compared = 0;
        for (tenmap_dtype d = TENMAP_Q4_0; kernels && d < TENMAP_Q4_0 + TMI_BLOCK_ROWS; d++) {
            const tmi_block_dtype *type = tmi_dtype_blocks(d);
            tmi_unpack *plain = tmi_kernels_scalar.unpack[d - TENMAP_Q4_0];
            if (!type || kernels->unpack[d - TENMAP_Q4_0] == plain)
                continue;
            for (unsigned round = 0; round < 64; round++) {
                const unsigned char *from = source + round % 2;
                fill_source(round * 1000 + d);
                memset(again, 0x55, sizeof again);
                plain(got, from, BLOCKS);
                kernels->unpack[d - TENMAP_Q4_0](again, from, BLOCKS);
                size_t size = (size_t)BLOCKS * type->elements;
                if (memcmp(got, again, size * sizeof *got) != 0)
                    fail_msg("%s of %s differs", type->name, names[n]);
                if (size < sizeof again / sizeof *again)
                    assert_int_equal(float_bits(again[size]), 0x55555555);
            }
            compared++;
        }
        if (kernels) {
            print_message("           %s: %zu types\n", names[n], compared);
            assert_int_equal(compared, 7);
        }
    }
}

/* tenmap_convert takes blocks from their beginning, any number of elements, into every float. */
static void blocks_convert_to_every_float(void **state) {
    (void)state;
    fill_source(7);
    for (tenmap_dtype from = TENMAP_Q4_0; from < TENMAP_Q4_0 + TMI_BLOCK_ROWS; from++) {
        const tmi_block_dtype *type = tmi_dtype_blocks(from);
        if (!type)
            continue;
        size_t count = (size_t)BLOCKS * type->elements - 5;
        assert_int_equal(tenmap_convert(TENMAP_F32, got, sizeof got, from, source, count, 0, NULL),
                         TENMAP_OK);
        for (tenmap_dtype to = TENMAP_BOOL; to < TMI_DTYPE_COUNT; to++) {
            unsigned char direct[BLOCKS * MOST_ELEMENTS * 8], twice[sizeof direct];
            tenmap_error error;
            tenmap_status status =
                tenmap_convert(to, direct, sizeof direct, from, source, count, 0, &error);
            if (tmi_dtypes[to].kind != TENMAP_KIND_FLOAT) {
                assert_int_equal(status, TENMAP_ERR_UNSUPPORTED);
                continue;
            }
            assert_int_equal(status, TENMAP_OK);
            tenmap_convert(to, twice, sizeof twice, TENMAP_F32, got, count, 0, NULL);
            assert_memory_equal(direct, twice, (size_t)tmi_bytes_of(to, count));
        }
        tenmap_losses counted, want;
        static float f16[BLOCKS * MOST_ELEMENTS];
        tenmap_convert_counted(TENMAP_F16, f16, sizeof f16, from, source, count, 0, &counted, NULL);
        tenmap_convert_counted(TENMAP_F16, f16, sizeof f16, TENMAP_F32, got, count, 0, &want, NULL);
        assert_memory_equal(&counted, &want, sizeof want);
    }
}

/*
 * With non-temporal stores or without, from any element on, to any address: the same bits, and
 * nothing written past them.
 */
static void results_around_the_cache_are_the_same(void **state) {
    static _Alignas(64) unsigned char room[sizeof got + 64];
    static const size_t skips[] = {0, 3, 32}, places[] = {0, 4, 32};
    (void)state;
    for (tenmap_dtype from = TENMAP_Q4_0; from < TENMAP_Q4_0 + TMI_BLOCK_ROWS; from++)
        for (size_t i = 0; tmi_dtype_blocks(from) && i < 9; i++) {
            const tmi_block_dtype *type = tmi_dtype_blocks(from);
            size_t skip = skips[i / 3] % type->elements, place = places[i % 3];
            size_t count = (size_t)BLOCKS * type->elements - skip - 5;
            tmi_elements to = {TENMAP_F32, 0, !TMI_BIG_ENDIAN};
            tmi_elements blocks = {from, (unsigned)skip, true};
            fill_source((unsigned)(from * 10 + i));
            memset(room, 0x55, sizeof room);
            tmi_route(to, got, blocks, source + 1, count, TENMAP_CONVERT_NO_STREAM);
            tmi_route(to, room + place, blocks, source + 1, count, TENMAP_CONVERT_STREAM);
            if (memcmp(got, room + place, count * sizeof *got) != 0)
                fail_msg("%s from element %zu to byte %zu differs", type->name, skip, place);
            assert_int_equal(room[place + count * sizeof *got], 0x55);
        }
}

static void nothing_converts_into_blocks(void **state) {
    (void)state;
    tenmap_error error;
    float values[32] = {0};
    unsigned char block[36], copy[36];
    assert_int_equal(
        tenmap_convert(TENMAP_Q4_0, block, sizeof block, TENMAP_F32, values, 32, 0, &error),
        TENMAP_ERR_UNSUPPORTED);
    assert_non_null(strstr(error.message, "cannot convert F32 to Q4_0"));
    fill_source(3);
    assert_int_equal(
        tenmap_convert(TENMAP_Q4_0, copy, sizeof copy, TENMAP_Q4_0, source, 64, 0, NULL),
        TENMAP_OK);
    assert_memory_equal(copy, source, 36);
    assert_int_equal(
        tenmap_convert(TENMAP_Q4_0, copy, sizeof copy, TENMAP_Q4_0, source, 33, 0, &error),
        TENMAP_ERR_ARGUMENT);
    assert_non_null(strstr(error.message, "33 elements are not a whole number of blocks"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_block_dtype_has_a_formula_or_a_table),
        cmocka_unit_test(every_element_is_what_the_format_says),
        cmocka_unit_test(every_instruction_set_agrees),
        cmocka_unit_test(blocks_convert_to_every_float),
        cmocka_unit_test(results_around_the_cache_are_the_same),
        cmocka_unit_test(nothing_converts_into_blocks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
