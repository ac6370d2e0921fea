/* Saving in shards: the plan, the names, the index, and what happens to the old model. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "support.h"

#include <sys/stat.h>
#include <unistd.h>

enum { TENSORS = 6, BYTES = 100 };

static unsigned char contents[TENSORS][BYTES];
static char names[TENSORS][16];

/* Six tensors of 100 bytes, all of this value. */
static void make_sources(tenmap_source *sources, unsigned char value) {
    static const uint64_t shape[1] = {BYTES};
    for (size_t i = 0; i < TENSORS; i++) {
        memset(contents[i], value, BYTES);
        snprintf(names[i], sizeof names[i], "t\"%zu", i);
        sources[i] = (tenmap_source){.name = names[i],
                                     .name_len = TENMAP_CSTR,
                                     .dtype = TENMAP_U8,
                                     .shape = shape,
                                     .rank = 1,
                                     .data = contents[i]};
    }
}

static void must_save(const char *folder, unsigned char value, uint64_t most, uint32_t flags) {
    tenmap_source sources[TENSORS];
    tenmap_save_options options = TENMAP_SAVE_OPTIONS_INIT;
    tenmap_edit pair = {"format", TENMAP_CSTR, "pt", TENMAP_CSTR, NULL};
    tenmap_error error = {0};
    make_sources(sources, value);
    options.max_shard_bytes = most;
    options.flags = flags;
    options.metadata = &pair;
    options.metadata_count = 1;
    if (tenmap_save_sharded(folder, sources, TENSORS, &options, &error) != TENMAP_OK)
        fail_msg("%s", error.message);
}

static void check_saved(const char *folder, unsigned char value, size_t shards) {
    tenmap_model *m = must_open(folder, NULL);
    assert_int_equal(tenmap_count(m), TENSORS);
    assert_int_equal(tenmap_shard_count(m), shards);
    for (size_t i = 0; i < TENSORS; i++) {
        const tenmap_tensor *t = tenmap_at(m, i);
        for (size_t k = 0; k < BYTES; k++)
            assert_int_equal(((const unsigned char *)t->data)[k], value);
    }
    assert_string_equal(tenmap_metadata_get(m, "format"), "pt");
    tenmap_close(m);
}

static void a_first_save_has_plain_names(void **state) {
    must_save(*state, 1, 250, 0);
    check_saved(*state, 1, 3);
    assert_int_equal(access(in_folder(state, "model-00001-of-00003.safetensors"), F_OK), 0);
    assert_int_equal(count_names(*state), 4);
    bytes index = read_whole(in_folder(state, "model.safetensors.index.json"));
    const char *start = "{\n  \"metadata\": {\n    \"total_size\": 600\n  },\n  \"weight_map\": {\n"
                        "    \"t\\\"0\": \"model-00001-of-00003.safetensors\",\n";
    assert_memory_equal(index.at, start, strlen(start));
    free(index.at);
}

static void every_change_of_shape_replaces_the_model(void **state) {
    static const struct {
        uint64_t most;
        size_t shards, files;
    } steps[] = {{250, 3, 4},  {250, 3, 4}, {100, 6, 7}, {1000, 1, 1},
                 {1000, 1, 1}, {300, 2, 3}, {99, 6, 7},  {0, 1, 1}};
    for (size_t i = 0; i < COUNT(steps); i++) {
        must_save(*state, (unsigned char)(i + 1), steps[i].most, 0);
        check_saved(*state, (unsigned char)(i + 1), steps[i].shards);
        assert_int_equal(count_names(*state), steps[i].files);
    }
}

static void orphans_go_and_strangers_stay(void **state) {
    must_save(*state, 1, 250, 0);
    write_text(in_folder(state, "model-0badcafe-00001-of-00009.safetensors"), "orphan");
    write_text(in_folder(state, "model-00001-of-00009.safetensors"), "orphan");
    write_text(in_folder(state, "model-card.safetensors"), "stranger");
    write_text(in_folder(state, "config.json"), "stranger");
    must_save(*state, 2, 250, 0);
    check_saved(*state, 2, 3);
    assert_int_equal(count_names(*state), 6);
    assert_int_equal(access(in_folder(state, "model-card.safetensors"), F_OK), 0);
    must_save(*state, 3, 250, TENMAP_SAVE_KEEP_OLD);
    check_saved(*state, 3, 3);
    assert_int_equal(count_names(*state), 9);
}

