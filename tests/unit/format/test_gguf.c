/* GGUF files open as the same kind of model: metadata, tensors, split files, folders, and costs. */
#include "gguf_files.h"
#include "io_files.h"

#include <time.h>

static void write_bytes(const char *path, bytes file) {
    write_file(path, file.at, file.size);
    free(file.at);
}

static void assert_small(const tenmap_model *m) {
    const tenmap_tensor *f = tenmap_find(m, "f"), *q = tenmap_find(m, "q");
    unsigned char data[72];
    assert_int_equal(tenmap_count(m), 2);
    assert_int_equal(f->dtype, TENMAP_F32);
    assert_int_equal(f->shape[0], 2);
    assert_int_equal(f->shape[1], 8);
    assert_int_equal(q->dtype, TENMAP_Q4_0);
    assert_int_equal(q->nbytes, 72);
    assert_int_equal(q->nelems, 128);
    assert_int_equal(q->shape[1], 64);
    assert_true(q->flags & TENMAP_TENSOR_ALIGNED);
    assert_string_equal(tenmap_dtype_text(q), "Q4_0");
    assert_int_equal(tenmap_read_bytes(q, 0, 72, data, NULL), TENMAP_OK);
    for (size_t i = 0; i < sizeof data; i++)
        assert_int_equal(data[i], pattern_byte(64 + i));
    assert_string_equal(tenmap_metadata_get(m, "general.architecture"), "llama");
    assert_string_equal(tenmap_metadata_get(m, "llama.context_length"), "4096");
    assert_string_equal(tenmap_metadata_get(m, "tokenizer.ggml.tokens"), "");
}

static void a_file_opens_in_every_way(void **state) {
    const char *path = in_folder(state, "small.gguf");
    bytes file = gguf_small();
    write_file(path, file.at, file.size);
    for (uint32_t backend = TENMAP_BACKEND_MAP; backend <= TENMAP_BACKEND_READ; backend++) {
        tenmap_options options = TENMAP_OPTIONS_INIT;
        options.backend = backend;
        tenmap_model *m = must_open(path, &options);
        assert_small(m);
        assert_int_equal(tenmap_shard_at(m, 0)->data_offset, file.size - 136);
        tenmap_close(m);
    }
    tenmap_model *m = must_open_memory(file, NULL);
    assert_small(m);
    tenmap_close(m);
    io_files files = {0};
    tenmap_io io = io_files_io(&files);
    tenmap_options options = TENMAP_OPTIONS_INIT;
    options.io = &io;
    m = must_open(path, &options);
    assert_small(m);
    tenmap_close(m);
    free(file.at);
}

static void it_may_lie_inside_a_larger_file(void **state) {
    const char *path = in_folder(state, "inside.bin");
    bytes file = gguf_small();
    unsigned char *larger = calloc(1, file.size + 100);
    assert_non_null(larger);
    memcpy(larger + 7, file.at, file.size);
    write_file(path, larger, file.size + 100);
    tenmap_options options = TENMAP_OPTIONS_INIT;
    options.offset = 7;
    options.length = file.size;
    tenmap_model *m = must_open(path, &options);
    assert_int_equal(tenmap_find(m, "f")->file_offset, 7 + file.size - 136);
    assert_false(tenmap_find(m, "f")->flags & TENMAP_TENSOR_ALIGNED);
    tenmap_close(m);
    free(larger);
    free(file.at);
}

/* Every kind of value. */

static const tenmap_metadata *pair_of(const tenmap_model *m, const char *key) {
    for (size_t i = 0; i < tenmap_metadata_count(m); i++)
        if (strcmp(tenmap_metadata_at(m, i)->key, key) == 0)
            return tenmap_metadata_at(m, i);
    fail_msg("%s is not there", key);
    return NULL;
}

