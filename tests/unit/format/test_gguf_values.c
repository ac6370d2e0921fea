/* Values of block dtypes through every call that reads elements. */
#include "gguf_files.h"
#include "io_files.h"

enum { ROWS = 6, COLUMNS = 512, ALL = ROWS * COLUMNS };

/* ggml's types, with the elements and bytes of a block. */
static const struct {
    uint32_t type, elements, bytes;
} types[] = {{2, 32, 18},  {8, 32, 34},   {12, 256, 144}, {14, 256, 210}, {39, 32, 17},
             {40, 64, 36}, {41, 128, 18}, {16, 256, 66},  {10, 256, 84},  {15, 256, 292}};

static bytes make_file(size_t i) {
    gguf_file f;
    gguf_begin(&f, 1, 0);
    gguf_row(&f, "w", ROWS, COLUMNS, types[i].type, 0);
    gguf_data(&f, (size_t)ALL / types[i].elements * types[i].bytes);
    return f.out;
}

static float whole[ALL], part[ALL];

static void assert_same_floats(const float *a, const float *b, size_t count) {
    assert_memory_equal(a, b, count * sizeof *a); /* NaN too: there is only one */
}

static void check_ranges(const tenmap_tensor *t) {
    static const uint64_t ranges[][2] = {{0, 1},       {1, 31},      {31, 2},   {255, 258},
                                         {511, 1},     {512, 512},   {700, 41}, {0, ALL},
                                         {1, ALL - 2}, {ALL - 1, 1}, {ALL, 0}};
    for (size_t i = 0; i < COUNT(ranges); i++) {
        size_t count = (size_t)ranges[i][1];
        memset(part, 0, sizeof part);
        assert_int_equal(
            tenmap_read(t, ranges[i][0], count, TENMAP_F32, part, count * sizeof *part, 0, NULL),
            TENMAP_OK);
        assert_same_floats(part, whole + ranges[i][0], count);
    }
}

static void check_slices(const tenmap_tensor *t) {
    static const uint64_t begins[][2] = {{0, 0}, {1, 5}, {2, 250}, {0, 511}};
    static const uint64_t ends[][2] = {{6, 512}, {5, 40}, {4, 300}, {6, 512}};
    for (size_t i = 0; i < COUNT(begins); i++) {
        size_t wide = (size_t)(ends[i][1] - begins[i][1]);
        assert_int_equal(
            tenmap_read_slice(t, begins[i], ends[i], TENMAP_F32, part, sizeof part, 0, NULL),
            TENMAP_OK);
        for (uint64_t row = begins[i][0]; row < ends[i][0]; row++)
            assert_same_floats(part + (row - begins[i][0]) * wide,
                               whole + row * COLUMNS + begins[i][1], wide);
    }
}

/* Whole from memory; then ranges, slices and loads on every backend. */
static void ranges_and_slices_begin_anywhere(void **state) {
    const char *path = in_folder(state, "w.gguf");
    for (size_t i = 0; i < COUNT(types); i++) {
        bytes file = make_file(i);
        write_file(path, file.at, file.size);
        tenmap_model *memory = must_open_memory(file, NULL);
        const tenmap_tensor *t = tenmap_find(memory, "w");
        assert_int_equal(
            tenmap_convert(TENMAP_F32, whole, sizeof whole, t->dtype, t->data, ALL, 0, NULL),
            TENMAP_OK);
        check_ranges(t);
        io_files files = {0};
        tenmap_io io = io_files_io(&files);
        for (int way = 0; way < 3; way++) {
            tenmap_options options = TENMAP_OPTIONS_INIT;
            options.backend = way == 1 ? TENMAP_BACKEND_READ : TENMAP_BACKEND_MAP;
            options.io = way == 2 ? &io : NULL;
            tenmap_model *m = must_open(path, &options);
            check_ranges(tenmap_find(m, "w"));
            check_slices(tenmap_find(m, "w"));
            tenmap_request request = {.tensor = tenmap_find(m, "w"), .as = TENMAP_F32, .dst = part};
            request.dst_bytes = sizeof part;
            memset(part, 0, sizeof part);
            assert_int_equal(tenmap_load(m, &request, 1, NULL, NULL), TENMAP_OK);
            assert_same_floats(part, whole, ALL);
            tenmap_close(m);
        }
        tenmap_close(memory);
        free(file.at);
    }
}