/* Saving into the folder that is loaded from: the open model keeps its files. */
static void a_model_can_be_saved_over_itself(void **state) {
    must_save(*state, 7, 250, 0);
    tenmap_model *m = must_open(*state, NULL);
    tenmap_source sources[TENSORS];
    memset(sources, 0, sizeof sources);
    for (size_t i = 0; i < TENSORS; i++) {
        sources[i].tensor = tenmap_at(m, i);
        sources[i].dtype = TENMAP_BF16;
    }
    tenmap_save_options options = TENMAP_SAVE_OPTIONS_INIT;
    tenmap_error error = {0};
    options.max_shard_bytes = 400;
    options.data_alignment = 64;
    if (tenmap_save_sharded(*state, sources, TENSORS, &options, &error) != TENMAP_OK)
        fail_msg("%s", error.message);
    tenmap_close(m);
    m = must_open(*state, NULL);
    assert_int_equal(tenmap_shard_count(m), 3);
    for (size_t i = 0; i < TENSORS; i++) {
        float value = 0;
        assert_int_equal(
            tenmap_read(tenmap_at(m, i), 99, 1, TENMAP_F32, &value, sizeof value, 0, NULL),
            TENMAP_OK);
        assert_true(value > 6.5f && value < 7.5f);
    }
    tenmap_close(m);
}

static int cancel_at_250(void *ctx, uint64_t done, uint64_t total) {
    assert_int_equal(total, TENSORS * BYTES);
    *(uint64_t *)ctx = done;
    return done >= 250;
}

static int only_note(void *ctx, uint64_t done, uint64_t total) {
    (void)total;
    *(uint64_t *)ctx = done;
    return 0;
}

static void a_cancelled_save_leaves_the_folder_as_it_was(void **state) {
    tenmap_source sources[TENSORS];
    tenmap_save_options options = TENMAP_SAVE_OPTIONS_INIT;
    tenmap_copy_options copy = TENMAP_COPY_OPTIONS_INIT;
    tenmap_error e = {0};
    uint64_t done = 0;
    must_save(*state, 1, 1000, 0);
    make_sources(sources, 2);
    options.max_shard_bytes = 200;
    options.copy = &copy;
    copy.progress = cancel_at_250;
    copy.ctx = &done;
    assert_int_equal(tenmap_save_sharded(*state, sources, TENSORS, &options, &e),
                     TENMAP_ERR_CANCELLED);
    assert_int_equal(done, 300);
    check_saved(*state, 1, 1);
    assert_int_equal(count_names(*state), 1);
    copy.progress = only_note;
    assert_int_equal(tenmap_save_sharded(*state, sources, TENSORS, &options, &e), TENMAP_OK);
    assert_int_equal(done, 600);
    tenmap_model *m = must_open(*state, NULL);
    assert_int_equal(tenmap_shard_count(m), 3);
    tenmap_close(m);
}

/* Halfway through a save the program changes to a folder where the same path is another model. */
typedef struct detour {
    const char *to;             /* change the working directory, if not NULL */
    const char *from, *renamed; /* rename, if not NULL */
    bool taken;
} detour;

static int take_detour(void *ctx, uint64_t done, uint64_t total) {
    detour *d = ctx;
    if (d->taken || done < total / 2)
        return 0;
    d->taken = true;
    if (d->to)
        assert_int_equal(chdir(d->to), 0);
    if (d->from)
        assert_int_equal(rename(d->from, d->renamed), 0);
    if (d->from)
        assert_int_equal(mkdir(d->from, 0700), 0);
    return 0;
}

static void save_with_detour(const char *folder, unsigned char value, detour *d) {
    tenmap_source sources[TENSORS];
    tenmap_save_options options = TENMAP_SAVE_OPTIONS_INIT;
    tenmap_copy_options copy = TENMAP_COPY_OPTIONS_INIT;
    tenmap_edit pair = {"format", TENMAP_CSTR, "pt", TENMAP_CSTR, NULL};
    tenmap_error error = {0};
    make_sources(sources, value);
    options.max_shard_bytes = 200;
    options.metadata = &pair;
    options.metadata_count = 1;
    options.copy = &copy;
    copy.progress = take_detour;
    copy.ctx = d;
    if (tenmap_save_sharded(folder, sources, TENSORS, &options, &error) != TENMAP_OK)
        fail_msg("%s", error.message);
    assert_true(d->taken);
}

