/* Sharded models: indexes, numbered sets, missing shards, and contradictions. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "support.h"

#include <errno.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static const char shard_1[] = "{\"__metadata__\":{\"format\":\"pt\"},"
                              "\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]},"
                              "\"b\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[2,5]}}";
static const char shard_2[] = "{\"c\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]},"
                              "\"__metadata__\":{\"format\":\"np\",\"second\":\"2\"}}";
static const char index_json[] =
    "{\"metadata\":{\"total_size\":9},\"weight_map\":{\"c\":\"m-2.safetensors\","
    "\"a\":\"m-1.safetensors\",\"b\":\"m-1.safetensors\"}}";

static void write_both(void **state) {
    write_model(in_folder(state, "m-1.safetensors"), shard_1, 5);
    write_model(in_folder(state, "m-2.safetensors"), shard_2, 4);
}

static tenmap_options with_flags(uint32_t flags) {
    tenmap_options options = TENMAP_OPTIONS_INIT;
    options.flags = flags;
    return options;
}

static void an_index_opens_as_one_model(void **state) {
    static const uint32_t threads[] = {0, 1, 2, 500};
    const char *path = in_folder(state, "any.json"); /* known by its content, not by its name */
    write_both(state);
    write_text(path, index_json);
    for (size_t i = 0; i < COUNT(threads) * 2; i++) {
        tenmap_options options = TENMAP_OPTIONS_INIT;
        options.threads = threads[i / 2];
        options.backend = i % 2 ? TENMAP_BACKEND_READ : TENMAP_BACKEND_MAP;
        tenmap_model *m = must_open(path, &options);
        assert_string_equal(tenmap_path(m), path);
        assert_int_equal(tenmap_count(m), 3);
        assert_string_equal(tenmap_at(m, 0)->name, "a"); /* shards by name, then offset */
        assert_string_equal(tenmap_at(m, 1)->name, "b");
        assert_string_equal(tenmap_at(m, 2)->name, "c");
        assert_int_equal(tenmap_find(m, "c")->shard, 1);
        assert_ptr_equal(tenmap_find(m, "c")->model, m);
        assert_int_equal(tenmap_shard_count(m), 2);
        const tenmap_shard *second = tenmap_shard_at(m, 1);
        assert_int_equal(second->first_tensor, 2);
        assert_int_equal(second->tensor_count, 1);
        assert_non_null(strstr(second->path, "/m-2.safetensors"));
        assert_int_equal(tenmap_file_size(m), tenmap_shard_at(m, 0)->size + second->size);
        unsigned char c[4];
        assert_int_equal(tenmap_read_bytes(tenmap_find(m, "c"), 0, 4, c, NULL), TENMAP_OK);
        for (size_t k = 0; k < 4; k++)
            assert_int_equal(c[k], pattern_byte(k));
        assert_int_equal(tenmap_metadata_count(m), 3);
        assert_int_equal(tenmap_metadata_at(m, 2)->shard, 1);
        assert_string_equal(tenmap_metadata_get(m, "format"), "pt"); /* the first shard's */
        assert_string_equal(tenmap_metadata_get(m, "second"), "2");
        size_t len;
        assert_string_equal(tenmap_index_json(m, &len), index_json); /* as read */
        assert_int_equal(len, strlen(index_json));
        tenmap_close(m);
    }
}

static void shards_are_found_beside_the_index_as_its_path_was_given(void **state) {
    char link[4096];
    assert_int_equal(mkdir(in_folder(state, "blobs"), 0700), 0);
    assert_int_equal(mkdir(in_folder(state, "snapshot"), 0700), 0);
    write_model(in_folder(state, "blobs/1111"), shard_1, 5);
    write_model(in_folder(state, "blobs/2222"), shard_2, 4);
    write_text(in_folder(state, "blobs/3333"), index_json);
    static const char *const names[][2] = {{"1111", "m-1.safetensors"},
                                           {"2222", "m-2.safetensors"},
                                           {"3333", "model.safetensors.index.json"}};
    for (size_t i = 0; i < COUNT(names); i++) {
        snprintf(link, sizeof link, "../blobs/%s", names[i][0]);
        char path[4096];
        snprintf(path, sizeof path, "%s/snapshot/%s", (const char *)*state, names[i][1]);
        assert_int_equal(symlink(link, path), 0);
    }
    tenmap_close(must_open(in_folder(state, "snapshot"), NULL));
    tenmap_close(must_open(in_folder(state, "snapshot/model.safetensors.index.json"), NULL));
    char before[4096];
    assert_non_null(getcwd(before, sizeof before));
    assert_int_equal(chdir(in_folder(state, "snapshot")), 0);
    tenmap_close(must_open("model.safetensors.index.json", NULL)); /* no folder in the path */
    tenmap_close(must_open(".", NULL));
    assert_int_equal(chdir(before), 0);
}

