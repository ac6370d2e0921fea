/* Builds zip archives, pickles and PyTorch checkpoints for tests exactly as told, valid or not. */
#ifndef TENMAP_TESTS_TORCH_FILES_H
#define TENMAP_TESTS_TORCH_FILES_H

#include "support.h"

/* Bytes that grow. Free with free(b.out.at). */
typedef struct torch_bytes {
    bytes out;
    size_t capacity;
} torch_bytes;

static inline void torch_put(torch_bytes *b, const void *data, size_t size) {
    while (b->out.size + size > b->capacity) {
        b->capacity = b->capacity ? b->capacity * 2 : 4096;
        b->out.at = realloc(b->out.at, b->capacity);
        assert_non_null(b->out.at);
    }
    if (size)
        memcpy(b->out.at + b->out.size, data, size);
    b->out.size += size;
}

#define TORCH_LITERAL(b, text) torch_put(b, text, sizeof(text) - 1)

/* Appends the low `width` bytes, lowest first. */
static inline void torch_number(torch_bytes *b, uint64_t value, size_t width) {
    for (size_t i = 0; i < width; i++) {
        unsigned char byte = (unsigned char)(i < 8 ? value >> 8 * i : 0);
        torch_put(b, &byte, 1);
    }
}

/* Pickles. */

static inline void pickle_text(torch_bytes *b, const char *text) {
    TORCH_LITERAL(b, "X");
    torch_number(b, strlen(text), 4);
    torch_put(b, text, strlen(text));
}

static inline void pickle_int(torch_bytes *b, int64_t value) {
    TORCH_LITERAL(b, "\x8a\x08");
    torch_number(b, (uint64_t)value, 8);
}

static inline void pickle_global(torch_bytes *b, const char *module, const char *name) {
    TORCH_LITERAL(b, "c");
    torch_put(b, module, strlen(module));
    TORCH_LITERAL(b, "\n");
    torch_put(b, name, strlen(name));
    TORCH_LITERAL(b, "\n");
}

/* A tensor of up to two dimensions; a rank over that is an error of the test. */
typedef struct pickle_tensor {
    const char *key;
    int64_t elements, offset, shape[2], strides[2];
    unsigned rank;
    const char *type;  /* of the storage; NULL: FloatStorage */
    const char *dtype; /* NULL: _rebuild_tensor_v2 */
} pickle_tensor;

static inline void pickle_tuple(torch_bytes *b, const int64_t *numbers, unsigned count) {
    TORCH_LITERAL(b, "(");
    for (unsigned i = 0; i < count; i++)
        pickle_int(b, numbers[i]);
    TORCH_LITERAL(b, "t");
}

static inline void pickle_storage(torch_bytes *b, const pickle_tensor *t) {
    TORCH_LITERAL(b, "(");
    pickle_text(b, "storage");
    pickle_global(b, "torch", t->type ? t->type : "FloatStorage");
    pickle_text(b, t->key);
    pickle_text(b, "cpu");
    pickle_int(b, t->elements);
    TORCH_LITERAL(b, "tQ");
}

static inline void pickle_put_tensor(torch_bytes *b, const pickle_tensor *t) {
    pickle_global(b, "torch._utils", t->dtype ? "_rebuild_tensor_v3" : "_rebuild_tensor_v2");
    TORCH_LITERAL(b, "(");
    pickle_storage(b, t);
    pickle_int(b, t->offset);
    pickle_tuple(b, t->shape, t->rank);
    pickle_tuple(b, t->strides, t->rank);
    TORCH_LITERAL(b, "\x89");
    pickle_global(b, "collections", "OrderedDict");
    TORCH_LITERAL(b, ")R");
    if (t->dtype)
        pickle_global(b, "torch", t->dtype);
    TORCH_LITERAL(b, "tR");
}

/* A vector of `elements` floats that fills its storage. */
static inline void pickle_vector(torch_bytes *b, const char *key, int64_t elements) {
    pickle_tensor t = {
        .key = key, .elements = elements, .shape = {elements}, .strides = {1}, .rank = 1};
    pickle_put_tensor(b, &t);
}

/* Zip archives. */

