/* Builds GGUF files for tests exactly as told, valid or not. */
#ifndef TENMAP_TESTS_GGUF_FILES_H
#define TENMAP_TESTS_GGUF_FILES_H

#include "support.h"

/* The header first, then gguf_data. Free with free(out.at). */
typedef struct gguf_file {
    bytes out;
    size_t capacity;
} gguf_file;

static inline void gguf_put(gguf_file *f, const void *data, size_t size) {
    while (f->out.size + size > f->capacity) {
        f->capacity = f->capacity ? f->capacity * 2 : 4096;
        f->out.at = realloc(f->out.at, f->capacity);
        assert_non_null(f->out.at);
    }
    if (size)
        memcpy(f->out.at + f->out.size, data, size);
    f->out.size += size;
}

/* Appends the low `width` bytes, lowest first. */
static inline void gguf_number(gguf_file *f, uint64_t value, size_t width) {
    for (size_t i = 0; i < width; i++) {
        unsigned char byte = (unsigned char)(value >> 8 * i);
        gguf_put(f, &byte, 1);
    }
}

static inline void gguf_text(gguf_file *f, const char *text) {
    gguf_number(f, strlen(text), 8);
    gguf_put(f, text, strlen(text));
}

static inline void gguf_begin(gguf_file *f, uint64_t tensors, uint64_t keys) {
    *f = (gguf_file){{NULL, 0}, 0};
    gguf_put(f, "GGUF", 4);
    gguf_number(f, 3, 4);
    gguf_number(f, tensors, 8);
    gguf_number(f, keys, 8);
}

/* Appends a key and its value, a number of `width` bytes. */
static inline void gguf_pair(gguf_file *f, const char *key, uint32_t type, uint64_t value,
                             size_t width) {
    gguf_text(f, key);
    gguf_number(f, type, 4);
    gguf_number(f, value, width);
}

static inline void gguf_string_pair(gguf_file *f, const char *key, const char *value) {
    gguf_pair(f, key, TENMAP_VALUE_STRING, 0, 0);
    gguf_text(f, value);
}

/* Appends the head of an array; the caller appends its elements. */
static inline void gguf_array(gguf_file *f, uint32_t type, uint64_t count) {
    gguf_number(f, type, 4);
    gguf_number(f, count, 8);
}

/* Appends a row of the tensor table, for a matrix; type is ggml's number. */
static inline void gguf_row(gguf_file *f, const char *name, uint64_t rows, uint64_t columns,
                            uint32_t type, uint64_t offset) {
    gguf_text(f, name);
    gguf_number(f, 2, 4);
    gguf_number(f, columns, 8);
    gguf_number(f, rows, 8);
    gguf_number(f, type, 4);
    gguf_number(f, offset, 8);
}

/* Appends padding, and `size` bytes of the pattern. */
static inline void gguf_data(gguf_file *f, size_t size) {
    while (f->out.size % 32)
        gguf_number(f, 0, 1);
    for (size_t i = 0; i < size; i++) {
        unsigned char byte = pattern_byte(i);
        gguf_put(f, &byte, 1);
    }
}

/* Two tensors, "f" of F32 and "q" of Q4_0, and some metadata. */
static inline bytes gguf_small(void) {
    gguf_file f;
    gguf_begin(&f, 2, 3);
    gguf_string_pair(&f, "general.architecture", "llama");
    gguf_pair(&f, "llama.context_length", TENMAP_VALUE_U32, 4096, 4);
    gguf_pair(&f, "tokenizer.ggml.tokens", TENMAP_VALUE_ARRAY, 0, 0);
    gguf_array(&f, TENMAP_VALUE_STRING, 3);
    gguf_text(&f, "<s>");
    gguf_text(&f, "");
    gguf_text(&f, "a");
    gguf_row(&f, "f", 2, 8, 0, 0);
    gguf_row(&f, "q", 2, 64, 2, 64);
    gguf_data(&f, 64 + 72);
    return f.out;
}

#endif
