/* Paths and file names, and how errors describe them, on every system. */
#include "os/os.h"
#include "support.h"

#include <errno.h>
#include <unistd.h>

static void names_that_windows_takes_for_something_else(void **state) {
    (void)state;
    static const char *const reserved[] = {"C:x",
                                           "C:",
                                           "a:stream",
                                           "NUL",
                                           "nul.safetensors",
                                           "Con",
                                           "aux.x.y",
                                           "COM1",
                                           "com9.txt",
                                           "LPT0",
                                           "prn .txt",
                                           "CONIN$",
                                           "a.",
                                           "a ",
                                           "..",
                                           "",
                                           "a?b",
                                           "a*",
                                           "a<b",
                                           "a>b",
                                           "a|b",
                                           "a\"b",
                                           "a\\b",
                                           "a/b",
                                           "COM\xc2\xb9",
                                           "lpt\xc2\xb3.x",
                                           "a\nb",
                                           "a\x1f"};
    static const char *const plain[] = {"model.safetensors",
                                        "model-00001-of-00002.safetensors",
                                        "NULL",
                                        "com.safetensors",
                                        "COM10",
                                        "console",
                                        "a b",
                                        "\xe6\xa8\xa1",
                                        ".hidden",
                                        "LPTA",
                                        "COM\xc2\xb4",
                                        "x.nul"};
    for (size_t i = 0; i < COUNT(reserved); i++)
        if (!tmi_is_windows_reserved(reserved[i], strlen(reserved[i])))
            fail_msg("\"%s\" is reserved", reserved[i]);
    for (size_t i = 0; i < COUNT(plain); i++)
        if (tmi_is_windows_reserved(plain[i], strlen(plain[i])))
            fail_msg("\"%s\" is a plain name", plain[i]);
}

static void an_index_names_files_of_this_system_only(void **state) {
    /* Elsewhere these are plain names, and a model may have such shards. */
    static const char *const names[] = {"C:x", "NUL", "a:b", "com1.safetensors", "x. "};
    for (size_t i = 0; i < COUNT(names); i++) {
        char json[200];
        snprintf(json, sizeof json, "{\"weight_map\":{\"t\":\"%s\"}}", names[i]);
        write_text(in_folder(state, "i.json"), json);
#ifdef _WIN32
        must_fail(in_folder(state, "i.json"), NULL, TENMAP_ERR_FORMAT, "not a plain file name");
#else
        must_fail(in_folder(state, "i.json"), NULL, TENMAP_ERR_NOT_FOUND, "1 shard");
#endif
    }
}

static void the_folder_part_ends_with_a_separator(void **state) {
    (void)state;
    assert_int_equal(tmi_folder_part("name"), 0);
    assert_int_equal(tmi_folder_part("a/name"), 2);
    assert_int_equal(tmi_folder_part("/"), 1);
    bool windows = tmi_is_separator('\\');
    assert_int_equal(tmi_folder_part("a\\name"), windows ? 2 : 0);
    assert_int_equal(tmi_folder_part("C:name"), windows ? 2 : 0);
}

static void joined(const char *folder, const char *name, const char *want) {
    char *path = tmi_join_path(folder, strlen(folder), name, strlen(name));
    assert_non_null(path);
    assert_string_equal(path, want);
    free(path);
}

static void joining_adds_a_slash_where_there_is_none(void **state) {
    (void)state;
    joined("", "n", "n");
    joined("a", "n", "a/n");
    joined("a/", "n", "a/n");
    joined("a\\", "n", tmi_is_separator('\\') ? "a\\n" : "a\\/n");
}

static void files_of_ours_are_hidden_and_short(void **state) {
    char name[TMI_NAME_BYTES], long_path[400] = "folder/";
    (void)state;
    tmi_sibling_name(name, sizeof name, "folder/m.safetensors", ".x");
    assert_string_equal(name, ".m.safetensors.x");
    memset(long_path + 7, 'n', 300);
    tmi_sibling_name(name, sizeof name, long_path, ".x");
    assert_true(strlen(name) < 255 && name[0] == '.');
}

