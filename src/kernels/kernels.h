/*
 * What convert.c and the kernels know of each other. Kernels know nothing of models or errors: they
 * take arguments that convert.c has checked.
 */
#ifndef TENMAP_KERNELS_H
#define TENMAP_KERNELS_H

#include "../internal.h"

/* scalar.c: the oracle. One element at a time, integers only; slow, and right by construction. */

/* One end of a conversion: where the first element is and how elements lie in memory. */
typedef struct tmi_elements {
    tenmap_dtype dtype;
    unsigned bit;       /* of the first byte, where the first element starts; 4- and 6-bit dtypes */
    bool little_endian; /* the byte order of elements that are wider than a byte */
} tmi_elements;

/* The bits of one element of `to` for the bits of one element of `from`. */
uint64_t tmi_scalar_one(tenmap_dtype to, tenmap_dtype from, uint64_t bits, uint32_t flags);

/*
 * Any pair that tmi_convert_check allows, same-type copies included. Bits of *dst before to.bit are
 * kept; spare bits after the last element become 0.
 */
void tmi_scalar_convert(tmi_elements to, void *dst, tmi_elements from, const void *src,
                        size_t count, uint32_t flags);

#endif
