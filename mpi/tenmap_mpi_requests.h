/* Checks the requests of this rank, and exchanges the requests and the hosts of all ranks. */
#ifndef TENMAP_MPI_REQUESTS_H
#define TENMAP_MPI_REQUESTS_H

#include "tenmap_mpi_compare.h"
#include "tenmap_mpi_errors.h"

static void take_options(loading *l, const tenmap_mpi_options *given) {
    static const tenmap_mpi_options defaults = TENMAP_MPI_OPTIONS_INIT;
    const size_t least = offsetof(tenmap_mpi_options, counts);
    tenmap_mpi_options *o = &l->options;
    *o = defaults;
    if (given && (given->struct_size < least || given->struct_size > sizeof *o)) {
        fail_here(l, TENMAP_ERR_ARGUMENT,
                  "tenmap_mpi_options: struct_size is %llu; start from TENMAP_MPI_OPTIONS_INIT",
                  (unsigned long long)given->struct_size);
        return;
    }
    if (given)
        memcpy(o, given, given->struct_size);
    if (o->flags & ~(uint32_t)(TENMAP_LOAD_READ | TENMAP_LOAD_DIRECT))
        fail_here(l, TENMAP_ERR_ARGUMENT, "tenmap_mpi_options: flags is %u: unknown bits",
                  (unsigned)o->flags);
    if (o->chunk_bytes && (o->chunk_bytes < LEAST_CHUNK || o->chunk_bytes > MOST_CHUNK))
        fail_here(l, TENMAP_ERR_ARGUMENT,
                  "tenmap_mpi_options: chunk_bytes is %llu; it must be 0 or from 4 KiB to 1 GiB",
                  (unsigned long long)o->chunk_bytes);
}

static int stop_at_once(void *ctx, uint64_t done, uint64_t total) {
    (void)ctx;
    (void)done;
    (void)total;
    return 1;
}

/* Lets the library check the requests: a load that is cancelled before its first byte. */
static void check_requests(loading *l, const tenmap_request *requests, size_t count) {
    tenmap_load_options check = TENMAP_LOAD_OPTIONS_INIT;
    tenmap_error why = {0};
    check.threads = 1;
    check.progress = stop_at_once;
    if (!l->model) {
        fail_here(l, TENMAP_ERR_ARGUMENT,
                  "the model is NULL; opening it may have failed on this rank");
        return;
    }
    tenmap_status status = tenmap_load(l->model, requests, count, &check, &why);
    if (status != TENMAP_OK && status != TENMAP_ERR_CANCELLED)
        fail_with(l, status, &why);
}

static int compare_known(const void *left, const void *right) {
    uintptr_t a = (uintptr_t)((const known *)left)->tensor;
    uintptr_t b = (uintptr_t)((const known *)right)->tensor;
    return a < b ? -1 : a > b;
}

/*
 * A tensor by its id: the number of tenmap_at, and in the low 8 bits 0, or 1 + the number of a
 * part.
 */
static const tenmap_tensor *tensor_of(const tenmap_model *model, uint64_t id) {
    const tenmap_tensor *t = tenmap_at(model, (size_t)(id >> 8));
    return id & 255 ? tenmap_part_at(t, (uint32_t)(id & 255) - 1) : t;
}

/* Makes the table from tensors to ids. */
static bool know_tensors(loading *l) {
    size_t tensors = tenmap_count(l->model), all = 0;
    for (size_t i = 0; i < tensors; i++)
        all += 1 + tenmap_scheme_of(tenmap_at(l->model, i))->part_count;
    l->known = take_memory(l, all, sizeof *l->known, "the numbers of tensors");
    for (size_t i = 0; i < tensors && l->known; i++) {
        const tenmap_tensor *t = tenmap_at(l->model, i), *part;
        l->known[l->known_count++] = (known){t, (uint64_t)i << 8};
        for (uint32_t k = 0; (part = tenmap_part_at(t, k)) != NULL && l->known_count < all; k++)
            l->known[l->known_count++] = (known){part, (uint64_t)i << 8 | (k + 1)};
    }
    if (l->known)
        qsort(l->known, l->known_count, sizeof *l->known, compare_known);
    return l->known;
}

