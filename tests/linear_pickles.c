/* Pickles that are as hard to read as their size allows, for linear.c. */
#define _GNU_SOURCE
#define _FILE_OFFSET_BITS 64
#include "linear_pickles.h"

#include <stdlib.h>
#include <string.h>

#define PUT(f, text) fwrite(text, 1, sizeof(text) - 1, f)

static void put_number(FILE *f, uint64_t value, int width) {
    for (int i = 0; i < width; i++)
        fputc((int)(value >> 8 * i & 0xff), f);
}

static void put_text(FILE *f, const char *text) {
    fputc('X', f);
    put_number(f, strlen(text), 4);
    fputs(text, f);
}

/* Constructions */

/* A list of values that each get a number. */
uint64_t pickle_memos(FILE *f, size_t n) {
    PUT(f, "\x80\4](");
    for (size_t i = 0; i < n; i++)
        PUT(f, "N\x94");
    PUT(f, "e.");
    return 0;
}

/* A list that holds one list again and again. */
uint64_t pickle_gets(FILE *f, size_t n) {
    PUT(f, "\x80\2](](Neq\1");
    for (size_t i = 0; i < n; i++)
        PUT(f, "h\1");
    PUT(f, "e.");
    return 0;
}

/* One opcode makes five words. */
uint64_t pickle_tuples(FILE *f, size_t n) {
    PUT(f, "\x80\2N");
    for (size_t i = 0; i < n; i++)
        PUT(f, "\x85");
    PUT(f, ".");
    return 0;
}

/* Tuples in tuples that stay below the limit of memory. */
uint64_t pickle_nested(FILE *f, size_t n) {
    PUT(f, "\x80\2N");
    for (size_t i = 0; i < n; i++)
        PUT(f, "K\1\x86");
    PUT(f, ".");
    return 0;
}

uint64_t pickle_string(FILE *f, size_t n) {
    PUT(f, "\x80\2}X\1\0\0\0aX");
    put_number(f, n, 4);
    for (size_t i = 0; i < n; i++)
        fputc('s', f);
    PUT(f, "s.");
    return 0;
}

/* Puts what all tensors share into the memo: a function, a storage, and a tuple. */
static void put_shared(FILE *f) {
    PUT(f, "ctorch._utils\n_rebuild_tensor_v2\nq\0000");
    PUT(f, "(X\7\0\0\0storagectorch\nFloatStorage\nX\1\0\0\0000X\3\0\0\0cpuK\1NtQq\0010");
    PUT(f, "K\1\x85q\0020");
}

/* A vector of one element that sees the storage in the memo. */
static void put_vector(FILE *f) {
    PUT(f, "h\0(h\1K\0h\2h\2\x89NtR");
}

uint64_t pickle_tensors(FILE *f, size_t n) {
    char name[64];
    PUT(f, "\x80\2");
    put_shared(f);
    PUT(f, "}(");
    for (size_t i = 0; i < n; i++) {
        snprintf(name, sizeof name, "model.layers.%zu.weight", i);
        put_text(f, name);
        put_vector(f);
    }
    PUT(f, "u.");
    return 1;
}

uint64_t pickle_values(FILE *f, size_t n) {
    char name[64];
    PUT(f, "\x80\2}(");
    for (size_t i = 0; i < n; i++) {
        snprintf(name, sizeof name, "value-%zu", i);
        put_text(f, name);
        PUT(f, "J\1\2\3\4");
    }
    PUT(f, "u.");
    return 0;
}

/* One long key, as protocol 0 writes it, for every value. */
uint64_t pickle_keys(FILE *f, size_t n) {
    PUT(f, "\x80\2V");
    for (int i = 0; i < 4000; i++)
        fputc('k', f);
    PUT(f, "\nq\0000}(");
    for (size_t i = 0; i < n; i++)
        PUT(f, "h\0K\1");
    PUT(f, "u.");
    return 0;
}

/* Two lists that grow by turns, so that neither lies in one piece. */
uint64_t pickle_alternating(FILE *f, size_t n) {
    PUT(f, "\x80\2]q\0000]q\0010");
    for (size_t i = 0; i < n; i++)
        PUT(f, "h\0Na0h\1Na0");
    PUT(f, "h\0h\1\x86.");
    return 0;
}

/* A storage of its own for every tensor. */
uint64_t pickle_storages(FILE *f, size_t n) {
    char key[32];
    PUT(f, "\x80\2");
    put_shared(f);
    PUT(f, "X\7\0\0\0storageq\0030ctorch\nFloatStorage\nq\0040](");
    for (size_t i = 0; i < n; i++) {
        snprintf(key, sizeof key, "%zu", i);
        PUT(f, "h\0((h\3h\4");
        put_text(f, key);
        PUT(f, "NK\1NtQK\0h\2h\2\x89NtR");
    }
    PUT(f, "e.");
    return n;
}

/* References to one storage, by one tuple whose key is a long line. */
uint64_t pickle_references(FILE *f, size_t n) {
    PUT(f, "\x80\2");
    put_shared(f);
    PUT(f, "(X\7\0\0\0storagectorch\nFloatStorage\nV");
    for (int i = 0; i < 4000; i++)
        fputc('k', f);
    PUT(f, "\nNK\1Ntq\0030](");
    for (size_t i = 0; i < n; i++)
        PUT(f, "h\3Q0");
    put_vector(f);
    PUT(f, "e.");
    return 1;
}

