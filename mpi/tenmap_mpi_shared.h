/* tenmap_mpi_load_shared: one copy per host, in a window of memory that its ranks share. */
#ifndef TENMAP_MPI_SHARED_H
#define TENMAP_MPI_SHARED_H

#include <sys/statvfs.h>

#include "tenmap_mpi_compare.h"
#include "tenmap_mpi_errors.h"
#include "tenmap_mpi_load.h"
#include "tenmap_mpi_place.h"
#include "tenmap_mpi_requests.h"

struct tenmap_mpi_shared {
    MPI_Comm host;
    MPI_Win window;
};

/* A request of some rank of the host. Equal requests share one place. */
typedef struct shared_want {
    const uint64_t *words;
    size_t count;
    want w;
    uint64_t bytes, place;
} shared_want;

/* The place of a request of this rank. */
typedef struct shared_place {
    uint64_t place, bytes;
} shared_place;

typedef struct sharing {
    loading l;
    tenmap_mpi_shared *shared;
    MPI_Comm node;   /* the ranks on one machine, perhaps of several parties */
    int rank, ranks; /* on the host */
    uint64_t *words; /* of all ranks of the host */
    int *counts, *places;
    int total;
    shared_want *wants;
    size_t want_count;
    uint64_t bytes;      /* of all places */
    shared_place *told;  /* the places of this rank's requests */
    tenmap_request *own; /* the requests that this rank loads for its host */
    size_t own_count;
    unsigned char *base;
} sharing;

static int compare_shared(const void *left, const void *right) {
    const shared_want *a = left, *b = right;
    if (a->count != b->count)
        return a->count < b->count ? -1 : 1;
    return memcmp(a->words, b->words, a->count * sizeof *a->words);
}

/*
 * The bytes that a want takes in memory. This cannot overflow: a load of that many bits would have
 * been refused.
 */
static uint64_t want_bytes(const want *w) {
    uint64_t n = elements_as(w->tensor, w->stored);
    if (w->begin) {
        n = 1;
        for (uint32_t d = 0; d < w->tensor->rank; d++)
            n *= w->end[d] - w->begin[d];
    }
    return (bits_of(w->as, n) + 7) / 8;
}

/* Checks the requests as a load does, except for the destinations, which they do not have yet. */
static void check_shared(sharing *x, tenmap_request *requests, size_t count) {
    tenmap_request *copy = take_memory(&x->l, count, sizeof *copy, "the list of requests");
    bool strided = false;
    for (size_t i = 0; i < count && copy && requests; i++) {
        copy[i] = requests[i];
        copy[i].dst = copy;
        copy[i].dst_bytes = SIZE_MAX;
        strided = strided || requests[i].dst_stride;
    }
    if (strided)
        fail_here(&x->l, TENMAP_ERR_ARGUMENT, "the dst_stride of a shared request must be 0");
    if (copy)
        check_requests(&x->l, requests ? copy : NULL, count);
    free(copy);
    if (x->l.status == TENMAP_OK)
        write_list(&x->l);
}

/* Finds the ranks that share memory: as MPI says, and within ranks_per_host. */
static bool find_host_party(sharing *x) {
    loading *l = &x->l;
    uint32_t together = l->options.ranks_per_host;
    int color = together ? (int)((uint32_t)l->rank / together) : 0;
    return went_well(l, MPI_Comm_split_type(l->comm, MPI_COMM_TYPE_SHARED, l->rank, MPI_INFO_NULL,
                                            &x->node)) &&
           went_well(l, MPI_Comm_set_errhandler(x->node, MPI_ERRORS_RETURN)) &&
           went_well(l, MPI_Comm_split(x->node, color, l->rank, &x->shared->host)) &&
           went_well(l, MPI_Comm_set_errhandler(x->shared->host, MPI_ERRORS_RETURN)) &&
           went_well(l, MPI_Comm_rank(x->shared->host, &x->rank)) &&
           went_well(l, MPI_Comm_size(x->shared->host, &x->ranks));
}

/* Exchanges what the ranks of the host want. */
static bool gather_shared(sharing *x) {
    loading *l = &x->l;
    int words = (int)l->list_words;
    if (l->list_words > INT32_MAX / 2)
        fail_here(l, TENMAP_ERR_LIMIT, "the requests take more than 8 GiB");
    x->counts = take_memory(l, 2 * (size_t)x->ranks, sizeof *x->counts, "the ranks");
    if (!agree(l) ||
        !went_well(l, MPI_Allgather(&words, 1, MPI_INT, x->counts, 1, MPI_INT, x->shared->host)))
        return false;
    x->places = x->counts + x->ranks;
    for (int r = 0; r < x->ranks; r++) {
        x->places[r] = x->total;
        if (x->counts[r] > INT32_MAX / 2 - x->total)
            fail_here(l, TENMAP_ERR_LIMIT, "the requests of a host take more than 8 GiB");
        else
            x->total += x->counts[r];
    }
    x->words = take_memory(l, (size_t)x->total, sizeof *x->words, "the requests of a host");
    return agree(l) &&
           went_well(l, MPI_Allgatherv(l->list, words, MPI_UINT64_T, x->words, x->counts, x->places,
                                       MPI_UINT64_T, x->shared->host));
}