static void as_stored_means_whole_blocks(void **state) {
    (void)state;
    bytes file = make_file(0);
    tenmap_model *m = must_open_memory(file, NULL);
    const tenmap_tensor *t = tenmap_find(m, "w");
    unsigned char stored[ALL / 32 * 18];
    tenmap_error error;
    assert_int_equal(tenmap_read(t, 64, 96, TENMAP_AS_STORED, stored, 54, 0, NULL), TENMAP_OK);
    assert_memory_equal(stored, (const char *)t->data + 36, 54);
    assert_int_equal(tenmap_read(t, 64, 96, TENMAP_AS_STORED, stored, 53, 0, &error),
                     TENMAP_ERR_BUFFER);
    assert_int_equal(tenmap_read(t, 1, 32, TENMAP_AS_STORED, stored, 54, 0, &error),
                     TENMAP_ERR_RANGE);
    assert_non_null(strstr(error.message, "whole blocks of 32 elements"));
    assert_int_equal(tenmap_read(t, 0, 33, TENMAP_Q4_0, stored, 54, 0, &error), TENMAP_ERR_RANGE);
    const uint64_t begin[] = {1, 32}, end[] = {3, 96}, ragged[] = {3, 97};
    assert_int_equal(tenmap_read_slice(t, begin, end, TENMAP_AS_STORED, stored, 72, 0, NULL),
                     TENMAP_OK);
    assert_memory_equal(stored, (const char *)t->data + (512 + 32) / 32 * 18, 36);
    assert_memory_equal(stored + 36, (const char *)t->data + (1024 + 32) / 32 * 18, 36);
    assert_int_equal(tenmap_read_slice(t, begin, ragged, TENMAP_AS_STORED, stored, 108, 0, &error),
                     TENMAP_ERR_RANGE);
    assert_ptr_equal(tenmap_view(t, TENMAP_Q4_0, NULL), t->data);
    assert_null(tenmap_view(t, TENMAP_F32, &error));
    assert_int_equal(error.status, TENMAP_ERR_DTYPE);
    assert_non_null(strstr(error.message, "it holds Q4_0, not F32 (tenmap_read converts"));
    assert_int_equal(tenmap_read(t, 0, 32, TENMAP_I8, stored, 32, 0, &error),
                     TENMAP_ERR_UNSUPPORTED);
    tenmap_close(m);
    free(file.at);
}

/* Bytes of another dtype may be taken as blocks, and blocks as bytes. */
static void bytes_are_taken_for_blocks(void **state) {
    (void)state;
    bytes file = make_file(0);
    tenmap_model *m = must_open_memory(file, NULL);
    const tenmap_tensor *t = tenmap_find(m, "w");
    unsigned char stored[ALL / 32 * 18];
    assert_int_equal(
        tenmap_read_as(t, TENMAP_U8, 0, t->nbytes, TENMAP_U8, stored, sizeof stored, 0, NULL),
        TENMAP_OK);
    assert_memory_equal(stored, t->data, sizeof stored);
    assert_int_equal(
        tenmap_read_as(t, TENMAP_IQ4_NL, 5, 40, TENMAP_F32, part, sizeof part, 0, NULL), TENMAP_OK);
    assert_int_equal(
        tenmap_convert(TENMAP_F32, whole, sizeof whole, TENMAP_IQ4_NL, t->data, 64, 0, NULL),
        TENMAP_OK);
    assert_same_floats(part, whole + 5, 40);
    tenmap_close(m);
    free(file.at);
}

/* The values are measured, which gives the same as an F32 tensor with those values. */
static void blocks_are_measured_as_f32(void **state) {
    const char *path = in_folder(state, "w.gguf");
    for (size_t i = 0; i < COUNT(types); i++) {
        bytes file = make_file(i), plain = make_model("{\"w\":{\"dtype\":\"F32\",\"shape\":[3072],"
                                                      "\"data_offsets\":[0,12288]}}",
                                                      ALL * 4);
        write_file(path, file.at, file.size);
        tenmap_model *memory = must_open_memory(file, NULL), *floats;
        const tenmap_tensor *t = tenmap_find(memory, "w");
        assert_int_equal(tenmap_read(t, 0, ALL, TENMAP_F32, whole, sizeof whole, 0, NULL),
                         TENMAP_OK);
        for (size_t k = 0; k < ALL; k++) { /* the file's order is little-endian */
            uint32_t bits;
            memcpy(&bits, &whole[k], 4);
            for (size_t b = 0; b < 4; b++)
                plain.at[plain.size - ALL * 4 + 4 * k + b] = (unsigned char)(bits >> 8 * b);
        }
        floats = must_open_memory(plain, NULL);
        const tenmap_tensor *f = tenmap_find(floats, "w");
        tenmap_stats want, got;
        assert_int_equal(tenmap_measure(&f, 1, NULL, &want, NULL), TENMAP_OK);
        assert_int_equal(tenmap_measure(&t, 1, NULL, &got, NULL), TENMAP_OK);
        assert_memory_equal(&got, &want, sizeof want);
        tenmap_options options = TENMAP_OPTIONS_INIT;
        options.backend = TENMAP_BACKEND_READ;
        tenmap_model *m = must_open(path, &options);
        t = tenmap_find(m, "w");
        assert_int_equal(tenmap_measure(&t, 1, NULL, &got, NULL), TENMAP_OK);
        assert_memory_equal(&got, &want, sizeof want);
        tenmap_close(m);
        tenmap_close(floats);
        tenmap_close(memory);
        free(plain.at);
        free(file.at);
    }
}