static void a_changed_working_directory_misleads_no_save(void **state) {
    char here[4096];
    detour d = {.to = NULL};
    assert_non_null(getcwd(here, sizeof here));
    assert_int_equal(mkdir(in_folder(state, "a"), 0700), 0);
    assert_int_equal(mkdir(in_folder(state, "a/model"), 0700), 0);
    assert_int_equal(mkdir(in_folder(state, "b"), 0700), 0);
    assert_int_equal(mkdir(in_folder(state, "b/model"), 0700), 0);
    must_save(in_folder(state, "a/model"), 1, 300, 0);
    must_save(in_folder(state, "b/model"), 2, 300, 0);
    d.to = in_folder(state, "b");
    assert_int_equal(chdir(in_folder(state, "a")), 0);
    save_with_detour("model", 3, &d);
    assert_int_equal(chdir(here), 0);
    check_saved(in_folder(state, "b/model"), 2, 2);
    assert_int_equal(count_names(in_folder(state, "b/model")), 3);
    check_saved(in_folder(state, "a/model"), 3, 3);
    assert_int_equal(count_names(in_folder(state, "a/model")), 4);
}

#ifndef _WIN32 /* where a folder in use cannot be renamed */
static void a_renamed_folder_misleads_no_save(void **state) {
    char from[4200], to[4200];
    detour d = {.from = from, .renamed = to};
    snprintf(from, sizeof from, "%s", in_folder(state, "model"));
    snprintf(to, sizeof to, "%s", in_folder(state, "moved"));
    assert_int_equal(mkdir(from, 0700), 0);
    must_save(from, 1, 300, 0);
    save_with_detour(from, 3, &d);
    assert_int_equal(count_names(from), 0);
    check_saved(to, 3, 3);
    assert_int_equal(count_names(to), 4);
}
#endif

/* Tensors of one byte whose names have this length, `most` of them to a shard. */
static tenmap_status save_long_names(const char *folder, size_t count, size_t name_bytes,
                                     uint64_t most, tenmap_error *e) {
    static const uint64_t one[1] = {1};
    tenmap_source *sources = calloc(count, sizeof *sources);
    char *text = malloc(count * (name_bytes + 1));
    tenmap_save_options options = TENMAP_SAVE_OPTIONS_INIT;
    assert_non_null(sources);
    assert_non_null(text);
    memset(text, 'n', count * (name_bytes + 1));
    for (size_t i = 0; i < count; i++) {
        char *name = text + i * (name_bytes + 1);
        name[snprintf(name, 16, "%08zu", i)] = 'n';
        sources[i] = (tenmap_source){.name = name,
                                     .name_len = name_bytes,
                                     .dtype = TENMAP_U8,
                                     .shape = one,
                                     .rank = 1,
                                     .data = "x"};
    }
    options.max_shard_bytes = most;
    tenmap_status status = tenmap_save_sharded(folder, sources, count, &options, e);
    free(text);
    free(sources);
    return status;
}

/* Nothing is written that tenmap_open would refuse, and nothing is removed. */
static void headers_and_indexes_that_readers_refuse_are_not_begun(void **state) {
    static const struct {
        uint64_t most;
        const char *says;
    } cases[] = {{60, "the index would have"}, {1000, "the header would have"}};
    enum { NAMES = 101, NAME = 1000000 };
    for (size_t i = 0; i < COUNT(cases); i++) {
        tenmap_error e = {0};
        must_save(*state, 1, 250, 0);
        uint64_t before = inode_of(in_folder(state, "model.safetensors.index.json"));
        tenmap_status status = save_long_names(*state, NAMES, NAME, cases[i].most, &e);
        if (status == TENMAP_OK || !strstr(e.message, cases[i].says))
            fail_msg("%s: %s", tenmap_status_name(status), e.message);
        check_error(&e, TENMAP_ERR_LIMIT);
        check_saved(*state, 1, 3);
        assert_int_equal(inode_of(in_folder(state, "model.safetensors.index.json")), before);
        assert_int_equal(count_names(*state), 4);
    }
}

typedef struct interloper {
    const char *path;
    bool done;
} interloper;

/* Another program writes a file under a name that the save has planned and not used yet. */
static int intrude_and_cancel(void *ctx, uint64_t done, uint64_t total) {
    interloper *i = ctx;
    if (i->done || done < total / 2)
        return 0;
    i->done = true;
    write_text(i->path, "another program's");
    return 1;
}

