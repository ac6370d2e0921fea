/* tenmap_check reports every finding, not only the first, and always agrees with tenmap_open. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "format/format.h"
#include "torch_files.h"

#include <sys/resource.h>
#include <unistd.h>

typedef struct note {
    uint32_t severity, code, shard;
    uint64_t offset, count;
    char tensor[128], message[480];
} note;

typedef struct notes {
    note items[512];
    size_t count, errors;
} notes;

static notes all;

static void take(void *ctx, const tenmap_finding *f) {
    notes *list = ctx;
    assert_true(list->count < COUNT(list->items));
    note *n = &list->items[list->count++];
    *n = (note){.severity = f->severity,
                .code = f->code,
                .shard = f->shard,
                .offset = f->offset,
                .count = f->count};
    snprintf(n->tensor, sizeof n->tensor, "%s", f->tensor ? f->tensor : "(none)");
    snprintf(n->message, sizeof n->message, "%s", f->message);
    list->errors += f->severity == TENMAP_FINDING_ERROR;
}

/* Collects the findings for the path in `all`, and checks that the verdict is tenmap_open's. */
static void check_path(const char *path, uint32_t flags) {
    tenmap_options options = TENMAP_OPTIONS_INIT;
    tenmap_error error = {0};
    tenmap_model *model;
    options.flags = flags;
    memset(&all, 0, sizeof all);
    assert_int_equal(tenmap_check(path, &options, take, &all, &error), TENMAP_OK);
    tenmap_status opened = tenmap_open(path, &options, &model, &error);
    tenmap_close(model);
    assert_int_equal(opened == TENMAP_OK, all.errors == 0);
    for (size_t i = 0; i < all.count; i++)
        if (all.items[i].severity == TENMAP_FINDING_ERROR) {
            if (strncmp(error.message, all.items[i].message, strlen(all.items[i].message)) != 0)
                fail_msg("open: %s\ncheck: %s", error.message, all.items[i].message);
            break;
        }
}

static void check_json(void **state, const char *json, size_t data) {
    const char *path = in_folder(state, "m.safetensors");
    write_model(path, json, data);
    check_path(path, 0);
}

static const note *find(uint32_t severity, uint32_t code, const char *tensor) {
    for (size_t i = 0; i < all.count; i++) {
        const note *n = &all.items[i];
        if (n->severity == severity && n->code == code &&
            (!tensor || strcmp(n->tensor, tensor) == 0))
            return n;
    }
    return NULL;
}

static size_t count_of(uint32_t severity, uint32_t code) {
    size_t count = 0;
    for (size_t i = 0; i < all.count; i++)
        count += all.items[i].severity == severity && all.items[i].code == code;
    return count;
}

static void must_find(uint32_t severity, uint32_t code, const char *tensor, const char *fragment) {
    const note *n = find(severity, code, tensor);
    if (n && strstr(n->message, fragment))
        return;
    for (size_t i = 0; i < all.count; i++)
        print_message("%u %s %s: %s\n", all.items[i].severity, tenmap_found_name(all.items[i].code),
                      all.items[i].tensor, all.items[i].message);
    fail_msg("no %s about %s with \"%s\"", tenmap_found_name(code), tensor ? tensor : "none",
             fragment);
}

#define MUST_FIND(severity, code, tensor, fragment)                                                \
    must_find(TENMAP_FINDING_##severity, TENMAP_FOUND_##code, tensor, fragment)

#define T(name, dtype, shape, begin, end)                                                          \
    "\"" name "\":{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":[" #begin "," #end \
    "]}"

static void a_plain_file_has_no_findings(void **state) {
    /* 88 bytes, padded. */
    char json[89] = "{\"__metadata__\":{\"format\":\"pt\"}," T("a", "F32", "[2]", 0, 8) "}";
    memset(json + strlen(json), ' ', 88 - strlen(json));
    check_json(state, json, 8);
    assert_int_equal(all.count, 0);
}

