/* Several files as one model: tenmap_open_list. */
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

#define BOTH_BACKENDS(options, flags)                                                              \
    for (uint32_t backend_ = 0; backend_ <= TENMAP_BACKEND_READ; backend_++)                       \
        for (tenmap_options options = with(backend_, flags), *once_ = &options; once_; once_ = NULL)

#define U8(name, begin, end, size)                                                                 \
    "\"" name "\":{\"dtype\":\"U8\",\"shape\":[" size "],\"data_offsets\":[" begin "," end "]}"

/* Paths inside the folder, which must outlive more than four calls of in_folder. */
static char paths_text[64][4096];
static const char *paths[64];

static const char *const *name_paths(void **state, const char *const *names, size_t n) {
    for (size_t i = 0; i < n; i++) {
        snprintf(paths_text[i], sizeof paths_text[i], "%s", in_folder(state, names[i]));
        paths[i] = paths_text[i];
    }
    return paths;
}

static tenmap_model *must_open_list(const char *const *list, size_t n,
                                    const tenmap_options *options) {
    tenmap_model *m = NULL;
    tenmap_error error = {0};
    if (tenmap_open_list(list, n, options, &m, &error) != TENMAP_OK)
        fail_msg("%s", error.message);
    assert_int_equal(error.status, TENMAP_OK); /* left alone */
    assert_non_null(m);
    return m;
}

static tenmap_error must_fail_list(const char *const *list, size_t n, const tenmap_options *options,
                                   tenmap_status status, const char *fragment) {
    tenmap_model *m = (tenmap_model *)&m;
    tenmap_error error = {0};
    assert_int_equal(tenmap_open_list(list, n, options, &m, &error), status);
    assert_null(m);
    check_error(&error, status);
    if (!strstr(error.message, fragment))
        fail_msg("\"%s\" is not in: %s", fragment, error.message);
    assert_int_equal(tenmap_open_list(list, n, options, &m, NULL), status);
    return error;
}

static void check_bytes(const tenmap_tensor *t, size_t first) {
    unsigned char got[64];
    assert_non_null(t);
    assert_int_equal(tenmap_read_bytes(t, 0, (size_t)t->nbytes, got, NULL), TENMAP_OK);
    for (size_t i = 0; i < t->nbytes; i++)
        assert_int_equal(got[i], pattern_byte(first + i));
}

/* As Llama's and Mistral's own releases split a model: no index, no numbered set. */
static const char *const parts[] = {"consolidated.00.safetensors", "consolidated.01.safetensors"};
static const char part_0[] = "{\"__metadata__\":{\"format\":\"pt\",\"n\":\"0\"}," U8(
    "b", "0", "3", "3") "," U8("a", "3", "5", "2") "}";
static const char part_1[] = "{" U8("d", "4", "6", "2") "," U8(
    "c", "0", "4", "4") ",\"__metadata__\":{\"n\":\"1\",\"tied\":\"b\"}}";

static const char *const *write_parts(void **state) {
    write_model(in_folder(state, parts[0]), part_0, 5);
    write_model(in_folder(state, parts[1]), part_1, 6);
    return name_paths(state, parts, 2);
}

static void two_files_are_one_model(void **state) {
    const char *const *list = write_parts(state);
    BOTH_BACKENDS(options, 0) {
        tenmap_model *m = must_open_list(list, 2, &options);
        static const char *const order[] = {"b", "a", "c", "d"}, *const written = "badc";
        assert_int_equal(tenmap_count(m), 4);
        for (size_t i = 0; i < 4; i++) {
            const tenmap_tensor *t = tenmap_at(m, i);
            assert_string_equal(t->name, order[i]);
            assert_ptr_equal(tenmap_find(m, order[i]), t);
            assert_ptr_equal(t->model, m);
            assert_int_equal(t->shard, i / 2);
            assert_int_equal(tenmap_at_written(m, i)->name[0], written[i]);
        }
        assert_int_equal(tenmap_shard_count(m), 2);
        uint64_t size = 0;
        for (size_t i = 0; i < 2; i++) {
            const tenmap_shard *s = tenmap_shard_at(m, i);
            assert_string_equal(s->path, list[i]);
            assert_int_equal(s->first_tensor, 2 * i);
            assert_int_equal(s->tensor_count, 2);
            size += s->size;
        }
        assert_int_equal(tenmap_file_size(m), size);
        check_bytes(tenmap_find(m, "a"), 3);
        check_bytes(tenmap_find(m, "d"), 4);
        assert_string_equal(tenmap_path(m), list[0]);
        assert_string_equal(tenmap_folder(m), *state);
        assert_int_equal(tenmap_metadata_count(m), 4);
        assert_int_equal(tenmap_metadata_at(m, 2)->shard, 1);
        assert_string_equal(tenmap_metadata_get(m, "n"), "0");
        assert_null(tenmap_index_json(m, NULL));
        assert_int_equal(tenmap_missing_count(m), 0);
        tenmap_close(m);
    }
}

