/*
 * Renaming tensors of a file: what changes and what does not, what is refused, records and repair.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "support.h"

#ifndef _WIN32
#include <sys/stat.h>
#include <unistd.h>
#endif

enum { DATA = 4000 };
/* Escapes, an unknown field, white space and metadata in the middle: all must survive. */
static const char model_json[] =
    " {\"t\\u0041\" : {\"dtype\":\"U8\",\"shape\":[3992],\"data_offsets\":[8,4000],\"x\":[1, "
    "{\"a\\n\":2}]},\"__metadata__\":{\"k\":\"v\"}\t, "
    "\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
    "\"c\" :{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}";

/* With `slack` spaces after the text. */
static void make_file(const char *path, size_t slack) {
    write_model_slack(path, model_json, slack, DATA);
}

static uint32_t must_rename(const char *path, const tenmap_renaming *names, size_t n,
                            uint32_t flags) {
    tenmap_edit_options options = TENMAP_EDIT_OPTIONS_INIT;
    tenmap_error error = {0};
    uint32_t how = 0;
    options.flags = flags;
    if (tenmap_rename(path, names, n, NULL, 0, &options, &how, &error) != TENMAP_OK)
        fail_msg("%s", error.message);
    return how;
}

/* The three tensors under these names, each with its own bytes. */
static void check_model(const char *path, const char *a, const char *b, const char *c) {
    static const size_t begins[] = {8, 0, 4}, sizes[] = {3992, 4, 4};
    const char *const names[] = {a, b, c};
    tenmap_model *m = must_open(path, NULL);
    assert_int_equal(tenmap_count(m), 3);
    for (size_t i = 0; i < 3; i++) {
        const tenmap_tensor *t = tenmap_find(m, names[i]);
        if (!t)
            fail_msg("there is no tensor %s", names[i]);
        assert_int_equal(t->nbytes, sizes[i]);
        assert_int_equal(t->dtype, i ? TENMAP_F32 : TENMAP_U8);
        for (size_t k = 0; k < sizes[i]; k++)
            assert_true(((const unsigned char *)t->data)[k] == pattern_byte(begins[i] + k));
    }
    tenmap_close(m);
}

static const char *value_of(const char *path, const char *key, char *out, size_t room) {
    tenmap_model *m = must_open(path, NULL);
    const char *value = tenmap_metadata_get(m, key);
    snprintf(out, room, "%s", value ? value : "(none)");
    tenmap_close(m);
    return out;
}

static void names_that_fit_are_changed_in_place(void **state) {
    const char *path = in_folder(state, "m.safetensors");
    const tenmap_renaming names[] = {{"tA", 2, "layers.0.\"weight\"", TENMAP_CSTR},
                                     {"b", TENMAP_CSTR, "\xc3\xa9", 2}};
    make_file(path, 100);
    uint64_t inode = inode_of(path);
    bytes before = read_whole(path);
    assert_int_equal(must_rename(path, names, 2, 0), TENMAP_EDIT_IN_PLACE);
    check_model(path, "layers.0.\"weight\"", "\xc3\xa9", "c");
    assert_int_equal(inode_of(path), inode);
    assert_int_equal(count_names(*state), 1);
    bytes after = read_whole(path);
    assert_int_equal(after.size, before.size);
    assert_memory_equal(after.at + after.size - DATA, before.at + before.size - DATA, DATA);
    /* Everything except the names is the same text as before. */
    const char *text = (const char *)after.at + 8;
    assert_non_null(strstr(text, "\"layers.0.\\\"weight\\\"\" : {\"dtype\":\"U8\",\"shape\":[3992],"
                                 "\"data_offsets\":[8,4000],\"x\":[1, {\"a\\n\":2}]}"));
    assert_non_null(strstr(text, "\"__metadata__\":{\"k\":\"v\"}"));
    free(before.at);
    free(after.at);
}

static void names_change_all_at_once(void **state) {
    const char *path = in_folder(state, "m.safetensors");
    const tenmap_renaming swap[] = {{"b", 1, "c", 1}, {"c", 1, "b", 1}};
    const tenmap_renaming ring[] = {{"tA", 2, "b", 1}, {"b", 1, "c", 1}, {"c", 1, "tA", 2}};
    make_file(path, 0);
    assert_int_equal(must_rename(path, swap, 2, 0), TENMAP_EDIT_IN_PLACE);
    check_model(path, "tA", "c", "b");
    make_file(path, 0);
    assert_int_equal(must_rename(path, ring, 3, 0), TENMAP_EDIT_IN_PLACE);
    check_model(path, "b", "c", "tA");
}

