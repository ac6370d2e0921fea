/*
 * Opens mutated .npy arrays and .npz archives: headers get other tokens, numbers and bytes, and
 * archives other fields in their records. What opens must keep what tenmap.h promises of every
 * tensor; what does not must be an error with a message.
 *
 *     random_numpy [CALLS [SEED]]
 *
 * Prints how many files opened. Exits with 1 if something was found, and leaves the file in
 * random_numpy.found then. A crash is repeated with the same SEED and CALLS.
 */
#include "pytorch_seeds.h"
#include "tenmap.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LARGEST_READ = 1 << 16, MOST_ARRAYS = 4 };

static long opened, refused, tensors_seen;

static void find(const unsigned char *bytes, size_t size, const char *what) {
    fprintf(stderr, "random_numpy: %s\n", what);
    FILE *out = fopen("random_numpy.found", "wb");
    if (out) {
        fwrite(bytes, 1, size, out);
        fclose(out);
    }
    exit(1);
}

/* Arrays */

static const struct {
    const char *descr;
    unsigned bytes;
} dtypes[] = {{"|b1", 1}, {"|i1", 1}, {"|u1", 1}, {"<i2", 2}, {"<u2", 2}, {"<i4", 4}, {"<u4", 4},
              {"<i8", 8}, {"<u8", 8}, {"<f2", 2}, {"<f4", 4}, {"<f8", 8}, {"<c8", 8}, {">f4", 4}};

static const char *const tokens[] = {"'",
                                     "(",
                                     ")",
                                     "{",
                                     "}",
                                     ",",
                                     ":",
                                     " ",
                                     "\n",
                                     "'descr'",
                                     "'shape'",
                                     "()",
                                     "(3,)",
                                     "L",
                                     "True",
                                     "-1",
                                     "0,",
                                     "9,",
                                     "'|O'",
                                     "'<f4'",
                                     "False",
                                     "(2, 2)",
                                     "\\",
                                     "\"",
                                     "9223372036854775807",
                                     "18446744073709551616",
                                     "'fortran_order'"};

static void put_literal(seed_bytes *out, uint64_t *bytes) {
    char text[400];
    size_t dtype = roll(sizeof dtypes / sizeof dtypes[0]), used;
    uint64_t rank = roll(6);
    *bytes = dtypes[dtype].bytes;
    used = (size_t)snprintf(text, sizeof text, "{'descr': '%s', 'fortran_order': %s, 'shape': (",
                            dtypes[dtype].descr, roll(2) ? "True" : "False");
    for (uint64_t d = 0; d < rank; d++) {
        uint64_t extent = roll(20) ? 1 + roll(4) : roll(3) ? 0 : roll_size();
        *bytes *= extent;
        used +=
            (size_t)snprintf(text + used, sizeof text - used, "%llu, ", (unsigned long long)extent);
    }
    used += (size_t)snprintf(text + used, sizeof text - used, "), }%*s\n", (int)roll(60), "");
    for (uint64_t i = roll(4) ? 0 : 1 + roll(3); i > 0; i--) {
        const char *token = tokens[roll(sizeof tokens / sizeof tokens[0])];
        size_t at = roll(used), len = strlen(token);
        if (at + len < sizeof text)
            memcpy(text + at, token, len);
        used = at + len > used ? at + len : used;
    }
    put_bytes(out, text, used);
}

static void put_array(seed_bytes *out) {
    static const unsigned char zeros[4096];
    static seed_bytes text;
    uint64_t bytes;
    text.size = 0;
    put_literal(&text, &bytes);
    unsigned version = roll(30) ? 1 + (unsigned)roll(3) : (unsigned)roll(256);
    put_bytes(out, "\x93NUMPY", 6);
    put_number(out, version, 2);
    put_number(out, roll(30) ? text.size : roll_size(), version == 1 ? 2 : 4);
    put_bytes(out, text.at, text.size);
    put_bytes(out, zeros, bytes < sizeof zeros ? (size_t)bytes : sizeof zeros);
}

/* Archives */

static void put_record(seed_bytes *out, const char *name, uint64_t bytes, uint64_t at, bool local) {
    put_bytes(out, local ? "PK\3\4\x2d\0" : "PK\1\2\x2d\0\x2d\0", local ? 6 : 8);
    put_number(out, 0x800, 2);
    put_number(out, 0, 2 + 4); /* method and time */
    put_number(out, 0, 4);     /* checksum */
    put_number(out, bytes, 4);
    put_number(out, bytes, 4);
    put_number(out, strlen(name), 2);
    put_number(out, 0, 2);
    if (!local) {
        put_number(out, 0, 8);
        put_number(out, 0, 2);
        put_number(out, at, 4);
    }
    put_bytes(out, name, strlen(name));
}

