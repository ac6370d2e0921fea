/* GGUF files that are written, saved in parts, edited and renamed. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "support.h"

#include <unistd.h>

enum { ROW = 64 };

static const unsigned char zeros[8192];

static tenmap_writer *create(const char *path, uint32_t alignment, uint32_t slack) {
    tenmap_writer_options options = TENMAP_WRITER_OPTIONS_INIT;
    tenmap_writer *w;
    tenmap_error error = {0};
    options.format = TENMAP_FORMAT_GGUF;
    options.data_alignment = alignment;
    options.header_slack = slack;
    if (tenmap_writer_create(path, &options, &w, &error) != TENMAP_OK)
        fail_msg("%s", error.message);
    return w;
}

/* A U32, whose bytes in file order are in `raw`. */
static tenmap_value u32_value(unsigned char raw[4], uint32_t n) {
    for (int i = 0; i < 4; i++)
        raw[i] = (unsigned char)(n >> (8 * i));
    return (tenmap_value){TENMAP_VALUE_U32, TENMAP_VALUE_U32, 1, raw, 4};
}

/* A model with two pairs, a tensor of I8 and one of Q8_0. */
static void make_file(const char *path, uint32_t slack) {
    tenmap_writer *w = create(path, 0, slack);
    tenmap_error error = {0};
    static const uint64_t row[] = {3}, blocks[] = {2, ROW};
    static const char *const tokens[] = {"a", "", "\xff"};
    unsigned char layers[4];
    tenmap_value value = u32_value(layers, 7);
    assert_int_equal(tenmap_writer_value(w, "llama.block_count", TENMAP_CSTR, &value, &error), 0);
    assert_int_equal(tenmap_writer_strings(w, "tokens", 6, tokens, NULL, 3, &error), 0);
    assert_int_equal(tenmap_writer_add(w, "small", 5, TENMAP_I8, row, 1, NULL, &error), 0);
    assert_int_equal(tenmap_writer_add(w, "blocks", 6, TENMAP_Q8_0, blocks, 2, NULL, &error), 0);
    assert_int_equal(tenmap_writer_write(w, 0, 0, "\1\2\3", 3, &error), 0);
    assert_int_equal(tenmap_writer_write(w, 1, 0, zeros, 4 * 34, &error), 0);
    if (tenmap_writer_commit(w, &error) != TENMAP_OK)
        fail_msg("%s", error.message);
}

static void check_file(const char *path, const char *first) {
    tenmap_model *m = must_open(path, NULL);
    assert_int_equal(tenmap_count(m), 2);
    assert_string_equal(tenmap_at(m, 0)->name, first);
    assert_memory_equal(tenmap_at(m, 0)->data, "\1\2\3", 3);
    assert_int_equal(tenmap_at(m, 1)->dtype, TENMAP_Q8_0);
    assert_int_equal(tenmap_at(m, 1)->shape[1], ROW);
    assert_int_equal(tenmap_at(m, 1)->file_offset % 32, 0);
    assert_string_equal(tenmap_metadata_get(m, "llama.block_count"), "7");
    tenmap_close(m);
}

static void pairs_and_tensors_keep_their_order(void **state) {
    const char *path = in_folder(state, "m.gguf");
    make_file(path, 0);
    check_file(path, "small");
    tenmap_model *m = must_open(path, NULL);
    const tenmap_metadata *tokens = tenmap_metadata_at(m, 1);
    tenmap_value array, element;
    assert_string_equal(tokens->key, "tokens");
    assert_int_equal(tokens->count, 3);
    tenmap_metadata_value(tokens, &array);
    for (int i = 0; i < 3; i++)
        assert_int_equal(tenmap_value_next(&array, &element), 1);
    assert_int_equal(element.raw_bytes, 1); /* a token need not be UTF-8 */
    tenmap_close(m);
    bytes file = read_whole(path);
    assert_int_equal(file.size % 32, 0); /* ggml reads the padding of the last tensor too */
    free(file.at);
}