static void every_bad_tensor_is_found(void **state) {
    check_json(state,
               "{" T("size", "F32", "[2]", 0, 4) "," T("dtype", "F99", "[2]", 4, 8) "," T(
                   "nibble", "F4", "[3]", 8,
                   10) "," T("huge", "U8", "[4294967296,4294967296]", 10,
                             12) "," T("over", "U8", "[4]", 10,
                                       14) "," T("back", "U8", "[1]", 15,
                                                 14) "," T("gap", "U8", "[2]", 18, 20) "}",
               20);
    MUST_FIND(ERROR, DTYPE, "dtype", "unknown dtype \"F99\"");
    MUST_FIND(ERROR, SIZE, "size", "span 4 bytes");
    MUST_FIND(ERROR, PART_OF_BYTE, "nibble", "not a whole number of bytes");
    MUST_FIND(ERROR, OVERFLOW, "huge", "overflows 64 bits");
    MUST_FIND(ERROR, OVERLAP, "over", "tensors overlap");
    MUST_FIND(ERROR, OFFSETS, "back", "before they begin");
    MUST_FIND(ERROR, HOLE, "gap", "a hole of 4 bytes");
    assert_int_equal(all.errors, 7);
}

static void entries_of_wrong_types_do_not_end_the_check(void **state) {
    check_json(
        state,
        "{\"one\":{\"dtype\":\"U8\",\"shape\":[2.0],\"data_offsets\":[0,2]},"
        "\"two\":7,\"three\":{\"dtype\":\"U8\",\"shape\":[1]},"
        "\"__metadata__\":{\"k\":1,\"k2\":\"v\",\"k3\":[\"\\u00e9\"]},"
        "\"__metadata__\":null,\"four\":[\"U8\",[1],[2,3]]," T("last", "F32", "[9]", 2, 3) "}",
        3);
    MUST_FIND(ERROR, ENTRY, "one", "plain non-negative integer");
    MUST_FIND(ERROR, ENTRY, "two", "expected an object");
    MUST_FIND(ERROR, ENTRY, "three", "data_offsets is missing");
    MUST_FIND(ERROR, ENTRY, "four", "expected an object");
    assert_int_equal(count_of(TENMAP_FINDING_ERROR, TENMAP_FOUND_METADATA), 3);
    MUST_FIND(ERROR, SIZE, "last", "takes 36");
    assert_int_equal(all.errors, 8); /* and no hole for an entry that was skipped */
}

static void json_errors_have_their_position(void **state) {
    check_json(state, "{" T("a", "F99", "[1]", 0, 1) ",\"b\":{\"dtype\":\"U8\",}", 1);
    MUST_FIND(ERROR, DTYPE, "a", "F99");
    MUST_FIND(ERROR, JSON, "b", "header, byte");
    assert_int_equal(find(TENMAP_FINDING_ERROR, TENMAP_FOUND_JSON, "b")->offset, 80);
    check_json(state, "{\"\xff\":1}", 0);
    MUST_FIND(ERROR, JSON, NULL, "not valid UTF-8");
    check_json(state, "[]", 0);
    MUST_FIND(ERROR, JSON, NULL, "expected the header to be a JSON object");
}

static void duplicates_are_all_found(void **state) {
    check_json(state,
               "{\"__metadata__\":{\"k\":\"1\",\"l\":\"2\",\"k\":\"3\",\"l\":\"4\"}," T(
                   "a", "U8", "[1]", 0, 1) "," T("a", "U8", "[1]", 1, 2) "," T("\\u0061", "U8",
                                                                               "[1]", 2, 3) "}",
               3);
    assert_int_equal(count_of(TENMAP_FINDING_ERROR, TENMAP_FOUND_DUPLICATE_KEY), 2);
    assert_int_equal(count_of(TENMAP_FINDING_ERROR, TENMAP_FOUND_DUPLICATE_NAME), 2);
}

static void truncation_names_every_tensor_it_cuts(void **state) {
    check_json(state,
               "{" T("a", "U8", "[4]", 0, 4) "," T("b", "U8", "[4]", 4, 8) "," T("c", "U8", "[4]",
                                                                                 8, 12) "}",
               6);
    MUST_FIND(ERROR, TRUNCATED, NULL, "truncated: 96.6% is there, 172 of 178 bytes");
    MUST_FIND(ERROR, INCOMPLETE, "b", "only 50.0% of it is in the file, 2 of 4 bytes");
    MUST_FIND(ERROR, INCOMPLETE, "c", "only 0.0% of it is in the file, 0 of 4 bytes");
    assert_null(find(TENMAP_FINDING_ERROR, TENMAP_FOUND_INCOMPLETE, "a"));
    check_json(state, "{" T("a", "U8", "[4]", 0, 4) "}", 9);
    MUST_FIND(ERROR, TRAILING, NULL, "no tensor claims 5 bytes at the end");
}

