/*
 * Whole models through libtenmap-http: a file, an index with shards, a folder on a hub. The server
 * (server.py) serves the folder that the models are written into.
 */
#include "../tenmap_http.h"
#include "support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SHARDS = 5, ROWS = 600, COLUMNS = 500 };
static const char *base, *folder;

static const char *served(const char *name) {
    static char text[4][512];
    static unsigned turn;
    char *out = text[turn++ % 4];
    snprintf(out, sizeof text[0], "%s/%s", folder, name);
    return out;
}

static const char *address(const char *name) {
    static char text[512];
    snprintf(text, sizeof text, "%s/files/%s", base, name);
    return text;
}

/* Shards with a tensor of 600 KB and a few small ones each, names with a blank in the files. */
static int write_models(void **state) {
    char json[2000], name[64], map[4000] = "{\"weight_map\":{";
    (void)state;
    for (int i = 0; i < SHARDS; i++) {
        snprintf(json, sizeof json,
                 "{\"w%d\":{\"dtype\":\"BF16\",\"shape\":[%d,%d],\"data_offsets\":[0,%d]},"
                 "\"b%d\":{\"dtype\":\"F32\",\"shape\":[%d],\"data_offsets\":[%d,%d]}}",
                 i, ROWS, COLUMNS, 2 * ROWS * COLUMNS, i, COLUMNS, 2 * ROWS * COLUMNS,
                 2 * ROWS * COLUMNS + 4 * COLUMNS);
        snprintf(name, sizeof name, "part %d.safetensors", i);
        write_model(served(name), json, 2 * ROWS * COLUMNS + 4 * COLUMNS);
        size_t used = strlen(map);
        snprintf(map + used, sizeof map - used, "%s\"w%d\":\"%s\",\"b%d\":\"%s\"", i ? "," : "", i,
                 name, i, name);
    }
    strcat(map, "}}");
    write_text(served("model.safetensors.index.json"), map);
    write_text(served("page.safetensors"), "<html>");
    return 0;
}

typedef struct remote {
    tenmap_io io;
    tenmap_options options;
} remote;

static void start(remote *r) {
    tenmap_http_options http = TENMAP_HTTP_OPTIONS_INIT;
    tenmap_error error;
    http.endpoint = base;
    http.timeout_ms = 20000;
    assert_int_equal(tenmap_http_create(&http, &r->io, &error), TENMAP_OK);
    r->options = (tenmap_options)TENMAP_OPTIONS_INIT;
    r->options.io = &r->io;
}

static void same_bytes(const tenmap_model *here, const tenmap_model *there) {
    assert_int_equal(tenmap_count(here), tenmap_count(there));
    for (size_t i = 0; i < tenmap_count(here); i++) {
        const tenmap_tensor *a = tenmap_at(here, i), *b = tenmap_find(there, a->name);
        tenmap_error error;
        assert_non_null(b);
        assert_null(b->data);
        unsigned char *data = malloc((size_t)a->nbytes);
        if (tenmap_read_bytes(b, 0, a->nbytes, data, &error) != TENMAP_OK)
            fail_msg("%s", error.message);
        assert_memory_equal(data, a->data, (size_t)a->nbytes);
        free(data);
    }
}

/* One request for the index and one for each shard; behind a hub twice that, and the listing. */
static void models_are_the_same_from_afar(void **state) {
    (void)state;
    tenmap_model *here = must_open(served("model.safetensors.index.json"), NULL);
    static const struct {
        const char *path;
        uint64_t requests, listings;
    } ways[] = {{NULL, 1 + SHARDS, 0},
                {"hf://demo/model/model.safetensors.index.json", 2 * (1 + SHARDS), 0},
                {"hf://demo/model", 2 * (1 + SHARDS), 4}};
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        remote r;
        start(&r);
        const char *path = ways[i].path ? ways[i].path : address("model.safetensors.index.json");
        tenmap_model *there = must_open(path, &r.options);
        uint64_t requests = tenmap_http_moved(&r.io).requests;
        if (requests < ways[i].requests || requests > ways[i].requests + ways[i].listings)
            fail_msg("%s: %llu requests", path, (unsigned long long)requests);
        same_bytes(here, there);
        tenmap_close(there);
        tenmap_http_destroy(&r.io);
    }
    tenmap_close(here);
}

