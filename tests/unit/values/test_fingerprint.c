/*
 * tenmap_fingerprint: with values it depends on names, dtypes, shapes and bytes alone, on every
 * backend; without them, on files, their times and their headers.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "support.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char two[] = "{\"a\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]},"
                          "\"b\":{\"dtype\":\"I16\",\"shape\":[4],\"data_offsets\":[24,32]}}";
enum { TWO_DATA = 32 };

/* Opens and fingerprints. */
static void print_path(const char *path, uint32_t backend, uint32_t flags, uint8_t out[32]) {
    tenmap_options options = TENMAP_OPTIONS_INIT;
    tenmap_error error;
    options.backend = backend;
    tenmap_model *m = must_open(path, &options);
    if (tenmap_fingerprint(m, flags, out, &error) != TENMAP_OK)
        fail_msg("%s", error.message);
    tenmap_close(m);
}

/* Writes a model of this header, with the usual pattern as data; fingerprints its values. */
static void print_json(void **state, const char *json, size_t data, uint8_t out[32]) {
    const char *path = in_folder(state, "model.safetensors");
    write_model(path, json, data);
    print_path(path, 0, TENMAP_FINGERPRINT_VALUES, out);
}

static void values_change_with_names_dtypes_shapes_and_bytes(void **state) {
    static const char *const others[] = {
        "{\"c\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]},"
        "\"b\":{\"dtype\":\"I16\",\"shape\":[4],\"data_offsets\":[24,32]}}",
        "{\"a\":{\"dtype\":\"I32\",\"shape\":[2,3],\"data_offsets\":[0,24]},"
        "\"b\":{\"dtype\":\"I16\",\"shape\":[4],\"data_offsets\":[24,32]}}",
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[3,2],\"data_offsets\":[0,24]},"
        "\"b\":{\"dtype\":\"I16\",\"shape\":[4],\"data_offsets\":[24,32]}}",
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[8,32]},"
        "\"b\":{\"dtype\":\"I16\",\"shape\":[4],\"data_offsets\":[0,8]}}"};
    uint8_t first[32], other[32];
    static const uint8_t zeros[16];
    print_json(state, two, TWO_DATA, first);
    assert_memory_equal(first + 16, zeros, 16);
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        print_json(state, others[i], TWO_DATA, other);
        assert_memory_not_equal(first, other, 16);
    }
    print_json(state, two, TWO_DATA, other);
    assert_memory_equal(first, other, 32);
}

/* Metadata and the order of the header do not matter, nor does the backend. */
static void values_do_not_change_with_layout_and_backend(void **state) {
    static const char reordered[] =
        "{\"__metadata__\":{\"k\":\"v\"},"
        "\"b\":{\"dtype\":\"I16\",\"shape\":[4],\"data_offsets\":[24,32]},"
        "\"a\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]}}";
    const char *path = in_folder(state, "model.safetensors");
    uint8_t first[32], other[32];
    print_json(state, reordered, TWO_DATA, other);
    print_json(state, two, TWO_DATA, first);
    assert_memory_equal(first, other, 32);
    print_path(path, TENMAP_BACKEND_READ, TENMAP_FINGERPRINT_VALUES, other);
    assert_memory_equal(first, other, 32);
}

/* A tensor of several pieces; neither threads nor the order of the list matter. */
static void tensors_have_fingerprints_of_their_own(void **state) {
    enum { LARGE = (33 << 20) + 5 };
    char json[200];
    const char *path = in_folder(state, "large.safetensors");
    tenmap_fingerprint_options options = TENMAP_FINGERPRINT_OPTIONS_INIT;
    uint8_t first[3][16], other[3][16], all[16], model[32];
    tenmap_error error;
    snprintf(json, sizeof json,
             "{\"a\":{\"dtype\":\"U8\",\"shape\":[%d],\"data_offsets\":[0,%d]},"
             "\"b\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[%d,%d]}}",
             LARGE, LARGE, LARGE, LARGE);
    write_model(path, json, LARGE);
    tenmap_model *m = must_open(path, NULL);
    const tenmap_tensor *list[3] = {tenmap_at(m, 0), tenmap_at(m, 1), tenmap_at(m, 0)};
    for (options.threads = 1; options.threads < 4; options.threads++) {
        assert_int_equal(tenmap_fingerprint_tensors(list, 3, &options, other[0], &error),
                         TENMAP_OK);
        if (options.threads > 1)
            assert_memory_equal(first, other, sizeof first);
        memcpy(first, other, sizeof first);
    }
    assert_memory_equal(first[0], first[2], 16);
    assert_memory_not_equal(first[0], first[1], 16);
    assert_int_equal(tenmap_fingerprint_combine(m, first[0], all, &error), TENMAP_OK);
    assert_int_equal(tenmap_fingerprint(m, TENMAP_FINGERPRINT_VALUES, model, &error), TENMAP_OK);
    assert_memory_equal(all, model, 16);
    tenmap_close(m);
}