/* One entry, and how its headers lie about it. Fields that are 0 tell the truth. */
typedef struct zip_file {
    const char *name, *local_name; /* NULL: the same */
    const void *data;
    size_t size;
    uint32_t flags, method, local_flags, local_size, directory_size, crc, local_crc;
    bool descriptor, zip64; /* sizes follow the data; sizes and offset in 64 bits */
    uint64_t moved;         /* added to the offset in the directory */
    size_t padding;         /* of the local header's extra field, at least 4 if not 0 */
} zip_file;

/* What is unusual about the archive as a whole. */
typedef struct zip_settings {
    const char *prefix, *comment;
    size_t comment_len;
    int64_t more_entries, directory_moved; /* added to what the end record says */
    bool zip64;
    uint64_t zip64_count; /* added to the count of the record of 64 bits */
} zip_settings;

static inline void zip_local(torch_bytes *b, const zip_file *f) {
    const char *name = f->local_name ? f->local_name : f->name;
    uint32_t flags = f->flags | (f->descriptor ? 8 : 0);
    uint64_t size = f->descriptor ? 0 : f->local_size ? f->local_size : f->size;
    TORCH_LITERAL(b, "PK\3\4");
    torch_number(b, 0, 2);
    torch_number(b, flags ^ f->local_flags, 2);
    torch_number(b, f->method, 2);
    torch_number(b, 0, 4);
    torch_number(b, f->local_crc ? f->local_crc : f->crc, 4);
    torch_number(b, f->zip64 ? UINT32_MAX : size, 4);
    torch_number(b, f->zip64 ? UINT32_MAX : size, 4);
    torch_number(b, strlen(name), 2);
    torch_number(b, (f->zip64 ? 20 : 0) + f->padding, 2);
    torch_put(b, name, strlen(name));
    if (f->zip64) {
        TORCH_LITERAL(b, "\1\0\20\0");
        torch_number(b, size, 8);
        torch_number(b, size, 8);
    }
    if (f->padding) {
        TORCH_LITERAL(b, "FB");
        torch_number(b, f->padding - 4, 2);
        for (size_t i = 4; i < f->padding; i++)
            TORCH_LITERAL(b, "Z");
    }
    torch_put(b, f->data, f->size);
    if (f->descriptor) {
        TORCH_LITERAL(b, "PK\7\10");
        torch_number(b, f->crc, 4);
        torch_number(b, f->size, 4);
        torch_number(b, f->size, 4);
    }
}

static inline void zip_record(torch_bytes *b, const zip_file *f, uint64_t at) {
    uint64_t size = f->directory_size ? f->directory_size : f->size;
    TORCH_LITERAL(b, "PK\1\2");
    torch_number(b, 0, 4);
    torch_number(b, f->flags | (f->descriptor ? 8 : 0), 2);
    torch_number(b, f->method, 2);
    torch_number(b, 0, 4);
    torch_number(b, f->crc, 4);
    torch_number(b, f->zip64 ? UINT32_MAX : size, 4);
    torch_number(b, f->zip64 ? UINT32_MAX : size, 4);
    torch_number(b, strlen(f->name), 2);
    torch_number(b, f->zip64 ? 28 : 0, 2);
    torch_number(b, 0, 10);
    torch_number(b, f->zip64 ? UINT32_MAX : at, 4);
    torch_put(b, f->name, strlen(f->name));
    if (f->zip64) {
        TORCH_LITERAL(b, "\1\0\30\0");
        torch_number(b, size, 8);
        torch_number(b, size, 8);
        torch_number(b, at, 8);
    }
}

static inline bytes make_zip(const zip_file *files, size_t count, const zip_settings *given) {
    static const zip_settings usual = {.zip64 = false};
    const zip_settings *set = given ? given : &usual;
    torch_bytes b = {{NULL, 0}, 0};
    uint64_t at[64];
    assert_true(count <= COUNT(at));
    if (set->prefix)
        torch_put(&b, set->prefix, strlen(set->prefix));
    for (size_t i = 0; i < count; i++) {
        at[i] = b.out.size + files[i].moved;
        zip_local(&b, &files[i]);
    }
    uint64_t directory = b.out.size, entries = count + (uint64_t)set->more_entries;
    for (size_t i = 0; i < count; i++)
        zip_record(&b, &files[i], at[i]);
    uint64_t end = b.out.size, size = end - directory;
    if (set->zip64) {
        TORCH_LITERAL(&b, "PK\6\6");
        torch_number(&b, 44, 8);
        torch_number(&b, 0, 12);
        torch_number(&b, count + set->zip64_count, 8);
        torch_number(&b, count + set->zip64_count, 8);
        torch_number(&b, size, 8);
        torch_number(&b, directory, 8);
        TORCH_LITERAL(&b, "PK\6\7");
        torch_number(&b, 0, 4);
        torch_number(&b, end, 8);
        torch_number(&b, 1, 4);
    }
    TORCH_LITERAL(&b, "PK\5\6");
    torch_number(&b, 0, 4);
    torch_number(&b, set->zip64 ? 0xffff : entries, 2);
    torch_number(&b, set->zip64 ? 0xffff : entries, 2);
    torch_number(&b, size, 4);
    torch_number(&b, directory + (uint64_t)set->directory_moved, 4);
    torch_number(&b, set->comment_len, 2);
    torch_put(&b, set->comment, set->comment_len);
    return b.out;
}

