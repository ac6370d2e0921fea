/*
 * In all options, unknown flags and reserved fields are refused before anything is done, with the
 * same message everywhere.
 */
#include "support.h"

static const char tiny[] = "{\"t\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}";

/*
 * Calls with options that have these flags and this value in `reserved`, if they have that field.
 */

static tenmap_status open_so(void **state, uint32_t flags, uint32_t reserved, tenmap_error *error) {
    tenmap_options options = TENMAP_OPTIONS_INIT;
    tenmap_model *m = NULL;
    options.flags = flags;
    options.reserved = reserved;
    tenmap_status status = tenmap_open(in_folder(state, "tiny.safetensors"), &options, &m, error);
    tenmap_close(m);
    return status;
}

static tenmap_status load_so(void **state, uint32_t flags, uint32_t reserved, tenmap_error *error) {
    tenmap_load_options options = TENMAP_LOAD_OPTIONS_INIT;
    tenmap_model *m = must_open(in_folder(state, "tiny.safetensors"), NULL);
    (void)reserved;
    options.flags = flags;
    tenmap_status status = tenmap_load(m, NULL, 0, &options, error);
    tenmap_close(m);
    return status;
}

static tenmap_status measure_so(void **state, uint32_t flags, uint32_t reserved,
                                tenmap_error *error) {
    tenmap_stats_options options = TENMAP_STATS_OPTIONS_INIT;
    (void)state;
    options.flags = flags;
    options.reserved = reserved;
    return tenmap_measure(NULL, 0, &options, NULL, error);
}

static tenmap_status write_so(void **state, uint32_t flags, uint32_t reserved,
                              tenmap_error *error) {
    tenmap_writer_options options = TENMAP_WRITER_OPTIONS_INIT;
    tenmap_writer *writer = NULL;
    (void)reserved;
    options.flags = flags;
    tenmap_status status =
        tenmap_writer_create(in_folder(state, "new.safetensors"), &options, &writer, error);
    tenmap_writer_abort(writer);
    return status;
}

static tenmap_status copy_so(void **state, uint32_t flags, uint32_t reserved, tenmap_error *error) {
    tenmap_copy_options options = TENMAP_COPY_OPTIONS_INIT;
    tenmap_writer *writer = NULL;
    (void)reserved;
    options.flags = flags;
    assert_int_equal(tenmap_writer_create(in_folder(state, "new.safetensors"), NULL, &writer, NULL),
                     TENMAP_OK);
    tenmap_status status = tenmap_writer_copy_list(writer, NULL, 0, &options, error);
    tenmap_writer_abort(writer);
    return status;
}

static tenmap_status save_so(void **state, uint32_t flags, uint32_t reserved, tenmap_error *error) {
    tenmap_save_options options = TENMAP_SAVE_OPTIONS_INIT;
    (void)reserved;
    options.flags = flags;
    return tenmap_save_sharded(in_folder(state, ""), NULL, 0, &options, error);
}

static tenmap_status edit_so(void **state, uint32_t flags, uint32_t reserved, tenmap_error *error) {
    tenmap_edit_options options = TENMAP_EDIT_OPTIONS_INIT;
    options.flags = flags;
    options.reserved = reserved;
    return tenmap_edit_metadata(in_folder(state, "tiny.safetensors"), NULL, 0, &options, NULL,
                                error);
}

static tenmap_status rename_so(void **state, uint32_t flags, uint32_t reserved,
                               tenmap_error *error) {
    tenmap_edit_options options = TENMAP_EDIT_OPTIONS_INIT;
    options.flags = flags;
    options.reserved = reserved;
    return tenmap_rename(in_folder(state, "tiny.safetensors"), NULL, 0, NULL, 0, &options, NULL,
                         error);
}

static const struct {
    const char *name;
    tenmap_status (*call)(void **state, uint32_t flags, uint32_t reserved, tenmap_error *error);
    uint32_t known;
    bool has_reserved;
} kinds[] = {
    {"tenmap_options", open_so,
     TENMAP_OPEN_LENIENT | TENMAP_OPEN_PARTIAL | TENMAP_OPEN_DEQUANTIZE | TENMAP_OPEN_LATER_WINS |
         TENMAP_OPEN_ALIASES | TENMAP_OPEN_INDEX_ONLY | TENMAP_OPEN_PRIVATE | TENMAP_OPEN_BRANCHES |
         TENMAP_OPEN_TRAILING | TENMAP_OPEN_HOLES | TENMAP_OPEN_UNKNOWN_DTYPES |
         TENMAP_OPEN_STALE_INDEX | TENMAP_OPEN_SUBFOLDERS,
     true},
    {"tenmap_load_options", load_so, TENMAP_LOAD_READ | TENMAP_LOAD_DIRECT, false},
    {"tenmap_stats_options", measure_so, 0, true},
    {"tenmap_writer_options", write_so, TENMAP_WRITER_KEEP_ORDER | TENMAP_WRITER_FOLLOW_LINKS,
     false},
    {"tenmap_copy_options", copy_so, 0, false},
    {"tenmap_save_options", save_so, TENMAP_SAVE_KEEP_OLD | TENMAP_SAVE_KEEP_ORDER, false},
    {"tenmap_edit_options", edit_so,
     TENMAP_EDIT_NO_IN_PLACE | TENMAP_EDIT_NO_CLONE | TENMAP_EDIT_FOLLOW_LINKS |
         TENMAP_EDIT_NO_COPY,
     true},
    {"tenmap_edit_options", rename_so,
     TENMAP_EDIT_NO_IN_PLACE | TENMAP_EDIT_NO_CLONE | TENMAP_EDIT_FOLLOW_LINKS |
         TENMAP_EDIT_NO_COPY,
     true},
};

static void must_refuse(size_t kind, tenmap_status status, const tenmap_error *error,
                        const char *message) {
    if (status != TENMAP_ERR_ARGUMENT || strcmp(error->message, message) != 0)
        fail_msg("%s: %s: \"%s\" instead of \"%s\"", kinds[kind].name, tenmap_status_name(status),
                 status ? error->message : "", message);
}

static void unknown_flags_are_refused_in_the_same_words(void **state) {
    write_model(in_folder(state, "tiny.safetensors"), tiny, 1);
    for (size_t i = 0; i < COUNT(kinds); i++)
        for (uint32_t bit = 1; bit; bit <<= 1) {
            tenmap_error error = {0};
            char message[80];
            if (kinds[i].known & bit)
                continue;
            snprintf(message, sizeof message, "options.flags has unknown bits: 0x%x",
                     (unsigned)bit);
            tenmap_status status = kinds[i].call(state, kinds[i].known | bit, 0, &error);
            must_refuse(i, status, &error, message);
        }
}

static void reserved_fields_are_refused_in_the_same_words(void **state) {
    write_model(in_folder(state, "tiny.safetensors"), tiny, 1);
    for (size_t i = 0; i < COUNT(kinds); i++) {
        tenmap_error error = {0};
        if (kinds[i].has_reserved)
            must_refuse(i, kinds[i].call(state, 0, 1, &error), &error,
                        "options.reserved must be 0");
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(unknown_flags_are_refused_in_the_same_words, empty_folder),
        cmocka_unit_test_setup(reserved_fields_are_refused_in_the_same_words, empty_folder),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
