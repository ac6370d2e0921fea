/*
 * tenmap_take gives views if dtype, shape, alignment and backend allow it, puts the rest into one
 * arena, and reports everything that is wrong in one error. Every combination of wants is tried, on
 * every backend.
 */
#include "model/model.h"
#include "support.h"

#include <stdatomic.h>

/* "odd" begins at an odd byte; the tensors after it stay aligned. */
static const char take_json[] =
    "{\"f32\":{\"dtype\":\"F32\",\"shape\":[4,6],\"data_offsets\":[0,96]},"
    "\"bf16\":{\"dtype\":\"BF16\",\"shape\":[8],\"data_offsets\":[96,112]},"
    "\"i64\":{\"dtype\":\"I64\",\"shape\":[3],\"data_offsets\":[112,136]},"
    "\"u8\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[136,137]},"
    "\"odd\":{\"dtype\":\"F16\",\"shape\":[3,5],\"data_offsets\":[137,167]},"
    "\"layers.0.w\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[167,169]},"
    "\"layers.12.w\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[169,172]},"
    "\"layers.12.experts.7.w\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[172,176]},"
    "\"100%u\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[176,176]},"
    "\"s\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[176,180]}           }";
enum { TAKE_DATA = 180 };

static tenmap_model *open_take(void **state, uint32_t backend) {
    const char *path = in_folder(state, "t.safetensors");
    tenmap_options options = TENMAP_OPTIONS_INIT;
    options.backend = backend;
    options.flags = TENMAP_OPEN_LENIENT;
    /* The data begins at a multiple of 8, as writers have it. */
    char json[sizeof take_json + 8];
    snprintf(json, sizeof json, "%s", take_json);
    while (strlen(json) % 8)
        strcat(json, " ");
    write_model(path, json, TAKE_DATA);
    return must_open(path, &options);
}

/* What can be wanted, and the outcome. */
enum outcome { OUTCOME_VIEW, OUTCOME_COPY, OUTCOME_NOTHING, OUTCOME_BAD };

static const uint64_t shape_4x6[2] = {4, 6}, shape_6x4[2] = {6, 4},
                      shape_any6[2] = {(uint64_t)-1, 6};

static const struct kind {
    tenmap_want want;
    enum outcome mapped; /* with a mapping; without one, a view is a copy */
    tenmap_status status;
    const char *says;
} kinds[] = {
    {{.name = "f32", .as = TENMAP_F32, .rank = 2, .shape = shape_4x6}, OUTCOME_VIEW, 0, NULL},
    {{.name = "f32", .as = TENMAP_BF16, .rank = 2, .shape = shape_any6}, OUTCOME_COPY, 0, NULL},
    {{.name = "bf16", .as = TENMAP_F32, .rank = 1}, OUTCOME_COPY, 0, NULL},
    {{.name = "odd"}, OUTCOME_COPY, 0, NULL},
    {{.name = "i64", .as = TENMAP_I64, .flags = TENMAP_WANT_OPTIONAL}, OUTCOME_VIEW, 0, NULL},
    {{.name = "u8", .flags = TENMAP_WANT_COPY, .alignment = 4096}, OUTCOME_COPY, 0, NULL},
    {{.name = "none", .as = TENMAP_F32, .flags = TENMAP_WANT_OPTIONAL}, OUTCOME_NOTHING, 0, NULL},
    {{.name = "gone", .as = TENMAP_F32}, OUTCOME_BAD, TENMAP_ERR_NOT_FOUND, "\"gone\" is missing"},
    {{.name = "f32", .rank = 2, .shape = shape_6x4},
     OUTCOME_BAD,
     TENMAP_ERR_RANGE,
     "\"f32\" is [4, 6], not [6, 4]"},
    {{.name = "bf16", .rank = 2, .flags = TENMAP_WANT_OPTIONAL},
     OUTCOME_BAD,
     TENMAP_ERR_RANGE,
     "\"bf16\" is [8], not of rank 2"},
    {{.name = "odd", .as = TENMAP_I8},
     OUTCOME_BAD,
     TENMAP_ERR_UNSUPPORTED,
     "\"odd\" is F16, which does not convert to I8"},
};

static atomic_size_t times_done[64];
static size_t progress_calls, cancel_in;

static void count_done(void *ctx, size_t want, tenmap_status status) {
    const tenmap_want *wants = ctx;
    if (status == TENMAP_OK && wants[want].tensor && !wants[want].data)
        return; /* called too early: the count will be wrong */
    atomic_fetch_add(&times_done[want], 1);
}

