/*
 * Writes hostile and huge files, one kind per case, and opens them. scripts/linear.sh counts the
 * instructions of the opening, or of a command of the tool, for n and 2n of each.
 *
 *     linear list [DIVISOR]        the cases: name, n divided by DIVISOR, allowed ratio, and for
 *                                  the tool "terminal" or "pipe", exit code and command line
 *     linear make CASE N FOLDER    writes the files
 *     linear open CASE FOLDER      opens them, checks the verdict, prints what memory it took
 *     linear spend CODE PROGRAM... runs it, checks its exit code, prints what memory it took
 */
#define _GNU_SOURCE
#define _FILE_OFFSET_BITS 64
#include "linear_pickles.h"
#include "tenmap.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static void die(const char *what) {
    fprintf(stderr, "linear: %s\n", what);
    exit(1);
}

/* One tensor of `size` bytes at `begin`, after a comma unless it is the first. */
static void put_tensor(FILE *f, bool first, uint64_t begin, uint64_t size, const char *format,
                       ...) {
    char name[256];
    va_list args;
    va_start(args, format);
    vsnprintf(name, sizeof name, format, args);
    va_end(args);
    fprintf(f, "%s\"%s\":{\"dtype\":\"U8\",\"shape\":[%llu],\"data_offsets\":[%llu,%llu]}",
            first ? "" : ",", name, (unsigned long long)size, (unsigned long long)begin,
            (unsigned long long)(begin + size));
}

/* Each writes the text between the header's braces and returns the number of data bytes. */
typedef uint64_t write_case(FILE *f, size_t n);

static uint64_t as_usual(FILE *f, size_t n) {
    for (size_t i = 0; i < n; i++)
        put_tensor(f, i == 0, i, 1, "model.layers.%zu.experts.%zu.weight", i / 256, i % 256);
    return n;
}

/* A base and its LoRA in one file, with underscores for the dots of the base's names. */
static uint64_t adapted(FILE *f, size_t n) {
    static const char *const begin[] = {"layers.", "lora_unet_layers_", "lora_unet_layers_"};
    static const char *const end[] = {".m.weight", "_m.lora_down.weight", "_m.lora_up.weight"};
    size_t at = 0;
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < 3; k++, at += 4)
            fprintf(f,
                    "%s\"%s%zu%s\":{\"dtype\":\"F32\",\"shape\":[1,1],"
                    "\"data_offsets\":[%zu,%zu]}",
                    at ? "," : "", begin[k], i, end[k], at, at + 4);
    return at;
}

/* Empty tensors, all at one place, with the shortest possible names. */
static uint64_t tiny_tensors(FILE *f, size_t n) {
    for (size_t i = 0; i < n; i++)
        fprintf(f, "%s\"%zx\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}",
                i ? "," : "", i);
    return 0;
}

/* What the quick pass does not handle: white space, and other orders of the fields. */
static uint64_t white_space(FILE *f, size_t n) {
    for (size_t i = 0; i < n; i++)
        fprintf(
            f,
            "%s\n\t\"t%zu\" : {\"shape\": [1 ], \"data_offsets\" :[%zu , %zu],\r\"dtype\":\"I8\"}",
            i ? "," : "", i, i, i + 1);
    return n;
}

/* The usual form except for the last entry, so that everything is read twice. */
static uint64_t odd_at_the_end(FILE *f, size_t n) {
    as_usual(f, n);
    fprintf(f, ", \"last\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[%zu,%zu]}", n, n);
    return n;
}

static uint64_t same_name_at_the_end(FILE *f, size_t n) {
    as_usual(f, n);
    put_tensor(f, false, n, 0, "model.layers.0.experts.0.weight");
    return n;
}

static uint64_t backwards(FILE *f, size_t n) {
    for (size_t i = n; i-- > 0;)
        put_tensor(f, i == n - 1, i, 1, "layers.%zu.weight", i);
    return n;
}

/* Offsets in the order of a generator that visits every number below 2^k once. */
static uint64_t shuffled(FILE *f, size_t n) {
    size_t size = 1, at = 1;
    while (size < n)
        size *= 2;
    for (size_t i = 0, written = 0; i < size; i++, at = (at * 5 + 12345) % size)
        if (at < n)
            put_tensor(f, written++ == 0, at, 1, "layers.%zu.weight", at);
    return n;
}

/* Short entries after long ones, so that the estimate of their number is far too low. */
static uint64_t long_names_first(FILE *f, size_t n) {
    for (size_t i = 0; i < 64; i++)
        put_tensor(f, i == 0, i, 1, "%0200zu", i);
    for (size_t i = 64; i < n; i++)
        put_tensor(f, false, i, 1, "%zu", i);
    return n;
}

/*
 * Names that are equal except for eight bytes, which would collide if the hash's key were known:
 * see test_names.c.
 */
static uint64_t names_made_to_collide(FILE *f, size_t n) {
    for (size_t i = 0; i < n; i++)
        put_tensor(f, i == 0, i, 1, "%s%08zutail-of-all-names",
                   "\\u0001\\u0001\\u0001\\u0001\\u0001\\u0001\\u0001\\u0001", i);
    return n;
}

