/* Flags of opening: what each allows by itself, and an index without its shards. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "support.h"

#include <sys/stat.h>

static tenmap_options with(uint32_t backend, uint32_t flags) {
    tenmap_options options = TENMAP_OPTIONS_INIT;
    options.backend = backend;
    options.flags = flags;
    return options;
}

#define U8(name, begin, end, size)                                                                 \
    "\"" name "\":{\"dtype\":\"U8\",\"shape\":[" size "],\"data_offsets\":[" begin "," end "]}"

/* One model for each relaxation, and the count of its tensors. */
static const struct {
    uint32_t flag;
    const char *path, *fragment;
    size_t count;
} relaxed[] = {
    {TENMAP_OPEN_TRAILING, "trailing", "no tensor claims 2 bytes at the end", 1},
    {TENMAP_OPEN_HOLES, "holes", "a hole of 1 byte", 2},
    {TENMAP_OPEN_UNKNOWN_DTYPES, "dtype", "unknown dtype \"Q\"", 1},
    {TENMAP_OPEN_STALE_INDEX, "stale.json", "which does not have it", 1},
    {TENMAP_OPEN_SUBFOLDERS, "below.json", "is not a plain file name", 1},
};

static int write_relaxed(void **state) {
    empty_folder(state);
    mkdir(in_folder(state, "below"), 0700);
    write_model(in_folder(state, "good"), "{" U8("a", "0", "1", "1") "}", 1);
    write_model(in_folder(state, "below/good"), "{" U8("a", "0", "1", "1") "}", 1);
    write_model(in_folder(state, "trailing"), "{" U8("a", "0", "1", "1") "}", 3);
    write_model(in_folder(state, "holes"),
                "{" U8("a", "0", "1", "1") "," U8("b", "2", "3", "1") "}", 3);
    write_model(in_folder(state, "dtype"),
                "{\"a\":{\"dtype\":\"Q\",\"shape\":[2],\"data_offsets\":[0,3]}}", 3);
    write_text(in_folder(state, "stale.json"), "{\"weight_map\":{\"a\":\"good\",\"b\":\"good\"}}");
    write_text(in_folder(state, "below.json"), "{\"weight_map\":{\"a\":\"below/good\"}}");
    return 0;
}

static void each_relaxation_has_a_flag_of_its_own(void **state) {
    uint32_t all = 0;
    for (size_t i = 0; i < COUNT(relaxed); i++) {
        assert_int_equal(relaxed[i].flag, 256u << i); /* values never change */
        all |= relaxed[i].flag;
    }
    for (size_t i = 0; i < COUNT(relaxed); i++)
        for (uint32_t backend = 0; backend <= TENMAP_BACKEND_READ; backend++) {
            const char *path = in_folder(state, relaxed[i].path);
            tenmap_options others = with(backend, all & ~relaxed[i].flag);
            must_fail(path, &others, TENMAP_ERR_FORMAT, relaxed[i].fragment);
            const uint32_t allow[] = {relaxed[i].flag, all, TENMAP_OPEN_LENIENT};
            for (size_t k = 0; k < COUNT(allow); k++) {
                tenmap_options options = with(backend, allow[k]);
                tenmap_model *m = must_open(path, &options);
                assert_int_equal(tenmap_count(m), relaxed[i].count);
                tenmap_close(m);
                check_agrees(path, &options, TENMAP_OK, &(tenmap_error){0});
            }
        }
}

static void count_findings(void *ctx, const tenmap_finding *finding) {
    size_t *counts = ctx;
    counts[finding->severity]++;
}

/* With a flag, tenmap_check reports what it allows as a warning, without it as an error. */
static void a_check_takes_single_flags(void **state) {
    for (size_t i = 0; i < COUNT(relaxed); i++) {
        size_t strict[4] = {0}, allowed[4] = {0};
        tenmap_options options = with(0, relaxed[i].flag);
        const char *path = in_folder(state, relaxed[i].path);
        assert_int_equal(tenmap_check(path, NULL, count_findings, strict, NULL), TENMAP_OK);
        assert_int_equal(tenmap_check(path, &options, count_findings, allowed, NULL), TENMAP_OK);
        assert_true(strict[TENMAP_FINDING_ERROR] > 0);
        assert_int_equal(allowed[TENMAP_FINDING_ERROR], 0);
    }
}

/* An index without its shards. */