static void a_name_that_stays_keeps_its_text(void **state) {
    const char *path = in_folder(state, "m.safetensors");
    const tenmap_renaming same[] = {{"tA", 2, "tA", 2}};
    make_file(path, 0);
    assert_int_equal(must_rename(path, same, 1, 0), TENMAP_EDIT_IN_PLACE);
    assert_int_equal(must_rename(path, NULL, 0, 0), TENMAP_EDIT_IN_PLACE);
    bytes after = read_whole(path);
    assert_non_null(strstr((const char *)after.at + 8, "\"t\\u0041\" :"));
    free(after.at);
}

static void names_and_metadata_change_in_one_step(void **state) {
    char value[40];
    const char *path = in_folder(state, "m.safetensors");
    const tenmap_renaming names[] = {{"b", 1, "bias", 4}};
    const tenmap_edit edits[] = {{"k", 1, "w", 1, NULL}, {"renamed", 7, "yes", 3, NULL}};
    tenmap_error e = {0};
    uint32_t how = 0;
    make_file(path, 100);
    if (tenmap_rename(path, names, 1, edits, 2, NULL, &how, &e) != TENMAP_OK)
        fail_msg("%s", e.message);
    assert_int_equal(how, TENMAP_EDIT_IN_PLACE);
    check_model(path, "tA", "bias", "c");
    assert_string_equal(value_of(path, "k", value, sizeof value), "w");
    assert_string_equal(value_of(path, "renamed", value, sizeof value), "yes");
    /* Edits alone are tenmap_edit_metadata; a refused name leaves the metadata as it was. */
    assert_int_equal(tenmap_rename(path, NULL, 0, edits, 1, NULL, &how, &e), TENMAP_OK);
    const tenmap_renaming missing[] = {{"b", 1, "x", 1}};
    const tenmap_edit more[] = {{"k", 1, "never", 5, NULL}};
    check_refused(tenmap_rename(path, missing, 1, more, 1, NULL, &how, &e), &e,
                  TENMAP_ERR_NOT_FOUND, "there is no tensor \"b\"");
    assert_string_equal(value_of(path, "k", value, sizeof value), "w");
}

static void names_that_do_not_fit_make_a_new_file(void **state) {
    static char longer[2001];
    const char *path = in_folder(state, "m.safetensors");
    memset(longer, 'n', sizeof longer - 1);
    const tenmap_renaming there[] = {{"b", 1, longer, TENMAP_CSTR}};
    const tenmap_renaming back[] = {{longer, TENMAP_CSTR, "b", 1}};
    make_file(path, 0);
    uint64_t inode = inode_of(path);
    uint32_t how = must_rename(path, there, 1, 0);
    assert_true(how == TENMAP_EDIT_CLONED || how == TENMAP_EDIT_COPIED);
    check_model(path, "tA", longer, "c");
    assert_true(inode_of(path) != inode);
    assert_int_equal(must_rename(path, back, 1, 0), TENMAP_EDIT_IN_PLACE);
    check_model(path, "tA", "b", "c");
    assert_int_equal(must_rename(path, there, 1, TENMAP_EDIT_NO_IN_PLACE | TENMAP_EDIT_NO_CLONE),
                     TENMAP_EDIT_COPIED);
    check_model(path, "tA", longer, "c");
    assert_int_equal(count_names(*state), 1);
}

typedef struct refusal {
    tenmap_renaming names[2];
    tenmap_status status;
    size_t index;
    const char *fragment;
} refusal;