static void the_alignment_is_a_pair_of_the_file(void **state) {
    const char *path = in_folder(state, "m.gguf");
    static const uint64_t one[] = {1};
    tenmap_error error = {0};
    tenmap_writer *w = create(path, 4096, 0);
    unsigned char wrong[4];
    tenmap_value value = u32_value(wrong, 64);
    check_refused(tenmap_writer_value(w, "general.alignment", TENMAP_CSTR, &value, &error), &error,
                  TENMAP_ERR_ARGUMENT, "the U32 4096");
    for (int i = 0; i < 2; i++)
        assert_int_equal(tenmap_writer_add(w, i ? "b" : "a", 1, TENMAP_F32, one, 1, NULL, NULL), 0);
    for (size_t i = 0; i < 2; i++)
        assert_int_equal(tenmap_writer_write(w, i, 0, zeros, 4, NULL), 0);
    assert_int_equal(tenmap_writer_commit(w, &error), 0);
    tenmap_model *m = must_open(path, NULL);
    assert_string_equal(tenmap_metadata_get(m, "general.alignment"), "4096");
    assert_int_equal(tenmap_at(m, 0)->file_offset % 4096, 0);
    assert_int_equal(tenmap_at(m, 1)->file_offset, tenmap_at(m, 0)->file_offset + 4096);
    tenmap_close(m);
}

static void what_gguf_cannot_hold_is_refused(void **state) {
    static const struct {
        const char *name;
        tenmap_dtype dtype;
        uint32_t rank;
        uint64_t shape[5];
        const char *fragment;
    } cases[] = {
        {"1234567890123456789012345678901234567890123456789012345678901234",
         TENMAP_F32,
         1,
         {1},
         "its name has 64 bytes"},
        {"five", TENMAP_F32, 5, {1, 1, 1, 1, 1}, "it has 5 dimensions"},
        {"u8", TENMAP_U8, 1, {1}, "its dtype is U8"},
        {"f8", TENMAP_F8_E4M3, 1, {1}, "its dtype is F8_E4M3"},
        {"part", TENMAP_Q4_0, 2, {32, 31}, "a block of Q4_0 has 32"},
        {"scalar", TENMAP_Q4_0, 0, {0}, "a block of Q4_0 has 32"},
        {"long", TENMAP_F32, 2, {0, (uint64_t)INT64_MAX + 1}, "9223372036854775808 elements"},
    };
    tenmap_writer *w = create(in_folder(state, "m.gguf"), 0, 0);
    for (size_t i = 0; i < COUNT(cases); i++) {
        tenmap_error error = {0};
        check_refused(tenmap_writer_add(w, cases[i].name, TENMAP_CSTR, cases[i].dtype,
                                        cases[i].shape, cases[i].rank, NULL, &error),
                      &error, TENMAP_ERR_UNSUPPORTED, cases[i].fragment);
    }
    tenmap_writer_abort(w);
    assert_int_equal(count_names(*state), 0);
}

/* The room behind each tensor counts, so that no sum of sizes can wrap around. */
static void files_too_large_for_any_system_are_refused(void **state) {
    static const uint64_t huge[] = {INT64_MAX / 8 - 32}, more[] = {INT64_MAX / 8};
    tenmap_writer *w = create(in_folder(state, "m.gguf"), 0, 0);
    tenmap_error error = {0};
    assert_int_equal(tenmap_writer_add(w, "a", 1, TENMAP_I8, huge, 1, NULL, &error), TENMAP_OK);
    check_refused(tenmap_writer_add(w, "b", 1, TENMAP_I8, more, 1, NULL, &error), &error,
                  TENMAP_ERR_LIMIT, "too large for any system");
    tenmap_writer_abort(w);
}

/* Readers count the first 8 bytes of a GGUF file as part of its header. */
static void headers_that_readers_refuse_are_not_written(void **state) {
    enum { LIMIT = 100000000, ALIGNMENT_PAIR = 33, WITHOUT_SLACK = 24 + ALIGNMENT_PAIR + 38 };
    const char *path = in_folder(state, "m.gguf");
    tenmap_error error = {0};
    check_refused(tenmap_writer_commit(create(path, 8, LIMIT + 8 - WITHOUT_SLACK), &error), &error,
                  TENMAP_ERR_LIMIT, "100000008 bytes, over the 100000000");
    assert_int_equal(count_names(*state), 0);
}