static void oddities_are_no_errors(void **state) {
    check_json(state,
               " {\"__metadata__\":null, " T("", "U8", "[1]", 1, 2) "," T(
                   "__x__", "U8", "[1]", 0,
                   1) "," T("e", "F32", "[0]", 2,
                            2) ",\"\\n\":{\"dtype\":\"U16\",\"shape\":[1],"
                               "\"data_offsets\":[2,4],\"extra\":[1,{}]}}\n         ",
               4);
    assert_int_equal(all.errors, 0);
    MUST_FIND(NOTE, WHITE_SPACE, NULL, "before the header's JSON");
    MUST_FIND(NOTE, SLACK, NULL, "10 bytes of white space");
    MUST_FIND(NOTE, NO_FORMAT, NULL, "format");
    MUST_FIND(NOTE, ORDER, NULL, "in the order of their data");
    MUST_FIND(NOTE, NAME, "", "empty");
    MUST_FIND(NOTE, NAME, "__x__", "__x__");
    MUST_FIND(NOTE, NAME, "\n", "control character");
    MUST_FIND(NOTE, EMPTY_TENSOR, "e", "no data");
    MUST_FIND(NOTE, UNKNOWN_FIELD, "\n", "\"extra\"");
    MUST_FIND(WARNING, DATA_START, NULL, "not a multiple of 8");
    check_json(state, "{}", 0);
    MUST_FIND(NOTE, NO_TENSORS, NULL, "no tensor");
}

static void misaligned_tensors_are_warned_of(void **state) {
    check_json(state, "{" T("a", "U8", "[1]", 0, 1) "," T("b", "F32", "[1]", 1, 5) "}", 5);
    assert_int_equal(all.errors, 0);
    MUST_FIND(WARNING, MISALIGNED, "b", "not a multiple of 4");
    assert_null(find(TENMAP_FINDING_WARNING, TENMAP_FOUND_MISALIGNED, "a"));
}

static void lenient_findings_are_warnings(void **state) {
    const char *path = in_folder(state, "m.safetensors");
    write_model(path, "{" T("a", "F99", "[1]", 0, 1) "," T("b", "U8", "[1]", 3, 4) "}", 9);
    check_path(path, 0);
    assert_int_equal(all.errors, 3);
    check_path(path, TENMAP_OPEN_LENIENT);
    assert_int_equal(all.errors, 0);
    MUST_FIND(WARNING, DTYPE, "a", "F99");
    MUST_FIND(WARNING, HOLE, "b", "2 bytes");
    MUST_FIND(WARNING, TRAILING, NULL, "5 bytes");
}

static void other_files_are_named(void **state) {
    const char *path = in_folder(state, "m.safetensors");
    write_text(path, "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n");
    check_path(path, 0);
    MUST_FIND(ERROR, FOREIGN, NULL, "git lfs pull");
    write_text(path, "");
    check_path(path, 0);
    MUST_FIND(ERROR, FOREIGN, NULL, "empty");
    write_file(path, "\x00\x01\x00\x00\x00\x00\x00\x00{}", 10);
    check_path(path, 0);
    MUST_FIND(ERROR, TRUNCATED, NULL, "only 2 follow");
    write_file(path, "\x00\x01\x00\x00\x00\x00\x80\x00{}", 10);
    check_path(path, 0);
    MUST_FIND(ERROR, LIMIT, NULL, "over the limit");
}