/* Checkpoints. */

/* A checkpoint of a pickle, and of storages "0", "1", ... of `size` bytes each. */
static inline bytes make_checkpoint(torch_bytes *pickle, size_t storages, size_t size) {
    static const char *const names[] = {"m/data/0", "m/data/1", "m/data/2", "m/data/3"};
    zip_file files[8] = {{.name = "m/data.pkl", .data = pickle->out.at, .size = pickle->out.size},
                         {.name = "m/byteorder", .data = "little", .size = 6}};
    unsigned char *data = malloc(size + 1);
    assert_non_null(data);
    assert_true(storages <= COUNT(names));
    for (size_t i = 0; i < size; i++)
        data[i] = pattern_byte(i);
    for (size_t i = 0; i < storages; i++)
        files[2 + i] = (zip_file){
            .name = names[i], .data = data, .size = size, .padding = 32, .descriptor = 1};
    bytes out = make_zip(files, 2 + storages, NULL);
    free(data);
    free(pickle->out.at);
    *pickle = (torch_bytes){{NULL, 0}, 0};
    return out;
}

/* Checkpoints from before torch 1.6. */

/* The pickles around the values, and the storages. What is NULL is as torch writes it. */
typedef struct legacy_settings {
    const char *magic, *version, *system, *keys;
    size_t magic_len, version_len, system_len, keys_len;
    const uint64_t *counts; /* of the storages; NULL: of floats */
    const char *behind;     /* the last storage */
} legacy_settings;

#define LEGACY_MAGIC "\x80\2\x8a\nl\xfc\x9c\x46\xf9 j\xa8P\x19."
#define LEGACY_VERSION "\x80\2M\xe9\3."
#define LEGACY_SYSTEM                                                                              \
    "\x80\2}(X\x10\0\0\0protocol_versionM\xe9\3X\r\0\0\0little_endian\x88X\n\0\0\0type_sizes}u."

static inline void legacy_part(torch_bytes *b, const char *given, size_t len, const char *usual,
                               size_t usual_len) {
    torch_put(b, given ? given : usual, given ? len : usual_len);
}

/* Values and storages "0", "1", ... of `size` bytes each. Frees the values. */
static inline bytes make_legacy(torch_bytes *values, size_t storages, size_t size,
                                const legacy_settings *given) {
    static const legacy_settings usual = {.magic = NULL};
    const legacy_settings *set = given ? given : &usual;
    torch_bytes b = {{NULL, 0}, 0};
#define PART(part, text) legacy_part(&b, set->part, set->part##_len, text, sizeof(text) - 1)
    PART(magic, LEGACY_MAGIC);
    PART(version, LEGACY_VERSION);
    PART(system, LEGACY_SYSTEM);
#undef PART
    torch_put(&b, values->out.at, values->out.size);
    if (set->keys) {
        torch_put(&b, set->keys, set->keys_len);
    } else {
        TORCH_LITERAL(&b, "\x80\2](");
        for (size_t i = 0; i < storages; i++)
            pickle_text(&b, (char[]){(char)('0' + i), '\0'});
        TORCH_LITERAL(&b, "e.");
    }
    for (size_t i = 0; i < storages; i++) {
        torch_number(&b, set->counts ? set->counts[i] : size / 4, 8);
        for (size_t k = 0; k < size; k++) {
            unsigned char byte = pattern_byte(k);
            torch_put(&b, &byte, 1);
        }
    }
    if (set->behind)
        torch_put(&b, set->behind, strlen(set->behind));
    free(values->out.at);
    *values = (torch_bytes){{NULL, 0}, 0};
    return b.out;
}

#endif
