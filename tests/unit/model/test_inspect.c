/*
 * Inspecting a model: the order in which headers list tensors, the model's folder, the files that
 * the index lists, and aliases of tensors that share data.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "support.h"

#include <sys/stat.h>
#include <unistd.h>

static tenmap_options with(uint32_t backend, uint32_t flags) {
    tenmap_options options = TENMAP_OPTIONS_INIT;
    options.backend = backend;
    options.flags = flags;
    return options;
}

/* Runs the statements with both backends. */
#define BOTH_BACKENDS(options, flags)                                                              \
    for (uint32_t backend_ = 0; backend_ <= TENMAP_BACKEND_READ; backend_++)                       \
        for (tenmap_options options = with(backend_, flags), *once_ = &options; once_; once_ = NULL)

#define U8(name, begin, end, size)                                                                 \
    "\"" name "\":{\"dtype\":\"U8\",\"shape\":[" size "],\"data_offsets\":[" begin "," end "]}"

/* The order of writing. */

static void check_written(const tenmap_model *m, const char *names) {
    assert_int_equal(tenmap_count(m), strlen(names));
    for (size_t i = 0; names[i]; i++) {
        const tenmap_tensor *t = tenmap_at_written(m, i);
        assert_non_null(t);
        assert_int_equal(t->name[0], names[i]);
        assert_ptr_equal(t, tenmap_find_n(m, &names[i], 1));
    }
    assert_null(tenmap_at_written(m, strlen(names)));
    assert_null(tenmap_at_written(m, (size_t)-1));
}

static void header_position_counts_tensors_as_they_are_written(void **state) {
    const char *path = in_folder(state, "m.safetensors");
    /* By offset: d, b, c, a. __metadata__ in the middle does not count. */
    write_model(
        path,
        "{" U8("a", "6", "7", "1") "," U8("b", "1", "3", "2") ",\"__metadata__\":{\"k\":\"v\"}," U8(
            "c", "3", "6", "3") "," U8("d", "0", "1", "1") "}",
        7);
    BOTH_BACKENDS(options, 0) {
        tenmap_model *m = must_open(path, &options);
        assert_string_equal(tenmap_at(m, 0)->name, "d");
        assert_int_equal(tenmap_find(m, "a")->header_position, 0);
        assert_int_equal(tenmap_find(m, "b")->header_position, 1);
        assert_int_equal(tenmap_find(m, "c")->header_position, 2);
        assert_int_equal(tenmap_find(m, "d")->header_position, 3);
        check_written(m, "abcd");
        tenmap_close(m);
    }
}

/* A file in order, read by the quick reader and, with a space in the JSON, by the full one. */
static void the_order_of_data_is_the_order_of_writing_in_most_files(void **state) {
    static const char *const texts[] = {"{" U8("z", "0", "1", "1") "," U8("y", "1", "3", "2") "}",
                                        "{ " U8("z", "0", "1", "1") "," U8("y", "1", "3", "2") "}"};
    const char *path = in_folder(state, "m.safetensors");
    for (size_t i = 0; i < COUNT(texts); i++) {
        write_model(path, texts[i], 3);
        BOTH_BACKENDS(options, 0) {
            tenmap_model *m = must_open(path, &options);
            assert_int_equal(tenmap_at(m, 0)->header_position, 0);
            assert_int_equal(tenmap_at(m, 1)->header_position, 1);
            check_written(m, "zy");
            tenmap_close(m);
        }
    }
}

/* Empty tensors at one place keep the header's order. */
static void empty_tensors_have_their_positions(void **state) {
    const char *path = in_folder(state, "m.safetensors");
    write_model(
        path, "{" U8("b", "2", "2", "0") "," U8("a", "0", "2", "2") "," U8("c", "2", "2", "0") "}",
        2);
    tenmap_model *m = must_open(path, NULL);
    assert_string_equal(tenmap_at(m, 0)->name, "a");
    check_written(m, "bac");
    tenmap_close(m);
}

static const char first_shard[] = "{" U8("a", "3", "5", "2") "," U8("x", "1", "3", "2") "," U8(
    "b", "0", "1", "1") ",\"__metadata__\":{\"format\":\"pt\",\"e\":\"c\"}}";