/*
 * The number of elements if the tensor's bytes are taken as this dtype; likewise for its last axis.
 */
static uint64_t elements_as(const tenmap_tensor *t, tenmap_dtype stored) {
    uint32_t together, bytes;
    if (stored == t->dtype || !tenmap_dtype_block(stored, &together, &bytes))
        return t->nelems;
    return t->nbytes / bytes * together;
}

static uint64_t last_axis(const tenmap_tensor *t, tenmap_dtype stored) {
    uint64_t rows = 1;
    for (uint32_t d = 0; d + 1 < t->rank; d++)
        rows *= t->shape[d];
    return rows ? elements_as(t, stored) / rows : 0;
}

static uint64_t axis_of(const tenmap_tensor *t, uint32_t d, uint64_t last) {
    return d + 1 >= t->rank ? last : t->shape[d];
}

static want want_of(const tenmap_request *r) {
    want w = {r->tensor, 0, r->stored_as, r->as, r->flags, r->begin, r->end};
    if (w.stored == TENMAP_AS_STORED)
        w.stored = r->tensor->dtype;
    if (w.as == TENMAP_AS_STORED)
        w.as = w.stored;
    if (r->tensor->rank == 0)
        w.begin = w.end = NULL;
    return w;
}

static bool wants_nothing(const want *w) {
    for (uint32_t d = 0; w->begin && d < w->tensor->rank; d++)
        if (w->begin[d] == w->end[d])
            return true;
    return elements_as(w->tensor, w->stored) == 0;
}

/*
 * A want as words: the id; dtypes, flags and whether it is the whole tensor; if not, begin and end.
 */
static bool add_words(loading *l, const uint64_t *words, size_t n) {
    while (l->list_room - l->list_words < n) {
        size_t more = l->list_room ? l->list_room * 2 : 256;
        uint64_t *list = realloc(l->list, more * sizeof *list);
        if (!list) {
            fail_here(l, TENMAP_ERR_MEMORY, "out of memory: %llu bytes for the list of requests",
                      (unsigned long long)more * sizeof *list);
            return false;
        }
        l->list = list;
        l->list_room = more;
    }
    if (n)
        memcpy(l->list + l->list_words, words, n * sizeof *words);
    l->list_words += n;
    return true;
}

static bool write_want(loading *l, const want *w) {
    known key = {w->tensor, 0};
    const known *found = bsearch(&key, l->known, l->known_count, sizeof key, compare_known);
    if (!found) {
        fail_here(l, TENMAP_ERR_ARGUMENT, "the tensor of a request does not belong to the model");
        return false;
    }
    uint64_t head[2] = {found->id, (uint64_t)w->as | (uint64_t)w->stored << 16 |
                                       (uint64_t)(w->flags & 0x7fff) << 32 |
                                       (uint64_t)!w->begin << 63};
    size_t rank = w->begin ? w->tensor->rank : 0;
    return add_words(l, head, 2) && add_words(l, w->begin, rank) && add_words(l, w->end, rank);
}

/* Reads the words of the next want; returns the words after them. */
static const uint64_t *read_want(const tenmap_model *model, const uint64_t *words, want *w) {
    w->id = words[0];
    w->tensor = tensor_of(model, words[0]);
    w->as = words[1] & 0xffff;
    w->stored = words[1] >> 16 & 0xffff;
    w->flags = words[1] >> 32 & 0x7fff;
    w->begin = w->end = NULL;
    words += 2;
    if (words[-1] >> 63)
        return words;
    w->begin = words;
    w->end = words + w->tensor->rank;
    return words + 2 * (size_t)w->tensor->rank;
}