static void names_are_refused_with_a_sentence(void **state) {
    static const refusal refusals[] = {
        {{{"b", 1, "x", 1}, {"none", 4, "y", 1}},
         TENMAP_ERR_NOT_FOUND,
         1,
         "renaming 1: there is no tensor \"none\""},
        {{{"b", 1, "x", 1}, {"b", 1, "y", 1}},
         TENMAP_ERR_ARGUMENT,
         1,
         "tensor \"b\" is renamed twice"},
        {{{"b", 1, "x", 1}, {"c", 1, "x", 1}},
         TENMAP_ERR_ARGUMENT,
         1,
         "\"b\" and \"c\" would both be called \"x\""},
        {{{"tA", 2, "x", 1}, {"b", 1, "c", 1}},
         TENMAP_ERR_ARGUMENT,
         1,
         "\"b\" and \"c\" would both be called \"c\""},
        {{{"b", 1, "x", 1}, {"c", 1, "__metadata__", 12}},
         TENMAP_ERR_ARGUMENT,
         1,
         "cannot be called \"__metadata__\""},
        {{{"b", 1, "x\xff", 2}, {"c", 1, "y", 1}},
         TENMAP_ERR_ARGUMENT,
         0,
         "is not valid UTF-8 at its byte 1"},
        {{{"b", 1, "x", 1}, {NULL, 1, "y", 1}}, TENMAP_ERR_ARGUMENT, 1, "the name is NULL"},
        {{{"b", 1, NULL, 1}, {"c", 1, "y", 1}}, TENMAP_ERR_ARGUMENT, 0, "the new name is NULL"},
        {{{"__metadata__", 12, "x", 1}, {"c", 1, "y", 1}},
         TENMAP_ERR_NOT_FOUND,
         0,
         "there is no tensor \"__metadata__\""},
    };
    const char *path = in_folder(state, "m.safetensors");
    tenmap_error e = {0};
    uint32_t how = 77;
    make_file(path, 100);
    bytes before = read_whole(path);
    for (size_t i = 0; i < COUNT(refusals); i++) {
        check_refused(tenmap_rename(path, refusals[i].names, 2, NULL, 0, NULL, &how, &e), &e,
                      refusals[i].status, refusals[i].fragment);
        assert_int_equal(e.index, refusals[i].index);
    }
    check_refused(tenmap_rename(path, NULL, 1, NULL, 0, NULL, &how, &e), &e, TENMAP_ERR_ARGUMENT,
                  "the names are NULL");
    check_refused(tenmap_rename(NULL, NULL, 0, NULL, 0, NULL, &how, &e), &e, TENMAP_ERR_ARGUMENT,
                  "the path is NULL");
    bytes after = read_whole(path);
    assert_int_equal(how, 77);
    assert_int_equal(after.size, before.size);
    assert_memory_equal(after.at, before.at, before.size);
    assert_int_equal(count_names(*state), 1);
    free(before.at);
    free(after.at);
}

/* The index would still list names that no longer exist. */
static void a_shard_is_not_renamed_alone(void **state) {
    const tenmap_renaming names[] = {{"b", 1, "x", 1}};
    const tenmap_edit edit = {"k", 1, "w", 1, NULL};
    tenmap_error e = {0};
    const char *shard = in_folder(state, "model-00001-of-00002.safetensors");
    make_file(shard, 100);
    check_refused(tenmap_rename(shard, names, 1, NULL, 0, NULL, NULL, &e), &e, TENMAP_ERR_ARGUMENT,
                  "one of several files of a model");
    assert_int_equal(tenmap_rename(shard, NULL, 0, &edit, 1, NULL, NULL, &e), TENMAP_OK);
    check_model(shard, "tA", "b", "c");
    write_text(in_folder(state, "i.json"),
               "{\"weight_map\":{\"tA\":\"model-00001-of-00002.safetensors\"}}");
    check_refused(tenmap_rename(in_folder(state, "i.json"), names, 1, NULL, 0, NULL, NULL, &e), &e,
                  TENMAP_ERR_ARGUMENT, "it is an index");
    check_refused(tenmap_rename(*state, names, 1, NULL, 0, NULL, NULL, &e), &e, TENMAP_ERR_ARGUMENT,
                  "it is a folder");
}

#ifndef _WIN32
/*
 * A hard link to the file, or another program that has it open, still has the tensors under their
 * old names.
 */
static void shared_files_are_not_renamed_where_they_lie(void **state) {
    const char *blob = in_folder(state, "blob"), *path = in_folder(state, "m.safetensors");
    const tenmap_renaming names[] = {{"b", 1, "x", 1}};
    struct stat st;
    make_file(blob, 100);
    assert_int_equal(symlink("blob", path), 0);
    assert_true(must_rename(path, names, 1, 0) != TENMAP_EDIT_IN_PLACE);
    check_model(path, "tA", "x", "c");
    check_model(blob, "tA", "b", "c");
    assert_int_equal(unlink(path), 0);
    assert_int_equal(link(blob, path), 0);
    assert_true(must_rename(path, names, 1, 0) != TENMAP_EDIT_IN_PLACE);
    check_model(path, "tA", "x", "c");
    check_model(blob, "tA", "b", "c");
    assert_int_equal(unlink(path), 0);
    assert_int_equal(symlink("blob", path), 0);
    assert_int_equal(must_rename(path, names, 1, TENMAP_EDIT_FOLLOW_LINKS), TENMAP_EDIT_IN_PLACE);
    check_model(blob, "tA", "x", "c");
    assert_int_equal(lstat(path, &st), 0);
    assert_true(S_ISLNK(st.st_mode));
}
#endif