static void copies_into_safetensors_are_converted(void **state) {
    const char *out = in_folder(state, "out.safetensors");
    for (size_t i = 0; i < COUNT(types); i++) {
        bytes file = make_file(i);
        tenmap_model *m = must_open_memory(file, NULL);
        const tenmap_tensor *t = tenmap_find(m, "w");
        tenmap_writer *writer;
        static uint16_t want[ALL], got[ALL];
        tenmap_error error;
        assert_int_equal(tenmap_writer_create(out, NULL, &writer, NULL), TENMAP_OK);
        assert_int_equal(
            tenmap_writer_add(writer, "q", 1, t->dtype, t->shape, t->rank, NULL, &error),
            TENMAP_ERR_ARGUMENT);
        assert_int_equal(
            tenmap_writer_add(writer, "w", 1, TENMAP_BF16, t->shape, t->rank, NULL, NULL),
            TENMAP_OK);
        assert_int_equal(tenmap_writer_copy(writer, 0, t, 0, &error), TENMAP_OK);
        assert_int_equal(tenmap_writer_commit(writer, NULL), TENMAP_OK);
        assert_int_equal(tenmap_read(t, 0, ALL, TENMAP_BF16, want, sizeof want, 0, NULL),
                         TENMAP_OK);
        tenmap_model *copy = must_open(out, NULL);
        assert_int_equal(
            tenmap_read(tenmap_find(copy, "w"), 0, ALL, TENMAP_BF16, got, sizeof got, 0, NULL),
            TENMAP_OK);
        assert_memory_equal(got, want, sizeof want);
        tenmap_close(copy);
        tenmap_close(m);
        free(file.at);
    }
}

/*
 * NVFP4 for experts, for one matrix, and without a scale. Scales that belong to no weight stay
 * listed.
 */
enum { EXPERTS = 2, EXPERT = 3 * 64, ONE = 4 * 128, NVFP4_TYPE = 40 };

static bytes make_nvfp4(const float *scales, uint32_t scale_type, uint64_t scale_count) {
    gguf_file f;
    gguf_begin(&f, 5, 0);
    gguf_text(&f, "e.weight");
    gguf_number(&f, 3, 4);
    gguf_number(&f, 64, 8);
    gguf_number(&f, 3, 8);
    gguf_number(&f, EXPERTS, 8);
    gguf_number(&f, NVFP4_TYPE, 4);
    gguf_number(&f, 0, 8); /* 216 bytes */
    gguf_text(&f, "e.scale");
    gguf_number(&f, 1, 4);
    gguf_number(&f, scale_count, 8);
    gguf_number(&f, scale_type, 4);
    gguf_number(&f, 224, 8);
    gguf_row(&f, "o.weight", 4, 128, NVFP4_TYPE, 256); /* 288 bytes */
    gguf_row(&f, "o.scale", 1, 1, 0, 544);
    gguf_row(&f, "p.weight", 1, 64, NVFP4_TYPE, 576); /* 36 bytes */
    gguf_data(&f, 576 + 36);
    unsigned char *data = (unsigned char *)f.out.at + f.out.size - (576 + 36);
    for (size_t i = 0; i < 3; i++) {
        uint32_t bits;
        memcpy(&bits, &scales[i], sizeof bits);
        for (size_t k = 0; k < 4; k++)
            data[(i < 2 ? 224 + 4 * i : 544) + k] = (unsigned char)(bits >> 8 * k);
    }
    memset(data + 216, 0, 8); /* padding */
    memset(data + 232, 0, 24);
    memset(data + 548, 0, 28);
    return f.out;
}

static void check_scaled(const tenmap_tensor *t, const tenmap_tensor *plain, const float *scales,
                         size_t matrix) {
    float stored[ONE], values[ONE];
    const tenmap_scheme *scheme = tenmap_scheme_of(t);
    assert_int_equal(t->flags & TENMAP_TENSOR_COMPUTED, TENMAP_TENSOR_COMPUTED);
    assert_int_equal(t->dtype, TENMAP_F32);
    assert_int_equal(t->nelems, plain->nelems);
    assert_string_equal(scheme->name, "nvfp4");
    assert_int_equal(scheme->bits, 4);
    assert_int_equal(scheme->group_columns, 16);
    assert_int_equal(scheme->part_count, 2);
    assert_int_equal(tenmap_part_at(t, 0)->dtype, TENMAP_NVFP4);
    assert_int_equal(
        tenmap_read(plain, 0, plain->nelems, TENMAP_F32, stored, sizeof stored, 0, NULL),
        TENMAP_OK);
    for (size_t first = 0; first < plain->nelems; first += 7) {
        size_t count = (size_t)plain->nelems - first;
        assert_int_equal(tenmap_read(t, first, count, TENMAP_F32, values, sizeof values, 0, NULL),
                         TENMAP_OK);
        for (size_t i = 0; i < count; i++) {
            float wanted = stored[first + i] * scales[(first + i) / matrix];
            assert_memory_equal(&values[i], &wanted, sizeof wanted);
        }
    }
}

