/*
 * tenmap_part_role and tenmap_packing_of: examples/packed.c computes y = W x from them alone, and
 * must get the numbers of the dequantized weight, for every scheme that the tests know.
 */
#include "quantized_weight.h"

#include "quantized_schemes.h"

int packed_main(int count, char **arguments);
#define main packed_main
#include "../../../examples/packed.c"
#undef main

static tenmap_model *open_weight(void **state, const stored_weight *w) {
    tenmap_options options = TENMAP_OPTIONS_INIT;
    options.flags = TENMAP_OPEN_DEQUANTIZE;
    write_weight(state, w);
    return must_open(in_folder(state, ""), &options);
}

static unsigned products, schemes_seen;

static void check_product(void **state, make_weight *make) {
    stored_weight stored;
    weight w;
    memset(&stored, 0, sizeof stored);
    make(&stored);
    tenmap_model *m = open_weight(state, &stored);
    const tenmap_tensor *t = tenmap_find(m, stored.name);
    assert_non_null(t);
    if (find_weight(t, &w)) {
        products++;
        if (!check_weight(&w))
            fail_msg("%s: the product of the parts differs", stored.label);
    } else if (!tenmap_dtype_kind(tenmap_part_at(t, 0)->dtype) ||
               tenmap_dtype_bits(tenmap_part_at(t, 0)->dtype)) {
        fail_msg("%s: its packing is not described", stored.label);
    }
    schemes_seen++;
    tenmap_close(m);
    free_weight(&stored);
    (void)remove(in_folder(state, "config.json"));
}

static void products_of_parts_equal_those_of_values(void **state) {
    seed_random(31);
    for (size_t i = 0; i < quantized_case_count; i++)
        check_product(state, quantized_cases[i]);
    for (size_t i = 0; i < quantized_shape_count; i++)
        check_product(state, quantized_shapes[i]);
    print_message("           %u products of %u weights\n", products, schemes_seen);
    assert_true(products >= 40);
}

/* The order that the header promises, and OTHER last. */
static void parts_come_in_the_order_of_their_roles(void **state) {
    static const uint8_t place[] = {
        [TENMAP_PART_VALUES] = 1, [TENMAP_PART_SCALES] = 2,        [TENMAP_PART_ZEROS] = 3,
        [TENMAP_PART_BIASES] = 3, [TENMAP_PART_GLOBAL_SCALE] = 4,  [TENMAP_PART_GROUP_INDEX] = 5,
        [TENMAP_PART_TABLE] = 6,  [TENMAP_PART_NESTED_SCALES] = 7, [TENMAP_PART_NESTED_TABLE] = 8,
        [TENMAP_PART_OTHER] = 9};
    unsigned roles = 0;
    for (size_t i = 0; i < quantized_case_count; i++) {
        stored_weight stored;
        memset(&stored, 0, sizeof stored);
        quantized_cases[i](&stored);
        tenmap_model *m = open_weight(state, &stored);
        const tenmap_tensor *t = tenmap_find(m, stored.name);
        unsigned last = 0;
        uint32_t parts = tenmap_scheme_of(t)->part_count;
        for (uint32_t k = 0; k < parts; k++) {
            uint32_t role = tenmap_part_role(t, k);
            assert_in_range(role, TENMAP_PART_VALUES, TENMAP_PART_NESTED_TABLE);
            if (place[role] <= last && role != TENMAP_PART_OTHER)
                fail_msg("%s: part %u has role %u", stored.label, (unsigned)k, (unsigned)role);
            last = place[role];
            roles |= 1u << role;
        }
        assert_int_equal(tenmap_part_role(t, 0), TENMAP_PART_VALUES);
        assert_int_equal(tenmap_part_role(t, parts), 0);
        assert_int_equal(tenmap_part_role(t, UINT32_MAX), 0);
        assert_int_equal(tenmap_part_role(tenmap_part_at(t, 0), 0), 0);
        assert_null(tenmap_packing_of(tenmap_part_at(t, 0)));
        tenmap_close(m);
        free_weight(&stored);
        (void)remove(in_folder(state, "config.json"));
    }
    assert_int_equal(roles, ((1u << (TENMAP_PART_NESTED_TABLE + 1)) - 2)); /* each one was seen */
    assert_int_equal(tenmap_part_role(NULL, 0), 0);
    assert_null(tenmap_packing_of(NULL));
}

/* What the formats' descriptions say, written down a second time. */
static void packings_are_those_of_the_formats(void **state) {
    static const struct {
        make_weight *make;
        uint32_t bits, word_bits, per_word, down, transposed, code, zeros;
        int32_t bias;
        uint8_t order[8];
    } rows[] = {
        {gptq_int4, 4, 32, 8, 1, 1, TENMAP_AS_STORED, 2, 0, {0, 1, 2, 3, 4, 5, 6, 7}},
        {awq_int4, 4, 32, 8, 0, 1, TENMAP_AS_STORED, 2, 0, {0, 4, 1, 5, 2, 6, 3, 7}},
        {packed_int4, 4, 32, 8, 0, 0, TENMAP_AS_STORED, 0, 8, {0, 1, 2, 3, 4, 5, 6, 7}},
        {mlx_4, 4, 32, 8, 0, 0, TENMAP_AS_STORED, 4, 0, {0, 1, 2, 3, 4, 5, 6, 7}},
        {gpt_oss, 4, 8, 2, 0, 1, TENMAP_F4, 0, 0, {0, 1}},
        {nvfp4_modelopt, 4, 8, 2, 0, 0, TENMAP_F4, 0, 0, {0, 1}},
        {bnb_nf4, 4, 8, 2, 0, 0, TENMAP_AS_STORED, 0, 0, {1, 0}},
        {fp8_block, 8, 8, 1, 0, 0, TENMAP_F8_E4M3, 0, 0, {0}},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        stored_weight stored;
        memset(&stored, 0, sizeof stored);
        rows[i].make(&stored);
        tenmap_model *m = open_weight(state, &stored);
        const tenmap_packing *p = tenmap_packing_of(tenmap_find(m, stored.name));
        assert_non_null(p);
        if (p->bits != rows[i].bits || p->word_bits != rows[i].word_bits ||
            p->per_word != rows[i].per_word || p->down != rows[i].down ||
            p->transposed != rows[i].transposed || p->code != rows[i].code ||
            p->zeros != rows[i].zeros || p->bias != rows[i].bias ||
            memcmp(p->order, rows[i].order, p->per_word) != 0)
            fail_msg("%s: %u bits, %u per %u, down %u, transposed %u, code %u, zeros %u, bias %d",
                     stored.label, p->bits, p->per_word, p->word_bits, p->down, p->transposed,
                     p->code, p->zeros, p->bias);
        tenmap_close(m);
        free_weight(&stored);
        (void)remove(in_folder(state, "config.json"));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(products_of_parts_equal_those_of_values, empty_folder),
        cmocka_unit_test_setup(parts_come_in_the_order_of_their_roles, empty_folder),
        cmocka_unit_test_setup(packings_are_those_of_the_formats, empty_folder),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