static void missing_shards_are_counted_and_named(void **state) {
    char json[4096] = "{\"weight_map\":{";
    for (int i = 0; i < 9; i++)
        sprintf(json + strlen(json), "%s\"t%d\":\"s%d\"", i ? "," : "", i, i);
    strcat(json, "}}");
    write_text(in_folder(state, "i.json"), json);
    must_fail(in_folder(state, "i.json"), NULL, TENMAP_ERR_NOT_FOUND,
              "9 of 9 shards are missing: \"s0\", \"s1\", \"s2\", \"s3\", \"s4\" and 4 more");
}

static void partial_opens_without_the_missing_shards(void **state) {
    write_model(in_folder(state, "m-2.safetensors"), shard_2, 4);
    write_text(in_folder(state, "i.json"), index_json);
    must_fail(in_folder(state, "i.json"), NULL, TENMAP_ERR_NOT_FOUND, "1 of 2 shards");
    tenmap_options partial = with_flags(TENMAP_OPEN_PARTIAL);
    tenmap_model *m = must_open(in_folder(state, "i.json"), &partial);
    assert_int_equal(tenmap_count(m), 1);
    assert_null(tenmap_find(m, "a"));
    assert_int_equal(tenmap_find(m, "c")->shard, 0);
    assert_int_equal(tenmap_metadata_at(m, 0)->shard, 0);
    assert_int_equal(tenmap_shard_count(m), 1);
    assert_int_equal(tenmap_missing_count(m), 1);
    assert_string_equal(tenmap_missing_at(m, 0), "m-1.safetensors");
    assert_null(tenmap_missing_at(m, 1));
    tenmap_close(m);
    unlink(in_folder(state, "m-2.safetensors"));
    m = must_open(in_folder(state, "i.json"), &partial);
    assert_int_equal(tenmap_count(m), 0);
    assert_int_equal(tenmap_missing_count(m), 2);
    assert_null(tenmap_find(m, "a"));
    tenmap_close(m);
}

/* TENMAP_OPEN_PARTIAL allows only missing shards: one that exists must be complete. */
static void partial_does_not_forgive_a_broken_shard(void **state) {
    write_both(state);
    write_text(in_folder(state, "i.json"), index_json);
    assert_int_equal(truncate(in_folder(state, "m-2.safetensors"), 20), 0);
    tenmap_options partial = with_flags(TENMAP_OPEN_PARTIAL);
    must_fail(in_folder(state, "i.json"), &partial, TENMAP_ERR_FORMAT, "m-2.safetensors");
    tenmap_error error;
    tenmap_model *m;
    assert_int_equal(tenmap_open(in_folder(state, "i.json"), NULL, &m, &error), TENMAP_ERR_FORMAT);
    assert_int_equal(error.shard, 1);
}

static void names_that_leave_the_folder_are_refused(void **state) {
    static const char *const names[] = {
        "../x.safetensors",  "/etc/passwd", "..",        ".",    "",
        "sub\\\\x",          "a/../b",      "x\\u0000y", "a//b", "C:\\\\x",
        "sub/../../escaped", "sub/..",      "./x",       "/",    "sub/",
    };
    tenmap_options lenient = with_flags(TENMAP_OPEN_LENIENT);
    for (size_t i = 0; i < COUNT(names); i++) {
        char json[256];
        snprintf(json, sizeof json, "{\"weight_map\":{\"a\":\"%s\"}}", names[i]);
        write_text(in_folder(state, "i.json"), json);
        must_fail(in_folder(state, "i.json"), NULL, TENMAP_ERR_FORMAT, "is not a plain file name");
        must_fail(in_folder(state, "i.json"), &lenient, TENMAP_ERR_FORMAT, "plain file name");
    }
    assert_int_equal(mkdir(in_folder(state, "sub"), 0700), 0);
    write_model(in_folder(state, "sub/x"), shard_2, 4);
    write_text(in_folder(state, "i.json"), "{\"weight_map\":{\"c\":\"sub/x\"}}");
    must_fail(in_folder(state, "i.json"), NULL, TENMAP_ERR_FORMAT, "plain file name");
    tenmap_close(must_open(in_folder(state, "i.json"), &lenient));
    write_text(in_folder(state, "i.json"), "{\"weight_map\":{\"a\":\"s/x\",\"b\":\"t/x\"}}");
    must_fail(in_folder(state, "i.json"), &lenient, TENMAP_ERR_NOT_FOUND, "\"s/x\", \"t/x\"");
}

