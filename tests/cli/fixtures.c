/*
 * The models that the tool's tests work on, with values that are easy to check by hand:
 *
 *     small.safetensors    one tensor of each common dtype, metadata
 *     other.safetensors    the same, with a few differences
 *     layers.safetensors   a transformer's names: twelve layers, so that natural order matters
 *     sharded/             layers.safetensors in three shards with an index
 *     hostile.safetensors  names that a terminal or a page must not obey
 *     none.safetensors     a model without tensors
 *     llama.safetensors    with a second argument, "gguf": a Llama-like model, and
 *     llama.gguf           the same as llama.cpp would convert it, most of it in Q8_0
 *     nvfp4.gguf           a weight in NVFP4 and the scale beside it
 *     truncated.safetensors, pointer.safetensors, page.safetensors, misaligned.safetensors
 */
#include <math.h>
#include <stdbool.h>
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

/* Writes this header as it is, followed by a given number of data bytes. */
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

/* A model of two layers, the second with experts, as transformers and as llama.cpp write it. */

enum { EMBED = 64, HEADS = 4, KV_HEADS = 2, HEAD = 16, WIDE = 96, WORDS = 40, EXPERTS = 2 };
enum { GGML_F32 = 0, GGML_Q8_0 = 8 };

static const struct weight {
    const char *name, *in_gguf;
    uint64_t rows, columns;
    unsigned heads;  /* not 0: rows that llama.cpp puts in another order */
    unsigned expert; /* which of those that llama.cpp puts into one tensor */
} weights[] = {
    {"model.embed_tokens.weight", "token_embd.weight", WORDS, EMBED, 0, 0},
    {"model.norm.weight", "output_norm.weight", EMBED, 0, 0, 0},
    {"lm_head.weight", "output.weight", WORDS, EMBED, 0, 0},
    {"model.layers.0.input_layernorm.weight", "blk.0.attn_norm.weight", EMBED, 0, 0, 0},
    {"model.layers.0.self_attn.q_proj.weight", "blk.0.attn_q.weight", EMBED, EMBED, HEADS, 0},
    {"model.layers.0.self_attn.k_proj.weight", "blk.0.attn_k.weight", KV_HEADS *HEAD, EMBED,
     KV_HEADS, 0},
    {"model.layers.0.self_attn.k_proj.bias", "blk.0.attn_k.bias", KV_HEADS *HEAD, 0, KV_HEADS, 0},
    {"model.layers.0.self_attn.v_proj.weight", "blk.0.attn_v.weight", KV_HEADS *HEAD, EMBED, 0, 0},
    {"model.layers.0.self_attn.o_proj.weight", "blk.0.attn_output.weight", EMBED, EMBED, 0, 0},
    {"model.layers.0.post_attention_layernorm.weight", "blk.0.ffn_norm.weight", EMBED, 0, 0, 0},
    {"model.layers.0.mlp.gate_proj.weight", "blk.0.ffn_gate.weight", WIDE, EMBED, 0, 0},
    {"model.layers.0.mlp.up_proj.weight", "blk.0.ffn_up.weight", WIDE, EMBED, 0, 0},
    {"model.layers.0.mlp.down_proj.weight", "blk.0.ffn_down.weight", EMBED, WIDE, 0, 0},
    {"model.layers.1.mlp.gate.weight", "blk.1.ffn_gate_inp.weight", EXPERTS, EMBED, 0, 0},
    {"model.layers.1.mlp.experts.0.up_proj.weight", "blk.1.ffn_up_exps.weight", WIDE, EMBED, 0, 0},
    {"model.layers.1.mlp.experts.1.up_proj.weight", "blk.1.ffn_up_exps.weight", WIDE, EMBED, 0, 1},
};
enum { WEIGHTS = sizeof weights / sizeof *weights };

typedef struct growing {
    unsigned char bytes[1 << 18];
    size_t size;
} growing;