/*
 * n bytes of names that differ only in their last bytes, and are longer than the lengths that the
 * index keeps.
 */
static uint64_t long_equal_beginnings(FILE *f, size_t n) {
    enum { LENGTH = 70000 };
    char *name = malloc(LENGTH + 32);
    if (!name)
        die("no memory");
    memset(name, 'n', LENGTH);
    for (size_t i = 0; i < n / LENGTH; i++) {
        snprintf(name + LENGTH, 32, "%zu", i);
        fprintf(f, "%s\"%s\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}", i ? "," : "",
                name);
    }
    free(name);
    return 0;
}

static uint64_t escaped_name(FILE *f, size_t n) {
    fputc('"', f);
    for (size_t i = 0; i < n; i++)
        fputs(i % 2 ? "\\n" : "\\u00e9", f);
    fputs("\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}", f);
    return 1;
}

static uint64_t metadata_keys(FILE *f, size_t n) {
    fputs("\"__metadata__\":{", f);
    for (size_t i = 0; i < n; i++)
        fprintf(f, "%s\"%zx\":\"\"", i ? "," : "", i);
    fputc('}', f);
    return 0;
}

static uint64_t one_shape(FILE *f, size_t n) {
    fputs("\"t\":{\"dtype\":\"U8\",\"shape\":[1", f);
    for (size_t i = 1; i < n; i++)
        fputs(",1", f);
    fputs("],\"data_offsets\":[0,1]}", f);
    return 1;
}

/*
 * A tensor of an unknown dtype: its shape is kept twice, which takes the most memory for a header's
 * size.
 */
static uint64_t one_shape_unknown(FILE *f, size_t n) {
    fputs("\"t\":{\"dtype\":\"X\",\"shape\":[1", f);
    for (size_t i = 1; i < n; i++)
        fputs(",1", f);
    fputs("],\"data_offsets\":[0,1]}", f);
    return 1;
}

static uint64_t shapes_of_10000(FILE *f, size_t n) {
    for (size_t i = 0; i < n; i++) {
        fprintf(f, "%s\"t%zu\":{\"dtype\":\"U8\",\"shape\":[1", i ? "," : "", i);
        for (size_t d = 1; d < 10000; d++)
            fputs(",1", f);
        fprintf(f, "],\"data_offsets\":[%zu,%zu]}", i, i + 1);
    }
    return n;
}

/* To the depth of 127, of which two are the header's own. */
static uint64_t nested_fields(FILE *f, size_t n) {
    for (size_t i = 0; i < n; i++) {
        fprintf(f, "%s\"t%zu\":{\"dtype\":\"U8\",\"x\":", i ? "," : "", i);
        for (int d = 0; d < 125; d++)
            fputs(d % 2 ? "[" : "{\"k\":", f);
        fputs("1", f);
        for (int d = 125; d-- > 0;)
            fputs(d % 2 ? "]" : "}", f);
        fprintf(f, ",\"shape\":[1],\"data_offsets\":[%zu,%zu]}", i, i + 1);
    }
    return n;
}

static uint64_t one_field(FILE *f, size_t n) {
    fputs("\"t\":{\"dtype\":\"U8\",\"x\":[0.", f);
    for (size_t i = 0; i < n / 2; i++)
        fputc('7', f);
    for (size_t i = 0; i < n / 8; i++)
        fputs(",{},[]", f);
    fputs("],\"shape\":[1],\"data_offsets\":[0,1]}", f);
    return 1;
}

static uint64_t unknown_dtypes(FILE *f, size_t n) {
    for (size_t i = 0; i < n; i++)
        fprintf(f, "%s\"t%zu\":{\"dtype\":\"X%zu\",\"shape\":[1,1],\"data_offsets\":[%zu,%zu]}",
                i ? "," : "", i, i, i, i + 1);
    return n;
}

/* For the tool: what it shows, sorts and compares. */

/* A name too wide for any terminal, with n accents on its first and on its last letter. */
static uint64_t accents(FILE *f, size_t n) {
    fputs("\"e", f);
    for (size_t i = 0; i < 2 * n; i++)
        fprintf(f, "\xcc\x81%*s", i == n ? 200 : 0, "");
    fputs("\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}", f);
    return 1;
}

/* One cell of each column that a file can make wide, above n rows that are not. */
static uint64_t one_wide_row(FILE *f, size_t n) {
    fputc('"', f);
    for (size_t i = 0; i < n; i++)
        fputc('n', f);
    fputs("\":{\"dtype\":\"X", f);
    for (size_t i = 0; i < n; i++)
        fputc('x', f);
    fputs("\",\"shape\":[1", f);
    for (size_t i = 1; i < n; i++)
        fputs(",1", f);
    fputs("],\"data_offsets\":[0,1]}", f);
    for (size_t i = 0; i < n; i++)
        put_tensor(f, false, i + 1, 1, "%zu", i);
    return n + 1;
}

/* A tree as deep as the root of n, with a leaf at each depth. */
static uint64_t deep_tree(FILE *f, size_t n) {
    size_t i = 0;
    for (size_t bytes = 0; bytes < n; bytes += 2 * i++) {
        fprintf(f, "%s\"", i ? "," : "");
        for (size_t d = 0; d < i; d++)
            fputs("0.", f);
        fprintf(f, "1\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[%zu,%zu]}", i, i + 1);
    }
    return i;
}

