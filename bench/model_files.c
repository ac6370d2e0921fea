/* Model files for benchmarks: names and shapes of real model families, with a hole as data. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#ifndef _FILE_OFFSET_BITS
#define _FILE_OFFSET_BITS 64
#endif
#include "model_files.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct entry {
    char name[72];
    const char *dtype;
    unsigned width; /* bytes per element */
    uint64_t shape[2];
    unsigned rank;
    size_t shard; /* of a model in several files */
} entry;

/* DeepSeek-V3: routed experts start in layer 3, 256 in each layer, scales for blocks of 128x128. */
static void deepseek_entry(entry *e, size_t i) {
    static const char *const projections[] = {"gate_proj", "up_proj", "down_proj"};
    enum { EXPERTS = 256, FIRST_LAYER = 3, WIDE = 7168, NARROW = 2048, BLOCK = 128 };
    bool is_scale = i % 2 == 1;
    size_t projection = i / 2 % 3, expert = i / 6 % EXPERTS, layer = i / 6 / EXPERTS + FIRST_LAYER;
    uint64_t rows = projection == 2 ? WIDE : NARROW, columns = projection == 2 ? NARROW : WIDE;
    uint64_t block = is_scale ? BLOCK : 1;
    snprintf(e->name, sizeof e->name, "model.layers.%zu.mlp.experts.%zu.%s.weight%s", layer, expert,
             projections[projection], is_scale ? "_scale_inv" : "");
    e->dtype = is_scale ? "F32" : "F8_E4M3";
    e->width = is_scale ? 4 : 1;
    e->shape[0] = rows / block;
    e->shape[1] = columns / block;
    e->rank = 2;
}

typedef struct part {
    const char *name;
    uint64_t rows, columns; /* 0 columns: a vector */
} part;

static void llama_entry(entry *e, size_t i) {
    static const part outer[] = {
        {"lm_head", 128256, 4096}, {"model.embed_tokens", 128256, 4096}, {"model.norm", 4096, 0}};
    static const part inner[] = {
        {"input_layernorm", 4096, 0},          {"mlp.down_proj", 4096, 14336},
        {"mlp.gate_proj", 14336, 4096},        {"mlp.up_proj", 14336, 4096},
        {"post_attention_layernorm", 4096, 0}, {"self_attn.k_proj", 1024, 4096},
        {"self_attn.o_proj", 4096, 4096},      {"self_attn.q_proj", 4096, 4096},
        {"self_attn.v_proj", 1024, 4096}};
    enum { OUTER = sizeof outer / sizeof *outer, INNER = sizeof inner / sizeof *inner };
    const part *p = i < OUTER ? &outer[i] : &inner[(i - OUTER) % INNER];
    if (i < OUTER)
        snprintf(e->name, sizeof e->name, "%s.weight", p->name);
    else
        snprintf(e->name, sizeof e->name, "model.layers.%zu.%s.weight", (i - OUTER) / INNER,
                 p->name);
    e->dtype = "BF16";
    e->width = 2;
    e->shape[0] = p->rows;
    e->shape[1] = p->columns;
    e->rank = p->columns ? 2 : 1;
}

/* The reference sorts by element width, widest first, then by name. */
static int in_file_order(const void *left, const void *right) {
    const entry *a = left, *b = right;
    if (a->width != b->width)
        return a->width > b->width ? -1 : 1;
    return strcmp(a->name, b->name);
}

static int by_entry_name(const void *left, const void *right) {
    return strcmp(((const entry *)left)->name, ((const entry *)right)->name);
}

/* In the order of the layers. */
static entry *make_entries(enum model_family family, size_t tensors) {
    entry *entries = calloc(tensors ? tensors : 1, sizeof *entries);
    for (size_t i = 0; entries && i < tensors; i++)
        (family == MODEL_LLAMA3_8B ? llama_entry : deepseek_entry)(&entries[i], i);
    return entries;
}

/* One entry of the JSON; returns where its data ends. */
static uint64_t print_entry(FILE *out, const entry *e, uint64_t begin) {
    uint64_t end = begin + e->shape[0] * (e->rank == 2 ? e->shape[1] : 1) * e->width;
    fprintf(out, ",\"%s\":{\"dtype\":\"%s\",\"shape\":[%" PRIu64, e->name, e->dtype, e->shape[0]);
    if (e->rank == 2)
        fprintf(out, ",%" PRIu64, e->shape[1]);
    fprintf(out, "],\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}", begin, end);
    return end;
}

