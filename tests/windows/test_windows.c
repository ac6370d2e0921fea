/*
 * What is specific to Windows: handles behind descriptors, sharing, long paths, views, pages,
 * locks.
 */
#include "os/os.h"
#include "support.h"
#include "os/win32.h"

#include <errno.h>

static const char json[] =
    "{\"a\":{\"dtype\":\"U8\",\"shape\":[100000],\"data_offsets\":[0,100000]},"
    "\"b\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[100000,100008]}}";
enum { DATA = 100008 };

static void check_bytes(const tenmap_model *model) {
    unsigned char byte;
    const tenmap_tensor *a = tenmap_find(model, "a");
    assert_non_null(a);
    for (size_t i = 0; i < 100000; i += 997) {
        assert_int_equal(tenmap_read_bytes(a, i, 1, &byte, NULL), TENMAP_OK);
        assert_int_equal(byte, pattern_byte(i));
        if (a->data)
            assert_int_equal(((const unsigned char *)a->data)[i], pattern_byte(i));
    }
}

static void both_backends_and_both_slashes(void **state) {
    char path[4096];
    tenmap_options options = TENMAP_OPTIONS_INIT;
    write_model(in_folder(state, "m.safetensors"), json, DATA);
    for (int way = 0; way < 4; way++) {
        snprintf(path, sizeof path, "%s%cm.safetensors", (char *)*state, way & 1 ? '\\' : '/');
        options.backend = way & 2 ? TENMAP_BACKEND_READ : TENMAP_BACKEND_MAP;
        tenmap_model *model = must_open(path, &options);
        check_bytes(model);
        tenmap_close(model);
    }
}

/* Views begin at multiples of 64 KiB; the model need not. */
static void a_model_inside_a_larger_file(void **state) {
    static const uint64_t offsets[] = {1, 4096, 65535, 65536, 70001};
    tenmap_options options = TENMAP_OPTIONS_INIT;
    bytes model_bytes = make_model(json, DATA);
    for (size_t i = 0; i < COUNT(offsets); i++) {
        size_t size = (size_t)offsets[i] + model_bytes.size + 11;
        unsigned char *file = calloc(1, size);
        memcpy(file + offsets[i], model_bytes.at, model_bytes.size);
        write_file(in_folder(state, "pack"), file, size);
        options.offset = offsets[i];
        options.length = model_bytes.size;
        tenmap_model *model = must_open(in_folder(state, "pack"), &options);
        check_bytes(model);
        tenmap_close(model);
        free(file);
    }
    free(model_bytes.at);
}

static void a_callers_descriptor_stays_as_it_is(void **state) {
    tenmap_model *model;
    tenmap_error error;
    write_model(in_folder(state, "m.safetensors"), json, DATA);
    int fd = _open(in_folder(state, "m.safetensors"), _O_RDONLY | _O_BINARY);
    assert_true(fd >= 0);
    assert_int_equal(_lseeki64(fd, 123, SEEK_SET), 123);
    assert_int_equal(tenmap_open_fd(fd, NULL, &model, &error), TENMAP_OK);
    check_bytes(model);
    assert_int_equal(_lseeki64(fd, 0, SEEK_CUR), 123);
    int theirs = tenmap_shard_at(model, 0)->fd;
    assert_true(theirs >= 0 && theirs != fd);
    assert_int_equal(_filelengthi64(theirs), (long long)tenmap_file_size(model));
    assert_int_equal(_close(fd), 0);
    check_bytes(model);
    tenmap_close(model);
    assert_int_equal(tenmap_open_fd(500, NULL, &model, &error), TENMAP_ERR_IO);
    assert_int_equal(error.os_error, EBADF);
}

static void what_is_no_file_is_said_so(void **state) {
    tenmap_model *model;
    int ends[2];
    tenmap_error error;
    must_fail("NUL", NULL, TENMAP_ERR_IO, "not a regular file");
    must_fail(in_folder(state, "not there"), NULL, TENMAP_ERR_NOT_FOUND, "no such file");
    must_fail(in_folder(state, "no folder/m"), NULL, TENMAP_ERR_NOT_FOUND, "no such file");
    must_fail(in_folder(state, "bad\xff"), NULL, TENMAP_ERR_IO, "not valid UTF-8");
    assert_int_equal(_pipe(ends, 4096, _O_BINARY), 0);
    assert_int_equal(tenmap_open_fd(ends[0], NULL, &model, &error), TENMAP_ERR_IO);
    assert_non_null(strstr(error.message, "not a regular file"));
    _close(ends[0]);
    _close(ends[1]);
}

