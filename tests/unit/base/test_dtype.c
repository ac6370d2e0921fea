/* Names and bits of dtypes, names of statuses, the version: the small tables of the contract. */
#include "cmocka_all.h"
#include "tenmap.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static const struct {
    tenmap_dtype dtype;
    uint32_t value, bits, kind;
    const char *name;
} expected[] = {
    {TENMAP_BOOL, 1, 8, TENMAP_KIND_BOOL, "BOOL"},
    {TENMAP_F4, 2, 4, TENMAP_KIND_FLOAT, "F4"},
    {TENMAP_F6_E2M3, 3, 6, TENMAP_KIND_FLOAT, "F6_E2M3"},
    {TENMAP_F6_E3M2, 4, 6, TENMAP_KIND_FLOAT, "F6_E3M2"},
    {TENMAP_U8, 5, 8, TENMAP_KIND_UINT, "U8"},
    {TENMAP_I8, 6, 8, TENMAP_KIND_INT, "I8"},
    {TENMAP_F8_E5M2, 7, 8, TENMAP_KIND_FLOAT, "F8_E5M2"},
    {TENMAP_F8_E4M3, 8, 8, TENMAP_KIND_FLOAT, "F8_E4M3"},
    {TENMAP_F8_E8M0, 9, 8, TENMAP_KIND_FLOAT, "F8_E8M0"},
    {TENMAP_F8_E4M3FNUZ, 10, 8, TENMAP_KIND_FLOAT, "F8_E4M3FNUZ"},
    {TENMAP_F8_E5M2FNUZ, 11, 8, TENMAP_KIND_FLOAT, "F8_E5M2FNUZ"},
    {TENMAP_I16, 12, 16, TENMAP_KIND_INT, "I16"},
    {TENMAP_U16, 13, 16, TENMAP_KIND_UINT, "U16"},
    {TENMAP_F16, 14, 16, TENMAP_KIND_FLOAT, "F16"},
    {TENMAP_BF16, 15, 16, TENMAP_KIND_FLOAT, "BF16"},
    {TENMAP_I32, 16, 32, TENMAP_KIND_INT, "I32"},
    {TENMAP_U32, 17, 32, TENMAP_KIND_UINT, "U32"},
    {TENMAP_F32, 18, 32, TENMAP_KIND_FLOAT, "F32"},
    {TENMAP_C64, 19, 64, TENMAP_KIND_COMPLEX, "C64"},
    {TENMAP_F64, 20, 64, TENMAP_KIND_FLOAT, "F64"},
    {TENMAP_I64, 21, 64, TENMAP_KIND_INT, "I64"},
    {TENMAP_U64, 22, 64, TENMAP_KIND_UINT, "U64"},
};

static void dtype_values_bits_kinds_and_names_are_fixed(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++) {
        tenmap_dtype found = 99;
        assert_int_equal(expected[i].dtype, expected[i].value);
        assert_int_equal(tenmap_dtype_bits(expected[i].dtype), expected[i].bits);
        assert_int_equal(tenmap_dtype_kind(expected[i].dtype), expected[i].kind);
        assert_string_equal(tenmap_dtype_name(expected[i].dtype), expected[i].name);
        assert_int_equal(tenmap_dtype_from_name(expected[i].name, &found), 1);
        assert_int_equal(found, expected[i].dtype);
        assert_int_equal(tenmap_dtype_from_name(expected[i].name, NULL), 1);
    }
}