static void numbers_have_their_type_their_bytes_and_a_text(void **state) {
    (void)state;
    static const struct {
        uint32_t type;
        size_t width;
        uint64_t bits;
        const char *text;
    } values[] = {
        {TENMAP_VALUE_U8, 1, 200, "200"},
        {TENMAP_VALUE_I8, 1, 0xff, "-1"},
        {TENMAP_VALUE_U16, 2, 65535, "65535"},
        {TENMAP_VALUE_I16, 2, 0x8000, "-32768"},
        {TENMAP_VALUE_U32, 4, 4294967295u, "4294967295"},
        {TENMAP_VALUE_I32, 4, 0xfffffffe, "-2"},
        {TENMAP_VALUE_F32, 4, 0x3dcccccd, "0.1"},
        {TENMAP_VALUE_F32, 4, 0x358637bd, "1e-06"},
        {TENMAP_VALUE_F32, 4, 0x7f7fffff, "3.4028235e+38"},
        {TENMAP_VALUE_F32, 4, 0x7f800000, "inf"},
        {TENMAP_VALUE_F32, 4, 0xffc00001, "nan"},
        {TENMAP_VALUE_F32, 4, 0x80000000, "-0"},
        {TENMAP_VALUE_BOOL, 1, 1, "true"},
        {TENMAP_VALUE_BOOL, 1, 0, "false"},
        {TENMAP_VALUE_U64, 8, UINT64_MAX, "18446744073709551615"},
        {TENMAP_VALUE_I64, 8, (uint64_t)INT64_MAX + 1, "-9223372036854775808"},
        {TENMAP_VALUE_I64, 8, INT64_MAX, "9223372036854775807"},
        {TENMAP_VALUE_F64, 8, UINT64_C(0x3fb999999999999a), "0.1"},
        {TENMAP_VALUE_F64, 8, UINT64_C(0x0010000000000000), "2.2250738585072014e-308"},
        {TENMAP_VALUE_F64, 8, 1, "4.94065645841247e-324"},
    };
    gguf_file f;
    gguf_begin(&f, 0, COUNT(values));
    for (size_t i = 0; i < COUNT(values); i++) {
        char key[16];
        snprintf(key, sizeof key, "k%zu", i);
        gguf_pair(&f, key, values[i].type, values[i].bits, values[i].width);
    }
    tenmap_model *m = must_open_memory(f.out, NULL);
    for (size_t i = 0; i < COUNT(values); i++) {
        const tenmap_metadata *pair = tenmap_metadata_at(m, i);
        uint64_t bits = 0;
        assert_int_equal(pair->type, values[i].type);
        assert_int_equal(pair->element_type, values[i].type);
        assert_int_equal(pair->count, 1);
        assert_int_equal(pair->raw_bytes, values[i].width);
        for (size_t b = values[i].width; b-- > 0;)
            bits = bits << 8 | ((const unsigned char *)pair->raw)[b];
        assert_int_equal(bits, values[i].bits);
        assert_string_equal(pair->value, values[i].text);
        assert_int_equal(pair->value_len, strlen(values[i].text));
    }
    tenmap_close(m);
    free(f.out.at);
}

static void arrays_are_walked_where_they_lie(void **state) {
    (void)state;
    gguf_file f;
    gguf_begin(&f, 0, 4);
    gguf_pair(&f, "numbers", TENMAP_VALUE_ARRAY, 0, 0);
    gguf_array(&f, TENMAP_VALUE_I16, 3);
    for (int i = 0; i < 3; i++)
        gguf_number(&f, (uint64_t)(i - 1), 2);
    gguf_pair(&f, "texts", TENMAP_VALUE_ARRAY, 0, 0);
    gguf_array(&f, TENMAP_VALUE_STRING, 2);
    gguf_text(&f, "one");
    gguf_text(&f, "");
    gguf_pair(&f, "nested", TENMAP_VALUE_ARRAY, 0, 0);
    gguf_array(&f, TENMAP_VALUE_ARRAY, 2);
    gguf_array(&f, TENMAP_VALUE_STRING, 1);
    gguf_text(&f, "deep");
    gguf_array(&f, TENMAP_VALUE_BOOL, 0);
    gguf_string_pair(&f, "behind", "end");
    tenmap_model *m = must_open_memory(f.out, NULL);
    tenmap_value array, element, inner;
    char text[4];

    tenmap_metadata_value(pair_of(m, "numbers"), &array);
    assert_int_equal(array.count, 3);
    assert_int_equal(array.element_type, TENMAP_VALUE_I16);
    assert_int_equal(array.raw_bytes, 6);
    for (int i = -1; i < 2; i++) {
        char want[8];
        snprintf(want, sizeof want, "%d", i);
        assert_int_equal(tenmap_value_next(&array, &element), 1);
        assert_int_equal(tenmap_value_text(&element, text, sizeof text), strlen(want));
        assert_string_equal(text, want);
        assert_int_equal(tenmap_value_next(&element, &inner), 0); /* not an array */
    }
    assert_int_equal(tenmap_value_next(&array, &element), 0);

    tenmap_metadata_value(pair_of(m, "texts"), &array);
    assert_int_equal(tenmap_value_next(&array, &element), 1);
    assert_int_equal(element.raw_bytes, 3);
    assert_memory_equal(element.raw, "one", 3);
    assert_int_equal(tenmap_value_text(&element, text, 3), 3); /* the full length */
    assert_string_equal(text, "on");
    assert_int_equal(tenmap_value_text(&element, NULL, 0), 3);
    assert_int_equal(tenmap_value_next(&array, &element), 1);
    assert_int_equal(element.raw_bytes, 0);
    assert_int_equal(tenmap_value_next(&array, &element), 0);

    tenmap_metadata_value(pair_of(m, "nested"), &array);
    assert_int_equal(tenmap_value_next(&array, &element), 1);
    assert_int_equal(element.type, TENMAP_VALUE_ARRAY);
    assert_int_equal(tenmap_value_text(&element, text, sizeof text), 0);
    assert_int_equal(tenmap_value_next(&element, &inner), 1);
    assert_memory_equal(inner.raw, "deep", 4);
    assert_int_equal(tenmap_value_next(&array, &element), 1);
    assert_int_equal(element.count, 0);
    assert_int_equal(tenmap_value_next(&element, &inner), 0);
    assert_int_equal(tenmap_value_next(&array, &element), 0);
    assert_string_equal(tenmap_metadata_get(m, "behind"), "end");
    tenmap_close(m);
    free(f.out.at);
}

