/* AVX2 versions of low_rank_products.c: four rows by eight columns at a time. */
#include "x86_avx2.h"

#if TMI_AVX2

TMI_UNFUSED_BEGIN

AVX2_TARGET void tmi_avx2_add_scaled(double *sums, const double *values, size_t count,
                                     double factor) {
    const __m256d by = _mm256_set1_pd(factor);
    size_t i = 0;
    for (; i + 4 <= count; i += 4) {
        __m256d scaled = _mm256_mul_pd(by, _mm256_loadu_pd(values + i));
        _mm256_storeu_pd(sums + i, _mm256_add_pd(_mm256_loadu_pd(sums + i), scaled));
    }
    if (i < count)
        tmi_scalar_add_scaled(sums + i, values + i, count - i, factor);
}

/* `rows` is 1 or 4; the compiler makes a function of each. */
AVX2_INLINE void product_rows_avx2(double *out, const tmi_product *p, size_t i, size_t j,
                                   size_t rows) {
    __m256d sums[8];
    const double *a = p->a + j;
    AVX2_UNROLL
    for (size_t n = 0; n < 2 * rows; n++)
        sums[n] = _mm256_setzero_pd();
    for (size_t k = 0; k < p->inner; k++, a += p->a_line) {
        __m256d low = _mm256_loadu_pd(a), high = _mm256_loadu_pd(a + 4);
        AVX2_UNROLL
        for (size_t n = 0; n < rows; n++) {
            __m256d b = _mm256_broadcast_sd(p->b + (i + n) * p->inner + k);
            sums[2 * n] = _mm256_add_pd(sums[2 * n], _mm256_mul_pd(b, low));
            sums[2 * n + 1] = _mm256_add_pd(sums[2 * n + 1], _mm256_mul_pd(b, high));
        }
    }
    AVX2_UNROLL
    for (size_t n = 0; n < rows; n++) {
        _mm256_storeu_pd(out + (i + n) * p->columns + j, sums[2 * n]);
        _mm256_storeu_pd(out + (i + n) * p->columns + j + 4, sums[2 * n + 1]);
    }
}

/* The sums of what is left of a few columns. */
AVX2_TARGET static void product_column_avx2(double *out, const tmi_product *p, size_t j) {
    for (size_t i = 0; i < p->rows; i++) {
        double sum = 0;
        for (size_t k = 0; k < p->inner; k++) {
            double product = p->b[i * p->inner + k] * p->a[k * p->a_line + j];
            sum += product;
        }
        out[i * p->columns + j] = sum;
    }
}

AVX2_TARGET void tmi_avx2_product(double *out, const tmi_product *p) {
    size_t j = 0;
    for (; j + 8 <= p->columns; j += 8) {
        size_t i = 0;
        for (; i + 4 <= p->rows; i += 4)
            product_rows_avx2(out, p, i, j, 4);
        for (; i < p->rows; i++)
            product_rows_avx2(out, p, i, j, 1);
    }
    for (; j < p->columns; j++)
        product_column_avx2(out, p, j);
}

TMI_UNFUSED_END

#endif
