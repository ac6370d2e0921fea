/*
 * Real files, hand-made cases with the reference's verdicts, a real sharded model and real broken
 * files, if there is a corpus: TENMAP_CORPUS names its folder. Prints how many files it read.
 */
#include "support.h"

static const char *corpus;

static void path_in_corpus(char *out, size_t size, const char *name) {
    snprintf(out, size, "%s/%s", corpus, name);
}

/* One line of a table, cut at its tabs; false at the end. The header line is skipped by callers. */
static bool next_row(FILE *table, char *line, size_t size, char **cells, size_t count) {
    if (!fgets(line, (int)size, table))
        return false;
    line[strcspn(line, "\r\n")] = '\0';
    for (size_t i = 0; i < count; i++) {
        cells[i] = line;
        line += strcspn(line, "\t");
        if (*line)
            *line++ = '\0';
    }
    return true;
}

static FILE *open_table(const char *name, char *line, size_t size) {
    char path[16384];
    path_in_corpus(path, sizeof path, name);
    FILE *table = fopen(path, "r");
    assert_non_null(table);
    assert_non_null(fgets(line, (int)size, table));
    return table;
}

static void cases_get_the_verdict_due(void **state) {
    (void)state;
    char line[8192], path[16384], *cells[3];
    FILE *table = open_table("EXPECTED.tsv", line, sizeof line);
    size_t walked = 0, wrong = 0;
    while (next_row(table, line, sizeof line, cells, 3)) {
        tenmap_model *m;
        tenmap_error error = {0};
        path_in_corpus(path, sizeof path, cells[0]);
        tenmap_status status = tenmap_open(path, NULL, &m, &error);
        bool accept = strcmp(cells[1], "accept") == 0;
        if ((status == TENMAP_OK) != accept ||
            (accept && tenmap_count(m) != strtoul(cells[2], NULL, 10))) {
            print_error("%s: %s was due, got %s %s\n", cells[0], cells[1],
                        tenmap_status_name(status), error.message);
            wrong++;
        }
        if (status != TENMAP_OK)
            check_error(&error, status);
        check_agrees(path, NULL, status, &error);
        tenmap_close(m);
        walked++;
    }
    fclose(table);
    print_message("           walked %zu cases\n", walked);
    assert_true(walked > 0);
    assert_int_equal(wrong, 0);
}

/* "F32:3,BF16:1" against the tensors of a model. */
static void check_dtypes(const tenmap_model *m, const char *counts) {
    size_t by_dtype[256] = {0}, listed = 0;
    for (size_t i = 0; i < tenmap_count(m); i++)
        by_dtype[tenmap_at(m, i)->dtype]++;
    while (*counts) {
        char name[32];
        unsigned long count;
        int used;
        tenmap_dtype dtype;
        assert_int_equal(sscanf(counts, "%31[^:]:%lu%n", name, &count, &used), 2);
        assert_int_equal(tenmap_dtype_from_name(name, &dtype), 1);
        assert_int_equal(by_dtype[dtype], count);
        listed += count;
        counts += used;
        counts += *counts == ',';
    }
    assert_int_equal(listed, tenmap_count(m));
}

/* Every tensor can be read in every way on this backend. */
static void check_tensors(const tenmap_model *m) {
    uint64_t end = 0;
    for (size_t i = 0; i < tenmap_count(m); i++) {
        const tenmap_tensor *t = tenmap_at(m, i);
        assert_ptr_equal(tenmap_find_n(m, t->name, t->name_len), t);
        assert_true(t->file_offset >= end);
        end = t->file_offset + t->nbytes;
        unsigned char *raw = malloc((size_t)t->nbytes + 1);
        float *values = malloc((size_t)t->nelems * sizeof *values + 1);
        assert_int_equal(tenmap_read_bytes(t, 0, (size_t)t->nbytes, raw, NULL), TENMAP_OK);
        if (t->data)
            assert_memory_equal(raw, t->data, (size_t)t->nbytes);
        if (t->dtype != TENMAP_C64)
            assert_int_equal(tenmap_read(t, 0, t->nelems, TENMAP_F32, values,
                                         (size_t)t->nelems * sizeof *values, 0, NULL),
                             TENMAP_OK);
        free(raw);
        free(values);
    }
}

