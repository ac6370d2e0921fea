/* Values of block dtypes through every way that leads to a tensor's elements. */
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
    assert_memory_equal(a, b, count * sizeof *a); /* NaN too: there is one only */
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

/* Bytes of another dtype may be taken for blocks, and blocks for bytes. */
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

/* What is measured are the values; against those of an F32 tensor with the same. */
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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(ranges_and_slices_begin_anywhere, empty_folder),
        cmocka_unit_test(as_stored_means_whole_blocks),
        cmocka_unit_test(bytes_are_taken_for_blocks),
        cmocka_unit_test_setup(blocks_are_measured_as_f32, empty_folder),
        cmocka_unit_test_setup(copies_into_safetensors_are_converted, empty_folder),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
