/* Converts elements of any allowed dtype to any other, using the kernels. */
#ifndef TENMAP_CONVERSION_ROUTE_H
#define TENMAP_CONVERSION_ROUTE_H

#include "../kernels/kernels.h"

/*
 * Returns `count`, or less if an integer does not fit into an integer dtype: then the number of the
 * first such element. Of those before it, some may not have been written.
 */
uint64_t tmi_route(tmi_elements to, void *dst, tmi_elements from, const void *src, uint64_t count,
                   uint32_t flags);
/* Whether both are integers or BOOL, and differ. */
bool tmi_route_is_integer(tenmap_dtype to, tenmap_dtype from);
/* As tmi_misfits, for any number of elements. */
typedef struct tmi_route_misfits {
    uint64_t first, count;
} tmi_route_misfits;
/* The same for such a pair, with what tmi_integers returns; if dst is NULL, it only checks. */
tmi_route_misfits tmi_route_integers(tmi_elements to, void *dst, tmi_elements from, const void *src,
                                     uint64_t count, uint32_t flags);

#endif