static int count_progress(void *ctx, uint64_t done, uint64_t total) {
    (void)ctx;
    (void)done;
    (void)total;
    return ++progress_calls == cancel_in;
}

static tenmap_load_options told(tenmap_want *wants, uint32_t flags) {
    tenmap_load_options options = TENMAP_LOAD_OPTIONS_INIT;
    options.flags = flags;
    options.threads = 2;
    options.done = count_done;
    options.progress = count_progress;
    options.ctx = wants;
    progress_calls = cancel_in = 0;
    memset(times_done, 0, sizeof times_done);
    return options;
}

static void must_be_cleared(const tenmap_want *wants, size_t n, const tenmap_arena *arena) {
    assert_null(arena);
    for (size_t i = 0; i < n; i++) {
        assert_null(wants[i].data);
        assert_null(wants[i].tensor);
    }
}

/* The result must equal a read, and be a view or in the arena as expected. */
static void check_taken(const tenmap_want *want, enum outcome outcome) {
    unsigned char expected[256];
    const tenmap_tensor *t = want->tensor;
    if (outcome == OUTCOME_NOTHING) {
        assert_null(want->data);
        assert_null(t);
        return;
    }
    tenmap_dtype as = want->as ? want->as : t->dtype;
    size_t size = (size_t)(t->nelems * tenmap_dtype_bits(as) / 8);
    assert_int_equal(tenmap_read(t, 0, t->nelems, as, expected, sizeof expected, 0, NULL),
                     TENMAP_OK);
    assert_memory_equal(want->data, expected, size);
    if (outcome == OUTCOME_VIEW)
        assert_ptr_equal(want->data, t->data);
    else
        assert_true(want->data != t->data);
    uintptr_t alignment = outcome == OUTCOME_COPY ? 64 : tmi_dtypes[as].align;
    if (want->alignment > alignment)
        alignment = want->alignment;
    assert_int_equal((uintptr_t)want->data % alignment, 0);
}

/* Tries one combination: bit k says whether kind k is wanted. */
static void try_mix(const tenmap_model *m, unsigned mix, uint32_t flags) {
    tenmap_want wants[COUNT(kinds)];
    enum outcome outcomes[COUNT(kinds)];
    size_t n = 0, bad = 0, first = 0, copies = 0;
    tenmap_status expected = TENMAP_OK;
    for (size_t k = 0; k < COUNT(kinds); k++) {
        if (!(mix >> k & 1))
            continue;
        outcomes[n] = kinds[k].mapped;
        if (outcomes[n] == OUTCOME_VIEW && (!tenmap_at(m, 0)->data || TMI_BIG_ENDIAN))
            outcomes[n] = OUTCOME_COPY;
        copies += outcomes[n] == OUTCOME_COPY;
        if (outcomes[n] == OUTCOME_BAD && bad++ == 0) {
            first = n;
            expected = kinds[k].status;
        }
        wants[n] = kinds[k].want;
        wants[n].data = wants[n].tensor = (const void *)wants; /* previous values do not matter */
        n++;
    }
    tenmap_load_options options = told(wants, flags);
    tenmap_arena *arena = (tenmap_arena *)(void *)wants;
    tenmap_error error;
    tenmap_status status = tenmap_take(m, wants, n, &options, &arena, &error);
    if (status != expected)
        fail_msg("mix %x: %s", mix, tenmap_status_name(status));
    if (expected != TENMAP_OK) {
        char counted[64];
        check_error(&error, expected);
        assert_int_equal(error.index, first);
        snprintf(counted, sizeof counted, "%zu of %zu weights", bad, n);
        assert_non_null(strstr(error.message, counted));
        for (size_t k = 0; k < COUNT(kinds); k++)
            if (mix >> k & 1 && kinds[k].says && !strstr(error.message, kinds[k].says))
                fail_msg("\"%s\" does not hold \"%s\"", error.message, kinds[k].says);
        must_be_cleared(wants, n, arena);
        assert_int_equal(progress_calls, 0);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        check_taken(&wants[i], outcomes[i]);
        assert_int_equal(times_done[i], 1);
    }
    assert_true(copies ? arena != NULL : arena == NULL);
    assert_true(progress_calls >= 1);
    tenmap_arena_free(arena);
}