/* Decides where everything goes and which rank of the host loads it: about as many bytes each. */
static void place_shared(sharing *x) {
    loading *l = &x->l;
    const uint64_t *end = x->words + x->total;
    size_t n = 0;
    want w;
    for (const uint64_t *at = x->words; at < end; n++)
        at = read_want(l->model, at, &w);
    x->wants = take_memory(l, n, sizeof *x->wants, "the requests of a host");
    x->own = take_memory(l, n, sizeof *x->own, "the requests of a host");
    if (l->status != TENMAP_OK)
        return;
    for (const uint64_t *at = x->words; at < end;) {
        shared_want *s = &x->wants[x->want_count++];
        s->words = at;
        at = read_want(l->model, at, &s->w);
        s->count = (size_t)(at - s->words);
    }
    qsort(x->wants, n, sizeof *x->wants, compare_shared);
    for (size_t i = 0; i < n; i++) {
        shared_want *s = &x->wants[i];
        s->bytes = want_bytes(&s->w);
        bool same = i > 0 && compare_shared(s - 1, s) == 0;
        s->place = same ? s[-1].place : x->bytes;
        if (!same && s->bytes > MOST_SHARED - x->bytes) {
            fail_here(l, TENMAP_ERR_MEMORY,
                      "out of memory: the tensors of a host take more bytes than it can address");
            return;
        }
        if (!same)
            x->bytes += (s->bytes + BATCH_PLACE - 1) / BATCH_PLACE * BATCH_PLACE;
    }
}

/* Chooses this rank's share of the loading. */
static void choose_own(sharing *x) {
    for (size_t i = 0; i < x->want_count; i++) {
        const shared_want *s = &x->wants[i];
        uint64_t share = x->bytes / (uint64_t)x->ranks + 1;
        if ((i > 0 && s[-1].place == s->place) || s->place / share != (uint64_t)x->rank)
            continue;
        x->own[x->own_count++] = (tenmap_request){
            .tensor = s->w.tensor,
            .begin = s->w.begin,
            .end = s->w.end,
            .as = s->w.as,
            .flags = s->w.flags,
            .dst = x->base + s->place,
            .dst_bytes = (size_t)s->bytes,
            .stored_as = s->w.stored == s->w.tensor->dtype ? TENMAP_AS_STORED : s->w.stored};
    }
}

/*
 * Checks that a machine has room in /dev/shm, where MPI usually keeps them, for the windows of all
 * parties on it. Without that room Open MPI 4.1 hangs, and with MPICH 4.0 the first rank that
 * touches the window dies.
 */
static void check_room(sharing *x) {
    struct statvfs shm;
    /* A rank that is alone needs none. A double can hold the sum of all. */
    double mine = x->rank == 0 && x->ranks > 1 ? (double)x->bytes + BATCH_PLACE : 0, all = 0;
    int rank = 0;
    if (!went_well(&x->l, MPI_Allreduce(&mine, &all, 1, MPI_DOUBLE, MPI_SUM, x->node)) ||
        !went_well(&x->l, MPI_Comm_rank(x->node, &rank)) || rank != 0 || all <= 0 ||
        statvfs("/dev/shm", &shm) != 0 || shm.f_blocks == 0) /* no blocks means no limit */
        return;
    double left = (double)shm.f_bavail * (double)shm.f_frsize;
    if (all > left)
        fail_here(&x->l, TENMAP_ERR_MEMORY,
                  "out of memory: shared windows of %.0f bytes on this host, but /dev/shm has only "
                  "%.0f left; make it larger",
                  all, left);
}

static bool open_window(sharing *x) {
    loading *l = &x->l;
    MPI_Aint bytes = x->rank == 0 ? (MPI_Aint)x->bytes + BATCH_PLACE : 0, size = 0;
    void *own = NULL, *first = NULL;
    int unit = 1, good, all = 0;
    good = MPI_Win_allocate_shared(bytes, 1, MPI_INFO_NULL, x->shared->host, &own,
                                   &x->shared->window) == MPI_SUCCESS;
    if (!good)
        fail_here(l, TENMAP_ERR_MEMORY,
                  "out of memory: MPI cannot allocate a shared window of %llu bytes",
                  (unsigned long long)x->bytes);
    if (!went_well(l, MPI_Allreduce(&good, &all, 1, MPI_INT, MPI_MIN, x->shared->host)))
        return false;
    if (!all) { /* freeing is collective: a window that others lack is left to MPI_Finalize */
        x->shared->window = MPI_WIN_NULL;
    } else if (went_well(l, MPI_Win_set_errhandler(x->shared->window, MPI_ERRORS_RETURN)) &&
               went_well(l, MPI_Win_shared_query(x->shared->window, 0, &size, &unit, &first)) &&
               went_well(l, MPI_Win_lock_all(MPI_MODE_NOCHECK, x->shared->window))) {
        uintptr_t place = (uintptr_t)first % BATCH_PLACE;
        x->base = (unsigned char *)first + (place ? BATCH_PLACE - place : 0);
    }
    return agree(l);
}