/* A file whose name is not ASCII is written, found in its folder and opened, on every system. */
static void paths_are_utf8(void **state) {
    static const char *const names[] = {"mod\xc3\xa8le \xe6\xa8\xa1\xe5\x9e\x8b.safetensors",
                                        "\xf0\x9f\xa6\x99.safetensors"};
    for (size_t i = 0; i < COUNT(names); i++) {
        const char *path = in_folder(state, names[i]);
        tenmap_writer *writer = NULL;
        tenmap_error error;
        uint64_t shape = 4;
        if (tenmap_writer_create(path, NULL, &writer, &error) != TENMAP_OK)
            fail_msg("%s", error.message);
        assert_int_equal(tenmap_writer_add(writer, "t", 1, TENMAP_U8, &shape, 1, NULL, NULL),
                         TENMAP_OK);
        assert_int_equal(tenmap_writer_write(writer, 0, 0, "data", 4, NULL), TENMAP_OK);
        assert_int_equal(tenmap_writer_commit(writer, NULL), TENMAP_OK);
        tenmap_model *model = must_open(*state, NULL); /* the only file of the folder */
        const char *found = tenmap_shard_at(model, 0)->path;
        assert_string_equal(found + tmi_folder_part(found), names[i]);
        assert_memory_equal(tenmap_at(model, 0)->data, "data", 4);
        tenmap_close(model);
        assert_int_equal(unlink(path), 0);
    }
    assert_int_equal(count_names(*state), 0);
}

static void what_ends_a_write_has_words(void **state) {
    (void)state;
    static const struct {
        int code;
        tenmap_status status;
        const char *words;
    } ends[] = {
        {ENOSPC, TENMAP_ERR_NO_SPACE, "the disk is full"},
        {EFBIG, TENMAP_ERR_LIMIT, "ulimit -f"},
#ifdef EDQUOT
        {EDQUOT, TENMAP_ERR_NO_SPACE, "quota"},
#endif
        {EROFS, TENMAP_ERR_IO, "read-only"},
    };
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        tenmap_error error;
        assert_int_equal(tmi_fail_os(&error, ends[i].code, "it"), ends[i].status);
        assert_int_equal(error.os_error, ends[i].code);
        assert_non_null(strstr(error.message, ends[i].words));
    }
}

/* Memory that replaces a mapping holds exactly the bytes that were mapped. */
static void memory_of_a_part_of_a_file_is_read_within_its_bounds(void **state) {
    enum { BEFORE = 4096, MAPPED = 100, BEHIND = 1000 };
    unsigned char whole[BEFORE + MAPPED + BEHIND], dst[16];
    size_t got;
    (void)state;
    memset(whole, 'x', sizeof whole);
    tmi_file file = {.fd = -1,
                     .kind = TMI_FILE_REGULAR,
                     .memory = whole + BEFORE,
                     .memory_at = BEFORE,
                     .size = sizeof whole,
                     .map = whole + BEFORE,
                     .map_size = MAPPED,
                     .map_offset = BEFORE};
    memset(file.map, 'm', MAPPED);
    assert_int_equal(tmi_file_read(&file, BEFORE + 3, dst, 16, &got), 0);
    assert_int_equal(got, 16);
    assert_int_equal(dst[15], 'm');
    assert_int_not_equal(tmi_file_read(&file, BEFORE - 1, dst, 16, &got), 0);
    assert_int_equal(got, 0);
    assert_int_equal(tmi_file_read(&file, BEFORE + MAPPED - 5, dst, 16, &got), 0);
    assert_int_equal(got, 5);
    assert_int_equal(tmi_file_read(&file, BEFORE + MAPPED + 1, dst, 16, &got), 0);
    assert_int_equal(got, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_that_windows_takes_for_something_else),
        cmocka_unit_test_setup(an_index_names_files_of_this_system_only, empty_folder),
        cmocka_unit_test(the_folder_part_ends_with_a_separator),
        cmocka_unit_test(joining_adds_a_slash_where_there_is_none),
        cmocka_unit_test(files_of_ours_are_hidden_and_short),
        cmocka_unit_test_setup(paths_are_utf8, empty_folder),
        cmocka_unit_test(what_ends_a_write_has_words),
        cmocka_unit_test(memory_of_a_part_of_a_file_is_read_within_its_bounds),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