/* What the format's description says, written down a second time. */
static const struct {
    tenmap_dtype dtype;
    uint32_t in_ggml, elements, bytes;
    const char *name;
} in_blocks[] = {
    {TENMAP_Q4_0, 2, 32, 2 + 16, "Q4_0"},
    {TENMAP_Q4_1, 3, 32, 2 + 2 + 16, "Q4_1"},
    {TENMAP_Q5_0, 6, 32, 2 + 4 + 16, "Q5_0"},
    {TENMAP_Q5_1, 7, 32, 2 + 2 + 4 + 16, "Q5_1"},
    {TENMAP_Q8_0, 8, 32, 2 + 32, "Q8_0"},
    {TENMAP_Q8_1, 9, 32, 2 + 2 + 32, "Q8_1"},
    {TENMAP_Q2_K, 10, 256, 16 + 64 + 2 + 2, "Q2_K"},
    {TENMAP_Q3_K, 11, 256, 32 + 64 + 12 + 2, "Q3_K"},
    {TENMAP_Q4_K, 12, 256, 2 + 2 + 12 + 128, "Q4_K"},
    {TENMAP_Q5_K, 13, 256, 2 + 2 + 12 + 32 + 128, "Q5_K"},
    {TENMAP_Q6_K, 14, 256, 128 + 64 + 16 + 2, "Q6_K"},
    {TENMAP_Q8_K, 15, 256, 4 + 256 + 32, "Q8_K"},
    {TENMAP_IQ2_XXS, 16, 256, 2 + 64, "IQ2_XXS"},
    {TENMAP_IQ2_XS, 17, 256, 2 + 64 + 8, "IQ2_XS"},
    {TENMAP_IQ3_XXS, 18, 256, 2 + 64 + 32, "IQ3_XXS"},
    {TENMAP_IQ1_S, 19, 256, 2 + 32 + 16, "IQ1_S"},
    {TENMAP_IQ4_NL, 20, 32, 2 + 16, "IQ4_NL"},
    {TENMAP_IQ3_S, 21, 256, 2 + 64 + 8 + 32 + 4, "IQ3_S"},
    {TENMAP_IQ2_S, 22, 256, 2 + 64 + 8 + 8, "IQ2_S"},
    {TENMAP_IQ4_XS, 23, 256, 2 + 2 + 4 + 128, "IQ4_XS"},
    {TENMAP_IQ1_M, 29, 256, 32 + 16 + 8, "IQ1_M"},
    {TENMAP_TQ1_0, 34, 256, 48 + 4 + 2, "TQ1_0"},
    {TENMAP_TQ2_0, 35, 256, 64 + 2, "TQ2_0"},
    {TENMAP_MXFP4, 39, 32, 1 + 16, "MXFP4"},
    {TENMAP_NVFP4, 40, 64, 4 + 32, "NVFP4"},
    {TENMAP_Q1_0, 41, 128, 2 + 16, "Q1_0"},
};

static void block_dtypes_are_ggmls_numbers_and_62_more(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof in_blocks / sizeof in_blocks[0]; i++) {
        uint32_t elements = 0, bytes = 0;
        tenmap_dtype found = 0;
        assert_int_equal(in_blocks[i].dtype, 62 + in_blocks[i].in_ggml);
        assert_int_equal(tenmap_dtype_block(in_blocks[i].dtype, &elements, &bytes), 1);
        assert_int_equal(elements, in_blocks[i].elements);
        assert_int_equal(bytes, in_blocks[i].bytes);
        assert_int_equal(tenmap_dtype_bits(in_blocks[i].dtype), 0);
        assert_int_equal(tenmap_dtype_kind(in_blocks[i].dtype), TENMAP_KIND_FLOAT);
        assert_string_equal(tenmap_dtype_name(in_blocks[i].dtype), in_blocks[i].name);
        assert_int_equal(tenmap_dtype_from_name(in_blocks[i].name, &found), 1);
        assert_int_equal(found, in_blocks[i].dtype);
    }
}

/* The dtypes of ggml that are not blocks, from its list of types. */
static const struct {
    tenmap_dtype dtype;
    uint32_t in_ggml;
} plain_in_ggml[] = {{TENMAP_F32, 0},  {TENMAP_F16, 1},  {TENMAP_I8, 24},  {TENMAP_I16, 25},
                     {TENMAP_I32, 26}, {TENMAP_I64, 27}, {TENMAP_F64, 28}, {TENMAP_BF16, 30}};

static void check_ggml_number(tenmap_dtype dtype, uint32_t number) {
    uint32_t type = 999;
    assert_int_equal(tenmap_dtype_from_ggml(number), dtype);
    assert_int_equal(tenmap_dtype_to_ggml(dtype, &type), 1);
    assert_int_equal(type, number);
    assert_int_equal(tenmap_dtype_to_ggml(dtype, NULL), 1);
}