/* Records, made by hand as docs/writing.md describes them. */

static void put_u64(unsigned char *at, uint64_t value) {
    for (int i = 0; i < 8; i++)
        at[i] = (unsigned char)(value >> (8 * i));
}

/* Two headers of `n` bytes; `version` is '1' for metadata and '2' for names too. */
static void write_record(const char *record, char version, const void *before, const void *after,
                         size_t n, const char *path, uint64_t size) {
    size_t total = 40 + 2 * n + 8;
    unsigned char *r = calloc(1, total);
    memcpy(r, "TENMAPU", 7);
    r[7] = (unsigned char)version;
    put_u64(r + 16, inode_of(path));
    put_u64(r + 24, size);
    put_u64(r + 32, n);
    memcpy(r + 40, before, n);
    memcpy(r + 40 + n, after, n);
    uint64_t hash = UINT64_C(14695981039346656037);
    for (size_t i = 0; i < total - 8; i++)
        hash = (hash ^ r[i]) * UINT64_C(1099511628211);
    put_u64(r + total - 8, hash);
    write_file(record, r, total);
    free(r);
}

static void an_interrupted_renaming_is_repaired(void **state) {
    const char *path = in_folder(state, "m.safetensors");
    const char *record = in_folder(state, ".m.safetensors.tenmap-undo");
    const tenmap_renaming names[] = {{"tA", 2, "new", 3}};
    tenmap_error e = {0};
    for (uint32_t flags = 0; flags < 2; flags++) {
        uint32_t how = 7;
        make_file(path, 100);
        bytes before = read_whole(path);
        must_rename(path, names, 1, 0);
        bytes after = read_whole(path);
        size_t n = (size_t)(before.at[0] | before.at[1] << 8);
        write_record(record, '2', before.at + 8, after.at + 8, n, path, before.size);
        FILE *f = fopen(path, "r+b");
        assert_non_null(f);
        fwrite("\xff\xff\xff\xff\xff\xff\xff\xff", 1, 8, f);
        fwrite(after.at + 8, 1, n / 2, f);
        fwrite(before.at + 8 + n / 2, 1, n - n / 2, f);
        fclose(f);
        must_fail(path, NULL, TENMAP_ERR_LIMIT, "left the record \".m.safetensors.tenmap-undo\"");
        check_refused(tenmap_rename(path, names, 1, NULL, 0, NULL, NULL, &e), &e, TENMAP_ERR_LIMIT,
                      "repairing its metadata");
        if (tenmap_repair_metadata(path, flags, &how, &e) != TENMAP_OK)
            fail_msg("%s", e.message);
        assert_int_equal(how, flags ? TENMAP_REPAIR_UNDONE : TENMAP_REPAIR_FINISHED);
        check_model(path, flags ? "tA" : "new", "b", "c");
        assert_int_equal(count_names(*state), 1);
        free(before.at);
        free(after.at);
    }
}

enum { RECORD_TEXT = 256 };

/* The model has the header `good`; each text is tried as the record's other half. */
static void check_never_written(void **state, char version, const char *good, const char *other) {
    const char *path = in_folder(state, "m.safetensors");
    const char *record = in_folder(state, ".m.safetensors.tenmap-undo");
    char before[RECORD_TEXT], padded[RECORD_TEXT];
    tenmap_error e = {0};
    assert_true(strlen(good) <= RECORD_TEXT && strlen(other) <= RECORD_TEXT);
    memset(before, ' ', RECORD_TEXT);
    memset(padded, ' ', RECORD_TEXT);
    memcpy(before, good, strlen(good));
    memcpy(padded, other, strlen(other));
    bytes model = make_model_n(before, RECORD_TEXT, 16);
    write_file(path, model.at, model.size);
    for (uint32_t flags = 0; flags < 2; flags++) {
        write_record(record, version, flags ? padded : before, flags ? before : padded, RECORD_TEXT,
                     path, model.size);
        tenmap_status status = tenmap_repair_metadata(path, flags, NULL, &e);
        bytes there = read_whole(path);
        if (there.size != model.size || memcmp(there.at, model.at, there.size) != 0)
            fail_msg("a record wrote the header %s", other);
        check_refused(status, &e, TENMAP_ERR_FORMAT, "nothing was changed");
        free(there.at);
    }
    free(model.at);
}