static void slices_and_conversions_are_the_same(void **state) {
    (void)state;
    remote r;
    start(&r);
    tenmap_model *here = must_open(served("part 3.safetensors"), NULL);
    tenmap_model *there = must_open(address("part 3.safetensors"), &r.options);
    static float a[ROWS * COLUMNS], b[ROWS * COLUMNS];
    tenmap_error error;
    const uint64_t begin[] = {100, 7}, end[] = {400, 207};
    for (int i = 0; i < 2; i++) {
        const tenmap_tensor *t = tenmap_find(i ? there : here, "w3");
        float *to = i ? b : a;
        if (tenmap_read(t, 1000, 200000, TENMAP_F32, to, sizeof a, 0, &error) != TENMAP_OK ||
            tenmap_read_slice(t, begin, end, TENMAP_F32, to + 200000, 300 * 200 * sizeof(float), 0,
                              &error) != TENMAP_OK)
            fail_msg("%s", error.message);
    }
    assert_memory_equal(a, b, (200000 + 300 * 200) * sizeof(float));
    tenmap_close(here);
    tenmap_close(there);
    tenmap_http_destroy(&r.io);
}

/* One tensor costs its bytes, its shard's header and the index. */
static void one_tensor_costs_one_tensor(void **state) {
    (void)state;
    remote r;
    start(&r);
    r.options.flags = TENMAP_OPEN_INDEX_ONLY;
    tenmap_model *index = must_open(address("model.safetensors.index.json"), &r.options);
    assert_string_equal(tenmap_shard_listed(index, "w2"), "part 2.safetensors");
    assert_int_equal(tenmap_http_moved(&r.io).requests, 1);
    tenmap_close(index);
    r.options.flags = 0;
    tenmap_model *shard = must_open(address("part 2.safetensors"), &r.options);
    const tenmap_tensor *t = tenmap_find(shard, "w2");
    unsigned char *data = malloc((size_t)t->nbytes);
    tenmap_error error;
    assert_int_equal(tenmap_read_bytes(t, 0, t->nbytes, data, &error), TENMAP_OK);
    tenmap_http_traffic moved = tenmap_http_moved(&r.io);
    assert_int_equal(moved.requests, 3);
    assert_true(moved.bytes < t->nbytes + (128 << 10) + 1000);
    free(data);
    tenmap_close(shard);
    tenmap_http_destroy(&r.io);
}

static void many_threads_load(void **state) {
    (void)state;
    remote r;
    start(&r);
    tenmap_model *here = must_open(served("model.safetensors.index.json"), NULL);
    tenmap_model *there = must_open(address("model.safetensors.index.json"), &r.options);
    tenmap_load_options load = TENMAP_LOAD_OPTIONS_INIT;
    tenmap_request requests[2 * SHARDS];
    tenmap_error error;
    load.threads = 8;
    memset(requests, 0, sizeof requests);
    for (size_t i = 0; i < 2 * SHARDS; i++) {
        const tenmap_tensor *t = tenmap_at(there, i);
        requests[i].tensor = t;
        requests[i].dst_bytes = (size_t)t->nbytes;
        requests[i].dst = malloc((size_t)t->nbytes);
    }
    if (tenmap_load(there, requests, 2 * SHARDS, &load, &error) != TENMAP_OK)
        fail_msg("%s", error.message);
    for (size_t i = 0; i < 2 * SHARDS; i++) {
        const tenmap_tensor *t = tenmap_find(here, requests[i].tensor->name);
        assert_memory_equal(requests[i].dst, t->data, (size_t)t->nbytes);
        free(requests[i].dst);
    }
    tenmap_close(here);
    tenmap_close(there);
    tenmap_http_destroy(&r.io);
}

static void what_is_not_there_is_said(void **state) {
    (void)state;
    remote r;
    tenmap_model *m;
    tenmap_error error;
    start(&r);
    assert_int_equal(tenmap_open(address("none.safetensors"), &r.options, &m, &error),
                     TENMAP_ERR_NOT_FOUND);
    assert_non_null(strstr(error.message, "no such file on the server"));
    assert_int_equal(tenmap_open("hf://demo/model/none", &r.options, &m, &error),
                     TENMAP_ERR_NOT_FOUND);
    assert_int_equal(tenmap_open("https://u:p@h/x", &r.options, &m, &error), TENMAP_ERR_ARGUMENT);
    assert_int_equal(tenmap_open(address(""), &r.options, &m, &error), TENMAP_ERR_NOT_FOUND);
    assert_non_null(strstr(error.message, "folder"));
    assert_int_equal(tenmap_open(address("page.safetensors"), &r.options, &m, &error),
                     TENMAP_ERR_FORMAT);
    tenmap_http_destroy(&r.io);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(models_are_the_same_from_afar),
        cmocka_unit_test(slices_and_conversions_are_the_same),
        cmocka_unit_test(one_tensor_costs_one_tensor),
        cmocka_unit_test(many_threads_load),
        cmocka_unit_test(what_is_not_there_is_said),
    };
    if (argc < 3)
        return 1;
    base = argv[1];
    folder = argv[2];
    return cmocka_run_group_tests(tests, write_models, NULL);
}