/* Two names of n parts each, which differ in the last. */
static uint64_t long_chain(FILE *f, size_t n) {
    for (size_t i = 0; i < 2; i++) {
        fputs(i ? ",\"" : "\"", f);
        for (size_t d = 0; d < n; d++)
            fputs("a.", f);
        fprintf(f, "%zu\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[%zu,%zu]}", i, i,
                i + 1);
    }
    return 2;
}

/* A dimension of a million times n, and no elements. */
static uint64_t empty_shape(FILE *f, size_t n) {
    fprintf(f, "\"t\":{\"dtype\":\"U8\",\"shape\":[%zu000000,0],\"data_offsets\":[0,0]}", n);
    return 0;
}

static uint64_t one_matrix(FILE *f, size_t n) {
    (void)n;
    fputs("\"m.weight\":{\"dtype\":\"F32\",\"shape\":[32,32],\"data_offsets\":[0,4096]}", f);
    return 4096;
}

/* n links are made to it: tensors that are told apart by their sizes. */
static uint64_t linked(FILE *f, size_t n) {
    enum { TENSORS = 300 };
    uint64_t at = 0;
    (void)n;
    for (size_t i = 1; i <= TENSORS; at += i++)
        put_tensor(f, i == 1, at, i, "t%zu", i);
    return at;
}

/* One dtype and one shape, and as many sizes as there are tensors. */
static uint64_t unknown_sizes(FILE *f, size_t n) {
    uint64_t at = 0;
    for (size_t i = 0; i < n; at += i++)
        fprintf(f, "%s\"t%zu\":{\"dtype\":\"X\",\"shape\":[1],\"data_offsets\":[%llu,%llu]}",
                i ? "," : "", i, (unsigned long long)at, (unsigned long long)(at + i));
    return at;
}

static uint64_t one_letter(FILE *f, size_t n) {
    fputc('"', f);
    for (size_t i = 0; i < n; i++)
        fputc('a', f);
    fputs("\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}", f);
    return 1;
}

/* The last of many tensors is incomplete; the message names the first incomplete one. */
static uint64_t truncated(FILE *f, size_t n) {
    return as_usual(f, n) - 1;
}

/* A weight of n columns whose groups are listed in random order; make_listed writes the list. */
enum { LISTED_ROWS = 16, LISTED_GROUP = 32, LISTED_SHAPE = 16 };

static uint64_t listed_columns(size_t n) {
    return (n + LISTED_GROUP - 1) / LISTED_GROUP * LISTED_GROUP;
}

static uint64_t listed_groups(FILE *f, size_t n) {
    uint64_t columns = listed_columns(n), at = 0;
    const struct {
        const char *name, *dtype;
        uint64_t shape[2], bytes;
    } parts[] = {{"b.weight_packed", "I32", {LISTED_ROWS, columns / 8}, LISTED_ROWS * columns / 2},
                 {"b.weight_scale", "F16", {LISTED_ROWS, columns / LISTED_GROUP}, columns},
                 {"b.weight_shape", "I64", {2, 0}, LISTED_SHAPE},
                 {"b.weight_g_idx", "I32", {columns, 0}, 4 * columns}};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        char second[32] = "";
        if (parts[i].shape[1])
            snprintf(second, sizeof second, ",%llu", (unsigned long long)parts[i].shape[1]);
        fprintf(f, "%s\"%s\":{\"dtype\":\"%s\",\"shape\":[%llu%s],\"data_offsets\":[%llu,%llu]}",
                i ? "," : "", parts[i].name, parts[i].dtype, (unsigned long long)parts[i].shape[0],
                second, (unsigned long long)at, (unsigned long long)(at + parts[i].bytes));
        at += parts[i].bytes;
    }
    return at;
}

/* GGUF: these write the whole file except its data. */

static void put_little(FILE *f, uint64_t value, int width) {
    for (int i = 0; i < width; i++)
        fputc((int)(value >> 8 * i & 0xff), f);
}

static void put_string(FILE *f, const char *text) {
    put_little(f, strlen(text), 8);
    fputs(text, f);
}

static void put_gguf(FILE *f, uint64_t tensors, uint64_t keys) {
    fputs("GGUF", f);
    put_little(f, 3, 4);
    put_little(f, tensors, 8);
    put_little(f, keys, 8);
}

static void put_array(FILE *f, uint32_t type, uint64_t count) {
    put_little(f, type, 4);
    put_little(f, count, 8);
}

static uint64_t gguf_vocabulary(FILE *f, size_t n) {
    put_gguf(f, 0, 1);
    put_string(f, "tokenizer.ggml.tokens");
    put_little(f, TENMAP_VALUE_ARRAY, 4);
    put_array(f, TENMAP_VALUE_STRING, n);
    for (size_t i = 0; i < n; i++) {
        char word[32];
        snprintf(word, sizeof word, "w%zu", i);
        put_string(f, word);
    }
    return 0;
}

