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
/* The same for integers and BOOL to another such dtype; if dst is NULL, it only checks. */
bool tmi_route_is_integer(tenmap_dtype to, tenmap_dtype from);
uint64_t tmi_route_integers(tmi_elements to, void *dst, tmi_elements from, const void *src,
                            uint64_t count, uint32_t flags, uint64_t *clamped);

#endif