static void a_failed_save_removes_only_what_it_wrote(void **state) {
    tenmap_source sources[TENSORS];
    tenmap_save_options options = TENMAP_SAVE_OPTIONS_INIT;
    tenmap_copy_options copy = TENMAP_COPY_OPTIONS_INIT;
    tenmap_error e = {0};
    interloper i = {.path = in_folder(state, "model-00003-of-00003.safetensors")};
    make_sources(sources, 2);
    options.max_shard_bytes = 200;
    options.copy = &copy;
    copy.progress = intrude_and_cancel;
    copy.ctx = &i;
    assert_int_equal(tenmap_save_sharded(*state, sources, TENSORS, &options, &e),
                     TENMAP_ERR_CANCELLED);
    assert_true(i.done);
    assert_int_equal(access(i.path, F_OK), 0);
    assert_int_equal(count_names(*state), 1);
}

/* A caller that was compiled before the options had `copy`. */
static void the_first_options_are_taken(void **state) {
    tenmap_source sources[TENSORS];
    tenmap_save_options options = TENMAP_SAVE_OPTIONS_INIT;
    tenmap_error e = {0};
    make_sources(sources, 2);
    options.struct_size = offsetof(tenmap_save_options, copy);
    memset(&options.copy, 0xff, sizeof options.copy);
    assert_int_equal(tenmap_save_sharded(*state, sources, TENSORS, &options, &e), TENMAP_OK);
}

static void order_is_kept_when_asked(void **state) {
    tenmap_source sources[TENSORS];
    tenmap_save_options options = TENMAP_SAVE_OPTIONS_INIT;
    tenmap_error e = {0};
    make_sources(sources, 2);
    tenmap_source first = sources[0];
    sources[0] = sources[5];
    sources[5] = first;
    for (uint32_t keep = 0; keep < 2; keep++) {
        options.flags = keep ? TENMAP_SAVE_KEEP_ORDER : 0;
        assert_int_equal(tenmap_save_sharded(*state, sources, TENSORS, &options, &e), TENMAP_OK);
        tenmap_model *m = must_open(*state, NULL);
        assert_string_equal(tenmap_at(m, 0)->name, names[keep ? 5 : 0]);
        tenmap_close(m);
    }
}

/* The names in an existing index may come from anyone. */
static void an_old_index_removes_no_file_but_shards(void **state) {
    write_text(in_folder(state, "config.json"), "{}");
    write_text(in_folder(state, "other.safetensors"), "old");
    write_text(in_folder(state, "model.safetensors.index.json"),
               "{\"weight_map\":{\"a\":\"config.json\",\"b\":\"other.safetensors\","
               "\"c\":\"model.safetensors.index.json\"}}");
    must_save(*state, 1, 250, 0);
    free(read_whole(in_folder(state, "config.json")).at);
    assert_int_equal(access(in_folder(state, "other.safetensors"), F_OK), -1);
    tenmap_close(must_open(*state, NULL));
}

static void refusals_leave_the_folder_as_it_was(void **state) {
    tenmap_source sources[TENSORS];
    tenmap_save_options options = TENMAP_SAVE_OPTIONS_INIT;
    tenmap_error e = {0};
    must_save(*state, 1, 1000, 0);
    options.max_shard_bytes = 100;
    make_sources(sources, 2);
    sources[5].name = names[0];
    assert_int_equal(tenmap_save_sharded(*state, sources, TENSORS, &options, &e),
                     TENMAP_ERR_ARGUMENT);
    assert_non_null(strstr(e.message, "the name appears twice"));
    assert_int_equal(e.index, 5);
    make_sources(sources, 2);
    sources[5].data = NULL;
    assert_int_equal(tenmap_save_sharded(*state, sources, TENSORS, &options, &e),
                     TENMAP_ERR_ARGUMENT);
    assert_non_null(strstr(e.message, "neither a tensor nor data"));
    make_sources(sources, 2);
    options.flags = TENMAP_SAVE_KEEP_OLD;
    assert_int_equal(tenmap_save_sharded(*state, sources, TENSORS, &options, &e),
                     TENMAP_ERR_ARGUMENT);
    assert_non_null(strstr(e.message, "would hide the new index"));
    options.flags = 8;
    assert_int_equal(tenmap_save_sharded(*state, sources, TENSORS, &options, &e),
                     TENMAP_ERR_ARGUMENT);
    options.flags = 0;
    assert_int_equal(tenmap_save_sharded(in_folder(state, "no"), sources, TENSORS, &options, &e),
                     TENMAP_ERR_NOT_FOUND);
    assert_int_equal(tenmap_save_sharded(NULL, sources, TENSORS, NULL, NULL), TENMAP_ERR_ARGUMENT);
    check_saved(*state, 1, 1);
    assert_int_equal(count_names(*state), 1);
}