static uint64_t gguf_keys(FILE *f, size_t n) {
    put_gguf(f, 0, n);
    for (size_t i = 0; i < n; i++) {
        char key[32];
        snprintf(key, sizeof key, "k%zu", i);
        put_string(f, key);
        put_little(f, TENMAP_VALUE_F64, 4);
        put_little(f, UINT64_C(0x3fd5555555555555) + i, 8);
    }
    return 0;
}

/* Empty arrays in an array, 12 bytes each. */
static uint64_t gguf_nested(FILE *f, size_t n) {
    put_gguf(f, 0, 1);
    put_string(f, "k");
    put_little(f, TENMAP_VALUE_ARRAY, 4);
    put_array(f, TENMAP_VALUE_ARRAY, n);
    for (size_t i = 0; i < n; i++)
        put_array(f, TENMAP_VALUE_ARRAY, 0);
    return 0;
}

static uint64_t gguf_tensors(FILE *f, size_t n) {
    put_gguf(f, n, 0);
    for (size_t i = 0; i < n; i++) {
        char name[64];
        snprintf(name, sizeof name, "blk.%zu.ffn_down.%zu.weight", i / 256, i % 256);
        put_string(f, name);
        put_little(f, 1, 4);
        put_little(f, 32, 8);
        put_little(f, 2, 4); /* Q4_0: 18 bytes, padded to 32 */
        put_little(f, 32 * i, 8);
    }
    return 32 * n + (32 - (uint64_t)ftello(f) % 32) % 32;
}

/* The last row's data comes first, so that all must be sorted. */
static uint64_t gguf_backwards(FILE *f, size_t n) {
    put_gguf(f, n, 0);
    for (size_t i = 0; i < n; i++) {
        char name[64];
        snprintf(name, sizeof name, "t%zu", i);
        put_string(f, name);
        put_little(f, 1, 4);
        put_little(f, 8, 8);
        put_little(f, 0, 4);
        put_little(f, 32 * (n - 1 - i), 8);
    }
    return 32 * n + (32 - (uint64_t)ftello(f) % 32) % 32;
}

/* NumPy files: these write the whole file. */

#define NPY_DICT "{'descr': '<f4', 'fortran_order': True, 'shape': (0, 3, ), }\n"

enum { NPY_BYTES = 10 + sizeof NPY_DICT - 1, NPZ_NAME = 12, NPZ_LOCAL = 30, NPZ_RECORD = 46 };

/* What a local header and an entry of the directory both have. */
static void put_npz_fields(FILE *f) {
    for (int i = 0; i < 3; i++) /* flags, method, time; checksum */
        put_little(f, 0, 4);
    put_little(f, NPY_BYTES, 4);
    put_little(f, NPY_BYTES, 4);
    put_little(f, NPZ_NAME, 2);
    put_little(f, 0, 2);
}

/* The directory lists the entries backwards, so that all must be sorted. */
static uint64_t npz_arrays(FILE *f, size_t n) {
    const uint64_t entry = NPZ_LOCAL + NPZ_NAME + NPY_BYTES, directory = entry * n;
    for (size_t i = 0; i < n; i++) {
        fputs("PK\3\4", f);
        put_little(f, 0, 2);
        put_npz_fields(f);
        fprintf(f, "w%07zu.npy\x93NUMPY\1%c%c%c" NPY_DICT, i % 10000000, 0,
                (int)sizeof NPY_DICT - 1, 0);
    }
    for (size_t i = n; i-- > 0;) {
        fputs("PK\1\2", f);
        put_little(f, 0, 4);
        put_npz_fields(f);
        put_little(f, 0, 5);
        put_little(f, 0, 5);
        put_little(f, entry * i, 4);
        fprintf(f, "w%07zu.npy", i % 10000000);
    }
    fputs("PK\6\6", f);
    put_little(f, 44, 8);
    put_little(f, 0, 4);
    put_little(f, 0, 8);
    put_little(f, n, 8);
    put_little(f, n, 8);
    put_little(f, (NPZ_RECORD + NPZ_NAME) * (uint64_t)n, 8);
    put_little(f, directory, 8);
    fputs("PK\6\7", f);
    put_little(f, 0, 4);
    put_little(f, directory + (NPZ_RECORD + NPZ_NAME) * (uint64_t)n, 8);
    put_little(f, 1, 4);
    fputs("PK\5\6", f);
    put_little(f, 0, 4);
    put_little(f, UINT32_MAX, 4);
    put_little(f, UINT32_MAX, 4);
    put_little(f, UINT32_MAX, 4);
    put_little(f, 0, 2);
    return 0;
}

static uint64_t npy_spaces(FILE *f, size_t n) {
    fprintf(f, "\x93NUMPY\2%c", 0);
    put_little(f, sizeof NPY_DICT - 1 + n, 4);
    fputs(NPY_DICT, f);
    for (size_t i = 0; i < n; i++)
        fputc(' ', f);
    return 0;
}

/* Other files beside model.safetensors, or instead of it. */
enum {
    ALONE,
    LISTED,
    CONFIG,
    LONG_KEY,
    LINKS,
    INDEX,
    INDEX_LISTS_MORE,
    FOLDER,
    GGUF,
    TORCH,
    LEGACY,
    NUMPY
};