/* A hostile file must not produce a message for each of its tensors. */
static void findings_of_one_kind_are_counted_after_the_first(void **state) {
    enum { TENSORS = 5000 };
    char *json = malloc(TENSORS * 64), *at = json;
    assert_non_null(json);
    for (int i = 0; i < TENSORS; i++)
        at += sprintf(at, "%c\"t%d\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[%d,%d]}",
                      i ? ',' : '{', i, i * 5, i * 5 + 4);
    strcpy(at, "}");
    check_json(state, json, TENSORS * 5 - 1);
    assert_true(all.count < 150);
    assert_int_equal(count_of(TENMAP_FINDING_ERROR, TENMAP_FOUND_HOLE), 33);
    bool counted = false;
    for (size_t i = 0; i < all.count; i++)
        counted |= strcmp(all.items[i].message, "and 4967 more of this kind (hole)") == 0 &&
                   all.items[i].count == 4967;
    assert_true(counted);
    free(json);
}

static const char index_start[] = "{\"metadata\":{\"total_size\":";

static void write_shards(void **state) {
    write_model(in_folder(state, "m-00001-of-00002.safetensors"),
                "{" T("a", "U8", "[4]", 0, 4) "," T("both", "U8", "[1]", 4, 5) "}", 5);
    write_model(in_folder(state, "m-00002-of-00002.safetensors"),
                "{" T("b", "U8", "[4]", 0, 4) "," T("both", "U8", "[1]", 4,
                                                    5) "," T("unlisted", "U8", "[1]", 5, 6) "}",
                6);
}

static void check_weight_map(void **state, const char *total, const char *map, uint32_t flags) {
    char text[4096];
    const char *path = in_folder(state, "m.safetensors.index.json");
    snprintf(text, sizeof text, "%s%s},\"weight_map\":{%s}}", index_start, total, map);
    write_text(path, text);
    check_path(path, flags);
}

#define ONE "\"m-00001-of-00002.safetensors\""
#define TWO "\"m-00002-of-00002.safetensors\""

static void an_index_that_disagrees_with_its_shards(void **state) {
    write_shards(state);
    check_weight_map(state, "10", "\"a\":" ONE ",\"b\":" TWO ",\"both\":" TWO, 0);
    assert_int_equal(all.errors, 0);
    MUST_FIND(WARNING, NOT_LISTED, "unlisted", "does not list it");
    MUST_FIND(WARNING, IN_TWO_SHARDS, "both", "the index names the latter");
    assert_null(find(TENMAP_FINDING_WARNING, TENMAP_FOUND_TOTAL_SIZE, NULL));
    check_weight_map(state, "11", "\"a\":" ONE ",\"b\":" TWO ",\"both\":" TWO, 0);
    MUST_FIND(WARNING, TOTAL_SIZE, NULL, "but they have 10");
    check_weight_map(state, "\"x\"", "\"a\":" ONE ",\"b\":" TWO ",\"both\":" TWO, 0);
    MUST_FIND(NOTE, TOTAL_SIZE, NULL, "no metadata.total_size");
    check_weight_map(state, "1.5e3,\"total_size\":10", "\"a\":" ONE ",\"b\":" TWO ",\"both\":" TWO,
                     0);
    assert_null(find(TENMAP_FINDING_NOTE, TENMAP_FOUND_TOTAL_SIZE, NULL));
    /* In the wrong shard, and nowhere at all. */
    check_weight_map(state, "10", "\"a\":" TWO ",\"b\":" TWO ",\"both\":" TWO ",\"c\":" ONE, 0);
    MUST_FIND(WARNING, NOT_IN_SHARD, "a", "but the index lists it in");
    MUST_FIND(ERROR, NOT_IN_SHARD, "a", "does not have it");
    MUST_FIND(ERROR, NOT_IN_SHARD, "c", "does not have it");
    check_weight_map(state, "10", "\"a\":" TWO ",\"b\":" TWO ",\"both\":" TWO ",\"c\":" ONE,
                     TENMAP_OPEN_LENIENT);
    assert_int_equal(all.errors, 0);
    /* The index does not say which of the two counts. */
    check_weight_map(state, "10", "\"a\":" ONE ",\"b\":" TWO, 0);
    MUST_FIND(ERROR, IN_TWO_SHARDS, "both", "no index says which one counts");
}