static void every_mix_on_every_backend(void **state) {
    for (uint32_t way = 0; way < 4; way++) {
        tenmap_model *m = open_take(state, way % 2);
        assert_true(!tenmap_find(m, "odd")->data ||
                    (uintptr_t)tenmap_find(m, "odd")->data % 2 == 1);
        for (unsigned mix = 0; mix < 1u << COUNT(kinds); mix++)
            try_mix(m, mix, way / 2 ? TENMAP_LOAD_READ : 0);
        tenmap_close(m);
    }
}

static void names_take_the_numbers_of_layers_and_experts(void **state) {
    tenmap_model *m = open_take(state, TENMAP_BACKEND_MAP);
    char long_name[400];
    memset(long_name, 'x', sizeof long_name);
    memcpy(long_name + 380, "%u", 3);
    tenmap_want wants[] = {
        {.name = "layers.%u.w", .flags = TENMAP_WANT_LAYER(0)},
        {.name = "layers.%u.w", .flags = TENMAP_WANT_LAYER(12)},
        {.name = "layers.%u.experts.%u.w", .flags = TENMAP_WANT_LAYER(12) | TENMAP_WANT_EXPERT(7)},
        {.name = "layers.12.experts.%u.w", .flags = TENMAP_WANT_EXPERT(7)},
        {.name = "100%u"}, /* no number: the name is literal */
        {.name = long_name, .flags = TENMAP_WANT_LAYER(4093) | TENMAP_WANT_OPTIONAL},
    };
    static const uint64_t elements[] = {2, 3, 4, 4, 0};
    tenmap_arena *arena;
    tenmap_error error;
    if (tenmap_take(m, wants, COUNT(wants), NULL, &arena, &error) != TENMAP_OK)
        fail_msg("%s", error.message);
    for (size_t i = 0; i < COUNT(elements); i++)
        assert_int_equal(wants[i].tensor->nelems, elements[i]);
    assert_null(wants[5].tensor);
    tenmap_arena_free(arena);
    wants[1].flags = TENMAP_WANT_LAYER(13);
    wants[5].flags = TENMAP_WANT_LAYER(17);
    assert_int_equal(tenmap_take(m, wants, COUNT(wants), NULL, &arena, &error),
                     TENMAP_ERR_NOT_FOUND);
    assert_non_null(strstr(error.message, "\"layers.13.w\" is missing"));
    assert_non_null(strstr(error.message, "2 of 6 weights"));
    tenmap_close(m);
}

static void a_weight_that_is_there_in_parts_is_told(void **state) {
    static const char *const json[] = {
        "{\"m.qweight\":{\"dtype\":\"I32\",\"shape\":[1,8],\"data_offsets\":[0,32]},"
        "\"m.scales\":{\"dtype\":\"F16\",\"shape\":[1,8],\"data_offsets\":[32,48]}}",
        "{\"m.weight_packed\":{\"dtype\":\"U8\",\"shape\":[1,16],\"data_offsets\":[0,16]},"
        "\"m.weight_scale\":{\"dtype\":\"U8\",\"shape\":[1,32],\"data_offsets\":[16,48]}}",
        "{\"m.qweights\":{\"dtype\":\"I32\",\"shape\":[1,8],\"data_offsets\":[0,32]},"
        "\"m.scales\":{\"dtype\":\"F16\",\"shape\":[1,8],\"data_offsets\":[32,48]}}",
        "{\"m.W_q\":{\"dtype\":\"U8\",\"shape\":[32],\"data_offsets\":[0,32]},"
        "\"m.scale\":{\"dtype\":\"F16\",\"shape\":[1,8],\"data_offsets\":[32,48]}}",
    };
    for (size_t i = 0; i < COUNT(json); i++) {
        tenmap_want want = {.name = "m.weight"};
        tenmap_error error = {0};
        tenmap_arena *arena;
        write_model(in_folder(state, "q.safetensors"), json[i], 48);
        tenmap_model *m = must_open(in_folder(state, "q.safetensors"), NULL);
        tenmap_status status = tenmap_take(m, &want, 1, NULL, &arena, &error);
        check_refused(status, &error, TENMAP_ERR_NOT_FOUND, "\"m.weight\" is missing");
        assert_int_equal(error.remedy, i < 2 ? TENMAP_REMEDY_DEQUANTIZE : TENMAP_REMEDY_NONE);
        tenmap_close(m);
    }
}

