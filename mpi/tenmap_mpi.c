/*
 * tenmap over MPI. tenmap_mpi.h has its promises; tenmap_mpi_plan.h decides which rank reads what.
 *
 * A load takes these steps. Every rank checks its own arguments, and all agree. The ranks exchange
 * their request lists, and each makes the plan. A walk through the plan without data shows how much
 * memory is needed, each rank allocates it, and all agree. Then chunk after chunk is read and
 * delivered. From here on nothing is allocated, so that no rank can drop out: a rank that fails
 * keeps to the schedule, with its chunks marked bad, until all ranks know. A last agreement
 * determines whose error is returned.
 */
#ifndef _POSIX_C_SOURCE
#define _POSIX_C_SOURCE 200809L
#endif
#include "tenmap_mpi.h"
#include "tenmap_mpi_plan.h"

#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/statvfs.h>
#include <time.h>

enum {
    FLIGHTS = 4,       /* chunks in flight on a rank, its own included */
    OWN_CHUNKS = 2,    /* one is sent while one is read */
    VOTES = 2,         /* steps until the others know of a failure */
    TAGS_IN_TURN = 16, /* more than FLIGHTS, so that messages of different chunks differ */
    DEFAULT_READERS = 4,
    BATCH = 16,          /* requests per call of the library */
    PIECE = 1024,        /* elements that are converted on the stack */
    MOST_TOGETHER = 256, /* elements of a block */
    LEAST_CHUNK = 4 << 10,
    SAMPLES = 16, /* of a model's tensors, */
    SAMPLE_BYTES = 512,
    BATCH_PLACE = 64 /* bytes; places in a shared window begin at multiples of this */
};
#define SMALL_CHUNK ((uint64_t)1 << 20)
#define LARGE_CHUNK ((uint64_t)16 << 20)
#define MOST_CHUNK ((uint64_t)1 << 30)
/*
 * The most bytes of a shared window, in whole places: what can be addressed, less what aligning its
 * start takes.
 */
#define MOST_SHARED (((uint64_t)PTRDIFF_MAX / BATCH_PLACE - 1) * BATCH_PLACE)
#define NOT_A_MESSAGE UINT32_MAX

/* What a rank wants of a tensor, as in the exchanged lists. */
typedef struct want {
    const tenmap_tensor *tensor;
    uint64_t id;                 /* see tensor_of */
    tenmap_dtype stored, as;     /* neither is TENMAP_AS_STORED */
    uint32_t flags;              /* of the request */
    const uint64_t *begin, *end; /* NULL: the whole tensor */
} want;

/* A tensor of the model and its number. */
typedef struct known {
    const tenmap_tensor *tensor;
    uint64_t id;
} known;

/*
 * A request of this rank, ready to receive elements. It is a copy, so the caller's progress
 * function may change the requests.
 */
typedef struct taker {
    size_t stream, request;
    const tenmap_tensor *tensor;
    const uint64_t *begin, *end; /* point into the list of wants */
    unsigned char *dst;
    size_t stride; /* dst_stride */
    uint32_t flags;
    tenmap_dtype as;
    uint32_t outer;                 /* axes before the contiguous ones */
    uint64_t inner, run, run_begin; /* elements of those, and which of them are wanted */
    uint64_t row;                   /* elements of a row in the destination */
    uint64_t first, last;           /* the first and last wanted element of the tensor */
    uint64_t reach;                 /* the largest `last` of its stream's takers up to this one */
} taker;

/*
 * A chunk that this rank reads. It belongs to the reading thread from the request until it is done.
 */
typedef struct own_chunk {
    bool held; /* until it is packed or sent; other chunks may complete earlier */
    plan_chunk chunk;
    unsigned char *raw;
    tenmap_status status; /* after a failed read, nothing more is read */
    tenmap_error error;
} own_chunk;

/* A chunk in flight. */
typedef struct flight {
    bool busy, bad;
    int reader;
    own_chunk *own; /* if it is sent in place from there; else NULL */
    uint64_t step;
    plan_chunk chunk;
    unsigned char *room, *base; /* base: room, or the chunk as it was read */
    uint64_t *at;               /* of each message, relative to base */
    MPI_Request *requests;
    uint32_t *about; /* the message that an MPI request receives; NOT_A_MESSAGE: it sends */
    int *finished;   /* for MPI_Testsome, as are these: */
    MPI_Status *statuses;
    int request_count, pending;
    uint32_t tag;
} flight;

/* The chunks of this rank. They are read ahead on a separate thread if threads are allowed. */
typedef struct reading {
    bool threaded;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t turn;
    bool stop;
    uint64_t asked, done; /* chunks */
    own_chunk own[OWN_CHUNKS];
    uint64_t *corners; /* begin and end of the current block, for so many axes each */
    size_t axes;
    plan_place at, end;
    plan_walk walk;
} reading;

/* The maxima that the walk without data found. */
typedef struct survey {
    plan_chunk chunk;
    uint64_t room, raw, steps;
    size_t messages;
    int requests;
} survey;

/* Which function this is; all ranks must call the same. */
typedef enum collective { CALL_OPEN, CALL_LOAD, CALL_LOAD_SHARED } collective;

typedef struct loading {
    MPI_Comm comm;
    int rank, size;
    collective call;
    bool mpi_failed; /* then ranks cannot agree, and MPI may still use buffers */
    tenmap_status status;
    tenmap_error error;
    uint64_t when; /* the step that failed */
    const tenmap_model *model;
    const tenmap_request *requests;
    size_t count;
    tenmap_mpi_options options;
    tenmap_mpi_counts counts;
    known *known;
    size_t known_count;
    uint64_t *list, *lists; /* this rank's requests; those of all ranks, equal lists once */
    size_t list_words, list_room, lists_words;
    uint64_t *heads; /* for each rank's list: a digest and its number of words */
    int *counts_of, *places_of, *host_of, *taker_of, *scratch;
    int takers;
    want *wants;
    int *want_taker;
    size_t want_count;
    taker *mine;
    size_t mine_count;
    plan plan;
    plan_place *at, *end; /* of each reader */
    plan_walk walk;
    survey most;
    flight flights[FLIGHTS];
    reading reading;
    uint64_t delivered;      /* bits */
    int *vote_in, *vote_out; /* allocated separately: after an error MPI may still write to them */
    MPI_Request vote[VOTES];
} loading;

/*
 * Errors that all ranks share
 */

/* The bytes of the UTF-8 character here; 0 if it is not valid UTF-8. */
static size_t character_bytes(const unsigned char *s) {
    size_t n = s[0] < 0x80 ? 1 : s[0] < 0xc2 ? 0 : s[0] < 0xe0 ? 2 : s[0] < 0xf0 ? 3 : 4;
    for (size_t i = 1; i < n; i++)
        if ((s[i] & 0xc0) != 0x80)
            return 0;
    if ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] > 0x9f) ||
        (s[0] == 0xf0 && s[1] < 0x90) || (s[0] == 0xf4 && s[1] > 0x8f) || s[0] > 0xf4)
        return 0;
    return n;
}

/*
 * Messages are UTF-8 without control characters. Paths need not be, MPI's messages have several
 * lines, and a long text may have been cut inside a character.
 */
static void tidy(char *sentence) {
    for (unsigned char *s = (unsigned char *)sentence; *s;) {
        size_t n = character_bytes(s);
        bool control = s[0] < 0x20 || s[0] == 0x7f || (s[0] == 0xc2 && n == 2 && s[1] < 0xa0);
        if (n == 0 || control)
            memset(s, control ? ' ' : '?', n ? n : 1);
        s += n ? n : 1;
    }
}

#if defined(__GNUC__)
__attribute__((format(printf, 3, 4)))
#endif
static void
fail_here(loading *l, tenmap_status status, const char *format, ...) {
    va_list args;
    if (l->status != TENMAP_OK)
        return; /* the first failure counts */
    l->status = status;
    memset(&l->error, 0, sizeof l->error);
    l->error.status = status;
    va_start(args, format);
    vsnprintf(l->error.message, sizeof l->error.message, format, args);
    va_end(args);
    tidy(l->error.message);
}