static void index_only_looks_for_no_shard(void **state) {
    write_text(
        in_folder(state, "i.json"),
        "{\"metadata\":{\"tied\":\"a\"},\"weight_map\":{\"a\":\"gone-1\",\"b\":\"gone-2\"}}");
    for (uint32_t backend = 0; backend <= TENMAP_BACKEND_READ; backend++) {
        tenmap_options options = with(backend, TENMAP_OPEN_INDEX_ONLY);
        tenmap_model *m = must_open(in_folder(state, "i.json"), &options);
        assert_int_equal(tenmap_count(m), 0);
        assert_int_equal(tenmap_shard_count(m), 0);
        assert_int_equal(tenmap_missing_count(m), 0); /* nothing was looked for */
        assert_int_equal(tenmap_metadata_count(m), 0);
        assert_int_equal(tenmap_file_size(m), 0);
        assert_null(tenmap_at(m, 0));
        assert_null(tenmap_at_written(m, 0));
        assert_null(tenmap_find(m, "a"));
        assert_string_equal(tenmap_shard_listed(m, "a"), "gone-1");
        assert_string_equal(tenmap_shard_listed(m, "b"), "gone-2");
        assert_null(tenmap_shard_listed(m, "tied"));
        assert_int_equal(tenmap_listed_count(m), 2);
        assert_string_equal(tenmap_listed_at(m, 1), "b");
        assert_string_equal(tenmap_folder(m), *state);
        assert_non_null(tenmap_index_json(m, NULL));
        assert_int_equal(tenmap_load(m, NULL, 0, NULL, NULL), TENMAP_OK);
        assert_int_equal(tenmap_advise(m, NULL, TENMAP_ADVISE_POPULATE, NULL), TENMAP_OK);
        tenmap_close(m);
        check_agrees(in_folder(state, "i.json"), &options, TENMAP_OK, &(tenmap_error){0});
        options.flags |= TENMAP_OPEN_ALIASES | TENMAP_OPEN_PARTIAL | TENMAP_OPEN_LENIENT |
                         TENMAP_OPEN_DEQUANTIZE;
        m = must_open(in_folder(state, "i.json"), &options);
        assert_null(tenmap_find(m, "tied"));
        tenmap_close(m);
    }
    must_fail(in_folder(state, "i.json"), NULL, TENMAP_ERR_NOT_FOUND, "2 of 2 shards are missing");
}

/* One tensor of many shards: the index, then the file that it names. */
static void index_only_finds_the_file_of_one_tensor(void **state) {
    tenmap_options options = with(0, TENMAP_OPEN_INDEX_ONLY);
    write_text(in_folder(state, "model.safetensors.index.json"),
               "{\"weight_map\":{\"a\":\"good\",\"b\":\"gone\"}}");
    tenmap_model *index = must_open(*state, &options); /* the folder's index */
    char path[4200];
    snprintf(path, sizeof path, "%s/%s", tenmap_folder(index), tenmap_shard_listed(index, "a"));
    tenmap_model *shard = must_open(path, NULL);
    assert_non_null(tenmap_find(shard, "a"));
    tenmap_close(shard);
    tenmap_close(index);
}

/* A model without an index opens as usual. */
static void index_only_opens_a_file_as_it_is(void **state) {
    tenmap_options options = with(0, TENMAP_OPEN_INDEX_ONLY);
    tenmap_model *m = must_open(in_folder(state, "good"), &options);
    assert_int_equal(tenmap_count(m), 1);
    assert_null(tenmap_index_json(m, NULL));
    tenmap_close(m);
}

/* An index that breaks a rule is still refused. */
static void index_only_judges_the_index(void **state) {
    tenmap_options options = with(0, TENMAP_OPEN_INDEX_ONLY);
    write_text(in_folder(state, "bad.json"), "{\"weight_map\":{\"a\":\"../up\"}}");
    must_fail(in_folder(state, "bad.json"), &options, TENMAP_ERR_FORMAT, "not a plain file name");
    write_text(in_folder(state, "bad.json"), "{\"weight_map\":{}}");
    must_fail(in_folder(state, "bad.json"), &options, TENMAP_ERR_FORMAT, "it names no shard");
}

static void indexes_alone_in_a_list(void **state) {
    tenmap_options options = with(0, TENMAP_OPEN_INDEX_ONLY);
    char one[4096], two[4096];
    snprintf(one, sizeof one, "%s", in_folder(state, "one.json"));
    snprintf(two, sizeof two, "%s", in_folder(state, "two.json"));
    write_text(one, "{\"weight_map\":{\"a\":\"gone-1\",\"c\":\"gone-1\"}}");
    write_text(two, "{\"weight_map\":{\"b\":\"gone-2\",\"c\":\"gone-2\"}}");
    const char *const paths[] = {one, two};
    tenmap_model *m = NULL;
    assert_int_equal(tenmap_open_list(paths, 2, &options, &m, NULL), TENMAP_OK);
    assert_int_equal(tenmap_count(m), 0);
    assert_null(tenmap_find(m, "a"));
    assert_int_equal(tenmap_listed_count(m), 4);
    assert_string_equal(tenmap_listed_at(m, 2), "b");
    assert_string_equal(tenmap_shard_listed(m, "a"), "gone-1");
    assert_string_equal(tenmap_shard_listed(m, "b"), "gone-2");
    assert_string_equal(tenmap_shard_listed(m, "c"), "gone-2"); /* the later one's */
    tenmap_close(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(each_relaxation_has_a_flag_of_its_own, write_relaxed),
        cmocka_unit_test_setup(a_check_takes_single_flags, write_relaxed),
        cmocka_unit_test_setup(index_only_looks_for_no_shard, write_relaxed),
        cmocka_unit_test_setup(index_only_finds_the_file_of_one_tensor, write_relaxed),
        cmocka_unit_test_setup(index_only_opens_a_file_as_it_is, write_relaxed),
        cmocka_unit_test_setup(index_only_judges_the_index, write_relaxed),
        cmocka_unit_test_setup(indexes_alone_in_a_list, write_relaxed),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