/* Length field, JSON padded with spaces to a multiple of 8, then nothing up to the full length. */
static bool write_model(FILE *out, const entry *entries, size_t tensors, uint64_t *header_bytes) {
    uint64_t end = 0;
    unsigned char length[8];
    /* In large pieces, as downloads and copies write: the page cache then holds large folios. */
    if (setvbuf(out, NULL, _IOFBF, 1 << 22) != 0 || fseeko(out, 8, SEEK_SET) != 0)
        return false;
    fputs("{\"__metadata__\":{\"format\":\"pt\"}", out);
    for (size_t i = 0; i < tensors; i++)
        end = print_entry(out, &entries[i], end);
    fputc('}', out);
    while (ftello(out) % 8 != 0)
        if (fputc(' ', out) == EOF)
            return false;
    off_t data = ftello(out);
    *header_bytes = (uint64_t)data - 8;
    for (unsigned i = 0; i < 8; i++)
        length[i] = (unsigned char)(*header_bytes >> 8 * i);
    return fseeko(out, 0, SEEK_SET) == 0 && fwrite(length, 1, 8, out) == 8 && fflush(out) == 0 &&
           ftruncate(fileno(out), data + (off_t)end) == 0;
}

static bool write_entries(const char *path, entry *entries, size_t tensors,
                          uint64_t *header_bytes) {
    FILE *out = fopen(path, "wb");
    qsort(entries, tensors, sizeof *entries, in_file_order);
    bool good = out && write_model(out, entries, tensors, header_bytes);
    if (!good)
        perror(path);
    if (out && fclose(out) != 0 && good) {
        perror(path);
        good = false;
    }
    if (out && !good)
        unlink(path);
    return good;
}

bool model_file_write(const char *path, enum model_family family, size_t tensors,
                      uint64_t *header_bytes) {
    entry *entries = make_entries(family, tensors);
    bool good = entries && write_entries(path, entries, tensors, header_bytes);
    free(entries);
    return good;
}

void model_shard_name(char out[MODEL_SHARD_NAME], const char *index, size_t shard, size_t shards) {
    snprintf(out, MODEL_SHARD_NAME, "%.*s-%05zu-of-%06zu.safetensors", (int)strcspn(index, "."),
             index, shard + 1, shards);
}

static bool write_index(const char *path, entry *entries, size_t tensors, size_t shards,
                        uint64_t *bytes) {
    char file[MODEL_SHARD_NAME];
    const char *name = strrchr(path, '/') + 1;
    FILE *out = fopen(path, "wb");
    if (!out) {
        perror(path);
        return false;
    }
    qsort(entries, tensors, sizeof *entries, by_entry_name);
    fputs("{\n  \"metadata\": {\n    \"total_size\": 0\n  },\n  \"weight_map\": {\n", out);
    for (size_t i = 0; i < tensors; i++) {
        model_shard_name(file, name, entries[i].shard, shards);
        fprintf(out, "    \"%s\": \"%s\"%s\n", entries[i].name, file, i + 1 < tensors ? "," : "");
    }
    fputs("  }\n}\n", out);
    *bytes = (uint64_t)ftello(out);
    return fclose(out) == 0;
}

bool model_set_write(const char *path, enum model_family family, size_t tensors, size_t shards,
                     uint64_t *header_bytes) {
    const char *slash = strrchr(path, '/');
    int folder = slash ? (int)(slash - path) : 0;
    char name[MODEL_SHARD_NAME], shard_path[1024];
    uint64_t bytes, total = 0;
    entry *entries = make_entries(family, tensors);
    bool good = entries && slash;
    for (size_t s = 0; s < shards && good; s++) {
        size_t first = tensors * s / shards, behind = tensors * (s + 1) / shards;
        for (size_t i = first; i < behind; i++)
            entries[i].shard = s;
        model_shard_name(name, slash + 1, s, shards);
        int len = snprintf(shard_path, sizeof shard_path, "%.*s/%s", folder, path, name);
        good = len > 0 && (size_t)len < sizeof shard_path &&
               write_entries(shard_path, entries + first, behind - first, &bytes);
        total += bytes;
    }
    good = good && write_index(path, entries, tensors, shards, &bytes);
    *header_bytes = total + bytes;
    free(entries);
    return good;
}
