/*
 * Operations between values and a number that their group shares: the steps of dequantization, one
 * operation each. Each step is a separate function, so that no compiler fuses a product and a sum
 * into one operation that rounds once where the formulas round twice.
 */
#include "kernels.h"

/* One loop per operation, over groups of which the first may be shorter. */
#define GROUP_OP(name, operation)                                                                  \
    TMI_NOINLINE void name(float *values, size_t count, const float *by, size_t first,             \
                           size_t group) {                                                         \
        for (size_t end = first; count > 0; by++, end = group) {                                   \
            size_t n = end < count ? end : count;                                                  \
            const float shared = *by;                                                              \
            for (size_t i = 0; i < n; i++)                                                         \
                values[i] = values[i] operation shared;                                            \
            values += n;                                                                           \
            count -= n;                                                                            \
        }                                                                                          \
    }

void tmi_scalar_nibbles(float *values, const unsigned char *bytes, size_t count, int32_t bias) {
    for (size_t i = 0; i < count; i++) {
        int32_t both = bytes[i / 2];
        values[i] = (float)((i % 2 ? both >> 4 : both & 15) - bias);
    }
}

GROUP_OP(tmi_group_times, *)
GROUP_OP(tmi_group_minus, -)
GROUP_OP(tmi_group_plus, +)