static void values_are_checked_completely(void **state) {
    static const unsigned char two = 2, nested[] = {9, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0};
    const tenmap_value bad[] = {
        {TENMAP_VALUE_U32, TENMAP_VALUE_U32, 1, zeros, 3},
        {TENMAP_VALUE_U32, TENMAP_VALUE_I32, 1, zeros, 4},
        {TENMAP_VALUE_U32, TENMAP_VALUE_U32, 2, zeros, 8},
        {TENMAP_VALUE_BOOL, TENMAP_VALUE_BOOL, 1, &two, 1},
        {99, 99, 1, zeros, 4},
        {TENMAP_VALUE_ARRAY, 99, 1, zeros, 4},
        {TENMAP_VALUE_ARRAY, TENMAP_VALUE_U16, 3, zeros, 4},
        {TENMAP_VALUE_ARRAY, TENMAP_VALUE_U16, UINT64_MAX, zeros, 4},
        {TENMAP_VALUE_ARRAY, TENMAP_VALUE_STRING, 1, zeros, 9},
        {TENMAP_VALUE_ARRAY, TENMAP_VALUE_ARRAY, 1, nested, sizeof nested},
        {TENMAP_VALUE_STRING, TENMAP_VALUE_STRING, 1, NULL, 4},
    };
    tenmap_writer *w = create(in_folder(state, "m.gguf"), 0, 0);
    for (size_t i = 0; i < COUNT(bad); i++) {
        tenmap_error error = {0};
        check_refused(tenmap_writer_value(w, "k", 1, &bad[i], &error), &error, TENMAP_ERR_ARGUMENT,
                      "\"k\"");
    }
    tenmap_value good = {TENMAP_VALUE_ARRAY, TENMAP_VALUE_U16, 2, zeros, 4};
    assert_int_equal(tenmap_writer_value(w, "k", 1, &good, NULL), TENMAP_OK);
    tenmap_error error = {0};
    check_refused(tenmap_writer_value(w, "k", 1, &good, &error), &error, TENMAP_ERR_ARGUMENT,
                  "appears twice");
    check_refused(tenmap_writer_value(w, "tenmap.padding", TENMAP_CSTR, &good, &error), &error,
                  TENMAP_ERR_ARGUMENT, "header_slack");
    static const char *const split[] = {"split.no", "split.count", "split.tensors.count"};
    const tenmap_value negative = {TENMAP_VALUE_I8, TENMAP_VALUE_I8, 1, "\xff", 1};
    for (size_t i = 0; i < COUNT(split); i++) { /* readers refuse a file with these */
        check_refused(tenmap_writer_metadata(w, split[i], TENMAP_CSTR, "1", 1, &error), &error,
                      TENMAP_ERR_ARGUMENT, "a whole number");
        check_refused(tenmap_writer_value(w, split[i], TENMAP_CSTR, &negative, &error), &error,
                      TENMAP_ERR_ARGUMENT, "a whole number");
    }
    const tenmap_value empty = {TENMAP_VALUE_ARRAY, TENMAP_VALUE_U16, 0, NULL, 0};
    assert_int_equal(tenmap_writer_value(w, "empty", 5, &empty, NULL), TENMAP_OK);
    tenmap_writer_abort(w);
}

static void safetensors_files_hold_only_strings(void **state) {
    tenmap_writer *w;
    tenmap_error error = {0};
    unsigned char one[4];
    tenmap_value value = u32_value(one, 1);
    tenmap_value text = {TENMAP_VALUE_STRING, TENMAP_VALUE_STRING, 1, "v", 1};
    static const uint64_t shape[] = {ROW};
    assert_int_equal(tenmap_writer_create(in_folder(state, "m.safetensors"), NULL, &w, NULL), 0);
    check_refused(tenmap_writer_value(w, "k", 1, &value, &error), &error, TENMAP_ERR_UNSUPPORTED,
                  "only strings");
    check_refused(tenmap_writer_strings(w, "k", 1, NULL, NULL, 0, &error), &error,
                  TENMAP_ERR_UNSUPPORTED, "only strings");
    check_refused(tenmap_writer_add(w, "t", 1, TENMAP_Q8_0, shape, 1, NULL, &error), &error,
                  TENMAP_ERR_ARGUMENT, "GGUF files (TENMAP_FORMAT_GGUF) hold it");
    assert_int_equal(tenmap_writer_value(w, "k", 1, &text, NULL), TENMAP_OK);
    assert_int_equal(tenmap_writer_commit(w, NULL), TENMAP_OK);
    tenmap_model *m = must_open(in_folder(state, "m.safetensors"), NULL);
    assert_string_equal(tenmap_metadata_get(m, "k"), "v");
    tenmap_close(m);
}

