/*
 * Opens mutated PyTorch checkpoints: random ones of both forms, and files that are given. Pickles
 * get other opcodes, arguments and pieces; zip archives get other fields in their records. What
 * opens must keep what tenmap.h promises of every tensor; what does not must be an error with a
 * message.
 *
 *     random_pytorch [CALLS [SEED [FILE...]]]
 *
 * Prints how many files opened. Exits with 1 if something was found, and leaves the file in
 * random_pytorch.found then. A crash is repeated with the same SEED and CALLS.
 */
#include "pytorch_seeds.h"
#include "tenmap.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_FILES = 1000, LARGEST_READ = 1 << 16 };

static seed_bytes files[MOST_FILES];
static size_t file_count;
static long opened, refused, tensors_seen, legacy_opened;

static void find(const unsigned char *bytes, size_t size, const char *what) {
    fprintf(stderr, "random_pytorch: %s\n", what);
    FILE *out = fopen("random_pytorch.found", "wb");
    if (out) {
        fwrite(bytes, 1, size, out);
        fclose(out);
    }
    exit(1);
}

static bool read_file(const char *path, seed_bytes *out) {
    unsigned char buffer[4096];
    size_t got;
    FILE *file = fopen(path, "rb");
    if (!file)
        return false;
    while ((got = fread(buffer, 1, sizeof buffer, file)) > 0)
        put_bytes(out, buffer, got);
    fclose(file);
    return out->size > 0;
}

/* Mutations */

static const char opcodes[] =
    "(.012FIJKLMNPQRSTUVXabcdeghijlopqrstu})]\x80\x81\x82\x83\x84\x85\x86\x87"
    "\x88\x89\x8a\x8b\x8c\x8d\x8e\x8f\x90\x91\x92\x93\x94\x95\x96\x97\x98"
    "BCG";

static void insert(seed_bytes *b, size_t at, const void *bytes, size_t size) {
    if (size == 0)
        return;
    unsigned char *copy = malloc(size);
    if (!copy)
        abort();
    memcpy(copy, bytes, size);
    put_bytes(b, bytes, 0);
    put_bytes(b, copy, size); /* makes room */
    memmove(b->at + at + size, b->at + at, b->size - size - at);
    memcpy(b->at + at, copy, size);
    free(copy);
}

static void store(seed_bytes *b, size_t at, uint64_t number, size_t size) {
    for (size_t i = 0; i < size && at + i < b->size; i++)
        b->at[at + i] = (unsigned char)(number >> 8 * i);
}

/* Any bytes, as opcodes see them. */
static void mutate_bytes(seed_bytes *b) {
    size_t at = roll(b->size);
    switch (roll(8)) {
    case 0:
        b->at[at] = (unsigned char)opcodes[roll(sizeof opcodes - 1)];
        break;
    case 1:
        b->at[at] ^= (unsigned char)(1u << roll(8));
        break;
    case 2:
        insert(b, at, &opcodes[roll(sizeof opcodes - 1)], 1);
        break;
    case 3:
        store(b, at, roll_size(), 1 + roll(8));
        break;
    case 4:
        b->size -= roll(b->size < 40 ? b->size : 40);
        break;
    case 5: {
        size_t begin = roll(b->size), most = b->size - begin;
        insert(b, at, b->at + begin, roll(most < 80 ? most : 80));
        break;
    }
    case 6: {
        size_t most = b->size - at, gone = roll(most < 20 ? most : 20);
        memmove(b->at + at, b->at + at + gone, b->size - at - gone);
        b->size -= gone;
        break;
    }
    default:
        if (file_count) {
            const seed_bytes *other = &files[roll(file_count)];
            size_t begin = roll(other->size), most = other->size - begin;
            insert(b, at, other->at + begin, roll(most < 200 ? most : 200));
        }
    }
}

/* The fields of zip records: offset and size, by the third byte of the record's signature. */
static const struct {
    unsigned char kind, at, size;
} fields[] = {{1, 6, 2},  {1, 8, 2},  {1, 10, 2}, {1, 20, 4}, {1, 24, 4}, {1, 28, 2}, {1, 30, 2},
              {1, 32, 2}, {1, 34, 2}, {1, 42, 4}, {1, 46, 8}, {3, 4, 2},  {3, 6, 2},  {3, 8, 2},
              {3, 18, 4}, {3, 22, 4}, {3, 26, 2}, {3, 28, 2}, {3, 30, 8}, {5, 4, 2},  {5, 6, 2},
              {5, 8, 2},  {5, 10, 2}, {5, 12, 4}, {5, 16, 4}, {5, 20, 2}, {6, 4, 8},  {6, 16, 4},
              {6, 24, 8}, {6, 32, 8}, {6, 40, 8}, {6, 48, 8}, {7, 8, 8},  {7, 16, 4}};
enum { FIELDS = sizeof fields / sizeof fields[0] };

static void mutate_zip(seed_bytes *b) {
    size_t field = roll(FIELDS), start = roll(b->size);
    for (size_t i = 0; i + 4 <= b->size; i++) {
        size_t at = (start + i) % b->size;
        const unsigned char *record = b->at + at;
        if (at + 4 > b->size || memcmp(record, "PK", 2) != 0 || record[2] != fields[field].kind)
            continue;
        size_t place = at + fields[field].at;
        uint64_t old = 0;
        for (size_t k = fields[field].size; k-- > 0;)
            old = old << 8 | (place + k < b->size ? b->at[place + k] : 0);
        store(b, place, roll(2) ? old + roll(9) - 4 : roll_size(), fields[field].size);
        return;
    }
    mutate_bytes(b);
}