static void metadata_of_safetensors_is_strings(void **state) {
    write_model(in_folder(state, "m.safetensors"),
                "{\"__metadata__\":{\"a\":\"1\"},\"x\":{\"dtype\":\"U8\",\"shape\":[1],"
                "\"data_offsets\":[0,1]}}",
                1);
    tenmap_model *m = must_open(in_folder(state, "m.safetensors"), NULL);
    const tenmap_metadata *pair = pair_of(m, "a");
    tenmap_value value;
    char text[4];
    assert_int_equal(pair->type, TENMAP_VALUE_STRING);
    assert_int_equal(pair->count, 1);
    tenmap_metadata_value(pair, &value);
    assert_int_equal(tenmap_value_text(&value, text, sizeof text), 1);
    assert_string_equal(text, "1");
    tenmap_close(m);
}

/* Rules about several files, or about flags. */

static bytes holes(uint64_t second_offset, size_t data) {
    gguf_file f;
    gguf_begin(&f, 2, 0);
    gguf_row(&f, "a", 1, 8, 0, 0);
    gguf_row(&f, "b", 1, 8, 0, second_offset);
    gguf_data(&f, data);
    return f.out;
}

static void lenient_allows_holes_and_trailing_bytes_never_overlap(void **state) {
    (void)state;
    tenmap_options lenient = TENMAP_OPTIONS_INIT;
    lenient.flags = TENMAP_OPEN_LENIENT;
    bytes hole = holes(64, 96), trailing = holes(32, 200), overlap = holes(0, 64);
    must_fail_memory(hole, NULL, TENMAP_ERR_FORMAT, "a hole of 32 bytes");
    tenmap_close(must_open_memory(hole, &lenient));
    must_fail_memory(trailing, NULL, TENMAP_ERR_FORMAT, "no tensor claims 136 bytes at the end");
    tenmap_close(must_open_memory(trailing, &lenient));
    must_fail_memory(overlap, &lenient, TENMAP_ERR_FORMAT, "tensors overlap");
    lenient.flags = TENMAP_OPEN_HOLES; /* one by one */
    tenmap_close(must_open_memory(hole, &lenient));
    must_fail_memory(trailing, &lenient, TENMAP_ERR_FORMAT, "no tensor claims");
    lenient.flags = TENMAP_OPEN_TRAILING;
    tenmap_close(must_open_memory(trailing, &lenient));
    must_fail_memory(hole, &lenient, TENMAP_ERR_FORMAT, "a hole of");
    free(hole.at);
    free(trailing.at);
    free(overlap.at);
}

/* One file of a split model: a tensor with its own name, and the keys that make it a part. */
static bytes make_part(uint64_t number, uint64_t count, uint64_t tensors) {
    gguf_file f;
    char name[16];
    snprintf(name, sizeof name, "t%d", (int)number);
    gguf_begin(&f, 1, 3);
    gguf_pair(&f, "split.no", TENMAP_VALUE_U16, number, 2);
    if (count <= UINT16_MAX)
        gguf_pair(&f, "split.count", TENMAP_VALUE_U16, count, 2);
    else
        gguf_pair(&f, "split.count", TENMAP_VALUE_U32, count, 4);
    gguf_pair(&f, "split.tensors.count", TENMAP_VALUE_I32, tensors, 4);
    gguf_row(&f, name, 1, 8, 0, 0);
    gguf_data(&f, 32);
    return f.out;
}