static void an_unknown_format_is_refused(void **state) {
    tenmap_writer_options options = TENMAP_WRITER_OPTIONS_INIT;
    tenmap_save_options saving = TENMAP_SAVE_OPTIONS_INIT;
    tenmap_writer *w;
    tenmap_error error = {0};
    options.format = saving.format = 2;
    check_refused(tenmap_writer_create(in_folder(state, "m"), &options, &w, &error), &error,
                  TENMAP_ERR_ARGUMENT, "options.format is 2");
    check_refused(tenmap_save_sharded(*state, NULL, 0, &saving, &error), &error,
                  TENMAP_ERR_ARGUMENT, "options.format is 2");
    assert_int_equal(count_names(*state), 0);
}

/* Edits. */

static uint32_t must_edit(const char *path, const tenmap_edit *edit, uint32_t flags) {
    tenmap_edit_options options = TENMAP_EDIT_OPTIONS_INIT;
    tenmap_error error = {0};
    uint32_t how = 0;
    options.flags = flags;
    if (tenmap_edit_metadata(path, edit, 1, &options, &how, &error) != TENMAP_OK)
        fail_msg("%s", error.message);
    return how;
}

static void typed_edits_use_the_room_of_the_header(void **state) {
    const char *path = in_folder(state, "m.gguf");
    unsigned char answer[4];
    tenmap_value value = u32_value(answer, 42);
    const tenmap_edit set = {"new.number", TENMAP_CSTR, NULL, 0, &value};
    const tenmap_edit unset = {"new.number", TENMAP_CSTR, NULL, 0, NULL};
    const tenmap_edit text = {"tokens", TENMAP_CSTR, "a string now", TENMAP_CSTR, NULL};
    make_file(path, 200);
    uint64_t inode = inode_of(path);
    assert_int_equal(must_edit(path, &set, 0), TENMAP_EDIT_IN_PLACE);
    check_file(path, "small");
    assert_int_equal(must_edit(path, &unset, 0), TENMAP_EDIT_IN_PLACE);
    assert_int_equal(must_edit(path, &text, 0), TENMAP_EDIT_IN_PLACE);
    assert_int_equal(inode_of(path), inode);
    check_file(path, "small");
    tenmap_model *m = must_open(path, NULL);
    assert_null(tenmap_metadata_get(m, "new.number"));
    assert_string_equal(tenmap_metadata_get(m, "tokens"), "a string now");
    tenmap_close(m);
}

static void an_edit_without_room_writes_a_new_file(void **state) {
    static char large[3000];
    const char *path = in_folder(state, "m.gguf");
    const tenmap_edit edit = {"k", 1, memset(large, 'x', sizeof large), sizeof large, NULL};
    const tenmap_edit small = {"k", 1, "x", 1, NULL};
    make_file(path, 0);
    assert_true(must_edit(path, &edit, 0) != TENMAP_EDIT_IN_PLACE);
    check_file(path, "small");
    assert_int_equal(must_edit(path, &small, 0), TENMAP_EDIT_IN_PLACE);
    check_file(path, "small");
}

static void keys_that_say_how_to_read_are_not_edited(void **state) {
    static const char *const keys[] = {"general.alignment", "split.no", "split.x",
                                       "tenmap.padding"};
    const char *path = in_folder(state, "m.gguf");
    make_file(path, 100);
    for (size_t i = 0; i < COUNT(keys); i++) {
        const tenmap_edit edits[] = {{keys[i], TENMAP_CSTR, "v", 1, NULL},
                                     {keys[i], TENMAP_CSTR, NULL, 0, NULL}};
        for (size_t k = 0; k < 2; k++) {
            tenmap_error error = {0};
            check_refused(tenmap_edit_metadata(path, &edits[k], 1, NULL, NULL, &error), &error,
                          TENMAP_ERR_ARGUMENT, "how the rest of the file is read");
        }
    }
    check_file(path, "small");
}

/* An edit reads everything before the data, so a file cannot make it take any amount of memory. */
static void data_that_begins_far_behind_is_refused(void **state) {
    static const unsigned char head[] =
        "GGUF\3\0\0\0\0\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0\21\0\0\0\0\0\0\0general.alignment"
        "\4\0\0\0\0\0\0\10";
    const char *path = in_folder(state, "m.gguf");
    const tenmap_edit edit = {"k", 1, "v", 1, NULL};
    tenmap_error error = {0};
    write_file(path, head, sizeof head - 1);
    assert_int_equal(truncate(path, 0x8000000), 0); /* a hole, up to where the data begins */
    tenmap_model *m = must_open(path, NULL);
    assert_int_equal(tenmap_shard_at(m, 0)->data_offset, 0x8000000);
    tenmap_close(m);
    check_refused(tenmap_edit_metadata(path, &edit, 1, NULL, NULL, &error), &error,
                  TENMAP_ERR_LIMIT, "its data begins at byte 134217728");
}