static const char second_shard[] = "{" U8("c", "0", "4", "4") "," U8("x", "4", "6", "2") "}";
static const char index_text[] =
    "{\"metadata\":{\"total_size\":11,\"tied\":\"a\",\"n\":{\"tied\":\"b\"},\"e\":\"a\"},"
    "\"weight_map\":{\"c\":\"m-2.safetensors\",\"x\":\"m-2.safetensors\",\"a\":\"m-1.safetensors\","
    "\"b\":\"m-1.safetensors\"}}";

static void write_index(void **state) {
    write_model(in_folder(state, "m-1.safetensors"), first_shard, 5);
    write_model(in_folder(state, "m-2.safetensors"), second_shard, 6);
    write_text(in_folder(state, "model.safetensors.index.json"), index_text);
}

/* A tensor that the model takes from another shard leaves a gap in this shard's positions. */
static void shards_are_written_one_after_the_other(void **state) {
    write_index(state);
    BOTH_BACKENDS(options, 0) {
        tenmap_model *m = must_open(in_folder(state, "model.safetensors.index.json"), &options);
        assert_string_equal(tenmap_at(m, 0)->name, "b");
        assert_int_equal(tenmap_find(m, "b")->header_position, 2);
        assert_int_equal(tenmap_find(m, "x")->header_position, 1);
        assert_int_equal(tenmap_find(m, "x")->shard, 1);
        check_written(m, "abcx");
        tenmap_close(m);
    }
}

static void many_tensors_in_reverse_are_written_in_order(void **state) {
    enum { MANY = 5000 };
    char *json = malloc(MANY * 80), *at = json;
    assert_non_null(json);
    for (int i = 0; i < MANY; i++)
        at += sprintf(at, "%c\"t%d\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[%d,%d]}",
                      i ? ',' : '{', i, MANY - 1 - i, MANY - i);
    strcpy(at, "}");
    write_model(in_folder(state, "m.safetensors"), json, MANY);
    free(json);
    tenmap_model *m = must_open(in_folder(state, "m.safetensors"), NULL);
    for (size_t i = 0; i < MANY; i++) {
        assert_int_equal(tenmap_at_written(m, i)->header_position, i);
        assert_ptr_equal(tenmap_at_written(m, i), tenmap_at(m, MANY - 1 - i));
    }
    tenmap_close(m);
}

/* The folder. */

static void check_folder(const char *path, const char *folder) {
    tenmap_model *m = must_open(path, NULL);
    assert_string_equal(tenmap_folder(m), folder);
    tenmap_close(m);
}

static void folder_is_where_config_json_would_lie(void **state) {
    const char *folder = *state;
    char before[4096], path[4200];
    write_index(state);
    write_model(in_folder(state, "one.safetensors"), second_shard, 6);
    check_folder(in_folder(state, "one.safetensors"), folder);
    check_folder(in_folder(state, "model.safetensors.index.json"), folder);
    check_folder(folder, folder);
    snprintf(path, sizeof path, "%s//", folder);
    check_folder(path, folder);
    assert_non_null(getcwd(before, sizeof before));
    assert_int_equal(chdir(folder), 0);
#ifdef TENMAP_TEST_IO
    check_folder("one.safetensors", ""); /* an object without a folder */
#else
    check_folder("one.safetensors", ".");
#endif
    check_folder(".", ".");
    check_folder("./one.safetensors", ".");
    assert_int_equal(chdir(before), 0);
    assert_string_equal(tenmap_folder(NULL), "");
}

/* The folder of a numbered set is the one that was given. */
static void folder_of_a_numbered_set(void **state) {
    write_model(in_folder(state, "m-00001-of-00002.safetensors"), first_shard, 5);
    write_model(in_folder(state, "m-00002-of-00002.safetensors"), "{" U8("q", "0", "1", "1") "}",
                1);
    check_folder(*state, *state);
    tenmap_model *m = must_open(*state, NULL);
    assert_null(tenmap_shard_listed(m, "a")); /* no index lists anything */
    assert_int_equal(tenmap_listed_count(m), 0);
    assert_null(tenmap_listed_at(m, 0));
    check_written(m, "axbq");
    tenmap_close(m);
}

