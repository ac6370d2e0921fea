/* Quantized weights of which a file is missing, or whose group lists are meant to be slow. */
#include "quantized_weight.h"

#include "quantized_schemes.h"

#include "io_files.h"

#include <time.h>

static void shard_name(char *out, size_t room, size_t i, size_t count) {
    snprintf(out, room, "model-%05u-of-%05u.safetensors", (unsigned)i + 1, (unsigned)count);
}

/*
 * Writes each part to its own file, except one, which is missing; with an index of all, or without
 * one.
 */
static void write_shards(void **state, const stored_weight *w, size_t gone, bool indexed) {
    char index[4096], name[64], from[300];
    int used = snprintf(index, sizeof index, "{\"weight_map\": {");
    snprintf(from, sizeof from, "%s", in_folder(state, "model.safetensors"));
    for (size_t i = 0; i < w->part_count; i++) {
        stored_weight one = *w;
        one.parts[0] = w->parts[i];
        one.part_count = 1;
        shard_name(name, sizeof name, i, w->part_count);
        used += snprintf(index + used, sizeof index - (size_t)used, "%s\"%s\": \"%s\"",
                         i ? ", " : "", w->parts[i].name, name);
        if (i == gone)
            continue;
        write_parts(state, &one);
        assert_int_equal(rename(from, in_folder(state, name)), 0);
    }
    snprintf(index + used, sizeof index - (size_t)used, "}}");
    if (indexed)
        write_text(in_folder(state, "model.safetensors.index.json"), index);
    if (w->config)
        write_text(in_folder(state, "config.json"), w->config);
}

static void remove_shards(void **state, const stored_weight *w) {
    char name[64];
    for (size_t i = 0; i < w->part_count; i++) {
        shard_name(name, sizeof name, i, w->part_count);
        (void)remove(in_folder(state, name));
    }
    (void)remove(in_folder(state, "model.safetensors.index.json"));
    (void)remove(in_folder(state, "config.json"));
}

/* The weight is absent, and its other parts are listed as they are stored. */
static void check_absent(const stored_weight *w, size_t gone, const tenmap_model *m) {
    size_t listed = 0;
    for (size_t i = 0; i < w->part_count; i++) {
        const tenmap_tensor *t = tenmap_find(m, w->parts[i].name);
        bool own = strcmp(w->parts[i].name, w->name) == 0;
        if (i != gone && !own &&
            (!t || t->dtype != w->parts[i].dtype || t->flags & TENMAP_TENSOR_COMPUTED))
            fail_msg("%s without %s: %s is not as it is stored", w->label, w->parts[gone].name,
                     w->parts[i].name);
        listed += i != gone && !own;
    }
    assert_null(tenmap_find(m, w->name));
    assert_int_equal(tenmap_count(m), listed);
}

static void check_without(void **state, const stored_weight *w, size_t gone, bool indexed) {
    char folder[300];
    snprintf(folder, sizeof folder, "%s", in_folder(state, ""));
    write_shards(state, w, gone, indexed);
    for (uint32_t backend = 0; backend <= TENMAP_BACKEND_READ; backend++) {
        tenmap_options options = TENMAP_OPTIONS_INIT;
        options.flags = TENMAP_OPEN_DEQUANTIZE | TENMAP_OPEN_PARTIAL;
        options.backend = backend;
        tenmap_model *m = must_open(folder, &options);
        const tenmap_tensor *t = tenmap_find(m, w->name);
        if (t && (indexed || !(t->flags & TENMAP_TENSOR_COMPUTED)))
            fail_msg("%s without %s: %s is there, %s of %s", w->label, w->parts[gone].name, w->name,
                     tenmap_scheme_of(t)->name, tenmap_dtype_name(t->dtype));
        if (!t)
            check_absent(w, gone, m);
        assert_int_equal(tenmap_missing_count(m), 1);
        tenmap_close(m);
    }
    remove_shards(state, w);
}

/*
 * Codes that have the weight's name are never returned as its values. Without an index, nobody can
 * know that an optional part is missing, but codes without their scales are still not a weight.
 */
static void a_weight_whose_part_is_missing_is_never_its_codes(void **state) {
    for (size_t k = 0; k < quantized_case_count; k++) {
        stored_weight w = {.label = NULL};
        seed_random((uint32_t)k + 1);
        quantized_cases[k](&w);
        for (size_t gone = 0; gone < w.part_count; gone++) {
            check_without(state, &w, gone, true);
            check_without(state, &w, gone, false);
        }
        free_weight(&w);
    }
}

