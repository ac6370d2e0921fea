/*
 * The calls that ports of three engines make, as tests of the library's contract: a language model
 * in FP8 or in 32-bit groups of eight (calm), by tenmap_take; a diffusion model's autoencoder
 * through an adapter with one call per type (flux2.c); every tensor of a GGUF file or of an index
 * with ggml's types (stable-diffusion.cpp). Good files give the values that were stored; each
 * loader refuses files that were cut off or changed, or gets tensors of the size that it expects.
 */
#include "gguf_files.h"

enum { DIM = 8, HIDDEN = 16, LAYERS = 2, EXPERTS = 3, VOCABULARY = 24 };

/* calm: dtype by the metadata's "dbits", everything else by shape. */

typedef struct calm_dtype {
    const char *bits, *name;
    tenmap_dtype dtype;
    uint64_t divisor; /* weights in one element: eight in a word of 32 bits */
    size_t width;
} calm_dtype;

static const calm_dtype calm_dtypes[] = {{"4", "I32", TENMAP_I32, 8, 4},
                                         {"8", "F8_E5M2", TENMAP_F8_E5M2, 1, 1},
                                         {"16", "F16", TENMAP_F16, 1, 2}};

enum { CALM_GLOBAL = 2, CALM_LAYER = 4, CALM_WANTS = CALM_GLOBAL + LAYERS * CALM_LAYER };

typedef struct calm_model {
    const calm_dtype *dtype;
    uint64_t shapes[CALM_WANTS][3];
    tenmap_want wants[CALM_WANTS];
    tenmap_arena *arena;
} calm_model;

/* One tensor: "name" with %u for the layer, its shape, and whether it is a weight or a norm. */
static void calm_want(calm_model *c, size_t i, tenmap_want want, const uint64_t *shape,
                      bool is_weight) {
    memcpy(c->shapes[i], shape, sizeof c->shapes[i]);
    if (is_weight)
        c->shapes[i][want.rank - 1] /= c->dtype->divisor;
    want.shape = c->shapes[i];
    want.as = is_weight ? c->dtype->dtype : TENMAP_F32;
    c->wants[i] = want;
}

static void calm_wants(calm_model *c) {
    static const uint64_t embed[3] = {VOCABULARY, DIM}, norm[3] = {DIM}, square[3] = {DIM, DIM};
    static const uint64_t stack[3] = {EXPERTS, HIDDEN, DIM}, router[3] = {EXPERTS, DIM};
    calm_want(c, 0, (tenmap_want){.name = "model.embed.weight", .rank = 2}, embed, true);
    calm_want(c, 1, (tenmap_want){.name = "model.norm.weight", .rank = 1}, norm, false);
    for (uint32_t l = 0; l < LAYERS; l++) {
        size_t at = CALM_GLOBAL + (size_t)l * CALM_LAYER;
        tenmap_want want = {.numbers = 1, .layer = l};
        want.name = "model.layers.%u.attn.norm.weight";
        want.rank = 1;
        calm_want(c, at, want, norm, false);
        want.name = "model.layers.%u.attn.wq.weight";
        want.rank = 2;
        calm_want(c, at + 1, want, square, true);
        want.name = "model.layers.%u.moegate.weight";
        calm_want(c, at + 2, want, router, true);
        want.name = "model.layers.%u.mlp.w1.weight";
        want.rank = 3;
        calm_want(c, at + 3, want, stack, true);
    }
}

static tenmap_status calm_load(const tenmap_model *m, calm_model *c, tenmap_error *error) {
    const char *bits = tenmap_metadata_get(m, "dbits");
    memset(c, 0, sizeof *c);
    for (size_t i = 0; i < COUNT(calm_dtypes); i++)
        if (bits && strcmp(bits, calm_dtypes[i].bits) == 0)
            c->dtype = &calm_dtypes[i];
    if (!c->dtype)
        return TENMAP_ERR_UNSUPPORTED;
    calm_wants(c);
    return tenmap_take(m, c->wants, CALM_WANTS, NULL, &c->arena, error);
}