static void fail_with(loading *l, tenmap_status status, const tenmap_error *error) {
    if (l->status != TENMAP_OK)
        return;
    l->status = status;
    l->error = *error;
    l->error.status = status;
}

static void *take_memory(loading *l, size_t count, size_t size, const char *what) {
    void *memory = calloc(count ? count : 1, size);
    if (!memory)
        fail_here(l, TENMAP_ERR_MEMORY, "out of memory: %llu bytes for %s",
                  (unsigned long long)count * size, what);
    return memory;
}

/* Likewise for this many bytes, which may be more than this system can address. */
static void *take_bytes(loading *l, uint64_t bytes, const char *what) {
    if ((size_t)bytes == bytes)
        return take_memory(l, (size_t)bytes, 1, what);
    fail_here(l, TENMAP_ERR_MEMORY, "out of memory: %llu bytes for %s", (unsigned long long)bytes,
              what);
    return NULL;
}

/* Whether a call of MPI succeeded. After a failure, nothing more is sent to other ranks. */
static bool went_well(loading *l, int code) {
    char text[MPI_MAX_ERROR_STRING + 1] = "";
    int len = 0;
    if (code == MPI_SUCCESS)
        return true;
    MPI_Error_string(code, text, &len);
    l->status = TENMAP_OK; /* MPI's error replaces an earlier one */
    fail_here(l, TENMAP_ERR_IO, "rank %d: MPI: %.400s", l->rank, text);
    l->mpi_failed = true;
    return false;
}

/*
 * True if no rank has failed so far. Otherwise every rank gets the status and the message of the
 * rank that failed first: in the earliest step, and of those the lowest rank.
 */
static bool agree(loading *l) {
    /* Signed, because MPICH 4.0 computes the minimum of unsigned numbers as if they were signed. */
    int64_t ranks = l->size, mine = INT64_MAX, first;
    tenmap_error told = l->error;
    if (l->status != TENMAP_OK)
        mine = (int64_t)l->when * ranks + l->rank;
    if (l->mpi_failed ||
        !went_well(l, MPI_Allreduce(&mine, &first, 1, MPI_INT64_T, MPI_MIN, l->comm)))
        return false;
    if (first == INT64_MAX)
        return true;
    if (first == mine) {
        snprintf(told.message, sizeof told.message, "rank %d: %.460s", l->rank, l->error.message);
        tidy(told.message);
    }
    if (went_well(l, MPI_Bcast(&told, (int)sizeof told, MPI_BYTE, (int)(first % ranks), l->comm))) {
        l->error = told;
        l->status = told.status;
    }
    return false;
}

/* Whether this communicator can be used; the result is the same on all ranks. */
static bool check_communicator(loading *l, MPI_Comm comm) {
    int started = 0, ended = 0, between = 0;
    if (MPI_Initialized(&started) != MPI_SUCCESS || !started ||
        MPI_Finalized(&ended) != MPI_SUCCESS || ended)
        fail_here(l, TENMAP_ERR_ARGUMENT, "MPI is not initialized, or is finalized already");
    else if (comm == MPI_COMM_NULL)
        fail_here(l, TENMAP_ERR_ARGUMENT, "the communicator is MPI_COMM_NULL");
    else if (went_well(l, MPI_Comm_test_inter(comm, &between)) && between)
        fail_here(l, TENMAP_ERR_ARGUMENT,
                  "the communicator is an intercommunicator; MPI_Intercomm_merge makes one of both "
                  "its sides");
    return l->status == TENMAP_OK;
}

/* Makes a private communicator, which carries only our messages and returns errors. */
static bool begin_party(loading *l, MPI_Comm comm, collective call) {
    memset(l, 0, sizeof *l);
    l->comm = MPI_COMM_NULL;
    l->call = call;
    for (int i = 0; i < VOTES; i++)
        l->vote[i] = MPI_REQUEST_NULL;
    if (!check_communicator(l, comm))
        return false;
    if (!went_well(l, MPI_Comm_dup(comm, &l->comm)) ||
        !went_well(l, MPI_Comm_set_errhandler(l->comm, MPI_ERRORS_RETURN)) ||
        !went_well(l, MPI_Comm_rank(l->comm, &l->rank)))
        return false;
    return went_well(l, MPI_Comm_size(l->comm, &l->size));
}

static tenmap_status end_party(loading *l, tenmap_error *error) {
    if (l->comm != MPI_COMM_NULL && !l->mpi_failed)
        (void)MPI_Comm_free(&l->comm);
    if (l->status != TENMAP_OK && error)
        *error = l->error;
    return l->status;
}

/*
 * The same model everywhere
 */

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

/* Digests everything in the headers, and the sizes of the files. */
static digest digest_model(const tenmap_model *model) {
    digest d = {0xcbf29ce484222325u, 1};
    for (size_t i = 0; i < tenmap_shard_count(model); i++) {
        const tenmap_shard *s = tenmap_shard_at(model, i);
        digest_number(&d, s->size);
        digest_number(&d, s->header_bytes);
    }
    for (size_t i = 0; i < tenmap_count(model); i++) {
        const tenmap_tensor *t = tenmap_at(model, i), *part;
        if (!(t->flags & TENMAP_TENSOR_COMPUTED))
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
        if (!(t->flags & TENMAP_TENSOR_COMPUTED))
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
                  "%.200s is not the model that rank 0 has: %llu tensors in %llu files of %llu "
                  "bytes, there %llu in %llu of %llu",
                  tenmap_path(l->model), (unsigned long long)mine[2], (unsigned long long)mine[0],
                  (unsigned long long)mine[1], (unsigned long long)first[2],
                  (unsigned long long)first[0], (unsigned long long)first[1]);
    if (memcmp(first, mine, OF_HEADERS * sizeof *mine) != 0)
        fail_as_another(l, "it is as large, but its header says something else");
    if (memcmp(first, mine, OF_MODEL * sizeof *mine) != 0)
        fail_as_another(l, "the file is as there, but config.json says something else about its "
                           "quantized weights");
    for (int i = OF_MODEL; i < CALL; i++)
        if (first[i] != mine[i])
            fail_here(l, TENMAP_ERR_ARGUMENT,
                      "tenmap_mpi_options: %s is %llu here and %llu on rank 0; all ranks must give "
                      "the same",
                      fields[i - OF_MODEL], (unsigned long long)mine[i],
                      (unsigned long long)first[i]);
}

/* Bytes from the middle of a tensor. */
typedef struct sample {
    uint64_t begin[PLAN_AXES], end[PLAN_AXES];
    unsigned char bytes[SAMPLE_BYTES];
} sample;

/*
 * Makes the request for them; false if the tensor has no bytes, or none that are easy to request.
 */
static bool ask_for_sample(const tenmap_tensor *t, sample *s, tenmap_request *r) {
    uint32_t together, bytes, last;
    if (t->flags & TENMAP_TENSOR_COMPUTED)
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
        fail_as_another(l, "its header is as there, but weights in it are others");
}

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

/*
 * Arguments
 */

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
        fail_here(l, TENMAP_ERR_ARGUMENT, "the model is NULL: it could not be opened here?");
        return;
    }
    tenmap_status status = tenmap_load(l->model, requests, count, &check, &why);
    if (status != TENMAP_OK && status != TENMAP_ERR_CANCELLED)
        fail_with(l, status, &why);
}

/*
 * Lists of wants
 */

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
        fail_here(l, TENMAP_ERR_ARGUMENT, "a request's tensor is none of the model's");
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

/*
 * Streams
 */

/* The order of streams: file order, then by the dtype that the bytes are taken as. */
static int compare_order(const tenmap_tensor *s, uint64_t s_id, tenmap_dtype s_dtype,
                         const tenmap_tensor *t, uint64_t t_id, tenmap_dtype t_dtype) {
    if (s->shard != t->shard)
        return s->shard < t->shard ? -1 : 1;
    if (s->file_offset != t->file_offset)
        return s->file_offset < t->file_offset ? -1 : 1;
    if (s_id != t_id)
        return s_id < t_id ? -1 : 1;
    return s_dtype < t_dtype ? -1 : s_dtype > t_dtype;
}