static void grow(growing *g, const void *bytes, size_t size) {
    if (size > sizeof g->bytes - g->size)
        exit(1);
    memcpy(g->bytes + g->size, bytes, size);
    g->size += size;
}

static void grow_number(growing *g, uint64_t value, size_t width) {
    for (size_t i = 0; i < width; i++) {
        unsigned char byte = (unsigned char)(value >> 8 * i);
        grow(g, &byte, 1);
    }
}

static void grow_text(growing *g, const char *text) {
    grow_number(g, strlen(text), 8);
    grow(g, text, strlen(text));
}

static void grow_pair(growing *g, const char *key, const char *value, uint32_t number) {
    grow_text(g, key);
    grow_number(g, value ? TENMAP_VALUE_STRING : TENMAP_VALUE_U32, 4);
    if (value)
        grow_text(g, value);
    else
        grow_number(g, number, 4);
}

/* Element i of weight w: small, and all different. */
static float weight_value(size_t w, size_t i) {
    return (float)((int)((i * 37 + w * 101 + i / 64 * 11) % 401) - 200) / 512;
}

/* The row in transformers' order that is row `r` in llama.cpp's. */
static size_t row_before(const struct weight *w, size_t r) {
    if (!w->heads)
        return r;
    size_t head = (size_t)w->rows / w->heads, in = r % head;
    return r - in + in / 2 + in % 2 * (head / 2);
}

/* Rounds to the nearest of 127 steps up to the largest value; the scale is F16. */
static void grow_q8(growing *g, const float *values) {
    float most = 0, scale;
    uint16_t half;
    for (int i = 0; i < 32; i++)
        most = fmaxf(most, fabsf(values[i]));
    scale = most / 127;
    must(tenmap_convert(TENMAP_F16, &half, 2, TENMAP_F32, &scale, 1, 0, &error));
    grow_number(g, half, 2);
    for (int i = 0; i < 32; i++)
        grow_number(g, (uint64_t)(int)roundf(scale > 0 ? values[i] / scale : 0), 1);
}

static void grow_weight(growing *g, size_t w, bool blocks) {
    size_t columns = weights[w].columns ? (size_t)weights[w].columns : 1;
    for (size_t r = 0; r < weights[w].rows; r++) {
        float row[WIDE];
        for (size_t c = 0; c < columns; c++)
            row[c] = weight_value(w, row_before(&weights[w], r) * columns + c);
        for (size_t c = 0; c < columns; c += blocks ? 32 : 1) {
            uint32_t bits;
            memcpy(&bits, &row[c], sizeof bits);
            if (blocks)
                grow_q8(g, row + c);
            else
                grow_number(g, bits, 4);
        }
    }
}

static bool in_blocks(const struct weight *w) {
    return w->columns && strcmp(w->name, "lm_head.weight") != 0 && w->rows > EXPERTS;
}

/* A row of the table, unless the weight belongs to the same tensor as an earlier one. */
static void grow_row(growing *header, const struct weight *w, uint64_t at) {
    uint32_t experts = strstr(w->in_gguf, "exps") ? EXPERTS : 0;
    if (w->expert)
        return;
    grow_text(header, w->in_gguf);
    grow_number(header, experts ? 3 : w->columns ? 2 : 1, 4);
    if (w->columns)
        grow_number(header, w->columns, 8);
    grow_number(header, w->rows, 8);
    if (experts)
        grow_number(header, experts, 8);
    grow_number(header, in_blocks(w) ? GGML_Q8_0 : GGML_F32, 4);
    grow_number(header, at, 8);
}