static void every_name_listed_must_be_in_its_shard(void **state) {
    write_both(state);
    write_text(in_folder(state, "i.json"),
               "{\"weight_map\":{\"a\":\"m-1.safetensors\",\"c\":\"m-1.safetensors\","
               "\"x\":\"m-2.safetensors\"}}");
    must_fail(in_folder(state, "i.json"), NULL, TENMAP_ERR_FORMAT,
              "the index lists tensors \"c\", \"x\" in shards, which do not have them");
    tenmap_options lenient = with_flags(TENMAP_OPEN_LENIENT);
    tenmap_model *m = must_open(in_folder(state, "i.json"), &lenient);
    assert_int_equal(tenmap_count(m), 3);
    assert_null(tenmap_find(m, "x"));
    assert_int_equal(tenmap_find(m, "c")->shard, 1); /* where it is */
    tenmap_close(m);
}

static void a_tensor_in_two_shards_is_taken_from_the_one_that_the_index_names(void **state) {
    static const char both[] = "{\"c\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
                               "\"d\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,2]}}";
    write_both(state);
    write_model(in_folder(state, "m-3.safetensors"), both, 2);
    write_text(in_folder(state, "i.json"),
               "{\"weight_map\":{\"a\":\"m-1.safetensors\",\"b\":\"m-1.safetensors\","
               "\"c\":\"m-3.safetensors\",\"zz\":\"m-2.safetensors\"}}");
    tenmap_options lenient = with_flags(TENMAP_OPEN_LENIENT);
    tenmap_model *m = must_open(in_folder(state, "i.json"), &lenient);
    assert_int_equal(tenmap_find(m, "c")->shard, 2);
    assert_int_equal(tenmap_find(m, "c")->nelems, 1);
    assert_non_null(tenmap_find(m, "d")); /* not listed, but in exactly one shard: included */
    assert_int_equal(tenmap_count(m), 4);
    assert_int_equal(tenmap_shard_at(m, 1)->tensor_count, 0);
    assert_int_equal(tenmap_shard_at(m, 2)->first_tensor, 2);
    tenmap_close(m);
    write_text(in_folder(state, "i.json"),
               "{\"weight_map\":{\"a\":\"m-1.safetensors\",\"d\":\"m-3.safetensors\","
               "\"b\":\"m-2.safetensors\"}}");
    must_fail(in_folder(state, "i.json"), &lenient, TENMAP_ERR_FORMAT,
              "tensor \"c\" is in \"m-2.safetensors\" and in \"m-3.safetensors\"");
}