static void real_files_open_as_the_manifest_says(void **state) {
    (void)state;
    char line[8192], path[16384], *cells[9];
    FILE *table = open_table("MANIFEST.tsv", line, sizeof line);
    size_t walked = 0;
    while (next_row(table, line, sizeof line, cells, 9)) {
        path_in_corpus(path, sizeof path, cells[0]);
        for (uint32_t backend = 0; backend < 2; backend++) {
            tenmap_options options = TENMAP_OPTIONS_INIT;
            options.backend = backend;
            tenmap_model *m = must_open(path, &options);
            assert_int_equal(tenmap_file_size(m), strtoull(cells[5], NULL, 10));
            assert_int_equal(tenmap_count(m), strtoull(cells[7], NULL, 10));
            check_dtypes(m, cells[8]);
            check_tensors(m);
            tenmap_close(m);
        }
        walked++;
    }
    fclose(table);
    print_message("           walked %zu real files\n", walked);
    assert_true(walked > 0);
}

static void the_sharded_model_opens_as_one(void **state) {
    (void)state;
    static const char *const ways[] = {"sharded/fluxml",
                                       "sharded/fluxml/model.safetensors.index.json"};
    for (size_t i = 0; i < COUNT(ways); i++) {
        char path[16384];
        path_in_corpus(path, sizeof path, ways[i]);
        tenmap_model *m = must_open(path, NULL);
        assert_int_equal(tenmap_count(m), 36);
        assert_int_equal(tenmap_shard_count(m), 6);
        assert_non_null(tenmap_index_json(m, NULL));
        assert_int_equal(tenmap_find(m, "bfloat16_357")->dtype, TENMAP_BF16);
        for (size_t s = 0; s < 6; s++)
            for (size_t k = 0; k < tenmap_shard_at(m, s)->tensor_count; k++)
                assert_int_equal(tenmap_at(m, tenmap_shard_at(m, s)->first_tensor + k)->shard, s);
        tenmap_close(m);
    }
    print_message("           walked 1 sharded model of 6 files\n");
}

static void broken_files_are_refused_with_their_cause(void **state) {
    (void)state;
    static const struct {
        const char *part, *cause;
    } causes[] = {{"duplicate_keys", "the name appears twice"},
                  {"header_size_too_big", "but only 8 follow it"},
                  {"zero_len_file", "the file is empty"},
                  {"mini-llm-inference-engine", "text file"},
                  {"weight-inspect", "no tensor claims 5 bytes at the end"},
                  {"abuse_attempt_1", "but only 80 follow it"}};
    char line[8192], path[16384], *cells[1];
    FILE *table = open_table("INVALID.tsv", line, sizeof line);
    size_t walked = 0;
    while (next_row(table, line, sizeof line, cells, 1)) {
        const char *cause = "";
        for (size_t i = 0; i < COUNT(causes); i++)
            if (strstr(cells[0], causes[i].part))
                cause = causes[i].cause;
        path_in_corpus(path, sizeof path, cells[0]);
        must_fail(path, NULL, TENMAP_ERR_FORMAT, cause);
        walked++;
    }
    fclose(table);
    print_message("           walked %zu broken files\n", walked);
    assert_true(walked > 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cases_get_the_verdict_due),
        cmocka_unit_test(real_files_open_as_the_manifest_says),
        cmocka_unit_test(the_sharded_model_opens_as_one),
        cmocka_unit_test(broken_files_are_refused_with_their_cause),
    };
    corpus = getenv("TENMAP_CORPUS");
    if (!corpus || !*corpus) {
        print_message("SKIPPED: TENMAP_CORPUS does not name a corpus; walked 0 files\n");
        return 77; /* ctest counts this as skipped */
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