/* Without values, the time of modification counts, and so does the header; the path does not. */
static void headers_and_times_count_without_values(void **state) {
    const char *path = in_folder(state, "model.safetensors");
    struct timespec times[2] = {{1000000000, 0}, {1000000000, 0}};
    uint8_t first[32], other[32];
    write_model(path, two, TWO_DATA);
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
    print_path(path, 0, 0, first);
    print_path(path, TENMAP_BACKEND_READ, 0, other);
    assert_memory_equal(first, other, 32);
    times[1].tv_nsec = 1000;
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
    print_path(path, 0, 0, other);
    assert_memory_not_equal(first, other, 16);
    write_model(path,
                "{\"a\":{\"dtype\":\"F32\",\"shape\":[3,2],\"data_offsets\":[0,24]},"
                "\"b\":{\"dtype\":\"I16\",\"shape\":[4],\"data_offsets\":[24,32]}}",
                TWO_DATA);
    times[1].tv_nsec = 0;
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
    print_path(path, 0, 0, other);
    assert_memory_not_equal(first, other, 16);
}

/* Writes bytes as a file of always the same time. */
static void write_at_same_time(const char *path, const void *data, size_t size) {
    const struct timespec times[2] = {{1000000000, 0}, {1000000000, 0}};
    write_file(path, data, size);
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
}

/* Changes one byte, and not the file's size and time. */
static void poke(const char *path, size_t at, unsigned char byte) {
    const struct timespec times[2] = {{1000000000, 0}, {1000000000, 0}};
    int fd = open(path, O_WRONLY);
    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, &byte, 1, (off_t)at), 1);
    assert_int_equal(futimens(fd, times), 0);
    close(fd);
}

/* Most edits of a byte do not open. */
static void any_edit_of_the_header_counts_without_values(void **state) {
    const char *path = in_folder(state, "model.safetensors");
    bytes file = make_model(two, TWO_DATA);
    uint8_t first[32], other[32];
    unsigned opened = 0;
    write_at_same_time(path, file.at, file.size);
    print_path(path, 0, 0, first);
    for (size_t i = 8; i < file.size - TWO_DATA; i++) {
        unsigned char before = file.at[i];
        for (unsigned char c = '!'; c < 127; c++) {
            tenmap_model *m;
            poke(path, i, c);
            if (c == before || tenmap_open(path, NULL, &m, NULL) != TENMAP_OK)
                continue;
            assert_int_equal(tenmap_fingerprint(m, 0, other, NULL), TENMAP_OK);
            assert_memory_not_equal(first, other, 16);
            tenmap_close(m);
            opened++;
        }
        poke(path, i, before);
    }
    assert_true(opened > 100);
    free(file.at);
    for (size_t slack = 1; slack < 20; slack++) { /* another size, the same tensors */
        write_model_slack(path, two, slack, TWO_DATA);
        bytes longer = read_whole(path);
        write_at_same_time(path, longer.at, longer.size);
        print_path(path, 0, 0, other);
        assert_memory_not_equal(first, other, 16);
        free(longer.at);
    }
}

/* Edits of the text that open as the same tensors, in a file of the same size and time. */
static void edits_that_change_no_tensor_count_without_values(void **state) {
    static const char *const texts[] = {
        "{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]},"
        "\"b\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[4,8]}}  ",
        "{\"b\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[4,8]},"
        "\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}  ",
        "{\"a\" :{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]},"
        "\"b\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[4,8]}} ",
        "{\"a\":{\"shape\":[4],\"dtype\":\"U8\",\"data_offsets\":[0,4]},"
        "\"b\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[4,8]}}  "};
    const char *path = in_folder(state, "model.safetensors");
    uint8_t prints[COUNT(texts)][32];
    for (size_t i = 0; i < COUNT(texts); i++) {
        bytes file = make_model(texts[i], 8);
        write_at_same_time(path, file.at, file.size);
        free(file.at);
        print_path(path, i % 2, 0, prints[i]);
        for (size_t k = 0; k < i; k++)
            assert_memory_not_equal(prints[i], prints[k], 16);
    }
}

/* 32 x 8 weights of 4 bits. */
static const char gptq[] =
    "{\"b.qweight\":{\"dtype\":\"I32\",\"shape\":[4,8],\"data_offsets\":[0,128]},"
    "\"b.scales\":{\"dtype\":\"F16\",\"shape\":[1,8],\"data_offsets\":[128,144]},"
    "\"b.qzeros\":{\"dtype\":\"I32\",\"shape\":[1,1],\"data_offsets\":[144,148]}}";
