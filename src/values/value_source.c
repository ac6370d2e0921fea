/* Runs transfers of every kind of tensor: plain ones directly, others through their makers. */
#include "value_source.h"
#include "conversion_route.h"

#include <stdlib.h>

static const tmi_maker *const makers[TMI_MAKER_COUNT] = {[TMI_MAKER_DEQUANTIZE] =
                                                             &tmi_dequantize_maker,
                                                         [TMI_MAKER_STRIDED] = &tmi_strided_maker,
                                                         [TMI_MAKER_MOVE] = &tmi_move_maker,
                                                         [TMI_MAKER_COMBINE] = &tmi_combine_maker};

static const tmi_nested_calls nested_calls = {tmi_values_run, tmi_source_free, tmi_values_in_rows};

/* The state of one maker. A thread that switches to another maker gives it up. */
struct tmi_source {
    const tmi_maker *maker;
    max_align_t state[];
};

void tmi_source_free(tmi_source *s) {
    if (!s)
        return;
    s->maker->end(s->state);
    free(s);
}

/* Makes *source one of the maker's. */
static tenmap_status choose_source(tmi_source **source, const tmi_maker *maker,
                                   tenmap_error *error) {
    if (*source && (*source)->maker == maker)
        return TENMAP_OK;
    tmi_source_free(*source);
    size_t size = sizeof **source + maker->state_bytes;
    *source = malloc(size);
    if (!*source)
        return tmi_fail_memory(error, size, "computing values");
    (*source)->maker = maker;
    maker->begin((*source)->state, &nested_calls);
    return TENMAP_OK;
}

tenmap_status tmi_values_run(const tmi_transfer *x, tmi_window *w, tmi_source **source,
                             uint64_t first, uint64_t count, tenmap_error *error) {
    if (!x->computed)
        return tmi_transfer_run(x, w, first, count, error);
    const tmi_maker *maker = makers[x->computed->maker];
    tenmap_status status = choose_source(source, maker, error);
    return status == TENMAP_OK ? maker->run((*source)->state, x, w, first, count, error) : status;
}

void tmi_values_first_misfit(const tmi_transfer *x, tmi_window *w, tmi_source **source,
                             uint64_t first, tenmap_error *error) {
    tmi_transfer look = *x;
    tenmap_error found;
    if (first == 0 || !tmi_route_is_integer(x->as, x->stored))
        return;
    look.dst = NULL; /* so that nothing is written */
    if (tmi_values_run(&look, w, source, 0, first, &found) == TENMAP_ERR_RANGE)
        *error = found;
}

bool tmi_values_in_rows(const tenmap_tensor *t) {
    const tmi_computed *c = tmi_computed_of(t);
    return !c || makers[c->maker]->in_rows(c, &nested_calls);
}

bool tmi_values_can_be_normal(const tenmap_tensor *t, tenmap_dtype as) {
    const tmi_computed *c = tmi_computed_of(t);
    return c && makers[c->maker]->can_be_normal && makers[c->maker]->can_be_normal(c, as);
}

tenmap_status tmi_values_read(tmi_source **source, const tmi_values_wanted *wanted,
                              tenmap_error *error) {
    tmi_window reads = {.buffer = wanted->dst,
                        .direct_fd = -1}; /* only marks that parts are read */
    tmi_transfer x;
    tenmap_status status =
        tmi_transfer_begin(&x, wanted->tensor, TENMAP_AS_STORED, wanted->as, wanted->flags, error);
    if (status == TENMAP_OK)
        status = tmi_transfer_range(&x, wanted->first, wanted->count, error);
    if (status == TENMAP_OK)
        status = tmi_transfer_target(&x, wanted->dst, wanted->dst_bytes, 0, error);
    if (wanted->normal)
        *wanted->normal = true;
    x.normal = wanted->normal;
    if (status != TENMAP_OK || wanted->count == 0)
        return status;
    return tmi_values_run(&x, wanted->checked ? &reads : NULL, source, 0, wanted->count, error);
}