static void write_parts(void **state) {
    for (uint64_t i = 0; i < 3; i++) {
        char name[64];
        snprintf(name, sizeof name, "m-%05d-of-00003.gguf", (int)i + 1);
        write_bytes(in_folder(state, name), make_part(i, 3, 3));
    }
}

static void the_first_part_opens_all_parts(void **state) {
    write_parts(state);
    tenmap_model *m = must_open(in_folder(state, "m-00001-of-00003.gguf"), NULL);
    assert_int_equal(tenmap_count(m), 3);
    assert_int_equal(tenmap_shard_count(m), 3);
    assert_int_equal(tenmap_find(m, "t2")->shard, 2);
    assert_int_equal(tenmap_metadata_count(m), 9);
    tenmap_close(m);
    m = must_open(*state, NULL); /* so does the folder */
    assert_int_equal(tenmap_count(m), 3);
    tenmap_close(m);
    m = must_open(in_folder(state, "m-00002-of-00003.gguf"), NULL); /* one file alone */
    assert_int_equal(tenmap_count(m), 1);
    tenmap_close(m);
}

static void parts_that_are_missing_are_named(void **state) {
    write_parts(state);
    assert_int_equal(remove(in_folder(state, "m-00002-of-00003.gguf")), 0);
    const char *first = in_folder(state, "m-00001-of-00003.gguf");
    must_fail(first, NULL, TENMAP_ERR_NOT_FOUND, "1 of 3 shards are missing: \"m-00002-of-00003");
    tenmap_options partial = TENMAP_OPTIONS_INIT;
    partial.flags = TENMAP_OPEN_PARTIAL;
    tenmap_model *m = must_open(first, &partial);
    assert_int_equal(tenmap_count(m), 2);
    assert_int_equal(tenmap_missing_count(m), 1);
    tenmap_close(m);
}

static void parts_that_do_not_belong_together_are_refused(void **state) {
    char first[4096];
    write_parts(state);
    snprintf(first, sizeof first, "%s", in_folder(state, "m-00001-of-00003.gguf"));
    write_bytes(in_folder(state, "m-00003-of-00003.gguf"), make_part(1, 3, 3));
    must_fail(first, NULL, TENMAP_ERR_FORMAT, "\"t1\" is in");
    write_bytes(in_folder(state, "m-00003-of-00003.gguf"), make_part(7, 9, 3));
    must_fail(
        first, NULL, TENMAP_ERR_FORMAT,
        "it says that it is part 8 of 9 (split.no, split.count), but its name says part 3 of 3");
    write_bytes(in_folder(state, "m-00003-of-00003.gguf"), make_part(2, 3, 3));
    write_bytes(in_folder(state, "m-00001-of-00003.gguf"), make_part(0, 3, 4));
    must_fail(first, NULL, TENMAP_ERR_FORMAT, "there are 4 (split.tensors.count)");
}

static void a_first_part_under_another_name_needs_a_word(void **state) {
    const char *path = in_folder(state, "renamed.gguf");
    write_bytes(path, make_part(0, 3, 3));
    must_fail(path, NULL, TENMAP_ERR_NOT_FOUND, "does not end in -00001-of-00003.gguf");
    tenmap_options partial = TENMAP_OPTIONS_INIT;
    partial.flags = TENMAP_OPEN_PARTIAL;
    tenmap_close(must_open(path, &partial));
    write_bytes(path, make_part(0, UINT16_MAX, 3));
    must_fail(path, NULL, TENMAP_ERR_NOT_FOUND, "-00001-of-65535.gguf");
}

static void a_model_of_too_many_parts_is_refused(void **state) {
    const char *path = in_folder(state, "m-00001-of-100000.gguf");
    write_bytes(path, make_part(0, 100000, 3));
    must_fail(path, NULL, TENMAP_ERR_LIMIT,
              "the model has 100000 parts (split.count), over the limit of 99999");
}

