/* The state of one collective call on one rank, and its limits. */
#ifndef TENMAP_MPI_STATE_H
#define TENMAP_MPI_STATE_H

#include <limits.h>
#include <pthread.h>

#include "tenmap_mpi.h"
#include "tenmap_mpi_plan.h"

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

/*
 * Whether the tensor has no bytes of its own in the file, so that only its values can be read: it
 * is dequantized, or its elements do not lie one after the other.
 */
static bool has_no_bytes(const tenmap_tensor *t) {
    return t->flags & TENMAP_TENSOR_COMPUTED;
}

static bool is_dequantized(const tenmap_tensor *t) {
    return has_no_bytes(t) && strcmp(tenmap_scheme_of(t)->name, "strided") != 0;
}

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

#endif