static void dtypes_that_ggml_has_are_found_by_its_numbers_and_no_others(void **state) {
    (void)state;
    size_t known = 0, plain = sizeof plain_in_ggml / sizeof plain_in_ggml[0];
    for (size_t i = 0; i < plain; i++)
        check_ggml_number(plain_in_ggml[i].dtype, plain_in_ggml[i].in_ggml);
    for (size_t i = 0; i < sizeof in_blocks / sizeof in_blocks[0]; i++)
        check_ggml_number(in_blocks[i].dtype, in_blocks[i].in_ggml);
    for (uint32_t type = 0; type < 1000; type++)
        known += tenmap_dtype_from_ggml(type) != TENMAP_AS_STORED;
    assert_int_equal(known, plain + sizeof in_blocks / sizeof in_blocks[0]);
    assert_int_equal(tenmap_dtype_from_ggml(UINT32_MAX), TENMAP_AS_STORED);
    assert_int_equal(tenmap_dtype_from_ggml(UINT32_MAX - 62), TENMAP_AS_STORED);

    static const tenmap_dtype none[] = {TENMAP_AS_STORED, TENMAP_OPAQUE, TENMAP_BOOL, TENMAP_U8,
                                        TENMAP_F8_E4M3,   TENMAP_C64,    63,          UINT32_MAX};
    uint32_t untouched = 77;
    for (size_t i = 0; i < sizeof none / sizeof none[0]; i++)
        assert_int_equal(tenmap_dtype_to_ggml(none[i], &untouched), 0);
    assert_int_equal(untouched, 77);
}

static void every_other_dtype_has_the_fewest_elements_in_whole_bytes(void **state) {
    (void)state;
    uint32_t elements = 77, bytes = 77;
    for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++) {
        assert_int_equal(tenmap_dtype_block(expected[i].dtype, &elements, &bytes), 1);
        assert_int_equal(elements, expected[i].bits == 4 ? 2 : expected[i].bits == 6 ? 4 : 1);
        assert_int_equal(bytes * 8, expected[i].bits * elements);
    }
    assert_int_equal(tenmap_dtype_block(TENMAP_F6_E2M3, NULL, NULL), 1);
}

static bool is_expected(tenmap_dtype dtype) {
    for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++)
        if (expected[i].dtype == dtype)
            return true;
    for (size_t i = 0; i < sizeof in_blocks / sizeof in_blocks[0]; i++)
        if (in_blocks[i].dtype == dtype)
            return true;
    return false;
}

static void no_value_outside_of_these_tables_is_a_dtype(void **state) {
    (void)state;
    uint32_t elements = 77, bytes = 77;
    for (uint32_t value = 0; value < 1000; value++) {
        tenmap_dtype dtype = value == 999 ? UINT32_MAX : value;
        if (is_expected(dtype))
            continue;
        if (tenmap_dtype_kind(dtype) != TENMAP_KIND_NONE)
            fail_msg("%s (%u) is in neither table", tenmap_dtype_name(dtype), (unsigned)dtype);
        assert_int_equal(tenmap_dtype_block(dtype, &elements, &bytes), 0);
        assert_int_equal(tenmap_dtype_bits(dtype), 0);
    }
    assert_int_equal(elements, 77);
    assert_int_equal(bytes, 77);
}

static void sizes_are_those_of_whole_bytes_and_whole_blocks(void **state) {
    (void)state;
    uint64_t bytes = 77;
    for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++) {
        uint64_t bits = expected[i].bits, most = UINT64_MAX / bits;
        for (uint64_t n = 0; n < 20; n++) {
            assert_int_equal(tenmap_dtype_bytes(expected[i].dtype, n, &bytes), 1);
            assert_int_equal(bytes, (n * bits + 7) / 8); /* 3 elements of 4 bits take 2 bytes */
        }
        assert_int_equal(tenmap_dtype_bytes(expected[i].dtype, most, &bytes), 1);
        assert_true(bytes == most * bits / 8 + (most * bits % 8 != 0));
        assert_int_equal(tenmap_dtype_bytes(expected[i].dtype, 1, NULL), 1);
        bytes = 77;
        assert_int_equal(tenmap_dtype_bytes(expected[i].dtype, most + 1, &bytes), 0);
        assert_int_equal(tenmap_dtype_bytes(expected[i].dtype, UINT64_MAX, &bytes), 0);
        assert_int_equal(bytes, 77);
    }
    for (size_t i = 0; i < sizeof in_blocks / sizeof in_blocks[0]; i++) {
        uint64_t elements = in_blocks[i].elements, most = UINT64_MAX / in_blocks[i].bytes;
        for (uint64_t n = 0; n < 3; n++) {
            assert_int_equal(tenmap_dtype_bytes(in_blocks[i].dtype, n * elements, &bytes), 1);
            assert_int_equal(bytes, n * in_blocks[i].bytes);
        }
        if (most > UINT64_MAX / elements)
            most = UINT64_MAX / elements;
        assert_int_equal(tenmap_dtype_bytes(in_blocks[i].dtype, most * elements, &bytes), 1);
        assert_true(bytes == most * in_blocks[i].bytes);
        bytes = 77;
        if (most < UINT64_MAX / elements)
            assert_int_equal(tenmap_dtype_bytes(in_blocks[i].dtype, (most + 1) * elements, &bytes),
                             0);
        assert_int_equal(tenmap_dtype_bytes(in_blocks[i].dtype, elements - 1, &bytes), 0);
        assert_int_equal(tenmap_dtype_bytes(in_blocks[i].dtype, elements + 1, &bytes), 0);
        assert_int_equal(tenmap_dtype_bytes(in_blocks[i].dtype, UINT64_MAX, &bytes), 0);
        assert_int_equal(bytes, 77);
    }
    static const tenmap_dtype none[] = {TENMAP_AS_STORED, TENMAP_OPAQUE, 23, 63, UINT32_MAX};
    for (size_t i = 0; i < sizeof none / sizeof none[0]; i++)
        assert_int_equal(tenmap_dtype_bytes(none[i], 0, &bytes), 0);
    assert_int_equal(bytes, 77);
}