static void folders_prefer_safetensors(void **state) {
    bytes file = gguf_small();
    write_file(in_folder(state, "x.Q4_0.gguf"), file.at, file.size);
    tenmap_model *m = must_open(*state, NULL);
    assert_small(m);
    tenmap_close(m);
    write_file(in_folder(state, "mmproj-x.gguf"), file.at, file.size); /* beside a model */
    m = must_open(*state, NULL);
    assert_small(m);
    tenmap_close(m);
    write_file(in_folder(state, "x.Q8_0.gguf"), file.at, file.size);
    must_fail(*state, NULL, TENMAP_ERR_NOT_FOUND, "more than one model");
    write_model(in_folder(state, "any.safetensors"), "{}", 0);
    m = must_open(*state, NULL);
    assert_int_equal(tenmap_count(m), 0);
    tenmap_close(m);
    free(file.at);
}

/* Cost. */

static double seconds(void) {
    struct timespec now;
    timespec_get(&now, TIME_UTC);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void a_large_vocabulary_is_read_once(void **state) {
    enum { WORDS = 256000 };
    const char *path = in_folder(state, "vocabulary.gguf");
    gguf_file f;
    gguf_begin(&f, 0, 2);
    gguf_pair(&f, "tokenizer.ggml.tokens", TENMAP_VALUE_ARRAY, 0, 0);
    gguf_array(&f, TENMAP_VALUE_STRING, WORDS);
    for (int i = 0; i < WORDS; i++) {
        char word[16];
        snprintf(word, sizeof word, "word%d", i);
        gguf_text(&f, word);
    }
    gguf_string_pair(&f, "behind", "it");
    write_bytes(path, f.out);
    tenmap_model *m = must_open(path, NULL);
    const tenmap_metadata *words = pair_of(m, "tokenizer.ggml.tokens");
    tenmap_value array, word = {0};
    assert_int_equal(words->count, WORDS);
    tenmap_metadata_value(words, &array);
    while (tenmap_value_next(&array, &word)) {
    }
    assert_int_equal(word.raw_bytes, strlen("word255999"));
    assert_memory_equal(word.raw, "word255999", 10);
    assert_string_equal(tenmap_metadata_get(m, "behind"), "it");
    tenmap_close(m);
    tenmap_options options = TENMAP_OPTIONS_INIT;
    options.max_header_bytes = 1000000;
    must_fail(path, &options, TENMAP_ERR_LIMIT, "more than 1000000 bytes, the limit");
}

/* Counts that make another reader loop up to 2^63. */
static void hostile_counts_cost_nothing(void **state) {
    (void)state;
    gguf_file f;
    gguf_begin(&f, 0, 1);
    gguf_pair(&f, "kk", TENMAP_VALUE_ARRAY, 0, 0);
    gguf_array(&f, TENMAP_VALUE_U8, UINT64_C(1) << 63);
    gguf_number(&f, 0, 1);
    assert_int_equal(f.out.size, 51);
    double best = 1;
    for (int i = 0; i < 20; i++) {
        double begin = seconds();
        must_fail_memory(f.out, NULL, TENMAP_ERR_FORMAT, "an array of 9223372036854775808");
        double took = seconds() - begin;
        best = took < best ? took : best;
    }
    print_message("           answered in %.1f us\n", best * 1e6);
    assert_true(best < 1e-3);
    free(f.out.at);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_file_opens_in_every_way, empty_folder),
        cmocka_unit_test_setup(it_may_lie_inside_a_larger_file, empty_folder),
        cmocka_unit_test(numbers_have_their_type_their_bytes_and_a_text),
        cmocka_unit_test(arrays_are_walked_where_they_lie),
        cmocka_unit_test_setup(metadata_of_safetensors_is_strings, empty_folder),
        cmocka_unit_test(lenient_allows_holes_and_trailing_bytes_never_overlap),
        cmocka_unit_test_setup(the_first_part_opens_all_parts, empty_folder),
        cmocka_unit_test_setup(parts_that_are_missing_are_named, empty_folder),
        cmocka_unit_test_setup(parts_that_do_not_belong_together_are_refused, empty_folder),
        cmocka_unit_test_setup(a_first_part_under_another_name_needs_a_word, empty_folder),
        cmocka_unit_test_setup(a_model_of_too_many_parts_is_refused, empty_folder),
        cmocka_unit_test_setup(folders_prefer_safetensors, empty_folder),
        cmocka_unit_test_setup(a_large_vocabulary_is_read_once, empty_folder),
        cmocka_unit_test(hostile_counts_cost_nothing),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