/*
 * Programs that do not dequantize must still tell codes from plain numbers: every scheme that the
 * library dequantizes is in the table of families.
 */
static void every_scheme_belongs_to_a_family_that_is_dequantized(void **state) {
    for (size_t k = 0; k < quantized_case_count; k++) {
        stored_weight w = {.label = NULL};
        tenmap_quantized found = {.family = NULL};
        seed_random((uint32_t)k + 1);
        quantized_cases[k](&w);
        write_parts(state, &w);
        tenmap_model *m = must_open(in_folder(state, "model.safetensors"), NULL);
        if (!tenmap_quantized_of(tenmap_find(m, w.parts[0].name), &found) || !found.dequantizes)
            fail_msg("%s: the table of families does not have it (%s)", w.label,
                     found.family ? found.family : "no family");
        tenmap_close(m);
        free_weight(&w);
    }
}

/* Groups in an order that no writer uses: each value may belong to another one. */
static void scatter_groups(stored_part *list, uint64_t groups) {
    for (uint64_t i = 0; i < list->size / 4; i++)
        store_word(list, i,
                   i % 2 ? (uint32_t)(groups - 1 - i / 2 % groups)
                         : next_random() % (uint32_t)groups);
}

static void scattered_packed(stored_weight *w) {
    make_packed(w, "packed int4, groups scattered", 4, 48, 16384, 4, false, false);
    scatter_groups(add_part(w, "b.weight_g_idx", TENMAP_I32, 1, SHAPE(16384)), 4096);
    w->group_rows = 3;
}
static void scattered_small(stored_weight *w) {
    make_turned(w, "GPTQ of 8 rows, groups scattered", 4, 65536, 8, 16, false, true);
    scatter_groups(&w->parts[3], 4096);
}
static void scattered_wide(stored_weight *w) {
    make_turned(w, "GPTQ, groups scattered", 4, 1024, 2048, 32, false, true);
    scatter_groups(&w->parts[3], 32);
}
static void scattered_large(stored_weight *w) {
    make_turned(w, "GPTQ, groups scattered, large", 4, 1024, 2304, 2, false, true);
    scatter_groups(&w->parts[3], 512);
}
/* All of its scales are too many to keep: the rows of the tile have a request each. */
static void scattered_larger(stored_weight *w) {
    make_turned(w, "GPTQ, groups scattered, larger", 4, 1024, 4608, 2, false, true);
    scatter_groups(&w->parts[3], 512);
}

/* How many requests it takes to read the weight, whose values must be right. */
static long requests_of(void **state, const stored_weight *w) {
    io_files files = {.fail_at = 0};
    tenmap_io io = io_files_io(&files);
    tenmap_options options = TENMAP_OPTIONS_INIT;
    options.flags = TENMAP_OPEN_DEQUANTIZE;
    options.io = &io;
    write_weight(state, w);
    tenmap_model *m = must_open(in_folder(state, "model.safetensors"), &options);
    const tenmap_tensor *t = tenmap_find(m, w->name);
    assert_non_null(t);
    float *got = malloc((size_t)t->nelems * 4);
    assert_non_null(got);
    long before = files.reads;
    assert_int_equal(tenmap_read(t, 0, t->nelems, TENMAP_F32, got, (size_t)t->nelems * 4, 0, NULL),
                     TENMAP_OK);
    long reads = files.reads - before;
    for (uint64_t i = 0; i < t->nelems; i += 1 + next_random() % 61)
        assert_true(got[i] == w->value(w, 0, i / w->columns, i % w->columns));
    free(got);
    tenmap_close(m);
    return reads;
}

/* A case, and how many bytes of its parts each request must cover at least, on average. */
typedef struct request_case {
    make_weight *make;
    uint64_t bytes;
} request_case;

static void check_requests(void **state, const request_case *cases, size_t count) {
    for (size_t k = 0; k < count; k++) {
        stored_weight w = {.label = NULL};
        uint64_t all = 0;
        seed_random((uint32_t)k + 1);
        cases[k].make(&w);
        for (size_t i = 0; i < w.part_count; i++)
            all += w.parts[i].size;
        long reads = requests_of(state, &w), most = (long)(all / cases[k].bytes) + 8;
        if (reads > most)
            fail_msg("%s: %ld requests for %llu bytes, and at most %ld were expected", w.label,
                     reads, (unsigned long long)all, most);
        free_weight(&w);
    }
}