#define VALUE_A "{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8],\"x\":1}"
#define VALUE_B "{\"dtype\":\"U8\",\"shape\":[8],\"data_offsets\":[8,16]}"
static const char good_header[] =
    "{\"__metadata__\":{\"k\":\"v\"},\"a\":" VALUE_A ",\"b\":" VALUE_B "}";

/* What a renaming record must not be able to do, whoever made it. */
static void a_record_of_names_can_change_nothing_else(void **state) {
    static const char *const others[] = {
        "",
        "not JSON at all",
        "{}",
        "{\"c\":" VALUE_A "}",                                     /* a tensor gone */
        "{\"c\":" VALUE_A ",\"d\":" VALUE_B ",\"e\":" VALUE_B "}", /* one more */
        "{\"c\":" VALUE_A ",\"c\":" VALUE_B "}",                   /* one name twice */
        "{\"c\":" VALUE_B ",\"d\":" VALUE_A "}",                   /* in another order */
        "{\"c\":" VALUE_A ",\"\xff\":" VALUE_B "}",                /* no UTF-8 */
        "{\"c\":" VALUE_A ",\"__metadata__\":" VALUE_B "}",        /* a tensor as metadata */
        "{\"c\":{\"dtype\":\"I32\",\"shape\":[2],\"data_offsets\":[0,8],\"x\":1},\"d\":" VALUE_B
        "}",
        "{\"c\":{\"dtype\":\"F32\",\"shape\":[2,1],\"data_offsets\":[0,8],\"x\":1},\"d\":" VALUE_B
        "}",
        "{\"c\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8],\"x\":2},\"d\":" VALUE_B
        "}",
        "{\"c\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[8,16],\"x\":1},"
        "\"d\":{\"dtype\":\"U8\",\"shape\":[8],\"data_offsets\":[0,8]}}",
        "{\"c\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8],\"y\":1},\"d\":" VALUE_B
        "}",
    };
    for (size_t i = 0; i < COUNT(others); i++)
        check_never_written(state, '2', good_header, others[i]);
    /* A record about metadata changes no names, and an unknown kind of record changes nothing. */
    check_never_written(state, '1', good_header, "{\"c\":" VALUE_A ",\"b\":" VALUE_B "}");
    check_never_written(state, '3', good_header, "{\"a\":" VALUE_A ",\"b\":" VALUE_B "}");
    /* The last of these models, with a correct record. */
    const char *path = in_folder(state, "m.safetensors");
    const char *record = in_folder(state, ".m.safetensors.tenmap-undo");
    static const char renamed[] = "{\"c\":" VALUE_A ",\"d\":" VALUE_B "}";
    char text[RECORD_TEXT];
    bytes model = read_whole(path);
    memset(text, ' ', sizeof text);
    memcpy(text, renamed, strlen(renamed));
    write_record(record, '2', model.at + 8, text, sizeof text, path, model.size);
    assert_int_equal(tenmap_repair_metadata(path, 0, NULL, NULL), TENMAP_OK);
    tenmap_model *m = must_open(path, NULL);
    assert_non_null(tenmap_find(m, "c"));
    assert_non_null(tenmap_find(m, "d"));
    assert_int_equal(tenmap_metadata_count(m), 0);
    tenmap_close(m);
    free(model.at);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(names_that_fit_are_changed_in_place, empty_folder),
        cmocka_unit_test_setup(names_change_all_at_once, empty_folder),
        cmocka_unit_test_setup(a_name_that_stays_keeps_its_text, empty_folder),
        cmocka_unit_test_setup(names_and_metadata_change_in_one_step, empty_folder),
        cmocka_unit_test_setup(names_that_do_not_fit_make_a_new_file, empty_folder),
        cmocka_unit_test_setup(names_are_refused_with_a_sentence, empty_folder),
        cmocka_unit_test_setup(a_shard_is_not_renamed_alone, empty_folder),
#ifndef _WIN32
        cmocka_unit_test_setup(shared_files_are_not_renamed_where_they_lie, empty_folder),
#endif
        cmocka_unit_test_setup(an_interrupted_renaming_is_repaired, empty_folder),
        cmocka_unit_test_setup(a_record_of_names_can_change_nothing_else, empty_folder),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
