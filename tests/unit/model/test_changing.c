/*
 * Files that change while they are opened: a model has one header or the other, never a mix, and a
 * running edit is distinguished from an interrupted one. The linker redirects pread to the test,
 * which lets something happen in the middle of a read. tests/race_edit.c tests the same with real
 * races.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "support.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

ssize_t __real_pread64(int fd, void *dst, size_t size, off_t offset);
ssize_t __wrap_pread64(int fd, void *dst, size_t size, off_t offset);
ssize_t __wrap_pread(int fd, void *dst, size_t size, off_t offset);

static void (*halfway)(void); /* runs in the middle of a read of more than the first bytes */
static int times;             /* how many times more */
static int ends_in;           /* the edit that runs ends at this read from now on; 0: none does */

static void end_edit(void);

ssize_t __wrap_pread64(int fd, void *dst, size_t size, off_t offset) {
    static bool running; /* because `halfway` itself may read */
    if (ends_in > 0 && --ends_in == 0)
        end_edit();
    if (!halfway || times == 0 || running || size < 1000)
        return __real_pread64(fd, dst, size, offset);
    ssize_t half = __real_pread64(fd, dst, size / 2, offset);
    times--;
    running = true;
    halfway();
    running = false;
    ssize_t rest =
        __real_pread64(fd, (char *)dst + size / 2, size - size / 2, offset + (off_t)(size / 2));
    return half < 0 || rest < 0 ? -1 : half + rest;
}

ssize_t __wrap_pread(int fd, void *dst, size_t size, off_t offset) {
    return __wrap_pread64(fd, dst, size, offset);
}

/* A name that is most of the header, after metadata whose length determines its place. */
static char path[4096], name[3000];

static void write_edited(void **state, const char *space) {
    char json[sizeof name + 200];
    for (size_t i = 0; i + 1 < sizeof name; i++)
        name[i] = (char)('a' + i % 26);
    snprintf(json, sizeof json,
             "{\"__metadata__\":{\"k\":\"x\"},%s\"%s\":{\"dtype\":\"U8\",\"shape\":[4],"
             "\"data_offsets\":[0,4]}}   ",
             space, name);
    snprintf(path, sizeof path, "%s", in_folder(state, "m.safetensors"));
    write_model(path, json, 4);
}

static void edit_value(const char *value) {
    tenmap_edit edit = {"k", 1, value, TENMAP_CSTR, NULL};
    tenmap_error error;
    uint32_t how;
    if (tenmap_edit_metadata(path, &edit, 1, NULL, &how, &error) != TENMAP_OK)
        fail_msg("%s", error.message);
    assert_int_equal(how, TENMAP_EDIT_IN_PLACE);
}

static bool long_value;

static void edit_now(void) {
    long_value = !long_value;
    edit_value(long_value ? "xx" : "x");
}

static void no_error(void *ctx, const tenmap_finding *finding) {
    (void)ctx;
    if (finding->severity == TENMAP_FINDING_ERROR)
        fail_msg("%s", finding->message);
}

static void a_header_that_is_edited_while_it_is_read_is_no_mix(void **state) {
    for (int i = 0; i < 12; i++) {
        tenmap_options options = TENMAP_OPTIONS_INIT;
        options.backend = i % 2 ? TENMAP_BACKEND_READ : TENMAP_BACKEND_MAP;
        write_edited(state, i % 4 < 2 ? "" : " "); /* a header for the quick pass, or not */
        halfway = edit_now;
        long_value = false;
        times = 1 + i / 4;
        tenmap_model *m = must_open(path, &options);
        assert_int_equal(times, 0);
        assert_string_equal(tenmap_metadata_get(m, "k"), long_value ? "xx" : "x");
        if (strcmp(tenmap_at(m, 0)->name, name) != 0)
            fail_msg("a name of two headers");
        unsigned char data[4];
        assert_int_equal(tenmap_read(tenmap_at(m, 0), 0, 4, TENMAP_U8, data, 4, 0, NULL),
                         TENMAP_OK);
        tenmap_close(m);
    }
}

/* A GGUF file whose edited pair stands before a long one, so that a mix has no valid items. */
static void write_edited_gguf(void **state) {
    static char text[3000];
    tenmap_writer_options options = TENMAP_WRITER_OPTIONS_INIT;
    tenmap_writer *w;
    options.format = TENMAP_FORMAT_GGUF;
    options.header_slack = 200;
    snprintf(path, sizeof path, "%s", in_folder(state, "m.gguf"));
    memset(text, 0xff, sizeof text);
    const tenmap_value value = {TENMAP_VALUE_STRING, TENMAP_VALUE_STRING, 1, text, sizeof text};
    assert_int_equal(tenmap_writer_create(path, &options, &w, NULL), TENMAP_OK);
    assert_int_equal(tenmap_writer_metadata(w, "k", 1, "x", 1, NULL), TENMAP_OK);
    assert_int_equal(tenmap_writer_value(w, "text", 4, &value, NULL), TENMAP_OK);
    assert_int_equal(tenmap_writer_metadata(w, "last", 4, "y", 1, NULL), TENMAP_OK);
    assert_int_equal(tenmap_writer_commit(w, NULL), TENMAP_OK);
}