/* The text of a header with all tensors of a calm model; returns the bytes of its data. */
static size_t calm_json(const calm_dtype *dtype, char *json, size_t room) {
    calm_model c = {.dtype = dtype};
    size_t end = 0, used;
    calm_wants(&c);
    used = (size_t)snprintf(json, room, "{\"__metadata__\":{\"dbits\":\"%s\"}", dtype->bits);
    for (size_t i = 0; i < CALM_WANTS; i++) {
        const tenmap_want *w = &c.wants[i];
        char name[80], shape[80] = "";
        uint64_t size = w->as == TENMAP_F32 ? 4 : dtype->width;
        const char *place = strstr(w->name, "%u");
        if (place)
            snprintf(name, sizeof name, "%.*s%u%s", (int)(place - w->name), w->name,
                     (unsigned)w->layer, place + 2);
        else
            snprintf(name, sizeof name, "%s", w->name);
        for (uint32_t d = 0; d < w->rank; d++) {
            size *= w->shape[d];
            snprintf(shape + strlen(shape), sizeof shape - strlen(shape), "%s%llu", d ? "," : "",
                     (unsigned long long)w->shape[d]);
        }
        used += (size_t)snprintf(json + used, room - used,
                                 ",\"%s\":{\"dtype\":\"%s\",\"shape\":[%s],\"data_offsets\":"
                                 "[%zu,%zu]}",
                                 name, w->as == TENMAP_F32 ? "F32" : dtype->name, shape, end,
                                 end + (size_t)size);
        end += (size_t)size;
    }
    used += (size_t)snprintf(json + used, room - used, "}");
    while (used % 8)
        json[used++] = ' ';
    json[used] = '\0';
    return end;
}

static bytes calm_file(const calm_dtype *dtype) {
    char json[8192];
    size_t data = calm_json(dtype, json, sizeof json);
    return make_model(json, data);
}

/* What a loader makes of a model that opened: its status, and all bytes that it would use. */
static tenmap_status try_calm(const tenmap_model *m, unsigned *sum) {
    calm_model c;
    tenmap_error error;
    tenmap_status status = calm_load(m, &c, &error);
    for (size_t i = 0; status == TENMAP_OK && i < CALM_WANTS; i++) {
        uint64_t size = c.wants[i].as == TENMAP_F32 ? 4 : c.dtype->width;
        for (uint32_t d = 0; d < c.wants[i].rank; d++)
            size *= c.shapes[i][d];
        assert_int_equal(c.wants[i].nbytes, size); /* what the engine's loops will read */
        for (uint64_t k = 0; k < size; k++)
            *sum += ((const unsigned char *)c.wants[i].data)[k];
    }
    tenmap_arena_free(c.arena);
    return status;
}

static void calm_weights_are_taken_as_they_are_stored(void **state) {
    (void)state;
    for (size_t i = 0; i < COUNT(calm_dtypes); i++) {
        bytes file = calm_file(&calm_dtypes[i]);
        tenmap_model *m = must_open_memory(file, NULL);
        calm_model c;
        tenmap_error error;
        if (calm_load(m, &c, &error) != TENMAP_OK)
            fail_msg("%s", error.message);
        const unsigned char *data = file.at + tenmap_shard_at(m, 0)->data_offset;
        for (size_t k = 0; k < CALM_WANTS; k++) {
            assert_memory_equal(c.wants[k].data, data, (size_t)c.wants[k].nbytes);
            data += c.wants[k].nbytes;
        }
        assert_ptr_equal(data, file.at + file.size);
        tenmap_arena_free(c.arena);
        tenmap_close(m);
        free(file.at);
    }
}

/* flux2.c: an adapter with one call per type, which checks shapes, as the engine must. */

static const float *adapter_f32(const tenmap_model *m, const char *name, uint32_t rank,
                                const uint64_t *shape, float *dst, size_t dst_bytes) {
    const tenmap_tensor *t = tenmap_find(m, name);
    if (!t || t->rank != rank || memcmp(t->shape, shape, rank * sizeof *shape) != 0)
        return NULL;
    const float *view = tenmap_view(t, TENMAP_F32, NULL);
    if (view)
        return view;
    return tenmap_read(t, 0, t->nelems, TENMAP_F32, dst, dst_bytes, 0, NULL) == TENMAP_OK ? dst
                                                                                          : NULL;
}

/* A convolution in BF16, its bias in F32, and a norm in F16, with odd places in the file. */
static const char vae_json[] =
    "{\"decoder.conv_in.weight\":{\"dtype\":\"BF16\",\"shape\":[4,2,3,3],\"data_offsets\":[0,144]},"
    "\"decoder.conv_in.bias\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[144,160]},"
    "\"decoder.pad\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[160,161]},"
    "\"decoder.norm.weight\":{\"dtype\":\"F16\",\"shape\":[4],\"data_offsets\":[161,169]}}";
