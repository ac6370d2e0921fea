/*
 * The models that the tool's tests work on, with values that are easy to check by hand:
 *
 *     small.safetensors    one tensor of each common dtype, metadata
 *     other.safetensors    the same, with a few differences
 *     layers.safetensors   a transformer's names: twelve layers, so that natural order matters
 *     sharded/             layers.safetensors in three shards with an index
 *     hostile.safetensors  names that a terminal or a page must not obey
 *     none.safetensors     a model without tensors
 *     truncated.safetensors, pointer.safetensors, page.safetensors, misaligned.safetensors
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <tenmap.h>
#include <unistd.h>

static tenmap_error error;

static void must(tenmap_status status) {
    if (status != TENMAP_OK) {
        fprintf(stderr, "fixtures: %s\n", error.message);
        exit(1);
    }
}

static void put_file(const char *path, const void *bytes, size_t size) {
    FILE *out = fopen(path, "wb");
    if (!out || fwrite(bytes, 1, size, out) != size || fclose(out) != 0) {
        perror(path);
        exit(1);
    }
}

typedef struct part {
    const char *name;
    tenmap_dtype dtype;
    uint64_t rows, columns; /* columns 0: one dimension; rows 0 as well: a scalar */
    float scale;
} part;

static size_t part_count(const part *p) {
    return (size_t)((p->rows ? p->rows : 1) * (p->columns ? p->columns : 1));
}

/* Element i is scale * ((i * 7) % 23 - 11): small whole numbers times a power of two. */
static void *part_bytes(const part *p, size_t *bytes) {
    size_t count = part_count(p), room = count * 8;
    float *values = malloc(count * sizeof *values);
    char *out = calloc(1, room);
    if (!values || !out)
        exit(1);
    for (size_t i = 0; i < count; i++)
        values[i] = p->scale * (float)((int)(i * 7 % 23) - 11);
    *bytes = count * tenmap_dtype_bits(p->dtype) / 8;
    if (p->dtype == TENMAP_I64)
        for (size_t i = 0; i < count; i++)
            out[8 * i] = (char)i;
    else if (p->dtype == TENMAP_U8 || p->dtype == TENMAP_BOOL)
        for (size_t i = 0; i < count; i++)
            out[i] = (char)(p->dtype == TENMAP_BOOL ? i % 2 : i);
    else
        must(tenmap_convert(p->dtype, out, room, TENMAP_F32, values, count, 0, &error));
    free(values);
    return out;
}

static void write_parts(const char *path, const part *parts, size_t count, const char *version) {
    tenmap_writer *writer;
    must(tenmap_writer_create(path, NULL, &writer, &error));
    must(tenmap_writer_metadata(writer, "format", TENMAP_CSTR, "pt", TENMAP_CSTR, &error));
    must(tenmap_writer_metadata(writer, "version", TENMAP_CSTR, version, TENMAP_CSTR, &error));
    for (size_t i = 0; i < count; i++) {
        uint64_t shape[2] = {parts[i].rows, parts[i].columns};
        uint32_t rank = parts[i].columns ? 2 : parts[i].rows ? 1 : 0;
        must(tenmap_writer_add(writer, parts[i].name, TENMAP_CSTR, parts[i].dtype, shape, rank,
                               NULL, &error));
    }
    for (size_t i = 0; i < count; i++) {
        size_t bytes;
        void *data = part_bytes(&parts[i], &bytes);
        must(tenmap_writer_write(writer, i, 0, data, bytes, &error));
        free(data);
    }
    must(tenmap_writer_commit(writer, &error));
}

static void write_small(void) {
    part parts[] = {{"embed.weight", TENMAP_F32, 6, 4, 0.5f},
                    {"layer.0.weight", TENMAP_BF16, 4, 4, 1},
                    {"layer.0.bias", TENMAP_F16, 4, 0, 0.25f},
                    {"layer.0.scale", TENMAP_F8_E4M3, 8, 0, 1},
                    {"layer.0.wide", TENMAP_F64, 3, 0, 2},
                    {"ids", TENMAP_I64, 5, 0, 1},
                    {"mask", TENMAP_BOOL, 4, 0, 1},
                    {"bytes", TENMAP_U8, 6, 0, 1},
                    {"temperature", TENMAP_F32, 0, 0, 1}};
    write_parts("small.safetensors", parts, 9, "1");
    parts[1].scale = 1.5f;        /* other values */
    parts[2].dtype = TENMAP_BF16; /* another dtype */
    parts[5].rows = 6;            /* another shape */
    parts[8].name = "top_k";      /* another name */
    write_parts("other.safetensors", parts, 9, "2");
}