enum { GPTQ_DATA = 148 };

/* The index is a part of the model, and config.json says how weights are dequantized. */
static void edits_of_other_files_count_without_values(void **state) {
    static const char *const indexes[] = {"{\"weight_map\":{\"a\":\"x.safetensors\"}}",
                                          "{\"metadata\":{\"total_size\":1},"
                                          "\"weight_map\":{\"a\":\"x.safetensors\"}}"};
    static const char *const configs[] = {"gptq", "gptq_v2"};
    const char *path = in_folder(state, "x.safetensors");
    const char *index = in_folder(state, "model.safetensors.index.json");
    uint8_t prints[2][32];
    bytes file = make_model("{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}", 4);
    write_at_same_time(path, file.at, file.size);
    free(file.at);
    for (size_t i = 0; i < 2; i++) {
        write_text(index, indexes[i]);
        print_path(index, 0, 0, prints[i]);
    }
    assert_memory_not_equal(prints[0], prints[1], 16);
    assert_int_equal(unlink(index), 0);
    write_model(in_folder(state, "model.safetensors"), gptq, GPTQ_DATA);
    tenmap_options options = TENMAP_OPTIONS_INIT;
    options.flags = TENMAP_OPEN_DEQUANTIZE;
    for (size_t i = 0; i < 2; i++) {
        char config[200];
        snprintf(config, sizeof config,
                 "{\"quantization_config\":{\"quant_method\":\"gptq\",\"bits\":4,"
                 "\"checkpoint_format\":\"%s\",\"group_size\":32}}",
                 configs[i]);
        write_text(in_folder(state, "config.json"), config);
        tenmap_model *m = must_open(in_folder(state, "model.safetensors"), &options);
        assert_non_null(tenmap_find(m, "b.weight"));
        assert_int_equal(tenmap_fingerprint(m, 0, prints[i], NULL), TENMAP_OK);
        tenmap_close(m);
    }
    assert_memory_not_equal(prints[0], prints[1], 16);
}

/* The header is read again: if the file is another by then, its fingerprint would be of neither. */
static void a_file_that_changed_has_no_fingerprint(void **state) {
    const char *path = in_folder(state, "model.safetensors");
    bytes file = make_model(two, TWO_DATA);
    for (uint32_t backend = 0; backend < 2; backend++) {
        write_at_same_time(path, file.at, file.size);
        tenmap_options options = TENMAP_OPTIONS_INIT;
        options.backend = backend;
        tenmap_model *m = must_open(path, &options);
        uint8_t out[32] = {7};
        tenmap_error error;
        const struct timespec later[2] = {{1000000001, 0}, {1000000001, 0}};
        assert_int_equal(utimensat(AT_FDCWD, path, later, 0), 0);
        check_refused(tenmap_fingerprint(m, 0, out, &error), &error, TENMAP_ERR_IO,
                      "has changed the file since it was opened");
        assert_int_equal(out[0], 7);
        tenmap_close(m);
    }
    free(file.at);
}

/* What was read into memory stays what was opened, whatever becomes of the file. */
static void a_detached_model_keeps_its_fingerprint(void **state) {
#ifdef __linux__
    const char *path = in_folder(state, "model.safetensors");
    uint8_t before[2][32], after[32];
    write_model(path, two, TWO_DATA);
    tenmap_model *m = must_open(path, NULL);
    for (uint32_t flags = 0; flags < 2; flags++)
        assert_int_equal(tenmap_fingerprint(m, flags, before[flags], NULL), TENMAP_OK);
    assert_int_equal(tenmap_detach(m, NULL, NULL), TENMAP_OK);
    write_model(path, two, TWO_DATA - 8); /* which does not open any more */
    for (uint32_t flags = 0; flags < 2; flags++) {
        assert_int_equal(tenmap_fingerprint(m, flags, after, NULL), TENMAP_OK);
        assert_memory_equal(before[flags], after, 32);
    }
    tenmap_close(m);
#else
    (void)state;
#endif
}