/* Everything that takes a model or its tensors works on it. */
static void calls_on_tensors_cross_the_files(void **state) {
    const char *const *list = write_parts(state);
    BOTH_BACKENDS(options, TENMAP_OPEN_ALIASES) {
        tenmap_model *m = must_open_list(list, 2, &options);
        unsigned char to[2][4];
        tenmap_request requests[] = {{.tensor = tenmap_find(m, "c"), .dst = to[0], .dst_bytes = 4},
                                     {.tensor = tenmap_find(m, "b"), .dst = to[1], .dst_bytes = 3}};
        assert_int_equal(tenmap_load(m, requests, 2, NULL, NULL), TENMAP_OK);
        for (size_t i = 0; i < 4; i++)
            assert_int_equal(to[0][i], pattern_byte(i));
        for (size_t i = 0; i < 3; i++)
            assert_int_equal(to[1][i], pattern_byte(i));
        const tenmap_tensor *both[] = {tenmap_find(m, "a"), tenmap_find(m, "d")};
        tenmap_stats stats[2];
        assert_int_equal(tenmap_measure(both, 2, NULL, stats, NULL), TENMAP_OK);
        assert_int_equal(stats[1].count, 2);
        assert_int_equal(tenmap_advise(m, NULL, TENMAP_ADVISE_POPULATE, NULL), TENMAP_OK);
        assert_int_equal(tenmap_advise(m, NULL, TENMAP_ADVISE_PREFETCH, NULL), TENMAP_OK);
        assert_ptr_equal(tenmap_find(m, "tied"), tenmap_find(m, "b")); /* in the other file */
        tenmap_close(m);
    }
}

static void a_name_in_two_files_is_an_error_that_names_both(void **state) {
    static const char *const names[] = {"base.safetensors", "other.safetensors",
                                        "adapter.safetensors"};
    write_model(in_folder(state, names[0]), part_0, 5);
    write_model(in_folder(state, names[1]), "{" U8("x", "0", "1", "1") "}", 1);
    write_model(in_folder(state, names[2]),
                "{" U8("y", "0", "1", "1") "," U8("a", "1", "2", "1") "}", 2);
    BOTH_BACKENDS(options, 0) {
        tenmap_error error = must_fail_list(name_paths(state, names, 3), 3, &options,
                                            TENMAP_ERR_FORMAT, "tensor \"a\" is in ");
        const char *first = strstr(error.message, "base.safetensors");
        assert_non_null(first);
        assert_non_null(strstr(first, "adapter.safetensors"));
        assert_null(strstr(error.message, "TENMAP_")); /* words for people */
        assert_non_null(strstr(error.message, "the later file wins"));
        assert_int_equal(error.remedy, TENMAP_REMEDY_LATER_WINS);
        assert_int_equal(error.shard, 2);
    }
    static const char *const twice[] = {"base.safetensors", "base.safetensors"};
    must_fail_list(name_paths(state, twice, 2), 2, NULL, TENMAP_ERR_FORMAT, "tensor \"b\" is in ");
}

static void the_later_file_wins_when_asked(void **state) {
    static const char *const names[] = {"base", "middle", "last"};
    write_model(in_folder(state, "base"), part_0, 5); /* b 3, a 2 */
    write_model(
        in_folder(state, "middle"),
        "{" U8("a", "0", "1", "1") "," U8("c", "1", "5", "4") "," U8("e", "5", "6", "1") "}", 6);
    write_model(in_folder(state, "last"), "{" U8("c", "0", "2", "2") "," U8("b", "2", "7", "5") "}",
                7);
    BOTH_BACKENDS(options, TENMAP_OPEN_LATER_WINS) {
        tenmap_model *m = must_open_list(name_paths(state, names, 3), 3, &options);
        static const char *const order[] = {"a", "e", "c", "b"};
        static const size_t first[] = {0, 0, 2}, count[] = {0, 2, 2};
        assert_int_equal(tenmap_count(m), 4); /* each name once */
        for (size_t i = 0; i < 4; i++) {
            assert_string_equal(tenmap_at(m, i)->name, order[i]);
            assert_ptr_equal(tenmap_find(m, order[i]), tenmap_at(m, i));
            assert_ptr_equal(tenmap_at(m, i)->model, m);
        }
        for (size_t i = 0; i < 3; i++) {
            assert_int_equal(tenmap_shard_at(m, i)->first_tensor, first[i]);
            assert_int_equal(tenmap_shard_at(m, i)->tensor_count, count[i]);
        }
        assert_int_equal(tenmap_find(m, "a")->shard, 1);
        assert_int_equal(tenmap_find(m, "b")->nelems, 5);
        check_bytes(tenmap_find(m, "b"), 2);
        check_bytes(tenmap_find(m, "c"), 0);
        check_bytes(tenmap_find(m, "e"), 5);
        assert_null(tenmap_at(m, 4));
        tenmap_close(m);
    }
}