enum { PIPE, TERMINAL };

static const struct linear_case {
    const char *name;
    write_case *write;
    size_t n;
    double ratio; /* at most; above 2.2 if sorting may cost a logarithm */
    uint32_t flags;
    int beside;
    tenmap_status status;
    /* For the tool, in the folder of model.safetensors; %words is n keys with a value each. */
    int where, code;
    const char *command;
} cases[] = {
    {"tensors-as-usual", as_usual, 500000, 2.2, 0, ALONE, TENMAP_OK},
    {"tiny-tensors", tiny_tensors, 900000, 2.2, 0, ALONE, TENMAP_OK},
    {"white-space", white_space, 400000, 2.2, 0, ALONE, TENMAP_OK},
    {"gguf-vocabulary", gguf_vocabulary, 500000, 2.3, 0, GGUF, TENMAP_OK},
    {"gguf-keys", gguf_keys, 200000, 2.2, 0, GGUF, TENMAP_OK},
    {"gguf-nested", gguf_nested, 500000, 2.3, 0, GGUF, TENMAP_OK},
    {"gguf-tensors", gguf_tensors, 200000, 2.2, 0, GGUF, TENMAP_OK},
    {"gguf-backwards", gguf_backwards, 200000, 2.3, 0, GGUF, TENMAP_OK},
    {"torch-memos", pickle_memos, 25000000, 2.2, 0, TORCH, TENMAP_OK},
    {"torch-gets", pickle_gets, 25000000, 2.2, 0, TORCH, TENMAP_OK},
    {"torch-tuples", pickle_tuples, 50000000, 2.2, 0, TORCH, TENMAP_ERR_LIMIT},
    {"torch-nested", pickle_nested, 17000000, 2.2, 0, TORCH, TENMAP_ERR_LIMIT},
    {"torch-string", pickle_string, 50000000, 2.2, 0, TORCH, TENMAP_OK},
    {"torch-tensors", pickle_tensors, 1000000, 2.3, 0, TORCH, TENMAP_OK},
    {"torch-values", pickle_values, 2500000, 2.2, 0, TORCH, TENMAP_OK},
    {"torch-keys", pickle_keys, 12500000, 2.2, 0, TORCH, TENMAP_OK},
    {"torch-alternating", pickle_alternating, 5000000, 2.2, 0, TORCH, TENMAP_OK},
    {"torch-storages", pickle_storages, 800000, 2.3, 0, TORCH, TENMAP_OK},
    {"torch-copies", pickle_copies, 5000000, 2.2, 0, TORCH, TENMAP_ERR_LIMIT},
    {"legacy-memos", pickle_memos, 25000000, 2.2, 0, LEGACY, TENMAP_OK},
    {"legacy-gets", pickle_gets, 25000000, 2.2, 0, LEGACY, TENMAP_OK},
    {"legacy-tuples", pickle_tuples, 50000000, 2.2, 0, LEGACY, TENMAP_ERR_LIMIT},
    {"legacy-nested", pickle_nested, 17000000, 2.2, 0, LEGACY, TENMAP_ERR_LIMIT},
    {"legacy-string", pickle_string, 50000000, 2.2, 0, LEGACY, TENMAP_OK},
    {"legacy-tensors", pickle_tensors, 1000000, 2.3, 0, LEGACY, TENMAP_OK},
    {"legacy-values", pickle_values, 2500000, 2.2, 0, LEGACY, TENMAP_OK},
    {"legacy-storages", pickle_storages, 800000, 2.3, 0, LEGACY, TENMAP_OK},
    {"legacy-references", pickle_references, 12500000, 2.2, 0, LEGACY, TENMAP_OK},
    {"legacy-views", pickle_views, 1600000, 2.3, 0, LEGACY, TENMAP_OK},
    {"npz-arrays", npz_arrays, 200000, 2.3, 0, NUMPY, TENMAP_OK},
    {"npy-spaces", npy_spaces, 25000000, 2.2, 0, NUMPY, TENMAP_OK},
    {"odd-at-the-end", odd_at_the_end, 400000, 2.2, 0, ALONE, TENMAP_OK},
    {"same-name-at-the-end", same_name_at_the_end, 400000, 2.2, 0, ALONE, TENMAP_ERR_FORMAT},
    {"offsets-backwards", backwards, 400000, 2.3, 0, ALONE, TENMAP_OK},
    {"offsets-shuffled", shuffled, 400000, 2.3, 0, ALONE, TENMAP_OK},
    {"long-names-first", long_names_first, 400000, 2.2, 0, ALONE, TENMAP_OK},
    {"colliding-names", names_made_to_collide, 300000, 2.2, 0, ALONE, TENMAP_OK},
    {"long-equal-beginnings", long_equal_beginnings, 49000000, 2.2, 0, ALONE, TENMAP_OK},
    {"escaped-name", escaped_name, 10000000, 2.2, 0, ALONE, TENMAP_OK},
    {"metadata-keys", metadata_keys, 500000, 2.2, 0, ALONE, TENMAP_OK},
    {"dims-of-one-tensor", one_shape, 5000000, 2.2, 0, ALONE, TENMAP_OK},
    {"dims-of-unknown-dtype", one_shape_unknown, 5000000, 2.2, TENMAP_OPEN_LENIENT, ALONE,
     TENMAP_OK},
    {"tensors-of-10000-dims", shapes_of_10000, 500, 2.2, 0, ALONE, TENMAP_OK},
    {"fields-nested-to-127", nested_fields, 50000, 2.2, 0, ALONE, TENMAP_OK},
    {"one-unknown-field", one_field, 20000000, 2.2, 0, ALONE, TENMAP_OK},
    {"unknown-dtypes", unknown_dtypes, 400000, 2.2, TENMAP_OPEN_LENIENT, ALONE, TENMAP_OK},
    {"truncated", truncated, 400000, 2.2, 0, ALONE, TENMAP_ERR_FORMAT},
    {"index", as_usual, 200000, 2.2, 0, INDEX, TENMAP_OK},
    {"index-lists-more", as_usual, 200000, 2.2, 0, INDEX_LISTS_MORE, TENMAP_ERR_FORMAT},
    {"folder", NULL, 10000, 2.3, 0, FOLDER, TENMAP_ERR_NOT_FOUND},
    {"groups-in-no-order", listed_groups, 60000, 2.2, TENMAP_OPEN_DEQUANTIZE, LISTED, TENMAP_OK},
#define ON(where, code, command) 0, ALONE, TENMAP_OK, where, code, command " model.safetensors"
    {"ls-accents", accents, 400000, 2.2, ON(TERMINAL, 0, "ls")},
    {"ls-wide-row", one_wide_row, 50000, 2.2, ON(TERMINAL, 0, "ls --lenient")},
    {"ls-wide-row-piped", one_wide_row, 50000, 2.2, ON(PIPE, 0, "ls --lenient -l")},
    {"ls-by-name", shuffled, 50000, 2.3, ON(PIPE, 0, "ls")},
    {"ls-glob", one_letter, 500000, 2.2, ON(PIPE, 3, "ls -x *a*a?a[a-c]*b") " a*a*a*b"},
    {"ls-tree", as_usual, 50000, 2.3, ON(TERMINAL, 0, "ls --fold")},
    {"ls-deep-tree", deep_tree, 400000, 2.3, ON(TERMINAL, 0, "ls --fold")},
    {"ls-json", one_wide_row, 50000, 2.2, ON(PIPE, 0, "ls --lenient --json")},
    {"info-dtypes", unknown_dtypes, 20000, 2.3, ON(TERMINAL, 0, "info --lenient")},
    {"info-metadata", metadata_keys, 100000, 2.3, ON(TERMINAL, 0, "info")},
    {"get-hint", as_usual, 50000, 2.2, ON(PIPE, 3, "get") " model.layers.0.expert.0.weight"},
    {"get-dims", one_shape, 500000, 2.2, ON(PIPE, 0, "get --raw-values") " t"},
    {"get-empty", empty_shape, 1000000, 2.2, ON(PIPE, 0, "get") " t"},
    {"check-values", as_usual, 20000, 2.3, ON(TERMINAL, 0, "check --values --threads 1")},
    {"check-lenient", unknown_sizes, 20000, 2.3, ON(TERMINAL, 1, "check --lenient")},
    {"stats", as_usual, 10000, 2.3, ON(TERMINAL, 0, "stats -s name --threads 1")},
    {"diff-dtypes", unknown_dtypes, 20000, 2.3,
     ON(TERMINAL, 0, "diff --lenient --threads 1 model.safetensors")},
    {"diff-metadata", metadata_keys, 50000, 2.3, ON(PIPE, 0, "diff --threads 1 model.safetensors")},
    {"blend", as_usual, 20000, 2.3, ON(PIPE, 0, "blend -n -o out.safetensors")},
    {"report-dtypes", unknown_dtypes, 20000, 2.3, ON(PIPE, 0, "report --lenient --no-stats -o -")},
    {"report-sizes", unknown_sizes, 20000, 2.3, ON(PIPE, 0, "report --lenient --no-stats -o -")},
    {"report-treemap", long_chain, 200000, 2.3, ON(PIPE, 0, "report --no-stats --treemap -")},
    {"report-heatmap", as_usual, 50000, 2.3, ON(PIPE, 0, "report --no-stats --heatmap -")},
    {"meta", metadata_keys, 50000, 2.3, ON(TERMINAL, 0, "meta")},
    {"meta-edit", metadata_keys, 20000, 2.3, ON(PIPE, 0, "meta") " edit"},
    {"meta-set", metadata_keys, 20000, 2.3, ON(PIPE, 0, "meta") " set %words"},
    {"meta-rm", metadata_keys, 20000, 2.3, ON(PIPE, 0, "meta") " rm %keys"},
    {"rename", as_usual, 10000, 2.3, ON(PIPE, 0, "rename -o out.safetensors") " s/e/E/g"},
    {"rename-long", one_letter, 500000, 2.3,
     ON(PIPE, 0, "rename -n -o out.safetensors") " s/a/b/g"},
    {"lora", adapted, 5000, 2.3,
     ON(PIPE, 0, "lora --component lora_unet --threads 1 -o out.safetensors model.safetensors")},
    {"merge", as_usual, 20000, 2.3, ON(PIPE, 0, "merge -o out.safetensors")},
    {"merge-metadata", metadata_keys, 50000, 2.3,
     ON(PIPE, 0, "merge -o out.safetensors --prefer last model.safetensors")},
#undef ON
    {"config-edit", one_matrix, 50000, 2.2, 0, CONFIG, TENMAP_OK, PIPE, 0,
     "convert . --quantize int8-channel --threads 1 --force -o out/"},
    {"info-config", one_matrix, 100000, 2.2, 0, LONG_KEY, TENMAP_OK, PIPE, 0, "info ."},
    {"inventory-links", linked, 1200, 2.3, 0, LINKS, TENMAP_OK, PIPE, 0, "inventory . --threads 1"},
};