static void paths_may_be_longer_than_260_characters(void **state) {
    char path[2000];
    wchar_t wide[2000];
    snprintf(path, sizeof path, "%s", (char *)*state);
    for (int i = 0; i < 4; i++) {
        size_t len = strlen(path);
        snprintf(path + len, sizeof path - len, "/%0100d", i);
        int failed;
        wchar_t *folder = tmi_wide_path(path, &failed);
        assert_non_null(folder);
        assert_true(CreateDirectoryW(folder, NULL));
        free(folder);
    }
    strcat(path, "/m.safetensors");
    assert_true(MultiByteToWideChar(CP_UTF8, 0, path, -1, wide, 2000) > 400);
    tenmap_writer *writer;
    tenmap_error error;
    if (tenmap_writer_create(path, NULL, &writer, &error) != TENMAP_OK ||
        tenmap_writer_commit(writer, &error) != TENMAP_OK)
        fail_msg("%s", error.message);
    tenmap_close(must_open(path, NULL));
    path[tmi_folder_part(path) - 1] = '\0';
    tenmap_close(must_open(path, NULL)); /* as a folder */
    for (int i = 0; i < 5; i++) {        /* the tests' own cleaning does not reach so far */
        int failed;
        char file[2100];
        snprintf(file, sizeof file, "%s/m.safetensors", path);
        wchar_t *name = tmi_wide_path(i ? path : file, &failed);
        assert_true(i ? RemoveDirectoryW(name) : DeleteFileW(name));
        free(name);
        if (i)
            path[tmi_folder_part(path) - 1] = '\0';
    }
}

static void others_may_replace_and_remove_an_open_file(void **state) {
    char old[4096], new_path[4096];
    snprintf(old, sizeof old, "%s", in_folder(state, "m.safetensors"));
    snprintf(new_path, sizeof new_path, "%s", in_folder(state, "moved"));
    write_model(old, json, DATA);
    tenmap_options options = TENMAP_OPTIONS_INIT;
    options.backend = TENMAP_BACKEND_READ;
    tenmap_model *model = must_open(old, &options);
    assert_true(MoveFileA(old, new_path));
    check_bytes(model);
    assert_true(DeleteFileA(new_path));
    check_bytes(model);
    tenmap_close(model);
    assert_int_equal(count_names(*state), 0);
}

static void a_read_model_notices_a_file_that_shrank(void **state) {
    tenmap_options options = TENMAP_OPTIONS_INIT;
    unsigned char byte;
    tenmap_error error;
    write_model(in_folder(state, "m.safetensors"), json, DATA);
    options.backend = TENMAP_BACKEND_READ;
    tenmap_model *model = must_open(in_folder(state, "m.safetensors"), &options);
    write_text(in_folder(state, "m.safetensors"), "short");
    assert_int_equal(tenmap_read_bytes(tenmap_at(model, 0), 9, 1, &byte, &error), TENMAP_ERR_IO);
    check_error(&error, TENMAP_ERR_IO);
    tenmap_close(model);
}

static void advice_and_questions(void **state) {
    uint64_t resident = 0, cached;
    tenmap_error error;
    write_model(in_folder(state, "m.safetensors"), json, DATA);
    tenmap_model *model = must_open(in_folder(state, "m.safetensors"), NULL);
    static const uint32_t all[] = {TENMAP_ADVISE_POPULATE, TENMAP_ADVISE_PREFETCH,
                                   TENMAP_ADVISE_LOCK, TENMAP_ADVISE_UNLOCK, TENMAP_ADVISE_RELEASE};
    for (size_t i = 0; i < COUNT(all); i++) {
        if (tenmap_advise(model, NULL, all[i], &error) != TENMAP_OK)
            fail_msg("%s", error.message);
        if (all[i] == TENMAP_ADVISE_POPULATE) {
            assert_int_equal(tenmap_resident(model, NULL, &resident, &error), TENMAP_OK);
            assert_true(resident <= DATA);
            print_message("           resident after POPULATE: %u of %u\n", (unsigned)resident,
                          DATA);
        }
    }
    assert_int_equal(tenmap_cached(model, NULL, &cached, &error), TENMAP_ERR_UNSUPPORTED);
    check_bytes(model);
    tenmap_close(model);
}