/* Without duplicate names the flag changes nothing, nor does it for tenmap_open. */
static void later_wins_without_twins(void **state) {
    tenmap_options options = with(0, TENMAP_OPEN_LATER_WINS);
    const char *const *list = write_parts(state);
    tenmap_model *m = must_open_list(list, 2, &options);
    assert_int_equal(tenmap_count(m), 4);
    tenmap_close(m);
    write_model(in_folder(state, "m-1-of-2.safetensors"), part_0, 5);
    write_model(in_folder(state, "m-2-of-2.safetensors"), part_0, 5);
    must_fail(*state, &options, TENMAP_ERR_FORMAT, "no index says which one counts");
}

static void indexes_and_folders_are_parts_too(void **state) {
    static const char *const names[] = {"text", "vision/i.json", "extra.safetensors"};
    mkdir(in_folder(state, "text"), 0700);
    mkdir(in_folder(state, "vision"), 0700);
    write_model(in_folder(state, "text/m-1-of-2.safetensors"), part_0, 5);
    write_model(in_folder(state, "text/m-2-of-2.safetensors"), part_1, 6);
    write_model(in_folder(state, "vision/v.safetensors"), "{" U8("v", "0", "1", "1") "}", 1);
    write_text(in_folder(state, "vision/i.json"),
               "{\"weight_map\":{\"v\":\"v.safetensors\",\"w\":\"w.safetensors\"}}");
    write_model(in_folder(state, "extra.safetensors"), "{" U8("x", "0", "1", "1") "}", 1);
    BOTH_BACKENDS(options, TENMAP_OPEN_PARTIAL) {
        tenmap_model *m = must_open_list(name_paths(state, names, 3), 3, &options);
        assert_int_equal(tenmap_count(m), 6);
        assert_int_equal(tenmap_shard_count(m), 4);
        assert_int_equal(tenmap_find(m, "v")->shard, 2);
        assert_int_equal(tenmap_find(m, "x")->shard, 3);
        assert_string_equal(tenmap_folder(m), in_folder(state, "text"));
        assert_string_equal(tenmap_shard_listed(m, "w"), "w.safetensors");
        assert_null(tenmap_shard_listed(m, "x"));
        assert_int_equal(tenmap_listed_count(m), 2);
        assert_int_equal(tenmap_missing_count(m), 1);
        assert_string_equal(tenmap_missing_at(m, 0), "w.safetensors");
        size_t len;
        assert_non_null(strstr(tenmap_index_json(m, &len), "weight_map"));
        assert_int_equal(strlen(tenmap_index_json(m, NULL)), len);
        check_bytes(tenmap_find(m, "d"), 4);
        tenmap_close(m);
    }
}

static void a_path_that_is_not_there_is_a_missing_shard(void **state) {
    static const char *const names[] = {"gone.safetensors", "consolidated.00.safetensors", "lost"};
    write_parts(state);
    const char *const *list = name_paths(state, names, 3);
    BOTH_BACKENDS(options, TENMAP_OPEN_PARTIAL) {
        tenmap_options strict = with(options.backend, 0);
        assert_int_equal(
            must_fail_list(list, 3, &strict, TENMAP_ERR_NOT_FOUND, "gone.safetensors").index, 0);
        tenmap_model *m = must_open_list(list, 3, &options);
        assert_int_equal(tenmap_count(m), 2);
        assert_int_equal(tenmap_find(m, "a")->shard, 0);
        assert_int_equal(tenmap_missing_count(m), 2);
        assert_string_equal(tenmap_missing_at(m, 0), list[0]);
        assert_string_equal(tenmap_missing_at(m, 1), list[2]);
        assert_string_equal(tenmap_path(m), list[0]);
        assert_string_equal(tenmap_folder(m), *state);
        tenmap_close(m);
        m = must_open_list(list, 1, &options);
        assert_int_equal(tenmap_count(m), 0);
        assert_int_equal(tenmap_missing_count(m), 1);
        assert_null(tenmap_find(m, "a"));
        tenmap_close(m);
    }
}