/* A want of some rank. */
typedef struct entry {
    want w;
    uint32_t taker;
} entry;

static int compare_entries(const void *left, const void *right) {
    const entry *a = left, *b = right;
    int order = compare_order(a->w.tensor, a->w.id, a->w.stored, b->w.tensor, b->w.id, b->w.stored);
    return order ? order : a->taker < b->taker ? -1 : a->taker > b->taker;
}

/* Elements of a unit: those of a block for block dtypes, else one. */
static uint32_t unit_elements(tenmap_dtype dtype) {
    uint32_t together = 1, bytes;
    if (tenmap_dtype_bits(dtype) == 0)
        (void)tenmap_dtype_block(dtype, &together, &bytes);
    return together;
}

static uint32_t unit_bits(tenmap_dtype dtype) {
    uint32_t together, bytes = 0;
    if (tenmap_dtype_bits(dtype))
        return tenmap_dtype_bits(dtype);
    (void)tenmap_dtype_block(dtype, &together, &bytes);
    return bytes * 8;
}

/*
 * Whether the wanted elements of 4 or 6 bits begin and end at byte boundaries, so that no neighbors
 * are converted with them.
 */
static bool in_whole_bytes(const want *w) {
    uint32_t d = w->tensor->rank - 1;
    uint64_t last = last_axis(w->tensor, w->stored);
    return !w->begin || (last % 4 == 0 && w->begin[d] % 4 == 0 && w->end[d] % 4 == 0);
}

/* Chooses the dtype in messages: the smallest that serves all that want something of the tensor. */
static void choose_wire(plan_stream *s, const entry *entries, size_t n) {
    const want *w = &entries[0].w;
    uint32_t as_bits = tenmap_dtype_bits(w->as), bits = tenmap_dtype_bits(w->stored);
    bool computed = w->tensor->flags & TENMAP_TENSOR_COMPUTED, alike = as_bits != 0;
    for (size_t i = 0; i < n && alike; i++)
        alike = entries[i].w.as == w->as &&
                !((entries[i].w.flags ^ w->flags) & TENMAP_CONVERT_SATURATE) &&
                (as_bits % 8 == 0 || in_whole_bytes(&entries[i].w));
    s->wire = w->stored;
    if (computed)
        s->wire = alike ? w->as : TENMAP_F32; /* from which all other dtypes are converted anyway */
    else if (alike && as_bits < bits)
        s->wire = w->as;
    s->flags = alike ? w->flags & TENMAP_CONVERT_SATURATE : 0;
    s->wire_bits = unit_bits(s->wire);
    s->read_bits = unit_bits(w->stored);
    if (computed) {
        uint64_t bytes = 0;
        const tenmap_tensor *part;
        for (uint32_t k = 0; (part = tenmap_part_at(w->tensor, k)) != NULL; k++)
            bytes += part->nbytes;
        uint64_t each = bytes / (w->tensor->nelems / 8 + 1);
        s->read_bits = each < 1 ? 1 : each > 512 ? 512 : (uint32_t)each;
    }
}

static void make_stream(const loading *l, plan_stream *s, const entry *entries, size_t n) {
    const want *w = &entries[0].w;
    const tenmap_tensor *t = w->tensor;
    uint64_t last = last_axis(t, w->stored), together = unit_elements(w->stored);
    s->id = w->id;
    s->dtype = w->stored;
    choose_wire(s, entries, n);
    s->axes = t->rank ? t->rank : 1;
    if (s->axes > PLAN_AXES || last % together != 0) {
        s->axes = 1;
        s->dims[0] = elements_as(t, w->stored) / together;
    } else {
        for (uint32_t d = 0; d < s->axes; d++)
            s->dims[d] = axis_of(t, d, d + 1 == s->axes ? last / together : last);
    }
    s->step = s->wire_bits % 8 || s->read_bits % 8 ? 8 : 1;
    uint64_t least = l->options.chunk_bytes ? l->options.chunk_bytes : SMALL_CHUNK;
    if (t->flags & TENMAP_TENSOR_COMPUTED && last % 8 == 0 && last * s->wire_bits / 8 <= least)
        s->step = last; /* whole rows, so that no scale is read twice */
}

/* The want in units of its stream. */
static void make_box(const plan_stream *s, const want *w, plan_box *box) {
    const tenmap_tensor *t = w->tensor;
    uint64_t last = last_axis(t, w->stored), together = unit_elements(w->stored);
    uint64_t first_at = 0, last_at = 0;
    bool flat = s->axes != (t->rank ? t->rank : 1) || last % together != 0;
    memset(box, 0, sizeof *box);
    for (uint32_t d = 0; d < s->axes && (!flat || !w->begin); d++) {
        box->begin[d] = w->begin ? w->begin[d] : 0;
        box->end[d] = w->begin ? w->end[d] : s->dims[d];
    }
    if (!w->begin)
        return;
    if (!flat) {
        uint32_t d = s->axes - 1;
        box->begin[d] /= together;
        box->end[d] = (box->end[d] + together - 1) / together;
        return;
    }
    for (uint32_t d = 0; d < t->rank; d++) {
        first_at = first_at * axis_of(t, d, last) + w->begin[d];
        last_at = last_at * axis_of(t, d, last) + w->end[d] - 1;
    }
    box->begin[0] = first_at / together;
    box->end[0] = last_at / together + 1;
}

/* All lists as one, in file order. */
static entry *gather_entries(loading *l, size_t *count) {
    size_t n = 0;
    want w;
    const uint64_t *end = l->lists + l->lists_words;
    for (const uint64_t *at = l->lists; at < end; n++)
        at = read_want(l->model, at, &w);
    entry *entries = take_memory(l, n, sizeof *entries, "the requests of all ranks");
    n = 0;
    for (int r = 0; r < l->size && entries; r++) {
        const uint64_t *at = l->lists + l->places_of[r], *last = at + l->counts_of[r];
        while (at < last) {
            at = read_want(l->model, at, &entries[n].w);
            entries[n++].taker = (uint32_t)l->taker_of[r];
        }
    }
    if (entries)
        qsort(entries, n, sizeof *entries, compare_entries);
    *count = n;
    return entries;
}

static bool same_stream(const entry *a, const entry *b) {
    return a->w.id == b->w.id && a->w.stored == b->w.stored;
}

static bool make_plan(loading *l) {
    plan *p = &l->plan;
    size_t n, first = 0;
    entry *entries = gather_entries(l, &n);
    plan_want *wants = entries ? take_memory(l, n, sizeof *wants, "the plan") : NULL;
    p->streams = wants ? take_memory(l, n, sizeof *p->streams, "the plan") : NULL;
    bool good = p->streams;
    for (size_t i = 0; i < n && good; i++) {
        if (i + 1 < n && same_stream(&entries[i], &entries[i + 1]))
            continue;
        plan_stream *s = &p->streams[p->stream_count];
        make_stream(l, s, entries + first, i + 1 - first);
        for (; first <= i; first++) {
            wants[first].stream = p->stream_count;
            wants[first].taker = entries[first].taker;
            make_box(s, &entries[first].w, &wants[first].box);
        }
        p->stream_count++;
    }
    uint64_t asked = l->options.chunk_bytes;
    p->ranks = l->size;
    p->takers = l->takers;
    p->host_of = l->host_of;
    p->taker_of = l->taker_of;
    if (good && !plan_make(p, wants, n, asked && asked < SMALL_CHUNK ? asked : SMALL_CHUNK)) {
        fail_here(l, TENMAP_ERR_MEMORY, "out of memory: the plan of %llu requests",
                  (unsigned long long)n);
        good = false;
    }
    if (good) { /* with eight chunks each, reading and sending overlap */
        uint64_t part = p->total / 8 / (uint64_t)p->readers / 8;
        part = part < SMALL_CHUNK ? SMALL_CHUNK : part > LARGE_CHUNK ? LARGE_CHUNK : part;
        p->chunk = asked ? asked : part;
    }
    free(entries);
    free(wants);
    return good;
}

