/*
 * How errors describe what users have instead of a model: error responses of servers, blank files,
 * texts; which folder of a hub's cache is opened; and that no message names a macro.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "support.h"

#include <sys/stat.h>
#include <unistd.h>

static const char tiny[] = "{\"t\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}";

/* As the path itself, and as a shard, where JSON is not an index. */
static void must_be_called(void **state, const char *text, const char *words) {
    write_text(in_folder(state, "x.safetensors"), text);
    must_fail(in_folder(state, "x.safetensors"), NULL, TENMAP_ERR_FORMAT, words);
    write_text(in_folder(state, "i.json"), "{\"weight_map\":{\"t\":\"x.safetensors\"}}");
    must_fail(in_folder(state, "i.json"), NULL, TENMAP_ERR_FORMAT, "x.safetensors");
}

#define SERVER                                                                                     \
    "this is the error message of a server, saved in place of the file: fetch the file again"

static void answers_of_servers_are_named(void **state) {
    static const char *const plain[] = {"Entry not found",
                                        "Repository not found",
                                        "Invalid username or password.",
                                        "Not Found",
                                        "404 page not found\n",
                                        "Access to model meta-llama/Llama-3 is restricted.",
                                        "error code: 1015",
                                        "\r\n503 Service Unavailable",
                                        "Too Many Requests"};
    for (size_t i = 0; i < COUNT(plain); i++) {
        must_be_called(state, plain[i], SERVER "; it begins with \"");
        must_fail(in_folder(state, "i.json"), NULL, TENMAP_ERR_FORMAT, SERVER);
    }
    must_be_called(state, "Entry not found", SERVER "; it begins with \"Entry not found\"");
    must_be_called(state, "{\"error\":\"Repository not found\"}",
                   SERVER "; it says \"Repository not found\"");
    must_fail(in_folder(state, "i.json"), NULL, TENMAP_ERR_FORMAT, SERVER); /* as a shard */
    must_be_called(state, "{\"status\": 401, \"message\": \"Bad \\u0022token\\u0022\", \"n\": [1]}",
                   SERVER "; it says \"Bad \\\"token\\\"\"");
    must_be_called(state, "{\"detail\":\"Not Found\"}\n", SERVER "; it says \"Not Found\"");
    must_be_called(state,
                   "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Error><Code>AccessDenied</Code>"
                   "<Message>Access Denied</Message></Error>",
                   "this is an XML document, the error message of a server, saved in place of the "
                   "file: fetch the file again; it says \"AccessDenied\"");
    must_be_called(state, "<Error><Code>NoSuchKey</Code></Error>",
                   "fetch the file again; it says \"NoSuchKey\"");
    must_be_called(state, "<?xml version=\"1.0\"?><Error></Code><Code></Error>",
                   "this is an XML document, most likely an error message");
    must_be_called(state, "<?xml version=\"1.0\"?><svg/>", "this is an XML document");
    must_be_called(state, "<!DOCTYPE html><title>Log in</title>", "this is an HTML page");
    must_be_called(state, "<head><title>302 Found</title></head>", "this is an HTML page");
    must_be_called(state, "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n",
                   "this is a Git LFS pointer");
}

/* JSON counts as a server's response only if it holds nothing else. */
static void other_json_is_no_answer(void **state) {
    write_text(in_folder(state, "c.json"), "{\"architectures\":[\"X\"],\"error\":{\"a\":1}}");
    must_fail(in_folder(state, "c.json"), NULL, TENMAP_ERR_FORMAT,
              "JSON text without a weight_map");
    write_model(in_folder(state, "s"), tiny, 1);
    write_text(in_folder(state, "c.json"), "{\"error\":\"x\",\"weight_map\":{\"t\":\"s\"}}");
    tenmap_close(must_open(in_folder(state, "c.json"), NULL));
    write_text(in_folder(state, "c.json"), "{\"error\":\"\\ud800\"}");
    must_fail(in_folder(state, "c.json"), NULL, TENMAP_ERR_FORMAT, "index, byte");
}