static FILE *create(const char *folder, const char *name) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "wb");
    if (!f)
        die("cannot create a file");
    return f;
}

static void make_file(const struct linear_case *c, size_t n, const char *folder, const char *name) {
    FILE *f = create(folder, name);
    unsigned char length[8];
    fwrite("12345678{", 1, 9, f);
    uint64_t data = c->write(f, n);
    fputc('}', f);
    uint64_t end = (uint64_t)ftello(f);
    for (int i = 0; i < 8; i++)
        length[i] = (unsigned char)((end - 8) >> (8 * i));
    if (fseeko(f, 0, SEEK_SET) != 0 || fwrite(length, 1, 8, f) != 8 || fflush(f) != 0 ||
        ftruncate(fileno(f), (off_t)(end + data)) != 0 || fclose(f) != 0)
        die("cannot write a file");
}

/* Adds the shape and scattered groups after the zeros that make_file wrote. */
static void make_listed(size_t n, const char *folder) {
    char path[4096];
    uint64_t columns = listed_columns(n), groups = columns / LISTED_GROUP;
    snprintf(path, sizeof path, "%s/model.safetensors", folder);
    FILE *f = fopen(path, "r+b");
    if (!f || fseeko(f, -(off_t)(LISTED_SHAPE + 4 * columns), SEEK_END) != 0)
        die("cannot write a list");
    put_little(f, LISTED_ROWS, 8);
    put_little(f, columns, 8);
    for (uint64_t i = 0; i < columns; i++)
        put_little(f, i * 2654435761u % groups, 4);
    if (fclose(f) != 0)
        die("cannot write a list");
}