/*
 * Destinations
 */

/* Copies bits, which need not begin at a byte boundary. The bits around them are kept. */
static void copy_bits(unsigned char *dst, uint64_t to, const unsigned char *src, uint64_t from,
                      uint64_t bits) {
    if (to % 8 == 0 && from % 8 == 0) {
        memcpy(dst + to / 8, src + from / 8, (size_t)(bits / 8));
        to += bits / 8 * 8;
        from += bits / 8 * 8;
        bits %= 8;
    }
    while (bits > 0) {
        unsigned room = 8 - (unsigned)(to % 8), left = 8 - (unsigned)(from % 8);
        unsigned n = room < left ? room : left;
        n = bits < n ? (unsigned)bits : n;
        unsigned mask = (1u << n) - 1, value = (unsigned)src[from / 8] >> (from % 8) & mask;
        unsigned old = dst[to / 8] & ~(mask << (to % 8));
        dst[to / 8] = (unsigned char)(old | value << (to % 8));
        to += n;
        from += n;
        bits -= n;
    }
}

static uint64_t bits_of(tenmap_dtype dtype, uint64_t elements) {
    return elements / unit_elements(dtype) * unit_bits(dtype);
}

/*
 * Converts n elements, from element `from` of src on, to elements at bit `to` of dst. If one does
 * not fit, error->index is its number among them.
 */
static tenmap_status convert_elements(unsigned char *dst, uint64_t to, tenmap_dtype as,
                                      const unsigned char *src, uint64_t from, tenmap_dtype wire,
                                      uint64_t n, uint32_t flags, tenmap_error *error) {
    unsigned char in[PIECE * 8], out[(PIECE + MOST_TOGETHER) * 8];
    uint32_t together = unit_elements(wire), wire_bits = unit_bits(wire),
             as_bits = tenmap_dtype_bits(as);
    uint64_t begun = from;
    while (n > 0) {
        uint64_t skip = from % together, at = (from - skip) / together * wire_bits, m = n;
        bool stage_in = at % 8 != 0;
        bool stage_out = skip || to % 8 != 0 || (n * as_bits) % 8 != 0;
        if (stage_in || stage_out)
            m = n < PIECE ? n : PIECE;
        const unsigned char *source = src + at / 8;
        if (stage_in) {
            copy_bits(in, 0, src, at, m * wire_bits);
            source = in;
        }
        void *target = stage_out ? out : dst + to / 8;
        size_t room = stage_out ? sizeof out : (size_t)((m * as_bits + 7) / 8);
        tenmap_status status =
            tenmap_convert(as, target, room, wire, source, skip + m, flags, error);
        if (status != TENMAP_OK) {
            error->index += from - begun;
            return status;
        }
        if (stage_out)
            copy_bits(dst, to, out, skip * as_bits, m * as_bits);
        to += m * as_bits;
        from += m;
        n -= m;
    }
    return TENMAP_OK;
}

/*
 * Writes elements [first, first+n) of a request's destination; they are at element `from` of src.
 */
static tenmap_status put_elements(const taker *t, uint64_t first, uint64_t n,
                                  const unsigned char *src, uint64_t from, tenmap_dtype wire,
                                  tenmap_error *error) {
    uint64_t begun = from;
    while (n > 0) {
        uint64_t m = n, to = bits_of(t->as, first);
        if (t->stride) {
            uint64_t left = t->row - first % t->row;
            m = n < left ? n : left;
            to = first / t->row * t->stride * 8 + bits_of(t->as, first % t->row);
        }
        if (wire == t->as) {
            copy_bits(t->dst, to, src, bits_of(wire, from), bits_of(wire, m));
        } else {
            tenmap_status status =
                convert_elements(t->dst, to, t->as, src, from, wire, m, t->flags, error);
            if (status != TENMAP_OK) {
                error->index += from - begun;
                return status;
            }
        }
        first += m;
        from += m;
        n -= m;
    }
    return TENMAP_OK;
}

/*
 * Which of the request's runs the elements at this place along the outer axes belong to; false if
 * to none.
 */
static bool run_number(const taker *t, uint64_t outer, uint64_t *number) {
    uint64_t scale = 1;
    *number = 0;
    for (uint32_t d = t->outer; d-- > 0;) {
        uint64_t at = outer % t->tensor->shape[d];
        outer /= t->tensor->shape[d];
        if (at < t->begin[d] || at >= t->end[d])
            return false;
        *number += (at - t->begin[d]) * scale;
        scale *= t->end[d] - t->begin[d];
    }
    return true;
}

/*
 * Writes what a request wants of elements [at, at+n) of its tensor; they are at element `from` of
 * src. If one does not fit, error->index is its number in the tensor.
 */
static tenmap_status place_run(const taker *t, uint64_t at, uint64_t n, const unsigned char *src,
                               uint64_t from, tenmap_dtype wire, tenmap_error *error) {
    while (n > 0 && at < t->last) {
        uint64_t within = at % t->inner, m = t->inner - within, number;
        m = n < m ? n : m;
        uint64_t low = within > t->run_begin ? within : t->run_begin;
        uint64_t high = t->run_begin + t->run;
        high = within + m < high ? within + m : high;
        if (low < high && run_number(t, at / t->inner, &number)) {
            tenmap_status status = put_elements(t, number * t->run + low - t->run_begin, high - low,
                                                src, from + low - within, wire, error);
            if (status != TENMAP_OK) {
                error->index += at + low - within;
                return status;
            }
        }
        at += m;
        from += m;
        n -= m;
    }
    return TENMAP_OK;
}

