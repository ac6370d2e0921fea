/* tenmap_mpi_open: the same model on all ranks. */
#ifndef TENMAP_MPI_OPEN_H
#define TENMAP_MPI_OPEN_H

#include "tenmap_mpi_compare.h"

/* Whether MPI allows threads that do not call it. */
static bool may_have_threads(void) {
    int level = MPI_THREAD_SINGLE;
    return MPI_Query_thread(&level) == MPI_SUCCESS && level >= MPI_THREAD_FUNNELED;
}

/* tenmap_open, with several threads only if MPI allows them. */
static tenmap_status open_here(const char *path, const tenmap_options *options, tenmap_model **out,
                               tenmap_error *error) {
    tenmap_options alone = TENMAP_OPTIONS_INIT;
    const size_t least = offsetof(tenmap_options, threads) + sizeof alone.threads;
    if (may_have_threads() ||
        (options && (options->struct_size < least || options->struct_size > sizeof alone)))
        return tenmap_open(path, options, out, error);
    if (options)
        memcpy(&alone, options, options->struct_size);
    alone.threads = 1;
    return tenmap_open(path, &alone, out, error);
}

tenmap_status tenmap_mpi_open(MPI_Comm comm, const char *path, const tenmap_options *options,
                              tenmap_model **out, tenmap_error *error) {
    loading l;
    tenmap_model *model = NULL;
    tenmap_error why = {0};
    if (begin_party(&l, comm, CALL_OPEN)) {
        tenmap_status status = out ? open_here(path, options, &model, &why) : TENMAP_OK;
        if (!out)
            fail_here(&l, TENMAP_ERR_ARGUMENT, "the place for the model is NULL");
        if (status != TENMAP_OK)
            fail_with(&l, status, &why);
        if (agree(&l)) {
            l.model = model;
            compare_ranks(&l);
            if (agree(&l)) {
                compare_samples(&l, may_have_threads() ? 0 : 1);
                (void)agree(&l);
            }
        }
    }
    if (l.status != TENMAP_OK) {
        tenmap_close(model);
        model = NULL;
    }
    if (out)
        *out = model;
    return end_party(&l, error);
}

#endif