static void a_gguf_header_that_is_edited_while_it_is_read_is_no_mix(void **state) {
    for (int i = 0; i < 6; i++) {
        tenmap_options options = TENMAP_OPTIONS_INIT;
        options.backend = i % 2 ? TENMAP_BACKEND_READ : TENMAP_BACKEND_MAP;
        write_edited_gguf(state);
        halfway = edit_now;
        long_value = false;
        times = 1 + i / 2;
        tenmap_model *m = must_open(path, &options);
        assert_int_equal(times, 0);
        assert_string_equal(tenmap_metadata_get(m, "k"), long_value ? "xx" : "x");
        assert_string_equal(tenmap_metadata_get(m, "last"), "y");
        tenmap_close(m);
    }
    times = 1;
    assert_int_equal(tenmap_check(path, NULL, no_error, NULL, NULL), TENMAP_OK);
    assert_int_equal(times, 0);
}

static void a_check_of_a_file_that_is_edited_finds_nothing(void **state) {
    write_edited(state, "");
    edit_value("");
    halfway = edit_now;
    times = 1;
    assert_int_equal(tenmap_check(path, NULL, no_error, NULL, NULL), TENMAP_OK);
    assert_int_equal(times, 0);
}

/* Writers replace an index; a program that writes into one in place is noticed too. */
static void rewrite_index(void) {
    FILE *f = fopen(path, "r+b");
    assert_non_null(f);
    assert_int_equal(fseek(f, -100, SEEK_END), 0);
    fputs(times % 2 ? "2" : "1", f);
    fclose(f);
}