/* This rank's first request of a stream that may want elements from `at` on. */
static size_t first_taker(const loading *l, size_t stream, uint64_t at) {
    size_t low = 0, high = l->mine_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const taker *t = &l->mine[middle];
        if (t->stream < stream || (t->stream == stream && t->reach <= at))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/*
 * Reports an element that does not fit with its tensor and its number there, as a plain load does.
 */
static void fail_to_place(loading *l, const taker *whose, tenmap_status status, tenmap_error *why) {
    const tenmap_tensor *t = whose->tensor;
    const char *rest = strstr(why->message, " is ");
    char words[sizeof why->message];
    snprintf(words, sizeof words, "%s", why->message);
    if (status == TENMAP_ERR_RANGE && rest)
        snprintf(words, sizeof words, "element %llu%.200s", (unsigned long long)why->index, rest);
    snprintf(why->message, sizeof why->message, "\"%.120s\": tensor \"%.100s\": %.230s",
             tenmap_shard_at(l->model, t->shard)->path, t->name, words);
    tidy(why->message);
    why->index = whose->request;
    fail_with(l, status, why);
}

/* Copies one run of a cell, at `bit` of src, into each request that wants a part of it. */
static bool place_in_all(loading *l, size_t stream, uint64_t begin, uint64_t end,
                         const unsigned char *src, uint64_t bit) {
    const plan_stream *s = &l->plan.streams[stream];
    uint64_t together = unit_elements(s->dtype);
    tenmap_dtype wire = s->wire;
    /*
     * convert_elements counts elements from a byte boundary: for a run that begins inside a byte,
     * the start moves back.
     */
    uint64_t from = s->wire_bits % 8 ? bit / s->wire_bits : 0;
    src += s->wire_bits % 8 ? 0 : bit / 8;
    for (size_t i = first_taker(l, stream, begin * together); i < l->mine_count; i++) {
        const taker *t = &l->mine[i];
        tenmap_error why = {0};
        if (t->stream != stream || t->first >= end * together)
            break;
        if (begin * together >= t->last)
            continue;
        tenmap_status status =
            place_run(t, begin * together, (end - begin) * together, src, from, wire, &why);
        if (status != TENMAP_OK) {
            fail_to_place(l, t, status, &why);
            return false;
        }
    }
    return true;
}

/* Places all pieces of a message that has arrived. */
static void place_message(loading *l, const flight *f, uint32_t message) {
    const plan_chunk *c = &f->chunk;
    const unsigned char *base = f->base + f->at[message];
    for (size_t i = 0; i < c->piece_count && l->status == TENMAP_OK; i++) {
        const plan_piece *piece = &c->pieces[i];
        const plan_segment *seg = &c->segments[piece->segment];
        const plan_stream *s = &l->plan.streams[seg->stream];
        uint64_t begin, end, bit = 0;
        if (piece->message != message)
            continue;
        for (uint64_t at = seg->begin;
             plan_run(s, &l->plan.cells[piece->cell].box, at, &begin, &end) && begin < seg->end;
             at = end) {
            end = end < seg->end ? end : seg->end;
            if (!place_in_all(l, seg->stream, begin, end, base + piece->at, bit))
                return;
            bit += (end - begin) * s->wire_bits;
        }
    }
}

static size_t find_stream(const loading *l, const want *w) {
    size_t low = 0, high = l->plan.stream_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const plan_stream *s = &l->plan.streams[middle];
        if (compare_order(tensor_of(l->model, s->id), s->id, s->dtype, w->tensor, w->id,
                          w->stored) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static int compare_takers(const void *left, const void *right) {
    const taker *a = left, *b = right;
    if (a->stream != b->stream)
        return a->stream < b->stream ? -1 : 1;
    if (a->first != b->first)
        return a->first < b->first ? -1 : 1;
    return a->request < b->request ? -1 : a->request > b->request;
}

/* Computes how a request's elements lie in its tensor. */
static void measure_taker(const want *w, taker *t) {
    const tenmap_tensor *tensor = w->tensor;
    uint64_t last = last_axis(tensor, w->stored);
    uint32_t d = tensor->rank ? tensor->rank - 1 : 0;
    t->outer = 0;
    t->inner = t->run = t->last = elements_as(tensor, w->stored);
    t->row = last;
    if (!w->begin)
        return;
    t->row = w->end[d] - w->begin[d];
    uint64_t behind = 1;
    while (d > 0 && w->begin[d] == 0 && w->end[d] == axis_of(tensor, d, last))
        behind *= axis_of(tensor, d--, last);
    t->outer = d;
    t->inner = behind * axis_of(tensor, d, last);
    t->run_begin = behind * w->begin[d];
    t->run = behind * (w->end[d] - w->begin[d]);
    t->first = t->last = 0;
    for (uint32_t e = 0; e < tensor->rank; e++) {
        t->first = t->first * axis_of(tensor, e, last) + w->begin[e];
        t->last = t->last * axis_of(tensor, e, last) + w->end[e] - 1;
    }
    t->last++;
}

static bool find_mine(loading *l) {
    const uint64_t *at = l->list;
    l->mine = take_memory(l, l->count, sizeof *l->mine, "the requests");
    for (size_t i = 0; i < l->count && l->mine; i++) {
        const tenmap_request *r = &l->requests[i];
        want w = want_of(r);
        if (wants_nothing(&w))
            continue;
        at = read_want(l->model, at, &w);
        taker *t = &l->mine[l->mine_count++];
        *t = (taker){.stream = find_stream(l, &w),
                     .request = i,
                     .tensor = w.tensor,
                     .begin = w.begin,
                     .end = w.end,
                     .dst = r->dst,
                     .stride = r->dst_stride,
                     .flags = r->flags,
                     .as = w.as};
        measure_taker(&w, t);
    }
    if (l->mine)
        qsort(l->mine, l->mine_count, sizeof *l->mine, compare_takers);
    for (size_t i = 0; i < l->mine_count; i++) {
        taker *t = &l->mine[i];
        bool follows = i > 0 && t[-1].stream == t->stream;
        t->reach = follows && t[-1].reach > t->last ? t[-1].reach : t->last;
    }
    return l->mine;
}

/* Clears the spare bits after the last element, because copies keep the bits around them. */
static void clear_spare_bits(const loading *l) {
    for (size_t i = 0; i < l->mine_count; i++) {
        const taker *t = &l->mine[i];
        uint64_t n = t->run;
        for (uint32_t d = 0; d < t->outer; d++)
            n *= t->end[d] - t->begin[d];
        uint64_t bits = bits_of(t->as, n);
        if (bits % 8 && !t->stride)
            t->dst[bits / 8] = 0;
    }
}

/*
 * Reading
 */

/* Requests to the library for one chunk. Those that follow each other in a file are batched. */
typedef struct batch {
    const loading *l;
    tenmap_request requests[BATCH];
    uint64_t begin[BATCH][PLAN_AXES], end[BATCH][PLAN_AXES];
    size_t count;
    uint32_t shard;
    uint64_t behind; /* the file offset after the last one */
    tenmap_error *error;
} batch;

static tenmap_status read_batch(batch *b) {
    tenmap_load_options options = TENMAP_LOAD_OPTIONS_INIT;
    size_t count = b->count;
    uint32_t asked = b->l->options.threads;
    options.flags = b->l->options.flags ? b->l->options.flags : (uint32_t)TENMAP_LOAD_READ;
    options.threads = !b->l->reading.threaded ? 1 : asked ? asked : DEFAULT_READERS;
    b->count = 0;
    return count ? tenmap_load(b->l->model, b->requests, count, &options, b->error) : TENMAP_OK;
}

/*
 * Adds one block of a tensor. A dequantized tensor is loaded by itself, and so is one with more
 * axes than there is room for.
 */
static tenmap_status add_to_batch(batch *b, tenmap_request r, const uint64_t *begin,
                                  const uint64_t *end, uint64_t file_begin, uint64_t file_end) {
    const tenmap_tensor *t = r.tensor;
    bool computed = t->flags & TENMAP_TENSOR_COMPUTED, deep = t->rank > PLAN_AXES;
    tenmap_status status = TENMAP_OK;
    if (b->count == BATCH || computed || deep || b->shard != t->shard || b->behind != file_begin)
        status = read_batch(b);
    r.begin = deep ? begin : b->begin[b->count];
    r.end = deep ? end : b->end[b->count];
    if (!deep) {
        memcpy(b->begin[b->count], begin, t->rank * sizeof *begin);
        memcpy(b->end[b->count], end, t->rank * sizeof *end);
    }
    b->requests[b->count++] = r;
    b->shard = t->shard;
    b->behind = computed ? UINT64_MAX : file_end;
    return deep && status == TENMAP_OK ? read_batch(b) : status;
}

/*
 * Reads elements [first, last) of a tensor as blocks: partial rows, then whole ones, and so on for
 * each axis.
 */
static tenmap_status read_blocks(batch *b, const plan_stream *s, uint64_t first, uint64_t last,
                                 unsigned char *dst) {
    const tenmap_tensor *t = tensor_of(b->l->model, s->id);
    uint64_t *begin = b->l->reading.corners, *end = begin + b->l->reading.axes;
    uint64_t end_axis = last_axis(t, s->dtype);
    tenmap_status status = TENMAP_OK;
    while (first < last && status == TENMAP_OK) {
        uint64_t inner = 1, rest = first;
        uint32_t axis = t->rank ? t->rank - 1 : 0;
        for (uint32_t d = axis + 1; d-- > 0;) {
            uint64_t extent = axis_of(t, d, end_axis);
            begin[d] = extent ? rest % extent : 0; /* no extent is 0 here */
            rest = extent ? rest / extent : 0;
        }
        while (axis > 0 && begin[axis] == 0 && last - first >= inner * axis_of(t, axis, end_axis)) {
            end[axis] = axis_of(t, axis, end_axis);
            inner *= end[axis--];
        }
        uint64_t rows = (last - first) / inner, left = axis_of(t, axis, end_axis) - begin[axis];
        rows = rows < left ? rows : left;
        end[axis] = begin[axis] + rows;
        for (uint32_t d = 0; d < axis; d++)
            end[d] = begin[d] + 1;
        tenmap_request r = {.tensor = t, .as = s->wire, .flags = s->flags, .dst = dst};
        r.stored_as = s->dtype == t->dtype ? TENMAP_AS_STORED : s->dtype;
        r.dst_bytes = (size_t)((bits_of(s->wire, rows * inner) + 7) / 8);
        uint64_t at = t->file_offset + bits_of(s->dtype, first) / 8;
        status = add_to_batch(b, r, begin, end, at, at + bits_of(s->dtype, rows * inner) / 8);
        dst += r.dst_bytes;
        first += rows * inner;
    }
    return status;
}

/*
 * Reads rows of 4- or 6-bit elements that are not whole bytes, piece by piece, each bit to its
 * place.
 */
static tenmap_status read_odd_rows(batch *b, const plan_segment *seg, uint64_t begin, uint64_t end,
                                   unsigned char *raw) {
    const plan_stream *s = &b->l->plan.streams[seg->stream];
    uint64_t row = last_axis(tensor_of(b->l->model, s->id), s->dtype);
    unsigned char piece[PIECE];
    tenmap_status status = TENMAP_OK;
    while (begin < end && status == TENMAP_OK) {
        uint64_t n = row - begin % row;
        n = n < end - begin ? n : end - begin;
        n = n < PIECE ? n : PIECE;
        status = read_blocks(b, s, begin, begin + n, piece);
        if (status == TENMAP_OK)
            status = read_batch(b);
        copy_bits(raw + seg->at, (begin - seg->begin) * s->wire_bits, piece, 0, n * s->wire_bits);
        begin += n;
    }
    return status;
}

/*
 * Reads units [begin, end) of a segment into their place in the chunk. It always uses tenmap_load,
 * which checks its reads: tenmap_read on a mapped model touches the mapping, which is SIGBUS if the
 * file was truncated.
 */
static tenmap_status read_run(batch *b, const plan_segment *seg, uint64_t begin, uint64_t end,
                              unsigned char *raw) {
    const plan_stream *s = &b->l->plan.streams[seg->stream];
    uint32_t stored_bits = tenmap_dtype_bits(s->dtype);
    uint64_t together = unit_elements(s->dtype),
             whole = 1; /* the units that make whole bytes in both dtypes */
    if (s->wire_bits % 8 || stored_bits % 8)
        whole = s->wire_bits % 4 || stored_bits % 4 ? 4 : 2;
    if (last_axis(tensor_of(b->l->model, s->id), s->dtype) % whole != 0) {
        tenmap_status status = read_batch(b); /* it gets its own batch */
        return status == TENMAP_OK ? read_odd_rows(b, seg, begin, end, raw) : status;
    }
    begin -= begin % whole;
    end += end % whole ? whole - end % whole : 0;
    return read_blocks(b, s, begin * together, end * together,
                       raw + seg->at + (begin - seg->begin) * s->wire_bits / 8);
}

static tenmap_status read_chunk(const loading *l, const plan_chunk *c, unsigned char *raw,
                                tenmap_error *error) {
    batch b = {.l = l, .error = error, .behind = UINT64_MAX};
    tenmap_status status = TENMAP_OK;
    for (size_t i = 0; i < c->segment_count && status == TENMAP_OK; i++) {
        const plan_segment *seg = &c->segments[i];
        const plan_stream *s = &l->plan.streams[seg->stream];
        uint64_t begin, end, at = seg->begin;
        while (status == TENMAP_OK && plan_wanted_run(&l->plan, s, at, seg->end, &begin, &end) &&
               begin < seg->end) {
            end = end < seg->end ? end : seg->end;
            status = read_run(&b, seg, begin, end, raw);
            at = end;
        }
    }
    return status == TENMAP_OK ? read_batch(&b) : status;
}

/* Reads the next requested chunk. Only one thread calls this. */
static void read_one(loading *l, uint64_t number) {
    own_chunk *own = &l->reading.own[number % OWN_CHUNKS];
    const own_chunk *last = &l->reading.own[(number + OWN_CHUNKS - 1) % OWN_CHUNKS];
    memset(&own->error, 0, sizeof own->error);
    own->status = last->status; /* its message has been reported already */
    if (own->status == TENMAP_OK)
        own->status = read_chunk(l, &own->chunk, own->raw, &own->error);
    own->error.index = 0; /* it is not a request of the caller */
}

static void *read_ahead(void *ctx) {
    loading *l = ctx;
    reading *r = &l->reading;
    pthread_mutex_lock(&r->lock);
    while (!r->stop) {
        if (r->done == r->asked) {
            pthread_cond_wait(&r->turn, &r->lock);
            continue;
        }
        uint64_t number = r->done;
        pthread_mutex_unlock(&r->lock);
        read_one(l, number);
        pthread_mutex_lock(&r->lock);
        r->done++;
    }
    pthread_mutex_unlock(&r->lock);
    return NULL;
}

/* Requests as many chunks of this rank as there are free buffers. */
static void ask_ahead(loading *l) {
    reading *r = &l->reading;
    bool more = true;
    for (;;) {
        own_chunk *own = &r->own[r->asked % OWN_CHUNKS];
        /* Cannot fail: the walk without data has made room for every chunk. */
        if (own->held || !plan_next(&l->plan, &r->walk, &r->at, r->end, &own->chunk, &more) ||
            !more)
            return;
        own->held = true;
        if (r->threaded)
            pthread_mutex_lock(&r->lock);
        r->asked++;
        if (r->threaded) {
            pthread_cond_signal(&r->turn);
            pthread_mutex_unlock(&r->lock);
        }
    }
}

static bool is_read(loading *l, uint64_t number) {
    reading *r = &l->reading;
    if (!r->threaded) {
        if (r->done < r->asked)
            read_one(l, r->done++);
        return r->done > number;
    }
    pthread_mutex_lock(&r->lock);
    bool done = r->done > number;
    pthread_mutex_unlock(&r->lock);
    return done;
}

static void begin_reading(loading *l) {
    reading *r = &l->reading;
    if (!may_have_threads() || pthread_mutex_init(&r->lock, NULL) != 0)
        return;
    if (pthread_cond_init(&r->turn, NULL) != 0) {
        pthread_mutex_destroy(&r->lock);
        return;
    }
    r->threaded = true; /* before the thread reads it */
    if (pthread_create(&r->thread, NULL, read_ahead, l) != 0) {
        r->threaded = false; /* then the calling thread reads */
        pthread_cond_destroy(&r->turn);
        pthread_mutex_destroy(&r->lock);
    }
}

static void end_reading(loading *l) {
    reading *r = &l->reading;
    if (!r->threaded)
        return;
    pthread_mutex_lock(&r->lock);
    r->stop = true;
    pthread_cond_signal(&r->turn);
    pthread_mutex_unlock(&r->lock);
    pthread_join(r->thread, NULL);
    pthread_cond_destroy(&r->turn);
    pthread_mutex_destroy(&r->lock);
    r->threaded = false;
}

/*
 * Chunks under way
 */

static bool for_all(const loading *l, uint32_t group) {
    return l->plan.groups[group].members == (size_t)l->size;
}

static bool is_member(const loading *l, uint32_t group) {
    return plan_has(l->plan.sets + group * l->plan.words, l->taker_of[l->rank]);
}

static void report_progress(loading *l) {
    uint64_t done = l->delivered / 8, total = l->plan.total / 8;
    if (l->options.progress && done < total && l->status == TENMAP_OK &&
        l->options.progress(l->options.ctx, done, total) != 0)
        fail_here(l, TENMAP_ERR_CANCELLED, "the load was cancelled by its progress function");
}

/* Adds an MPI request that this chunk waits for. */
static MPI_Request *next_request(flight *f, uint32_t about) {
    f->about[f->request_count] = about;
    f->pending++;
    return &f->requests[f->request_count++];
}

/* Forwards a message to this rank's children in the tree. */
static bool send_on(loading *l, flight *f, uint32_t m, const plan_route *route) {
    const plan_message *message = &f->chunk.messages[m];
    for (int i = 0; i < route->children; i++) {
        if (!went_well(l,
                       MPI_Isend(f->base + f->at[m], (int)message->bytes, MPI_BYTE, route->child[i],
                                 (int)(f->tag + m), l->comm, next_request(f, NOT_A_MESSAGE))))
            return false;
        l->counts.sent += message->bytes;
    }
    return true;
}

/*
 * A message has arrived: forwards it, then writes it into this rank's destinations unless it is
 * marked bad.
 */
static bool arrived(loading *l, flight *f, uint32_t m) {
    const plan_message *message = &f->chunk.messages[m];
    plan_route route;
    l->counts.received += message->bytes;
    if (!for_all(l, message->group)) {
        plan_find_route(&l->plan, message->group, f->reader, l->rank, l->scratch, &route);
        if (!send_on(l, f, m, &route))
            return false;
    }
    if (f->base[f->at[m] + message->bytes - 1] == 0 && l->status == TENMAP_OK) {
        uint64_t now = l->when;
        l->when = f->step;
        place_message(l, f, m);
        l->when = l->status == TENMAP_OK ? now : f->step;
    }
    return true;
}

static void land(loading *l, flight *f) {
    f->busy = false;
    l->delivered += f->chunk.read;
    if (f->own) {
        f->own->held = false;
        ask_ahead(l);
    }
    report_progress(l);
}

/* Tests everything in flight once; sets *moved if something happened. */
static bool look(loading *l, bool *moved) {
    for (int i = 0; i < FLIGHTS; i++) {
        flight *f = &l->flights[i];
        int n = 0;
        if (!f->busy)
            continue;
        if (f->pending && !went_well(l, MPI_Testsome(f->request_count, f->requests, &n, f->finished,
                                                     f->statuses)))
            return false;
        n = n == MPI_UNDEFINED ? 0 : n;
        for (int k = 0; k < n; k++) {
            uint32_t m = f->about[f->finished[k]];
            f->pending--;
            *moved = true;
            if (m != NOT_A_MESSAGE && !arrived(l, f, m))
                return false;
        }
        if (f->pending == 0) {
            land(l, f);
            *moved = true;
        }
    }
    return true;
}

/* Yields the processor when nothing happens, for longer the longer that lasts. */
static void rest(unsigned *idle) {
    struct timespec pause = {0, *idle < 20 ? 0 : *idle < 200 ? 20000 : 100000};
    ++*idle;
    nanosleep(&pause, NULL);
}

/* Makes progress while waiting. `idle` counts how often nothing happened. */
static bool wait_a_little(loading *l, unsigned *idle) {
    bool moved = false;
    if (!look(l, &moved))
        return false;
    if (moved)
        *idle = 0;
    else
        rest(idle);
    return true;
}

static bool wait_for_flight(loading *l, const flight *f) {
    unsigned idle = 0;
    while (f->busy)
        if (!wait_a_little(l, &idle))
            return false;
    return true;
}

static bool wait_for_read(loading *l, uint64_t number) {
    unsigned idle = 0;
    while (!is_read(l, number))
        if (!wait_a_little(l, &idle))
            return false;
    return true;
}

/* Packs the messages from the chunk as it was read: each cell's runs one after the other. */
static void pack(const loading *l, flight *f, const unsigned char *raw) {
    const plan_chunk *c = &f->chunk;
    for (size_t i = 0; i < c->piece_count; i++) {
        const plan_piece *piece = &c->pieces[i];
        const plan_segment *seg = &c->segments[piece->segment];
        const plan_stream *s = &l->plan.streams[seg->stream];
        unsigned char *dst = f->base + f->at[piece->message] + piece->at;
        uint64_t begin, end, bit = 0;
        for (uint64_t at = seg->begin;
             plan_run(s, &l->plan.cells[piece->cell].box, at, &begin, &end) && begin < seg->end;
             at = end) {
            end = end < seg->end ? end : seg->end;
            copy_bits(dst, bit, raw + seg->at, (begin - seg->begin) * s->wire_bits,
                      (end - begin) * s->wire_bits);
            bit += (end - begin) * s->wire_bits;
        }
    }
}

/* Sends this rank's own messages to their receivers, and places what it wants of them itself. */
static bool send_all(loading *l, flight *f) {
    plan_route route;
    for (uint32_t m = 0; m < f->chunk.message_count; m++) {
        const plan_message *message = &f->chunk.messages[m];
        f->base[f->at[m] + message->bytes - 1] = f->bad;
        if (for_all(l, message->group)) {
            if (!went_well(l, MPI_Ibcast(f->base + f->at[m], (int)message->bytes, MPI_BYTE, l->rank,
                                         l->comm, next_request(f, NOT_A_MESSAGE))))
                return false;
        } else {
            plan_find_route(&l->plan, message->group, l->rank, l->rank, l->scratch, &route);
            if (!send_on(l, f, m, &route))
                return false;
        }
        if (!f->bad && is_member(l, message->group))
            place_message(l, f, m);
    }
    return true;
}

/* Starts a chunk that this rank has read: sends all of its messages. */
static bool set_out(loading *l, flight *f, uint64_t number) {
    own_chunk *own = &l->reading.own[number % OWN_CHUNKS];
    uint64_t at = 0;
    if (!wait_for_read(l, number))
        return false;
    l->when = l->status == TENMAP_OK ? f->step : l->when;
    if (own->status != TENMAP_OK)
        fail_with(l, own->status, &own->error);
    f->bad = l->status != TENMAP_OK;
    f->own = f->chunk.as_it_lies ? own : NULL;
    f->base = f->own ? own->raw : f->room;
    for (size_t m = 0; m < f->chunk.message_count; m++) {
        uint64_t bytes = f->chunk.messages[m].bytes;
        f->at[m] = at;
        at += (bytes + PLAN_ALIGN - 1) / PLAN_ALIGN * PLAN_ALIGN;
    }
    if (!f->own) {
        if (!f->bad)
            pack(l, f, own->raw);
        own->held = false;
        ask_ahead(l);
    }
    l->counts.read += f->chunk.read;
    return send_all(l, f);
}

/* Starts a chunk that another rank reads: waits for the messages that concern this rank. */
static bool await(loading *l, flight *f) {
    uint64_t at = 0;
    plan_route route;
    f->base = f->room;
    for (uint32_t m = 0; m < f->chunk.message_count; m++) {
        const plan_message *message = &f->chunk.messages[m];
        int bytes = (int)message->bytes, code;
        if (!is_member(l, message->group))
            continue;
        f->at[m] = at;
        at += (message->bytes + PLAN_ALIGN - 1) / PLAN_ALIGN * PLAN_ALIGN;
        if (for_all(l, message->group)) {
            code = MPI_Ibcast(f->base + f->at[m], bytes, MPI_BYTE, f->reader, l->comm,
                              next_request(f, m));
        } else {
            plan_find_route(&l->plan, message->group, f->reader, l->rank, l->scratch, &route);
            code = MPI_Irecv(f->base + f->at[m], bytes, MPI_BYTE, route.parent, (int)(f->tag + m),
                             l->comm, next_request(f, m));
        }
        if (!went_well(l, code))
            return false;
    }
    return true;
}

/*
 * Whether some rank has failed, which all ranks learn in the same step: the result of the vote
 * VOTES steps ago. Also begins the vote of this step.
 */
static bool vote(loading *l, uint64_t step, bool last, bool *stop) {
    int i = (int)(step % VOTES), done = 0;
    unsigned idle = 0;
    if (step >= VOTES || last) {
        while (!done) {
            bool moved = false;
            if (!went_well(l, MPI_Test(&l->vote[i], &done, MPI_STATUS_IGNORE)) || !look(l, &moved))
                return false;
            if (!done && !moved)
                rest(&idle);
        }
        *stop = *stop || l->vote_out[i];
    }
    if (last || *stop)
        return true;
    l->vote_in[i] = l->status != TENMAP_OK;
    return went_well(l, MPI_Iallreduce(&l->vote_in[i], &l->vote_out[i], 1, MPI_INT, MPI_MAX,
                                       l->comm, &l->vote[i]));
}

/* Starts the next chunk of a reader, once there is room for it. */
static bool take_off(loading *l, int k, uint64_t item, uint64_t step, uint64_t *own) {
    flight *f = &l->flights[item % FLIGHTS];
    bool more;
    if (!wait_for_flight(l, f))
        return false;
    (void)plan_next(&l->plan, &l->walk, &l->at[k], l->end[k], &f->chunk, &more);
    if (!more)
        return true; /* nobody wants any of the rest, so no rank has a chunk here */
    f->reader = l->plan.reader[k];
    f->step = step;
    f->bad = false;
    f->own = NULL;
    f->request_count = f->pending = 0;
    f->tag = (uint32_t)(item % TAGS_IN_TURN) * PLAN_MESSAGES;
    bool moved;
    if (!(f->reader == l->rank ? set_out(l, f, (*own)++) : await(l, f)))
        return false;
    f->busy = true;
    return look(l, &moved);
}

/*
 * The schedule: in each step, one chunk of each reader. Returns when nothing is in flight anymore.
 */
static bool deliver(loading *l) {
    uint64_t item = 0, own = 0, step;
    bool stop = false;
    report_progress(l);
    ask_ahead(l);
    for (step = 0; step < l->most.steps && !stop; step++) {
        if (!vote(l, step, false, &stop))
            return false;
        for (int k = 0; k < l->plan.readers && !stop; k++)
            if (plan_place_before(l->at[k], l->end[k]) && !take_off(l, k, item++, step, &own))
                return false;
    }
    for (int i = 0; i < FLIGHTS; i++)
        if (!wait_for_flight(l, &l->flights[i]))
            return false;
    for (int i = 0; i < VOTES; i++)
        if (!vote(l, step + (uint64_t)i, true, &stop))
            return false;
    return true;
}

/*
 * Memory for all of it
 */

/* Counts what this rank needs for a chunk: its MPI requests, and the room for its messages. */
static void survey_chunk(loading *l, const plan_chunk *c, int reader) {
    survey *most = &l->most;
    uint64_t room = 0;
    int requests = 0;
    plan_route route;
    for (size_t m = 0; m < c->message_count; m++) {
        const plan_message *message = &c->messages[m];
        if (message->bytes > INT_MAX) /* the same on all ranks; MPI counts in int */
            fail_here(l, TENMAP_ERR_LIMIT,
                      "a message of %llu bytes, of many small pieces; give a smaller chunk_bytes",
                      (unsigned long long)message->bytes);
        if (reader != l->rank && !is_member(l, message->group))
            continue;
        room += (message->bytes + PLAN_ALIGN - 1) / PLAN_ALIGN * PLAN_ALIGN;
        requests++;
        if (!for_all(l, message->group)) {
            plan_find_route(&l->plan, message->group, reader, l->rank, l->scratch, &route);
            requests += route.children;
        }
    }
    if (reader == l->rank && c->bytes + PLAN_ALIGN > most->raw)
        most->raw = c->bytes + PLAN_ALIGN;
    if (!(reader == l->rank && c->as_it_lies) && room > most->room)
        most->room = room;
    most->requests = requests > most->requests ? requests : most->requests;
    most->messages = c->message_count > most->messages ? c->message_count : most->messages;
}

/* Runs the schedule without data. */
static bool look_ahead(loading *l) {
    for (int k = 0; k < l->plan.readers; k++) {
        plan_place at = l->at[k];
        uint64_t steps = 0;
        bool more = true;
        while (plan_place_before(at, l->end[k])) {
            if (!plan_next(&l->plan, &l->walk, &at, l->end[k], &l->most.chunk, &more)) {
                fail_here(l, TENMAP_ERR_MEMORY, "out of memory: the messages of a chunk");
                return false;
            }
            survey_chunk(l, &l->most.chunk, l->plan.reader[k]);
            if (l->status != TENMAP_OK)
                return false;
            steps++;
        }
        l->most.steps = steps > l->most.steps ? steps : l->most.steps;
    }
    return true;
}

static bool reserve_chunk(loading *l, plan_chunk *c) {
    *c = l->most.chunk;
    c->segments = take_memory(l, c->segment_room, sizeof *c->segments, "chunks");
    c->pieces = take_memory(l, c->piece_room, sizeof *c->pieces, "chunks");
    c->messages = take_memory(l, c->message_room, sizeof *c->messages, "chunks");
    return c->segments && c->pieces && c->messages;
}

static void reserve_flight(loading *l, flight *f) {
    size_t requests = (size_t)l->most.requests;
    if (!reserve_chunk(l, &f->chunk))
        return;
    f->room = take_bytes(l, l->most.room, "chunks");
    f->at = take_memory(l, l->most.messages, sizeof *f->at, "messages");
    f->requests = take_memory(l, requests, sizeof *f->requests, "messages");
    f->about = take_memory(l, requests, sizeof *f->about, "messages");
    f->finished = take_memory(l, requests, sizeof *f->finished, "messages");
    f->statuses = take_memory(l, requests, sizeof *f->statuses, "messages");
}

/* Makes room for the corners of blocks of any tensor. */
static bool reserve_corners(loading *l) {
    reading *r = &l->reading;
    r->axes = PLAN_AXES;
    for (size_t i = 0; i < l->plan.stream_count; i++) {
        uint32_t rank = tensor_of(l->model, l->plan.streams[i].id)->rank;
        r->axes = rank > r->axes ? rank : r->axes;
    }
    r->corners = take_memory(l, 2 * r->axes, sizeof *r->corners, "the axes of a tensor");
    return r->corners;
}

static void take_buffers(loading *l) {
    size_t readers = (size_t)l->plan.readers;
    if (!reserve_corners(l))
        return;
    l->at = take_memory(l, 2 * readers, sizeof *l->at, "the readers");
    if (!l->at || !plan_walk_begin(&l->walk, &l->plan) ||
        !plan_walk_begin(&l->reading.walk, &l->plan)) {
        fail_here(l, TENMAP_ERR_MEMORY, "out of memory: the messages of a chunk");
        return;
    }
    l->end = l->at + readers;
    for (int k = 0; k < l->plan.readers; k++) {
        l->at[k] = plan_border(&l->plan, k);
        l->end[k] = plan_border(&l->plan, k + 1);
        if (l->plan.reader[k] == l->rank) {
            l->reading.at = l->at[k];
            l->reading.end = l->end[k];
        }
    }
    if (!look_ahead(l))
        return;
    for (int i = 0; i < FLIGHTS; i++)
        reserve_flight(l, &l->flights[i]);
    for (int i = 0; i < OWN_CHUNKS && l->status == TENMAP_OK; i++) {
        own_chunk *own = &l->reading.own[i];
        own->raw = take_bytes(l, l->most.raw, "chunks");
        if (own->raw)
            (void)reserve_chunk(l, &own->chunk);
    }
    l->counts.buffers = OWN_CHUNKS * l->most.raw + FLIGHTS * l->most.room;
    l->counts.plan = plan_bytes(&l->plan) + l->lists_words * sizeof *l->lists;
}

/* Not after an error of MPI, which may still write into the buffers. */
static void free_buffers(loading *l) {
    if (l->mpi_failed)
        return;
    for (int i = 0; i < FLIGHTS; i++) {
        flight *f = &l->flights[i];
        plan_chunk_free(&f->chunk);
        free(f->room);
        free(f->at);
        free(f->requests);
        free(f->about);
        free(f->finished);
        free(f->statuses);
    }
    for (int i = 0; i < OWN_CHUNKS; i++) {
        plan_chunk_free(&l->reading.own[i].chunk);
        free(l->reading.own[i].raw);
    }
    free(l->reading.corners);
    plan_chunk_free(&l->most.chunk);
    plan_walk_free(&l->reading.walk);
    plan_walk_free(&l->walk);
    plan_free(&l->plan);
    free(l->at);
    free(l->mine);
    free(l->known);
    free(l->list);
    free(l->lists);
    free(l->heads);
    free(l->counts_of);
}

/*
 * The load
 */

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

/*
 * One copy per host
 */

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
        fail_here(
            &x->l, TENMAP_ERR_MEMORY,
            "out of memory: shared windows of %.0f bytes on this host, where /dev/shm has %.0f "
            "left; it may be made larger",
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
        fail_here(l, TENMAP_ERR_MEMORY, "out of memory: MPI has no shared window of %llu bytes",
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