static void write_list(loading *l) {
    if (!know_tensors(l))
        return;
    for (size_t i = 0; i < l->count; i++) {
        want w = want_of(&l->requests[i]);
        if (!wants_nothing(&w) && !write_want(l, &w))
            return;
    }
}

/* Ranks with equal lists become one taker, and each distinct list is sent once. */
static void find_takers(loading *l) {
    uint64_t words = 0;
    if (!plan_first_alike(l->heads, 3, l->size, l->scratch)) {
        fail_here(l, TENMAP_ERR_MEMORY, "out of memory: the lists of %d ranks", l->size);
        return;
    }
    for (int r = 0; r < l->size; r++) {
        const uint64_t *head = l->heads + 3 * (size_t)r;
        int same = l->scratch[r];
        l->taker_of[r] = same < r ? l->taker_of[same] : l->takers++;
        l->places_of[r] = (int)words;
        l->counts_of[r] = same < r ? 0 : (int)head[2];
        if (same == r)
            words += head[2];
        if (head[2] > INT32_MAX / 2 || words > INT32_MAX / 2) {
            fail_here(l, TENMAP_ERR_LIMIT, "the requests of all ranks take more than 8 GiB");
            return;
        }
    }
    l->lists_words = (size_t)words;
    l->lists = take_memory(l, l->lists_words, sizeof *l->lists, "the requests of all ranks");
}

static bool exchange_lists(loading *l) {
    digest d = {0xcbf29ce484222325u, 1};
    if (l->status == TENMAP_OK)
        write_list(l);
    l->heads = take_memory(l, 3 * (size_t)l->size, sizeof *l->heads, "the ranks");
    l->counts_of =
        take_memory(l, 5 * (size_t)l->size + 1 + 2 * VOTES, sizeof *l->counts_of, "the ranks");
    if (!agree(l))
        return false;
    l->places_of = l->counts_of + l->size;
    l->host_of = l->places_of + l->size;
    l->taker_of = l->host_of + l->size;
    l->scratch = l->taker_of + l->size;
    l->vote_in = l->scratch + l->size + 1;
    l->vote_out = l->vote_in + VOTES;
    digest_add(&d, l->list, l->list_words * sizeof *l->list);
    uint64_t head[3] = {d.a, d.b, l->list_words};
    if (!went_well(l, MPI_Allgather(head, 3, MPI_UINT64_T, l->heads, 3, MPI_UINT64_T, l->comm)))
        return false;
    find_takers(l);
    return agree(l) &&
           went_well(l, MPI_Allgatherv(l->list, l->counts_of[l->rank], MPI_UINT64_T, l->lists,
                                       l->counts_of, l->places_of, MPI_UINT64_T, l->comm));
}

/* Which host each rank is on: by ranks_per_host, or as MPI says. */
static bool find_hosts(loading *l) {
    MPI_Comm host = MPI_COMM_NULL;
    int first = l->rank, lowest = 0, hosts = 0;
    uint32_t together = l->options.ranks_per_host;
    for (int r = 0; r < l->size && together; r++)
        l->host_of[r] = (int)((uint32_t)r / together);
    if (together)
        return true;
    bool good = went_well(l, MPI_Comm_split_type(l->comm, MPI_COMM_TYPE_SHARED, l->rank,
                                                 MPI_INFO_NULL, &host)) &&
                went_well(l, MPI_Allreduce(&first, &lowest, 1, MPI_INT, MPI_MIN, host)) &&
                went_well(l, MPI_Allgather(&lowest, 1, MPI_INT, l->host_of, 1, MPI_INT, l->comm));
    for (int r = 0; r < l->size && good; r++) /* the lowest rank of a host comes first */
        l->host_of[r] = l->host_of[r] == r ? hosts++ : l->host_of[l->host_of[r]];
    if (host != MPI_COMM_NULL)
        (void)MPI_Comm_free(&host);
    return good;
}

#endif