static void what_an_index_must_be(void **state) {
    static const struct {
        const char *json, *error;
    } rows[] = {
        {"{}", "without a weight_map"},
        {"{1:{}}", "expected a key in quotes"},
        {"{\"weight_map\" {}}", "expected ':' after a key"},
        {"{\"model_type\":\"llama\"}", "without a weight_map"},
        {"{\"weight_map\":{}}", "weight_map is empty"},
        {"{\"weight_map\":null}", "expected weight_map as an object"},
        {"{\"weight_map\":{\"a\":1}}", "file of a tensor as a string"},
        {"{\"weight_map\":{\"a\":\"s\"},\"weight_map\":{}}", "weight_map appears twice"},
        {"{\"weight_map\":{\"a\":\"s\",\"\\u0061\":\"t\"}}",
         "tensor \"a\" appears twice in weight_map"},
        {"{\"weight_map\":{\"a\":\"s\"}", "expected ',' or '}' after a field of the index"},
        {"{\"weight_map\":{\"a\":\"s\"}} x", "nothing but white space"},
        {"{\"weight_map\":{\"a\":\"s\",}}", "expected the name of a tensor"},
        {"{\"weight_map\":{\"\xff\":\"s\"}}", "not valid UTF-8, found \"\\xff\""},
        {"{\"metadata\":{\"total_size\":1e999},\"weight_map\":{\"a\":\"s\"}}", "too large"},
        {"{\"metadata\":[[],\"weight_map\":{\"a\":\"s\"}}", "expected ',' or ']'"},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        write_text(in_folder(state, "i.json"), rows[i].json);
        must_fail(in_folder(state, "i.json"), NULL, TENMAP_ERR_FORMAT, rows[i].error);
    }
    write_text(in_folder(state, "i.json"), index_json);
    tenmap_options small = TENMAP_OPTIONS_INIT;
    small.max_header_bytes = strlen(index_json) - 1;
    must_fail(in_folder(state, "i.json"), &small, TENMAP_ERR_LIMIT, "a higher limit for headers");
    tenmap_options part = TENMAP_OPTIONS_INIT;
    part.length = strlen(index_json);
    must_fail(in_folder(state, "i.json"), &part, TENMAP_ERR_ARGUMENT, "single files");
    part.length = 0;
    part.offset = 1;
    must_fail(*state, &part, TENMAP_ERR_ARGUMENT, "single files");
}

static void a_wrong_total_size_is_no_error(void **state) {
    write_both(state);
    write_text(
        in_folder(state, "i.json"),
        "\n {\"metadata\":{\"total_size\":12345.5},\"weight_map\":{\"a\":\"m-1.safetensors\"}}");
    tenmap_model *m = must_open(in_folder(state, "i.json"), NULL);
    assert_int_equal(tenmap_count(m), 2); /* b is not listed, but exists */
    tenmap_close(m);
}

static void an_index_may_begin_with_much_white_space(void **state) {
    char *text = malloc(2000 + sizeof index_json);
    memset(text, ' ', 2000);
    strcpy(text + 2000, index_json);
    write_both(state);
    write_text(in_folder(state, "i.json"), text);
    tenmap_close(must_open(in_folder(state, "i.json"), NULL));
    free(text);
}

static void an_index_needs_a_path(void **state) {
    (void)state;
    must_fail_memory((bytes){(unsigned char *)(uintptr_t)index_json, strlen(index_json)}, NULL,
                     TENMAP_ERR_FORMAT, "open it by its path");
}

/* 123 is the byte of '{': a header of that length must not be taken for JSON text. */
static void a_length_field_that_looks_like_a_brace(void **state) {
    char json[160];
    int used = sprintf(json, "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}");
    memset(json + used, ' ', sizeof json - (size_t)used);
    bytes file = make_model_n(json, 123, 1);
    assert_int_equal(file.at[0], '{');
    write_file(in_folder(state, "brace"), file.at, file.size);
    tenmap_close(must_open(in_folder(state, "brace"), NULL));
    free(file.at);
}

static void many_shards_open_on_threads(void **state) {
    enum { SHARDS = 40 };
    char *json = calloc(1, 65536), name[64], text[256];
    strcpy(json, "{\"weight_map\":{");
    for (int i = SHARDS - 1; i >= 0; i--) {
        snprintf(name, sizeof name, "m-%05d-of-%05d.safetensors", i + 1, SHARDS);
        snprintf(text, sizeof text,
                 "{\"t%d\":{\"dtype\":\"U8\",\"shape\":[%d],\"data_offsets\":[0,%d]}}", i, i, i);
        write_model(in_folder(state, name), text, (size_t)i);
        sprintf(json + strlen(json), "\"t%d\":\"%s\"%s", i, name, i ? "," : "}}");
    }
    write_text(in_folder(state, "model.safetensors.index.json"), json);
    for (uint32_t threads = 0; threads < 9; threads++) {
        tenmap_options options = TENMAP_OPTIONS_INIT;
        options.threads = threads;
        tenmap_model *m = must_open(*state, &options);
        assert_int_equal(tenmap_count(m), SHARDS);
        for (int i = 0; i < SHARDS; i++) {
            assert_int_equal(tenmap_at(m, (size_t)i)->nelems, i);
            assert_int_equal(tenmap_at(m, (size_t)i)->shard, i);
        }
        tenmap_close(m);
    }
    free(json);
}