static void missing_extra_and_broken_shards(void **state) {
    const char *all_map = "\"a\":" ONE ",\"b\":" TWO ",\"both\":" TWO ",\"gone\":\"x.safetensors\"";
    write_shards(state);
    write_model(in_folder(state, "m-00003-of-00003.safetensors"), "{}", 0);
    write_model(in_folder(state, "m-00001-of-00002.safetensors"),
                "{" T("a", "U8", "[4]", 0, 3) "," T("f", "F4", "[1]", 3, 4) "}", 4);
    check_weight_map(state, "10", all_map, 0);
    MUST_FIND(ERROR, MISSING_SHARD, NULL, "1 of 3 shards are missing");
    MUST_FIND(ERROR, SIZE, "a", "span 3 bytes");
    MUST_FIND(ERROR, PART_OF_BYTE, "f", "not a whole number of bytes");
    MUST_FIND(WARNING, EXTRA_SHARD, NULL, "m-00003-of-00003");
    assert_int_equal(find(TENMAP_FINDING_ERROR, TENMAP_FOUND_SIZE, "a")->shard, 0);
    write_shards(state);
    check_weight_map(state, "10", all_map, TENMAP_OPEN_PARTIAL);
    assert_int_equal(all.errors, 0);
    MUST_FIND(WARNING, MISSING_SHARD, NULL, "missing");
    /* A file that is not a shard at all. */
    write_text(in_folder(state, "m-00001-of-00002.safetensors"), "<html>");
    check_weight_map(state, "10", "\"a\":" ONE ",\"b\":" TWO, 0);
    MUST_FIND(ERROR, FOREIGN, NULL, "HTML");
    assert_null(find(TENMAP_FINDING_ERROR, TENMAP_FOUND_NOT_IN_SHARD, NULL));
}

/* Two tensors of 96 bytes that share a storage. */
static void write_tied_checkpoint(void **state, const char *name) {
    torch_bytes p = {{NULL, 0}, 0};
    TORCH_LITERAL(&p, "\x80\2}(");
    pickle_text(&p, "a");
    pickle_vector(&p, "0", 24);
    pickle_text(&p, "tied");
    pickle_vector(&p, "0", 24);
    TORCH_LITERAL(&p, "u.");
    bytes file = make_checkpoint(&p, 1, 96);
    write_file(in_folder(state, name), file.at, file.size);
    free(file.at);
}

/* transformers counts storages once, and hubs keep both formats in one folder. */
static void an_index_of_pytorch_files(void **state) {
    char text[512];
    const char *shard = "pytorch_model-00001-of-00001.bin";
    write_tied_checkpoint(state, shard);
    write_tied_checkpoint(state, "pytorch_model-00001-of-00002.bin");
    write_model(in_folder(state, "model-00001-of-00002.safetensors"), "{}", 0);
    snprintf(text, sizeof text, "%s96},\"weight_map\":{\"a\":\"%s\",\"tied\":\"%s\"}}", index_start,
             shard, shard);
    const char *path = in_folder(state, "pytorch_model.bin.index.json");
    write_text(path, text);
    check_path(path, 0);
    MUST_FIND(WARNING, EXTRA_SHARD, NULL, "pytorch_model-00001-of-00002.bin");
    assert_int_equal(all.count, 1);
    tenmap_model *m = must_open(path, NULL);
    assert_int_equal(tenmap_count(m), 2);
    assert_string_equal(tenmap_shard_at(m, 0)->format, "pytorch");
    tenmap_close(m);
    /* Of the other format, only a file of that format is an extra shard. */
    snprintf(text, sizeof text, "%s0},\"weight_map\":{\"x\":\"other.safetensors\"}}", index_start);
    path = in_folder(state, "model.safetensors.index.json");
    write_text(path, text);
    check_path(path, 0);
    MUST_FIND(WARNING, EXTRA_SHARD, NULL, "model-00001-of-00002.safetensors");
    size_t extra = 0;
    for (size_t i = 0; i < all.count; i++)
        extra += all.items[i].code == TENMAP_FOUND_EXTRA_SHARD;
    assert_int_equal(extra, 1);
}