static void wrong_wants_are_found_before_the_model_is_looked_at(void **state) {
    static const struct {
        tenmap_want want;
        const char *says;
    } rows[] = {{{.name = NULL}, "its name is NULL"},
                {{.name = "f32", .flags = 4}, "unknown flags"},
                {{.name = "f32", .reserved = {0, 1}}, "reserved"},
                {{.name = "f32", .alignment = 3}, "power of two"},
                {{.name = "f32", .alignment = 4u << 20}, "power of two"},
                {{.name = "f32", .as = 99}, "dtype is not a known dtype"},
                {{.name = "f32", .flags = TENMAP_WANT_LAYER(1)}, "the number of %u in its name"},
                {{.name = "%u.%u", .flags = TENMAP_WANT_LAYER(1)}, "the number of %u in its name"},
                {{.name = "%u", .flags = TENMAP_WANT_LAYER(4094)}, "larger than 4093"},
                {{.name = "%u", .flags = TENMAP_WANT_EXPERT(70000)}, "larger than 4093"}};
    tenmap_model *m = open_take(state, TENMAP_BACKEND_MAP);
    tenmap_error error;
    tenmap_arena *arena;
    for (size_t i = 0; i < COUNT(rows); i++) {
        tenmap_want wants[2] = {{.name = "gone"}, rows[i].want};
        assert_int_equal(tenmap_take(m, wants, 2, NULL, &arena, &error), TENMAP_ERR_ARGUMENT);
        assert_int_equal(error.index, 1);
        if (!strstr(error.message, rows[i].says))
            fail_msg("\"%s\" does not hold \"%s\"", error.message, rows[i].says);
        assert_int_equal(tenmap_take(m, wants, 2, NULL, &arena, NULL), TENMAP_ERR_ARGUMENT);
        must_be_cleared(wants, 2, arena);
    }
    tenmap_want want = {.name = "f32"};
    tenmap_load_options options = {.struct_size = 1};
    assert_int_equal(tenmap_take(NULL, &want, 1, NULL, &arena, &error), TENMAP_ERR_ARGUMENT);
    assert_int_equal(tenmap_take(m, NULL, 1, NULL, &arena, &error), TENMAP_ERR_ARGUMENT);
    assert_int_equal(tenmap_take(m, &want, 1, NULL, NULL, &error), TENMAP_ERR_ARGUMENT);
    assert_int_equal(tenmap_take(m, &want, 1, &options, &arena, &error), TENMAP_ERR_ARGUMENT);
    assert_int_equal(tenmap_take(m, NULL, 0, NULL, &arena, &error), TENMAP_OK);
    assert_null(arena);
    tenmap_arena_free(NULL);
    tenmap_close(m);
}

static void of_many_that_are_missing_the_first_are_named_and_the_rest_counted(void **state) {
    enum { MANY = 291 };
    tenmap_model *m = open_take(state, TENMAP_BACKEND_MAP);
    tenmap_want wants[MANY];
    memset(wants, 0, sizeof wants);
    for (size_t i = 0; i < MANY; i++) {
        wants[i].name = "model.layers.%u.self_attn.q_proj.weight";
        wants[i].flags = TENMAP_WANT_LAYER(i);
    }
    tenmap_arena *arena;
    tenmap_error error;
    assert_int_equal(tenmap_take(m, wants, MANY, NULL, &arena, &error), TENMAP_ERR_NOT_FOUND);
    check_error(&error, TENMAP_ERR_NOT_FOUND);
    assert_non_null(strstr(error.message, "291 of 291 weights"));
    assert_non_null(
        strstr(error.message, "\"model.layers.0.self_attn.q_proj.weight\" is missing, "));
    size_t length = strlen(error.message);
    assert_non_null(strstr(error.message + length - 12, " more"));
    tenmap_close(m);
}

