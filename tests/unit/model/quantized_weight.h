/* Quantized weights for tests: built from random bytes, with a simple formula for each value. */
#ifndef TENMAP_TESTS_QUANTIZED_H
#define TENMAP_TESTS_QUANTIZED_H

#include "support.h"

enum { MOST_STORED_PARTS = 9 };

typedef struct stored_part {
    const char *name;
    tenmap_dtype dtype;
    uint32_t rank;
    uint64_t shape[12];
    unsigned char *bytes;
    size_t size;
} stored_part;

/* One weight as a model stores it. */
typedef struct stored_weight {
    const char *label;    /* of the test case */
    const char *config;   /* config.json; NULL: none */
    const char *metadata; /* of the file, under the weight's name; NULL: none */
    const char *name, *scheme;
    tenmap_dtype dtype; /* of the weight as it is listed; 0: not checked */
    uint32_t rank;
    uint64_t shape[4]; /* of the weight */
    uint64_t rows, columns;
    uint64_t group_rows, group_columns; /* for the formula */
    unsigned bits;
    stored_part parts[MOST_STORED_PARTS];
    size_t part_count;
    float (*value)(const struct stored_weight *w, uint64_t matrix, uint64_t row, uint64_t column);
} stored_weight;

/* Random numbers that are the same in each run. */
uint32_t next_random(void);
void seed_random(uint32_t seed);

/* Adds a part of random bytes, or of floats between 2^-8 and 1 if it holds scales. */
stored_part *add_part(stored_weight *w, const char *name, tenmap_dtype dtype, uint32_t rank,
                      const uint64_t *shape);
stored_part *add_scales(stored_weight *w, const char *name, tenmap_dtype dtype, uint32_t rank,
                        const uint64_t *shape);
void free_weight(stored_weight *w);
/* Writes it into the folder as model.safetensors, among plain tensors, with its config.json. */
void write_weight(void **state, const stored_weight *w);
/* Writes only its parts, without config.json. */
void write_parts(void **state, const stored_weight *w);

/* Element i of a part as F32, by the scalar oracle. */
float part_float(const stored_part *p, tenmap_dtype as, uint64_t i);
uint32_t part_word(const stored_part *p, uint64_t i);
/* Field i of `bits` bits of a stream that begins at a byte of the part. */
unsigned part_field(const stored_part *p, uint64_t byte, uint64_t i, unsigned bits);

#endif
