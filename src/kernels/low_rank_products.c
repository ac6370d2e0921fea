/*
 * Products of small matrices of F64, and sums with factors, in plain C. Every step is rounded by
 * itself, in the order that kernels.h names, so all instruction sets give the same bits.
 */
#include "kernels.h"

TMI_UNFUSED_BEGIN

void tmi_scalar_add_scaled(double *sums, const double *values, size_t count, double factor) {
    for (size_t i = 0; i < count; i++) {
        double scaled = factor * values[i];
        sums[i] += scaled;
    }
}

void tmi_scalar_product(double *out, const tmi_product *p) {
    enum { WIDE = 256 }; /* columns whose sums stay in the cache */
    for (size_t first = 0; first < p->columns; first += WIDE) {
        size_t columns = p->columns - first < WIDE ? p->columns - first : WIDE;
        for (size_t i = 0; i < p->rows; i++) {
            double *sums = out + i * p->columns + first;
            for (size_t j = 0; j < columns; j++)
                sums[j] = 0;
            for (size_t k = 0; k < p->inner; k++) {
                const double *a = p->a + k * p->a_line + first;
                double b = p->b[i * p->inner + k];
                for (size_t j = 0; j < columns; j++) {
                    double product = b * a[j];
                    sums[j] += product;
                }
            }
        }
    }
}

TMI_UNFUSED_END