static void an_edit_has_one_value(void **state) {
    const char *path = in_folder(state, "m.gguf");
    unsigned char answer[4];
    tenmap_value value = u32_value(answer, 42);
    tenmap_value broken = {TENMAP_VALUE_U32, TENMAP_VALUE_U32, 1, answer, 2};
    const tenmap_edit both = {"k", 1, "v", 1, &value}, part = {"k", 1, NULL, 0, &broken};
    tenmap_error error = {0};
    make_file(path, 100);
    check_refused(tenmap_edit_metadata(path, &both, 1, NULL, NULL, &error), &error,
                  TENMAP_ERR_ARGUMENT, "both value and typed");
    check_refused(tenmap_edit_metadata(path, &part, 1, NULL, NULL, &error), &error,
                  TENMAP_ERR_ARGUMENT, "not a value of type 4 (U32)");
}

static void tensors_are_renamed(void **state) {
    const char *path = in_folder(state, "m.gguf");
    const tenmap_renaming good = {"small", 5, "blk.0.w", 7};
    const tenmap_renaming is_long = {
        "small", 5, "1234567890123456789012345678901234567890123456789012345678901234", 64};
    tenmap_error error = {0};
    uint32_t how;
    make_file(path, 100);
    check_refused(tenmap_rename(path, &is_long, 1, NULL, 0, NULL, &how, &error), &error,
                  TENMAP_ERR_UNSUPPORTED, "63");
    assert_int_equal(tenmap_rename(path, &good, 1, NULL, 0, NULL, &how, &error), TENMAP_OK);
    assert_int_equal(how, TENMAP_EDIT_IN_PLACE);
    check_file(path, "blk.0.w");
}

/* Saves. */

enum { TENSORS = 5 };

static tenmap_status save(const char *folder, uint64_t most, uint32_t flags,
                          const tenmap_edit *pair, tenmap_error *error) {
    static char names[TENSORS][8];
    static const uint64_t shape[] = {100};
    tenmap_source sources[TENSORS] = {{0}};
    tenmap_save_options options = TENMAP_SAVE_OPTIONS_INIT;
    for (size_t i = 0; i < TENSORS; i++) {
        snprintf(names[i], sizeof names[i], "t%zu", i);
        sources[i] = (tenmap_source){.name = names[i],
                                     .name_len = TENMAP_CSTR,
                                     .dtype = TENMAP_I8,
                                     .shape = shape,
                                     .rank = 1,
                                     .data = zeros};
    }
    options.max_shard_bytes = most;
    options.flags = flags;
    options.format = TENMAP_FORMAT_GGUF;
    options.metadata = pair;
    options.metadata_count = pair ? 1 : 0;
    return tenmap_save_sharded(folder, sources, TENSORS, &options, error);
}

static void a_split_set_replaces_another(void **state) {
    static const struct {
        uint64_t most;
        size_t parts;
    } steps[] = {{250, 3}, {250, 3}, {1000, 1}, {1000, 1}, {100, 5}, {1000, 1}};
    unsigned char nine[4];
    tenmap_value value = u32_value(nine, 9);
    const tenmap_edit pair = {"k", 1, NULL, 0, &value};
    for (size_t i = 0; i < COUNT(steps); i++) {
        tenmap_error error = {0};
        if (save(*state, steps[i].most, 0, &pair, &error) != TENMAP_OK)
            fail_msg("%s", error.message);
        tenmap_model *m = must_open(*state, NULL);
        assert_int_equal(tenmap_count(m), TENSORS);
        assert_int_equal(tenmap_shard_count(m), steps[i].parts);
        assert_int_equal(count_names(*state), steps[i].parts);
        assert_string_equal(tenmap_metadata_get(m, "k"), "9");
        for (size_t k = 0; k < TENSORS; k++)
            assert_int_equal(tenmap_at(m, k)->name[1] - '0', (int)k);
        tenmap_close(m);
    }
}

static int count_call(void *ctx, uint64_t done, uint64_t total) {
    (void)done, (void)total;
    ++*(int *)ctx;
    return 0;
}