static void the_order_of_listed_groups_costs_no_requests(void **state) {
    static const request_case cases[] = {{scattered_packed, 64 << 10},
                                         {scattered_small, 64 << 10},
                                         {scattered_wide, 64 << 10},
                                         {scattered_large, 64 << 10},
                                         {scattered_larger, 1 << 10}};
    check_requests(state, cases, COUNT(cases));
}

/* Stored transposed, in rows so long that a window holds few or none. */
static void long_gptq8(stored_weight *w) {
    make_turned(w, "GPTQ 8 bits, long rows", 8, 32, 65536, 32, false, false);
}
static void long_awq(stored_weight *w) {
    make_turned(w, "AWQ, long rows", 4, 16, 262144, 16, true, false);
}
static void long_gpt_oss(stored_weight *w) {
    make_gpt_oss(w, "gpt-oss, long rows", 1, 16, 8192);
}

static void long_rows_that_are_turned_are_read_once(void **state) {
    static const request_case cases[] = {
        {long_gptq8, 32 << 10}, {long_awq, 16 << 10}, {long_gpt_oss, 32 << 10}};
    check_requests(state, cases, COUNT(cases));
}

/* A row of scales that are used in any order is kept. */
static void too_many_listed_groups_are_refused(void **state) {
    tenmap_options options = TENMAP_OPTIONS_INIT;
    options.flags = TENMAP_OPEN_DEQUANTIZE;
    for (int k = 0; k < 2; k++) {
        stored_weight w = {.label = NULL};
        if (k == 0) {
            make_packed(&w, "", 4, 2, 8194, 2, false, false);
            scatter_groups(add_part(&w, "b.weight_g_idx", TENMAP_I32, 1, SHAPE(8194)), 4097);
        } else {
            make_turned(&w, "", 4, 4097 * 8, 8, 8, false, true);
        }
        write_weight(state, &w);
        must_fail(in_folder(state, "model.safetensors"), &options, TENMAP_ERR_FORMAT,
                  "it lists 4097 groups of scales; expected at most 4096");
        free_weight(&w);
    }
}

/* A store that ignores folders: it has a file for the last name of every path. */
typedef struct flat_store {
    io_files files;
    tenmap_io inner;
    char folder[300];
} flat_store;

static tenmap_status flat_open(void *ctx, const char *path, void **file, uint64_t *size,
                               tenmap_error *error) {
    flat_store *store = ctx;
    char flat[400];
    snprintf(flat, sizeof flat, "%s/%.64s", store->folder, strrchr(path, '/') + 1);
    return store->inner.open(&store->files, flat, file, size, error);
}

static tenmap_status flat_read(void *ctx, void *file, uint64_t offset, void *dst, size_t size,
                               tenmap_error *error) {
    flat_store *store = ctx;
    return store->inner.read(&store->files, file, offset, dst, size, error);
}

static void flat_close(void *ctx, void *file) {
    flat_store *store = ctx;
    store->inner.close(&store->files, file);
}

/* config.json is looked for beside the index: as many folders up as the shard's name has. */
static void a_shard_name_of_a_million_folders_costs_its_length(void **state) {
    enum { DEEP = 1000000 };
    static const char tail[] = "model.safetensors\"}}";
    stored_weight w = {.label = NULL};
    char *index = malloc(2 * DEEP + 200);
    assert_non_null(index);
    fp8_block(&w);
    write_weight(state, &w);
    int used = snprintf(index, 200, "{\"weight_map\": {\"b.weight\": \"");
    for (size_t i = 0; i < DEEP; i++)
        memcpy(index + used + 2 * i, "a/", 2);
    memcpy(index + used + 2 * DEEP, tail, sizeof tail);
    write_text(in_folder(state, "deep.index.json"), index);
    free(index);
    flat_store store = {.files = {.fail_at = 0}};
    store.inner = io_files_io(&store.files);
    snprintf(store.folder, sizeof store.folder, "%s", in_folder(state, ""));
    tenmap_io io = {.struct_size = sizeof io,
                    .open = flat_open,
                    .read = flat_read,
                    .close = flat_close,
                    .ctx = &store};
    tenmap_options options = TENMAP_OPTIONS_INIT;
    options.flags = TENMAP_OPEN_DEQUANTIZE | TENMAP_OPEN_SUBFOLDERS;
    options.io = &io;
    clock_t begin = clock();
    tenmap_model *m = must_open("store/deep.index.json", &options);
    double seconds = (double)(clock() - begin) / CLOCKS_PER_SEC;
    assert_int_equal(tenmap_find(m, "b.weight")->dtype, TENMAP_BF16); /* from config.json */
    tenmap_close(m);
    free_weight(&w);
    if (seconds > 5)
        fail_msg("it took %.1f s", seconds);
}