/* A model in memory has no path that an error could name. */
static void what_is_missing_in_memory_is_named(void **state) {
    (void)state;
    bytes file = make_model("{\"t\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1);
    tenmap_model *m = must_open_memory(file, NULL);
    tenmap_want want = {.name = "gone"};
    tenmap_arena *arena;
    tenmap_error error;
    check_refused(tenmap_take(m, &want, 1, NULL, &arena, &error), &error, TENMAP_ERR_NOT_FOUND,
                  "\"memory\": 1 of 1 weights are missing or do not fit: \"gone\" is missing");
    must_be_cleared(&want, 1, arena);
    tenmap_close(m);
    free(file.at);
}

static void the_arena_outlives_the_model(void **state) {
    tenmap_model *m = open_take(state, TENMAP_BACKEND_MAP);
    unsigned char expected[96];
    assert_int_equal(tenmap_read_bytes(tenmap_find(m, "f32"), 0, 96, expected, NULL), TENMAP_OK);
    tenmap_want wants[2] = {{.name = "s", .as = TENMAP_F64, .rank = 0, .shape = shape_4x6},
                            {.name = "f32", .flags = TENMAP_WANT_COPY}};
    tenmap_arena *arena;
    assert_int_equal(tenmap_take(m, wants, 2, NULL, &arena, NULL), TENMAP_OK);
    tenmap_close(m);
    if (!TMI_BIG_ENDIAN)
        assert_memory_equal(wants[1].data, expected, sizeof expected);
    tenmap_arena_free(arena);
}

/* A tensor of an unknown dtype can only be taken as it is stored. */
static void unknown_dtypes_are_taken_as_bytes(void **state) {
    const char *path = in_folder(state, "o.safetensors");
    write_model(path, "{\"o\":{\"dtype\":\"F5\",\"shape\":[8],\"data_offsets\":[0,5]}}", 5);
    for (uint32_t backend = 0; backend < 2; backend++) {
        tenmap_options options = TENMAP_OPTIONS_INIT;
        options.backend = backend;
        options.flags = TENMAP_OPEN_LENIENT;
        tenmap_model *m = must_open(path, &options);
        tenmap_want want = {.name = "o", .flags = backend ? 0 : TENMAP_WANT_COPY};
        tenmap_arena *arena;
        tenmap_error error;
        assert_int_equal(tenmap_take(m, &want, 1, NULL, &arena, &error), TENMAP_OK);
        for (size_t i = 0; i < 5; i++)
            assert_int_equal(((const unsigned char *)want.data)[i], pattern_byte(i));
        tenmap_arena_free(arena);
        want.as = TENMAP_F32;
        assert_int_equal(tenmap_take(m, &want, 1, NULL, &arena, &error), TENMAP_ERR_UNSUPPORTED);
        assert_non_null(strstr(error.message, "F5"));
        tenmap_close(m);
    }
}

/* Large enough for several units: a cancel in the middle, and integers that do not fit. */
static void what_ends_the_load_ends_the_take(void **state) {
    enum { LARGE = 12 << 20 };
    char json[200];
    const char *path = in_folder(state, "large.safetensors");
    snprintf(json, sizeof json,
             "{\"a\":{\"dtype\":\"U8\",\"shape\":[%d],\"data_offsets\":[0,%d]},"
             "\"b\":{\"dtype\":\"U8\",\"shape\":[%d],\"data_offsets\":[%d,%d]}}",
             LARGE, LARGE, LARGE, LARGE, 2 * LARGE);
    write_model(path, json, (size_t)LARGE * 2);
    tenmap_model *m = must_open(path, NULL);
    tenmap_want wants[3] = {{.name = "a"}, {.name = "b", .as = TENMAP_F32}, {.name = "a"}};
    tenmap_load_options options = told(wants, 0);
    tenmap_arena *arena;
    tenmap_error error;
    options.threads = 1;
    cancel_in = 2;
    assert_int_equal(tenmap_take(m, wants, 3, &options, &arena, &error), TENMAP_ERR_CANCELLED);
    must_be_cleared(wants, 3, arena);
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(times_done[i], 1);
    wants[2].as = TENMAP_BOOL;
    options = told(wants, 0);
    assert_int_equal(tenmap_take(m, wants, 3, &options, &arena, &error), TENMAP_ERR_RANGE);
    assert_int_equal(error.index, 2);
    assert_non_null(strstr(error.message, "does not fit into BOOL"));
    must_be_cleared(wants, 3, arena);
    tenmap_close(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(every_mix_on_every_backend, empty_folder),
        cmocka_unit_test_setup(names_take_the_numbers_of_layers_and_experts, empty_folder),
        cmocka_unit_test_setup(wrong_wants_are_found_before_the_model_is_looked_at, empty_folder),
        cmocka_unit_test_setup(a_weight_that_is_there_in_parts_is_told, empty_folder),
        cmocka_unit_test_setup(of_many_that_are_missing_the_first_are_named_and_the_rest_counted,
                               empty_folder),
        cmocka_unit_test(what_is_missing_in_memory_is_named),
        cmocka_unit_test_setup(the_arena_outlives_the_model, empty_folder),
        cmocka_unit_test_setup(unknown_dtypes_are_taken_as_bytes, empty_folder),
        cmocka_unit_test_setup(what_ends_the_load_ends_the_take, empty_folder),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
