/* The weights that tests build: one function for each case, and those that must be refused. */
#ifndef TENMAP_TESTS_QUANTIZED_SCHEMES_H
#define TENMAP_TESTS_QUANTIZED_SCHEMES_H

#include "quantized_weight.h"

typedef void make_weight(stored_weight *w);

#define SHAPE(...) ((const uint64_t[]){__VA_ARGS__})
/* Word i of a part of 32-bit words. */
void store_word(stored_part *p, uint64_t i, uint32_t word);

typedef struct broken_case {
    make_weight *make;
    const char *fragment; /* of the error */
    bool missing;         /* a part is missing, which a partial open accepts */
} broken_case;

/* Weights of any size of each family, as docs/quantized.md names them. */
void make_scaled(stored_weight *w, const char *label, tenmap_dtype values, const char *scale_name,
                 tenmap_dtype scale, uint64_t rows, uint64_t columns, uint64_t group_rows,
                 uint64_t group_columns);
void make_packed(stored_weight *w, const char *label, unsigned bits, uint64_t rows,
                 uint64_t columns, uint64_t group, bool zeros, bool old);
void make_turned(stored_weight *w, const char *label, unsigned bits, uint64_t in, uint64_t out,
                 uint64_t group, bool awq, bool listed);
void make_pairs(stored_weight *w, const char *label, unsigned bits, uint64_t rows, uint64_t columns,
                uint64_t group, const char *values, tenmap_dtype dtype, const char *scale,
                tenmap_dtype scale_dtype);
void make_gpt_oss(stored_weight *w, const char *label, uint64_t experts, uint64_t rows,
                  uint64_t groups);
void make_affine(stored_weight *w, const char *label, unsigned bits, uint64_t rows,
                 uint64_t columns, uint64_t group, const char *scheme, const char *config);
void make_bnb4(stored_weight *w, const char *label, uint64_t rows, uint64_t columns, uint64_t block,
               bool nested, bool fp4);

/* Cases that others begin with. */
make_weight fp8_block, gptq_v2, gptq_int4, awq_int4, packed_int4, mlx_4, gpt_oss, nvfp4_modelopt,
    bnb_nf4, torchao_blocks, comfy_fp8;

/* The same schemes in other shapes: quantized_shapes.c. */
extern make_weight *const quantized_shapes[];
extern const size_t quantized_shape_count;

extern make_weight *const quantized_cases[];
extern const size_t quantized_case_count;
/* quantized_broken.c */
extern const broken_case broken_cases[];
extern const size_t broken_case_count;
extern const broken_case late_cases[]; /* that open, and are refused when they are read */
extern const size_t late_case_count;

#endif