static void unknown_dtypes_have_no_name(void **state) {
    (void)state;
    tenmap_dtype untouched = 77;
    static const char *const wrong[] = {"",          "f32",       "F32 ",  "BOOL8",
                                        "F8_E4M3FN", "AS_STORED", "OPAQUE"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        assert_int_equal(tenmap_dtype_from_name(wrong[i], &untouched), 0);
    assert_int_equal(tenmap_dtype_from_name(NULL, &untouched), 0);
    assert_int_equal(untouched, 77);
    assert_string_equal(tenmap_dtype_name(TENMAP_OPAQUE), "OPAQUE");
    assert_string_equal(tenmap_dtype_name(63), "UNKNOWN");
}

static void every_status_has_its_name(void **state) {
    (void)state;
    assert_string_equal(tenmap_status_name(TENMAP_OK), "TENMAP_OK");
    assert_string_equal(tenmap_status_name(TENMAP_ERR_FORMAT), "TENMAP_ERR_FORMAT");
    assert_string_equal(tenmap_status_name(TENMAP_ERR_CANCELLED), "TENMAP_ERR_CANCELLED");
    assert_string_equal(tenmap_status_name(14), "TENMAP_ERR_UNKNOWN");
    assert_string_equal(tenmap_status_name(-1), "TENMAP_ERR_UNKNOWN");
    for (tenmap_status s = 0; s <= 13; s++)
        assert_string_not_equal(tenmap_status_name(s), "TENMAP_ERR_UNKNOWN");
}

static void version_is_the_headers(void **state) {
    (void)state;
    assert_int_equal(tenmap_version(), TENMAP_VERSION_MAJOR * 1000000 +
                                           TENMAP_VERSION_MINOR * 1000 + TENMAP_VERSION_PATCH);
}

static void version_text_has_the_same_numbers(void **state) {
    char numbers[32];
    (void)state;
    snprintf(numbers, sizeof numbers, "%u.%u.%u", (unsigned)(tenmap_version() / 1000000),
             (unsigned)(tenmap_version() / 1000 % 1000), (unsigned)(tenmap_version() % 1000));
    assert_memory_equal(TENMAP_VERSION_TEXT, numbers, strlen(numbers));
    assert_string_equal(&TENMAP_VERSION_TEXT[strlen(numbers)], TENMAP_VERSION_SUFFIX);
}

static void error_struct_is_frozen_at_512_bytes(void **state) {
    (void)state;
    assert_int_equal(sizeof(tenmap_error), 512);
    assert_int_equal(offsetof(tenmap_error, message), 32);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dtype_values_bits_kinds_and_names_are_fixed),
        cmocka_unit_test(block_dtypes_are_ggmls_numbers_and_62_more),
        cmocka_unit_test(dtypes_that_ggml_has_are_found_by_its_numbers_and_no_others),
        cmocka_unit_test(every_other_dtype_has_the_fewest_elements_in_whole_bytes),
        cmocka_unit_test(no_value_outside_of_these_tables_is_a_dtype),
        cmocka_unit_test(sizes_are_those_of_whole_bytes_and_whole_blocks),
        cmocka_unit_test(unknown_dtypes_have_no_name),
        cmocka_unit_test(every_status_has_its_name),
        cmocka_unit_test(version_is_the_headers),
        cmocka_unit_test(version_text_has_the_same_numbers),
        cmocka_unit_test(error_struct_is_frozen_at_512_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