static void blank_files_are_named(void **state) {
    static const char *const blank[] = {"\r\n", "\n\n", "\n", " ", "\t \r\n  \n        \n"};
    char *long_blank = malloc(2001);
    for (size_t i = 0; i < COUNT(blank); i++) {
        must_be_called(state, blank[i], "the file contains only line ends and spaces");
        must_fail(in_folder(state, "i.json"), NULL, TENMAP_ERR_FORMAT,
                  "the file contains only line ends and spaces");
    }
    memset(long_blank, '\n', 2000);
    long_blank[2000] = '\0';
    must_be_called(state, long_blank, "the file contains only line ends and spaces");
    free(long_blank);
    bytes two = {(unsigned char *)"\r\n", 2};
    must_fail_memory(two, NULL, TENMAP_ERR_FORMAT, "only line ends and spaces");
}

static void a_list_of_words_is_text(void **state) {
    must_be_called(state, "[PAD]\n[unused0]\n[UNK]\n",
                   "this is a text file, not a SafeTensors file; it begins with \"[PAD]");
    must_be_called(state, "[UNK] 1\n[CLS] 2\n", "this is a text file");
    must_be_called(state, "[ \"a\", 1, 2, 3]", "this is JSON text");
    must_be_called(state, "[[1,2],[3,4]]", "this is JSON text");
    must_be_called(state, "[\n  {\"a\": 1}\n]", "this is JSON text");
    must_be_called(state, "[-1, 2, 3, 4]", "this is JSON text");
    must_be_called(state, "[null, 2, 3]", "this is JSON text");
    must_be_called(state, "500 words about seven things, and no answer of anybody",
                   SERVER); /* a short text that begins like one is shown */
}

/* A long text that begins like a response is not one. */
static void answers_are_short(void **state) {
    char *text = malloc(5001);
    memset(text, 'x', 5000);
    text[5000] = '\0';
    memcpy(text, "Not found ", 10);
    must_be_called(state, text, "this is a text file, not a SafeTensors file");
    free(text);
}

/* The cache of a hub. */

#define REVISION_1 "0123456789012345678901234567890123456789"
#define REVISION_2 "abcdefabcdefabcdefabcdefabcdefabcdefabcd"

static void make_folder_in(void **state, const char *name) {
    assert_int_equal(mkdir(in_folder(state, name), 0700), 0);
}

/* One file in blobs and a link to it in each snapshot, as clients of hubs lay it out. */
static void make_cache(void **state, bool second) {
    make_folder_in(state, "models--o--n");
    make_folder_in(state, "models--o--n/blobs");
    make_folder_in(state, "models--o--n/refs");
    make_folder_in(state, "models--o--n/snapshots");
    make_folder_in(state, "models--o--n/snapshots/" REVISION_1);
    write_model(in_folder(state, "models--o--n/blobs/b"), tiny, 1);
    assert_int_equal(symlink("../../blobs/b", in_folder(state, "models--o--n/snapshots/" REVISION_1
                                                               "/model.safetensors")),
                     0);
    if (!second)
        return;
    make_folder_in(state, "models--o--n/snapshots/" REVISION_2);
    assert_int_equal(symlink("../../blobs/b", in_folder(state, "models--o--n/snapshots/" REVISION_2
                                                               "/model.safetensors")),
                     0);
}

static void must_open_snapshot(void **state, const char *revision) {
    char folder[4200];
    tenmap_model *m = must_open(in_folder(state, "models--o--n"), NULL);
    snprintf(folder, sizeof folder, "%s/models--o--n/snapshots/%s", (const char *)*state, revision);
    assert_string_equal(tenmap_folder(m), folder);
    assert_string_equal(tenmap_path(m), in_folder(state, "models--o--n"));
    assert_int_equal(tenmap_count(m), 1);
    tenmap_close(m);
    check_agrees(in_folder(state, "models--o--n"), NULL, TENMAP_OK, &(tenmap_error){0});
}

static void the_only_snapshot_is_opened(void **state) {
    make_cache(state, false);
    must_open_snapshot(state, REVISION_1);
    write_text(in_folder(state, "models--o--n/refs/main"), "of-a-snapshot-that-is-gone");
    must_open_snapshot(state, REVISION_1);
}

static void the_snapshot_of_refs_main_is_opened(void **state) {
    make_cache(state, true);
    write_text(in_folder(state, "models--o--n/refs/main"), REVISION_2);
    must_open_snapshot(state, REVISION_2);
    write_text(in_folder(state, "models--o--n/refs/main"), REVISION_1 "\n");
    must_open_snapshot(state, REVISION_1);
}