static void broken_indexes(void **state) {
    write_shards(state);
    check_weight_map(state, "1", "\"a\":\"../x\",\"a\":" ONE ",\"a\":" ONE, 0);
    MUST_FIND(ERROR, SHARD_NAME, "a", "not a plain file name");
    MUST_FIND(ERROR, DUPLICATE_NAME, "a", "appears twice in weight_map");
    check_weight_map(state, "1", "\"a\":\"../x\"", 0);
    assert_int_equal(all.errors, 1);
    check_weight_map(state, "1", "", 0);
    MUST_FIND(ERROR, INDEX, NULL, "weight_map is empty");
    check_weight_map(state, "1", "\"a\"", 0);
    MUST_FIND(ERROR, INDEX, NULL, "index, byte");
    for (const char *const *bad = (const char *const[]){"", "{", "{\"a\":1,}", "{\"a\":1", NULL};
         *bad; bad++) {
        char text[256];
        const char *path = in_folder(state, "m.safetensors.index.json");
        snprintf(text, sizeof text, "{\"metadata\":%s,\"weight_map\":{\"a\":" ONE "}}", *bad);
        write_text(path, text);
        check_path(path, 0);
        MUST_FIND(ERROR, INDEX, NULL, "index, byte");
    }
}

static void an_interrupted_edit_is_told(void **state) {
    char record[8192];
    check_json(state, "{" T("a", "U8", "[4]", 0, 4) "}", 4);
    assert_null(find(TENMAP_FINDING_WARNING, TENMAP_FOUND_INTERRUPTED_EDIT, NULL));
    snprintf(record, sizeof record, "%s/.m.safetensors.tenmap-undo", (const char *)*state);
    write_text(record, "x");
    check_path(in_folder(state, "m.safetensors"), 0);
    MUST_FIND(WARNING, INTERRUPTED_EDIT, NULL, "repairing its metadata");
    write_text(in_folder(state, "m.safetensors"), "xxxxxxxxxxx");
    check_path(in_folder(state, "m.safetensors"), 0);
    MUST_FIND(WARNING, INTERRUPTED_EDIT, NULL, "repairing its metadata");
}

static void what_cannot_be_checked_is_an_error(void **state) {
    NEEDS_FILES();
    tenmap_error error = {0};
    memset(&all, 0, sizeof all);
    const char *path = in_folder(state, "nothing");
    assert_int_equal(tenmap_check(path, NULL, take, &all, &error), TENMAP_ERR_NOT_FOUND);
    check_error(&error, TENMAP_ERR_NOT_FOUND);
    assert_int_equal(tenmap_check(*state, NULL, take, &all, &error), TENMAP_ERR_NOT_FOUND);
    assert_int_equal(tenmap_check("/dev/null", NULL, take, &all, &error), TENMAP_ERR_IO);
    assert_int_equal(tenmap_check(NULL, NULL, take, &all, &error), TENMAP_ERR_ARGUMENT);
    assert_int_equal(tenmap_check(path, NULL, NULL, NULL, &error), TENMAP_ERR_ARGUMENT);
    tenmap_options wrong = {.struct_size = 3};
    assert_int_equal(tenmap_check(path, &wrong, take, &all, NULL), TENMAP_ERR_ARGUMENT);
    assert_int_equal(all.count, 0);
}

static void a_folder_and_a_numbered_set_are_checked(void **state) {
    write_shards(state);
    check_path(*state, 0);
    MUST_FIND(ERROR, IN_TWO_SHARDS, "both", "no index");
    assert_int_equal(unlink(in_folder(state, "m-00002-of-00002.safetensors")), 0);
    check_path(*state, 0);
    MUST_FIND(ERROR, MISSING_SHARD, NULL, "m-00002-of-00002");
}

static void names_of_codes_are_told_apart(void **state) {
    (void)state;
    assert_string_equal(tenmap_found_name(TENMAP_FOUND_HOLE), "hole");
    assert_string_equal(tenmap_found_name(0), "unknown");
    assert_string_equal(tenmap_found_name(TENMAP_FOUND_CODE + 1), "unknown");
    for (uint32_t a = 1; a <= TENMAP_FOUND_CODE; a++)
        for (uint32_t b = 0; b < a; b++)
            assert_string_not_equal(tenmap_found_name(a), tenmap_found_name(b));
}

/*
 * Of 40 shards, 3 is broken and 5 is missing: the findings do not depend on the limit of
 * descriptors.
 */