static void an_index_that_changes_while_it_is_read_is_read_again(void **state) {
    char json[4096];
    write_model(in_folder(state, "a.safetensors"),
                "{\"t\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1);
    snprintf(json, sizeof json, "{\"weight_map\":{\"t\":\"a.safetensors\"},\"m\":\"%03000d%099d", 0,
             0);
    memcpy(json + strlen(json) - 2, "\"}", 2);
    snprintf(path, sizeof path, "%s", in_folder(state, "x.index.json"));
    write_text(path, json);
    halfway = rewrite_index;
    times = 3;
    tenmap_model *m = must_open(path, NULL);
    assert_int_equal(times, 0);
    bytes now = read_whole(path);
    size_t len;
    assert_string_equal(tenmap_index_json(m, &len), (char *)now.at);
    free(now.at);
    tenmap_close(m);
}

static void cut_index(void) {
    assert_int_equal(truncate(path, 700), 0);
}

static void a_failing_read_of_an_index_speaks_of_the_index(void **state) {
    char json[4096];
    snprintf(json, sizeof json, "{\"weight_map\":{\"t\":\"a.safetensors\"},\"m\":%03000d}", 1);
    snprintf(path, sizeof path, "%s", in_folder(state, "x.index.json"));
    write_text(path, json);
    halfway = cut_index;
    times = 1;
    tenmap_model *m;
    tenmap_error error;
    assert_int_equal(tenmap_open(path, NULL, &m, &error), TENMAP_ERR_IO);
    check_error(&error, TENMAP_ERR_IO);
    assert_non_null(strstr(error.message, "cannot read the index: wanted"));
    assert_int_equal(error.remedy, TENMAP_REMEDY_OPEN_AGAIN);
}

static void a_file_that_never_rests_is_refused(void **state) {
    write_edited(state, "");
    halfway = edit_now;
    times = 1000; /* more than there are attempts */
    must_fail(path, NULL, TENMAP_ERR_IO,
              "another program is changing the file right now: try again");
    halfway = NULL;
    tenmap_close(must_open(path, NULL));
}

/* However coarse the file system's clock is, and however fast the disk. */
static void an_edit_in_place_shows_in_the_times_of_the_file(void **state) {
    write_edited(state, "");
    for (int i = 0; i < 20; i++) {
        struct stat before, after;
        edit_value(i % 2 ? "x" : "y");
        assert_int_equal(stat(path, &before), 0);
        edit_value(i % 2 ? "xx" : "yy");
        assert_int_equal(stat(path, &after), 0);
        assert_false(before.st_mtim.tv_sec == after.st_mtim.tv_sec &&
                     before.st_mtim.tv_nsec == after.st_mtim.tv_nsec);
    }
}

/* An edit in progress of another program, which has invalidated the header and holds the lock. */

static unsigned char length_field[8];
static int edited;

static int close_header(void **state) {
    write_edited(state, "");
    int fd = open(path, O_RDWR);
    assert_true(fd >= 0);
    assert_int_equal(pread(fd, length_field, 8, 0), 8);
    assert_int_equal(pwrite(fd, "\xff\xff\xff\xff\xff\xff\xff\xff", 8, 0), 8);
    assert_int_equal(flock(fd, LOCK_EX | LOCK_NB), 0);
    write_text(in_folder(state, ".m.safetensors.tenmap-undo"), "a record");
    return fd;
}

static void no_interrupted_edit(void *ctx, const tenmap_finding *finding) {
    (void)ctx;
    assert_int_not_equal(finding->code, TENMAP_FOUND_INTERRUPTED_EDIT);
}

static void an_edit_that_runs_is_not_called_interrupted(void **state) {
    tenmap_error error = {0};
    tenmap_model *m;
    int fd = close_header(state), other = open(path, O_RDONLY);
    assert_int_equal(tenmap_open(path, NULL, &m, &error), TENMAP_ERR_IO);
    check_error(&error, TENMAP_ERR_IO);
    assert_non_null(strstr(error.message, "is editing the file's metadata right now: try again"));
    assert_int_equal(error.remedy, TENMAP_REMEDY_TRY_AGAIN);
    assert_null(strstr(error.message, "interrupted"));
    assert_int_equal(tenmap_open_fd(other, NULL, &m, &error), TENMAP_ERR_IO);
    assert_non_null(strstr(error.message, "is editing the file's metadata right now: try again"));
    assert_int_equal(tenmap_check(path, NULL, no_interrupted_edit, NULL, NULL), TENMAP_ERR_IO);
    assert_int_equal(pwrite(fd, length_field, 8, 0), 8); /* valid; the record remains */
    assert_int_equal(tenmap_check(path, NULL, no_interrupted_edit, NULL, NULL), TENMAP_OK);
    close(other);
    close(fd);
}

static void an_edit_that_nobody_runs_is_called_interrupted(void **state) {
    tenmap_edit edit = {"k", 1, "y", 1, NULL};
    tenmap_error error = {0};
    close(close_header(state));
    must_fail(path, NULL, TENMAP_ERR_LIMIT, "interrupted");
    /* An edit that holds the lock itself does not report that another program does. */
    assert_int_not_equal(tenmap_edit_metadata(path, &edit, 1, NULL, NULL, &error), TENMAP_OK);
    assert_non_null(strstr(error.message, "interrupted"));
}

static void end_edit(void) {
    assert_int_equal(pwrite(edited, length_field, 8, 0), 8);
    assert_int_equal(close(edited), 0);
}

/* Counted in reads, not in time: opening gives up after a number of attempts. */
static void an_edit_that_ends_soon_is_waited_for(void **state) {
    for (int reads = 2; reads <= 10; reads++) {
        tenmap_options options = TENMAP_OPTIONS_INIT;
        options.backend = reads % 2 ? TENMAP_BACKEND_READ : TENMAP_BACKEND_MAP;
        edited = close_header(state);
        ends_in = reads;
        tenmap_close(must_open(path, &options));
        assert_int_equal(ends_in, 0);
    }
}

static int start_test(void **state) {
    halfway = NULL;
    times = ends_in = 0;
    long_value = false;
    return empty_folder(state);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_header_that_is_edited_while_it_is_read_is_no_mix, start_test),
        cmocka_unit_test_setup(a_gguf_header_that_is_edited_while_it_is_read_is_no_mix, start_test),
        cmocka_unit_test_setup(a_check_of_a_file_that_is_edited_finds_nothing, start_test),
        cmocka_unit_test_setup(an_index_that_changes_while_it_is_read_is_read_again, start_test),
        cmocka_unit_test_setup(a_failing_read_of_an_index_speaks_of_the_index, start_test),
        cmocka_unit_test_setup(a_file_that_never_rests_is_refused, start_test),
        cmocka_unit_test_setup(an_edit_in_place_shows_in_the_times_of_the_file, start_test),
        cmocka_unit_test_setup(an_edit_that_runs_is_not_called_interrupted, start_test),
        cmocka_unit_test_setup(an_edit_that_nobody_runs_is_called_interrupted, start_test),
        cmocka_unit_test_setup(an_edit_that_ends_soon_is_waited_for, start_test),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