/* Also a ref that would lead out of the cache, or is too long to be one. */
static void several_snapshots_are_listed_where_none_is_named(void **state) {
    char long_ref[600];
    memset(long_ref, 'a', sizeof long_ref);
    long_ref[sizeof long_ref - 1] = '\0';
    const char *const refs[] = {NULL, "", "gone", "../../..", REVISION_1 "/.", ".", long_ref};
    make_cache(state, true);
    for (size_t i = 0; i < COUNT(refs); i++) {
        if (refs[i])
            write_text(in_folder(state, "models--o--n/refs/main"), refs[i]);
        must_fail(in_folder(state, "models--o--n"), NULL, TENMAP_ERR_NOT_FOUND,
                  "open one of these in its snapshots folder: \"" REVISION_1 "\", \"" REVISION_2
                  "\"");
    }
}

static void a_cache_without_a_snapshot_says_so(void **state) {
    make_folder_in(state, "models--o--n");
    make_folder_in(state, "models--o--n/snapshots");
    make_folder_in(state, "models--o--n/blobs");
    must_fail(in_folder(state, "models--o--n"), NULL, TENMAP_ERR_NOT_FOUND, "it holds no snapshot");
    make_folder_in(state, "models--o--n/snapshots/" REVISION_1); /* one that holds nothing */
    must_fail(in_folder(state, "models--o--n"), NULL, TENMAP_ERR_NOT_FOUND,
              "snapshots/" REVISION_1 "\": this folder holds no ");
}

/* A folder that holds a model is not a cache, whatever else is in it. */
static void a_model_comes_before_snapshots(void **state) {
    make_cache(state, true);
    write_model(in_folder(state, "models--o--n/model.safetensors"), tiny, 1);
    tenmap_model *m = must_open(in_folder(state, "models--o--n"), NULL);
    assert_string_equal(tenmap_folder(m), in_folder(state, "models--o--n"));
    tenmap_close(m);
}

/* A folder named snapshots alone does not make a cache. */
static void a_folder_called_snapshots_is_not_yet_a_cache(void **state) {
    make_folder_in(state, "snapshots");
    must_fail(*state, NULL, TENMAP_ERR_NOT_FOUND, "this folder holds no");
}

static void a_whole_cache_names_its_models(void **state) {
    NEEDS_FILES(); /* other folders' subfolders are not listed */
    make_cache(state, false);
    must_fail(*state, NULL, TENMAP_ERR_NOT_FOUND, "open one of them: \"models--o--n\"");
}

/* Messages tell users what to do in words, without macros (check_error). */
static void remedies_are_in_words(void **state) {
    write_text(in_folder(state, "i.json"), "{\"weight_map\":{\"t\":\"gone\"}}");
    must_fail(in_folder(state, "i.json"), NULL, TENMAP_ERR_NOT_FOUND,
              "fetch them, or open it with missing shards allowed to go without");
    tenmap_options options = TENMAP_OPTIONS_INIT;
    options.max_header_bytes = 8;
    write_model(in_folder(state, "m"), tiny, 1);
    must_fail(in_folder(state, "m"), &options, TENMAP_ERR_LIMIT,
              "(a higher limit for headers allows it)");
    must_fail(in_folder(state, "i.json"), &options, TENMAP_ERR_LIMIT,
              "(a higher limit for headers allows it)");
    options.max_header_bytes = 0;
    options.backend = TENMAP_BACKEND_READ;
    tenmap_model *m = must_open(in_folder(state, "m"), &options);
    tenmap_error error = {0};
    assert_null(tenmap_view(tenmap_at(m, 0), TENMAP_U8, &error));
    check_error(&error, TENMAP_ERR_UNSUPPORTED);
    tenmap_close(m);
}

/* Opens it and returns why that failed. */
static uint32_t remedy_of(void **state, const char *name, const tenmap_options *options) {
    tenmap_error error;
    tenmap_model *m;
    memset(&error, 0xff, sizeof error);
    tenmap_status status = tenmap_open(in_folder(state, name), options, &m, &error);
    assert_int_not_equal(status, TENMAP_OK);
    check_error(&error, status);
    return error.remedy;
}