/*
 * Finds the places of this rank's requests before the load, because the caller's progress function
 * may change the requests.
 */
static void find_places(sharing *x) {
    loading *l = &x->l;
    const uint64_t *at = l->list;
    x->told = take_memory(l, l->count, sizeof *x->told, "the places of requests");
    for (size_t i = 0; i < l->count && x->told; i++) {
        want w = want_of(&l->requests[i]);
        if (wants_nothing(&w))
            continue;
        shared_want key = {.words = at};
        at = read_want(l->model, at, &key.w);
        key.count = (size_t)(at - key.words);
        const shared_want *found =
            bsearch(&key, x->wants, x->want_count, sizeof key, compare_shared);
        if (found)
            x->told[i] = (shared_place){found->place, found->bytes};
    }
}

/* Sets the addresses on this rank, in the order of its requests. */
static void tell_places(const sharing *x, tenmap_request *requests, size_t count) {
    for (size_t i = 0; i < count; i++) {
        requests[i].dst = x->base + x->told[i].place;
        requests[i].dst_bytes = (size_t)x->told[i].bytes;
    }
}

void tenmap_mpi_shared_free(tenmap_mpi_shared *shared) {
    if (!shared)
        return;
    if (shared->window != MPI_WIN_NULL) {
        (void)MPI_Win_unlock_all(shared->window);
        (void)MPI_Win_free(&shared->window);
    }
    if (shared->host != MPI_COMM_NULL)
        (void)MPI_Comm_free(&shared->host);
    free(shared);
}

/* Does everything up to the load itself; true if all ranks succeeded. */
static bool prepare_shared(sharing *x, tenmap_request *requests, size_t count) {
    loading *l = &x->l;
    check_shared(x, requests, count);
    x->shared = take_memory(l, 1, sizeof *x->shared, "a shared window");
    if (x->shared) {
        x->shared->host = MPI_COMM_NULL;
        x->shared->window = MPI_WIN_NULL;
    }
    if (!agree(l))
        return false;
    compare_ranks(l); /* before ranks use each other's tensor ids */
    if (!agree(l) || !find_host_party(x) || !gather_shared(x))
        return false;
    place_shared(x);
    if (l->status == TENMAP_OK)
        find_places(x);
    check_room(x);
    if (!agree(l) || !open_window(x))
        return false;
    choose_own(x);
    return true;
}

tenmap_status tenmap_mpi_load_shared(MPI_Comm comm, const tenmap_model *model,
                                     tenmap_request *requests, size_t count,
                                     const tenmap_mpi_options *options, tenmap_mpi_shared **out,
                                     tenmap_error *error) {
    sharing x = {.node = MPI_COMM_NULL};
    loading *l = &x.l;
    if (out)
        *out = NULL;
    if (begin_party(l, comm, CALL_LOAD_SHARED)) {
        l->model = model;
        l->requests = requests;
        l->count = count;
        take_options(l, options);
        if (!out)
            fail_here(l, TENMAP_ERR_ARGUMENT, "the place for the shared tensors is NULL");
        if (prepare_shared(&x, requests, count)) {
            tenmap_error why = {0};
            tenmap_status status =
                tenmap_mpi_load(l->comm, model, x.own, x.own_count, &l->options, &why);
            why.index = 0;           /* it counted the requests that the rank loads for its host */
            if (status != TENMAP_OK) /* the same on all ranks already */
                fail_with(l, status, &why);
            else if (went_well(l, MPI_Win_sync(x.shared->window)) &&
                     went_well(l, MPI_Barrier(x.shared->host)))
                (void)went_well(l, MPI_Win_sync(x.shared->window));
        }
        if (l->status == TENMAP_OK && out) {
            tell_places(&x, requests, count);
            *out = x.shared;
        } else if (!l->mpi_failed) {
            tenmap_mpi_shared_free(x.shared);
        }
        if (x.node != MPI_COMM_NULL && !l->mpi_failed)
            (void)MPI_Comm_free(&x.node);
        free_buffers(l);
    }
    free(x.words);
    free(x.counts);
    free(x.wants);
    free(x.own);
    free(x.told);
    return end_party(l, error);
}

#endif
