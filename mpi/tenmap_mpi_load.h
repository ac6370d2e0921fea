/* tenmap_mpi_load: the steps of a load. */
#ifndef TENMAP_MPI_LOAD_H
#define TENMAP_MPI_LOAD_H

#include "tenmap_mpi_buffers.h"
#include "tenmap_mpi_compare.h"
#include "tenmap_mpi_deliver.h"
#include "tenmap_mpi_errors.h"
#include "tenmap_mpi_place.h"
#include "tenmap_mpi_read.h"
#include "tenmap_mpi_requests.h"
#include "tenmap_mpi_streams.h"

/* Everything that comes before the first byte is read. */
static bool prepare(loading *l) {
    check_requests(l, l->requests, l->count);
    if (!agree(l))
        return false;
    compare_ranks(l);
    if (!agree(l) || !exchange_lists(l) || !find_hosts(l))
        return false;
    if (make_plan(l) && find_mine(l))
        take_buffers(l);
    return agree(l);
}

static void load_all(loading *l) {
    if (!prepare(l))
        return;
    clear_spare_bits(l);
    begin_reading(l);
    (void)deliver(l);
    end_reading(l);
    if (!agree(l))
        return;
    l->counts.read /= 8;
    l->counts.wanted = l->plan.total / 8;
    if (l->options.counts)
        *l->options.counts = l->counts;
    if (l->options.progress)
        (void)l->options.progress(l->options.ctx, l->plan.total / 8, l->plan.total / 8);
}

tenmap_status tenmap_mpi_load(MPI_Comm comm, const tenmap_model *model,
                              const tenmap_request *requests, size_t count,
                              const tenmap_mpi_options *options, tenmap_error *error) {
    loading l;
    if (begin_party(&l, comm, CALL_LOAD)) {
        l.model = model;
        l.requests = requests;
        l.count = count;
        take_options(&l, options);
        load_all(&l);
        free_buffers(&l);
    }
    return end_party(&l, error);
}

#endif
