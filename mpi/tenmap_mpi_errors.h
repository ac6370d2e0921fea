/*
 * Errors that all ranks share: how one rank fails, and how all ranks agree on whose error counts.
 */
#ifndef TENMAP_MPI_ERRORS_H
#define TENMAP_MPI_ERRORS_H

#include <stdarg.h>
#include <stdio.h>

#include "tenmap_mpi_state.h"

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
 * Makes a message valid UTF-8 without control characters. Paths may have other bytes, messages of
 * MPI have several lines, and a long text may have been cut inside a character.
 */
static void make_printable(char *message) {
    for (unsigned char *s = (unsigned char *)message; *s;) {
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
    make_printable(l->error.message);
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
        make_printable(told.message);
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
                  "the communicator is an intercommunicator; merge its two sides with "
                  "MPI_Intercomm_merge");
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

#endif