/* TENMAP_OPEN_PARTIAL allows only missing files. */
static void what_is_there_must_be_whole(void **state) {
    static const char *const names[] = {"consolidated.00.safetensors", "broken", "empty"};
    tenmap_options options = with(0, TENMAP_OPEN_PARTIAL);
    write_parts(state);
    write_text(in_folder(state, "broken"), "0123456789");
    mkdir(in_folder(state, "empty"), 0700);
    const char *const *list = name_paths(state, names, 3);
    assert_int_equal(must_fail_list(list, 2, &options, TENMAP_ERR_FORMAT, "/broken\"").index, 1);
    list = name_paths(state, (const char *const[]){names[0], names[2]}, 2);
    assert_int_equal(must_fail_list(list, 2, &options, TENMAP_ERR_NOT_FOUND, "/empty\"").index, 1);
}

static void arguments_are_checked(void **state) {
    const char *const *list = write_parts(state);
    const char *const holes[] = {list[0], NULL};
    tenmap_options options = with(0, 0);
    must_fail_list(NULL, 2, NULL, TENMAP_ERR_ARGUMENT, "NULL");
    must_fail_list(list, 0, NULL, TENMAP_ERR_ARGUMENT, "empty");
    assert_int_equal(must_fail_list(holes, 2, NULL, TENMAP_ERR_ARGUMENT, "path 1").index, 1);
    must_fail_list(list, (size_t)-1, NULL, TENMAP_ERR_LIMIT, "paths");
    assert_int_equal(tenmap_open_list(list, 2, NULL, NULL, NULL), TENMAP_ERR_ARGUMENT);
    options.offset = 1;
    must_fail_list(list, 2, &options, TENMAP_ERR_ARGUMENT, "options.offset");
}

/* With one path this is tenmap_open, also for a model inside a larger file. */
static void one_path_is_a_model_by_itself(void **state) {
    bytes file = make_model(part_0, 5);
    unsigned char *larger = calloc(1, file.size + 16);
    memcpy(larger + 16, file.at, file.size);
    write_file(in_folder(state, "larger"), larger, file.size + 16);
    free(larger);
    free(file.at);
    const char *const *list = name_paths(state, (const char *const[]){"larger"}, 1);
    for (uint32_t flags = 0; flags <= TENMAP_OPEN_PARTIAL; flags += TENMAP_OPEN_PARTIAL)
        BOTH_BACKENDS(options, flags) {
            options.offset = 16;
            tenmap_model *m = must_open_list(list, 1, &options);
            assert_int_equal(tenmap_count(m), 2);
            check_bytes(tenmap_find(m, "a"), 3);
            tenmap_close(m);
        }
}

static void many_files_open_on_threads(void **state) {
    enum { MANY = 40 };
    static const uint32_t threads[] = {0, 1, 3, 64};
    char names[MANY][16], json[128];
    const char *list[MANY];
    for (int i = 0; i < MANY; i++) {
        snprintf(names[i], sizeof names[i], "f%d", i);
        snprintf(json, sizeof json,
                 "{\"t%d\":{\"dtype\":\"U8\",\"shape\":[%d],\"data_offsets\":[0,%d]}}", i, i, i);
        write_model(in_folder(state, names[i]), json, (size_t)i);
        list[i] = names[i];
    }
    for (size_t k = 0; k < COUNT(threads); k++)
        BOTH_BACKENDS(options, 0) {
            options.threads = threads[k];
            tenmap_model *m = must_open_list(name_paths(state, list, MANY), MANY, &options);
            assert_int_equal(tenmap_count(m), MANY);
            for (size_t i = 0; i < MANY; i++) {
                assert_int_equal(tenmap_at(m, i)->shard, i);
                assert_int_equal(tenmap_at(m, i)->nelems, i);
                check_bytes(tenmap_at(m, i), 0);
            }
            tenmap_close(m);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(two_files_are_one_model, empty_folder),
        cmocka_unit_test_setup(calls_on_tensors_cross_the_files, empty_folder),
        cmocka_unit_test_setup(a_name_in_two_files_is_an_error_that_names_both, empty_folder),
        cmocka_unit_test_setup(the_later_file_wins_when_asked, empty_folder),
        cmocka_unit_test_setup(later_wins_without_twins, empty_folder),
        cmocka_unit_test_setup(indexes_and_folders_are_parts_too, empty_folder),
        cmocka_unit_test_setup(a_path_that_is_not_there_is_a_missing_shard, empty_folder),
        cmocka_unit_test_setup(what_is_there_must_be_whole, empty_folder),
        cmocka_unit_test_setup(arguments_are_checked, empty_folder),
        cmocka_unit_test_setup(one_path_is_a_model_by_itself, empty_folder),
        cmocka_unit_test_setup(many_files_open_on_threads, empty_folder),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