/* Views of one storage, each by a tuple and a key of its own. */
uint64_t pickle_views(FILE *f, size_t n) {
    char key[32];
    PUT(f, "\x80\2");
    put_shared(f);
    PUT(f, "X\7\0\0\0storageq\0030ctorch\nFloatStorage\nq\0040X\1\0\0\0000q\0050](");
    for (size_t i = 0; i < n; i++) {
        snprintf(key, sizeof key, "v%zu", i);
        PUT(f, "(h\3h\4h\5NK\1(");
        put_text(f, key);
        PUT(f, "K\0K\1ttQ0");
    }
    put_vector(f);
    PUT(f, "e.");
    return 1;
}

/* Dicts that are made of one list, whose items are no pairs but for the last one. */
uint64_t pickle_copies(FILE *f, size_t n) {
    PUT(f, "\x80\2");
    put_shared(f);
    PUT(f, "](");
    for (size_t i = 0; i < n; i++)
        PUT(f, "K\1");
    PUT(f, "X\1\0\0\0w");
    put_vector(f);
    PUT(f, "\x86"
           "e\x85q\0030ccollections\nOrderedDict\nq\0040](");
    for (size_t i = 0; i < n; i++)
        PUT(f, "h\4h\3R");
    PUT(f, "e.");
    return 1;
}

/* Files */

static void fail(const char *what) {
    fprintf(stderr, "linear: %s\n", what);
    exit(1);
}

/* Goes back to overwrite a number of 4 bytes. */
static void patch(FILE *f, off_t at, uint64_t value) {
    if (fseeko(f, at, SEEK_SET) != 0)
        fail("cannot write a file");
    put_number(f, value, 4);
    if (fseeko(f, 0, SEEK_END) != 0)
        fail("cannot write a file");
}

static void put_local(FILE *f, const char *name, uint64_t size) {
    PUT(f, "PK\3\4\24"); /* not 0: then these bytes could be the length of a SafeTensors header */
    put_number(f, 0, 8);
    put_number(f, 0, 5);
    put_number(f, size, 4);
    put_number(f, size, 4);
    put_number(f, strlen(name), 4);
    fputs(name, f);
}

static void put_record(FILE *f, const char *name, uint64_t size, uint64_t at) {
    PUT(f, "PK\1\2");
    put_number(f, 0, 8);
    put_number(f, 0, 8);
    put_number(f, size, 4);
    put_number(f, size, 4);
    put_number(f, strlen(name), 8);
    put_number(f, 0, 6);
    put_number(f, at, 4);
    fputs(name, f);
}

static void name_storage(char name[32], uint64_t i) {
    snprintf(name, 32, "m/data/%llu", (unsigned long long)i);
}

void write_torch_zip(FILE *f, write_pickle *pickle, size_t n) {
    enum { SIZES_AT = 18, HEADER = 30 };
    static const char pickle_name[] = "m/data.pkl";
    char name[32];
    put_local(f, pickle_name, 0);
    off_t begin = ftello(f);
    uint64_t storages = pickle(f, n), size = (uint64_t)(ftello(f) - begin);
    patch(f, SIZES_AT, size);
    patch(f, SIZES_AT + 4, size);
    uint64_t at = (uint64_t)ftello(f), first = at;
    for (uint64_t i = 0; i < storages; i++) {
        name_storage(name, i);
        put_local(f, name, 4);
        put_number(f, 0, 4);
    }
    uint64_t directory = (uint64_t)ftello(f);
    put_record(f, pickle_name, size, 0);
    at = first;
    for (uint64_t i = 0; i < storages; i++) {
        name_storage(name, i);
        put_record(f, name, 4, at);
        at += HEADER + strlen(name) + 4;
    }
    uint64_t end = (uint64_t)ftello(f);
    PUT(f, "PK\6\6");
    put_number(f, 44, 8);
    put_number(f, 0, 8);
    put_number(f, 0, 4);
    put_number(f, storages + 1, 8);
    put_number(f, storages + 1, 8);
    put_number(f, end - directory, 8);
    put_number(f, directory, 8);
    PUT(f, "PK\6\7");
    put_number(f, 0, 4);
    put_number(f, end, 8);
    put_number(f, 1, 4);
    PUT(f, "PK\5\6");
    put_number(f, 0, 4);
    put_number(f, UINT32_MAX, 4);
    put_number(f, UINT32_MAX, 4);
    put_number(f, UINT32_MAX, 4);
    put_number(f, 0, 2);
}

void write_torch_legacy(FILE *f, write_pickle *pickle, size_t n) {
    char key[32];
    PUT(f, "\x80\2\x8a\nl\xfc\x9c\x46\xf9 j\xa8P\x19.\x80\2M\xe9\3.");
    PUT(f, "\x80\2}X\r\0\0\0little_endian\x88s.");
    uint64_t storages = pickle(f, n);
    PUT(f, "\x80\2](");
    for (uint64_t i = 0; i < storages; i++) {
        snprintf(key, sizeof key, "%llu", (unsigned long long)i);
        put_text(f, key);
    }
    PUT(f, "e.");
    for (uint64_t i = 0; i < storages; i++) {
        put_number(f, 1, 8);
        put_number(f, 0, 4);
    }
}
