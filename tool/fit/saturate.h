/* Arithmetic that stops at UINT64_MAX, which stands for everything that is too large. */
#ifndef TOOL_SATURATE_H
#define TOOL_SATURATE_H

#include <stdint.h>

static inline uint64_t saturated_sum(uint64_t a, uint64_t b) {
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

static inline uint64_t saturated_product(uint64_t a, uint64_t b) {
    return b && a > UINT64_MAX / b ? UINT64_MAX : a * b;
}

#endif