/* NumPy files too: folders are searched for this name, and the content decides what a file is. */
static void make_gguf(const struct linear_case *c, size_t n, const char *folder) {
    FILE *f = create(folder, "model.gguf");
    uint64_t data = c->write(f, n), end = (uint64_t)ftello(f);
    if (fflush(f) != 0 || ftruncate(fileno(f), (off_t)(end + data)) != 0 || fclose(f) != 0)
        die("cannot write a file");
}

static void make_torch(const struct linear_case *c, size_t n, const char *folder) {
    FILE *f = create(folder, "model.pt");
    (c->beside == TORCH ? write_torch_zip : write_torch_legacy)(f, c->write, n);
    if (fclose(f) != 0)
        die("cannot write a file");
}

static void make_index(size_t n, size_t listed, const char *folder) {
    FILE *f = create(folder, "model.safetensors.index.json");
    fputs("{\"metadata\":{\"total_size\":0},\"weight_map\":{", f);
    for (size_t i = 0; i < listed; i++)
        fprintf(f, "%s\n  \"model.layers.%zu.experts.%zu.weight%s\": \"one.safetensors\"",
                i ? "," : "", i / 256, i % 256, i < n ? "" : "s");
    fputs("}}\n", f);
    if (fclose(f) != 0)
        die("cannot write the index");
}

/* Sets of two files of which one is missing, so that none is a model. */
static void make_folder(size_t n, const char *folder) {
    char name[64];
    for (size_t i = 0; i < n; i++) {
        snprintf(name, sizeof name, "m%zu-00001-of-00002.safetensors", i);
        if (fclose(create(folder, name)) != 0)
            die("cannot write a file");
    }
}

/* Keys that are removed, at the top and below it, and one that is set. */
static void make_config(size_t n, const char *folder) {
    FILE *f = create(folder, "config.json");
    fputs("{\"a\": 1", f);
    for (size_t i = 0; i < n; i++)
        fputs(i % 2 ? ", \"quantization_config\": {}" : ", \"b\": {\"quantization_config\": {}}",
              f);
    fputs("}\n", f);
    if (fclose(f) != 0)
        die("cannot write config.json");
}

/* A key of n bytes, and n values below it. */
static void make_long_key(size_t n, const char *folder) {
    FILE *f = create(folder, "config.json");
    fputs("{\"", f);
    for (size_t i = 0; i < n; i++)
        fputc('k', f);
    fputs("\": [0", f);
    for (size_t i = 1; i < n; i++)
        fputs(",1", f);
    fputs("], \"model_type\": \"x\"}\n", f);
    if (fclose(f) != 0)
        die("cannot write config.json");
}