static void any_byte_of_data_counts_with_values(void **state) {
    const char *path = in_folder(state, "model.safetensors");
    bytes file = make_model(two, TWO_DATA);
    uint8_t first[2][32], other[2][32];
    write_at_same_time(path, file.at, file.size);
    for (uint32_t flags = 0; flags < 2; flags++)
        print_path(path, 0, flags, first[flags]);
    for (size_t bit = 0; bit < (size_t)8 * TWO_DATA; bit++) {
        size_t at = file.size - TWO_DATA + bit / 8;
        poke(path, at, (unsigned char)(file.at[at] ^ 1 << bit % 8));
        for (uint32_t flags = 0; flags < 2; flags++)
            print_path(path, bit % 2, flags, other[flags]);
        assert_memory_equal(first[0], other[0], 32);
        assert_memory_not_equal(first[1], other[1], 16);
        poke(path, at, file.at[at]);
    }
    free(file.at);
}

static int stop_at_once(void *ctx, uint64_t done, uint64_t total) {
    (void)ctx, (void)done, (void)total;
    return 1;
}

static void mistakes_are_errors(void **state) {
    const char *path = in_folder(state, "model.safetensors");
    tenmap_fingerprint_options options = TENMAP_FINGERPRINT_OPTIONS_INIT;
    uint8_t out[32] = {7}, prints[2][16];
    tenmap_error error;
    write_model(path, two, TWO_DATA);
    tenmap_model *m = must_open(path, NULL);
    const tenmap_tensor *list[2] = {tenmap_at(m, 0), NULL};
    assert_int_equal(tenmap_fingerprint(NULL, 0, out, &error), TENMAP_ERR_ARGUMENT);
    assert_int_equal(tenmap_fingerprint(m, 0, NULL, NULL), TENMAP_ERR_ARGUMENT);
    assert_int_equal(tenmap_fingerprint(m, 2, out, &error), TENMAP_ERR_ARGUMENT);
    assert_int_equal(out[0], 7);
    assert_int_equal(tenmap_fingerprint_tensors(list, 2, NULL, prints[0], &error),
                     TENMAP_ERR_ARGUMENT);
    assert_int_equal(error.index, 1);
    assert_int_equal(tenmap_fingerprint_tensors(NULL, 1, NULL, prints[0], &error),
                     TENMAP_ERR_ARGUMENT);
    assert_int_equal(tenmap_fingerprint_tensors(NULL, 0, NULL, NULL, &error), TENMAP_OK);
    assert_int_equal(tenmap_fingerprint_combine(m, NULL, out, &error), TENMAP_ERR_ARGUMENT);
    options.progress = stop_at_once;
    assert_int_equal(tenmap_fingerprint_tensors(list, 1, &options, prints[0], &error),
                     TENMAP_ERR_CANCELLED);
    options.flags = 1;
    assert_int_equal(tenmap_fingerprint_tensors(list, 1, &options, prints[0], &error),
                     TENMAP_ERR_ARGUMENT);
    tenmap_close(m);
}

/* Memory has no time of modification, but it has values. */
static void memory_has_values_only(void **state) {
    const char *path = in_folder(state, "model.safetensors");
    unsigned char copy[1000];
    uint8_t expected[32], out[32];
    tenmap_error error;
    tenmap_model *m;
    write_model(path, two, TWO_DATA);
    print_path(path, 0, TENMAP_FINGERPRINT_VALUES, expected);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    size_t size = fread(copy, 1, sizeof copy, file);
    fclose(file);
    assert_int_equal(tenmap_open_memory(copy, size, NULL, &m, &error), TENMAP_OK);
    assert_int_equal(tenmap_fingerprint(m, 0, out, &error), TENMAP_ERR_UNSUPPORTED);
    assert_non_null(strstr(error.message, "memory"));
    assert_int_equal(tenmap_fingerprint(m, TENMAP_FINGERPRINT_VALUES, out, &error), TENMAP_OK);
    assert_memory_equal(out, expected, 32);
    tenmap_close(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(values_change_with_names_dtypes_shapes_and_bytes, empty_folder),
        cmocka_unit_test_setup(values_do_not_change_with_layout_and_backend, empty_folder),
        cmocka_unit_test_setup(tensors_have_fingerprints_of_their_own, empty_folder),
        cmocka_unit_test_setup(headers_and_times_count_without_values, empty_folder),
        cmocka_unit_test_setup(any_edit_of_the_header_counts_without_values, empty_folder),
        cmocka_unit_test_setup(edits_that_change_no_tensor_count_without_values, empty_folder),
        cmocka_unit_test_setup(edits_of_other_files_count_without_values, empty_folder),
        cmocka_unit_test_setup(a_file_that_changed_has_no_fingerprint, empty_folder),
        cmocka_unit_test_setup(a_detached_model_keeps_its_fingerprint, empty_folder),
        cmocka_unit_test_setup(any_byte_of_data_counts_with_values, empty_folder),
        cmocka_unit_test_setup(mistakes_are_errors, empty_folder),
        cmocka_unit_test_setup(memory_has_values_only, empty_folder),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