enum { VAE_DATA = 169, VAE_TENSORS = 3 };

static const struct {
    const char *name;
    uint32_t rank;
    uint64_t shape[4];
    size_t count;
} vae[VAE_TENSORS] = {{"decoder.conv_in.weight", 4, {4, 2, 3, 3}, 72},
                      {"decoder.conv_in.bias", 1, {4}, 4},
                      {"decoder.norm.weight", 1, {4}, 4}};

static tenmap_status try_vae(const tenmap_model *m, unsigned *sum) {
    float dst[72];
    for (size_t i = 0; i < VAE_TENSORS; i++) {
        const float *values =
            adapter_f32(m, vae[i].name, vae[i].rank, vae[i].shape, dst, vae[i].count * 4);
        if (!values)
            return TENMAP_ERR_NOT_FOUND;
        for (size_t k = 0; k < vae[i].count; k++)
            *sum += values[k] > 0;
    }
    return TENMAP_OK;
}

static void an_adapter_gives_the_values_of_reads(void **state) {
    (void)state;
    bytes file = make_model(vae_json, VAE_DATA);
    tenmap_model *m = must_open_memory(file, NULL);
    float got[72], expected[72];
    for (size_t i = 0; i < VAE_TENSORS; i++) {
        size_t size = vae[i].count * sizeof *got;
        const float *values = adapter_f32(m, vae[i].name, vae[i].rank, vae[i].shape, got, size);
        assert_non_null(values);
        assert_int_equal(tenmap_read(tenmap_find(m, vae[i].name), 0, vae[i].count, TENMAP_F32,
                                     expected, size, 0, NULL),
                         TENMAP_OK);
        assert_memory_equal(values, expected, size);
    }
    static const uint64_t other[4] = {4, 2, 3, 4};
    assert_null(adapter_f32(m, vae[0].name, 4, other, got, sizeof got));
    assert_null(adapter_f32(m, vae[0].name, 3, other, got, sizeof got));
    tenmap_close(m);
    free(file.at);
}

/* stable-diffusion.cpp: every tensor with ggml's type, loaded in one call. */

static tenmap_status try_ggml(const tenmap_model *m, unsigned *sum) {
    enum { MOST = 8, LARGEST = 4096 };
    static unsigned char memory[MOST][LARGEST];
    tenmap_request requests[MOST];
    size_t n = tenmap_count(m);
    memset(requests, 0, sizeof requests);
    if (n > MOST)
        return TENMAP_ERR_LIMIT;
    for (size_t i = 0; i < n; i++) {
        const tenmap_tensor *t = tenmap_at(m, i);
        uint32_t type;
        uint64_t size;
        if (!tenmap_dtype_to_ggml(t->dtype, &type) || t->rank > 4 || t->nbytes > LARGEST)
            return TENMAP_ERR_UNSUPPORTED;
        assert_int_equal(tenmap_dtype_from_ggml(type), t->dtype);
        assert_int_equal(tenmap_dtype_bytes(t->dtype, t->nelems, &size), 1);
        assert_int_equal(size, t->nbytes); /* what ggml_nbytes gives */
        requests[i] = (tenmap_request){.tensor = t, .dst = memory[i], .dst_bytes = (size_t)size};
    }
    tenmap_status status = tenmap_load(m, requests, n, NULL, NULL);
    for (size_t i = 0; status == TENMAP_OK && i < n; i++)
        for (size_t k = 0; k < requests[i].dst_bytes; k++)
            *sum += memory[i][k];
    return status;
}

static void check_ggml_bytes(const tenmap_model *m) {
    unsigned sum = 0, expected = 0;
    assert_int_equal(try_ggml(m, &sum), TENMAP_OK);
    for (size_t i = 0; i < tenmap_count(m); i++) {
        unsigned char data[4096];
        const tenmap_tensor *t = tenmap_at(m, i);
        assert_int_equal(tenmap_read_bytes(t, 0, (size_t)t->nbytes, data, NULL), TENMAP_OK);
        for (uint64_t k = 0; k < t->nbytes; k++)
            expected += data[k];
    }
    assert_int_equal(sum, expected);
}