static void make_links(size_t n, const char *folder) {
    char from[4096], to[4096];
    snprintf(from, sizeof from, "%s/model.safetensors", folder);
    for (size_t i = 0; i < n; i++) {
        snprintf(to, sizeof to, "%s/l%zu.safetensors", folder, i);
        unlink(to);
        if (link(from, to) != 0)
            die("cannot make a link");
    }
}

static void make(const struct linear_case *c, size_t n, const char *folder) {
    if (c->beside == FOLDER)
        make_folder(n, folder);
    else if (c->beside == GGUF || c->beside == NUMPY)
        make_gguf(c, n, folder);
    else if (c->beside == TORCH || c->beside == LEGACY)
        make_torch(c, n, folder);
    else
        make_file(c, n, folder, c->beside <= LINKS ? "model.safetensors" : "one.safetensors");
    if (c->beside == LISTED)
        make_listed(n, folder);
    if (c->beside == CONFIG)
        make_config(n, folder);
    if (c->beside == LONG_KEY)
        make_long_key(n, folder);
    if (c->beside == LINKS)
        make_links(n, folder);
    if (c->beside == INDEX || c->beside == INDEX_LISTS_MORE)
        make_index(n, c->beside == INDEX ? n : 2 * n, folder);
}

/* The most that this process had in memory so far, in KiB. */
static long peak_memory(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss;
}

/* Reads all values of quantized weights. */
static void read_weights(const tenmap_model *model) {
    tenmap_error error;
    for (size_t i = 0; i < tenmap_count(model); i++) {
        const tenmap_tensor *t = tenmap_at(model, i);
        float *values = malloc((size_t)t->nelems * sizeof *values);
        if (!values)
            die("no memory");
        if (tenmap_read(t, 0, t->nelems, TENMAP_F32, values, (size_t)t->nelems * sizeof *values, 0,
                        &error) != TENMAP_OK)
            die(error.message);
        free(values);
    }
}

static void open_one(const struct linear_case *c, const char *folder) {
    tenmap_options options = TENMAP_OPTIONS_INIT;
    tenmap_model *model;
    tenmap_error error;
    long before = peak_memory();
    options.flags = c->flags;
    options.max_header_bytes = UINT32_MAX;
    options.threads = 1;
    if (c->beside == LISTED)
        options.backend = TENMAP_BACKEND_READ;
    char path[4096];
    bool torch = c->beside == TORCH || c->beside == LEGACY; /* folders do not list their names */
    snprintf(path, sizeof path, "%s%s", folder, torch ? "/model.pt" : "");
    tenmap_status status = tenmap_open(path, &options, &model, &error);
    if (status != c->status) {
        fprintf(stderr, "linear: %s: expected %s, got %s: %s\n", c->name,
                tenmap_status_name(c->status), tenmap_status_name(status),
                status == TENMAP_OK ? "" : error.message);
        exit(1);
    }
    if (status != TENMAP_OK)
        fprintf(stderr, "%s\n", error.message);
    else if (c->beside == LISTED)
        read_weights(model);
    printf("%ld\n", peak_memory() - before);
    tenmap_close(model);
}

/* Like open_one for another program, whose output is ignored. */
static void spend(int code, char **command) {
    int status;
    pid_t child = fork();
    if (child == 0) {
        if (freopen("/dev/null", "w", stdout))
            execv(command[0], command);
        die("cannot run the program");
    }
    if (child < 0 || waitpid(child, &status, 0) != child)
        die("no process");
    if (!WIFEXITED(status) || WEXITSTATUS(status) != code) {
        fprintf(stderr, "linear: %s ended with %d, not with %d\n", command[0], status, code);
        exit(1);
    }
    struct rusage usage;
    getrusage(RUSAGE_CHILDREN, &usage);
    printf("%ld\n", (long)usage.ru_maxrss);
}

static void list_case(const struct linear_case *c, size_t n) {
    printf("%s %zu %g", c->name, n, c->ratio);
    if (c->command)
        printf(" %s %d %s", c->where == TERMINAL ? "terminal" : "pipe", c->code, c->command);
    putchar('\n');
}

static const struct linear_case *find_case(const char *name) {
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        if (strcmp(cases[i].name, name) == 0)
            return &cases[i];
    die("no such case");
    return NULL;
}

int main(int argc, char **argv) {
    if (argc >= 2 && strcmp(argv[1], "list") == 0) {
        size_t divisor = argc > 2 ? strtoul(argv[2], NULL, 10) : 1;
        for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
            list_case(&cases[i], cases[i].n / (divisor ? divisor : 1));
    } else if (argc == 5 && strcmp(argv[1], "make") == 0) {
        make(find_case(argv[2]), strtoul(argv[3], NULL, 10), argv[4]);
    } else if (argc == 4 && strcmp(argv[1], "open") == 0) {
        open_one(find_case(argv[2]), argv[3]);
    } else if (argc >= 4 && strcmp(argv[1], "spend") == 0) {
        spend(atoi(argv[2]), argv + 3);
    } else {
        die("usage: linear list [DIVISOR] | make CASE N FOLDER | open CASE FOLDER | "
            "spend CODE PROGRAM...");
    }
    return 0;
}
