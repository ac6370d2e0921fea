/*
 * Multiplies quantized weights with a vector, y = W x, without dequantizing them: codes, scales and
 * zero points are read where they lie in the mapping, by nothing but tenmap_part_role and
 * tenmap_packing_of. So one loop works for GPTQ, AWQ, compressed-tensors, MLX, MXFP4, NVFP4, FP8
 * and bitsandbytes. The result is compared with that of the dequantized values, which must be the
 * same number for number.
 *
 *     packed MODEL
 *
 * A real engine would have a product for each kind of packing that is fast; this one shows what the
 * description means. It is for little-endian machines.
 */
#include "tenmap.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct weight {
    const tenmap_tensor *tensor;
    const tenmap_packing *packing;
    const tenmap_tensor *part[TENMAP_PART_NESTED_TABLE + 1]; /* by role; NULL: there is none */
    float numbers[256];                                      /* what each code stands for */
} weight;

/* A part that the packing says is there, as the library checked. */
static const tenmap_tensor *part_of(const weight *w, uint32_t role) {
    assert(w->part[role]);
    return w->part[role];
}

static const unsigned char *bytes_of(const weight *w, uint32_t role) {
    return part_of(w, role)->data;
}

/* Element i of a part, read as `dtype`. */
static float element(const weight *w, uint32_t role, tenmap_dtype dtype, uint64_t i) {
    unsigned char one[8] = {0};
    size_t width = tenmap_dtype_bits(dtype) / 8;
    float value = 0;
    memcpy(one, bytes_of(w, role) + i * width, width);
    tenmap_convert(TENMAP_F32, &value, sizeof value, dtype, one, 1, 0, NULL);
    return value;
}

static uint64_t word_at(const unsigned char *at, uint32_t bits) {
    uint32_t word = 0;
    memcpy(&word, at, bits / 8);
    return word;
}

/* Field k of a row or column of words that begins at `at`; its words are `stride` bytes apart. */
static unsigned field_at(const tenmap_packing *p, const unsigned char *at, uint64_t stride,
                         uint64_t k) {
    uint64_t word = p->per_word ? k / p->per_word : k * p->bits / p->word_bits;
    uint64_t low =
        p->per_word ? (uint64_t)p->order[k % p->per_word] * p->bits : k * p->bits % p->word_bits;
    uint64_t bits = word_at(at + word * stride, p->word_bits);
    if (low + p->bits > p->word_bits) /* the rest is in the next word */
        bits |= word_at(at + (word + 1) * stride, p->word_bits) << p->word_bits;
    return (unsigned)(bits >> low & ((1u << p->bits) - 1));
}

static unsigned code_at(const weight *w, uint64_t matrix, uint64_t row, uint64_t column) {
    const tenmap_packing *p = w->packing;
    const unsigned char *at = bytes_of(w, TENMAP_PART_VALUES) + matrix * p->matrix_bytes;
    return p->down ? field_at(p, at + column * p->word_bits / 8, p->row_bytes, row)
                   : field_at(p, at + row * p->row_bytes, p->word_bits / 8, column);
}

/* The scale at this number among all scales of the weight. */
static float scale_at(const weight *w, uint64_t matrix, uint64_t number) {
    const tenmap_packing *p = w->packing;
    if (p->scale_op == 4) {
        unsigned char code = bytes_of(w, TENMAP_PART_SCALES)[number];
        float scale = element(w, TENMAP_PART_NESTED_TABLE, TENMAP_F32, code);
        scale *= element(w, TENMAP_PART_NESTED_SCALES, TENMAP_F32, number / p->nested_block);
        scale += p->nested_offset;
        return scale;
    }
    float scale = element(w, TENMAP_PART_SCALES, p->scale, number);
    if (p->scale_op == 3)
        return scale * (1.0f / 127.0f);
    if (p->scale_op == 0)
        return scale;
    const tenmap_tensor *all = part_of(w, TENMAP_PART_GLOBAL_SCALE);
    float global = element(w, TENMAP_PART_GLOBAL_SCALE, all->dtype, all->nelems == 1 ? 0 : matrix);
    return p->scale_op == 1 ? scale * global : scale / global;
}

/* The packed zero point of the scale in this row and column. */
static float packed_zero(const weight *w, uint64_t matrix, uint64_t row, uint64_t column) {
    const tenmap_packing *p = w->packing;
    const unsigned char *at = bytes_of(w, TENMAP_PART_ZEROS);
    uint64_t stride =
        p->zeros == 2 ? (p->scale_columns * p->bits + 31) / 32 * 4 : p->scale_columns * 4;
    uint64_t words = (p->scale_rows * p->bits + 31) / 32;
    unsigned zero = p->zeros == 2
                        ? field_at(p, at + (matrix * p->scale_rows + row) * stride, 4, column)
                        : field_at(p, at + matrix * words * stride + column * 4, stride, row);
    if (p->zero_plus_one)
        zero = (zero + 1) & ((1u << p->bits) - 1);
    return (float)((int32_t)zero - p->bias);
}