/* How many descriptors this process may still open. */
static int free_descriptors(void) {
    int taken[64], count = 0;
    while (count < 64 && (taken[count] = dup(0)) >= 0)
        count++;
    for (int i = 0; i < count; i++)
        close(taken[i]);
    return count;
}

static void too_few_descriptors_for_the_shards_are_counted(void **state) {
    enum { SHARDS = 40 };
    struct rlimit before, few;
    char name[64], json[128], wanted[64];
    for (int i = 0; i < SHARDS; i++) {
        snprintf(name, sizeof name, "m-%05d-of-%05d.safetensors", i + 1, SHARDS);
        snprintf(json, sizeof json,
                 "{\"t%d\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", i);
        write_model(in_folder(state, name), json, 1);
    }
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    for (uint32_t threads = 1; threads <= 4; threads += 3) {
        tenmap_options options = TENMAP_OPTIONS_INIT;
        tenmap_error error = {0};
        tenmap_model *m;
        options.threads = threads;
        few = before;
        few.rlim_cur = 20;
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
        int left = free_descriptors();
        tenmap_status status = tenmap_open(*state, &options, &m, &error);
        int left_after = free_descriptors();
        setrlimit(RLIMIT_NOFILE, &before);
        assert_true(left > 0 && left < SHARDS);
        assert_int_equal(left_after, left); /* nothing stays open */
        assert_int_equal(status, TENMAP_ERR_LIMIT);
        check_error(&error, TENMAP_ERR_LIMIT);
        assert_int_equal(error.os_error, EMFILE);
        assert_non_null(strstr(error.message, "each of its 40 shards"));
        assert_non_null(strstr(error.message, "ulimit -n"));
        snprintf(wanted, sizeof wanted, "reached its limit of open files after %d of them", left);
        assert_non_null(strstr(error.message, wanted));
        snprintf(wanted, sizeof wanted, "by at least %d", SHARDS - left);
        assert_non_null(strstr(error.message, wanted));
    }
    tenmap_close(must_open(*state, NULL));
}

static void an_index_of_too_many_files_is_refused_before_they_are_tried(void **state) {
    enum { FILES = 100001 };
    char *json = malloc(FILES * 32), *at = json;
    at += sprintf(at, "{\"weight_map\":{");
    for (int i = 0; i < FILES; i++)
        at += sprintf(at, "%s\"%d\":\"%d.s\"", i ? "," : "", i, i);
    strcpy(at, "}}");
    write_text(in_folder(state, "model.safetensors.index.json"), json);
    free(json);
    must_fail(*state, NULL, TENMAP_ERR_LIMIT,
              "the index names 100001 files, over the limit of 100000 shards");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(an_index_opens_as_one_model, empty_folder),
        cmocka_unit_test_setup(shards_are_found_beside_the_index_as_its_path_was_given,
                               empty_folder),
        cmocka_unit_test_setup(missing_shards_are_counted_and_named, empty_folder),
        cmocka_unit_test_setup(partial_opens_without_the_missing_shards, empty_folder),
        cmocka_unit_test_setup(partial_does_not_forgive_a_broken_shard, empty_folder),
        cmocka_unit_test_setup(names_that_leave_the_folder_are_refused, empty_folder),
        cmocka_unit_test_setup(every_name_listed_must_be_in_its_shard, empty_folder),
        cmocka_unit_test_setup(a_tensor_in_two_shards_is_taken_from_the_one_that_the_index_names,
                               empty_folder),
        cmocka_unit_test_setup(what_an_index_must_be, empty_folder),
        cmocka_unit_test_setup(a_wrong_total_size_is_no_error, empty_folder),
        cmocka_unit_test_setup(an_index_may_begin_with_much_white_space, empty_folder),
        cmocka_unit_test(an_index_needs_a_path),
        cmocka_unit_test_setup(a_length_field_that_looks_like_a_brace, empty_folder),
        cmocka_unit_test_setup(many_shards_open_on_threads, empty_folder),
        cmocka_unit_test_setup(too_few_descriptors_for_the_shards_are_counted, empty_folder),
        cmocka_unit_test_setup(an_index_of_too_many_files_is_refused_before_they_are_tried,
                               empty_folder),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