static void loading_on_threads_and_around_the_cache(void **state) {
    static const uint32_t flags[] = {0, TENMAP_LOAD_READ, TENMAP_LOAD_READ | TENMAP_LOAD_DIRECT};
    write_model(in_folder(state, "m.safetensors"), json, DATA);
    tenmap_model *model = must_open(in_folder(state, "m.safetensors"), NULL);
    unsigned char *dst = tenmap_alloc(100000);
    assert_non_null(dst);
    assert_int_equal((uintptr_t)dst % (2 << 20), 0);
    for (size_t i = 0; i < COUNT(flags); i++) {
        tenmap_error error;
        tenmap_load_options options = TENMAP_LOAD_OPTIONS_INIT;
        tenmap_request request = {.tensor = tenmap_at(model, 0), .dst = dst, .dst_bytes = 100000};
        options.flags = flags[i];
        options.threads = 4;
        memset(dst, 0, 100000);
        if (tenmap_load(model, &request, 1, &options, &error) != TENMAP_OK)
            fail_msg("%s", error.message);
        for (size_t k = 0; k < 100000; k++)
            assert_true(dst[k] == pattern_byte(k));
    }
    tenmap_free(dst);
    tenmap_close(model);
}

static void only_one_saves_into_a_folder(void **state) {
    tmi_folder first, second, none;
    assert_int_equal(tmi_folder_open(&first, *state), 0);
    assert_int_equal(tmi_folder_open(&second, *state), 0);
    assert_int_equal(tmi_folder_lock(&first), 0);
    assert_int_equal(tmi_folder_lock(&second), EWOULDBLOCK);
    tmi_folder_close(&first);
    assert_int_equal(tmi_folder_lock(&second), 0);
    tmi_folder_close(&second);
    assert_int_equal(count_names(*state), 0);
    assert_int_equal(tmi_folder_open(&none, in_folder(state, "none")), ENOENT);
}

/* A name that the system cannot look up may be there: whoever asks must not take it for absent. */
static void only_what_is_not_found_is_absent(void **state) {
    tmi_folder folder;
    write_text(in_folder(state, "file"), "x");
    assert_int_equal(tmi_folder_open(&folder, *state), 0);
    assert_false(tmi_is_absent(&folder, "file"));
    assert_false(tmi_is_absent(&folder, "."));
    assert_true(tmi_is_absent(&folder, "none"));
    assert_true(tmi_is_absent(&folder, "none/file"));
    assert_false(tmi_is_absent(&folder, "\xff")); /* not UTF-8: it cannot be asked for */
    tmi_folder_close(&folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(both_backends_and_both_slashes, empty_folder),
        cmocka_unit_test_setup(a_model_inside_a_larger_file, empty_folder),
        cmocka_unit_test_setup(a_callers_descriptor_stays_as_it_is, empty_folder),
        cmocka_unit_test_setup(what_is_no_file_is_said_so, empty_folder),
        cmocka_unit_test_setup(paths_may_be_longer_than_260_characters, empty_folder),
        cmocka_unit_test_setup(others_may_replace_and_remove_an_open_file, empty_folder),
        cmocka_unit_test_setup(a_read_model_notices_a_file_that_shrank, empty_folder),
        cmocka_unit_test_setup(advice_and_questions, empty_folder),
        cmocka_unit_test_setup(loading_on_threads_and_around_the_cache, empty_folder),
        cmocka_unit_test_setup(only_one_saves_into_a_folder, empty_folder),
        cmocka_unit_test_setup(only_what_is_not_found_is_absent, empty_folder),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