/* The keys of split.* count: parts that would fail are found before the first one is written. */
static void a_part_with_too_long_a_header_fails_before_a_write(void **state) {
    enum { LIMIT = 100000000, ROWS = 2 * (8 + 2 + 4 + 8 + 4 + 8) };
    static const uint64_t shape[] = {100};
    tenmap_save_options options = TENMAP_SAVE_OPTIONS_INIT;
    tenmap_copy_options copy = TENMAP_COPY_OPTIONS_INIT;
    tenmap_source sources[3] = {{0}};
    tenmap_error error = {0};
    int calls = 0;
    for (size_t i = 0; i < COUNT(sources); i++)
        sources[i] = (tenmap_source){.name = &"t0\0t1\0t2"[3 * i],
                                     .name_len = 2,
                                     .dtype = TENMAP_I8,
                                     .shape = shape,
                                     .rank = 1,
                                     .data = zeros};
    copy.progress = count_call;
    copy.ctx = &calls;
    options.copy = &copy;
    options.max_shard_bytes = 200;
    options.format = TENMAP_FORMAT_GGUF;
    options.header_slack = LIMIT - 24 - ROWS - 38 - 32; /* fits without the keys of split.* */
    check_refused(tenmap_save_sharded(*state, sources, COUNT(sources), &options, &error), &error,
                  TENMAP_ERR_LIMIT, "over the 100000000");
    assert_int_equal(calls, 0);
    assert_int_equal(error.shard, 0);
    assert_int_equal(count_names(*state), 0);
}

static void a_part_is_edited_alone(void **state) {
    const tenmap_edit edit = {"more", 4, "v", 1, NULL};
    tenmap_error error = {0};
    assert_int_equal(save(*state, 250, 0, NULL, &error), TENMAP_OK);
    must_edit(in_folder(state, "model-00001-of-00003.gguf"), &edit, 0);
    tenmap_model *m = must_open(*state, NULL);
    assert_string_equal(tenmap_metadata_get(m, "more"), "v");
    assert_int_equal(tenmap_count(m), TENSORS);
    tenmap_close(m);
}

static void saves_that_readers_could_not_open_are_refused(void **state) {
    const tenmap_edit split = {"split.no", TENMAP_CSTR, "0", 1, NULL};
    tenmap_error error = {0};
    check_refused(save(*state, 250, 0, &split, &error), &error, TENMAP_ERR_ARGUMENT, "split.*");
    write_model(in_folder(state, "model.safetensors"), "{}", 0);
    check_refused(save(*state, 250, 0, NULL, &error), &error, TENMAP_ERR_ARGUMENT,
                  "another folder");
    unlink(in_folder(state, "model.safetensors"));
    assert_int_equal(save(*state, 250, 0, NULL, &error), TENMAP_OK);
    check_refused(save(*state, 250, TENMAP_SAVE_KEEP_OLD, NULL, &error), &error,
                  TENMAP_ERR_ARGUMENT, "which of the two");
    assert_int_equal(count_names(*state), 3);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(pairs_and_tensors_keep_their_order, empty_folder),
        cmocka_unit_test_setup(the_alignment_is_a_pair_of_the_file, empty_folder),
        cmocka_unit_test_setup(what_gguf_cannot_hold_is_refused, empty_folder),
        cmocka_unit_test_setup(files_too_large_for_any_system_are_refused, empty_folder),
        cmocka_unit_test_setup(headers_that_readers_refuse_are_not_written, empty_folder),
        cmocka_unit_test_setup(values_are_checked_completely, empty_folder),
        cmocka_unit_test_setup(safetensors_files_hold_only_strings, empty_folder),
        cmocka_unit_test_setup(an_unknown_format_is_refused, empty_folder),
        cmocka_unit_test_setup(typed_edits_use_the_room_of_the_header, empty_folder),
        cmocka_unit_test_setup(an_edit_without_room_writes_a_new_file, empty_folder),
        cmocka_unit_test_setup(keys_that_say_how_to_read_are_not_edited, empty_folder),
        cmocka_unit_test_setup(data_that_begins_far_behind_is_refused, empty_folder),
        cmocka_unit_test_setup(an_edit_has_one_value, empty_folder),
        cmocka_unit_test_setup(tensors_are_renamed, empty_folder),
        cmocka_unit_test_setup(a_split_set_replaces_another, empty_folder),
        cmocka_unit_test_setup(a_part_with_too_long_a_header_fails_before_a_write, empty_folder),
        cmocka_unit_test_setup(a_part_is_edited_alone, empty_folder),
        cmocka_unit_test_setup(saves_that_readers_could_not_open_are_refused, empty_folder),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