/*
 * Writes FP8 weights with a note each, as ComfyUI does. Notes lie together at the end, or each
 * behind its weight.
 */
enum { NOTED = 50, NOTED_BYTES = 64 << 10 };

static void write_noted(const char *path, bool together) {
    static const char note[] = "{\"format\": \"float8_e4m3fn\"}";
    const size_t len = sizeof note - 1, one = NOTED_BYTES + 4 + len, data = NOTED * one;
    char *json = calloc(NOTED, 512);
    size_t used = 0, at[NOTED];
    assert_non_null(json);
    for (size_t i = 0; i < NOTED; i++) {
        size_t weight = together ? i * (NOTED_BYTES + 4) : i * one;
        at[i] = together ? NOTED * (NOTED_BYTES + 4) + i * len : i * one + NOTED_BYTES + 4;
        used += (size_t)snprintf(
            json + used, 512,
            "%s\"m%02zu.weight\":{\"dtype\":\"F8_E4M3\",\"shape\":[256,256],\"data_offsets\":"
            "[%zu,%zu]},\"m%02zu.weight_scale\":{\"dtype\":\"F32\",\"shape\":[],"
            "\"data_offsets\":[%zu,%zu]},\"m%02zu.comfy_quant\":{\"dtype\":\"U8\",\"shape\":"
            "[%zu],\"data_offsets\":[%zu,%zu]}",
            i ? "," : "{", i, weight, weight + NOTED_BYTES, i, weight + NOTED_BYTES,
            weight + NOTED_BYTES + 4, i, len, at[i], at[i] + len);
    }
    strcpy(json + used, "}");
    bytes file = make_model(json, data);
    for (size_t i = 0; i < NOTED; i++)
        memcpy(file.at + (file.size - data) + at[i], note, len);
    write_file(path, file.at, file.size);
    free(file.at);
    free(json);
}

/* What the notes cost: a model opened with them, less the same one opened without. */
static void open_noted(const char *path, uint32_t flags, long *reads, uint64_t *read_bytes) {
    io_files files = {.fail_at = 0};
    tenmap_io io = io_files_io(&files);
    tenmap_options options = TENMAP_OPTIONS_INIT;
    options.flags = flags;
    options.io = &io;
    tenmap_model *m = must_open(path, &options);
    assert_int_equal(tenmap_count(m), flags ? NOTED : 3 * NOTED);
    tenmap_close(m);
    *reads = files.reads;
    *read_bytes = files.bytes;
}

static void notes_that_lie_together_are_one_request(void **state) {
    const char *path = in_folder(state, "noted.safetensors");
    for (int together = 0; together < 2; together++) {
        long before, reads;
        uint64_t bytes_before, read_bytes;
        write_noted(path, together);
        open_noted(path, 0, &before, &bytes_before);
        open_noted(path, TENMAP_OPEN_DEQUANTIZE, &reads, &read_bytes);
        assert_int_equal(reads - before, together ? 1 : NOTED);
        assert_int_equal(read_bytes - bytes_before, NOTED * 27);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_weight_whose_part_is_missing_is_never_its_codes, empty_folder),
        cmocka_unit_test_setup(every_scheme_belongs_to_a_family_that_is_dequantized, empty_folder),
        cmocka_unit_test_setup(the_order_of_listed_groups_costs_no_requests, empty_folder),
        cmocka_unit_test_setup(notes_that_lie_together_are_one_request, empty_folder),
        cmocka_unit_test_setup(a_shard_name_of_a_million_folders_costs_its_length, empty_folder),
        cmocka_unit_test_setup(long_rows_that_are_turned_are_read_once, empty_folder),
        cmocka_unit_test_setup(too_many_listed_groups_are_refused, empty_folder),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
