/*
 * The makers: each produces the elements of one kind of tensor whose elements are not stored one
 * after the other. A maker gives elements of the tensor's own dtype, bit for bit, or values
 * (computed.h says which), and has a state of its own in each thread. Plain tensors have no maker:
 * their bytes go through the kernels of conversion_route.c.
 */
#ifndef TENMAP_VALUE_SOURCE_H
#define TENMAP_VALUE_SOURCE_H

#include "../model/computed.h"
#include "values.h"

/*
 * What makers call whose parts have makers themselves: tmi_values_run, tmi_source_free and
 * tmi_values_in_rows. They are passed on, so that the makers need not know who calls them.
 */
typedef struct tmi_nested_calls {
    tenmap_status (*run)(const tmi_transfer *x, tmi_window *window, tmi_source **source,
                         uint64_t first, uint64_t count, tenmap_error *error);
    void (*release)(tmi_source *source);
    bool (*in_rows)(const tenmap_tensor *t);
} tmi_nested_calls;

typedef struct tmi_maker {
    size_t state_bytes;
    /* Prepares a new state for its first tensor, and frees what the state has allocated. */
    void (*begin)(void *state, const tmi_nested_calls *nested);
    void (*end)(void *state);
    /*
     * Produces elements [first, first+count) of the transfer and stores them, as tmi_values_run
     * does. If `window` has a buffer, parts are read, even those that are in memory.
     */
    tenmap_status (*run)(void *state, const tmi_transfer *x, const tmi_window *window,
                         uint64_t first, uint64_t count, tenmap_error *error);
    /* As tmi_values_in_rows. */
    bool (*in_rows)(const tmi_computed *computed, const tmi_nested_calls *nested);
    /* As tmi_values_can_be_normal. NULL: the maker gives elements. */
    bool (*can_be_normal)(const tmi_computed *computed, tenmap_dtype as);
} tmi_maker;

extern const tmi_maker tmi_dequantize_maker; /* dequantize.c: quantized weights */
extern const tmi_maker tmi_strided_maker;    /* strided_elements.c: storages seen with strides */
extern const tmi_maker tmi_move_maker;       /* derived_moves.c: RENAME, CONCAT, STACK */
extern const tmi_maker tmi_combine_maker;    /* derived_numbers.c: SUM, LOW_RANK, CALL */

#endif
