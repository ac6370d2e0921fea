/* The functions that a derived model calls for DoRA: they scale outputs. */
#include <string.h>

#include "lora/lora_dora.h"

tenmap_status lora_scale_outputs(void *ctx, uint64_t matrix, uint64_t row, uint64_t column,
                                 size_t count, const float *const *terms, float *out,
                                 tenmap_error *error) {
    const lora_dora *d = ctx;
    size_t at = (size_t)(d->by_column ? column : row), step = d->by_column;
    (void)matrix;
    (void)error;
    for (size_t i = 0; i < count; i++, at += step)
        if (d->exact)
            out[i] = (float)(((double)terms[0][i] + (double)terms[1][i]) * d->full[at]);
        else
            out[i] = terms[0][i] * d->single[at];
    return TENMAP_OK;
}

tenmap_status lora_copy_values(void *ctx, uint64_t matrix, uint64_t row, uint64_t column,
                               size_t count, const float *const *terms, float *out,
                               tenmap_error *error) {
    (void)ctx;
    (void)matrix;
    (void)row;
    (void)column;
    (void)error;
    memcpy(out, terms[0], count * sizeof *out);
    return TENMAP_OK;
}
