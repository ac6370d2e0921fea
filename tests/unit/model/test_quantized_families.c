/* Which tensors are the codes of a quantized weight, by names and dtypes: tenmap_quantized_of. */
#include "support.h"

#define T(name, dtype, shape, begin, end)                                                          \
    "\"" name "\":{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":[" #begin "," #end \
    "]}"

typedef struct family_case {
    const char *family; /* NULL: not the codes of a weight */
    const char *json;
    uint32_t parts, dequantizes;
    uint64_t values;
} family_case;

/* The first tensor of each model, in the order of the data, holds the codes. All have 64 bytes. */
static const family_case cases[] = {
    {"MXFP4, as in gpt-oss",
     T("w_blocks", "U8", "[1,2,16]", 0, 32) "," T("w_scales", "U8", "[32]", 32, 64), 2, 1, 64},
    {"GPTQ or AWQ", T("m.qweight", "I32", "[1,8]", 0, 32) "," T("m.scales", "F16", "[2,8]", 32, 64),
     2, 1, 0},
    {"GPTQ or AWQ",
     T("m.qweight", "I32", "[1,8]", 0, 32) "," T("m.scales", "F16", "[1,8]", 32,
                                                 48) "," T("m.qzeros", "I32", "[4,1]", 48, 64),
     3, 1, 64},
    {"GPTQ or AWQ", T("m.qweight", "I32", "[8,1]", 0, 32) "," T("m.scales", "F16", "[2,8]", 32, 64),
     2, 1, 64},
    {"compressed-tensors",
     T("m.weight_packed", "I32", "[2,4]", 0, 32) "," T(
         "m.weight_scale", "F16", "[8]", 32, 48) "," T("m.weight_shape", "I64", "[2]", 48, 64),
     3, 1, 0 /* set in the test: the shape is read */},
    {"compressed-tensors",
     T("m.weight_packed", "U8", "[2,16]", 0, 32) "," T("m.weight_scale", "U8", "[32]", 32, 64), 2,
     1, 64},
    {"HQQ", T("m.W_q", "U8", "[32]", 0, 32) "," T("m.scale", "F16", "[16]", 32, 64), 2, 0, 0},
    {"MLX", T("m.weight", "U32", "[1,8]", 0, 32) "," T("m.scales", "F16", "[1,16]", 32, 64), 2, 1,
     0},
    {"block scales, as in DeepSeek's FP8",
     T("m.weight", "F8_E4M3", "[4,8]", 0, 32) "," T("m.weight_scale_inv", "F32", "[8]", 32, 64), 2,
     1, 32},
    {"scaled", T("m.weight", "I8", "[4,8]", 0, 32) "," T("m.scale", "F32", "[8]", 32, 64), 2, 1,
     32},
    {"scaled", T("m.weight", "I32", "[8]", 0, 32) "," T("m.scale", "F32", "[8]", 32, 64), 2, 0, 0},
    {"bitsandbytes, 8 bits", T("weight", "I8", "[4,8]", 0, 32) "," T("SCB", "F32", "[8]", 32, 64),
     2, 1, 32},
    {NULL, T("m.weight", "F32", "[8]", 0, 32) "," T("m.scale", "F32", "[8]", 32, 64), 0, 0, 0},
    {NULL, T("m.weight", "F8_E8M0", "[32]", 0, 32) "," T("m.weight_scale", "F32", "[8]", 32, 64), 0,
     0, 0},
    {NULL, T("m.qweight", "I32", "[8]", 0, 32) "," T("n.scales", "F32", "[8]", 32, 64), 0, 0, 0},
    {NULL, T("weigh", "I8", "[32]", 0, 32) "," T("SCB", "F32", "[8]", 32, 64), 0, 0, 0},
};

static void families_are_told_by_names_and_dtypes(void **state) {
    static const unsigned char sides[16] = {2, 0, 0, 0, 0, 0, 0, 0, 16};
    for (size_t i = 0; i < COUNT(cases) * 2; i++) {
        const family_case *c = &cases[i / 2];
        const bool has_shape = strstr(c->json, "_shape") != NULL;
        char json[1024];
        tenmap_options options = TENMAP_OPTIONS_INIT;
        tenmap_quantized found, untouched;
        options.backend = i % 2 ? TENMAP_BACKEND_READ : TENMAP_BACKEND_MAP;
        snprintf(json, sizeof json, "{%s}", c->json);
        bytes file = make_model(json, 64);
        memcpy(file.at + file.size - sizeof sides, sides, sizeof sides);
        write_file(in_folder(state, "m.safetensors"), file.at, file.size);
        free(file.at);
        tenmap_model *m = must_open(in_folder(state, "m.safetensors"), &options);
        const tenmap_tensor *codes = tenmap_at(m, 0);
        memset(&found, 0x5a, sizeof found);
        untouched = found;
        assert_int_equal(tenmap_quantized_of(codes, &found), c->family != NULL);
        assert_int_equal(tenmap_quantized_of(codes, NULL), c->family != NULL);
        assert_int_equal(tenmap_quantized_of(tenmap_at(m, 1), NULL), 0);
        if (c->family) {
            assert_string_equal(found.family, c->family);
            assert_int_equal(found.part_count, c->parts);
            assert_int_equal(found.dequantizes, c->dequantizes);
            assert_int_equal(found.values, has_shape ? 32 : c->values);
            assert_ptr_equal(found.parts[0], codes);
            assert_ptr_equal(found.parts[1], tenmap_at(m, 1));
            for (size_t k = 0; k < COUNT(found.reserved); k++)
                assert_int_equal(found.reserved[k], 0);
        } else {
            assert_memory_equal(&found, &untouched, sizeof found);
        }
        tenmap_close(m);
    }
    assert_int_equal(tenmap_quantized_of(NULL, NULL), 0);
}

static void a_shape_that_is_no_shape_gives_no_count(void **state) {
    static const unsigned char huge[3][16] = {
        {0xff, 0xff, 0xff, 0x7f, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff},
        {0, 0, 0, 0x80, 0, 0, 0, 0, 1},
        {0}};
    for (size_t i = 0; i < COUNT(huge); i++) {
        tenmap_quantized found;
        bytes file = make_model("{" T("m.weight_packed", "I32", "[2,4]", 0,
                                      32) "," T("m.weight_scale", "F16", "[8]", 32, 48) "," //
                                T("m.weight_shape", "I64", "[2]", 48, 64) "}",
                                64);
        memcpy(file.at + file.size - sizeof huge[i], huge[i], sizeof huge[i]);
        tenmap_model *m = must_open_memory(file, NULL);
        assert_int_equal(tenmap_quantized_of(tenmap_at(m, 0), &found), 1);
        assert_int_equal(found.values, 0);
        tenmap_close(m);
        free(file.at);
    }
    (void)state;
}

/* A program that lists what it knows gets each family once. */
static void families_are_listed_once(void **state) {
    (void)state;
    size_t count = 0;
    while (tenmap_family_at(count)) {
        for (size_t i = 0; i < count; i++)
            assert_string_not_equal(tenmap_family_at(i), tenmap_family_at(count));
        count++;
    }
    for (size_t i = 0; i < COUNT(cases); i++) {
        size_t at = 0;
        while (cases[i].family && strcmp(tenmap_family_at(at), cases[i].family) != 0)
            at++;
        assert_true(at < count);
    }
    assert_null(tenmap_family_at(SIZE_MAX));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(families_are_told_by_names_and_dtypes, empty_folder),
        cmocka_unit_test(a_shape_that_is_no_shape_gives_no_count),
        cmocka_unit_test(families_are_listed_once),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