static void write_llama_gguf(void) {
    static growing header, data;
    grow(&header, "GGUF", 4);
    grow_number(&header, 3, 4);
    grow_number(&header, WEIGHTS - 1, 8);
    grow_number(&header, 9, 8);
    grow_pair(&header, "general.architecture", "llama", 0);
    grow_pair(&header, "general.name", "Tiny", 0);
    grow_pair(&header, "general.file_type", NULL, 7);
    grow_pair(&header, "llama.context_length", NULL, 131072);
    grow_pair(&header, "llama.attention.head_count", NULL, HEADS);
    grow_pair(&header, "llama.attention.head_count_kv", NULL, KV_HEADS);
    grow_pair(&header, "tokenizer.ggml.model", "gpt2", 0);
    grow_pair(&header, "tokenizer.ggml.pre", "llama-bpe", 0);
    grow_text(&header, "tokenizer.ggml.tokens");
    grow_number(&header, TENMAP_VALUE_ARRAY, 4);
    grow_number(&header, TENMAP_VALUE_STRING, 4);
    grow_number(&header, WORDS, 8);
    for (int i = 0; i < WORDS; i++)
        grow_text(&header, i % 2 ? "a" : "\xc4\xa0the");
    for (size_t i = 0; i < WEIGHTS; i++) {
        while (!weights[i].expert && data.size % 32)
            grow_number(&data, 0, 1);
        grow_row(&header, &weights[i], data.size);
        grow_weight(&data, i, in_blocks(&weights[i]));
    }
    while (header.size % 32)
        grow_number(&header, 0, 1);
    while (data.size % 32)
        grow_number(&data, 0, 1);
    grow(&header, data.bytes, data.size);
    put_file("llama.gguf", header.bytes, header.size);
}

/* 64 values in 36 bytes, four scales first, and the scale of the whole tensor. */
static void write_nvfp4(void) {
    static const unsigned char none[32];
    static growing file;
    grow(&file, "GGUF", 4);
    grow_number(&file, 3, 4);
    grow_number(&file, 2, 8);
    grow_number(&file, 0, 8);
    grow_text(&file, "w.weight");
    grow_number(&file, 2, 4);
    grow_number(&file, 64, 8);
    grow_number(&file, 1, 8);
    grow_number(&file, 40, 4); /* NVFP4 */
    grow_number(&file, 0, 8);
    grow_text(&file, "w.scale");
    grow_number(&file, 1, 4);
    grow_number(&file, 1, 8);
    grow_number(&file, GGML_F32, 4);
    grow_number(&file, 64, 8);
    while (file.size % 32)
        grow_number(&file, 0, 1);
    for (int i = 0; i < 36; i++)
        grow_number(&file, i < 4 ? 0x40 : 0x21, 1); /* 2.0; codes of 0.5 and 1.0 */
    grow(&file, none, 64 - 36);
    grow_number(&file, 0x40400000, 4); /* 3.0 */
    grow(&file, none, 28);
    put_file("nvfp4.gguf", file.bytes, file.size);
}

static void write_llama(void) {
    tenmap_writer *writer;
    must(tenmap_writer_create("llama.safetensors", NULL, &writer, &error));
    for (size_t i = 0; i < WEIGHTS; i++) {
        uint64_t shape[2] = {weights[i].rows, weights[i].columns};
        must(tenmap_writer_add(writer, weights[i].name, TENMAP_CSTR, TENMAP_F32, shape,
                               weights[i].columns ? 2 : 1, NULL, &error));
    }
    for (size_t i = 0; i < WEIGHTS; i++) {
        float values[WIDE * EMBED];
        size_t columns = weights[i].columns ? (size_t)weights[i].columns : 1;
        size_t count = (size_t)weights[i].rows * columns;
        for (size_t k = 0; k < count; k++)
            values[k] = weight_value(i, k);
        must(tenmap_writer_write(writer, i, 0, values, count * sizeof *values, &error));
    }
    must(tenmap_writer_commit(writer, &error));
    write_llama_gguf();
    write_nvfp4();
}

int main(int argc, char **argv) {
    if (argc < 2 || argc > 3 || chdir(argv[1]) != 0) {
        fprintf(stderr, "usage: fixtures FOLDER [gguf]\n");
        return 2;
    }
    if (argc == 3) {
        write_llama();
        return 0;
    }
    write_small();
    write_layers();
    write_sharded();
    write_hostile();
    write_broken();
    return 0;
}