static void put_archive(seed_bytes *out) {
    static const char *const endings[] = {".npy", ".npy", ".npy", ".npy", "", ".txt"};
    static seed_bytes array, directory;
    unsigned count = 1 + (unsigned)roll(MOST_ARRAYS);
    directory.size = 0;
    for (unsigned i = 0; i < count; i++) {
        char name[32];
        array.size = 0;
        put_array(&array);
        snprintf(name, sizeof name, "%s%u%s", roll(3) ? "w" : "layer/\xc3\xa9", roll(30) ? i : 0,
                 endings[i ? roll(6) : 0]);
        put_record(&directory, name, array.size, out->size, false);
        put_record(out, name, array.size, 0, true);
        put_bytes(out, array.at, array.size);
    }
    size_t at = out->size;
    put_bytes(out, directory.at, directory.size);
    put_bytes(out, "PK\5\6\0\0\0\0", 8);
    put_number(out, count, 2);
    put_number(out, count, 2);
    put_number(out, directory.size, 4);
    put_number(out, at, 4);
    put_number(out, 0, 2);
}

static void mutate(seed_bytes *b) {
    size_t at = roll(roll(2) && b->size > 200 ? 200 : b->size);
    switch (roll(4)) {
    case 0:
        b->at[at] ^= (unsigned char)(1u << roll(8));
        break;
    case 1: {
        uint64_t number = roll_size();
        for (size_t i = 0, size = 1 + roll(8); i < size && at + i < b->size; i++)
            b->at[at + i] = (unsigned char)(number >> 8 * i);
        break;
    }
    case 2: {
        size_t most = b->size - at, gone = roll(most < 20 ? most : 20);
        memmove(b->at + at, b->at + at + gone, b->size - at - gone);
        b->size -= gone;
        break;
    }
    default:
        b->size -= roll(b->size < 40 ? b->size : 40);
    }
}

/* What must hold for everything that opens. */

static void judge_tensor(const tenmap_model *model, const tenmap_tensor *t,
                         const unsigned char *bytes, size_t size) {
    static unsigned char out[LARGEST_READ];
    tenmap_error error;
    uint64_t count = 1, whole = 0;
    for (uint32_t d = 0; d < t->rank; d++)
        count *= t->shape[d];
    if (count != t->nelems)
        find(bytes, size, "a count that is not the shape's");
    if (!tenmap_dtype_bytes(t->dtype, t->nelems, &whole) || whole != t->nbytes)
        find(bytes, size, "a size that is not the shape's");
    if (t->name[t->name_len] != '\0' || tenmap_find_n(model, t->name, t->name_len) != t)
        find(bytes, size, "a tensor that is not found by its name");
    if (t->file_offset > size || t->nbytes > size - t->file_offset)
        find(bytes, size, "a tensor outside of the file");
    if (!(t->flags & TENMAP_TENSOR_COMPUTED) && t->data != bytes + t->file_offset)
        find(bytes, size, "a tensor at another place");
    if (t->nbytes <= sizeof out &&
        tenmap_read(t, 0, t->nelems, TENMAP_AS_STORED, out, sizeof out, 0, &error) != TENMAP_OK)
        find(bytes, size, error.message);
    tensors_seen++;
}

static void open_once(const seed_bytes *input) {
    tenmap_options options = TENMAP_OPTIONS_INIT;
    tenmap_model *model = NULL;
    tenmap_error error;
    memset(&error, 0x5a, sizeof error);
    options.flags = roll(3) ? 0 : TENMAP_OPEN_LENIENT;
    options.max_header_bytes = roll(20) ? 0 : 1 + roll(3000);
    /* A copy of the exact size, so that AddressSanitizer detects a read past its end. */
    unsigned char *bytes = malloc(input->size ? input->size : 1);
    if (!bytes)
        abort();
    if (input->size)
        memcpy(bytes, input->at, input->size);
    tenmap_status status = tenmap_open_memory(bytes, input->size, &options, &model, &error);
    if (status == TENMAP_OK) {
        for (size_t i = 0; i < tenmap_count(model); i++)
            judge_tensor(model, tenmap_at(model, i), bytes, input->size);
        tenmap_close(model);
        opened++;
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
    for (long i = 0; i < calls; i++) {
        input.size = 0;
        (roll(2) ? put_array : put_archive)(&input);
        for (uint64_t k = roll(3) ? 0 : 1 + roll(3); k > 0 && input.size; k--)
            mutate(&input);
        open_once(&input);
    }
    printf("%ld mutated files: %ld opened with %ld tensors, %ld refused\n", calls, opened,
           tensors_seen, refused);
    free(input.at);
    if ((opened < calls / 10 || tensors_seen < opened + calls / 20) && calls >= 1000) {
        fprintf(stderr, "random_numpy: too few open to find anything\n");
        return 1;
    }
    return 0;
}