static void make_input(seed_bytes *b) {
    b->size = 0;
    if (file_count && roll(3) == 0) {
        const seed_bytes *file = &files[roll(file_count)];
        put_bytes(b, file->at, file->size);
    } else {
        static seed_bytes pickle;
        bool legacy = roll(3) == 0;
        pickle.size = 0;
        put_pickle(&pickle, legacy);
        for (uint64_t i = roll(3); i > 0 && pickle.size; i--)
            mutate_bytes(&pickle);
        (legacy ? put_legacy : put_zip)(b, &pickle);
        if (roll(3))
            return;
    }
    for (uint64_t i = 1 + roll(3); i > 0 && b->size; i--)
        (roll(2) ? mutate_zip : mutate_bytes)(b);
}

/* What must hold for everything that opens. */

static void read_elements(const tenmap_tensor *t, const unsigned char *bytes, size_t size) {
    static unsigned char out[LARGEST_READ];
    tenmap_error error;
    uint64_t count = t->nelems, element = t->nelems ? t->nbytes / t->nelems : 0;
    if (t->dtype == TENMAP_OPAQUE || !element)
        return;
    if (count > LARGEST_READ / element)
        count = LARGEST_READ / element;
    uint64_t first = t->nelems == count ? 0 : roll(t->nelems - count);
    if (tenmap_read(t, first, count, TENMAP_AS_STORED, out, sizeof out, 0, &error) != TENMAP_OK)
        find(bytes, size, error.message);
}

static void judge_tensor(const tenmap_model *model, const tenmap_tensor *t,
                         const unsigned char *bytes, size_t size) {
    uint64_t count = 1, whole = 0;
    for (uint32_t i = 0; i < t->rank; i++)
        count *= t->shape[i];
    if (count != t->nelems)
        find(bytes, size, "a count that is not the shape's");
    if (tenmap_dtype_bytes(t->dtype, t->nelems, &whole) && whole != t->nbytes)
        find(bytes, size, "a size that is not the shape's");
    if (t->name[t->name_len] != '\0' || tenmap_find_n(model, t->name, t->name_len) != t)
        find(bytes, size, "a tensor that is not found by its name");
    if (!(t->flags & TENMAP_TENSOR_COMPUTED)) {
        const unsigned char *data = t->data;
        if (t->nbytes &&
            (data < bytes || t->nbytes > size || (size_t)(data - bytes) > size - t->nbytes))
            find(bytes, size, "a tensor outside of the file");
    }
    read_elements(t, bytes, size);
    tensors_seen++;
}

static void judge_model(const tenmap_model *model, const unsigned char *bytes, size_t size) {
    char text[64];
    for (size_t i = 0; i < tenmap_count(model); i++)
        judge_tensor(model, tenmap_at(model, i), bytes, size);
    for (size_t i = 0; i < tenmap_metadata_count(model); i++) {
        const tenmap_metadata *pair = tenmap_metadata_at(model, i);
        tenmap_value value;
        tenmap_metadata_value(pair, &value);
        tenmap_value_text(&value, text, sizeof text);
        if (pair->key[pair->key_len] != '\0' || pair->value[pair->value_len] != '\0')
            find(bytes, size, "metadata without a NUL at its end");
    }
}

static void open_once(const seed_bytes *input) {
    static const uint32_t flags[] = {0, 0, TENMAP_OPEN_LENIENT, 128, 128 | TENMAP_OPEN_LENIENT};
    tenmap_options options = TENMAP_OPTIONS_INIT;
    tenmap_model *model = NULL;
    tenmap_error error;
    memset(&error, 0x5a, sizeof error);
    options.flags = flags[roll(sizeof flags / sizeof flags[0])];
    options.max_header_bytes = roll(20) ? 0 : 1 + roll(3000);
    /* A copy of the exact size, so that AddressSanitizer detects a read past its end. */
    unsigned char *bytes = malloc(input->size ? input->size : 1);
    if (!bytes)
        abort();
    if (input->size)
        memcpy(bytes, input->at, input->size);
    tenmap_status status = tenmap_open_memory(bytes, input->size, &options, &model, &error);
    if (status == TENMAP_OK) {
        judge_model(model, bytes, input->size);
        tenmap_close(model);
        opened++;
        legacy_opened += memcmp(bytes, "PK", 2) != 0;
    } else {
        if (status != TENMAP_ERR_FORMAT && status != TENMAP_ERR_LIMIT &&
            status != TENMAP_ERR_UNSUPPORTED)
            find(bytes, input->size, error.message);
        if (error.status != status || !error.message[0] ||
            !memchr(error.message, 0, sizeof error.message))
            find(bytes, input->size, "an error without words");
        refused++;
    }
    free(bytes);
}

int main(int argc, char **argv) {
    long calls = argc > 1 ? atol(argv[1]) : 20000;
    seed_bytes input = {NULL, 0, 0};
    roll_begin(argc > 2 ? strtoull(argv[2], NULL, 10) : 33);
    for (int i = 3; i < argc && file_count < MOST_FILES; i++)
        if (read_file(argv[i], &files[file_count]))
            file_count++;
    for (long i = 0; i < calls; i++) {
        make_input(&input);
        open_once(&input);
    }
    printf("%ld mutated checkpoints: %ld opened, %ld of them from before torch 1.6, with %ld "
           "tensors, %ld refused\n",
           calls, opened, legacy_opened, tensors_seen, refused);
    free(input.at);
    for (size_t i = 0; i < file_count; i++)
        free(files[i].at);
    if ((opened < calls / 100 || legacy_opened < calls / 200) && calls >= 1000) {
        fprintf(stderr, "random_pytorch: too few open to find anything\n");
        return 1;
    }
    return 0;
}
