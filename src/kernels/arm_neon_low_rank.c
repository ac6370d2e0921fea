/* NEON versions of low_rank_products.c: four rows by four columns at a time. */
#include "kernels.h"

#if TMI_NEON

#include <arm_neon.h>

TMI_UNFUSED_BEGIN

void tmi_neon_add_scaled(double *sums, const double *values, size_t count, double factor) {
    size_t i = 0;
    for (; i + 2 <= count; i += 2) {
        float64x2_t scaled = vmulq_n_f64(vld1q_f64(values + i), factor);
        vst1q_f64(sums + i, vaddq_f64(vld1q_f64(sums + i), scaled));
    }
    if (i < count)
        tmi_scalar_add_scaled(sums + i, values + i, count - i, factor);
}

/* `rows` is 1 or 4; the compiler makes a function of each. */
static TMI_INLINE void product_rows_neon(double *out, const tmi_product *p, size_t i, size_t j,
                                         size_t rows) {
    float64x2_t sums[8];
    const double *a = p->a + j;
    for (size_t n = 0; n < 2 * rows; n++)
        sums[n] = vdupq_n_f64(0);
    for (size_t k = 0; k < p->inner; k++, a += p->a_line) {
        float64x2_t low = vld1q_f64(a), high = vld1q_f64(a + 2);
        for (size_t n = 0; n < rows; n++) {
            double b = p->b[(i + n) * p->inner + k];
            sums[2 * n] = vaddq_f64(sums[2 * n], vmulq_n_f64(low, b));
            sums[2 * n + 1] = vaddq_f64(sums[2 * n + 1], vmulq_n_f64(high, b));
        }
    }
    for (size_t n = 0; n < rows; n++) {
        vst1q_f64(out + (i + n) * p->columns + j, sums[2 * n]);
        vst1q_f64(out + (i + n) * p->columns + j + 2, sums[2 * n + 1]);
    }
}

/* The sums of what is left of a few columns. */
static void product_column_neon(double *out, const tmi_product *p, size_t j) {
    for (size_t i = 0; i < p->rows; i++) {
        double sum = 0;
        for (size_t k = 0; k < p->inner; k++) {
            double product = p->b[i * p->inner + k] * p->a[k * p->a_line + j];
            sum += product;
        }
        out[i * p->columns + j] = sum;
    }
}

void tmi_neon_product(double *out, const tmi_product *p) {
    size_t j = 0;
    for (; j + 4 <= p->columns; j += 4) {
        size_t i = 0;
        for (; i + 4 <= p->rows; i += 4)
            product_rows_neon(out, p, i, j, 4);
        for (; i < p->rows; i++)
            product_rows_neon(out, p, i, j, 1);
    }
    for (; j < p->columns; j++)
        product_column_neon(out, p, j);
}

TMI_UNFUSED_END

#endif
