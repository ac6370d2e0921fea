/*
 * Parts of the tool that no command line reaches: the report's placeholders, the library's rarest
 * error messages, files in the root of the file system, a cache without memory.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "command.h"
#include "remote/caching_io.h"
#include "remote/remote.h"
#include "report/assets.h"
#include "report/report.h"

#include "cmocka_all.h" /* last: its macro fail() is not the tool's function */

/* Replaces args.c, and what cmake/embed_report.cmake generates from the report. */
common_settings common;
const unsigned char report_page[] = "a {{nosuch}} b {{titles}} c {{title}} d {{ e {{title}";
const size_t report_page_size = sizeof report_page - 1;
const unsigned char report_style[] = "", report_script[] = "";
const size_t report_style_size = 0, report_script_size = 0;
const char report_style_hash[] = "", report_script_hash[] = "";

void report_write_data(const report *r, FILE *out) {
    (void)r;
    (void)out;
}

void report_write_bins(const report *r, FILE *out) {
    (void)r;
    (void)out;
}

static void gaps_that_nobody_knows_stay_in_the_page(void **state) {
    (void)state;
    const report r = {.title = "T"};
    char page[200] = "";
    FILE *out = tmpfile();
    assert_non_null(out);
    alarm(60); /* for a page that never ends */
    report_write_page(&r, out);
    alarm(0);
    rewind(out);
    size_t size = fread(page, 1, sizeof page - 1, out);
    fclose(out);
    assert_int_equal(size, strlen(page));
    assert_string_equal(page, "a {{nosuch}} b {{titles}} c T d {{ e {{title}");
}

static void errors_end_in_the_option_of_their_remedy(void **state) {
    (void)state;
    static const struct {
        uint32_t remedy;
        const char *said;
    } cases[] = {
        {TENMAP_REMEDY_NONE, "it is so"},
        {TENMAP_REMEDY_ALLOW_PARTIAL, "it is so: use --partial"},
        {TENMAP_REMEDY_ALLOW_LENIENT, "it is so: use --lenient"},
        {TENMAP_REMEDY_DEQUANTIZE, "it is so: use --dequantize"},
        {TENMAP_REMEDY_BACKEND_READ, "it is so"},
        {TENMAP_REMEDY_RAISE_HEADER_LIMIT, "it is so: use --max-header"},
        {TENMAP_REMEDY_FETCH_AGAIN, "it is so"},
        {TENMAP_REMEDY_REPAIR, "it is so: use 'tenmap meta FILE repair'"},
        {TENMAP_REMEDY_AS_STORED, "it is so: leave out --dequantize"},
        {TENMAP_REMEDY_CREDENTIALS, "it is so"},
        {12345, "it is so"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        text words = {0};
        text_add_error(&words, "it is so", cases[i].remedy);
        assert_string_equal(words.bytes, cases[i].said);
        text_free(&words);
    }
}

static void a_quote_in_a_path_does_not_end_it(void **state) {
    (void)state;
    static const char *const cases[][2] = {{"\"a\": why", "\": why"},
                                           {"\"a\\\": b\": why", "\": why"},
                                           {"\"a\\\\\": why", "\": why"},
                                           {"a\": why", NULL},
                                           {"\"a\" why", NULL},
                                           {"\"a", NULL},
                                           {"\"a\\", NULL},
                                           {"", NULL}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *end = end_of_path(cases[i][0]);
        assert_true(!end == !cases[i][1]);
        if (end)
            assert_string_equal(end, cases[i][1]);
    }
}

static void the_folder_of_a_file_in_the_root_is_the_root(void **state) {
    (void)state;
    static const char *const cases[][3] = {{"/x", "/", "/config.json"},
                                           {"/a/x", "/a", "/a/config.json"},
                                           {"a/x", "a", "a/config.json"},
                                           {"x", ".", "./config.json"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char *folder = folder_of(cases[i][0]);
        text beside = {0};
        assert_string_equal(folder, cases[i][1]);
        text_add_named(&beside, folder, "config.json");
        assert_string_equal(beside.bytes, cases[i][2]);
        text_free(&beside);
        free(folder);
    }
}

/* An object of 1 GiB, which counts its reads. */
enum { PIECE = 1 << 20 };
static int reads;

static tenmap_status open_one(void *ctx, const char *path, void **file, uint64_t *size,
                              tenmap_error *error) {
    (void)ctx, (void)path, (void)error;
    *file = &reads;
    *size = (uint64_t)1 << 30;
    return TENMAP_OK;
}

static tenmap_status read_one(void *ctx, void *file, uint64_t offset, void *dst, size_t bytes,
                              tenmap_error *error) {
    (void)ctx, (void)file, (void)offset, (void)error;
    memset(dst, 'x', bytes);
    reads++;
    return TENMAP_OK;
}

static void close_one(void *ctx, void *file) {
    (void)ctx, (void)file;
}

void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);
static bool lacks_memory; /* for pieces */

void *__wrap_malloc(size_t size) {
    return lacks_memory && size >= PIECE ? NULL : __real_malloc(size);
}

static void reads_that_could_not_be_cached_take_nothing_of_its_limit(void **state) {
    (void)state;
    tenmap_io under = TENMAP_IO_INIT;
    tenmap_error error;
    void *file;
    uint64_t size;
    unsigned char *dst = __real_malloc(PIECE);
    under.open = open_one;
    under.read = read_one;
    under.close = close_one;
    tenmap_io io = caching_io(&under);
    caching_io_keep_reads(&io, true);
    assert_int_equal(io.open(io.ctx, "one", &file, &size, &error), TENMAP_OK);
    lacks_memory = true;
    for (uint64_t i = 1; i <= 100; i++)
        assert_int_equal(io.read(io.ctx, file, i * PIECE, dst, PIECE, &error), TENMAP_OK);
    lacks_memory = false;
    assert_int_equal(reads, 100);
    for (int i = 0; i < 2; i++)
        assert_int_equal(io.read(io.ctx, file, PIECE, dst, PIECE, &error), TENMAP_OK);
    assert_int_equal(reads, 101); /* the second came from the cache */
    io.close(io.ctx, file);
    caching_io_free(&io);
    free(dst);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(errors_end_in_the_option_of_their_remedy),
        cmocka_unit_test(a_quote_in_a_path_does_not_end_it),
        cmocka_unit_test(gaps_that_nobody_knows_stay_in_the_page),
        cmocka_unit_test(the_folder_of_a_file_in_the_root_is_the_root),
        cmocka_unit_test(reads_that_could_not_be_cached_take_nothing_of_its_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