/* The save leaves nothing behind, and the old model stays. */
static void a_source_that_is_modified_ends_the_save(void **state) {
    const char *path = in_folder(state, "source.bin");
    tenmap_source sources[1] = {{.name_len = TENMAP_CSTR}};
    tenmap_save_options options = TENMAP_SAVE_OPTIONS_INIT;
    tenmap_options reading = TENMAP_OPTIONS_INIT;
    tenmap_error error = {0};
    must_save(*state, 7, 250, 0);
    size_t names_before = count_names(*state) + 1;
    write_model(path, "{\"t\":{\"dtype\":\"U8\",\"shape\":[9],\"data_offsets\":[0,9]}}", 9);
    reading.backend = TENMAP_BACKEND_READ;
    tenmap_model *m = must_open(path, &reading);
    sources[0].tensor = tenmap_at(m, 0);
    sources[0].name = "t";
    modify_data(path);
    assert_int_equal(tenmap_save_sharded(*state, sources, 1, &options, &error), TENMAP_ERR_IO);
    check_error(&error, TENMAP_ERR_IO);
    assert_non_null(strstr(error.message, "another program has modified the file"));
    assert_int_equal(error.remedy, TENMAP_REMEDY_OPEN_AGAIN);
    tenmap_close(m);
    assert_int_equal(count_names(*state), names_before);
    check_saved(*state, 7, 3);
}

/*
 * The limit is that of readers. A save just within it fails for another reason, which is checked
 * next, so nothing is written.
 */
static void as_many_shards_as_readers_open_are_saved(void **state) {
    enum { MOST = 100000 };
    static const uint64_t one[1] = {1};
    tenmap_source *sources = calloc(MOST + 1, sizeof *sources);
    char(*tensor)[8] = calloc(MOST + 1, sizeof *tensor);
    tenmap_save_options options = TENMAP_SAVE_OPTIONS_INIT;
    tenmap_error error = {0};
    assert_true(sources && tensor);
    for (size_t i = 0; i <= MOST; i++) {
        snprintf(tensor[i], sizeof tensor[i], "%zu", i);
        sources[i] = (tenmap_source){.name = tensor[i],
                                     .name_len = TENMAP_CSTR,
                                     .dtype = TENMAP_U8,
                                     .shape = one,
                                     .rank = 1,
                                     .data = "x"};
    }
    write_model(in_folder(state, "model.safetensors"), "{}", 0);
    options.max_shard_bytes = 1;
    options.flags = TENMAP_SAVE_KEEP_OLD;
    assert_int_equal(tenmap_save_sharded(*state, sources, MOST + 1, &options, &error),
                     TENMAP_ERR_LIMIT);
    assert_non_null(strstr(error.message, "100001 shards are more than the 100000"));
    tenmap_status status = tenmap_save_sharded(*state, sources, MOST, &options, &error);
    if (status != TENMAP_ERR_ARGUMENT || !strstr(error.message, "would hide the new index"))
        fail_msg("%s", error.message);
    assert_int_equal(count_names(*state), 1);
    free(sources);
    free(tensor);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_first_save_has_plain_names, empty_folder),
        cmocka_unit_test_setup(every_change_of_shape_replaces_the_model, empty_folder),
        cmocka_unit_test_setup(orphans_go_and_strangers_stay, empty_folder),
        cmocka_unit_test_setup(a_model_can_be_saved_over_itself, empty_folder),
        cmocka_unit_test_setup(a_cancelled_save_leaves_the_folder_as_it_was, empty_folder),
        cmocka_unit_test_setup(a_source_that_is_modified_ends_the_save, empty_folder),
        cmocka_unit_test_setup(a_changed_working_directory_misleads_no_save, empty_folder),
#ifndef _WIN32
        cmocka_unit_test_setup(a_renamed_folder_misleads_no_save, empty_folder),
#endif
        cmocka_unit_test_setup(headers_and_indexes_that_readers_refuse_are_not_begun, empty_folder),
        cmocka_unit_test_setup(as_many_shards_as_readers_open_are_saved, empty_folder),
        cmocka_unit_test_setup(a_failed_save_removes_only_what_it_wrote, empty_folder),
        cmocka_unit_test_setup(the_first_options_are_taken, empty_folder),
        cmocka_unit_test_setup(order_is_kept_when_asked, empty_folder),
        cmocka_unit_test_setup(an_old_index_removes_no_file_but_shards, empty_folder),
        cmocka_unit_test_setup(refusals_leave_the_folder_as_it_was, empty_folder),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