static void descriptors_do_not_decide_the_verdict(void **state) {
    enum { SHARDS = 40 };
    struct rlimit before, few;
    char name[64], json[128];
    for (int i = 1; i <= SHARDS; i++) {
        snprintf(name, sizeof name, "m-%05d-of-%05d.safetensors", i, SHARDS);
        snprintf(json, sizeof json,
                 "{\"t%d\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", i);
        write_model(in_folder(state, name), json, 1);
    }
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    few = before;
    few.rlim_cur = 12;
    for (int round = 0; round < 2; round++) {
        static notes unlimited;
        tenmap_error error = {0};
        check_path(*state, 0);
        assert_int_equal(all.errors == 0, round == 0);
        unlimited = all;
        memset(&all, 0, sizeof all);
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
        tenmap_status status = tenmap_check(*state, NULL, take, &all, &error);
        setrlimit(RLIMIT_NOFILE, &before);
        if (status != TENMAP_OK)
            fail_msg("%s", error.message);
        assert_int_equal(all.count, unlimited.count);
        for (size_t i = 0; i < all.count; i++)
            assert_string_equal(all.items[i].message, unlimited.items[i].message);
        write_model(in_folder(state, "m-00003-of-00040.safetensors"), "{", 0);
        unlink(in_folder(state, "m-00005-of-00040.safetensors"));
    }
}

/* Errors beyond the limit of reports, whose messages are never made, still count as errors. */
static void errors_that_are_only_counted_are_errors(void **state) {
    enum { FOUND = 100 };
    tmi_report report = {.found = take, .ctx = &all};
    tenmap_error error;
    (void)state;
    memset(&all, 0, sizeof all);
    for (int i = 0; i < FOUND; i++) {
        TMI_REPORT(&report, OVERLAP, 0, 0, NULL, "%s", "it overlaps");
        tmi_fail(&error, TENMAP_ERR_FORMAT, "%s", "it is too small");
        tmi_report_failure(&report, TENMAP_FOUND_SIZE, 0, NULL, &error);
        TMI_REPORT(&report, MISALIGNED, 0, 0, NULL, "%s", "it is not aligned");
    }
    assert_int_equal(report.errors, 2 * FOUND);
    assert_int_equal(report.counts[TENMAP_FINDING_ERROR][TENMAP_FOUND_OVERLAP], FOUND);
    assert_int_equal(report.counts[TENMAP_FINDING_ERROR][TENMAP_FOUND_SIZE], FOUND);
    assert_int_equal(report.counts[TENMAP_FINDING_WARNING][TENMAP_FOUND_MISALIGNED], FOUND);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_plain_file_has_no_findings, empty_folder),
        cmocka_unit_test_setup(every_bad_tensor_is_found, empty_folder),
        cmocka_unit_test_setup(entries_of_wrong_types_do_not_end_the_check, empty_folder),
        cmocka_unit_test_setup(json_errors_have_their_position, empty_folder),
        cmocka_unit_test_setup(duplicates_are_all_found, empty_folder),
        cmocka_unit_test_setup(truncation_names_every_tensor_it_cuts, empty_folder),
        cmocka_unit_test_setup(oddities_are_no_errors, empty_folder),
        cmocka_unit_test_setup(misaligned_tensors_are_warned_of, empty_folder),
        cmocka_unit_test_setup(lenient_findings_are_warnings, empty_folder),
        cmocka_unit_test_setup(other_files_are_named, empty_folder),
        cmocka_unit_test_setup(findings_of_one_kind_are_counted_after_the_first, empty_folder),
        cmocka_unit_test_setup(an_index_that_disagrees_with_its_shards, empty_folder),
        cmocka_unit_test_setup(missing_extra_and_broken_shards, empty_folder),
        cmocka_unit_test_setup(an_index_of_pytorch_files, empty_folder),
        cmocka_unit_test_setup(broken_indexes, empty_folder),
        cmocka_unit_test_setup(an_interrupted_edit_is_told, empty_folder),
        cmocka_unit_test_setup(what_cannot_be_checked_is_an_error, empty_folder),
        cmocka_unit_test_setup(a_folder_and_a_numbered_set_are_checked, empty_folder),
        cmocka_unit_test_setup(descriptors_do_not_decide_the_verdict, empty_folder),
        cmocka_unit_test(names_of_codes_are_told_apart),
        cmocka_unit_test(errors_that_are_only_counted_are_errors),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
