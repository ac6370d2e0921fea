/* Compares models, options and calls: all ranks must have the same ones. */
#ifndef TENMAP_MPI_COMPARE_H
#define TENMAP_MPI_COMPARE_H

#include "tenmap_mpi_errors.h"

typedef struct digest {
    uint64_t a, b;
} digest;

static void digest_add(digest *d, const void *bytes, size_t n) {
    const unsigned char *at = bytes;
    for (size_t i = 0; i < n; i++) {
        d->a = (d->a ^ at[i]) * 0x100000001b3u;
        d->b = (d->b + at[i] + 1) * 0x9e3779b97f4a7c15u;
        d->b ^= d->b >> 29;
    }
}

static void digest_number(digest *d, uint64_t number) {
    digest_add(d, &number, sizeof number);
}

/* Adds a tensor as the header describes it. */
static void digest_tensor(digest *d, const tenmap_tensor *t) {
    digest_number(d, t->name_len);
    digest_add(d, t->name, t->name_len);
    digest_number(d, t->dtype);
    digest_number(d, (uint64_t)t->shard << 32 | t->rank);
    digest_number(d, t->file_offset);
    digest_add(d, t->shape, t->rank * sizeof *t->shape);
}

/*
 * Digests what is known of the headers, and the sizes of the files. Strides are not: of two strided
 * tensors of one shape that see the same bytes in another order, only the elements differ.
 */
static digest digest_model(const tenmap_model *model) {
    digest d = {0xcbf29ce484222325u, 1};
    for (size_t i = 0; i < tenmap_shard_count(model); i++) {
        const tenmap_shard *s = tenmap_shard_at(model, i);
        digest_number(&d, s->size);
        digest_number(&d, s->header_bytes);
    }
    for (size_t i = 0; i < tenmap_count(model); i++) {
        const tenmap_tensor *t = tenmap_at(model, i), *part;
        if (!is_dequantized(t))
            digest_tensor(&d, t);
        for (uint32_t k = 0; (part = tenmap_part_at(t, k)) != NULL; k++)
            digest_tensor(&d, part);
    }
    for (size_t i = 0; i < tenmap_metadata_count(model); i++) {
        const tenmap_metadata *m = tenmap_metadata_at(model, i);
        digest_add(&d, m->key, m->key_len);
        digest_add(&d, m->raw, (size_t)m->raw_bytes);
    }
    return d;
}

/*
 * Digests how quantized weights are interpreted, which config.json beside the model influences: the
 * rank that reads them dequantizes them. Not everything in config.json is visible here; the origin
 * of zero points, for example, is not.
 */
static digest digest_schemes(const tenmap_model *model) {
    digest d = {0xcbf29ce484222325u, 1};
    for (size_t i = 0; i < tenmap_count(model); i++) {
        const tenmap_tensor *t = tenmap_at(model, i);
        const tenmap_scheme *scheme = tenmap_scheme_of(t);
        if (!is_dequantized(t))
            continue;
        digest_tensor(&d, t);
        digest_add(&d, scheme->name, strlen(scheme->name));
        digest_number(&d, (uint64_t)scheme->bits << 32 | scheme->part_count);
        digest_number(&d, (uint64_t)scheme->group_rows << 32 | scheme->group_columns);
    }
    return d;
}

static void fail_as_another(loading *l, const char *why) {
    fail_here(l, TENMAP_ERR_FORMAT, "%.200s is not the model that rank 0 has: %s",
              tenmap_path(l->model), why);
}

/*
 * Different calls exchange different things after this, so a rank would wait for something that no
 * rank sends.
 */
static void fail_as_another_call(loading *l, uint64_t first) {
    static const char *const calls[] = {"tenmap_mpi_open", "tenmap_mpi_load",
                                        "tenmap_mpi_load_shared"};
    fail_here(l, TENMAP_ERR_ARGUMENT,
              "this rank calls %s and rank 0 calls %s; all ranks must make the same call",
              calls[l->call], calls[first]);
}