static void a_gguf_file_and_an_index_load_with_ggmls_types(void **state) {
    bytes file = gguf_small();
    tenmap_model *m = must_open_memory(file, NULL);
    check_ggml_bytes(m);
    tenmap_close(m);
    free(file.at);
    write_model(in_folder(state, "a-1.safetensors"),
                "{\"x\":{\"dtype\":\"F16\",\"shape\":[4,8],\"data_offsets\":[0,64]}}", 64);
    write_model(in_folder(state, "a-2.safetensors"),
                "{\"y\":{\"dtype\":\"BF16\",\"shape\":[2],\"data_offsets\":[0,4]}}", 4);
    const char *index = in_folder(state, "model.safetensors.index.json");
    write_text(index, "{\"weight_map\":{\"x\":\"a-1.safetensors\",\"y\":\"a-2.safetensors\"}}");
    m = must_open(index, NULL);
    assert_int_equal(tenmap_count(m), 2);
    check_ggml_bytes(m);
    tenmap_close(m);
    static const char *const hostile[] = {
        "{\"weight_map\":{\"x\":\"../a-1.safetensors\",\"y\":\"a-2.safetensors\"}}",
        "{\"weight_map\":{\"x\":\"/etc/passwd\"}}",
        "{\"weight_map\":{\"x\":\"a-2.safetensors\",\"y\":\"a-2.safetensors\"}}",
        "{\"weight_map\":{\"x\":\"a-1.safetensors\",\"y\":\"a-3.safetensors\"}}",
        "{\"weight_map\":{\"x\":\"model.safetensors.index.json\"}}",
        "{\"weight_map\":{\"x\":7}}",
        "{\"weight_map\":["};
    for (size_t i = 0; i < COUNT(hostile); i++) {
        write_text(index, hostile[i]);
        assert_int_not_equal(tenmap_open(index, NULL, &m, NULL), TENMAP_OK);
        assert_null(m);
    }
}

/*
 * Hostile files: what was cut off never loads; what was changed is refused, or has the sizes that
 * the loaders check for themselves.
 */

typedef tenmap_status try_loader(const tenmap_model *m, unsigned *sum);

static void try_hostile(bytes file, size_t header, try_loader *load, const char *name) {
    unsigned refused = 0, loaded = 0, sum = 0;
    tenmap_model *m;
    static const unsigned char values[] = {0x00, 0xff, '0', '9', '"', '}', 'x'};
    for (size_t i = 0; i < header; i++) {
        unsigned char before = file.at[i];
        for (size_t v = 0; v < COUNT(values); v++) {
            file.at[i] = values[v];
            if (tenmap_open_memory(file.at, file.size, NULL, &m, NULL) == TENMAP_OK &&
                load(m, &sum) == TENMAP_OK)
                loaded++;
            else
                refused++;
            tenmap_close(m);
        }
        file.at[i] = before;
    }
    for (size_t size = 0; size < file.size; size++) {
        unsigned char *cut = malloc(size + 1); /* exact, so that sanitizers see every byte beyond */
        memcpy(cut, file.at, size);
        tenmap_status status = tenmap_open_memory(cut, size, NULL, &m, NULL);
        assert_int_not_equal(status, TENMAP_OK);
        refused++;
        free(cut);
    }
    print_message("           %s: %u files refused, %u loaded, sum %u\n", name, refused, loaded,
                  sum);
    assert_true(refused > loaded);
}

static void hostile_files_are_refused_or_have_the_sizes_that_were_checked(void **state) {
    (void)state;
    for (size_t i = 0; i < COUNT(calm_dtypes); i++) {
        char json[8192];
        size_t data = calm_json(&calm_dtypes[i], json, sizeof json);
        bytes file = calm_file(&calm_dtypes[i]);
        try_hostile(file, file.size - data, try_calm, calm_dtypes[i].name);
        free(file.at);
    }
    bytes file = make_model(vae_json, VAE_DATA);
    try_hostile(file, file.size - VAE_DATA, try_vae, "an autoencoder");
    free(file.at);
    file = gguf_small();
    try_hostile(file, file.size - 64 - 72, try_ggml, "GGUF");
    free(file.at);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(calm_weights_are_taken_as_they_are_stored),
        cmocka_unit_test(an_adapter_gives_the_values_of_reads),
        cmocka_unit_test_setup(a_gguf_file_and_an_index_load_with_ggmls_types, empty_folder),
        cmocka_unit_test(hostile_files_are_refused_or_have_the_sizes_that_were_checked),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
