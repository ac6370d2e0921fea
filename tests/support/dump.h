/*
 * Prints a model's header as one line, to compare with the expected one, or with another reader's:
 *
 *     A Tname:dtype:dims:begin:end ... Mkey=value ...
 *
 * Offsets are as in the header. Tensors are sorted by (begin, end, name), metadata by key. In
 * texts, every byte except ASCII letters, digits and "._-" is written as %xx.
 */
#ifndef TENMAP_TESTS_DUMP_H
#define TENMAP_TESTS_DUMP_H

#include "tenmap.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static inline void dump_text(FILE *out, const char *text, size_t len) {
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    for (size_t i = 0; i < len; i++)
        if (text[i] && strchr(plain, text[i]))
            putc(text[i], out);
        else
            fprintf(out, "%%%02x", (unsigned)(unsigned char)text[i]);
}

static inline int dump_bytewise(const char *a, size_t a_len, const char *b, size_t b_len) {
    int order = memcmp(a, b, a_len < b_len ? a_len : b_len);
    return order ? order : (a_len > b_len) - (a_len < b_len);
}

static inline int dump_by_place(const void *a, const void *b) {
    const tenmap_tensor *x = *(const tenmap_tensor *const *)a;
    const tenmap_tensor *y = *(const tenmap_tensor *const *)b;
    if (x->file_offset != y->file_offset)
        return x->file_offset < y->file_offset ? -1 : 1;
    if (x->nbytes != y->nbytes)
        return x->nbytes < y->nbytes ? -1 : 1;
    return dump_bytewise(x->name, x->name_len, y->name, y->name_len);
}

static inline int dump_by_key(const void *a, const void *b) {
    const tenmap_metadata *x = *(const tenmap_metadata *const *)a;
    const tenmap_metadata *y = *(const tenmap_metadata *const *)b;
    return dump_bytewise(x->key, x->key_len, y->key, y->key_len);
}

static inline void dump_tensor(FILE *out, const tenmap_tensor *t, uint64_t data_offset) {
    uint64_t begin = t->file_offset - data_offset;
    fputs(" T", out);
    dump_text(out, t->name, t->name_len);
    fprintf(out, ":%s:", tenmap_dtype_name(t->dtype));
    for (uint32_t d = 0; d < t->rank; d++)
        fprintf(out, d ? ",%llu" : "%llu", (unsigned long long)t->shape[d]);
    fprintf(out, ":%llu:%llu", (unsigned long long)begin, (unsigned long long)(begin + t->nbytes));
}

/* Prints the line without its line end, for a model in one file. */
static inline void dump_model(FILE *out, const tenmap_model *model) {
    size_t count = tenmap_count(model), pairs = tenmap_metadata_count(model);
    const tenmap_tensor **tensors = malloc((count + 1) * sizeof(const tenmap_tensor *));
    const tenmap_metadata **metadata = malloc((pairs + 1) * sizeof(const tenmap_metadata *));
    if (!tensors || !metadata)
        abort();
    for (size_t i = 0; i < count; i++)
        tensors[i] = tenmap_at(model, i);
    for (size_t i = 0; i < pairs; i++)
        metadata[i] = tenmap_metadata_at(model, i);
    qsort(tensors, count, sizeof(const tenmap_tensor *), dump_by_place);
    qsort(metadata, pairs, sizeof(const tenmap_metadata *), dump_by_key);
    putc('A', out);
    for (size_t i = 0; i < count; i++)
        dump_tensor(out, tensors[i], tenmap_shard_at(model, 0)->data_offset);
    for (size_t i = 0; i < pairs; i++) {
        fputs(" M", out);
        dump_text(out, metadata[i]->key, metadata[i]->key_len);
        putc('=', out);
        dump_text(out, metadata[i]->value, metadata[i]->value_len);
    }
    free(tensors);
    free(metadata);
}

#endif
