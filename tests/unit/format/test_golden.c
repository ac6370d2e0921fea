/*
 * The golden files: tests/golden/good.txt lists the expected contents of each file of good/,
 * bad.txt the message with which each file of bad/ is refused. Every file must be listed.
 */
#include "dump.h"
#include "support.h"

enum { LONGEST_LINE = 4096 };

static const char *golden_folder(void) {
    const char *folder = getenv("TENMAP_GOLDEN");
    return folder ? folder : "tests/golden"; /* from the project's top */
}

/*
 * Calls `check` with the path and the rest of the line, for each line of a list that is not a
 * comment.
 */
static void walk_list(const char *kind, void (*check)(const char *path, char *rest)) {
    char path[LONGEST_LINE + 1024], line[LONGEST_LINE];
    size_t listed = 0;
    snprintf(path, sizeof path, "%s/%s.txt", golden_folder(), kind);
    FILE *list = fopen(path, "r");
    assert_non_null(list);
    while (fgets(line, sizeof line, list)) {
        char *tab = strchr(line, '\t'), *end = strchr(line, '\n');
        if (line[0] == '#')
            continue;
        assert_true(tab && end);
        *tab = *end = '\0';
        snprintf(path, sizeof path, "%s/%s/%s", golden_folder(), kind, line);
        check(path, tab + 1);
        listed++;
    }
    fclose(list);
    snprintf(path, sizeof path, "%s/%s", golden_folder(), kind);
    assert_int_equal(listed, count_names(path));
}

static void check_good(const char *path, char *want) {
    for (uint32_t backend = TENMAP_BACKEND_MAP; backend <= TENMAP_BACKEND_READ; backend++) {
        tenmap_options options = TENMAP_OPTIONS_INIT;
        char line[LONGEST_LINE];
        options.backend = backend;
        tenmap_model *model = must_open(path, &options);
        FILE *out = tmpfile();
        assert_non_null(out);
        dump_model(out, model);
        rewind(out);
        line[fread(line, 1, sizeof line - 1, out)] = '\0';
        fclose(out);
        if (strcmp(line, want) != 0)
            fail_msg("%s:\n  got  %s\n  want %s", path, line, want);
        tenmap_close(model);
    }
}

static void good_files_open_to_what_the_list_says(void **state) {
    (void)state;
    walk_list("good", check_good);
}

static void check_bad(const char *path, char *rest) {
    char *words = strchr(rest, '\t');
    tenmap_status status = TENMAP_OK;
    assert_non_null(words);
    *words++ = '\0';
    while (strcmp(tenmap_status_name(status), rest) != 0) {
        status++;
        assert_true(status <= TENMAP_ERR_CANCELLED);
    }
    bytes file = read_whole(path);
    must_fail(path, NULL, status, words);
    must_fail_memory(file, NULL, status, words);
    free(file.at);
}

static void bad_files_are_refused_with_the_listed_sentence(void **state) {
    (void)state;
    walk_list("bad", check_bad);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(good_files_open_to_what_the_list_says),
        cmocka_unit_test(bad_files_are_refused_with_the_listed_sentence),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
