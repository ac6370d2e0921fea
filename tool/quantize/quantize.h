/*
 * Quantizes weights: 8-bit or 4-bit codes with scales, in layouts that other programs read, rounded
 * to nearest. Values are read twice: once for scales and losses, once to be written. Memory use is
 * a few MiB plus the scales of rows and blocks.
 */
#ifndef TOOL_QUANTIZE_H
#define TOOL_QUANTIZE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tenmap.h>

#include "view/print.h"

/* In the order of the words of --quantize. */
typedef enum quantize_scheme {
    QUANTIZE_NONE,
    QUANTIZE_FP8_BLOCK,    /* DeepSeek's: F8_E4M3, weight_scale_inv F32 for each 128x128 */
    QUANTIZE_FP8_CHANNEL,  /* compressed-tensors' float-quantized: weight_scale F32 [rows, 1] */
    QUANTIZE_INT8_CHANNEL, /* its int-quantized: I8, weight_scale F32 [rows, 1] */
    QUANTIZE_MXFP4 /* its mxfp4-pack-quantized: weight_packed, weight_scale U8 for each 32 */
} quantize_scheme;
#define QUANTIZE_WORDS "none|fp8-block|fp8-channel|int8-channel|mxfp4"

enum { QUANTIZE_BLOCK = 128, QUANTIZE_GROUP = 32 };

/* What quantization did to values. */
typedef struct quantize_loss {
    uint64_t overflowed, flushed, nans; /* flushed: nonzero values that became zero */
    double squares, norm;               /* sums of squares: of the errors, and of the values */
    double largest;                     /* error */
} quantize_loss;

typedef struct quantized_weight {
    const tenmap_tensor *from; /* with two dimensions */
    uint64_t rows, columns;
    float *scales; /* one per row or block; NULL with MXFP4, whose scales are recomputed */
    /* Offsets in the virtual file that the parts are read from. */
    uint64_t values_at, scales_at, end;
    size_t first_strip;
    quantize_loss lost;
} quantized_weight;

typedef struct quantizer {
    quantize_scheme scheme;
    quantized_weight *weights;
    size_t count;
    text header;         /* of that file */
    tenmap_model *model; /* the parts as tensors; NULL until quantizer_open */
    quantize_loss lost;  /* totals */
} quantizer;

const char *quantize_name(quantize_scheme scheme);
/*
 * Returns NULL if the tensor can be quantized with the scheme (floats of two dimensions), else the
 * reason why not.
 */
const char *quantize_obstacle(quantize_scheme scheme, const tenmap_tensor *tensor);

void quantizer_add(quantizer *q, const tenmap_tensor *tensor);
/* Computes the scales and losses. Returns 0 or an exit code. */
int quantizer_measure(quantizer *q);
/* Opens the parts as a model; codes are computed when they are read. Returns 0 or an exit code. */
int quantizer_open(quantizer *q);
/*
 * Part 0 holds the values, part 1 the scales. The second function returns the part's name, which
 * the caller frees.
 */
const tenmap_tensor *quantizer_part(const quantizer *q, size_t weight, unsigned part);
char *quantizer_part_name(const quantizer *q, size_t weight, unsigned part, size_t *len);
void quantizer_free(quantizer *q);

/*
 * For quantize_io.c; may be called from any thread. Writes the codes of `count` elements from
 * `first`; both ends lie on MXFP4 group boundaries. Likewise scales, from index `first`, as bytes
 * of the file.
 */
tenmap_status quantize_codes(const quantizer *q, const quantized_weight *w, uint64_t first,
                             size_t count, unsigned char *codes, tenmap_error *error);
tenmap_status quantize_scales(const quantizer *q, const quantized_weight *w, uint64_t first,
                              size_t count, unsigned char *bytes, tenmap_error *error);
uint64_t quantize_scale_count(quantize_scheme scheme, uint64_t rows, uint64_t columns);
size_t quantize_scale_width(quantize_scheme scheme); /* bytes */
tenmap_dtype quantize_values_dtype(quantize_scheme scheme);

/* Writes the value of "quantization_config"; `kept` lists the modules that are not quantized. */
void quantize_config(quantize_scheme scheme, const char *const *kept, const size_t *lens,
                     size_t count, text *out);

#endif
