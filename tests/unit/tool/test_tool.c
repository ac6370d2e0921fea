/*
 * Parts of the tool that no command line reaches: the report's placeholders, the library's rarest
 * error messages, files in the root of the file system.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "command.h"
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

static void sentences_say_what_to_type_in_place_of_functions(void **state) {
    (void)state;
    static const char *const said[][2] = {
        {"an edit was interrupted; repairing its metadata finishes or undoes it",
         "an edit was interrupted; 'tenmap meta FILE repair' finishes or undoes it"},
        {"cannot write the header (repairing its metadata can finish or undo it)",
         "cannot write the header ('tenmap meta FILE repair' can finish or undo it)"},
        {"missing; fetch them, or open it with missing shards allowed to go without",
         "missing; fetch them, or use --partial to go without"},
        {"over the limit (a higher limit for headers allows it)",
         "over the limit (--max-header raises it)"},
    };
    for (size_t i = 0; i < sizeof said / sizeof said[0]; i++) {
        text words = {0};
        text_add_message(&words, said[i][0]);
        assert_string_equal(words.bytes, said[i][1]);
        text_free(&words);
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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sentences_say_what_to_type_in_place_of_functions),
        cmocka_unit_test(gaps_that_nobody_knows_stay_in_the_page),
        cmocka_unit_test(the_folder_of_a_file_in_the_root_is_the_root),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