/* Compares what must be the same on all ranks with rank 0's. */
static void compare_ranks(loading *l) {
    digest d = digest_model(l->model), schemes = digest_schemes(l->model);
    uint64_t mine[] = {tenmap_shard_count(l->model),
                       tenmap_file_size(l->model),
                       tenmap_count(l->model),
                       d.a,
                       d.b,
                       schemes.a,
                       schemes.b,
                       l->options.chunk_bytes,
                       l->options.flags,
                       l->options.ranks_per_host,
                       l->call};
    static const char *const fields[] = {"chunk_bytes", "flags", "ranks_per_host"};
    enum { NUMBERS = sizeof mine / sizeof mine[0], OF_HEADERS = 5, OF_MODEL = 7, CALL = 10 };
    uint64_t first[NUMBERS];
    memcpy(first, mine, sizeof mine);
    if (!went_well(l, MPI_Bcast(first, NUMBERS, MPI_UINT64_T, 0, l->comm)))
        return;
    if (first[CALL] != mine[CALL])
        fail_as_another_call(l, first[CALL]);
    if (memcmp(first, mine, 3 * sizeof *mine) != 0)
        fail_here(l, TENMAP_ERR_FORMAT,
                  "%.200s is not the model that rank 0 has: it has %llu tensors in %llu files of "
                  "%llu bytes; the model of rank 0 has %llu tensors in %llu files of %llu bytes",
                  tenmap_path(l->model), (unsigned long long)mine[2], (unsigned long long)mine[0],
                  (unsigned long long)mine[1], (unsigned long long)first[2],
                  (unsigned long long)first[0], (unsigned long long)first[1]);
    if (memcmp(first, mine, OF_HEADERS * sizeof *mine) != 0)
        fail_as_another(l, "its size is the same, but its header differs");
    if (memcmp(first, mine, OF_MODEL * sizeof *mine) != 0)
        fail_as_another(l, "its file is the same, but config.json describes its quantized weights "
                           "differently");
    for (int i = OF_MODEL; i < CALL; i++)
        if (first[i] != mine[i])
            fail_here(l, TENMAP_ERR_ARGUMENT,
                      "tenmap_mpi_options: %s is %llu here and %llu on rank 0; all ranks must give "
                      "the same value",
                      fields[i - OF_MODEL], (unsigned long long)mine[i],
                      (unsigned long long)first[i]);
}

/* Bytes from the middle of a tensor, or of its codes. */
typedef struct sample {
    uint64_t begin[PLAN_AXES], end[PLAN_AXES];
    unsigned char bytes[SAMPLE_BYTES];
} sample;

/*
 * Makes the request for them; false if the tensor has no bytes, or none that are easy to request.
 */
static bool ask_for_sample(const tenmap_tensor *t, sample *s, tenmap_request *r) {
    uint32_t together, bytes, last;
    if (is_dequantized(t) || (has_no_bytes(t) && t->rank > PLAN_AXES))
        t = tenmap_part_at(t, 0); /* the codes; the other parts are scales and the like */
    if (!t || t->nelems == 0 || t->rank == 0 || t->rank > PLAN_AXES ||
        !tenmap_dtype_block(t->dtype, &together, &bytes) || bytes > SAMPLE_BYTES)
        return false;
    for (uint32_t d = 0; d < t->rank; d++) {
        s->begin[d] = t->shape[d] / 2;
        s->end[d] = s->begin[d] + 1;
    }
    last = t->rank - 1;
    uint64_t blocks = t->shape[last] / together, taken = SAMPLE_BYTES / bytes;
    taken = taken < blocks ? taken : blocks;
    if (t->shape[last] % together != 0)
        return false;
    s->begin[last] = (blocks - taken) / 2 * together;
    s->end[last] = s->begin[last] + taken * together;
    *r = (tenmap_request){.tensor = t, .begin = s->begin, .end = s->end, .dst = s->bytes};
    r->dst_bytes = (size_t)(taken * bytes);
    return true;
}

/*
 * Two versions of a model can have the same header and different weights. Each rank would then read
 * its share of another version, and all would compute with a mixture. A few bytes of some tensors
 * distinguish the versions.
 */
static void compare_samples(loading *l, uint32_t threads) {
    tenmap_load_options options = TENMAP_LOAD_OPTIONS_INIT;
    tenmap_request requests[SAMPLES];
    sample samples[SAMPLES];
    tenmap_error why = {0};
    size_t tensors = tenmap_count(l->model), asked = 0;
    uint64_t step = tensors / SAMPLES + 1;
    digest d = {0xcbf29ce484222325u, 1};
    for (uint64_t i = 0; i < tensors; i += step)
        asked += ask_for_sample(tenmap_at(l->model, (size_t)i), &samples[asked], &requests[asked]);
    options.threads = threads;
    options.flags = TENMAP_LOAD_READ; /* checked reads, in case a mapped file was truncated */
    tenmap_status status = tenmap_load(l->model, requests, asked, &options, &why);
    why.index = 0;
    if (status != TENMAP_OK)
        fail_with(l, status, &why);
    for (size_t i = 0; i < asked && status == TENMAP_OK; i++)
        digest_add(&d, samples[i].bytes, requests[i].dst_bytes);
    digest first = d;
    if (went_well(l, MPI_Bcast(&first, 2, MPI_UINT64_T, 0, l->comm)) &&
        (first.a != d.a || first.b != d.b))
        fail_as_another(l, "its header is the same, but its weights differ");
}

#endif