/* The row and the column of the scale for a code. Returns 0 if the file names a group too many. */
static int find_scale(const weight *w, uint64_t row, uint64_t column, uint64_t *scale_row,
                      uint64_t *scale_column) {
    const tenmap_packing *p = w->packing;
    uint32_t group = 0;
    *scale_row = row / p->group_rows;
    *scale_column = column / p->group_columns;
    if (w->part[TENMAP_PART_GROUP_INDEX]) {
        memcpy(&group, bytes_of(w, TENMAP_PART_GROUP_INDEX) + 4 * (p->transposed ? row : column),
               4);
        *(p->transposed ? scale_row : scale_column) = group;
    }
    return *scale_row < p->scale_rows && *scale_column < p->scale_columns;
}

static int value_at(const weight *w, uint64_t matrix, uint64_t row, uint64_t column, float *out) {
    const tenmap_packing *p = w->packing;
    uint64_t scale_row, scale_column;
    if (!find_scale(w, row, column, &scale_row, &scale_column))
        return 0;
    uint64_t number =
        ((p->scales_shared ? 0 : matrix * p->scale_rows) + scale_row) * p->scale_columns +
        scale_column;
    float value = w->numbers[code_at(w, matrix, row, column)];
    if (p->zeros == 1)
        value -= element(w, TENMAP_PART_ZEROS, part_of(w, TENMAP_PART_ZEROS)->dtype, number);
    else if (p->zeros == 2 || p->zeros == 3)
        value -= packed_zero(w, matrix, scale_row, scale_column);
    value *= scale_at(w, matrix, number);
    if (p->zeros == 4)
        value += element(w, TENMAP_PART_BIASES, part_of(w, TENMAP_PART_BIASES)->dtype, number);
    *out = value;
    return 1;
}

/* Collects the parts by their roles. Returns 0 for a tensor that has no packed codes. */
static int find_weight(const tenmap_tensor *t, weight *w) {
    memset(w, 0, sizeof *w);
    w->tensor = t;
    w->packing = tenmap_packing_of(t);
    if (!w->packing || t->rank == 0)
        return 0;
    for (uint32_t i = 0; tenmap_part_role(t, i); i++)
        w->part[tenmap_part_role(t, i)] = tenmap_part_at(t, i);
    for (unsigned code = 0; code < 1u << w->packing->bits; code++) {
        unsigned char field = (unsigned char)code;
        w->numbers[code] = (float)((int32_t)code - w->packing->bias);
        if (w->packing->code != TENMAP_AS_STORED)
            tenmap_convert(TENMAP_F32, &w->numbers[code], 4, w->packing->code, &field, 1, 0, NULL);
        else if (w->part[TENMAP_PART_TABLE])
            w->numbers[code] = element(w, TENMAP_PART_TABLE, TENMAP_F32, code);
    }
    return 1;
}

/* Compares one element of y, computed both ways. */
static int check_row(const weight *w, uint64_t i, float *row) {
    const tenmap_packing *p = w->packing;
    uint64_t n = w->tensor->shape[w->tensor->rank - 1];
    uint64_t rows = p->rows * p->columns / n, matrix = i / rows;
    double from_parts = 0, from_values = 0;
    if (tenmap_read(w->tensor, i * n, n, TENMAP_F32, row, (size_t)n * 4, 0, NULL) != TENMAP_OK)
        return 0;
    for (uint64_t j = 0; j < n; j++) {
        uint64_t at = i % rows * n + j;
        double x = (double)(j % 13) - 6;
        float value;
        if (!value_at(w, matrix, p->transposed ? j : at / p->columns,
                      p->transposed ? i % rows : at % p->columns, &value))
            return 0;
        from_parts += (double)value * x;
        from_values += (double)row[j] * x;
    }
    return from_parts == from_values ||
           (from_parts != from_parts && from_values != from_values); /* NaN */
}

static int check_weight(const weight *w) {
    uint64_t n = w->tensor->shape[w->tensor->rank - 1], equal = 0;
    uint64_t rows = n ? w->tensor->nelems / n : 0;
    float *row = malloc((size_t)n * 4 + 4);
    for (uint64_t i = 0; row && i < rows; i++)
        equal += (uint64_t)check_row(w, i, row);
    free(row);
    printf("%s: %s, %u bits: %llu of %llu elements of y are equal\n", w->tensor->name,
           tenmap_scheme_of(w->tensor)->name, (unsigned)w->packing->bits, (unsigned long long)equal,
           (unsigned long long)rows);
    return equal == rows;
}

int main(int count, char **arguments) {
    tenmap_options options = TENMAP_OPTIONS_INIT;
    tenmap_model *model;
    tenmap_error error;
    weight w;
    int wrong = 0;
    options.flags = TENMAP_OPEN_DEQUANTIZE;
    if (tenmap_open(count > 1 ? arguments[1] : ".", &options, &model, &error) != TENMAP_OK) {
        fprintf(stderr, "%s\n", error.message);
        return 1;
    }
    for (size_t i = 0; i < tenmap_count(model); i++)
        if (find_weight(tenmap_at(model, i), &w))
            wrong += !check_weight(&w);
    tenmap_close(model);
    return wrong != 0;
}
