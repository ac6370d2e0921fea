/*
 * Quantized weights: for any config.json and any tensors, an error keeps its promises. If the model
 * opens, every quantized weight has parts that lie in the file, and reads the same in ranges and in
 * another dtype as in whole, or is refused.
 *
 * The input is the length of config.json in two bytes (0: there is none), that text, and a model.
 */
#include "fuzz.h"

enum { MOST_WEIGHTS = 8, MOST_VALUES_READ = 1 << 14 };

typedef struct two_objects {
    const uint8_t *bytes[2]; /* the model, config.json */
    size_t sizes[2];
} two_objects;

static tenmap_status object_open(void *ctx, const char *path, void **file, uint64_t *size,
                                 tenmap_error *error) {
    two_objects *objects = ctx;
    const char *name = strrchr(path, '/');
    size_t which = strcmp(name ? name + 1 : path, "m.safetensors") != 0;
    (void)error;
    if (which && (strcmp(name ? name + 1 : path, "config.json") != 0 || !objects->sizes[1]))
        return TENMAP_ERR_NOT_FOUND;
    *file = &objects->bytes[which];
    *size = objects->sizes[which];
    return TENMAP_OK;
}

static tenmap_status object_read(void *ctx, void *file, uint64_t offset, void *dst, size_t bytes,
                                 tenmap_error *error) {
    two_objects *objects = ctx;
    size_t which = (size_t)((const uint8_t **)file - objects->bytes);
    (void)error;
    CHECK(which < 2 && offset <= objects->sizes[which] && bytes <= objects->sizes[which] - offset);
    memcpy(dst, objects->bytes[which] + offset, bytes);
    return TENMAP_OK;
}

static void object_close(void *ctx, void *file) {
    (void)ctx;
    (void)file;
}

static bool same_value(const float *a, const float *b) {
    return memcmp(a, b, 4) == 0 || (*a != *a && *b != *b);
}

static void check_parts(const tenmap_tensor *t, size_t size) {
    const tenmap_scheme *scheme = tenmap_scheme_of(t);
    CHECK(scheme->part_count >= 1 && scheme->bits >= 1 && scheme->bits <= 8);
    for (uint32_t i = 0; i < scheme->part_count; i++) {
        const tenmap_tensor *part = tenmap_part_at(t, i);
        CHECK(part && part->file_offset <= size && part->nbytes <= size - part->file_offset);
    }
    CHECK(!tenmap_part_at(t, scheme->part_count) && !t->data);
}

/* Compares a range with the same part of a full read, directly and through BF16. */
static void check_range(const tenmap_tensor *t, const float *all, uint64_t count, uint32_t random) {
    uint64_t first = random % count, some = (random >> 8) % (count - first + 1);
    float *again = malloc((size_t)count * 4 + 4);
    uint16_t *narrow = malloc((size_t)count * 2 + 2), *same = malloc((size_t)count * 2 + 2);
    tenmap_error error;
    fuzz_error_arm(&error);
    tenmap_status status =
        tenmap_read(t, first, some, TENMAP_F32, again, (size_t)count * 4, 0, &error);
    fuzz_error_check(&error, status);
    CHECK(status == TENMAP_OK);
    for (uint64_t i = 0; i < some; i++)
        CHECK(same_value(&again[i], &all[first + i]));
    CHECK(tenmap_read(t, 0, count, TENMAP_BF16, narrow, (size_t)count * 2, 0, NULL) == TENMAP_OK);
    CHECK(tenmap_convert(TENMAP_BF16, same, (size_t)count * 2, TENMAP_F32, all, count, 0, NULL) ==
          TENMAP_OK);
    for (uint64_t i = 0; i < count; i++)
        CHECK(narrow[i] == same[i] || all[i] != all[i]);
    free(again);
    free(narrow);
    free(same);
}

static void check_values(const tenmap_tensor *t, uint32_t random) {
    uint64_t count = t->nelems < MOST_VALUES_READ ? t->nelems : MOST_VALUES_READ;
    tenmap_error error;
    float *all = malloc((size_t)count * 4 + 4);
    fuzz_error_arm(&error);
    tenmap_status status = tenmap_read(t, 0, count, TENMAP_F32, all, (size_t)count * 4, 0, &error);
    fuzz_error_check(&error, status);
    CHECK(status == TENMAP_OK || status == TENMAP_ERR_FORMAT);
    if (status == TENMAP_OK && count > 0)
        check_range(t, all, count, random);
    free(all);
}

/* Checks everything about a model that opened, of `size` bytes. */
static void check_model(tenmap_model *model, size_t size) {
    uint32_t weights = 0;
    for (size_t i = 0; i < tenmap_count(model); i++) {
        const tenmap_tensor *t = tenmap_at(model, i);
        CHECK(tenmap_find_n(model, t->name, t->name_len) == t);
        if (!(t->flags & TENMAP_TENSOR_COMPUTED) || ++weights > MOST_WEIGHTS)
            continue;
        check_parts(t, size);
        check_values(t, (uint32_t)(size * 2654435761u + i * 97));
    }
    tenmap_close(model);
}

static void open_objects(two_objects *objects, uint32_t flags) {
    tenmap_io io = TENMAP_IO_INIT;
    io.open = object_open;
    io.read = object_read;
    io.close = object_close;
    io.ctx = objects;
    tenmap_options options = TENMAP_OPTIONS_INIT;
    options.io = &io;
    options.flags = flags;
    tenmap_model *model;
    tenmap_error error;
    fuzz_error_arm(&error);
    tenmap_status status = tenmap_open("f/m.safetensors", &options, &model, &error);
    fuzz_error_check(&error, status);
    if (status == TENMAP_OK)
        check_model(model, objects->sizes[0]);
}

/*
 * Opens the model alone, in memory that ends where it does, so that a read past its end is
 * detected.
 */
static void open_alone(const two_objects *objects) {
    size_t size = objects->sizes[0];
    uint8_t *file = malloc(size + !size);
    tenmap_options options = TENMAP_OPTIONS_INIT;
    tenmap_model *model;
    tenmap_error error;
    memcpy(file, objects->bytes[0], size);
    options.flags = TENMAP_OPEN_DEQUANTIZE;
    fuzz_error_arm(&error);
    tenmap_status status = tenmap_open_memory(file, size, &options, &model, &error);
    fuzz_error_check(&error, status);
    if (status == TENMAP_OK)
        check_model(model, size);
    free(file);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 2)
        return 0;
    size_t config = data[0] | (size_t)data[1] << 8;
    if (config > size - 2)
        config = size - 2;
    two_objects objects = {{data + 2 + config, data + 2}, {size - 2 - config, config}};
    open_objects(&objects, TENMAP_OPEN_DEQUANTIZE);
    open_objects(&objects, TENMAP_OPEN_DEQUANTIZE | TENMAP_OPEN_PARTIAL);
    open_alone(&objects);
    return 0;
}