static void errors_tell_programs_what_would_help(void **state) {
    tenmap_options small = TENMAP_OPTIONS_INIT, whole = TENMAP_OPTIONS_INIT;
    small.max_header_bytes = 8;
    whole.flags = TENMAP_OPEN_DEQUANTIZE;
    assert_int_equal(remedy_of(state, "gone", NULL), TENMAP_REMEDY_NONE);
    write_text(in_folder(state, "i.json"), "{\"weight_map\":{\"t\":\"gone\"}}");
    assert_int_equal(remedy_of(state, "i.json", NULL), TENMAP_REMEDY_ALLOW_PARTIAL);
    write_model(in_folder(state, "m"),
                "{\"t\":{\"dtype\":\"F9\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1);
    assert_int_equal(remedy_of(state, "m", NULL), TENMAP_REMEDY_ALLOW_LENIENT);
    write_model(in_folder(state, "m"), tiny, 2);
    assert_int_equal(remedy_of(state, "m", NULL), TENMAP_REMEDY_ALLOW_LENIENT);
    assert_int_equal(remedy_of(state, "m", &small), TENMAP_REMEDY_RAISE_HEADER_LIMIT);
    write_model(in_folder(state, "m"), tiny, 0);
    assert_int_equal(remedy_of(state, "m", NULL), TENMAP_REMEDY_FETCH_AGAIN);
    write_text(in_folder(state, "m"), "");
    assert_int_equal(remedy_of(state, "m", NULL), TENMAP_REMEDY_FETCH_AGAIN);
    write_text(in_folder(state, "m"), "\x1f\x8b.");
    assert_int_equal(remedy_of(state, "m", NULL), TENMAP_REMEDY_CONVERT);
    write_text(in_folder(state, "m"), "just a text");
    assert_int_equal(remedy_of(state, "m", NULL), TENMAP_REMEDY_NONE);
    write_model(in_folder(state, "m"),
                "{\"m.qweight\":{\"dtype\":\"I32\",\"shape\":[1,8],\"data_offsets\":[0,32]}}", 32);
    assert_int_equal(remedy_of(state, "m", &whole), TENMAP_REMEDY_AS_STORED);
    write_model(in_folder(state, "a.safetensors"), tiny, 1);
    write_model(in_folder(state, "b.safetensors"), tiny, 1);
    assert_int_equal(remedy_of(state, "", NULL), TENMAP_REMEDY_OPEN_ONE);
}

static void remedies_have_names(void **state) {
    (void)state;
    assert_string_equal(tenmap_remedy_name(TENMAP_REMEDY_NONE), "none");
    assert_string_equal(tenmap_remedy_name(TENMAP_REMEDY_RAISE_HEADER_LIMIT), "raise-header-limit");
    assert_string_equal(tenmap_remedy_name(TENMAP_REMEDY_CREDENTIALS), "credentials");
    assert_string_equal(tenmap_remedy_name(TENMAP_REMEDY_CREDENTIALS + 1), "unknown");
    assert_string_equal(tenmap_remedy_name(UINT32_MAX), "unknown");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(answers_of_servers_are_named, empty_folder),
        cmocka_unit_test_setup(other_json_is_no_answer, empty_folder),
        cmocka_unit_test_setup(blank_files_are_named, empty_folder),
        cmocka_unit_test_setup(errors_tell_programs_what_would_help, empty_folder),
        cmocka_unit_test(remedies_have_names),
        cmocka_unit_test_setup(a_list_of_words_is_text, empty_folder),
        cmocka_unit_test_setup(answers_are_short, empty_folder),
        cmocka_unit_test_setup(the_only_snapshot_is_opened, empty_folder),
        cmocka_unit_test_setup(the_snapshot_of_refs_main_is_opened, empty_folder),
        cmocka_unit_test_setup(several_snapshots_are_listed_where_none_is_named, empty_folder),
        cmocka_unit_test_setup(a_cache_without_a_snapshot_says_so, empty_folder),
        cmocka_unit_test_setup(a_model_comes_before_snapshots, empty_folder),
        cmocka_unit_test_setup(a_folder_called_snapshots_is_not_yet_a_cache, empty_folder),
        cmocka_unit_test_setup(a_whole_cache_names_its_models, empty_folder),
        cmocka_unit_test_setup(remedies_are_in_words, empty_folder),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