static void memory_has_no_folder(void **state) {
    bytes file = make_model("{" U8("a", "0", "1", "1") "}", 1);
    (void)state;
    tenmap_model *m = must_open_memory(file, NULL);
    assert_string_equal(tenmap_folder(m), "");
    assert_null(tenmap_shard_listed(m, "a"));
    tenmap_close(m);
    free(file.at);
}

/* What the index lists. */

static void the_index_tells_which_file_a_tensor_is_in(void **state) {
    static const char *const names[] = {"c", "x", "a", "b"};
    write_index(state);
    unlink(in_folder(state, "m-1.safetensors"));
    BOTH_BACKENDS(options, TENMAP_OPEN_PARTIAL) {
        tenmap_model *m = must_open(in_folder(state, "model.safetensors.index.json"), &options);
        assert_int_equal(tenmap_missing_count(m), 1);
        assert_null(tenmap_find(m, "a"));
        assert_string_equal(tenmap_shard_listed(m, "a"),
                            "m-1.safetensors"); /* missing, and named */
        assert_string_equal(tenmap_shard_listed(m, "b"), "m-1.safetensors");
        assert_string_equal(tenmap_shard_listed(m, "c"), "m-2.safetensors");
        assert_null(tenmap_shard_listed(m, "d"));
        assert_null(tenmap_shard_listed(m, ""));
        assert_null(tenmap_shard_listed(m, NULL));
        assert_int_equal(tenmap_listed_count(m), 4);
        for (size_t i = 0; i < COUNT(names); i++) /* in the index's order */
            assert_string_equal(tenmap_listed_at(m, i), names[i]);
        assert_null(tenmap_listed_at(m, 4));
        tenmap_close(m);
    }
    assert_null(tenmap_shard_listed(NULL, "a"));
    assert_int_equal(tenmap_listed_count(NULL), 0);
    assert_null(tenmap_listed_at(NULL, 0));
}

/* A listing is what the index says, even if a lenient open found the tensor elsewhere. */
static void a_listing_is_the_index_s_word(void **state) {
    write_index(state);
    write_text(in_folder(state, "i.json"), "{\"weight_map\":{\"x\":\"m-2.safetensors\",\"a\":\"m-2."
                                           "safetensors\",\"c\":\"m-2.safetensors\","
                                           "\"\\u0062\":\"m-1\\u002esafetensors\"}}");
    tenmap_options options = with(0, TENMAP_OPEN_LENIENT);
    tenmap_model *m = must_open(in_folder(state, "i.json"), &options);
    assert_string_equal(tenmap_shard_at(m, tenmap_find(m, "a")->shard)->path,
                        in_folder(state, "m-1.safetensors"));
    assert_string_equal(tenmap_shard_listed(m, "a"), "m-2.safetensors");
    assert_string_equal(tenmap_shard_listed(m, "b"), "m-1.safetensors"); /* unescaped */
    tenmap_close(m);
}

/* Other names. */

/* As safetensors.torch.save_model writes a model whose output shares the input's embedding. */
static const char tied[] = "{\"__metadata__\":{\"format\":\"pt\",\"lm_head.weight\":\"wte.weight\","
                           "\"again\":\"lm_head.weight\","
                           "\"h.0\":\"wte.weight\",\"free\":\"text\",\"empty\":\"\"}," U8(
                               "wte.weight", "0", "4", "4") "," U8("h.0", "4", "5", "1") "}";