static void write_layers(void) {
    static const struct {
        const char *name;
        uint64_t rows, columns;
    } kinds[] = {{"self_attn.q_proj.weight", 16, 16},
                 {"self_attn.o_proj.weight", 16, 16},
                 {"mlp.up_proj.weight", 32, 16},
                 {"input_layernorm.weight", 16, 0}};
    enum { KINDS = 4, LAYERS = 12 };
    static char names[KINDS * LAYERS][64];
    part parts[KINDS * LAYERS + 2] = {{"model.embed_tokens.weight", TENMAP_BF16, 64, 16, 0.125f},
                                      {"model.norm.weight", TENMAP_F32, 16, 0, 0.0625f}};
    for (size_t i = 0; i < KINDS * LAYERS; i++) {
        size_t k = i % KINDS;
        snprintf(names[i], sizeof names[i], "model.layers.%zu.%s", i / KINDS, kinds[k].name);
        parts[i + 2] = (part){names[i], k == 3 ? TENMAP_F32 : TENMAP_BF16, kinds[k].rows,
                              kinds[k].columns, 0.015625f};
    }
    write_parts("layers.safetensors", parts, KINDS * LAYERS + 2, "1");
}

static void write_sharded(void) {
    tenmap_model *model;
    tenmap_source sources[64];
    tenmap_save_options options = TENMAP_SAVE_OPTIONS_INIT;
    must(tenmap_open("layers.safetensors", NULL, &model, &error));
    size_t count = tenmap_count(model);
    memset(sources, 0, sizeof sources);
    for (size_t i = 0; i < count; i++)
        sources[i].tensor = tenmap_at(model, i);
    options.max_shard_bytes = 12000;
    if (mkdir("sharded", 0777) != 0)
        exit(1);
    must(tenmap_save_sharded("sharded", sources, count, &options, &error));
    tenmap_close(model);
}

static void write_hostile(void) {
    static const char *const names[] = {"\033[31mred\033[0m", "</script><script>alert(1)</script>",
                                        "tab\there",          "right\342\200\256left",
                                        "\"quoted\\name\"",   "plain"};
    tenmap_writer *writer;
    uint64_t shape[1] = {1};
    must(tenmap_writer_create("hostile.safetensors", NULL, &writer, &error));
    must(tenmap_writer_metadata(writer, "\033]0;title\007", TENMAP_CSTR, "line\nbreak", TENMAP_CSTR,
                                &error));
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        must(tenmap_writer_add(writer, names[i], TENMAP_CSTR, TENMAP_U8, shape, 1, NULL, &error));
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        must(tenmap_writer_write(writer, i, 0, "x", 1, &error));
    must(tenmap_writer_commit(writer, &error));
}

/* A header as it is, with a given number of data bytes behind it. */
static void write_raw(const char *path, const char *header, size_t data) {
    char bytes[1024] = {0};
    size_t n = strlen(header);
    bytes[0] = (char)n;
    memcpy(bytes + 8, header, n);
    put_file(path, bytes, 8 + n + data);
}

static void write_broken(void) {
    static const char pointer[] =
        "version https://git-lfs.github.com/spec/v1\n"
        "oid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\nsize 12345\n";
    static const char page[] = "<!DOCTYPE html>\n<html><body>404</body></html>\n";
    put_file("pointer.safetensors", pointer, sizeof pointer - 1);
    put_file("page.safetensors", page, sizeof page - 1);
    put_file("empty.safetensors", "", 0);
    write_raw("truncated.safetensors",
              "{\"a\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[0,16]}}", 10);
    write_raw("none.safetensors", "{}", 0);
    write_raw("misaligned.safetensors",
              "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
              "\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[1,5]}}",
              5);
}

int main(int argc, char **argv) {
    if (argc != 2 || chdir(argv[1]) != 0) {
        fprintf(stderr, "usage: fixtures FOLDER\n");
        return 2;
    }
    write_small();
    write_layers();
    write_sharded();
    write_hostile();
    write_broken();
    return 0;
}
