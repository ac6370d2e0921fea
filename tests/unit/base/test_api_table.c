/*
 * Walks the table of docs/api.md line by line: each line of C in it is compiled and run here, and
 * its text must be the document's. TENMAP_DOCS names the folder.
 */
#include "support.h"

typedef struct context {
    tenmap_model *m;
    tenmap_error e;
    const tenmap_tensor *t;
    float dst[4];
    size_t dst_bytes;
    size_t used;
} context;

static context *now;

static void use(const char *name) {
    now->used += strlen(name) > 0;
}

/*
 * A row: the old call, the line that replaces it, and what must hold after it. The line is used
 * twice, as code and as text.
 */
#define ROWS                                                                                       \
    ROW(get_tensor_f32, "", const float *w = tenmap_view(tenmap_find(m, "f32"), TENMAP_F32, &e);   \
        , w && w[1] == 2.0f)                                                                       \
    ROW(get_tensor_bf16_bytes, "",                                                                 \
        const void *w = tenmap_view(tenmap_find(m, "bf16"), TENMAP_BF16, &e);                      \
        , w && memcmp(w, "\x80\x3f", 2) == 0)                                                      \
    ROW(get_tensor_bf16_as_f32, "bf16",                                                            \
        tenmap_read(t, 0, t->nelems, TENMAP_F32, dst, dst_bytes, 0, &e);                           \
        , dst[1] == 2.0f)                                                                          \
    ROW(get_tensor_f16_bytes, "",                                                                  \
        const void *w = tenmap_view(tenmap_find(m, "f16"), TENMAP_F16, &e);                        \
        , w && memcmp(w, "\x00\x3c", 2) == 0)                                                      \
    ROW(get_tensor_f16_native, "",                                                                 \
        const uint16_t *w = tenmap_view(tenmap_find(m, "f16"), TENMAP_F16, &e);                    \
        , w && w[0] == 0x3c00)                                                                     \
    ROW(get_tensor_f16_as_f32, "f16",                                                              \
        tenmap_read(t, 0, t->nelems, TENMAP_F32, dst, dst_bytes, 0, &e);                           \
        , dst[1] == 2.0f)                                                                          \
    ROW(is_tensor_f16, "", int yes = tenmap_find(m, "f16")->dtype == TENMAP_F16;, yes)             \
    ROW(get_tensor_auto, "f32", tenmap_read(t, 0, t->nelems, TENMAP_F32, dst, dst_bytes, 0, &e);   \
        , dst[1] == 2.0f)                                                                          \
    ROW(get_tensor_bytes, "", const void *w = tenmap_find(m, "f32")->data;, w != NULL)             \
    ROW(get_tensor_info, "", const tenmap_tensor *info = tenmap_find(m, "f32");                    \
        , info->nelems == 2)                                                                       \
    ROW(has_tensor, "", int yes = tenmap_find(m, "f32") != NULL;, yes)                             \
    ROW(tensor_names, "", for (size_t i = 0; i < tenmap_count(m); i++) use(tenmap_at(m, i)->name); \
        , now->used == 3)                                                                          \
    ROW(tensor_count, "", size_t count = tenmap_count(m);, count == 3)                             \
    ROW(path, "", const char *path = tenmap_path(m);, strstr(path, "api.safetensors") != NULL)     \
    ROW(file_size, "", uint64_t size = tenmap_file_size(m);, size > 16)

#define ROW(call, tensor, line, holds)                                                             \
    static bool run_##call(context *c) {                                                           \
        const tenmap_model *m = c->m;                                                              \
        tenmap_error e = {0};                                                                      \
        const tenmap_tensor *t = tenmap_find(m, tensor);                                           \
        float *dst = c->dst;                                                                       \
        size_t dst_bytes = c->dst_bytes;                                                           \
        (void)e, (void)t, (void)dst, (void)dst_bytes;                                              \
        line return (holds) && e.status == TENMAP_OK;                                              \
    }
ROWS
#undef ROW

    static const struct {
    const char *call, *line;
    bool (*run)(context *);
} table[] = {
#define ROW(call, tensor, line, holds) {#call, #line, run_##call},
    ROWS
#undef ROW
};

static void the_document_shows_these_lines_and_they_work(void **state) {
    const char *docs = getenv("TENMAP_DOCS");
    char path[4096];
    snprintf(path, sizeof path, "%s/api.md", docs ? docs : "docs");
    bytes text = read_whole(path);
    const char *at = strstr((const char *)text.at, "| call | here |\n|---|---|\n");
    assert_non_null(at);
    at = strchr(strchr(at, '\n') + 1, '\n') + 1;

    static const unsigned char data[] = {0, 0,    0x80, 0x3f, 0,    0,    0, 0x40,  /* f32: 1, 2 */
                                         0, 0x3c, 0,    0x40, 0x80, 0x3f, 0, 0x40}; /* f16, bf16 */
    bytes file =
        make_model("{\"f32\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},"
                   "\"f16\":{\"dtype\":\"F16\",\"shape\":[2],\"data_offsets\":[8,12]},"
                   "\"bf16\":{\"dtype\":\"BF16\",\"shape\":[2],\"data_offsets\":[12,16]}} ",
                   16);
    assert_int_equal((file.size - 16) % 4, 0); /* so that the views are aligned */
    memcpy(file.at + file.size - 16, data, 16);
    write_file(in_folder(state, "api.safetensors"), file.at, file.size);
    free(file.at);

    context c = {.dst_bytes = sizeof c.dst};
    now = &c;
    c.m = must_open(in_folder(state, "api.safetensors"), NULL);
    for (size_t i = 0; i < COUNT(table); i++) {
        char row[512];
        snprintf(row, sizeof row, "| `%s` | `%s` |\n", table[i].call, table[i].line);
        if (strncmp(at, row, strlen(row)) != 0)
            fail_msg("the document has: %.120s\nthe test has: %s", at, row);
        at += strlen(row);
        memset(c.dst, 0, sizeof c.dst);
        if (!table[i].run(&c))
            fail_msg("%s does not hold", table[i].call);
    }
    assert_int_equal(*at, '\n'); /* no row is left over */
    print_message("           walked %zu lines\n", COUNT(table));
    tenmap_close(c.m);
    free(text.at);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_document_shows_these_lines_and_they_work),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