static void a_name_that_save_model_left_out_is_found_by_flag(void **state) {
    const char *path = in_folder(state, "tied.safetensors");
    write_model(path, tied, 5);
    BOTH_BACKENDS(options, TENMAP_OPEN_ALIASES) {
        tenmap_model *m = must_open(path, &options);
        const tenmap_tensor *kept = tenmap_find(m, "wte.weight");
        assert_non_null(kept);
        assert_ptr_equal(tenmap_find(m, "lm_head.weight"), kept);
        assert_ptr_equal(tenmap_find_n(m, "lm_head.weight!", 14), kept);
        assert_string_equal(tenmap_find(m, "lm_head.weight")->name, "wte.weight");
        assert_int_equal(tenmap_count(m), 2);                    /* found, not listed */
        assert_string_equal(tenmap_find(m, "h.0")->name, "h.0"); /* its own name comes first */
        assert_null(tenmap_find(m, "again")); /* aliases of aliases do not count */
        assert_null(tenmap_find(m, "free"));
        assert_null(tenmap_find(m, "empty"));
        assert_null(tenmap_find(m, "format"));
        assert_null(tenmap_find(m, "lm_head.weigh"));
        assert_string_equal(tenmap_metadata_get(m, "lm_head.weight"), "wte.weight");
        tenmap_close(m);
    }
    tenmap_model *m = must_open(path, NULL);
    assert_null(tenmap_find(m, "lm_head.weight")); /* only when asked for */
    tenmap_close(m);
}

/* If the model is in shards, the pairs are in the index (huggingface_hub) or in a shard. */
static void other_names_come_from_the_index_and_from_shards(void **state) {
    write_index(state);
    BOTH_BACKENDS(options, TENMAP_OPEN_ALIASES) {
        tenmap_model *m = must_open(*state, &options);
        assert_ptr_equal(tenmap_find(m, "tied"), tenmap_find(m, "a"));
        assert_ptr_equal(tenmap_find(m, "e"),
                         tenmap_find(m, "c")); /* the shard's pair comes first */
        assert_null(tenmap_find(m, "total_size"));
        assert_null(tenmap_find(m, "n"));
        tenmap_close(m);
    }
    tenmap_model *m = must_open(*state, NULL);
    assert_null(tenmap_find(m, "tied"));
    assert_null(tenmap_find(m, "e"));
    tenmap_close(m);
}

static void a_name_whose_shard_is_missing_is_not_found(void **state) {
    write_index(state);
    unlink(in_folder(state, "m-1.safetensors"));
    tenmap_options options = with(0, TENMAP_OPEN_ALIASES | TENMAP_OPEN_PARTIAL);
    tenmap_model *m = must_open(*state, &options);
    assert_null(tenmap_find(m, "tied"));
    assert_null(tenmap_find(m, "e"));
    tenmap_close(m);
}

/* An index that is not valid JSON is refused with the flag and without it. */
static void the_flag_changes_no_verdict(void **state) {
    tenmap_options options = with(0, TENMAP_OPEN_ALIASES);
    write_index(state);
    write_text(in_folder(state, "bad.json"),
               "{\"metadata\":{\"a\":\"\\ud800\"},\"weight_map\":{\"a\":\"m-1.safetensors\"}}");
    must_fail(in_folder(state, "bad.json"), &options, TENMAP_ERR_FORMAT, "index, byte");
    must_fail(in_folder(state, "bad.json"), NULL, TENMAP_ERR_FORMAT, "index, byte");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(header_position_counts_tensors_as_they_are_written, empty_folder),
        cmocka_unit_test_setup(the_order_of_data_is_the_order_of_writing_in_most_files,
                               empty_folder),
        cmocka_unit_test_setup(empty_tensors_have_their_positions, empty_folder),
        cmocka_unit_test_setup(shards_are_written_one_after_the_other, empty_folder),
        cmocka_unit_test_setup(many_tensors_in_reverse_are_written_in_order, empty_folder),
        cmocka_unit_test_setup(folder_is_where_config_json_would_lie, empty_folder),
        cmocka_unit_test_setup(folder_of_a_numbered_set, empty_folder),
        cmocka_unit_test_setup(memory_has_no_folder, empty_folder),
        cmocka_unit_test_setup(the_index_tells_which_file_a_tensor_is_in, empty_folder),
        cmocka_unit_test_setup(a_listing_is_the_index_s_word, empty_folder),
        cmocka_unit_test_setup(a_name_that_save_model_left_out_is_found_by_flag, empty_folder),
        cmocka_unit_test_setup(other_names_come_from_the_index_and_from_shards, empty_folder),
        cmocka_unit_test_setup(a_name_whose_shard_is_missing_is_not_found, empty_folder),
        cmocka_unit_test_setup(the_flag_changes_no_verdict, empty_folder),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