static void nvfp4_is_multiplied_by_its_scale(void **state) {
    static const float scales[] = {0.375f, -3.1f, 1e-3f};
    (void)state;
    bytes file = make_nvfp4(scales, 0, EXPERTS);
    tenmap_options options = TENMAP_OPTIONS_INIT;
    tenmap_model *plain = must_open_memory(file, NULL);
    options.flags = TENMAP_OPEN_DEQUANTIZE;
    tenmap_model *m = must_open_memory(file, &options);
    assert_int_equal(tenmap_count(plain), 5);
    assert_int_equal(tenmap_count(m), 3);
    assert_null(tenmap_find(m, "e.scale"));
    check_scaled(tenmap_find(m, "e.weight"), tenmap_find(plain, "e.weight"), scales, EXPERT);
    check_scaled(tenmap_find(m, "o.weight"), tenmap_find(plain, "o.weight"), scales + 2, ONE);
    const tenmap_tensor *alone = tenmap_find(m, "p.weight");
    assert_int_equal(alone->dtype, TENMAP_NVFP4);
    assert_string_equal(tenmap_scheme_of(alone)->name, "nvfp4");
    assert_int_equal(tenmap_scheme_of(alone)->part_count, 0);
    tenmap_close(m);
    tenmap_close(plain);
    free(file.at);
}

/* The error names a scale that fits no matrix, or is not a number, and what was expected. */
static void nvfp4_scales_must_fit(void **state) {
    static const float scales[] = {1, 1, 1};
    static const struct {
        uint32_t type;
        uint64_t count;
        const char *words;
    } bad[] = {{0, 3, "one for each matrix"}, {26, 2, "F32, F16 or BF16"}};
    (void)state;
    for (size_t i = 0; i < COUNT(bad); i++) {
        bytes file = make_nvfp4(scales, bad[i].type, bad[i].count);
        tenmap_options options = TENMAP_OPTIONS_INIT;
        tenmap_model *m;
        tenmap_error error;
        options.flags = TENMAP_OPEN_DEQUANTIZE;
        assert_int_equal(tenmap_open_memory(file.at, file.size, &options, &m, &error),
                         TENMAP_ERR_FORMAT);
        assert_null(m);
        assert_non_null(strstr(error.message, bad[i].words));
        assert_non_null(strstr(error.message, "e.weight"));
        free(file.at);
    }
}

/* The scheme of a block dtype is its name in lower case; its groups divide its blocks. */
static void block_dtypes_are_schemes(void **state) {
    (void)state;
    for (size_t i = 0; i < COUNT(types); i++) {
        bytes file = make_file(i);
        tenmap_model *m = must_open_memory(file, NULL);
        const tenmap_tensor *t = tenmap_find(m, "w");
        const tenmap_scheme *scheme = tenmap_scheme_of(t);
        const char *dtype = tenmap_dtype_name(t->dtype);
        assert_int_equal(strlen(scheme->name), strlen(dtype));
        for (size_t k = 0; dtype[k]; k++)
            assert_int_equal(scheme->name[k] | 32, dtype[k] | 32);
        assert_int_equal(types[i].elements % scheme->group_columns, 0);
        assert_int_equal(scheme->group_rows, 1);
        assert_int_equal(scheme->part_count, 0);
        assert_true(scheme->bits * types[i].elements <= 8 * types[i].bytes);
        assert_null(tenmap_part_at(t, 0));
        tenmap_close(m);
        free(file.at);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(ranges_and_slices_begin_anywhere, empty_folder),
        cmocka_unit_test(as_stored_means_whole_blocks),
        cmocka_unit_test(bytes_are_taken_for_blocks),
        cmocka_unit_test_setup(blocks_are_measured_as_f32, empty_folder),
        cmocka_unit_test_setup(copies_into_safetensors_are_converted, empty_folder),
        cmocka_unit_test(nvfp4_is_multiplied_by_its_scale),
        cmocka_unit_test(nvfp4_scales_must_fit),
        cmocka_unit_test(block_dtypes_are_schemes),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
